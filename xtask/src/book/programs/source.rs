//! The text of the programs: their pieces, and what is wrong with them.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use anyhow::{Context, Result};

use super::{brackets, modes};
use crate::workspace;

/// Every program, by its file below `book/examples` without `.rs`: `layout/composition`.
pub(super) struct Programs(BTreeMap<String, Program>);

/// One program.
pub(super) struct Program {
    file: String,
    text: String,
    pieces: BTreeMap<String, String>,
    complaints: Vec<String>,
}

impl Programs {
    /// Reads those of the repository.
    pub(super) fn read(root: &Path) -> Result<Programs> {
        let folder = root.join("book/examples");
        let mut programs = Vec::new();
        for path in workspace::files(&folder, ".rs")? {
            let name = path
                .strip_prefix(&folder)
                .context("a listed file lies in its folder")?;
            let name = name.with_extension("").to_string_lossy().replace('\\', "/");
            programs.push((name, workspace::read(&path)?));
        }
        Ok(Programs::of(programs))
    }

    pub(super) fn of<S: Into<String>>(programs: impl IntoIterator<Item = (S, String)>) -> Programs {
        let programs = programs.into_iter().map(|(name, text)| {
            let name = name.into();
            let program = Program::of(&name, text);
            (name, program)
        });
        Programs(programs.collect())
    }

    /// The program `name`, or the sentence that there is none.
    pub(super) fn get(&self, name: &str) -> Result<&Program, String> {
        self.0
            .get(name)
            .ok_or_else(|| format!("there is no program {}", file(name)))
    }

    /// The names of the programs.
    pub(super) fn names(&self) -> impl Iterator<Item = &str> {
        self.0.keys().map(String::as_str)
    }

    /// What is wrong with the text of each.
    pub(super) fn complaints(&self) -> impl Iterator<Item = String> {
        self.0
            .values()
            .flat_map(|program| program.complaints.iter().cloned())
    }

    /// A sentence for each program that `manifest` does not make an example, and for each example that is no program.
    pub(super) fn unlisted(&self, manifest: &str) -> Vec<String> {
        let entry = |name: &str| {
            format!(
                "[[example]]\nname = \"{}\"\npath = \"examples/{name}.rs\"\n",
                example(name)
            )
        };
        let lacking = self.names().filter(|name| !manifest.contains(&entry(name)));
        let mut complaints: Vec<String> = lacking
            .map(|name| format!("book/Cargo.toml lacks these lines:\n{}", entry(name)))
            .collect();
        let entries = manifest.matches("[[example]]").count();
        if complaints.is_empty() && entries != self.0.len() {
            complaints.push(format!(
                "book/Cargo.toml lists {entries} examples, and there are {} programs",
                self.0.len()
            ));
        }
        complaints
    }

    /// A sentence for each piece that no chapter shows; `shown` holds pairs of a program and a piece.
    pub(super) fn unseen(&self, shown: &BTreeSet<(String, String)>) -> Vec<String> {
        let mut complaints = Vec::new();
        for (name, program) in &self.0 {
            for piece in program.pieces.keys() {
                if !shown.contains(&(name.clone(), piece.clone())) {
                    complaints.push(format!(
                        "{}: no chapter shows the piece `{piece}`",
                        program.file
                    ));
                }
            }
        }
        complaints
    }
}

/// Where the program `name` lies.
fn file(name: &str) -> String {
    format!("book/examples/{name}.rs")
}

/// The name by which `cargo run --example` knows the program `name`.
pub(super) fn example(name: &str) -> String {
    name.replace(['/', '-'], "_")
}

/// The name of the piece that `line` begins or ends.
fn mark<'a>(line: &'a str, word: &str) -> Option<&'a str> {
    line.trim()
        .strip_prefix("// ")?
        .strip_prefix(word)?
        .strip_prefix(": ")
}

impl Program {
    fn of(name: &str, text: String) -> Program {
        let file = file(name);
        let mut complaints = Vec::new();
        if !text.starts_with("//! ") {
            complaints.push(format!(
                "{file} does not begin with a `//!` comment that says what the program shows"
            ));
        }
        let mut open: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
        let mut pieces: BTreeMap<String, String> = BTreeMap::new();
        let mut is_shown = Vec::new();
        for (number, line) in (1..).zip(text.lines()) {
            is_shown.push(!open.is_empty());
            if let Some(begun) = mark(line, "ANCHOR") {
                if open.insert(begun, Vec::new()).is_some() {
                    complaints.push(format!("{file}:{number}: the piece `{begun}` begins twice"));
                }
            } else if let Some(ended) = mark(line, "ANCHOR_END") {
                match open.remove(ended).filter(|lines| !lines.is_empty()) {
                    Some(lines) => add(pieces.entry(ended.to_string()).or_default(), &lines),
                    None => complaints.push(format!(
                        "{file}:{number}: the piece `{ended}` ends, and has no lines"
                    )),
                }
            } else {
                open.values_mut().for_each(|lines| lines.push(line));
            }
        }
        complaints.extend(
            open.keys()
                .map(|name| format!("{file}: the piece `{name}` does not end")),
        );
        let torn = brackets::torn(&text, &is_shown);
        let in_lines = torn.into_iter().chain(modes::unnamed(&text));
        complaints.extend(in_lines.map(|(line, what)| format!("{file}:{line}: {what}")));
        Program {
            file,
            text,
            pieces,
            complaints,
        }
    }

    /// The text of a piece, or the sentence that there is none.
    pub(super) fn piece(&self, name: &str) -> Result<&str, String> {
        self.pieces.get(name).map(String::as_str).ok_or_else(|| {
            let all: Vec<&str> = self.pieces.keys().map(String::as_str).collect();
            format!(
                "{} has no `// ANCHOR: {name}`; it has {}",
                self.file,
                all.join(", ")
            )
        })
    }

    /// The text without the marks of its pieces.
    pub(super) fn whole(&self) -> String {
        self.unmarked()
            .map(|(_, line)| format!("{line}\n"))
            .collect()
    }

    /// The numbers that the lines of [`Program::whole`] have in the file, one per line.
    pub(super) fn numbers(&self) -> String {
        self.unmarked()
            .map(|(number, _)| format!("{number}\n"))
            .collect()
    }

    fn unmarked(&self) -> impl Iterator<Item = (usize, &str)> {
        let is_mark = |line: &str| mark(line, "ANCHOR").or(mark(line, "ANCHOR_END")).is_some();
        let lines = (1..).zip(self.text.lines());
        lines.filter(move |(_, line)| !is_mark(line))
    }
}

/// Adds lines to a piece, without the indentation that they share; a blank line separates them from those before.
fn add(piece: &mut String, lines: &[&str]) {
    let written = lines.iter().filter(|line| !line.trim().is_empty());
    let indent = written
        .map(|line| line.len() - line.trim_start().len())
        .min()
        .unwrap_or(0);
    if !piece.is_empty() {
        piece.push('\n');
    }
    for line in lines {
        piece.push_str(line.get(indent..).unwrap_or(""));
        piece.push('\n');
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "//! Shows a sum.

// ANCHOR: sum
/// Adds.
fn sum() {
// ANCHOR_END: sum
    hidden();
    // ANCHOR: sum
    // ANCHOR: inner
    if a {
        b();

    }
    // ANCHOR_END: inner
}
// ANCHOR_END: sum
";

    fn complaints(text: &str) -> Vec<String> {
        Program::of("a/b", text.to_string()).complaints
    }

    #[test]
    fn a_piece_is_what_its_marks_enclose() {
        let program = Program::of("a/b", TEXT.to_string());
        assert_eq!(program.complaints, Vec::<String>::new());
        assert_eq!(program.piece("inner"), Ok("if a {\n    b();\n\n}\n"));
        assert_eq!(
            program.piece("sum"),
            Ok("/// Adds.\nfn sum() {\n\n    if a {\n        b();\n\n    }\n}\n")
        );
        assert_eq!(
            program.whole(),
            "//! Shows a sum.\n\n/// Adds.\nfn sum() {\n    hidden();\n    if a {\n        b();\n\n    }\n}\n"
        );
    }

    #[test]
    fn marks_come_in_pairs() {
        assert_eq!(
            complaints(
                "//! A.\n// ANCHOR: p\n// ANCHOR_END: p\n// ANCHOR_END: q\n// ANCHOR: r\n// ANCHOR: r\n"
            ),
            [
                "book/examples/a/b.rs:3: the piece `p` ends, and has no lines",
                "book/examples/a/b.rs:4: the piece `q` ends, and has no lines",
                "book/examples/a/b.rs:6: the piece `r` begins twice",
                "book/examples/a/b.rs: the piece `r` does not end",
            ]
        );
        assert_eq!(
            complaints("fn main() {}\n"),
            [
                "book/examples/a/b.rs does not begin with a `//!` comment that says what the program shows"
            ]
        );
    }

    #[test]
    fn a_piece_is_whole_and_names_its_modes() {
        assert_eq!(
            complaints(
                "//! A.\n// ANCHOR: p\nfn f() {\n    x.partition_src(&t);\n    // ANCHOR_END: p\n}\n"
            ),
            [
                "book/examples/a/b.rs:3: a piece opens a bracket that closes in line 6, which no piece shows",
                "book/examples/a/b.rs:4: `partition_src` without its modes: add a comment such as `// (CPY, CPY_M, CPY_K)`",
            ]
        );
    }

    #[test]
    fn every_piece_is_shown() {
        let programs = Programs::of([("a/b", TEXT.to_string())]);
        let shown = |names: &[&str]| {
            names
                .iter()
                .map(|name| ("a/b".to_string(), name.to_string()))
                .collect()
        };
        assert_eq!(
            programs.unseen(&shown(&["sum", "inner"])),
            Vec::<String>::new()
        );
        assert_eq!(
            programs.unseen(&shown(&["sum"])),
            ["book/examples/a/b.rs: no chapter shows the piece `inner`"]
        );
    }

    #[test]
    fn the_manifest_lists_every_program() {
        let programs = Programs::of([("a/b-c", TEXT.to_string())]);
        let entry = "[[example]]\nname = \"a_b_c\"\npath = \"examples/a/b-c.rs\"\n";
        assert_eq!(programs.unlisted(entry), Vec::<String>::new());
        assert_eq!(
            programs.unlisted(""),
            [format!("book/Cargo.toml lacks these lines:\n{entry}")]
        );
        assert_eq!(
            programs.unlisted(&format!("{entry}\n{entry}")),
            ["book/Cargo.toml lists 2 examples, and there are 1 programs"]
        );
    }
}
