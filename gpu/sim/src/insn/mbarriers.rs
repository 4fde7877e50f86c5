//! The instructions on barriers in shared memory.

use crate::machine::Machine;
use crate::machine::exec::{Exec, Flow};
use crate::machine::place::Target;
use crate::machine::port::{Accessor, Site, tick};
use crate::machine::suspect::Use;
use crate::order::clock::Proxy;
use crate::order::release::Scope;
use crate::order::shadow::{AccessKind, Race};
use crate::report::event::EventKind;
use crate::report::fault::{Fault, FaultKind};
use crate::state::block::Group;
use crate::state::mbarrier::{BYTES, Mbarrier};
use crate::state::wait::Wait;
use crate::state::warp::{Warp, lanes};
use colex_ir::{Address, FenceKind, Operand, Space, Sync, Type};

/// The most bytes or arrivals that a phase counts.
const LIMIT: u64 = (1 << 20) - 1;

impl Machine<'_, '_> {
    /// Returns the barrier at a place, for an access to it.
    pub(crate) fn barrier<'g>(
        &mut self,
        g: &'g mut Group,
        accessor: &Accessor<'_>,
        block: usize,
        at: usize,
    ) -> Result<&'g mut Mbarrier, Fault> {
        let remote = block != accessor.site.block;
        if remote {
            self.check_alive(g, accessor, Target::Shared { block, at })?;
            if self.options.races {
                // A phase completes with its arrivals: they are not under way.
                let arrival = Accessor {
                    proxy: match accessor.proxy {
                        Proxy::Generic => Proxy::Atomic,
                        other @ (Proxy::Async | Proxy::Atomic) => other,
                    },
                    ..*accessor
                };
                g.remember_visit(block, at, &arrival);
            }
        }
        let outside = remote || accessor.proxy == Proxy::Async;
        match g.blocks[block].mbarriers.get(at) {
            None => {
                let what = format!(
                    "{} is no barrier: `mbarrier.init` is missing",
                    self.shared_name(at)
                );
                let fault = self.fault(g, &accessor.site, FaultKind::Barrier, what);
                let target = Target::Shared { block, at };
                return Err(self.catch(g, accessor, (target, BYTES), Use::Barrier, fault));
            }
            Some(barrier) if outside && !barrier.fenced && self.options.races => {
                let missing = match g.blocks.len() {
                    1 => "neither `fence.mbarrier_init` nor `fence.proxy.async` follows",
                    _ => "no `fence.mbarrier_init` follows",
                };
                let what = format!(
                    "{} is used from outside of its block's generic proxy, and {missing} its initialisation",
                    self.barrier_name(at)
                );
                return Err(self.fault(g, &accessor.site, FaultKind::MissingFence, what));
            }
            Some(_) => {}
        }
        let barrier = g.blocks[block].mbarriers.get_mut(at);
        Ok(barrier.expect("looked up above"))
    }

    /// Counts arrivals at a barrier.
    pub(crate) fn arrive(
        &mut self,
        g: &mut Group,
        accessor: &Accessor<'_>,
        block: usize,
        at: usize,
        count: i64,
    ) -> Result<(), Fault> {
        let barrier = self.barrier(g, accessor, block, at)?;
        let (of, phase) = (barrier.count, barrier.phase);
        let came = barrier.arrive(count, accessor.view, block != accessor.site.block);
        let completed = barrier.phase != phase;
        if !came {
            let what = format!(
                "phase {phase} of {} has had all of its {of} arrivals",
                self.barrier_name(at)
            );
            return Err(self.fault(g, &accessor.site, FaultKind::Barrier, what));
        }
        if completed {
            self.check_all_told(g, block, at, phase)?;
        }
        Ok(())
    }
}

impl Machine<'_, '_> {
    /// What an instruction lets an engine do at a barrier must be ordered after the initialisation of that, as the instruction's own
    /// use would be ([`Exec::barrier_touched`]).
    pub(crate) fn check_initialised_before(
        &self,
        g: &Group,
        accessor: &Accessor<'_>,
        block: usize,
        at: usize,
    ) -> Result<(), Fault> {
        let init = g.blocks[block]
            .mbarriers
            .get(at)
            .map(|barrier| barrier.init);
        match init {
            Some(init) if self.options.races && !accessor.knows(init) => {
                let issuer = Accessor {
                    agent: accessor.warp,
                    proxy: Proxy::Atomic,
                    ..*accessor
                };
                let race = Race::Unordered {
                    other: init,
                    other_writes: true,
                };
                let byte = self.shared_name(at);
                Err(self.race(g, &issuer, &byte, race, g.number, AccessKind::Read))
            }
            Some(_) | None => Ok(()),
        }
    }
}

impl Exec<'_, '_, '_> {
    /// Lists what the warp does, where that is asked for.
    pub(crate) fn record(&mut self, kind: impl FnOnce() -> EventKind) {
        self.m.record(self.g, &Site::of(self.w, 0), kind);
    }

    /// The barrier that each lane names: block and place.
    pub(crate) fn barrier_at(
        &self,
        space: Space,
        address: u64,
        lane: usize,
    ) -> Result<(usize, usize), Fault> {
        match self.target(space, address, BYTES, BYTES, lane)? {
            Target::Shared { block, at } => Ok((block, at)),
            Target::Global(_) | Target::Param(_) => {
                Err(self.fault(FaultKind::Barrier, lane, "a barrier lies in shared memory"))
            }
        }
    }

    /// Executes an instruction that synchronizes.
    pub(crate) fn synchronize(&mut self, op: &Sync, mask: u32) -> Result<Flow, Fault> {
        match op {
            Sync::Barrier { op, id, threads } => {
                return self.named_barrier(*op, *id, *threads, mask);
            }
            Sync::WarpSync { mask: members } => self.warp_sync(*members, mask)?,
            Sync::ClusterArrive { order } => self.cluster_arrive(*order, mask)?,
            Sync::ClusterWait => return self.cluster_wait(mask),
            Sync::SetMaxReg { increase, count } => {
                self.collective(mask)?;
                return self.reallocate(*increase, i64::from(*count));
            }
            // The simulated kernel runs alone, and time does not pass.
            Sync::GridDependency { .. } | Sync::NanoSleep { .. } => {}
            Sync::MbarrierInit { a, count } => self.mbarrier_init(a, *count, mask)?,
            Sync::MbarrierInval { a } => self.mbarrier_inval(a, mask)?,
            Sync::MbarrierArrive {
                space,
                a,
                count,
                expect,
                scope,
            } => self.mbarrier_arrive((*space, *scope), a, *count, *expect, mask)?,
            Sync::MbarrierExpect { space, a, bytes } => {
                let addresses = self.address(a, mask)?;
                let bytes = self.value(*bytes, Type::U32, mask)?;
                for lane in lanes(mask) {
                    self.expect(*space, addresses[lane], bytes[lane], lane)?;
                    let barrier = self.barrier_at(*space, addresses[lane], lane)?;
                    self.record(|| EventKind::Expect {
                        barrier,
                        bytes: i64::from(bytes[lane] as u32),
                    });
                }
            }
            Sync::MbarrierTry {
                p,
                a,
                parity,
                scope,
                ..
            } => {
                let addresses = self.address(a, mask)?;
                let parity = self.value(*parity, Type::U32, mask)?;
                let (mut passed, mut missed) = (0, None);
                for lane in lanes(mask) {
                    let (block, at) = self.barrier_at(Space::Shared, addresses[lane], lane)?;
                    if self.try_wait((block, at), parity[lane], lane, *scope)? {
                        passed |= 1 << lane;
                        self.waits(block, at, parity[lane]);
                    } else {
                        missed = Some((block, at, parity[lane]))
                    }
                }
                self.set_pred(p, mask, passed)?;
                self.w.idle = missed;
                if missed.is_some() {
                    return Ok(Flow::Yield);
                }
            }
            Sync::MbarrierWait { a, parity } => {
                return self.mbarrier_wait(a, *parity, mask);
            }
            Sync::Fence(kind) => self.fence(*kind, mask),
        }
        Ok(Flow::Next)
    }

    fn mbarrier_init(&mut self, a: &Address, count: Operand, mask: u32) -> Result<(), Fault> {
        let addresses = self.address(a, mask)?;
        let counts = self.value(count, Type::U32, mask)?;
        let mut initialised = Vec::new();
        for lane in lanes(mask) {
            let count = counts[lane];
            let (block, at) = self.barrier_at(Space::Shared, addresses[lane], lane)?;
            if count == 0 || count > LIMIT {
                let name = self.m.barrier_name(at);
                let what = format!(
                    "{name} is initialised for {count} arrivals: 1 to {LIMIT} are possible"
                );
                return Err(self.fault(FaultKind::Barrier, lane, what));
            }
            let accessor = Accessor::lane(self.w, lane, Proxy::Generic);
            let earlier = self.g.blocks[block].mbarriers.remove(at);
            // A race is reported as one.
            self.m
                .write(self.g, &accessor, Target::Shared { block, at }, &[0; BYTES])?;
            // Lanes of one instruction may initialise one barrier, as they may store one value.
            if earlier.is_some() && !initialised.contains(&(block, at)) {
                let name = self.m.barrier_name(at);
                let what = format!(
                    "{name} is initialised already: `mbarrier.inval` must come before another `mbarrier.init`"
                );
                return Err(self.fault(FaultKind::Barrier, lane, what));
            }
            initialised.push((block, at));
            let init = Accessor::lane(self.w, lane, Proxy::Generic).epoch();
            let barrier = Mbarrier::new(count as i64, init, self.g.agents());
            self.g.blocks[block].mbarriers.insert(at, barrier);
            self.record(|| EventKind::Init {
                barrier: (block, at),
                arrivals: count as u32,
            });
        }
        Ok(())
    }

    /// `mbarrier.inval`: the bytes may be used for something else by what comes after it.
    fn mbarrier_inval(&mut self, a: &Address, mask: u32) -> Result<(), Fault> {
        let addresses = self.address(a, mask)?;
        for lane in lanes(mask) {
            let (block, at) = self.barrier_at(Space::Shared, addresses[lane], lane)?;
            let accessor = Accessor::lane(self.w, lane, Proxy::Generic);
            self.m.barrier(self.g, &accessor, block, at)?;
            self.m
                .check_access(self.g, &accessor, block, at, BYTES, AccessKind::Write)?;
            self.g.blocks[block].mbarriers.remove(at);
        }
        Ok(())
    }

    /// A use of a barrier must be ordered after its initialisation. Otherwise the two are a data race.
    fn barrier_touched(&mut self, block: usize, at: usize, lane: usize) -> Result<(), Fault> {
        let accessor = Accessor::lane(self.w, lane, Proxy::Atomic);
        self.m
            .check_access(self.g, &accessor, block, at, BYTES, AccessKind::Read)
    }

    fn mbarrier_arrive(
        &mut self,
        (space, scope): (Space, colex_ir::Scope),
        a: &Address,
        count: Option<Operand>,
        expect: Option<Operand>,
        mask: u32,
    ) -> Result<(), Fault> {
        let scope = Scope::from(scope);
        let home = self.w.home(self.g);
        let addresses = self.address(a, mask)?;
        let counts = self.value(count.unwrap_or(Operand::Int(1)), Type::U32, mask)?;
        let bytes = self.value(expect.unwrap_or(Operand::Int(0)), Type::U32, mask)?;
        for lane in lanes(mask) {
            let (block, at) = self.barrier_at(space, addresses[lane], lane)?;
            if counts[lane] == 0 || counts[lane] > LIMIT {
                let name = self.m.barrier_name(at);
                let what = format!(
                    "this counts {} arrivals at {name}: 1 to {LIMIT} are possible",
                    counts[lane]
                );
                return Err(self.fault(FaultKind::Barrier, lane, what));
            }
            if expect.is_some() {
                self.expect(space, addresses[lane], bytes[lane], lane)?;
            }
            self.record(|| EventKind::Arrive {
                barrier: (block, at),
                count: counts[lane] as u32,
                bytes: i64::from(bytes[lane] as u32),
            });
            self.barrier_touched(block, at, lane)?;
            // An arrival of the block's scope overtakes loads and stores that reach other blocks.
            let near = (block != self.w.block && scope < Scope::Cluster).then(|| {
                let fenced = self.w.released.view_for(Scope::Cluster, home);
                let mut view = self.w.view.clone();
                let each = self.g.warps_per_block();
                let own = self.w.block * each..(self.w.block + 1) * each;
                let seen = &self.w.view.seen;
                view.unpublished.open(self.g.warps, |warp| match &fenced {
                    _ if !own.contains(&warp) => (0, 0),
                    Some(fenced) => (fenced.seen.get(warp), seen.get(warp)),
                    None => (0, seen.get(warp)),
                });
                view.far = fenced.map(|fenced| fenced.far).unwrap_or_default();
                view
            });
            let accessor = Accessor::lane(self.w, lane, Proxy::Generic);
            let accessor = Accessor {
                view: near.as_ref().unwrap_or(accessor.view),
                ..accessor
            };
            self.m
                .arrive(self.g, &accessor, block, at, i64::from(counts[lane] as u32))?;
        }
        tick(&mut self.w.view.seen, self.w.index);
        Ok(())
    }

    fn expect(&mut self, space: Space, address: u64, bytes: u64, lane: usize) -> Result<(), Fault> {
        let (block, at) = self.barrier_at(space, address, lane)?;
        self.barrier_touched(block, at, lane)?;
        let accessor = Accessor::lane(self.w, lane, Proxy::Generic);
        let barrier = self.m.barrier(self.g, &accessor, block, at)?;
        barrier.expect(i64::from(bytes as u32));
        let total = barrier.bytes;
        if total > LIMIT as i64 {
            let name = self.m.barrier_name(at);
            let what = format!(
                "a phase of {name} counts at most {LIMIT} bytes, and {total} are announced"
            );
            return Err(self.fault(FaultKind::Barrier, lane, what));
        }
        Ok(())
    }

    fn try_wait(
        &mut self,
        (block, at): (usize, usize),
        parity: u64,
        lane: usize,
        scope: colex_ir::Scope,
    ) -> Result<bool, Fault> {
        self.barrier_touched(block, at, lane)?;
        let accessor = Accessor::lane(self.w, lane, Proxy::Generic);
        self.m.barrier(self.g, &accessor, block, at)?;
        let barrier = self.g.blocks[block].mbarriers.get(at);
        let Some((known, from_afar)) = barrier.and_then(|barrier| barrier.passed(parity)) else {
            return Ok(false);
        };
        self.w.learn(1 << lane, known);
        match from_afar {
            None => {}
            Some(known) if Scope::from(scope) < Scope::Cluster => {
                self.w.learn_in_block(1 << lane, known, self.g);
            }
            Some(known) => self.w.learn(1 << lane, known),
        }
        Ok(true)
    }

    /// Lists a wait for a phase.
    fn waits(&mut self, block: usize, at: usize, parity: u64) {
        self.record(|| EventKind::Wait {
            barrier: (block, at),
            parity: (parity % 2) as u8,
        });
    }

    fn mbarrier_wait(&mut self, a: &Address, parity: Operand, mask: u32) -> Result<Flow, Fault> {
        let addresses = self.address(a, mask)?;
        let parity = self.value(parity, Type::U32, mask)?;
        let mut waits = Vec::new();
        for lane in lanes(mask) {
            let (block, at) = self.barrier_at(Space::Shared, addresses[lane], lane)?;
            let wait = (block, at, parity[lane]);
            if waits.contains(&wait) {
                continue;
            }
            self.try_wait((block, at), parity[lane], lane, colex_ir::Scope::Cta)?;
            self.waits(block, at, parity[lane]);
            waits.push(wait);
        }
        Ok(Flow::Wait(Wait::Mbarriers(waits, mask)))
    }

    fn fence(&mut self, kind: FenceKind, mask: u32) {
        let own = self.w.index;
        let home = self.w.home(self.g);
        if let Some(scope) = Scope::of(kind) {
            let Warp {
                view, unacquired, ..
            } = self.w;
            unacquired.acquire(scope, home, view);
            let earlier = unacquired.own(scope, home, own);
            // A fence acquires what its own thread has read before.
            self.w.learnt(mask & self.w.readers, earlier);
            return self.release(scope);
        }
        match kind {
            FenceKind::ProxyAsync => {
                self.proxy_fence(true, true, mask);
                self.fence_barriers(true, mask);
            }
            FenceKind::ProxyAsyncShared => {
                self.proxy_fence(true, false, mask);
                self.fence_barriers(true, mask);
            }
            FenceKind::ProxyAsyncGlobal => self.proxy_fence(false, true, mask),
            FenceKind::MbarrierInit => {
                self.fence_barriers(false, mask);
                self.release(Scope::Cluster);
            }
            FenceKind::AcqRelCta
            | FenceKind::AcqRelCluster
            | FenceKind::AcqRelGpu
            | FenceKind::AcqRelSys => {}
        }
        // What follows was not before the fence.
        tick(&mut self.w.view.seen, self.w.index);
    }

    /// Barriers whose initialisation this fence follows may be used from outside: those of its own warp, or with `of_others` also those
    /// that it knows of.
    fn fence_barriers(&mut self, of_others: bool, mask: u32) {
        let own = self.w.index;
        let accessor = Accessor::lane(self.w, mask.trailing_zeros() as usize & 31, Proxy::Generic);
        let blocks = self.g.blocks.iter_mut();
        let barriers = blocks.flat_map(|block| block.mbarriers.values_mut());
        for barrier in barriers.filter(|barrier| !barrier.fenced) {
            let is_own = barrier.init.agent() == own;
            barrier.fenced = is_own || of_others && accessor.knows(barrier.init);
        }
    }

    /// A fence between the proxies by some lanes, in shared memory and in global memory. In shared memory alone, it is that of the
    /// warp's own block (PTX ISA 9.7.13.4, `fence.proxy.async.shared::cta`).
    fn proxy_fence(&mut self, shared: bool, global: bool, mask: u32) {
        let own = self.w.index;
        let lanes = (mask, self.w.alive());
        let Warp { view, lockstep, .. } = self.w;
        let now = view.seen.get(own);
        if shared {
            lockstep.fence(false, lanes, view.fenced.get(own), now);
        }
        if global {
            lockstep.fence(true, lanes, view.fenced_global.get(own), now);
        }
        view.fence(shared, global);
        if shared && self.g.blocks.len() > 1 {
            let warps = self.g.warps_per_block();
            let block = self.w.block;
            let only_of = (!global).then(|| block * warps..(block + 1) * warps);
            view.fence_far(only_of);
        }
    }

    /// A release fence: a later relaxed access or arrival may publish the warp's current clock.
    fn release(&mut self, scope: Scope) {
        let home = self.w.home(self.g);
        let Warp { view, released, .. } = self.w;
        released.add(scope, home, view);
        tick(&mut self.w.view.seen, self.w.index);
    }
}
