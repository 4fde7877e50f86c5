//! A pipeline with what can be read off it once, before it is walked.

use super::fault::Fault;
use super::step::{Pipeline, Step};

/// A pipeline, its landings, and running counts of its steps.
pub(super) struct Plan<'a> {
    pub(super) pipeline: &'a Pipeline,
    /// Every landing of every load.
    pub(super) flights: Vec<Flight>,
    /// The first of `flights` of the load at `[actor][step]`.
    pub(super) first_flight: Vec<Vec<usize>>,
    /// Multiplies before `[actor][step]`.
    pub(super) multiplies: Vec<Vec<u16>>,
    /// Commits before `[actor][step]`.
    pub(super) commits: Vec<Vec<u16>>,
    /// The sections, by block and name.
    pub(super) sections: Vec<(usize, &'static str)>,
    pub(super) offsets: Offsets,
}

/// One landing of a load.
#[derive(Clone, Copy, Debug)]
pub(super) struct Flight {
    pub(super) actor: usize,
    pub(super) item: u16,
    pub(super) slot: usize,
    pub(super) barrier: Option<usize>,
    /// The `cp.async` group, counted from the actor's start.
    pub(super) group: u16,
    /// How many multiplies read what lands here.
    pub(super) reads: u16,
}

/// Where each kind of word of a state begins.
#[derive(Clone, Copy, Default)]
pub(super) struct Offsets {
    pub(super) actors: usize,
    pub(super) slots: usize,
    pub(super) barriers: usize,
    pub(super) sections: usize,
    pub(super) flying: usize,
    pub(super) end: usize,
}

impl<'a> Plan<'a> {
    pub(super) fn new(pipeline: &'a Pipeline) -> Result<Plan<'a>, Fault> {
        well_formed(pipeline)?;
        let mut plan = Plan {
            pipeline,
            flights: Vec::new(),
            first_flight: Vec::new(),
            multiplies: Vec::new(),
            commits: Vec::new(),
            sections: sections(pipeline),
            offsets: Offsets::default(),
        };
        for actor in 0..pipeline.actors.len() {
            plan.count(actor);
        }
        plan.offsets = plan.lay_out();
        Ok(plan)
    }

    fn count(&mut self, actor: usize) {
        let (mut first, mut multiplies, mut commits) = (Vec::new(), vec![0u16], vec![0u16]);
        for (i, step) in self.pipeline.actors[actor].steps.iter().enumerate() {
            first.push(self.flights.len());
            self.add_flights(actor, step, commits[i]);
            multiplies.push(multiplies[i] + u16::from(matches!(step, Step::Multiply { .. })));
            commits.push(commits[i] + u16::from(matches!(step, Step::Commit)));
        }
        self.first_flight.push(first);
        self.multiplies.push(multiplies);
        self.commits.push(commits);
    }

    fn add_flights(&mut self, actor: usize, step: &Step, group: u16) {
        let Step::Load { item, to } = step else {
            return;
        };
        for &(slot, barrier) in to {
            let all = self.pipeline.actors.iter().flat_map(|a| &a.steps);
            let reads = all.filter(|step| reads(step, *item, slot)).count() as u16;
            self.flights.push(Flight {
                actor,
                item: *item,
                slot,
                barrier,
                group,
                reads,
            });
        }
    }

    fn lay_out(&self) -> Offsets {
        let p = self.pipeline;
        let slots = 3 * p.actors.len();
        let barriers = slots + 2 * p.slots.len();
        let sections = barriers + 2 * p.barriers.len();
        let flying = sections + self.sections.len();
        let end = flying + self.flights.len().div_ceil(16);
        Offsets {
            actors: p.actors.len(),
            slots,
            barriers,
            sections,
            flying,
            end,
        }
    }
}

fn reads(step: &Step, wanted: u16, slot: usize) -> bool {
    matches!(step, Step::Multiply { item, slots } if *item == wanted && slots.contains(&slot))
}

/// The sections the plan names; each block has its own.
fn sections(p: &Pipeline) -> Vec<(usize, &'static str)> {
    let of = |block: usize, step: &Step| match step {
        Step::Enter { section } | Step::Leave { section } => Some((block, *section)),
        _ => None,
    };
    let all = p
        .actors
        .iter()
        .flat_map(|a| a.steps.iter().filter_map(move |step| of(a.block, step)));
    let mut names: Vec<_> = all.collect();
    names.sort_unstable();
    names.dedup();
    names
}

/// Refuses indices that lead nowhere and counts too large for a state, so that the walk need not look again.
fn well_formed(p: &Pipeline) -> Result<(), Fault> {
    let wrong = |sentence: String| Err(Fault::Malformed { sentence });
    if let Some(b) = p
        .barriers
        .iter()
        .find(|b| b.arrivals == 0 || b.arrivals > 1 << 14)
    {
        return wrong(format!(
            "{} completes after {} arrivals: it must be 1 to 16384",
            b.name, b.arrivals
        ));
    }
    if p.actors
        .iter()
        .flat_map(|a| &a.steps)
        .map(landings)
        .sum::<usize>()
        > 1 << 14
    {
        return wrong("the plan has more than 16384 steps".to_string());
    }
    for actor in &p.actors {
        for (i, step) in actor.steps.iter().enumerate() {
            if !names_what_exists(p, step) {
                return wrong(format!(
                    "{}, step {i}: {} names what does not exist",
                    actor.name,
                    p.describe(step)
                ));
            }
        }
    }
    Ok(())
}

/// What a step adds to the size of a state.
fn landings(step: &Step) -> usize {
    if let Step::Load { to, .. } = step {
        to.len()
    } else {
        1
    }
}

fn names_what_exists(p: &Pipeline, step: &Step) -> bool {
    let (is_slot, is_barrier) = (
        |s: usize| s < p.slots.len(),
        |b: usize| b < p.barriers.len(),
    );
    match step {
        Step::Wait { barrier, .. }
        | Step::Arrive { barrier }
        | Step::Expect { barrier, .. }
        | Step::Sync { barrier }
        | Step::SyncArrive { barrier } => is_barrier(*barrier),
        Step::Load { to, .. } => to
            .iter()
            .all(|(s, b)| is_slot(*s) && b.is_none_or(is_barrier)),
        Step::Multiply { slots, .. } => slots.iter().all(|s| is_slot(*s)),
        _ => true,
    }
}
