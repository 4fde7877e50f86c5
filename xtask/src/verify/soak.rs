//! `cargo xtask soak`: the laws of kernels over several times as many random cases as `verify` draws, the laws of layouts over all of
//! their cases, and all kernels before the assembler.

use std::env;
use std::process::{Command, ExitCode, Stdio};
use std::time::Instant;

use anyhow::{Context, Result};

use super::cargo;
use super::outcome::Outcome;
use super::outcome::counts::Counts;
use crate::{output, workspace};

/// What runs: the tests of kernels and ranks on the simulator, which draw as many times as many cases as `COLEX_SOAK` says, and the
/// laws of layouts and tiled operations, all of whose cases `COLEX_LAWS` asks for.
const TESTS: &str = "test --workspace --all-features --test proof --test laws --test tiled --test ranks -- --show-output";

/// The step of `verify` that assembles a part of the kernels.
const KERNELS: &str = "ptxas, kernels";

/// Runs the tests with `factor` times as many draws, and prints how much each law walked; then all kernels go before the assembler.
pub(crate) fn task(factor: u32) -> Result<ExitCode> {
    let mut command = cargo::command(&workspace::root()?, TESTS);
    command
        .env("COLEX_SOAK", factor.to_string())
        .env("COLEX_LAWS", "all");
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
    let program = env::current_exe().context("this program's own file is not known")?;
    let assembled = Command::new(program)
        .args(["verify", "--only", KERNELS])
        .env("COLEX_SOAK", factor.max(2).to_string())
        .stderr(Stdio::inherit())
        .output()
        .context("the kernels cannot be assembled")?;
    println!("{}", String::from_utf8_lossy(&assembled.stdout).trim_end());
    let is_right = matches!(outcome, Outcome::Ok { .. }) && assembled.status.success();
    Ok(output::code(is_right))
}
