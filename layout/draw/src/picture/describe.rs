//! A picture in words, for readers that cannot see it.

use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;

use super::elide::{COLUMNS, ROWS};
use crate::{Cell, Grid, Mark, Picture};

/// The most cells of a grid of which every one is said.
const ALL_CELLS: i64 = 256;
/// Of larger grids, the rows and the cells of a row that are said.
const SOME_ROWS: i64 = 4;
const SOME_CELLS: i64 = 16;

impl Picture {
    /// Returns what the picture shows, in words: of each grid its caption, its size and its cells row by row, the first
    /// ones where there are many; then the legend and the notes. [`Picture::svg`] carries it as `<desc>`.
    ///
    /// # Example
    ///
    /// ```
    /// use colex_draw::{ColorBy, LabelBy, Table};
    /// let table = Table::of("(2,3):(3,1)")?;
    /// assert_eq!(
    ///     table.picture(ColorBy::Cycle, LabelBy::Offset).description(),
    ///     "(2,3):(3,1): 2 rows by 3 columns. Row 0: 0, 1, 2. Row 1: 3, 4, 5.",
    /// );
    /// # Ok::<(), colex_draw::Error>(())
    /// ```
    #[must_use]
    pub fn description(&self) -> String {
        let mut parts: Vec<String> = self.grids().map(grid).collect();
        let legend = self.legend.iter().map(|(_, text)| text.as_str());
        let legend: Vec<&str> = legend.filter(|text| !text.is_empty()).collect();
        if !legend.is_empty() {
            parts.push(format!("Colours: {}.", legend.join(", ")));
        }
        parts.extend(self.notes.iter().cloned());
        parts.join(" ")
    }
}

fn grid(grid: &Grid) -> String {
    let (rows, cols) = (grid.rows(), grid.cols());
    let caption = grid.caption.as_deref().unwrap_or("A grid");
    let is = |row: i64, col: i64, mark: &str| {
        let lines = grid.cell(row, col).lines.iter();
        lines.map(String::as_str).eq([mark])
    };
    let is_gap = |row: i64, col: i64| is(row, col, ROWS) || is(row, col, COLUMNS);
    let is_row_gap = |row: &i64| cols > 0 && (0..cols).all(|col| is_gap(*row, col));
    let is_col_gap = |col: &i64| rows > 0 && (0..rows).all(|row| is_gap(row, *col));
    let row_gaps = (0..rows).filter(is_row_gap).count() as i64;
    let col_gaps = (0..cols).filter(is_col_gap).count() as i64;
    let size = size(rows - row_gaps, cols - col_gaps);
    let shown = if row_gaps + col_gaps > 0 {
        " are shown"
    } else {
        ""
    };
    let mut out = format!("{caption}: {size}{shown}.");
    let (some_rows, some_cells) = if rows * cols <= ALL_CELLS {
        (rows, cols)
    } else {
        (rows.min(SOME_ROWS), cols.min(SOME_CELLS))
    };
    for row in 0..some_rows {
        if is_row_gap(&row) {
            out += " Then rows are left out.";
            continue;
        }
        let cells: Vec<String> = (0..some_cells)
            .map(|col| cell(grid.cell(row, col)))
            .collect();
        let header = grid.row_headers.text(row);
        let header = if header.is_empty() {
            row.to_string()
        } else {
            header
        };
        let more = if some_cells < cols { " and so on" } else { "" };
        out += &format!(" Row {header}: {}{more}.", cells.join(", "));
    }
    let more = (some_rows..rows).filter(|row| !is_row_gap(row)).count();
    if more > 0 {
        out += &format!(" And {more} more row{}.", if more == 1 { "" } else { "s" });
    }
    out
}

fn size(rows: i64, cols: i64) -> String {
    let counted = |n: i64, what: &str| format!("{n} {what}{}", if n == 1 { "" } else { "s" });
    format!("{} by {}", counted(rows, "row"), counted(cols, "column"))
}

fn cell(cell: &Cell) -> String {
    let lines: Vec<&str> = cell
        .lines
        .iter()
        .map(String::as_str)
        .filter(|line| !line.is_empty())
        .collect();
    let text = match lines[..] {
        [] => "empty".to_string(),
        [COLUMNS] => "columns left out".to_string(),
        _ => lines.join(" "),
    };
    if cell.mark == Mark::Focus {
        text + " in focus"
    } else {
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Fill;

    #[test]
    fn a_large_grid_says_its_beginning() {
        let cells = Grid::from_fn(64, 64, |row, col| Cell::new([(row + col).to_string()]));
        let cells = cells
            .expect("small")
            .caption("sums")
            .focus(|row, col| (row, col) == (0, 1));
        let text = Picture::of(cells)
            .legend(Fill::bar("sum", 0, 126))
            .note("Done.")
            .description();
        assert!(
            text.starts_with("sums: 64 rows by 64 columns. Row 0: 0, 1 in focus, 2, 3,"),
            "{text}"
        );
        assert!(
            text.ends_with("and so on. And 60 more rows. Colours: sum 0 to 126. Done."),
            "{text}"
        );
        assert_eq!(text.matches("Row ").count(), 4);
    }

    #[test]
    fn what_is_left_out_is_said_in_words() {
        let cells = Grid::from_fn(6, 5, |row, col| Cell::new([(5 * row + col).to_string()]));
        let cells = cells.and_then(|cells| cells.without_rows(1..5)?.without_columns(1..4));
        assert_eq!(
            Picture::of(cells.expect("the ranges are inside")).description(),
            "A grid: 2 rows by 2 columns are shown. Row 0: 0, columns left out, 4. Then rows are left out. \
             Row 5: 25, columns left out, 29."
        );
        let large = Grid::from_fn(64, 8, |_, _| Cell::new(["x"]));
        let large = large.and_then(|cells| cells.without_rows(2..20)?.without_rows(40..45));
        let text = Picture::of(large.expect("the ranges are inside")).description();
        assert!(
            text.starts_with("A grid: 41 rows by 8 columns are shown."),
            "{text}"
        );
        assert!(text.ends_with(" And 38 more rows."), "{text}");
        assert!(!text.contains(['⋮', '⋯']), "{text}");
    }

    #[test]
    fn a_cell_without_a_label_is_said_to_be_empty() {
        let grid = Grid::from_fn(1, 2, |_, _| Cell::default()).expect("small");
        assert_eq!(
            Picture::of(grid).description(),
            "A grid: 1 row by 2 columns. Row 0: empty, empty."
        );
    }
}
