//! All-gather and product on the devices of one process: copies that overlap the product.

use std::mem;

use colex_device::Flags;
use colex_sched::ChunkWork;

use super::by_nccl;
use super::devices::{RankDevices, wait_for};
use super::product::Round;
use super::timeline::Record;
use crate::error::Error;
use crate::kernels::GemmElement;
use crate::ranks::RankPath;
use crate::ranks::work::gather::{GatherShape, GatherWork};
use crate::ranks::work::{Member, RankWork};

/// The works of all ranks, and the flags of all ranks as the copies of each rank set them, on the path of peer memory.
#[derive(Debug)]
pub(super) struct GatherWorks<T, C> {
    pub(super) works: Vec<GatherWork<T, C>>,
    seen: Vec<Vec<Flags>>,
}

impl<T, C> GatherWorks<T, C> {
    /// Never frees the memory.
    pub(super) fn keep(&mut self) {
        mem::forget((mem::take(&mut self.works), mem::take(&mut self.seen)));
    }
}

impl<T: GemmElement, C: GemmElement> GatherWorks<T, C> {
    pub(super) fn new(
        ranks: &RankDevices,
        shape: &GatherShape,
    ) -> Result<GatherWorks<T, C>, Error> {
        let works = ranks.members().iter();
        let works = works.map(|member| GatherWork::new(member, shape));
        let mut works = works.collect::<Result<Vec<GatherWork<T, C>>, _>>()?;
        if !shape.path.is_by_nccl() {
            let gathered: Vec<_> = works.iter().map(|work| work.gathered().clone()).collect();
            for (rank, work) in works.iter_mut().enumerate() {
                work.meet(ranks.as_peers(rank, &gathered)?);
            }
        }
        let of_rank = |member: &Member| {
            let all = works.iter().map(GatherWork::arrived);
            let seen = all.map(|flags| Ok(flags.as_peer_of(&member.device)?));
            seen.collect::<Result<Vec<Flags>, Error>>()
        };
        let members = ranks.members().iter();
        let seen = match shape.path {
            RankPath::PeerMemory => members.map(of_rank).collect::<Result<_, _>>()?,
            _ => Vec::new(),
        };
        Ok(GatherWorks { works, seen })
    }

    pub(super) fn enqueue(&self, round: &Round<'_>, record: &mut Record) -> Result<(), Error> {
        let (works, ranks, ready) = (&self.works, round.ranks, round.came);
        let (path, pieces) = works[0].taken();
        if let Some(collectives) = round.collectives {
            return by_nccl::gather(collectives, works, pieces);
        }
        record.begin(ranks.members().iter(), ready)?;
        // All copies come before all kernels: a kernel that waits for a flag takes the multiprocessors, and never a copy engine.
        for (rank, work) in works.iter().enumerate() {
            let copies = &work.member().copies;
            copies.wait_for(&ready[rank])?;
            for to in work.destinations() {
                // The receiver has read what lay there, and no other one has to.
                copies.wait_for(&ready[to])?;
                let set = |flag| match self.seen.get(rank) {
                    Some(seen) => Ok(seen[to].set(copies, flag, round.number)?),
                    None => Ok(()),
                };
                let does = (rank, ChunkWork::Send { to: to as i64 }, rank);
                record.around(does, copies, || work.send(to, set))?;
            }
        }
        let copied = ranks.record_copies()?;
        for (work, sent) in works.iter().zip(&copied) {
            let Member { rank, device, .. } = work.member();
            if path != RankPath::PeerMemory {
                // The parts of the others come by their copies.
                wait_for(device, &copied)?;
            }
            let does = (*rank, ChunkWork::Products, *rank);
            record.around(does, device, || work.multiply(round.number))?;
            // Later work may write A again, which only this rank's copies read.
            device.wait_for(sent)?;
        }
        Ok(())
    }
}
