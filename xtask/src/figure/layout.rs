//! `figure layout`: the offsets of a layout, rows along its first mode; several layouts stand side by side.
//!
//! Keys:
//! - `color`: what the colours say, one of `cycle` (the offset modulo 8), `offset`, `index`, `nothing` and `bank BITS`,
//!   where BITS is the width of an element;
//! - `label`: what stands in the cells, one of `offset`, `index`, `coord`, `nothing` and `bank BITS`;
//! - `highlight`: coordinates, separated by `;`, with `_` for whole modes.
//!
//! One layout with coordinate strides, such as `(4,8):(1@0,1@1)`, shows its coordinates; it has no `color` and `label`.

use colex_draw::{Grid, LabelBy, Picture, Table};

use super::options::{color, highlight, inner, is_composed, label, table};
use super::{Body, Error};

pub(super) fn draw(body: &Body) -> Result<Picture, Error> {
    if let [text] = body.subjects()?
        && !is_composed(text)
        && inner(text)?.has_coordinate_values()
    {
        return coordinates(body, text);
    }
    let (color, label) = (color(body)?, label(body, LabelBy::Offset)?);
    let texts = body.subjects()?;
    let tables: Vec<Table> = texts
        .iter()
        .map(|text| table(text))
        .collect::<Result<_, _>>()?;
    if let ([table], None) = (tables.as_slice(), body.value("highlight")) {
        return Ok(table.picture(color, label));
    }
    let mut grids: Vec<Grid> = Vec::new();
    for (table, text) in tables.iter().zip(texts) {
        let grid = table.grid(color, label);
        grids.push(match highlight(body, text)? {
            Some(cells) => grid.focus(|row, col| cells.contains(&(row + table.rows() * col))),
            None => grid,
        });
    }
    Ok(Picture::beside(grids).legend(tables[0].legend(color)))
}

/// The values of one layout with coordinate strides; what colours and labels say is fixed.
fn coordinates(body: &Body, text: &str) -> Result<Picture, Error> {
    let grid = Grid::of_coordinates(inner(text)?)?;
    let rows = grid.rows();
    let grid = match highlight(body, text)? {
        Some(cells) => grid.focus(|row, col| cells.contains(&(row + rows * col))),
        None => grid,
    };
    Ok(Picture::of(grid))
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
    fn coordinates_are_values_too() {
        let html = draw("layout", "(2,3):(1@1,1@0)\nhighlight = (1,_)").expect("it is a layout");
        assert!(html.contains(">(2,1)</text>"));
        let error = draw("layout", "(2,3):(1@1,1@0)\nlabel = index").expect_err("labels are fixed");
        assert_eq!(error.to_string(), "this kind of figure has no key `label`");
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
    }

    #[test]
    fn mistakes_are_sentences() {
        let error = |body: &str| refused("layout", body);
        assert!(error("(2,3").starts_with("`(2,3` is not a layout: "));
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
