//! The cases of the library: copies, products, and plans drawn over all of their fields.

pub mod copies;
pub mod gemm;
pub mod maps;
pub mod plans;
mod samples;
pub mod views;

pub(crate) use samples::samples;
pub use samples::{copy_samples, listed_plans, product_samples};
