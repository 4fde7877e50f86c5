//! The baseline: the known verdicts on the cases of the repository's files.
//!
//! A case that is not equal to the letter passes by a rule, and a rule that is too wide would let a wrong answer of ours
//! pass with it; so would a file that lost its cases, or a record that was changed until CuTe's result breaks a law.
//! Therefore `golden/verdicts.tsv` keeps each file with its number of cases and check sum, and each case that is not
//! equal with its verdict and our words. A case that ends otherwise is a failure, until its difference has been reviewed and
//! `cargo xtask golden --keep` has written the list anew.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};

use super::verdict::GoldenReport;

/// How many differences are told one by one.
const TOLD: usize = 40;

fn path(root: &Path) -> PathBuf {
    root.join("xtask/golden/verdicts.tsv")
}

/// Writes the list; not while a case fails.
pub(super) fn keep(root: &Path, report: &GoldenReport) -> Result<String> {
    let failed = report.failures().len();
    if failed > 0 {
        bail!("{failed} cases failed, and a failure cannot be kept: mend it first");
    }
    let (path, endings) = (path(root), report.endings());
    fs::write(&path, endings.join("\n") + "\n")
        .with_context(|| format!("{} cannot be written", path.display()))?;
    Ok(format!(
        "{} lines kept in {}",
        endings.len(),
        path.display()
    ))
}

/// The verdicts that differ from the list.
pub(super) fn complaints(root: &Path, report: &GoldenReport) -> Result<Vec<String>> {
    let path = path(root);
    let kept = fs::read_to_string(&path).with_context(|| {
        format!(
            "{} cannot be read: `cargo xtask golden --keep` writes it",
            path.display()
        )
    })?;
    Ok(differences(&kept, &report.endings()))
}

fn differences(kept: &str, found: &[String]) -> Vec<String> {
    let kept: BTreeSet<&str> = kept.lines().collect();
    let found: BTreeSet<&str> = found.iter().map(String::as_str).collect();
    let gone = kept
        .difference(&found)
        .map(|line| format!("known, but not so now: {}", shown(line)));
    let new = found
        .difference(&kept)
        .map(|line| format!("so now, but not known: {}", shown(line)));
    let mut all: Vec<String> = gone.chain(new).collect();
    if all.is_empty() {
        return all;
    }
    all.sort_by_key(|line| place(line).to_string());
    let (count, more) = (all.len(), all.len().saturating_sub(TOLD));
    all.truncate(TOLD);
    if more > 0 {
        all.push(format!("and {more} more"));
    }
    all.push(format!(
        "{count} lines differ from xtask/golden/verdicts.tsv; if each is right, `cargo xtask golden --keep` writes it anew"
    ));
    all
}

/// A line without its tabs.
fn shown(line: &str) -> String {
    line.replace('\t', "  ")
}

/// The file and line that a difference speaks of, so that what was and what is stand together.
fn place(difference: &str) -> &str {
    difference
        .get(23..)
        .unwrap_or_default()
        .split("  ")
        .next()
        .unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    const KEPT: &str = "a.gz\t2 cases\t00000001\na.gz:2\trefuted\tours is 4:1\n";
    const ANEW: &str =
        "xtask/golden/verdicts.tsv; if each is right, `cargo xtask golden --keep` writes it anew";

    fn differ(found: &[&str]) -> Vec<String> {
        let found: Vec<String> = found.iter().map(|line| line.to_string()).collect();
        differences(KEPT, &found)
    }

    #[test]
    fn what_ends_as_known_has_no_complaint() {
        assert_eq!(
            differ(&["a.gz\t2 cases\t00000001", "a.gz:2\trefuted\tours is 4:1"]),
            Vec::<String>::new()
        );
    }

    #[test]
    fn another_answer_under_the_same_verdict_is_told() {
        assert_eq!(
            differ(&["a.gz\t2 cases\t00000001", "a.gz:2\trefuted\tours is 4:2"]),
            [
                "known, but not so now: a.gz:2  refuted  ours is 4:1".to_string(),
                "so now, but not known: a.gz:2  refuted  ours is 4:2".to_string(),
                format!("2 lines differ from {ANEW}"),
            ]
        );
    }

    #[test]
    fn a_file_that_is_not_there_is_told() {
        assert_eq!(
            differ(&["a.gz:2\trefuted\tours is 4:1"]),
            [
                "known, but not so now: a.gz  2 cases  00000001".to_string(),
                format!("1 lines differ from {ANEW}"),
            ]
        );
    }

    #[test]
    fn many_differences_are_cut_short() {
        let found: Vec<String> = (0..100).map(|i| format!("a.gz:{i}\terror\tno")).collect();
        let told = differences("", &found);
        assert_eq!(told.len(), TOLD + 2);
        assert_eq!(told[TOLD], "and 60 more");
    }
}
