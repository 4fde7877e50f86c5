//! The kernel library: copies, transposes, matrix products.
//!
//! A [`View`] is a buffer seen through a layout. What a call is to do is checked before anything is launched, and what
//! is wrong is a [`KernelError`]. [`Walk`] is what a copy from one layout to another comes to; [`GemmProblem`] what a
//! matrix product does; [`reference`](mod@reference) does both on the host.

mod calls;
pub mod check;
pub mod check_gemm;
pub mod check_plans;
mod copy_bulk;
mod copy_flat;
mod copy_strided;
mod elements;
mod error;
pub mod gemm;
mod gemm_problem;
mod launches;
mod pieces;
mod plan;
pub mod reference;
mod run;
mod samples;
mod transpose_tile;
mod transpose_tma;
mod view;
mod walk;

pub(crate) use calls::Calls;
pub use elements::Elements;
pub use error::KernelError;
pub use gemm_problem::{Compute, GemmElement, GemmProblem, Major, MatrixName};
pub use plan::{CopyMethod, CopyPlan};
pub use run::{CopyCall, copy, transpose};
pub(crate) use samples::samples;
pub use view::View;
pub use walk::{Step, Walk};
