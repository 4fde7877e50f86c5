//! The verdict on a case, and the counts of all verdicts.

use std::collections::BTreeMap;
use std::fmt;

use serde_json::Value as Json;

use super::case::{Case, CaseFile, shortened};
use crate::verdict::{Checked, Ended};

/// The verdict on one case.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Verdict {
    /// The same text, ignoring `_`.
    Equal,
    /// Another text, equal at every coordinate; the reason the texts differ.
    SameFunction(String),
    /// CuTe's result breaks the law of the operation: at which coordinate, and our answer.
    Refuted(String),
    /// CuTe refuses the arguments, and so do we; our sentence.
    Error(String),
    /// CuTe refuses the arguments; we answer, and the answer satisfies the law.
    Answered(String),
    /// The operation is not implemented: the family that lacks it.
    NotYet(String),
    /// A failure, with its reason.
    Failed(String),
}

/// The verdicts in the order of the report's columns.
const COLUMNS: [&str; 7] = [
    "equal",
    "same function",
    "refuted",
    "error",
    "answered",
    "not yet",
    "FAILED",
];

impl Verdict {
    /// The column that counts this verdict.
    fn column(&self) -> usize {
        match self {
            Verdict::Equal => 0,
            Verdict::SameFunction(_) => 1,
            Verdict::Refuted(_) => 2,
            Verdict::Error(_) => 3,
            Verdict::Answered(_) => 4,
            Verdict::NotYet(_) => 5,
            Verdict::Failed(_) => 6,
        }
    }

    /// What a list of the cases that are not equal says of this one.
    fn remark(&self) -> Option<&str> {
        use Verdict::{Answered, Equal, Error, Failed, NotYet, Refuted, SameFunction};
        match self {
            Equal => None,
            NotYet(why) | SameFunction(why) | Refuted(why) | Error(why) | Answered(why)
            | Failed(why) => Some(why),
        }
    }
}

/// A case that is not equal.
struct Remark {
    column: usize,
    op: String,
    place: String,
    /// The call, and CuTe's result.
    call: String,
    why: String,
}

impl Remark {
    fn line(&self) -> String {
        let why = shortened(&self.why);
        format!("{:<13} {}; {why}", COLUMNS[self.column], self.call)
    }

    /// Its line in the list of known endings: place, verdict, words.
    fn ending(&self) -> String {
        let why = self.why.replace(['\t', '\n'], " ");
        format!("{}\t{}\t{why}", self.place, COLUMNS[self.column])
    }
}

/// All verdicts of a run.
#[derive(Default)]
pub(crate) struct GoldenReport {
    /// Name, number of cases and check sum of each file.
    files: Vec<String>,
    counts: BTreeMap<String, [usize; COLUMNS.len()]>,
    remarks: Vec<Remark>,
}

impl GoldenReport {
    pub(crate) fn add_file(&mut self, file: &CaseFile) {
        let cases = file.cases.len();
        self.files
            .push(format!("{}\t{cases} cases\t{:08x}", file.name, file.sum));
    }

    pub(crate) fn add(&mut self, case: &Case, verdict: &Verdict) {
        let column = verdict.column();
        self.counts.entry(case.op.clone()).or_default()[column] += 1;
        if let Some(why) = verdict.remark() {
            self.remarks.push(Remark {
                column,
                op: case.op.clone(),
                place: case.place.clone(),
                call: case.shown(),
                why: why.to_string(),
            });
        }
    }

    /// The cases that failed.
    pub(crate) fn failures(&self) -> Vec<String> {
        let failed = COLUMNS.len() - 1;
        let failures = self.remarks.iter().filter(|r| r.column == failed);
        failures.map(Remark::line).collect()
    }

    /// A check for each operation: the counts of its verdicts, and its cases that failed.
    pub(crate) fn checks(&self) -> Vec<Checked> {
        let failed = COLUMNS.len() - 1;
        let check = |(op, counts): (&String, &[usize; COLUMNS.len()])| {
            let cases: usize = counts.iter().sum();
            let failures = self
                .remarks
                .iter()
                .filter(|r| r.column == failed && r.op == *op);
            let failures: Vec<String> = failures.map(Remark::line).collect();
            let named = COLUMNS.iter().zip(counts);
            let data = named.map(|(name, count)| (name.to_lowercase(), (*count).into()));
            Checked {
                data: Json::Object(data.collect()),
                ..Checked::new(op, Ended::of(counts[failed] == 0), format!("{cases} cases"))
                    .complaining(&failures.join("\n"))
            }
        };
        self.counts.iter().map(check).collect()
    }

    /// The files, then every case that is not equal, as `kept` keeps them.
    pub(crate) fn endings(&self) -> Vec<String> {
        let cases = self.remarks.iter().map(Remark::ending);
        self.files.iter().cloned().chain(cases).collect()
    }

    /// The counts as one phrase: `17656 cases of 118 ops: 9000 equal, ...`.
    pub(crate) fn summary(&self) -> String {
        let totals = self.totals();
        let cases: usize = totals.iter().sum();
        let counts = COLUMNS.iter().zip(totals).filter(|(_, count)| *count > 0);
        let counts: Vec<String> = counts
            .map(|(name, count)| format!("{count} {name}"))
            .collect();
        format!(
            "{cases} cases of {} ops: {}",
            self.counts.len(),
            counts.join(", ")
        )
    }

    fn totals(&self) -> [usize; COLUMNS.len()] {
        std::array::from_fn(|column| self.counts.values().map(|counts| counts[column]).sum())
    }
}

/// A line per op, the cases that are not equal, and the totals.
impl fmt::Display for GoldenReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let row = |f: &mut fmt::Formatter<'_>, name: &str, cells: [String; COLUMNS.len()]| {
            write!(f, "{name:<32}")?;
            cells.iter().try_for_each(|cell| write!(f, "{cell:>14}"))?;
            writeln!(f)
        };
        row(f, "op", COLUMNS.map(str::to_string))?;
        for (op, counts) in &self.counts {
            row(
                f,
                op,
                counts.map(|count| {
                    if count == 0 {
                        "-".into()
                    } else {
                        count.to_string()
                    }
                }),
            )?;
        }
        if !self.remarks.is_empty() {
            writeln!(f, "\nwhat is not equal:")?;
        }
        let mut remarks: Vec<&Remark> = self.remarks.iter().collect();
        remarks.sort_by_key(|remark| remark.column);
        remarks
            .iter()
            .try_for_each(|remark| writeln!(f, "{}", remark.line()))?;
        write!(f, "\n{}", self.summary())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_report_counts_by_op_and_lists_what_is_not_equal() {
        let case = Case {
            op: "rank".into(),
            args: vec!["(4,8):(1,4)".into()],
            result: 2.into(),
            post: None,
            place: "a.jsonl:1".into(),
        };
        let mut report = GoldenReport::default();
        report.add(&case, &Verdict::Equal);
        report.add(&case, &Verdict::Failed("ours is 3".into()));
        assert_eq!(report.summary(), "2 cases of 1 ops: 1 equal, 1 FAILED");
        let line = "FAILED        a.jsonl:1: rank((4,8):(1,4)), CuTe: 2; ours is 3";
        assert_eq!(report.failures(), [line]);
        assert!(report.to_string().contains(line));
        assert_eq!(report.endings(), ["a.jsonl:1\tFAILED\tours is 3"]);
    }
}
