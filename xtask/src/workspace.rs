//! Where the repository is, and which of its files a task looks at.

use std::path::{Path, PathBuf};
use std::{env, fs};

use anyhow::{Context, Result, bail};

/// The repository's root: above this package when cargo runs the task, else above the current folder.
pub(crate) fn root() -> Result<PathBuf> {
    let start = match env::var_os("CARGO_MANIFEST_DIR") {
        Some(package) => PathBuf::from(package),
        None => env::current_dir().context("the current folder cannot be read")?,
    };
    match start.ancestors().find(|folder| is_root(folder)) {
        Some(root) => Ok(root.to_path_buf()),
        None => bail!("{} is not inside a Colex repository", start.display()),
    }
}

fn is_root(folder: &Path) -> bool {
    folder.join("Cargo.lock").is_file() && folder.join("book/book.toml").is_file()
}

/// Every file under `root` whose name ends in `suffix`, sorted; build outputs and hidden folders are left out.
pub(crate) fn files(root: &Path, suffix: &str) -> Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    let mut folders = vec![root.to_path_buf()];
    while let Some(folder) = folders.pop() {
        let entries = fs::read_dir(&folder)
            .with_context(|| format!("{} cannot be listed", folder.display()))?;
        for entry in entries {
            let path = entry?.path();
            if path.is_dir() && !is_left_out(&path) {
                folders.push(path);
            } else if path.to_string_lossy().ends_with(suffix) {
                found.push(path);
            }
        }
    }
    found.sort();
    Ok(found)
}

/// `target` and `book/build` hold outputs; a hidden folder belongs to a tool.
fn is_left_out(folder: &Path) -> bool {
    let name = folder.file_name().unwrap_or_default().to_string_lossy();
    name == "target" || folder.ends_with("book/build") || name.starts_with('.')
}

/// `path` as it is written in messages: relative to the repository.
#[cfg(feature = "repository")]
pub(crate) fn shown(root: &Path, path: &Path) -> String {
    path.strip_prefix(root)
        .unwrap_or(path)
        .display()
        .to_string()
}

/// A count with its noun: `1 chapter`, `2 chapters`.
#[cfg(feature = "repository")]
pub(crate) fn counted(count: usize, noun: &str) -> String {
    format!("{count} {noun}{}", if count == 1 { "" } else { "s" })
}

/// The text of a file, or a sentence that names it.
#[cfg(feature = "repository")]
pub(crate) fn read(path: &Path) -> Result<String> {
    fs::read_to_string(path).with_context(|| format!("{} cannot be read", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A module may be called `build`: only the folders of outputs are left out.
    #[test]
    fn every_tracked_source_is_listed() {
        let root = root().expect("the tests run in the repository");
        let git = std::process::Command::new("git")
            .args(["ls-files", "*.rs"])
            .current_dir(&root)
            .output();
        // Without git, or from a packaged source, there is no list to compare with.
        let Some(listed) = git.ok().filter(|output| output.status.success()) else {
            return;
        };
        let found = files(&root, ".rs").expect("the repository is listed");
        let tracked = String::from_utf8(listed.stdout).expect("names are text");
        for name in tracked.lines().filter(|name| root.join(name).exists()) {
            assert!(found.contains(&root.join(name)), "{name} is left out");
        }
    }
}
