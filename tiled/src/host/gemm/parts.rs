//! What the threads of one atom name of each operand.

use colex_layout::Layout;

use crate::Error;
use crate::access::map::AccessMap;
use crate::host::gemm::options::Edge;
use crate::host::gemm::part::{LaneCoords, Part, matrix, within};
use crate::mma::{Operand, TiledMma};
use crate::tensor::extents::{check_walk, size};

/// The parts of the threads of one atom, of each operand.
pub(crate) struct Parts {
    pub(crate) a: Vec<Part>,
    pub(crate) b: Vec<Part>,
    pub(crate) c: Vec<Part>,
    /// Of each thread of the metadata of a sparse A: groups of positions instead of elements.
    pub(crate) e: Vec<Part>,
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
            let (a, e) = if self.atom().rule().is_sparse() {
                self.sparse_parts(a, &lanes, edge)?
            } else {
                (within(a, lanes, edge)?, Vec::new())
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
    ) -> Result<Vec<(i64, LaneCoords)>, Error> {
        let identity = Layout::identity(matrix(size(tensor, 0), size(tensor, 1)))?;
        let all = self.fragments(&identity, operand)?;
        check_walk("gemm", &all)?;
        // Of an operand in shared memory every thread names the whole tile: the first speaks for all.
        let lanes = if self.in_shared(operand) {
            0..1
        } else {
            0..size(self.thread_layout(), 0)
        };
        let named = |v| {
            let thread = self.thread_layout().at((v, m, n, k))?;
            let partition = self.slice(thread)?.part_of(&identity, &all, operand)?;
            let count = |i| usize::try_from(size(&partition.layout, i)).expect("sizes are counted");
            let mut named = AccessMap::new(2);
            named.push(thread, &partition)?;
            let coords = named.lanes().flat_map(|(_, coords)| coords.iter());
            let lane = LaneCoords {
                coords: coords.map(|coord| [coord[0], coord[1]]).collect(),
                values: count(0),
                rest: [count(1), count(2)],
            };
            Ok((thread, lane))
        };
        lanes.map(named).collect()
    }
}
