//! Orders and nesting relations of integer tuples.

use core::cmp::Ordering;

use smallvec::SmallVec;

use crate::tuple::int_tuple::{IntView, product, rank_error};
use crate::tuple::{Leaf, Tuple, View};
use crate::{Error, Int, IntTuple, Layout};

impl Tuple<Int> {
    /// Returns the lexicographic order: the first differing mode decides; a shorter tuple is less than its
    /// continuation.
    ///
    /// # Errors
    ///
    /// Returns an error if an integer meets a tuple.
    ///
    /// # Example
    ///
    /// ```
    /// use core::cmp::Ordering;
    /// use colex_layout::IntTuple;
    /// let (a, b): (IntTuple, IntTuple) = ("(1,9)".parse()?, "(2,0)".parse()?);
    /// assert_eq!(a.lex_cmp(&b)?, Ordering::Less);
    /// assert_eq!(a.colex_cmp(&b)?, Ordering::Greater);
    /// assert!(!a.elem_less(&b)?);
    /// # Ok::<(), colex_layout::Error>(())
    /// ```
    #[doc(alias = "lex_less")]
    #[doc(alias = "lex_leq")]
    #[doc(alias = "lex_gtr")]
    #[doc(alias = "lex_geq")]
    pub fn lex_cmp(&self, other: &Self) -> Result<Ordering, Error> {
        compare(self.view(), other.view(), false).ok_or_else(|| {
            rank_error(
                "lex_cmp",
                self,
                other,
                "integers to meet integers and tuples to meet tuples",
            )
        })
    }

    /// Returns the colexicographic order: the last differing mode decides, as in the order of a layout's indices.
    ///
    /// # Errors
    ///
    /// Returns an error if an integer meets a tuple.
    #[doc(alias = "colex_less")]
    #[doc(alias = "colex_leq")]
    #[doc(alias = "colex_gtr")]
    #[doc(alias = "colex_geq")]
    pub fn colex_cmp(&self, other: &Self) -> Result<Ordering, Error> {
        compare(self.view(), other.view(), true).ok_or_else(|| {
            rank_error(
                "colex_cmp",
                self,
                other,
                "integers to meet integers and tuples to meet tuples",
            )
        })
    }

    /// Returns whether every leaf is less than its counterpart; further modes of `other` do not matter.
    ///
    /// This is the bounds check of a coordinate: `coord.elem_less(&shape)`.
    ///
    /// # Errors
    ///
    /// Returns an error if an integer meets a tuple.
    #[doc(alias = "elem_gtr")]
    #[doc(alias = "elem_leq")]
    #[doc(alias = "elem_geq")]
    pub fn elem_less(&self, other: &Self) -> Result<bool, Error> {
        elem_less(self.view(), other.view()).ok_or_else(|| {
            rank_error(
                "elem_less",
                self,
                other,
                "integers to meet integers and tuples to meet tuples",
            )
        })
    }

    /// Returns whether the nesting of `self` is a prefix of the nesting of `other`: a partial order on profiles.
    ///
    /// # Example
    ///
    /// ```
    /// use colex_layout::IntTuple;
    /// let (a, b): (IntTuple, IntTuple) = ("(1,2)".parse()?, "(3,(4,5))".parse()?);
    /// assert!(a.is_weakly_congruent(&b) && !b.is_weakly_congruent(&a));
    /// # Ok::<(), colex_layout::Error>(())
    /// ```
    #[doc(alias = "weakly_congruent")]
    #[must_use]
    pub fn is_weakly_congruent<U: Leaf>(&self, other: &Tuple<U>) -> bool {
        weakly_congruent(self.view(), other.view())
    }

    /// Returns whether every coordinate of `self` is one of `other`: sizes agree at every leaf of `self`. A partial
    /// order.
    ///
    /// # Example
    ///
    /// ```
    /// use colex_layout::IntTuple;
    /// let (a, b): (IntTuple, IntTuple) = ("(4,6)".parse()?, "((2,2),6)".parse()?);
    /// assert!(a.is_compatible(&b) && !b.is_compatible(&a));
    /// # Ok::<(), colex_layout::Error>(())
    /// ```
    #[doc(alias = "compatible")]
    #[must_use]
    pub fn is_compatible(&self, other: &Self) -> bool {
        compatible(self.view(), other.view())
    }
}

fn compare(a: IntView<'_>, b: IntView<'_>, from_back: bool) -> Option<Ordering> {
    match (a.as_leaf(), b.as_leaf()) {
        (Some(x), Some(y)) => return Some(x.cmp(&y)),
        (None, None) => {}
        _ => return None,
    }
    for (x, y) in in_order(a, from_back)
        .into_iter()
        .zip(in_order(b, from_back))
    {
        let order = compare(x, y, from_back)?;
        if order != Ordering::Equal {
            return Some(order);
        }
    }
    Some(a.rank().cmp(&b.rank()))
}

/// The modes from the front or from the back.
fn in_order(view: IntView<'_>, from_back: bool) -> SmallVec<[IntView<'_>; 4]> {
    let mut modes: SmallVec<[_; 4]> = view.modes().collect();
    if from_back {
        modes.reverse();
    }
    modes
}

fn elem_less(a: IntView<'_>, b: IntView<'_>) -> Option<bool> {
    match (a.as_leaf(), b.as_leaf()) {
        (Some(x), Some(y)) => return Some(x < y),
        (None, None) => {}
        _ => return None,
    }
    let mut all = a.rank() <= b.rank();
    for (x, y) in a.modes().zip(b.modes()) {
        all &= elem_less(x, y)?;
    }
    Some(all)
}

fn weakly_congruent<U: Copy>(a: IntView<'_>, b: View<'_, U>) -> bool {
    a.is_leaf()
        || (!b.is_leaf()
            && a.rank() == b.rank()
            && a.modes()
                .zip(b.modes())
                .all(|(x, y)| weakly_congruent(x, y)))
}

fn compatible(a: IntView<'_>, b: IntView<'_>) -> bool {
    if let Some(n) = a.as_leaf() {
        return product(b).is_ok_and(|size| size == n);
    }
    !b.is_leaf() && a.rank() == b.rank() && a.modes().zip(b.modes()).all(|(x, y)| compatible(x, y))
}

impl Layout {
    /// Returns whether every coordinate of `self` is a coordinate of `other`.
    #[must_use]
    pub fn is_compatible(&self, other: &Self) -> bool {
        self.shape().is_compatible(&other.shape())
    }

    /// Returns whether both nest alike.
    #[must_use]
    pub fn is_congruent(&self, other: &Self) -> bool {
        self.0.is_congruent(&other.0)
    }

    /// Returns whether every offset in `0..cosize` is reached. Negative and non-integer strides never are onto.
    ///
    /// # Example
    ///
    /// ```
    /// use colex_layout::Layout;
    /// assert!("(2,2):(1,1)".parse::<Layout>()?.is_surjective());
    /// assert!(!"(2,2):(1,3)".parse::<Layout>()?.is_surjective());
    /// # Ok::<(), colex_layout::Error>(())
    /// ```
    #[must_use]
    pub fn is_surjective(&self) -> bool {
        let flat = self.filtered();
        let Ok(strides) = flat.int_strides("is_surjective") else {
            return false;
        };
        let mut modes: smallvec::SmallVec<[(i64, i64); 12]> = strides
            .leaves()
            .iter()
            .zip(flat.leaves())
            .map(|(d, l)| (d.value(), l.size()))
            .collect();
        modes.sort_unstable();
        // Sums of the smaller modes fill 0..=reach; the next stride must not leave a gap after it.
        let mut reach = 0_i128;
        modes.iter().filter(|(_, s)| *s > 1).all(|(d, s)| {
            let (d, s) = (i128::from(*d), i128::from(*s));
            let joins = d >= 0 && d <= reach + 1;
            reach += d * (s - 1);
            joins
        })
    }

    /// Returns whether every offset in `0..size` is reached exactly once: a permutation of the indices.
    #[must_use]
    pub fn is_bijective(&self) -> bool {
        self.is_surjective() && self.cosize().is_ok_and(|n| n == self.size())
    }

    /// Returns whether the index is the offset: the layout walks memory from one element to the next.
    #[must_use]
    pub fn is_contiguous(&self) -> bool {
        let flat = self.coalesced();
        flat.size() == 1
            || flat.is_leaf() && matches!(flat.leaves()[0].stride, crate::Stride::Int(d) if d.is(1))
    }
}

/// Shapes are compared by their values.
impl PartialOrd for IntTuple {
    /// The colexicographic order where both nest alike.
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        compare(self.view(), other.view(), true)
    }
}
