//! A release publishes the releaser's clock at an address; an acquire joins it.

use super::clock::{Epoch, View};
use colex_ir::{FenceKind, Order};

/// The reach of a scope.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Scope {
    Block,
    Cluster,
    Device,
    /// All devices of the machine.
    System,
}

impl From<colex_ir::Scope> for Scope {
    fn from(scope: colex_ir::Scope) -> Self {
        use colex_ir::Scope as Ptx;
        match scope {
            Ptx::Cta => Scope::Block,
            Ptx::Cluster => Scope::Cluster,
            Ptx::Gpu => Scope::Device,
            Ptx::Sys => Scope::System,
        }
    }
}

impl Scope {
    /// Of a fence that orders, not of one between proxies.
    pub(crate) fn of(fence: FenceKind) -> Option<Self> {
        match fence {
            FenceKind::AcqRelCta => Some(Scope::Block),
            FenceKind::AcqRelCluster => Some(Scope::Cluster),
            FenceKind::AcqRelGpu => Some(Scope::Device),
            FenceKind::AcqRelSys => Some(Scope::System),
            FenceKind::ProxyAsyncShared
            | FenceKind::ProxyAsyncGlobal
            | FenceKind::ProxyAsync
            | FenceKind::MbarrierInit => None,
        }
    }
}

/// The memory semantics of an access: its scope, and whether it acquires and releases (PTX ISA 8.7, release and acquire
/// patterns).
#[derive(Clone, Copy, Debug)]
pub(crate) struct Ordering {
    pub(crate) scope: Scope,
    pub(crate) acquires: bool,
    pub(crate) releases: bool,
}

impl Ordering {
    /// Of a load or a store; none if it is plain.
    pub(crate) fn of(order: Order) -> Option<Self> {
        let (scope, acquires, releases) = match order {
            Order::Weak => return None,
            Order::Volatile => (colex_ir::Scope::Sys, false, false),
            Order::Relaxed(scope) => (scope, false, false),
            Order::Acquire(scope) => (scope, true, false),
            Order::Release(scope) => (scope, false, true),
            Order::AcqRel(scope) => (scope, true, true),
        };
        Some(Ordering {
            scope: scope.into(),
            acquires,
            releases,
        })
    }

    /// Of an atomic operation, which is relaxed and of the device where nothing is said.
    pub(crate) fn of_atomic(order: Order) -> Self {
        let plain = Ordering {
            scope: Scope::Device,
            acquires: false,
            releases: false,
        };
        Self::of(order).unwrap_or(plain)
    }
}

/// Where a warp is: its rank, its cluster's number in the launch, and its block's in the cluster.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Home {
    pub(crate) rank: u32,
    pub(crate) cluster: u32,
    pub(crate) block: usize,
}

/// A published clock, and the scope within which it can be acquired.
#[derive(Clone, Debug)]
struct Segment {
    scope: Scope,
    home: Home,
    view: View,
}

impl Segment {
    fn reaches(&self, scope: Scope, home: Home) -> bool {
        match self.scope.min(scope) {
            Scope::Block => self.home == home,
            Scope::Cluster => self.home.cluster == home.cluster,
            Scope::Device => self.home.rank == home.rank,
            Scope::System => true,
        }
    }
}

/// The clocks published at an address, or read by a warp that has not acquired them yet.
#[derive(Clone, Debug, Default)]
pub(crate) struct Release(Vec<Segment>);

impl Release {
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Whether a rank other than this one has released here.
    pub(crate) fn is_foreign(&self, rank: u32) -> bool {
        self.0.iter().any(|part| part.home.rank != rank)
    }

    /// The widest scope at which something is released here that comes after an access of a cluster; none if nothing is.
    pub(crate) fn covers(&self, cluster: u32, epoch: Epoch) -> Option<Scope> {
        let covers = |part: &&Segment| {
            if part.home.cluster == cluster {
                epoch.before(&part.view.seen)
            } else {
                let known = part.view.of(cluster);
                known.is_some_and(|(seen, _)| epoch.before(seen))
            }
        };
        self.0.iter().filter(covers).map(|part| part.scope).max()
    }

    /// Adds the clock of a releaser.
    pub(crate) fn add(&mut self, scope: Scope, home: Home, view: &View) {
        match self
            .0
            .iter_mut()
            .find(|part| part.scope == scope && part.home == home)
        {
            Some(part) => part.view.join(view),
            None => self.0.push(Segment {
                scope,
                home,
                view: view.clone(),
            }),
        }
    }

    /// Adds another release, limited to `scope`.
    pub(crate) fn merge(&mut self, other: &Release, scope: Scope) {
        for part in &other.0 {
            self.add(part.scope.min(scope), part.home, &part.view);
        }
    }

    /// Returns the latest of warp `warp`'s own steps that an acquire in that warp learns of.
    pub(crate) fn own(&self, scope: Scope, home: Home, warp: usize) -> u32 {
        let parts = self
            .0
            .iter()
            .filter(|part| part.home.cluster == home.cluster && part.reaches(scope, home));
        parts
            .map(|part| part.view.seen.get(warp))
            .max()
            .unwrap_or(0)
    }

    /// Returns the joined clocks that releases in the same cluster have published for at least this scope.
    pub(crate) fn view_for(&self, scope: Scope, home: Home) -> Option<View> {
        let parts = self
            .0
            .iter()
            .filter(|part| part.scope >= scope && part.home.cluster == home.cluster);
        parts.map(|part| part.view.clone()).reduce(|mut all, view| {
            all.join(&view);
            all
        })
    }

    /// Joins into `view` the published clocks whose scope reaches it.
    pub(crate) fn acquire(&self, scope: Scope, home: Home, view: &mut View) {
        for part in self.0.iter().filter(|part| part.reaches(scope, home)) {
            view.learn(home.cluster, part.home.cluster, &part.view);
        }
    }
}
