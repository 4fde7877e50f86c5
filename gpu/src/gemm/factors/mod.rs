//! The factors and C as kernels take them: where they are, packed, or as high and low parts.

pub(crate) mod high_low;
pub(crate) mod matrix;
