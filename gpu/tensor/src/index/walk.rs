//! Walks over an integer that take each of its parts once.
//!
//! The parts of an integer are shared: a coordinate that others are computed from is there once. A walk that takes it again
//! wherever it is used doubles its work with every level of nested coordinates.

use std::collections::{HashMap, HashSet};
use std::mem::discriminant;
use std::sync::Arc;

use super::{Data, Index, Node};

/// The nodes up to which most walks take a part again: to look it up takes longer.
const SMALL: u32 = 512;

/// What a walk has found of the large parts of an integer, which it borrows.
pub(crate) struct Walked<T> {
    found: HashMap<*const Data, T>,
    /// The nodes up to which a part is walked again.
    small: u32,
}

impl<T> Default for Walked<T> {
    fn default() -> Self {
        Walked::above(SMALL)
    }
}

impl<T> Walked<T> {
    /// A walk that takes no part of more nodes twice.
    pub(crate) fn above(small: u32) -> Walked<T> {
        Walked {
            found: HashMap::new(),
            small,
        }
    }
}

impl<T: Clone> Walked<T> {
    /// What is found of a part, or has been.
    pub(crate) fn of(&mut self, part: &Index, find: impl FnOnce(&mut Self) -> T) -> T {
        if part.0.nodes <= self.small {
            return find(self);
        }
        let key = Arc::as_ptr(&part.0);
        if let Some(found) = self.found.get(&key) {
            return found.clone();
        }
        let found = find(self);
        self.found.insert(key, found.clone());
        found
    }
}

impl Node {
    /// Visits the integers that it is computed from.
    pub(crate) fn parts<'a>(&'a self, visit: &mut dyn FnMut(&'a Index)) {
        match self {
            Node::Leaf(_) | Node::Poison(_) => {}
            Node::Sum(terms, _) => terms.iter().for_each(|(x, _)| visit(x)),
            Node::BitField(x, ..) | Node::Opaque(x) => visit(x),
            Node::Product(a, b)
            | Node::Quotient(a, b)
            | Node::Remainder(a, b)
            | Node::Xor(a, b)
            | Node::Min(a, b) => [a, b].into_iter().for_each(visit),
            Node::Select(parts) => parts.iter().for_each(visit),
        }
    }

    /// Whether it does the same with its parts as another node.
    fn is_alike(&self, other: &Node) -> bool {
        match (self, other) {
            (Node::Sum(a, c), Node::Sum(b, d)) => {
                let mut factors = a.iter().zip(b).map(|((_, m), (_, n))| (m, n));
                c == d && a.len() == b.len() && factors.all(|(m, n)| m == n)
            }
            (Node::BitField(_, mask, shift), Node::BitField(_, of, by)) => {
                mask == of && shift == by
            }
            (Node::Leaf(_) | Node::Poison(_), _) => self == other,
            (Node::Sum(..) | Node::BitField(..), _) => false,
            (
                Node::Product(..)
                | Node::Quotient(..)
                | Node::Remainder(..)
                | Node::Xor(..)
                | Node::Min(..)
                | Node::Select(_)
                | Node::Opaque(_),
                _,
            ) => discriminant(self) == discriminant(other),
        }
    }
}

/// Whether two integers of one hash are the same.
pub(crate) fn is_same(a: &Index, b: &Index) -> bool {
    if a.0.nodes <= SMALL {
        return a.0.node == b.0.node;
    }
    let mut known = HashSet::new();
    // Pairs that are still to be compared.
    let mut open = vec![(a, b)];
    while let Some((a, b)) = open.pop() {
        if Arc::ptr_eq(&a.0, &b.0) || !known.insert((Arc::as_ptr(&a.0), Arc::as_ptr(&b.0))) {
            continue;
        }
        if a.0.hash != b.0.hash || !a.0.node.is_alike(&b.0.node) {
            return false;
        }
        let mut others = Vec::new();
        b.0.node.parts(&mut |part| others.push(part));
        let mut others = others.into_iter();
        a.0.node
            .parts(&mut |part| open.extend(others.next().map(|other| (part, other))));
    }
    true
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::failure::Owner;
    use crate::index::Leaf;
    use colex_ir::{Reg, RegType};

    fn leaf(index: u32, range: (i64, i64)) -> Index {
        let ty = RegType::B32;
        let leaf = Leaf {
            reg: Reg { index, ty },
            stamp: 0,
            is_signed: false,
            owner: Owner::NONE,
        };
        Index::leaf(leaf, range, 1, 0)
    }

    /// A coordinate that each level uses several times, and its value for the registers 900 and 7.
    fn nested(first: u32, levels: i64) -> (Index, i64) {
        let (mut x, n) = (leaf(first, (0, 1000)), leaf(1, (2, 10)));
        let mut value = 900;
        for level in 0..levels {
            x = (&x % &n).min(&(&x / &n + level)) + &x;
            value += (value % 7).min(value / 7 + level);
        }
        (x, value)
    }

    /// Of more parts than a walk without memory ends with, every question has its answer.
    #[test]
    fn law_walks_take_each_part_once() {
        let registers = |reg: Reg| Some(if reg.index == 1 { 7 } else { 900 });
        for levels in [1, 3, 6, 60] {
            let ((x, value), (same, _), (other, _)) =
                (nested(0, levels), nested(0, levels), nested(2, levels));
            assert!(x == same && x != other, "{levels} levels");
            assert_eq!(x.eval(&registers), Some(value));
            assert_eq!(x.eval(&|reg| (reg.index == 1).then_some(7)), None);
            assert!(x.reads(Reg {
                index: 1,
                ty: RegType::B32
            }));
            assert!(!x.reads(Reg {
                index: 2,
                ty: RegType::B32
            }));
            let text = x.to_string();
            assert!(text.len() < 4000, "{text}");
            let mut leaves = Vec::new();
            x.leaves(&mut leaves);
            assert!(leaves.len() < 100 * SMALL as usize, "{}", leaves.len());
        }
        assert_eq!(nested(0, 60).0.0.nodes, u32::MAX);
    }
}
