//! Barriers between the warps of a block.

use super::atomics::Update;
use crate::machine::exec::{Exec, Flow};
use crate::machine::port::tick;
use crate::report::event::EventKind;
use crate::report::fault::{Fault, FaultKind};
use crate::state::wait::Wait;
use colex_ir::{Atom, BarrierOp, Control, Memory, Op, Operand};

impl Exec<'_, '_, '_> {
    /// `barrier.sync` and `barrier.arrive`.
    pub(crate) fn named_barrier(
        &mut self,
        op: BarrierOp,
        id: Operand,
        threads: Option<Operand>,
        mask: u32,
    ) -> Result<Flow, Fault> {
        self.collective(mask)?;
        let id = self.uniform(id, "the barrier", mask)?;
        let threads = match threads {
            None => None,
            Some(threads) => Some(self.uniform(threads, "the number of threads", mask)? as u32),
        };
        let Ok(id @ 0..16) = usize::try_from(id) else {
            let what = format!("barrier {id} of 16, numbered from 0");
            return Err(self.fault_warp(FaultKind::Barrier, what));
        };
        if threads.is_some_and(|threads| threads == 0 || threads % 32 != 0) {
            let what = format!(
                "barrier {id} for {} threads: the number must be a multiple of 32",
                threads.unwrap_or(0)
            );
            return Err(self.fault_warp(FaultKind::Barrier, what));
        }
        self.record(|| EventKind::Named {
            id,
            threads,
            waits: matches!(op, BarrierOp::Sync),
        });
        let block = &mut self.g.blocks[self.w.block];
        let live = block.live_warps * 32;
        let named = &mut block.named[id];
        // All threads of the block are a number too.
        let all = self.m.launch.threads().next_multiple_of(32) as u32;
        let count = |threads: Option<u32>| threads.unwrap_or(all);
        if named.open && count(named.expected) != count(threads) {
            let text = |threads: Option<u32>| match threads {
                Some(threads) => format!("{threads} threads"),
                None => "all threads".to_string(),
            };
            let what = format!(
                "barrier {id} is for {} here, and for {} where others have already arrived",
                text(threads),
                text(named.expected)
            );
            return Err(self.fault_warp(FaultKind::Barrier, what));
        }
        named.arrive(32, threads, &self.w.view);
        let flow = match op {
            BarrierOp::Sync => Flow::Wait(Wait::Named {
                id,
                round: named.wait(),
            }),
            BarrierOp::Arrive => Flow::Next,
        };
        named.turn(live);
        tick(&mut self.w.view.seen, self.w.index);
        Ok(flow)
    }

    /// Executes an instruction; the steps of the control flow have been taken out of the program.
    pub(crate) fn instruction(&mut self, op: &Op, mask: u32) -> Result<Flow, Fault> {
        match op {
            Op::Alu(op) => self.alu(op, mask)?,
            Op::Memory(op) => self.access(op, mask)?,
            Op::Exchange(op) => self.exchange(op, mask)?,
            Op::Sync(op) => return self.synchronize(op, mask),
            Op::Async(op) => return self.groups(op, mask),
            Op::Control(op) => return self.control(op, mask),
            Op::Atom(op) => match op {
                Atom::Mma {
                    atom,
                    d,
                    a,
                    b,
                    c,
                    e,
                    scale_d,
                } => {
                    let operands = [d, a, b, c, e].map(Vec::as_slice);
                    return self.mma(atom, operands, *scale_d, mask);
                }
                Atom::Copy { atom, args } => return self.copy(atom, args, mask),
            },
        }
        Ok(Flow::Next)
    }

    fn access(&mut self, op: &Memory, mask: u32) -> Result<(), Fault> {
        match op {
            Memory::AddressOf { d, a } => self.address_of(*d, a, mask),
            Memory::Load { access, d, a } => self.load(access, d, a, mask),
            Memory::Store { access, a, s } => self.store(access, a, s, mask),
            Memory::Atomic {
                op,
                space,
                ty,
                order,
                d,
                a,
                s,
                t,
            } => {
                let update = Update::new(*op, *space, *ty, *order);
                self.atomic(update, *d, a, [Some(*s), *t], mask)
            }
            Memory::Reduce {
                op,
                space,
                ty,
                order,
                a,
                s,
            } => self.reduce(Update::new(*op, *space, *ty, *order), a, s, mask),
            Memory::Mapa { d, a, rank } => self.mapa(*d, *a, *rank, mask),
            Memory::Cvta {
                to_generic,
                space,
                d,
                a,
            } => self.cvta(*to_generic, *space, *d, *a, mask),
            Memory::CreatePolicy { d, .. } => self.set(*d, mask, &[0; 32]),
            // The simulator has no caches.
            Memory::PrefetchTensorMap { .. } => Ok(()),
            Memory::Print { values, end } => self.print(values, end, mask),
            Memory::Text { text, d, a } => self.foreign(text, d, a, mask),
        }
    }

    fn control(&mut self, op: &Control, mask: u32) -> Result<Flow, Fault> {
        match op {
            Control::Exit => {
                self.w.exit(mask, &self.m.program.steps);
                Ok(Flow::Jumped)
            }
            Control::Break => {
                self.w.leave_round(mask, false);
                Ok(Flow::Jumped)
            }
            Control::Continue => {
                self.w.leave_round(mask, true);
                Ok(Flow::Jumped)
            }
            Control::Trap => Err(self.fault_warp(FaultKind::Trap, "the kernel traps")),
            Control::Comment(_) => Ok(Flow::Next),
            // They are steps of the program, not instructions.
            Control::If { .. } => Err(self.unsupported("`if`")),
            Control::Loop { .. } => Err(self.unsupported("`loop`")),
        }
    }
}
