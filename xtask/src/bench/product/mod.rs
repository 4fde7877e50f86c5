//! Benches of products: beside cuBLASLt, of the plans, of the generations, of epilogues, of groups, of convolutions, over
//! ranks, of the time to build a kernel, one change of a plan at a time, and sweeps over drawn shapes.

pub(crate) mod convolution;
pub(crate) mod epilogue;
pub(crate) mod gated;
pub(crate) mod gemm;
pub(crate) mod groups;
pub(crate) mod kernels;
pub(crate) mod ladder;
pub(crate) mod processes;
pub(crate) mod ranks;
pub(crate) mod recorded;
mod reference;
pub(crate) mod sweep;
