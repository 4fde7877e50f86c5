//! The model of time: what a plan costs for a problem, and the plans that a call chooses among.

use core::fmt;

use colex_atom::Arch;

use super::plan::{AttentionOperands, AttentionPlan, begins_early};
use super::problem::{AttentionProblem, AttentionTensor};
use crate::method::AttentionMethod;

/// What the model says of a plan for a problem, in microseconds.
///
/// ```
/// use colex_atom::Ty;
/// use colex_gpu::attention::{AttentionMethod, AttentionOperands, AttentionPlan, AttentionProblem};
///
/// // One query of each of 32 heads on 8, and 8192 keys of 128 features, on 132 multiprocessors.
/// let problem = AttentionProblem::new(Ty::Bf16, 1, [32, 8], [1, 8192], [128, 128]);
/// let plan = AttentionPlan::new(AttentionMethod::Ampere, AttentionOperands::of(&problem, [0; 4]));
/// let whole = plan.suited_to(&problem, 132);
/// let whole = AttentionPlan { splits: 1, by_lanes: false, ..whole }.cost(&problem, 132);
/// // 128 steps of 64 keys, of 1.2 microseconds each.
/// assert_eq!(whole.steps, 153.6);
/// assert_eq!(whole.to_string(), "157.5 us: launch 3.9, steps 153.6, loads 8.2, products 30.7, combination 0.0");
/// let divided = plan.suited_to(&problem, 132).cost(&problem, 132);
/// assert!(divided.total() < 0.2 * whole.total());
/// ```
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct AttentionCost {
    /// The launch, and the first loads and the end of the blocks, one wave of blocks after the other.
    pub launch: f64,
    /// The steps of keys of a block that is alone, one wave of blocks after the other.
    pub steps: f64,
    /// The bytes that all blocks load: each once from the memory of the device, all of them through the L2 cache.
    pub loads: f64,
    /// The scores of all waves: both products and the softmax between them.
    pub products: f64,
    /// The second kernel, which adds the parts of the keys.
    pub combination: f64,
}

impl AttentionCost {
    /// Returns the microseconds of the call. The steps, the loads and the products run side by side: the largest of the three
    /// counts, and a little more where another one is close to it, as the sixth root of the sum of their sixth powers says.
    pub fn total(&self) -> f64 {
        let terms = [self.steps, self.loads, self.products];
        let most = terms.into_iter().fold(0.0, f64::max);
        let shares = terms.map(|term| (term / most).powi(6));
        let beside = if most > 0.0 {
            most * shares.iter().sum::<f64>().powf(1.0 / 6.0)
        } else {
            0.0
        };
        self.launch + beside + self.combination
    }
}

/// `157.5 us: launch 3.9, steps 153.6, loads 8.2, products 30.7, combination 0.0`
impl fmt::Display for AttentionCost {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let AttentionCost {
            launch,
            steps,
            loads,
            products,
            combination,
        } = self;
        write!(
            f,
            "{:.1} us: launch {launch:.1}, steps {steps:.1}, loads {loads:.1}, products {products:.1}, combination {combination:.1}",
            self.total()
        )
    }
}

/// How a family spends its time.
pub(crate) struct Pace {
    /// The blocks that run at once.
    pub(crate) places: i64,
    /// The blocks of one multiprocessor, which share its tensor cores.
    pub(crate) beside: i64,
    /// Microseconds of a launch.
    pub(crate) launch: f64,
    /// Microseconds of a step of keys of a block that is alone, and those of a tile of queries.
    pub(crate) waits: [f64; 2],
    /// Microseconds of a multiprocessor for a score, and for each feature of Q and of V of it.
    pub(crate) score: [f64; 2],
}

/// Constants of the model. The numbers of `PERFORMANCE.md` that they were fitted to: steps of decoding by Ampere's kernel in 1 to
/// 128 parts, and drawn problems of up to 100 microseconds, all on an H200.
pub(crate) mod h200 {
    /// A launch of Ampere's kernel, as the model of products has it.
    pub(crate) const LAUNCH: f64 = 1.4;
    /// A launch of Hopper's kernel, which fetches tensor maps and initialises barriers.
    pub(crate) const HOPPER_LAUNCH: f64 = 2.6;
    /// What an early begin takes off a launch: that of a product of 512 cubed (`PERFORMANCE.md`).
    pub(crate) const EARLY: f64 = 0.4;
    /// Bytes of the device's memory, and of the L2 cache, in a microsecond: those of the model of products.
    pub(crate) const BYTES: [f64; 2] = [4.07e6, 13.2e6];
    /// Hopper's scores: close to 510, 700 and 700 TFLOP/s with 64, 128 and 256 features (`PERFORMANCE.md`). The order of the two
    /// products changes less than the model is precise.
    pub(crate) const HOPPER: [f64; 2] = [2.5e-5, 3.1e-7];
    /// How much longer a score takes where one consumer is alone: no other computes while it waits. Chosen, not measured.
    pub(crate) const ALONE: f64 = 1.4;
    /// Ampere's scores. Chosen, not measured.
    pub(crate) const AMPERE: [f64; 2] = [5.5e-5, 7.0e-7];
    /// What the cap of a score adds to it.
    pub(crate) const SOFTCAP: f64 = 5.0e-5;
    /// A step of Ampere's kernel: the wait, and what loads and instructions of a warp take for a feature of a key.
    pub(crate) const STEP: [f64; 2] = [0.5, 0.7 / 16384.0];
    /// A tile of queries of Ampere's kernel: its first loads and its end.
    pub(crate) const TILE: f64 = 2.5;
    /// The second kernel: its launch, its first loads and its end.
    pub(crate) const COMBINATION: f64 = 3.0;
    /// A wait of a thread of it that adds parts one after the other.
    pub(crate) const WAIT: f64 = 0.3;
    /// Of lanes that share the parts: what each part takes.
    pub(crate) const BY_LANES: f64 = 0.03;
    /// A wave of such warps, of which a multiprocessor has 64.
    pub(crate) const WAVE: f64 = 2.6;
    pub(crate) const WARPS: f64 = 64.0;
}

/// A call that takes no longer gains from kernels that begin early (`PERFORMANCE.md`, of products).
const GAINS_FROM_EARLY: f64 = 12.0;

/// The most tiles of queries whose keys are counted; of more, every n-th.
const COUNTED: i64 = 16;

/// The tiles of queries of a pack of heads.
pub(crate) fn tiles(problem: &AttentionProblem, plan: &AttentionPlan) -> i64 {
    let rows = problem.lengths[0].saturating_mul(plan.packs);
    (rows + plan.tile[0] - 1) / plan.tile[0]
}

/// The steps of keys that a tile of queries takes in the mean, and the most that one takes.
fn steps(problem: &AttentionProblem, plan: &AttentionPlan) -> [f64; 2] {
    let [rows, keys] = plan.tile;
    let count = tiles(problem, plan).max(1);
    let stride = (count + COUNTED - 1) / COUNTED;
    let last_row = (problem.lengths[0].saturating_mul(plan.packs) - 1).max(0);
    let (mut sum, mut most, mut counted) = (0.0, 0.0f64, 0.0);
    for tile in (0..count).step_by(stride as usize) {
        let first = tile * rows;
        let queries = [first, (first + rows - 1).min(last_row)].map(|row| row / plan.packs);
        let [first, last] = queries.map(|query| problem.mask.keys(query, problem.lengths));
        let seen = last.end.max(first.end) - first.start.min(last.start) / keys * keys;
        let steps = ((seen + keys - 1) / keys).max(0) as f64;
        (sum, most, counted) = (sum + steps, most.max(steps), counted + 1.0);
    }
    [sum / counted, most]
}

/// The plan with tiles, stages and packs whose products fit 64 bits.
fn possible_plan(plan: &AttentionPlan) -> AttentionPlan {
    let mut possible = *plan;
    let numbers = possible.tile.iter_mut();
    for number in numbers.chain([&mut possible.stages, &mut possible.packs]) {
        *number = (*number).clamp(1, 1 << 12);
    }
    for features in &mut possible.operands.features {
        *features = (*features).clamp(1, 1 << 12);
    }
    possible
}

/// The problem with numbers from 0 to the greatest that [`AttentionProblem::check`] takes.
fn possible_problem(problem: &AttentionProblem) -> AttentionProblem {
    let mut possible = *problem;
    let numbers = possible.lengths.iter_mut().chain(&mut possible.heads);
    for number in numbers.chain([&mut possible.batch]) {
        *number = (*number).clamp(0, 1 << 31);
    }
    possible
}

/// What a plan does for a problem, for every number of parts of the keys.
pub(crate) struct CountedWork {
    pace: Pace,
    /// The tiles of queries of all heads and sequences.
    tiles: i64,
    /// The steps of a tile in the mean.
    steps: f64,
    /// The microseconds of all loads.
    loads: f64,
    /// The microseconds of a multiprocessor for the scores of a step.
    scores: f64,
    /// What an early begin takes off each launch.
    early: f64,
    /// The microseconds in which the L2 cache takes a part of all rows.
    part: f64,
    /// The waves of warps that lanes share the parts in.
    waves: f64,
}

impl CountedWork {
    pub(crate) fn of(
        plan: &AttentionPlan,
        problem: &AttentionProblem,
        multiprocessors: i64,
    ) -> CountedWork {
        let (plan, problem) = (&possible_plan(plan), &possible_problem(problem));
        let tiles = tiles(problem, plan)
            .saturating_mul(problem.heads[0] / plan.packs.max(1))
            .saturating_mul(problem.batch);
        let [steps, _] = steps(problem, plan);
        let operands = &plan.operands;
        let AttentionOperands {
            ty,
            features: [inner, outer],
            ..
        } = *operands;
        let width = f64::from(ty.bits()) / 8.0;
        let bytes = |tensor| {
            let mut extents = problem.extents(tensor).map(|n| n as f64);
            // Sequences have some of the pages of a pool.
            if matches!(tensor, AttentionTensor::K | AttentionTensor::V) && operands.page.is_some()
            {
                (extents[0], extents[2]) = (problem.batch as f64, problem.lengths[1] as f64);
            }
            extents.iter().product::<f64>() * width
        };
        let once: f64 = AttentionTensor::ALL.map(bytes).iter().sum();
        let features = (inner + outer) as f64;
        let [queries, keys] = plan.tile.map(|n| n as f64);
        let loaded = tiles as f64 * steps * keys * features * width;
        let [of_memory, of_cache] = h200::BYTES;
        let pace = plan.method.family().pace(plan, multiprocessors);
        let [of_score, of_feature] = pace.score;
        let capped = if operands.softcap { h200::SOFTCAP } else { 0.0 };
        let rows = problem.batch as f64 * problem.heads[0] as f64 * problem.lengths[0] as f64;
        let warps = rows * (outer as f64 / 4.0).max(1.0);
        CountedWork {
            tiles,
            steps,
            loads: (once / of_memory).max(loaded / of_cache),
            scores: queries * keys * (of_score + of_feature * features + capped),
            pace,
            early: if plan.early { h200::EARLY } else { 0.0 },
            part: 2.0 * rows * (outer as f64 + 2.0) * 4.0 / of_cache,
            waves: (warps / (h200::WARPS * multiprocessors.max(1) as f64)).ceil(),
        }
    }

    /// The microseconds of the second kernel for this number of parts.
    fn combination(&self, splits: i64, by_lanes: bool) -> f64 {
        if splits <= 1 {
            return 0.0;
        }
        let adding = if by_lanes {
            h200::BY_LANES * splits as f64 + h200::WAVE * (self.waves - 1.0).max(0.0)
        } else {
            // The maxima first, and then all: four parts at once, and the rest one by one.
            h200::WAIT * 2.0 * (splits / 4 + splits % 4) as f64
        };
        h200::COMBINATION - self.early + adding + self.part * splits as f64
    }

    /// Whether the second kernel is faster if the lanes of a warp share this number of parts.
    pub(crate) fn wants_lanes(&self, splits: i64) -> bool {
        self.combination(splits, true) < self.combination(splits, false)
    }

    /// What the plan costs with this number of parts of the keys.
    pub(crate) fn cost(&self, splits: i64, by_lanes: bool) -> AttentionCost {
        let splits = splits.max(1);
        let blocks = self.tiles.saturating_mul(splits);
        let places = self.pace.places;
        let waves = (blocks.saturating_add(places - 1) / places) as f64;
        let of_part = (self.steps / splits as f64).ceil();
        let [of_step, of_tile] = self.pace.waits;
        // Fewer blocks than places have more of a multiprocessor each.
        let beside = (blocks as f64 / places as f64).min(1.0) * self.pace.beside as f64;
        // Of several blocks of a multiprocessor, one loads its first keys while others compute.
        let alone = if self.pace.beside > 1 {
            waves.min(1.0)
        } else {
            waves
        };
        AttentionCost {
            launch: self.pace.launch - self.early + alone * of_tile,
            steps: waves * of_part * of_step + (waves - alone) * of_tile,
            loads: self.loads,
            products: waves * of_part * self.scores * beside.max(1.0),
            combination: self.combination(splits, by_lanes),
        }
    }
}

impl AttentionPlan {
    /// Returns what the model says of the plan for a problem on a device of this number of multiprocessors.
    ///
    /// The model counts waves of blocks, and what a block that is alone takes for its steps of keys; the loads and the products of
    /// all blocks run beside that. A number that no kernel takes counts as the nearest one that is possible.
    pub fn cost(&self, problem: &AttentionProblem, multiprocessors: u32) -> AttentionCost {
        let work = CountedWork::of(self, problem, multiprocessors.into());
        work.cost(self.splits, self.by_lanes)
    }

    /// Returns the plan with kernels that begin early, if the architecture has them and the call gains: a short one, and one whose
    /// second kernel adds parts of the keys.
    pub(crate) fn beginning(
        self,
        problem: &AttentionProblem,
        (arch, multiprocessors): (Arch, u32),
    ) -> AttentionPlan {
        let gains =
            self.splits > 1 || self.cost(problem, multiprocessors).total() <= GAINS_FROM_EARLY;
        AttentionPlan {
            early: self.early || (gains && begins_early(arch)),
            ..self
        }
    }

    /// Returns the plans for a problem on an architecture, the one that the model says is the fastest first: those of each
    /// method that takes the problem, with and without packs of heads and parts of the keys.
    ///
    /// ```
    /// use colex_atom::{Arch, Ty};
    /// use colex_gpu::attention::{AttentionMethod, AttentionOperands, AttentionPlan, AttentionProblem};
    ///
    /// let problem = AttentionProblem::new(Ty::Bf16, 1, [32, 8], [4096, 4096], [128, 128]);
    /// let operands = AttentionOperands::of(&problem, [0; 4]);
    /// let plans = AttentionPlan::alternatives(&problem, operands, Arch::Sm90a, 132);
    /// assert_eq!(plans[0].method, AttentionMethod::Hopper);
    /// assert!(plans.iter().any(|plan| plan.method == AttentionMethod::Ampere));
    /// ```
    pub fn alternatives(
        problem: &AttentionProblem,
        operands: AttentionOperands,
        arch: Arch,
        multiprocessors: u32,
    ) -> Vec<AttentionPlan> {
        let mut all: Vec<AttentionPlan> = Vec::new();
        for method in AttentionMethod::BY_SPEED {
            let usual = AttentionPlan::new(method, operands);
            let suited = usual.suited_to(problem, multiprocessors);
            let suited = suited.beginning(problem, (arch, multiprocessors));
            let work = CountedWork::of(&suited, problem, multiprocessors.into());
            let splits = |splits| AttentionPlan {
                splits,
                by_lanes: splits > 1 && work.wants_lanes(splits),
                ..suited
            };
            let parts = [suited.splits, 1, suited.splits / 2, suited.splits * 2];
            for plan in parts.map(splits).into_iter().chain([usual]) {
                let checked = plan.check(arch);
                let taken = checked.and_then(|()| plan.check_problem(problem)).is_ok();
                if taken && !all.contains(&plan) {
                    all.push(plan);
                }
            }
        }
        let time = |plan: &AttentionPlan| plan.cost(problem, multiprocessors).total();
        all.sort_by(|x, y| time(x).total_cmp(&time(y)));
        all
    }

    /// Returns what the model says of the plan for a problem on a device, and of the other plans for it.
    ///
    /// ```
    /// use colex_atom::{Arch, Ty};
    /// use colex_gpu::Device;
    /// use colex_gpu::attention::{AttentionMethod, AttentionOperands, AttentionPlan, AttentionProblem};
    ///
    /// let device = Device::simulator(Arch::Sm80);
    /// let problem = AttentionProblem::new(Ty::F16, 1, [8, 2], [1, 2048], [64, 64]);
    /// let operands = AttentionOperands::of(&problem, [0; 4]);
    /// let plan = AttentionPlan::new(AttentionMethod::Ampere, operands);
    /// let said = plan.explain(&problem, &device);
    /// let mut lines = said.lines();
    /// assert!(lines.next().unwrap().starts_with("Ampere f16, features 64, tile 64x64, 4 consumers, 2 stages: "));
    /// assert!(lines.all(|line| line.contains("packs of 4 heads")));
    /// ```
    pub fn explain(&self, problem: &AttentionProblem, device: &colex_device::Device) -> String {
        let multiprocessors = device.limits().multiprocessors;
        let mut said = format!("{self}: {}", self.cost(problem, multiprocessors));
        let all =
            AttentionPlan::alternatives(problem, self.operands, device.arch(), multiprocessors);
        for plan in all.iter().filter(|plan| *plan != self).take(5) {
            said += &format!("\n  {plan}: {}", plan.cost(problem, multiprocessors));
        }
        said
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::attention::Mask;
    use colex_atom::Ty;

    /// The number of parts of one sequence per `batch`, with as many heads of K, each read by four heads of Q.
    fn parts(batch: i64, heads: i64, keys: i64) -> i64 {
        let lengths = [1, keys];
        let problem = AttentionProblem::new(Ty::Bf16, batch, [4 * heads, heads], lengths, [128; 2]);
        let operands = AttentionOperands::of(&problem, [0; 4]);
        let plan = AttentionPlan::new(AttentionMethod::Ampere, operands);
        plan.suited_to(&problem, 132).splits
    }

    #[test]
    fn few_blocks_with_many_keys_are_divided() {
        // One sequence of 131,072 keys, 8 heads of K: 8 blocks of 2048 steps fill 264 places by 33 parts, and 32 are equal.
        assert_eq!(parts(1, 8, 131_072), 32);
        // Equal parts that take much longer are not taken: 2039 steps are a prime.
        assert_eq!(parts(1, 8, 2039 * 64), 33);
        // 64 sequences of 8192 keys: 512 blocks fill the places twice.
        assert_eq!(parts(64, 8, 8192), 1);
        // Two steps are not worth a second kernel, and four are.
        assert_eq!([parts(1, 8, 128), parts(1, 8, 256)], [1, 4]);
        assert_eq!(parts(1, 8, 0), 1);
    }

    /// The model says what an H200 took within a factor of 1.3, of steps of decoding and of small calls, of which it chooses among
    /// plans that differ by more. The times and plans are those of `PERFORMANCE.md`.
    #[test]
    fn the_model_is_near_what_was_measured() {
        let (ampere, hopper) = (AttentionMethod::Ampere, AttentionMethod::Hopper);
        let of = |batch, heads, lengths, features| {
            AttentionProblem::new(Ty::Bf16, batch, heads, lengths, [features; 2])
        };
        let long = of(1, [32, 8], [1, 131_072], 128);
        let many = of(64, [32, 8], [1, 8192], 128);
        // Method, problem, tile, stages or consumers, packs, parts, by lanes, microseconds.
        let measured = [
            (ampere, long, [16, 64], 4, 1, false, 2336.6),
            (ampere, long, [16, 64], 4, 4, false, 603.2),
            (ampere, long, [16, 64], 4, 8, false, 309.1),
            (ampere, long, [16, 64], 4, 16, false, 167.6),
            (ampere, long, [16, 64], 4, 32, false, 133.8),
            (ampere, long, [16, 64], 4, 32, true, 130.0),
            (ampere, long, [16, 64], 4, 64, false, 156.0),
            (ampere, long, [16, 64], 4, 128, false, 164.5),
            (ampere, many, [16, 32], 4, 1, false, 467.1),
            (ampere, many, [16, 32], 4, 2, false, 504.2),
            (ampere, many, [16, 32], 4, 2, true, 524.9),
            (
                ampere,
                of(27, [2, 2], [1, 2688], 64),
                [16, 64],
                1,
                9,
                false,
                17.9,
            ),
            (
                ampere,
                of(9, [32, 8], [7, 749], 64),
                [32, 64],
                4,
                6,
                false,
                12.7,
            ),
            (
                ampere,
                of(41, [64, 16], [1, 547], 96),
                [16, 64],
                4,
                1,
                false,
                40.2,
            ),
            (
                ampere,
                of(62, [16, 16], [1, 136], 64),
                [16, 64],
                1,
                1,
                false,
                13.9,
            ),
            (
                ampere,
                of(63, [32, 32], [2, 117], 64),
                [16, 64],
                1,
                1,
                false,
                20.0,
            ),
            (
                ampere,
                of(57, [32, 32], [17, 40], 128),
                [32, 64],
                1,
                1,
                false,
                22.1,
            ),
            (
                hopper,
                of(47, [4, 1], [1, 72], 192),
                [128, 80],
                1,
                1,
                false,
                7.5,
            ),
            (
                hopper,
                of(5, [8, 8], [1, 98], 64),
                [192, 128],
                1,
                1,
                false,
                5.5,
            ),
            (
                hopper,
                of(9, [32, 32], [24, 24], 192),
                [128, 80],
                1,
                1,
                false,
                11.8,
            ),
            (
                hopper,
                of(57, [1, 1], [4, 608], 96),
                [128, 128],
                1,
                1,
                false,
                10.5,
            ),
            (
                hopper,
                of(7, [2, 2], [23, 29], 96),
                [128, 128],
                1,
                1,
                false,
                4.6,
            ),
            (
                hopper,
                of(1, [16, 8], [536, 536], 256),
                [128, 80],
                1,
                1,
                false,
                16.7,
            ),
        ];
        let mut far = Vec::new();
        for (method, problem, tile, packs, splits, by_lanes, time) in measured {
            let operands = AttentionOperands::of(&problem, [0; 4]);
            let plan = AttentionPlan {
                tile,
                consumers: match method {
                    AttentionMethod::Hopper => tile[0] / 64,
                    AttentionMethod::Ampere => tile[0] / 16,
                },
                packs,
                splits,
                by_lanes,
                ..AttentionPlan::new(method, operands)
            };
            let cost = plan.cost(&problem, 132);
            let ratio = cost.total() / time;
            if !(1.0 / 1.3..=1.3).contains(&ratio) {
                far.push(format!("{problem}, {plan}: {cost}, measured {time}"));
            }
        }
        assert!(far.is_empty(), "{}", far.join("\n"));
    }

    /// Few queries have no consumers without one, and few keys no step that is mostly empty; where a group of heads reads many
    /// keys, Ampere's kernel takes them.
    #[test]
    fn small_problems_take_small_tiles() {
        let said = |batch, heads, lengths, features| {
            let problem = AttentionProblem::new(Ty::Bf16, batch, heads, lengths, features);
            let operands = AttentionOperands::of(&problem, [0; 4]);
            let plan = AttentionPlan::fastest(&problem, operands, Arch::Sm90a, 132);
            plan.expect("a plan").to_string()
        };
        let found = [
            said(5, [8, 8], [1, 98], [64; 2]),
            said(4, [8, 4], [26, 26], [256; 2]),
            said(17, [32, 16], [1, 272], [192; 2]),
            said(27, [2, 2], [1, 2688], [64; 2]),
            said(2, [128, 32], [16, 16341], [64; 2]),
            said(1, [8, 8], [120, 4096], [64; 2]),
        ];
        assert_eq!(
            found,
            [
                "Hopper bf16, features 64, tile 64x128, 1 consumers, 2 stages, 2 tiles of queries, early",
                "Hopper bf16, features 256, tile 64x32, 1 consumers, 2 stages, early",
                "Ampere bf16, features 192, tile 16x32, 1 consumers, 2 stages, packs of 2 heads",
                "Ampere bf16, features 64, tile 16x64, 1 consumers, 2 stages, 7 parts of the keys, added by lanes, early",
                "Ampere bf16, features 64, tile 64x64, 4 consumers, 2 stages, packs of 4 heads, 8 parts of the keys, early",
                "Hopper bf16, features 64, tile 128x128, 2 consumers, 2 stages, in turns, 2 tiles of queries",
            ]
        );
    }

    /// Of 256 features, the order of the products and the keys of a step are those that were measured: one after the other without a
    /// mask and under a causal one, steps of 64 keys where those of 80 compute 5 % more without a mask, and as before in windows, with
    /// caps and with one consumer. Of 192 and 128 features they are one after the other under a causal mask only.
    #[test]
    fn wide_heads_take_the_order_that_was_measured() {
        let said = |queries, keys, change: &dyn Fn(&mut AttentionProblem)| {
            let lengths = [queries, keys];
            let mut problem = AttentionProblem::new(Ty::Bf16, 4, [8; 2], lengths, [256; 2]);
            change(&mut problem);
            let operands = AttentionOperands::of(&problem, [0; 4]);
            let plan = AttentionPlan::new(AttentionMethod::Hopper, operands);
            let plan = plan.suited_to(&problem, 132);
            (plan.tile, plan.turns, plan.overlap)
        };
        let full = |_: &mut AttentionProblem| {};
        let in_sequence = ([128, 80], true, false);
        for length in [640, 1024, 2048, 4096, 8192, 16384] {
            assert_eq!(said(length, length, &full), in_sequence, "{length}");
        }
        assert_eq!(said(512, 512, &full), ([128, 64], true, true));
        assert_eq!(said(512, 81, &full), ([128, 64], true, true));
        assert_eq!(said(64, 4096, &full), ([64, 80], false, true));
        for length in [512, 4096, 16384] {
            let found = said(length, length, &|problem| problem.mask = Mask::Causal);
            assert_eq!(found, in_sequence, "{length}");
        }
        let window = Mask::Window {
            left: 100,
            right: 0,
        };
        let found = said(4096, 4096, &|problem| problem.mask = window);
        assert_eq!(found, ([128, 80], true, true));
        for (mask, overlaps) in [(Mask::Full, true), (Mask::Causal, false)] {
            let found = said(4096, 4096, &|problem| {
                problem.features = [192, 128];
                problem.mask = mask;
            });
            assert_eq!(found, ([128, 96], false, overlaps), "{mask}");
        }
        let found = said(4096, 4096, &|problem| problem.softcap = Some(30.0));
        assert_eq!(found, ([128, 80], true, true));
        // A plan of the caller keeps its order.
        let problem = AttentionProblem::new(Ty::Bf16, 4, [8; 2], [4096; 2], [128; 2]);
        let operands = AttentionOperands::of(&problem, [0; 4]);
        let plan = AttentionPlan {
            overlap: false,
            ..AttentionPlan::new(AttentionMethod::Hopper, operands)
        };
        assert_eq!(plan.suited_to(&problem, 132), plan);
    }

    /// The steps that the model counts are those of the mask, key by key.
    #[test]
    fn law_the_steps_of_the_model_are_those_of_the_mask() {
        let masks = [Mask::Full, Mask::Causal, Mask::Window { left: 9, right: 3 }];
        let mut cases = 0;
        for (queries, keys) in (1..40)
            .step_by(3)
            .flat_map(|q| (1..40).map(move |k| (q, k)))
        {
            for mask in masks {
                let problem =
                    AttentionProblem::new(Ty::F16, 1, [4, 1], [queries, keys], [64; 2]).mask(mask);
                let operands = AttentionOperands::of(&problem, [0; 4]);
                let plan = AttentionPlan {
                    tile: [16, 8],
                    packs: 4,
                    ..AttentionPlan::new(AttentionMethod::Ampere, operands)
                };
                let mut most = 0;
                for tile in 0..tiles(&problem, &plan) {
                    let rows = (tile * 16..tile * 16 + 16).map(|row| row / 4);
                    let seen = |j: &i64| {
                        (rows.clone().filter(|i| *i < queries))
                            .any(|i| mask.keys(i, problem.lengths).contains(j))
                    };
                    let blocks: std::collections::BTreeSet<i64> =
                        (0..keys).filter(seen).map(|j| j / 8).collect();
                    most = most.max(blocks.len() as i64);
                }
                let [mean, found] = steps(&problem, &plan);
                assert_eq!(found as i64, most, "{problem}");
                assert!(mean <= found, "{problem}");
                cases += 1;
            }
        }
        println!("law attention.steps: {cases} cases");
    }
}
