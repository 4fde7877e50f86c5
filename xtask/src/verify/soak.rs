//! `cargo xtask soak`: the laws of kernels over several times as many random cases as `verify` draws.

use std::process::ExitCode;
use std::time::Instant;

use anyhow::Result;

use super::cargo;
use super::outcome::Outcome;
use super::outcome::counts::Counts;
use crate::{output, workspace};

/// The laws on the simulator, whose draws `colex_proof::soak` counts.
const LAWS: &str = "test --workspace --all-features --test proof -- law --show-output";

/// Runs the laws with `factor` times as many draws, and prints how much each walked.
pub(crate) fn task(factor: u32) -> Result<ExitCode> {
    let mut command = cargo::command(&workspace::root()?, LAWS);
    command.env("COLEX_SOAK", factor.to_string());
    let started = Instant::now();
    let done = cargo::run_with(command, |line| println!("{line}"))?;
    let counts = Counts::read(&done.stdout);
    let covered = format!(
        "{} tests with {factor} times as many draws, among them {} laws over {} cases",
        counts.passed,
        counts.laws.len(),
        counts.cases()
    );
    let outcome = counts.judge(&done, covered);
    println!("{}", outcome.text("soak", started.elapsed()));
    let seconds = started.elapsed().as_secs_f64();
    outcome.check("soak", seconds, &[]).add();
    Ok(output::code(matches!(outcome, Outcome::Ok { .. })))
}
