//! The preprocessor for programs: pieces become Rust blocks, outputs become text, and the whole program follows the chapter;
//! a Rust block that is no piece has its whole program beside it.

use std::ops::Range;

use mdbook_driver::book::{Book, BookItem};
use mdbook_driver::errors::{Error, Result};
use mdbook_preprocessor::{Preprocessor, PreprocessorContext};

use super::source::{self, Programs};
use super::{chapter, doctest};
use crate::book::drawings::Drawings;
use crate::markdown::{self, Fence};

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
            let of_piece = format!("{} data-piece=\"{}\"", of_program(&name), shown.name);
            edits.push((shown.range, block(&of_piece, "rust", piece, "")));
            if let Some(output) = shown.output {
                edits.push((
                    output.range,
                    block("class=\"output\"", "text", &output.body, ""),
                ));
            }
            if !programs.contains(&shown.program) {
                programs.push(shown.program);
            }
        }
        let fences = markdown::parts(text).fences;
        let blocks = fences.into_iter().filter(Fence::is_rust);
        edits.extend(blocks.map(|fence| (fence.range.clone(), self.block(&fence, file))));
        edits.sort_by_key(|(range, _)| range.start);
        let mut text = text.to_string();
        for (range, piece) in edits.into_iter().rev() {
            text.replace_range(range, &piece);
        }
        for name in programs {
            text.push_str(&self.whole(&name));
        }
        Ok(text)
    }

    /// A Rust block of `file` that is no piece, with what its copy button copies.
    fn block(&self, fence: &Fence, file: &str) -> String {
        let name = format!(
            "{}-{}",
            source::example(file.trim_end_matches(".md")),
            fence.line
        );
        let whole = self.drawings.keep_all(&format!(
            "<script type=\"text/plain\" class=\"whole-program\" data-program=\"{name}\">{}</script>",
            doctest::whole(&fence.body)
        ));
        let info = fence.info.as_deref().unwrap_or("rust");
        block(&of_program(&name), info, &fence.body, &whole)
    }

    /// The whole of a program, folded.
    fn whole(&self, program: &str) -> String {
        let name = source::example(program);
        let found = self.programs.get(program).ok();
        let text = found.map(source::Program::whole).unwrap_or_default();
        let numbers = found.map(source::Program::numbers).unwrap_or_default();
        let text = text
            .replace('&', "&amp;")
            .replace('<', "&lt;")
            .replace('>', "&gt;");
        let code = self.drawings.keep_all(&format!(
            "<div class=\"numbered\"><pre class=\"lines\" aria-hidden=\"true\">{numbers}</pre>\
             <pre><code class=\"language-rust\">{text}</code></pre></div>"
        ));
        format!(
            "\n<details class=\"whole-program\" data-program=\"{name}\">\n\
             <summary>The whole program: <code>cargo run -p colex-book --example {name}</code></summary>\n\
             <p>The numbers are the lines of the file, as errors name them. Lines that mark the pieces of this page are left out.</p>\n\
             {code}\n</details>\n"
        )
    }
}

/// The attributes of a block whose copy button copies the program `name`.
fn of_program(name: &str) -> String {
    format!("class=\"program\" data-program=\"{name}\"")
}

/// A fence, and what follows it, within a `<div>` that has the attributes.
fn block(attributes: &str, language: &str, body: &str, after: &str) -> String {
    format!("<div {attributes}>\n\n````{language}\n{body}````\n\n{after}</div>\n")
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
            "# A\n\n<div class=\"program\" data-program=\"layout_a\" data-piece=\"p\">\n\n````rust\nprintln!(\"{}\", 1 < 2);\n````\n\n</div>\n\n\
             <div class=\"output\">\n\n````text\ntrue\n````\n\n</div>\n\n"
        );
        assert!(
            end.contains("--example layout_a</code></summary>\n<p>")
                && end.contains("</p>\n<!--drawing 0-->\n</details>"),
            "{end}"
        );
    }

    #[test]
    fn a_block_has_its_program() {
        let page = included("# A\n\n```rust,should_panic\na();\n# b();\n```\n\nText.\n");
        assert_eq!(
            page.expect("it has no piece").replace("\n\n\n", "\n\n"),
            "# A\n\n<div class=\"program\" data-program=\"layout_a-3\">\n\n````rust,should_panic\na();\n# b();\n````\n\n\
             <!--drawing 0--></div>\n\nText.\n"
        );
    }

    #[test]
    fn a_piece_that_is_missing_names_its_line() {
        let text = "# A\n\n```program\n{{#include ../../examples/layout/a.rs:q}}\n```\n";
        let what = "book/examples/layout/a.rs has no `// ANCHOR: q`; it has p".to_string();
        assert_eq!(included(text), Err((3, what)));
    }
}
