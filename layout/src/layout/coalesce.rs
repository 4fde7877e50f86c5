//! Joining modes that are one: coalesce and filter.

use core::ops::RangeFull;

use smallvec::SmallVec;

use crate::layout::{LayoutView, LeafMode};
use crate::tuple::int_tuple::rank_error;
use crate::tuple::walk::check_depth;
use crate::tuple::{Tuple, TupleBuilder, View};
use crate::{Error, Int, IntTuple, IntoIntTuple, Layout, Stride};

/// Flat leaf modes.
pub(crate) type Flat = SmallVec<[LeafMode; 12]>;

impl Layout {
    /// Returns the same function of the index with as few modes as possible.
    ///
    /// Modes of extent 1 vanish, and `(s0,s1):(d0,s0*d0)` is one mode `s0*s1:d0`. The [`Profile`] `..` coalesces the
    /// whole layout, to depth 0 or 1. A tuple coalesces each part that one of its leaves names: `(1,1)` keeps rank 2.
    ///
    /// Laws `coalesce_at` (same offset at every index) and `coalesce_flat` (depth at most 1).
    ///
    /// # Errors
    ///
    /// `..` gives a layout without an error. A tuple gives an error if it has more modes than the layout at any level,
    /// or nests deeper than 64 parentheses.
    ///
    /// # Example
    ///
    /// ```
    /// use colex_layout::Layout;
    /// let l: Layout = "(2,(1,6)):(1,(6,2))".parse()?;
    /// assert_eq!(l.coalesce(..).to_string(), "12:1");
    /// assert_eq!(l.coalesce((1, 1))?.to_string(), "(2,6):(1,2)");
    /// # Ok::<(), colex_layout::Error>(())
    /// ```
    ///
    /// Source: `coalesce(layout)` and `coalesce(layout, profile)` in `cute/layout.hpp`.
    pub fn coalesce<P: Profile>(&self, profile: P) -> P::Output<Self> {
        profile.map(self, "coalesce", Self::coalesced, |result| result)
    }

    /// [`Layout::coalesce`] of the whole layout.
    pub(crate) fn coalesced(&self) -> Self {
        layout_of(coalesced(self.leaves(), Tail::Drop))
    }

    /// Returns the layout with every stride-0 mode reduced to extent 1.
    #[must_use]
    pub fn filter_zeros(&self) -> Self {
        Self(self.0.map(|leaf| {
            if leaf.stride.is_zero() {
                LeafMode::new(Int::Static(1), leaf.stride)
            } else {
                leaf
            }
        }))
    }

    /// Returns the layout without its modes of stride 0 or extent 1, coalesced. The result reaches the same offsets as this
    /// layout; an offset that only modes of stride 0 repeat, it reaches once.
    ///
    /// The [`Profile`] `..` filters the whole layout, and a tuple each part that one of its leaves names.
    ///
    /// # Errors
    ///
    /// Returns the errors of [`Layout::coalesce`].
    ///
    /// # Example
    ///
    /// ```
    /// use colex_layout::Layout;
    /// let broadcast: Layout = "(4,3,2):(1,0,4)".parse()?;
    /// assert_eq!(broadcast.filter(..).to_string(), "8:1");
    /// assert_eq!(format!("{:#}", broadcast.filter((1, 1, 1))?), "(4,1,2):(1,0,4)");
    /// # Ok::<(), colex_layout::Error>(())
    /// ```
    pub fn filter<P: Profile>(&self, profile: P) -> P::Output<Self> {
        profile.map(self, "filter", Self::filtered, |result| result)
    }

    /// [`Layout::filter`] of the whole layout.
    pub(crate) fn filtered(&self) -> Self {
        self.filter_zeros().coalesced()
    }

    fn by_profile(
        &self,
        operation: &'static str,
        profile: &IntTuple,
        f: impl Fn(&Self) -> Self + Copy,
    ) -> Result<Self, Error> {
        check_depth("profile", profile)?;
        let mismatch = || {
            rank_error(
                operation,
                self,
                profile,
                "a profile of at most the same rank, mode by mode",
            )
        };
        let mut b = TupleBuilder::new();
        by_profile(self.view(), profile.view(), f, &mut b, &mismatch)?;
        Ok(Self(b.finish()))
    }
}

/// Which parts of a layout an operation treats one by one.
///
/// `..` stands for the whole layout, and the operation cannot fail. An [`IntoIntTuple`] names one part at each of its
/// leaves, whose values do not matter; modes beyond its rank stay as they are, and the operation returns an error if
/// the tuple has more modes than the layout at any level.
pub trait Profile: Sized {
    /// What an operation with the result `T` returns: `T` for `..`, `Result<T, Error>` for a tuple.
    type Output<T>;

    /// Applies `f` to each part of `layout` and `wrap` to the result; errors name `operation`.
    #[doc(hidden)]
    fn map<T>(
        self,
        layout: &Layout,
        operation: &'static str,
        f: fn(&Layout) -> Layout,
        wrap: impl FnOnce(Layout) -> T,
    ) -> Self::Output<T>;
}

impl Profile for RangeFull {
    type Output<T> = T;

    #[inline]
    fn map<T>(
        self,
        layout: &Layout,
        _: &'static str,
        f: fn(&Layout) -> Layout,
        wrap: impl FnOnce(Layout) -> T,
    ) -> T {
        wrap(f(layout))
    }
}

impl<V: IntoIntTuple> Profile for V {
    type Output<T> = Result<T, Error>;

    fn map<T>(
        self,
        layout: &Layout,
        operation: &'static str,
        f: fn(&Layout) -> Layout,
        wrap: impl FnOnce(Layout) -> T,
    ) -> Result<T, Error> {
        let profile = self.into_int_tuple()?;
        layout.by_profile(operation, &profile, f).map(wrap)
    }
}

fn by_profile(
    layout: LayoutView<'_>,
    profile: View<'_, Int>,
    f: impl Fn(&Layout) -> Layout + Copy,
    out: &mut TupleBuilder<LeafMode>,
    mismatch: &impl Fn() -> Error,
) -> Result<(), Error> {
    if profile.is_leaf() {
        out.push(f(&Layout(layout.to_tuple())).view());
        return Ok(());
    }
    if profile.rank() > layout.rank() {
        return Err(mismatch());
    }
    let open = out.open();
    let mut profiles = profile.modes();
    for mode in layout.modes() {
        match profiles.next() {
            Some(p) => by_profile(mode, p, f, out, mismatch)?,
            None => out.push(mode),
        }
    }
    out.close(open, layout.rank());
    Ok(())
}

/// What happens to a last mode of extent 1.
#[derive(Clone, Copy, PartialEq)]
pub(crate) enum Tail {
    /// Drops the mode, which is correct for indices within the size.
    Drop,
    /// Keeps the mode as if it had extent 2: composition needs its stride beyond the size.
    Continue,
}

/// What coalescing does with one leaf, from the last to the first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Join {
    /// The leaf has extent 1 and is dropped.
    Dropped(LeafMode),
    /// The leaf stays a mode of its own.
    Kept(LeafMode),
    /// The leaf ends where the next mode begins, so both are one mode.
    Joined {
        /// The leaf.
        leaf: LeafMode,
        /// The mode after it.
        next: LeafMode,
        /// The mode that both make.
        both: LeafMode,
    },
}

/// The coalesced leaves, never empty.
pub(crate) fn coalesced(leaves: &[LeafMode], tail: Tail) -> Flat {
    coalesced_noting(leaves, tail, &mut |_| ())
}

/// [`coalesced`]; `note` sees every step.
pub(crate) fn coalesced_noting(
    leaves: &[LeafMode],
    tail: Tail,
    note: &mut impl FnMut(Join),
) -> Flat {
    let mut reversed = Flat::new();
    for (i, &leaf) in leaves.iter().rev().enumerate() {
        if i == 0 && tail == Tail::Continue && leaf.extent.is(1) {
            reversed.push(LeafMode::new(leaf.extent.with_value(2), leaf.stride));
        } else if leaf.extent.is(1) {
            note(Join::Dropped(leaf));
        } else {
            note(join(&mut reversed, leaf));
        }
    }
    if reversed.is_empty() {
        reversed.push(LeafMode::UNIT);
    }
    reversed.reverse();
    reversed
}

/// Puts `leaf` before the modes collected so far, as one mode with the first of them where it is one.
fn join(reversed: &mut Flat, leaf: LeafMode) -> Join {
    if let Some(next) = reversed.last_mut()
        && leaf.stride.continues(leaf.extent, next.stride)
        && let Ok(extent) = leaf.extent.times(next.extent)
    {
        let both = LeafMode::new(extent, tainted(leaf.stride, next.stride.coefficient()));
        let next = core::mem::replace(next, both);
        return Join::Joined { leaf, next, both };
    }
    reversed.push(leaf);
    Join::Kept(leaf)
}

/// The stride, dynamic if `other` is: that the modes join depended on it.
fn tainted(stride: Stride, other: Int) -> Stride {
    let c = stride.coefficient();
    stride.with_coefficient(c.taint(other, c.value()))
}

/// The coalesced modes that composition walks through, as they are shown: a last mode of extent 1 keeps that extent.
pub(crate) fn walked(layout: &crate::Layout) -> Flat {
    let mut flat = coalesced(layout.leaves(), Tail::Continue);
    if let (Some(shown), Some(last)) = (flat.last_mut(), layout.leaves().last())
        && last.extent.is(1)
    {
        shown.extent = last.extent;
    }
    flat
}

/// A single mode without parentheses, or a flat tuple.
#[inline]
pub(crate) fn layout_of(flat: Flat) -> Layout {
    match flat[..] {
        [leaf] => Layout(Tuple::leaf(leaf)),
        _ => Layout(Tuple::flat(flat.iter().copied())),
    }
}
