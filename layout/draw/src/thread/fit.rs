//! Whether the maps of an instruction go to tiles that fit together.

use alloc::format;

use crate::ThreadValues;
use crate::error::Error;
use crate::table::operand;

/// The tile that the two maps of a copy share.
pub(crate) fn check_sides(
    source: &ThreadValues,
    destination: &ThreadValues,
) -> Result<[i64; 2], Error> {
    let (rows, cols) = (source.rows(), source.cols());
    let (m, n) = (destination.rows(), destination.cols());
    if (m, n) == (rows, cols) {
        return Ok([rows, cols]);
    }
    let why = format!("its tile is {m} by {n}, the source's {rows} by {cols}");
    Err(operand(destination.heading(), &why))
}

/// M, N and K, when the three maps fit together.
pub(crate) fn check_operands(
    c: &ThreadValues,
    a: &ThreadValues,
    b: &ThreadValues,
) -> Result<[i64; 3], Error> {
    let [m, n, k] = [c.rows(), c.cols(), a.cols()];
    let misfit = |what, map: &ThreadValues, rows, cols, r, s| {
        let (have, want) = (
            format!("{} by {}", map.rows(), map.cols()),
            format!("{rows} by {cols}"),
        );
        let why = format!("the tile of {what} is {have}, but {r} x {s} is {want}");
        Err(operand(map.heading(), &why))
    };
    if a.rows() != m {
        return misfit("A", a, m, k, "M", "K");
    }
    if (b.rows(), b.cols()) != (n, k) {
        return misfit("B", b, n, k, "N", "K");
    }
    Ok([m, n, k])
}
