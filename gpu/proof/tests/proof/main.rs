//! The tests of the crate in one binary, which links the libraries once.

mod attention;
mod copies;
mod corpus;
mod elementwise;
mod epilogues;
mod errors;
mod gemm;
mod memory_bound;
mod operands;
mod pipelines;
mod plans;
mod reduce;
mod rowwise;
mod speed;
mod sweep;
mod top_k;
mod views;
