//! Kernels written with tensors, executed on the simulator.

mod gemm_sm80;
