//! `cargo xtask golden [FILE..]`: our operations against the results of CuTe itself.
//!
//! A file holds one case a line: an operation, its arguments, and what CuTe gave. Each case ends in a [`Verdict`]:
//! the law first, then the text.
//!
//! # Adding a family of operations
//!
//! 1. Write `golden/FAMILY.rs` with `pub(super) const OPS: &[Op]`, one row an operation: its name in the files, and a
//!    function from the [`Case`] to the [`Verdict`]. An operation whose result is a value can leave the judging to
//!    [`judge::judge`], which takes our answer (or error), and the law if there is one; a record of several fields
//!    compares them itself and fails with the field that differs.
//! 2. Add `FAMILY::OPS` to [`FAMILIES`].
//! 3. Take the names from [`later`], which says `not yet` for the operations of rooms that are not furnished.

mod case;
mod judge;
mod later;
mod law;
mod value;
mod verdict;

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::Result;

use crate::workspace;
pub(crate) use case::Case;
pub(crate) use verdict::{Report, Verdict};

/// An operation of the files.
pub(crate) struct Op {
    /// Its name there.
    pub(crate) name: &'static str,
    /// Runs one case.
    pub(crate) run: fn(&Case) -> Verdict,
}

/// Every operation that runs.
const FAMILIES: &[&[Op]] = &[];

/// Compares the cases of `files`, or of the repository's files, and prints the report.
pub(crate) fn task(files: &[PathBuf]) -> Result<ExitCode> {
    let own = if files.is_empty() {
        repository_files(&workspace::root()?)?
    } else {
        Vec::new()
    };
    let report = compare(if files.is_empty() { &own } else { files }, |_| {})?;
    println!("{report}");
    Ok(if report.failures().is_empty() {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    })
}

/// The files that travel with the repository.
pub(crate) fn repository_files(root: &Path) -> Result<Vec<PathBuf>> {
    workspace::files(&root.join("xtask/golden"), ".gz")
}

/// Runs every case of every file; `at` hears which file is next.
pub(crate) fn compare(files: &[PathBuf], at: impl Fn(&str)) -> Result<Report> {
    let mut report = Report::default();
    for file in files {
        at(&file.display().to_string());
        for case in case::read(file)? {
            report.add(&case, &verdict(&case));
        }
    }
    Ok(report)
}

fn verdict(case: &Case) -> Verdict {
    let op = FAMILIES
        .iter()
        .copied()
        .flatten()
        .find(|op| op.name == case.op);
    match (op, later::room(case)) {
        (Some(op), _) => (op.run)(case),
        (None, Some(room)) => Verdict::NotYet(room.into()),
        (None, None) => Verdict::Failed(format!("no family knows the operation `{}`", case.op)),
    }
}
