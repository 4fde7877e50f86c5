//! `cargo xtask package`: every published crate as one command of cargo packages it, built from its packaged files.

use std::env;
use std::process::{Command, ExitCode};
use std::time::Instant;

use anyhow::{Context, Result};
use serde_json::Value;

use crate::verdict::{Checked, Ended};
use crate::{output, workspace};

/// Packages the crates that may be published, and says what cargo made of it.
pub(crate) fn task() -> Result<ExitCode> {
    let root = workspace::root()?;
    let cargo = env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let metadata = Command::new(&cargo)
        .args(["metadata", "--no-deps", "--format-version", "1"])
        .current_dir(&root)
        .output()
        .context("cargo cannot be started")?;
    let metadata: Value = serde_json::from_slice(&metadata.stdout).context("cargo metadata")?;
    let packages = metadata["packages"].as_array().into_iter().flatten();
    // `publish = false` is an empty list of registries.
    let is_published = |package: &&Value| {
        package["publish"]
            .as_array()
            .is_none_or(|list| !list.is_empty())
    };
    let names = packages
        .filter(is_published)
        .filter_map(|package| package["name"].as_str());
    let names: Vec<&str> = names.collect();
    let started = Instant::now();
    let mut command = Command::new(&cargo);
    command
        .args(["package", "--allow-dirty"])
        .current_dir(&root);
    for name in &names {
        command.args(["--package", name]);
    }
    let done = command.output().context("cargo cannot be started")?;
    let seconds = started.elapsed().as_secs_f64();
    let said = String::from_utf8_lossy(&done.stderr);
    let is_fine = done.status.success();
    let what = format!(
        "{} crates packaged together and built from their packages",
        names.len()
    );
    if is_fine {
        println!("{what} in {seconds:.0} s: {}", names.join(", "));
    } else {
        println!("{}", said.trim());
    }
    Checked {
        seconds: Some(seconds),
        ..Checked::new("cargo package", Ended::of(is_fine), what).complaining(if is_fine {
            ""
        } else {
            said.trim()
        })
    }
    .add();
    Ok(output::code(is_fine))
}
