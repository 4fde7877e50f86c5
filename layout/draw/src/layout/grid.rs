//! Pictures of tables: the offsets of a layout by colour and by label.

use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;

use crate::{Cell, Fill, Grid, Picture, Table};

/// The bytes of one shared-memory bank.
pub const BANK_BYTES: i64 = 4;
/// The number of banks of shared memory.
pub const BANKS: i64 = 32;

/// What the colour of a cell says.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ColorBy {
    /// Nothing.
    Nothing,
    /// The offset modulo 8, as in CuTe's drawings.
    #[default]
    Cycle,
    /// The offset, on a scale from the smallest to the largest.
    Offset,
    /// The index, that is the place of the cell when the first mode runs fastest, on a scale.
    Index,
    /// The bank of shared memory in which the element begins, for elements of this number of bits.
    Bank(i64),
}

/// What stands in a cell.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum LabelBy {
    /// Nothing.
    Nothing,
    /// The offset.
    #[default]
    Offset,
    /// The index, counted with the first mode running fastest.
    Index,
    /// The coordinate (row,column).
    Coord,
    /// The bank of shared memory in which the element begins, for elements of this number of bits.
    Bank(i64),
}

/// Returns the bank of shared memory in which the element at `offset` begins, when elements have `bits` bits.
#[must_use]
pub fn bank(offset: i64, bits: i64) -> i64 {
    (i128::from(offset) * i128::from(bits))
        .div_euclid(i128::from(8 * BANK_BYTES))
        .rem_euclid(32) as i64
}

impl Table {
    /// Returns the cells of the table, coloured and labelled, under its heading and with its nested borders.
    ///
    /// # Example
    ///
    /// ```
    /// use colex_draw::{ColorBy, Fill, LabelBy, Table};
    /// let grid = Table::of("(4,8):(8,1)")?.grid(ColorBy::Cycle, LabelBy::Offset);
    /// assert_eq!(grid.cell(1, 3).lines.as_slice(), ["11"]);
    /// assert_eq!(grid.cell(1, 3).fill, Fill::Pastel(3));
    /// # Ok::<(), colex_draw::Error>(())
    /// ```
    #[must_use]
    pub fn grid(&self, color: ColorBy, label: LabelBy) -> Grid {
        // Once for all cells: the range of the offsets is that of all of them.
        let ends = self.ends(color);
        let cell = |row, col| {
            Cell::new(self.label(label, row, col)).filled(self.fill(color, ends, row, col))
        };
        Grid::filled(self.rows(), self.cols(), cell)
            .caption(self.heading())
            .nested(self.row_nesting.clone(), self.col_nesting.clone())
    }

    /// Returns the picture of one table, with the legend that its colours need.
    ///
    /// # Example
    ///
    /// ```
    /// use colex_draw::{ColorBy, LabelBy, Table};
    /// let table = Table::of("((2,2),(2,4)):((1,4),(2,8))")?;
    /// let svg = table.picture(ColorBy::Offset, LabelBy::Offset).svg();
    /// assert!(svg.contains(">offset 0 to 31</text>"));
    /// # Ok::<(), colex_draw::Error>(())
    /// ```
    #[must_use]
    pub fn picture(&self, color: ColorBy, label: LabelBy) -> Picture {
        let title = format!(
            "{}, {} rows by {} columns",
            self.heading(),
            self.rows(),
            self.cols()
        );
        Picture::of(self.grid(color, label))
            .title(title)
            .legend(self.legend(color))
    }

    /// Returns what the colours of [`Table::grid`] stand for.
    #[must_use]
    pub fn legend(&self, color: ColorBy) -> Vec<(Fill, String)> {
        match color {
            ColorBy::Nothing | ColorBy::Cycle => Vec::new(),
            ColorBy::Offset => {
                let (low, high) = self.range();
                Fill::bar("offset", low, high)
            }
            ColorBy::Index => Fill::bar("index", 0, self.rows() * self.cols() - 1),
            ColorBy::Bank(_) => (0..32).map(|n| (Fill::thread(n), bank_name(n))).collect(),
        }
    }

    fn label(&self, label: LabelBy, row: i64, col: i64) -> Option<String> {
        match label {
            LabelBy::Nothing => None,
            LabelBy::Offset => Some(self.at(row, col).to_string()),
            LabelBy::Index => Some((row + self.rows() * col).to_string()),
            LabelBy::Coord => Some(format!("({row},{col})")),
            LabelBy::Bank(bits) => Some(bank(self.at(row, col), bits).to_string()),
        }
    }

    /// What the colours go from and to, where they are a scale.
    fn ends(&self, color: ColorBy) -> (i64, i64) {
        match color {
            ColorBy::Offset => self.range(),
            _ => (0, self.rows() * self.cols() - 1),
        }
    }

    fn fill(&self, color: ColorBy, (low, high): (i64, i64), row: i64, col: i64) -> Fill {
        match color {
            ColorBy::Nothing => Fill::Blank,
            ColorBy::Cycle => Fill::pastel(self.at(row, col)),
            ColorBy::Offset => Fill::scale(self.at(row, col), low, high),
            ColorBy::Index => Fill::scale(row + self.rows() * col, low, high),
            ColorBy::Bank(bits) => Fill::thread(bank(self.at(row, col), bits)),
        }
    }
}

/// The last swatch names the whole bar.
fn bank_name(n: i64) -> String {
    if n == BANKS - 1 {
        String::from("bank 0 to 31")
    } else {
        String::new()
    }
}

/// Returns two tables one above the other, or side by side where both are narrow: the same tile before and after a
/// swizzle, coloured by the bank of shared memory, for elements of `bits` bits.
///
/// # Example
///
/// ```
/// use colex_draw::{LabelBy, Table, banks};
/// // Eight rows of 64 half-precision numbers: 128 bytes per row, so each column is one bank.
/// let plain = Table::of("(8,64):(64,1)")?;
/// // The row number flips the place of each group of 8 elements.
/// let swizzled = Table::of("Sw<3,3,3> o 0 o (8,64):(64,1)")?;
/// let picture = banks(&plain, &swizzled, 16, LabelBy::Bank(16));
/// let column = |grid: &colex_draw::Grid| (0..8).map(|row| grid.cell(row, 0).lines[0].clone()).collect::<Vec<_>>();
/// let columns: Vec<_> = picture.grids().map(column).collect();
/// assert_eq!(columns[0], ["0"; 8]);
/// assert_eq!(columns[1], ["0", "4", "8", "12", "16", "20", "24", "28"]);
/// # Ok::<(), colex_draw::Error>(())
/// ```
#[must_use]
pub fn banks(before: &Table, after: &Table, bits: i64, label: LabelBy) -> Picture {
    let color = ColorBy::Bank(bits);
    let grids = [before.grid(color, label), after.grid(color, label)];
    let picture = if before.cols() + after.cols() <= 32 {
        Picture::beside(grids)
    } else {
        Picture::above(grids)
    };
    let title = format!(
        "The banks of {} and of {}",
        before.heading(),
        after.heading()
    );
    picture.title(title).legend(before.legend(color))
}

#[cfg(test)]
mod tests {
    use super::*;
    use insta::assert_snapshot;

    #[track_caller]
    fn table(text: &str) -> Table {
        Table::of(text).expect("the layout is small")
    }

    #[test]
    fn every_cell_has_its_offset_index_and_coordinate() {
        let table = table("((2,2),(2,4)):((1,4),(2,8))");
        for (row, col) in (0..4).flat_map(|row| (0..8).map(move |col| (row, col))) {
            let line = |label| table.grid(ColorBy::Offset, label).cell(row, col).lines[0].clone();
            assert_eq!(line(LabelBy::Offset), table.at(row, col).to_string());
            assert_eq!(line(LabelBy::Index), (row + 4 * col).to_string());
            assert_eq!(line(LabelBy::Coord), format!("({row},{col})"));
        }
    }

    #[test]
    fn the_svg_holds_every_label_once() {
        let svg = table("(16,16):(16,1)")
            .picture(ColorBy::Offset, LabelBy::Offset)
            .svg();
        // The headers hold the numbers to 15 twice more.
        for offset in 16..256 {
            assert_eq!(
                svg.matches(&format!(">{offset}</text>")).count(),
                1,
                "{offset}"
            );
        }
    }

    #[test]
    fn banks_are_four_bytes_wide() {
        assert_eq!(
            [0, 1, 2, 63, 64, 128].map(|offset| bank(offset, 16)),
            [0, 0, 1, 31, 0, 0]
        );
        assert_eq!([0, 1, 31, 32].map(|offset| bank(offset, 32)), [0, 1, 31, 0]);
        assert_eq!([1, 3].map(|offset| bank(offset, 64)), [2, 6]);
        assert_eq!(bank(15, 4), 1);
        assert_eq!(bank(-1, 32), 31);
    }

    #[test]
    fn pictures_of_layouts() {
        let svg = |text, color, label| table(text).picture(color, label).svg();
        assert_snapshot!(
            "svg_nested",
            svg(
                "((2,2),(2,4)):((1,4),(2,8))",
                ColorBy::Cycle,
                LabelBy::Offset
            )
        );
        assert_snapshot!("svg_rank_one", svg("6:2", ColorBy::Offset, LabelBy::Index));
        assert_snapshot!(
            "svg_coords",
            svg("(3,2):(1,3)", ColorBy::Nothing, LabelBy::Coord)
        );
        assert_snapshot!(
            "svg_banks",
            svg("(4,8):(8,1)", ColorBy::Bank(128), LabelBy::Bank(128))
        );
    }

    #[test]
    fn one_row_in_focus() {
        let grid = table("(3,3):(3,1)")
            .grid(ColorBy::Cycle, LabelBy::Offset)
            .focus(|row, _| row == 1);
        assert_snapshot!("svg_focus", Picture::of(grid).svg());
    }
}
