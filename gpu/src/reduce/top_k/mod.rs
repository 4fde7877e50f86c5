//! The largest or smallest elements along a mode of a tensor, sorted, with their indices: its plan, the call, and the host's
//! answer.

mod call;
mod kernel;
mod plan;
mod problem;
pub mod reference;

pub use call::{TopK, TopKCall, top_k};
pub use plan::TopKPlan;
pub use problem::{MOST_K, TopKOperands, TopKProblem};
