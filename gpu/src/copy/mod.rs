//! Copies and transposes: the plan, one kernel for each family, and the call.

mod bulk;
pub(crate) mod call;
mod family;
mod flat;
pub(crate) mod launches;
pub(crate) mod loop_nest;
pub(crate) mod pieces;
pub(crate) mod plan;
mod prepared;
mod strided;
mod tile;
mod tma;
