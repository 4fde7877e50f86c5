//! The verdict of a task as data: one shape for all of them, which CONTRIBUTING.md documents.
//!
//! A task adds a [`Checked`] for each thing that it looked at; [`of`] makes one JSON object of them.

use std::sync::{Mutex, PoisonError};

use serde_json::{Value, json};

/// The version of the shape. It changes where a key changes its meaning or is gone.
const FORMAT: u32 = 1;

/// How a check ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ended {
    Passed,
    Failed,
    Skipped,
}

impl Ended {
    pub(crate) fn of(is_fine: bool) -> Ended {
        if is_fine {
            Ended::Passed
        } else {
            Ended::Failed
        }
    }

    fn word(self) -> &'static str {
        match self {
            Ended::Passed => "passed",
            Ended::Failed => "failed",
            Ended::Skipped => "skipped",
        }
    }
}

/// One thing that a task looked at.
#[derive(Clone, Debug)]
pub(crate) struct Checked {
    pub(crate) name: String,
    pub(crate) ended: Ended,
    /// What was covered, with counts; of a skipped check, why.
    pub(crate) what: String,
    pub(crate) seconds: Option<f64>,
    /// What is wrong.
    pub(crate) diagnostics: Vec<Diagnostic>,
    /// Numbers of this check; null for none.
    pub(crate) data: Value,
}

impl Checked {
    pub(crate) fn new(name: impl Into<String>, ended: Ended, what: impl Into<String>) -> Checked {
        Checked {
            name: name.into(),
            ended,
            what: what.into(),
            seconds: None,
            diagnostics: Vec::new(),
            data: Value::Null,
        }
    }

    /// The same check with findings that a text tells.
    pub(crate) fn complaining(self, text: &str) -> Checked {
        Checked {
            diagnostics: read(text),
            ..self
        }
    }

    /// Adds the check to the verdict of this process.
    pub(crate) fn add(self) {
        locked().checks.push(self);
    }

    fn json(&self) -> Value {
        json!({
            "name": self.name, "verdict": self.ended.word(), "what": self.what, "seconds": self.seconds,
            "diagnostics": self.diagnostics.iter().map(Diagnostic::json).collect::<Vec<_>>(), "data": self.data,
        })
    }
}

/// One finding: a sentence, and the place in a source that it is about.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Diagnostic {
    pub(crate) sentence: String,
    pub(crate) file: Option<String>,
    pub(crate) line: Option<u32>,
    /// The thread and the instruction of a simulator's fault.
    pub(crate) thread: Option<String>,
    pub(crate) instruction: Option<String>,
}

impl Diagnostic {
    fn json(&self) -> Value {
        json!({
            "sentence": self.sentence, "file": self.file, "line": self.line, "thread": self.thread,
            "instruction": self.instruction,
        })
    }

    fn at(&mut self, (file, line): (&str, u32)) {
        self.file.get_or_insert_with(|| file.to_string());
        self.line.get_or_insert(line);
    }
}

/// What this process has looked at so far.
#[derive(Debug)]
struct Seen {
    subject: Option<String>,
    checks: Vec<Checked>,
}

static SEEN: Mutex<Seen> = Mutex::new(Seen {
    subject: None,
    checks: Vec::new(),
});

fn locked() -> std::sync::MutexGuard<'static, Seen> {
    SEEN.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Adds the checks of the verdict that another process of this program wrote.
pub(crate) fn adopt(said: &[u8]) -> anyhow::Result<()> {
    let said: Value = serde_json::from_slice(said)?;
    for check in said["checks"].as_array().into_iter().flatten() {
        let text = |key: &str| check[key].as_str().unwrap_or_default();
        let mut words = [Ended::Passed, Ended::Skipped].into_iter();
        let ended = words.find(|ended| ended.word() == text("verdict"));
        Checked {
            data: check["data"].clone(),
            ..Checked::new(text("name"), ended.unwrap_or(Ended::Failed), text("what"))
        }
        .add();
    }
    Ok(())
}

/// Says what was checked: a device with its driver, a file.
pub(crate) fn subject(what: impl Into<String>) {
    locked().subject = Some(what.into());
}

/// The verdict of the task that ended with success, or without it, or that could not run.
pub(crate) fn of(command: &str, ended: Result<bool, &anyhow::Error>) -> Value {
    let seen = locked();
    let count = |ended| {
        seen.checks
            .iter()
            .filter(|check| check.ended == ended)
            .count()
    };
    json!({
        "format": FORMAT,
        "command": command,
        "verdict": match ended {
            Ok(true) => "passed",
            Ok(false) => "failed",
            Err(_) => "could not run",
        },
        "error": ended.err().map(|error| format!("{error:#}")),
        "subject": seen.subject,
        "passed": count(Ended::Passed),
        "failed": count(Ended::Failed),
        "skipped": count(Ended::Skipped),
        "checks": seen.checks.iter().map(Checked::json).collect::<Vec<_>>(),
    })
}

/// The findings that a text tells: one for each line that is not a place, with the place that the line, or the one below
/// it, names.
///
/// It knows `FILE:LINE: sentence`, the arrows of rustc, the first line of a panic, and the place of a simulator's fault.
pub(crate) fn read(text: &str) -> Vec<Diagnostic> {
    let mut found: Vec<Diagnostic> = Vec::new();
    for line in text.lines().map(str::trim).filter(|line| !line.is_empty()) {
        if let (Some(last), Some(arrow)) = (found.last_mut(), line.strip_prefix("--> ")) {
            if let Some(at) = place(arrow) {
                last.at(at);
            }
            continue;
        }
        found.push(sentence(line));
    }
    found
}

fn sentence(line: &str) -> Diagnostic {
    let mut found = Diagnostic {
        sentence: line.to_string(),
        ..Diagnostic::default()
    };
    // `thread (3,0,0) of block (1,0,0), at `INSTRUCTION` (FILE:LINE): sentence`.
    if let Some((before, after)) = line.split_once(", at `")
        && let Some((instruction, after)) = after.split_once("` (")
        && let Some((at, _)) = after.split_once("): ")
        && let Some(thread) = before.rfind("thread (")
    {
        found.thread = Some(before[thread..].to_string());
        found.instruction = Some(instruction.to_string());
        place(at).into_iter().for_each(|at| found.at(at));
        return found;
    }
    let panicked = line.split_once("panicked at ").map(|(_, at)| at);
    place(panicked.unwrap_or(line))
        .into_iter()
        .for_each(|at| found.at(at));
    found
}

/// The file and the line that a text begins with: `src/a.rs:12:5: ..`.
fn place(text: &str) -> Option<(&str, u32)> {
    let (file, after) = text.split_once(':')?;
    let digits = after.split(|c: char| !c.is_ascii_digit()).next()?;
    let is_file = file.contains('.') && !file.contains(char::is_whitespace);
    Some((file, digits.parse().ok()?)).filter(|_| is_file)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(text: &str) -> Vec<(String, Option<String>, Option<u32>)> {
        let found = read(text).into_iter();
        found
            .map(|one| (one.sentence, one.file, one.line))
            .collect()
    }

    #[test]
    fn findings_have_their_places() {
        let text = "src/a.rs:12: `Device::bare` has no example\n\
            error: unused variable: `x`\n   --> gpu/src/b.rs:3:9\n\
            thread 'laws' panicked at layout/tests/c.rs:7:5:\n2 passed, 1 failed: see above\n";
        let at = |file: &str, line| (Some(file.to_string()), Some(line));
        let found = told(text);
        let places: Vec<_> = found
            .iter()
            .map(|(_, file, line)| (file.clone(), *line))
            .collect();
        assert_eq!(
            places,
            [
                at("src/a.rs", 12),
                at("gpu/src/b.rs", 3),
                at("layout/tests/c.rs", 7),
                (None, None)
            ]
        );
        assert_eq!(found[1].0, "error: unused variable: `x`");
    }

    #[test]
    fn a_fault_has_its_thread_and_its_instruction() {
        let text = "1 of 3 failed, the first: thread (3,0,0) of block (1,0,0), at `st.shared.u32 [%r2], %r1` \
            (gpu/src/copy/flat.rs:40): bytes 4 to 7 race";
        let found = read(text);
        assert_eq!(
            found[0].thread.as_deref(),
            Some("thread (3,0,0) of block (1,0,0)")
        );
        assert_eq!(
            found[0].instruction.as_deref(),
            Some("st.shared.u32 [%r2], %r1")
        );
        assert_eq!(
            (found[0].file.as_deref(), found[0].line),
            (Some("gpu/src/copy/flat.rs"), Some(40))
        );
    }
}
