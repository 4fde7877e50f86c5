//! Linear equations over bounded integers: is some sum of `digit * stride`, each digit within its range, the target?
//!
//! This is what an inverse look-up and the question of injectivity come down to. In general it is as hard as the
//! knapsack problem, so the search counts its steps and gives up at a bound.

use smallvec::SmallVec;

/// How many digits a question about offsets tries before it gives up.
pub(crate) const STEPS: u32 = 1 << 18;

/// A step count that runs out.
pub(crate) struct Budget(pub(crate) u32);

impl Budget {
    /// Takes one step; `None` when there is none left.
    const fn step(&mut self) -> Option<()> {
        match self.0.checked_sub(1) {
            Some(left) => {
                self.0 = left;
                Some(())
            }
            None => None,
        }
    }
}

/// One term of the sum: a stride, not 0, and the least and the greatest digit.
#[derive(Clone, Copy)]
pub(crate) struct Term {
    pub(crate) stride: i128,
    pub(crate) low: i128,
    pub(crate) high: i128,
}

/// A term with what the terms after it can reach.
///
/// Strides have 64 bits, and so have the sums of all extents; all numbers here stay below 2^127.
struct Level {
    term: Term,
    /// The least and the greatest sum of the terms after it.
    least: i128,
    greatest: i128,
    /// The greatest common divisor of this stride and those after it: it divides what is left of the target.
    gcd: i128,
    /// Digits that leave a multiple of the divisor of the strides after it are this far apart.
    period: i128,
    /// The inverse of `stride / gcd` modulo `period`.
    inverse: i128,
}

pub(crate) type WideDigits = SmallVec<[i128; 12]>;

/// The first digits, term by term from the least on, whose sum is `target`; `Some(None)` when there are none, and
/// `None` when the budget runs out.
pub(crate) fn solve(
    terms: &[Term],
    target: i128,
    budget: &mut Budget,
) -> Option<Option<WideDigits>> {
    let mut levels: SmallVec<[Level; 12]> = SmallVec::new();
    let (mut least, mut greatest, mut rest) = (0, 0, 0);
    for &term in terms.iter().rev() {
        let (gcd, inverse) = gcd_inverse(term.stride, rest);
        levels.push(Level {
            term,
            least,
            greatest,
            gcd,
            period: rest / gcd,
            inverse,
        });
        let ends = [term.low * term.stride, term.high * term.stride];
        least += ends[0].min(ends[1]);
        greatest += ends[0].max(ends[1]);
        rest = gcd;
    }
    levels.reverse();
    let mut digits = WideDigits::from_elem(0, levels.len());
    let found = descend(&levels, target, &mut digits, budget)?;
    Some(found.then_some(digits))
}

fn descend(
    levels: &[Level],
    target: i128,
    digits: &mut [i128],
    budget: &mut Budget,
) -> Option<bool> {
    let Some((level, later)) = levels.split_first() else {
        return Some(target == 0);
    };
    let Some((first, last)) = level.digits(target) else {
        return Some(false);
    };
    let mut digit = first;
    while digit <= last {
        budget.step()?;
        digits[0] = digit;
        if descend(
            later,
            target - digit * level.term.stride,
            &mut digits[1..],
            budget,
        )? {
            return Some(true);
        }
        digit += level.period.max(1);
    }
    Some(false)
}

impl Level {
    /// The first digit, and a bound of the last, with which the terms after it may reach the rest of `target`.
    fn digits(&self, target: i128) -> Option<(i128, i128)> {
        if target % self.gcd != 0 {
            return None;
        }
        let Term { stride, low, high } = self.term;
        // digit * stride lies in target - greatest ..= target - least.
        let (from, to) = if stride > 0 {
            (target - self.greatest, target - self.least)
        } else {
            (self.least - target, self.greatest - target)
        };
        let size = stride.abs();
        let from = low.max(-(-from).div_euclid(size));
        let to = high.min(to.div_euclid(size));
        if self.period == 0 {
            // No term after it: the digit is the quotient.
            return (from <= to).then_some((from, to));
        }
        let residue = (target / self.gcd).rem_euclid(self.period) * self.inverse;
        Some((from + (residue - from).rem_euclid(self.period), to))
    }
}

/// The greatest common divisor of `a` and `b >= 0`, and the inverse of `a / g` modulo `b / g` (0 for `b = 0`).
fn gcd_inverse(a: i128, b: i128) -> (i128, i128) {
    let (mut r, mut next, mut x, mut next_x) = (a, b, 1, 0);
    while next != 0 {
        let q = r.div_euclid(next);
        (r, next) = (next, r - q * next);
        (x, next_x) = (next_x, x - q * next_x);
    }
    match b {
        0 => (r.abs(), 0),
        _ => (r, x.rem_euclid(b / r)),
    }
}

pub(crate) fn gcd(a: i128, b: i128) -> i128 {
    let (mut a, mut b) = (a.abs(), b.abs());
    while b != 0 {
        (a, b) = (b, a % b);
    }
    a
}
