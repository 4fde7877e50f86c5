//! Products over ranks with known numbers, and what their results are compared with.

use anyhow::{Result, ensure};
use colex_gpu::Buffer;
use colex_gpu::ranks::{RankOptions, RankPath, RankProblem, RankProduct, RankSends, RankSums};
use colex_sched::{ChunkSpan, Overlap};
use half::bf16;

use super::{Host, WITHIN};
use crate::bench::device::Noise;

/// Elements of C that the host computes too.
const COMPARED: i64 = 64;

/// Numbers of a normal distribution with the deviation 1/4, by the sum of twelve uniform ones; another list for each seed.
pub(in crate::bench::product) fn normal(seed: u64) -> Noise<bf16> {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let mut next = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state
    };
    Noise::of(|| {
        let sum: u64 = (0..3)
            .map(|_| {
                let word = next();
                (0..4).map(|i| word >> (16 * i) & 0xffff).sum::<u64>()
            })
            .sum();
        bf16::from_f32((sum as f32 / 65536.0 - 6.0) / 4.0)
    })
}

/// The numbers of the parts of A and B of all ranks.
pub(super) struct Numbers {
    a: Vec<Noise<bf16>>,
    b: Vec<Noise<bf16>>,
}

impl Numbers {
    pub(super) fn new(ranks: i64) -> Numbers {
        let ranks = 0..ranks as u64;
        Numbers {
            a: ranks.clone().map(|rank| normal(2 * rank + 1)).collect(),
            b: ranks.map(|rank| normal(2 * rank + 2)).collect(),
        }
    }

    /// Integers from -2 to 2, whose products have sums that f32 holds exactly.
    pub(super) fn integers(ranks: i64) -> Numbers {
        let of = |seed: u64| {
            let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
            Noise::of(move || {
                state ^= state << 13;
                state ^= state >> 7;
                state ^= state << 17;
                bf16::from_f32((state % 5) as f32 - 2.0)
            })
        };
        let ranks = 0..ranks as u64;
        Numbers {
            a: ranks.clone().map(|rank| of(2 * rank + 1)).collect(),
            b: ranks.map(|rank| of(2 * rank + 2)).collect(),
        }
    }
}

/// How a product is computed.
pub(super) struct ProductWay {
    path: Option<RankPath>,
    pub(super) pieces: Option<i64>,
    /// Whether terms of sums are f32 and not bf16.
    pub(super) wide: bool,
    /// What brings the terms of sums to their owners.
    sends: Option<RankSends>,
    /// What adds the slots.
    sums: Option<RankSums>,
}

impl ProductWay {
    pub(super) fn of(path: RankPath, pieces: Option<i64>, wide: bool) -> ProductWay {
        ProductWay {
            path: Some(path),
            pieces,
            wide,
            sends: None,
            sums: None,
        }
    }

    /// The same, whose slots are added so.
    pub(super) fn added(self, sums: RankSums) -> ProductWay {
        ProductWay {
            sums: Some(sums),
            ..self
        }
    }

    /// The same, whose terms are brought to their owners so.
    pub(super) fn by(self, sends: RankSends) -> ProductWay {
        ProductWay {
            sends: Some(sends),
            ..self
        }
    }

    /// As the library does it, with terms of bf16.
    pub(super) fn usual() -> ProductWay {
        ProductWay {
            path: None,
            pieces: None,
            wide: false,
            sends: None,
            sums: None,
        }
    }

    /// Its name, with the pieces that the call takes.
    pub(super) fn name(&self, pieces: i64) -> String {
        let path = match self.path {
            None | Some(RankPath::PeerMemory) => "overlapped".to_string(),
            Some(path) => path.to_string(),
        };
        let by = if self.pieces.is_none() {
            " by default"
        } else {
            ""
        };
        let plural = if pieces == 1 { "" } else { "s" };
        let terms = if self.wide { ", terms of f32" } else { "" };
        let sends = match self.sends {
            None => "",
            Some(RankSends::Engines) => ", sent by copy engines",
            Some(RankSends::Kernel) => ", stored by the kernel",
            Some(RankSends::Reduction) => ", added by the kernel",
        };
        let sums = match self.sums {
            None => String::new(),
            Some(RankSums::Kernel) => ", added by a kernel".to_string(),
            Some(RankSums::Epilogue) => ", added in the epilogue".to_string(),
            Some(RankSums::Early(early)) => format!(", the first {early} added in the epilogue"),
        };
        format!("{path}, {pieces} piece{plural}{by}{terms}{sends}{sums}")
    }

    /// Whether it adds terms in another order than slots are added in by a kernel.
    pub(super) fn adds_as_it_likes(&self, overlap: Overlap) -> bool {
        let by_nccl = matches!(
            self.path,
            Some(RankPath::NcclAfter | RankPath::NcclInChunks)
        );
        let by_kernels = self.sends == Some(RankSends::Reduction);
        let in_part = matches!(self.sums, Some(RankSums::Early(_)));
        (by_nccl || by_kernels || in_part) && overlap != Overlap::GatherProduct
    }
}

/// A product over ranks in bf16, with terms of bf16 or of f32.
pub(super) enum CheckedProduct {
    Narrow(RankProduct<bf16, bf16>),
    Wide(RankProduct<bf16, bf16, f32>),
}

/// What both kinds of terms have.
macro_rules! each {
    ($product:expr, $one:ident => $does:expr) => {
        match $product {
            CheckedProduct::Narrow($one) => $does,
            CheckedProduct::Wide($one) => $does,
        }
    };
}

impl CheckedProduct {
    pub(super) fn new(
        host: &Host,
        (problem, numbers): (RankProblem, &Numbers),
        way: &ProductWay,
    ) -> Result<CheckedProduct> {
        let options = RankOptions {
            path: way.path,
            pieces: way.pieces,
            sends: way.sends,
            sums: way.sums,
            ..RankOptions::default()
        };
        let ranks = &host.ranks;
        let product = if way.wide {
            CheckedProduct::Wide(RankProduct::new(ranks, problem, &options)?)
        } else {
            CheckedProduct::Narrow(RankProduct::new(ranks, problem, &options)?)
        };
        for (rank, (a, b)) in numbers.a.iter().zip(&numbers.b).enumerate() {
            each!(&product, one => {
                a.fill(&one.a(rank)?)?;
                b.fill(&one.b(rank)?.clone())?;
            });
        }
        Ok(product)
    }

    /// What each rank did when in one run.
    pub(super) fn timeline(&mut self) -> Result<Vec<ChunkSpan>> {
        Ok(each!(self, one => one.timeline(WITHIN))?)
    }

    pub(super) fn run(&mut self) -> Result<()> {
        Ok(each!(self, one => one.run())?)
    }

    fn c(&self, rank: usize) -> Result<&Buffer<bf16>> {
        Ok(each!(self, one => one.c(rank))?)
    }

    pub(super) fn path(&self) -> RankPath {
        each!(self, one => one.path())
    }

    pub(super) fn explain(&self) -> Result<String> {
        Ok(each!(self, one => one.explain())?)
    }

    pub(super) fn pieces(&self) -> i64 {
        each!(self, one => one.pieces())
    }

    /// Its parts of C after two runs, over memory that held other bits: flags of an earlier round serve for none.
    pub(super) fn result(&mut self, host: &Host) -> Result<Vec<Vec<bf16>>> {
        let ranks = 0..host.devices.len();
        for rank in ranks.clone() {
            self.c(rank)?.fill_bytes(0xff)?;
        }
        host.join()?;
        self.run()?;
        self.run()?;
        each!(&mut *self, one => one.wait(WITHIN))?;
        ranks.map(|rank| Ok(self.c(rank)?.download()?)).collect()
    }
}

/// Refuses elements of C that are not those of the host, and copies of it that differ.
pub(super) fn check(
    name: &str,
    (problem, numbers): (RankProblem, &Numbers),
    c: &[Vec<bf16>],
    roundings: f64,
) -> Result<()> {
    let RankProblem { ranks, m, n, k, .. } = problem;
    let rows = m / ranks;
    let number =
        |of: &[Noise<bf16>], rank: i64, at: i64| of[rank as usize].at(at as usize).to_f64();
    let found_is = |(i, j): (i64, i64), found: bf16, expected: f64, roundings: f64| {
        let found = found.to_f64();
        ensure!(
            close(found, expected, k, roundings),
            "{name}: element ({i},{j}) of C is {found}, and the host's {expected}"
        );
        Ok(())
    };
    if problem.overlap == Overlap::GatherProduct {
        let columns = n / ranks;
        for (rank, part) in (0..).zip(c) {
            for (i, j) in sampled(m, columns) {
                let product = |l: i64| {
                    number(&numbers.a, i / rows, i % rows * k + l)
                        * number(&numbers.b, rank, j * k + l)
                };
                let expected = (0..k).map(product).sum();
                found_is(
                    (i, j),
                    part[(i * columns + j) as usize],
                    expected,
                    roundings,
                )?;
            }
        }
        return Ok(());
    }
    let part = k / ranks;
    for (i, j) in sampled(m, n) {
        let term = |rank: i64| -> f64 {
            let product = |l: i64| {
                number(&numbers.a, rank, i * part + l) * number(&numbers.b, rank, j * part + l)
            };
            (0..part).map(product).sum()
        };
        let expected = (0..ranks).map(term).sum();
        let (owner, row) = match problem.overlap {
            Overlap::ProductReduce => (0, i),
            _ => (i / rows, i % rows),
        };
        let found = c[owner as usize][(row * n + j) as usize];
        found_is((i, j), found, expected, roundings)?;
    }
    if problem.overlap == Overlap::ProductReduce {
        let first = vec![c[0].clone(); c.len()];
        same(&format!("{name}, beside rank 0"), c, &first)?;
    }
    Ok(())
}

/// Refuses parts that differ from the expected ones.
pub(super) fn same(name: &str, found: &[Vec<bf16>], expected: &[Vec<bf16>]) -> Result<()> {
    for (rank, (found, expected)) in found.iter().zip(expected).enumerate() {
        let pairs = found.iter().zip(expected);
        let differ = pairs.filter(|(a, b)| a.to_bits() != b.to_bits()).count();
        ensure!(
            differ == 0 && found.len() == expected.len(),
            "{name}: {differ} of {} elements of rank {rank} differ from the product behind the copies",
            expected.len()
        );
    }
    Ok(())
}

/// Elements of C as the host computes them: pairs of a row and a column, spread over the matrix.
pub(in crate::bench::product) fn sampled(m: i64, n: i64) -> impl Iterator<Item = (i64, i64)> {
    (0..COMPARED).map(move |i| {
        let at = |extent: i64, step: i64| (i * step + i * i * 7 + 3) % extent;
        // The corners of each chunk's end come first.
        match i {
            0 => (0, 0),
            1 => (m - 1, n - 1),
            _ => (at(m, 7919), at(n, 104_729)),
        }
    })
}

/// Whether a bf16 is the sum of K products of such numbers, rounded `roundings` times.
pub(in crate::bench::product) fn close(found: f64, expected: f64, k: i64, roundings: f64) -> bool {
    // The terms have the deviation 1/16.
    let scale = (k as f64).sqrt() / 16.0;
    (found - expected).abs() <= (roundings + 1.0) * scale.max(expected.abs()) / 256.0
}
