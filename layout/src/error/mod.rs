//! What can be wrong with an input, as sentences.

pub(crate) mod composition;
pub(crate) mod infer;
mod opaque;

use alloc::boxed::Box;
use core::fmt;

/// Why an operation has no result.
///
/// Every message is one sentence that names the operands, the place, and the numbers that do not fit.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Error {
    /// The text is not a tuple, layout or tiler; `at` is a byte position in `text`.
    Parse {
        /// The whole text.
        text: Box<str>,
        /// The byte at which reading stopped.
        at: usize,
        /// What could have stood there.
        expected: &'static str,
    },
    /// Shape and stride nest differently.
    NotCongruent {
        /// The shape.
        shape: Box<str>,
        /// The stride.
        stride: Box<str>,
    },
    /// An extent below 1.
    Extent {
        /// The extent.
        extent: i64,
        /// The shape that has it.
        shape: Box<str>,
    },
    /// Strides of different kinds in one layout.
    MixedStrides {
        /// The first stride.
        first: Box<str>,
        /// A stride of another kind.
        other: Box<str>,
    },
    /// The operation needs strides of another kind.
    StrideKind {
        /// The operation.
        operation: &'static str,
        /// The layout.
        layout: Box<str>,
        /// What it needs.
        needs: &'static str,
    },
    /// A basis stride with an empty or too deep path, or a mode index beyond 255.
    BasisPath {
        /// The depth of the path.
        depth: usize,
        /// The mode that does not fit, or 0.
        mode: usize,
    },
    /// An XOR stride times a number that is not a power of two.
    XorScale {
        /// The bits of the stride.
        stride: i64,
        /// The factor.
        factor: i64,
    },
    /// A swizzle whose numbers do not fit.
    Swizzle {
        /// The number of bits.
        bits: i64,
        /// The low bits that stay.
        base: i64,
        /// The shift.
        shift: i64,
        /// Why.
        why: &'static str,
    },
    /// A given integer does not fit 64 bits.
    Integer {
        /// The integer.
        value: Box<str>,
    },
    /// A result does not fit 64 bits.
    Overflow {
        /// The left operand.
        left: i64,
        /// The operator.
        operator: char,
        /// The right operand.
        right: i64,
    },
    /// A division by zero.
    DivideByZero {
        /// The number to divide.
        dividend: i64,
    },
    /// Neither number divides the other.
    NotDivisible {
        /// The operation.
        operation: &'static str,
        /// The first number.
        left: i64,
        /// The second number.
        right: i64,
    },
    /// A mode index beyond the rank.
    Mode {
        /// The index.
        mode: usize,
        /// The number of modes.
        rank: usize,
        /// The tuple or layout.
        of: Box<str>,
    },
    /// A range of modes that is empty or ends beyond the rank.
    Range {
        /// The operation.
        operation: &'static str,
        /// The first mode.
        begin: usize,
        /// One past the last mode.
        end: usize,
        /// The tuple or layout.
        of: Box<str>,
    },
    /// Two operands whose ranks do not fit.
    Rank {
        /// The operation.
        operation: &'static str,
        /// The left operand.
        left: Box<str>,
        /// The right operand.
        right: Box<str>,
        /// What the operation asks for.
        needs: &'static str,
    },
    /// A coordinate that does not fit the shape.
    Coordinate {
        /// The coordinate.
        coord: Box<str>,
        /// The shape.
        shape: Box<str>,
    },
    /// A coordinate beyond the shape.
    OutOfBounds {
        /// The coordinate (or index).
        coord: i64,
        /// The size of the mode it indexes.
        size: i64,
        /// The shape.
        shape: Box<str>,
    },
    /// A question that stays open, because the work for an answer reaches its bound.
    Undecided {
        /// The operation.
        operation: &'static str,
        /// The layout.
        of: Box<str>,
        /// How many steps were taken.
        bound: u64,
    },
    /// A layout whose parentheses nest deeper than the walks over them go.
    Deep {
        /// How deep it nests.
        depth: usize,
        /// How deep it may.
        bound: usize,
    },
    /// A result of more elements than one value holds.
    TooMany {
        /// The operation.
        operation: &'static str,
        /// The layout or shape.
        of: Box<str>,
        /// How many elements it has.
        count: i64,
        /// How many the operation takes.
        bound: i64,
    },
    /// An operand that the operation cannot take, with the reason.
    Operand {
        /// The operation.
        operation: &'static str,
        /// The operand.
        operand: Box<str>,
        /// Why.
        why: Box<str>,
    },
    /// A composition that no layout of the right-hand modes equals, or whose search gave up.
    Composition(Box<crate::CompositionError>),
    /// Values that no layout of the shape has.
    Infer(Box<crate::InferError>),
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Parse { text, at, expected } if text.len() > LONG => {
                let near = excerpt(text, *at);
                let length = text.len();
                write!(
                    f,
                    "expected {expected} at byte {at} of {length}, near {near:?}"
                )
            }
            Self::Parse { text, at, expected } => {
                write!(f, "expected {expected} at byte {at} of {text:?}")
            }
            Self::NotCongruent { shape, stride } => {
                write!(
                    f,
                    "the shape {shape} and the stride {stride} nest differently"
                )
            }
            Self::Extent { extent, shape } => write!(
                f,
                "extent {extent} in the shape {shape}: extents are at least 1"
            ),
            Self::MixedStrides { first, other } => {
                write!(
                    f,
                    "strides {first} and {other} in one layout: all strides add, or all XOR, or all are coordinates"
                )
            }
            Self::StrideKind {
                operation,
                layout,
                needs,
            } => write!(f, "{operation} of {layout} needs {needs}"),
            Self::BasisPath { depth: 0, .. } => {
                write!(f, "a basis stride names at least one mode, as in 1@0")
            }
            Self::BasisPath { depth, mode: 0 } => {
                write!(
                    f,
                    "a basis stride of depth {depth}: the depth is at most {}",
                    crate::MAX_BASIS_DEPTH
                )
            }
            Self::BasisPath { mode, .. } => {
                write!(f, "mode {mode} in a basis stride: modes are at most 255")
            }
            Self::XorScale { stride, factor } => {
                write!(
                    f,
                    "^{stride} times {factor}: an XOR stride scales by powers of two only"
                )
            }
            Self::Swizzle {
                bits,
                base,
                shift,
                why,
            } => write!(f, "Sw<{bits},{base},{shift}>: {why}"),
            Self::Integer { value } => write!(
                f,
                "the integer {value} does not fit 64 bits: integers of tuples lie from {} to {}",
                i64::MIN,
                i64::MAX
            ),
            Self::Overflow {
                left,
                operator,
                right,
            } => write!(f, "{left} {operator} {right} does not fit 64 bits"),
            Self::DivideByZero { dividend } => write!(f, "{dividend} divided by zero"),
            Self::NotDivisible {
                operation,
                left,
                right,
            } => {
                write!(
                    f,
                    "{operation}: neither does {right} divide {left}, nor {left} divide {right}"
                )
            }
            Self::Mode { mode, rank, of } => {
                write!(f, "mode {mode} of {of}, which has rank {rank}")
            }
            Self::Range {
                operation,
                begin,
                end,
                of,
            } if begin >= end => {
                write!(
                    f,
                    "{operation} of modes {begin}..{end} of {of}: the range is empty"
                )
            }
            Self::Range {
                operation,
                begin,
                end,
                of,
            } => {
                write!(
                    f,
                    "{operation} of modes {begin}..{end} of {of}: the range ends beyond the rank"
                )
            }
            Self::Rank {
                operation,
                left,
                right,
                needs,
            } => {
                write!(f, "{operation} of {left} and {right} needs {needs}")
            }
            Self::Coordinate { coord, shape } => {
                write!(f, "the coordinate {coord} does not fit the shape {shape}")
            }
            Self::OutOfBounds { coord, size, shape } => {
                write!(
                    f,
                    "coordinate {coord} is not within 0..{size} in the shape {shape}"
                )
            }
            Self::Undecided {
                operation,
                of,
                bound,
            } => write!(
                f,
                "{operation} of {of} is undecided after {bound} steps, which is its bound"
            ),
            Self::Deep { depth, bound } => write!(
                f,
                "a layout nests {depth} parentheses deep, and the bound is {bound}"
            ),
            Self::TooMany {
                operation,
                of,
                count,
                bound,
            } => write!(
                f,
                "{operation} of {of} has {count} elements, and its bound is {bound}"
            ),
            Self::Operand {
                operation,
                operand,
                why,
            } => write!(f, "{operation} of {operand}: {why}"),
            Self::Composition(e) => e.fmt(f),
            Self::Infer(e) => e.fmt(f),
        }
    }
}

/// The longest text that an error about its syntax repeats whole, in bytes.
const LONG: usize = 200;

/// The text around a byte of it.
fn excerpt(text: &str, at: usize) -> &str {
    let from = text.floor_char_boundary(at.saturating_sub(40));
    let to = text.floor_char_boundary(at.saturating_add(20));
    &text[from..to]
}

impl core::error::Error for Error {}
