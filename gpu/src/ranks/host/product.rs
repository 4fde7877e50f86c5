//! `RankProduct`: a product and its collective on the devices of one process.

use std::time::Duration;

use colex_device::{Buffer, Event, Flags};
use colex_layout::Layout;
use colex_sched::{ChunkSpan, Overlap};

use super::choice::{Chosen, chosen, ended};
use super::collective::Collectives;
use super::devices::{RELEASE, RankDevices, release};
use super::gather::GatherWorks;
use super::options::RankOptions;
use super::sum::SumWorks;
use super::timeline::{Record, recorded};
use crate::error::{Error, HostError, RankError};
use crate::kernels::GemmElement;
use crate::ranks::work::RankWork;
use crate::ranks::work::gather::GatherShape;
use crate::ranks::work::scatter::ScatterShape;
use crate::ranks::{RankPath, RankProblem};

/// A product C = A B^T and its collective on the devices of one process, which the call owns the operands of. All matrices are
/// row-major. The problem says which collective:
///
/// | [`Overlap`] | A, B and C of rank r | what happens |
/// |---|---|---|
/// | `GatherProduct` | rows `r M/R ..` of A (M,K); rows `r N/R ..` of B (N,K); columns `r N/R ..` of C, a matrix (M,N/R) | the rows of A are gathered, each part beside the products of the parts that are there |
/// | `ProductScatter` | columns `r K/R ..` of A and B, matrices (M,K/R) and (N,K/R); rows `r M/R ..` of C, a matrix (M/R,N) | each rank multiplies its share of K for the rows of all owners, its own last; each owner adds the terms of its rows |
/// | `ProductReduce` | A and B as before; C is the whole (M,N) | the same, and each owner's sums then go to all ranks: these have the same bits |
///
/// On the path [`RankPath::PeerMemory`], the part of A of a rank is a part of the memory into which the others' parts are gathered; the
/// copy engine of each rank sends its part to the other ranks, the next rank first, each followed by a flag for which the kernel waits. Terms
/// of sums go into a slot of each rank in the memory of their owner: by the copy engine while the kernel computes the next chunk, or by the kernel
/// itself ([`RankSends`](super::options::RankSends)). The owner adds the slots in the order of the ranks, in f32 with one rounding to `C`,
/// so that every run gives the same bits.
///
/// Terms are elements `S`, which is `C` unless the caller says another type: `f32` keeps them as they were summed, and `bf16` sends half
/// the bytes with one more rounding of each term. An all-gather has no terms. On the paths of NCCL, the library adds the terms in an order
/// of its own, and rounds every sum to `S`: the last bits differ from those of the other paths, and may differ between two versions or
/// machines.
///
/// ```
/// use colex_atom::Arch;
/// use colex_gpu::Device;
/// use colex_gpu::ranks::{RankDevices, RankOptions, RankPath, RankProblem, RankProduct};
/// use colex_sched::Overlap;
/// use half::bf16;
/// use std::time::Duration;
///
/// // Two ranks on one simulated device.
/// let device = Device::simulator(Arch::Sm90a);
/// let ranks = RankDevices::new(&[device.clone(), device])?;
/// let gather = RankProblem { overlap: Overlap::GatherProduct, ranks: 2, m: 16, n: 16, k: 16 };
/// let mut product = RankProduct::<bf16, f32>::new(&ranks, gather, &RankOptions::default())?;
/// assert_eq!(product.path(), RankPath::PeerMemory);
/// for rank in 0..2 {
///     product.a(rank)?.write(&[bf16::from_f32(rank as f32 + 1.0); 8 * 16])?;
///     product.b(rank)?.write(&[bf16::ONE; 8 * 16])?;
/// }
/// product.run()?;
/// product.wait(Duration::from_secs(10))?;
/// // Rows of rank 0, then rows of rank 1, of the columns of rank 1.
/// let c = product.c(1)?.download()?;
/// assert_eq!((c[0], c[8 * 8]), (16.0, 32.0));
///
/// // A sum over K of both ranks, whose terms are f32. An all-reduce gives it to both.
/// for (overlap, rows) in [(Overlap::ProductScatter, 8), (Overlap::ProductReduce, 16)] {
///     let sum = RankProblem { overlap, ranks: 2, m: 16, n: 8, k: 32 };
///     let mut product = RankProduct::<bf16, bf16, f32>::new(&ranks, sum, &RankOptions::default())?;
///     for rank in 0..2 {
///         product.a(rank)?.write(&[bf16::from_f32(rank as f32 + 1.0); 16 * 16])?;
///         product.b(rank)?.write(&[bf16::ONE; 8 * 16])?;
///     }
///     product.run()?;
///     product.wait(Duration::from_secs(10))?;
///     assert_eq!(product.c(1)?.download()?, vec![bf16::from_f32(16.0 + 32.0); rows * 8]);
/// }
/// # Ok::<(), colex_gpu::Error>(())
/// ```
#[derive(Debug)]
pub struct RankProduct<T, C, S = C> {
    ranks: RankDevices,
    problem: RankProblem,
    choice: Chosen,
    works: Works<T, C, S>,
    round: u32,
    /// The events at which each rank came to the last round.
    came: Vec<Event>,
    is_over: bool,
}

/// The works of all ranks.
#[derive(Debug)]
enum Works<T, C, S> {
    Gather(GatherWorks<T, C>),
    Sum(SumWorks<T, S, C>),
}

/// One run of all ranks.
pub(super) struct Round<'a> {
    pub(super) ranks: &'a RankDevices,
    /// The events at which each rank comes to it.
    pub(super) came: &'a [Event],
    pub(super) number: u32,
    /// Those of a path of NCCL.
    pub(super) collectives: Option<&'a Collectives>,
}

pub(crate) fn rank_error(why: colex_sched::Error) -> Error {
    let name = "the plan";
    RankError::Operand { name, why }.into()
}

impl<T: GemmElement, C: GemmElement, S: GemmElement> RankProduct<T, C, S> {
    /// Allocates the operands on all devices, zeros, and the flags and slots of the path.
    ///
    /// # Errors
    ///
    /// Returns an error for a problem of another number of ranks, as [`RankProblem::layouts`], for a path that the devices or the product do
    /// not take, for pieces that do not divide the rows of a chunk or that the path does not take, for other options that the collective or the
    /// path does not have, for a product that no kernel takes, and the devices' errors.
    pub fn new(
        ranks: &RankDevices,
        problem: RankProblem,
        options: &RankOptions,
    ) -> Result<RankProduct<T, C, S>, Error> {
        let choice = chosen::<T, C, S>(&ranks.kind(), &problem, options)?;
        let works = match problem.overlap {
            Overlap::GatherProduct => {
                let shape = GatherShape::new(problem, &choice, options)?;
                Works::Gather(GatherWorks::new(ranks, &shape)?)
            }
            Overlap::ProductScatter | Overlap::ProductReduce => {
                let shape = ScatterShape::new::<S, C>(problem, &choice, options)?;
                Works::Sum(SumWorks::new(ranks, shape)?)
            }
        };
        let product = RankProduct {
            ranks: ranks.clone(),
            problem,
            choice,
            works,
            round: 0,
            came: Vec::new(),
            is_over: false,
        };
        // A product that no kernel takes is refused here, and not by its first run.
        product.of_rank(0)?.explain()?;
        Ok(product)
    }

    /// The work of each rank.
    fn works(&self) -> Vec<&dyn RankWork<T, C>> {
        match &self.works {
            Works::Gather(of) => of.works.iter().map(|work| work as _).collect(),
            Works::Sum(of) => of.works.iter().map(|work| work as _).collect(),
        }
    }

    fn of_rank(&self, rank: usize) -> Result<&dyn RankWork<T, C>, Error> {
        let works = self.works();
        let ranks = works.len();
        let none = || Error::from(RankError::NoRank { rank, ranks });
        works.get(rank).copied().ok_or_else(none)
    }

    /// Returns what is multiplied.
    pub fn problem(&self) -> &RankProblem {
        &self.problem
    }

    /// Returns the path that the call takes.
    pub fn path(&self) -> RankPath {
        self.works()[0].taken().0
    }

    /// Returns the pieces of a chunk: copies of A, each with a flag; collectives of NCCL; or, of an all-reduce, what is multiplied, added
    /// and copied at a time.
    pub fn pieces(&self) -> i64 {
        self.works()[0].taken().1
    }

    /// Returns the part of A of a rank, row-major: (M/R,K) of an all-gather, and (M,K/R) of a sum.
    ///
    /// # Errors
    ///
    /// Returns an error if there is no such rank.
    pub fn a(&self, rank: usize) -> Result<Buffer<T>, Error> {
        self.of_rank(rank)?.a()
    }

    /// Returns the part of B of a rank, row-major: (N/R,K) of an all-gather, and (N,K/R) of a sum.
    ///
    /// # Errors
    ///
    /// Returns an error if there is no such rank.
    pub fn b(&self, rank: usize) -> Result<&Buffer<T>, Error> {
        Ok(self.of_rank(rank)?.b())
    }

    /// Returns the part of C of a rank, row-major: (M,N/R) of an all-gather, (M/R,N) of a reduce-scatter, and (M,N) of an all-reduce.
    ///
    /// # Errors
    ///
    /// Returns an error if there is no such rank.
    pub fn c(&self, rank: usize) -> Result<&Buffer<C>, Error> {
        Ok(self.of_rank(rank)?.c())
    }

    /// Returns the memory of a rank into which A is gathered: after a run it has all parts, as
    /// [`gathered_layout`](RankProduct::gathered_layout) says.
    ///
    /// # Errors
    ///
    /// Returns an error if there is no such rank, and of a sum over ranks, which gathers no A.
    pub fn gathered(&self, rank: usize) -> Result<&Buffer<T>, Error> {
        let gathered = self.of_rank(rank)?.gathered();
        gathered.ok_or_else(|| self.gathers_nothing())
    }

    /// Returns the layout of the gathered A, by rows of a piece, pieces, ranks, and K: row-major, but on the path
    /// [`RankPath::NcclInChunks`], whose collectives bring the same piece of all ranks, the ranks lie within the pieces.
    ///
    /// ```
    /// # use colex_atom::Arch;
    /// # use colex_gpu::Device;
    /// # use colex_gpu::ranks::{RankDevices, RankOptions, RankPath, RankProblem, RankProduct};
    /// # use colex_sched::Overlap;
    /// # use half::bf16;
    /// # let device = Device::simulator(Arch::Sm90a);
    /// # let ranks = RankDevices::new(&[device.clone(), device])?;
    /// let layout = |overlap, path| {
    ///     let problem = RankProblem { overlap, ranks: 2, m: 32, n: 16, k: 16 };
    ///     let options = RankOptions { path: Some(path), ..RankOptions::default() };
    ///     let options = match path {
    ///         RankPath::OneAfterAnother => options,
    ///         _ => RankOptions { pieces: Some(2), ..options },
    ///     };
    ///     let product = RankProduct::<bf16, f32>::new(&ranks, problem, &options)?;
    ///     Ok::<_, colex_gpu::Error>(product.gathered_layout()?.to_string())
    /// };
    /// assert_eq!(layout(Overlap::GatherProduct, RankPath::PeerMemory)?, "(8,2,2,16):(16,128,256,1)");
    /// assert_eq!(layout(Overlap::GatherProduct, RankPath::NcclInChunks)?, "(8,2,2,16):(16,256,128,1)");
    /// assert_eq!(
    ///     layout(Overlap::ProductScatter, RankPath::OneAfterAnother).unwrap_err().to_string(),
    ///     "product and reduce-scatter gathers no A: all-gather and product does"
    /// );
    /// # Ok::<(), colex_gpu::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// Returns an error for more elements than 64 bits count, and of a sum over ranks, which gathers no A.
    pub fn gathered_layout(&self) -> Result<Layout, Error> {
        match &self.works {
            Works::Gather(of) => of.works[0].shape().gathered(),
            Works::Sum(_) => Err(self.gathers_nothing()),
        }
    }

    fn gathers_nothing(&self) -> Error {
        let (found, wanted) = (self.problem.overlap, Overlap::GatherProduct);
        let [found, wanted] = [found, wanted].map(|overlap| overlap.to_string());
        HostError::NoGather { found, wanted }.into()
    }

    /// Returns what is computed, the plan of the product on rank 0, the predicted times of all ways, and the path with its predicted time and why
    /// it is taken.
    ///
    /// # Errors
    ///
    /// Returns the errors of the product's plan.
    pub fn explain(&self) -> Result<String, Error> {
        let first = self.of_rank(0)?;
        let (words, plan) = (first.words(), first.explain()?);
        let chosen = self.choice.explain(first.terms(), self.pieces());
        Ok(format!("{words}\n{plan}\n{chosen}"))
    }

    /// Enqueues the product on all devices, as one round: the operands are read and C is written after the earlier work of their devices'
    /// streams, and later work of a device comes after its part of A has been sent to all ranks in an all-gather, or all have written its C.
    ///
    /// # Errors
    ///
    /// Returns an error after a failure, and the devices' errors. After one of these the flags are released, so that no
    /// kernel waits for a copy that was not enqueued.
    pub fn run(&mut self) -> Result<(), Error> {
        self.run_recorded(&mut Record::default())
    }

    /// Runs the product four times, and returns what each rank did when in the last run, in nanoseconds since all ranks came to it:
    /// rank by rank, by start. Where copy engines send the terms of a sum, the product of each chunk is a span of its own; else all products
    /// of a rank are one. [`OverlapPlan::picture_of`](colex_sched::OverlapPlan::picture_of) draws it.
    ///
    /// The times are those of events around each step on the streams of the rank, whose time counts from an event of its own: between
    /// two ranks they are as exact as a stream waits for an event of another device, which is a few microseconds.
    ///
    /// ```
    /// # use colex_atom::Arch;
    /// # use colex_gpu::Device;
    /// # use colex_gpu::ranks::{RankDevices, RankOptions, RankProblem, RankProduct};
    /// # use colex_sched::Overlap;
    /// # use half::bf16;
    /// # use std::time::Duration;
    /// # let device = Device::simulator(Arch::Sm90a);
    /// # let ranks = RankDevices::new(&[device.clone(), device])?;
    /// let problem = RankProblem { overlap: Overlap::GatherProduct, ranks: 2, m: 16, n: 16, k: 32 };
    /// let mut product = RankProduct::<bf16, f32>::new(&ranks, problem, &RankOptions::default())?;
    /// // The simulator has no time.
    /// let error = product.timeline(Duration::from_secs(10)).unwrap_err();
    /// assert!(error.to_string().starts_with("the simulator does not take the time"), "{error}");
    /// # Ok::<(), colex_gpu::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// Returns the errors of [`run`](RankProduct::run) and [`wait`](RankProduct::wait), an error for a path of NCCL, and one on the simulator.
    pub fn timeline(&mut self, within: Duration) -> Result<Vec<ChunkSpan>, Error> {
        let path = self.path();
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

    fn enqueue(&mut self, record: &mut Record) -> Result<(), Error> {
        self.came = self.ranks.record()?;
        let round = Round {
            ranks: &self.ranks,
            came: &self.came,
            number: self.round,
            collectives: self.choice.collectives.as_deref(),
        };
        match &self.works {
            Works::Gather(of) => of.enqueue(&round, record),
            Works::Sum(of) => of.enqueue(&round, record),
        }
    }

    /// Waits until all ranks are done, for at most `within`.
    ///
    /// # Errors
    ///
    /// Returns an error that names a rank which is not done in time, [`lost_rank`](Error::lost_rank), or the error of a device. The flags
    /// are then released and the kernels end. On a path of NCCL the communicators are aborted, and what NCCL has met is the error.
    pub fn wait(&mut self, within: Duration) -> Result<(), Error> {
        let waited = self.ranks.wait(within, (&self.came, &self.flags()));
        let waited = ended(waited, self.choice.collectives.as_ref(), Some(within));
        self.is_over |= waited.is_err();
        waited
    }

    /// The flags for which copies and kernels wait.
    fn flags(&self) -> Vec<&Flags> {
        let works = self.works().into_iter();
        works.flat_map(|work| work.flags()).collect()
    }
}

impl<T, C, S> Drop for RankProduct<T, C, S> {
    /// Frees the memory of all ranks. After a failure, work that another stream holds up may still run on a device: to free memory, the driver
    /// would wait for it without end, so that memory is kept until the process ends.
    fn drop(&mut self) {
        if !self.is_over || self.ranks.have_ended(RELEASE) {
            return;
        }
        match &mut self.works {
            Works::Gather(of) => of.keep(),
            Works::Sum(of) => of.keep(),
        }
    }
}
