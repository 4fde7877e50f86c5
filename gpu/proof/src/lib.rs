//! The checks of kernels, on the simulator and on a device: every executable instruction alone ([`sweep`]), every form
//! of every instruction against the assembler ([`corpus`]), the library against its references ([`kernels`]), and the
//! barriers of kernels against the checker of pipelines ([`recorded`]). [`examples`] runs the kernels in the
//! documentation.
#![forbid(unsafe_code)]

pub mod corpus;
pub mod cublaslt;
pub mod examples;
pub mod kernels;
pub mod recorded;
mod sample;
pub mod soak;
pub mod sweep;
