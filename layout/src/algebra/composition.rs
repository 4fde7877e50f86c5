//! Composition: `R(c) = A(B(c))`, sound or refused.
//!
//! Each mode `n:r` of `B` is walked through the modes `s:d` of the simplified `A`, smallest first, as digits of a
//! number in the mixed radix of `A`'s extents:
//!
//! 1. `s` divides `r`: the mode does not touch this digit; continue with `r / s`.
//! 2. `(n-1)*r < s`: the mode stays within this digit; it becomes `n:r*d`.
//! 3. `r` divides `s`, and `n` splits into `s/r` and a rest: `s/r : r*d`, and the rest continues with stride 1.
//!
//! Otherwise a coordinate carries from one digit into the next, and no layout in this mode gives it.
//! Modes of `B` that are right one by one may still carry together (D11 of the book): the largest digits that all
//! modes put into one mode of `A` must add up to less than its extent.
//! Both conditions together are sound; CuTe checks neither completely.
//! They are not complete: what they refuse, `search.rs` looks for.

use alloc::boxed::Box;

use smallvec::SmallVec;

use crate::error::ErrorKind;
use crate::error::composition::{CompositionError, Refusal, Share};
use crate::layout::LeafMode;
use crate::layout::coalesce::{Flat, Tail, coalesced, layout_of, walked};
use crate::tuple::TupleBuilder;
use crate::tuple::int::abs;
use crate::{Compose, Error, Int, IntoLayout, Layout, Search, Stride, Tiler, TilerRef};

impl Layout {
    /// Returns `self o inner`, which visits `self` in the order that `inner` says: `(A o B)(c) = A(B(c))`.
    ///
    /// `inner` is a layout, a tiler, a [`Swizzle`](crate::Swizzle) or a [`ComposedLayout`](crate::ComposedLayout);
    /// [`Compose`] lists what the composition then is.
    ///
    /// **A layout.** The result has the modes of `inner`, each refined where it crosses modes of `self`.
    /// What the rule refuses is searched for: the result is then read off the values `A(B(c))`, mode by mode. Only the
    /// modes of `inner` that clash are read; the others may be as large as they like.
    /// Indices beyond the size of `self` continue its last mode, as in CuTe.
    ///
    /// **A tiler of several modes** composes mode by mode: `(2:4,8:8)` composes mode 0 with `2:4` and mode 1 with `8:8`;
    /// `..` keeps a mode. Modes of `self` beyond the tiler are dropped, as in CuTe.
    ///
    /// **A swizzle** moves to the offsets: `self o swizzle` is `swizzle' o self`. CuTe reads the new swizzle off two
    /// masks, which works in simple cases; here the result is compared with `self(swizzle(i))` for every index of the
    /// layout (by bits where both are linear over F2).
    ///
    /// **A composed layout** becomes `(self o Sw) o inner'`, or `self o (outer o inner')` where its outer function is a
    /// layout. Law `composition_composed_at`: the result at every coordinate is `self.at_unbounded(inner.at(c))`.
    ///
    /// Laws `composition_at` (`r.at(i) == a.at(b.at(i))` at every index) and `composition_modes` (`inner`'s shape is
    /// compatible with the result's).
    ///
    /// # Errors
    ///
    /// Returns an error if coordinates carry between modes, so that no such layout exists (where CuTe gives a wrong
    /// layout, or none), or if the search for one gave up at [`crate::SEARCH_BOUND`] coordinates of the modes that
    /// clash, which the sentence says; [`Layout::explain_composition`] shows the steps. Returns an error if a number
    /// does not fit in 64 bits, for strides of another kind. Returns an error if a tiler has more modes than `self`, if
    /// no swizzle on the left does the same, or for a composed layout with an offset or with negative offsets.
    ///
    /// # Example
    ///
    /// ```
    /// use colex_layout::{ComposedLayout, Layout, Swizzle};
    /// let a = Layout::new((6, 2), (8, 2))?;
    /// let b = Layout::new((4, 3), (3, 1))?;
    /// assert_eq!(a.composition(&b)?.to_string(), "((2,2),3):((24,2),8)");
    /// let carries = Layout::new((6, 3), (1, 10))?;
    /// assert_eq!(
    ///     carries.composition("(3,2):(2,3)").unwrap_err().to_string(),
    ///     "(6,3):(1,10) o (3,2):(2,3) is not a layout over the modes of (3,2):(2,3): modes <0> and <1> fit one by one, \
    ///      but together they reach 4 + 3 = 7 in extent 6 of (6,3):(1,10) and carry (at most 5 would fit); A(B(c)) is 4 \
    ///      at (2,0) and 3 at (0,1), which makes 7 at (2,1), but it is 11",
    /// );
    /// let found = Layout::new((4, 4), (4, 1))?.composition("(2,2):(1,5)")?;
    /// assert_eq!(found.to_string(), "(2,2):(4,5)");
    ///
    /// let a = Layout::new((12, (4, 8)), (59, (13, 1)))?;
    /// assert_eq!(a.composition(("3:4", "8:2"))?.to_string(), "(3,(2,4)):(236,(26,1))");
    /// assert_eq!(a.composition((.., 8))?.to_string(), "(12,(4,2)):(59,(13,1))");
    ///
    /// let a = Layout::new((8, 8), (1, 16))?;
    /// assert_eq!(a.composition(Swizzle::new(3, 0, 3)?)?.to_string(), "Sw<3,0,4> o 0 o (8,8):(1,16)");
    ///
    /// let a = Layout::new((4, 8, 2), (32, 2, 128))?;
    /// let b: ComposedLayout = "2:2 o 0 o 4:2".parse()?;
    /// assert_eq!(a.composition(b)?.to_string(), "4:2"); // every fourth element
    /// # Ok::<(), colex_layout::Error>(())
    /// ```
    ///
    /// Source: `composition` in `cute/layout.hpp`; `Cecka 2026`.
    #[doc(alias = "compose")]
    #[inline]
    pub fn composition<I: Compose<Self>>(&self, inner: I) -> Result<I::Output, Error> {
        inner.compose(self)
    }

    /// [`Layout::composition`] with a layout, or mode by mode.
    #[inline]
    pub(crate) fn composition_by(&self, tiler: TilerRef<'_>) -> Result<Self, Error> {
        match tiler {
            TilerRef::All => Ok(self.clone()),
            TilerRef::Layout(inner) => self.composition_layout(inner),
            TilerRef::Int(n) => self.composition_layout(&Self::leaf(n, Stride::constant(1))?),
            TilerRef::Modes(modes) => self.composition_modes(modes),
        }
    }

    fn composition_modes(&self, modes: &[Tiler]) -> Result<Self, Error> {
        self.check_tiler_rank("composition", TilerRef::Modes(modes), modes.len())?;
        let parts = self.modes().zip(modes);
        let parts = parts.map(|(mode, tiler)| mode.composition_by(tiler.by_ref()));
        Self::concat(&parts.collect::<Result<SmallVec<[_; 4]>, _>>()?)
    }

    fn composition_layout(&self, inner: &Self) -> Result<Self, Error> {
        if inner.has_coordinate_values() {
            return self.composition_coordinates(inner);
        }
        if inner.is_xor() {
            return self.composition_xor(inner);
        }
        if self.is_xor() {
            self.check_indices_of(inner)?;
        }
        let flat = coalesced(self.leaves(), Tail::Continue);
        walk(self, &flat, inner, Check::Sound, &mut |_| ())
            .or_else(|error| error.into_composition()?.or_search())
    }

    /// Refuses an inner layout with negative offsets: XOR strides have no value there.
    fn check_indices_of(&self, inner: &Self) -> Result<(), Error> {
        let (least, _) = inner.reach()?;
        if least >= 0 {
            return Ok(());
        }
        Err(Error::operand(
            "composition",
            alloc::format!("{self} o {inner}"),
            alloc::format!(
                "the right operand has the offset {least}, and XOR strides on the left have no value below index 0"
            ),
        ))
    }

    pub(crate) fn check_tiler_rank(
        &self,
        operation: &'static str,
        tiler: TilerRef<'_>,
        rank: usize,
    ) -> Result<(), Error> {
        if rank <= self.rank() {
            return Ok(());
        }
        Err(crate::tuple::int_tuple::rank_error(
            operation,
            self,
            &tiler,
            "a tiler of at most the layout's rank",
        ))
    }

    /// Returns what CuTe's composition returns, right or wrong: its checks alone, for comparison.
    ///
    /// # Errors
    ///
    /// Returns the errors of [`Layout::composition`] where CuTe refuses too.
    ///
    /// # Example
    ///
    /// ```
    /// use colex_layout::Layout;
    /// let (a, b) = (Layout::new((4, 3), (1, 10))?, Layout::new(4, 3)?);
    /// let cute = a.cute_composition(&b)?;
    /// assert_eq!(cute.to_string(), "(2,2):(3,10)");
    /// assert_eq!(cute.table()?, [0, 3, 10, 13]);
    /// // The truth, A(B(c)), is another function, and no layout of one mode 4 has it:
    /// assert_eq!((0..4).map(|c| a.at(b.at(c)?)).collect::<Result<Vec<_>, _>>()?, [0, 3, 12, 21]);
    /// assert!(a.composition(&b).is_err());
    /// # Ok::<(), colex_layout::Error>(())
    /// ```
    pub fn cute_composition(&self, inner: impl IntoLayout) -> Result<Self, Error> {
        let inner = &inner.into_layout()?;
        let flat = coalesced(self.leaves(), Tail::Continue);
        walk(self, &flat, inner, Check::AsCute, &mut |_| ())
    }
}

/// Which conditions are checked.
#[derive(Clone, Copy, PartialEq)]
pub(crate) enum Check {
    Sound,
    AsCute,
}

/// The largest digit that the right-hand modes add up to in one mode of the left-hand side, by sign.
#[derive(Clone, Copy, Default)]
pub(crate) struct DigitSum {
    positive: i64,
    negative: i64,
    /// The bits that right-hand modes set, where the left stride is XOR.
    bits: i64,
    /// Whether two of them set the same bit: their sum is then not their XOR.
    shared: bool,
}

pub(crate) type DigitSums = SmallVec<[DigitSum; 12]>;

/// What a right-hand mode does at a left mode.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Case {
    /// The mode does not change this digit: the left extent divides its stride, or it has one step.
    Skips,
    /// The mode stays within this digit.
    Within,
    /// The mode fills this digit, and its remaining steps continue at the next one.
    Splits,
    /// The last left mode takes all remaining steps.
    Last,
    /// The mode has stride 0.
    Broadcast,
    /// The mode carries out of this digit.
    Carries,
}

/// One step of the walk: `extent:stride` arrives at a left mode, and what becomes of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Visit {
    /// The leaf of the right-hand side, counted from 0.
    pub leaf: usize,
    /// The left mode, counted from 0 in the coalesced left-hand side.
    pub left_mode: usize,
    /// The number of steps that arrive.
    pub extent: i64,
    /// The stride of a step, in units of the left mode.
    pub stride: i64,
    /// What happens.
    pub case: Case,
    /// The mode of the result.
    pub piece: Option<LeafMode>,
}

/// Composes every leaf of `rhs` and checks them together; `note` sees every step.
pub(crate) fn walk(
    lhs: &Layout,
    flat: &Flat,
    rhs: &Layout,
    check: Check,
    note: &mut impl FnMut(Visit),
) -> Result<Layout, Error> {
    let refuse = |reason| {
        ErrorKind::Composition(Box::new(CompositionError {
            lhs: lhs.clone(),
            rhs: rhs.clone(),
            left_modes: layout_of(walked(lhs)),
            reason,
            search: Search::NotTried,
        }))
        .into()
    };
    // Written out: through `try_refine` a composition takes a third longer.
    let mut out = TupleBuilder::new();
    let mut sums: DigitSums = SmallVec::from_elem(DigitSum::default(), flat.len());
    let mut leaves = rhs.leaves().iter().enumerate();
    for &node in rhs.view().nodes() {
        if node > 0 {
            out.node(node);
            continue;
        }
        let (at, leaf) = leaves.next().expect("every leaf node has its value");
        let stride = rhs.int_stride("composition on the right", leaf)?;
        let mut walker = Walker::new(flat, at, leaf.extent, stride, check)?;
        if let Some(straddling) = walker.run(&mut sums, note)? {
            return Err(refuse(straddle(flat, *leaf, straddling)));
        }
        out.pieces(&walker.pieces);
    }
    if check == Check::Sound {
        together(flat, &sums).map_err(|clash| refuse(reason(flat, rhs, clash)))?;
    }
    Layout::checked(out.finish())
}

fn straddle(flat: &Flat, mode: LeafMode, straddling: Visit) -> Refusal {
    Refusal::Straddle {
        leaf: straddling.leaf,
        mode,
        extent: straddling.extent,
        stride: straddling.stride.abs(),
        left: flat[straddling.left_mode].size(),
        left_mode: straddling.left_mode,
    }
}

/// One right-hand leaf on its way through the left modes.
pub(crate) struct Walker<'a> {
    flat: &'a [LeafMode],
    check: Check,
    leaf: usize,
    /// -1, 0 or 1.
    sign: Int,
    /// What is left of the extent.
    rest: Int,
    /// The absolute stride, in units of the left mode.
    step: Int,
    pieces: SmallVec<[LeafMode; 4]>,
}

impl<'a> Walker<'a> {
    pub(crate) fn new(
        flat: &'a [LeafMode],
        leaf: usize,
        extent: Int,
        stride: Int,
        check: Check,
    ) -> Result<Self, Error> {
        Ok(Self {
            flat,
            check,
            leaf,
            sign: stride.with_value(stride.value().signum()),
            rest: extent,
            step: stride.with_value(abs(stride.value())?),
            pieces: SmallVec::new(),
        })
    }

    /// Walks through all left modes; the visit that carries, if one does.
    #[inline]
    pub(crate) fn run(
        &mut self,
        sums: &mut [DigitSum],
        note: &mut impl FnMut(Visit),
    ) -> Result<Option<Visit>, Error> {
        let end = self.flat.len() - 1;
        if self.step.is(0) {
            let piece = LeafMode::new(self.rest, Stride::Int(self.step));
            self.pieces.push(piece);
            note(self.visit(0, Case::Broadcast));
            return Ok(None);
        }
        for (k, sum) in sums[..end].iter_mut().enumerate() {
            if let Some(straddling) = self.cross(k, sum, note)? {
                return Ok(Some(straddling));
            }
        }
        if self.pieces.is_empty() || !self.rest.is(1) {
            self.emit(end, self.rest, &mut sums[end])?;
            note(self.visit(end, Case::Last));
        }
        Ok(None)
    }

    /// Moves the right-hand mode across the digit of left mode `k`; returns the visit if it carries.
    #[inline]
    fn cross(
        &mut self,
        k: usize,
        sum: &mut DigitSum,
        note: &mut impl FnMut(Visit),
    ) -> Result<Option<Visit>, Error> {
        let extent = self.flat[k].extent;
        let (case, take) = self.case(extent.value());
        let mut visit = self.visit(k, case);
        match case {
            Case::Carries => {
                note(visit);
                return Ok(Some(visit));
            }
            Case::Within | Case::Splits => {
                let mut take = self.rest.taint(extent, take);
                if case == Case::Splits {
                    take = take.taint(self.step, take.value());
                }
                visit.piece = Some(self.emit(k, take, sum)?);
                self.rest = self.rest.taint(take, self.rest.value() / take.value());
            }
            Case::Skips | Case::Last | Case::Broadcast => {}
        }
        note(visit);
        self.step = self.step.ceil_div(extent)?;
        Ok(None)
    }

    /// What the steps that are left do in a digit of `s`, and how many of them it takes.
    #[inline]
    fn case(&self, s: i64) -> (Case, i64) {
        let (n, r) = (self.rest.value(), self.step.value());
        // The digit of `c * r` at extent `s` is `c * r % s`. If `s` divides `r` it is always 0: the mode passes on,
        // with the step in units of the next digit.
        if r % s == 0 {
            return (Case::Skips, 1);
        }
        // CuTe asserts its condition on the stride before it looks at the extent.
        if n == 1 {
            let carries = self.check == Check::AsCute && r > s;
            return (if carries { Case::Carries } else { Case::Skips }, 1);
        }
        // The largest step stays below `s`: no step carries, so all of them are multiples of this stride.
        if (i128::from(n) - 1) * i128::from(r) < i128::from(s) {
            return (Case::Within, n);
        }
        // After `s / r` steps the digit is 0 again and exactly 1 has gone to the next digit, if `r` divides `s`; the
        // rest of the mode counts there by 1. This needs whole rounds: `s / r` divides `n`. Otherwise a step changes
        // two digits at once by an amount that depends on where it starts, and no stride describes it.
        let take = (s / r + i64::from(s % r != 0)).min(n);
        if n % take == 0 && (s % r == 0 || self.check == Check::AsCute && r < s) {
            (Case::Splits, take)
        } else {
            (Case::Carries, take)
        }
    }

    /// The next mode of the result: `take` steps within the left mode `k`.
    #[inline]
    fn emit(&mut self, k: usize, take: Int, sum: &mut DigitSum) -> Result<LeafMode, Error> {
        let digits = (take.value() - 1).saturating_mul(self.step.value());
        sum.add(self.sign.value(), digits);
        if let Stride::Xor(_) = self.flat[k].stride {
            sum.set_bits(take.value(), self.step.value());
        }
        let stride = self.flat[k].stride.times(self.step.times(self.sign)?)?;
        let piece = LeafMode::new(take, stride);
        self.pieces.push(piece);
        Ok(piece)
    }

    #[inline]
    fn visit(&self, left_mode: usize, case: Case) -> Visit {
        let last = || self.pieces.last().copied();
        Visit {
            leaf: self.leaf,
            left_mode,
            extent: self.rest.value(),
            stride: self.step.value() * self.sign.value(),
            case,
            piece: matches!(case, Case::Last | Case::Broadcast)
                .then(last)
                .flatten(),
        }
    }
}

impl DigitSum {
    fn add(&mut self, sign: i64, digits: i64) {
        let side = if sign < 0 {
            &mut self.negative
        } else {
            &mut self.positive
        };
        *side = side.saturating_add(digits);
    }

    /// Notes the bits of `take` steps of `step`.
    fn set_bits(&mut self, take: i64, step: i64) {
        let ones = (1_i64 << crate::tuple::int::bit_length(take).min(62)) - 1;
        let bits = ones.saturating_mul(step);
        self.shared |= self.bits & bits != 0;
        self.bits |= bits;
    }

    const fn is_empty(self) -> bool {
        self.positive == 0 && self.negative == 0
    }
}

/// Where the modes do not fit together.
enum JointMisfit {
    Carry { mode: usize, up: bool },
    Signs,
    Bits,
}

/// Checks that the digits of all right-hand modes together stay within each left mode.
///
/// Each mode alone stays in its digits, but the modes of a coordinate are added: two modes may share a digit and carry
/// together. The sum of their largest digits is reached at the last coordinate, so comparing it with the extent
/// decides. With strides of both signs a digit could borrow as well, so they must stay in one digit.
fn together(flat: &Flat, sums: &[DigitSum]) -> Result<(), JointMisfit> {
    for (mode, sum) in sums[..flat.len() - 1].iter().enumerate() {
        for (digits, up) in [(sum.positive, true), (sum.negative, false)] {
            if digits >= flat[mode].size() {
                return Err(JointMisfit::Carry { mode, up });
            }
        }
    }
    let mixed = sums.iter().any(|l| l.positive > 0) && sums.iter().any(|l| l.negative > 0);
    if mixed && sums.iter().filter(|l| !l.is_empty()).count() > 1 {
        return Err(JointMisfit::Signs);
    }
    if sums.iter().any(|l| l.shared) {
        return Err(JointMisfit::Bits);
    }
    Ok(())
}

/// The largest digits of every right-hand leaf alone, in every left mode.
fn sums_by_leaf(flat: &Flat, rhs: &Layout) -> impl Iterator<Item = (usize, DigitSums)> {
    rhs.leaves().iter().enumerate().map(move |(i, leaf)| {
        let mut sums: DigitSums = SmallVec::from_elem(DigitSum::default(), flat.len());
        Walker::new(
            flat,
            i,
            leaf.extent,
            leaf.stride.coefficient(),
            Check::Sound,
        )
        .and_then(|mut w| w.run(&mut sums, &mut |_| ()))
        .expect("each leaf was walked before, without an error");
        (i, sums)
    })
}

/// The clash with the right-hand leaves that take part in it.
fn reason(flat: &Flat, rhs: &Layout, clash: JointMisfit) -> Refusal {
    let each = || sums_by_leaf(flat, rhs);
    match clash {
        JointMisfit::Carry { mode, up } => {
            let digit = |sums: DigitSums| {
                if up {
                    sums[mode].positive
                } else {
                    sums[mode].negative
                }
            };
            let shares = each().map(|(leaf, sums)| Share {
                leaf,
                digit: digit(sums),
            });
            Refusal::Carry {
                shares: shares.filter(|s| s.digit > 0).collect(),
                left: flat[mode].size(),
                left_mode: mode,
            }
        }
        JointMisfit::Bits => Refusal::Bits {
            shares: each()
                .filter(|(_, sums)| sums.iter().any(|l| l.bits != 0))
                .map(|(leaf, _)| leaf)
                .collect(),
        },
        JointMisfit::Signs => {
            let find = |side: fn(&DigitSum) -> i64| {
                let mut found = each().filter(|(_, sums)| sums.iter().any(|l| side(l) > 0));
                found.next().map(|(leaf, _)| leaf)
            };
            Refusal::Signs {
                up: find(|l| l.positive).expect("a positive load came from a leaf"),
                down: find(|l| l.negative).expect("a negative load came from a leaf"),
            }
        }
    }
}
