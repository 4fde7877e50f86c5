//! Exchanges between the lanes of a warp (PTX ISA 9.7.9.6 and 9.7.13).

use crate::build::KernelBuilder;
use crate::modifiers::{BinaryOp, ShuffleMode, VoteMode, modifiers};
use crate::needs::Needs;
use crate::operand::{Operand, Reg};
use crate::row::{Arg, Cohort, EXISTS, Formula, Row};
use crate::stmt::Guard;
use crate::ty::{RegType, Type};
use crate::types::{BITS_FROM_32, WORDS, among};
use colex_atom::Arch;
use core::slice::from_ref;

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
    /// `match.sync`: the lanes that hold the same value; for `all` with a predicate whether those are all.
    Match {
        mode: MatchMode,
        ty: Type,
        d: Reg,
        p: Option<Reg>,
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
            } => Row::together(
                Cohort::of_mask(*mask),
                format!("shfl.{}", mode.ptx()),
                format!("shfl.sync.{}.b32", mode.ptx()),
                Needs::BASE,
                EXISTS,
            )
            .formula(Formula::Shuffle {
                mode: *mode,
                a,
                lane,
                mask: *mask,
                tested: p.is_some(),
            })
            .d(d, Type::B32)
            .slot("predicate", Arg::Beside(p.as_slice()), Some(Type::Pred))
            .s(a, Type::B32)
            .source("lane", lane, Type::U32)
            .s(clamp, Type::U32)
            .lanes(mask),
            Exchange::Vote { mode, d, p, mask } => Row::together(
                Cohort::of_mask(*mask),
                format!("vote.{}", mode.ptx()),
                format!("vote.sync.{}.{}", mode.ptx(), mode.result()),
                Needs::BASE,
                EXISTS,
            )
            .formula(Formula::Warp(
                p.pred.into(),
                *mask,
                *mode != VoteMode::Ballot,
            ))
            .d(d, mode.result())
            .guard("predicate", *p)
            .lanes(mask),
            Exchange::Redux { op, ty, d, a, mask } => {
                let bitwise = [BinaryOp::And, BinaryOp::Or, BinaryOp::Xor].contains(op);
                let written = if bitwise { Type::B32 } else { *ty };
                Row::together(
                    Cohort::of_mask(*mask),
                    format!("redux.{}.{ty}", op.ptx()),
                    format!("redux.sync.{}.{written}", op.ptx()),
                    Needs::AMPERE,
                    redux(*op, *ty),
                )
                .formula(Formula::Warp(
                    *a,
                    *mask,
                    !matches!(op, BinaryOp::Add | BinaryOp::Xor),
                ))
                .d(d, *ty)
                .s(a, *ty)
                .lanes(mask)
            }
            Exchange::Match {
                mode,
                ty,
                d,
                p,
                a,
                mask,
            } => {
                let (modifier, all) = (mode.ptx(), *mode == MatchMode::All);
                let form = if p.is_some() && !all {
                    Err("only `match.all` says in a predicate whether all lanes agree".into())
                } else {
                    among(*ty, &[BITS_FROM_32])
                };
                let row = Row::together(
                    Cohort::of_mask(*mask),
                    format!("match.{modifier}.{ty}"),
                    format!("match.{modifier}.sync.{ty}"),
                    Needs::BASE,
                    form,
                );
                let value = match mode {
                    MatchMode::Any => Formula::Lane,
                    MatchMode::All => Formula::Warp(*a, *mask, false),
                };
                let row = row.formula(value).d(d, Type::B32);
                let row = match p {
                    Some(p) => row.slot("predicate", Arg::Beside(from_ref(p)), Some(Type::Pred)),
                    None => row,
                };
                row.s(a, *ty).lanes(mask)
            }
            Exchange::Elect { p, mask } => {
                let cohort = Cohort::of_mask(*mask);
                Row::together(cohort, "elect", "elect.sync", Needs::HOPPER_ASYNC, EXISTS)
                    .formula(Formula::Lane)
                    .slot("destination", Arg::Beside(from_ref(p)), Some(Type::Pred))
                    .lanes(mask)
            }
            Exchange::ActiveMask { d } => Row::alone(
                "activemask",
                "activemask.b32",
                Needs::new(Arch::Sm70, 6, 2),
                EXISTS,
            )
            .formula(Formula::Lane)
            .d(d, Type::B32),
        }
    }
}

modifiers! {
    /// The mode of `match.sync`.
    MatchMode {
        /// those with the same value
        Any = "any",
        /// all of them, if they have the same value
        All = "all",
    }
}

impl KernelBuilder {
    /// Finds the lanes of the warp that hold the same value, as a mask (`match.any.sync`, PTX ISA 9.7.13).
    ///
    /// ```
    /// # use colex_ir::*;
    /// # let mut k = KernelBuilder::new("k", colex_atom::Arch::Sm70);
    /// let key = k.mov(Type::U32, Special::LaneId);
    /// let same = k.match_any(Type::B32, key);
    /// let kernel = k.finish();
    /// assert_eq!(same.ty, RegType::B32);
    /// assert!(kernel.ptx()?.contains("match.any.sync.b32 %r1, %r0, 0xffffffff;"));
    /// # Ok::<(), verify::Refused>(())
    /// ```
    #[track_caller]
    pub fn match_any(&mut self, ty: Type, a: impl Into<Operand>) -> Reg {
        let d = self.reg(RegType::B32);
        self.push(Exchange::Match {
            mode: MatchMode::Any,
            ty,
            d,
            p: None,
            a: a.into(),
            mask: 0xffff_ffffu32.into(),
        });
        d
    }

    /// Says whether all lanes of the warp hold the same value: the mask of all of them, or 0, and a predicate
    /// (`match.all.sync`, PTX ISA 9.7.13).
    ///
    /// ```
    /// # use colex_ir::*;
    /// # let mut k = KernelBuilder::new("k", colex_atom::Arch::Sm70);
    /// let key = k.mov(Type::U64, Special::Clock64);
    /// let (lanes, agree) = k.match_all(Type::B64, key);
    /// let kernel = k.finish();
    /// assert_eq!((lanes.ty, agree.ty), (RegType::B32, RegType::Pred));
    /// assert!(kernel.ptx()?.contains("match.all.sync.b64 %r0|%p0, %rd0, 0xffffffff;"));
    /// # Ok::<(), verify::Refused>(())
    /// ```
    #[track_caller]
    pub fn match_all(&mut self, ty: Type, a: impl Into<Operand>) -> (Reg, Reg) {
        let (d, p) = (self.reg(RegType::B32), self.reg(RegType::Pred));
        self.push(Exchange::Match {
            mode: MatchMode::All,
            ty,
            d,
            p: Some(p),
            a: a.into(),
            mask: 0xffff_ffffu32.into(),
        });
        (d, p)
    }
}

impl VoteMode {
    /// Returns the type of its answer: a predicate, or for a ballot a mask.
    pub fn result(self) -> Type {
        match self {
            VoteMode::Ballot => Type::B32,
            VoteMode::All | VoteMode::Any | VoteMode::Uni => Type::Pred,
        }
    }
}

fn redux(op: BinaryOp, ty: Type) -> Result<(), String> {
    if [BinaryOp::Add, BinaryOp::Min, BinaryOp::Max].contains(&op) {
        among(ty, &[&[Type::U32, Type::S32]])
    } else if [BinaryOp::And, BinaryOp::Or, BinaryOp::Xor].contains(&op) {
        among(ty, &[WORDS])
    } else {
        Err("`redux` has add, min, max, and, or and xor".into())
    }
}
