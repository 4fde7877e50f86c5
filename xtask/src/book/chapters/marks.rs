//! The marks of worked examples in a chapter, such as `[S20]`: each ends the paragraph whose Rust block runs the example,
//! and becomes a small link to the list of examples. In the appendix a paragraph may begin with `**D3.**`.

use std::collections::BTreeSet;
use std::ops::Range;

use crate::figure;
use crate::markdown;

/// The list of examples, from which a mark takes the words that it shows under the pointer.
const LIST: &str = include_str!("../../../../book/chapters/appendix/examples.md");

/// The file of the list, among the chapters.
const LIST_PAGE: &str = "appendix/examples.md";

/// A letter and a number, as `S20`.
pub(super) type ExampleName = (char, u32);

/// One mark.
#[derive(Debug, PartialEq)]
pub(super) struct Mark {
    /// Its line, counted from 1.
    pub(super) line: usize,
    pub(super) name: ExampleName,
    /// Its bytes, brackets or asterisks included.
    pub(super) range: Range<usize>,
    /// Whether it is written `**S20.**`, as the appendix may.
    pub(super) is_bold: bool,
}

pub(super) fn shown((letter, number): ExampleName) -> String {
    format!("{letter}{number}")
}

/// The marks of `text` outside of code, in order.
pub(super) fn marks(text: &str) -> Vec<Mark> {
    let fences = markdown::parts(text).fences;
    let is_code = |at: usize| fences.iter().any(|fence| fence.range.contains(&at));
    let mut found = Vec::new();
    for (open, close) in [("[", "]"), ("**", ".**")] {
        for (at, _) in text.match_indices(open).filter(|(at, _)| !is_code(*at)) {
            let start = at + open.len();
            let Some(length) = text[start..].find(close).filter(|length| *length < 4) else {
                continue;
            };
            let end = start + length + close.len();
            // `[S20](..)` is a link with a text of its own.
            if let Some(name) = name(&text[start..start + length])
                && !text[end..].starts_with(['(', ':'])
            {
                found.push(Mark {
                    line: 1 + text[..at].matches('\n').count(),
                    name,
                    range: at..end,
                    is_bold: open == "**",
                });
            }
        }
    }
    found.sort_by_key(|mark| mark.range.start);
    found
}

/// `('S', 20)` from `S20`.
fn name(text: &str) -> Option<ExampleName> {
    let letter = text
        .chars()
        .next()
        .filter(|letter| "SD".contains(*letter))?;
    let number = &text[1..];
    let is_number = !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit());
    is_number
        .then(|| number.parse().ok())
        .flatten()
        .map(|number| (letter, number))
}

/// What is wrong with the place of a mark in the chapter `file`, with its line.
pub(super) fn misplaced(text: &str, file: &str) -> Vec<(usize, String)> {
    let lines: Vec<&str> = text.lines().collect();
    let marks = marks(text);
    let complaint = |mark: &Mark| {
        let name = shown(mark.name);
        if mark.is_bold {
            let is_appendix = file.starts_with("appendix/");
            return (!is_appendix).then(|| {
                format!("`**{name}.**` comes before what it marks: write `[{name}]` at the end of the paragraph")
            });
        }
        let line = text[..mark.range.start].rfind('\n').map_or(0, |at| at + 1);
        let before = text[line..mark.range.start].trim_start_matches(['>', '-', ' ']);
        let rest = text[mark.range.end..].split('\n').next().unwrap_or("");
        let ends_line = rest
            .split_whitespace()
            .all(|word| self::marks(word).len() == 1);
        let next = lines
            .get(mark.line)
            .copied()
            .unwrap_or("")
            .trim_start_matches(['>', ' ']);
        let ends_paragraph = ends_line && (next.is_empty() || next.starts_with("- "));
        if before.is_empty() {
            Some(format!("a paragraph begins with the mark [{name}]"))
        } else if !ends_paragraph {
            Some(format!(
                "the mark [{name}] stands within its paragraph: write it at the end"
            ))
        } else {
            None
        }
    };
    let all = marks.iter();
    all.filter_map(|mark| Some((mark.line, complaint(mark)?)))
        .collect()
}

/// What replaces the marks of the chapter `file`, and the numbers of the lists that they lead to.
///
/// The first mark of an example on a page has an id, and the list of examples leads back to it.
pub(crate) fn linked(text: &str, file: &str) -> Vec<(Range<usize>, String)> {
    let up = "../".repeat(file.matches('/').count());
    let id = |name| shown(name).to_lowercase();
    let mut seen = BTreeSet::new();
    let mut pieces: Vec<_> = marks(text)
        .into_iter()
        .map(|Mark { name, range, is_bold, .. }| {
            let (id, text) = (id(name), shown(name));
            let page = if name.0 == 'S' { "examples" } else { "disagreements" };
            let html = if is_bold {
                format!("<strong id=\"{id}\">{text}.</strong>")
            } else {
                let place = if seen.insert(name) {
                    format!(" id=\"{id}\"")
                } else {
                    String::new()
                };
                format!("<a class=\"example-mark\"{place} href=\"{up}appendix/{page}.html#{id}\" title=\"{}\">{text}</a>", about(name))
            };
            (range, html)
        })
        .collect();
    let is_list = file == LIST_PAGE;
    if is_list || file == "appendix/errata.md" {
        for (at, _) in text.match_indices("\n| S") {
            let start = at + "\n| ".len();
            let end = start + text[start..].find(' ').unwrap_or(0);
            let Some(name) = name(&text[start..end]) else {
                continue;
            };
            pieces.push((
                start..end,
                format!("<span id=\"{}\">{}</span>", id(name), shown(name)),
            ));
            let row = text[start..].lines().next().unwrap_or("");
            if let Some(chapter) = row.rfind(".md) |").filter(|_| is_list) {
                let after = start + chapter + ".md".len();
                pieces.push((after..after, format!("#{}", id(name))));
            }
        }
    }
    pieces
}

/// What the mark stands for, in words, as the value of an attribute.
fn about(name: ExampleName) -> String {
    let text = shown(name);
    let row = LIST
        .lines()
        .find_map(|line| line.strip_prefix(&format!("| {text} | ")));
    match row.and_then(|row| row.split(" | ").next()) {
        Some(what) => figure::escaped(&format!(
            "Worked example {text} of the list in the appendix: {}",
            what.replace('`', "")
        )),
        None => format!("Example {text} of the list"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "# A\n\nOne and\ntwo: [S1] [S2]\n\n```rust\n# [S9]\n```\n\n**D3.** Three, *S4*, [S5](b.md), [S678].\n";

    #[test]
    fn marks_outside_code_are_found() {
        let found: Vec<_> = marks(TEXT)
            .into_iter()
            .map(|mark| (mark.line, mark.name, mark.is_bold))
            .collect();
        assert_eq!(
            found,
            [
                (4, ('S', 1), false),
                (4, ('S', 2), false),
                (10, ('D', 3), true)
            ]
        );
    }

    #[test]
    fn a_mark_ends_its_paragraph() {
        let complaints = |text: &str| {
            let found = misplaced(text, "layout/a.md").into_iter();
            found
                .map(|(line, what)| format!("{line}: {what}"))
                .collect::<Vec<_>>()
        };
        assert_eq!(
            complaints("a\nb [S1] [D2]\n\n- c [S2]\n- d [S3]\n\n> e [S4]\n> \n> f\n"),
            [""; 0]
        );
        assert_eq!(
            complaints("**S1.** a\n"),
            ["1: `**S1.**` comes before what it marks: write `[S1]` at the end of the paragraph"]
        );
        assert_eq!(
            complaints("a\n\n[S1]\n"),
            ["3: a paragraph begins with the mark [S1]"]
        );
        let within = "1: the mark [S1] stands within its paragraph: write it at the end";
        assert_eq!(complaints("a [S1] b\n"), [within]);
        assert_eq!(complaints("a [S1]\nb\n"), [within]);
        assert_eq!(misplaced("**D1.** a\n", "appendix/b.md"), []);
    }

    #[test]
    fn marks_lead_to_their_row() {
        let html = |text: &str, file: &str| {
            linked(text, file)
                .into_iter()
                .map(|(_, html)| html)
                .collect::<Vec<_>>()
        };
        assert_eq!(
            html("a [S7]\n", "layout/b.md"),
            [
                "<a class=\"example-mark\" id=\"s7\" href=\"../appendix/examples.html#s7\" title=\"Worked example S7 of the list in the appendix: (_2,_4):(_1,_2)\">S7</a>"
            ]
        );
        let twice = html("a [D1]\n\nb [D1]\n", "b.md");
        let has_id = |html: &String| html.contains("id=");
        assert_eq!(twice.iter().map(has_id).collect::<Vec<_>>(), [true, false]);
        assert_eq!(
            html("**D1.** a\n", "appendix/disagreements.md"),
            ["<strong id=\"d1\">D1.</strong>"]
        );
        for page in ["appendix/examples.md", "appendix/errata.md"] {
            assert_eq!(html("\n| S7 | a |\n", page), ["<span id=\"s7\">S7</span>"]);
        }
        let row = "\n| S7 | a | [wrong there](errata.md#s7) | [B](../layout/b.md) |\n";
        let pieces = linked(row, LIST_PAGE);
        assert_eq!(pieces[1].1, "#s7");
        assert!(row[..pieces[1].0.start].ends_with("(../layout/b.md"));
        assert_eq!(html(row, "appendix/errata.md").len(), 1);
    }
}
