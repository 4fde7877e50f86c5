//! One state of a walk, and what each step does to it.

use super::fault::Fault;
use super::plan::{Flight, Plan};
use super::step::Step;

/// Everything that tells two moments of a walk apart, flat so that it copies and hashes quickly.
///
/// For each actor its step, its ended multiplies and 1 + the parity it syncs on; for each slot and each barrier two
/// words; for each section 1 + the actor inside; then a bit for each landing to come.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct State(Box<[u16]>);

impl State {
    /// The bytes that it takes.
    pub(super) fn bytes(&self) -> usize {
        size_of_val(&*self.0) + size_of::<Self>()
    }
}

/// What a slot holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Content {
    /// Nothing was loaded yet.
    Nothing,
    /// The load of this item has not landed.
    Loading(u16),
    /// The item and the reads that are not over.
    Full(u16, u16),
}

/// The phase of a barrier that is not complete.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BarrierState {
    /// The parity of the phase: a wait for the other parity passes.
    pub parity: u8,
    /// The arrivals that the phase still waits for.
    pub pending: u16,
    /// The loads that the phase still waits for; below 0 where a load has landed before the arrival that expects it.
    pub loads: i16,
}

impl<'a> Plan<'a> {
    pub(super) fn start(&self) -> State {
        let mut s = State(vec![0; self.offsets.end].into_boxed_slice());
        for (i, b) in self.pipeline.barriers.iter().enumerate() {
            let fresh = BarrierState {
                parity: 0,
                pending: b.arrivals,
                loads: 0,
            };
            self.set_barrier(&mut s, i, fresh);
        }
        s
    }

    /// The number of the actor's next step.
    pub(super) fn at(&self, s: &State, actor: usize) -> usize {
        s.0[actor] as usize
    }

    pub(super) fn step(&self, s: &State, actor: usize) -> Option<&'a Step> {
        self.pipeline.actors[actor].steps.get(self.at(s, actor))
    }

    pub(super) fn slot(&self, s: &State, slot: usize) -> Content {
        let at = self.offsets.slots + 2 * slot;
        match (s.0[at], s.0[at + 1]) {
            (0, _) => Content::Nothing,
            (1, item) => Content::Loading(item),
            (reads, item) => Content::Full(item, reads - 2),
        }
    }

    fn set_slot(&self, s: &mut State, slot: usize, content: Content) {
        let at = self.offsets.slots + 2 * slot;
        (s.0[at], s.0[at + 1]) = match content {
            Content::Nothing => (0, 0),
            Content::Loading(item) => (1, item),
            Content::Full(item, reads) => (reads + 2, item),
        };
    }

    pub(super) fn barrier(&self, s: &State, barrier: usize) -> BarrierState {
        let at = self.offsets.barriers + 2 * barrier;
        let (word, loads) = (s.0[at], s.0[at + 1] as i16);
        BarrierState {
            parity: (word & 1) as u8,
            pending: word >> 1,
            loads,
        }
    }

    fn set_barrier(&self, s: &mut State, barrier: usize, b: BarrierState) {
        let at = self.offsets.barriers + 2 * barrier;
        (s.0[at], s.0[at + 1]) = (b.pending << 1 | u16::from(b.parity), b.loads as u16);
    }

    /// The landings to come, by number.
    pub(super) fn flying(&self, s: &State) -> Vec<u16> {
        let mut ids = Vec::new();
        for (i, word) in s.0[self.offsets.flying..].iter().enumerate() {
            let mut bits = *word;
            while bits != 0 {
                ids.push(i as u16 * 16 + bits.trailing_zeros() as u16);
                bits &= bits - 1;
            }
        }
        ids
    }

    fn flip_flying(&self, s: &mut State, id: usize) {
        s.0[self.offsets.flying + id / 16] ^= 1 << (id % 16);
    }

    /// The parity that the actor's sync began with, if it has arrived at the barrier and not yet passed it.
    pub(super) fn syncing(&self, s: &State, actor: usize) -> Option<u8> {
        s.0[2 * self.offsets.actors + actor]
            .checked_sub(1)
            .map(|parity| parity as u8)
    }

    /// Multiplies of `actor` that have begun and not ended.
    fn running(&self, s: &State, actor: usize) -> u16 {
        // The steps of an actor are fixed, so the step tells how many multiplies have begun; only the ended ones are state.
        self.multiplies[actor][self.at(s, actor)] - s.0[self.offsets.actors + actor]
    }

    /// Whether the actor's next step can be taken now.
    pub(super) fn enabled(&self, s: &State, actor: usize) -> bool {
        match self.step(s, actor) {
            None => false,
            // A phase of this parity is complete when the barrier has moved on to the other parity.
            Some(Step::Wait { barrier, parity }) => self.barrier(s, *barrier).parity != *parity,
            Some(Step::Sync { barrier }) => {
                let began = self.syncing(s, actor);
                began.is_none_or(|parity| self.barrier(s, *barrier).parity != parity)
            }
            Some(Step::WaitGroups { pending }) => {
                // Groups complete in the order of their commits: only loads of older groups are awaited.
                let committed = self.commits[actor][self.at(s, actor)];
                let old = |f: &Flight| f.is_awaited(actor, *pending, committed);
                !self
                    .flying(s)
                    .iter()
                    .any(|id| old(&self.flights[*id as usize]))
            }
            Some(_) => true,
        }
    }

    /// The state after the actor's next step, or the fault it commits.
    pub(super) fn advance(&self, s: &State, actor: usize) -> Result<State, Fault> {
        let mut next = s.clone();
        let step = self
            .step(s, actor)
            .expect("invariant: only enabled steps are taken");
        let mut done = true;
        match step {
            Step::Wait { .. } | Step::Commit | Step::WaitGroups { .. } => {}
            Step::Arrive { barrier } | Step::SyncArrive { barrier } => {
                self.arrive(&mut next, actor, *barrier, 0)?
            }
            Step::Expect { barrier, loads } => {
                self.arrive(&mut next, actor, *barrier, *loads as i16)?
            }
            Step::Load { item, to } => self.load(&mut next, actor, *item, to)?,
            Step::Multiply { item, slots } => self.multiply(&next, actor, *item, slots)?,
            Step::Retire { pending } => self.retire(&mut next, actor, *pending),
            Step::Epilogue { tile } => self.all_ended(&next, actor, Some(*tile))?,
            Step::Sync { barrier } => done = self.sync(&mut next, actor, *barrier)?,
            Step::Enter { section } => self.enter(&mut next, actor, section)?,
            Step::Leave { section } => self.leave(&mut next, actor, section),
        }
        next.0[actor] += u16::from(done);
        if self.step(&next, actor).is_none() {
            self.all_ended(&next, actor, None)?;
            self.outlives(&next, actor)?;
        }
        Ok(next)
    }

    /// Executes one half of `bar.sync`: the first arrives, the second passes the barrier. Returns whether the step is
    /// over. Two halves, because other actors run between the arrival and the release.
    fn sync(&self, s: &mut State, actor: usize, barrier: usize) -> Result<bool, Fault> {
        let at = 2 * self.offsets.actors + actor;
        if s.0[at] != 0 {
            s.0[at] = 0;
            return Ok(true);
        }
        s.0[at] = u16::from(self.barrier(s, barrier).parity) + 1;
        self.arrive(s, actor, barrier, 0)?;
        Ok(false)
    }

    fn arrive(&self, s: &mut State, actor: usize, barrier: usize, loads: i16) -> Result<(), Fault> {
        let b = &self.pipeline.barriers[barrier];
        if self.exited(s, b.block) {
            return Err(Fault::Exited {
                what: format!("an arrival at {}", b.name),
                block: b.block,
            });
        }
        let mut now = self.barrier(s, barrier);
        if now.pending == 0 {
            let (actor, step) = self.place(s, actor);
            return Err(Fault::TooManyArrivals {
                actor,
                step,
                barrier: b.name.clone(),
            });
        }
        now.pending -= 1;
        now.loads += loads;
        self.set_barrier(s, barrier, self.completed(barrier, now));
        Ok(())
    }

    /// Returns the barrier, with the phase completed if all have arrived and all loads have landed. Only the parity of
    /// the phase is kept, as in an mbarrier: the state space stays finite, and waiting for the wrong phase is found.
    fn completed(&self, barrier: usize, now: BarrierState) -> BarrierState {
        if now.pending != 0 || now.loads != 0 {
            return now;
        }
        let arrivals = self.pipeline.barriers[barrier].arrivals;
        BarrierState {
            parity: now.parity ^ 1,
            pending: arrivals,
            loads: 0,
        }
    }

    fn load(
        &self,
        s: &mut State,
        actor: usize,
        item: u16,
        to: &[(usize, Option<usize>)],
    ) -> Result<(), Fault> {
        let first = self.first_flight[actor][self.at(s, actor)];
        for (i, (slot, _)) in to.iter().enumerate() {
            // What decides is the reads that are still to come, not a barrier: a plan that releases a slot too early
            // fails here, for every order in which its barriers complete.
            let (held, why) = match self.slot(s, *slot) {
                Content::Full(held, 1..) => (held, "is still to be read"),
                Content::Loading(held) => (held, "is still landing"),
                _ => {
                    self.set_slot(s, *slot, Content::Loading(item));
                    self.flip_flying(s, first + i);
                    continue;
                }
            };
            let (actor, step) = self.place(s, actor);
            let slot = self.pipeline.slots[*slot].name.clone();
            return Err(Fault::Overwrite {
                actor,
                step,
                slot,
                item,
                held,
                why,
            });
        }
        Ok(())
    }

    /// Returns the state after the load `id` has landed.
    pub(super) fn land(&self, s: &State, id: u16) -> Result<State, Fault> {
        let (mut next, flight) = (s.clone(), &self.flights[id as usize]);
        let slot = &self.pipeline.slots[flight.slot];
        if self.exited(s, slot.block) {
            let what = format!("the load of {} into {}", flight.item, slot.name);
            return Err(Fault::Exited {
                what,
                block: slot.block,
            });
        }
        self.flip_flying(&mut next, id as usize);
        self.set_slot(
            &mut next,
            flight.slot,
            Content::Full(flight.item, flight.reads),
        );
        if let Some(barrier) = flight.barrier {
            let mut now = self.barrier(s, barrier);
            // The count is below 0 while a load has landed before the `expect_tx` that announces it. The phase stays open
            // then, since that arrival is still pending.
            now.loads -= 1;
            self.set_barrier(&mut next, barrier, self.completed(barrier, now));
        }
        Ok(next)
    }

    fn multiply(&self, s: &State, actor: usize, item: u16, slots: &[usize]) -> Result<(), Fault> {
        let right =
            |slot: usize| matches!(self.slot(s, slot), Content::Full(held, 1..) if held == item);
        let Some(slot) = slots.iter().copied().find(|slot| !right(*slot)) else {
            return Ok(());
        };
        let found = match self.slot(s, slot) {
            Content::Nothing => "is empty".to_string(),
            Content::Loading(held) => format!("is waiting for {held} to land"),
            Content::Full(held, _) => format!("holds {held}"),
        };
        let (actor, step) = self.place(s, actor);
        let slot = self.pipeline.slots[slot].name.clone();
        Err(Fault::Unfilled {
            actor,
            step,
            slot,
            item,
            found,
        })
    }

    /// Ends this actor's oldest multiplies until `pending` run.
    fn retire(&self, s: &mut State, actor: usize, pending: u16) {
        // Multiplies of one actor end in the order in which they began, so a count identifies the oldest.
        while self.running(s, actor) > pending {
            let which = s.0[self.offsets.actors + actor] as usize;
            let (_, slots) = self.multiplied[actor][which];
            for slot in slots {
                if let Content::Full(item, reads) = self.slot(s, *slot) {
                    self.set_slot(s, *slot, Content::Full(item, reads - 1));
                }
            }
            s.0[self.offsets.actors + actor] += 1;
        }
    }

    /// The slots of the multiplies that would end if the actor let at most `pending` run.
    pub(super) fn ending(
        &self,
        s: &State,
        actor: usize,
        pending: u16,
    ) -> impl Iterator<Item = &'a [usize]> + '_ {
        let ended = s.0[self.offsets.actors + actor] as usize;
        let count = self.running(s, actor).saturating_sub(pending) as usize;
        let ending = &self.multiplied[actor][ended..ended + count];
        ending.iter().map(|(_, slots)| *slots)
    }

    /// The fault of an epilogue, or of the actor's end, while one of its multiplies runs.
    fn all_ended(&self, s: &State, actor: usize, tile: Option<u16>) -> Result<(), Fault> {
        if self.running(s, actor) == 0 {
            return Ok(());
        }
        let oldest = s.0[self.offsets.actors + actor] as usize;
        let (item, _) = self.multiplied[actor][oldest];
        let (name, at) = self.place(s, actor);
        // The end of an actor is the end of its last step.
        let step = at - usize::from(tile.is_none());
        Err(Fault::StillRunning {
            actor: name,
            step,
            tile,
            item,
        })
    }

    fn section(&self, actor: usize, section: &str) -> usize {
        let block = self.pipeline.actors[actor].block;
        let at = self.sections.iter().position(|s| *s == (block, section));
        self.offsets.sections + at.expect("invariant: every section of the plan is listed")
    }

    fn enter(&self, s: &mut State, actor: usize, section: &'static str) -> Result<(), Fault> {
        let at = self.section(actor, section);
        if s.0[at] != 0 {
            let inside = self.pipeline.actors[s.0[at] as usize - 1].name.clone();
            let (actor, step) = self.place(s, actor);
            return Err(Fault::Overlap {
                actor,
                step,
                section,
                inside,
            });
        }
        s.0[at] = actor as u16 + 1;
        Ok(())
    }

    fn leave(&self, s: &mut State, actor: usize, section: &str) {
        let at = self.section(actor, section);
        if s.0[at] == actor as u16 + 1 {
            s.0[at] = 0;
        }
    }

    /// The last actor of a block to end must not leave a load behind that would land in the block's memory.
    fn outlives(&self, s: &State, actor: usize) -> Result<(), Fault> {
        let block = self.pipeline.actors[actor].block;
        if !self.exited(s, block) {
            return Ok(());
        }
        let flying = self.flying(s);
        let mut left = flying.iter().map(|id| &self.flights[*id as usize]);
        match left.find(|f| self.pipeline.slots[f.slot].block == block) {
            None => Ok(()),
            Some(f) => {
                let what = format!(
                    "the load of {} into {}",
                    f.item, self.pipeline.slots[f.slot].name
                );
                Err(Fault::Exited { what, block })
            }
        }
    }

    /// Whether every actor of the block is done.
    fn exited(&self, s: &State, block: usize) -> bool {
        let crew = self.crews.get(&block).into_iter().flatten();
        crew.copied().all(|actor| self.step(s, actor).is_none())
    }

    pub(super) fn done(&self, s: &State) -> bool {
        (0..self.pipeline.actors.len()).all(|actor| self.step(s, actor).is_none())
    }

    pub(super) fn place(&self, s: &State, actor: usize) -> (String, usize) {
        (self.pipeline.actors[actor].name.clone(), self.at(s, actor))
    }

    /// What the next step of a blocked actor waits for.
    pub(super) fn waits_for(&self, s: &State, actor: usize) -> String {
        let (Some(Step::Wait { barrier, .. }) | Some(Step::Sync { barrier })) = self.step(s, actor)
        else {
            return "its loads".to_string();
        };
        let (b, now) = (&self.pipeline.barriers[*barrier], self.barrier(s, *barrier));
        let loads = if now.loads == 0 {
            String::new()
        } else {
            format!(", {} loads", now.loads)
        };
        format!(
            "{} ({} of {} arrivals{loads} missing)",
            b.name, now.pending, b.arrivals
        )
    }
}
