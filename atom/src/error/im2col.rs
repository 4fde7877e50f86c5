//! What a column of pixels cannot be.

#[derive(Clone, Copy, Debug, PartialEq, thiserror::Error)]
pub(crate) enum Im2colError {
    #[error(
        "an im2col map has 3 to 5 dimensions, channels, one to three of pixels, and images, not {rank}"
    )]
    Rank { rank: usize },
    #[error(
        "there are {found} {what}, not {expected}: one for each dimension between channels and images"
    )]
    Spatial {
        what: &'static str,
        expected: usize,
        found: usize,
    },
    #[error("the pixel box has a corner at {corner} along dimension {dimension}, not from {least} to {}",
                -(least + 1))]
    Corner {
        dimension: usize,
        corner: i64,
        least: i64,
    },
    #[error(
        "the pixel box goes from {first} to {last} along dimension {dimension}: there is no pixel in it"
    )]
    Empty {
        dimension: usize,
        first: i64,
        last: i64,
    },
    #[error("a column has {pixels} pixels, not 1 to 1024")]
    Column { pixels: i64 },
    #[error(
        "dimension {dimension} has an element stride of {stride}: an im2col map steps over pixels, not over channels \
                 or images"
    )]
    Step { dimension: usize, stride: i64 },
    #[error(
        "the column begins at {coordinate} along dimension {dimension}, outside of the pixel box from {first} to {last}"
    )]
    Outside {
        dimension: usize,
        coordinate: i64,
        first: i64,
        last: i64,
    },
    #[error("the filter's offset along dimension {dimension} is {offset}, not 0 to {most}")]
    Offset {
        dimension: usize,
        offset: i64,
        most: i64,
    },
    #[error(
        "the filter along dimension {dimension} has nowhere to stand: its taps, stride and dilation are at least 1, \
                 and it is no longer than the {extent} pixels with their padding"
    )]
    Taps { dimension: usize, extent: i64 },
    #[error(
        "a column fills shared memory along the channels first, then along the pixels: a layout of (pixels,channels) \
                 whose channels are contiguous"
    )]
    Order,
    #[error("there is no {what} {number}: there are {of}")]
    Start {
        what: &'static str,
        number: i64,
        of: i64,
    },
}
