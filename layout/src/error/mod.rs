//! What can be wrong with an input, as sentences.

pub(crate) mod composition;
pub(crate) mod infer;
mod opaque;

use alloc::boxed::Box;
use core::fmt;

use self::composition::CompositionError;
use self::infer::InferError;

crate::opaque_error! {
    /// Why an operation has no result.
    ///
    /// Its `Display` and `Debug` output is one sentence that names the operands, the place, and the numbers that do not
    /// fit. What a composition or an inference found is there as data.
    ///
    /// ```
    /// use colex_layout::{Layout, Refusal};
    ///
    /// let error = Layout::new((4, 3), (1, 10))?.composition("4:3").unwrap_err();
    /// let refused = error.composition().expect("the composition is refused");
    /// assert!(matches!(refused.reason, Refusal::Straddle { leaf: 0, stride: 3, left: 4, .. }));
    /// # Ok::<(), colex_layout::Error>(())
    /// ```
    #[derive(Clone, PartialEq, Eq)]
    pub struct Error(ErrorKind);
}

impl Error {
    /// Returns why a composition is refused, if it is: no layout of the right-hand modes equals it, or the search for one
    /// gave up.
    pub fn composition(&self) -> Option<&CompositionError> {
        match self.kind() {
            ErrorKind::Composition(refused) => Some(refused),
            _ => None,
        }
    }

    /// Returns whether a composition is refused.
    pub fn is_composition_refused(&self) -> bool {
        self.composition().is_some()
    }

    /// Returns why values are those of no layout, if that is the reason.
    pub fn infer(&self) -> Option<&InferError> {
        match self.kind() {
            ErrorKind::Infer(refused) => Some(refused),
            _ => None,
        }
    }

    /// Returns whether a text is not a tuple, a layout, a tiler or a swizzle.
    pub fn is_parse(&self) -> bool {
        matches!(self.kind(), ErrorKind::Parse { .. })
    }

    /// Returns whether a number does not fit 64 bits.
    pub fn is_overflow(&self) -> bool {
        matches!(
            self.kind(),
            ErrorKind::Overflow { .. } | ErrorKind::Integer { .. }
        )
    }

    /// Returns whether a coordinate lies outside of the shape, or does not nest as the shape does.
    pub fn is_out_of_bounds(&self) -> bool {
        matches!(
            self.kind(),
            ErrorKind::OutOfBounds { .. } | ErrorKind::Coordinate { .. }
        )
    }

    /// Returns whether the question stays open, or the result is too large: the work or the elements reach a bound.
    pub fn is_bound_reached(&self) -> bool {
        matches!(
            self.kind(),
            ErrorKind::Undecided { .. } | ErrorKind::TooMany { .. }
        )
    }

    /// The error of an operand that an operation does not take.
    pub(crate) fn operand(
        operation: &'static str,
        operand: impl Into<Box<str>>,
        why: impl Into<Box<str>>,
    ) -> Self {
        ErrorKind::Operand {
            operation,
            operand: operand.into(),
            why: why.into(),
        }
        .into()
    }

    /// The error of a layout whose strides are of a kind that an operation does not take.
    pub(crate) fn stride_kind(
        operation: &'static str,
        layout: impl Into<Box<str>>,
        needs: &'static str,
    ) -> Self {
        ErrorKind::StrideKind {
            operation,
            layout: layout.into(),
            needs,
        }
        .into()
    }

    /// Returns the composition that is refused, to go on from it, or the error if it is another.
    pub(crate) fn into_composition(self) -> Result<Box<CompositionError>, Self> {
        match *self.0 {
            ErrorKind::Composition(refused) => Ok(refused),
            kind => Err(kind.into()),
        }
    }
}

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum ErrorKind {
    #[error("expected {expected} at byte {at} of {}", Excerpt(text, *at))]
    Parse {
        text: Box<str>,
        at: usize,
        expected: &'static str,
    },
    #[error("the shape {shape} and the stride {stride} nest differently")]
    NotCongruent { shape: Box<str>, stride: Box<str> },
    #[error("extent {extent} in the shape {shape}: extents are at least 1")]
    Extent { extent: i64, shape: Box<str> },
    #[error(
        "strides {first} and {other} in one layout: all strides add, or all XOR, or all are coordinates"
    )]
    MixedStrides { first: Box<str>, other: Box<str> },
    #[error("{operation} of {layout} needs {needs}")]
    StrideKind {
        operation: &'static str,
        layout: Box<str>,
        needs: &'static str,
    },
    #[error("{}", BadPath(*depth, *mode))]
    BasisPath { depth: usize, mode: usize },
    #[error("^{stride} times {factor}: an XOR stride scales by powers of two only")]
    XorScale { stride: i64, factor: i64 },
    #[error("Sw<{bits},{base},{shift}>: {why}")]
    Swizzle {
        bits: i64,
        base: i64,
        shift: i64,
        why: &'static str,
    },
    #[error(
        "the integer {value} does not fit 64 bits: integers of tuples lie from {} to {}",
        i64::MIN,
        i64::MAX
    )]
    Integer { value: Box<str> },
    #[error("{left} {operator} {right} does not fit 64 bits")]
    Overflow {
        left: i64,
        operator: char,
        right: i64,
    },
    #[error("{dividend} divided by zero")]
    DivideByZero { dividend: i64 },
    #[error("{operation}: neither does {right} divide {left}, nor {left} divide {right}")]
    NotDivisible {
        operation: &'static str,
        left: i64,
        right: i64,
    },
    #[error("mode {mode} of {of}, which has rank {rank}")]
    Mode {
        mode: usize,
        rank: usize,
        of: Box<str>,
    },
    #[error("{operation} of modes {begin}..{end} of {of}: the range {}", if begin >= end { "is empty" } else { "ends beyond the rank" })]
    Range {
        operation: &'static str,
        begin: usize,
        end: usize,
        of: Box<str>,
    },
    #[error("{operation} of {left} and {right} needs {needs}")]
    Rank {
        operation: &'static str,
        left: Box<str>,
        right: Box<str>,
        needs: &'static str,
    },
    #[error("the coordinate {coord} does not fit the shape {shape}")]
    Coordinate { coord: Box<str>, shape: Box<str> },
    #[error("coordinate {coord} is not within 0..{size} in the shape {shape}")]
    OutOfBounds {
        coord: i64,
        size: i64,
        shape: Box<str>,
    },
    #[error("{operation} of {of} is undecided after {bound} steps, which is its bound")]
    Undecided {
        operation: &'static str,
        of: Box<str>,
        bound: u64,
    },
    #[error("a {what} nests {depth} parentheses deep, and the bound is {bound}")]
    Deep {
        what: &'static str,
        depth: usize,
        bound: usize,
    },
    #[error("{operation} of {of} has {count} elements, and its bound is {bound}")]
    TooMany {
        operation: &'static str,
        of: Box<str>,
        count: i64,
        bound: i64,
    },
    #[error("{operation} of {operand}: {why}")]
    Operand {
        operation: &'static str,
        operand: Box<str>,
        why: Box<str>,
    },
    #[error("{0}")]
    Composition(Box<CompositionError>),
    #[error("{0}")]
    Infer(Box<InferError>),
}

/// A text and what is wrong at a byte of it: a long one only around the byte.
struct Excerpt<'a>(&'a str, usize);

impl fmt::Display for Excerpt<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self(text, at) = *self;
        match text.len() {
            length if length > LONG => write!(f, "{length}, near {:?}", excerpt(text, at)),
            _ => write!(f, "{text:?}"),
        }
    }
}

/// What is wrong with the path of a basis stride, or with a mode in it.
struct BadPath(usize, usize);

impl fmt::Display for BadPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let most = crate::MAX_BASIS_DEPTH;
        match *self {
            Self(0, _) => f.write_str("a basis stride names at least one mode, as in 1@0"),
            Self(depth, 0) => write!(
                f,
                "a basis stride of depth {depth}: the depth is at most {most}"
            ),
            Self(_, mode) => write!(f, "mode {mode} in a basis stride: modes are at most 255"),
        }
    }
}

/// The longest text that an error about its syntax repeats whole, in bytes.
const LONG: usize = 200;

/// The text around a byte of it.
fn excerpt(text: &str, at: usize) -> &str {
    let boundary = |at: usize| {
        let mut before = (0..=at.min(text.len())).rev();
        before.find(|&at| text.is_char_boundary(at)).unwrap_or(0)
    };
    &text[boundary(at.saturating_sub(40))..boundary(at.saturating_add(20))]
}
