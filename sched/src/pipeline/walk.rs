//! One walk with a clock, event by event, with what every slot and every barrier holds in between.

use super::fault::Fault;
use super::plan::Plan;
use super::state::{BarrierState, Content, State};
use super::step::Pipeline;
use super::timeline::{Clock, Durations, Span};

/// Something that happens in a walk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    /// An actor takes a step. A `bar.sync` is two: the arrival, and the passage when the others have arrived.
    Step {
        /// The index of the actor.
        actor: usize,
        /// The index of the step.
        step: usize,
    },
    /// A load lands.
    Landing {
        /// The item.
        item: u16,
        /// The index of the slot.
        slot: usize,
    },
}

/// The walk of [`super::timeline()`], event by event: every step goes as early as its barriers and its actor allow.
///
/// ```
/// use colex_sched::pipeline::{Content, Durations, Event, Walk, WarpSpecialized};
/// let pipeline = WarpSpecialized { consumers: 1, ..WarpSpecialized::cooperative(2, 1, 4) }.build()?;
/// let durations = Durations { load: 4, multiply: 2, epilogue: 1 };
/// let mut walk = Walk::new(&pipeline, durations)?;
/// // The producer finds the first stage empty.
/// assert_eq!(walk.next(), Some(Ok(Event::Step { actor: 0, step: 0 })));
/// assert_eq!((walk.time(), walk.slot(0)), (0, Content::Nothing));
/// let landed = walk.find(|event| matches!(event, Ok(Event::Landing { .. })));
/// assert_eq!(landed, Some(Ok(Event::Landing { item: 0, slot: 0 })));
/// assert_eq!((walk.time(), walk.slot(0)), (4, Content::Full(0, 1)));
/// // The consumer's last step is the last event.
/// let step = pipeline.actors[1].steps.len() - 1;
/// assert_eq!(walk.last(), Some(Ok(Event::Step { actor: 1, step })));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct Walk<'a> {
    plan: Plan<'a>,
    durations: Durations,
    state: State,
    clock: Clock,
    now: u64,
    has_ended: bool,
}

impl<'a> Walk<'a> {
    /// Returns a walk before its first event.
    ///
    /// # Errors
    ///
    /// Returns [`Fault::Malformed`] for a plan that names a slot, barrier or count that does not exist or makes no sense.
    pub fn new(pipeline: &'a Pipeline, durations: Durations) -> Result<Walk<'a>, Fault> {
        let plan = Plan::new(pipeline)?;
        let clock = Clock {
            landing: Vec::new(),
            ready: vec![0; pipeline.actors.len()],
            spans: Vec::new(),
        };
        Ok(Walk {
            state: plan.start(),
            plan,
            durations,
            clock,
            now: 0,
            has_ended: false,
        })
    }

    /// Returns the time of the last event.
    pub fn time(&self) -> u64 {
        self.now
    }

    /// Returns the index of the actor's next step: the number of its steps where it is done.
    ///
    /// # Panics
    ///
    /// Panics if the pipeline has no such actor.
    pub fn step(&self, actor: usize) -> usize {
        assert!(actor < self.plan.pipeline.actors.len(), "no actor {actor}");
        self.plan.at(&self.state, actor)
    }

    /// Returns what the slot holds.
    ///
    /// # Panics
    ///
    /// Panics if the pipeline has no such slot.
    pub fn slot(&self, slot: usize) -> Content {
        assert!(slot < self.plan.pipeline.slots.len(), "no slot {slot}");
        self.plan.slot(&self.state, slot)
    }

    /// Returns the phase of the barrier that is not complete.
    ///
    /// # Panics
    ///
    /// Panics if the pipeline has no such barrier.
    pub fn barrier(&self, barrier: usize) -> BarrierState {
        let count = self.plan.pipeline.barriers.len();
        assert!(barrier < count, "no barrier {barrier}");
        self.plan.barrier(&self.state, barrier)
    }

    /// Returns what the actor's next step waits for, or nothing if the step can be taken or the actor is done.
    ///
    /// # Panics
    ///
    /// Panics if the pipeline has no such actor.
    pub fn waits_for(&self, actor: usize) -> Option<String> {
        let is_done = self.step(actor) == self.plan.pipeline.actors[actor].steps.len();
        let is_free = is_done || self.plan.enabled(&self.state, actor);
        (!is_free).then(|| self.plan.waits_for(&self.state, actor))
    }

    /// Returns what has taken time so far, in the order of the starts.
    pub fn spans(&self) -> &[Span] {
        &self.clock.spans
    }

    pub(super) fn into_spans(self) -> Vec<Span> {
        self.clock.spans
    }

    /// The next event, or none where all actors are done.
    fn happen(&mut self) -> Result<Option<Event>, Fault> {
        let (plan, clock) = (&self.plan, &mut self.clock);
        loop {
            let now = self.now;
            if let Some(at) = clock.landing.iter().position(|(when, _)| *when <= now) {
                let (_, id) = clock.landing.remove(at);
                self.state = plan.land(&self.state, id)?;
                let flight = &plan.flights[usize::from(id)];
                let (item, slot) = (flight.item, flight.slot);
                return Ok(Some(Event::Landing { item, slot }));
            }
            let state = &self.state;
            let ready = |actor: &usize| clock.ready[*actor] <= now && plan.enabled(state, *actor);
            if let Some(actor) = (0..plan.pipeline.actors.len()).find(ready) {
                let next = plan.advance(state, actor)?;
                let taken = plan
                    .step(state, actor)
                    .expect("invariant: an enabled actor has a step");
                let step = plan.at(state, actor);
                let first = plan.first_flight[actor][step];
                clock.run(actor, taken, first, now, &self.durations)?;
                self.state = next;
                return Ok(Some(Event::Step { actor, step }));
            }
            match clock.next_event(now, |actor| plan.enabled(state, actor)) {
                Some(when) => self.now = when,
                None if plan.done(state) => return Ok(None),
                None => return Err(super::check::deadlock(plan, state)),
            }
        }
    }
}

impl Iterator for Walk<'_> {
    type Item = Result<Event, Fault>;

    /// The next event; after a fault there is none.
    fn next(&mut self) -> Option<Self::Item> {
        if self.has_ended {
            return None;
        }
        let event = self.happen().transpose();
        self.has_ended = !matches!(event, Some(Ok(_)));
        event
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Ordering, Step, WarpSpecialized, timeline};
    use super::*;

    const DURATIONS: Durations = Durations {
        load: 5,
        multiply: 2,
        epilogue: 3,
    };

    /// A walk without a fault takes every step once (a `bar.sync` in two events), lands every load once, reads every slot
    /// as often as the plan says, and takes the time of the timeline.
    #[test]
    fn law_a_walk_takes_every_step_and_lands_every_load() {
        let mut walks = 0;
        for stages in 1..5 {
            for (tiles, k_tiles) in [(1, 1), (1, 6), (3, 2), (4, 3)] {
                for plan in [
                    WarpSpecialized::cooperative(stages, tiles, k_tiles),
                    WarpSpecialized::pingpong(stages, tiles, k_tiles),
                    WarpSpecialized {
                        ordering: Ordering::Named,
                        ..WarpSpecialized::pingpong(stages, tiles, k_tiles)
                    },
                    WarpSpecialized {
                        cluster: [2, 1],
                        ..WarpSpecialized::cooperative(stages, tiles, k_tiles)
                    },
                ] {
                    let plan = WarpSpecialized {
                        in_flight: plan.in_flight.min(stages - 1),
                        ..plan
                    };
                    let pipeline = plan.build().expect("the plan is well formed");
                    takes_all(&pipeline);
                    walks += 1;
                }
            }
        }
        println!("law a_walk_takes_every_step_and_lands_every_load: {walks} walks");
    }

    fn takes_all(pipeline: &Pipeline) {
        let mut walk = Walk::new(pipeline, DURATIONS).expect("the plan is well formed");
        let (mut steps, mut landings) = (Vec::new(), Vec::new());
        let mut before = 0;
        while let Some(event) = walk.next() {
            assert!(walk.time() >= before, "time goes forward");
            before = walk.time();
            match event.expect("no fault") {
                Event::Step { actor, step } => steps.push((actor, step)),
                Event::Landing { item, slot } => landings.push((item, slot)),
            }
        }
        let mut all = Vec::new();
        let mut loads = Vec::new();
        for (actor, of) in pipeline.actors.iter().enumerate() {
            assert_eq!(walk.step(actor), of.steps.len());
            assert_eq!(walk.waits_for(actor), None);
            for (at, step) in of.steps.iter().enumerate() {
                let events = if matches!(step, Step::Sync { .. }) {
                    2
                } else {
                    1
                };
                all.extend(std::iter::repeat_n((actor, at), events));
                if let Step::Load { item, to } = step {
                    loads.extend(to.iter().map(|(slot, _)| (*item, *slot)));
                }
            }
        }
        steps.sort_unstable();
        landings.sort_unstable();
        loads.sort_unstable();
        assert_eq!(steps, all);
        assert_eq!(landings, loads);
        for slot in 0..pipeline.slots.len() {
            assert!(matches!(
                walk.slot(slot),
                Content::Nothing | Content::Full(_, 0)
            ));
        }
        assert_eq!(walk.next(), None);
        assert_eq!(timeline(pipeline, &DURATIONS), Ok(walk.into_spans()));
    }

    #[test]
    fn a_walk_ends_with_its_fault() {
        let plan = WarpSpecialized {
            consumers: 1,
            ..WarpSpecialized::cooperative(2, 1, 4)
        };
        let mut pipeline = plan.build().expect("the plan is well formed");
        let empty = pipeline.barriers.iter().position(|b| b.name == "empty[0]");
        pipeline.barriers[empty.expect("it is there")].arrivals = 2;
        let mut walk = Walk::new(&pipeline, DURATIONS).expect("the plan is well formed");
        let fault = walk.find_map(Result::err).expect("it waits for ever");
        assert_eq!(
            fault.to_string(),
            "deadlock: producer waits for empty[0] (1 of 2 arrivals missing) at step 8; \
             consumer 0 waits for full[0] (1 of 1 arrivals missing) at step 7"
        );
        assert_eq!(walk.next(), None);
        assert_eq!(
            walk.waits_for(0).as_deref(),
            Some("empty[0] (1 of 2 arrivals missing)")
        );
    }
}
