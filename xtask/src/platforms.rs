//! `cargo xtask platforms`: the library checked for Windows and for Linux on ARM, and the compilers that can do so.

use std::env;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};
use std::time::Instant;

use anyhow::{Context, Result, ensure};

use crate::verdict::{Checked, Ended};
use crate::{output, workspace};

/// The platforms beside this one, of which nothing is run.
const PLATFORMS: [&str; 2] = ["x86_64-pc-windows-gnu", "aarch64-unknown-linux-gnu"];

/// Where the standard library for a target comes from.
#[derive(Debug, PartialEq)]
pub(crate) enum Std {
    /// The compiler has it.
    Built,
    /// The compiler has its source, which is built with the crates. That takes a compiler that thinks it is nightly.
    Source,
}

/// A compiler that can build for a target.
pub(crate) struct Compiler {
    program: OsString,
    pub(crate) std: Std,
}

impl Compiler {
    /// rustc if it has the target, else what `WASM_RUSTC` names.
    ///
    /// # Errors
    ///
    /// Returns an error if a compiler cannot be started, or if the one named has no source of std.
    pub(crate) fn find(target: &str) -> Result<Option<Compiler>> {
        let rustc = env::var_os("RUSTC").unwrap_or_else(|| "rustc".into());
        if has_std(&asked(
            &rustc,
            &["--print", "target-libdir", "--target", target],
        )?) {
            return Ok(Some(Compiler {
                program: rustc,
                std: Std::Built,
            }));
        }
        let Some(program) = env::var_os("WASM_RUSTC") else {
            return Ok(None);
        };
        let sysroot = asked(&program, &["--print", "sysroot"])?;
        let source = sysroot.join("lib/rustlib/src/rust/library/std/Cargo.toml");
        ensure!(
            source.is_file(),
            "WASM_RUSTC={}: there is no {}",
            program.display(),
            source.display()
        );
        Ok(Some(Compiler {
            program,
            std: Std::Source,
        }))
    }

    /// Makes a command of cargo use this compiler, and build std where it has only the source.
    pub(crate) fn prepare(&self, command: &mut Command) {
        command.env("RUSTC", &self.program);
        if self.std == Std::Source {
            // No features: what prints backtraces there takes a third of the time.
            command
                .args(["-Zbuild-std=std,panic_abort", "-Zbuild-std-features="])
                .env("RUSTC_BOOTSTRAP", "1");
        }
    }
}

/// Checks `colex-gpu`, and with it every crate below, for each platform.
pub(crate) fn task() -> Result<ExitCode> {
    let root = workspace::root()?;
    let mut is_fine = true;
    for target in PLATFORMS {
        let started = Instant::now();
        let ended = check(&root, target)?;
        let seconds = started.elapsed().as_secs_f64();
        let (ended, what) = match ended {
            None => (
                Ended::Skipped,
                format!(
                    "rustc has no std for it (rustup target add {target}), and nothing here builds one"
                ),
            ),
            Some(Ok(())) => (
                Ended::Passed,
                "the published crates are checked".to_string(),
            ),
            Some(Err(said)) => (Ended::Failed, said),
        };
        is_fine &= ended != Ended::Failed;
        println!("{target:<28} {seconds:>6.1} s  {what}");
        let what_is_wrong = if ended == Ended::Failed {
            &what[..]
        } else {
            ""
        };
        Checked {
            seconds: Some(seconds),
            ..Checked::new(target, ended, &what).complaining(what_is_wrong)
        }
        .add();
    }
    Ok(output::code(is_fine))
}

/// Whether the import libraries of Windows can be made, which std for it needs.
fn has_dlltool() -> bool {
    Command::new("x86_64-w64-mingw32-dlltool")
        .arg("--version")
        .output()
        .is_ok()
}

/// What cargo says of the crates for a target; `None` where no compiler has it.
fn check(root: &Path, target: &str) -> Result<Option<Result<(), String>>> {
    let Some(compiler) = Compiler::find(target)? else {
        return Ok(None);
    };
    if compiler.std == Std::Source && target.contains("windows") && !has_dlltool() {
        return Ok(None);
    }
    let mut cargo = Command::new(env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    cargo
        .args("check --quiet --package colex-gpu --all-features --target".split(' '))
        .arg(target)
        .arg("--target-dir")
        .arg(root.join("target/platforms"))
        .current_dir(root);
    compiler.prepare(&mut cargo);
    let output = cargo.output().context("cargo cannot be started")?;
    Ok(Some(if output.status.success() {
        Ok(())
    } else {
        Err(String::from_utf8_lossy(&output.stderr).trim().to_string())
    }))
}

/// A path that a compiler says.
fn asked(program: &OsString, arguments: &[&str]) -> Result<PathBuf> {
    let output = Command::new(program).args(arguments).output();
    let output = output.with_context(|| format!("{} cannot be started", program.display()))?;
    Ok(PathBuf::from(
        String::from_utf8_lossy(&output.stdout).trim(),
    ))
}

/// Whether a folder of libraries holds std: rustc names the folder whether or not it is there.
fn has_std(folder: &Path) -> bool {
    let entries = folder.read_dir().into_iter().flatten().flatten();
    let mut names = entries.map(|entry| entry.file_name());
    names.any(|name| name.to_string_lossy().starts_with("libstd-"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_host_has_std_and_a_folder_that_is_not_there_has_none() {
        let rustc = env::var_os("RUSTC").unwrap_or_else(|| "rustc".into());
        assert!(has_std(
            &asked(&rustc, &["--print", "target-libdir"]).unwrap()
        ));
        assert!(!has_std(Path::new("no such folder")));
    }
}
