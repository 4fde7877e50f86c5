//! What one tiled instruction moves, element by element.

use super::error::TmaError;
use super::map::TensorMap;

/// One element of a box.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct BoxElement {
    /// Its byte in the tensor, counted from the tensor's beginning; `None` outside the tensor, where a load brings
    /// the fill value and a store writes nothing.
    pub global: Option<i64>,
    /// Its byte in shared memory, counted from the box's beginning, before the swizzle.
    pub shared: i64,
}

impl TensorMap {
    /// The elements of the box at these coordinates, in the order of shared memory.
    ///
    /// The swizzle permutes *addresses*: element `e` of a box at shared address `a` lies at
    /// `swizzle.on_bytes().apply(a + e.shared)`.
    ///
    /// # Errors
    ///
    /// [`TmaError::Coordinates`] if there are not as many as dimensions.
    pub fn elements(&self, coordinates: &[i64]) -> Result<Vec<BoxElement>, TmaError> {
        if coordinates.len() != self.rank() {
            return Err(TmaError::Coordinates {
                expected: self.rank(),
                found: coordinates.len(),
            });
        }
        let size = self.element.bytes();
        let elements = (0..self.box_elements()).map(|i| BoxElement {
            global: self.global(i, coordinates),
            shared: i * size,
        });
        Ok(elements.collect())
    }

    /// The byte of element `i` of a box in the tensor.
    fn global(&self, i: i64, coordinates: &[i64]) -> Option<i64> {
        let (mut rest, mut at) = (i, 0);
        for (d, steps) in self.steps().enumerate() {
            let x = coordinates[d] + rest % steps * self.element_strides[d];
            rest /= steps;
            if !(0..self.dims[d]).contains(&x) {
                return None;
            }
            at += x * if d == 0 {
                self.element.bytes()
            } else {
                self.strides[d - 1]
            };
        }
        Some(at)
    }
}
