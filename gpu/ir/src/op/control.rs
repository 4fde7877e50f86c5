//! Control flow.

use crate::needs::Needs;
use crate::row::{EXISTS, Ptx, Row};
use crate::stmt::{Guard, Stmt};
use crate::ty::Type;
use core::slice::from_ref;

/// Control flow, and remarks in the listing.
#[cfg_attr(new_op = "outside", non_exhaustive)]
#[derive(Clone, Debug, PartialEq)]
#[allow(missing_docs, reason = "the fields are the condition and the blocks")]
pub enum Control {
    /// `then` where the guard holds, else `other`.
    If {
        p: Guard,
        then: Vec<Stmt>,
        other: Vec<Stmt>,
    },
    /// Repeats until a `Break`.
    Loop { body: Vec<Stmt> },
    /// Leaves the innermost loop.
    Break,
    /// Begins the innermost loop again.
    Continue,
    /// Ends the thread.
    Exit,
    /// `trap`
    Trap,
    /// A remark in the listing.
    Comment(String),
    /// A variant that no `match` knows: `cargo xtask verify` sees that the compiler names every place that has to.
    #[cfg(new_op = "inside")]
    New,
}

impl Control {
    /// The row of the instruction, without the blocks inside it.
    pub(crate) fn row(&self) -> Row<'_> {
        let row = |mnemonic: &str| Row::alone(mnemonic, Ptx::Control(self), Needs::BASE, EXISTS);
        match self {
            Control::If { p, .. } => {
                row("if").regs("condition", from_ref(&p.pred), Some(Type::Pred))
            }
            Control::Loop { .. } => row("loop"),
            Control::Break => row("break"),
            Control::Continue => row("continue"),
            Control::Exit => row("exit"),
            Control::Trap => row("trap"),
            Control::Comment(_) => row("//"),
        }
    }

    /// Returns the blocks inside it, in program order.
    pub fn blocks(&self) -> Vec<&[Stmt]> {
        use Control::{Break, Comment, Continue, Exit, If, Loop, Trap};
        match self {
            If { then, other, .. } => vec![then, other],
            Loop { body } => vec![body],
            Break | Continue | Exit | Trap | Comment(_) => Vec::new(),
        }
    }
}
