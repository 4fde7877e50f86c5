//! Coordinates: one index, one number per mode, or one number per leaf, and the maps between them and to offsets.

use alloc::vec::Vec;
use core::convert::Infallible;

use smallvec::SmallVec;

use crate::error::ErrorKind;
use crate::layout::LeafMode;
use crate::tuple::int::{add, mul};
use crate::tuple::int_tuple::{product, rank_error};
use crate::tuple::walk::{check_depth, side_by_side};
use crate::tuple::{Tuple, View};
use crate::{Error, Int, IntTuple, IntoIntTuple, Layout, Stride};

/// The most offsets that [`Layout::table`] holds: 2^26, half a gigabyte.
pub const TABLE_BOUND: i64 = 1 << 26;

/// One number per leaf of a shape.
type Digits = SmallVec<[i64; 12]>;

/// Whether a coordinate must lie within its shape, or its last digit may go on.
#[doc(hidden)]
#[derive(Clone, Copy, PartialEq)]
pub enum Bounds {
    Within,
    Open,
}

/// A coordinate that may lie beyond its shape, where the last mode goes on: CuTe's own behaviour.
///
/// # Example
///
/// ```
/// use colex_layout::{Layout, Unbounded};
/// let rows = Layout::new((4, 2), (2, 1))?;
/// assert_eq!(rows.at(8).unwrap_err().to_string(), "coordinate 8 is not within 0..8 in the shape (4,2)");
/// assert_eq!(rows.at(Unbounded(8))?, 2);
/// assert_eq!(rows.at(Unbounded((4, 0)))?, 8);
/// # Ok::<(), colex_layout::Error>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Unbounded<V>(pub V);

/// A coordinate within a shape (any [`IntoIntTuple`]: an index, one number per mode, or nested as the shape is), or an
/// [`Unbounded`] one, which may lie beyond the shape.
pub trait IntoPoint: Sized {
    /// Returns the coordinate, and whether it must lie within the shape.
    ///
    /// # Errors
    ///
    /// Returns the errors of [`IntoIntTuple::into_int_tuple`].
    #[doc(hidden)]
    fn into_point(self) -> Result<(IntTuple, Bounds), Error>;

    /// Returns the index if the coordinate is a single integer, without building a tuple.
    #[doc(hidden)]
    fn as_index_of_point(&self) -> Option<(i64, Bounds)>;
}

impl<V: IntoIntTuple> IntoPoint for V {
    #[inline]
    fn into_point(self) -> Result<(IntTuple, Bounds), Error> {
        Ok((self.into_int_tuple()?, Bounds::Within))
    }

    #[inline]
    fn as_index_of_point(&self) -> Option<(i64, Bounds)> {
        Some((self.as_index()?, Bounds::Within))
    }
}

impl<V: IntoIntTuple> IntoPoint for Unbounded<V> {
    #[inline]
    fn into_point(self) -> Result<(IntTuple, Bounds), Error> {
        Ok((self.0.into_int_tuple()?, Bounds::Open))
    }

    #[inline]
    fn as_index_of_point(&self) -> Option<(i64, Bounds)> {
        Some((self.0.as_index()?, Bounds::Open))
    }
}

impl Layout {
    /// Returns the offset at a coordinate: an index (`5`, counted colexicographically), one number per mode (`(1,2)`), or
    /// any nesting that the shape refines (`((1,0),2)`).
    ///
    /// A coordinate lies within the shape; an [`Unbounded`] one may lie beyond, where the last mode goes on, as CuTe has
    /// it.
    ///
    /// # Errors
    ///
    /// Returns an error if the coordinate does not nest as the shape does or lies outside of it, if the strides are
    /// coordinates ([`Layout::coord_at`] takes those), or if a number does not fit in 64 bits. XOR strides have no
    /// value at an [`Unbounded`] index below 0.
    ///
    /// # Example
    ///
    /// ```
    /// use colex_layout::{Layout, Unbounded};
    /// let tiles: Layout = "((2,2),(2,4)):((1,4),(2,8))".parse()?;
    /// assert_eq!(tiles.at(7)?, 7);
    /// assert_eq!(tiles.at((3, 1))?, tiles.at(((1, 1), (1, 0)))?);
    /// assert_eq!(
    ///     tiles.at((4, 0)).unwrap_err().to_string(),
    ///     "coordinate 4 is not within 0..4 in the shape ((2,2),(2,4))",
    /// );
    /// assert_eq!(tiles.at(Unbounded((4, 0)))?, 8);
    /// # Ok::<(), colex_layout::Error>(())
    /// ```
    ///
    /// Source: `crd2idx` in `cute/stride.hpp`.
    #[doc(alias = "crd2idx")]
    #[doc(alias = "offset")]
    #[inline]
    pub fn at(&self, coord: impl IntoPoint) -> Result<i64, Error> {
        match coord.as_index_of_point() {
            Some((index, bounds)) => {
                if bounds == Bounds::Within {
                    self.check_bounds(index)?;
                }
                self.at_unbounded(index)
            }
            None => {
                let (coord, bounds) = coord.into_point()?;
                self.offset_of(&coord, bounds)
            }
        }
    }

    /// The offset at a linear index, where the last mode goes on beyond the size.
    pub(crate) fn at_unbounded(&self, index: i64) -> Result<i64, Error> {
        let leaves = self.leaves();
        let Some((last, before)) = leaves.split_last() else {
            return Ok(0);
        };
        let mut rest = index;
        let mut sum = 0;
        for leaf in before {
            sum = self.step(sum, rest % leaf.size(), leaf)?;
            rest /= leaf.size();
        }
        self.step(sum, rest, last)
    }

    fn offset_of(&self, coord: &IntTuple, bounds: Bounds) -> Result<i64, Error> {
        let digits = digits(&self.shape(), coord, bounds)?;
        self.sum_of(digits)
    }

    /// The offset at a coordinate of the layout's own nesting, one digit per leaf.
    pub(crate) fn offset_of_digits(&self, digits: &[Int]) -> Result<i64, Error> {
        self.sum_of(digits.iter().map(|c| c.value()))
    }

    fn sum_of(&self, digits: impl IntoIterator<Item = i64>) -> Result<i64, Error> {
        self.leaves()
            .iter()
            .zip(digits)
            .try_fold(0, |sum, (leaf, c)| self.step(sum, c, leaf))
    }

    /// `sum` and `c` steps of `leaf` together: added, or XORed for XOR strides.
    fn step(&self, sum: i64, c: i64, leaf: &LeafMode) -> Result<i64, Error> {
        match leaf.stride {
            Stride::Int(d) => add(sum, mul(c, d.value())?),
            // A digit below 0 has no bits.
            Stride::Xor(_) if c < 0 => Err(ErrorKind::OutOfBounds {
                coord: c,
                size: leaf.size(),
                shape: self.shape().text(),
            }
            .into()),
            Stride::Xor(d) => Ok(sum ^ carryless(c, d.value())?),
            d if d.is_zero() => Ok(sum),
            Stride::Basis(_) => Err(Error::stride_kind(
                "the offset",
                self.text(),
                "integer or XOR strides",
            )),
        }
    }

    fn check_bounds(&self, index: i64) -> Result<(), Error> {
        if (0..self.size()).contains(&index) {
            return Ok(());
        }
        Err(ErrorKind::OutOfBounds {
            coord: index,
            size: self.size(),
            shape: self.shape().text(),
        }
        .into())
    }

    /// Returns all offsets of the layout in a vector, in the order of the index; [`Layout::offsets`] walks any number
    /// of them.
    ///
    /// # Errors
    ///
    /// Returns an error for more than [`TABLE_BOUND`] offsets, or if memory does not hold them. It also returns the
    /// errors of [`Layout::at`].
    ///
    /// # Example
    ///
    /// ```
    /// use colex_layout::Layout;
    /// assert_eq!("(2,2):(2,1)".parse::<Layout>()?.table()?, [0, 2, 1, 3]);
    /// assert_eq!(
    ///     "1099511627776:1".parse::<Layout>()?.table().unwrap_err().to_string(),
    ///     "table of 1099511627776:1 has 1099511627776 elements, and its bound is 67108864",
    /// );
    /// # Ok::<(), colex_layout::Error>(())
    /// ```
    pub fn table(&self) -> Result<Vec<i64>, Error> {
        let size = self.size();
        let many = |bound| {
            ErrorKind::TooMany {
                operation: "table",
                of: self.text(),
                count: size,
                bound,
            }
            .into()
        };
        if size > TABLE_BOUND {
            return Err(many(TABLE_BOUND));
        }
        let mut table = Vec::new();
        // The bound has 27 bits.
        let reserved = table.try_reserve_exact(size as usize);
        reserved.map_err(|_| many(size - 1))?;
        for index in 0..size {
            table.push(self.at_unbounded(index)?);
        }
        Ok(table)
    }
}

/// The product over F2: bit `k` of `c` contributes `d << k`, contributions XOR.
pub(crate) fn carryless(c: i64, d: i64) -> Result<i64, Error> {
    let (mut rest, mut result) = (c, 0);
    while rest > 0 {
        let k = rest.trailing_zeros();
        result ^= mul(
            d,
            1_i64.checked_shl(k).filter(|p| *p > 0).unwrap_or(i64::MAX),
        )?;
        rest &= rest - 1;
    }
    Ok(result)
}

impl Tuple<Int> {
    /// Returns the hierarchical coordinate at a linear index, or at any coordinate that fits the shape (CuTe's
    /// `idx2crd`); `self` is the shape. The last digit of an [`Unbounded`] coordinate may lie beyond it.
    ///
    /// # Errors
    ///
    /// Returns an error if the coordinate does not nest as the shape does or lies outside of it, or if a number does
    /// not fit in 64 bits.
    ///
    /// # Example
    ///
    /// ```
    /// use colex_layout::{IntTuple, Unbounded};
    /// let shape: IntTuple = "(3,(2,3))".parse()?;
    /// assert_eq!(shape.coord(16)?.to_string(), "(1,(1,2))");
    /// assert_eq!(shape.coord((1, 5))?, shape.coord(16)?);
    /// assert_eq!(shape.coord(Unbounded(18))?.to_string(), "(0,(0,3))");
    /// # Ok::<(), colex_layout::Error>(())
    /// ```
    #[doc(alias = "idx2crd")]
    pub fn coord(&self, index: impl IntoPoint) -> Result<Self, Error> {
        let (coord, bounds) = index.into_point()?;
        self.coord_of(&coord, bounds)
    }

    fn coord_of(&self, coord: &Self, bounds: Bounds) -> Result<Self, Error> {
        let digits = digits(self, coord, bounds)?;
        let mut digits = digits.into_iter();
        Ok(self.map(|_| Int::Dynamic(digits.next().expect("one digit per leaf"))))
    }

    /// Returns the coordinate with one number per mode at a linear index.
    ///
    /// # Errors
    ///
    /// Returns an error for a coordinate outside of the shape, or if a number does not fit in 64 bits.
    pub fn flat_coord(&self, index: i64) -> Result<Self, Error> {
        if self.rank() == 1 {
            return Self::leaf(self.product()?).coord(index);
        }
        self.product_each()?.coord(index)
    }

    /// Returns the linear index of a coordinate (CuTe's `crd2idx(coord, shape)`); `self` is the shape.
    ///
    /// # Errors
    ///
    /// Returns the errors of [`Tuple::coord`].
    ///
    /// # Example
    ///
    /// ```
    /// use colex_layout::{IntTuple, Unbounded};
    /// let shape: IntTuple = "(3,(2,3))".parse()?;
    /// assert_eq!(shape.index((1, (1, 2)))?, 16);
    /// assert_eq!(shape.index(Unbounded((3, 0)))?, 3);
    /// # Ok::<(), colex_layout::Error>(())
    /// ```
    #[doc(alias = "crd2idx")]
    pub fn index(&self, coord: impl IntoPoint) -> Result<i64, Error> {
        let (coord, bounds) = coord.into_point()?;
        self.index_of(&coord, bounds)
    }

    fn index_of(&self, coord: &Self, bounds: Bounds) -> Result<i64, Error> {
        check_fit(self, coord, bounds)?;
        if coord.is_leaf() {
            return Ok(coord.leaves()[0].value());
        }
        // Horner over the leaves of the coordinate, each within the product of its part of the shape.
        let extents = self.product_like(coord)?;
        let digits = coord.leaves().iter().zip(extents.leaves());
        digits
            .rev()
            .try_fold(0, |rest, (c, s)| add(c.value(), mul(s.value(), rest)?))
    }

    /// Returns the coordinate in the shape `target` that has the same linear index as `coord` has in `self`.
    ///
    /// Modes of equal nesting are treated one by one, as CuTe's `crd2crd` does.
    ///
    /// # Errors
    ///
    /// Returns an error if the ranks of the coordinate and the two shapes differ, if all three nest deeper than 64
    /// parentheses, or if [`Tuple::coord`] returns one.
    #[doc(alias = "crd2crd")]
    pub fn coord_in(&self, coord: impl IntoPoint, target: &Self) -> Result<Self, Error> {
        let (coord, bounds) = coord.into_point()?;
        // The walk ends at the first value of any of the three.
        check_depth("tuple", &coord)
            .or_else(|_| check_depth("tuple", self))
            .or_else(|_| check_depth("tuple", target))?;
        self.coord_within(coord, target, bounds)
    }

    fn coord_within(&self, coord: Self, target: &Self, bounds: Bounds) -> Result<Self, Error> {
        if coord.is_leaf() || self.is_leaf() || target.is_leaf() {
            let index = self.index_of(&coord, bounds)?;
            return target.coord_of(&index.into(), bounds);
        }
        if coord.rank() != self.rank() || self.rank() != target.rank() {
            return Err(rank_error(
                "coord_in",
                self,
                target,
                "shapes and a coordinate of one rank",
            ));
        }
        let modes = coord.modes().zip(self.modes()).zip(target.modes());
        let result = modes
            .map(|((c, s), t)| s.coord_within(c, &t, bounds))
            .collect::<Result<Vec<_>, _>>()?;
        Ok(Self::concat(&result))
    }
}

/// The digits of `coord` in `shape`, one a leaf.
fn digits(shape: &IntTuple, coord: &IntTuple, bounds: Bounds) -> Result<Digits, Error> {
    check_fit(shape, coord, bounds)?;
    let mut digits = Digits::new();
    split(shape.view(), coord.view(), &mut digits);
    Ok(digits)
}

/// Whether `coord` nests as `shape` does down to its leaves, and lies within.
fn check_fit(shape: &IntTuple, coord: &IntTuple, bounds: Bounds) -> Result<(), Error> {
    if let Some(extent) = shape.leaves().iter().find(|n| n.value() < 1) {
        return Err(ErrorKind::Extent {
            extent: extent.value(),
            shape: shape.text(),
        }
        .into());
    }
    fits(shape.view(), coord.view(), bounds).map_err(|e| match e {
        CoordMisfit::Nesting => ErrorKind::Coordinate {
            coord: coord.text(),
            shape: shape.text(),
        }
        .into(),
        CoordMisfit::Beyond { coord, size } => ErrorKind::OutOfBounds {
            coord,
            size,
            shape: shape.text(),
        }
        .into(),
        CoordMisfit::Size(e) => e,
    })
}

enum CoordMisfit {
    Nesting,
    Beyond { coord: i64, size: i64 },
    Size(Error),
}

fn fits(shape: View<'_, Int>, coord: View<'_, Int>, bounds: Bounds) -> Result<(), CoordMisfit> {
    side_by_side(shape, coord, |shape, coord| {
        if let Some(c) = coord.as_leaf() {
            let size = product(shape.split_first().0)
                .map_err(CoordMisfit::Size)?
                .value();
            let within = (0..size).contains(&c.value()) || bounds == Bounds::Open;
            return if within {
                Ok(false)
            } else {
                Err(CoordMisfit::Beyond {
                    coord: c.value(),
                    size,
                })
            };
        }
        if shape.is_leaf() || shape.rank() != coord.rank() {
            return Err(CoordMisfit::Nesting);
        }
        Ok(true)
    })
}

/// Appends the digits of a coordinate that [`fits`].
fn split(shape: View<'_, Int>, coord: View<'_, Int>, out: &mut Digits) {
    let walked = side_by_side(shape, coord, |shape, coord| {
        let Some(c) = coord.as_leaf() else {
            return Ok::<_, Infallible>(true);
        };
        if let Some((_, before)) = shape.split_first().0.leaves().split_last() {
            let mut rest = c.value();
            for s in before {
                out.push(rest % s.value());
                rest /= s.value();
            }
            out.push(rest);
        }
        Ok(false)
    });
    walked.unwrap_or_else(|never| match never {});
}
