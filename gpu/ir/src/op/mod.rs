//! The instructions, by family.

mod alu;
mod asynchronous;
mod atom;
mod control;
mod exchange;
pub(crate) mod foreign;
mod memory;
mod sync;

pub use alu::Alu;
pub use asynchronous::Async;
pub use atom::{Atom, CopyArgs, End, ScaleD};
pub use control::Control;
pub use exchange::{Exchange, MatchMode};
pub use foreign::{PrintedValue, PtxText};
pub use memory::{Access, Memory};
pub use sync::{Sync, SyncEffect};

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

    /// Returns it if it is control flow. An instruction of the other families is one line of PTX or a few: it holds no
    /// statements, and goes to the next one.
    pub fn control(&self) -> Option<&Control> {
        use Op::{Alu, Async, Atom, Control, Exchange, Memory, Sync};
        match self {
            Control(op) => Some(op),
            Alu(_) | Memory(_) | Exchange(_) | Sync(_) | Async(_) | Atom(_) => None,
        }
    }

    /// Returns it if it is a matrix or a copy instruction, whose operands the row of its atom describes.
    pub fn atom(&self) -> Option<&Atom> {
        use Op::{Alu, Async, Atom, Control, Exchange, Memory, Sync};
        match self {
            Atom(op) => Some(op),
            Alu(_) | Memory(_) | Exchange(_) | Sync(_) | Async(_) | Control(_) => None,
        }
    }

    /// Returns it if it is a barrier, a fence, or another instruction that waits for threads.
    pub fn sync(&self) -> Option<&Sync> {
        use Op::{Alu, Async, Atom, Control, Exchange, Memory, Sync};
        match self {
            Sync(op) => Some(op),
            Alu(_) | Memory(_) | Exchange(_) | Async(_) | Control(_) | Atom(_) => None,
        }
    }

    /// Returns the blocks inside it, in program order.
    pub fn blocks(&self) -> Vec<&[Stmt]> {
        self.control().map_or_else(Vec::new, Control::blocks)
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
