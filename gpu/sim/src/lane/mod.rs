//! What one lane computes: floats, integers, conversions, and the tables of a matrix instruction.

pub(crate) mod bits;
pub(crate) mod convert;
pub(crate) mod float;
pub(crate) mod integer;
pub(crate) mod known;
pub(crate) mod lanewise;
pub(crate) mod plan;
