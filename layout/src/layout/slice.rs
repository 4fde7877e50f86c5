//! Slices and dices: coordinates with `_` for the modes that stay.

use core::fmt;
use core::ops::RangeFull;

use crate::layout::LeafMode;
use crate::tuple::int::bit_length;
use crate::tuple::int_tuple::rank_error;
use crate::tuple::{Leaf, Tuple, TupleBuilder, View};
use crate::{Error, Int, IntTuple, IntoIntTuple, IntoTuple, Layout, Unbounded};

/// A place in a [`Coord`]: an index, or the whole mode.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Slot {
    /// One index.
    At(i64),
    /// The whole mode, `_`.
    All,
}

/// A coordinate in which `_` stands for a whole mode: `(_,3)`.
///
/// # Example
///
/// ```
/// use colex_layout::{Coord, Slot};
/// let column: Coord = "(_,3)".parse()?;
/// assert_eq!(column, Coord::from((Slot::All, 3)));
/// # Ok::<(), colex_layout::Error>(())
/// ```
///
/// Source: `cute/underscore.hpp`.
pub type Coord = Tuple<Slot>;

impl fmt::Display for Slot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::At(n) => n.fmt(f),
            Self::All => f.write_str("_"),
        }
    }
}

impl Leaf for Slot {}

impl From<Slot> for Tuple<Slot> {
    fn from(slot: Slot) -> Self {
        Self::leaf(slot)
    }
}

impl From<i64> for Tuple<Slot> {
    fn from(n: i64) -> Self {
        Self::leaf(Slot::At(n))
    }
}

impl From<IntTuple> for Tuple<Slot> {
    fn from(coord: IntTuple) -> Self {
        coord.map(|n| Slot::At(n.value()))
    }
}

impl From<Int> for Slot {
    fn from(n: Int) -> Self {
        Self::At(n.value())
    }
}

impl IntoTuple<Self> for Slot {
    fn append_to(self, out: &mut TupleBuilder<Self>) -> Result<(), Error> {
        out.leaf(self);
        Ok(())
    }
}

/// `..` stands for CuTe's `_`.
impl IntoTuple<Slot> for RangeFull {
    fn append_to(self, out: &mut TupleBuilder<Slot>) -> Result<(), Error> {
        out.leaf(Slot::All);
        Ok(())
    }
}

/// A coordinate in which `..` (or [`Slot::All`], or `_` in a text) stands for a whole mode.
///
/// Every [`IntoTuple<Slot>`](IntoTuple) is one; its documentation lists them.
///
/// # Example
///
/// ```
/// use colex_layout::{IntoCoord, Layout};
/// assert_eq!((.., (3, ..)).into_coord()?.to_string(), "(_,(3,_))");
/// let rows = Layout::new((4, 8), (8, 1))?;
/// let (row, offset) = rows.slice_and_offset((2, ..))?;
/// assert_eq!((row.to_string(), offset), ("(8):(1)".to_string(), 16));
/// assert_eq!(rows.slice("(2,_)")?, row);
/// # Ok::<(), colex_layout::Error>(())
/// ```
pub trait IntoCoord: IntoTuple<Slot> {
    /// Returns the coordinate.
    ///
    /// # Errors
    ///
    /// Returns the errors of [`IntoTuple::into_tuple`].
    fn into_coord(self) -> Result<Coord, Error> {
        self.into_tuple()
    }
}

impl<V: IntoTuple<Slot>> IntoCoord for V {}

macro_rules! from_tuples {
    ($($($T:ident)+;)*) => {$(
        impl<$($T: Into<Tuple<Slot>>),+> From<($($T,)+)> for Tuple<Slot> {
            #[expect(non_snake_case, reason = "the type parameters name the values as well")]
            fn from(($($T,)+): ($($T,)+)) -> Self {
                Self::concat(&[$($T.into()),+])
            }
        }
    )*};
}

from_tuples! { A; A B; A B C; A B C D; A B C D E; A B C D E F; }

impl Coord {
    /// Returns whether some mode stays whole.
    #[doc(alias = "has_underscore")]
    #[must_use]
    pub fn has_all(&self) -> bool {
        self.leaves().contains(&Slot::All)
    }

    /// Returns the coordinate with 0 for `_`: where a slice starts.
    #[must_use]
    pub fn start(&self) -> IntTuple {
        self.map(|slot| match slot {
            Slot::At(n) => Int::Dynamic(n),
            Slot::All => Int::Dynamic(0),
        })
    }
}

/// Which modes stay.
#[derive(Clone, Copy, PartialEq)]
enum Keep {
    All,
    At,
}

impl Layout {
    /// Returns the layout of the modes where `coord` has `_`, without the offset of the fixed modes (see
    /// [`Layout::slice_and_offset`]).
    ///
    /// Modes kept inside a nested part of `coord` move up one level, as in CuTe.
    ///
    /// # Errors
    ///
    /// Returns an error if `coord` nests where the layout does not.
    ///
    /// # Example
    ///
    /// ```
    /// use colex_layout::Layout;
    /// let a: Layout = "((3,2),((2,3),2)):((4,1),((2,15),100))".parse()?;
    /// assert_eq!(a.slice(((.., 1), ..))?.to_string(), "(3,((2,3),2)):(4,((2,15),100))");
    /// # Ok::<(), colex_layout::Error>(())
    /// ```
    pub fn slice(&self, coord: impl IntoCoord) -> Result<Self, Error> {
        self.keep("slice", &coord.into_coord()?, Keep::All)
    }

    /// Returns the layout of the modes where `coord` has an index: those that [`Layout::slice`] removes.
    ///
    /// # Errors
    ///
    /// Returns an error if `coord` nests where the layout does not.
    pub fn dice(&self, coord: impl IntoCoord) -> Result<Self, Error> {
        self.keep("dice", &coord.into_coord()?, Keep::At)
    }

    /// Returns the slice, and the offset at which it starts: `self(coord with c) == offset + slice(c)`.
    ///
    /// Offsets of XOR strides combine by XOR. If the start and the slice share a bit, the returned slice has
    /// integer strides, so that its offsets add to the start, with one mode for each run of bits of equal step.
    ///
    /// Law `slice_adds`.
    ///
    /// # Errors
    ///
    /// Returns an error for operands whose ranks do not fit, for a coordinate outside of the shape, for strides of
    /// another kind, if a number does not fit in 64 bits, or for XOR strides if no layout satisfies the equation above.
    ///
    /// # Example
    ///
    /// ```
    /// use colex_layout::Layout;
    /// let rows: Layout = "(4,8):(8,1)".parse()?;
    /// let (row, offset) = rows.slice_and_offset((2, ..))?;
    /// assert_eq!((row.to_string(), offset), ("(8):(1)".to_string(), 16));
    /// let swizzled: Layout = "(8,64):(^72,^1)".parse()?;
    /// let (row, offset) = swizzled.slice_and_offset((1, ..))?;
    /// assert_eq!((row.to_string(), offset), ("((8,2,4)):((1,-8,16))".to_string(), 72));
    /// assert_eq!(offset + row.at(8)?, swizzled.at((1, 8))?);
    /// # Ok::<(), colex_layout::Error>(())
    /// ```
    pub fn slice_and_offset(&self, coord: impl IntoCoord) -> Result<(Self, i64), Error> {
        let coord = coord.into_coord()?;
        let slice = self.slice(&coord)?;
        let start = self.at(coord.start())?;
        if self.is_xor() {
            return Ok((slice.added_to("slice_and_offset", start)?, start));
        }
        Ok((slice, start))
    }

    /// Returns the layout as seen from `coord`, which becomes the origin, and the offset of that origin.
    ///
    /// As in CuTe, coordinates add leaf by leaf: the returned layout maps the coordinate `c` to
    /// `self(coord + c) - offset`. An integer for a nested mode is split into its leaves before the addition; a sum
    /// that carries from one leaf into the
    /// next is another coordinate.
    ///
    /// Law `domain_offset_adds`.
    ///
    /// # Errors
    ///
    /// Returns the errors of [`Layout::at`], and an error for XOR strides if a digit of `coord` shares bits with those
    /// of its mode, or its offset with those of the layout: then offsets do not add.
    ///
    /// # Example
    ///
    /// ```
    /// use colex_layout::Layout;
    /// let rows: Layout = "(4,8):(8,1)".parse()?;
    /// assert_eq!(rows.domain_offset((1, 2))?, (rows.clone(), 10));
    /// let swizzled: Layout = "(8,64):(^72,^1)".parse()?;
    /// assert_eq!(
    ///     swizzled.domain_offset((1, 0)).unwrap_err().to_string(),
    ///     "domain_offset of (8,64):(^72,^1): its XOR offsets do not add to those of the coordinate (1,0)",
    /// );
    /// # Ok::<(), colex_layout::Error>(())
    /// ```
    pub fn domain_offset(&self, coord: impl IntoIntTuple) -> Result<(Self, i64), Error> {
        let coord = coord.into_int_tuple()?;
        let start = self.at(Unbounded(coord.clone()))?;
        if self.is_xor() {
            let digits = self.shape().coord(Unbounded(coord.clone()))?;
            let apart = |(leaf, digit): (&LeafMode, &Int)| {
                let bits = i64::MAX.unbounded_shr(63 - bit_length(leaf.size()));
                leaf.stride.is_zero() || digit.value() & bits == 0
            };
            let digits = self.leaves().iter().zip(digits.leaves());
            if start & self.xor_mask()? != 0 || !digits.into_iter().all(apart) {
                return Err(Error::operand(
                    "domain_offset",
                    self.text(),
                    alloc::format!(
                        "its XOR offsets do not add to those of the coordinate {coord:#}"
                    ),
                ));
            }
        }
        Ok((self.clone(), start))
    }

    fn keep(&self, operation: &'static str, coord: &Coord, keep: Keep) -> Result<Self, Error> {
        let mismatch = || {
            rank_error(
                operation,
                self,
                coord,
                "a coordinate that nests as the layout does, or less deeply",
            )
        };
        if let Some(slot) = coord.as_leaf() {
            return Ok(if (slot == Slot::All) == (keep == Keep::All) {
                self.clone()
            } else {
                Self(Tuple::flat([]))
            });
        }
        let mut b = TupleBuilder::new();
        let open = b.open();
        let rank = kept(self.view(), coord.view(), keep, &mut b).ok_or_else(mismatch)?;
        b.close(open, rank);
        Ok(Self(b.finish()))
    }
}

/// Pushes the modes of `layout` that stay and counts them; `None` when the nesting does not fit.
fn kept<T: Copy>(
    layout: View<'_, T>,
    coord: View<'_, Slot>,
    keep: Keep,
    out: &mut TupleBuilder<T>,
) -> Option<usize> {
    if let Some(slot) = coord.as_leaf() {
        let stays = (slot == Slot::All) == (keep == Keep::All);
        if stays {
            out.push(layout);
        }
        return Some(usize::from(stays));
    }
    if layout.is_leaf() || layout.rank() != coord.rank() {
        return None;
    }
    layout
        .modes()
        .zip(coord.modes())
        .try_fold(0, |n, (l, c)| Some(n + kept(l, c, keep, out)?))
}
