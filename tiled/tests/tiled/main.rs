//! The tests of the crate in one binary, which links the libraries once.

mod copy;
mod draw;
mod examples;
mod gemm;
mod gemm_sparse;
mod laws;
mod matrix;
mod mma;
mod raked;
mod tensor;
mod vector;
