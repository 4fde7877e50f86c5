//! What every instruction speaks of: architectures, registers, memories.

mod arch;
mod argument;
mod major;
mod registers;
mod space;

pub use arch::{Arch, PtxVersion, Release};
pub use argument::Argument;
pub use major::Major;
pub use registers::{RegClass, Registers};
pub use space::Space;
