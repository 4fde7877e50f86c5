//! What one instruction moves, element by element.
//!
//! Three of its rules are in no manual; they were seen on an H200 (driver API 13.0), for every shape tried: the
//! innermost coordinate is a multiple of 16 bytes, or the kernel ends in an illegal instruction; so it does when a
//! store begins before the tensor, though a load may; a load fills beyond the end of a row to the element, a store
//! writes whole units of 16 bytes.

use super::im2col::PixelBox;
use super::map::TensorMap;
use crate::copy::MAX_TRANSACTION_BYTES;
use crate::error::{Error, TmaError};

/// What a bound, an address or a coordinate of TMA is a multiple of, in bytes.
const UNIT: i64 = 16;

/// One element of a box.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct BoxElement {
    /// Its byte in the tensor, counted from the tensor's beginning; `None` outside, where a load brings the fill
    /// value and a store writes nothing.
    pub global: Option<i64>,
    /// Its byte in shared memory, counted from the box's beginning, before the swizzle.
    pub shared: i64,
}

impl TensorMap {
    /// Checks that the map is one for copies in `im2col` mode, or one for tiled copies.
    ///
    /// # Errors
    ///
    /// Returns an error if it is of the other mode.
    pub fn check_mode(&self, im2col: bool) -> Result<(), Error> {
        if self.im2col.is_some() == im2col {
            return Ok(());
        }
        Err(TmaError::Mode { im2col: !im2col }.into())
    }

    /// Returns the elements that a tiled load brings from these coordinates, in the order of shared memory.
    ///
    /// The swizzle permutes *addresses*: element `e` of a box at shared address `a` lies at
    /// `swizzle.on_bytes().apply(a + e.shared)`.
    ///
    /// # Errors
    ///
    /// Returns the errors of [`check`](Self::check), and an error for a box of more than
    /// [`MAX_TRANSACTION_BYTES`](crate::MAX_TRANSACTION_BYTES), if there are not as many coordinates as dimensions, if
    /// the innermost is not a multiple of 16 bytes, and an error if the map is one for `im2col`.
    pub fn loaded(&self, coordinates: &[i64]) -> Result<Vec<BoxElement>, Error> {
        self.check_mode(false)?;
        self.check_coordinates(coordinates)?;
        Ok(self.elements(coordinates, &[], self.dims[0]))
    }

    /// Returns the elements that an `im2col` load brings: of the column that begins at these coordinates, each pixel
    /// moved by these offsets of the filter along W, H, D. Channels come first, then pixels.
    ///
    /// # Errors
    ///
    /// Returns the errors of [`loaded`](Self::loaded), and an error if the map is tiled, for a column that begins
    /// outside of the pixel box, and an error for wrong offsets.
    pub fn loaded_at(
        &self,
        coordinates: &[i64],
        offsets: &[i64],
    ) -> Result<Vec<BoxElement>, Error> {
        let Some(pixels) = &self.im2col else {
            return Err(TmaError::Mode { im2col: false }.into());
        };
        self.check_coordinates(coordinates)?;
        pixels.check_start(self, coordinates, offsets)?;
        Ok(self.elements(coordinates, offsets, self.dims[0]))
    }

    /// Returns the elements that a store takes to these coordinates, in the order of shared memory: to a box, or to the
    /// pixels of a column.
    ///
    /// A row that is no multiple of 16 bytes has [`store_tail`](Self::store_tail): what follows it is overwritten.
    ///
    /// # Errors
    ///
    /// Returns the errors of [`loaded`](Self::loaded), and an error if a coordinate is negative, and an error for a
    /// column that begins outside of the pixel box.
    pub fn stored(&self, coordinates: &[i64]) -> Result<Vec<BoxElement>, Error> {
        self.check_coordinates(coordinates)?;
        if let Some(dimension) = coordinates.iter().position(|x| *x < 0) {
            return Err(TmaError::Before {
                dimension,
                coordinate: coordinates[dimension],
            }
            .into());
        }
        let offsets = vec![0; self.im2col.as_ref().map_or(0, |pixels| pixels.lower.len())];
        if let Some(pixels) = &self.im2col {
            pixels.check_start(self, coordinates, &offsets)?;
        }
        let row = self.dims[0] + self.store_tail() / self.element.bytes();
        Ok(self.elements(coordinates, &offsets, row))
    }

    /// Returns the bytes after the end of each row that a store writes too, if its box reaches there.
    ///
    /// ```
    /// # use colex_atom::{TmaElement, TmaPlan, TmaTile};
    /// # use colex_layout::{ComposedLayout, Layout};
    /// // Rows of 254 elements, 256 apart: the last two are in no tensor, and a store writes them.
    /// let (global, shared) = ("(200,254):(256,1)", "(64,32):(32,1)");
    /// let plan = TmaPlan::new(TmaTile { global, tile: (64, 32), shared, element: TmaElement::F32, multicast: 1 })?;
    /// assert_eq!(plan.map().store_tail(), 2 * 4);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn store_tail(&self) -> i64 {
        (-self.dims[0] * self.innermost_bytes()).rem_euclid(UNIT)
    }

    fn check_coordinates(&self, coordinates: &[i64]) -> Result<(), Error> {
        self.check()?;
        if self.box_bytes() > MAX_TRANSACTION_BYTES {
            return Err(TmaError::Large {
                bytes: self.box_bytes(),
                most: MAX_TRANSACTION_BYTES,
            }
            .into());
        }
        if coordinates.len() != self.rank() {
            return Err(TmaError::Coordinates {
                expected: self.rank(),
                found: coordinates.len(),
            }
            .into());
        }
        let wide = |x: &i64| i32::try_from(*x).is_err();
        if let Some(dimension) = coordinates.iter().position(wide) {
            return Err(TmaError::Wide {
                dimension,
                coordinate: coordinates[dimension],
            }
            .into());
        }
        let bytes = coordinates[0] * self.innermost_bytes();
        if bytes % UNIT == 0 {
            Ok(())
        } else {
            Err(TmaError::Offset { bytes }.into())
        }
    }

    /// The elements of a box or a column in a tensor whose rows end at `row`.
    fn elements(&self, coordinates: &[i64], offsets: &[i64], row: i64) -> Vec<BoxElement> {
        let places: Vec<Option<i64>> = match &self.im2col {
            None => self.in_box(coordinates, row),
            Some(pixels) => self.in_column(pixels, coordinates, offsets, row),
        };
        let numbered = places.into_iter().zip(0..);
        let element = |(global, i): (Option<i64>, i64)| BoxElement {
            global,
            shared: i * self.element.bytes(),
        };
        numbered.map(element).collect()
    }

    /// The byte of each element of a box. Interleaved channels come first: those of the slice, then the pixels.
    fn in_box(&self, coordinates: &[i64], row: i64) -> Vec<Option<i64>> {
        let mut at = coordinates.to_vec();
        let element = self.element.bytes();
        let channels = self.innermost_bytes() / element;
        let place = |i: i64| {
            let mut rest = i / channels;
            for (d, steps) in self.steps().enumerate() {
                at[d] = coordinates[d] + rest % steps * self.element_strides[d];
                rest /= steps;
            }
            Some(self.byte(&at, row)? + i % channels * element)
        };
        (0..self.box_elements()).map(place).collect()
    }

    /// The byte of each channel of each pixel of a column.
    fn in_column(
        &self,
        pixels: &PixelBox,
        coordinates: &[i64],
        offsets: &[i64],
        row: i64,
    ) -> Vec<Option<i64>> {
        let mut places = Vec::new();
        for mut pixel in pixels.walk(self, coordinates, offsets) {
            for channel in 0..self.extents[0] {
                pixel[0] = coordinates[0] + channel;
                places.push(self.byte(&pixel, row));
            }
        }
        places
    }

    /// The byte of an element of the tensor, or of the first channel of a slice.
    fn byte(&self, coordinates: &[i64], row: i64) -> Option<i64> {
        let mut at = 0;
        for (d, &x) in coordinates.iter().enumerate() {
            let (end, stride) = match d {
                0 => (row, self.innermost_bytes()),
                _ => (self.dims[d], self.strides[d - 1]),
            };
            if !(0..end).contains(&x) {
                return None;
            }
            at += x * stride;
        }
        Some(at)
    }
}
