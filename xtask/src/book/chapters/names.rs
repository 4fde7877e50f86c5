//! The table of CuTe's names and ours: our names run, and the names under which the code can be found are all there.

use std::path::Path;

use anyhow::Result;

use super::Chapters;
use crate::{markdown, workspace};

const PAGE: &str = "appendix/names.md";

/// Checks the page against its own code and against the aliases of `colex-layout`, `colex-draw` and `colex-tiled`; counts the names.
pub(crate) fn check(
    root: &Path,
    chapters: &Chapters,
    complaints: &mut Vec<String>,
) -> Result<usize> {
    let page = workspace::read(&chapters.folder.join(PAGE))?;
    let ours = ours(&page);
    complaints.extend(unused(&page, &ours));
    let mut sources = Vec::new();
    for folder in ["layout/src", "layout/draw/src", "tiled/src"] {
        sources.extend(workspace::files(&root.join(folder), ".rs")?);
    }
    for path in sources {
        for alias in aliases(&workspace::read(&path)?) {
            if !has_word(&page, &alias) {
                complaints.push(format!(
                    "{}: the alias `{alias}` is not in book/chapters/{PAGE}",
                    workspace::shown(root, &path)
                ));
            }
        }
    }
    Ok(ours.len())
}

/// The names in the second column of the tables: the last word of each piece of code.
fn ours(page: &str) -> Vec<String> {
    let rows = page.lines().filter(|line| line.starts_with("| `"));
    rows.filter_map(|row| row.split(" | ").nth(1))
        .flat_map(|cell| cell.split('`').skip(1).step_by(2))
        // A call is shown with its arguments, `at(Unbounded(c))`; its name stands before them.
        .filter_map(|code| code.split('(').next()?.rsplit("::").next())
        .map(str::to_string)
        .collect()
}

/// A complaint for each of our names that no Rust block of the page uses.
fn unused(page: &str, ours: &[String]) -> Vec<String> {
    let fences = markdown::parts(page).fences.into_iter();
    let code: String = fences
        .filter(|fence| fence.is_rust())
        .map(|fence| fence.body)
        .collect();
    let missing = ours.iter().filter(|name| !has_word(&code, name));
    missing
        .map(|name| format!("book/chapters/{PAGE}: no block uses `{name}`"))
        .collect()
}

/// The names in `#[doc(alias = "..")]`.
fn aliases(source: &str) -> Vec<String> {
    let after = source.split("doc(alias = \"").skip(1);
    after
        .filter_map(|rest| rest.split('"').next())
        .map(str::to_string)
        .collect()
}

/// Whether `word` stands in `text`, not as a part of a longer name.
fn has_word(text: &str, word: &str) -> bool {
    let is_name = |c: char| c.is_alphanumeric() || c == '_';
    text.match_indices(word).any(|(at, _)| {
        let (before, after) = (&text[..at], &text[at + word.len()..]);
        !before.ends_with(is_name) && !after.starts_with(is_name)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const TABLE: &str =
        "| CuTe | Colex | |\n|---|---|---|\n| `a`, `b` | `Layout::c`, `d(E(x))` | `e` |\n\n";

    #[test]
    fn our_names_are_those_of_the_second_column() {
        assert_eq!(ours(TABLE), ["c", "d"]);
    }

    #[test]
    fn a_name_that_no_block_uses_is_refused() {
        let page = format!("{TABLE}```rust\nc(); dd();\n```\n\n```text\nd\n```\n");
        assert_eq!(
            unused(&page, &ours(&page)),
            ["book/chapters/appendix/names.md: no block uses `d`"]
        );
    }

    #[test]
    fn aliases_are_read_from_the_source() {
        let source = "#[doc(alias = \"idx2crd\")]\n#[must_use]\nfn coord() {}\n";
        assert_eq!(aliases(source), ["idx2crd"]);
    }
}
