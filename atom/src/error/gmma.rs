//! What can be wrong with a tile in shared memory.

use crate::machine::Major;

#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub(crate) enum GmmaError {
    #[error("{layout} is not a canonical {}-major layout of wgmma: {why}", if *major == Major::K { "K" } else { "MN" })]
    NotCanonical {
        layout: String,
        major: Major,
        why: String,
    },
    #[error("a descriptor's {field} is a multiple of 16 bytes below {limit}, not {bytes}")]
    Field {
        field: &'static str,
        bytes: i64,
        limit: i64,
    },
    #[error("a descriptor's base offset is 0 to 7, not {value}")]
    BaseOffset { value: u8 },
    #[error(
        "a tile of {} x {} elements is not made of whole patterns of {} x {}", tile[0], tile[1], pattern[0], pattern[1]
    )]
    NotWholePatterns { tile: [i64; 2], pattern: [i64; 2] },
    #[error("elements of {bits} bits do not fill the 128 bits that wgmma reads at once")]
    Element { bits: u32 },
}
