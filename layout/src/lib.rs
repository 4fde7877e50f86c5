//! The CuTe layout algebra as run-time values: sound, explained, fast.
#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;
#[cfg(test)]
extern crate std;

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
mod complement;
mod composition;
mod coord;
mod divide;
mod inverse;
mod product;

pub use composition::{CompositionError, Refusal};
pub use error::Error;
pub use int::Int;
pub use int_tuple::IntTuple;
pub use layout::{Layout, LeafMode};
pub use stride::{Basis, MAX_BASIS_DEPTH, Stride};
pub use tiler::Tiler;
pub use tuple::{Leaf, Tuple};
