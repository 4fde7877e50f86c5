//! The crates that run anywhere, built for `wasm32-unknown-unknown`.

use std::env;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result};

use super::outcome::Outcome;
use super::progress::Progress;
use super::{Run, cargo};

const TARGET: &str = "wasm32-unknown-unknown";

/// The crates that run anywhere: they need neither CUDA nor an operating system.
pub(super) const PORTABLE: [&str; 8] = [
    "colex-layout",
    "colex-draw",
    "colex-atom",
    "colex-tiled",
    "colex-sched",
    "colex-ir",
    "colex-sim",
    "colex-tensor",
];

/// Where the standard library for the target comes from.
#[derive(Debug, PartialEq)]
enum Std {
    /// The compiler has it.
    Built,
    /// The compiler has its source, which is built with the crates. That takes a compiler that thinks it is nightly.
    Source,
}

/// A compiler that can build for the target.
struct Compiler {
    program: OsString,
    std: Std,
}

/// Builds the portable crates, with rustc's own standard library for the target, or from its source with the compiler
/// that `WASM_RUSTC` names; says that it skips them where there is neither.
pub(super) fn check(run: &mut Run, progress: &Progress) -> Result<Outcome> {
    let names: Vec<&str> = PORTABLE
        .into_iter()
        .filter(|name| run.packages.has(name))
        .collect();
    let Some(compiler) = compiler()? else {
        let why = format!("rustc has no std for {TARGET} (rustup target add {TARGET})");
        return Ok(Outcome::skipped(why));
    };
    let mut command = cargo::command(&run.root, &["build", "--target", TARGET]);
    // Apart from the other builds, which another compiler would make anew.
    command
        .arg("--target-dir")
        .arg(run.packages.target_folder.join("wasm"));
    command.env("RUSTC", &compiler.program);
    for name in &names {
        // Nothing of it is run.
        command.args(["--package", name, "--config"]);
        command.arg(format!("profile.dev.package.{name}.opt-level=0"));
    }
    if compiler.std == Std::Source {
        // No features: what prints backtraces there takes a third of the time.
        command
            .args(["-Zbuild-std=std,panic_abort", "-Zbuild-std-features="])
            .env("RUSTC_BOOTSTRAP", "1");
    }
    let done = cargo::run(command, progress)?;
    let how = match compiler.std {
        Std::Built => "",
        Std::Source => ", and std from its source",
    };
    let covered = format!("{} crates for {TARGET}{how}", names.len());
    Ok(done.judged(covered))
}

/// rustc if it has the target, else what `WASM_RUSTC` names.
fn compiler() -> Result<Option<Compiler>> {
    let rustc = env::var_os("RUSTC").unwrap_or_else(|| "rustc".into());
    if has_std(&asked(
        &rustc,
        &["--print", "target-libdir", "--target", TARGET],
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
    anyhow::ensure!(
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
