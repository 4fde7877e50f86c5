//! Domains: distributing a number over modes, common refinements, and sums of layouts.

use alloc::vec::Vec;

use smallvec::SmallVec;

use crate::error::ErrorKind;
use crate::layout::LeafMode;
use crate::layout::coalesce::{Flat, Tail, coalesced, layout_of};
use crate::tuple::Tuple;
use crate::tuple::int::{add, gcd};
use crate::tuple::int_tuple::rank_error;
use crate::{Error, Int, IntTuple, IntoLayout, Layout, Stride};

impl Tuple<Int> {
    /// Returns a layout of up to `n` indices of this shape, spread over its modes so that it divides each.
    ///
    /// It takes from each mode, first to last, the greatest common divisor with what is left of `n`.
    ///
    /// Laws `distribute_divides` (its size divides `n`, and it divides the shape evenly) and `distribute_ordered`.
    ///
    /// # Errors
    ///
    /// Returns an error if an extent or `n` is below 1, or if a number does not fit in 64 bits.
    ///
    /// # Example
    ///
    /// ```
    /// use colex_layout::IntTuple;
    /// let shape: IntTuple = "(15,14)".parse()?;
    /// assert_eq!(shape.domain_distribute(6)?, "(3,2):(1,15)".parse()?);
    /// # Ok::<(), colex_layout::Error>(())
    /// ```
    ///
    /// Source: `domain_distribute` in `cute/layout.hpp`.
    pub fn domain_distribute(&self, n: i64) -> Result<Layout, Error> {
        if n < 1 {
            return Err(ErrorKind::Extent {
                extent: n,
                shape: IntTuple::from(n).text(),
            }
            .into());
        }
        let compact = Layout::column_major(self.flatten())?;
        let mut rest = n;
        let taken = compact.leaves().iter().map(|leaf| {
            let take = gcd(leaf.size(), rest);
            rest /= take;
            LeafMode::new(leaf.extent.with_value(take), leaf.stride)
        });
        Ok(layout_of(coalesced(&taken.collect::<Flat>(), Tail::Drop)))
    }
}

impl Layout {
    /// Returns the coarsest flat shape over whose coordinates both layouts are linear in each mode.
    ///
    /// Its extents divide the coalesced modes of both. It is the domain on which two layouts can be added, compared
    /// or traversed together (`Cecka 2026`).
    ///
    /// # Errors
    ///
    /// Returns an error if the sizes differ or a mode of one straddles a mode of the other.
    ///
    /// # Example
    ///
    /// ```
    /// use colex_layout::Layout;
    /// let (a, b): (Layout, Layout) = ("(4,6):(6,1)".parse()?, "(8,3):(1,100)".parse()?);
    /// assert_eq!(a.greatest_common_domain(&b)?.to_string(), "(4,2,3)");
    /// # Ok::<(), colex_layout::Error>(())
    /// ```
    pub fn greatest_common_domain(&self, other: impl IntoLayout) -> Result<IntTuple, Error> {
        let other = &other.into_layout()?;
        let straddles = || {
            rank_error(
                "greatest_common_domain",
                self,
                other,
                "layouts of one size whose modes nest",
            )
        };
        if self.size() != other.size() {
            return Err(straddles());
        }
        let mut ends: Vec<i64> = self.mode_ends().chain(other.mode_ends()).collect();
        ends.sort_unstable();
        ends.dedup();
        let mut before = 1;
        let mut extents: SmallVec<[Int; 12]> = SmallVec::new();
        for end in ends {
            if end % before != 0 {
                return Err(straddles());
            }
            extents.push(Int::Dynamic(end / before));
            before = end;
        }
        Ok(match extents[..] {
            [] => IntTuple::leaf(Int::Dynamic(1)),
            [one] => IntTuple::leaf(one),
            _ => IntTuple::flat(extents),
        })
    }

    /// The index at which each coalesced mode ends, without the trivial 1.
    fn mode_ends(&self) -> impl Iterator<Item = i64> {
        let mut end = 1;
        coalesced(self.leaves(), Tail::Drop)
            .into_iter()
            .map(move |leaf| {
                end *= leaf.size();
                end
            })
            .filter(|end| *end > 1)
    }

    /// Returns the layout of the sums: `r.at(i) == self.at(i) + other.at(i)`.
    ///
    /// The result has the modes of both where they nest alike, else those of their greatest common domain.
    ///
    /// Law `sum_at`.
    ///
    /// # Errors
    ///
    /// Returns the errors of [`Layout::greatest_common_domain`], and an error for coordinate and XOR strides.
    ///
    /// # Example
    ///
    /// ```
    /// use colex_layout::Layout;
    /// let (rows, columns): (Layout, Layout) = ("(4,8):(1,0)".parse()?, "(4,8):(0,4)".parse()?);
    /// assert_eq!(rows.sum(&columns)?.to_string(), "(4,8):(1,4)");
    /// # Ok::<(), colex_layout::Error>(())
    /// ```
    #[doc(alias = "layout_add")]
    pub fn sum(&self, other: impl IntoLayout) -> Result<Self, Error> {
        other.with_layout(|other| self.sum_with(other))
    }

    fn sum_with(&self, other: &Self) -> Result<Self, Error> {
        if self.shape() == other.shape() {
            return self.sum_of_congruent(other);
        }
        let domain = Self::column_major(self.greatest_common_domain(other)?)?;
        let (a, b) = (self.composition(&domain)?, other.composition(&domain)?);
        a.sum_of_congruent(&b)
    }

    fn sum_of_congruent(&self, other: &Self) -> Result<Self, Error> {
        let mut others = other.leaves().iter();
        let sum = self.0.try_map(|leaf| {
            let theirs = others.next().expect("equal shapes have as many leaves");
            let (a, b) = (
                self.int_stride("sum", &leaf)?,
                other.int_stride("sum", theirs)?,
            );
            let d = a.taint(b, add(a.value(), b.value())?);
            Ok::<_, Error>(LeafMode::new(leaf.extent, Stride::Int(d)))
        })?;
        Self::checked(sum)
    }
}
