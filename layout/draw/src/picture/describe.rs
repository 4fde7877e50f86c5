//! A picture in words, for readers that cannot see it.

use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;

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
    let mut out = format!("{caption}: {}.", size(rows, cols));
    let (some_rows, some_cells) = if rows * cols <= ALL_CELLS {
        (rows, cols)
    } else {
        (rows.min(SOME_ROWS), cols.min(SOME_CELLS))
    };
    for row in 0..some_rows {
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
    if some_rows < rows {
        out += &format!(" And {} more rows.", rows - some_rows);
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
    let text = if lines.is_empty() {
        "empty".to_string()
    } else {
        lines.join(" ")
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
    fn a_cell_without_a_label_is_said_to_be_empty() {
        let grid = Grid::from_fn(1, 2, |_, _| Cell::default()).expect("small");
        assert_eq!(
            Picture::of(grid).description(),
            "A grid: 1 row by 2 columns. Row 0: empty, empty."
        );
    }
}
