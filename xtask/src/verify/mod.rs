//! `cargo xtask verify`: every check, one line each, and a last line that counts them.

mod cargo;
mod counts;
mod layers;
mod new_op;
mod outcome;
mod packages;
mod progress;
mod ptxas;
mod snapshots;
mod steps;

use std::process::ExitCode;
use std::time::Instant;

use anyhow::Result;

use crate::workspace;
use outcome::{Outcome, Tally};
use progress::Progress;

/// What the steps of one run share.
struct Run {
    root: std::path::PathBuf,
    packages: cargo::Packages,
    /// Whether a machine without a GPU is a failure.
    gpu: bool,
    /// Whether the unit and law tests passed: only then the list of snapshots they read is complete.
    tests_passed: bool,
}

/// One check.
struct Step {
    name: &'static str,
    check: fn(&mut Run, &Progress) -> Result<Outcome>,
}

/// Runs every step whose name contains `only`, whether or not an earlier one failed.
pub(crate) fn task(gpu: bool, only: Option<&str>) -> Result<ExitCode> {
    let root = workspace::root()?;
    let packages = cargo::packages(&root)?;
    let mut run = Run {
        root,
        packages,
        gpu,
        tests_passed: false,
    };
    let mut tally = Tally::default();
    let wanted = |step: &&Step| only.is_none_or(|only| step.name.contains(only));
    for step in steps::ALL.iter().filter(wanted) {
        let outcome = timed(step, &mut run);
        tally.add(&outcome);
    }
    if tally.passed + tally.failed + tally.skipped == 0 {
        anyhow::bail!(
            "no step has a name with `{}` in it",
            only.unwrap_or_default()
        );
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
    let started = Instant::now();
    let progress = Progress::new(step.name);
    let outcome = (step.check)(run, &progress)
        .unwrap_or_else(|error| Outcome::failed("could not run", format!("{error:#}")));
    progress.finish();
    outcome.print(step.name, started.elapsed());
    outcome
}
