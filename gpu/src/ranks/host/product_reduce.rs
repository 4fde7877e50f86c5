//! `ProductReduce`: product and all-reduce on devices, by slots of the owners and copies of their sums.

use std::time::Duration;

use colex_device::{Buffer, Event, Flags};
use colex_sched::{ChunkSpan, ChunkWork, Overlap};

use super::by_nccl;
use super::choice::{Chosen, chosen, ended};
use super::collective::Does;
use super::devices::{RankDevices, release, wait_for};
use super::gather_product::{RankOptions, RankSends, of_rank};
use super::timeline::{Record, recorded};
use crate::error::{Error, HostError};
use crate::kernels::GemmElement;
use crate::ranks::work::Member;
use crate::ranks::work::scatter::{ScatterShape, ScatterWork};
use crate::ranks::{RankPath, RankProblem};

/// Product and all-reduce on the devices of one process: C = A B^T on every rank, with A (M,K) and B (N,K) over the ranks along K.
/// All matrices are row-major; rank r has columns `r K/R ..` of A and B as matrices (M,K/R) and (N,K/R), and the whole C (M,N).
///
/// Rank r owns the rows `r M/R ..` of C. As in [`ProductScatter`](super::product_scatter::ProductScatter), each rank stores its term
/// of a chunk of rows into a slot in the memory of the owner, which adds the slots in the order of the ranks, in f32 with one
/// rounding to `C`. Then copy engines bring the sums of the owner to all other ranks. So every run gives the same bits, on every
/// rank. With several pieces, the sums of a piece travel while the next piece is multiplied.
///
/// On the paths of NCCL the library adds the terms in an order of its own, and rounds every sum to `S`. All ranks have the same bits
/// there too, but these may differ between two versions or machines.
///
/// ```
/// use colex_atom::Arch;
/// use colex_gpu::Device;
/// use colex_gpu::ranks::{ProductReduce, RankDevices, RankOptions, RankProblem};
/// use colex_sched::Overlap;
/// use half::bf16;
/// use std::time::Duration;
///
/// // Two ranks on one simulated device.
/// let device = Device::simulator(Arch::Sm90a);
/// let ranks = RankDevices::new(&[device.clone(), device])?;
/// let problem = RankProblem { overlap: Overlap::ProductReduce, ranks: 2, m: 16, n: 8, k: 32 };
/// let mut product = ProductReduce::<bf16, f32, bf16>::new(&ranks, problem, &RankOptions::default())?;
/// for rank in 0..2 {
///     product.a(rank)?.write(&[bf16::from_f32(rank as f32 + 1.0); 16 * 16])?;
///     product.b(rank)?.write(&[bf16::ONE; 8 * 16])?;
/// }
/// product.run()?;
/// product.wait(Duration::from_secs(10))?;
/// for rank in 0..2 {
///     assert_eq!(product.c(rank)?.download()?, [bf16::from_f32(16.0 + 32.0); 16 * 8]);
/// }
/// # Ok::<(), colex_gpu::Error>(())
/// ```
#[derive(Debug)]
pub struct ProductReduce<T, S, C> {
    ranks: RankDevices,
    shape: ScatterShape,
    choice: Chosen,
    /// The work of each rank.
    works: Vec<ScatterWork<T, S, C>>,
    round: u32,
    /// The events at which each rank came to the last round.
    came: Vec<Event>,
    is_over: bool,
}

impl<T: GemmElement, S: GemmElement, C: GemmElement> ProductReduce<T, S, C> {
    /// Allocates the operands and the slots on all devices, zeros.
    ///
    /// # Errors
    ///
    /// As [`GatherProduct::new`](super::gather_product::GatherProduct::new); there is one piece on the path
    /// [`RankPath::OneAfterAnother`] and on [`RankPath::NcclAfter`].
    pub fn new(
        ranks: &RankDevices,
        problem: RankProblem,
        options: &RankOptions,
    ) -> Result<ProductReduce<T, S, C>, Error> {
        let of = (&problem, Overlap::ProductReduce);
        let choice = chosen::<T, S, C>(&ranks.kind(), of, options)?;
        let shape = ScatterShape::new::<S, C>(problem, &choice, options)?;
        ranks.check_sends(shape.sends)?;
        let works = ranks.members().iter();
        let works = works.map(|member| ScatterWork::new(member, &shape));
        let mut works = works.collect::<Result<Vec<ScatterWork<T, S, C>>, _>>()?;
        if choice.collectives.is_none() {
            let slots: Vec<_> = works.iter().map(|work| work.slots().clone()).collect();
            let sums: Vec<_> = works.iter().map(|work| work.c().clone()).collect();
            for (rank, work) in works.iter_mut().enumerate() {
                work.meet(ranks.as_peers(rank, &slots)?);
                work.meet_sums(ranks.as_peers(rank, &sums)?);
            }
        }
        Ok(ProductReduce {
            ranks: ranks.clone(),
            shape,
            choice,
            works,
            round: 0,
            came: Vec::new(),
            is_over: false,
        })
    }

    /// Returns the path that the call takes.
    pub fn path(&self) -> RankPath {
        self.shape.path
    }

    /// Returns the pieces in which the rows of a rank are multiplied, added and copied.
    pub fn pieces(&self) -> i64 {
        self.shape.pieces
    }

    /// Returns the part of A of a rank (M,K/R), row-major.
    ///
    /// # Errors
    ///
    /// Returns an error if there is no such rank.
    pub fn a(&self, rank: usize) -> Result<&Buffer<T>, Error> {
        Ok(of_rank(&self.works, rank)?.a())
    }

    /// Returns the part of B of a rank (N,K/R), row-major.
    ///
    /// # Errors
    ///
    /// Returns an error if there is no such rank.
    pub fn b(&self, rank: usize) -> Result<&Buffer<T>, Error> {
        Ok(of_rank(&self.works, rank)?.b())
    }

    /// Returns C (M,N) of a rank, row-major.
    ///
    /// # Errors
    ///
    /// Returns an error if there is no such rank.
    pub fn c(&self, rank: usize) -> Result<&Buffer<C>, Error> {
        Ok(of_rank(&self.works, rank)?.c())
    }

    /// Returns the path, the plan of the product on rank 0, the predicted times of all paths, and why this one is taken.
    ///
    /// # Errors
    ///
    /// Returns the errors of the product's plan.
    pub fn explain(&self) -> Result<String, Error> {
        Ok(format!(
            "{}, {}\n{}\n{}",
            self.shape,
            self.shape.holds::<S>(),
            self.works[0].explain()?,
            self.choice
        ))
    }

    /// Enqueues the product on all devices. C is written in the order of its device's stream.
    ///
    /// # Errors
    ///
    /// Returns an error after a failure, and the devices' errors.
    pub fn run(&mut self) -> Result<(), Error> {
        self.run_recorded(&mut Record::default())
    }

    /// Runs the product four times, and returns what each rank did when in the last run, in nanoseconds since all ranks came to it:
    /// rank by rank, by start. Where copy engines send the terms, the product of each chunk is a span of its own. [`OverlapPlan::picture_of`](colex_sched::OverlapPlan::picture_of) draws it.
    ///
    /// The times are those of events around each step on the streams of the rank, whose time counts from an event of its own: between
    /// two ranks they are as exact as a stream waits for an event of another device, which is a few microseconds.
    ///
    /// ```
    /// # use colex_atom::Arch;
    /// # use colex_gpu::Device;
    /// # use colex_gpu::ranks::{ProductReduce, RankDevices, RankOptions, RankProblem};
    /// # use colex_sched::Overlap;
    /// # use half::bf16;
    /// # use std::time::Duration;
    /// # let device = Device::simulator(Arch::Sm90a);
    /// # let ranks = RankDevices::new(&[device.clone(), device])?;
    /// let problem = RankProblem { overlap: Overlap::ProductReduce, ranks: 2, m: 16, n: 16, k: 32 };
    /// let mut product = ProductReduce::<bf16, f32, f32>::new(&ranks, problem, &RankOptions::default())?;
    /// // The simulator has no time.
    /// let error = product.timeline(Duration::from_secs(10)).unwrap_err();
    /// assert!(error.to_string().starts_with("the simulator does not take the time"), "{error}");
    /// # Ok::<(), colex_gpu::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// Returns the errors of [`run`](ProductReduce::run) and [`wait`](ProductReduce::wait), an error for a path of NCCL, and one on the simulator.
    pub fn timeline(&mut self, within: Duration) -> Result<Vec<ChunkSpan>, Error> {
        let path = self.shape.path;
        recorded(self, path, Self::run_recorded, Self::wait, within)
    }

    fn run_recorded(&mut self, record: &mut Record) -> Result<(), Error> {
        if self.is_over {
            return Err(HostError::Over.into());
        }
        self.round = self.round.saturating_add(1);
        let ran = self.enqueue(record);
        self.is_over = ran.is_err();
        if self.is_over {
            release(&self.flags());
        }
        ended(ran, self.choice.collectives.as_ref(), None)
    }

    /// Waits until all ranks are done, for at most `within`.
    ///
    /// # Errors
    ///
    /// Returns an error that names a rank which is not done in time, [`lost_rank`](Error::lost_rank), or the error of a device.
    pub fn wait(&mut self, within: Duration) -> Result<(), Error> {
        let waited = self.ranks.wait(within, (&self.came, &self.flags()));
        let waited = ended(waited, self.choice.collectives.as_ref(), Some(within));
        self.is_over |= waited.is_err();
        waited
    }

    /// The flags for which copies wait.
    fn flags(&self) -> Vec<&Flags> {
        self.works.iter().filter_map(ScatterWork::stored).collect()
    }

    /// Piece after piece: the products store into the slots, the owners add, and copies bring the sums to the others while the next
    /// piece is multiplied. On the path [`RankPath::OneAfterAnother`], which has one piece, copies bring the terms too.
    fn enqueue(&mut self, record: &mut Record) -> Result<(), Error> {
        // All have read their C of the round before, and an owner has added what its slots held.
        self.came = self.ranks.record()?;
        let pieces = self.shape.pieces;
        if let Some(collectives) = &self.choice.collectives {
            return by_nccl::sum(collectives, (Does::Reduce, &self.works), pieces);
        }
        self.ranks.begin(&self.works, (&self.came, self.round))?;
        record.begin(self.ranks.members().iter(), &self.came)?;
        for piece in 0..pieces {
            for work in &self.works {
                record.multiply(work, piece, self.round)?;
            }
            let sent = self.sent(record)?;
            for work in &self.works {
                let Member {
                    rank,
                    device,
                    copies,
                    ..
                } = work.member();
                wait_for(device, &sent)?;
                record.around((*rank, ChunkWork::Add, *rank), device, || work.add(piece))?;
                copies.wait_for(&device.record()?)?;
                for to in work.others()? {
                    let does = (*rank, ChunkWork::Send { to: to as i64 }, *rank);
                    record.around(does, copies, || work.share(piece, to))?;
                }
            }
        }
        let copied = self.ranks.record_copies()?;
        let mut works = self.works.iter();
        works.try_for_each(|work| wait_for(&work.member().device, &copied))
    }

    /// Events after which the terms are in the slots of their owners.
    fn sent(&self, record: &mut Record) -> Result<Vec<Event>, Error> {
        if self.shape.sends != RankSends::Engines {
            return self.ranks.record();
        }
        for work in &self.works {
            let member = work.member();
            if self.shape.path != RankPath::PeerMemory {
                member.copies.wait_for(&member.device.record()?)?;
            }
            record.send(work, self.round)?;
        }
        self.ranks.record_copies()
    }
}
