//! The worked examples of the book's sources, S1 to S79, and the points where CuTe's implementations disagree, D1 to D11:
//! each is marked, as in `[S20]`, before the Rust block that runs it, and listed in an appendix.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use anyhow::Result;

use super::marks::{ExampleName, marks, misplaced, shown};
use super::{Chapters, voice};
use crate::{markdown, workspace};

const EXAMPLES: u32 = 79;
const DISAGREEMENTS: u32 = 11;

const LIST: &str = "appendix/examples.md";
const ERRATA: &str = "appendix/errata.md";

/// The verdicts that lead to a row of the errata.
const WRONG: [&str; 2] = ["wrong there", "true with a limit"];

/// Which chapters run which example.
type Runs = BTreeMap<ExampleName, BTreeSet<String>>;

/// Checks the marks and the lists, adds what is wrong to `complaints`, and counts the examples that run.
pub(crate) fn check(
    root: &Path,
    chapters: &Chapters,
    complaints: &mut Vec<String>,
) -> Result<usize> {
    let mut runs = Runs::new();
    let mut boxes = Vec::new();
    for file in &chapters.files {
        let text = workspace::read(&chapters.folder.join(file))?;
        let place = workspace::shown(root, &chapters.folder.join(file));
        for mark in marks(&text) {
            if is_run(&text, mark.line) {
                runs.entry(mark.name).or_default().insert(file.clone());
            } else {
                complaints.push(format!(
                    "{place}:{}: {} is marked, but no Rust block follows in its section",
                    mark.line,
                    shown(mark.name)
                ));
            }
        }
        let wrong = misplaced(&text, file)
            .into_iter()
            .chain(voice::arguments(&text, file));
        complaints.extend(wrong.map(|(line, what)| format!("{place}:{line}: {what}")));
        boxes.extend(voice::boxes(&text));
    }
    complaints.extend(voice::missing(&boxes));
    let list = workspace::read(&chapters.folder.join(LIST))?;
    let errata = workspace::read(&chapters.folder.join(ERRATA))?;
    complaints.extend(list_complaints(&runs, &list, &errata));
    Ok(runs.len())
}

/// Whether a Rust block follows `line` before the next heading.
fn is_run(text: &str, line: usize) -> bool {
    let fences = markdown::parts(text).fences;
    let is_in_fence = |line: usize| {
        let end = |fence: &markdown::Fence| fence.line + fence.body.matches('\n').count() + 1;
        fences
            .iter()
            .any(|fence| (fence.line..=end(fence)).contains(&line))
    };
    let heading = text
        .lines()
        .zip(1..)
        .skip(line)
        .find_map(|(words, at)| (words.starts_with('#') && !is_in_fence(at)).then_some(at));
    let section = line..heading.unwrap_or(usize::MAX);
    fences
        .iter()
        .any(|fence| (fence.is_rust() || fence.is_program()) && section.contains(&fence.line))
}

/// What the list of examples says wrongly, and what runs nowhere.
fn list_complaints(runs: &Runs, list: &str, errata: &str) -> Vec<String> {
    let mut complaints = Vec::new();
    let none = BTreeSet::new();
    for number in 1..=EXAMPLES {
        let chapters = runs.get(&('S', number)).unwrap_or(&none);
        let Some(row) = row(list, number) else {
            complaints.push(format!("{LIST} has no row for S{number}"));
            continue;
        };
        complaints.extend(
            row_complaint(number, &row, chapters, errata)
                .map(|what| format!("{LIST}: S{number} {what}")),
        );
    }
    for number in 1..=DISAGREEMENTS {
        if !runs.contains_key(&('D', number)) {
            complaints.push(format!(
                "D{number} runs in no chapter: mark it [D{number}] before its Rust block"
            ));
        }
    }
    let known = |(letter, number): &ExampleName| {
        (1..=if *letter == 'S' {
            EXAMPLES
        } else {
            DISAGREEMENTS
        })
            .contains(number)
    };
    for name in runs.keys().filter(|name| !known(name)) {
        complaints.push(format!(
            "{} is marked, but there is no such example",
            shown(*name)
        ));
    }
    complaints
}

/// The cells of `| S20 | what | verdict | where |`.
fn row(list: &str, number: u32) -> Option<Vec<&str>> {
    let start = format!("| S{number} |");
    let line = list.lines().find(|line| line.starts_with(&start))?;
    Some(line.trim_matches('|').split('|').map(str::trim).collect())
}

fn row_complaint(
    number: u32,
    row: &[&str],
    chapters: &BTreeSet<String>,
    errata: &str,
) -> Option<String> {
    let &[_, _, verdict, place] = row else {
        return Some("needs four cells".into());
    };
    let to_erratum = |word: &&str| format!("[{word}](errata.md#s{number})");
    if verdict != "OK" && !WRONG.iter().map(to_erratum).any(|wanted| wanted == verdict) {
        let [wrong, limit] = WRONG.each_ref().map(to_erratum);
        return Some(format!(
            "has the verdict `{verdict}`; there are: OK, {wrong}, {limit}"
        ));
    }
    let link = place
        .split("](../")
        .nth(1)
        .and_then(|rest| rest.strip_suffix(')'));
    match link {
        None => Some(match chapters.first() {
            Some(file) => format!("runs in {file}: link it"),
            None => "runs nowhere".into(),
        }),
        Some(file) if !chapters.contains(file) => Some(format!(
            "links to {file}, where no Rust block is marked [S{number}]"
        )),
        Some(_) if verdict == "OK" && errata.contains(&format!("| S{number} |")) => {
            Some(format!("is OK, but {ERRATA} has a row for it"))
        }
        Some(_) if verdict != "OK" && !errata.contains(&format!("| S{number} |")) => {
            Some(format!("is not OK, but {ERRATA} has no row for it"))
        }
        Some(_) => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "# A\n\nOne, two. [S1] [S2]\n\n```rust\n# [S9]\n```\n\n## B\n\nThree. [D3]\n\n```text\n```\n\n## C\n\n```rust\n```\n";

    fn list(place: &str) -> String {
        let row = |number| format!("| S{number} | what | OK | Part III |\n");
        let first = format!("| S1 | what | [wrong there](errata.md#s1) | {place} |\n");
        first + &(2..=EXAMPLES).map(row).collect::<String>()
    }

    fn first_complaint(place: &str, errata: &str) -> Option<String> {
        let mut runs = Runs::new();
        runs.insert(('S', 1), BTreeSet::from(["layout/a.md".to_string()]));
        let complaints = list_complaints(&runs, &list(place), errata);
        complaints.into_iter().find(|what| what.contains("S1 "))
    }

    #[test]
    fn a_mark_needs_a_rust_block_in_its_section() {
        assert!(is_run(TEXT, 3));
        assert!(!is_run(TEXT, 11));
    }

    #[test]
    fn an_example_that_runs_nowhere_is_refused() {
        let complaints = list_complaints(&Runs::new(), &list("[A](../layout/a.md)"), "");
        assert_eq!(
            complaints[..2],
            [
                "appendix/examples.md: S1 links to layout/a.md, where no Rust block is marked [S1]",
                "appendix/examples.md: S2 runs nowhere",
            ]
        );
        assert_eq!(complaints.len(), 79 + 11);
        assert_eq!(
            complaints[79],
            "D1 runs in no chapter: mark it [D1] before its Rust block"
        );
    }

    #[test]
    fn an_erratum_has_its_row() {
        let place = "[A](../layout/a.md)";
        assert_eq!(first_complaint(place, "| S1 | this | that |"), None);
        assert_eq!(
            first_complaint(place, "| S10 |").as_deref(),
            Some("appendix/examples.md: S1 is not OK, but appendix/errata.md has no row for it")
        );
        let ok = ["S51", "what", "OK", "[A](../tiled/a.md)"];
        let chapters = BTreeSet::from(["tiled/a.md".to_string()]);
        let elsewhere = ["S51", "what", "[wrong there](errata.md#s5)", ok[3]];
        assert_eq!(
            row_complaint(51, &elsewhere, &chapters, "").as_deref(),
            Some(
                "has the verdict `[wrong there](errata.md#s5)`; there are: OK, [wrong there](errata.md#s51), \
                 [true with a limit](errata.md#s51)"
            )
        );
        assert_eq!(
            row_complaint(51, &ok, &chapters, "| S51 | this | that |").as_deref(),
            Some("is OK, but appendix/errata.md has a row for it")
        );
        assert_eq!(
            list_complaints(&Runs::new(), "", "")[0],
            "appendix/examples.md has no row for S1"
        );
    }

    #[test]
    fn an_example_is_linked_where_it_runs() {
        let row = ["S51", "what", "OK", "Part III"];
        let chapters = BTreeSet::from(["tiled/a.md".to_string()]);
        assert_eq!(
            row_complaint(51, &row, &chapters, "").as_deref(),
            Some("runs in tiled/a.md: link it")
        );
    }
}
