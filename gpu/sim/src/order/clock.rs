//! Vector clocks: the steps of other agents that happened before each agent's current step (Lamport 1978; Flanagan and
//! Freund 2009, FastTrack).
//!
//! The agents are the warps of a cluster and [`ENGINES`] asynchronous engines, which are used in turn. For other
//! clusters, a view holds the clocks that their ordered accesses have published.

use std::collections::BTreeMap;
use std::ops::Range;
use std::rc::Rc;

use super::gaps::Gaps;
use super::lockstep::SEVERAL;

/// Engines for asynchronous operations in a cluster.
pub(crate) const ENGINES: usize = 128;

/// A vector clock: for every agent, how many of its steps happened before. Clones share it until one of them changes.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Clock(Rc<[u32]>);

impl Clock {
    pub(crate) fn new(agents: usize) -> Self {
        Clock(vec![0; agents].into())
    }

    pub(crate) fn get(&self, agent: usize) -> u32 {
        self.0.get(agent).copied().unwrap_or(0)
    }

    pub(crate) fn raise(&mut self, agent: usize, to: u32) {
        if self.0.get(agent).is_some_and(|at| *at < to) {
            Rc::make_mut(&mut self.0)[agent] = to;
        }
    }

    fn lower(&mut self, agent: usize, to: u32) {
        if self.get(agent) > to {
            Rc::make_mut(&mut self.0)[agent] = to;
        }
    }

    /// Joins: after it, everything that happened before `other` also happened before this.
    pub(crate) fn join(&mut self, other: &Clock) {
        if Rc::ptr_eq(&self.0, &other.0) || self.covers(other) {
            return;
        }
        if other.covers(self) && self.0.len() == other.0.len() {
            self.0 = other.0.clone();
            return;
        }
        for (mine, other) in Rc::make_mut(&mut self.0).iter_mut().zip(&*other.0) {
            *mine = (*other).max(*mine);
        }
    }

    /// Joins, where this may be the clock of no agents yet.
    fn adopt(&mut self, other: &Clock) {
        if self.0.is_empty() {
            self.0 = other.0.clone();
        } else {
            self.join(other);
        }
    }

    /// Meets: keeps what happened before both.
    pub(crate) fn meet(&mut self, other: &Clock) {
        if Rc::ptr_eq(&self.0, &other.0) || other.covers(self) {
            return;
        }
        for (mine, other) in Rc::make_mut(&mut self.0).iter_mut().zip(&*other.0) {
            *mine = (*other).min(*mine);
        }
    }

    /// Whether it is at least another, for every agent of both.
    fn covers(&self, other: &Clock) -> bool {
        let both = self.0.iter().zip(&*other.0);
        both.fold(true, |all, (mine, other)| all & (mine >= other))
    }
}

/// The clock of another cluster that was acquired, and the part of it that a proxy fence has made visible in global
/// memory.
type Known = (Clock, Clock);

/// The view of an agent: the clock of the steps that happened before its current one, and the parts of it that proxy
/// fences have made visible to the asynchronous proxy.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct View {
    pub(crate) seen: Clock,
    /// In shared memory.
    pub(crate) fenced: Clock,
    /// In global memory.
    pub(crate) fenced_global: Clock,
    /// The steps whose accesses to the shared memory of other blocks are complete. Such an access is under way for a while: an
    /// arrival at another block's mbarrier overtakes it, unless a release of the cluster's scope waits for it.
    pub(crate) far: Clock,
    /// Of the accesses to the shared memory of other blocks, those that a proxy fence has made visible there.
    fenced_far: Clock,
    /// The writes that an arrival of the scope of a block at another block's mbarrier does not publish, and those that a wait of
    /// that scope does not acquire from another block.
    pub(crate) unpublished: Gaps,
    pub(crate) unacquired: Gaps,
    /// Whether all blocks of the cluster have begun: a barrier of the cluster says so.
    pub(crate) all_begun: bool,
    /// Of other clusters, by their numbers.
    foreign: Option<Rc<BTreeMap<u32, Known>>>,
}

impl View {
    pub(crate) fn new(agents: usize) -> Self {
        View {
            seen: Clock::new(agents),
            fenced: Clock::new(agents),
            fenced_global: Clock::new(agents),
            far: Clock::new(agents),
            fenced_far: Clock::default(),
            unpublished: Gaps::default(),
            unacquired: Gaps::default(),
            all_begun: false,
            foreign: None,
        }
    }

    /// The clocks of another cluster that were acquired.
    pub(crate) fn of(&self, cluster: u32) -> Option<&Known> {
        self.foreign.as_ref()?.get(&cluster)
    }

    /// Joins the clocks of an agent in cluster `other` into those of one in cluster `own`.
    pub(crate) fn learn(&mut self, own: u32, other: u32, view: &View) {
        if own == other {
            return self.join(view);
        }
        self.know(other, (&view.seen, &view.fenced_global));
        for (cluster, (seen, fenced)) in view.foreign.iter().flat_map(|foreign| foreign.iter()) {
            // Clocks travel transitively: through a third cluster, a cluster can learn of its own steps.
            if *cluster == own {
                self.seen.join(seen);
                self.fenced_global.join(fenced);
            } else {
                self.know(*cluster, (seen, fenced))
            }
        }
    }

    fn know(&mut self, cluster: u32, (seen, fenced): (&Clock, &Clock)) {
        let foreign = Rc::make_mut(self.foreign.get_or_insert_default());
        let blank = || (Clock::new(seen.0.len()), Clock::new(fenced.0.len()));
        let known = foreign.entry(cluster).or_insert_with(blank);
        known.0.join(seen);
        known.1.join(fenced);
    }

    pub(crate) fn join(&mut self, other: &View) {
        let (seen, others) = (&self.seen, &other.seen);
        self.unpublished.join(seen, &other.unpublished, others);
        self.unacquired.join(seen, &other.unacquired, others);
        self.seen.join(&other.seen);
        self.fenced.join(&other.fenced);
        self.fenced_global.join(&other.fenced_global);
        self.far.join(&other.far);
        self.fenced_far.adopt(&other.fenced_far);
        self.all_begun |= other.all_begun;
        if let Some(foreign) = &other.foreign
            && self
                .foreign
                .as_ref()
                .is_none_or(|own| !Rc::ptr_eq(own, foreign))
        {
            foreign
                .iter()
                .for_each(|(cluster, (seen, fenced))| self.know(*cluster, (seen, fenced)));
        }
    }

    pub(crate) fn meet(&mut self, other: &View) {
        self.seen.meet(&other.seen);
        self.fenced.meet(&other.fenced);
        self.far.meet(&other.far);
        self.fenced_far.meet(&other.fenced_far);
        self.all_begun &= other.all_begun;
    }

    /// Whether an access to the memory of a block comes before, by another block of a cluster of `warps` warps or an engine.
    pub(crate) fn covers(&self, visit: Epoch, warps: usize) -> bool {
        let is_plain = visit.proxy() == Some(Proxy::Generic) && visit.agent() < warps;
        visit.before(&self.seen) && (!is_plain || visit.before(&self.far))
    }

    /// A fence between the proxies in a cluster of several blocks: the other blocks' part of it. A fence of the shared memory of
    /// one block, whose warps are these, does not reach what they have accessed elsewhere.
    pub(crate) fn fence_far(&mut self, only_of: Option<Range<usize>>) {
        let mut reached = self.seen.clone();
        for warp in only_of.into_iter().flatten() {
            reached.lower(warp, self.fenced_far.get(warp));
        }
        self.fenced_far.adopt(&reached);
    }

    /// Whether a proxy fence has reached an access to the shared memory of another block.
    pub(crate) fn has_fenced_far(&self, other: Epoch) -> bool {
        other.before(&self.fenced_far)
    }

    /// A fence between the proxies, in shared memory and in global memory.
    pub(crate) fn fence(&mut self, shared: bool, global: bool) {
        // Everything that happened before the fence is visible to the asynchronous proxy after it: the writes of other
        // agents too, if this one has synchronised with them.
        if shared {
            self.fenced.join(&self.seen);
        }
        if global {
            self.fenced_global.join(&self.seen);
            let own = self.foreign.iter_mut();
            own.flat_map(|foreign| Rc::make_mut(foreign).values_mut())
                .for_each(|(seen, fenced)| fenced.join(seen));
        }
    }
}

/// The proxy of an access (PTX ISA, memory consistency model).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Proxy {
    /// Loads, stores, `cp.async`.
    Generic = 1,
    /// Bulk copies, tensor copies and `wgmma`.
    Async = 2,
    /// Atomic operations, which do not race with each other.
    Atomic = 3,
}

/// An access packed into 64 bits: agent, lane, clock, program counter and proxy. Zero is no access.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct Epoch(pub(crate) u64);

impl Epoch {
    pub(crate) fn new(agent: usize, clock: u32, pc: usize, lane: usize, proxy: Proxy) -> Self {
        let pc = pc.min((1 << 18) - 1) as u64;
        let lane = lane.min(SEVERAL) as u64;
        let clock = u64::from(clock.min((1 << 28) - 1));
        Epoch(clock | lane << 28 | (agent as u64 & 0x3ff) << 34 | pc << 44 | (proxy as u64) << 62)
    }

    pub(crate) fn is_none(self) -> bool {
        self.0 == 0
    }

    pub(crate) fn clock(self) -> u32 {
        self.0 as u32 & ((1 << 28) - 1)
    }

    pub(crate) fn lane(self) -> usize {
        (self.0 >> 28 & 0x3f) as usize
    }

    /// The same of another lane.
    pub(crate) fn of_lane(self, lane: usize) -> Self {
        Epoch(self.0 & !(0x3f << 28) | (lane.min(SEVERAL) as u64) << 28)
    }

    pub(crate) fn agent(self) -> usize {
        (self.0 >> 34 & 0x3ff) as usize
    }

    pub(crate) fn pc(self) -> usize {
        (self.0 >> 44 & 0x3_ffff) as usize
    }

    pub(crate) fn proxy(self) -> Option<Proxy> {
        match self.0 >> 62 {
            1 => Some(Proxy::Generic),
            2 => Some(Proxy::Async),
            3 => Some(Proxy::Atomic),
            _ => None,
        }
    }

    /// Whether both are of one step of an agent.
    pub(crate) fn at_once(self, other: Epoch) -> bool {
        (self.agent(), self.clock()) == (other.agent(), other.clock())
    }

    /// Whether this clock covers it: it happens before.
    pub(crate) fn before(self, clock: &Clock) -> bool {
        self.clock() <= clock.get(self.agent())
    }

    /// The same beside another of the same agent: of several lanes, if that is of another one at the same time.
    pub(crate) fn beside(self, other: Epoch) -> Self {
        if self.clock() == other.clock() && self.lane() != other.lane() {
            self.of_lane(SEVERAL)
        } else {
            self
        }
    }
}
