//! What the tables of names share.

use core::str::FromStr;

use crate::Error;
use crate::error::ErrorKind;
use crate::machine::Arch;

impl FromStr for Arch {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self, Error> {
        let found = Arch::ALL.into_iter().find(|arch| arch.target() == text);
        found.ok_or_else(|| ErrorKind::UnknownArch { text: shown(text) }.into())
    }
}

/// The text of a name that was typed, as an error shows it: on one line, without control characters.
pub(crate) fn shown(text: &str) -> String {
    let escaped = |c: char| {
        if c.is_control() {
            c.escape_default().collect()
        } else {
            String::from(c)
        }
    };
    text.chars().map(escaped).collect()
}

/// The name without blanks and without the namespaces of CUTLASS.
pub(crate) fn without_namespaces(text: &str) -> String {
    let mut name: String = text.chars().filter(|c| !c.is_whitespace()).collect();
    for namespace in ["cutlass::", "cute::"] {
        name = name.replace(namespace, "");
    }
    name
}

/// Returns the three operations that are most like what was typed, best first: by name, or by instruction, as a user
/// may know the mnemonic of PTX and not CuTe's name for it.
pub(crate) fn nearest(typed: &str, known: impl Iterator<Item = (String, String)>) -> Vec<String> {
    let mut text = typed.replace("sm_", "sm");
    for (mnemonic, name) in WITHOUT_A_TEXT {
        text = text.replace(mnemonic, name);
    }
    let typed = words(&text);
    let mut near: Vec<(usize, usize, String)> = known
        .map(|(name, ptx)| {
            let unlike = unlikeness(&typed, &name).min(unlikeness(&typed, &ptx));
            (unlike, name.len(), name)
        })
        .collect();
    near.sort();
    near.into_iter().take(3).map(|(.., name)| name).collect()
}

/// Mnemonics of rows that have layouts and no text here, in the words of CuTe's names.
const WITHOUT_A_TEXT: [(&str, &str); 5] = [
    ("tcgen05.mma", "SM100_MMA"),
    ("tcgen05.ld", "SM100_TMEM_LOAD"),
    ("tcgen05.st", "SM100_TMEM_STORE"),
    ("tcgen05.cp", "SM100_UTCCP"),
    ("umma", "SM100_MMA"),
];

/// Letters of what was typed count more than letters that were left out: a part of a name is one that is near.
const TYPED: usize = 4;

/// Returns how little a text is like the words: what it costs to find each of them in it, and what is left of it then.
fn unlikeness(typed: &[String], text: &str) -> usize {
    let mut left = words(text);
    let mut cost = 0;
    for word in typed {
        let found = left
            .iter()
            .enumerate()
            .map(|(i, known)| (misspelling(word, known), i));
        let lost = 2 * word.len();
        match found.min() {
            Some((edits, i)) if edits < lost => {
                cost += TYPED * edits;
                left.remove(i);
            }
            _ => cost += TYPED * lost,
        }
    }
    cost + left.iter().map(String::len).sum::<usize>()
}

/// The words of a name or an instruction, without case.
fn words(text: &str) -> Vec<String> {
    let words = text.split(|c: char| !c.is_ascii_alphanumeric());
    let words = words.filter(|word| !word.is_empty());
    words.map(str::to_ascii_lowercase).collect()
}

/// Returns how far one word is from another: the letters that are missing where one begins or ends with the other,
/// twice the edits where those are few, and otherwise more than any word costs.
fn misspelling(word: &str, known: &str) -> usize {
    let (short, long) = if word.len() < known.len() {
        (word, known)
    } else {
        (known, word)
    };
    let missing = long.len() - short.len();
    if long.starts_with(short) || long.ends_with(short) {
        return missing;
    }
    // As many edits as half the letters make any word of any other.
    if missing > long.len() / 2 {
        return usize::MAX;
    }
    match distance(word, known) {
        edits if edits <= long.len() / 2 => 2 * edits,
        _ => usize::MAX,
    }
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
