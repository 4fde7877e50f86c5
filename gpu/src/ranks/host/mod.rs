//! Products over the devices of one process: the operands of each rank, copies, flags and launches.

pub(crate) mod devices;
pub(crate) mod gather_product;
pub(crate) mod links;
pub(crate) mod product_scatter;
