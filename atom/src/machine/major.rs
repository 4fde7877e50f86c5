//! The contiguous index of a matrix.

/// The contiguous index of a matrix: of A as `(M,K)`, of B as `(N,K)`, of C as `(M,N)`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Major {
    /// The first index: M of A and of C, N of B. BLAS calls it `N` for A and `T` for B.
    First,
    /// The second index: K of A and of B, N of C. BLAS calls it `T` for A and `N` for B.
    #[default]
    Second,
}

impl Major {
    /// K of an operand is contiguous (CuTe `Major::K`).
    pub const K: Major = Major::Second;
    /// M of A or N of B is contiguous (CuTe `Major::MN`).
    pub const MN: Major = Major::First;

    /// Returns the contiguous index of the transpose.
    ///
    /// ```
    /// use colex_atom::Major;
    ///
    /// assert_eq!(Major::K.transposed(), Major::MN);
    /// ```
    #[must_use]
    pub fn transposed(self) -> Major {
        match self {
            Major::First => Major::Second,
            Major::Second => Major::First,
        }
    }
}
