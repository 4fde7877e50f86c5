//! The cases of the library: copies, products, and plans drawn over all of their fields.

pub mod check;
pub mod check_gemm;
pub mod check_plans;
mod samples;

pub(crate) use samples::samples;
