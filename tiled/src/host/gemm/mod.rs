//! A tiled MMA on the host, instruction by instruction.

mod check;
mod fragments;
mod options;
mod part;
mod parts;
mod positions;
mod sparse;

pub use options::{Arithmetic, Edge, GemmOptions, OutOfBounds};
pub use sparse::Compressed;

use core::ops::{Deref, DerefMut};

use colex_atom::{Fragment, Operand as Given, Value};

use crate::Error;
use crate::access::map::Addresses;
use crate::host::gemm::check::{check_values, refuse};
use crate::host::gemm::fragments::{AtomFragments, Factors};
use crate::host::gemm::part::{Part, fragments, values};
use crate::host::gemm::parts::Parts;
use crate::mma::check::check_extents;
use crate::mma::{Operand, TiledMma};
use crate::tensor::extents::size;
use crate::tensor::{Tensor, one_place_each};

impl TiledMma {
    /// Computes `C = A B^T + C` for A of (M,K), B of (N,K) and C of (M,N): every thread partitions the operands, and
    /// every instruction computes in the atom's own types and arithmetic ([`colex_atom::MmaAtom::execute`]), along K in
    /// order. Elements are rounded to the types of the atom as they are read.
    ///
    /// Atoms along K own a C each: the first starts with C, the others with zero, and at the end their sums are added
    /// to the first in order, each rounded to the type of C, as a kernel adds what its warps have.
    ///
    /// ```
    /// use colex_atom::Value;
    /// use colex_tiled::{Tensor, TiledMma};
    /// let mma = TiledMma::new(colex_atom::mma("SM80_16x8x8_F16F16F16F16_TN")?, "(2,1,1):(1,0,0)", (.., .., ..))?;
    /// let a = Tensor::new(vec![Value::Real(0.5); 32 * 16], "(32,16):(16,1)")?;
    /// let b = Tensor::new(vec![Value::Real(2.0); 8 * 16], "(8,16):(1,8)")?;
    /// let mut c = Tensor::new(vec![Value::Real(1.0); 32 * 8], "(32,8):(1,32)")?;
    /// mma.gemm(&a, &b, &mut c)?;
    /// assert!(c.elements()?.iter().all(|x| **x == Value::Real(17.0)));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    ///
    /// Returns an error if the extents do not agree, if C has one element at several coordinates, for numbers that the
    /// atom's types do not hold (integers beyond the range, complex ones among real ones), if A is sparse
    /// ([`TiledMma::gemm_sparse`] takes its metadata), if the tile does not divide an operand, for an atom that is a
    /// layout only, or if the layout algebra has no result. C is as it was then.
    pub fn gemm<A, B, C>(
        &self,
        a: &Tensor<A>,
        b: &Tensor<B>,
        c: &mut Tensor<C>,
    ) -> Result<(), Error>
    where
        A: Deref<Target = [Value]>,
        B: Deref<Target = [Value]>,
        C: DerefMut<Target = [Value]>,
    {
        self.gemm_with(a, b, c, GemmOptions::default()).map(drop)
    }

    /// Returns the same as [`TiledMma::gemm`], with other sums, or by predicate where the tile does not divide the
    /// tensors.
    ///
    /// ```
    /// use colex_atom::Value;
    /// use colex_tiled::{Edge, GemmOptions, Tensor, TiledMma};
    /// let mma = TiledMma::new(colex_atom::mma("SM80_16x8x8_F32F16F16F32_TN")?, "(1,1,1):(0,0,0)", (.., .., ..))?;
    /// let a = Tensor::new(vec![Value::Real(1.0); 15 * 9], "(15,9):(1,15)")?;
    /// let b = Tensor::new(vec![Value::Real(2.0); 8 * 9], "(8,9):(1,8)")?;
    /// let mut c = Tensor::new(vec![Value::Real(0.0); 15 * 8], "(15,8):(1,15)")?;
    /// let edges = GemmOptions { edge: Edge::Predicate, ..GemmOptions::default() };
    /// let outside = mma.gemm_with(&a, &b, &mut c, edges)?;
    /// assert!(c.elements()?.iter().all(|x| **x == Value::Real(18.0)));
    /// // Two steps of 16 by 8 for 15 by 9; one of 16 by 8 for 15 by 8.
    /// assert_eq!((outside.a, outside.b, outside.c), (2 * 128 - 135, 2 * 64 - 72, 8));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    ///
    /// Returns the errors of [`TiledMma::gemm`]; those for a tile that does not divide an operand only with
    /// [`Edge::Refuse`].
    pub fn gemm_with<A, B, C>(
        &self,
        a: &Tensor<A>,
        b: &Tensor<B>,
        c: &mut Tensor<C>,
        options: GemmOptions,
    ) -> Result<OutOfBounds, Error>
    where
        A: Deref<Target = [Value]>,
        B: Deref<Target = [Value]>,
        C: DerefMut<Target = [Value]>,
    {
        if self.atom().rule().is_sparse() {
            let name = self.atom().name();
            return refuse(format!("{name} needs metadata for its sparse A"));
        }
        check_extents("gemm", [a.layout(), b.layout(), c.layout()], 1)?;
        let factors = Factors {
            a,
            whole_a: a.layout().clone(),
            positions: None,
            b,
        };
        self.product(&factors, c, options)
    }

    /// The product, once the extents are known to agree.
    pub(crate) fn product<A, B, C>(
        &self,
        factors: &Factors<'_, A, B>,
        c: &mut Tensor<C>,
        options: GemmOptions,
    ) -> Result<OutOfBounds, Error>
    where
        A: Deref<Target = [Value]>,
        B: Deref<Target = [Value]>,
        C: DerefMut<Target = [Value]>,
    {
        one_place_each("gemm", c.layout())?;
        self.atom().op()?;
        let traits = self.atom().traits();
        check_values(Operand::A, factors.a, traits.ty_a)?;
        check_values(Operand::B, factors.b, traits.ty_b)?;
        check_values(Operand::C, c, traits.ty_c)?;
        let to_layout = c.layout().clone();
        let stored = [factors.a.layout(), factors.b.layout(), &to_layout];
        let [a, b, to] = stored.map(Addresses::new);
        let ends = [a?, b?, to?];
        let operands = [&factors.whole_a, factors.b.layout(), c.layout()];
        let [atoms_m, atoms_n] = [1, 2].map(|i| size(self.thread_layout(), i));
        let places = (0..atoms_m).flat_map(|m| (0..atoms_n).map(move |n| [m, n]));
        let groups: Vec<Vec<Parts>> = places
            .map(|place| self.parts_along_k(operands, place, options.edge))
            .collect::<Result<_, _>>()?;
        let mut results = Vec::new();
        for (group, along_k) in groups.iter().enumerate() {
            let held = along_k.iter();
            let held = held.map(|parts| self.atom_fragments(parts, factors, &ends));
            let held: Vec<AtomFragments<'_>> = held.collect::<Result<_, _>>()?;
            let [rest_m, rest_n] = along_k[0].c[0].rest();
            for at in (0..rest_m).flat_map(|i| (0..rest_n).map(move |j| [i, j])) {
                let sums = self.accumulate(&held, at, c, &ends[2], options.arithmetic)?;
                results.push((group, at, sums));
            }
        }
        // C is written when nothing can be refused any more.
        for (group, at, sums) in &results {
            store(c, &ends[2], &groups[*group][0].c, *at, sums);
        }
        Ok(outside(&groups))
    }

    /// One instruction's C, along all of K: each atom along K has its own, and the first has the sum.
    fn accumulate<C>(
        &self,
        along_k: &[AtomFragments<'_>],
        [i, j]: [usize; 2],
        c: &Tensor<C>,
        places: &Addresses<'_>,
        arithmetic: Arithmetic,
    ) -> Result<Vec<Fragment>, Error>
    where
        C: Deref<Target = [Value]>,
    {
        let ty = self.atom().traits().ty_c;
        let mut total: Vec<Fragment> = Vec::new();
        for held in along_k {
            let parts = held.parts;
            let mut sums = if total.is_empty() {
                fragments(c, places, &parts.c, [i, j], ty)
            } else {
                vec![Fragment::zeros(ty, parts.c[0].values()); parts.c.len()]
            };
            for k in 0..parts.a[0].rest()[1] {
                sums = self.instruction(held, [i, j, k], &sums, arithmetic)?;
            }
            if total.is_empty() {
                total = sums
            } else {
                self.add(&mut total, &sums)
            }
        }
        Ok(total)
    }

    /// One instruction at `[i, j, k]` of the rest.
    fn instruction(
        &self,
        held: &AtomFragments<'_>,
        [i, j, k]: [usize; 3],
        sums: &[Fragment],
        arithmetic: Arithmetic,
    ) -> Result<Vec<Fragment>, Error> {
        let (a, b) = (held.a([i, k]), held.b([j, k]));
        let metadata = held.metadata([i, k]);
        let (a_tile, b_tile) = (values(&a[0]), values(&b[0]));
        let a = given(self.in_shared(Operand::A), a, &a_tile);
        let b = given(self.in_shared(Operand::B), b, &b_tile);
        Ok(match arithmetic {
            Arithmetic::RoundedOnce => self.atom().execute(a, b, sums, metadata)?,
            Arithmetic::Hopper => self.atom().execute_on_hopper(a, b, sums, metadata)?,
        })
    }

    /// Adds what another atom along K has.
    fn add(&self, total: &mut [Fragment], sums: &[Fragment]) {
        let saturates = self.atom().saturates();
        for (total, sums) in total.iter_mut().zip(sums) {
            for v in 0..sums.len() {
                total.set(v, sum(total.get(v), sums.get(v), saturates));
            }
        }
    }
}

/// The sum of two accumulators; the register it goes to rounds or wraps it.
fn sum(a: Value, b: Value, saturates: bool) -> Value {
    match (a, b) {
        (Value::Int(a), Value::Int(b)) if saturates => {
            Value::Int((a + b).clamp(i32::MIN.into(), i32::MAX.into()))
        }
        (Value::Int(a), Value::Int(b)) => Value::Int(a + b),
        (Value::Complex(a), Value::Complex(b)) => {
            Value::Complex([a[0] + b[0], a[1] + b[1], a[2] + b[2]])
        }
        (a, b) => Value::Real(a.real() + b.real()),
    }
}

/// Writes an instruction's C, but for what lies outside.
fn store<C>(
    c: &mut Tensor<C>,
    places: &Addresses<'_>,
    parts: &[Part],
    [i, j]: [usize; 2],
    sums: &[Fragment],
) where
    C: DerefMut<Target = [Value]>,
{
    for (part, fragment) in parts.iter().zip(sums) {
        for (coord, value) in part.at(i, j).iter().zip(values(fragment)) {
            if let Some(offset) = coord.and_then(|coord| places.at(&coord)) {
                *c.element_mut(offset) = value;
            }
        }
    }
}

/// How many values lie outside. The C of atoms along K is one C.
fn outside(groups: &[Vec<Parts>]) -> OutOfBounds {
    let mut outside = OutOfBounds::default();
    let count = |parts: &[Part]| parts.iter().map(Part::outside).sum::<usize>();
    for along_k in groups {
        for parts in along_k {
            outside.a += count(&parts.a);
            outside.b += count(&parts.b);
        }
        outside.c += count(&along_k[0].c);
    }
    outside
}

/// An operand in registers, or as the tile in shared memory that every thread names.
fn given<'a>(in_shared: bool, held: &'a [Fragment], tile: &'a [Value]) -> Given<'a> {
    if in_shared {
        Given::Tile(tile)
    } else {
        Given::Registers(held)
    }
}
