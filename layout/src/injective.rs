//! Whether a layout gives different coordinates different offsets, decided from its strides.

use smallvec::SmallVec;

use crate::coalesce::{Tail, coalesced};
use crate::layout::LeafMode;
use crate::{Layout, Stride};

/// A stride and an extent, both positive.
type Mode = (i128, i128);
type Modes = SmallVec<[Mode; 12]>;

impl Layout {
    /// Whether different coordinates have different offsets.
    ///
    /// Integer strides are decided from the numbers: two coordinates meet where a combination of strides, each taken
    /// less often than its extent, is 0. The search for one needs no table, so large layouts are decided too.
    ///
    /// # Example
    ///
    /// ```
    /// use colex_layout::Layout;
    /// assert!("(2,2):(2,3)".parse::<Layout>()?.is_injective());
    /// assert!(!"(4,2):(1,0)".parse::<Layout>()?.is_injective());
    /// assert!(!"(1048576,4194304):(2097152,3)".parse::<Layout>()?.is_injective());
    /// # Ok::<(), colex_layout::Error>(())
    /// ```
    #[must_use]
    pub fn is_injective(&self) -> bool {
        let flat = coalesced(self.leaves(), Tail::Drop);
        let modes = flat.iter().filter(|l| l.size() > 1);
        if modes.clone().any(|l| l.stride.is_zero()) {
            return false;
        }
        match flat[0].stride {
            Stride::Int(_) => is_free(modes.map(mode).collect()),
            // Steps along different modes of a coordinate never meet.
            Stride::Basis(_) => modes.clone().all(|one| {
                let parallel = modes.clone().filter(|l| is_parallel(one, l));
                is_free(parallel.map(mode).collect())
            }),
            Stride::Xor(_) => is_independent(&flat).unwrap_or_else(|| has_distinct_offsets(self)),
        }
    }
}

/// The size of a stride matters, its sign does not: coordinates can be counted from the other end.
fn mode(leaf: &LeafMode) -> Mode {
    let stride = i128::from(leaf.stride.coefficient().value());
    (stride.abs(), i128::from(leaf.size()))
}

fn is_parallel(a: &LeafMode, b: &LeafMode) -> bool {
    matches!((a.stride, b.stride), (Stride::Basis(a), Stride::Basis(b)) if a.is_parallel(&b))
}

/// Whether no sum of `x * stride` with `|x| < extent` is 0, other than that of zeros.
fn is_free(mut modes: Modes) -> bool {
    modes.sort_unstable();
    let mut reach = 0;
    let mut nested = true;
    for (d, s) in &modes {
        nested &= *d > reach;
        reach += d * (s - 1);
    }
    // More coordinates than offsets between the first and the last.
    let size = modes.iter().map(|(_, s)| s).product::<i128>();
    nested || (size <= reach + 1 && !meets(&modes, 0, false))
}

/// Whether `rest` and some `x * stride` with `|x| < extent` sum to 0; zeros count when the sum is not `trivial`.
fn meets(modes: &[Mode], rest: i128, counts: bool) -> bool {
    match *modes {
        [] => counts && rest == 0,
        [a] => meets_last([a, (1, 1)], rest, counts),
        [a, b] => meets_last([a, b], rest, counts),
        [ref smaller @ .., (d, s)] => {
            let reach: i128 = smaller.iter().map(|(d, s)| d * (s - 1)).sum();
            // rest + x * d must come back to within the reach of the smaller modes.
            let from = (-reach - rest).div_euclid(d).max(1 - s);
            let to = (reach - rest).div_euclid(d).min(s - 1);
            // By symmetry the first step that is taken is taken forwards.
            let from = if counts { from } else { from.max(0) };
            (from..=to).any(|x| meets(smaller, rest + x * d, counts || x != 0))
        }
    }
}

/// As [`meets`] for two modes: `x * a + y * b = -rest` by the extended Euclidean algorithm.
fn meets_last([(a, s), (b, t)]: [Mode; 2], rest: i128, counts: bool) -> bool {
    let (g, inverse) = gcd_inverse(a, b);
    if rest % g != 0 {
        return false;
    }
    // All solutions: x = first + k * step.
    let step = b / g;
    let first = ((-rest / g).rem_euclid(step) * inverse).rem_euclid(step);
    let span = b * (t - 1);
    let low = (1 - s).max(-(rest + span).div_euclid(a));
    let high = (s - 1).min((span - rest).div_euclid(a));
    let least = low + (first - low).rem_euclid(step);
    if counts {
        return least <= high;
    }
    // Nothing was taken yet: rest is 0 and x = 0 is the trivial solution, so the next one decides.
    step <= high
}

/// The greatest common divisor, and the inverse of `a / g` modulo `b / g`.
fn gcd_inverse(a: i128, b: i128) -> (i128, i128) {
    let (mut r, mut next, mut x, mut next_x) = (a, b, 1, 0);
    while next != 0 {
        let q = r / next;
        (r, next) = (next, r - q * next);
        (x, next_x) = (next_x, x - q * next_x);
    }
    (r, x.rem_euclid(b / r))
}

/// Whether the bits of XOR strides are linearly independent; `None` when they are not, but some extent is no power
/// of two, so that the dependent combination may lie outside.
fn is_independent(modes: &[LeafMode]) -> Option<bool> {
    let mut pivots: SmallVec<[u128; 8]> = SmallVec::new();
    for leaf in modes {
        let bits = i64::BITS - (leaf.size() - 1).leading_zeros();
        for k in 0..bits {
            let step = (i128::from(leaf.stride.coefficient().value()) << k) as u128;
            let reduced = pivots.iter().fold(step, |v, p| v.min(v ^ p));
            if reduced == 0 {
                let whole = modes.iter().all(|l| l.size().count_ones() == 1);
                return whole.then_some(false);
            }
            pivots.push(reduced);
            pivots.sort_unstable_by(|a, b| b.cmp(a));
        }
    }
    Some(true)
}

fn has_distinct_offsets(layout: &Layout) -> bool {
    let Ok(mut values) = layout.table() else {
        return false;
    };
    values.sort_unstable();
    values.windows(2).all(|w| w[0] != w[1])
}
