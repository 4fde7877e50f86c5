//! The surgery of [`Tuple`] on layouts, where shape and stride move together.

use alloc::format;
use core::ops::Range;

use crate::layout::LeafMode;
use crate::tuple::Leaf;
use crate::{Error, IntoIntTuple, IntoLayout, Layout, Tuple};

impl Layout {
    /// Returns the sub-layout that a path of indices names: `get(&[1, 0])` is mode 0 of mode 1.
    ///
    /// # Errors
    ///
    /// Returns an error if an index is beyond the rank at its level.
    ///
    /// # Example
    ///
    /// ```
    /// use colex_layout::Layout;
    /// let a: Layout = "(4,(3,6)):(1,(4,12))".parse()?;
    /// assert_eq!(a.get(&[1, 1])?.to_string(), "6:12");
    /// assert_eq!(a.get(&[2]).unwrap_err().to_string(), "mode 2 of (4,(3,6)):(1,(4,12)), which has rank 2");
    /// # Ok::<(), colex_layout::Error>(())
    /// ```
    pub fn get(&self, path: &[usize]) -> Result<Self, Error> {
        self.0.get(path).map(Self)
    }

    /// Returns the layout of the modes that `indices` name, in that order; always a tuple.
    ///
    /// # Errors
    ///
    /// Returns an error if an index is beyond the rank, or if repeated modes make it too large.
    pub fn select(&self, indices: &[usize]) -> Result<Self, Error> {
        self.0.select(indices).and_then(Self::checked)
    }

    /// Returns the modes in `range`, always as a tuple.
    ///
    /// # Errors
    ///
    /// Returns an error if the range is empty or ends beyond the rank.
    pub fn take(&self, range: Range<usize>) -> Result<Self, Error> {
        self.0.take(range).map(Self)
    }

    /// Groups the modes in `range` into one mode.
    ///
    /// # Errors
    ///
    /// Returns an error if the range is empty or ends beyond the rank.
    pub fn group(&self, range: Range<usize>) -> Result<Self, Error> {
        self.0.group(range).map(Self)
    }

    /// Returns all leaf modes in one flat layout; a single mode stays one.
    #[must_use]
    pub fn flatten(&self) -> Self {
        Self(self.0.flatten())
    }

    /// Returns the leaf modes, nested as `profile` is.
    ///
    /// # Errors
    ///
    /// Returns an error if the numbers of leaves differ, or if `self` is not flat.
    pub fn unflatten<U: Leaf>(&self, profile: &Tuple<U>) -> Result<Self, Error> {
        self.0.unflatten(profile).map(Self)
    }

    /// Returns the layout over the same leaf modes in another nesting: CuTe's `with_shape` by the function, not the
    /// strides.
    ///
    /// The result is `self` composed with the compact layout of `shape`, which may be smaller; beyond the size of
    /// `self` its last mode goes on.
    ///
    /// # Errors
    ///
    /// Returns an error if `shape` straddles modes of `self`.
    ///
    /// # Example
    ///
    /// ```
    /// use colex_layout::Layout;
    /// let a: Layout = "32:2".parse()?;
    /// assert_eq!(a.with_shape((4, (2, 4)))?.to_string(), "(4,(2,4)):(2,(8,16))");
    /// # Ok::<(), colex_layout::Error>(())
    /// ```
    pub fn with_shape(&self, shape: impl IntoIntTuple) -> Result<Self, Error> {
        let compact = Self::column_major(shape)?;
        self.composition(&compact).map_err(|error| {
            let (asked, size) = (compact.size(), self.size());
            if asked == size {
                return error;
            }
            Error::operand("with_shape", self.text(), format!(
                    "the shape {} has {asked} coordinates and the layout {size}, and they do not cross its modes evenly",
                    compact.shape()
                ))
        })
    }

    /// Returns one more mode at the end; a single mode first becomes a tuple of one mode.
    ///
    /// # Errors
    ///
    /// Returns an error for strides of different kinds, or if a number does not fit in 64 bits.
    pub fn append(&self, mode: impl IntoLayout) -> Result<Self, Error> {
        mode.with_layout(|mode| Self::checked(self.0.append(&mode.0)))
    }

    /// Returns one more mode at the front; a single mode first becomes a tuple of one mode.
    ///
    /// # Errors
    ///
    /// Returns an error for strides of different kinds, or if a number does not fit in 64 bits.
    pub fn prepend(&self, mode: impl IntoLayout) -> Result<Self, Error> {
        mode.with_layout(|mode| Self::checked(self.0.prepend(&mode.0)))
    }

    /// Appends copies of `mode` (CuTe's default is `1:0`) up to `rank` modes.
    ///
    /// # Errors
    ///
    /// Returns an error if `self` has more than `rank` modes, for strides of different kinds, or if a number does not
    /// fit in 64 bits.
    pub fn append_to_rank(&self, rank: usize, mode: impl IntoLayout) -> Result<Self, Error> {
        let mode = mode.into_layout()?;
        self.0.append_to_rank(rank, &mode.0).and_then(Self::checked)
    }

    /// Prepends copies of `mode` (CuTe's default is `1:0`) up to `rank` modes.
    ///
    /// # Errors
    ///
    /// Returns an error if `self` has more than `rank` modes, for strides of different kinds, or if a number does not
    /// fit in 64 bits.
    pub fn prepend_to_rank(&self, rank: usize, mode: impl IntoLayout) -> Result<Self, Error> {
        let mode = mode.into_layout()?;
        self.0
            .prepend_to_rank(rank, &mode.0)
            .and_then(Self::checked)
    }

    /// Returns the layout with mode `i` replaced.
    ///
    /// # Errors
    ///
    /// Returns an error if `i` is beyond the rank, for strides of different kinds, or if a number does not fit in 64
    /// bits.
    pub fn replace(&self, i: usize, mode: impl IntoLayout) -> Result<Self, Error> {
        let mode = mode.into_layout()?;
        self.0.replace(i, &mode.0).and_then(Self::checked)
    }

    /// Returns the layout inside any number of one-mode parentheses.
    #[must_use]
    pub fn unwrap(&self) -> Self {
        Self(self.0.unwrap())
    }

    /// Exchanges the two outer levels: `((a,b),(x,y))` becomes `((a,x),(b,y))`.
    ///
    /// # Errors
    ///
    /// Returns an error if the modes differ in rank, or some are tuples and some single modes.
    pub fn zip(&self) -> Result<Self, Error> {
        self.0.zip().map(Self)
    }

    /// Regroups two layouts mode by mode: `((a0,b0),(a1,b1),..)`.
    ///
    /// # Errors
    ///
    /// Returns an error if the ranks differ, for strides of different kinds, or if a number does not fit in 64 bits.
    pub fn zip_with(&self, other: impl IntoLayout) -> Result<Self, Error> {
        let other = other.into_layout()?;
        self.0.zip_with(&other.0).and_then(Self::checked)
    }

    /// Returns a layout of one step, `_1:_0`.
    #[must_use]
    pub fn unit() -> Self {
        Self(Tuple::leaf(LeafMode::UNIT))
    }
}
