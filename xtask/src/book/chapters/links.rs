//! Links between the repository's markdown files: each leads to a file that is there.

use std::path::{Component, Path, PathBuf};

use anyhow::Result;

use super::Chapters;
use crate::{markdown, workspace};

/// Checks every relative link of every markdown file, adds what is wrong to `complaints`, and counts the links.
pub(crate) fn check(
    root: &Path,
    chapters: &Chapters,
    complaints: &mut Vec<String>,
) -> Result<usize> {
    let mut count = 0;
    for path in workspace::files(root, ".md")? {
        for link in markdown::parts(&workspace::read(&path)?).links {
            let Some(target) = target_file(&path, &link.target) else {
                continue;
            };
            count += 1;
            if let Some(what) = complaint(chapters, &path, &target) {
                let place = workspace::shown(root, &path);
                complaints.push(format!(
                    "{place}:{}: the link `{}` {what}",
                    link.line, link.target
                ));
            }
        }
    }
    Ok(count)
}

/// The file a link from `path` leads to, if it stays on this machine and leaves its own page.
fn target_file(path: &Path, link: &str) -> Option<PathBuf> {
    let file = link.split(['#', '?']).next().unwrap_or("");
    if file.is_empty() || link.contains("://") || link.starts_with("mailto:") {
        return None;
    }
    Some(normal(&path.with_file_name("").join(file)))
}

/// What is wrong with a link from `path` to `target`.
fn complaint(chapters: &Chapters, path: &Path, target: &Path) -> Option<&'static str> {
    if !target.exists() {
        return Some("leads to no file");
    }
    if !path.starts_with(&chapters.folder) {
        return None;
    }
    match target.strip_prefix(&chapters.folder) {
        Err(_) => Some("leaves the book: its page would have nothing to show"),
        Ok(file) if file.extension().is_some_and(|extension| extension == "md") => {
            let has_page = chapters.has_page(&file.to_string_lossy());
            (!has_page && file != Path::new("SUMMARY.md"))
                .then_some("leads to a chapter that SUMMARY.md does not list")
        }
        Ok(_) => None,
    }
}

/// `path` with its `.` and `..` worked out.
fn normal(path: &Path) -> PathBuf {
    let mut normal = PathBuf::new();
    for part in path.components() {
        match part {
            Component::CurDir => {}
            Component::ParentDir => {
                normal.pop();
            }
            part => normal.push(part),
        }
    }
    normal
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_links_to_other_files_are_followed() {
        let from = Path::new("/a/b/c.md");
        assert_eq!(target_file(from, "https://example.org/x.md"), None);
        assert_eq!(target_file(from, "#law"), None);
        assert_eq!(target_file(from, "d.md#law"), Some("/a/b/d.md".into()));
        assert_eq!(target_file(from, "../e.md"), Some("/a/e.md".into()));
    }
}
