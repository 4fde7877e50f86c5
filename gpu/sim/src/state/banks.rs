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
        let of_group = &addresses[first..first + group];
        if let Some(one) = one_pass(of_group, bytes, members) {
            total.0 += one;
            total.1 += one;
            continue;
        }
        if let Some(degree) = degree(of_group, bytes, members) {
            total.0 += degree;
            total.1 += 1;
            continue;
        }
        let starts = lanes(members).map(|lane| addresses[first + lane] as i64);
        let phase = banks.phase(first..first + group, starts, width);
        total.0 += phase.degree as u64;
        total.1 += phase.least(banks) as u64;
    }
    total
}

/// The passes of lanes that are served together, 1 or 0, where that is seen without sorting: every bank is asked for at
/// most one word.
fn one_pass(addresses: &[u64], bytes: usize, members: u32) -> Option<u64> {
    let words = (bytes / 4).max(1) as u64;
    let mut of_bank = [u64::MAX; 32];
    for lane in lanes(members) {
        let address = addresses[lane];
        if !is_whole(address, bytes) {
            return None;
        }
        for word in address / 4..address / 4 + words {
            let held = &mut of_bank[(word % 32) as usize];
            if *held != word && *held != u64::MAX {
                return None;
            }
            *held = word;
        }
    }
    Some(u64::from(members != 0))
}

/// The passes of at least one lane, if the lanes together ask for 32 words at most: the most distinct words of a bank.
fn degree(addresses: &[u64], bytes: usize, members: u32) -> Option<u64> {
    let each = (bytes / 4).max(1);
    let mut words = [0; 32];
    let mut count = 0;
    for lane in lanes(members) {
        let address = addresses[lane];
        if !is_whole(address, bytes) || count + each > 32 {
            return None;
        }
        for i in 0..each {
            words[count + i] = address / 4 + i as u64;
        }
        count += each;
    }
    let words = &mut words[..count];
    words.sort_unstable();
    let mut of_bank = [0; 32];
    for (i, word) in words.iter().enumerate() {
        if i == 0 || words[i - 1] != *word {
            of_bank[(word % 32) as usize] += 1;
        }
    }
    of_bank.into_iter().max()
}

/// Whether an access asks for whole words, or for one.
fn is_whole(address: u64, bytes: usize) -> bool {
    if bytes < 4 {
        address % 4 + bytes as u64 <= 4
    } else {
        address.is_multiple_of(4)
    }
}

/// Returns the sectors of global memory that an access touches, and the sectors that its distinct bytes would fill.
pub(crate) fn sectors(addresses: &[u64; 32], bytes: usize, mask: u32) -> (u64, u64) {
    let first = addresses[0];
    let follows = |lane: usize| addresses[lane] == first.wrapping_add((lane * bytes) as u64);
    if mask == super::warp::FULL && first < 1 << 62 && (0..32).all(follows) {
        let (end, size) = (first + 32 * bytes as u64, SECTOR_BYTES as u64);
        let least = (32 * bytes as u64).div_ceil(size);
        return (end.div_ceil(size) - first / size, least);
    }
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

    /// The short ways give what sorting gives.
    #[test]
    fn short_ways_count_what_sorting_counts() {
        let mut state = 3u64;
        let mut draw = move |below: u64| {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            (state >> 11) % below
        };
        let (mut cases, mut short) = (0, 0);
        for _ in 0..20_000 {
            let bytes = [1, 2, 4, 8, 16][draw(5) as usize];
            let (first, pitch) = (draw(300), [0, 1, 2, 4, 8, 12, 16, 128][draw(8) as usize]);
            let aligned = draw(4) > 0;
            let unit = if aligned { bytes } else { 1 };
            let one = |t: u64| (first + pitch * t) / unit * unit;
            let mut addresses = at(one);
            addresses[draw(32) as usize] += draw(2) * bytes;
            let mask = [FULL, draw(1 << 32) as u32][draw(2) as usize];
            let width = bytes as i64;
            let (banks, group) = (Banks::SHARED, Banks::SHARED.lanes(width).min(32));
            let (mut all, mut least) = (0, 0);
            for first in (0..32).step_by(group) {
                let members = mask >> first & (u32::MAX >> (32 - group));
                let starts = lanes(members).map(|lane| addresses[first + lane] as i64);
                let phase = banks.phase(first..first + group, starts, width);
                all += phase.degree as u64;
                least += phase.least(banks) as u64;
                let of_group = &addresses[first..first + group];
                short += u32::from(one_pass(of_group, bytes as usize, members).is_some());
            }
            assert_eq!(passes(&addresses, bytes as usize, mask), (all, least));
            let starts = lanes(mask).map(|lane| addresses[lane] as i64);
            let touched = Touched::of(starts, width, SECTOR_BYTES);
            let counted = sectors(&addresses, bytes as usize, mask);
            assert_eq!(counted, (touched.blocks as u64, touched.least as u64));
            cases += 1;
        }
        assert!(short > 1000);
        println!("law short_ways_count_what_sorting_counts: {cases} cases");
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
