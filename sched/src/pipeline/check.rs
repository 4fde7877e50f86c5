//! The checker: every interleaving that the barriers allow, nearest faults first.

use super::fault::{Blocked, Fault};
use super::plan::Plan;
use super::state::State;
use super::step::Pipeline;
use std::collections::{HashSet, VecDeque};
use std::hash::{BuildHasherDefault, Hasher};

/// What a check without a fault walked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Report {
    /// Distinct states.
    pub states: usize,
    /// Steps and landings between them.
    pub transitions: usize,
}

/// A hash for states: they are many, small, and nobody's enemy.
#[derive(Clone, Copy, Default)]
struct Mix(u64);

impl Hasher for Mix {
    fn write(&mut self, bytes: &[u8]) {
        for chunk in bytes.chunks(8) {
            let mut word = [0; 8];
            word[..chunk.len()].copy_from_slice(chunk);
            let mixed = self.0.rotate_left(5) ^ u64::from_le_bytes(word);
            self.0 = mixed.wrapping_mul(0x9e37_79b9_7f4a_7c15);
        }
    }

    fn finish(&self) -> u64 {
        self.0 ^ self.0 >> 32
    }
}

/// The states [`check`] tries before it gives up.
const MOST_STATES: usize = 4_000_000;

/// Walks a pipeline through every interleaving of its actors' steps and its loads' landings.
///
/// # Errors
/// The [`Fault`] that the fewest steps lead to.
pub fn check(pipeline: &Pipeline) -> Result<Report, Fault> {
    check_within(pipeline, MOST_STATES)
}

/// As [`check`], giving up after `limit` states.
///
/// # Errors
/// The nearest [`Fault`], or [`Fault::TooManyStates`].
pub fn check_within(pipeline: &Pipeline, limit: usize) -> Result<Report, Fault> {
    let plan = Plan::new(pipeline)?;
    let start = plan.start();
    let mut seen: HashSet<State, BuildHasherDefault<Mix>> = HashSet::default();
    seen.insert(start.clone());
    let mut queue = VecDeque::from([start]);
    let mut transitions = 0;
    while let Some(state) = queue.pop_front() {
        let after = successors(&plan, &state)?;
        if after.is_empty() && !plan.done(&state) {
            return Err(deadlock(&plan, &state));
        }
        transitions += after.len();
        for next in after {
            if !seen.contains(&next) {
                seen.insert(next.clone());
                queue.push_back(next);
            }
        }
        if seen.len() > limit {
            return Err(Fault::TooManyStates { limit });
        }
    }
    Ok(Report {
        states: seen.len(),
        transitions,
    })
}

fn successors(plan: &Plan<'_>, s: &State) -> Result<Vec<State>, Fault> {
    let actors = (0..plan.pipeline.actors.len()).filter(|actor| plan.enabled(s, *actor));
    let mut after = actors
        .map(|actor| plan.advance(s, actor))
        .collect::<Result<Vec<_>, _>>()?;
    for id in plan.flying(s) {
        after.push(plan.land(s, id)?);
    }
    Ok(after)
}

pub(super) fn deadlock(plan: &Plan<'_>, s: &State) -> Fault {
    let unfinished = (0..plan.pipeline.actors.len()).filter(|actor| plan.step(s, *actor).is_some());
    let blocked = unfinished.map(|actor| {
        let (name, step) = plan.place(s, actor);
        Blocked {
            actor: name,
            step,
            waits_for: plan.waits_for(s, actor),
        }
    });
    Fault::Deadlock {
        blocked: blocked.collect(),
    }
}
