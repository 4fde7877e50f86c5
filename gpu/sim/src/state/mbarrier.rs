//! mbarriers: barriers in shared memory that count arrivals and transaction bytes.

use crate::order::clock::View;

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
    /// Whether a fence has followed its initialisation.
    pub(crate) fenced: bool,
    /// The warp that initialised it.
    pub(crate) owner: usize,
}

impl Mbarrier {
    pub(crate) fn new(count: i64, owner: usize, agents: usize) -> Self {
        Mbarrier {
            count,
            pending: count,
            bytes: 0,
            phase: 0,
            arriving: View::new(agents),
            complete: View::new(agents),
            fenced: false,
            owner,
        }
    }

    /// Counts an arrival with this clock; `false` if the phase expects no more arrivals.
    pub(crate) fn arrive(&mut self, count: i64, view: &View) -> bool {
        if count > self.pending {
            return false;
        }
        self.pending -= count;
        self.arriving.join(view);
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
        }
    }

    /// Returns the clock of the phase of a parity, if the phase is complete.
    pub(crate) fn passed(&self, parity: u64) -> Option<&View> {
        (self.phase % 2 != parity % 2).then_some(&self.complete)
    }
}
