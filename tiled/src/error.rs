//! What can be wrong with a tiled copy, a tiled MMA, or their use.

use core::fmt;

/// Why a tiling was not built, or a tensor not partitioned.
#[non_exhaustive]
#[derive(Clone, Debug, PartialEq)]
pub enum Error {
    /// The algebra has no result.
    Layout(colex_layout::Error),
    /// The atom has no such form.
    Atom(colex_atom::Error),
    /// The thread-value layout has threads or values that the atom cannot be repeated over.
    Count {
        /// The atom.
        atom: String,
        /// `threads` or `values`.
        what: &'static str,
        /// How many the tiling has.
        have: i64,
        /// How many the atom takes.
        need: i64,
    },
    /// A tensor of too small a rank.
    Rank {
        /// What it was given to.
        operation: &'static str,
        /// The tensor.
        tensor: String,
        /// Its rank.
        have: usize,
        /// The least rank.
        need: usize,
    },
    /// A thread that does not take part.
    Thread {
        /// The thread.
        thread: i64,
        /// How many there are.
        threads: i64,
    },
    /// A thread names a coordinate that the tensor does not have.
    Outside {
        /// The first such thread.
        thread: i64,
        /// Its first such coordinate.
        coord: String,
        /// The tensor.
        tensor: String,
    },
    /// A condition that CuTe takes for granted and that does not hold.
    Assumption {
        /// Where.
        operation: &'static str,
        /// What does not hold, with the numbers.
        why: String,
    },
}

impl Error {
    /// A condition that does not hold, and what does not hold.
    pub(crate) const fn assumption(operation: &'static str, why: String) -> Self {
        Self::Assumption { operation, why }
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Layout(e) => e.fmt(f),
            Self::Atom(e) => e.fmt(f),
            Self::Count {
                atom,
                what,
                have,
                need,
            } => {
                write!(
                    f,
                    "{have} {what} are not a multiple of the {need} that {atom} takes"
                )
            }
            Self::Rank {
                operation,
                tensor,
                have,
                need,
            } => {
                write!(
                    f,
                    "{operation} of {tensor}: it has rank {have}, and at least {need} modes are needed"
                )
            }
            Self::Thread { thread, threads } => {
                write!(f, "thread {thread} is not within 0..{threads}")
            }
            Self::Outside {
                thread,
                coord,
                tensor,
            } => {
                write!(
                    f,
                    "thread {thread} names {coord}, which is outside of {tensor}: the tile does not divide the tensor, \
                     and a predicate must say what is inside"
                )
            }
            Self::Assumption { operation, why } => write!(f, "{operation}: {why}"),
        }
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Layout(e) => Some(e),
            Self::Atom(e) => Some(e),
            _ => None,
        }
    }
}

impl From<colex_layout::Error> for Error {
    fn from(e: colex_layout::Error) -> Self {
        Self::Layout(e)
    }
}

impl From<colex_atom::Error> for Error {
    fn from(e: colex_atom::Error) -> Self {
        Self::Atom(e)
    }
}
