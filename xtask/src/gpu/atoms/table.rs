//! The table of counts: one row a family, in the order in which they were met.

use std::fmt;

use colex_proof::sweep::{Record, Verdict};
use serde_json::json;

use crate::verdict::{Checked, Ended};

/// The counts of all records.
#[derive(Default)]
pub(crate) struct Table {
    rows: Vec<Row>,
    /// What was wrong or refused, in words.
    pub(crate) remarks: Vec<String>,
    /// Those of them that are wrong, with their family.
    faulty: Vec<(String, String)>,
    /// Those that agree within the rounding only, with their family: with the seed, the run can be repeated.
    pub(crate) rounded: Vec<(String, String)>,
}

#[derive(Clone, Default)]
struct Row {
    family: String,
    run: usize,
    exact: usize,
    modelled: usize,
    within: usize,
    refused: usize,
    wrong: usize,
    elements: u64,
    same: u64,
}

impl Table {
    pub(crate) fn add(&mut self, record: &Record) {
        let at = self.rows.iter().position(|row| row.family == record.family);
        let at = at.unwrap_or_else(|| {
            self.rows.push(Row {
                family: record.family.clone(),
                ..Row::default()
            });
            self.rows.len() - 1
        });
        self.rows[at].add(record);
        match &record.verdict {
            Verdict::Refused { by, words } => {
                self.remarks
                    .push(format!("{} refused by the {by}: {words}", record.name));
            }
            Verdict::Wrong(words) => {
                let remark = format!("{} WRONG: {words}", record.name);
                self.faulty.push((record.family.clone(), remark.clone()));
                self.remarks.push(remark);
            }
            Verdict::Within => {
                let first = record.agreement.rounded.as_deref().unwrap_or_default();
                let others = record.agreement.elements - record.agreement.modelled;
                let remark = format!("{}: {others} within rounding only: {first}", record.name);
                self.rounded.push((record.family.clone(), remark.clone()));
                self.remarks.push(remark);
            }
            _ => {}
        }
    }

    /// How many gave something else than their row says.
    pub(crate) fn wrong(&self) -> usize {
        self.total().wrong
    }

    /// `4635 run, 4600 agree, 35 refused, 0 wrong`
    pub(crate) fn summary(&self) -> String {
        let total = self.total();
        let agreed = total.exact + total.modelled + total.within;
        format!(
            "{} run: {agreed} agree ({} bit for bit, {} within rounding), {} refused, {} wrong",
            total.run,
            total.exact + total.modelled,
            total.within,
            total.refused,
            total.wrong
        )
    }

    /// A check for each family: its counts, and what is wrong in it.
    pub(crate) fn checks(&self) -> Vec<Checked> {
        let check = |row: &Row| {
            let of_row = |remarks: &[(String, String)]| -> Vec<String> {
                let of_row = remarks.iter().filter(|(family, _)| *family == row.family);
                of_row.map(|(_, remark)| remark.clone()).collect()
            };
            let wrong = of_row(&self.faulty);
            Checked {
                data: json!({
                    "run": row.run, "exact": row.exact, "modelled": row.modelled, "within": row.within,
                    "refused": row.refused, "wrong": row.wrong, "elements": row.elements, "bit for bit": row.same,
                    "within rounding": of_row(&self.rounded),
                }),
                ..Checked::new(
                    &row.family,
                    Ended::of(row.wrong == 0),
                    format!("{} instructions", row.run),
                )
                .complaining(&wrong.join("\n"))
            }
        };
        self.rows.iter().map(check).collect()
    }

    fn total(&self) -> Row {
        let mut total = Row {
            family: "all".to_string(),
            ..Row::default()
        };
        for row in &self.rows {
            total.run += row.run;
            total.exact += row.exact;
            total.modelled += row.modelled;
            total.within += row.within;
            total.refused += row.refused;
            total.wrong += row.wrong;
            total.elements += row.elements;
            total.same += row.same;
        }
        total
    }
}

impl Row {
    fn add(&mut self, record: &Record) {
        self.run += 1;
        self.elements += record.agreement.elements;
        self.same += match record.verdict {
            Verdict::Modelled | Verdict::Within => record.agreement.modelled,
            _ => record.agreement.exact,
        };
        *match record.verdict {
            Verdict::Exact => &mut self.exact,
            Verdict::Modelled => &mut self.modelled,
            Verdict::Within => &mut self.within,
            Verdict::Refused { .. } => &mut self.refused,
            Verdict::Wrong(_) => &mut self.wrong,
        } += 1;
    }
}

/// Columns: run, agreed exactly, float sums bit for bit as modelled, within rounding, refused, wrong; then elements
/// compared and those that are bit for bit as the row (or, for float sums, the model) says.
impl fmt::Display for Table {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            f,
            "{:<36} {:>5} {:>6} {:>8} {:>6} {:>7} {:>5} {:>12} {:>12}",
            "family",
            "run",
            "exact",
            "modelled",
            "within",
            "refused",
            "wrong",
            "elements",
            "bit for bit"
        )?;
        for row in self.rows.iter().chain([&self.total()]) {
            writeln!(
                f,
                "{:<36} {:>5} {:>6} {:>8} {:>6} {:>7} {:>5} {:>12} {:>12}",
                row.family,
                row.run,
                row.exact,
                row.modelled,
                row.within,
                row.refused,
                row.wrong,
                row.elements,
                row.same
            )?;
        }
        Ok(())
    }
}
