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

/// The same over the shapes of a file, or drawn ones; by the default plan, and then by each of the plans of a file, beside the plain
/// product by the default plan.
pub(in crate::bench) fn sweep(
    device: &Device,
    sweep: &Sweep,
    json: Option<&Path>,
) -> Result<ExitCode> {
    sweep.check_bf16("epilogue")?;
    measure(
        device,
        (&sweep.problems()?, &sweep.plans()?),
        sweep.budget(),
        json,
    )
}

/// What was found for a shape: microseconds of ours, and of each of cuBLASLt's algorithms for both of its epilogues.
struct EpilogueTimes {
    shape: [i64; 3],
    ours: Vec<f64>,
    library: Vec<Vec<f64>>,
    plan: String,
    /// The line of the plan; `None` of the default one.
    line: Option<String>,
    /// Microseconds of the plain product by the default plan, in the same turns.
    default: f64,
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
    if !plans.is_empty() {
        println!(
            "by a plan of the file: M x N x K, ours plain by that plan (us) | the plain one by the default plan, in the same turns, over \
             {}, by that plan",
            NAMES.join("; ")
        );
    }
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
            let plans = plans().count();
            println!(
                "stopped after {} of {} shapes and plans",
                all.len(),
                problems.len() * plans
            );
            break;
        }
        let found = one(device, (&pools, &read), (problem, plan), &mut wrong);
        let found = match (found, plan) {
            (Err(why), Some(line)) => {
                println!("{problem}: {}: {why:#}", line.text());
                continue;
            }
            (found, _) => found.with_context(|| problem.to_string())?,
        };
        let GemmProblem { m, n, k, .. } = problem;
        let best = best(&found);
        let ratios: Vec<String> = (1..NAMES.len())
            .map(|i| format!("{:.3}", found.ours[0] / found.ours[i]))
            .collect();
        let library: Vec<String> = (best.iter().zip(LIBRARY))
            .map(|(best, (_, own))| format!("{:.3}", best / found.ours[own]))
            .collect();
        let shape = format!("{m}x{n}x{k}");
        match found.line {
            None => println!(
                "{shape:<18} {:>9.2} | {} | {} | {}",
                found.ours[0],
                ratios.join(" "),
                library.join(" "),
                found.plan
            ),
            Some(_) => println!(
                "{shape:<18} {:>9.2} | {} | {}",
                found.ours[0],
                found.speeds().map(|speed| format!("{speed:.3}")).join(" "),
                found.plan
            ),
        }
        let rounded = |times: &[f64]| times.iter().map(|t| round(*t)).collect::<Vec<f64>>();
        let data = json!({
            "m": m, "n": n, "k": k, "plan": found.plan, "us": rounded(&found.ours),
            "library": found.library.iter().map(|times| rounded(times)).collect::<Vec<_>>(),
            "prepared_ms": rounded(&found.prepared), "line": found.line, "default_plain_us": round(found.default),
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

impl EpilogueTimes {
    /// The speed of each product over the plain one by the default plan.
    fn speeds(&self) -> [f64; NAMES.len()] {
        let mut speeds = [f64::NAN; NAMES.len()];
        for (speed, time) in speeds.iter_mut().zip(&self.ours) {
            *speed = self.default / time;
        }
        speeds
    }
}

/// The microseconds of cuBLASLt's fastest algorithm for each of its epilogues.
fn best(found: &EpilogueTimes) -> Vec<f64> {
    let least = |times: &Vec<f64>| times.iter().copied().fold(f64::INFINITY, f64::min);
    found.library.iter().map(least).collect()
}

/// The geometric mean and the least of ratios, and how many are below 0.93.
fn of_ratios(mut ratios: Vec<f64>) -> String {
    ratios.sort_by(f64::total_cmp);
    let mean = ratios.iter().map(|r| r.ln()).sum::<f64>() / ratios.len().max(1) as f64;
    let least = ratios.first().copied().unwrap_or(f64::NAN);
    let low = ratios.iter().filter(|ratio| **ratio < 0.93).count();
    format!(
        "geometric mean {:.3}, least {least:.3}, below 0.93 {low} of {}",
        mean.exp(),
        ratios.len()
    )
}

/// Geometric means and least values of the ratios of speeds, by the default plan, and then by each of the file's.
fn summarise(found: &[EpilogueTimes]) {
    println!();
    let all: Vec<&EpilogueTimes> = found.iter().filter(|found| found.line.is_none()).collect();
    let line = |what: String, ratio: &dyn Fn(&EpilogueTimes) -> f64| {
        let ratios = all.iter().map(|found| ratio(found)).collect();
        println!("  {what:<52} {}", of_ratios(ratios));
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
    let mut lines: Vec<&str> = Vec::new();
    for line in found.iter().filter_map(|found| found.line.as_deref()) {
        if !lines.contains(&line) {
            lines.push(line);
        }
    }
    for line in lines {
        println!("  {line}, over the plain product by the default plan:");
        let by: Vec<&EpilogueTimes> = (found.iter())
            .filter(|found| found.line.as_deref() == Some(line))
            .collect();
        for (i, name) in NAMES.iter().enumerate() {
            let ratios = by.iter().map(|found| found.speeds()[i]).collect();
            println!("    {name:<50} {}", of_ratios(ratios));
        }
    }
    if found.len() > all.len() {
        best_of_all(found, &all);
    }
}

/// For each shape and epilogue, the fastest plan, the default one included.
fn best_of_all(found: &[EpilogueTimes], all: &[&EpilogueTimes]) {
    println!("  the fastest plan for each shape, over the plain product by the default plan:");
    for (i, name) in NAMES.iter().enumerate() {
        let fastest = |default: &&EpilogueTimes| {
            let of_shape = found.iter().filter(|found| found.shape == default.shape);
            of_shape.map(|found| found.speeds()[i]).fold(0.0, f64::max)
        };
        let ratios = all.iter().map(fastest).collect();
        println!("    {name:<50} {}", of_ratios(ratios));
    }
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
    // The plain product by the default plan, whose turns a plan of the file shares.
    let default: Vec<GemmCall<'_>> = match plan {
        None => Vec::new(),
        Some(_) => {
            let calls = (0..gemms.len()).map(|i| with(0, i).prepare());
            calls.collect::<Result<_, Error>>()?
        }
    };
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
    // The scales are ones: by the plan of the plain product the bits are the same, and another plan adds in another order.
    let of_scales = if ours[4][0].plan() == ours[0][0].plan() {
        0.0
    } else {
        1e-3
    };
    for (own, wanted, most) in [
        (1, tanh, 1e-2),
        (2, tanh, 1e-2),
        (3, &expected[1], 1e-2),
        (4, &results[0], of_scales),
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
    if !default.is_empty() {
        works.push(Box::new(|device, i| default[i % default.len()].run(device)));
    }
    // The library's algorithms take their turns beside the default plan.
    let choices = |library: &Opponent| match plan {
        None => library.choices(),
        Some(_) => 0,
    };
    for (library, choice) in (library.iter()).flat_map(|l| (0..choices(l)).map(move |i| (l, i))) {
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
    let of_ours: Vec<f64> = times.by_ref().take(NAMES.len()).collect();
    Ok(EpilogueTimes {
        shape: [problem.m, problem.n, problem.k],
        default: match plan {
            None => of_ours[0],
            Some(_) => times.next().unwrap_or(f64::NAN),
        },
        line: plan.map(|line| line.text().to_string()),
        ours: of_ours,
        library: (library.iter())
            .map(|library| times.by_ref().take(choices(library)).collect())
            .collect(),
        plan: ours[0][0].to_string(),
        prepared: preparations,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_speeds_of_a_plan_are_over_the_plain_product_by_the_default_plan() {
        let found = EpilogueTimes {
            shape: [4096; 3],
            ours: vec![200.0, 250.0, 210.0, 240.0, 192.0],
            library: Vec::new(),
            plan: String::new(),
            line: Some("128x192x64".to_string()),
            default: 192.0,
            prepared: vec![0.0; NAMES.len()],
        };
        assert_eq!(
            found.speeds().map(|speed| (1e3 * speed).round()),
            [960.0, 768.0, 914.0, 800.0, 1000.0]
        );
        assert_eq!(
            of_ratios(vec![1.0, 0.81, 0.9]),
            "geometric mean 0.900, least 0.810, below 0.93 2 of 3"
        );
    }
}
