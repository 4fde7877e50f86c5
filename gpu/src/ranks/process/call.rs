//! `RankCall`: the product of one rank beside those of other processes, from its first exchange to its end.

use core::any::Any;
use core::fmt;
use std::mem;
use std::sync::Arc;
use std::time::{Duration, Instant};

use colex_layout::Layout;

use super::fields::{joined, split_all};
use super::session::{LiveProduct, Session, Step};
use super::shared::{self, SharedBuffer};
use super::signals::Signals;
use crate::error::{Error, HostError, MeetingFailure, RankError};
use crate::ranks::host::collective::Collectives;
use crate::ranks::work::{Member, RankWork};

/// The work of a rank, as a process of its own drives it.
pub(super) trait ProcessWork<T, C>: RankWork<T, C> + fmt::Debug + Send {
    /// Whether the owners bring their sums to all ranks.
    fn brings(&self) -> bool;

    /// Shares the memory that the other ranks use. They may open it until what is returned is dropped.
    fn share(&self) -> Result<Vec<SharedBuffer>, Error>;

    /// Takes what a rank has shared, rank by rank, this one included. Returns whether another process has it.
    fn meet(&mut self, rank: usize, memory: &[&[u8]]) -> Result<bool, Error>;

    /// Closes the memory of all ranks, and returns this rank's that they used.
    fn close(&mut self) -> Box<dyn Any + Send>;

    /// Enqueues a round of this rank.
    fn enqueue(&self, signals: &Signals, round: u32) -> Result<(), Error>;

    /// Enqueues a round of this rank on a path of NCCL.
    fn enqueue_by_nccl(&self, collectives: &Collectives) -> Result<(), Error>;

    /// The layout of the gathered A.
    fn gathered_layout(&self) -> Result<Layout, Error>;
}

/// The time between two looks at whether another rank has given up.
pub(super) const LOOK: Duration = Duration::from_millis(20);

/// A product of this rank.
#[derive(Debug)]
pub(super) struct RankCall<T, C> {
    session: Arc<Session>,
    /// The number of the product, the same on all ranks.
    number: u64,
    /// Whether another process has this rank's memory open.
    is_open: bool,
    /// The work and its signals, until the end.
    parts: Option<RankParts<T, C>>,
    round: u32,
    /// Whether rounds were enqueued after the last wait.
    is_pending: bool,
}

/// The work of a rank, and its signals.
type RankParts<T, C> = (Box<dyn ProcessWork<T, C>>, Arc<Signals>);

/// What a rank says of its product: whether it has a part of it, the product in words or why there is none, and by what the others
/// open its memory and its signals, or the collectives.
pub(super) type Begun = [Vec<u8>; 4];

/// What a rank says of its part.
pub(super) fn fields_of(words: &str, memory: Vec<u8>, signals: Vec<u8>) -> Begun {
    [vec![1], words.as_bytes().to_vec(), memory, signals]
}

/// What a rank says that has no part.
pub(super) fn said_by(why: &Error) -> Begun {
    [vec![0], why.to_string().into_bytes(), vec![], vec![]]
}

/// The words of another rank, as a sentence prints them.
pub(super) fn printed(words: &[u8]) -> String {
    colex_ir::Escaped(&String::from_utf8_lossy(words)).to_string()
}

/// This rank's part of a product, behind the words that must be the same on all ranks.
pub(super) type SaidWork<T, C> = (String, Box<dyn ProcessWork<T, C>>);

impl<T, C> RankCall<T, C> {
    /// Begins a product with all ranks, from this rank's part of it and the words that must be the same on all. If no rank has asked
    /// for the path, `is_free`, and one cannot open the memory of the others, all of them note that.
    pub(super) fn new(
        session: &Arc<Session>,
        made: Result<SaidWork<T, C>, Error>,
        is_free: bool,
    ) -> Result<RankCall<T, C>, Error> {
        session.check()?;
        let own = made.and_then(|(words, work)| {
            let of = (session.rank(), session.ranks());
            let signals = Signals::new(session.device(), of, (work.brings(), session.within()))?;
            let memory = work.share()?;
            let flags = SharedBuffer::new(signals.own().buffer())?;
            Ok((words, work, signals, memory, flags))
        });
        let fields = match &own {
            Ok((words, _, _, memory, signals)) => {
                let memory: Vec<_> = memory.iter().map(SharedBuffer::to_bytes).collect();
                let memory: Vec<&[u8]> = memory.iter().map(Vec::as_slice).collect();
                fields_of(words, joined(&memory), signals.to_bytes())
            }
            Err(why) => said_by(why),
        };
        let all = session.exchange(Step::Begin, fields.each_ref().map(Vec::as_slice))?;
        let (_, work, signals, memory, flags) = own?;
        let shared = (memory, flags);
        let memory = agreed(&all)?;

        // From here on the others may have this rank's memory open.
        let mut call = RankCall {
            session: session.clone(),
            number: session.opened(),
            // Until it is known: the others may open it although this rank cannot open theirs.
            is_open: true,
            parts: Some((work, Arc::new(signals))),
            round: 0,
            is_pending: false,
        };
        let opened = call.open(&memory);
        let why = opened.as_ref().err().map(Error::to_string);
        let why = why.unwrap_or_default().into_bytes();
        let is_open = [u8::from(opened.is_ok())];
        let free = [u8::from(is_free)];
        let all = session.exchange(Step::Open, [&is_open, &why, &free])?;
        drop(shared);
        let refused = all.iter().position(|[is_open, ..]| is_open[..] != [1]);
        let refused = refused.map(|rank| (rank, printed(&all[rank][1])));
        if let Some((rank, why)) = refused.clone()
            && all.iter().all(|[.., free]| free[..] == [1])
        {
            session.facts().no_access = Some(HostError::Closed { rank, why });
        }
        opened?;
        if let Some((rank, why)) = refused {
            return Err(HostError::Refused { rank, why }.into());
        }
        let (work, signals) = call.parts();
        session.begun(LiveProduct {
            number: call.number,
            member: work.member().clone(),
            flags: work.flags().into_iter().cloned().collect(),
            signals: Some(signals.clone()),
        })?;
        Ok(call)
    }

    /// Opens the memory of the others.
    fn open(&mut self, memory: &[[&[u8]; 2]]) -> Result<(), Error> {
        let own = self.session.rank();
        let Some((work, signals)) = &mut self.parts else {
            return Ok(());
        };
        let signals = Arc::get_mut(signals).expect("no other has them yet");
        let device = work.member().device.clone();
        let mut is_any_open = false;
        for (rank, [memory, words]) in memory.iter().enumerate() {
            let foreign = MeetingFailure::Foreign { rank };
            is_any_open |= work.meet(rank, &split_all(memory).ok_or(foreign)?)?;
            if rank == own {
                continue;
            }
            let (words, _) = shared::open(&device, rank, words)?;
            if words.len() != signals.own().len() {
                return Err(foreign.into());
            }
            signals.meet(rank, words)?;
        }
        self.is_open = is_any_open;
        Ok(())
    }

    fn parts(&self) -> &RankParts<T, C> {
        self.parts.as_ref().expect("the parts go with the call")
    }

    pub(super) fn work(&self) -> &dyn ProcessWork<T, C> {
        &*self.parts().0
    }

    /// Enqueues a round.
    pub(super) fn run(&mut self) -> Result<(), Error> {
        self.session.check()?;
        self.round = self.round.saturating_add(1);
        self.is_pending = true;
        let (work, signals) = self.parts();
        let ran = work.enqueue(signals, self.round);
        let ran = ran.and_then(|()| signals.end(&work.member().device, self.round));
        let ran = ran.map_err(|why| self.session.or_order(why));
        ran.inspect_err(|why| self.session.give_up(why))
    }

    /// Waits until the rounds so far are done on this rank, for at most `within`.
    pub(super) fn wait(&mut self, within: Duration) -> Result<(), Error> {
        self.session.check()?;
        let waited = self.look(within);
        let waited = waited.map_err(|why| self.session.or_order(why));
        self.is_pending &= waited.is_err();
        waited.inspect_err(|why| self.session.give_up(why))
    }

    fn look(&self, within: Duration) -> Result<(), Error> {
        let start = Instant::now();
        let (work, signals) = self.parts();
        loop {
            let left = within.saturating_sub(start.elapsed());
            let is_done = ended(work.member(), left.min(LOOK))?;
            let words = signals.values()?;
            // In another thread another product of this rank may have failed: then these words are released.
            self.session.check()?;
            // Work that went on after another rank gave up has memory that was never written for it.
            if let Some(why) = signals.given_up(&words) {
                return Err(why.into());
            }
            if is_done {
                return Ok(());
            }
            if left.is_zero() {
                return Err(signals.late(&words, within).into());
            }
        }
    }
}

/// Whether the streams of a rank have ended within a time.
pub(super) fn ended(member: &Member, within: Duration) -> Result<bool, Error> {
    let start = Instant::now();
    for stream in [&member.copies, &member.news, &member.device] {
        let left = within.saturating_sub(start.elapsed());
        match stream.synchronize_within(left) {
            Ok(()) => {}
            Err(error) if error.is_deadline() => return Ok(false),
            Err(error) => return Err(error.into()),
        }
    }
    Ok(true)
}

/// The memory of all ranks, if all have the same product.
pub(super) fn agreed(all: &[Begun]) -> Result<Vec<[&[u8]; 2]>, Error> {
    let mut first: Option<&[u8]> = None;
    let mut of_all = Vec::new();
    for (rank, [has_part, words, memory, signals]) in all.iter().enumerate() {
        if has_part[..] != [1] {
            let why = printed(words);
            return Err(HostError::Refused { rank, why }.into());
        }
        let first = *first.get_or_insert(words);
        if words != first {
            return Err(RankError::Disagree {
                rank,
                problem: printed(words),
                first: printed(first),
            }
            .into());
        }
        of_all.push([&memory[..], signals]);
    }
    Ok(of_all)
}

impl<T, C> Drop for RankCall<T, C> {
    fn drop(&mut self) {
        if self.is_pending && !self.session.has_failed() {
            // An error is told to the other ranks; a destructor returns none.
            let _ = self.wait(self.session.within());
        }
        let is_stuck = self.session.ended(self.number);
        let Some((mut work, signals)) = self.parts.take() else {
            return;
        };
        match Arc::into_inner(signals) {
            Some(signals) if !is_stuck => {
                let kept = (work.close(), signals.own().clone());
                drop((work, signals));
                let (number, is_open) = (self.number, self.is_open);
                self.session.closed(number, is_open, Box::new(kept));
            }
            // A device that frees memory waits for its streams, which do not end.
            signals => mem::forget((work, signals)),
        }
    }
}
