//! `cargo xtask examples`: programs outside of the workspace, each resolved and checked as a user's program would be.
//!
//! A program whose packages cannot be downloaded is skipped, and said to be: a machine without a network checks nothing
//! of it. A lock file that does not fit the manifest is a failure everywhere.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};
use std::time::Instant;

use anyhow::{Context, Result, bail, ensure};

use crate::workspace;

/// The version of CUDA that `cudarc`'s build takes where no toolkit says one: 13.0.
const CUDA_VERSION: &str = "13000";

/// Checks the programs, or the one of that name.
pub(crate) fn task(name: Option<&str>) -> Result<ExitCode> {
    let root = workspace::root()?;
    let folder = root.join("examples");
    let programs = programs(&folder)?;
    let chosen: Vec<&PathBuf> = programs
        .iter()
        .filter(|program| name.is_none_or(|name| program.ends_with(name)))
        .collect();
    if chosen.is_empty() {
        let names: Vec<_> = programs
            .iter()
            .filter_map(|program| program.file_name())
            .collect();
        let names: Vec<_> = names.iter().map(|name| name.to_string_lossy()).collect();
        bail!(
            "there is no example {}: there are {}",
            name.unwrap_or_default(),
            names.join(", ")
        );
    }
    // A folder beside that of the workspace: each program chooses the features of its dependencies by itself.
    let target = std::env::var_os("CARGO_TARGET_DIR").unwrap_or("target".into());
    let target = root.join(target).join("examples");
    let (mut failed, mut skipped) = (0, 0);
    for program in &chosen {
        let name = program.file_name().unwrap_or_default().to_string_lossy();
        let started = Instant::now();
        let remark = match check(program, &target) {
            Ok(Inspected::Passed(remark)) => remark,
            Ok(Inspected::Skipped(why)) => {
                skipped += 1;
                format!("SKIPPED: {why}")
            }
            Err(error) => {
                failed += 1;
                format!("FAILED: {error:#}")
            }
        };
        println!("{name:<16} {:>4} s  {remark}", started.elapsed().as_secs());
    }
    let passed = chosen.len() - failed - skipped;
    println!("examples: {passed} passed, {failed} failed, {skipped} skipped");
    Ok(if failed == 0 {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    })
}

/// The folders that hold a program, by name.
fn programs(folder: &Path) -> Result<Vec<PathBuf>> {
    let entries =
        fs::read_dir(folder).with_context(|| format!("{} cannot be read", folder.display()))?;
    let mut programs = Vec::new();
    for entry in entries {
        let path = entry?.path();
        if path.join("Cargo.toml").is_file() {
            programs.push(path);
        }
    }
    programs.sort();
    ensure!(
        !programs.is_empty(),
        "{} holds no program",
        folder.display()
    );
    Ok(programs)
}

/// How the check of a program ended, if it did not fail.
enum Inspected {
    /// What was seen.
    Passed(String),
    /// Why nothing was seen.
    Skipped(String),
}

/// Returns a command of cargo in the folder of a program.
fn cargo(program: &Path, arguments: &[&str]) -> Command {
    let mut cargo = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    cargo.args(arguments).current_dir(program);
    cargo
}

/// Downloads the packages of a program. Returns why they cannot be had, if that is so.
///
/// # Errors
///
/// Returns an error if the lock file does not fit the manifest.
fn missing_packages(program: &Path) -> Result<Option<String>> {
    let output = cargo(program, &["fetch", "--locked", "--quiet"]).output();
    let output = output.context("cargo cannot be started")?;
    if output.status.success() {
        return Ok(None);
    }
    let said = String::from_utf8_lossy(&output.stderr).trim().to_string();
    // A lock file that does not fit is the repository's own mistake; anything else is the network's.
    ensure!(!said.contains("--locked"), "{said}");
    Ok(Some(
        said.lines().last().unwrap_or_default().trim().to_string(),
    ))
}

/// Checks one program with the versions of its lock file, and runs it where nothing has to be linked with CUDA.
fn check(program: &Path, target: &Path) -> Result<Inspected> {
    if let Some(why) = missing_packages(program)? {
        return Ok(Inspected::Skipped(format!(
            "its packages cannot be downloaded: {why}"
        )));
    }
    let manifest = fs::read_to_string(program.join("Cargo.toml"))?;
    let needs_nvcc = manifest.contains("candle-core");
    let links_cuda = needs_nvcc || manifest.contains("dynamic-linking");
    let mut remark = String::new();
    let mut path = std::env::var_os("PATH").unwrap_or_default();
    if needs_nvcc && !is_there("nvcc") {
        let stub = target.join("nvcc-stub");
        write_stub(&stub)?;
        let mut folders = vec![stub];
        folders.extend(std::env::split_paths(&path));
        path = std::env::join_paths(folders)?;
        remark.push_str(", candle's kernels by a stub of nvcc");
    }
    let task = if links_cuda { "check" } else { "run" };
    let mut cargo = cargo(program, &[task, "--locked", "--quiet"]);
    cargo.env("CARGO_TARGET_DIR", target).env("PATH", path);
    if needs_nvcc {
        // The other programs name a version by a feature, beside which the variable would add another.
        for (variable, value) in [
            ("CUDARC_CUDA_VERSION", CUDA_VERSION),
            ("CUDA_COMPUTE_CAP", "90"),
        ] {
            if std::env::var_os(variable).is_none() {
                cargo.env(variable, value);
            }
        }
    } else {
        cargo.env_remove("CUDARC_CUDA_VERSION");
    }
    let output = cargo.output().context("cargo cannot be started")?;
    let said = String::from_utf8_lossy(&output.stdout).trim().to_string();
    ensure!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr).trim()
    );
    Ok(Inspected::Passed(if links_cuda {
        format!("checked{remark}: to link it, CUDA's libraries are needed")
    } else {
        format!("ran{remark}: {said}")
    }))
}

/// Whether a program can be started.
fn is_there(program: &str) -> bool {
    Command::new(program)
        .arg("--version")
        .output()
        .is_ok_and(|output| output.status.success())
}

/// Writes an `nvcc` that writes what it is asked for, empty, and says the version that is assumed.
fn write_stub(folder: &Path) -> Result<()> {
    const SCRIPT: &str = r#"#!/bin/sh
# Stands for nvcc, so that Rust code that includes its output is checked: every output is an empty file.
for argument in "$@"; do
    case "$argument" in
        --version) echo "nvcc stub"; echo; echo; echo "Cuda compilation tools, release 13.0, V13.0.0" ;;
        --list-gpu-code) echo sm_90 ;;
    esac
done
while [ $# -gt 0 ]; do
    case "$1" in
        -o) : > "$2"; shift ;;
        --output-directory) output="$2"; shift ;;
        *.cu) input="$1" ;;
    esac
    shift
done
[ -z "$output" ] || : > "$output/$(basename "$input" .cu).ptx"
"#;
    fs::create_dir_all(folder)?;
    let path = folder.join("nvcc");
    fs::write(&path, SCRIPT)?;
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt;
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755))?;
    }
    Ok(())
}
