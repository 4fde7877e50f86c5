//! What can be wrong.

mod copy;
mod gmma;
mod im2col;
mod tma;

use core::fmt;

use crate::machine::Arch;
pub use copy::CopyError;
pub use gmma::GmmaError;
pub use im2col::Im2colError;
pub use tma::TmaError;

/// Why an atom was not found, built, or executed.
#[non_exhaustive]
#[derive(Clone, Debug, PartialEq)]
pub enum Error {
    /// A target that no row names.
    UnknownArch {
        /// What was asked for.
        text: String,
    },
    /// A name that is in no row.
    UnknownMma {
        /// What was asked for.
        name: String,
        /// The names closest to it.
        nearest: Vec<String>,
    },
    /// A `wgmma` (or `tcgen05`) name with an extent of N that the instruction does not have.
    IllegalN {
        /// What was asked for.
        name: String,
        /// The extents there are.
        legal: &'static [i64],
    },
    /// A template argument that the operation does not have.
    UnknownOption {
        /// The operation.
        name: String,
        /// The word that was not understood.
        word: String,
    },
    /// An option that the operation does not allow.
    OptionRefused {
        /// The operation.
        name: String,
        /// The reason.
        why: &'static str,
    },
    /// A copy was not found, written or executed.
    Copy(Box<CopyError>),
    /// Layouts have no tensor map.
    Tma(Box<TmaError>),
    /// A tile in shared memory has no descriptor.
    Gmma(Box<GmmaError>),
    /// A layout-only row was asked for its text or its result.
    NotExecutable {
        /// The operation.
        name: String,
    },
    /// An operand of the wrong size or kind.
    Operand {
        /// The operation.
        name: String,
        /// `A`, `B`, `C` or `E`.
        operand: char,
        /// What it should have been.
        expected: String,
        /// What it was.
        found: String,
    },
    /// Sparsity metadata that selects no element.
    Metadata {
        /// The operation.
        name: String,
        /// The row of A.
        m: usize,
        /// The first element of the group along K.
        k: usize,
        /// The group's bits.
        bits: u64,
        /// How many positions they should name: two of four, or one of two.
        positions: usize,
    },
    /// A group of a sparse A with more elements than can be kept.
    TooDense {
        /// The operation.
        name: String,
        /// The row of A.
        m: usize,
        /// The first element of the group along K.
        k: usize,
        /// The size of the group.
        group: usize,
        /// How many of it can be kept.
        keep: usize,
    },
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Error::UnknownArch { text } => {
                let known: Vec<&str> = Arch::ALL.iter().map(|arch| arch.target()).collect();
                write!(
                    f,
                    "no architecture is called `{text}`; there are {}",
                    known.join(", ")
                )
            }
            Error::UnknownMma { name, nearest } => {
                write!(
                    f,
                    "no MMA operation is called `{name}`; the nearest are {}",
                    nearest.join(", ")
                )
            }
            Error::IllegalN { name, legal } => {
                write!(f, "`{name}` does not exist: N can be ")?;
                let legal: Vec<String> = legal.iter().map(i64::to_string).collect();
                f.write_str(&legal.join(", "))
            }
            Error::UnknownOption { name, word } => {
                write!(f, "`{name}` has no template argument `{word}` there")
            }
            Error::OptionRefused { name, why } => write!(f, "`{name}` refuses the options: {why}"),
            Error::Copy(error) => error.fmt(f),
            Error::Tma(error) => error.fmt(f),
            Error::Gmma(error) => error.fmt(f),
            Error::NotExecutable { name } => write!(
                f,
                "`{name}` is a row to look at: it has layouts and no opcode"
            ),
            Error::Operand {
                name,
                operand,
                expected,
                found,
            } => {
                write!(
                    f,
                    "operand {operand} of `{name}` should be {expected}, not {found}"
                )
            }
            Error::Metadata {
                name,
                m,
                k,
                bits,
                positions,
            } => {
                write!(
                    f,
                    "the metadata of `{name}` in row {m} at k = {k} is {bits:#06b}: "
                )?;
                match positions {
                    1 => write!(f, "one of two is 0b0100 or 0b1110"),
                    _ => write!(
                        f,
                        "two of four are two positions in ascending order, the lower in the low bits"
                    ),
                }
            }
            Error::TooDense {
                name,
                m,
                k,
                group,
                keep,
            } => {
                write!(
                    f,
                    "`{name}` keeps {keep} of {group} elements; row {m} has more at k = {k}"
                )
            }
        }
    }
}

impl std::error::Error for Error {}

impl From<CopyError> for Error {
    fn from(error: CopyError) -> Self {
        Error::Copy(Box::new(error))
    }
}

impl From<GmmaError> for Error {
    fn from(error: GmmaError) -> Self {
        Error::Gmma(Box::new(error))
    }
}

impl From<TmaError> for Error {
    fn from(error: TmaError) -> Self {
        Error::Tma(Box::new(error))
    }
}
