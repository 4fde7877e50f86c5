//! What the threads of an atom hold of A and B, instruction by instruction.

use core::ops::Deref;

use colex_atom::{Fragment, Value};

use crate::Error;
use crate::host::gemm::part::{Part, Parts, fragments};
use crate::host::gemm::sparse::metadata;
use crate::host::gemm::{Ends, Factors};
use crate::mma::TiledMma;

/// The operands of one atom's instructions, each loaded once for all instructions that share it.
pub(crate) struct Held<'a> {
    pub(crate) parts: &'a Parts,
    a: Vec<Vec<Fragment>>,
    b: Vec<Vec<Fragment>>,
    /// Of a sparse A the registers of metadata.
    e: Vec<Vec<u32>>,
}

impl Held<'_> {
    /// A's fragments at `[i, k]` of the rest.
    pub(crate) fn a(&self, [i, k]: [usize; 2]) -> &[Fragment] {
        &self.a[i + self.parts.a[0].rest()[0] * k]
    }

    /// B's fragments at `[j, k]` of the rest.
    pub(crate) fn b(&self, [j, k]: [usize; 2]) -> &[Fragment] {
        &self.b[j + self.parts.b[0].rest()[0] * k]
    }

    /// The metadata of A at `[i, k]` of the rest; none of a dense one.
    pub(crate) fn metadata(&self, [i, k]: [usize; 2]) -> &[u32] {
        let at = i + self.parts.a[0].rest()[0] * k;
        self.e.get(at).map_or(&[], Vec::as_slice)
    }
}

impl TiledMma {
    pub(crate) fn held_by<'a, A, B>(
        &self,
        parts: &'a Parts,
        factors: &Factors<'_, A, B>,
        ends: &Ends<'_>,
    ) -> Result<Held<'a>, Error>
    where
        A: Deref<Target = [Value]>,
        B: Deref<Target = [Value]>,
    {
        let traits = self.atom().traits();
        let a = |at| fragments(factors.a, &ends[0], &parts.a, at, traits.ty_a);
        let b = |at| fragments(factors.b, &ends[1], &parts.b, at, traits.ty_b);
        let e = match &factors.positions {
            Some(positions) => every(&parts.a)
                .map(|at| metadata(positions, &parts.e, at))
                .collect::<Result<_, _>>()?,
            None => Vec::new(),
        };
        Ok(Held {
            parts,
            a: every(&parts.a).map(a).collect(),
            b: every(&parts.b).map(b).collect(),
            e,
        })
    }
}

/// Every place of the rest, the first mode fastest.
fn every(parts: &[Part]) -> impl Iterator<Item = [usize; 2]> + use<> {
    let [rows, columns] = parts[0].rest();
    (0..columns).flat_map(move |j| (0..rows).map(move |i| [i, j]))
}
