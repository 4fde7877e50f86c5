//! The sizes of a picture: one cell size and one font for all its grids, chosen by how much they hold.
//!
//! All lengths are in tenths of a pixel, so that no drawing depends on how floating-point numbers print.

use crate::picture::Labels;
use crate::{Grid, Picture};

/// The most labelled cells in one grid: beyond, labels are smaller than a reader can use.
const LABELLED_CELLS: i64 = 1024;
/// The widest drawing with labels.
const LABELLED_WIDTH: i64 = 20_000;

/// Lengths in tenths of a pixel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Metrics {
    /// Whether cells have labels.
    pub(crate) labels: bool,
    /// The font size of labels.
    pub(crate) font: i64,
    pub(crate) cell_width: i64,
    pub(crate) cell_height: i64,
    /// The font size of headers.
    pub(crate) header_font: i64,
    /// What headers take at the left of every grid, and above it.
    pub(crate) left: i64,
    pub(crate) top: i64,
}

/// The font size of captions, legends and notes.
pub(crate) const CAPTION_FONT: i64 = 130;
/// The height of a line of them.
pub(crate) const CAPTION_LINE: i64 = 200;

impl Metrics {
    pub(crate) fn of(picture: &Picture) -> Self {
        let across = across(picture);
        let lines = most(picture, |grid| {
            grid.cells().map(|cell| cell.lines.len()).max().unwrap_or(0) as i64
        });
        let chars = most(picture, |grid| {
            let lines = grid.cells().flat_map(|cell| &cell.lines);
            lines.map(|line| line.chars().count()).max().unwrap_or(0) as i64
        });
        let font = match across {
            ..=16 => 130,
            17..=32 => 110,
            _ => 95,
        };
        let mut metrics = Self::unlabelled(across);
        let height = lines * line_height(font) + 80;
        let width = text_width(chars, font) + 100;
        let cells = most(picture, |grid| grid.rows() * grid.cols());
        let fits = cells <= LABELLED_CELLS && across * width <= LABELLED_WIDTH;
        metrics.labels = chars > 0 && (fits || picture.labels == Labels::All);
        if metrics.labels {
            metrics.font = font;
            metrics.cell_height = whole(height.max(width.min(280)));
            metrics.cell_width = whole(width.max(metrics.cell_height.min(280)));
        }
        metrics.with_gutters(picture)
    }

    /// Cells that show their colour only.
    fn unlabelled(across: i64) -> Self {
        let side = match across {
            ..=16 => 240,
            17..=32 => 160,
            33..=80 => 100,
            81..=160 => 60,
            _ => 30,
        };
        Self {
            labels: false,
            font: 0,
            cell_width: side,
            cell_height: side,
            header_font: 0,
            left: 0,
            top: 0,
        }
    }

    fn with_gutters(mut self, picture: &Picture) -> Self {
        self.header_font = if self.labels { self.font * 9 / 10 } else { 100 };
        let has_axes = most(picture, |grid| i64::from(grid.axes.is_some())) > 0;
        let axis = if has_axes { 160 } else { 0 };
        let chars = most(picture, |grid| grid.row_headers.longest(grid.rows()) as i64);
        self.left = axis
            + if chars > 0 {
                whole(text_width(chars, self.header_font)) + 70
            } else {
                10
            };
        let has_columns = most(picture, |grid| grid.col_headers.longest(grid.cols()) as i64) > 0;
        self.top = axis
            + if has_columns {
                self.header_font + 60
            } else {
                10
            };
        self
    }

    /// The width and the height of a grid with its headers, without its caption.
    pub(crate) fn extent(&self, grid: &Grid) -> (i64, i64) {
        (
            self.left + grid.cols() * self.cell_width,
            self.top + grid.rows() * self.cell_height,
        )
    }

    /// Every how many columns or rows a header fits, when one is `chars` long and cells are `size` apart.
    pub(crate) fn header_step(&self, room: i64, size: i64) -> i64 {
        let mut step = 1;
        while step * size < room {
            step *= 2;
        }
        // Between unlabelled cells a number at every one would be a carpet.
        if self.labels || size >= 240 {
            step
        } else {
            step.max(4)
        }
    }
}

/// The width of `chars` characters of the monospaced font.
pub(crate) fn text_width(chars: i64, font: i64) -> i64 {
    chars * font * 602 / 1000
}

/// The distance of lines in a cell.
pub(crate) fn line_height(font: i64) -> i64 {
    font * 115 / 100
}

/// Up to whole pixels.
fn whole(tenths: i64) -> i64 {
    (tenths + 9) / 10 * 10
}

/// How many cells stand side by side in the widest row of the picture.
fn across(picture: &Picture) -> i64 {
    let rows = picture.blocks.iter();
    let widths = rows.map(|row| row.iter().flatten().map(Grid::cols).sum::<i64>());
    widths.max().unwrap_or(0)
}

fn most(picture: &Picture, measure: impl Fn(&Grid) -> i64) -> i64 {
    picture.grids().map(measure).max().unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Cell;
    use alloc::string::ToString;

    fn metrics(rows: i64, cols: i64, labels: Labels) -> Metrics {
        let cell = |row: i64, col: i64| Cell::new([(row * cols + col).to_string()]);
        let grid = Grid::from_fn(rows, cols, cell).expect("the grid is small");
        Metrics::of(&Picture::of(grid).labels(labels))
    }

    #[test]
    fn labels_shrink_and_then_go() {
        let fonts = [(4, 4), (8, 32), (8, 64), (32, 32), (64, 64)]
            .map(|(rows, cols)| metrics(rows, cols, Labels::Fitting).font);
        assert_eq!(fonts, [130, 110, 95, 110, 0]);
        assert!(metrics(64, 64, Labels::All).labels);
    }

    #[test]
    fn every_label_fits_its_cell() {
        for (rows, cols) in [(1, 1), (4, 4), (8, 64), (32, 32), (16, 64)] {
            let sizes = metrics(rows, cols, Labels::Fitting);
            let chars = (rows * cols - 1).to_string().len() as i64;
            assert!(text_width(chars, sizes.font) + 40 <= sizes.cell_width);
            assert!(line_height(sizes.font) <= sizes.cell_height);
        }
    }

    #[test]
    fn headers_are_thinned_until_they_fit() {
        let sizes = metrics(64, 64, Labels::Fitting);
        assert_eq!(sizes.header_step(180, sizes.cell_width), 4);
        assert_eq!(metrics(4, 4, Labels::Fitting).header_step(180, 280), 1);
    }
}
