//! The cluster's barrier, register reallocation, and the end of a warp.

use crate::machine::Machine;
use crate::machine::exec::{Exec, Flow};
use crate::machine::place::Target;
use crate::machine::port::{Site, tick};
use crate::order::release::Scope;
use crate::report::event::EventKind;
use crate::report::fault::{Fault, FaultKind};
use crate::state::block::Group;
use crate::state::pending::{Pending, Work};
use crate::state::wait::Wait;
use crate::state::warp::Warp;
use colex_ir::ClusterOrder;

impl Exec<'_, '_, '_> {
    /// `barrier.cluster.arrive`.
    pub(crate) fn cluster_arrive(&mut self, order: ClusterOrder, mask: u32) -> Result<(), Fault> {
        self.collective(mask)?;
        if self.w.cluster_phase.is_some() {
            let what = "a warp arrives at the cluster's barrier twice without a wait between";
            return Err(self.fault_warp(FaultKind::Barrier, what));
        }
        self.record(|| EventKind::ClusterArrive);
        self.w.cluster_phase = Some(self.g.barrier.phase);
        let own = self.w.home(self.g);
        // A fence before a relaxed arrival makes it one that passes on what came before the fence.
        let fenced = match order {
            ClusterOrder::Release => None,
            ClusterOrder::Relaxed => Some(self.w.released.view_for(Scope::Cluster, own)),
        };
        let view = match &fenced {
            None => Some(&self.w.view),
            Some(fenced) => fenced.as_ref(),
        };
        self.g.arrive_cluster(view);
        tick(&mut self.w.view.seen, self.w.index);
        Ok(())
    }

    /// `barrier.cluster.wait`.
    pub(crate) fn cluster_wait(&mut self, mask: u32) -> Result<Flow, Fault> {
        self.collective(mask)?;
        let Some(phase) = self.w.cluster_phase.take() else {
            let what = "a warp waits at the cluster's barrier without having arrived";
            return Err(self.fault_warp(FaultKind::Barrier, what));
        };
        self.record(|| EventKind::ClusterWait);
        Ok(Flow::Wait(Wait::Cluster { phase }))
    }

    /// `setmaxnreg`.
    pub(crate) fn reallocate(&mut self, increase: bool, count: i64) -> Result<Flow, Fault> {
        let held = self.w.registers;
        if !(24..=256).contains(&count) || count % 8 != 0 {
            let what = format!("{count} registers: a multiple of 8 from 24 to 256 is possible");
            return Err(self.fault_warp(FaultKind::Operand, what));
        }
        if increase && count < held || !increase && count > held {
            let (word, other) = if increase {
                ("increases", "inc")
            } else {
                ("decreases", "dec")
            };
            let what = format!(
                "`setmaxnreg.{other}` {word} the registers of a thread to {count}, and it has {held}"
            );
            return Err(self.fault_warp(FaultKind::Operand, what));
        }
        let warp = self.w.first as usize / 32;
        let all = &mut self.g.blocks[self.w.block].reallocations;
        let before = all[warp].0;
        all[warp].0 += 1;
        let mut others = warpgroup(warp, all.len());
        if let Some(late) = others.find(|other| all[*other].0 < before) {
            let what = format!(
                "warp {warp} executes `setmaxnreg` again, and warp {late} of its warpgroup has not executed the one before: the warps of \
                 a warpgroup execute each together, and meet between two"
            );
            return Err(self.fault_warp(FaultKind::Divergence, what));
        }
        let more = (count - held) * 32;
        self.w.registers = count;
        if increase {
            return Ok(Flow::Wait(Wait::Registers(more)));
        }
        self.g.blocks[self.w.block].free_registers -= more;
        Ok(Flow::Next)
    }
}

impl Group {
    /// A warp that knows this much arrives.
    pub(crate) fn arrive_cluster(&mut self, view: Option<&crate::order::clock::View>) {
        self.barrier.arrived += 1;
        if let Some(view) = view {
            self.barrier.arriving.join(view);
        }
        self.turn_cluster();
    }

    /// Begins the next phase if all live warps have arrived.
    pub(crate) fn turn_cluster(&mut self) {
        let barrier = &mut self.barrier;
        if barrier.arrived > 0 && barrier.arrived >= self.live {
            barrier.arrived = 0;
            barrier.phase += 1;
            let arriving = barrier.arriving.clone();
            barrier.complete.join(&arriving);
        }
    }
}

impl Machine<'_, '_> {
    /// A warp has ended: its block may be complete, and others may wait for fewer.
    pub(crate) fn end_warp(&self, g: &mut Group, warp: &Warp) -> Result<(), Fault> {
        g.live -= 1;
        self.end_reallocations(g, warp)?;
        let block = &mut g.blocks[warp.block];
        block.live_warps -= 1;
        block.ended.join(&warp.view);
        let (live, index) = (block.live_warps, warp.block);
        block
            .named
            .iter_mut()
            .for_each(|named| named.turn(live * 32));
        // It had arrived at this phase, and is counted no more. An arrival at a phase that is complete counts no more anyway.
        if warp.cluster_phase == Some(g.barrier.phase) {
            g.barrier.arrived = g.barrier.arrived.saturating_sub(1);
        }
        g.turn_cluster();
        match live {
            0 => self.end_block(g, warp, index),
            _ => Ok(()),
        }
    }

    /// The warps of a warpgroup have executed `setmaxnreg` equally often once all of them have ended.
    fn end_reallocations(&self, g: &mut Group, warp: &Warp) -> Result<(), Fault> {
        let own = warp.first as usize / 32;
        let all = &mut g.blocks[warp.block].reallocations;
        all[own].1 = true;
        let times = all[own].0;
        let has_other = |other: &usize| all[*other].1 && all[*other].0 != times;
        let Some(other) = warpgroup(own, all.len()).find(has_other) else {
            return Ok(());
        };
        let what = format!(
            "the warps of a warpgroup execute each `setmaxnreg` together: until its end, warp {own} has executed {times} of them, and \
             warp {other} {}",
            all[other].0
        );
        let site = Site {
            whole: true,
            pc: warp.left_at.unwrap_or(warp.pc),
            ..Site::of(warp, 0)
        };
        Err(self.fault(g, &site, FaultKind::Divergence, what))
    }

    /// Ends a block after its last warp: its shared memory must not be accessed any more.
    fn end_block(&self, g: &Group, warp: &Warp, index: usize) -> Result<(), Fault> {
        let site = Site {
            whole: true,
            pc: warp.left_at.unwrap_or(warp.pc),
            ..Site::of(warp, 0)
        };
        let uses = |operation: &Pending| match &operation.work {
            Work::Move(transfer) if transfer.fetched.is_some() => false,
            Work::Move(transfer) => transfer.pieces.iter().any(|piece| {
                let ends = [piece.from, Some(piece.to)];
                ends.into_iter()
                    .flatten()
                    .any(|end| matches!(end, Target::Shared { block, .. } if block == index))
            }),
            Work::Product(_) => operation.site.block == index,
            Work::Arrive { .. } => false,
        };
        if let Some(operation) = g.pending.iter().find(|operation| uses(operation)) {
            let place = match &operation.work {
                Work::Move(transfer) => {
                    let ends = transfer
                        .pieces
                        .iter()
                        .flat_map(|piece| [piece.from, Some(piece.to)]);
                    let own = ends.flatten().find_map(|end| match end {
                        Target::Shared { block, at } if block == index => Some(at),
                        Target::Global(_) | Target::Shared { .. } | Target::Param(_) => None,
                    });
                    own.map(|at| self.shared_name(at))
                }
                Work::Product(_) | Work::Arrive { .. } => None,
            };
            let place = place.unwrap_or_else(|| "its shared memory".to_string());
            let what = unwaited(&self.described(&operation.site), &place);
            return Err(self.fault(g, &site, FaultKind::EarlyExit, what));
        }
        if !self.options.races {
            return Ok(());
        }
        let block = &g.blocks[index];
        let unordered = block
            .visits
            .values()
            .filter(|(visit, _)| !block.ended.covers(*visit, g.warps));
        match unordered.min_by_key(|(visit, _)| visit.0) {
            None => Ok(()),
            Some((visit, at)) if visit.agent() >= g.warps => {
                let what = unwaited(&self.other(g, *visit), &self.shared_name(*at));
                Err(self.fault(g, &site, FaultKind::EarlyExit, what))
            }
            Some((visit, at)) => {
                let what = format!(
                    "the block ends, and nothing orders that after {}, which uses {}: a cluster barrier before the end is \
                     missing",
                    self.other(g, *visit),
                    self.shared_name(*at)
                );
                Err(self.fault(g, &site, FaultKind::EarlyExit, what))
            }
        }
    }
}

/// The warps of the warpgroup of a warp of a block, by their numbers.
fn warpgroup(warp: usize, warps: usize) -> core::ops::Range<usize> {
    let first = warp - warp % 4;
    first..(first + 4).min(warps)
}

/// The sentence for an operation that uses a place of the shared memory of a block that ends.
fn unwaited(operation: &str, place: &str) -> String {
    format!("the block ends without having waited for {operation}, which uses {place}")
}
