//! The agents that access memory, and their places in the kernel.

use super::warp::Warp;
use crate::order::clock::{Epoch, Proxy, View};
use crate::order::lockstep::{Lockstep, SEVERAL};
use crate::order::shadow::{Access, AccessKind};

/// Where in a kernel something is: the block of the cluster, the thread, the step.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Site {
    pub(crate) block: usize,
    pub(crate) first: u32,
    pub(crate) lane: usize,
    /// Whether the whole warp is meant.
    pub(crate) whole: bool,
    pub(crate) pc: usize,
}

impl Site {
    pub(crate) fn of(warp: &Warp, lane: usize) -> Self {
        Site {
            block: warp.block,
            first: warp.first,
            lane,
            whole: false,
            pc: warp.pc,
        }
    }
}

/// An agent that accesses memory: a warp, or an asynchronous engine on its behalf.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Accessor<'v> {
    pub(crate) site: Site,
    pub(crate) agent: usize,
    pub(crate) clock: u32,
    pub(crate) proxy: Proxy,
    pub(crate) view: &'v View,
    /// The warp, or the one that the engine does it for, and what its lanes know of each other.
    pub(crate) warp: usize,
    pub(crate) lockstep: &'v Lockstep,
}

impl<'v> Accessor<'v> {
    /// A thread of a warp.
    pub(crate) fn lane(warp: &'v Warp, lane: usize, proxy: Proxy) -> Self {
        Accessor {
            site: Site::of(warp, lane),
            agent: warp.index,
            clock: warp.view.seen.get(warp.index),
            proxy,
            view: &warp.view,
            warp: warp.index,
            lockstep: &warp.lockstep,
        }
    }

    /// The same on behalf of another lane of the warp.
    pub(crate) fn for_lane(&self, lane: usize) -> Self {
        let site = Site { lane, ..self.site };
        Accessor { site, ..*self }
    }

    /// The access as histories keep it.
    pub(crate) fn epoch(&self) -> Epoch {
        let lane = if self.site.whole {
            SEVERAL
        } else {
            self.site.lane
        };
        Epoch::new(self.agent, self.clock, self.site.pc, lane, self.proxy)
    }

    /// Whether this comes after another access of the cluster.
    pub(crate) fn knows(&self, other: Epoch) -> bool {
        self.access(AccessKind::Read).knows(other)
    }

    pub(crate) fn access(&self, kind: AccessKind) -> Access<'v> {
        let epoch = self.epoch();
        Access {
            epoch,
            view: self.view,
            kind,
            warp: self.warp,
            lane: epoch.lane(),
            lockstep: self.lockstep,
            owners: None,
            strengths: None,
        }
    }
}
