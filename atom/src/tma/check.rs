//! What the hardware asks of a tensor map.

use super::map::{Interleave, OobFill, TensorMap};
use super::swizzle::TmaSwizzle;
use crate::error::{Error, TmaError};

impl TensorMap {
    /// Checks that the hardware takes the map.
    ///
    /// # Errors
    ///
    /// The first [`Error`] found, from the innermost dimension outwards.
    pub fn check(&self) -> Result<(), Error> {
        self.check_counts()?;
        self.check_tensor()?;
        self.check_box()?;
        self.check_form()?;
        if let Some(pixels) = &self.im2col {
            pixels.check(self)?;
        }
        self.check_row()
    }

    /// As many numbers in each list as there are dimensions.
    fn check_counts(&self) -> Result<(), Error> {
        let rank = self.rank();
        if !(1..=5).contains(&rank) {
            return Err(TmaError::Rank {
                box_layout: format!("{:?}", self.extents),
            }
            .into());
        }
        let extents = if self.im2col.is_some() { 2 } else { rank };
        for (expected, found) in [
            (rank, self.strides.len() + 1),
            (extents, self.extents.len()),
            (rank, self.element_strides.len()),
        ] {
            if found != expected {
                return Err(TmaError::Coordinates { expected, found }.into());
            }
        }
        Ok(())
    }

    /// Extents and strides of the tensor.
    fn check_tensor(&self) -> Result<(), Error> {
        if let Some(dimension) = outside(&self.dims, 1 << 32) {
            return Err(TmaError::Extent {
                dimension,
                extent: self.dims[dimension],
            }
            .into());
        }
        let bad = |bytes: &i64| !(0..1 << 40).contains(bytes) || bytes % 16 != 0;
        if let Some(at) = self.strides.iter().position(bad) {
            return Err(TmaError::Stride {
                dimension: at + 1,
                bytes: self.strides[at],
            }
            .into());
        }
        match i64::try_from(self.end()) {
            Ok(_) => Ok(()),
            Err(_) => Err(TmaError::Long {
                dims: self.dims.clone(),
            }
            .into()),
        }
    }

    /// Extents and strides of the box; the pixels of a column have limits of their own.
    fn check_box(&self) -> Result<(), Error> {
        let of_256 = match self.im2col {
            Some(_) => &self.extents[..1],
            None => &self.extents[..],
        };
        if let Some(dimension) = outside(of_256, 256) {
            return Err(TmaError::Box {
                dimension,
                extent: self.extents[dimension],
            }
            .into());
        }
        if let Some(dimension) = outside(&self.element_strides, 8) {
            return Err(TmaError::ElementStride {
                dimension,
                stride: self.element_strides[dimension],
            }
            .into());
        }
        match (self.interleave, self.element_strides[0]) {
            (Interleave::None, 1) | (Interleave::B16 | Interleave::B32, _) => Ok(()),
            (Interleave::None, stride) => Err(TmaError::Skips { stride }.into()),
        }
    }

    /// What stands outside, and how channels are interleaved.
    fn check_form(&self) -> Result<(), Error> {
        if self.fill != OobFill::Zero && !self.element.is_float() {
            return Err(TmaError::Fill {
                element: self.element,
            }
            .into());
        }
        let slice = self.interleave.bytes();
        let (swizzle, aligned) = match self.interleave {
            Interleave::None => return Ok(()),
            Interleave::B16 => (TmaSwizzle::None, true),
            Interleave::B32 => {
                let aligned = self.strides.iter().all(|bytes| bytes % slice == 0);
                (TmaSwizzle::B32, aligned)
            }
        };
        let why = match self.slice_dimension() {
            None | Some(0) => "it has pixels, slices and images: 3 to 5 dimensions",
            _ if self.im2col.is_some() => "columns of `im2col` are not supported here",
            _ if self.swizzle != swizzle && slice == 16 => "slices of 16 bytes are not swizzled",
            _ if self.swizzle != swizzle => "slices of 32 bytes have the swizzle of 32 bytes",
            _ if !aligned => "its strides are multiples of 32 bytes",
            // The hardware ignores both numbers: any others would promise what it does not do.
            Some(d) if self.extents[d] != 1 => {
                "a box has one slice of each pixel, an extent of 1 along the slices"
            }
            Some(d) if self.element_strides[d] != 1 => "the slices have an element stride of 1",
            Some(_) => return Ok(()),
        };
        Err(TmaError::Interleaved { slice, why }.into())
    }

    /// The innermost extent of the box, in bytes.
    fn check_row(&self) -> Result<(), Error> {
        let bytes = self.extents[0] * self.element.bytes();
        // Pixels of interleaved channels are whole units of 16 bytes, but the driver asks the same of the box's extent.
        let span = match self.interleave {
            Interleave::None => self.swizzle.span(),
            Interleave::B16 | Interleave::B32 => None,
        };
        match span {
            _ if bytes % 16 != 0 => Err(TmaError::Row { bytes }.into()),
            Some(span) if bytes > span => Err(TmaError::Span { bytes, span }.into()),
            Some(span) if bytes < span => Err(TmaError::Short { bytes, span }.into()),
            _ => Ok(()),
        }
    }

    /// Checks that a tensor may begin there.
    ///
    /// # Errors
    ///
    /// Returns an error if 16 does not divide the address, or 32 where channels are interleaved in slices of 32 bytes.
    pub fn check_address(&self, address: u64) -> Result<(), Error> {
        let align = self.interleave.bytes().max(16);
        if address.is_multiple_of(align as u64) {
            Ok(())
        } else {
            Err(TmaError::Address { address, align }.into())
        }
    }
}

/// The first that is not from 1 to this.
fn outside(list: &[i64], most: i64) -> Option<usize> {
    list.iter().position(|x| !(1..=most).contains(x))
}
