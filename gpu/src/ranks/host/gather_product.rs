//! `GatherProduct`: all-gather and product on devices, with copies that overlap the product.

use std::time::Duration;

use colex_device::{Buffer, Event, Flags, View, ViewMut};
use colex_layout::Layout;
use colex_sched::{Overlap, OverlapPlan};

use super::devices::{RankDevices, release, wait_for};
use super::links::{LinkSpeeds, RankForecast};
use crate::error::{Error, HostError, RankError};
use crate::gemm::{ChunkOrder, Gemm};
use crate::kernels::GemmElement;
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
    /// [`RankPath::OneAfterAnother`].
    pub path: Option<RankPath>,
    /// The pieces in which a chunk of A is copied, each with a flag; `None` for one.
    pub pieces: Option<i64>,
    /// The speeds by which paths are compared.
    pub links: LinkSpeeds,
}

/// All-gather and product on the devices of one process: C = A B^T, with the rows of A (M,K) and of B (N,K) over the ranks, and the
/// columns of C. All matrices are row-major; rank r has rows `r M/R ..` of A, `r N/R ..` of B, and columns `r N/R ..` of C as a
/// matrix (M,N/R).
///
/// The call owns the operands. The part of A of a rank is a part of the memory into which the others' parts are gathered, so that
/// the gathered A is one tensor (M/R,K,R) whose last mode is the rank. On the path [`RankPath::PeerMemory`] copy engines bring the
/// parts of the other ranks, nearest rank first, each followed by a flag, while one kernel multiplies: the own part first,
/// each other one after its flag.
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
    problem: RankProblem,
    order: OverlapPlan,
    path: RankPath,
    forecast: RankForecast,
    /// The pieces of a chunk.
    pieces: i64,
    /// Whether the kernel takes the product in chunks, as it does on every path where it can: chunks have whole sums, and without
    /// them a plan may divide K, so that the paths would have other bits.
    in_chunks: bool,
    /// The gathered A of each rank, and those of all ranks as each rank's copies have them.
    a: Vec<Buffer<T>>,
    peers: Vec<Vec<Buffer<T>>>,
    b: Vec<Buffer<T>>,
    c: Vec<Buffer<C>>,
    /// A flag for each piece of A, on each rank.
    arrived: Vec<Flags>,
    round: u32,
    /// The events at which each rank came to the last round.
    came: Vec<Event>,
    is_over: bool,
}

/// The most pieces of a chunk.
const MOST_PIECES: i64 = 64;

pub(super) fn rank_error(why: colex_sched::Error) -> Error {
    let name = "the plan";
    RankError::Operand { name, why }.into()
}

/// Checks a problem, and chooses a path.
pub(super) fn chosen<T: GemmElement, C: GemmElement>(
    ranks: &RankDevices,
    (problem, overlap): (&RankProblem, Overlap),
    options: &RankOptions,
) -> Result<(RankPath, RankForecast, OverlapPlan), Error> {
    if problem.overlap != overlap {
        return Err(HostError::Overlap {
            found: problem.overlap.to_string(),
            wanted: overlap.to_string(),
        }
        .into());
    }
    if problem.ranks != ranks.count() as i64 {
        return Err(HostError::Ranks {
            problem: problem.to_string(),
            given: ranks.count(),
        }
        .into());
    }
    problem.layouts()?;
    let order = OverlapPlan::new(overlap, problem.ranks).map_err(rank_error)?;
    let device = &ranks.members()[0].device;
    let multiprocessors = i64::from(device.limits().multiprocessors);
    let forecast =
        RankForecast::of::<T, C>(problem, device.arch(), multiprocessors, &options.links)?;
    let usual = match (problem.ranks, ranks.has_flags()) {
        (1, _) => RankPath::Local,
        (_, true) => RankPath::PeerMemory,
        (_, false) => RankPath::OneAfterAnother,
    };
    let path = options.path.unwrap_or(usual);
    let refused = |why| {
        let path = path.to_string();
        Err(HostError::Path { path, why }.into())
    };
    match (path, problem.ranks) {
        (RankPath::Local, 1) => {}
        (_, 1) => return refused("there is one rank, which sends nothing"),
        (RankPath::Local, _) => return refused("there are several ranks"),
        (RankPath::PeerMemory, _) if !ranks.has_flags() => {
            return refused("the driver's streams set no flags on these devices");
        }
        (RankPath::PeerMemory | RankPath::OneAfterAnother, _) => {}
        (RankPath::NcclAfter | RankPath::NcclInChunks, _) => {
            return refused("this call copies by itself, and asks no library");
        }
    }
    Ok((path, forecast, order))
}

/// A layout `(a,b,..):(x,y,..)` of positive extents.
pub(super) fn strided<const N: usize>(modes: [(i64, i64); N]) -> Result<Layout, Error> {
    let leaves = modes.map(|(extent, stride)| Layout::leaf(extent, stride));
    let leaves = leaves.into_iter().collect::<Result<Vec<_>, _>>();
    let layout = leaves.and_then(|leaves| Layout::concat(&leaves));
    Ok(layout.map_err(colex_tensor::Error::from)?)
}

/// The buffer of a rank.
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
        let (path, forecast, order) = chosen::<T, C>(ranks, of, options)?;
        let RankProblem {
            m,
            n,
            k,
            ranks: count,
            ..
        } = problem;
        let rows = m / count;
        // On four H200, two pieces were slower than one in every case, and four slower still.
        let pieces = options.pieces.unwrap_or(1);
        if !(1..=MOST_PIECES).contains(&pieces) || rows % pieces != 0 {
            let most = MOST_PIECES;
            return Err(HostError::Pieces { pieces, rows, most }.into());
        }
        let a = ranks.buffers::<T>(m.saturating_mul(k))?;
        let flags = ranks.members().iter();
        let flags = flags.map(|member| Ok(Flags::new(&member.device, (count * pieces) as usize)?));
        let mut call = GatherProduct {
            peers: ranks.as_peers(&a)?,
            a,
            b: ranks.buffers((n / count).saturating_mul(k))?,
            c: ranks.buffers(m.saturating_mul(n / count))?,
            arrived: flags.collect::<Result<_, Error>>()?,
            ranks: ranks.clone(),
            problem,
            order,
            path,
            forecast,
            pieces,
            in_chunks: true,
            round: 0,
            came: Vec::new(),
            is_over: false,
        };
        if path != RankPath::PeerMemory {
            call.in_chunks = call.with_product(0, |product| product.explain()).is_ok();
        }
        Ok(call)
    }

    /// Returns the path that the call takes.
    pub fn path(&self) -> RankPath {
        self.path
    }

    /// Returns the pieces in which a chunk of A is copied, each with a flag.
    pub fn pieces(&self) -> i64 {
        self.pieces
    }

    /// Returns the part of A of a rank (M/R,K), row-major.
    ///
    /// # Errors
    ///
    /// Returns an error if there is no such rank.
    pub fn a(&self, rank: usize) -> Result<Buffer<T>, Error> {
        Ok(self.chunk(of_rank(&self.a, rank)?, rank, (0, 1))?)
    }

    /// Returns the memory of a rank into which A (M,K) is gathered, row-major: after a run it has all parts.
    ///
    /// # Errors
    ///
    /// Returns an error if there is no such rank.
    pub fn gathered(&self, rank: usize) -> Result<&Buffer<T>, Error> {
        of_rank(&self.a, rank)
    }

    /// Returns the part of B of a rank (N/R,K), row-major.
    ///
    /// # Errors
    ///
    /// Returns an error if there is no such rank.
    pub fn b(&self, rank: usize) -> Result<&Buffer<T>, Error> {
        of_rank(&self.b, rank)
    }

    /// Returns the part of C of a rank (M,N/R), row-major.
    ///
    /// # Errors
    ///
    /// Returns an error if there is no such rank.
    pub fn c(&self, rank: usize) -> Result<&Buffer<C>, Error> {
        of_rank(&self.c, rank)
    }

    /// Returns the path, the plan of the product on rank 0, and the predicted times of all paths.
    ///
    /// # Errors
    ///
    /// Returns the errors of the product's plan.
    pub fn explain(&self) -> Result<String, Error> {
        let product = self.with_product(0, |product| product.explain())?;
        Ok(format!(
            "{} by {}, chunks in {} pieces\n{}\n{}",
            self.problem,
            self.path,
            self.pieces,
            product.lines().next().unwrap_or_default(),
            self.forecast
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
        if self.is_over {
            return Err(HostError::Over.into());
        }
        self.round = self.round.saturating_add(1);
        let ran = self.enqueue();
        if ran.is_err() {
            self.end();
        }
        ran
    }

    /// Waits until all ranks are done, for at most `within`.
    ///
    /// # Errors
    ///
    /// Returns an error that names a rank which is not done in time, [`lost_rank`](Error::lost_rank), or the error of a device. The flags
    /// are then released and the kernels end.
    pub fn wait(&mut self, within: Duration) -> Result<(), Error> {
        let waited = self.ranks.wait(within, (&self.came, &self.arrived));
        self.is_over |= waited.is_err();
        waited
    }

    fn end(&mut self) {
        self.is_over = true;
        release(&self.arrived);
    }

    /// A piece of the chunk of a rank in gathered memory: of its number and the number of all.
    fn chunk(
        &self,
        gathered: &Buffer<T>,
        rank: usize,
        (piece, pieces): (i64, i64),
    ) -> Result<Buffer<T>, colex_device::Error> {
        let chunk = self.problem.m / self.problem.ranks * self.problem.k;
        let each = chunk / pieces;
        let start = (rank as i64 * chunk + piece * each) as usize;
        gathered.slice(start..start + each as usize)
    }

    fn enqueue(&mut self) -> Result<(), Error> {
        self.came = self.ranks.record()?;
        let (members, ready) = (self.ranks.members(), &self.came);
        // All copies come before all kernels: a kernel that waits for a flag takes the multiprocessors, and never a copy engine.
        for (rank, member) in members.iter().enumerate() {
            wait_for(&member.copies, ready)?;
            let others = self.order.chunks(rank as i64).map_err(rank_error)?;
            for from in others.into_iter().skip(1) {
                for piece in (0..self.pieces).rev() {
                    self.copy(rank, from as usize, piece)?;
                }
            }
        }
        let copied = self.ranks.record_copies()?;
        for (rank, member) in members.iter().enumerate() {
            if self.path == RankPath::PeerMemory {
                let own = (0..self.pieces).map(|piece| rank as i64 * self.pieces + piece);
                for flag in own {
                    self.arrived[rank].set(&member.device, flag as usize, self.round)?;
                }
            } else {
                member.device.wait_for(&copied[rank])?;
            }
            self.with_product(rank, |product| product.run())?;
        }
        for member in members {
            wait_for(&member.device, &copied)?;
        }
        Ok(())
    }

    /// Enqueues the copy of a piece from another rank, and its flag.
    fn copy(&self, rank: usize, from: usize, piece: i64) -> Result<(), Error> {
        let stream = &self.ranks.members()[rank].copies;
        let at = |gathered| self.chunk(gathered, from, (piece, self.pieces));
        stream.enqueue_copy(&at(&self.a[rank])?, &at(&self.peers[rank][from])?)?;
        if self.path == RankPath::PeerMemory {
            let flag = from as i64 * self.pieces + piece;
            self.arrived[rank].set(stream, flag as usize, self.round)?;
        }
        Ok(())
    }

    /// What `act` makes of the product of a rank.
    fn with_product<X>(
        &self,
        rank: usize,
        act: impl FnOnce(Gemm<'_, T, C>) -> Result<X, Error>,
    ) -> Result<X, Error> {
        let RankProblem { m, n, k, ranks, .. } = self.problem;
        let (n, chunks) = (n / ranks, ranks * self.pieces);
        let rows = m / chunks;
        // The rank, or the piece of one, is the last mode.
        let a = View::new(
            &self.a[rank],
            strided([(rows, k), (k, 1), (chunks, rows * k)])?,
        )?;
        let b = View::new(&self.b[rank], strided([(n, k), (k, 1), (chunks, 0)])?)?;
        // Only this call writes C, and its handles are this call's.
        let mut c = self.c[rank].clone();
        let c = ViewMut::new(&mut c, strided([(rows, n), (n, 1), (chunks, rows * n)])?)?;
        let first = (rank as i64 + 1) * self.pieces - 1;
        let product = Gemm::new(&a, &b, &c);
        if !self.in_chunks {
            return act(product);
        }
        let product = product.chunks(ChunkOrder::Descending, first);
        if self.path != RankPath::PeerMemory {
            return act(product);
        }
        let arrived = self.arrived[rank].buffer().view(chunks)?;
        act(product.arrivals(&arrived))
    }
}
