//! The text of an instruction, and of the smallest kernel around it.

mod instruction;
mod kernel;

pub use instruction::MmaOperands;
pub use kernel::{KernelBatch, kernel_batches};
