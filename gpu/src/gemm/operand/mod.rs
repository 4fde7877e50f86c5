//! The pipeline of an operand: from global memory through shared memory into registers.

pub(crate) mod transposed;

use std::convert::Infallible;
use std::sync::LazyLock;

use colex_atom::{SmemSwizzle, Ty, gmma_smem_atom};
use colex_device::Memo;
use colex_layout::{ComposedLayout, IntTuple, Layout, LayoutLeft};
use colex_tiled::{Operand, Side, TiledCopy, TiledMma};

use super::groups::tiles::Span;
use super::plan::GemmPlan;
use crate::kernels::Major;
use colex_ir::{Rounding, Type};
use colex_tensor::{AtThread, Builder, Error, Fragment, Index, IntoIndices, Stage, Tensor};

/// The tiles of a tensor that threads copy.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct Tiles {
    /// The extents of a tile.
    pub(crate) tile: [i64; 2],
    /// The contiguous mode of the tensor.
    pub(crate) major: Major,
    pub(crate) ty: Ty,
    /// The number of elements that one access may take.
    pub(crate) vector: i64,
    /// Whether all tiles lie inside the tensor, so that the loads need no predicates.
    pub(crate) whole: bool,
}

impl Tiles {
    /// Returns the tiles of an operand of a product.
    fn of(plan: &GemmPlan, operand: Operand) -> Tiles {
        Tiles {
            tile: operand.modes().map(|mode| plan.tile[mode]),
            major: plan.operands.major(operand),
            ty: plan.operands.ab,
            vector: plan.operands.vector(operand),
            whole: plan.whole,
        }
    }

    /// Returns the copy of a tile by a number of threads.
    fn copy(self, threads: i64) -> Result<TiledCopy, Error> {
        let Tiles {
            tile,
            major,
            ty,
            vector,
            whole,
        } = self;
        let found = shares(major, tile, vector, threads, ty);
        let Shares {
            threads,
            values,
            vector,
        } = found.ok_or_else(|| uneven(tile, threads))?;
        let bits = i64::from(ty.bits());
        let atom = match vector * bits {
            128 if whole => "SM80_CP_ASYNC_CACHEGLOBAL<uint128_t>",
            128 => "SM80_CP_ASYNC_CACHEGLOBAL_ZFILL<uint128_t>",
            64 => "SM80_CP_ASYNC_CACHEALWAYS_ZFILL<uint64_t>",
            32 => "SM80_CP_ASYNC_CACHEALWAYS_ZFILL<uint32_t>",
            16 => "UniversalCopy<uint16_t>",
            _ => "UniversalCopy<uint8_t>",
        };
        Ok(TiledCopy::new(
            colex_atom::copy(atom)?,
            bits,
            &threads,
            &values,
        )?)
    }

    /// Whether that many threads share a tile of shared memory equally, whose threads read `step` elements of the contiguous
    /// mode at once.
    pub(crate) fn are_shared(self, threads: i64, step: i64) -> bool {
        let cut = || {
            let shared = shared_layout(self.major, self.ty.bits(), &self.tile, step)?;
            Ok::<_, Error>((self.copy(threads)?).partitions(&shared, Side::Destination)?)
        };
        let known = SHARED.get_or_make(&(self, threads, step), || {
            Ok::<_, Infallible>(cut().is_ok())
        });
        match known {
            Ok(known) => *known,
        }
    }
}

/// Which tiles threads share: to partition one takes some 30 us, and each choice of a plan of attention asks for three.
static SHARED: LazyLock<Memo<(Tiles, i64, i64), bool>> = LazyLock::new(|| Memo::new(1024));

/// The copy of an operand's tiles from global memory into the stages of shared memory, by threads.
#[derive(Clone)]
pub(crate) struct Fetch {
    tiles: Tiles,
    tensor: Tensor,
    copy: TiledCopy,
    fetched: Tensor,
    thread: Index,
    threads: i64,
    shared: Tensor,
    /// Whether the copy is asynchronous (`cp.async`), without registers.
    is_async: bool,
}

impl Fetch {
    /// `shared` has the stages as its last mode; `thread` is the number of the thread among the `threads` that copy.
    pub(crate) fn new(
        plan: &GemmPlan,
        operand: Operand,
        tensors: [Tensor; 2],
        threads: (&Index, i64),
    ) -> Result<Fetch, Error> {
        Fetch::of(Tiles::of(plan, operand), tensors, threads)
    }

    /// The same for any tiles.
    fn of(
        tiles: Tiles,
        [tensor, shared]: [Tensor; 2],
        (thread, threads): (&Index, i64),
    ) -> Result<Fetch, Error> {
        let copy = tiles.copy(threads)?;
        Ok(Fetch {
            tiles,
            tensor,
            fetched: copy.at(thread).partition_dst(&shared), // (CPY, CPY_M, CPY_K, STAGES)
            is_async: copy.atom().op()?.is_async(),
            copy,
            thread: thread.clone(),
            threads,
            shared,
        })
    }

    /// The same for some columns of the tensor, whose coordinates begin at 0.
    pub(crate) fn of_columns(&self, Span { first, end }: &Span) -> Fetch {
        Fetch {
            tensor: self.tensor.narrow(1, first, end),
            ..self.clone()
        }
    }

    /// Whether the copies are asynchronous.
    pub(crate) fn is_async(&self) -> bool {
        self.is_async
    }

    /// Copies a tile into a stage. Elements beyond the tensor are zeros. Returns what goes through registers, to be
    /// [put](Self::put) there once other loads are on their way.
    pub(crate) fn start(
        &self,
        k: &mut Builder,
        at: impl IntoIndices,
        stage: &Stage,
    ) -> Option<Fragment> {
        let tile = self.tensor.local_tile(self.tiles.tile, at);
        let from = self.copy.at(&self.thread).partition_src(&tile); // (CPY, CPY_M, CPY_K)
        let to = self.fetched.at(3, stage);
        if self.is_async {
            if self.tiles.whole {
                k.copy(&self.copy, &from, &to);
            } else {
                k.copy_in_bounds(&self.copy, &from, &to);
            }
            return None;
        }
        let through = k.fragment_like(&from);
        k.copy_in_bounds(&self.copy, &from, &through);
        Some(through)
    }

    /// Stores what was loaded into registers.
    pub(crate) fn put(&self, k: &mut Builder, through: Option<&Fragment>, stage: &Stage) {
        if let Some(through) = through {
            k.copy(&self.copy, through, &self.fetched.at(3, stage));
        }
    }
}

/// The copy of a part of an operand's tile by the threads that copy whole tiles.
pub(crate) struct FetchPart {
    part: [i64; 2],
    copy: TiledCopy,
    thread: Index,
    shared: Tensor,
    is_async: bool,
}

impl FetchPart {
    /// Copies the part at these coordinates of a tensor to its place, in parts of the tile, in a stage. Elements beyond the
    /// tensor are zeros.
    pub(crate) fn fetch(
        &self,
        k: &mut Builder,
        (from, at): (&Tensor, [&Index; 4]),
        place: [i64; 2],
        stage: &Stage,
    ) {
        let copy = self.copy.at(&self.thread);
        let from = copy.partition_src(&from.local_tile(self.part, at)); // (CPY, CPY_M, CPY_K)
        let [row, column] = place.map(Index::from);
        let to = self
            .shared
            .at(2, stage)
            .local_tile(self.part, [row, column]);
        let to = copy.partition_dst(&to); // (CPY, CPY_M, CPY_K)
        if self.is_async {
            return k.copy_in_bounds(&self.copy, &from, &to);
        }
        let through = k.fragment_like(&from);
        k.copy_in_bounds(&self.copy, &from, &through);
        k.copy(&self.copy, &through, &to);
    }
}

/// The stages of an operand of a block's product in shared memory, with the copies that fill them and those that read
/// them into registers.
pub(crate) struct OperandTiles {
    fetch: Fetch,
    read: TiledCopy,
    smem_src: Tensor,
    registers: Fragment,
    fragment_dst: Fragment,
}

impl OperandTiles {
    /// `step` is the number of elements of the contiguous mode that the threads read at once.
    pub(crate) fn new(
        k: &mut Builder,
        tiles: Tiles,
        (mma, operand): (&TiledMma, Operand),
        tensor: Tensor,
        (stages, step): (i64, i64),
    ) -> Result<OperandTiles, Error> {
        let Tiles {
            tile: [mn, bk],
            major,
            ty,
            ..
        } = tiles;
        let bits = i64::from(ty.bits());
        let shape = [mn, bk, stages];
        let shared = k.shared_tensor(ty, shared_layout(major, ty.bits(), &shape, step)?);
        let thread = k.thread();
        let fetch = Fetch::of(tiles, [tensor, shared.clone()], (&thread, mma.threads()))?;
        // Matrices are of 8 rows of 16 bytes; transposed they are by 16 bits. What they do not bring goes by element.
        let read = match (major, ty.bits()) {
            (Major::Second, 8 | 16 | 32) => "SM75_U32x4_LDSM_N".to_string(),
            (Major::First, 16) => "SM75_U16x8_LDSM_T".to_string(),
            _ => format!("UniversalCopy<uint{bits}_t>"),
        };
        let read = TiledCopy::for_operand(colex_atom::copy(&read)?, bits, mma, operand)?;
        // (MMA, MMA_M, MMA_K) of A, (MMA, MMA_N, MMA_K) of B. For B, CPY_N stands in place of CPY_M.
        let registers = k.fragment_of(mma, operand, [mn, bk]);
        Ok(OperandTiles {
            fetch,
            smem_src: read.at(&thread).partition_src(&shared), // (CPY, CPY_M, CPY_K, STAGES)
            fragment_dst: registers.retile(&read),             // (CPY, CPY_M, CPY_K)
            registers,
            read,
        })
    }

    /// Copies the tile at these coordinates of the tensor into a stage.
    pub(crate) fn fetch(&self, k: &mut Builder, at: impl IntoIndices, stage: &Stage) {
        let through = self.fetch.start(k, at, stage);
        self.fetch.put(k, through.as_ref(), stage);
    }

    /// Returns the copy of parts of a tile, each from another place.
    pub(crate) fn parts(&self, part: [i64; 2]) -> Result<FetchPart, Error> {
        let Fetch {
            tiles,
            thread,
            threads,
            shared,
            is_async,
            ..
        } = &self.fetch;
        let tiles = Tiles {
            tile: part,
            ..*tiles
        };
        let copy = tiles.copy(*threads)?;
        Ok(FetchPart {
            is_async: *is_async && copy.atom().op()?.is_async(),
            copy,
            part,
            thread: thread.clone(),
            shared: shared.clone(),
        })
    }

    /// The number of steps of the instruction along K in a tile.
    pub(crate) fn steps(&self) -> i64 {
        self.registers
            .layout()
            .mode(2)
            .map_or(1, |mode| mode.size())
    }

    /// Reads step `i` of a stage into its registers.
    pub(crate) fn read(&self, k: &mut Builder, i: i64, stage: &Stage) {
        let from = self.smem_src.at(3, stage).at(2, i);
        k.copy(&self.read, &from, &self.fragment_dst.slice((.., .., i)));
        if self.registers.ty() == Ty::Tf32 {
            to_tf32(k, &self.step(i))
        }
    }

    /// The registers of step `i`.
    pub(crate) fn step(&self, i: i64) -> Fragment {
        self.registers.slice((.., .., i))
    }
}

/// One operand of a block's product.
pub(crate) struct OperandPipeline {
    tiles: OperandTiles,
    /// The coordinate of the block's tile along M or N.
    row: Index,
}

/// The swizzled tile of an operand in shared memory, with the stages as the last mode. The threads read the given number of
/// elements of the contiguous mode at once.
pub(crate) fn shared_layout(
    major: Major,
    bits: u32,
    shape: &[i64],
    step: i64,
) -> Result<ComposedLayout, Error> {
    let atom = swizzled(major, bits, shape, step)?;
    Ok(atom.tile_to_shape(
        IntTuple::flat(shape.iter().map(|n| (*n).into())),
        LayoutLeft,
    )?)
}

/// The same for tensor maps: blocks of a swizzle follow each other along the mode that is not contiguous, so that a box
/// takes in all of it. Along the other it ends with the swizzle's row in any case.
pub(crate) fn boxed_layout(
    major: Major,
    bits: u32,
    shape: &[i64],
) -> Result<ComposedLayout, Error> {
    let order = match major {
        Major::First => [1, 0, 2],
        Major::Second => [0, 1, 2],
    };
    let atom = swizzled(major, bits, shape, 1)?;
    let [shape, order] =
        [shape, &order[..shape.len()]].map(|x| IntTuple::flat(x.iter().map(|n| (*n).into())));
    Ok(atom.tile_to_shape(&shape, &order)?)
}

/// The block of rows that the widest swizzle permutes whose row divides the tile's, and of whose row and a step one divides
/// the other.
fn swizzled(major: Major, bits: u32, shape: &[i64], step: i64) -> Result<ComposedLayout, Error> {
    let along = match major {
        Major::First => shape[0],
        Major::Second => shape[1],
    };
    let [row, step] = [along, step].map(|elements| i64::from(bits) * elements / 8);
    let meets = |span: i64| step.max(1) % span == 0 || span % step.max(1) == 0;
    let swizzle = SmemSwizzle::ALL
        .into_iter()
        .rev()
        .find(|s| row % s.span() == 0 && meets(s.span()))
        .unwrap_or(SmemSwizzle::None);
    let atom = gmma_smem_atom(major, swizzle, bits)?;
    Ok(atom.position_independent()?)
}

/// An equal partition of a tile: the layout of the threads, and the number of neighbouring elements that each thread
/// takes at once.
pub(crate) struct Shares {
    pub(crate) threads: Layout,
    pub(crate) values: Layout,
    pub(crate) vector: i64,
}

/// The shares with the widest vector, up to the given one, in which every element of a tile belongs to one thread; none if
/// there are no such shares. As many threads as possible lie along the contiguous mode.
pub(crate) fn shares(
    major: Major,
    tile: [i64; 2],
    vector: i64,
    threads: i64,
    ty: Ty,
) -> Option<Shares> {
    let halves = std::iter::successors(Some(vector), |n| (*n > 1).then_some(n / 2));
    // Two bytes have no place in a register.
    let mut widths = halves.filter(|n| *n == 1 || n * i64::from(ty.bits()) >= 32);
    widths.find_map(|vector| shares_of(major, tile, vector, threads))
}

fn shares_of(major: Major, tile: [i64; 2], vector: i64, threads: i64) -> Option<Shares> {
    let [contiguous, other] = match major {
        Major::First => tile,
        Major::Second => [tile[1], tile[0]],
    };
    if contiguous % vector != 0 {
        return None;
    }
    let vectors = contiguous / vector;
    let even = |along: &i64| {
        vectors % along == 0 && threads % along == 0 && other % (threads / along) == 0
    };
    let along = (1..=vectors.min(threads)).rev().find(even)?;
    let across = threads / along;
    let layouts = match major {
        Major::First => [
            Layout::new((along, across), (1, along)),
            Layout::new((vector, 1), (1, 0)),
        ],
        Major::Second => [
            Layout::new((across, along), (along, 1)),
            Layout::new((1, vector), (0, 1)),
        ],
    };
    let [threads, values] = layouts.map(|layout| layout.expect("positive extents make a layout"));
    Some(Shares {
        threads,
        values,
        vector,
    })
}

/// The error of a tile that the threads cannot share equally.
#[track_caller]
pub(crate) fn uneven(tile: [i64; 2], threads: i64) -> Error {
    let [rows, columns] = tile;
    let why = format!("{threads} threads have no equal shares of {rows} x {columns} elements");
    Error::new("the shares of a tile", why)
}

impl OperandPipeline {
    pub(crate) fn new(
        k: &mut Builder,
        plan: &GemmPlan,
        mma: &TiledMma,
        operand: Operand,
        tensor: Tensor,
        row: &Index,
    ) -> Result<OperandPipeline, Error> {
        let tiles = Tiles::of(plan, operand);
        // The warps take turns along M or N, each with the elements of one instruction.
        let [atom_m, atom_n, _] = mma.atom().mnk();
        let step = match (tiles.major, operand) {
            (Major::Second, _) => tiles.tile[1],
            (Major::First, Operand::A) => atom_m * plan.warps[0],
            (Major::First, _) => atom_n * plan.warps[1],
        };
        let stages = (plan.stages, step);
        Ok(OperandPipeline {
            tiles: OperandTiles::new(k, tiles, (mma, operand), tensor, stages)?,
            row: row.clone(),
        })
    }

    /// Starts the copy of tile `step` along K into a stage. Beyond the last tile it copies zeros or, if all tiles lie
    /// inside the tensor, the last tile again. No instruction multiplies either of them.
    pub(crate) fn fetch(&self, k: &mut Builder, step: &Index, steps: &Index, stage: &Stage) {
        let step = if self.tiles.fetch.tiles.whole {
            let last = k.within(steps - 1, 0..1 << 31);
            step.min(&last)
        } else {
            step.clone()
        };
        self.tiles.fetch(k, (&self.row, &step), stage);
    }

    /// The number of steps of the instruction along K in a tile.
    pub(crate) fn steps(&self) -> i64 {
        self.tiles.steps()
    }

    /// Reads step `i` of a stage into its registers.
    pub(crate) fn read(&self, k: &mut Builder, i: i64, stage: &Stage) {
        self.tiles.read(k, i, stage);
    }

    /// The registers of step `i`.
    pub(crate) fn step(&self, i: i64) -> Fragment {
        self.tiles.step(i)
    }
}

/// Rounds the fragment's numbers of binary32 to the nearest tf32 in place. The instruction itself would truncate them.
fn to_tf32(k: &mut Builder, numbers: &Fragment) {
    let numbers = numbers.gathered(0, numbers.layout().size());
    k.emit(|k| {
        for reg in numbers.regs() {
            k.cvt_to(*reg, Type::Tf32, Type::F32, Rounding::Rna, *reg);
        }
    });
}
