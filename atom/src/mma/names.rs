//! Names: how CuTe spells an operation, and what was meant by one that is not there.

use super::member::{Member, member, members};
use super::options::GmmaOptions;
use crate::Error;

/// What other spellings begin with, and the name this crate uses; the first that fits is taken.
const PREFIXES: &[(&str, &str)] = &[
    ("SM90::GMMA::SPARSE::GMMA_64x", "SPARSE::GMMA_64x"),
    ("SM90::SPARSE::GMMA_64x", "SPARSE::GMMA_64x"),
    ("GMMA::SPARSE::GMMA_64x", "SPARSE::GMMA_64x"),
    ("SM90::GMMA::MMA_64x", "SM90_64x"),
    ("GMMA::MMA_64x", "SM90_64x"),
    ("MMA_64x", "SM90_64x"),
    ("SM90::MMA_16x8x", "SM90_16x8x"),
];

/// C++ names of a type that CuTe also accepts, and the one this crate uses.
const CPP_TYPES: &[(&str, &str)] = &[
    ("cutlass::", ""),
    ("cute::", ""),
    ("int>", "int32_t>"),
    ("int,", "int32_t,"),
];

/// Finds a member and its options by name.
pub(super) fn parse(text: &str) -> Result<(Member, GmmaOptions), Error> {
    let name = canonical(text);
    if let Some(found) = member(&name) {
        return Ok((found, GmmaOptions::default()));
    }
    if let Some((stem, arguments)) = name.strip_suffix('>').and_then(|rest| rest.split_once('<')) {
        if let Some(found) = member(stem) {
            return Ok((found, GmmaOptions::parse(arguments, &found)?));
        }
        // UniversalFMA<D,A,B,C> with one type four times is UniversalFMA<D>.
        let types: Vec<&str> = arguments.split(',').collect();
        if types.iter().all(|ty| *ty == types[0])
            && let Some(found) = member(&format!("{stem}<{}>", types[0]))
        {
            return Ok((found, GmmaOptions::default()));
        }
    }
    Err(unknown(text, &name))
}

/// The name in this crate's spelling: without blanks and namespaces.
fn canonical(text: &str) -> String {
    let mut name: String = text.chars().filter(|c| !c.is_whitespace()).collect();
    for (long, short) in CPP_TYPES {
        name = name.replace(long, short);
    }
    for (long, short) in PREFIXES {
        if let Some(rest) = name.strip_prefix(long) {
            return format!("{short}{rest}");
        }
    }
    name
}

/// The error for a name that is not in the table.
fn unknown(text: &str, name: &str) -> Error {
    let stem = name.split('<').next().unwrap_or(name);
    if let Some(legal) = members()
        .find(|m| !m.row.n.is_empty() && [name, stem].iter().any(|name| same_but_for_n(name, m)))
    {
        return Error::IllegalN {
            name: text.to_string(),
            legal: legal.row.n,
        };
    }
    let mut near: Vec<(usize, String)> = members()
        .map(|m| m.name())
        .map(|known| (unlikeness(name, &known), known))
        .collect();
    near.sort();
    Error::UnknownMma {
        name: text.to_string(),
        nearest: near.into_iter().take(3).map(|(_, known)| known).collect(),
    }
}

/// Whether the two names differ in the extent of N only.
fn same_but_for_n(name: &str, member: &Member) -> bool {
    let known = member.fill(&member.row.name.replace("{N}", "#"));
    known.split_once('#').is_some_and(|(before, after)| {
        let middle = name
            .strip_prefix(before)
            .and_then(|rest| rest.strip_suffix(after));
        middle.is_some_and(|n| !n.is_empty() && n.bytes().all(|digit| digit.is_ascii_digit()))
    })
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
