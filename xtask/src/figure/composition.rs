//! `figure composition`: B, A and A o B side by side; the colour follows an element through all three.
//!
//! The subjects are B and A. A cell of B has the colour of the element that B names, a cell of A the colour of its index,
//! and a cell of A o B the colour of the element that B names there. The cells show offsets.
//!
//! Keys:
//! - `element`: the number of an element to outline in all three.

use colex_draw::{ColorBy, Fill, Grid, LabelBy, Mark, Picture, Table};
use colex_layout::Layout;

use super::options::{nesting, parsed};
use super::{Body, Error};

pub(super) fn draw(body: &Body) -> Result<Picture, Error> {
    let [b, a] = body.subjects()? else {
        return Err(Error::new("the subjects are B and A of A o B"));
    };
    let (b, a): (Layout, Layout) = (b.parse()?, a.parse()?);
    let both = a.composition(&b)?;
    let outlined = body.value("element");
    let outlined: Option<i64> = outlined
        .map(|text| parsed(text, "the number of an element"))
        .transpose()?;
    let [order, place] = [&b, &a].map(Table::of);
    let (order, place) = (order?, place?);
    let named = |row, col| order.at(row, col);
    let index = |row, col| row + place.rows() * col;
    let colours = Colours {
        elements: a.size(),
        outlined,
    };
    let grids = [
        colours.on(&b, "B", named)?,
        colours.on(&a, "A", index)?,
        colours.on(&both, "A o B", named)?,
    ];
    let title = format!("B = {b}, A = {a}, and A o B; a colour is an element");
    Ok(Picture::beside(grids).title(title))
}

/// The colours of elements, and the one to outline.
struct Colours {
    elements: i64,
    outlined: Option<i64>,
}

impl Colours {
    /// The colour of an element: neighbours differ in hue, and elements of one hue in strength.
    fn of(&self, element: i64) -> Fill {
        let strength = if self.elements <= 16 { 3 } else { 1 };
        Fill::thread(element.rem_euclid(8) * 4 + element.div_euclid(8) * strength % 4)
    }

    /// The offsets of a layout, coloured by an element's number.
    fn on(
        &self,
        layout: &Layout,
        name: &str,
        element: impl Fn(i64, i64) -> i64,
    ) -> Result<Grid, Error> {
        let table = Table::of(layout)?;
        let plain = table.grid(ColorBy::Nothing, LabelBy::Offset);
        let cell = |row, col| {
            let element = element(row, col);
            let mut cell = plain.cell(row, col).clone().filled(self.of(element));
            if self.outlined == Some(element) {
                cell.mark = Mark::Focus;
            }
            cell
        };
        let grid = Grid::from_fn(table.rows(), table.cols(), cell)?;
        let [down, right] = nesting(layout)?;
        let grid = grid.nested(down, right);
        Ok(grid.caption(format!("{name} = {}", table.heading())))
    }
}

#[cfg(test)]
mod tests {
    use crate::figure::{draw, refused};

    #[test]
    fn a_colour_follows_an_element() {
        let html = draw("composition", "(4,3):(3,1)\n(6,2):(8,2)").expect("they compose");
        assert!(html.contains("((2,2),3):((24,2),8)"));
        // Element 7 is B(2,1), index (1,1) of A, and the offset 10 of both.
        let of_seven = html.matches("cx-t28\"").count();
        assert_eq!(of_seven, 3, "{html}");
    }

    #[test]
    fn an_element_is_outlined_in_all_three() {
        let body = "(4,3):(3,1)\n(6,2):(8,2)\nelement = 7";
        let html = draw("composition", body).expect("they compose");
        assert_eq!(html.matches("font-weight=\"bold\"").count(), 3, "{html}");
        assert_eq!(
            refused("composition", "4:1\n4:1\nelement = x"),
            "`x` is not the number of an element: invalid digit found in string"
        );
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
