//! Matrix products: a plan, a kernel for each generation, and the call.

mod call;
mod direct;
mod numbers;
mod operand;
mod plan;
mod plan_check;
mod raster;
mod simt;
mod sm70;
mod sm80;
mod sm80_end;
mod sm90;
mod sm90_end;
mod staged;

pub use call::{GemmCall, gemm};
pub use plan::{GemmMethod, GemmPlan, Operands};
