//! Why values are those of no layout, as data and as a sentence.

use core::fmt;

use crate::IntTuple;

/// Why no layout of a shape has the given values.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InferError {
    /// The requested shape.
    pub shape: IntTuple,
    /// The first values that contradict each other.
    pub contradiction: Contradiction,
}

/// A value that was seen at a coordinate.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Seen {
    /// The coordinate.
    pub coord: IntTuple,
    /// The value there.
    pub value: i64,
}

/// The first value, in the order of the index, that no layout of the shape has after the values before it.
///
/// Displays as a predicate: `is 3 at 1 and 12 at 2, which makes 15 at 3, but it is 21`.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
#[expect(
    clippy::large_enum_variant,
    reason = "errors hold it in a box of their own"
)]
pub enum Contradiction {
    /// The value at coordinate 0 is not 0.
    Origin {
        /// What is there.
        found: Seen,
    },
    /// The values rise by equal steps up to here, and no mode can end here.
    Run {
        /// The first step.
        step: Seen,
        /// What the steps imply at this coordinate.
        implied: i128,
        /// What is there.
        found: Seen,
        /// The extent at which the mode would have to end.
        extent: i64,
        /// The size of the leaf of the shape, which that extent does not divide.
        size: i64,
    },
    /// Offsets of a layout add; these do not.
    Sum {
        /// The coordinate with the lower digits.
        low: Seen,
        /// The coordinate with the highest digit.
        high: Seen,
        /// What is there.
        found: Seen,
    },
}

impl fmt::Display for Contradiction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Origin { found } => {
                write!(
                    f,
                    "is {} at {}, where every layout is 0",
                    found.value, found.coord
                )
            }
            Self::Run {
                step,
                implied,
                found,
                extent,
                size,
            } => write!(
                f,
                "is {} at {}, which makes {implied} at {}, but it is {}, and no mode can end there, as {extent} does not \
                 divide {size}",
                step.value, step.coord, found.coord, found.value,
            ),
            Self::Sum { low, high, found } => write!(
                f,
                "is {} at {} and {} at {}, which makes {} at {}, but it is {}",
                low.value,
                low.coord,
                high.value,
                high.coord,
                i128::from(low.value) + i128::from(high.value),
                found.coord,
                found.value,
            ),
        }
    }
}

impl fmt::Display for InferError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "no layout of shape {} has these values: it {}",
            self.shape, self.contradiction
        )
    }
}
