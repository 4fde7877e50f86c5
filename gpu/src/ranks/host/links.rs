//! How long the paths of a product over devices take, by the speeds of links and the model of products.

use core::fmt;

use colex_atom::Arch;
use colex_sched::{ChunkTimes, Overlap, OverlapPlan};

use crate::error::{Error, RankError};
use crate::gemm::call::operands;
use crate::gemm::chunks::choose;
use crate::kernels::{GemmElement, GemmProblem};
use crate::ranks::{RankPath, RankProblem};

/// The speeds of the links between the devices of a host, in bytes per microsecond (megabytes per second).
///
/// The default is what four H200 with 18 NVLinks each were measured at, all of them at work: copies of 8 to 32 MiB take 195 GB/s, and
/// an all-gather of NCCL 2.28 brings 300 GB/s to each device. (One device alone writes 392 GB/s to one peer.)
///
/// ```
/// use colex_gpu::ranks::LinkSpeeds;
///
/// let links = LinkSpeeds::default();
/// assert_eq!(links.copies, 195e3);
/// // Each device copies 64 MiB from a peer.
/// assert_eq!((f64::from(64 << 20) / links.copies).round(), 344.0);
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
            copies: 195e3,
            nccl: 300e3,
            start: 20.0,
        }
    }
}

/// The path of a product over devices, with the time that each path is predicted to take.
///
/// ```
/// use colex_atom::Arch;
/// use colex_gpu::ranks::{LinkSpeeds, RankForecast, RankPath, RankProblem};
/// use colex_sched::Overlap;
/// use half::bf16;
///
/// // The first product of a layer, tensor parallel by 4, on devices of 132 multiprocessors.
/// let problem = RankProblem { overlap: Overlap::GatherProduct, ranks: 4, m: 8192, n: 28672, k: 8192 };
/// let forecast = RankForecast::of::<bf16, bf16>(&problem, Arch::Sm90a, 132, &LinkSpeeds::default())?;
/// assert_eq!(forecast.fastest(), RankPath::PeerMemory);
/// let time = |path| forecast.microseconds(path).expect("a path of several ranks");
/// // The copies hide behind the product but for the first.
/// assert!(time(RankPath::PeerMemory) < time(RankPath::NcclInChunks));
/// assert!(time(RankPath::NcclInChunks) < time(RankPath::NcclAfter));
/// assert_eq!(forecast.microseconds(RankPath::Local), None);
/// # Ok::<(), colex_gpu::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct RankForecast {
    times: Vec<(RankPath, f64)>,
    /// The microseconds of the product alone, and of the copies of one rank alone.
    product: f64,
    copies: f64,
}

/// Microseconds as whole nanoseconds.
fn nanoseconds(microseconds: f64) -> u64 {
    (microseconds * 1e3).round() as u64
}

impl RankForecast {
    /// Returns the predicted times of a product of elements `T` into elements `C`, or into slots of these, on devices of an
    /// architecture with a number of multiprocessors.
    ///
    /// # Errors
    ///
    /// As [`RankProblem::layouts`].
    pub fn of<T: GemmElement, C: GemmElement>(
        problem: &RankProblem,
        arch: Arch,
        multiprocessors: i64,
        links: &LinkSpeeds,
    ) -> Result<RankForecast, Error> {
        problem.layouts()?;
        let order = OverlapPlan::new(problem.overlap, problem.ranks);
        let order = order.map_err(|why| RankError::Operand {
            name: "the plan",
            why,
        })?;
        let RankProblem { ranks, m, n, k, .. } = *problem;
        let (n, k) = match problem.overlap {
            Overlap::GatherProduct => (n / ranks, k),
            Overlap::ProductScatter => (n, k / ranks),
        };
        let rows = m / ranks;
        let each = GemmProblem {
            batch: ranks,
            ..GemmProblem::new(rows, n, k)
        };
        let (addresses, steps) = ([256; 3], Default::default());
        let plan = choose(
            &each,
            operands::<T, C>(&each, addresses, &steps),
            arch,
            multiprocessors,
        );
        let product = plan.cost(&each, multiprocessors).total();
        let bytes = match problem.overlap {
            Overlap::GatherProduct => rows as f64 * k as f64 * T::BYTES as f64,
            Overlap::ProductScatter => rows as f64 * n as f64 * C::BYTES as f64,
        };
        let add = match problem.overlap {
            Overlap::GatherProduct => 0.0,
            // All slots are read and a chunk is written, at the speed of the device's memory.
            Overlap::ProductScatter => bytes * (ranks + 1) as f64 / MEMORY + LAUNCH,
        };
        if ranks == 1 {
            return Ok(RankForecast {
                times: vec![(RankPath::Local, product)],
                product,
                copies: 0.0,
            });
        }
        let others = (ranks - 1) as f64;
        let send = |speed: f64| bytes / speed;
        let overlapped = |speed: f64| -> Result<f64, Error> {
            let times = ChunkTimes {
                send: nanoseconds(send(speed)),
                product: nanoseconds(product / ranks as f64),
                add: nanoseconds(add),
            };
            let time = order.time(&times).map_err(|why| RankError::Operand {
                name: "the plan",
                why,
            })?;
            Ok(time as f64 / 1e3 + links.start)
        };
        let copies = others * send(links.copies) + links.start;
        // NCCL has no sum that waits for its owner: its reduce-scatter adds on the way.
        let nccl = others * send(links.nccl) + links.start;
        // In chunks each collective is shorter, starts anew, and takes multiprocessors from the product.
        let in_chunks = overlapped(links.nccl)? + others * links.start + product * NCCL_SHARE;
        Ok(RankForecast {
            times: vec![
                (RankPath::PeerMemory, overlapped(links.copies)?),
                (RankPath::OneAfterAnother, product + copies + add),
                (RankPath::NcclInChunks, in_chunks),
                (RankPath::NcclAfter, product + nccl),
            ],
            product,
            copies,
        })
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

/// The microseconds of a launch.
const LAUNCH: f64 = 4.0;

/// The part of a device that the kernels of a collective take from a product: 16 of 132 multiprocessors.
const NCCL_SHARE: f64 = 16.0 / 132.0;

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
        Ok(())
    }
}
