//! A tensor as one thread of a tiled copy or a tiled MMA has it, the thread known when the kernel runs.

use std::panic::Location;

use colex_layout::{Coord, Layout, Slot};
use colex_tiled::{Operand, Side, TiledCopy, TiledMma};

use super::error::{At, Error, ErrorKind};
use super::index::Index;
use super::memory::{Tensor, View};

/// A [`TiledCopy`] at a thread that is an [`Index`].
#[derive(Clone, Debug)]
pub struct CopyAt<'a> {
    copy: &'a TiledCopy,
    thread: Index,
}

/// A [`TiledMma`] at a thread that is an [`Index`].
#[derive(Clone, Debug)]
pub struct MmaAt<'a> {
    mma: &'a TiledMma,
    thread: Index,
}

/// The slice of a tiled copy or MMA at a thread that only the kernel knows: what `slice` is for a number.
pub trait AtThread {
    /// The slice.
    type Slice<'a>
    where
        Self: 'a;

    /// The slice at a thread index, which must lie below the number of threads.
    fn at<'a>(&'a self, thread: &Index) -> Self::Slice<'a>;
}

impl AtThread for TiledCopy {
    type Slice<'a> = CopyAt<'a>;
    fn at<'a>(&'a self, thread: &Index) -> CopyAt<'a> {
        CopyAt {
            copy: self,
            thread: thread.clone(),
        }
    }
}

impl AtThread for TiledMma {
    type Slice<'a> = MmaAt<'a>;
    fn at<'a>(&'a self, thread: &Index) -> MmaAt<'a> {
        MmaAt {
            mma: self,
            thread: thread.clone(),
        }
    }
}

fn below(what: &'static str, thread: &Index, threads: i64) -> Result<(), ErrorKind> {
    let (low, high) = thread.range();
    if low >= 0 && high < threads {
        return Ok(());
    }
    Err(ErrorKind::operands(
        what,
        format!("the thread index lies from {low} to {high}, and there are {threads} threads"),
    ))
}

fn all() -> Coord {
    Coord::from(Slot::All)
}

fn every(rank: usize) -> Coord {
    if rank == 1 {
        all()
    } else {
        Coord::concat(&vec![all(); rank])
    }
}

/// A layout must be known when the kernel is built for its modes to be cut.
pub(super) fn fixed<'a>(
    operation: &'static str,
    layout: &'a Layout,
) -> Result<&'a Layout, ErrorKind> {
    if layout.is_static() {
        return Ok(layout);
    }
    Err(ErrorKind::Dynamic {
        operation,
        layout: layout.to_string(),
    })
}

impl CopyAt<'_> {
    /// What the thread reads: `(CPY, CPY_M, CPY_N, ..)`.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Dynamic`] for a parameter of dynamic extents: a tile of it must be cut out first;
    /// [`ErrorKind::Operands`] for a thread beyond the last; [`ErrorKind::Tiled`].
    #[doc(alias = "partition_S")]
    #[track_caller]
    pub fn partition_src(&self, tensor: &Tensor) -> Result<Tensor, Error> {
        let at = Location::caller();
        self.partition(tensor, Side::Source).at(at)
    }

    /// What the thread writes: `(CPY, CPY_M, CPY_N, ..)`.
    ///
    /// # Errors
    ///
    /// As [`CopyAt::partition_src`].
    #[doc(alias = "partition_D")]
    #[track_caller]
    pub fn partition_dst(&self, tensor: &Tensor) -> Result<Tensor, Error> {
        let at = Location::caller();
        self.partition(tensor, Side::Destination).at(at)
    }

    fn partition(&self, tensor: &Tensor, side: Side) -> Result<Tensor, ErrorKind> {
        below("partition", &self.thread, self.copy.threads())?;
        let layout = fixed("partition", tensor.layout())?;
        let parts = self.copy.partitions(layout, side)?;
        let rest = parts.get(&[2])?.rank();
        let coord = Coord::concat(&[Coord::from(0), all(), every(rest)]);
        tensor.cut(&parts, &coord, &[(parts.get(&[0])?, self.thread.clone())])
    }
}

impl MmaAt<'_> {
    /// What the thread has of A, B or C in memory: `(MMA, MMA_M, MMA_K)` and so on.
    ///
    /// # Errors
    ///
    /// As [`CopyAt::partition_src`].
    #[doc(alias = "partition_A")]
    #[doc(alias = "partition_B")]
    #[doc(alias = "partition_C")]
    #[track_caller]
    pub fn partition(&self, tensor: &Tensor, operand: Operand) -> Result<Tensor, Error> {
        let at = Location::caller();
        self.part(tensor, operand).at(at)
    }

    fn part(&self, tensor: &Tensor, operand: Operand) -> Result<Tensor, ErrorKind> {
        let threads = self.mma.thread_layout();
        let warps = (threads.cosize()? + 31) / 32 * 32;
        below(
            "partition",
            &self.thread,
            if warps == 32 && threads.size() == 1 {
                1
            } else {
                warps
            },
        )?;
        let layout = fixed("partition", tensor.layout())?;
        let parts = self.mma.fragments(layout, operand)?;
        let rest = parts.get(&[1, 1])?.rank();
        let coord = Coord::concat(&[
            Coord::from((0, (0, 0))),
            Coord::concat(&[all(), every(rest)]),
        ]);
        let [i, j] = operand.modes();
        let vmnk: Vec<Index> = threads
            .modes()
            .map(|mode| place(&mode, &self.thread))
            .collect();
        let places = [
            (parts.get(&[0, 0])?, vmnk[0].clone()),
            (parts.get(&[0, 1, 0])?, vmnk[i + 1].clone()),
            (parts.get(&[0, 1, 1])?, vmnk[j + 1].clone()),
        ];
        tensor.cut(&parts, &coord, &places)
    }
}

/// The place of a thread index in one mode of a thread layout: `thread / stride % extent` of each leaf.
fn place(mode: &Layout, thread: &Index) -> Index {
    let mut before = 1;
    let mut place = Index::constant(0);
    for leaf in mode.leaves() {
        let (n, d) = (leaf.extent.value(), leaf.stride.coefficient().value());
        if d > 0 {
            place = place + (thread / d % n) * before;
        }
        before *= n;
    }
    place
}

impl Tensor {
    /// The same elements in the modes of another layout of this size: for what no partition says.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Layout`] when the composition has no result.
    #[track_caller]
    pub fn compose(&self, with: &Layout) -> Result<Tensor, Error> {
        let mut result = self.clone();
        match &mut result.view {
            View::Offsets { layout, .. } | View::Coords { layout, .. } => {
                *layout = fixed("compose", layout)
                    .map_err(ErrorKind::here)?
                    .composition(with)?;
            }
        }
        Ok(result)
    }
}
