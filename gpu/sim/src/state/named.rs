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
    pub(crate) complete: Option<View>,
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

    /// Begins the next round if all have arrived, of a block with `live` live threads.
    pub(crate) fn turn(&mut self, live: u32) {
        if self.open && self.arrived >= self.expected.unwrap_or(live) {
            *self = Named {
                rounds: self.rounds + 1,
                complete: self.arriving.take(),
                ..Named::default()
            };
        }
    }
}
