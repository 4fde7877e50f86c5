//! What can be wrong with a copy.

use core::fmt;

use crate::machine::{Argument, Space};

/// Why a copy was not found, written or executed.
#[non_exhaustive]
#[derive(Clone, Debug, PartialEq)]
pub enum CopyError {
    /// A name that is in no row.
    Unknown {
        /// What was asked for.
        name: String,
        /// The names closest to it.
        nearest: Vec<String>,
    },
    /// A name that leaves out the rank of the tensor.
    RankOpen {
        /// What was asked for.
        name: String,
        /// The names with a rank.
        members: Vec<String>,
    },
    /// A width the operation does not have.
    Width {
        /// The operation.
        name: String,
        /// What was asked for, in bits per thread.
        bits: i64,
        /// What it can be.
        legal: String,
    },
    /// Ends that the operation does not connect.
    Spaces {
        /// The operation.
        name: String,
        /// Where from.
        from: Space,
        /// Where to.
        to: Space,
        /// What would be right.
        hint: &'static str,
    },
    /// An operand of the instruction with the wrong number of names.
    Operand {
        /// The operation.
        name: String,
        /// Which.
        argument: Argument,
        /// How many names it takes.
        expected: usize,
        /// How many there were.
        found: usize,
    },
    /// A value width that the thread-value layouts cannot be cut into.
    Values {
        /// The operation.
        name: String,
        /// The width of a value.
        bits: i64,
        /// The layout.
        layout: String,
        /// Why not.
        why: String,
    },
    /// Data of the wrong shape, given to be copied.
    Data {
        /// The operation.
        name: String,
        /// What is counted: threads, or the values of one of them.
        what: String,
        /// How many there should be.
        expected: usize,
        /// How many there were.
        found: usize,
    },
    /// A zero-filling copy that is asked to read more than it writes.
    SourceBytes {
        /// The operation.
        name: String,
        /// What it writes.
        bytes: usize,
        /// What it should read.
        source: usize,
    },
}

impl fmt::Display for CopyError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            CopyError::Unknown { name, nearest } => {
                write!(
                    f,
                    "no copy operation is called `{name}`; the nearest are {}",
                    nearest.join(", ")
                )
            }
            CopyError::RankOpen { name, members } => {
                write!(
                    f,
                    "`{name}` leaves the rank of the tensor open; there are {}",
                    members.join(", ")
                )
            }
            CopyError::Width { name, bits, legal } => {
                write!(
                    f,
                    "`{name}` cannot move {bits} bits per thread, only {legal}"
                )
            }
            CopyError::Spaces {
                name,
                from,
                to,
                hint,
            } => {
                write!(f, "`{name}` does not go from {from} to {to}: {hint}")
            }
            CopyError::Operand {
                name,
                argument,
                expected,
                found,
            } => {
                write!(
                    f,
                    "operand {argument:?} of `{name}` takes {expected} names, not {found}"
                )
            }
            CopyError::Values {
                name,
                bits,
                layout,
                why,
            } => {
                write!(
                    f,
                    "`{name}` cannot be read in values of {bits} bits: {layout}: {why}"
                )
            }
            CopyError::Data {
                name,
                what,
                expected,
                found,
            } => {
                write!(f, "`{name}` takes {expected} {what}, not {found}")
            }
            CopyError::SourceBytes {
                name,
                bytes,
                source,
            } => {
                write!(f, "`{name}` writes {bytes} bytes and cannot read {source}")
            }
        }
    }
}

impl std::error::Error for CopyError {}
