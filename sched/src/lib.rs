#![doc = include_str!("../README.md")]
//!
//! Formulas are written once, over [`Arith`]: a picture evaluates them with numbers, a kernel with [`Expr`].

mod cost;
mod draw;
mod number;
mod order;
pub mod pipeline;
mod problem;
mod ranks;
mod split;

pub use cost::choose::{Candidate, Choice, DeviceModel, TiledGemm, choose, choose_among};
pub use cost::{
    Quantization, TileBytes, Traffic, WaveCost, fetched_closed_form, l2_traffic, l2_traffic_coarse,
    strip_footprint, wave_costs,
};
pub use number::error::Error;
pub use number::expr::{Arith, Expr, Op};
pub use number::formula;
pub use order::Order;
pub use order::grouped::{GroupTile, Grouped};
pub use order::persistent::{Persistent, RasterChoice, RasterOrder, clusters_exact};
pub use order::raster::Raster;
pub use order::swizzle::{ThreadblockSwizzle, tile_offset_disagreeing_with_grid};
pub use problem::conv::{Conv, ConvAxis, ConvOperator, conv2d, conv3d};
pub use problem::coord::{BatchedGemmCoord, Dim3, GemmCoord, Tile};
pub use problem::gemv;
pub use problem::tiles::{k_tiles, split_k_range, tiled_shape};
pub use ranks::Placement;
pub use ranks::collective::Collective;
pub use ranks::layout::RankLayout;
pub use ranks::overlap::{ChunkSpan, ChunkTimes, ChunkWork, Overlap, OverlapPlan};
pub use ranks::product::local_product;
pub use ranks::route::Route;
pub use split::choose::{SplitCandidate, SplitChoice, choose_split};
pub use split::row::StreamKRow;
pub use split::segment::Segment;
pub use split::stream_k::{StreamK, StreamKDevice, StreamKRole};
pub use split::stream_k_sm90::{Decomposition, StreamKSm90, StreamKSm90Args};
