//! One walk with a clock: when each actor loads, waits and multiplies if every step goes as early as it can.

use super::fault::Fault;
use super::plan::Plan;
use super::step::{Pipeline, Step};

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
    let plan = Plan::new(pipeline)?;
    let mut clock = Clock {
        landing: Vec::new(),
        ready: vec![0; pipeline.actors.len()],
        spans: Vec::new(),
    };
    let (mut state, mut now) = (plan.start(), 0);
    loop {
        while let Some(at) = clock.landing.iter().position(|(when, _)| *when <= now) {
            let (_, id) = clock.landing.remove(at);
            state = plan.land(&state, id)?;
        }
        let ready = |actor: &usize| clock.ready[*actor] <= now && plan.enabled(&state, *actor);
        if let Some(actor) = (0..pipeline.actors.len()).find(ready) {
            let next = plan.advance(&state, actor)?;
            let step = plan
                .step(&state, actor)
                .expect("invariant: an enabled actor has a step");
            let first = plan.first_flight[actor][plan.at(&state, actor)];
            clock.run(actor, step, first, now, durations)?;
            state = next;
            continue;
        }
        match clock.next_event(now, |actor| plan.enabled(&state, actor)) {
            Some(when) => now = when,
            None if plan.done(&state) => return Ok(clock.spans),
            None => return Err(super::check::deadlock(&plan, &state)),
        }
    }
}

struct Clock {
    landing: Vec<(u64, u16)>,
    ready: Vec<u64>,
    spans: Vec<Span>,
}

impl Clock {
    /// When the next load lands or the next enabled actor is free again.
    fn next_event(&self, now: u64, enabled: impl Fn(usize) -> bool) -> Option<u64> {
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
    fn run(
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
