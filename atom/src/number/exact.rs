//! Sums without rounding.

/// A sum of `f64`s kept exactly, as numbers that do not overlap (Shewchuk 1997, grow-expansion).
///
/// Infinities and NaNs are added the IEEE way beside it.
#[derive(Clone, Debug)]
pub(crate) struct ExactSum {
    /// The sum rounded to nearest.
    top: f64,
    /// What that leaves out, smallest first; nothing as long as `f64` suffices.
    rest: Vec<f64>,
    special: f64,
}

impl ExactSum {
    /// The sum of one term.
    pub(crate) fn new(x: f64) -> Self {
        let (top, special) = if x.is_finite() { (x, 0.0) } else { (0.0, x) };
        ExactSum {
            top,
            rest: Vec::new(),
            special,
        }
    }

    /// Adds one term.
    pub(crate) fn add(&mut self, mut x: f64) {
        if !x.is_finite() {
            self.special += x;
            return;
        }
        let mut kept = 0;
        for i in 0..self.rest.len() {
            let (high, low) = two_sum(x, self.rest[i]);
            if low != 0.0 {
                self.rest[kept] = low;
                kept += 1;
            }
            x = high;
        }
        self.rest.truncate(kept);
        let (high, low) = two_sum(x, self.top);
        if low != 0.0 {
            self.rest.push(low);
        }
        self.top = high;
    }

    /// The sum rounded to odd: exact if it can be, else the neighbour whose last bit is 1.
    ///
    /// Rounding that once more to a format of at most 51 bits of fraction, in any direction, gives what rounding
    /// the exact sum would give (Boldo and Melquiond 2008).
    pub(crate) fn to_odd(&self) -> f64 {
        if self.special != 0.0 || self.special.is_nan() {
            return self.special;
        }
        let mut high = self.top;
        for &part in self.rest.iter().rev() {
            let (sum, low) = two_sum(high, part);
            high = sum;
            if low != 0.0 {
                return odd(high, low);
            }
        }
        high
    }
}

/// `a + b` rounded to odd, of two finite numbers whose sum is finite.
pub(crate) fn sum_to_odd(a: f64, b: f64) -> f64 {
    match two_sum(a, b) {
        (sum, 0.0) => sum,
        (sum, low) => odd(sum, low),
    }
}

/// `a + b` rounded, and what the rounding lost (Knuth).
fn two_sum(a: f64, b: f64) -> (f64, f64) {
    let sum = a + b;
    let b_part = sum - a;
    (sum, (a - (sum - b_part)) + (b - b_part))
}

/// The odd one of the two neighbours that `high + low` lies between.
fn odd(high: f64, low: f64) -> f64 {
    match (high.to_bits() & 1, low > 0.0) {
        (1, _) => high,
        (_, true) => high.next_up(),
        (_, false) => high.next_down(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::number::{FloatFormat, Rounding};

    fn sum(terms: &[f64]) -> f64 {
        let mut sum = ExactSum::new(0.0);
        terms.iter().for_each(|&x| sum.add(x));
        sum.to_odd()
    }

    #[test]
    fn cancellation_loses_nothing() {
        assert_eq!(sum(&[1e300, 1.0, -1e300]), 1.0);
        assert_eq!(
            sum(&[2f64.powi(-149), 2f64.powi(100), -2f64.powi(100)]),
            2f64.powi(-149)
        );
    }

    #[test]
    fn one_rounding_sees_what_two_would_lose() {
        // Halfway between two f32, plus a crumb that f64 cannot hold beside it.
        let halfway = 1.0 + 2f64.powi(-24);
        let nearest = |x| FloatFormat::F32.round(x, Rounding::Nearest);
        assert_eq!(
            nearest(sum(&[halfway, 2f64.powi(-90)])),
            1.0 + 2f64.powi(-23)
        );
        assert_eq!(nearest(sum(&[halfway, -2f64.powi(-90)])), 1.0);
        assert_eq!(nearest(halfway + 2f64.powi(-90)), 1.0);
    }

    #[test]
    fn infinities_and_nans_follow_ieee() {
        assert_eq!(sum(&[1.0, f64::INFINITY]), f64::INFINITY);
        assert!(sum(&[f64::NEG_INFINITY, f64::INFINITY]).is_nan());
        assert!(sum(&[f64::NAN, 1.0]).is_nan());
    }
}
