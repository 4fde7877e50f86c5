//! A release publishes the releaser's clock at an address; an acquire joins it.

use super::clock::View;
use colex_ir::{FenceKind, Order};

/// The reach of a scope.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Scope {
    Block,
    Cluster,
    Device,
}

impl From<colex_ir::Scope> for Scope {
    fn from(scope: colex_ir::Scope) -> Self {
        use colex_ir::Scope as Ptx;
        match scope {
            Ptx::Cta => Scope::Block,
            Ptx::Cluster => Scope::Cluster,
            Ptx::Gpu | Ptx::Sys => Scope::Device,
        }
    }
}

impl Scope {
    /// Of a fence that orders, not of one between proxies.
    pub(crate) fn of(fence: FenceKind) -> Option<Self> {
        match fence {
            FenceKind::AcqRelCta => Some(Scope::Block),
            FenceKind::AcqRelCluster => Some(Scope::Cluster),
            FenceKind::AcqRelGpu | FenceKind::AcqRelSys => Some(Scope::Device),
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

/// Where a warp is: its cluster's number, and its block's in the cluster.
pub(crate) type Home = (u32, usize);

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
            Scope::Cluster => self.home.0 == home.0,
            Scope::Device => true,
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
            .filter(|part| part.home.0 == home.0 && part.reaches(scope, home));
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
            .filter(|part| part.scope >= scope && part.home.0 == home.0);
        parts.map(|part| part.view.clone()).reduce(|mut all, view| {
            all.join(&view);
            all
        })
    }

    /// Joins into `view` the published clocks whose scope reaches it.
    pub(crate) fn acquire(&self, scope: Scope, home: Home, view: &mut View) {
        for part in self.0.iter().filter(|part| part.reaches(scope, home)) {
            view.learn(home.0, part.home.0, &part.view);
        }
    }
}
