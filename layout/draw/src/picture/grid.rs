//! A grid of cells before it is drawn: what stands in each cell, its colour, and where the borders are.

use alloc::string::{String, ToString};
use alloc::vec::Vec;

use smallvec::SmallVec;

use crate::error::{Error, ErrorKind};
use crate::table::{cells, check_cells};
use crate::{Fill, Nesting};

/// One cell of a [`Grid`].
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Cell {
    /// The text of the cell, line by line.
    pub lines: SmallVec<[String; 2]>,
    /// The colour of the cell.
    pub fill: Fill,
    /// Whether the cell is emphasised or pale.
    pub mark: Mark,
}

/// How much a cell asks for the reader's eye.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Mark {
    /// Like all other cells.
    #[default]
    Plain,
    /// Pale, because other cells are in focus.
    Dim,
    /// Outlined, in bold.
    Focus,
}

impl Cell {
    /// Returns a blank cell with `lines`.
    ///
    /// # Example
    ///
    /// ```
    /// use colex_draw::{Cell, Fill};
    /// let cell = Cell::new(["T3", "V1"]).filled(Fill::thread(3));
    /// assert_eq!(cell.lines.as_slice(), ["T3", "V1"]);
    /// ```
    #[must_use]
    pub fn new<S: Into<String>>(lines: impl IntoIterator<Item = S>) -> Self {
        let lines = lines.into_iter().map(Into::into).collect();
        Self {
            lines,
            ..Self::default()
        }
    }

    /// Returns the same cell in another colour.
    #[must_use]
    pub fn filled(self, fill: Fill) -> Self {
        Self { fill, ..self }
    }
}

/// What stands before the rows, or above the columns.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Headers {
    /// Nothing.
    None,
    /// Numbers from 0.
    Numbers,
    /// One text per row or column; missing texts are empty.
    Named(Vec<String>),
}

impl Headers {
    /// The header of row or column `at`.
    pub(crate) fn text(&self, at: i64) -> String {
        match self {
            Self::None => String::new(),
            Self::Numbers => at.to_string(),
            Self::Named(names) => names.get(at as usize).cloned().unwrap_or_default(),
        }
    }

    /// The length of the longest of the first `count`, in characters.
    pub(crate) fn longest(&self, count: i64) -> usize {
        match self {
            Self::None => 0,
            Self::Numbers => (count - 1).to_string().len(),
            Self::Named(names) => {
                let names = names.iter().take(count as usize);
                names.map(|name| name.chars().count()).max().unwrap_or(0)
            }
        }
    }
}

/// Rows and columns of cells with headers, nested borders, and a caption above.
///
/// The cells of a picture can be read back from its grids before it is drawn.
///
/// # Example
///
/// ```
/// use colex_draw::{Cell, Fill, Grid};
/// let grid = Grid::from_fn(2, 3, |row, col| Cell::new([format!("{row}{col}")]).filled(Fill::pastel(row)))?;
/// assert_eq!(grid.cell(1, 2).lines.as_slice(), ["12"]);
/// # Ok::<(), colex_draw::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Grid {
    rows: i64,
    cols: i64,
    cells: Vec<Cell>,
    pub(crate) caption: Option<String>,
    pub(crate) row_headers: Headers,
    pub(crate) col_headers: Headers,
    /// The name of what the rows, and the columns, count.
    pub(crate) axes: Option<[String; 2]>,
    pub(crate) row_nesting: Nesting,
    pub(crate) col_nesting: Nesting,
    /// The region of each cell, row by row; borders run between regions.
    pub(crate) regions: Option<Vec<i64>>,
    /// The places that a line visits, in order.
    pub(crate) path: Vec<(i64, i64)>,
}

impl Grid {
    /// Returns the cells that `cell(row, column)` gives, with numbered rows and columns.
    ///
    /// # Errors
    ///
    /// Returns an error for fewer than 1 or more than [`MAX_CELLS`](crate::MAX_CELLS) cells.
    pub fn from_fn(rows: i64, cols: i64, cell: impl Fn(i64, i64) -> Cell) -> Result<Self, Error> {
        check_cells(
            &alloc::format!("a grid of {rows} by {cols}"),
            cells(rows, cols),
        )?;
        Ok(Self::filled(rows, cols, cell))
    }

    /// As [`Grid::from_fn`], of a size that is known to be right.
    pub(crate) fn filled(rows: i64, cols: i64, cell: impl Fn(i64, i64) -> Cell) -> Self {
        let at = (0..rows).flat_map(|row| (0..cols).map(move |col| (row, col)));
        Self {
            rows,
            cols,
            cells: at.map(|(row, col)| cell(row, col)).collect(),
            caption: None,
            row_headers: Headers::Numbers,
            col_headers: Headers::Numbers,
            axes: None,
            row_nesting: Nesting::default(),
            col_nesting: Nesting::default(),
            regions: None,
            path: Vec::new(),
        }
    }

    /// Returns the number of rows.
    #[must_use]
    pub fn rows(&self) -> i64 {
        self.rows
    }

    /// Returns the number of columns.
    #[must_use]
    pub fn cols(&self) -> i64 {
        self.cols
    }

    /// Returns the cell at a place.
    ///
    /// # Panics
    ///
    /// When the place is outside the grid, as indexing a slice does.
    #[must_use]
    pub fn cell(&self, row: i64, col: i64) -> &Cell {
        assert!(
            (0..self.rows).contains(&row) && (0..self.cols).contains(&col),
            "({row},{col}) is not a cell of a grid of {} by {}",
            self.rows,
            self.cols
        );
        &self.cells[(row * self.cols + col) as usize]
    }

    /// Returns a line of text above the grid.
    #[must_use]
    pub fn caption(mut self, text: impl Into<String>) -> Self {
        self.caption = Some(text.into());
        self
    }

    /// Replaces the numbers of the headers.
    #[must_use]
    pub fn headers(mut self, rows: Headers, cols: Headers) -> Self {
        (self.row_headers, self.col_headers) = (rows, cols);
        self
    }

    /// Returns what stands before a row: nothing for a row without a name.
    ///
    /// ```
    /// use colex_draw::{Cell, Grid, Headers};
    /// let grid = Grid::from_fn(2, 1, |_, _| Cell::default())?;
    /// assert_eq!(grid.row_header(1), "1");
    /// let named = grid.headers(Headers::Named(vec!["a".to_string()]), Headers::None);
    /// assert_eq!([named.row_header(0), named.row_header(1)], ["a", ""]);
    /// # Ok::<(), colex_draw::Error>(())
    /// ```
    #[must_use]
    pub fn row_header(&self, row: i64) -> String {
        self.row_headers.text(row)
    }

    /// Names what the rows and the columns count, such as `m` and `k`.
    #[must_use]
    pub fn axes(mut self, rows: impl Into<String>, cols: impl Into<String>) -> Self {
        self.axes = Some([rows.into(), cols.into()]);
        self
    }

    /// Draws stronger lines between blocks of rows and of columns.
    #[must_use]
    pub fn nested(mut self, rows: Nesting, cols: Nesting) -> Self {
        (self.row_nesting, self.col_nesting) = (rows, cols);
        self
    }

    /// Draws strong lines between cells of different regions.
    #[must_use]
    pub fn regions(mut self, region: impl Fn(i64, i64) -> i64) -> Self {
        let at = (0..self.rows).flat_map(|row| (0..self.cols).map(move |col| (row, col)));
        self.regions = Some(at.map(|(row, col)| region(row, col)).collect());
        self
    }

    /// Returns a line from cell to cell in the order of `places`, with a dot where it starts: the order of a walk.
    ///
    /// # Errors
    ///
    /// Returns an error if a place is outside the grid.
    ///
    /// # Example
    ///
    /// ```
    /// use colex_draw::{Cell, Grid};
    /// let grid = Grid::from_fn(2, 2, |_, _| Cell::default())?;
    /// let rows_first = [(0, 0), (0, 1), (1, 0), (1, 1)];
    /// assert!(grid.clone().path(rows_first).is_ok());
    /// assert_eq!(
    ///     grid.path([(0, 2)]).unwrap_err().to_string(),
    ///     "coordinate 2 is not within 0..2 in the shape (2,2)",
    /// );
    /// # Ok::<(), colex_draw::Error>(())
    /// ```
    pub fn path(mut self, places: impl IntoIterator<Item = (i64, i64)>) -> Result<Self, Error> {
        self.path = places.into_iter().collect();
        let shape = || alloc::format!("({},{})", self.rows, self.cols);
        for (row, col) in &self.path {
            for (coord, size) in [(*row, self.rows), (*col, self.cols)] {
                if !(0..size).contains(&coord) {
                    return Err(ErrorKind::OutOfBounds {
                        coord,
                        size,
                        shape: shape(),
                    }
                    .into());
                }
            }
        }
        Ok(self)
    }

    /// Puts the cells that `is_in_focus(row, column)` chooses before the others, which become pale.
    ///
    /// # Example
    ///
    /// ```
    /// use colex_draw::{Cell, Grid, Mark};
    /// let grid = Grid::from_fn(2, 2, |_, _| Cell::default())?.focus(|row, _| row == 1);
    /// assert_eq!((grid.cell(0, 0).mark, grid.cell(1, 0).mark), (Mark::Dim, Mark::Focus));
    /// # Ok::<(), colex_draw::Error>(())
    /// ```
    #[must_use]
    pub fn focus(mut self, is_in_focus: impl Fn(i64, i64) -> bool) -> Self {
        for row in 0..self.rows {
            for col in 0..self.cols {
                let mark = if is_in_focus(row, col) {
                    Mark::Focus
                } else {
                    Mark::Dim
                };
                self.cells[(row * self.cols + col) as usize].mark = mark;
            }
        }
        self
    }

    pub(crate) fn cells(&self) -> impl Iterator<Item = &Cell> {
        self.cells.iter()
    }

    /// The cells with their places, row by row.
    pub(crate) fn places(&self) -> impl Iterator<Item = (i64, i64, &Cell)> {
        let cols = self.cols;
        self.cells.iter().enumerate().map(move |(at, cell)| {
            let at = at as i64;
            (at / cols, at % cols, cell)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_empty_grid_is_refused() {
        let error =
            Grid::from_fn(0, 3, |_, _| Cell::default()).expect_err("there is nothing in it");
        assert_eq!(
            error.to_string(),
            "draw of a grid of 0 by 3: it has no cells"
        );
    }

    #[test]
    fn headers_know_their_longest() {
        assert_eq!(Headers::Numbers.longest(101), 3);
        assert_eq!(Headers::None.longest(101), 0);
        let named = Headers::Named(["a".into(), "bcd".into()].into());
        assert_eq!((named.longest(2), named.longest(1)), (3, 1));
        assert_eq!(named.text(7), "");
    }
}
