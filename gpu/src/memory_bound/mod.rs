//! What the kernels that memory limits have in common: the prepared call.

pub(crate) mod call;

pub use call::{MemoryBoundCall, MemoryBoundPlan};
