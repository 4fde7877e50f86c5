//! Composed layouts `A o offset o B`: an offset is taken by `B`, shifted, and mapped by `A`.

mod forward;
pub(crate) mod into;
mod inverse;
mod slice;

use alloc::boxed::Box;
use alloc::format;
use core::fmt;

use crate::tuple::int::add;
use crate::{Error, IntTuple, IntoLayout, IntoPoint, Layout, Swizzle};

/// `outer o offset o inner`: the function `c -> outer(offset + inner(c))`.
///
/// This is how CuTe writes a swizzled layout, `Sw<3,4,3> o 0 o (8,64):(64,1)`; see [`ComposedLayout::to_xor`] for the
/// same function as an ordinary layout. With the identity swizzle and offset 0 it is, and prints as, the inner layout.
///
/// # Example
///
/// ```
/// use colex_layout::{ComposedLayout, Swizzle};
/// let tile = ComposedLayout::new(Swizzle::new(3, 3, 3)?, 0, ((8, 64), (64, 1)))?;
/// assert_eq!(tile.to_string(), "Sw<3,3,3> o 0 o (8,64):(64,1)");
/// assert_eq!(tile.at((1, 0))?, 72);
/// assert_eq!(tile, "Sw<3,3,3> o 0 o (8,64):(64,1)".parse()?);
/// # Ok::<(), colex_layout::Error>(())
/// ```
///
/// Source: `cute/layout_composed.hpp`, `cute/swizzle_layout.hpp`.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct ComposedLayout {
    outer: Outer,
    middle: Middle,
    inner: Layout,
}

/// The outer function of a composed layout.
#[derive(Clone, PartialEq, Eq, Hash)]
#[expect(
    clippy::large_enum_variant,
    reason = "a layout stays inline, without a heap allocation"
)]
pub enum Outer {
    /// A swizzle.
    Swizzle(Swizzle),
    /// A layout, beyond its size as [`Layout::at`] has it.
    Layout(Layout),
}

/// What stands between the outer function and the inner layout.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Middle {
    /// An offset that is added.
    Offset(i64),
    /// A shared-memory pointer to elements of this many bits that is not yet known, `smem_ptr[16b](unset)`: the
    /// swizzle permutes *bytes* of the address, while the inner layout counts elements.
    Pointer {
        /// The element's width.
        bits: i64,
    },
}

impl From<Swizzle> for Outer {
    fn from(swizzle: Swizzle) -> Self {
        // The swizzles of no bits are one function.
        Self::Swizzle(if swizzle.is_identity() {
            Swizzle::IDENTITY
        } else {
            swizzle
        })
    }
}

impl From<Layout> for Outer {
    fn from(layout: Layout) -> Self {
        Self::Layout(layout)
    }
}

impl From<Layout> for ComposedLayout {
    fn from(layout: Layout) -> Self {
        Self::with_middle(Swizzle::IDENTITY, Middle::Offset(0), layout)
    }
}

impl From<&Layout> for ComposedLayout {
    fn from(layout: &Layout) -> Self {
        layout.clone().into()
    }
}

impl ComposedLayout {
    /// Returns `outer o offset o inner`.
    ///
    /// # Errors
    ///
    /// Returns an error if `inner` is no layout.
    pub fn new(
        outer: impl Into<Outer>,
        offset: i64,
        inner: impl IntoLayout,
    ) -> Result<Self, Error> {
        let inner = inner.into_layout()?;
        Ok(Self::with_middle(outer, Middle::Offset(offset), inner))
    }

    /// Returns a swizzle of byte addresses over a layout of elements of `bits` bits, as CuTe's shared-memory atoms are.
    ///
    /// # Errors
    ///
    /// Returns an error if `bits` is not positive.
    ///
    /// # Example
    ///
    /// ```
    /// use colex_layout::{ComposedLayout, Swizzle};
    /// let atom = ComposedLayout::for_pointer(Swizzle::new(3, 4, 3)?, 16, ((8, 64), (64, 1)))?;
    /// assert_eq!(atom.to_string(), "Sw<3,4,3> o smem_ptr[16b](unset) o (8,64):(64,1)");
    /// assert_eq!(atom.position_independent()?.to_string(), "Sw<3,3,3> o 0 o (8,64):(64,1)");
    /// # Ok::<(), colex_layout::Error>(())
    /// ```
    pub fn for_pointer(swizzle: Swizzle, bits: i64, inner: impl IntoLayout) -> Result<Self, Error> {
        let inner = inner.into_layout()?;
        if bits < 1 {
            return Err(Error::operand(
                "for_pointer",
                inner.text(),
                format!("an element of {bits} bits"),
            ));
        }
        Ok(Self::with_middle(swizzle, Middle::Pointer { bits }, inner))
    }

    pub(crate) fn with_middle(outer: impl Into<Outer>, middle: Middle, inner: Layout) -> Self {
        Self {
            outer: outer.into(),
            middle,
            inner,
        }
    }

    /// The same outer function and middle over another inner layout.
    pub(crate) fn over(&self, inner: Layout) -> Self {
        Self {
            outer: self.outer.clone(),
            middle: self.middle,
            inner,
        }
    }

    /// Returns the same outer function and offset over another inner layout: what every forwarded operation does.
    ///
    /// # Errors
    ///
    /// Returns an error if `inner` is no layout.
    pub fn with_inner_layout(&self, inner: impl IntoLayout) -> Result<Self, Error> {
        Ok(self.over(inner.into_layout()?))
    }

    pub(crate) fn text(&self) -> Box<str> {
        format!("{self}").into()
    }

    /// Returns the outer function (CuTe's `layout_a`).
    #[doc(alias = "layout_a")]
    #[must_use]
    pub const fn outer(&self) -> &Outer {
        &self.outer
    }

    /// Returns the inner layout (CuTe's `layout_b`).
    #[doc(alias = "layout_b")]
    #[doc(alias = "get_nonswizzle_portion")]
    #[must_use]
    pub const fn inner(&self) -> &Layout {
        &self.inner
    }

    /// Returns what stands in the middle.
    #[must_use]
    pub const fn middle(&self) -> Middle {
        self.middle
    }

    /// Returns the offset in the middle; 0 for a pointer that is not yet known.
    #[must_use]
    pub const fn base_offset(&self) -> i64 {
        match self.middle {
            Middle::Offset(n) => n,
            Middle::Pointer { .. } => 0,
        }
    }

    /// Returns the swizzle, the identity when the outer function is a layout (CuTe's `get_swizzle_portion`).
    #[doc(alias = "get_swizzle_portion")]
    #[must_use]
    pub const fn swizzle(&self) -> Swizzle {
        match self.outer {
            Outer::Swizzle(sw) => sw,
            Outer::Layout(_) => Swizzle::IDENTITY,
        }
    }

    /// The outer function in units of the inner layout's elements.
    pub(crate) fn outer_in_elements(&self) -> Result<Outer, Error> {
        match (&self.outer, self.middle) {
            (Outer::Swizzle(sw), Middle::Pointer { bits }) => Ok(sw.recast(8, bits)?.into()),
            (outer, _) => Ok(outer.clone()),
        }
    }

    /// Returns the swizzle in units of elements, over offset 0 in place of an unknown pointer
    /// (CuTe's `as_position_independent_swizzle_layout`).
    ///
    /// # Errors
    ///
    /// Returns an error if elements are not a power of two of bits.
    #[doc(alias = "as_position_independent_swizzle_layout")]
    pub fn position_independent(&self) -> Result<Self, Error> {
        let outer = self.outer_in_elements()?;
        Ok(Self::with_middle(
            outer,
            Middle::Offset(self.base_offset()),
            self.inner.clone(),
        ))
    }

    /// Returns the plain layout, when the outer function is the identity swizzle and the offset is 0.
    ///
    /// # Errors
    ///
    /// Returns an error if the layout is not plain; [`ComposedLayout::to_xor`] gives an ordinary layout for more.
    pub fn to_layout(&self) -> Result<Layout, Error> {
        if self.is_plain() {
            return Ok(self.inner.clone());
        }
        Err(Error::operand(
            "to_layout",
            self.text(),
            "it is not a layout alone; to_xor gives one with XOR strides",
        ))
    }

    /// Returns whether it is its inner layout.
    #[must_use]
    pub fn is_plain(&self) -> bool {
        self.middle == Middle::Offset(0)
            && matches!(self.outer, Outer::Swizzle(sw) if sw.is_identity())
    }

    /// Returns the shape, that of the inner layout.
    #[must_use]
    pub fn shape(&self) -> IntTuple {
        self.inner.shape()
    }

    /// Returns the number of coordinates.
    #[must_use]
    pub fn size(&self) -> i64 {
        self.inner.size()
    }

    /// Returns the number of modes.
    #[must_use]
    pub fn rank(&self) -> usize {
        self.inner.rank()
    }

    /// Returns how deep the parentheses nest.
    #[must_use]
    pub fn depth(&self) -> usize {
        self.inner.depth()
    }

    /// Returns the offset at a coordinate, which may be [`Unbounded`](crate::Unbounded).
    ///
    /// # Errors
    ///
    /// Returns the errors of [`Layout::at`].
    #[doc(alias = "offset")]
    pub fn at(&self, coord: impl IntoPoint) -> Result<i64, Error> {
        self.map(self.inner.at(coord)?)
    }

    /// What the outer function makes of an inner offset.
    fn map(&self, inner: i64) -> Result<i64, Error> {
        let x = add(self.base_offset(), inner)?;
        match self.outer_in_elements()? {
            Outer::Swizzle(sw) => Ok(sw.apply(x)),
            Outer::Layout(l) => l.at_unbounded(x),
        }
    }

    /// Returns all offsets of a swizzled layout in the order of the index, without division.
    ///
    /// # Errors
    ///
    /// Returns the errors of [`Layout::offsets`], and an error if the outer function is a layout, and an error if a
    /// number does not fit in 64 bits.
    pub fn offsets(&self) -> Result<impl ExactSizeIterator<Item = i64> + use<>, Error> {
        let Outer::Swizzle(swizzle) = self.outer_in_elements()? else {
            return Err(Error::operand(
                "offsets",
                self.text(),
                "its outer function is a layout; compose the two",
            ));
        };
        let start = self.base_offset();
        // The sums at both ends fit, so those between need no checks.
        let (least, most) = self.inner.reach()?;
        add(start, least)?;
        add(start, most)?;
        Ok(self.inner.offsets()?.map(move |x| swizzle.apply(start + x)))
    }

    /// Returns all offsets in the order of the index.
    ///
    /// # Errors
    ///
    /// Returns the errors of [`ComposedLayout::at`].
    pub fn table(&self) -> Result<alloc::vec::Vec<i64>, Error> {
        self.inner
            .table()?
            .into_iter()
            .map(|x| self.map(x))
            .collect()
    }
}

impl fmt::Display for Outer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Swizzle(sw) => sw.fmt(f),
            Self::Layout(l) => l.fmt(f),
        }
    }
}

impl fmt::Debug for Outer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl fmt::Display for Middle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Offset(n) => n.fmt(f),
            Self::Pointer { bits } => write!(f, "smem_ptr[{bits}b](unset)"),
        }
    }
}

/// `A o offset o B`, or the inner layout alone where it is that.
impl fmt::Display for ComposedLayout {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if !self.is_plain() {
            self.outer.fmt(f)?;
            write!(f, " o {} o ", self.middle)?;
        }
        self.inner.fmt(f)
    }
}

impl fmt::Debug for ComposedLayout {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}
