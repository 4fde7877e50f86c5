//! What can be wrong with a tiled copy, a tiled MMA, or their use.

colex_layout::opaque_error! {
    /// Why a tiling was not built, a tensor not partitioned, or a tiling not executed.
    ///
    /// Its sentence is its `Display` and `Debug` output.
    ///
    /// ```
    /// use colex_tiled::TiledCopy;
    ///
    /// let atom = colex_atom::copy("UniversalCopy<uint128_t>")?;
    /// let error = TiledCopy::new(atom, 16, "32:1", "4:1").unwrap_err();
    /// assert!(error.is_count_mismatch());
    /// assert_eq!(error.to_string(), "UniversalCopy<uint128_t> takes 8 values at a time, and 4 is not a multiple of 8");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[derive(Clone, PartialEq)]
    pub struct Error(ErrorKind);
    from colex_layout::Error, colex_draw::Error, colex_atom::Error;
}

impl Error {
    /// Returns whether the atom takes more threads or values than the tiling has, or a number that does not divide them.
    pub fn is_count_mismatch(&self) -> bool {
        matches!(
            self.kind(),
            ErrorKind::Count { .. } | ErrorKind::OperandCount { .. }
        )
    }

    /// Returns whether a thread accesses a coordinate that the tensor does not have: the tile does not divide it.
    pub fn is_outside(&self) -> bool {
        matches!(self.kind(), ErrorKind::Outside { .. })
    }

    /// A condition that CuTe takes for granted, and what does not hold, with the numbers.
    pub(crate) fn assumption(operation: &'static str, why: String) -> Self {
        ErrorKind::Assumption { operation, why }.into()
    }

    /// Returns the error of the layout algebra, if the operation fails there.
    pub fn layout(&self) -> Option<&colex_layout::Error> {
        match self.kind() {
            ErrorKind::Layout(error) => Some(error),
            _ => None,
        }
    }
}

#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub(crate) enum ErrorKind {
    #[error(transparent)]
    Layout(#[from] colex_layout::Error),
    #[error(transparent)]
    Draw(#[from] colex_draw::Error),
    #[error(transparent)]
    Atom(#[from] colex_atom::Error),
    #[error("{atom} takes {need} {what} at a time, and {have} is not a multiple of {need}")]
    Count {
        atom: String,
        what: &'static str,
        have: i64,
        need: i64,
    },
    #[error(
        "TiledCopy::for_operand: a thread holds {have} values of {bits} bits of {operand}, and {atom} moves {need} at a \
         time: take an atom of at most {} bits per thread, or an MMA that repeats its atoms", have * bits
    )]
    OperandCount {
        atom: String,
        operand: &'static str,
        bits: i64,
        have: i64,
        need: i64,
    },
    #[error("{operation} of {tensor}: it has rank {have}, and at least {need} modes are needed")]
    Rank {
        operation: &'static str,
        tensor: String,
        have: usize,
        need: usize,
    },
    #[error("thread {thread} is not within 0..{threads}")]
    Thread { thread: i64, threads: i64 },
    #[error(
        "thread {thread} names {coord}, which is outside of {tensor}: the tile does not divide the tensor, and a \
         predicate must say what is inside"
    )]
    Outside {
        thread: i64,
        coord: String,
        tensor: String,
    },
    #[error("{left} {operator} {right} does not fit 64 bits")]
    Overflow {
        left: i64,
        operator: char,
        right: i64,
    },
    #[error("`{atom}` keeps {keep} of {group} elements; row {m} has more at k = {k}")]
    TooDense {
        atom: String,
        m: usize,
        k: usize,
        group: usize,
        keep: usize,
    },
    #[error("{operation}: {why}")]
    Assumption {
        operation: &'static str,
        why: String,
    },
}
