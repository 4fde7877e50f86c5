//! Matrix products: a plan, a kernel for each generation, and the call.

mod call;
mod operand;
mod plan;
mod raster;
mod sm80;
mod sm90;

pub use call::{GemmCall, gemm};
pub use plan::{GemmMethod, GemmPlan, Operands};
