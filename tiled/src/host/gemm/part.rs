//! What each thread of an atom names of the operands of a product.

use core::ops::Deref;

use colex_atom::{Fragment, Ty, Value};
use colex_layout::{IntTuple, Layout};

use crate::access::named::{Named, Places, check_walk, tuple};
use crate::copy::size;
use crate::host::gemm::options::Edge;
use crate::mma::{Operand, TiledMma};
use crate::{Error, Tensor};

/// A row and a column.
pub(crate) type At = [i64; 2];

/// The coordinates that one thread names of an operand: so many values an instruction, and the rest of each mode.
/// What lies outside has no coordinate.
pub(crate) struct Part {
    named: Vec<Option<At>>,
    values: usize,
    rest: [usize; 2],
}

impl Part {
    pub(crate) fn new(named: Vec<Option<At>>, values: usize, rest: [usize; 2]) -> Self {
        Self {
            named,
            values,
            rest,
        }
    }

    /// The values of the instruction at `(i, j)` of the rest.
    pub(crate) fn at(&self, i: usize, j: usize) -> &[Option<At>] {
        let first = self.values * (i + self.rest[0] * j);
        &self.named[first..first + self.values]
    }

    /// How many values one instruction takes.
    pub(crate) const fn values(&self) -> usize {
        self.values
    }

    /// How many instructions there are along each mode.
    pub(crate) const fn rest(&self) -> [usize; 2] {
        self.rest
    }

    pub(crate) fn outside(&self) -> usize {
        self.named.iter().filter(|coord| coord.is_none()).count()
    }
}

/// The extents of a matrix as a shape.
pub(crate) fn matrix(rows: i64, columns: i64) -> IntTuple {
    IntTuple::from((rows, columns))
}

/// The parts of the threads of one atom, of each operand.
pub(crate) struct Parts {
    pub(crate) a: Vec<Part>,
    pub(crate) b: Vec<Part>,
    pub(crate) c: Vec<Part>,
    /// Of each thread of the metadata of a sparse A: groups of positions instead of elements.
    pub(crate) e: Vec<Part>,
}

/// One thread's values of a matrix, inside or not: so many an instruction, and the rest of each mode.
pub(crate) struct Held {
    pub(crate) coords: Vec<At>,
    pub(crate) values: usize,
    pub(crate) rest: [usize; 2],
}

impl TiledMma {
    /// The parts of the atoms at `[m, n]`, one for each atom along K.
    pub(crate) fn parts_along_k(
        &self,
        operands: [&Layout; 3],
        [m, n]: [i64; 2],
        edge: Edge,
    ) -> Result<Vec<Parts>, Error> {
        let parts = |k| {
            let place = [m, n, k];
            let [a, b, c] = operands;
            let lanes = self.lanes(a, Operand::A, place)?;
            let (a, e) = match self.atom().rule().is_sparse() {
                true => self.sparse_parts(a, &lanes, edge)?,
                false => (within(a, lanes, edge)?, Vec::new()),
            };
            Ok(Parts {
                a,
                b: within(b, self.lanes(b, Operand::B, place)?, edge)?,
                c: within(c, self.lanes(c, Operand::C, place)?, edge)?,
                e,
            })
        };
        (0..size(self.thread_layout(), 3)).map(parts).collect()
    }

    /// What the threads of the atom at `place` name of a matrix of the operand's extents.
    fn lanes(
        &self,
        tensor: &Layout,
        operand: Operand,
        [m, n, k]: [i64; 3],
    ) -> Result<Vec<(i64, Held)>, Error> {
        let identity = Layout::identity(matrix(size(tensor, 0), size(tensor, 1)))?;
        let all = self.fragments(&identity, operand)?;
        check_walk("gemm", &all)?;
        // Of an operand in shared memory every thread names the whole tile: the first speaks for all.
        let lanes = match self.in_shared(operand) {
            true => 0..1,
            false => 0..size(self.thread_layout(), 0),
        };
        let named = |v| {
            let thread = self.thread_layout().offset((v, m, n, k))?;
            let partition = self.slice(thread)?.part_of(&identity, &all, operand)?;
            let count = |i| usize::try_from(size(&partition.layout, i)).expect("sizes are counted");
            let mut named = Named::new(2);
            named.push(thread, &partition)?;
            let coords = named.lanes().flat_map(|(_, coords)| coords.iter());
            let held = Held {
                coords: coords.map(|coord| [coord[0], coord[1]]).collect(),
                values: count(0),
                rest: [count(1), count(2)],
            };
            Ok((thread, held))
        };
        lanes.map(named).collect()
    }
}

/// Parts without what lies outside, or a refusal.
fn within(tensor: &Layout, lanes: Vec<(i64, Held)>, edge: Edge) -> Result<Vec<Part>, Error> {
    let part = |(thread, held): (i64, Held)| {
        let coords = held.coords.into_iter();
        let coords = coords.map(|coord| kept(thread, coord, tensor, edge));
        let coords = coords.collect::<Result<_, _>>()?;
        Ok(Part::new(coords, held.values, held.rest))
    };
    lanes.into_iter().map(part).collect()
}

/// The coordinate, nothing where it lies outside, or a refusal.
pub(crate) fn kept(
    thread: i64,
    coord: At,
    tensor: &Layout,
    edge: Edge,
) -> Result<Option<At>, Error> {
    let inside = (0..2).all(|i| (0..size(tensor, i)).contains(&coord[i]));
    match (inside, edge) {
        (true, _) => Ok(Some(coord)),
        (false, Edge::Predicate) => Ok(None),
        (false, Edge::Refuse) => Err(Error::Outside {
            thread,
            coord: tuple(&coord).to_string(),
            tensor: tensor.to_string(),
        }),
    }
}

/// What each thread of the atom holds for one instruction; outside of the tensor there are zeros.
pub(crate) fn fragments<D>(
    tensor: &Tensor<D>,
    places: &Places<'_>,
    parts: &[Part],
    [i, j]: [usize; 2],
    ty: Ty,
) -> Vec<Fragment>
where
    D: Deref<Target = [Value]>,
{
    let held = |part: &Part| {
        let mut fragment = Fragment::zeros(ty, part.values);
        for (v, coord) in part.at(i, j).iter().enumerate() {
            if let Some(offset) = coord.and_then(|coord| places.at(&coord)) {
                fragment.set(v, *tensor.element(offset));
            }
        }
        fragment
    };
    parts.iter().map(held).collect()
}

pub(crate) fn values(fragment: &Fragment) -> Vec<Value> {
    (0..fragment.len()).map(|v| fragment.get(v)).collect()
}
