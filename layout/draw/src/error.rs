//! What cannot be drawn.

use alloc::boxed::Box;
use alloc::string::String;

colex_layout::opaque_error! {
    /// Why a layout, a map of threads or a grid is not drawn.
    ///
    /// Its sentence is its `Display` and `Debug` output.
    ///
    /// ```
    /// use colex_draw::Grid;
    ///
    /// let error = Grid::from_fn(0, 4, |_, _| Default::default()).unwrap_err();
    /// assert_eq!(error.to_string(), "draw of a grid of 0 by 4: it has no cells");
    /// ```
    #[derive(Clone, PartialEq, Eq)]
    pub struct Error(ErrorKind);
    from colex_layout::Error;
}

impl Error {
    /// Returns the error of the layout algebra, if it is one.
    pub fn layout(&self) -> Option<&colex_layout::Error> {
        match self.kind() {
            ErrorKind::Layout(error) => Some(error),
            _ => None,
        }
    }
}

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum ErrorKind {
    #[error(transparent)]
    Layout(#[from] colex_layout::Error),
    #[error("{operation} of {operand}: {why}")]
    Operand {
        operation: &'static str,
        operand: String,
        why: String,
    },
    #[error("coordinate {coord} is not within 0..{size} in the shape {shape}")]
    OutOfBounds {
        coord: i64,
        size: i64,
        shape: String,
    },
}
