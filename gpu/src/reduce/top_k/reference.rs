//! The selection of the elements of one mode on the host.

/// Returns the indices of the `k` largest elements, or the smallest ones, in their order: equal elements by their index, and a NaN
/// as the largest of all, so that it is among the last of the smallest. The kernels have the same indices.
///
/// ```
/// use colex_gpu::reduce::top_k::reference;
///
/// let x = [1.0, f64::NAN, 7.0, -0.0, 7.0, 0.0];
/// assert_eq!(reference::indices(&x, 3, false), [1, 2, 4]);
/// assert_eq!(reference::indices(&x, 6, true), [3, 5, 0, 2, 4, 1]);
/// ```
pub fn indices(x: &[f64], k: usize, smallest: bool) -> Vec<usize> {
    let mut all: Vec<usize> = (0..x.len()).collect();
    // The sort is stable: equal elements stay in the order of their indices.
    all.sort_by(|&a, &b| {
        let (a, b) = (x[a], x[b]);
        let order = (a.is_nan().cmp(&b.is_nan()))
            .then(a.partial_cmp(&b).unwrap_or(core::cmp::Ordering::Equal));
        if smallest { order } else { order.reverse() }
    });
    all.truncate(k);
    all
}
