//! The columns that `im2col` copies are tried with.

use colex_atom::{PixelBox, TensorMap, TmaElement, TmaSwizzle};

use super::{Place, rows};

/// The pixels of a column: more than an image has positions, so that each goes on in the next.
pub(in crate::sweep) const PIXELS: i64 = 24;

/// A column of channels, its first dimension in bytes, and pixels.
pub(in crate::sweep) fn extents(channels: i64) -> Vec<i64> {
    vec![channels, PIXELS]
}

/// The columns of all launches for one element type: within the images at every position; padded, under a tap of the
/// filter; at every second or third position, from the last image on; and, for loads, with positions cut off at the end.
///
/// A store has no offsets, and stays within the images.
pub(in crate::sweep) fn places(
    element: TmaElement,
    rank: usize,
    channels: i64,
    swizzle: TmaSwizzle,
    loads: bool,
) -> Vec<Place> {
    let unit = 16 / element.bytes();
    let plain = Column {
        lower: [0, 0, 0],
        upper: [0, 0, 0],
        step: [1, 1, 1],
        start: [1, 1, 0],
        offsets: [0, 0, 0],
        image: 0,
        channel: 0,
    };
    let strided = Column {
        lower: [1, 0, 0],
        step: [2, 3, 2],
        start: [1, 0, 0],
        image: 1,
        channel: channels / 16,
        ..plain
    };
    let mut columns = vec![plain, strided];
    if loads {
        columns.push(Column {
            lower: [-1, -2, -1],
            upper: [-1, 1, 0],
            start: [0, 1, 0],
            offsets: [2, 1, 1],
            channel: 1,
            ..plain
        });
        columns.push(Column {
            lower: [-3, -1, 0],
            upper: [-2, -1, 1],
            step: [3, 1, 2],
            offsets: [5, 3, 2],
            channel: -1,
            ..plain
        });
    }
    let tensor = Tensor {
        element,
        rank,
        channels,
        swizzle,
    };
    let place = |column: Column| Place {
        coordinates: tensor.start(&column, unit),
        offsets: column.offsets[..rank - 2].to_vec(),
        map: tensor.map(&column),
    };
    columns.into_iter().map(place).collect()
}

/// One column along W, H, D, of which a tensor has the first.
#[derive(Clone, Copy)]
struct Column {
    lower: [i64; 3],
    upper: [i64; 3],
    step: [i64; 3],
    /// How many steps after the first position it begins.
    start: [i64; 3],
    offsets: [i64; 3],
    image: i64,
    /// The first channel, in units of 16 bytes.
    channel: i64,
}

/// Two images, their channels a little more than a column has.
struct Tensor {
    element: TmaElement,
    rank: usize,
    channels: i64,
    swizzle: TmaSwizzle,
}

impl Tensor {
    fn map(&self, column: &Column) -> TensorMap {
        let spatial = self.rank - 2;
        let sizes: &[i64] = match spatial {
            1 => &[11],
            2 => &[5, 4],
            _ => &[4, 3, 2],
        };
        let inner = self.channels / self.element.bytes();
        let dims = [&[2 * inner - 1], sizes, &[2]].concat();
        let pixels = PixelBox {
            lower: column.lower[..spatial].to_vec(),
            upper: column.upper[..spatial].to_vec(),
        };
        let strides = rows(&dims, self.channels);
        let mut map = TensorMap::im2col(self.element, [dims, strides], [inner, PIXELS], pixels);
        map.element_strides[1..=spatial].copy_from_slice(&column.step[..spatial]);
        map.swizzle = self.swizzle;
        map
    }

    fn start(&self, column: &Column, unit: i64) -> Vec<i64> {
        let mut at = vec![column.channel * unit];
        for d in 0..self.rank - 2 {
            at.push(column.lower[d] + column.start[d] * column.step[d]);
        }
        at.push(column.image);
        at
    }
}
