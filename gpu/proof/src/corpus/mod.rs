//! Kernels to be checked: every form of every instruction, and whole kernels, among them those of the library.
//!
//! NVIDIA's assembler is the oracle. It must assemble what the verifier accepts, in the version of PTX that the printer
//! chose and in no earlier one, and it must refuse what the verifier refuses for its types.

mod atoms;
mod given;
mod instructions;
mod samples;

pub use atoms::{copies, products};
pub use instructions::{FormCase, instructions};
pub use samples::{Sample, drawn_samples, pipelined, reduce, samples, through_shared, warpgroups};
