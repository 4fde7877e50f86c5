//! `im2col`: a column of pixels in place of a box, for convolutions.

mod derive;
mod pixels;
mod plan;

pub use pixels::PixelBox;
pub use plan::{Im2colInstruction, Im2colPlan, Im2colStart, Im2colTile, Taps};
