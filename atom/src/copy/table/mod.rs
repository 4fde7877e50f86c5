//! The table of copy instructions.

mod blackwell;
mod tma;
mod warp;

use super::row::CopyRow;

/// Returns every paragraph of the copy table.
pub fn copy_rows() -> impl Iterator<Item = &'static CopyRow> {
    let memory = blackwell::TENSOR_MEMORY.iter().flatten();
    [warp::ROWS, tma::ROWS, blackwell::ROWS]
        .into_iter()
        .flatten()
        .chain(memory)
}
