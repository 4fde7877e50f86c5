//! What a tensor map cannot say.

use crate::number::TmaElement;

#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub(crate) enum TmaError {
    #[error("the tile has {tile} elements and the shared-memory layout {shared}")]
    Size { tile: i64, shared: i64 },
    #[error(
        "{shared} does not fill shared memory from 0 on, each element once: TMA writes without gaps"
    )]
    Gaps { shared: String },
    #[error(
        "neighbours in shared memory are not neighbours in the tensor: {order} has no stride of 1 in front \
                 (does the tile select the contiguous mode?)"
    )]
    NoVector { order: String },
    #[error(
        "shared memory runs along {mode} first, and that has stride {stride} in the tensor, not 1: \
                 the majorness of shared memory does not match the tensor's"
    )]
    Major { mode: String, stride: i64 },
    #[error(
        "the mode {mode} of the tensor has stride {stride}: a tensor map walks every mode towards higher addresses"
    )]
    Backwards { mode: String, stride: i64 },
    #[error("a box over {box_layout} needs more than five dimensions")]
    Rank { box_layout: String },
    #[error(
        "dimension {dimension} would join the modes {modes}, which are not one progression of addresses"
    )]
    Joined { dimension: usize, modes: String },
    #[error("dimension {dimension} of the tensor has extent {extent}, not 1 to 2^32")]
    Extent { dimension: usize, extent: i64 },
    #[error(
        "dimension {dimension} of the tensor has a stride of {bytes} bytes, not a multiple of 16 from 0 to below 2^40"
    )]
    Stride { dimension: usize, bytes: i64 },
    #[error("dimension {dimension} of the box has extent {extent}, not 1 to 256")]
    Box { dimension: usize, extent: i64 },
    #[error("a row of the box has {bytes} bytes, not a multiple of 16")]
    Row { bytes: i64 },
    #[error("a row of the box has {bytes} bytes, more than the {span} of its swizzle")]
    Span { bytes: i64, span: i64 },
    #[error(
        "a row of the box has {bytes} bytes, fewer than the {span} of its swizzle: its rows would lie {span} apart"
    )]
    Short { bytes: i64, span: i64 },
    #[error(
        "the box has {bytes} bytes, more than the {most} that a barrier can count and shared memory can hold"
    )]
    Large { bytes: i64, most: i64 },
    #[error("dimension {dimension} has an element stride of {stride}, not 1 to 8")]
    ElementStride { dimension: usize, stride: i64 },
    #[error(
        "{swizzle} on bytes is no TMA swizzle: those are Sw<0..3,4,3>, Sw<2,5,2> and Sw<2,6,2>"
    )]
    Swizzle { swizzle: String },
    #[error(
        "the innermost dimension has an element stride of {stride}: TMA takes each of its elements"
    )]
    Skips { stride: i64 },
    #[error("there is no NaN to stand for elements of {element:?} outside of the tensor")]
    Fill { element: TmaElement },
    #[error("a tensor with its channels in slices of {slice} bytes: {why}")]
    Interleaved { slice: i64, why: &'static str },
    #[error("the tensor is at {address:#x}, which is not a multiple of {align}")]
    Address { address: u64, align: i64 },
    #[error(
        "a box of {extents:?} cannot be cut into {blocks} equal slices from its last dimension on"
    )]
    Multicast { blocks: i64, extents: Vec<i64> },
    #[error("a tensor map has no elements of {text}")]
    Element { text: String },
    #[error("a box has {expected} coordinates, not {found}")]
    Coordinates { expected: usize, found: usize },
    #[error("the box begins {bytes} bytes into a row, not at a multiple of 16")]
    Offset { bytes: i64 },
    #[error(
        "a store begins before the tensor, at {coordinate} along dimension {dimension}: only a load may"
    )]
    Before { dimension: usize, coordinate: i64 },
    #[error("{coord} has no integer at {mode}")]
    Coordinate { coord: String, mode: String },
    #[error("a tensor of {dims:?} with these strides ends beyond 2^63 bytes")]
    Long { dims: Vec<i64> },
    #[error("the coordinate {coordinate} along dimension {dimension} does not fit 32 bits")]
    Wide { dimension: usize, coordinate: i64 },
    #[error("{}", if *im2col { "the tensor map is one for im2col, and the copy is tiled" } else { "the tensor map is tiled, and the copy is one of im2col" })]
    Mode { im2col: bool },
}
