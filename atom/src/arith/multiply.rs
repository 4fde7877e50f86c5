//! The product of two tiles, by an instruction's rule.

use crate::Error;
use crate::mma::{MmaAtom, Rule};
use crate::number::{Class, ExactSum, FloatFormat, Rounding, Ty, Value};

impl MmaAtom {
    /// Returns `D = A B + C` on whole tiles, by the instruction's own arithmetic.
    ///
    /// `a[m + M*k]`, `b[n + N*k]`, `c[m + M*n]`, as the thread-value layouts number them; a sparse A is given with
    /// its zeros. The result is `d[m + M*n]`.
    ///
    /// - Integers: the exact sum, wrapped to 32 bits or clamped to them (`.satfinite`).
    /// - Bits: `C` plus the number of ones in `A xor B` or `A and B` along K.
    /// - `f64`, and the parts of complex numbers: fused multiply-adds in ascending K, each rounded to nearest.
    /// - Other floats: the exact `C + Σ A B`, rounded once to nearest. Tensor cores align and cut off instead, in ways
    ///   that PTX leaves open and that differ between generations; by how much a result may differ is
    ///   [`exactness`](Self::exactness), and [`multiply_on_hopper`](Self::multiply_on_hopper) is what Hopper gives.
    ///
    /// A zero in a sparse A counts as not kept: it meets no infinity.
    ///
    /// ```
    /// use colex_atom::{Value, mma};
    ///
    /// let atom = mma("SM61_DP4A")?;
    /// let ints = |x: [i64; 4]| x.map(Value::Int);
    /// let d = atom.multiply(&ints([1, 2, 3, 4]), &ints([5, 6, 7, -8]), &[Value::Int(100)])?;
    /// assert_eq!(d, [Value::Int(106)]);
    /// # Ok::<(), colex_atom::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// Returns an error for an atom that is a layout only, or if a tile is not of the atom's size.
    pub fn multiply(&self, a: &[Value], b: &[Value], c: &[Value]) -> Result<Vec<Value>, Error> {
        self.check_tiles(a, b, c)?;
        Ok(match (self.rule(), self.traits().ty_c.class()) {
            (Rule::PlanarComplex | Rule::GaussComplex, _) => self.multiply_complex(a, b, c),
            (_, Class::Integer { .. }) => self.multiply_integers(a, b, c),
            _ => self.multiply_reals(a, b, c),
        })
    }

    /// Refuses tiles that are not of the atom's size, and rows that compute nothing.
    pub(super) fn check_tiles(&self, a: &[Value], b: &[Value], c: &[Value]) -> Result<(), Error> {
        self.op()?;
        let [m, n, k] = self.mnk().map(|extent| extent as usize);
        self.check_size('A', a.len(), m * k)?;
        self.check_size('B', b.len(), n * k)?;
        self.check_size('C', c.len(), m * n)
    }

    pub(super) fn check_size(
        &self,
        operand: char,
        found: usize,
        expected: usize,
    ) -> Result<(), Error> {
        if found == expected {
            return Ok(());
        }
        let [expected, found] = [expected, found].map(|size| format!("a tile of {size} elements"));
        Err(self.wrong_operand(operand, expected, found))
    }

    fn multiply_reals(&self, a: &[Value], b: &[Value], c: &[Value]) -> Vec<Value> {
        let options = self.options();
        let sign = if options.negate_a != options.negate_b {
            -1.0
        } else {
            1.0
        };
        let (a, b) = self.rows(a, b, |x| sign * x.real(), Value::real);
        let format = FloatFormat::of(self.traits().ty_c).expect("reals accumulate in reals");
        let dot = |a: &[f64], b: &[f64], c: Value| match self.traits().ty_c {
            Ty::F64 => dot_f64(a, b, c.real()),
            // What a sparse A does not keep meets nothing, not even an infinity.
            _ if self.rule().is_sparse() => {
                let kept = a.iter().zip(b).filter(|(a, _)| **a != 0.0);
                format.round(dot_exact(kept, c.real()), Rounding::Nearest)
            }
            _ => format.round(dot_exact(a.iter().zip(b), c.real()), Rounding::Nearest),
        };
        self.each(c, |m, n, c| Value::Real(dot(&a[m], &b[n], c)))
    }

    fn multiply_integers(&self, a: &[Value], b: &[Value], c: &[Value]) -> Vec<Value> {
        let (a, b) = self.rows(a, b, Value::int, Value::int);
        let term = |a: i64, b: i64| match self.rule() {
            Rule::XorPopc => a ^ b,
            Rule::AndPopc => a & b,
            _ => a * b,
        };
        let clamp = |x: i64| {
            if self.saturates() {
                x.clamp(i32::MIN.into(), i32::MAX.into())
            } else {
                i64::from(x as i32)
            }
        };
        // Sums of products of bytes and bits fit into 32 bits: many at once.
        if let (Some(a), Some(b)) = (bytes(&a), bytes(&b)) {
            let sum = |a: &[i16], b: &[i16]| -> i32 {
                let pairs = a.iter().zip(b);
                match self.rule() {
                    Rule::XorPopc => pairs.map(|(a, b)| i32::from(a ^ b)).sum(),
                    Rule::AndPopc => pairs.map(|(a, b)| i32::from(a & b)).sum(),
                    _ => pairs.map(|(a, b)| i32::from(*a) * i32::from(*b)).sum(),
                }
            };
            return self.each(c, |m, n, c| {
                Value::Int(clamp(c.int() + i64::from(sum(&a[m], &b[n]))))
            });
        }
        self.each(c, |m, n, c| {
            let sum: i64 = a[m].iter().zip(&b[n]).map(|(&a, &b)| term(a, b)).sum();
            Value::Int(clamp(c.int() + sum))
        })
    }

    fn multiply_complex(&self, a: &[Value], b: &[Value], c: &[Value]) -> Vec<Value> {
        let part = |i: usize| move |x: Value| x.parts()[i];
        let sum = |x: Value| x.parts()[0] + x.parts()[1];
        let (a_re, b_re) = self.rows(a, b, part(0), part(0));
        let (a_im, b_im) = self.rows(a, b, part(1), part(1));
        let (a_sum, b_sum) = self.rows(a, b, sum, sum);
        let (minus_a_im, _) = self.rows(a, b, |x| -x.parts()[1], part(1));
        self.each(c, |m, n, c| {
            let c = c.parts();
            if self.rule() == Rule::GaussComplex {
                return Value::Complex([
                    dot_f64(&a_re[m], &b_re[n], c[0]),
                    dot_f64(&a_im[m], &b_im[n], c[1]),
                    dot_f64(&a_sum[m], &b_sum[n], c[2]),
                ]);
            }
            let re = dot_f64(&a_re[m], &b_re[n], c[0]);
            let im = dot_f64(&a_im[m], &b_re[n], c[1]);
            Value::complex(
                dot_f64(&minus_a_im[m], &b_im[n], re),
                dot_f64(&a_re[m], &b_im[n], im),
            )
        })
    }

    /// The rows of A and of B, each along K.
    pub(super) fn rows<T>(
        &self,
        a: &[Value],
        b: &[Value],
        of_a: impl Fn(Value) -> T,
        of_b: impl Fn(Value) -> T,
    ) -> (Vec<Vec<T>>, Vec<Vec<T>>) {
        let [m, n, _] = self.mnk().map(|extent| extent as usize);
        let a = (0..m)
            .map(|row| a[row..].iter().step_by(m).map(|&x| of_a(x)).collect())
            .collect();
        let b = (0..n)
            .map(|row| b[row..].iter().step_by(n).map(|&x| of_b(x)).collect())
            .collect();
        (a, b)
    }

    /// The tile of C and D, element by element.
    pub(super) fn each<T>(&self, c: &[Value], f: impl Fn(usize, usize, Value) -> T) -> Vec<T> {
        let m = self.mnk()[0] as usize;
        c.iter()
            .enumerate()
            .map(|(i, &c)| f(i % m, i / m, c))
            .collect()
    }
}

/// Rows along K of numbers of a byte, signed or not, if they are: at most 2^14 of them.
fn bytes(rows: &[Vec<i64>]) -> Option<Vec<Vec<i16>>> {
    let byte = |x: &i64| (-256..256).contains(x).then_some(*x as i16);
    let short = |row: &Vec<i64>| row.len() <= 1 << 14;
    let rows = rows
        .iter()
        .map(|row| -> Option<Vec<i16>> { short(row).then(|| row.iter().map(byte).collect())? });
    rows.collect()
}

/// `c + Σ a b`, rounded to odd: products of the narrow formats are exact in `f64`.
fn dot_exact<'a>(pairs: impl Iterator<Item = (&'a f64, &'a f64)>, c: f64) -> f64 {
    let mut sum = ExactSum::new(c);
    pairs.for_each(|(a, b)| sum.add(a * b));
    sum.to_odd()
}

/// `c + Σ a b` by fused multiply-adds in ascending K.
fn dot_f64(a: &[f64], b: &[f64], c: f64) -> f64 {
    a.iter().zip(b).fold(c, |sum, (&a, &b)| a.mul_add(b, sum))
}
