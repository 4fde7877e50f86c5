//! How closely hardware must agree with the host.

use crate::Error;
use crate::mma::MmaAtom;
use crate::number::{FloatFormat, Ty, Value};

/// How closely a result of the hardware must agree with [`MmaAtom::multiply`].
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Exactness {
    /// Bit for bit.
    Bits,
    /// Within `relative * (|c| + Σ |a b|)`, element by element: tensor cores align the terms of a sum to the largest,
    /// drop what falls below, and may round between steps.
    Within {
        /// The bound, relative to the sum of magnitudes.
        relative: f64,
    },
}

impl Exactness {
    /// Returns whether `found` may stand where the host has `expected`, the magnitudes of whose terms add up to
    /// `magnitude`.
    ///
    /// NaN stands for any NaN. Where the host overflows the hardware may stop at the largest number, and the reverse.
    pub fn allows(self, expected: Value, found: Value, magnitude: f64, ty: Ty) -> bool {
        let Exactness::Within { relative } = self else {
            return same(expected, found);
        };
        let (expected, found) = (expected.real(), found.real());
        if expected.is_nan() || found.is_nan() {
            return expected.is_nan() && found.is_nan();
        }
        let largest = FloatFormat::of(ty).map_or(f64::MAX, FloatFormat::max);
        let (expected, found) = (
            expected.clamp(-largest, largest),
            found.clamp(-largest, largest),
        );
        let smallest = FloatFormat::of(ty).map_or(0.0, |format| format.ulp(0.0));
        (expected - found).abs() <= (relative * magnitude).max(smallest)
    }
}

impl MmaAtom {
    /// Returns how closely hardware must agree with [`multiply`](Self::multiply).
    ///
    /// Integers, bits, `f64` and single multiply-adds agree bit for bit. Otherwise each of the K + 1 terms loses less
    /// than one unit of the narrowest datapath known (23 bits below the largest term, 13 for 8-bit floats on Hopper),
    /// and each step along K, of at least four terms, is rounded to the accumulator's type.
    pub fn exactness(&self) -> Exactness {
        let traits = self.traits();
        let k = self.mnk()[2] as f64;
        if k == 1.0
            || traits.ty_c.is_integer()
            || matches!(traits.ty_c, Ty::F64 | Ty::C64 | Ty::Gc64)
        {
            return Exactness::Bits;
        }
        let datapath = if traits.ty_a.bits() == 8 { 13 } else { 23 };
        let fraction = FloatFormat::of(traits.ty_c).map_or(23, |format| format.fraction_bits);
        let (terms, steps) = (k + 1.0, (k / 4.0).ceil());
        let relative = terms * 2f64.powi(-datapath) + steps * 2f64.powi(-(fraction as i32));
        Exactness::Within { relative }
    }

    /// Returns `|c| + Σ |a b|` of each element of D, the scale of [`Exactness::Within`].
    ///
    /// # Errors
    ///
    /// Returns an error if a tile is not of the atom's size.
    pub fn magnitudes(&self, a: &[Value], b: &[Value], c: &[Value]) -> Result<Vec<f64>, Error> {
        self.check_tiles(a, b, c)?;
        let (a, b) = self.rows(a, b, |x| x.real().abs(), |x| x.real().abs());
        // What a sparse A does not keep meets nothing, not even an infinity.
        let kept = |a: f64| !self.rule().is_sparse() || a != 0.0;
        let dot = |a: &[f64], b: &[f64]| {
            let pairs = a.iter().zip(b).filter(|(a, _)| kept(**a));
            pairs.map(|(a, b)| a * b).sum::<f64>()
        };
        Ok(self.each(c, |m, n, c| c.real().abs() + dot(&a[m], &b[n])))
    }
}

/// Equal as numbers, with one NaN for all; `-0` and `0` differ in their bits.
fn same(x: Value, y: Value) -> bool {
    let bits = |x: f64| {
        if x.is_nan() {
            f64::NAN.to_bits()
        } else {
            x.to_bits()
        }
    };
    match (x, y) {
        (Value::Int(_) | Value::Large(_), Value::Int(_) | Value::Large(_)) => x == y,
        _ => x.parts().map(bits) == y.parts().map(bits),
    }
}
