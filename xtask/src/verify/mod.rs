//! `cargo xtask verify`: every check, one line each, and a last line that counts them.

mod cargo;
mod counts;
mod examples;
mod layers;
mod new_op;
mod outcome;
mod packages;
mod progress;
mod ptxas;
mod snapshots;
mod steps;
mod times;
mod wasm;
mod words;

use std::fs;
use std::process::ExitCode;

use anyhow::Result;

use crate::workspace;
use outcome::{Outcome, Tally};
use progress::Progress;
use times::{Stopwatch, Time};

/// What the steps of one run share.
struct Run {
    root: std::path::PathBuf,
    packages: cargo::Packages,
    /// Whether a machine without a GPU is a failure.
    gpu: bool,
    /// Whether the unit and law tests passed: only then the list of snapshots they read is complete.
    tests_passed: bool,
    /// Whether nothing was built in this target folder before.
    first: bool,
    /// Whether the repository keeps the times of this run.
    bless: bool,
    /// Whether a step has failed.
    failed: bool,
    /// What each step until now took.
    times: Vec<Time>,
    /// What was counted, by name.
    counts: Vec<(&'static str, String)>,
}

impl Run {
    /// Notes a count, for the end of the run and its file.
    fn counted(&mut self, name: &'static str, count: impl ToString) {
        self.counts.push((name, count.to_string()));
    }
}

/// One check.
struct Step {
    name: &'static str,
    check: fn(&mut Run, &Progress) -> Result<Outcome>,
}

/// Runs every step whose name contains `only`, whether or not an earlier one failed.
pub(crate) fn task(gpu: bool, only: Option<&str>, bless: bool) -> Result<ExitCode> {
    let root = workspace::root()?;
    let packages = cargo::packages(&root)?;
    let mut run = Run {
        root,
        packages,
        gpu,
        tests_passed: false,
        first: false,
        bless,
        failed: false,
        times: Vec::new(),
        counts: Vec::new(),
    };
    run.first = !times::folder(&run).exists();
    fs::create_dir_all(times::folder(&run))?;
    let mut tally = Tally::default();
    let wanted = |step: &&Step| only.is_none_or(|only| step.name.contains(only));
    for step in steps::ALL.iter().filter(wanted) {
        let outcome = timed(step, &mut run);
        tally.add(&outcome);
        run.failed = tally.failed > 0;
    }
    if tally.passed + tally.failed + tally.skipped == 0 {
        anyhow::bail!(
            "no step has a name with `{}` in it",
            only.unwrap_or_default()
        );
    }
    for (name, count) in &run.counts {
        println!("{name:<26} {count}");
    }
    println!("{tally}");
    Ok(if tally.failed == 0 {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    })
}

/// Runs a step and prints its line, with the tool's output below it if it failed.
fn timed(step: &Step, run: &mut Run) -> Outcome {
    let watch = Stopwatch::start();
    let progress = Progress::new(step.name);
    let outcome = (step.check)(run, &progress)
        .unwrap_or_else(|error| Outcome::failed("could not run", format!("{error:#}")));
    progress.finish();
    outcome.print(step.name, watch.elapsed());
    run.times.push(watch.stop(step.name, &outcome));
    outcome
}
