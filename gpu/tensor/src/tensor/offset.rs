//! Layouts and swizzles at coordinates that are known at run time.

use std::panic::Location;

use colex_layout::{IntoLayout, Layout, Stride, Swizzle};

use crate::index::{Index, align, sum};

/// Beyond this many elements a swizzle repeats.
pub(crate) fn period(swizzle: Swizzle) -> i64 {
    1 << (64 - (swizzle.from_mask() | swizzle.into_mask()).leading_zeros())
}

/// The offset of a coordinate of a mode of several leaves.
pub(crate) fn nested(mode: &[(Index, Index)], coordinate: &Index) -> Index {
    let mut rest = coordinate.clone();
    let mut offset = Index::constant(0);
    for (i, (extent, stride)) in mode.iter().enumerate() {
        let digit = if i + 1 == mode.len() {
            rest.clone()
        } else {
            &rest % extent
        };
        offset = offset + digit * stride;
        rest = rest / extent;
    }
    offset
}

/// The value of a mode at a place that only the kernel knows: by mode of the coordinate, or at 0 as an offset.
pub(crate) fn along(mode: &Layout, place: &Index) -> Vec<(usize, Index)> {
    let mut result: Vec<(usize, Index)> = Vec::new();
    let (mut before, count) = (1, mode.leaves().len());
    for (i, leaf) in mode.leaves().iter().enumerate() {
        let above = place / before;
        let digit = if i + 1 == count {
            above
        } else {
            above % leaf.extent.value()
        };
        before *= leaf.extent.value();
        let path = match &leaf.stride {
            Stride::Basis(basis) => basis.path().next().unwrap_or(0),
            _ => 0,
        };
        let value = digit * leaf.stride.coefficient().value();
        match result.iter_mut().find(|(p, _)| *p == path) {
            Some((_, sum)) => *sum = &*sum + value,
            None => result.push((path, value)),
        }
    }
    if result.is_empty() {
        result.push((0, Index::constant(0)));
    }
    result
}

/// Returns the value of a layout at a run-time index: the sum of its digits times their strides.
///
/// ```
/// use colex_atom::Arch;
/// use colex_tensor::{Builder, layout_at};
///
/// let tid = Builder::new("k", Arch::Sm80, 32).thread();
/// let offset = layout_at("((4,8),2):((32,1),16)", &tid);
/// assert_eq!(offset.to_string(), "((r0 & 3) << 5) + (r0 >> 2)");
/// ```
///
/// # Errors
///
/// The index of an argument that is no layout has no value, and a kernel that uses it is refused.
#[track_caller]
pub fn layout_at(layout: impl IntoLayout, index: &Index) -> Index {
    match layout.into_layout() {
        Ok(layout) => (along(&layout, index).into_iter())
            .fold(Index::constant(0), |sum, (_, value)| sum + value),
        Err(error) => Index::poison_of(error.into(), Location::caller()),
    }
}

/// The value of a layout of coordinates at a coordinate, a number for each of its modes: mode by mode of the value.
pub(crate) fn layout_at_coordinates(layout: &Layout, at: &[Index]) -> Vec<Index> {
    let mut result: Vec<Index> = Vec::new();
    for (mode, place) in layout.modes().zip(at) {
        for (path, value) in along(&mode, place) {
            if result.len() <= path {
                result.resize(path + 1, Index::constant(0));
            }
            result[path] = &result[path] + value;
        }
    }
    result
}

/// Returns `swizzle(x)`. Terms that are multiples of the swizzle's period, and constants whose bits no other term
/// changes, are taken out of it. So is the part of a constant below the lowest bit of the swizzle and of all terms.
pub fn swizzled(swizzle: Swizzle, x: &Index) -> Index {
    if swizzle.is_identity() {
        return x.clone();
    }
    let period = period(swizzle);
    let (terms, constant) = x.terms();
    let (out, inside): (Vec<_>, Vec<_>) =
        (terms.into_iter()).partition(|(y, c)| align(*c).saturating_mul(y.alignment()) >= period);
    let out = sum(out, constant.div_euclid(period) * period);
    let constant = constant.rem_euclid(period);
    let inside = sum(inside, 0);
    // Only if nothing carries is the constant's share apart from the rest.
    if inside.range().0 < 0 || inside.0.bits & constant as u64 != 0 {
        // Below the lowest bit of the swizzle nothing changes, and nothing carries from below the lowest bit of the terms.
        let lowest = 1_i64 << (swizzle.from_mask() | swizzle.into_mask()).trailing_zeros();
        let below = constant % lowest.min(align(inside.alignment()));
        return out + apply(swizzle, &(inside + (constant - below))) + below;
    }
    out + apply(swizzle, &inside).xor_apart(swizzle.apply(constant))
}

fn apply(swizzle: Swizzle, x: &Index) -> Index {
    let shift = swizzle.shift() as i32;
    x.xor(&x.bits(swizzle.from_mask() as u64, -shift))
}

impl Index {
    /// `self ^ constant`, as a sum where bits do not overlap.
    fn xor_apart(&self, constant: i64) -> Index {
        let overlap = self.0.bits as i64 & constant;
        self.xor(&Index::constant(overlap)) + (constant - overlap)
    }
}
