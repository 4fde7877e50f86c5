//! Coordinates: of a GEMM, of a batched GEMM, of a block in a grid, of an output tile.

use crate::number::error::{Error, ErrorKind, at_least, product};
use std::fmt;

/// Extents or offsets of a matrix product along m, n and k.
///
/// As a problem it counts elements, as a tiled shape it counts tiles, and `k` is then the number of splits
/// (or batches). Source: `cutlass/gemm_coord.h`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct GemmCoord {
    /// Rows of A and C.
    pub m: i64,
    /// Columns of B and C.
    pub n: i64,
    /// Columns of A and rows of B; in tiles, the splits or batches.
    pub k: i64,
}

impl GemmCoord {
    /// Returns the coordinate `(m, n, k)`.
    pub const fn new(m: i64, n: i64, k: i64) -> Self {
        GemmCoord { m, n, k }
    }

    /// Returns whether every component of `tile` lies in `0..self`.
    pub fn contains(&self, tile: GemmCoord) -> bool {
        (0..self.m).contains(&tile.m)
            && (0..self.n).contains(&tile.n)
            && (0..self.k).contains(&tile.k)
    }

    /// Returns `m * n * k`: for a tiled shape, the blocks that do useful work.
    ///
    /// # Errors
    ///
    /// Returns an error if the result does not fit in 64 bits.
    pub fn product(&self) -> Result<i64, Error> {
        product("the number of tiles", &[self.m, self.n, self.k])
    }

    pub(crate) fn array(self) -> [i64; 3] {
        [self.m, self.n, self.k]
    }

    pub(crate) fn positive(self, names: [&'static str; 3]) -> Result<Self, Error> {
        for (name, value) in names.into_iter().zip(self.array()) {
            at_least(name, value, 1)?;
        }
        Ok(self)
    }
}

impl fmt::Display for GemmCoord {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "({},{},{})", self.m, self.n, self.k)
    }
}

/// A GEMM coordinate with a batch. Source: `cutlass/gemm_coord.h`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct BatchedGemmCoord {
    /// Rows.
    pub m: i64,
    /// Columns.
    pub n: i64,
    /// The reduction extent.
    pub k: i64,
    /// Batch.
    pub batch: i64,
}

impl BatchedGemmCoord {
    /// Returns the coordinate `(m, n, k, batch)`.
    pub const fn new(m: i64, n: i64, k: i64, batch: i64) -> Self {
        BatchedGemmCoord { m, n, k, batch }
    }
}

impl fmt::Display for BatchedGemmCoord {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "({},{},{},{})", self.m, self.n, self.k, self.batch)
    }
}

/// Three extents of a grid, or the index of a block in it; x runs fastest.
#[doc(alias = "dim3")]
#[doc(alias = "blockIdx")]
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Dim3 {
    /// Fastest.
    pub x: i64,
    /// Middle.
    pub y: i64,
    /// Slowest.
    pub z: i64,
}

impl Dim3 {
    /// The most blocks a CUDA device takes along x, y and z (CUDA C++ Programming Guide, table "Technical
    /// Specifications").
    pub const LIMIT: Dim3 = Dim3::new(0x7fff_ffff, 0xffff, 0xffff);

    /// Returns the extents or index `(x, y, z)`.
    pub const fn new(x: i64, y: i64, z: i64) -> Self {
        Dim3 { x, y, z }
    }

    /// Returns how many blocks the grid has.
    ///
    /// # Errors
    ///
    /// Returns an error if the result does not fit in 64 bits.
    pub fn count(&self) -> Result<i64, Error> {
        product("the number of blocks", &[self.x, self.y, self.z])
    }

    /// Returns whether `block` is one of the grid's.
    pub fn contains(&self, block: Dim3) -> bool {
        (0..self.x).contains(&block.x)
            && (0..self.y).contains(&block.y)
            && (0..self.z).contains(&block.z)
    }

    /// Returns the block at place `slot` of the launch order, x fastest.
    ///
    /// ```
    /// # use colex_sched::Dim3;
    /// assert_eq!(Dim3::new(8, 2, 1).block(9), Some(Dim3::new(1, 1, 0)));
    /// assert_eq!(Dim3::new(8, 2, 1).block(16), None);
    /// ```
    pub fn block(&self, slot: i64) -> Option<Dim3> {
        if slot < 0 || self.x <= 0 || self.y <= 0 {
            return None;
        }
        let (x, rest) = (slot % self.x, slot / self.x);
        let block = Dim3::new(x, rest % self.y, rest / self.y);
        self.contains(block).then_some(block)
    }

    /// Returns the place of `block` in the launch order, x fastest. Inverse of [`Dim3::block`]; nothing where the grid
    /// does not contain the block, or places go beyond 64 bits.
    pub fn slot(&self, block: Dim3) -> Option<i64> {
        let rows = self
            .y
            .checked_mul(block.z)
            .and_then(|n| n.checked_add(block.y));
        let slot = rows
            .and_then(|n| self.x.checked_mul(n))
            .and_then(|n| n.checked_add(block.x));
        slot.filter(|_| self.contains(block))
    }

    /// Returns the grid itself if a device can launch it.
    ///
    /// # Errors
    ///
    /// Returns an error for an extent below 1, or for one that is too long along its axis, which the error names.
    pub fn launchable(self) -> Result<Self, Error> {
        let limit = Dim3::LIMIT;
        for (axis, what, blocks, limit) in [
            ('x', "extent x of the grid", self.x, limit.x),
            ('y', "extent y of the grid", self.y, limit.y),
            ('z', "extent z of the grid", self.z, limit.z),
        ] {
            at_least(what, blocks, 1)?;
            if blocks > limit {
                return Err(ErrorKind::GridLimit {
                    axis,
                    blocks,
                    limit,
                }
                .into());
            }
        }
        Ok(self)
    }
}

impl fmt::Display for Dim3 {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "({},{},{})", self.x, self.y, self.z)
    }
}

/// An output tile: its row and column among the tiles, and its batch (or group).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Tile {
    /// Row of tiles.
    pub m: i64,
    /// Column of tiles.
    pub n: i64,
    /// Batch.
    pub l: i64,
}

impl Tile {
    /// Returns the tile `(m, n, l)`.
    pub const fn new(m: i64, n: i64, l: i64) -> Self {
        Tile { m, n, l }
    }
}

impl fmt::Display for Tile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "({},{},{})", self.m, self.n, self.l)
    }
}
