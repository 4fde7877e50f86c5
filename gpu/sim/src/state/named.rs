//! The sixteen named barriers of a block.

use crate::order::clock::View;

/// One of them.
#[derive(Clone, Debug, Default)]
pub(crate) struct Named {
    /// Threads that have arrived in this round.
    pub(crate) arrived: u32,
    /// Threads it waits for, as the first to arrive said; `None` for all of the block.
    pub(crate) expected: Option<u32>,
    /// Whether a warp has arrived.
    pub(crate) open: bool,
    /// Rounds that are complete.
    pub(crate) rounds: u64,
    /// The joined clocks of the warps that arrived in this round and in those before.
    pub(crate) arriving: Option<View>,
    /// The number of warps that wait for this round.
    waiting: usize,
    /// The rounds that are complete and whose waiting warps have not all gone on: their numbers, clocks, and how many are left.
    complete: Vec<(u64, View, usize)>,
}

impl Named {
    /// A warp with this clock arrives.
    pub(crate) fn arrive(&mut self, threads: u32, expected: Option<u32>, view: &View) {
        self.open = true;
        self.expected = expected;
        self.arrived += threads;
        match &mut self.arriving {
            Some(arriving) => arriving.join(view),
            none => *none = Some(view.clone()),
        }
    }

    /// A warp that has arrived waits for this round, whose number this returns.
    pub(crate) fn wait(&mut self) -> u64 {
        self.waiting += 1;
        self.rounds
    }

    /// A warp that has waited for a round goes on with the clock of that round.
    pub(crate) fn leave(&mut self, round: u64) -> Option<View> {
        let at = self
            .complete
            .iter()
            .position(|(number, ..)| *number == round)?;
        let (_, view, left) = &mut self.complete[at];
        *left -= 1;
        if *left > 0 {
            return Some(view.clone());
        }
        Some(self.complete.swap_remove(at).1)
    }

    /// Begins the next round if all have arrived, of a block with `live` live threads.
    pub(crate) fn turn(&mut self, live: u32) {
        if self.open && self.arrived >= self.expected.unwrap_or(live) {
            let mut complete = std::mem::take(&mut self.complete);
            if let Some(view) = self.arriving.take().filter(|_| self.waiting > 0) {
                complete.push((self.rounds, view, self.waiting));
            }
            *self = Named {
                rounds: self.rounds + 1,
                complete,
                ..Named::default()
            };
        }
    }
}
