//! Lanes of a warp as bits of a mask, and bytes as numbers.

/// All lanes.
pub(crate) const FULL: u32 = u32::MAX;

/// A value in each lane.
pub(crate) type Lanes = [u64; 32];

/// The lanes of a mask, lowest first.
pub(crate) fn lanes(mask: u32) -> impl Iterator<Item = usize> {
    let mut rest = mask;
    std::iter::from_fn(move || {
        let lane = rest.trailing_zeros();
        rest &= rest.wrapping_sub(1);
        (lane < 32).then_some(lane as usize)
    })
}

/// The first `each` bytes as a number, lowest first.
pub(crate) fn word(bytes: &[u8], each: usize) -> u64 {
    // Copies of known lengths are instructions, others are calls.
    match (each, bytes) {
        (1, [byte, ..]) => return u64::from(*byte),
        (2, [a, b, ..]) => return u64::from(u16::from_le_bytes([*a, *b])),
        (4, [a, b, c, d, ..]) => return u64::from(u32::from_le_bytes([*a, *b, *c, *d])),
        (8, [a, b, c, d, e, f, g, h, ..]) => {
            return u64::from_le_bytes([*a, *b, *c, *d, *e, *f, *g, *h]);
        }
        _ => {}
    }
    let mut word = [0; 8];
    let each = each.min(8);
    word[..each].copy_from_slice(&bytes[..each]);
    u64::from_le_bytes(word)
}

/// Copies bytes to as many others. Those of one thread's access are moved by instructions, not by a call.
#[inline]
pub(crate) fn copy(to: &mut [u8], from: &[u8]) {
    fn fixed<const N: usize>(to: &mut [u8], from: &[u8]) -> bool {
        match (<&mut [u8; N]>::try_from(to), <&[u8; N]>::try_from(from)) {
            (Ok(to), Ok(from)) => {
                *to = *from;
                true
            }
            _ => false,
        }
    }
    let is_done = match to.len() {
        2 => fixed::<2>(to, from),
        4 => fixed::<4>(to, from),
        8 => fixed::<8>(to, from),
        16 => fixed::<16>(to, from),
        _ => false,
    };
    if !is_done {
        to.copy_from_slice(from);
    }
}

/// Returns whether two runs of bytes are the same.
#[inline]
pub(crate) fn same(a: &[u8], b: &[u8]) -> bool {
    fn fixed<const N: usize>(a: &[u8], b: &[u8]) -> Option<bool> {
        Some(<&[u8; N]>::try_from(a).ok()? == <&[u8; N]>::try_from(b).ok()?)
    }
    let found = match a.len() {
        2 => fixed::<2>(a, b),
        4 => fixed::<4>(a, b),
        8 => fixed::<8>(a, b),
        16 => fixed::<16>(a, b),
        _ => None,
    };
    found.unwrap_or_else(|| a == b)
}

/// Returns whether all of them hold, many at once.
#[inline]
pub(crate) fn all(held: &[bool]) -> bool {
    match held.len() {
        2 => *held == [true; 2],
        4 => *held == [true; 4],
        8 => *held == [true; 8],
        16 => *held == [true; 16],
        _ => held.iter().fold(true, |all, held| all & held),
    }
}

/// Sets all of them.
#[inline]
pub(crate) fn set_all(held: &mut [bool]) {
    fn fixed<const N: usize>(held: &mut [bool]) -> bool {
        match <&mut [bool; N]>::try_from(held) {
            Ok(held) => {
                *held = [true; N];
                true
            }
            Err(_) => false,
        }
    }
    let is_done = match held.len() {
        2 => fixed::<2>(held),
        4 => fixed::<4>(held),
        8 => fixed::<8>(held),
        16 => fixed::<16>(held),
        _ => false,
    };
    if !is_done {
        held.fill(true);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn runs_of_all_lengths_are_copied_and_compared() {
        for length in 0..40_usize {
            let from: Vec<u8> = (1..).take(length).collect();
            let mut to = vec![0; length];
            assert_eq!(same(&to, &from), length == 0);
            copy(&mut to, &from);
            assert_eq!(to, from);
            assert!(same(&to, &from));
            let mut held = vec![false; length];
            assert_eq!(all(&held), length == 0);
            set_all(&mut held);
            assert!(all(&held) && held.iter().all(|held| *held));
            if let Some(last) = held.last_mut() {
                *last = false;
                assert!(!all(&held));
                to[length - 1] = 0;
                assert!(!same(&to, &from));
            }
        }
        let mut word = [0; 4];
        let short = std::panic::catch_unwind(move || copy(&mut word, &[1, 2]));
        assert!(short.is_err(), "as `copy_from_slice` does");
    }
}
