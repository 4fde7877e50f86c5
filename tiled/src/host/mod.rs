//! Tiled copies and tiled MMAs executed on the host, instruction by instruction.

pub(crate) mod copy;
pub(crate) mod gemm;
mod zero_fill;

pub use gemm::{Arithmetic, Compressed, Edge, GemmOptions, OutOfBounds};
