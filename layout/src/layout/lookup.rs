//! From an offset back to the coordinate.

use alloc::format;

use smallvec::SmallVec;

use crate::error::ErrorKind;
use crate::layout::equation::{Budget, STEPS, Term, solve};
use crate::tuple::Tuple;
use crate::{Error, Int, IntTuple, Layout};

impl Layout {
    /// Returns the hierarchical coordinate whose offset is `offset`: the first one in the order of the search where
    /// several have it. CuTe's `get_hier_coord` is correct for compact layouts only and does not check this; this
    /// method also handles layouts that are not compact.
    ///
    /// # Errors
    ///
    /// Returns an error if no coordinate has this offset, if the search exceeds 2^18 tries (only with many modes with
    /// strides of similar magnitude), if the strides are of an unsupported kind, or if a number does not fit in 64
    /// bits.
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
        let (terms, leaves): (SmallVec<[Term; 12]>, SmallVec<[usize; 12]>) =
            self.terms()?.into_iter().unzip();
        let found = solve(&terms, offset.into(), &mut Budget(STEPS));
        let found = found.ok_or_else(|| ErrorKind::Undecided {
            operation: "coord_of",
            of: self.text(),
            bound: STEPS.into(),
        })?;
        let Some(found) = found else {
            return Err(Error::operand(
                "coord_of",
                self.text(),
                format!("no coordinate has the offset {offset}"),
            ));
        };
        let mut digits: SmallVec<[Int; 12]> =
            SmallVec::from_elem(Int::Dynamic(0), self.leaves().len());
        for (leaf, digit) in leaves.into_iter().zip(found) {
            digits[leaf] = Int::Dynamic(digit as i64);
        }
        Ok(self.0.with_leaves(&digits))
    }

    /// Returns the coordinate with one number per mode whose offset is `offset`.
    ///
    /// # Errors
    ///
    /// Returns the errors of [`Layout::coord_of`].
    #[doc(alias = "get_flat_coord")]
    pub fn flat_coord_of(&self, offset: i64) -> Result<IntTuple, Error> {
        let index = self.index_of(offset)?;
        self.shape().flat_coord(index)
    }

    /// Returns the index whose offset is `offset`.
    ///
    /// # Errors
    ///
    /// Returns the errors of [`Layout::coord_of`].
    #[doc(alias = "get_1d_coord")]
    pub fn index_of(&self, offset: i64) -> Result<i64, Error> {
        let coord = self.coord_of(offset)?;
        self.shape().index(coord)
    }

    /// The leaf modes that move, as terms of the offset, by decreasing absolute stride; each with its leaf.
    fn terms(&self) -> Result<SmallVec<[(Term, usize); 12]>, Error> {
        let mut terms: SmallVec<[(Term, usize); 12]> = SmallVec::new();
        for (leaf, mode) in self.leaves().iter().enumerate() {
            let stride = self.int_stride("coord_of", mode)?.value();
            if stride != 0 && mode.size() > 1 {
                let term = Term {
                    stride: stride.into(),
                    low: 0,
                    high: i128::from(mode.size()) - 1,
                };
                terms.push((term, leaf));
            }
        }
        terms.sort_by_key(|(term, _)| core::cmp::Reverse(term.stride.unsigned_abs()));
        Ok(terms)
    }
}

impl Tuple<Int> {
    /// Returns the digits of `index` for modes of extents `self` and strides `stride`: `(index / stride) % extent`
    /// each.
    ///
    /// CuTe's three-argument `idx2crd`; right for compact layouts only, see [`Layout::coord_of`] for all.
    ///
    /// # Errors
    ///
    /// Returns an error if `self` and `stride` are not congruent, or for a stride of 0 at an extent above 1.
    pub fn coord_by_stride(&self, index: i64, stride: &Self) -> Result<Self, Error> {
        if !self.is_congruent(stride) {
            return Err(crate::tuple::int_tuple::rank_error(
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
                .ok_or(ErrorKind::DivideByZero { dividend: index })?;
            Ok(Int::Dynamic(quotient % s.value()))
        })
    }
}
