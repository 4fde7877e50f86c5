//! The search that follows a refused composition: complete over the modes of the right-hand side, and bounded.
//!
//! The rule of composition is sound but not complete. A result over the modes of `B` exists exactly when the values
//! `A(B(c))` are those of a layout whose modes refine the leaves of `B`, and that can be read off the values.

use alloc::boxed::Box;
use core::fmt;

use crate::infer::{Inferred, infer};
use crate::{CompositionError, Contradiction, Error, Int, Layout, Stride};

/// How many coordinates of the right-hand side the search looks at before it gives up.
pub const SEARCH_BOUND: i64 = 1 << 16;

/// What the search over the modes of the right-hand side found, where the rule refuses.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Search {
    /// No layout over these modes exists: the first coordinate whose value cannot be right.
    Contradicted(Box<Contradiction>),
    /// The first [`SEARCH_BOUND`] coordinates contradict nothing, and there are more.
    GaveUp {
        /// How many coordinates were looked at.
        bound: i64,
        /// How many there are.
        size: i64,
    },
    /// A value does not fit 64 bits, or is no integer.
    Failed(Error),
    /// There was no search: [`Layout::composition_unchecked`] takes CuTe's rule alone.
    NotTried,
}

impl CompositionError {
    /// The layout that exists all the same, or this error with what the search found.
    pub(crate) fn or_search(mut self: Box<Self>) -> Result<Layout, Error> {
        match search(&self.lhs, &self.rhs) {
            Ok(result) => Ok(result),
            Err(why) => {
                self.search = why;
                Err(Error::Composition(self))
            }
        }
    }
}

/// The layout over the modes of `rhs` that equals `lhs(rhs(c))` at every coordinate.
fn search(lhs: &Layout, rhs: &Layout) -> Result<Layout, Search> {
    integers(lhs).map_err(Search::Failed)?;
    let shape = rhs.shape();
    let value = |i| lhs.at_unbounded(rhs.at_unbounded(i)?);
    let found = infer(&shape, SEARCH_BOUND, value).map_err(Search::Failed)?;
    match found {
        Inferred::Found(modes) => {
            let known = lhs.is_static();
            let like = |leaf: usize, extent: Int| {
                let stride = rhs.leaves()[leaf].stride.coefficient();
                let n = if known && extent.is_static() && stride.is_static() {
                    Int::Static(0)
                } else {
                    Int::Dynamic(0)
                };
                (n, n)
            };
            Ok(Layout(modes.over(&shape, like)))
        }
        Inferred::Contradicted(why) => Err(Search::Contradicted(why)),
        Inferred::GaveUp => Err(Search::GaveUp {
            bound: SEARCH_BOUND,
            size: rhs.size(),
        }),
    }
}

/// Offsets add only where strides are integers.
fn integers(lhs: &Layout) -> Result<(), Error> {
    let other = |l: &&crate::LeafMode| !matches!(l.stride, Stride::Int(_));
    match lhs.leaves().iter().find(other) {
        None => Ok(()),
        Some(_) => Err(Error::StrideKind {
            operation: "the search for a composition",
            layout: lhs.text(),
            needs: "integer strides on the left",
        }),
    }
}

impl fmt::Display for Search {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Contradicted(why) => write!(f, "A(B(c)) {why}"),
            Self::GaveUp { bound, size } => write!(
                f,
                "the search for another gave up after {bound} of {size} coordinates"
            ),
            Self::Failed(e) => write!(f, "the search for another failed: {e}"),
            Self::NotTried => f.write_str("nothing else was tried"),
        }
    }
}
