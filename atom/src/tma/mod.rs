//! Tensor maps: what `cp.async.bulk.tensor` needs to know, derived from layouts.

mod check;
mod derive;
mod im2col;
mod map;
mod moves;
mod plan;
mod swizzle;

pub use im2col::{Im2colInstruction, Im2colPlan, Im2colStart, Im2colTile, PixelBox, Taps};
pub use map::{Interleave, L2Promotion, OobFill, TensorMap, TmaElement};
pub use moves::BoxElement;
pub use plan::{TmaInstruction, TmaPlan, TmaTile};
pub use swizzle::TmaSwizzle;
