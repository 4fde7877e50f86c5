//! Pieces of work: a run of k-tiles of one output tile, and what must be added up afterwards.

use crate::problem::coord::Tile;
use std::fmt;
use std::ops::Range;

/// The k-tiles `k` of output tile `tile`, computed by one unit without a break.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Segment {
    /// The output tile.
    pub tile: Tile,
    /// Its k-tiles, from `start` up to `end`.
    pub k: Range<i64>,
}

impl Segment {
    /// Returns how many k-tiles.
    pub fn len(&self) -> i64 {
        self.k.end - self.k.start
    }

    /// Returns whether there is nothing to do.
    pub fn is_empty(&self) -> bool {
        self.len() <= 0
    }

    /// Returns whether this unit finishes the tile: it has the last k-tile, adds what its peers left, and writes the
    /// result.
    pub fn finishes(&self, k_tiles: i64) -> bool {
        self.k.end == k_tiles
    }

    /// Returns whether the tile is split, so that partial sums travel through memory.
    pub fn needs_fixup(&self, k_tiles: i64) -> bool {
        self.len() != k_tiles
    }
}

impl fmt::Display for Segment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} k {}..{}", self.tile, self.k.start, self.k.end)
    }
}
