//! Vector clocks: what each agent knows to have happened before (Lamport 1978; Flanagan and Freund 2009, FastTrack).
//!
//! Agents are the warps of a cluster, and as many engines for asynchronous operations, which take turns.

/// Engines for asynchronous operations in a cluster.
pub(super) const ENGINES: usize = 128;

/// How far each agent had come, for every agent.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Clock(Vec<u32>);

impl Clock {
    pub(super) fn new(agents: usize) -> Self {
        Clock(vec![0; agents])
    }

    pub(super) fn get(&self, agent: usize) -> u32 {
        self.0.get(agent).copied().unwrap_or(0)
    }

    pub(super) fn raise(&mut self, agent: usize, to: u32) {
        if let Some(at) = self.0.get_mut(agent) {
            *at = to.max(*at);
        }
    }

    /// Knows what the other knows too.
    pub(super) fn join(&mut self, other: &Clock) {
        for (mine, other) in self.0.iter_mut().zip(&other.0) {
            *mine = (*other).max(*mine);
        }
    }

    /// Knows only what the other knows too.
    pub(super) fn meet(&mut self, other: &Clock) {
        for (mine, other) in self.0.iter_mut().zip(&other.0) {
            *mine = (*other).min(*mine);
        }
    }
}

/// What an agent has seen, and which of it a proxy fence has made visible to the asynchronous proxy.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct View {
    pub(super) seen: Clock,
    pub(super) fenced: Clock,
}

impl View {
    pub(super) fn new(agents: usize) -> Self {
        View {
            seen: Clock::new(agents),
            fenced: Clock::new(agents),
        }
    }

    pub(super) fn join(&mut self, other: &View) {
        self.seen.join(&other.seen);
        self.fenced.join(&other.fenced);
    }

    pub(super) fn meet(&mut self, other: &View) {
        self.seen.meet(&other.seen);
        self.fenced.meet(&other.fenced);
    }

    /// A fence between the proxies.
    pub(super) fn fence(&mut self) {
        self.fenced.join(&self.seen.clone());
    }
}

/// Which way an access goes to memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Proxy {
    /// Loads, stores, `cp.async`.
    Generic = 1,
    /// Bulk copies, tensor copies and `wgmma`.
    Async = 2,
    /// Atomic operations, which do not race with each other.
    Atomic = 3,
}

/// One access in one word: by whom, when, where in the program, through which proxy. Zero is none.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct Epoch(pub(super) u64);

impl Epoch {
    pub(super) fn new(agent: usize, clock: u32, pc: usize, proxy: Proxy) -> Self {
        let pc = pc.min((1 << 18) - 1) as u64;
        Epoch(u64::from(clock) | (agent as u64 & 0xfff) << 32 | pc << 44 | (proxy as u64) << 62)
    }

    pub(super) fn is_none(self) -> bool {
        self.0 == 0
    }

    pub(super) fn clock(self) -> u32 {
        self.0 as u32
    }

    pub(super) fn agent(self) -> usize {
        (self.0 >> 32 & 0xfff) as usize
    }

    pub(super) fn pc(self) -> usize {
        (self.0 >> 44 & 0x3_ffff) as usize
    }

    pub(super) fn proxy(self) -> Option<Proxy> {
        match self.0 >> 62 {
            1 => Some(Proxy::Generic),
            2 => Some(Proxy::Async),
            3 => Some(Proxy::Atomic),
            _ => None,
        }
    }

    /// Whether someone with this clock knows of it.
    pub(super) fn before(self, clock: &Clock) -> bool {
        self.clock() <= clock.get(self.agent())
    }
}
