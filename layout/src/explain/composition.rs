//! The walk of composition, and the search after it, as steps.

use alloc::boxed::Box;
use alloc::format;
use alloc::string::ToString;
use alloc::vec::Vec;

use super::{Case, Explanation, Step, Visit};
use crate::algebra::composition::{Check, walk};
use crate::error::composition::LeafPath;
use crate::layout::LayoutView;
use crate::layout::coalesce::{self, Flat, Tail, coalesced, layout_of};
use crate::{CompositionError, Error, IntoLayout, Layout, Refusal};

/// How many values of a leaf are shown.
const SHOWN: i64 = 16;

impl Layout {
    /// Returns how [`Layout::composition`] comes to its result, or at which step it is refused.
    ///
    /// # Example
    ///
    /// ```
    /// use colex_layout::Layout;
    /// let (a, b): (Layout, Layout) = ("(6,2):(8,2)".parse()?, "(4,3):(3,1)".parse()?);
    /// let explanation = a.explain_composition(&b);
    /// assert_eq!(explanation.result, a.composition(&b));
    /// assert_eq!(
    ///     explanation.to_string(),
    ///     "\
    /// A o B with A = (6,2):(8,2) and B = (4,3):(3,1)
    ///   mode <0> of B, 4:3
    ///     at 6:8  4 steps of 3  6/3 = 2 of them fill 6, and 2 divides 4  -> 2:3*8 = 2:24
    ///     at 2:2  2 steps of 1  the last mode takes them                 -> 2:1*2 = 2:2
    ///   mode <1> of B, 3:1
    ///     at 6:8  3 steps of 1  (3-1)*1 = 2 stays below 6                -> 3:1*8 = 3:8
    ///   together
    ///     at 6:8  3 + 2 = 5     stays below 6
    ///   = ((2,2),3):((24,2),8)
    /// ",
    /// );
    /// # Ok::<(), colex_layout::Error>(())
    /// ```
    #[must_use]
    pub fn explain_composition(&self, inner: impl IntoLayout) -> Explanation {
        match inner.into_layout() {
            Ok(inner) => self.composition_steps(&inner),
            Err(e) => Explanation::refused(alloc::format!("A o B with A = {self}"), e),
        }
    }

    fn composition_steps(&self, inner: &Self) -> Explanation {
        let flat = coalesced(self.leaves(), Tail::Continue);
        let mut steps = Vec::new();
        let shown = coalesce::walked(self);
        if shown[..] != *self.leaves() {
            steps.push(Step::Named {
                name: "A coalesced",
                layout: layout_of(shown.clone()),
            });
        }
        let paths: Vec<Box<str>> = LeafPath::of_leaves(inner.view())
            .map(|path| path.to_string().into())
            .collect();
        let mut visits = Vec::new();
        let ruled = walk(self, &flat, inner, Check::Sound, &mut |v| visits.push(v));
        walked(&shown, inner, &paths, &visits, &mut steps);
        if visits.iter().all(|v| v.case != Case::Carries) {
            together(&shown, &visits, &mut steps);
        }
        let result = ruled.or_else(|error| {
            let refused = error.into_composition()?;
            signs(&refused, &paths, &mut steps);
            let result = refused.or_search();
            searched(self, inner, &paths, &result, &mut steps);
            result
        });
        let title = format!("A o B with A = {self} and B = {inner}");
        Explanation::new(title, steps, result)
    }
}

/// Each leaf and its visits.
fn walked(flat: &Flat, rhs: &Layout, paths: &[Box<str>], visits: &[Visit], steps: &mut Vec<Step>) {
    let mut last = None;
    for &visit in visits {
        if last != Some(visit.leaf) {
            last = Some(visit.leaf);
            steps.push(Step::Leaf {
                path: paths[visit.leaf].clone(),
                mode: rhs.leaves()[visit.leaf],
            });
        }
        steps.push(Step::Visit {
            visit,
            left: flat[visit.left_mode],
        });
    }
}

/// The left modes in which several leaves meet.
fn together(flat: &Flat, visits: &[Visit], steps: &mut Vec<Step>) {
    let mut digits = alloc::vec![[Vec::new(), Vec::new()]; flat.len()];
    for visit in visits {
        if let Some(digit) = visit.digit() {
            digits[visit.left_mode][usize::from(digit <= 0)].push(digit);
        }
    }
    digits.pop();
    for (left, signs) in flat.iter().zip(digits) {
        for digits in signs.into_iter().filter(|d| d.len() > 1) {
            steps.push(Step::Together {
                left: *left,
                digits,
            });
        }
    }
}

/// Strides of both signs.
fn signs(refused: &CompositionError, paths: &[Box<str>], steps: &mut Vec<Step>) {
    if let Refusal::Signs { up, down } = refused.reason {
        steps.push(Step::Signs {
            up: paths[up].clone(),
            down: paths[down].clone(),
        });
    }
}

/// What the search found.
fn searched(
    lhs: &Layout,
    rhs: &Layout,
    paths: &[Box<str>],
    result: &Result<Layout, Error>,
    steps: &mut Vec<Step>,
) {
    match result {
        Err(error) => {
            let refused = error.composition();
            steps.extend(refused.map(|refused| Step::Search(refused.search.clone())));
        }
        Ok(found) => {
            let mut modes = Vec::new();
            at_leaves(rhs.view(), found.view(), &mut modes);
            let leaves = rhs.leaves().iter().zip(modes).zip(paths);
            for ((mode, found), path) in leaves {
                // All other coordinates are 0.
                let stride = mode.stride.coefficient().value();
                let along = (0..mode.size().min(SHOWN)).map(|c| lhs.at_unbounded(c * stride));
                let values = along.collect::<Result<_, Error>>();
                steps.push(Step::Values {
                    path: path.clone(),
                    values: values.expect("the search read these values"),
                    more: mode.size() > SHOWN,
                    found,
                });
            }
            steps.push(Step::Found { size: rhs.size() });
        }
    }
}

/// The parts of `found` that stand at the leaves of `rhs`, whose modes it refines.
fn at_leaves(rhs: LayoutView<'_>, found: LayoutView<'_>, out: &mut Vec<Layout>) {
    if rhs.is_leaf() {
        out.push(Layout(found.to_tuple()));
        return;
    }
    let modes = rhs.modes().zip(found.modes());
    modes.for_each(|(rhs, found)| at_leaves(rhs, found, out));
}

impl Visit {
    /// The largest digit that the steps put into the left mode.
    fn digit(&self) -> Option<i64> {
        let piece = self
            .piece
            .filter(|p| self.case != Case::Broadcast && p.size() > 1)?;
        Some((piece.size() - 1).saturating_mul(self.stride))
    }
}
