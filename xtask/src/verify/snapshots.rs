//! Snapshots: no snapshot waits for review, and a test reads each one on disk.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

use super::outcome::Outcome;
use super::progress::Progress;
use super::{Run, times};
use crate::workspace;

/// What makes tests compare snapshots without writing any, and list those that they read: variables and their values.
pub(super) fn watch(run: &Run) -> Result<[(&'static str, PathBuf); 2]> {
    let list = references(run);
    fs::write(&list, "").with_context(|| format!("{} cannot be written", list.display()))?;
    Ok([
        ("INSTA_UPDATE", "no".into()),
        ("INSTA_SNAPSHOT_REFERENCES_FILE", list),
    ])
}

/// Where the tests list the snapshots that they read.
fn references(run: &Run) -> PathBuf {
    times::folder(run).join("snapshots-being-read.txt")
}

/// The list of a run of all tests that passed.
fn complete(run: &Run) -> PathBuf {
    times::folder(run).join("snapshots-read.txt")
}

/// Notes that all tests have passed: only then their list is complete.
pub(super) fn passed(run: &Run) -> Result<()> {
    fs::rename(references(run), complete(run)).context("the list of snapshots cannot be kept")
}

/// Forgets the list of the run before.
pub(super) fn forget(run: &Run) -> Result<()> {
    let list = complete(run);
    if list.exists() {
        fs::remove_file(&list).with_context(|| format!("{} cannot be removed", list.display()))?;
    }
    Ok(())
}

pub(super) fn check(run: &mut Run, _: &Progress) -> Result<Outcome> {
    let mut complaints = Vec::new();
    for suffix in [".snap.new", ".pending-snap"] {
        for path in workspace::files(&run.root, suffix)? {
            complaints.push(format!(
                "{} waits for review: accept or delete it",
                workspace::shown(&run.root, &path)
            ));
        }
    }
    let list = complete(run);
    if !list.exists() {
        // Which snapshots the tests read is known only after a run of all of them.
        return Ok(if complaints.is_empty() {
            Outcome::skipped("the tests did not run before it, or failed")
        } else {
            Outcome::failed("snapshots that wait", complaints.join("\n"))
        });
    }
    let kept = workspace::files(&run.root, ".snap")?;
    let read = read_by_tests(&list)?;
    for path in kept.iter().filter(|path| !read.contains(&canonical(path))) {
        complaints.push(format!(
            "{} is read by no test: delete it",
            workspace::shown(&run.root, path)
        ));
    }
    let covered = format!(
        "{} snapshot files, each read by a test, none waiting for review",
        kept.len()
    );
    Ok(if complaints.is_empty() {
        Outcome::ok(covered)
    } else {
        Outcome::failed(
            format!("{} snapshot files", kept.len()),
            complaints.join("\n"),
        )
    })
}

fn read_by_tests(list: &Path) -> Result<BTreeSet<PathBuf>> {
    Ok(workspace::read(list)?
        .lines()
        .map(|line| canonical(Path::new(line)))
        .collect())
}

fn canonical(path: &Path) -> PathBuf {
    path.canonicalize().unwrap_or_else(|_| path.to_path_buf())
}
