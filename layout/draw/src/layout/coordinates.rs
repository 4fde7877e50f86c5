//! Layouts whose values are coordinates, drawn.

use crate::error::Error;
use crate::table::check_cells;
use crate::{Cell, Fill, Grid, Nesting};
use colex_layout::IntoLayout;

impl Grid {
    /// Returns the coordinates that a layout with coordinate strides gives, arranged as [`Table::of`](crate::Table::of)
    /// arranges offsets.
    ///
    /// Colours tell neighbouring coordinates apart.
    ///
    /// # Errors
    ///
    /// Returns an error if there are more than [`MAX_CELLS`](crate::MAX_CELLS) cells. It also returns the errors of
    /// [`Layout::coord_at`](colex_layout::Layout::coord_at).
    ///
    /// # Example
    ///
    /// ```
    /// use colex_draw::Grid;
    /// let transposed = Grid::of_coordinates("(2,3):(1@1,1@0)")?;
    /// assert_eq!(transposed.cell(1, 2).lines.as_slice(), ["(2,1)"]);
    /// # Ok::<(), colex_draw::Error>(())
    /// ```
    pub fn of_coordinates(layout: impl IntoLayout) -> Result<Self, Error> {
        let layout = &layout.into_layout()?;
        let name = alloc::string::ToString::to_string(layout);
        check_cells(&name, Some(layout.size()))?;
        let values = (0..layout.size()).map(|index| layout.coord_at(index));
        let values = values.collect::<Result<alloc::vec::Vec<_>, _>>()?;
        let rows = if layout.rank() > 1 {
            layout.get(&[0])?.size()
        } else {
            1
        };
        let cell = |row: i64, col: i64| {
            let value = &values[(row + rows * col) as usize];
            let leaves = value.leaves().iter().zip([1, 3, 5, 7].iter().cycle());
            let mixed = leaves.fold(0_i64, |sum, (n, factor)| {
                sum.wrapping_add(n.value().wrapping_mul(*factor))
            });
            Cell::new([alloc::format!("{value:#}")]).filled(Fill::pastel(mixed))
        };
        let nesting = match layout.rank() {
            0 | 1 => (Nesting::default(), Nesting::of_layout(layout)),
            rank => (
                Nesting::of_layout(&layout.get(&[0])?),
                Nesting::of_layout(&layout.take(1..rank)?),
            ),
        };
        let grid = Self::filled(rows, layout.size() / rows, cell);
        Ok(grid.caption(name).nested(nesting.0, nesting.1))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use insta::assert_snapshot;

    #[test]
    fn every_cell_shows_its_coordinate() {
        let grid = Grid::of_coordinates("((2,2),3):((1@0,4@0),2@1)").expect("the layout is small");
        for (row, col) in (0..4).flat_map(|row| (0..3).map(move |col| (row, col))) {
            let (down, right) = (row % 2 + row / 2 * 4, 2 * col);
            let line = alloc::format!("({down},{right})");
            assert_eq!(grid.cell(row, col).lines.as_slice(), [line]);
        }
    }

    #[test]
    fn a_picture_of_coordinates() {
        let grid = Grid::of_coordinates("(3,(2,2)):(1@0,(1@1,4@1))").expect("the layout is small");
        assert_snapshot!("svg_coordinates", crate::Picture::of(grid).svg());
    }
}
