//! The kernel library: copies, transposes, matrix products.
//!
//! A [`View`] is a buffer seen through a layout. What a call is to do is checked before anything is launched, and what
//! is wrong is a [`KernelError`]. [`Walk`] is what a copy from one layout to another comes to; [`GemmProblem`] what a
//! matrix product does; [`reference`] does both on the host.

mod error;
mod gemm_problem;
pub mod reference;
mod view;
mod walk;

pub use error::KernelError;
pub use gemm_problem::{Compute, GemmElement, GemmProblem, Major, MatrixName};
pub use view::View;
pub use walk::{Step, Walk};
