//! Attention, forward: the plan, one kernel for each generation of instructions, the call, and a reference in double
//! precision.

mod ahead;
pub(crate) mod call;
mod combine;
mod cost;
mod family;
mod launches;
mod pages;
pub(crate) mod plan;
pub(crate) mod problem;
pub mod reference;
mod schedule;
mod sm80;
mod sm90;
mod tune;

pub use crate::autotune::Autotune;
pub use crate::method::AttentionMethod;
pub use ahead::AttentionRange;
pub use call::{Attention, AttentionCall, SequenceNumber, attention};
pub use cost::AttentionCost;
pub use launches::AttentionLaunch;
pub use plan::{AttentionOperands, AttentionPlan};
pub use problem::{AttentionProblem, AttentionTensor, Mask, Sequences};
