//! The instruction tables: their rows, and the atoms whose names contain what was typed.

use colex_atom::{Arch, CopyAtom, MmaAtom, copy_atoms, mma_atoms};
use serde_json::{Value as Json, json};

use crate::fields::Sentence;

/// The most atoms of one answer.
const FOUND: usize = 200;

/// The longest name, in bytes, and the most words of it: of a name that no atom has, the nearest ones are searched for.
const NAME: usize = 120;
const WORDS: usize = 14;

/// Refuses a name that is longer than any name of the tables.
pub(crate) fn check_name(name: &str) -> Result<(), Sentence> {
    let words = name.split(|c: char| !c.is_ascii_alphanumeric());
    let words = words.filter(|word| !word.is_empty()).count();
    let long = |count: usize, what: &str, most: usize| {
        Err(format!(
            "the name has {count} {what}, and no instruction has one of more than {most}"
        ))
    };
    match (name.len(), words) {
        (bytes, _) if bytes > NAME => long(bytes, "bytes", NAME),
        (_, words) if words > WORDS => long(words, "words", WORDS),
        _ => Ok(()),
    }
}

/// A product or a copy.
pub(crate) enum Atom {
    Mma(Box<MmaAtom>),
    Copy(Box<CopyAtom>),
}

impl Atom {
    pub(crate) fn name(&self) -> String {
        match self {
            Self::Mma(atom) => atom.name(),
            Self::Copy(atom) => atom.name(),
        }
    }

    fn since(&self) -> Arch {
        match self {
            Self::Mma(atom) => atom.since(),
            Self::Copy(atom) => atom.since(),
        }
    }

    /// The row of the table, as its place in memory: rows are static.
    pub(crate) fn row(&self) -> usize {
        match self {
            Self::Mma(atom) => std::ptr::from_ref(atom.row()).addr(),
            Self::Copy(atom) => std::ptr::from_ref(atom.row()).addr(),
        }
    }

    pub(crate) fn kind(&self) -> &'static str {
        match self {
            Self::Mma(_) => "product",
            Self::Copy(_) => "copy",
        }
    }

    fn ptx(&self) -> &str {
        match self {
            Self::Mma(atom) => atom.op().map_or("", |op| &op.ptx),
            Self::Copy(atom) => atom.op().map_or("", |op| &op.ptx),
        }
    }
}

/// Every atom of both tables, in their order.
pub(crate) fn atoms() -> impl Iterator<Item = Atom> {
    mma_atoms()
        .map(|atom| Atom::Mma(atom.into()))
        .chain(copy_atoms().map(|atom| Atom::Copy(atom.into())))
}

/// The first atom of each row and the number of atoms of the row; or, with a query, the atoms whose name or instruction
/// has every word of it.
pub(crate) fn list(query: &str) -> Result<Json, Sentence> {
    let words: Vec<String> = query.split_whitespace().map(str::to_lowercase).collect();
    let mut found: Vec<(Atom, usize)> = Vec::new();
    let mut last = 0;
    let mut count = 0;
    for atom in atoms() {
        if words.is_empty() {
            if atom.row() == last
                && let Some((_, members)) = found.last_mut()
            {
                *members += 1;
                continue;
            }
            last = atom.row();
        } else {
            let text = format!("{} {}", atom.name(), atom.ptx()).to_lowercase();
            if !words.iter().all(|word| text.contains(word.as_str())) {
                continue;
            }
        }
        count += 1;
        if words.is_empty() || found.len() < FOUND {
            found.push((atom, 1));
        }
    }
    let atoms = found.iter().map(|(atom, members)| {
        json!({
            "name": atom.name(), "kind": atom.kind(), "since": atom.since().to_string(), "members": members,
        })
    });
    Ok(json!({"atoms": atoms.collect::<Vec<_>>(), "count": count, "rows": words.is_empty()}))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_name_is_within_the_limit() {
        for atom in atoms() {
            assert_eq!(check_name(&atom.name()), Ok(()), "{}", atom.name());
        }
        assert_eq!(
            check_name(&"x".repeat(121)),
            Err("the name has 121 bytes, and no instruction has one of more than 120".to_string())
        );
    }
}
