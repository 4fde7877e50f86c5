//! Reductions, selections and cumulative sums along the last, the first and a middle mode, against a copy that moves as many bytes.

use std::cell::Cell;
use std::path::Path;

use anyhow::{Result, ensure};
use colex_gpu::kernels::{CopyCall, GemmElement, View, ViewMut};
use colex_gpu::reduce::scan::{self, Scan, ScanPlan};
use colex_gpu::reduce::top_k::{self, TopK, TopKPlan};
use colex_gpu::reduce::{Reduce, ReduceCall, ReduceFunction, ReducePlan, ReduceProblem, reference};
use colex_gpu::{Buffer, Device, Element};
use colex_layout::Layout;
use half::bf16;
use serde_json::json;

use crate::bench::Asked;
use crate::bench::device::{BenchReport, Contender};
use crate::bench::product::sweep::normal;

/// The bytes over which the operands of a contender rotate: several times the L2 cache.
const ROTATED: usize = 512 << 20;

/// A tensor, and the modes along which it is reduced.
type Reduced = (&'static str, &'static [i64], &'static [usize]);

/// Elements of the tensors: 64 MiB of bf16, and 512 MiB of f32.
const CASES: [Reduced; 12] = [
    ("last", &[8192, 4096], &[1]),
    ("last, short", &[262_144, 128], &[1]),
    ("last, no multiple of a vector", &[8191, 4097], &[1]),
    ("first", &[8192, 4096], &[0]),
    ("first, tall", &[524_288, 64], &[0]),
    ("middle", &[64, 128, 4096], &[1]),
    ("first and last", &[64, 128, 4096], &[0, 2]),
    ("all", &[8192, 4096], &[0, 1]),
    ("last", &[32_768, 4096], &[1]),
    ("first", &[32_768, 4096], &[0]),
    ("last", &[32_768, 1000], &[1]),
    ("first", &[32_768, 1000], &[0]),
];

/// A measurement of a function of a tensor.
type Group = fn(&Device, &mut BenchReport, &Asked<'_>, ReduceFunction, Reduced) -> Result<()>;

/// Every group: its measurement, the type of its elements, the function and the tensor.
fn groups() -> Vec<(Group, &'static str, ReduceFunction, Reduced)> {
    let mut all: Vec<(Group, &str, ReduceFunction, Reduced)> = Vec::new();
    let mut add = |function: ReduceFunction, wide: ReduceFunction, cases: &[Reduced]| {
        for case in cases {
            all.push((group::<bf16>, bf16::NAME, function, *case));
            all.push((group::<f32>, f32::NAME, wide, *case));
        }
    };
    let [sum, max, arg_max] = [
        ReduceFunction::Sum,
        ReduceFunction::Max,
        ReduceFunction::ArgMax,
    ];
    add(sum, sum, &CASES);
    let norm = ReduceFunction::Norm;
    add(max, norm, &[CASES[0], CASES[3], CASES[5], CASES[7]]);
    for case in [CASES[4], CASES[9]] {
        all.push((group::<bf16>, bf16::NAME, max, case));
        all.push((group::<bf16>, bf16::NAME, arg_max, case));
    }
    for case in [CASES[0], CASES[3], CASES[5]] {
        all.push((group::<bf16>, bf16::NAME, arg_max, case));
        all.push((group::<f32>, f32::NAME, arg_max, case));
    }
    all
}

/// Measures the groups whose name, such as `max bf16 of [8192, 4096] along [0] (first)`, has one of the texts `only`, or all groups.
pub(in crate::bench) fn run(
    device: &Device,
    json: Option<&Path>,
    asked: &mut Asked<'_>,
) -> Result<()> {
    let mut report = BenchReport::new("reduce", "TB/s", device);
    println!("{}; normal numbers", crate::bench::device::PROTOCOL);
    for (measure, ty, function, case) in groups() {
        if asked.has(&name(function, ty, case)) {
            measure(device, &mut report, asked, function, case)?;
        }
    }
    report.write(json)
}

/// The name of a group.
fn name(function: ReduceFunction, ty: &str, (which, extents, modes): Reduced) -> String {
    format!("{function} {ty} of {extents:?} along {modes:?} ({which})")
}

pub(in crate::bench) fn select(
    device: &Device,
    json: Option<&Path>,
    asked: &mut Asked<'_>,
) -> Result<()> {
    let mut report = BenchReport::new("select", "TB/s", device);
    println!("{}; normal numbers", crate::bench::device::PROTOCOL);
    for (extents, mode, k) in SELECTIONS {
        selections::<bf16>(device, &mut report, asked, extents, mode, k)?;
        selections::<f32>(device, &mut report, asked, extents, mode, k)?;
    }
    report.write(json)
}

pub(in crate::bench) fn scan(
    device: &Device,
    json: Option<&Path>,
    asked: &mut Asked<'_>,
) -> Result<()> {
    let mut report = BenchReport::new("scan", "TB/s", device);
    println!("{}; normal numbers", crate::bench::device::PROTOCOL);
    for (extents, mode) in SCANS {
        sums::<bf16>(device, &mut report, asked, extents, mode)?;
        sums::<f32>(device, &mut report, asked, extents, mode)?;
    }
    report.write(json)
}

/// Extents of the tensors of cumulative sums, and the mode of the sums.
const SCANS: [(&[i64], usize); 5] = [
    (&[8192, 4096], 1),
    (&[32, 1 << 20], 1),
    (&[8191, 4097], 1),
    (&[8192, 4096], 0),
    (&[64, 128, 4096], 1),
];

/// Extents of the tensors of selections, the mode, and the elements that are selected.
const SELECTIONS: [(&[i64], usize, i64); 7] = [
    (&[65_536, 128], 1, 8),
    (&[8192, 4096], 1, 50),
    (&[4096, 10_000], 1, 50),
    (&[64, 128_256], 1, 64),
    (&[8, 1 << 20], 1, 2048),
    (&[1, 1 << 24], 1, 100),
    (&[4096, 4096], 0, 8),
];

/// Measures a selection with its default plan and with plans around it, and a copy that moves as many bytes as one read.
fn selections<T: GemmElement>(
    device: &Device,
    report: &mut BenchReport,
    asked: &mut Asked<'_>,
    extents: &[i64],
    mode: usize,
    k: i64,
) -> Result<()> {
    let name = format!("top-{k} {} of {extents:?} along {mode}", T::NAME);
    if !asked.has(&name) {
        return Ok(());
    }
    let count = extents.iter().product::<i64>() as usize;
    let mut results = extents.to_vec();
    results[mode] = k;
    let selected = results.iter().product::<i64>() as usize;
    let copies = (ROTATED / (count * T::BYTES)).max(2);
    let mut inputs = Vec::new();
    for _ in 0..copies {
        let input = device.uninitialised::<T>(count)?;
        normal(&input)?;
        inputs.push(input);
    }
    let (values, indices) = (
        device.poisoned::<T>(selected)?,
        device.poisoned::<i32>(selected)?,
    );
    // A copy of half of the elements reads and writes as many bytes as the selection reads.
    let half = count / 2;
    let target = device.poisoned::<T>(half)?;
    let line = Layout::new(half, 1)?;
    let mut written: Vec<(Buffer<T>, Buffer<T>, Buffer<i32>)> = (inputs.iter())
        .map(|_| (target.clone(), values.clone(), indices.clone()))
        .collect();
    let (mut copied, mut calls, mut plans) = (Vec::new(), Vec::new(), Vec::new());
    let mut explained = String::new();
    for (input, (target, values, indices)) in inputs.iter().zip(&mut written) {
        copied.push(CopyCall::new(
            &View::new(input, line.clone())?,
            &ViewMut::new(target, line.clone())?,
            None,
        )?);
        let (values, indices) = (
            values.view_mut(&results[..])?,
            indices.view_mut(&results[..])?,
        );
        let call = TopK::new(&input.view(extents)?, mode, &values, &indices);
        let Some(problem) = call.problem()? else {
            return Ok(());
        };
        let chosen = TopKPlan::fastest(&problem);
        explained = chosen.to_string();
        plans = vec![("default".to_string(), chosen)];
        let mut add = |name: String, plan: TopKPlan| {
            let fits = plan.check(device.arch()).is_ok() && plan.takes(&problem);
            if asked.has_others() && fits && plan != chosen {
                plans.push((name, plan));
            }
        };
        for threads in [chosen.threads * 2, chosen.threads / 2] {
            let accesses = if chosen.held {
                chosen.accesses * chosen.threads / threads
            } else {
                chosen.accesses
            };
            let plan = TopKPlan {
                threads,
                accesses: accesses.max(1),
                ..chosen
            };
            add(format!("{threads} threads"), plan);
        }
        for digit in [8, 10, 11] {
            add(
                format!("digits of {digit} bits"),
                TopKPlan { digit, ..chosen },
            );
        }
        for slots in [chosen.slots * 2, chosen.slots / 2] {
            add(format!("{slots} slots"), TopKPlan { slots, ..chosen });
        }
        for parts in [chosen.parts * 2, chosen.parts / 2] {
            add(format!("{parts} parts"), TopKPlan { parts, ..chosen });
        }
        let mut prepared = Vec::new();
        for (_, plan) in &plans {
            prepared.push(call.prepare_with(|_| Ok(*plan))?);
        }
        calls.push(prepared);
    }
    // One selection of each plan.
    let inner: i64 = extents[mode + 1..].iter().product();
    let x = inputs[0].download()?;
    let own: Vec<f64> = (0..extents[mode])
        .map(|i| x[(i * inner) as usize].to_f64())
        .collect();
    let want = top_k::reference::indices(&own, k as usize, false);
    for (i, (name, _)) in plans.iter().enumerate() {
        indices.fill_bytes(0xff)?;
        calls[0][i].run(device)?;
        let found = indices.download()?;
        let is_right = (want.iter().enumerate())
            .all(|(place, want)| found[place * inner as usize] as usize == *want);
        ensure!(is_right, "top-{k} of {extents:?} along {mode}, {name}");
    }
    let at = Cell::new(0);
    let mut contenders = vec![Contender::new("copy", |device| {
        copied[in_turn(&at, copies)].run(device)
    })];
    for (i, (name, _)) in plans.iter().enumerate() {
        let (at, calls) = (&at, &calls);
        contenders.push(Contender::new(name.clone(), move |device| {
            calls[in_turn(at, copies)][i].run(device)
        }));
    }
    let case =
        json!({"kind": "top-k", "type": T::NAME, "extents": extents, "modes": [mode], "k": k});
    let times = asked.take_turns(device, &mut contenders, &case, [11, 8])?;
    let names: Vec<String> = contenders.iter().map(|c| c.name.clone()).collect();
    let bytes = (count * T::BYTES) as f64 / 1e6;
    let title = format!("{name}: {explained}");
    report.group(&title, &names, &times, bytes);
    let of = |i: usize| (bytes / times[i].median() * 1e4).round() / 1e4;
    println!(
        "{}",
        json!({
            "bench": "reduce", "function": format!("top-{k}"), "type": T::NAME, "extents": extents, "modes": [mode],
            "plan": explained, "TB/s": of(1), "copy TB/s": of(0), "of copy": (of(1) / of(0) * 1e3).round() / 1e3,
        })
    );
    Ok(())
}

/// Measures a cumulative sum, with and without parts, and a copy of the tensor.
fn sums<T: GemmElement>(
    device: &Device,
    report: &mut BenchReport,
    asked: &mut Asked<'_>,
    extents: &[i64],
    mode: usize,
) -> Result<()> {
    let name = format!("cumulative sum {} of {extents:?} along {mode}", T::NAME);
    if !asked.has(&name) {
        return Ok(());
    }
    let count = extents.iter().product::<i64>() as usize;
    let copies = (ROTATED / (count * T::BYTES)).max(2);
    let mut inputs = Vec::new();
    for _ in 0..copies {
        let input = device.uninitialised::<T>(count)?;
        normal(&input)?;
        inputs.push(input);
    }
    let output = device.poisoned::<T>(count)?;
    let line = Layout::new(count, 1)?;
    let mut written: Vec<[Buffer<T>; 2]> = (inputs.iter())
        .map(|_| [output.clone(), output.clone()])
        .collect();
    let (mut copied, mut calls) = (Vec::new(), Vec::new());
    let (mut names, mut explained) = (Vec::new(), String::new());
    let mut plans = Vec::new();
    for (input, [target, sums]) in inputs.iter().zip(&mut written) {
        copied.push(CopyCall::new(
            &View::new(input, line.clone())?,
            &ViewMut::new(target, line.clone())?,
            None,
        )?);
        let call = Scan::new(&input.view(extents)?, mode, &sums.view_mut(extents)?);
        let Some(problem) = call.problem()? else {
            return Ok(());
        };
        let chosen = ScanPlan::fastest(&problem);
        explained = chosen.to_string();
        plans = vec![("default".to_string(), chosen)];
        let mut add = |name: String, plan: ScanPlan| {
            let fits = plan.check(device.arch()).is_ok() && plan.takes(&problem);
            if asked.has_others() && fits && plan != chosen {
                plans.push((name, plan));
            }
        };
        let turns = if chosen.turns == 0 { 8 } else { 0 };
        add(
            format!("{turns} turns in a part"),
            ScanPlan { turns, ..chosen },
        );
        for turns in [chosen.turns * 2, chosen.turns / 2] {
            let what = format!("{turns} turns in a part");
            add(what, ScanPlan { turns, ..chosen });
        }
        for along in [chosen.along * 2, chosen.along / 2] {
            let what = format!("{along} threads along");
            add(what, ScanPlan { along, ..chosen });
        }
        for accesses in [chosen.accesses * 2, chosen.accesses / 2] {
            let what = format!("{accesses} accesses");
            add(what, ScanPlan { accesses, ..chosen });
        }
        names = plans.iter().map(|(name, _)| name.clone()).collect();
        let mut prepared = Vec::new();
        for (_, plan) in &plans {
            prepared.push(call.prepare_with(|_| Ok(*plan))?);
        }
        calls.push(prepared);
    }
    // One sum of each plan, bit for bit.
    let inner: i64 = extents[mode + 1..].iter().product();
    let x = inputs[0].download()?;
    let of = |all: &[T]| -> Vec<f32> {
        let places = (0..extents[mode]).map(|i| all[(i * inner) as usize].to_f64() as f32);
        places.collect()
    };
    for (i, (name, plan)) in plans.iter().enumerate() {
        output.fill_bytes(0xff)?;
        calls[0][i].run(device)?;
        let found = of(&output.download()?);
        let want = scan::reference::sums(plan, &of(&x));
        let is_right = (found.iter().zip(want))
            .all(|(found, want)| f64::from(*found) == T::from_f64(want.into()).to_f64());
        ensure!(
            is_right,
            "cumulative sum of {extents:?} along {mode}, {name}"
        );
    }
    let at = Cell::new(0);
    let mut contenders = vec![Contender::new("copy", |device| {
        copied[in_turn(&at, copies)].run(device)
    })];
    for (i, name) in names.iter().enumerate() {
        let (at, calls) = (&at, &calls);
        contenders.push(Contender::new(name, move |device| {
            calls[in_turn(at, copies)][i].run(device)
        }));
    }
    let case =
        json!({"kind": "cumulative sum", "type": T::NAME, "extents": extents, "modes": [mode]});
    let times = asked.take_turns(device, &mut contenders, &case, [11, 8])?;
    let names: Vec<String> = contenders.iter().map(|c| c.name.clone()).collect();
    let bytes = (2 * count * T::BYTES) as f64 / 1e6;
    let title = format!("{name}: {explained}");
    report.group(&title, &names, &times, bytes);
    let of = |i: usize| (bytes / times[i].median() * 1e4).round() / 1e4;
    println!(
        "{}",
        json!({
            "bench": "reduce", "function": "cumulative sum", "type": T::NAME, "extents": extents, "modes": [mode],
            "plan": explained, "TB/s": of(1), "copy TB/s": of(0), "of copy": (of(1) / of(0) * 1e3).round() / 1e3,
        })
    );
    Ok(())
}

/// Gives each of several calls in turn.
fn in_turn(at: &Cell<usize>, count: usize) -> usize {
    at.set((at.get() + 1) % count);
    at.get()
}

/// Measures a function with its default plan and with plans around it, and a copy that moves as many bytes.
fn group<T: GemmElement>(
    device: &Device,
    report: &mut BenchReport,
    asked: &Asked<'_>,
    function: ReduceFunction,
    (which, extents, modes): Reduced,
) -> Result<()> {
    let count = extents.iter().product::<i64>() as usize;
    let kept: Vec<i64> = (0..extents.len())
        .filter(|mode| !modes.contains(mode))
        .map(|mode| extents[mode])
        .collect();
    let kept = if kept.is_empty() { vec![1] } else { kept };
    let results = kept.iter().product::<i64>() as usize;
    let copies = (ROTATED / (count * T::BYTES)).max(2);
    let mut inputs = Vec::new();
    for _ in 0..copies {
        let input = device.uninitialised::<T>(count)?;
        normal(&input)?;
        inputs.push(input);
    }
    let values = device.poisoned::<T>(results)?;
    let indices = device.poisoned::<i32>(results)?;

    // A copy of half of the elements reads and writes as many bytes as the reduction reads.
    let half = count / 2;
    let target = device.poisoned::<T>(half)?;
    let line = Layout::new(half, 1)?;
    let mut written: Vec<Buffer<T>> = inputs.iter().map(|_| target.clone()).collect();
    let mut copied = Vec::new();
    for (input, target) in inputs.iter().zip(&mut written) {
        copied.push(CopyCall::new(
            &View::new(input, line.clone())?,
            &ViewMut::new(target, line.clone())?,
            None,
        )?);
    }

    let mut names: Vec<String> = Vec::new();
    let mut calls: Vec<Vec<ReduceCall<'_>>> = Vec::new();
    let mut explained = String::new();
    let mut outputs: Vec<(Buffer<T>, Buffer<i32>)> = inputs
        .iter()
        .map(|_| (values.clone(), indices.clone()))
        .collect();
    for (input, (values, indices)) in inputs.iter().zip(&mut outputs) {
        let x = input.view(extents)?;
        let of_values = values.view_mut(&kept[..])?;
        let of_indices = indices.view_mut(&kept[..])?;
        let call = if function.is_index() {
            Reduce::index(function, &x, modes[0], &of_indices)
        } else {
            Reduce::new(function, &x, modes, &of_values)
        };
        let Some(problem) = call.problem()? else {
            return Ok(());
        };
        let chosen = ReducePlan::fastest_on(&problem, device.arch())?;
        explained = chosen.to_string();
        let mut plans = vec![("default".to_string(), chosen)];
        if asked.has_others() {
            plans.extend(beside(&chosen, &problem)?);
        }
        plans.retain(|(_, plan)| plan.check(device.arch()).is_ok() && plan.takes(&problem));
        names = plans.iter().map(|(name, _)| name.clone()).collect();
        let mut prepared = Vec::new();
        for (_, plan) in plans {
            prepared.push(call.prepare_with(|_| Ok(plan))?);
        }
        calls.push(prepared);
    }
    let expected = expected(function, &inputs[0], (extents, modes), results)?;
    for (at, name) in names.iter().enumerate() {
        values.fill_bytes(0xff)?;
        indices.fill_bytes(0xff)?;
        calls[0][at].run(device)?;
        let found: Vec<f64> = if function.is_index() {
            let found = indices.download()?;
            found.into_iter().map(f64::from).collect()
        } else {
            values.download()?.into_iter().map(T::to_f64).collect()
        };
        for &(result, want, bound) in &expected {
            let found: f64 = found[result];
            ensure!(
                (found - want).abs() <= bound,
                "{function} of {extents:?} along {modes:?}, {name}: result {result} is {found}, not {want}"
            );
        }
    }
    let at = Cell::new(0);
    let mut contenders = vec![Contender::new("copy that moves as many bytes", |device| {
        copied[in_turn(&at, copies)].run(device)
    })];
    for (i, name) in names.iter().enumerate() {
        let (at, calls) = (&at, &calls);
        contenders.push(Contender::new(name, move |device| {
            calls[in_turn(at, copies)][i].run(device)
        }));
    }
    let case =
        json!({"kind": function.to_string(), "type": T::NAME, "extents": extents, "modes": modes});
    let times = asked.take_turns(device, &mut contenders, &case, [11, 8])?;
    let names: Vec<String> = contenders.iter().map(|c| c.name.clone()).collect();
    let bytes = (count * T::BYTES) as f64 / 1e6;
    let name = name(function, T::NAME, (which, extents, modes));
    let title = format!("{name}: {explained}");
    report.group(&title, &names, &times, bytes);
    let of = |i: usize| (bytes / times[i].median() * 1e4).round() / 1e4;
    println!(
        "{}",
        json!({
            "bench": "reduce", "function": function.to_string(), "type": T::NAME, "extents": extents, "modes": modes,
            "plan": explained, "TB/s": of(1), "copy TB/s": of(0), "of copy": (of(1) / of(0) * 1e3).round() / 1e3,
        })
    );
    Ok(())
}

/// The plans that are measured beside the default one, with what differs.
fn beside(chosen: &ReducePlan, problem: &ReduceProblem) -> Result<Vec<(String, ReducePlan)>> {
    let operands = problem.operands();
    let is_narrow = operands.keeps_inner && operands.ty.bits() == 16;
    if is_narrow && chosen.parts > 1 {
        return Ok(of_shared_columns(chosen, problem));
    }
    let mut plans = around(chosen);
    if let Some(plan) = ReducePlan::last_adding(problem)? {
        plans.extend(by_the_last_block(&plan));
    }
    if is_narrow {
        plans.extend(of_narrow_columns(chosen));
    }
    if let Some(plan) = ReducePlan::shifted_rows(problem)? {
        plans.extend(of_shifted_rows(&plan));
    }
    let mut held = vec![("default, all loads held".to_string(), *chosen)];
    held.extend(
        (plans.iter())
            .filter(|(name, plan)| plan.min_blocks == 0 && !name.contains(','))
            .map(|(name, plan)| (format!("{name}, all loads held"), *plan)),
    );
    let min_blocks = 1;
    plans.extend((held.into_iter()).map(|(name, plan)| (name, ReducePlan { min_blocks, ..plan })));
    Ok(plans)
}

/// Plans near a plan, with what differs.
fn around(plan: &ReducePlan) -> Vec<(String, ReducePlan)> {
    let mut plans = Vec::new();
    let mut add = |what: String, changed: ReducePlan| {
        if changed != *plan {
            plans.push((what, changed));
        }
    };
    for accesses in [2, 4, 8, 16] {
        add(
            format!("{accesses} accesses"),
            ReducePlan { accesses, ..*plan },
        );
    }
    for (up, down, accesses) in [(1, 2, 4), (1, 2, 8), (1, 4, 8), (2, 1, 4), (1, 2, 16)] {
        let across = (plan.across * up / down).max(1);
        let changed = ReducePlan {
            across,
            accesses,
            ..*plan
        };
        add(
            format!("{across} threads across, {accesses} accesses"),
            changed,
        );
    }
    if !plan.turns_inner {
        for accesses in [4, 8, 16] {
            for prefetches in [false, true] {
                let what = if prefetches {
                    "prefetched"
                } else {
                    "not prefetched"
                };
                let changed = ReducePlan {
                    accesses,
                    prefetches,
                    ..*plan
                };
                add(format!("{what}, {accesses} accesses"), changed);
            }
        }
        let changed = ReducePlan {
            across: plan.across * 2,
            accesses: 8,
            prefetches: true,
            ..*plan
        };
        add("prefetched, twice the threads across".to_string(), changed);
    }
    if plan.parts > 1 {
        let parts = plan.parts / 2;
        for accesses in [4, 8] {
            add(
                format!("{parts} parts, {accesses} accesses"),
                ReducePlan {
                    parts,
                    accesses,
                    ..*plan
                },
            );
        }
    }
    for [up, down] in [[2, 1], [1, 2]] {
        let parts = (plan.parts * up / down).clamp(1, 1024);
        add(format!("{parts} parts"), ReducePlan { parts, ..*plan });
        let along = plan.along * up / down;
        let rows = (plan.rows * down / up).max(1);
        let changed = ReducePlan {
            along,
            rows,
            ..*plan
        };
        add(format!("{along} threads along, {rows} rows"), changed);
        let across = (plan.across * up / down).max(1);
        add(
            format!("{across} threads across"),
            ReducePlan { across, ..*plan },
        );
    }
    plans
}

/// The plan whose last block adds the parts and plans near it, and the same plan in two launches, with what differs.
fn by_the_last_block(plan: &ReducePlan) -> Vec<(String, ReducePlan)> {
    let last = "last block adds";
    let parts = |parts: i64| {
        (
            parts.clamp(2, 1024),
            ReducePlan {
                parts: parts.clamp(2, 1024),
                ..*plan
            },
        )
    };
    let mut plans = vec![
        (last.to_string(), *plan),
        (
            format!("second kernel adds {} parts", plan.parts),
            ReducePlan {
                last_adds: false,
                ..*plan
            },
        ),
    ];
    for (parts, changed) in [
        parts(plan.parts / 2),
        parts(plan.parts / 4),
        parts(plan.parts * 2),
    ] {
        plans.push((format!("{last}, {parts} parts"), changed));
    }
    let accesses = 8;
    plans.push((
        format!("{last}, {accesses} accesses"),
        ReducePlan { accesses, ..*plan },
    ));
    for (along, across, shares) in [(1, 2, 2), (2, 2, 2), (4, 4, 4), (2, 4, 4)] {
        // Narrower tiles and wider blocks have fewer parts.
        let along = (plan.along / along).max(1);
        let across = plan.across * across;
        let parts = (plan.parts / shares).max(2);
        plans.push((
            format!("{last}, {across} threads across, {along} along, {parts} parts"),
            ReducePlan {
                along,
                across,
                parts,
                ..*plan
            },
        ));
    }
    plans
}

/// The parts, the threads across and along, the accesses, whether they are prefetched, and the blocks for which there are registers.
type Columns = (i64, [i64; 2], i64, bool, i64);

/// The fastest plans without clusters in a run on an H200, of columns of elements of 16 bits: of up to 127 vectors in a row, and of more.
const OF_FEW_COLUMNS: [Columns; 13] = [
    (256, [16, 8], 8, true, 0),
    (256, [16, 8], 8, true, 2),
    (256, [16, 8], 16, true, 2),
    (256, [16, 8], 16, false, 0),
    (256, [16, 8], 16, false, 1),
    (256, [16, 8], 16, false, 2),
    (256, [8, 8], 16, true, 2),
    (264, [16, 8], 8, true, 0),
    (264, [16, 8], 8, true, 2),
    (132, [16, 4], 8, true, 2),
    (132, [32, 4], 16, false, 0),
    (128, [16, 8], 8, true, 2),
    (128, [16, 4], 8, true, 0),
];
const OF_MANY_COLUMNS: [Columns; 12] = [
    (4, [16, 8], 8, true, 1),
    (4, [16, 8], 16, true, 0),
    (4, [16, 8], 16, true, 1),
    (4, [16, 8], 16, false, 0),
    (4, [8, 8], 16, true, 0),
    (8, [8, 8], 8, true, 0),
    (8, [8, 8], 16, false, 0),
    (8, [8, 8], 16, false, 1),
    (8, [16, 8], 16, false, 0),
    (16, [8, 8], 4, true, 0),
    (16, [8, 8], 8, false, 0),
    (16, [8, 8], 16, false, 1),
];

/// Of 17 to 127 vectors in a row: 512 bytes of a row by each block, or other parts of it.
const OF_SHORT_ROWS: [Columns; 6] = [
    (64, [4, 32], 8, true, 0),
    (64, [4, 32], 16, false, 0),
    (66, [4, 64], 8, true, 0),
    (132, [2, 64], 8, true, 0),
    (264, [2, 128], 8, true, 0),
    (33, [8, 16], 8, true, 0),
];

/// Plans like these, which are measured in clusters of 2, 4 and 8.
const SHORT_ROWS_IN_CLUSTERS: [Columns; 7] = [
    (64, [4, 32], 8, true, 0),
    (64, [4, 32], 16, false, 0),
    (128, [2, 32], 8, true, 0),
    (128, [2, 64], 8, true, 0),
    (64, [4, 16], 8, true, 0),
    (32, [8, 16], 8, true, 0),
    (16, [16, 8], 8, true, 0),
];

/// Plans of few and of many columns, which are measured in clusters of 2, 4 and 8.
const FEW_IN_CLUSTERS: [Columns; 8] = [
    (128, [16, 8], 8, true, 0),
    (256, [16, 8], 8, true, 0),
    (264, [16, 8], 8, true, 0),
    (256, [16, 8], 16, false, 0),
    (256, [16, 8], 16, false, 2),
    (512, [8, 8], 8, true, 0),
    (128, [16, 4], 8, true, 0),
    (128, [32, 4], 16, false, 0),
];
const MANY_IN_CLUSTERS: [Columns; 8] = [
    (4, [16, 8], 8, true, 0),
    (4, [16, 8], 16, true, 0),
    (4, [8, 8], 16, true, 0),
    (8, [16, 8], 4, true, 0),
    (8, [8, 8], 8, true, 0),
    (8, [8, 8], 16, false, 0),
    (16, [8, 8], 4, true, 0),
    (16, [8, 8], 8, false, 0),
];

/// Plans of columns of elements of 16 bits whose blocks share results, in clusters and not.
fn of_shared_columns(plan: &ReducePlan, problem: &ReduceProblem) -> Vec<(String, ReducePlan)> {
    let (alone, shared) = match problem.results() / plan.vector {
        ..=16 => (&OF_FEW_COLUMNS[..], &FEW_IN_CLUSTERS[..]),
        17..=127 => (&OF_SHORT_ROWS[..], &SHORT_ROWS_IN_CLUSTERS[..]),
        _ => (&OF_MANY_COLUMNS[..], &MANY_IN_CLUSTERS[..]),
    };
    let of = |&(parts, [across, along], accesses, prefetches, min_blocks): &Columns| ReducePlan {
        rows: 1,
        across,
        along,
        accesses,
        parts,
        last_adds: true,
        prefetches,
        min_blocks,
        ..*plan
    };
    // A plan of fewer parts than a cluster has blocks is in no such clusters.
    let in_clusters = |of: ReducePlan| {
        let clusters = [2, 4, 8].map(|cluster| of.in_clusters(cluster));
        clusters.into_iter().filter(|plan| plan.cluster > 1)
    };
    let all = alone.iter().map(of);
    let all = all.chain(shared.iter().map(of).flat_map(in_clusters));
    let name = |plan: &ReducePlan| {
        let mut name = format!(
            "{} parts, {}x{}, {} accesses",
            plan.parts, plan.across, plan.along, plan.accesses
        );
        if plan.prefetches {
            name += ", prefetched";
        }
        if plan.min_blocks > 0 {
            name += &format!(", registers for {}", plan.min_blocks);
        }
        if plan.cluster > 1 {
            name += &format!(", clusters of {}", plan.cluster);
        }
        name
    };
    let mut plans: Vec<(String, ReducePlan)> = Vec::new();
    for other in all {
        if other != *plan {
            plans.push((name(&other), other));
        }
    }
    plans
}

/// Plans of columns of elements of 16 bits whose blocks share no results: blocks of a few warps.
fn of_narrow_columns(plan: &ReducePlan) -> Vec<(String, ReducePlan)> {
    let mut plans: Vec<(String, ReducePlan)> = Vec::new();
    let ahead = |prefetches: bool| if prefetches { ", prefetched" } else { "" };
    let mut add = |what: String, changed: ReducePlan| {
        if changed != *plan {
            plans.push((what, changed));
        }
    };
    let turns = [(4, true), (8, false), (8, true), (16, false)];
    for (across, rows) in [(1, 1), (1, 2), (2, 1), (4, 1)] {
        for (accesses, prefetches) in turns {
            let changed = ReducePlan {
                rows,
                across,
                accesses,
                prefetches,
                ..*plan
            };
            let ahead = ahead(prefetches);
            add(
                format!("{rows} rows, {across} threads across, {accesses} accesses{ahead}"),
                changed,
            );
        }
    }
    plans
}

/// The plan of shifted rows and plans near it, with what differs.
fn of_shifted_rows(plan: &ReducePlan) -> Vec<(String, ReducePlan)> {
    let mut plans = vec![("shifted rows".to_string(), *plan)];
    for (along, accesses, rows) in [(2, 4, 2), (4, 2, 1), (2, 4, 1), (1, 8, 2), (1, 4, 4)] {
        let along = plan.along * along;
        let changed = ReducePlan {
            along,
            accesses,
            rows,
            ..*plan
        };
        if changed != *plan {
            plans.push((
                format!("shifted rows, {along} threads along, {accesses} accesses, {rows} rows"),
                changed,
            ));
        }
    }
    plans
}

/// A result, what it should be, and how far it may be from that.
type Expected = (usize, f64, f64);

/// Returns the first, the middle and the last result in double precision.
fn expected<T: GemmElement>(
    function: ReduceFunction,
    input: &Buffer<T>,
    (extents, modes): (&[i64], &[usize]),
    results: usize,
) -> Result<Vec<Expected>> {
    let x = input.download()?;
    // Offsets of a row-major tensor along the modes of one kind, the last one fastest.
    let offsets = |is_of: &dyn Fn(usize) -> bool| {
        let (mut all, mut stride) = (vec![0_usize], 1);
        for mode in (0..extents.len()).rev() {
            let extent = extents[mode] as usize;
            if is_of(mode) {
                let steps = (0..extent).map(|i| i * stride);
                all = steps
                    .flat_map(|step| all.iter().map(move |offset| step + offset))
                    .collect();
            }
            stride *= extent;
        }
        all
    };
    let reduced = offsets(&|mode| modes.contains(&mode));
    let kept = offsets(&|mode| !modes.contains(&mode));
    let of = |result: usize| {
        let elements: Vec<f64> = reduced
            .iter()
            .map(|offset| x[kept[result] + offset].to_f64())
            .collect();
        let want = reference::elements(function, &elements);
        let sizes: f64 = elements.iter().map(|x| x.abs()).sum();
        let bound = match function {
            _ if function.is_index() => 0.0,
            ReduceFunction::Norm => want * 1e-4,
            _ => sizes * 1e-6 + want.abs() * 2.0_f64.powi(-8),
        };
        (result, want, bound)
    };
    Ok([0, results / 2, results - 1].map(of).to_vec())
}
