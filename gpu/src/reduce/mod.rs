//! Reductions of a tensor along any of its modes: one family of kernels, with one launch or two, its plan, the call, and a
//! reference in double precision; cumulative sums ([`scan`]); and the largest or smallest elements ([`top_k`]).

pub(crate) mod call;
mod kernel;
pub(crate) mod plan;
pub(crate) mod problem;
pub mod reference;
pub mod scan;
pub mod top_k;

pub use call::{Reduce, ReduceCall, ReduceIndex, arg_max, arg_min, reduce};
pub use plan::ReducePlan;
pub use problem::{ReduceFunction, ReduceOperands, ReduceProblem, ReduceStage};
