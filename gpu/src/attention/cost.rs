//! The model of time: what a plan costs for a problem, and the plans that a call chooses among.

use core::fmt;

use colex_atom::Arch;

use super::plan::{AttentionOperands, AttentionPlan};
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
/// // 128 steps of 64 keys and two more, of a microsecond each.
/// assert_eq!(whole.steps, 130.0);
/// assert_eq!(whole.to_string(), "162.1 us: launch 1.4, steps 130.0, loads 8.2, products 30.7, combination 0.0");
/// let divided = plan.suited_to(&problem, 132).cost(&problem, 132);
/// assert!(divided.total() < 0.3 * whole.total());
/// assert_eq!(divided.combination, 3.96); // three steps, and 0.03 for each of 32 parts, which lanes add
/// ```
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct AttentionCost {
    /// The launch, the first loads and the end.
    pub launch: f64,
    /// The waits of a block for its steps of keys, one wave of blocks after the other.
    pub steps: f64,
    /// The bytes that all blocks load: each once from the memory of the device, all of them through the second-level cache.
    pub loads: f64,
    /// The scores of all waves: both products and the softmax between them.
    pub products: f64,
    /// The second kernel, which adds the parts of the keys.
    pub combination: f64,
}

impl AttentionCost {
    /// Returns the microseconds of the call: the loads and the products run side by side, the rest one after the other.
    pub fn total(&self) -> f64 {
        self.launch + self.steps + self.loads.max(self.products) + self.combination
    }
}

/// `162.1 us: launch 1.4, steps 130.0, loads 8.2, products 30.7, combination 0.0`
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
    /// Microseconds of a step of keys beside its loads and products, and those of a tile of queries.
    pub(crate) waits: [f64; 2],
    /// Microseconds of a multiprocessor for a score, and for each feature of Q and of V of it.
    pub(crate) score: [f64; 2],
}

/// Constants of the model. Those of products that are not Hopper's, and the waits, are chosen and not measured.
pub(crate) mod h200 {
    /// A launch, as the model of products has it.
    pub(crate) const LAUNCH: f64 = 1.4;
    /// Bytes of the device's memory, and of the second-level cache, in a microsecond: those of the model of products.
    pub(crate) const BYTES: [f64; 2] = [4.07e6, 13.2e6];
    /// Hopper's scores: close to 510, 700 and 700 TFLOP/s with 64, 128 and 256 features (`PERFORMANCE.md`).
    pub(crate) const HOPPER: [f64; 2] = [2.5e-5, 3.1e-7];
    /// Ampere's scores.
    pub(crate) const AMPERE: [f64; 2] = [5.5e-5, 7.0e-7];
    /// Of the second kernel: it takes as long as four steps of keys, and one for every eight parts.
    pub(crate) const COMBINATION: [f64; 2] = [4.0, 0.125];
    /// The same where lanes share the parts: one for every 32.
    pub(crate) const COMBINATION_BY_LANES: [f64; 2] = [3.0, 0.03];
}

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
    /// The microseconds of the second kernel, and those of it for each part.
    combination: [f64; 2],
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
        let [rows, keys] = plan.tile.map(|n| n as f64);
        let loaded = tiles as f64 * steps * keys * features * width;
        let [of_memory, of_cache] = h200::BYTES;
        let pace = plan.method.family().pace(plan, multiprocessors);
        let [of_score, of_feature] = pace.score;
        CountedWork {
            tiles,
            steps,
            loads: (once / of_memory).max(loaded / of_cache),
            scores: rows * keys * (of_score + of_feature * features),
            pace,
            combination: if plan.by_lanes {
                h200::COMBINATION_BY_LANES
            } else {
                h200::COMBINATION
            },
        }
    }

    /// What the plan costs with this number of parts of the keys.
    pub(crate) fn cost(&self, splits: i64) -> AttentionCost {
        let splits = splits.max(1);
        let blocks = self.tiles.saturating_mul(splits);
        let places = self.pace.places;
        let waves = (blocks.saturating_add(places - 1) / places) as f64;
        let of_part = (self.steps / splits as f64).ceil();
        let [of_step, of_tile] = self.pace.waits;
        // Fewer blocks than places have more of a multiprocessor each.
        let beside = (blocks as f64 / places as f64).min(1.0) * self.pace.beside as f64;
        let [once, of_each] = self.combination;
        AttentionCost {
            launch: h200::LAUNCH,
            steps: waves * (of_part * of_step + of_tile),
            loads: self.loads,
            products: waves * of_part * self.scores * beside.max(1.0),
            combination: match splits {
                1 => 0.0,
                _ => once + of_each * splits as f64,
            },
        }
    }
}

impl AttentionPlan {
    /// Returns what the model says of the plan for a problem on a device of this number of multiprocessors.
    ///
    /// The model counts waves of blocks. A block waits for each of its steps of keys and for two more, and loads and computes
    /// beside that. A number that no kernel takes counts as the nearest one that is possible.
    pub fn cost(&self, problem: &AttentionProblem, multiprocessors: u32) -> AttentionCost {
        CountedWork::of(self, problem, multiprocessors.into()).cost(self.splits)
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
            let splits = |splits| AttentionPlan { splits, ..suited };
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
        // A few steps are not worth a second kernel.
        assert_eq!(parts(1, 8, 256), 1);
        assert_eq!(parts(1, 8, 0), 1);
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
