//! How CUTLASS 2's stream-K deals iterations to blocks, region by region.

use crate::number::error::ceil_div;

/// The stream-K part: how the iterations of `tiles` tiles are dealt to the blocks of each region.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct Share {
    pub(crate) waves: i64,
    pub(crate) tiles: i64,
    pub(crate) regions: i64,
    pub(crate) blocks_per_region: i64,
    pub(crate) iters_per_region: i64,
    pub(crate) iters_per_block: i64,
    /// Blocks of each region, its first ones, with one iteration more.
    pub(crate) big_blocks: i64,
}

impl Share {
    pub(crate) fn new(tiles: i64, k_tiles: i64, blocks: i64, sms: i64) -> Share {
        if blocks == 0 {
            return Share::default();
        }
        let waves = ceil_div(blocks, sms);
        let iters = tiles * k_tiles;
        let blocks = blocks.min(iters);
        let regions = if blocks > tiles && blocks % tiles == 0 {
            tiles
        } else {
            1
        };
        Share {
            waves,
            tiles,
            regions,
            blocks_per_region: blocks / regions,
            iters_per_region: iters / regions,
            iters_per_block: iters / blocks,
            big_blocks: iters % blocks / regions,
        }
    }

    /// The iterations of block `index`, counted over all stream-K tiles.
    pub(crate) fn iterations(&self, index: i64) -> std::ops::Range<i64> {
        let (region, inside) = (
            index / self.blocks_per_region,
            index % self.blocks_per_region,
        );
        let begin = region * self.iters_per_region
            + inside * self.iters_per_block
            + inside.min(self.big_blocks);
        begin..begin + self.iters_per_block + i64::from(inside < self.big_blocks)
    }

    /// The block that computes iteration `iter`. Source: `get_sk_block_idx`.
    pub(crate) fn owner(&self, iter: i64) -> i64 {
        let (region, inside) = (iter / self.iters_per_region, iter % self.iters_per_region);
        let big = inside / (self.iters_per_block + 1);
        let block = if big < self.big_blocks {
            big
        } else {
            self.big_blocks
                + (inside - self.big_blocks * (self.iters_per_block + 1)) / self.iters_per_block
        };
        self.blocks_per_region * region + block
    }
}
