//! Tensors, TiledCopy and TiledMma: which thread accesses which elements, executed and checked on the host.
//!
//! Which elements a thread holds, what the whole tile computes, and what is wrong with a copy before any kernel exists.
//!
//! ```
//! use colex_tiled::{Operand, Tensor, TiledCopy, TiledMma};
//!
//! // Four atoms of 32 threads over a tile of 32 by 16 by 16.
//! let mma = TiledMma::new(colex_atom::mma("SM80_16x8x16_F32F16F16F32_TN")?, "(2,2,1):(1,2,0)", (.., .., ..))?;
//! let c = mma.slice(5)?.partition("(32,16):(16,1)", Operand::C)?;
//! assert_eq!(format!("{} + {:#}", c.start, c.layout), "18 + ((2,2),1,1):((1,128),0,0)");
//!
//! // The copy that brings A into the registers where the MMA wants it, by `ldmatrix`.
//! let load = TiledCopy::for_operand(colex_atom::copy("SM75_U32x4_LDSM_N")?, 16, &mma, Operand::A)?;
//! let shared = "(32,16):(16,1)";
//! let report = load.report(shared, shared)?;
//! assert_eq!(
//!     report.to_string().lines().last(),
//!     Some("The source's accesses take 32 passes, and 16 would do: 2 words meet in a bank, first for thread 0, from (0,0) on.")
//! );
//!
//! // And on data: what the instructions move is what was there.
//! let from = Tensor::new((0..512).collect::<Vec<i32>>(), shared)?;
//! let mut to = Tensor::new(vec![0; 512], "(32,16):(1,32)")?;
//! load.copy(&from, &mut to)?;
//! assert_eq!(from.elements()?, to.elements()?);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! [`TiledCopy::copy`] and [`TiledMma::gemm`] execute, with the arithmetic of the atoms; [`TiledCopy::report`] and
//! [`TiledMma::report`] say which thread holds which element and what that does to registers, banks and sectors; [`Vectorization`] says how
//! wide a plain copy may be, and why not wider. A [`Tensor`] is data, or the coordinates of another one.
#![forbid(unsafe_code)]

mod access;
mod copy;
mod error;
mod host;
mod mma;
mod report;
mod show;
mod tensor;

pub use access::{Place, TooWide, Traffic, VectorLimit, Vectorization};
pub use copy::{CopySteps, Side, ThrCopy, TiledCopy};
pub use error::Error;
pub use host::{Arithmetic, Compressed, Edge, GemmOptions, OutOfBounds};
pub use mma::{MmaSteps, Operand, ThrMma, TiledMma};
pub use report::{CopyReport, MmaReport, OperandReport};
pub use tensor::{Coordinates, Partition, Partitionable, Tensor};

/// The examples of the README run.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
