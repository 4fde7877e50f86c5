//! Attention on a device, against a softmax in double precision.

pub mod families;
pub mod options;
pub mod pages;

use colex_atom::{Arch, Ty};
use colex_gpu::attention::{
    Attention, AttentionMethod, AttentionOperands, AttentionPlan, AttentionProblem,
    AttentionTensor, Mask, reference,
};
use colex_gpu::kernels::GemmElement;
use colex_gpu::{Buffer, Device, View, ViewMut};
use colex_layout::Layout;
use half::{bf16, f16};
use std::collections::HashSet;

use crate::soak::takes;
use crate::sweep::Random;

/// Computes drawn problems on a device, and compares every element: types, head sizes, lengths, groups, masks, soft-caps,
/// strides, alignments, magnitudes, sinks and plans, packs of heads and parts of the keys among them. On a GPU each problem is
/// computed by plans of every kernel. Elements outside of the tensors are NaN, and stay. A second run of each plan has the same
/// bits. Returns the number of elements, and that of the plans.
///
/// # Errors
///
/// Returns the first problem whose result is wrong, in words.
pub fn check(device: &Device, seed: u64, rounds: usize) -> Result<ElementsAndPlans, String> {
    let mut r = Random::of(seed, "attention");
    let mut counts = [0; 2];
    for round in 0..rounds {
        let run = if r.one_in(2) { run::<f16> } else { run::<bf16> };
        let found = run(device, &mut r, round);
        let found = found.map_err(|why| format!("round {round} of {seed}: {why}"))?;
        add(&mut counts, found);
    }
    Ok(counts)
}

fn run<T: GemmElement>(
    device: &Device,
    r: &mut Random,
    round: usize,
) -> Result<ElementsAndPlans, String> {
    let case = AttentionCase::<T>::draw(r, WIDTHS[round % WIDTHS.len()])?;
    case.run(device, |usual| some_plans(device, r, &case.problem, usual))
}

/// Draws a problem of tensors of `ty` and heads of these sizes.
fn draw(r: &mut Random, ty: Ty, [inner, outer]: [i64; 2]) -> AttentionProblem {
    // A step of serving has few queries, and more heads of Q for each head of K.
    let serves = r.one_in(3);
    let of_keys = 1 + r.below(2_i64);
    let heads = of_keys * r.one(if serves { &[1, 4, 6, 8] } else { &[1, 2, 3] });
    let batch = 1 + r.below(2_i64);
    // Large heads have short sequences: the simulator takes as long for each product.
    let most = (64 * 200 / inner).max(80);
    let length = |r: &mut Random| match r.below(8_u64) {
        0 => 1,
        1 => 64 * (1 + r.below(2_i64)),
        _ => 1 + r.below(most),
    };
    let queries = if serves {
        1 + r.below(3_i64)
    } else {
        length(r)
    };
    let lengths = [queries, if r.one_in(12) { 0 } else { length(r) }];
    let mut problem = AttentionProblem::new(ty, batch, [heads, of_keys], lengths, [inner, outer]);
    problem.mask = match r.below(4_u64) {
        0 => Mask::Full,
        1 | 2 => Mask::Causal,
        _ => {
            let side = |r: &mut Random| match r.below(4_u64) {
                0 => 0,
                1 => u32::MAX,
                _ => r.below(90_u32),
            };
            let [left, right] = [side(r), side(r)];
            Mask::Window { left, right }
        }
    };
    if r.one_in(3) {
        problem.softcap = Some(r.one(&[0.5, 5.0, 50.0, 1000.0]));
    }
    if r.one_in(3) {
        problem.scale *= r.one(&[0.1, 3.0]);
    }
    for tensor in AttentionTensor::ALL {
        let [batch, heads, length, features] = problem.extents(tensor);
        let pad = r.one(&[8, 8, 8, 4, 2, 1]);
        let extents = [batch, heads, length];
        let mut strides = [0, 0, 0, 1];
        let mut next = features;
        for mode in r.permutation(3) {
            strides[mode] = next + pad * r.below(3_i64);
            next = strides[mode] * extents[mode].max(1);
        }
        problem.strides[tensor as usize] = strides;
    }
    // One tensor for all sequences, or one head for all: no memory holds it twice.
    if r.one_in(6) {
        for tensor in [AttentionTensor::Q, AttentionTensor::K, AttentionTensor::V] {
            if r.one_in(2) {
                problem.strides[tensor as usize][r.below(2_usize)] = 0;
            }
        }
    }
    if r.one_in(2) {
        let [batch, heads, length, _] = problem.extents(AttentionTensor::O);
        let sums = [[heads * length, length, 1], [1, length * batch, batch]];
        problem.log_sum_exp = true;
        problem.sum_strides = r.one(&sums);
    }
    problem.sinks = r.one_in(3).then(|| r.below(3_i64));
    problem
}

/// Draws the sinks of the heads of a problem: numbers, and -inf. The vector is empty where the problem has none.
pub(super) fn sinks(r: &mut Random, problem: &AttentionProblem) -> Vec<f32> {
    let stride = problem.sinks.unwrap_or(0);
    let count = 1 + (problem.heads[0] - 1) * stride;
    let number = |_| match r.below(6_u64) {
        0 => f32::NEG_INFINITY,
        1 => 60.0,
        _ => r.below(800_i16).into(),
    };
    let drawn = (0..count).map(number);
    // Most are about as large as scores.
    let all = drawn.map(|x: f32| if x > 60.0 { x / 100.0 - 4.0 } else { x });
    problem.sinks.map_or(Vec::new(), |_| all.collect())
}

/// The layout of a tensor; `None` if it has no element.
fn layout(problem: &AttentionProblem, tensor: AttentionTensor) -> Option<Layout> {
    problem.layout(tensor).ok()
}

/// Memory for a tensor, from this element on, with drawn numbers in its elements and NaN elsewhere.
fn filled<T: GemmElement>(
    r: &mut Random,
    layout: Option<&Layout>,
    first: usize,
    magnitude: f64,
) -> Result<Vec<T>, String> {
    let Some(layout) = layout else {
        return Ok(vec![T::from_f64(f64::NAN); first + 8]);
    };
    let length = layout.cosize().map_err(|e| e.to_string())? as usize;
    let mut all = vec![T::from_f64(f64::NAN); first + length];
    for offset in layout.offsets().map_err(|e| e.to_string())? {
        let number = r.below(4001_i32) - 2000;
        all[first + offset as usize] = T::from_f64(f64::from(number) / 1000.0 * magnitude);
    }
    Ok(all)
}

/// The numbers of a drawn call on packed sequences, or on keys in pages.
#[derive(Clone, Copy)]
pub(in crate::kernels) enum Numbers {
    /// Finite ones: scores of some tens, or of thousands.
    Finite,
    /// NaN, inf and -inf among small ones.
    Special,
}

impl Numbers {
    /// Draws the size of the elements of Q and K.
    pub(in crate::kernels) fn magnitude(self, r: &mut Random) -> f64 {
        match self {
            Numbers::Finite => r.one(&[1.0, 1.0, 1.0, 20.0]),
            Numbers::Special => 0.5,
        }
    }

    /// Puts up to three specials among the numbers of Q, K and V, in rows of sequences: elsewhere these have NaN already. In one of
    /// three cases every 64th number of K is -inf too.
    pub(in crate::kernels) fn plant<T: GemmElement>(self, r: &mut Random, given: [&mut [T]; 3]) {
        let Numbers::Special = self else {
            return;
        };
        let specials = [f64::NAN, f64::INFINITY, f64::NEG_INFINITY];
        let is_number = |(_, x): &(usize, &T)| !x.to_f64().is_nan();
        let places = |all: &[T]| -> Vec<usize> {
            let numbers = all.iter().enumerate().filter(is_number);
            numbers.map(|(i, _)| i).collect()
        };
        let first = r.below(3_usize);
        let count = 1 + r.below(3_usize);
        let is_row = r.one_in(3);
        for (i, all) in given.into_iter().enumerate() {
            let places = places(all);
            if places.is_empty() {
                continue;
            }
            if i == 1 && is_row {
                for at in places.iter().step_by(64) {
                    all[*at] = T::from_f64(f64::NEG_INFINITY);
                }
            }
            if (i + 3 - first) % 3 < count {
                all[r.one(&places)] = T::from_f64(r.one(&specials));
            }
        }
    }
}

/// The head sizes that both kernels take: features of Q and K, and of V and O.
pub(in crate::kernels) const WIDTHS: [[i64; 2]; 6] = [
    [64, 64],
    [96, 96],
    [128, 128],
    [192, 128],
    [192, 192],
    [256, 256],
];

/// A problem with the numbers of its tensors.
struct AttentionCase<T> {
    problem: AttentionProblem,
    /// Q, K and V, from the element on at which each begins.
    given: [Vec<T>; 3],
    /// The elements before each tensor, and before O.
    first: [usize; 4],
    sinks: Vec<f32>,
}

/// The number of elements that were compared, and of the plans that wrote them.
pub type ElementsAndPlans = [usize; 2];

impl<T: GemmElement> AttentionCase<T> {
    /// Draws a problem with its numbers: scores of some tens, or of thousands.
    fn draw(r: &mut Random, widths: [i64; 2]) -> Result<AttentionCase<T>, String> {
        let problem = draw(r, T::TY, widths);
        let magnitude = r.one(&[1.0, 1.0, 1.0, 20.0]);
        let first = AttentionTensor::ALL.map(|_| r.one(&[0, 0, 0, 8, 4, 1]));
        AttentionCase::of(r, problem, magnitude, first)
    }

    /// Draws the numbers of a problem.
    fn of(
        r: &mut Random,
        problem: AttentionProblem,
        magnitude: f64,
        first: [usize; 4],
    ) -> Result<AttentionCase<T>, String> {
        let tensors = AttentionTensor::ALL.map(|tensor| layout(&problem, tensor));
        let [q, k, v] = [0, 1, 2].map(|i| {
            let magnitude = if i < 2 { magnitude } else { 1.0 };
            filled::<T>(r, tensors[i].as_ref(), first[i], magnitude)
        });
        Ok(AttentionCase {
            problem,
            given: [q?, k?, v?],
            first,
            sinks: sinks(r, &problem),
        })
    }

    /// Runs the plans that `plans` returns for the default plan of the call, this one among them, each twice: the second run has the
    /// same bits. Compares every element of each. A plan that the problem does not take is left out.
    fn run(
        &self,
        device: &Device,
        plans: impl FnOnce(AttentionPlan) -> Vec<AttentionPlan>,
    ) -> Result<ElementsAndPlans, String> {
        let (problem, first) = (&self.problem, self.first);
        let what = problem.to_string();
        let text = |e: &dyn std::fmt::Display| format!("{what}: {e}");
        let tensors = AttentionTensor::ALL.map(|tensor| layout(problem, tensor));
        let upload = |elements: &[T]| device.upload(elements).map_err(|e| text(&e));
        let [q, k, v] = &self.given;
        let (on_q, on_k, on_v) = (upload(q)?, upload(k)?, upload(v)?);
        let [.., of_o] = &tensors;
        let of_o = of_o.as_ref().expect("there are queries");
        let length = first[3] + of_o.cosize().map_err(|e| text(&e))? as usize;
        let on_o = device.poisoned::<T>(length).map_err(|e| text(&e))?;
        let [batch, heads, queries, outer] = problem.extents(AttentionTensor::O);
        let on_sinks = upload_or_one(device, &self.sinks).map_err(|e| text(&e))?;
        let on_sums = device
            .poisoned::<f32>((batch * heads * queries) as usize)
            .map_err(|e| text(&e))?;
        let mut sums_of_call = on_sums.clone();
        let downloaded = || {
            let o = on_o.download().map_err(|e| text(&e))?;
            Ok::<_, String>((o, on_sums.download().map_err(|e| text(&e))?))
        };
        let at = |buffer: &Buffer<T>, i: usize| {
            let count = buffer.len();
            buffer.slice(first[i]..count).map_err(|e| text(&e))
        };
        let (q, k, v) = (at(&on_q, 0)?, at(&on_k, 1)?, at(&on_v, 2)?);
        let mut o = on_o.slice(first[3]..length).map_err(|e| text(&e))?;
        let view = |buffer, i: usize| match &tensors[i] {
            Some(layout) => View::new(buffer, layout),
            None => View::row_major(buffer, problem.extents(AttentionTensor::ALL[i])),
        };
        let [q, k, v] = [(&q, 0), (&k, 1), (&v, 2)].map(|(buffer, i)| view(buffer, i));
        let (q, k, v) = (
            q.map_err(|e| text(&e))?,
            k.map_err(|e| text(&e))?,
            v.map_err(|e| text(&e))?,
        );
        let o = ViewMut::new(&mut o, of_o).map_err(|e| text(&e))?;
        let mut call = Attention::new(&q, &k, &v, &o)
            .mask(problem.mask)
            .scale(problem.scale);
        if let Some(cap) = problem.softcap {
            call = call.softcap(cap);
        }
        let sums;
        if problem.log_sum_exp {
            let layout =
                Layout::new([batch, heads, queries], problem.sum_strides).map_err(|e| text(&e))?;
            sums = ViewMut::new(&mut sums_of_call, layout).map_err(|e| text(&e))?;
            call = call.log_sum_exp(&sums);
        }
        let of_sinks;
        if let Some(stride) = problem.sinks {
            let layout = Layout::new(heads, stride).map_err(|e| text(&e))?;
            of_sinks = View::new(&on_sinks, layout).map_err(|e| text(&e))?;
            call = call.sinks(&of_sinks);
        }
        let parts = [
            &self.given[0][first[0]..],
            &self.given[1][first[1]..],
            &self.given[2][first[2]..],
        ];
        let expected = Expected::of(problem, parts, &self.sinks);
        let usual = call.plan().map_err(|e| text(&e))?;
        let mut counts = [0; 2];
        for plan in plans(usual) {
            // What the call itself takes is prepared as a program does.
            let prepared = if plan == usual {
                call.prepare()
            } else {
                call.prepare_with(|_, _| Ok(plan))
            };
            // A drawn plan may be more than a block has.
            let prepared = match prepared {
                Err(error) if error.plan().is_some() && plan != usual => continue,
                other => other.map_err(|e| text(&e))?,
            };
            let run = || {
                // NaN in every element: each run has to write all of them.
                on_o.fill_bytes(0xff).map_err(|e| text(&e))?;
                on_sums.fill_bytes(0xff).map_err(|e| text(&e))?;
                let run = prepared.run(device);
                run.map_err(|e| format!("{what}, {prepared}: {e}"))?;
                downloaded()
            };
            let (found, again) = (run()?, run()?);
            if bits_of(&found.0) != bits_of(&again.0) || bits_of(&found.1) != bits_of(&again.1) {
                return Err(format!(
                    "{what}: two runs of the plan {prepared} differ in bits"
                ));
            }
            let written = Found {
                all: &found.0,
                first: first[3],
            };
            expected
                .compare(problem, written, &found.1)
                .map_err(|why| format!("{what}, {prepared}: {why}"))?;
            counts[0] += (batch * heads * queries * outer) as usize;
            counts[1] += 1;
        }
        Ok(counts)
    }
}

/// A drawn plan of the Ampere kernel for a problem: tiles, packs of heads, parts of the keys and early begins.
fn drawn_ampere(
    r: &mut Random,
    problem: &AttentionProblem,
    usual: &AttentionPlan,
    arch: Arch,
) -> AttentionPlan {
    let [consumers, rows] = r.one(&[[1, 16], [2, 32], [3, 48], [4, 64], [4, 128], [6, 96]]);
    let group = problem.heads[0] / problem.heads[1];
    let divisors: Vec<i64> = (1..=group).filter(|n| group % n == 0).collect();
    let splits = r.one(&[1, 1, 2, 3, 7]);
    let early = arch >= Arch::Sm90 && r.one_in(2);
    AttentionPlan {
        tile: [rows, r.one(&[16, 32, 48, 64])],
        consumers,
        stages: 2 + r.below(2_i64),
        packs: r.one(&divisors),
        splits,
        by_lanes: splits > 1 && r.one_in(2),
        early,
        prefetch: (early && r.one_in(2)).then(|| r.below(4_i64)),
        next_early: early && splits > 1 && r.one_in(2),
        beside: r.below(3_i64),
        ..AttentionPlan::new(AttentionMethod::Ampere, usual.operands)
    }
}

/// A drawn plan of the Hopper kernel for a problem: consumers, rings, orders and clusters. Where heads are wide, it may be more than
/// a block has.
fn drawn_hopper(
    r: &mut Random,
    problem: &AttentionProblem,
    usual: &AttentionPlan,
) -> AttentionPlan {
    let consumers = 1 + r.below(3_i64);
    let cluster = match problem.mask {
        Mask::Full => r.one(&[1, 1, 2]),
        Mask::Causal | Mask::Window { .. } => 1,
    };
    let [turns, pairs, overlap, persistent, early] = [(); 5].map(|()| r.one_in(2));
    let [stages, ahead, strip] = [(); 3].map(|()| 1 + r.below(2_i64));
    AttentionPlan {
        tile: [64 * consumers, r.one(&[32, 48, 64, 80])],
        consumers,
        stages,
        turns: turns && consumers > 1,
        pairs: pairs && problem.mask == Mask::Causal,
        ahead,
        strip,
        overlap,
        persistent,
        cluster,
        early,
        ..AttentionPlan::new(AttentionMethod::Hopper, usual.operands)
    }
}

/// The plans of a problem that are run. On a GPU these are those that a call takes, the first ones of the model beside it, and drawn
/// ones of every kernel; the simulator runs one of them.
fn some_plans(
    device: &Device,
    r: &mut Random,
    problem: &AttentionProblem,
    usual: AttentionPlan,
) -> Vec<AttentionPlan> {
    let arch = device.arch();
    let mut drawn = vec![drawn_ampere(r, problem, &usual, arch)];
    if arch == Arch::Sm90a {
        drawn.push(drawn_hopper(r, problem, &usual));
    }
    if device.is_simulator() {
        return if r.one_in(2) {
            vec![usual]
        } else {
            vec![r.one(&drawn), usual]
        };
    }
    let mut all = vec![usual];
    let ranked = AttentionPlan::alternatives(
        problem,
        usual.operands,
        arch,
        device.limits().multiprocessors,
    );
    // One of each kernel, of whole keys and of parts of them.
    let kind = |plan: &AttentionPlan| (plan.method, plan.splits > 1);
    for plan in ranked {
        if !all.iter().any(|known| kind(known) == kind(&plan)) {
            all.push(plan);
        }
    }
    all.extend(drawn);
    all
}

/// Runs problems with NaN, inf and -inf in Q, K and V, by every kernel, and compares with the reference what reaches which element.
/// Returns the number of elements.
///
/// A NaN, or an infinity, of V may make a NaN of its feature for a query that does not see the key too.
///
/// # Errors
///
/// Returns the first problem whose result is wrong, in words.
pub fn check_special(
    device: &Device,
    seed: u64,
    rounds: usize,
) -> Result<ElementsAndPlans, String> {
    let mut r = Random::of(seed, "special");
    let mut counts = [0; 2];
    for round in 0..rounds {
        let run = if r.one_in(2) {
            run_special::<f16>
        } else {
            run_special::<bf16>
        };
        let found = run(device, &mut r, round);
        add(
            &mut counts,
            found.map_err(|why| format!("round {round} of {seed}: {why}"))?,
        );
    }
    Ok(counts)
}

fn run_special<T: GemmElement>(
    device: &Device,
    r: &mut Random,
    round: usize,
) -> Result<ElementsAndPlans, String> {
    let [inner, outer] = WIDTHS[round % WIDTHS.len()];
    let mut problem = draw(r, T::TY, [inner, outer]);
    let [batch, heads] = [problem.batch, problem.heads[1]];
    let lengths = problem.lengths.map(|n| n.clamp(1, 90));
    let compact = AttentionProblem::new(T::TY, batch, [heads * 2, heads], lengths, [inner, outer]);
    problem = AttentionProblem {
        mask: problem.mask,
        softcap: problem.softcap.filter(|_| round % 4 == 3),
        log_sum_exp: problem.log_sum_exp,
        sinks: problem.sinks,
        ..compact
    };
    let mut case = AttentionCase::<T>::of(r, problem, 0.5, [0; 4])?;
    let specials = [f64::NAN, f64::INFINITY, f64::NEG_INFINITY];
    for i in 0..1 + r.below(3_usize) {
        let given = &mut case.given[(round + i) % 3];
        let at = r.below(given.len());
        given[at] = T::from_f64(r.one(&specials));
    }
    // Of a row of keys, all are -inf: a query has the one or the other sign for them.
    if r.one_in(3) {
        let of_keys = &mut case.given[1];
        of_keys
            .iter_mut()
            .step_by(inner as usize)
            .for_each(|x| *x = T::from_f64(f64::NEG_INFINITY));
    }
    let plans = |usual| some_plans(device, r, &problem, usual);
    case.run(device, plans)
}

/// Adds the counts of a run.
pub(super) fn add(counts: &mut ElementsAndPlans, of_run: ElementsAndPlans) {
    for (sum, count) in counts.iter_mut().zip(of_run) {
        *sum += count;
    }
}

/// The plans of a problem in each of which one field, or two that belong together, has another number than the default.
fn fields(
    problem: &AttentionProblem,
    operands: AttentionOperands,
    arch: Arch,
) -> Vec<AttentionPlan> {
    let mut all = Vec::new();
    let mut add = |usual: &AttentionPlan, change: &dyn Fn(&mut AttentionPlan)| {
        let mut plan = *usual;
        change(&mut plan);
        if plan.check(arch).is_ok() && !all.contains(&plan) {
            all.push(plan);
        }
    };
    let group = problem.heads[0] / problem.heads[1];
    let ampere = AttentionPlan {
        tile: [16, 32],
        consumers: 1,
        ..AttentionPlan::new(AttentionMethod::Ampere, operands)
    };
    let changes: [&dyn Fn(&mut AttentionPlan); 13] = [
        &|_| {},
        &|plan| (plan.tile, plan.consumers) = ([64, 64], 4),
        &|plan| plan.stages = 4,
        &|plan| plan.packs = group,
        &|plan| plan.beside = 1,
        &|plan| plan.splits = 3,
        &|plan| (plan.splits, plan.by_lanes) = (5, true),
        &|plan| plan.early = true,
        &|plan| (plan.early, plan.splits) = (true, 3),
        &|plan| (plan.early, plan.splits, plan.next_early) = (true, 3, true),
        &|plan| (plan.early, plan.prefetch) = (true, Some(0)),
        &|plan| (plan.early, plan.prefetch) = (true, Some(8)),
        &|plan| {
            (plan.early, plan.splits, plan.by_lanes) = (true, 4, true);
            (plan.next_early, plan.prefetch, plan.beside) = (true, Some(2), 2);
        },
    ];
    for change in changes {
        add(&ampere, change);
    }
    let hopper = AttentionPlan {
        tile: [128, 32],
        consumers: 2,
        stages: 2,
        ..AttentionPlan::new(AttentionMethod::Hopper, operands)
    };
    let changes: [&dyn Fn(&mut AttentionPlan); 15] = [
        &|_| {},
        &|plan| plan.early = true,
        &|plan| plan.turns = !plan.turns,
        &|plan| plan.overlap = !plan.overlap,
        &|plan| (plan.turns, plan.overlap) = (!plan.turns, !plan.overlap),
        &|plan| plan.pairs = !plan.pairs,
        &|plan| plan.strip = 2,
        &|plan| plan.ahead = 3 - plan.ahead,
        &|plan| plan.persistent = false,
        &|plan| (plan.tile[0], plan.consumers, plan.turns) = (64, 1, false),
        &|plan| (plan.tile[0], plan.consumers) = (192, 3),
        &|plan| plan.stages = 3,
        &|plan| plan.registers = Some([24, 208]),
        &|plan| plan.cluster = 2,
        &|plan| (plan.cluster, plan.tile[1], plan.early) = (4, 64, true),
    ];
    for change in changes {
        add(&hopper, change);
    }
    all
}

/// Runs each field of a plan with another number than the default, by every kernel, in problems whose tiles fill each ring
/// several times: clusters, early begins, steps asked for ahead, orders of the products and of the tiles. Compares every element.
/// Returns the number of elements, and of plans.
///
/// # Errors
///
/// Returns the first problem whose result is wrong, in words.
pub fn check_fields(device: &Device) -> Result<ElementsAndPlans, String> {
    let mut r = Random::of(47, "fields");
    let mut counts = [0; 2];
    let arch = device.arch();
    for (number, (mask, features, lengths)) in [
        (Mask::Full, [64, 64], [150, 200]),
        (Mask::Causal, [128, 128], [150, 170]),
        (Mask::Window { left: 70, right: 5 }, [192, 128], [70, 140]),
        (Mask::Full, [128, 128], [3, 210]),
    ]
    .into_iter()
    .enumerate()
    {
        let problem = AttentionProblem::new(f16::TY, 1, [4, 2], lengths, features).mask(mask);
        let problem = AttentionProblem {
            log_sum_exp: true,
            ..problem
        };
        let case = AttentionCase::<f16>::of(&mut r, problem, 1.0, [0; 4])?;
        let found = case.run(device, |usual| {
            let all = fields(&problem, usual.operands, arch);
            // The simulator runs a part of them, of each problem another.
            let runs = |i: &usize| !device.is_simulator() || takes(11, i + number);
            let all = all.into_iter().enumerate().filter(|(i, _)| runs(i));
            all.map(|(_, plan)| plan).collect()
        });
        add(&mut counts, found?);
    }
    Ok(counts)
}

/// The bits of the values of elements.
fn bits_of<T: GemmElement>(elements: &[T]) -> Vec<u64> {
    elements.iter().map(|x| x.to_f64().to_bits()).collect()
}

/// Uploads numbers, or one number if there are none.
pub(super) fn upload_or_one(device: &Device, numbers: &[f32]) -> Result<Buffer<f32>, String> {
    let numbers = if numbers.is_empty() { &[0.0] } else { numbers };
    device.upload(numbers).map_err(|e| e.to_string())
}

/// What a kernel has written: the output begins at element `first`.
pub(super) struct Found<'a, T> {
    pub(super) all: &'a [T],
    pub(super) first: usize,
}

/// What the reference says of a problem, and how far a kernel may be from it.
pub(super) struct Expected {
    right: reference::AttentionOutput,
    /// Its outputs are the means of the sizes of the values, which bound the errors of the output.
    sizes: reference::AttentionOutput,
    /// Its log-sum-exps are above the largest sums of the sizes of a score's products, which bound the errors of scores.
    largest: reference::AttentionOutput,
    /// The values that are no numbers: (sequence, head of keys, feature).
    specials: HashSet<[usize; 3]>,
    /// The rounding of the type.
    unit: f64,
}

impl Expected {
    pub(super) fn of<T: GemmElement>(
        problem: &AttentionProblem,
        [q, k, v]: [&[T]; 3],
        sinks: &[f32],
    ) -> Expected {
        // A row with an infinite score has no bound of its own.
        let size = |all: &[T]| -> Vec<T> {
            let size = all.iter().map(|x| x.to_f64().abs());
            let finite = size.map(|x| if x.is_finite() { x } else { 0.0 });
            finite.map(T::from_f64).collect()
        };
        let [of_q, of_k, of_v] = [q, k, v].map(size);
        let plain = AttentionProblem {
            softcap: None,
            sinks: None,
            ..*problem
        };
        let mut specials = HashSet::new();
        let [batch, heads, keys, features] = problem.extents(AttentionTensor::V);
        if v.iter().any(|x| !x.to_f64().is_finite()) {
            let strides = problem.strides[AttentionTensor::V as usize];
            for at in (0..batch * heads * keys * features).map(|i| {
                let (i, feature) = (i / features, i % features);
                [i / keys / heads, i / keys % heads, i % keys, feature]
            }) {
                let offset: i64 = at.iter().zip(strides).map(|(x, stride)| x * stride).sum();
                if !v[offset as usize].to_f64().is_finite() {
                    let [batch, head, _, feature] = at.map(|x| x as usize);
                    specials.insert([batch, head, feature]);
                }
            }
        }
        Expected {
            right: reference::attention_with_sinks(problem, q, k, v, sinks),
            sizes: reference::attention_with_sinks(problem, q, k, &of_v, sinks),
            largest: reference::attention(&plain, &of_q, &of_k, &of_v),
            specials,
            unit: if T::TY == Ty::F16 {
                2f64.powi(-11)
            } else {
                2f64.powi(-8)
            },
        }
    }

    /// Compares what a kernel has written, and the sums. Where the reference is NaN, so is the kernel; where it is infinite, the kernel
    /// is as infinite, or NaN.
    pub(super) fn compare<T: GemmElement>(
        &self,
        problem: &AttentionProblem,
        found: Found<'_, T>,
        sums: &[f32],
    ) -> Result<(), String> {
        let Found { all: found, first } = found;
        let mut is_own = vec![false; found.len()];
        let strides = problem.strides[AttentionTensor::O as usize];
        let group = (problem.heads[0] / problem.heads[1].max(1)) as usize;
        for ((b, h, i, d), right) in self.right.output.indexed_iter() {
            let at = [b, h, i, d].into_iter().zip(strides);
            let at: i64 = at.map(|(x, stride)| x as i64 * stride).sum();
            is_own[first + at as usize] = true;
            let score = score_error(problem, self.largest.log_sum_exp[(b, h, i)]);
            let found = found[first + at as usize].to_f64();
            let allowed = self.sizes.output[(b, h, i, d)] * (3.0 * self.unit + 2.0 * score) + 1e-6;
            let is_right = if right.is_finite() {
                // A key that is not seen has a weight of 0, which makes a NaN of a value that is no number.
                let may_be_nan = self.specials.contains(&[b, h / group, d]);
                (found - right).abs() <= allowed || (may_be_nan && found.is_nan())
            } else {
                found.is_nan() || found == *right
            };
            if !is_right {
                return Err(format!(
                    "O({b},{h},{i},{d}) is {found} and should be {right}: {allowed:.2e} is allowed"
                ));
            }
        }
        let beyond = found
            .iter()
            .zip(&is_own)
            .find(|(x, own)| !**own && !x.to_f64().is_nan());
        if beyond.is_some() {
            return Err("memory outside of O was written".into());
        }
        if !problem.log_sum_exp {
            return Ok(());
        }
        let strides = problem.sum_strides;
        for ((b, h, i), right) in self.right.log_sum_exp.indexed_iter() {
            let at = [b, h, i].into_iter().zip(strides);
            let at: i64 = at.map(|(x, stride)| x as i64 * stride).sum();
            let found = f64::from(sums[at as usize]);
            let allowed =
                score_error(problem, self.largest.log_sum_exp[(b, h, i)]) + right.abs() * 1e-6;
            let is_right = if right.is_finite() {
                (found - right).abs() <= allowed
            } else {
                found == *right || (found.is_nan() && right.is_nan())
            };
            if !is_right {
                return Err(format!(
                    "the log-sum-exp ({b},{h},{i}) is {found} and should be {right}: {allowed:.2e} is allowed"
                ));
            }
        }
        Ok(())
    }
}

/// The error of a score that is summed in f32: a rounding of the largest partial sum for each instruction and product in it,
/// that of the powers, and that of the capping function, which is below 1e-3 for every cap.
fn score_error(problem: &AttentionProblem, largest: f64) -> f64 {
    let largest = if largest.is_finite() {
        largest.abs()
    } else {
        0.0
    };
    let capping = (f64::from(problem.softcap.unwrap_or(0.0)) * 2f64.powi(-20)).min(1e-3);
    let rounding = (problem.features[0] as f64 / 4.0 + 4.0) * 2f64.powi(-24);
    largest * rounding + capping + 1e-5
}
