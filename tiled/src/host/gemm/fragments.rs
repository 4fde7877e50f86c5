//! What the threads of an atom hold of A and B, instruction by instruction.

use core::ops::Deref;

use colex_atom::{Fragment, Value};
use colex_layout::Layout;

use crate::Error;
use crate::access::map::Addresses;
use crate::host::gemm::part::{Part, fragments};
use crate::host::gemm::parts::Parts;
use crate::host::gemm::positions::metadata;
use crate::mma::TiledMma;
use crate::tensor::Tensor;

/// What to multiply: the kept elements and the positions of a sparse A, or all of A.
pub(crate) struct Factors<'a, A, B> {
    pub(crate) a: &'a Tensor<A>,
    /// A with its zeros.
    pub(crate) whole_a: Layout,
    pub(crate) positions: Option<Tensor<&'a [u8]>>,
    pub(crate) b: &'a Tensor<B>,
}

/// Where A, B and C have each coordinate.
pub(crate) type GemmAddresses<'a> = [Addresses<'a>; 3];

/// The operands of one atom's instructions, each loaded once for all instructions that share it.
pub(crate) struct AtomFragments<'a> {
    pub(crate) parts: &'a Parts,
    a: Vec<Vec<Fragment>>,
    b: Vec<Vec<Fragment>>,
    /// Of a sparse A the registers of metadata.
    e: Vec<Vec<u32>>,
}

impl AtomFragments<'_> {
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
    pub(crate) fn atom_fragments<'a, A, B>(
        &self,
        parts: &'a Parts,
        factors: &Factors<'_, A, B>,
        ends: &GemmAddresses<'_>,
    ) -> Result<AtomFragments<'a>, Error>
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
        Ok(AtomFragments {
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
