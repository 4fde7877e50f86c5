//! Matrix instructions on fragments.

pub(crate) mod gmma;

use std::panic::Location;

use colex_atom::{MmaAtom, Ty};
use colex_layout::Layout;
use colex_tiled::{Operand, TiledMma};

use crate::build::Builder;
use crate::error::ErrorKind;
use crate::fragment::{Fragment, element};
use colex_ir::{TernaryOp, Type};

/// The extents of a fragment: one atom's values, then the repetitions; missing modes are 1.
fn extents(layout: &Layout) -> [i64; 3] {
    [0, 1, 2].map(|i| layout.mode(i).map_or(1, |m| m.size()))
}

/// The multiply-add instruction of a scalar atom.
fn scalar(atom: &MmaAtom) -> Option<(TernaryOp, Type)> {
    match (atom.mnk(), atom.row().c) {
        ([1, 1, 1], Ty::F32) => Some((TernaryOp::Fma, Type::F32)),
        ([1, 1, 1], Ty::F64) => Some((TernaryOp::Fma, Type::F64)),
        ([1, 1, 1], Ty::S32) => Some((TernaryOp::Mad, Type::S32)),
        _ => None,
    }
}

/// Refuses an operand whose elements are not those that the atom multiplies.
pub(crate) fn check_type(
    operation: &'static str,
    atom: &MmaAtom,
    operand: Operand,
    found: Ty,
) -> Result<(), ErrorKind> {
    let expected = element(atom, operand);
    if expected == found {
        return Ok(());
    }
    let why = format!(
        "{operand:?} has elements of {found}, and {} takes {expected} (`convert` makes other elements, `as_type` reads the same \
         bits as others)",
        atom.name()
    );
    Err(ErrorKind::operands(operation, why))
}

impl Builder {
    /// Computes `d = a b + c` over the fragments of a thread: A `(V, M, K)`, B `(V, N, K)`, C and D `(V, M, N)`; the
    /// modes along K may be missing. Accumulation is in place if `d` is `c`.
    ///
    /// ```
    /// # use colex_tensor::prelude::*;
    /// # use colex_ir::Type;
    /// # use colex_proof::examples::elements;
    /// # let mma = TiledMma::new(colex_atom::mma("SM80_16x8x16_F32F16F16F32_TN")?, "(1,1,1):(0,0,0)", (16, 8, 16))?;
    /// let mut k = Builder::new("k", Arch::Sm80, 32);
    /// # let one = k.emit(|ir| ir.mov(Type::B32, 0x3c003c00)); // two halves of 1.0
    /// let (a, b) = (k.fragment_of(&mma, Operand::A, (16, 16)), k.fragment_of(&mma, Operand::B, (8, 16)));
    /// # a.regs().iter().chain(b.regs()).for_each(|r| k.emit(|ir| ir.mov_to(*r, one)));
    /// let c = k.accumulators(&mma, (16, 8));
    /// k.mma(&mma, &c, &a, &b, &c); // A and B are ones
    /// assert_eq!(elements(k, &c)?[0], [16.0; 4]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    ///
    /// [`Builder::finish`] fails if extents do not match each other or the atom, if elements are not of the atom's types, if a
    /// fragment was made for another operand or holds other elements of its tile than the product takes, if the extents of the
    /// tiles differ, if the MMA has more threads than the block, or if the atom reads shared memory.
    #[doc(alias = "gemm")]
    #[track_caller]
    pub fn mma(&mut self, mma: &TiledMma, d: &Fragment, a: &Fragment, b: &Fragment, c: &Fragment) {
        self.run(Location::caller(), |k| k.run_mma(mma, d, a, b, c));
    }

    fn run_mma(
        &mut self,
        mma: &TiledMma,
        d: &Fragment,
        a: &Fragment,
        b: &Fragment,
        c: &Fragment,
    ) -> Result<(), ErrorKind> {
        self.own_fragments(&[d, a, b, c])?;
        let atom = mma.atom();
        if atom.b_in_shared() {
            let why = format!(
                "{} reads shared memory: `wgmma` takes its descriptors",
                atom.name()
            );
            return Err(ErrorKind::operands("mma", why));
        }
        self.check_threads("mma", mma)?;
        let operands = [
            (Operand::A, a),
            (Operand::B, b),
            (Operand::C, c),
            (Operand::C, d),
        ];
        for (operand, fragment) in operands {
            check_type("mma", atom, operand, fragment.ty)?;
            // Fragments of A and B may have the same shape, but a thread holds other elements of their tiles.
            if let Some(made_for) = fragment.operand.filter(|made_for| *made_for != operand) {
                let why = format!("the fragment for {operand:?} was made for {made_for:?}");
                return Err(ErrorKind::operands("mma", why));
            }
        }
        self.forget_parts(d)?;
        let [va, m, ka] = extents(a.layout());
        let [vb, n, kb] = extents(b.layout());
        let traits = atom.traits();
        let values = |l: &Layout| l.mode(1).map_or(1, |m| m.size());
        let want = [values(&traits.a), values(&traits.b), values(&traits.c)];
        let fits = [va, vb] == want[..2]
            && ka == kb
            && [c, d]
                .iter()
                .all(|f| extents(f.layout()) == [want[2], m, n]);
        if !fits {
            let why = format!(
                "A {} B {} C {} D {} are not (V,M,K) (V,N,K) (V,M,N) of {}",
                a.layout(),
                b.layout(),
                c.layout(),
                d.layout(),
                atom.name()
            );
            return Err(ErrorKind::operands("mma", why));
        }
        self.check_operands("mma", mma, &operands)?;
        let note = format!("{m} along M, {n} along N, {ka} along K");
        self.note(mma.atom().name(), m * n * ka, note, Vec::new());
        for k in 0..ka {
            for j in 0..n {
                // Serpentine order: the fragment of B stays in use, and consecutive instructions share a fragment of A.
                for i in 0..m {
                    let i = if j % 2 == 1 { m - 1 - i } else { i };
                    let of_a = a.run(va * (i + m * k), va)?;
                    let of_b = b.run(vb * (j + n * k), vb)?;
                    let at = want[2] * (i + m * j);
                    let (of_c, of_d) = (c.run(at, want[2])?, d.run(at, want[2])?);
                    match scalar(atom) {
                        Some((op, ty)) => {
                            self.ir
                                .ternary_to(op, ty, of_d[0], of_a[0], of_b[0], of_c[0]);
                        }
                        None => self.ir.mma_atom(atom, &of_d, &of_a, &of_b, &of_c),
                    }
                }
            }
        }
        Ok(())
    }

    /// Refuses an MMA of threads that the block does not have.
    pub(crate) fn check_threads(
        &self,
        operation: &'static str,
        mma: &TiledMma,
    ) -> Result<(), ErrorKind> {
        let last = mma.thread_layout().cosize()?;
        if last <= i64::from(self.threads) {
            return Ok(());
        }
        let why = format!(
            "{} of {} threads, the last of them number {}, in a block of {}",
            mma.atom().name(),
            mma.threads(),
            last - 1,
            self.threads
        );
        Err(ErrorKind::operands(operation, why))
    }

    /// Allocates a thread's accumulators and sets them to zero.
    ///
    /// ```
    /// # use colex_tensor::prelude::*;
    /// # use colex_proof::examples::elements;
    /// # let mma = TiledMma::new(colex_atom::mma("SM80_16x8x16_F32F16F16F32_TN")?, "(1,1,1):(0,0,0)", (16, 8, 16))?;
    /// let mut k = Builder::new("k", Arch::Sm80, 32);
    /// let c = k.accumulators(&mma, (16, 16));
    /// assert_eq!(c.layout().to_string(), "((_2,_2),_1,_2):((_1,_2),_0,_4)"); // (MMA, MMA_M, MMA_N)
    /// assert_eq!(elements(k, &c)?[0], [0.0; 8]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    ///
    /// [`Builder::finish`] fails as for [`Builder::fragment_of`].
    #[track_caller]
    pub fn accumulators(&mut self, mma: &TiledMma, tile: impl Into<[i64; 2]>) -> Fragment {
        let fragment = self.fragment_of(mma, Operand::C, tile);
        self.clear(&fragment);
        fragment
    }
}
