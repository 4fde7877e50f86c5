//! Kernels built from tensors, printed as PTX, run on a simulator or a CUDA device.

pub mod ir;
