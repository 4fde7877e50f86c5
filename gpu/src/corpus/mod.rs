//! Kernels that exist to be checked: every form of every instruction, and the kernels of the library.
//!
//! The assembler of NVIDIA is the witness: what the verifier accepts it must assemble, in the version of PTX that
//! the printer chose and in none before; what the verifier refuses for its types it must refuse too.

mod given;
mod instructions;

pub use instructions::{Case, instructions};
