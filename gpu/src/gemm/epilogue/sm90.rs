//! The Hopper epilogue: C goes through shared memory by TMA, or each thread stores its own elements.

use colex_tiled::{Operand, TiledCopy, TiledMma};

use super::awaited::AwaitedFlags;
use super::direct::{Direct, MOST_EARLY};
use super::terms::{EarlyTerms, Terms};
use crate::gemm::batch::BatchForm;
use crate::gemm::groups::tiles::Span;
use crate::gemm::operand::boxed_layout;
use crate::gemm::plan::GemmPlan;
use crate::gemm::sm90::{BESIDE_TILES, WARPGROUP_THREADS, owner_name, stage_bytes};
use crate::kernels::Major;
use colex_atom::{Arch, Reduction};
use colex_ir::FenceKind;
use colex_ir::launch::Limits;
use colex_layout::{ComposedLayout, Layout};
use colex_sched::pipeline::Schedule;
use colex_tensor::{
    AtThread, Barriers, Builder, Cond, Error, Fragment, Index, Tensor, TmaTensor, Var,
};

/// The rows of C that a warpgroup owns.
const ROWS: i64 = 64;

/// The number of buffers in shared memory of a warpgroup.
const BUFFERS: i64 = 2;

/// The most of them where a tensor of the epilogue is brought to them: the loads of three parts are under way while one is stored.
const MOST_BUFFERS: i64 = 4;

/// Where a tile is stored.
pub(crate) struct TilePlace {
    /// Its coordinates along M and N.
    pub(crate) at: [Index; 2],
    /// Its first column and the number of its columns, where the launch decides the width.
    pub(crate) columns: Option<(Index, Index)>,
    /// Those of its product in a batch.
    pub(crate) product: Vec<Index>,
    /// The last of all coordinates of the product, by which the matrix of C is chosen where each has an owner.
    pub(crate) owner: Option<Index>,
    /// The row from which its coordinates count, if it is not the first.
    pub(crate) first_row: Option<Index>,
    /// The rows of its group.
    pub(crate) rows: Option<Span>,
    /// Whether it has no rows beyond those of its group.
    pub(crate) is_inside: Cond,
}

/// The way in which C is read and written.
pub(crate) enum StorePath {
    /// In parts of whole columns.
    Staged(Box<Staged>),
    /// Each thread accesses its own elements.
    Direct(Box<(Tensor, Direct)>),
}

/// The tensor map of C, and the buffers of its parts in shared memory.
pub(crate) struct Staged {
    map: TmaTensor,
    /// Those of the owners of the chunks behind the first, if each chunk has one.
    others: Vec<TmaTensor>,
    /// Whether a part is added to what its owner's matrix holds.
    adds: bool,
    shared: Tensor,
    /// The layout of a part in shared memory.
    tile: ComposedLayout,
    /// One for each buffer of each warpgroup, where what C or a tensor of the epilogue holds is brought.
    landed: Option<Barriers>,
    /// The buffers of a warpgroup.
    buffers: i64,
    /// The columns of a part.
    columns: i64,
    copies: FragmentCopies,
    mma: TiledMma,
    /// For the tiles of groups that have rows of other groups, and for the columns of a tile behind its last whole part.
    by_threads: Option<(Tensor, Direct)>,
    /// Whether the columns of each tile are whole parts, where the launch decides how many there are.
    is_of_parts: bool,
}

/// Columns of a part: a power of two that divides the tile's, of 32 to 128 bytes. None if there is none. Beside more than 128 sums, a
/// thread has registers for what a part of 64 bytes takes. Where the stages leave too little shared memory for a part, it is a narrower one.
pub(crate) fn columns(plan: &GemmPlan) -> Option<i64> {
    let bits = i64::from(plan.operands.c.bits());
    let columns = plan.tile[1] / plan.cluster[2];
    let sums = plan.tile[0].saturating_mul(plan.tile[1]) / i64::from(WARPGROUP_THREADS);
    let is_narrow = plan.consumer_groups() > 1 && sums > plan.warps[0].saturating_mul(128);
    let widths = [128, 64, 32].into_iter().skip(usize::from(is_narrow));
    let mut widths = widths
        .map(|bytes| bytes * 8 / bits)
        .filter(|width| columns % width == 0)
        .peekable();
    let widest = widths.peek().copied();
    let room = i64::from(Limits::of(Arch::Sm90a).shared) - BESIDE_TILES;
    let room = room.saturating_sub(plan.stages.saturating_mul(stage_bytes(plan)));
    let is_fitting = |width: &i64| buffer_bytes(plan, *width) <= room;
    widths.find(is_fitting).or(widest)
}

/// The columns of a part where the caller gives the epilogue of a kernel for several widths: of at most 64 bytes, so that a tile may have
/// more widths that are whole parts, and of 32 where the main loop of another consumer hides that they are more. Three consumers have parts
/// of 32 bytes too: on an H200, 2048x2112x7168 by 192x176 took 0.98 to 1.00 of the plain product's speed so, and by the widths of parts of 64
/// bytes 0.87 to 0.94. Two consumers lost by such parts: 1024x7168x2048 by 128x224 0.81 to 0.88, and 0.89 to 0.95 by 64 bytes.
pub(crate) fn own_columns(plan: &GemmPlan) -> Option<i64> {
    let bytes = match plan.schedule {
        Schedule::Cooperative if plan.consumer_groups() < 3 => 64,
        Schedule::Cooperative | Schedule::Pingpong => 32,
    };
    let most = bytes * 8 / i64::from(plan.operands.c.bits());
    columns(plan).map(|columns| columns.min(most))
}

/// The bytes of the buffers in shared memory of parts of `width` columns.
fn buffer_bytes(plan: &GemmPlan, width: i64) -> i64 {
    let rows = BUFFERS
        .saturating_mul(ROWS)
        .saturating_mul(plan.consumer_groups());
    rows.saturating_mul(width * i64::from(plan.operands.c.bits()) / 8)
}

/// The buffers of a warpgroup where a tensor of the epilogue is brought to them: as many as have room in `bytes` bytes beside
/// [`BUFFERS`], and no more than a tile has parts.
pub(crate) fn landing_buffers(plan: &GemmPlan, bytes: i64) -> i64 {
    let one = shared_bytes(plan) / BUFFERS;
    let Some(columns) = columns(plan).filter(|_| one > 0) else {
        return BUFFERS;
    };
    let parts = plan.tile[0] / (ROWS * plan.warps[0]) * (plan.tile[1] / columns);
    let room = BUFFERS + (bytes / one).max(0);
    room.min(MOST_BUFFERS).min(parts).max(BUFFERS)
}

/// The bytes of the buffers in shared memory.
pub(crate) fn shared_bytes(plan: &GemmPlan) -> i64 {
    let columns = columns(plan).filter(|_| plan.stages_c());
    columns.map_or(0, |width| buffer_bytes(plan, width))
}

impl StorePath {
    /// `has_own` says whether the caller gives the epilogue.
    pub(crate) fn new(
        k: &mut Builder,
        (plan, has_own): (&GemmPlan, bool),
        batch: &BatchForm,
        (mma, landing): (&TiledMma, Option<i64>),
    ) -> Result<StorePath, Error> {
        let (ty, layout) = (plan.operands.c, batch.layout(plan, Operand::C));
        let of_part = if plan.columns != 0 && has_own {
            own_columns(plan)
        } else {
            columns(plan)
        };
        let Some(columns) = of_part.filter(|_| plan.stages_c()) else {
            let c = Box::new(k.tensor("C", ty, &layout));
            let direct = Direct::new(plan, mma)?;
            return Ok(StorePath::Direct(Box::new((*c, direct))));
        };
        let (rows, major) = (ROWS * plan.warps[0], plan.operands.major(Operand::C));
        let of_group = landing.unwrap_or(BUFFERS);
        let shared = boxed_layout(
            major,
            ty.bits(),
            &[rows, columns, of_group * plan.tiles_at_once()],
        )?;
        let tile = boxed_layout(major, ty.bits(), &[ROWS, columns])?;
        let mut map =
            |owner: usize| k.tma_tensor(&owner_name(owner), ty, &layout, [ROWS, columns], &tile, 1);
        let (map, others) = (map(0), (1..batch.owners()).map(map).collect());
        let by_threads = match batch.groups {
            Some(groups) if groups.has_rows() => Some("rows_of_C"),
            _ => (plan.columns != 0).then_some("tail_of_C"),
        };
        let by_threads = match by_threads {
            Some(name) => Some((k.tensor(name, ty, &layout), Direct::new(plan, mma)?)),
            None => None,
        };
        let shared = k.shared_tensor(ty, shared);
        let buffers = of_group * plan.consumer_groups();
        let lands = plan.operands.beta || landing.is_some();
        let landed = lands.then(|| k.barriers(buffers));
        Ok(StorePath::Staged(Box::new(Staged {
            map,
            others,
            adds: batch.chunks.is_some_and(|chunks| chunks.adds),
            shared,
            tile,
            landed,
            buffers: of_group,
            columns,
            copies: FragmentCopies::new(plan, mma)?,
            mma: mma.clone(),
            by_threads,
            is_of_parts: has_own,
        })))
    }

    /// Declares the tensor map of a tensor of the epilogue that lies as C does.
    pub(crate) fn map(&self, k: &mut Builder, name: &str, layout: &Layout) -> Option<TmaTensor> {
        let StorePath::Staged(staged) = self else {
            return None;
        };
        let (ty, tile) = (staged.shared.ty(), &staged.tile);
        Some(k.tma_tensor(name, ty, layout, [ROWS, staged.columns], tile, 1))
    }

    /// The tensor that threads access.
    pub(crate) fn tensor(&self) -> Option<&Tensor> {
        match self {
            StorePath::Staged(staged) => staged.by_threads.as_ref().map(|(c, _)| c),
            StorePath::Direct(of_c) => Some(&of_c.0),
        }
    }

    /// The tensor map of C, if TMA stores.
    pub(crate) fn tma(&self) -> Option<&TmaTensor> {
        match self {
            StorePath::Staged(staged) => Some(&staged.map),
            StorePath::Direct(_) => None,
        }
    }

    /// Initialises the barriers. A fence and a barrier of the block must follow.
    pub(crate) fn start(&self, k: &mut Builder) {
        let StorePath::Staged(staged) = self else {
            return;
        };
        let Some(landed) = &staged.landed else {
            return;
        };
        let thread = k.thread();
        let first = k.equal(&thread, &0.into());
        k.if_(first, |k| k.init_barriers(landed, 1));
    }

    /// A consumer's part of it.
    pub(crate) fn of_thread<'a>(
        &'a self,
        k: &mut Builder,
        plan: &'a GemmPlan,
        thread: &Index,
    ) -> ThreadEpilogue<'a> {
        let (warpgroup, lane) = (
            thread / i64::from(WARPGROUP_THREADS),
            thread % i64::from(WARPGROUP_THREADS),
        );
        let leads = k.equal(&lane, &0.into());
        let (thread, group, tile) = match plan.schedule {
            Schedule::Cooperative => (thread.clone(), warpgroup.clone(), 0.into()),
            // A warpgroup has a whole tile.
            Schedule::Pingpong => (lane, 0.into(), warpgroup.clone()),
        };
        ThreadEpilogue {
            plan,
            thread,
            leads,
            warpgroup,
            group,
            tile,
            end: self,
            turn: k.var(0, 0..2),
        }
    }
}

impl Staged {
    /// The tensor map, from the row at which the coordinates of a tile count.
    fn map_of(&self, place: &TilePlace) -> TmaTensor {
        match (&place.first_row, &place.columns) {
            (Some(first), _) => self.map.offset_by((first, 0)),
            (None, Some((first, _))) => self.map.offset_by((0, first)),
            (None, None) => self.map.clone(),
        }
    }

    /// Stores a part into the matrix of its chunk's owner, or adds it there.
    fn store_to_owner(&self, k: &mut Builder, owner: &Index, place: &[Index], part: &Tensor) {
        for (number, map) in std::iter::once(&self.map).chain(&self.others).enumerate() {
            let is_it = k.equal(owner, &(number as i64).into());
            k.if_(is_it, |k| {
                if self.adds {
                    k.tma_reduce(map, Reduction::Add, place.to_vec(), part);
                } else {
                    k.tma_store(map, place.to_vec(), part);
                }
            });
        }
    }
}

/// The tiled copy between the accumulators and the buffers in shared memory.
struct FragmentCopies {
    read: TiledCopy,
    write: TiledCopy,
    /// Whether the copies take elements one by one, those along M first.
    is_along_m: bool,
}

impl FragmentCopies {
    fn new(plan: &GemmPlan, mma: &TiledMma) -> Result<FragmentCopies, Error> {
        let bits = i64::from(plan.operands.c.bits());
        // `ldmatrix` and `stmatrix` move 16-bit elements. Of 32-bit elements, a thread has pairs along N. Along M they go one by one:
        // the lanes of a warp have 8 rows of 4 columns, two apart, which the swizzle puts into all 32 banks.
        let [read, write] = match (bits, plan.operands.major(Operand::C)) {
            (16, Major::Second) => ["SM75_U32x4_LDSM_N", "SM90_U32x4_STSM_N"],
            (16, Major::First) => ["SM75_U16x8_LDSM_T", "SM90_U16x8_STSM_T"],
            (_, Major::Second) => ["UniversalCopy<uint64_t>"; 2],
            (_, Major::First) => ["UniversalCopy<uint32_t>"; 2],
        };
        let copy = |name| TiledCopy::for_accumulator_atom(colex_atom::copy(name)?, bits, mma);
        Ok(FragmentCopies {
            read: copy(read)?,
            write: copy(write)?,
            is_along_m: bits == 32 && plan.operands.major(Operand::C) == Major::First,
        })
    }

    /// A part of the accumulators in the order of the copies: a thread has (2,2,..) along N, along M, and along N.
    fn in_order(&self, part: &Fragment) -> Fragment {
        if !self.is_along_m {
            return part.clone();
        }
        let quads = part.layout().size() / 4;
        part.with_layout(((2, 2, quads), (2, 1, 4)))
    }
}

/// A thread's accumulators of a part.
fn values(staged: &Staged) -> i64 {
    ROWS * staged.columns / i64::from(WARPGROUP_THREADS)
}

/// The epilogue of a thread.
pub(crate) struct ThreadEpilogue<'a> {
    plan: &'a GemmPlan,
    /// The thread among those that share a tile.
    thread: Index,
    warpgroup: Index,
    /// The warpgroup among those that share a tile.
    group: Index,
    /// The number of its tile among those of the block at once.
    tile: Index,
    /// Whether the thread issues the TMA copies of its warpgroup.
    leads: Cond,
    end: &'a StorePath,
    /// The parity of the first part's barrier, where a tile takes each buffer an odd number of times.
    turn: Var,
}

impl ThreadEpilogue<'_> {
    /// Parts of a warpgroup's rows of one instruction.
    fn parts_along_n(&self, staged: &Staged) -> i64 {
        self.plan.tile[1] / staged.columns
    }

    /// Parts of a warpgroup.
    fn parts(&self, staged: &Staged) -> i64 {
        let rows = self.plan.tile[0] / (ROWS * self.plan.warps[0]);
        rows * self.parts_along_n(staged)
    }

    /// The place of a part of tile (M, N) of a product among C's, in parts.
    fn place(&self, staged: &Staged, place: &TilePlace, part: i64) -> Vec<Index> {
        let [m, n] = &place.at;
        let along_n = self.parts_along_n(staged);
        let row = &self.group + part / along_n * self.plan.warps[0];
        let column = match &place.columns {
            // The map is moved to the tile's first column.
            Some(_) => (part % along_n).into(),
            None => n * along_n + part % along_n,
        };
        let mut at = vec![m * (self.plan.tile[0] / ROWS) + row, column];
        at.extend(place.product.iter().cloned());
        at
    }

    /// The place of the part's buffer in the mode of buffers.
    fn stage(&self, staged: &Staged, part: i64) -> Index {
        &self.tile * staged.buffers + part % staged.buffers
    }

    /// The part's buffer.
    fn buffer(&self, staged: &Staged, part: i64) -> Tensor {
        let at = (&self.group, 0, self.stage(staged, part));
        staged.shared.local_tile((ROWS, staged.columns), at)
    }

    fn barrier(&self, staged: &Staged, landed: &Barriers, part: i64) -> Index {
        landed.at(&self.warpgroup * staged.buffers + part % staged.buffers)
    }

    /// The parts whose loads are under way when a part begins. With two buffers, the load of a part begins when the store of the one
    /// two before it has read its buffer; with more, nothing waits for the store of the part just before.
    fn ahead(staged: &Staged) -> i64 {
        staged.buffers - Self::behind(staged)
    }

    /// The stores that need not have read their buffers when the next load begins.
    fn behind(staged: &Staged) -> i64 {
        i64::from(staged.buffers > BUFFERS)
    }

    /// Waits until the tensors of the epilogue are there: one thread of the warpgroup does, which also issues its TMA copies, and the
    /// others wait for it.
    pub(crate) fn await_flags(&self, k: &mut Builder, flags: &AwaitedFlags) {
        k.if_(self.leads, |k| flags.wait(k));
        let named = &self.warpgroup + 1;
        k.sync_named(&named, WARPGROUP_THREADS);
    }

    /// Starts the loads of the first parts of the old C, or of the tensor that TMA brings in its place.
    pub(crate) fn fetch(&self, k: &mut Builder, at: &TilePlace, terms: &Terms) {
        let StorePath::Staged(staged) = self.end else {
            return;
        };
        for part in 0..Self::ahead(staged) {
            // The stores of the tile before that came behind the last one from this buffer.
            let later = match self.parts(staged) - 1 - part {
                // How many these were, the launch decides.
                _ if at.columns.is_some() => 0,
                before @ 0.. if staged.buffers > BUFFERS => before % staged.buffers,
                _ => 0,
            };
            self.bring(k, staged, at, (part, later), terms);
        }
    }

    /// Starts the load of a part once its buffer is free, if something is brought and the tile has a part of that number: of the stores
    /// before, all but the last `pending` have read their buffers.
    fn bring(
        &self,
        k: &mut Builder,
        staged: &Staged,
        at: &TilePlace,
        (part, pending): (i64, i64),
        terms: &Terms,
    ) {
        let (Some(landed), true) = (&staged.landed, part < self.parts(staged)) else {
            return;
        };
        k.where_(self.leads, |ir| ir.bulk_wait(pending as u32, true));
        let (buffer, full) = (
            self.buffer(staged, part),
            self.barrier(staged, landed, part),
        );
        let load = |k: &mut Builder| {
            let mut place = self.place(staged, at, part);
            let map = match (terms.landed(), &at.columns) {
                (Some(map), columns) => {
                    // It has no modes of a batch.
                    place.truncate(2);
                    match columns {
                        Some((first, _)) => &map.offset_by((0, first)),
                        None => map,
                    }
                }
                (None, _) => &staged.map_of(at),
            };
            k.arrive_expect(&full, map.tile_bytes());
            k.tma_load(map, place, &buffer, &full);
        };
        k.if_(self.leads, |k| match self.exists(k, staged, at, part) {
            Some(exists) => {
                // The phase of a part that the tile does not have ends at once, so that those of all tiles alternate alike.
                k.if_else(exists, load, |k| k.arrive(&full));
            }
            None => load(k),
        });
    }

    /// Whether a tile has a part, where the launch decides how many columns it has.
    fn exists(&self, k: &mut Builder, staged: &Staged, at: &TilePlace, part: i64) -> Option<Cond> {
        let (_, width) = at.columns.as_ref()?;
        let first = part % self.parts_along_n(staged) * staged.columns;
        Some(k.less(&first.into(), width))
    }

    /// Loads what a part takes of vectors of the epilogue, if the tile has a part of that number and is stored in parts.
    pub(crate) fn load_early(
        &self,
        k: &mut Builder,
        at: &TilePlace,
        part: i64,
        terms: &Terms,
    ) -> EarlyTerms {
        match self.end {
            StorePath::Staged(staged) if part < self.parts(staged) => {
                terms.load_early(k, &|matrix| self.own(staged, matrix, (at, part)))
            }
            StorePath::Direct(of_c) if part == 0 => {
                let (c, direct) = &**of_c;
                let c = c.fixed_behind(&at.product);
                direct.load_early(k, self.plan, (&c, &at.at), &self.thread, terms)
            }
            StorePath::Staged(_) | StorePath::Direct(_) => EarlyTerms::default(),
        }
    }

    /// The registers that hold what [`load_early`](Self::load_early) loads, at most: of each vector, an element for each of the
    /// thread's columns of a part, or all elements of each tensor where they are few.
    pub(crate) fn registers_of_early(&self, terms: &Terms) -> i64 {
        match self.end {
            StorePath::Staged(staged) => terms.vectors() * (staged.columns / 4).max(2),
            StorePath::Direct(_) => terms.reads() * MOST_EARLY,
        }
    }

    /// The thread's elements of a part of a matrix.
    fn own(&self, staged: &Staged, matrix: &Tensor, (at, part): (&TilePlace, i64)) -> Tensor {
        self.own_of(staged, matrix, at, [values(staged), part])
    }

    /// The thread's elements of a matrix in pieces of `values`: those of the piece with a number.
    fn own_of(
        &self,
        staged: &Staged,
        matrix: &Tensor,
        at: &TilePlace,
        [values, number]: [i64; 2],
    ) -> Tensor {
        let extents = (self.plan.tile[0], self.plan.tile[1]);
        let tile = match &at.columns {
            Some((first, _)) => {
                let tile = matrix.local_tile(extents, (&at.at[0], 0));
                tile.offset_by((0, first))
            }
            None => matrix.local_tile(extents, &at.at),
        };
        let own = staged.mma.at(&self.thread).partition(&tile, Operand::C);
        let pieces = self.parts(staged) * self::values(staged) / values;
        let by_piece = Layout::new((values, pieces), (1, values));
        let by_piece = by_piece.expect("positive extents make a layout");
        own.compose(by_piece).at(1, number) // (values of the piece)
    }

    /// Stores what the epilogue makes of the accumulators of a tile, those of each right factor.
    /// `early` is what it has loaded for the first part.
    pub(crate) fn store(
        &self,
        k: &mut Builder,
        acc: &[Fragment],
        at: &TilePlace,
        terms: &Terms,
        early: &EarlyTerms,
    ) {
        match self.end {
            StorePath::Direct(of_c) => self.store_rows(k, of_c, acc, at, (terms, early)),
            StorePath::Staged(staged) => {
                let whole = |k: &mut Builder| {
                    let mut next = EarlyTerms::default();
                    for part in 0..self.parts(staged) {
                        let early = if part == 0 { early } else { &next };
                        // The loads for a part are under way while the thread computes the part before.
                        let then = self.load_early(k, at, part + 1, terms);
                        match &at.columns {
                            Some(_) if staged.is_of_parts => {
                                let exists = self.exists(k, staged, at, part);
                                let exists = exists.expect("invariant: the launch has a width");
                                let store = |k: &mut Builder| {
                                    self.store_part(k, staged, acc, (at, part), terms, early);
                                };
                                k.if_else(exists, store, |k| {
                                    let next = part + Self::ahead(staged);
                                    self.bring(k, staged, at, (next, 0), terms);
                                });
                            }
                            Some((_, width)) => {
                                let part = (at, part);
                                self.store_within(k, staged, acc, part, width, (terms, early));
                            }
                            None => self.store_part(k, staged, acc, (at, part), terms, early),
                        }
                        next = then;
                    }
                    self.next_turn(k, staged);
                };
                match staged.by_threads.as_ref().filter(|_| at.rows.is_some()) {
                    Some(of_c) => k.if_else(at.is_inside, whole, |k| {
                        self.store_rows(k, of_c, acc, at, (terms, &EarlyTerms::default()));
                    }),
                    None => whole(k),
                }
            }
        }
    }

    /// Stores a tile by the elements of the threads, but for the rows beyond those of its group.
    fn store_rows(
        &self,
        k: &mut Builder,
        (c, direct): &(Tensor, Direct),
        acc: &[Fragment],
        place: &TilePlace,
        terms: (&Terms, &EarlyTerms),
    ) {
        let c = match &place.rows {
            Some(Span { first, end }) => &c.narrow(0, first, end),
            None => c,
        };
        let c = c.fixed_behind(&place.product);
        direct.store(k, self.plan, acc, (&c, &place.at), &self.thread, terms);
    }

    /// Stores a part if the tile, of `width` columns, has it whole, and else the columns of it that the tile has, by the threads: a multiple
    /// of the step of its widths.
    fn store_within(
        &self,
        k: &mut Builder,
        staged: &Staged,
        acc: &[Fragment],
        (at, part): (&TilePlace, i64),
        width: &Index,
        (terms, early): (&Terms, &EarlyTerms),
    ) {
        let first = part % self.parts_along_n(staged) * staged.columns;
        let is_whole = k.less(&(first + staged.columns - 1).into(), width);
        let begins = k.less(&first.into(), width);
        let store = |k: &mut Builder| self.store_part(k, staged, acc, (at, part), terms, early);
        k.if_else(is_whole, store, |k| {
            k.if_(begins, |k| {
                let (c, direct) = staged.by_threads.as_ref().expect("invariant: declared");
                let step = self.plan.width_step();
                let (values, pieces) = (values(staged), staged.columns / step);
                let sums = acc.iter().map(|acc| acc.gathered(values * part, values));
                let sums: Vec<Fragment> = sums.collect();
                let own = |matrix: &Tensor| self.own(staged, matrix, (at, part));
                let out = terms.finish(k, (&sums, None, early), &own);
                // The tile has not all pieces.
                for piece in 0..pieces - 1 {
                    let of_piece = values / pieces;
                    let begins = k.less(&(first + piece * step).into(), width);
                    k.if_(begins, |k| {
                        let number = part * pieces + piece;
                        let to = self.own_of(staged, c, at, [of_piece, number]);
                        direct.store_elements(k, &out.values(of_piece * piece, of_piece), &to);
                    });
                }
            });
        });
    }

    fn store_part(
        &self,
        k: &mut Builder,
        staged: &Staged,
        acc: &[Fragment],
        (at, part): (&TilePlace, i64),
        terms: &Terms,
        early: &EarlyTerms,
    ) {
        let copies = &staged.copies;
        let values = values(staged);
        let sums = acc.iter().map(|acc| acc.gathered(values * part, values));
        let sums: Vec<Fragment> = sums.collect();
        let named = &self.warpgroup + 1;
        let old = match &staged.landed {
            Some(landed) => {
                let parity = self.parity(k, staged, part);
                k.wait(&self.barrier(staged, landed, part), &parity);
                // (CPY, CPY_M, CPY_N, BUFFERS)
                let from = copies.read.at(&self.thread).partition_src(&staged.shared);
                let old = k.fragment(self.plan.operands.c, sums[0].layout());
                let into = copies.in_order(&old);
                k.copy(&copies.read, &from.at(3, self.stage(staged, part)), &into);
                Some(old)
            }
            None => None,
        };
        let own = |matrix: &Tensor| self.own(staged, matrix, (at, part));
        let out = terms.finish(k, (&sums, old.as_ref(), early), &own);
        if old.is_none() {
            // After an odd number of parts, the buffer of the first part is the one that was stored last.
            let pending = match (part, self.parts(staged) % BUFFERS) {
                (0, 1) => 0,
                // Which part was stored last, the launch decides.
                (_, _) if at.columns.is_some() && part % self.parts_along_n(staged) == 0 => 0,
                _ => BUFFERS as u32 - 1,
            };
            k.where_(self.leads, |ir| ir.bulk_wait(pending, true));
            k.sync_named(&named, WARPGROUP_THREADS);
        }
        // (CPY, CPY_M, CPY_N, BUFFERS)
        let to = copies.write.at(&self.thread).partition_dst(&staged.shared);
        k.copy(
            &copies.write,
            &copies.in_order(&out),
            &to.at(3, self.stage(staged, part)),
        );
        k.fence(FenceKind::ProxyAsyncShared);
        k.sync_named(&named, WARPGROUP_THREADS);
        let buffer = self.buffer(staged, part);
        k.if_(self.leads, |k| {
            let place = self.place(staged, at, part);
            match &at.owner {
                Some(owner) if !staged.others.is_empty() => {
                    staged.store_to_owner(k, owner, &place, &buffer);
                }
                _ => k.tma_store(&staged.map_of(at), place, &buffer),
            }
            k.bulk_commit();
        });
        let next = part + Self::ahead(staged);
        self.bring(k, staged, at, (next, Self::behind(staged)), terms);
    }

    /// Whether the barrier of a buffer begins a tile with the other parity than the tile before: a tile takes the buffer an
    /// odd number of times.
    fn alternates(&self, staged: &Staged, buffer: i64) -> bool {
        (self.parts(staged) + staged.buffers - 1 - buffer) / staged.buffers % 2 == 1
    }

    /// The parity of the phase in which a part lands.
    fn parity(&self, k: &mut Builder, staged: &Staged, part: i64) -> Index {
        let fixed = part / staged.buffers % 2;
        if self.alternates(staged, part % staged.buffers) {
            (k.get(&self.turn) + fixed) % 2
        } else {
            fixed.into()
        }
    }

    fn next_turn(&self, k: &mut Builder, staged: &Staged) {
        let alternates = (0..staged.buffers).any(|buffer| self.alternates(staged, buffer));
        if alternates && staged.landed.is_some() {
            let turn = k.get(&self.turn);
            k.set(&self.turn, Index::from(1) - turn);
        }
    }

    /// `body` in one thread of those that store, when what they have stored is in memory.
    pub(crate) fn when_stored(&self, k: &mut Builder, body: impl FnOnce(&mut Builder)) {
        k.if_(self.leads, |k| {
            k.emit(|ir| ir.bulk_wait(0, false));
            body(k);
        });
    }

    /// Waits for the stores in flight.
    pub(crate) fn finish(&self, k: &mut Builder) {
        if let StorePath::Staged(..) = self.end {
            k.where_(self.leads, |ir| ir.bulk_wait(0, false));
        }
    }
}
