//! Pictures of layouts: grids of their offsets, their coordinates, and their tiles.

mod coordinates;
pub(crate) mod grid;
pub(crate) mod tiling;
