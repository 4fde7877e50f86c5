//! The GEMV: products with one row, or few, in which the threads of a block share K.
//!
//! A block has some rows of B, each thread a part of them, and no shared memory: every element of B is read once, from memory into
//! the register that it is multiplied in. The lanes of a warp lie along the contiguous mode of B, so that a warp reads
//! consecutive bytes however short a vector is. Their sums meet at the end, by shuffles and then through shared memory, and through
//! that of other blocks where a cluster divides K.

use core::ops::RangeInclusive;

use colex_atom::{Arch, CopyAtom, Ty};
use colex_device::Device;
use colex_ir::BinaryOp;
use colex_ir::launch::Launch;
use colex_layout::Layout;
use colex_tensor::{
    AtThread, Builder, Error, Expr, Fragment, Index, MAX_EXTENT, Tensor, TensorKernel,
};
use colex_tiled::{Operand, TiledCopy, TiledMma};

use super::batch::{BatchForm, BatchTiles};
use super::epilogue::terms::{EarlyTerms, KernelEpilogue, Terms};
use super::family::{GemmFamily, Numbers};
use super::plan::{GemmPlan, Operands};
use super::plan_check::MOST_TILE;
use super::sm90::begin_early;
use crate::kernels::Major;

/// The threads of a block.
const THREADS: i64 = 256;

/// The most rows of A of a tile.
const MOST_ROWS: i64 = 16;

/// The most sums of a thread, and the most elements that it loads at once: with more, ptxas spills.
const MOST_SUMS: i64 = 64;
const MOST_HELD: i64 = 64;

/// The largest tile along K.
const MOST_K: i64 = 1 << 15;

/// The blocks of a cluster that may divide K.
const MOST_ALONG_K: i64 = 8;

/// Threads that share K. The units of a plan are the threads along N.
pub(crate) struct Gemv;

/// How the threads of a block lie over a tile of B.
struct ThreadShare {
    /// Threads along N and along K.
    threads: [i64; 2],
    /// Neighbours of a thread along N and along K.
    vector: [i64; 2],
}

impl ThreadShare {
    fn of(plan: &GemmPlan) -> ThreadShare {
        let along_n = plan.warps[1].clamp(1, THREADS);
        let vector = plan.operands.vector(Operand::B);
        ThreadShare {
            threads: [along_n, THREADS / along_n],
            vector: match plan.operands.major(Operand::B) {
                Major::First => [vector, 1],
                Major::Second => [1, vector],
            },
        }
    }

    /// The layout of the threads: lanes lie along the contiguous mode.
    fn layout(&self, major: Major) -> Result<Layout, Error> {
        let [n, k] = self.threads;
        Ok(match major {
            Major::First => Layout::new((n, k), (1, n))?,
            Major::Second => Layout::new((n, k), (k, 1))?,
        })
    }

    /// The neighbours along K of an access to A.
    fn vector_of_a(&self, operands: &Operands) -> i64 {
        match operands.major(Operand::A) {
            Major::First => 1,
            Major::Second => operands.vector(Operand::A).min(self.vector[1]),
        }
    }

    /// The elements of B that the threads read at once.
    fn step(&self) -> [i64; 2] {
        [0, 1].map(|mode| self.threads[mode] * self.vector[mode])
    }
}

/// The tile of a plan with a number of threads along N, for one row of the other factor: four loads and more of a thread are under
/// way at once.
pub(crate) fn gemv_tile(operands: &Operands, operand: Operand, threads: i64) -> [i64; 3] {
    let vector = operands.vector(operand).clamp(1, 16);
    let along_k = THREADS / threads.clamp(1, THREADS);
    match operands.major(operand) {
        Major::First => [1, threads * vector, along_k * (16 / vector).max(2)],
        Major::Second => [1, threads * 4, along_k * vector.max(4)],
    }
}

impl GemmFamily for Gemv {
    fn types(&self) -> &'static [Ty] {
        &[Ty::F32, Ty::F16, Ty::Bf16]
    }

    fn since(&self) -> Arch {
        Arch::Sm70
    }

    fn held(&self, _: &Operands) -> Ty {
        Ty::F32
    }

    fn numbers(&self, operands: &Operands) -> Numbers {
        let threads = match operands.major(Operand::B) {
            Major::First => 32,
            Major::Second => 8,
        };
        Numbers {
            tile: gemv_tile(operands, Operand::B, threads),
            stages: 1,
            warps: [1, threads],
            cluster: [1; 3],
        }
    }

    fn most_units(&self) -> [i64; 2] {
        [1, THREADS]
    }

    fn most_cluster(&self, arch: Arch) -> [i64; 3] {
        [1, 1, if arch >= Arch::Sm90 { MOST_ALONG_K } else { 1 }]
    }

    /// Threads along K hold the sums of the same columns.
    fn consumers(&self, plan: &GemmPlan) -> i64 {
        plan.warps[1]
    }

    fn threads(&self, _: &GemmPlan) -> i64 {
        THREADS
    }

    fn steps(&self, plan: &GemmPlan) -> [i64; 3] {
        let [n, k] = ThreadShare::of(plan).step();
        [1, n, k]
    }

    fn most_tile(&self, _: &Operands) -> [i64; 3] {
        [MOST_ROWS, MOST_TILE, MOST_K]
    }

    fn stages(&self) -> RangeInclusive<i64> {
        1..=1
    }

    fn products(&self, _: &GemmPlan) -> i64 {
        THREADS
    }

    fn check_shares(&self, plan: &GemmPlan, _: i64) -> Result<(), crate::Error> {
        let [bm, bn, bk] = plan.tile;
        let along_n = plan.warps[1];
        plan.limit(
            "threads of 256 beyond whole groups along N",
            THREADS % along_n,
            0,
        )?;
        let factors = plan.operands.right_factors();
        let own = bn * bk / THREADS;
        let sums = factors * bm * (bn / along_n) * ThreadShare::of(plan).vector[1];
        plan.limit("sums of a thread", sums, MOST_SUMS)?;
        let rows = bm * bk / (THREADS / along_n);
        plan.limit(
            "elements of A and B that a thread loads at once",
            factors * own + rows,
            MOST_HELD,
        )?;
        if plan.cluster[2] > 1 {
            plan.limit("threads along N in a cluster that divides K", along_n, 1)?;
        }
        Ok(())
    }

    fn tiled_mma(&self, _: &GemmPlan) -> Result<TiledMma, Error> {
        let atom = colex_atom::mma("UniversalFMA<float>")?;
        Ok(TiledMma::new(atom, ((THREADS, 1, 1), (1, 0, 0)), ..)?)
    }

    fn build(
        &self,
        plan: &GemmPlan,
        batch: BatchForm,
        epilogue: &KernelEpilogue,
        arch: Arch,
    ) -> Result<TensorKernel, Error> {
        build(plan, batch, epilogue, arch)
    }

    fn launch(&self, plan: &GemmPlan, tiles: [i64; 3], threads: u32, _: &Device) -> Launch {
        let blocks = tiles.into_iter().fold(plan.cluster[2], i64::saturating_mul);
        let blocks = u32::try_from(blocks).unwrap_or(u32::MAX);
        Launch::new(blocks, threads).cluster(plan.cluster[2] as u32)
    }
}

/// The copy of elements one by one or in vectors.
fn universal(bits: i64) -> Result<CopyAtom, Error> {
    Ok(colex_atom::copy(&format!("UniversalCopy<uint{bits}_t>"))?)
}

/// A kernel that is being built.
struct Kernel<'a> {
    plan: &'a GemmPlan,
    division: ThreadShare,
    major: Major,
    /// Of A's rows, of B, and of a row of C.
    copies: [TiledCopy; 3],
    thread: Index,
    /// The block's tiles along M and N.
    at: [Index; 2],
}

fn build(
    plan: &GemmPlan,
    batch: BatchForm,
    epilogue: &KernelEpilogue,
    arch: Arch,
) -> Result<TensorKernel, Error> {
    let ([bm, bn, bk], operands) = (plan.tile, &plan.operands);
    let along_k = plan.cluster[2];
    let mut k = Builder::new("gemv", arch, THREADS as u32);
    if along_k > 1 {
        k.cluster([along_k as u32, 1, 1]);
    }
    let layout = |operand| batch.layout(plan, operand);
    let a = k.tensor("A", operands.ab, layout(Operand::A));
    let right = operands.names_of_right_factors().iter();
    let right = right.map(|name| k.tensor(name, operands.ab, layout(Operand::B)));
    let right: Vec<Tensor> = right.collect();
    let c = k.tensor("C", operands.c, layout(Operand::C));
    let terms = epilogue.declare(&mut k);
    let products = batch.extents(&mut k, [&a, &right[0], &c]);
    for second in &right[1..] {
        batch.agree(&mut k, Operand::B, second, &products);
    }
    terms.agree(&mut k, &batch, &products);
    let steps = (a.extent(1) + (bk * along_k - 1)) / (bk * along_k);
    let tiles = [
        (a.extent(0) + (bm - 1)) / bm,
        (right[0].extent(0) + (bn - 1)) / bn,
    ];
    let grid = BatchTiles::new(&mut k, plan, tiles, &products);
    let block = k.block_index(0);
    let (at, product) = grid.at(&mut k, &(&block / along_k));
    let rank = &block % along_k;
    let [a, c] = [a, c].map(|matrix| matrix.fixed_behind(&product));
    let terms = terms.of_product(&product);
    let right: Vec<Tensor> = right.iter().map(|b| b.fixed_behind(&product)).collect();

    let division = ThreadShare::of(plan);
    let major = operands.major(Operand::B);
    let bits = i64::from(operands.ab.bits());
    let vector_of_a = division.vector_of_a(operands);
    let bits_of_c = i64::from(operands.c.bits());
    let threads = division.layout(major)?;
    let tiled = |vector: i64, bits: i64, [n, k]: [i64; 2]| -> Result<TiledCopy, Error> {
        let values = Layout::new((n, k), (1, n))?;
        Ok(TiledCopy::new(
            universal(vector * bits)?,
            bits,
            &threads,
            &values,
        )?)
    };
    let [vn, vk] = division.vector;
    for (matrix, vector, operand) in [
        (&a, vector_of_a, Operand::A),
        (&right[0], vn * vk, Operand::B),
    ] {
        let along = match operands.major(operand) {
            Major::First => 0,
            Major::Second => 1,
        };
        k.within(matrix.extent(along), vector..MAX_EXTENT + 1);
    }
    let kernel = Kernel {
        plan,
        copies: [
            tiled(vector_of_a, bits, [1, vk])?,
            tiled(vn * vk, bits, [vn, vk])?,
            tiled(1, bits_of_c, [vn, vk])?,
        ],
        division,
        major,
        thread: k.thread(),
        at,
    };
    if plan.early {
        begin_early(&mut k);
    }
    let sums = kernel.main_loop(&mut k, (&a, &right), (&steps, &rank))?;
    kernel.store(&mut k, &c, &sums, (&terms, &rank));
    k.finish()
}

impl Kernel<'_> {
    /// A thread's part of a tile of B: (CPY, CPY_N, CPY_K).
    fn part_of_b(&self, b: &Tensor, chunk: &Index) -> Tensor {
        let [_, bn, bk] = self.plan.tile;
        let tile = b.local_tile((bn, bk), (&self.at[1], chunk));
        self.copies[1].at(&self.thread).partition_src(&tile)
    }

    /// A thread's part of a row of A's tile: (CPY, 1, CPY_K).
    fn part_of_a(&self, a: &Tensor, row: i64, chunk: &Index) -> Result<Tensor, Error> {
        let [bm, _, bk] = self.plan.tile;
        let rows = a.local_tile((1, bk), (&self.at[0] * bm + row, chunk));
        // One row for the threads of every column.
        let over = Layout::new((self.division.threads[0], bk), (0, 1))?;
        let tile = rows.compose(over.to_static());
        Ok(self.copies[0].at(&self.thread).partition_src(&tile))
    }

    fn load(&self, k: &mut Builder, copy: usize, vector: i64, from: &Tensor) -> Fragment {
        let held = if vector == 1 {
            k.fragment_unpacked(from)
        } else {
            k.fragment_like(from)
        };
        k.copy_in_bounds(&self.copies[copy], from, &held);
        held
    }

    /// The sums over K that each thread ends with, of each row of A and each right factor: those of its columns.
    fn main_loop(
        &self,
        k: &mut Builder,
        (a, right): (&Tensor, &[Tensor]),
        (steps, rank): (&Index, &Index),
    ) -> Result<Vec<Vec<Fragment>>, Error> {
        let [bm, bn, bk] = self.plan.tile;
        let along_k = self.plan.cluster[2];
        let [vn, vk] = self.division.vector;
        let vector_of_a = self.division.vector_of_a(&self.plan.operands);
        let [step_n, step_k] = self.division.step();
        let (columns, chunks) = (bn / step_n, bk / step_k);
        // (vector, columns)
        let of_thread = Layout::new((vn * vk, columns), (1, vn * vk))?.to_static();
        let acc: Vec<Vec<Fragment>> = (0..bm)
            .map(|_| {
                let each = right.iter().map(|_| {
                    let acc = k.fragment(Ty::F32, &of_thread);
                    k.fill(&acc, 0.0);
                    acc
                });
                each.collect()
            })
            .collect();
        let mut failed = None;
        k.for_(0, steps, 1, |k, step| {
            let chunk = step * along_k + rank;
            let b: Vec<Fragment> = right
                .iter()
                .map(|b| self.load(k, 1, vn * vk, &self.part_of_b(b, &chunk)))
                .collect();
            for (row, acc) in (0..bm).zip(&acc) {
                let part = match self.part_of_a(a, row, &chunk) {
                    Ok(part) => part,
                    Err(error) => return failed = Some(error),
                };
                let held = self.load(k, 0, vector_of_a, &part);
                for i in 0..chunks {
                    let of_row = held.slice((.., 0, i));
                    let x = Expr::from(&of_row).to(Ty::F32);
                    for (b, acc) in b.iter().zip(acc) {
                        for column in 0..columns {
                            let sum = acc.slice((.., column));
                            let y = b.slice((.., column, i));
                            let y = Expr::from(&y).to(Ty::F32);
                            k.assign(&sum, y.fma(x.clone(), &sum));
                        }
                    }
                }
            }
        });
        if let Some(error) = failed {
            return Err(error);
        }
        let first = right[0].local_tile((bn, step_k), (&self.at[1], 0));
        let part = self.copies[1].at(&self.thread).partition_src(&first); // (CPY, CPY_N, 1)
        let mut total = |acc: &Fragment| {
            if along_k > 1 {
                // Each thread has a part of every column.
                let own = match self.major {
                    Major::First => acc.clone(),
                    Major::Second => {
                        let own = k.fragment(Ty::F32, Layout::leaf(columns, 1)?.to_static());
                        for column in 0..columns {
                            let part = k.reduce_all(BinaryOp::Add, acc.slice((.., column)));
                            k.assign(&own.values(column, 1), &part);
                        }
                        own
                    }
                };
                return Ok(k.reduce_cluster(BinaryOp::Add, &own, along_k as u32));
            }
            let sums = k.reduce_along(BinaryOp::Add, acc, &part, 1);
            // One of those along K, which are the same.
            let sums = match self.major {
                Major::First => sums,
                Major::Second => sums.slice((0, ..)),
            };
            Ok(k.map(&sums))
        };
        let totals = acc.iter().map(|acc| {
            acc.iter()
                .map(&mut total)
                .collect::<Result<Vec<_>, Error>>()
        });
        totals.collect()
    }

    /// Stores what the epilogue makes of the sums: one thread of those that share a column.
    fn store(
        &self,
        k: &mut Builder,
        c: &Tensor,
        sums: &[Vec<Fragment>],
        (terms, rank): (&Terms, &Index),
    ) {
        let [bm, bn, _] = self.plan.tile;
        let ([along_n, along_k], [_, vk]) = (self.division.threads, self.division.vector);
        let lane = match self.major {
            Major::First => &self.thread / along_n,
            Major::Second => &self.thread % along_k,
        };
        // The first along K, of the first block of a cluster.
        let place = lane + rank * along_k;
        let is_first = k.equal(&place, &0.into());
        let part = |matrix: &Tensor, row: i64| {
            let tile = matrix.local_tile((1, bn), (&self.at[0] * bm + row, &self.at[1]));
            // Every thread along K has the same elements.
            let over = Layout::new((bn, along_k * vk), (1, 0));
            let over = over.expect("positive extents make a layout").to_static();
            let tile = tile.compose(over);
            let part = self.copies[2].at(&self.thread).partition_src(&tile); // (CPY, CPY_N, 1)
            match self.major {
                Major::First => part,
                Major::Second => part.at(0, 0),
            }
        };
        let values = |k: &mut Builder, (row, sums): (i64, &[Fragment])| {
            let old = self.plan.operands.beta.then(|| {
                let old = k.fragment(self.plan.operands.c, sums[0].layout());
                k.copy_in_bounds(&self.copies[2], &part(c, row), &old);
                old
            });
            let of_thread = (sums, old.as_ref(), &EarlyTerms::default());
            terms.values(k, of_thread, &|matrix| part(matrix, row))
        };
        let rows = || (0..bm).zip(sums.iter().map(Vec::as_slice));
        // Closures may exchange elements within a warp, so all lanes run them.
        let early = (terms.has_closures()).then(|| rows().map(|row| values(k, row)).collect());
        let early: Option<Vec<_>> = early;
        if early.is_some() && self.plan.operands.beta {
            // All threads along K have read the old C before one stores.
            match self.plan.cluster[2] {
                1 => k.sync(),
                _ => k.cluster_sync(),
            }
        }
        k.if_(is_first, |k| {
            for (row, sums) in rows() {
                let values = match &early {
                    Some(early) => early[row as usize].clone(),
                    None => values(k, (row, sums)),
                };
                let own = |matrix: &Tensor| part(matrix, row);
                let out = terms.finish_values(k, values.as_deref(), &sums[0], &own);
                k.copy_in_bounds(&self.copies[2], &out, &own(c));
            }
        });
    }
}
