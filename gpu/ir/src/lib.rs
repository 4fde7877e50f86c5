//! The kernel as data: typed, mutable virtual registers and structured control flow.
//!
//! A [`Kernel`] is a plain value. The PTX printer, the verifier and the simulator read the same one.
//! Registers are those of PTX, not single-assignment values: an accumulator of `wgmma` must never be copied,
//! so it must be possible to write into a register twice.
#![forbid(unsafe_code)]
#![deny(clippy::wildcard_enum_match_arm)]

mod build;
pub mod claims;
mod escaped;
mod kernel;
pub mod launch;
mod modifiers;
mod needs;
mod op;
mod operand;
pub mod ptx;
mod row;
mod rows;
#[cfg(feature = "serde")]
pub mod serialize;
mod stmt;
mod text;
mod ty;
mod types;
pub mod verify;

pub use build::KernelBuilder;
pub use escaped::Escaped;
pub use kernel::{Kernel, NamedFragment, Param, ParamType, SharedRegion, SharedVar};
pub use launch::Error;
pub use modifiers::{
    AtomicOp, BarrierOp, BinaryOp, Cache, ClusterOrder, Compare, FenceKind, Order, Rounding, Scope,
    ShuffleMode, Space, TernaryOp, UnaryOp, VoteMode,
};
pub use needs::Needs;
pub use op::{
    Access, Alu, Async, Atom, Control, CopyArgs, End, Exchange, MatchMode, Memory, Op,
    PrintedValue, PtxText, ScaleD, Sync, SyncEffect,
};
pub use operand::{Address, Base, Operand, ParamId, Reg, SharedId, Special};
use row::{Arg, Formula, Ptx, Row, Slot};
pub use row::{Cohort, OperandUse, Uses};
pub use stmt::{Guard, Stmt};
#[doc(hidden)]
pub use text::instruction;
pub use ty::{Float, FloatPair, RegType, Type};

/// The examples of the README run.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
