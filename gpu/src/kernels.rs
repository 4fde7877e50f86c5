//! The kernel library: copies, transposes, matrix products.
//!
//! A [`View`] is a buffer seen through a layout, for reading; a [`ViewMut`] is one for writing. A call checks its arguments
//! before it launches a kernel, and returns an [`Error`](crate::Error) if they are wrong. A [`LoopNest`] describes a copy between
//! two layouts, a [`GemmProblem`] a matrix product. [`reference`](mod@reference) computes both on the host.

/// What threads share: the compiler checks it wherever the crate is built.
const _: () = {
    const fn shared<T: Send + Sync>() {}
    shared::<Gemm<'_, f32, f32>>();
    shared::<gemm::GemmCall<'_>>();
    shared::<CopyCall<'_>>();
    shared::<crate::reduce::ReduceCall<'_>>();
    shared::<crate::reduce::scan::ScanCall<'_>>();
    shared::<crate::reduce::top_k::TopKCall<'_>>();
    shared::<crate::rowwise::RowwiseCall<'_>>();
    shared::<crate::elementwise::ElementwiseCall<'_>>();
    shared::<crate::quantise::QuantiseCall<'_>>();
    shared::<crate::DeviceKernel>();
    shared::<crate::Error>();
};

pub use crate::copy::call::{CopyCall, copy, transpose};
pub use crate::copy::loop_nest::{Loop, LoopNest};
pub use crate::copy::plan::{CopyMethod, CopyPlan};
pub use crate::gemm;
pub use crate::gemm::Gemm;
pub use crate::gemm::problem::{EpilogueWork, GemmElement, GemmProblem};
pub use crate::method::Compute;
pub use crate::reference;
pub use colex_atom::Major;
pub use colex_device::{DeviceSlice, View, ViewMut};
pub use colex_tiled::Operand;
