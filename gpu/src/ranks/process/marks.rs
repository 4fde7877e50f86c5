//! `Marks`: what shows that a round by NCCL has the parts of all ranks, and that all have run their rounds in one order.
//!
//! A collective of NCCL may end without the part of a rank: on four H200, after one rank had aborted its communicator, the collective of
//! its neighbour ended, with a wrong result and without an error. And if a rank runs the rounds of two products in another order, the
//! collectives of one product take the numbers of the other. So behind the collectives of each round, each rank gives all others the number of its
//! rounds so far and a digest of their order. A rank whose part is missing has not given this mark, and no other rank can give it.

use colex_device::{Buffer, Device};

use crate::error::Error;
use crate::ranks::host::collective::Collectives;

/// The digits of a mark, one byte each: the number of the round, then the digest of the order.
const DIGITS: usize = 8;

#[derive(Debug)]
pub(super) struct Marks {
    own: Buffer<u32>,
    /// The digits of rank 0, then those of rank 1, and so on.
    all: Buffer<u32>,
    /// The digits in `own`.
    digits: [u8; DIGITS],
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
            digits: [0; DIGITS],
        }))
    }

    /// Enqueues the mark of a round behind the earlier work of a stream.
    pub(super) fn enqueue(
        &mut self,
        device: &Device,
        collectives: &Collectives,
        [round, order]: [u32; 2],
    ) -> Result<(), Error> {
        let mut new = [0; DIGITS];
        new[..4].copy_from_slice(&round.to_le_bytes());
        new[4..].copy_from_slice(&order.to_le_bytes());
        // A write from the host would wait for the stream; a fill does not.
        let old = self.digits;
        for at in (0..DIGITS).filter(|at| old[*at] != new[*at]) {
            self.own.slice(at..at + 1)?.fill_bytes(new[at])?;
        }
        self.digits = new;
        collectives.gather_words(device, &self.own, &self.all)
    }

    /// Returns the first rank whose mark of the last round is missing or another one, once the stream is done.
    pub(super) fn missing(&self) -> Result<Option<usize>, Error> {
        let expected = self.digits.map(|byte| u32::from_ne_bytes([byte; 4]));
        let all = self.all.download()?;
        Ok(all.chunks(DIGITS).position(|mark| *mark != expected))
    }
}
