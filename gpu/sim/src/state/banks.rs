//! Bank conflicts and sectors of one access of a warp.

use super::warp::lanes;

/// How many passes the 32 banks of 4 bytes need for an access of so many bytes a lane, and how many would do without
/// conflicts.
///
/// Lanes are served in groups whose bytes could fill the banks once: all 32 up to 4 bytes each, 16 with 8, 8 with 16.
/// Lanes that name the same word share it.
pub(crate) fn passes(addresses: &[u64; 32], bytes: usize, mask: u32) -> (u64, u64) {
    let group = (128 / bytes.max(4)).clamp(1, 32);
    let mut total = (0, 0);
    for first in (0..32).step_by(group) {
        let members = mask >> first & (u32::MAX >> (32 - group));
        if members == 0 {
            continue;
        }
        let words = lanes(members).flat_map(|lane| {
            let from = addresses[first + lane] / 4;
            let to = addresses[first + lane]
                .saturating_add(bytes as u64)
                .div_ceil(4);
            from..to
        });
        let (most, distinct) = busiest_bank(words);
        total.0 += most;
        total.1 += distinct.div_ceil(32);
    }
    total
}

/// The most distinct words that one bank holds, and how many distinct words there are.
fn busiest_bank(words: impl Iterator<Item = u64>) -> (u64, u64) {
    let mut seen = [[u64::MAX; 32]; 32];
    let mut held = [0usize; 32];
    for word in words {
        let bank = (word % 32) as usize;
        let known = &seen[bank][..held[bank]];
        if !known.contains(&word) && held[bank] < 32 {
            seen[bank][held[bank]] = word;
            held[bank] += 1;
        }
    }
    let most = held.iter().max().copied().unwrap_or(0) as u64;
    (most, held.iter().sum::<usize>() as u64)
}

/// How many sectors of 32 bytes an access touches, and how many its distinct bytes would fill.
pub(crate) fn sectors(addresses: &[u64; 32], bytes: usize, mask: u32) -> (u64, u64) {
    let mut touched = [0u64; 64];
    let mut count = 0;
    let mut starts = [0u64; 32];
    let mut distinct = 0;
    for lane in lanes(mask) {
        let address = addresses[lane];
        if !starts[..distinct].contains(&address) {
            starts[distinct] = address;
            distinct += 1;
        }
        for sector in address / 32..address.saturating_add(bytes as u64).div_ceil(32) {
            if count < 64 && !touched[..count].contains(&sector) {
                touched[count] = sector;
                count += 1;
            }
        }
    }
    (count as u64, (distinct * bytes).div_ceil(32) as u64)
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
