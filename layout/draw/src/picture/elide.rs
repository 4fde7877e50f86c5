//! Rows and columns that a picture leaves out, where they repeat what it shows.

use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;
use core::ops::Range;

use crate::error::Error;
use crate::table::operand;
use crate::{Cell, Fill, Grid, Headers, Nesting, Picture};

/// What stands in place of rows that are left out, and of columns.
pub(super) const ROWS: &str = "⋮";
pub(super) const COLUMNS: &str = "⋯";

impl Grid {
    /// Returns the same grid with one row of `⋮` in place of `rows`; the headers of the others stay as they are.
    ///
    /// # Errors
    ///
    /// Returns an error if `rows` is empty or not within the grid, or if the grid has a path, which would be broken.
    ///
    /// # Example
    ///
    /// ```
    /// use colex_draw::{Cell, Grid};
    /// let grid = Grid::from_fn(64, 2, |row, _| Cell::new([row.to_string()]))?.without_rows(2..63)?;
    /// assert_eq!((grid.rows(), grid.cell(2, 0).lines[0].as_str(), grid.cell(3, 0).lines[0].as_str()), (4, "⋮", "63"));
    /// # Ok::<(), colex_draw::Error>(())
    /// ```
    pub fn without_rows(self, rows: Range<i64>) -> Result<Self, Error> {
        let kept = self.kept("rows", self.rows(), &rows)?;
        let all: Vec<_> = (0..self.cols()).map(Some).collect();
        let mut grid = self.picked(&kept, &all, ROWS);
        grid.row_headers = named(&self.row_headers, &kept, ROWS);
        grid.row_nesting = nested(&self.row_nesting, &kept);
        Ok(grid)
    }

    /// Returns the same grid with one column of `⋯` in place of `columns`; the headers of the others stay as they are.
    ///
    /// # Errors
    ///
    /// Returns an error if `columns` is empty or not within the grid, or if the grid has a path, which would be broken.
    ///
    /// # Example
    ///
    /// ```
    /// use colex_draw::Grid;
    /// let grid = Grid::from_fn(2, 8, |_, _| Default::default())?;
    /// assert_eq!(grid.clone().without_columns(2..7)?.cols(), 4);
    /// assert_eq!(
    ///     grid.without_columns(6..9).unwrap_err().to_string(),
    ///     "draw of a grid of 2 by 8: it cannot leave out the columns 6 to 8, since it has columns 0 to 7",
    /// );
    /// # Ok::<(), colex_draw::Error>(())
    /// ```
    pub fn without_columns(self, columns: Range<i64>) -> Result<Self, Error> {
        let kept = self.kept("columns", self.cols(), &columns)?;
        let all: Vec<_> = (0..self.rows()).map(Some).collect();
        let mut grid = self.picked(&all, &kept, COLUMNS);
        grid.col_headers = named(&self.col_headers, &kept, COLUMNS);
        grid.col_nesting = nested(&self.col_nesting, &kept);
        Ok(grid)
    }

    /// The numbers that stay, with a gap where the others were.
    fn kept(&self, what: &str, count: i64, out: &Range<i64>) -> Result<Vec<Option<i64>>, Error> {
        let misfit = |why: String| {
            let grid = format!("a grid of {} by {}", self.rows(), self.cols());
            Err(operand(&grid, &why))
        };
        if out.is_empty() || out.start < 0 || out.end > count {
            let (first, last) = (out.start, out.end.saturating_sub(1));
            return misfit(format!(
                "it cannot leave out the {what} {first} to {last}, since it has {what} 0 to {}",
                count - 1
            ));
        }
        if !self.path.is_empty() {
            return misfit(format!(
                "without some of its {what} its path would be broken"
            ));
        }
        let before = (0..out.start).map(Some);
        Ok(before
            .chain([None])
            .chain((out.end..count).map(Some))
            .collect())
    }

    /// The cells at `rows` and `cols`; in a gap, cells with `mark`, in the colour and the region that all cells left out
    /// there have.
    fn picked(&self, rows: &[Option<i64>], cols: &[Option<i64>], mark: &str) -> Self {
        // Both ascend, so that one pass tells what is left out.
        let out = |kept: &[Option<i64>], count: i64| -> Vec<i64> {
            let mut kept = kept.iter().flatten().peekable();
            let is_out = |at: &i64| kept.next_if(|kept| *kept == at).is_none();
            (0..count).filter(is_out).collect()
        };
        let (rows_out, cols_out) = (out(rows, self.rows()), out(cols, self.cols()));
        // The cells of `self` that a cell of the result stands for: one, or those left out in its gap.
        let cells = |row: i64, col: i64| -> Vec<(i64, i64)> {
            let rows = rows[row as usize].map_or(rows_out.clone(), |row| Vec::from([row]));
            let cols = cols[col as usize].map_or(cols_out.clone(), |col| Vec::from([col]));
            let cells = rows
                .iter()
                .flat_map(|row| cols.iter().map(move |col| (*row, *col)));
            cells.collect()
        };
        let gap = |row: i64, col: i64| {
            let cells = cells(row, col);
            let fill = shared(cells.iter().map(|(row, col)| self.cell(*row, *col).fill));
            Cell::new([mark]).filled(fill.unwrap_or(Fill::Void))
        };
        let at = |row: i64, col: i64| Some((rows[row as usize]?, cols[col as usize]?));
        let cell = |row, col| {
            at(row, col).map_or_else(|| gap(row, col), |(row, col)| self.cell(row, col).clone())
        };
        let (height, width) = (rows.len() as i64, cols.len() as i64);
        let mut grid = Self::filled(height, width, cell);
        if let Some(regions) = &self.regions {
            let of = |(row, col): &(i64, i64)| regions[(row * self.cols() + col) as usize];
            // A gap with cells of several regions has lines around it.
            grid =
                grid.regions(|row, col| shared(cells(row, col).iter().map(of)).unwrap_or(i64::MIN));
        }
        grid.caption.clone_from(&self.caption);
        grid.axes.clone_from(&self.axes);
        grid.row_headers.clone_from(&self.row_headers);
        grid.col_headers.clone_from(&self.col_headers);
        grid.row_nesting.clone_from(&self.row_nesting);
        grid.col_nesting.clone_from(&self.col_nesting);
        grid
    }
}

/// What all of `items` are, if they are equal.
fn shared<T: PartialEq>(mut items: impl Iterator<Item = T>) -> Option<T> {
    let first = items.next()?;
    items.all(|item| item == first).then_some(first)
}

fn named(headers: &Headers, kept: &[Option<i64>], mark: &str) -> Headers {
    if *headers == Headers::None {
        return Headers::None;
    }
    let name = |at: &Option<i64>| at.map_or_else(|| mark.to_string(), |at| headers.text(at));
    Headers::Named(kept.iter().map(name).collect())
}

/// The borders before the coordinates that stay, as strong as they were.
fn nested(nesting: &Nesting, kept: &[Option<i64>]) -> Nesting {
    let level = |at: &Option<i64>| at.map_or(0, |at| nesting.level(at));
    Nesting::with_levels(kept.iter().map(level).collect())
}

impl Picture {
    /// Returns the same picture with a gap in place of a range of `rows` or of `columns`, or of what an axis counts,
    /// such as `m`, in every grid that has it; a note says what is left out.
    ///
    /// # Errors
    ///
    /// Returns an error if no grid has the axis, and the errors of [`Grid::without_rows`].
    ///
    /// # Example
    ///
    /// ```
    /// use colex_draw::{Cell, Grid, Picture};
    /// let grid = |rows, cols| Grid::from_fn(rows, cols, |_, _| Cell::new(["x"]));
    /// let (a, c) = (grid(32, 4)?.axes("m", "k"), grid(32, 8)?.axes("m", "n"));
    /// let picture = Picture::beside([a, c]).without("m", 4..30)?;
    /// assert_eq!(picture.grids().map(Grid::rows).collect::<Vec<_>>(), [7, 7]);
    /// assert!(picture.svg().contains(">m 4 to 29 is left out.</text>"));
    /// let page = Picture::of(grid(16, 2)?.axes("row", "column")).without("row", 3..14)?;
    /// assert!(page.svg().contains(">Rows 3 to 13 are left out.</text>"));
    /// assert_eq!(
    ///     picture.without("q", 0..1).unwrap_err().to_string(),
    ///     "draw of a picture without q 0 to 0: no grid has this axis",
    /// );
    /// # Ok::<(), colex_draw::Error>(())
    /// ```
    pub fn without(mut self, axis: &str, range: Range<i64>) -> Result<Self, Error> {
        let last = range.end.saturating_sub(1);
        let mut found = false;
        for grid in self.blocks.iter_mut().flatten().flatten() {
            let is = |at: usize| grid.axes.as_ref().is_some_and(|axes| axes[at] == axis);
            let (down, right) = (axis == "rows" || is(0), axis == "columns" || is(1));
            found |= down || right;
            if down {
                *grid = grid.clone().without_rows(range.clone())?;
            }
            if right {
                *grid = grid.clone().without_columns(range.clone())?;
            }
        }
        if !found {
            let picture = format!("a picture without {axis} {} to {last}", range.start);
            return Err(operand(&picture, "no grid has this axis"));
        }
        let (word, verb) = match axis {
            "rows" | "row" => ("Rows", "are"),
            "columns" | "column" => ("Columns", "are"),
            _ => (axis, "is"),
        };
        // The ranges of one axis stand in order, although the last is left out first.
        let start = |note: &str| -> Option<i64> {
            let (number, _) = note.strip_prefix(word)?.trim_start().split_once(' ')?;
            number.parse().ok()
        };
        let later = |note: &String| start(note).is_some_and(|other| other > range.start);
        let place = self.notes.iter().position(later);
        let note = format!("{word} {} to {last} {verb} left out.", range.start);
        self.notes.insert(place.unwrap_or(self.notes.len()), note);
        Ok(self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn grid(rows: i64, cols: i64) -> Grid {
        Grid::from_fn(rows, cols, |row, col| Cell::new([format!("{row},{col}")])).expect("small")
    }

    #[test]
    fn what_stays_is_as_it_was() {
        let mut cases = 0;
        for start in 0..6 {
            for end in start + 1..=6 {
                let whole = grid(6, 4).nested(Nesting::blocks(2), Nesting::default());
                let whole = whole.regions(|row, _| row / 3);
                let part = whole.clone().without_rows(start..end).expect("inside");
                assert_eq!(part.rows(), 6 - (end - start) + 1);
                for row in (0..part.rows()).filter(|row| *row != start) {
                    let old = if row < start {
                        row
                    } else {
                        row + end - start - 1
                    };
                    assert_eq!(part.row_headers.text(row), old.to_string());
                    assert_eq!(part.row_nesting.level(row), whole.row_nesting.level(old));
                    for col in 0..4 {
                        assert_eq!(part.cell(row, col), whole.cell(old, col));
                        cases += 1;
                    }
                }
                assert_eq!(part.cell(start, 0).lines[0], "⋮");
            }
        }
        std::println!("law elided_grids: {cases} cases");
    }

    #[test]
    fn a_gap_has_the_region_that_its_cells_share() {
        let whole = grid(6, 4).regions(|row, _| row / 3);
        let regions = |rows| {
            let part = whole.clone().without_rows(rows).expect("inside");
            part.regions.expect("as the whole grid")
        };
        let rows = |rows: &[i64]| -> Vec<i64> {
            let cells = rows.iter().flat_map(|row| [*row; 4]);
            cells.collect()
        };
        assert_eq!(regions(1..3), rows(&[0, 0, 1, 1, 1]));
        assert_eq!(regions(3..5), rows(&[0, 0, 0, 1, 1]));
        // The border between the regions is left out.
        assert_eq!(regions(1..5), rows(&[0, i64::MIN, 1]));
    }

    #[test]
    fn a_gap_has_the_colour_that_its_cells_share() {
        let colour = |row, col| match (row < 4, col < 3) {
            (true, true) => Fill::pastel(0),
            _ => Fill::Void,
        };
        let whole = Grid::from_fn(6, 4, |row, col| Cell::new(["x"]).filled(colour(row, col)));
        let whole = whole.expect("small");
        let fills = |rows, cols| {
            let part = whole.clone().without_rows(rows).expect("inside");
            let part = part.without_columns(cols).expect("inside");
            [
                part.cell(1, 0).fill,
                part.cell(0, 1).fill,
                part.cell(1, 1).fill,
            ]
        };
        // All that is left out is inside; some of the rows are outside, and then some of the columns.
        assert_eq!(fills(1..3, 1..3), [Fill::pastel(0); 3]);
        assert_eq!(fills(1..5, 1..3), [Fill::Void, Fill::pastel(0), Fill::Void]);
        assert_eq!(fills(1..3, 1..4), [Fill::pastel(0), Fill::Void, Fill::Void]);
    }

    #[test]
    fn mistakes_are_sentences() {
        let error = |range| {
            grid(6, 4)
                .without_rows(range)
                .expect_err("wrong")
                .to_string()
        };
        let (empty, below) = (error(2..2), error(-1..2));
        assert!(empty.ends_with("it cannot leave out the rows 2 to 1, since it has rows 0 to 5"));
        assert!(below.ends_with("it cannot leave out the rows -1 to 1, since it has rows 0 to 5"));
        let walked = grid(6, 4).path([(0, 0), (5, 3)]).expect("inside");
        assert_eq!(
            walked
                .without_columns(1..2)
                .expect_err("it has a path")
                .to_string(),
            "draw of a grid of 6 by 4: without some of its columns its path would be broken"
        );
    }
}
