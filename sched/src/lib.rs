#![doc = include_str!("../README.md")]
//!
//! Formulas are written once, over [`Int`]: a picture evaluates them with numbers, a kernel with [`Expr`].

mod as_layout;
mod choose;
mod choose_split;
mod conv;
mod coord;
mod cost;
mod draw;
mod error;
mod expr;
pub mod formula;
pub mod gemv;
mod grouped;
mod lru;
mod order;
mod persistent;
pub mod pipeline;
mod problem;
mod raster;
mod stream_k;
mod stream_k_heuristic;
mod stream_k_share;
mod stream_k_sm90;
mod swizzle;
mod work;

pub use choose::{Candidate, Choice, Device, TiledGemm, choose, choose_among};
pub use choose_split::{SplitCandidate, SplitChoice, choose_split};
pub use conv::{Conv, ConvAxis, ConvOperator, conv2d, conv3d};
pub use coord::{BatchedGemmCoord, Dim3, GemmCoord, Tile};
pub use cost::{
    Quantization, TileBytes, Traffic, WaveCost, fetched_closed_form, l2_traffic, l2_traffic_coarse,
    strip_footprint, wave_costs,
};
pub use error::Error;
pub use expr::{Expr, Int, Op};
pub use grouped::{GroupTile, Grouped};
pub use order::Order;
pub use persistent::{Persistent, RasterChoice, RasterOrder, clusters_exact};
pub use problem::{k_tiles, split_k_range, tiled_shape};
pub use raster::Raster;
pub use stream_k::{StreamK, StreamKDevice, StreamKRole};
pub use stream_k_sm90::{Decomposition, StreamKSm90, StreamKSm90Args};
pub use swizzle::{ThreadblockSwizzle, tile_offset_disagreeing_with_grid};
pub use work::Segment;
