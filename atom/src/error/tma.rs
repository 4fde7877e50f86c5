//! What a tensor map cannot say.

use core::fmt;

use super::im2col::Im2colError;
use crate::number::TmaElement;

/// Why layouts have no tensor map.
///
/// Source: the assertions of `copy_traits_sm90_tma.hpp`, and the requirements of `cuTensorMapEncodeTiled`.
#[non_exhaustive]
#[derive(Clone, Debug, PartialEq)]
pub enum TmaError {
    /// The tile of the tensor and the layout of shared memory differ in size.
    Size {
        /// The elements of the tile.
        tile: i64,
        /// The elements of the shared-memory layout.
        shared: i64,
    },
    /// The shared-memory layout leaves gaps, or names an address twice.
    Gaps {
        /// The layout.
        shared: String,
    },
    /// Neighbours in shared memory are not neighbours in the tensor.
    NoVector {
        /// What shared memory holds, in order: layout from shared-memory offset to tensor coordinate.
        order: String,
    },
    /// The first dimension is not contiguous in the tensor.
    Major {
        /// The coordinate that runs first in shared memory.
        mode: String,
        /// Its stride in the tensor.
        stride: i64,
    },
    /// More than five dimensions, and the last of them cannot be joined.
    Rank {
        /// The dimensions of the box, as a layout over tensor coordinates.
        box_layout: String,
    },
    /// A dimension of the box joins modes of the tensor that are not one progression.
    Joined {
        /// The dimension.
        dimension: usize,
        /// The modes.
        modes: String,
    },
    /// An extent of the tensor out of range.
    Extent {
        /// The dimension.
        dimension: usize,
        /// Its extent.
        extent: i64,
    },
    /// A stride of the tensor out of range, or not aligned.
    Stride {
        /// The dimension.
        dimension: usize,
        /// Its stride in bytes.
        bytes: i64,
    },
    /// An extent of the box out of range.
    Box {
        /// The dimension.
        dimension: usize,
        /// Its extent.
        extent: i64,
    },
    /// The first row of the box is no whole number of 16-byte units.
    Row {
        /// Its bytes.
        bytes: i64,
    },
    /// The first row of the box is longer than the swizzle's.
    Span {
        /// Its bytes.
        bytes: i64,
        /// The swizzle's.
        span: i64,
    },
    /// The first row of the box is shorter than the swizzle's, which leaves gaps between rows (CUDA Programming Guide,
    /// tensor memory access, swizzle).
    Short {
        /// Its bytes.
        bytes: i64,
        /// The swizzle's.
        span: i64,
    },
    /// An element stride out of range.
    ElementStride {
        /// The dimension.
        dimension: usize,
        /// The stride.
        stride: i64,
    },
    /// A swizzle that the hardware does not have.
    Swizzle {
        /// The swizzle, on bytes where it can be said.
        swizzle: String,
    },
    /// An element stride of the innermost dimension.
    Skips {
        /// The stride.
        stride: i64,
    },
    /// NaNs for elements that are no floats.
    Fill {
        /// The elements.
        element: TmaElement,
    },
    /// Interleaved channels that the hardware does not have, or whose boxes nobody has described.
    Interleaved {
        /// The bytes of a slice.
        slice: i64,
        /// What they would be.
        why: &'static str,
    },
    /// A global address that is not aligned.
    Address {
        /// The address.
        address: u64,
        /// What should divide it.
        align: i64,
    },
    /// The boxes cannot be dealt to so many blocks.
    Multicast {
        /// How many blocks.
        blocks: i64,
        /// The box.
        extents: Vec<i64>,
    },
    /// An element type of another width than the layouts are of.
    Element {
        /// What was asked for.
        text: String,
    },
    /// A coordinate of the wrong rank.
    Coordinates {
        /// How many there should be.
        expected: usize,
        /// How many there were.
        found: usize,
    },
    /// An innermost coordinate that the hardware does not take.
    Offset {
        /// How far the box begins into the row.
        bytes: i64,
    },
    /// A store that begins before the tensor.
    Before {
        /// The dimension.
        dimension: usize,
        /// Its coordinate.
        coordinate: i64,
    },
    /// A coordinate of the tensor that does not say where it is along a mode.
    Coordinate {
        /// The coordinate.
        coord: String,
        /// The mode.
        mode: String,
    },
    /// A tensor whose last byte has no 63-bit offset.
    Long {
        /// Its extents.
        dims: Vec<i64>,
    },
    /// A coordinate that no register of 32 bits holds.
    Wide {
        /// The dimension.
        dimension: usize,
        /// The coordinate.
        coordinate: i64,
    },
    /// A tiled copy through a map for `im2col`, or the other way round.
    Mode {
        /// Whether the map is one for `im2col`.
        im2col: bool,
    },
    /// What is special to `im2col`.
    Im2col(Im2colError),
    /// The layout algebra refused a step.
    Layout(colex_layout::Error),
}

impl fmt::Display for TmaError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            TmaError::Size { tile, shared } => {
                write!(
                    f,
                    "the tile has {tile} elements and the shared-memory layout {shared}"
                )
            }
            TmaError::Gaps { shared } => {
                write!(
                    f,
                    "{shared} does not fill shared memory from 0 on, each element once: TMA writes without gaps"
                )
            }
            TmaError::NoVector { order } => write!(
                f,
                "neighbours in shared memory are not neighbours in the tensor: {order} has no stride of 1 in front \
                 (does the tile select the contiguous mode?)"
            ),
            TmaError::Major { mode, stride } => write!(
                f,
                "shared memory runs along {mode} first, and that has stride {stride} in the tensor, not 1: \
                 the majorness of shared memory does not match the tensor's"
            ),
            TmaError::Rank { box_layout } => {
                write!(f, "a box over {box_layout} needs more than five dimensions")
            }
            TmaError::Joined { dimension, modes } => {
                write!(
                    f,
                    "dimension {dimension} would join the modes {modes}, which are not one progression of addresses"
                )
            }
            TmaError::Extent { dimension, extent } => {
                write!(
                    f,
                    "dimension {dimension} of the tensor has extent {extent}, not 1 to 2^32"
                )
            }
            TmaError::Stride { dimension, bytes } => write!(
                f,
                "dimension {dimension} of the tensor has a stride of {bytes} bytes, not a multiple of 16 from 0 to below 2^40"
            ),
            TmaError::Box { dimension, extent } => {
                write!(
                    f,
                    "dimension {dimension} of the box has extent {extent}, not 1 to 256"
                )
            }
            TmaError::Row { bytes } => write!(
                f,
                "a row of the box has {bytes} bytes, not a multiple of 16"
            ),
            TmaError::Span { bytes, span } => {
                write!(
                    f,
                    "a row of the box has {bytes} bytes, more than the {span} of its swizzle"
                )
            }
            TmaError::Short { bytes, span } => {
                write!(
                    f,
                    "a row of the box has {bytes} bytes, fewer than the {span} of its swizzle: its rows would lie {span} apart"
                )
            }
            TmaError::ElementStride { dimension, stride } => {
                write!(
                    f,
                    "dimension {dimension} has an element stride of {stride}, not 1 to 8"
                )
            }
            TmaError::Swizzle { swizzle } => write!(
                f,
                "{swizzle} on bytes is no TMA swizzle: those are Sw<0..3,4,3>, Sw<2,5,2> and Sw<2,6,2>"
            ),
            TmaError::Skips { stride } => write!(
                f,
                "the innermost dimension has an element stride of {stride}: TMA takes each of its elements"
            ),
            TmaError::Fill { element } => {
                write!(
                    f,
                    "there is no NaN to stand for elements of {element:?} outside of the tensor"
                )
            }
            TmaError::Interleaved { slice, why } => {
                write!(
                    f,
                    "a tensor with its channels in slices of {slice} bytes: {why}"
                )
            }
            TmaError::Address { address, align } => {
                write!(
                    f,
                    "the tensor is at {address:#x}, which is not a multiple of {align}"
                )
            }
            TmaError::Multicast { blocks, extents } => {
                write!(
                    f,
                    "a box of {extents:?} cannot be cut into {blocks} equal slices from its last dimension on"
                )
            }
            TmaError::Element { text } => write!(f, "a tensor map has no elements of {text}"),
            TmaError::Coordinates { expected, found } => {
                write!(f, "a box has {expected} coordinates, not {found}")
            }
            TmaError::Offset { bytes } => {
                write!(
                    f,
                    "the box begins {bytes} bytes into a row, not at a multiple of 16"
                )
            }
            TmaError::Before {
                dimension,
                coordinate,
            } => {
                write!(
                    f,
                    "a store begins before the tensor, at {coordinate} along dimension {dimension}: only a load may"
                )
            }
            TmaError::Coordinate { coord, mode } => write!(f, "{coord} has no integer at {mode}"),
            TmaError::Long { dims } => {
                write!(
                    f,
                    "a tensor of {dims:?} with these strides ends beyond 2^63 bytes"
                )
            }
            TmaError::Wide {
                dimension,
                coordinate,
            } => write!(
                f,
                "the coordinate {coordinate} along dimension {dimension} does not fit 32 bits"
            ),
            TmaError::Mode { im2col: true } => {
                f.write_str("the tensor map is one for im2col, and the copy is tiled")
            }
            TmaError::Mode { im2col: false } => {
                f.write_str("the tensor map is tiled, and the copy is one of im2col")
            }
            TmaError::Im2col(error) => error.fmt(f),
            TmaError::Layout(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for TmaError {}

impl From<Im2colError> for TmaError {
    fn from(error: Im2colError) -> Self {
        TmaError::Im2col(error)
    }
}

impl From<colex_layout::Error> for TmaError {
    fn from(error: colex_layout::Error) -> Self {
        TmaError::Layout(error)
    }
}
