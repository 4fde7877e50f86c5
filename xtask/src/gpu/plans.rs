//! `xtask gpu plans`: drawn plans of the kernel library against the reference, on a GPU in many processes, or on the
//! simulator.

use std::collections::BTreeSet;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::process::ExitCode;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use clap::Args;
use colex_gpu::Device;
use colex_proof::kernels::plans::{PlanCase, PlanOutcome, Tally};
use serde_json::{Value, json};

use crate::output;
use crate::verdict::{Checked, Ended};

use super::atoms::cores;
use super::shares::{BROKEN, SharedCases, Sharing, shard};

/// How long one plan with its problems may take.
const PATIENCE: Duration = Duration::from_secs(30);

/// How many plans are drawn for one that is wanted, at most.
const DRAWS: u64 = 20;

/// Which plans, and how.
#[derive(Args, Clone, Debug)]
pub(crate) struct PlanOptions {
    /// How many accepted plans to run on the GPU; on the simulator, how many plans to draw.
    #[arg(long, default_value_t = 200)]
    count: usize,
    /// How many problems each plan gets.
    #[arg(long, default_value_t = 4)]
    problems: usize,
    /// What the plans come from; the time if left out.
    #[arg(long)]
    seed: Option<u64>,
    /// On simulators instead of the GPU, each plan for an architecture that has its kernel.
    #[arg(long)]
    simulator: bool,
    #[command(flatten)]
    sharing: Sharing,
    /// For the processes themselves: the numbers of the plans.
    #[arg(long, hide = true, value_delimiter = ',')]
    numbers: Vec<u64>,
}

/// Runs the plans, and prints a line for each failure and the table.
pub(crate) fn task(options: &PlanOptions) -> Result<ExitCode> {
    if let Some(of) = &options.sharing.shard {
        return child(options, of);
    }
    let seed = options.seed.unwrap_or_else(super::atoms::from_the_clock);
    let started = Instant::now();
    let outcomes = if options.simulator {
        on_simulators(options, seed)
    } else {
        on_gpu(options, seed)?
    };
    let mut tally = Tally::default();
    for outcome in &outcomes {
        tally.add(outcome);
        outcome
            .failed
            .iter()
            .for_each(|failure| println!("{failure}"));
    }
    println!("{tally}");
    let failed = outcomes.iter().flat_map(|outcome| outcome.failed.clone());
    let failed: Vec<String> = failed.collect();
    let ([plans, accepted, right], failures) = (tally.totals(), failed.len());
    let seconds = started.elapsed().as_secs_f64();
    let what = format!(
        "{plans} plans, {accepted} accepted, {right} right, {failures} failed, seed {seed}"
    );
    println!("{what}, in {seconds:.1} s");
    let numbers = json!({"plans": plans, "accepted": accepted, "right": right, "failed": failures, "seed": seed});
    Checked {
        seconds: Some(seconds),
        data: numbers,
        ..Checked::new("plans", Ended::of(failed.is_empty()), what).complaining(&failed.join("\n"))
    }
    .add();
    Ok(output::code(failed.is_empty()))
}

/// Plans that the GPU's architecture accepts, each in a process that others do not need.
fn on_gpu(options: &PlanOptions, seed: u64) -> Result<Vec<PlanOutcome>> {
    let device = super::device()?;
    let (name, arch) = (device.name(), device.arch());
    drop(device);
    let simulator = Device::simulator(arch);
    let accepts = |number: u64| {
        let (case, dice) = PlanCase::draw(seed, number, Some(arch));
        case.run(dice, options.problems, Some(&simulator), false)
            .right
            > 0
    };
    let numbers = accepted(options, &accepts)?;
    println!(
        "{} plans with {} problems each on {name}, seed {seed}",
        numbers.len(),
        options.problems
    );
    let text: Vec<String> = numbers.iter().map(u64::to_string).collect();
    let text = text.join(",");
    let cases = SharedCases {
        count: numbers.len(),
        processes: options.sharing.processes.unwrap_or_else(cores),
        patience: PATIENCE,
        arguments: &|shard, skip| {
            let mut list: Vec<String> = ["gpu", "plans", "--shard", shard]
                .map(String::from)
                .to_vec();
            let numbers = [
                ("--seed", seed.to_string()),
                ("--skip", skip.to_string()),
                ("--problems", options.problems.to_string()),
                ("--numbers", text.clone()),
            ];
            list.extend(
                numbers
                    .into_iter()
                    .flat_map(|(name, value)| [name.to_string(), value]),
            );
            list
        },
        parse: &parse,
        silent: &|at, ended| {
            let (case, _) = PlanCase::draw(seed, numbers[at], Some(arch));
            PlanOutcome {
                method: case.method(),
                failed: vec![format!("plan {}: {case}: {ended}", numbers[at])],
                ..PlanOutcome::default()
            }
        },
        done: &|_| {},
    };
    cases.run()
}

/// The numbers of the first plans that are accepted for some of their problems.
fn accepted(options: &PlanOptions, accepts: &(dyn Fn(u64) -> bool + Sync)) -> Result<Vec<u64>> {
    let (next, found) = (AtomicUsize::new(0), Mutex::new(BTreeSet::new()));
    let most = options.count * DRAWS as usize;
    let work = || loop {
        let number = next.fetch_add(1, Ordering::Relaxed);
        let enough = || found.lock().expect("no thread panics").len() >= options.count;
        if number >= most || enough() {
            return;
        }
        if accepts(number as u64) {
            found
                .lock()
                .expect("no thread panics")
                .insert(number as u64);
        }
    };
    std::thread::scope(|scope| {
        (0..cores()).for_each(|_| drop(scope.spawn(work)));
    });
    let found = found.into_inner().expect("the threads are done");
    if found.len() < options.count {
        bail!(
            "{} of {most} plans are accepted, fewer than the {} wanted",
            found.len(),
            options.count
        );
    }
    Ok(found.into_iter().take(options.count).collect())
}

/// One of the processes: a line for each plan of its share.
fn child(options: &PlanOptions, of: &str) -> Result<ExitCode> {
    let (index, count) = shard(of)?;
    let device = super::device()?;
    let seed = options.seed.context("a process is told its seed")?;
    let mine = options.numbers.iter().skip(index).step_by(count);
    for number in mine.skip(options.sharing.skip) {
        let (case, dice) = PlanCase::draw(seed, *number, Some(device.arch()));
        let mut outcome = case.run(dice, options.problems, Some(&device), true);
        for failure in &mut outcome.failed {
            *failure = format!("plan {number}: {failure}");
        }
        println!("{}", line(&outcome));
        if device.synchronize().is_err() {
            return Ok(ExitCode::from(BROKEN));
        }
        device.clear_module_cache();
    }
    Ok(ExitCode::SUCCESS)
}

fn line(outcome: &PlanOutcome) -> String {
    let PlanOutcome {
        method,
        right,
        refused,
        failed,
    } = outcome;
    json!({"method": method, "right": right, "refused": refused, "failed": failed}).to_string()
}

fn parse(line: &str) -> Result<PlanOutcome> {
    let value: Value = serde_json::from_str(line)?;
    let words = |name: &str| -> Result<Vec<String>> {
        let list = value[name]
            .as_array()
            .with_context(|| format!("no `{name}` in {line}"))?;
        Ok(list
            .iter()
            .filter_map(Value::as_str)
            .map(String::from)
            .collect())
    };
    Ok(PlanOutcome {
        method: value["method"].as_str().context("no `method`")?.to_string(),
        right: value["right"].as_u64().context("no `right`")? as usize,
        refused: words("refused")?,
        failed: words("failed")?,
    })
}

/// Drawn plans on simulators, in as many threads as there are cores. A panic is a failure like any other.
fn on_simulators(options: &PlanOptions, seed: u64) -> Vec<PlanOutcome> {
    let (next, outcomes) = (AtomicUsize::new(0), Mutex::new(Vec::new()));
    let started = Instant::now();
    let work = || loop {
        let number = next.fetch_add(1, Ordering::Relaxed);
        if number >= options.count {
            return;
        }
        let (case, dice) = PlanCase::draw(seed, number as u64, None);
        let run = || case.run(dice, options.problems, None, true);
        let mut outcome = catch_unwind(AssertUnwindSafe(run)).unwrap_or_else(|_| PlanOutcome {
            method: case.method(),
            failed: vec![format!("{case}: it panics")],
            ..PlanOutcome::default()
        });
        for failure in &mut outcome.failed {
            *failure = format!("plan {number}: {failure}");
        }
        let mut outcomes = outcomes
            .lock()
            .expect("no thread panics while it holds the list");
        outcomes.push((number, outcome));
        if outcomes.len() % 200 == 0 {
            let seconds = started.elapsed().as_secs_f64();
            println!(
                "{} of {} after {seconds:.0} s",
                outcomes.len(),
                options.count
            );
        }
    };
    std::thread::scope(|scope| {
        let threads = options.sharing.processes.unwrap_or_else(cores);
        (0..threads).for_each(|_| drop(scope.spawn(work)));
    });
    let mut outcomes = outcomes.into_inner().expect("the threads are done");
    outcomes.sort_by_key(|(number, _)| *number);
    outcomes.into_iter().map(|(_, outcome)| outcome).collect()
}
