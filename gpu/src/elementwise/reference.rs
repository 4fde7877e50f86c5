//! The host's answers.

use super::rotary::Pairing;

/// Returns the rows of a table of `columns` columns that an index names; those that the table does not have are 0.
///
/// ```
/// use colex_gpu::elementwise::reference;
///
/// assert_eq!(reference::gather(&[1, 2, 3, 4], 2, &[1, -1, 2]), [3, 4, 0, 0, 0, 0]);
/// ```
///
/// # Panics
///
/// Panics if there are no columns.
pub fn gather<T: Copy + Default>(table: &[T], columns: usize, index: &[i64]) -> Vec<T> {
    let rows: Vec<&[T]> = table.chunks_exact(columns).collect();
    let row = |at: &i64| {
        let row = usize::try_from(*at).ok().and_then(|at| rows.get(at));
        row.map_or_else(|| vec![T::default(); columns], |row| row.to_vec())
    };
    index.iter().flat_map(row).collect()
}

/// Returns features whose pairs are turned by angles, in double precision. Features beyond the pairs stay.
///
/// ```
/// use colex_gpu::elementwise::{Pairing, reference};
///
/// let quarter = core::f64::consts::FRAC_PI_2;
/// let turned = reference::rotary(Pairing::Halves, &[1.0, 0.0, 0.0, 2.0, 7.0], &[quarter, 0.0]);
/// assert!((turned[2] - 1.0).abs() < 1e-12 && turned[0].abs() < 1e-12);
/// assert_eq!((turned[1], turned[3], turned[4]), (0.0, 2.0, 7.0));
/// ```
///
/// # Panics
///
/// Panics if there are more pairs than features for them.
pub fn rotary(pairing: Pairing, features: &[f64], angles: &[f64]) -> Vec<f64> {
    let mut turned = features.to_vec();
    for (j, angle) in angles.iter().enumerate() {
        let [at, other] = match pairing {
            Pairing::Interleaved => [2 * j, 2 * j + 1],
            Pairing::Halves => [j, j + angles.len()],
        };
        let ([u, v], (sin, cos)) = ([features[at], features[other]], angle.sin_cos());
        turned[at] = u * cos - v * sin;
        turned[other] = v * cos + u * sin;
    }
    turned
}
