//! Drawn problems on a GPU: the time of the default plan, and its error on sampled rows; the time of its choice on the host, and how
//! much slower it is than the plan that [`Attention::autotune`] finds.

use std::path::Path;
use std::process::ExitCode;
use std::time::Instant;

use anyhow::{Context, Result};
use colex_atom::Ty;
use colex_gpu::attention::{
    Attention, AttentionCall, AttentionOperands, AttentionPlan, AttentionProblem, AttentionTensor,
    Autotune, Mask, reference,
};
use colex_gpu::kernels::GemmElement;
use colex_gpu::{Buffer, Device, Error, Repeats, View, ViewMut};
use colex_layout::Layout;
use half::{bf16, f16};
use serde_json::{Value, json};

use super::super::device::{Noise, commit, driver};
use super::super::host;
use super::super::product::sweep::{Lines, Random, Sweep, Tuning, Work, finished, round};
use super::drawn::{bytes, described, drawn, operations, sets, span};
use super::recorded::Recorded;
use super::{DECODED, decoded, problems};
use crate::verdict::{Checked, Ended};

/// How the numbers are taken.
const PROTOCOL: &str = "one process; a graph of calls, replayed; medians; normal numbers; operands rotated over 240 MB or 64 sets; \
operations of the keys that the queries see; errors of sampled rows against a softmax in double precision";

/// The rows that are compared with the reference.
const ROWS: u64 = 8;

/// The largest relative error of rounding.
const MOST_ERROR: f64 = 1e-2;

const REPEATS: usize = 9;

/// How often the choice of a plan is timed: batches, and choices in each.
const CHOICES: [usize; 2] = [21, 16];

/// The problems that are measured, each with what it is: with tuned plans the chosen ones and the steps of decoding first, and then
/// drawn ones.
fn measured_problems(sweep: &Sweep) -> Vec<(&'static str, AttentionProblem)> {
    let mut all = Vec::new();
    if sweep.is_tuned() {
        let chosen = problems().into_iter().chain(DECODED.map(decoded));
        all.extend(chosen.map(|problem| ("chosen", problem)));
    }
    let numbers = sweep.numbers();
    all.extend(numbers.map(|number| ("drawn", drawn(sweep.seed(), number))));
    all
}

/// Measures drawn problems, and draws what was found if that is wanted.
pub(in crate::bench) fn run(
    device: &Device,
    sweep: &Sweep,
    json: Option<&Path>,
) -> Result<ExitCode> {
    let started = Instant::now();
    let mut lines = Lines::new(json)?;
    println!(
        "{}, {}; {PROTOCOL}\nus, TFLOP/s, TB/s, relative error, us of the choice | problem | plan",
        device.name(),
        driver(device)
    );
    lines.write(&json!({
        "bench": "attention", "device": device.name(), "driver": driver(device), "date": host::today(),
        "commit": commit(), "protocol": PROTOCOL, "seed": sweep.seed(), "library": Value::Null,
    }))?;
    let (of_bf16, of_f16) = (normal::<bf16>(), normal::<f16>());
    let (mut wrong, mut count) = (Vec::new(), 0);
    let tuning = sweep.tuning()?;
    let wanted = WantedPlans {
        every: sweep.is_every(),
        tuned: tuning.as_ref().map(Tuning::measured),
    };
    let mut summary = Summary::default();
    for (set, problem) in measured_problems(sweep) {
        if started.elapsed() > sweep.budget() {
            println!("stopped after {count} problems");
            break;
        }
        let found = match problem.ty {
            Ty::Bf16 => one(device, &problem, &of_bf16, wanted),
            _ => one(device, &problem, &of_f16, wanted),
        };
        let found = found.with_context(|| problem.to_string())?;
        println!(
            "{:>9.2} {:>7.1} {:>6.3} {:.1e} {:>5.2} | {problem} | {}",
            found.time,
            operations(&problem) / found.time / 1e6,
            bytes(&problem) as f64 / found.time / 1e6,
            found.error,
            found.choice,
            found.plan
        );
        if let Some(tuned) = &found.tuned {
            println!(
                "{:>12.2}, tuned: the default takes {:.3} of the time | {}",
                tuned.time,
                tuned.regret(),
                tuned.plan
            );
        }
        for (plan, [time, model]) in &found.others {
            println!("{time:>12.2}, by the model {model:.2} | {plan}");
        }
        if found.error.is_nan() || found.error > MOST_ERROR {
            wrong.push(format!(
                "{problem}: {}: {:.1e} off",
                found.plan, found.error
            ));
        }
        summary.add(set, &found);
        let line = found.json(set, &problem);
        lines.write(&line)?;
        Checked {
            data: line,
            ..Checked::new(problem.to_string(), Ended::Passed, PROTOCOL)
        }
        .add();
        count += 1;
    }
    for (name, of_set) in summary.lines() {
        println!("{name}");
        lines.write(&json!({"summary": name, "of": of_set}))?;
        Checked {
            data: of_set,
            ..Checked::new(name, Ended::Passed, PROTOCOL)
        }
        .add();
    }
    if let Some(tuning) = &tuning {
        tuning.check_kept()?;
    }
    if let Some(folder) = sweep.svg() {
        Recorded::parse(lines.text())?.write(folder)?;
    }
    println!("{:.0} s", started.elapsed().as_secs_f64());
    Ok(finished(count, &wrong))
}

/// What was found for a problem.
struct MeasuredProblem {
    plan: String,
    /// Microseconds of a call.
    time: f64,
    error: f64,
    /// Microseconds of the host for the choice of the default plan.
    choice: f64,
    /// What `Attention::autotune` found, if that is wanted.
    tuned: Option<TunedTimes>,
    /// The other plans of the model, with the microseconds that were measured and those that the model says.
    others: Vec<(String, [f64; 2])>,
}

/// The plan that `Attention::autotune` took, with its time and that of the default plan, measured in turns.
struct TunedTimes {
    plan: String,
    time: f64,
    default: f64,
}

impl TunedTimes {
    /// The time of the default plan over that of the faster one of both.
    fn regret(&self) -> f64 {
        self.default / self.time.min(self.default)
    }

    fn json(&self) -> Value {
        json!({"plan": self.plan, "us": round(self.time), "default": round(self.default), "regret": round(self.regret())})
    }
}

/// The plans of a problem that are measured beside the default one.
#[derive(Clone, Copy, Default)]
struct WantedPlans<'a> {
    /// Every other plan of the model.
    every: bool,
    /// The file of `Attention::autotune`.
    tuned: Option<&'a Autotune>,
}

/// The times of choices and the regrets, of each set of problems.
#[derive(Default)]
struct Summary(Vec<(&'static str, f64, Option<f64>)>);

impl Summary {
    fn add(&mut self, set: &'static str, found: &MeasuredProblem) {
        let regret = found.tuned.as_ref().map(TunedTimes::regret);
        self.0.push((set, found.choice, regret));
    }

    /// A sentence for each set, and its numbers.
    fn lines(&self) -> Vec<(String, Value)> {
        let mut all = Vec::new();
        for set in ["chosen", "drawn"] {
            let of_set = self.0.iter().filter(|(of, ..)| *of == set);
            let choices: Vec<f64> = of_set.clone().map(|(_, choice, _)| *choice).collect();
            let regrets: Vec<f64> = of_set.filter_map(|(.., regret)| *regret).collect();
            for (what, unit, numbers) in [
                ("choice of a plan", " us", choices),
                ("regret of the default plan", "", regrets),
            ] {
                if numbers.is_empty() {
                    continue;
                }
                let [mean, tail] = mean_and_tail(numbers.clone());
                let count = numbers.len();
                all.push((
                    format!("{what}, {count} {set} problems: {mean:.3}{unit} on average, {tail:.3}{unit} at the 95th percentile"),
                    json!({"set": set, "problems": count, "mean": round(mean), "ninety_fifth": round(tail)}),
                ));
            }
        }
        all
    }
}

/// The mean, and the 95th percentile.
fn mean_and_tail(mut numbers: Vec<f64>) -> [f64; 2] {
    numbers.sort_by(f64::total_cmp);
    let mean = numbers.iter().sum::<f64>() / numbers.len() as f64;
    [mean, numbers[(numbers.len() - 1) * 95 / 100]]
}

/// The microseconds of the host in which a call chooses its plan, the median of some batches: the choice alone, of nothing that is kept.
fn choice(device: &Device, problem: &AttentionProblem) -> Result<f64> {
    let operands = AttentionOperands::of(problem, [0; 4]);
    let (arch, multiprocessors) = (device.arch(), device.limits().multiprocessors);
    let [batches, count] = CHOICES;
    let mut times = Vec::new();
    for _ in 0..batches {
        let started = Instant::now();
        for _ in 0..count {
            let of = std::hint::black_box((problem, operands));
            std::hint::black_box(AttentionPlan::fastest(of.0, of.1, arch, multiprocessors)?);
        }
        times.push(started.elapsed().as_secs_f64() * 1e6 / count as f64);
    }
    times.sort_by(f64::total_cmp);
    Ok(times[batches / 2])
}

impl MeasuredProblem {
    fn json(&self, set: &str, problem: &AttentionProblem) -> Value {
        json!({
            "set": set, "choice_us": round(self.choice), "tuned": self.tuned.as_ref().map(TunedTimes::json),
            "problem": described(problem), "plan": self.plan, "us": round(self.time), "library": {}, "refused": {},
            "errors": {"ours": self.error},
            "others": self.others.iter().map(|(plan, [time, model])| json!({"plan": plan, "us": round(*time), "model": round(*model)}))
                .collect::<Vec<Value>>(),
        })
    }
}

fn one<T: GemmElement>(
    device: &Device,
    problem: &AttentionProblem,
    noise: &Noise<T>,
    wanted: WantedPlans<'_>,
) -> Result<MeasuredProblem> {
    let every = wanted.every;
    let (plan, time, mut error) = timed(device, (problem, noise), HowPlanned::Default)?;
    let operands = AttentionOperands::of(problem, [0; 4]);
    let multiprocessors = device.limits().multiprocessors;
    let mut others = Vec::new();
    if every {
        let plans = AttentionPlan::alternatives(problem, operands, device.arch(), multiprocessors);
        for other in plans.iter().filter(|other| other.to_string() != plan) {
            let (name, time, apart) = timed(device, (problem, noise), HowPlanned::Plan(other))?;
            let model = other.cost(problem, multiprocessors).total();
            others.push((name, [time, model]));
            error = if apart > error || apart.is_nan() {
                apart
            } else {
                error
            };
        }
    }
    if every {
        let usual = AttentionPlan::fastest(problem, operands, device.arch(), multiprocessors)?;
        let model = usual.cost(problem, multiprocessors).total();
        others.insert(0, (plan.clone(), [time, model]));
    }
    let mut tuned = None;
    if let Some(measured) = wanted.tuned {
        let (times, apart) = tuned_times(device, (problem, noise), measured)?;
        error = if apart > error || apart.is_nan() {
            apart
        } else {
            error
        };
        tuned = Some(times);
    }
    Ok(MeasuredProblem {
        plan,
        time,
        error,
        choice: choice(device, problem)?,
        tuned,
        others,
    })
}

/// The times of the tuned plan and of the default one, in turns, and the relative error of the tuned one.
fn tuned_times<T: GemmElement>(
    device: &Device,
    (problem, noise): (&AttentionProblem, &Noise<T>),
    measured: &Autotune,
) -> Result<(TunedTimes, f64)> {
    let sets = sets(problem);
    let tuned = (problem, noise, HowPlanned::Tuned(measured));
    with_calls(device, tuned, sets, |tuned, error| {
        let usual = (problem, noise, HowPlanned::Default);
        with_calls(device, usual, sets, |usual, _| {
            let plan = tuned[0].plan();
            let works: [&Work<'_>; 2] = [
                &|device: &Device, i: usize| tuned[i % tuned.len()].run(device),
                &|device: &Device, i: usize| usual[i % usual.len()].run(device),
            ];
            let repeats = Repeats {
                warmups: 1,
                samples: REPEATS,
                batch: usual.len().max(3),
            };
            let times = device.time_in_turns(repeats, &works)?;
            let [mut time, default] = [times[0].median(), times[1].median()];
            // One plan has one time.
            if plan == usual[0].plan() {
                time = default;
            }
            let plan = plan.to_string();
            Ok((
                TunedTimes {
                    plan,
                    time,
                    default,
                },
                error,
            ))
        })
    })
}

/// How a call gets its plan.
#[derive(Clone, Copy)]
enum HowPlanned<'a> {
    Default,
    Plan(&'a AttentionPlan),
    /// By `Attention::autotune`, with this file.
    Tuned(&'a Autotune),
}

/// The plan of the calls, the microseconds of one, and the relative error.
fn timed<T: GemmElement>(
    device: &Device,
    (problem, noise): (&AttentionProblem, &Noise<T>),
    plan: HowPlanned<'_>,
) -> Result<(String, f64, f64)> {
    let of = (problem, noise, plan);
    with_calls(device, of, sets(problem), |calls, error| {
        let work: &Work<'_> = &|device: &Device, i: usize| calls[i % calls.len()].run(device);
        let repeats = Repeats {
            warmups: 1,
            samples: REPEATS,
            batch: calls.len().max(3),
        };
        let times = device.time_in_turns(repeats, &[work])?;
        Ok((calls[0].to_string(), times[0].median(), error))
    })
}

/// Normal numbers.
fn normal<T: GemmElement>() -> Noise<T> {
    let mut random = Random::new(7, 1);
    Noise::of(|| {
        let radius = (-2.0 * random.uniform().ln()).sqrt();
        let angle = std::f64::consts::TAU * random.uniform();
        T::from_f64(radius * angle.cos())
    })
}

/// The elements of memory that a tensor takes, in whole pieces of 256 bytes.
fn room<T: GemmElement>(problem: &AttentionProblem, tensor: AttentionTensor) -> i64 {
    let line = 256 / T::BYTES as i64;
    (span(problem, tensor) + line - 1) / line * line
}

/// Gives the prepared calls of all sets of operands to `body`, with the relative error of the first.
fn with_calls<T: GemmElement, R>(
    device: &Device,
    (problem, noise, plan): (&AttentionProblem, &Noise<T>, HowPlanned<'_>),
    sets: i64,
    body: impl FnOnce(&[AttentionCall<'_>], f64) -> Result<R>,
) -> Result<R> {
    let rooms = AttentionTensor::ALL.map(|of| room::<T>(problem, of));
    let [of_q, of_k, of_v, of_o] = rooms;
    let of_set = of_q + of_k + of_v;
    let read = device.uninitialised::<T>((sets * of_set) as usize)?;
    noise.fill(&read)?;
    let outputs = device.uninitialised::<T>((sets * of_o) as usize)?;
    outputs.fill_bytes(0xff)?;
    let [batch, heads, queries, _] = problem.extents(AttentionTensor::O);
    let sinks: Vec<f32> = (0..heads).map(|i| (i % 5) as f32 - 2.0).collect();
    let on_device = device.upload(&sinks)?;
    let mut sums = device.uninitialised::<f32>((batch * heads * queries) as usize)?;
    let written = sums.clone();
    let layouts = AttentionTensor::ALL.map(|of| problem.layout(of));
    let layouts: Vec<Layout> = layouts.into_iter().collect::<Result<_, Error>>()?;
    let mut parts: Vec<Buffer<T>> = (0..sets)
        .map(|i| outputs.slice((i * of_o) as usize..((i + 1) * of_o) as usize))
        .collect::<Result<_, _>>()?;
    let sums_view = sums.view_mut((batch, heads, queries))?;
    let sinks_view = on_device.view(heads)?;
    let mut calls: Vec<AttentionCall<'_>> = Vec::new();
    let starts = [0, of_q, of_q + of_k];
    let operands: Vec<Buffer<T>> = (0..3 * sets)
        .map(|i| {
            let tensor = (i % 3) as usize;
            let from = (i / 3 * of_set + starts[tensor]) as usize;
            read.slice(from..from + rooms[tensor] as usize)
        })
        .collect::<Result<_, _>>()?;
    for (of_set, o) in operands.chunks(3).zip(&mut parts) {
        let view = |i: usize| View::new(&of_set[i], &layouts[i]);
        let (q, k, v) = (view(0)?, view(1)?, view(2)?);
        let o = ViewMut::new(o, &layouts[3])?;
        let mut call = Attention::new(&q, &k, &v, &o).mask(problem.mask);
        if let Some(cap) = problem.softcap {
            call = call.softcap(cap);
        }
        if problem.log_sum_exp {
            call = call.log_sum_exp(&sums_view);
        }
        if problem.sinks.is_some() {
            call = call.sinks(&sinks_view);
        }
        calls.push(match plan {
            HowPlanned::Plan(plan) => call.prepare_with(|_, _| Ok(*plan))?,
            HowPlanned::Default => call.prepare()?,
            // The first call measures; those of the other sets find the plan.
            HowPlanned::Tuned(measured) => call.autotune(measured).prepare()?,
        });
    }
    calls[0].run(device)?;
    let mut comparison = RowErrors::default();
    for [batch_at, head, query] in rows(problem) {
        let value = |tensor: AttentionTensor, at: [i64; 3]| {
            let strides = problem.strides[tensor as usize];
            let row: i64 = at.iter().zip(strides).map(|(i, stride)| i * stride).sum();
            let from = starts[tensor as usize] + row;
            let features = 0..problem.extents(tensor)[3];
            let values = features.map(|i| noise.at((from + i) as usize));
            values.collect::<Vec<T>>()
        };
        let (expected, sum) = expected(problem, [batch_at, head, query], &value, &sinks);
        let strides = problem.strides[AttentionTensor::O as usize];
        let at = [batch_at, head, query].into_iter().zip(strides);
        let from = at.map(|(i, stride)| i * stride).sum::<i64>() as usize;
        let found = outputs.slice(from..from + expected.len())?.download()?;
        comparison.row(&found, &expected);
        if problem.log_sum_exp {
            let at = ((batch_at * heads + head) * queries + query) as usize;
            let found = written.slice(at..at + 1)?.download()?[0];
            comparison.sum(found, sum);
        }
    }
    body(&calls, comparison.error())
}

/// The norm of differences over that of what is expected; NaN where a sum is wrong.
#[derive(Default)]
struct RowErrors {
    off: f64,
    norm: f64,
}

impl RowErrors {
    fn row<T: GemmElement>(&mut self, found: &[T], expected: &[f64]) {
        for (found, expected) in found.iter().zip(expected) {
            self.off += (found.to_f64() - expected).powi(2);
            self.norm += expected.powi(2);
        }
    }

    /// The logarithm of a row's sum: within 0.01 of the expected one.
    fn sum(&mut self, found: f32, expected: f64) {
        let found = f64::from(found);
        let is_right = found == expected || (found - expected).abs() < 1e-2;
        if !is_right {
            self.off = f64::NAN;
        }
    }

    fn error(&self) -> f64 {
        (self.off / self.norm.max(f64::MIN_POSITIVE)).sqrt()
    }
}

/// The rows that are compared, as (batch, head, query): the first, the last and others.
fn rows(problem: &AttentionProblem) -> Vec<[i64; 3]> {
    let [batch, heads, queries, _] = problem.extents(AttentionTensor::O);
    let mut random = Random::new(11, queries as u64);
    let mut below = |n: i64| random.below(n as u64) as i64;
    let mut all = vec![[0; 3], [batch - 1, heads - 1, queries - 1]];
    all.extend((2..ROWS).map(|_| [below(batch), below(heads), below(queries)]));
    all
}

/// The output of a query in double precision, and the logarithm of its sum. `value` returns a row of a tensor.
fn expected<T: GemmElement>(
    problem: &AttentionProblem,
    [batch, head, query]: [i64; 3],
    value: &dyn Fn(AttentionTensor, [i64; 3]) -> Vec<T>,
    sinks: &[f32],
) -> (Vec<f64>, f64) {
    // The keys that the query sees, all of which are seen.
    let keys = problem.mask.keys(query, problem.lengths);
    let group = problem.heads[0] / problem.heads[1];
    let of_keys = |tensor| -> Vec<T> {
        let rows = keys
            .clone()
            .map(|j| value(tensor, [batch, head / group, j]));
        rows.flatten().collect()
    };
    let lengths = [1, keys.end - keys.start];
    let alone = AttentionProblem {
        scale: problem.scale,
        softcap: problem.softcap,
        sinks: problem.sinks,
        ..AttentionProblem::new(problem.ty, 1, [1, 1], lengths, problem.features).mask(Mask::Full)
    };
    let q = value(AttentionTensor::Q, [batch, head, query]);
    let [k, v] = [AttentionTensor::K, AttentionTensor::V].map(of_keys);
    let sink = &sinks[head as usize..][..1];
    let found = reference::attention_with_sinks(&alone, &q, &k, &v, sink);
    let row = found.output.iter().copied().collect();
    (row, found.log_sum_exp[(0, 0, 0)])
}

#[cfg(test)]
mod tests {
    use super::*;
    use colex_atom::Arch;

    /// The first small problems of a seed run on the simulator, and are right: of several masks and with all that a call can have.
    #[test]
    fn drawn_problems_run_and_are_compared_with_the_reference() {
        let device = Device::simulator(Arch::Sm90a);
        let small =
            |problem: &AttentionProblem| operations(problem) < 6e6 && bytes(problem) < 1 << 20;
        // Drawn evenly: logarithms take too long in a test.
        let mut random = Random::new(1, 1);
        let mut even = || 2.0 * random.uniform() - 1.0;
        let of_bf16 = Noise::of(|| bf16::from_f64(even()));
        let of_f16 = Noise::of(|| f16::from_f64(even()));
        let problems = (0..2000).map(|i| drawn(3, i)).filter(small);
        let mut seen = [false; 4];
        for problem in problems.take(8) {
            let error = |_: &[AttentionCall<'_>], error: f64| Ok(error);
            let found = match problem.ty {
                Ty::Bf16 => {
                    with_calls(&device, (&problem, &of_bf16, HowPlanned::Default), 2, error)
                }
                _ => with_calls(&device, (&problem, &of_f16, HowPlanned::Default), 2, error),
            };
            let found = found.expect("it runs");
            assert!(found < MOST_ERROR, "{problem}: {found}");
            seen[0] |= problem.mask == Mask::Causal;
            seen[1] |= matches!(problem.mask, Mask::Window { .. });
            seen[2] |= problem.log_sum_exp;
            seen[3] |= problem.sinks.is_some() || problem.softcap.is_some();
        }
        assert_eq!(seen, [true; 4]);
    }

    /// The regret is that of the faster plan; each set has a line of its own, for choices and for regrets.
    #[test]
    fn choices_and_regrets_are_summarised() {
        let found = |choice, tuned: Option<[f64; 2]>| MeasuredProblem {
            plan: "default".to_string(),
            time: 1.0,
            error: 0.0,
            choice,
            tuned: tuned.map(|[time, default]| TunedTimes {
                plan: "tuned".to_string(),
                time,
                default,
            }),
            others: Vec::new(),
        };
        let mut summary = Summary::default();
        summary.add("drawn", &found(2.0, Some([10.0, 12.0])));
        summary.add("drawn", &found(4.0, Some([10.0, 9.0])));
        summary.add("chosen", &found(3.0, None));
        let lines = summary.lines();
        let said: Vec<&str> = lines.iter().map(|(name, _)| &**name).collect();
        assert_eq!(
            said,
            [
                "choice of a plan, 1 chosen problems: 3.000 us on average, 3.000 us at the 95th percentile",
                "choice of a plan, 2 drawn problems: 3.000 us on average, 2.000 us at the 95th percentile",
                "regret of the default plan, 2 drawn problems: 1.100 on average, 1.000 at the 95th percentile",
            ]
        );
        assert_eq!(lines[2].1["mean"], 1.1);
        let many: Vec<f64> = (0..100).map(f64::from).collect();
        assert_eq!(mean_and_tail(many), [49.5, 94.0]);
    }

    /// The plan that autotune finds for a problem computes it, and a choice takes some time.
    #[test]
    fn a_tuned_plan_is_compared_and_a_choice_is_timed() {
        let device = Device::simulator(Arch::Sm90a);
        let file = std::env::temp_dir().join(format!("colex-tuned-{}", std::process::id()));
        let measured = Autotune::open(&file).expect("a new file");
        let problem = AttentionProblem::new(Ty::Bf16, 1, [2, 1], [3, 40], [64; 2]);
        let mut random = Random::new(1, 1);
        let noise = Noise::of(|| bf16::from_f64(2.0 * random.uniform() - 1.0));
        let tuned = (&problem, &noise, HowPlanned::Tuned(&measured));
        let found = with_calls(&device, tuned, 2, |calls, error| {
            assert_eq!(calls[0].plan(), calls[1].plan());
            Ok(error)
        });
        assert!(found.expect("it runs") < MOST_ERROR);
        std::fs::remove_file(file).expect("it is there");
        assert!(choice(&device, &problem).expect("a plan") > 0.0);
    }

    #[test]
    fn a_wrong_element_or_sum_is_an_error() {
        let mut right = RowErrors::default();
        right.row(&[bf16::ONE, bf16::ONE], &[1.0, 1.0]);
        right.sum(f32::NEG_INFINITY, f64::NEG_INFINITY);
        assert_eq!(right.error(), 0.0);
        let mut wrong = RowErrors::default();
        wrong.row(&[bf16::ONE, bf16::ZERO], &[1.0, 1.0]);
        assert_eq!(wrong.error(), 0.5f64.sqrt());
        right.sum(1.0, 2.0);
        assert!(right.error().is_nan());
        let mut nan = RowErrors::default();
        nan.row(&[bf16::NAN], &[1.0]);
        assert!(nan.error().is_nan());
    }
}
