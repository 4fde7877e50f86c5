//! mbarriers: barriers in shared memory that count arrivals and transaction bytes.

use std::collections::BTreeMap;

use crate::order::clock::{Epoch, View};

/// The bytes of a barrier.
pub(crate) const BYTES: usize = 8;

/// The barriers of a block, by the place of their first byte, which is a multiple of [`BYTES`].
#[derive(Debug, Default)]
pub(crate) struct Mbarriers {
    all: BTreeMap<usize, Mbarrier>,
    /// From the first one to the end of the last one. Mostly they lie together: a write elsewhere is compared with no more.
    first: usize,
    end: usize,
}

impl Mbarriers {
    pub(crate) fn get(&self, at: usize) -> Option<&Mbarrier> {
        self.all.get(&at)
    }

    pub(crate) fn get_mut(&mut self, at: usize) -> Option<&mut Mbarrier> {
        self.all.get_mut(&at)
    }

    pub(crate) fn values_mut(&mut self) -> impl Iterator<Item = &mut Mbarrier> {
        self.all.values_mut()
    }

    pub(crate) fn insert(&mut self, at: usize, barrier: Mbarrier) {
        self.all.insert(at, barrier);
        self.measure();
    }

    pub(crate) fn remove(&mut self, at: usize) -> Option<Mbarrier> {
        let removed = self.all.remove(&at);
        self.measure();
        removed
    }

    fn measure(&mut self) {
        self.first = self.all.keys().next().copied().unwrap_or(0);
        self.end = self.all.keys().next_back().map_or(0, |at| at + BYTES);
    }

    /// The place of the first barrier that has one of these bytes.
    pub(crate) fn among(&self, at: usize, count: usize) -> Option<usize> {
        if at >= self.end || at + count <= self.first {
            return None;
        }
        let from = at - at % BYTES;
        let mut here = self.all.range(from..at + count);
        here.next().map(|(at, _)| *at)
    }
}

/// The state of one (PTX ISA 9.7.13.15).
#[derive(Clone, Debug)]
pub(crate) struct Mbarrier {
    /// Arrivals of a phase.
    pub(crate) count: i64,
    /// Arrivals that this phase still wants.
    pub(crate) pending: i64,
    /// Bytes that this phase still wants; fewer than 0 if they came before they were announced.
    pub(crate) bytes: i64,
    /// Phases that are complete.
    pub(crate) phase: u64,
    /// The joined clocks of the arrivals in this phase and in those before.
    arriving: View,
    complete: View,
    /// The same of the arrivals of other blocks, if there were some.
    arriving_from_afar: Option<View>,
    complete_from_afar: Option<View>,
    /// Whether a fence has followed its initialisation.
    pub(crate) fenced: bool,
    /// Its initialisation.
    pub(crate) init: Epoch,
}

impl Mbarrier {
    pub(crate) fn new(count: i64, init: Epoch, agents: usize) -> Self {
        Mbarrier {
            count,
            pending: count,
            bytes: 0,
            phase: 0,
            arriving: View::new(agents),
            complete: View::new(agents),
            arriving_from_afar: None,
            complete_from_afar: None,
            fenced: false,
            init,
        }
    }

    /// Counts an arrival with this clock, of another block or its own; `false` if the phase expects no more arrivals.
    pub(crate) fn arrive(&mut self, count: i64, view: &View, is_afar: bool) -> bool {
        if count > self.pending {
            return false;
        }
        self.pending -= count;
        if is_afar {
            join_some(&mut self.arriving_from_afar, view);
        } else {
            self.arriving.join(view);
        }
        self.turn();
        true
    }

    /// Bytes are announced (or with a negative number have come).
    pub(crate) fn expect(&mut self, bytes: i64) {
        self.bytes += bytes;
        self.turn();
    }

    /// Bytes that an engine brought have come.
    pub(crate) fn brought(&mut self, bytes: i64, engine: usize, clock: u32) {
        self.arriving.seen.raise(engine, clock);
        self.expect(-bytes);
    }

    /// Begins the next phase if this one is complete.
    fn turn(&mut self) {
        if self.pending == 0 && self.bytes == 0 {
            self.phase += 1;
            self.pending = self.count;
            self.complete.join(&self.arriving);
            if let Some(arriving) = &self.arriving_from_afar {
                join_some(&mut self.complete_from_afar, arriving);
            }
        }
    }

    /// Whether the phase of a parity is complete.
    pub(crate) fn has_passed(&self, parity: u64) -> bool {
        self.phase % 2 != parity % 2
    }

    /// Returns the clock of the phase of a parity, if the phase is complete, and that of the arrivals of other blocks.
    pub(crate) fn passed(&self, parity: u64) -> Option<(&View, Option<&View>)> {
        let passed = self.has_passed(parity);
        passed.then_some((&self.complete, self.complete_from_afar.as_ref()))
    }
}

fn join_some(view: &mut Option<View>, other: &View) {
    match view {
        Some(view) => view.join(other),
        None => *view = Some(other.clone()),
    }
}
