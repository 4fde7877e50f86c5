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
//! Every kind takes `caption`. A key that the kind does not know is an error.
//!
//! To add a kind: write `figure/KIND.rs` with a `fn draw(&Body) -> Result<String, Error>` that returns one `<svg>`
//! element, and add its line to [`KINDS`]. A drawing of `colex-layout` carries its own colours, for light and for dark;
//! one of another kind takes them from `book/theme/colex.css`.

mod banks;
mod bench;
mod body;
mod layout;
mod mma;
mod options;
mod schedule;
mod tiled;
mod tiling;
mod tv;

use std::fmt;

pub(crate) use body::Body;

/// Draws one figure's `<svg>` element.
type Draw = fn(&Body) -> Result<String, Error>;

/// Every kind of figure.
const KINDS: &[(&str, Draw)] = &[
    ("layout", layout::draw),
    ("tv", tv::draw),
    ("mma", mma::draw),
    ("tiling", tiling::draw),
    ("tiled-copy", tiled::copy),
    ("tiled-mma", tiled::mma),
    ("banks", banks::draw),
    ("raster", schedule::raster),
    ("stream-k", schedule::stream_k),
    ("pipeline", schedule::pipeline),
    ("bench", bench::draw),
];

/// Why a figure cannot be drawn, as a sentence.
#[derive(Debug, PartialEq)]
pub(crate) struct Error(String);

impl Error {
    pub(crate) fn new(sentence: impl Into<String>) -> Error {
        Error(sentence.into())
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
    let svg = draw(&body)?;
    body.refuse_unread()?;
    let caption = body
        .caption()
        .map(|text| format!("<figcaption>{}</figcaption>", escaped(text)));
    Ok(format!(
        "<figure class=\"colex\">{svg}{}</figure>",
        caption.unwrap_or_default()
    )
    .replace('\n', " "))
}

/// `text` as HTML text or attribute value.
pub(crate) fn escaped(text: &str) -> String {
    text.replace('&', "&amp;")
        .replace('<', "&lt;")
        .replace('>', "&gt;")
        .replace('"', "&quot;")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_unknown_kind_names_the_known_ones() {
        let error = draw("picture", "4:1").expect_err("there is no such kind");
        assert_eq!(
            error.to_string(),
            "there is no figure of kind `picture`; there are: layout, tv, mma, tiling, tiled-copy, tiled-mma, banks, raster, stream-k, pipeline, bench"
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
