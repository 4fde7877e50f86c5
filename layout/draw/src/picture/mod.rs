//! Several grids in one drawing, and what the reader is told beside them.

mod describe;
mod elide;
pub(crate) mod grid;
pub(crate) mod metrics;
pub(crate) mod palette;
mod style;
mod svg;
mod xml;

use alloc::string::String;
use alloc::vec::Vec;

use crate::picture::metrics::Metrics;
use crate::{Fill, Grid};

/// One or more grids, placed in rows, with a title, a legend and notes: what [`Picture::svg`] draws.
///
/// All grids of a picture have cells of one size, so that rows and columns of neighbours line up.
///
/// # Example
///
/// ```
/// use colex_draw::{ColorBy, LabelBy, Picture, Table};
/// use colex_layout::Layout;
/// let grid = |text: &str| Ok::<_, colex_draw::Error>({
///     Table::of(text)?.grid(ColorBy::Cycle, LabelBy::Offset)
/// });
/// let picture = Picture::beside([grid("(4,8):(1,4)")?, grid("(4,8):(8,1)")?]).title("Two orders of a matrix");
/// assert!(picture.svg().starts_with("<svg "));
/// # Ok::<(), colex_draw::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Picture {
    /// The grids by row and column of the picture.
    pub(crate) blocks: Vec<Vec<Option<Grid>>>,
    pub(crate) title: String,
    pub(crate) legend: Vec<(Fill, String)>,
    pub(crate) notes: Vec<String>,
    pub(crate) labels: Labels,
}

/// Whether the lines in the cells are drawn.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Labels {
    /// Only if there is room for legible labels.
    #[default]
    Fitting,
    /// Always, however large the drawing becomes.
    All,
}

impl Picture {
    /// Returns one grid; its caption is the title.
    #[must_use]
    pub fn of(grid: Grid) -> Self {
        Self::beside([grid])
    }

    /// Puts grids side by side, from left to right.
    #[must_use]
    pub fn beside(grids: impl IntoIterator<Item = Grid>) -> Self {
        Self::blocks([grids.into_iter().map(Some).collect()].into())
    }

    /// Puts grids one above the other.
    #[must_use]
    pub fn above(grids: impl IntoIterator<Item = Grid>) -> Self {
        Self::blocks(grids.into_iter().map(|grid| [Some(grid)].into()).collect())
    }

    /// Returns the operands of a matrix product around its result: A left of C, B above it.
    ///
    /// A has the rows of C, and B its columns, which line up in the drawing: A is M by K and B is K by N.
    #[must_use]
    pub fn mma(a: Grid, b: Grid, c: Grid) -> Self {
        Self::blocks([[None, Some(b)].into(), [Some(a), Some(c)].into()].into())
    }

    fn blocks(blocks: Vec<Vec<Option<Grid>>>) -> Self {
        let captions = blocks
            .iter()
            .flatten()
            .flatten()
            .filter_map(|grid| grid.caption.as_deref());
        let title = captions.collect::<Vec<_>>().join("; ");
        Self {
            blocks,
            title,
            legend: Vec::new(),
            notes: Vec::new(),
            labels: Labels::default(),
        }
    }

    /// Returns the description for readers that cannot see the picture.
    #[must_use]
    pub fn title(mut self, text: impl Into<String>) -> Self {
        self.title = text.into();
        self
    }

    /// Adds swatches of colours below the grids, each with what it stands for. Steps of a scale stand close together.
    #[must_use]
    pub fn legend<S: Into<String>>(mut self, entries: impl IntoIterator<Item = (Fill, S)>) -> Self {
        self.legend = entries
            .into_iter()
            .map(|(fill, text)| (fill, text.into()))
            .collect();
        self
    }

    /// Returns one more line of text below the grids.
    #[must_use]
    pub fn note(mut self, text: impl Into<String>) -> Self {
        self.notes.push(text.into());
        self
    }

    /// Sets when the labels are drawn.
    #[must_use]
    pub fn labels(mut self, labels: Labels) -> Self {
        self.labels = labels;
        self
    }

    /// Returns whether there is room for the lines in the cells, so that [`Picture::svg`] draws them.
    #[must_use]
    pub fn has_labels(&self) -> bool {
        Metrics::of(self).labels
    }

    /// Returns the grids, row by row of the picture.
    pub fn grids(&self) -> impl Iterator<Item = &Grid> {
        self.blocks.iter().flatten().flatten()
    }
}
