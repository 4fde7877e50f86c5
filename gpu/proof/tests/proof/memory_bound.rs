//! The family of plans for kernels that memory limits: plans of any numbers are right on the simulator, or refused.

use colex_atom::{Arch, Ty};
use colex_gpu::elementwise::{
    ElementwisePlan, ElementwiseProblem, Gather, Map, MapExpression, Pairing, Rotary,
};
use colex_gpu::kernels::GemmElement;
use colex_gpu::memory_bound::Traffic;
use colex_gpu::quantise::{Quantise, QuantisePlan, TensorScalePlan};
use colex_gpu::reduce::scan::{Scan, ScanPlan};
use colex_gpu::reduce::top_k::{TopK, TopKPlan};
use colex_gpu::reduce::{Reduce, ReduceFunction, ReducePlan, ReduceProblem};
use colex_gpu::rowwise::{RowFunction, RowStorage, Rowwise, RowwisePlan};
use colex_gpu::sim::{Schedule, SimOptions};
use colex_gpu::{Buffer, Device, Error, PlanRefusal, View, ViewMut};
use colex_layout::Layout;
use colex_proof::kernels::rowwise::compare_row;
use colex_proof::sweep::Random;
use half::{bf16, f16};

mod quantised_rows;
mod traffic;

/// The plans that a law draws of each type, and of those that are accepted the part that runs, of rows, which have many functions and
/// storages, and of all others.
const DRAWN: usize = 2000;
const ROWS_RUN: usize = 4;
const RUNS: usize = 16;

fn simulator(arch: Arch, seed: u64) -> Device {
    let options = SimOptions::default().schedule(Schedule::from_seed(seed));
    Device::simulator_with(arch, options)
}

/// A number of a plan: one of the usual ones, or any.
fn number(r: &mut Random, usual: &[i64]) -> i64 {
    match r.below(16_u64) {
        0 => r.one(&[3, 0, -1, 48, 1 << 31, 1 << 62, i64::MIN, i64::MAX]),
        _ => r.one(usual),
    }
}

/// How many plans a law has drawn, and what became of them.
struct Tally {
    /// One accepted plan of this many runs.
    one_of: usize,
    refused: usize,
    accepted: usize,
    ran: usize,
}

impl Default for Tally {
    fn default() -> Tally {
        Tally::running(RUNS)
    }
}

impl Tally {
    fn running(one_of: usize) -> Tally {
        Tally {
            one_of,
            refused: 0,
            accepted: 0,
            ran: 0,
        }
    }

    /// Takes a plan, with the answer of the call if the checks refuse it: it is refused as a plan. Returns whether the plan runs.
    fn takes(&mut self, plan: &str, refused: Option<Result<(), Error>>) -> bool {
        if let Some(answer) = refused {
            let error = answer.expect_err("the checks refuse the plan");
            assert!(error.plan().is_some(), "{plan}: {error}");
            self.refused += 1;
            return false;
        }
        self.accepted += 1;
        let runs = self.accepted % self.one_of == 1;
        self.ran += usize::from(runs);
        runs
    }

    fn report(self, name: &str) {
        let Tally {
            refused,
            accepted,
            ran,
            ..
        } = self;
        println!(
            "law memory_bound.{name}: {DRAWN} cases, {accepted} accepted, {refused} refused, {ran} ran"
        );
        assert!(
            accepted > DRAWN / 20 && refused > DRAWN / 20 && ran > 0,
            "{name}: {accepted} of {DRAWN} plans are accepted"
        );
    }
}

/// Numbers of which every sum is exact.
fn whole(r: &mut Random, count: usize) -> Vec<i32> {
    (0..count)
        .map(|_| r.below(2001_u64) as i32 - 1000)
        .collect()
}

const ARCHS: [Arch; 3] = [Arch::Sm70, Arch::Sm80, Arch::Sm90a];

/// Numbers on the host, and as elements on a device.
struct Numbers<T> {
    host: Vec<f64>,
    device: Buffer<T>,
}

impl<T: GemmElement> Numbers<T> {
    fn drawn(device: &Device, r: &mut Random, count: i64) -> Numbers<T> {
        let all = whole(r, count as usize).into_iter();
        let all: Vec<T> = all.map(|x| T::from_f64(f64::from(x) / 64.0)).collect();
        Numbers {
            host: all.iter().map(|x| x.to_f64()).collect(),
            device: device.upload(&all).expect("memory"),
        }
    }

    fn view(&self, layout: &Layout) -> View<'_, T> {
        View::new(&self.device, layout).expect("a view")
    }
}

/// Plans of every function of rows, in every type: with a residual, a weight and a bias where the function has them.
#[test]
fn law_drawn_plans_of_rows_are_right_or_refused() {
    let mut r = Random::of(21, "rows");
    let mut tally = Tally::running(ROWS_RUN);
    for i in 0..DRAWN {
        let device = simulator(r.one(&ARCHS), i as u64);
        let drawn = r.one(&[drawn_rows::<f32>, drawn_rows::<bf16>, drawn_rows::<f16>]);
        drawn(&device, &mut r, &mut tally, i);
    }
    tally.report("rows");
}

fn drawn_rows<T: GemmElement>(device: &Device, r: &mut Random, tally: &mut Tally, case: usize) {
    let function = r.one(&RowFunction::ALL);
    // In one case of four, the rows are those along the first mode, and lie beside each other.
    let is_turned = r.one_in(4);
    let (rows, columns) = if is_turned {
        (r.one(&[1_i64, 33, 100, 256]), r.one(&[1_i64, 3, 8, 100]))
    } else {
        let columns = r.one(&[1_i64, 33, 100, 256, 520, 1027, 2056, 4096]);
        (r.one(&[1_i64, 3, 8]), columns)
    };
    let layout = if is_turned {
        Layout::new((rows, columns), (1, rows))
    } else {
        Layout::new((rows, columns), (columns, 1))
    };
    let layout = layout.expect("a layout");
    let all = rows * columns;
    let x = Numbers::<T>::drawn(device, r, all);
    let mut of_norm = |one_of: u64, count: i64| {
        let has = function.is_norm() && r.one_in(one_of);
        has.then(|| Numbers::<T>::drawn(device, r, count))
    };
    let residual = of_norm(2, all);
    let [weight, bias] = [(); 2].map(|()| of_norm(3, columns));
    let [mut y, mut sum] = [(); 2].map(|()| device.poisoned::<T>(all as usize).expect("memory"));
    let epsilon = 1e-5;
    {
        let written = ViewMut::new(&mut y, layout.clone()).expect("a view");
        let mut call = Rowwise::new(function, &x.view(&layout), &written).epsilon(epsilon);
        if let Some(residual) = &residual {
            let sum = ViewMut::new(&mut sum, layout.clone()).expect("a view");
            call = call.residual(&residual.view(&layout), &sum);
        }
        if let Some(weight) = &weight {
            call = call.weight(&weight.device.view(columns).expect("a view"));
        }
        if let Some(bias) = &bias {
            call = call.bias(&bias.device.view(columns).expect("a view"));
        }
        let problem = call.problem().expect("a problem").expect("rows");
        let mut plan = RowwisePlan::fastest(&problem, device.arch()).expect("a plan");
        let widest = 16 / T::BYTES as i64;
        plan.vector = number(r, &[1, 1, 2, 4, widest]);
        plan.threads = number(r, &[1, 8, 32, 128, 256]);
        plan.rows = number(r, &[1, 1, 2, 4, 32]);
        plan.accesses = number(r, &[1, 2, 4, 8]);
        plan.blocks = number(r, &[1, 1, 1, 2]);
        plan.meets_once = r.one_in(3);
        let storage = r.below(8_u64);
        if storage == 6 && r.below(8_u64) > 0 {
            // Few plans have the warps that may meet once, and few devices have clusters.
            plan.meets_once = false;
            plan.vector = plan.vector.min(problem.operands().vector);
            plan.blocks = if device.arch() < Arch::Sm90 {
                1
            } else {
                plan.blocks
            };
        }
        // Few vectors are those of a drawn length, and few numbers of accesses hold a row.
        if r.one_in(2) {
            plan.vector = plan.vector.min(problem.operands().vector);
            let of_access = [plan.vector, plan.threads, plan.blocks];
            let of_access = of_access.into_iter().fold(1, i64::saturating_mul).max(1);
            plan.accesses = (columns - 1) / of_access + 1;
        }
        // As many chunks as a row has, of which shared memory keeps one or two.
        let of_turn = [plan.vector, plan.threads, plan.accesses, plan.blocks];
        let of_turn = of_turn.into_iter().fold(1, i64::saturating_mul);
        let chunks = (columns - 1) / of_turn.max(1) + 1;
        let kept = r.one(&[1, 2]).min(chunks);
        plan.storage = match storage {
            _ if is_turned && r.below(4_u64) > 0 => {
                plan.meets_once = r.one_in(8);
                plan.rows = plan.rows.saturating_mul(plan.vector);
                RowStorage::Turned { again: r.one_in(2) }
            }
            7 => {
                plan.vector = number(r, &[1, widest]);
                plan.threads = number(r, &[1, 2, 8]);
                plan.rows = number(r, &[32, 128]);
                plan.accesses = (columns - 1) / plan.threads.max(1) + 1;
                plan.blocks = 1;
                RowStorage::Staged {
                    rows: number(r, &[0, 0, 1]),
                    clusters: number(r, &[0, 0, 2, 14]),
                }
            }
            6 => RowStorage::Divided {
                held: number(r, &[chunks - kept]),
                kept: number(r, &[kept]),
                clusters: number(r, &[1, 2, 14]),
            },
            5 => RowStorage::Teams {
                groups: number(r, &[1, 1, 2]),
                slots: number(r, &[1, 2, 4]),
                teams: number(r, &[1, 2, 14]),
                lag: number(r, &[0, 0, 1]),
            },
            0 => RowStorage::Registers,
            4 => RowStorage::Alternating {
                groups: number(r, &[1, 2, 2, 3]),
                slots: number(r, &[2, 4, 6]),
                clusters: number(r, &[1, 2, 14]),
            },
            1 | 2 => RowStorage::Ahead {
                rows: number(r, &[1, 2, 3]),
                clusters: number(r, &[1, 2, 14]),
            },
            _ => RowStorage::Passes {
                kept: number(r, &[0, 1, 2]),
            },
        };
        let has_weights = weight.is_some() || bias.is_some();
        let is_ahead = matches!(plan.storage, RowStorage::Ahead { .. });
        plan.keeps_weights = r.one_in(if has_weights && is_ahead { 2 } else { 64 });
        if r.one_in(4) {
            plan.operands.contiguous = r.one_in(2);
            plan.operands.vector = number(r, &[1, 4]);
            plan.operands.modes = number(r, &[1, 1, 2]) as usize;
            plan.operands.given[r.below(6_usize)] = r.one_in(2);
        }
        if plan.takes(&problem) {
            let _ = plan.explain(&problem);
        }
        let accepted = plan.check(device.arch()).is_ok() && plan.takes(&problem);
        let refused = (!accepted).then(|| call.prepare_with(|_, _| Ok(plan)).map(drop));
        if !tally.takes(&plan.to_string(), refused) {
            return;
        }
        let call = call.prepare_with(|_, _| Ok(plan)).expect("a call");
        call.run(device)
            .unwrap_or_else(|why| panic!("{plan}: {why}"));
    }
    let found = |of: &Buffer<T>| -> Vec<f64> {
        let all = of.download().expect("results");
        all.iter().map(|x| x.to_f64()).collect()
    };
    let (y, sum) = (found(&y), residual.as_ref().map(|_| found(&sum)));
    for row in 0..rows {
        let of = |all: &[f64]| -> Vec<f64> {
            let (first, step) = if is_turned {
                (row, rows)
            } else {
                (row * columns, 1)
            };
            (0..columns)
                .map(|column| all[(first + column * step) as usize])
                .collect()
        };
        let mut x = of(&x.host);
        if let Some(residual) = &residual {
            for (x, residual) in x.iter_mut().zip(of(&residual.host)) {
                *x = T::from_f64(f64::from((*x + residual) as f32)).to_f64();
            }
        }
        let weights = [&weight, &bias].map(|of| of.as_ref().map(|of| &of.host[..]));
        let mut all = vec![(Some(function), of(&y))];
        all.extend(sum.as_ref().map(|sum| (None, of(sum))));
        for (output, found) in all {
            let right = compare_row::<T>(output, &x, weights, epsilon, &found);
            right.unwrap_or_else(|why| {
                panic!("case {case}, {function} {}, row {row}: {why}", T::TY)
            });
        }
    }
}

#[test]
fn law_drawn_plans_of_reductions_are_right_or_refused() {
    let mut r = Random::of(22, "reductions");
    let mut tally = Tally::default();
    for i in 0..DRAWN {
        let device = simulator(r.one(&ARCHS), i as u64);
        let extents = [(); 3].map(|()| r.one(&[1_usize, 4, 20, 33, 64]));
        let [a, b, c] = extents;
        let modes = r.one(&[&[0_usize][..], &[1], &[2], &[0, 2], &[0, 1, 2]]);
        let kept: Vec<usize> = (0..3).filter(|mode| !modes.contains(mode)).collect();
        let results: usize = kept.iter().map(|mode| extents[*mode]).product();
        let x = whole(&mut r, a * b * c);
        let from = device.upload(&x).expect("memory");
        let mut to = device.poisoned::<i32>(results).expect("memory");
        {
            let view = from.view((a, b, c)).expect("a view");
            let ones = [0, 1, 2].map(|mode| {
                if modes.contains(&mode) {
                    1
                } else {
                    extents[mode]
                }
            });
            let y = to.view_mut((ones[0], ones[1], ones[2])).expect("a view");
            let call = Reduce::new(ReduceFunction::Sum, &view, modes, &y);
            let problem = call.problem().expect("a problem").expect("results");
            let mut plan = ReducePlan::fastest(&problem).expect("a plan");
            plan.vector = number(&mut r, &[1, 1, 2, 4]);
            (plan.rows, plan.across) =
                (number(&mut r, &[1, 1, 2, 8]), number(&mut r, &[1, 1, 4, 3]));
            plan.along = number(&mut r, &[8, 16, 32, 64, 48]);
            plan.accesses = number(&mut r, &[1, 2, 3, 16]);
            plan.parts = number(&mut r, &[1, 1, 2, 3]);
            (plan.last_adds, plan.shifted) = (r.one_in(2), r.one_in(4));
            if r.one_in(4) {
                (plan.turns_inner, plan.parts_inner) = (r.one_in(2), r.one_in(2));
            }
            if r.one_in(4) {
                plan.operands.contiguous = r.one_in(2);
                plan.operands.keeps_inner = r.one_in(2);
                plan.operands.stored = number(&mut r, &[1, 4]);
                plan.operands.vector = number(&mut r, &[1, 4]);
                plan.operands.outer = number(&mut r, &[1, 1, 2]) as usize;
            }
            let accepted = plan.check(device.arch()).is_ok() && plan.takes(&problem);
            let refused = (!accepted).then(|| call.prepare_with(|_| Ok(plan)).map(drop));
            if !tally.takes(&plan.to_string(), refused) {
                continue;
            }
            let call = call.prepare_with(|_| Ok(plan)).expect("a call");
            let _ = call.explain();
            call.run(&device)
                .unwrap_or_else(|why| panic!("{plan}: {why}"));
        }
        let mut want = vec![0_i32; results];
        for (at, x) in x.iter().enumerate() {
            let at = [at / (b * c), at / c % b, at % c];
            let place = kept
                .iter()
                .fold(0, |all, mode| all * extents[*mode] + at[*mode]);
            want[place] += x;
        }
        assert_eq!(to.download().expect("results"), want, "case {i}");
    }
    tally.report("reductions");
}

/// Every plan of a reduction that passes its check is built by every architecture: threads across in several warps
/// exchange their results through it.
#[test]
fn law_plans_of_reductions_that_pass_are_built() {
    let (mut built, mut refused) = (0, 0);
    for arch in ARCHS {
        for (function, ty) in [
            (ReduceFunction::Sum, Ty::F16),
            (ReduceFunction::ArgMax, Ty::F16),
            (ReduceFunction::ArgMax, Ty::F32),
        ] {
            let problem = ReduceProblem::new(function, ty, &[4096, 64], &[0]);
            let problem = problem.expect("a problem");
            let plan = ReducePlan::fastest(&problem).expect("a plan");
            for across in (0..=10).map(|power| 1 << power) {
                for along in [1, 4, 16] {
                    for (parts, last_adds) in [(1, false), (2, true)] {
                        let plan = ReducePlan {
                            vector: plan.operands.vector,
                            rows: 1,
                            across,
                            along,
                            accesses: 1,
                            parts,
                            last_adds,
                            cluster: 1,
                            min_blocks: 0,
                            prefetches: false,
                            ..plan
                        };
                        if plan.check(arch).is_err() {
                            refused += 1;
                            continue;
                        }
                        let kernel = plan.build(arch).map(drop);
                        kernel.unwrap_or_else(|why| panic!("{arch}, {plan}: {why}"));
                        built += 1;
                    }
                }
            }
        }
    }
    assert!(built > 0 && refused > 0);
}

#[test]
fn law_drawn_plans_of_cumulative_sums_are_right_or_refused() {
    let mut r = Random::of(23, "scans");
    let mut tally = Tally::default();
    for i in 0..DRAWN {
        let device = simulator(r.one(&ARCHS), i as u64);
        let (rows, columns) = (r.one(&[1_usize, 3, 20]), r.one(&[1_usize, 33, 256, 1000]));
        let mode = r.below(2_usize);
        let x = whole(&mut r, rows * columns);
        let from = device.upload(&x).expect("memory");
        let mut to = device.poisoned::<i32>(rows * columns).expect("memory");
        {
            let view = from.view((rows, columns)).expect("a view");
            let y = to.view_mut((rows, columns)).expect("a view");
            let call = Scan::new(&view, mode, &y);
            let problem = call.problem().expect("a problem").expect("sums");
            let mut plan = ScanPlan::fastest(&problem);
            plan.vector = number(&mut r, &[1, 1, 2, 4]);
            (plan.rows, plan.along) = (
                number(&mut r, &[1, 1, 2]),
                number(&mut r, &[16, 32, 64, 48, 96]),
            );
            plan.accesses = number(&mut r, &[1, 2, 3, 8]);
            plan.turns = number(&mut r, &[0, 0, 1, 2]);
            if r.one_in(4) {
                plan.operands.contiguous = r.one_in(2);
                plan.operands.keeps_inner = r.one_in(2);
                plan.operands.exclusive = r.one_in(8);
                plan.operands.vector = number(&mut r, &[1, 4]);
                plan.operands.outer = number(&mut r, &[1, 1, 2]) as usize;
            }
            let accepted = plan.check(device.arch()).is_ok() && plan.takes(&problem);
            let refused = (!accepted).then(|| call.prepare_with(|_| Ok(plan)).map(drop));
            if !tally.takes(&plan.to_string(), refused) {
                continue;
            }
            let call = call.prepare_with(|_| Ok(plan)).expect("a call");
            let _ = call.explain();
            call.run(&device)
                .unwrap_or_else(|why| panic!("{plan}: {why}"));
        }
        let mut want = x;
        let step = if mode == 0 { columns } else { 1 };
        for at in 0..want.len() {
            let before = if mode == 0 {
                at >= columns
            } else {
                at % columns > 0
            };
            want[at] += if before { want[at - step] } else { 0 };
        }
        assert_eq!(to.download().expect("sums"), want, "case {i}");
    }
    tally.report("scans");
}

#[test]
fn law_drawn_plans_of_selections_are_right_or_refused() {
    let mut r = Random::of(24, "selections");
    let mut tally = Tally::default();
    for i in 0..DRAWN {
        let device = simulator(r.one(&ARCHS), i as u64);
        let (rows, columns) = (r.one(&[1_usize, 3]), r.one(&[8_usize, 33, 256, 1000]));
        let k = r.one(&[1_usize, 3, 8]);
        let x = whole(&mut r, rows * columns);
        let from = device.upload(&x).expect("memory");
        let mut values = device.poisoned::<i32>(rows * k).expect("memory");
        let mut indices = device.poisoned::<i32>(rows * k).expect("memory");
        {
            let view = from.view((rows, columns)).expect("a view");
            let values = values.view_mut((rows, k)).expect("a view");
            let indices = indices.view_mut((rows, k)).expect("a view");
            let call = TopK::new(&view, 1, &values, &indices);
            let problem = call.problem().expect("a problem").expect("results");
            let mut plan = TopKPlan::fastest(&problem);
            plan.vector = number(&mut r, &[1, 1, 2, 4]);
            plan.threads = number(&mut r, &[32, 64, 128, 96]);
            (plan.accesses, plan.held) = (number(&mut r, &[1, 2, 8]), r.one_in(2));
            plan.slots = number(&mut r, &[8, 32, 1024, 48]);
            plan.digit = number(&mut r, &[0, 4, 8, 11]);
            plan.parts = number(&mut r, &[1, 1, 1, 2, 3]);
            if r.one_in(4) {
                plan.index_bits = number(&mut r, &[8, 10, 12]);
                plan.operands.contiguous = r.one_in(2);
                plan.operands.smallest = r.one_in(8);
                plan.operands.vector = number(&mut r, &[1, 4]);
                plan.operands.outer = number(&mut r, &[1, 1, 2]) as usize;
            }
            let accepted = plan.check(device.arch()).is_ok() && plan.takes(&problem);
            let refused = (!accepted).then(|| call.prepare_with(|_| Ok(plan)).map(drop));
            if !tally.takes(&plan.to_string(), refused) {
                continue;
            }
            let call = call.prepare_with(|_| Ok(plan)).expect("a call");
            let _ = call.explain();
            call.run(&device)
                .unwrap_or_else(|why| panic!("{plan}: {why}"));
        }
        let (values, indices) = (values.download(), indices.download());
        let (values, indices) = (values.expect("values"), indices.expect("indices"));
        for (row, x) in x.chunks(columns).enumerate() {
            let mut order: Vec<usize> = (0..columns).collect();
            order.sort_by_key(|at| (-x[*at], *at));
            let own = row * k..(row + 1) * k;
            let want: Vec<i32> = order[..k].iter().map(|at| *at as i32).collect();
            assert_eq!(indices[own.clone()], want, "case {i}");
            let want: Vec<i32> = order[..k].iter().map(|at| x[*at]).collect();
            assert_eq!(values[own], want, "case {i}");
        }
    }
    tally.report("selections");
}

#[test]
fn law_drawn_plans_of_maps_are_right_or_refused() {
    let mut r = Random::of(25, "maps");
    let mut tally = Tally::default();
    let add: MapExpression = "(x: tensor f32, bias: tensor f32) -> y { add(x, bias) }"
        .parse()
        .expect("a map");
    // The operands of the plan are those of a call, of this one or of another.
    let mut others: Vec<ElementwisePlan> = Vec::new();
    for i in 0..DRAWN {
        let device = simulator(r.one(&ARCHS), i as u64);
        let (rows, columns) = (r.one(&[1_usize, 3, 20]), r.one(&[1_usize, 33, 256, 1000]));
        let x = whole(&mut r, rows * columns);
        let x: Vec<f32> = x.iter().map(|x| *x as f32).collect();
        let bias: Vec<f32> = (0..columns).map(|at| at as f32).collect();
        let (from, row) = (device.upload(&x), device.upload(&bias));
        let (from, row) = (from.expect("memory"), row.expect("memory"));
        let mut to = device.poisoned::<f32>(rows * columns).expect("memory");
        {
            let view = from.view((rows, columns)).expect("a view");
            let layout = format!("({rows},{columns}):(0,1)");
            let bias = colex_gpu::View::new(&row, &layout).expect("a view");
            let y = to.view_mut((rows, columns)).expect("a view");
            let call = Map::new(&add)
                .input("x", &view)
                .input("bias", &bias)
                .output("y", &y);
            let fastest = call.plan().expect("a plan").expect("elements");
            let mut plan = fastest.clone();
            if r.one_in(8) && !others.is_empty() {
                plan = others[r.below(others.len())].clone();
            }
            others.truncate(7);
            others.push(fastest);
            numbered(&mut r, &mut plan);
            // Of numbers that were not checked, too.
            let _ = plan.explain(&call.problem().expect("a problem").expect("elements"));
            let prepared = call.prepare_with(|_, _| Ok(plan.clone())).map(drop);
            if !tally.takes(&plan.to_string(), prepared.err().map(Err)) {
                continue;
            }
            let call = call.prepare_with(|_, _| Ok(plan.clone())).expect("a call");
            let _ = call.explain();
            call.run(&device)
                .unwrap_or_else(|why| panic!("{plan}: {why}"));
        }
        let want = x.iter().enumerate().map(|(at, x)| x + bias[at % columns]);
        assert!(
            to.download().expect("sums").into_iter().eq(want),
            "case {i}"
        );
    }
    tally.report("maps");
}

/// Sets the numbers of a plan of coordinates.
fn numbered(r: &mut Random, plan: &mut ElementwisePlan) {
    plan.vector = number(r, &[1, 1, 2, 4]);
    plan.accesses = number(r, &[1, 2, 3, 8]);
    plan.threads = number(r, &[32, 64, 96, 1024]);
}

#[test]
fn law_drawn_plans_of_gathers_are_right_or_refused() {
    let mut r = Random::of(28, "gathers");
    let mut tally = Tally::default();
    // The operands of the plan are those of a call, of this one or of another.
    let mut others: Vec<ElementwisePlan> = Vec::new();
    for i in 0..DRAWN {
        let device = simulator(r.one(&ARCHS), i as u64);
        let (rows, columns) = (r.one(&[1_usize, 5, 20]), r.one(&[1_usize, 33, 256, 1000]));
        let count = r.one(&[1_usize, 7, 32]);
        let table = whole(&mut r, rows * columns);
        // Some numbers are those of no row.
        let index: Vec<i32> = (0..count)
            .map(|_| r.below(rows as u64 + 2) as i32 - 1)
            .collect();
        let (from, names) = (device.upload(&table), device.upload(&index));
        let (from, names) = (from.expect("memory"), names.expect("memory"));
        let mut to = device.poisoned::<i32>(count * columns).expect("memory");
        {
            let view = from.view((rows, columns)).expect("a view");
            let index = names.view(count).expect("a view");
            let out = to.view_mut((count, columns)).expect("a view");
            let call = Gather::new(&view, &index, &out);
            let fastest = call.plan().expect("a plan").expect("elements");
            let mut plan = fastest.clone();
            if r.one_in(8) && !others.is_empty() {
                plan = others[r.below(others.len())].clone();
            }
            others.truncate(7);
            others.push(fastest);
            numbered(&mut r, &mut plan);
            // Of numbers that were not checked, too.
            let _ = plan.explain(&call.problem().expect("a problem").expect("elements"));
            let prepared = call.prepare_with(|_, _| Ok(plan.clone())).map(drop);
            if !tally.takes(&plan.to_string(), prepared.err().map(Err)) {
                continue;
            }
            let call = call.prepare_with(|_, _| Ok(plan.clone())).expect("a call");
            let _ = call.explain();
            call.run(&device)
                .unwrap_or_else(|why| panic!("{plan}: {why}"));
        }
        let found = to.download().expect("rows");
        for (name, found) in index.iter().zip(found.chunks(columns)) {
            let row = usize::try_from(*name).ok().filter(|row| *row < rows);
            let want = row.map_or(vec![0; columns], |row| {
                table[row * columns..(row + 1) * columns].to_vec()
            });
            assert_eq!(found, want, "case {i}, row {name} of {rows}");
        }
    }
    tally.report("gathers");
}

#[test]
fn law_drawn_plans_of_rotary_embeddings_are_right_or_refused() {
    let mut r = Random::of(29, "rotary embeddings");
    let mut tally = Tally::default();
    for i in 0..DRAWN {
        let device = simulator(r.one(&ARCHS), i as u64);
        let (heads, positions) = (r.one(&[1_usize, 3]), r.one(&[1_usize, 5, 16]));
        let features = r.one(&[2_usize, 8, 18, 64]);
        // The features beyond those that are turned are copied by a launch of their own.
        let turned = r.one(&[2, features / 2 / 2 * 2, features]).max(2);
        let pairs = turned / 2;
        let pairing = r.one(&[Pairing::Interleaved, Pairing::Halves]);
        let mut of = |count: usize| Numbers::<f32>::drawn(&device, &mut r, count as i64);
        let x = of(heads * positions * features);
        let [cos, sin] = [(); 2].map(|()| of(positions * pairs));
        let mut y = device.poisoned::<f32>(x.host.len()).expect("memory");
        {
            let shape = (1, heads, positions, features);
            let (from, to) = (x.device.view(shape), y.view_mut(shape));
            let (from, to) = (from.expect("a view"), to.expect("a view"));
            let tables = [&cos, &sin].map(|of| of.device.view((positions, pairs)).expect("a view"));
            let call = Rotary::new(pairing, &from, &to)
                .features(turned as i64)
                .tables(&tables[0], &tables[1]);
            let mut numbers = call.plan().expect("a plan").expect("elements");
            numbered(&mut r, &mut numbers);
            let _ = numbers.explain(&call.problem().expect("a problem").expect("elements"));
            let plan = |problem: &ElementwiseProblem, arch| {
                Ok(ElementwisePlan {
                    vector: numbers.vector,
                    accesses: numbers.accesses,
                    threads: numbers.threads,
                    ..ElementwisePlan::fastest(problem, arch)?
                })
            };
            let prepared = call.prepare_with(plan).map(drop);
            if !tally.takes(&numbers.to_string(), prepared.err().map(Err)) {
                continue;
            }
            let call = call.prepare_with(plan).expect("a call");
            let _ = call.explain();
            call.run(&device)
                .unwrap_or_else(|why| panic!("{numbers}: {why}"));
        }
        let found = y.download().expect("features");
        let number = |of: &Numbers<f32>, at: usize| of.host[at] as f32;
        for (row, found) in found.chunks(features).enumerate() {
            let mut want: Vec<f32> = (0..features)
                .map(|feature| number(&x, row * features + feature))
                .collect();
            for pair in 0..pairs {
                let [low, high] = match pairing {
                    Pairing::Interleaved => [2 * pair, 2 * pair + 1],
                    Pairing::Halves => [pair, pair + pairs],
                };
                let (u, v) = (want[low], want[high]);
                let at = row % positions * pairs + pair;
                let (cos, sin) = (number(&cos, at), number(&sin, at));
                want[low] = u.mul_add(cos, -(v * sin));
                want[high] = v.mul_add(cos, u * sin);
            }
            assert_eq!(found, want, "case {i}, {pairing}, row {row}");
        }
    }
    tally.report("rotary embeddings");
}

#[test]
fn law_drawn_plans_of_scales_of_tensors_are_right_or_refused() {
    let mut r = Random::of(27, "scales of tensors");
    let mut tally = Tally::default();
    for i in 0..DRAWN {
        let device = simulator(r.one(&ARCHS), i as u64);
        let count = r.one(&[4_usize, 36, 256, 1000, 3000]);
        let x: Vec<f32> = whole(&mut r, count).iter().map(|x| *x as f32).collect();
        let from = device.upload(&x).expect("memory");
        let mut to = device.poisoned::<i8>(count).expect("memory");
        let mut scale = device.poisoned::<f32>(1).expect("memory");
        {
            let view = from.view(count as i64).expect("a view");
            let q = to.view_mut(count as i64).expect("a view");
            let scale = scale.view_mut(1).expect("a view");
            let is_at_once = r.one_in(2);
            let mut of_chip = |usual: &[i64]| {
                if is_at_once { number(&mut r, usual) } else { 0 }
            };
            let (held, kept) = (of_chip(&[0, 1, 3]), of_chip(&[0, 1, 2, 5]));
            let plan = TensorScalePlan {
                held,
                kept,
                cached: of_chip(&[0, 1, 4]),
                threads: number(&mut r, &[32, 32, 64]),
                accesses: number(&mut r, &[1, 2, 4]),
                blocks: number(&mut r, &[1, 2, 3, 5]),
                reversed: r.one_in(2),
                // Two launches have none of it.
                again_first: r.one_in(if is_at_once { 2 } else { 6 }),
                ..TensorScalePlan::fastest(Ty::F32, Ty::S8)
            };
            let _ = (plan.explain(count as i64), plan.bytes(count as i64));
            let call = Quantise::new(Ty::S8, &view, &q).tensor_scale_by(&scale, plan);
            let prepared = match call.prepare() {
                Err(error) if error.plan().is_none() => panic!("{plan}: {error}"),
                prepared => prepared,
            };
            let accepted = plan.check(device.arch()).is_ok();
            let on_device = !accepted || prepared.is_ok() || plan.blocks > 100;
            assert!(on_device, "{plan}");
            let call = match prepared {
                Err(error) => {
                    tally.takes(&plan.to_string(), Some(Err(error)));
                    continue;
                }
                Ok(call) => call,
            };
            assert!(accepted, "{plan}");
            if !tally.takes(&plan.to_string(), None) {
                continue;
            }
            let _ = call.explain();
            call.run(&device)
                .unwrap_or_else(|why| panic!("{plan}: {why}"));
        }
        let (want, own) = colex_gpu::quantise::reference::row(Ty::S8, &x).expect("a row");
        assert_eq!(scale.download().expect("a scale"), [want], "case {i}");
        let found = to.download().expect("q");
        let found: Vec<u8> = found.iter().map(|q| *q as u8).collect();
        assert_eq!(found, own, "case {i}");
    }
    tally.report("scales of tensors");
}

#[test]
fn law_drawn_plans_of_quantisations_are_right_or_refused() {
    let mut r = Random::of(26, "quantisations");
    let mut tally = Tally::default();
    for i in 0..DRAWN {
        let device = simulator(r.one(&ARCHS), i as u64);
        let (rows, columns) = (r.one(&[1_usize, 3, 8]), r.one(&[1_usize, 33, 256, 1000]));
        let x: Vec<f32> = whole(&mut r, rows * columns)
            .iter()
            .map(|x| *x as f32 / 64.0)
            .collect();
        let from = device.upload(&x).expect("memory");
        let mut to = device.poisoned::<i8>(rows * columns).expect("memory");
        let mut scales = device.poisoned::<f32>(rows).expect("memory");
        {
            let view = from.view((rows, columns)).expect("a view");
            let q = to.view_mut((rows, columns)).expect("a view");
            let of_rows = scales.view_mut(rows).expect("a view");
            let call = Quantise::new(Ty::S8, &view, &q).rows(&of_rows);
            let mut seen = None;
            let prepared = {
                let drawn = std::cell::RefCell::new((&mut r, &mut seen));
                call.prepare_with(|problem, arch| {
                    let mut drawn = drawn.borrow_mut();
                    let (r, seen) = &mut *drawn;
                    let mut plan = QuantisePlan::fastest(problem, arch)?;
                    plan.vector = number(r, &[1, 1, 2, 4]);
                    plan.threads = number(r, &[1, 8, 32, 128]);
                    plan.rows = number(r, &[1, 1, 4, 32]);
                    plan.accesses = number(r, &[1, 2, 8]);
                    plan.held = r.one_in(2);
                    if r.one_in(4) {
                        plan.operands.contiguous = r.one_in(2);
                        plan.operands.vector = number(r, &[1, 4]);
                        plan.operands.modes = number(r, &[1, 1, 2]) as usize;
                    }
                    **seen = Some(plan);
                    Ok(plan)
                })
            };
            let plan = seen.expect("a plan");
            let call = match prepared {
                Err(error) => {
                    tally.takes(&plan.to_string(), Some(Err(error)));
                    continue;
                }
                Ok(call) => call,
            };
            if !tally.takes(&plan.to_string(), None) {
                continue;
            }
            let problem = call.problem().expect("rows");
            let _ = plan.explain(problem);
            call.run(&device)
                .unwrap_or_else(|why| panic!("{plan}: {why}"));
        }
        let (found, scales) = (
            to.download().expect("q"),
            scales.download().expect("scales"),
        );
        for (row, x) in x.chunks(columns).enumerate() {
            let most = x.iter().fold(0.0_f32, |most, x| most.max(x.abs()));
            let scale = most / 127.0;
            assert_eq!(scales[row], scale, "case {i}");
            for (x, q) in x.iter().zip(&found[row * columns..]) {
                let inverse = if scale == 0.0 { 0.0 } else { 1.0 / scale };
                let want = (x * inverse).round_ties_even().clamp(-128.0, 127.0);
                assert_eq!(f32::from(*q), want, "case {i}");
            }
        }
    }
    tally.report("quantisations");
}

/// What `Error::plan` says of the plans that no call takes.
#[test]
fn refused_plans_of_the_family_are_refusals_of_plans() {
    let device = Device::simulator(Arch::Sm80);
    let x = device.upload(&[1.0_f32; 200]).expect("memory");
    let mut y = device.zeros::<f32>(200).expect("memory");
    let (from, to) = (x.view((2, 100)), y.view_mut((2, 100)));
    let (from, to) = (from.expect("a view"), to.expect("a view"));
    let call = Rowwise::new(RowFunction::Softmax, &from, &to);
    let refused = |change: &dyn Fn(&mut RowwisePlan)| {
        let call = call.prepare_with(|problem, arch| {
            let mut plan = RowwisePlan::fastest(problem, arch)?;
            change(&mut plan);
            Ok(plan)
        });
        call.expect_err("it is refused").plan()
    };
    let found = [
        refused(&|plan| plan.threads = 48),
        refused(&|plan| plan.accesses = 99),
        refused(&|plan| plan.operands.modes = 0),
        refused(&|plan| plan.operands.ty = Ty::Bf16),
        refused(&|plan| (plan.threads, plan.rows, plan.accesses) = (8, 4, 1)),
    ];
    let want = [
        PlanRefusal::Number,
        PlanRefusal::Number,
        PlanRefusal::Operands,
        PlanRefusal::Call,
        PlanRefusal::Cover,
    ];
    assert_eq!(found, want.map(Some));
}

/// Sums of columns of 32 MiB and more, which the model puts close to a copy of as many bytes: where parts would cost a second launch,
/// blocks of fewer columns leave none.
#[test]
fn law_sums_of_columns_cost_little_more_than_their_bytes() {
    let mut r = Random::of(27, "columns");
    let (mut cases, mut alone) = (0, 0);
    while cases < 1000 {
        let (ty, size) = r.one(&[(Ty::F32, 4), (Ty::Bf16, 2), (Ty::F16, 2)]);
        let columns = 8 * (480 + r.below(4000_i64));
        let rows = 1 + r.below((1 << 28) / (columns * size));
        if rows * columns * size < 32 << 20 {
            continue;
        }
        let problem = ReduceProblem::new(ReduceFunction::Sum, ty, &[rows, columns], &[0]);
        let problem = problem.expect("a problem");
        let plan = ReducePlan::fastest(&problem).expect("a plan");
        assert!(
            plan.check(Arch::Sm80).is_ok() && plan.takes(&problem),
            "{plan}"
        );
        let traffic = plan.traffic(&problem);
        let copy = Traffic {
            moved: problem.compulsory_bytes(),
            under_way: 256,
            threads: 256,
            blocks: 1 << 20,
            launches: 1,
            ..traffic
        };
        let ratio = traffic.time().total() / copy.time().total();
        assert!(
            ratio < 1.1,
            "{plan} of ({rows},{columns}): {ratio:.2} of {}",
            copy.time()
        );
        alone += usize::from(plan.parts == 1);
        cases += 1;
    }
    println!("law memory_bound.columns: {cases} cases, {alone} without parts");
    assert!(alone > cases / 10 && alone < cases, "{alone} of {cases}");
}

/// The problem of a call, and what it leaves in its outputs.
type LeftByCall = (String, Vec<u32>, Vec<i32>);

/// A mode of rows, one that is kept, and one that is summed up may have several strides: the calls have the problems and the results of its
/// parts as modes.
#[test]
fn law_modes_with_several_strides_are_their_parts() -> Result<(), Error> {
    const EXTENTS: [i64; 4] = [2, 3, 4, 40];
    /// A layout of some of the modes, of which the first two are one if `nested` says so.
    fn of(modes: &[usize], strides: [i64; 4], nested: bool) -> Layout {
        let leaf = |mode: &usize| Layout::leaf(EXTENTS[*mode], strides[*mode]).expect("a leaf");
        let mut all: Vec<Layout> = modes.iter().map(leaf).collect();
        if nested && modes.starts_with(&[0, 1]) {
            let both = Layout::concat(&all[..2]).expect("a mode");
            all.splice(..2, [both]);
        }
        Layout::concat(&all).expect("a layout")
    }
    let mut r = Random::of(29, "modes of several strides");
    let device = simulator(Arch::Sm90a, 29);
    // Strides in a drawn order, with gaps.
    let mut strides = || {
        let mut order = [0, 1, 2, 3];
        for at in 1..4 {
            order.swap(at, r.below(at + 1));
        }
        let (mut strides, mut next) = ([0; 4], 1);
        for mode in order {
            strides[mode] = next;
            next = next * EXTENTS[mode] + r.below(3_i64);
        }
        strides
    };
    let count = 1 << 12;
    let numbers: Vec<f32> = (0..count)
        .map(|i| (i * 7919 % 613) as f32 - 300.0)
        .collect();
    let mut cases = 0;
    for _ in 0..12 {
        let [from, to, beside] = [(); 3].map(|()| strides());
        let x = device.upload(&numbers)?;
        // What each call leaves in its outputs, with the problem that it has.
        let mut found: [Vec<LeftByCall>; 2] = [Vec::new(), Vec::new()];
        for (nested, found) in [false, true].into_iter().zip(&mut found) {
            let all = [0, 1, 2, 3];
            // The modes behind the first two have other numbers.
            let at = |mode: usize| if nested { mode - 1 } else { mode };
            let x = View::new(&x, of(&all, from, nested))?;
            let mut y = device.zeros::<f32>(count)?;
            let mut z = device.zeros::<i32>(count)?;
            let mut values = device.zeros::<f32>(count)?;
            for call in 0..6 {
                let modes: &[usize] = match call {
                    3 => &[0, 1, 2],
                    4 => &[2, 3],
                    5 => &[0, 1, 3],
                    _ => &all,
                };
                let of_y = of(modes, to, nested);
                let y = ViewMut::new(&mut y, &of_y)?;
                let problem = match call {
                    0 => {
                        let call = Rowwise::new(RowFunction::Softmax, &x, &y);
                        call.run()?;
                        call.problem()?.map(|problem| format!("{problem:?}"))
                    }
                    1 => {
                        let of_sum = of(&all, beside, nested);
                        let sum = ViewMut::new(&mut values, &of_sum)?;
                        let call = Rowwise::new(RowFunction::RmsNorm, &x, &y).residual(&x, &sum);
                        call.run()?;
                        call.problem()?.map(|problem| format!("{problem:?}"))
                    }
                    2 => {
                        let call = Scan::new(&x, at(3), &y);
                        call.run()?;
                        call.problem()?.map(|problem| format!("{problem:?}"))
                    }
                    3 | 4 => {
                        let reduced = match (call, nested) {
                            (3, _) => vec![at(3)],
                            (_, false) => vec![0, 1],
                            (_, true) => vec![0],
                        };
                        let call = Reduce::new(ReduceFunction::Sum, &x, &reduced, &y);
                        call.run()?;
                        call.problem()?.map(|problem| format!("{problem:?}"))
                    }
                    _ => {
                        // One of four along the third mode.
                        let of_one = |modes: &[usize], strides: [i64; 4]| {
                            let layout = of(modes, strides, nested);
                            let mut all: Vec<Layout> = layout.modes().collect();
                            let one = Layout::leaf(1, 0).expect("a leaf");
                            all.insert(at(2), one);
                            Layout::concat(&all).expect("a layout")
                        };
                        let (of_y, of_z) = (of_one(modes, to), of_one(modes, beside));
                        let y = ViewMut::new(&mut values, &of_y)?;
                        let z = ViewMut::new(&mut z, &of_z)?;
                        let call = TopK::new(&x, at(2), &y, &z);
                        call.run()?;
                        call.problem()?.map(|problem| format!("{problem:?}"))
                    }
                };
                found.push((problem.expect("elements"), Vec::new(), Vec::new()));
                cases += 1;
            }
            let bits = |of: Vec<f32>| of.iter().map(|x| x.to_bits()).collect::<Vec<u32>>();
            let all = [bits(y.download()?), bits(values.download()?)].concat();
            found.push((String::new(), all, z.download()?));
        }
        let [parts, nested] = found;
        assert_eq!(nested, parts, "{from:?} to {to:?} and {beside:?}");
    }
    println!("law memory_bound.nested: {cases} cases");
    Ok(())
}

/// The plans that a call names beside its own are for the device: none has clusters where the architecture has none.
#[test]
fn law_plans_beside_a_plan_are_for_the_device() -> Result<(), Error> {
    /// The plans beside that of a call that have clusters, and all of them.
    fn clusters(text: &str) -> [usize; 2] {
        let beside = text.lines().filter(|line| line.starts_with("Beside it, "));
        let [mut of_clusters, mut all] = [0; 2];
        for line in beside {
            of_clusters += usize::from(line.contains("cluster"));
            all += 1;
        }
        [of_clusters, all]
    }
    let mut cases = 0;
    for arch in [Arch::Sm70, Arch::Sm80, Arch::Sm90a] {
        let device = simulator(arch, 5);
        let [mut of_clusters, mut all] = [0; 2];
        let mut take = |text: String| {
            let [found, named] = clusters(&text);
            assert!(
                found == 0 || arch == Arch::Sm90a,
                "{arch} has no clusters: {text}"
            );
            of_clusters += found;
            all += named;
            cases += 1;
        };
        for columns in [300_i64, 1000, 4100, 16384, 40000] {
            let rows = 8;
            let count = (rows * columns) as usize;
            let (x, mut y) = (device.zeros::<f32>(count)?, device.poisoned::<f32>(count)?);
            // Rows beside each other, and one after the other.
            for strides in [(1, rows), (columns, 1)] {
                let layout = Layout::new((rows, columns), strides).expect("a layout");
                let (x, y) = (View::new(&x, &layout)?, ViewMut::new(&mut y, &layout)?);
                for function in RowFunction::ALL {
                    take(Rowwise::new(function, &x, &y).prepare()?.explain());
                }
            }
            let shape = (rows, columns);
            let mut q = device.poisoned::<i8>(count)?;
            let mut scales = device.poisoned::<f32>(rows as usize)?;
            let (x, q) = (x.view(shape)?, q.view_mut(shape)?);
            let call = Quantise::new(Ty::S8, &x, &q).rows(&scales.view_mut(rows)?);
            take(call.prepare()?.explain());
            let mut sums = device.poisoned::<f32>(rows as usize)?;
            let sums = sums.view_mut(rows)?;
            let call = Reduce::new(ReduceFunction::Sum, &x, &[1], &sums);
            take(call.prepare()?.explain());
        }
        assert!(all > 20, "{arch}: {all}");
        assert!(
            of_clusters > 0 || arch != Arch::Sm90a,
            "{all} without clusters"
        );
    }
    println!("law memory_bound.beside: {cases} cases");
    Ok(())
}

/// Calls on the views of an earlier call, which are found before anything is checked.
mod found_again {
    mod each_call;

    use colex_atom::Arch;
    use colex_gpu::reduce::{Reduce, ReduceFunction};
    use colex_gpu::rowwise::{RowFunction, Rowwise};
    use colex_gpu::{Device, Error, Gemm, View, ViewMut};

    fn number(i: usize) -> f32 {
        (i * 7 % 19) as f32 / 4.0 - 2.0
    }

    /// Calls that differ in one thing that the caller gives, each of them twice, in turns: what `run` finds again computes what a prepared
    /// call computes.
    #[test]
    fn law_a_call_that_is_found_again_is_that_of_the_same_views_and_numbers() -> Result<(), Error> {
        let device = Device::simulator(Arch::Sm90a);
        let numbers: Vec<f32> = (0..64).map(number).collect();
        let inputs = [device.upload(&numbers)?, device.upload(&numbers[..32])?];
        let mut found = device.poisoned::<f32>(64)?;
        let mut wanted = device.poisoned::<f32>(64)?;
        let mut cases = 0;
        for _ in 0..2 {
            for shape in [(4, 8), (8, 4), (2, 16)] {
                for input in &inputs {
                    let x = input.view(shape)?;
                    for function in RowFunction::ALL {
                        for epsilon in [1e-5, 0.5] {
                            for (y, is_prepared) in [(&mut found, false), (&mut wanted, true)] {
                                let y = y.view_mut(shape)?;
                                let call = Rowwise::new(function, &x, &y).epsilon(epsilon);
                                if is_prepared {
                                    call.prepare()?.run(&device)?;
                                } else {
                                    call.run()?;
                                }
                            }
                            let [a, b] = [&found, &wanted].map(|of| of.download());
                            assert_eq!(a?[..32], b?[..32], "{function}, {shape:?}, {epsilon}");
                            cases += 1;
                        }
                    }
                    for mode in [0, 1] {
                        for function in [ReduceFunction::Sum, ReduceFunction::Max] {
                            let results = [shape.1, shape.0][mode];
                            for (y, is_prepared) in [(&mut found, false), (&mut wanted, true)] {
                                let y = y.view_mut(results)?;
                                let call = Reduce::new(function, &x, &[mode], &y);
                                if is_prepared {
                                    call.prepare()?.run(&device)?;
                                } else {
                                    call.run()?;
                                }
                            }
                            let [a, b] = [&found, &wanted].map(|of| of.download());
                            let count = results as usize;
                            assert_eq!(a?[..count], b?[..count], "{function} along {mode}");
                            cases += 1;
                        }
                    }
                    for alpha in [1.0, -2.0] {
                        let c = (shape.0, shape.0);
                        for (y, is_prepared) in [(&mut found, false), (&mut wanted, true)] {
                            let y = y.view_mut(c)?;
                            let call = Gemm::new(&x, &x, &y).alpha(alpha);
                            if is_prepared {
                                call.prepare()?.run(&device)?;
                            } else {
                                call.run()?;
                            }
                        }
                        let [a, b] = [&found, &wanted].map(|of| of.download());
                        let count = (shape.0 * shape.0) as usize;
                        assert_eq!(a?[..count], b?[..count], "{shape:?}, alpha {alpha}");
                        cases += 1;
                    }
                }
            }
        }
        println!("law calls.recent: {cases} cases");
        Ok(())
    }

    /// What is refused is refused again behind a call that ran: views of another device, of other shapes, and those that overlap.
    #[test]
    fn what_is_refused_is_refused_behind_a_call_that_ran() -> Result<(), Error> {
        let [device, other] = [(); 2].map(|()| Device::simulator(Arch::Sm80));
        let x = device.upload(&[1f32; 64])?;
        let (mut y, mut far) = (device.zeros::<f32>(64)?, other.zeros::<f32>(64)?);
        let raw = y.clone();
        let of_x = x.view((8, 8))?;
        let softmax = |y: &ViewMut<'_, f32>| Rowwise::new(RowFunction::Softmax, &of_x, y).run();
        softmax(&y.view_mut((8, 8))?)?;
        assert!(softmax(&far.view_mut((8, 8))?).is_err());
        assert!(softmax(&y.view_mut((4, 16))?).is_err());
        let inside = View::new(&raw, "(8,8):(8,1)")?;
        let written = y.view_mut((8, 8))?;
        assert!(
            Rowwise::new(RowFunction::Softmax, &inside, &written)
                .run()
                .is_err()
        );
        softmax(&written)?;
        let product = |c: &ViewMut<'_, f32>| Gemm::new(&of_x, &of_x, c).run();
        product(&written)?;
        assert!(product(&far.view_mut((8, 8))?).is_err());
        product(&written)
    }
}
