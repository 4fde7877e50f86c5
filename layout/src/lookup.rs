//! From an offset back to the coordinate.

use alloc::format;

use smallvec::SmallVec;

use crate::tuple::Tuple;
use crate::{Error, Int, IntTuple, Layout};

/// One leaf mode, by decreasing absolute stride.
struct Step {
    leaf: usize,
    stride: i128,
    extent: i128,
    /// The least and the greatest sum of this and all smaller modes.
    low: i128,
    high: i128,
}

impl Layout {
    /// The hierarchical coordinate whose offset is `offset`: the first one in the order of the search where several
    /// have it. CuTe's `get_hier_coord` answers for compact layouts only, without checking; this one for all.
    ///
    /// # Errors
    ///
    /// [`Error::Operand`] when no coordinate has this offset; [`Error::StrideKind`], [`Error::Overflow`].
    ///
    /// # Example
    ///
    /// ```
    /// use colex_layout::Layout;
    /// let padded: Layout = "(4,(2,3)):(1,(100,10))".parse()?;
    /// assert_eq!(padded.coord_of(112 + 1)?.to_string(), "(3,(1,1))");
    /// assert_eq!(
    ///     padded.coord_of(5).unwrap_err().to_string(),
    ///     "coord_of of (4,(2,3)):(1,(100,10)): no coordinate has the offset 5",
    /// );
    /// # Ok::<(), colex_layout::Error>(())
    /// ```
    #[doc(alias = "get_hier_coord")]
    pub fn coord_of(&self, offset: i64) -> Result<IntTuple, Error> {
        let steps = self.steps()?;
        let mut digits: SmallVec<[Int; 12]> =
            SmallVec::from_elem(Int::Dynamic(0), self.leaves().len());
        if !find(&steps, offset.into(), &mut digits) {
            return Err(Error::Operand {
                operation: "coord_of",
                operand: self.text(),
                why: format!("no coordinate has the offset {offset}").into(),
            });
        }
        Ok(self.0.with_leaves(&digits))
    }

    /// The coordinate with one number a mode whose offset is `offset`.
    ///
    /// # Errors
    ///
    /// As [`Layout::coord_of`].
    #[doc(alias = "get_flat_coord")]
    pub fn flat_coord_of(&self, offset: i64) -> Result<IntTuple, Error> {
        let index = self.index_of(offset)?;
        self.shape().flat_coord(index)
    }

    /// The index whose offset is `offset`.
    ///
    /// # Errors
    ///
    /// As [`Layout::coord_of`].
    #[doc(alias = "get_1d_coord")]
    pub fn index_of(&self, offset: i64) -> Result<i64, Error> {
        let coord = self.coord_of(offset)?;
        self.shape().index(coord)
    }

    fn steps(&self) -> Result<SmallVec<[Step; 12]>, Error> {
        let mut steps: SmallVec<[Step; 12]> = SmallVec::new();
        for (leaf, mode) in self.leaves().iter().enumerate() {
            let stride = self.int_stride("coord_of", mode)?.value();
            if stride != 0 && mode.size() > 1 {
                steps.push(Step {
                    leaf,
                    stride: stride.into(),
                    extent: mode.size().into(),
                    low: 0,
                    high: 0,
                });
            }
        }
        steps.sort_by_key(|s| core::cmp::Reverse(s.stride.unsigned_abs()));
        let (mut low, mut high) = (0, 0);
        for step in steps.iter_mut().rev() {
            // Extents multiply to less than 2^63, so these sums stay below 2^126.
            let reach = (step.extent - 1) * step.stride;
            low += reach.min(0);
            high += reach.max(0);
            (step.low, step.high) = (low, high);
        }
        Ok(steps)
    }
}

/// Finds digits of `steps` that sum to `target`; a mode tries only digits that the smaller modes can complete.
fn find(steps: &[Step], target: i128, digits: &mut [Int]) -> bool {
    let Some((step, smaller)) = steps.split_first() else {
        return target == 0;
    };
    if target < step.low || target > step.high {
        return false;
    }
    let (low, high) = smaller.first().map_or((0, 0), |s| (s.low, s.high));
    // digit * stride must lie in target - high ..= target - low.
    let (from, to) = if step.stride > 0 {
        (
            div_up(target - high, step.stride),
            (target - low).div_euclid(step.stride),
        )
    } else {
        (
            div_up(low - target, -step.stride),
            (high - target).div_euclid(-step.stride),
        )
    };
    (from.max(0)..=to.min(step.extent - 1)).any(|digit| {
        digits[step.leaf] = Int::Dynamic(digit as i64);
        find(smaller, target - digit * step.stride, digits)
    })
}

fn div_up(a: i128, b: i128) -> i128 {
    a.div_euclid(b) + i128::from(a.rem_euclid(b) != 0)
}

impl Tuple<Int> {
    /// The digits of `index` for modes of extents `self` and strides `stride`: `(index / stride) % extent` each.
    ///
    /// CuTe's three-argument `idx2crd`; right for compact layouts only, see [`Layout::coord_of`] for all.
    ///
    /// # Errors
    ///
    /// [`Error::Rank`] when shape and stride nest differently, [`Error::DivideByZero`] for a stride 0 at an extent
    /// above 1.
    pub fn coord_by_stride(&self, index: i64, stride: &Self) -> Result<Self, Error> {
        if !self.is_congruent(stride) {
            return Err(crate::int_tuple::rank_error(
                "coord_by_stride",
                self,
                stride,
                "congruent shape and stride",
            ));
        }
        let mut strides = stride.leaves().iter();
        self.try_map(|s| {
            let d = strides
                .next()
                .expect("congruent tuples have as many leaves")
                .value();
            if s.value() <= 1 {
                return Ok(Int::Dynamic(0));
            }
            let quotient = index
                .checked_div(d)
                .ok_or(Error::DivideByZero { dividend: index })?;
            Ok(Int::Dynamic(quotient % s.value()))
        })
    }
}
