//! Where layouts and swizzles change places: `L o Sw`, and the inverses of swizzled layouts.

use alloc::format;

use crate::tuple::int::bit_length;
use crate::{BinaryMatrix, ComposedLayout, Error, Layout, Outer, Swizzle};

/// How many indices are compared one by one where linearity over F2 does not decide.
const POINTWISE_LIMIT: i64 = 1 << 16;

impl Layout {
    /// `self o swizzle` as `swizzle' o self`, the same at every index of the layout.
    pub(crate) fn composition_swizzle(&self, swizzle: Swizzle) -> Result<ComposedLayout, Error> {
        self.composition_swizzle_below(self.size(), swizzle)
    }

    /// [`Layout::composition_swizzle`], the same at every index below `end`.
    fn composition_swizzle_below(
        &self,
        end: i64,
        swizzle: Swizzle,
    ) -> Result<ComposedLayout, Error> {
        if swizzle.is_identity() {
            return Ok(self.into());
        }
        let refuse = |why: &str| Error::operand("composition", format!("{self} o {swizzle}"), why);
        let (from, into) = (
            self.at_unbounded(swizzle.from_mask())?,
            self.at_unbounded(swizzle.into_mask())?,
        );
        let moved = Swizzle::from_masks(from, into).map_err(|_| {
            refuse(
                "the layout does not map the swizzle's two groups of bits to two runs of bits of one length",
            )
        })?;
        let result = ComposedLayout::new(moved, 0, self.clone())?;
        match self.commutes(end, swizzle, moved)? {
            Some(true) => Ok(result),
            Some(false) => Err(refuse("no swizzle on the left gives the same offsets")),
            None => Err(refuse(&format!(
                "{moved} on the left may give the same offsets, but the layout is not linear over F2, and its {end} \
                 indices are more than the {POINTWISE_LIMIT} that are compared one by one"
            ))),
        }
    }

    /// `self o inner` for a composed layout on the right: `(self o Sw) o inner'`, or `self o (outer o inner')` where
    /// the outer function is a layout.
    pub(crate) fn composition_composed(
        &self,
        inner: &ComposedLayout,
    ) -> Result<ComposedLayout, Error> {
        let refuse = |why: alloc::string::String| Error::operand("composition", inner.text(), why);
        if inner.base_offset() != 0 {
            let offset = inner.base_offset();
            return Err(refuse(format!(
                "its offset {offset} must be 0 on the right of a layout"
            )));
        }
        match inner.outer_in_elements()? {
            Outer::Swizzle(sw) if sw.is_identity() => Ok(self.composition(inner.inner())?.into()),
            Outer::Swizzle(sw) => {
                let (least, most) = inner.inner().reach()?;
                if least < 0 {
                    return Err(refuse(format!(
                        "its inner layout has the offset {least}, below 0"
                    )));
                }
                let end = self.size().max(crate::tuple::int::add(most, 1)?);
                self.composition_swizzle_below(end, sw)?
                    .composition(inner.inner())
            }
            // The outer layout goes on beyond its size, which only composition with the inner one takes into account.
            Outer::Layout(l) => Ok(self.composition(&l.composition(inner.inner())?)?.into()),
        }
    }

    /// Whether `self(swizzle(i)) == moved(self(i))` for every index `i` below `end`; `None` where that is not known.
    fn commutes(&self, end: i64, swizzle: Swizzle, moved: Swizzle) -> Result<Option<bool>, Error> {
        let bits =
            bit_length(end.max(1)).max(bit_length(swizzle.from_mask() | swizzle.into_mask()));
        if let Some(columns) = self.index_bits(bits) {
            let image = |x: i64| {
                (0..bits)
                    .filter(|k| x >> k & 1 == 1)
                    .fold(0, |sum, k| sum ^ columns[k as usize])
            };
            let same = |k: u32| image(swizzle.apply(1 << k)) == moved.apply(columns[k as usize]);
            return Ok(Some((0..bit_length(end)).all(same)));
        }
        for i in 0..end.min(POINTWISE_LIMIT) {
            if self.at_unbounded(swizzle.apply(i))? != moved.apply(self.at_unbounded(i)?) {
                return Ok(Some(false));
            }
        }
        Ok((end <= POINTWISE_LIMIT).then_some(true))
    }
}

impl ComposedLayout {
    /// Returns the longest layout `r` with `self.at(r.at(i)) == i` for every index `i` of `r`: it takes an offset to the
    /// index at which `self` has it.
    ///
    /// The result is a swizzle over the inverse of the inner layout. If no swizzle gives it, the result has XOR strides.
    ///
    /// # Errors
    ///
    /// Returns an error if the offset is not 0, or the layout is not linear over F2. It also returns the errors of
    /// [`Layout::right_inverse`].
    ///
    /// # Example
    ///
    /// ```
    /// use colex_layout::ComposedLayout;
    /// let tile: ComposedLayout = "Sw<3,3,3> o 0 o (8,64):(64,1)".parse()?;
    /// let inverse = tile.right_inverse()?;
    /// assert_eq!(format!("{inverse:#}"), "Sw<3,0,-6> o 0 o (64,8):(8,1)");
    /// assert!((0..512).all(|i| inverse.at(i).and_then(|j| tile.at(j)) == Ok(i)));
    /// # Ok::<(), colex_layout::Error>(())
    /// ```
    pub fn right_inverse(&self) -> Result<Self, Error> {
        self.inverse(
            "right_inverse",
            Layout::right_inverse,
            BinaryMatrix::right_inverse,
        )
    }

    /// Returns a layout `l` that takes every offset of `self` to an index with this offset:
    /// `self.at(l.at(self.at(i))) == self.at(i)`.
    ///
    /// # Errors
    ///
    /// Returns the errors of [`ComposedLayout::right_inverse`].
    pub fn left_inverse(&self) -> Result<Self, Error> {
        self.inverse(
            "left_inverse",
            Layout::left_inverse,
            BinaryMatrix::left_inverse,
        )
    }

    fn inverse(
        &self,
        operation: &'static str,
        of: impl Fn(&Layout) -> Result<Layout, Error>,
        of_matrix: impl Fn(&BinaryMatrix) -> BinaryMatrix,
    ) -> Result<Self, Error> {
        let refuse = |why: &str| Error::operand(operation, self.text(), why);
        if self.base_offset() != 0 {
            return Err(refuse("its offset is not 0"));
        }
        let Outer::Swizzle(swizzle) = self.outer_in_elements()? else {
            return Err(refuse("its outer function is a layout"));
        };
        let inner = of(self.inner())?;
        if swizzle.is_identity() {
            return Ok(inner.into());
        }
        // (Sw o L)^-1 = L^-1 o Sw, as a swizzle is its own inverse, as long as it stays where L^-1 is one.
        let within = inner.size().count_ones() == 1
            && (swizzle.from_mask() | swizzle.into_mask()) < inner.size();
        match inner.composition_swizzle(swizzle) {
            Ok(moved) if within => Ok(moved),
            _ => {
                let matrix = self.to_xor()?.0.to_matrix()?;
                Ok(Layout::from_matrix(&of_matrix(&matrix))?.into())
            }
        }
    }
}
