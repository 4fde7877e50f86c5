//! The tasks as programs start them: the verdict as data, the exit codes, and a reader that closes the pipe.

use std::process::{Command, Output, Stdio};

use anyhow::{Context, Result};
use serde_json::Value;

use super::Run;
use super::outcome::Outcome;
use super::progress::Progress;

/// A task that takes seconds without a GPU, and how it ends there.
struct Started {
    words: &'static str,
    code: i32,
    verdict: &'static str,
    /// Whether it writes no text for a reader before its end, and so does not meet a closed pipe.
    is_silent: bool,
}

const fn ends(words: &'static str, code: i32, verdict: &'static str) -> Started {
    Started {
        words,
        code,
        verdict,
        is_silent: false,
    }
}

/// A task that cannot do its work says so on standard error alone.
const fn cannot_run(words: &'static str) -> Started {
    Started {
        is_silent: true,
        ..ends(words, 4, "could not run")
    }
}

const STARTED: &[Started] = &[
    ends("golden xtask/golden/reject.jsonl.gz", 0, "passed"),
    ends("gpu atoms --simulator --every 1500 --seed 1", 0, "passed"),
    ends("gpu kernels --simulator --only maps", 0, "passed"),
    ends(
        "gpu plans --simulator --count 3 --problems 1 --seed 1",
        0,
        "passed",
    ),
    ends("gpu targets", 0, "passed"),
    cannot_run("golden no-such-file"),
    cannot_run("gpu kernels --simulator --only no-such-check"),
    cannot_run("bench no-such-bench"),
    cannot_run("examples no-such-example"),
];

/// The keys of a verdict.
const KEYS: [&str; 9] = [
    "checks", "command", "error", "failed", "format", "passed", "skipped", "subject", "verdict",
];

/// The keys of one of its checks.
const CHECK_KEYS: [&str; 6] = ["data", "diagnostics", "name", "seconds", "verdict", "what"];

pub(super) fn check(run: &mut Run, progress: &Progress) -> Result<Outcome> {
    let mut complaints = Vec::new();
    for started in STARTED {
        let words = started.words;
        progress.at(words);
        let as_data = start(run, &format!("{words} --json"), false)?;
        let found = wrong_verdict(started, &as_data);
        complaints.extend(found.map(|what| format!("{words} --json: {what}")));
        if !started.is_silent {
            let closed = start(run, words, true)?;
            complaints.extend(wrong_end(&closed).map(|what| format!("{words} | head -0: {what}")));
        }
    }
    // `verify` itself: one of its steps, which talks to it through a pipe.
    let closed = start(run, "verify --step format", true)?;
    complaints.extend(wrong_end(&closed).map(|what| format!("verify | head -0: {what}")));
    let usage = start(run, "golden --no-such-option", false)?;
    if usage.status.code() != Some(2) {
        complaints.push(format!(
            "an unknown option ends with {}, not 2",
            usage.status
        ));
    }
    let covered = format!(
        "{} tasks: verdicts, exit codes, closed pipes",
        STARTED.len() + 1
    );
    Ok(Outcome::of(STARTED.len(), covered, &complaints))
}

/// Starts a task in a process of its own; with `closed`, its reader is gone before it writes.
fn start(run: &Run, words: &str, closed: bool) -> Result<Output> {
    let program = std::env::current_exe().context("this program's own file is not known")?;
    let mut child = Command::new(program)
        .args(words.split(' '))
        .current_dir(&run.root)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()?;
    if closed {
        drop(child.stdout.take());
    }
    Ok(child.wait_with_output()?)
}

/// What is wrong with the end of a task whose reader was gone.
fn wrong_end(output: &Output) -> Option<String> {
    let said = String::from_utf8_lossy(&output.stderr);
    (output.status.code() != Some(141) || said.contains("panicked"))
        .then(|| format!("{}, and it says {said:?}", output.status))
}

/// What is wrong with a verdict.
fn wrong_verdict(started: &Started, output: &Output) -> Option<String> {
    let text = String::from_utf8_lossy(&output.stdout);
    let Ok(verdict) = serde_json::from_str::<Value>(&text) else {
        return Some(format!("{text:?} is not one JSON object"));
    };
    let keys = |value: &Value| -> Vec<String> {
        let mut keys: Vec<String> = value
            .as_object()
            .into_iter()
            .flatten()
            .map(|(key, _)| key.clone())
            .collect();
        keys.sort();
        keys
    };
    if keys(&verdict) != KEYS {
        return Some(format!("it has the keys {}", keys(&verdict).join(", ")));
    }
    let checks = verdict["checks"].as_array().into_iter().flatten();
    if let Some(check) = checks.clone().find(|check| keys(check) != CHECK_KEYS) {
        return Some(format!("a check has the keys {}", keys(check).join(", ")));
    }
    let has_checks = checks.count() > 0;
    let ended = (output.status.code(), verdict["verdict"].as_str());
    if ended != (Some(started.code), Some(started.verdict)) {
        return Some(format!("it ends with {ended:?}: {}", verdict["error"]));
    }
    (has_checks != (started.code == 0)).then(|| format!("{} checks", verdict["checks"]))
}
