//! Benches of products: beside cuBLASLt, of the plans, of the generations, of epilogues, and sweeps over drawn shapes.

pub(crate) mod epilogue;
pub(crate) mod gemm;
pub(crate) mod recorded;
pub(crate) mod sweep;
