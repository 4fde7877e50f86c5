//! Which claims a launch decides: those that hold in the whole grid if they hold where
//! [`colex_ir::launch::LaunchClaims`] evaluates them.
//!
//! A claim says that some integers are at least 0. It is evaluated in the corners of the grid, in the first and the last
//! turn of the loops around it, and in the threads that reach farthest. That suffices if each integer changes in one
//! direction with each variable, and if every branch and every loop around the access is the same for all of the others.

use colex_ir::Special;

use crate::index::walk::Walked;
use crate::index::{Index, Leaf, Node};

/// How an integer changes with some of its variables, regardless of the others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Trend {
    Constant,
    Up,
    Down,
    Either,
}

impl Trend {
    /// The trend of what grows with two integers.
    fn and(self, other: Trend) -> Trend {
        match (self, other) {
            (Trend::Constant, trend) | (trend, Trend::Constant) => trend,
            (a, b) if a == b => a,
            _ => Trend::Either,
        }
    }

    fn reversed(self) -> Trend {
        match self {
            Trend::Up => Trend::Down,
            Trend::Down => Trend::Up,
            same => same,
        }
    }

    /// The same where only a constant is followed.
    fn unless_constant(self) -> Trend {
        match self {
            Trend::Constant => Trend::Constant,
            _ => Trend::Either,
        }
    }
}

/// What a launch and the place of an access know of a register.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Knows {
    /// One value in a whole launch.
    Launch,
    /// The number of the block along an axis.
    Block(u8),
    /// The place of the block in its cluster, or of the cluster in the grid.
    Cluster,
    /// The thread decides it.
    Thread,
    /// The counter of a loop around the access, the outermost first.
    Counter(usize),
    /// Only the kernel knows it.
    Nothing,
}

impl Knows {
    pub(crate) fn special(special: Special) -> Knows {
        match special {
            Special::Tid(_) | Special::LaneId => Knows::Thread,
            Special::Ctaid(axis) => Knows::Block(axis),
            Special::ClusterCtaRank | Special::ClusterCtaid(_) | Special::ClusterId(_) => {
                Knows::Cluster
            }
            Special::NTid(_)
            | Special::NCtaid(_)
            | Special::ClusterNCtaRank
            | Special::ClusterNCtaid(_)
            | Special::NClusterId(_)
            | Special::DynamicSharedSize => Knows::Launch,
            Special::Clock64 | Special::GlobalTimer | Special::SmId => Knows::Nothing,
        }
    }
}

impl Index {
    /// How it changes with the registers of which `is` says so.
    pub(crate) fn trend(&self, is: &dyn Fn(&Leaf) -> bool) -> Trend {
        self.trend_in(is, &mut Walked::default())
    }

    fn trend_in(&self, is: &dyn Fn(&Leaf) -> bool, walked: &mut Walked<Trend>) -> Trend {
        walked.of(self, |walked| {
            let mut of = |x: &Index| x.trend_in(is, walked);
            match &self.0.node {
                Node::Leaf(leaf) if is(leaf) => Trend::Up,
                Node::Leaf(_) => Trend::Constant,
                Node::Sum(terms, _) => terms.iter().fold(Trend::Constant, |sum, (x, c)| {
                    let trend = of(x);
                    sum.and(if *c < 0 { trend.reversed() } else { trend })
                }),
                Node::BitField(x, mask, _) => {
                    // Order is kept where only low bits are dropped.
                    let above = u64::MAX << mask.trailing_zeros();
                    if x.range().0 >= 0 && x.0.bits & above & !mask == 0 {
                        of(x)
                    } else {
                        of(x).unless_constant()
                    }
                }
                Node::Product(a, b) => {
                    let trend = of(a).and(of(b));
                    if a.range().0 >= 0 && b.range().0 >= 0 {
                        trend
                    } else {
                        trend.unless_constant()
                    }
                }
                Node::Quotient(a, b) => match (of(a), of(b)) {
                    (trend, Trend::Constant) => trend,
                    (trend, by) if a.range().0 >= 0 => trend.and(by.reversed()),
                    _ => Trend::Either,
                },
                Node::Min(a, b) => of(a).and(of(b)),
                Node::Remainder(a, b) | Node::Xor(a, b) => of(a).and(of(b)).unless_constant(),
                Node::Select(parts) => {
                    let trends = parts.iter().map(of);
                    trends.fold(Trend::Constant, Trend::and).unless_constant()
                }
                Node::Opaque(x) => of(x),
                Node::Poison(_) => Trend::Either,
            }
        })
    }

    /// Whether it is a sum of what the thread decides and of what is the same for all threads: the threads that reach
    /// farthest are the same in every block.
    fn parts_threads(&self, known: &dyn Fn(&Leaf) -> Knows) -> bool {
        let is_thread = |leaf: &Leaf| known(leaf) == Knows::Thread;
        let (terms, _) = match &self.0.node {
            Node::Opaque(x) => return x.parts_threads(known),
            _ => self.terms(),
        };
        terms.iter().all(|(x, _)| {
            let varies = x.trend(&is_thread) != Trend::Constant;
            !varies
                || x.trend(&|leaf| !is_thread(leaf)) == Trend::Constant
                || matches!(&x.0.node, Node::Opaque(inner) if inner.parts_threads(known))
        })
    }

    /// Whether an integer that is at least 0 at the corners of a launch is so everywhere in it. Of more than `free` of the
    /// `loops` around it, the outer ones are evaluated in their last turns together, and in their first ones.
    pub(crate) fn is_least_at_corners(
        &self,
        known: &dyn Fn(&Leaf) -> Knows,
        loops: usize,
        free: usize,
    ) -> bool {
        let along = |which: Knows| self.trend(&|leaf| known(leaf) == which);
        let cluster = along(Knows::Cluster);
        let blocks = [0, 1, 2].map(|axis| along(Knows::Block(axis)));
        let mut counters = (0..loops).map(|i| along(Knows::Counter(i)));
        let outer = counters.by_ref().take(loops.saturating_sub(free));
        let outer = outer.fold(Trend::Constant, Trend::and);
        // The rank in a cluster is no axis of its own: it is first where the block is, and last.
        let cluster = match cluster {
            Trend::Constant => Trend::Constant,
            _ => blocks.iter().copied().fold(cluster, Trend::and),
        };
        along(Knows::Nothing) == Trend::Constant
            && blocks
                .into_iter()
                .chain([cluster, outer])
                .chain(counters)
                .all(|trend| trend != Trend::Either)
            && self.parts_threads(known)
    }
}
