//! The sixteen named barriers of a block.

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
}

impl Named {
    /// Whether all have arrived, of a block with so many live threads; then the next round begins.
    pub(super) fn complete(&mut self, live: u32) -> bool {
        let full = self.open && self.arrived >= self.expected.unwrap_or(live);
        if full {
            *self = Named {
                rounds: self.rounds + 1,
                ..Named::default()
            };
        }
        full
    }
}
