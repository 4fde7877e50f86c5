//! The three lists of chapters that must agree: `SUMMARY.md`, the `chapters!` of the book's crate, and the folder.

pub(crate) mod examples;
pub(crate) mod links;
pub(crate) mod marks;
pub(crate) mod names;
pub(crate) mod outsider;
pub(crate) mod terms;
mod voice;

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

use crate::{markdown, workspace};

/// The chapters, by every list that names them.
pub(crate) struct Chapters {
    /// Where they lie.
    pub(crate) folder: PathBuf,
    /// The files in the folder, relative to it.
    pub(crate) files: BTreeSet<String>,
    /// The files that `SUMMARY.md` links to.
    listed: Vec<String>,
    /// The files that the book's crate compiles.
    compiled: Vec<String>,
}

impl Chapters {
    pub(crate) fn read(root: &Path) -> Result<Chapters> {
        let folder = root.join("book/chapters");
        let summary = workspace::read(&folder.join("SUMMARY.md"))?;
        let source = workspace::read(&root.join("book/src/lib.rs"))?;
        let mut files = BTreeSet::new();
        for path in workspace::files(&folder, ".md")? {
            let name = path
                .strip_prefix(&folder)
                .context("a listed file lies in its folder")?;
            files.insert(name.to_string_lossy().into_owned());
        }
        files.remove("SUMMARY.md");
        Ok(Chapters {
            folder,
            files,
            listed: listed(&summary),
            compiled: compiled(&source),
        })
    }

    /// Where each chapter lies.
    pub(crate) fn paths(&self) -> impl Iterator<Item = PathBuf> {
        self.files.iter().map(|file| self.folder.join(file))
    }

    /// Whether `SUMMARY.md` names `file`, so that it becomes a page.
    pub(crate) fn has_page(&self, file: &str) -> bool {
        self.listed.iter().any(|listed| listed == file)
    }

    /// A sentence for each chapter that one of the lists lacks or repeats.
    pub(crate) fn complaints(&self) -> Vec<String> {
        let mut complaints = Vec::new();
        let mut lacking = |chapter: &String, list: &[String], sentence: &str| {
            if !list.contains(chapter) {
                complaints.push(format!("book/chapters/{chapter} {sentence}"));
            }
        };
        let files: Vec<String> = self.files.iter().cloned().collect();
        for chapter in &self.listed {
            lacking(
                chapter,
                &files,
                "is listed in SUMMARY.md, but there is no such file",
            );
            lacking(
                chapter,
                &self.compiled,
                "is listed in SUMMARY.md, but not in `chapters!`: its code does not run",
            );
        }
        for chapter in &self.compiled {
            lacking(
                chapter,
                &self.listed,
                "is in `chapters!`, but not in SUMMARY.md: no reader can find it",
            );
        }
        for chapter in &files {
            lacking(chapter, &self.listed, "is not listed in SUMMARY.md");
        }
        complaints.extend(repeated(&self.listed).chain(repeated(&self.compiled)));
        complaints
    }
}

/// A sentence for each chapter that a list names again.
fn repeated(list: &[String]) -> impl Iterator<Item = String> {
    let again = list
        .iter()
        .enumerate()
        .filter(|(at, chapter)| list[..*at].contains(chapter));
    again.map(|(_, chapter)| format!("book/chapters/{chapter} is listed twice"))
}

/// The chapters that `SUMMARY.md` links to, in order.
fn listed(summary: &str) -> Vec<String> {
    let links = markdown::parts(summary).links.into_iter();
    links
        .map(|link| link.target.trim_start_matches("./").to_string())
        .collect()
}

/// The paths in the `chapters! { .. }` of the book's crate: the second field of each `name = "path";`.
fn compiled(source: &str) -> Vec<String> {
    let Some((_, call)) = source.split_once("\nchapters! {") else {
        return Vec::new();
    };
    let body = call.split("\n}").next().unwrap_or(call);
    let paths = body
        .lines()
        .filter(|line| !line.trim_start().starts_with("//"));
    paths
        .filter_map(|line| line.split('"').nth(1))
        .map(|path| path.to_string())
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const SOURCE: &str = r#"
macro_rules! chapters { ($($name:ident = $path:literal;)*) => {} }

chapters! {
    a = "a.md";
    // b = "b.md";
    c = "part/c.md";
}
"#;

    fn chapters(files: &[&str], summary: &str) -> Chapters {
        Chapters {
            folder: PathBuf::new(),
            files: files.iter().map(|file| file.to_string()).collect(),
            listed: listed(summary),
            compiled: compiled(SOURCE),
        }
    }

    #[test]
    fn lists_that_agree_have_no_complaint() {
        let chapters = chapters(
            &["a.md", "part/c.md"],
            "# Summary\n\n[A](a.md)\n\n- [C](./part/c.md)\n",
        );
        assert_eq!(chapters.complaints(), Vec::<String>::new());
    }

    #[test]
    fn a_chapter_that_is_not_compiled_is_refused() {
        let chapters = chapters(
            &["a.md", "b.md", "part/c.md"],
            "- [A](a.md)\n- [B](b.md)\n- [C](part/c.md)\n",
        );
        assert_eq!(
            chapters.complaints(),
            [
                "book/chapters/b.md is listed in SUMMARY.md, but not in `chapters!`: its code does not run"
            ]
        );
    }

    #[test]
    fn a_chapter_that_is_not_listed_is_refused() {
        let chapters = chapters(&["a.md", "part/c.md"], "- [A](a.md)\n");
        assert_eq!(
            chapters.complaints(),
            [
                "book/chapters/part/c.md is in `chapters!`, but not in SUMMARY.md: no reader can find it",
                "book/chapters/part/c.md is not listed in SUMMARY.md",
            ]
        );
    }

    #[test]
    fn a_missing_file_and_a_repetition_are_refused() {
        let chapters = chapters(
            &["a.md"],
            "- [A](a.md)\n- [A again](a.md)\n- [C](part/c.md)\n",
        );
        assert_eq!(
            chapters.complaints(),
            [
                "book/chapters/part/c.md is listed in SUMMARY.md, but there is no such file",
                "book/chapters/a.md is listed twice",
            ]
        );
    }
}
