//! The sums of Hopper's tensor cores, bit for bit.
//!
//! PTX leaves the order and the precision of a floating-point sum open. What is written here was found by fitting the
//! results of an H200: 9.36 million elements of 576 atoms (every family, `wgmma` with N = 8 and 64, all options),
//! among them subnormal, overflowing and infinite ones, agreed bit for bit. `tests/h200.txt` holds some of them.

use super::format::{exponent_of, times_power_of_two};
use super::{ExactSum, FloatFormat, Rounding, Value};
use crate::Error;
use crate::mma::{Form, MmaAtom};
use crate::ty::Ty;

/// Bits below the largest exponent that take part in a sum.
const FRACTION: i32 = 25;
/// The same for 8-bit floats in `wgmma`, whose `f32` results have no more either.
const FRACTION_FP8: i32 = 13;

/// A number and the exponent it is aligned by; that of zero is below all others.
#[derive(Clone, Copy)]
struct Term {
    value: f64,
    exponent: i32,
}

/// The exponent of zero: two of them add up to less than any other.
const OF_ZERO: i32 = -1_000_000;

impl MmaAtom {
    /// `D = A B + C` on whole tiles, as the tensor cores of Hopper add floats: bit for bit, NaNs apart.
    ///
    /// All products along K and C are aligned to the largest of their exponents, cut off 25 bits below it (13 for
    /// 8-bit floats in `wgmma`), added exactly, and rounded: towards zero to `f32` (to 13 bits of fraction for 8-bit
    /// floats), to nearest to `f16`. The exponent of a product is the sum of its factors' exponents; subnormal numbers
    /// count as the smallest normal one of their format.
    ///
    /// Instructions that Hopper does not have but runs: `m8n8k4` of `f16` is fused multiply-adds in `f32` in ascending
    /// K, then C is added (the sign of a zero may differ); `mma.sync` of 8-bit floats is two products of halves,
    /// elements 0 and 1 of each four along K and then 2 and 3, and then C is added, to nearest.
    ///
    /// A zero in a sparse A counts as not kept: it meets no infinity. Everything that is not a float sum is
    /// [`multiply`](Self::multiply).
    ///
    /// ```
    /// use colex_atom::{Value, mma};
    ///
    /// // 1 + 3/4 of a last place: the nearest number is the next one; the tensor core cuts off.
    /// let atom = mma("SM80_16x8x8_F32F16F16F32_TN")?;
    /// let (mut a, mut b) = (vec![Value::Real(0.0); 128], vec![Value::Real(0.0); 64]);
    /// let c = [Value::Real(1.0); 128];
    /// (a[0], b[0]) = (Value::Real(3.0 * 2f64.powi(-12)), Value::Real(2f64.powi(-13)));
    /// assert_eq!(atom.multiply(&a, &b, &c)?[0], Value::Real(1.0 + 2f64.powi(-23)));
    /// assert_eq!(atom.multiply_on_hopper(&a, &b, &c)?[0], Value::Real(1.0));
    /// # Ok::<(), colex_atom::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// As [`multiply`](Self::multiply).
    pub fn multiply_on_hopper(
        &self,
        a: &[Value],
        b: &[Value],
        c: &[Value],
    ) -> Result<Vec<Value>, Error> {
        let traits = self.traits();
        let is_float = matches!(traits.ty_c, Ty::F16 | Ty::F32) && self.mnk()[2] > 1;
        if !is_float {
            return self.multiply(a, b, c);
        }
        self.check_tiles(a, b, c)?;
        let options = self.options();
        let sign = if options.negate_a != options.negate_b {
            -1.0
        } else {
            1.0
        };
        let [format_a, format_b] =
            [traits.ty_a, traits.ty_b].map(|ty| FloatFormat::of(ty).unwrap_or(FloatFormat::F32));
        let (a, b) = self.rows(
            a,
            b,
            |x| Term::new(sign * x.real(), format_a),
            |x| Term::new(x.real(), format_b),
        );
        Ok(self.each(c, |m, n, c| {
            let pairs = a[m].iter().zip(&b[n]);
            // What a sparse A does not keep meets nothing, not even an infinity.
            let kept = pairs.filter(|(a, _)| !self.rule().is_sparse() || a.value != 0.0);
            let products: Vec<Term> = kept.map(|(&a, &b)| a.times(b)).collect();
            Value::Real(self.sum_on_hopper(&products, c.real()))
        }))
    }

    fn sum_on_hopper(&self, products: &[Term], c: f64) -> f64 {
        let format = FloatFormat::of(self.traits().ty_c).unwrap_or(FloatFormat::F32);
        let ieee = products.iter().map(|term| term.value).sum::<f64>() + c;
        if !ieee.is_finite() {
            return ieee;
        }
        let narrow = self.traits().ty_a.bits() == 8;
        let fraction = if narrow && self.b_in_shared() {
            FRACTION_FP8
        } else {
            FRACTION
        };
        let nearest = |x| format.round(x, Rounding::Nearest);
        let sum = |products: &[Term], c: f64| {
            finished(
                aligned(products, Term::new(c, format), fraction),
                format,
                fraction,
            )
        };
        match (self.row().form, self.threads()) {
            (_, 8) => nearest(chained(products) + c),
            (Form::Sync, _) if narrow => {
                let pairs = |odd: usize| -> Vec<Term> {
                    let chosen = products
                        .iter()
                        .enumerate()
                        .filter(|(k, _)| k % 4 / 2 == odd);
                    chosen.map(|(_, &term)| term).collect()
                };
                nearest(c + sum(&pairs(1), sum(&pairs(0), 0.0)))
            }
            _ => sum(products, c),
        }
    }
}

impl Term {
    /// A number of a format: subnormal ones are aligned like the smallest normal one.
    fn new(value: f64, format: FloatFormat) -> Self {
        let is_number = value != 0.0 && value.is_finite();
        let exponent = || exponent_of(value.abs()).max(format.min_exponent());
        Term {
            value,
            exponent: if is_number { exponent() } else { OF_ZERO },
        }
    }

    fn times(self, other: Self) -> Self {
        Term {
            value: self.value * other.value,
            exponent: self.exponent + other.exponent,
        }
    }
}

/// The sum of what is left of the terms when bits more than `fraction` below the largest exponent are cut off.
fn aligned(products: &[Term], c: Term, fraction: i32) -> f64 {
    if !c.value.is_finite() {
        return c.value;
    }
    let largest = products
        .iter()
        .fold(c.exponent, |largest, term| largest.max(term.exponent));
    if largest < OF_ZERO / 2 {
        return 0.0;
    }
    let unit = largest - fraction;
    let scale = times_power_of_two(1.0, -unit);
    // Below 2^27 each, so the conversion only cuts off, and the sum is exact.
    let cut = |term: &Term| (term.value * scale) as i64;
    let sum: i64 = products.iter().map(cut).sum::<i64>() + cut(&c);
    times_power_of_two(sum as f64, unit)
}

/// The sum as it leaves the datapath: to nearest in `f16`, else cut off; a zero is positive, too much is infinite.
fn finished(sum: f64, format: FloatFormat, fraction: i32) -> f64 {
    let rounded = match (format == FloatFormat::F32, fraction) {
        (false, _) => format.round(sum, Rounding::Nearest),
        (true, FRACTION_FP8) => FloatFormat::SUM_FP8.round(sum, Rounding::Zero),
        (true, _) => format.round(sum, Rounding::Zero),
    };
    match rounded {
        0.0 => 0.0,
        _ if sum.abs() >= 2f64.powi(128) => sum * f64::INFINITY,
        rounded => rounded,
    }
}

/// Fused multiply-adds in `f32`, in ascending K; the products are exact.
fn chained(products: &[Term]) -> f64 {
    let (first, rest) = products.split_first().expect("K is at least 1");
    rest.iter().fold(first.value, |sum, term| {
        let mut exact = ExactSum::new(sum);
        exact.add(term.value);
        FloatFormat::F32.round(exact.to_odd(), Rounding::Nearest)
    })
}
