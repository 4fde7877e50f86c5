//! What the hardware asks of a tensor map.

use super::error::TmaError;
use super::map::TensorMap;

impl TensorMap {
    /// Whether the hardware takes it.
    ///
    /// # Errors
    ///
    /// The first [`TmaError`] found, from the innermost dimension outwards.
    pub fn check(&self) -> Result<(), TmaError> {
        self.check_counts()?;
        self.check_tensor()?;
        self.check_box()?;
        if let Some(pixels) = &self.im2col {
            pixels.check(self)?;
        }
        self.check_row()
    }

    /// As many numbers in each list as there are dimensions.
    fn check_counts(&self) -> Result<(), TmaError> {
        let rank = self.rank();
        if !(1..=5).contains(&rank) {
            return Err(TmaError::Rank {
                box_layout: format!("{:?}", self.extents),
            });
        }
        let extents = if self.im2col.is_some() { 2 } else { rank };
        for (expected, found) in [
            (rank, self.strides.len() + 1),
            (extents, self.extents.len()),
            (rank, self.element_strides.len()),
        ] {
            if found != expected {
                return Err(TmaError::Coordinates { expected, found });
            }
        }
        Ok(())
    }

    /// Extents and strides of the tensor.
    fn check_tensor(&self) -> Result<(), TmaError> {
        if let Some(dimension) = outside(&self.dims, 1 << 32) {
            return Err(TmaError::Extent {
                dimension,
                extent: self.dims[dimension],
            });
        }
        let bad = |bytes: &i64| !(0..1 << 40).contains(bytes) || bytes % 16 != 0;
        if let Some(at) = self.strides.iter().position(bad) {
            return Err(TmaError::Stride {
                dimension: at + 1,
                bytes: self.strides[at],
            });
        }
        let steps = self.dims[1..].iter().zip(&self.strides);
        let inner = self.dims[0] * self.element.bytes();
        let end = steps.fold(i128::from(inner), |end, (extent, stride)| {
            end + i128::from(extent - 1) * i128::from(*stride)
        });
        match i64::try_from(end) {
            Ok(_) => Ok(()),
            Err(_) => Err(TmaError::Long {
                dims: self.dims.clone(),
            }),
        }
    }

    /// Extents and strides of the box; the pixels of a column have limits of their own.
    fn check_box(&self) -> Result<(), TmaError> {
        let of_256 = match self.im2col {
            Some(_) => &self.extents[..1],
            None => &self.extents[..],
        };
        if let Some(dimension) = outside(of_256, 256) {
            return Err(TmaError::Box {
                dimension,
                extent: self.extents[dimension],
            });
        }
        match outside(&self.element_strides, 8) {
            Some(dimension) => Err(TmaError::ElementStride {
                dimension,
                stride: self.element_strides[dimension],
            }),
            None => Ok(()),
        }
    }

    /// The innermost extent of the box, in bytes.
    fn check_row(&self) -> Result<(), TmaError> {
        let bytes = self.extents[0] * self.element.bytes();
        match self.swizzle.span() {
            _ if bytes % 16 != 0 => Err(TmaError::Row { bytes }),
            Some(span) if bytes > span => Err(TmaError::Span { bytes, span }),
            _ => Ok(()),
        }
    }

    /// Whether a tensor may begin there.
    ///
    /// # Errors
    ///
    /// [`TmaError::Address`] if 16 does not divide the address.
    pub fn check_address(&self, address: u64) -> Result<(), TmaError> {
        if address.is_multiple_of(16) {
            Ok(())
        } else {
            Err(TmaError::Address { address })
        }
    }
}

/// The first that is not from 1 to this.
fn outside(list: &[i64], most: i64) -> Option<usize> {
    list.iter().position(|x| !(1..=most).contains(x))
}
