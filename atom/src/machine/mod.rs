//! Architectures and versions of PTX.

mod arch;

pub use arch::{Arch, PtxVersion};
