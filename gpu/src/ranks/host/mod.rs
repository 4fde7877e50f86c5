//! Products over the devices of one process: the operands of each rank, copies, flags and launches.

mod by_nccl;
pub(crate) mod choice;
mod collective;
pub(crate) mod devices;
pub(crate) mod gather_product;
pub(crate) mod links;
pub(crate) mod product_reduce;
pub(crate) mod product_scatter;
mod timeline;
