//! The sentences about data races.

use super::Machine;
use super::port::Accessor;
use crate::order::clock::Epoch;
use crate::order::lockstep::SEVERAL;
use crate::order::release::Scope;
use crate::order::shadow::{AccessKind, Race};
use crate::order::strength::Weakness;
use crate::report::fault::{Fault, FaultKind};
use crate::state::block::Group;
use colex_ir::{Atom, Stmt};

/// One of two accesses, the number of its cluster, and whether it writes.
#[derive(Clone, Copy)]
pub(crate) struct CurrentAccess<'w, 'v> {
    pub(crate) accessor: &'w Accessor<'v>,
    pub(crate) cluster: u32,
    pub(crate) writes: bool,
}

/// The other one.
#[derive(Clone, Copy)]
pub(crate) struct EarlierAccess {
    pub(crate) epoch: Epoch,
    pub(crate) cluster: u32,
    pub(crate) writes: bool,
}

impl Machine<'_, '_> {
    /// The fault of an access to a byte that clashes with another, of the cluster with that number.
    pub(crate) fn race(
        &self,
        g: &Group,
        accessor: &Accessor<'_>,
        byte: &str,
        race: Race,
        cluster: u32,
        kind: AccessKind,
    ) -> Fault {
        let writes = kind != AccessKind::Read;
        let verb = |writes: bool| if writes { "writes" } else { "reads" };
        let here = CurrentAccess {
            accessor,
            cluster: g.number,
            writes,
        };
        match race {
            Race::Unordered {
                other,
                other_writes,
            } => {
                let shared = || {
                    let both_write = writes && other_writes;
                    let element = both_write.then(|| self.shared_element(g, here, other, cluster));
                    element.flatten()
                };
                let what = format!(
                    "this {} {byte}, and {} {} it, and nothing orders the two: {}",
                    verb(writes),
                    self.other_of(g, accessor, other, cluster),
                    verb(other_writes),
                    self.weakness(here, other, cluster)
                        .or_else(shared)
                        .unwrap_or_else(|| {
                            let there = EarlierAccess {
                                epoch: other,
                                cluster,
                                writes: other_writes,
                            };
                            self.remedy(g, here, there)
                        }),
                );
                self.fault(g, &accessor.site, FaultKind::Race, what)
            }
            Race::UnderWay {
                other,
                other_writes,
            } => {
                let what = format!(
                    "this {} {byte}, and {} {} it: that access of another block's memory may be under way still, since the \
                     arrival that follows it has the scope of a block: `mbarrier.arrive.release.cluster` or a barrier of the \
                     cluster is missing",
                    verb(writes),
                    self.other_of(g, accessor, other, cluster),
                    verb(other_writes),
                );
                self.fault(g, &accessor.site, FaultKind::Race, what)
            }
            Race::Apart { other } => {
                let what = format!(
                    "this {} {byte}, and {} writes it: the mbarrier between them has the scope of a block in its arrival or in its \
                     wait, and the two are in different blocks: `mbarrier.arrive.release.cluster` and \
                     `mbarrier.try_wait.acquire.cluster`, or a barrier of the cluster, are missing",
                    verb(writes),
                    self.other_of(g, accessor, other, cluster),
                );
                self.fault(g, &accessor.site, FaultKind::Race, what)
            }
            Race::Unfenced { other } => {
                let what = format!(
                    "this {} {byte} through the asynchronous proxy, and {} writes it through the generic one: \
                     `fence.proxy.async` is missing after the write",
                    verb(writes),
                    self.accused_at(g, other, cluster, g.number),
                );
                self.fault(g, &accessor.site, FaultKind::MissingFence, what)
            }
        }
    }

    /// What is wrong if both accesses are ordered: on several devices, the scope alone is, and the remedy says so.
    fn weakness(&self, here: CurrentAccess<'_, '_>, other: Epoch, cluster: u32) -> Option<String> {
        if self.devices.rank_of(cluster) != self.devices.rank_of(here.cluster) {
            return None;
        }
        let both = [here.accessor.epoch(), other];
        Some(match self.global.weakness(both, [here.cluster, cluster])? {
            Weakness::Scope(Scope::Cluster) => {
                "both are atomic, but the scope of one does not have the other's thread: threads of two blocks of a cluster \
                 need `.cluster` or a wider scope in both"
                    .to_string()
            }
            Weakness::Scope(Scope::Block | Scope::Device | Scope::System) => {
                "both are atomic, but the scope of one does not have the other's thread: threads of two clusters need \
                 `.gpu` or a wider scope in both"
                    .to_string()
            }
            Weakness::Bytes([own, others]) => format!(
                "both are atomic, but of {own} and of {others} bytes: accesses that are atomic with each other have one width"
            ),
        })
    }

    /// What is wrong if two threads write one place in the same instruction, or in instructions that one call of the
    /// builder made: then it is not, or not only, a barrier that is missing.
    fn shared_element(
        &self,
        g: &Group,
        here: CurrentAccess<'_, '_>,
        other: Epoch,
        cluster: u32,
    ) -> Option<String> {
        let accessor = here.accessor;
        let same_block = cluster == here.cluster
            && other.agent() / g.warps_per_block() == accessor.agent / g.warps_per_block();
        let twice = if same_block {
            "a partition or an index gives one element to two threads"
        } else {
            "the grid gives one element to two blocks"
        };
        // Ranks share no grid.
        if self.devices.rank_of(cluster) != self.devices.rank_of(here.cluster) {
            return None;
        }
        let pc = accessor.site.pc;
        let stmt = |pc: usize| self.program.stmts.get(pc).copied().flatten();
        let (this, there) = (stmt(pc)?, stmt(other.pc())?);
        // A copy by an asynchronous engine is not a thread's part of a partition.
        let by_warps = accessor.agent == accessor.warp && !is_engine(there) && !is_engine(this);
        let same_warp = cluster == here.cluster && other.agent() == accessor.agent;
        let same_thread = same_warp && other.lane() == accessor.site.lane;
        if !by_warps || same_thread || this.at != there.at {
            return None;
        }
        let again = same_warp && other.clock() != accessor.clock;
        let once = pc == other.pc() && !self.program.repeated[pc] && !again;
        Some(if once {
            twice.to_string()
        } else {
            format!("either {twice}, or a barrier between two rounds is missing")
        })
    }

    /// What would order two accesses: one that is looked at, and one that came before it in this order of events.
    pub(crate) fn remedy(
        &self,
        g: &Group,
        here: CurrentAccess<'_, '_>,
        there: EarlierAccess,
    ) -> String {
        let accessor = here.accessor;
        let (other, cluster) = (there.epoch, there.cluster);
        let rank = |cluster: u32| self.devices.rank_of(cluster);
        if rank(cluster) != rank(here.cluster) {
            return self.between_ranks(here, there);
        }
        let is_engine = |agent: usize| agent >= g.warps;
        let sides = [(accessor.epoch(), here.cluster), (other, cluster)];
        let engines = sides
            .into_iter()
            .filter(|(epoch, cluster)| is_engine(epoch.agent()) && *cluster == g.number);
        for (engine, _) in engines {
            if let Some((_, at, bytes)) = g.unannounced(engine) {
                return format!(
                    "{} does not wait for the {bytes} bytes of the copy, and the bytes of its \
                     `mbarrier.arrive.expect_tx` are missing or too few",
                    self.barrier_name(at)
                );
            }
        }
        let same_cluster = cluster == here.cluster;
        if is_engine(other.agent()) {
            let wait = self.wait_for(other, there.writes);
            let issuer = g
                .issuer(other)
                .filter(|_| same_cluster && cluster == g.number);
            if let Some((warp, asked)) = issuer
                && is_engine(accessor.agent)
                && warp == accessor.warp
                && accessor.view.seen.get(warp) < asked
            {
                // This one was asked for before the other.
                let wait = self.wait_for(accessor.epoch(), here.writes);
                return format!(
                    "{wait} before the other access, or a barrier after that, is missing"
                );
            }
            return match issuer.map(|(warp, _)| warp) {
                Some(warp) if warp == accessor.warp && accessor.lockstep.lacks(other) => format!(
                    "{wait} in lane {} is missing, since the wait of another lane does not cover it",
                    other.lane()
                ),
                Some(warp) if warp == accessor.warp && !other.before(&accessor.view.seen) => {
                    format!("{wait} between them is missing")
                }
                Some(warp) if warp == accessor.warp => {
                    format!("`bar.warp.sync` or a barrier after {wait} is missing")
                }
                _ if !same_cluster => format!(
                    "{wait}, or a release after it and an acquire before the other, is missing"
                ),
                _ => format!("{wait} or a barrier after it is missing"),
            };
        }
        if is_engine(accessor.agent) && same_cluster {
            let wait = self.wait_for(accessor.epoch(), here.writes);
            let after_issue = other.clock() > accessor.view.seen.get(other.agent());
            return match (other.agent() == accessor.warp, after_issue) {
                (true, true) => {
                    format!("{wait} before the other access, or a barrier after that, is missing")
                }
                (true, false) => "`bar.warp.sync` or a barrier between them is missing".to_string(),
                (false, _) => format!(
                    "a barrier before this, or {wait} and a barrier before the other access, is missing"
                ),
            };
        }
        let block = |agent: usize| agent / g.warps_per_block();
        let missing = match () {
            () if !same_cluster => {
                "a release after the one and an acquire before the other are missing, or barriers between these and the \
                 accesses"
            }
            () if other.agent() == accessor.warp => {
                "`bar.warp.sync` or a barrier between them is missing"
            }
            () if block(other.agent()) != accessor.site.block => {
                "a barrier of the cluster, or a release after the one and an acquire before the other, is missing"
            }
            () => "a barrier between them is missing",
        };
        missing.to_string()
    }

    /// What waits for an operation of an engine.
    fn wait_for(&self, other: Epoch, other_writes: bool) -> &'static str {
        let stmt = self.program.stmts.get(other.pc()).copied().flatten();
        match stmt.and_then(|stmt| stmt.op.atom()) {
            Some(Atom::Copy { atom, .. }) => {
                let bulk = atom.op().is_ok_and(|op| op.ptx.contains(".bulk"));
                match (bulk, atom.to() == colex_atom::Space::Global) {
                    (false, _) => "a `cp.async.wait_group` that covers it",
                    (true, false) => "a wait for the barrier that it completes",
                    (true, true) if other_writes => "a `cp.async.bulk.wait_group` that covers it",
                    (true, true) => "a `cp.async.bulk.wait_group.read` that covers it",
                }
            }
            Some(Atom::Mma { .. }) => "a `wgmma.wait_group` that covers it",
            None => "a wait for it",
        }
    }

    /// An access by its instruction and its warp, and its lane or its cluster where that tells more.
    fn other_of(&self, g: &Group, accessor: &Accessor<'_>, other: Epoch, cluster: u32) -> String {
        let name = self.accused_at(g, other, cluster, g.number);
        match other.lane() {
            _ if cluster != g.number || other.agent() != accessor.warp => name,
            SEVERAL => format!("{name} in several lanes"),
            lane => format!("{name} in lane {lane}"),
        }
    }

    /// The present access, described for a thread of the cluster `home`.
    pub(crate) fn accused(&self, g: &Group, accessor: &Accessor<'_>, home: u32) -> String {
        self.accused_at(g, accessor.epoch(), g.number, home)
    }

    /// An access of a cluster, described for a thread of the cluster `home`.
    pub(crate) fn accused_at(&self, g: &Group, other: Epoch, cluster: u32, home: u32) -> String {
        if cluster == home {
            self.other(g, other)
        } else {
            format!("{}{}", self.other(g, other), self.elsewhere(cluster, home))
        }
    }

    /// `` of cluster 3``, `` of rank 1``, for a thread of the cluster `home`.
    fn elsewhere(&self, cluster: u32, home: u32) -> String {
        let devices = &self.devices;
        let (rank, own) = (devices.rank_of(cluster), devices.rank_of(home));
        let within = devices.within(cluster);
        if rank == own {
            format!(" of cluster {within}")
        } else if devices.clusters() == 1 {
            format!(" of rank {rank}")
        } else {
            format!(" of cluster {within} of rank {rank}")
        }
    }

    /// `` `st.shared.u32 ..` of warp 3 (file.rs:12) ``
    pub(crate) fn other(&self, g: &Group, other: Epoch) -> String {
        let stmt = self.program.stmts.get(other.pc()).copied().flatten();
        let owner = if other.agent() < g.warps {
            format!(" of warp {}", other.agent() % g.warps_per_block())
        } else {
            String::new()
        };
        let block = match g.blocks.len() {
            1 => String::new(),
            _ if other.agent() < g.warps => {
                format!(
                    " of block {} of the cluster",
                    other.agent() / g.warps_per_block()
                )
            }
            _ => String::new(),
        };
        match stmt {
            Some(stmt) => format!(
                "`{}`{owner}{block} ({}:{})",
                self.instruction(stmt),
                stmt.at.file(),
                stmt.at.line()
            ),
            None => format!("something{owner}{block}"),
        }
    }
}

/// Whether an engine does what an instruction asks for.
fn is_engine(stmt: &Stmt) -> bool {
    match stmt.op.atom() {
        Some(Atom::Copy { atom, .. }) => atom.op().is_ok_and(|op| op.ptx.starts_with("cp.")),
        Some(Atom::Mma { .. }) | None => false,
    }
}
