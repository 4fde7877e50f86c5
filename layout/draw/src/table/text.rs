//! The grid of characters that CuTe's `print_layout` prints.

use alloc::string::String;
use core::fmt::Write;

use crate::Table;
use crate::error::Error;
use colex_layout::IntoComposedLayout;

/// Returns the grid of `layout`, byte for byte as CuTe's `print_layout` prints it for rank 2.
///
/// CuTe has no grid of other ranks; here a layout of rank 1 is one row, and the modes beyond the first go right
/// together, as the one mode `(mode 1,mode 2,..)`.
///
/// # Errors
///
/// Returns the errors of [`Table::of`].
///
/// # Example
///
/// ```
/// use colex_draw::print_layout;
/// let grid = print_layout(((2, 3), (3, 1)))?;
/// let lines = [
///     "(2,3):(3,1)",
///     "      0   1   2 ",
///     "    +---+---+---+",
///     " 0  | 0 | 1 | 2 |",
///     "    +---+---+---+",
///     " 1  | 3 | 4 | 5 |",
///     "    +---+---+---+",
/// ];
/// assert_eq!(grid, lines.join("\n") + "\n");
/// # Ok::<(), colex_draw::Error>(())
/// ```
///
/// Source: `cute/util/print_tensor.hpp`.
pub fn print_layout(layout: impl IntoComposedLayout) -> Result<String, Error> {
    Ok(Table::of(layout)?.text())
}

impl Table {
    /// Returns the table as a grid of characters under its heading, in the form of CuTe's `print_layout`.
    ///
    /// # Example
    ///
    /// ```
    /// use colex_draw::Table;
    /// let table = Table::from_fn("row ^ col", 2, 2, |row, col| row ^ col)?;
    /// assert_eq!(table.text().lines().nth(3), Some(" 0  | 0 | 1 |"));
    /// # Ok::<(), colex_draw::Error>(())
    /// ```
    #[must_use]
    pub fn text(&self) -> String {
        let width = digits(self.bound);
        let rule = rule(self.cols(), width);
        let mut out = String::new();
        put(&mut out, format_args!("{}\n    ", self.heading));
        (0..self.cols()).for_each(|col| put(&mut out, format_args!("  {col:width$} ")));
        out.push('\n');
        for row in 0..self.rows() {
            put(&mut out, format_args!("{rule}{row:2}  "));
            for col in 0..self.cols() {
                put(&mut out, format_args!("| {:width$} ", self.at(row, col)));
            }
            out.push_str("|\n");
        }
        out + &rule
    }
}

/// The line between two rows.
fn rule(cols: i64, width: usize) -> String {
    let mut out = String::from("    ");
    (0..cols).for_each(|_| put(&mut out, format_args!("+{:-<1$}", "", width + 2)));
    out + "+\n"
}

/// How many digits CuTe reserves for numbers below and at `n`: at least 1, at most 10.
fn digits(n: i64) -> usize {
    if n < 10 { 1 } else { 1 + digits(n / 10).min(9) }
}

pub(crate) fn put(out: &mut String, arguments: core::fmt::Arguments<'_>) {
    out.write_fmt(arguments)
        .expect("a String takes every write");
}

#[cfg(test)]
mod tests {
    use super::*;
    use insta::assert_snapshot;

    #[track_caller]
    fn grid(text: &str) -> String {
        print_layout(text).expect("the layout is small")
    }

    #[test]
    fn grids_of_rank_two() {
        assert_snapshot!("column", grid("(_4,_1):(_1,_0)"));
        assert_snapshot!("dynamic_rows", grid("(4,8):(8,1)"));
        assert_snapshot!("columns", grid("(_8,_8):(_1,_8)"));
        assert_snapshot!("nested", grid("((_2,_2),(_2,_4)):((_1,_4),(_2,_8))"));
        assert_snapshot!("mixed", grid("(4,_8):(_1,4)"));
    }

    #[test]
    fn grids_of_other_ranks() {
        assert_snapshot!("rank_one", grid("6:2"));
        assert_snapshot!("rank_three", grid("(2,3,2):(1,2,6)"));
    }

    #[test]
    fn negative_strides_and_many_rows_keep_cutes_widths() {
        assert_snapshot!("negative", grid("(12,2):(-1,100)"));
    }

    #[test]
    fn a_swizzled_layout_is_a_table_too() {
        let table = Table::of("Sw<3,0,3> o 0 o (_8,_8):(_8,_1)");
        assert_snapshot!("swizzled", table.expect("the table is small").text());
    }

    #[test]
    fn digits_are_counted_as_cute_does() {
        assert_eq!([-5, 0, 9, 10, 99, 100].map(digits), [1, 1, 1, 2, 2, 3]);
        assert_eq!(
            [999_999_999, 1_000_000_000, i64::MAX].map(digits),
            [9, 10, 10]
        );
    }
}
