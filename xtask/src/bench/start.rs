//! Cold start: the time from the start of a process to its first product, by what it is spent on.
//!
//! Each run is a process of its own, which is told when it was started. Processes with an empty disk cache, with a warm
//! one, and with cuBLASLt in place of Colex take turns. The driver's own cache of machine code is off.

use std::env;
use std::fs;
use std::path::Path;
use std::process::{Command, ExitCode};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use anyhow::{Context, Result, ensure};
use colex_gpu::kernels::gemm::GemmPlan;
use colex_gpu::kernels::{GemmProblem, Operand};
use colex_gpu::{Device, Origin};
use colex_proof::cublaslt::Opponent;
use half::bf16;
use serde_json::{Map, Value, json};

use super::host;

/// The variable that tells a process whose product to make, and the one with the time of its start.
const MODE: &str = "COLEX_BENCH_START";
const STARTED: &str = "COLEX_BENCH_STARTED";

/// How often each kind of process runs.
const RUNS: usize = 15;

/// The product: a square of bf16.
const SIZE: i64 = 1024;

/// Whether this process was started to make one product.
pub(super) fn is_child() -> bool {
    env::var_os(MODE).is_some()
}

/// The kinds of processes.
const MODES: [&str; 3] = ["cold", "warm", "cublaslt"];

/// The steps in order, in milliseconds.
const STEPS: [&str; 9] = [
    "main", "driver", "context", "memory", "prepare", "launch", "wait", "product", "whole",
];

/// Makes one product, and prints what it took.
pub(super) fn child() -> Result<ExitCode> {
    let mut clock = Clock::started()?;
    clock.step("main");
    // No device has this number: the driver is loaded and started, and no context is made.
    ensure!(Device::gpu(usize::MAX).is_err(), "there is a device");
    clock.step("driver");
    let device = Device::gpu(0)?;
    clock.step("context");
    let count = (SIZE * SIZE) as usize;
    let [a, b, mut c] = [(); 3].map(|()| device.uninitialised::<bf16>(count));
    let (a, b) = (a?, b?);
    let c = c.as_mut().map_err(|error| error.clone())?;
    clock.step("memory");
    let problem = GemmProblem::new(SIZE, SIZE, SIZE);
    let before = clock.last;
    if env::var(MODE)? == "cublaslt" {
        let opponent = Opponent::new::<bf16, bf16>(&device, &problem, 1)?;
        clock.step("prepare");
        opponent.run(&device, 0, [&a, &b], c)?;
        clock.step("launch");
        device.synchronize()?;
        clock.step("wait");
    } else {
        let call = problem.on(&a, &b, c)?.prepare()?;
        clock.step("prepare");
        call.run(&device)?;
        clock.step("launch");
        device.synchronize()?;
        clock.step("wait");
        let function = call.function().context("a product has a kernel")?;
        match function.origin() {
            Some(Origin::Assembled {
                assembled, loaded, ..
            }) => {
                clock.insert("linked", *assembled);
                clock.insert("loaded", *loaded);
            }
            Some(Origin::Whole { took }) => clock.insert("assembled and loaded", *took),
            Some(Origin::Disk { took }) => clock.insert("found on the disk", *took),
            Some(Origin::Image { .. }) | None => {}
        }
    }
    clock.insert("product", clock.last - before);
    clock.insert("whole", clock.last);
    if env::var(MODE)? != "cublaslt" {
        again(&mut clock, &device, &problem)?;
    }
    println!("{}", Value::Object(clock.steps));
    Ok(ExitCode::SUCCESS)
}

/// What the host does for a new kernel, once more and in parts: the times of warm processor caches.
fn again(clock: &mut Clock, device: &Device, problem: &GemmProblem) -> Result<()> {
    let memory = device.uninitialised::<bf16>((SIZE * SIZE) as usize)?;
    let mut c = device.uninitialised::<bf16>((SIZE * SIZE) as usize)?;
    let started = Instant::now();
    let call = problem.on(&memory, &memory, &mut c)?.prepare()?;
    let plan: GemmPlan = *call.plan().context("a product has a plan")?;
    clock.insert("another address", started.elapsed());
    let started = Instant::now();
    let kernel = plan.build(device.arch())?.kernel;
    clock.insert("again: build", started.elapsed());
    let started = Instant::now();
    kernel.verify().map_err(|why| anyhow::anyhow!("{why}"))?;
    clock.insert("again: verify", started.elapsed());
    let started = Instant::now();
    let text = kernel.ptx_unverified()?;
    clock.insert("again: print", started.elapsed());
    let lines = text.lines().count();
    clock.steps.insert("lines of PTX".to_string(), json!(lines));
    ensure!(
        problem.leading_of(Operand::A) == SIZE,
        "the matrices are compact"
    );
    Ok(())
}

/// The time since the process was started, and the steps so far.
struct Clock {
    /// The time from the start of the process to the start of `since`.
    offset: Duration,
    since: Instant,
    last: Duration,
    steps: Map<String, Value>,
}

impl Clock {
    fn started() -> Result<Clock> {
        let since = Instant::now();
        let now = SystemTime::now().duration_since(UNIX_EPOCH)?;
        let started = env::var(STARTED)?.parse().map(Duration::from_nanos)?;
        Ok(Clock {
            offset: now.saturating_sub(started),
            since,
            last: Duration::ZERO,
            steps: Map::new(),
        })
    }

    /// Ends a step.
    fn step(&mut self, name: &str) {
        let now = self.offset + self.since.elapsed();
        self.insert(name, now - self.last);
        self.last = now;
    }

    fn insert(&mut self, name: &str, time: Duration) {
        let time = json!(time.as_secs_f64() * 1e3);
        self.steps.insert(name.to_string(), time);
    }
}

/// Runs the processes in turn, and prints the medians.
pub(super) fn run(file: Option<&Path>) -> Result<()> {
    println!(
        "milliseconds from the start of a process to its first product of bf16 {SIZE}x{SIZE}x{SIZE}: medians of {RUNS} \
         processes of each kind in turn, in brackets the least and the most; `product` is prepare + launch + wait; \
         `whole` is all from the start of the process"
    );
    let folder = env::temp_dir().join(format!("colex-start-{}", std::process::id()));
    let done = processes(&folder);
    let _ = fs::remove_dir_all(&folder);
    let samples = done?;
    let mut report = Map::new();
    report.insert("machine".to_string(), json!(host::description()));
    for (mode, samples) in MODES.iter().zip(&samples) {
        println!("\n{mode}");
        let Some(first) = samples.first() else {
            println!("  skipped: its process fails here");
            continue;
        };
        let mut medians = Map::new();
        let others = first.keys().filter(|name| !STEPS.contains(&name.as_str()));
        for name in STEPS.iter().copied().chain(others.map(String::as_str)) {
            let mut times: Vec<f64> = samples
                .iter()
                .filter_map(|sample| sample.get(name)?.as_f64())
                .collect();
            times.sort_by(f64::total_cmp);
            let (Some(least), Some(most)) = (times.first(), times.last()) else {
                continue;
            };
            let median = times[times.len() / 2];
            println!("  {name:<20} {median:>9.3}  [{least:.3}, {most:.3}]");
            medians.insert(name.to_string(), json!(median));
        }
        let number = |name: &str| medians.get(name).and_then(Value::as_f64);
        if let (Some(product), Some(linked)) = (number("product"), number("linked")) {
            println!(
                "  allowed: 20 + 1.2 x linked = {:.3}; product takes {product:.3}",
                20.0 + 1.2 * linked
            );
        }
        report.insert((*mode).to_string(), Value::Object(medians));
    }
    if let Some(file) = file {
        fs::write(file, Value::Object(report).to_string())
            .with_context(|| format!("{} cannot be written", file.display()))?;
    }
    Ok(())
}

/// The samples of each kind of process; none where the first process of a kind fails.
fn processes(folder: &Path) -> Result<[Vec<Map<String, Value>>; 3]> {
    let mut samples = [const { Vec::new() }; 3];
    let mut failed = [false; 3];
    for run in 0..=RUNS {
        for (at, mode) in MODES.iter().enumerate() {
            if failed[at] {
                continue;
            }
            let cache = match *mode {
                "cold" => folder.join(run.to_string()),
                _ => folder.join("warm"),
            };
            match process(mode, &cache) {
                // The first of each kind fills the caches of files and of machine code.
                Ok(sample) if run > 0 => samples[at].push(sample),
                Ok(_) => {}
                Err(why) => {
                    eprintln!("{mode}: {why:#}");
                    failed[at] = true;
                }
            }
        }
    }
    ensure!(failed != [true; 3], "no process made a product");
    Ok(samples)
}

/// What one process says.
fn process(mode: &str, cache: &Path) -> Result<Map<String, Value>> {
    let mut child = Command::new(env::current_exe()?);
    child
        .args(["bench", "start"])
        .env(MODE, mode)
        .env("COLEX_CACHE", cache)
        .env("CUDA_CACHE_DISABLE", "1");
    let now = SystemTime::now().duration_since(UNIX_EPOCH)?;
    let output = child.env(STARTED, now.as_nanos().to_string()).output()?;
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    ensure!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr).trim()
    );
    let line = said.lines().last().context("it said nothing")?;
    let Value::Object(steps) = serde_json::from_str(line)? else {
        anyhow::bail!("it said {line}");
    };
    Ok(steps)
}
