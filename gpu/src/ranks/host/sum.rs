//! Product and reduce-scatter, and product and all-reduce, on the devices of one process: terms that come to their owners, which add them.

use std::mem;

use colex_device::{Event, Flags};
use colex_sched::ChunkWork;

use super::by_nccl;
use super::collective::Does;
use super::devices::{RankDevices, wait_for};
use super::options::RankSends;
use super::product::Round;
use super::timeline::Record;
use crate::error::Error;
use crate::kernels::GemmElement;
use crate::ranks::RankPath;
use crate::ranks::work::scatter::{ScatterShape, ScatterWork};
use crate::ranks::work::{Member, RankWork};

/// The works of all ranks.
#[derive(Debug)]
pub(super) struct SumWorks<T, S, C> {
    shape: ScatterShape,
    pub(super) works: Vec<ScatterWork<T, S, C>>,
}

impl<T, S, C> SumWorks<T, S, C> {
    /// Never frees the memory.
    pub(super) fn keep(&mut self) {
        mem::forget(mem::take(&mut self.works));
    }
}

impl<T: GemmElement, S: GemmElement, C: GemmElement> SumWorks<T, S, C> {
    pub(super) fn new(
        ranks: &RankDevices,
        shape: ScatterShape,
    ) -> Result<SumWorks<T, S, C>, Error> {
        ranks.check_sends(shape.sends)?;
        let works = ranks.members().iter();
        let works = works.map(|member| ScatterWork::new(member, &shape));
        let mut works = works.collect::<Result<Vec<ScatterWork<T, S, C>>, _>>()?;
        if !shape.path.is_by_nccl() {
            let slots: Vec<_> = works.iter().map(|work| work.slots().clone()).collect();
            let sums: Vec<_> = works.iter().map(|work| work.c().clone()).collect();
            for (rank, work) in works.iter_mut().enumerate() {
                work.meet(ranks.as_peers(rank, &slots)?);
                if shape.reduces() {
                    work.meet_sums(ranks.as_peers(rank, &sums)?);
                }
            }
            let flags = works.iter().map(ScatterWork::landed);
            let flags = flags.collect::<Result<Option<Vec<Flags>>, _>>();
            if let Some(flags) = flags? {
                for work in &mut works {
                    work.meet_landed(&flags)?;
                }
            }
        }
        Ok(SumWorks { shape, works })
    }

    /// Piece after piece: the products store their terms, these come to the owners, and the owners add. Of an all-reduce, copies bring the
    /// sums to all ranks while the next piece is multiplied.
    pub(super) fn enqueue(&self, round: &Round<'_>, record: &mut Record) -> Result<(), Error> {
        let (works, ranks, reduces) = (&self.works, round.ranks, self.shape.reduces());
        let pieces = self.shape.pieces;
        if let Some(collectives) = round.collectives {
            let does = if reduces { Does::Reduce } else { Does::Scatter };
            return by_nccl::sum(collectives, (does, works), pieces);
        }
        // All have read their C of the round before, and an owner has added what its slots held.
        ranks.begin(works, (round.came, round.number))?;
        record.begin(ranks.members().iter(), round.came)?;
        for piece in 0..pieces {
            for work in works {
                record.multiply(work, piece, round.number)?;
            }
            // All that tells an owner comes before all kernels that wait: they keep the multiprocessors.
            let brought = self.bring(round, record)?;
            for work in works {
                let Member {
                    rank,
                    device,
                    copies,
                    ..
                } = work.member();
                if !work.early().is_empty() {
                    let does = (*rank, ChunkWork::Product, *rank);
                    record.around(does, device, || work.add_early())?;
                }
                match &brought {
                    Some(events) => wait_for(device, events)?,
                    None => work.await_landed(round.number)?,
                }
                record.around((*rank, ChunkWork::Add, *rank), device, || work.add(piece))?;
                if reduces {
                    copies.wait_for(&device.record()?)?;
                    for to in work.others()? {
                        let does = (*rank, ChunkWork::Send { to: to as i64 }, *rank);
                        record.around(does, copies, || work.share(piece, to))?;
                    }
                }
            }
        }
        if !reduces {
            return Ok(());
        }
        let copied = ranks.record_copies()?;
        let mut members = ranks.members().iter();
        members.try_for_each(|member| wait_for(&member.device, &copied))
    }

    /// Enqueues what brings the terms to their owners. Returns the events after which they are there, or nothing where flags say so: the
    /// sums then wait for these, in the stream, or in the kernel if the product of the own chunk adds.
    ///
    /// On four H200, a stream that waited for events of other devices went on 12 to 20 us after the last of them, and one that waited for
    /// a flag after 2 to 11 us.
    fn bring(&self, round: &Round<'_>, record: &mut Record) -> Result<Option<Vec<Event>>, Error> {
        let has_landed = self.works.iter().any(ScatterWork::has_landed);
        for work in &self.works {
            let Member {
                device,
                copies,
                news,
                ..
            } = work.member();
            match self.shape.sends {
                RankSends::Engines => {
                    if self.shape.path != RankPath::PeerMemory {
                        copies.wait_for(&device.record()?)?;
                    }
                    record.send(work, round.number)?;
                }
                RankSends::Kernel if has_landed => {
                    // In a stream of its own, so that the next kernel begins at once.
                    news.wait_for(&device.record()?)?;
                    for owner in work.others()? {
                        work.tell(news, owner, round.number)?;
                    }
                }
                RankSends::Kernel | RankSends::Reduction => {}
            }
        }
        Ok(match (has_landed, self.shape.sends) {
            (true, _) => None,
            (false, RankSends::Engines) => Some(round.ranks.record_copies()?),
            (false, _) => Some(round.ranks.record()?),
        })
    }
}
