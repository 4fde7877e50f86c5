//! The pieces that a chapter shows, each with the output that stands below it.

use std::ops::Range;

use crate::markdown::{self, Fence};

/// A piece of a program in a chapter.
#[derive(Debug, PartialEq)]
pub(super) struct ShownPiece {
    pub(super) line: usize,
    /// The bytes of the chapter that its fence takes.
    pub(super) range: Range<usize>,
    /// The program, as `layout/composition`.
    pub(super) program: String,
    /// The piece.
    pub(super) name: String,
    /// The `output` fence that follows.
    pub(super) output: Option<Output>,
}

/// An `output` fence.
#[derive(Debug, PartialEq)]
pub(super) struct Output {
    pub(super) line: usize,
    pub(super) body: String,
    pub(super) range: Range<usize>,
}

/// What a chapter shows of programs.
#[derive(Debug, Default)]
pub(super) struct Pieces {
    pub(super) shown: Vec<ShownPiece>,
    /// What is wrong, with its line.
    pub(super) complaints: Vec<(usize, String)>,
}

/// The pieces in `text`, the text of `book/chapters/FILE`.
pub(super) fn read(text: &str, file: &str) -> Pieces {
    let mut pieces = Pieces::default();
    let mut above: Option<Fence> = None;
    for fence in markdown::parts(text).fences {
        let touches = |above: &Fence| text[above.range.end..fence.range.start].trim().is_empty();
        if fence.is_program() {
            if above
                .as_ref()
                .is_some_and(|above| above.is_program() && touches(above))
            {
                let what = "two pieces without prose between them: write what the second does";
                pieces.complaints.push((fence.line, what.to_string()));
            }
            pieces.take_program(&fence, file);
        } else if fence.is_output() {
            let follows = |above: &Fence| above.is_program() && touches(above);
            pieces.take_output(&fence, above.as_ref().is_some_and(follows));
        }
        above = Some(fence);
    }
    pieces
}

impl Pieces {
    fn take_program(&mut self, fence: &Fence, file: &str) {
        let Some((program, name)) = include(&fence.body, file) else {
            let back = up(file);
            let what = format!(
                "a `program` block holds one line: {{{{#include {back}examples/PART/CHAPTER.rs:PIECE}}}}"
            );
            self.complaints.push((fence.line, what));
            return;
        };
        self.shown.push(ShownPiece {
            line: fence.line,
            range: fence.range.clone(),
            program,
            name,
            output: None,
        });
    }

    fn take_output(&mut self, fence: &Fence, follows: bool) {
        match self.shown.last_mut() {
            Some(shown) if follows => {
                shown.output = Some(Output {
                    line: fence.line,
                    body: fence.body.clone(),
                    range: fence.range.clone(),
                });
            }
            _ => {
                let what = "an `output` block stands below the `program` block that prints it";
                self.complaints.push((fence.line, what.to_string()));
            }
        }
    }
}

/// From the folder of `book/chapters/FILE` to `book`.
fn up(file: &str) -> String {
    "../".repeat(1 + file.matches('/').count())
}

/// The program and the piece that the body of a fence includes.
fn include(body: &str, file: &str) -> Option<(String, String)> {
    let path = body
        .trim()
        .strip_prefix("{{#include ")?
        .strip_suffix("}}")?
        .trim();
    let (program, name) = path
        .strip_prefix(&up(file))?
        .strip_prefix("examples/")?
        .split_once(".rs:")?;
    (!name.is_empty() && !name.contains(char::is_whitespace))
        .then(|| (program.to_string(), name.to_string()))
}

#[cfg(test)]
mod tests {
    use super::*;

    const PIECE: &str = "```program\n{{#include ../../examples/layout/a.rs:p}}\n```\n";

    fn complaints(text: &str) -> Vec<(usize, String)> {
        read(text, "layout/a.md").complaints
    }

    #[test]
    fn a_piece_has_the_output_below_it() {
        let text = format!("{PIECE}\n```output\n1\n```\n\n{PIECE}");
        let pieces = read(&text, "layout/a.md");
        assert!(pieces.complaints.is_empty());
        let shown: Vec<_> = pieces
            .shown
            .iter()
            .map(|shown| {
                (
                    shown.line,
                    &*shown.program,
                    &*shown.name,
                    shown.output.as_ref().map(|output| &*output.body),
                )
            })
            .collect();
        assert_eq!(
            shown,
            [
                (1, "layout/a", "p", Some("1\n")),
                (9, "layout/a", "p", None)
            ]
        );
    }

    #[test]
    fn a_piece_is_included_by_its_name() {
        for body in [
            "a();",
            "{{#include ../../examples/layout/a.rs}}",
            "{{#include ../examples/layout/a.rs:p}}",
            "{{#include ../../examples/a.rs:}}",
        ] {
            assert_eq!(
                complaints(&format!("# A\n\n```program\n{body}\n```\n")),
                [(3, "a `program` block holds one line: {{#include ../../examples/PART/CHAPTER.rs:PIECE}}".to_string())]
            );
        }
    }

    #[test]
    fn prose_stands_between_pieces() {
        let what = "two pieces without prose between them: write what the second does";
        assert_eq!(
            complaints(&format!("{PIECE}\n{PIECE}")),
            [(5, what.to_string())]
        );
        let output = "\n```output\n1\n```\n";
        for between in ["\nText.\n\n", output] {
            assert_eq!(complaints(&format!("{PIECE}{between}{PIECE}")), []);
        }
    }

    #[test]
    fn an_output_follows_its_piece() {
        let what = "an `output` block stands below the `program` block that prints it";
        for text in [
            "```output\n1\n```\n".to_string(),
            format!("{PIECE}\nSo:\n\n```output\n1\n```\n"),
        ] {
            let found = complaints(&text);
            assert_eq!(
                found
                    .iter()
                    .map(|(_, what)| what.as_str())
                    .collect::<Vec<_>>(),
                [what],
                "{text}"
            );
        }
    }
}
