//! What each thread of an atom names of the operands of a product.

use core::ops::Deref;

use colex_atom::{Fragment, Ty, Value};
use colex_layout::{IntTuple, Layout};

use crate::Error;
use crate::access::map::{Addresses, tuple};
use crate::error::ErrorKind;
use crate::host::gemm::options::Edge;
use crate::tensor::Tensor;
use crate::tensor::extents::size;

/// A row and a column.
pub(crate) type At = [i64; 2];

/// The coordinates that one thread names of an operand: `values` values per instruction, and the rest of each mode.
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

/// One thread's values of a matrix, inside or not: `values` per instruction, and the rest of each mode.
pub(crate) struct LaneCoords {
    pub(crate) coords: Vec<At>,
    pub(crate) values: usize,
    pub(crate) rest: [usize; 2],
}

/// The extents of a matrix as a shape.
pub(crate) fn matrix(rows: i64, columns: i64) -> IntTuple {
    IntTuple::from((rows, columns))
}

/// Parts without what lies outside, or a refusal.
pub(super) fn within(
    tensor: &Layout,
    lanes: Vec<(i64, LaneCoords)>,
    edge: Edge,
) -> Result<Vec<Part>, Error> {
    let part = |(thread, held): (i64, LaneCoords)| {
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
        (false, Edge::Refuse) => Err(ErrorKind::Outside {
            thread,
            coord: tuple(&coord).to_string(),
            tensor: tensor.to_string(),
        }
        .into()),
    }
}

/// What each thread of the atom holds for one instruction; outside of the tensor there are zeros.
pub(crate) fn fragments<D>(
    tensor: &Tensor<D>,
    places: &Addresses<'_>,
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
