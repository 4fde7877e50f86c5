//! Products with epilogues against the plain product, and against cuBLASLt with its own: bf16, K contiguous in A and B, N in C.

use std::iter;
use std::path::Path;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use colex_atom::Ty;
use colex_gpu::cuda::LtBias;
use colex_gpu::gemm::Epilogue;
use colex_gpu::kernels::gemm::{Gemm, GemmCall};
use colex_gpu::kernels::{GemmProblem, View};
use colex_gpu::{Buffer, Device, Error, Timing};
use colex_layout::Layout;
use colex_proof::cublaslt::Opponent;
use half::bf16;
use serde_json::json;

use super::sweep::{
    CHOICES, Lines, PROTOCOL, PlanLine, Pools, Sweep, Work, difference, finished, normal, repeats,
    round, samples, sets,
};
use crate::bench::device::{commit, driver};
use crate::bench::host;
use crate::verdict::{Checked, Ended};

/// Without a file of shapes: that of the goal, and those of a layer of a model.
const SHAPES: [[i64; 3]; 4] = [
    [2048, 2048, 2048],
    [4096, 4096, 4096],
    [4096, 14336, 4096],
    [128, 4096, 4096],
];

/// The product with each epilogue, the plain one first.
const NAMES: [&str; 5] = [
    "plain",
    "bias, gelu",
    "bias, gelu by tanh",
    "bias, residual",
    "scales of rows and columns",
];

/// cuBLASLt's, with the number of ours that computes the same.
const LIBRARY: [(&str, usize); 2] = [("bias, gelu by tanh", 2), ("bias, residual", 3)];

/// The formulas after the plain one.
fn epilogues() -> Result<[Epilogue; 4], Error> {
    let gelu = |is_tanh: bool| {
        Epilogue::new(Ty::F32, |e| {
            let x = e.accumulator() + e.tensor("bias", Ty::Bf16).to(Ty::F32);
            if is_tanh { x.gelu_tanh() } else { x.gelu() }.to(Ty::Bf16)
        })
    };
    let residual = Epilogue::new(Ty::F32, |e| {
        let [bias, residual] =
            ["bias", "residual"].map(|name| e.tensor(name, Ty::Bf16).to(Ty::F32));
        (e.accumulator() + bias + residual).to(Ty::Bf16)
    });
    let scales = Epilogue::new(Ty::F32, |e| {
        let [rows, columns] = ["rows", "columns"].map(|name| e.tensor(name, Ty::F32));
        (e.accumulator() * rows * columns).to(Ty::Bf16)
    });
    Ok([gelu(false)?, gelu(true)?, residual?, scales?])
}

pub(in crate::bench) fn run(device: &Device, json: Option<&Path>) -> Result<()> {
    let problems = SHAPES.map(|[m, n, k]| GemmProblem::new(m, n, k));
    measure(device, (&problems, &[]), Duration::MAX, json).map(drop)
}

/// The same over the shapes of a file, or drawn ones; by the default plan, and then by each of the plans of a file.
pub(in crate::bench) fn sweep(
    device: &Device,
    sweep: &Sweep,
    json: Option<&Path>,
) -> Result<ExitCode> {
    measure(
        device,
        (&sweep.problems()?, &sweep.plans()?),
        sweep.budget(),
        json,
    )
}

/// What was found for a shape: microseconds of ours, and of each of cuBLASLt's algorithms for both of its epilogues.
struct EpilogueTimes {
    ours: Vec<f64>,
    library: Vec<Vec<f64>>,
    plan: String,
    /// Milliseconds of the first call's preparation, which builds and loads a new kernel.
    prepared: Vec<f64>,
}

/// What the epilogues read beside the matrices of a set.
struct Read {
    bias: Buffer<bf16>,
    residual: Buffer<bf16>,
    rows: Buffer<f32>,
    columns: Buffer<f32>,
}

fn measure(
    device: &Device,
    (problems, plans): (&[GemmProblem], &[PlanLine]),
    budget: Duration,
    json: Option<&Path>,
) -> Result<ExitCode> {
    let started = Instant::now();
    let mut lines = Lines::new(json)?;
    println!(
        "{}, {}; {PROTOCOL}\nM x N x K, ours plain (us) | the plain one over {} | over cuBLASLt's best of {CHOICES} with {}",
        device.name(),
        driver(device),
        NAMES[1..].join("; "),
        LIBRARY.map(|(name, _)| name).join("; ")
    );
    lines.write(&json!({
        "bench": "epilogue", "device": device.name(), "driver": driver(device), "date": host::today(),
        "commit": commit(), "protocol": PROTOCOL, "names": NAMES,
    }))?;
    let pools = Pools::<bf16, bf16>::new(device, problems)?;
    let most = |of: fn(&GemmProblem) -> i64| problems.iter().map(of).max().unwrap_or(1) as usize;
    let read = Read {
        bias: device.uninitialised(most(|p| p.n))?,
        residual: device.uninitialised(most(|p| sets::<bf16, bf16>(p) * p.m * p.n))?,
        // Factors whose product is 1: the result is the plain one's, bit for bit.
        rows: device.upload(&vec![2.0; most(|p| p.m)])?,
        columns: device.upload(&vec![0.5; most(|p| p.n)])?,
    };
    normal(&read.bias)?;
    normal(&read.residual)?;
    let (mut wrong, mut all) = (Vec::new(), Vec::new());
    let plans = || iter::once(None).chain(plans.iter().map(Some));
    for (problem, plan) in (problems.iter()).flat_map(|p| plans().map(move |plan| (p, plan))) {
        if started.elapsed() > budget {
            println!("stopped after {} of {} shapes", all.len(), problems.len());
            break;
        }
        let found = one(device, (&pools, &read), (problem, plan), &mut wrong);
        let found = found.with_context(|| problem.to_string())?;
        let GemmProblem { m, n, k, .. } = problem;
        let best = best(&found);
        let ratios: Vec<String> = (1..NAMES.len())
            .map(|i| format!("{:.3}", found.ours[0] / found.ours[i]))
            .collect();
        let library: Vec<String> = (best.iter().zip(LIBRARY))
            .map(|(best, (_, own))| format!("{:.3}", best / found.ours[own]))
            .collect();
        println!(
            "{:<18} {:>9.2} | {} | {} | {}",
            format!("{m}x{n}x{k}"),
            found.ours[0],
            ratios.join(" "),
            library.join(" "),
            found.plan
        );
        let rounded = |times: &[f64]| times.iter().map(|t| round(*t)).collect::<Vec<f64>>();
        let data = json!({
            "m": m, "n": n, "k": k, "plan": found.plan, "us": rounded(&found.ours),
            "library": found.library.iter().map(|times| rounded(times)).collect::<Vec<_>>(),
            "prepared_ms": rounded(&found.prepared),
        });
        lines.write(&data)?;
        Checked {
            data,
            ..Checked::new(problem.to_string(), Ended::Passed, PROTOCOL)
        }
        .add();
        all.push(found);
    }
    summarise(&all);
    Ok(finished(all.len(), &wrong))
}

/// The microseconds of cuBLASLt's fastest algorithm for each of its epilogues.
fn best(found: &EpilogueTimes) -> Vec<f64> {
    let least = |times: &Vec<f64>| times.iter().copied().fold(f64::INFINITY, f64::min);
    found.library.iter().map(least).collect()
}

/// Geometric means and least values of the ratios of speeds.
fn summarise(all: &[EpilogueTimes]) {
    println!();
    let line = |what: String, ratio: &dyn Fn(&EpilogueTimes) -> f64| {
        let mut ratios: Vec<f64> = all.iter().map(ratio).collect();
        ratios.sort_by(f64::total_cmp);
        let mean = ratios.iter().map(|r| r.ln()).sum::<f64>() / ratios.len().max(1) as f64;
        let least = ratios.first().copied().unwrap_or(f64::NAN);
        let low = ratios.iter().filter(|ratio| **ratio < 0.93).count();
        println!(
            "  {what:<52} geometric mean {:.3}, least {least:.3}, below 0.93 {low} of {}",
            mean.exp(),
            ratios.len()
        );
    };
    for (i, name) in NAMES.iter().enumerate().skip(1) {
        line(format!("{name}, over the plain product"), &|found| {
            found.ours[0] / found.ours[i]
        });
    }
    for (i, (name, own)) in LIBRARY.into_iter().enumerate() {
        line(format!("{name}, over cuBLASLt"), &|found| {
            best(found)[i] / found.ours[own]
        });
    }
    let prepared = |i: usize| {
        let times = all.iter().map(|found| found.prepared[i]);
        times.fold(0.0, f64::max)
    };
    let prepared: Vec<String> = (0..NAMES.len())
        .map(|i| format!("{:.1}", prepared(i)))
        .collect();
    println!("  longest preparation of each, ms: {}", prepared.join(", "));
}

/// A call by the default plan, or by one of a file.
fn prepared<'a>(
    gemm: Gemm<'a, bf16, bf16>,
    plan: Option<&PlanLine>,
) -> Result<GemmCall<'a>, Error> {
    match plan {
        None => gemm.prepare(),
        Some(line) => gemm.prepare_with(|operands, _| Ok(line.plan(operands))),
    }
}

fn one(
    device: &Device,
    (pools, read): (&Pools<bf16, bf16>, &Read),
    (problem, plan): (&GemmProblem, Option<&PlanLine>),
    wrong: &mut Vec<String>,
) -> Result<EpilogueTimes> {
    let GemmProblem { m, n, .. } = *problem;
    let count = sets::<bf16, bf16>(problem);
    let mut matrices = (0..count)
        .map(|i| pools.set(problem, i))
        .collect::<Result<Vec<_>>>()?;
    let raw = matrices.clone();
    let gemms = matrices
        .iter_mut()
        .map(|(a, b, c)| problem.on(&*a, &*b, c))
        .collect::<Result<Vec<_>, Error>>()?;
    let residuals = (0..count)
        .map(|i| {
            let from = (i * m * n) as usize;
            read.residual.slice(from..from + (m * n) as usize)
        })
        .collect::<Result<Vec<_>, _>>()?;
    let of_row = Layout::new((m, n), (1, 0))?;
    let of_column = Layout::new((m, n), (0, 1))?;
    let bias = View::new(&read.bias, &of_column)?;
    let rows = View::new(&read.rows, &of_row)?;
    let columns = View::new(&read.columns, &of_column)?;
    let residual = residuals.iter().map(|residual| residual.view((m, n)));
    let residual = residual.collect::<Result<Vec<_>, _>>()?;
    let [gelu, tanh, sum, scales] = epilogues()?;
    let with = |number: usize, i: usize| {
        let gemm = gemms[i].clone();
        match number {
            0 => gemm,
            1 => gemm.epilogue(&gelu).tensor("bias", &bias),
            2 => gemm.epilogue(&tanh).tensor("bias", &bias),
            3 => {
                let gemm = gemm.epilogue(&sum).tensor("bias", &bias);
                gemm.tensor("residual", &residual[i])
            }
            _ => {
                let gemm = gemm.epilogue(&scales).tensor("rows", &rows);
                gemm.tensor("columns", &columns)
            }
        }
    };
    let (mut ours, mut preparations) = (Vec::new(), Vec::new());
    for number in 0..NAMES.len() {
        let begun = Instant::now();
        let first = prepared(with(number, 0), plan)?;
        preparations.push(begun.elapsed().as_secs_f64() * 1e3);
        let rest = (1..gemms.len()).map(|i| prepared(with(number, i), plan));
        let calls: Result<Vec<GemmCall<'_>>, Error> = iter::once(Ok(first)).chain(rest).collect();
        ours.push(calls?);
    }
    let library = [(true, 0.0), (false, 1.0)].map(|(gelu, beta)| {
        let numbers = Box::new(read.bias.slice(..n as usize)?);
        let bias = LtBias { numbers, gelu };
        Opponent::with_bias::<bf16, bf16>(device, &problem.beta(beta), Some(bias), CHOICES)
    });
    let library = library.into_iter().collect::<Result<Vec<_>, Error>>()?;
    // The results, from the first set; what was there before shows what a kernel leaves unwritten.
    let (a, b, c) = &raw[0];
    let mut expected = Vec::new();
    for library in &library {
        c.copy_from(&residuals[0])?;
        library.run(device, 0, [a, b], c)?;
        expected.push(samples(c)?);
    }
    let mut results = Vec::new();
    for calls in &ours {
        c.fill_bytes(0xff)?;
        calls[0].run(device)?;
        results.push(samples(c)?);
    }
    let tanh = &expected[0];
    for (own, wanted, most) in [
        (1, tanh, 1e-2),
        (2, tanh, 1e-2),
        (3, &expected[1], 1e-2),
        (4, &results[0], 0.0),
    ] {
        let off = difference(&results[own], wanted);
        if off.is_nan() || off > most {
            wrong.push(format!("{problem}: {}: {off:.1e} off", NAMES[own]));
        }
    }
    let mut works: Vec<Box<Work<'_>>> = Vec::new();
    for calls in &ours {
        works.push(Box::new(move |device, i| {
            calls[i % calls.len()].run(device)
        }));
    }
    for (library, choice) in (library.iter()).flat_map(|l| (0..l.choices()).map(move |i| (l, i))) {
        let raw = &raw;
        library.run(device, choice, [a, b], c)?;
        works.push(Box::new(move |device, i| {
            let (a, b, c) = &raw[i % raw.len()];
            library.run(device, choice, [a, b], c)
        }));
    }
    device.synchronize()?;
    let works: Vec<&Work<'_>> = works.iter().map(|work| &**work).collect();
    let times = device.time_in_turns(repeats(count), &works)?;
    let mut times = times.iter().map(Timing::median);
    Ok(EpilogueTimes {
        ours: times.by_ref().take(NAMES.len()).collect(),
        library: (library.iter())
            .map(|library| times.by_ref().take(library.choices()).collect())
            .collect(),
        plan: ours[0][0].to_string(),
        prepared: preparations,
    })
}
