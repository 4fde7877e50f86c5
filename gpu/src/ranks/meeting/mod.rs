//! `Meeting`: what ranks tell each other on the host.

mod frame;
mod link;
mod tcp;

use core::fmt;
use std::time::{Duration, Instant};

use super::plan::RankPlan;
use super::problem::RankProblem;
use crate::error::{Error, MeetingFailure, RankError};
use frame::{Frame, FrameKind};
use link::Link;

/// The time of rank 0 in a call of a meeting: three quarters, so that it tells the others before their time is over.
fn of_rank_0(within: Duration) -> Duration {
    within - within / 4
}

/// The longest time that is counted: no clock counts [`Duration::MAX`] from now.
const CENTURY: Duration = Duration::from_secs(100 * 365 * 24 * 3600);

/// The most bytes of a message of a rank: those of a caller, and 64 KiB that the library puts beside them.
const MOST_FRAME: usize = Meeting::MOST_BYTES + (1 << 16);

/// The instant at which a time from now on is over, at the latest in a century.
fn after(within: Duration) -> Instant {
    Instant::now() + within.min(CENTURY)
}

/// What ranks tell each other on the host before and between products: addresses of memory, identifiers, problems.
///
/// The ranks are threads of one process ([`local`](Meeting::local)), or processes that are connected by TCP, also of
/// several hosts ([`listen`](Meeting::listen) for rank 0, [`join`](Meeting::join) for the others). All ranks make the same
/// calls in the same order. Every call ends: if a rank does not come or is gone, rank 0 gives up after three quarters of
/// the time and tells the others which rank it was; they wait for the whole of it. A meeting that has failed is over.
///
/// The connections are neither encrypted nor authenticated: listen where only the ranks can connect.
///
/// ```
/// use colex_gpu::ranks::Meeting;
/// use std::time::Duration;
///
/// let meetings = Meeting::local(3, Duration::from_secs(10))?;
/// let rank = |mut meeting: Meeting| {
///     meeting.barrier()?;
///     meeting.exchange(&[meeting.rank() as u8; 2])
/// };
/// let threads: Vec<_> = meetings.into_iter().map(|it| std::thread::spawn(move || rank(it))).collect();
/// for thread in threads {
///     assert_eq!(thread.join().expect("nothing panics")?, [[0; 2], [1; 2], [2; 2]]);
/// }
/// # Ok::<(), colex_gpu::Error>(())
/// ```
#[derive(Debug)]
pub struct Meeting {
    rank: usize,
    ranks: usize,
    within: Duration,
    /// Of rank 0 to the others in order, and of another rank to rank 0.
    links: Vec<Link>,
    /// The number of calls so far.
    calls: u32,
    failure: Option<MeetingFailure>,
}

impl Meeting {
    /// The most ranks of a meeting.
    pub const MOST_RANKS: usize = 1 << 12;

    /// The most bytes that a rank gives to an exchange.
    pub const MOST_BYTES: usize = 1 << 20;

    /// Returns the meetings of the ranks of one process, rank 0 first, one for each thread. A call ends after at most
    /// `within`.
    ///
    /// ```
    /// use colex_gpu::ranks::Meeting;
    /// use std::time::Duration;
    ///
    /// let mut alone = Meeting::local(1, Duration::from_secs(1))?.remove(0);
    /// assert_eq!(alone.exchange(b"own")?, [b"own"]);
    /// # Ok::<(), colex_gpu::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// Returns an error for 0 ranks and for more than [`MOST_RANKS`](Meeting::MOST_RANKS).
    pub fn local(ranks: usize, within: Duration) -> Result<Vec<Meeting>, Error> {
        Meeting::check(0, ranks)?;
        let (own, others): (Vec<Link>, Vec<Link>) = (1..ranks).map(|_| Link::pair()).unzip();
        let other = |(at, link)| Meeting::new(at + 1, ranks, within, vec![link]);
        let mut all = vec![Meeting::new(0, ranks, within, own)];
        all.extend(others.into_iter().enumerate().map(other));
        Ok(all)
    }

    fn new(rank: usize, ranks: usize, within: Duration, links: Vec<Link>) -> Meeting {
        Meeting {
            rank,
            ranks,
            within,
            links,
            calls: 0,
            failure: None,
        }
    }

    /// Checks the number of ranks, and that of a rank.
    fn check(rank: usize, ranks: usize) -> Result<(), RankError> {
        let most = Meeting::MOST_RANKS;
        if ranks == 0 || ranks > most {
            return Err(RankError::Meeting { ranks, most });
        }
        if rank >= ranks {
            return Err(RankError::NoRank { rank, ranks });
        }
        Ok(())
    }

    /// Returns the number of this rank.
    pub fn rank(&self) -> usize {
        self.rank
    }

    /// Returns the number of ranks.
    pub fn ranks(&self) -> usize {
        self.ranks
    }

    /// The longest time of a call.
    pub(crate) fn within(&self) -> Duration {
        self.within
    }

    /// Gives bytes to all ranks, and returns those of every rank, rank 0 first. They may have different lengths.
    ///
    /// # Errors
    ///
    /// Returns an error for more than [`MOST_BYTES`](Meeting::MOST_BYTES), if a rank does not come in time or is gone
    /// ([`lost_rank`](Error::lost_rank)), makes another call, or sends what is no message of a meeting. The meeting is over
    /// after all but the first.
    pub fn exchange(&mut self, own: &[u8]) -> Result<Vec<Vec<u8>>, Error> {
        Meeting::check_bytes(own.len())?;
        self.exchange_framed(own)
    }

    /// Checks the bytes that a rank gives.
    pub(crate) fn check_bytes(bytes: usize) -> Result<(), RankError> {
        let most = Meeting::MOST_BYTES;
        if bytes > most {
            return Err(RankError::Bytes { bytes, most });
        }
        Ok(())
    }

    /// Gives the bytes of a caller and those that the library puts beside them, as [`exchange`](Meeting::exchange) does.
    ///
    /// # Errors
    ///
    /// Returns the errors of [`exchange`](Meeting::exchange).
    pub(crate) fn exchange_framed(&mut self, own: &[u8]) -> Result<Vec<Vec<u8>>, Error> {
        self.call(FrameKind::Exchange, own)
    }

    /// Waits until all ranks have called it.
    ///
    /// # Errors
    ///
    /// Returns the errors of [`exchange`](Meeting::exchange).
    pub fn barrier(&mut self) -> Result<(), Error> {
        self.call(FrameKind::Barrier, &[]).map(drop)
    }

    /// Returns the plan of a product that all ranks are about to compute.
    ///
    /// ```
    /// use colex_gpu::ranks::{Meeting, RankProblem};
    /// use colex_sched::Overlap;
    /// use std::time::Duration;
    ///
    /// let own = RankProblem { overlap: Overlap::GatherProduct, ranks: 2, m: 4, n: 2, k: 3 };
    /// let mut meetings = Meeting::local(2, Duration::from_secs(10))?;
    /// let mut second = meetings.remove(1);
    /// let thread = std::thread::spawn(move || second.agree(RankProblem { k: 4, ..own }));
    /// let sentence = "rank 1 asks for all-gather and product, 4 x 2 x 4 over 2 ranks, and rank 0 for all-gather and \
    ///      product, 4 x 2 x 3 over 2 ranks: all ranks compute one product";
    /// assert_eq!(meetings[0].agree(own).unwrap_err().to_string(), sentence);
    /// assert_eq!(thread.join().expect("nothing panics").unwrap_err().to_string(), sentence);
    /// # Ok::<(), colex_gpu::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// Returns an error that names the first rank with another problem than rank 0, on every rank; those of
    /// [`RankPlan::agreed`] and of [`exchange`](Meeting::exchange).
    pub fn agree(&mut self, problem: RankProblem) -> Result<RankPlan, Error> {
        self.agree_on(&problem)?;
        RankPlan::agreed(&vec![problem; self.ranks])
    }

    /// Checks that all ranks are about to compute the same, by its text.
    ///
    /// # Errors
    ///
    /// Returns an error that names the first rank with another text than rank 0, on every rank, and the errors of
    /// [`exchange`](Meeting::exchange).
    pub fn agree_on(&mut self, problem: &impl fmt::Display) -> Result<(), Error> {
        let all = self.exchange(problem.to_string().as_bytes())?;
        let [first, others @ ..] = &all[..] else {
            return Ok(());
        };
        let Some(at) = others.iter().position(|other| other != first) else {
            return Ok(());
        };
        let text = |bytes: &[u8]| colex_ir::Escaped(&String::from_utf8_lossy(bytes)).to_string();
        Err(RankError::Disagree {
            rank: at + 1,
            problem: text(&others[at]),
            first: text(first),
        }
        .into())
    }

    fn call(&mut self, kind: FrameKind, own: &[u8]) -> Result<Vec<Vec<u8>>, Error> {
        if let Some(failure) = self.failure {
            return Err(RankError::Over(failure).into());
        }
        let (bytes, most) = (own.len(), MOST_FRAME);
        if bytes > most {
            return Err(RankError::Bytes { bytes, most }.into());
        }
        self.calls = self.calls.wrapping_add(1);
        let done = match self.rank {
            0 => self.gather(kind, own),
            _ => self.give(kind, own),
        };
        done.map_err(|failure| {
            self.fail(failure);
            failure.into()
        })
    }

    /// Rank 0 takes the bytes of the others and gives all of them to each.
    fn gather(&mut self, kind: FrameKind, own: &[u8]) -> Result<Vec<Vec<u8>>, MeetingFailure> {
        let within = of_rank_0(self.within);
        let (call, until) = (self.calls, after(within));
        let late = |rank| MeetingFailure::Late {
            rank,
            within,
            strangers: 0,
        };
        let mut all = vec![own.to_vec()];
        for (link, rank) in self.links.iter_mut().zip(1..) {
            let frame = link.receive(rank, MOST_FRAME, until)?;
            let frame = frame.ok_or(late(rank))?;
            frame.check(kind, call, rank)?;
            all.push(frame.bytes);
        }
        let answer = Frame::answer(call, &all);
        for (link, rank) in self.links.iter_mut().zip(1..) {
            link.send(&answer, rank, until)?.ok_or(late(rank))?;
        }
        Ok(all)
    }

    /// Another rank gives its bytes to rank 0 and waits for those of all.
    fn give(&mut self, kind: FrameKind, own: &[u8]) -> Result<Vec<Vec<u8>>, MeetingFailure> {
        let (call, until) = (self.calls, after(self.within));
        let late = MeetingFailure::Late {
            rank: 0,
            within: self.within,
            strangers: 0,
        };
        let most = self.ranks * (MOST_FRAME + 8);
        let link = &mut self.links[0];
        let frame = Frame {
            kind,
            call,
            bytes: own.to_vec(),
        };
        // Even if rank 0 has closed the connection, it may have said why.
        let sent = link.send(&frame, 0, until);
        let answer = match (link.receive(0, most, until), sent) {
            (Ok(Some(answer)), _) => answer,
            (Ok(None), _) => return Err(late),
            (Err(failure), Ok(_)) | (Err(_), Err(failure)) => return Err(failure),
        };
        answer.answered(call, self.ranks)
    }

    /// Ends the meeting; rank 0 tells the others why.
    fn fail(&mut self, failure: MeetingFailure) {
        self.failure = Some(failure);
        let until = after(self.within / 8);
        if self.rank == 0 {
            link::tell(&mut self.links, self.calls, failure, until);
        }
        self.links.clear();
    }
}
