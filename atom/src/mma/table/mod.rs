//! The table of matrix-multiply instructions, a file for each group of architectures.

mod blackwell;
mod gmma;
mod sm61_70_75;
mod sm80;
mod sm89_90;

use super::row::MmaRow;

/// Returns every paragraph of the table, oldest architecture first.
pub fn rows() -> impl Iterator<Item = &'static MmaRow> {
    let tables: [&'static [MmaRow]; 5] = [
        sm61_70_75::ROWS,
        sm80::ROWS,
        sm89_90::ROWS,
        gmma::ROWS,
        blackwell::ROWS,
    ];
    tables.into_iter().flatten()
}
