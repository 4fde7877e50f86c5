//! `cargo xtask verify`: every check, one line each, and a last line that counts them.
//!
//! Each step is a process of its own (`verify --step NAME`), so that steps run side by side and the processor time of
//! each is that of its process. What it says goes through its standard output (`report.rs`).

mod cargo;
mod commands;
mod examples;
mod layers;
mod new_op;
mod outcome;
mod packages;
mod progress;
mod ptxas;
mod queue;
mod snapshots;
pub(crate) mod soak;
mod steps;
mod suite;
mod times;
mod wasm;
mod words;

use std::fs;
use std::process::ExitCode;

use anyhow::{Context, Result};

use crate::{output, workspace};
use outcome::report::{self, Report};
use outcome::{Outcome, Tally};
use progress::Progress;
use steps::Step;
use times::Stopwatch;

/// What a step knows of its run.
struct Run {
    root: std::path::PathBuf,
    packages: cargo::Packages,
    /// Whether a machine without a GPU is a failure.
    gpu: bool,
    /// What the step counted, by name.
    counts: Vec<(String, String)>,
}

impl Run {
    fn new(gpu: bool) -> Result<Run> {
        let root = workspace::root()?;
        let packages = cargo::packages(&root)?;
        let counts = Vec::new();
        Ok(Run {
            root,
            packages,
            gpu,
            counts,
        })
    }

    /// Notes a count, for the end of the run and its file.
    fn counted(&mut self, name: &str, count: impl ToString) {
        self.counts.push((name.to_string(), count.to_string()));
    }
}

/// Runs every step whose name contains `only`, whether or not another one failed.
pub(crate) fn task(gpu: bool, only: Option<&str>, bless: bool) -> Result<ExitCode> {
    let run = Run::new(gpu)?;
    let first = !times::folder(&run).exists();
    fs::create_dir_all(times::folder(&run))?;
    snapshots::forget(&run)?;
    let wanted = |name: &str| only.is_none_or(|only| name.contains(only));
    let steps: Vec<&Step> = (steps::ALL.iter())
        .filter(|step| wanted(step.name))
        .collect();
    let is_timed = wanted(times::NAME);
    if steps.is_empty() && !is_timed {
        anyhow::bail!(
            "no step has a name with `{}` in it",
            only.unwrap_or_default()
        );
    }
    let watch = Stopwatch::start();
    let mut tally = Tally::default();
    let reports = queue::run(&steps, gpu)?;
    reports
        .iter()
        .for_each(|(_, report)| tally.add(&report.outcome));
    if is_timed {
        let ran = times::Ran {
            reports: &reports,
            seconds: watch.elapsed().as_secs_f64(),
            first,
            failed: tally.failed > 0,
        };
        let watch = Stopwatch::start();
        let outcome = times::check(&run, &ran, bless)
            .unwrap_or_else(|error| Outcome::failed("could not run", format!("{error:#}")));
        println!("{}", outcome.text(times::NAME, watch.elapsed()));
        tally.add(&outcome);
        let seconds = watch.elapsed().as_secs_f64();
        outcome.check(times::NAME, seconds, &[]).add();
    }
    for (name, report) in &reports {
        report
            .outcome
            .check(name, report.seconds, &report.counts)
            .add();
    }
    for (name, count) in reports.iter().flat_map(|(_, report)| &report.counts) {
        println!("{name:<26} {count}");
    }
    println!("{tally}");
    Ok(output::code(tally.failed == 0))
}

/// Runs one step in this process, and says how it ended on standard output.
pub(crate) fn step(gpu: bool, name: &str) -> Result<ExitCode> {
    let step = steps::ALL.iter().find(|step| step.name == name);
    let step = step.with_context(|| format!("no step is called `{name}`"))?;
    let mut run = Run::new(gpu)?;
    let watch = Stopwatch::start();
    let outcome = (step.check)(&mut run, &Progress::default())
        .unwrap_or_else(|error| Outcome::failed("could not run", format!("{error:#}")));
    let report = Report {
        outcome,
        counts: run.counts,
        seconds: watch.elapsed().as_secs_f64(),
        processor: watch.processor(),
    };
    println!("{}", report::Said::Ended(report).line()?);
    Ok(ExitCode::SUCCESS)
}
