//! How long the ways of a product over devices take, by the speeds of links and the model of products.

use core::fmt;

use colex_atom::Arch;
use colex_device::Rates;
use colex_sched::{ChunkTimes, Overlap, OverlapPlan};

use super::links::LinkSpeeds;
use super::options::{RankSends, RankSums};
use super::product::rank_error;
use crate::error::Error;
use crate::gemm::call::operands;
use crate::gemm::chunks::{ChunkForm, ChunkOrder, choose, microseconds};
use crate::gemm::{Machine, operations};
use crate::kernels::{GemmElement, GemmProblem};
use crate::ranks::{RankPath, RankProblem};

/// One way of a product over devices, with its predicted time.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct RankEstimate {
    /// The path.
    pub path: RankPath,
    /// What brings the terms of a sum to their owners and what adds the slots, on the path [`RankPath::PeerMemory`] of a sum.
    pub terms: Option<(RankSends, RankSums)>,
    /// The pieces of a chunk with which the way is the fastest.
    pub pieces: i64,
    /// The predicted time in microseconds.
    pub microseconds: f64,
}

impl RankEstimate {
    /// The way in words.
    fn way(&self) -> String {
        let sends = match self.terms {
            None => return self.path.to_string(),
            Some((RankSends::Reduction, _)) => return format!("{}, kernels that add", self.path),
            Some((RankSends::Engines, _)) => "copy engines send",
            Some((RankSends::Kernel, _)) => "kernels store",
        };
        let sums = match self.terms {
            Some((_, RankSums::Epilogue)) => "the epilogue adds".to_string(),
            Some((_, RankSums::Early(early))) => {
                let slots = if early == 1 { "slot" } else { "slots" };
                format!("the epilogue adds the first {early} {slots} and a kernel the others")
            }
            Some((_, RankSums::Kernel)) | None => "a kernel adds".to_string(),
        };
        format!("{}, {sends}, {sums}", self.path)
    }
}

/// The ways of a product over devices, with the time that each one is predicted to take: those of the path of peer memory first, and of
/// these first the one that a call takes unless the caller says another.
///
/// The constants are fitted to what four H100 and four H200 took (`gpu/PERFORMANCE.md`): each recorded time is within a tenth. The times
/// of [`RankSums::Early`] follow from the same constants. Two early slots of 8192 cubed took 564 us, which they do not explain.
///
/// ```
/// use colex_atom::Arch;
/// use colex_gpu::Rates;
/// use colex_gpu::ranks::{LinkSpeeds, RankForecast, RankPath, RankProblem, RankSends, RankSums};
/// use colex_sched::Overlap;
/// use half::bf16;
///
/// // The first product of a layer, tensor parallel by 4, on devices with the rates of an H200.
/// let problem = RankProblem { overlap: Overlap::GatherProduct, ranks: 4, m: 8192, n: 28672, k: 8192 };
/// let h200 = Rates::of(Arch::Sm90a);
/// let forecast = |problem: &RankProblem| {
///     RankForecast::of::<bf16, bf16>(problem, Arch::Sm90a, h200, &LinkSpeeds::default())
/// };
/// let gather = forecast(&problem)?;
/// assert_eq!(gather.fastest(), RankPath::PeerMemory);
/// let time = |path| gather.microseconds(path).expect("a path of several ranks");
/// // The copies hide behind the product but for the first.
/// assert!(time(RankPath::PeerMemory) < time(RankPath::NcclAfter));
/// // A collective waits for the multiprocessors, which the product has: pieces bring nothing, and one piece is NCCL before the product.
/// assert_eq!(time(RankPath::NcclAfter), time(RankPath::NcclInChunks));
/// let chunks = |pieces| gather.of_way(RankPath::NcclInChunks, None, pieces).expect("a path of several ranks");
/// assert!(chunks(1) < chunks(2));
/// assert_eq!(gather.microseconds(RankPath::Local), None);
///
/// // A sum has seven ways by peer memory on four ranks.
/// let sum = RankProblem { overlap: Overlap::ProductScatter, n: 8192, ..problem };
/// let ways = forecast(&sum)?;
/// let peers = ways.estimates().iter().filter(|of| of.path == RankPath::PeerMemory);
/// assert_eq!(peers.clone().count(), 7);
/// assert_eq!(peers.clone().next().and_then(|of| of.terms), Some((RankSends::Engines, RankSums::Kernel)));
/// # Ok::<(), colex_gpu::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct RankForecast {
    parts: ForecastParts,
    estimates: Vec<RankEstimate>,
}

/// What the times are made of, in microseconds.
#[derive(Clone, Debug, PartialEq)]
struct ForecastParts {
    problem: RankProblem,
    links: LinkSpeeds,
    /// The products of all chunks: alone, and with a kernel that tells what is stored.
    product: f64,
    departs: f64,
    /// The rounds of tiles of a chunk.
    rounds: f64,
    /// The bytes of a chunk that is sent, and of the sums of one.
    bytes: f64,
    sums: f64,
    /// The sum of the slots of a chunk, the read of all but one, zeros in its place, and the rounding of what is added to these.
    add: f64,
    slots: f64,
    zeros: f64,
    rounded: f64,
}

/// Microseconds as whole nanoseconds.
fn nanoseconds(microseconds: f64) -> u64 {
    (microseconds * 1e3).round() as u64
}

impl RankForecast {
    /// Returns the predicted times of a product of elements `T` into elements `C`, with terms of these, on devices of an architecture
    /// with these rates.
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
        RankForecast::with_terms::<T, C, C>(problem, (arch, rates), links)
    }

    /// The same, with terms of `S`.
    pub(super) fn with_terms<T: GemmElement, C: GemmElement, S: GemmElement>(
        problem: &RankProblem,
        of: (Arch, Rates),
        links: &LinkSpeeds,
    ) -> Result<RankForecast, Error> {
        problem.layouts()?;
        OverlapPlan::new(problem.overlap, problem.ranks).map_err(rank_error)?;
        let parts = match problem.overlap {
            Overlap::GatherProduct => ForecastParts::new::<T, C, C>(problem, of, links),
            Overlap::ProductScatter | Overlap::ProductReduce => {
                ForecastParts::new::<T, C, S>(problem, of, links)
            }
        };
        let estimates = parts.ways().into_iter().map(|(path, terms)| {
            let rows = problem.m / problem.ranks;
            let pieces = PIECES.into_iter().filter(|pieces| rows % pieces == 0);
            let pieces = pieces.filter(|pieces| *pieces == 1 || parts.has_pieces(path, terms));
            let times = pieces.map(|pieces| Ok((pieces, parts.time(path, terms, pieces)?)));
            let times = times.collect::<Result<Vec<(i64, f64)>, Error>>()?;
            let least = times.into_iter().min_by(|x, y| x.1.total_cmp(&y.1));
            let (pieces, microseconds) = least.expect("one piece divides all rows");
            Ok(RankEstimate {
                path,
                terms,
                pieces,
                microseconds,
            })
        });
        let estimates = estimates.collect::<Result<_, Error>>()?;
        Ok(RankForecast { parts, estimates })
    }

    /// Returns all ways.
    pub fn estimates(&self) -> &[RankEstimate] {
        &self.estimates
    }

    /// Returns the predicted time of a way with a number of pieces; `None` if there is no such way.
    ///
    /// ```
    /// # use colex_atom::Arch;
    /// # use colex_gpu::Rates;
    /// # use colex_gpu::ranks::{LinkSpeeds, RankForecast, RankPath, RankProblem, RankSends, RankSums};
    /// # use colex_sched::Overlap;
    /// # use half::bf16;
    /// let of = |overlap| {
    ///     let problem = RankProblem { overlap, ranks: 4, m: 8192, n: 8192, k: 8192 };
    ///     let h200 = Rates::of(Arch::Sm90a);
    ///     RankForecast::of::<bf16, bf16>(&problem, Arch::Sm90a, h200, &LinkSpeeds::default())
    /// };
    /// let time = |forecast: &RankForecast, sums| {
    ///     forecast.of_way(RankPath::PeerMemory, Some((RankSends::Engines, sums)), 1)
    /// };
    /// let scatter = of(Overlap::ProductScatter)?;
    /// // The epilogue waits for the last term before it adds.
    /// assert!(time(&scatter, RankSums::Kernel) < time(&scatter, RankSums::Epilogue));
    /// assert_eq!(time(&of(Overlap::GatherProduct)?, RankSums::Kernel), None);
    /// # Ok::<(), colex_gpu::Error>(())
    /// ```
    pub fn of_way(
        &self,
        path: RankPath,
        terms: Option<(RankSends, RankSums)>,
        pieces: i64,
    ) -> Option<f64> {
        let mut ways = self.parts.ways().into_iter();
        let has_pieces = pieces == 1 || self.parts.has_pieces(path, terms);
        let is_known = ways.any(|way| way == (path, terms)) && pieces >= 1 && has_pieces;
        let time = is_known.then(|| self.parts.time(path, terms, pieces));
        time.and_then(Result::ok)
    }

    /// Returns the faster of the paths by NCCL.
    pub(super) fn by_nccl(&self) -> RankPath {
        // Of paths that take as long, the last one: NCCL in chunks comes first, and with one piece it is NCCL beside nothing.
        let known = self.estimates.iter().rev();
        let known = known.filter(|of| of.path.is_by_nccl());
        let least = known.min_by(|x, y| x.microseconds.total_cmp(&y.microseconds));
        least.map_or(RankPath::NcclAfter, |of| of.path)
    }

    /// The first way of a path.
    fn first(&self, path: RankPath) -> Option<&RankEstimate> {
        self.estimates.iter().find(|of| of.path == path)
    }

    /// Returns the pieces of a chunk by which a path was predicted.
    pub(crate) fn pieces(&self, path: RankPath) -> i64 {
        self.first(path).map_or(1, |of| of.pieces)
    }

    /// Returns the path that is predicted to be the fastest, of the ways that a call takes unless the caller says another.
    pub fn fastest(&self) -> RankPath {
        let usual = self.estimates.iter().rev();
        let usual = usual.filter(|of| self.first(of.path) == Some(of));
        let least = usual.min_by(|x, y| x.microseconds.total_cmp(&y.microseconds));
        least.map_or(RankPath::Local, |of| of.path)
    }

    /// Returns the predicted time of a path, by the way that a call takes unless the caller says another; `None` if this number of ranks
    /// does not take it.
    pub fn microseconds(&self, path: RankPath) -> Option<f64> {
        self.first(path).map(|of| of.microseconds)
    }
}

impl ForecastParts {
    fn new<T: GemmElement, C: GemmElement, S: GemmElement>(
        problem: &RankProblem,
        (arch, rates): (Arch, Rates),
        links: &LinkSpeeds,
    ) -> ForecastParts {
        let RankProblem { ranks, m, n, k, .. } = *problem;
        let gathers = problem.overlap == Overlap::GatherProduct;
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
        // What is larger than a kernel takes is predicted as the largest that one takes.
        let each = each.possible();
        let operands = operands::<T, S>(&each, [256; 3], &Default::default());
        let machine = Machine::of(rates);
        // All devices of a host at work are not as fast as one: all recorded products have this rate, with every plan.
        let sustained = operations(&each) / SUSTAINED * (T::BYTES as f64 / 2.0);
        let form = |departs: bool| ChunkForm {
            order: ChunkOrder::Ascending,
            arrives: gathers,
            owners: 0,
            departs,
            adds: false,
            leaves_last: false,
        };
        let plan = |departs| choose(&each, operands, (arch, machine), Some(form(departs)));
        let [alone, told] = [false, true].map(plan);
        let waits =
            microseconds(&told, &each, true, machine) - microseconds(&told, &each, false, machine);
        let product = microseconds(&alone, &each, false, machine).max(sustained);
        let departs = microseconds(&told, &each, false, machine).max(sustained) + waits;
        let elements = rows as f64 * n as f64;
        let [bytes, sums] = [S::BYTES, C::BYTES].map(|bytes| elements * bytes as f64);
        let bytes = if gathers {
            rows as f64 * k as f64 * T::BYTES as f64
        } else {
            bytes
        };
        let others = (ranks - 1) as f64;
        let is_sum = f64::from(!gathers);
        ForecastParts {
            problem: *problem,
            links: *links,
            product,
            departs,
            rounds: (alone.cost(&each, machine).waves / ranks as f64).max(1.0),
            bytes,
            sums: if problem.overlap == Overlap::ProductReduce {
                sums
            } else {
                0.0
            },
            add: is_sum * ((bytes * ranks as f64 + sums) / MEMORY + LAUNCH),
            slots: is_sum * others * bytes / MEMORY,
            zeros: is_sum * (bytes / MEMORY + LAUNCH),
            rounded: if S::TY == C::TY {
                0.0
            } else {
                is_sum * ((bytes + sums) / MEMORY + LAUNCH)
            },
        }
    }

    /// All ways, with what brings and adds the terms of a sum by peer memory.
    fn ways(&self) -> Vec<(RankPath, Option<(RankSends, RankSums)>)> {
        if self.problem.ranks == 1 {
            return vec![(RankPath::Local, None)];
        }
        let peers: Vec<_> = match self.problem.overlap {
            Overlap::GatherProduct => vec![None],
            overlap => {
                let [usual, other] = [RankSends::Engines, RankSends::Kernel];
                // One to all but one of the slots of the others.
                let early = match overlap {
                    Overlap::ProductScatter => 1..self.problem.ranks - 1,
                    Overlap::GatherProduct | Overlap::ProductReduce => 1..1,
                };
                let early = early.map(|early| (RankSends::Engines, RankSums::Early(early)));
                let all = [
                    (usual, RankSums::Kernel),
                    (other, RankSums::Kernel),
                    (usual, RankSums::Epilogue),
                    (other, RankSums::Epilogue),
                    (RankSends::Reduction, RankSums::Kernel),
                ];
                all.into_iter().chain(early).map(Some).collect()
            }
        };
        let peers = peers.into_iter().map(|terms| (RankPath::PeerMemory, terms));
        let others = [
            RankPath::OneAfterAnother,
            RankPath::NcclInChunks,
            RankPath::NcclAfter,
        ];
        peers.chain(others.map(|path| (path, None))).collect()
    }

    /// Whether a way may have more than one piece.
    fn has_pieces(&self, path: RankPath, terms: Option<(RankSends, RankSums)>) -> bool {
        match (path, self.problem.overlap) {
            (RankPath::NcclInChunks, _) | (RankPath::PeerMemory, Overlap::GatherProduct) => true,
            (RankPath::PeerMemory, Overlap::ProductReduce) => {
                terms.is_some_and(|(sends, _)| sends != RankSends::Engines)
            }
            _ => false,
        }
    }

    /// The time of a way.
    fn time(
        &self,
        path: RankPath,
        terms: Option<(RankSends, RankSums)>,
        pieces: i64,
    ) -> Result<f64, Error> {
        let ForecastParts { links, product, .. } = self;
        let others = (self.problem.ranks - 1) as f64;
        let copies = self.copies();
        // Of an all-reduce, the copies of the sums.
        let pushed = others * self.sums / links.copies;
        let reduces = self.problem.overlap == Overlap::ProductReduce;
        let push = |pieces: f64| f64::from(reduces) * (pushed / pieces + links.start);
        // NCCL has no sum that waits for its owner: its reductions add on the way.
        let ways = if reduces { 2.0 } else { 1.0 };
        let nccl = ways * others * self.bytes / links.nccl + NCCL;
        let pieces = pieces as f64;
        Ok(match path {
            RankPath::Local => *product,
            RankPath::PeerMemory => {
                let stage = self.overlapped(terms)? + links.start;
                let more = pieces - 1.0;
                match terms {
                    None => stage + more * PIECE,
                    // The sums of a piece travel beside the next one, on the links that its terms take too.
                    Some(_) if reduces => {
                        let beside = BESIDE * pushed * more / pieces;
                        stage + more * PIECE_OF_SUMS + beside + push(pieces)
                    }
                    Some(_) => stage,
                }
            }
            RankPath::OneAfterAnother => product + self.add + copies + links.start + push(1.0),
            // The kernels of a product take all multiprocessors until they end, and so do those of NCCL wait for them: nothing is hidden.
            RankPath::NcclInChunks => product + nccl + links.start + (pieces - 1.0) * NCCL_PIECE,
            RankPath::NcclAfter => product + nccl + links.start,
        })
    }

    fn copies(&self) -> f64 {
        (self.problem.ranks - 1) as f64 * self.bytes / self.links.copies
    }

    /// The time of the path of peer memory until the sums of all owners are there, without its start.
    fn overlapped(&self, terms: Option<(RankSends, RankSums)>) -> Result<f64, Error> {
        let ranks = self.problem.ranks as f64;
        let send = self.bytes / self.links.copies;
        let until_added = |overlap: Overlap, product: f64, add: f64| {
            let times = ChunkTimes {
                send: nanoseconds(send),
                product: nanoseconds(product / ranks),
                add: nanoseconds(add),
            };
            let order = OverlapPlan::new(overlap, self.problem.ranks);
            let time = order.and_then(|order| order.time(&times));
            Ok::<f64, Error>(time.map_err(rank_error)? as f64 / 1e3)
        };
        // The sums of an all-reduce go their own way.
        let sum = Overlap::ProductScatter;
        let stored = |[once, part]: [f64; 2]| self.product * (1.0 + part) + once;
        let Some(terms) = terms else {
            let product = self.product * ARRIVES;
            return until_added(Overlap::GatherProduct, product, 0.0);
        };
        // The product of the own chunk waits for the last term behind its first round.
        let own = |first: f64| {
            let (own, rounds) = (self.product / ranks, self.rounds);
            let behind = own * (rounds - 1.0) / rounds;
            (own / rounds).max(first) + behind + self.slots + EPILOGUE
        };
        match terms {
            (RankSends::Engines, RankSums::Kernel) => until_added(sum, self.departs, self.add),
            (RankSends::Kernel, RankSums::Kernel) => {
                // What the kernel stores is there at its end.
                Ok(stored(STORES) + self.add)
            }
            (RankSends::Engines, RankSums::Epilogue) => {
                Ok(self.departs * (ranks - 1.0) / ranks + own(send))
            }
            (RankSends::Kernel, RankSums::Epilogue) => {
                Ok(stored(STORES) * (ranks - 1.0) / ranks + own(0.0))
            }
            // A kernel that stores brings all slots at its end, so that `ways` has engines only.
            (RankSends::Engines | RankSends::Kernel, RankSums::Early(early)) => {
                // The last term is sent when the product of the others' chunks ends, beside the own one. TMA loads the first early slot beside
                // the main loop, and the threads load the others behind it.
                let others = self.departs * (ranks - 1.0) / ranks;
                let read = self.slots / (ranks - 1.0);
                let own = self.product / ranks + read * (early as f64 - 1.0) + LAUNCH;
                let sends = self.departs / ranks + send * (ranks - 1.0);
                Ok((others + own.max(send)).max(sends) + self.add - read * early as f64)
            }
            (RankSends::Reduction, _) => Ok(self.zeros + stored(ADDS) + self.rounded),
        }
    }
}

/// Operations on 16-bit elements in a microsecond, of devices that all work: products of 230 to 2700 us on four H100 and four H200 had 6.9 to 7.4e8.
const SUSTAINED: f64 = 7.2e8;

/// What the copies that come beside a product make it longer.
const ARRIVES: f64 = 1.03;

/// The microseconds of each piece but the first, of an all-gather and of an all-reduce.
const PIECE: f64 = 45.0;
const PIECE_OF_SUMS: f64 = 5.0;

/// A product whose kernel stores its terms in the memory of the owners, or adds them there: microseconds, and the part more of its time.
const STORES: [f64; 2] = [30.0, 0.077];
const ADDS: [f64; 2] = [63.0, 0.092];

/// The microseconds of a product of the own chunk that adds slots, beside what it multiplies and reads.
const EPILOGUE: f64 = 50.0;

/// The part of the copies of sums that the next piece of an all-reduce does not hide.
const BESIDE: f64 = 0.8;

/// The bytes per microsecond of the memory of a device.
const MEMORY: f64 = 3.6e6;

/// The pieces of a chunk that a path in pieces may take.
const PIECES: [i64; 4] = [1, 2, 4, 8];

/// The microseconds of a launch, and of the wait before it.
const LAUNCH: f64 = 12.0;

/// The microseconds of a collective of NCCL beside the bytes that it brings, and those by which each piece of a product in chunks but the
/// first is late: of four H100.
const NCCL: f64 = 60.0;
const NCCL_PIECE: f64 = 135.0;

impl fmt::Display for RankForecast {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ForecastParts { links, product, .. } = &self.parts;
        let others = (self.parts.problem.ranks - 1) as f64;
        let copies = match self.parts.problem.ranks {
            1 => 0.0,
            _ => self.parts.copies() + links.start + others * self.parts.sums / links.copies,
        };
        write!(
            f,
            "product alone {product:.0} us, copies alone {copies:.0} us"
        )?;
        for of in &self.estimates {
            write!(f, "\n  {}: {:.0} us", of.way(), of.microseconds)?;
        }
        Ok(())
    }
}
