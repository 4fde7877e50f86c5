//! The host's answer, bit for bit.

use colex_atom::Ty;
use colex_tensor::Expr;

use super::kernel::largest;
use crate::error::Error;

/// Returns the scale of a row of numbers, and the numbers quantised by it to `to`, as bits.
///
/// The scale is the largest size in the row over the largest number of the type, rounded to nearest. Each number is multiplied in
/// f32 by the reciprocal of the scale, which is rounded to nearest, and the product is rounded to nearest even, or to the largest
/// number of the type beyond it. A row of zeros has the scale 0, and stays one of zeros. Every other scale is at least the least
/// normal number of f32, since smaller numbers have no reciprocal.
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
    let scale = match most {
        0.0 => 0.0,
        most => (most / largest(to) as f32).max(f32::MIN_POSITIVE),
    };
    let inverse = if scale == 0.0 { 0.0 } else { 1.0 / scale };
    let element = (Expr::input(0, Ty::F32) * Expr::input(1, Ty::F32)).saturating(to);
    let bits = |x: f32| u64::from(x.to_bits());
    let one = |x: &f32| Ok(element.evaluate(&[bits(*x), bits(inverse)])? as u8);
    Ok((scale, x.iter().map(one).collect::<Result<_, Error>>()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// From the largest numbers down to the least one, zeros stay zeros, nothing becomes a NaN, and `s8` is within half a step.
    #[test]
    fn law_numbers_of_every_size_come_back() {
        for exponent in -149..=127 {
            let size = 2f64.powi(exponent) as f32;
            let x = [size, -size / 2.0, 0.0, size / 4.0];
            for to in [Ty::S8, Ty::E4m3, Ty::E5m2] {
                let (scale, q) = row(to, &x).unwrap();
                assert_eq!(q[2], 0, "2^{exponent} to {to}");
                assert!(scale.is_normal(), "2^{exponent} to {to}: {scale}");
                if to != Ty::S8 {
                    let nan = if to == Ty::E4m3 { 0x7f } else { 0x7d };
                    assert!(
                        q.iter().all(|q| q & 0x7f < nan),
                        "2^{exponent} to {to}: {q:?}"
                    );
                    continue;
                }
                for (x, q) in x.iter().zip(q) {
                    let error = f64::from(q as i8) * f64::from(scale) - f64::from(*x);
                    let step = f64::from(scale) * 0.5001;
                    assert!(error.abs() <= step, "2^{exponent}: {x} is {q} of {scale}");
                }
            }
        }
    }
}
