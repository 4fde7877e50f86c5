//! `figure composition`: B, A and A o B side by side; the colour follows an element through all three.
//!
//! The subjects are B and A. A cell of B has the colour of the element that B names, a cell of A the colour of its index,
//! and a cell of A o B the colour of the element that B names there. The cells show offsets.

use colex_draw::{ColorBy, Fill, Grid, LabelBy, Picture, Table};
use colex_layout::Layout;

use super::{Body, Error};

pub(super) fn draw(body: &Body) -> Result<Picture, Error> {
    let [b, a] = body.subjects()? else {
        return Err(Error::new("the subjects are B and A of A o B"));
    };
    let (b, a): (Layout, Layout) = (b.parse()?, a.parse()?);
    let both = a.composition(&b)?;
    let [order, place, both] = [&b, &a, &both].map(Table::of);
    let (order, place, both) = (order?, place?, both?);
    let named = |row, col| order.at(row, col);
    let index = |row, col| row + place.rows() * col;
    let grids = [
        coloured(&order, "B", named)?,
        coloured(&place, "A", index)?,
        coloured(&both, "A o B", named)?,
    ];
    let title = format!("B = {b}, A = {a}, and A o B; a colour is an element");
    Ok(Picture::beside(grids).title(title))
}

/// The offsets of a layout, coloured by an element's number.
fn coloured(table: &Table, name: &str, element: impl Fn(i64, i64) -> i64) -> Result<Grid, Error> {
    let plain = table.grid(ColorBy::Nothing, LabelBy::Offset);
    let cell = |row, col| {
        let fill = Fill::thread(element(row, col));
        plain.cell(row, col).clone().filled(fill)
    };
    let grid = Grid::from_fn(table.rows(), table.cols(), cell)?;
    Ok(grid.caption(format!("{name} = {}", table.heading())))
}

#[cfg(test)]
mod tests {
    use crate::figure::{draw, refused};

    #[test]
    fn a_colour_follows_an_element() {
        let html = draw("composition", "(4,3):(3,1)\n(6,2):(8,2)").expect("they compose");
        assert!(html.contains("((2,2),3):((24,2),8)"));
        // Element 7 is B(2,1), index (1,1) of A, and the offset 10 of both.
        let of_seven = html.matches("cx-t7\"").count();
        assert_eq!(of_seven, 3, "{html}");
    }

    #[test]
    fn mistakes_are_sentences() {
        assert_eq!(
            refused("composition", "4:1"),
            "the subjects are B and A of A o B"
        );
        let carries = refused("composition", "4:3\n(4,3):(1,10)");
        assert!(
            carries.starts_with("(4,3):(1,10) o 4:3 is not a layout over the modes of 4:3"),
            "{carries}"
        );
    }
}
