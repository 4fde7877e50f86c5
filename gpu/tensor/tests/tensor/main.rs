//! Kernels written with tensors, executed on the simulator.

mod attention;
mod conversions;
mod copies;
mod defects;
mod gemm_sm80;
mod gemm_sm90;
mod grids;
mod held;
mod index_laws;
mod no_integer;
mod operands;
mod parts;
mod refusals;
