//! Orders and nesting relations of integer tuples.

use core::cmp::Ordering;

use crate::layout::LeafMode;
use crate::layout::coalesce::{Flat, Tail, coalesced};
use crate::tuple::int::bit_length;
use crate::tuple::int_tuple::{IntView, product, rank_error};
use crate::tuple::walk::{compare, side_by_side};
use crate::tuple::{Leaf, Tuple, View};
use crate::{Error, Int, IntTuple, Layout, Stride};

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
        compare(self.view(), other.view()).ok_or_else(|| {
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
        compare_from_back(self.view(), other.view()).ok_or_else(|| {
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

/// The colexicographic order: that of the mirrored tuples.
fn compare_from_back(a: IntView<'_>, b: IntView<'_>) -> Option<Ordering> {
    compare(a.mirrored().view(), b.mirrored().view())
}

fn elem_less(a: IntView<'_>, b: IntView<'_>) -> Option<bool> {
    let mut all = true;
    let walked = side_by_side(a, b, |x, y| match (x.as_leaf(), y.as_leaf()) {
        (Some(m), Some(n)) => {
            all &= m < n;
            Ok(false)
        }
        (None, None) => {
            all &= x.rank() <= y.rank();
            Ok(true)
        }
        _ => Err(()),
    });
    walked.ok().map(|()| all)
}

fn weakly_congruent<U: Copy>(a: IntView<'_>, b: View<'_, U>) -> bool {
    let walked = side_by_side(a, b, |x, y| match () {
        () if x.is_leaf() => Ok(false),
        () if y.is_leaf() || x.rank() != y.rank() => Err(()),
        () => Ok(true),
    });
    walked.is_ok()
}

fn compatible(a: IntView<'_>, b: IntView<'_>) -> bool {
    let walked = side_by_side(a, b, |x, y| match x.as_leaf() {
        Some(n) if product(y.split_first().0).is_ok_and(|size| size == n) => Ok(false),
        None if !y.is_leaf() && x.rank() == y.rank() => Ok(true),
        _ => Err(()),
    });
    walked.is_ok()
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

    /// Returns whether both give the same offset at every index: equality as functions of `0..size`.
    ///
    /// Compares their coalesced forms, so no enumeration is needed. Integer and XOR strides may give the same offsets:
    /// where no addition carries, it is an exclusive or.
    ///
    /// Law `is_same_function` (`a.table() == b.table()`).
    ///
    /// # Example
    ///
    /// ```
    /// use colex_layout::Layout;
    /// let same = |a: &str, b: &str| Ok::<_, colex_layout::Error>(a.parse::<Layout>()?.is_same_function(&b.parse()?));
    /// assert!(same("(2,(1,6)):(1,(6,2))", "12:1")?);
    /// assert!(same("(4,2):(1,8)", "(4,2):(^1,^8)")?);
    /// assert!(!same("4:3", "4:^3")?); // 3 + 6 is 9, and 3 xor 6 is 5
    /// # Ok::<(), colex_layout::Error>(())
    /// ```
    #[must_use]
    pub fn is_same_function(&self, other: &Self) -> bool {
        let [a, b] = [self, other].map(of_one_zero);
        let mut bits = 0;
        self.size() == other.size()
            && a.len() == b.len()
            && a.iter().zip(&b).all(|(x, y)| is_same_mode(x, y, &mut bits))
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
            || flat.is_leaf() && matches!(flat.leaves()[0].stride, Stride::Int(d) if d.is(1))
    }
}

/// The coalesced leaves with one kind of zero, by which the modes of two equal functions are equally many and as long.
///
/// Of the first mode, the extent is where the multiples of its stride end, or the second mode would have joined it. The
/// multiples of integer and of XOR strides may end at different indices; then some later sum carries, and the functions
/// differ.
fn of_one_zero(layout: &Layout) -> Flat {
    let zero = |leaf: &LeafMode| {
        if leaf.stride.is_zero() {
            LeafMode::new(leaf.extent, Stride::constant(0))
        } else {
            *leaf
        }
    };
    let leaves: Flat = layout.leaves().iter().map(zero).collect();
    coalesced(&leaves, Tail::Drop)
}

/// Whether two modes have the same value at every coordinate. `bits` are those that earlier modes use where one layout
/// adds and the other one does not, so that nothing may carry.
fn is_same_mode(a: &LeafMode, b: &LeafMode, bits: &mut i128) -> bool {
    let d = match (a.stride, b.stride) {
        (Stride::Int(d), Stride::Xor(e)) | (Stride::Xor(e), Stride::Int(d)) if d == e => d,
        _ => return a == b,
    };
    let d = i128::from(d.value());
    // The powers of two among the coordinates, and those sums of two of them.
    let shifts = (0..bit_length(a.size())).map(|k| d << k);
    let own = shifts.fold(0, |all, bits| all | bits);
    let is_free = (1..63)
        .take_while(|k| 1 + (1_i64 << k) < a.size())
        .all(|k| d & (d << k) == 0);
    let is_apart = *bits & own == 0;
    *bits |= own;
    a.extent == b.extent && is_free && is_apart
}

/// Shapes are compared by their values.
impl PartialOrd for IntTuple {
    /// The colexicographic order where both nest alike.
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        compare_from_back(self.view(), other.view())
    }
}
