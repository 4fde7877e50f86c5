//! What the kernels that memory limits have in common: the prepared call, the checks of a plan, and the model of its traffic.

pub(crate) mod apart;
pub(crate) mod call;
pub(crate) mod modes;
pub(crate) mod plan;
pub(crate) mod span;
pub(crate) mod traffic;

pub use call::{MemoryBoundCall, MemoryBoundPlan};
pub use traffic::{Traffic, TrafficTime};
