//! The host's answer, bit for bit.

use colex_atom::Ty;
use colex_tensor::Expr;

use super::kernel::largest;
use crate::error::Error;

/// Returns the scale of a row of numbers, and the numbers quantised by it to `to`, as bits.
///
/// The scale is the largest size in the row over the largest number of the type, rounded to nearest. Each number is multiplied in
/// f32 by the reciprocal of the scale, which is rounded to nearest, and the product is rounded to nearest even, or to the largest
/// number of the type beyond it. A row of zeros has the scale 0, and stays one of zeros.
///
/// ```
/// use colex_atom::Ty;
/// use colex_gpu::quantise::reference;
///
/// let (scale, q) = reference::row(Ty::S8, &[1.0, -2.0, 0.25, 0.0])?;
/// assert_eq!((scale, q), (2.0 / 127.0, vec![64, 0x81, 16, 0])); // 63.5 becomes 64, -2 becomes -127
/// # Ok::<(), colex_gpu::Error>(())
/// ```
///
/// # Errors
///
/// Returns an error if the type is not `s8`, `e4m3` or `e5m2`.
pub fn row(to: Ty, x: &[f32]) -> Result<(f32, Vec<u8>), Error> {
    super::problem::check_target(to)?;
    // As the kernel's maximum, this prefers a number to a NaN.
    let most = x.iter().fold(0.0_f32, |most, x| most.max(x.abs()));
    let scale = most / largest(to) as f32;
    let inverse = if scale == 0.0 { 0.0 } else { 1.0 / scale };
    let element = (Expr::input(0, Ty::F32) * Expr::input(1, Ty::F32)).saturating(to);
    let bits = |x: f32| u64::from(x.to_bits());
    let one = |x: &f32| Ok(element.evaluate(&[bits(*x), bits(inverse)])? as u8);
    Ok((scale, x.iter().map(one).collect::<Result<_, Error>>()?))
}
