//! What looks like an integer and is none.

use std::sync::Arc;

use super::{Data, Index, LIMIT, Node};
use crate::error::ErrorKind;

/// Why an expression has no value.
#[derive(Clone, PartialEq, Eq, Hash)]
pub(crate) struct Poison {
    pub(crate) why: Arc<str>,
}

impl Poison {
    pub(crate) fn kind(&self) -> ErrorKind {
        ErrorKind::NoInteger {
            why: self.why.to_string(),
        }
    }
}

impl Index {
    /// An expression without a value: lowering it reports why.
    pub(crate) fn no_integer(why: String) -> Index {
        let poison = Poison { why: why.into() };
        Data::build(Node::Poison(poison), (-LIMIT, LIMIT), u64::MAX, 0)
    }

    /// The one of the two that has no value: what is computed with it has none either.
    pub(crate) fn either_poison(&self, other: &Index) -> Option<Index> {
        let poison = |x: &&Index| matches!(x.0.node, Node::Poison(_));
        [self, other].into_iter().find(poison).cloned()
    }

    /// The first part of it that has no value.
    pub(crate) fn poison(&self) -> Option<&Poison> {
        match &self.0.node {
            Node::Poison(poison) => Some(poison),
            Node::Leaf(_) => None,
            Node::Sum(terms, _) => terms.iter().find_map(|(x, _)| x.poison()),
            Node::BitField(x, ..) | Node::Opaque(x) => x.poison(),
            Node::Product(a, b)
            | Node::Quotient(a, b)
            | Node::Remainder(a, b)
            | Node::Xor(a, b)
            | Node::Min(a, b) => a.poison().or_else(|| b.poison()),
            Node::Select(parts) => parts.iter().find_map(Index::poison),
        }
    }
}
