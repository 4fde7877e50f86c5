//! The preprocessor for programs: pieces become Rust blocks, outputs become text, and the whole program follows the chapter.

use std::ops::Range;

use mdbook_driver::book::{Book, BookItem};
use mdbook_driver::errors::{Error, Result};
use mdbook_preprocessor::{Preprocessor, PreprocessorContext};

use super::chapter;
use super::source::{self, Programs};
use crate::book::drawings::Drawings;

/// Includes the pieces of the programs; the first that is missing fails the build.
pub(crate) struct Included {
    pub(super) programs: Programs,
    pub(super) drawings: Drawings,
}

impl Included {
    /// With the programs of the repository at `root`; their whole texts wait in `drawings`, as they are no words to find.
    pub(crate) fn new(root: &std::path::Path, drawings: Drawings) -> anyhow::Result<Included> {
        let programs = Programs::read(root)?;
        Ok(Included { programs, drawings })
    }

    /// `text`, that of `book/chapters/FILE`, with the pieces in their places and the programs at its end.
    fn included(&self, text: &str, file: &str) -> std::result::Result<String, (usize, String)> {
        let pieces = chapter::read(text, file);
        if let Some(complaint) = pieces.complaints.into_iter().next() {
            return Err(complaint);
        }
        let mut edits: Vec<(Range<usize>, String)> = Vec::new();
        let mut programs: Vec<String> = Vec::new();
        for shown in pieces.shown {
            let program = self
                .programs
                .get(&shown.program)
                .map_err(|what| (shown.line, what))?;
            let piece = program
                .piece(&shown.name)
                .map_err(|what| (shown.line, what))?;
            let name = source::example(&shown.program);
            edits.push((
                shown.range,
                block(&format!("program\" data-program=\"{name}"), "rust", piece),
            ));
            if let Some(output) = shown.output {
                edits.push((output.range, block("output", "text", &output.body)));
            }
            if !programs.contains(&shown.program) {
                programs.push(shown.program);
            }
        }
        let mut text = text.to_string();
        for (range, piece) in edits.into_iter().rev() {
            text.replace_range(range, &piece);
        }
        for name in programs {
            text.push_str(&self.whole(&name));
        }
        Ok(text)
    }

    /// The whole of a program, folded.
    fn whole(&self, program: &str) -> String {
        let name = source::example(program);
        let text = self
            .programs
            .get(program)
            .map(source::Program::whole)
            .unwrap_or_default();
        let text = text
            .replace('&', "&amp;")
            .replace('<', "&lt;")
            .replace('>', "&gt;");
        let code = self.drawings.keep_all(&format!(
            "<pre><code class=\"language-rust\">{text}</code></pre>"
        ));
        format!(
            "\n<details class=\"whole-program\" data-program=\"{name}\">\n\
             <summary>The whole program: <code>cargo run -p colex-book --example {name}</code></summary>\n{code}\n</details>\n"
        )
    }
}

/// A fence within a `<div>` of a class.
fn block(class: &str, language: &str, body: &str) -> String {
    format!("<div class=\"{class}\">\n\n````{language}\n{body}````\n\n</div>\n")
}

impl Preprocessor for Included {
    fn name(&self) -> &str {
        "programs"
    }

    fn run(&self, _: &PreprocessorContext, mut book: Book) -> Result<Book> {
        let mut failed = None;
        book.for_each_mut(|item| {
            let BookItem::Chapter(chapter) = item else {
                return;
            };
            let Some(file) = chapter
                .source_path
                .as_deref()
                .map(|path| path.to_string_lossy().replace('\\', "/"))
            else {
                return;
            };
            match self.included(&chapter.content, &file) {
                Ok(content) => chapter.content = content,
                Err((line, what)) => {
                    failed.get_or_insert(format!("book/chapters/{file}:{line}: {what}"));
                }
            }
        });
        failed.map_or(Ok(book), |what| Err(Error::msg(what)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn included(text: &str) -> std::result::Result<String, (usize, String)> {
        let program = "//! A.\nfn main() {\n    // ANCHOR: p\n    println!(\"{}\", 1 < 2);\n    // ANCHOR_END: p\n}\n";
        let programs = Programs::of([("layout/a", program.to_string())]);
        let drawings = Drawings::default();
        Included { programs, drawings }.included(text, "layout/a.md")
    }

    #[test]
    fn a_piece_and_its_output_are_blocks_of_a_page() {
        let text = "# A\n\n```program\n{{#include ../../examples/layout/a.rs:p}}\n```\n\n```output\ntrue\n```\n\nText.\n";
        let page = included(text).expect("the piece is there");
        let (start, end) = page.split_once("\nText.\n").expect("the text stays");
        assert_eq!(
            start.replace("\n\n\n", "\n\n"),
            "# A\n\n<div class=\"program\" data-program=\"layout_a\">\n\n````rust\nprintln!(\"{}\", 1 < 2);\n````\n\n</div>\n\n\
             <div class=\"output\">\n\n````text\ntrue\n````\n\n</div>\n\n"
        );
        assert!(
            end.contains("--example layout_a</code></summary>\n<!--drawing 0-->\n</details>"),
            "{end}"
        );
    }

    #[test]
    fn a_piece_that_is_missing_names_its_line() {
        let text = "# A\n\n```program\n{{#include ../../examples/layout/a.rs:q}}\n```\n";
        let what = "book/examples/layout/a.rs has no `// ANCHOR: q`; it has p".to_string();
        assert_eq!(included(text), Err((3, what)));
    }
}
