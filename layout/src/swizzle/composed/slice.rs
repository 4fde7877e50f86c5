//! Slices of swizzled layouts: the offset is carried, and the swizzle vanishes where its bits are fixed.

use smallvec::SmallVec;

use crate::layout::LeafMode;
use crate::layout::coalesce::Flat;
use crate::tuple::Tuple;
use crate::tuple::int::add;
use crate::{ComposedLayout, Error, Int, IntoCoord, IntoIntTuple, Layout, Outer, Stride, Swizzle};

/// How many offsets of a slice are compared one by one; above, the general form is used.
const POINTWISE_LIMIT: i64 = 1 << 16;

impl ComposedLayout {
    /// Returns the modes where `coord` has `_`, and the offset at which they start:
    /// `self(coord with c) == slice(c) + offset`.
    ///
    /// As in CuTe, a slice that does not vary both groups of the swizzle's bits is a plain layout, whose strides take
    /// the fixed bits into account; otherwise the fixed bits stay inside, under the swizzle. Where CuTe's split of bits
    /// does not give the same function (sums carry between them), the whole offset stays inside.
    ///
    /// # Errors
    ///
    /// Returns the errors of [`Layout::slice_and_offset`].
    ///
    /// # Example
    ///
    /// ```
    /// use colex_layout::ComposedLayout;
    /// let tile: ComposedLayout = "Sw<3,3,3> o 0 o (8,64):(64,1)".parse()?;
    /// let (row, offset) = tile.slice_and_offset((1, ..))?;
    /// assert_eq!((format!("{row:#}").as_str(), offset), ("((8,2,4)):((1,-8,16))", 72));
    /// # Ok::<(), colex_layout::Error>(())
    /// ```
    ///
    /// Source: `slice_and_offset` in `cute/swizzle_layout.hpp`.
    pub fn slice_and_offset(&self, coord: impl IntoCoord) -> Result<(Self, i64), Error> {
        let coord = coord.into_coord()?;
        let (slice, start) = self.inner().slice_and_offset(&coord)?;
        let general = |offset| {
            let middle = crate::Middle::Offset(offset);
            Self::with_middle(self.outer().clone(), middle, slice.clone())
        };
        let Outer::Swizzle(swizzle) = *self.outer() else {
            return Ok((general(add(self.base_offset(), start)?), 0));
        };
        if let crate::Middle::Pointer { .. } = self.middle() {
            return self.position_independent()?.slice_and_offset(coord);
        }
        if coord.leaves().iter().all(|slot| *slot == crate::Slot::All) {
            return Ok((general(self.base_offset()), 0));
        }
        let whole = add(self.base_offset(), start)?;
        if swizzle.is_identity() {
            return Ok((slice.into(), whole));
        }
        match split(swizzle, self.base_offset(), start, &slice) {
            Ok((layout, offset)) if same(&layout, offset, &general(whole)) => Ok((layout, offset)),
            _ => Ok((general(whole), 0)),
        }
    }

    /// Returns the modes where `coord` has `_`: `slice(c) == self(coord with c)`. The offset at which they start is the
    /// offset of the composed layout.
    ///
    /// # Errors
    ///
    /// Returns the errors of [`Layout::slice_and_offset`].
    pub fn slice(&self, coord: impl IntoCoord) -> Result<Self, Error> {
        let (slice, start) = self.inner().slice_and_offset(coord)?;
        let independent = self.position_independent()?;
        Self::new(
            independent.outer().clone(),
            add(self.base_offset(), start)?,
            slice,
        )
    }

    /// Returns the layout with `coord` as its origin: `result(c) == self(coord + c)`. The offset of `coord` is the offset of
    /// the composed layout.
    ///
    /// # Errors
    ///
    /// Returns the errors of [`Layout::domain_offset`].
    pub fn domain_offset(&self, coord: impl IntoIntTuple) -> Result<Self, Error> {
        let (_, start) = self.inner().domain_offset(coord)?;
        let independent = self.position_independent()?;
        Self::new(
            independent.outer().clone(),
            add(self.base_offset(), start)?,
            self.inner().clone(),
        )
    }
}

/// CuTe's split: the swizzle's own bits of the fixed offset stay under it, the others move out.
fn split(
    swizzle: Swizzle,
    base: i64,
    start: i64,
    slice: &Layout,
) -> Result<(ComposedLayout, i64), Error> {
    let own = swizzle.from_mask() | swizzle.into_mask();
    let (inside, outside) = (base ^ (start & own), start & !own);
    let active = slice.leaves().iter().try_fold(0, |mask, leaf| {
        let d = slice.int_stride("slice", leaf)?.value();
        add(mask, crate::tuple::int::mul(leaf.size() - 1, d)?)
    })? & own;
    if active & !swizzle.apply(active) != 0 {
        return Ok((ComposedLayout::new(swizzle, inside, slice)?, outside));
    }
    let fixed = fixed_bits(swizzle, inside)?.composition(slice)?;
    Ok((fixed.into(), add(swizzle.apply(inside), outside)?))
}

/// The swizzle as an integer layout, for offsets that vary one of its groups of bits while `inside` holds the other.
///
/// Where the varying bits are read, each flips its counterpart: its stride is itself plus or minus that bit.
/// Where they are written, a set fixed bit turns a step up into a step down.
fn fixed_bits(swizzle: Swizzle, inside: i64) -> Result<Layout, Error> {
    let (from, into) = (
        1 << swizzle.from_mask().trailing_zeros(),
        1 << swizzle.into_mask().trailing_zeros(),
    );
    let bits = 0..swizzle.bits();
    let read = |k: i64| if inside & (into << k) == 0 { from + into } else { from - into } << k;
    let written = |k: i64| {
        if inside & (from << k) == 0 {
            into << k
        } else {
            -(into << k)
        }
    };
    let strides = |f: &dyn Fn(i64) -> i64| bits.clone().map(f).collect::<SmallVec<[i64; 8]>>();
    let (low, high) = if swizzle.shift() > 0 {
        (strides(&written), strides(&read))
    } else {
        (strides(&read), strides(&written))
    };
    let leaf = |n: i64, d: i64| LeafMode::new(Int::Static(n), Stride::constant(d));
    let (base, gap) = (swizzle.base(), swizzle.shift().abs() - swizzle.bits());
    let mut flat = Flat::new();
    flat.push(leaf(1 << base, 1));
    flat.extend(low.iter().map(|d| leaf(2, *d)));
    flat.push(leaf(1 << gap, 1 << (base + swizzle.bits())));
    flat.extend(high.iter().map(|d| leaf(2, *d)));
    flat.push(leaf(
        1,
        1 << (base + swizzle.bits() + swizzle.shift().abs()),
    ));
    Layout::checked(Tuple::flat(flat))
}

/// Whether `candidate(c) + offset` is `truth(c)` everywhere, as far as it can be shown.
fn same(candidate: &ComposedLayout, offset: i64, truth: &ComposedLayout) -> bool {
    let size = truth.size();
    let equal = |i: i64| matches!((candidate.at(i), truth.at(i)), (Ok(a), Ok(b)) if a.checked_add(offset) == Some(b));
    size == candidate.size() && size <= POINTWISE_LIMIT && (0..size).all(equal)
}
