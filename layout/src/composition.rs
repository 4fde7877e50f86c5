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

use alloc::boxed::Box;
use alloc::string::ToString;
use core::fmt;

use smallvec::SmallVec;

use crate::coalesce::{Flat, Tail, coalesced, layout_of};
use crate::int::abs;
use crate::layout::LeafMode;
use crate::tuple::Builder;
use crate::{Error, Int, Layout, Stride, Tiler};

/// Why `lhs o rhs` is not a layout over the modes of `rhs`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CompositionError {
    /// The left operand.
    pub lhs: Layout,
    /// The right operand.
    pub rhs: Layout,
    /// The reason.
    pub reason: Refusal,
}

/// The number that does not fit.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Refusal {
    /// One mode of the right-hand side straddles a mode of the left-hand side.
    Straddle {
        /// The leaf of the right-hand side, counted from 0.
        leaf: usize,
        /// That leaf, `extent:stride`.
        mode: LeafMode,
        /// What is left of its extent when it meets the left mode.
        extent: i64,
        /// Its stride in units of the left mode.
        stride: i64,
        /// The extent of the left mode.
        left: i64,
    },
    /// The modes fit one by one, but together they carry out of a mode of the left-hand side.
    Carry {
        /// The leaves that meet, counted from 0.
        leaves: SmallVec<[usize; 4]>,
        /// The sum of the largest digits.
        digits: i64,
        /// The extent of the left mode.
        left: i64,
        /// The left mode, counted in the simplified left-hand side.
        mode: usize,
    },
    /// Positive and negative right-hand strides reach different modes of the left-hand side.
    Signs,
}

impl Layout {
    /// `self o inner`: visits `self` in the order that `inner` says. `(A o B)(c) = A(B(c))`.
    ///
    /// The result has the modes of `inner`, each refined where it crosses modes of `self`.
    /// Indices beyond the size of `self` continue its last mode, as in CuTe.
    ///
    /// Laws `composition_at` (`r.at(i) == a.at(b.at(i))` at every index) and `composition_modes` (`inner`'s shape is
    /// compatible with the result's).
    ///
    /// # Errors
    ///
    /// [`Error::Composition`] when coordinates carry between modes so that no such layout was found: where CuTe gives
    /// a wrong layout, or none. [`Error::Overflow`], [`Error::StrideKind`].
    ///
    /// # Example
    ///
    /// ```
    /// use colex_layout::Layout;
    /// let a: Layout = "(6,2):(8,2)".parse()?;
    /// let b: Layout = "(4,3):(3,1)".parse()?;
    /// assert_eq!(a.composition(&b)?.to_string(), "((2,2),3):((24,2),8)");
    /// # Ok::<(), colex_layout::Error>(())
    /// ```
    ///
    /// Source: `composition` in `cute/layout.hpp`; `Cecka 2026`.
    pub fn composition(&self, inner: &Self) -> Result<Self, Error> {
        let flat = coalesced(self.leaves(), Tail::Continue);
        walk(self, &flat, inner, Check::Sound)
    }

    /// Composition mode by mode: `(2:4,8:8)` composes mode 0 with `2:4` and mode 1 with `8:8`; `_` keeps a mode.
    ///
    /// Modes of `self` beyond the tiler are dropped, as in CuTe.
    ///
    /// # Errors
    ///
    /// [`Error::Rank`] when the tiler has more modes than `self`; those of [`Layout::composition`].
    ///
    /// # Example
    ///
    /// ```
    /// use colex_layout::Layout;
    /// let a: Layout = "(12,(4,8)):(59,(13,1))".parse()?;
    /// assert_eq!(a.composition_tiler(&"(3:4,8:2)".parse()?)?.to_string(), "(3,(2,4)):(236,(26,1))");
    /// # Ok::<(), colex_layout::Error>(())
    /// ```
    pub fn composition_tiler(&self, tiler: &Tiler) -> Result<Self, Error> {
        match tiler {
            Tiler::All => Ok(self.clone()),
            Tiler::Layout(inner) => self.composition(inner),
            Tiler::Int(n) => self.composition(&Self::leaf(*n, Stride::constant(1))?),
            Tiler::Modes(modes) => {
                self.check_tiler_rank("composition", tiler, modes.len())?;
                let parts = self.modes().zip(modes).map(|(l, t)| l.composition_tiler(t));
                Self::concat(&parts.collect::<Result<SmallVec<[_; 4]>, _>>()?)
            }
        }
    }

    pub(crate) fn check_tiler_rank(
        &self,
        operation: &'static str,
        tiler: &Tiler,
        rank: usize,
    ) -> Result<(), Error> {
        if rank <= self.rank() {
            return Ok(());
        }
        Err(crate::int_tuple::rank_error(
            operation,
            self,
            tiler,
            "a tiler of at most the layout's rank",
        ))
    }

    /// What CuTe's composition returns, right or wrong: its checks alone, for comparison.
    ///
    /// # Errors
    ///
    /// As [`Layout::composition`], where CuTe refuses too.
    ///
    /// # Example
    ///
    /// ```
    /// use colex_layout::Layout;
    /// let (a, b): (Layout, Layout) = ("(4,3):(1,10)".parse()?, "4:3".parse()?);
    /// let cute = a.composition_unchecked(&b)?;
    /// assert_eq!(cute.to_string(), "(2,2):(3,10)");
    /// assert_eq!(cute.table()?, [0, 3, 10, 13]);
    /// // The truth, A(B(c)), is another function, and no layout of one mode 4 has it:
    /// assert_eq!((0..4).map(|c| a.at(b.at(c)?)).collect::<Result<Vec<_>, _>>()?, [0, 3, 12, 21]);
    /// assert!(a.composition(&b).is_err());
    /// # Ok::<(), colex_layout::Error>(())
    /// ```
    pub fn composition_unchecked(&self, inner: &Self) -> Result<Self, Error> {
        let flat = coalesced(self.leaves(), Tail::Continue);
        walk(self, &flat, inner, Check::AsCute)
    }
}

/// Which conditions are checked.
#[derive(Clone, Copy, PartialEq)]
enum Check {
    Sound,
    AsCute,
}

/// What each mode of the left-hand side receives.
#[derive(Clone, Copy, Default)]
struct Load {
    positive: i64,
    negative: i64,
}

/// Composes every leaf of `rhs` and checks them together.
fn walk(lhs: &Layout, flat: &Flat, rhs: &Layout, check: Check) -> Result<Layout, Error> {
    let refuse = |reason| {
        Error::Composition(Box::new(CompositionError {
            lhs: lhs.clone(),
            rhs: rhs.clone(),
            reason,
        }))
    };
    let mut out = Builder::new();
    let mut loads: SmallVec<[Load; 12]> = SmallVec::from_elem(Load::default(), flat.len());
    let mut leaves = rhs.leaves().iter().enumerate();
    for &node in rhs.view().nodes() {
        if node > 0 {
            out.node(node);
            continue;
        }
        let (at, leaf) = leaves.next().expect("every leaf node has its value");
        let stride = rhs.int_stride("composition on the right", leaf)?;
        let pieces = Pieces::of(flat, leaf.extent, stride, check, &mut loads)?.map_err(|m| {
            refuse(Refusal::Straddle {
                leaf: at,
                mode: *leaf,
                extent: m.0,
                stride: m.1,
                left: m.2,
            })
        })?;
        push(&mut out, &pieces.0);
    }
    if check == Check::Sound {
        together(flat, &loads).map_err(|at| refuse(reason(flat, rhs, &loads, at)))?;
    }
    Layout::checked(out.finish())
}

/// One leaf as it is, several as a tuple.
fn push(out: &mut Builder<LeafMode>, pieces: &[LeafMode]) {
    if let [piece] = pieces {
        out.leaf(*piece);
        return;
    }
    let open = out.open();
    pieces.iter().for_each(|p| out.leaf(*p));
    out.close(open, pieces.len());
}

/// The rest of the extent, the stride in units of the left mode, and that mode's extent.
struct Misfit(i64, i64, i64);

/// The modes that one right-hand leaf becomes.
struct Pieces(SmallVec<[LeafMode; 4]>);

impl Pieces {
    fn of(
        flat: &Flat,
        extent: Int,
        stride: Int,
        check: Check,
        loads: &mut [Load],
    ) -> Result<Result<Self, Misfit>, Error> {
        let mut pieces = SmallVec::new();
        let (last, before) = flat.split_last().expect("a coalesced layout has a mode");
        let sign = stride.with_value(stride.value().signum());
        let (mut rest, mut step) = (extent, stride.with_value(abs(stride.value())?));
        if step.is(0) {
            pieces.push(LeafMode::new(extent, Stride::Int(stride)));
            return Ok(Ok(Self(pieces)));
        }
        for (mode, load) in before.iter().zip(loads.iter_mut()) {
            let (n, r, s) = (rest.value(), step.value(), mode.size());
            if n == 1 || r % s == 0 {
                step = step.ceil_div(mode.extent)?;
                continue;
            }
            let stays = (i128::from(n) - 1) * i128::from(r) < i128::from(s);
            let take = if stays {
                n
            } else {
                (s / r + i64::from(s % r != 0)).min(n)
            };
            let splits = n % take == 0 && (s % r == 0 || check == Check::AsCute && r < s);
            if !stays && !splits {
                return Ok(Err(Misfit(n, r, s)));
            }
            let take = rest.taint(mode.extent, take);
            load.add(sign.value(), (take.value() - 1).saturating_mul(r));
            pieces.push(LeafMode::new(take, mode.stride.times(step.times(sign)?)?));
            rest = rest.taint(take, n / take.value());
            step = step.ceil_div(mode.extent)?;
        }
        if pieces.is_empty() || !rest.is(1) {
            loads[before.len()].add(
                sign.value(),
                (rest.value() - 1).saturating_mul(step.value()),
            );
            pieces.push(LeafMode::new(rest, last.stride.times(step.times(sign)?)?));
        }
        Ok(Ok(Self(pieces)))
    }
}

impl Load {
    fn add(&mut self, sign: i64, digits: i64) {
        let side = if sign < 0 {
            &mut self.negative
        } else {
            &mut self.positive
        };
        *side = side.saturating_add(digits);
    }

    const fn is_empty(self) -> bool {
        self.positive == 0 && self.negative == 0
    }
}

/// Where the modes do not fit together.
enum Clash {
    Carry(usize),
    Signs,
}

/// Whether the digits of all right-hand modes together stay within each left mode.
fn together(flat: &Flat, loads: &[Load]) -> Result<(), Clash> {
    let bounded = flat.len() - 1;
    if let Some(k) =
        (0..bounded).find(|&k| loads[k].positive.max(loads[k].negative) >= flat[k].size())
    {
        return Err(Clash::Carry(k));
    }
    let mixed = loads.iter().any(|l| l.positive > 0) && loads.iter().any(|l| l.negative > 0);
    if mixed && loads.iter().filter(|l| !l.is_empty()).count() > 1 {
        return Err(Clash::Signs);
    }
    Ok(())
}

/// The clash with the right-hand leaves that take part in it.
fn reason(flat: &Flat, rhs: &Layout, loads: &[Load], clash: Clash) -> Refusal {
    let Clash::Carry(mode) = clash else {
        return Refusal::Signs;
    };
    let touches = |leaf: &LeafMode| {
        let mut alone: SmallVec<[Load; 12]> = SmallVec::from_elem(Load::default(), flat.len());
        let stride = leaf.stride.coefficient();
        let walked = Pieces::of(flat, leaf.extent, stride, Check::Sound, &mut alone);
        matches!(walked, Ok(Ok(_))) && !alone[mode].is_empty()
    };
    let leaves = rhs
        .leaves()
        .iter()
        .enumerate()
        .filter(|(_, l)| touches(l))
        .map(|(i, _)| i)
        .collect();
    let digits = loads[mode].positive.max(loads[mode].negative);
    Refusal::Carry {
        leaves,
        digits,
        left: flat[mode].size(),
        mode,
    }
}

impl fmt::Display for CompositionError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (lhs, rhs) = (&self.lhs, &self.rhs);
        write!(f, "{lhs} o {rhs} is not a layout over the modes of {rhs}: ")?;
        let simplified = layout_of(coalesced(lhs.leaves(), Tail::Continue));
        match &self.reason {
            Refusal::Straddle {
                mode,
                extent,
                stride,
                left,
                ..
            } => write!(
                f,
                "{} steps of {stride} carry out of extent {left} of {simplified}; mode {}:{} would fit if {left} divided \
                 {stride}, if {extent} steps stayed below {left}, or if {stride} divided {left} and {left}/{stride} divided {extent}",
                extent, mode.extent, mode.stride,
            ),
            Refusal::Carry {
                leaves,
                digits,
                left,
                mode,
            } => {
                let modes = leaves
                    .iter()
                    .map(usize::to_string)
                    .collect::<alloc::vec::Vec<_>>()
                    .join(" and ");
                write!(
                    f,
                    "leaf modes {modes} of {rhs} fit one by one, but their digits reach {digits} together in extent \
                     {left} of mode {mode} of {simplified}, and what carries goes to another stride",
                )
            }
            Refusal::Signs => write!(
                f,
                "positive and negative strides of {rhs} reach different modes of {simplified}, so coordinates borrow between them",
            ),
        }
    }
}
