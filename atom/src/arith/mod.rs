//! What an instruction computes, on the host.

mod exact;
mod exactness;
mod execute;
mod format;
mod hopper;
mod multiply;
mod sparse;
mod value;

pub(crate) use exact::{ExactSum, sum_to_odd};
pub use exactness::Exactness;
pub use execute::Operand;
pub use format::{FloatFormat, Rounding};
pub use value::Value;
pub(crate) use value::low_mask;
