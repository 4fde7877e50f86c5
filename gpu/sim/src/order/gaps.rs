//! Writes of other warps that a view does not have, although it has seen the clocks of those warps after them.

use std::rc::Rc;

use super::clock::{Clock, Epoch};

/// Of each warp of a cluster, the writes that are missing: those after a clock, up to another.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Gaps(Option<Rc<[(u32, u32)]>>);

impl Gaps {
    /// Whether the writes of a step are missing.
    pub(crate) fn contains(&self, step: Epoch) -> bool {
        let gap = self.0.as_ref().and_then(|gaps| gaps.get(step.agent()));
        gap.is_some_and(|(from, to)| *from < step.clock() && step.clock() <= *to)
    }

    fn of(&self, warp: usize) -> (u32, u32) {
        let gap = self.0.as_ref().and_then(|gaps| gaps.get(warp));
        gap.copied().unwrap_or_default()
    }

    fn set(&mut self, gaps: impl Iterator<Item = (u32, u32)>) {
        let gaps: Vec<(u32, u32)> = gaps.collect();
        let has_one = gaps.iter().any(|(from, to)| from < to);
        self.0 = has_one.then(|| gaps.into());
    }

    /// Takes away the writes of each of `warps` warps after a clock and up to another.
    pub(crate) fn open(&mut self, warps: usize, of: impl Fn(usize) -> (u32, u32)) {
        let old = self.clone();
        let gaps = (0..warps).map(|warp| match of(warp) {
            (from, to) if from < to => (from, to),
            _ => old.of(warp),
        });
        self.set(gaps);
    }

    /// Joins those of a view that has seen `seen` with those of another: what one of them has is there.
    pub(crate) fn join(&mut self, seen: &Clock, other: &Gaps, others: &Clock) {
        let warps = match (&self.0, &other.0) {
            (None, None) => return,
            (Some(own), Some(other)) if Rc::ptr_eq(own, other) => return,
            (own, other) => [own, other]
                .into_iter()
                .flatten()
                .map(|gaps| gaps.len())
                .max()
                .unwrap_or(0),
        };
        let old = self.clone();
        let gaps = (0..warps).map(|warp| {
            let own = (old.of(warp), seen.get(warp));
            joined(own, (other.of(warp), others.get(warp)))
        });
        self.set(gaps);
    }
}

/// The gap that two views of a warp leave, each with its gap and the clock that it has seen. If there are two, the later one.
fn joined((a, seen): ((u32, u32), u32), (b, others): ((u32, u32), u32)) -> (u32, u32) {
    let is_empty = |gap: (u32, u32)| gap.0 >= gap.1;
    let beyond = |gap: (u32, u32), seen: u32| (gap.0.max(seen), gap.1);
    let later = [beyond(a, others), beyond(b, seen)];
    let later = later.into_iter().find(|gap| !is_empty(*gap));
    let both = (a.0.max(b.0), a.1.min(b.1));
    match (is_empty(both), later) {
        (true, None) => (0, 0),
        (true, Some(later)) => later,
        (false, None) => both,
        (false, Some(later)) if both.1 == later.0 => (both.0, later.1),
        (false, Some(later)) => later,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A joined view misses what both views miss, or of two such pieces the later one, and no more.
    #[test]
    fn law_a_joined_view_misses_what_both_miss() {
        const MOST: u32 = 5;
        let gaps = || (0..MOST).flat_map(|from| (0..=MOST).map(move |to| (from, to)));
        let views =
            || gaps().flat_map(|gap| (gap.1.max(gap.0)..=MOST).map(move |seen| (gap, seen)));
        let misses = |(gap, seen): ((u32, u32), u32), step: u32| {
            gap.0 < step && step <= gap.1 || step > seen
        };
        let mut cases = 0;
        for a in views() {
            for b in views() {
                let found = (joined(a, b), a.1.max(b.1));
                let missed = |step: &u32| misses(a, *step) && misses(b, *step);
                for step in 1..=MOST {
                    assert!(
                        !misses(found, step) || missed(&step),
                        "{a:?} {b:?}: {found:?}"
                    );
                    cases += 1;
                }
                let last = (1..=found.1).rev().find(missed);
                assert!(
                    last.is_none_or(|last| misses(found, last)),
                    "{a:?} {b:?}: {found:?}"
                );
            }
        }
        println!("law order.gaps: {cases} cases");
    }
}
