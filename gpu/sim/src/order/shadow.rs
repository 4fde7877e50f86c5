//! Who last touched each byte of shared memory, and what two accesses that nothing orders look like.

use std::collections::HashMap;

use super::clock::{Clock, Epoch, Proxy, View};
use super::lockstep::{Lockstep, SEVERAL};

/// The last plain write to a byte, and the atomic writes and the reads since.
///
/// Of the latter one, or the number of a set of them (without a proxy), or none.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Cell {
    write: Epoch,
    atomics: Epoch,
    reads: Epoch,
}

/// What is wrong with an access.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Clash {
    /// Nothing orders it after the other.
    Race { other: Epoch, other_writes: bool },
    /// It is ordered, but the other went through the generic proxy and no fence followed.
    Fence { other: Epoch },
}

/// What an access does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Does {
    Read,
    Write,
    /// It writes what is there already.
    Rewrite,
}

/// An access to compare with those before it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Touch<'v> {
    pub(crate) epoch: Epoch,
    pub(crate) view: &'v View,
    pub(crate) does: Does,
    /// The warp and the lane that do it, or let an engine do it, and what the lanes of that warp know of each other.
    pub(crate) warp: usize,
    pub(crate) lane: usize,
    pub(crate) lockstep: &'v Lockstep,
}

impl Touch<'_> {
    pub(crate) fn writes(&self) -> bool {
        self.does != Does::Read
    }

    /// Whether this comes after another access of the cluster.
    pub(crate) fn knows(&self, other: Epoch) -> bool {
        let same = self.lane == SEVERAL || self.lane == other.lane();
        other.before(&self.view.seen) && (same || self.lockstep.met(self.lane, self.warp, other))
    }

    pub(crate) fn is_atomic(&self) -> bool {
        self.epoch.proxy() == Some(Proxy::Atomic)
    }

    /// Compares this with a write that it knows or not, and which fences of that kind have made visible.
    pub(crate) fn after(&self, other: Epoch, known: bool, fenced: &Clock) -> Result<(), Clash> {
        if !known && !self.repeats(other) {
            return Err(Clash::Race {
                other,
                other_writes: true,
            });
        }
        if self.crosses(other) && !other.before(fenced) {
            Err(Clash::Fence { other })
        } else {
            Ok(())
        }
    }

    /// Whether both are atomic.
    pub(crate) fn shares(&self, other: Epoch) -> bool {
        self.is_atomic() && other.proxy() == Some(Proxy::Atomic)
    }

    /// Whether it goes through the asynchronous proxy, and the other did not.
    pub(crate) fn crosses(&self, other: Epoch) -> bool {
        self.epoch.proxy() == Some(Proxy::Async) && other.proxy() != Some(Proxy::Async)
    }

    /// Whether several lanes write the same into one place at once: whoever is last, it is there.
    pub(crate) fn repeats(&self, other: Epoch) -> bool {
        let when = |epoch: Epoch| (epoch.agent(), epoch.clock(), epoch.pc());
        self.does == Does::Rewrite && when(other) == when(self.epoch)
    }
}

/// Sets of reads that nothing orders, each kept once.
#[derive(Debug, Default)]
pub(crate) struct ReadSets {
    sets: Vec<Vec<Epoch>>,
    numbers: HashMap<Vec<Epoch>, u64>,
    /// What adding a read to a set gave.
    grown: HashMap<(Epoch, Epoch), Epoch>,
}

impl ReadSets {
    /// Looks at each read of a set.
    fn each(&self, reads: Epoch, look: impl Fn(Epoch) -> Result<(), Clash>) -> Result<(), Clash> {
        match reads.proxy() {
            Some(_) => look(reads),
            None => self.sets[reads.0 as usize - 1]
                .iter()
                .try_for_each(|read| look(*read)),
        }
    }

    fn members(&self, reads: &Epoch) -> Vec<Epoch> {
        match reads.proxy() {
            _ if reads.is_none() => Vec::new(),
            Some(_) => vec![*reads],
            None => self.sets[reads.0 as usize - 1].clone(),
        }
    }

    /// The set with one read more; reads that the new one knows of are left out.
    fn with(&mut self, reads: Epoch, access: &Touch<'_>) -> Epoch {
        let mut new = access.epoch;
        if reads.is_none() || reads == new || reads.proxy().is_some() && access.knows(reads) {
            return new;
        }
        if let Some(grown) = self.grown.get(&(reads, new)) {
            return *grown;
        }
        let mut members = self.members(&reads);
        let same = |read: &&Epoch| read.agent() == access.epoch.agent();
        for read in members.iter().filter(same) {
            new = new.beside(*read);
        }
        members.retain(|read| read.agent() != new.agent() && !access.knows(*read));
        members.push(new);
        let grown = match &members[..] {
            [one] => *one,
            _ => self.number(members),
        };
        self.grown.insert((reads, access.epoch), grown);
        grown
    }

    fn number(&mut self, mut members: Vec<Epoch>) -> Epoch {
        members.sort_by_key(|read| read.agent());
        let next = self.sets.len() as u64 + 1;
        let number = *self.numbers.entry(members.clone()).or_insert(next);
        if number == next {
            self.sets.push(members);
        }
        Epoch(number)
    }
}

/// Compares an access to some bytes with those before it, and remembers it. The first byte that clashes, and how.
pub(crate) fn touch(
    cells: &mut [Cell],
    sets: &mut ReadSets,
    access: &Touch<'_>,
) -> Result<(), (usize, Clash)> {
    // Neighbouring bytes mostly have the same history.
    let mut last = None;
    for (i, cell) in cells.iter_mut().enumerate() {
        if let Some((old, new)) = last
            && old == *cell
        {
            *cell = new;
            continue;
        }
        let old = *cell;
        compare(cell, sets, access).map_err(|clash| (i, clash))?;
        match (access.writes(), access.is_atomic()) {
            (false, _) => cell.reads = sets.with(cell.reads, access),
            (true, true) => cell.atomics = sets.with(cell.atomics, access),
            (true, false) => {
                *cell = Cell {
                    write: access.epoch,
                    ..Cell::default()
                }
            }
        }
        last = Some((old, *cell));
    }
    Ok(())
}

fn compare(cell: &Cell, sets: &ReadSets, access: &Touch<'_>) -> Result<(), Clash> {
    let after = |other: Epoch| access.after(other, access.knows(other), &access.view.fenced);
    if !cell.write.is_none() {
        after(cell.write)?;
    }
    if !cell.atomics.is_none() && !access.is_atomic() {
        sets.each(cell.atomics, after)?;
    }
    if !access.writes() || cell.reads.is_none() {
        return Ok(());
    }
    let clear = |other: Epoch| {
        if access.shares(other) || access.knows(other) {
            Ok(())
        } else {
            Err(Clash::Race {
                other,
                other_writes: false,
            })
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

    fn access<'v>(epoch: Epoch, view: &'v View, lockstep: &'v Lockstep, writes: bool) -> Touch<'v> {
        Touch {
            epoch,
            view,
            does: if writes { Does::Write } else { Does::Read },
            warp: epoch.agent(),
            lane: 0,
            lockstep,
        }
    }

    #[test]
    fn reads_do_not_clash_and_a_later_write_clashes_with_each() {
        let mut cells = [Cell::default(); 2];
        let mut sets = ReadSets::default();
        let lockstep = Lockstep::default();
        for agent in 0..2 {
            let mut clocks = [0; 3];
            clocks[agent] = 1;
            let view = view(clocks);
            let read = access(epoch(agent, 1, Proxy::Generic), &view, &lockstep, false);
            touch(&mut cells, &mut sets, &read).unwrap();
        }
        let knows_one = view([1, 0, 1]);
        let mut write = access(epoch(2, 1, Proxy::Generic), &knows_one, &lockstep, true);
        let (at, clash) = touch(&mut cells, &mut sets, &write).unwrap_err();
        let race = Clash::Race {
            other: epoch(1, 1, Proxy::Generic),
            other_writes: false,
        };
        assert_eq!((at, clash), (0, race));
        let knows_both = view([1, 1, 1]);
        write.view = &knows_both;
        touch(&mut cells, &mut sets, &write).unwrap();
    }

    #[test]
    fn the_asynchronous_proxy_wants_a_fence() {
        let mut cells = [Cell::default()];
        let mut sets = ReadSets::default();
        let lockstep = Lockstep::default();
        let mut view = view([1, 0, 0]);
        let wrote = epoch(0, 1, Proxy::Generic);
        let before = view.clone();
        touch(
            &mut cells,
            &mut sets,
            &access(wrote, &before, &lockstep, true),
        )
        .unwrap();
        let read = epoch(2, 1, Proxy::Async);
        let (_, clash) = touch(
            &mut cells,
            &mut sets,
            &access(read, &before, &lockstep, false),
        )
        .unwrap_err();
        assert_eq!(clash, Clash::Fence { other: wrote });
        view.fence(false, true);
        assert!(
            touch(
                &mut cells,
                &mut sets,
                &access(read, &view, &lockstep, false)
            )
            .is_err()
        );
        view.fence(true, false);
        touch(
            &mut cells,
            &mut sets,
            &access(read, &view, &lockstep, false),
        )
        .unwrap();
    }

    #[test]
    fn lanes_of_a_warp_race_until_they_meet() {
        let before = Lockstep::default();
        let mut lockstep = Lockstep::default();
        lockstep.all(1);
        let view = view([1, 0, 0]);
        let of = |lane| Epoch::new(0, 1, 7, lane, Proxy::Generic);
        let by = |lane, writes, lockstep| Touch {
            lane,
            ..access(of(lane), &view, lockstep, writes)
        };
        let mut cells = [Cell::default()];
        let mut sets = ReadSets::default();
        touch(&mut cells, &mut sets, &by(3, true, &before)).unwrap();
        let same = Touch {
            does: Does::Rewrite,
            ..by(4, true, &before)
        };
        touch(&mut cells.clone(), &mut sets, &same).unwrap();
        let (_, clash) = touch(&mut cells, &mut sets, &by(4, false, &before)).unwrap_err();
        let race = |other, other_writes| Clash::Race {
            other,
            other_writes,
        };
        assert_eq!(clash, race(of(3), true));
        for lane in [4, 5] {
            touch(&mut cells, &mut sets, &by(lane, false, &lockstep)).unwrap();
        }
        let (_, clash) = touch(&mut cells, &mut sets, &by(5, true, &before)).unwrap_err();
        assert_eq!(clash, race(of(3), true));
        let mut cells = [Cell::default()];
        for lane in [4, 5] {
            touch(&mut cells, &mut sets, &by(lane, false, &before)).unwrap();
        }
        let (_, clash) = touch(&mut cells, &mut sets, &by(5, true, &before)).unwrap_err();
        assert_eq!(clash, race(of(SEVERAL), false));
        touch(&mut cells, &mut sets, &by(5, true, &lockstep)).unwrap();
    }
}
