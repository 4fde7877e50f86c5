//! `ReducePlan`: how the elements of the results are divided among threads and blocks, and the reasons for it.

use core::fmt;

use colex_atom::{Arch, Ty};
use colex_ir::launch::Limits;
use colex_tensor::{MAX_EXTENT, TensorKernel};

use super::kernel::{self, PARTS_BYTES};
use super::problem::{
    MOST, ReduceFunction, ReduceOperands, ReduceProblem, ReduceStage, check_types, size,
};
use crate::error::{Error, ReduceError};
use crate::memory_bound::plan::{
    MOST_GRID, MOST_THREADS, PlanCheck, WARP, WIDEST, check_operands, check_width, counted, div_up,
    has_clusters, power_up, product,
};
use crate::memory_bound::traffic::Traffic;

/// How a kernel divides a reduction among its threads and blocks.
///
/// The threads of a block lie along three modes: `rows` along the results without the inner mode, `across` along the reduced modes
/// without it, `along` along the inner mode, which is the fastest. Each thread has a vector of the inner mode.
///
/// # Order
///
/// A result has the same bits on every run of a plan. The elements of a result that lie at one place of a vector in one thread are
/// added one by one, in ascending order of their coordinates: the reduced modes without the inner one first, then the inner
/// one. If the inner mode is reduced, the places of a vector are added in their order. Then the threads of `across` are added, and
/// those of `along` if the inner mode is reduced: the lanes of a warp at XOR distances, the least first, then the warps in
/// their order. Part `p` has the turns `p`, `p + parts`, .. along the inner mode or along the other reduced modes. A second kernel adds
/// the parts under its own plan; or the last block to finish does ([`last_adds`](ReducePlan::last_adds)), in the same order for every block: of
/// its `n` threads that share a result, thread `t` adds the parts `t`, `t + n`, .., and then the threads are added as above. The first
/// block of a [`cluster`](ReducePlan::cluster) adds the parts of the others to its own before that, one after the other in their order. What
/// clusters have then takes the place of the parts.
///
/// ```
/// use colex_atom::{Arch, Ty};
/// use colex_gpu::reduce::{ReduceFunction, ReducePlan, ReduceProblem};
///
/// let problem = ReduceProblem::new(ReduceFunction::Sum, Ty::Bf16, &[4096, 4096], &[1])?;
/// let plan = ReducePlan::fastest(&problem)?;
/// assert_eq!(plan.to_string(), "sum bf16, vectors of 8, threads 4x1x64, 8 accesses along the inner mode");
/// plan.check(Arch::Sm80)?;
/// let refused = ReducePlan { along: 48, ..plan }.check(Arch::Sm80).unwrap_err();
/// assert_eq!(
///     refused.to_string(),
///     "the plan's number of threads along the inner mode is 48: the sum kernel takes a power of two, 1 to 1024"
/// );
/// # Ok::<(), colex_gpu::Error>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ReducePlan {
    /// What the kernel knows of its tensors.
    pub operands: ReduceOperands,
    /// The elements of an access: a power of two, and at most 16 bytes.
    pub vector: i64,
    /// The threads along the results without the inner mode: a power of two.
    pub rows: i64,
    /// The threads along the reduced modes without the inner one: a power of two.
    pub across: i64,
    /// The threads along the inner mode: a power of two.
    pub along: i64,
    /// The accesses of a thread that are under way at once.
    pub accesses: i64,
    /// Whether the accesses, and the turns of a block, go along the inner mode, which must be reduced. Otherwise they go along
    /// the other reduced modes, and the threads `along` cover an inner mode that is reduced.
    pub turns_inner: bool,
    /// The blocks that share a result. A second kernel adds their parts, or one of them does.
    pub parts: i64,
    /// Whether the last block to finish adds the parts of a result, so that there is one launch. It counts the blocks by counters
    /// that the library keeps at 0 between the launches. Without parts, it means nothing.
    pub last_adds: bool,
    /// Whether the parts divide the turns along the inner mode. Otherwise they divide those along the other reduced modes.
    pub parts_inner: bool,
    /// Whether rows are peeled: vectors begin at the multiples of their size in memory wherever a row does: the elements at both ends of a row, which no
    /// such vector has, are taken first and last. The rows must lie one after the other, and the tensor must begin at such a multiple.
    pub shifted: bool,
    /// Whether a thread asks for the elements of its next turn before it takes those of a turn, so that loads are under way all the time. It
    /// has registers for the loads of two turns. The turns go along the reduced modes without the inner one. The bits are the same.
    pub prefetches: bool,
    /// The blocks of which a multiprocessor must hold the registers, if it is not 0. With 1, the assembler has registers for all loads of a
    /// turn; with 0 it takes fewer, and loads a part of them after the others. The last block to finish has as many parts under way as
    /// half of these registers hold.
    pub min_blocks: i64,
    /// The blocks of a cluster: 1, or on Hopper 2, 4 or 8, of which the parts are a multiple. The blocks of a cluster have successive parts of
    /// a result. The others store their results into the shared memory of the first one (PTX ISA, `mapa`, `st.shared::cluster`), which adds
    /// them behind the cluster's barrier (`barrier.cluster`), at most 32 KiB. So global memory has one part per cluster; if a cluster has all
    /// parts, there is none, and no counter. A plan with clusters has [`last_adds`](ReducePlan::last_adds).
    pub cluster: i64,
}

/// The threads of a block by default.
const THREADS: i64 = 256;

/// The threads of a block where the inner mode is kept, if blocks share a result and if they do not: few, since the threads across
/// exchange a vector of results each.
const SHARING_THREADS: i64 = 128;
const KEPT_THREADS: i64 = 64;

/// The accesses by default, and the most: narrow ones, and those of blocks that share results side by side.
const ACCESSES: i64 = 8;
const MOST_ACCESSES: i64 = 16;

/// The most parts of a result whose inner mode is kept: the second kernel adds them one after the other, and 264 parts of the sums of
/// 64 columns were faster than 528 on an H100 and on an H200.
const KEPT_PARTS: i64 = 264;

/// The most parts of a result, and the blocks of a launch up to which results are divided.
const MOST_PARTS: i64 = 1024;
pub(super) const BLOCKS: i64 = 528;

/// The bytes of the results of a block that shares none, as elements lie beside each other, the widest first; its threads, and the least
/// blocks of such a launch. The share of the time by parts below which such a plan is worth another order of the additions.
const ALONE_BYTES: [i64; 3] = [256, 128, 64];
const ALONE_THREADS: i64 = 512;
const ALONE_BLOCKS: i64 = 120;

/// The threads of such a block where elements of 16 bits are added: half as many with eight accesses were faster on an H100 and on an
/// H200 than all with four or eight.
const ALONE_NARROW_THREADS: i64 = 256;
const GAIN: f64 = 0.95;

/// How blocks share the columns of a large tensor of elements of 16 bits, for some functions and up to `vectors` vectors in a row: the
/// threads of a block and those along, the accesses of a thread, whether it asks for the next turn ahead, the most blocks of a launch, and
/// the blocks of a cluster where there are clusters.
struct NarrowColumns {
    suits: fn(ReduceFunction) -> bool,
    vectors: i64,
    threads: i64,
    along: i64,
    accesses: i64,
    prefetches: bool,
    blocks: i64,
    cluster: i64,
    /// Whether each row may begin at a line of 128 bytes.
    in_lines: bool,
}

/// The most vectors in a row of few columns, and of few columns of sums. Rows of 8 and of 512 vectors were measured, of sums also of 125.
const TALL_VECTORS: i64 = 127;
const FEW_VECTORS: i64 = 16;

/// The bytes of a line of the caches.
const LINE: i64 = 128;

/// The blocks of 128 threads of which two run at once on a multiprocessor.
const HALF_BLOCKS: i64 = BLOCKS / 2;

/// The plans measured fastest for such tensors on an H200, as fractions of a copy (gpu/PERFORMANCE.md). The model knows neither the
/// time in which a block that ends leaves its multiprocessor without loads, nor that threads wait while they combine results.
const NARROW_COLUMNS: [NarrowColumns; 8] = [
    // Sums of 64 columns in clusters of two: 256 parts at 0.890, 0.916 and 0.912 of a copy in three runs, and 264 parts, of which some have a
    // turn less, at 0.871, 0.894 and 0.888.
    NarrowColumns {
        suits: |function| function.is_sum(),
        vectors: FEW_VECTORS,
        threads: SHARING_THREADS,
        along: 8,
        accesses: 8,
        prefetches: true,
        blocks: HALF_BLOCKS,
        cluster: 2,
        in_lines: true,
    },
    // Sums of 1000 columns, whose rows begin within sectors: 512 bytes of a row by each block in clusters of eight at 0.859 and 0.857, and
    // 128 bytes in clusters of two at 0.814 and 0.809. Blocks of whole rows were at 0.76 at most.
    NarrowColumns {
        suits: |function| function.is_sum(),
        vectors: TALL_VECTORS,
        threads: SHARING_THREADS,
        along: 32,
        accesses: 8,
        prefetches: true,
        blocks: HALF_BLOCKS,
        cluster: 8,
        in_lines: false,
    },
    // The same where rows begin at lines, as of 64 columns.
    NarrowColumns {
        suits: |function| function.is_sum(),
        vectors: TALL_VECTORS,
        threads: SHARING_THREADS,
        along: 8,
        accesses: 8,
        prefetches: true,
        blocks: HALF_BLOCKS,
        cluster: 2,
        in_lines: true,
    },
    // Sums of 4096 columns: 0.946 of 64 MiB and 1.015 of 256 MiB in clusters of four; 0.955 and 1.017 by 64 threads, twice the blocks and
    // clusters of eight; 0.915 and 1.039 without clusters.
    NarrowColumns {
        suits: |function| function.is_sum(),
        vectors: i64::MAX,
        threads: SHARING_THREADS,
        along: 8,
        accesses: 8,
        prefetches: true,
        blocks: HALF_BLOCKS,
        cluster: 4,
        in_lines: true,
    },
    // Arg-max of 64 columns: 0.702, and 0.675 in clusters of two.
    NarrowColumns {
        suits: |function| function.is_index(),
        vectors: TALL_VECTORS,
        threads: SHARING_THREADS,
        along: 4,
        accesses: 16,
        prefetches: false,
        blocks: HALF_BLOCKS,
        cluster: 1,
        in_lines: true,
    },
    // Arg-max of 4096 columns: 0.774 of 64 MiB and 0.953 of 256 MiB; 0.774 and 0.948 in clusters of two.
    NarrowColumns {
        suits: |function| function.is_index(),
        vectors: i64::MAX,
        threads: 64,
        along: 8,
        accesses: 4,
        prefetches: true,
        blocks: 2 * BLOCKS,
        cluster: 1,
        in_lines: true,
    },
    // Maxima of 64 columns: 0.920 in clusters of two.
    NarrowColumns {
        suits: |_| true,
        vectors: TALL_VECTORS,
        threads: SHARING_THREADS,
        along: 8,
        accesses: 16,
        prefetches: false,
        blocks: HALF_BLOCKS,
        cluster: 2,
        in_lines: true,
    },
    // Maxima of 4096 columns: 0.952 of 64 MiB and 1.016 of 256 MiB in clusters of eight, 0.911 and 1.029 without.
    NarrowColumns {
        suits: |_| true,
        vectors: i64::MAX,
        threads: 64,
        along: 8,
        accesses: 16,
        prefetches: false,
        blocks: BLOCKS,
        cluster: 8,
        in_lines: true,
    },
];

/// The most blocks of a cluster on every device of Hopper, and the most bytes of the parts in shared memory of one of them.
const MOST_CLUSTER: i64 = 8;
const MOST_CLUSTER_BYTES: i64 = 32 << 10;

/// The least bytes of such a tensor.
const NARROW_BYTES: i64 = 48 << 20;

/// The least blocks of one warp each, that reduce such a tensor along a mode in the middle: sums by 1024 of them, which prefetch, were at
/// 0.989 of a copy on an H200, and at 0.976 by two warps each. Maxima were at 0.957 and 0.974, so they have two warps.
const WARP_BLOCKS: i64 = 1024;

/// The least such blocks for elements of `f32`: sums, norms, and arg-max by 2048 of them were at 1.020, 1.011 and 1.000 of a copy, and at
/// 1.014, 1.005 and 0.858 by two warps each.
const WIDE_WARP_BLOCKS: i64 = 2 * WARP_BLOCKS;

/// The blocks of a launch where parts divide other reduced modes than the inner one, of such a tensor: sums along the first and the last
/// of three modes were at 0.955 of a copy by 256 blocks on an H200, and at 0.891 by 512.
const LINE_BLOCKS: i64 = BLOCKS / 2;

/// The least turns of a block that prefetches the next one by default.
const PREFETCHED: i64 = 4;

/// The most registers of such a block for the loads of two turns: half of those of a multiprocessor.
const PREFETCHED_REGISTERS: i64 = 1 << 15;

/// The most accesses of a thread in such a turn: with 16, maxima take up to 255 registers, and sums gained nothing on an H200.
const PREFETCHED_ACCESSES: i64 = 8;

/// Whether the last block to finish adds the parts by default.
const LAST_ADDS: bool = true;

/// The blocks of which a multiprocessor must hold the registers by default.
const MIN_BLOCKS: i64 = 0;

/// The threads that a multiprocessor holds, and the most blocks of which a kernel may ask it to hold the registers.
const RESIDENT: i64 = 2048;

/// The bytes of shared memory beside those of the threads' results: the word of the block that comes last, and what aligns them.
const BESIDE_RESULTS: i64 = 1024;
const MOST_RESIDENT_BLOCKS: i64 = 32;

/// Whether rows of narrow elements that no vector divides are shifted by default.
const SHIFTS: bool = true;

/// The most elements of a tensor whose rows are shifted, which are one extent of a launch, and the least of such a row.
pub(super) const MOST_SHIFTED: i64 = MAX_EXTENT;
const SHIFTED_EXTENT: i64 = 256;

/// The accesses of a thread in shifted rows where the threads suffice, and the threads of their blocks: rows of 4097 numbers of
/// `bf16` were at 0.94 of a copy with these on an H200, and at 0.78 with eight accesses and 256 threads.
const SHIFTED_ACCESSES: i64 = 4;
const SHIFTED_THREADS: i64 = 128;

/// The least turns of a part.
const TURNS: i64 = 2;

/// The most elements that the threads of a block have beside each other along a mode.
const MOST_TILE: i64 = 65536;

/// The most blocks of a launch along the first axis, and those along the second one.
pub(super) const MOST_BLOCKS: i64 = MOST_GRID;
pub(crate) const MOST_COLUMNS: i64 = 65535;

impl ReducePlan {
    /// Returns the plan of a problem: accesses of 16 bytes where the tensors allow them, threads side by side along the inner
    /// mode, and as many parts as fill a GPU. If blocks of fewer results fill it too, the model of the traffic decides between them and
    /// the launch that adds the parts. Tensors of 64 MiB and more of elements of 16 bits, of which the columns are reduced, have plans that
    /// were measured.
    ///
    /// ```
    /// use colex_atom::Ty;
    /// use colex_gpu::reduce::{ReduceFunction, ReducePlan, ReduceProblem};
    ///
    /// let of = |extents, mode| ReduceProblem::new(ReduceFunction::Sum, Ty::Bf16, extents, &[mode]);
    /// let wide = ReducePlan::fastest(&of(&[8192, 4096], 0)?)?;
    /// assert_eq!(
    ///     wide.to_string(),
    ///     "sum bf16, vectors of 8, threads 1x16x8, 8 accesses, 4 parts, added by the last block, prefetched"
    /// );
    /// let tall = ReducePlan::fastest(&of(&[524_288, 64], 0)?)?;
    /// assert_eq!(
    ///     tall.to_string(),
    ///     "sum bf16, vectors of 8, threads 1x16x8, 8 accesses, 256 parts, added by the last block, prefetched, registers for 2 blocks"
    /// );
    /// let middle = ReducePlan::fastest(&of(&[64, 128, 4096], 1)?)?;
    /// assert_eq!(middle.to_string(), "sum bf16, vectors of 8, threads 1x1x32, 8 accesses, prefetched");
    /// # Ok::<(), colex_gpu::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// Returns an error if no kernel takes the types.
    pub fn fastest(problem: &ReduceProblem) -> Result<ReducePlan, Error> {
        if SHIFTS && let Some(plan) = ReducePlan::shifted_rows(problem)? {
            return Ok(plan);
        }
        let plan = ReducePlan::sharing(problem)?;
        if plan.parts == 1 {
            return Ok(plan.prefetching(problem));
        }
        if let Some(plan) = plan.narrow_columns(problem) {
            return Ok(plan);
        }
        // Blocks without parts are compared with parts that a launch of their own adds, also where the last block adds them: sums of
        // 4096 columns of 64 MiB were at 0.87 of a copy without parts on an H200, and at 0.84 with those that the model would take.
        let time = |plan: &ReducePlan| plan.traffic(problem).time().total();
        let alone = plan.alone(problem);
        let plan = match alone {
            Some(alone) if time(&alone) < GAIN * time(&plan) => alone,
            _ => ReducePlan {
                last_adds: LAST_ADDS,
                ..plan
            },
        };
        Ok(plan.prefetching(problem))
    }

    /// The same plan, with the loads of the next turn ahead where the elements have 16 bits and the inner mode is kept, a block has several
    /// turns, the registers suffice, and the launch has no more blocks than run at once. Without them, a multiprocessor has few loads under
    /// way, and none while its threads combine elements. Sums along a middle mode by 1024 blocks of a warp were at 0.911 of a copy on an
    /// H200, and at 0.989 with loads ahead. Of many blocks of two warps, others load meanwhile: 0.976, and 0.936 with loads ahead.
    fn prefetching(&self, problem: &ReduceProblem) -> ReducePlan {
        let is_narrow = problem.keeps_inner && problem.ty.bits() == 16;
        let is_whole = problem.stage == ReduceStage::Whole;
        let has_turns = self.turns(problem) >= product([PREFETCHED, self.parts]);
        let loads = product([self.threads(), self.accesses, 2, self.vector]) / 2;
        let blocks = product(self.grid(problem));
        let runs_at_once = blocks <= BLOCKS || self.threads() == WARP && blocks < 2 * WARP_BLOCKS;
        let fits = loads <= PREFETCHED_REGISTERS && self.accesses <= PREFETCHED_ACCESSES;
        let suits = is_narrow && is_whole && has_turns && fits;
        ReducePlan {
            prefetches: suits && runs_at_once,
            ..*self
        }
    }

    /// The plan of [`NARROW_COLUMNS`] for a problem whose blocks share results, if it is one of these: the last block adds the parts, which
    /// fill a GPU.
    fn narrow_columns(&self, problem: &ReduceProblem) -> Option<ReducePlan> {
        let of = NarrowColumns::of(problem, self.vector)?;
        let vectors = div_up(problem.inner.extent, self.vector);
        let along = power_up(vectors).min(of.along);
        let plan = ReducePlan {
            rows: 1,
            across: of.threads / along,
            along,
            accesses: of.accesses,
            parts: 1,
            last_adds: LAST_ADDS,
            prefetches: of.prefetches,
            ..*self
        };
        let turns = plan.turns(problem);
        let wanted = of.blocks / product(plan.grid(problem)).max(1);
        let is_half = of.blocks <= HALF_BLOCKS;
        if wanted == 1 && is_half {
            // The tiles of the columns are as many blocks.
            return Some(ReducePlan {
                last_adds: false,
                ..plan
            });
        }
        let parts = wanted.min(turns / TURNS).min(KEPT_PARTS);
        if parts < 2 {
            return None;
        }
        // No more parts than make the turns of a part as few.
        let parts = div_up(turns, div_up(turns, parts));
        // Registers, so that a thread of the last block to finish asks for all its parts at once. Parts of 16 bits count as those of 32:
        // without a number of blocks, ptxas gives maxima of 64 columns 32 registers on sm_80, and their accesses alone need 64.
        let bits = i64::from(problem.function.part_ty(problem.ty).bits());
        let part = plan.vector * bits.max(32) / 8;
        let holds = is_half && div_up(parts, plan.across) * part > PARTS_BYTES;
        let min_blocks = if holds { 2 } else { MIN_BLOCKS };
        Some(ReducePlan {
            parts,
            min_blocks,
            ..plan
        })
    }

    /// Returns the plan of a call on a device of this architecture: that of [`fastest`](ReducePlan::fastest), in clusters where these were
    /// measured to be faster: sums and maxima of columns of 16 bits, from 48 MiB on.
    ///
    /// ```
    /// use colex_atom::{Arch, Ty};
    /// use colex_gpu::reduce::{ReduceFunction, ReducePlan, ReduceProblem};
    ///
    /// let problem = ReduceProblem::new(ReduceFunction::Sum, Ty::Bf16, &[8192, 4096], &[0])?;
    /// let plan = ReducePlan::fastest_on(&problem, Arch::Sm90a)?;
    /// assert_eq!(plan, ReducePlan::fastest(&problem)?.in_clusters(4)); // each cluster has the four parts of a tile
    /// let tall = ReduceProblem::new(ReduceFunction::Sum, Ty::Bf16, &[524_288, 64], &[0])?;
    /// assert_eq!(ReducePlan::fastest_on(&tall, Arch::Sm90a)?.parts, 256); // of 2048 rows each
    /// assert_eq!(ReducePlan::fastest_on(&problem, Arch::Sm80)?, ReducePlan::fastest(&problem)?);
    /// # Ok::<(), colex_gpu::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// Returns the errors of [`fastest`](ReducePlan::fastest).
    pub fn fastest_on(problem: &ReduceProblem, arch: Arch) -> Result<ReducePlan, Error> {
        let plan = ReducePlan::fastest(problem)?;
        match NarrowColumns::of(problem, plan.vector) {
            Some(of) if has_clusters(arch) => {
                let clusters = plan.in_clusters(of.cluster);
                Ok(ReducePlan {
                    // A cluster leaves one part in global memory: no thread needs registers for many.
                    min_blocks: if clusters.cluster == 1 {
                        plan.min_blocks
                    } else {
                        MIN_BLOCKS
                    },
                    ..clusters
                })
            }
            _ => Ok(plan),
        }
    }

    /// Returns the same plan with clusters of `cluster` blocks, and as many whole clusters of parts as it has; the plan itself if it has
    /// none, or if its last block does not add the parts.
    ///
    /// ```
    /// use colex_atom::{Arch, Ty};
    /// use colex_gpu::reduce::{ReduceFunction, ReducePlan, ReduceProblem};
    ///
    /// let problem = ReduceProblem::new(ReduceFunction::Sum, Ty::Bf16, &[8192, 4096], &[0])?;
    /// let plan = ReducePlan::fastest(&problem)?;
    /// assert_eq!((plan.parts, plan.counters(&problem)), (4, 64));
    /// let clusters = plan.in_clusters(4);
    /// assert_eq!(
    ///     clusters.to_string(),
    ///     "sum bf16, vectors of 8, threads 1x16x8, 8 accesses, 4 parts, added by their cluster, prefetched"
    /// );
    /// assert_eq!((clusters.workspace(&problem), clusters.counters(&problem)), (0, 0));
    /// clusters.check(Arch::Sm90a)?;
    /// assert_eq!(
    ///     clusters.check(Arch::Sm80).unwrap_err().to_string(),
    ///     "the plan's number of blocks of a cluster is 4: the sum kernel takes 1 only"
    /// );
    /// # Ok::<(), colex_gpu::Error>(())
    /// ```
    pub fn in_clusters(&self, cluster: i64) -> ReducePlan {
        let cluster = cluster.max(1);
        if !self.last_adds || self.parts < cluster {
            return *self;
        }
        ReducePlan {
            parts: self.parts / cluster * cluster,
            cluster,
            ..*self
        }
    }

    /// Returns the plan of a problem whose blocks share results, and whose last block adds their parts
    /// ([`last_adds`](ReducePlan::last_adds)); `None` if there are enough results for all multiprocessors.
    ///
    /// ```
    /// use colex_atom::Ty;
    /// use colex_gpu::reduce::{ReduceFunction, ReducePlan, ReduceProblem};
    ///
    /// let of = |extents| ReduceProblem::new(ReduceFunction::Sum, Ty::Bf16, extents, &[0]);
    /// let columns = of(&[8192, 4096])?;
    /// let plan = ReducePlan::last_adding(&columns)?.expect("16 tiles of 256 columns");
    /// assert_eq!(
    ///     plan.to_string(),
    ///     "sum bf16, vectors of 8, threads 1x4x32, 16 accesses, 33 parts, added by the last block"
    /// );
    /// assert_eq!(plan.traffic(&columns).launches, 1);
    /// assert_eq!(plan.counters(&columns), 16);
    /// assert_eq!(ReducePlan::last_adding(&of(&[64, 1 << 20])?)?, None);
    /// # Ok::<(), colex_gpu::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// Returns the errors of [`fastest`](ReducePlan::fastest).
    pub fn last_adding(problem: &ReduceProblem) -> Result<Option<ReducePlan>, Error> {
        let plan = ReducePlan {
            last_adds: true,
            ..ReducePlan::sharing(problem)?
        };
        Ok((plan.parts > 1).then_some(plan))
    }

    /// Returns the plan of a problem whose rows are no multiples of a vector of 8 bytes, by shifted rows
    /// ([`shifted`](ReducePlan::shifted)); `None` if the rows have wider vectors, are short, or do not lie one after the other.
    ///
    /// ```
    /// use colex_atom::Ty;
    /// use colex_gpu::reduce::{ReduceFunction, ReducePlan, ReduceProblem};
    ///
    /// let of = |extents| ReduceProblem::new(ReduceFunction::Sum, Ty::Bf16, extents, &[1]);
    /// let plan = ReducePlan::shifted_rows(&of(&[8191, 4097])?)?.expect("odd rows");
    /// assert_eq!(
    ///     plan.to_string(),
    ///     "sum bf16, vectors of 8, threads 1x1x128, 4 accesses along the inner mode of shifted rows"
    /// );
    /// assert_eq!(ReducePlan::shifted_rows(&of(&[8191, 4096])?)?, None);
    /// # Ok::<(), colex_gpu::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// Returns the errors of [`fastest`](ReducePlan::fastest).
    pub fn shifted_rows(problem: &ReduceProblem) -> Result<Option<ReducePlan>, Error> {
        let usual = ReducePlan::sharing(problem)?;
        let bytes = i64::from(problem.ty.bits()) / 8;
        let vector = WIDEST / bytes;
        let extent = problem.inner.extent;
        let is_narrow = usual.vector * bytes < WIDEST / 2 && extent >= SHIFTED_EXTENT;
        let is_whole = problem.stage == ReduceStage::Whole && usual.parts == 1;
        if !is_narrow || !is_whole || !problem.is_one_run(vector) {
            return Ok(None);
        }
        let vectors = extent / vector;
        let along = power_up(div_up(vectors, SHIFTED_ACCESSES)).clamp(2 * vector, THREADS);
        let accesses = (vectors / along).clamp(1, ACCESSES);
        let rows = (SHIFTED_THREADS / along).clamp(1, power_up(size(&problem.outer)));
        Ok(Some(ReducePlan {
            vector,
            rows: rows.max(div_up(WARP, along)),
            across: 1,
            along,
            accesses,
            turns_inner: true,
            shifted: true,
            ..usual
        }))
    }

    /// The plan with as many parts as fill a GPU, which a second kernel adds.
    fn sharing(problem: &ReduceProblem) -> Result<ReducePlan, Error> {
        if problem.stage == ReduceStage::Whole {
            check_types(problem.function, problem.ty, problem.result)?;
        }
        let operands = problem.operands();
        let vector = operands.vector;
        let vectors = div_up(problem.inner.extent, vector);
        let [outer, reduced] = [&problem.outer, &problem.reduced].map(|modes| size(modes));
        let plan = ReducePlan {
            operands,
            vector,
            rows: 1,
            across: 1,
            along: 1,
            accesses: ACCESSES,
            turns_inner: false,
            parts: 1,
            last_adds: false,
            parts_inner: false,
            shifted: false,
            prefetches: false,
            min_blocks: MIN_BLOCKS,
            cluster: 1,
        };
        let mut kept_threads = THREADS;
        let plan = if problem.keeps_inner {
            // As many threads across as have elements to read, the rest along the inner mode.
            let columns = div_up(vectors, power_up(vectors).min(WARP));
            let blocks = outer.saturating_mul(columns);
            let is_narrow = is_narrow_columns(problem, vector) && problem.function.is_sum();
            let is_narrow = is_narrow && reduced >= PREFETCHED * ACCESSES;
            let is_wide = problem.ty == Ty::F32 && is_large(problem, vector);
            let is_warp = is_narrow && blocks >= WARP_BLOCKS;
            let is_warp = is_warp || is_wide && blocks >= WIDE_WARP_BLOCKS;
            let (threads, most) = if is_warp && vectors >= WARP {
                (WARP, ACCESSES)
            } else if blocks >= BLOCKS {
                (KEPT_THREADS, ACCESSES)
            } else {
                (SHARING_THREADS, MOST_ACCESSES)
            };
            kept_threads = threads;
            let wanted = power_up(div_up(reduced, most));
            let across = wanted.min(threads / WARP);
            let along = power_up(vectors).min(threads / across);
            let across = wanted.min(threads / along);
            let accesses = div_up(reduced, across).min(most);
            ReducePlan {
                across,
                along,
                accesses,
                ..plan
            }
        } else if reduced == 1 || vectors >= 2 * WARP {
            // Each thread has several accesses if the row is long enough, and narrow ones have more under way.
            let least = power_up(vectors).min(SIDE);
            let bytes = i64::from(problem.ty.bits()) / 8;
            let is_narrow = vector * bytes < WIDEST / 2;
            let (wanted, most) = if is_narrow {
                (MOST_ACCESSES, THREADS * bytes / 8)
            } else {
                (ACCESSES, THREADS)
            };
            let along = power_up(div_up(vectors, ACCESSES)).clamp(least, most);
            let accesses = div_up(vectors, along).min(wanted);
            ReducePlan {
                along,
                accesses,
                turns_inner: true,
                ..plan
            }
        } else {
            let along = power_up(vectors);
            let across = power_up(div_up(reduced, ACCESSES)).min(THREADS / along);
            let accesses = div_up(reduced, across).min(ACCESSES);
            ReducePlan {
                across,
                along,
                accesses,
                ..plan
            }
        };
        let others = kept_threads / (plan.across * plan.along);
        let rows = others.min(power_up(outer));
        let rows = rows.max(div_up(WARP, plan.across * plan.along));
        let plan = ReducePlan { rows, ..plan };
        if problem.stage == ReduceStage::Combine {
            return Ok(plan);
        }
        let [x, y] = plan.grid(problem);
        let turns = plan.turns(problem);
        let lines = div_up(reduced, plan.across);
        let parts_inner = plan.turns_inner && turns >= lines;
        let is_narrow = problem.ty.bits() == 16 && is_large(problem, vector);
        let blocks = if is_narrow && plan.turns_inner && !parts_inner {
            LINE_BLOCKS
        } else {
            BLOCKS
        };
        let wanted = blocks / x.saturating_mul(y).max(1);
        let most = if plan.turns_inner && !parts_inner {
            lines
        } else {
            turns
        };
        let bound = if problem.keeps_inner {
            KEPT_PARTS
        } else {
            MOST_PARTS
        };
        let parts = wanted.min(most / TURNS).clamp(1, bound);
        Ok(ReducePlan {
            parts,
            parts_inner,
            ..plan
        })
    }

    /// The plan whose blocks share no result, of a problem whose inner mode is kept: each of them has few results, as many as a row of
    /// sectors holds, so that there is a block for nearly every multiprocessor.
    fn alone(&self, problem: &ReduceProblem) -> Option<ReducePlan> {
        if !problem.keeps_inner || self.parts == 1 {
            return None;
        }
        let bytes = self.vector * i64::from(problem.ty.bits()) / 8;
        let reduced = size(&problem.reduced);
        let is_narrow_sum = problem.function.is_sum() && problem.ty.bits() == 16;
        let threads = if is_narrow_sum {
            ALONE_NARROW_THREADS
        } else {
            ALONE_THREADS
        };
        let mut widths = ALONE_BYTES.into_iter().map(|width| (width / bytes).max(1));
        widths.find_map(|along| {
            let across = power_up(reduced).min(threads / along);
            let plan = ReducePlan {
                along,
                across,
                rows: 1,
                accesses: div_up(reduced, across).min(ACCESSES),
                parts: 1,
                last_adds: false,
                parts_inner: false,
                ..*self
            };
            (product(plan.grid(problem)) >= ALONE_BLOCKS && plan.threads() >= WARP).then_some(plan)
        })
    }

    /// The plan of the kernel that leaves the parts.
    pub(crate) fn first(&self, problem: &ReduceProblem) -> ReducePlan {
        let operands = problem.first(self.parts).operands();
        // The call may have accesses that are wider than those of the plan.
        let operands = ReduceOperands {
            vector: self.operands.vector,
            contiguous: self.operands.contiguous,
            ..operands
        };
        ReducePlan { operands, ..*self }
    }

    /// The plan whose blocks share no result.
    pub(crate) fn whole(&self) -> ReducePlan {
        ReducePlan {
            parts: 1,
            last_adds: false,
            cluster: 1,
            ..*self
        }
    }

    /// The parts of a result in global memory: one per cluster.
    pub(crate) fn stored_parts(&self) -> i64 {
        self.parts / self.cluster.max(1)
    }

    /// Whether a cluster has all parts of a result.
    pub(crate) fn is_one_cluster(&self) -> bool {
        self.cluster > 1 && self.stored_parts() == 1
    }

    /// Whether the last block to finish adds the parts of a result.
    pub(crate) fn joins(&self) -> bool {
        self.last_adds && self.stored_parts() > 1 && self.operands.stage == ReduceStage::Whole
    }

    /// The threads of a block that have results, and the results of each.
    pub(crate) fn results_of_threads(&self) -> [i64; 2] {
        if self.operands.keeps_inner {
            [product([self.rows, self.along]), self.vector]
        } else {
            [self.rows, 1]
        }
    }

    /// The plan by which the threads of the last block to finish add the parts.
    pub(crate) fn combining(&self) -> ReducePlan {
        let operands = ReduceOperands {
            stage: ReduceStage::Combine,
            ty: self.operands.function.part_ty(self.operands.ty),
            ..self.operands
        };
        let vector = if operands.keeps_inner { self.vector } else { 1 };
        ReducePlan {
            operands,
            vector,
            shifted: false,
            prefetches: false,
            parts: self.stored_parts(),
            cluster: 1,
            ..*self
        }
    }

    /// Returns the counters of 32 bits of a problem: one for the results that blocks share, if the last of these blocks adds their
    /// parts.
    pub fn counters(&self, problem: &ReduceProblem) -> i64 {
        if self.joins() {
            product(self.shared_results(problem))
        } else {
            0
        }
    }

    /// The rows of blocks that share results, and the tiles of each along an inner mode that is kept.
    pub(crate) fn shared_results(&self, problem: &ReduceProblem) -> [i64; 2] {
        let rows = div_up(size(&problem.outer), self.rows);
        [rows, self.tiles(problem)]
    }

    /// The tiles along an inner mode that is kept.
    fn tiles(&self, problem: &ReduceProblem) -> i64 {
        if problem.keeps_inner {
            div_up(problem.inner.extent, self.along.saturating_mul(self.vector))
        } else {
            1
        }
    }

    /// The plan of the kernel that combines the parts.
    pub(crate) fn second(&self, problem: &ReduceProblem) -> Result<ReducePlan, Error> {
        ReducePlan::fastest(&problem.second(self.parts))
    }

    /// Returns the elements along the mode of the turns that the threads of a block have at once.
    pub(crate) fn chunk(&self) -> i64 {
        let threads = if self.turns_inner {
            self.along.saturating_mul(self.vector)
        } else {
            self.across
        };
        threads.saturating_mul(self.accesses)
    }

    /// Returns the turns along that mode of a block that has all of them.
    fn turns(&self, problem: &ReduceProblem) -> i64 {
        let extent = if self.shifted {
            // What lies at both ends of a row is in no turn.
            let vector = self.vector.max(1);
            problem.inner.extent / vector * vector
        } else if self.turns_inner {
            problem.inner.extent
        } else {
            size(&problem.reduced)
        };
        div_up(extent, self.chunk())
    }

    /// Returns the bytes of memory that the parts of a problem need, in the types that the kernels leave them in.
    pub fn workspace(&self, problem: &ReduceProblem) -> i64 {
        let stored = self.stored_parts();
        if stored <= 1 {
            return 0;
        }
        let bytes = i64::from(problem.function.part_ty(problem.ty).bits()) / 8;
        let parts = problem.results().saturating_mul(stored);
        parts.saturating_mul(bytes)
    }

    /// Returns the bytes that the kernels move for a problem: the elements and the results, and the parts twice.
    ///
    /// ```
    /// use colex_atom::Ty;
    /// use colex_gpu::reduce::{ReduceFunction, ReducePlan, ReduceProblem};
    ///
    /// let problem = ReduceProblem::new(ReduceFunction::Max, Ty::F32, &[1 << 20, 64], &[0])?;
    /// let plan = ReducePlan::fastest(&problem)?;
    /// assert_eq!(plan.workspace(&problem), plan.parts * 64 * 4);
    /// assert_eq!(plan.bytes(&problem), (4 << 26) + 4 * 64 + 2 * plan.workspace(&problem));
    /// # Ok::<(), colex_gpu::Error>(())
    /// ```
    pub fn bytes(&self, problem: &ReduceProblem) -> i64 {
        let parts = self.workspace(problem).saturating_mul(2);
        problem.compulsory_bytes().saturating_add(parts)
    }

    /// Returns what the launches ask of the memory, but for the sectors of an access, which `ReduceCall::traffic` counts too.
    ///
    /// ```
    /// use colex_atom::Ty;
    /// use colex_gpu::reduce::{ReduceFunction, ReducePlan, ReduceProblem};
    ///
    /// // 128 blocks have 32 columns each, so that no second launch adds parts.
    /// let problem = ReduceProblem::new(ReduceFunction::Sum, Ty::Bf16, &[4096, 4096], &[0])?;
    /// let plan = ReducePlan::fastest(&problem)?;
    /// let traffic = plan.traffic(&problem);
    /// assert_eq!((traffic.blocks, traffic.threads, traffic.launches), (128, 256, 1));
    /// assert_eq!(traffic.time().to_string(), "9.5 us: bytes 7.2, latency 0.8, launches 1.5");
    /// // 33 parts fill all multiprocessors, and cost a launch.
    /// let parts = ReducePlan { along: 32, across: 4, accesses: 16, parts: 33, ..plan };
    /// assert!(parts.traffic(&problem).time().total() > 3.0 + traffic.time().total());
    /// # Ok::<(), colex_gpu::Error>(())
    /// ```
    pub fn traffic(&self, problem: &ReduceProblem) -> Traffic {
        let size = i64::from(self.operands.ty.bits()) / 8;
        Traffic {
            compulsory: problem.compulsory_bytes(),
            moved: self.bytes(problem),
            sectors: 1,
            least_sectors: 1,
            under_way: product([
                self.vector,
                self.accesses,
                size,
                1 + i64::from(self.prefetches),
            ]),
            threads: self.threads(),
            blocks: product(self.grid(problem)),
            launches: 1 + i64::from(self.parts > 1 && !self.last_adds),
        }
    }

    /// Says in sentences how the plan divides a problem.
    ///
    /// ```
    /// use colex_atom::Ty;
    /// use colex_gpu::reduce::{ReduceFunction, ReducePlan, ReduceProblem};
    ///
    /// let problem = ReduceProblem::new(ReduceFunction::Sum, Ty::Bf16, &[4096, 4096], &[0])?;
    /// let plan = ReducePlan::fastest(&problem)?;
    /// assert_eq!(
    ///     plan.explain(&problem),
    ///     "sum bf16, 4096 results of 4096
    /// An access takes 8 elements of the inner mode, 16 bytes: addresses, strides and extents allow 8.
    /// The inner mode is kept: 4 threads have 32 of 4096 results side by side.
    /// 64 threads across and 8 accesses make 512 elements of a result, and there are 4096, in 8 turns, each loaded while the one before it is taken.
    /// A block of 256 threads has 1 row of results; the launch has 128 blocks.
    /// 33562624 bytes are moved, and 33562624 must be."
    /// );
    /// # Ok::<(), colex_gpu::Error>(())
    /// ```
    pub fn explain(&self, problem: &ReduceProblem) -> String {
        let ReducePlan {
            operands,
            vector,
            rows,
            across,
            along,
            accesses,
            parts,
            ..
        } = *self;
        let bytes = vector.saturating_mul(i64::from(operands.ty.bits())) / 8;
        let (allowed, extent) = (operands.vector, problem.inner.extent);
        let side = along.saturating_mul(vector);
        let [elements, along, across, accesses] = [
            (vector, "element"),
            (along, "thread"),
            (across, "thread"),
            (accesses, "access"),
        ]
        .map(counted);
        let mut turns = counted((self.turns(problem), "turn"));
        if self.prefetches {
            turns.push_str(", each loaded while the one before it is taken");
        }
        let chunk = self.chunk();
        let allowed = if self.shifted {
            "they begin at multiples of that, wherever a row does".to_string()
        } else {
            format!("addresses, strides and extents allow {allowed}")
        };
        let inner = if operands.keeps_inner {
            format!("kept: {along} have {side} of {extent} results side by side")
        } else {
            let has = if along.starts_with("1 ") {
                "has"
            } else {
                "have"
            };
            format!("reduced: {along} {has} {side} of {extent} elements side by side")
        };
        let reduced = size(&problem.reduced);
        let walk = if self.turns_inner {
            format!("{accesses} make {chunk} elements of the inner mode, in {turns}.")
        } else {
            format!(
                "{across} across and {accesses} make {chunk} elements of a result, and there are {reduced}, in {turns}."
            )
        };
        let [x, y] = self.grid(problem);
        let threads = counted((self.threads(), "thread"));
        let blocks = counted((x.saturating_mul(y), "block"));
        let launch = if self.is_one_cluster() {
            format!(
                "{parts} blocks share a result, and the first block of their cluster adds their {parts} parts in shared memory; the \
                 launch has {blocks} of {threads}."
            )
        } else if self.joins() {
            let counters = counted((self.counters(problem), "counter"));
            let (stored, cluster) = (self.stored_parts(), self.cluster);
            let found = if cluster > 1 {
                format!(
                    "the first of each cluster of {cluster} adds their parts, and the one that comes last adds these {stored} sums, \
                     found by {counters}"
                )
            } else {
                format!("the one that comes last adds their {parts} parts, found by {counters}")
            };
            format!(
                "{parts} blocks share a result, and {found}; the launch has {blocks} of {threads}."
            )
        } else if parts > 1 {
            format!(
                "{parts} blocks share a result, and a second kernel adds their {parts} parts; the first launch has {blocks} of \
                 {threads}."
            )
        } else {
            let results = counted((rows, "row"));
            format!("A block of {threads} has {results} of results; the launch has {blocks}.")
        };
        let [moved, must] = [self.bytes(problem), problem.compulsory_bytes()];
        format!(
            "{problem}\n\
             An access takes {elements} of the inner mode, {bytes} bytes: {allowed}.\n\
             The inner mode is {inner}.\n\
             {walk}\n\
             {launch}\n\
             {moved} bytes are moved, and {must} must be."
        )
    }

    /// Returns the results that a thread has side by side.
    pub(crate) fn places(&self) -> i64 {
        if self.operands.keeps_inner {
            self.vector
        } else {
            1
        }
    }

    /// Returns the threads of a block.
    pub(crate) fn threads(&self) -> i64 {
        product([self.rows, self.across, self.along])
    }

    /// Returns the blocks of a launch along its two axes: rows and parts, and tiles of an inner mode that is kept, of which a
    /// block has several if there are too many.
    pub(crate) fn grid(&self, problem: &ReduceProblem) -> [i64; 2] {
        let [rows, tiles] = self.shared_results(problem);
        [rows.saturating_mul(self.parts), tiles.min(MOST_COLUMNS)]
    }

    /// Checks that the kernel can be built: every number.
    ///
    /// # Errors
    ///
    /// Returns an error that names the number, and what the kernel takes.
    pub fn check(&self, arch: Arch) -> Result<(), Error> {
        self.operands.check()?;
        self.check_numbers(arch)
    }

    fn check_numbers(&self, arch: Arch) -> Result<(), Error> {
        let operands = &self.operands;
        let check = self.plan_check();
        let must = "accesses of several elements need an inner mode with the stride 1";
        check.access((self.vector, operands.ty), operands.contiguous, must)?;
        let what = "number of threads along the inner mode";
        check.power(what, self.along, MOST_THREADS)?;
        let others = MOST_THREADS / self.along;
        check.power("number of threads across", self.across, others)?;
        let others = others / self.across;
        check.power("number of threads along the rows", self.rows, others)?;
        check.block(self.threads())?;
        let results = operands.values.into_iter().chain([operands.result]);
        let most = results.map(|ty| WIDEST * 8 / i64::from(ty.bits())).min();
        let what = "number of results that are stored at once";
        check.power(what, operands.stored, most.unwrap_or(1))?;
        if operands.stored > 1 && !operands.keeps_inner {
            return check
                .refuse("several results are stored at once along an inner mode that is kept");
        }
        check.number("number of accesses", self.accesses, [1, MOST_ACCESSES, 1])?;
        let what = "number of blocks of a cluster";
        if has_clusters(arch) {
            check.power(what, self.cluster, MOST_CLUSTER)?;
        } else {
            check.number(what, self.cluster, [1, 1, 1])?;
        }
        let of = [self.cluster, MOST_PARTS, self.cluster];
        check.number("number of parts", self.parts, of)?;
        if self.cluster > 1 {
            self.check_cluster(&check)?;
        }
        if operands.keeps_inner && self.across > 1 && product([self.across, self.along]) > WARP {
            // The warps that share results exchange those of each thread, and once more where the last block adds the parts.
            let times = if self.joins() { 2 } else { 1 };
            let bytes = i64::from(kernel::slot_ty(self).bits()).max(32) / 8;
            let bytes = product([times, self.threads(), self.vector, bytes]);
            let bytes = bytes.saturating_add(BESIDE_RESULTS);
            let most = i64::from(Limits::of(arch).shared);
            check.limit(
                "bytes of shared memory for the results of threads",
                bytes,
                most,
            )?;
        }
        let most = (RESIDENT / self.threads()).min(MOST_RESIDENT_BLOCKS);
        let what = "number of blocks on a multiprocessor";
        check.number(what, self.min_blocks, [0, most, 1])?;
        if self.parts_inner && !self.turns_inner {
            return check.refuse(
                "the parts divide the turns along the inner mode only if turns go along it",
            );
        }
        if self.turns_inner && operands.keeps_inner {
            return check.refuse("the turns go along an inner mode only if it is reduced");
        }
        if self.prefetches && self.turns_inner {
            return check.refuse(
                "elements are prefetched only if turns go along the modes without the inner one",
            );
        }
        if self.shifted {
            let is_one = operands.outer == 1 && operands.reduced == 1 && operands.contiguous;
            if !is_one || !self.turns_inner {
                return check.refuse(
                    "shifted rows are one mode of contiguous elements, along which the turns go",
                );
            }
            check.number(
                "number of threads across shifted rows",
                self.across,
                [1, 1, 1],
            )?;
            let of = [2 * self.vector, MOST_THREADS, 1];
            let what = "number of threads along shifted rows";
            check.number(what, self.along, of)?;
            if self.parts > 1 && !self.parts_inner {
                return check.refuse("the parts of shifted rows divide the turns along them");
            }
        }
        let tile = (self.along * self.vector).saturating_mul(self.accesses);
        let what = "number of elements side by side";
        check.number(what, tile, [1, MOST_TILE, 1])
    }

    fn check_cluster(&self, check: &PlanCheck<'_>) -> Result<(), Error> {
        if !self.last_adds {
            return check.refuse(
                "a cluster adds the parts of its blocks only if the block that comes last adds those of the clusters",
            );
        }
        let bytes = i64::from(kernel::slot_ty(self).bits()) / 8;
        let [threads, results] = self.results_of_threads();
        let bytes = product([self.cluster - 1, threads, results, bytes]);
        let what = "number of bytes of parts in shared memory";
        check.number(what, bytes, [1, MOST_CLUSTER_BYTES, 1])
    }

    fn plan_check(&self) -> PlanCheck<'_> {
        PlanCheck {
            kernel: &self.operands.function,
            operands: &self.operands,
        }
    }

    /// Checks that the plan is for a problem.
    ///
    /// # Errors
    ///
    /// Returns an error if tensors, types or modes are others, if the plan's accesses are wider than the tensors allow, if the
    /// threads do not cover an inner mode along which no turns go, or if the launch has too many blocks.
    pub(crate) fn check_problem(&self, problem: &ReduceProblem) -> Result<(), Error> {
        let call = problem.operands();
        let refused = |why: ReduceError| Err(why.into());
        let like = ReduceOperands {
            vector: call.vector,
            contiguous: call.contiguous,
            stored: call.stored,
            ..self.operands
        };
        check_operands(&self.operands, &like, &call)?;
        if self.shifted {
            if !problem.is_one_run(self.vector) {
                return refused(ReduceError::Gaps { most: MOST_SHIFTED });
            }
        } else {
            let plan = (self.vector, self.operands.contiguous);
            check_width(plan, (call.vector, call.contiguous), "extents")?;
        }
        if self.operands.stored > call.stored {
            let (plan, call) = (self.operands.stored, call.stored);
            return refused(ReduceError::Stored { plan, call });
        }
        let all = self.along.saturating_mul(self.vector);
        let extent = problem.inner.extent;
        if !self.turns_inner && !problem.keeps_inner && all < extent {
            return refused(ReduceError::Inner { all, extent });
        }
        let [blocks, _] = self.grid(problem);
        self.plan_check().limit("blocks", blocks, MOST_BLOCKS)
    }

    /// Returns whether the plan is for a problem: its tensors, accesses that they allow, and threads that cover the inner mode.
    ///
    /// ```
    /// use colex_atom::Ty;
    /// use colex_gpu::reduce::{ReduceFunction, ReducePlan, ReduceProblem};
    ///
    /// let of = |columns| ReduceProblem::new(ReduceFunction::Sum, Ty::F32, &[100, columns], &[1]);
    /// let plan = ReducePlan::fastest(&of(1000)?)?;
    /// assert!(plan.takes(&of(4096)?));
    /// assert!(!plan.takes(&of(1001)?)); // no access of 4 elements
    /// # Ok::<(), colex_gpu::Error>(())
    /// ```
    pub fn takes(&self, problem: &ReduceProblem) -> bool {
        self.check_problem(problem).is_ok()
    }

    /// Builds the kernel for an architecture: that of the first launch, if a second kernel adds parts.
    ///
    /// Its parameters are the tensor `x` (outer, reduced, inner), the results `y` (outer, inner), the values of an arg-max if
    /// they are stored, and of a mean the number of elements as `f32`. What the first of two launches writes has a last mode of
    /// the parts. If the last block adds the parts, these (outer, inner, parts) and the counters (rows of blocks, tiles), which are 0,
    /// come before the number of elements; one cluster that has all parts needs neither.
    ///
    /// ```
    /// use colex_atom::{Arch, Ty};
    /// use colex_gpu::reduce::{ReduceFunction, ReducePlan, ReduceProblem};
    ///
    /// let problem = ReduceProblem::new(ReduceFunction::Sum, Ty::Bf16, &[100, 4096], &[1])?;
    /// let plan = ReducePlan::fastest(&problem)?;
    /// let text = plan.build(Arch::Sm80)?.kernel.ptx()?;
    /// assert_eq!(text.matches("ld.global.v4.b32").count() as i64, plan.accesses);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    ///
    /// Returns the errors of [`check`](ReducePlan::check), and the error of the layout algebra, with the line of the kernel, if a
    /// layout has no such partition.
    pub fn build(&self, arch: Arch) -> Result<TensorKernel, Error> {
        self.check(arch)?;
        let stage = if self.parts > 1 && !self.last_adds {
            ReduceStage::Part
        } else {
            ReduceStage::Whole
        };
        let operands = &self.operands;
        let part = operands.function.part_ty(operands.ty);
        let operands = match stage {
            ReduceStage::Part => ReduceOperands {
                stage,
                result: part,
                values: None,
                stored: if operands.keeps_inner {
                    WIDEST * 8 / i64::from(part.bits())
                } else {
                    1
                },
                ..*operands
            },
            _ => *operands,
        };
        // What is stored side by side lies in one vector of the plan.
        let stored = operands.stored.min(self.vector);
        let operands = ReduceOperands { stored, ..operands };
        let built = ReducePlan { operands, ..*self }.unverified(arch)?;
        built.kernel.verify()?;
        Ok(built)
    }

    /// Builds the kernel as [`build`](ReducePlan::build) does, of any stage, for a load, which verifies it.
    pub(crate) fn unverified(&self, arch: Arch) -> Result<TensorKernel, Error> {
        self.check_numbers(arch)?;
        Ok(kernel::build(self, arch)?)
    }

    /// The most blocks along the first axis for which the kernel counts.
    pub(crate) fn most_blocks(&self) -> i64 {
        (MOST / self.rows + 1) * self.parts
    }
}

impl NarrowColumns {
    /// The row for a problem with accesses of `vector` elements, if it has one.
    fn of(problem: &ReduceProblem, vector: i64) -> Option<&'static NarrowColumns> {
        let vectors = div_up(problem.inner.extent, vector);
        let bytes = problem
            .inner
            .extent
            .saturating_mul(problem.ty.bits().into())
            / 8;
        let is_in_lines = bytes % LINE == 0;
        let suits = |of: &&NarrowColumns| {
            let is_measured = of.in_lines || !is_in_lines;
            vectors <= of.vectors && (of.suits)(problem.function) && is_measured
        };
        let is_one = is_narrow_columns(problem, vector);
        is_one.then(|| NARROW_COLUMNS.iter().find(suits)).flatten()
    }
}

/// Whether a problem is one of a large tensor of elements of 16 bits whose inner mode is kept, with accesses of 16 bytes.
fn is_narrow_columns(problem: &ReduceProblem, vector: i64) -> bool {
    problem.keeps_inner && problem.ty.bits() == 16 && is_large(problem, vector)
}

/// Whether a problem is one of a large tensor, with accesses of 16 bytes.
fn is_large(problem: &ReduceProblem, vector: i64) -> bool {
    let is_whole = problem.stage == ReduceStage::Whole;
    let is_wide = vector * i64::from(problem.ty.bits()) / 8 == WIDEST;
    is_whole && is_wide && problem.compulsory_bytes() >= NARROW_BYTES
}

/// The least threads side by side along a row that has as many vectors.
const SIDE: i64 = 8;

/// `sum of bf16 in f32, 1 outer and 2 reduced modes, the inner one reduced`
impl fmt::Display for ReduceOperands {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} of {} in {}", self.function, self.ty, self.result)?;
        if let Some(ty) = self.values {
            write!(f, ", values of {ty}")?;
        }
        let inner = if self.keeps_inner { "kept" } else { "reduced" };
        let (outer, reduced) = (self.outer, self.reduced);
        write!(
            f,
            ", {outer} outer and {reduced} reduced modes, the inner one {inner}"
        )
    }
}

/// `sum bf16, vectors of 8, threads 1x8x32, 4 accesses, 64 parts`
impl fmt::Display for ReducePlan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ReduceOperands { function, ty, .. } = self.operands;
        let ReducePlan {
            vector,
            rows,
            across,
            along,
            ..
        } = *self;
        let accesses = counted((self.accesses, "access"));
        write!(
            f,
            "{function} {ty}, vectors of {vector}, threads {rows}x{across}x{along}, {accesses}"
        )?;
        if self.turns_inner {
            f.write_str(" along the inner mode")?;
        }
        if self.shifted {
            f.write_str(" of shifted rows")?;
        }
        if self.parts > 1 {
            let of = if self.turns_inner && !self.parts_inner {
                " of the other reduced modes"
            } else {
                ""
            };
            write!(f, ", {} parts{of}", self.parts)?;
            if self.cluster > 1 {
                match self.stored_parts() {
                    1 => f.write_str(", added by their cluster")?,
                    _ => write!(
                        f,
                        ", added by clusters of {} and by the last block",
                        self.cluster
                    )?,
                }
            } else if self.last_adds {
                f.write_str(", added by the last block")?;
            }
        }
        if self.prefetches {
            f.write_str(", prefetched")?;
        }
        if self.min_blocks > 0 {
            write!(f, ", registers for {}", counted((self.min_blocks, "block")))?;
        }
        Ok(())
    }
}
