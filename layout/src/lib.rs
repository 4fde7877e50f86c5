#![doc = include_str!("../README.md")]
#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;

pub mod explain;

mod algebra;
mod error;
mod layout;
mod notation;
mod swizzle;
mod tuple;

pub use algebra::infer::INFER_BOUND;
pub use algebra::inverse::RUN_BOUND;
pub use algebra::search::SEARCH_BOUND;
pub use error::Error;
pub use error::composition::{CompositionError, Refusal, Search, Share};
pub use error::infer::{Contradiction, InferError, Seen};
pub use explain::Explanation;
pub use layout::coalesce::Profile;
pub use layout::compact::{LayoutLeft, LayoutRight, ModeOrder};
pub use layout::coord::{IntoPoint, TABLE_BOUND, Unbounded};
pub use layout::into::{Compose, IntoLayout, IntoTiler, TilerRef};
pub use layout::iter::{Coords, Offsets, Points};
pub use layout::slice::{Coord, IntoCoord, Slot};
pub use layout::tiler::Tiler;
pub use layout::{Layout, LeafMode};
#[doc(hidden)]
pub use notation::literal;
pub use swizzle::Swizzle;
pub use swizzle::composed::into::IntoComposedLayout;
pub use swizzle::composed::{ComposedLayout, Middle, Outer};
pub use swizzle::matrix::BinaryMatrix;
pub use tuple::builder::TupleBuilder;
pub use tuple::constant::{C, E};
pub use tuple::int::Int;
pub use tuple::int_tuple::IntTuple;
pub use tuple::into::{IntoIntTuple, IntoStride, IntoTuple};
pub use tuple::stride::{Basis, MAX_BASIS_DEPTH, Stride};
pub use tuple::{Leaf, Tuple};
