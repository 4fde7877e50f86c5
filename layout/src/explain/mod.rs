//! Derivations: how an operation comes to its result, step by step, with the numbers.
//!
//! An [`Explanation`] is a value; its text has one line per step, and its last line is the result or why there is none.
//! The steps are recorded by the very code that computes the result, so no number is told twice.
//!
//! | operation | explained by |
//! |---|---|
//! | [`Layout::composition`] | [`Layout::explain_composition`] |
//! | [`Layout::coalesce`] | [`Layout::explain_coalesce`] |
//! | [`Layout::complement`] | [`Layout::explain_complement`] |
//! | [`Layout::right_inverse`], [`Layout::left_inverse`] | [`Layout::explain_right_inverse`], [`Layout::explain_left_inverse`] |
//! | [`Layout::logical_divide`], [`Layout::logical_product`] | [`Layout::explain_logical_divide`], [`Layout::explain_logical_product`] |

mod composition;
mod divide;
mod inverse;
mod text;

use alloc::boxed::Box;
use alloc::format;
use alloc::vec::Vec;

pub use crate::algebra::complement::Gap;
pub use crate::algebra::composition::{Case, Visit};
pub use crate::algebra::inverse::Pick;
use crate::layout::LeafMode;
pub use crate::layout::coalesce::Join;
use crate::{Error, IntTuple, Layout, Search};

/// A derivation: what is computed, the steps, and the result.
///
/// # Example
///
/// ```
/// use colex_layout::Layout;
/// let layout: Layout = "(2,(1,6)):(1,(6,2))".parse()?;
/// let text = layout.explain_coalesce().to_string();
/// assert_eq!(
///     text,
///     "\
/// coalesce (2,(1,6)):(1,(6,2)), from the last mode to the first
///   6:2  stays
///   1:6  one step only         -> nothing
///   2:1  2*1 = 2 goes on at 2  -> joined with 6:2: 12:1
///   = 12:1
/// ",
/// );
/// # Ok::<(), colex_layout::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Explanation {
    /// The operation and its operands.
    pub title: Box<str>,
    /// The steps, in order.
    pub steps: Vec<Step>,
    /// What the operation returns.
    pub result: Result<Layout, Error>,
}

/// One step of a derivation.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Step {
    /// The operation is defined by this formula, with the operands put in.
    Formula(Box<str>),
    /// A layout on the way to the result, by name.
    Named {
        /// What it is.
        name: &'static str,
        /// The layout.
        layout: Layout,
    },
    /// A leaf of the right-hand side of a composition begins its walk.
    Leaf {
        /// Its place, as `<1,0>`.
        path: Box<str>,
        /// The leaf.
        mode: LeafMode,
    },
    /// A leaf of the right-hand side meets a mode of the left-hand side.
    Visit {
        /// What arrives, and what becomes of it.
        visit: Visit,
        /// The left mode.
        left: LeafMode,
    },
    /// Several leaves put digits of one sign into one left mode, which is not the last: that one has no end.
    Together {
        /// The left mode.
        left: LeafMode,
        /// The largest digit of each.
        digits: Vec<i64>,
    },
    /// Two leaves go up and down through several left modes.
    Signs {
        /// The place of the leaf with a positive stride.
        up: Box<str>,
        /// The place of the leaf with a negative stride.
        down: Box<str>,
    },
    /// The rule of composition refuses, and the values along one leaf are read instead.
    Values {
        /// The leaf's place, as `<1,0>`.
        path: Box<str>,
        /// The values, 16 at most.
        values: Vec<i64>,
        /// Whether there are more.
        more: bool,
        /// The modes with these values.
        found: Layout,
    },
    /// The values of all leaves add up to those of the composition.
    Found {
        /// At how many coordinates.
        size: i64,
    },
    /// The search found nothing.
    Search(Search),
    /// Coalescing comes to a leaf.
    Join(Join),
    /// A complement comes to a mode, or to the target.
    Gap {
        /// The gap.
        gap: Gap,
        /// The target, where the gap leads there.
        target: Option<Box<IntTuple>>,
    },
    /// A right inverse comes to a mode, in the order of strides.
    Right(Pick),
    /// A left inverse comes to a mode, in the order of strides.
    Left {
        /// The mode.
        pick: Pick,
        /// The index at which the mode below it starts, 0 without one: the stride that its extent gets.
        below: i64,
        /// Whether it is the last one: then its own extent follows, at its own index.
        last: bool,
    },
    /// Another operation on the way.
    Within(Box<Explanation>),
}

impl Explanation {
    fn new(title: impl Into<Box<str>>, steps: Vec<Step>, result: Result<Layout, Error>) -> Self {
        Self {
            title: title.into(),
            steps,
            result,
        }
    }

    /// The explanation of an operation whose operand has no value.
    fn refused(title: impl Into<Box<str>>, error: Error) -> Self {
        Self::new(title, Vec::new(), Err(error))
    }
}

impl Step {
    fn within(explanation: Explanation) -> Self {
        Self::Within(Box::new(explanation))
    }
}

impl Layout {
    /// Returns how [`Layout::coalesce`] comes to its result.
    #[must_use]
    pub fn explain_coalesce(&self) -> Explanation {
        let mut steps = Vec::new();
        let note = &mut |join| steps.push(Step::Join(join));
        let flat = crate::layout::coalesce::coalesced_noting(
            self.leaves(),
            crate::layout::coalesce::Tail::Drop,
            note,
        );
        let title = format!("coalesce {self}, from the last mode to the first");
        Explanation::new(title, steps, Ok(crate::layout::coalesce::layout_of(flat)))
    }
}
