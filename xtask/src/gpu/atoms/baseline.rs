//! The verdicts of an H200, kept in the repository, and the comparison of the simulator with them.

use std::collections::{HashMap, HashSet};
use std::fs::File;
use std::io::{BufRead as _, BufReader, Write as _};
use std::path::Path;

use anyhow::{Context, Result};
use colex_proof::sweep::{Record, Subject, Verdict, subjects};
use flate2::{Compression, GzBuilder, read::GzDecoder};

use super::record::{self, Head};

/// Writes the records without their times, packed, the same bytes for the same records.
pub(super) fn keep(path: &Path, head: &Head, records: &[Record]) -> Result<()> {
    let file =
        File::create(path).with_context(|| format!("{} cannot be written", path.display()))?;
    let mut packed = GzBuilder::new().mtime(0).write(file, Compression::best());
    writeln!(packed, "{}", head.line())?;
    for record in records {
        writeln!(packed, "{}", record::line(record, false))?;
    }
    packed.finish()?;
    Ok(())
}

/// A kept file.
pub(crate) fn read(path: &Path) -> Result<(Head, Vec<Record>)> {
    let file = File::open(path).with_context(|| format!("{} cannot be read", path.display()))?;
    let mut lines = BufReader::new(GzDecoder::new(file)).lines();
    let head = lines.next().context("an empty file")??;
    let records = lines
        .map(|line| record::parse(&line?))
        .collect::<Result<_>>()?;
    Ok((Head::parse(&head)?, records))
}

/// Where the verdicts of the hardware lie.
const FILE: &str = "xtask/sweep/h200.jsonl.gz";

/// Of those that are not the first of their row, one in this number is in the sample.
const SPARSE: usize = 16;

/// The outcome of a sample on the simulator: the differences from the hardware.
pub(crate) struct Comparison {
    /// How many cases of how many, and their source.
    pub(crate) covered: String,
    /// How many cases were compared.
    #[cfg_attr(
        not(feature = "repository"),
        expect(dead_code, reason = "only verify counts")
    )]
    pub(crate) count: usize,
    /// Each difference.
    pub(crate) complaints: Vec<String>,
}

/// Runs a sample on the simulator, with the data that the hardware had, and compares verdict and result. A case that
/// the hardware has not been asked about yet must agree with its row, and is counted apart.
///
/// The sample holds the first atom of each row and every 16th of the rest.
pub(crate) fn against_recorded(root: &Path) -> Result<Comparison> {
    let (head, recorded) = read(&root.join(FILE))?;
    let all = subjects();
    let sample = sample(&all);
    let found = super::on_simulator(&sample, head.seed, head.repeats, &|_| {});
    let known: HashMap<&str, &Record> = recorded.iter().map(|r| (r.name.as_str(), r)).collect();
    let differing = found
        .iter()
        .filter_map(|found| differs(found, known.get(found.name.as_str())));
    let complaints = dropped(&all, &recorded).into_iter().chain(differing);
    let same = found.iter().filter(|found| {
        known
            .get(found.name.as_str())
            .is_some_and(|known| equal(found, known))
    });
    let new = found
        .iter()
        .filter(|found| !known.contains_key(found.name.as_str()));
    let new = match new.count() {
        0 => String::new(),
        some => format!(", {some} not asked of it yet and as their rows say"),
    };
    Ok(Comparison {
        covered: format!(
            "{} of {} cases on the simulator, {} bit for bit as {}{new}",
            sample.len(),
            all.len(),
            same.count(),
            head.device
        ),
        count: found.len(),
        complaints: complaints.collect(),
    })
}

/// The first case on record that the sweep's list of today does not have. Both are in one order, and a case is named
/// after its atom.
fn dropped(all: &[Subject], recorded: &[Record]) -> Option<String> {
    let mut left = recorded.iter().peekable();
    for subject in all {
        left.next_if(|record| record.name.starts_with(&subject.atom()));
    }
    let first = left.next()?;
    Some(format!(
        "the sweep has {} cases, and {} of the {} on record is not among them",
        all.len(),
        first.name,
        recorded.len()
    ))
}

/// The cases that agreed when the record was made and do not agree now.
#[cfg(feature = "repository")]
pub(super) fn fallen(root: &Path, found: &[Record]) -> Result<Vec<String>> {
    let (_, recorded) = read(&root.join(FILE))?;
    let agreed: HashSet<&str> = recorded
        .iter()
        .filter(|r| r.verdict.agrees())
        .map(|r| r.name.as_str())
        .collect();
    let bad = |record: &&Record| match &record.verdict {
        Verdict::Wrong(_) => true,
        Verdict::Refused { .. } => agreed.contains(record.name.as_str()),
        _ => false,
    };
    let said = |record: &Record| format!("{}: {:?}", record.name, record.verdict);
    Ok(found.iter().filter(bad).map(said).collect())
}

/// The first of each row, and every so-many-th of the rest.
pub(super) fn sample(all: &[Subject]) -> Vec<Subject> {
    let mut rows = HashSet::new();
    let chosen = all
        .iter()
        .enumerate()
        .filter(|(i, subject)| rows.insert(subject.row()) || i.is_multiple_of(SPARSE));
    chosen.map(|(_, subject)| subject.clone()).collect()
}

/// The same elements, or the same refusal.
fn equal(found: &Record, known: &Record) -> bool {
    let same_bits = record::digest(&found.agreement) == record::digest(&known.agreement);
    same_bits && found.verdict.agrees() == known.verdict.agrees()
}

/// In what the simulator differs, if that is a difference: where the hardware's sum is not as the model gives it, the
/// simulator's, which is, need only be a rounding of the same sum.
fn differs(found: &Record, known: Option<&&Record>) -> Option<String> {
    let Some(known) = known else {
        let said = format!("{}: {:?} on the simulator", found.name, found.verdict);
        return (!found.verdict.agrees()).then_some(said);
    };
    let both_refuse = matches!(
        (&found.verdict, &known.verdict),
        (Verdict::Refused { .. }, Verdict::Refused { .. })
    );
    let rounded = found.verdict.agrees() && known.verdict == Verdict::Within;
    let fine = both_refuse || rounded || found.verdict.agrees() && equal(found, known);
    (!fine).then(|| {
        format!(
            "{}: {:?} on the simulator, {:?} on the hardware",
            found.name, found.verdict, known.verdict
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_case_that_is_dropped_is_told() {
        let all = subjects();
        let root = crate::workspace::root().expect("the test runs in the repository");
        let (_, recorded) = read(&root.join(FILE)).expect("the record is well formed");
        assert_eq!(dropped(&all, &recorded), None);
        let (count, first) = (recorded.len(), &recorded[0].name);
        assert_eq!(
            dropped(&[], &recorded),
            Some(format!(
                "the sweep has 0 cases, and {first} of the {count} on record is not among them"
            ))
        );
        for record in [&recorded[0], &recorded[count / 2], &recorded[count - 1]] {
            let mut fewer = all.clone();
            fewer.retain(|subject| !record.name.starts_with(&subject.atom()));
            let told = dropped(&fewer, &recorded).expect("one is gone");
            let stem = record.name.split(['<', ',']).next().unwrap_or_default();
            assert!(told.contains(stem), "{told}, {}", record.name);
        }
    }
}
