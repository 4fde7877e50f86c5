//! The sixteen named barriers of a block.

use super::clock::View;

/// One of them.
#[derive(Clone, Debug, Default)]
pub(super) struct Named {
    /// Threads that have arrived in this round.
    pub(super) arrived: u32,
    /// Threads it waits for, as the first to arrive said; `None` for all of the block.
    pub(super) expected: Option<u32>,
    /// Whether someone has arrived.
    pub(super) open: bool,
    /// Rounds that are complete.
    pub(super) rounds: u64,
    /// What those know who have arrived in this round, and in those before.
    pub(super) arriving: Option<View>,
    pub(super) complete: Option<View>,
}

impl Named {
    /// Someone who knows this much arrives.
    pub(super) fn arrive(&mut self, threads: u32, expected: Option<u32>, view: &View) {
        self.open = true;
        self.expected = expected;
        self.arrived += threads;
        match &mut self.arriving {
            Some(arriving) => arriving.join(view),
            none => *none = Some(view.clone()),
        }
    }

    /// Begins the next round if all have arrived, of a block with so many live threads.
    pub(super) fn turn(&mut self, live: u32) {
        if self.open && self.arrived >= self.expected.unwrap_or(live) {
            *self = Named {
                rounds: self.rounds + 1,
                complete: self.arriving.take(),
                ..Named::default()
            };
        }
    }
}
