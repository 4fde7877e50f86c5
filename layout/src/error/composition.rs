//! Why a composition is refused, as data and as a sentence.

use alloc::boxed::Box;
use core::fmt;

use smallvec::SmallVec;

use crate::layout::LeafMode;
use crate::tuple::View;
use crate::{Contradiction, Error, Layout};

/// Why `lhs o rhs` has no result: it is not a layout over the modes of `rhs`, or the search for one gave up.
///
/// [`Layout::explain_composition`] shows the steps up to the one that fails.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CompositionError {
    /// The left operand.
    pub lhs: Layout,
    /// The right operand.
    pub rhs: Layout,
    /// The left operand coalesced: the modes that its refusal counts.
    pub left_modes: Layout,
    /// Where the rule of composition fails.
    pub reason: Refusal,
    /// What the search for another layout found.
    pub search: Search,
}

/// The numbers that do not fit. Leaves and left modes are counted from 0, left modes in the coalesced left operand.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Refusal {
    /// One mode of the right-hand side straddles a mode of the left-hand side.
    Straddle {
        /// The leaf of the right-hand side.
        leaf: usize,
        /// That leaf, `extent:stride`.
        mode: LeafMode,
        /// What is left of its extent when it meets the left mode.
        extent: i64,
        /// Its stride in units of the left mode.
        stride: i64,
        /// The extent of the left mode.
        left: i64,
        /// The left mode.
        left_mode: usize,
    },
    /// The modes fit one by one, but together they carry out of a mode of the left-hand side.
    Carry {
        /// The leaves that meet, with the largest digit of each.
        shares: SmallVec<[Share; 4]>,
        /// The extent of the left mode, which the sum of the digits must stay below.
        left: i64,
        /// The left mode.
        left_mode: usize,
    },
    /// Positive and negative right-hand strides reach different modes of the left-hand side.
    Signs {
        /// A leaf with a positive stride.
        up: usize,
        /// A leaf with a negative stride.
        down: usize,
    },
    /// Modes of the right-hand side add into the same bits of a mode with an XOR stride.
    Bits {
        /// The leaves that reach modes with XOR strides.
        shares: SmallVec<[usize; 4]>,
    },
}

/// The largest digit that one leaf of the right-hand side puts into a mode of the left-hand side.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Share {
    /// The leaf.
    pub leaf: usize,
    /// The digit.
    pub digit: i64,
}

/// What the search over the modes of the right-hand side found, where the rule refuses.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Search {
    /// No layout over these modes exists: the first coordinate whose value cannot be right.
    Contradicted(Box<Contradiction>),
    /// The first [`SEARCH_BOUND`](crate::SEARCH_BOUND) coordinates of the modes that clash contradict nothing, and there are more.
    GaveUp {
        /// How many coordinates were looked at.
        bound: i64,
        /// How many there are.
        size: i64,
    },
    /// A value does not fit 64 bits, or is no integer.
    Failed(Error),
    /// There was no search: [`Layout::cute_composition`] takes CuTe's rule alone.
    NotTried,
}

/// The place of a leaf in its tuple, `<1,0>`: mode 0 of mode 1.
pub(crate) struct LeafPath(pub(crate) SmallVec<[usize; 8]>);

impl LeafPath {
    /// The path to the `leaf`th leaf; empty where there are no parentheses.
    pub(crate) fn of<T: Copy>(tuple: View<'_, T>, leaf: usize) -> Self {
        let mut paths = Self::of_leaves(tuple);
        paths.nth(leaf).expect("a leaf of the tuple")
    }

    /// The path to each leaf, from left to right.
    pub(crate) fn of_leaves<T: Copy>(tuple: View<'_, T>) -> impl Iterator<Item = Self> {
        let mut nodes = tuple.nodes().iter();
        // At each level, the mode that the walk is in and the number of modes.
        let mut open: SmallVec<[(usize, usize); 8]> = SmallVec::new();
        core::iter::from_fn(move || {
            loop {
                let rank = nodes.next()?.checked_sub(1);
                let path = rank
                    .is_none()
                    .then(|| open.iter().map(|(i, _)| *i).collect());
                match rank {
                    Some(rank) if rank > 0 => open.push((0, rank as usize)),
                    _ => to_next_mode(&mut open),
                }
                if let Some(path) = path {
                    return Some(Self(path));
                }
            }
        })
    }
}

/// After a mode: the next one of the innermost tuple that has one.
fn to_next_mode(open: &mut SmallVec<[(usize, usize); 8]>) {
    while let Some((mode, rank)) = open.last_mut() {
        *mode += 1;
        if mode < rank {
            return;
        }
        open.pop();
    }
}

impl fmt::Display for LeafPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // A value without parentheses is its own mode 0.
        let path = if self.0.is_empty() { &[0][..] } else { &self.0 };
        write_list(f, "<", path, ",", |f, mode| write!(f, "{mode}"))?;
        f.write_str(">")
    }
}

impl fmt::Display for CompositionError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (lhs, rhs) = (&self.lhs, &self.rhs);
        match &self.search {
            why @ Search::Contradicted(_) => {
                write!(f, "{lhs} o {rhs} is not a layout over the modes of {rhs}: ")?;
                self.reason.write(f, &self.left_modes, rhs)?;
                write!(f, "; {why}")
            }
            // Nothing is proved: a layout may exist.
            Search::NotTried => {
                write!(
                    f,
                    "{lhs} o {rhs} is refused by CuTe's rule of composition: "
                )?;
                self.reason.write(f, &self.left_modes, rhs)
            }
            open => {
                write!(
                    f,
                    "{lhs} o {rhs}: {open}; the rule of composition refuses, as "
                )?;
                self.reason.write(f, &self.left_modes, rhs)
            }
        }
    }
}

impl Refusal {
    fn write(&self, f: &mut fmt::Formatter<'_>, simple: &Layout, rhs: &Layout) -> fmt::Result {
        let path = |leaf| LeafPath::of(rhs.view(), leaf);
        match self {
            Self::Straddle {
                leaf,
                mode,
                extent,
                stride,
                left,
                ..
            } if *extent == 1 => {
                // Only CuTe's rule refuses a mode that takes no step.
                let path = path(*leaf);
                write!(
                    f,
                    "mode {path}, {mode}, is one step of {stride} in extent {left} of {simple}, and CuTe asserts of \
                     every mode that {left} divides its stride or that it is below {left}"
                )
            }
            Self::Straddle {
                leaf,
                mode,
                extent,
                stride,
                left,
                ..
            } => {
                write!(
                    f,
                    "mode {}, {mode}, takes {extent} steps of {stride} in extent {left} of {simple} and carries, as ",
                    path(*leaf)
                )?;
                why_straddle(f, *extent, *stride, *left)
            }
            Self::Carry { shares, left, .. } => {
                write_list(f, "modes ", shares, " and ", |f, s| {
                    write!(f, "{}", path(s.leaf))
                })?;
                write_list(
                    f,
                    " fit one by one, but together they reach ",
                    shares,
                    " + ",
                    |f, s| write!(f, "{}", s.digit),
                )?;
                let total: i128 = shares.iter().map(|s| i128::from(s.digit)).sum();
                write!(
                    f,
                    " = {total} in extent {left} of {simple} and carry (at most {} would fit)",
                    left - 1
                )
            }
            Self::Bits { shares } => {
                write_list(f, "modes ", shares, " and ", |f, leaf| {
                    write!(f, "{}", path(*leaf))
                })?;
                write!(
                    f,
                    " set the same bits of an XOR stride of {simple}, and the sum of bits is not their XOR \
                     (strides that set different bits would fit)"
                )
            }
            Self::Signs { up, down } => write!(
                f,
                "mode {} goes up and mode {} goes down through several modes of {simple}, so coordinates borrow between \
                 them (strides of one sign would fit)",
                path(*up),
                path(*down),
            ),
        }
    }
}

fn write_list<T>(
    f: &mut fmt::Formatter<'_>,
    before: &str,
    items: &[T],
    between: &str,
    each: impl Fn(&mut fmt::Formatter<'_>, &T) -> fmt::Result,
) -> fmt::Result {
    for (i, item) in items.iter().enumerate() {
        f.write_str(if i == 0 { before } else { between })?;
        each(f, item)?;
    }
    Ok(())
}

/// The condition that fails, and what would hold.
pub(crate) fn why_straddle(f: &mut impl fmt::Write, n: i64, r: i64, s: i64) -> fmt::Result {
    if s % r == 0 {
        let fill = s / r;
        return write!(
            f,
            "{fill} steps fill it and {fill} does not divide {n} (a multiple of {fill} steps would fit)"
        );
    }
    let reach = (i128::from(n) - 1) * i128::from(r);
    write!(
        f,
        "neither of {r} and {s} divides the other and ({n}-1)*{r} = {reach} is not below {s} "
    )?;
    if r < s {
        write!(f, "({} steps would fit)", (s - 1) / r + 1)
    } else {
        write!(f, "(a stride that {s} divides would fit)")
    }
}

/// What became of the search, where it found no layout: the end of an error's sentence.
impl fmt::Display for Search {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Contradicted(why) => write!(f, "A(B(c)) {why}"),
            Self::GaveUp { bound, size } => write!(
                f,
                "the search for a layout gave up after {bound} of the {size} coordinates of the modes that clash, which \
                 is its bound"
            ),
            Self::Failed(e) => write!(f, "the search for a layout failed: {e}"),
            Self::NotTried => f.write_str("nothing else was tried"),
        }
    }
}
