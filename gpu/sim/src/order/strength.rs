//! Which accesses are atomic with each other: morally strong ones (PTX ISA, memory consistency model), and the operations of
//! copies that reduce.

use super::clock::{Epoch, Proxy};
use super::release::Scope;

/// An ordered access: its scope, and the bytes of each of its operations; 0 if it is atomic in parts of several sizes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Strength {
    pub(crate) scope: Scope,
    pub(crate) bytes: u32,
}

/// Why two ordered accesses are not atomic with each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Weakness {
    /// One has a narrower scope than this, which has both threads.
    Scope(Scope),
    /// Their operations have these many bytes.
    Bytes([u32; 2]),
}

/// What each step of a program is.
#[derive(Debug, Default)]
pub(crate) struct Strengths {
    /// Of each step; empty if all of them have the scope of the device or a wider one, and the same bytes.
    ordered: Vec<Option<Strength>>,
    /// Whether each step is a copy that reduces; empty if none is.
    reducing: Vec<bool>,
}

impl Strengths {
    pub(crate) fn new(
        ordered: impl Iterator<Item = Option<Strength>>,
        reducing: impl Iterator<Item = bool>,
    ) -> Self {
        let ordered: Vec<Option<Strength>> = ordered.collect();
        let reducing: Vec<bool> = reducing.collect();
        let mut known = ordered.iter().flatten();
        let first = known.clone().next();
        let is_plain = |one: &Strength| {
            one.scope >= Scope::Device && first.is_some_and(|first| first.bytes == one.bytes)
        };
        Strengths {
            ordered: if known.all(is_plain) {
                Vec::new()
            } else {
                ordered
            },
            reducing: if reducing.contains(&true) {
                reducing
            } else {
                Vec::new()
            },
        }
    }

    /// Whether all ordered accesses are atomic with each other, and nothing else is.
    pub(crate) fn is_plain(&self) -> bool {
        self.ordered.is_empty() && self.reducing.is_empty()
    }

    /// Whether an access is one of a copy that reduces.
    pub(crate) fn reduces(&self, epoch: Epoch) -> bool {
        let is_one = self.reducing.get(epoch.pc()).is_some_and(|is| *is);
        is_one && epoch.proxy() == Some(Proxy::Async)
    }

    /// Why two ordered accesses are not atomic with each other; `near` is the least scope that has both of their threads.
    pub(crate) fn weakness(&self, [a, b]: [Epoch; 2], near: Scope) -> Option<Weakness> {
        let of = |epoch: Epoch| self.ordered.get(epoch.pc()).copied().flatten();
        let (a, b) = (of(a)?, of(b)?);
        if a.scope.min(b.scope) < near {
            Some(Weakness::Scope(near))
        } else if a.bytes != b.bytes && a.bytes * b.bytes != 0 {
            Some(Weakness::Bytes([a.bytes, b.bytes]))
        } else {
            None
        }
    }
}
