//! Attention of many shapes: plans of the Hopper kernel in turn, and their export for `gpu/bench/attention_beside_cudnn.py`,
//! which runs them beside cuDNN. Drawn problems over the whole surface (`--random`) are in [`drawn`], their times in
//! [`measured`] and their drawings in [`recorded`].

pub(super) mod drawn;
pub(super) mod measured;
mod recorded;

use std::path::Path;
use std::process::ExitCode;

use anyhow::{Context, Result, ensure};
use colex_atom::{Arch, Ty};
use colex_gpu::attention::{
    Attention, AttentionCall, AttentionMethod, AttentionOperands, AttentionPlan, AttentionProblem,
    AttentionTensor, Mask,
};
use colex_gpu::tensor::TensorKernel;
use colex_gpu::{Buffer, Device, DeviceKernel, LaunchArg, Load, Timing, View, ViewMut};
use colex_layout::Layout;
use half::bf16;
use serde_json::{Value, json};

use super::device::{BenchReport, Contender, PROTOCOL, take_turns};
use super::product::sweep::Sweep;
use super::serving;
use recorded::Recorded;

/// Draws what a file of problems has.
pub(super) fn draw(from: &Path, sweep: &Sweep) -> Result<ExitCode> {
    let text = std::fs::read_to_string(from)
        .with_context(|| format!("{} cannot be read", from.display()))?;
    let recorded = Recorded::parse(&text).with_context(|| from.display().to_string())?;
    if let Some(folder) = sweep.svg() {
        recorded.write(folder)?;
    }
    Ok(ExitCode::SUCCESS)
}

/// Tokens of a batch, and numbers of a token.
const TOKENS: i64 = 16384;
const HIDDEN: i64 = 2048;

/// The numbers of features that are measured.
const WIDTHS: [i64; 3] = [64, 128, 256];

/// The plan of a call, and those beside it that were the fastest of some shape.
fn variants(problem: &AttentionProblem) -> Result<Vec<AttentionPlan>> {
    let operands = AttentionOperands::of(problem, [0; 4]);
    let plan = AttentionPlan::fastest(problem, operands, Arch::Sm90a, 132)?;
    let mut all = vec![plan];
    if problem.mask == Mask::Causal {
        let strips = AttentionPlan {
            pairs: false,
            strip: 4,
            ..plan
        };
        let one_tile = AttentionPlan {
            persistent: false,
            ..strips
        };
        all.extend([one_tile, strips]);
    } else if problem.features[0] == 128 {
        let narrow = AttentionPlan {
            tile: [192, 80],
            consumers: 3,
            ..plan
        };
        all.push(narrow);
    } else if problem.features[0] == 256 {
        let with_keys = |keys, overlap, cluster| AttentionPlan {
            tile: [plan.tile[0], keys],
            turns: true,
            overlap,
            cluster,
            ..plan
        };
        let beside = [
            with_keys(80, false, 1),
            with_keys(80, true, 1),
            with_keys(80, false, 2),
            with_keys(64, true, 1),
            with_keys(64, false, 1),
        ];
        all.extend(beside.into_iter().filter(|beside| *beside != plan));
    }
    Ok(all)
}

/// The plan of a call, and for each of its fields the plans in which only that one has another number.
fn ladder(problem: &AttentionProblem) -> Result<Vec<AttentionPlan>> {
    let operands = AttentionOperands::of(problem, [0; 4]);
    let plan = AttentionPlan::fastest(problem, operands, Arch::Sm90a, 132)?;
    let [rows, keys] = [plan.tile[0] / plan.consumers, plan.tile[1]];
    let mut all = vec![plan];
    let mut add = |change: &dyn Fn(&mut AttentionPlan)| {
        let mut changed = plan;
        change(&mut changed);
        if changed.check(Arch::Sm90a).is_ok() && !all.contains(&changed) {
            all.push(changed);
        }
    };
    add(&|of| of.overlap = !of.overlap);
    add(&|of| of.turns = !of.turns);
    add(&|of| of.pairs = !of.pairs && problem.mask == Mask::Causal);
    add(&|of| of.persistent = !of.persistent);
    for strip in [2, 4] {
        add(&|of| of.strip = strip);
    }
    for ahead in [1, 2] {
        add(&|of| of.ahead = ahead);
    }
    for stages in [1, 2, 3] {
        add(&|of| of.stages = stages);
    }
    for keys in [keys / 2, keys - 16, keys + 16] {
        add(&|of| of.tile[1] = keys);
    }
    for consumers in [1, 2, 3] {
        add(&|of| {
            (of.consumers, of.tile[0]) = (consumers, rows * consumers);
            of.turns = of.turns && consumers > 1;
        });
    }
    add(&|of| of.cluster = 2);
    for registers in [[24, 168], [24, 208], [24, 224], [40, 232]] {
        add(&|of| of.registers = Some(registers));
    }
    Ok(all)
}

/// The problems whose plans are measured with one field changed at a time.
fn ladder_problems() -> [AttentionProblem; 2] {
    [Mask::Full, Mask::Causal].map(|mask| {
        let heads = HIDDEN / 128;
        AttentionProblem::new(Ty::Bf16, 4, [heads; 2], [4096; 2], [128; 2]).mask(mask)
    })
}

/// The name of the kernel of a plan: the grid is the launch's.
fn kernel_name(plan: &AttentionPlan) -> String {
    let persistent = true;
    let of_kernel = AttentionPlan {
        persistent,
        ..*plan
    };
    of_kernel.to_string()
}

/// The problems of the published tables: 16k tokens of 2048 numbers, and 48 heads of 128.
fn problems() -> Vec<AttentionProblem> {
    let mut all = Vec::new();
    let mut add = |batch, heads, length, width, mask| {
        let problem = AttentionProblem::new(Ty::Bf16, batch, [heads; 2], [length; 2], [width; 2]);
        all.push(problem.mask(mask));
    };
    for width in WIDTHS {
        for mask in [Mask::Full, Mask::Causal] {
            for length in [512, 1024, 2048, 4096, 8192, 16384] {
                add(TOKENS / length, HIDDEN / width, length, width, mask);
            }
        }
    }
    for length in [1024, 2048, 4096, 8192] {
        add(4, 48, length, 128, Mask::Causal);
    }
    all
}

/// The layout of a tensor in the modes of the kernel.
fn view_of(problem: &AttentionProblem, tensor: AttentionTensor) -> Result<Layout> {
    let (extents, strides) = (problem.extents(tensor), problem.strides[tensor as usize]);
    let modes = match tensor {
        AttentionTensor::V => [3, 2, 1, 0],
        _ => [2, 3, 1, 0],
    };
    let [[a, b, c, d], [s, t, u, v]] =
        [extents, strides].map(|of| modes.map(|mode: usize| of[mode]));
    Ok(Layout::new((a, b, c, d), (s, t, u, v))?)
}

/// Writes the kernels as PTX into a folder, and `manifest.json`, which says how they are launched.
pub(super) fn export(folder: &Path) -> Result<ExitCode> {
    std::fs::create_dir_all(folder)
        .with_context(|| format!("{} cannot be made", folder.display()))?;
    let mut entries: Vec<Value> = Vec::new();
    for problem in problems() {
        for (i, variant) in variants(&problem)?.into_iter().enumerate() {
            let name = kernel_name(&variant);
            let found = entries.iter().position(|entry| {
                entry["name"] == name && entry["causal"] == (problem.mask == Mask::Causal)
            });
            let at = found.unwrap_or(entries.len());
            if found.is_none() {
                let built = variant.build(Arch::Sm90a)?;
                let file = format!("{at}.ptx");
                std::fs::write(folder.join(&file), built.kernel.ptx()?)?;
                entries.push(entry(&problem, &variant, &built, &file)?);
            }
            add(&mut entries[at]["grids"], json!(variant.persistent))?;
            if i == 0 {
                add(&mut entries[at]["usual"], shape(&problem))?;
            }
        }
    }
    let text = serde_json::to_string_pretty(&entries)? + "\n";
    std::fs::write(folder.join("manifest.json"), text)?;
    println!("{} kernels in {}", entries.len(), folder.display());
    Ok(ExitCode::SUCCESS)
}

/// Adds a value to a list that does not have it.
fn add(list: &mut Value, value: Value) -> Result<()> {
    let list = list.as_array_mut().context("it is a list")?;
    if !list.contains(&value) {
        list.push(value);
    }
    Ok(())
}

/// The sequences, heads, queries and keys of a problem.
fn shape(problem: &AttentionProblem) -> Value {
    let ([heads, _], [queries, keys]) = (problem.heads, problem.lengths);
    json!([problem.batch, heads, queries, keys])
}

/// What a program must know to launch a kernel. `usual` are the shapes whose calls take it with one of the `grids`. The number of a swizzle is that of `CUtensorMapSwizzle`.
fn entry(
    problem: &AttentionProblem,
    plan: &AttentionPlan,
    built: &TensorKernel,
    file: &str,
) -> Result<Value> {
    let mut maps = Vec::new();
    for tensor in AttentionTensor::ALL {
        let map = built.tensor_map(tensor.name(), view_of(problem, tensor)?)?;
        let swizzle = ["None", "B32", "B64", "B128"]
            .iter()
            .position(|name| *name == format!("{:?}", map.swizzle));
        maps.push(json!([map.extents, swizzle.context("a swizzle of TMA")?]));
    }
    Ok(json!({
        "name": kernel_name(plan), "ptx": file, "entry": built.kernel.name, "threads": (plan.consumers + 1) * 128,
        "shared": built.dynamic_shared(), "width": problem.features[0], "queries": plan.tile[0],
        "causal": problem.mask == Mask::Causal, "pairs": plan.pairs, "cluster": plan.cluster, "maps": maps, "grids": [], "usual": [],
    }))
}

/// Measures all problems, and draws the default plans of them if there is a folder; and then keys in pages and sequences of different
/// lengths (`bench paged`, `bench varlen`).
pub(super) fn run(device: &Device, json: Option<&Path>, svg: Option<&Path>) -> Result<()> {
    let mut report = BenchReport::new("attention", "TFLOP/s", device);
    println!("{PROTOCOL}; causal work counts half");
    for problem in problems() {
        measure(device, &problem, &variants(&problem)?, &mut report)?;
    }
    measure_ladders(device, &mut report)?;
    report.write(json)?;
    if let Some(folder) = svg {
        Recorded::of(report.value())?.write(folder)?;
    }
    serving::paged(device, None)?;
    serving::varlen(device, None)
}

/// Measures plans with one field changed at a time, and nothing else (`bench attention-ladder`).
pub(super) fn ladders(device: &Device, json: Option<&Path>) -> Result<()> {
    let mut report = BenchReport::new("attention-ladder", "TFLOP/s", device);
    println!("{PROTOCOL}; causal work counts half");
    measure_ladders(device, &mut report)?;
    report.write(json)
}

fn measure_ladders(device: &Device, report: &mut BenchReport) -> Result<()> {
    println!("one field of the plan changed at a time");
    ladder_problems()
        .iter()
        .try_for_each(|problem| measure(device, problem, &ladder(problem)?, report))
}

/// Measures the plans of a problem.
fn measure(
    device: &Device,
    problem: &AttentionProblem,
    plans: &[AttentionPlan],
    report: &mut BenchReport,
) -> Result<()> {
    let buffers = AttentionTensor::ALL.map(|tensor| {
        let length: i64 = problem.extents(tensor).iter().product();
        normal(device, length as usize, tensor as u64)
    });
    let [q, k, v, o] = buffers;
    let (read, o) = ([q?, k?, v?], o?);
    let mut kernels: Vec<(String, DeviceKernel, u32)> = Vec::new();
    for plan in plans {
        let tiles = problem.lengths[0].div_euclid(plan.tile[0])
            + i64::from(problem.lengths[0] % plan.tile[0] > 0);
        let of_item = if plan.pairs { 2 } else { plan.cluster };
        let along = (tiles + of_item - 1) / of_item;
        let all = along * problem.heads[0] * problem.batch;
        let at_once = i64::from(device.limits().multiprocessors) / plan.cluster;
        let clusters = if plan.persistent {
            all.min(at_once)
        } else {
            all
        };
        let blocks = clusters * plan.cluster;
        let kernel = plan.build(device.arch())?.load(device)?;
        kernels.push((plan.to_string(), kernel, blocks as u32));
    }
    let layouts = [0, 1, 2, 3].map(|i| view_of(problem, AttentionTensor::ALL[i]));
    let [of_q, of_k, of_v, of_o] = layouts;
    let (of_read, of_o) = ([of_q?, of_k?, of_v?], of_o?);
    let numbers = [
        problem.lengths[0],
        problem.lengths[1],
        problem.heads[0],
        problem.batch,
        problem.heads[0] / problem.heads[1],
    ];
    let contenders: Vec<Contender<'_>> = kernels
        .iter()
        .map(|(name, kernel, blocks)| {
            let (read, of_read, of_o, o) = (&read, &of_read, &of_o, &o);
            Contender::new(name, move |_| {
                // Every launch has a handle of its own to what it writes.
                let mut written = o.clone();
                let mut given: Vec<LaunchArg<'_>> = Vec::new();
                for (buffer, layout) in read.iter().zip(of_read) {
                    given.push(View::new(buffer, layout)?.into());
                }
                given.push(ViewMut::new(&mut written, of_o)?.into());
                given.extend(numbers.map(|n| LaunchArg::from(n as u32)));
                given.push((problem.scale * std::f32::consts::LOG2_E).into());
                kernel.launch([*blocks as usize], given)
            })
        })
        .collect();
    let times = take_turns(device, &contenders, 7, 4)?;
    let names: Vec<String> = contenders.iter().map(|c| c.name.clone()).collect();
    add_group(report, problem, &names, &times);
    Ok(())
}

/// Adds the times of the plans of a problem to a report. A causal mask leaves half of the work.
fn add_group(
    report: &mut BenchReport,
    problem: &AttentionProblem,
    names: &[String],
    times: &[Timing],
) {
    let [queries, keys] = problem.lengths;
    let pairs = (problem.batch * problem.heads[0] * queries * keys) as f64;
    let half = if problem.mask == Mask::Causal {
        0.5
    } else {
        1.0
    };
    let work = 4.0 * half * pairs * problem.features[0] as f64 / 1e6;
    let of_group = (&*problem.to_string(), drawn::described(problem));
    report.group_of(of_group, names, times, work);
}

/// Problems of which a candidate for the default is measured: one product after the other, which is faster for 256 features
/// without a mask.
fn contested() -> Vec<AttentionProblem> {
    let mut all = Vec::new();
    for (features, mask) in [
        ([256, 256], Mask::Causal),
        ([192, 128], Mask::Causal),
        ([192, 128], Mask::Full),
    ] {
        for length in [4096, 16384] {
            let batch = TOKENS / length;
            let problem = AttentionProblem::new(Ty::Bf16, batch, [8; 2], [length; 2], features);
            all.push(problem.mask(mask));
        }
    }
    all
}

/// The default plan of a contested problem, and the candidates.
fn candidates(problem: &AttentionProblem) -> Result<Vec<AttentionPlan>> {
    let operands = AttentionOperands::of(problem, [0; 4]);
    let plan = AttentionPlan::fastest(problem, operands, Arch::Sm90a, 132)?;
    let in_sequence = AttentionPlan {
        overlap: !plan.overlap,
        ..plan
    };
    let in_turns = AttentionPlan {
        turns: true,
        ..in_sequence
    };
    let mut all = vec![plan, in_sequence];
    if in_turns != in_sequence {
        all.push(in_turns);
    }
    Ok(all)
}

/// The sequences and the keys of each that a step of decoding is measured with: 32 heads on 8, of 128 features.
const DECODED: [[i64; 2]; 2] = [[64, 8192], [1, 131_072]];

/// The problem of a step of decoding.
fn decoded([batch, keys]: [i64; 2]) -> AttentionProblem {
    AttentionProblem::new(Ty::Bf16, batch, [32, 8], [1, keys], [128; 2])
}

/// Measures one query of each sequence and many keys: the default plan of the call, and plans beside it.
pub(super) fn decode(device: &Device, json: Option<&Path>) -> Result<()> {
    let mut report = BenchReport::new("decode", "TB/s", device);
    println!("{PROTOCOL}; bytes of Q, K, V and O");
    for step in DECODED {
        measure_decode(device, &decoded(step), &mut report)?;
    }
    report.write(json)
}

/// The default plan, and others with a change each: kernels that begin early or not, parts that lanes add or threads; stages, keys of a step and parts of the keys; then parts that lanes add.
fn decode_variants(
    problem: &AttentionProblem,
    operands: AttentionOperands,
    device: &Device,
) -> Vec<AttentionPlan> {
    let multiprocessors = device.limits().multiprocessors;
    let late =
        AttentionPlan::new(AttentionMethod::Ampere, operands).suited_to(problem, multiprocessors);
    let early = AttentionPlan {
        early: true,
        ..late
    };
    let begins = late.splits > 1 && early.check(device.arch()).is_ok();
    let usual = if begins { early } else { late };
    let mut all = vec![usual];
    for (early, by_lanes) in [(true, false), (true, true), (false, false), (false, true)] {
        all.push(AttentionPlan {
            early,
            by_lanes,
            ..usual
        });
    }
    for stages in [3, 4] {
        all.push(AttentionPlan { stages, ..usual });
    }
    for (keys, stages) in [(32, 2), (32, 4), (128, 2)] {
        let tile = [usual.tile[0], keys];
        all.push(AttentionPlan {
            tile,
            stages,
            ..usual
        });
    }
    for splits in [1, 2, 4, 8, 16, 32, 64, 128] {
        all.push(AttentionPlan {
            splits,
            by_lanes: usual.by_lanes && splits > 1,
            ..usual
        });
    }
    // Parts that lanes add: of the usual steps and of half as many keys, in one wave of two to six blocks on each multiprocessor.
    let places = i64::from(device.limits().multiprocessors) * usual.packs / group(problem);
    let [rows, _] = usual.tile;
    for (keys, stages, of_each) in [
        (64, 2, 2),
        (64, 2, 3),
        (64, 3, 2),
        (32, 2, 4),
        (32, 2, 6),
        (32, 3, 3),
        (32, 3, 4),
        (32, 4, 3),
        // One block on each multiprocessor, with most of its shared memory under way.
        (64, 4, 1),
        (64, 6, 1),
        (128, 3, 1),
    ] {
        let most = (places * of_each / (problem.batch * problem.heads[1])).clamp(2, 128);
        for splits in [most, 1 << most.ilog2()] {
            all.push(AttentionPlan {
                tile: [rows, keys],
                stages,
                splits,
                by_lanes: true,
                ..usual
            });
        }
    }
    all.extend(beginnings(problem, &usual, multiprocessors));
    let mut distinct: Vec<AttentionPlan> = Vec::new();
    for plan in all {
        if plan.check(device.arch()).is_ok() && !distinct.contains(&plan) {
            distinct.push(plan);
        }
    }
    distinct
}

/// Plans that begin early with what a block does before it waits, with a bound of the blocks beside each other, and with a second
/// kernel that lets the next launch begin. Of the usual plan each alone; all together of 32 or 64 keys, two or three stages, and
/// parts that are equal or fill the places.
fn beginnings(
    problem: &AttentionProblem,
    usual: &AttentionPlan,
    multiprocessors: u32,
) -> Vec<AttentionPlan> {
    let [rows, _] = usual.tile;
    let multiprocessors = i64::from(multiprocessors);
    let blocks = |splits: i64| problem.batch * problem.heads[0] / usual.packs * splits;
    let of = |[keys, stages, splits]: [i64; 3], prefetch, next, is_bounded: bool| {
        let wave = (blocks(splits) + multiprocessors - 1) / multiprocessors;
        AttentionPlan {
            tile: [rows, keys],
            stages,
            splits,
            by_lanes: usual.by_lanes && splits > 1,
            early: true,
            prefetch,
            next_early: next && splits > 1,
            beside: if is_bounded { wave } else { 0 },
            ..*usual
        }
    };
    let first = [usual.tile[1], usual.stages, usual.splits];
    let mut all = Vec::new();
    for (prefetch, next, is_bounded) in [
        (None, false, true),
        (None, true, true),
        (Some(0), false, false),
        (Some(1), false, false),
        (Some(2), false, false),
        (Some(2), false, true),
        (Some(1), true, true),
        (Some(2), true, true),
        (Some(4), true, true),
    ] {
        all.push(of(first, prefetch, next, is_bounded));
    }
    let narrow = usual.tile[1].min(32);
    let wide = 2 * narrow;
    let splits = usual.splits;
    for (keys, stages, splits) in [
        (wide, 3, splits),
        (wide, 2, splits + 1),
        (wide, 3, splits + 1),
        (narrow, 2, 2 * splits),
        (narrow, 3, 2 * splits),
        (narrow, 2, 2 * (splits + 1)),
        (narrow, 3, 2 * (splits + 1)),
    ] {
        if usual.splits > 1 {
            let steps = 2 * wide / keys;
            all.push(of([keys, stages, splits], Some(steps), true, true));
        }
    }
    all
}

/// The heads of Q that read one head of K.
fn group(problem: &AttentionProblem) -> i64 {
    (problem.heads[0] / problem.heads[1].max(1)).max(1)
}

/// Measures the plans of a step of decoding.
fn measure_decode(
    device: &Device,
    problem: &AttentionProblem,
    report: &mut BenchReport,
) -> Result<()> {
    let largest = with_plans(device, problem, |calls| {
        let contenders: Vec<Contender<'_>> = (calls.iter())
            .map(|call| Contender::new(call.to_string(), |device| call.run(device)))
            .collect();
        let times = take_turns(device, &contenders, 9, 4)?;
        let names: Vec<String> = contenders.iter().map(|c| c.name.clone()).collect();
        let elements = AttentionTensor::ALL.map(|of| problem.extents(of).iter().product::<i64>());
        let bytes = 2 * elements.iter().sum::<i64>();
        report.group(&problem.to_string(), &names, &times, bytes as f64 / 1e6);
        Ok(())
    })?;
    println!("  the largest difference from the output of the first: {largest:.1e}");
    ensure!(
        largest < 1e-2,
        "{problem}: plans differ by {largest}: at most 0.01 is rounding"
    );
    Ok(())
}

/// Gives the calls of the plans of a step of decoding to `body`, each of which has run once. Returns the largest difference of
/// their outputs from that of the first.
fn with_plans(
    device: &Device,
    problem: &AttentionProblem,
    body: impl FnOnce(&[AttentionCall<'_>]) -> Result<()>,
) -> Result<f32> {
    let extents = AttentionTensor::ALL.map(|tensor| problem.extents(tensor));
    let lengths = extents.map(|extents| extents.iter().product::<i64>() as usize);
    let [q, k, v] = [0, 1, 2].map(|i| normal(device, lengths[i], i as u64));
    let (q, k, v) = (q?, k?, v?);
    let (q, k, v) = (
        q.view(extents[0])?,
        k.view(extents[1])?,
        v.view(extents[2])?,
    );
    let plans = decode_variants(problem, AttentionOperands::of(problem, [0; 4]), device);
    let outputs = plans.iter().map(|_| device.poisoned::<bf16>(lengths[3]));
    let mut outputs: Vec<Buffer<bf16>> = outputs.collect::<Result<_, _>>()?;
    {
        let mut calls: Vec<AttentionCall<'_>> = Vec::new();
        for (plan, o) in plans.iter().zip(&mut outputs) {
            let o = o.view_mut(extents[3])?;
            let call = Attention::new(&q, &k, &v, &o).prepare_with(|_, _| Ok(*plan))?;
            call.run(device)?;
            calls.push(call);
        }
        body(&calls)?;
    }
    let found: Vec<Vec<bf16>> = (outputs.iter())
        .map(Buffer::download)
        .collect::<Result<_, _>>()?;
    let differences = found
        .iter()
        .map(|of_plan| largest_difference(&found[0], of_plan));
    Ok(differences.fold(0.0, f32::max))
}

/// The largest difference of two outputs; infinite if one has a NaN.
pub(super) fn largest_difference(first: &[bf16], second: &[bf16]) -> f32 {
    let apart = first
        .iter()
        .zip(second)
        .map(|(a, b)| (a.to_f32() - b.to_f32()).abs());
    apart.fold(0.0, |worst, x| {
        if x.is_nan() {
            f32::INFINITY
        } else {
            worst.max(x)
        }
    })
}

/// A buffer of numbers between -2 and 2, the sums of four that are drawn evenly.
pub(super) fn normal(device: &Device, length: usize, seed: u64) -> Result<Buffer<bf16>> {
    let mut state = 0x9e37_79b9_7f4a_7c15_u64 ^ seed << 32;
    let block: Vec<bf16> = (0..length.min(8_388_593))
        .map(|_| {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            let parts = state.to_le_bytes();
            let sum: f32 = parts[..4]
                .iter()
                .map(|part| f32::from(*part) / 256.0 - 0.5)
                .sum();
            bf16::from_f32(sum)
        })
        .collect();
    let buffer = device.poisoned::<bf16>(length)?;
    let mut start = 0;
    while start < length {
        let count = block.len().min(length - start);
        buffer.slice(start..start + count)?.write(&block[..count])?;
        start += count;
    }
    Ok(buffer)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Each plan behind the first differs from it in one field, and every field of the Hopper kernel is changed.
    #[test]
    fn the_ladder_changes_one_field_at_a_time() {
        for problem in ladder_problems() {
            let plans = ladder(&problem).expect("plans");
            let fields = |of: &AttentionPlan| {
                // One consumer has no turns, so they are no change of their own.
                let turns = if of.consumers == 1 {
                    plans[0].turns
                } else {
                    of.turns
                };
                [
                    format!("{} {}", of.tile[0], of.consumers),
                    of.tile[1].to_string(),
                    of.stages.to_string(),
                    turns.to_string(),
                    of.strip.to_string(),
                    of.pairs.to_string(),
                    of.ahead.to_string(),
                    of.overlap.to_string(),
                    of.persistent.to_string(),
                    of.cluster.to_string(),
                    format!("{:?}", of.registers),
                ]
            };
            let mut changed = std::collections::BTreeSet::new();
            for plan in &plans[1..] {
                let pairs = fields(&plans[0]).into_iter().zip(fields(plan));
                let at: Vec<usize> = (pairs.enumerate())
                    .filter_map(|(i, (a, b))| (a != b).then_some(i))
                    .collect();
                assert_eq!(at.len(), 1, "{plan}");
                changed.extend(at);
            }
            // A full mask has no pairs, and the blocks of a cluster share no keys under another.
            assert_eq!(changed.len(), 10, "{problem}: {changed:?}");
        }
    }

    /// What the bench writes of its chosen problems is drawn, also from the file: a point and a plan for each problem, of the plan that
    /// a call takes, and those of a ladder once.
    #[test]
    fn the_chosen_problems_are_drawn() {
        let device = Device::simulator(Arch::Sm90a);
        let mut report = BenchReport::new("attention", "TFLOP/s", &device);
        let all = problems();
        let times = |plans: &[AttentionPlan]| -> Vec<Timing> {
            let times = (1..).map(|i| Timing::of(vec![100.0 * f64::from(i)]));
            times.take(plans.len()).collect()
        };
        let mut add = |problem: &AttentionProblem, plans: Vec<AttentionPlan>| {
            let names: Vec<String> = plans.iter().map(ToString::to_string).collect();
            add_group(&mut report, problem, &names, &times(&plans));
        };
        for problem in &all {
            add(problem, variants(problem).expect("plans"));
        }
        for problem in ladder_problems() {
            add(&problem, ladder(&problem).expect("plans"));
        }
        let folder = std::env::temp_dir().join(format!("colex-attention-{}", std::process::id()));
        std::fs::create_dir_all(&folder).expect("a folder");
        let file = folder.join("attention.json");
        report.write(Some(&file)).expect("it is written");
        let text = std::fs::read_to_string(&file).expect("it was written");
        for recorded in [Recorded::of(report.value()), Recorded::parse(&text)] {
            recorded.expect("a run").write(&folder).expect("drawings");
            let svg = |name: &str| std::fs::read_to_string(folder.join(name)).expect("a drawing");
            let roofline = svg("roofline.svg");
            assert_eq!(roofline.matches("<circle").count(), all.len());
            assert!(
                roofline.contains(&format!("{} problems", all.len())),
                "{roofline}"
            );
            let plans = svg("plans.svg");
            assert!(plans.contains("Hopper, features 64, tile"), "{plans}");
            assert!(!folder.join("ratios.svg").exists(), "no library");
            std::fs::remove_file(folder.join("roofline.svg")).expect("it is there");
        }
        std::fs::remove_dir_all(folder).expect("it is there");
    }

    #[test]
    fn plans_of_decoding_run_and_agree() {
        let device = Device::simulator(Arch::Sm90a);
        let problem = AttentionProblem::new(Ty::Bf16, 1, [8, 2], [1, 150], [64; 2]);
        let mut names = Vec::new();
        let largest = with_plans(&device, &problem, |calls| {
            names.extend(calls.iter().map(|call| call.plan().splits));
            Ok(())
        });
        assert!(largest.expect("they run") < 1e-2);
        assert!(names.contains(&2) && names.contains(&4), "{names:?}");
    }
}
