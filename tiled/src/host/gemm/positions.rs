//! Where the elements that a sparse A keeps were: the parts of A that are stored, and the registers of metadata.

use std::collections::HashMap;

use colex_atom::Rule;
use colex_layout::Layout;

use crate::Error;
use crate::host::gemm::check::refuse;
use crate::host::gemm::options::Edge;
use crate::host::gemm::part::{At, LaneCoords, Part, kept};
use crate::mma::TiledMma;
use crate::tensor::Tensor;
use crate::tensor::extents::size;

/// The positions of what is not there: the first ones, of zeros.
pub(super) const FIRST: u8 = 0b0100;

impl TiledMma {
    /// How many elements along K are a group.
    pub(super) fn group(&self) -> Result<i64, Error> {
        match self.atom().rule() {
            Rule::Sparse2Of4 => Ok(4),
            Rule::Sparse1Of2 => Ok(2),
            _ => refuse(format!("{} has no sparse A", self.atom().name())),
        }
    }

    /// The parts of the kept elements, and of the threads that hold their positions.
    pub(crate) fn sparse_parts(
        &self,
        whole: &Layout,
        lanes: &[(i64, LaneCoords)],
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
    fn position_parts(
        &self,
        whole: &Layout,
        lanes: &[(i64, LaneCoords)],
    ) -> Result<Vec<Part>, Error> {
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
        lanes: &[(i64, LaneCoords)],
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
