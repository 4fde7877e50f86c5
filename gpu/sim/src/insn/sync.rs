//! Barriers between the warps of a block.

use crate::machine::exec::{Exec, Flow};
use crate::machine::port::tick;
use crate::report::fault::{Fault, FaultKind};
use crate::state::wait::Wait;
use colex_ir::{BarrierOp, Op, Operand};

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
        let block = &mut self.g.blocks[self.w.block];
        let live = block.live_warps * 32;
        let named = &mut block.named[id];
        if named.open && named.expected != threads {
            let all = |threads: Option<u32>| match threads {
                Some(threads) => format!("{threads} threads"),
                None => "all threads".to_string(),
            };
            let what = format!(
                "barrier {id} is for {} here, and for {} where others have already arrived",
                all(threads),
                all(named.expected)
            );
            return Err(self.fault_warp(FaultKind::Barrier, what));
        }
        named.arrive(32, threads, &self.w.view);
        let round = named.rounds;
        named.turn(live);
        tick(&mut self.w.view.seen, self.w.index);
        match op {
            BarrierOp::Sync => Ok(Flow::Wait(Wait::Named { id, round })),
            BarrierOp::Arrive => Ok(Flow::Next),
        }
    }

    /// Executes an instruction.
    pub(crate) fn instruction(&mut self, op: &Op, mask: u32) -> Result<Flow, Fault> {
        if let Some(flow) = self.compute(op, mask)? {
            return Ok(flow);
        }
        if self.exchange(op, mask)? {
            return Ok(Flow::Next);
        }
        if let Some(flow) = self.mbarriers(op, mask)? {
            return Ok(flow);
        }
        if let Some(flow) = self.groups(op, mask)? {
            return Ok(flow);
        }
        if let Some(flow) = self.cluster(op, mask)? {
            return Ok(flow);
        }
        match op {
            Op::AddressOf { d, a } => self.address_of(*d, a, mask)?,
            Op::Load { access, d, a } => self.load(access, d, a, mask)?,
            Op::Store { access, a, s } => self.store(access, a, s, mask)?,
            Op::Atomic { .. } | Op::Reduce { .. } => self.atomic(op, mask)?,
            Op::Mapa { d, a, rank } => self.mapa(*d, *a, *rank, mask)?,
            Op::Cvta {
                to_generic,
                space,
                d,
                a,
            } => self.cvta(*to_generic, *space, *d, *a, mask)?,
            Op::Barrier { op, id, threads } => {
                return self.named_barrier(*op, *id, *threads, mask);
            }
            Op::Mma { .. } => return self.mma(op, mask),
            Op::Copy { atom, args } => return self.copy(atom, args, mask),
            Op::CreatePolicy { d, .. } => self.set(*d, mask, &[0; 32])?,
            Op::PrefetchTensorMap { .. }
            | Op::GridDependency { .. }
            | Op::NanoSleep { .. }
            | Op::Comment(_) => {}
            Op::Trap => return Err(self.fault_warp(FaultKind::Trap, "the kernel traps")),
            op => return Err(self.unsupported(format_args!("`{}`", op.word()))),
        }
        Ok(Flow::Next)
    }
}
