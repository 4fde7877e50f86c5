//! Random large layouts: extents up to 2^20, strides up to 2^40, depth 3; the seed is fixed, failures shrink.

use colex_layout::Layout;
use proptest::prelude::*;
use proptest::test_runner::{Config, RngSeed, TestRunner};

use crate::small;

/// How many times as many random values the laws take where they walk all.
const MORE: u32 = 8;

/// Checks `property` on `cases` random values, and on [`MORE`] times as many where the laws walk all; `PROPTEST_RNG_SEED` chooses other
/// ones.
#[track_caller]
pub(crate) fn check<S: Strategy>(
    cases: u32,
    strategy: S,
    property: impl Fn(S::Value) -> Result<(), TestCaseError>,
) {
    let more = if small::is_all() { MORE } else { 1 };
    let mut config = Config {
        cases: more * cases,
        failure_persistence: None,
        ..Config::default()
    };
    if config.rng_seed == RngSeed::Random {
        config.rng_seed = RngSeed::Fixed(2026);
    }
    if let Err(failure) = TestRunner::new(config).run(&strategy, property) {
        panic!("{failure}");
    }
}

/// Extents: mostly small or round, now and then up to 2^20.
pub(crate) fn extent() -> impl Strategy<Value = i64> {
    prop_oneof![
        4 => 1..=12_i64,
        3 => (0..=6_u32).prop_map(|k| 1 << k),
        1 => 1..=1_i64 << 20,
        1 => (0..=20_u32).prop_map(|k| 1 << k),
    ]
}

/// Strides: zero, small, round, up to 2^40, and a few negative.
pub(crate) fn stride() -> impl Strategy<Value = i64> {
    prop_oneof![
        1 => Just(0_i64),
        4 => 1..=24_i64,
        3 => (0..=40_u32).prop_map(|k| 1 << k),
        1 => 1..=1_i64 << 40,
        1 => -24..0_i64,
    ]
}

/// A nesting as numbers: each entry opens a group of that many of the next entries.
fn nested(leaves: Vec<(i64, i64)>, cuts: Vec<usize>) -> Option<Layout> {
    let (shape, stride): (Vec<i64>, Vec<i64>) = leaves.into_iter().unzip();
    let mut layout = Layout::new(shape, stride).ok()?;
    for pair in cuts.chunks_exact(2) {
        let (begin, length) = (pair[0] % layout.rank(), pair[1]);
        let end = (begin + length).min(layout.rank());
        if begin < end && layout.depth() < 3 {
            layout = layout.group(begin..end).expect("a range within the rank");
        }
    }
    Some(layout)
}

/// Layouts of 1 to `most` leaves, nested up to depth 3.
pub(crate) fn layout(most: usize) -> impl Strategy<Value = Layout> {
    let leaves = prop::collection::vec((extent(), stride()), 1..=most);
    let cuts = prop::collection::vec(0..4_usize, 0..=4);
    (leaves, cuts).prop_filter_map("the size fits 64 bits", |(l, c)| nested(l, c))
}

/// Layouts whose strides follow from their extents, in some order: those on which most operations have results.
pub(crate) fn compact(most: usize) -> impl Strategy<Value = Layout> {
    let extents = prop::collection::vec(extent(), 1..=most);
    let keys = prop::collection::vec(any::<u16>(), most);
    let cuts = prop::collection::vec(0..4_usize, 0..=4);
    let made = (extents, keys, 1..=4_i64, cuts);
    made.prop_filter_map("the size fits 64 bits", |(extents, keys, first, cuts)| {
        let mut order: Vec<usize> = (0..extents.len()).collect();
        order.sort_by_key(|&i| keys[i]);
        let mut strides = vec![0; extents.len()];
        let mut current = first;
        for i in order {
            strides[i] = current;
            current = i64::checked_mul(current, extents[i])?;
        }
        nested(extents.into_iter().zip(strides).collect(), cuts)
    })
}

/// Either kind.
pub(crate) fn any_layout(most: usize) -> impl Strategy<Value = Layout> {
    prop_oneof![layout(most), compact(most)]
}

/// Indices at which a large domain is probed: both ends, the middle, and around every digit's carry.
pub(crate) fn probes(layout: &Layout) -> Vec<i64> {
    let size = layout.size();
    let mut at = vec![0, 1, size / 3, size / 2, size - 2, size - 1];
    let mut carry = 1_i64;
    for leaf in layout.leaves() {
        carry *= leaf.extent.value();
        at.extend([carry - 1, carry, carry + 1, size - carry - 1, size - carry]);
    }
    let mut pseudo = 0x9e37_79b9_i64;
    for _ in 0..24 {
        pseudo = pseudo
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1);
        at.push((pseudo >> 1).rem_euclid(size));
    }
    at.retain(|i| (0..size).contains(i));
    at
}
