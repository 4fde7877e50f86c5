//! Exchanges between the lanes of a warp (PTX ISA 9.7.9.6 and 9.7.13).

use super::super::needs::Needs;
use super::super::operand::{Operand, Reg};
use super::super::row::{Arg, Row};
use super::super::stmt::Guard;
use super::super::ty::Type;
use super::super::types::{WORDS, among};
use super::super::words::{BinaryOp, ShuffleMode, VoteMode};
use colex_atom::Arch;

/// An exchange between the lanes of a warp.
#[cfg_attr(new_op = "outside", non_exhaustive)]
#[derive(Clone, Debug, PartialEq)]
#[allow(
    missing_docs,
    reason = "fields are PTX's: d the destination, a the source, p a predicate, mask the lanes"
)]
pub enum Exchange {
    /// `shfl.sync`
    Shuffle {
        mode: ShuffleMode,
        d: Reg,
        p: Option<Reg>,
        a: Operand,
        lane: Operand,
        clamp: Operand,
        mask: Operand,
    },
    /// `vote.sync`
    Vote {
        mode: VoteMode,
        d: Reg,
        p: Guard,
        mask: Operand,
    },
    /// `redux.sync`
    Redux {
        op: BinaryOp,
        ty: Type,
        d: Reg,
        a: Operand,
        mask: Operand,
    },
    /// `elect.sync`: one lane of the mask.
    Elect { p: Reg, mask: Operand },
    /// `activemask`
    ActiveMask { d: Reg },
    /// A variant that no `match` knows: `cargo xtask verify` sees that the compiler names every place that has to.
    #[cfg(new_op = "inside")]
    New,
}

impl Exchange {
    /// The row of the instruction.
    pub(crate) fn row(&self) -> Row<'_> {
        match self {
            Exchange::Shuffle {
                mode,
                d,
                p,
                a,
                lane,
                clamp,
                mask,
            } => Row::new(format!("shfl.{}", mode.ptx()))
                .d(d, Type::B32)
                .slot("predicate", Arg::Beside(p.as_slice()), Some(Type::Pred))
                .s(a, Type::B32)
                .source("lane", lane, Type::U32)
                .s(clamp, Type::U32)
                .lanes(mask),
            Exchange::Vote { mode, d, p, mask } => Row::new(format!("vote.{}", mode.ptx()))
                .d(d, mode.result())
                .guard("predicate", *p)
                .lanes(mask),
            Exchange::Redux { op, ty, d, a, mask } => Row::new(format!("redux.{}.{ty}", op.ptx()))
                .d(d, *ty)
                .s(a, *ty)
                .lanes(mask)
                .form(redux(*op, *ty))
                .needs(Needs::AMPERE),
            Exchange::Elect { p, mask } => Row::new("elect")
                .d(p, Type::Pred)
                .lanes(mask)
                .needs(Needs::HOPPER_ASYNC),
            Exchange::ActiveMask { d } => {
                Row::new("activemask")
                    .d(d, Type::B32)
                    .needs(Needs::new(Arch::Sm70, 6, 2))
            }
        }
    }
}

impl VoteMode {
    /// The type of its answer: a predicate, or for a ballot a mask.
    pub fn result(self) -> Type {
        match self {
            VoteMode::Ballot => Type::B32,
            VoteMode::All | VoteMode::Any | VoteMode::Uni => Type::Pred,
        }
    }
}

fn redux(op: BinaryOp, ty: Type) -> Result<(), String> {
    match op {
        BinaryOp::Add | BinaryOp::Min | BinaryOp::Max => among(ty, &[&[Type::U32, Type::S32]]),
        BinaryOp::And | BinaryOp::Or | BinaryOp::Xor => among(ty, &[WORDS]),
        BinaryOp::Sub
        | BinaryOp::Mul
        | BinaryOp::MulHi
        | BinaryOp::MulWide
        | BinaryOp::Div
        | BinaryOp::Rem
        | BinaryOp::Shl
        | BinaryOp::Shr => Err("`redux` has add, min, max, and, or and xor".into()),
    }
}
