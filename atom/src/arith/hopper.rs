//! The sums of Hopper's tensor cores, bit for bit.
//!
//! PTX leaves the order and the precision of a floating-point sum open. What is written here was found by fitting the
//! results of an H200: 9.36 million elements of 576 atoms (every family, `wgmma` with N = 8 and 64, all options),
//! among them subnormal, overflowing and infinite ones, agreed bit for bit; so did 1.8 million sums in `f16` beside
//! ties between subnormal numbers (`wgmma` and `mma.sync`, dense and sparse). `tests/h200.txt` holds some of them.

use crate::Error;
use crate::mma::{Form, MmaAtom};
use crate::number::{
    FloatFormat, Rounding, Ty, Value, exponent_of, sum_to_odd, times_power_of_two,
};

/// Bits below the largest exponent that take part in a sum.
const FRACTION: i32 = 25;
/// The same for 8-bit floats in `wgmma`, whose `f32` results have no more either.
const FRACTION_FP8: i32 = 13;

/// The least exponent that the terms of a sum in `f16` are aligned to. It shows where C is zero and all products are
/// below 2^-20: what lies below 2^-46 is cut off then.
const LEAST_OF_F16: i32 = -21;
/// The same for sums in `f32`. It shows where the largest product is below 2^-132: what lies below 2^-158 is cut off
/// then. An H200 showed it with `wgmma` and `mma.sync` of bf16 and tf32; both limits are 7 below the format's least
/// normal exponent.
const LEAST_OF_F32: i32 = -133;

/// Numbers and the exponents they are aligned by; that of zero is below all others.
#[derive(Clone, Debug, Default)]
struct Terms {
    values: Vec<f64>,
    exponents: Vec<i32>,
}

/// The exponent of zero: two of them add up to less than any other.
const OF_ZERO: i32 = -1_000_000;

impl MmaAtom {
    /// Returns `D = A B + C` on whole tiles, as the tensor cores of Hopper add floats: bit for bit, NaNs apart.
    ///
    /// All products along K and C are aligned to the largest of their exponents, cut off 25 bits below it (13 for 8-bit
    /// floats in `wgmma`), added exactly, and rounded: towards zero to `f32` (to 13 bits of fraction for 8-bit floats),
    /// to nearest to `f16`. The exponent of a product is the sum of its factors' exponents; subnormal numbers count as
    /// the smallest normal one of their format. In `f16` the terms are aligned to 2^-21 at least, so where C is zero
    /// and all products are small, what lies below 2^-46 is cut off: a sum just beyond the tie between two subnormal
    /// numbers may round like the tie.
    ///
    /// Instructions that Hopper does not have but runs: `m8n8k4` of `f16` is fused multiply-adds in `f32` in ascending
    /// K, then C is added; where all products and C are -0, an H200 gave 0 in `f32` and -0 in `f16`. `mma.sync` of 8-bit floats is two products of halves,
    /// elements 0 and 1 of each four along K and then 2 and 3, and then C is added, to nearest; each of the two sums
    /// may overflow, and an infinity of the other sign then makes a NaN.
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
    /// Returns the errors of [`multiply`](Self::multiply).
    pub fn multiply_on_hopper(
        &self,
        a: &[Value],
        b: &[Value],
        c: &[Value],
    ) -> Result<Vec<Value>, Error> {
        if !self.sums_floats() {
            return self.multiply(a, b, c);
        }
        self.check_tiles(a, b, c)?;
        let [a, b, c] = [a, b, c].map(|x| x.iter().map(|x| x.real()).collect::<Vec<f64>>());
        let singles = |tile: &[f64]| -> Option<Vec<f32>> {
            let single = |x: &f64| Some(*x as f32).filter(|single| f64::from(*single) == *x);
            tile.iter().map(single).collect()
        };
        if let (Some(a), Some(b), Some(mut d)) = (singles(&a), singles(&b), singles(&c))
            && self.sums_side_by_side(&a, &b, &mut d)
        {
            return Ok(d.into_iter().map(|x| Value::Real(x.into())).collect());
        }
        let d = self.sums_one_by_one(&a, &b, &c);
        Ok(d.into_iter().map(Value::Real).collect())
    }

    /// Returns [`multiply_on_hopper`](Self::multiply_on_hopper) for an operation that sums floats, on the numbers
    /// themselves, which all are numbers of `f32`. D takes the place of C.
    ///
    /// # Errors
    ///
    /// Returns the errors of [`multiply`](Self::multiply), and an error for operands of the wrong size, also of an
    /// operation that sums no floats.
    pub fn multiply_reals_on_hopper(
        &self,
        a: &[f32],
        b: &[f32],
        mut c: Vec<f32>,
    ) -> Result<Vec<f32>, Error> {
        self.op()?;
        let [m, n, k] = self.mnk().map(|extent| extent as usize);
        self.check_size('A', a.len(), m * k)?;
        self.check_size('B', b.len(), n * k)?;
        self.check_size('C', c.len(), m * n)?;
        if !self.sums_floats() {
            return Err(self.wrong_operand('C', self.traits().ty_c, "a sum of floats"));
        }
        if !self.sums_side_by_side(a, b, &mut c) {
            let [a, b, wide] =
                [a, b, &c].map(|x| x.iter().map(|x| f64::from(*x)).collect::<Vec<f64>>());
            let d = self.sums_one_by_one(&a, &b, &wide);
            c = d.into_iter().map(|x| x as f32).collect();
        }
        Ok(c)
    }

    /// Returns whether it sums several products of floats into `f16` or `f32`.
    pub fn sums_floats(&self) -> bool {
        matches!(self.traits().ty_c, Ty::F16 | Ty::F32) && self.mnk()[2] > 1
    }

    /// [`sums_one_by_one`](Self::sums_one_by_one) with the rows of D, which takes the place of C, side by side. Returns
    /// false, and leaves C, where it does not know how: for infinities and NaNs in A and B, numbers of more bits than
    /// the formats of A and B have, and pairs of 8-bit floats.
    fn sums_side_by_side(&self, a: &[f32], b: &[f32], c: &mut [f32]) -> bool {
        let [m, n, _] = self.mnk().map(|extent| extent as usize);
        let (traits, options) = (self.traits(), self.options());
        let format = |ty| FloatFormat::of(ty).unwrap_or(FloatFormat::F32);
        let sign = if options.negate_a != options.negate_b {
            -1.0
        } else {
            1.0
        };
        // Each row of B along K.
        let along_k = (0..n).flat_map(|j| b[j..].iter().step_by(n));
        let along_k: Vec<f32> = along_k.map(|x| sign * x).collect();
        let factors = (
            Factor::new(a, format(traits.ty_a)),
            Factor::new(&along_k, format(traits.ty_b)),
        );
        let (Some(a), Some(b)) = factors else {
            return false;
        };
        let format = format(traits.ty_c);
        match self.way() {
            Way::Aligned(fraction) if m.is_multiple_of(16) => {
                aligned_columns::<16>(&a, &b, c, (m, format, fraction));
                true
            }
            Way::Chained if m == 8 => {
                chained_columns::<8>(&a, &b, c, format);
                true
            }
            Way::Aligned(_) | Way::Chained | Way::Pairs => false,
        }
    }

    fn sums_one_by_one(&self, a: &[f64], b: &[f64], c: &[f64]) -> Vec<f64> {
        let (traits, options) = (self.traits(), self.options());
        let negated = options.negate_a != options.negate_b;
        let sign = if negated { -1.0 } else { 1.0 };
        let format = |ty| FloatFormat::of(ty).unwrap_or(FloatFormat::F32);
        let [m, n, _] = self.mnk().map(|extent| extent as usize);
        let a = Terms::rows(a, m, sign, format(traits.ty_a));
        let b = Terms::rows(b, n, 1.0, format(traits.ty_b));
        let format = format(traits.ty_c);
        let sparse = self.rule().is_sparse();
        let way = self.way();
        let mut products = Terms::default();
        let element = |(i, &c): (usize, &f64)| {
            products.multiply(&a[i % m], &b[i / m], sparse);
            way.sum(&products, c, format)
        };
        c.iter().enumerate().map(element).collect()
    }

    /// How this operation sums.
    fn way(&self) -> Way {
        let narrow = self.traits().ty_a.bits() == 8;
        match (self.row().form, self.mnk()) {
            // The atoms of quad-pairs.
            (_, [8, 8, 4]) => Way::Chained,
            (Form::Sync, _) if narrow => Way::Pairs,
            _ if narrow && self.b_in_shared() => Way::Aligned(FRACTION_FP8),
            _ => Way::Aligned(FRACTION),
        }
    }
}

/// A factor of a product: its numbers, and what is known of their bits.
struct Factor {
    values: Vec<f64>,
    /// The exponents that products are aligned by; [`NONE`] for zero.
    exponents: Vec<i16>,
    /// The exponent of the lowest bit that is set; [`NOTHING`] for zero.
    lowest: Vec<i16>,
}

/// The exponent of zero where all are of 16 bits.
const NONE: i16 = -8192;

/// The lowest bit of zero, which has none.
const NOTHING: i16 = 8192;

/// The bits of a binary32's fraction that are zero in all formats of factors: none has more than 11 significant bits.
const BEYOND: u32 = (1 << 12) - 1;

impl Factor {
    /// `None` if a number is not finite, or has too many bits.
    fn new(tile: &[f32], format: FloatFormat) -> Option<Factor> {
        let least = format.min_exponent();
        let mut factor = Factor {
            values: tile.iter().map(|x| f64::from(*x)).collect(),
            exponents: vec![0; tile.len()],
            lowest: vec![0; tile.len()],
        };
        let bits = factor.exponents.iter_mut().zip(&mut factor.lowest);
        let mut fits = true;
        // Without branches and in 32 bits, so that the loop works on several numbers at once.
        for (x, (exponent, lowest)) in tile.iter().zip(bits) {
            let (bits, fraction) = (x.to_bits(), x.to_bits() & ((1 << 23) - 1));
            let field = (bits >> 23 & 0xff) as i32;
            let significand = fraction as i32 | i32::from(field > 0) << 23;
            let last = (significand & significand.wrapping_neg()) as f32;
            let last = (last.to_bits() >> 23) as i32 - 127 - 23;
            let place = field.max(1) - 127;
            let is_zero = bits << 1 == 0;
            *exponent = if is_zero {
                NONE
            } else {
                place.max(least) as i16
            };
            *lowest = if is_zero {
                NOTHING
            } else {
                (place + last) as i16
            };
            fits &= field < 0xff && fraction & BEYOND == 0;
        }
        fits.then_some(factor)
    }
}

/// The sums of [`Way::Aligned`], with `ROWS` rows of D side by side.
///
/// Terms are added to a number of which a place is one unit, so that the addition cuts off what is below. It rounds to
/// the nearest place: half a unit less `2^-25` is taken from each term before, or added to a negative one. A product has
/// at most 22 significant bits and C 24, so what is left of a fraction of a unit is below a half of it for all of
/// its bits.
fn aligned_columns<const ROWS: usize>(
    a: &Factor,
    b: &Factor,
    d: &mut [f32],
    (m, format, fraction): (usize, FloatFormat, i32),
) {
    let blocks = m / ROWS;
    let k = a.values.len() / m;
    let (columns, _) = a.values.as_chunks::<ROWS>();
    let (exponents, _) = a.exponents.as_chunks::<ROWS>();
    let (lowest, _) = a.lowest.as_chunks::<ROWS>();
    let least_of = |column: &[i16; ROWS]| column.iter().fold(NOTHING, |x, y| x.min(*y));
    let lowest: Vec<i16> = lowest.iter().map(least_of).collect();
    let (least_of_c, limit) = (format.min_exponent(), least(format));
    let (d, _) = d.as_chunks_mut::<ROWS>();
    for (block, d) in d.iter_mut().enumerate() {
        let (i, row) = (block % blocks, block / blocks * k);
        let mut largest = [2 * NONE; ROWS];
        for (column, other) in exponents[i..]
            .iter()
            .step_by(blocks)
            .zip(&b.exponents[row..])
        {
            for (largest, x) in largest.iter_mut().zip(column) {
                *largest = x.wrapping_add(*other).max(*largest);
            }
        }
        // The exponents of the units.
        let mut units = [0; ROWS];
        for ((unit, largest), c) in units.iter_mut().zip(largest).zip(&*d) {
            let field = (c.to_bits() >> 23 & 0xff) as i32;
            let of_c = (field - 127).max(least_of_c);
            let of_c = if *c == 0.0 { OF_ZERO } else { of_c };
            *unit = i32::from(largest).max(of_c).max(limit) - fraction;
        }
        let highest = units.iter().fold(i32::MIN, |x, y| x.max(*y));
        let power = |exponent: i32| f64::from_bits(((exponent + 1023) as u64) << 52);
        let bases = units.map(|unit| 1.5 * power(unit + 52));
        let halves = units.map(|unit| power(unit - 1) - power(unit - 25));
        let cut = |x: f64, half: f64| x - half.copysign(x);
        let mut sums = bases;
        for ((sum, c), half) in sums.iter_mut().zip(&*d).zip(&halves) {
            *sum += cut(f64::from(*c), *half);
        }
        for k in 0..k {
            let (at, other) = (i + blocks * k, b.values[row + k]);
            let column = &columns[at];
            if i32::from(lowest[at] + b.lowest[row + k]) >= highest {
                // No product has a bit below a unit: none is cut off.
                for l in 0..ROWS {
                    sums[l] += column[l] * other;
                }
            } else {
                for l in 0..ROWS {
                    sums[l] += cut(column[l] * other, halves[l]);
                }
            }
        }
        for (sum, base) in sums.iter_mut().zip(bases) {
            *sum -= base;
        }
        if format == FloatFormat::F16 {
            let finite = |x: &f32, sum: f64| if x.is_finite() { to_f16(sum) } else { *x };
            *d = core::array::from_fn(|l| finite(&d[l], sums[l]));
            continue;
        }
        const LEAST: f64 = f32::MIN_POSITIVE as f64;
        let plain = |x: f64| x == 0.0 || (LEAST..f32::MAX as f64).contains(&x.abs());
        let all = sums.iter().fold(true, |all, x| all & plain(*x));
        let all = d.iter().fold(all, |all, x| all & x.is_finite());
        *d = core::array::from_fn(|l| {
            if all && fraction == FRACTION {
                // What a binary32 does not have is cut off.
                f64::from_bits(sums[l].to_bits() & !((1 << 29) - 1)) as f32
            } else if d[l].is_finite() {
                finished(sums[l], format, fraction) as f32
            } else {
                d[l]
            }
        });
    }
}

/// The sums of [`Way::Chained`], with the rows of D side by side.
///
/// A sum has 24 significant bits and a product at most 22: where a binary64 does not hold the two, one of them is less
/// than a quarter of the other's last place as a binary32, so that rounding twice gives what rounding once gives.
fn chained_columns<const ROWS: usize>(a: &Factor, b: &Factor, d: &mut [f32], format: FloatFormat) {
    let (columns, _) = a.values.as_chunks::<ROWS>();
    let (d, _) = d.as_chunks_mut::<ROWS>();
    for (d, row) in d.iter_mut().zip(b.values.chunks_exact(columns.len())) {
        let mut sums = [0.0; ROWS];
        for (k, (column, other)) in columns.iter().zip(row).enumerate() {
            for (sum, x) in sums.iter_mut().zip(column) {
                let product = x * other;
                *sum = if k == 0 {
                    product
                } else {
                    f64::from((*sum + product) as f32)
                };
            }
        }
        for (c, sum) in d.iter_mut().zip(sums) {
            let sum = sum + f64::from(*c);
            *c = if format == FloatFormat::F16 {
                to_f16(sum).copysign(sum as f32)
            } else {
                // A zero is positive.
                sum as f32 + 0.0
            };
        }
    }
}

/// The nearest number of binary16; a zero is positive.
fn to_f16(x: f64) -> f32 {
    if !x.is_finite() {
        return x as f32;
    }
    let exponent = ((x.to_bits() >> 52 & 0x7ff) as i64 - 1023).max(-14);
    // A place of this number is one of the result.
    let base = 1.5 * f64::from_bits(((exponent - 10 + 52 + 1023) as u64) << 52);
    let rounded = (x + base) - base;
    if rounded.abs() < 65536.0 {
        rounded as f32
    } else {
        (rounded * f64::INFINITY) as f32
    }
}

/// How an instruction adds its products.
#[derive(Clone, Copy)]
enum Way {
    /// One after the other, then C.
    Chained,
    /// In two halves, then C.
    Pairs,
    /// All terms at once, truncated this number of bits below the largest.
    Aligned(i32),
}

impl Way {
    fn sum(self, products: &Terms, c: f64, format: FloatFormat) -> f64 {
        let ieee = |products: &Terms, c: f64| products.values.iter().sum::<f64>() + c;
        let nearest = |x: f64| {
            if format == FloatFormat::F32 {
                f64::from(x as f32)
            } else {
                format.round(x, Rounding::Nearest)
            }
        };
        let sum = |products: &Terms, c: f64, fraction: i32| match ieee(products, c) {
            infinite if !infinite.is_finite() => infinite,
            _ => finished(aligned(products, c, format, fraction), format, fraction),
        };
        match self {
            Way::Chained if !ieee(products, c).is_finite() => ieee(products, c),
            // A zero of `f32` is positive, one of `f16` has the sign of the sum.
            Way::Chained if format == FloatFormat::F32 => {
                nearest(chained(&products.values) + c) + 0.0
            }
            Way::Chained => nearest(chained(&products.values) + c),
            Way::Pairs => {
                let (first, second) = (products.half(0), products.half(1));
                nearest(c + sum(&second, sum(&first, 0.0, FRACTION), FRACTION))
            }
            Way::Aligned(fraction) => sum(products, c, fraction),
        }
    }
}

/// What a number of a format is aligned by: subnormal ones like the smallest normal one.
fn exponent(value: f64, format: FloatFormat) -> i32 {
    if value != 0.0 && value.is_finite() {
        exponent_of(value.abs()).max(format.min_exponent())
    } else {
        OF_ZERO
    }
}

impl Terms {
    /// The `rows` rows of a tile, each along K.
    fn rows(tile: &[f64], rows: usize, sign: f64, format: FloatFormat) -> Vec<Terms> {
        let row = |row: usize| {
            let values: Vec<f64> = tile[row..].iter().step_by(rows).map(|x| sign * x).collect();
            let exponents = values.iter().map(|x| exponent(*x, format)).collect();
            Terms { values, exponents }
        };
        (0..rows).map(row).collect()
    }

    /// The products of two rows; what a sparse A does not keep meets nothing, not even an infinity.
    fn multiply(&mut self, a: &Terms, b: &Terms, sparse: bool) {
        self.values.clear();
        self.exponents.clear();
        let values = a.values.iter().zip(&b.values);
        let exponents = a.exponents.iter().zip(&b.exponents);
        if sparse {
            let kept = values.zip(exponents).filter(|((a, _), _)| **a != 0.0);
            for ((a, b), (e, f)) in kept {
                self.values.push(a * b);
                self.exponents.push(e + f);
            }
        } else {
            self.values.extend(values.map(|(a, b)| a * b));
            self.exponents.extend(exponents.map(|(a, b)| a + b));
        }
    }

    /// Elements 0 and 1 of each four, or 2 and 3.
    fn half(&self, odd: usize) -> Terms {
        let chosen = |i: &usize| i % 4 / 2 == odd;
        let places = || (0..self.values.len()).filter(chosen);
        Terms {
            values: places().map(|i| self.values[i]).collect(),
            exponents: places().map(|i| self.exponents[i]).collect(),
        }
    }
}

/// The least exponent that the terms of a sum are aligned to.
fn least(format: FloatFormat) -> i32 {
    if format == FloatFormat::F16 {
        LEAST_OF_F16
    } else if format == FloatFormat::F32 {
        LEAST_OF_F32
    } else {
        OF_ZERO
    }
}

/// The sum of what is left of the terms when bits more than `fraction` below the largest exponent are cut off.
fn aligned(products: &Terms, c: f64, format: FloatFormat, fraction: i32) -> f64 {
    if !c.is_finite() {
        return c;
    }
    let of_c = exponent(c, format);
    let largest = products.exponents.iter().fold(of_c, |x, y| x.max(*y));
    if largest < OF_ZERO / 2 {
        return 0.0;
    }
    let unit = largest.max(least(format)) - fraction;
    let scale = times_power_of_two(1.0, -unit);
    // Below 2^27 each, so the conversion only cuts off, and the sum is exact.
    let cut = |value: f64| (value * scale) as i32;
    let sum = products
        .values
        .iter()
        .map(|x| i64::from(cut(*x)))
        .sum::<i64>()
        + i64::from(cut(c));
    times_power_of_two(sum as f64, unit)
}

/// The sum as it leaves the datapath: to nearest in `f16`, else cut off; a zero is positive, too much is infinite.
fn finished(sum: f64, format: FloatFormat, fraction: i32) -> f64 {
    if format == FloatFormat::F32 && fraction == FRACTION {
        return cut_to_f32(sum);
    }
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

/// A binary32, cut off; a zero is positive, too much is infinite.
fn cut_to_f32(sum: f64) -> f64 {
    let nearest = sum as f32;
    let cut = if f64::from(nearest).abs() > sum.abs() && sum.abs() < 2f64.powi(128) {
        f32::from_bits(nearest.to_bits() - 1)
    } else {
        nearest
    };
    if cut == 0.0 { 0.0 } else { cut.into() }
}

/// Fused multiply-adds in `f32`, in ascending K; the products are exact.
fn chained(products: &[f64]) -> f64 {
    let (first, rest) = products.split_first().expect("K is at least 1");
    let add = |sum: f64, term: f64| {
        if sum.is_finite() {
            f64::from(sum_to_odd(sum, term) as f32)
        } else {
            sum
        }
    };
    rest.iter().fold(*first, |sum, &term| add(sum, term))
}

#[cfg(test)]
mod tests {
    use super::{FRACTION, FloatFormat, Terms, Way, aligned, cut_to_f32, times_power_of_two};
    use crate::number::Rounding;

    /// Sums of rows side by side are those of one element after the other, for every atom and numbers of few and of many
    /// bits, near to each other and far apart.
    #[test]
    fn sums_side_by_side_are_sums_one_by_one() {
        let mut state = 1u64;
        let mut draw = move |below: u64| {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            (state >> 11) % below
        };
        let atoms = crate::mma_atoms().filter(|atom| atom.sums_floats() && atom.is_executable());
        let (mut cases, mut fast) = (0u64, [0; 2]);
        for atom in atoms {
            let chained = matches!(atom.way(), Way::Chained);
            assert_eq!(chained, atom.threads() == 8, "{}", atom.name());
            let [m, n, k] = atom.mnk().map(|extent| extent as usize);
            if n > 32 {
                continue;
            }
            let traits = atom.traits();
            for (bits, spread) in [(2, 3), (11, 3), (24, 8), (24, 24), (24, 300)] {
                let mut tile = |ty, count: usize, shift: i32| -> Vec<f64> {
                    let format = FloatFormat::of(ty).unwrap();
                    let mut one = || {
                        let size = draw(1 << bits) as f64 - (1u64 << (bits - 1)) as f64;
                        let power = draw(spread) as i32 - spread as i32 / 2 - bits + shift;
                        let x = format.round(times_power_of_two(size, power), Rounding::Nearest);
                        match draw(4096) {
                            0 => f64::INFINITY,
                            1..100 => 0.0,
                            // All bits are ones: cut off just below a unit, it must not round up.
                            100..600 => {
                                let ones = times_power_of_two(f64::from((1 << 24) - 1), power);
                                format.round(ones.copysign(size), Rounding::Zero)
                            }
                            _ if x.is_finite() => x,
                            _ => -0.0,
                        }
                    };
                    (0..count).map(|_| one()).collect()
                };
                let (a, b) = (tile(traits.ty_a, m * k, 0), tile(traits.ty_b, n * k, 0));
                let c = tile(traits.ty_c, m * n, 2);
                let expected = atom.sums_one_by_one(&a, &b, &c);
                let single = |tile: Vec<f64>| tile.iter().map(|x| *x as f32).collect::<Vec<f32>>();
                let mut found = single(c);
                if !atom.sums_side_by_side(&single(a), &single(b), &mut found) {
                    continue;
                }
                fast[usize::from(chained)] += 1;
                for (found, expected) in found.iter().zip(&expected) {
                    let same = f64::from(*found).to_bits() == expected.to_bits();
                    assert!(
                        same || found.is_nan() && expected.is_nan(),
                        "{}: {found:e} for {expected:e}",
                        atom.name()
                    );
                    cases += 1;
                }
            }
        }
        assert!(fast[0] > 100 && fast[1] > 10, "{fast:?}");
        println!("law sums_side_by_side_are_sums_one_by_one: {cases} cases");
    }

    #[test]
    fn sums_are_cut_below_the_range_and_infinite_from_its_end_on() {
        let end = 2f64.powi(128);
        let largest = f64::from(f32::MAX);
        let below = f64::from_bits(end.to_bits() - 1);
        for sign in [1.0, -1.0] {
            assert_eq!(cut_to_f32(sign * below), sign * largest);
            assert_eq!(cut_to_f32(sign * end), sign * f64::INFINITY);
            assert_eq!(cut_to_f32(sign * 2.0 * end), sign * f64::INFINITY);
        }
        assert_eq!(cut_to_f32(1.0 + 1.5 * 2f64.powi(-23)), 1.0 + 2f64.powi(-23));
        assert!(cut_to_f32(-0.0).is_sign_positive());
    }

    /// Terms beside the tie between 0 and 2^-149, the smallest `f32`: bits below 2^-158 are not seen, for both signs.
    #[test]
    fn sums_below_the_least_exponent_of_f32_are_cut_at_one_place() {
        let sum = |powers: &[i32]| {
            let products = Terms {
                values: powers.iter().map(|p| times_power_of_two(1.0, *p)).collect(),
                exponents: powers.to_vec(),
            };
            aligned(&products, 0.0, FloatFormat::F32, FRACTION)
        };
        let two_to = |p| times_power_of_two(1.0, p);
        assert_eq!(sum(&[-150, -158]), two_to(-150) + two_to(-158));
        assert_eq!(sum(&[-150, -159]), two_to(-150));
        assert_eq!(sum(&[-133, -158]), two_to(-133) + two_to(-158));
        assert_eq!(sum(&[-132, -158]), two_to(-132));
    }
}
