//! Functions of rows, against a copy of as many bytes.

use std::path::Path;

use anyhow::{Result, ensure};
use colex_atom::Arch;
use colex_gpu::Device;
use colex_gpu::kernels::{CopyCall, GemmElement, View, ViewMut};
use colex_gpu::rowwise::{
    RowFunction, RowStorage, RowTensor, Rowwise, RowwiseCall, RowwisePlan, RowwiseProblem,
    reference,
};
use colex_layout::Layout;
use half::bf16;
use serde_json::json;

use crate::bench::Asked;
use crate::bench::device::{BenchReport, Contender};
use crate::bench::product::sweep::normal;

/// Elements of the input, which exceeds the L2 cache in every type.
const ELEMENTS: i64 = 1 << 26;

/// Columns of the rows: long ones, some that no vector divides, and short ones.
const COLUMNS: [i64; 9] = [16384, 65536, 131_072, 1 << 20, 4097, 33, 256, 1000, 4096];

/// Columns of long rows.
const LONG_COLUMNS: [i64; 10] = [
    16384,
    20_000,
    24576,
    32768,
    40_000,
    52_000,
    65536,
    98_304,
    131_072,
    1 << 20,
];

/// Columns of rows that no cluster holds, in one of the types at least.
const LONGEST_COLUMNS: [i64; 4] = [1 << 18, 1 << 19, 1 << 20, 1 << 21];

/// Columns of the rows of norms.
const WIDTHS: [i64; 4] = [16384, 5120, 4096, 1000];

/// Columns of norms without a residual: rows of which no access has whole vectors, and rows longer than a block has by default.
const OTHER_WIDTHS: [i64; 9] = [
    33,
    4097,
    32768,
    65536,
    131_072,
    196_608,
    1 << 18,
    1 << 19,
    1 << 20,
];

/// Elements of a tensor of 64 MiB in a type of 16 bits.
const SMALL: i64 = 1 << 25;

pub(in crate::bench) fn run(
    device: &Device,
    json: Option<&Path>,
    asked: &mut Asked<'_>,
) -> Result<()> {
    let mut report = BenchReport::new("rows", "TB/s", device);
    println!("{}; normal numbers", crate::bench::device::PROTOCOL);
    for columns in COLUMNS {
        group::<f32>(
            device,
            &mut report,
            asked,
            (RowFunction::Softmax, columns, false),
        )?;
        group::<bf16>(
            device,
            &mut report,
            asked,
            (RowFunction::Softmax, columns, false),
        )?;
    }
    report.write(json)
}

/// Rows that a block or a cluster has in passes, alone.
pub(in crate::bench) fn long(
    device: &Device,
    json: Option<&Path>,
    asked: &mut Asked<'_>,
) -> Result<()> {
    let mut report = BenchReport::new("long-rows", "TB/s", device);
    println!("{}; normal numbers", crate::bench::device::PROTOCOL);
    for columns in LONG_COLUMNS {
        group::<f32>(
            device,
            &mut report,
            asked,
            (RowFunction::Softmax, columns, false),
        )?;
        group::<bf16>(
            device,
            &mut report,
            asked,
            (RowFunction::Softmax, columns, false),
        )?;
    }
    report.write(json)
}

/// Rows that no cluster holds, by teams and in passes, alone.
pub(in crate::bench) fn longest(
    device: &Device,
    json: Option<&Path>,
    asked: &mut Asked<'_>,
) -> Result<()> {
    let mut report = BenchReport::new("longest-rows", "TB/s", device);
    println!("{}; normal numbers", crate::bench::device::PROTOCOL);
    for columns in LONGEST_COLUMNS {
        group::<f32>(
            device,
            &mut report,
            asked,
            (RowFunction::Softmax, columns, false),
        )?;
        group::<bf16>(
            device,
            &mut report,
            asked,
            (RowFunction::Softmax, columns, false),
        )?;
    }
    report.write(json)
}

/// Row-major tensors whose rows lie along another mode than the last one: their extents, and the mode.
const ALONG: [(&[i64], usize); 4] = [
    (&[1000, 65536], 0),
    (&[4096, 16384], 0),
    (&[65536, 1024], 0),
    (&[64, 1024, 1024], 1),
];

/// Rows that lie beside each other, alone.
pub(in crate::bench) fn turned(
    device: &Device,
    json: Option<&Path>,
    asked: &mut Asked<'_>,
) -> Result<()> {
    let mut report = BenchReport::new("turned-rows", "TB/s", device);
    println!("{}; normal numbers", crate::bench::device::PROTOCOL);
    for (extents, mode) in ALONG {
        let softmax = RowFunction::Softmax;
        turned_group::<f32>(device, &mut report, asked, (softmax, extents, mode))?;
        turned_group::<bf16>(device, &mut report, asked, (softmax, extents, mode))?;
    }
    let (extents, mode) = ALONG[1];
    for function in [RowFunction::RmsNorm, RowFunction::LayerNorm] {
        turned_group::<bf16>(device, &mut report, asked, (function, extents, mode))?;
    }
    report.write(json)
}

/// Measures a function along a mode of a row-major tensor with its default plan and with plans around it, and a copy of as many bytes.
fn turned_group<T: GemmElement>(
    device: &Device,
    report: &mut BenchReport,
    asked: &mut Asked<'_>,
    (function, extents, mode): (RowFunction, &[i64], usize),
) -> Result<()> {
    let text: Vec<String> = extents.iter().map(i64::to_string).collect();
    let title = format!(
        "{function} {} along mode {mode} of [{}], row-major",
        T::NAME,
        text.join(", ")
    );
    if !asked.has(&title) {
        return Ok(());
    }
    let count = extents.iter().product::<i64>() as usize;
    let columns = extents[mode];
    let (input, output) = (
        device.uninitialised::<T>(count)?,
        device.poisoned::<T>(count)?,
    );
    normal(&input)?;
    let (weight, bias) = (
        device.uninitialised::<T>(columns as usize)?,
        device.uninitialised::<T>(columns as usize)?,
    );
    normal(&weight)?;
    normal(&bias)?;
    let mut strides = vec![1_i64; extents.len()];
    for at in (1..extents.len()).rev() {
        strides[at - 1] = strides[at] * extents[at];
    }
    // The mode of the rows' elements is the last one of the view.
    let order: Vec<usize> = (0..extents.len())
        .filter(|at| *at != mode)
        .chain([mode])
        .collect();
    let shape: Vec<i64> = order.iter().map(|at| extents[*at]).collect();
    let steps: Vec<i64> = order.iter().map(|at| strides[*at]).collect();
    let (mut written, mut copied) = (output.clone(), device.poisoned::<T>(count)?);
    let line = Layout::new(count, 1)?;
    let copy = CopyCall::new(
        &View::new(&input, line.clone())?,
        &ViewMut::new(&mut copied, line)?,
        None,
    )?;
    let from = View::strided(&input, &shape, &steps)?;
    let to = ViewMut::strided(&mut written, &shape, &steps)?;
    let mut call = Rowwise::new(function, &from, &to);
    if function.is_norm() {
        call = call.weight(&weight.view((columns,))?);
    }
    if function == RowFunction::LayerNorm {
        call = call.bias(&bias.view((columns,))?);
    }
    let mut calls: Vec<(String, RowwiseCall<'_>)> = Vec::new();
    let default = call.prepare()?;
    let (Some(chosen), Some(problem)) = (default.plan().copied(), call.problem()?) else {
        return Ok(());
    };
    calls.push(("default".to_string(), default));
    let around = around_turned(&chosen, columns);
    for (name, plan) in around.into_iter().filter(|_| asked.has_others()) {
        let mut measured = calls.iter();
        if measured.any(|(_, call)| call.plan() == Some(&plan)) {
            continue;
        }
        if plan.check(device.arch()).is_ok() && plan.takes(&problem) {
            calls.push((name, call.prepare_with(|_, _| Ok(plan))?));
        }
    }
    // The first, the middle and the last row, which lie in the first, a middle and the last part of the outer modes.
    let outer: i64 = extents[..mode].iter().product();
    let inner = strides[mode];
    let rows = [(0, 0), (outer / 2, inner / 2), (outer - 1, inner - 1)];
    let x = input.download()?;
    let [weight, bias] = [&weight, &bias]
        .map(|of| -> Result<Vec<f64>> { Ok(of.download()?.into_iter().map(T::to_f64).collect()) });
    let (weight, bias) = (weight?, bias?);
    for (name, call) in &calls {
        output.fill_bytes(0xff)?;
        call.run(device)?;
        let y = output.download()?;
        for (other, row) in rows {
            let of = |all: &[T]| -> Vec<f64> {
                let at = |column: i64| (other * columns + column) * inner + row;
                (0..columns)
                    .map(|column| all[at(column) as usize].to_f64())
                    .collect()
            };
            let weight = function.is_norm().then_some(&weight[..]);
            let bias = (function == RowFunction::LayerNorm).then_some(&bias[..]);
            let right = reference::row(function, &of(&x), weight, bias, 1e-5);
            agrees(&of(&y), &right, &format!("{title}, {name}: row {row}"))?;
        }
    }
    let mut contenders = vec![Contender::new("copy of as many bytes", |device| {
        copy.run(device)
    })];
    for (name, call) in &calls {
        contenders.push(Contender::new(name, |device| call.run(device)));
    }
    let case = json!({
        "kind": function.to_string(), "type": T::NAME, "extents": extents, "modes": [mode], "residual": false,
    });
    let times = asked.take_turns(device, &mut contenders, &case, [11, 4])?;
    let names: Vec<String> = contenders.iter().map(|c| c.name.clone()).collect();
    let bytes = 2.0 * (count * T::BYTES) as f64 / 1e6;
    report.group(&format!("{title}: {chosen}"), &names, &times, bytes);
    Ok(())
}

/// Plans near one whose rows lie beside each other: other widths of a column, threads of a block, blocks of a cluster and accesses, in
/// registers and in passes.
fn around_turned(plan: &RowwisePlan, columns: i64) -> Vec<(String, RowwisePlan)> {
    let mut plans = Vec::new();
    let bytes = i64::from(plan.operands.ty.bits()) / 8;
    for wide in [256, 128, 64, 32] {
        let rows = wide / bytes;
        let across = rows / plan.vector;
        for threads in [128, 256, 512, 1024] {
            for blocks in [1, 2, 4, 8] {
                let of = RowwisePlan {
                    rows,
                    threads: threads / across.max(1),
                    blocks,
                    ..*plan
                };
                let share = of.threads * blocks;
                let whole = RowwisePlan {
                    accesses: (columns + share - 1) / share,
                    storage: RowStorage::Turned { again: false },
                    ..of
                };
                // Blocks without columns, or with few of them, are no contenders.
                if blocks == 1 || whole.accesses >= 8 {
                    let what = format!(
                        "{wide} bytes beside each other, {threads} threads, {blocks} blocks, {} accesses",
                        whole.accesses
                    );
                    plans.push((what, whole));
                }
                for accesses in [4, 8] {
                    let again = RowwisePlan {
                        accesses,
                        storage: RowStorage::Turned { again: true },
                        ..of
                    };
                    let is_asked = (64..=128).contains(&wide)
                        && (256..=512).contains(&threads)
                        && columns >= 4 * share;
                    if is_asked {
                        let what = format!(
                            "{wide} bytes beside each other, {threads} threads, {blocks} blocks, in passes of {accesses} accesses"
                        );
                        plans.push((what, again));
                    }
                }
            }
        }
    }
    plans
}

pub(in crate::bench) fn norms(
    device: &Device,
    json: Option<&Path>,
    asked: &mut Asked<'_>,
) -> Result<()> {
    let mut report = BenchReport::new("norms", "TB/s", device);
    println!("{}; normal numbers", crate::bench::device::PROTOCOL);
    for columns in WIDTHS {
        group::<bf16>(
            device,
            &mut report,
            asked,
            (RowFunction::LogSoftmax, columns, false),
        )?;
        for function in [RowFunction::RmsNorm, RowFunction::LayerNorm] {
            group::<bf16>(device, &mut report, asked, (function, columns, false))?;
            group::<bf16>(device, &mut report, asked, (function, columns, true))?;
        }
    }
    for function in [
        RowFunction::LogSoftmax,
        RowFunction::RmsNorm,
        RowFunction::LayerNorm,
    ] {
        for columns in OTHER_WIDTHS {
            group::<bf16>(device, &mut report, asked, (function, columns, false))?;
        }
        if function.is_norm() {
            group::<bf16>(device, &mut report, asked, (function, 4097, true))?;
        }
        for columns in [33, 4097, 32768, 65536, 98_304, 1 << 18, 1 << 19, 1 << 20] {
            group::<f32>(device, &mut report, asked, (function, columns, false))?;
        }
        for columns in [4096, 16384] {
            group::<f32>(device, &mut report, asked, (function, columns, false))?;
            let small = (function, columns, false);
            group_of::<bf16>(device, &mut report, asked, SMALL, small)?;
        }
    }
    for columns in [1000, 4096, 16384] {
        let small = (RowFunction::Softmax, columns, false);
        group_of::<bf16>(device, &mut report, asked, SMALL, small)?;
    }
    report.write(json)
}

/// A function of rows of a number of columns, and whether it has a residual.
type RowCase = (RowFunction, i64, bool);

/// Measures a function of [`ELEMENTS`] elements.
fn group<T: GemmElement>(
    device: &Device,
    report: &mut BenchReport,
    asked: &mut Asked<'_>,
    case: RowCase,
) -> Result<()> {
    group_of::<T>(device, report, asked, ELEMENTS, case)
}

/// Measures a function with its default plan and with plans around it, and a copy of as many bytes.
fn group_of<T: GemmElement>(
    device: &Device,
    report: &mut BenchReport,
    asked: &mut Asked<'_>,
    elements: i64,
    (function, columns, with_residual): RowCase,
) -> Result<()> {
    let rows = elements / columns;
    let title = format!(
        "{function} {}, {rows} rows of {columns}{}",
        T::NAME,
        if with_residual {
            ", with a residual"
        } else {
            ""
        }
    );
    if !asked.has(&title) {
        return Ok(());
    }
    let count = (rows * columns) as usize;
    let input = device.uninitialised::<T>(count)?;
    normal(&input)?;
    let (weight, bias) = (
        device.uninitialised::<T>(columns as usize)?,
        device.uninitialised::<T>(columns as usize)?,
    );
    normal(&weight)?;
    normal(&bias)?;
    let residual = device.uninitialised::<T>(if with_residual { count } else { 1 })?;
    normal(&residual)?;
    let output = device.poisoned::<T>(count)?;
    let sum = device.poisoned::<T>(residual.len())?;

    let (mut written, mut summed) = (output.clone(), sum.clone());
    // With a residual, the function reads two tensors and writes two.
    let moved = if with_residual { 2 * count } else { count };
    let source = device.uninitialised::<T>(moved)?;
    normal(&source)?;
    let mut copied = device.poisoned::<T>(moved)?;
    let line = Layout::new(moved, 1)?;
    let copy = CopyCall::new(
        &View::new(&source, line.clone())?,
        &ViewMut::new(&mut copied, line)?,
        None,
    )?;
    let shape = (rows, columns);
    let mut call = Rowwise::new(function, &input.view(shape)?, &written.view_mut(shape)?);
    if function.is_norm() {
        call = call.weight(&weight.view((columns,))?);
    }
    if function == RowFunction::LayerNorm {
        call = call.bias(&bias.view((columns,))?);
    }
    if with_residual {
        call = call.residual(&residual.view(shape)?, &summed.view_mut(shape)?);
    }

    let mut calls: Vec<(String, RowwiseCall<'_>)> = Vec::new();
    let default = call.prepare()?;
    let Some(chosen) = default.plan().copied() else {
        return Ok(());
    };
    calls.push(("default".to_string(), default));
    let Some(problem) = call.problem()? else {
        return Ok(());
    };
    let in_turn = in_turn(&problem, device.arch());
    let in_teams = in_teams(&problem, device);
    let divided = divided(&problem, device.arch());
    let meetings = meetings(&chosen, columns);
    let keeping = keeping(&chosen, columns, device.arch());
    let all = around(&chosen, [rows, columns]).into_iter().chain(meetings);
    let shifted = shifted(&problem, device);
    let all = all.chain(in_turn).chain(in_teams).chain(divided);
    let all = all.chain(shifted).chain(staged(&problem, device));
    let all = all.filter(|(_, plan)| asked.has_others() && !was_slow(plan, columns));
    let keeping = keeping.into_iter().filter(|_| asked.has_others());
    for (name, plan) in all.chain(keeping) {
        let fits = |problem: &RowwiseProblem| plan.takes(problem);
        let mut measured = calls.iter();
        if measured.any(|(_, call)| call.plan() == Some(&plan)) {
            continue;
        }
        if plan.check(device.arch()).is_ok() && fits(&problem) {
            calls.push((name, call.prepare_with(|_, _| Ok(plan))?));
        }
    }
    for (name, call) in &calls {
        output.fill_bytes(0xff)?;
        call.run(device)?;
        let parts = [&input, &residual, &weight, &bias, &output];
        check(function, parts, [rows, columns], with_residual, name)?;
    }
    let mut contenders = vec![Contender::new("copy of as many bytes", |device| {
        copy.run(device)
    })];
    for (name, call) in &calls {
        contenders.push(Contender::new(name, |device| call.run(device)));
    }
    let case = json!({
        "kind": function.to_string(), "type": T::NAME, "extents": [rows, columns], "modes": [1], "residual": with_residual,
    });
    let times = asked.take_turns(device, &mut contenders, &case, [11, 4])?;
    let names: Vec<String> = contenders.iter().map(|c| c.name.clone()).collect();
    let bytes = 2.0 * (moved * T::BYTES) as f64 / 1e6;
    report.group(&format!("{title}: {chosen}"), &names, &times, bytes);
    Ok(())
}

/// Plans near a plan, with what differs, each of them once.
fn around(plan: &RowwisePlan, [rows, columns]: [i64; 2]) -> Vec<(String, RowwisePlan)> {
    let mut plans: Vec<(String, RowwisePlan)> = Vec::new();
    let bytes = i64::from(plan.operands.ty.bits()) / 8;
    let mut add = |what: String, changed: RowwisePlan| {
        if changed != *plan && plans.iter().all(|(_, other)| *other != changed) {
            plans.push((what, changed));
        }
    };
    // More threads with fewer accesses, and fewer with more.
    let other = |up: i64, down: i64| RowwisePlan {
        threads: plan.threads * up / down,
        accesses: (plan.accesses * down + up - 1) / up,
        rows: (plan.rows * down / up).max(1),
        ..*plan
    };
    let passes = |[threads, accesses]: [i64; 2], blocks: i64, kept: i64| RowwisePlan {
        threads,
        accesses,
        rows: 1,
        blocks,
        storage: RowStorage::Passes { kept },
        ..*plan
    };
    let meets_once = !plan.meets_once;
    add(
        format!("warps meet {}", if meets_once { "once" } else { "twice" }),
        RowwisePlan {
            meets_once,
            ..*plan
        },
    );
    for [up, down] in [[2, 1], [1, 2]] {
        let changed = other(up, down);
        let RowwisePlan {
            threads, accesses, ..
        } = changed;
        add(format!("{threads} threads, {accesses} accesses"), changed);
    }
    match plan.storage {
        RowStorage::Staged { .. } => {
            for threads in [1, 2, 4, 8] {
                for of_block in [64, 128, 256] {
                    let changed = RowwisePlan {
                        threads,
                        rows: of_block / threads,
                        accesses: (columns + threads - 1) / threads,
                        ..*plan
                    };
                    add(format!("staged, {threads} x {of_block} threads"), changed);
                }
            }
            let single = RowwisePlan {
                vector: 1,
                threads: 8,
                rows: 16,
                accesses: (columns + 7) / 8,
                storage: RowStorage::Registers,
                ..*plan
            };
            add("rows in registers, 8 threads".to_string(), single);
        }
        RowStorage::Registers | RowStorage::Shifted { .. } => {
            if matches!(plan.storage, RowStorage::Shifted { .. }) {
                let single = RowwisePlan {
                    vector: 1,
                    threads: 256,
                    accesses: plan.threads * plan.accesses * plan.vector / 256 + 1,
                    storage: RowStorage::Registers,
                    ..*plan
                };
                add("single elements, 256 threads".to_string(), single);
            }
            for rows in [plan.rows * 4, plan.rows * 2, plan.rows / 2] {
                add(
                    format!("{rows} rows in a block"),
                    RowwisePlan { rows, ..*plan },
                );
            }
            // Long rows one after the other, and in passes.
            if plan.threads >= 512 && plan.storage == RowStorage::Registers {
                let clusters = 132 * 1024 / plan.threads;
                for rows in [1, 3] {
                    let storage = RowStorage::Ahead { rows, clusters };
                    add(format!("{rows} ahead"), RowwisePlan { storage, ..*plan });
                }
                add("in passes".to_string(), passes([512, 4], 1, 0));
            }
        }
        RowStorage::Ahead { rows, clusters } => {
            let ahead = |plan: RowwisePlan, rows: i64, clusters: i64| RowwisePlan {
                storage: RowStorage::Ahead { rows, clusters },
                ..plan
            };
            for fewer in [1, 2] {
                add(format!("{fewer} ahead"), ahead(*plan, fewer, clusters));
            }
            // All that would fit, if clusters did not lie in groups of multiprocessors.
            let all = 132 / plan.blocks * (clusters * plan.blocks / 100).max(1);
            add(format!("{all} clusters"), ahead(*plan, rows, all));
            let two = RowwisePlan {
                threads: 512,
                blocks: (plan.blocks * plan.threads / 512).max(1),
                ..*plan
            };
            let of_two = 2 * clusters * plan.blocks / two.blocks;
            add(
                format!("two blocks of 512 threads, {} blocks", two.blocks),
                ahead(two, rows, of_two),
            );
            add(
                "a launch of all rows".to_string(),
                RowwisePlan {
                    storage: RowStorage::Registers,
                    ..*plan
                },
            );
            add(
                "a launch of all rows, twice the threads".to_string(),
                RowwisePlan {
                    storage: RowStorage::Registers,
                    ..other(2, 1)
                },
            );
            add("3 ahead".to_string(), ahead(*plan, 3, clusters));
            add(
                format!("in passes, {} blocks", plan.blocks),
                passes([512, 4], plan.blocks, 0),
            );
            for threads in [512, 256] {
                let what = format!("in passes, {threads} threads, 8 kept");
                add(what, passes([threads, 1], plan.blocks, 8));
            }
        }
        // `around_turned` has these.
        RowStorage::Turned { .. } => {}
        RowStorage::Alternating { .. } | RowStorage::Divided { .. } | RowStorage::Teams { .. } => {
            for blocks in [1, 2, 4] {
                let what = format!("in passes, 8 kept, {blocks} blocks");
                add(what, passes([512, 1], blocks, 8));
            }
        }
        RowStorage::Passes { .. } => {
            let changed = passes([plan.threads, plan.accesses], plan.blocks, 4);
            add("4 kept".to_string(), changed);
            // A block or a cluster that has one row after the other, where passes are the default.
            if columns * bytes <= 1 << 18 {
                let blocks = match columns * bytes {
                    ..=0x1_0000 => 1,
                    0x1_0001..=0x2_0000 => 2,
                    _ => 4,
                };
                let chunk = 1024 * plan.vector * blocks;
                let (rows, clusters) = [(1, 132), (3, 66), (3, 30)][blocks.ilog2() as usize];
                let ahead = RowwisePlan {
                    threads: 1024,
                    accesses: (columns + chunk - 1) / chunk,
                    blocks,
                    storage: RowStorage::Ahead { rows, clusters },
                    ..*plan
                };
                add("one row after the other".to_string(), ahead);
                let once = RowwisePlan {
                    meets_once: true,
                    ..ahead
                };
                add("one row after the other, warps meet once".to_string(), once);
            }
            // The part of each block twice as long, and half as long.
            for blocks in [plan.blocks / 2, plan.blocks * 2] {
                let what = format!("512 threads, 8 kept, {blocks} blocks");
                add(what, passes([512, 1], blocks, 8));
            }
            // Two and four blocks on a multiprocessor: one of them reads while another one writes.
            for threads in [512, 256] {
                let changed = passes([threads, 1], plan.blocks, 8);
                add(format!("{threads} threads, 8 kept"), changed);
            }
            let what = "in passes, 512 threads, 4 accesses".to_string();
            add(what, passes([512, 4], plan.blocks, 0));
        }
    }
    // Passes whose warps meet once, wherever the rows fill the device: by fewer and more blocks, with less and more of a row kept.
    if columns >= LONG_COLUMNS[0] && plan.vector * bytes == 16 {
        for blocks in [1, 2, 4, 8] {
            let is_filled = rows * blocks >= 256;
            let has_turns = columns >= blocks * 512 * plan.vector * 4;
            for kept in [2, 4, 8] {
                let is_asked = match blocks {
                    8 => columns >= 1 << 17,
                    _ => kept > 2 || columns == 1 << 20,
                };
                if is_filled && has_turns && is_asked {
                    let once = RowwisePlan {
                        meets_once: true,
                        ..passes([512, 1], blocks, kept)
                    };
                    let what =
                        format!("512 threads, {kept} kept, {blocks} blocks, warps meet once");
                    add(what, once);
                }
            }
        }
    }
    plans
}

/// Plans of a layer norm whose warps meet once and twice: by more and fewer threads, with one row in a block and with two, with a tile ahead
/// and without.
fn meetings(plan: &RowwisePlan, columns: i64) -> Vec<(String, RowwisePlan)> {
    if plan.operands.function != RowFunction::LayerNorm || columns < LONG_COLUMNS[0] {
        return Vec::new();
    }
    let mut plans = Vec::new();
    for (meets_once, meets) in [(true, "once"), (false, "twice")] {
        for threads in [256, 512] {
            for rows in [1, 2] {
                for ahead in [0, 1] {
                    let chunk = threads * plan.vector;
                    let storage = match ahead {
                        0 => RowStorage::Registers,
                        _ => RowStorage::Ahead {
                            rows: ahead,
                            clusters: 264,
                        },
                    };
                    let changed = RowwisePlan {
                        threads,
                        rows,
                        accesses: (columns + chunk - 1) / chunk,
                        blocks: 1,
                        storage,
                        meets_once,
                        ..*plan
                    };
                    let what = format!(
                        "meets {meets}, {threads} threads, {rows} in a block, {ahead} ahead"
                    );
                    plans.push((what, changed));
                }
            }
        }
    }
    plans
}

/// Plans of a layer norm, or of an RMSNorm of long rows, that keep the weight and the bias in shared memory: by more and fewer threads, with
/// one row in a block and with two, with a tile ahead and without, by warps that meet once and twice; and the same without what they keep,
/// where no tile is ahead.
fn keeping(plan: &RowwisePlan, columns: i64, arch: Arch) -> Vec<(String, RowwisePlan)> {
    match plan.operands.function {
        RowFunction::LayerNorm => {}
        RowFunction::RmsNorm if columns >= LONG_COLUMNS[0] => {}
        _ => return Vec::new(),
    }
    let mut of_threads = vec![256, 512];
    if !of_threads.contains(&plan.threads) {
        of_threads.push(plan.threads);
    }
    let mut plans = Vec::new();
    for threads in of_threads {
        let chunk = threads * plan.vector;
        let accesses = (columns + chunk - 1) / chunk;
        for rows in [1, 2] {
            for (meets_once, meets) in [(true, "once"), (false, "twice")] {
                for ahead in [0, 1] {
                    let changed = RowwisePlan {
                        threads,
                        rows,
                        accesses,
                        blocks: 1,
                        meets_once,
                        ..*plan
                    };
                    let Ok(kept) = changed.keeping_weights(arch, ahead) else {
                        continue;
                    };
                    let what = format!(
                        "meets {meets}, {threads} threads, {rows} in a block, {ahead} ahead"
                    );
                    plans.push((format!("{what}, weights kept"), kept));
                    if ahead == 0 {
                        let loads = RowwisePlan {
                            keeps_weights: false,
                            ..kept
                        };
                        plans.push((format!("{what}, one row after the other"), loads));
                    }
                }
            }
        }
    }
    plans
}

/// Whether a plan of rows of 16384 numbers of 16 bits was below 0.80 of a copy on an H200 (2026-11-29), so that it is measured no more.
fn was_slow(plan: &RowwisePlan, columns: i64) -> bool {
    let function = plan.operands.function;
    if columns != 16384 || plan.operands.ty.bits() != 16 || function == RowFunction::Softmax {
        return false;
    }
    let has_residual = plan.operands.has(RowTensor::Residual);
    let is_layer_norm = function == RowFunction::LayerNorm;
    let (threads, rows) = (plan.threads, plan.rows);
    match plan.storage {
        // 0.55 to 0.69.
        RowStorage::Registers if threads == 1024 || threads * rows == 1024 && rows > 2 => true,
        RowStorage::Divided { .. } if threads == 1024 => true,
        // 0.57 to 0.77, but for one row by 512 threads that meet once (0.88).
        RowStorage::Registers if is_layer_norm && !has_residual => {
            !(threads == 512 && rows == 1 && plan.meets_once)
        }
        // 0.57 to 0.78.
        RowStorage::Passes { .. } => is_layer_norm,
        // 0.71 and 0.75; 0.84 and 0.77 if they meet twice.
        RowStorage::Ahead { .. } if is_layer_norm && threads * rows == 1024 => {
            plan.meets_once || has_residual
        }
        // One row after the other: 0.77.
        RowStorage::Divided { clusters, .. } if is_layer_norm && threads == 512 => clusters < 4096,
        _ => false,
    }
}

/// Plans of rows that begin anywhere whose blocks have one row after the other: by more and fewer threads, blocks of a multiprocessor and
/// blocks of the launch, with a row ahead and without, by warps that meet once and twice; and with a block for each row.
fn shifted(problem: &RowwiseProblem, device: &Device) -> Vec<(String, RowwisePlan)> {
    let (operands, columns) = (problem.operands(), problem.columns());
    let bytes = i64::from(operands.ty.bits()) / 8;
    if operands.vector * bytes >= 4 || columns < 512 {
        return Vec::new();
    }
    let multiprocessors = i64::from(device.limits().multiprocessors);
    let functions = [(false, "twice"), (true, "once")];
    let mut plans = Vec::new();
    let mut add = |[threads, vector]: [i64; 2], clusters: i64, what: &str| {
        let accesses = ((columns / vector + threads - 1) / threads).max(1);
        for ahead in [0, 1] {
            for (meets_once, meets) in functions {
                if ahead > clusters {
                    continue;
                }
                let plan = RowwisePlan {
                    operands,
                    vector,
                    threads,
                    rows: 1,
                    accesses,
                    blocks: 1,
                    storage: RowStorage::Shifted {
                        rows: ahead,
                        clusters,
                    },
                    meets_once,
                    keeps_weights: false,
                };
                let what = format!("{threads} threads, {what}, {ahead} ahead, meet {meets}");
                plans.push((what, plan));
            }
        }
    };
    for (threads, vector, beside) in [
        (128, 8, &[3, 4, 5, 6][..]),
        (256, 8, &[2, 3, 4, 5]),
        (512, 8, &[2, 3]),
        (1024, 4, &[1, 2]),
    ] {
        let vector = vector * 2 / bytes;
        for beside in beside {
            let blocks = multiprocessors * beside / vector * vector;
            add([threads, vector], blocks, &format!("{beside} beside"));
        }
        add([threads, vector], 0, "a block for each row");
    }
    // More blocks than run at once, so that the last ones of a launch have few rows left.
    for blocks in [1056, 2048, 4096] {
        for threads in [128, 256] {
            add([threads, 16 / bytes], blocks, &format!("{blocks} blocks"));
        }
    }
    plans
}

/// Plans of short rows of a norm that are staged in shared memory, whose blocks have one tile of rows after the other: by more and fewer
/// threads of a row and of a block, blocks of a multiprocessor and blocks of the launch, with a tile ahead and without.
fn staged(problem: &RowwiseProblem, device: &Device) -> Vec<(String, RowwisePlan)> {
    let (operands, columns) = (problem.operands(), problem.columns());
    let bytes = i64::from(operands.ty.bits()) / 8;
    if operands.vector * bytes >= 4 || columns >= 512 || !operands.function.is_norm() {
        return Vec::new();
    }
    let multiprocessors = i64::from(device.limits().multiprocessors);
    let mut plans = Vec::new();
    for threads in [1, 2, 4] {
        for of_block in [64, 128, 256] {
            for resident in [512, 768, 1024, 1536, 4096] {
                for ahead in [0, 1] {
                    let clusters = (multiprocessors * resident / of_block).min(4096);
                    let plan = RowwisePlan {
                        operands,
                        vector: 16 / bytes,
                        threads,
                        rows: of_block / threads,
                        accesses: (columns + threads - 1) / threads,
                        blocks: 1,
                        storage: RowStorage::Staged {
                            rows: ahead,
                            clusters,
                        },
                        meets_once: false,
                        keeps_weights: false,
                    };
                    let what = format!(
                        "staged, {threads} x {of_block} threads, {clusters} blocks, {ahead} ahead"
                    );
                    plans.push((what, plan));
                }
            }
        }
    }
    plans
}

/// Plans of long rows whose blocks have groups of threads that take rows in turn, or one group: by the fewest blocks that hold a row, with
/// as many slots as there is room for, up to four for each group.
fn in_turn(problem: &RowwiseProblem, arch: Arch) -> Vec<(String, RowwisePlan)> {
    if problem.columns() < LONG_COLUMNS[0] {
        return Vec::new();
    }
    let of_groups = |[threads, groups]: [i64; 2]| {
        let plan = [1, 2, 4, 8].into_iter().find_map(|blocks| {
            RowwisePlan::alternating(problem, arch, blocks, [threads, groups]).ok()
        })?;
        let RowStorage::Alternating { slots, .. } = plan.storage else {
            return None;
        };
        let counted = |count: i64, what: &str| match count {
            1 => format!("1 {what}"),
            _ => format!("{count} {what}s"),
        };
        let [groups, blocks, slots] = [
            counted(groups, "group"),
            counted(plan.blocks, "block"),
            counted(slots, "slot"),
        ];
        let what = format!("{groups} of {threads} threads in turn, {blocks}, {slots}");
        Some((what, plan))
    };
    let all = [[1024, 1], [512, 2], [256, 2]];
    all.into_iter().filter_map(of_groups).collect()
}

/// Plans of long rows that registers and shared memory hold together, by the fewest blocks that hold a row: as many clusters as run at once,
/// each with one row after the other, and a launch of all rows.
fn divided(problem: &RowwiseProblem, arch: Arch) -> Vec<(String, RowwisePlan)> {
    if problem.columns() < LONG_COLUMNS[0] {
        return Vec::new();
    }
    let mut plans = Vec::new();
    for [threads, beside] in [[1024, 1], [512, 2], [256, 3], [256, 4]] {
        let plan = [1, 2, 4, 8]
            .into_iter()
            .find_map(|blocks| RowwisePlan::divided(problem, arch, blocks, [threads, beside]).ok());
        let Some(plan) = plan else { continue };
        let RowStorage::Divided { held, kept, .. } = plan.storage else {
            continue;
        };
        let what = format!(
            "{threads} threads hold {held} and keep {kept}, {beside} beside, {} blocks",
            plan.blocks
        );
        let whole = RowwisePlan {
            storage: RowStorage::Divided {
                held,
                kept,
                clusters: problem.rows(),
            },
            ..plan
        };
        let once = RowwisePlan {
            meets_once: true,
            ..whole
        };
        plans.push((format!("{what}, one row after the other"), plan));
        plans.push((format!("{what}, all rows"), whole));
        plans.push((format!("{what}, all rows, warps meet once"), once));
    }
    plans
}

/// Plans of long rows whose blocks are in teams: by teams of a part of all multiprocessors, by one to six groups of threads in each
/// block, with a slot for each group and with two, and with results that are one or two rows behind.
fn in_teams(problem: &RowwiseProblem, device: &Device) -> Vec<(String, RowwisePlan)> {
    let row = problem.columns() * i64::from(problem.operands().ty.bits()) / 8;
    if row < 1 << 16 {
        return Vec::new();
    }
    let (multiprocessors, arch) = (i64::from(device.limits().multiprocessors), device.arch());
    let mut plans = Vec::new();
    for blocks in [2, 4, 6, 8, 12, 16, 24, 32, 33, 44, 64, 66, 128, 132] {
        // Teams that leave a tenth of the multiprocessors idle are slower.
        if 10 * (multiprocessors / blocks * blocks) < 9 * multiprocessors {
            continue;
        }
        let of_all = [
            [512, 1],
            [512, 2],
            [256, 2],
            [256, 3],
            [256, 4],
            [128, 4],
            [128, 6],
        ];
        for [threads, groups] in of_all {
            let of = [blocks, multiprocessors];
            let plan = RowwisePlan::in_teams(problem, arch, of, [threads, groups]);
            let Ok(plan) = plan else { continue };
            let RowStorage::Teams {
                slots: most,
                teams,
                lag,
                ..
            } = plan.storage
            else {
                continue;
            };
            let of = format!("teams of {blocks} blocks, {groups} x {threads} threads");
            for slots in [groups, 2 * groups] {
                if row > 1 << 19 && slots <= most && threads > 128 && groups != 3 {
                    let storage = RowStorage::Teams {
                        groups,
                        slots,
                        teams,
                        lag,
                    };
                    let plan = RowwisePlan { storage, ..plan };
                    let what = format!("{of}, {slots} slots");
                    if let Ok(kept) = plan.keeping_weights(arch, slots / groups) {
                        plans.push((format!("{what}, weights kept"), kept));
                    }
                    plans.push((what, plan));
                }
            }
            let kept = plan.keeping_weights(arch, 1);
            for behind in [1, 2] {
                let kept = kept.as_ref().map(|kept| kept.lagging(arch, behind));
                let (what, later) = match kept {
                    Ok(Ok(kept)) => ("weights kept", kept),
                    _ => match plan.lagging(arch, behind) {
                        Ok(later) => ("weights not kept", later),
                        Err(_) => continue,
                    },
                };
                plans.push((format!("{of}, {behind} behind, {what}"), later));
            }
        }
    }
    plans
}

/// Compares the first, the middle and the last row with double precision.
fn check<T: GemmElement>(
    function: RowFunction,
    [input, residual, weight, bias, output]: [&colex_gpu::Buffer<T>; 5],
    [rows, columns]: [i64; 2],
    with_residual: bool,
    name: &str,
) -> Result<()> {
    let of = |buffer: &colex_gpu::Buffer<T>, row: i64| -> Result<Vec<f64>> {
        let part = buffer.slice((row * columns) as usize..((row + 1) * columns) as usize)?;
        Ok(part.download()?.into_iter().map(T::to_f64).collect())
    };
    let (weight, bias) = (of(weight, 0)?, of(bias, 0)?);
    for row in [0, rows / 2, rows - 1] {
        let mut x = of(input, row)?;
        if with_residual {
            let added = x.iter().zip(of(residual, row)?).map(|(x, r)| x + r);
            x = added.map(|sum| T::from_f64(sum).to_f64()).collect();
        }
        let weight = function.is_norm().then_some(&weight[..]);
        let bias = (function == RowFunction::LayerNorm).then_some(&bias[..]);
        let right = reference::row(function, &x, weight, bias, 1e-5);
        let found = of(output, row)?;
        agrees(&found, &right, &format!("{function}, {name}: row {row}"))?;
    }
    Ok(())
}

/// Compares a row with double precision.
fn agrees(found: &[f64], right: &[f64], what: &str) -> Result<()> {
    let difference = |(found, right): (&f64, &f64)| (found - right).abs();
    let most = found.iter().zip(right).map(difference).fold(0.0, f64::max);
    let largest = right.iter().fold(0.0_f64, |most, y| most.max(y.abs()));
    // Half a unit of bf16's 8 bits of the largest element, twice.
    let bound = largest * 2.0_f64.powi(-8) * 2.0;
    let is_right = found.iter().all(|y| y.is_finite()) && most <= bound;
    ensure!(is_right, "{what} differs by {most}, {bound} at most");
    Ok(())
}
