//! Quantisation: numbers of 8 bits with a scale for a tensor, for each row, or for each block of a row.

mod at_once;
pub(crate) mod call;
mod kernel;
mod plan;
mod problem;
pub mod reference;
mod scale;
mod shifted;
mod staged;

pub use call::{Quantise, QuantiseCall, quantise};
pub use plan::{QuantiseAccess, QuantisePlan};
pub use problem::{QuantiseOperands, QuantiseProblem};
pub use scale::TensorScalePlan;
