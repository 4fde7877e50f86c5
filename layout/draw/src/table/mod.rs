//! A function of (row, column), tabulated: what all drawings of a layout start from.

pub(crate) mod nesting;
pub(crate) mod tensor;
pub(crate) mod text;

use alloc::string::{String, ToString};
use alloc::vec::Vec;

use crate::Nesting;
use crate::error::{Error, ErrorKind};
use colex_layout::{ComposedLayout, IntoComposedLayout, Layout};

/// The most cells that one table holds: 256 times 256.
pub const MAX_CELLS: i64 = 1 << 16;

/// The offsets of a layout, or the values of any other function, by row and column.
///
/// # Example
///
/// ```
/// use colex_draw::Table;
/// let table = Table::of(((2, 4), (4, 1)))?;
/// assert_eq!((table.rows(), table.cols(), table.at(1, 2)), (2, 4, 6));
/// let xor = Table::from_fn("row ^ col", 4, 4, |row, col| row ^ col)?;
/// assert_eq!(xor.at(3, 1), 2);
/// # Ok::<(), colex_draw::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Table {
    pub(crate) heading: String,
    rows: i64,
    cols: i64,
    values: Vec<i64>,
    /// One past the largest value that the columns of a text have room for.
    pub(crate) bound: i64,
    pub(crate) row_nesting: Nesting,
    pub(crate) col_nesting: Nesting,
}

impl Table {
    /// Returns the offsets of `layout`: mode 0 goes down, all further modes, as one, go right.
    ///
    /// A layout of rank 1 is one row. A composed layout, such as a swizzled one, is arranged as its inner layout is; a
    /// swizzle of a pointer, which permutes bytes, is drawn as the equal swizzle of elements. The table keeps the
    /// nesting of the modes for borders.
    ///
    /// # Errors
    ///
    /// Returns an error if the layout has more than [`MAX_CELLS`] coordinates or coordinate strides, or if a number does
    /// not fit in 64 bits; and the errors of [`ComposedLayout::position_independent`].
    ///
    /// # Example
    ///
    /// ```
    /// use colex_draw::Table;
    /// let line = Table::of("12:1")?;
    /// assert_eq!((line.rows(), line.cols()), (1, 12));
    /// let cube = Table::of(((2, 3, 4), (1, 2, 6)))?;
    /// assert_eq!((cube.rows(), cube.cols()), (2, 12));
    /// let swizzled = Table::of("Sw<3,3,3> o 0 o (8,64):(64,1)")?;
    /// assert_eq!((swizzled.at(0, 8), swizzled.at(1, 0)), (8, 72));
    /// assert_eq!(
    ///     Table::of(((512, 512), (1, 512))).unwrap_err().to_string(),
    ///     "draw of (512,512):(1,512): it has 262144 cells, and a drawing holds at most 65536",
    /// );
    /// # Ok::<(), colex_draw::Error>(())
    /// ```
    pub fn of(layout: impl IntoComposedLayout) -> Result<Self, Error> {
        let layout = layout.into_composed_layout()?.position_independent()?;
        let mut table = Self::of_layout(layout.inner())?;
        if layout.is_plain() {
            return Ok(table);
        }
        for row in 0..table.rows {
            for col in 0..table.cols {
                table.values[(row * table.cols + col) as usize] =
                    layout.at(row + table.rows * col)?;
            }
        }
        table.heading = composed_heading(&layout);
        Ok(table)
    }

    fn of_layout(layout: &Layout) -> Result<Self, Error> {
        let cells = layout.size();
        check_cells(&layout.to_string(), Some(cells))?;
        let (row_mode, col_mode) = rows_and_columns(layout)?;
        let rows = row_mode.as_ref().map_or(1, Layout::size);
        let cols = cells / rows;
        let columns_first = layout.table()?;
        let value = |row: i64, col: i64| columns_first[(row + rows * col) as usize];
        Ok(Self {
            heading: layout.to_string(),
            rows,
            cols,
            values: row_by_row(rows, cols, value),
            bound: bound(layout, &columns_first),
            row_nesting: row_mode
                .as_ref()
                .map(Nesting::of_layout)
                .unwrap_or_default(),
            col_nesting: Nesting::of_layout(&col_mode),
        })
    }

    /// Returns the values of `f(row, column)` under a heading, such as the text of what `f` is.
    ///
    /// # Errors
    ///
    /// Returns an error for fewer than 1 or more than [`MAX_CELLS`] cells.
    pub fn from_fn(
        heading: impl Into<String>,
        rows: i64,
        cols: i64,
        f: impl Fn(i64, i64) -> i64,
    ) -> Result<Self, Error> {
        let heading = heading.into();
        check_cells(&heading, cells(rows, cols))?;
        let values = row_by_row(rows, cols, f);
        Ok(Self {
            heading,
            rows,
            cols,
            bound: values
                .iter()
                .max()
                .map_or(1, |largest| largest.saturating_add(1)),
            values,
            row_nesting: Nesting::default(),
            col_nesting: Nesting::default(),
        })
    }

    /// Returns the same table with other borders between its rows and between its columns.
    #[must_use]
    pub fn nested(mut self, rows: Nesting, cols: Nesting) -> Self {
        (self.row_nesting, self.col_nesting) = (rows, cols);
        self
    }

    /// Returns the text above the table.
    #[must_use]
    pub fn heading(&self) -> &str {
        &self.heading
    }

    /// Returns the number of rows, at least 1.
    #[must_use]
    pub fn rows(&self) -> i64 {
        self.rows
    }

    /// Returns the number of columns, at least 1.
    #[must_use]
    pub fn cols(&self) -> i64 {
        self.cols
    }

    /// Returns the value at a cell.
    ///
    /// # Panics
    ///
    /// When the cell is outside the table, as indexing a slice does.
    #[must_use]
    pub fn at(&self, row: i64, col: i64) -> i64 {
        assert!(
            (0..self.rows).contains(&row) && (0..self.cols).contains(&col),
            "({row},{col}) is not a cell of a table of {} by {}",
            self.rows,
            self.cols
        );
        self.values[(row * self.cols + col) as usize]
    }

    /// Returns the smallest and the largest value.
    #[must_use]
    pub fn range(&self) -> (i64, i64) {
        let fold = |(low, high): (i64, i64), v: &i64| (low.min(*v), high.max(*v));
        self.values
            .iter()
            .fold((self.values[0], self.values[0]), fold)
    }
}

/// As CuTe prints it: an offset before a static layout is static.
fn composed_heading(layout: &ComposedLayout) -> String {
    if layout.is_plain() {
        return layout.to_string();
    }
    let mark = if layout.inner().is_static() { "_" } else { "" };
    alloc::format!(
        "{} o {mark}{} o {}",
        layout.outer(),
        layout.middle(),
        layout.inner()
    )
}

/// The modes that go down and right; nothing goes down for rank 1.
fn rows_and_columns(layout: &Layout) -> Result<(Option<Layout>, Layout), Error> {
    Ok(match layout.rank() {
        0 | 1 => (None, layout.clone()),
        rank => (layout.mode(0), layout.take(1..rank)?),
    })
}

fn row_by_row(rows: i64, cols: i64, f: impl Fn(i64, i64) -> i64) -> Vec<i64> {
    let cells = (0..rows).flat_map(|row| (0..cols).map(move |col| (row, col)));
    cells.map(|(row, col)| f(row, col)).collect()
}

/// CuTe reserves room for the cosize; XOR strides, which have none, for the largest value.
fn bound(layout: &Layout, values: &[i64]) -> i64 {
    layout.cosize().unwrap_or_else(|_| {
        values
            .iter()
            .max()
            .map_or(1, |largest| largest.saturating_add(1))
    })
}

/// How many cells a drawing of `rows` by `cols` has: none where a side is below 1, nothing beyond 64 bits.
pub(crate) fn cells(rows: i64, cols: i64) -> Option<i64> {
    if rows < 1 || cols < 1 {
        Some(0)
    } else {
        rows.checked_mul(cols)
    }
}

pub(crate) fn check_cells(what: &str, cells: Option<i64>) -> Result<(), Error> {
    let why = match cells {
        Some(n) if n < 1 => String::from("it has no cells"),
        Some(n) if n <= MAX_CELLS => return Ok(()),
        Some(n) => alloc::format!("it has {n} cells, and a drawing holds at most {MAX_CELLS}"),
        None => alloc::format!("it has more cells than the {MAX_CELLS} that a drawing holds"),
    };
    Err(operand(what, &why))
}

/// The error that `what` cannot be drawn.
pub(crate) fn operand(what: &str, why: &str) -> Error {
    ErrorKind::Operand {
        operation: "draw",
        operand: what.into(),
        why: why.into(),
    }
    .into()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::prelude::rust_2024::*;

    #[test]
    fn every_cell_is_the_layout_at_its_coordinate() {
        for text in [
            "(4,8):(8,1)",
            "((2,2),(2,4)):((1,4),(2,8))",
            "(3,(2,5)):(0,(7,-1))",
        ] {
            let layout: Layout = text.parse().expect("the text is a layout");
            let table = Table::of(&layout).expect("the layout is small");
            for row in 0..table.rows() {
                for col in 0..table.cols() {
                    assert_eq!(Ok(table.at(row, col)), layout.at((row, col)), "{text}");
                }
            }
        }
    }

    #[test]
    fn every_cell_is_the_composed_layout_at_its_coordinate() {
        for text in [
            "Sw<3,3,3> o 0 o (8,64):(64,1)",
            "Sw<2,0,3> o 5 o ((2,4),8):((1,16),2)",
        ] {
            let layout: ComposedLayout = text.parse().expect("the text is a composed layout");
            let table = Table::of(&layout).expect("the layout is small");
            for (row, col) in (0..8).flat_map(|row| (0..8).map(move |col| (row, col))) {
                assert_eq!(Ok(table.at(row, col)), layout.at((row, col)), "{text}");
            }
            assert_eq!(table.heading(), text);
        }
    }

    #[test]
    fn modes_beyond_the_first_go_right_as_one() {
        let layout: Layout = "(2,3,4):(12,4,1)".parse().expect("the text is a layout");
        let table = Table::of(&layout).expect("the layout is small");
        for col in 0..12 {
            assert_eq!(Ok(table.at(1, col)), layout.at((1, col % 3, col / 3)));
        }
        assert_eq!(table.col_nesting.level(3), 1);
    }

    #[test]
    fn what_cannot_be_drawn_is_said() {
        let error = |rows, cols| {
            Table::from_fn("f", rows, cols, |_, _| 0)
                .expect_err("it cannot be drawn")
                .to_string()
        };
        assert_eq!(error(0, 4), "draw of f: it has no cells");
        assert_eq!(error(-1, -4), "draw of f: it has no cells");
        assert_eq!(
            error(300, 300),
            "draw of f: it has 90000 cells, and a drawing holds at most 65536"
        );
        assert_eq!(
            error(i64::MAX, 2),
            "draw of f: it has more cells than the 65536 that a drawing holds"
        );
        let identity: Layout = "(4,8):(1@0,1@1)".parse().expect("the text is a layout");
        assert_eq!(
            Table::of(&identity)
                .expect_err("offsets are no numbers")
                .to_string(),
            "the offset of (4,8):(1@0,1@1) needs integer or XOR strides"
        );
    }
}
