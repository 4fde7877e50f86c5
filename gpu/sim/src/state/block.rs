//! The state of blocks and clusters beside that of their warps.

use super::accessor::Accessor;
use super::mbarrier::Mbarriers;
use super::named::Named;
use super::pending::Pending;
use crate::order::clock::{ENGINES, Epoch, Proxy, View};
use crate::order::hash::Map;
use crate::order::history::Histories;
use crate::order::lockstep::SEVERAL;
use crate::order::release::Release;
use crate::order::shadow::{ReadSets, SharedCell};

/// Where a block's shared memory begins in its window of shared addresses: nothing lies at 0.
pub(crate) const SHARED_BASE: u32 = 0x400;

/// The distance between the shared windows of the blocks of a cluster.
pub(crate) const WINDOW_BITS: u32 = 24;

/// A block.
#[derive(Debug)]
pub(crate) struct Block {
    /// Its place in the grid.
    pub(crate) ctaid: [u32; 3],
    /// Its rank in the cluster.
    pub(crate) rank: u32,
    /// The number of its multiprocessor.
    pub(crate) sm: u32,
    /// Its shared memory, and which bytes of it were written.
    pub(crate) shared: Vec<u8>,
    pub(crate) written: Vec<bool>,
    /// The history of each byte; empty where races are not checked.
    pub(crate) cells: Histories<SharedCell>,
    /// Its named barriers.
    pub(crate) named: [Named; 16],
    /// Its barriers in shared memory, by the place of their first byte.
    pub(crate) mbarriers: Mbarriers,
    /// The number of its warps that have not ended.
    pub(crate) live_warps: u32,
    /// The joined clocks of its ended warps.
    pub(crate) ended: View,
    /// The last access of each other agent to its shared memory: of loads and stores, and of others.
    pub(crate) visits: Map<(usize, bool), (Epoch, usize)>,
    /// The latest of them.
    pub(crate) last_visit: Epoch,
    /// 32-bit registers of the block that its warps have given up (PTX ISA 9.7.19.5: a pool of the block).
    pub(crate) free_registers: i64,
    /// Of each of its warps, how often it has executed `setmaxnreg`, and whether it has ended.
    pub(crate) reallocations: Vec<(u32, bool)>,
}

impl Block {
    /// The shared address of its first byte.
    pub(crate) fn base(&self) -> u32 {
        self.rank << WINDOW_BITS | SHARED_BASE
    }
}

/// The barrier of a cluster.
#[derive(Debug, Default)]
pub(crate) struct ClusterBarrier {
    /// Warps that have arrived in this phase.
    pub(crate) arrived: usize,
    /// Phases that are complete.
    pub(crate) phase: u64,
    pub(crate) arriving: View,
    pub(crate) complete: View,
}

/// The last use of an engine.
#[derive(Clone, Copy, Debug, Default)]
struct Engine {
    /// Its clock when it is done.
    clock: u32,
    /// The warp that asked, and its clock then.
    warp: usize,
    asked: u32,
    /// The barrier whose bytes it completes, and whether it has: block, place, bytes.
    tells: Option<(usize, usize, i64)>,
    told: bool,
}

/// The blocks of a cluster and what they share.
#[derive(Debug)]
pub(crate) struct Group {
    /// Its number among the clusters of the launch, over all ranks, and its rank.
    pub(crate) number: u32,
    pub(crate) rank: u32,
    pub(crate) blocks: Vec<Block>,
    /// The number of warps.
    pub(crate) warps: usize,
    /// The number of warps that have not ended.
    pub(crate) live: usize,
    /// Sets of reads that histories refer to.
    pub(crate) reads: ReadSets,
    /// Asynchronous operations under way, oldest first.
    pub(crate) pending: Vec<Pending>,
    /// The number of the next one.
    pub(crate) next_operation: u64,
    /// The last use of each engine.
    engines: Vec<Engine>,
    next_engine: usize,
    pub(crate) barrier: ClusterBarrier,
    /// The releases published in shared memory, by block and offset.
    pub(crate) ordered: Map<(usize, usize), Release>,
    /// The number of executed instructions that other warps may wait for.
    pub(crate) served: u64,
}

impl Group {
    pub(crate) fn new(number: u32, blocks: Vec<Block>, warps: usize) -> Self {
        let agents = warps + ENGINES;
        Group {
            number,
            rank: 0,
            blocks,
            warps,
            live: warps,
            reads: ReadSets::default(),
            pending: Vec::new(),
            next_operation: 0,
            engines: vec![Engine::default(); ENGINES],
            next_engine: 0,
            barrier: ClusterBarrier {
                arriving: View::new(agents),
                complete: View::new(agents),
                ..ClusterBarrier::default()
            },
            ordered: Map::default(),
            served: 0,
        }
    }

    pub(crate) fn agents(&self) -> usize {
        self.warps + ENGINES
    }

    pub(crate) fn warps_per_block(&self) -> usize {
        (self.warps / self.blocks.len().max(1)).max(1)
    }

    /// An engine for a warp with this view, and its clock when it is done with one operation more; one before, it has read.
    pub(crate) fn engine(&mut self, (warp, asked): (usize, u32), view: &View) -> (usize, u32) {
        let engine = self.free_engine(view);
        self.next_engine = (engine + 1) % ENGINES;
        let used = &mut self.engines[engine];
        *used = Engine {
            clock: used.clock + 2,
            warp,
            asked,
            tells: None,
            told: false,
        };
        (self.warps + engine, used.clock)
    }

    /// The next engine in turn whose last operation is ordered before the new one: a wait for the new one says nothing of an operation
    /// that it follows only on the engine. If there is none, one whose last operation has read its source, or else the next.
    fn free_engine(&self, view: &View) -> usize {
        let mut has_read = None;
        for i in 0..ENGINES {
            let engine = (self.next_engine + i) % ENGINES;
            let (seen, done) = (
                view.seen.get(self.warps + engine),
                self.engines[engine].clock,
            );
            if done <= seen {
                return engine;
            }
            if done <= seen + 1 {
                has_read = has_read.or(Some(engine));
            }
        }
        has_read.unwrap_or(self.next_engine)
    }

    /// The last operation of an engine completes bytes of a barrier: block, place, bytes.
    pub(crate) fn tells(&mut self, agent: usize, tells: Option<(usize, usize, i64)>) {
        let engine = agent.checked_sub(self.warps);
        if let Some(engine) = engine.and_then(|engine| self.engines.get_mut(engine)) {
            engine.tells = tells;
        }
    }

    /// It has completed them.
    pub(crate) fn told(&mut self, agent: usize) {
        let engine = agent.checked_sub(self.warps);
        if let Some(engine) = engine.and_then(|engine| self.engines.get_mut(engine)) {
            engine.told = true;
        }
    }

    /// The last use of an engine, if that is this operation.
    fn used_for(&self, operation: Epoch) -> Option<&Engine> {
        let engine = operation.agent().checked_sub(self.warps)?;
        let engine = self.engines.get(engine)?;
        (operation.clock() + 1 >= engine.clock).then_some(engine)
    }

    /// The barrier of an operation (block, place, bytes), if that does not wait for the bytes.
    pub(crate) fn unannounced(&self, operation: Epoch) -> Option<(usize, usize, i64)> {
        let engine = self.used_for(operation)?;
        let (block, at, bytes) = engine.tells?;
        let barrier = self.blocks[block].mbarriers.get(at)?;
        // All copies that are to complete bytes there count.
        let on_the_way = self.engines.iter().filter(|engine| !engine.told);
        let on_the_way = on_the_way
            .filter_map(|engine| engine.tells)
            .filter(|tells| (tells.0, tells.1) == (block, at));
        let on_the_way: i64 = on_the_way.map(|tells| tells.2).sum();
        let waits = if engine.told {
            barrier.bytes >= 0
        } else {
            barrier.bytes >= on_the_way
        };
        (!waits).then_some((block, at, bytes))
    }

    /// The warp that has asked an engine for an operation, and its clock then, as far as the engine remembers.
    pub(crate) fn issuer(&self, operation: Epoch) -> Option<(usize, u32)> {
        self.used_for(operation)
            .map(|engine| (engine.warp, engine.asked))
    }

    /// Notes that an agent accessed the shared memory of another block, at a place there.
    pub(crate) fn remember_visit(&mut self, block: usize, at: usize, accessor: &Accessor<'_>) {
        let epoch = Epoch::new(
            accessor.agent,
            accessor.clock,
            accessor.site.pc,
            SEVERAL,
            accessor.proxy,
        );
        let block = &mut self.blocks[block];
        // One operation accesses many places; the first is kept.
        if block.last_visit != epoch {
            block.last_visit = epoch;
            let is_plain = accessor.proxy == Proxy::Generic;
            block.visits.insert((accessor.agent, is_plain), (epoch, at));
        }
    }
}
