//! From a problem to its tiled shape: plain GEMM.

use crate::number::error::{Error, ErrorKind, at_least, ceil_div};
use crate::problem::coord::GemmCoord;

const PROBLEM: [&str; 3] = [
    "extent m of the problem",
    "extent n of the problem",
    "extent k of the problem",
];
const TILE: [&str; 3] = [
    "extent m of the tile",
    "extent n of the tile",
    "extent k of the tile",
];

/// Returns the shape of the problem in tiles: `(ceil(M / tile m), ceil(N / tile n), splits)`.
///
/// Source: `threadblock_swizzle.h`, `get_tiled_shape`.
///
/// # Errors
///
/// Returns an error for an extent, tile extent or split count below 1, or for more splits than k-tiles.
///
/// ```
/// use colex_sched::{GemmCoord, tiled_shape};
/// let tiles = tiled_shape(GemmCoord::new(500, 384, 512), GemmCoord::new(128, 128, 32), 2)?;
/// assert_eq!(tiles, GemmCoord::new(4, 3, 2));
/// # Ok::<(), colex_sched::Error>(())
/// ```
#[doc(alias = "get_tiled_shape")]
pub fn tiled_shape(problem: GemmCoord, tile: GemmCoord, splits: i64) -> Result<GemmCoord, Error> {
    let k_tiles = k_tiles(problem, tile)?;
    at_least("the number of splits", splits, 1)?;
    if splits > k_tiles {
        return Err(ErrorKind::Splits { splits, k_tiles }.into());
    }
    tiled_mn(problem, tile, splits)
}

/// Returns the number of k-tiles of one output tile: `ceil(K / tile k)`.
///
/// # Errors
///
/// Returns an error for an extent or tile extent below 1.
pub fn k_tiles(problem: GemmCoord, tile: GemmCoord) -> Result<i64, Error> {
    let (problem, tile) = (problem.positive(PROBLEM)?, tile.positive(TILE)?);
    Ok(ceil_div(problem.k, tile.k))
}

/// The tiles along m and n, with `depth` as the third extent.
pub(crate) fn tiled_mn(
    problem: GemmCoord,
    tile: GemmCoord,
    depth: i64,
) -> Result<GemmCoord, Error> {
    let (problem, tile) = (problem.positive(PROBLEM)?, tile.positive(TILE)?);
    let shape = GemmCoord::new(
        ceil_div(problem.m, tile.m),
        ceil_div(problem.n, tile.n),
        depth,
    );
    shape.product().map(|_| shape)
}

/// Returns the range of k-tiles of split `split` of `splits`: each of the first `k_tiles % splits` splits gets
/// one k-tile more.
///
/// # Errors
///
/// Returns an error for more splits than k-tiles, for a negative split, or for a split that does not exist.
///
/// ```
/// use colex_sched::split_k_range;
/// let ranges = (0..3).map(|s| split_k_range(10, 3, s)).collect::<Result<Vec<_>, _>>()?;
/// assert_eq!(ranges, [0..4, 4..7, 7..10]);
/// # Ok::<(), colex_sched::Error>(())
/// ```
pub fn split_k_range(k_tiles: i64, splits: i64, split: i64) -> Result<std::ops::Range<i64>, Error> {
    at_least("the number of k-tiles", k_tiles, 1)?;
    at_least("the number of splits", splits, 1)?;
    if splits > k_tiles {
        return Err(ErrorKind::Splits { splits, k_tiles }.into());
    }
    if !(0..splits).contains(&split) {
        return Err(Error::outside("split", [0, 0, split], [1, 1, splits]));
    }
    let (each, extra) = (k_tiles / splits, k_tiles % splits);
    let begin = each * split + extra.min(split);
    Ok(begin..begin + each + i64::from(split < extra))
}
