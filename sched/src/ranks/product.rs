//! Products of tensors over ranks: which placement of A and B gives which of C.

use crate::number::error::{Error, ErrorKind};
use crate::ranks::Placement;

/// Returns the placement of C when each rank multiplies what it holds: of C = A B^T, with A of `(M, K)`, B of `(N, K)` and C
/// of `(M, N)`.
///
/// ```
/// use colex_sched::{Placement, local_product};
///
/// let (rows, k) = (Placement::Shard(0), Placement::Shard(1));
/// // Both split along K: each rank has a term of all of C.
/// assert_eq!(local_product(k, k)?, Placement::Partial);
/// assert_eq!(local_product(rows, Placement::Replicate)?, Placement::Shard(0));
/// assert_eq!(
///     local_product(rows, rows).unwrap_err().to_string(),
///     "A sharded along mode 0, B sharded along mode 0: rank 0 has the first rows of A and of B, so no rank computes the \
///      last element of row 0 of C; replicate A or B"
/// );
/// # Ok::<(), colex_sched::Error>(())
/// ```
///
/// # Errors
///
/// Returns an error if what the ranks compute is no placement of C, with an element or a term that no rank computes, or that is
/// computed too often, and what would be right; and for a mode above 1.
pub fn local_product(a: Placement, b: Placement) -> Result<Placement, Error> {
    use Placement::{Partial, Replicate, Shard};
    let wrong = |what: &str| {
        let sentence = format!("A {}, B {}: {what}", short(a), short(b));
        Err(ErrorKind::Placements { sentence }.into())
    };
    match (a, b) {
        (Shard(2..), _) | (_, Shard(2..)) => wrong("a matrix has modes 0 and 1"),
        (Replicate, Replicate) => Ok(Replicate),
        (Shard(0), Replicate) => Ok(Shard(0)),
        (Replicate, Shard(0)) => Ok(Shard(1)),
        (Shard(1), Shard(1)) => Ok(Partial),
        (Partial, Replicate) | (Replicate, Partial) => Ok(Partial),
        (Shard(0), Shard(0)) => wrong(
            "rank 0 has the first rows of A and of B, so no rank computes the last element of row 0 of C; replicate A or B",
        ),
        (Shard(1), Replicate) => wrong(
            "rank 0 has the first columns of A and all of B, and the extents along K differ; slice B along mode 1",
        ),
        (Replicate, Shard(1)) => wrong(
            "rank 0 has all of A and the first columns of B, and the extents along K differ; slice A along mode 1",
        ),
        (Shard(0), Shard(1)) => wrong(
            "rank 0 has all columns of A and the first columns of B, and the extents along K differ; replicate B",
        ),
        (Shard(1), Shard(0)) => wrong(
            "rank 0 has the first columns of A and all columns of B, and the extents along K differ; replicate A",
        ),
        (Partial, Partial) => wrong(
            "no rank multiplies a term of A on rank 0 by a term of B on rank 1; reduce A or B first",
        ),
        (Shard(0), Partial) => wrong(
            "rank 0 multiplies its rows of A by its term of B alone, and no rank by the term of rank 1; reduce B first",
        ),
        (Partial, Shard(0)) => wrong(
            "rank 0 multiplies its term of A by its rows of B alone, and no rank the term of rank 1; reduce A first",
        ),
        (Shard(1), Partial) | (Partial, Shard(1)) => wrong(
            "one operand has a part of K on each rank and the other all of it; reduce the sum along mode 1 first",
        ),
    }
}

fn short(placement: Placement) -> String {
    placement.to_string()
}
