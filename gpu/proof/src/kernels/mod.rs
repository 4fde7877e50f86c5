//! The cases of the library: copies, products, plans drawn over all of their fields, expressions, reductions and gathers of fragments.

pub mod copies;
pub mod dumps;
pub mod fragments;
pub mod gathers;
pub mod gemm;
pub mod maps;
pub mod plans;
pub mod reductions;
mod samples;
pub mod views;

pub(crate) use samples::samples;
pub use samples::{copy_samples, listed_plans, product_samples};
