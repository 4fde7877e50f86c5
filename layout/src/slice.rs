//! Slices and dices: coordinates with `_` for the modes that stay.

use core::fmt;

use crate::int_tuple::rank_error;
use crate::parse::whole;
use crate::tuple::{Builder, Leaf, Tuple, View};
use crate::{Error, Int, IntTuple, Layout};

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

impl core::str::FromStr for Coord {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self, Error> {
        whole(text, |c| {
            c.tuple(|c| {
                if c.eat("_") {
                    Ok(Slot::All)
                } else {
                    c.number().map(Slot::At)
                }
            })
        })
    }
}

impl Coord {
    /// Whether some mode stays whole.
    #[doc(alias = "has_underscore")]
    #[must_use]
    pub fn has_all(&self) -> bool {
        self.leaves().contains(&Slot::All)
    }

    /// The coordinate with 0 for `_`: where a slice starts.
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
    /// The modes where `coord` has `_`, the others fixed (at offset 0; see [`Layout::slice_and_offset`]).
    ///
    /// Modes kept inside a nested part of `coord` move up one level, as in CuTe.
    ///
    /// # Errors
    ///
    /// [`Error::Rank`] when `coord` nests where the layout does not.
    ///
    /// # Example
    ///
    /// ```
    /// use colex_layout::Layout;
    /// let a: Layout = "((3,2),((2,3),2)):((4,1),((2,15),100))".parse()?;
    /// assert_eq!(a.slice(&"((_,1),_)".parse()?)?.to_string(), "(3,((2,3),2)):(4,((2,15),100))");
    /// # Ok::<(), colex_layout::Error>(())
    /// ```
    pub fn slice(&self, coord: &Coord) -> Result<Self, Error> {
        self.keep("slice", coord, Keep::All)
    }

    /// The modes where `coord` has an index: the part that a slice fixes.
    ///
    /// # Errors
    ///
    /// [`Error::Rank`] when `coord` nests where the layout does not.
    pub fn dice(&self, coord: &Coord) -> Result<Self, Error> {
        self.keep("dice", coord, Keep::At)
    }

    /// The slice, and the offset at which it starts.
    ///
    /// # Errors
    ///
    /// [`Error::Rank`], [`Error::OutOfBounds`], [`Error::StrideKind`], [`Error::Overflow`].
    ///
    /// # Example
    ///
    /// ```
    /// use colex_layout::Layout;
    /// let rows: Layout = "(4,8):(8,1)".parse()?;
    /// let (row, offset) = rows.slice_and_offset(&"(2,_)".parse()?)?;
    /// assert_eq!((row.to_string(), offset), ("(8):(1)".to_string(), 16));
    /// # Ok::<(), colex_layout::Error>(())
    /// ```
    pub fn slice_and_offset(&self, coord: &Coord) -> Result<(Self, i64), Error> {
        let slice = self.slice(coord)?;
        Ok((slice, self.offset(coord.start())?))
    }

    /// The layout as seen from `coord`, which becomes the origin, and the offset of that origin.
    ///
    /// # Errors
    ///
    /// Those of [`Layout::offset_unbounded`].
    pub fn domain_offset(&self, coord: impl Into<IntTuple>) -> Result<(Self, i64), Error> {
        Ok((self.clone(), self.offset_unbounded(coord)?))
    }

    fn keep(&self, operation: &'static str, coord: &Coord, keep: Keep) -> Result<Self, Error> {
        let mismatch = || {
            rank_error(
                operation,
                self,
                coord,
                "a coordinate whose nesting the layout refines",
            )
        };
        if let Some(slot) = coord.as_leaf() {
            return Ok(if (slot == Slot::All) == (keep == Keep::All) {
                self.clone()
            } else {
                Self(Tuple::flat([]))
            });
        }
        let mut b = Builder::new();
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
    out: &mut Builder<T>,
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
