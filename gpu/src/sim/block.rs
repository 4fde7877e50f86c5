//! A block and a cluster of blocks, as far as they are not warps.

use super::named::Named;

/// Where a block's shared memory begins in its window of shared addresses: nothing lies at 0.
pub(super) const SHARED_BASE: u32 = 0x400;

/// How far apart the windows of the blocks of a cluster lie.
pub(super) const WINDOW_BITS: u32 = 24;

/// A block.
#[derive(Debug)]
pub(super) struct Block {
    /// Its place in the grid.
    pub(super) ctaid: [u32; 3],
    /// Its rank in the cluster.
    pub(super) rank: u32,
    /// The number of its multiprocessor.
    pub(super) sm: u32,
    /// Its shared memory, and which bytes of it were written.
    pub(super) shared: Vec<u8>,
    pub(super) written: Vec<bool>,
    /// Its named barriers.
    pub(super) named: [Named; 16],
    /// How many of its warps have not ended.
    pub(super) live_warps: u32,
}

impl Block {
    /// The shared address of its first byte.
    pub(super) fn base(&self) -> u32 {
        self.rank << WINDOW_BITS | SHARED_BASE
    }
}

/// The blocks of a cluster and what they share.
#[derive(Debug)]
pub(super) struct Group {
    pub(super) blocks: Vec<Block>,
}
