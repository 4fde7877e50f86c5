//! What one tiled instruction moves, element by element.
//!
//! Three of its rules are in no manual; they were seen on an H200 (driver API 13.0), for every shape tried: the innermost
//! coordinate is a multiple of 16 bytes, or the kernel ends in an illegal instruction; so it does when a store
//! begins before the tensor, though a load may; a load fills beyond the end of a row to the element, a store writes
//! whole units of 16 bytes.

use super::error::TmaError;
use super::map::TensorMap;

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
    /// The elements that a load brings from these coordinates, in the order of shared memory.
    ///
    /// The swizzle permutes *addresses*: element `e` of a box at shared address `a` lies at
    /// `swizzle.on_bytes().apply(a + e.shared)`.
    ///
    /// # Errors
    ///
    /// [`TmaError::Coordinates`] if there are not as many as dimensions; [`TmaError::Offset`] if the innermost is
    /// not a multiple of 16 bytes.
    pub fn loaded(&self, coordinates: &[i64]) -> Result<Vec<BoxElement>, TmaError> {
        self.check_coordinates(coordinates)?;
        Ok(self.elements(coordinates, self.dims[0]))
    }

    /// The elements that a store takes to these coordinates, in the order of shared memory.
    ///
    /// A row that is no multiple of 16 bytes has [`store_tail`](Self::store_tail): what follows it is overwritten.
    ///
    /// # Errors
    ///
    /// Those of [`loaded`](Self::loaded); [`TmaError::Before`] if a coordinate is negative.
    pub fn stored(&self, coordinates: &[i64]) -> Result<Vec<BoxElement>, TmaError> {
        self.check_coordinates(coordinates)?;
        if let Some(dimension) = coordinates.iter().position(|x| *x < 0) {
            return Err(TmaError::Before {
                dimension,
                coordinate: coordinates[dimension],
            });
        }
        Ok(self.elements(
            coordinates,
            self.dims[0] + self.store_tail() / self.element.bytes(),
        ))
    }

    /// The bytes after the end of each row that a store writes too, if its box reaches there.
    ///
    /// ```
    /// # use colex_atom::{TmaElement, TmaPlan, TmaTile};
    /// # use colex_layout::{ComposedLayout, Layout};
    /// // Rows of 254 elements, 256 apart: the last two belong to nobody, and a store writes them.
    /// let (global, shared): (Layout, ComposedLayout) = ("(200,254):(256,1)".parse()?, "(64,32):(32,1)".parse()?);
    /// let plan = TmaPlan::new(&TmaTile { global: &global, tile: &"(64,32)".parse()?, shared: &shared, element: TmaElement::F32, multicast: 1 })?;
    /// assert_eq!(plan.map().store_tail(), 2 * 4);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn store_tail(&self) -> i64 {
        (-self.dims[0] * self.element.bytes()).rem_euclid(UNIT)
    }

    fn check_coordinates(&self, coordinates: &[i64]) -> Result<(), TmaError> {
        if coordinates.len() != self.rank() {
            return Err(TmaError::Coordinates {
                expected: self.rank(),
                found: coordinates.len(),
            });
        }
        let bytes = coordinates[0] * self.element.bytes();
        if bytes % UNIT == 0 {
            Ok(())
        } else {
            Err(TmaError::Offset { bytes })
        }
    }

    /// The elements of a box in a tensor whose rows end at `row`.
    fn elements(&self, coordinates: &[i64], row: i64) -> Vec<BoxElement> {
        let size = self.element.bytes();
        let element = |i| BoxElement {
            global: self.global(i, coordinates, row),
            shared: i * size,
        };
        (0..self.box_elements()).map(element).collect()
    }

    /// The byte of element `i` of a box in the tensor.
    fn global(&self, i: i64, coordinates: &[i64], row: i64) -> Option<i64> {
        let (mut rest, mut at) = (i, 0);
        for (d, steps) in self.steps().enumerate() {
            let x = coordinates[d] + rest % steps * self.element_strides[d];
            rest /= steps;
            let (end, stride) = match d {
                0 => (row, self.element.bytes()),
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
