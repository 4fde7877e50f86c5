//! The state of a cluster: blocks, warps, barriers, memory, and the program.

pub(crate) mod accessor;
pub(crate) mod banks;
pub(crate) mod block;
pub(crate) mod mbarrier;
pub(crate) mod memory;
pub(crate) mod named;
pub(crate) mod pending;
pub(crate) mod polls;
pub(crate) mod program;
pub(crate) mod target;
pub(crate) mod wait;
pub(crate) mod warp;
