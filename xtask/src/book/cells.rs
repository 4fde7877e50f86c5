//! Short code in the cells of tables: it stays on one line, since a layout that breaks after its colon is hard to read.

use std::ops::Range;

use pulldown_cmark::{Event, Options, Parser, Tag, TagEnd};

/// The most characters that a cell keeps together.
const SHORT: usize = 25;

/// The short code in the tables of `text`, each with its range and with the span that keeps it on one line.
pub(super) fn kept(text: &str) -> Vec<(Range<usize>, String)> {
    let mut found = Vec::new();
    let mut is_in_cell = false;
    for (event, range) in Parser::new_ext(text, Options::ENABLE_TABLES).into_offset_iter() {
        match event {
            Event::Start(Tag::TableCell) => is_in_cell = true,
            Event::End(TagEnd::TableCell) => is_in_cell = false,
            Event::Code(code) if is_in_cell && is_short(&code) => {
                let span = format!("<span class=\"short\">{}</span>", &text[range.clone()]);
                found.push((range, span));
            }
            _ => {}
        }
    }
    found
}

/// Whether `code` is one word and few characters: a call breaks at its spaces.
fn is_short(code: &str) -> bool {
    code.chars().count() <= SHORT && !code.contains(' ')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn short_code_in_a_cell_stays_together() {
        let table = |code: &str| {
            format!("`(4,8):(8,1)`\n\n| written | means |\n|---|---|\n| `{code}` | a |\n")
        };
        let text = table("(2,(1,6)):(1,(0,2))");
        let spans = kept(&text);
        assert_eq!(spans.len(), 1, "{spans:?}");
        let (range, span) = &spans[0];
        assert_eq!(&text[range.clone()], "`(2,(1,6)):(1,(0,2))`");
        assert_eq!(span, "<span class=\"short\">`(2,(1,6)):(1,(0,2))`</span>");
        for breaks in ["Layout::concat([&a, &b])", "((2,3),5,7,11):((1,2),6,30)"] {
            assert_eq!(kept(&table(breaks)), [], "{breaks}");
        }
    }
}
