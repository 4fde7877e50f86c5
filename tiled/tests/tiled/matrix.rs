//! Matrices of small numbers, and their plain product.

use std::error::Error;

use colex_atom::{Class, Rule, Ty, Value};
use colex_layout::Layout;
use colex_tiled::Tensor;
use ndarray::Array2;

/// Small numbers that every type holds exactly, from a linear congruence (Numerical Recipes' `ranqd1`).
fn numbers(shape: (usize, usize), ty: Ty, seed: &mut u32) -> Array2<f64> {
    let (low, count) = match ty.class() {
        Class::Integer { signed: false } => (0, 1 << ty.bits().min(2)),
        _ => (-2, 5),
    };
    Array2::from_shape_simple_fn(shape, || {
        *seed = seed.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        f64::from(low + (*seed >> 16) as i32 % count)
    })
}

/// Real and imaginary part; the second is zero of a real type.
pub(crate) struct Matrix {
    pub(crate) re: Array2<f64>,
    pub(crate) im: Array2<f64>,
}

impl Matrix {
    pub(crate) fn new(shape: (usize, usize), ty: Ty, seed: &mut u32) -> Self {
        let re = numbers(shape, ty, seed);
        let im = match ty.class() {
            Class::Complex { parts: 2 } => numbers(shape, ty, seed),
            _ => Array2::zeros(shape),
        };
        Self { re, im }
    }

    /// Zeros but for `keep` elements of each group along a row: what a sparse A may be.
    #[allow(dead_code)] // Each test file that includes this one is a crate of its own.
    pub(crate) fn thinned(mut self, keep: usize, group: usize) -> Self {
        for ((i, j), x) in self.re.indexed_iter_mut() {
            // The places kept of a group go through all choices from group to group and from row to row.
            let kept = (0..keep).any(|n| (i + j / group + n * (1 + i % 2)) % group == j % group);
            *x = if kept { *x } else { 0.0 };
        }
        self
    }

    /// The elements in memory under `layout`.
    pub(crate) fn tensor(
        &self,
        layout: &str,
        ty: Ty,
    ) -> Result<Tensor<Vec<Value>>, Box<dyn Error>> {
        let layout: Layout = layout.parse()?;
        let mut data = vec![Value::zero(ty); usize::try_from(layout.cosize()?)?];
        for ((i, j), re) in self.re.indexed_iter() {
            data[usize::try_from(layout.at((i as i64, j as i64))?)?] = match ty.class() {
                Class::Float(_) => Value::Real(*re),
                Class::Integer { .. } => Value::Int(*re as i64),
                Class::Complex { .. } => Value::complex(*re, self.im[[i, j]]),
            };
        }
        Ok(Tensor::new(data, layout)?)
    }
}

/// What the rule says of whole matrices.
pub(crate) fn expected(rule: Rule, a: &Matrix, b: &Matrix, c: &Matrix) -> Matrix {
    let product = |x: &Array2<f64>, y: &Array2<f64>| x.dot(&y.t());
    let ones = Array2::ones(b.re.raw_dim());
    let re = match rule {
        Rule::XorPopc => {
            let either = product(&a.re, &ones) + product(&Array2::ones(a.re.raw_dim()), &b.re);
            either - 2.0 * product(&a.re, &b.re)
        }
        _ => product(&a.re, &b.re) - product(&a.im, &b.im),
    };
    let im = product(&a.re, &b.im) + product(&a.im, &b.re);
    Matrix {
        re: re + &c.re,
        im: im + &c.im,
    }
}

#[allow(dead_code)]
pub(crate) fn zero(shape: (usize, usize)) -> Matrix {
    Matrix {
        re: Array2::zeros(shape),
        im: Array2::zeros(shape),
    }
}
