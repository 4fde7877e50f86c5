//! The unit and law tests: cargo builds them all, then as many binaries as there are cores run at a time, so that a
//! long test of one does not hold up the next.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Sender, channel};
use std::time::Instant;
use std::{fs, thread};

use anyhow::{Context, Result};
use serde::{Deserialize, Serialize};
use serde_json::Value as Json;

use super::cargo::{self, Finished};
use super::outcome::Outcome;
use super::outcome::counts::Counts;
use super::progress::Progress;
use super::{Run, snapshots, times};
use crate::workspace::{self, read};

/// The binaries that take longest, of `tests-seconds.json`: they start first, in this order.
const LONGEST: [&str; 10] = [
    "proof proof",
    "layout laws",
    "gpu ranks",
    "tiled tiled",
    "sim sim",
    "gpu colex_gpu",
    "gpu fake_driver",
    "tensor tensor",
    "xtask xtask",
    "gpu mutants",
];

/// A binary of tests, as cargo has built it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct Binary {
    /// Its package and its target: `colex-gpu mutants`.
    name: String,
    program: PathBuf,
    manifest: PathBuf,
}

/// What a run of one binary came to.
struct Tested {
    finished: Finished,
    seconds: f64,
}

pub(super) fn build(run: &mut Run, progress: &Progress) -> Result<Outcome> {
    let words = "test --no-run --workspace --all-features --lib --bins --tests --message-format json-render-diagnostics";
    let done = cargo::run(cargo::command(&run.root, words), progress)?;
    let binaries: Vec<Binary> = done.stdout.lines().filter_map(binary).collect();
    let covered = format!("{} binaries", binaries.len());
    let untested = untested(&run.root, &run.packages.all)?;
    if !untested.is_empty() {
        return Ok(Outcome::failed(covered, untested.join("\n")));
    }
    if !done.ok || binaries.is_empty() {
        let said: Vec<&str> = done
            .all
            .lines()
            .filter(|line| !cargo::is_message(line))
            .collect();
        return Ok(Outcome::failed(covered, said.join("\n")));
    }
    fs::write(list(run), serde_json::to_string(&binaries)?)?;
    Ok(Outcome::ok(covered))
}

/// Tests in the sources of libraries whose manifest says that they have none.
fn untested(root: &Path, packages: &[Json]) -> Result<Vec<String>> {
    let mut complaints = Vec::new();
    let targets = packages.iter().filter_map(|one| one["targets"].as_array());
    let is_untested = |target: &&Json| target["test"] == false && target["kind"][0] == "lib";
    for library in targets.flatten().filter(is_untested) {
        let source = library["src_path"].as_str().map(Path::new);
        let Some(folder) = source.and_then(Path::parent) else {
            continue;
        };
        for path in workspace::files(folder, ".rs")? {
            if read(&path)?.contains("#[test]") {
                let shown = workspace::shown(root, &path);
                complaints.push(format!(
                    "{shown} has tests, and its `[lib]` says `test = false`: they never run"
                ));
            }
        }
    }
    Ok(complaints)
}

/// Where the binaries are listed.
fn list(run: &Run) -> PathBuf {
    times::folder(run).join("tests.json")
}

/// The binary that a message of cargo names.
fn binary(message: &str) -> Option<Binary> {
    let message: Json = serde_json::from_str(message).ok()?;
    let program = message["executable"].as_str()?;
    let manifest = PathBuf::from(message["manifest_path"].as_str()?);
    let folder = manifest.parent()?.file_name()?.to_string_lossy();
    let target = message["target"]["name"].as_str()?;
    (message["profile"]["test"] == true).then(|| Binary {
        name: format!("{folder} {target}"),
        program: program.into(),
        manifest: manifest.clone(),
    })
}

pub(super) fn check(run: &mut Run, progress: &Progress) -> Result<Outcome> {
    let mut binaries: Vec<Binary> = serde_json::from_str(&read(&list(run))?)?;
    let place = |binary: &Binary| LONGEST.iter().position(|name| *name == binary.name);
    binaries.sort_by_key(|binary| place(binary).unwrap_or(LONGEST.len()));
    let watched = snapshots::watch(run)?;
    let cores = thread::available_parallelism().map_or(1, usize::from);
    let next = AtomicUsize::new(0);
    let tested: Mutex<BTreeMap<&str, Tested>> = Mutex::default();
    let (said, lines) = channel();
    let work = |said: Sender<String>| -> Result<()> {
        while let Some(binary) = binaries.get(next.fetch_add(1, Ordering::Relaxed)) {
            let mut command = command(binary)?;
            command.envs(watched.iter().map(|(name, value)| (name, value)));
            let started = Instant::now();
            let finished = cargo::run_with(command, |line| {
                // The receiver is gone once another binary could not be started.
                drop(said.send(format!("{}: {line}", binary.name)));
            })?;
            let seconds = started.elapsed().as_secs_f64();
            let mut tested = tested.lock().expect("no worker panics");
            tested.insert(&binary.name, Tested { finished, seconds });
        }
        Ok(())
    };
    thread::scope(|scope| {
        let work = &work;
        let workers: Vec<_> = (0..cores)
            .map(|_| {
                let said = said.clone();
                scope.spawn(move || work(said))
            })
            .collect();
        drop(said);
        lines.iter().for_each(|line| progress.at(&line));
        let ended = workers.into_iter().map(|worker| worker.join());
        ended
            .map(|ended| ended.expect("no worker panics"))
            .collect::<Result<Vec<()>>>()
    })?;
    let tested = tested.into_inner().expect("no worker panics");
    keep(run, &tested)?;
    let outcome = judge(run, tested);
    if let Outcome::Ok { .. } = outcome {
        snapshots::passed(run)?;
    }
    Ok(outcome)
}

/// Runs the tests of a binary as `cargo test` runs them: from the folder of its package.
fn command(binary: &Binary) -> Result<Command> {
    let folder = binary.manifest.parent();
    let folder = folder.context("a manifest is in a folder")?;
    let mut command = Command::new(&binary.program);
    command
        .arg("--show-output")
        .current_dir(folder)
        .env("CARGO_MANIFEST_DIR", folder)
        .stdin(Stdio::null());
    Ok(command)
}

/// Writes what each binary took, by the clock.
fn keep(run: &Run, tested: &BTreeMap<&str, Tested>) -> Result<()> {
    let seconds: BTreeMap<_, _> = tested
        .iter()
        .map(|(name, tested)| (name, (tested.seconds * 10.0).round() / 10.0))
        .collect();
    let file = times::folder(run).join("tests-seconds.json");
    fs::write(&file, serde_json::to_string_pretty(&seconds)?)
        .with_context(|| format!("{} cannot be written", file.display()))
}

/// The outcome of all binaries together.
fn judge(run: &mut Run, tested: BTreeMap<&str, Tested>) -> Outcome {
    let mut stdout = String::new();
    let (mut failed, mut ok) = (String::new(), true);
    for (name, Tested { finished, .. }) in tested {
        stdout += &finished.stdout;
        if !finished.ok {
            ok = false;
            failed += &format!("{name} failed:\n{}", finished.all);
        }
    }
    let counts = Counts::read(&stdout);
    let laws = format!("{} laws over {} cases", counts.laws.len(), counts.cases());
    let covered = format!("{} tests, among them {laws}", counts.passed);
    run.counted("tests", counts.passed);
    run.counted("laws", laws);
    let all = failed;
    counts.judge(&Finished { ok, stdout, all }, covered)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tests_of_a_library_without_a_harness_are_refused() {
        let root = std::env::temp_dir().join(format!("colex-untested-{}", std::process::id()));
        fs::create_dir_all(root.join("src")).expect("it can be made");
        for (file, text) in [("lib.rs", "mod a;"), ("a.rs", "#[test]\nfn one() {}\n")] {
            fs::write(root.join("src").join(file), text).expect("it can be written");
        }
        let complaints = |kind: &str, test: bool| {
            let source = root.join("src/lib.rs");
            let target = serde_json::json!({"kind": [kind], "test": test, "src_path": source});
            untested(&root, &[serde_json::json!({"targets": [target]})]).expect("it can be read")
        };
        let found = [
            complaints("lib", false),
            complaints("lib", true),
            complaints("bin", false),
        ];
        fs::remove_dir_all(&root).expect("it was just made");
        let refused = "src/a.rs has tests, and its `[lib]` says `test = false`: they never run";
        assert_eq!(found, [vec![refused.to_string()], vec![], vec![]]);
    }

    #[test]
    fn a_binary_of_tests_is_read_from_a_message_of_cargo() {
        let message = |test: bool| {
            format!(
                r#"{{"reason":"compiler-artifact","manifest_path":"/r/gpu/Cargo.toml","target":{{"name":"mutants"}},"profile":{{"test":{test}}},"executable":"/t/mutants-1"}}"#
            )
        };
        let expected = Binary {
            name: "gpu mutants".to_string(),
            program: "/t/mutants-1".into(),
            manifest: "/r/gpu/Cargo.toml".into(),
        };
        assert_eq!(binary(&message(true)), Some(expected));
        assert_eq!(binary(&message(false)), None, "a program of no tests");
        assert_eq!(binary(r#"{"reason":"build-finished"}"#), None);
    }
}
