//! Kernels that exist to be checked: every form of every instruction, and whole kernels with those of the library.
//!
//! The assembler of NVIDIA is the witness: what the verifier accepts it must assemble, in the version of PTX that
//! the printer chose and in none before; what the verifier refuses for its types it must refuse too.

mod atoms;
mod given;
mod instructions;
mod samples;

pub use atoms::{copies, products};
pub use instructions::{FormCase, instructions};
pub use samples::{Sample, pipelined, reduce, samples, through_shared, warpgroups};
