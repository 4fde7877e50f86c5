//! The threadblock swizzle of batched matrix-vector products.

use crate::number::error::{Error, ErrorKind, at_least, ceil_div, product};
use crate::problem::coord::{BatchedGemmCoord, Dim3};

/// Returns a batched GEMV in tiles: m is always 1. Source: `GemvBatchedStridedThreadblockDefaultSwizzle`.
///
/// # Errors
///
/// Returns an error for an extent below 1.
///
/// ```
/// use colex_sched::{BatchedGemmCoord, Dim3, gemv};
/// let tiles = gemv::tiled_shape(BatchedGemmCoord::new(1, 500, 300, 15), BatchedGemmCoord::new(1, 256, 64, 3))?;
/// assert_eq!(tiles, BatchedGemmCoord::new(1, 2, 5, 5));
/// assert_eq!(gemv::grid_shape(tiles)?, Dim3::new(2, 5, 5));
/// # Ok::<(), colex_sched::Error>(())
/// ```
pub fn tiled_shape(
    problem: BatchedGemmCoord,
    tile: BatchedGemmCoord,
) -> Result<BatchedGemmCoord, Error> {
    let check = |whose: [&'static str; 4], c: BatchedGemmCoord| {
        whose
            .into_iter()
            .zip([c.m, c.n, c.k, c.batch])
            .try_for_each(|(what, value)| at_least(what, value, 1).map(drop))
    };
    check(
        [
            "extent m of the problem",
            "extent n of the problem",
            "extent k of the problem",
            "the number of batches",
        ],
        problem,
    )?;
    check(
        [
            "extent m of the tile",
            "extent n of the tile",
            "extent k of the tile",
            "the batches of a tile",
        ],
        tile,
    )?;
    Ok(BatchedGemmCoord::new(
        1,
        ceil_div(problem.n, tile.n),
        ceil_div(problem.k, tile.k),
        ceil_div(problem.batch, tile.batch),
    ))
}

/// Returns the grid: n, batch, k.
///
/// # Errors
///
/// Returns an error for an extent below 1, or for a grid no device launches.
pub fn grid_shape(tiled: BatchedGemmCoord) -> Result<Dim3, Error> {
    Dim3::new(tiled.n, tiled.batch, tiled.k).launchable()
}

/// Returns the tile of a block; `None` outside the grid.
pub fn tile_offset(tiled: BatchedGemmCoord, block: Dim3) -> Option<BatchedGemmCoord> {
    let grid = Dim3::new(tiled.n, tiled.batch, tiled.k);
    grid.contains(block)
        .then_some(BatchedGemmCoord::new(0, block.x, block.z, block.y))
}

/// Returns the block of a tile; `None` outside the problem.
pub fn block_of(tiled: BatchedGemmCoord, tile: BatchedGemmCoord) -> Option<Dim3> {
    let block = Dim3::new(tile.n, tile.batch, tile.k);
    tile_offset(tiled, block)
        .filter(|found| *found == tile)
        .map(|_| block)
}

/// Returns the batch of one row of threads: `batches of a tile` rows share a block.
///
/// # Errors
///
/// Returns an error for a block, rows or a thread below 0, or if a count does not fit in 64 bits.
pub fn batch_index(block: Dim3, block_rows: i64, thread_y: i64) -> Result<i64, Error> {
    at_least("y of the block", block.y, 0)?;
    at_least("the rows of threads of a block", block_rows, 0)?;
    at_least("y of the thread", thread_y, 0)?;
    product("the batch", &[block_rows, block.y])?
        .checked_add(thread_y)
        .ok_or_else(|| ErrorKind::Overflow { what: "the batch" }.into())
}
