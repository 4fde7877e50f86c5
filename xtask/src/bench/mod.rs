//! `cargo xtask bench [NAME]`: medians of many batches, with the machine and the protocol they were taken by.
//!
//! To add a group: write `bench/NAME.rs` with `fn run()`, one [`measure::call`] a row, and add it to [`GROUPS`].

mod host;
mod layout;
mod measure;

use std::env;
use std::process::{Command, ExitCode};

use anyhow::{Context, Result, bail};

/// Every group of benches.
const GROUPS: &[(&str, fn())] = &[("layout", layout::run)];

/// Measures the group `name`, or all of them. A build without optimisation hands over to one with it.
pub(crate) fn task(name: Option<&str>) -> Result<ExitCode> {
    let groups: Vec<_> = GROUPS
        .iter()
        .filter(|(group, _)| name.is_none_or(|name| name == *group))
        .collect();
    if groups.is_empty() {
        let names: Vec<&str> = GROUPS.iter().map(|(group, _)| *group).collect();
        bail!(
            "there is no bench `{}`; there are: {}",
            name.unwrap_or_default(),
            names.join(", ")
        );
    }
    if cfg!(debug_assertions) {
        return optimised(name);
    }
    println!("{}", host::description());
    println!("{}", measure::PROTOCOL);
    for (group, run) in groups {
        println!("\n{group}");
        run();
    }
    Ok(ExitCode::SUCCESS)
}

/// Runs this task in a release build, which leaves out the tasks that no bench needs.
fn optimised(name: Option<&str>) -> Result<ExitCode> {
    let cargo = env::var_os("CARGO")
        .context("this build is not optimised, and only cargo can make one that is")?;
    let status = Command::new(cargo)
        .args([
            "run",
            "--release",
            "--package",
            "xtask",
            "--no-default-features",
            "--",
            "bench",
        ])
        .args(name)
        .status()
        .context("cargo cannot be started")?;
    Ok(if status.success() {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    })
}
