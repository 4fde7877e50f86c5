//! Figures of the book: a fence in a chapter becomes an SVG when the book is built.
//!
//! The fence's info string is `figure KIND`; its lines are `key = value`, or a subject of the drawing alone:
//!
//! ````text
//! ```figure layout
//! (4,8):(8,1)
//! caption = Row-major: the second mode is contiguous.
//! ```
//! ````
//!
//! Every kind takes `caption`; every kind that is made of grids takes `elide`, ranges of `rows`, of `columns` or of an axis that the
//! drawing leaves out, such as `rows 18..62` or `m 12..28; n 12..28`. A key that the kind does not know is an error.
//!
//! Every kind takes `live`: the panel of the explorer that takes the figure's place where a reader touches it, and its fields,
//! such as `algebra; operation = composition; a = (6,2):(8,2); b = (4,3):(3,1)`.
//!
//! To add a kind: write `figure/KIND.rs` with a `fn draw(&Body)` that returns a [`Picture`], or one `<svg>` element with a
//! `<title>` and a `<desc>`, and add its line to [`KINDS`]. Drawings carry their own colours, for light and for dark.

mod banks;
mod bench;
mod body;
mod composition;
mod flow;
mod kernel;
mod layout;
mod mma;
mod options;
mod schedule;
mod sweep;
mod tiled;
mod tiling;
mod tma;
mod tv;

use std::fmt;
use std::ops::Range;

use colex_draw::Picture;

pub(crate) use body::Body;

/// How a kind of figure is drawn.
#[derive(Clone, Copy)]
enum Draw {
    /// As grids.
    Picture(fn(&Body) -> Result<Picture, Error>),
    /// As an `<svg>` element of its own.
    Svg(fn(&Body) -> Result<String, Error>),
}

/// Every kind of figure.
const KINDS: &[(&str, Draw)] = &[
    ("layout", Draw::Picture(layout::draw)),
    ("tv", Draw::Picture(tv::draw)),
    ("mma", Draw::Picture(mma::draw)),
    ("tiling", Draw::Picture(tiling::draw)),
    ("tiled-copy", Draw::Picture(tiled::copy)),
    ("tiled-mma", Draw::Picture(tiled::mma)),
    ("banks", Draw::Picture(banks::draw)),
    ("raster", Draw::Picture(schedule::raster)),
    ("stream-k", Draw::Picture(schedule::stream_k)),
    ("pipeline", Draw::Picture(schedule::pipeline)),
    ("ranks", Draw::Picture(schedule::ranks)),
    ("rank-timeline", Draw::Picture(schedule::rank_timeline)),
    ("rank-scaling", Draw::Svg(schedule::rank_scaling)),
    ("composition", Draw::Picture(composition::draw)),
    ("tma-box", Draw::Picture(tma::draw)),
    ("im2col", Draw::Picture(kernel::im2col::draw)),
    ("lanes", Draw::Picture(kernel::lanes::draw)),
    ("listed-rows", Draw::Picture(kernel::listed_rows::draw)),
    ("mask", Draw::Picture(kernel::mask::draw)),
    ("placements", Draw::Picture(kernel::placements::draw)),
    ("turns", Draw::Picture(kernel::turns::draw)),
    ("micro-tiles", Draw::Picture(kernel::micro_tiles::draw)),
    ("waves", Draw::Picture(kernel::waves::draw)),
    ("flags", Draw::Picture(kernel::flags::draw)),
    ("pages", Draw::Picture(kernel::pages::draw)),
    ("packed", Draw::Picture(kernel::packed::draw)),
    ("parts", Draw::Svg(kernel::parts::draw)),
    (
        "attention-plans",
        Draw::Picture(kernel::attention_plans::draw),
    ),
    ("flow", Draw::Svg(flow::draw)),
    ("bench", Draw::Svg(bench::draw)),
    ("ratios", Draw::Svg(sweep::ratios)),
    ("roofline", Draw::Svg(sweep::roofline)),
];

/// Why a figure cannot be drawn, as a sentence.
#[derive(Debug, PartialEq)]
pub(crate) struct Error(String);

impl Error {
    pub(crate) fn new(sentence: impl Into<String>) -> Error {
        Error(sentence.into())
    }
}

/// What a library refuses is the sentence of a figure.
impl<E: std::error::Error> From<E> for Error {
    fn from(error: E) -> Error {
        Error(error.to_string())
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// The figure `kind` with `body` as an HTML `<figure>` element on one line.
pub(crate) fn draw(kind: &str, body: &str) -> Result<String, Error> {
    let Some((_, draw)) = KINDS.iter().find(|(name, _)| *name == kind) else {
        let names: Vec<&str> = KINDS.iter().map(|(name, _)| *name).collect();
        return Err(Error::new(format!(
            "there is no figure of kind `{kind}`; there are: {}",
            names.join(", ")
        )));
    };
    let body = Body::parse(body)?;
    let svg = match draw {
        Draw::Picture(draw) => elided(draw(&body)?, &body)?.svg(),
        Draw::Svg(draw) => draw(&body)?,
    };
    let live = body.live()?;
    body.refuse_unread()?;
    let live = live.map(|state| format!("{LIVE}{}\"", escaped(&state)));
    let caption = body
        .caption()
        .map(|text| format!("<figcaption>{}</figcaption>", escaped(text)));
    Ok(format!(
        "<figure class=\"colex\"{}><div class=\"drawing\">{}</div>{}</figure>",
        live.unwrap_or_default(),
        at_least_three_quarters(&svg)?,
        caption.unwrap_or_default()
    )
    .replace('\n', " "))
}

/// The start of the attribute with the state of the explorer's panel.
const LIVE: &str = " data-live=\"";

/// The figure without the state of its panel: a figure that does not respond.
pub(crate) fn still(figure: &str) -> String {
    let cut = || {
        let (before, rest) = figure.split_once(LIVE)?;
        let (_, after) = rest.split_once('"')?;
        Some(format!("{before}{after}"))
    };
    cut().unwrap_or_else(|| figure.to_string())
}

/// The picture without what the key `elide` names; of one axis, the last range goes first, so that the numbers of the
/// others stay.
fn elided(picture: Picture, body: &Body) -> Result<Picture, Error> {
    let Some(text) = body.value("elide") else {
        return Ok(picture);
    };
    let parts: Result<Vec<_>, Error> = text.split(';').map(range).collect();
    let mut parts = parts?;
    parts.sort_by_key(|(_, range)| std::cmp::Reverse(range.start));
    let without =
        |picture: Picture, (axis, range): (&str, Range<i64>)| picture.without(axis, range);
    parts
        .into_iter()
        .try_fold(picture, without)
        .map_err(Error::from)
}

/// An axis and a range of it, as in `m 12..28`.
fn range(text: &str) -> Result<(&str, Range<i64>), Error> {
    let read = || {
        let (axis, range) = text.trim().split_once(' ')?;
        let (start, end) = range.trim().split_once("..")?;
        Some((axis, start.parse().ok()?..end.parse().ok()?))
    };
    read().ok_or_else(|| Error::new(format!("`{text}` is not a range such as `rows 18..62`")))
}

/// The drawing, which a narrow page shrinks to three quarters of its size and no further.
fn at_least_three_quarters(svg: &str) -> Result<String, Error> {
    let width = svg
        .split_once(" width=\"")
        .and_then(|(_, rest)| rest.split('"').next());
    let width: Option<f64> = width.and_then(|width| width.parse().ok());
    let width = width.ok_or_else(|| Error::new("the drawing does not say its width"))?;
    let style = format!("<svg style=\"min-width:{:.0}px\" ", (width * 0.75).ceil());
    Ok(svg.replacen("<svg ", &style, 1))
}

/// `text` as HTML text or attribute value.
pub(crate) fn escaped(text: &str) -> String {
    text.replace('&', "&amp;")
        .replace('<', "&lt;")
        .replace('>', "&gt;")
        .replace('"', "&quot;")
}

/// The sentence with which a figure is refused.
#[cfg(test)]
fn refused(kind: &str, body: &str) -> String {
    draw(kind, body)
        .expect_err("the figure is wrong")
        .to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_unknown_kind_names_the_known_ones() {
        let error = draw("picture", "4:1").expect_err("there is no such kind");
        assert_eq!(
            error.to_string(),
            "there is no figure of kind `picture`; there are: layout, tv, mma, tiling, tiled-copy, tiled-mma, banks, raster, stream-k, pipeline, ranks, rank-timeline, rank-scaling, composition, tma-box, im2col, lanes, listed-rows, mask, placements, turns, micro-tiles, waves, flags, pages, packed, parts, attention-plans, flow, bench, ratios, roofline"
        );
    }

    #[test]
    fn a_figure_that_responds_says_its_panel() {
        let body = "(2,3):(3,1)\nlive = layout; layout = (2,3):(3,1)";
        let html = draw("layout", body).expect("it is a layout");
        assert!(html.starts_with(
            "<figure class=\"colex\" data-live=\"panel=layout&amp;layout=%282%2C3%29%3A%283%2C1%29\"><div"
        ));
        let plain = draw("layout", "(2,3):(3,1)").expect("it is a layout");
        assert_eq!(still(&html), plain);
        assert_eq!(still(&plain), plain);
    }

    #[test]
    fn a_narrow_page_shrinks_a_drawing_to_three_quarters() {
        let html = draw("layout", "(2,3):(3,1)").expect("it is a layout");
        let width = html
            .split(" width=\"")
            .nth(1)
            .and_then(|rest| rest.split('"').next());
        let width: f64 = width
            .and_then(|width| width.parse().ok())
            .expect("a drawing has a width");
        let style = format!("<svg style=\"min-width:{:.0}px\" ", (width * 0.75).ceil());
        assert!(
            html.contains(&format!("<div class=\"drawing\">{style}")),
            "{html}"
        );
    }

    #[test]
    fn rows_and_columns_are_left_out() {
        let html = draw(
            "layout",
            "(64,8):(8,1)\nelide = columns 3..6; rows 4..20; rows 30..62",
        );
        let html = html.expect("the ranges are inside");
        for text in [
            ">⋮</text>",
            ">⋯</text>",
            "Rows 4 to 19 are left out.",
            "Rows 30 to 61 are left out.",
            ">504</text>",
        ] {
            assert!(html.contains(text), "{text}");
        }
        assert!(!html.contains(">32</text>") && !html.contains(">40</text>"));
        assert!(html.find("Rows 4 to") < html.find("Rows 30 to"));
        let error = |elide: &str| {
            let body = format!("(4,8):(8,1)\nelide = {elide}");
            draw("layout", &body).expect_err("it is wrong").to_string()
        };
        assert_eq!(error("rows"), "`rows` is not a range such as `rows 18..62`");
        assert_eq!(
            error("m 0..1"),
            "draw of a picture without m 0 to 0: no grid has this axis"
        );
    }

    #[test]
    fn text_is_escaped() {
        assert_eq!(
            escaped("<3:3, \"a\" & b>"),
            "&lt;3:3, &quot;a&quot; &amp; b&gt;"
        );
    }
}
