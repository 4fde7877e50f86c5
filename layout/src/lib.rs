#![doc = include_str!("../README.md")]
#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;
#[cfg(test)]
extern crate std;

pub mod draw;
pub mod explain;
#[doc(hidden)]
pub mod literal;

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

mod banks;
mod choose;
mod coalesce;
mod compact;
mod compare;
mod complement;
mod composed;
mod composed_forward;
mod composed_inverse;
mod composed_slice;
mod composition;
mod coord;
mod coordinate;
mod divide;
mod domain;
mod dynamic;
mod equation;
mod infer;
mod injective;
mod inverse;
mod iter;
mod linear;
mod lookup;
mod matrix;
mod product;
mod recast;
mod refusal;
mod search;
#[cfg(feature = "serde")]
mod serialize;
mod slice;
mod swizzle;
mod xor;

pub use banks::{Access, Banks, Conflicts, MAX_LANES, Phase};
pub use choose::{Choice, Effect, NoSwizzle, choose_swizzle, choose_swizzle_for};
pub use composed::{ComposedLayout, Middle, Outer};
pub use coord::TABLE_BOUND;
pub use error::Error;
pub use explain::Explanation;
pub use infer::{Contradiction, INFER_BOUND, InferError, Seen};
pub use int::Int;
pub use int_tuple::IntTuple;
pub use inverse::RUN_BOUND;
pub use iter::{Coords, Offsets};
pub use layout::{Layout, LeafMode};
pub use matrix::BinaryMatrix;
pub use refusal::{CompositionError, Refusal, Share};
pub use search::{SEARCH_BOUND, Search};
pub use slice::{Coord, Slot};
pub use stride::{Basis, MAX_BASIS_DEPTH, Stride};
pub use swizzle::Swizzle;
pub use tiler::Tiler;
pub use tuple::{Leaf, Tuple};
