//! Softmax and norms of rows: one family of kernels that reads each row once where registers hold it, its plan, the call, and
//! a reference in double precision.

pub(crate) mod call;
mod kernel;
pub(crate) mod plan;
pub(crate) mod problem;
pub mod reference;
mod shifted;
mod staged;
mod turned;

pub use call::{Rowwise, RowwiseCall, layer_norm, log_softmax, rms_norm, softmax};
pub use plan::{RowStorage, RowwisePlan};
pub use problem::{RowFunction, RowTensor, RowwiseOperands, RowwiseProblem};
