//! A pipeline with what can be read off it once, before it is walked.

use super::fault::Fault;
use super::step::{Actor, Pipeline, Step};
use std::cmp::Reverse;
use std::collections::{HashMap, HashSet};

/// A pipeline, its landings, and running counts of its steps.
#[derive(Debug)]
pub(super) struct Plan<'a> {
    pub(super) pipeline: &'a Pipeline,
    /// Every landing of every load.
    pub(super) flights: Vec<Flight>,
    /// The first of `flights` of the load at `[actor][step]`.
    pub(super) first_flight: Vec<Vec<usize>>,
    /// Multiplies before `[actor][step]`.
    pub(super) multiplies: Vec<Vec<u16>>,
    /// The item and the slots of each multiply of each actor.
    pub(super) multiplied: Vec<Vec<(u16, &'a [usize])>>,
    /// Commits before `[actor][step]`.
    pub(super) commits: Vec<Vec<u16>>,
    /// The sections, by block and name.
    pub(super) sections: Vec<(usize, &'static str)>,
    /// The actors of each block that has any.
    pub(super) crews: HashMap<usize, Vec<usize>>,
    /// Barriers that count loads.
    pub(super) counts_loads: Vec<bool>,
    /// Barriers that some actor syncs on.
    pub(super) is_synced: Vec<bool>,
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

impl Flight {
    /// Whether a wait of `actor` for all but the last `pending` of its `committed` groups waits for this landing.
    pub(super) fn is_awaited(&self, actor: usize, pending: u16, committed: u16) -> bool {
        self.actor == actor && u32::from(self.group) + u32::from(pending) < u32::from(committed)
    }
}

/// Where each kind of word of a state begins.
#[derive(Clone, Copy, Debug, Default)]
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
            multiplied: Vec::new(),
            commits: Vec::new(),
            sections: sections(pipeline),
            crews: HashMap::new(),
            counts_loads: vec![false; pipeline.barriers.len()],
            is_synced: vec![false; pipeline.barriers.len()],
            offsets: Offsets::default(),
        };
        let readers = readers(pipeline);
        for actor in 0..pipeline.actors.len() {
            plan.count(actor, &readers);
        }
        plan.offsets = plan.lay_out();
        Ok(plan)
    }

    fn count(&mut self, actor: usize, readers: &Readers) {
        let pipeline = self.pipeline;
        let Actor { block, steps, .. } = &pipeline.actors[actor];
        self.crews.entry(*block).or_default().push(actor);
        let (mut first, mut multiplies, mut commits) = (Vec::new(), vec![0u16], vec![0u16]);
        let mut multiplied = Vec::new();
        for (i, step) in steps.iter().enumerate() {
            first.push(self.flights.len());
            let (mut begun, mut committed) = (multiplies[i], commits[i]);
            match step {
                Step::Load { item, to } => {
                    self.add_flights(actor, *item, to, committed, readers);
                }
                Step::Multiply { item, slots } => {
                    multiplied.push((*item, slots.as_slice()));
                    begun += 1;
                }
                Step::Commit => committed += 1,
                Step::Expect { barrier, loads } => {
                    self.counts_loads[*barrier] |= *loads > 0;
                }
                Step::Sync { barrier } => self.is_synced[*barrier] = true,
                Step::Wait { .. }
                | Step::Arrive { .. }
                | Step::WaitGroups { .. }
                | Step::Retire { .. }
                | Step::Epilogue { .. }
                | Step::SyncArrive { .. }
                | Step::Enter { .. }
                | Step::Leave { .. } => {}
            }
            multiplies.push(begun);
            commits.push(committed);
        }
        self.first_flight.push(first);
        self.multiplies.push(multiplies);
        self.multiplied.push(multiplied);
        self.commits.push(commits);
    }

    fn add_flights(
        &mut self,
        actor: usize,
        item: u16,
        to: &[(usize, Option<usize>)],
        group: u16,
        readers: &Readers,
    ) {
        for &(slot, barrier) in to {
            if let Some(barrier) = barrier {
                self.counts_loads[barrier] = true;
            }
            self.flights.push(Flight {
                actor,
                item,
                slot,
                barrier,
                group,
                reads: readers.get(&(item, slot)).map_or(0, |reads| {
                    u16::try_from(*reads).expect("invariant: a well-formed plan has at most 65533")
                }),
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

/// How often each item is read from each slot.
type Readers = HashMap<(u16, usize), usize>;

/// The item and the slot that are read most often; the least of them if there are several.
fn most_read(p: &Pipeline) -> Option<((u16, usize), usize)> {
    let readers = readers(p).into_iter();
    readers.max_by_key(|(part, reads)| (*reads, Reverse(*part)))
}

fn readers(p: &Pipeline) -> Readers {
    let mut readers = Readers::new();
    for step in p.actors.iter().flat_map(|a| &a.steps) {
        if let Step::Multiply { item, slots } = step {
            for slot in slots {
                *readers.entry((*item, *slot)).or_default() += 1;
            }
        }
    }
    readers
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

/// The most actors, and the most steps of all actors together, a load counted once for each slot it fills.
pub(super) const MOST_STEPS: usize = 1 << 14;
/// The most slots that all multiplies together read.
pub(super) const MOST_PARTS: usize = 1 << 17;
/// The most reads of one item from one slot: a word of a state counts them and two more values.
pub(super) const MOST_READS: usize = u16::MAX as usize - 2;
/// The most slots, and the most barriers.
pub(super) const MOST_WORDS: usize = 1 << 15;

/// Refuses indices that lead nowhere and counts too large for a state, so that the walk need not look again.
fn well_formed(p: &Pipeline) -> Result<(), Fault> {
    let wrong = |sentence: String| Err(Fault::Malformed { sentence });
    let steps = || p.actors.iter().flat_map(|a| &a.steps);
    let read = |step: &Step| match step {
        Step::Multiply { slots, .. } => slots.len(),
        _ => 0,
    };
    for (what, count, most) in [
        ("actors", p.actors.len(), MOST_STEPS),
        ("slots", p.slots.len(), MOST_WORDS),
        ("barriers", p.barriers.len(), MOST_WORDS),
        ("steps", steps().map(landings).sum(), MOST_STEPS),
        ("reads of slots", steps().map(read).sum(), MOST_PARTS),
    ] {
        if count > most {
            return wrong(format!("the plan has more than {most} {what}"));
        }
    }
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
    let manned: HashSet<usize> = p.actors.iter().map(|a| a.block).collect();
    let slots = p.slots.iter().map(|s| (&s.name, s.block));
    let mut parts = slots.chain(p.barriers.iter().map(|b| (&b.name, b.block)));
    if let Some((name, block)) = parts.find(|(_, block)| !manned.contains(block)) {
        return wrong(format!(
            "{name} belongs to block {block}, which has no actor"
        ));
    }
    let mut expected = vec![0usize; p.barriers.len()];
    for actor in &p.actors {
        for (i, step) in actor.steps.iter().enumerate() {
            if !names_what_exists(p, step) {
                return wrong(format!(
                    "{}, step {i}: {} names what does not exist",
                    actor.name,
                    p.describe(step)
                ));
            }
            if let Step::Wait { parity, .. } = step
                && *parity > 1
            {
                return wrong(format!(
                    "{}, step {i}: {}, and a parity is 0 or 1",
                    actor.name,
                    p.describe(step)
                ));
            }
            if let Step::Expect { barrier, loads } = step {
                expected[*barrier] += usize::from(*loads);
            }
        }
    }
    if let Some(((item, slot), reads)) = most_read(p)
        && reads > MOST_READS
    {
        return wrong(format!(
            "{reads} reads of item {item} from {}: it can be at most {MOST_READS}",
            p.slots[slot].name
        ));
    }
    match expected.iter().position(|loads| *loads > MOST_STEPS) {
        None => Ok(()),
        Some(barrier) => wrong(format!(
            "{} is told to expect {} loads in all: it can be at most {MOST_STEPS}",
            p.barriers[barrier].name, expected[barrier]
        )),
    }
}

/// What a step adds to the size of a state.
fn landings(step: &Step) -> usize {
    if let Step::Load { to, .. } = step {
        to.len().max(1)
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
        Step::Commit
        | Step::WaitGroups { .. }
        | Step::Retire { .. }
        | Step::Epilogue { .. }
        | Step::Enter { .. }
        | Step::Leave { .. } => true,
    }
}
