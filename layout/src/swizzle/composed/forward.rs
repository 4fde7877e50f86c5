//! What a composed layout does as its inner layout does: surgery, divides, products, tilings.

use alloc::format;
use alloc::string::String;
use core::ops::Range;

use crate::algebra::recast::{Units, check_factor, factors};
use crate::{
    Compose, ComposedLayout, Error, IntoComposedLayout, IntoIntTuple, IntoLayout, IntoTiler,
    Layout, Middle, ModeOrder, Outer, Profile,
};

/// Methods that apply to the inner layout under the same outer function.
macro_rules! forward {
    ($($(#[$doc:meta])* $name:ident($($arg:ident: $ty:ty),*);)*) => {
        impl ComposedLayout {
            $(
                $(#[$doc])*
                ///
                /// # Errors
                ///
                #[doc = concat!("Those of [`Layout::", stringify!($name), "`].")]
                pub fn $name(&self, $($arg: $ty),*) -> Result<Self, Error> {
                    Ok(self.over(self.inner().$name($($arg),*)?))
                }
            )*
        }
    };
}

forward! {
    /// The part that a path of indices names.
    get(path: &[usize]);
    /// The modes that `indices` name.
    select(indices: &[usize]);
    /// The modes in `range`.
    take(range: Range<usize>);
    /// Groups the modes in `range` into one.
    group(range: Range<usize>);
    /// One more mode at the end.
    append(mode: impl IntoLayout);
    /// Exchanges the two outer levels.
    zip();
    /// The tiles and the rest.
    logical_divide(tiler: impl IntoTiler);
    /// The tiles and the rest, gathered.
    zipped_divide(tiler: impl IntoTiler);
    /// The tiles gathered, the rest unpacked.
    tiled_divide(tiler: impl IntoTiler);
    /// Tiles and rest unpacked.
    flat_divide(tiler: impl IntoTiler);
    /// Regroups rank-2 modes at the leaves of the tiler.
    tile_unzip(tiler: impl IntoTiler);
    /// The block, repeated.
    logical_product(tiler: impl IntoTiler);
    /// The block and its copies, gathered.
    zipped_product(tiler: impl IntoTiler);
    /// The blocks gathered, the copies unpacked.
    tiled_product(tiler: impl IntoTiler);
    /// Blocks and copies unpacked.
    flat_product(tiler: impl IntoTiler);
    /// The block over the tiler mode by mode, block inside.
    blocked_product(tiler: impl IntoLayout);
    /// The block over the tiler mode by mode, interleaved.
    raked_product(tiler: impl IntoLayout);
    /// The block repeated until it has `shape`, in an order of modes.
    tile_to_shape(shape: impl IntoIntTuple, order: impl ModeOrder);
    /// The layout over the same elements in another shape.
    with_shape(shape: impl IntoIntTuple);
    /// The compact layout in the order of the inner strides.
    layout_like();
}

impl ComposedLayout {
    /// Returns `self o inner`, the composition on the right: `A o offset o (B o inner)`, also mode by mode.
    ///
    /// # Errors
    ///
    /// Returns the errors of [`Layout::composition`].
    ///
    /// # Example
    ///
    /// ```
    /// use colex_layout::ComposedLayout;
    /// let tile: ComposedLayout = "Sw<3,3,3> o 0 o (8,64):(64,1)".parse()?;
    /// assert_eq!(tile.composition((.., "8:8"))?.to_string(), "Sw<3,3,3> o 0 o (8,8):(64,8)");
    /// # Ok::<(), colex_layout::Error>(())
    /// ```
    pub fn composition<I: Compose<Self>>(&self, inner: I) -> Result<I::Output, Error> {
        inner.compose(self)
    }

    /// Returns all leaf modes in one flat layout.
    #[must_use]
    pub fn flatten(&self) -> Self {
        self.over(self.inner().flatten())
    }

    /// Returns the same function of the index with as few inner modes as possible, in the whole inner layout (`..`) or
    /// in each part that a tuple names.
    ///
    /// # Errors
    ///
    /// Returns the errors of [`Layout::coalesce`].
    pub fn coalesce<P: Profile>(&self, profile: P) -> P::Output<Self> {
        let over = |inner| self.over(inner);
        profile.map(self.inner(), "coalesce", Layout::coalesced, over)
    }

    /// Returns the layout without the stride-0 and extent-1 modes of the inner layout, in the whole of it (`..`) or in
    /// each part that a tuple names.
    ///
    /// # Errors
    ///
    /// Returns the errors of [`Layout::filter`].
    pub fn filter<P: Profile>(&self, profile: P) -> P::Output<Self> {
        let over = |inner| self.over(inner);
        profile.map(self.inner(), "filter", Layout::filtered, over)
    }

    /// Returns the register tensor for the inner layout; registers are not swizzled.
    ///
    /// # Errors
    ///
    /// Returns the errors of [`Layout::fragment_like`].
    pub fn fragment_like(&self) -> Result<Layout, Error> {
        self.inner().fragment_like()
    }

    /// Returns the offsets that the inner layout skips below `target`, as CuTe has it.
    ///
    /// # Errors
    ///
    /// Returns the errors of [`Layout::complement`].
    pub fn complement(&self, target: impl IntoIntTuple) -> Result<Layout, Error> {
        self.inner().complement(target)
    }

    /// Returns the indices that stride-0 modes map to the first element.
    ///
    /// # Errors
    ///
    /// Returns the errors of [`Layout::nullspace`].
    pub fn nullspace(&self) -> Result<Layout, Error> {
        self.inner().nullspace()
    }

    /// Returns the layout in units of `n` elements: swizzle, offset and layout together.
    ///
    /// At each coordinate the result is `floor(self(c) / n)`, over the digits that [`Layout::upcast`] of the inner
    /// layout gathers. A swizzle of positive shift loses the bits below the unit. One of negative shift reads them, so
    /// that neighbours of one unit lie in several units; where the inner layout sets them, there is no result (CuTe
    /// drops them). An outer layout is divided where its first mode is contiguous in whole units.
    ///
    /// Law `composed_upcast_floor`.
    ///
    /// # Errors
    ///
    /// Returns the errors of [`Swizzle::upcast`](crate::Swizzle::upcast) and [`Layout::upcast`], and an error if `n`
    /// does not divide the offset, if the swizzle reads bits that vary within a unit, if an outer layout does not keep
    /// units together, and an error for a pointer that is not known yet.
    ///
    /// # Example
    ///
    /// ```
    /// use colex_layout::ComposedLayout;
    /// let halves: ComposedLayout = "Sw<3,3,3> o 0 o (8,64):(64,1)".parse()?;
    /// assert_eq!(format!("{:#}", halves.upcast(8)?), "Sw<3,0,3> o 0 o (8,8):(8,1)");
    /// let reads: ComposedLayout = "Sw<3,0,-3> o 0 o 4:1".parse()?;
    /// assert_eq!(
    ///     reads.upcast(8).unwrap_err().to_string(),
    ///     "upcast of Sw<3,0,-3> o 0 o 4:1 by 8: the swizzle reads bits 0b111, which vary within a unit of 8, so a unit \
    ///      does not stay together",
    /// );
    /// # Ok::<(), colex_layout::Error>(())
    /// ```
    pub fn upcast(&self, n: i64) -> Result<Self, Error> {
        check_factor("upcast", self, n)?;
        self.gathered(n, Units::Touched, &self.by("upcast", n))
    }

    /// Returns the layout in units of `1/n` element.
    ///
    /// At digit `n*c + k` of the mode that grows in the inner layout, the result is `n * self(c) + k`.
    ///
    /// # Errors
    ///
    /// Returns the errors of [`Swizzle::downcast`](crate::Swizzle::downcast) and [`Layout::downcast`], and an error if
    /// the first mode of an outer layout does not have stride 1, and an error for a pointer that is not known yet.
    pub fn downcast(&self, n: i64) -> Result<Self, Error> {
        check_factor("downcast", self, n)?;
        self.parted(n, &self.by("downcast", n))
    }

    /// Returns the layout of elements of `old_bits` as one of elements of `new_bits`.
    ///
    /// # Errors
    ///
    /// Returns the errors of [`ComposedLayout::upcast`] and [`ComposedLayout::downcast`], and, if neither size divides
    /// the other, the errors of [`Layout::recast`].
    #[doc(alias = "recast_layout")]
    pub fn recast(&self, old_bits: i64, new_bits: i64) -> Result<Self, Error> {
        let (larger, smaller) = factors("recast", self, old_bits, new_bits)?;
        let refuse = |why: String| {
            Error::operand(
                "recast",
                format!("{self} from {old_bits} to {new_bits} bits"),
                why,
            )
        };
        let up = match larger {
            1 => self.clone(),
            _ => self.gathered(larger, Units::Touched.before(smaller), &refuse)?,
        };
        if smaller == 1 {
            Ok(up)
        } else {
            up.parted(smaller, &refuse)
        }
    }

    /// The error of a recast by the factor `n`.
    fn by(&self, operation: &'static str, n: i64) -> impl Fn(String) -> Error + '_ {
        move |why| Error::operand(operation, format!("{self} by {n}"), why)
    }

    /// The layout in units of `n` elements.
    fn gathered(
        &self,
        n: i64,
        units: Units,
        refuse: &impl Fn(String) -> Error,
    ) -> Result<Self, Error> {
        self.check_known(refuse)?;
        let offset = self.base_offset();
        let divided = |k: i64| match offset % k {
            0 => Ok(offset / k),
            _ => Err(refuse(format!("{k} does not divide the offset {offset}"))),
        };
        match self.outer() {
            Outer::Swizzle(sw) if sw.is_identity() => {
                let inner = self.inner().gathered(n, units, refuse)?;
                Self::new(*sw, divided(n)?, inner)
            }
            Outer::Swizzle(sw) => {
                let (coarse, offset) = (sw.upcast(n)?, divided(n)?);
                // Within a unit the swizzle exchanges elements, which changes nothing where all are there.
                let moves = sw.into_mask() & (n - 1) != 0;
                let units = if moves { units.at_least_whole() } else { units };
                let inner = self.inner().gathered(n, units, refuse)?;
                // The bits within a unit that a negative shift reads into bits of other units.
                let low = sw.from_mask() & (n - 1) & (sw.into_mask() & -n) >> sw.shift().abs();
                if sw.shift() < 0 && self.inner().sets_bits_within(n, low) {
                    return Err(refuse(format!(
                        "the swizzle reads bits {low:#b}, which vary within a unit of {n}, so a unit does not stay together"
                    )));
                }
                Self::new(coarse, offset, inner)
            }
            Outer::Layout(outer) => {
                let (outer, indices) = outer.upcast_outer(n, refuse)?;
                if units != Units::Touched && indices != n {
                    return Err(refuse(format!(
                        "the outer function {} does not fill units of {n} elements",
                        self.outer()
                    )));
                }
                if indices == 1 {
                    return Self::new(outer, offset, self.inner().clone());
                }
                self.check_indices(refuse)?;
                let inner = self.inner().gathered(indices, units, refuse)?;
                Self::new(outer, divided(indices)?, inner)
            }
        }
    }

    /// The layout in units of `1/n` element.
    fn parted(&self, n: i64, refuse: &impl Fn(String) -> Error) -> Result<Self, Error> {
        self.check_known(refuse)?;
        let inner = self.inner().parted(n, refuse)?;
        let offset = crate::tuple::int::mul(self.base_offset(), n)?;
        Ok(match self.outer() {
            Outer::Swizzle(sw) if sw.is_identity() => Self::new(*sw, offset, inner)?,
            Outer::Swizzle(sw) => Self::new(sw.downcast(n)?, offset, inner)?,
            Outer::Layout(outer) => {
                let parts = outer.downcast_outer(n, refuse)?;
                if outer.rank() > 1 || !outer.is_leaf() {
                    self.check_indices(refuse)?;
                }
                Self::new(parts, offset, inner)?
            }
        })
    }

    /// Refuses a pointer that is not known: its swizzle counts bytes, and keeps them for every element type.
    fn check_known(&self, refuse: &impl Fn(String) -> Error) -> Result<(), Error> {
        match self.middle() {
            Middle::Offset(_) => Ok(()),
            Middle::Pointer { .. } => Err(refuse(
                "the pointer is not known yet; take its position_independent form".into(),
            )),
        }
    }

    /// Refuses indices below 0 of an outer layout: it mirrors them, and units are not mirrored.
    fn check_indices(&self, refuse: &impl Fn(String) -> Error) -> Result<(), Error> {
        let (least, _) = self.inner().reach()?;
        let least = crate::tuple::int::add(self.base_offset(), least)?;
        if least >= 0 {
            return Ok(());
        }
        Err(refuse(format!(
            "the inner layout reaches index {least} of the outer function {}",
            self.outer()
        )))
    }

    /// Returns an `n` for which the layout is made of whole aligned vectors of `n` elements, in the order of the inner
    /// layout within each vector.
    ///
    /// It is [`Layout::max_alignment`] of the inner layout, cut to what divides the offset and to the `2^M` neighbours
    /// that a swizzle keeps together; 1 where the outer function is a layout.
    ///
    /// # Errors
    ///
    /// Returns the errors of [`Layout::max_alignment`].
    pub fn max_alignment(&self) -> Result<i64, Error> {
        let Outer::Swizzle(sw) = self.outer_in_elements()? else {
            return Ok(1);
        };
        let inner = crate::tuple::int::gcd(self.inner().max_alignment()?, self.base_offset());
        Ok(if sw.is_identity() {
            inner
        } else {
            crate::tuple::int::gcd(inner, sw.max_alignment())
        })
    }

    /// Returns the longest layout of indices at which both count up from their first offset: `self.at(r.at(k))` is
    /// `self.at(0) + k`, and `other.at(r.at(k))` is `k`.
    ///
    /// Under a swizzle it ends where the aligned block of `2^M` elements ends in which the first one lies.
    ///
    /// # Errors
    ///
    /// Returns the errors of [`Layout::max_common_layout`].
    pub fn max_common_layout(&self, other: impl IntoLayout) -> Result<Layout, Error> {
        other.with_layout(|other| self.inner().common_layout(other, self.vector_limit()?))
    }

    /// Returns how many elements from the first on are contiguous in both.
    ///
    /// Under a swizzle the count ends where the aligned block of `2^M` elements ends in which the first one lies. CuTe
    /// leaves the offset out of account, and does not limit the count where both swizzles are the same.
    ///
    /// # Errors
    ///
    /// Returns the errors of [`Layout::max_common_vector`].
    ///
    /// # Example
    ///
    /// ```
    /// use colex_layout::ComposedLayout;
    /// let tile: ComposedLayout = "Sw<3,3,3> o 99 o 16:1".parse()?;
    /// // 99 is element 3 of a block of 8.
    /// assert_eq!(tile.max_common_vector("16:1")?, 5);
    /// # Ok::<(), colex_layout::Error>(())
    /// ```
    pub fn max_common_vector(&self, other: impl IntoComposedLayout) -> Result<i64, Error> {
        let other = other.into_composed_layout()?;
        let n = self.inner().max_common_vector(other.inner())?;
        Ok(n.min(self.vector_limit()?).min(other.vector_limit()?))
    }

    /// How many contiguous elements from the offset on the outer function keeps contiguous, at least.
    fn vector_limit(&self) -> Result<i64, Error> {
        Ok(match self.outer_in_elements()? {
            Outer::Swizzle(sw) if sw.is_identity() => i64::MAX,
            Outer::Swizzle(sw) => {
                let block = sw.max_alignment();
                block - (self.base_offset() & (block - 1))
            }
            Outer::Layout(_) => 1,
        })
    }
}
