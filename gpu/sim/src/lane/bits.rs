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
        _ => {}
    }
    let mut word = [0; 8];
    let each = each.min(8);
    word[..each].copy_from_slice(&bytes[..each]);
    u64::from_le_bytes(word)
}
