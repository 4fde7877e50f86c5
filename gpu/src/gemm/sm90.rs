//! The Hopper GEMM, warp-specialised: a producer warp fills a ring of stages by TMA, and consumer warpgroups multiply
//! by `wgmma`.

use std::ops::RangeInclusive;

use colex_atom::{Arch, L2Promotion, TensorMap, Ty};
use colex_device::Device;
use colex_ir::launch::{Argument, Launch};
use colex_layout::Layout;
use colex_sched::pipeline::WarpSpecialized;
use colex_tiled::{Operand, TiledMma};

use super::epilogue::cluster_sum::ClusterSum;
use super::epilogue::sm90::Epilogue;
use super::epilogue::split_sum::SplitSum;
use super::family::{GemmFamily, MOST_STAGES, Numbers};
use super::operand::{Fetch, boxed_layout};
use super::plan::{GemmPlan, Operands};
use super::plan_check::{MOST_THREADS, MOST_TILE};
use crate::calls::unencoded;
use crate::kernels::{GemmProblem, Major};
use colex_ir::verify::{LEAST, STEP, registers_at_entry};
use colex_ir::{FenceKind, Reg, Type};
use colex_tensor::{Arg, Builder, Error, Index, Pipeline, Tensor, TensorKernel, TmaTensor};

/// The registers that the Hopper kernel needs beside a thread's accumulators: ptxas 12.9 needs 154 registers for 128
/// accumulators.
const BESIDE_SUMS: i64 = 26;

/// TMA and `wgmma`. The units of a plan are consumer warpgroups, each of which has the whole tile along N.
pub(crate) struct Hopper;

impl GemmFamily for Hopper {
    fn types(&self) -> &'static [Ty] {
        &[Ty::F16, Ty::Bf16]
    }

    fn since(&self) -> Arch {
        Arch::Sm90a
    }

    fn runs_on(&self, arch: Arch) -> bool {
        arch == self.since()
    }

    fn reads(&self, operands: &Operands) -> bool {
        operands.vectors[..2] == [8, 8]
    }

    fn numbers(&self, _: &Operands) -> Numbers {
        Numbers {
            tile: [128, 256, 64],
            stages: 4,
            warps: [2, 1],
            cluster: [2, 1, 1],
        }
    }

    fn most_cluster(&self) -> [i64; 3] {
        [2, 2, MOST_ALONG_K]
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
        (plan.warps[0] * plan.warps[1] + 1) * i64::from(WARPGROUP_THREADS)
    }

    fn copiers(&self, _: &GemmPlan) -> i64 {
        i64::from(WARPGROUP_THREADS)
    }

    fn steps(&self, plan: &GemmPlan) -> [i64; 3] {
        // Each block of a cluster loads a part of B and multicasts it, or stores a part of the columns.
        let [m, _, k] = plan.cluster;
        [64 * plan.warps[0], 8 * m.max(k), 16]
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
        // `setmaxnreg` gives the consumers more later, but ptxas counts what the kernel is entered with (C7602).
        let threads = (plan.warps[0] as u32 + 1) * WARPGROUP_THREADS;
        let entry = i64::from(registers_at_entry(threads, 1));
        let most = entry - BESIDE_SUMS;
        if plan.gather {
            let [m, n, _] = plan.cluster;
            plan.limit("blocks that share loads by threads", m * n, 1)?;
            plan.check_copies()?;
        }
        plan.limit(
            "registers for a consumer's sums at entry",
            sums,
            most.max(0),
        )
    }

    fn loads_parts(&self) -> bool {
        true
    }

    fn tiled_mma(&self, plan: &GemmPlan) -> Result<TiledMma, Error> {
        let ty = plan.operands.ab.cute();
        let atom = colex_atom::mma(&format!("SM90_64x{}x16_F32{ty}{ty}_SS", plan.tile[1]))?;
        let major = |operand| match plan.operands.major(operand) {
            Major::First => colex_atom::Major::Mn,
            Major::Second => colex_atom::Major::K,
        };
        let mut options = atom.options();
        options.major_a = major(Operand::A);
        options.major_b = major(Operand::B);
        plan.over_units(atom.with_options(options)?, (.., .., ..))
    }

    fn build(&self, plan: &GemmPlan, arch: Arch) -> Result<TensorKernel, Error> {
        build(plan, arch)
    }

    fn matrices<'a>(
        &self,
        problem: &GemmProblem,
        plan: &GemmPlan,
        built: &TensorKernel,
        [la, lb, lc]: &'a [Layout; 3],
        [a, b, c]: [u64; 3],
    ) -> Result<Vec<Arg<'a>>, crate::Error> {
        let map = |name, layout, address, l2| {
            let map = built.tensor_map(name, layout)?;
            Ok::<_, crate::Error>(Arg::Value(unencoded(TensorMap { l2, ..map }, address)))
        };
        let c = if plan.stages_c() {
            map("C", lc, c, L2Promotion::B128)?
        } else {
            Arg::checked(c, lc)
        };
        // Neighbouring tiles along K follow soon.
        let wide = L2Promotion::B256;
        let [a, b] = if plan.gather {
            [Arg::checked(a, la), Arg::checked(b, lb)]
        } else {
            [map("A", la, a, wide)?, map("B", lb, b, wide)?]
        };
        let mut given = vec![a, b, c];
        let sizes = [problem.m, problem.n, problem.k];
        given.extend(sizes.map(|n| Arg::Value(Argument::U32(n as u32))));
        if plan.split > 1 {
            given.push(Arg::Value(Argument::U32(plan.split as u32)));
            given.push(Arg::Value(WORKSPACE));
        }
        Ok(given)
    }

    /// The kernel is persistent: the grid has the clusters that run at once, and each cluster loops over tiles.
    fn launch(&self, plan: &GemmPlan, [m, n]: [i64; 2], threads: u32, device: &Device) -> Launch {
        let [along_m, along_n, _] = plan.cluster;
        let size = blocks(plan);
        let wanted = ((m + along_m - 1) / along_m).saturating_mul((n + along_n - 1) / along_n);
        let at_once = clusters_at_once(i64::from(size), device.limits().multiprocessors.into());
        let clusters = wanted.saturating_mul(plan.split).min(at_once) as u32;
        Launch::new(clusters * size, threads).cluster(size)
    }
}

/// Threads of a warpgroup.
pub(crate) const WARPGROUP_THREADS: u32 = 128;

/// The state that the producer and the consumers share.
struct WarpSpecializedKernel<'a> {
    plan: &'a GemmPlan,
    mma: &'a TiledMma,
    ring: Pipeline,
    /// A and B in global memory.
    sources: [Source; 2],
    /// Their stages.
    stages: [Tensor; 2],
    /// The number of steps along K of a share.
    steps: Index,
    /// The number of clusters along M and along N.
    extents: [Index; 2],
    /// The parts into which clusters divide K.
    parts: Index,
    rank: Index,
    group: Index,
    warp: Index,
    first: Index,
    stride: Index,
}

/// An operand in global memory.
enum Source {
    /// Loaded by TMA.
    Map(Box<TmaTensor>),
    /// Loaded by the threads of the producer.
    Threads(Box<Tensor>),
}

/// A block's share of the work: a part of K of a tile.
struct Item {
    /// The coordinates of the tile.
    at: [Index; 2],
    /// The number of the cluster's tile, and the part of K.
    tile: Index,
    part: Index,
    /// The first step along K.
    start: Index,
}

/// The most blocks of a cluster along K: clusters of more blocks are not portable.
const MOST_ALONG_K: i64 = 8;

/// The most parts into which clusters divide K.
pub(crate) const MOST_SPLIT: i64 = 64;

/// The argument in whose place a call puts the address of its workspace.
pub(crate) const WORKSPACE: Argument = Argument::U64(0);

/// The clusters of a number of blocks that run at once. A cluster lies in one group of multiprocessors: of more than two
/// blocks, an H200 runs a tenth fewer than its multiprocessors would hold.
pub(crate) fn clusters_at_once(blocks: i64, multiprocessors: i64) -> i64 {
    let whole = multiprocessors / blocks;
    let kept = if blocks > 2 { whole * 10 / 11 } else { whole };
    kept.max(1)
}

/// The blocks of a plan's cluster.
fn blocks(plan: &GemmPlan) -> u32 {
    plan.cluster.iter().product::<i64>() as u32
}

/// The registers of a consumer's threads after the producer has kept the fewest it can: what the given number of consumers have between
/// them, if that is more than they begin with.
fn consumer_registers(plan: &GemmPlan) -> Option<u32> {
    /// A thread with 128 accumulators and its addresses needs at most this number of registers. The producer keeps the
    /// same number as in CUTLASS.
    const MOST: u32 = 240;
    // A producer whose threads load needs registers too.
    let consumers = Some(plan.warps[0] as u32).filter(|_| !plan.gather)?;
    let groups = consumers + 1;
    let entry = registers_at_entry(groups * WARPGROUP_THREADS, 1);
    let share = (entry * groups - LEAST) / consumers / STEP * STEP;
    (share > entry)
        .then_some(share.min(MOST))
        .filter(|n| *n > entry)
}

/// The kernel of a plan. The launch takes A, B, C, M, N, K, alpha and beta. The blocks are persistent.
fn build(plan: &GemmPlan, arch: Arch) -> Result<TensorKernel, Error> {
    let [bm, bn, bk] = plan.tile;
    let consumers = plan.warps[0] as u32;
    let mut k = Builder::new("gemm_sm90", arch, (consumers + 1) * WARPGROUP_THREADS);
    let [along_m, along_n, along_k] = plan.cluster;
    let size = blocks(plan);
    k.min_blocks(1);
    if size > 1 {
        k.cluster([size, 1, 1]);
    }
    let schedule = WarpSpecialized {
        cluster: [along_m as usize, along_n as usize],
        consumers: consumers as usize,
        ..WarpSpecialized::cooperative(plan.stages as usize, 1, 8)
    };
    let mma = plan.tiled_mma()?;
    let mut ring = k.pipeline_of(&schedule);
    if plan.gather {
        ring = ring.filled_by(WARPGROUP_THREADS);
    }
    let (a, stages_a) = operand(&mut k, plan, Operand::A, along_n)?;
    let (b, stages_b) = operand(&mut k, plan, Operand::B, along_m)?;
    let stored = plan.stored();
    let stored_mma = stored.tiled_mma()?;
    let epilogue = Epilogue::new(&mut k, &stored, &stored_mma)?;
    let sizes = ["m", "n", "k"].map(|name| k.index_argument(name, 1..1 << 31));
    let mut parts = Index::from(1);
    let split = (plan.split > 1).then(|| {
        parts = k.index_argument("parts", 2..MOST_SPLIT + 1);
        let workspace = k.scalar_argument("workspace", Type::U64);
        SplitSum::new(&mut k, &stored, workspace, parts.clone())
    });
    let scale = [
        k.scalar_argument("alpha", Type::F32),
        k.scalar_argument("beta", Type::F32),
    ];
    let [m, n, kk] = sizes;
    let [tall, wide] = [bm * along_m, bn * along_n];
    let rank = match size {
        1 => 0.into(),
        _ => k.cluster_rank(size),
    };
    let sum = (along_k > 1).then(|| ClusterSum::new(&mut k, plan, stored_mma, &rank));
    epilogue.start(&mut k);
    if let Some(sum) = &sum {
        sum.start(&mut k);
    }
    k.start_pipelines(&[&ring], size > 1);
    let all = ((kk + (bk - 1)) / bk).within(1..1 << 25);
    // Beyond K, loads bring zeros: all blocks of a cluster take as many steps.
    let shares = (&parts * along_k).within(1..MOST_SPLIT * MOST_ALONG_K + 1);
    let steps = ((all + (&shares - 1)) / &shares).within(1..1 << 25);
    let kernel = WarpSpecializedKernel {
        plan,
        mma: &mma,
        ring,
        sources: [a, b],
        stages: [stages_a, stages_b],
        steps,
        extents: [(m + (tall - 1)) / tall, (n + (wide - 1)) / wide],
        parts,
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
        |k| kernel.produce(k, fetches.as_ref()),
        |k| kernel.consume(k, &stored, &epilogue, (sum.as_ref(), split.as_ref()), scale),
    );
    k.finish()
}

/// The tensor map and the stages of an operand. `blocks` blocks of the cluster load its tile together.
fn operand(
    k: &mut Builder,
    plan: &GemmPlan,
    operand: Operand,
    blocks: i64,
) -> Result<(Source, Tensor), Error> {
    let [mn, bk] = operand.modes().map(|mode| plan.tile[mode]);
    let (major, ty) = (plan.operands.major(operand), plan.operands.ab);
    let tile = boxed_layout(major, ty.bits(), &[mn, bk])?;
    let stages = boxed_layout(major, ty.bits(), &[mn, bk, plan.stages])?;
    let like = plan.operands.layout(operand);
    let name = format!("{operand:?}");
    let source = if plan.gather {
        Source::Threads(Box::new(k.tensor(&name, ty, &like)))
    } else {
        Source::Map(Box::new(k.tma_tensor(
            &name,
            ty,
            &like,
            [mn, bk],
            &tile,
            blocks,
        )))
    };
    Ok((source, k.shared_tensor(ty, stages)))
}

impl WarpSpecializedKernel<'_> {
    /// The coordinates of this block's tile in an iteration of its cluster.
    fn place(&self, number: &Index) -> [Index; 2] {
        let [m, n] = self.plan.tile_at(number.clone(), &self.extents);
        let [along_m, along_n, _] = self.plan.cluster;
        let rank = |along: i64| match along {
            1 => 0.into(),
            _ => self.rank.clone(),
        };
        [m * along_m + rank(along_m), n * along_n + rank(along_n)]
    }

    /// `body` for the shares of this block.
    fn each_item(&self, k: &mut Builder, body: impl Fn(&mut Builder, Item)) {
        let tiles = (&self.extents[0] * &self.extents[1]).within(1..1 << 30);
        let last = (tiles * &self.parts).within(1..1 << 30);
        let along_k = self.plan.cluster[2];
        k.for_(
            self.first.clone(),
            &last,
            self.stride.clone(),
            |k, number| {
                let [tile, part] = match self.parts.as_constant() {
                    Some(1) => [number.clone(), 0.into()],
                    _ => [number / &self.parts, number % &self.parts],
                };
                let share = match along_k {
                    1 => part.clone(),
                    _ => &part * along_k + &self.rank,
                };
                let start = (share * &self.steps).within(0..1 << 26);
                let at = self.place(&tile);
                body(
                    k,
                    Item {
                        at,
                        tile,
                        part,
                        start,
                    },
                )
            },
        )
    }

    /// The copies of A and B by the threads of the producer, if they load.
    fn fetches(&self, k: &mut Builder) -> Result<Option<[Fetch; 2]>, Error> {
        let [Source::Threads(a), Source::Threads(b)] = &self.sources else {
            return Ok(None);
        };
        let threads = i64::from(WARPGROUP_THREADS);
        let thread = k.thread() % threads;
        let of = |operand, tensor: &Tensor, shared: &Tensor| {
            let tensors = [tensor.clone(), shared.clone()];
            Fetch::new(self.plan, operand, tensors, (&thread, threads))
        };
        let [shared_a, shared_b] = &self.stages;
        Ok(Some([
            of(Operand::A, a, shared_a)?,
            of(Operand::B, b, shared_b)?,
        ]))
    }

    fn produce(&self, k: &mut Builder, fetches: Option<&[Fetch; 2]>) {
        if let Some(fetches) = fetches {
            return self.gather(k, fetches);
        }
        if consumer_registers(self.plan).is_some() {
            k.set_max_registers(false, LEAST);
        }
        let first = k.equal(&self.warp, &(self.plan.warps[0] * 4).into());
        k.if_(first, |k| {
            let one = k.elected();
            k.if_(one, |k| self.load(k));
        });
    }

    /// Loads by all threads of the warpgroup, for every alignment of the rows.
    fn gather(&self, k: &mut Builder, fetches: &[Fetch; 2]) {
        let is_async = fetches.iter().all(Fetch::is_async);
        let producer = if is_async {
            k.copy_producer(&self.ring)
        } else {
            k.producer(&self.ring)
        };
        self.each_item(k, |k, item| {
            k.for_(0, &self.steps, 1, |k, step| {
                let stage = producer.acquire(k);
                let step = &item.start + step;
                let [a, b] = fetches;
                let through = [
                    a.start(k, (&item.at[0], &step), &stage),
                    b.start(k, (&item.at[1], &step), &stage),
                ];
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

    fn load(&self, k: &mut Builder) {
        let [Source::Map(a), Source::Map(b)] = &self.sources else {
            return;
        };
        let [sa, sb] = &self.stages;
        let producer = k.tma_producer(&self.ring, a.tile_bytes() + b.tile_bytes());
        let [along_m, along_n, _] = self.plan.cluster;
        let both = k.emit(|k| k.mov(Type::B16, 0b11));
        self.each_item(k, |k, item| {
            let [m, n] = item.at;
            k.for_(0, &self.steps, 1, |k, step| {
                let stage = producer.acquire(k);
                let full = stage.barrier();
                let step = &item.start + step;
                for (map, at, shared, along) in [(&**a, &m, sa, along_n), (&**b, &n, sb, along_m)] {
                    let shared = shared.at(2, &stage);
                    match along {
                        1 => k.tma_load(map, (at, &step), &shared, &full),
                        _ => {
                            k.tma_load_multicast(map, (at, &step), &shared, &full, &self.rank, both)
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

    fn consume(
        &self,
        k: &mut Builder,
        stored: &GemmPlan,
        epilogue: &Epilogue,
        (sum, split): (Option<&ClusterSum>, Option<&SplitSum>),
        scale: [Reg; 2],
    ) {
        if let Some(registers) = consumer_registers(self.plan) {
            k.set_max_registers(true, registers);
        }
        let mma = self.mma;
        let group = self
            .group
            .within(0..mma.threads() / i64::from(WARPGROUP_THREADS));
        let leader = &group * i64::from(WARPGROUP_THREADS);
        let [sa, sb] = &self.stages;
        let da = k.gmma_operand(mma, Operand::A, sa, &leader); // (MMA_M, MMA_K, STAGES) descriptors
        let db = k.gmma_operand(mma, Operand::B, sb, &leader); // (MMA_N, MMA_K, STAGES) descriptors
        // (MMA, MMA_M, MMA_N)
        let acc = k.fragment_of(mma, Operand::C, (self.plan.tile[0], self.plan.tile[1]));
        let thread = k.thread().within(0..mma.threads());
        let lane = &thread % i64::from(WARPGROUP_THREADS);
        let consumer = k.consumer(&self.ring, &lane);
        let epilogue = epilogue.of_thread(k, stored, &thread);
        let sum = sum.map(|sum| sum.of_thread(k, &thread));
        let split = split.map(|split| split.of_thread(k, &thread));
        let blocks = i64::from(blocks(self.plan));
        self.each_item(k, |k, item| {
            let [m, n] = item.at;
            // Where the blocks of a cluster divide K, this one stores the columns of its rank.
            let at = match &sum {
                None => [m, n],
                Some(_) => [m, n * self.plan.cluster[2] + &self.rank],
            };
            if split.is_none() {
                epilogue.fetch(k, &at);
            }
            k.for_(0, &self.steps, 1, |k, step| {
                let stage = consumer.wait(k);
                if self.plan.gather {
                    // Threads have written what `wgmma` reads by another proxy.
                    k.fence(FenceKind::ProxyAsyncShared);
                }
                let accumulate = k.less(&0.into(), step);
                let scale = accumulate;
                k.wgmma_fence();
                k.wgmma_tile(mma, &acc, &da.at(&stage), &db.at(&stage), scale);
                k.wgmma_commit();
                k.wgmma_wait(1);
                // The previous stage has been consumed: release it.
                consumer.release_behind(k, &stage, step);
            });
            k.wgmma_wait(0);
            consumer.release_rest(k, &self.steps);
            let total = sum.as_ref().map(|sum| sum.total(k, &acc));
            let total = total.as_ref().unwrap_or(&acc);
            match &split {
                None => epilogue.store(k, total, &at, scale),
                Some(split) => {
                    let place = &item.tile * blocks + &self.rank;
                    split.sum(k, total, [&place, &item.part], |k| {
                        epilogue.fetch(k, &at);
                        epilogue.store(k, total, &at, scale);
                    });
                }
            }
        });
        epilogue.finish(k);
        if let Some(sum) = &sum {
            sum.finish(k);
        }
    }
}
