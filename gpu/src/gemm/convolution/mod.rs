//! Convolutions as products: the matrix over the activations is a layout, and no copy of them is made where TMA loads its columns.

pub(crate) mod call;
pub(crate) mod choose;
pub(crate) mod columns;
pub(crate) mod form;
pub(crate) mod problem;
pub mod reference;

pub use call::{Convolution, convolution};
pub use problem::ConvolutionProblem;

use crate::error::{Error, ErrorKind};

/// The refusal of a convolution.
pub(crate) fn refuse<T>(why: impl Into<String>) -> Result<T, Error> {
    let why = why.into();
    Err(ErrorKind::Convolution { why }.into())
}
