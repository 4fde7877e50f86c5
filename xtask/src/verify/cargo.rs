//! Running cargo: what it prints is read line by line, shown as progress, and kept for a failure.

use std::io::{BufRead, BufReader, Read};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::mpsc::{Sender, channel};
use std::thread;

use anyhow::{Context, Result, bail};

use super::outcome::{Outcome, counts};
use super::progress::Progress;

/// What cargo knows of the workspace.
pub(crate) struct Packages {
    /// What it says of each package.
    pub(crate) all: Vec<serde_json::Value>,
    /// How many targets (libraries, binaries, tests) they have together.
    pub(crate) targets: usize,
    /// Where cargo builds.
    pub(crate) target_folder: PathBuf,
}

/// What a finished cargo command printed.
pub(crate) struct Finished {
    /// Whether it exited with success.
    pub(crate) ok: bool,
    /// Standard output.
    pub(crate) stdout: String,
    /// Standard output and standard error, in the order in which the lines came.
    pub(crate) all: String,
}

impl Packages {
    /// Whether the workspace has a package of this name.
    pub(crate) fn has(&self, name: &str) -> bool {
        self.all.iter().any(|package| package["name"] == name)
    }

    /// Those that may be published: `publish = false` is an empty list of registries.
    pub(crate) fn published(&self) -> Vec<&serde_json::Value> {
        let packages = self.all.iter();
        packages
            .filter(|package| package["publish"].is_null())
            .collect()
    }
}

impl Finished {
    /// The outcome of a tool whose exit status says everything.
    pub(crate) fn judged(&self, covered: String) -> Outcome {
        if self.ok {
            Outcome::ok(covered)
        } else {
            Outcome::failed(covered, counts::without_noise(&self.all))
        }
    }
}

/// A cargo command in the repository's root, with the words after `cargo`.
pub(crate) fn command(root: &Path, words: &str) -> Command {
    let mut command = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    command
        .current_dir(root)
        .args(words.split(' '))
        .env("CARGO_TERM_COLOR", "never")
        .stdin(Stdio::null());
    command
}

/// Asks cargo about the workspace.
pub(crate) fn packages(root: &Path) -> Result<Packages> {
    let output = command(root, "metadata --no-deps --format-version 1")
        .output()
        .context("cargo cannot be started: verify needs the Rust toolchain")?;
    if !output.status.success() {
        bail!(
            "cargo metadata failed:\n{}",
            String::from_utf8_lossy(&output.stderr)
        );
    }
    let metadata: serde_json::Value = serde_json::from_slice(&output.stdout)?;
    let packages = metadata["packages"]
        .as_array()
        .context("cargo metadata lists no packages")?;
    let folder = metadata["target_directory"]
        .as_str()
        .context("cargo metadata names no target folder")?;
    Ok(Packages {
        all: packages.clone(),
        targets: packages
            .iter()
            .filter_map(|package| package["targets"].as_array())
            .map(Vec::len)
            .sum(),
        target_folder: PathBuf::from(folder),
    })
}

/// Runs a command to its end. Each line that it prints for readers is progress; what cargo says to programs is not.
pub(crate) fn run(command: Command, progress: &Progress) -> Result<Finished> {
    run_with(command, |line| {
        if !is_message(line) {
            progress.at(line);
        }
    })
}

/// Whether a line is one of cargo's messages to programs, as `--message-format` asks for them.
pub(crate) fn is_message(line: &str) -> bool {
    line.starts_with('{')
}

/// Runs a command to its end; `at` is given each line that it prints.
pub(crate) fn run_with(mut command: Command, mut at: impl FnMut(&str)) -> Result<Finished> {
    let mut child = command
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .with_context(|| format!("{} cannot be started", command.get_program().display()))?;
    let (send, lines) = channel();
    let stdout = child
        .stdout
        .take()
        .expect("the child's standard output is piped");
    let stderr = child
        .stderr
        .take()
        .expect("the child's standard error is piped");
    forward(stdout, true, send.clone());
    forward(stderr, false, send);
    let mut finished = Finished {
        ok: false,
        stdout: String::new(),
        all: String::new(),
    };
    for (from_stdout, line) in lines {
        at(&line);
        if from_stdout {
            finished.stdout += &format!("{line}\n");
        }
        finished.all += &format!("{line}\n");
    }
    finished.ok = child.wait()?.success();
    Ok(finished)
}

/// Sends the lines of `stream` on, marked with where they came from, until it ends.
fn forward(stream: impl Read + Send + 'static, is_stdout: bool, send: Sender<(bool, String)>) {
    thread::spawn(move || {
        for line in BufReader::new(stream).split(b'\n').map_while(Result::ok) {
            let line = String::from_utf8_lossy(&line).into_owned();
            if send.send((is_stdout, line)).is_err() {
                break;
            }
        }
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_to_programs_are_no_progress() {
        assert!(is_message(r#"{"reason":"compiler-message"}"#));
        assert!(!is_message("    Checking colex-ir v0.2.0"));
    }
}
