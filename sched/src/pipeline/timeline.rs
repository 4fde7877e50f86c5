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
    /// The stay in an epilogue section.
    pub epilogue: u64,
}

/// Something that took time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Span {
    /// The index of the actor.
    pub actor: usize,
    /// `load`, `multiply` or `epilogue`.
    pub what: &'static str,
    /// The item, or 0 for an epilogue.
    pub item: u16,
    /// When it began.
    pub start: u64,
    /// When it ended.
    pub end: u64,
}

/// Walks the pipeline once, every step as early as its barriers and its actor allow; loads of one step land together.
///
/// # Errors
/// The [`Fault`] this one walk meets. That it meets none proves nothing about the others: see [`super::check`].
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
            let before = plan.flying(&state);
            let new = plan
                .flying(&next)
                .into_iter()
                .filter(|id| !before.contains(id))
                .collect();
            let step = plan
                .step(&state, actor)
                .expect("invariant: an enabled actor has a step");
            clock.run(actor, step, new, now, durations);
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

    /// Notes what a step begins at `now`. A multiply occupies its actor, which is exact where one is in flight.
    fn run(&mut self, actor: usize, step: &Step, new: Vec<u16>, now: u64, durations: &Durations) {
        let (what, item, long) = match step {
            Step::Load { item, .. } => ("load", *item, durations.load),
            Step::Multiply { item, .. } => ("multiply", *item, durations.multiply),
            Step::Enter { section } if section.contains("epilogue") => {
                ("epilogue", 0, durations.epilogue)
            }
            _ => return,
        };
        self.landing
            .extend(new.into_iter().map(|id| (now + durations.load, id)));
        if what != "load" {
            self.ready[actor] = now + long;
        }
        self.spans.push(Span {
            actor,
            what,
            item,
            start: now,
            end: now + long,
        });
    }
}
