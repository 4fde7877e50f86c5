//! Folders that hold more sources than are seen at a glance, and names of files that want to be a folder.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use anyhow::Result;

use crate::workspace::{self, shown};

/// The most sources of one folder.
const MOST: usize = 15;

/// The fewest files whose common prefix is a folder.
const SHARED: usize = 3;

/// Each of these programs belongs to the chapter of its name, so the table of contents groups them.
const PROGRAMS: &str = "book/examples/";

pub(super) fn check(root: &Path) -> Result<Vec<String>> {
    Ok(complaints(root, &workspace::files(root, ".rs")?))
}

fn complaints(root: &Path, files: &[PathBuf]) -> Vec<String> {
    let mut folders: BTreeMap<&Path, Vec<&str>> = BTreeMap::new();
    for file in files {
        if let (Some(folder), Some(stem)) = (file.parent(), file.file_stem()) {
            let stem = stem.to_str().unwrap_or_default();
            folders.entry(folder).or_default().push(stem);
        }
    }
    let mut complaints = Vec::new();
    for (folder, stems) in folders {
        let name = shown(root, folder);
        if stems.len() > MOST && !name.starts_with(PROGRAMS) {
            complaints.push(format!(
                "`{name}` holds {} sources, and a folder holds {MOST}: which belong together?",
                stems.len()
            ));
        }
        let mut prefixes: BTreeMap<&str, usize> = BTreeMap::new();
        for stem in &stems {
            let prefix = stem.split('_').next().unwrap_or_default();
            *prefixes.entry(prefix).or_default() += 1;
        }
        let shared = prefixes.into_iter().filter(|(_, count)| *count >= SHARED);
        complaints.extend(shared.map(|(prefix, count)| {
            format!(
                "`{name}` holds {count} sources whose names begin with `{prefix}`: make it a folder"
            )
        }));
    }
    complaints
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_crowd_and_a_shared_prefix_are_named() {
        let files = |names: &[&str]| -> Vec<String> {
            let files: Vec<PathBuf> = names
                .iter()
                .map(|name| Path::new("/r/a").join(name))
                .collect();
            complaints(Path::new("/r"), &files)
        };
        let letters: Vec<String> = ('a'..='p').map(|letter| format!("{letter}.rs")).collect();
        let letters: Vec<&str> = letters.iter().map(String::as_str).collect();
        assert_eq!(files(&letters[..15]), [""; 0]);
        assert_eq!(
            files(&letters),
            ["`a` holds 16 sources, and a folder holds 15: which belong together?"]
        );
        assert_eq!(files(&["copy.rs", "copy_any.rs", "copying.rs"]), [""; 0]);
        assert_eq!(
            files(&["copy.rs", "copy_any.rs", "copy_check.rs"]),
            ["`a` holds 3 sources whose names begin with `copy`: make it a folder"]
        );
    }
}
