//! `Signals`: what ranks of different processes tell each other on their devices, round by round.

use std::thread;
use std::time::{Duration, Instant};

use colex_device::{Buffer, Device, Flags};

use crate::error::{Error, HostError};
use crate::ranks::host::devices::RELEASE;

/// What a flag says: the round to which a rank has come, the last round in which it is done with the memory of the owner of the flag
/// (the owner itself: with the round), the last round whose sums it has brought there (the owner itself: as before), and that it has given up,
/// with the number of the rank because of which, counted from 1.
#[derive(Clone, Copy)]
enum Signal {
    Came = 0,
    Done = 1,
    Brought = 2,
    GaveUp = 3,
}

/// The signals of one rank: a flag for each signal of each rank in its memory, and those in the memory of the others.
#[derive(Debug)]
pub(super) struct Signals {
    rank: usize,
    ranks: usize,
    own: Flags,
    /// Of all ranks but this one, with their numbers.
    peers: Vec<(usize, Flags)>,
    /// Whether owners bring their sums to all ranks.
    brings: bool,
    /// How long the simulator waits, whose streams run each call to its end.
    within: Duration,
}

impl Signals {
    pub(super) fn new(
        device: &Device,
        (rank, ranks): (usize, usize),
        (brings, within): (bool, Duration),
    ) -> Result<Signals, Error> {
        Ok(Signals {
            rank,
            ranks,
            own: Flags::new(device, 4 * ranks)?,
            peers: Vec::new(),
            brings,
            within,
        })
    }

    pub(super) fn own(&self) -> &Flags {
        &self.own
    }

    /// Takes the words of another rank, as this rank's work has them.
    pub(super) fn meet(&mut self, rank: usize, words: Buffer<u32>) -> Result<(), Error> {
        self.peers.push((rank, Flags::of(words)?));
        Ok(())
    }

    fn index(&self, signal: Signal, rank: usize) -> usize {
        signal as usize * self.ranks + rank
    }

    /// Tells all others, after the earlier work of a stream, that this rank has come to a round: its memory may be used.
    pub(super) fn come(&self, stream: &Device, round: u32) -> Result<(), Error> {
        let index = self.index(Signal::Came, self.rank);
        let peers = self.peers.iter().map(|(_, flags)| flags);
        let mut all = peers.chain([&self.own]);
        all.try_for_each(|flags| Ok(flags.set(stream, index, round)?))
    }

    /// Notes, after the earlier work of a stream, that this rank has ended a round.
    pub(super) fn end(&self, stream: &Device, round: u32) -> Result<(), Error> {
        for signal in [Signal::Done, self.last()] {
            let index = self.index(signal, self.rank);
            self.own.set(stream, index, round)?;
        }
        Ok(())
    }

    /// What a rank says last in a round.
    fn last(&self) -> Signal {
        if self.brings {
            Signal::Brought
        } else {
            Signal::Done
        }
    }

    /// Tells another rank, after the earlier work of a stream, that this rank is done with its memory in a round.
    pub(super) fn done(&self, stream: &Device, rank: usize, round: u32) -> Result<(), Error> {
        self.say(stream, (Signal::Done, rank), round)
    }

    /// Tells another rank, after the earlier work of a stream, that this rank has brought its sums of a round there.
    pub(super) fn brought(&self, stream: &Device, rank: usize, round: u32) -> Result<(), Error> {
        self.say(stream, (Signal::Brought, rank), round)
    }

    fn say(
        &self,
        stream: &Device,
        (signal, rank): (Signal, usize),
        round: u32,
    ) -> Result<(), Error> {
        let index = self.index(signal, self.rank);
        let mut peers = self.peers.iter();
        match peers.find(|(peer, _)| *peer == rank) {
            Some((_, flags)) => Ok(flags.set(stream, index, round)?),
            None => Ok(()),
        }
    }

    /// Makes the later work of a stream wait until another rank has come to a round.
    pub(super) fn await_one(&self, stream: &Device, rank: usize, round: u32) -> Result<(), Error> {
        self.wait(stream, (Signal::Came, rank), round)
    }

    /// Makes the later work of a stream wait until all others have come to a round.
    pub(super) fn await_all(&self, stream: &Device, round: u32) -> Result<(), Error> {
        self.await_each(stream, Signal::Came, round)
    }

    /// Makes the later work of a stream wait until another rank is done with this rank's memory in a round.
    pub(super) fn await_done_by(
        &self,
        stream: &Device,
        rank: usize,
        round: u32,
    ) -> Result<(), Error> {
        self.wait(stream, (Signal::Done, rank), round)
    }

    /// Makes the later work of a stream wait until all others are done with this rank's memory in a round.
    pub(super) fn await_done(&self, stream: &Device, round: u32) -> Result<(), Error> {
        self.await_each(stream, Signal::Done, round)
    }

    /// Makes the later work of a stream wait until all others have brought their sums of a round here.
    pub(super) fn await_brought(&self, stream: &Device, round: u32) -> Result<(), Error> {
        self.await_each(stream, Signal::Brought, round)
    }

    fn await_each(&self, stream: &Device, signal: Signal, round: u32) -> Result<(), Error> {
        let mut peers = self.peers.iter();
        peers.try_for_each(|(rank, _)| self.wait(stream, (signal, *rank), round))
    }

    fn wait(
        &self,
        stream: &Device,
        (signal, rank): (Signal, usize),
        round: u32,
    ) -> Result<(), Error> {
        let index = self.index(signal, rank);
        if stream.is_simulator() {
            self.poll(index, round)?;
        }
        Ok(self.own.wait(stream, index, round)?)
    }

    /// Waits on the host until a flag has a round: the other ranks are threads that share the simulated device.
    fn poll(&self, index: usize, round: u32) -> Result<(), Error> {
        let start = Instant::now();
        loop {
            let words = self.own.values(RELEASE)?;
            if words[index] >= round {
                return Ok(());
            }
            if let Some(why) = self.given_up(&words) {
                return Err(why.into());
            }
            if start.elapsed() >= self.within {
                return Err(self.late(&words, self.within).into());
            }
            thread::sleep(Duration::from_micros(200));
        }
    }

    /// Reads the words of this rank, beside all work.
    pub(super) fn values(&self) -> Result<Vec<u32>, Error> {
        Ok(self.own.values(RELEASE)?)
    }

    fn others(&self) -> impl Iterator<Item = usize> {
        (0..self.ranks).filter(|rank| *rank != self.rank)
    }

    /// The news that another rank has given up.
    pub(super) fn given_up(&self, words: &[u32]) -> Option<HostError> {
        self.others().find_map(|rank| {
            let lost = words[self.index(Signal::GaveUp, rank)].checked_sub(1)? as usize;
            Some(HostError::GaveUp { rank, lost })
        })
    }

    /// Which rank holds up the others: the one that is the farthest behind. Rounds after it wait for it, on all ranks.
    pub(super) fn late(&self, words: &[u32], within: Duration) -> HostError {
        let said = |rank: usize, signal: Signal| words[self.index(signal, rank)];
        let place = |rank: usize| [Signal::Came, self.last()].map(|signal| said(rank, signal));
        // A rank that has sent no terms holds up the owners that would bring sums. Of two that are equally far this rank is the second: it ends a round
        // after the others.
        let behind = self.others().min_by_key(|rank| {
            let [came, last] = place(*rank);
            [came, said(*rank, Signal::Done), last]
        });
        let rank = match behind {
            Some(rank) if place(rank) <= place(self.rank) => rank,
            _ => self.rank,
        };
        match place(rank) {
            [came, last] if last < came => HostError::Unfinished {
                rank,
                round: came,
                within,
                products: 1,
            },
            [came, _] => HostError::Absent {
                rank,
                round: came.saturating_add(1),
                within,
                products: 1,
            },
        }
    }

    /// Tells all others at once that this rank gives up, because of some rank.
    pub(super) fn tell(&self, lost: usize) -> Result<(), Error> {
        let index = self.index(Signal::GaveUp, self.rank);
        let each = self.peers.iter();
        let told = each.map(|(_, flags)| flags.set_now(index, lost as u32 + 1, RELEASE));
        // Each of them is told, also after one that cannot be.
        let told: Vec<_> = told.collect();
        Ok(told.into_iter().collect::<Result<(), _>>()?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// All places of all ranks within two rounds, of products that bring sums to all ranks and of others.
    #[test]
    fn law_the_rank_that_is_the_farthest_behind_is_named() {
        let device = Device::simulator(colex_atom::Arch::Sm90a);
        let within = Duration::from_millis(5);
        // Came, done and brought: between two rounds, or in one. A rank notes at its own end that it is done.
        let of_sums = [[5, 5, 5], [6, 5, 5], [6, 6, 5], [6, 6, 6], [7, 6, 6]];
        let others = [[5, 5, 0], [6, 5, 0], [6, 6, 0], [7, 6, 0]];
        let mut cases = 0;
        for (brings, places) in [(false, &others[..]), (true, &of_sums)] {
            let last = if brings { 2 } else { 1 };
            for ranks in 1..=4usize {
                for rank in 0..ranks {
                    let signals = Signals::new(&device, (rank, ranks), (brings, within));
                    let signals = signals.expect("memory");
                    for drawn in 0..places.len().pow(ranks as u32) {
                        let place =
                            |of: usize| places[drawn / places.len().pow(of as u32) % places.len()];
                        let [_, done, brought] = place(rank);
                        if brings && done != brought {
                            continue;
                        }
                        let signal = |at: usize| (0..ranks).map(move |of| place(of)[at]);
                        let mut words: Vec<u32> = (0..3).flat_map(signal).collect();
                        words.resize(4 * ranks, 0);
                        let (named, sentence) = match signals.late(&words, within) {
                            HostError::Absent { rank, round, .. } => (rank, [round - 1, round - 1]),
                            HostError::Unfinished { rank, round, .. } => (rank, [round, round - 1]),
                            other => panic!("{other}"),
                        };
                        let end = |of: usize| [place(of)[0], place(of)[last]];
                        assert_eq!(sentence, end(named));
                        assert!((0..ranks).all(|of| end(of) >= end(named)));
                        // A rank that has sent no terms comes before one that has, and both before this one.
                        let is_as_far = |of: usize| of != rank && end(of) == end(named);
                        assert!(named != rank || !(0..ranks).any(is_as_far));
                        assert!(!(0..ranks).any(|of| is_as_far(of) && place(of) < place(named)));
                        assert_eq!(signals.given_up(&words), None);
                        for other in (0..ranks).filter(|other| *other != rank) {
                            let mut words = words.clone();
                            words[3 * ranks + other] = 1 + rank as u32;
                            let lost = rank;
                            let expected = HostError::GaveUp { rank: other, lost };
                            assert_eq!(signals.given_up(&words), Some(expected));
                        }
                        cases += 1;
                    }
                }
            }
        }
        println!("law the_rank_that_is_the_farthest_behind_is_named: {cases} cases");
    }
}
