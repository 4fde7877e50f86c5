//! The collectives around a product: what may be sent before it and after it.

use crate::number::error::{Error, at_least, product};
use crate::problem::coord::GemmCoord;
use crate::ranks::Placement;
use crate::ranks::collective::Collective;
use crate::ranks::product::local_product;

/// One way to a product of tensors over ranks: collectives on A and B, the product of what each rank holds, a collective on C.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Route {
    /// What is done with A, and how it lies at the product.
    pub a: (Collective, Placement),
    /// What is done with B, and how it lies at the product.
    pub b: (Collective, Placement),
    /// How the product lies, and what is done with it.
    pub c: (Placement, Collective),
    /// The number of elements that each rank sends.
    pub sent: i64,
    /// The number of multiplications and additions of each rank, M N K over all elements that it computes.
    pub work: i64,
}

impl Route {
    /// Returns all ways from placements of A and B to one of C, of C = A B^T: those that compute least on each rank first,
    /// then those that send least.
    ///
    /// ```
    /// use colex_sched::{Collective, GemmCoord, Placement, Route};
    ///
    /// // The two products of a layer: rows of the activations, columns of the first weights, rows of the second.
    /// let (rows, k) = (Placement::Shard(0), Placement::Shard(1));
    /// let first = Route::all([rows, rows], k, GemmCoord::new(2048, 28672, 8192), 4)?[0];
    /// assert_eq!(first.a.0, Collective::AllGather { mode: 0 });
    /// let second = Route::all([k, k], rows, GemmCoord::new(2048, 8192, 28672), 4)?[0];
    /// assert_eq!(second.c.1, Collective::ReduceScatter { mode: 0 });
    /// assert_eq!((first.sent, second.sent), (3 * 512 * 8192, 3 * 512 * 8192));
    /// # Ok::<(), colex_sched::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// Returns an error for an extent below 1, a count that does not fit in 64 bits, fewer than 1 or more than 65536 ranks, or a
    /// given placement that does not fit its tensor.
    pub fn all(
        [a, b]: [Placement; 2],
        c: Placement,
        problem: GemmCoord,
        ranks: i64,
    ) -> Result<Vec<Route>, Error> {
        let GemmCoord { m, n, k } = problem;
        at_least("extent m of the problem", m, 1)?;
        at_least("extent n of the problem", n, 1)?;
        at_least("extent k of the problem", k, 1)?;
        let shapes = [[m, k], [n, k], [m, n]];
        for (placement, shape) in [a, b, c].into_iter().zip(&shapes) {
            placement.check(shape, ranks)?;
        }
        let work = product("the work of a product", &[m, n, k])?;
        let mut routes = Vec::new();
        for at_a in Placement::all(2) {
            for at_b in Placement::all(2) {
                let Ok(at_c) = local_product(at_a, at_b) else {
                    continue;
                };
                let steps = [
                    Collective::between(a, at_a),
                    Collective::between(b, at_b),
                    Collective::between(at_c, c),
                ];
                let sent = steps.iter().zip(&shapes);
                let sent: Result<Vec<i64>, Error> =
                    sent.map(|(step, shape)| step.sent(shape, ranks)).collect();
                // A mode that is no multiple of the ranks is not sharded on the way.
                let fits = [at_a, at_b, at_c].into_iter().zip(&shapes);
                let fits = fits.map(|(placement, shape)| placement.check(shape, ranks));
                let (Ok(sent), Ok(())) = (sent, fits.collect::<Result<(), Error>>()) else {
                    continue;
                };
                let is_split = [at_a, at_b]
                    .iter()
                    .any(|at| matches!(at, Placement::Shard(_)));
                routes.push(Route {
                    a: (steps[0], at_a),
                    b: (steps[1], at_b),
                    c: (at_c, steps[2]),
                    sent: sent
                        .iter()
                        .try_fold(0i64, |all, x| all.checked_add(*x))
                        .unwrap_or(i64::MAX),
                    work: if is_split { work / ranks } else { work },
                });
            }
        }
        routes.sort_by_key(|route| (route.work, route.sent));
        Ok(routes)
    }
}
