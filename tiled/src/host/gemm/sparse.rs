//! A tiled MMA whose A is stored without its zeros.

use core::ops::{Deref, DerefMut};
use std::collections::HashMap;

use colex_atom::{Rule, Value};
use colex_layout::Layout;

use crate::copy::size;
use crate::host::gemm::options::{Edge, GemmOptions, Predicated};
use crate::host::gemm::part::{At, Held, Part, kept, matrix};
use crate::host::gemm::{Factors, check_extents, refuse};
use crate::mma::TiledMma;
use crate::{Error, Tensor};

/// The positions of what is not there: the first ones, of zeros.
const FIRST: u8 = 0b0100;

/// The kept elements of a sparse A, `(M,K/2)`, and their positions, `(M,K/group)`.
pub type Compressed = (Tensor<Vec<Value>>, Tensor<Vec<u8>>);

impl TiledMma {
    /// As [`TiledMma::gemm_with`], for an atom with a sparse A: `a` of (M,K/2) has the elements that are kept, and
    /// `positions` of (M,K/4) where they were, four bits for each group of four along K (of `tf32` (M,K/2), for each
    /// group of two). [`TiledMma::compress`] makes both.
    ///
    /// Every thread of the atom gets its register of metadata by the atom's own thread-value layout
    /// ([`colex_atom::MmaTraits::e`]).
    ///
    /// ```
    /// use colex_atom::Value;
    /// use colex_tiled::{GemmOptions, Tensor, TiledMma};
    /// let atom = colex_atom::mma("SPARSE::GMMA_64x8x64_S32S8S8_SS_TN")?;
    /// let mma = TiledMma::new(atom, &"1:0".parse()?, &"(_,_,_)".parse()?)?;
    /// // Of each four along K the second and the fourth.
    /// let data: Vec<Value> = (0..64 * 64).map(|i| Value::Int(i / 64 % 2)).collect();
    /// let dense = Tensor::new(data, "(64,64):(1,64)".parse()?)?;
    /// let (a, positions) = mma.compress(&dense)?;
    /// assert_eq!((format!("{:#}", a.layout()), *positions.get((0, 0))?), ("(64,32):(1,64)".into(), 0b1101));
    /// let b = Tensor::new(vec![Value::Int(3); 8 * 64], "(8,64):(1,8)".parse()?)?;
    /// let mut c = Tensor::new(vec![Value::Int(0); 64 * 8], "(64,8):(1,64)".parse()?)?;
    /// mma.gemm_sparse(&a, &positions, &b, &mut c, GemmOptions::default())?;
    /// assert!(c.elements()?.iter().all(|x| **x == Value::Int(96)));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    ///
    /// As [`TiledMma::gemm_with`]; [`Error::Assumption`] for an atom whose A is dense, or a permutation of K that takes
    /// the elements of a group apart; [`Error::Atom`] for positions that name none.
    ///
    /// Source: PTX ISA 9.7.15.6 (`wgmma.mma_async.sp`).
    pub fn gemm_sparse<A, E, B, C>(
        &self,
        a: &Tensor<A>,
        positions: &Tensor<E>,
        b: &Tensor<B>,
        c: &mut Tensor<C>,
        options: GemmOptions,
    ) -> Result<Predicated, Error>
    where
        A: Deref<Target = [Value]>,
        E: Deref<Target = [u8]>,
        B: Deref<Target = [Value]>,
        C: DerefMut<Target = [Value]>,
    {
        let (group, packing) = (self.group()?, self.atom().rule().packing() as i64);
        check_extents("gemm", [a.layout(), b.layout(), c.layout()], packing)?;
        let [m, k] = [size(a.layout(), 0), size(b.layout(), 1)];
        let e = positions.layout();
        if e.rank() != 2 || size(e, 0) != m || size(e, 1) * group != k {
            return refuse(format!(
                "the positions {e} are not of the extents ({m},{k}/{group}) that A {} has",
                a.layout()
            ));
        }
        let factors = Factors {
            a,
            whole_a: Layout::column_major(matrix(m, k))?,
            positions: Some(positions.view()),
            b,
        };
        self.product(&factors, c, options)
    }

    /// An A of (M,K) without its zeros, for [`TiledMma::gemm_sparse`]: column-major.
    ///
    /// # Errors
    ///
    /// [`Error::Assumption`] for an atom whose A is dense, and for a K that is not of whole groups;
    /// [`Error::Atom`] with [`colex_atom::Error::TooDense`] when a group has more elements than are kept.
    pub fn compress<A>(&self, a: &Tensor<A>) -> Result<Compressed, Error>
    where
        A: Deref<Target = [Value]>,
    {
        let group = self.group()?;
        let [m, k] = [0, 1].map(|i| size(a.layout(), i));
        if a.layout().rank() != 2 || k % group != 0 {
            return refuse(format!(
                "A {} is not of the extents (M,K) with K a multiple of {group}",
                a.layout()
            ));
        }
        let (mut stored, mut positions) = (Vec::new(), Vec::new());
        for (first, row) in (0..k / group).flat_map(|g| (0..m).map(move |row| (g * group, row))) {
            let element = |i| Ok(*a.get((row, first + i))?);
            let elements: Vec<Value> = (0..group).map(element).collect::<Result<_, Error>>()?;
            let chosen = self.choose(&elements, row, first)?;
            positions.push(nibble(&chosen));
            stored.push(
                chosen
                    .into_iter()
                    .map(|at| elements[at])
                    .collect::<Vec<_>>(),
            );
        }
        // Groups of one column follow each other; within them, the elements kept in one place.
        let kept = stored[0].len();
        let columns = stored.chunks(m as usize);
        let stored = columns
            .flat_map(|rows| (0..kept).flat_map(move |i| rows.iter().map(move |row| row[i])));
        let column_major = |columns| Layout::column_major(matrix(m, columns));
        Ok((
            Tensor::new(stored.collect(), column_major(k / group * kept as i64)?)?,
            Tensor::new(positions, column_major(k / group)?)?,
        ))
    }

    /// How many elements along K are a group.
    fn group(&self) -> Result<i64, Error> {
        match self.atom().rule() {
            Rule::Sparse2Of4 => Ok(4),
            Rule::Sparse1Of2 => Ok(2),
            _ => refuse(format!("{} has no sparse A", self.atom().name())),
        }
    }

    /// The places of a group that are kept: those that are not zero, filled up with the first that are.
    fn choose(&self, elements: &[Value], row: i64, first: i64) -> Result<Vec<usize>, Error> {
        let zero = |at: &usize| elements[*at] == Value::zero(self.atom().traits().ty_a);
        let keep = elements.len() / self.atom().rule().packing();
        let (zeros, mut chosen): (Vec<_>, Vec<_>) = (0..elements.len()).partition(zero);
        if chosen.len() > keep {
            return Err(Error::Atom(colex_atom::Error::TooDense {
                name: self.atom().name(),
                m: row as usize,
                k: first as usize,
                group: elements.len(),
                keep,
            }));
        }
        chosen.extend(&zeros[..keep - chosen.len()]);
        chosen.sort_unstable();
        Ok(chosen)
    }

    /// The parts of the kept elements, and of the threads that hold their positions.
    pub(crate) fn sparse_parts(
        &self,
        whole: &Layout,
        lanes: &[(i64, Held)],
        edge: Edge,
    ) -> Result<(Vec<Part>, Vec<Part>), Error> {
        let traits = self.atom().traits();
        let (rows, packing) = (traits.mnk[0], self.atom().rule().packing() as i64);
        let table = traits.a.table()?;
        let threads = size(&traits.a, 0) as usize;
        let mut parts = Vec::new();
        for (lane, (thread, named)) in lanes.iter().enumerate() {
            let along_k = |v: usize| table[lane + threads * v] / rows;
            let is_kept = |v: usize| along_k(v) % packing == 0;
            let mut coords = Vec::new();
            for (at, coord) in named.coords.iter().enumerate() {
                if is_kept(at % named.values) {
                    let coord = kept(*thread, *coord, whole, edge)?;
                    coords.push(coord.map(|c| column_by(c, packing)));
                }
            }
            let values = (0..named.values).filter(|v| is_kept(*v)).count();
            parts.push(Part::new(coords, values, named.rest));
        }
        Ok((parts, self.position_parts(whole, lanes)?))
    }

    /// Which groups each thread's metadata is of, four bits after four.
    fn position_parts(&self, whole: &Layout, lanes: &[(i64, Held)]) -> Result<Vec<Part>, Error> {
        let group = self.group()?;
        let rows = self.atom().mnk()[0];
        let layout = self.atom().traits().e.as_ref();
        let layout = layout.expect("a sparse atom has a layout of its metadata");
        let threads = size(layout, 0) as usize;
        // The values of a thread are the elements of its groups one by one; the first of a group stands for it.
        let firsts = (0..size(layout, 1) as usize).step_by(group as usize);
        let table = layout.table()?;
        let rest = lanes[0].1.rest;
        let mut named = vec![Vec::new(); threads];
        for instruction in 0..rest[0] * rest[1] {
            let places = self.places(lanes, instruction)?;
            self.check_groups(&places, group)?;
            for v in firsts.clone() {
                for (thread, named) in named.iter_mut().enumerate() {
                    let at = table[thread + threads * v];
                    let coord = places[&(at % rows, at / rows)];
                    let coord = kept(0, coord, whole, Edge::Predicate)?;
                    named.push(coord.map(|c| column_by(c, group)));
                }
            }
        }
        let part = |named| Part::new(named, firsts.len(), rest);
        Ok(named.into_iter().map(part).collect())
    }

    /// Where one instruction's elements of A are in the matrix, by their place in the atom.
    fn places(
        &self,
        lanes: &[(i64, Held)],
        instruction: usize,
    ) -> Result<HashMap<(i64, i64), At>, Error> {
        let traits = self.atom().traits();
        let (rows, threads) = (traits.mnk[0], size(&traits.a, 0) as usize);
        let table = traits.a.table()?;
        let mut places = HashMap::new();
        for (lane, (_, named)) in lanes.iter().enumerate() {
            for v in 0..named.values {
                let at = table[lane + threads * v];
                let coord = &named.coords[v + named.values * instruction];
                places.insert((at % rows, at / rows), *coord);
            }
        }
        Ok(places)
    }

    /// Refuses groups whose elements are not neighbours in the matrix.
    fn check_groups(&self, places: &HashMap<(i64, i64), At>, group: i64) -> Result<(), Error> {
        let number = |coord: &At, i: usize| coord[i];
        for m in 0..self.atom().mnk()[0] {
            for k in 0..self.atom().mnk()[2] {
                let first = &places[&(m, k / group * group)];
                let own = &places[&(m, k)];
                let [start, found] = [first, own].map(|c| number(c, 1));
                let together = number(own, 0) == number(first, 0)
                    && start % group == 0
                    && found == start + k % group;
                if !together {
                    let name = self.atom().name();
                    return refuse(format!(
                        "{name} keeps some of {group} neighbours along K, and the permutation of K puts elements {} \
                         and {k} of an instruction at {start} and {found}",
                        k / group * group
                    ));
                }
            }
        }
        Ok(())
    }
}

/// The registers of metadata of one instruction.
pub(crate) fn metadata(
    positions: &Tensor<&[u8]>,
    parts: &[Part],
    [i, k]: [usize; 2],
) -> Result<Vec<u32>, Error> {
    let nibble = |coord: &Option<At>| match coord {
        Some([row, group]) => Ok(positions.get((*row, *group))? & 0xf),
        None => Ok(FIRST),
    };
    let word = |part: &Part| {
        let nibbles = part.at(i, k).iter().rev().map(nibble);
        let nibbles: Vec<u8> = nibbles.collect::<Result<_, Error>>()?;
        Ok(nibbles
            .into_iter()
            .fold(0, |word, nibble| word << 4 | u32::from(nibble)))
    };
    parts.iter().map(word).collect()
}

/// The coordinate with its column divided.
const fn column_by([row, column]: At, n: i64) -> At {
    [row, column / n]
}

/// Four bits for the places that are kept.
fn nibble(chosen: &[usize]) -> u8 {
    match *chosen {
        [0] => FIRST,
        [_] => 0b1110,
        [first, second] => (first | second << 2) as u8,
        _ => unreachable!("one of two or two of four are kept"),
    }
}
