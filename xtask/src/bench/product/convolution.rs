//! Convolutions of a residual network, beside cuDNN's fastest algorithm: bf16, NHWC, batch 64.

use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use anyhow::{Context, Result, ensure};
use colex_gpu::gemm::{Convolution, ConvolutionProblem};
use colex_gpu::kernels::gemm::{GemmCall, GemmMethod, GemmPlan};
use colex_gpu::kernels::{View, ViewMut};
use colex_gpu::{Buffer, Device, Repeats};
use half::bf16;
use serde_json::{Value, json};

use super::sweep::{Lines, Work, normal, round};
use crate::bench::device::{commit, driver};
use crate::bench::host;
use crate::verdict::{Checked, Ended};
use crate::workspace;

/// How the numbers are taken.
const PROTOCOL: &str = "graphs of calls on rotated operands, several times the second-level cache; a process of PyTorch with cuDNN's \
fastest algorithm (torch.backends.cudnn.benchmark) takes turns with ours in each round, each idle in the turn of the other; medians; \
normal numbers; drawn elements compared with sums on the host";

/// C, H (as W), K, R (as S) and the stride of a layer. The padding keeps the size, but for the stride.
type ConvolutionLayer = [i64; 5];

const LAYERS: [ConvolutionLayer; 12] = [
    [3, 224, 64, 7, 2],
    [64, 56, 64, 1, 1],
    [64, 56, 64, 3, 1],
    [64, 56, 256, 1, 1],
    [256, 56, 128, 1, 1],
    [128, 56, 128, 3, 2],
    [128, 28, 512, 1, 1],
    [512, 28, 256, 1, 1],
    [256, 28, 256, 3, 2],
    [256, 14, 1024, 1, 1],
    [1024, 14, 512, 1, 1],
    [512, 7, 512, 3, 1],
];

const IMAGES: i64 = 64;

/// The bytes over which operands rotate.
const ROTATED: usize = 256 << 20;

/// Turns of each contender.
const ROUNDS: usize = 9;

/// The elements of a layer that are compared with the host.
const COMPARED: usize = 256;

fn problem([channels, size, filters, taps, stride]: ConvolutionLayer) -> ConvolutionProblem {
    let problem = ConvolutionProblem::new(IMAGES, [size; 2], channels, filters, [taps; 2]);
    problem.stride([stride; 2]).padding([taps / 2; 2])
}

/// A process of PyTorch that measures cuDNN when it is asked to.
struct Cudnn {
    process: Child,
    to: ChildStdin,
    from: BufReader<ChildStdout>,
    version: String,
}

impl Cudnn {
    /// Starts the process, and waits until it has a device.
    fn start() -> Result<Cudnn> {
        let script = workspace::root()?.join("gpu/bench/convolution_beside_cudnn.py");
        let mut process = Command::new("python3")
            .arg(script)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .context("python3 cannot be started")?;
        let to = process.stdin.take().context("no way to the process")?;
        let from = process.stdout.take().context("no way from the process")?;
        let from = BufReader::new(from);
        let version = String::new();
        let mut cudnn = Cudnn {
            process,
            to,
            from,
            version,
        };
        cudnn.version = cudnn.read()?.to_string();
        Ok(cudnn)
    }

    fn read(&mut self) -> Result<Value> {
        let mut line = String::new();
        let count = self.from.read_line(&mut line)?;
        ensure!(count > 0, "the process has ended");
        let value: Value = serde_json::from_str(&line).with_context(|| line.clone())?;
        match value["error"].as_str() {
            Some(error) => Err(anyhow::anyhow!("{error}")),
            None => Ok(value),
        }
    }

    fn ask(&mut self, request: &Value) -> Result<Value> {
        writeln!(self.to, "{request}")?;
        self.to.flush()?;
        self.read()
    }

    /// Microseconds of the layer that was set up last.
    fn time(&mut self) -> Result<f64> {
        let answer = self.ask(&json!("time"))?;
        answer["us"].as_f64().context("no time")
    }
}

impl Drop for Cudnn {
    fn drop(&mut self) {
        // It ends where its input does; a process that does not is ended.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// The operands of a call.
struct Operands {
    x: Buffer<bf16>,
    filters: Buffer<bf16>,
    y: Buffer<bf16>,
}

/// The layers of the network.
pub(in crate::bench) fn run(device: &Device, json: Option<&Path>) -> Result<()> {
    let mut lines = Lines::new(json)?;
    let mut cudnn = Cudnn::start();
    let opponent = match &cudnn {
        Ok(cudnn) => cudnn.version.clone(),
        Err(why) => format!("without cuDNN: {why:#}"),
    };
    println!(
        "{}, {}; {opponent}; {PROTOCOL}\nlayer: cuDNN (us) | contender (us), TFLOP/s, speed over cuDNN",
        device.name(),
        driver(device)
    );
    lines.write(&json!({
        "bench": "convolution", "device": device.name(), "driver": driver(device), "date": host::today(),
        "commit": commit(), "protocol": PROTOCOL, "opponent": opponent,
    }))?;
    let (mut ours, mut best) = (Vec::new(), Vec::new());
    for layer in LAYERS {
        let found = one(device, layer, cudnn.as_mut().ok(), &mut lines)?;
        ours.extend(found.map(|found| found[0]));
        best.extend(found.map(|found| found[1]));
    }
    let mean = |ratios: &[f64]| {
        let logarithms: f64 = ratios.iter().map(|ratio| ratio.ln()).sum();
        (logarithms / ratios.len() as f64).exp()
    };
    if !ours.is_empty() {
        println!(
            "\n{} layers, speed over cuDNN, geometric mean: {:.3}; of the best plan of each {:.3}",
            ours.len(),
            mean(&ours),
            mean(&best)
        );
        lines.write(
            &json!({"mean": round(mean(&ours)), "mean_of_best_plans": round(mean(&best))}),
        )?;
    }
    Ok(())
}

/// One layer: the speeds over cuDNN of the library's plan and of the best one.
fn one(
    device: &Device,
    layer: ConvolutionLayer,
    cudnn: Option<&mut Cudnn>,
    lines: &mut Lines,
) -> Result<Option<[f64; 2]>> {
    let problem = problem(layer);
    let [p, q] = problem.positions()?;
    let product = problem.product()?;
    let [h, w] = problem.size;
    let [r, s] = problem.taps;
    let extents = [
        [IMAGES, h, w, problem.channels],
        [problem.filters, r, s, problem.channels],
        [IMAGES, p, q, problem.filters],
    ];
    let [count_x, count_filters, count_y] = extents.map(|all| all.iter().product::<i64>() as usize);
    let bytes = 2 * (count_x + count_filters + count_y);
    let copies = (ROTATED / bytes).clamp(2, 64);
    let mut sets = Vec::new();
    for _ in 0..copies {
        let set = Operands {
            x: device.uninitialised(count_x)?,
            filters: device.uninitialised(count_filters)?,
            y: device.uninitialised(count_y)?,
        };
        normal(&set.x)?;
        normal(&set.filters)?;
        sets.push(set);
    }
    let (x, filters) = (sets[0].x.download()?, sets[0].filters.download()?);
    let written = sets[0].y.clone();
    written.fill_bytes(0xff)?;
    let mut contenders: Vec<(String, Vec<GemmCall<'_>>)> = Vec::new();
    for Operands { x, filters, y } in &mut sets {
        let (x, filters) = (
            View::row_major(x, extents[0].to_vec())?,
            View::row_major(filters, extents[1].to_vec())?,
        );
        let y = ViewMut::row_major(y, extents[2].to_vec())?;
        let convolution = Convolution::new(&x, &filters, &y)
            .stride(problem.stride)
            .padding_of(problem.padding);
        let convolution = convolution.product()?;
        let usual = convolution.prepare()?;
        let mut calls = vec![("ours".to_string(), usual)];
        // Plans beside the library's, where nothing is written before the product.
        if calls[0].1.written().is_none() {
            let mut plans = Vec::new();
            // The plan is not launched: its operands are what the list is made from.
            let _ = convolution.prepare_with(|operands, arch| {
                plans.extend(GemmPlan::candidates(operands, arch));
                Ok(GemmPlan::new(GemmMethod::Hopper, operands))
            })?;
            for plan in plans {
                let plan = GemmPlan { split: 1, ..plan };
                let known = |(_, call): &(String, GemmCall<'_>)| call.plan() == Some(&plan);
                if calls.iter().any(known) {
                    continue;
                }
                if let Ok(call) = convolution.prepare_with(|_, _| Ok(plan)) {
                    calls.push((plan.to_string(), call));
                }
            }
        }
        for (name, call) in calls {
            match contenders.iter_mut().find(|(known, _)| *known == name) {
                Some((_, all)) => all.push(call),
                None => contenders.push((name, vec![call])),
            }
        }
    }
    let [channels, size, filters_of, taps, stride] = layer;
    let title = format!("({channels}, {size}, {filters_of}, {taps}, {stride})");
    contenders[0].1[0].run(device)?;
    device.synchronize()?;
    let wrong = compared(&problem, [&x, &filters], &written.download()?)?;
    let works = contenders.iter().map(|(_, calls)| -> Box<Work<'_>> {
        Box::new(move |device, i| calls[i % calls.len()].run(device))
    });
    let works: Vec<Box<Work<'_>>> = works.collect();
    let works: Vec<&Work<'_>> = works.iter().map(|work| &**work).collect();
    let batch = copies.max(4);
    let repeats = Repeats {
        warmups: 1,
        samples: 1,
        batch,
    };
    let mut theirs = Vec::new();
    let mut cudnn = cudnn;
    if let Some(cudnn) = &mut cudnn {
        cudnn.ask(&json!({
            "n": IMAGES, "c": channels, "h": size, "k": filters_of, "r": taps, "stride": stride, "padding": taps / 2,
            "sets": copies, "batch": batch,
        }))?;
    }
    let mut times = vec![Vec::new(); works.len()];
    for _ in 0..ROUNDS {
        let found = device.time_in_turns(repeats, &works)?;
        for (times, found) in times.iter_mut().zip(found) {
            times.push(found.median());
        }
        device.synchronize()?;
        if let Some(cudnn) = &mut cudnn {
            theirs.push(cudnn.time()?);
        }
    }
    let median = |times: &[f64]| {
        let mut sorted = times.to_vec();
        sorted.sort_by(f64::total_cmp);
        sorted.get(sorted.len() / 2).copied()
    };
    let library = median(&theirs);
    println!(
        "{title}: {}",
        library.map_or("-".to_string(), |us| format!("{us:.1}"))
    );
    let operations = 2.0 * product.m as f64 * product.n as f64 * product.k as f64;
    let mut rows: Vec<(f64, &str, String)> = Vec::new();
    for ((name, calls), times) in contenders.iter().zip(&times) {
        let us = median(times).context("a time")?;
        rows.push((us, name, calls[0].to_string()));
        lines.write(&json!({
            "layer": layer, "contender": name, "plan": calls[0].to_string(), "us": round(us),
            "cudnn_us": library.map(round), "samples": times,
        }))?;
    }
    let first = rows[0].0;
    let best = rows.iter().map(|row| row.0).fold(f64::INFINITY, f64::min);
    rows[1..].sort_by(|a, b| a.0.total_cmp(&b.0));
    for (us, name, plan) in rows.iter().take(5) {
        let speed = library.map_or(f64::NAN, |library| library / us);
        let what = if *name == "ours" {
            format!("ours: {plan}")
        } else {
            (*name).to_string()
        };
        println!(
            "  {us:>9.1}  {:>7.1}  {speed:.3}  {what}",
            operations / us / 1e6
        );
    }
    Checked {
        data: json!({"us": round(first), "best_us": round(best), "cudnn_us": library.map(round)}),
        ..Checked::new(&title, Ended::of(wrong.is_none()), PROTOCOL)
    }
    .complaining(wrong.as_deref().unwrap_or_default())
    .add();
    if let Some(wrong) = wrong {
        anyhow::bail!("{title}: {wrong}");
    }
    Ok(library.map(|library| [library / first, library / best]))
}

/// What is wrong with drawn elements of an output, if anything: an element off by more than the rounding of sums in f32 to bf16.
fn compared(
    problem: &ConvolutionProblem,
    [x, filters]: [&[bf16]; 2],
    found: &[bf16],
) -> Result<Option<String>> {
    let [p, q] = problem.positions()?;
    let ([h, w], [r, s]) = (problem.size, problem.taps);
    let (c, k) = (problem.channels, problem.filters);
    let along = |d: usize, position: i64, tap: i64| {
        let at = position * problem.stride[d] + tap * problem.dilation[d] - problem.padding[d][0];
        (0..problem.size[d]).contains(&at).then_some(at)
    };
    for draw in 0..COMPARED {
        // The first element, the last one, and others in between.
        let at = (found.len() - 1) * draw / (COMPARED - 1);
        let (filter, position) = (at as i64 % k, at as i64 / k);
        let (column, row, image) = (position % q, position / q % p, position / q / p);
        let (mut sum, mut size) = (0.0, 0.0);
        for tap in 0..r * s {
            let place = along(0, row, tap / s).zip(along(1, column, tap % s));
            let Some((y_at, x_at)) = place else { continue };
            for channel in 0..c {
                let pixel = ((image * h + y_at) * w + x_at) * c + channel;
                let weight = (filter * r * s + tap) * c + channel;
                let term = x[pixel as usize].to_f64() * filters[weight as usize].to_f64();
                sum += term;
                size += term.abs();
            }
        }
        let off = (found[at].to_f64() - sum).abs();
        let allowed = sum.abs() / 256.0 + 1e-5 * size;
        if off.is_nan() || off > allowed {
            return Ok(Some(format!(
                "element {at} is {} and should be {sum}: a difference of {allowed:.1e} is allowed",
                found[at]
            )));
        }
    }
    Ok(None)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn layers_keep_the_size_of_their_stride() -> Result<()> {
        for layer in LAYERS {
            let [_, size, filters, _, stride] = layer;
            let problem = problem(layer);
            assert_eq!(problem.positions()?, [size / stride; 2]);
            assert_eq!(problem.product()?.n, filters);
        }
        Ok(())
    }

    #[test]
    fn a_wrong_element_is_named() -> Result<()> {
        let problem = ConvolutionProblem::new(1, [1, 300], 1, 1, [1, 3]).padding([0, 1]);
        let ones = vec![bf16::ONE; 300];
        let mut sums = vec![bf16::from_f32(3.0); 300];
        (sums[0], sums[299]) = (bf16::from_f32(2.0), bf16::from_f32(2.0));
        let of = |sums: &[bf16]| compared(&problem, [&ones, &ones[..3]], sums);
        assert_eq!(of(&sums)?, None);
        sums[299] = bf16::from_f32(3.0);
        let said = of(&sums)?.context("it is wrong")?;
        assert!(
            said.starts_with("element 299 is 3 and should be 2: "),
            "{said}"
        );
        Ok(())
    }
}
