//! `figure layout`: the offsets of a layout, rows along its first mode; several layouts stand side by side.
//!
//! Keys:
//! - `color`: what the colours say, one of `cycle` (the offset modulo 8), `offset`, `index`, `nothing` and `bank BITS`,
//!   where BITS is the width of an element; or `by L; ..`, where the layout L, one for each subject, maps the index of
//!   a cell to the number of its colour; or `inside (M,N)`, which leaves the cells outside M rows and N columns grey; or
//!   `modulo N`, the offset modulo N, up to 8;
//! - `label`: what stands in the cells, one of `offset`, `index`, `coord`, `nothing` and `bank BITS`;
//! - `highlight`: coordinates, separated by `;`, with `_` for whole modes; with `|` between them, those of each subject;
//! - `outline`: the same, but the other cells keep their colours;
//! - `titles`: the texts above the grids, separated by `;`, in place of the layouts;
//! - `legend`: `none` leaves out the scale of the colours;
//! - `place`: `above` puts the grids one above the other;
//! - `rows` and `columns`: the names beside the rows and above the columns of every grid, separated by `;`, in place of
//!   their numbers.
//!
//! Layouts with coordinate strides, such as `(4,8):(1@0,1@1)`, show their coordinates; they have no `label`, and of the
//! colours only `nothing`, `by` and `inside`.

use colex_draw::{ColorBy, Fill, Grid, Headers, LabelBy, Picture, Table};
use colex_layout::Layout;

use super::options::{
    color, inner, is_composed, label, marked, nesting, pair, parsed, table, titles,
};
use super::{Body, Error};

pub(super) fn draw(body: &Body) -> Result<Picture, Error> {
    let texts = body.subjects()?;
    let paint = Paint::of(body, texts.len())?;
    if is_of_coordinates(&texts[0])? {
        let paint = match body.value("color") {
            Some("nothing") => Some(Paint::Nothing),
            Some(name) if paint.is_none() => {
                return Err(Error::new(format!(
                    "coordinates have no color `{name}`; they have: nothing, by LAYOUT, inside (M,N)"
                )));
            }
            _ => paint,
        };
        let grid = |text: &String| Ok(Grid::of_coordinates(inner(text)?)?);
        let grids = texts.iter().map(grid).collect::<Result<_, Error>>()?;
        return placed(body, finished(body, grids, paint.as_ref())?, Vec::new());
    }
    let color = match &paint {
        None => color(body)?,
        Some(_) => ColorBy::Nothing,
    };
    let label = label(body, LabelBy::Offset)?;
    let tables = texts.iter().map(|text| table(text));
    let tables: Vec<Table> = tables.collect::<Result<_, _>>()?;
    let keys = [
        "highlight",
        "outline",
        "titles",
        "legend",
        "rows",
        "columns",
    ];
    let is_plain = keys.iter().all(|key| body.value(key).is_none());
    if let ([table], None, true) = (tables.as_slice(), &paint, is_plain) {
        return Ok(table.picture(color, label));
    }
    let grids = tables
        .iter()
        .map(|table| table.grid(color, label))
        .collect();
    let legend = tables[0].legend(color);
    placed(body, finished(body, grids, paint.as_ref())?, legend)
}

fn is_of_coordinates(text: &str) -> Result<bool, Error> {
    Ok(!is_composed(text) && inner(text)?.has_coordinate_values())
}

/// The grids with their own colours, the cells in focus, and titles.
fn finished(body: &Body, grids: Vec<Grid>, paint: Option<&Paint>) -> Result<Vec<Grid>, Error> {
    let texts = body.subjects()?;
    let titles = titles(body, texts.len())?;
    let mut finished = Vec::new();
    for (at, (mut grid, text)) in grids.into_iter().zip(texts).enumerate() {
        if let Some(paint) = paint {
            grid = paint.on(&grid, at, text)?;
        }
        grid = marked(grid, body, at, text)?;
        let [down, across] = ["rows", "columns"].map(|key| names(body.value(key)));
        if body.value("rows").or(body.value("columns")).is_some() {
            grid = grid.headers(down, across);
        }
        finished.push(match titles.get(at) {
            Some(title) => grid.caption(*title),
            None => grid,
        });
    }
    Ok(finished)
}

/// The names of rows or columns; their numbers if the key is absent.
fn names(text: Option<&str>) -> Headers {
    text.map_or(Headers::Numbers, |text| {
        Headers::Named(
            text.split(';')
                .map(|name| name.trim().to_string())
                .collect(),
        )
    })
}

/// The grids as the keys `place` and `legend` say.
fn placed(body: &Body, grids: Vec<Grid>, scale: Vec<(Fill, String)>) -> Result<Picture, Error> {
    let picture = match body.value("place") {
        None => Picture::beside(grids),
        Some("above") => Picture::above(grids),
        Some(other) => return Err(Error::new(format!("`place = {other}` is not `above`"))),
    };
    match body.value("legend") {
        None => Ok(picture.legend(scale)),
        Some("none") => Ok(picture),
        Some(other) => Err(Error::new(format!("`legend = {other}` is not `none`"))),
    }
}

/// Colours that do not follow from the value in a cell.
enum Paint {
    Nothing,
    /// The value of a layout at the index of the cell, one layout for each subject.
    By(Vec<Layout>),
    /// Whether the cell is within this number of rows and of columns.
    Inside(i64, i64),
    /// The offset modulo a number.
    Modulo(i64),
}

impl Paint {
    fn of(body: &Body, subjects: usize) -> Result<Option<Paint>, Error> {
        let Some(name) = body.value("color") else {
            return Ok(None);
        };
        if let Some(shape) = name.strip_prefix("inside ") {
            let (rows, cols) = pair(shape)?;
            return Ok(Some(Paint::Inside(rows, cols)));
        }
        if let Some(number) = name.strip_prefix("modulo ") {
            let n: i64 = parsed(number, "a number")?;
            if !(1..=8).contains(&n) {
                return Err(Error::new(format!("there are 8 colours, and not {n}")));
            }
            return Ok(Some(Paint::Modulo(n)));
        }
        let Some(layouts) = name.strip_prefix("by ") else {
            return Ok(None);
        };
        let layouts = layouts
            .split(';')
            .map(|text| parsed(text.trim(), "a layout"));
        let layouts: Vec<Layout> = layouts.collect::<Result<_, _>>()?;
        if layouts.len() != subjects {
            return Err(Error::new(format!(
                "`color = {name}` has {} layouts for {subjects} subjects",
                layouts.len()
            )));
        }
        Ok(Some(Paint::By(layouts)))
    }

    /// The grid of the subject `text`, which stands at `at`, in these colours.
    fn on(&self, grid: &Grid, at: usize, text: &str) -> Result<Grid, Error> {
        let (rows, cols) = (grid.rows(), grid.cols());
        let numbers = match self {
            Paint::By(layouts) => layouts[at].table()?,
            Paint::Modulo(n) => {
                let table = table(text)?;
                let places = (0..cols).flat_map(|col| (0..rows).map(move |row| (row, col)));
                places
                    .map(|(row, col)| table.at(row, col).rem_euclid(*n))
                    .collect()
            }
            Paint::Nothing | Paint::Inside(..) => vec![0; (rows * cols) as usize],
        };
        if numbers.len() as i64 != rows * cols {
            return Err(Error::new(format!(
                "`{text}` has {} cells, and its colours are of {}",
                rows * cols,
                numbers.len()
            )));
        }
        let fill = |row: i64, col: i64| match self {
            Paint::Nothing => Fill::Blank,
            Paint::By(_) | Paint::Modulo(_) => Fill::pastel(numbers[(row + rows * col) as usize]),
            Paint::Inside(m, n) if row < *m && col < *n => Fill::pastel(0),
            Paint::Inside(..) => Fill::Void,
        };
        let cell = |row, col| grid.cell(row, col).clone().filled(fill(row, col));
        let [down, right] = nesting(&inner(text)?)?;
        let painted = Grid::from_fn(rows, cols, cell)?.nested(down, right);
        Ok(painted.caption(text))
    }
}

#[cfg(test)]
mod tests {
    use crate::figure::{draw, refused};

    #[test]
    fn a_layout_is_drawn_with_its_caption() {
        let html =
            draw("layout", "(2,3):(3,1)\ncaption = Row-major").expect("the layout is well formed");
        assert!(
            html.starts_with("<figure class=\"colex\"><div class=\"drawing\"><svg "),
            "{html}"
        );
        assert!(
            html.ends_with("<figcaption>Row-major</figcaption></figure>"),
            "{html}"
        );
        assert!(html.contains("(2,3):(3,1)") && !html.contains('\n'));
    }

    #[test]
    fn several_layouts_share_a_figure() {
        let html = draw(
            "layout",
            "(2,3):(3,1)\n(2,3):(1,2)\ncolor = offset\nlabel = coord",
        )
        .expect("both are layouts");
        assert_eq!(html.matches("<svg ").count(), 1);
        assert!(html.contains("(2,3):(3,1)") && html.contains("(2,3):(1,2)"));
    }

    #[test]
    fn offsets_are_coloured_modulo_a_number() {
        let svg = |color: &str| {
            let html = draw("layout", &format!("(3,2):(1,3)\ncolor = {color}"));
            html.expect("it is a layout")
        };
        assert_ne!(svg("modulo 3"), svg("modulo 6"));
        assert_eq!(svg("modulo 6").matches(">5</text>").count(), 1);
        assert_eq!(
            refused("layout", "4:1\ncolor = modulo 9"),
            "there are 8 colours, and not 9"
        );
    }

    #[test]
    fn coordinates_are_values_too() {
        let html = draw("layout", "(2,3):(1@1,1@0)\nhighlight = (1,_)").expect("it is a layout");
        assert!(html.contains(">(2,1)</text>"));
        let error = draw("layout", "(2,3):(1@1,1@0)\nlabel = index").expect_err("labels are fixed");
        assert_eq!(error.to_string(), "this kind of figure has no key `label`");
        assert_eq!(
            refused("layout", "(2,3):(1@1,1@0)\ncolor = offset"),
            "coordinates have no color `offset`; they have: nothing, by LAYOUT, inside (M,N)"
        );
        let plain = draw("layout", "(2,3):(1@1,1@0)\ncolor = nothing").expect("it is a layout");
        assert!(!plain.contains("class=\"cx-p"), "{plain}");
    }

    /// How many runs of cells in a row have the colour with this class.
    fn runs(html: &str, class: &str) -> usize {
        let start = format!("<path class=\"{class}\" d=\"");
        let paths = html.split(&start).skip(1);
        let paths = paths.filter_map(|rest| rest.split('"').next());
        paths.map(|path| path.matches('M').count()).sum()
    }

    #[test]
    fn colours_follow_a_layout_of_their_own() {
        let body = "((2,3),3):((1@0,2@0),1@1)\n(2,(3,3)):(1@0,(2@0,1@1))\n\
            color = by ((2,3),3):((0,0),1); (2,(3,3)):(0,(0,1))\ntitles = a table; a matrix";
        let html = draw("layout", body).expect("it is well formed");
        assert_eq!(runs(&html, "cx-p2"), 6 + 2, "{html}");
        assert!(html.contains(">a table</text>") && html.contains(">a matrix</text>"));
        let body = "(4,4):(1,2)\ncolor = inside (3,2)\nplace = above\nlegend = none";
        let html = draw("layout", body).expect("it is well formed");
        assert_eq!(runs(&html, "cx-p0"), 3, "{html}");
        let scale = |legend: &str| {
            let body = format!("(2,2):(1,2)\ncolor = index\n{legend}");
            let html = draw("layout", &body).expect("it is well formed");
            html.contains(">index 0 to 3</text>")
        };
        assert!(scale("") && !scale("legend = none"));
    }

    #[test]
    fn rows_and_columns_may_have_names() {
        let html = draw("layout", "(2,3):(3,1)\nrows = h0; h1\ncolumns = a; b; c").expect("named");
        for name in ["h0", "h1", "a", "b", "c"] {
            assert_eq!(html.matches(&format!(">{name}<")).count(), 1, "{name}");
        }
        let html = draw("layout", "(2,3):(3,1)\nrows = h0; h1").expect("rows alone have names");
        assert!(html.contains(">h1<") && html.contains(">2<"), "{html}");
    }

    #[test]
    fn coordinates_are_highlighted() {
        let bold = |body: &str| {
            let html = draw("layout", body).expect("the body is well formed");
            html.matches("font-weight=\"bold\"").count()
        };
        assert_eq!(bold("(4,6):(6,1)\nhighlight = (1,_)"), 6);
        assert_eq!(bold("(4,6):(6,1)\nhighlight = (1,2)"), 1);
        assert_eq!(bold("((2,2),6):((1,2),4)\nhighlight = ((_,1),3); (0,0)"), 3);
        assert_eq!(bold("Sw<2,0,2> o 0 o (4,4):(4,1)\nhighlight = (_,3)"), 4);
        assert_eq!(bold("8:2\nhighlight = 5"), 1);
        assert_eq!(bold("8:2\n4:1\nhighlight = 5 | 1; 2"), 3);
        assert_eq!(bold("(4,(2,3)):(1,(4,8))\noutline = (1,_)"), 6);
        assert_eq!(
            refused("layout", "8:2\n4:1\nhighlight = 5 | 1 | 2"),
            "`highlight = 5 | 1 | 2` has 3 parts for 2 subjects"
        );
    }

    #[test]
    fn mistakes_are_sentences() {
        let error = |body: &str| refused("layout", body);
        assert!(error("(2,3").starts_with("`(2,3` is not a layout: "));
        assert_eq!(
            error("4:1\ncolor = by 4:1; 4:1"),
            "`color = by 4:1; 4:1` has 2 layouts for 1 subjects"
        );
        assert_eq!(
            error("4:1\ncolor = by 5:1"),
            "`4:1` has 4 cells, and its colours are of 5"
        );
        assert_eq!(error("4:1\ntitles = a; b"), "2 titles for 1 subjects");
        assert_eq!(
            error("4:1\n4:1\nplace = below"),
            "`place = below` is not `above`"
        );
        assert_eq!(
            error("4:1\n4:1\nlegend = some"),
            "`legend = some` is not `none`"
        );
        assert!(error("Sw<3,3> o 0 o 4:1").starts_with("`Sw<3,3> o 0 o 4:1` is not a composed"));
        assert_eq!(
            error("4:1\nlabels = x"),
            "this kind of figure has no key `labels`"
        );
        assert_eq!(
            error("4:1\nlabel = x"),
            "there is no label `x`; there are: offset, index, coord, nothing, bank BITS"
        );
        assert_eq!(
            error("4:1\ncolor = bank 0"),
            "there is no color `bank 0`; there are: cycle, offset, index, nothing, bank BITS"
        );
        assert_eq!(
            error("caption = x"),
            "the figure has no subject: write it on a line of its own"
        );
        assert_eq!(
            error("(4,6):(6,1)\nhighlight = (1,2"),
            "`(1,2` is not a coordinate: expected ',' or ')' at byte 4 of \"(1,2\""
        );
    }
}
