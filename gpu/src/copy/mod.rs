//! Copies and transposes: a plan, a kernel for each family, and the call.

mod bulk;
pub(crate) mod call;
mod family;
mod flat;
mod known;
pub(crate) mod launches;
mod pieces;
pub(crate) mod plan;
mod strided;
mod tile;
mod tma;
pub(crate) mod walk;
