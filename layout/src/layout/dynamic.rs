//! Dynamic leaves: the numbers of a shape or layout that a launch provides.

use alloc::format;
use alloc::vec::Vec;

use smallvec::SmallVec;

use crate::layout::LeafMode;
use crate::tuple::Tuple;
use crate::{Error, Int, IntTuple, Layout};

impl Tuple<Int> {
    /// Returns the current values of the dynamic leaves, from left to right.
    ///
    /// # Example
    ///
    /// ```
    /// use colex_layout::IntTuple;
    /// let shape: IntTuple = "(_1,(6,3,_3),4)".parse()?;
    /// assert_eq!(shape.dynamic_values(), [6, 3, 4]);
    /// # Ok::<(), colex_layout::Error>(())
    /// ```
    #[must_use]
    pub fn dynamic_values(&self) -> Vec<i64> {
        self.leaves()
            .iter()
            .filter(|n| !n.is_static())
            .map(|n| n.value())
            .collect()
    }

    /// Returns the same tuple with its dynamic leaves, from left to right, replaced by `values`.
    ///
    /// # Errors
    ///
    /// Returns an error if there are more or fewer values than dynamic leaves.
    ///
    /// # Example
    ///
    /// ```
    /// use colex_layout::IntTuple;
    /// let shape: IntTuple = "(_1,(6,3,_3),4)".parse()?;
    /// assert_eq!(shape.with_dynamic_values(&[7, 8, 9])?.to_string(), "(_1,(7,8,_3),9)");
    /// assert_eq!(
    ///     shape.with_dynamic_values(&[7]).unwrap_err().to_string(),
    ///     "with_dynamic_values of (_1,(6,3,_3),4): it has 3 dynamic leaves, not 1",
    /// );
    /// # Ok::<(), colex_layout::Error>(())
    /// ```
    #[doc(alias = "fill_int_tuple_from")]
    #[doc(alias = "make_int_tuple_from")]
    pub fn with_dynamic_values(&self, values: &[i64]) -> Result<Self, Error> {
        let found = self.leaves().iter().filter(|n| !n.is_static()).count();
        if found != values.len() {
            return Err(miscounted(self, found, values.len()));
        }
        let mut values = values.iter();
        Ok(self.map(|n| match n {
            Int::Static(_) => n,
            Int::Dynamic(_) => Int::Dynamic(*values.next().expect("as many values as leaves")),
        }))
    }

    /// Multiplies neighbouring leaves together where both are static or both are dynamic.
    ///
    /// # Errors
    ///
    /// Returns an error if a number does not fit in 64 bits.
    ///
    /// # Example
    ///
    /// ```
    /// use colex_layout::IntTuple;
    /// let shape: IntTuple = "(_2,_3,4,5,_6)".parse()?;
    /// assert_eq!(shape.coalesce()?.to_string(), "(_6,20,_6)");
    /// # Ok::<(), colex_layout::Error>(())
    /// ```
    pub fn coalesce(&self) -> Result<Self, Error> {
        let mut merged: SmallVec<[Int; 12]> = SmallVec::new();
        for &n in self.leaves() {
            match merged.last_mut() {
                Some(last) if last.is_static() == n.is_static() => *last = last.times(n)?,
                _ => merged.push(n),
            }
        }
        Ok(match merged[..] {
            [] => Self::leaf(Int::Static(1)),
            [one] => Self::leaf(one),
            _ => Self::flat(merged),
        })
    }
}

fn miscounted(of: &impl core::fmt::Display, found: usize, given: usize) -> Error {
    Error::operand(
        "with_dynamic_values",
        format!("{of}"),
        format!("it has {found} dynamic leaves, not {given}"),
    )
}

impl Layout {
    /// Returns the current values of the dynamic leaves: those of the shape, then those of the stride.
    ///
    /// A kernel takes them as launch arguments, in this order.
    ///
    /// # Example
    ///
    /// ```
    /// use colex_layout::Layout;
    /// let matrix: Layout = "(512,_64):(_1,520)".parse()?;
    /// assert_eq!(matrix.dynamic_values(), [512, 520]);
    /// assert_eq!(matrix.with_dynamic_values(&[100, 104])?.to_string(), "(100,_64):(_1,104)");
    /// # Ok::<(), colex_layout::Error>(())
    /// ```
    #[must_use]
    pub fn dynamic_values(&self) -> Vec<i64> {
        let mut values = self.shape().dynamic_values();
        values.extend(self.stride_numbers().dynamic_values());
        values
    }

    /// Returns the same layout with its dynamic leaves replaced: those of the shape first, then those of the stride.
    ///
    /// # Errors
    ///
    /// Returns an error if there are more or fewer values than dynamic leaves, for an extent below 1, or if a number
    /// does not fit in 64 bits.
    pub fn with_dynamic_values(&self, values: &[i64]) -> Result<Self, Error> {
        let (shape, stride) = (self.shape(), self.stride_numbers());
        let of_shape = shape.dynamic_values().len();
        let found = of_shape + stride.dynamic_values().len();
        if found != values.len() {
            return Err(miscounted(self, found, values.len()));
        }
        let shape = shape.with_dynamic_values(&values[..of_shape])?;
        let stride = stride.with_dynamic_values(&values[of_shape..])?;
        let mut numbers = stride.leaves().iter();
        let strides = self
            .stride()
            .map(|d| d.with_coefficient(*numbers.next().expect("shape and stride are congruent")));
        Self::of_tuples(shape, strides)
    }

    /// The coefficients of the strides.
    fn stride_numbers(&self) -> IntTuple {
        self.0.map(|leaf: LeafMode| leaf.stride.coefficient())
    }
}
