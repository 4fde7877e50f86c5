//! `Signals`: what ranks of different processes tell each other on their devices, round by round.

use std::thread;
use std::time::{Duration, Instant};

use colex_device::{Buffer, Device, Flags};

use crate::error::{Error, HostError};
use crate::ranks::host::devices::RELEASE;

/// What a flag says: the round to which a rank has come, the round in which it is done with the memory of the owner of the flag, and
/// that it has given up, with the number of the rank because of which, counted from 1.
#[derive(Clone, Copy)]
enum Signal {
    Came = 0,
    Done = 1,
    GaveUp = 2,
}

/// The signals of one rank: a flag for each signal of each rank in its memory, and those in the memory of the others.
#[derive(Debug)]
pub(super) struct Signals {
    rank: usize,
    ranks: usize,
    own: Flags,
    /// Of all ranks but this one, with their numbers.
    peers: Vec<(usize, Flags)>,
    /// How long the simulator waits, whose streams run each call to its end.
    within: Duration,
}

impl Signals {
    pub(super) fn new(
        device: &Device,
        (rank, ranks): (usize, usize),
        within: Duration,
    ) -> Result<Signals, Error> {
        Ok(Signals {
            rank,
            ranks,
            own: Flags::new(device, 3 * ranks)?,
            peers: Vec::new(),
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

    /// Gives back the words of the others.
    pub(super) fn part(&mut self) {
        self.peers.clear();
    }

    fn index(&self, signal: Signal, rank: usize) -> usize {
        signal as usize * self.ranks + rank
    }

    /// Tells all others, after the earlier work of a stream, that this rank has come to a round: its memory may be used.
    pub(super) fn come(&self, stream: &Device, round: u32) -> Result<(), Error> {
        let index = self.index(Signal::Came, self.rank);
        let mut peers = self.peers.iter();
        peers.try_for_each(|(_, flags)| Ok(flags.set(stream, index, round)?))
    }

    /// Tells another rank, after the earlier work of a stream, that this rank is done with its memory in a round.
    pub(super) fn done(&self, stream: &Device, rank: usize, round: u32) -> Result<(), Error> {
        let index = self.index(Signal::Done, self.rank);
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
        let mut peers = self.peers.iter();
        peers.try_for_each(|(rank, _)| self.wait(stream, (Signal::Came, *rank), round))
    }

    /// Makes the later work of a stream wait until all others are done with this rank's memory in a round.
    pub(super) fn await_done(&self, stream: &Device, round: u32) -> Result<(), Error> {
        let mut peers = self.peers.iter();
        peers.try_for_each(|(rank, _)| self.wait(stream, (Signal::Done, *rank), round))
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
                return Err(self.late(&words, round, self.within).into());
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

    /// Which rank holds up a round.
    pub(super) fn late(&self, words: &[u32], round: u32, within: Duration) -> HostError {
        let behind = |signal: Signal| {
            self.others()
                .map(|rank| (rank, words[self.index(signal, rank)]))
                .find(|(_, found)| *found < round)
        };
        if let Some((rank, found)) = behind(Signal::Came) {
            let round = found + 1;
            return HostError::Absent {
                rank,
                round,
                within,
            };
        }
        let (rank, round) = match behind(Signal::Done) {
            Some((rank, found)) => (rank, found + 1),
            None => (self.rank, round),
        };
        HostError::Unfinished {
            rank,
            round,
            within,
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
