//! What goes wrong between the devices of one process.

use std::time::Duration;

use crate::error::{Error, RankError};
use crate::ranks::RankPath;

/// Why a product over devices is refused, or has failed.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub(crate) enum HostError {
    #[error("{given} devices: a product takes 1 to {most}, one for each rank")]
    Devices { given: usize, most: usize },
    #[error(
        "rank {rank}, {name}, is {found}, and rank 0 is {first}: the kernels of all ranks are those of one architecture"
    )]
    Archs {
        rank: usize,
        name: String,
        found: String,
        first: String,
    },
    #[error(
        "rank {from}, {device}, has no access to the memory of rank {to}, {peer}: without it no copy goes from one to the other"
    )]
    NoAccess {
        from: usize,
        to: usize,
        device: String,
        peer: String,
    },
    #[error("{problem}, and there are {given} devices: each rank has one")]
    Ranks { problem: String, given: usize },
    #[error("{found} is asked of the call of {wanted}")]
    Overlap { found: String, wanted: String },
    #[error(
        "{pieces} pieces of a chunk of {rows} rows: the number must divide the rows, and be at most {most}"
    )]
    Pieces { pieces: i64, rows: i64, most: i64 },
    #[error("the path {path} is not taken here: {why}")]
    Path { path: RankPath, why: &'static str },
    #[error(
        "rank {rank} has not ended within {within:?}: its flags are released, and what was computed is of no use"
    )]
    Late { rank: usize, within: Duration },
    #[error("the product has failed before: its flags are released, and a new one has new flags")]
    Over,
}

impl From<HostError> for Error {
    fn from(why: HostError) -> Error {
        RankError::from(why).into()
    }
}
