//! The CuTe layout algebra as run-time values: sound, explained, fast.
#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;
#[cfg(test)]
extern crate std;

pub mod draw;

mod error;
mod int;
mod int_tuple;
mod layout;
mod modes;
mod parse;
mod stride;
mod surgery;
mod tiler;
mod tuple;

mod coalesce;
mod compact;
mod compare;
mod complement;
mod composition;
mod coord;
mod divide;
mod domain;
mod inverse;
mod iter;
mod lookup;
mod product;
mod recast;
mod slice;

mod infer;
mod refusal;
mod search;

pub use composition::{Case, Visit};
pub use error::Error;
pub use infer::{Contradiction, InferError, Seen};
pub use int::Int;
pub use int_tuple::IntTuple;
pub use iter::{Coords, Offsets};
pub use layout::{Layout, LeafMode};
pub use refusal::{CompositionError, Refusal, Share};
pub use search::{SEARCH_BOUND, Search};
pub use slice::{Coord, Slot};
pub use stride::{Basis, MAX_BASIS_DEPTH, Stride};
pub use tiler::Tiler;
pub use tuple::{Leaf, Tuple};
