//! What every instruction speaks of: architectures, registers, memories.

mod arch;
mod registers;
mod space;

pub use arch::{Arch, PtxVersion};
pub use registers::{RegClass, Registers};
pub use space::Space;
