//! The simulator: a device in the host's memory that reports what a GPU would not.

mod memory;

pub use memory::{Memory, MemoryFault};
