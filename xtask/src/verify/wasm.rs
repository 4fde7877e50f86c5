//! The crates that run anywhere, built for `wasm32-unknown-unknown`.

use anyhow::Result;

use super::outcome::Outcome;
use super::progress::Progress;
use super::{Run, cargo};
use crate::book::explorer::{self, TARGET};
use crate::platforms::{Compiler, Std};

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

/// Builds the portable crates and the explorer's module, with rustc's own standard library for the target, or from its
/// source with the compiler that `WASM_RUSTC` names; says that it skips them where there is neither.
pub(super) fn check(run: &mut Run, progress: &Progress) -> Result<Outcome> {
    let names: Vec<&str> = PORTABLE
        .into_iter()
        .filter(|name| run.packages.has(name))
        .collect();
    let Some(compiler) = Compiler::find(TARGET)? else {
        let why = format!("rustc has no std for {TARGET} (rustup target add {TARGET})");
        return Ok(Outcome::skipped(why));
    };
    let mut command = cargo::command(&run.root, "build --package colex-explorer");
    // In one profile, so that std is built once, and the crates that the module has in it as well.
    explorer::configure(&mut command, &compiler)?;
    // Apart from the other builds, which another compiler would make anew.
    command
        .arg("--target-dir")
        .arg(run.packages.target_folder.join("wasm"));
    for name in &names {
        command.args(["--package", name]);
    }
    let done = cargo::run(command, progress)?;
    let how = match compiler.std {
        Std::Built => "",
        Std::Source => ", and std from its source",
    };
    let covered = format!(
        "{} crates and the explorer's module for {TARGET}{how}",
        names.len()
    );
    Ok(done.judged(covered))
}
