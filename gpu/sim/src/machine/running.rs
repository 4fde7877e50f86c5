//! Runs a cluster: chooses the warp that takes the next turn, and the asynchronous operations that complete between
//! turns.

use super::Machine;
use super::exec::Exec;
use super::port::{Site, beginning};
use crate::options::{Dice, Schedule};
use crate::order::clock::ENGINES;
use crate::order::history::Histories;
use crate::report::fault::{Fault, FaultKind};
use crate::state::block::{Block, Group};
use crate::state::wait::Wait;
use crate::state::warp::{Flying, Warp};
use colex_ir::launch::Limits;
use colex_ir::{Async, Op, RegType, Stmt};

/// The number of steps of a warp's turn.
const TURN: usize = 256;

/// The number of turns of a cluster before another one starts beside it.
const TURNS_BEFORE_NEXT_CLUSTER: usize = 4096;

/// The turns of a cluster before one of another rank has its turns, under a random schedule: below 2 to a power below this.
const MOST_TURNS: usize = 6;

/// The number of turns without progress for other warps after which another cluster starts.
const IDLE_TURNS_BEFORE_NEXT_CLUSTER: usize = 64;

/// The number of failed barrier tests in a row, without any other event, after which the warps are taken to wait.
const IDLE_TURNS: usize = 10_000;

/// A cluster that runs.
#[derive(Debug)]
pub(crate) struct Cluster {
    pub(crate) group: Group,
    pub(crate) warps: Vec<Warp>,
    next: usize,
    idle_turns: usize,
    /// What a random schedule decides by.
    dice: Dice,
}

/// The progress of a cluster.
pub(crate) enum Progress {
    More,
    /// No warp has made progress for another for a while.
    Idle,
    Done,
    Blocked,
    /// The watch has stopped a warp.
    Stopped,
}

impl Machine<'_, '_> {
    /// A cluster at its beginning.
    pub(crate) fn cluster(&self, number: usize, at: [u32; 3]) -> Cluster {
        let size = self.launch.cluster;
        let program = self.program;
        let threads = self.launch.threads() as u32;
        let per_block = threads.div_ceil(32);
        let ranks = self.launch.cluster_blocks() as u32;
        let count = (ranks * per_block) as usize;
        let agents = count + ENGINES;
        let entry = colex_ir::verify::at_entry(program.kernel);
        let entry = entry.unwrap_or_else(|| colex_ir::verify::registers_at_entry(threads, 1));
        let held = i64::from(entry);
        let multiprocessors = Limits::of(program.kernel.target).multiprocessors.max(1);
        let blocks = (0..ranks).map(|rank| {
            let inside = [
                rank % size[0],
                rank / size[0] % size[1],
                rank / size[0] / size[1],
            ];
            let bytes = self.shared_bytes as usize;
            Block {
                ctaid: [0, 1, 2].map(|axis| at[axis] * size[axis] + inside[axis]),
                rank,
                sm: (number as u32 * ranks + rank) % multiprocessors,
                shared: vec![0; bytes],
                written: vec![false; bytes],
                cells: Histories::new(if self.options.races { bytes } else { 0 }),
                named: Default::default(),
                mbarriers: Default::default(),
                live_warps: per_block,
                ended: crate::order::clock::View::new(agents),
                visits: Default::default(),
                last_visit: Default::default(),
                free_registers: 0,
                reallocations: vec![(0, false); per_block as usize],
            }
        });
        let mut group = Group::new(number as u32, blocks.collect(), count);
        group.rank = self.devices.rank_of(number as u32);
        let preds = program.kernel.count(RegType::Pred) as usize;
        let warps = (0..count as u32).map(|w| {
            let (block, first) = ((w / per_block) as usize, w % per_block * 32);
            let view = beginning(agents, w as usize);
            let registers = program.registers;
            let mut warp = Warp::new(
                [w as usize, block],
                [first, threads],
                [registers, preds],
                view,
            );
            warp.registers = held;
            warp
        });
        Cluster {
            group,
            warps: warps.collect(),
            next: 0,
            idle_turns: 0,
            dice: Dice::of(self.options.schedule, number),
        }
    }

    /// Lets the warps of a cluster take turns, for a while.
    pub(crate) fn advance(&mut self, cluster: &mut Cluster) -> Result<Progress, Fault> {
        let mut served = cluster.group.served;
        // Blocks that wait for another one are many.
        let idle_turns = if self.devices.meet() {
            IDLE_TURNS_BEFORE_NEXT_CLUSTER / 16
        } else {
            IDLE_TURNS_BEFORE_NEXT_CLUSTER
        };
        let turns = match self.options.schedule {
            // Ranks, and the blocks of a cooperative launch, run beside each other.
            Schedule::Random(_) if self.devices.meet() => {
                let most = 1 << cluster.dice.below(MOST_TURNS);
                1 + cluster.dice.below(most)
            }
            Schedule::Random(_) | Schedule::Latest | Schedule::Earliest => {
                TURNS_BEFORE_NEXT_CLUSTER
            }
        };
        for turn in 1..=turns {
            // No warp made progress for another: they may wait for another cluster.
            if turn % idle_turns == 0
                && std::mem::replace(&mut served, cluster.group.served) == cluster.group.served
            {
                return Ok(Progress::Idle);
            }
            if self.is_stopped() {
                return Ok(Progress::Stopped);
            }
            match self.choose(cluster) {
                Some(w) if cluster.warps[w].idle.is_none() => self.run_warp(cluster, w)?,
                idle => match (cluster.pick(self.options.schedule), idle) {
                    (Some(operation), _) => self.complete_one(cluster, operation)?,
                    (None, Some(w)) if cluster.idle_turns < IDLE_TURNS => {
                        cluster.idle_turns += 1;
                        self.run_warp(cluster, w)?;
                    }
                    (None, _) => {
                        let done = cluster.warps.iter().all(|warp| warp.alive() == 0);
                        return Ok(if done {
                            Progress::Done
                        } else {
                            Progress::Blocked
                        });
                    }
                },
            }
        }
        Ok(Progress::More)
    }

    pub(crate) fn complete_one(
        &mut self,
        cluster: &mut Cluster,
        index: usize,
    ) -> Result<(), Fault> {
        self.progress += 1;
        cluster.wake_idle();
        self.complete(&mut cluster.group, &mut cluster.warps, index)
    }

    fn run_warp(&mut self, cluster: &mut Cluster, w: usize) -> Result<(), Fault> {
        let steps = match self.options.schedule {
            Schedule::Latest | Schedule::Earliest => TURN,
            // They meet at few instructions: a turn may end between any two.
            Schedule::Random(_) if self.devices.meet() => {
                let most = 1 << cluster.dice.below(7);
                1 + cluster.dice.below(most)
            }
            Schedule::Random(_) => 1 + cluster.dice.below(64),
        };
        let Cluster { group, warps, .. } = cluster;
        let warp = &mut warps[w];
        self.resume(group, warp)?;
        let mut exec = Exec {
            m: self,
            g: group,
            w: warp,
        };
        let (steps_before, served_before) = (exec.w.steps, exec.g.served);
        let ran = if exec.m.watch.is_some() {
            exec.run_watched(steps)
        } else {
            exec.run(steps)
        };
        self.executed += warp.steps - steps_before;
        if group.served != served_before {
            self.suspects.served(self.executed);
        }
        match ran {
            Err(_) if self.waits() => {
                warp.frozen = true;
                return Ok(());
            }
            Err(fault) => return Err(fault),
            Ok(_) => {}
        }
        if self.executed > self.options.max_instructions {
            let what = format!(
                "all warps together have executed {} instructions, and `SimOptions::max_instructions` allows {}: \
                 simulate a smaller problem, or raise that bound",
                self.executed, self.options.max_instructions
            );
            let site = Site::of(warp, 0);
            return Err(self.fault(group, &site, FaultKind::Limit, what));
        }
        if self.is_stopped() {
            cluster.next = w;
            return Ok(());
        }
        if warp.alive() == 0 {
            self.progress += 1;
            self.end_warp(group, &warps[w])?;
        }
        if cluster.warps[w].idle.is_none() {
            cluster.wake_idle();
        }
        while cluster.completes_now(self.options.schedule) {
            let Some(operation) = cluster.pick(self.options.schedule) else {
                break;
            };
            self.complete_one(cluster, operation)?;
        }
        Ok(())
    }

    /// Resumes a warp after its wait: it joins the clock that was published there.
    fn resume(&self, group: &mut Group, warp: &mut Warp) -> Result<(), Fault> {
        let Some(wait) = warp.wait.take() else {
            return Ok(());
        };
        let block = &mut group.blocks[warp.block];
        match wait {
            Wait::Named { id, round } => {
                if let Some(known) = block.named[id].leave(round) {
                    warp.learn(warp.alive(), &known);
                }
            }
            Wait::Cluster { .. } => {
                warp.learn(warp.alive(), &group.barrier.complete);
                warp.view.all_begun = true;
            }
            Wait::Mbarriers(waits, mask) => {
                for (block, at, parity) in waits {
                    let Some(barrier) = group.blocks[block].mbarriers.get(at) else {
                        let what = format!(
                            "this waits for {}, which `mbarrier.inval` has ended: that must come after the wait",
                            self.barrier_name(at)
                        );
                        let site = Site::of(warp, mask.trailing_zeros() as usize);
                        return Err(self.fault(group, &site, FaultKind::Barrier, what));
                    };
                    if let Some((known, from_afar)) = barrier.passed(parity) {
                        warp.learn(mask, known);
                        if let Some(known) = from_afar {
                            // `mbarrier.wait` has the scope of the block.
                            warp.learn_in_block(mask, known, group);
                        }
                    }
                }
            }
            Wait::Operations { numbers, read } => {
                if let Some(pending) = self.program.stmts[warp.pc].and_then(wgmma_wait) {
                    warp.release_products(pending);
                }
                let now = warp.view.seen.get(warp.index);
                let Warp {
                    copies,
                    bulk,
                    view,
                    lockstep,
                    ..
                } = warp;
                for groups in [copies, bulk] {
                    groups.flying.retain_mut(|copy: &mut Flying| {
                        let waited = numbers.contains(&copy.number);
                        if waited {
                            let (engine, done) = copy.engine;
                            let known = (engine, done - u32::from(read));
                            view.seen.raise(known.0, known.1);
                            let missing = if read { 0 } else { copy.missing() };
                            lockstep.waited(known, now, missing);
                            copy.has_read |= read;
                        }
                        !waited || read || copy.missing() != 0
                    });
                }
            }
            Wait::Registers(more) => block.free_registers -= more,
        }
        warp.pc += 1;
        Ok(())
    }

    /// A warp that can go on; one that only looks at barriers if there is no other.
    fn choose(&mut self, cluster: &mut Cluster) -> Option<usize> {
        let count = cluster.warps.len();
        let start = match self.options.schedule {
            Schedule::Latest | Schedule::Earliest => cluster.next,
            Schedule::Random(_) => cluster.dice.below(count),
        };
        cluster.next = (start + 1) % count;
        let order = || (0..count).map(|i| (start + i) % count);
        let can = |w: &usize| ready(&cluster.warps[*w], &cluster.group);
        let busy = order()
            .filter(|w| cluster.warps[*w].idle.is_none())
            .find(can);
        busy.or_else(|| order().find(can))
    }

    /// Completes the operations in flight after the last warp has ended.
    pub(crate) fn drain(&mut self, cluster: &mut Cluster) -> Result<(), Fault> {
        while let Some(operation) = cluster.pick(self.options.schedule) {
            self.complete(&mut cluster.group, &mut cluster.warps, operation)?;
        }
        Ok(())
    }

    /// Returns the fault of a deadlock: for each warp, what it waits for.
    pub(crate) fn deadlock(&self, cluster: &Cluster) -> Fault {
        let waiting: Vec<&Warp> = cluster
            .warps
            .iter()
            .filter(|warp| warp.alive() != 0)
            .collect();
        let first = self.cause(&cluster.group, &waiting);
        let mut reasons: Vec<(String, Vec<String>)> = Vec::new();
        // The cause first.
        let order = first.iter().chain(&waiting);
        for (i, warp) in order.enumerate() {
            if i > 0 && first.is_some_and(|first| first.index == warp.index) {
                continue;
            }
            let reason = self.reason(&cluster.group, warp);
            let name = self.warp_name(&cluster.group, warp);
            match reasons.iter_mut().find(|(known, _)| *known == reason) {
                Some((_, names)) => names.push(name),
                None => reasons.push((reason, vec![name])),
            }
        }
        let sentences: Vec<String> = reasons
            .into_iter()
            .map(|(reason, names)| format!("{} for {reason}", names.join(", ")))
            .collect();
        let what = format!("no warp can continue: {}", sentences.join("; "));
        let fault = Fault::new(FaultKind::Deadlock, what);
        match first {
            Some(warp) => {
                let site = Site {
                    whole: true,
                    ..Site::of(warp, 0)
                };
                fault.at(self.place(&cluster.group, &site))
            }
            None => fault,
        }
    }
}

impl Cluster {
    /// Returns the place of the operation that completes next, if one may.
    fn pick(&mut self, schedule: Schedule) -> Option<usize> {
        let mut eligible = self.group.eligible();
        match schedule {
            Schedule::Latest | Schedule::Earliest => eligible.next(),
            Schedule::Random(_) => {
                let all: Vec<usize> = eligible.collect();
                (!all.is_empty()).then(|| all[self.dice.below(all.len())])
            }
        }
    }

    /// Whether the schedule completes another operation after this turn. The latest schedule never does: there
    /// operations complete only when no warp can continue.
    fn completes_now(&mut self, schedule: Schedule) -> bool {
        match schedule {
            Schedule::Latest => false,
            Schedule::Earliest => true,
            Schedule::Random(_) => self.dice.below(2) == 0,
        }
    }

    /// Resumes all warps that wait for bytes that are never written.
    pub(crate) fn thaw(&mut self) {
        self.warps.iter_mut().for_each(|warp| warp.frozen = false);
        let pending = self.group.pending.iter_mut();
        pending.for_each(|operation| operation.stalled = false);
        self.wake_idle();
    }

    fn wake_idle(&mut self) {
        self.idle_turns = 0;
        self.warps.iter_mut().for_each(|warp| warp.idle = None);
    }
}

/// Whether a warp can go on.
pub(crate) fn ready(warp: &Warp, group: &Group) -> bool {
    let block = &group.blocks[warp.block];
    warp.alive() != 0
        && !warp.frozen
        && match &warp.wait {
            None => true,
            Some(Wait::Named { id, round }) => block.named[*id].rounds > *round,
            Some(Wait::Cluster { phase }) => group.barrier.phase > *phase,
            Some(Wait::Mbarriers(waits, _)) => waits.iter().all(|(block, at, parity)| {
                let barrier = group.blocks[*block].mbarriers.get(*at);
                barrier.is_none_or(|barrier| barrier.has_passed(*parity))
            }),
            Some(Wait::Operations { numbers, read }) => numbers
                .iter()
                .all(|number| !group.under_way(*number, *read)),
            Some(Wait::Registers(more)) => block.free_registers >= *more,
        }
}

/// The number of groups that a `wgmma.wait_group` leaves pending, if the statement is one.
fn wgmma_wait(stmt: &Stmt) -> Option<u32> {
    match &stmt.op {
        Op::Async(Async::WgmmaWait { pending }) => Some(*pending),
        Op::Async(
            Async::CpAsyncArrive { .. }
            | Async::CpAsyncCommit
            | Async::CpAsyncWait { .. }
            | Async::BulkCommit
            | Async::BulkWait { .. }
            | Async::WgmmaFence
            | Async::WgmmaCommit,
        )
        | Op::Alu(_)
        | Op::Memory(_)
        | Op::Exchange(_)
        | Op::Sync(_)
        | Op::Control(_)
        | Op::Atom(_) => None,
    }
}
