//! How a step ended, its line, and the count of all of them.

pub(super) mod counts;
pub(super) mod report;

use std::fmt;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::verdict::{Checked, Ended};

/// How a step ended. What was covered is a phrase with its counts: `17656 cases of 118 ops`.
#[derive(Debug, PartialEq, Serialize, Deserialize)]
pub(crate) enum Outcome {
    /// It ran and found nothing wrong.
    Ok {
        /// What was covered.
        covered: String,
    },
    /// It found something, or could not run.
    Failed {
        /// What was covered.
        covered: String,
        /// What the tool said.
        output: String,
    },
    /// It did not run, and why.
    Skipped {
        /// The reason.
        why: String,
    },
}

impl Outcome {
    pub(crate) fn ok(covered: impl Into<String>) -> Outcome {
        Outcome::Ok {
            covered: covered.into(),
        }
    }

    pub(crate) fn failed(covered: impl Into<String>, output: impl Into<String>) -> Outcome {
        Outcome::Failed {
            covered: covered.into(),
            output: output.into(),
        }
    }

    /// The outcome of a check that found `complaints` in `count` things. Nothing found in nothing is no success.
    pub(crate) fn of(
        count: usize,
        covered: impl Into<String>,
        complaints: &[impl AsRef<str>],
    ) -> Outcome {
        let lines: Vec<&str> = complaints.iter().map(AsRef::as_ref).collect();
        match (count, lines.as_slice()) {
            (0, []) => Outcome::failed(covered, "there was nothing to check"),
            (_, []) => Outcome::ok(covered),
            (_, lines) => Outcome::failed(covered, lines.join("\n")),
        }
    }

    pub(crate) fn skipped(why: impl Into<String>) -> Outcome {
        Outcome::Skipped { why: why.into() }
    }

    /// The step's line: name, what was covered, seconds, verdict.
    pub(crate) fn line(&self, name: &str, took: Duration) -> String {
        let (covered, verdict) = match self {
            Outcome::Ok { covered } => (covered.as_str(), "ok".to_string()),
            Outcome::Failed { covered, .. } => (covered.as_str(), "FAILED".to_string()),
            Outcome::Skipped { why } => ("nothing", format!("skipped: {why}")),
        };
        format!(
            "{name:<20} {covered:<72} {:>6.1} s  {verdict}",
            took.as_secs_f64()
        )
    }

    /// The line, and below it, indented, what a failing tool said.
    pub(crate) fn text(&self, name: &str, took: Duration) -> String {
        let mut text = self.line(name, took);
        if let Outcome::Failed { output, .. } = self {
            output
                .lines()
                .for_each(|line| text += &format!("\n    {line}"));
        }
        text
    }

    /// The step in the verdict of the run, with what it counted.
    pub(crate) fn check(&self, name: &str, seconds: f64, counts: &[(String, String)]) -> Checked {
        let check = match self {
            Outcome::Ok { covered } => Checked::new(name, Ended::Passed, covered),
            Outcome::Failed { covered, output } => {
                Checked::new(name, Ended::Failed, covered).complaining(output)
            }
            Outcome::Skipped { why } => Checked::new(name, Ended::Skipped, why),
        };
        let counts = counts
            .iter()
            .map(|(name, count)| (name.clone(), count.as_str().into()));
        Checked {
            seconds: Some(seconds),
            data: serde_json::Value::Object(counts.collect()),
            ..check
        }
    }

    pub(crate) fn is_skipped(&self) -> bool {
        matches!(self, Outcome::Skipped { .. })
    }
}

/// How many steps ended in which way.
#[derive(Default)]
pub(crate) struct Tally {
    pub(crate) passed: usize,
    pub(crate) failed: usize,
    pub(crate) skipped: usize,
}

impl Tally {
    pub(crate) fn add(&mut self, outcome: &Outcome) {
        match outcome {
            Outcome::Ok { .. } => self.passed += 1,
            Outcome::Failed { .. } => self.failed += 1,
            Outcome::Skipped { .. } => self.skipped += 1,
        }
    }
}

/// The closing line, which CI reads: `N passed, N failed, N skipped`.
impl fmt::Display for Tally {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} passed, {} failed, {} skipped",
            self.passed, self.failed, self.skipped
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_closing_line_counts_every_kind() {
        let mut tally = Tally::default();
        for outcome in [
            Outcome::ok("a"),
            Outcome::ok("b"),
            Outcome::failed("c", "d"),
            Outcome::skipped("e"),
        ] {
            tally.add(&outcome);
        }
        assert_eq!(tally.to_string(), "2 passed, 1 failed, 1 skipped");
    }

    #[test]
    fn nothing_found_in_nothing_is_no_success() {
        let none: [&str; 0] = [];
        assert_eq!(Outcome::of(2, "2 files", &none), Outcome::ok("2 files"));
        assert_eq!(
            Outcome::of(0, "0 files", &none),
            Outcome::failed("0 files", "there was nothing to check")
        );
        assert_eq!(
            Outcome::of(2, "2 files", &["a", "b"]),
            Outcome::failed("2 files", "a\nb")
        );
    }

    #[test]
    fn a_skipped_step_never_reads_as_passed() {
        let line = Outcome::skipped("the tests failed first").line("snapshots", Duration::ZERO);
        assert!(line.ends_with("skipped: the tests failed first"), "{line}");
    }
}
