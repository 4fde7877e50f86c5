//! The kernel library: copies, transposes, matrix products.
//!
//! A [`View`] is a buffer seen through a layout, to be read; a [`ViewMut`] one to be written. What a call is to do is checked before anything is launched, and what
//! is wrong is an [`Error`](crate::Error). [`LoopNest`] is what a copy from one layout to another comes to; [`GemmProblem`] what a
//! matrix product does; [`reference`](mod@reference) does both on the host.

pub use crate::copy::call::{CopyCall, copy, transpose};
pub use crate::copy::loop_nest::{Loop, LoopNest};
pub use crate::copy::plan::{CopyMethod, CopyPlan};
pub use crate::gemm;
pub use crate::gemm::Gemm;
pub use crate::gemm::problem::{GemmElement, GemmProblem, Major};
pub use crate::method::Compute;
pub use crate::reference;
pub use colex_device::{DeviceSlice, View, ViewMut};
pub use colex_tiled::Operand as MatrixName;
