//! The tests of the crate in one binary, which links the libraries once.

mod attention;
mod copies;
mod corpus;
mod epilogues;
mod errors;
mod gemm;
mod operands;
mod pipelines;
mod plans;
mod rowwise;
mod speed;
mod sweep;
mod views;
