//! The collectives of a rank whose others have processes of their own: how far its rounds are, and what the ranks tell each other by
//! the meeting when one gives up.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, TryLockError, Weak};
use std::time::Duration;

use colex_device::{Device, Event};

use super::rounds::{RoundOf, RoundOrder, Rounds, other_order};
use super::session::{Session, Step, StepSaid};
use crate::error::{Error, HostError, MeetingFailure};
use crate::ranks::host::collective::{Abort, Bring, Collectives};

/// The most bytes of a simulated collective in one exchange.
const PART: usize = 1 << 19;

/// The collectives of a rank, and how far its rounds of them are.
#[derive(Default)]
pub(super) struct SessionCollectives {
    /// Opened by the first product that needs them.
    opened: Mutex<Option<Arc<Collectives>>>,
    /// The first abort of them.
    abort: Mutex<Option<Abort>>,
    progress: Mutex<Progress>,
    /// Held while a round is enqueued, and while a rank that is done reads the marks of its last one.
    order: Mutex<()>,
}

/// The rounds of all products by NCCL, which all ranks begin in the same order.
#[derive(Default)]
struct Progress {
    order: RoundOrder,
    /// Those to which the stream of this rank is known to have come.
    came: u64,
    /// The events at the begin of the others.
    coming: VecDeque<Event>,
}

impl Progress {
    /// The rounds to which the stream has come.
    fn came(&mut self) -> u64 {
        let is_reached = |event: &Event| matches!(event.is_reached(), Ok(true));
        while self.coming.front().is_some_and(is_reached) {
            self.coming.pop_front();
            self.came += 1;
        }
        self.came
    }
}

impl SessionCollectives {
    fn opened(&self) -> MutexGuard<'_, Option<Arc<Collectives>>> {
        self.opened.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn progress(&self) -> MutexGuard<'_, Progress> {
        self.progress.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Keeps the order of the rounds of all products until it is dropped.
    pub(super) fn order(&self) -> MutexGuard<'_, ()> {
        self.order.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The same, if no other thread has it.
    pub(super) fn try_order(&self) -> Option<MutexGuard<'_, ()>> {
        match self.order.try_lock() {
            Ok(order) => Some(order),
            Err(TryLockError::Poisoned(order)) => Some(order.into_inner()),
            Err(TryLockError::WouldBlock) => None,
        }
    }

    /// The rounds that this rank has begun.
    pub(super) fn begun(&self) -> u64 {
        self.progress().order.begun()
    }

    /// The order of the rounds that this rank has begun, but for those on which all ranks agree.
    pub(super) fn rounds(&self) -> Rounds {
        self.progress().order.rounds().clone()
    }

    /// Notes that all ranks agree on the order of the first rounds.
    pub(super) fn agreed(&self, rounds: u64) {
        self.progress().order.agreed(rounds);
    }

    /// Notes that a round begins after the earlier work of a stream. Returns what all ranks have in common that have begun the same rounds
    /// in the same order.
    pub(super) fn begin(&self, stream: &Device, round: RoundOf) -> Result<[u32; 2], Error> {
        let event = stream.record()?;
        let mut progress = self.progress();
        progress.order.begin(round);
        progress.coming.push_back(event);
        // Events that are reached are of no more use.
        progress.came();
        Ok(progress.order.mark())
    }

    /// Keeps collectives that all ranks have opened.
    pub(super) fn keep(&self, new: &Arc<Collectives>) {
        self.opened().get_or_insert_with(|| new.clone());
    }

    fn abort(&self) -> MutexGuard<'_, Option<Abort>> {
        self.abort.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Begins to abort the collectives because of an error.
    pub(super) fn cut(&self, why: &Error) {
        let opened = self.opened().clone();
        if let Some(opened) = opened {
            self.abort().get_or_insert_with(|| opened.cut(why));
        }
    }

    /// Whether the abort that has begun, if any, returns within a time.
    pub(super) fn is_cut(&self, within: Duration) -> bool {
        let abort = self.abort();
        abort.as_ref().is_none_or(|abort| abort.has_ended(within))
    }
}

/// Why a rank gives up its collectives.
pub(super) enum Cause {
    /// They were not done within a time.
    Late(Duration),
    /// They ended without the part of a rank, before a time was over: it has aborted, or runs its rounds in another order.
    Partial { rank: usize, within: Duration },
    /// What NCCL has met in the background.
    Background(Error),
    /// A failure of this rank.
    Own(Error),
}

impl Session {
    /// What rank 0 gives to all ranks, so that they open collectives; nothing where they are open.
    pub(super) fn id(&self) -> Result<Vec<u8>, Error> {
        if self.rank() != 0 || self.collectives.opened().is_some() {
            return Ok(Vec::new());
        }
        Collectives::id(self.device())
    }

    /// Returns the collectives, and opens them with all ranks if they are not yet. A rank that fails waits in the next exchange for
    /// the others, so that they take at most half of the time of an exchange.
    pub(super) fn open_collectives(
        self: &Arc<Session>,
        id: &[u8],
        within: Duration,
    ) -> Result<Arc<Collectives>, Error> {
        if let Some(known) = &*self.collectives.opened() {
            return Ok(known.clone());
        }
        let session: Weak<Session> = Arc::downgrade(self);
        let (of, within) = ((self.rank(), self.ranks()), within.min(self.within() / 2));
        let new = Collectives::of_rank(self.device(), of, id, within, session)?;
        Ok(Arc::new(new))
    }

    /// Gives up: tells the other ranks by the meeting, and aborts the collectives, so that the streams of this rank end. Returns the
    /// error to report, which names the rank because of which it is, as far as the meeting knows it.
    pub(super) fn cut(&self, cause: Cause) -> Error {
        let known = match &cause {
            // The meeting has named a rank, and has told it the others.
            Cause::Own(error) if error.lost_rank().is_some() || is_of_order(error) => {
                Some(error.clone())
            }
            Cause::Own(_) | Cause::Background(_) | Cause::Late(_) | Cause::Partial { .. } => {
                self.check().err()
            }
        };
        if let Some(error) = known {
            self.give_up(&error);
            return error;
        }
        let came = self.collectives.progress().came();
        let late = |within: Duration| format!("the collectives were not done within {within:?}");
        let lost = match &cause {
            // The collectives of a rank that waits for an aborted one may end, with a wrong result. So no rank aborts before the
            // others know.
            Cause::Late(_) | Cause::Partial { .. } | Cause::Background(_) => 0,
            Cause::Own(error) => {
                self.collectives.cut(error);
                self.rank() as u64 + 1
            }
        };
        let told = self.exchange_all((Step::GiveUp, came), &[&lost.to_le_bytes()]);
        let error = match (told, cause) {
            (_, Cause::Own(error)) => error,
            (Ok(all), _) if other_order(&all, self.rank()).is_some() => {
                other_order(&all, self.rank()).expect("it was asked").into()
            }
            (Ok(all), cause) => match (of_other(&all, self.rank()), cause) {
                (Err(error), _) => error,
                (Ok(Some(why)), _) => why.into(),
                (Ok(None), Cause::Late(within) | Cause::Partial { within, .. }) => match last(&all)
                {
                    (rank, true) => HostError::NotCome { rank, within }.into(),
                    (rank, false) => HostError::Cut { rank, within }.into(),
                },
                (Ok(None), Cause::Background(error) | Cause::Own(error)) => error,
            },
            (Err(gone), cause) => match (gone.lost_rank(), cause) {
                (Some(rank), cause) => {
                    let gone = gone.to_string();
                    let why = match cause {
                        Cause::Late(within) => late(within),
                        Cause::Partial { rank, .. } => {
                            format!("a collective ended without the part of rank {rank}")
                        }
                        Cause::Background(error) | Cause::Own(error) => error.to_string(),
                    };
                    HostError::Lost { rank, gone, why }.into()
                }
                (None, Cause::Late(_) | Cause::Partial { .. }) => gone,
                (None, Cause::Background(error) | Cause::Own(error)) => error,
            },
        };
        self.give_up(&error);
        error
    }
}

/// Whether ranks have begun their rounds in different orders: all of them have found it in one exchange.
fn is_of_order(error: &Error) -> bool {
    matches!(error.of_host(), Some(HostError::Order { .. }))
}

/// Whether a rank gives up.
fn gives_up(said: &StepSaid) -> bool {
    said.step == Step::GiveUp as u8
}

/// The rank because of which a rank gives up, if it knows it.
fn lost(said: &StepSaid, rank: usize) -> Result<Option<usize>, Error> {
    let [lost] = said.fields::<1>(rank)?;
    let lost = lost[..].try_into().map(u64::from_le_bytes);
    let lost = lost.map_err(|_| MeetingFailure::Foreign { rank })?;
    Ok(lost.checked_sub(1).map(|lost| lost as usize))
}

/// The news that another rank has given up because of a rank that it knows.
fn of_other(all: &[StepSaid], own: usize) -> Result<Option<HostError>, Error> {
    for (rank, said) in all.iter().enumerate() {
        if rank == own || !gives_up(said) {
            continue;
        }
        if let Some(lost) = lost(said, rank)? {
            return Ok(Some(HostError::GaveUp { rank, lost }));
        }
    }
    Ok(None)
}

/// The rank that is the farthest behind, for which the collectives of the others wait, and whether it is behind any other. Of ranks
/// that are equally far one that gives up comes first: it has not ended.
fn last(all: &[StepSaid]) -> (usize, bool) {
    let most = all.iter().map(|said| said.place).max();
    let behind = all.iter().enumerate();
    let behind = behind.min_by_key(|(rank, said)| (said.place, !gives_up(said), *rank));
    behind.map_or((0, false), |(rank, said)| (rank, Some(said.place) < most))
}

/// The news that a rank has given up, for one that takes another step.
pub(super) fn given_up(all: &[StepSaid]) -> Option<Result<HostError, Error>> {
    let rank = all.iter().position(gives_up)?;
    let lost = lost(&all[rank], rank).map(|lost| lost.unwrap_or_else(|| last(all).0));
    Some(lost.map(|lost| HostError::GaveUp { rank, lost }))
}

/// On simulated devices the bytes of a collective go by the meeting.
impl Bring for Session {
    fn rank(&self) -> usize {
        Session::rank(self)
    }

    fn bring(&self, own: &[u8]) -> Result<Vec<Vec<u8>>, Error> {
        let mut all = vec![Vec::new(); self.ranks()];
        for part in own.chunks(PART) {
            let given = self.exchange(Step::Collective, [part])?;
            for (all, [part]) in all.iter_mut().zip(given) {
                all.extend(part);
            }
        }
        Ok(all)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ranks::process::fields::joined;

    /// A rank that gives up because of a rank, or that takes another step.
    fn said(gives_up: Option<u64>, place: u64) -> StepSaid {
        let step = gives_up.map_or(Step::Exchange, |_| Step::GiveUp);
        let lost = gives_up.unwrap_or(0).to_le_bytes();
        StepSaid::of(step, place, joined(&[&lost]))
    }

    /// All places within three rounds of up to four ranks, of which each gives up or takes another step.
    #[test]
    fn law_the_rank_whose_collectives_are_behind_is_named() {
        let mut cases = 0;
        for ranks in 1..=4usize {
            for drawn in 0..6usize.pow(ranks as u32) {
                let of = |rank: usize| drawn / 6usize.pow(rank as u32) % 6;
                let (place, waits) = (|rank| of(rank) as u64 / 2, |rank| of(rank) % 2 == 0);
                let each = (0..ranks).map(|rank| said(waits(rank).then_some(0), place(rank)));
                let all: Vec<StepSaid> = each.collect();
                let (named, is_behind) = last(&all);
                assert!((0..ranks).all(|rank| place(rank) >= place(named)));
                assert_eq!(is_behind, (0..ranks).any(|rank| place(rank) > place(named)));
                // A rank that gives up has not ended, and comes before one that has.
                let is_as_far = |rank: &usize| place(*rank) == place(named);
                assert!(waits(named) || !(0..ranks).filter(is_as_far).any(waits));
                let mut before = (0..named).filter(is_as_far);
                assert!(!before.any(|rank| waits(rank) == waits(named)));
                let first = (0..ranks).find(|rank| waits(*rank));
                let heard = first.map(|rank| HostError::GaveUp { rank, lost: named });
                assert_eq!(given_up(&all).transpose().ok().flatten(), heard);
                for own in 0..ranks {
                    assert_eq!(of_other(&all, own).ok().flatten(), None);
                }
                cases += 1;
            }
        }
        println!("law the_rank_whose_collectives_are_behind_is_named: {cases} cases");
    }

    #[test]
    fn law_a_rank_that_knows_why_it_gives_up_is_heard() {
        let mut cases = 0;
        for ranks in 2..=4usize {
            for rank in 0..ranks {
                for lost in 0..ranks {
                    let each = (0..ranks).map(|of| {
                        let why = if of == rank { lost as u64 + 1 } else { 0 };
                        said(Some(why), of as u64)
                    });
                    let all: Vec<StepSaid> = each.collect();
                    let news = HostError::GaveUp { rank, lost };
                    for own in 0..ranks {
                        let expected = (own != rank).then(|| news.clone());
                        assert_eq!(of_other(&all, own).ok().flatten(), expected);
                        cases += 1;
                    }
                }
            }
        }
        println!("law a_rank_that_knows_why_it_gives_up_is_heard: {cases} cases");
    }
}
