//! Functions of one row in double precision.

use super::problem::RowFunction;

/// Returns the function of a row `x`, with the factors and terms of its columns if there are any. `epsilon` is added to the
/// mean of the squares of a norm.
///
/// ```
/// use colex_gpu::rowwise::{RowFunction, reference};
///
/// let y = reference::row(RowFunction::Softmax, &[0.0, 0.0, f64::NEG_INFINITY, 0.0], None, None, 0.0);
/// assert_eq!(y, [1.0 / 3.0, 1.0 / 3.0, 0.0, 1.0 / 3.0]);
/// let y = reference::row(RowFunction::RmsNorm, &[3.0, -3.0], Some(&[1.0, 2.0]), None, 0.0);
/// assert_eq!(y, [1.0, -2.0]);
/// ```
///
/// # Panics
///
/// Panics if there are fewer factors or terms than columns.
pub fn row(
    function: RowFunction,
    x: &[f64],
    weight: Option<&[f64]>,
    bias: Option<&[f64]>,
    epsilon: f64,
) -> Vec<f64> {
    let count = x.len() as f64;
    let sum_of = |of: &dyn Fn(f64) -> f64| x.iter().map(|x| of(*x)).sum::<f64>();
    let top = x.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    let powers = sum_of(&|x| (x - top).exp());
    let mean = sum_of(&|x| x) / count;
    let root = |squares: f64| (squares / count + epsilon).sqrt();
    let length = root(sum_of(&|x| x * x));
    let deviation = root(sum_of(&|x| (x - mean) * (x - mean)));
    let of = |x: f64| match function {
        RowFunction::Softmax => (x - top).exp() / powers,
        RowFunction::LogSoftmax => x - top - powers.ln(),
        RowFunction::RmsNorm => x / length,
        RowFunction::LayerNorm => (x - mean) / deviation,
    };
    let factor = |i: usize| weight.map_or(1.0, |all| all[i]);
    let term = |i: usize| bias.map_or(0.0, |all| all[i]);
    let all = x.iter().enumerate();
    all.map(|(i, x)| of(*x) * factor(i) + term(i)).collect()
}
