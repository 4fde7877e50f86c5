//! Matrix products (GEMM): the plan, one kernel for each generation of instructions, and the call.

mod batch;
pub(crate) mod call;
mod choose;
pub(crate) mod chunks;
pub mod convolution;
pub(crate) mod epilogue;
mod factors;
mod family;
mod gemv;
pub(crate) mod groups;
pub(crate) mod operand;
pub(crate) mod plan;
mod plan_check;
mod prepared;
pub(crate) mod problem;
mod register_staged;
mod simt;
mod sm70;
mod sm80;
pub(crate) mod sm90;

pub use crate::autotune::Autotune;
pub use crate::method::GemmMethod;
pub use call::{Gemm, GemmCall, gemm};
pub use choose::PlanCost;
pub(crate) use choose::{Machine, operations};
pub use chunks::ChunkOrder;
pub use convolution::{Convolution, ConvolutionProblem, convolution};
pub use epilogue::closure::{EpilogueClosure, EpilogueElements};
pub use epilogue::expression::{
    Epilogue, EpilogueBuilder, EpilogueInput, EpilogueInputKind, EpilogueOutput, EpilogueReduction,
    EpilogueReductionKind,
};
pub use groups::Groups;
pub use groups::call::GroupNumber;
pub use groups::problem::GroupProblem;
pub use plan::{Division, GemmPlan, Operands};
