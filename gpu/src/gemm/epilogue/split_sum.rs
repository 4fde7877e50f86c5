//! Sums over the clusters that divide K among them, through memory of the device.
//!
//! The kernel of the product writes the accumulators of each part of K to the workspace. A second kernel adds them in the
//! order of the parts, so that the result is the same in every run, and stores C with all multiprocessors. It may begin
//! early, before the first kernel has ended: then it waits for that end before its first access to memory.
//!
//! A thread of the second kernel adds two vectors of each part, as the threads of the first kernel have written them. Then the threads of
//! a block exchange their sums through shared memory, so that each has neighbours along the contiguous mode of C: it reads and writes
//! C and the tensors of the epilogue in vectors of up to 16 bytes, and those of a row follow each other. What the epilogue reads is
//! loaded before the parts, and not behind their sums.
//!
//! Split-K and stream-K have kernels of their own: the parts of a tile are found by one multiplication where every tile has as
//! many, and by divisions where shares cross the borders of tiles.

use colex_atom::Arch;
use colex_ir::{Access, Address, BinaryOp, KernelBuilder, Reg, Space, Type};
use colex_layout::Layout;
use colex_tensor::{AtThread, Builder, Cond, Error, Expr, Fragment, Index, Tensor, TensorKernel};
use colex_tiled::Operand;

use super::convert::{sum_register, sum_type};
use super::direct::Direct;
use super::terms::{EarlyTerms, KernelEpilogue, TermTensor};
use crate::gemm::batch::{BatchForm, BatchTiles};
use crate::gemm::groups::tiles::larger;
use crate::gemm::plan::{Division, GemmPlan, LEAST_STEPS, MOST_FIXUP};
use crate::gemm::problem::MOST_EXTENT;
use crate::gemm::sm90::{self, MOST_SHARES, MOST_SPLIT, MOST_STEPS, WARPGROUP_THREADS};
use crate::kernels::Major;
use colex_sched::formula::{self, MOST_PLACES};

/// The number of accumulators that a thread writes and reads at once.
const VECTOR: i64 = SplitSum::VECTOR;

/// The columns of one vector of each thread: the least that an instruction of a warpgroup has.
const COLUMNS: i64 = 8;

/// The rows of a block of the second kernel: those of a warpgroup's instruction.
const ROWS: i64 = 64;

/// The numbers of vectors that a thread loads before it adds them, while there are as many parts.
const IN_FLIGHT: [i64; 2] = [16, 8];

/// The vectors of each thread: two, whose columns fill sectors of 32 bytes of a C of 16 bits, or one if the tile has an odd number.
fn vectors(plan: &GemmPlan) -> i64 {
    match plan.stored().tile[1] / COLUMNS % 2 {
        0 => 2,
        _ => 1,
    }
}

/// The most parts of C and K together.
const MOST_PARTS: i64 = 1 << 24;

/// How the steps along K of the tiles that are divided are shared.
pub(crate) struct StepRow {
    /// The parts of all tiles, or the shares.
    pub(crate) items: Index,
    /// The steps of a part of a tile, or of a share of the row, and the first ones that have one more.
    pub(crate) each: Index,
    pub(crate) more: Index,
    /// The steps of a tile.
    pub(crate) steps: Index,
}

/// The accumulators in the workspace: those of each part of each block's tile, vector by vector.
pub(crate) struct SplitSum {
    workspace: Reg,
    /// What the parts are parts of: each tile, or the row of the steps of all.
    pub(crate) division: Division,
    /// The number of parts of a tile, or of shares of all.
    pub(crate) parts: Index,
    /// The number of the clusters' tiles whose K is not divided: the first of the order.
    pub(crate) undivided: Index,
    /// The blocks of a cluster.
    blocks: i64,
    /// The threads of a block that have accumulators.
    threads: i64,
    /// The bytes of a block's accumulators of one right factor.
    bytes: i64,
    /// The type of the accumulators.
    ty: Type,
    /// The number of right factors.
    factors: i64,
}

/// Whether a vector of a thread's sums is written, by its number.
type IsKept<'a> = dyn Fn(&mut Builder, usize) -> Cond + 'a;

impl SplitSum {
    /// The number of accumulators that a thread writes and reads at once.
    pub(crate) const VECTOR: i64 = 4;

    /// Declares the arguments.
    pub(crate) fn new(k: &mut Builder, plan: &GemmPlan) -> SplitSum {
        let stored = plan.stored();
        let [m, n, _] = stored.tile;
        let most = match plan.division {
            Division::SplitK => MOST_SPLIT,
            Division::SplitKFixup => MOST_FIXUP,
            Division::StreamK => MOST_SHARES,
        };
        SplitSum {
            division: plan.division,
            parts: k.index_argument("parts", 1..most + 1),
            undivided: k.index_argument("undivided", 0..MOST_PLACES),
            workspace: k.scalar_argument("workspace", Type::U64),
            blocks: i64::from(sm90::blocks(plan)),
            threads: stored.warps[0] * i64::from(WARPGROUP_THREADS),
            bytes: m * n * 4,
            ty: sum_register(plan.operands.ab),
            factors: plan.operands.right_factors(),
        }
    }

    /// Checks that the tiles that are divided are some of the grid's, and that the workspace has room for their parts. Returns
    /// their number.
    pub(crate) fn check(&self, k: &mut Builder, grid: &BatchTiles) -> Index {
        let tiles = k.within(grid.size() - &self.undivided, 0..MOST_PARTS);
        let places = match self.division {
            Division::SplitK | Division::SplitKFixup => &tiles * &self.parts,
            Division::StreamK => &tiles + &self.parts,
        };
        k.within(places * self.blocks, 0..MOST_PARTS + 1);
        tiles
    }

    /// Shares `steps` for each of the tiles that are divided. Checks that every part has steps.
    pub(crate) fn row(&self, k: &mut Builder, tiles: &Index, steps: &Index) -> StepRow {
        let all = tiles * &self.parts;
        let (of_all, items) = match self.division {
            Division::SplitK | Division::SplitKFixup => (steps.clone(), all),
            Division::StreamK => (larger(tiles, &1.into()) * steps, all.min(&self.parts)),
        };
        let of_all = k.within(of_all, 1..MOST_STEPS + 1);
        StepRow {
            items: k.within(items, 0..MOST_PARTS + 1),
            each: k.within(&of_all / &self.parts, 1..MOST_STEPS + 1),
            more: of_all % &self.parts,
            steps: steps.clone(),
        }
    }

    /// The number of the place of a part, counted over the parts of all clusters' tiles that are divided. The minimum
    /// states a bound that holds anyway.
    pub(crate) fn place(&self, number: &Index) -> Index {
        number.min(&(MOST_PARTS / self.blocks - 1).into())
    }

    /// The place of the first part of a tile among those that are divided by stream-K, and the number of its parts.
    fn parts_of(&self, row: &StepRow, tile: &Index) -> [Index; 2] {
        let least = row.steps.min(&LEAST_STEPS.into());
        let shares = [row.each.clone(), row.more.clone()];
        let [first, last] = formula::share_peers(tile.clone(), row.steps.clone(), least, shares);
        // Bounds that hold anyway, and that no proof finds.
        let bounded = |share: &Index| larger(share, &0.into()).min(&(MOST_SHARES - 1).into());
        let [first, last] = [&first, &last].map(bounded);
        let place = (&first + tile).min(&MOST_PARTS.into());
        [place, larger(&(last - first + 1), &0.into())]
    }

    /// The type of the accumulators.
    pub(crate) fn ty(&self) -> Type {
        self.ty
    }

    /// What is added where there is no part: of floats, -0 leaves every number as it is.
    pub(crate) fn neutral(&self) -> colex_ir::Operand {
        match self.ty {
            Type::S32 => colex_ir::Operand::Int(0),
            ty => ty.constant(-0.0),
        }
    }

    /// The bytes from one part to the next.
    pub(crate) fn bytes_of_part(&self) -> i64 {
        self.blocks * self.factors * self.bytes
    }

    /// The number of a block's place in the workspace: that of a part and of the block's rank.
    pub(crate) fn block(&self, place: &Index, rank: &Index) -> Index {
        place * self.blocks + rank
    }

    /// The address of a thread's first vector of the first right factor in the place of a part and a block's rank.
    pub(crate) fn address(
        &self,
        k: &mut Builder,
        (place, rank): (&Index, &Index),
        thread: &Index,
    ) -> Reg {
        let block = k.value(&self.block(place, rank));
        let bytes = self.factors * self.bytes;
        let offset = k.value(&(thread * (4 * VECTOR)));
        k.emit(|ir| {
            let block = ir.mul_wide(Type::U32, block, bytes);
            let block = ir.add(Type::S64, self.workspace, block);
            let offset = ir.mul_wide(Type::U32, offset, 1);
            ir.add(Type::S64, block, offset)
        })
    }

    /// Writes the sums of a part of K, those of each right factor.
    pub(crate) fn keep(
        &self,
        k: &mut Builder,
        sums: &[Fragment],
        thread: &Index,
        at: (&Index, &Index),
    ) {
        self.keep_where(k, sums, thread, (at, &|_, _| Cond::Known(true)));
    }

    /// Writes the vectors of a thread's sums for which `is_kept` holds, by their numbers.
    pub(crate) fn keep_where(
        &self,
        k: &mut Builder,
        sums: &[Fragment],
        thread: &Index,
        (at, is_kept): ((&Index, &Index), &IsKept<'_>),
    ) {
        let own = self.address(k, at, thread);
        for (number, (offset, vector)) in self.vectors(sums).iter().enumerate() {
            let is_kept = is_kept(k, number);
            k.where_(is_kept, |ir| {
                let at = Address::from(own).at(*offset);
                ir.store_vector(Access::new(Space::Global, self.ty), at, vector);
            });
        }
    }

    /// The vectors of a thread's sums, those of each right factor, with their bytes behind the first.
    pub(crate) fn vectors(&self, sums: &[Fragment]) -> Vec<(i64, Vec<Reg>)> {
        let step = self.threads * 4 * VECTOR;
        let mut all = Vec::new();
        for (factor, sums) in sums.iter().enumerate() {
            let own = factor as i64 * self.bytes;
            let sums = sums.gathered(0, sums.layout().size());
            let vectors = sums.regs().chunks(VECTOR as usize).enumerate();
            all.extend(vectors.map(|(i, vector)| (own + i as i64 * step, vector.to_vec())));
        }
        all
    }

    /// Adds `parts` parts of a thread's vectors of a right factor to registers; `first` is the address of the first vector of the first
    /// part of the first factor. A thread has its vectors side by side: those of the other threads are between them.
    fn total(
        &self,
        k: &mut Builder,
        total: &Fragment,
        (factor, first): (usize, Reg),
        parts: &Index,
    ) {
        let vectors = total.regs().len() as i64 / VECTOR;
        let (offset, apart) = (factor as i64 * self.bytes, self.threads * 4 * VECTOR);
        let step = self.bytes_of_part();
        let access = Access::new(Space::Global, self.ty);
        // The parts from `begin` on: all loads of them, and then the sums.
        let add = |k: &mut Builder, begin: &Index, count: i64| {
            let begin_at = k.value(begin);
            k.emit(|ir| {
                let from = ir.mul_wide(Type::U32, begin_at, step);
                let from = ir.add(Type::S64, first, from);
                let load = |ir: &mut KernelBuilder, part: i64, vector: i64| {
                    let d = ir.regs(self.ty.register(), VECTOR as usize);
                    let at = Address::from(from).at(offset + part * step + vector * apart);
                    ir.load_to(access, &d, at);
                    d
                };
                let each = (0..count).flat_map(|part| (0..vectors).map(move |v| (part, v)));
                let loaded: Vec<Vec<Reg>> = each.map(|(part, v)| load(ir, part, v)).collect();
                for part in loaded.chunks(vectors as usize) {
                    for (d, x) in total.regs().iter().zip(part.iter().flatten()) {
                        ir.binary_to(BinaryOp::Add, self.ty, *d, *d, *x);
                    }
                }
            });
        };
        let zero = self.neutral();
        k.emit(|ir| total.regs().iter().for_each(|d| ir.mov_to(*d, zero)));
        let mut begin = Index::from(0);
        let counts = IN_FLIGHT.map(|loads| loads / vectors);
        for count in counts {
            let end = parts / count * count;
            k.for_(begin, &end, count, |k, part| add(k, part, count));
            begin = end;
        }
        let [_, last] = counts;
        let rest = parts % last;
        for count in 1..last {
            let is_rest = k.equal(&rest, &count.into());
            k.if_(is_rest, |k| add(k, &begin, count));
        }
    }
}

/// The place of a block's sums in shared memory, where its threads exchange them.
struct Exchange {
    /// The sums of each right factor.
    sums: Vec<TermTensor>,
    /// The coordinates of a block's elements.
    places: Tensor,
    columns: i64,
    /// The mode along which C is contiguous, and the neighbours along it that a thread has behind the exchange.
    run: (usize, i64),
}

impl Exchange {
    fn new(k: &mut Builder, plan: &GemmPlan, columns: i64) -> Exchange {
        // The rows (or columns) of a warp's instruction are in other banks: pairs of neighbours along N by 8 rows, or 4 times 2 columns
        // by 8 rows one by one.
        let (along, layout) = match plan.operands.major(Operand::C) {
            Major::Second => {
                let pitch = columns + (columns - COLUMNS);
                (1, Layout::new((ROWS, columns), (pitch, 1)))
            }
            Major::First => (0, Layout::new((ROWS, columns), (1, ROWS + 4))),
        };
        let layout = layout.expect("positive extents make a layout");
        let ty = sum_type(plan.operands.ab);
        let places = k.identity_tensor([ROWS, columns]);
        let sums = (0..plan.operands.right_factors()).map(|_| {
            let shared = k.shared_tensor(ty, &layout);
            TermTensor::new(&shared, &places, (along, VECTOR))
        });
        let sums = sums.collect();
        let values = ROWS * columns / i64::from(WARPGROUP_THREADS);
        let (vector, bits) = (
            plan.operands.vector(Operand::C),
            i64::from(plan.operands.c.bits()),
        );
        let fits = |wide: &i64| vector % wide == 0 && wide * bits <= 128;
        let widths = [8, 4, 2].into_iter().filter(|wide| *wide <= values);
        let wide = widths.filter(|wide| wide * bits >= 32).find(fits);
        Exchange {
            sums,
            places,
            columns,
            run: (along, wide.unwrap_or(1)),
        }
    }

    /// A thread's part of a matrix behind the exchange, where `tile` is the block's: neighbours along C's contiguous mode, and then
    /// those of the next rows (or columns). The threads of a row follow each other.
    fn part(&self, tile: &Tensor, thread: &Index) -> Tensor {
        let (along, wide) = self.run;
        let extents = [ROWS, self.columns];
        let values = ROWS * self.columns / i64::from(WARPGROUP_THREADS);
        let (lanes, rest) = (extents[along] / wide, values / wide);
        let [of_row, row] = [thread % lanes, thread / lanes];
        let (part, order) = match along {
            0 => (
                tile.local_tile((wide, rest), (of_row, row)),
                Layout::new((wide, rest), (1, wide)),
            ),
            _ => (
                tile.local_tile((rest, wide), (row, of_row)),
                Layout::new((wide, rest), (rest, 1)),
            ),
        };
        part.compose(order.expect("positive extents make a layout").to_static())
    }
}

/// The blocks of the second kernel for a number of the clusters' tiles.
pub(crate) fn blocks(plan: &GemmPlan, tiles: i64) -> i64 {
    let [m, n, _] = plan.stored().tile;
    tiles * i64::from(sm90::blocks(plan)) * (m / ROWS) * (n / (vectors(plan) * COLUMNS))
}

/// The kernel that adds the parts of K. The launch takes C, M, N, by stream-K also K, the parts, the tiles that are not divided, the
/// workspace and what the epilogue reads. A tile that one share has whole is stored by the kernel of the product.
pub(crate) fn build(
    plan: &GemmPlan,
    batch: BatchForm,
    epilogue: &KernelEpilogue,
    arch: Arch,
) -> Result<TensorKernel, Error> {
    let stored = plan.stored();
    let name = match sum_register(plan.operands.ab) {
        Type::S32 => "gemm_sum_s32",
        _ => "gemm_sum",
    };
    let mut k = Builder::new(name, arch, WARPGROUP_THREADS);
    // Otherwise ptxas 12.9 takes 32 registers, and holds four loads in flight.
    k.min_blocks(1);
    let vectors = vectors(plan);
    let columns_of_block = vectors * COLUMNS;
    // What a block stores.
    let slice = GemmPlan {
        tile: [ROWS, columns_of_block, 16],
        warps: [1, 1],
        ..stored
    };
    let mma = slice.tiled_mma()?;
    let direct = Direct::new(&slice, &mma)?;
    let c = batch.layout(&slice, Operand::C);
    let c = k.tensor("C", slice.operands.c, &c);
    let mut extent = |name: &str| k.index_argument(name, 1..MOST_EXTENT + 1);
    let [m, n] = ["m", "n"].map(&mut extent);
    let along = (plan.division == Division::StreamK).then(|| extent("k"));
    let products = batch.arguments(&mut k);
    let sum = SplitSum::new(&mut k, plan);
    let terms = epilogue.declare(&mut k);
    batch.agree(&mut k, Operand::C, &c, &products);
    terms.agree(&mut k, &batch, &products);

    // A closure asks for the pairs of columns that the accumulators of a thread are.
    let exchange = match epilogue.epilogue.closures().next() {
        None => Some(Exchange::new(&mut k, &slice, columns_of_block)),
        Some(_) => None,
    };

    let [rows, columns] = [stored.tile[0] / ROWS, stored.tile[1] / columns_of_block];
    let grid = sm90::clusters(&mut k, plan, [&m, &n], &products);
    let divided = sum.check(&mut k, &grid);
    let shares = along.map(|along| {
        let steps = sm90::steps(&mut k, plan, &batch, &along);
        sum.row(&mut k, &divided, &steps)
    });
    let number = k.block_index(0);
    let (column, number) = (&number % columns, number / columns);
    let (row, number) = (&number % rows, number / rows);
    let rank = &number % sum.blocks;
    let tile = (number / sum.blocks).min(&divided);
    let [first, parts] = match &shares {
        None => [
            k.within(&tile * &sum.parts, 0..MOST_PARTS + 1),
            sum.parts.clone(),
        ],
        Some(row) => sum.parts_of(row, &tile),
    };
    let tile = (&sum.undivided + tile).min(&(grid.size() - 1));
    let (at, product) = sm90::place(&mut k, plan, &grid, (&tile, &rank));
    let (c, terms) = (c.fixed_behind(&product), terms.of_product(&product));
    let [tile_m, tile_n] = sm90::stored_at(plan, at, &rank);
    // (MMA, MMA_M, MMA_N): the rows of an instruction are those of all warpgroups.
    let groups = stored.warps[0];
    let vector = (&row / groups * columns + &column) * vectors;
    let thread = k.thread();
    let of_product = &row % groups * i64::from(WARPGROUP_THREADS) + &thread;
    let first = sum.address(
        &mut k,
        (&sum.place(&first), &rank),
        &(vector * sum.threads + of_product),
    );
    if plan.early {
        sm90::begin_early(&mut k);
    }
    let totals = |k: &mut Builder| {
        let factors = 0..plan.operands.right_factors() as usize;
        let total = |factor: usize| {
            let own = k.fragment_of(&mma, Operand::C, (ROWS, columns_of_block));
            let own = own.gathered(0, own.layout().size());
            sum.total(k, &own, (factor, first), &parts);
            own
        };
        factors.map(total).collect::<Vec<Fragment>>()
    };
    let at = [tile_m * rows + &row, tile_n * columns + &column];
    let store = |k: &mut Builder| {
        let Some(exchange) = &exchange else {
            let totals = totals(k);
            let early = EarlyTerms::default();
            direct.store(k, &slice, &totals, (&c, &at), &thread, (&terms, &early));
            return;
        };
        let part = |matrix: &Tensor| {
            let tile = matrix.local_tile((ROWS, columns_of_block), &at);
            exchange.part(&tile, &thread)
        };
        let stored = TermTensor::new(&c, &c, exchange.run);
        let early = terms.load_all(k, &part);
        let old = (plan.operands.beta).then(|| stored.load(k, &part(&c)));
        let own = mma.at(&thread).partition(&exchange.places, Operand::C);
        for (slot, total) in exchange.sums.iter().zip(totals(k)) {
            slot.store(k, &own, Expr::from(&total));
        }
        k.sync();
        let mine = exchange.part(&exchange.places, &thread);
        let sums = exchange.sums.iter().map(|slot| slot.load(k, &mine));
        let sums: Vec<Fragment> = sums.collect();
        terms.finish_into(k, &stored, (&sums, old.as_ref(), &early), &part);
    };
    match shares {
        None => store(&mut k),
        Some(_) => {
            let is_divided = k.less(&1.into(), &parts);
            k.if_(is_divided, store);
        }
    }
    k.finish()
}
