//! The complement: the offsets that a layout skips.

use alloc::format;

use smallvec::SmallVec;

use crate::error::ErrorKind;
use crate::layout::LeafMode;
use crate::layout::coalesce::{Flat, Tail, coalesced, layout_of};
use crate::{Error, Int, IntTuple, IntoIntTuple, Layout, Stride};

/// One mode of a complement: `gap` copies of what is covered so far fit before the next mode.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Gap {
    /// The mode that comes next by its stride; `None` for the way from the last mode to the target.
    pub mode: Option<LeafMode>,
    /// The number of offsets from 0 that are covered before the mode: the stride of the gap.
    pub covered: i64,
    /// The number of copies that fit: the extent of the gap. It is 0 if modes overlap, which is refused.
    pub gap: i64,
}

impl Layout {
    /// Returns the offsets that `self` skips below `target`, in increasing order: with `self` it covers `0..target`.
    ///
    /// A tuple `target` is divided mode by mode, as CuTe does: where a mode does not divide it, the result may be
    /// larger than that for its product, or fall short of it.
    ///
    /// Laws `complement_ordered` (`c.at(i-1) < c.at(i)`), `complement_disjoint` (`c.at(i)` is not an offset of `self`
    /// for `i > 0`), and `complement_covers`: every offset below an integer target is the sum of one offset of
    /// `filter(self)` and one of `c`, where each stride is a multiple of what the modes below it reach.
    ///
    /// # Errors
    ///
    /// Returns an error if strides are negative or modes overlap or interleave, for strides of another kind, or if a
    /// number does not fit in 64 bits.
    ///
    /// # Example
    ///
    /// ```
    /// use colex_layout::Layout;
    /// let complement = |l: &str| Ok::<_, colex_layout::Error>(format!("{:#}", l.parse::<Layout>()?.complement(24)?));
    /// assert_eq!(complement("4:1")?, "6:4");
    /// assert_eq!(complement("4:2")?, "(2,3):(1,8)");
    /// assert_eq!(complement("(2,2):(1,6)")?, "(3,2):(2,12)");
    /// # Ok::<(), colex_layout::Error>(())
    /// ```
    ///
    /// Source: `complement` in `cute/layout.hpp`.
    pub fn complement(&self, target: impl IntoIntTuple) -> Result<Self, Error> {
        self.complement_in(&target.into_int_tuple()?, &mut |_| ())
    }

    /// Returns the complement up to this layout's own reach, the cosize of its filtered form.
    ///
    /// # Errors
    ///
    /// Returns the errors of [`Layout::complement`].
    pub fn complement_in_cosize(&self) -> Result<Self, Error> {
        let reach = self.filtered().cosize_int()?;
        self.complement_in(&IntTuple::leaf(reach), &mut |_| ())
    }

    /// [`Layout::complement`]; `note` sees every gap.
    pub(crate) fn complement_in(
        &self,
        target: &IntTuple,
        note: &mut impl FnMut(Gap),
    ) -> Result<Self, Error> {
        if let Some(extent) = target.leaves().iter().find(|n| n.value() < 1) {
            return Err(ErrorKind::Extent {
                extent: extent.value(),
                shape: target.text(),
            }
            .into());
        }
        let modes = self.by_stride("complement")?;
        if let [leaf] = modes[..]
            && leaf.stride.is_zero()
        {
            debug_assert!(leaf.extent.is(1), "a filtered stride-0 layout is 1:0");
            return Ok(layout_of(SmallVec::from_slice(&[LeafMode::new(
                target.product()?,
                Stride::constant(1),
            )]))
            .coalesce_unit());
        }
        let mut gaps = Flat::new();
        let mut current = Int::Static(1);
        if modes.len() > 1 {
            // Which gap comes first depends on all strides.
            let strides = modes.iter().map(|l| l.stride.coefficient());
            current = strides.fold(current, |one, d| one.taint(d, 1));
        }
        for leaf in modes {
            let d = leaf.stride.coefficient();
            let gap = d.taint(current, d.value() / current.value());
            note(Gap {
                mode: Some(leaf),
                covered: current.value(),
                gap: gap.value(),
            });
            if gap.value() < 1 {
                return Err(self.overlap(d.value(), current.value()));
            }
            gaps.push(LeafMode::new(gap, Stride::Int(current)));
            let reach = d.times(leaf.extent)?;
            current = current.taint(reach, reach.value());
        }
        let rest = copies_in(target, current)?;
        note(Gap {
            mode: None,
            covered: current.value(),
            gap: rest.value(),
        });
        gaps.push(LeafMode::new(rest, Stride::Int(current)));
        Layout::checked(layout_of(coalesced(&gaps, Tail::Drop)).0)
    }

    /// `1:1` is `1:0` in normal form.
    fn coalesce_unit(self) -> Self {
        if self.size() == 1 {
            self.coalesced()
        } else {
            self
        }
    }

    /// The filtered modes by increasing stride; strides other than non-negative integers are refused.
    fn by_stride(&self, operation: &'static str) -> Result<Flat, Error> {
        let moving = self.leaves().iter().filter(|l| !l.stride.is_zero());
        let mut modes = coalesced(&moving.copied().collect::<Flat>(), Tail::Drop);
        for leaf in &modes {
            let d = self.int_stride(operation, leaf)?;
            if d.value() < 0 {
                return Err(Error::operand(
                    operation,
                    self.text(),
                    format!("stride {d} is negative; only non-negative strides have one"),
                ));
            }
        }
        modes.sort_by_key(|l| l.stride.coefficient().value());
        Ok(modes)
    }

    fn overlap(&self, stride: i64, reach: i64) -> Error {
        let what = match self.is_injective_at_a_glance() {
            Some(true) => "interleave, though it is injective",
            Some(false) => "overlap: it is not injective",
            None => "overlap or interleave",
        };
        Error::operand(
            "complement",
            self.text(),
            format!(
                "stride {stride} starts within the {reach} offsets of the modes below it, so its modes {what}"
            ),
        )
    }
}

/// How many blocks of `covered` offsets the modes of `target` hold: the product of `target.ceil_div(covered)`.
fn copies_in(target: &IntTuple, covered: Int) -> Result<Int, Error> {
    let (mut copies, mut rest) = (Int::Static(1), covered);
    for &extent in target.leaves() {
        copies = copies.times(extent.ceil_div(rest)?)?;
        rest = rest.ceil_div(extent)?;
    }
    Ok(copies)
}
