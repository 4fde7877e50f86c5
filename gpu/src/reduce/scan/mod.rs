//! Cumulative sums along a mode of a tensor: one kernel, or two where blocks share a sum, its plan, the call, and the same
//! additions on the host.

pub(crate) mod call;
mod kernel;
pub(crate) mod plan;
pub(crate) mod problem;
pub mod reference;

pub use call::{Scan, ScanCall, cumulative_sum};
pub use plan::ScanPlan;
pub use problem::{ScanOperands, ScanProblem};
