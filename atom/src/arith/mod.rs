//! What an instruction computes, on the host.

mod exactness;
mod execute;
mod hopper;
mod multiply;
mod sparse;

pub use exactness::Exactness;
pub use execute::Operand;
