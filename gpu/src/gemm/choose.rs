//! The plans that the library chooses among, and the model of time that it chooses by.

use core::fmt;

use colex_atom::Arch;
use colex_device::Device;
use colex_ir::launch::Limits;

use super::epilogue::sm90::shared_bytes;
use super::plan::{GemmPlan, Operands};
use super::sm90::clusters_at_once;
use crate::kernels::{GemmElement, GemmProblem};
use crate::method::GemmMethod;
use colex_sched::{Order, RasterOrder};

/// A plan of Hopper's kernel: its tile along M and N, its consumers, and the blocks of its cluster. The rest follows.
struct Row([i64; 2], i64, [i64; 3]);

/// Plans of many rows.
const TILES: [Row; 19] = [
    Row([128, 256], 2, [2, 1, 1]),
    Row([256, 128], 2, [1, 2, 1]),
    Row([128, 192], 2, [2, 1, 1]),
    Row([128, 160], 2, [2, 1, 1]),
    Row([128, 128], 2, [2, 1, 1]),
    Row([128, 128], 2, [1, 1, 1]),
    Row([128, 96], 2, [1, 1, 1]),
    Row([128, 64], 2, [1, 1, 1]),
    Row([64, 256], 1, [1, 1, 1]),
    Row([64, 128], 1, [1, 1, 1]),
    Row([64, 64], 1, [1, 1, 1]),
    Row([64, 32], 1, [1, 1, 1]),
    Row([128, 128], 2, [1, 1, 2]),
    Row([128, 128], 2, [1, 1, 4]),
    Row([64, 128], 1, [1, 1, 2]),
    Row([64, 128], 1, [1, 1, 4]),
    Row([64, 128], 1, [1, 1, 8]),
    Row([64, 64], 1, [1, 1, 2]),
    Row([64, 64], 1, [1, 1, 4]),
];

/// Plans of few rows, with A and B swapped: the tile's columns are the rows of the problem.
const FEW_ROWS: [Row; 5] = [
    Row([128, 16], 2, [1, 1, 1]),
    Row([128, 16], 2, [1, 1, 2]),
    Row([64, 16], 1, [1, 1, 2]),
    Row([128, 32], 2, [1, 1, 1]),
    Row([64, 32], 1, [1, 1, 2]),
];

/// The most stages that a plan of the list has: more hide no latency.
const MOST_STAGES: i64 = 10;

/// Bytes of shared memory that barriers and alignment take.
const BESIDE: i64 = 2048;

impl GemmPlan {
    /// Returns the plans that a call chooses among: those of Hopper's kernel for these matrices on an architecture, or
    /// the one of the fastest other kernel.
    ///
    /// ```
    /// use colex_atom::{Arch, Ty};
    /// use colex_gpu::kernels::Major;
    /// use colex_gpu::kernels::gemm::{GemmPlan, Operands};
    ///
    /// let majors = [Major::Second; 3];
    /// let operands = Operands { ab: Ty::Bf16, c: Ty::Bf16, majors, vectors: [8; 3], beta: false };
    /// assert!(GemmPlan::candidates(operands, Arch::Sm90a).len() <= 24);
    /// assert_eq!(GemmPlan::candidates(operands, Arch::Sm80).len(), 1);
    /// ```
    pub fn candidates(operands: Operands, arch: Arch) -> Vec<GemmPlan> {
        let mut methods = GemmMethod::BY_SPEED.into_iter();
        let method = methods.find(|method| method.fits(&operands, arch));
        let usual = GemmPlan::new(method.unwrap_or(GemmMethod::Simt), operands);
        if usual.method != GemmMethod::Hopper {
            return vec![usual];
        }
        let straight = TILES.iter().map(|row| row.plan(usual, false, arch));
        let swapped = FEW_ROWS.iter().map(|row| row.plan(usual, true, arch));
        let plans = straight.chain(swapped);
        plans.filter(|plan| plan.check(arch).is_ok()).collect()
    }
}

impl Row {
    fn plan(&self, usual: GemmPlan, swap: bool, arch: Arch) -> GemmPlan {
        let Row([m, n], consumers, cluster) = *self;
        let plan = GemmPlan {
            tile: [m, n, usual.tile[2]],
            warps: [consumers, 1],
            cluster,
            swap,
            order: Order::Grouped {
                width: 8,
                raster: if cluster[1] > 1 {
                    RasterOrder::AlongM
                } else {
                    RasterOrder::AlongN
                },
            },
            ..usual
        };
        let stages = stages(&plan.launched(), i64::from(Limits::of(arch).shared));
        GemmPlan { stages, ..plan }
    }
}

/// The number of stages for which a plan leaves room.
fn stages(plan: &GemmPlan, room: i64) -> i64 {
    let [m, n, k] = plan.tile;
    let sums = if plan.cluster[2] > 1 { m * n * 4 } else { 0 };
    let stage = (m + n) * k * i64::from(plan.operands.ab.bits()) / 8;
    let left = room - BESIDE - sums - shared_bytes(&plan.stored());
    (left / stage).clamp(2, MOST_STAGES)
}

/// What the model says of a plan for a problem, in microseconds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct PlanCost {
    /// The launch, the first loads and the end.
    pub fixed: f64,
    /// The rounds in which the blocks take the tiles.
    pub waves: f64,
    /// One round's steps along K: the slowest of tensor cores, shared memory and the second-level cache.
    pub mainloop: f64,
    /// One round's epilogue.
    pub epilogue: f64,
    /// The sum over the blocks of a cluster that divide K.
    pub sum: f64,
    /// Every byte once through the memory of the device.
    pub memory: f64,
}

impl PlanCost {
    /// Returns the microseconds of the whole product.
    pub fn total(&self) -> f64 {
        // The root of squares: where both take as long, neither hides the other.
        let rounds = self.waves * (self.mainloop + self.epilogue + self.sum);
        self.fixed + rounds.hypot(self.memory)
    }
}

impl fmt::Display for PlanCost {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let PlanCost {
            fixed,
            waves,
            mainloop,
            epilogue,
            sum,
            memory,
        } = self;
        write!(
            f,
            "{:.1} us: {fixed:.1} fixed, {waves:.0} x ({mainloop:.1} mainloop, {epilogue:.1} epilogue, {sum:.1} sum), memory \
             {memory:.1}",
            self.total()
        )
    }
}

/// Constants of the model: fitted to what 24 plans and some others took for 429 shapes on an H200 (`PERFORMANCE.md`).
mod h200 {
    /// Clocks in a microsecond.
    pub(super) const CLOCKS: f64 = 2010.0;
    /// Multiply-adds of 16-bit numbers of a multiprocessor in a clock.
    pub(super) const PRODUCTS: f64 = 1870.0;
    /// Bytes of a multiprocessor's shared memory in a clock.
    pub(super) const SHARED: f64 = 120.0;
    /// Bytes that a multiprocessor loads in a clock.
    pub(super) const LOADS: f64 = 160.0;
    /// Bytes of the second-level cache in a clock, for all multiprocessors together.
    pub(super) const CACHE: f64 = 6910.0;
    /// Bytes of the device's memory in a microsecond.
    pub(super) const MEMORY: f64 = 3.42e6;
    /// Microseconds of a launch, the first loads and the last store.
    pub(super) const FIXED: f64 = 1.6;
    /// Clocks of a sum over a cluster, and for each byte of a block's accumulators.
    pub(super) const SUM: [f64; 2] = [710.0, 0.105];
    /// Clocks of an epilogue, and for each element that a block stores.
    pub(super) const EPILOGUE: [f64; 2] = [830.0, 0.096];
}

impl GemmPlan {
    /// Returns what the model says of the plan for a problem on a device with a number of multiprocessors.
    pub(crate) fn cost(&self, problem: &GemmProblem, multiprocessors: i64) -> PlanCost {
        let (problem, _) = self.seen(problem);
        let [bm, bn, bk] = self.tile.map(|n| n as f64);
        let [cm, cn, ck] = self.cluster;
        let up = |extent: i64, tile: i64, blocks: i64| {
            let tiles = (extent + tile - 1) / tile;
            (tiles + blocks - 1) / blocks * blocks
        };
        let tiles = up(problem.m, self.tile[0], cm) * up(problem.n, self.tile[1], cn);
        let blocks = cm * cn * ck;
        let at_once = clusters_at_once(blocks, multiprocessors) * blocks;
        let wanted = tiles * ck;
        let waves = (wanted + at_once - 1) / at_once;
        let active = wanted.min(at_once) as f64;
        let bytes = f64::from(self.operands.ab.bits()) / 8.0;
        let bytes_of_c = f64::from(self.operands.c.bits()) / 8.0;
        let instructions = bm / 64.0;
        let multiply = bm * bn / h200::PRODUCTS * (bytes / 2.0);
        let shared = bytes * (2.0 * bm + bn + instructions * bn) / h200::SHARED;
        let loaded = bytes * (bm / cn as f64 + bn / cm as f64);
        let loads = loaded / h200::LOADS.min(h200::CACHE / active);
        let steps = up(problem.k, self.tile[2], ck) / ck;
        let clocks = steps as f64 * bk * multiply.max(shared).max(loads);
        let stored = bm * bn / ck as f64;
        let [once, each] = h200::EPILOGUE;
        let epilogue = once + stored * (bytes_of_c * active / h200::CACHE + each);
        let [once, each] = h200::SUM;
        let sum = if ck > 1 {
            once + bm * bn * 4.0 * each
        } else {
            0.0
        };
        let [m, n, k] = [problem.m, problem.n, problem.k].map(|extent| extent as f64);
        let read_c = if self.operands.beta { 2.0 } else { 1.0 };
        let memory = ((m * k + n * k) * bytes + m * n * bytes_of_c * read_c) / h200::MEMORY;
        PlanCost {
            fixed: h200::FIXED,
            waves: waves as f64,
            mainloop: clocks / h200::CLOCKS,
            epilogue: epilogue / h200::CLOCKS,
            sum: sum / h200::CLOCKS,
            memory,
        }
    }
}

/// The plans for a problem with their costs, the fastest first.
fn ranked(
    problem: &GemmProblem,
    operands: Operands,
    arch: Arch,
    multiprocessors: i64,
) -> Vec<(PlanCost, GemmPlan)> {
    let plans = GemmPlan::candidates(operands, arch).into_iter();
    let costs = plans.map(|plan| (plan.cost(problem, multiprocessors), plan));
    let mut costs: Vec<_> = costs.collect();
    costs.sort_by(|x, y| x.0.total().total_cmp(&y.0.total()));
    costs
}

/// The plan that the model says is the fastest for a problem.
pub(crate) fn choose(
    problem: &GemmProblem,
    operands: Operands,
    arch: Arch,
    multiprocessors: i64,
) -> GemmPlan {
    ranked(problem, operands, arch, multiprocessors)[0].1
}

/// The rows for which a batch-invariant product divides K.
pub(crate) const SOME_ROWS: i64 = 64;

/// The fastest of the plans that divide K as the plan for [`SOME_ROWS`] rows does: every plan of the list sums the steps
/// of one part of K in one order.
pub(crate) fn choose_invariant(
    problem: &GemmProblem,
    operands: Operands,
    arch: Arch,
    multiprocessors: i64,
) -> GemmPlan {
    let some = GemmProblem {
        m: SOME_ROWS,
        ..*problem
    };
    let along_k = choose(&some, operands, arch, multiprocessors).cluster[2];
    let all = ranked(problem, operands, arch, multiprocessors).into_iter();
    let mut same = all.filter(|(_, plan)| plan.cluster[2] == along_k);
    same.next()
        .expect("the plan for some rows is one of them")
        .1
}

/// Whether a product of 16-bit matrices that no tensor map describes is faster if they are packed first: Hopper's kernel
/// then multiplies what Ampere's would load by elements.
pub(crate) fn packs<T: GemmElement>([m, n, k]: [i64; 3], arch: Arch) -> bool {
    let hopper = GemmMethod::Hopper.family();
    if !hopper.runs_on(arch) || !hopper.types().contains(&T::TY) {
        return false;
    }
    let up = |extent: i64| ((extent + 127) / 128 * 128) as f64;
    let [rows, columns, depth] = [m, n, k].map(|extent| extent as f64);
    // Measured on an H200: Ampere's kernel takes 5 us for each step of 64 along K that it loads by elements, and 132 tiles
    // at once. A copy of elements of 2 bytes reads and writes 1 TB/s.
    let tiles = (up(m) * up(n) / 16384.0 / 132.0).ceil();
    let by_elements = 5.0 * tiles * (depth / 64.0).ceil();
    let product = 2.0 * rows * columns * depth / 500e6;
    let bytes = 4.0 * (rows + columns) * depth;
    by_elements > 10.0 + bytes / 1e6 + product
}

impl GemmPlan {
    /// Returns what the model says of the plan for a problem on a device, and of the plans that it says are the fastest.
    ///
    /// ```
    /// use colex_atom::{Arch, Ty};
    /// use colex_gpu::Device;
    /// use colex_gpu::kernels::{GemmProblem, Major};
    /// use colex_gpu::kernels::gemm::{GemmMethod, GemmPlan, Operands};
    ///
    /// let majors = [Major::Second; 3];
    /// let operands = Operands { ab: Ty::Bf16, c: Ty::Bf16, majors, vectors: [8; 3], beta: false };
    /// let plan = GemmPlan::new(GemmMethod::Hopper, operands);
    /// let said = plan.explain(&GemmProblem::new(64, 4096, 4096), &Device::simulator(Arch::Sm90a));
    /// assert!(said.starts_with("Hopper bf16 to bf16, tile 128x256x64, 4 stages, 2 consumers, cluster 2x1x1, "));
    /// assert_eq!(said.lines().count(), 6); // the plan, and five others
    /// ```
    pub fn explain(&self, problem: &GemmProblem, device: &Device) -> String {
        let multiprocessors = i64::from(device.limits().multiprocessors);
        let own = self.cost(problem, multiprocessors);
        let mut said = format!("{self}: {own}");
        let all = ranked(problem, self.operands, device.arch(), multiprocessors).into_iter();
        for (cost, plan) in all.filter(|(_, plan)| plan != self).take(5) {
            said += &format!("\n  {plan}: {cost}");
        }
        said
    }
}
