//! What can be wrong with a tile in shared memory.

use core::fmt;

use crate::machine::Major;

/// Why a layout has no descriptor, or a descriptor no such field.
#[non_exhaustive]
#[derive(Clone, Debug, PartialEq)]
pub enum GmmaError {
    /// A layout that `wgmma` cannot read.
    NotCanonical {
        /// The layout.
        layout: String,
        /// How it was to be read.
        major: Major,
        /// What would have to be otherwise.
        why: String,
    },
    /// A number of bytes that does not fit in its field.
    Field {
        /// The field: start address, leading or stride byte offset.
        field: &'static str,
        /// The number.
        bytes: i64,
        /// One past the largest that fits.
        limit: i64,
    },
    /// A base offset beyond 7.
    BaseOffset {
        /// The number.
        value: u8,
    },
    /// Elements that do not divide 128 bits.
    Element {
        /// Their width.
        bits: u32,
    },
    /// An operation on layouts was refused; its sentence.
    Layout(String),
}

impl fmt::Display for GmmaError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            GmmaError::NotCanonical { layout, major, why } => {
                let major = if *major == Major::K { "K" } else { "MN" };
                write!(
                    f,
                    "{layout} is not a canonical {major}-major layout of wgmma: {why}"
                )
            }
            GmmaError::Field {
                field,
                bytes,
                limit,
            } => write!(
                f,
                "a descriptor's {field} is a multiple of 16 bytes below {limit}, not {bytes}"
            ),
            GmmaError::BaseOffset { value } => {
                write!(f, "a descriptor's base offset is 0 to 7, not {value}")
            }
            GmmaError::Element { bits } => {
                write!(
                    f,
                    "elements of {bits} bits do not fill the 128 bits that wgmma reads at once"
                )
            }
            GmmaError::Layout(sentence) => f.write_str(sentence),
        }
    }
}

impl std::error::Error for GmmaError {}

impl From<colex_layout::Error> for GmmaError {
    fn from(error: colex_layout::Error) -> Self {
        GmmaError::Layout(error.to_string())
    }
}
