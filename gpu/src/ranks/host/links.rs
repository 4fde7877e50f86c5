//! How long the paths of a product over devices take, by the speeds of links and the model of products.

use core::fmt;

use colex_atom::Arch;
use colex_device::Rates;
use colex_sched::{ChunkTimes, Overlap, OverlapPlan};

use crate::error::{Error, RankError};
use crate::gemm::Machine;
use crate::gemm::call::operands;
use crate::gemm::chunks::choose;
use crate::kernels::{GemmElement, GemmProblem};
use crate::ranks::{RankPath, RankProblem};

/// The speeds of the links between the devices of a host, in bytes per microsecond (megabytes per second).
///
/// The default is what four H200 with 18 NVLinks each were measured at, all of them at work: copy engines that write to the other devices
/// send 339 to 358 GB/s, and an all-gather of NCCL 2.28 brings 300 GB/s to each device. (Engines that read from the others
/// bring 176 to 209 GB/s.)
///
/// ```
/// use colex_gpu::ranks::LinkSpeeds;
///
/// let links = LinkSpeeds::default();
/// assert_eq!(links.copies, 330e3);
/// // Each device copies 64 MiB from a peer.
/// assert_eq!((f64::from(64 << 20) / links.copies).round(), 203.0);
/// ```
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct LinkSpeeds {
    /// The copies of each device, while all others copy too.
    pub copies: f64,
    /// The collectives of NCCL: bytes that each device receives.
    pub nccl: f64,
    /// The microseconds until a copy or a collective begins.
    pub start: f64,
}

impl Default for LinkSpeeds {
    fn default() -> LinkSpeeds {
        LinkSpeeds {
            copies: 330e3,
            nccl: 300e3,
            start: 20.0,
        }
    }
}

/// The path of a product over devices, with the time that each path is predicted to take.
///
/// ```
/// use colex_atom::Arch;
/// use colex_gpu::Rates;
/// use colex_gpu::ranks::{LinkSpeeds, RankForecast, RankPath, RankProblem};
/// use colex_sched::Overlap;
/// use half::bf16;
///
/// // The first product of a layer, tensor parallel by 4, on devices with the rates of an H200.
/// let problem = RankProblem { overlap: Overlap::GatherProduct, ranks: 4, m: 8192, n: 28672, k: 8192 };
/// let h200 = Rates::of(Arch::Sm90a);
/// let forecast = RankForecast::of::<bf16, bf16>(&problem, Arch::Sm90a, h200, &LinkSpeeds::default())?;
/// assert_eq!(forecast.fastest(), RankPath::PeerMemory);
/// let time = |path| forecast.microseconds(path).expect("a path of several ranks");
/// // The copies hide behind the product but for the first.
/// assert!(time(RankPath::PeerMemory) < time(RankPath::NcclAfter));
/// // A collective waits for the multiprocessors, which the product has.
/// assert!(time(RankPath::NcclAfter) < time(RankPath::NcclInChunks));
/// assert_eq!(forecast.microseconds(RankPath::Local), None);
/// # Ok::<(), colex_gpu::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct RankForecast {
    times: Vec<(RankPath, f64)>,
    /// The time of peer memory if kernels add to the sums of the owners.
    reduction: Option<f64>,
    /// The microseconds of the product alone, and of the copies of one rank alone.
    product: f64,
    copies: f64,
    /// The pieces by which the paths in pieces are predicted.
    pieces: Vec<(RankPath, i64)>,
}

/// Microseconds as whole nanoseconds.
fn nanoseconds(microseconds: f64) -> u64 {
    (microseconds * 1e3).round() as u64
}

impl RankForecast {
    /// Returns the predicted times of a product of elements `T` into elements `C`, or into slots of these, on devices of an
    /// architecture with these rates.
    ///
    /// # Errors
    ///
    /// As [`RankProblem::layouts`].
    pub fn of<T: GemmElement, C: GemmElement>(
        problem: &RankProblem,
        arch: Arch,
        rates: Rates,
        links: &LinkSpeeds,
    ) -> Result<RankForecast, Error> {
        RankForecast::with_sums::<T, C, C>(problem, (arch, rates), links)
    }

    /// The same, of terms `S` whose sums are `C`.
    pub(super) fn with_sums<T: GemmElement, S: GemmElement, C: GemmElement>(
        problem: &RankProblem,
        (arch, rates): (Arch, Rates),
        links: &LinkSpeeds,
    ) -> Result<RankForecast, Error> {
        problem.layouts()?;
        let RankProblem { ranks, m, n, k, .. } = *problem;
        let gathers = problem.overlap == Overlap::GatherProduct;
        let reduces = problem.overlap == Overlap::ProductReduce;
        let (n, k) = if gathers {
            (n / ranks, k)
        } else {
            (n, k / ranks)
        };
        let rows = m / ranks;
        let each = GemmProblem {
            batch: ranks,
            ..GemmProblem::new(rows, n, k)
        };
        let (addresses, steps) = ([256; 3], Default::default());
        let machine = Machine::of(rates);
        let plan = choose(
            &each,
            operands::<T, S>(&each, addresses, &steps),
            arch,
            machine,
        );
        let product = plan.cost(&each, machine).total();
        let bytes = if gathers {
            rows as f64 * k as f64 * T::BYTES as f64
        } else {
            rows as f64 * n as f64 * S::BYTES as f64
        };
        // All slots are read and a chunk is written, at the speed of the device's memory.
        let add = if gathers {
            0.0
        } else {
            bytes * (ranks + 1) as f64 / MEMORY + LAUNCH
        };
        if ranks == 1 {
            return Ok(RankForecast {
                times: vec![(RankPath::Local, product)],
                reduction: None,
                product,
                copies: 0.0,
                pieces: Vec::new(),
            });
        }
        let others = (ranks - 1) as f64;
        let send = |speed: f64| bytes / speed;
        // The sums of an all-reduce go their own way below.
        let until_added = match problem.overlap {
            Overlap::ProductReduce => Overlap::ProductScatter,
            other => other,
        };
        let until_added = |add: f64| -> Result<f64, Error> {
            let times = ChunkTimes {
                send: nanoseconds(send(links.copies)),
                product: nanoseconds(product / ranks as f64),
                add: nanoseconds(add),
            };
            let order = OverlapPlan::new(until_added, ranks).and_then(|order| order.time(&times));
            let time = order.map_err(|why| RankError::Operand {
                name: "the plan",
                why,
            })?;
            Ok(time as f64 / 1e3)
        };
        let overlapped = until_added(add)?;
        let copies = others * send(links.copies);
        // Of an all-reduce, the copies of the sums, and with their start.
        let sums = rows as f64 * n as f64 * C::BYTES as f64;
        let sums = others * sums / links.copies;
        let pushed = if reduces { sums + links.start } else { 0.0 };
        let ways = if reduces { 2.0 } else { 1.0 };
        // NCCL has no sum that waits for its owner: its reductions add on the way.
        let nccl = ways * others * send(links.nccl);
        let peers = |overlapped: f64, pieces: f64| {
            if !reduces {
                return overlapped + links.start;
            }
            // The terms of a piece, beside the sums of the piece before, on the same links.
            let stage = overlapped / pieces + links.start;
            let push = sums / pieces + links.start;
            stage + (pieces - 1.0) * stage.max(push + copies / pieces) + push
        };
        // The kernels of a product take all multiprocessors until they end, and so do those of NCCL wait for them: nothing is hidden.
        let in_chunks = |pieces: f64| product + nccl + links.start + pieces * NCCL_PIECE;
        let best = |path: RankPath, time: &dyn Fn(f64) -> f64| {
            let known = PIECES.into_iter().filter(|pieces| rows % pieces == 0);
            let known = known.map(|pieces| (pieces, time(pieces as f64)));
            let least = known.min_by(|a, b| a.1.total_cmp(&b.1));
            let (pieces, time) = least.unwrap_or((1, time(1.0)));
            ((path, time), (path, pieces))
        };
        // Zeros are written before the kernels, which add; then the sum is rounded, unless it is C.
        let rounded = if S::TY == C::TY {
            0.0
        } else {
            (rows as f64 * n as f64) * (S::BYTES + C::BYTES) as f64 / MEMORY + LAUNCH
        };
        let zeros = bytes / MEMORY + LAUNCH;
        let reduction = if gathers {
            None
        } else {
            Some(until_added(zeros + rounded)?)
        };
        let reduction = reduction.map(|overlapped| {
            let time = |pieces| peers(overlapped, pieces);
            best(RankPath::PeerMemory, &time).0.1
        });
        let peers = best(RankPath::PeerMemory, &|pieces| peers(overlapped, pieces));
        let in_chunks = best(RankPath::NcclInChunks, &in_chunks);
        Ok(RankForecast {
            times: vec![
                peers.0,
                (
                    RankPath::OneAfterAnother,
                    product + add + copies + links.start + pushed,
                ),
                in_chunks.0,
                (RankPath::NcclAfter, product + nccl + links.start),
            ],
            reduction,
            product,
            copies: copies + links.start + pushed,
            pieces: vec![peers.1, in_chunks.1],
        })
    }

    /// Returns the faster of the paths by NCCL.
    pub(super) fn by_nccl(&self) -> RankPath {
        let after = RankPath::NcclAfter;
        let is_nccl = |path: RankPath| matches!(path, RankPath::NcclInChunks | RankPath::NcclAfter);
        let known = self.times.iter().filter(|(path, _)| is_nccl(*path));
        let least = known.min_by(|a, b| a.1.total_cmp(&b.1));
        least.map_or(after, |(path, _)| *path)
    }

    /// Returns the pieces of a chunk by which a path was predicted.
    pub(crate) fn pieces(&self, path: RankPath) -> i64 {
        let of = self.pieces.iter().find(|(known, _)| *known == path);
        of.map_or(1, |(_, pieces)| *pieces)
    }

    /// Returns the predicted time of [`RankPath::PeerMemory`] if kernels add to the sums of the owners
    /// ([`RankSends::Reduction`](super::options::RankSends::Reduction)); `None` of an all-gather, and of one rank.
    ///
    /// ```
    /// # use colex_atom::Arch;
    /// # use colex_gpu::Rates;
    /// # use colex_gpu::ranks::{LinkSpeeds, RankForecast, RankPath, RankProblem};
    /// # use colex_sched::Overlap;
    /// # use half::bf16;
    /// let of = |overlap| {
    ///     let problem = RankProblem { overlap, ranks: 4, m: 8192, n: 8192, k: 8192 };
    ///     let h200 = Rates::of(Arch::Sm90a);
    ///     RankForecast::of::<bf16, bf16>(&problem, Arch::Sm90a, h200, &LinkSpeeds::default())
    /// };
    /// let scatter = of(Overlap::ProductScatter)?;
    /// // No slots are read: what is saved is their sum.
    /// let slots = scatter.microseconds(RankPath::PeerMemory).expect("four ranks");
    /// assert!(scatter.reduction().is_some_and(|time| time < slots));
    /// assert_eq!(of(Overlap::GatherProduct)?.reduction(), None);
    /// # Ok::<(), colex_gpu::Error>(())
    /// ```
    pub fn reduction(&self) -> Option<f64> {
        self.reduction
    }

    /// Returns the path that is predicted to be the fastest.
    pub fn fastest(&self) -> RankPath {
        let least = self.times.iter().min_by(|a, b| a.1.total_cmp(&b.1));
        least.map_or(RankPath::Local, |(path, _)| *path)
    }

    /// Returns the predicted time of a path; `None` if this number of ranks does not take it.
    pub fn microseconds(&self, path: RankPath) -> Option<f64> {
        let of = self.times.iter().find(|(known, _)| *known == path);
        of.map(|(_, time)| *time)
    }
}

/// The bytes per microsecond of the memory of a device.
const MEMORY: f64 = 3.0e6;

/// The pieces of a chunk that a path in pieces may take.
const PIECES: [i64; 4] = [1, 2, 4, 8];

/// The microseconds of a launch.
const LAUNCH: f64 = 4.0;

/// The microseconds by which each piece of a product in chunks by NCCL is late: measured on four H100, whose times were those of the
/// path without overlap and 40 to 190 us for each piece.
const NCCL_PIECE: f64 = 130.0;

impl fmt::Display for RankForecast {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "product alone {:.0} us, copies alone {:.0} us",
            self.product, self.copies
        )?;
        for (path, time) in &self.times {
            write!(f, "\n  {path}: {time:.0} us")?;
        }
        if let Some(time) = self.reduction {
            let path = RankPath::PeerMemory;
            write!(f, "\n  {path}, kernels that add: {time:.0} us")?;
        }
        Ok(())
    }
}
