//! Convolutions on the host, plain and in double precision.

use super::problem::ConvolutionProblem;
use crate::error::Error;
use crate::error::ErrorKind;
use crate::gemm::problem::GemmElement;

/// Returns the convolution of compact activations (N,H,W,C) with compact filters (K,R,S,C), as a compact (N,P,Q,K) of doubles.
///
/// ```
/// use colex_gpu::gemm::{ConvolutionProblem, convolution::reference};
///
/// // One image of 1 by 4 pixels, a filter of three ones, padded by one pixel.
/// let problem = ConvolutionProblem::new(1, [1, 4], 1, 1, [1, 3]).padding([0, 1]);
/// let sums = reference::convolution(&problem, &[1f32, 2.0, 3.0, 4.0], &[1f32; 3])?;
/// assert_eq!(sums, [3.0, 6.0, 9.0, 7.0]);
/// # Ok::<(), colex_gpu::Error>(())
/// ```
///
/// # Errors
///
/// Returns the errors of [`ConvolutionProblem::check`], and an error if there are other numbers of elements.
pub fn convolution<T: GemmElement>(
    problem: &ConvolutionProblem,
    x: &[T],
    filters: &[T],
) -> Result<Vec<f64>, Error> {
    let [p, q] = problem.positions()?;
    let ([h, w], [r, s]) = (problem.size, problem.taps);
    let (c, k) = (problem.channels, problem.filters);
    for (found, extents) in [
        (x.len(), [problem.images, h, w, c]),
        (filters.len(), [k, r, s, c]),
    ] {
        let expected = extents.into_iter().fold(1, i64::saturating_mul);
        if found as i64 != expected {
            let expected = expected as usize;
            return Err(ErrorKind::Lengths { found, expected }.into());
        }
    }
    let along = |d: usize, position: i64, tap: i64| {
        let at = position * problem.stride[d] + tap * problem.dilation[d] - problem.padding[d][0];
        (0..problem.size[d]).contains(&at).then_some(at)
    };
    let mut out = Vec::new();
    for n in 0..problem.images {
        for (y, x_position) in (0..p).flat_map(|y| (0..q).map(move |x| (y, x))) {
            for filter in 0..k {
                let mut sum = 0.0;
                for (tap_y, tap_x) in (0..r).flat_map(|i| (0..s).map(move |j| (i, j))) {
                    let (Some(row), Some(column)) =
                        (along(0, y, tap_y), along(1, x_position, tap_x))
                    else {
                        continue;
                    };
                    let pixel = ((n * h + row) * w + column) * c;
                    let tap = ((filter * r + tap_y) * s + tap_x) * c;
                    for channel in 0..c {
                        let number = x[(pixel + channel) as usize].to_f64();
                        sum += number * filters[(tap + channel) as usize].to_f64();
                    }
                }
                out.push(sum);
            }
        }
    }
    Ok(out)
}
