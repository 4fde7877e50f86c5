//! Sectors of global memory, and other blocks of a fixed size that requests touch.

/// The bytes of a sector of global memory: the least that a request moves.
pub const SECTOR_BYTES: i64 = 32;

/// How many blocks of one size a request touches, and how many its distinct bytes would fill.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Touched {
    /// The number of blocks that contain a byte of the request.
    pub blocks: usize,
    /// The number of blocks that the same number of distinct bytes fill at best.
    pub least: usize,
}

impl Touched {
    /// Returns what a request touches whose parts begin at `starts` and have `width` each, in blocks of `block`, all in
    /// one unit: bytes, or bits.
    ///
    /// # Panics
    ///
    /// If `width` or `block` is not positive.
    ///
    /// # Example
    ///
    /// ```
    /// use colex_atom::{SECTOR_BYTES, Touched};
    /// // 32 lanes read 4 bytes each, in a row that begins in the middle of a sector.
    /// let row = Touched::of((0..32).map(|lane| 16 + 4 * lane), 4, SECTOR_BYTES);
    /// assert_eq!((row.blocks, row.least), (5, 4));
    /// ```
    #[must_use]
    pub fn of(starts: impl IntoIterator<Item = i64>, width: i64, block: i64) -> Self {
        assert!(
            width > 0 && block > 0,
            "a request has a width, and a block a size"
        );
        let mut starts: Vec<i64> = starts.into_iter().collect();
        starts.sort_unstable();
        let (mut blocks, mut covered) = (0_i64, 0_i64);
        let (mut end, mut next) = (i64::MIN, i64::MIN);
        for start in starts {
            let stop = start.saturating_add(width);
            let from = start.max(end);
            if from >= stop {
                continue;
            }
            covered += stop - from;
            let (first, last) = (start.div_euclid(block), (stop - 1).div_euclid(block));
            let first = first.max(next);
            blocks += (last - first + 1).max(0);
            (end, next) = (stop, last + 1);
        }
        Self {
            blocks: blocks as usize,
            least: (covered as u64).div_ceil(block as u64) as usize,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(starts: impl Iterator<Item = i64>, width: i64) -> (usize, usize) {
        let touched = Touched::of(starts, width, SECTOR_BYTES);
        (touched.blocks, touched.least)
    }

    #[test]
    fn sectors_by_hand() {
        assert_eq!(of((0..32).map(|t| 4 * t), 4), (4, 4));
        assert_eq!(of((0..32).map(|t| 4 * t + 4), 4), (5, 4));
        assert_eq!(of((0..32).map(|t| 64 * t), 4), (32, 4));
        assert_eq!(of((0..32).map(|t| 16 * t), 16), (16, 16));
        assert_eq!(of((0..32).map(|_| 0), 4), (1, 1));
        assert_eq!(
            of([0, 16, 8].into_iter(), 16),
            (1, 1),
            "bytes that overlap count once"
        );
        assert_eq!(of([-4, -36, 28].into_iter(), 8), (4, 1), "and below 0 too");
        assert_eq!(of(core::iter::empty(), 4), (0, 0));
    }

    /// Against a set of bytes and a set of sectors.
    #[test]
    fn touched_counted() {
        use std::collections::BTreeSet;
        let (mut state, mut cases) = (1_u64, 0);
        let mut draw = |n: u64| {
            state = state
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1);
            (state >> 33) % n
        };
        for _ in 0..20_000 {
            let (width, block) = (1 + draw(40) as i64, 1 + draw(40) as i64);
            let count = draw(12);
            let starts: Vec<i64> = (0..count).map(|_| draw(200) as i64 - 100).collect();
            let bytes: BTreeSet<i64> = starts.iter().flat_map(|s| *s..s + width).collect();
            let blocks: BTreeSet<i64> = bytes.iter().map(|b| b.div_euclid(block)).collect();
            let expected = Touched {
                blocks: blocks.len(),
                least: bytes.len().div_ceil(block as usize),
            };
            assert_eq!(
                Touched::of(starts.iter().copied(), width, block),
                expected,
                "{starts:?} of {width} in {block}"
            );
            cases += 1;
        }
        println!("law touched_counted: {cases} requests");
    }
}
