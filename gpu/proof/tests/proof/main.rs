//! The tests of the crate in one binary, which links the libraries once.

mod copies;
mod corpus;
mod errors;
mod gemm;
mod operands;
mod pipelines;
mod plans;
mod speed;
mod sweep;
mod views;
