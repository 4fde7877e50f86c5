//! What a markdown file holds that can be wrong: code fences, links and formulas, each with its line.

use std::ops::Range;

use pulldown_cmark::{CodeBlockKind, Event, Options, Parser, Tag, TagEnd};

/// A code block.
#[derive(Debug, PartialEq)]
pub(crate) struct Fence {
    /// The line of its opening fence, counted from 1.
    pub(crate) line: usize,
    /// What follows the opening backticks; nothing for an indented block.
    pub(crate) info: Option<String>,
    /// The text between the fences.
    pub(crate) body: String,
    /// The bytes of the file that the block takes.
    pub(crate) range: Range<usize>,
}

/// A link or an image.
#[derive(Debug, PartialEq)]
pub(crate) struct Link {
    pub(crate) line: usize,
    pub(crate) target: String,
}

/// A formula: `$..$` or, on its own, `$$..$$`.
#[derive(Debug, PartialEq)]
pub(crate) struct Formula {
    pub(crate) line: usize,
    pub(crate) latex: String,
    pub(crate) is_display: bool,
    pub(crate) range: Range<usize>,
}

/// The parts of one markdown file.
#[derive(Debug, Default)]
pub(crate) struct Parts {
    pub(crate) fences: Vec<Fence>,
    pub(crate) links: Vec<Link>,
    pub(crate) formulas: Vec<Formula>,
    /// The lines of dollar signs that delimit no formula, since what they enclose is none: its braces may not balance.
    pub(crate) stray_dollars: Vec<usize>,
    /// The lines of `\(` and `\[`, which open a formula elsewhere and here stay as they are.
    pub(crate) stray_delimiters: Vec<usize>,
}

/// Takes `text` apart.
pub(crate) fn parts(text: &str) -> Parts {
    let options = Options::ENABLE_TABLES | Options::ENABLE_FOOTNOTES | Options::ENABLE_MATH;
    let mut parts = Parts::default();
    let mut is_in_block = false;
    let lines = LineEnds::of(text);
    for (event, range) in Parser::new_ext(text, options).into_offset_iter() {
        match &event {
            Event::Start(Tag::CodeBlock(_)) => is_in_block = true,
            Event::End(TagEnd::CodeBlock) => is_in_block = false,
            _ => {}
        }
        if let Event::Text(piece) = &event
            && !is_in_block
            && is_delimiter(piece, &text[..range.start])
        {
            parts.stray_delimiters.push(lines.line(range.start));
        }
        parts.take(event, lines.line(range.start), range, is_in_block);
    }
    parts
}

/// Whether `piece`, a text after `before`, shows `\(` or `\[`, or its bracket was written with a backslash.
fn is_delimiter(piece: &str, before: &str) -> bool {
    let is_inside = ["\\(", "\\)", "\\[", "\\]"]
        .iter()
        .any(|text| piece.contains(text));
    let after =
        |brackets: [char; 2], slashes| piece.starts_with(brackets) && before.ends_with(slashes);
    is_inside || after(['(', ')'], "\\") || after(['[', ']'], "\\\\")
}

impl Parts {
    /// Keeps what `event`, which begins on `line`, adds.
    fn take(&mut self, event: Event<'_>, line: usize, range: Range<usize>, is_in_block: bool) {
        match event {
            Event::Start(Tag::CodeBlock(kind)) => self.fences.push(Fence {
                line,
                info: info(kind),
                body: String::new(),
                range,
            }),
            Event::Text(piece) if is_in_block => {
                let fence = self.fences.last_mut();
                fence
                    .expect("a code block's text follows its start")
                    .body
                    .push_str(&piece);
            }
            Event::Text(piece) if piece.contains('$') => {
                self.stray_dollars.push(line);
                self.stray_dollars.dedup();
            }
            Event::Start(Tag::Link { dest_url, .. } | Tag::Image { dest_url, .. }) => {
                let target = dest_url.to_string();
                self.links.push(Link { line, target });
            }
            Event::InlineMath(latex) => {
                self.formulas.push(Formula::new(line, &latex, false, range))
            }
            Event::DisplayMath(latex) => {
                self.formulas.push(Formula::new(line, &latex, true, range))
            }
            _ => {}
        }
    }
}

/// The info string of a fence; an indented block has none.
fn info(kind: CodeBlockKind<'_>) -> Option<String> {
    match kind {
        CodeBlockKind::Fenced(info) => Some(info.to_string()),
        CodeBlockKind::Indented => None,
    }
}

impl Formula {
    fn new(line: usize, latex: &str, is_display: bool, range: Range<usize>) -> Formula {
        let latex = latex.to_string();
        Formula {
            line,
            latex,
            is_display,
            range,
        }
    }
}

/// Where the lines of a text end. A text has thousands of places whose lines are wanted, so it is searched for line ends once.
struct LineEnds {
    ends: Vec<usize>,
}

impl LineEnds {
    fn of(text: &str) -> LineEnds {
        let ends = text.match_indices('\n').map(|(at, _)| at).collect();
        LineEnds { ends }
    }

    /// Returns the line of byte `at`, counted from 1.
    fn line(&self, at: usize) -> usize {
        1 + self.ends.partition_point(|end| *end < at)
    }
}

impl Fence {
    /// The words of the info string.
    fn words(&self) -> impl Iterator<Item = &str> {
        self.info
            .as_deref()
            .unwrap_or("")
            .split([' ', ',', '\t'])
            .filter(|word| !word.is_empty())
    }

    /// The kind of drawing, if the block is a figure: the word after `figure`.
    pub(crate) fn figure_kind(&self) -> Option<&str> {
        let mut words = self.words();
        (words.next()? == "figure").then(|| words.next().unwrap_or(""))
    }

    /// Whether the block shows a piece of a program.
    pub(crate) fn is_program(&self) -> bool {
        self.words().next() == Some("program")
    }

    /// Whether the block shows what the program above it prints.
    pub(crate) fn is_output(&self) -> bool {
        self.words().next() == Some("output")
    }

    /// Whether rustdoc compiles the block.
    pub(crate) fn is_rust(&self) -> bool {
        self.words().next().is_none()
            || self
                .words()
                .any(|word| word.eq_ignore_ascii_case("rust") || word == "rs")
    }

    /// Why the block is not one that the book may hold: a Rust block that does not run, or one that only looks like text.
    pub(crate) fn complaint(&self) -> Option<String> {
        if self.info.is_none() {
            return Some(
                "an indented block is Rust to rustdoc: fence it and name its language".into(),
            );
        }
        if self.words().next().is_none() {
            return Some(
                "a fence without a language is Rust to rustdoc: write ```rust or ```text".into(),
            );
        }
        if !self.is_rust() {
            return None;
        }
        if let Some(word) = self.words().find(|word| !runs(word)) {
            return Some(format!(
                "a Rust block marked `{word}` does not run as it is shown"
            ));
        }
        self.body.contains("{{#").then(|| {
            "a Rust block with an `{{#include}}` cannot run: rustdoc does not expand it; a `program` block shows a piece"
                .into()
        })
    }
}

/// Whether a block whose info string holds `word` still runs.
fn runs(word: &str) -> bool {
    let is_error_code = word.len() == 5
        && word.starts_with('E')
        && word[1..].bytes().all(|byte| byte.is_ascii_digit());
    is_error_code || ["rust", "should_panic", "compile_fail", "standalone_crate"].contains(&word)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn complaint(info: &str, body: &str) -> Option<String> {
        let text = format!("# A chapter\n\n```{info}\n{body}\n```\n");
        let mut fences = parts(&text).fences;
        assert_eq!(fences.len(), 1, "{text}");
        assert_eq!(fences[0].line, 3);
        fences.remove(0).complaint()
    }

    #[test]
    fn blocks_that_run_are_accepted() {
        for info in [
            "rust",
            "rust,should_panic",
            "rust,compile_fail,E0277",
            "text",
            "sh",
            "figure layout",
        ] {
            assert_eq!(complaint(info, "x"), None, "{info}");
        }
    }

    #[test]
    fn rust_that_does_not_run_is_refused() {
        for info in [
            "rust,ignore",
            "rust,no_run",
            "rust ignore",
            "Rust",
            "rs",
            "rust,editable",
            "rust,ignore-x86",
        ] {
            assert!(complaint(info, "x").is_some(), "{info}");
        }
        assert_eq!(
            complaint("rust,no_run", "x").as_deref(),
            Some("a Rust block marked `no_run` does not run as it is shown")
        );
    }

    #[test]
    fn includes_are_refused_in_rust_only() {
        assert!(complaint("rust", "{{#include ../a.rs}}").is_some());
        assert_eq!(complaint("text", "{{#include ../a.ptx}}"), None);
    }

    #[test]
    fn blocks_without_a_language_are_refused() {
        assert!(complaint("", "x").is_some());
        assert!(
            parts("text\n\n    indented\n").fences[0]
                .complaint()
                .is_some()
        );
    }

    #[test]
    fn a_fence_inside_a_quote_is_found() {
        let fences = parts("> note\n>\n> ```rust,ignore\n> x\n> ```\n").fences;
        assert_eq!((fences.len(), fences[0].line), (1, 3));
        assert!(fences[0].complaint().is_some());
    }

    #[test]
    fn links_and_formulas_have_their_lines() {
        let parts = parts("a [b](c.md#d)\n\n![e](f.svg) and $g_1$\n\n$$h$$\n\n`$not$`\n");
        let links: Vec<_> = parts
            .links
            .iter()
            .map(|link| (link.line, link.target.as_str()))
            .collect();
        assert_eq!(links, [(1, "c.md#d"), (3, "f.svg")]);
        let formulas: Vec<_> = parts
            .formulas
            .iter()
            .map(|formula| (formula.line, formula.latex.as_str(), formula.is_display))
            .collect();
        assert_eq!(formulas, [(3, "g_1", false), (5, "h", true)]);
    }

    #[test]
    fn a_formula_that_does_not_close_is_found() {
        let stray = |text| parts(text).stray_dollars;
        assert_eq!(stray("a\n\nb $\\frac{1$ c\n"), [3]);
        assert_eq!(stray("a $x$ `$b` c\n\n```sh\n$d\n```\n"), [0; 0]);
    }

    #[test]
    fn delimiters_of_another_language_are_found() {
        let stray = |text| parts(text).stray_delimiters;
        assert_eq!(stray("a\n\nb \\\\(x\\\\) c\n"), [3, 3]);
        assert_eq!(stray("a \\(x\\) b\n"), [1, 1]);
        assert_eq!(stray("\\\\[\nx\n\\\\]\n"), [1, 3]);
        assert_eq!(
            stray("a (x) $\\(y\\)$ `\\(z` \\[S1\\] [b](c.md)\n\n```sh\n\\(\n```\n"),
            [0; 0]
        );
    }

    #[test]
    fn a_figure_names_its_kind() {
        let fences =
            parts("```figure layout\n4:1\n```\n\n```figure\n4:1\n```\n\n```text\n```\n").fences;
        let kinds: Vec<_> = fences.iter().map(Fence::figure_kind).collect();
        assert_eq!(kinds, [Some("layout"), Some(""), None]);
        assert_eq!(fences[0].body, "4:1\n");
    }
}
