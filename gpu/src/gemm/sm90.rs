//! The Hopper GEMM, warp-specialised: a producer warp fills a ring of stages by TMA, and consumer warpgroups multiply
//! by `wgmma`.

use std::collections::BTreeMap;
use std::ops::RangeInclusive;

use colex_atom::{Arch, Ty};
use colex_device::Device;
use colex_ir::launch::{Argument, Launch, Limits};
use colex_layout::Layout;
use colex_sched::formula;
use colex_sched::pipeline::{Schedule, WarpSpecialized};
use colex_tiled::{Operand, TiledMma};

use super::batch::{Batch, BatchForm, BatchTiles};
use super::chunks::arrivals::{ChunkFlags, Waits};
use super::chunks::departures::Departures;
use super::convolution::form::Filter;
use super::epilogue::cluster_sum::ClusterSum;
use super::epilogue::fixup::{Fixup, TilePart};
use super::epilogue::sm90::{StorePath, TilePlace, landing_buffers, shared_bytes};
use super::epilogue::split_sum::{SplitSum, StepRow};
use super::epilogue::terms::{EarlyTerms, KernelEpilogue, MakeMap, Terms};
use super::family::{GemmFamily, MOST_STAGES, Numbers};
use super::groups::Groups;
use super::groups::clear::{Cleared, clear_before, clear_behind};
use super::groups::tiles::{self, GroupRows, GroupTile, MOST_ROWS, Span, larger};
use super::operand::transposed::{self, Transposition};
use super::operand::{Fetch, boxed_layout};
use super::plan::{Division, GemmPlan, LEAST_STEPS, Operands};
use super::plan_check::{MOST_THREADS, MOST_TILE};
use super::problem::MOST_EXTENT;
use crate::calls::{AddressOf, NO_ADDRESS, unencoded};
use crate::kernels::{GemmProblem, Major};
use colex_ir::verify::{BESIDE_WGMMA, LEAST, STEP, registers_at_entry};
use colex_ir::{FenceKind, Sync, Type};
use colex_tensor::{
    Arg, Builder, Cond, Error, Fragment, Im2colTensor, Index, Pipeline, Stage, Tensor,
    TensorKernel, TmaTensor,
};

/// The most steps along K of all shares together.
pub(crate) const MOST_STEPS: i64 = 1 << 26;

/// The registers that the Hopper kernel needs beside a thread's accumulators.
const BESIDE_SUMS: i64 = BESIDE_WGMMA as i64;

/// The registers that the consumers' threads need beside all their accumulators, where `setmaxnreg` gives them more than at entry.
const BESIDE_ALL_SUMS: i64 = 48;

/// The registers beside these that stay free where a thread holds what the epilogue has loaded for the first part during the main loop.
const BESIDE_EARLY_TERMS: i64 = 16;

/// The registers that a thread needs beside what it loads or accumulates where several blocks share a multiprocessor: with fewer,
/// ptxas 12.9 spills a few in some of the plans.
const BESIDE_LOADS: i64 = 40;

/// TMA and `wgmma`. The units of a plan are consumer warpgroups, each of which has the whole tile along N.
pub(crate) struct Hopper;

impl GemmFamily for Hopper {
    fn types(&self) -> &'static [Ty] {
        &[Ty::F16, Ty::Bf16, Ty::Tf32, Ty::S8]
    }

    fn since(&self) -> Arch {
        Arch::Sm90a
    }

    fn runs_on(&self, arch: Arch) -> bool {
        arch == self.since()
    }

    /// `wgmma` takes 16-bit numbers in every order, and numbers of other widths along K only: those are transposed.
    fn reads(&self, operands: &Operands) -> bool {
        [Operand::A, Operand::B].map(|operand| operands.is_loaded(operand)) == [true; 2]
    }

    fn numbers(&self, operands: &Operands) -> Numbers {
        Numbers {
            tile: [128, 256, along_k(operands.ab, 64)],
            stages: 4,
            warps: [2, 1],
            cluster: [2, 1, 1],
        }
    }

    fn most_cluster(&self, _: Arch) -> [i64; 3] {
        [MOST_SHARING, MOST_SHARING, MOST_ALONG_K]
    }

    fn most_split(&self) -> i64 {
        MOST_SPLIT
    }

    fn most_units(&self) -> [i64; 2] {
        [MOST_THREADS / 128 - 1, 1]
    }

    fn consumers(&self, plan: &GemmPlan) -> i64 {
        plan.warps[0] * i64::from(WARPGROUP_THREADS)
    }

    fn threads(&self, plan: &GemmPlan) -> i64 {
        let groups = plan.consumer_groups().saturating_mul(plan.warps[1]);
        groups
            .saturating_add(1)
            .saturating_mul(i64::from(WARPGROUP_THREADS))
    }

    fn copiers(&self, _: &GemmPlan) -> i64 {
        i64::from(WARPGROUP_THREADS)
    }

    fn steps(&self, plan: &GemmPlan) -> [i64; 3] {
        // Each block of a cluster loads a part of B and multicasts it, or stores a part of the columns.
        let [m, _, k] = plan.cluster;
        let columns = match (plan.operands.ab, m.max(k)) {
            // Above 24 columns, an instruction on bytes has whole multiples of 16.
            (Ty::S8, 1) => 16,
            (_, blocks) => 8 * blocks,
        };
        [64 * plan.warps[0], columns, along_k(plan.operands.ab, 16)]
    }

    /// A box of a tensor map has at most 256 elements along each mode; along M and N these are rows if K is contiguous.
    fn most_tile(&self, operands: &Operands) -> [i64; 3] {
        match operands.major(Operand::A) {
            Major::Second => [256, 256, 256],
            Major::First => [MOST_TILE, 256, 256],
        }
    }

    fn stages(&self) -> RangeInclusive<i64> {
        2..=MOST_STAGES
    }

    fn products(&self, plan: &GemmPlan) -> i64 {
        let [m, _, k] = self.steps(plan);
        m * plan.tile[1] * k
    }

    fn check_shares(&self, plan: &GemmPlan, sums: i64) -> Result<(), crate::Error> {
        // `setmaxnreg` gives the consumers more later, but ptxas counts what the kernel is entered with (C7602) for each `wgmma`, of 64
        // rows.
        let threads = (plan.consumer_groups() as u32 + 1) * WARPGROUP_THREADS;
        let entry = i64::from(registers_at_entry(threads, 1));
        let most = entry - BESIDE_SUMS;
        let of_one = 64 * plan.tile[1] / i64::from(WARPGROUP_THREADS);
        if plan.operands.ab == Ty::S8 {
            // Those of a block, and those of the main loop, whose cluster divides K and C among its blocks.
            for (what, columns) in [
                ("columns of C for a block", plan.stored().tile[1]),
                ("columns of a tile", plan.tile[1]),
            ] {
                if columns > 24 {
                    plan.number(what, columns, 32..=256, 16)?;
                }
            }
        }
        if plan.gather {
            let [m, n, _] = plan.cluster;
            plan.limit("blocks that share loads by threads", m * n, 1)?;
            plan.check_copies()?;
        }
        let granted = consumer_registers(plan).map_or(entry, i64::from);
        let later = granted - BESIDE_ALL_SUMS;
        plan.limit(
            "registers for a consumer's sums at entry",
            if sums <= later { of_one } else { sums },
            most.max(0),
        )
    }

    fn loads_parts(&self) -> bool {
        true
    }

    fn tiled_mma(&self, plan: &GemmPlan) -> Result<TiledMma, Error> {
        let (ab, n) = (plan.operands.ab, plan.tile[1]);
        let name = match ab {
            Ty::Tf32 => format!("SM90_64x{n}x8_F32TF32TF32_SS_TN"),
            Ty::S8 => format!("SM90_64x{n}x32_S32S8S8_SS_TN"),
            _ => format!("SM90_64x{n}x16_F32{ty}{ty}_SS", ty = ab.cute()),
        };
        let mut atom = colex_atom::mma(&name)?;
        if takes_orders(ab.bits() as usize / 8) {
            let mut options = atom.options();
            options.major_a = plan.operands.major(Operand::A);
            options.major_b = plan.operands.major(Operand::B);
            atom = atom.with_options(options)?;
        }
        plan.over_units(atom, (.., .., ..))
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

    fn matrices<'a>(
        &self,
        problem: &GemmProblem,
        (plan, batch, form): (&GemmPlan, &Batch, BatchForm),
        built: &TensorKernel,
        [la, lb, lc]: &'a [Layout; 3],
        ([a, b, c], second): ([u64; 3], Option<u64>),
    ) -> Result<Vec<Arg<'a>>, crate::Error> {
        // The maps promote lines of 128 bytes: of 256, rows that begin between them are slower by up to a sixth.
        let map = |name: &str, layout, address| {
            let map = built.tensor_map(name, layout)?;
            Ok::<_, crate::Error>(Arg::Value(unencoded(map, address)))
        };
        let factor = |name, layout: &'a Layout, address| {
            if plan.gather {
                Ok(Arg::checked(address, layout))
            } else {
                map(name, layout, address)
            }
        };
        let mut given = Vec::new();
        match batch.convolution() {
            Some(convolution) => {
                let (map, numbers) = built.im2col_arguments("A", la, &convolution.taps())?;
                given.push(Arg::Value(unencoded(map, a)));
                given.extend(numbers.into_iter().map(|n| Arg::Value(Argument::U32(n))));
            }
            None => given.push(factor("A", la, a)?),
        }
        given.push(match plan.columns {
            columns if columns != 0 => {
                let map = built.narrowed_tensor_map("B", lb, columns)?;
                Arg::Value(unencoded(map, b))
            }
            _ => factor("B", lb, b)?,
        });
        if let Some(second) = second {
            given.push(factor("B2", lb, second)?);
        }
        if plan.stages_c() {
            given.push(map("C", lc, c)?);
            // The others get their addresses when the call is bound.
            for owner in 1..form.owners() {
                given.push(map(&owner_name(owner), lc, c)?);
            }
        }
        if !plan.stages_c() || form.groups.is_some_and(Groups::has_rows) || plan.columns != 0 {
            given.push(Arg::checked(c, lc));
        }
        // A kernel of a convolution counts the channels under each tap.
        let sizes = [problem.m, problem.n, counted_along_k(problem, batch)];
        let products = lc.modes().skip(2).map(|mode| mode.size());
        let has_count = form.groups.is_some() || form.owners() > 0;
        let groups = has_count.then_some(problem.batch);
        let products: Vec<i64> = match groups {
            Some(groups) => vec![groups],
            None => products.collect(),
        };
        let sizes = sizes.into_iter().chain(products);
        given.extend(sizes.map(|n| Arg::Value(Argument::U32(n as u32))));
        if let Some(chunks) = batch.chunks() {
            given.push(Arg::Value(Argument::U32(chunks.first as u32)));
        }
        if plan.split > 1 {
            let numbers = numbers_of_parts(plan, problem, batch);
            given.extend(numbers.map(|n| Arg::Value(Argument::U32(n as u32))));
            let beside = beside_operands(plan).map(|_| Arg::Value(NO_ADDRESS));
            given.extend(beside);
        }
        if plan.columns != 0 {
            let [_, wide] = plan.computed().map(|extent| extent * plan.cluster[1]);
            let numbers = [
                plan.columns / plan.width_step(),
                (problem.n + wide - 1) / wide,
            ];
            given.extend(numbers.map(|n| Arg::Value(Argument::U32(n as u32))));
        }
        Ok(given)
    }

    /// The kernel is persistent: the grid has the clusters that run at once, and each cluster loops over tiles.
    fn launch(
        &self,
        plan: &GemmPlan,
        [m, n, products]: [i64; 3],
        threads: u32,
        device: &Device,
    ) -> Launch {
        let [along_m, along_n, _] = plan.cluster;
        let size = blocks(plan);
        let wanted = ((m + along_m - 1) / along_m).saturating_mul((n + along_n - 1) / along_n);
        let multiprocessors = device.limits().multiprocessors.into();
        let at_once =
            clusters_at_once(i64::from(size), multiprocessors) * beside(plan, device.arch());
        let wanted = wanted.saturating_mul(products);
        let clusters = plan.items(wanted).min(at_once) as u32;
        Launch::new(clusters * size, threads).cluster(size)
    }
}

/// The numbers by which a launch divides K: the parts, and the tiles that are not divided.
pub(crate) fn numbers_of_parts(plan: &GemmPlan, problem: &GemmProblem, batch: &Batch) -> [i64; 2] {
    let loaded = match batch.convolution() {
        Some(of) => GemmProblem {
            k: of.loaded(plan.tile[2]),
            ..*problem
        },
        None => *problem,
    };
    let tiles = plan.divided_tiles(problem).max(1);
    let parts = plan.parts_of(tiles, plan.steps_of(&loaded));
    match (plan.division, parts) {
        // A part that is alone is a whole tile: nothing is added to it.
        (Division::SplitKFixup, 1) => [1, plan.cluster_tiles(problem)],
        _ => [parts, plan.undivided],
    }
}

/// The channels of a convolution or the K of a product: what a kernel counts.
pub(crate) fn counted_along_k(problem: &GemmProblem, batch: &Batch) -> i64 {
    let channels = batch.convolution().map(|of| of.problem.channels);
    channels.unwrap_or(problem.k)
}

/// Whether `wgmma` takes elements of a number of bytes in every order: those of two. It takes all others along K.
pub(crate) fn takes_orders(bytes: usize) -> bool {
    bytes == 2
}

/// Whether tiles of a type that are not contiguous along K are transposed in shared memory.
pub(crate) fn transposes(ab: Ty) -> bool {
    [Ty::Tf32, Ty::S8].contains(&ab)
}

/// The elements of a type along K that take the bytes of a number of 16-bit numbers.
pub(crate) fn along_k(ab: Ty, halves: i64) -> i64 {
    16 * halves / i64::from(ab.bits())
}

/// The name of the matrix of C of a chunk, where each has an owner.
pub(crate) fn owner_name(chunk: usize) -> String {
    match chunk {
        0 => "C".to_string(),
        _ => format!("C_{chunk}"),
    }
}

/// Threads of a warpgroup.
pub(crate) const WARPGROUP_THREADS: u32 = 128;

/// The state that the producer and the consumers share.
struct WarpSpecializedKernel<'a> {
    plan: &'a GemmPlan,
    batch: BatchForm,
    mma: &'a TiledMma,
    /// Those of the narrower tiles, by their columns.
    narrower: BTreeMap<i64, TiledMma>,
    ring: Pipeline,
    /// A and the right factors in global memory, with their stages.
    factors: Vec<Factor>,
    /// The number of steps along K.
    steps: Index,
    /// The clusters along M and along N.
    grid: Grid,
    /// The parts into which clusters divide K.
    divided: Option<Divided>,
    /// The offsets of groups along K, and K.
    along_k: Option<(Tensor, Index)>,
    /// The columns of a tile, where the launch decides them.
    width: Option<Index>,
    /// The flags of the chunks of A.
    arrivals: Option<ChunkFlags>,
    /// The words that tell which chunks of C are in memory, and the parts of each.
    departures: Option<(Departures, Index)>,
    rank: Index,
    group: Index,
    warp: Index,
    first: Index,
    stride: Index,
}

/// The tiles of the clusters.
enum Grid {
    /// Of the products of a batch.
    Products(BatchTiles),
    /// Of groups of rows.
    Groups(Box<GroupRows>),
}

/// An operand in global memory.
enum Source {
    /// Loaded by TMA.
    Map(Box<TmaTensor>),
    /// Activations, loaded by an im2col tensor map.
    Columns(Box<Im2colTensor>),
    /// Loaded by the threads of the producer.
    Threads(Box<Tensor>),
}

impl Source {
    /// The tensor map by which TMA loads.
    fn map(&self) -> Option<&TmaTensor> {
        match self {
            Source::Map(map) => Some(map),
            Source::Columns(_) | Source::Threads(_) => None,
        }
    }

    /// The activations that an im2col tensor map describes.
    fn columns(&self) -> Option<&Im2colTensor> {
        match self {
            Source::Columns(columns) => Some(columns),
            Source::Map(_) | Source::Threads(_) => None,
        }
    }

    /// The bytes of a tile that arrive by TMA.
    fn bytes(&self) -> i64 {
        match self {
            Source::Map(map) => map.tile_bytes(),
            Source::Columns(columns) => columns.tile_bytes(),
            Source::Threads(_) => 0,
        }
    }

    /// The tensor that threads load.
    fn tensor(&self) -> Option<&Tensor> {
        match self {
            Source::Map(_) | Source::Columns(_) => None,
            Source::Threads(tensor) => Some(tensor),
        }
    }
}

/// A factor of the product: A or a right factor.
struct Factor {
    operand: Operand,
    source: Source,
    /// (M or N, K, STAGES)
    stages: Tensor,
    /// The same memory, as TMA fills it: in another order if the tiles are transposed.
    landing: Tensor,
    transposition: Option<Transposition>,
    /// The blocks of the cluster that load its tile together.
    blocks: i64,
}

/// A block's share of the work: a part of K of a tile.
struct Item {
    /// The coordinates of the tile.
    at: [Index; 2],
    /// Those of the product in its batch.
    product: Vec<Index>,
    /// The rows of the group to which the tile belongs.
    rows: Option<Span>,
    /// The part of K of the group.
    columns: Option<Span>,
    /// Whether this cluster has the whole K of the tile.
    is_whole: Cond,
    /// The number of the part of K, counted over the clusters' tiles whose K is divided.
    part: Index,
    /// The first step along K, and the number of steps.
    start: Index,
    steps: Index,
    /// Whether the block has another tile after this one, where its consumers take tiles in turn.
    is_followed: Cond,
}

/// The two consumers of a pingpong schedule take turns in the main loop, as the named barriers of
/// [`Ordering::Named`](colex_sched::pipeline::Ordering) have it: a consumer waits at its own, at which the other arrives. Each
/// stores from buffers of its own, so that no turns are needed there.
struct ConsumerTurns {
    /// The number of the consumer.
    own: Index,
    /// The barriers of its turn and of the other's.
    barriers: [Index; 2],
}

impl ConsumerTurns {
    /// The threads of both consumers.
    const THREADS: u32 = 2 * WARPGROUP_THREADS;

    /// The first consumer's first turn is given to it by the second.
    fn give_first(&self, k: &mut Builder) {
        let second = k.equal(&self.own, &1.into());
        k.if_(second, |k| self.pass(k));
    }

    fn take(&self, k: &mut Builder) {
        k.sync_named(&self.barriers[0], Self::THREADS);
    }

    fn pass(&self, k: &mut Builder) {
        k.arrive_named(&self.barriers[1], Self::THREADS);
    }
}

/// The tiles whose K is divided into parts.
struct Divided {
    sum: SplitSum,
    row: StepRow,
    /// How the last warpgroup to arrive adds the other part, if no second kernel adds the parts.
    fixup: Option<Fixup>,
}

/// More than the tiles and parts of tiles that the clusters count.
const MOST_ITEMS: i64 = 1 << 30;

/// The most blocks of a cluster along K: clusters of more blocks are not portable.
const MOST_ALONG_K: i64 = 8;

/// The most blocks of a cluster along M and N.
pub(crate) const MOST_SHARING: i64 = 4;

/// The most parts into which clusters divide K.
pub(crate) const MOST_SPLIT: i64 = 64;

/// The most shares into which clusters divide the steps of all tiles.
pub(crate) const MOST_SHARES: i64 = 1024;

/// The memory beside the operands whose addresses a kernel that multiplies parts of K gets, in the order of its arguments: behind those of C.
pub(crate) fn beside_operands(plan: &GemmPlan) -> impl Iterator<Item = AddressOf> + use<> {
    let workspace = (plan.split > 1).then_some(AddressOf::Workspace);
    let meets = plan.split > 1 && plan.division == Division::SplitKFixup;
    let words = meets.then_some(AddressOf::Words);
    workspace.into_iter().chain(words)
}

/// The clusters of a number of blocks that run at once. A cluster lies in one group of multiprocessors: of more than two
/// blocks, an H200 runs a tenth fewer than its multiprocessors would hold.
pub(crate) fn clusters_at_once(blocks: i64, multiprocessors: i64) -> i64 {
    let whole = multiprocessors / blocks;
    let kept = if blocks > 2 { whole * 10 / 11 } else { whole };
    kept.max(1)
}

/// The clusters' tiles along M and along N of all products.
pub(crate) fn clusters(
    k: &mut Builder,
    plan: &GemmPlan,
    [m, n]: [&Index; 2],
    products: &[Index],
) -> BatchTiles {
    let [tall, wide] = [0, 1].map(|mode| plan.tile[mode] * plan.cluster[mode]);
    let tiles = [(m + (tall - 1)) / tall, (n + (wide - 1)) / wide];
    BatchTiles::new(k, plan, tiles, products)
}

/// The coordinates of the tile of the block with a rank in the cluster of a number, and those of its product.
pub(crate) fn place(
    k: &mut Builder,
    plan: &GemmPlan,
    grid: &BatchTiles,
    (number, rank): (&Index, &Index),
) -> ([Index; 2], Vec<Index>) {
    let (at, product) = grid.at(k, number);
    (of_rank(plan, at, rank), product)
}

/// The coordinates of the tile of the block with a rank in the cluster whose tile has these.
fn of_rank(plan: &GemmPlan, [m, n]: [Index; 2], rank: &Index) -> [Index; 2] {
    let [along_m, along_n, _] = plan.cluster;
    let [of_m, of_n] = ranks(plan, rank);
    [m * along_m + of_m, n * along_n + of_n]
}

/// The ranks along M and along N of the block with a rank in its cluster: those along M follow each other.
fn ranks(plan: &GemmPlan, rank: &Index) -> [Index; 2] {
    match plan.cluster {
        [1, 1, _] => [0.into(), 0.into()],
        [_, 1, _] => [rank.clone(), 0.into()],
        [1, _, _] => [0.into(), rank.clone()],
        [along_m, ..] => [rank % along_m, rank / along_m],
    }
}

/// The blocks that receive what a block loads of A, and of B: a bit for each rank in the cluster.
fn receivers(plan: &GemmPlan, [of_m, of_n]: &[Index; 2]) -> [Index; 2] {
    let [along_m, along_n, _] = plan.cluster;
    // Those of rank 0 along the other mode.
    let of_a: i64 = (0..along_n).map(|n| 1 << (n * along_m)).sum();
    let of_b = (1 << along_m) - 1;
    // The bits are shifted by the rank. With two ranks along both modes, that is a multiple of the rank.
    match [along_m, along_n] {
        [1, _] | [_, 1] => [of_a.into(), of_b.into()],
        _ => [
            of_m * of_a + of_a,
            of_n * (of_b << along_m) - of_n * of_b + of_b,
        ],
    }
}

/// The coordinates of the part of C that a block with a rank stores.
pub(crate) fn stored_at(plan: &GemmPlan, [m, n]: [Index; 2], rank: &Index) -> [Index; 2] {
    match plan.cluster[2] {
        1 => [m, n],
        // Where the blocks of a cluster divide K, each stores the columns of its rank.
        along_k => [m, n * along_k + rank],
    }
}

/// The blocks of a plan's cluster.
pub(crate) fn blocks(plan: &GemmPlan) -> u32 {
    plan.cluster.iter().product::<i64>() as u32
}

/// The most blocks of a plan that a multiprocessor runs at once.
pub(crate) const MOST_BESIDE: i64 = 3;

/// The bytes of shared memory that barriers and alignment take.
pub(crate) const BESIDE_TILES: i64 = 2048;

/// The bytes of shared memory that the system keeps for each block (CUDA C++ Programming Guide, "Compute Capability 9.0").
pub(crate) const KEPT: i64 = 1024;

/// The blocks of a plan that a multiprocessor runs at once. By TMA one block has enough loads under way. Threads wait for what
/// they load: of blocks with one consumer, some wait while others multiply.
pub(crate) fn beside(plan: &GemmPlan, arch: Arch) -> i64 {
    let most = most_beside(plan);
    if most == 1 {
        return 1;
    }
    let room = i64::from(Limits::of(arch).shared) + KEPT;
    let each = tile_bytes(plan, plan.stages) + BESIDE_TILES + KEPT;
    (room / each).clamp(1, most)
}

/// The same by registers alone.
pub(crate) fn most_beside(plan: &GemmPlan) -> i64 {
    if !plan.gather || plan.cluster != [1; 3] || plan.consumer_groups() != 1 {
        return 1;
    }
    let [m, n, k] = plan.tile;
    let threads = i64::from(WARPGROUP_THREADS);
    let columns = n * plan.operands.right_factors();
    let sums = m * columns / threads;
    // Elements that go through registers are all under way before the first is stored.
    let through = |operand, extent| match plan.operands.vector(operand) {
        1 => extent * k / threads,
        _ => 0,
    };
    let loaded = through(Operand::A, m) + through(Operand::B, columns);
    // A part of C that is read, and its addresses where the neighbours in memory are those of other threads.
    let read = match (plan.operands.beta, plan.operands.major(Operand::C)) {
        (false, _) => 0,
        (true, Major::Second) => sums.min(32),
        (true, Major::First) => sums.min(32) + 32,
    };
    let fits = |blocks: &i64| {
        let entry = registers_at_entry(2 * WARPGROUP_THREADS, *blocks as u32);
        loaded.max(sums + read) + BESIDE_LOADS <= i64::from(entry)
    };
    // Steps along K of a factor that is contiguous along M or N take more addresses.
    let steps_over_rows = plan.operands.majors[..2].contains(&Major::First);
    let most = MOST_BESIDE - i64::from(steps_over_rows);
    (2..=most).rev().find(fits).unwrap_or(1)
}

/// The bytes of shared memory of a stage.
pub(crate) fn stage_bytes(plan: &GemmPlan) -> i64 {
    let [m, n, k] = plan.tile;
    let columns = n.saturating_mul(plan.operands.right_factors());
    let elements = m.saturating_add(columns).saturating_mul(k);
    elements.saturating_mul(i64::from(plan.operands.ab.bits())) / 8
}

/// The bytes of shared memory of a number of stages and of the epilogue.
pub(crate) fn tile_bytes(plan: &GemmPlan, stages: i64) -> i64 {
    stage_bytes(plan) * stages + shared_bytes(&plan.stored())
}

/// The registers of a consumer's thread that are free beside its accumulators and addresses.
fn room_beside_sums(plan: &GemmPlan) -> i64 {
    let threads = (plan.consumer_groups() as u32 + 1) * WARPGROUP_THREADS;
    let granted = consumer_registers(plan).unwrap_or(registers_at_entry(threads, 1));
    let [m, n, _] = plan.stored().tile;
    let consumers = plan.warps[0] * i64::from(WARPGROUP_THREADS);
    let sums = plan.operands.right_factors() * m * n / consumers;
    i64::from(granted) - BESIDE_ALL_SUMS - sums
}

/// The registers of a consumer's threads after the producer has kept the fewest it can: what the given number of consumers have between
/// them, if that is more than they begin with.
fn consumer_registers(plan: &GemmPlan) -> Option<u32> {
    /// A thread with 128 accumulators and its addresses needs at most this number of registers. The producer keeps the
    /// same number as in CUTLASS.
    const MOST: u32 = 240;
    // A producer whose threads load or transpose needs registers too.
    let works = plan.gather || plan.operands.transposes();
    let consumers = Some(plan.consumer_groups() as u32).filter(|_| !works)?;
    let groups = consumers + 1;
    let entry = registers_at_entry(groups * WARPGROUP_THREADS, 1);
    let share = (entry * groups - LEAST) / consumers / STEP * STEP;
    (share > entry)
        .then_some(share.min(MOST))
        .filter(|n| *n > entry)
}

/// The kernel of a plan. The launch takes A, B, C, M, N, K and what the epilogue reads. The blocks are persistent.
fn build(
    plan: &GemmPlan,
    batch: BatchForm,
    epilogue: &KernelEpilogue,
    arch: Arch,
) -> Result<TensorKernel, Error> {
    let consumers = plan.consumer_groups() as u32;
    let name = match plan.operands.ab {
        Ty::Tf32 => "gemm_sm90_tf32",
        Ty::S8 => "gemm_sm90_s8",
        _ => "gemm_sm90",
    };
    let mut k = Builder::new(name, arch, (consumers + 1) * WARPGROUP_THREADS);
    let [along_m, along_n, along_k] = plan.cluster;
    let size = blocks(plan);
    k.min_blocks(beside(plan, arch) as u32);
    if size > 1 {
        k.cluster([size, 1, 1]);
    }
    let schedule = WarpSpecialized {
        cluster: [along_m as usize, along_n as usize],
        consumers: consumers as usize,
        schedule: plan.schedule,
        ..WarpSpecialized::cooperative(plan.stages as usize, 1, 8)
    };
    let mma = plan.tiled_mma()?;
    let widths = plan.widths().map(|mut widths| {
        if epilogue.is_own {
            let of_part = plan.part_columns();
            widths.retain(|width| width % of_part == 0);
        }
        widths
    });
    let narrower = widths.iter().flatten().copied();
    let narrower = narrower.filter(|width| *width < plan.tile[1]).map(|width| {
        let [m, _, k] = plan.tile;
        let narrow = GemmPlan {
            tile: [m, width, k],
            columns: 0,
            ..*plan
        };
        Ok::<_, Error>((width, narrow.tiled_mma()?))
    });
    let narrower: BTreeMap<i64, TiledMma> = narrower.collect::<Result<_, _>>()?;
    let mut ring = k.pipeline_of(&schedule);
    if plan.gather {
        ring = ring.filled_by(WARPGROUP_THREADS);
    }
    if plan.operands.transposes() {
        ring = k.relayed(ring, transposed::WARPS as u32 * 32);
    }
    let mut factors = vec![factor(&mut k, plan, &batch, (Operand::A, "A"), along_n)?];
    for name in plan.operands.names_of_right_factors() {
        let right = (Operand::B, *name);
        factors.push(factor(&mut k, plan, &batch, right, along_m)?);
    }
    let stored = plan.stored();
    let stored_mma = stored.tiled_mma()?;
    let landing = epilogue.landing(plan, &batch);
    // What the stages leave of the shared memory.
    let room = i64::from(Limits::of(arch).shared) - tile_bytes(plan, plan.stages) - BESIDE_TILES;
    let buffers = landing.map(|_| match (plan.cluster, most_beside(plan)) {
        ([_, _, 1], 1) => landing_buffers(&stored, room),
        _ => landing_buffers(&stored, 0),
    });
    let output = StorePath::new(
        &mut k,
        (&stored, epilogue.is_own),
        &batch,
        (&stored_mma, buffers),
    )?;
    let sizes = ["m", "n", "k"].map(|name| k.index_argument(name, 1..MOST_EXTENT + 1));
    let products = batch.arguments(&mut k);
    let first_chunk = batch.chunks.map(|of| {
        let first = k.index_argument("first_chunk", 0..MOST_EXTENT);
        // It is one of the chunks, which the launch checks.
        k.within(&first - &products[0], -MOST_EXTENT..0);
        (of, first)
    });
    let arrivals = first_chunk.as_ref().filter(|(of, _)| of.arrives);
    let arrivals = arrivals.map(|(_, first)| ChunkFlags::declare(&mut k, first));
    if let Some(arrivals) = &arrivals {
        arrivals.agree(&mut k, &products[0]);
    }
    let departures = batch.chunks.filter(|of| of.departs);
    let departures = departures.map(|_| Departures::declare(&mut k));
    if let Some(departures) = &departures {
        departures.agree(&mut k, &products[0]);
    }
    let numbers = batch.groups.map(|groups| tiles::declare(&mut k, groups));
    let split = (plan.split > 1).then(|| {
        let sum = SplitSum::new(&mut k, plan);
        let adds = plan.division == Division::SplitKFixup;
        (sum, adds.then(|| Fixup::declare(&mut k, plan)))
    });
    let widths = widths.map(|widths| {
        let step = plan.width_step();
        let units = widths.iter().map(|width| width / step);
        let (least, most) = (units.clone().min(), units.max());
        let range = least.unwrap_or(1)..most.unwrap_or(1) + 1;
        let width = k.index_argument("units", range) * step;
        (
            width,
            k.index_argument("tiles_n", 1..most_narrow_tiles(plan) + 1),
        )
    });
    let map = |k: &mut Builder, name: &str, layout: &Layout| {
        let map = output.map(k, name, layout);
        map.expect("invariant: C is staged where a tensor lands")
    };
    let terms = epilogue.declare_with(&mut k, landing.map(|at| (at, &map as &MakeMap<'_>)));
    for factor in &factors {
        if let Some(tensor) = factor.source.tensor() {
            batch.agree(&mut k, factor.operand, tensor, &products);
        }
    }
    if let Some(c) = output.tensor() {
        batch.agree(&mut k, Operand::C, c, &products);
    }
    terms.agree(&mut k, &batch, &products);
    let [m, n, kk] = sizes;
    let rank = match size {
        1 => 0.into(),
        _ => k.cluster_rank(size),
    };
    let sum = (along_k > 1).then(|| ClusterSum::new(&mut k, plan, stored_mma, &rank));
    if plan.early {
        // The first load needs the maps; one thread brings them while others initialise barriers.
        let thread = k.thread();
        let last = k.equal(&thread, &i64::from(consumers * WARPGROUP_THREADS).into());
        k.if_(last, |k| {
            let maps = factors.iter().filter_map(|factor| factor.source.map());
            maps.chain(output.tma()).for_each(|map| k.prefetch_map(map));
        });
    }
    output.start(&mut k);
    if let Some(sum) = &sum {
        sum.start(&mut k);
    }
    k.start_pipelines(&[&ring], size > 1);
    if plan.early {
        begin_early(&mut k);
    }
    let along_parts = batch.groups.is_some_and(|groups| !groups.has_rows());
    let along_k_of_groups = numbers
        .clone()
        .filter(|_| along_parts)
        .map(|numbers| (numbers, k.within(&kk, 1..MOST_ROWS + 1)));
    let grid = match batch.groups.zip(numbers.as_ref()) {
        Some(of_groups) if !along_parts => {
            let tile = [0, 1].map(|mode| plan.tile[mode] * plan.cluster[mode]);
            let (sizes, tile) = ([&m, &n], (plan, tile));
            let groups = GroupRows::new(&mut k, of_groups, &products[0], sizes, tile);
            Grid::Groups(Box::new(groups))
        }
        _ => {
            let grid = match &widths {
                Some((_, tiles_n)) => {
                    let tall = plan.tile[0] * along_m;
                    let tiles = [(&m + (tall - 1)) / tall, tiles_n.clone()];
                    BatchTiles::new(&mut k, plan, tiles, &products)
                }
                None => clusters(&mut k, plan, [&m, &n], &products),
            };
            Grid::Products(match &first_chunk {
                Some((of, first)) => grid.rotated(*of, first, &products[0]),
                None => grid,
            })
        }
    };
    let steps = steps(&mut k, plan, &batch, &kk);
    let divided = split.zip(grid.products()).map(|((sum, fixup), grid)| {
        let tiles = sum.check(&mut k, grid);
        let row = sum.row(&mut k, &tiles, &steps);
        Divided { sum, row, fixup }
    });
    // Each warpgroup that stores a part of a tile, of all blocks of a cluster.
    let storing = plan.consumer_groups() / plan.tiles_at_once() * i64::from(size);
    let departures = departures.zip(grid.products()).map(|(departures, grid)| {
        let parts = k.within(grid.of_one() * storing, 1..MOST_ITEMS);
        (departures, parts)
    });
    let kernel = WarpSpecializedKernel {
        plan,
        batch,
        mma: &mma,
        narrower,
        ring,
        factors,
        steps,
        grid,
        divided,
        along_k: along_k_of_groups,
        width: widths.map(|(width, _)| width),
        arrivals,
        departures,
        rank,
        group: k.uniform(WARPGROUP_THREADS),
        warp: k.uniform(32),
        first: k.block_index(0) / i64::from(size),
        stride: k.grid_extent(0) / i64::from(size),
    };
    let produces = k.equal(&kernel.group, &i64::from(consumers).into());
    // What a thread copies depends on its number alone: it is found before the branch, where an error can be returned.
    let fetches = kernel.fetches(&mut k)?;
    k.if_else(
        produces,
        |k| kernel.produce(k, fetches.as_deref()),
        |k| kernel.consume(k, &stored, &output, sum.as_ref(), &terms),
    );
    k.finish()
}

/// The most clusters' tiles along N of a kernel for several widths: the first columns of tiles of any width lie within the largest extent.
pub(crate) fn most_narrow_tiles(plan: &GemmPlan) -> i64 {
    MOST_EXTENT / (plan.tile[1] * plan.cluster[1])
}

/// The most steps along K of a tile.
fn most_steps(plan: &GemmPlan) -> i64 {
    (MOST_EXTENT / plan.tile[2] + 1).min(1 << 25)
}

/// The steps along K of a tile, for each block of a cluster that divides it. Beyond K, loads bring zeros: all blocks of a cluster take as
/// many steps.
pub(crate) fn steps(k: &mut Builder, plan: &GemmPlan, batch: &BatchForm, along: &Index) -> Index {
    let (bk, along_k) = (plan.tile[2], plan.cluster[2]);
    let most = most_steps(plan);
    // Under each tap of a convolution, all channels.
    let taps = batch.filter.map_or(1, Filter::count);
    let all = k.within((along + (bk - 1)) / bk, 1..most / taps + 1) * taps;
    let steps = k.within((all + (along_k - 1)) / along_k, 1..most + 1);
    k.within(&steps * along_k, 1..MOST_STEPS + 1);
    steps
}

/// Waits for the end of the launch before, which the kernel need not await to begin: nothing in front of this accesses global
/// memory. Blocks of the launch behind find room when those of this one end.
pub(crate) fn begin_early(k: &mut Builder) {
    k.emit(|ir| {
        ir.push(Sync::GridDependency { wait: true });
        ir.push(Sync::GridDependency { wait: false });
    });
}

/// The tensor map and the stages of a factor. `blocks` blocks of the cluster load its tile together.
fn factor(
    k: &mut Builder,
    plan: &GemmPlan,
    batch: &BatchForm,
    (operand, name): (Operand, &str),
    blocks: i64,
) -> Result<Factor, Error> {
    let [mn, bk] = operand.modes().map(|mode| plan.tile[mode]);
    let ty = plan.operands.ab;
    let is_transposed = plan.operands.is_transposed(operand);
    let major = held_major(&plan.operands, operand);
    let stages = boxed_layout(major, ty.bits(), &[mn, bk, plan.stages])?;
    let landing = |shape: &[i64]| {
        if is_transposed {
            transposed::landing_layout(ty.bits(), shape)
        } else {
            boxed_layout(major, ty.bits(), shape)
        }
    };
    let (tile, landing) = (landing(&[mn, bk])?, landing(&[mn, bk, plan.stages])?);
    let like = batch.layout(plan, operand);
    let source = if let (Some(filter), Operand::A) = (batch.filter, operand) {
        let columns = k.im2col_tensor(name, ty, &filter.taps(), &tile, blocks);
        Source::Columns(Box::new(columns))
    } else if plan.gather {
        Source::Threads(Box::new(k.tensor(name, ty, &like)))
    } else {
        Source::Map(Box::new(k.tma_tensor(
            name,
            ty,
            &like,
            [mn, bk],
            &tile,
            blocks,
        )))
    };
    let (stages, landing, transposition) = if is_transposed {
        // The swizzle of the longer rows has the longer period, at multiples of which the memory begins.
        let [along_mn, along_k] = transposed::block(ty.bits(), [mn, bk])?;
        let (stages, landing) = if along_mn < along_k {
            let stages = k.shared_tensor(ty, stages);
            (stages.clone(), stages.with_layout(landing))
        } else {
            let landing = k.shared_tensor(ty, landing);
            (landing.with_layout(stages), landing)
        };
        // The barriers of the epilogue and of the consumers come before.
        let barrier = Index::from(plan.consumer_groups() + 3);
        let transposition = Transposition::new(ty, [mn, bk], [&landing, &stages], barrier)?;
        (stages, landing, Some(transposition))
    } else {
        let stages = k.shared_tensor(ty, stages);
        (stages.clone(), stages, None)
    };
    Ok(Factor {
        operand,
        source,
        stages,
        landing,
        transposition,
        blocks,
    })
}

/// The contiguous mode of an operand's tiles in shared memory as `wgmma` reads them.
fn held_major(operands: &Operands, operand: Operand) -> Major {
    if operands.is_transposed(operand) {
        Major::Second
    } else {
        operands.major(operand)
    }
}

/// Waits until the chunk of an item has arrived.
fn arrive(k: &mut Builder, waits: Option<&Waits<'_>>, item: &Item) {
    if let (Some(waits), Some(chunk)) = (waits, item.product.last()) {
        waits.wait(k, chunk);
    }
}

impl Grid {
    /// Those of the products of a batch.
    fn products(&self) -> Option<&BatchTiles> {
        match self {
            Grid::Products(grid) => Some(grid),
            Grid::Groups(_) => None,
        }
    }
}

impl WarpSpecializedKernel<'_> {
    /// `body` for the shares of this block, or those of the consumer with a number that takes tiles in turn.
    fn each_item(&self, k: &mut Builder, turn: Option<&Index>, body: impl Fn(&mut Builder, Item)) {
        match &self.grid {
            Grid::Products(grid) => self.each_of_products(k, grid, turn, body),
            Grid::Groups(groups) => self.each_of_groups(k, groups, body),
        }
    }

    /// `body` for the tiles of groups of this block. K is not divided.
    fn each_of_groups(
        &self,
        k: &mut Builder,
        groups: &GroupRows,
        body: impl Fn(&mut Builder, Item),
    ) {
        let walk = groups.begin(k);
        let last = groups.places(k);
        let (first, stride) = (self.first.clone(), self.stride.clone());
        k.for_(first, &last, stride, |k, number| {
            let is_there = groups.advance(k, &walk, number);
            k.break_unless(is_there);
            let GroupTile { at, group, rows } = groups.tile(k, &walk, number);
            let item = Item {
                at: of_rank(self.plan, at, &self.rank),
                product: vec![group],
                rows: Some(rows),
                columns: None,
                is_whole: Cond::Known(true),
                part: 0.into(),
                start: 0.into(),
                steps: self.steps.clone(),
                is_followed: Cond::Known(false),
            };
            body(k, item);
        });
    }

    fn each_of_products(
        &self,
        k: &mut Builder,
        grid: &BatchTiles,
        turn: Option<&Index>,
        body: impl Fn(&mut Builder, Item),
    ) {
        if let Some(of) = &self.divided {
            return match of.sum.division {
                Division::SplitK | Division::SplitKFixup => self.each_of_parts(k, grid, of, body),
                Division::StreamK => self.each_of_shares(k, grid, of, body),
            };
        }
        let last = k.within(grid.taken(), 1..MOST_ITEMS);
        let (mut first, mut stride) = (self.first.clone(), self.stride.clone());
        if let Some(turn) = turn {
            first = first + turn * &stride;
            stride = stride * self.plan.tiles_at_once();
        }
        k.for_(first, &last, stride, |k, number| {
            let is_followed = match turn {
                Some(_) => k.less(&(number + &self.stride), &last),
                None => Cond::Known(false),
            };
            let item = Item {
                is_whole: Cond::Known(true),
                at: [0.into(), 0.into()],
                product: Vec::new(),
                rows: None,
                columns: None,
                part: 0.into(),
                start: k.within(self.start(&0.into(), &self.steps), 0..MOST_STEPS),
                steps: self.steps.clone(),
                is_followed,
            };
            let (at, product) = place(k, self.plan, grid, (number, &self.rank));
            let columns = (self.along_k.as_ref())
                .map(|(numbers, extent)| tiles::columns(k, numbers, &product[0], extent));
            let steps = match &columns {
                // One step of zeros of an empty part.
                Some(columns) => {
                    let bk = self.plan.tile[2];
                    let length = if self.plan.gather {
                        columns.length()
                    } else {
                        self.before(columns) + columns.length()
                    };
                    tiles::larger(&((length + (bk - 1)) / bk), &1.into())
                }
                None => item.steps.clone(),
            };
            body(
                k,
                Item {
                    at,
                    product,
                    columns,
                    steps,
                    ..item
                },
            );
        })
    }

    /// The first step of this block of a part of a tile: the steps of the cluster from `begin` on, `steps` for each block.
    fn start(&self, begin: &Index, steps: &Index) -> Index {
        match self.plan.cluster[2] {
            1 => begin.clone(),
            along_k => begin * along_k + &self.rank * steps,
        }
    }

    /// `body` for the whole tiles of this block and its parts of others, all of which have the same number of parts.
    fn each_of_parts(
        &self,
        k: &mut Builder,
        grid: &BatchTiles,
        Divided { sum, row, .. }: &Divided,
        body: impl Fn(&mut Builder, Item),
    ) {
        let (tiles, undivided) = (grid.taken(), &sum.undivided);
        let last = k.within(undivided + &row.items, 1..MOST_ITEMS);
        let (first, stride) = (self.first.clone(), self.stride.clone());
        let end = self.end();
        k.for_(first, &last, stride, |k, number| {
            // The minima state bounds that hold anyway, and that no proof finds.
            let before = number.min(undivided);
            let beyond = k.within(number - &before, 0..MOST_ITEMS);
            let place = sum.place(&beyond);
            let tile = (before + &place / &sum.parts).min(&(&tiles - 1));
            // A whole tile has the part 0, which begins at step 0.
            let part = &place % &sum.parts;
            let begin = formula::share_begin(part.clone(), row.each.clone(), row.more.clone());
            let of_part = &row.each + Index::select_less(&part, &row.more, &1.into(), &0.into());
            let steps = Index::select_less(number, undivided, &row.steps, &of_part);
            let start = self.start(&begin, &steps).min(&(end.clone() - &steps));
            let (at, product) = self::place(k, self.plan, grid, (&tile, &self.rank));
            let item = Item {
                at,
                product,
                rows: None,
                columns: None,
                is_whole: k.less(number, undivided),
                part: place,
                start,
                steps,
                is_followed: Cond::Known(false),
            };
            body(k, item);
        });
    }

    /// `body` for the whole tiles of this block and the parts of others in its shares. A cluster takes whole tiles and shares in
    /// turn; a share has parts of tiles that follow each other.
    fn each_of_shares(
        &self,
        k: &mut Builder,
        grid: &BatchTiles,
        Divided { sum, row, .. }: &Divided,
        body: impl Fn(&mut Builder, Item),
    ) {
        let (tiles, undivided) = (grid.taken(), &sum.undivided);
        let last = k.within(undivided + &row.items, 1..MOST_ITEMS);
        let (first, stride) = (self.first.clone(), self.stride.clone());
        let end = self.end();
        k.for_(first, &last, stride, |k, number| {
            // The minima and maxima state bounds that hold anyway, and that no proof finds.
            let whole = larger(&number.min(&(&tiles - 1)), &0.into());
            let tile = k.var(whole, 0..MOST_ITEMS);
            let begin = k.var(0, 0..MOST_STEPS + 1);
            let left = k.var(&self.steps, 0..MOST_STEPS + 1);
            let place = k.var(0, 0..MOST_ITEMS);
            let is_whole = k.less(number, undivided);
            k.if_(Builder::not(is_whole), |k| {
                let item = k.within(number - &number.min(undivided), 0..MOST_ITEMS);
                let item = item.min(&row.items);
                let cut = |k: &mut Builder, share: Index| {
                    let (each, more) = (row.each.clone(), row.more.clone());
                    let at = formula::share_begin(share, each, more);
                    let at = k.within(at.min(&MOST_STEPS.into()), 0..MOST_STEPS + 1);
                    let steps = row.steps.clone();
                    let [tile, step] = formula::share_cut(at, steps, LEAST_STEPS.into());
                    let at = (&tile * &row.steps + &step).min(&MOST_STEPS.into());
                    (tile, step, at)
                };
                let (of_row, step, from) = cut(k, item.clone());
                let (_, _, to) = cut(k, &item + 1);
                k.set(&place, (&item + &of_row).min(&(MOST_ITEMS - 1).into()));
                k.set(&tile, (undivided + of_row).min(&(MOST_ITEMS - 1).into()));
                k.set(&begin, step);
                k.set(&left, larger(&(to - from), &0.into()));
            });
            k.loop_(|k| {
                let now = k.get(&left);
                let is_left = k.less(&0.into(), &now);
                k.break_unless(is_left);
                let now = larger(&now, &1.into());
                let from = k.get(&begin);
                let steps = now.min(&larger(&(&self.steps - &from), &1.into()));
                let start = self.start(&from, &steps).min(&(end.clone() - &steps));
                let at = k.get(&tile).min(&(&tiles - 1));
                let (coordinates, product) = self::place(k, self.plan, grid, (&at, &self.rank));
                let item = Item {
                    at: coordinates,
                    product,
                    rows: None,
                    columns: None,
                    is_whole: k.equal(&steps, &self.steps),
                    part: sum.place(&k.get(&place)),
                    start,
                    steps: steps.clone(),
                    is_followed: Cond::Known(false),
                };
                body(k, item);
                k.set(&left, larger(&(now - steps), &0.into()));
                k.set(&begin, 0);
                let next = k.get(&tile) + 1;
                k.set(&tile, next.min(&(MOST_ITEMS - 1).into()));
                let next = k.get(&place) + 1;
                k.set(&place, next.min(&(MOST_ITEMS - 1).into()));
            });
        });
    }

    /// Behind the last step of the last block of a cluster.
    fn end(&self) -> Index {
        Index::from(most_steps(self.plan) + self.plan.cluster[2])
    }

    /// The copies of the factors by the threads of the producer, if they load.
    fn fetches(&self, k: &mut Builder) -> Result<Option<Vec<Fetch>>, Error> {
        if !self.plan.gather {
            return Ok(None);
        }
        let threads = i64::from(WARPGROUP_THREADS);
        let thread = k.thread() % threads;
        let loaded = self.factors.iter().filter_map(|factor| {
            let tensors = [factor.source.tensor()?.clone(), factor.stages.clone()];
            let threads = (&thread, threads);
            Some(Fetch::new(self.plan, factor.operand, tensors, threads))
        });
        Ok(Some(loaded.collect::<Result<_, _>>()?))
    }

    fn produce(&self, k: &mut Builder, fetches: Option<&[Fetch]>) {
        if let Some(fetches) = fetches {
            return self.gather(k, fetches);
        }
        if consumer_registers(self.plan).is_some() {
            k.set_max_registers(false, LEAST);
        }
        let first = k.equal(&self.warp, &(self.plan.consumer_groups() * 4).into());
        let load = |k: &mut Builder| {
            let one = k.elected();
            k.if_(one, |k| self.load(k));
        };
        if self.plan.operands.transposes() {
            k.if_else(first, load, |k| self.transpose(k));
        } else {
            k.if_(first, load);
        }
    }

    /// Transposes what TMA has brought in another order than `wgmma` reads, by the warps of the producer that do not load.
    fn transpose(&self, k: &mut Builder) {
        let relay = k.relay(&self.ring);
        let lane = k.lane();
        let warp = &self.warp - (self.plan.consumer_groups() * 4 + 1);
        let warp = k.within(warp, 0..transposed::WARPS);
        self.each_item(k, None, |k, item| {
            k.for_(0, &item.steps, 1, |k, _| {
                let stage = relay.wait(k);
                let transposed = self.factors.iter().filter_map(|f| f.transposition.as_ref());
                for transposition in transposed {
                    transposition.run(k, &stage, [&warp, &lane]);
                }
                // Threads have written what `wgmma` reads by another proxy.
                k.fence(FenceKind::ProxyAsyncShared);
                relay.pass(k, &stage);
            });
        });
    }

    /// Loads by all threads of the warpgroup, for every alignment of the rows.
    fn gather(&self, k: &mut Builder, fetches: &[Fetch]) {
        let is_async = fetches.iter().all(Fetch::is_async);
        let producer = if is_async {
            k.copy_producer(&self.ring)
        } else {
            k.producer(&self.ring)
        };
        let waits = self.waits(k);
        self.each_item(k, None, |k, item| {
            arrive(k, waits.as_ref(), &item);
            let of_group = item.columns.as_ref().map(|columns| {
                let parts = fetches.iter().map(|fetch| fetch.of_columns(columns));
                parts.collect::<Vec<Fetch>>()
            });
            let fetches = of_group.as_deref().unwrap_or(fetches);
            k.for_(0, &item.steps, 1, |k, step| {
                let stage = producer.acquire(k);
                let step = &item.start + step;
                let at = |operand: Operand| -> Vec<Index> {
                    let tile = [item.at[operand as usize].clone(), step.clone()];
                    let product = self.batch.product_of(operand, &item.product);
                    tile.into_iter().chain(product).collect()
                };
                let pairs = fetches.iter().zip(&self.factors);
                let through = pairs.map(|(fetch, factor)| {
                    let at = at(factor.operand);
                    fetch.start(k, at, &stage)
                });
                let through: Vec<_> = through.collect();
                for (fetch, through) in fetches.iter().zip(&through) {
                    fetch.put(k, through.as_ref(), &stage);
                }
                if !is_async {
                    k.cp_async_commit();
                    k.cp_async_wait(0);
                    k.fence(FenceKind::ProxyAsyncShared);
                }
                producer.commit(k, &stage);
            });
        });
    }

    /// The flags of chunks as a thread that loads waits for them.
    fn waits(&self, k: &mut Builder) -> Option<Waits<'_>> {
        let arrivals = self.arrivals.as_ref();
        arrivals.map(|arrivals| arrivals.begin(k, !self.plan.gather))
    }

    /// The row at which the group of an item begins, where its rows are among those of others.
    fn first_row(&self, item: &Item) -> Option<Index> {
        let rows = item.rows.as_ref();
        let rows = rows.filter(|_| self.batch.groups == Some(Groups::Rows));
        rows.map(|rows| rows.first.clone())
    }

    fn load(&self, k: &mut Builder) {
        let maps = self.factors.iter().filter_map(|factor| {
            let map = factor.source.map()?;
            Some((factor, map))
        });
        let maps: Vec<(&Factor, &TmaTensor)> = maps.collect();
        let columns = self.factors.iter().find_map(|factor| {
            let columns = factor.source.columns()?;
            Some((factor, columns))
        });
        let columns = columns.zip(self.batch.filter);
        let bytes = self
            .factors
            .iter()
            .map(|factor| factor.source.bytes())
            .sum();
        let producer = match &self.width {
            Some(width) => {
                let rows = self.plan.tile[1];
                let of_row = maps.iter().find(|(factor, _)| factor.operand == Operand::B);
                let of_row = of_row.map_or(0, |(_, map)| map.tile_bytes() / rows);
                k.tma_producer_of(&self.ring, &(width * of_row + (bytes - rows * of_row)))
            }
            None => k.tma_producer(&self.ring, bytes),
        };
        let maps: Vec<(&Factor, TmaTensor)> = maps
            .into_iter()
            .map(|(factor, map)| match &self.width {
                Some(width) if factor.operand == Operand::B => {
                    (factor, k.narrowed_map(map, 0, width))
                }
                _ => (factor, map.clone()),
            })
            .collect();
        let [along_m, along_n, _] = self.plan.cluster;
        let ranks = ranks(self.plan, &self.rank);
        let masks = receivers(self.plan, &ranks).map(|mask| {
            let mask = k.value(&mask);
            k.emit(|ir| ir.cvt(Type::U16, Type::U32, mask))
        });
        let waits = self.waits(k);
        self.each_item(k, None, |k, item| {
            arrive(k, waits.as_ref(), &item);
            let products = [0, 1].map(|operand| self.batch.coordinates(operand, &item.product));
            let pixels = columns.map(|((factor, tensor), filter)| {
                let share = match factor.blocks {
                    1 => 0.into(),
                    _ => ranks[1].clone(),
                };
                let pixels = k.im2col_pixels(tensor, &item.at[0], &share);
                (factor, tensor, filter, pixels)
            });
            // The last tile of a group of rows begins in it, and has rows of the group behind it, which are not stored.
            // So has the last step of a part of K, whose numbers the consumers clear.
            let first = (self.first_row(&item), item.columns.as_ref());
            let first_column = self.width.as_ref();
            let first_column = first_column.map(|width| self.first_column(k, &item.at[1], width));
            let by = |(factor, map): &(&Factor, TmaTensor)| match (factor.operand, &first) {
                (Operand::A, (Some(row), _)) => map.offset_by((row, 0)),
                (_, (_, Some(columns))) => {
                    map.offset_by((0, &columns.first / self.unit() * self.unit()))
                }
                _ => map.clone(),
            };
            let is_moved = first.0.is_some() || first.1.is_some();
            let moved = is_moved.then(|| maps.iter().map(by).collect::<Vec<TmaTensor>>());
            k.for_(0, &item.steps, 1, |k, step| {
                let stage = producer.acquire(k);
                let full = stage.barrier();
                let step = &item.start + step;
                let under = pixels.as_ref().map(|(factor, tensor, filter, pixels)| {
                    let under = filter.at(&step);
                    let shared = factor.landing.at(2, &stage);
                    let (channels, taps) = (&under.channels, &under.taps[..]);
                    match factor.blocks {
                        1 => k.im2col_load(tensor, pixels, channels, taps, &shared, &full),
                        _ => {
                            let to = (&ranks[1], masks[0]);
                            k.im2col_load_multicast(
                                tensor, pixels, channels, taps, &shared, &full, to,
                            );
                        }
                    }
                    under
                });
                for (i, (factor, map)) in maps.iter().enumerate() {
                    let map = moved.as_ref().map_or(map, |moved| &moved[i]);
                    let shared = factor.landing.at(2, &stage);
                    let operand = factor.operand as usize;
                    let mut at = vec![match (factor.operand, &first_column) {
                        // The coordinate of a narrowed tile is that of its first element.
                        (Operand::B, Some(first)) => first.clone(),
                        _ => item.at[operand].clone(),
                    }];
                    match &under {
                        Some(under) => at.extend([under.channels.clone(), under.tap.clone()]),
                        None => at.push(step.clone()),
                    }
                    at.extend(products[operand].iter().cloned());
                    match factor.blocks {
                        1 => k.tma_load(map, &at, &shared, &full),
                        // A is shared along N, and B along M.
                        _ => {
                            let (share, mask) = (&ranks[1 - operand], masks[operand]);
                            k.tma_load_multicast(map, &at, &shared, &full, share, mask);
                        }
                    }
                }
                producer.commit(k, &stage);
            });
        });
        if [along_m, along_n] != [1, 1] {
            producer.tail(k);
        }
    }

    /// The first column of a tile of the launch's width.
    fn first_column(&self, k: &mut Builder, tile: &Index, width: &Index) -> Index {
        let tiles = most_narrow_tiles(self.plan) * self.plan.cluster[1];
        k.within(tile, 0..tiles) * width
    }

    /// The main loop of the launch's width: each has a loop of its own, since the number of columns is a part of the instruction, and
    /// waits for its products before the ways meet.
    fn by_width(
        &self,
        k: &mut Builder,
        width: &Index,
        mainloop: &dyn Fn(&mut Builder, Option<&TiledMma>),
    ) {
        let narrower = self.narrower.keys().copied();
        let widths: Vec<i64> = narrower.chain([self.plan.tile[1]]).collect();
        debug_assert!(widths.is_sorted());
        // By halves, so that a tile takes few comparisons.
        fn chosen(
            k: &mut Builder,
            (width, widths): (&Index, &[i64]),
            body: &dyn Fn(&mut Builder, i64),
        ) {
            let (low, high) = widths.split_at(widths.len() / 2);
            if low.is_empty() {
                return high.iter().for_each(|width| body(k, *width));
            }
            let is_low = k.less(width, &high[0].into());
            k.if_else(
                is_low,
                |k| chosen(k, (width, low), body),
                |k| chosen(k, (width, high), body),
            );
        }
        chosen(k, (width, &widths), &|k, width| {
            mainloop(k, self.narrower.get(&width));
            k.wgmma_wait(0);
        });
    }

    /// The multiple at which a box of tensor maps may begin along K: of 16 bytes, if that is the contiguous mode of a factor.
    fn unit(&self) -> i64 {
        if self.plan.operands.majors[..2].contains(&Major::Second) {
            128 / i64::from(self.plan.operands.ab.bits())
        } else {
            1
        }
    }

    /// The numbers that lie before a part of K in its first step.
    fn before(&self, columns: &Span) -> Index {
        &columns.first % self.unit()
    }

    /// Clears what lies before and behind a part of K in a stage that TMA has filled, if step `step` has any of it. All consumers
    /// share the stage, and do it together.
    fn clear_around(
        &self,
        k: &mut Builder,
        columns: &Span,
        (step, stage): (&Index, &Stage),
        thread: &Index,
    ) {
        let bk = self.plan.tile[2];
        let before = self.before(columns);
        // The maximum states a bound that holds anyway, and that no proof finds.
        let rest = tiles::larger(&(&before + columns.length() - step * bk), &0.into());
        let is_cut = [
            (k.equal(step, &0.into()), k.less(&0.into(), &before)),
            (k.less(&rest, &bk.into()), Cond::Known(true)),
        ];
        let [begins, ends] = is_cut.map(|(a, b)| k.both(a, b));
        let threads = self.plan.consumer_groups() * i64::from(WARPGROUP_THREADS);
        let tiles = |k: &mut Builder, clear: fn(&mut Builder, Cleared<'_>, &Index), at: &Index| {
            for factor in &self.factors {
                let cleared = Cleared {
                    tile: &factor.stages.at(2, stage),
                    major: held_major(&self.plan.operands, factor.operand),
                    thread,
                    threads,
                };
                clear(k, cleared, at);
            }
        };
        k.if_(begins, |k| tiles(k, clear_before, &before));
        k.if_(ends, |k| tiles(k, clear_behind, &rest));
        let neither = k.both(Builder::not(begins), Builder::not(ends));
        k.if_(Builder::not(neither), |k| {
            // `wgmma` reads by another proxy than the one by which threads store.
            k.fence(FenceKind::ProxyAsyncShared);
            // The barriers of the epilogue come before.
            let barrier = Index::from(self.plan.consumer_groups() + 1);
            k.sync_named(&barrier, threads as u32);
        });
    }

    fn consume(
        &self,
        k: &mut Builder,
        stored: &GemmPlan,
        epilogue: &StorePath,
        sum: Option<&ClusterSum>,
        terms: &Terms,
    ) {
        if let Some(registers) = consumer_registers(self.plan) {
            k.set_max_registers(true, registers);
        }
        let mma = self.mma;
        let group = k.within(&self.group, 0..self.plan.consumer_groups());
        let turns = (self.plan.schedule == Schedule::Pingpong).then(|| ConsumerTurns {
            own: group.clone(),
            // The barriers of the epilogue come before.
            barriers: [group.clone(), Index::from(1) - &group]
                .map(|turn| turn + (self.plan.consumer_groups() + 1)),
        });
        let leader = match turns {
            Some(_) => 0.into(),
            None => &group * i64::from(WARPGROUP_THREADS),
        };
        // (MMA_M, MMA_K, STAGES) of A, (MMA_N, MMA_K, STAGES) of B
        let descriptors = self
            .factors
            .iter()
            .map(|factor| k.gmma_operand(mma, factor.operand, &factor.stages, &leader));
        let descriptors: Vec<_> = descriptors.collect();
        let (da, right) = (&descriptors[0], &descriptors[1..]);
        // (MMA, MMA_M, MMA_N) of each right factor
        let acc = right
            .iter()
            .map(|_| k.fragment_of(mma, Operand::C, (self.plan.tile[0], self.plan.tile[1])));
        let acc: Vec<Fragment> = acc.collect();
        if self.width.is_some() {
            // A narrow main loop does not write the accumulators of the columns that it leaves out, and no path that stores them runs then.
            acc.iter().for_each(|acc| k.clear(acc));
        }
        let thread = k.thread();
        let thread = k.within(thread, 0..mma.threads() * self.plan.tiles_at_once());
        let lane = &thread % i64::from(WARPGROUP_THREADS);
        let consumer = k.consumer(&self.ring, &lane);
        let epilogue = epilogue.of_thread(k, stored, &thread);
        let sum = sum.map(|sum| sum.of_thread(k, &thread));
        let fixup = self.divided.as_ref().and_then(|of| {
            let room = room_beside_sums(self.plan);
            let fixup = of.fixup.as_ref()?;
            Some(fixup.of_thread(k, &of.sum, (&thread, room)))
        });
        // Whether the thread has waited for the flags of the epilogue: it does once, behind the main loop of its first tile.
        let awaited = terms.awaited().map(|flags| (flags, k.var(0, 0..2)));
        if let Some(turns) = &turns {
            turns.give_first(k);
            // The steps of the tile before are the other consumer's.
            consumer.skip(k, &(&turns.own * &self.steps));
        }
        self.each_item(k, turns.as_ref().map(|turns| &turns.own), |k, item| {
            let owner = item.product.last().cloned();
            let chunk = owner.clone();
            let product = self.batch.product_of(Operand::C, &item.product);
            let terms = &terms.of_rows(item.rows.as_ref()).of_product(&product);
            let first_row = self.first_row(&item);
            let at = stored_at(self.plan, item.at, &self.rank);
            let is_inside = match &item.rows {
                // Whether all rows of the tile are those of the group.
                Some(Span { first, end }) => {
                    let tall = self.plan.tile[0];
                    k.less(&(first + &at[0] * tall + (tall - 1)), end)
                }
                None => Cond::Known(true),
            };
            let first_column = self
                .width
                .as_ref()
                .map(|width| (self.first_column(k, &at[1], width), width.clone()));
            let at = TilePlace {
                at,
                columns: first_column,
                product,
                owner,
                first_row,
                rows: item.rows,
                is_inside,
            };
            let is_fetched = k.both(item.is_whole, at.is_inside);
            let is_known = match &awaited {
                Some((_, seen)) => {
                    let seen = k.get(seen);
                    k.equal(&seen, &1.into())
                }
                None => Cond::Known(true),
            };
            let is_early = k.both(is_fetched, is_known);
            k.if_(is_early, |k| epilogue.fetch(k, &at, terms));
            // Where registers are free, they are under way during the main loop: they take longer than the last products.
            let loads_before = awaited.is_none()
                && epilogue.registers_of_early(terms) + BESIDE_EARLY_TERMS
                    <= room_beside_sums(self.plan);
            let early = loads_before.then(|| epilogue.load_early(k, &at, 0, terms));
            if let Some(turns) = &turns {
                turns.take(k);
            }
            let mainloop = |k: &mut Builder, narrow: Option<&TiledMma>| {
                k.for_(0, &item.steps, 1, |k, step| {
                    let stage = consumer.wait(k);
                    if self.plan.gather {
                        // Threads have written what `wgmma` reads by another proxy.
                        k.fence(FenceKind::ProxyAsyncShared);
                    } else if let Some(columns) = &item.columns {
                        self.clear_around(k, columns, (step, &stage), &thread);
                    }
                    let accumulate = k.less(&0.into(), step);
                    let scale = accumulate;
                    k.wgmma_fence();
                    for (db, acc) in right.iter().zip(&acc) {
                        let (da, db) = (da.at(&stage), db.at(&stage));
                        match narrow {
                            Some(narrow) => k.wgmma_columns((mma, narrow), acc, &da, &db, scale),
                            None => k.wgmma_tile(mma, acc, &da, &db, scale),
                        }
                    }
                    k.wgmma_commit();
                    k.wgmma_wait(1);
                    // The previous stage has been consumed: release it.
                    consumer.release_behind(k, &stage, step);
                });
                // The other consumer's products may follow the last ones of this tile, which still run.
                if let Some(turns) = &turns {
                    k.if_(item.is_followed, |k| turns.pass(k));
                }
            };
            match &self.width {
                Some(width) => self.by_width(k, width, &mainloop),
                None => mainloop(k, None),
            }
            let part = TilePart {
                number: &item.part,
                rank: &self.rank,
                columns: self.width.as_ref(),
            };
            if let Some(fixup) = &fixup {
                // While the last products run.
                k.if_(Builder::not(item.is_whole), |k| fixup.count(k, &part));
            }
            // While the last products run, if not before. A tensor with flags is not there yet.
            let early = match (&awaited, early) {
                (Some(_), _) => EarlyTerms::default(),
                (None, Some(early)) => early,
                (None, None) => epilogue.load_early(k, &at, 0, terms),
            };
            k.wgmma_wait(0);
            consumer.release_rest(k, &item.steps);
            if turns.is_some() {
                consumer.skip(k, &item.steps);
            }
            if let Some((flags, seen)) = &awaited {
                k.if_(Builder::not(is_known), |k| {
                    epilogue.await_flags(k, flags);
                    k.if_(is_fetched, |k| epilogue.fetch(k, &at, terms));
                    k.set(seen, Index::from(1));
                });
            }
            let total: Vec<Fragment> = match &sum {
                Some(sum) => acc.iter().map(|acc| sum.total(k, acc)).collect(),
                None => acc.clone(),
            };
            let store = |k: &mut Builder| {
                epilogue.store(k, &total, &at, terms, &early);
                if let (Some((departures, parts)), Some(chunk)) = (&self.departures, &chunk) {
                    epilogue.when_stored(k, |k| departures.tell(k, chunk, parts));
                }
            };
            if let Some(fixup) = &fixup {
                let stores = k.var(1, 0..2);
                k.if_(Builder::not(item.is_whole), |k| {
                    let is_last = fixup.is_last(k);
                    let add = |k: &mut Builder| {
                        epilogue.fetch(k, &at, terms);
                        fixup.add(k, &total, &part);
                    };
                    k.if_else(is_last, add, |k| {
                        fixup.give(k, &total, &part);
                        k.set(&stores, 0);
                    });
                });
                let stores = k.get(&stores);
                let stores = k.equal(&stores, &1.into());
                return k.if_(stores, store);
            }
            let keep = |k: &mut Builder| {
                if let Some(Divided { sum, .. }) = &self.divided {
                    sum.keep(k, &total, &thread, (&item.part, &self.rank));
                }
            };
            k.if_else(item.is_whole, store, keep);
        });
        epilogue.finish(k);
        if let Some(sum) = &sum {
            sum.finish(k);
        }
    }
}
