//! Element types, the numbers that they hold, and exact sums of them.

mod exact;
mod format;
mod fragment;
mod tma_element;
mod ty;
mod value;

pub(crate) use exact::{ExactSum, sum_to_odd};
pub use format::{FloatFormat, Rounding};
pub(crate) use format::{exponent_of, times_power_of_two};
pub use fragment::Fragment;
pub use tma_element::TmaElement;
pub use ty::{Class, Ty};
pub use value::Value;
pub(crate) use value::low_mask;
