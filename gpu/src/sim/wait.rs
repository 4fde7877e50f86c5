//! What a warp can wait for.

/// Why a warp does not go on.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Wait {
    /// Named barrier `id` of its block, at the time that `round` rounds were complete.
    Barrier { id: usize, round: u64 },
}
