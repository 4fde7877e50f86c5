//! Bank conflicts and sectors of one access of a warp.

use colex_atom::{Banks, SECTOR_BYTES, Touched};

use super::warp::lanes;

/// Returns the passes over the banks of shared memory for an access of `bytes` bytes per lane, and the passes without
/// conflicts.
pub(crate) fn passes(addresses: &[u64; 32], bytes: usize, mask: u32) -> (u64, u64) {
    let (banks, width) = (Banks::SHARED, bytes as i64);
    let group = banks.lanes(width).min(32);
    let mut total = (0, 0);
    for first in (0..32).step_by(group) {
        let members = mask >> first & (u32::MAX >> (32 - group));
        let starts = lanes(members).map(|lane| addresses[first + lane] as i64);
        let phase = banks.phase(first..first + group, starts, width);
        total.0 += phase.degree as u64;
        total.1 += phase.least(banks) as u64;
    }
    total
}

/// Returns the sectors of global memory that an access touches, and the sectors that its distinct bytes would fill.
pub(crate) fn sectors(addresses: &[u64; 32], bytes: usize, mask: u32) -> (u64, u64) {
    let starts = lanes(mask).map(|lane| addresses[lane] as i64);
    let touched = Touched::of(starts, bytes as i64, SECTOR_BYTES);
    (touched.blocks as u64, touched.least as u64)
}

#[cfg(test)]
mod tests {
    use super::super::warp::FULL;
    use super::*;

    fn at(f: impl Fn(u64) -> u64) -> [u64; 32] {
        core::array::from_fn(|lane| f(lane as u64))
    }

    #[test]
    fn banks_by_hand() {
        assert_eq!(passes(&at(|t| 4 * t), 4, FULL), (1, 1));
        assert_eq!(passes(&at(|_| 64), 4, FULL), (1, 1), "one word for all");
        assert_eq!(passes(&at(|t| 128 * t), 4, FULL), (32, 1));
        assert_eq!(passes(&at(|t| 8 * t), 4, FULL), (2, 1));
        assert_eq!(passes(&at(|t| 16 * t), 16, FULL), (4, 4));
        assert_eq!(passes(&at(|t| 128 * t), 16, FULL), (32, 4));
        assert_eq!(
            passes(&at(|t| 2 * t), 2, FULL),
            (1, 1),
            "two lanes share a word"
        );
        assert_eq!(passes(&at(|t| 128 * t), 4, 1), (1, 1));
    }

    #[test]
    fn sectors_by_hand() {
        assert_eq!(sectors(&at(|t| 4 * t), 4, FULL), (4, 4));
        assert_eq!(sectors(&at(|t| 4 * t + 4), 4, FULL), (5, 4));
        assert_eq!(sectors(&at(|t| 64 * t), 4, FULL), (32, 4));
        assert_eq!(sectors(&at(|t| 16 * t), 16, FULL), (16, 16));
        assert_eq!(sectors(&at(|_| 0), 4, FULL), (1, 1));
    }
}
