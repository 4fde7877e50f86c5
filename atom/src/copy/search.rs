//! Finding copies by what they do.

use super::atom::CopyAtom;
use super::member::members;
use super::row::CopyForm;
use crate::machine::{Arch, Space};

/// Returns every copy of the table, in its order; where any multiple of a size would do, the smallest.
///
/// ```
/// let matrices = colex_atom::copy_atoms().filter(|atom| atom.name().contains("LDSM") && atom.is_executable());
/// assert_eq!(matrices.count(), 6);
/// ```
pub fn copy_atoms() -> impl Iterator<Item = CopyAtom> {
    members().map(CopyAtom::new)
}

/// A search: what is not asked for is free.
///
/// ```
/// use colex_atom::{Arch, CopySearch, Space};
///
/// let found = CopySearch::default().on(Arch::Sm80).from(Space::Global).to(Space::Shared).bits(128).find();
/// let names: Vec<String> = found.iter().map(|atom| atom.name()).collect();
/// assert_eq!(names, [
///     "SM80_CP_ASYNC_CACHEALWAYS<uint128_t>",
///     "SM80_CP_ASYNC_CACHEALWAYS_ZFILL<uint128_t>",
///     "SM80_CP_ASYNC_CACHEGLOBAL<uint128_t>",
///     "SM80_CP_ASYNC_CACHEGLOBAL_ZFILL<uint128_t>",
/// ]);
/// ```
#[derive(Clone, Debug, Default)]
pub struct CopySearch {
    arch: Option<Arch>,
    from: Option<Space>,
    to: Option<Space>,
    bits: Option<i64>,
    threads: Option<usize>,
}

impl CopySearch {
    /// Keeps the atoms that run on `arch`; layout-only rows run nowhere.
    pub fn on(mut self, arch: Arch) -> Self {
        self.arch = Some(arch);
        self
    }

    /// Keeps the atoms that read from `space`.
    pub fn from(mut self, space: Space) -> Self {
        self.from = Some(space);
        self
    }

    /// Keeps the atoms that write to `space`.
    pub fn to(mut self, space: Space) -> Self {
        self.to = Some(space);
        self
    }

    /// Keeps the atoms that move `bits` bits per thread.
    pub fn bits(mut self, bits: i64) -> Self {
        self.bits = Some(bits);
        self
    }

    /// Keeps the atoms of `threads` threads.
    pub fn threads(mut self, threads: usize) -> Self {
        self.threads = Some(threads);
        self
    }

    /// Returns all atoms that fit, in the table's order; universal copies with the ends that were asked for, and
    /// copies of free size with the size that was.
    pub fn find(&self) -> Vec<CopyAtom> {
        copy_atoms().filter_map(|atom| self.fitted(atom)).collect()
    }

    fn fitted(&self, atom: CopyAtom) -> Option<CopyAtom> {
        let atom = match atom.row().form {
            CopyForm::Universal => self.universal(&atom)?,
            _ => atom,
        };
        let atom = match self.bits {
            Some(bits) => atom.with_bits(bits).ok()?,
            None => atom,
        };
        let on = self
            .arch
            .is_none_or(|arch| atom.is_executable() && atom.since().runs_on(arch));
        let from = self.from.is_none_or(|space| space == atom.from());
        let to = self.to.is_none_or(|space| space == atom.to());
        let threads = self.threads.is_none_or(|threads| threads == atom.threads());
        (on && from && to && threads).then_some(atom)
    }

    /// The universal copy between the ends asked for: an end left free is registers, or else global memory.
    fn universal(&self, atom: &CopyAtom) -> Option<CopyAtom> {
        let other = |space: Space| {
            if space == Space::Register {
                Space::Global
            } else {
                Space::Register
            }
        };
        let (from, to) = match (self.from, self.to) {
            (None, None) => return Some(atom.clone()),
            (Some(from), to) => (from, to.unwrap_or_else(|| other(from))),
            (None, Some(to)) => (other(to), to),
        };
        atom.between(from, to).ok()
    }
}
