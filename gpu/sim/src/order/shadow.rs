//! The shadow memory of shared memory: the last accesses of each byte, and the check of a new access against them.

use core::ops::Range;

use super::clock::{Clock, Epoch, Proxy, View};
use super::hash::Map;
use super::history::Histories;
use super::lockstep::{Lockstep, SEVERAL};
use super::release::Scope;
use super::strength::Strengths;

/// The last plain write to a byte, and the atomic writes and the reads since.
///
/// Of the latter one, or the number of a set of them (without a proxy), or none.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct SharedCell {
    write: Epoch,
    atomics: Epoch,
    reads: Epoch,
}

/// An error of an access.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Race {
    /// A data race: no happens-before edge orders this access after the other.
    Unordered { other: Epoch, other_writes: bool },
    /// The other access is one of another block, and only arrivals of the scope of a block order this one after it.
    UnderWay { other: Epoch, other_writes: bool },
    /// The other access writes in another block, and only an arrival or a wait of the scope of a block orders this one after it.
    Apart { other: Epoch },
    /// A missing proxy fence: this access is ordered after the other, which went through the generic proxy, and no proxy
    /// fence followed it.
    Unfenced { other: Epoch },
}

/// The kind of an access.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum AccessKind {
    Read,
    Write,
    /// A write of the value that is already there.
    Rewrite,
}

/// An access to compare with those before it.
#[derive(Clone, Debug)]
pub(crate) struct Access<'v> {
    pub(crate) epoch: Epoch,
    pub(crate) view: &'v View,
    pub(crate) kind: AccessKind,
    /// The warp and the lane that do it, or let an engine do it, and what the lanes of that warp know of each other.
    pub(crate) warp: usize,
    pub(crate) lane: usize,
    pub(crate) lockstep: &'v Lockstep,
    /// The warps of the block whose memory is accessed, and those of the cluster. None in global memory.
    pub(crate) owners: Option<(Range<usize>, usize)>,
    /// What is atomic with each other, in shared memory.
    pub(crate) strengths: Option<&'v Strengths>,
}

impl Access<'_> {
    pub(crate) fn writes(&self) -> bool {
        self.kind != AccessKind::Read
    }

    /// Whether this comes after another access of the cluster.
    pub(crate) fn knows(&self, other: Epoch) -> bool {
        let same = self.lane == SEVERAL || self.lane == other.lane();
        let complete = !self.is_far(other) || other.before(&self.view.far);
        complete
            && other.before(&self.view.seen)
            && (same || self.lockstep.met(self.lane, self.warp, other))
            && !self.lockstep.lacks(other)
    }

    /// Whether another access is a load or a store by a warp of another block than the one whose memory it is.
    fn is_far(&self, other: Epoch) -> bool {
        let is_plain = other.proxy() == Some(Proxy::Generic);
        self.owners.as_ref().is_some_and(|(owners, warps)| {
            is_plain && other.agent() < *warps && !owners.contains(&other.agent())
        })
    }

    /// Whether a write by a warp of the cluster is one that this has only seen through an arrival or a wait of the scope of a block. A
    /// block's own shared memory has no other copy: a wait of the block's scope suffices there. What a warp has written to the memory
    /// of its own block has arrived before anything that comes to overwrite it.
    pub(crate) fn is_apart(&self, other: Epoch) -> bool {
        let view = self.view;
        let is_its_own = || {
            let owners = self.owners.as_ref();
            owners.is_some_and(|(owners, _)| owners.contains(&other.agent()))
        };
        if self.writes() && is_its_own() {
            return false;
        }
        let is_at_home = || {
            let owners = self.owners.as_ref();
            owners.is_some_and(|(owners, _)| owners.contains(&self.warp))
        };
        other.agent() != self.warp
            && (view.unpublished.contains(other)
                || view.unacquired.contains(other) && !is_at_home())
    }

    /// The race with another access, after which this does not come.
    fn race_with(&self, other: Epoch, other_writes: bool) -> Race {
        if self.is_far(other) && other.before(&self.view.seen) {
            Race::UnderWay {
                other,
                other_writes,
            }
        } else if other_writes && self.is_apart(other) {
            Race::Apart { other }
        } else {
            Race::Unordered {
                other,
                other_writes,
            }
        }
    }

    pub(crate) fn is_atomic(&self) -> bool {
        self.epoch.proxy() == Some(Proxy::Atomic)
    }

    /// Compares this with a write that it knows or not, and which fences of that kind have made visible.
    pub(crate) fn after(&self, other: Epoch, known: bool, fenced: &Clock) -> Result<(), Race> {
        if !known && !self.repeats(other) {
            return Err(self.race_with(other, true));
        }
        // Order alone does not make a generic-proxy write visible to the asynchronous proxy: that takes a proxy fence
        // after the write and before this access (PTX ISA, memory consistency model).
        if self.crosses(other) && !(other.before(fenced) && self.is_reached(other, fenced)) {
            Err(Race::Unfenced { other })
        } else {
            Ok(())
        }
    }

    /// Whether a fence that follows another access in time reaches it: its lane, and the memory of its block.
    fn is_reached(&self, other: Epoch, fenced: &Clock) -> bool {
        let is_global = self.owners.is_none();
        let is_beside = other.agent() == self.warp
            && self
                .lockstep
                .is_beside_fence(is_global, other, fenced.get(other.agent()));
        let is_elsewhere = self.owners.as_ref().is_some_and(|(owners, warps)| {
            other.agent() < *warps && !owners.contains(&other.agent())
        });
        !is_beside && (!is_elsewhere || self.view.has_fenced_far(other))
    }

    /// Whether both are ordered accesses.
    pub(crate) fn shares(&self, other: Epoch) -> bool {
        self.is_atomic() && other.proxy() == Some(Proxy::Atomic)
    }

    /// Whether both are atomic with each other, in the shared memory of a cluster.
    fn is_atomic_with(&self, other: Epoch) -> bool {
        let Some(strengths) = self.strengths.filter(|all| !all.is_plain()) else {
            return self.shares(other);
        };
        if strengths.reduces(self.epoch) && strengths.reduces(other) {
            return true;
        }
        let warps = self
            .owners
            .as_ref()
            .map_or(0, |(owners, _)| owners.len())
            .max(1);
        let is_same = self.epoch.agent() / warps == other.agent() / warps;
        let near = if is_same {
            Scope::Block
        } else {
            Scope::Cluster
        };
        self.shares(other) && strengths.weakness([self.epoch, other], near).is_none()
    }

    /// Whether it writes as an atomic operation does.
    fn adds(&self) -> bool {
        self.is_atomic() || self.strengths.is_some_and(|all| all.reduces(self.epoch))
    }

    /// Whether it goes through the asynchronous proxy, and the other did not.
    pub(crate) fn crosses(&self, other: Epoch) -> bool {
        self.epoch.proxy() == Some(Proxy::Async) && other.proxy() != Some(Proxy::Async)
    }

    /// Whether lanes of one instruction write the same value to one place: the result does not depend on their order.
    pub(crate) fn repeats(&self, other: Epoch) -> bool {
        let when = |epoch: Epoch| (epoch.agent(), epoch.clock(), epoch.pc());
        self.kind == AccessKind::Rewrite && when(other) == when(self.epoch)
    }
}

/// The most sets that a cache remembers.
pub(super) const REMEMBERED: usize = 1 << 14;

/// The earlier reads of one agent, of a step each, that a set keeps beside its latest one.
pub(super) const MOST_OF_AGENT: usize = 2;

/// Sets of reads that nothing orders. The number of a set is the place of its latest read in the
/// list, plus one; each read is followed by the set without it.
#[derive(Debug, Default)]
pub(crate) struct ReadSets {
    list: Vec<(Epoch, Epoch)>,
    /// A cache of the sets that adding a read to a set gave, of at most [`REMEMBERED`].
    grown: Map<(Epoch, Epoch), Epoch>,
}

impl ReadSets {
    /// The reads of a set, the latest first.
    fn members(&self, reads: Epoch) -> impl Iterator<Item = Epoch> {
        let mut rest = reads;
        std::iter::from_fn(move || {
            let (read, others) = match rest.proxy() {
                _ if rest.is_none() => return None,
                Some(_) => (rest, Epoch::default()),
                None => self.list[rest.0 as usize - 1],
            };
            rest = others;
            Some(read)
        })
    }

    /// Looks at each read of a set; of those that clash, at the agent with the least number.
    fn each(&self, reads: Epoch, look: impl Fn(Epoch) -> Result<(), Race>) -> Result<(), Race> {
        let clashes = |read: Epoch| look(read).err().map(|race| (read.agent(), race));
        let first = self
            .members(reads)
            .filter_map(clashes)
            .min_by_key(|(agent, _)| *agent);
        first.map_or(Ok(()), |(_, race)| Err(race))
    }

    /// The set with one read more; reads that the new one knows of are left out.
    fn with(&mut self, reads: Epoch, access: &Access<'_>) -> Epoch {
        let mut new = access.epoch;
        if reads.is_none() || reads == new || reads.proxy().is_some() && access.knows(reads) {
            return new;
        }
        // The lanes of a warp read one after the other: mostly the set has a read of this step already.
        if let Some(same) = self.with_neighbour(reads, access) {
            return same;
        }
        if let Some(grown) = self.grown.get(&(reads, new)) {
            return *grown;
        }
        let at_once = |read: &Epoch| read.at_once(access.epoch);
        if let Some(read) = self.members(reads).find(at_once) {
            new = new.beside(read);
        }
        let others = if self.stay(reads, access) {
            reads
        } else {
            let mut same_agent = 0;
            let stays = |read: &Epoch| Self::stays(*read, access, &mut same_agent);
            let left: Vec<Epoch> = self.members(reads).filter(stays).collect();
            let set = left.into_iter().rev();
            set.fold(Epoch::default(), |set, read| self.number(read, set))
        };
        let grown = self.number(new, others);
        if self.grown.len() == REMEMBERED {
            self.grown.clear();
        }
        self.grown.insert((reads, access.epoch), grown);
        grown
    }

    /// Whether a read stays in a set beside a new one; `same_agent` counts the earlier ones of the same agent.
    ///
    /// A write that is ordered after the new read is ordered after each read that the new one knows of. It need not be ordered after an
    /// earlier one of the same warp by a lane that has not met the new one's; the latest few of these are kept.
    fn stays(read: Epoch, access: &Access<'_>, same_agent: &mut usize) -> bool {
        if read.agent() == access.epoch.agent() {
            if read.at_once(access.epoch) {
                return false;
            }
            *same_agent += 1;
            if *same_agent > MOST_OF_AGENT {
                return false;
            }
        }
        !access.knows(read)
    }

    /// Whether all reads of a set stay beside a new one.
    fn stay(&self, reads: Epoch, access: &Access<'_>) -> bool {
        let mut same_agent = 0;
        self.members(reads)
            .all(|read| Self::stays(read, access, &mut same_agent))
    }

    /// The set with one read more where its latest read is one of the same step: if it is the only one, or stands for several lanes
    /// already.
    fn with_neighbour(&self, reads: Epoch, access: &Access<'_>) -> Option<Epoch> {
        let new = access.epoch;
        if reads.proxy().is_some() {
            return reads.at_once(new).then(|| new.beside(reads));
        }
        let (latest, others) = self.list[reads.0 as usize - 1];
        if !latest.at_once(new) || new.beside(latest) != latest {
            return None;
        }
        self.stay(others, access).then_some(reads)
    }

    /// The set of a read and of others.
    fn number(&mut self, read: Epoch, others: Epoch) -> Epoch {
        if others.is_none() {
            return read;
        }
        self.list.push((read, others));
        Epoch(self.list.len() as u64)
    }
}

/// Compares an access to some bytes with those before it, and remembers it. The first byte that clashes, and how.
pub(crate) fn check_access(
    cells: &mut Histories<SharedCell>,
    (at, count): (usize, usize),
    sets: &mut ReadSets,
    access: &Access<'_>,
) -> Result<(), (usize, Race)> {
    cells.visit(at, count, |old| {
        compare(&old, sets, access)?;
        Ok(match (access.writes(), access.adds()) {
            (false, _) => SharedCell {
                reads: sets.with(old.reads, access),
                ..old
            },
            (true, true) => SharedCell {
                atomics: sets.with(old.atomics, access),
                ..old
            },
            // A plain write that passed the comparison is ordered after all earlier accesses of the byte, or repeats one
            // of its own instruction. What is ordered after it is ordered after them: it alone need be kept (FastTrack).
            (true, false) => SharedCell {
                write: access.epoch,
                ..SharedCell::default()
            },
        })
    })
}

fn compare(cell: &SharedCell, sets: &ReadSets, access: &Access<'_>) -> Result<(), Race> {
    let after = |other: Epoch| {
        let known = access.knows(other) && !access.is_apart(other);
        access.after(other, known, &access.view.fenced)
    };
    if !cell.write.is_none() {
        after(cell.write)?;
    }
    let is_clear = access.is_atomic() && access.strengths.is_none_or(Strengths::is_plain);
    if !cell.atomics.is_none() && !is_clear {
        sets.each(cell.atomics, |other| {
            if access.is_atomic_with(other) {
                Ok(())
            } else {
                after(other)
            }
        })?;
    }
    if !access.writes() || cell.reads.is_none() {
        return Ok(());
    }
    let clear = |other: Epoch| {
        if access.is_atomic_with(other) || access.knows(other) {
            Ok(())
        } else {
            Err(access.race_with(other, false))
        }
    };
    sets.each(cell.reads, clear)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn view(clocks: [u32; 3]) -> View {
        let mut view = View::new(3);
        clocks
            .iter()
            .enumerate()
            .for_each(|(agent, clock)| view.seen.raise(agent, *clock));
        view
    }

    fn epoch(agent: usize, clock: u32, proxy: Proxy) -> Epoch {
        Epoch::new(agent, clock, 7, 0, proxy)
    }

    fn access<'v>(
        epoch: Epoch,
        view: &'v View,
        lockstep: &'v Lockstep,
        writes: bool,
    ) -> Access<'v> {
        Access {
            epoch,
            view,
            kind: if writes {
                AccessKind::Write
            } else {
                AccessKind::Read
            },
            warp: epoch.agent(),
            lane: 0,
            lockstep,
            owners: None,
            strengths: None,
        }
    }

    #[test]
    fn reads_do_not_clash_and_a_later_write_clashes_with_each() {
        let mut cells = Histories::new(2);
        let mut sets = ReadSets::default();
        let lockstep = Lockstep::default();
        for agent in 0..2 {
            let mut clocks = [0; 3];
            clocks[agent] = 1;
            let view = view(clocks);
            let read = access(epoch(agent, 1, Proxy::Generic), &view, &lockstep, false);
            check_access(&mut cells, (0, 1), &mut sets, &read).unwrap();
        }
        let knows_one = view([1, 0, 1]);
        let mut write = access(epoch(2, 1, Proxy::Generic), &knows_one, &lockstep, true);
        let (at, race) = check_access(&mut cells, (0, 1), &mut sets, &write).unwrap_err();
        let expected = Race::Unordered {
            other: epoch(1, 1, Proxy::Generic),
            other_writes: false,
        };
        assert_eq!((at, race), (0, expected));
        let knows_both = view([1, 1, 1]);
        write.view = &knows_both;
        check_access(&mut cells, (0, 1), &mut sets, &write).unwrap();
    }

    #[test]
    fn the_asynchronous_proxy_wants_a_fence() {
        let mut cells = Histories::new(1);
        let mut sets = ReadSets::default();
        let lockstep = Lockstep::default();
        let mut view = view([1, 0, 0]);
        let wrote = epoch(0, 1, Proxy::Generic);
        let before = view.clone();
        check_access(
            &mut cells,
            (0, 1),
            &mut sets,
            &access(wrote, &before, &lockstep, true),
        )
        .unwrap();
        let read = epoch(2, 1, Proxy::Async);
        let (_, race) = check_access(
            &mut cells,
            (0, 1),
            &mut sets,
            &access(read, &before, &lockstep, false),
        )
        .unwrap_err();
        assert_eq!(race, Race::Unfenced { other: wrote });
        view.fence(false, true);
        assert!(
            check_access(
                &mut cells,
                (0, 1),
                &mut sets,
                &access(read, &view, &lockstep, false)
            )
            .is_err()
        );
        view.fence(true, false);
        check_access(
            &mut cells,
            (0, 1),
            &mut sets,
            &access(read, &view, &lockstep, false),
        )
        .unwrap();
    }

    /// Lanes read one byte at three steps, the last one in two lanes; each of them alone is unknown to a later write.
    #[test]
    fn a_write_races_with_the_reads_of_each_of_three_steps() {
        let view = view([9, 0, 0]);
        let by = |clock, lane, kind, lockstep| Access {
            lane,
            kind,
            ..access(
                Epoch::new(0, clock, 7, lane, Proxy::Generic),
                &view,
                lockstep,
                false,
            )
        };
        // Lane 9 meets the readers, the latest first.
        let mut lockstep = Lockstep::default();
        let mut states = vec![lockstep.clone()];
        for (lanes, clock) in [(0b1100, 3), (0b10, 2), (0b1, 1)] {
            lockstep.meet(lanes | 1 << 9, u32::MAX, clock);
            states.push(lockstep.clone());
        }
        let mut cells = Histories::new(1);
        let mut sets = ReadSets::default();
        for (clock, lane) in [(1, 0), (2, 1), (3, 2), (3, 3)] {
            let read = by(clock, lane, AccessKind::Read, &states[0]);
            check_access(&mut cells, (0, 1), &mut sets, &read).unwrap();
        }
        let others = [(3, SEVERAL), (2, 1), (1, 0)].map(|(clock, lane)| {
            let other = Epoch::new(0, clock, 7, lane, Proxy::Generic);
            Some(Race::Unordered {
                other,
                other_writes: false,
            })
        });
        for (lockstep, race) in states.iter().zip(others.into_iter().chain([None])) {
            let write = by(9, 9, AccessKind::Write, lockstep);
            let found = check_access(&mut cells.clone(), (0, 1), &mut sets, &write);
            assert_eq!(found.err().map(|(_, race)| race), race);
        }
    }

    #[test]
    fn lanes_of_a_warp_race_until_they_meet() {
        let before = Lockstep::default();
        let mut lockstep = Lockstep::default();
        lockstep.meet(u32::MAX, u32::MAX, 1);
        let view = view([1, 0, 0]);
        let of = |lane| Epoch::new(0, 1, 7, lane, Proxy::Generic);
        let by = |lane, writes, lockstep| Access {
            lane,
            ..access(of(lane), &view, lockstep, writes)
        };
        let mut cells = Histories::new(1);
        let mut sets = ReadSets::default();
        check_access(&mut cells, (0, 1), &mut sets, &by(3, true, &before)).unwrap();
        let same = Access {
            kind: AccessKind::Rewrite,
            ..by(4, true, &before)
        };
        check_access(&mut cells.clone(), (0, 1), &mut sets, &same).unwrap();
        let (_, race) =
            check_access(&mut cells, (0, 1), &mut sets, &by(4, false, &before)).unwrap_err();
        let unordered = |other, other_writes| Race::Unordered {
            other,
            other_writes,
        };
        assert_eq!(race, unordered(of(3), true));
        for lane in [4, 5] {
            check_access(&mut cells, (0, 1), &mut sets, &by(lane, false, &lockstep)).unwrap();
        }
        let (_, race) =
            check_access(&mut cells, (0, 1), &mut sets, &by(5, true, &before)).unwrap_err();
        assert_eq!(race, unordered(of(3), true));
        let mut cells = Histories::new(1);
        for lane in [4, 5] {
            check_access(&mut cells, (0, 1), &mut sets, &by(lane, false, &before)).unwrap();
        }
        let (_, race) =
            check_access(&mut cells, (0, 1), &mut sets, &by(5, true, &before)).unwrap_err();
        assert_eq!(race, unordered(of(SEVERAL), false));
        check_access(&mut cells, (0, 1), &mut sets, &by(5, true, &lockstep)).unwrap();
    }
}
