//! Who last touched each byte of shared memory, and what two accesses that nothing orders look like.

use std::collections::HashMap;

use super::clock::{Clock, Epoch, Proxy, View};

/// The last write to a byte and the reads since.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Cell {
    write: Epoch,
    /// One read, or the number of a set of them (without a proxy), or none.
    reads: Epoch,
}

/// What is wrong with an access.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Clash {
    /// Nothing orders it after the other.
    Race { other: Epoch, other_writes: bool },
    /// It is ordered, but the other went through the generic proxy and no fence followed.
    Fence { other: Epoch },
}

/// An access to compare with those before it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Touch<'v> {
    pub(super) epoch: Epoch,
    pub(super) view: &'v View,
    pub(super) writes: bool,
}

/// Sets of reads that nothing orders, each kept once.
#[derive(Debug, Default)]
pub(super) struct ReadSets {
    sets: Vec<Vec<Epoch>>,
    numbers: HashMap<Vec<Epoch>, u64>,
    /// What adding a read to a set gave.
    grown: HashMap<(Epoch, Epoch), Epoch>,
}

impl ReadSets {
    fn members(&self, reads: &Epoch) -> Vec<Epoch> {
        match reads.proxy() {
            _ if reads.is_none() => Vec::new(),
            Some(_) => vec![*reads],
            None => self.sets[reads.0 as usize - 1].clone(),
        }
    }

    /// The set with one read more; reads that the new one knows of are left out.
    fn with(&mut self, reads: Epoch, new: Epoch, clock: &Clock) -> Epoch {
        if reads.is_none() || reads.proxy().is_some() && reads.before(clock) {
            return new;
        }
        if let Some(grown) = self.grown.get(&(reads, new)) {
            return *grown;
        }
        let mut members = self.members(&reads);
        members.retain(|read| read.agent() != new.agent() && !read.before(clock));
        members.push(new);
        let grown = match &members[..] {
            [one] => *one,
            _ => self.number(members),
        };
        self.grown.insert((reads, new), grown);
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
pub(super) fn touch(
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
        match access.writes {
            true => {
                cell.write = access.epoch;
                cell.reads = Epoch::default();
            }
            false => cell.reads = sets.with(cell.reads, access.epoch, &access.view.seen),
        }
        last = Some((old, *cell));
    }
    Ok(())
}

fn compare(cell: &Cell, sets: &ReadSets, access: &Touch<'_>) -> Result<(), Clash> {
    let view = access.view;
    let proxy = access.epoch.proxy();
    let write = cell.write;
    let both_atomic = proxy == Some(Proxy::Atomic) && write.proxy() == Some(Proxy::Atomic);
    if !write.is_none() && !both_atomic {
        if !write.before(&view.seen) {
            return Err(Clash::Race {
                other: write,
                other_writes: true,
            });
        }
        let crosses = proxy == Some(Proxy::Async) && write.proxy() != Some(Proxy::Async);
        if crosses && !write.before(&view.fenced) {
            return Err(Clash::Fence { other: write });
        }
    }
    if !access.writes || cell.reads.is_none() {
        return Ok(());
    }
    let clashes = |read: &Epoch| {
        let both = proxy == Some(Proxy::Atomic) && read.proxy() == Some(Proxy::Atomic);
        !both && !read.before(&view.seen)
    };
    match sets.members(&cell.reads).into_iter().find(clashes) {
        None => Ok(()),
        Some(other) => Err(Clash::Race {
            other,
            other_writes: false,
        }),
    }
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
        Epoch::new(agent, clock, 7, proxy)
    }

    #[test]
    fn reads_do_not_clash_and_a_later_write_clashes_with_each() {
        let mut cells = [Cell::default(); 2];
        let mut sets = ReadSets::default();
        for agent in 0..2 {
            let mut clocks = [0; 3];
            clocks[agent] = 1;
            let view = view(clocks);
            let access = Touch {
                epoch: epoch(agent, 1, Proxy::Generic),
                view: &view,
                writes: false,
            };
            touch(&mut cells, &mut sets, &access).unwrap();
        }
        let knows_one = view([1, 0, 1]);
        let mut access = Touch {
            epoch: epoch(2, 1, Proxy::Generic),
            view: &knows_one,
            writes: true,
        };
        let (at, clash) = touch(&mut cells, &mut sets, &access).unwrap_err();
        let other = epoch(1, 1, Proxy::Generic);
        assert_eq!(
            (at, clash),
            (
                0,
                Clash::Race {
                    other,
                    other_writes: false
                }
            )
        );
        let knows_both = view([1, 1, 1]);
        access.view = &knows_both;
        touch(&mut cells, &mut sets, &access).unwrap();
    }

    #[test]
    fn the_asynchronous_proxy_wants_a_fence() {
        let mut cells = [Cell::default()];
        let mut sets = ReadSets::default();
        let mut view = view([1, 0, 0]);
        let wrote = epoch(0, 1, Proxy::Generic);
        touch(
            &mut cells,
            &mut sets,
            &Touch {
                epoch: wrote,
                view: &view.clone(),
                writes: true,
            },
        )
        .unwrap();
        let read = epoch(2, 1, Proxy::Async);
        let access = Touch {
            epoch: read,
            view: &view.clone(),
            writes: false,
        };
        let (_, clash) = touch(&mut cells, &mut sets, &access).unwrap_err();
        assert_eq!(clash, Clash::Fence { other: wrote });
        view.fence();
        touch(
            &mut cells,
            &mut sets,
            &Touch {
                epoch: read,
                view: &view,
                writes: false,
            },
        )
        .unwrap();
    }
}
