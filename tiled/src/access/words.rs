//! Counts, and the words that go with them.

/// A count with its noun.
pub(crate) fn number(n: usize, what: &str) -> String {
    match n {
        1 => format!("1 {what}"),
        _ => format!("{n} {what}s"),
    }
}

/// The verb for a count: one thread `issues`, two `issue`.
pub(crate) fn verb(n: usize, plural: &str) -> String {
    match n {
        1 => format!("{plural}s"),
        _ => plural.into(),
    }
}

pub(crate) const fn are(n: usize) -> &'static str {
    match n {
        1 => "is",
        _ => "are",
    }
}
