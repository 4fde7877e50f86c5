//! The parts of a pipeline: slots, barriers, actors and their steps.

use std::fmt;

/// A pipeline: memory slots, barriers, and actors that run their steps in order, each at its own pace.
///
/// All fields are open: a plan may be changed by hand, and [`super::check()`] checks any plan.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pipeline {
    /// What it is.
    pub name: String,
    /// Pieces of shared memory.
    pub slots: Vec<Slot>,
    /// Barriers of both kinds.
    pub barriers: Vec<Barrier>,
    /// The actors.
    pub actors: Vec<Actor>,
}

/// A piece of shared memory that one load fills: a stage, or a part of one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Slot {
    /// Its name, for example `stage 2`.
    pub name: String,
    /// The block it belongs to.
    pub block: usize,
}

/// A barrier in shared memory (mbarrier) or one of a block's named barriers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Barrier {
    /// Its name, for example `full[2]`.
    pub name: String,
    /// The block it belongs to.
    pub block: usize,
    /// Arrivals that complete a phase (PTX ISA 9.7.13.15); for a named barrier, the actors that take part.
    pub arrivals: u16,
}

/// A warp or warpgroup and what it does.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Actor {
    /// Its name, for example `producer`.
    pub name: String,
    /// The block it belongs to.
    pub block: usize,
    /// Its steps, in order.
    pub steps: Vec<Step>,
}

/// One step of an actor. Items count the k-tiles of the whole walk; slots, barriers and sections are indices or names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    /// `mbarrier.try_wait.parity` in a loop: goes on when the phase of that parity is complete.
    Wait {
        /// Which barrier.
        barrier: usize,
        /// The parity waited for.
        parity: u8,
    },
    /// `mbarrier.arrive`.
    Arrive {
        /// Which barrier.
        barrier: usize,
    },
    /// `mbarrier.arrive.expect_tx`: arrives, and the phase now also waits for `loads` loads.
    Expect {
        /// Which barrier.
        barrier: usize,
        /// The loads.
        loads: u16,
    },
    /// An asynchronous copy of `item` into each target slot (several: multicast). It lands in each at some later time
    /// and then completes one load on that slot's barrier, if it names one.
    Load {
        /// What is loaded.
        item: u16,
        /// Slots, each with the barrier that hears of it.
        to: Vec<(usize, Option<usize>)>,
    },
    /// `cp.async.commit_group`: the loads since the last commit form a group.
    Commit,
    /// `cp.async.wait_group`: goes on when at most `pending` groups of this actor are in flight.
    WaitGroups {
        /// Groups that may stay in flight.
        pending: u16,
    },
    /// Begins to read `item` from the slots: a multiply that may still run when the next step begins.
    Multiply {
        /// What must be there.
        item: u16,
        /// Where.
        slots: Vec<usize>,
    },
    /// `wgmma.wait_group`: goes on when at most `pending` multiplies of this actor run; they end in order.
    Retire {
        /// Multiplies that may stay running.
        pending: u16,
    },
    /// Reads the accumulators of output tile `tile`, as an epilogue does: every multiply of this actor must have ended.
    Epilogue {
        /// The output tile.
        tile: u16,
    },
    /// `bar.sync`: arrives at a named barrier and waits for the others.
    Sync {
        /// Which barrier.
        barrier: usize,
    },
    /// `bar.arrive`: arrives at a named barrier and goes on.
    SyncArrive {
        /// Which barrier.
        barrier: usize,
    },
    /// Enters a section that one actor at a time may be in.
    Enter {
        /// The section.
        section: &'static str,
    },
    /// Leaves the section.
    Leave {
        /// The section.
        section: &'static str,
    },
}

impl Pipeline {
    /// Returns step `step` of actor `actor` in words.
    pub fn describe(&self, step: &Step) -> String {
        let barrier = |i: &usize| self.barriers.get(*i).map_or("?", |b| b.name.as_str());
        let slot = |i: &usize| self.slots.get(*i).map_or("?", |s| s.name.as_str());
        match step {
            Step::Wait { barrier: b, parity } => format!("wait {} parity {parity}", barrier(b)),
            Step::Arrive { barrier: b } => format!("arrive {}", barrier(b)),
            Step::Expect { barrier: b, loads } => {
                format!("arrive {} expecting {loads} loads", barrier(b))
            }
            Step::Load { item, to } => {
                let names: Vec<&str> = to.iter().map(|(s, _)| slot(s)).collect();
                format!("load {item} into {}", names.join(", "))
            }
            Step::Commit => "commit group".to_string(),
            Step::WaitGroups { pending } => format!("wait groups, {pending} may be in flight"),
            Step::Multiply { item, slots } => {
                let names: Vec<&str> = slots.iter().map(slot).collect();
                format!("multiply {item} from {}", names.join(", "))
            }
            Step::Retire { pending } => format!("retire, {pending} may be running"),
            Step::Epilogue { tile } => format!("epilogue of tile {tile}"),
            Step::Sync { barrier: b } => format!("sync {}", barrier(b)),
            Step::SyncArrive { barrier: b } => format!("sync-arrive {}", barrier(b)),
            Step::Enter { section } => format!("enter {section}"),
            Step::Leave { section } => format!("leave {section}"),
        }
    }
}

impl fmt::Display for Pipeline {
    /// The actors one after the other, one line per step.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{}", self.name)?;
        for actor in &self.actors {
            writeln!(f, "{}:", actor.name)?;
            for (i, step) in actor.steps.iter().enumerate() {
                writeln!(f, "  {i:>3} {}", self.describe(step))?;
            }
        }
        Ok(())
    }
}
