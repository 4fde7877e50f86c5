//! Kernels from tensors: partitions instead of addresses.
//!
//! A [`Builder`] builds the same [`Kernel`](colex_ir::Kernel) as a [`KernelBuilder`](colex_ir::KernelBuilder), whose
//! instructions [`Builder::emit`] adds. It builds it from:
//!
//! | | |
//! |---|---|
//! | [`Index`] | an integer over registers: `k.thread()`, `k.block_index(0)`, loop counters, `a.extent(1)`; `+ - * / %` with each other and with constants; `k.value(&i)` is its register |
//! | [`Var`] | an integer that changes: `k.var(0, 0..4)`, `k.get(&v)`, `k.set(&v, i)` |
//! | [`Cond`] | `k.less(&i, &j)`, `k.equal(&i, &j)`, `k.both(p, q)`; `k.if_(p, ..)`, `k.where_(p, ..)` |
//! | [`Tensor`] | `k.tensor(name, ty, layout)` a parameter; `a.local_tile((64, 32), (m, step))` a tile of it; `k.shared_tensor(ty, layout)` swizzled or not, stages as a mode; `t.at(3, stage)`, `t.slice((.., .., 0))` |
//! | [`AtThread`] | `tiled_copy.at(&tid).partition_src(&t)`, `.partition_dst(&t)`, `tiled_mma.at(&tid).partition(&t, Operand::C)` |
//! | [`Fragment`] | `k.fragment_of(&mma, Operand::A, [64, 32])`, `k.accumulators(&mma, [64, 64])`, `k.fragment_like(&part)`, `k.fragment(ty, layout)`; `f.retile(&copy)`, `f.slice(..)`, `k.convert(&f, Ty::F16)` |
//! | copies | `k.copy(&tiled_copy, &src, &dst)`; `copy_in_bounds` within run-time extents, `copy_if` where a condition holds, `hints.on(&tiled_copy)` for the caches |
//! | seeing values | `k.dump("x", &x)` prints elements with their coordinates; `k.name("tile", &tile)` names what faults speak of |
//! | arithmetic | [`Expr`]: `k.map((&a * alpha + &b).relu())` makes a fragment, `k.assign(&d, ..)` writes one; `fill`, `mask`; [`Rows`] of accumulators, `k.reduce_rows(..)`; accumulators as a factor: `f.as_operand(&mma, &next, Operand::A, tile)` |
//! | elements at coordinates | `t.elements((&ids, &column))` of a tensor: `k.gather(..)`, `k.scatter(values, ..)`, `k.atomic(AtomicOp::Add, .., 1)`, `k.compare_and_swap(..)`, each with its [bounds](Outside) |
//! | products | `k.mma(&tiled_mma, &d, &a, &b, &c)` |
//! | loops | `k.for_(0, &steps, 1, \|k, i\| ..)`, `k.loop_(..)`, `k.break_unless(p)` |
//! | the end | `k.finish()?` is a [`TensorKernel`]: `.kernel`, `.arguments(&[Arg::tensor(&buffer, &layout), ..])?`, `.dynamic_shared()`, `.report()` |
//!
//! The static leaves of a tensor's layout are constants of the kernel; its dynamic leaves are launch arguments. A kernel
//! built once is therefore right for every launch. Only tiles of static extents are partitioned. Dynamic strides enter
//! addresses by the inner product with the coordinates of the tile; dynamic extents are only bounds. The vectors of a copy
//! require that the pointer and the strides are multiples of their width: [`TensorKernel::arguments`] checks this, with the
//! element type and the length of the memory.
//!
//! Errors name the line of the caller.
//!
//! ```
//! use colex_atom::{Arch, Ty};
//! use colex_tensor::{AtThread, Builder, Error};
//! use colex_tiled::TiledCopy;
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! // A copy in tiles of 32 by 128, rows contiguous: every thread moves 16 bytes at once, 8 times.
//! let mut k = Builder::new("copy", Arch::Sm80, 128);
//! let any = "(1,1):(1,_1)";
//! let (from, to) = (k.tensor("from", Ty::F32, any), k.tensor("to", Ty::F32, any));
//! let (tid, m, n) = (k.thread(), k.block_index(0), k.block_index(1));
//! let tiled = TiledCopy::new(
//!     colex_atom::copy("UniversalCopy<uint128_t>")?, 32, "(4,32):(32,1)", "(1,4):(0,1)",
//! )?;
//! let mine = tiled.at(&tid);
//! let src = mine.partition_src(&from.local_tile((32, 128), (&m, &n)));
//! let dst = mine.partition_dst(&to.local_tile((32, 128), (m, n)));
//! assert_eq!(format!("{:#}", src.layout()), "((4,1),8,1):((1@1,0),4@0,0)");
//! let regs = k.fragment_like(&src);
//! k.copy_in_bounds(&tiled, &src, &regs);
//! k.copy_in_bounds(&tiled, &regs, &dst);
//! let built = k.finish()?;
//! assert!(built.kernel.ptx()?.contains("ld.global.v4.f32"));
//! # Ok(())
//! # }
//! ```
#![forbid(unsafe_code)]

mod build;
mod copy;
mod error;
mod failure;
mod fragment;
mod index;
mod mma;
mod tensor;

pub use build::barrier::Barriers;
pub use build::export::{
    DriverNumber, Exported, ExportedDimension, ExportedIm2col, ExportedMap, ExportedParameter, Role,
};
pub use build::flow::{Cond, Predicate};
pub use build::launch::{
    Arg, ArgumentError, KernelParameter, ParameterKind, RawMemory, Signature, TensorArg,
    TensorKernel,
};
pub use build::name::Nameable;
pub use build::pipeline::{Consumer, Pipeline, Producer, Relay, Stage};
pub use build::report::{Line, Report, Traffic};
pub use build::variable::Var;
pub use build::{Builder, TileGrid};
pub use copy::im2col::{Im2colPixels, Im2colTensor};
pub use copy::tma::TmaTensor;
pub use copy::vector::VectorRun;
pub use copy::{HintedCopy, Hints, Piece};
pub use error::Error;
pub use fragment::Fragment;
pub use fragment::dump::Dump;
pub use fragment::elements::{Elements, IntoCoordinates, Outside};
pub use fragment::expr::formula::Formula;
pub use fragment::expr::{Expr, Mask, Round};
pub use fragment::rows::Rows;
pub use index::Index;
pub use mma::gmma::{GmmaOperand, GmmaSource};
pub use tensor::coord::{IntoIndices, SliceCoord, SliceMode};
pub use tensor::offset::{layout_at, swizzled};
pub use tensor::partition::MAX_REGISTERS;
pub use tensor::partition::{AtThread, CopyAt, MmaAt, Places};
pub use tensor::{MAX_EXTENT, Tensor};

/// What most kernels name, for `use colex_tensor::prelude::*;`.
pub mod prelude {
    pub use crate::{Arg, AtThread, Builder, Cond, Expr, Index, Rows};
    pub use colex_atom::{Arch, Ty};
    pub use colex_ir::{BinaryOp, FenceKind};
    pub use colex_tiled::{Operand, TiledCopy, TiledMma};
}

/// The examples of the README run.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
