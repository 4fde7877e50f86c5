//! `ProductScatter`: product and reduce-scatter on devices, whose kernels store into the memory of the owners.

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

/// Product and reduce-scatter on the devices of one process: C = A B^T, with A (M,K) and B (N,K) over the ranks along K, and the
/// rows of C. All matrices are row-major; rank r has columns `r K/R ..` of A and B as matrices (M,K/R) and (N,K/R), and rows
/// `r M/R ..` of C.
///
/// Each rank multiplies its share of K for the rows of all ranks, its own last, and stores the term of a chunk of rows into a slot
/// of its own in the memory of the chunk's owner. On the path [`RankPath::PeerMemory`] the copy engine of the rank brings the term of
/// a chunk there while the kernel computes the next one, or the kernel does that itself, by TMA and one tensor map for each
/// owner, tile by tile ([`RankSends`](super::gather_product::RankSends)). The owner then adds the slots in the order of the ranks, in f32 with one
/// rounding to `C`, so that every run gives the same bits. Slots hold elements `S`: f32, or `C` with half the bytes on
/// the links and one more rounding of each term.
///
/// On the paths of NCCL the library adds the terms in an order of its own, and rounds every sum to `S`: the last bits differ from
/// those of the other paths, and may differ between two versions or machines.
///
/// ```
/// use colex_atom::Arch;
/// use colex_gpu::Device;
/// use colex_gpu::ranks::{ProductScatter, RankDevices, RankOptions, RankProblem};
/// use colex_sched::Overlap;
/// use half::bf16;
/// use std::time::Duration;
///
/// // Two ranks on one simulated device.
/// let device = Device::simulator(Arch::Sm90a);
/// let ranks = RankDevices::new(&[device.clone(), device])?;
/// let problem = RankProblem { overlap: Overlap::ProductScatter, ranks: 2, m: 16, n: 8, k: 32 };
/// let mut product = ProductScatter::<bf16, f32, bf16>::new(&ranks, problem, &RankOptions::default())?;
/// for rank in 0..2 {
///     product.a(rank)?.write(&[bf16::from_f32(rank as f32 + 1.0); 16 * 16])?;
///     product.b(rank)?.write(&[bf16::ONE; 8 * 16])?;
/// }
/// product.run()?;
/// product.wait(Duration::from_secs(10))?;
/// assert_eq!(product.c(1)?.download()?, [bf16::from_f32(16.0 + 32.0); 8 * 8]);
/// # Ok::<(), colex_gpu::Error>(())
/// ```
#[derive(Debug)]
pub struct ProductScatter<T, S, C> {
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

impl<T: GemmElement, S: GemmElement, C: GemmElement> ProductScatter<T, S, C> {
    /// Allocates the operands and the slots on all devices, zeros.
    ///
    /// # Errors
    ///
    /// As [`GatherProduct::new`](super::gather_product::GatherProduct::new), but for pieces, of which there is one on all paths but [`RankPath::NcclInChunks`].
    pub fn new(
        ranks: &RankDevices,
        problem: RankProblem,
        options: &RankOptions,
    ) -> Result<ProductScatter<T, S, C>, Error> {
        let of = (&problem, Overlap::ProductScatter);
        let choice = chosen::<T, S, C>(&ranks.kind(), of, options)?;
        let shape = ScatterShape::new::<S, C>(problem, &choice, options)?;
        ranks.check_sends(shape.sends)?;
        let works = ranks.members().iter();
        let works = works.map(|member| ScatterWork::new(member, &shape));
        let mut works = works.collect::<Result<Vec<ScatterWork<T, S, C>>, _>>()?;
        if choice.collectives.is_none() {
            let slots: Vec<_> = works.iter().map(|work| work.slots().clone()).collect();
            for (rank, work) in works.iter_mut().enumerate() {
                work.meet(ranks.as_peers(rank, &slots)?);
            }
            let flags = works.iter().map(ScatterWork::landed);
            let flags = flags.collect::<Result<Option<Vec<Flags>>, _>>();
            if let Some(flags) = flags? {
                for work in &mut works {
                    work.meet_landed(&flags)?;
                }
            }
        }
        Ok(ProductScatter {
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

    /// Returns the pieces of a chunk, each of which is a collective of NCCL on the path [`RankPath::NcclInChunks`]; else one.
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

    /// Returns the part of C of a rank (M/R,N), row-major.
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

    /// Enqueues the product on all devices. The parts of C are written in the order of their devices' streams.
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
    /// # use colex_gpu::ranks::{ProductScatter, RankDevices, RankOptions, RankProblem};
    /// # use colex_sched::Overlap;
    /// # use half::bf16;
    /// # use std::time::Duration;
    /// # let device = Device::simulator(Arch::Sm90a);
    /// # let ranks = RankDevices::new(&[device.clone(), device])?;
    /// let problem = RankProblem { overlap: Overlap::ProductScatter, ranks: 2, m: 16, n: 16, k: 32 };
    /// let mut product = ProductScatter::<bf16, f32, f32>::new(&ranks, problem, &RankOptions::default())?;
    /// // The simulator has no time.
    /// let error = product.timeline(Duration::from_secs(10)).unwrap_err();
    /// assert!(error.to_string().starts_with("the simulator does not take the time"), "{error}");
    /// # Ok::<(), colex_gpu::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// Returns the errors of [`run`](ProductScatter::run) and [`wait`](ProductScatter::wait), an error for a path of NCCL, and one on the simulator.
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

    /// The flags for which copies and kernels wait.
    fn flags(&self) -> Vec<&Flags> {
        self.works.iter().flat_map(ScatterWork::flags).collect()
    }

    fn enqueue(&mut self, record: &mut Record) -> Result<(), Error> {
        // An owner has added what its slots held before.
        self.came = self.ranks.record()?;
        if let Some(collectives) = &self.choice.collectives {
            return by_nccl::sum(collectives, (Does::Scatter, &self.works), self.shape.pieces);
        }
        self.ranks.begin(&self.works, (&self.came, self.round))?;
        record.begin(self.ranks.members().iter(), &self.came)?;
        for work in &self.works {
            record.multiply(work, 0, self.round)?;
            if work.has_landed() && self.shape.sends == RankSends::Kernel {
                // In a stream of its own, so that the next kernel begins at once.
                let Member { device, news, .. } = work.member();
                news.wait_for(&device.record()?)?;
                for owner in work.others()? {
                    work.tell(news, owner, self.round)?;
                }
            }
        }
        if self.works.iter().any(ScatterWork::has_landed) {
            return self.add_as_they_come(record);
        }
        let mut sent = self.ranks.record()?;
        if self.shape.sends == RankSends::Engines {
            for (work, multiplied) in self.works.iter().zip(&sent) {
                if self.shape.path != RankPath::PeerMemory {
                    work.member().copies.wait_for(multiplied)?;
                }
                record.send(work, self.round)?;
            }
            sent = self.ranks.record_copies()?;
        }
        for work in &self.works {
            let Member { rank, device, .. } = work.member();
            wait_for(device, &sent)?;
            record.around((*rank, ChunkWork::Add, *rank), device, || work.add(0))?;
        }
        Ok(())
    }

    /// Enqueues the copies of terms, if copy engines send them, and then the sums. These wait for flags that say that the terms of the other
    /// ranks have come: in the stream, or in the kernel if the product of the own chunk adds.
    ///
    /// On four H200, a stream that waited for events of other devices went on 12 to 20 us after the last of them, and one that waited for
    /// a flag after 2 to 11 us.
    fn add_as_they_come(&self, record: &mut Record) -> Result<(), Error> {
        // All that tells an owner comes before all kernels that wait: they keep the multiprocessors.
        if self.shape.sends == RankSends::Engines {
            for work in &self.works {
                record.send(work, self.round)?;
            }
        }
        for work in &self.works {
            let Member { rank, device, .. } = work.member();
            work.await_landed(self.round)?;
            record.around((*rank, ChunkWork::Add, *rank), device, || work.add(0))?;
        }
        Ok(())
    }
}
