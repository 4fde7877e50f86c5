//! Where in its tile every element of a thread's part lies.

use std::rc::Rc;

use colex_layout::{Coord, IntTuple, Layout, Slot};
use colex_tiled::{Operand, Side, TiledCopy, TiledMma};

use crate::error::ErrorKind;
use crate::tensor::identity;

/// The partitioner of a tile: a side of a tiled copy, or an operand of a tiled MMA.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Partitioner {
    Copy(Rc<TiledCopy>, Side),
    Mma(Rc<TiledMma>, Operand),
}

/// The coordinates of the elements of every thread in a tile: those of the thread plus those of the element.
#[derive(Debug)]
pub(crate) struct PartitionCoords {
    pub(crate) cutter: Partitioner,
    pub(crate) tile: Vec<i64>,
    pub(crate) threads: Vec<Vec<i64>>,
    pub(crate) elements: Vec<Vec<i64>>,
}

/// A value of a layout of coordinates, one number for each mode of a tile.
fn coordinates(value: &IntTuple, rank: usize) -> Vec<i64> {
    let mut coordinates: Vec<i64> = value.leaves().iter().map(|n| n.value()).collect();
    coordinates.resize(rank, 0);
    coordinates
}

/// `(_,_,..)`, as `Layout::slice` wants it.
fn every(rank: usize) -> Coord {
    match rank {
        1 => Slot::All.into(),
        _ => Coord::concat(&vec![Slot::All.into(); rank]),
    }
}

impl Partitioner {
    /// The places of the elements of a tile.
    pub(crate) fn places(&self, tile: &[i64]) -> Result<PartitionCoords, ErrorKind> {
        let (whole, rank) = (identity(tile)?, tile.len());
        let all = |layout: &Layout| -> Result<Vec<Vec<i64>>, ErrorKind> {
            let at = |i| Ok(coordinates(&layout.coord_at(i)?, rank));
            (0..layout.size()).map(at).collect()
        };
        let (threads, elements) = match self {
            Partitioner::Copy(copy, side) => {
                let parts = copy.partitions(&whole, *side)?;
                let rest = every(parts.get(&[2])?.rank());
                let own = Coord::concat(&[Coord::from(0), Slot::All.into(), rest]);
                (all(&parts.get(&[0])?)?, all(&parts.slice(&own)?)?)
            }
            Partitioner::Mma(mma, operand) => {
                let parts = mma.fragments(&whole, *operand)?;
                let rest = every(parts.get(&[1, 1])?.rank());
                let own = Coord::concat(&[Slot::All.into(), rest]);
                let own = Coord::concat(&[Coord::from((0, (0, 0))), own]);
                let [i, j] = operand.modes();
                let modes = [
                    (parts.get(&[0, 0])?, 0),
                    (parts.get(&[0, 1, 0])?, i + 1),
                    (parts.get(&[0, 1, 1])?, j + 1),
                ];
                let layout = mma.thread_layout();
                let count = match layout.cosize()? {
                    1 => 1,
                    n => (n + 31) / 32 * 32,
                };
                let of_thread = |thread: i64| -> Result<Vec<i64>, ErrorKind> {
                    let mut sum = vec![0; rank];
                    for (mode, vmnk) in &modes {
                        let place = digits(&layout.get(&[*vmnk])?, thread);
                        let at = coordinates(&mode.coord_at(place)?, rank);
                        sum.iter_mut().zip(at).for_each(|(sum, x)| *sum += x);
                    }
                    Ok(sum)
                };
                let threads = (0..count).map(of_thread).collect::<Result<_, _>>()?;
                (threads, all(&parts.slice(&own)?)?)
            }
        };
        Ok(PartitionCoords {
            cutter: self.clone(),
            tile: tile.to_vec(),
            threads,
            elements,
        })
    }
}

/// The place of a thread in one mode of a thread layout: `thread / stride % extent` of each leaf.
fn digits(mode: &Layout, thread: i64) -> i64 {
    let (mut before, mut place) = (1, 0);
    for leaf in mode.leaves() {
        let (n, d) = (leaf.extent.value(), leaf.stride.coefficient().value());
        if d > 0 {
            place += thread / d % n * before;
        }
        before *= n;
    }
    place
}
