//! `Session`: the exchanges of the ranks, and the memory that waits until all have closed it.

use core::any::Any;
use core::fmt;
use std::collections::BTreeSet;
use std::mem;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use colex_device::{Device, Flags};

use super::call::{LOOK, ended};
use super::collectives::{SessionCollectives, given_up};
use super::fields::{joined, split};
use super::rounds::{Rounds, agreed, other_order};
use super::signals::Signals;
use crate::error::{Error, HostError, MeetingFailure};
use crate::ranks::Meeting;
use crate::ranks::host::devices::RELEASE;
use crate::ranks::work::Member;

/// What all ranks do together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(super) enum Step {
    Join = 1,
    Begin = 2,
    Open = 3,
    Exchange = 4,
    Leave = 5,
    Collective = 6,
    GiveUp = 7,
}

/// What a rank does, by the number of its step.
fn does(step: u8) -> &'static str {
    match step {
        1 => "joins the others",
        2 => "begins a product",
        3 => "opens the memory of a product",
        4 => "exchanges bytes",
        5 => "leaves the others",
        6 => "computes a collective",
        7 => "gives up",
        _ => "does something else",
    }
}

/// The most products of which an exchange says that they are closed; later ones say the others.
const MOST_TOLD: usize = 1 << 12;

/// What a rank has of the others.
pub(super) struct Session {
    device: Device,
    rank: usize,
    ranks: usize,
    within: Duration,
    state: Mutex<State>,
    products: Mutex<Products>,
    pub(super) collectives: SessionCollectives,
    facts: Mutex<Facts>,
}

/// What the ranks know of each other's devices. All ranks know the same.
#[derive(Clone, Default)]
pub(super) struct Facts {
    /// Why they have no access to each other's memory.
    pub(super) no_access: Option<HostError>,
    /// Whether some are simulated, and some are GPUs.
    pub(super) is_mixed: bool,
}

/// What a rank says in an exchange.
pub(super) struct StepSaid {
    pub(super) step: u8,
    /// The rounds of collectives that it has begun; if it gives up, those to which its stream has come.
    pub(super) place: u64,
    /// The order of the rounds of collectives that it has begun.
    pub(super) rounds: Rounds,
    pub(super) fields: Vec<u8>,
}

impl StepSaid {
    #[cfg(test)]
    pub(super) fn of(step: Step, place: u64, fields: Vec<u8>) -> StepSaid {
        let step = step as u8;
        StepSaid {
            step,
            place,
            rounds: Rounds::default(),
            fields,
        }
    }

    /// The pieces of bytes that belong to the step.
    pub(super) fn fields<const N: usize>(&self, rank: usize) -> Result<[Vec<u8>; N], Error> {
        let pieces = split::<N>(&self.fields).ok_or(MeetingFailure::Foreign { rank })?;
        Ok(pieces.map(<[u8]>::to_vec))
    }
}

/// A product that runs: what ends its work once a rank is lost.
pub(super) struct LiveProduct {
    pub(super) number: u64,
    pub(super) member: Member,
    /// The flags for which a kernel waits.
    pub(super) flags: Vec<Flags>,
    /// Those by which ranks with access to each other's memory tell how far they are.
    pub(super) signals: Option<Arc<Signals>>,
}

/// The products of this rank. They share a stream, so that one which waits for a lost rank holds up the others: all fail together.
#[derive(Default)]
struct Products {
    live: Vec<LiveProduct>,
    failure: Option<Failure>,
}

struct Failure {
    /// The rank because of which they failed.
    lost: usize,
    /// Whether streams may still run: then nothing of this rank may be freed.
    is_stuck: bool,
}

struct State {
    meeting: Meeting,
    /// The products that this rank has begun.
    products: u64,
    /// Those of which it has closed the others' memory, and has not told them.
    closed: Vec<u64>,
    /// Those that each rank has closed.
    closed_by: Vec<BTreeSet<u64>>,
    /// The products of this rank that live.
    alive: usize,
    /// Memory of this rank that other processes may have open, with the number of its product.
    kept: Vec<(u64, Box<dyn Any + Send>)>,
}

impl fmt::Debug for Session {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let of = format_args!("{} of {}", self.rank, self.ranks);
        f.debug_struct("Session")
            .field("rank", &of)
            .field("device", &self.device.name())
            .finish_non_exhaustive()
    }
}

impl Session {
    pub(super) fn new(meeting: Meeting, device: &Device) -> Session {
        let ranks = meeting.ranks();
        Session {
            device: device.clone(),
            rank: meeting.rank(),
            ranks,
            within: meeting.within(),
            state: Mutex::new(State {
                meeting,
                products: 0,
                closed: Vec::new(),
                closed_by: vec![BTreeSet::new(); ranks],
                alive: 0,
                kept: Vec::new(),
            }),
            products: Mutex::default(),
            collectives: SessionCollectives::default(),
            facts: Mutex::default(),
        }
    }

    pub(super) fn device(&self) -> &Device {
        &self.device
    }

    pub(super) fn rank(&self) -> usize {
        self.rank
    }

    pub(super) fn ranks(&self) -> usize {
        self.ranks
    }

    /// The longest time of an exchange.
    pub(super) fn within(&self) -> Duration {
        self.within
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn products(&self) -> MutexGuard<'_, Products> {
        self.products.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn facts(&self) -> MutexGuard<'_, Facts> {
        self.facts.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn has_failed(&self) -> bool {
        self.products().failure.is_some()
    }

    /// Refuses further work after a failure.
    pub(super) fn check(&self) -> Result<(), Error> {
        self.products().check(self.rank)
    }

    /// Notes a product whose memory all ranks have open.
    pub(super) fn begun(&self, product: LiveProduct) -> Result<(), Error> {
        let mut products = self.products();
        products.check(self.rank)?;
        products.live.push(product);
        Ok(())
    }

    /// Forgets a product, and returns whether its memory may not be freed.
    pub(super) fn ended(&self, number: u64) -> bool {
        let mut products = self.products();
        products.live.retain(|product| product.number != number);
        let failure = &products.failure;
        failure.as_ref().is_some_and(|failure| failure.is_stuck)
    }

    /// Tells the others that this rank gives up, and lets its streams end.
    pub(super) fn give_up(&self, why: &Error) {
        let mut products = self.products();
        if products.failure.is_some() {
            return;
        }
        let lost = why.lost_rank().unwrap_or(self.rank);
        let told = products
            .live
            .iter()
            .filter_map(|product| product.signals.as_ref())
            .map(|signals| signals.tell(lost));
        // Each of them is told, also after one that cannot be.
        let told: Vec<_> = told.collect();
        // The streams that go on write the memory of the others: these must have heard of it before.
        let is_told = told.iter().all(Result::is_ok);
        self.collectives.cut(why);
        let is_drained = drained(&products.live);
        let is_stuck = !(is_told && is_drained && self.collectives.is_cut(RELEASE));
        products.failure = Some(Failure { lost, is_stuck });
    }

    /// Gives pieces of bytes to all ranks, which all take the same step, and returns those of every rank.
    pub(super) fn exchange<const N: usize>(
        &self,
        step: Step,
        fields: [&[u8]; N],
    ) -> Result<Vec<[Vec<u8>; N]>, Error> {
        let place = self.collectives.begun();
        let all = self.exchange_all((step, place), &fields)?;
        if let Some(why) = other_order(&all, self.rank) {
            let why = why.into();
            self.give_up(&why);
            return Err(why);
        }
        if let Some(why) = given_up(&all) {
            let why = why?.into();
            self.give_up(&why);
            return Err(why);
        }
        let first = all.first().map_or(step as u8, |said| said.step);
        let other = all.iter().position(|said| said.step != first);
        if let Some(rank) = other {
            return Err(HostError::Steps {
                rank,
                does: does(all[rank].step),
                first: does(first),
            }
            .into());
        }
        let each = all.iter().enumerate();
        each.map(|(rank, said)| said.fields(rank)).collect()
    }

    /// Names another order of rounds as a cause beside a rank that is late, if this rank has several products.
    pub(super) fn or_order(&self, why: Error) -> Error {
        let count = self.products().live.len();
        let mut why = match why.of_host() {
            Some(known) => known.clone(),
            None => return why,
        };
        if let HostError::Absent { products, .. } | HostError::Unfinished { products, .. } =
            &mut why
        {
            *products = count;
        }
        why.into()
    }

    /// Says to all ranks which step this one takes, and returns what every rank says. Memory that all ranks have closed is freed.
    pub(super) fn exchange_all(
        &self,
        (step, place): (Step, u64),
        fields: &[&[u8]],
    ) -> Result<Vec<StepSaid>, Error> {
        let mut state = self.state();
        // They stay in the list until the others have them.
        let told = state.closed.len().min(MOST_TOLD);
        let numbers = state.closed[..told].iter();
        let numbers: Vec<u8> = numbers.flat_map(|one| one.to_le_bytes()).collect();
        let rounds = self.collectives.rounds().to_bytes();
        let own = joined(&[
            &[step as u8],
            &place.to_le_bytes(),
            &rounds,
            &numbers,
            &joined(fields),
        ]);
        let all = state.meeting.exchange_framed(&own)?;
        state.closed.drain(..told);
        let mut found = Vec::new();
        for (rank, message) in all.iter().enumerate() {
            let foreign = MeetingFailure::Foreign { rank };
            let [step, place, rounds, numbers, fields] = split::<5>(message).ok_or(foreign)?;
            let ([step], Ok(place), Some(rounds), (numbers, [])) = (
                step,
                place.try_into(),
                Rounds::from_bytes(rounds),
                numbers.as_chunks::<8>(),
            ) else {
                return Err(foreign.into());
            };
            let numbers = numbers.iter().map(|number| u64::from_le_bytes(*number));
            state.closed_by[rank].extend(numbers);
            found.push(StepSaid {
                step: *step,
                place: u64::from_le_bytes(place),
                rounds,
                fields: fields.to_vec(),
            });
        }
        if other_order(&found, self.rank).is_none() {
            self.collectives.agreed(agreed(&found));
        }
        let free = state.free();
        drop(state);
        // Outside of the lock: a device may wait for its work.
        drop(free);
        Ok(found)
    }

    /// The number of a product that this rank begins to open.
    pub(super) fn opened(&self) -> u64 {
        let mut state = self.state();
        state.products += 1;
        state.alive += 1;
        state.products
    }

    /// Notes that this rank has closed the others' memory of a product, and keeps its own until all have closed it, if one is
    /// another process.
    pub(super) fn closed(&self, number: u64, is_open: bool, own: Box<dyn Any + Send>) {
        let mut state = self.state();
        state.alive -= 1;
        state.closed.push(number);
        if is_open {
            state.kept.push((number, own));
        }
    }

    /// The products of this rank that live.
    pub(super) fn alive(&self) -> usize {
        self.state().alive
    }
}

impl Products {
    fn check(&self, rank: usize) -> Result<(), Error> {
        match &self.failure {
            Some(Failure { lost, .. }) => Err(HostError::Ended { rank, lost: *lost }.into()),
            None => Ok(()),
        }
    }
}

/// Releases the flags of products until their streams have ended, and returns whether they have.
fn drained(products: &[LiveProduct]) -> bool {
    let start = Instant::now();
    loop {
        // A rank that is late may set a flag to its round after the release: then it is released again. What fails here fails
        // behind another error, which is the one to report.
        for product in products {
            let signals = product.signals.iter().map(|signals| signals.own());
            for flags in product.flags.iter().chain(signals) {
                let _ = flags.release(RELEASE);
            }
        }
        let has_ended = |product: &LiveProduct| {
            // A context that is lost has no work.
            ended(&product.member, LOOK).unwrap_or(true)
        };
        if products.iter().all(has_ended) {
            return true;
        }
        if start.elapsed() > RELEASE {
            return false;
        }
    }
}

impl State {
    /// The memory that all ranks have closed.
    fn free(&mut self) -> Vec<Box<dyn Any + Send>> {
        let closed_by = &self.closed_by;
        let is_closed = |number: &u64| closed_by.iter().all(|closed| closed.contains(number));
        let (free, kept): (Vec<_>, Vec<_>) = mem::take(&mut self.kept)
            .into_iter()
            .partition(|(number, _)| is_closed(number));
        self.kept = kept;
        // A number that all ranks have closed is of no more use.
        let mut of = self.closed_by.iter();
        if let Some(first) = of.next() {
            let all = first
                .iter()
                .filter(|number| of.clone().all(|one| one.contains(number)));
            let all: Vec<u64> = all.copied().collect();
            for closed in &mut self.closed_by {
                closed.retain(|number| !all.contains(number));
            }
        }
        free.into_iter().map(|(_, memory)| memory).collect()
    }
}

impl Drop for State {
    fn drop(&mut self) {
        // Another process may have it open, and memory that is freed under its work is undefined to use. The driver frees it with
        // this process.
        mem::take(&mut self.kept).into_iter().for_each(mem::forget);
    }
}
