//! What can be wrong with a copy.

use crate::machine::{Argument, Space};

#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub(crate) enum CopyError {
    #[error("no copy operation is called `{name}`; the nearest are {}",
                    nearest.join(", "))]
    Unknown { name: String, nearest: Vec<String> },
    #[error("`{name}` leaves the rank of the tensor open; there are {}",
                    members.join(", "))]
    RankOpen { name: String, members: Vec<String> },
    #[error("`{name}` cannot move {bits} bits per thread, only {legal}")]
    Width {
        name: String,
        bits: i64,
        legal: String,
    },
    #[error("`{name}` does not go from {from} to {to}: {hint}")]
    Spaces {
        name: String,
        from: Space,
        to: Space,
        hint: &'static str,
    },
    #[error("operand {argument:?} of `{name}` takes {expected} names, not {found}")]
    Operand {
        name: String,
        argument: Argument,
        expected: usize,
        found: usize,
    },
    #[error("`{name}` cannot be read in values of {bits} bits: {layout}: {why}")]
    Values {
        name: String,
        bits: i64,
        layout: String,
        why: String,
    },
    #[error("`{name}` takes {expected} {what}, not {found}")]
    Data {
        name: String,
        what: String,
        expected: usize,
        found: usize,
    },
    #[error("`{name}` writes {bytes} bytes and cannot read {read}")]
    SourceBytes {
        name: String,
        bytes: usize,
        read: usize,
    },
}
