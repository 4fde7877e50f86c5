//! The kernels of all plans that calls of a range of lengths take, so that they are loaded before the first of these calls.

use std::collections::{BTreeSet, HashSet};
use std::ops::RangeInclusive;

use colex_atom::Arch;

use super::call::{AttentionRole, whole};
use super::plan::{AttentionOperands, AttentionPlan, no_kernel};
use super::problem::{AttentionProblem, MOST_LENGTH, Mask};
use super::schedule::MOST_SEQUENCES;
use crate::error::{AttentionError, Error};
use crate::gemm::problem::MOST;
use crate::method::AttentionMethod;

/// The lengths of calls whose kernels are loaded ahead ([`Attention::load_plans`](super::Attention::load_plans)).
///
/// ```
/// use colex_gpu::attention::AttentionRange;
///
/// // Steps of decoding: one query of each of up to 256 sequences, which have up to 131,072 keys.
/// let steps = AttentionRange { sequences: 1..=256, queries: 1..=1, keys: 1..=131_072 };
/// // Prompts of up to 8192 tokens, one or several at once.
/// let prompts = AttentionRange { sequences: 1..=16, queries: 1..=8192, ..steps.clone() };
/// assert_eq!(prompts.keys, steps.keys);
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct AttentionRange {
    /// The number of sequences.
    pub sequences: RangeInclusive<i64>,
    /// The number of queries of a sequence; of packed ones, the largest number, which the call is given.
    pub queries: RangeInclusive<i64>,
    /// The number of keys of a sequence; of packed ones and of those in pages, the largest number, which the call is given.
    pub keys: RangeInclusive<i64>,
}

impl AttentionRange {
    /// Checks that each range has a number, and none that no call has.
    fn check(&self) -> Result<(), Error> {
        let ranges = [
            ("the number of sequences", &self.sequences, MOST),
            ("the number of queries", &self.queries, MOST_LENGTH),
            ("the number of keys", &self.keys, MOST_LENGTH),
        ];
        for (what, range, most) in ranges {
            let (first, last) = (*range.start(), *range.end());
            if first < 0 || last > most || first > last {
                return Err(AttentionError::Range {
                    what,
                    first,
                    last,
                    most,
                }
                .into());
            }
        }
        Ok(())
    }
}

/// Every number up to here is tried, since that many rows are a tile.
const EACH: i64 = 64;

/// Up to here every step of 16 is tried: the numbers of keys of a step are multiples of it. Beyond, no plan depends on a length
/// but by its time.
const STEPS: i64 = 4096;
const STEP: i64 = 16;

/// The keys of a problem that the model divides, where one sequence has one head of keys.
const DIVIDED: i64 = 1 << 20;

/// The numbers of a range at which a plan may change, which a number of rows, or the keys of a step, divides.
fn marks(range: &RangeInclusive<i64>) -> BTreeSet<i64> {
    let steps = (0..=STEPS).step_by(STEP as usize);
    let all = (0..=EACH).chain(steps.flat_map(|n| [n - 1, n, n + 1]));
    let ends = [*range.start(), *range.end()];
    let within = |n: &i64| range.contains(n);
    all.filter(within).chain(ends).collect()
}

/// Returns the kernels of all plans that a call takes whose numbers are in the range, with those of a call that has no workspace.
///
/// The method, an early begin and the parts of the keys depend on the times of the model: the plans of both answers are among
/// them, for each tile that a range of lengths has.
///
/// # Errors
///
/// Returns an error if the range has no number or one that no call has, or if no kernel takes the calls.
pub(super) fn kernels(
    (problem, operands): (&AttentionProblem, AttentionOperands),
    method: Option<AttentionMethod>,
    on: (Arch, u32),
    range: &AttentionRange,
) -> Result<HashSet<(AttentionPlan, AttentionRole)>, Error> {
    range.check()?;
    let mut all = HashSet::new();
    let ends = [*range.sequences.end(), *range.queries.end()];
    if ends.contains(&0) || problem.heads[0] == 0 {
        return Ok(all);
    }
    let ahead = Ahead {
        problem,
        operands,
        on,
        range,
    };
    let mut refusals = Vec::new();
    for of in AttentionMethod::BY_SPEED {
        if method.is_some_and(|method| method != of) {
            continue;
        }
        if let Err(why) = ahead.add(of, &mut all) {
            refusals.push(why);
        }
    }
    if !all.is_empty() {
        return Ok(all);
    }
    // A method that the call names is the only one that was tried.
    let of_named = method.and_then(|_| refusals.pop());
    Err(of_named.unwrap_or_else(|| no_kernel(&refusals)))
}

/// What is known of the calls of a range.
struct Ahead<'a> {
    problem: &'a AttentionProblem,
    operands: AttentionOperands,
    on: (Arch, u32),
    range: &'a AttentionRange,
}

impl Ahead<'_> {
    /// The problem of a call of the range. Its strides decide nothing here.
    fn of(&self, batch: i64, queries: i64, keys: i64) -> AttentionProblem {
        AttentionProblem {
            batch,
            lengths: [queries, keys],
            ..*self.problem
        }
    }

    /// The plan of a method for a problem, before the time of a call decides whether its kernels begin early.
    fn suited(&self, method: AttentionMethod, problem: &AttentionProblem) -> AttentionPlan {
        AttentionPlan::new(method, self.operands).suited_to(problem, self.on.1)
    }

    /// Adds the kernels of a method.
    ///
    /// # Errors
    ///
    /// Returns why the method takes no call of the range.
    fn add(
        &self,
        method: AttentionMethod,
        all: &mut HashSet<(AttentionPlan, AttentionRole)>,
    ) -> Result<(), Error> {
        let ranges = [&self.range.sequences, &self.range.queries, &self.range.keys];
        let first = ranges.map(|range| *range.start());
        let last = ranges.map(|range| *range.end());
        let most = self.of(last[0], last[1], last[2]);
        let usual = self.suited(method, &most);
        usual.check(self.on.0)?;
        // A method that takes the fewest keys of the range takes calls of it: each has its own largest number.
        let fewest = first[2].max(1).min(last[2]);
        whole(usual).check_problem(&self.of(1, 1, fewest))?;
        let (mut plans, mut tried) = (HashSet::new(), HashSet::new());
        let queries = marks(&self.range.queries);
        match method {
            // The rows of a tile depend on the queries. The parts of the keys, and the keys of a step of whole ones, depend on a
            // time, which the first two of these problems decide: one has a block for many keys, the other a step.
            AttentionMethod::Ampere => {
                let [heads, of_keys] = self.problem.heads;
                let corners = [
                    [first[0], first[2]],
                    [last[0], last[2]],
                    [first[0], last[2]],
                    [last[0], first[2]],
                ];
                for queries in queries.range(1..) {
                    let divided = AttentionProblem {
                        heads: [heads / of_keys.max(1), 1],
                        mask: Mask::Full,
                        ..self.of(1, *queries, DIVIDED)
                    };
                    let corners = corners.map(|[batch, keys]| self.of(batch, *queries, keys));
                    let all = [divided, self.of(1, *queries, 1)].into_iter();
                    plans.extend(all.chain(corners).map(|of| self.suited(method, &of)));
                }
            }
            // The consumers depend on the queries, and the keys of a step on the keys. Sequences are sorted where there are many.
            AttentionMethod::Hopper => {
                let sequences = [
                    first[0],
                    last[0],
                    last[0].clamp(1, MOST_SEQUENCES).max(first[0]),
                ];
                let keys = marks(&self.range.keys);
                for queries in queries.range(1..) {
                    let ends = [first[2], last[2]].map(|keys| {
                        sequences.map(|batch| self.suited(method, &self.of(batch, *queries, keys)))
                    });
                    // The plans of other numbers of keys are known too.
                    if !tried.insert(ends) {
                        continue;
                    }
                    for (keys, batch) in
                        (keys.iter()).flat_map(|keys| sequences.map(|batch| (*keys, batch)))
                    {
                        plans.insert(self.suited(method, &self.of(batch, *queries, keys)));
                    }
                }
            }
        }
        for plan in plans {
            self.add_plan(plan, all);
        }
        Ok(())
    }

    /// Adds the kernels of a plan, whether or not its call is short enough to begin early, with lanes that share the parts of its
    /// keys and without, and those of the plan without a workspace.
    fn add_plan(&self, plan: AttentionPlan, all: &mut HashSet<(AttentionPlan, AttentionRole)>) {
        let (short, long) = (self.of(1, 1, 1), self.of(1 << 12, 1 << 16, 1 << 20));
        let lanes = [false, plan.splits > 1];
        for by_lanes in lanes {
            for problem in [&short, &long] {
                let plan = AttentionPlan { by_lanes, ..plan };
                let plan = plan.beginning(problem, self.on);
                for plan in [plan, whole(plan)] {
                    if plan.check(self.on.0).is_err() {
                        continue;
                    }
                    let roles = [
                        (true, AttentionRole::Attention),
                        (plan.splits > 1, AttentionRole::Combination),
                        (plan.sorted, AttentionRole::Schedule),
                    ];
                    let roles = roles.into_iter().filter(|(has, _)| *has);
                    all.extend(roles.map(|(_, role)| (plan.built(), role)));
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::attention::family::HEADS;
    use crate::attention::problem::Sequences;
    use colex_atom::Ty;

    /// Numbers from 0 to `below`, excluded.
    fn numbers(mut state: u64) -> impl FnMut(i64) -> i64 {
        move |below| {
            state = state
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1_442_695_040_888_963_407);
            ((state >> 33) as i64) % below
        }
    }

    /// Every kernel of every plan that a call takes whose lengths are in the range is among those that are loaded ahead: for drawn
    /// heads, features, masks, devices and ranges, of sequences of one length, of packed ones and of keys in pages.
    #[test]
    fn law_the_kernels_of_a_range_are_those_of_its_calls() {
        let mut below = numbers(21);
        let (mut cases, mut found, mut most) = (0, HashSet::new(), 0);
        let devices = [
            (Arch::Sm80, 108),
            (Arch::Sm86, 84),
            (Arch::Sm90a, 132),
            (Arch::Sm90a, 114),
        ];
        for round in 0..240 {
            let on = devices[round % 4];
            let features = HEADS[below(HEADS.len() as i64) as usize];
            let of_keys = 1 << below(4);
            let heads = [of_keys * [1, 1, 3, 4, 8, 16][below(6) as usize], of_keys];
            let mut problem = AttentionProblem::new(Ty::Bf16, 1, heads, [1, 1], features);
            problem.mask = match below(4) {
                0 | 1 => Mask::Full,
                2 => Mask::Causal,
                _ => Mask::Window {
                    left: 100,
                    right: 3,
                },
            };
            problem.softcap = (below(5) == 0).then_some(30.0);
            let kind = below(4);
            let places = |problem: &mut AttentionProblem| {
                let [queries, keys] = problem.lengths;
                let packed = |of: i64| Sequences::Packed {
                    rows: (problem.batch * of).min(MOST_LENGTH),
                };
                problem.sequences = match kind {
                    0 | 1 => [Sequences::Batch; 2],
                    2 => [packed(queries), packed(keys)],
                    _ => [
                        Sequences::Batch,
                        Sequences::Paged {
                            pages: 1 << 20,
                            rows: 16,
                            entries: keys / 16 + 1,
                            strides: [keys / 16 + 1, 1],
                        },
                    ],
                };
            };
            places(&mut problem);
            let mut range = |ends: &[i64]| {
                let two = [0, 0].map(|_| {
                    let end = ends[below(ends.len() as i64) as usize];
                    (end + below(end / 2 + 1)).min(MOST_LENGTH)
                });
                two[0].min(two[1])..=two[0].max(two[1])
            };
            let range = AttentionRange {
                sequences: range(&[1, 1, 3, 64, 900]),
                queries: range(&[1, 1, 2, 10, 100, 1000, 9000]),
                keys: range(&[0, 1, 40, 300, 1200, 8000, 131_072, 1 << 24, 1 << 28]),
            };
            let operands = AttentionOperands::of(&problem, [0; 4]);
            let method = [None, None, Some(AttentionMethod::Ampere)][below(3) as usize];
            let ahead = kernels((&problem, operands), method, on, &range).expect("kernels");
            most = most.max(ahead.len());
            for _ in 0..60 {
                let mut of = |range: &RangeInclusive<i64>| {
                    let (first, last) = (*range.start(), *range.end());
                    match below(6) {
                        0 => first,
                        1 => last,
                        _ => first + below(last - first + 1),
                    }
                };
                let mut one = AttentionProblem {
                    batch: of(&range.sequences),
                    lengths: [of(&range.queries), of(&range.keys)],
                    ..problem
                };
                places(&mut one);
                let plan = match method {
                    Some(method) => {
                        let plan = AttentionPlan::new(method, operands).suited_to(&one, on.1);
                        plan.beginning(&one, on)
                    }
                    None => {
                        let plan = AttentionPlan::fastest(&one, operands, on.0, on.1);
                        plan.expect("a plan")
                    }
                };
                let mut needed = vec![
                    (plan.built(), AttentionRole::Attention),
                    (whole(plan).built(), AttentionRole::Attention),
                ];
                needed
                    .extend((plan.splits > 1).then(|| (plan.built(), AttentionRole::Combination)));
                needed.extend((plan.sorted).then(|| (plan.built(), AttentionRole::Schedule)));
                for kernel in needed {
                    assert!(
                        ahead.contains(&kernel),
                        "{one} on {on:?}, {range:?}: {} as {:?}",
                        kernel.0,
                        kernel.1
                    );
                    found.insert(kernel);
                }
                cases += 1;
            }
        }
        assert!(
            most < 256,
            "a device keeps 256 kernels, and a range has {most}"
        );
        assert!(found.iter().any(|(plan, _)| plan.sorted));
        println!(
            "law attention.ahead: {cases} cases, {} kernels, at most {most} of a range",
            found.len()
        );
    }

    /// A range whose last calls have more keys than the Hopper kernel takes has its kernels for the first ones; one that begins with as
    /// many has none.
    #[test]
    fn ranges_that_a_method_takes_in_part_have_its_kernels() {
        let problem = AttentionProblem::new(Ty::F16, 1, [8, 2], [1, 1], [64; 2]);
        let operands = AttentionOperands::of(&problem, [0; 4]);
        let of = |keys| {
            let range = AttentionRange {
                sequences: 1..=4,
                queries: 1..=8192,
                keys,
            };
            let all = kernels((&problem, operands), None, (Arch::Sm90a, 132), &range);
            let all = all.expect("kernels");
            AttentionMethod::BY_SPEED
                .map(|method| all.iter().any(|(plan, _)| plan.method == method))
        };
        let both = of(0..=4096);
        assert_eq!(both, [true; 2]);
        for end in [(1 << 24) - 1, 1 << 24, 1 << 28] {
            assert_eq!(of(0..=end), both, "{end}");
        }
        let no_hopper = AttentionMethod::BY_SPEED.map(|method| method != AttentionMethod::Hopper);
        assert_eq!(of(1 << 24..=1 << 28), no_hopper);
    }

    #[test]
    fn ranges_that_no_call_has_are_refused() {
        let problem = AttentionProblem::new(Ty::F16, 1, [8, 2], [1, 1], [64; 2]);
        let operands = AttentionOperands::of(&problem, [0; 4]);
        let range = AttentionRange {
            sequences: 1..=2,
            queries: 1..=1,
            keys: 1..=9,
        };
        let of = |problem: &AttentionProblem, arch, method, range: &AttentionRange| {
            kernels((problem, operands), method, (arch, 132), range)
        };
        #[allow(clippy::reversed_empty_ranges, reason = "it is refused")]
        let refused = [
            AttentionRange {
                sequences: -1..=2,
                ..range.clone()
            },
            AttentionRange {
                queries: 3..=2,
                ..range.clone()
            },
            AttentionRange {
                keys: 0..=(1 << 28) + 1,
                ..range.clone()
            },
        ];
        let mut sentences = refused.map(|range| {
            let error = of(&problem, Arch::Sm80, None, &range);
            error.expect_err("it is refused").to_string()
        });
        assert_eq!(
            sentences,
            [
                "the range of the number of sequences is -1..=2: its numbers must ascend, from 0 to 2147483647",
                "the range of the number of queries is 3..=2: its numbers must ascend, from 0 to 268435456",
                "the range of the number of keys is 0..=268435457: its numbers must ascend, from 0 to 268435456",
            ]
        );
        let error = of(&problem, Arch::Sm80, Some(AttentionMethod::Hopper), &range);
        sentences[0] = error.expect_err("it is refused").to_string();
        let error = of(&problem, Arch::Sm75, None, &range);
        sentences[1] = error.expect_err("it is refused").to_string();
        assert_eq!(
            sentences[..2],
            [
                "the Hopper kernel runs on sm_90a, and not on sm_80",
                "no kernel takes the call: the Hopper kernel runs on sm_90a, and not on sm_75; the Ampere kernel runs since \
                 sm_80, and not on sm_75",
            ]
        );
        let nothing = AttentionRange {
            queries: 0..=0,
            ..range
        };
        let none = of(&problem, Arch::Sm80, None, &nothing);
        assert_eq!(none.map(|kernels| kernels.len()), Ok(0));
    }
}
