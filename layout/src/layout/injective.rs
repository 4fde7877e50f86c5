//! Whether a layout gives different coordinates different offsets, decided from its strides.

use alloc::vec::Vec;

use smallvec::SmallVec;

use crate::error::ErrorKind;
use crate::layout::LeafMode;
use crate::layout::coalesce::{Tail, coalesced};
use crate::layout::equation::{Budget, STEPS, Term, gcd, solve};
use crate::{Error, Layout, Stride};

/// A stride and an extent, both positive.
type PositiveMode = (i128, i128);
type PositiveModes = SmallVec<[PositiveMode; 12]>;

/// The most differences of offsets that are written down to be compared.
const DIFFERENCES: i128 = 1 << 20;

/// The steps of a question whose answer only chooses a word.
const FEW_STEPS: u32 = 1 << 10;

impl Layout {
    /// Returns whether different coordinates have different offsets.
    ///
    /// Integer strides are decided from the numbers: two coordinates meet where a combination of strides, each taken
    /// less often than its extent, is 0. The search for one needs no table, so large layouts are decided too. In
    /// general this is a knapsack problem, and the work is bounded: at most 2^20 differences of offsets are compared,
    /// or 2^18 combinations tried. XOR strides are decided by linear algebra on their bits.
    ///
    /// Law `is_injective` (true exactly when no two of the offsets are equal).
    ///
    /// # Errors
    ///
    /// Returns an error if the bound is reached.
    ///
    /// # Example
    ///
    /// ```
    /// use colex_layout::Layout;
    /// assert!("(2,2):(2,3)".parse::<Layout>()?.is_injective()?);
    /// assert!(!"(4,2):(1,0)".parse::<Layout>()?.is_injective()?);
    /// assert!(!"(1048576,4194304):(2097152,3)".parse::<Layout>()?.is_injective()?);
    /// assert!(!"(1073741823,3):(^3,^5)".parse::<Layout>()?.is_injective()?);
    /// # Ok::<(), colex_layout::Error>(())
    /// ```
    pub fn is_injective(&self) -> Result<bool, Error> {
        self.decide(Effort::Full).ok_or_else(|| {
            ErrorKind::Undecided {
                operation: "is_injective",
                of: self.text(),
                bound: STEPS.into(),
            }
            .into()
        })
    }

    /// [`Layout::is_injective`] where that is soon decided.
    pub(crate) fn is_injective_at_a_glance(&self) -> Option<bool> {
        self.decide(Effort::Glance)
    }

    fn decide(&self, effort: Effort) -> Option<bool> {
        let flat = coalesced(self.leaves(), Tail::Drop);
        let moving: SmallVec<[LeafMode; 12]> =
            flat.iter().filter(|l| l.size() > 1).copied().collect();
        let Some(first) = moving.first() else {
            return Some(true);
        };
        if moving.iter().any(|l| l.stride.is_zero()) {
            return Some(false);
        }
        match first.stride {
            Stride::Int(_) => is_free(moving.iter().map(mode).collect(), effort),
            Stride::Basis(_) => directions_are_free(&moving, effort),
            Stride::Xor(_) => Some(is_independent(&moving)),
        }
    }
}

/// How much work an answer is worth.
#[derive(Clone, Copy, PartialEq)]
enum Effort {
    Glance,
    Full,
}

/// The size of a stride matters, its sign does not: coordinates can be counted from the other end.
fn mode(leaf: &LeafMode) -> PositiveMode {
    let stride = i128::from(leaf.stride.coefficient().value());
    (stride.abs(), i128::from(leaf.size()))
}

/// Steps along different modes of a coordinate never meet: each direction is decided alone.
fn directions_are_free(modes: &[LeafMode], effort: Effort) -> Option<bool> {
    let mut answer = Some(true);
    for (i, one) in modes.iter().enumerate() {
        if modes[..i].iter().any(|l| is_parallel(one, l)) {
            continue;
        }
        let parallel = modes[i..].iter().filter(|l| is_parallel(one, l));
        match is_free(parallel.map(mode).collect(), effort) {
            Some(true) => {}
            Some(false) => return Some(false),
            None => answer = None,
        }
    }
    answer
}

fn is_parallel(a: &LeafMode, b: &LeafMode) -> bool {
    matches!((a.stride, b.stride), (Stride::Basis(a), Stride::Basis(b)) if a.is_parallel(&b))
}

/// Whether no sum of `x * stride` with `|x| < extent` is 0, other than that of zeros.
fn is_free(mut modes: PositiveModes, effort: Effort) -> Option<bool> {
    modes.sort_unstable();
    while let Some(kept) = tied(&modes) {
        modes = kept;
    }
    let reach: i128 = modes.iter().map(|(d, s)| d * (s - 1)).sum();
    // More coordinates than offsets between the first and the last.
    let size = modes.iter().map(|(_, s)| s).product::<i128>();
    if modes.is_empty() || size > reach + 1 {
        return Some(modes.is_empty());
    }
    let glance = has_no_relation(&modes, &mut Budget(FEW_STEPS));
    if glance.is_some() || effort == Effort::Glance {
        return glance;
    }
    differs_by_halves(&modes).or_else(|| has_no_relation(&modes, &mut Budget(STEPS)))
}

/// The modes that can take part in a sum of 0, where that leaves some out.
///
/// A mode cannot when all others together do not reach its stride, or when the fewest of its steps that are a
/// multiple of the divisor of all others are more than it has.
fn tied(modes: &PositiveModes) -> Option<PositiveModes> {
    let reach: i128 = modes.iter().map(|(d, s)| d * (s - 1)).sum();
    let mut before: SmallVec<[i128; 12]> = SmallVec::new();
    let mut divisor = 0;
    for (d, _) in modes {
        before.push(divisor);
        divisor = gcd(divisor, *d);
    }
    let mut after = 0;
    let mut kept = PositiveModes::new();
    for (&(d, s), before) in modes.iter().zip(before).rev() {
        let others = gcd(before, after);
        // Without other modes, nothing cancels a step.
        let fewest = others / gcd(others, d);
        let most = (s - 1).min((reach - d * (s - 1)) / d);
        if others != 0 && fewest <= most {
            kept.push((d, s));
        }
        after = gcd(after, d);
    }
    kept.reverse();
    (kept.len() < modes.len()).then_some(kept)
}

/// Whether no sum is 0, by trying digits: by symmetry the first step that is taken is taken forwards.
fn has_no_relation(modes: &[PositiveMode], budget: &mut Budget) -> Option<bool> {
    let largest_first = modes.iter().rev();
    let mut terms: SmallVec<[Term; 12]> = largest_first
        .map(|&(stride, s)| Term {
            stride,
            low: 1 - s,
            high: s - 1,
        })
        .collect();
    for first in 0..terms.len() {
        terms[first].low = 1;
        if solve(&terms[first..], 0, budget)?.is_some() {
            return Some(false);
        }
    }
    Some(true)
}

/// Whether no sum is 0, by the differences of offsets in two halves of the modes: those of one half must not be
/// those of the other. `None` where there are too many.
fn differs_by_halves(modes: &[PositiveMode]) -> Option<bool> {
    let mut halves = [(1_i128, PositiveModes::new()), (1, PositiveModes::new())];
    let mut by_extent: PositiveModes = modes.iter().copied().collect();
    by_extent.sort_unstable_by_key(|(_, s)| core::cmp::Reverse(*s));
    for mode in by_extent {
        let smaller = usize::from(halves[1].0 < halves[0].0);
        let half = &mut halves[smaller];
        half.0 = half.0.saturating_mul(2 * mode.1 - 1);
        half.1.push(mode);
    }
    if halves[0].0.saturating_add(halves[1].0) > DIFFERENCES {
        return None;
    }
    let [one, other] = halves.map(|(_, modes)| differences(&modes));
    let zeros = |all: &[i128]| all.iter().filter(|x| **x == 0).count();
    if zeros(&one) > 1 || zeros(&other) > 1 {
        return Some(false);
    }
    // With each difference its negative occurs, so the positive ones tell.
    let mut others = other.iter().copied().filter(|x| *x > 0).peekable();
    let meets = one.iter().filter(|x| **x > 0).any(|x| {
        while others.next_if(|y| y < x).is_some() {}
        others.peek() == Some(x)
    });
    Some(!meets)
}

/// All differences of two offsets of `modes`, in order.
fn differences(modes: &[PositiveMode]) -> Vec<i128> {
    let mut all = Vec::from([0]);
    for (d, s) in modes {
        let steps = 1 - s..*s;
        all = steps
            .flat_map(|x| all.iter().map(move |y| x * d + y))
            .collect();
        // A stable sort finds the runs, which it then merges.
        all.sort();
    }
    all
}

/// Whether the bits of XOR strides are linearly independent.
///
/// A combination of bits that vanishes always lies within the extents, powers of two or not: of the bits that it
/// takes from one mode, the highest is a coordinate, and the others together are a smaller one.
fn is_independent(modes: &[LeafMode]) -> bool {
    let mut pivots: SmallVec<[u128; 8]> = SmallVec::new();
    for leaf in modes {
        let bits = i64::BITS - (leaf.size() - 1).leading_zeros();
        for k in 0..bits {
            let step = (i128::from(leaf.stride.coefficient().value()) << k) as u128;
            let reduced = pivots.iter().fold(step, |v, p| v.min(v ^ p));
            if reduced == 0 {
                return false;
            }
            let at = pivots.partition_point(|p| *p > reduced);
            pivots.insert(at, reduced);
        }
    }
    true
}
