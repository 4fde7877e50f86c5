//! One walk with a clock: when each actor loads, waits and multiplies if every step goes as early as it can.

use super::fault::Fault;
use super::step::{Pipeline, Step};
use super::walk::Walk;

/// How long things take, in any unit; steps not named here take no time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Durations {
    /// From the issue of a load until it lands.
    pub load: u64,
    /// A multiply of one actor.
    pub multiply: u64,
    /// An epilogue.
    pub epilogue: u64,
}

/// Something that took time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Span {
    /// The index of the actor.
    pub actor: usize,
    /// `load`, `multiply` or `epilogue`.
    pub what: &'static str,
    /// The item, or the output tile of an epilogue.
    pub item: u16,
    /// The start time.
    pub start: u64,
    /// The end time.
    pub end: u64,
}

/// Walks the pipeline once, every step as early as its barriers and its actor allow; loads of one step land together.
///
/// # Errors
/// The [`Fault`] this one walk meets, and [`Fault::Malformed`] where the clock passes 64 bits. That it meets none proves nothing about the others: see [`super::check()`].
pub fn timeline(pipeline: &Pipeline, durations: &Durations) -> Result<Vec<Span>, Fault> {
    let mut walk = Walk::new(pipeline, *durations)?;
    walk.by_ref().try_for_each(|event| event.map(|_| ()))?;
    Ok(walk.into_spans())
}

/// What happens when: the landings to come, when each actor is free, and what has taken time.
#[derive(Debug)]
pub(super) struct Clock {
    pub(super) landing: Vec<(u64, u16)>,
    pub(super) ready: Vec<u64>,
    pub(super) spans: Vec<Span>,
}

impl Clock {
    /// When the next load lands or the next enabled actor is free again.
    pub(super) fn next_event(&self, now: u64, enabled: impl Fn(usize) -> bool) -> Option<u64> {
        let free = self
            .ready
            .iter()
            .enumerate()
            .filter(|(actor, _)| enabled(*actor))
            .map(|(_, when)| *when);
        free.chain(self.landing.iter().map(|(when, _)| *when))
            .filter(|when| *when > now)
            .min()
    }

    /// Notes what a step begins at `now`; its landings, if it has any, begin at number `first`. A multiply occupies its
    /// actor, which is exact where one is in flight.
    pub(super) fn run(
        &mut self,
        actor: usize,
        step: &Step,
        first: usize,
        now: u64,
        durations: &Durations,
    ) -> Result<(), Fault> {
        let (what, item, long) = match step {
            Step::Load { item, .. } => ("load", *item, durations.load),
            Step::Multiply { item, .. } => ("multiply", *item, durations.multiply),
            Step::Epilogue { tile } => ("epilogue", *tile, durations.epilogue),
            Step::Wait { .. }
            | Step::Arrive { .. }
            | Step::Expect { .. }
            | Step::Commit
            | Step::WaitGroups { .. }
            | Step::Retire { .. }
            | Step::Sync { .. }
            | Step::SyncArrive { .. }
            | Step::Enter { .. }
            | Step::Leave { .. } => return Ok(()),
        };
        let end = now.checked_add(long).ok_or_else(|| Fault::Malformed {
            sentence: "the clock passes 64 bits: shorten the durations".to_string(),
        })?;
        match step {
            Step::Load { to, .. } => self
                .landing
                .extend((first..first + to.len()).map(|id| (end, id as u16))),
            _ => self.ready[actor] = end,
        }
        self.spans.push(Span {
            actor,
            what,
            item,
            start: now,
            end,
        });
        Ok(())
    }
}
