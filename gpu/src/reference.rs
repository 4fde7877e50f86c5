//! Reference implementations on the host, plain and in higher precision.

use colex_layout::{Error, IntoLayout};
use colex_tiled::Operand;
use ndarray::{Array2, ShapeBuilder};

use crate::gemm::problem::{GemmElement, GemmProblem};

/// Copies coordinate by coordinate: `destination[d(i)] = source[s(i)]` for every index `i`.
///
/// ```
/// use colex_gpu::kernels::reference;
///
/// let mut out = [0; 6];
/// reference::copy(&[1, 2, 3, 4, 5, 6], "(2,3):(3,1)", &mut out, "(2,3):(1,2)")?;
/// assert_eq!(out, [1, 4, 2, 5, 3, 6]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Errors
///
/// Returns the errors of [`Layout::offsets`](colex_layout::Layout::offsets).
///
/// # Panics
///
/// Panics if an offset lies outside a slice, or if the layouts have different sizes.
pub fn copy<T: Copy>(
    source: &[T],
    from: impl IntoLayout,
    destination: &mut [T],
    to: impl IntoLayout,
) -> Result<(), Error> {
    let (from, to) = (from.into_layout()?, to.into_layout()?);
    let sizes = [from.size(), to.size()];
    assert_eq!(sizes[0], sizes[1], "{from} and {to} have different sizes");
    for (from, to) in from.offsets()?.zip(to.offsets()?) {
        destination[to as usize] = source[from as usize];
    }
    Ok(())
}

/// Returns one matrix of a problem as an array of doubles.
///
/// # Panics
///
/// Panics if the problem was not checked, or if there are too few elements.
pub fn matrix<T: GemmElement>(problem: &GemmProblem, name: Operand, elements: &[T]) -> Array2<f64> {
    let [rows, columns] = problem.extents(name);
    let layout = problem.layout(name).expect("a checked problem");
    // The offsets in the order of the indices: columns one after the other.
    let offsets = layout.offsets().expect("a checked problem");
    let all = offsets.map(|offset| elements[offset as usize].to_f64());
    let shape = (rows.0 as usize, columns.0 as usize).f();
    Array2::from_shape_vec(shape, all.collect()).expect("a layout of the matrix has its elements")
}

/// Returns `alpha A B^T + beta C` in doubles.
///
/// # Panics
///
/// Panics as [`matrix`] does.
pub fn gemm<A: GemmElement, B: GemmElement, C: GemmElement>(
    problem: &GemmProblem,
    a: &[A],
    b: &[B],
    c: &[C],
) -> Array2<f64> {
    let product = matrix(problem, Operand::A, a).dot(&matrix(problem, Operand::B, b).t());
    match problem.beta {
        0.0 => problem.alpha * product,
        beta => problem.alpha * product + beta * matrix(problem, Operand::C, c),
    }
}

/// Returns the relative error in the Frobenius norm: the norm of the difference over the norm of the expected matrix.
/// It is NaN if an element is.
pub fn relative_error(found: &Array2<f64>, expected: &Array2<f64>) -> f64 {
    let norm = |x: &Array2<f64>| x.iter().map(|x| x * x).sum::<f64>().sqrt();
    norm(&(found - expected)) / norm(expected)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[should_panic(expected = "6:1 and 5:1 have different sizes")]
    fn a_copy_of_another_size_is_no_copy() {
        let _ = copy(&[0; 6], "6:1", &mut [0; 6], "5:1");
    }
}
