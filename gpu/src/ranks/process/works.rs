//! What a rank of a process of its own enqueues in a round, and the memory that it shares.

use core::any::Any;
use core::slice;

use colex_device::{Buffer, Element};
use colex_layout::Layout;
use colex_sched::Overlap;

use super::call::ProcessWork;
use super::shared::{self, SharedBuffer};
use super::signals::Signals;
use crate::error::{Error, HostError, MeetingFailure};
use crate::kernels::GemmElement;
use crate::ranks::RankPath;
use crate::ranks::host::by_nccl;
use crate::ranks::host::collective::{Collectives, Does};
use crate::ranks::host::options::RankSends;
use crate::ranks::work::gather::GatherWork;
use crate::ranks::work::scatter::ScatterWork;
use crate::ranks::work::{Member, RankWork};

/// Opens the memory of a rank that is like this rank's, which it is if the rank is this one. Returns whether another process has it.
fn peer<X: Element>(
    member: &Member,
    own: &Buffer<X>,
    (rank, memory): (usize, &[u8]),
) -> Result<(Buffer<X>, bool), Error> {
    if rank == member.rank {
        return Ok((own.clone(), false));
    }
    let (peer, is_open) = shared::open(&member.device, rank, memory)?;
    if peer.len() != own.len() {
        return Err(MeetingFailure::Foreign { rank }.into());
    }
    Ok((peer, is_open))
}

impl<T: GemmElement, C: GemmElement> ProcessWork<T, C> for GatherWork<T, C> {
    fn brings(&self) -> bool {
        false
    }

    fn share(&self) -> Result<Vec<SharedBuffer>, Error> {
        Ok(vec![SharedBuffer::new(self.gathered())?])
    }

    fn meet(&mut self, rank: usize, memory: &[&[u8]]) -> Result<bool, Error> {
        let [gathered] = memory else {
            return Err(MeetingFailure::Foreign { rank }.into());
        };
        let (peer, is_open) = peer(self.member(), self.gathered(), (rank, gathered))?;
        self.meet_one(peer);
        Ok(is_open)
    }

    fn close(&mut self) -> Box<dyn Any + Send> {
        self.meet(Vec::new());
        Box::new(self.gathered().clone())
    }

    fn enqueue(&self, signals: &Signals, round: u32) -> Result<(), Error> {
        let Member {
            device,
            copies,
            news,
            ..
        } = self.member();
        let (path, _) = self.taken();
        signals.come(device, round)?;
        copies.wait_for(&device.record()?)?;
        for to in self.destinations() {
            signals.await_one(copies, to, round)?;
            self.send(to, |_| Ok(()))?;
            signals.done(copies, to, round)?;
        }
        for from in self.sources() {
            signals.await_done_by(news, from, round)?;
            if path == RankPath::PeerMemory {
                for flag in self.flags_of(from) {
                    self.arrived().set(news, flag, round)?;
                }
            }
        }
        let copied = copies.record()?;
        if path != RankPath::PeerMemory {
            signals.await_done(device, round)?;
        }
        self.multiply(round)?;
        // Later work of this stream may write A again.
        device.wait_for(&copied)?;
        device.wait_for(&news.record()?)?;
        signals.await_done(device, round)
    }

    fn enqueue_by_nccl(&self, collectives: &Collectives) -> Result<(), Error> {
        let (_, pieces) = self.taken();
        by_nccl::gather(collectives, slice::from_ref(self), pieces)
    }

    fn gathered_layout(&self) -> Result<Layout, Error> {
        self.shape().gathered()
    }
}

impl<T: GemmElement, S: GemmElement, C: GemmElement> ProcessWork<T, C> for ScatterWork<T, S, C> {
    fn brings(&self) -> bool {
        self.shape().reduces()
    }

    fn share(&self) -> Result<Vec<SharedBuffer>, Error> {
        let mut all = vec![SharedBuffer::new(self.slots())?];
        if self.brings() {
            all.push(SharedBuffer::new(self.c())?);
        }
        Ok(all)
    }

    fn meet(&mut self, rank: usize, memory: &[&[u8]]) -> Result<bool, Error> {
        let (slots, sums) = match (memory, self.brings()) {
            ([slots], false) => (slots, None),
            ([slots, sums], true) => (slots, Some(sums)),
            _ => return Err(MeetingFailure::Foreign { rank }.into()),
        };
        let (slots, mut is_open) = peer(self.member(), self.slots(), (rank, slots))?;
        self.meet_one(slots);
        if let Some(sums) = sums {
            let (sums, is_foreign) = peer(self.member(), self.c(), (rank, sums))?;
            is_open |= is_foreign;
            self.meet_sum(sums);
        }
        Ok(is_open)
    }

    fn close(&mut self) -> Box<dyn Any + Send> {
        self.meet(Vec::new());
        self.meet_sums(Vec::new());
        let c = self.brings().then(|| self.c().clone());
        Box::new((self.slots().clone(), c))
    }

    fn enqueue(&self, signals: &Signals, round: u32) -> Result<(), Error> {
        let Member {
            rank,
            device,
            copies,
            ..
        } = self.member();
        // An owner has added what its slots held before, or its sum is zeros.
        self.begin(round)?;
        signals.come(device, round)?;
        signals.await_all(device, round)?;
        copies.wait_for(&device.record()?)?;
        self.multiply(0)?;
        let sends = match self.sends() {
            RankSends::Engines => {
                if self.taken().0 != RankPath::PeerMemory {
                    copies.wait_for(&device.record()?)?;
                }
                copies
            }
            RankSends::Kernel | RankSends::Reduction => device,
        };
        for owner in self.owners()? {
            if owner != *rank {
                self.await_stored(owner, round)?;
                self.send(owner)?;
            }
            signals.done(sends, owner, round)?;
        }
        if !self.early().is_empty() {
            for from in self.early() {
                signals.await_done_by(device, *from, round)?;
            }
            self.add_early()?;
        }
        device.wait_for(&sends.record()?)?;
        signals.await_done(device, round)?;
        self.add(0)?;
        if !self.brings() {
            return Ok(());
        }
        // All have come to the round, so that their C may be written.
        copies.wait_for(&device.record()?)?;
        for to in self.others()? {
            self.share(0, to)?;
            signals.brought(copies, to, round)?;
        }
        device.wait_for(&copies.record()?)?;
        signals.await_brought(device, round)
    }

    fn enqueue_by_nccl(&self, collectives: &Collectives) -> Result<(), Error> {
        let ((_, pieces), works) = (self.taken(), slice::from_ref(self));
        let does = if self.brings() {
            Does::Reduce
        } else {
            Does::Scatter
        };
        by_nccl::sum(collectives, (does, works), pieces)
    }

    fn gathered_layout(&self) -> Result<Layout, Error> {
        let (found, wanted) = (self.shape().problem.overlap, Overlap::GatherProduct);
        let [found, wanted] = [found, wanted].map(|overlap| overlap.to_string());
        Err(HostError::NoGather { found, wanted }.into())
    }
}
