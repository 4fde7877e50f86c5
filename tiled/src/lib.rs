//! Tensors, TiledCopy and TiledMma: who touches what, executed and checked on the host.
#![forbid(unsafe_code)]

mod copy;
mod copy_host;
mod copy_make;
mod copy_report;
mod error;
mod gemm;
mod mma;
mod partition;
mod tensor;

pub use copy::{Side, ThrCopy, TiledCopy};
pub use copy_report::{CopyReport, Place, Traffic};
pub use error::Error;
pub use mma::{Operand, ThrMma, TiledMma};
pub use partition::{Partition, Partitionable};
pub use tensor::Tensor;
