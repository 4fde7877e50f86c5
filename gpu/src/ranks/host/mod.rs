//! Products over the devices of one process: the operands of each rank, copies, flags and launches.

pub(crate) mod by_nccl;
pub(crate) mod choice;
pub(crate) mod collective;
pub(crate) mod devices;
pub(crate) mod forecast;
mod gather;
pub(crate) mod links;
pub(crate) mod options;
pub(crate) mod product;
mod sum;
mod timeline;
