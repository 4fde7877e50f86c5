//! The programs of the book: `book/examples/PART/CHAPTER.rs`, which the chapters show in pieces.
//!
//! A piece stands between `// ANCHOR: NAME` and `// ANCHOR_END: NAME` in its program, and in a chapter as
//!
//! ````text
//! ```program
//! {{#include ../../examples/layout/composition.rs:by_hand}}
//! ```
//!
//! ```output
//! ((2,2),3):((24,2),8)
//! ```
//! ````
//!
//! rustdoc takes no `program` fence for Rust, so a piece is not compiled twice. The `output` fence is what the program
//! prints between the line `== by_hand ==` and the next such line: [`run::check`] compares the two.

mod brackets;
mod chapter;
mod doctest;
mod modes;
mod pages;
mod run;
mod sections;
mod source;

use std::collections::BTreeSet;
use std::path::Path;

use anyhow::Result;

use super::chapters::Chapters;
use crate::{markdown, workspace};
use chapter::ShownPiece;
pub(super) use pages::Included;
pub(crate) use run::Blessing;
pub(super) use run::check as run;
use source::Programs;

/// How many lines of code a reader sees at once.
const LINES: usize = 40;

/// How many characters of a line of a piece a reader sees at once: the 100 of rustfmt without the indentation of a function.
const COLUMNS: usize = 96;

/// How many lines a block may hide: those that make it a program, and no matter of its own.
const HIDDEN: usize = 6;

/// Checks the text of the programs and of the chapters that show them; counts the pieces.
pub(super) fn check(
    root: &Path,
    chapters: &Chapters,
    complaints: &mut Vec<String>,
) -> Result<usize> {
    let programs = Programs::read(root)?;
    complaints.extend(programs.complaints());
    complaints.extend(programs.unlisted(&workspace::read(&root.join("book/Cargo.toml"))?));
    let mut shown = BTreeSet::new();
    let mut count = 0;
    for file in &chapters.files {
        let text = workspace::read(&chapters.folder.join(file))?;
        let pieces = chapter::read(&text, file);
        let at = |line: usize| format!("book/chapters/{file}:{line}");
        complaints.extend(
            pieces
                .complaints
                .iter()
                .map(|(line, what)| format!("{}: {what}", at(*line))),
        );
        for piece in &pieces.shown {
            count += 1;
            complaints.extend(
                piece_complaint(piece, &programs).map(|what| format!("{}: {what}", at(piece.line))),
            );
            shown.insert((piece.program.clone(), piece.name.clone()));
        }
        complaints.extend(own_program(file, &pieces.shown, &programs));
        let fences = markdown::parts(&text).fences;
        for fence in fences.iter().filter(|fence| fence.is_rust()) {
            let complaint = block_complaint(&fence.body);
            complaints.extend(complaint.map(|what| format!("{}: {what}", at(fence.line))));
        }
    }
    complaints.extend(programs.unseen(&shown));
    Ok(count)
}

/// What is wrong with a piece that a chapter shows.
fn piece_complaint(shown: &ShownPiece, programs: &Programs) -> Option<String> {
    let program = match programs.get(&shown.program) {
        Ok(program) => program,
        Err(what) => return Some(what),
    };
    let piece = match program.piece(&shown.name) {
        Ok(piece) => piece,
        Err(what) => return Some(what),
    };
    let too_much = length_complaint(piece.lines().count()).or_else(|| width_complaint(piece));
    if too_much.is_some() {
        return too_much;
    }
    let prints = prints(piece);
    (prints && shown.output.is_none()).then(|| {
        format!(
            "`{}` prints, but no `output` block after it shows what",
            shown.name
        )
    })
}

/// Whether code prints what an `output` block can show: standard error is for what depends on the machine.
fn prints(code: &str) -> bool {
    let code = code.replace("eprint", "");
    ["print!(", "println!("]
        .iter()
        .any(|call| code.contains(call))
}

/// A chapter that shows programs has one of its own.
fn own_program(file: &str, shown: &[ShownPiece], programs: &Programs) -> Option<String> {
    let own = file.strip_suffix(".md")?;
    (!shown.is_empty() && programs.get(own).is_err()).then(|| {
        format!("book/chapters/{file} shows pieces, but there is no book/examples/{own}.rs")
    })
}

/// Why the book may not hold a Rust block that is no piece of a program.
fn block_complaint(body: &str) -> Option<String> {
    let is_hidden = |line: &&str| *line == "#" || line.starts_with("# ");
    let hidden = body.lines().filter(is_hidden).count();
    if prints(body) {
        return Some(
            "a test shows nothing of what it prints: make the block a piece of a program, and put an `output` block after it"
                .into(),
        );
    }
    if hidden > HIDDEN {
        return Some(format!(
            "{hidden} hidden lines in one block: hide at most {HIDDEN}; a piece of a program has the others in its program"
        ));
    }
    length_complaint(body.lines().count() - hidden)
}

fn length_complaint(lines: usize) -> Option<String> {
    (lines > LINES).then(|| {
        format!("{lines} lines in one block: show at most {LINES} at once and write between them what they do")
    })
}

/// What a reader does not see of the widest line: on a page of a usual width its end is cut off.
fn width_complaint(piece: &str) -> Option<String> {
    let width = |line: &&str| line.chars().count();
    let widest = piece.lines().max_by_key(width)?;
    (width(&widest) > COLUMNS).then(|| {
        format!(
            "a line of {} characters in one block: show at most {COLUMNS}, and write the rest as prose: `{}`",
            width(&widest),
            widest.trim()
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(program: &str, name: &str) -> ShownPiece {
        ShownPiece {
            line: 1,
            range: 0..0,
            program: program.into(),
            name: name.into(),
            output: None,
        }
    }

    fn programs(piece: &str) -> Programs {
        Programs::of([(
            "layout/a",
            format!("//! A.\n// ANCHOR: p\n{piece}\n// ANCHOR_END: p\n"),
        )])
    }

    #[test]
    fn a_piece_comes_from_a_program() {
        let programs = programs("a();");
        assert_eq!(piece_complaint(&shown("layout/a", "p"), &programs), None);
        assert_eq!(
            piece_complaint(&shown("layout/b", "p"), &programs).as_deref(),
            Some("there is no program book/examples/layout/b.rs")
        );
        assert_eq!(
            piece_complaint(&shown("layout/a", "q"), &programs).as_deref(),
            Some("book/examples/layout/a.rs has no `// ANCHOR: q`; it has p")
        );
    }

    #[test]
    fn what_prints_has_its_output() {
        let programs = programs("println!(\"{a}\");");
        let mut piece = shown("layout/a", "p");
        assert_eq!(
            piece_complaint(&piece, &programs).as_deref(),
            Some("`p` prints, but no `output` block after it shows what")
        );
        piece.output = Some(chapter::Output {
            line: 1,
            body: String::new(),
            range: 0..0,
        });
        assert_eq!(piece_complaint(&piece, &programs), None);
        assert_eq!(block_complaint("assert!(true);\n"), None);
        assert!(block_complaint("println!(\"x\");\n").is_some());
        assert_eq!(block_complaint("eprintln!(\"x\");\n"), None);
    }

    #[test]
    fn a_long_kernel_is_shown_in_pieces() {
        let long = "step();\n".repeat(41);
        let expected =
            "41 lines in one block: show at most 40 at once and write between them what they do";
        assert_eq!(block_complaint(&long).as_deref(), Some(expected));
        assert_eq!(
            block_complaint(&format!("# hidden();\n{}", &long[8..])),
            None
        );
        let programs = programs(long.trim_end());
        assert_eq!(
            piece_complaint(&shown("layout/a", "p"), &programs).as_deref(),
            Some(expected)
        );
    }

    #[test]
    fn a_wide_line_is_refused_by_what_a_reader_sees() {
        let line = |width: usize| format!("    {}", "x".repeat(width));
        let at = |width: usize| piece_complaint(&shown("layout/a", "p"), &programs(&line(width)));
        assert_eq!(at(96), None);
        assert_eq!(
            at(97).as_deref(),
            Some(&*format!(
                "a line of 97 characters in one block: show at most 96, and write the rest as prose: `{}`",
                "x".repeat(97)
            ))
        );
    }

    #[test]
    fn a_block_hides_few_lines() {
        let block = |hidden: usize| "# hidden();\n".repeat(hidden) + "#[shown]\nshown();\n";
        assert_eq!(block_complaint(&block(6)), None);
        assert_eq!(
            block_complaint(&block(7)).as_deref(),
            Some(
                "7 hidden lines in one block: hide at most 6; a piece of a program has the others in its program"
            )
        );
    }

    #[test]
    fn a_chapter_has_a_program_of_its_own() {
        let programs = programs("a();");
        let pieces = [shown("layout/a", "p")];
        assert_eq!(own_program("layout/a.md", &pieces, &programs), None);
        assert_eq!(own_program("layout/b.md", &[], &programs), None);
        assert_eq!(
            own_program("layout/b.md", &pieces, &programs).as_deref(),
            Some(
                "book/chapters/layout/b.md shows pieces, but there is no book/examples/layout/b.rs"
            )
        );
    }
}
