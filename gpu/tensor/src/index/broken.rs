//! What looks like an integer and is none.

use std::sync::Arc;

use super::{Data, Index, LIMIT, Node};
use crate::error::ErrorKind;

/// Why an expression has no value.
#[derive(Clone, PartialEq, Eq, Hash)]
pub(crate) struct Broken {
    pub(crate) why: Arc<str>,
}

impl Broken {
    pub(crate) fn kind(&self) -> ErrorKind {
        ErrorKind::NoInteger {
            why: self.why.to_string(),
        }
    }
}

impl Index {
    /// An expression without a value: whoever wants it in a register is told why.
    pub(crate) fn no_integer(why: String) -> Index {
        let broken = Broken { why: why.into() };
        Data::build(Node::Broken(broken), (-LIMIT, LIMIT), u64::MAX, 0)
    }

    /// The one of the two that has no value: what is computed with it has none either.
    pub(crate) fn either_broken(&self, other: &Index) -> Option<Index> {
        let broken = |x: &&Index| matches!(x.0.node, Node::Broken(_));
        [self, other].into_iter().find(broken).cloned()
    }

    /// The first part of it that has no value.
    pub(crate) fn broken(&self) -> Option<&Broken> {
        match &self.0.node {
            Node::Broken(broken) => Some(broken),
            Node::Leaf(_) => None,
            Node::Sum(terms, _) => terms.iter().find_map(|(x, _)| x.broken()),
            Node::Bits(x, ..) | Node::Unit(x) => x.broken(),
            Node::Product(a, b)
            | Node::Quotient(a, b)
            | Node::Remainder(a, b)
            | Node::Xor(a, b)
            | Node::Min(a, b) => a.broken().or_else(|| b.broken()),
            Node::Select(parts) => parts.iter().find_map(Index::broken),
        }
    }
}
