//! Partitions of tensors among the threads of a tiled copy or MMA, at a thread index that is known at run time.

use std::panic::Location;
use std::rc::Rc;

use colex_layout::{Coord, Int, IntTuple, IntoIntTuple, IntoLayout, Layout, Slot};
use colex_tiled::{Operand, Side, TiledCopy, TiledMma};

use super::{Cut, Kept, Share, Tensor, View};
use crate::error::ErrorKind;
use crate::index::Index;
use crate::tensor::partition_coords::Partitioner;

/// The most registers of a fragment. A thread has 255 registers; more of them are spilled to local memory.
pub const MAX_REGISTERS: i64 = 1024;

/// Refuses a tile with more elements than the registers of all threads can hold, before each element is listed.
pub(crate) fn check_tile(
    call: &'static str,
    mma: &TiledMma,
    [m, n]: [i64; 2],
) -> Result<(), ErrorKind> {
    let threads = mma.threads();
    // The narrowest element has one bit.
    if m.saturating_mul(n) <= threads.saturating_mul(32 * MAX_REGISTERS) {
        return Ok(());
    }
    let why = format!(
        "a tile of {m} x {n} elements is more than fits into {MAX_REGISTERS} registers of each of {threads} threads"
    );
    Err(ErrorKind::operands(call, why))
}

/// The slice of a [`TiledCopy`] at a thread index of the kernel.
#[derive(Clone, Debug)]
pub struct CopyAt<'a> {
    copy: &'a TiledCopy,
    thread: Index,
}

/// The slice of a [`TiledMma`] at a thread index of the kernel.
#[derive(Clone, Debug)]
pub struct MmaAt<'a> {
    mma: &'a TiledMma,
    thread: Index,
}

/// The slice of a tiled copy or MMA at a thread index of the kernel: CuTe's `get_slice` at run time.
pub trait AtThread {
    /// The slice.
    type Slice<'a>
    where
        Self: 'a;

    /// Returns the slice at a thread index, which must be below the number of threads.
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

/// The coordinates in a tile of the values of a thread's fragment: two coordinates for each index.
///
/// The coordinates of an index beyond the last have no value, and none has one if the tile has no such partition. A
/// kernel that uses them is refused.
#[derive(Clone, Debug)]
pub struct Places {
    all: Vec<[Index; 2]>,
    beyond: [Index; 2],
}

/// Why a value beyond the last has no coordinates.
const BEYOND: &str = "the coordinates of a value that the thread does not have";

impl Places {
    /// Returns the coordinates, value by value.
    ///
    /// ```
    /// # use colex_tensor::prelude::*;
    /// # use colex_proof::examples::values;
    /// # let mma = TiledMma::new(colex_atom::mma("SM80_16x8x16_F32F16F16F32_TN")?, "(1,1,1):(0,0,0)", (16, 8, 16))?;
    /// let mut k = Builder::new("k", Arch::Sm80, 32);
    /// let places = mma.at(&k.thread()).places(Operand::C, (16, 8));
    /// let [_, n] = &places[1];
    /// assert_eq!(places.iter().count(), 4);
    /// assert_eq!(values(k, n)?[..3], [1, 3, 5]); // the column of a thread's element 1
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn iter(&self) -> std::slice::Iter<'_, [Index; 2]> {
        self.all.iter()
    }
}

impl std::ops::Index<i64> for Places {
    type Output = [Index; 2];
    fn index(&self, value: i64) -> &[Index; 2] {
        let value = usize::try_from(value).ok();
        value
            .and_then(|value| self.all.get(value))
            .unwrap_or(&self.beyond)
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
pub(crate) fn fixed<'a>(
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
    /// Returns the elements that the thread reads: `(CPY, CPY_M, CPY_N, ..)`.
    ///
    /// ```
    /// # use colex_tensor::prelude::*;
    /// # let copy = TiledCopy::new(colex_atom::copy("UniversalCopy<uint128_t>")?, 32, "(4,8):(8,1)", "(1,4):(0,1)")?;
    /// let mut k = Builder::new("k", Arch::Sm80, 32);
    /// let a = k.tensor("a", Ty::F32, "(100,64):(64,_1)");
    /// let src = copy.at(&k.thread()).partition_src(&a.local_tile((8, 64), (0, 0)));
    /// assert_eq!(format!("{:#}", src.layout()), "((4,1),2,2):((1@1,0),4@0,32@1)"); // (CPY, CPY_M, CPY_N)
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    ///
    /// [`Builder::finish`](crate::Builder::finish) fails if the tensor has dynamic extents (cut a tile with
    /// [`Tensor::local_tile`] first), if the thread index may be beyond the last thread, or if the layout has no such partition.
    #[doc(alias = "partition_S")]
    #[track_caller]
    pub fn partition_src(&self, tensor: &Tensor) -> Tensor {
        tensor.attempt(Location::caller(), || self.partition(tensor, Side::Source))
    }

    /// Returns the elements that the thread writes: `(CPY, CPY_M, CPY_N, ..)`.
    ///
    /// ```
    /// # use colex_tensor::prelude::*;
    /// # let copy = TiledCopy::new(colex_atom::copy("UniversalCopy<uint128_t>")?, 32, "(4,8):(8,1)", "(1,4):(0,1)")?;
    /// let mut k = Builder::new("k", Arch::Sm80, 32);
    /// let tile = k.shared_tensor(Ty::F32, "(8,64):(64,1)");
    /// let dst = copy.at(&k.thread()).partition_dst(&tile);
    /// assert_eq!(dst.layout().to_string(), "((_4,_1),_2,_2):((_1,_0),_256,_32)"); // (CPY, CPY_M, CPY_N)
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    ///
    /// [`Builder::finish`](crate::Builder::finish) fails as for [`CopyAt::partition_src`].
    #[doc(alias = "partition_D")]
    #[track_caller]
    pub fn partition_dst(&self, tensor: &Tensor) -> Tensor {
        tensor.attempt(Location::caller(), || {
            self.partition(tensor, Side::Destination)
        })
    }

    pub(crate) fn partition(&self, tensor: &Tensor, side: Side) -> Result<Tensor, ErrorKind> {
        tensor.failure.own_indices([&self.thread])?;
        below("partition", &self.thread, self.copy.threads())?;
        fixed("partition", tensor.layout())?;
        let share = Share {
            thread: self.thread.clone(),
            threads: (0..self.copy.threads()).collect(),
            of: Partitioner::Copy(Rc::new(self.copy.clone()), side),
            tile: Vec::new(),
            kept: Kept::All,
            rank: self.copy.tiler().rank(),
            is_injective: true,
        };
        tensor.part(share, |layout| {
            let parts = self.copy.partitions(layout, side)?;
            let rest = parts.get(&[2])?.rank();
            Ok(Cut {
                coord: Coord::concat(&[Coord::from(0), all(), every(rest)]),
                places: vec![(parts.get(&[0])?, self.thread.clone())],
                all: parts,
            })
        })
    }
}

impl MmaAt<'_> {
    /// Returns the thread's part of A, B or C in memory: `(MMA, MMA_M, MMA_K)` of A, `(MMA, MMA_N, MMA_K)` of B, `(MMA,
    /// MMA_M, MMA_N)` of C, followed by further modes of the tensor such as stages.
    ///
    /// ```
    /// # use colex_tensor::prelude::*;
    /// # let mma = TiledMma::new(colex_atom::mma("SM80_16x8x16_F32F16F16F32_TN")?, "(1,1,1):(0,0,0)", (16, 8, 16))?;
    /// let mut k = Builder::new("k", Arch::Sm80, 32);
    /// let c = k.shared_tensor(Ty::F32, "(16,16):(16,1)");
    /// let mine = mma.at(&k.thread()).partition(&c, Operand::C);
    /// assert_eq!(mine.layout().to_string(), "((_2,_2),_1,_2):((_1,_128),_0,_8)"); // (MMA, MMA_M, MMA_N)
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    ///
    /// [`Builder::finish`](crate::Builder::finish) fails as for [`CopyAt::partition_src`].
    #[doc(alias = "partition_A")]
    #[doc(alias = "partition_B")]
    #[doc(alias = "partition_C")]
    #[track_caller]
    pub fn partition(&self, tensor: &Tensor, operand: Operand) -> Tensor {
        tensor.attempt(Location::caller(), || self.part(tensor, operand))
    }

    pub(crate) fn part(&self, tensor: &Tensor, operand: Operand) -> Result<Tensor, ErrorKind> {
        tensor.failure.own_indices([&self.thread])?;
        self.check_thread()?;
        fixed("partition", tensor.layout())?;
        let share = Share {
            thread: self.thread.clone(),
            threads: thread_numbers(self.mma)?,
            of: Partitioner::Mma(Rc::new(self.mma.clone()), operand),
            tile: Vec::new(),
            kept: Kept::All,
            rank: 2,
            is_injective: true,
        };
        tensor.part(share, |layout| self.cuts(layout, operand))
    }

    fn cuts(&self, layout: &Layout, operand: Operand) -> Result<Cut, ErrorKind> {
        let threads = self.mma.thread_layout();
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
        let places = vec![
            (parts.get(&[0, 0])?, vmnk[0].clone()),
            (parts.get(&[0, 1, 0])?, vmnk[i + 1].clone()),
            (parts.get(&[0, 1, 1])?, vmnk[j + 1].clone()),
        ];
        Ok(Cut {
            all: parts,
            coord,
            places,
        })
    }

    /// Returns the coordinates of every value of a fragment in a tile of the extents `tile`: two coordinates for each
    /// index.
    ///
    /// ```
    /// use colex_atom::Arch;
    /// use colex_tensor::{AtThread, Builder};
    /// use colex_tiled::{Operand, TiledMma};
    ///
    /// let mma = colex_atom::mma("SM80_16x8x16_F32F16F16F32_TN")?;
    /// let mma = TiledMma::new(mma, "(1,1,1):(0,0,0)", (16, 8, 16))?;
    /// let mut k = Builder::new("k", Arch::Sm80, 32);
    /// let places = mma.at(&k.thread()).places(Operand::C, (16, 16));
    /// let [m, n] = &places[6];
    /// assert_eq!((m.to_string(), n.to_string()), ("(r0 >> 2) + 8".into(), "((r0 & 3) << 1) + 8".into()));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    ///
    /// [`Builder::finish`](crate::Builder::finish) fails as for [`CopyAt::partition_src`] if the kernel uses one of the
    /// coordinates.
    #[track_caller]
    pub fn places(&self, operand: Operand, tile: impl Into<[i64; 2]>) -> Places {
        let at = Location::caller();
        match self.in_tile(operand, tile.into()) {
            Ok(all) => Places {
                all,
                beyond: [0, 1].map(|_| Index::no_integer(BEYOND.into())),
            },
            Err(kind) => Places {
                all: Vec::new(),
                beyond: [0, 1].map(|_| Index::poison_of(kind.clone(), at)),
            },
        }
    }

    fn in_tile(&self, operand: Operand, tile: [i64; 2]) -> Result<Vec<[Index; 2]>, ErrorKind> {
        self.check_thread()?;
        check_tile("places", self.mma, tile)?;
        let whole = super::identity(&tile)?;
        let Cut { all, coord, places } = self.cuts(&whole, operand)?;
        let mut start = [0, 1].map(|_| Index::constant(0));
        for (mode, place) in &places {
            for (path, value) in super::offset::along(mode, place) {
                start[path] = &start[path] + value;
            }
        }
        let kept = all.slice(&coord)?.to_static();
        let value = |i| -> Result<[Index; 2], ErrorKind> {
            let step = kept.coord_at(i)?;
            let step: Vec<i64> = step.leaves().iter().map(|n| n.value()).collect();
            Ok([0, 1].map(|mode| &start[mode] + step.get(mode).copied().unwrap_or(0)))
        };
        (0..kept.size()).map(value).collect()
    }

    fn check_thread(&self) -> Result<(), ErrorKind> {
        let threads = self.mma.thread_layout();
        let warps = (threads.cosize()? + 31) / 32 * 32;
        let alone = warps == 32 && threads.size() == 1;
        below("partition", &self.thread, if alone { 1 } else { warps })
    }
}

/// The numbers of the threads of an MMA.
pub(crate) fn thread_numbers(mma: &TiledMma) -> Result<Rc<[i64]>, ErrorKind> {
    let threads = mma.thread_layout();
    let numbers = (0..threads.size()).map(|i| threads.at(i));
    Ok(numbers.collect::<Result<_, _>>()?)
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
    /// Returns the tensor composed with a layout, whose values are indices of this tensor.
    ///
    /// ```
    /// # use colex_tensor::prelude::*;
    /// let mut k = Builder::new("k", Arch::Sm80, 32);
    /// let tile = k.shared_tensor(Ty::F32, "(8,8):(8,1)");
    /// let diagonal = tile.compose("8:9");
    /// assert_eq!(diagonal.layout().to_string(), "_8:_9");
    /// ```
    ///
    /// # Errors
    ///
    /// [`Builder::finish`](crate::Builder::finish) fails if the composition has no result, or if the layout has indices that the
    /// tensor does not have.
    #[track_caller]
    pub fn compose(&self, with: impl IntoLayout) -> Tensor {
        self.attempt(Location::caller(), || self.composed(&with.into_layout()?))
    }

    /// Returns all windows of the extents `window` of a tile, which overlap: the modes of their places, then those within a window,
    /// so that element `(i, j, a, b)` of windows of two modes is element `(i + a, j + b)` of the tile. A stencil partitions the
    /// places among its threads, and reads the elements of each window one by one.
    ///
    /// ```
    /// use colex_atom::{Arch, Ty};
    /// use colex_proof::examples::elements;
    /// use colex_tensor::{AtThread, Builder};
    /// use colex_tiled::TiledCopy;
    ///
    /// let copy = TiledCopy::new(colex_atom::copy("UniversalCopy<uint32_t>")?, 32, "(4,8):(8,1)", "(1,1):(0,0)")?;
    /// let mut k = Builder::new("k", Arch::Sm80, 32);
    /// let tile = k.shared_tensor(Ty::F32, "(4,10):(10,1)");
    /// let (row, column) = (k.thread() / 8, k.thread() % 8);
    /// k.scatter(1.0, &tile.elements((&row, &column)));
    /// k.scatter(5.0, &tile.elements((&row, column % 2 + 8)));
    /// k.sync();
    /// let windows = tile.windows((1, 3));
    /// assert_eq!(windows.layout().to_string(), "(_4,_8,_1,_3):(_10,_1,_1,_1)");
    /// let mine = copy.at(&k.thread()).partition_src(&windows); // (CPY, CPY_M, CPY_N, 1, 3)
    /// let held = k.fragment_like(&mine);
    /// k.copy(&copy, &mine, &held);
    /// let sums = k.reduce_all(colex_ir::BinaryOp::Add, &held);
    /// assert_eq!(elements(k, &sums)?[5..8], [[3.0], [7.0], [11.0]]); // of columns 5, 6 and 7 of the first row
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    ///
    /// [`Builder::finish`](crate::Builder::finish) fails if there is not one extent for each mode, or if a window is larger than
    /// the tile; if the tile has dynamic extents; and if its layout is not linear along a mode that a window has several elements
    /// of. A copy into windows is refused, since they overlap.
    #[track_caller]
    pub fn windows(&self, window: impl IntoIntTuple) -> Tensor {
        self.attempt(Location::caller(), || {
            let window = crate::tensor::coord::extents("windows", window)?;
            let whole = fixed("windows", self.layout())?;
            let extents: Vec<i64> = whole.modes().map(|mode| mode.size()).collect();
            let fits = |(n, w): (&i64, &i64)| *w >= 1 && w <= n;
            if window.len() != extents.len() || !extents.iter().zip(&window).all(fits) {
                let why = format!(
                    "windows of {window:?} in {whole}: an extent for each mode, from 1 to that of the mode"
                );
                return Err(ErrorKind::operands("windows", why));
            }
            let strides = extents.iter().scan(1, |before, n| {
                let own = *before;
                *before *= n;
                Some(own)
            });
            let strides: Vec<i64> = strides.collect();
            let places = extents.iter().zip(&window).map(|(n, w)| n - w + 1);
            let shape = places.chain(window.iter().copied()).map(Int::Static);
            let stride = strides.iter().chain(&strides).copied().map(Int::Static);
            let all = Layout::new(IntTuple::flat(shape), IntTuple::flat(stride))?;
            self.composed(&all.to_static())
        })
    }

    fn composed(&self, with: &Layout) -> Result<Tensor, ErrorKind> {
        let (reach, size) = (with.cosize()?, self.layout().size());
        if reach > size
            || with
                .leaves()
                .iter()
                .any(|l| l.stride.coefficient().value() < 0)
        {
            let why = format!(
                "{with} has indices beyond those of {}, which are 0 to {}",
                self.layout(),
                size - 1
            );
            return Err(ErrorKind::operands("compose", why));
        }
        let mut result = (self.clone()).keeping(self, |numbers| numbers.composition(with));
        match &mut result.view {
            View::Offsets { layout, .. } | View::Coords { layout, .. } => {
                // What is written with plain numbers is known too.
                *layout = fixed("compose", layout)?.composition(with)?.to_static();
            }
        }
        if let Some(share) = &mut result.share {
            share.is_injective &= with.is_injective() == Ok(true);
        }
        for end in &mut result.ends {
            end.layout = end.layout.composition(with)?.to_static();
        }
        Ok(result)
    }
}
