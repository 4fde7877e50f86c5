//! What the tables of names share.

use core::str::FromStr;

use crate::Error;
use crate::error::ErrorKind;
use crate::machine::Arch;

impl FromStr for Arch {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self, Error> {
        let found = Arch::ALL.into_iter().find(|arch| arch.target() == text);
        found.ok_or_else(|| {
            ErrorKind::UnknownArch {
                text: text.to_string(),
            }
            .into()
        })
    }
}

/// The name without blanks and without the namespaces of CUTLASS.
pub(crate) fn without_namespaces(text: &str) -> String {
    let mut name: String = text.chars().filter(|c| !c.is_whitespace()).collect();
    for namespace in ["cutlass::", "cute::"] {
        name = name.replace(namespace, "");
    }
    name
}

/// The three known names that are most like it.
pub(crate) fn nearest(name: &str, known: impl Iterator<Item = String>) -> Vec<String> {
    let mut near: Vec<(usize, String)> = known
        .map(|known| (unlikeness(name, &known), known))
        .collect();
    near.sort();
    near.into_iter().take(3).map(|(_, known)| known).collect()
}

/// How little two names are alike: the edits between them, and how early they part.
fn unlikeness(name: &str, known: &str) -> usize {
    let common = name
        .bytes()
        .zip(known.bytes())
        .take_while(|(x, y)| x == y)
        .count();
    distance(name, known) + (name.len() - common) / 4
}

/// The number of letters to insert, delete or replace (Levenshtein).
fn distance(a: &str, b: &str) -> usize {
    let b: Vec<char> = b.chars().collect();
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, x) in a.chars().enumerate() {
        let mut diagonal = row[0];
        row[0] = i + 1;
        for (j, &y) in b.iter().enumerate() {
            let replaced = diagonal + usize::from(x != y);
            diagonal = row[j + 1];
            row[j + 1] = replaced.min(row[j] + 1).min(diagonal + 1);
        }
    }
    row[b.len()]
}
