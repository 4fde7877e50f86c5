//! The list of terms: in alphabetical order, and each leads to a chapter that has the word.

use anyhow::Result;

use super::Chapters;
use crate::workspace;

const PAGE: &str = "appendix/terms.md";

/// Checks the page against the chapters that it names; counts the terms.
pub(crate) fn check(chapters: &Chapters, complaints: &mut Vec<String>) -> Result<usize> {
    let page = workspace::read(&chapters.folder.join(PAGE))?;
    let terms = terms(&page);
    complaints.extend(unordered(&terms));
    for term in &terms {
        let chapter = chapters.folder.join("appendix").join(term.chapter);
        let text = workspace::read(&chapter)?.to_lowercase();
        if !text.contains(&term.word.to_lowercase()) {
            complaints.push(format!(
                "book/chapters/{PAGE}: the chapter of `{}`, {}, does not have the word",
                term.word, term.chapter
            ));
        }
    }
    Ok(terms.len())
}

/// A row of the table: the word, and the file that explains it.
#[derive(Debug, PartialEq)]
struct Term<'a> {
    word: &'a str,
    chapter: &'a str,
}

/// The rows of the table, without its head.
fn terms(page: &str) -> Vec<Term<'_>> {
    page.lines().filter_map(term).collect()
}

fn term(row: &str) -> Option<Term<'_>> {
    let mut cells = row.strip_prefix("| ")?.strip_suffix(" |")?.split(" | ");
    let word = cells.next()?.trim_matches('`');
    let link = cells.last()?.strip_suffix(')')?.split("](").nth(1)?;
    let chapter = link.split('#').next()?;
    Some(Term { word, chapter })
}

/// A complaint for each term that the alphabet wants before the one above it.
fn unordered(terms: &[Term<'_>]) -> Vec<String> {
    let pairs = terms.windows(2);
    let wrong = pairs.filter(|pair| pair[0].word.to_lowercase() >= pair[1].word.to_lowercase());
    wrong
        .map(|pair| {
            format!(
                "book/chapters/{PAGE}: `{}` stands before `{}`",
                pair[0].word, pair[1].word
            )
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const PAGE: &str = "| term | means | explained in |\n|---|---|---|\n\
                        | bank | a column | [Swizzles](../layout/swizzles.md#by-hand) |\n\
                        | `wgmma` | a product | [Hopper](../atom/hopper.md) |\n";

    #[test]
    fn a_row_is_a_word_and_its_chapter() {
        let expected = [
            ("bank", "../layout/swizzles.md"),
            ("wgmma", "../atom/hopper.md"),
        ];
        assert_eq!(
            terms(PAGE),
            expected.map(|(word, chapter)| Term { word, chapter })
        );
    }

    #[test]
    fn the_order_is_that_of_the_alphabet() {
        assert_eq!(unordered(&terms(PAGE)), Vec::<String>::new());
        let mut transposed = terms(PAGE);
        transposed.reverse();
        assert_eq!(
            unordered(&transposed),
            ["book/chapters/appendix/terms.md: `wgmma` stands before `bank`"]
        );
    }
}
