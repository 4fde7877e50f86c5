//! What the others may do while one is held back: which step may be taken first without losing a fault.
//!
//! A walk through all interleavings takes every step that is enabled in every state. Most of them commute, and then one
//! order stands for all. If the step `t` commutes with everything that can happen before `t` itself, then everything that can
//! happen without `t` can also happen after it, so the walk takes `t` alone (a persistent set of one transition: Godefroid
//! 1996, "Partial-Order Methods for the Verification of Concurrent Systems", chapter 4). No state occurs twice on a path,
//! since steps and landings only become more, so no fault is put off for ever: the reduced walk finds a fault or a deadlock
//! exactly where the full one does.
//!
//! What can happen before `t` is over-estimated. The actor of `t` stands still, and the others go as far as their waits let
//! them if as many phases of each barrier complete as there are arrivals and landings for among the steps they can reach.

use super::plan::{Flight, Plan};
use super::state::State;
use super::step::Step;

/// The transition that is to be taken alone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Held {
    /// The next step of an actor.
    Actor(usize),
    /// A landing, by number.
    Landing(u16),
}

/// What may happen to one barrier.
#[derive(Clone, Debug, Default)]
struct Visits {
    /// Arrivals.
    arrivals: u32,
    /// Each arrival: the actor, and how much of its `passed` it then had behind it.
    by: Vec<(usize, usize)>,
    /// The fewest loads that one of them expects.
    fewest: u16,
    /// Landings.
    landings: u32,
    /// Phases that may complete, at most.
    phases: u32,
}

impl Visits {
    fn clear(&mut self) {
        self.by.clear();
        let by = std::mem::take(&mut self.by);
        *self = Visits {
            by,
            ..Visits::default()
        };
    }

    /// Whether its parity may change.
    fn may_flip(&self) -> bool {
        self.phases > 0
    }
}

/// The actors that wait at a barrier among the steps that may happen.
enum Waits {
    None,
    /// Every actor that waits there arrives there afterwards.
    BeforeArrivals,
    /// Some actor may wait there last.
    Open,
}

/// The steps and landings that may happen while one of them is held back.
pub(super) struct Ahead<'p, 'a> {
    plan: &'p Plan<'a>,
    /// One past the last step that each actor may take.
    reach: Vec<usize>,
    /// Whether the actor has, or may have, arrived at the sync that it stands at.
    has_arrived: Vec<bool>,
    /// The barriers that each actor has passed, and the phases that must have completed by then, latest last.
    passed: Vec<Vec<(usize, u32)>>,
    /// The latest phases in `passed`, of each barrier for one actor after the other.
    completed: Vec<u32>,
    visits: Vec<Visits>,
    /// The actors that may arrive at each barrier, and how often, as the first pass found; empty in the first pass.
    arrivers: Vec<Vec<(usize, u32)>>,
    /// Steps that may still be looked at, over the whole walk. Without them no step is known to commute.
    pub(super) budget: usize,
    /// The actor whose step was last taken alone.
    pub(super) last: usize,
}

impl<'p, 'a> Ahead<'p, 'a> {
    pub(super) fn new(plan: &'p Plan<'a>, budget: usize) -> Self {
        Ahead {
            plan,
            reach: Vec::new(),
            has_arrived: Vec::new(),
            passed: vec![Vec::new(); plan.pipeline.actors.len()],
            completed: vec![0; plan.pipeline.actors.len() * plan.pipeline.barriers.len()],
            visits: vec![Visits::default(); plan.pipeline.barriers.len()],
            arrivers: Vec::new(),
            budget,
            last: 0,
        }
    }

    /// Whether `held`, which is enabled in `s` and has no fault there, commutes with all that can happen before it.
    /// `flying` are the landings to come.
    pub(super) fn is_alone(&mut self, s: &State, held: Held, flying: &[u16]) -> bool {
        match held {
            Held::Actor(actor) => {
                let step = self.plan.step(s, actor);
                let step = step.expect("invariant: an enabled actor has a step");
                let is_last = self.plan.at(s, actor) + 1 == self.steps(actor).len();
                // No other actor observes these; the last one may end the block.
                let is_private = matches!(
                    step,
                    Step::Commit | Step::WaitGroups { .. } | Step::Epilogue { .. }
                );
                let is_alone = (is_private && !is_last)
                    || self.looks_fine(s, held, flying, |ahead| {
                        ahead.commutes(s, actor, step)
                            && (!is_last || ahead.ends_unseen(s, actor, flying))
                    });
                if is_alone {
                    self.last = actor;
                }
                is_alone
            }
            Held::Landing(id) => {
                self.looks_fine(s, held, flying, |ahead| ahead.lands_unseen(s, id))
            }
        }
    }

    /// Whether `is_fine` holds of what may happen while `held` is held back, after a first look or after a second one.
    ///
    /// The second pass knows from the first which actors can arrive at each barrier. Where a phase cannot end without an arrival,
    /// an actor that has waited for the phase stands behind all waits that came before the arrival.
    fn looks_fine(
        &mut self,
        s: &State,
        held: Held,
        flying: &[u16],
        is_fine: impl Fn(&Self) -> bool,
    ) -> bool {
        self.arrivers.clear();
        if !self.look(s, held, flying) {
            return false;
        }
        if is_fine(self) {
            return true;
        }
        let mut arrivers = std::mem::take(&mut self.arrivers);
        arrivers.extend(self.visits.iter().map(|v| {
            let mut counts: Vec<(usize, u32)> = Vec::new();
            for (actor, _) in &v.by {
                match counts.iter_mut().find(|(other, _)| other == actor) {
                    Some((_, count)) => *count += 1,
                    None => counts.push((*actor, 1)),
                }
            }
            counts
        }));
        self.arrivers = arrivers;
        self.look(s, held, flying) && is_fine(self)
    }

    fn steps(&self, actor: usize) -> &'a [Step] {
        &self.plan.pipeline.actors[actor].steps
    }

    /// Computes how far all actors but `held` may go; `false` where the budget ends first.
    fn look(&mut self, s: &State, held: Held, flying: &[u16]) -> bool {
        let actors = self.plan.pipeline.actors.len();
        let barriers = self.plan.pipeline.barriers.len();
        let cost = actors + barriers + flying.len();
        if self.budget < cost {
            return false;
        }
        self.budget -= cost;
        self.reach.clear();
        self.reach.extend((0..actors).map(|b| self.plan.at(s, b)));
        self.has_arrived.clear();
        self.has_arrived
            .extend((0..actors).map(|b| self.plan.syncing(s, b).is_some()));
        self.passed.iter_mut().for_each(Vec::clear);
        self.completed.fill(0);
        self.visits.iter_mut().for_each(Visits::clear);
        for id in flying.iter().filter(|id| held != Held::Landing(**id)) {
            self.expect_landing(self.plan.flights[usize::from(*id)]);
        }
        loop {
            let mut has_moved = false;
            for actor in (0..actors).filter(|b| held != Held::Actor(*b)) {
                while self.passes(s, actor, held) {
                    if self.budget == 0 {
                        return false;
                    }
                    self.budget -= 1;
                    self.reach[actor] += 1;
                    self.has_arrived[actor] = false;
                    has_moved = true;
                }
            }
            if !(self.flip(s) | has_moved) {
                return true;
            }
        }
    }

    fn expect_landing(&mut self, flight: Flight) {
        if let Some(barrier) = flight.barrier {
            self.visits[barrier].landings += 1;
        }
    }

    /// Counts the phases of each barrier that may complete; whether they have become more.
    fn flip(&mut self, s: &State) -> bool {
        let mut are_more = false;
        for (barrier, v) in self.visits.iter_mut().enumerate() {
            let now = self.plan.barrier(s, barrier);
            let pending = u32::from(now.pending);
            if v.arrivals < pending || v.arrivals + v.landings == 0 {
                continue;
            }
            // Phase after phase ends when its arrivals have come and all loads expected so far have landed.
            let each = u32::from(self.plan.pipeline.barriers[barrier].arrivals);
            let landed = |arrivals: u32| {
                let expected = if arrivals == 0 { 0 } else { v.fewest };
                i64::from(now.loads) + i64::from(arrivals) * i64::from(expected)
                    <= i64::from(v.landings)
            };
            let ends = (pending..=v.arrivals).step_by(each as usize);
            let phases = ends.take_while(|arrivals| landed(*arrivals)).count() as u32;
            are_more |= phases > v.phases;
            v.phases = phases;
        }
        are_more
    }

    /// The phases of the barrier that must have completed when the actor stands at `reach`.
    fn completed(&self, actor: usize, barrier: usize) -> u32 {
        self.completed[actor * self.visits.len() + barrier]
    }

    /// Adds phases of a barrier to the actor's past, if it has not as many.
    fn pass(&mut self, actor: usize, barrier: usize, phases: u32) {
        let completed = &mut self.completed[actor * self.visits.len() + barrier];
        if phases > *completed {
            *completed = phases;
            self.passed[actor].push((barrier, phases));
        }
    }

    /// Whether the actor may pass a wait for `phases` phases of the barrier.
    fn may_pass(&mut self, s: &State, actor: usize, barrier: usize, phases: u32) -> bool {
        if phases > self.visits[barrier].phases {
            return false;
        }
        if phases > 0 {
            self.pass(actor, barrier, phases);
            self.learn(s, actor, barrier, phases);
        }
        true
    }

    /// Adds to the actor's past the past of the actors without which these phases cannot have ended.
    fn learn(&mut self, s: &State, actor: usize, barrier: usize, phases: u32) {
        let Some(arrivers) = self.arrivers.get(barrier) else {
            return;
        };
        let each = u32::from(self.plan.pipeline.barriers[barrier].arrivals);
        let needed = u32::from(self.plan.barrier(s, barrier).pending) + (phases - 1) * each;
        // Of its own arrivals, those up to here.
        let by = &self.visits[barrier].by;
        let own = by.iter().filter(|(by, _)| *by == actor).count() as u32;
        let others = || arrivers.iter().filter(|(other, _)| *other != actor);
        let all = own + others().map(|(_, count)| count).sum::<u32>();
        self.budget = self.budget.saturating_sub(by.len() * arrivers.len());
        let mut news = Vec::new();
        for (other, count) in others() {
            // The others can do all but this number of the arrivals.
            let Some(without) = needed.checked_sub(all - count + 1) else {
                continue;
            };
            let mut of = by.iter().filter(|(by, _)| by == other);
            if let Some((_, behind)) = of.nth(without as usize) {
                news.extend_from_slice(&self.passed[*other][..*behind]);
            }
        }
        for (barrier, phases) in news {
            self.pass(actor, barrier, phases);
        }
    }

    /// Whether the actor may pass the step it may reach; notes what the step does on the way.
    fn passes(&mut self, s: &State, actor: usize, held: Held) -> bool {
        let at = self.reach[actor];
        let Some(step) = self.steps(actor).get(at) else {
            return false;
        };
        match step {
            Step::Wait { barrier, parity } => {
                // The parity after that number of phases is not the one waited for.
                let least = self.completed(actor, *barrier);
                let then = u32::from(self.plan.barrier(s, *barrier).parity) + least;
                let wrong = u32::from(then % 2 == u32::from(*parity));
                self.may_pass(s, actor, *barrier, least + wrong)
            }
            Step::Sync { barrier } => {
                let began = self.plan.syncing(s, actor);
                if !self.has_arrived[actor] {
                    self.has_arrived[actor] = true;
                    self.arrive(actor, *barrier, 0);
                }
                // The phase of the arrival must complete; that of a sync that has begun may have.
                let parity = self.plan.barrier(s, *barrier).parity;
                let is_over = at == self.plan.at(s, actor) && began.is_some_and(|b| b != parity);
                let least = self.completed(actor, *barrier);
                self.may_pass(s, actor, *barrier, least + u32::from(!is_over))
            }
            Step::WaitGroups { pending } => {
                let committed = self.plan.commits[actor][at];
                let Held::Landing(id) = held else { return true };
                !self.plan.flights[usize::from(id)].is_awaited(actor, *pending, committed)
            }
            Step::Arrive { barrier } | Step::SyncArrive { barrier } => {
                self.arrive(actor, *barrier, 0);
                true
            }
            Step::Expect { barrier, loads } => {
                self.arrive(actor, *barrier, *loads);
                true
            }
            Step::Load { to, .. } => {
                let first = self.plan.first_flight[actor][at];
                (first..first + to.len()).for_each(|id| self.expect_landing(self.plan.flights[id]));
                true
            }
            Step::Commit
            | Step::Multiply { .. }
            | Step::Retire { .. }
            | Step::Epilogue { .. }
            | Step::Enter { .. }
            | Step::Leave { .. } => true,
        }
    }

    fn arrive(&mut self, actor: usize, barrier: usize, loads: u16) {
        let behind = self.passed[actor].len();
        let v = &mut self.visits[barrier];
        v.fewest = match v.arrivals {
            0 => loads,
            _ => v.fewest.min(loads),
        };
        v.arrivals += 1;
        v.by.push((actor, behind));
    }

    /// The steps that may happen, each with its actor. Of a sync that the actor may not pass, nothing.
    fn others<'s>(&'s self, s: &'s State) -> impl Iterator<Item = (usize, &'a Step)> + 's {
        (0..self.reach.len()).flat_map(move |b| {
            let (from, to) = (self.plan.at(s, b), self.reach[b]);
            self.steps(b)[from..to].iter().map(move |step| (b, step))
        })
    }

    /// Whether a load into one of the slots may happen.
    fn is_loaded(&self, s: &State, is_one: impl Fn(usize) -> bool) -> bool {
        self.others(s).any(|(_, step)| match step {
            Step::Load { to, .. } => to.iter().any(|(slot, _)| is_one(*slot)),
            _ => false,
        })
    }

    /// Whether a multiply from one of the slots may happen.
    fn is_read(&self, s: &State, is_one: impl Fn(usize) -> bool) -> bool {
        self.others(s).any(|(_, step)| match step {
            Step::Multiply { slots, .. } => slots.iter().any(|slot| is_one(*slot)),
            _ => false,
        })
    }

    /// Whether every actor of the block may come to its end, `held` left out.
    fn may_exit(&self, block: usize, held: Option<usize>) -> bool {
        let crew = self.plan.crews.get(&block).into_iter().flatten();
        crew.copied()
            .filter(|b| Some(*b) != held)
            .all(|b| self.reach[b] == self.steps(b).len())
    }

    /// Whether the step commutes with all that may happen, the end of its actor left out.
    fn commutes(&self, s: &State, actor: usize, step: &'a Step) -> bool {
        let pipeline = self.plan.pipeline;
        match step {
            Step::Commit | Step::WaitGroups { .. } | Step::Epilogue { .. } => true,
            Step::Wait { barrier, .. } => !self.visits[*barrier].may_flip(),
            Step::Sync { barrier } if self.plan.syncing(s, actor).is_some() => {
                !self.visits[*barrier].may_flip()
            }
            Step::Sync { barrier } | Step::Arrive { barrier } | Step::SyncArrive { barrier } => {
                self.arrival_commutes(s, *barrier, 0)
            }
            Step::Expect { barrier, loads } => self.arrival_commutes(s, *barrier, *loads),
            Step::Load { to, .. } => {
                let is_one = |slot: usize| to.iter().any(|(target, _)| *target == slot);
                let exits = |slot: usize| self.may_exit(pipeline.slots[slot].block, None);
                !self.is_loaded(s, is_one)
                    && !self.is_read(s, is_one)
                    && !to.iter().any(|(slot, _)| exits(*slot))
            }
            // Without a fault the slot is full, and this actor's own read keeps it so. Other reads change nothing here.
            Step::Multiply { slots, .. } => !self.is_loaded(s, |slot| slots.contains(&slot)),
            Step::Retire { pending } => {
                let ending: Vec<&[usize]> = self.plan.ending(s, actor, *pending).collect();
                let is_one = |slot: usize| ending.iter().any(|slots| slots.contains(&slot));
                !self.is_loaded(s, is_one)
            }
            Step::Enter { section } => {
                !self.others(s).any(|(b, step)| {
                    matches!(step, Step::Enter { section: x } | Step::Leave { section: x } if x == section)
                        && self.same_block(actor, b)
                })
            }
            Step::Leave { section } => {
                !self.others(s).any(|(b, step)| {
                    matches!(step, Step::Enter { section: x } if x == section)
                        && self.same_block(actor, b)
                })
            }
        }
    }

    fn same_block(&self, a: usize, b: usize) -> bool {
        let actors = &self.plan.pipeline.actors;
        actors[a].block == actors[b].block
    }

    /// Whether an arrival that expects `loads` loads commutes with all that may happen.
    fn arrival_commutes(&self, s: &State, barrier: usize, loads: u16) -> bool {
        if self.may_exit(self.plan.pipeline.barriers[barrier].block, None) {
            return false;
        }
        let (v, now) = (&self.visits[barrier], self.plan.barrier(s, barrier));
        // How many arrivals are still missing when this one and all others have come; 0 where this one may be the last.
        let (pending, others) = (u32::from(now.pending), v.arrivals);
        if pending > others + 1 {
            return true;
        }
        let counts_loads = self.plan.counts_loads[barrier];
        let is_exact = counts_loads || self.plan.is_synced[barrier];
        // Arrivals at a barrier that only counts them commute in any number; elsewhere this phase must not end without
        // this one, or the order decides which phase it belongs to.
        if is_exact && pending <= others {
            return false;
        }
        let out = i64::from(now.loads) + i64::from(loads) - i64::from(v.landings);
        // With every landing that may come there is no load too many, so no landing belongs to the next phase.
        if counts_loads && v.landings > 0 && out < 0 {
            return false;
        }
        // With a load out after all landings, this arrival does not end the phase.
        (counts_loads && out > 0)
            || match self.waits(s, barrier) {
                Waits::None => true,
                Waits::BeforeArrivals => pending > others,
                Waits::Open => false,
            }
    }

    /// The actors that may pass a wait at the barrier.
    fn waits(&self, s: &State, barrier: usize) -> Waits {
        let mut found = Waits::None;
        for b in 0..self.reach.len() {
            let (from, to) = (self.plan.at(s, b), self.reach[b]);
            let mut last_waits = None;
            for (at, step) in self.steps(b)[..to].iter().enumerate().skip(from) {
                match step {
                    Step::Wait { barrier: x, .. } | Step::Sync { barrier: x } if *x == barrier => {
                        last_waits = Some(true);
                    }
                    Step::Arrive { barrier: x }
                    | Step::SyncArrive { barrier: x }
                    | Step::Expect { barrier: x, .. }
                        if *x == barrier && at >= from =>
                    {
                        last_waits = last_waits.map(|_| false);
                    }
                    _ => {}
                }
            }
            // The arrival of a sync that may not be passed.
            let syncs =
                matches!(self.steps(b).get(to), Some(Step::Sync { barrier: x }) if *x == barrier);
            let began = to == from && self.plan.syncing(s, b).is_some();
            if syncs && self.has_arrived[b] && !began {
                last_waits = last_waits.map(|_| false);
            }
            match last_waits {
                Some(true) => return Waits::Open,
                Some(false) => found = Waits::BeforeArrivals,
                None => {}
            }
        }
        found
    }

    /// Whether the end of the actor's last step affects no other actor: the block stays, or nothing comes to it any more.
    fn ends_unseen(&self, s: &State, actor: usize, flying: &[u16]) -> bool {
        let pipeline = self.plan.pipeline;
        let block = pipeline.actors[actor].block;
        if !self.may_exit(block, Some(actor)) {
            return true;
        }
        let into = |slot: usize| pipeline.slots[slot].block == block;
        let lands = |id: &u16| into(self.plan.flights[usize::from(*id)].slot);
        let reaches = |(b, step): (usize, &Step)| match step {
            Step::Arrive { barrier }
            | Step::SyncArrive { barrier }
            | Step::Sync { barrier }
            | Step::Expect { barrier, .. } => {
                pipeline.barriers[*barrier].block == block && pipeline.actors[b].block != block
            }
            Step::Load { to, .. } => to.iter().any(|(slot, _)| into(*slot)),
            _ => false,
        };
        let may_sync = |b: usize| {
            let step = self.steps(b).get(self.reach[b]);
            matches!(step, Some(Step::Sync { barrier }) if pipeline.barriers[*barrier].block == block)
                && pipeline.actors[b].block != block
        };
        !flying.iter().any(lands)
            && !self.others(s).any(reaches)
            && !(0..self.reach.len()).any(may_sync)
    }

    /// Whether the landing commutes with all that may happen.
    fn lands_unseen(&self, s: &State, id: u16) -> bool {
        let flight = self.plan.flights[usize::from(id)];
        let is_here = |slot: usize| slot == flight.slot;
        let block = self.plan.pipeline.slots[flight.slot].block;
        if self.may_exit(block, None) || self.is_loaded(s, is_here) || self.is_read(s, is_here) {
            return false;
        }
        let Some(barrier) = flight.barrier else {
            return true;
        };
        let (v, now) = (&self.visits[barrier], self.plan.barrier(s, barrier));
        let pending = u32::from(now.pending);
        let out = i64::from(now.loads) - i64::from(v.landings);
        // An arrival before or after this landing must belong to the same phase: it is not one too many before, and a
        // load is out after it.
        if v.arrivals > 0 && (pending < v.arrivals || out + i64::from(v.fewest) < 1) {
            return false;
        }
        // This landing does not end the phase, or no actor waits for the phase before.
        pending > v.arrivals
            || out > 1
            || match self.waits(s, barrier) {
                Waits::None => true,
                Waits::BeforeArrivals => pending >= v.arrivals,
                Waits::Open => false,
            }
    }
}
