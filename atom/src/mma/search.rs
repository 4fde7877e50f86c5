//! Finding atoms by what they do.

use super::atom::MmaAtom;
use super::member::{MmaMember, members};
use super::options::GmmaOptions;
use super::row::{Form, Rule};
use crate::machine::Arch;
use crate::number::Ty;

/// Returns every atom of the table, in its order, with default options.
///
/// ```
/// let wgmma = colex_atom::mma_atoms().filter(|atom| atom.b_in_shared()).count();
/// assert_eq!(wgmma, 1056 + 1056);
/// ```
pub fn mma_atoms() -> impl Iterator<Item = MmaAtom> {
    members().map(|member| MmaAtom::new(member, GmmaOptions::default()))
}

/// A search: what is not asked for is free.
///
/// ```
/// use colex_atom::{Arch, MmaSearch, Ty};
///
/// let found = MmaSearch::default().on(Arch::Sm80).types(Ty::Bf16, Ty::Bf16, Ty::F32).find();
/// let names: Vec<String> = found.iter().map(|atom| atom.name()).collect();
/// assert_eq!(names, ["SM80_16x8x8_F32BF16BF16F32_TN", "SM80_16x8x16_F32BF16BF16F32_TN"]);
/// ```
#[derive(Clone, Debug, Default)]
pub struct MmaSearch {
    arch: Option<Arch>,
    mnk: [Option<i64>; 3],
    types: Option<[Ty; 3]>,
    threads: Option<usize>,
    sparse: Option<bool>,
}

impl MmaSearch {
    /// Keeps the atoms that run on `arch`. The `a` targets run on themselves only: `sm_90a` has `wgmma`, later ones do not.
    pub fn on(mut self, arch: Arch) -> Self {
        self.arch = Some(arch);
        self
    }

    /// Keeps the atoms of the shape `m` x `n` x `k`.
    pub fn shape(mut self, m: i64, n: i64, k: i64) -> Self {
        self.mnk = [Some(m), Some(n), Some(k)];
        self
    }

    /// Keeps the atoms whose extent along N is `n`.
    pub fn n(mut self, n: i64) -> Self {
        self.mnk[1] = Some(n);
        self
    }

    /// Keeps the atoms that multiply `a` by `b` and accumulate in `c`.
    pub fn types(mut self, a: Ty, b: Ty, c: Ty) -> Self {
        self.types = Some([a, b, c]);
        self
    }

    /// Keeps the atoms of `threads` threads.
    pub fn threads(mut self, threads: usize) -> Self {
        self.threads = Some(threads);
        self
    }

    /// Keeps the atoms whose A is (or is not) sparse.
    pub fn sparse(mut self, sparse: bool) -> Self {
        self.sparse = Some(sparse);
        self
    }

    /// Returns the atoms that fit, in the table's order.
    pub fn find(&self) -> Vec<MmaAtom> {
        let found = members().filter(|member| self.fits(member));
        let atoms = found.map(|member| MmaAtom::new(member, GmmaOptions::default()));
        atoms
            .filter(|atom| self.threads.is_none_or(|threads| threads == atom.threads()))
            .collect()
    }

    fn fits(&self, member: &MmaMember) -> bool {
        let row = member.row;
        let on = self
            .arch
            .is_none_or(|arch| row.form != Form::LayoutOnly && row.since.runs_on(arch));
        let shape = self
            .mnk
            .iter()
            .zip(member.mnk())
            .all(|(want, have)| want.is_none_or(|want| want == have));
        let types = self
            .types
            .is_none_or(|types| types == [member.ab.0, member.ab.1, row.c]);
        let sparse = self
            .sparse
            .is_none_or(|sparse| sparse == Rule::is_sparse(row.rule));
        on && shape && types && sparse
    }
}
