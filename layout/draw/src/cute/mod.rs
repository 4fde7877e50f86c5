//! What CuTe's functions print, to the byte: LaTeX, and SVG of matrix instructions.

pub(crate) mod latex;
pub(crate) mod mma;
