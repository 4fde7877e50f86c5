//! Launches on several devices: the arguments of each rank, which rank may access which memory, when a rank has ended,
//! and the flags that ranks wait for.

use super::Machine;
use super::port::{Accessor, Site};
use super::race_text::{CurrentAccess, EarlierAccess};
use super::running::{Cluster, ready};
use crate::options::{Dice, Schedule};
use crate::order::clock::{Epoch, Proxy, View};
use crate::order::hash::Map;
use crate::order::release::{Ordering, Release, Scope};
use crate::report::fault::{Fault, FaultKind, FlagWait, Place};
use crate::state::block::Group;
use crate::state::warp::Warp;
use colex_ir::launch::Argument;

/// The number of ordered loads in a row that have seen nothing new after which a warp is taken to wait for a flag, if no
/// other warp of the machine has done anything since.
const IN_VAIN: u32 = 1 << 12;

/// The same on one device, where a kernel may look at a word often without waiting for it: each lane of an access counts.
const IN_VAIN_ALONE: u32 = 1 << 21;

/// The number of reads of flags that acquired nothing which are remembered.
const MISSED: usize = 64;

/// What ranks may do with each other's memory.
#[derive(Clone, Debug)]
pub(crate) struct Peers {
    /// Whether a rank (the first index) may access the memory of another one.
    pub(crate) reach: Vec<Vec<bool>>,
    /// Whether the host waits for all ranks before anything else uses their memory.
    pub(crate) joined: bool,
    /// Whether the reductions of copies of several ranks are atomic with each other.
    pub(crate) reductions_meet: bool,
}

/// The ranks of a launch; a launch on one device has one.
#[derive(Debug)]
pub(crate) struct Devices<'a> {
    /// The arguments of each rank; none if it is not launched.
    arguments: Vec<Option<&'a [Argument]>>,
    params: Vec<Vec<u8>>,
    /// None on one device.
    peers: Option<&'a Peers>,
    /// The clusters of a rank.
    clusters: u32,
    /// Whether the clusters of a rank all run at once.
    cooperative: bool,
    /// The launched ranks in the order in which they start.
    order: Vec<usize>,
    /// For each rank: the plain uses of its memory by others, by cluster and agent.
    uses: Vec<Map<By, RankUse>>,
    /// The flags in its memory that others have set and that it has not seen since.
    set: Vec<Map<u64, Map<By, RankUse>>>,
    /// For each rank: how many clusters have not ended, and what is known at the ends of the others, for its first cluster.
    left: Vec<(u32, Option<View>)>,
    missed: Vec<Missed>,
}

/// A cluster, and an agent there.
type By = (u32, usize);

/// A use of another rank's memory.
#[derive(Clone, Copy, Debug)]
struct RankUse {
    epoch: Epoch,
    site: Site,
    address: u64,
    writes: bool,
}

/// A read of a flag of another rank's that acquired nothing.
#[derive(Debug)]
struct Missed {
    rank: u32,
    flag: u64,
    acquires: bool,
}

impl<'a> Devices<'a> {
    /// The ranks of a launch, `clusters` clusters each.
    pub(crate) fn new(
        arguments: Vec<Option<&'a [Argument]>>,
        params: Vec<Vec<u8>>,
        peers: Option<&'a Peers>,
        (clusters, cooperative): (u32, bool),
        schedule: Schedule,
    ) -> Self {
        let count = arguments.len();
        let mut order: Vec<usize> = (0..count)
            .filter(|rank| arguments[*rank].is_some())
            .collect();
        match schedule {
            Schedule::Latest => {}
            Schedule::Earliest => order.reverse(),
            Schedule::Random(_) => {
                let mut dice = Dice::of(schedule, u32::MAX as usize);
                for i in (1..order.len()).rev() {
                    order.swap(i, dice.below(i + 1));
                }
            }
        }
        Devices {
            arguments,
            params,
            peers,
            clusters,
            cooperative,
            order,
            uses: vec![Map::default(); count],
            set: vec![Map::default(); count],
            left: vec![(clusters, None); count],
            missed: Vec::new(),
        }
    }

    /// Whether there are several devices.
    pub(crate) fn are_several(&self) -> bool {
        self.peers.is_some()
    }

    pub(crate) fn arguments(&self, rank: u32) -> &'a [Argument] {
        self.arguments[rank as usize].unwrap_or_default()
    }

    /// The bytes of the parameters of a rank.
    pub(crate) fn params(&self, rank: u32) -> &[u8] {
        &self.params[rank as usize]
    }

    /// The rank of a cluster.
    pub(crate) fn rank_of(&self, cluster: u32) -> u32 {
        cluster / self.clusters.max(1)
    }

    /// The number of a cluster among those of its rank.
    pub(crate) fn within(&self, cluster: u32) -> u32 {
        cluster % self.clusters.max(1)
    }

    /// The number of the cluster that starts after `started` others: the ranks take turns. None after the last.
    pub(crate) fn next(&self, started: usize) -> Option<usize> {
        let ranks = self.order.len().max(1);
        let (round, turn) = (started / ranks, started % ranks);
        let clusters = self.clusters as usize;
        let rank = self.order.get(turn)?;
        (round < clusters).then(|| rank * clusters + round)
    }

    /// Whether clusters meet at flags, because there are several ranks or because all clusters run at once.
    pub(crate) fn meet(&self) -> bool {
        self.are_several() || self.cooperative
    }

    /// The number of looks in a row after which a warp is taken to wait.
    fn in_vain(&self) -> u32 {
        if self.are_several() {
            IN_VAIN
        } else {
            IN_VAIN_ALONE
        }
    }

    /// Whether a cluster may begin only after all that run have ended.
    pub(crate) fn may_be_alone(&self) -> bool {
        !self.meet()
    }

    /// The clusters that start at once: those of a cooperative launch, and the first one of each rank, where a random schedule lets them
    /// run beside each other.
    pub(crate) fn at_once(&self, schedule: Schedule) -> usize {
        if self.cooperative {
            return self.order.len() * self.clusters as usize;
        }
        match schedule {
            Schedule::Random(_) if self.are_several() => self.order.len().max(1),
            Schedule::Random(_) | Schedule::Latest | Schedule::Earliest => 1,
        }
    }

    /// The number of clusters of a rank.
    pub(crate) fn clusters(&self) -> u32 {
        self.clusters
    }

    /// The number of ranks.
    pub(crate) fn count(&self) -> u32 {
        self.arguments.len() as u32
    }

    /// The number of launched ranks.
    pub(crate) fn launched(&self) -> u64 {
        self.order.len() as u64
    }

    /// `` of rank 1``, where there are several.
    pub(crate) fn suffix(&self, rank: u32) -> String {
        if self.are_several() {
            format!(" of rank {rank}")
        } else {
            String::new()
        }
    }

    /// A rank has seen what its own flag holds.
    pub(crate) fn saw(&mut self, rank: u32, flag: u64) {
        if let Some(set) = self.set.get_mut(rank as usize)
            && !set.is_empty()
        {
            set.remove(&flag);
        }
    }

    /// Remembers a read of a flag that has not acquired, or not far enough, what another rank released there.
    pub(crate) fn note_missed(
        &mut self,
        rank: u32,
        flag: u64,
        ordering: Ordering,
        release: &Release,
    ) {
        let misses = !ordering.acquires || ordering.scope < Scope::System;
        if !self.are_several() || !misses || !release.is_foreign(rank) {
            return;
        }
        let missed = Missed {
            rank,
            flag,
            acquires: ordering.acquires,
        };
        self.missed
            .retain(|old| (old.rank, old.flag) != (rank, flag));
        if self.missed.len() == MISSED {
            self.missed.remove(0);
        }
        self.missed.push(missed);
    }
}

impl Machine<'_, '_> {
    /// Refuses an access of another rank's memory that the rank cannot reach, or that nothing orders before the other rank's
    /// end.
    pub(crate) fn check_rank(
        &mut self,
        g: &Group,
        accessor: &Accessor<'_>,
        (address, bytes): (u64, usize),
        writes: bool,
    ) -> Result<(), Fault> {
        let Some(peers) = self.devices.peers else {
            return Ok(());
        };
        let Some(owner) = self.memory.rank_of(address, bytes as u64) else {
            return Ok(());
        };
        if owner == g.rank {
            return Ok(());
        }
        if !peers.reach[g.rank as usize][owner as usize] {
            let what = format!(
                "this {} {}, and rank {} has no access to the memory of rank {owner}: \
                 `Ranks::enable_peer_access({}, {owner})` gives it",
                if writes { "writes" } else { "reads" },
                self.global_name(address),
                g.rank,
                g.rank,
            );
            return Err(self.fault(g, &accessor.site, FaultKind::OutOfBounds, what));
        }
        // A look at a flag does not hurt the next kernel of that rank.
        let looks = !writes && accessor.proxy == Proxy::Atomic;
        let launched = self.devices.arguments[owner as usize].is_some();
        if looks || peers.joined || !self.options.races || !launched {
            return Ok(());
        }
        let used = RankUse {
            epoch: accessor.epoch(),
            site: accessor.site,
            address,
            writes,
        };
        if self.devices.left[owner as usize].0 == 0 {
            return Err(self.after_the_end(owner, g.number, &used));
        }
        let devices = &mut self.devices;
        let uses = match accessor.proxy {
            Proxy::Atomic => devices.set[owner as usize].entry(address).or_default(),
            Proxy::Generic | Proxy::Async => &mut devices.uses[owner as usize],
        };
        uses.insert((g.number, accessor.agent), used);
        Ok(())
    }

    /// A cluster has ended; if it is the last of its rank, all uses of that rank's memory have to come before.
    pub(crate) fn end_cluster(&mut self, cluster: &Cluster) -> Result<(), Fault> {
        if !self.devices.are_several() {
            return Ok(());
        }
        let group = &cluster.group;
        let (rank, agents) = (group.rank as usize, group.agents());
        let first = group.rank * self.devices.clusters;
        let (left, known) = &mut self.devices.left[rank];
        let known = known.get_or_insert_with(|| View::new(agents));
        for block in &group.blocks {
            known.learn(first, group.number, &block.ended);
        }
        *left -= 1;
        if *left > 0 {
            return Ok(());
        }
        let set = self.devices.set[rank].values().flatten();
        let uses = self.devices.uses[rank].iter().chain(set);
        let unordered = uses.filter(|((cluster, _), used)| {
            let seen = known.of(*cluster).map(|(seen, _)| seen);
            !seen.is_some_and(|seen| used.epoch.before(seen))
        });
        // Data before flags.
        let first = |(by, used): &(&By, &RankUse)| {
            (
                used.epoch.proxy() == Some(Proxy::Atomic),
                **by,
                used.address,
            )
        };
        match unordered.min_by_key(first) {
            None => Ok(()),
            Some(((cluster, _), used)) => Err(self.after_the_end(rank as u32, *cluster, used)),
        }
    }

    /// The fault of a use of a rank's memory that nothing orders before the rank's end.
    fn after_the_end(&self, owner: u32, cluster: u32, used: &RankUse) -> Fault {
        let by = self.devices.rank_of(cluster);
        let what = format!(
            "rank {owner} ends, and nothing orders that after this {} of {}: a flag that rank {by} releases after it, and that \
             rank {owner} acquires before its end, is missing",
            if used.writes { "write" } else { "read" },
            self.global_name(used.address),
        );
        Fault::new(FaultKind::EarlyExit, what).at(self.place_in(cluster, &used.site))
    }

    /// The place of a thread of a cluster.
    pub(crate) fn place_in(&self, cluster: u32, site: &Site) -> Place {
        let stmt = self.program.stmts[site.pc.min(self.program.stmts.len() - 1)];
        let rank = self.devices.rank_of(cluster);
        Place {
            rank: self.devices.are_several().then_some(rank),
            block: self.block_at(cluster, site.block),
            thread: self.thread(site.first + site.lane as u32),
            warp: site.whole,
            instruction: stmt.map_or("exit".to_string(), |stmt| self.instruction(stmt)),
            at: stmt
                .or(self.program.kernel.body.last())
                .map_or(core::panic::Location::caller(), |stmt| stmt.at),
        }
    }

    /// What would order two accesses of different ranks.
    pub(crate) fn between_ranks(
        &self,
        here: CurrentAccess<'_, '_>,
        there: EarlierAccess,
    ) -> String {
        let (b, a) = (
            self.devices.rank_of(here.cluster),
            self.devices.rank_of(there.cluster),
        );
        if [here.accessor.epoch(), there.epoch]
            .iter()
            .all(|epoch| self.strengths.reduces(*epoch))
        {
            return "both are reductions of bulk copies, which the PTX ISA makes atomic on one device (`.relaxed.gpu`): \
                    `Ranks::reductions_meet(true)` takes those of several devices for atomic too"
                .to_string();
        }
        let ordered = |epoch: Epoch| epoch.proxy() == Some(Proxy::Atomic);
        match (ordered(here.accessor.epoch()), ordered(there.epoch)) {
            (true, true) => {
                return "both need the scope of the system, `.sys`, where threads of two devices meet".to_string();
            }
            (true, false) | (false, true) => {
                let plain = if ordered(there.epoch) { b } else { a };
                return format!(
                    "the access of rank {plain} is a plain one, and ranks meet only by ordered ones: `ld.acquire.sys` to look \
                     at a flag, `st.release.sys` or `red.release.sys` to set it"
                );
            }
            (false, false) => {}
        }
        let mut flags: Vec<(Scope, u64)> = self
            .ordered
            .iter()
            .filter_map(|(flag, release)| {
                let scope = release.covers(there.cluster, there.epoch)?;
                Some((scope, *flag))
            })
            .collect();
        // The widest scope first, and the first address.
        flags.sort_by_key(|(scope, flag)| (std::cmp::Reverse(*scope), *flag));
        let Some((scope, flag)) = flags.first() else {
            return format!(
                "rank {a} has released nothing after its access that rank {b} could acquire: a `st.release.sys` of a flag \
                 there, or a wait for that flag here, is missing"
            );
        };
        let name = self.global_name(*flag);
        if *scope < Scope::System {
            return format!(
                "rank {a} releases {name} after its access with the scope of one device: `st.release.sys` reaches rank {b}, \
                 `.gpu` does not"
            );
        }
        if here.writes && there.writes {
            return format!(
                "rank {a} releases {name} after its access, and rank {b} does not acquire that before this: `ld.acquire.sys` of \
                 it is missing, or a place of its own for each rank"
            );
        }
        let missed = &self.devices.missed;
        let missed = missed
            .iter()
            .find(|missed| missed.rank == b && missed.flag == *flag);
        match missed {
            Some(Missed { acquires: true, .. }) => format!(
                "rank {a} releases {name} after its access, and rank {b} acquires that with the scope of one device: \
                 `ld.acquire.sys` reaches rank {a}, `.gpu` does not"
            ),
            Some(Missed {
                acquires: false, ..
            }) => format!(
                "rank {a} releases {name} after its access, and rank {b} reads that without acquiring it: `ld.acquire.sys`, \
                 or `fence.acq_rel.sys` after the load, is missing"
            ),
            None => format!(
                "rank {a} releases {name} after its access, and this does not come after an acquire of that: \
                 `ld.acquire.sys` of it by rank {b}, or a barrier after that, is missing"
            ),
        }
    }

    /// Whether a warp has looked at a flag and found nothing new. On a device, no other cluster need begin before it goes on.
    pub(crate) fn holds_out(&self, running: &[Cluster]) -> bool {
        let mut warps = running.iter().flat_map(|cluster| &cluster.warps);
        let waits = |warp: &Warp| warp.alive() != 0 && warp.polls.in_vain > 0;
        self.devices.may_be_alone() && warps.any(waits)
    }

    /// Forgets how long warps have waited: something has happened.
    pub(crate) fn look_again(&self, running: &mut [Cluster]) {
        for warp in running.iter_mut().flat_map(|cluster| &mut cluster.warps) {
            warp.polls.in_vain = 0;
        }
    }

    /// Called after a round in which no warp did anything for another, with all clusters started that must: if every warp waits, lets an
    /// operation complete, or returns the fault that names the flags.
    pub(crate) fn hang(
        &mut self,
        running: &mut [Cluster],
        left: usize,
    ) -> Result<Option<Fault>, Fault> {
        let waits = |cluster: &Cluster, warp: &Warp| {
            warp.alive() == 0
                || warp.idle.is_some()
                || warp.polls.in_vain >= self.devices.in_vain()
                || !ready(warp, &cluster.group)
        };
        let all = running
            .iter()
            .all(|cluster| cluster.warps.iter().all(|warp| waits(cluster, warp)));
        if !all {
            return Ok(None);
        }
        for cluster in running.iter_mut() {
            let first = cluster.group.eligible().next();
            if let Some(first) = first {
                self.complete_one(cluster, first)?;
                return Ok(None);
            }
        }
        Ok(Some(self.hanging(running, left)))
    }

    /// The fault of blocks of one device that wait for flags, with the clusters that have not begun.
    fn blocks_hang(
        &self,
        running: &[&Cluster],
        (waits, others): (&[FlagWait], Vec<String>),
        left: usize,
    ) -> Fault {
        let mut flags: Vec<(u64, u64)> = Vec::new();
        for wait in waits {
            let flag = (wait.flag, wait.holds);
            if !flags.contains(&flag) {
                flags.push(flag);
            }
        }
        let flags = flags.iter().map(|(flag, holds)| {
            let name = self.global_name(*flag);
            format!(
                "no block that runs sets {name}, which holds {holds}, and a thread waits for it"
            )
        });
        let mut sentences: Vec<String> = flags.chain(others).collect();
        if left > 0 {
            let each = self.launch.cluster_blocks();
            let blocks = left as u64 * each;
            let all = self.launch.blocks();
            let run = running.len() as u64 * each;
            sentences.push(format!(
                "{run} of {all} blocks run, and a device may begin the {blocks} others only after these have ended: blocks that wait \
                 for each other need a cooperative launch (`Launch::cooperative`)"
            ));
        }
        let what = format!("no block can continue: {}", sentences.join("; "));
        Fault::new(FaultKind::Deadlock, what)
    }

    /// The fault of ranks that wait for flags that no rank sets any more. `left` clusters have not begun.
    fn hanging(&self, running: &[Cluster], left: usize) -> Fault {
        let mut running: Vec<&Cluster> = running.iter().collect();
        running.sort_by_key(|cluster| cluster.group.number);
        let mut waits: Vec<FlagWait> = Vec::new();
        let mut place = None;
        let mut others = Vec::new();
        for cluster in &running {
            let (g, rank) = (&cluster.group, cluster.group.rank);
            for warp in cluster.warps.iter().filter(|warp| warp.alive() != 0) {
                if warp.polls.in_vain < self.devices.in_vain() {
                    let name = self.warp_name(g, warp);
                    let of_rank = self.devices.suffix(rank);
                    others.push(format!("{name}{of_rank} for {}", self.reason(g, warp)));
                    continue;
                }
                let site = Site {
                    whole: true,
                    pc: warp.polls.at(),
                    ..Site::of(warp, 0)
                };
                place.get_or_insert_with(|| self.place(g, &site));
                for (flag, holds) in warp.polls.in_vain() {
                    let wait = FlagWait {
                        rank: rank as usize,
                        flag,
                        owner: self.memory.rank_of(flag, 1).map(|owner| owner as usize),
                        holds,
                    };
                    if !waits.contains(&wait) {
                        waits.push(wait);
                    }
                }
            }
        }
        let mut sentences: Vec<String> = Vec::new();
        if !self.devices.are_several() {
            let fault = self.blocks_hang(&running, (&waits, others), left);
            return match place {
                Some(place) => fault.at(place),
                None => fault,
            };
        }
        for wait in &waits {
            let name = self.global_name(wait.flag);
            sentences.push(format!(
                "rank {} waits for {name}, which holds {}",
                wait.rank, wait.holds
            ));
        }
        sentences.extend(others);
        let states = (0..self.devices.arguments.len()).filter_map(|rank| {
            match (self.devices.arguments[rank], self.devices.left[rank].0) {
                (None, _) => Some(format!("rank {rank} was not launched")),
                (Some(_), 0) => Some(format!("rank {rank} has ended")),
                (Some(_), _) => None,
            }
        });
        sentences.extend(states);
        let what = format!("no rank can continue: {}", sentences.join("; "));
        let fault = Fault::new(FaultKind::Deadlock, what).waiting(waits);
        match place {
            Some(place) => fault.at(place),
            None => fault,
        }
    }
}
