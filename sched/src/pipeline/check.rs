//! The checker: every interleaving that the barriers allow, or one for all that differ only in the order of steps that
//! commute.

use super::ahead::{Ahead, Held};
use super::fault::{Blocked, Fault};
use super::plan::Plan;
use super::state::State;
use super::step::Pipeline;
use std::collections::HashSet;
use std::hash::{BuildHasherDefault, Hasher};

/// The size of a check that found no fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Report {
    /// The number of distinct states that the check visited.
    pub states: usize,
    /// The number of transitions between them: steps of actors, and landings.
    pub transitions: usize,
}

/// A fast, non-cryptographic hash for the visited-state set.
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

/// The states [`check`] walks before it gives up.
const MOST_STATES: usize = 50_000;
/// The states in which it then looks for the fault that the fewest steps lead to.
const NEARBY_STATES: usize = 50_000;
/// The steps that all lookaheads of a walk see together.
const MOST_LOOKS: usize = 50_000_000;
/// The bytes of the states that are held at once: those at the end of paths of one length, and of the next.
const MOST_BYTES: usize = 1 << 29;
/// The bytes of all states that the short walk makes, and of all that the search for the nearest fault makes.
const MOST_MADE: [usize; 2] = [1 << 29, 1 << 27];

/// Checks every interleaving of the actors' steps and the loads' landings. A landing is the arrival of the data of an
/// asynchronous load.
///
/// Steps that commute are walked in one order only, so the walk is short where actors seldom meet: the states of the
/// [`Report`] are those it needed. [`check_exhaustively`] gives the same verdict and walks them all.
///
/// # Errors
///
/// A [`Fault`]: the one that the fewest steps lead to, if it is among the first 50,000 states of the full walk, and
/// otherwise the first that the short walk meets. [`Fault::TooManyStates`] beyond 50,000 states.
pub fn check(pipeline: &Pipeline) -> Result<Report, Fault> {
    check_within(pipeline, MOST_STATES)
}

/// Returns the same as [`check`], giving up after `limit` states.
///
/// # Errors
///
/// Returns the errors of [`check`]; the fault is [`Fault::TooManyStates`] beyond `limit` states.
pub fn check_within(pipeline: &Pipeline, limit: usize) -> Result<Report, Fault> {
    let plan = Plan::new(pipeline)?;
    let [short, nearby] = MOST_MADE;
    let found = walk(&plan, limit, short, Some(Ahead::new(&plan, MOST_LOOKS)));
    match found {
        Ok(_) | Err(Fault::TooManyStates { .. }) => found,
        Err(_) => match walk(&plan, limit.min(NEARBY_STATES), nearby, None) {
            Err(Fault::TooManyStates { .. }) | Ok(_) => found,
            nearest => nearest,
        },
    }
}

/// Returns the same as [`check_within`], through every interleaving: nothing is left out.
///
/// # Errors
///
/// The [`Fault`] that the fewest steps lead to, or [`Fault::TooManyStates`].
pub fn check_exhaustively(pipeline: &Pipeline, limit: usize) -> Result<Report, Fault> {
    walk(&Plan::new(pipeline)?, limit, usize::MAX, None)
}

/// Walks from the start, all paths of one length after those of the length before.
///
/// Every path to a state has the same length, the number of steps and landings in it, so a state met twice is met among
/// paths of one length, and no older states need to be kept. Gives up beyond `limit` states, beyond `most_made` bytes
/// of states made, and where the states at hand do not fit the memory of a walk.
fn walk(
    plan: &Plan<'_>,
    limit: usize,
    most_made: usize,
    mut ahead: Option<Ahead<'_, '_>>,
) -> Result<Report, Fault> {
    let mut frontier = vec![plan.start()];
    let mut report = Report {
        states: 1,
        transitions: 0,
    };
    while !frontier.is_empty() {
        let mut seen: HashSet<State, BuildHasherDefault<Mix>> = HashSet::default();
        let mut next = Vec::new();
        for state in &frontier {
            let after = successors(plan, state, ahead.as_mut())?;
            if after.is_empty() && !plan.done(state) {
                return Err(deadlock(plan, state));
            }
            report.transitions += after.len();

            for state in after {
                if seen.insert(state.clone()) {
                    next.push(state);
                }
            }
            let states = report.states + next.len();
            let made = report.transitions.saturating_mul(state.bytes());
            let held = (frontier.len() + 2 * next.len()).saturating_mul(state.bytes());
            if states > limit || held > MOST_BYTES || made > most_made {
                return Err(Fault::TooManyStates {
                    limit: limit.min(states - 1),
                });
            }
        }
        report.states += next.len();
        frontier = next;
    }
    Ok(report)
}

/// The states after every transition that is enabled; after one alone, where that one stands for all.
fn successors(
    plan: &Plan<'_>,
    s: &State,
    mut ahead: Option<&mut Ahead<'_, '_>>,
) -> Result<Vec<State>, Fault> {
    let flying = plan.flying(s);
    // The one that last stood alone goes first: what comes next in its program is the likeliest to do so again.
    let (count, first) = (
        plan.pipeline.actors.len(),
        ahead.as_ref().map_or(0, |a| a.last),
    );
    let actors = (first..count).chain(0..first);
    let held = actors
        .filter(|actor| plan.enabled(s, *actor))
        .map(Held::Actor);
    let held = held.chain(flying.iter().copied().map(Held::Landing));
    let mut after = Vec::new();
    for held in held {
        let next = match held {
            Held::Actor(actor) => plan.advance(s, actor)?,
            Held::Landing(id) => plan.land(s, id)?,
        };
        if let Some(ahead) = &mut ahead
            && ahead.is_alone(s, held, &flying)
        {
            return Ok(vec![next]);
        }
        after.push(next);
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
