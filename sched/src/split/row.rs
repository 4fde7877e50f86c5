//! The k-tiles of several tiles in one row, shared evenly: what stream-K is without an order of tiles.

use crate::number::error::{Error, at_least, product};
use crate::number::formula;
use std::fmt;
use std::ops::{Range, RangeInclusive};

/// The k-tiles of `tiles` tiles in one row, divided evenly into shares that may begin and end inside of tiles.
///
/// A cut fewer than `least` k-tiles from the border of a tile moves to the border. The first shares have one k-tile more where
/// the number of shares does not divide the row. The parts of a tile are counted along the row: part `share + tile` is the
/// one that a share has of a tile, so that the parts of a tile follow each other. The formulas are those of
/// [`formula`]: [`StreamKSm90`](crate::StreamKSm90) cuts the row of each of its groups by them, and the Hopper kernel of
/// `colex-gpu` computes them in registers.
///
/// ```
/// use colex_sched::StreamKRow;
///
/// // The five tiles of 32 k-tiles for four blocks of the book.
/// let row = StreamKRow::new(5, 32, 4, 1)?;
/// let work = |share| row.work(share).map(|(tile, k)| format!("{tile}: {k:?}")).collect::<Vec<_>>();
/// assert_eq!(work(1), ["1: 8..32", "2: 0..16"]);
/// assert_eq!(row.peers(2), Some(1..=2));
/// assert_eq!((row.part(1, 2), row.part(2, 2)), (3, 4));
/// # Ok::<(), colex_sched::Error>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct StreamKRow {
    tiles: i64,
    k_tiles: i64,
    shares: i64,
    least: i64,
}

impl StreamKRow {
    /// Returns the row of `tiles` tiles of `k_tiles` k-tiles, in `shares` shares, or in fewer, so that each has at
    /// least `least` k-tiles.
    ///
    /// # Errors
    ///
    /// Returns an error for a number below 1, or for more than 2^40 k-tiles in all.
    pub fn new(tiles: i64, k_tiles: i64, shares: i64, least: i64) -> Result<StreamKRow, Error> {
        at_least("the number of tiles", tiles, 1)?;
        at_least("the number of k-tiles", k_tiles, 1)?;
        at_least("the number of shares", shares, 1)?;
        at_least("the fewest k-tiles of a part", least, 1)?;
        let all = product("the iterations", &[tiles, k_tiles])?;
        crate::split::stream_k::countable(tiles, k_tiles)?;
        Ok(StreamKRow {
            tiles,
            k_tiles,
            shares: shares.min((all / least).max(1)),
            least: least.min(k_tiles),
        })
    }

    /// Returns the number of tiles.
    pub fn tiles(&self) -> i64 {
        self.tiles
    }

    /// Returns the k-tiles of one tile.
    pub fn k_tiles(&self) -> i64 {
        self.k_tiles
    }

    /// Returns the number of shares.
    pub fn shares(&self) -> i64 {
        self.shares
    }

    /// The k-tiles of a share before its ends move, and the shares that have one more.
    fn even(&self) -> [i64; 2] {
        let all = self.tiles * self.k_tiles;
        [all / self.shares, all % self.shares]
    }

    fn begin(&self, share: i64) -> i64 {
        let [each, more] = self.even();
        let cut = formula::share_begin(share, each, more);
        let [tile, k] = formula::share_cut(cut, self.k_tiles, self.least);
        tile * self.k_tiles + k
    }

    /// Returns the k-tiles of a share, counted along the row. The share is empty where both ends move to one border, and beyond
    /// the last.
    pub fn range(&self, share: i64) -> Range<i64> {
        if !(0..self.shares).contains(&share) {
            return 0..0;
        }
        self.begin(share)..self.begin(share + 1)
    }

    /// Returns the parts of tiles of a share, in the order of the row: the tile and its k-tiles.
    pub fn work(&self, share: i64) -> impl Iterator<Item = (i64, Range<i64>)> + use<> {
        let (row, k_tiles) = (self.range(share), self.k_tiles);
        let tiles = row.start / k_tiles..(row.end + k_tiles - 1) / k_tiles;
        let tiles = if row.is_empty() { 0..0 } else { tiles };
        tiles.map(move |tile| {
            let base = tile * k_tiles;
            (
                tile,
                row.start.max(base) - base..row.end.min(base + k_tiles) - base,
            )
        })
    }

    /// Returns the shares that have parts of a tile, in the order of its k-tiles; `None` beyond the last tile.
    pub fn peers(&self, tile: i64) -> Option<RangeInclusive<i64>> {
        if !(0..self.tiles).contains(&tile) {
            return None;
        }
        let [first, last] = formula::share_peers(tile, self.k_tiles, self.least, self.even());
        Some(first..=last)
    }

    /// Returns the number of the part that a share has of a tile, counted along the row.
    pub fn part(&self, share: i64, tile: i64) -> i64 {
        share + tile
    }

    /// Returns the most parts that are counted along the row.
    pub fn parts(&self) -> i64 {
        self.shares + self.tiles - 1
    }
}

impl fmt::Display for StreamKRow {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let StreamKRow {
            tiles,
            k_tiles,
            shares,
            least,
        } = self;
        write!(
            f,
            "{tiles} tiles of {k_tiles} k-tiles in {shares} shares, parts of at least {least}"
        )
    }
}
