//! Reductions of the elements of one result in double precision.

use super::problem::ReduceFunction;

/// Returns the function of the elements of a result: of an arg-max and arg-min, the index. A maximum of no elements is -inf.
///
/// ```
/// use colex_gpu::reduce::{ReduceFunction, reference};
///
/// let x = [3.0, -4.0, 3.0];
/// let of = |function| reference::elements(function, &x);
/// assert_eq!(of(ReduceFunction::Norm), 34f64.sqrt());
/// assert_eq!(of(ReduceFunction::ArgMax), 0.0); // the first of both
/// assert!(reference::elements(ReduceFunction::Max, &[1.0, f64::NAN]).is_nan());
/// ```
pub fn elements(function: ReduceFunction, x: &[f64]) -> f64 {
    let sum_of = |of: &dyn Fn(f64) -> f64| x.iter().map(|x| of(*x)).sum::<f64>();
    let best = |is_better: &dyn Fn(f64, f64) -> bool| {
        let mut best: Option<(usize, f64)> = None;
        for (i, &x) in x.iter().enumerate() {
            let takes = match best {
                None => true,
                Some((_, best)) if best.is_nan() => false,
                Some((_, best)) => x.is_nan() || is_better(x, best),
            };
            if takes {
                best = Some((i, x));
            }
        }
        best
    };
    let (most, least) = (best(&|x, y| x > y), best(&|x, y| x < y));
    let index = |best: Option<(usize, f64)>| best.map_or(0.0, |(i, _)| i as f64);
    match function {
        ReduceFunction::Sum => sum_of(&|x| x),
        ReduceFunction::Mean => sum_of(&|x| x) / x.len() as f64,
        ReduceFunction::Max => most.map_or(f64::NEG_INFINITY, |(_, x)| x),
        ReduceFunction::Min => least.map_or(f64::INFINITY, |(_, x)| x),
        ReduceFunction::SquareSum => sum_of(&|x| x * x),
        ReduceFunction::Norm => sum_of(&|x| x * x).sqrt(),
        ReduceFunction::AbsMax => x.iter().fold(0.0, |most: f64, x| most.max(x.abs())),
        ReduceFunction::ArgMax => index(most),
        ReduceFunction::ArgMin => index(least),
    }
}
