//! The instructions, by family.

mod alu;
mod asynchronous;
mod atom;
mod control;
mod exchange;
mod memory;
mod sync;

pub use alu::Alu;
pub use asynchronous::Async;
pub use atom::{Atom, CopyArgs, End, ScaleD};
pub use control::Control;
pub use exchange::{Exchange, MatchMode};
pub use memory::{Access, Memory};
pub use sync::Sync;

use super::row::Row;
use super::stmt::Stmt;

/// One instruction.
#[derive(Clone, Debug, PartialEq)]
pub enum Op {
    /// From registers to registers of one thread.
    Alu(Alu),
    /// Loads, stores, atomic operations and addresses.
    Memory(Memory),
    /// Between the lanes of a warp.
    Exchange(Exchange),
    /// Barriers, fences, and what else waits for other threads.
    Sync(Sync),
    /// Groups of asynchronous copies and products.
    Async(Async),
    /// Control flow.
    Control(Control),
    /// Matrix and copy instructions.
    Atom(Atom),
}

impl Op {
    /// Returns the row of the instruction: its mnemonic, operands, needs, and the threads that must execute it
    /// together.
    pub(crate) fn row(&self) -> Row<'_> {
        match self {
            Op::Alu(op) => op.row(),
            Op::Memory(op) => op.row(),
            Op::Exchange(op) => op.row(),
            Op::Sync(op) => op.row(),
            Op::Async(op) => op.row(),
            Op::Control(op) => op.row(),
            Op::Atom(op) => op.row(),
        }
    }

    /// Returns the blocks inside it, in program order.
    pub fn blocks(&self) -> Vec<&[Stmt]> {
        match self {
            Op::Control(op) => op.blocks(),
            // An instruction of the other families is one line of PTX or a few: it holds no statements.
            Op::Alu(_)
            | Op::Memory(_)
            | Op::Exchange(_)
            | Op::Sync(_)
            | Op::Async(_)
            | Op::Atom(_) => Vec::new(),
        }
    }
}

macro_rules! families {
    ($($family:ident)*) => {$(
        impl From<$family> for Op {
            fn from(op: $family) -> Op {
                Op::$family(op)
            }
        }
    )*};
}

families!(Alu Memory Exchange Sync Async Control Atom);
