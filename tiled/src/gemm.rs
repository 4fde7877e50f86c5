//! A tiled MMA on the host, instruction by instruction.

use core::ops::{Deref, DerefMut};

use colex_atom::{Fragment, Operand as Given, Ty, Value};
use colex_layout::{IntTuple, Layout};

use crate::copy::size;
use crate::copy_host::inside;
use crate::mma::{Operand, TiledMma};
use crate::tensor::one_place_each;
use crate::{Error, Tensor};

/// The coordinates that one thread names of an operand: so many values an instruction, and the rest of each mode.
struct Part {
    named: Vec<IntTuple>,
    values: usize,
    rest: [usize; 2],
}

impl Part {
    /// The values of the instruction at `(i, j)` of the rest.
    fn at(&self, i: usize, j: usize) -> &[IntTuple] {
        let first = self.values * (i + self.rest[0] * j);
        &self.named[first..first + self.values]
    }
}

/// The parts of the threads of one atom, of each operand.
struct Parts {
    a: Vec<Part>,
    b: Vec<Part>,
    c: Vec<Part>,
}

impl TiledMma {
    /// `C = A B^T + C` for A of (M,K), B of (N,K) and C of (M,N): every thread partitions the operands, and every
    /// instruction computes in the atom's own types and arithmetic ([`colex_atom::MmaAtom::execute`]), along K in order.
    /// Elements are rounded to the types of the atom as they are read.
    ///
    /// ```
    /// use colex_atom::Value;
    /// use colex_tiled::{Tensor, TiledMma};
    /// let mma = TiledMma::new(colex_atom::mma("SM80_16x8x8_F16F16F16F16_TN")?, &"(2,1,1):(1,0,0)".parse()?, &"(_,_,_)".parse()?)?;
    /// let a = Tensor::new(vec![Value::Real(0.5); 32 * 16], "(32,16):(16,1)".parse()?)?;
    /// let b = Tensor::new(vec![Value::Real(2.0); 8 * 16], "(8,16):(1,8)".parse()?)?;
    /// let mut c = Tensor::new(vec![Value::Real(1.0); 32 * 8], "(32,8):(1,32)".parse()?)?;
    /// mma.gemm(&a, &b, &mut c)?;
    /// assert!(c.elements()?.iter().all(|x| **x == Value::Real(17.0)));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    ///
    /// [`Error::Assumption`] when the extents do not agree, when C has one element at several coordinates, when atoms along K own a C each, or when A is sparse (its
    /// metadata is not part of a tensor); [`Error::Outside`] when the tile does not divide an operand;
    /// [`Error::Atom`] for an atom that is a layout only; [`Error::Layout`]. C is as it was then.
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
        self.check_gemm([a.layout(), b.layout(), c.layout()])?;
        one_place_each("gemm", c.layout())?;
        self.atom().op()?;
        let [atoms_m, atoms_n] = [1, 2].map(|i| size(self.thread_layout(), i));
        let mut groups = Vec::new();
        for (m, n) in (0..atoms_m).flat_map(|m| (0..atoms_n).map(move |n| (m, n))) {
            groups.push(Parts {
                a: self.parts(a.layout(), Operand::A, [m, n])?,
                b: self.parts(b.layout(), Operand::B, [m, n])?,
                c: self.parts(c.layout(), Operand::C, [m, n])?,
            });
        }
        for parts in &groups {
            let [rest_m, rest_n] = parts.c[0].rest;
            for (i, j) in (0..rest_m).flat_map(|i| (0..rest_n).map(move |j| (i, j))) {
                self.accumulate(parts, [i, j], a, b, c)?;
            }
        }
        Ok(())
    }

    /// One instruction's C, along all of K.
    fn accumulate<A, B, C>(
        &self,
        parts: &Parts,
        [i, j]: [usize; 2],
        a: &Tensor<A>,
        b: &Tensor<B>,
        c: &mut Tensor<C>,
    ) -> Result<(), Error>
    where
        A: Deref<Target = [Value]>,
        B: Deref<Target = [Value]>,
        C: DerefMut<Target = [Value]>,
    {
        let traits = self.atom().traits();
        let mut sums = fragments(c, &parts.c, [i, j], traits.ty_c)?;
        for k in 0..parts.a[0].rest[1] {
            let a_held = fragments(a, &parts.a, [i, k], traits.ty_a)?;
            let b_held = fragments(b, &parts.b, [j, k], traits.ty_b)?;
            let (a_tile, b_tile) = (values(&a_held[0]), values(&b_held[0]));
            let a_given = given(self.in_shared(Operand::A), &a_held, &a_tile);
            let b_given = given(self.in_shared(Operand::B), &b_held, &b_tile);
            sums = self.atom().execute(a_given, b_given, &sums, &[])?;
        }
        for (part, fragment) in parts.c.iter().zip(&sums) {
            for (coord, value) in part.at(i, j).iter().zip(values(fragment)) {
                c.set(coord, value)?;
            }
        }
        Ok(())
    }

    /// The parts of the threads of the atom at `[m, n]`, checked to lie inside.
    fn parts(
        &self,
        tensor: &Layout,
        operand: Operand,
        [m, n]: [i64; 2],
    ) -> Result<Vec<Part>, Error> {
        let identity = Layout::identity(tensor.shape().product_each()?)?;
        // Of an operand in shared memory every thread names the whole tile: the first speaks for all.
        let lanes = match self.in_shared(operand) {
            true => 0..1,
            false => 0..size(self.thread_layout(), 0),
        };
        let part = |v| {
            let thread = self.thread_layout().offset((v, m, n, 0))?;
            let partition = self.slice(thread)?.partition(&identity, operand)?;
            let named = partition.values()?;
            named
                .iter()
                .try_for_each(|coord| inside(thread, coord, tensor))?;
            let count = |i| usize::try_from(size(&partition.layout, i)).expect("sizes are counted");
            Ok(Part {
                values: count(0),
                rest: [count(1), count(2)],
                named,
            })
        };
        lanes.map(part).collect()
    }

    fn in_shared(&self, operand: Operand) -> bool {
        match operand {
            Operand::A => self.atom().a_in_shared(),
            Operand::B => self.atom().b_in_shared(),
            Operand::C => false,
        }
    }

    fn check_gemm(&self, tensors: [&Layout; 3]) -> Result<(), Error> {
        let refuse = |why| {
            Err(Error::Assumption {
                operation: "gemm",
                why,
            })
        };
        let [a, b, c] = tensors;
        if tensors.iter().any(|t| t.rank() != 2) {
            return refuse(format!("A {a}, B {b} and C {c} are not all of rank 2"));
        }
        let agree =
            size(a, 0) == size(c, 0) && size(b, 0) == size(c, 1) && size(a, 1) == size(b, 1);
        if !agree {
            return refuse(format!(
                "A {a}, B {b} and C {c} are not of the extents (M,K), (N,K) and (M,N)"
            ));
        }
        match size(self.thread_layout(), 3) {
            1 if self.atom().rule().is_sparse() => refuse(format!(
                "{} needs metadata for its sparse A",
                self.atom().name()
            )),
            1 => Ok(()),
            n => refuse(format!(
                "{n} atoms along K own a C each, whose sum is another step"
            )),
        }
    }
}

/// What each thread of the atom holds for one instruction.
fn fragments<D>(
    tensor: &Tensor<D>,
    parts: &[Part],
    [i, j]: [usize; 2],
    ty: Ty,
) -> Result<Vec<Fragment>, Error>
where
    D: Deref<Target = [Value]>,
{
    let held = |part: &Part| {
        let mut fragment = Fragment::zeros(ty, part.values);
        for (v, coord) in part.at(i, j).iter().enumerate() {
            fragment.set(v, *tensor.get(coord)?);
        }
        Ok(fragment)
    };
    parts.iter().map(held).collect()
}

fn values(fragment: &Fragment) -> Vec<Value> {
    (0..fragment.len()).map(|v| fragment.get(v)).collect()
}

/// An operand in registers, or as the tile in shared memory that every thread names.
fn given<'a>(in_shared: bool, held: &'a [Fragment], tile: &'a [Value]) -> Given<'a> {
    match in_shared {
        true => Given::Tile(tile),
        false => Given::Registers(held),
    }
}
