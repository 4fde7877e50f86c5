//! What a composed layout does as its inner layout does: surgery, divides, products, tilings.

use core::ops::Range;

use crate::int_tuple::rank_error;
use crate::{ComposedLayout, Error, IntTuple, Layout, Middle, Outer, Swizzle, Tiler};

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
    append(mode: &Layout);
    /// Exchanges the two outer levels.
    zip();
    /// `self o inner`, the composition on the right: `A o offset o (B o inner)`.
    composition(inner: &Layout);
    /// The composition mode by mode.
    composition_tiler(tiler: &Tiler);
    /// Coalesces each part that a leaf of `profile` names.
    coalesce_modes(profile: &IntTuple);
    /// Filters each part that a leaf of `profile` names.
    filter_modes(profile: &IntTuple);
    /// The tiles and the rest.
    logical_divide(tiler: &Tiler);
    /// The tiles and the rest, gathered.
    zipped_divide(tiler: &Tiler);
    /// The tiles gathered, the rest unpacked.
    tiled_divide(tiler: &Tiler);
    /// Tiles and rest unpacked.
    flat_divide(tiler: &Tiler);
    /// Regroups rank-2 modes at the leaves of the tiler.
    tile_unzip(tiler: &Tiler);
    /// The block, repeated.
    logical_product(tiler: &Tiler);
    /// The block and its copies, gathered.
    zipped_product(tiler: &Tiler);
    /// The blocks gathered, the copies unpacked.
    tiled_product(tiler: &Tiler);
    /// Blocks and copies unpacked.
    flat_product(tiler: &Tiler);
    /// The block over the tiler mode by mode, block inside.
    blocked_product(tiler: &Layout);
    /// The block over the tiler mode by mode, interleaved.
    raked_product(tiler: &Layout);
    /// The block repeated until it has `shape`.
    tile_to_shape(shape: &IntTuple);
    /// The block repeated until it has `shape`, in an order of modes.
    tile_to_shape_ordered(shape: &IntTuple, order: &IntTuple);
    /// The block repeated until it has `shape`, along the last mode first.
    tile_to_shape_row_major(shape: &IntTuple);
    /// The layout over the same elements in another shape.
    with_shape(shape: IntTuple);
    /// The compact layout in the order of the inner strides.
    layout_like();
}

impl ComposedLayout {
    /// All leaf modes in one flat layout.
    #[must_use]
    pub fn flatten(&self) -> Self {
        self.over(self.inner().flatten())
    }

    /// The same function of the index with as few inner modes as possible.
    #[must_use]
    pub fn coalesce(&self) -> Self {
        self.over(self.inner().coalesce())
    }

    /// The register tensor for the inner layout; registers are not swizzled.
    ///
    /// # Errors
    ///
    /// Those of [`Layout::fragment_like`].
    pub fn fragment_like(&self) -> Result<Layout, Error> {
        self.inner().fragment_like()
    }

    /// The offsets that the inner layout skips below `target`, as CuTe has it.
    ///
    /// # Errors
    ///
    /// Those of [`Layout::complement`].
    pub fn complement(&self, target: impl Into<IntTuple>) -> Result<Layout, Error> {
        self.inner().complement(target)
    }

    /// The indices that stride-0 modes map to the first element.
    ///
    /// # Errors
    ///
    /// Those of [`Layout::nullspace`].
    pub fn nullspace(&self) -> Result<Layout, Error> {
        self.inner().nullspace()
    }

    /// In units of `n` elements: swizzle, offset and layout together.
    ///
    /// # Errors
    ///
    /// Those of [`Swizzle::upcast`] and [`Layout::upcast`]; [`Error::NotDivisible`] when `n` does not divide the offset.
    ///
    /// # Example
    ///
    /// ```
    /// use colex_layout::ComposedLayout;
    /// let halves: ComposedLayout = "Sw<3,3,3> o 0 o (8,64):(64,1)".parse()?;
    /// assert_eq!(format!("{:#}", halves.upcast(8)?), "Sw<3,0,3> o 0 o (8,8):(8,1)");
    /// # Ok::<(), colex_layout::Error>(())
    /// ```
    pub fn upcast(&self, n: i64) -> Result<Self, Error> {
        let offset = self.base_offset();
        if n > 0 && offset % n != 0 {
            return Err(Error::NotDivisible {
                operation: "upcast",
                left: offset,
                right: n,
            });
        }
        let inner = self.inner().upcast(n)?;
        self.rescaled(|sw| sw.upcast(n), |l| l.upcast(n), offset / n, inner)
    }

    /// In units of `1/n` element.
    ///
    /// # Errors
    ///
    /// Those of [`Swizzle::downcast`] and [`Layout::downcast`].
    pub fn downcast(&self, n: i64) -> Result<Self, Error> {
        let inner = self.inner().downcast(n)?;
        let offset = crate::int::mul(self.base_offset(), n)?;
        self.rescaled(|sw| sw.downcast(n), |l| l.downcast(n), offset, inner)
    }

    /// The layout of elements of `old_bits` as one of elements of `new_bits`.
    ///
    /// # Errors
    ///
    /// Those of [`ComposedLayout::upcast`] and [`ComposedLayout::downcast`].
    #[doc(alias = "recast_layout")]
    pub fn recast(&self, old_bits: i64, new_bits: i64) -> Result<Self, Error> {
        if old_bits < 1 || new_bits < 1 {
            return Err(rank_error(
                "recast",
                self,
                &old_bits.min(new_bits),
                "element sizes of at least one bit",
            ));
        }
        let g = crate::int::gcd(old_bits, new_bits);
        let up = if new_bits == g {
            self.clone()
        } else {
            self.upcast(new_bits / g)?
        };
        if old_bits == g {
            Ok(up)
        } else {
            up.downcast(old_bits / g)
        }
    }

    /// A pointer's swizzle counts bytes and keeps them; an offset's counts elements.
    fn rescaled(
        &self,
        swizzle: impl Fn(Swizzle) -> Result<Swizzle, Error>,
        layout: impl Fn(&Layout) -> Result<Layout, Error>,
        offset: i64,
        inner: Layout,
    ) -> Result<Self, Error> {
        if let Middle::Pointer { .. } = self.middle() {
            return Err(Error::Operand {
                operation: "recast",
                operand: self.text(),
                why: "the pointer is not known yet; take its position_independent form".into(),
            });
        }
        Ok(match self.outer() {
            Outer::Swizzle(sw) => Self::new(swizzle(*sw)?, offset, inner),
            Outer::Layout(l) => Self::new(layout(l)?, offset, inner),
        })
    }

    /// The largest `n` that every aligned run of `n` elements keeps together.
    ///
    /// # Errors
    ///
    /// Those of [`Layout::max_alignment`].
    pub fn max_alignment(&self) -> Result<i64, Error> {
        let Outer::Swizzle(sw) = self.outer_in_elements()? else {
            return Ok(1);
        };
        let inner = crate::int::gcd(self.inner().max_alignment()?, self.base_offset());
        Ok(if sw.is_identity() {
            inner
        } else {
            crate::int::gcd(inner, sw.max_alignment())
        })
    }

    /// The longest layout that both undo, at most `2^M` elements of a swizzle.
    ///
    /// # Errors
    ///
    /// Those of [`Layout::max_common_layout`].
    pub fn max_common_layout(&self, other: &Layout) -> Result<Layout, Error> {
        let common = self.inner().max_common_layout(other)?;
        match self.vector_limit()? {
            Some(n) if n < common.size() => common.composition_tiler(&n.into()),
            _ => Ok(common),
        }
    }

    /// How many elements from the first on are contiguous in both.
    ///
    /// # Errors
    ///
    /// Those of [`Layout::max_common_vector`].
    pub fn max_common_vector(&self, other: &Self) -> Result<i64, Error> {
        let n = self.inner().max_common_vector(other.inner())?;
        if self.outer() == other.outer() && self.middle() == other.middle() {
            return Ok(n);
        }
        let limit = |l: &Self| Ok::<_, Error>(l.vector_limit()?.unwrap_or(i64::MAX));
        Ok(n.min(limit(self)?).min(limit(other)?))
    }

    /// How many contiguous elements the outer function keeps contiguous, if it limits them.
    fn vector_limit(&self) -> Result<Option<i64>, Error> {
        Ok(match self.outer_in_elements()? {
            Outer::Swizzle(sw) if sw.is_identity() => None,
            Outer::Swizzle(sw) => Some(sw.max_alignment()),
            Outer::Layout(_) => Some(1),
        })
    }
}

impl Swizzle {
    /// `self o layout`: CuTe's `composition(Swizzle, Layout)`.
    #[must_use]
    pub fn composition_layout(self, layout: &Layout) -> ComposedLayout {
        ComposedLayout::new(self, 0, layout.clone())
    }
}
