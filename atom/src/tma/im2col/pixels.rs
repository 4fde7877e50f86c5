//! `PixelBox`: which pixels a column walks over.

use crate::error::{Error, Im2colError};
use crate::tma::map::TensorMap;

/// The positions of a filter in each image: what makes a tensor map one for `im2col`.
///
/// The tensor has channels, one to three spatial dimensions W, H, D, and images, in this order. A column begins at one position
/// and goes on along W, then H, then D, then to the next image, as many pixels as the map says; from the last position of
/// a dimension it goes on at the first. Each position is moved by the offset of a filter's tap, and what is then outside
/// of the image is filled. All lists run from W on.
///
/// ```
/// use colex_atom::{PixelBox, TensorMap, TmaElement};
///
/// // Two images of 4 by 4 pixels, 8 channels of 4 bytes; positions from -1 to 2 along both W and H.
/// let pixels = PixelBox { lower: vec![-1, -1], upper: vec![-1, -1] };
/// let map = TensorMap::im2col(TmaElement::F32, [vec![8, 4, 4, 2], vec![32, 128, 512]], [8, 16], pixels);
/// let column = map.loaded_at(&[0, 2, 1, 0], &[0, 0])?;
/// let first_channels = column.iter().step_by(8).map(|element| element.global.map(|byte| byte / 32));
/// let walked: Vec<Option<i64>> = first_channels.collect();
/// assert_eq!(walked[..5], [Some(6), None, Some(8), Some(9), Some(10)]); // (2,1), then W = -1 of the next row
/// assert_eq!(walked[5..10], [None; 5]); // H = -1 of the next image, and W = -1 of its first row
/// assert_eq!(walked[10..], [Some(16), Some(17), Some(18), None, Some(20), Some(21)]);
/// # Ok::<(), colex_atom::Error>(())
/// ```
///
/// Source: `cuTensorMapEncodeIm2col`; PTX ISA 5.5.4, im2col mode; `make_im2col_tma_copy_desc` in
/// `copy_traits_sm90_im2col.hpp`, whose lists run from W on too.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct PixelBox {
    /// The first position along each dimension (`pixelBoxLowerCorner`), counted from the image's first pixel.
    pub lower: Vec<i64>,
    /// The last position along each dimension (`pixelBoxUpperCorner`), counted from the image's last pixel.
    pub upper: Vec<i64>,
}

impl PixelBox {
    /// The least corner there can be, by the spatial dimensions: they share 16 bits, or 5 bits each.
    fn least(&self) -> i64 {
        match self.lower.len() {
            1 => -(1 << 15),
            2 => -(1 << 7),
            _ => -(1 << 4),
        }
    }

    /// The greatest offset of a filter's tap.
    fn most_offset(&self) -> i64 {
        -2 * self.least() - 1
    }

    /// Whether the hardware takes it for a tensor of these extents.
    pub(in crate::tma) fn check(&self, map: &TensorMap) -> Result<(), Error> {
        let rank = map.rank();
        if !(3..=5).contains(&rank) {
            return Err(Im2colError::Rank { rank }.into());
        }
        for (what, corner) in [
            ("lower corners", &self.lower),
            ("upper corners", &self.upper),
        ] {
            spatial(what, rank - 2, corner.len())?;
        }
        for (d, extent) in map.dims[1..rank - 1].iter().enumerate() {
            let (dimension, least) = (d + 1, self.least());
            let corners = [self.lower[d], self.upper[d]];
            if let Some(&corner) = corners.iter().find(|x| !(least..-least).contains(x)) {
                return Err(Im2colError::Corner {
                    dimension,
                    corner,
                    least,
                }
                .into());
            }
            let [first, last] = [self.lower[d], extent - 1 + self.upper[d]];
            if last < first {
                return Err(Im2colError::Empty {
                    dimension,
                    first,
                    last,
                }
                .into());
            }
        }
        let pixels = map.extents[1];
        if !(1..=1024).contains(&pixels) {
            return Err(Im2colError::Column { pixels }.into());
        }
        for dimension in [0, rank - 1] {
            let stride = map.element_strides[dimension];
            if stride != 1 {
                return Err(Im2colError::Step { dimension, stride }.into());
            }
        }
        Ok(())
    }

    /// The first and the last position along a dimension of the tensor; none along channels and images.
    fn range(&self, map: &TensorMap, dimension: usize) -> Option<(i64, i64)> {
        let d = dimension.checked_sub(1)?;
        let (lower, upper) = (self.lower.get(d)?, self.upper.get(d)?);
        Some((*lower, map.dims[dimension] - 1 + upper))
    }

    /// Whether a column may begin there and be moved by these offsets.
    pub(in crate::tma) fn check_start(
        &self,
        map: &TensorMap,
        coordinates: &[i64],
        offsets: &[i64],
    ) -> Result<(), Error> {
        spatial("offsets of the filter", self.lower.len(), offsets.len())?;
        for (d, &offset) in offsets.iter().enumerate() {
            let (dimension, most) = (d + 1, self.most_offset());
            if !(0..=most).contains(&offset) {
                return Err(Im2colError::Offset {
                    dimension,
                    offset,
                    most,
                }
                .into());
            }
        }
        for (dimension, &coordinate) in coordinates.iter().enumerate() {
            if let Some((first, last)) = self.range(map, dimension)
                && !(first..=last).contains(&coordinate)
            {
                return Err(Im2colError::Outside {
                    dimension,
                    coordinate,
                    first,
                    last,
                }
                .into());
            }
        }
        Ok(())
    }

    /// The coordinates of the first channel of each pixel of a column.
    pub(in crate::tma) fn walk(
        &self,
        map: &TensorMap,
        start: &[i64],
        offsets: &[i64],
    ) -> Vec<Vec<i64>> {
        let mut at = start.to_vec();
        let mut column = Vec::new();
        for _ in 0..map.extents[1] {
            let mut pixel = at.clone();
            for (x, offset) in pixel[1..].iter_mut().zip(offsets) {
                *x += offset;
            }
            column.push(pixel);
            self.advance(map, &mut at);
        }
        column
    }

    /// One position further.
    fn advance(&self, map: &TensorMap, at: &mut [i64]) {
        for (dimension, x) in at.iter_mut().enumerate().skip(1) {
            *x += map.element_strides[dimension];
            match self.range(map, dimension) {
                Some((first, last)) if *x > last => *x = first,
                _ => return,
            }
        }
    }
}

/// As many as there are spatial dimensions.
pub(super) fn spatial(what: &'static str, expected: usize, found: usize) -> Result<(), Error> {
    if expected == found {
        Ok(())
    } else {
        Err(Im2colError::Spatial {
            what,
            expected,
            found,
        }
        .into())
    }
}
