//! What tiled copies and tiled MMAs do to memory and registers, before any kernel exists.

mod copy;
mod mma;
pub(crate) mod mma_sentences;

pub use copy::CopyReport;
pub use mma::{MmaReport, OperandReport};
