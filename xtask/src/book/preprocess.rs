//! The preprocessor: figures become SVG, formulas MathML and marks links before mdBook sees the chapter, and short code in
//! tables gets a span.

use std::ops::Range;
use std::path::PathBuf;
use std::sync::Arc;

use mdbook_driver::book::{Book, BookItem};
use mdbook_driver::errors::{Error, Result};
use mdbook_preprocessor::{Preprocessor, PreprocessorContext};

use super::api::{self, Api};
use super::cells;
use super::chapters::marks;
use super::drawings::Drawings;
use super::math;
use crate::{figure, markdown};

/// Draws every figure and every formula of the book; the first that cannot be drawn fails the build.
pub(super) struct Drawn {
    pub(super) drawings: Drawings,
    /// The documentation that the chapters link to.
    pub(super) api: Option<Arc<Api>>,
    pub(super) root: PathBuf,
    /// Whether the explorer's module is built: without it, no figure responds.
    pub(super) has_module: bool,
}

impl Preprocessor for Drawn {
    fn name(&self) -> &str {
        "drawn"
    }

    fn run(&self, _: &PreprocessorContext, mut book: Book) -> Result<Book> {
        let mut failed = None;
        book.for_each_mut(|item| {
            let BookItem::Chapter(chapter) = item else {
                return;
            };
            let file = chapter.source_path.as_deref();
            let file = file.map(|file| file.to_string_lossy().into_owned());
            let file = file.unwrap_or_default();
            let foot = api::foot(self.api.as_deref(), &self.root, &file, &chapter.content);
            let foot = match foot {
                Ok(foot) => foot,
                Err(what) => {
                    failed.get_or_insert(format!("book/chapters/{file}: {what}"));
                    return;
                }
            };
            match drawn(&chapter.content, &file, &self.drawings, self.has_module) {
                Ok(content) => chapter.content = content + &foot,
                Err((line, what)) => {
                    let file = chapter
                        .source_path
                        .as_deref()
                        .unwrap_or_else(|| chapter.name.as_ref());
                    failed
                        .get_or_insert(format!("book/chapters/{}:{line}: {what}", file.display()));
                }
            }
        });
        failed.map_or(Ok(book), |what| Err(Error::msg(what)))
    }
}

/// `text`, of the chapter `file`, with its figures and formulas drawn, its marks linked and its cells kept together, or
/// the line and the reason of the first that cannot be.
fn drawn(
    text: &str,
    file: &str,
    drawings: &Drawings,
    has_module: bool,
) -> std::result::Result<String, (usize, String)> {
    let parts = markdown::parts(text);
    let mut pieces: Vec<(Range<usize>, String)> = Vec::new();
    for fence in parts.fences {
        if let Some(kind) = fence.figure_kind() {
            let mut figure =
                figure::draw(kind, &fence.body).map_err(|error| (fence.line, error.to_string()))?;
            if !has_module {
                figure = figure::still(&figure);
            }
            pieces.push((fence.range.clone(), drawings.keep(&figure)));
        }
    }
    for formula in parts.formulas {
        let mathml = math::mathml(&formula).map_err(|what| (formula.line, what))?;
        pieces.push((formula.range, mathml));
    }
    pieces.extend(marks::linked(text, file));
    pieces.extend(cells::kept(text));
    pieces.sort_by_key(|(range, _)| range.start);
    let mut text = text.to_string();
    for (range, piece) in pieces.into_iter().rev() {
        text.replace_range(range, &piece);
    }
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn formulas_are_replaced_where_they_stand() {
        let text = drawn(
            "so $a$ and `$b$` and $c$.\n",
            "a.md",
            &Drawings::default(),
            true,
        )
        .expect("both formulas are well formed");
        assert!(
            text.starts_with("so <math") && text.contains("</math> and `$b$` and <math"),
            "{text}"
        );
        assert!(text.ends_with("</math>.\n"), "{text}");
    }

    #[test]
    fn a_figure_that_cannot_be_drawn_names_its_line() {
        let (line, what) = drawn(
            "one\n\n```figure nonsense\n4:1\n```\n",
            "a.md",
            &Drawings::default(),
            true,
        )
        .expect_err("there is no such kind");
        assert_eq!(line, 3);
        assert!(what.contains("`nonsense`"), "{what}");
    }
}
