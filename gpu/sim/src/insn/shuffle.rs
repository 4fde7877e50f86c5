//! Instructions in which the lanes of a warp exchange values.

use crate::machine::exec::{Exec, map};
use crate::machine::port::tick;
use crate::report::fault::{Fault, FaultKind};
use crate::state::warp::lanes;
use colex_ir::{BinaryOp, Exchange, Guard, MatchMode, Operand, Reg, ShuffleMode, Type, VoteMode};

impl Exec<'_, '_, '_> {
    /// Executes an exchange between lanes.
    pub(crate) fn exchange(&mut self, op: &Exchange, mask: u32) -> Result<(), Fault> {
        match op {
            Exchange::Shuffle {
                mode,
                d,
                p,
                a,
                lane,
                clamp,
                mask: members,
            } => {
                let members = self.members(*members, mask)?;
                let values = self.value(*a, Type::B32, mask)?;
                let [by, clamp] = self.values([*lane, *clamp], Type::B32, mask)?;
                let mut in_range = 0;
                let mut result = [0; 32];
                for lane in lanes(mask) {
                    let (from, inside) = source(*mode, lane, by[lane] as u32, clamp[lane] as u32);
                    let from = if inside { from } else { lane };
                    in_range |= u32::from(inside) << lane;
                    if members >> from & 1 == 0 {
                        let what = format!("it reads lane {from}, which does not execute it");
                        return Err(self.fault(FaultKind::Divergence, lane, what));
                    }
                    result[lane] = values[from];
                }
                self.set(*d, mask, &result)?;
                if let Some(p) = p {
                    self.set_pred(p, mask, in_range)?;
                }
            }
            Exchange::Vote {
                mode,
                d,
                p,
                mask: members,
            } => self.vote(*mode, *d, *p, *members, mask)?,
            Exchange::Redux {
                op,
                ty,
                d,
                a,
                mask: members,
            } => self.redux(*op, *ty, *d, *a, *members, mask)?,
            Exchange::Match {
                mode,
                ty,
                d,
                p,
                a,
                mask: members,
            } => {
                let members = self.members(*members, mask)?;
                let values = self.value(*a, *ty, mask)?;
                let same = |lane: usize| {
                    let others = lanes(members).filter(|other| values[*other] == values[lane]);
                    others.fold(0u32, |found, other| found | 1 << other)
                };
                let agree = lanes(mask).all(|lane| same(lane) == members);
                let result = match mode {
                    MatchMode::Any => map(|lane| u64::from(same(lane)), mask),
                    MatchMode::All if agree => [u64::from(members); 32],
                    MatchMode::All => [0; 32],
                };
                self.set(*d, mask, &result)?;
                if let Some(p) = p {
                    self.set_pred(p, mask, if agree { mask } else { 0 })?;
                }
            }
            Exchange::Elect { p, mask: members } => {
                let members = self.members(*members, mask)?;
                let leader = members & members.wrapping_neg();
                self.set_pred(p, mask, leader)?;
            }
            Exchange::ActiveMask { d } => self.set(*d, mask, &[u64::from(mask); 32])?,
        }
        Ok(())
    }

    /// `bar.warp.sync`: orders the lanes' previous steps before all later ones.
    pub(crate) fn warp_sync(&mut self, members: Operand, mask: u32) -> Result<(), Fault> {
        let members = self.members(members, mask)?;
        let (alive, now) = (self.w.alive(), self.w.view.seen.get(self.w.index));
        self.w.lockstep.meet(members, alive, now);
        tick(&mut self.w.view.seen, self.w.index);
        Ok(())
    }

    /// The lanes that an instruction names, all of which must execute it unless they have ended.
    fn members(&self, members: Operand, mask: u32) -> Result<u32, Fault> {
        let members = self.uniform(members, "the mask of lanes", mask)? as u32 & self.w.alive();
        let missing = members & !mask;
        if missing != 0 {
            let what = format!(
                "its mask {members:#010x} names lane {}, which does not execute it",
                missing.trailing_zeros()
            );
            return Err(self.fault_warp(FaultKind::Divergence, what));
        }
        let stray = mask & !members;
        if stray != 0 {
            let lane = stray.trailing_zeros() as usize;
            let what = format!("its mask {members:#010x} does not name the lane that executes it");
            return Err(self.fault(FaultKind::Divergence, lane, what));
        }
        Ok(members)
    }

    fn vote(
        &mut self,
        mode: VoteMode,
        d: Reg,
        p: Guard,
        members: Operand,
        mask: u32,
    ) -> Result<(), Fault> {
        let members = self.members(members, mask)?;
        let holds = self.guard(p, mask)? & members;
        let all = |holds: bool| if holds { mask } else { 0 };
        match mode {
            VoteMode::All => self.set_pred(d, mask, all(holds == members))?,
            VoteMode::Any => self.set_pred(d, mask, all(holds != 0))?,
            VoteMode::Uni => {
                let same = holds == 0 || holds == members;
                self.set_pred(d, mask, all(same))?;
            }
            VoteMode::Ballot => self.set(d, mask, &[u64::from(holds); 32])?,
        }
        Ok(())
    }

    fn redux(
        &mut self,
        op: BinaryOp,
        ty: Type,
        d: Reg,
        a: Operand,
        members: Operand,
        mask: u32,
    ) -> Result<(), Fault> {
        let members = self.members(members, mask)?;
        let f = crate::lane::integer::binary(op, ty);
        let f = f.ok_or_else(|| self.unsupported(format_args!("redux.sync of {ty}")))?;
        let a = self.value(a, ty, mask)?;
        let total = lanes(members)
            .map(|lane| a[lane])
            .reduce(f.one)
            .unwrap_or(0);
        let values = map(|_| total, mask);
        self.set(d, mask, &values)
    }
}

/// The lane that a shuffle reads, and whether that is in range (PTX ISA 9.7.9, `shfl.sync`).
fn source(mode: ShuffleMode, lane: usize, by: u32, clamp: u32) -> (usize, bool) {
    let (lane, by) = (lane as u32, by & 31);
    let segment = clamp >> 8 & 31;
    let (first, last) = (lane & segment, lane & segment | clamp & 31 & !segment);
    let from = match mode {
        ShuffleMode::Up => lane.wrapping_sub(by),
        ShuffleMode::Down => lane + by,
        ShuffleMode::Bfly => lane ^ by,
        ShuffleMode::Idx => first | by & !segment,
    };
    let inside = match mode {
        ShuffleMode::Up => from as i32 >= last as i32,
        ShuffleMode::Down | ShuffleMode::Bfly | ShuffleMode::Idx => from <= last,
    };
    (from as usize & 31, inside)
}
