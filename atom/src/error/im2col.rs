//! What a column of pixels cannot be.

use core::fmt;

/// Why there is no such `im2col` tensor map, or no such copy through it.
///
/// Source: the requirements of `cuTensorMapEncodeIm2col`; PTX ISA 5.5.4, im2col mode.
#[non_exhaustive]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Im2colError {
    /// A tensor without pixels, or with too many kinds of coordinates.
    Rank {
        /// Its rank.
        rank: usize,
    },
    /// As many numbers as the tensor has spatial dimensions are needed.
    Spatial {
        /// For what.
        what: &'static str,
        /// How many there should be.
        expected: usize,
        /// How many there were.
        found: usize,
    },
    /// A corner of the pixel box out of the range of its bits.
    Corner {
        /// The dimension of the tensor.
        dimension: usize,
        /// The corner.
        corner: i64,
        /// The least there can be; the most is one less than its opposite.
        least: i64,
    },
    /// A pixel box without a pixel.
    Empty {
        /// The dimension of the tensor.
        dimension: usize,
        /// Its first position.
        first: i64,
        /// Its last.
        last: i64,
    },
    /// A column out of range.
    Column {
        /// Its pixels.
        pixels: i64,
    },
    /// A traversal stride where there is none.
    Step {
        /// The dimension of the tensor: the channels or the images.
        dimension: usize,
        /// The stride.
        stride: i64,
    },
    /// A column that begins outside of the pixel box.
    Outside {
        /// The dimension of the tensor.
        dimension: usize,
        /// Where the column begins.
        coordinate: i64,
        /// The first position of the box.
        first: i64,
        /// The last.
        last: i64,
    },
    /// An offset of the filter out of the range of its bits.
    Offset {
        /// The dimension of the tensor.
        dimension: usize,
        /// The offset.
        offset: i64,
        /// The most there can be.
        most: i64,
    },
    /// A filter that does not fit into the padded image, or has no taps, stride or dilation.
    Taps {
        /// The dimension of the tensor.
        dimension: usize,
        /// The extent of the image along it.
        extent: i64,
    },
    /// Shared memory that is not filled along the channels first and then along the pixels.
    Order,
    /// A pixel, a channel or a tap that there is not.
    Start {
        /// Which of the three.
        what: &'static str,
        /// Its number.
        number: i64,
        /// How many there are.
        of: i64,
    },
}

impl fmt::Display for Im2colError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Im2colError::Rank { rank } => write!(
                f,
                "an im2col map has 3 to 5 dimensions, channels, one to three of pixels, and images, not {rank}"
            ),
            Im2colError::Spatial {
                what,
                expected,
                found,
            } => write!(
                f,
                "there are {found} {what}, not {expected}: one for each dimension between channels and images"
            ),
            Im2colError::Corner {
                dimension,
                corner,
                least,
            } => write!(
                f,
                "the pixel box has a corner at {corner} along dimension {dimension}, not from {least} to {}",
                -(least + 1)
            ),
            Im2colError::Empty {
                dimension,
                first,
                last,
            } => write!(
                f,
                "the pixel box goes from {first} to {last} along dimension {dimension}: there is no pixel in it"
            ),
            Im2colError::Column { pixels } => {
                write!(f, "a column has {pixels} pixels, not 1 to 1024")
            }
            Im2colError::Step { dimension, stride } => write!(
                f,
                "dimension {dimension} has an element stride of {stride}: an im2col map steps over pixels, not over channels \
                 or images"
            ),
            Im2colError::Outside {
                dimension,
                coordinate,
                first,
                last,
            } => write!(
                f,
                "the column begins at {coordinate} along dimension {dimension}, outside of the pixel box from {first} to {last}"
            ),
            Im2colError::Offset {
                dimension,
                offset,
                most,
            } => write!(
                f,
                "the filter's offset along dimension {dimension} is {offset}, not 0 to {most}"
            ),
            Im2colError::Taps { dimension, extent } => write!(
                f,
                "the filter along dimension {dimension} has nowhere to stand: its taps, stride and dilation are at least 1, \
                 and it is no longer than the {extent} pixels with their padding"
            ),
            Im2colError::Order => f.write_str(
                "a column fills shared memory along the channels first, then along the pixels: a layout of (pixels,channels) \
                 whose channels are contiguous",
            ),
            Im2colError::Start { what, number, of } => {
                write!(f, "there is no {what} {number}: there are {of}")
            }
        }
    }
}

impl std::error::Error for Im2colError {}
