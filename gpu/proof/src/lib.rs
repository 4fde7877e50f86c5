//! What the kernels are checked with, on the simulator and on a device: every executable instruction alone
//! ([`sweep`]), every form of every instruction before the assembler ([`corpus`]), the library against its references
//! ([`kernels`]).
#![forbid(unsafe_code)]

pub mod corpus;
pub mod cublaslt;
pub mod kernels;
mod sample;
pub mod sweep;
