//! What a step says to the run that started it: one line of JSON each.

use anyhow::Result;
use serde::{Deserialize, Serialize};

use super::Outcome;

/// How a step ended.
#[derive(Debug, Serialize, Deserialize)]
pub(in crate::verify) struct Report {
    pub(in crate::verify) outcome: Outcome,
    /// What it counted, by name.
    pub(in crate::verify) counts: Vec<(String, String)>,
    pub(in crate::verify) seconds: f64,
    /// Of the step and of the programs it started; none where the system does not tell.
    pub(in crate::verify) processor: Option<f64>,
}

/// A line on the standard output of a step.
#[derive(Debug, Serialize, Deserialize)]
pub(in crate::verify) enum Said {
    /// What it works on.
    At(String),
    /// How it ended.
    Ended(Report),
}

impl Said {
    pub(in crate::verify) fn line(&self) -> Result<String> {
        Ok(serde_json::to_string(self)?)
    }

    /// Reads a line; none where it is something else that a step printed.
    pub(in crate::verify) fn read(line: &str) -> Option<Said> {
        serde_json::from_str(line).ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_read_as_it_was_written() {
        let report = Report {
            outcome: Outcome::failed("2 files", "a\nb"),
            counts: vec![("tests".to_string(), "3".to_string())],
            seconds: 1.5,
            processor: None,
        };
        for said in [Said::At("\"a\"".to_string()), Said::Ended(report)] {
            let line = said.line().unwrap();
            assert!(!line.contains('\n'));
            assert_eq!(
                format!("{:?}", Said::read(&line).unwrap()),
                format!("{said:?}")
            );
        }
        assert!(Said::read("thread 'main' panicked").is_none());
    }
}
