//! The same memory in larger or smaller elements.

use crate::coalesce::{Tail, coalesced};
use crate::int::{abs, gcd};
use crate::int_tuple::rank_error;
use crate::layout::LeafMode;
use crate::{Error, Int, Layout, Stride};

impl Layout {
    /// The layout in units of `n` elements: `n` neighbours become one element, larger strides are divided.
    ///
    /// # Errors
    ///
    /// [`Error::NotDivisible`] when a stride neither divides `n` nor is divided by it, [`Error::StrideKind`] for
    /// coordinate strides, [`Error::DivideByZero`].
    ///
    /// # Example
    ///
    /// ```
    /// use colex_layout::Layout;
    /// let bytes: Layout = "(8,4):(1,16)".parse()?;
    /// assert_eq!(format!("{:#}", bytes.upcast(4)?), "(2,4):(1,4)");
    /// let error = "(4,4):(1,6)".parse::<Layout>()?.upcast(4).unwrap_err();
    /// assert_eq!(error.to_string(), "upcast: neither does 4 divide 6, nor 6 divide 4");
    /// # Ok::<(), colex_layout::Error>(())
    /// ```
    ///
    /// Source: `upcast` in `cute/layout.hpp`.
    pub fn upcast(&self, n: i64) -> Result<Self, Error> {
        check_factor("upcast", self, n)?;
        Ok(Self(self.0.try_map(|leaf| self.upcast_leaf(leaf, n))?))
    }

    fn upcast_leaf(&self, leaf: LeafMode, n: i64) -> Result<LeafMode, Error> {
        let d = match leaf.stride {
            d if d.is_zero() => return Ok(leaf),
            Stride::Int(d) | Stride::Xor(d) => d,
            Stride::Basis(_) => {
                return Err(Error::StrideKind {
                    operation: "upcast",
                    layout: self.text(),
                    needs: "integer or XOR strides",
                });
            }
        };
        let (size, sign) = (abs(d.value())?, d.value().signum());
        if size % n != 0 && n % size != 0 {
            return Err(Error::NotDivisible {
                operation: "upcast",
                left: d.value(),
                right: n,
            });
        }
        let steps = d.with_value(n).ceil_div(d.with_value(size))?;
        let extent = leaf.extent.ceil_div(steps)?;
        let stride = leaf
            .stride
            .with_coefficient(d.with_value(crate::int::ceil_div(size, n)? * sign));
        Ok(LeafMode::new(extent, stride))
    }

    /// The layout in units of `1/n` element: neighbours become `n` times as many, larger strides are multiplied.
    ///
    /// One mode of stride 1 takes the parts: the first of an extent beyond 1, or else the first. CuTe's `downcast` lets
    /// every mode of stride 1 grow, so that parts are counted twice.
    ///
    /// # Errors
    ///
    /// [`Error::Operand`] when no mode has stride 1, so that the parts of one element have no place;
    /// [`Error::Overflow`], [`Error::StrideKind`].
    ///
    /// # Example
    ///
    /// ```
    /// use colex_layout::Layout;
    /// let words: Layout = "(2,4):(1,4)".parse()?;
    /// assert_eq!(words.downcast(4)?.to_string(), "(8,4):(1,16)");
    /// let twice: Layout = "(1,12):(1,1)".parse()?;
    /// assert_eq!(twice.downcast(2)?.to_string(), "(1,24):(2,1)"); // CuTe: (2,24):(1,1)
    /// # Ok::<(), colex_layout::Error>(())
    /// ```
    pub fn downcast(&self, n: i64) -> Result<Self, Error> {
        check_factor("downcast", self, n)?;
        let unit = |d: Stride| matches!(d, Stride::Int(d) | Stride::Xor(d) if d.is(1));
        let leaves = self.leaves();
        let neighbours = || (0..leaves.len()).filter(|&i| unit(leaves[i].stride));
        let long = neighbours().find(|&i| leaves[i].extent.value() > 1);
        let Some(grown) = long.or_else(|| neighbours().next()) else {
            return Err(Error::Operand {
                operation: "downcast",
                operand: self.text(),
                why: "no mode has stride 1, so the parts of one element have no mode to go to"
                    .into(),
            });
        };
        let n = Int::Static(n);
        let mut at = 0..;
        let leaves = self.0.try_map(|leaf| {
            if at.next() == Some(grown) {
                return Ok(LeafMode::new(leaf.extent.times(n)?, leaf.stride));
            }
            Ok::<_, Error>(LeafMode::new(leaf.extent, leaf.stride.times(n)?))
        })?;
        Self::checked(leaves)
    }

    /// The layout of elements of `old_bits` as one of elements of `new_bits`: CuTe's `recast_layout<Old,New>`.
    ///
    /// # Errors
    ///
    /// Those of [`Layout::upcast`] and [`Layout::downcast`].
    ///
    /// # Example
    ///
    /// ```
    /// use colex_layout::Layout;
    /// let halves: Layout = "(8,32):(32,1)".parse()?;
    /// assert_eq!(format!("{:#}", halves.recast(16, 128)?), "(8,4):(4,1)");
    /// assert_eq!(format!("{:#}", halves.recast(16, 8)?), "(8,64):(64,1)");
    /// # Ok::<(), colex_layout::Error>(())
    /// ```
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
        let g = gcd(old_bits, new_bits);
        let (larger, smaller) = (new_bits / g, old_bits / g);
        let up = if larger == 1 {
            self.clone()
        } else {
            self.upcast(larger)?
        };
        if smaller == 1 {
            Ok(up)
        } else {
            up.downcast(smaller)
        }
    }

    /// The largest `n` that [`Layout::upcast`] accepts without padding: how many elements every access may move.
    ///
    /// # Errors
    ///
    /// [`Error::StrideKind`] for coordinate and XOR strides, [`Error::Overflow`].
    ///
    /// # Example
    ///
    /// ```
    /// use colex_layout::Layout;
    /// assert_eq!("(4,(2)):(1,(4))".parse::<Layout>()?.max_alignment()?, 8);
    /// assert_eq!("(3,2):(16,8)".parse::<Layout>()?.max_alignment()?, 1);
    /// # Ok::<(), colex_layout::Error>(())
    /// ```
    pub fn max_alignment(&self) -> Result<i64, Error> {
        let run = self.right_inverse()?;
        let mut alignment = run.size();
        for leaf in &coalesced(self.leaves(), Tail::Drop) {
            let d = self.int_stride("max_alignment", leaf)?.value();
            // A mode inside the contiguous run is part of it; every other one must step by whole vectors.
            let in_run = d > 0 && d < run.size();
            if !in_run {
                alignment = gcd(alignment, d);
            }
        }
        Ok(alignment)
    }
}

fn check_factor(operation: &'static str, layout: &Layout, n: i64) -> Result<(), Error> {
    if n >= 1 {
        Ok(())
    } else {
        Err(rank_error(operation, layout, &n, "a factor of at least 1"))
    }
}
