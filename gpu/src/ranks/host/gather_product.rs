//! `GatherProduct`: all-gather and product on devices, with copies that overlap the product.

use std::time::Duration;

use colex_device::{Buffer, Event, Flags};
use colex_layout::Layout;
use colex_sched::{ChunkSpan, ChunkWork, Overlap};

use super::by_nccl;
use super::choice::{Chosen, chosen, ended};
use super::devices::{RankDevices, release, wait_for};
use super::links::LinkSpeeds;
use super::timeline::{Record, recorded};
use crate::error::{Error, HostError, RankError};
use crate::kernels::GemmElement;
use crate::ranks::work::Member;
use crate::ranks::work::gather::{GatherShape, GatherWork};
use crate::ranks::{RankPath, RankProblem};

/// What a caller may choose of a product over devices.
///
/// ```
/// use colex_gpu::ranks::{RankOptions, RankPath};
///
/// let options = RankOptions { path: Some(RankPath::OneAfterAnother), ..RankOptions::default() };
/// assert_eq!(options.pieces, None);
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct RankOptions {
    /// The path; `None` for [`RankPath::PeerMemory`] where the streams of all devices set flags, else for
    /// [`RankPath::OneAfterAnother`], and for the faster path of NCCL where a device has no access to the memory of another one.
    pub path: Option<RankPath>,
    /// The pieces of a chunk: copies, each with a flag, or collectives of NCCL. `None` for one copy, and for as many collectives
    /// as are predicted to be the fastest.
    pub pieces: Option<i64>,
    /// What brings the terms of a reduce-scatter to their owners on the path [`RankPath::PeerMemory`]; `None` for copy engines, and for the
    /// kernel in an all-reduce.
    pub sends: Option<RankSends>,
    /// What adds the slots of an owner on the path [`RankPath::PeerMemory`]; `None` for a kernel of its own, which was the faster one on
    /// four H200.
    pub sums: Option<RankSums>,
    /// The speeds by which paths are compared.
    pub links: LinkSpeeds,
    /// The longest time in which NCCL makes the communicators or begins a collective; `None` for a minute.
    pub nccl_within: Option<Duration>,
}

/// What brings the terms of a sum over ranks to their owners while the product runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum RankSends {
    /// The copy engine of each rank: the kernel tells when the terms of an owner are stored ([`Gemm::departures`](crate::Gemm::departures)),
    /// and the engine sends them in one piece while the kernel computes those of the next owner.
    Engines,
    /// The kernel itself, tile by tile, by TMA into the memory of the owner.
    Kernel,
    /// The kernel itself, by reductions of TMA: it adds each tile to the one sum that the owner has, which is zeros before
    /// ([`Gemm::adds`](crate::Gemm::adds)). There are no slots, and nothing is added afterwards. The sum is rounded to the type of the
    /// slots at each addition, and the order of the additions is that in which they happen: two runs may differ in the last
    /// bits.
    ///
    /// The devices of one process have to be linked such that atomic operations work between them
    /// ([`Device::has_native_atomics`](crate::Device::has_native_atomics)). Ranks of several processes do not know each other's devices: there
    /// the caller has to know it.
    Reduction,
}

/// What adds the slots in the memory of an owner. Both add in the order of the ranks, in f32 with one rounding to C: the
/// bits are the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum RankSums {
    /// A kernel behind the product, which reads all slots.
    Kernel,
    /// The product of the rank's own chunk, in its epilogue: a launch of its own behind the product of all other chunks
    /// ([`Gemm::but_last`](crate::Gemm::but_last)), when the terms of the others have come. The own term has no slot, and the slots of the
    /// others are read beside the main loop.
    Epilogue,
}

/// All-gather and product on the devices of one process: C = A B^T, with the rows of A (M,K) and of B (N,K) over the ranks, and the
/// columns of C. All matrices are row-major; rank r has rows `r M/R ..` of A, `r N/R ..` of B, and columns `r N/R ..` of C as a
/// matrix (M,N/R).
///
/// The call owns the operands. The part of A of a rank is a part of the memory into which the others' parts are gathered, so that
/// the gathered A is one tensor (M/R,K,R) whose last mode is the rank. On the path [`RankPath::PeerMemory`] the copy engine
/// of each rank sends its part to the other ranks, the next rank first, each followed by a flag, while one kernel multiplies: the
/// own part first, each other one after its flag.
///
/// ```
/// use colex_atom::Arch;
/// use colex_gpu::Device;
/// use colex_gpu::ranks::{GatherProduct, RankDevices, RankOptions, RankPath, RankProblem};
/// use colex_sched::Overlap;
/// use half::bf16;
/// use std::time::Duration;
///
/// // Two ranks on one simulated device.
/// let device = Device::simulator(Arch::Sm90a);
/// let ranks = RankDevices::new(&[device.clone(), device])?;
/// let problem = RankProblem { overlap: Overlap::GatherProduct, ranks: 2, m: 16, n: 16, k: 16 };
/// let mut product = GatherProduct::<bf16, f32>::new(&ranks, problem, &RankOptions::default())?;
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
/// # Ok::<(), colex_gpu::Error>(())
/// ```
#[derive(Debug)]
pub struct GatherProduct<T, C> {
    ranks: RankDevices,
    shape: GatherShape,
    choice: Chosen,
    /// The work of each rank.
    works: Vec<GatherWork<T, C>>,
    /// The flags of all ranks as the copies of each rank set them, on the path of peer memory.
    seen: Vec<Vec<Flags>>,
    round: u32,
    /// The events at which each rank came to the last round.
    came: Vec<Event>,
    is_over: bool,
}

pub(crate) fn rank_error(why: colex_sched::Error) -> Error {
    let name = "the plan";
    RankError::Operand { name, why }.into()
}

/// What belongs to a rank.
pub(super) fn of_rank<X>(all: &[X], rank: usize) -> Result<&X, Error> {
    let ranks = all.len();
    let none = || Error::from(RankError::NoRank { rank, ranks });
    all.get(rank).ok_or_else(none)
}

impl<T: GemmElement, C: GemmElement> GatherProduct<T, C> {
    /// Allocates the operands on all devices, zeros, and the flags.
    ///
    /// # Errors
    ///
    /// Returns an error for a problem of another kind or number of ranks, as [`RankProblem::layouts`], for a path that the devices do
    /// not take, for pieces that do not divide the rows of a chunk, and the devices' errors.
    pub fn new(
        ranks: &RankDevices,
        problem: RankProblem,
        options: &RankOptions,
    ) -> Result<GatherProduct<T, C>, Error> {
        let of = (&problem, Overlap::GatherProduct);
        let choice = chosen::<T, C, C>(&ranks.kind(), of, options)?;
        let shape = GatherShape::new(problem, &choice, options)?;
        let works = ranks.members().iter();
        let works = works.map(|member| GatherWork::new(member, &shape));
        let mut works = works.collect::<Result<Vec<GatherWork<T, C>>, _>>()?;
        if choice.collectives.is_none() {
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
        let seen = match shape.path {
            RankPath::PeerMemory => ranks
                .members()
                .iter()
                .map(of_rank)
                .collect::<Result<_, _>>()?,
            _ => Vec::new(),
        };
        Ok(GatherProduct {
            ranks: ranks.clone(),
            shape,
            choice,
            works,
            seen,
            round: 0,
            came: Vec::new(),
            is_over: false,
        })
    }

    /// Returns the path that the call takes.
    pub fn path(&self) -> RankPath {
        self.shape.path
    }

    /// Returns the pieces in which a chunk of A is copied, each with a flag.
    pub fn pieces(&self) -> i64 {
        self.shape.pieces
    }

    /// Returns the part of A of a rank (M/R,K), row-major.
    ///
    /// # Errors
    ///
    /// Returns an error if there is no such rank.
    pub fn a(&self, rank: usize) -> Result<Buffer<T>, Error> {
        of_rank(&self.works, rank)?.a()
    }

    /// Returns the memory of a rank into which A is gathered: after a run it has all parts, as
    /// [`gathered_layout`](GatherProduct::gathered_layout) says.
    ///
    /// # Errors
    ///
    /// Returns an error if there is no such rank.
    pub fn gathered(&self, rank: usize) -> Result<&Buffer<T>, Error> {
        Ok(of_rank(&self.works, rank)?.gathered())
    }

    /// Returns the layout of the gathered A, by rows of a piece, pieces, ranks, and K: row-major, but on the path
    /// [`RankPath::NcclInChunks`], whose collectives bring the same piece of all ranks, the ranks lie within the pieces.
    ///
    /// ```
    /// # use colex_atom::Arch;
    /// # use colex_gpu::Device;
    /// # use colex_gpu::ranks::{GatherProduct, RankDevices, RankOptions, RankPath, RankProblem};
    /// # use colex_sched::Overlap;
    /// # use half::bf16;
    /// # let device = Device::simulator(Arch::Sm90a);
    /// # let ranks = RankDevices::new(&[device.clone(), device])?;
    /// let problem = RankProblem { overlap: Overlap::GatherProduct, ranks: 2, m: 32, n: 16, k: 16 };
    /// let layout = |path| {
    ///     let options = RankOptions { path: Some(path), pieces: Some(2), ..RankOptions::default() };
    ///     let product = GatherProduct::<bf16, f32>::new(&ranks, problem, &options)?;
    ///     Ok::<_, colex_gpu::Error>(product.gathered_layout()?.to_string())
    /// };
    /// assert_eq!(layout(RankPath::PeerMemory)?, "(8,2,2,16):(16,128,256,1)");
    /// assert_eq!(layout(RankPath::NcclInChunks)?, "(8,2,2,16):(16,256,128,1)");
    /// # Ok::<(), colex_gpu::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// Returns an error for more elements than 64 bits count.
    pub fn gathered_layout(&self) -> Result<Layout, Error> {
        self.shape.gathered()
    }

    /// Returns the part of B of a rank (N/R,K), row-major.
    ///
    /// # Errors
    ///
    /// Returns an error if there is no such rank.
    pub fn b(&self, rank: usize) -> Result<&Buffer<T>, Error> {
        Ok(of_rank(&self.works, rank)?.b())
    }

    /// Returns the part of C of a rank (M,N/R), row-major.
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
            "{}\n{}\n{}",
            self.shape,
            self.works[0].explain()?,
            self.choice
        ))
    }

    /// Enqueues the product on all devices, as one round: the parts of A are read after the earlier work of their devices' streams,
    /// and later work of these comes after all ranks have read them.
    ///
    /// # Errors
    ///
    /// Returns an error after a failure, and the devices' errors. After one of these the flags are released, so that no
    /// kernel waits for a copy that was not enqueued.
    pub fn run(&mut self) -> Result<(), Error> {
        self.run_recorded(&mut Record::default())
    }

    /// Runs the product four times, and returns what each rank did when in the last run, in nanoseconds since all ranks came to it:
    /// rank by rank, by start. The product is one span, since one kernel multiplies. [`OverlapPlan::picture_of`](colex_sched::OverlapPlan::picture_of) draws it.
    ///
    /// The times are those of events around each step on the streams of the rank, whose time counts from an event of its own: between
    /// two ranks they are as exact as a stream waits for an event of another device, which is a few microseconds.
    ///
    /// ```
    /// # use colex_atom::Arch;
    /// # use colex_gpu::Device;
    /// # use colex_gpu::ranks::{GatherProduct, RankDevices, RankOptions, RankProblem};
    /// # use colex_sched::Overlap;
    /// # use half::bf16;
    /// # use std::time::Duration;
    /// # let device = Device::simulator(Arch::Sm90a);
    /// # let ranks = RankDevices::new(&[device.clone(), device])?;
    /// let problem = RankProblem { overlap: Overlap::GatherProduct, ranks: 2, m: 16, n: 16, k: 32 };
    /// let mut product = GatherProduct::<bf16, f32>::new(&ranks, problem, &RankOptions::default())?;
    /// // The simulator has no time.
    /// let error = product.timeline(Duration::from_secs(10)).unwrap_err();
    /// assert!(error.to_string().starts_with("the simulator does not take the time"), "{error}");
    /// # Ok::<(), colex_gpu::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// Returns the errors of [`run`](GatherProduct::run) and [`wait`](GatherProduct::wait), an error for a path of NCCL, and one on the simulator.
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
        if ran.is_err() {
            self.end();
        }
        ended(ran, self.choice.collectives.as_ref(), None)
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

    fn flags(&self) -> Vec<&Flags> {
        self.works.iter().map(GatherWork::arrived).collect()
    }

    fn end(&mut self) {
        self.is_over = true;
        release(&self.flags());
    }

    fn enqueue(&mut self, record: &mut Record) -> Result<(), Error> {
        self.came = self.ranks.record()?;
        if let Some(collectives) = &self.choice.collectives {
            return by_nccl::gather(collectives, &self.works, self.shape.pieces);
        }
        let (members, ready) = (self.ranks.members(), &self.came);
        record.begin(members.iter(), ready)?;
        // All copies come before all kernels: a kernel that waits for a flag takes the multiprocessors, and never a copy engine.
        for (rank, work) in self.works.iter().enumerate() {
            let copies = &work.member().copies;
            wait_for(copies, ready)?;
            for to in work.destinations() {
                let set = |flag| match self.seen.get(rank) {
                    Some(seen) => Ok(seen[to].set(copies, flag, self.round)?),
                    None => Ok(()),
                };
                let does = (rank, ChunkWork::Send { to: to as i64 }, rank);
                record.around(does, copies, || work.send(to, set))?;
            }
        }
        let copied = self.ranks.record_copies()?;
        for (work, copied) in self.works.iter().zip(&copied) {
            let Member { rank, device, .. } = work.member();
            if self.shape.path != RankPath::PeerMemory {
                device.wait_for(copied)?;
            }
            let does = (*rank, ChunkWork::Products, *rank);
            record.around(does, device, || work.multiply(self.round))?;
        }
        for member in members {
            wait_for(&member.device, &copied)?;
        }
        Ok(())
    }
}
