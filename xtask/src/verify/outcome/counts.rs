//! What the output of `cargo test` says: how many tests ran, and how many cases the laws among them walked.
//!
//! A law test reports itself by printing one line, `law NAME: N cases` (or pairs, layouts, triples: any noun).
//! A law that reports 0 has checked nothing and is a failure.

use std::collections::BTreeMap;

use super::Outcome;
use crate::verify::cargo::Finished;

/// The counts read from one run of `cargo test`.
#[derive(Debug, Default, PartialEq)]
pub(crate) struct Counts {
    pub(crate) passed: u64,
    pub(crate) failed: u64,
    pub(crate) ignored: u64,
    /// Cases by law; a law that reports several times is summed.
    pub(crate) laws: BTreeMap<String, u64>,
}

impl Counts {
    /// Reads the `test result:` and `law` lines of `stdout`.
    pub(crate) fn read(stdout: &str) -> Counts {
        let mut counts = Counts::default();
        for line in stdout.lines() {
            if let Some(result) = line.strip_prefix("test result: ") {
                counts.passed += count_before(result, "passed");
                counts.failed += count_before(result, "failed");
                counts.ignored += count_before(result, "ignored");
            } else if let Some((name, cases)) = law(line) {
                *counts.laws.entry(name.to_string()).or_default() += cases;
            }
        }
        counts
    }

    /// Cases of all laws together.
    pub(crate) fn cases(&self) -> u64 {
        self.laws.values().sum()
    }

    /// The outcome of a run of tests: its exit status, and what its counts give away.
    pub(crate) fn judge(&self, done: &Finished, covered: String) -> Outcome {
        if !done.ok {
            return Outcome::failed(covered, without_noise(&done.all));
        }
        match self.complaints().as_slice() {
            [] => Outcome::ok(covered),
            complaints => Outcome::failed(covered, complaints.join("\n")),
        }
    }

    /// What makes a run that exited with success a failure all the same.
    fn complaints(&self) -> Vec<String> {
        let mut complaints = Vec::new();
        if self.passed == 0 {
            complaints.push("no test ran".to_string());
        }
        if self.ignored > 0 {
            complaints.push(format!(
                "{} tests are ignored: run them or remove them",
                self.ignored
            ));
        }
        for (name, _) in self.laws.iter().filter(|(_, cases)| **cases == 0) {
            complaints.push(format!("law {name} walked 0 cases: it has checked nothing"));
        }
        complaints
    }
}

/// The number that stands before `word` in `ok. 3 passed; 0 failed; ...`.
fn count_before(result: &str, word: &str) -> u64 {
    let words: Vec<&str> = result
        .split([' ', ';', '.'])
        .filter(|word| !word.is_empty())
        .collect();
    let at = words.iter().position(|candidate| *candidate == word);
    at.and_then(|at| words.get(at.checked_sub(1)?)?.parse().ok())
        .unwrap_or(0)
}

/// `law NAME: N cases` as name and N; underscores and commas may group the digits.
fn law(line: &str) -> Option<(&str, u64)> {
    let (name, rest) = line.strip_prefix("law ")?.split_once(": ")?;
    let digits: String = rest
        .split_whitespace()
        .next()?
        .chars()
        .filter(|c| !"_,".contains(*c))
        .collect();
    Some((name, digits.parse().ok()?))
}

/// A failed run's output without what passing tests printed (`--show-output` lists it first) and cargo's progress.
pub(crate) fn without_noise(output: &str) -> String {
    let mut shown = true;
    let mut kept = String::new();
    for line in output.lines() {
        if line == "successes:" {
            shown = false;
        } else if line == "failures:" || line.starts_with("test result:") {
            shown = true;
        }
        if shown && !is_noise(line) {
            kept += &format!("{line}\n");
        }
    }
    kept
}

fn is_noise(line: &str) -> bool {
    let cargo = [
        "Compiling ",
        "Checking ",
        "Documenting ",
        "Running ",
        "Finished ",
        "Blocking ",
        "Locking ",
    ];
    line.ends_with(" ... ok") || cargo.iter().any(|word| line.trim_start().starts_with(word))
}

#[cfg(test)]
mod tests {
    use super::*;

    const RUN: &str = "\
running 2 tests
test laws::composition_at ... ok

successes:

---- laws::composition_at stdout ----
law composition_at: 123456 pairs
law coalesce: 1_000 layouts

test result: ok. 2 passed; 0 failed; 0 ignored; 0 measured; 0 filtered out; finished in 0.01s
law composition_at: 4 pairs
test result: ok. 3 passed; 0 failed; 0 ignored; 0 measured; 0 filtered out; finished in 0.01s
";

    #[test]
    fn tests_and_cases_are_summed_over_binaries() {
        let counts = Counts::read(RUN);
        assert_eq!((counts.passed, counts.failed, counts.ignored), (5, 0, 0));
        assert_eq!(counts.laws["composition_at"], 123_460);
        assert_eq!(counts.cases(), 124_460);
        assert!(counts.complaints().is_empty());
    }

    #[test]
    fn a_law_without_cases_is_a_complaint() {
        let counts =
            Counts::read("law zip: 0 pairs\ntest result: ok. 1 passed; 0 failed; 0 ignored");
        assert_eq!(
            counts.complaints(),
            ["law zip walked 0 cases: it has checked nothing"]
        );
    }

    #[test]
    fn an_ignored_test_is_a_complaint() {
        let counts = Counts::read("test result: ok. 1 passed; 0 failed; 2 ignored");
        assert_eq!(
            counts.complaints(),
            ["2 tests are ignored: run them or remove them"]
        );
    }

    #[test]
    fn a_run_without_tests_is_a_complaint() {
        assert_eq!(Counts::read("").complaints(), ["no test ran"]);
    }

    #[test]
    fn a_failure_is_shown_without_what_passed() {
        let output = "test a ... ok\ntest b ... FAILED\nsuccesses:\nlong\nfailures:\nb\ntest result: FAILED.";
        assert_eq!(
            without_noise(output),
            "test b ... FAILED\nfailures:\nb\ntest result: FAILED.\n"
        );
    }
}
