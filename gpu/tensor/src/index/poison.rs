//! Poison: an index expression that has no value.

use std::panic::Location;
use std::sync::Arc;

use super::{Data, Index, LIMIT, Node};
use crate::error::ErrorKind;

/// Why an expression has no value.
#[derive(Clone)]
pub(crate) struct Poison {
    pub(crate) why: Arc<str>,
    /// The failure of a call that would have made the expression, and that call.
    cause: Option<Arc<(ErrorKind, &'static Location<'static>)>>,
    /// Where the expression was written.
    at: &'static Location<'static>,
}

/// Whether a line is of this library.
fn is_of_library(at: &Location<'_>) -> bool {
    let sources = file!().trim_end_matches("index/poison.rs");
    at.file().starts_with(sources)
}

impl PartialEq for Poison {
    fn eq(&self, other: &Self) -> bool {
        self.why == other.why
    }
}

impl Eq for Poison {}

impl std::hash::Hash for Poison {
    fn hash<H: std::hash::Hasher>(&self, state: &mut H) {
        self.why.hash(state);
    }
}

impl Poison {
    pub(crate) fn kind(&self) -> ErrorKind {
        match &self.cause {
            Some(cause) => cause.0.clone(),
            None => ErrorKind::NoInteger {
                why: self.why.to_string(),
            },
        }
    }

    /// The call that made it, where that is known; else the call that uses it is named.
    pub(crate) fn at(&self) -> Option<&'static Location<'static>> {
        let cause = self.cause.as_ref().map(|cause| cause.1);
        cause.or(Some(self.at).filter(|at| !is_of_library(at)))
    }
}

impl Index {
    /// An expression without a value: lowering it reports why, at the line that wrote it.
    #[track_caller]
    pub(crate) fn no_integer(why: String) -> Index {
        Index::poisoned(Poison {
            why: why.into(),
            cause: None,
            at: Location::caller(),
        })
    }

    /// The expression that a failed call returns.
    pub(crate) fn poison_of(kind: ErrorKind, at: &'static Location<'static>) -> Index {
        Index::poisoned(Poison {
            why: kind.to_string().into(),
            cause: Some(Arc::new((kind, at))),
            at,
        })
    }

    fn poisoned(poison: Poison) -> Index {
        Data::build(Node::Poison(poison), (-LIMIT, LIMIT), u64::MAX, 0)
    }

    /// The one of the two that has no value: what is computed with it has none either.
    pub(crate) fn either_poison(&self, other: &Index) -> Option<Index> {
        let poison = |x: &&Index| matches!(x.0.node, Node::Poison(_));
        [self, other].into_iter().find(poison).cloned()
    }

    /// The first part of it that has no value.
    pub(crate) fn poison(&self) -> Option<&Poison> {
        if !self.0.is_poisoned {
            return None;
        }
        if let Node::Poison(poison) = &self.0.node {
            return Some(poison);
        }
        let mut first = None;
        (self.0.node).parts(&mut |part| first = first.or_else(|| part.poison()));
        first
    }
}
