//! `Marks`: what shows that a round by NCCL has the parts of all ranks.
//!
//! A collective of NCCL may end without the part of a rank: on four H200, after one rank had aborted its communicator, the collective of
//! its neighbour ended, with a wrong result and without an error. So each rank gives the number of the round to all others behind the
//! collectives of the round. A rank whose part is missing has not given this number, and no other rank can give it.

use colex_device::{Buffer, Device};

use crate::error::Error;
use crate::ranks::host::collective::Collectives;

/// The digits of a number, one byte each.
const DIGITS: usize = 4;

#[derive(Debug)]
pub(super) struct Marks {
    own: Buffer<u32>,
    /// The digits of rank 0, then those of rank 1, and so on.
    all: Buffer<u32>,
    /// The number in `own`.
    round: u32,
}

impl Marks {
    /// The marks of a rank, on its stream. Simulated devices need none: the meeting brings their bytes, and returns an error.
    pub(super) fn new(device: &Device, ranks: usize) -> Result<Option<Marks>, Error> {
        if device.is_simulator() {
            return Ok(None);
        }
        Ok(Some(Marks {
            own: device.zeros(DIGITS)?,
            all: device.zeros(DIGITS * ranks)?,
            round: 0,
        }))
    }

    /// Enqueues the mark of a round behind the earlier work of a stream.
    pub(super) fn enqueue(
        &mut self,
        device: &Device,
        collectives: &Collectives,
        round: u64,
    ) -> Result<(), Error> {
        // Equal numbers are 2^32 rounds apart.
        let round = round as u32;
        // A write from the host would wait for the stream; a fill does not.
        let (old, new) = (self.round.to_le_bytes(), round.to_le_bytes());
        for at in (0..DIGITS).filter(|at| old[*at] != new[*at]) {
            self.own.slice(at..at + 1)?.fill_bytes(new[at])?;
        }
        self.round = round;
        collectives.gather_words(device, &self.own, &self.all)
    }

    /// Returns the first rank whose mark of the last round is missing, once the stream is done.
    pub(super) fn missing(&self) -> Result<Option<usize>, Error> {
        let expected = self
            .round
            .to_le_bytes()
            .map(|byte| u32::from_ne_bytes([byte; 4]));
        let all = self.all.download()?;
        Ok(all.chunks(DIGITS).position(|mark| *mark != expected))
    }
}
