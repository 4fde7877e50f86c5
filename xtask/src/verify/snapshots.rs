//! Snapshots: no snapshot waits for review, and a test reads each one on disk.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result};

use super::Run;
use super::outcome::Outcome;
use super::progress::Progress;
use crate::workspace;

/// Makes the tests that `command` runs compare snapshots without writing any, and list those that they read.
pub(super) fn watch(command: &mut Command, run: &Run) -> Result<()> {
    let list = references(run);
    if let Some(folder) = list.parent() {
        fs::create_dir_all(folder)
            .with_context(|| format!("{} cannot be created", folder.display()))?;
    }
    fs::write(&list, "").with_context(|| format!("{} cannot be written", list.display()))?;
    command
        .env("INSTA_UPDATE", "no")
        .env("INSTA_SNAPSHOT_REFERENCES_FILE", &list);
    Ok(())
}

/// Where the tests list the snapshots that they read.
fn references(run: &Run) -> PathBuf {
    run.packages.target_folder.join("snapshots-read.txt")
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
    if !run.tests_passed {
        // Which snapshots the tests read is known only after a run of all of them.
        return Ok(if complaints.is_empty() {
            Outcome::skipped("the tests did not run before it, or failed")
        } else {
            Outcome::failed("snapshots that wait", complaints.join("\n"))
        });
    }
    let kept = workspace::files(&run.root, ".snap")?;
    let read = read_by_tests(&references(run))?;
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
