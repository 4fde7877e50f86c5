//! Tensors of the host.

mod array;
mod partitions;
mod parts;
mod whole;
