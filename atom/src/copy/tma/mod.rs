//! Tensor maps: what `cp.async.bulk.tensor` needs to know, derived from layouts.

mod derive;
mod error;
mod map;
mod moves;
mod plan;
mod swizzle;

pub use error::TmaError;
pub use map::{Interleave, L2Promotion, OobFill, TensorMap, TmaElement};
pub use moves::BoxElement;
pub use plan::{TmaInstruction, TmaPlan, TmaTile};
pub use swizzle::TmaSwizzle;
