//! The main text argues with no unnamed source: what a source has wrong is in the errata, and the four slips that a
//! beginner makes are boxes that begin with `> **A common mistake.**`.

use super::marks::{self, ExampleName};
use crate::markdown;

/// The examples whose slip has a box.
const MISTAKES: [u32; 4] = [33, 34, 42, 65];

/// How a box begins.
const BOX: &str = "> **A common mistake.**";

/// Words after `a source` or `the source` that make it a document with an opinion, not the side of a copy.
const SPEAKS: &str = "says writes prints puts calls quotes names heads states claims sums walks defines warns comments asks copies \
    leaves goes looks lost makes describes document documents that";

/// The sentences of a chapter that argue with a source, each with its line.
pub(super) fn arguments(text: &str, file: &str) -> Vec<(usize, String)> {
    if file.starts_with("appendix/") {
        return Vec::new();
    }
    let fences = markdown::parts(text).fences;
    let is_code = |line: usize| {
        let end = |fence: &markdown::Fence| fence.line + fence.body.matches('\n').count() + 1;
        let mut code = fences.iter().filter(|fence| fence.figure_kind().is_none());
        code.any(|fence| (fence.line..=end(fence)).contains(&line))
    };
    let mut found = Vec::new();
    for (words, line) in text.lines().zip(1..).filter(|(_, line)| !is_code(*line)) {
        let plain = |word: &str| {
            word.trim_matches(|c: char| !c.is_alphanumeric())
                .to_lowercase()
        };
        let words: Vec<String> = words
            .split_whitespace()
            .map(plain)
            .filter(|word| !word.is_empty())
            .collect();
        for three in words.windows(3) {
            let [before, word, after] = three else {
                continue;
            };
            let is_source = ["source", "sources", "document", "documents"].contains(&word.as_str());
            let is_one = ["one", "first", "same", "another"].contains(&before.as_str());
            let speaks = ["a", "the"].contains(&before.as_str())
                && SPEAKS.split(' ').any(|word| word == after);
            if is_source && (is_one || speaks) {
                let said = three.join(" ");
                found.push((line, format!("`{said}`: say what is right, and put what a source has wrong into appendix/errata.md")));
            }
        }
    }
    found
}

/// The examples that the boxes of a chapter mark.
pub(super) fn boxes(text: &str) -> Vec<ExampleName> {
    let starts = text
        .match_indices(BOX)
        .filter(|(at, _)| text[..*at].ends_with("\n\n"));
    let boxes = starts.map(|(at, _)| text[at..].split("\n\n").next().unwrap_or(""));
    boxes.flat_map(marks::marks).map(|mark| mark.name).collect()
}

/// A sentence for each slip without a box.
pub(super) fn missing(boxes: &[ExampleName]) -> Vec<String> {
    let slips = MISTAKES
        .iter()
        .filter(|number| !boxes.contains(&('S', **number)));
    slips
        .map(|number| format!("no chapter has a box `{BOX}` that ends in [S{number}]"))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_unnamed_source_is_found_and_the_side_of_a_copy_is_not() {
        let lines = |text: &str| {
            arguments(text, "layout/a.md")
                .into_iter()
                .map(|(line, _)| line)
                .collect::<Vec<_>>()
        };
        for text in [
            "Here one source writes 4.",
            "(The source puts it at 0.)",
            "A source calls it so.",
            "The first document says so.",
            "```figure layout\n4:1\ncaption = The one source lost it.\n```",
        ] {
            assert_eq!(lines(text).len(), 1, "{text}");
        }
        for text in [
            "The source has 4 elements, the source's side.",
            "CuTe's documentation says so.",
            "a block of the source into shared memory",
            "```rust\n// A source says it.\n```",
        ] {
            assert_eq!(lines(text), [0; 0], "{text}");
        }
        assert_eq!(arguments("One source writes 4.", "appendix/errata.md"), []);
    }

    #[test]
    fn slips_have_boxes() {
        let text = "a\n\n> **A common mistake.** b\n> c [S33]\n\nd [S34]\n";
        assert_eq!(boxes(text), [('S', 33)]);
        let missing = missing(&boxes(text));
        assert_eq!(missing.len(), 3);
        assert_eq!(
            missing[0],
            "no chapter has a box `> **A common mistake.**` that ends in [S34]"
        );
    }
}
