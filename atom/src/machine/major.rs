//! How an operand lies in shared memory.

/// Which coordinate of an operand runs fastest in shared memory.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Major {
    /// K is contiguous (CuTe `Major::K`, BLAS "T" for A and "N" for B).
    #[default]
    K,
    /// M (of A) or N (of B) is contiguous (CuTe `Major::MN`).
    Mn,
}
