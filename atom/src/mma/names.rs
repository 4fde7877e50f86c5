//! Names: how CuTe spells an operation, and what was meant by one that is not there.

use super::member::{MmaMember, member, members};
use super::options::GmmaOptions;
use crate::Error;
use crate::error::ErrorKind;
use crate::names::{nearest, shown, without_namespaces};

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
const CPP_TYPES: &[(&str, &str)] = &[("int>", "int32_t>"), ("int,", "int32_t,")];

/// Finds a member and its options by name.
pub(super) fn parse(text: &str) -> Result<(MmaMember, GmmaOptions), Error> {
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
    let mut name = without_namespaces(text);
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
        return ErrorKind::IllegalN {
            name: shown(text),
            legal: legal.row.n,
        }
        .into();
    }
    ErrorKind::UnknownMma {
        name: shown(text),
        nearest: nearest(name, members().map(|m| (m.name(), m.fill(m.row.ptx)))),
    }
    .into()
}

/// Whether the two names differ in the extent of N only.
fn same_but_for_n(name: &str, member: &MmaMember) -> bool {
    let known = member.fill(&member.row.name.replace("{N}", "#"));
    known.split_once('#').is_some_and(|(before, after)| {
        let middle = name
            .strip_prefix(before)
            .and_then(|rest| rest.strip_suffix(after));
        middle.is_some_and(|n| !n.is_empty() && n.bytes().all(|digit| digit.is_ascii_digit()))
    })
}
