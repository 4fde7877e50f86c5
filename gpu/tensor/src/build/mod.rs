//! `Builder`: a kernel builder over tensors and [`Index`], with value reuse and loop-invariant code motion.

pub(crate) mod barrier;
pub(crate) mod claims;
pub(crate) mod export;
pub(crate) mod flow;
pub(crate) mod held;
pub(crate) mod im2col_map;
mod instructions;
pub(crate) mod launch;
pub(crate) mod lower;
pub(crate) mod lower_sum;
pub(crate) mod name;
pub(crate) mod parameter;
pub(crate) mod pipeline;
pub(crate) mod report;
pub(crate) mod tma_map;
pub(crate) mod variable;

use std::collections::{HashMap, HashSet};
use std::ops::Range;
use std::panic::Location;

use colex_atom::Arch;
use colex_sched::{Order, RasterOrder, formula::MOST_PLACES};

use crate::build::claims::Opened;
use crate::error::{Error, ErrorKind};
use crate::failure::FirstFailure;
use crate::index::ops::Checked;
use crate::index::{Index, LIMIT, Leaf};
use crate::tensor::Tensor;
use colex_ir::launch::Extents;
use colex_ir::{Compare, Guard, Kernel, KernelBuilder, Reg, Special, Type};

/// Builds a kernel from tensors.
///
/// No call returns a `Result`. The builder keeps the first failure, with the line that caused it, and [`Builder::finish`]
/// returns it. After a failure the builder, its tensors and its fragments return inert values and report nothing more.
/// [`Builder::emit`] adds instructions of [`KernelBuilder`] that have no method here.
///
/// The value of an [`Index`] is computed once, hoisted out of all loops in which it is invariant, and reused. Use the
/// control-flow methods of this type instead of those of [`KernelBuilder`], which do not track where a value was
/// computed.
///
/// ```
/// use colex_atom::Arch;
/// use colex_tensor::Builder;
///
/// let mut k = Builder::new("k", Arch::Sm80, 128);
/// let tid = k.thread();
/// let a = k.value(&(&tid % 8 * 16 + 3));
/// let b = k.value(&(&tid % 8 * 16 + 3));
/// assert_eq!(a, b);
/// let kernel = k.finish()?;
/// # Ok::<(), colex_tensor::Error>(())
/// ```
#[derive(Debug)]
pub struct Builder {
    pub(crate) ir: KernelBuilder,
    pub(crate) scopes: Vec<Scope>,
    /// The extents of the block along x, y and z.
    pub(crate) block: [u32; 3],
    /// How many threads it has.
    pub(crate) threads: u32,
    pub(crate) specials: HashMap<Special, Reg>,
    pub(crate) stamp: u32,
    pub(crate) written: HashMap<Reg, u32>,
    pub(crate) failure: FirstFailure,
    /// The blocks of a cluster, as its ranks were asked for.
    ranks: Option<u32>,
    /// The blocks of the cluster that is declared so far.
    cluster: u32,
    /// What barriers are told of and loads report.
    pub(crate) transactions: Vec<crate::build::barrier::Transaction>,
    pub(crate) launch: crate::build::launch::Signature,
    pub(crate) reports: crate::build::report::Report,
    pub(crate) held: crate::build::held::HeldByRegisters,
    pub(crate) claims: crate::build::claims::Claims,
    pub(crate) pipelines: crate::build::pipeline::Pipelines,
    /// The names that were given.
    pub(crate) names: HashSet<String>,
    pub(crate) fragments: Vec<name::NamedParts>,
}

/// A grid of tiles in an order, of [`Builder::tile_grid`].
#[derive(Clone, Debug)]
pub struct TileGrid {
    order: Order,
    tiles: [Index; 2],
}

impl TileGrid {
    /// Returns the number of tiles.
    ///
    /// ```
    /// # use colex_tensor::prelude::*;
    /// let mut k = Builder::new("k", Arch::Sm80, 32);
    /// let order: colex_sched::Order = "grouped 2 along m".parse()?;
    /// let grid = k.tile_grid(order, [3.into(), 4.into()]).expect("it has a formula");
    /// assert_eq!(grid.size().as_constant(), Some(12));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn size(&self) -> Index {
        &self.tiles[0] * &self.tiles[1]
    }

    /// The number of tiles in a strip of the order, if it has a formula.
    fn strip(&self) -> Option<Index> {
        let [m, n] = &self.tiles;
        match self.order {
            Order::Grouped { width, raster } => Some(match raster {
                RasterOrder::AlongM => m * width,
                RasterOrder::AlongN => n * width,
            }),
            Order::Swizzle(_) | Order::Persistent { .. } | Order::Hilbert | Order::Morton => None,
        }
    }
}

/// The most threads of a block, on every architecture.
const MOST_THREADS: u32 = 1024;

/// One open body.
#[derive(Debug)]
pub(crate) struct Scope {
    /// Whether it repeats: what does not change in it is computed before it.
    pub(crate) repeats: bool,
    /// The stamp at which it began.
    pub(crate) began: u32,
    pub(crate) values: HashMap<(Index, bool), Reg>,
    pub(crate) tests: HashMap<(Index, i64, Compare), Reg>,
    /// What is claimed of the parts of integers, by the range.
    pub(crate) settled: HashSet<(Index, (i64, i64))>,
    /// Bytes that zero-filling copies read, by what is left of an extent, the bytes of a vector and of an element.
    pub(crate) sizes: HashMap<(Index, [i64; 2]), Reg>,
    /// Variables whose value from before the body was used in it.
    pub(crate) used: HashSet<Reg>,
    /// What opened it.
    pub(crate) opened: Opened,
    /// The condition under which it runs, if it is a branch.
    pub(crate) condition: Option<Guard>,
    /// What its turns do to what registers hold.
    pub(crate) turns: crate::build::held::Turns,
}

impl Scope {
    pub(crate) fn new(repeats: bool, began: u32) -> Self {
        Scope {
            repeats,
            began,
            values: HashMap::new(),
            tests: HashMap::new(),
            settled: HashSet::new(),
            sizes: HashMap::new(),
            used: HashSet::new(),
            opened: Opened::Other,
            condition: None,
            turns: crate::build::held::Turns::default(),
        }
    }
}

impl Builder {
    /// Starts a kernel named `name` for the architecture `target`, in blocks of `threads` threads: a number, or a tuple of up to
    /// three extents along x, y and z.
    ///
    /// ```
    /// # use colex_tensor::prelude::*;
    /// let k = Builder::new("scale", Arch::Sm80, 128);
    /// let built = k.finish()?;
    /// assert_eq!(built.kernel.block, Some([128, 1, 1]));
    /// let k = Builder::new("blur", Arch::Sm80, (32, 8));
    /// assert_eq!(k.finish()?.kernel.block, Some([32, 8, 1]));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[track_caller]
    pub fn new(name: &str, target: Arch, threads: impl Into<Extents>) -> Self {
        let block = threads.into().xyz();
        let mut ir = KernelBuilder::new(name, target);
        ir.block(block);
        let threads = block.into_iter().fold(1, u32::saturating_mul);
        let mut k = Builder {
            ir,
            scopes: vec![Scope::new(false, 0)],
            block,
            threads,
            specials: HashMap::new(),
            stamp: 0,
            written: HashMap::new(),
            failure: FirstFailure::default(),
            ranks: None,
            cluster: 1,
            transactions: Vec::new(),
            launch: crate::build::launch::Signature::default(),
            reports: crate::build::report::Report::default(),
            held: crate::build::held::HeldByRegisters::default(),
            claims: crate::build::claims::Claims::default(),
            pipelines: crate::build::pipeline::Pipelines::default(),
            names: HashSet::new(),
            fragments: Vec::new(),
        };
        if threads > MOST_THREADS {
            // What follows looks at every thread of the block.
            let why = format!("{threads} threads, and a block has at most {MOST_THREADS}");
            k.fail(ErrorKind::operands("block", why), Location::caller());
        }
        k
    }

    /// Returns the finished kernel, with its shared memory laid out.
    ///
    /// ```
    /// # use colex_tensor::prelude::*;
    /// let mut k = Builder::new("k", Arch::Sm80, 128);
    /// let line = line!() + 1;
    /// k.barriers(0);
    /// let error = k.finish().unwrap_err();
    /// assert_eq!(error.what(), "barriers: 0 barriers; there are from 1 to 536870911");
    /// assert_eq!(error.at().line(), line);
    /// ```
    ///
    /// # Errors
    ///
    /// Returns the first failure of a call of the builder, its tensors or its fragments, with the file and the line of that
    /// call. Returns an error if the declared block or cluster differs from the one that the calls of the builder used.
    pub fn finish(mut self) -> Result<crate::build::launch::TensorKernel, Error> {
        if let Some(error) = self.failure.get() {
            return Err(error);
        }
        self.check_transactions()?;
        if let Err((kind, at)) = self.pipelines.check_end() {
            return Err(Error::at_call(kind, at));
        }
        let target = self.ir.target();
        self.name_fragments();
        let kernel = std::mem::replace(&mut self.ir, KernelBuilder::new("", target)).finish();
        let kernel = self.claimed(kernel);
        let refuse = |why: String| Error::at_call(ErrorKind::operands("finish", why), kernel.at);
        if kernel.block != Some(self.block) {
            let begun = match self.block {
                [x, 1, 1] => format!("{x} threads along x"),
                [x, y, z] => format!("{x} by {y} by {z} threads"),
            };
            return Err(refuse(format!(
                "the block is declared as {:?}, and the kernel was begun for {begun}",
                kernel.block.unwrap_or([0; 3])
            )));
        }
        let blocks = kernel.cluster.map_or(1, |cluster| {
            cluster.into_iter().fold(1, u32::saturating_mul)
        });
        match self.ranks {
            Some(ranks) if ranks != blocks => Err(refuse(format!(
                "ranks are counted for clusters of {ranks} blocks, and clusters of {blocks} are declared"
            ))),
            _ => Ok(crate::build::launch::TensorKernel {
                kernel: self.launch.aligned(kernel),
                signature: self.launch,
                report: self.reports,
            }),
        }
    }

    /// Keeps an error of the caller, which [`Builder::finish`] returns unless a call before it failed.
    ///
    /// ```
    /// # use colex_tensor::prelude::*;
    /// let mut k = Builder::new("k", Arch::Sm80, 32);
    /// k.fail_with(&colex_tensor::Error::new("my_copy", "5 rows are not a multiple of 4"));
    /// assert_eq!(k.finish().unwrap_err().what(), "my_copy: 5 rows are not a multiple of 4");
    /// ```
    pub fn fail_with(&mut self, error: &Error) {
        self.failure.keep_error(error);
    }

    /// Keeps the failure of what has no value: the call that made it is named, where it is known.
    pub(crate) fn fail_poison(
        &mut self,
        poison: &crate::index::poison::Poison,
        at: &'static Location<'static>,
    ) {
        match poison.at() {
            Some(at) => self.failure.keep(poison.kind(), at),
            None => self.fail(poison.kind(), at),
        }
    }

    pub(crate) fn fail(&mut self, kind: ErrorKind, at: &'static Location<'static>) {
        let site = self.ir.set_location(None);
        self.ir.set_location(site);
        let at = site.unwrap_or(at);
        self.failure.keep(kind, at);
    }

    /// Returns what `body` makes, or `inert` if it fails or something has failed before. Instructions are ascribed to `at`.
    pub(crate) fn attempt<T>(
        &mut self,
        at: &'static Location<'static>,
        inert: impl FnOnce(&mut Self) -> T,
        body: impl FnOnce(&mut Self) -> Result<T, ErrorKind>,
    ) -> T {
        if self.failure.is_set() {
            return inert(self);
        }
        match self.site(at, body) {
            Ok(value) => value,
            Err(kind) => {
                self.fail(kind, at);
                inert(self)
            }
        }
    }

    /// Runs a call that returns nothing; its failure is kept.
    pub(crate) fn run(
        &mut self,
        at: &'static Location<'static>,
        body: impl FnOnce(&mut Self) -> Result<(), ErrorKind>,
    ) {
        self.attempt(at, |_| (), body);
    }

    /// Runs `body`, whose instructions are ascribed to `at` unless a call around it is.
    pub(crate) fn site<T>(
        &mut self,
        at: &'static Location<'static>,
        body: impl FnOnce(&mut Self) -> T,
    ) -> T {
        let outer = self.ir.set_location(None);
        self.ir.set_location(outer.or(Some(at)));
        let result = body(self);
        self.ir.set_location(outer);
        result
    }

    /// Returns the number of the thread in its block. Threads are numbered along x first, then along y and z, as warps are
    /// formed of them: in a block of extents along x alone it is `%tid.x`.
    ///
    /// ```
    /// # use colex_tensor::prelude::*;
    /// # use colex_proof::examples::values;
    /// let mut k = Builder::new("k", Arch::Sm80, 64);
    /// let tid = k.thread();
    /// assert_eq!(tid.range(), (0, 63));
    /// assert_eq!(values(k, &tid)?[62..], [62, 63]); // the index in each thread, on the simulator
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[track_caller]
    pub fn thread(&mut self) -> Index {
        let at = Location::caller();
        let mut before = 1;
        let mut number: Option<Index> = None;
        for (axis, extent) in (0..).zip(self.block) {
            if axis == 0 || extent > 1 {
                let along = self.thread_along(axis, at) * before;
                number = Some(match number {
                    None => along,
                    Some(number) => number + along,
                });
            }
            before *= i64::from(extent);
        }
        number.unwrap_or_else(|| 0.into())
    }

    /// Returns the index of the thread in its block along `axis`, which is 0, 1 or 2 (`%tid`).
    ///
    /// ```
    /// # use colex_tensor::prelude::*;
    /// # use colex_proof::examples::values;
    /// let mut k = Builder::new("k", Arch::Sm80, (16, 4));
    /// let (x, y) = (k.thread_index(0), k.thread_index(1));
    /// assert_eq!((x.range(), y.range()), ((0, 15), (0, 3)));
    /// assert_eq!(values(k, &(y * 100 + x))?[30..34], [114, 115, 200, 201]); // by the threads' numbers
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    ///
    /// [`Builder::finish`] fails for another axis.
    #[track_caller]
    pub fn thread_index(&mut self, axis: u8) -> Index {
        let at = Location::caller();
        if axis > 2 {
            let why = format!("axis {axis}: a block has axes 0, 1 and 2");
            self.fail(ErrorKind::operands("thread_index", why), at);
            return 0.into();
        }
        self.thread_along(axis, at)
    }

    fn thread_along(&mut self, axis: u8, at: &'static Location<'static>) -> Index {
        // The verifier speaks of a block without threads.
        let extents = self.block.map(|extent| i64::from(extent.max(1)));
        let own = usize::from(axis);
        let index = self.special_within(Special::Tid(axis), (0, extents[own] - 1), at);
        if let Some(reg) = self.specials.get(&Special::Tid(axis)) {
            let before = extents[..own].iter().product();
            let place = [before, extents[own]];
            self.reports.values.threads.insert(*reg, place);
        }
        index
    }

    /// Returns the lane of the thread in its warp, 0 to 31.
    ///
    /// ```
    /// # use colex_tensor::prelude::*;
    /// # use colex_proof::examples::values;
    /// let mut k = Builder::new("k", Arch::Sm80, 64);
    /// let lane = k.lane();
    /// assert_eq!(values(k, &lane)?[30..34], [30, 31, 0, 1]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[track_caller]
    pub fn lane(&mut self) -> Index {
        self.thread() % 32
    }

    /// Returns the index of the thread's group of `threads` consecutive threads: 32 for a warp, 128 for a warpgroup. A
    /// `shfl.sync` broadcasts the value in each warp, so that branches on it are warp-uniform.
    ///
    /// If `threads` is not a multiple of 32, [`Builder::finish`] returns an error.
    ///
    /// ```
    /// # use colex_tensor::prelude::*;
    /// # use colex_proof::examples::values;
    /// let mut k = Builder::new("k", Arch::Sm80, 64);
    /// let warp = k.uniform(32);
    /// assert_eq!(values(k, &warp)?[30..34], [0, 0, 1, 1]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[track_caller]
    pub fn uniform(&mut self, threads: u32) -> Index {
        if threads == 0 || !threads.is_multiple_of(32) {
            let why =
                format!("{threads} threads are no whole warps: a multiple of 32 shares a number");
            self.fail(ErrorKind::operands("uniform", why), Location::caller());
            return 0.into();
        }
        let count = i64::from(self.threads.div_ceil(threads));
        let at = Location::caller();
        self.site(at, |k| {
            let number = k.thread() / i64::from(threads);
            let reg = k.value(&number);
            let shared = k.ir.shuffle(colex_ir::ShuffleMode::Idx, reg, 0);
            k.reports.values.groups.insert(shared, i64::from(threads));
            let depth = k.depth();
            Index::leaf(k.leaf(shared), (0, count - 1), 1, depth)
        })
    }

    /// Returns the index of the block in the grid along `axis`, which is 0, 1 or 2 (`%ctaid`). It is below 2^31 along
    /// x, and below 65536 along y and z.
    ///
    /// ```
    /// # use colex_tensor::prelude::*;
    /// # use colex_proof::examples::values_of_blocks;
    /// let mut k = Builder::new("k", Arch::Sm80, 32);
    /// let block = k.block_index(0);
    /// assert_eq!(values_of_blocks(k, 3, &block)?, [0, 1, 2]); // in a grid of 3 blocks
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[track_caller]
    pub fn block_index(&mut self, axis: u8) -> Index {
        let limit = if axis == 0 { (1 << 31) - 1 } else { 1 << 16 };
        self.special_within(Special::Ctaid(axis), (0, limit - 1), Location::caller())
    }

    /// Returns the number of blocks in the grid along `axis`.
    ///
    /// ```
    /// # use colex_tensor::prelude::*;
    /// # use colex_proof::examples::values_of_blocks;
    /// let mut k = Builder::new("k", Arch::Sm80, 32);
    /// let blocks = k.grid_extent(0);
    /// assert_eq!(values_of_blocks(k, 3, &blocks)?, [3, 3, 3]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[track_caller]
    pub fn grid_extent(&mut self, axis: u8) -> Index {
        self.special_within(
            Special::NCtaid(axis),
            (1, (1 << 31) - 1),
            Location::caller(),
        )
    }

    /// Returns the rank of the block in its cluster of `blocks` blocks (`%cluster_ctarank`). If another cluster size is
    /// declared, [`Builder::finish`] returns an error.
    ///
    /// ```
    /// # use colex_tensor::prelude::*;
    /// # use colex_proof::examples::values_of_blocks;
    /// let mut k = Builder::new("k", Arch::Sm90a, 32);
    /// k.cluster([2, 1, 1]);
    /// let rank = k.cluster_rank(2);
    /// assert_eq!(values_of_blocks(k, 4, &rank)?, [0, 1, 0, 1]); // two clusters
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[track_caller]
    pub fn cluster_rank(&mut self, blocks: u32) -> Index {
        self.count_ranks(blocks);
        let at = Location::caller();
        let range = self.ends("special", 0..i64::from(blocks), at);
        self.special_within(Special::ClusterCtaRank, range, at)
    }

    /// Notes how many blocks of a cluster a call takes for granted.
    pub(crate) fn count_ranks(&mut self, blocks: u32) {
        let smaller = self.ranks.map_or(blocks, |ranks| ranks.min(blocks));
        self.ranks = Some(smaller);
    }

    /// Returns the value of a 32-bit special register, which lies in `range` (end excluded). The kernel reads it once
    /// at its beginning. A value outside of the range is refused as for [`Builder::index_of`].
    ///
    /// ```
    /// # use colex_tensor::prelude::*;
    /// # use colex_ir::Special;
    /// # use colex_proof::examples::values;
    /// let mut k = Builder::new("k", Arch::Sm80, 64);
    /// let lane = k.special(Special::LaneId, 0..32);
    /// assert_eq!(values(k, &lane)?[30..34], [30, 31, 0, 1]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[track_caller]
    pub fn special(&mut self, special: Special, range: Range<i64>) -> Index {
        let at = Location::caller();
        let range = self.ends("special", range, at);
        let index = self.special_within(special, range, at);
        self.site(at, |k| k.claim_range(&index, range, 1));
        index
    }

    /// A special register that lies in a range in every launch.
    pub(crate) fn special_within(
        &mut self,
        special: Special,
        range: (i64, i64),
        at: &'static Location<'static>,
    ) -> Index {
        let reg = match self.specials.get(&special) {
            Some(reg) => *reg,
            None => {
                let reg = self.site(at, |k| k.ir.hoisted(0, |k| k.mov(Type::U32, special)));
                self.specials.insert(special, reg);
                reg
            }
        };
        Index::leaf(self.leaf(reg), range, 1, 0)
    }

    /// The first and the last number of a range, which must have one.
    pub(crate) fn ends(
        &mut self,
        operation: &'static str,
        range: Range<i64>,
        at: &'static Location<'static>,
    ) -> (i64, i64) {
        if range.is_empty() {
            let why = format!("no integer lies in {}..{}", range.start, range.end);
            self.fail(ErrorKind::operands(operation, why), at);
            return (range.start, range.start);
        }
        (range.start, range.end - 1)
    }

    /// Returns `reg` as an index within `range` (end excluded). `reg` must not be written again afterwards. A value
    /// outside of the range is refused by the launch, or the kernel traps at this place, which the simulator names.
    ///
    /// ```
    /// # use colex_tensor::prelude::*;
    /// # use colex_ir::Type;
    /// # use colex_proof::examples::values;
    /// let mut k = Builder::new("k", Arch::Sm80, 32);
    /// let seven = k.emit(|ir| ir.mov(Type::U32, 7));
    /// let index = k.index_of(seven, 0..8);
    /// assert_eq!(index.range(), (0, 7));
    /// assert_eq!(values(k, &(index * 2))?[0], 14);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[track_caller]
    pub fn index_of(&mut self, reg: Reg, range: Range<i64>) -> Index {
        self.index_with(reg, range, 1)
    }

    /// Returns `reg` as [`Builder::index_of`] does, and known to be a multiple of `multiple`, a power of two.
    ///
    /// If `range` is empty or `multiple` is not a power of two, [`Builder::finish`] returns an error.
    ///
    /// ```
    /// # use colex_tensor::prelude::*;
    /// # use colex_ir::Type;
    /// let mut k = Builder::new("k", Arch::Sm80, 32);
    /// let eight = k.emit(|ir| ir.mov(Type::U32, 8));
    /// let index = k.index_with(eight, 0..64, 4);
    /// assert_eq!((&index % 4).as_constant(), Some(0)); // no instruction computes it
    /// ```
    #[track_caller]
    pub fn index_with(&mut self, reg: Reg, range: Range<i64>, multiple: i64) -> Index {
        let at = Location::caller();
        let range = self.ends("index_of", range, at);
        if multiple < 1 || multiple.count_ones() != 1 {
            let why = format!("a multiple of {multiple}, which is no power of two");
            self.fail(ErrorKind::operands("index_with", why), at);
            return 0.into();
        }
        let index = Index::leaf(self.leaf(reg), range, multiple, self.depth());
        self.site(at, |k| k.claim_range(&index, range, multiple));
        index
    }

    /// Returns the same value, known to lie in `range` (end excluded), if the author knows more than the rules derive. A value
    /// outside of the range is refused as for [`Builder::index_of`]; what the rules derive, or the branches and declarations
    /// before, is not checked again.
    ///
    /// If no value of the index lies in the range, [`Builder::finish`] returns an error.
    ///
    /// ```
    /// # use colex_tensor::prelude::*;
    /// let mut k = Builder::new("k", Arch::Sm80, 32);
    /// let block = k.block_index(0);
    /// let block = k.within(block, 0..1000); // the launch refuses a grid of more blocks
    /// assert_eq!(block.range(), (0, 999));
    /// assert!(!k.finish()?.kernel.ptx()?.contains("trap;"));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[track_caller]
    pub fn within(&mut self, index: impl Into<Index>, range: Range<i64>) -> Index {
        let (at, index) = (Location::caller(), index.into());
        let (first, last) = self.ends("within", range, at);
        let (low, high) = index.range();
        self.own_indices([&index], at);
        let inside = index.within(first..last + 1);
        if inside.poison().is_none() && (low < first || high > last) {
            self.site(at, |k| k.claim_range(&index, (first, last), 1));
        }
        inside
    }

    /// Declares that two tensors have the same extents in every launch, which the launch checks: where a branch compares a
    /// coordinate with the extent of one, it lies inside of the other too.
    ///
    /// ```
    /// # use colex_tensor::prelude::*;
    /// let mut k = Builder::new("k", Arch::Sm80, 32);
    /// let [from, to] = ["from", "to"].map(|name| k.tensor(name, Ty::F32, "1000:_1"));
    /// k.same_extents(&from, &to);
    /// assert!(!k.finish()?.kernel.ptx()?.contains("trap;"));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[track_caller]
    pub fn same_extents(&mut self, a: &Tensor, b: &Tensor) {
        let at = Location::caller();
        if let Err(kind) = self.own_tensors(&[a, b]) {
            return self.fail(kind, at);
        }
        let ranks = [a, b].map(|tensor| tensor.layout().rank());
        if ranks[0] != ranks[1] {
            let why = format!("tensors of {} and {} modes", ranks[0], ranks[1]);
            return self.fail(ErrorKind::operands("same_extents", why), at);
        }
        for mode in 0..ranks[0] {
            let apart = b.extent(mode) - a.extent(mode);
            if apart.range() != (0, 0) {
                self.site(at, |k| k.claim_range(&apart, (0, 0), 1));
            }
        }
    }

    /// Returns a grid of `tiles` tiles along m and n in an order, if the order has a formula. The launch checks that 32 bits
    /// count its places.
    ///
    /// ```
    /// # use colex_tensor::prelude::*;
    /// let mut k = Builder::new("k", Arch::Sm80, 32);
    /// let a = k.tensor("a", Ty::F32, "(64,64):(64,_1)");
    /// let order: colex_sched::Order = "grouped 2 along m".parse()?;
    /// let grid = k.tile_grid(order, [a.extent(0) / 8, a.extent(1) / 8]).expect("it has a formula");
    /// let block = k.block_index(0);
    /// let [m, n] = k.tile_at(&grid, block);
    /// let tile = a.local_tile((8, 8), (m, n)); // it lies in the tensor, and no access to it needs a check
    /// # let _ = tile;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[track_caller]
    pub fn tile_grid(&mut self, order: Order, tiles: [Index; 2]) -> Option<TileGrid> {
        let at = Location::caller();
        let grid = TileGrid { order, tiles };
        let strip = grid.strip()?;
        self.own_indices(grid.tiles.each_ref(), at);
        for count in [grid.size(), strip] {
            self.site(at, |k| k.claim_range(&count, (1, MOST_PLACES), 1));
        }
        Some(grid)
    }

    /// Returns the tile `[m, n]` at a place of the order, counted from 0. A place beyond the grid is refused as for
    /// [`Builder::index_of`]. The coordinates lie in the grid.
    ///
    /// ```
    /// # use colex_tensor::prelude::*;
    /// let mut k = Builder::new("k", Arch::Sm80, 32);
    /// let order: colex_sched::Order = "grouped 2 along m".parse()?;
    /// let grid = k.tile_grid(order, [3.into(), 4.into()]).expect("it has a formula");
    /// let [m, n] = k.tile_at(&grid, 5);
    /// assert_eq!((m.as_constant(), n.as_constant()), (Some(2), Some(1)));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[track_caller]
    pub fn tile_at(&mut self, grid: &TileGrid, place: impl Into<Index>) -> [Index; 2] {
        let (at, place) = (Location::caller(), place.into());
        let tiles = grid.tiles.clone().map(Checked);
        let tile = grid.order.tile(Checked(place.clone()), tiles);
        let tile = tile.expect("a grid has an order with a formula");
        let tile = tile.map(|Checked(at)| at);
        let [m, n] = &grid.tiles;
        self.own_indices([&place, m, n], at);
        // The law `index.orders`: a place of the grid has a tile of the grid.
        let inside = |(at, tiles): (&Index, &Index)| tiles - at - 1;
        let implied = tile.iter().zip(&grid.tiles).map(inside).collect();
        let left = grid.size() - place - 1;
        self.site(at, |k| k.claim_implying(&left, (0, LIMIT), 1, implied));
        tile
    }

    /// A register of this kernel that is never written again.
    pub(crate) fn leaf(&self, reg: Reg) -> Leaf {
        Leaf {
            reg,
            stamp: 0,
            is_signed: false,
            owner: self.failure.owner(),
        }
    }

    /// Refuses handles of another builder.
    pub(crate) fn own_tensors(&self, tensors: &[&Tensor]) -> Result<(), ErrorKind> {
        let mut tensors = tensors.iter();
        tensors.try_for_each(|tensor| self.failure.own("a tensor", tensor.failure.owner()))
    }

    pub(crate) fn depth(&self) -> u32 {
        self.scopes.len() as u32 - 1
    }

    /// Returns the kernel built so far, for inspection.
    ///
    /// ```
    /// # use colex_tensor::prelude::*;
    /// let mut k = Builder::new("k", Arch::Sm80, 32);
    /// k.thread();
    /// assert!(k.kernel_so_far().to_string().contains("mov %tid.x"));
    /// ```
    pub fn kernel_so_far(self) -> Kernel {
        self.ir.finish()
    }
}
