//! The instructions, one family per file.

pub(crate) mod access;
pub(crate) mod atomics;
pub(crate) mod bulk;
pub(crate) mod cluster;
pub(crate) mod compute;
pub(crate) mod copy;
pub(crate) mod cp_async;
mod foreign;
pub(crate) mod matrix;
pub(crate) mod mbarriers;
pub(crate) mod mma;
pub(crate) mod shuffle;
pub(crate) mod sync;
pub(crate) mod wgmma;
