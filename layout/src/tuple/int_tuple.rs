//! Tuples of integers: shapes, integer strides, coordinates, and their arithmetic.

use alloc::string::ToString;

use crate::error::ErrorKind;
use crate::tuple::int::{add, gcd, mul};
use crate::tuple::walk::{check_depth, side_by_side};
use crate::tuple::{Leaf, Tuple, TupleBuilder, View};
use crate::{Error, Int, IntoIntTuple};

/// A hierarchical tuple of integers: a shape, an integer stride or a coordinate, by position.
///
/// # Example
///
/// ```
/// use colex_layout::IntTuple;
/// let shape: IntTuple = "(3,(6,2),8)".parse()?;
/// assert_eq!((shape.rank(), shape.depth(), shape.product()?.value()), (3, 2, 288));
/// assert_eq!(IntTuple::from((3, (6, 2), 8)), shape);
/// # Ok::<(), colex_layout::Error>(())
/// ```
///
/// Source: `cute/int_tuple.hpp`.
pub type IntTuple = Tuple<Int>;

pub(crate) type IntView<'a> = View<'a, Int>;

impl Tuple<Int> {
    /// Returns the tuple of the same nesting with every leaf `value`.
    #[must_use]
    pub fn repeat_like(&self, value: impl Into<Int>) -> Self {
        let value = value.into();
        self.map(|_| value)
    }

    /// Returns the tuple of the same nesting whose leaves `next` gives, from left to right.
    #[must_use]
    pub fn with_leaves_from(&self, mut next: impl FnMut() -> i64) -> Self {
        self.map(|_| Int::Dynamic(next()))
    }

    /// Returns the product of all leaves; 1 for `()`.
    ///
    /// # Errors
    ///
    /// Returns an error if a number does not fit in 64 bits.
    #[doc(alias = "size")]
    pub fn product(&self) -> Result<Int, Error> {
        product(self.view())
    }

    /// Returns the product of each mode: `(2,(3,4))` gives `(2,12)`.
    ///
    /// # Errors
    ///
    /// Returns an error if a number does not fit in 64 bits.
    pub fn product_each(&self) -> Result<Self, Error> {
        let products = self
            .view()
            .modes()
            .map(product)
            .collect::<Result<smallvec::SmallVec<[Int; 12]>, _>>()?;
        Ok(Self::flat(products))
    }

    /// Returns the products of `self` at the leaves of `guide`: `(2,(3,4))` like `(0,0)` gives `(2,12)`.
    ///
    /// # Errors
    ///
    /// Returns an error if `guide` nests where `self` does not, or if a number does not fit in 64 bits.
    pub fn product_like<U: Leaf>(&self, guide: &Tuple<U>) -> Result<Self, Error> {
        let mismatch = || {
            rank_error(
                "product_like",
                self,
                guide,
                "a guide whose nesting the left operand refines",
            )
        };
        let mut b = TupleBuilder::new();
        let whole = |part: IntView<'_>, _, out: &mut TupleBuilder<Int>| {
            out.leaf(product(part)?);
            Ok(())
        };
        at_leaves(self.view(), guide.view(), &whole, &mut b, &mismatch)?;
        Ok(b.finish())
    }

    /// Returns the sum of all leaves.
    ///
    /// # Errors
    ///
    /// Returns an error if a number does not fit in 64 bits.
    pub fn sum(&self) -> Result<Int, Error> {
        let mut leaves = self.leaves().iter();
        leaves.try_fold(Int::Static(0), |sum, n| sum.plus(*n))
    }

    /// Returns the largest leaf, or `None` for `()`.
    #[must_use]
    pub fn max(&self) -> Option<Int> {
        self.leaves().iter().copied().max()
    }

    /// Returns the smallest leaf, or `None` for `()`.
    #[must_use]
    pub fn min(&self) -> Option<Int> {
        self.leaves().iter().copied().min()
    }

    /// Returns the greatest common divisor of all leaves; 0 for `()`.
    #[must_use]
    pub fn gcd(&self) -> i64 {
        self.leaves().iter().fold(0, |a, n| gcd(a, n.value()))
    }

    /// Returns the sum of the products of corresponding leaves.
    ///
    /// # Errors
    ///
    /// Returns an error if the operands nest differently, or if a number does not fit in 64 bits.
    pub fn inner_product(&self, other: impl IntoIntTuple) -> Result<Int, Error> {
        let other = &other.into_int_tuple()?;
        if !self.is_congruent(other) {
            return Err(rank_error(
                "inner_product",
                self,
                other,
                "congruent operands",
            ));
        }
        self.leaves()
            .iter()
            .zip(other.leaves())
            .try_fold(Int::Static(0), |sum, (a, b)| {
                Ok(sum.taint(
                    a.taint(*b, 0),
                    add(sum.value(), mul(a.value(), b.value())?)?,
                ))
            })
    }

    /// Returns the quotient rounded up: leaf by leaf for two tuples (missing modes of `divisor` are 1), folded over the
    /// modes for a tuple and an integer, by the product for an integer and a tuple.
    ///
    /// # Errors
    ///
    /// Returns an error for operands whose ranks do not fit, for a division by 0, or if a number does not fit in 64
    /// bits.
    ///
    /// # Example
    ///
    /// ```
    /// use colex_layout::IntTuple;
    /// let ceil_div = |a: &str, b: &str| Ok::<_, colex_layout::Error>(a.parse::<IntTuple>()?.ceil_div(b)?.to_string());
    /// assert_eq!(ceil_div("(10,7)", "(3,2)")?, "(4,4)");
    /// assert_eq!(ceil_div("(4,5,6)", "40")?, "(1,1,3)");
    /// # Ok::<(), colex_layout::Error>(())
    /// ```
    pub fn ceil_div(&self, divisor: impl IntoIntTuple) -> Result<Self, Error> {
        let divisor = &divisor.into_int_tuple()?;
        self.divide("ceil_div", divisor, Pad::Ones, Int::ceil_div)
    }

    /// Returns each leaf rounded up to a multiple of its divisor; missing modes of `divisor` are 1.
    ///
    /// A number has a number as its divisor and a tuple a tuple, in every mode: the multiples of a tuple have no order.
    ///
    /// ```
    /// use colex_layout::IntTuple;
    /// let round_up = |a: &str, b: &str| a.parse::<IntTuple>()?.round_up(b);
    /// assert_eq!(round_up("(4,(7,5))", "(3,(2))")?.to_string(), "(6,(8,5))");
    /// assert_eq!(
    ///     round_up("(4,2,8,6)", "(4,2,(1,8),6)").unwrap_err().to_string(),
    ///     "round_up of (4,2,8,6) and (4,2,(1,8),6) needs two integers or two tuples in each mode",
    /// );
    /// # Ok::<(), colex_layout::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// Returns an error for operands whose ranks do not fit, for a division by 0, or if a number does not fit in 64
    /// bits.
    pub fn round_up(&self, divisor: impl IntoIntTuple) -> Result<Self, Error> {
        let divisor = &divisor.into_int_tuple()?;
        if !is_alike(self.view(), divisor.view()) {
            return Err(rank_error(
                "round_up",
                self,
                divisor,
                "two integers or two tuples in each mode",
            ));
        }
        self.divide("round_up", divisor, Pad::Ones, |a, b| {
            a.ceil_div(b)?.times(b)
        })
    }

    /// Returns the quotient of shapes: as [`Tuple::ceil_div`], but one of each pair of numbers must divide the other.
    ///
    /// # Errors
    ///
    /// Returns an error if neither number divides the other, for operands whose ranks do not fit, for a division by 0,
    /// or if a number does not fit in 64 bits.
    ///
    /// # Example
    ///
    /// ```
    /// use colex_layout::IntTuple;
    /// let shape: IntTuple = "(4,5,6)".parse()?;
    /// assert_eq!(shape.shape_div(40)?.to_string(), "(1,1,3)");
    /// let error = IntTuple::from(7).shape_div(3).unwrap_err();
    /// assert_eq!(error.to_string(), "shape_div: neither does 3 divide 7, nor 7 divide 3");
    /// # Ok::<(), colex_layout::Error>(())
    /// ```
    pub fn shape_div(&self, divisor: impl IntoIntTuple) -> Result<Self, Error> {
        let divisor = &divisor.into_int_tuple()?;
        self.divide("shape_div", divisor, Pad::None, |a, b| {
            let (x, y) = (a.value(), b.value());
            let divides = |x: i64, y: i64| y != 0 && x.checked_rem(y) == Some(0);
            if y != 0 && !divides(x, y) && !divides(y, x) {
                return Err(ErrorKind::NotDivisible {
                    operation: "shape_div",
                    left: x,
                    right: y,
                }
                .into());
            }
            a.ceil_div(b)
        })
    }

    /// Returns each leaf times the product of the corresponding part of `factors`.
    ///
    /// # Errors
    ///
    /// Returns an error for operands whose ranks do not fit, or if a number does not fit in 64 bits.
    pub fn elem_scale(&self, factors: impl IntoIntTuple) -> Result<Self, Error> {
        let factors = &factors.into_int_tuple()?;
        let factors = factors.product_like(self)?;
        let mut each = factors.leaves().iter();
        self.try_map(|n| {
            n.times(
                *each
                    .next()
                    .expect("product_like has the leaves of its guide"),
            )
        })
    }

    /// Replaces the parts of `self` that stand at a 0 of `guide` by ones.
    ///
    /// # Errors
    ///
    /// Returns an error if `guide` nests where `self` does not.
    pub fn filter_zeros(&self, guide: &Self) -> Result<Self, Error> {
        let mut b = TupleBuilder::new();
        let mismatch = || {
            rank_error(
                "filter_zeros",
                self,
                guide,
                "a guide whose nesting the left operand refines",
            )
        };
        let one = |part: IntView<'_>, guide: Int, out: &mut TupleBuilder<Int>| {
            if guide.is(0) {
                out.push(part.to_tuple().map(|_| Int::Static(1)).view())
            } else {
                out.push(part)
            }
            Ok(())
        };
        at_leaves(self.view(), guide.view(), &one, &mut b, &mismatch)?;
        Ok(b.finish())
    }

    fn divide(
        &self,
        operation: &'static str,
        divisor: &Self,
        pad: Pad,
        op: impl Fn(Int, Int) -> Result<Int, Error> + Copy,
    ) -> Result<Self, Error> {
        check_depth("tuple", self)?;
        let mismatch = || rank_error(operation, self, divisor, pad.needs());
        let mut b = TupleBuilder::new();
        divide(self.view(), divisor.view(), pad, op, &mut b, &mismatch)?;
        Ok(b.finish())
    }
}

/// Whether each mode that the second has is a number in both, or a tuple in both.
fn is_alike(a: IntView<'_>, b: IntView<'_>) -> bool {
    let walked = side_by_side(a, b, |x, y| match (x.is_leaf(), y.is_leaf()) {
        (true, true) => Ok(false),
        (false, false) => Ok(true),
        _ => Err(()),
    });
    walked.is_ok()
}

/// Whether a shorter divisor counts as followed by ones.
#[derive(Clone, Copy, PartialEq)]
enum Pad {
    Ones,
    None,
}

impl Pad {
    const fn needs(self) -> &'static str {
        match self {
            Self::Ones => "a divisor of at most the same rank, mode by mode",
            Self::None => "operands of the same rank, mode by mode",
        }
    }
}

pub(crate) fn rank_error<A, B>(
    operation: &'static str,
    left: &A,
    right: &B,
    needs: &'static str,
) -> Error
where
    A: core::fmt::Display,
    B: core::fmt::Display,
{
    ErrorKind::Rank {
        operation,
        left: left.to_string().into(),
        right: right.to_string().into(),
        needs,
    }
    .into()
}

pub(crate) fn product(view: IntView<'_>) -> Result<Int, Error> {
    view.leaves()
        .iter()
        .try_fold(Int::Static(1), |p, n| p.times(*n))
}

/// At each leaf of `guide`, what `at` makes of the part of `tuple` that stands there.
fn at_leaves<U: Copy>(
    tuple: IntView<'_>,
    guide: View<'_, U>,
    at: &impl Fn(IntView<'_>, U, &mut TupleBuilder<Int>) -> Result<(), Error>,
    out: &mut TupleBuilder<Int>,
    mismatch: &impl Fn() -> Error,
) -> Result<(), Error> {
    side_by_side(tuple, guide, |part, guide| {
        if let Some(leaf) = guide.as_leaf() {
            at(part.split_first().0, leaf, out)?;
            return Ok(false);
        }
        if part.is_leaf() || part.rank() != guide.rank() {
            return Err(mismatch());
        }
        let open = out.open();
        out.close(open, guide.rank());
        Ok(true)
    })
}

fn divide(
    a: IntView<'_>,
    b: IntView<'_>,
    pad: Pad,
    op: impl Fn(Int, Int) -> Result<Int, Error> + Copy,
    out: &mut TupleBuilder<Int>,
    mismatch: &impl Fn() -> Error,
) -> Result<(), Error> {
    if let Some(n) = a.as_leaf() {
        out.leaf(op(n, product(b)?)?);
        return Ok(());
    }
    let open = out.open();
    if let Some(divisor) = b.as_leaf() {
        let mut rest = divisor;
        for mode in a.modes() {
            divide(mode, IntTuple::leaf(rest).view(), pad, op, out, mismatch)?;
            rest = op(rest, product(mode)?)?;
        }
    } else {
        if b.rank() > a.rank() || (pad == Pad::None && b.rank() != a.rank()) {
            return Err(mismatch());
        }
        let one = IntTuple::leaf(Int::Static(1));
        let mut divisors = b.modes();
        for mode in a.modes() {
            divide(
                mode,
                divisors.next().unwrap_or(one.view()),
                pad,
                op,
                out,
                mismatch,
            )?;
        }
    }
    out.close(open, a.rank());
    Ok(())
}

impl From<i64> for Tuple<Int> {
    fn from(n: i64) -> Self {
        Self::leaf(Int::Dynamic(n))
    }
}

impl From<Int> for Tuple<Int> {
    fn from(n: Int) -> Self {
        Self::leaf(n)
    }
}

impl From<&Self> for Tuple<Int> {
    fn from(t: &Self) -> Self {
        t.clone()
    }
}

impl<A: Into<Self>, const N: usize> From<[A; N]> for Tuple<Int> {
    fn from(modes: [A; N]) -> Self {
        Self::concat(&modes.map(Into::into))
    }
}

macro_rules! from_tuples {
    ($($($T:ident)+;)*) => {$(
        impl<$($T: Into<Tuple<Int>>),+> From<($($T,)+)> for Tuple<Int> {
            #[expect(non_snake_case, reason = "the type parameters name the values as well")]
            fn from(($($T,)+): ($($T,)+)) -> Self {
                Self::concat(&[$($T.into()),+])
            }
        }
    )*};
}

from_tuples! { A; A B; A B C; A B C D; A B C D E; A B C D E F; }
