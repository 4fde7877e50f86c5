//! What the kernels are checked with, on the simulator and on a device: every executable instruction alone
//! ([`sweep`]), every form of every instruction before the assembler ([`corpus`]), the library against its references
//! ([`kernels`]), and the barriers of kernels against the checker of pipelines ([`recorded`]).
#![forbid(unsafe_code)]

pub mod corpus;
pub mod cublaslt;
pub mod examples;
pub mod kernels;
pub mod recorded;
mod sample;
pub mod sweep;
