//! `NcclCall`: the product of one rank beside those of other processes, whose data collectives of NCCL bring. It needs no memory of
//! the others.

use std::mem;
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::call::{LOOK, ProcessWork, SaidWork, agreed, ended, fields_of, printed, said_by};
use super::collectives::Cause;
use super::marks::Marks;
use super::rounds::RoundOf;
use super::session::{LiveProduct, Session, Step};
use crate::error::{Error, HostError};
use crate::ranks::host::collective::Collectives;
use crate::ranks::host::devices::RELEASE;

/// A product of this rank by NCCL.
#[derive(Debug)]
pub(super) struct NcclCall<T, C> {
    session: Arc<Session>,
    /// The number of the product, the same on all ranks.
    number: u64,
    collectives: Arc<Collectives>,
    /// The work, until the end.
    work: Option<Box<dyn ProcessWork<T, C>>>,
    /// What shows that a round has the parts of all ranks; `None` on simulated devices.
    marks: Option<Marks>,
    /// The longest time in which NCCL begins a collective.
    begins: Duration,
    /// The rounds of this product, and those of all products up to the last of them.
    rounds: u32,
    begun: u64,
    /// Whether rounds were enqueued after the last wait.
    is_pending: bool,
}

impl<T, C> NcclCall<T, C> {
    /// Begins a product with all ranks, from this rank's part of it and the words that must be the same on all.
    pub(super) fn new(
        session: &Arc<Session>,
        made: Result<SaidWork<T, C>, Error>,
        within: Duration,
    ) -> Result<NcclCall<T, C>, Error> {
        session.check()?;
        let own = made.and_then(|(words, work)| {
            let marks = Marks::new(&work.member().device, session.ranks())?;
            Ok((words, (work, marks), session.id()?))
        });
        let fields = match &own {
            Ok((words, _, id)) => fields_of(words, id.clone(), Vec::new()),
            Err(why) => said_by(why),
        };
        let all = session.exchange(Step::Begin, fields.each_ref().map(Vec::as_slice))?;
        let (_, (work, marks), _) = own?;
        let id = agreed(&all)?[0][0];

        // A rank that fails tells it in the next exchange.
        let opened = session.open_collectives(id, within);
        let why = opened.as_ref().err().map(Error::to_string);
        let why = why.unwrap_or_default().into_bytes();
        let is_open = [u8::from(opened.is_ok())];
        let all = session.exchange(Step::Open, [&is_open, &why, &[0]]);
        let collectives = match (opened, &all) {
            (Ok(collectives), _) => collectives,
            // The meeting knows the rank that NCCL has waited for.
            (Err(_), Err(gone)) if gone.lost_rank().is_some() => return Err(gone.clone()),
            (Err(own), _) => return Err(own),
        };
        let refused = all.and_then(|all| {
            let refused = all.iter().position(|[is_open, ..]| is_open[..] != [1]);
            match refused {
                Some(rank) => {
                    let why = printed(&all[rank][1]);
                    Err(HostError::Refused { rank, why }.into())
                }
                None => Ok(()),
            }
        });
        // Without one of the ranks its collectives never begin.
        refused.inspect_err(|why| {
            collectives.cut(why).has_ended(RELEASE);
        })?;
        session.collectives.keep(&collectives);
        let number = session.opened();
        let (member, flags) = (work.member().clone(), work.flags());
        let product = LiveProduct {
            number,
            member,
            flags: flags.into_iter().cloned().collect(),
            signals: None,
        };
        let call = NcclCall {
            session: session.clone(),
            number,
            collectives,
            work: Some(work),
            marks,
            begins: within,
            rounds: 0,
            begun: 0,
            is_pending: false,
        };
        session.begun(product)?;
        Ok(call)
    }

    pub(super) fn work(&self) -> &dyn ProcessWork<T, C> {
        &**self.work.as_ref().expect("the work goes with the call")
    }

    /// Enqueues a round.
    pub(super) fn run(&mut self) -> Result<(), Error> {
        self.session.check()?;
        self.is_pending = true;
        let ran = self.enqueue();
        ran.map_err(|error| {
            // Ranks connect in their first collective, which does not begin without one of them.
            let is_late = error.device().is_some_and(|error| error.is_deadline());
            self.session.cut(if is_late {
                Cause::Late(self.begins)
            } else {
                Cause::Own(error)
            })
        })
    }

    fn enqueue(&mut self) -> Result<(), Error> {
        let device = self.work().member().device.clone();
        let progress = &self.session.collectives;
        // The place of a round is that of its collectives, also if another thread begins one.
        let _order = progress.order();
        self.rounds = self.rounds.saturating_add(1);
        let round = RoundOf {
            // Equal numbers are 2^32 products apart.
            product: self.number as u32,
            round: self.rounds,
        };
        let mark = progress.begin(&device, round)?;
        self.begun = progress.begun();
        self.work().enqueue_by_nccl(&self.collectives)?;
        match &mut self.marks {
            Some(marks) => marks.enqueue(&device, &self.collectives, mark),
            None => Ok(()),
        }
    }

    /// Waits until the rounds so far are done on this rank, for at most `within`.
    pub(super) fn wait(&mut self, within: Duration) -> Result<(), Error> {
        self.session.check()?;
        let waited = self.look(within);
        self.is_pending &= waited.is_err();
        waited.map_err(|cause| self.session.cut(cause))
    }

    fn look(&self, within: Duration) -> Result<(), Cause> {
        let start = Instant::now();
        let member = self.work().member();
        loop {
            let left = within.saturating_sub(start.elapsed());
            let is_done = ended(member, left.min(LOOK)).map_err(Cause::Own)?;
            // In another thread another product of this rank may have failed: then the collectives are aborted.
            self.session.check().map_err(Cause::Own)?;
            self.collectives.check().map_err(Cause::Background)?;
            if is_done && self.all_took_part(within)? {
                return Ok(());
            }
            if left.is_zero() {
                return Err(Cause::Late(within));
            }
        }
    }
}

impl<T, C> NcclCall<T, C> {
    /// Checks, once the streams are done, that the last round has the parts of all ranks. Returns false if another thread has given the
    /// streams more work since, whose end a read would wait for.
    fn all_took_part(&self, within: Duration) -> Result<bool, Cause> {
        let Some(marks) = self.marks.as_ref().filter(|_| self.is_pending) else {
            return Ok(true);
        };
        let order = self.session.collectives.try_order();
        let is_done = ended(self.work().member(), Duration::ZERO).map_err(Cause::Own)?;
        if order.is_none() || !is_done {
            std::thread::sleep(Duration::from_millis(1));
            return Ok(false);
        }
        match marks.missing().map_err(Cause::Own)? {
            None => {
                self.session.collectives.agreed(self.begun);
                Ok(true)
            }
            Some(rank) => Err(Cause::Partial { rank, within }),
        }
    }
}

impl<T, C> Drop for NcclCall<T, C> {
    fn drop(&mut self) {
        if self.is_pending && !self.session.has_failed() {
            // An error is told to the other ranks; a destructor returns none.
            let _ = self.wait(self.session.within());
        }
        let is_stuck = self.session.ended(self.number);
        let work = self.work.take();
        if is_stuck {
            // A device that frees memory waits for its streams, which do not end.
            mem::forget((work, self.marks.take()));
            return;
        }
        drop(work);
        // No other rank has any of its memory.
        self.session.closed(self.number, false, Box::new(()));
    }
}
