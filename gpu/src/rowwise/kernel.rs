//! The kernel of a plan: rows in registers, the next ones on their way to shared memory or not, or rows read in passes. Rows that are
//! staged in shared memory are those of `staged.rs`, rows that begin anywhere those of `shifted.rs`, and rows beside each other those of
//! `turned.rs`.
//!
//! Threads share a row in vectors, one beside the other, so that a warp reads consecutive bytes. What the rows of a block have in
//! common is one partition: every tensor has the same one. The totals of a row go through `reduce_along` of a tile of one
//! element for each thread, or through the lanes of each warp where a block of many warps or a cluster has one row.
//!
//! Shared memory keeps each thread's own elements, of rows and of weights: only this thread copies them there and reads them, so it waits
//! for its own copies and for no other thread. Groups of threads that take rows in turn are the exception: one thread of a group lets the engine
//! of bulk copies bring a block's whole part of a row.

use colex_atom::{Arch, CopyAtom, Ty};
use colex_ir::BinaryOp::{self, Add, Max};
use colex_ir::{
    Access, Address, Alu, AtomicOp, Compare, CopyArgs, End, FenceKind, Guard, KernelBuilder,
    Memory, Operand, Order, Reg, RegType, Scope, ShuffleMode, Space, Sync as Synchronise, Type,
};
use colex_layout::{C, Int, Layout};
use colex_tensor::{
    AtThread, Barriers, Builder, Cond, Elements, Error, Expr, Fragment, Index, Outside, Piece,
    Tensor, TensorKernel,
};
use colex_tiled::TiledCopy;

use super::plan::{
    CLEARED_WORDS, MOST_SHIFTED, MOST_TEAM_ROWS, RowStorage, RowwisePlan, STREAMED, TEAM_HEADER,
};
use super::problem::{MOST, RowFunction, RowTensor, RowwiseProblem};
use super::turned;
use crate::memory_bound::plan::WARP;
use crate::memory_bound::span::renew;

/// A kernel that is being built.
#[derive(Clone)]
pub(super) struct RowKernel<'a> {
    pub(super) plan: &'a RowwisePlan,
    tensors: Vec<(RowTensor, Tensor)>,
    copy: TiledCopy,
    /// What shared memory keeps of the inputs: (rows, columns, slot).
    kept: Vec<(RowTensor, Tensor)>,
    /// The weight and the bias, if shared memory keeps them: (rows, columns), with a row for each row of the block.
    weights: Vec<(RowTensor, Tensor)>,
    /// The copies to shared memory.
    to_shared: Option<TiledCopy>,
    /// The addresses of a number of each warp in shared memory, for the first total of a row and for the second. If warps meet once, the
    /// first is that of two numbers of each warp, or four of a layer norm, twice, for rows that take turns.
    scratch: Option<[Index; 2]>,
    /// Which memory of the two the row has.
    pub(super) turn: Index,
    /// One element for each thread.
    lanes: TiledCopy,
    pub(super) thread: Index,
    /// The tile of the rows, and the rank of the block among those of a row.
    pub(super) at: [Index; 2],
    epsilon: Option<Expr>,
    /// The columns of rows that are one mode with their elements.
    pub(super) columns: Option<Index>,
    /// Shared memory for the rows of a block, of each input, where they are staged.
    pub(super) staged: Vec<Tensor>,
    /// The row of a group that takes rows in turn with others.
    of_group: Option<GroupRow>,
    /// The memory through which the blocks of teams meet.
    teams: Option<Teams>,
    /// What registers hold of a row, where shared memory keeps the others.
    divided: Option<DividedRow>,
    /// The columns of a row that the thread's warp has, where each row has as many and warps meet once: of shifted rows.
    pub(super) of_warp: Option<Fragment>,
    /// The same of a layer norm whose groups take rows in turn.
    of_warp_in_turn: Option<InTurnColumns>,
}

/// The columns of a warp in each row of a group that takes rows in turn.
#[derive(Clone)]
struct InTurnColumns {
    /// How many there are.
    count: Fragment,
    /// The number of those of the first access, or 1 if there are none.
    of_first: Fragment,
}

/// What registers hold of a row, where shared memory keeps the other chunks.
#[derive(Clone)]
struct DividedRow {
    /// The chunks behind those of shared memory.
    held: Vec<Fragment>,
    /// The tile of the next rows of the cluster.
    next: Index,
}

/// The memory through which the blocks of teams meet.
#[derive(Clone)]
struct Teams {
    /// What a launch tells the next one, then the words of the blocks.
    words: Tensor,
    /// The tag of the row that a thread has; before its first row, the last one of the launches before.
    tag: Reg,
    /// In shared memory: the address of the totals of a row that the warps of the group have found.
    result: Index,
    /// The number of the warp among those of its group, the same in all lanes.
    warp: Index,
}

/// What a launch in teams leaves for the next one.
struct TeamEnd {
    /// The words of 32 bits in front: the last tag of the launches before, how many blocks have counted themselves, and how many words of
    /// blocks launches have had so far, from the first one on.
    header: Reg,
    /// The last tag of this launch, and whether the next one could have no more tags behind it.
    last_tag: Reg,
    is_last: Reg,
    /// The blocks of the launch, less one.
    others: Operand,
    /// The thread of a block that counts it.
    counts: Cond,
}

/// An access to the words of blocks.
fn team_word() -> Access {
    Access::new(Space::Global, Type::B64).order(Order::Relaxed(Scope::Gpu))
}

/// The bytes of two totals of a block, each with its tag: those of one access.
const PAIR: i64 = 16;

/// The largest tag behind which a launch finds as many tags as it may need: words of 32 bits have no more.
const LAST_TAG: i64 = (1 << 32) - 1 - MOST_TEAM_ROWS;

/// A row of a group that takes rows in turn with others.
#[derive(Clone)]
struct GroupRow {
    ring: SlotRing,
    /// The number of the group.
    group: Index,
    /// The barriers at which the blocks of a cluster have put their totals of a row, two for each group: the rows of a group take
    /// them in turn, so a block that is a row ahead arrives at the other one.
    met: Option<Barriers>,
    /// The parity of the phase of the row's barrier of those.
    parity: Index,
    /// The slot that has the row, and the row that the slot has next: none where the row is read again from the slot.
    slot: Index,
    next: Option<Index>,
    /// The number of the group among those of all teams, and the row's number among those of the group that have words of their own.
    of_teams: Index,
    words: Index,
}

/// The slots of shared memory that bulk copies fill.
#[derive(Clone)]
struct SlotRing {
    /// The row of each slot has come.
    full: Barriers,
    /// The number of rows.
    rows: Index,
    /// The first column of the block's part of a row, and the bytes of the part.
    first: Index,
    bytes: Index,
}

/// What the rows have in common that a group takes in turn with other groups.
struct InTurn<'a> {
    ring: SlotRing,
    of_warp: Option<InTurnColumns>,
    /// The number of the group.
    group: &'a Index,
    /// The rows of all clusters or teams at once, and the first row of the group.
    step: Index,
    begin: Index,
    /// The most clusters or teams of the launch.
    clusters: i64,
}

/// The part of a row that a thread has in registers.
struct Part {
    /// The elements in the type of the tensors.
    held: Fragment,
    /// Those of a tensor of the whole shape, for coordinates.
    of: Tensor,
    /// Whether no element lies beyond the end of the row.
    is_full: bool,
}

/// What a warp has of a layer norm's row before it meets the others.
struct WarpMoments {
    /// The sum of its numbers, and how many there are.
    sum: Fragment,
    count: Fragment,
    /// Their quotient: the mean of the warp's numbers, but for roundings.
    pivot: Fragment,
}

/// What a warp, a block or a team has of a row's totals: a layout of the numbers that they exchange.
#[derive(Clone)]
enum WarpTotals {
    /// The maximum, and the sum of the powers under it.
    Powers(Box<[Fragment; 2]>),
    /// The sum of the squares.
    Squares(Box<[Fragment; 1]>),
    /// The pivot, the sums of the differences from it and of their squares, and the count.
    Moments(Box<[Fragment; 4]>),
}

/// What the results of a row need of its totals.
enum RowTotals {
    /// The maximum, or 0 where it is -inf, and the sum of the powers under it.
    Powers(Box<[Fragment; 2]>),
    /// The sum of the squares.
    Squares(Box<Fragment>),
    /// The pivot, the sum of the squares of the differences from the mean, and the mean of the differences from the pivot.
    Moments(Box<[Fragment; 3]>),
}

/// The words of 64 bits at which a lane looks, a row of a team's: a total of a block and the tag of its row.
struct Asked {
    /// The blocks, in turns of as many as the lanes of all looking warps.
    of_lane: Vec<Index>,
    /// Where the words of each block are, and the registers that receive them.
    places: Vec<Reg>,
    words: Vec<Vec<Reg>>,
}

impl Asked {
    /// Reads the words. All loads are under way at once.
    fn load(&self, ir: &mut KernelBuilder) {
        for (place, words) in self.places.iter().zip(&self.words) {
            for (at, pair) in (0..).step_by(PAIR as usize).zip(words.chunks(2)) {
                ir.load_to(team_word(), pair, Address::from(*place).at(at));
            }
        }
    }
}

/// Makes totals of several of each that a thread has.
type Join<'a, const N: usize> = dyn Fn(&mut Builder, [Vec<Expr>; N]) -> [Fragment; N] + 'a;

/// How the totals of a row come of those that the blocks of its team have left.
struct TeamTotals<'a, const N: usize> {
    /// The numbers that change nothing.
    none: [f64; N],
    /// Makes one total of several that a thread has.
    join: &'a Join<'a, N>,
    /// The same of those that the lanes of a warp have, in a fixed order.
    lanes: &'a dyn Fn(&mut Builder, [Fragment; N]) -> [Fragment; N],
}

/// What the elements of a row have in common.
enum Totals {
    /// The maximum, or 0 where it is -inf, and the sum of the powers under it.
    Powers { top: Fragment, sum: Fragment },
    /// The mean, and the reciprocal of the root of the variance.
    Moments {
        mean: Option<Fragment>,
        scale: Fragment,
    },
}

/// Builds the kernel.
pub(crate) fn build(plan: &RowwisePlan, arch: Arch) -> Result<TensorKernel, Error> {
    if let RowStorage::Turned { again } = plan.storage {
        return turned::build(plan, arch, again);
    }
    let operands = &plan.operands;
    let mut k = Builder::new(
        name(operands.function),
        arch,
        plan.threads_of_block() as u32,
    );
    if plan.cluster() > 1 {
        k.cluster([plan.cluster() as u32, 1, 1]);
    }
    let keeps_columns = matches!(
        plan.storage,
        RowStorage::Shifted { clusters: 1.., .. } | RowStorage::Staged { clusters: 1.., .. }
    );
    if matches!(plan.storage, RowStorage::Divided { .. }) || plan.keeps_weights || keeps_columns {
        k.min_blocks(plan.beside(arch) as u32);
    }
    let is_one_mode = plan.is_one_mode();
    let layouts = if is_one_mode {
        vec![shifted(1 << 16)?; operands.tensors().count()]
    } else {
        RowwiseProblem::like(operands).layouts()?
    };
    let named = operands.tensors().zip(&layouts);
    let tensors: Vec<_> = named
        .map(|(tensor, layout)| (tensor, k.tensor(tensor.name(), operands.ty, layout)))
        .collect();
    let of_teams = if plan.has_teams() {
        Some(k.tensor("words", Ty::U32, &shifted(1 << 16)?))
    } else {
        None
    };
    let epsilon = operands.function.is_norm().then(|| {
        let register = k.scalar_argument("epsilon", Type::F32);
        Expr::register(register, Ty::F32)
    });
    let columns = is_one_mode.then(|| k.index_argument("columns", 1..MOST_SHIFTED));
    let bits = i64::from(operands.ty.bits());
    let (rows, threads, vector) = (plan.rows, plan.threads, plan.vector);
    let over = Layout::new((rows, threads), (threads, 1))?;
    let tiled = |atom: CopyAtom, vector: i64| {
        let values = Layout::new((1, vector), (0, 1))?;
        TiledCopy::new(atom, bits, &over, &values)
    };
    let slots = plan.storage.slots();
    let inputs = operands.tensors().filter(|_| slots > 0);
    let inputs = inputs.filter(|of| !of.is_output() && !of.is_of_columns());
    let of_slots = Layout::new(
        (rows, plan.chunk(), slots.max(1)),
        (plan.chunk(), 1, rows * plan.chunk()),
    )?;
    let kept: Vec<_> = inputs
        .map(|of| (of, k.shared_tensor(operands.ty, &of_slots)))
        .collect();
    let staged = match plan.storage {
        RowStorage::Staged { .. } => {
            let span = Layout::concat(&[Layout::leaf(plan.span(), 1)?])?;
            let each = (0..plan.inputs()).map(|_| k.shared_tensor(operands.ty, &span));
            each.collect()
        }
        _ => Vec::new(),
    };
    let of_weights = Layout::new((rows, plan.chunk()), (plan.chunk(), 1))?;
    let weights = operands.tensors().filter(|of| of.is_of_columns());
    let weights: Vec<_> = weights
        .filter(|_| plan.keeps_weights)
        .map(|of| (of, k.shared_tensor(operands.ty, &of_weights)))
        .collect();
    let to_shared = match slots {
        0 if weights.is_empty() => None,
        _ => Some(tiled(asynchronous(bits * vector), vector)?),
    };
    let of_warps = match operands.function {
        _ if !plan.meets_once => [4; 2],
        RowFunction::LayerNorm => [32, 0],
        _ => [16, 4],
    };
    let of_warps = of_warps.map(|bytes| bytes * (rows * threads / WARP) as u32);
    let groups = plan.storage.groups();
    // One number of a block's warps is in a register, from which a team has both.
    let warp = plan.has_teams().then(|| k.uniform(WARP as u32));
    let group = match (groups, &warp) {
        (1, _) => Index::constant(0),
        (_, Some(warp)) => warp / (threads / WARP),
        (_, None) => k.uniform(threads as u32),
    };
    let scratch = (plan.has_scratch()).then(|| {
        of_warps.map(|bytes| match bytes {
            0 => Index::constant(0),
            _ => k.shared_bytes(bytes * groups as u32, 128) + &group * i64::from(bytes),
        })
    });
    let teams = of_teams.zip(warp).map(|(words, warp)| Teams {
        words,
        tag: k.emit(|ir| ir.reg(RegType::B32)),
        result: {
            // A group whose results lag has two such places, for its turns.
            let each = plan.results_bytes();
            let all = if plan.lag() > 0 { 2 * each } else { each };
            k.shared_bytes((all * groups) as u32, plan.result_bytes() as u32) + &group * all
        },
        warp: warp % (threads / WARP),
    });
    let block = k.block_index(0);
    let most = match plan.storage {
        RowStorage::Teams { teams, .. } => teams,
        _ => MOST,
    };
    let block = k.within(block, 0..most * plan.blocks);
    let row = RowKernel {
        plan,
        tensors,
        copy: tiled(universal(bits * vector), vector)?,
        kept,
        weights,
        to_shared,
        scratch,
        turn: Index::constant(0),
        lanes: tiled(universal(bits), 1)?,
        thread: match groups {
            1 => k.thread(),
            _ => k.thread() % threads,
        },
        at: [&block / plan.blocks, &block % plan.blocks],
        epsilon,
        columns,
        staged,
        of_group: None,
        teams,
        divided: None,
        of_warp: None,
        of_warp_in_turn: None,
    };
    match plan.storage {
        RowStorage::Shifted { rows, clusters } => row.of_shifted(&mut k, rows, clusters),
        RowStorage::Staged { rows, clusters } => row.of_staged(&mut k, rows, clusters),
        RowStorage::Registers => {
            let part = row.rows(&mut k, &Index::constant(0), true);
            row.of_registers(&mut k, &part);
        }
        RowStorage::Ahead { rows, clusters } => row.of_rows_ahead(&mut k, rows, clusters),
        RowStorage::Alternating {
            slots, clusters, ..
        }
        | RowStorage::Teams {
            slots,
            teams: clusters,
            ..
        } => row.of_rows_in_turn(&mut k, &group, [slots, clusters]),
        RowStorage::Divided {
            held,
            kept,
            clusters,
        } => row.of_rows_divided(&mut k, [held, kept, clusters]),
        // Turned rows have a kernel of their own.
        RowStorage::Passes { .. } | RowStorage::Turned { .. } => row.of_passes(&mut k),
    }
    if plan.cluster() > 1 {
        // A block that ends takes its shared memory with it, and another one may still read its totals.
        k.cluster_sync();
    }
    k.finish()
}

/// The name of a function's kernels.
pub(super) fn name(function: RowFunction) -> &'static str {
    match function {
        RowFunction::Softmax => "softmax",
        RowFunction::LogSoftmax => "log_softmax",
        RowFunction::RmsNorm => "rms_norm",
        RowFunction::LayerNorm => "layer_norm",
    }
}

/// The copy of `bits` bits.
fn universal(bits: i64) -> CopyAtom {
    let name = format!("UniversalCopy<uint{bits}_t>");
    colex_atom::copy(&name).expect("16 to 128 bits are in the table")
}

/// The layout of rows one after the other, as one mode, and of the words through which teams meet.
pub(super) fn shifted(elements: i64) -> Result<Layout, colex_layout::Error> {
    Layout::concat(&[Layout::leaf(Int::Dynamic(elements), Int::Static(1))?])
}

/// The asynchronous copy of `bits` bits to shared memory, which puts zeros in place of what lies beyond a tensor.
fn asynchronous(bits: i64) -> CopyAtom {
    let cache = if bits == 128 { "GLOBAL" } else { "ALWAYS" };
    let name = format!("SM80_CP_ASYNC_CACHE{cache}_ZFILL<uint{bits}_t>");
    colex_atom::copy(&name).expect("32 to 128 bits are in the table")
}

/// The bulk copy to shared memory, whose bytes are an operand.
fn bulk() -> CopyAtom {
    colex_atom::copy("SM90_BULK_COPY_G2S").expect("the copy is in the table")
}

/// Lets the lanes of a warp go on together behind a loop that waits. Otherwise each shuffle behind it takes the way for lanes that are apart:
/// a layer norm of 2^20 columns executed a third of its instructions for that.
fn converge(k: &mut Builder) {
    k.emit(|ir| ir.warp_sync());
}

/// A register with a number.
fn number(k: &mut Builder, value: f64) -> Fragment {
    let one = k.fragment(Ty::F32, (C::<1>, C::<0>));
    k.fill(&one, value);
    one
}

/// The maximum, or 0 where it is -inf, from which nothing may be subtracted.
pub(super) fn under(k: &mut Builder, top: &Fragment) -> Fragment {
    let is_empty = Expr::from(top).equals(f64::NEG_INFINITY);
    k.map(is_empty.select(0.0, top))
}

/// The maximum of a thread's numbers and the sum of the powers under it, or under 0 where it is -inf, from such pairs.
pub(super) fn joined_powers(k: &mut Builder, [tops, sums]: [Vec<Expr>; 2]) -> [Fragment; 2] {
    let most = tops.iter().cloned();
    let most = most.reduce(|a, b| Expr::binary(Max, a, b));
    let most = k.map(most.expect("a lane has a pair"));
    let below = under(k, &most);
    let own = tops.into_iter().zip(sums);
    let own = own.map(|(top, sum)| sum * (top - &below).exp());
    let own = own.reduce(|a, b| a + b).expect("a lane has a pair");
    [most, k.map(own)]
}

/// The same of a row, from such pairs of lanes, with a way to make one total of the numbers of all lanes that have different ones.
fn lanes_powers(
    k: &mut Builder,
    [most, own]: [Fragment; 2],
    total: impl Fn(&mut Builder, BinaryOp, &Fragment) -> Fragment,
) -> [Fragment; 2] {
    let top = total(k, Max, &most);
    let all = under(k, &top);
    let own = k.map(&own * (&most - &all).exp());
    [top, total(k, Add, &own)]
}

/// The same where no two lanes of a warp have the same sum.
fn all_lanes_powers(k: &mut Builder, own: [Fragment; 2]) -> [Fragment; 2] {
    lanes_powers(k, own, |k, op, number| k.reduce_warp(op, number))
}

/// A sum by a count. If `f32` has the quotient, it is this one, so that nothing is left of equal numbers that are less their mean: two fused
/// multiply-adds correct the product by an approximate reciprocal (Markstein, 1990). A division takes three times the instructions, and branches.
pub(super) fn quotient(k: &mut Builder, sum: impl Into<Expr>, count: impl Into<Expr>) -> Fragment {
    let [sum, count] = [sum.into(), count.into()].map(|of| k.map(of));
    let inverse = k.map(Expr::from(&count).recip());
    let near = k.map(&sum * &inverse);
    let rest = (&near * -1.0).fma(&count, &sum);
    k.map(rest.fma(&inverse, &near))
}

/// What a warp subtracts from its numbers before it knows the mean of the row, from their sum and their count: 0 if it has none.
pub(super) fn pivot(k: &mut Builder, sum: impl Into<Expr>, count: impl Into<Expr>) -> Fragment {
    quotient(k, sum, count.into().max(1.0))
}

/// The sum of the squares of the differences from a number that lies `apart` from the pivot, from the sums of the differences from the pivot
/// and of their squares, and from their count.
fn squares_about(apart: Fragment, [rest, squares, count]: [Expr; 3]) -> Expr {
    // In this order, the difference of a warp without columns counts as 0, also if its square is infinite.
    (&apart * count + rest * 2.0).fma(&apart, squares)
}

/// A sum of squares. That of equal numbers may be less than 0 by a rounding; a NaN stays.
fn not_negative(k: &mut Builder, squares: Expr) -> Fragment {
    let squares = k.map(squares);
    let is_less = Expr::from(&squares).lt(0.0);
    k.map(is_less.select(0.0, &squares))
}

/// The moments of a thread's numbers about the pivot of all of them, from moments of parts of them about their own pivots: the pivot, the
/// sums of the differences from the pivot and of their squares, and the count. The pivot of all is the mean of the pivots, weighted by the
/// counts. Those of no numbers are 0.
fn joined_moments(k: &mut Builder, all: [Vec<Expr>; 4]) -> [Fragment; 4] {
    let total = |k: &mut Builder, of: &[Expr]| {
        let all = of.iter().cloned().reduce(|a, b| a + b);
        k.map(all.expect("a lane has moments"))
    };
    moments_of(k, all, &total)
}

/// The same, with a way to add the numbers of all parts.
fn moments_of(
    k: &mut Builder,
    [pivots, rests, squares, counts]: [Vec<Expr>; 4],
    total: &dyn Fn(&mut Builder, &[Expr]) -> Fragment,
) -> [Fragment; 4] {
    let weighted = pivots.iter().cloned().zip(counts.iter().cloned());
    let weighted: Vec<Expr> = weighted.map(|(pivot, count)| pivot * count).collect();
    let [sum, count] = [&weighted, &counts].map(|of| total(k, of));
    let all = pivot(k, &sum, &count);
    let apart: Vec<Fragment> = pivots
        .into_iter()
        .map(|pivot| k.map(pivot - &all))
        .collect();
    let parts = rests.into_iter().zip(squares).zip(counts).zip(apart);
    let (rests, squares): (Vec<Expr>, Vec<Expr>) = parts
        .map(|(((rest, squares), count), apart)| {
            (
                &apart * count.clone() + rest.clone(),
                squares_about(apart, [rest, squares, count]),
            )
        })
        .unzip();
    let [rest, squares] = [rests, squares].map(|of| total(k, &of));
    [all, rest, squares, count]
}

/// What a block leaves of the moments of its numbers for the other blocks of its team: the pivot, how far the mean lies from it, and the sum of
/// the squares of the differences from the mean. The others know how many columns it has. The mean itself would be a rounded sum, which of rows
/// with a large mean and small differences is too far from it.
fn moments_to_leave(
    k: &mut Builder,
    [pivot, rest, squares, count]: [Fragment; 4],
) -> [Fragment; 3] {
    let rest_of_mean = quotient(k, &rest, Expr::from(&count).max(1.0));
    let squares = (&rest * -1.0).fma(&rest_of_mean, &squares);
    [pivot, rest_of_mean, not_negative(k, squares)]
}

/// The place of a ring with as many places behind its end: `after` lies before its end or less than a ring behind it. A remainder by a number
/// that is no power of two takes ten times the instructions.
fn wrapped(after: &Index, places: i64) -> Index {
    let before_end = after.min(&(places - 1).into());
    let from_begin = -(Index::constant(places) - after).min(&0.into());
    Index::select_less(after, &places.into(), &before_end, &from_begin)
}

/// Results with the factors and the terms of their columns.
pub(super) fn changed(y: Expr, of_columns: [Option<Expr>; 2]) -> Expr {
    match of_columns {
        [Some(weight), Some(bias)] => y.fma(weight, bias),
        [Some(weight), None] => y * weight,
        [None, Some(bias)] => y + bias,
        [None, None] => y,
    }
}

impl Part {
    /// Takes the elements of another part over.
    fn becomes(&self, k: &mut Builder, other: &Part) {
        k.emit(|ir| {
            for (to, from) in self.held.regs().iter().zip(other.held.regs()) {
                ir.mov_to(*to, *from);
            }
        });
    }

    /// The elements in f32.
    fn wide(&self) -> Expr {
        Expr::from(&self.held).to(Ty::F32)
    }
}

impl RowKernel<'_> {
    pub(super) fn tensor(&self, which: RowTensor) -> Option<&Tensor> {
        let mut all = self.tensors.iter();
        all.find(|(tensor, _)| *tensor == which).map(|(_, of)| of)
    }

    fn x(&self) -> &Tensor {
        &self.tensors[0].1
    }

    /// Lets the launch check that all tensors with rows have as many elements, so that the kernel need not, where an access is inside of one
    /// of them.
    pub(super) fn same_extents(&self, k: &mut Builder) {
        for of in [RowTensor::Residual, RowTensor::Y, RowTensor::Sum] {
            if let Some(of) = self.tensor(of) {
                k.same_extents(self.x(), of);
            }
        }
    }

    /// A thread's part of a chunk of the columns.
    fn part(&self, of: &Tensor, chunk: &Index) -> Tensor {
        let [row, rank] = &self.at;
        let columns = chunk * self.plan.blocks + rank;
        let tile = of.local_tile((self.plan.rows, self.plan.chunk()), (row, &columns));
        self.copy.at(&self.thread).partition_src(&tile) // (CPY, CPY_M, CPY_N)
    }

    fn fragment(&self, k: &mut Builder, of: &Tensor) -> Fragment {
        match self.plan.vector {
            1 => k.fragment_unpacked(of),
            _ => k.fragment_like(of),
        }
    }

    /// Loads a thread's part of a tensor.
    fn load(&self, k: &mut Builder, of: &Tensor, chunk: &Index) -> Part {
        let of = self.part(of, chunk);
        let held = self.fragment(k, &of);
        k.copy_in_bounds(&self.copy, &of, &held);
        Part {
            held,
            of,
            is_full: false,
        }
    }

    /// A thread's part of what a slot of shared memory keeps.
    fn slot(&self, kept: &Tensor, slot: &Index) -> Tensor {
        let copy = self.copy.at(&self.thread);
        copy.partition_src(&kept.at(2, slot)) // (CPY, CPY_M, CPY_N)
    }

    /// Starts the copies of a thread's part of the inputs to a slot of shared memory.
    fn fetch(&self, k: &mut Builder, chunk: &Index, slot: &Index) {
        let copy = self.to_shared.as_ref().expect("the plan has slots");
        for (which, kept) in &self.kept {
            let of = self.tensor(*which).expect("an input");
            let (of, to) = (self.part(of, chunk), self.slot(kept, slot));
            k.copy_in_bounds(copy, &of, &to);
        }
    }

    /// Starts the copies of a thread's part of the weight and the bias to shared memory, a group of their own. They have no rows, so the
    /// part of the first tile is that of every tile.
    fn fetch_weights(&self, k: &mut Builder) {
        let zero = Index::constant(0);
        let copy = self.to_shared.as_ref().expect("the plan keeps weights");
        let of_first = RowKernel {
            at: [zero.clone(), self.at[1].clone()],
            ..self.clone()
        };
        for (which, kept) in &self.weights {
            let of = of_first.part(self.tensor(*which).expect("an input"), &zero);
            let to = self.copy.at(&self.thread).partition_src(kept); // (CPY, CPY_M, CPY_N)
            k.copy_in_bounds(copy, &of, &to);
        }
        k.cp_async_commit();
    }

    /// Takes a thread's part of a tensor from a slot of shared memory.
    fn take(&self, k: &mut Builder, which: RowTensor, chunk: &Index, slot: &Index) -> Part {
        let mut all = self.kept.iter();
        let (_, kept) = (all.find(|(of, _)| *of == which)).expect("an input is kept");
        let of = self.part(self.tensor(which).expect("an input"), chunk);
        let held = self.fragment(k, &of);
        k.copy(&self.copy, &self.slot(kept, slot), &held);
        Part {
            held,
            of,
            is_full: false,
        }
    }

    /// Loads a thread's part of the rows, with the residual. `first` is the pass that stores the sum of both.
    fn rows(&self, k: &mut Builder, chunk: &Index, first: bool) -> Part {
        self.rows_by(k, chunk, first, |k, which| {
            self.load(k, self.tensor(which).expect("an input"), chunk)
        })
    }

    /// A thread's part of the rows, with the residual, by a way to load a tensor's.
    fn rows_by(
        &self,
        k: &mut Builder,
        chunk: &Index,
        first: bool,
        load: impl Fn(&mut Builder, RowTensor) -> Part,
    ) -> Part {
        let x = load(k, RowTensor::X);
        if self.tensor(RowTensor::Residual).is_some() {
            let residual = load(k, RowTensor::Residual);
            let sum = x.wide() + residual.wide();
            k.assign(&x.held, sum.to(self.plan.operands.ty));
            if let (true, Some(to)) = (first, self.tensor(RowTensor::Sum)) {
                let to = self.part(to, chunk);
                k.copy_in_bounds(&self.copy, &x.held, &to);
            }
        }
        x
    }

    /// Puts another number in place of those beyond the end of the row.
    fn outside(&self, k: &mut Builder, part: &Part, value: &Fragment, other: f64) {
        if part.is_full {
            return;
        }
        let vector = self.plan.vector;
        // A row ends with a vector, so a test for each vector suffices.
        let tests: Vec<Cond> = (0..value.layout().size() / vector)
            .map(|i| self.is_inside(k, part, i))
            .collect();
        k.mask(value, other, |_, i| tests[(i / vector) as usize]);
    }

    /// Whether a vector of a part is inside of the row.
    fn is_inside(&self, k: &mut Builder, part: &Part, vector: i64) -> Cond {
        let first = part.of.coordinates(vector * self.plan.vector);
        let column = first.last().expect("a part has columns");
        k.less(column, &self.x().extent(1))
    }

    /// A function of the elements of a part, and another number in place of those beyond the end of the row.
    fn inside(&self, k: &mut Builder, part: &Part, value: Expr, other: f64) -> Fragment {
        let value = k.map(value);
        self.outside(k, part, &value, other);
        value
    }

    /// The total of a number of each thread over the threads of its row: the first or the second one of the row.
    fn total(&self, k: &mut Builder, op: BinaryOp, own: &Fragment, which: usize) -> Fragment {
        if let Some(scratch) = &self.scratch {
            return self.total_of_warps(k, op, own, &scratch[which]);
        }
        let RowwisePlan { rows, threads, .. } = *self.plan;
        let tile = match self.staged.first() {
            Some(_) if threads == 1 => return own.clone(),
            // Whose elements they are does not matter.
            Some(span) => span.with_layout(((rows, threads), (threads, 1))),
            None => self.x().local_tile((rows, threads), (&self.at[0], 0)),
        };
        let part = self.lanes.at(&self.thread).partition_src(&tile); // (CPY, CPY_M, CPY_N)
        k.reduce_along(op, own, &part, 1)
    }

    /// The total over a block or a cluster. Each warp puts its own into shared memory, and the lanes of each warp add those of
    /// all warps. The two totals of a row have memory of their own: a warp that puts the first total of the next row there has
    /// met all others at the second total of this row, before which they read the first.
    fn total_of_warps(
        &self,
        k: &mut Builder,
        op: BinaryOp,
        own: &Fragment,
        scratch: &Index,
    ) -> Fragment {
        let all = k.reduce_warp(op, own);
        let [all] = self.exchanged(k, [&all], scratch);
        let all = self.lanes_total(k, op, all);
        let none = match op {
            Add => 0.0,
            _ => f64::NEG_INFINITY,
        };
        let join = |k: &mut Builder, [all]: [Vec<Expr>; 1]| {
            let all = all.into_iter().reduce(|a, b| Expr::binary(op, a, b));
            [k.map(all.expect("a team has blocks"))]
        };
        let lanes = |k: &mut Builder, [all]: [Fragment; 1]| [k.reduce_warp(op, &all)];
        let totals = TeamTotals {
            none: [none],
            join: &join,
            lanes: &lanes,
        };
        let [all] = self.of_team(k, [&all], &totals);
        all
    }

    /// The total of a block or a cluster, from the numbers that the lanes of a warp have of its warps.
    fn lanes_total(&self, k: &mut Builder, op: BinaryOp, all: Vec<Expr>) -> Fragment {
        let all = all.into_iter().reduce(|a, b| Expr::binary(op, a, b));
        let all = k.map(all.expect("a cluster has blocks"));
        self.over_lanes(k, op, &all)
    }

    /// The total of the numbers that the lanes of a warp have of the warps of a block, the same in all lanes. The lanes beyond the warps have
    /// the same numbers again, in turns of a power of two in most plans: then the lanes of one turn exchange theirs.
    fn over_lanes(&self, k: &mut Builder, op: BinaryOp, number: &Fragment) -> Fragment {
        let lanes = self.plan.threads / WARP * self.blocks_of_lanes();
        if lanes.count_ones() == 1 {
            let total = k.map(number);
            let distances = (0..).map(|power| 1 << power);
            for distance in distances.take_while(|distance| *distance < lanes) {
                let own = total.regs()[0];
                let other = k.emit(|ir| ir.shuffle(ShuffleMode::Bfly, own, distance));
                let other = Expr::register(other, Ty::F32);
                k.assign(&total, Expr::binary(op, Expr::from(&total), other));
            }
            return total;
        }
        let number = match op {
            Add => {
                let is_one = Expr::from(&k.lane()).lt(lanes);
                k.map(is_one.select(number, 0.0))
            }
            _ => number.clone(),
        };
        k.reduce_warp(op, &number)
    }

    /// The numbers of each lane's warp, the same in all lanes of it, in each block of the cluster: lane `i` has those of warp `i`. In a
    /// group that takes rows in turn, the lanes beyond those of the first block have the numbers of the next ones.
    ///
    /// If warps meet once for a row, rows that follow each other have memory in turn: a warp that puts its numbers there has met all
    /// others at the row before, and they had read the numbers of the row before that one by then.
    fn exchanged<const N: usize>(
        &self,
        k: &mut Builder,
        own: [&Fragment; N],
        scratch: &Index,
    ) -> [Vec<Expr>; N] {
        let take = self.put_of_warp(k, own, scratch);
        self.meet(k);
        self.taken_of_warps(k, &take)
    }

    /// Puts the numbers of a warp into shared memory. Returns where each lane takes the numbers of its warp, once all threads that share the
    /// row have met.
    fn put_of_warp<const N: usize>(
        &self,
        k: &mut Builder,
        own: [&Fragment; N],
        scratch: &Index,
    ) -> Index {
        let is_rms = self.plan.operands.function == RowFunction::RmsNorm;
        if is_rms && !self.plan.meets_once {
            // No other total of the row comes between this one and that of the row before.
            self.meet(k);
        }
        let (put, take) = self.places_of_warps(k, scratch, 4 * N as i64);
        let put = k.address(&put, false);
        let lane = k.lane();
        let is_first = k.equal(&lane, &0.into());
        let own = own.map(|number| number.regs()[0]);
        k.where_(is_first, |ir| {
            ir.store_vector(Access::new(Space::Shared, Type::F32), put, &own);
        });
        take
    }

    /// Where the warp puts `size` bytes of numbers, and where each lane takes those of its warp.
    fn places_of_warps(&self, k: &mut Builder, scratch: &Index, size: i64) -> (Index, Index) {
        let RowwisePlan { rows, threads, .. } = *self.plan;
        let warps = threads / WARP;
        let (warp, lane) = (&self.thread / WARP, k.lane());
        let scratch = if self.plan.meets_once {
            scratch + &self.turn * (size.max(8) * rows * warps)
        } else {
            scratch.clone()
        };
        let of_row = match rows {
            1 => &lane % warps,
            _ => &warp / warps * warps + &lane % warps,
        };
        (&scratch + warp * size, scratch + of_row * size)
    }

    /// Takes the numbers of the warps that each lane has.
    fn taken_of_warps<const N: usize>(&self, k: &mut Builder, take: &Index) -> [Vec<Expr>; N] {
        let lane = k.lane();
        let warps = self.plan.threads / WARP;
        let load = |k: &mut Builder, space: Space, at: Address| {
            let numbers = k.emit(|ir| {
                let d = [(); N].map(|()| ir.reg(RegType::F32));
                ir.load_to(Access::new(space, Type::F32), &d, at);
                d
            });
            numbers.map(|number| Expr::register(number, Ty::F32))
        };
        let mut all = [(); N].map(|()| Vec::new());
        let mut add = |numbers: [Expr; N]| {
            for (all, number) in all.iter_mut().zip(numbers) {
                all.push(number);
            }
        };
        if self.plan.cluster() == 1 {
            let at = k.address(take, false);
            add(load(k, Space::Shared, at));
            return all;
        }
        let at = k.value(take);
        let beside = self.blocks_of_lanes();
        for first in (0..self.plan.blocks).step_by(beside as usize) {
            let rank = (&lane / warps) % beside + first;
            let rank = k.operand(&rank);
            let at = k.emit(|ir| ir.mapa(at, rank));
            add(load(k, Space::Cluster, at.into()));
        }
        all
    }

    /// The blocks whose numbers the lanes of a warp have at once: each lane of a group has fewer numbers so, and reads less from the
    /// shared memory of other blocks.
    fn blocks_of_lanes(&self) -> i64 {
        let warps = self.plan.threads / WARP;
        match self.of_group {
            Some(_) => (WARP / warps).min(self.plan.cluster()),
            None => 1,
        }
    }

    /// The maximum of a row, or 0 where it is -inf, and the sum of the powers under it, from those of each warp: its maximum, and the
    /// sum under that. The warps meet once.
    fn powers_of_warps(
        &self,
        k: &mut Builder,
        own: [&Fragment; 2],
        scratch: &Index,
    ) -> [Fragment; 2] {
        let all = self.exchanged(k, own, scratch);
        let [top, sum] = self.powers_of_lanes(k, all);
        let powers = TeamTotals {
            none: [f64::NEG_INFINITY, 0.0],
            join: &joined_powers,
            lanes: &all_lanes_powers,
        };
        let [top, sum] = self.of_team(k, [&top, &sum], &powers);
        [under(k, &top), sum]
    }

    /// The powers of a block or a cluster, from those that the lanes of a warp have of its warps.
    fn powers_of_lanes(&self, k: &mut Builder, all: [Vec<Expr>; 2]) -> [Fragment; 2] {
        let own = joined_powers(k, all);
        lanes_powers(k, own, |k, op, number| self.over_lanes(k, op, number))
    }

    /// The totals of a row, from those of the block: of all blocks of the team, if there is one. Each total has the number that changes
    /// nothing. `join` makes one of several that a thread has, and `lanes` of those that the lanes of a warp have, in a fixed order.
    ///
    /// The first warp of a group leaves the totals of its block in global memory: each is a word of 64 bits, with the tag of the row in its
    /// upper half. Then as many warps as there are 32 blocks in the team, or all of them, look at the words: each lane at those of its own
    /// blocks until they have that tag. All looks are under way at once so. Each of these warps tells all threads what it has found. A total comes with its tag, in one access to one word, so that nothing else has to be ordered: neither a release nor a counter
    /// is needed. Tags go on from row to row and from launch to launch ([`count`](RowKernel::count)), so that no word has the tag of a row
    /// before its block has left the totals of that row.
    ///
    /// The rows of a group have memory for the totals in turn: a block leaves those of a row where those of the last row but one were. It
    /// has seen the words of the last row in all blocks by then. A block stores its word of a row only behind the barrier of its group at which
    /// the loops have ended that take the words of the row before: they end by what their loads return, and no store is performed before a
    /// loop in front of it has ended.
    /// So all blocks have taken the words of the last row but one, and none of them is overwritten before.
    fn of_team<const N: usize>(
        &self,
        k: &mut Builder,
        own: [&Fragment; N],
        totals: &TeamTotals<'_, N>,
    ) -> [Fragment; N] {
        if self.teams.is_none() {
            return own.map(Fragment::clone);
        }
        self.by_lookers(k, |k| {
            self.leave_by_first(k, own);
            self.look(k, totals);
        });
        self.meet_in_team(k);
        self.found(k, totals.join)
    }

    /// Leaves the totals of the block, by the first thread of the group.
    fn leave_by_first<const N: usize>(&self, k: &mut Builder, own: [&Fragment; N]) {
        let lane = k.lane();
        let is_one = k.equal(&lane, &0.into());
        let is_first = k.equal(&self.teams_of().warp, &0.into());
        let puts = k.both(is_one, is_first);
        self.leave_words(k, puts, own);
    }

    /// Waits for the threads of the group, whose slot has received its next row before.
    fn meet_in_team(&self, k: &mut Builder) {
        let row = self.of_group.as_ref().expect("groups of teams have rows");
        k.sync_named(&(&row.group + 1), self.plan.threads as u32);
    }

    /// The memory through which the team meets.
    fn teams_of(&self) -> &Teams {
        self.teams.as_ref().expect("blocks are in teams")
    }

    /// The words of a block for the row.
    fn words_of(&self, block: &Index) -> Elements {
        let teams = self.teams_of();
        let row = self.of_group.as_ref().expect("groups of teams have rows");
        let place =
            (&row.of_teams * self.plan.team_turns() + &row.words) * self.plan.blocks + block;
        let totals = self.plan.totals_words();
        let words = teams.words.elements(place * totals + TEAM_HEADER);
        words.outside(Outside::Stated)
    }

    /// Leaves the totals of the block for its team, by one thread.
    fn leave_words<const N: usize>(&self, k: &mut Builder, puts: Cond, own: [&Fragment; N]) {
        let tag = self.teams_of().tag;
        let put = k.addresses(&self.words_of(&self.at[1])).regs()[0];
        let numbers = own.map(|total| total.regs()[0]);
        k.where_(puts, |ir| {
            let words = numbers.map(|number| {
                let number = ir.mov(Type::B32, number);
                ir.pack(RegType::B64, &[number, tag])
            });
            for (at, pair) in (0..).step_by(PAIR as usize).zip(words.chunks(2)) {
                ir.store_vector(team_word(), Address::from(put).at(at), pair);
            }
        });
    }

    /// Waits, by the warps of a group that look, for the words of all blocks, and leaves what each of these warps has found in shared memory.
    fn look<const N: usize>(&self, k: &mut Builder, totals: &TeamTotals<'_, N>) {
        let asked = self.ask(k);
        let numbers = self.words_found(k, &asked);
        let blocks = self.plan.blocks;
        let step = WARP * self.plan.team_warps();
        let mut all = [(); N].map(|()| Vec::new());
        let of_lane = (0..).step_by(step as usize).zip(&asked.of_lane);
        for ((first, block), numbers) in of_lane.zip(numbers) {
            let exists = k.less(block, &blocks.into());
            for ((all, number), none) in all.iter_mut().zip(&numbers).zip(totals.none) {
                if first + step > blocks {
                    k.mask(number, none, |_, _| exists);
                }
                all.push(Expr::from(number));
            }
        }
        let own = (totals.join)(k, all);
        let all = (totals.lanes)(k, own);
        self.put_found(k, all.each_ref());
    }

    /// The words at which the lanes of looking warps look for the row. Behind the blocks of the lanes, a layer norm looks
    /// at the pivot of the first block.
    fn ask(&self, k: &mut Builder) -> Asked {
        let RowwisePlan {
            blocks, operands, ..
        } = *self.plan;
        let numbers = match operands.function {
            RowFunction::Softmax | RowFunction::LogSoftmax => 2,
            RowFunction::RmsNorm => 1,
            RowFunction::LayerNorm => 3,
        };
        let lane = k.lane();
        let step = WARP * self.plan.team_warps();
        let looker = &self.teams_of().warp - self.plan.first_looker();
        let of_lane: Vec<Index> = (0..blocks)
            .step_by(step as usize)
            .map(|first| &looker * WARP + &lane + first)
            .collect();
        let (first, last) = (Index::constant(0), Index::constant(blocks - 1));
        let with_first = operands.function == RowFunction::LayerNorm;
        // Warps that do not look have blocks of no team.
        let all = of_lane.iter().map(|block| {
            let block = block.min(&last);
            Index::select_less(&block, &first, &first, &block)
        });
        let all = all.chain(with_first.then(|| first.clone()));
        let places: Vec<Reg> = all
            .map(|block| k.addresses(&self.words_of(&block)).regs()[0])
            .collect();
        let words = k.emit(|ir| {
            let counts = of_lane.iter().map(|_| numbers);
            let counts = counts.chain(with_first.then_some(1));
            let words = counts.map(|count| {
                let words = (0..count).map(|_| ir.reg(RegType::B64));
                words.collect()
            });
            words.collect()
        });
        Asked {
            of_lane,
            places,
            words,
        }
    }

    /// The numbers of the words that were asked for, in the order of their places, once all of them have come: those of a block beyond the
    /// last one are the last one's.
    fn words_found(&self, k: &mut Builder, asked: &Asked) -> Vec<Vec<Fragment>> {
        let tag = self.teams_of().tag;
        let found = k.emit(|ir| {
            let found: Vec<Vec<Reg>> = (asked.words.iter())
                .map(|words| words.iter().map(|_| ir.reg(RegType::B32)).collect())
                .collect();
            ir.loop_(|ir| {
                asked.load(ir);
                let mut others = ir.mov(Type::B32, 0);
                for (word, number) in asked.words.iter().flatten().zip(found.iter().flatten()) {
                    let of_word = ir.reg(RegType::B32);
                    ir.push(Alu::Unpack {
                        parts: vec![*number, of_word],
                        a: *word,
                    });
                    let other = ir.xor(Type::B32, of_word, tag);
                    others = ir.or(Type::B32, others, other);
                }
                let is_there = ir.setp(Compare::Eq, Type::U32, others, 0);
                ir.break_if(is_there);
            });
            found
        });
        converge(k);
        let found = found.into_iter().map(|numbers| {
            let numbers = numbers.into_iter().map(|number| {
                let number = k.emit(|ir| ir.mov(Type::F32, number));
                k.map(Expr::register(number, Ty::F32))
            });
            numbers.collect()
        });
        found.collect()
    }

    /// Leaves what a warp has found in the shared memory of its group.
    fn put_found<const N: usize>(&self, k: &mut Builder, all: [&Fragment; N]) {
        let teams = self.teams_of();
        let lane = k.lane();
        let is_one = k.equal(&lane, &0.into());
        let looker = &teams.warp - self.plan.first_looker();
        let to = &teams.result + looker * self.plan.result_bytes();
        let to = k.address(&to, false);
        let all = all.map(|total| total.regs()[0]);
        let line = Access::new(Space::Shared, Type::F32);
        k.where_(is_one, |ir| ir.store_vector(line, to, &all));
    }

    /// The totals of a row, from what the warps that looked have found.
    fn found<const N: usize>(
        &self,
        k: &mut Builder,
        join: impl Fn(&mut Builder, [Vec<Expr>; N]) -> [Fragment; N],
    ) -> [Fragment; N] {
        let teams = self.teams_of();
        let line = Access::new(Space::Shared, Type::F32);
        let warps = self.plan.team_warps();
        let mut all = [(); N].map(|()| Vec::new());
        for warp in 0..warps {
            let at = k.address(&(&teams.result + warp * self.plan.result_bytes()), false);
            let numbers = k.emit(|ir| {
                let d = [(); N].map(|()| ir.reg(RegType::F32));
                ir.load_to(line, &d, at);
                d
            });
            for (all, number) in all.iter_mut().zip(numbers) {
                all.push(Expr::register(number, Ty::F32));
            }
        }
        match warps {
            1 => all.map(|mut one| k.map(one.remove(0))),
            _ => join(k, all),
        }
    }

    /// Puts what the warp has of the totals of a row whose results come later into shared memory.
    fn put_shares(&self, k: &mut Builder, own: &WarpTotals) {
        let scratch = self.once().expect("warps meet once in a team");
        match own {
            WarpTotals::Powers(own) => self.put_of_warp(k, own.each_ref(), scratch),
            WarpTotals::Squares(own) => self.put_of_warp(k, own.each_ref(), scratch),
            WarpTotals::Moments(own) => self.put_of_warp(k, own.each_ref(), scratch),
        };
    }

    /// Leaves the totals of the block of such a row, by the first warp of the group, once the threads of the group have met.
    fn leave_totals(&self, k: &mut Builder) {
        match self.plan.operands.function {
            RowFunction::Softmax | RowFunction::LogSoftmax => {
                self.leave(k, |k, all| self.powers_of_lanes(k, all));
            }
            RowFunction::RmsNorm => self.leave(k, |k, [all]| [self.lanes_total(k, Add, all)]),
            RowFunction::LayerNorm => {
                let of_block = |k: &mut Builder, all: [Vec<Expr>; 4]| {
                    let all = self.moments_of_lanes(k, all);
                    moments_to_leave(k, all)
                };
                self.leave(k, of_block);
            }
        }
    }

    /// The same with a way to make the numbers that a block leaves from those of its warps.
    fn leave<const N: usize, const LEFT: usize>(
        &self,
        k: &mut Builder,
        of_block: impl Fn(&mut Builder, [Vec<Expr>; N]) -> [Fragment; LEFT],
    ) {
        let scratch = self.once().expect("warps meet once in a team");
        let (_, take) = self.places_of_warps(k, scratch, 4 * N as i64);
        let all = self.taken_of_warps(k, &take);
        let own = of_block(k, all);
        let lane = k.lane();
        let is_one = k.equal(&lane, &0.into());
        self.leave_words(k, is_one, own.each_ref());
    }

    /// The totals of a row whose blocks have left theirs before. The threads of the group meet, behind which the slot of the row receives its
    /// next one: they have the row in registers. They execute `then` before they go on.
    fn totals_of_team(&self, k: &mut Builder, then: impl Fn(&mut Builder)) -> RowTotals {
        match self.plan.operands.function {
            RowFunction::Softmax | RowFunction::LogSoftmax => {
                let powers = TeamTotals {
                    none: [f64::NEG_INFINITY, 0.0],
                    join: &joined_powers,
                    lanes: &all_lanes_powers,
                };
                let [top, sum] = self.seen(k, &powers, then);
                RowTotals::Powers(Box::new([under(k, &top), sum]))
            }
            RowFunction::RmsNorm => {
                let join = |k: &mut Builder, [all]: [Vec<Expr>; 1]| {
                    let all = all.into_iter().reduce(|a, b| a + b);
                    [k.map(all.expect("a team has blocks"))]
                };
                let lanes = |k: &mut Builder, [all]: [Fragment; 1]| [k.reduce_warp(Add, &all)];
                let sums = TeamTotals {
                    none: [0.0],
                    join: &join,
                    lanes: &lanes,
                };
                let [squares] = self.seen(k, &sums, then);
                RowTotals::Squares(Box::new(squares))
            }
            RowFunction::LayerNorm => {
                self.by_lookers(k, |k| self.look_at_moments(k));
                self.meet(k);
                then(k);
                let all = self.moments_found(k);
                RowTotals::Moments(Box::new(self.moments_of_row(k, all)))
            }
        }
    }

    /// The same for numbers of blocks, as [`of_team`](RowKernel::of_team) has them.
    fn seen<const N: usize>(
        &self,
        k: &mut Builder,
        totals: &TeamTotals<'_, N>,
        then: impl Fn(&mut Builder),
    ) -> [Fragment; N] {
        self.by_lookers(k, |k| self.look(k, totals));
        self.meet(k);
        then(k);
        self.found(k, totals.join)
    }

    /// Lets the warps of a group that look at the words of the other blocks execute a body.
    fn by_lookers(&self, k: &mut Builder, body: impl FnOnce(&mut Builder)) {
        let looks = self.looks(k);
        k.if_(looks, body);
    }

    /// Whether the thread's warp looks: one of the last of a group whose results lag, since the first one leaves the totals of its block
    /// meanwhile.
    fn looks(&self, k: &mut Builder) -> Cond {
        let first = self.plan.first_looker();
        let (warp, behind) = (&self.teams_of().warp, first + self.plan.team_warps());
        let is_behind = k.less(&(first - 1).into(), warp);
        let is_before = k.less(warp, &behind.into());
        k.both(is_behind, is_before)
    }

    /// Looks at the moments of all blocks of the team, and leaves what each looking warp has found: the pivot of the first block, and the sums of
    /// the differences from it and of their squares. One pivot for all makes these sums of plain additions.
    fn look_at_moments(&self, k: &mut Builder) {
        let asked = self.ask(k);
        let mut numbers = self.words_found(k, &asked);
        let first = numbers.pop().expect("the first block's pivot is the last");
        let first = &first[0];
        let columns = k.within(self.x().extent(1), 1..MOST + 1);
        let (mut rests, mut squares) = (Vec::new(), Vec::new());
        for (block, numbers) in asked.of_lane.iter().zip(&numbers) {
            let [pivot, rest_of_mean, own] = [0, 1, 2].map(|i| &numbers[i]);
            // Blocks that do not exist, and such behind the end of a row, have no columns.
            let begin = block * self.plan.chunk();
            let left = (&columns - &begin).min(&self.plan.chunk().into());
            let count = Index::select_less(&begin, &columns, &left, &0.into());
            let count = k.within(count, 0..self.plan.chunk() + 1);
            let exists = k.less(&0.into(), &count);
            let count = Expr::from(count).to(Ty::F32);
            let apart = k.map(Expr::from(pivot) - first + rest_of_mean);
            let rest = k.map(&apart * count);
            let own = k.map(Expr::from(&rest).fma(&apart, own));
            for number in [&rest, &own] {
                k.mask(number, 0.0, |_, _| exists);
            }
            rests.push(Expr::from(&rest));
            squares.push(Expr::from(&own));
        }
        let [rest, squares] = [rests, squares].map(|all| {
            let own = all.into_iter().reduce(|a, b| a + b);
            let own = k.map(own.expect("a lane looks at a block"));
            k.reduce_warp(Add, &own)
        });
        self.put_found(k, [first, &rest, &squares, &squares]);
    }

    /// The moments of a row, from what the warps that looked have found: the pivot, which is that of the team's first block, and the sums of
    /// the differences from it and of their squares.
    fn moments_found(&self, k: &mut Builder) -> [Fragment; 3] {
        let join = |k: &mut Builder, [pivots, rests, squares, _]: [Vec<Expr>; 4]| {
            let pivot = k.map(pivots.into_iter().next().expect("a warp looks"));
            let [rest, squares] = [rests, squares].map(|all| {
                let all = all.into_iter().reduce(|a, b| a + b);
                k.map(all.expect("a warp looks"))
            });
            [pivot, rest, squares.clone(), squares]
        };
        let [pivot, rest, squares, _] = self.found(k, join);
        [pivot, rest, squares]
    }

    /// The moments of a warp's numbers, from the sum of each thread's: their differences from the pivot are not in yet.
    fn pivot_of_warp(&self, k: &mut Builder, own: &Fragment) -> WarpMoments {
        let sum = k.reduce_warp(Add, own);
        let count = self.columns_of_warp(k);
        let pivot = pivot(k, &sum, &count);
        WarpMoments { sum, count, pivot }
    }

    /// The mean of a row, and the sum of the squares of the differences from it, from those of each warp. `own` are the sums of a thread's
    /// differences from the pivot of its warp, and of their squares. The warps meet once (Chan, Golub and LeVeque, 1979).
    ///
    /// The sums are added as those of warps that meet twice are, so that the mean has the same bits. Each lane finds the pivot of a warp
    /// again, by the instructions of that warp, and so with its bits. A pivot is a rounded sum, so the differences from it have a sum that
    /// is not 0, without which rows with a large mean would have another variance.
    fn moments_of_warps(
        &self,
        k: &mut Builder,
        warp: &WarpMoments,
        own: [&Fragment; 2],
        scratch: &Index,
    ) -> [Fragment; 2] {
        let [sums, rests, squares, counts] = self.moments_exchanged(k, warp, own, scratch);
        let total = |k: &mut Builder, of_blocks: Vec<Expr>| {
            let own = of_blocks.into_iter().reduce(|a, b| a + b);
            let own = k.map(own.expect("a row has blocks"));
            self.over_lanes(k, Add, &own)
        };
        let sum = total(k, sums.clone());
        let mean = self.mean_of(k, &sum);
        let of_blocks = sums.into_iter().zip(rests).zip(squares).zip(counts);
        let of_blocks = of_blocks.map(|(((sum, rest), squares), count)| {
            let own = pivot(k, sum, count.clone());
            let apart = k.map(&own - &mean);
            squares_about(apart, [rest, squares, count])
        });
        let of_blocks = of_blocks.collect();
        let squares = total(k, of_blocks);
        [mean, not_negative(k, squares.into())]
    }

    /// The moments of the warps of a row, in the lanes of each warp: the sum, the sums of the differences from the warp's pivot and of their
    /// squares, and the count.
    fn moments_exchanged(
        &self,
        k: &mut Builder,
        warp: &WarpMoments,
        own: [&Fragment; 2],
        scratch: &Index,
    ) -> [Vec<Expr>; 4] {
        let [rest, squares] = own.map(|own| k.reduce_warp(Add, own));
        let numbers = [&warp.sum, &rest, &squares, &warp.count];
        self.exchanged(k, numbers, scratch)
    }

    /// The pivot of a row of a group that takes rows in turn, the sum of the squares of the differences from the mean, and the mean of the
    /// differences from the pivot, with which the results are as exact as those of warps that meet twice. A lane makes moments of those of the
    /// warps that it has, and a warp those of all, about their own pivots: in a team, none knows the numbers of another block's warps.
    fn moments_in_turn(
        &self,
        k: &mut Builder,
        own: [&Fragment; 4],
        scratch: &Index,
    ) -> [Fragment; 3] {
        let all = self.exchanged(k, own, scratch);
        let own = self.moments_of_lanes(k, all);
        if self.teams.is_none() {
            let [pivot, rest, squares, _] = own;
            return self.moments_of_row(k, [pivot, rest, squares]);
        }
        let own = moments_to_leave(k, own);
        self.by_lookers(k, |k| {
            self.leave_by_first(k, own.each_ref());
            self.look_at_moments(k);
        });
        self.meet_in_team(k);
        let all = self.moments_found(k);
        self.moments_of_row(k, all)
    }

    /// The moments of a block or a cluster, from those that the lanes of a warp have of its warps.
    fn moments_of_lanes(&self, k: &mut Builder, all: [Vec<Expr>; 4]) -> [Fragment; 4] {
        let own = joined_moments(k, all);
        let own = own.map(|number| vec![Expr::from(&number)]);
        moments_of(k, own, &|k, of| {
            let own = k.map(of[0].clone());
            self.over_lanes(k, Add, &own)
        })
    }

    /// The pivot of a row, the sum of the squares of the differences from the mean, and the mean of the differences from the pivot, from the
    /// moments of the row.
    fn moments_of_row(
        &self,
        k: &mut Builder,
        [pivot, rest, squares]: [Fragment; 3],
    ) -> [Fragment; 3] {
        let rest_of_mean = self.mean_of(k, &rest);
        // The mean lies that far from the pivot.
        let squares = (&rest * -1.0).fma(&rest_of_mean, &squares);
        [pivot, not_negative(k, squares), rest_of_mean]
    }

    /// What a layer norm knows of the columns of the thread's warp before its first row.
    ///
    /// The pivot of a warp is the mean of the elements of its first access, so that the differences do not wait for a sum of all elements. The
    /// first access has at least one element of 16 of a warp. So the sum of the squares of the differences from the pivot is at most 16 times
    /// that of the differences from the mean, for any elements: the worst have a number in the first access, and zeros elsewhere.
    fn columns_in_turn(&self, k: &mut Builder) -> InTurnColumns {
        let count = self.columns_of_warp(k);
        let span = WARP * self.plan.vector;
        let warp = &self.thread / WARP % (self.plan.threads / WARP);
        let begin = &self.at[1] * self.plan.chunk() + warp * span;
        let columns = k.within(self.x().extent(1), 1..MOST + 1);
        let left = (&columns - &begin).min(&span.into());
        let first = Index::select_less(&begin, &columns, &left, &1.into());
        let first = k.within(first, 1..span + 1);
        let of_first = k.map(Expr::from(first).to(Ty::F32));
        InTurnColumns { count, of_first }
    }

    /// The columns of a row that the thread's warp has.
    fn columns_of_warp(&self, k: &mut Builder) -> Fragment {
        if let Some(count) = &self.of_warp {
            return count.clone();
        }
        let RowwisePlan {
            threads,
            vector,
            accesses,
            blocks,
            ..
        } = *self.plan;
        let columns = k.within(self.x().extent(1), 1..MOST + 1);
        let (access, span, chunk) = (threads * vector, WARP * vector, self.plan.chunk());
        // What lies behind `first` of `all`, at most `most`.
        let behind = |k: &mut Builder, all: &Index, first: &Index, most: i64| {
            let left = (all - first).min(&most.into());
            let part = Index::select_less(first, all, &left, &0.into());
            k.within(part, 0..most + 1)
        };
        let [full, last] = match blocks {
            1 => [&columns / access, &columns % access],
            _ => {
                let of_all = chunk * blocks;
                let first = &self.at[1] * chunk;
                let part = behind(k, &(&columns % of_all), &first, chunk);
                let full = &columns / of_all * accesses + &part / access;
                [full, part % access]
            }
        };
        let warp = &self.thread / WARP % (threads / WARP);
        let last = behind(k, &last, &(warp * span), span);
        let count = number(k, 0.0);
        k.assign(&count, Expr::from(full * span + last).to(Ty::F32));
        count
    }

    /// Where warps that meet once exchange what they have of a row.
    fn once(&self) -> Option<&Index> {
        let [first, _] = self.scratch.as_ref()?;
        self.plan.meets_once.then_some(first)
    }

    /// Waits for all threads that share a row.
    fn meet(&self, k: &mut Builder) {
        match (&self.of_group, self.plan.cluster()) {
            (Some(row), _) => self.meet_in_group(k, row),
            (None, 1) => k.sync(),
            (None, _) => k.cluster_sync(),
        }
    }

    /// Waits for the threads of a group, in all blocks of the cluster, and for no other group. The threads of this block have taken their
    /// parts of the row into registers by then, so that the slot receives its next row, if the row is not read again from there.
    fn meet_in_group(&self, k: &mut Builder, row: &GroupRow) {
        let RowwisePlan { threads, .. } = *self.plan;
        let blocks = self.plan.cluster();
        k.sync_named(&(&row.group + 1), threads as u32);
        let met = row.met.as_ref();
        let met = met.map(|met| met.at(&row.group * 2 + &self.turn));
        if let Some(met) = &met {
            let is_one = k.less(&self.thread, &blocks.into());
            k.release_at(met, &self.thread, is_one);
        }
        if let Some(next) = &row.next {
            // A thread of another warp than those that arrive, where there is one.
            let is_one = k.equal(&self.thread, &(threads - WARP).into());
            let exists = k.less(next, &row.ring.rows);
            let fills = k.both(is_one, exists);
            k.if_(fills, |k| self.fill(k, &row.ring, [next, &row.slot]));
        }
        let Some(met) = met else {
            return;
        };
        let (a, parity) = (k.address(&met, false), k.operand(&row.parity));
        k.emit(|ir| {
            ir.loop_(|ir| {
                let p = ir.reg(RegType::Pred);
                ir.push(Synchronise::MbarrierTry {
                    test: false,
                    p,
                    a,
                    parity,
                    scope: Scope::Cluster,
                });
                ir.break_if(p);
            });
        });
        converge(k);
    }

    /// Starts the bulk copy of the block's part of a row to a slot, by one thread. A part beyond the end of the row has no bytes.
    fn fill(&self, k: &mut Builder, ring: &SlotRing, [row, slot]: [&Index; 2]) {
        let (_, kept) = &self.kept[0];
        let full = k.address(&ring.full.at(slot), false);
        let bytes = k.operand(&ring.bytes);
        k.emit(|ir| ir.mbarrier_arrive_expect(full, bytes));
        let is_part = k.less(&0.into(), &ring.bytes);
        k.if_(is_part, |k| {
            let from = k.addresses(&self.x().elements((row, &ring.first)));
            let to = k.addresses(&kept.at(2, slot).elements((0, 0)));
            let [src, dst] = [from, to].map(|at| End::Memory(at.regs()[0].into()));
            let args = CopyArgs {
                src,
                dst,
                barrier: Some(full),
                size: Some(bytes),
                ..CopyArgs::default()
            };
            let atom = bulk();
            k.emit(|ir| ir.copy_atom(&atom, args));
        });
    }

    /// Puts zeros into the places of all slots that lie beyond the end of a row: no copy reaches them. The first group does it.
    fn clear(&self, k: &mut Builder, group: &Index, slots: i64) {
        let RowwisePlan {
            threads,
            vector,
            accesses,
            ..
        } = *self.plan;
        let (_, kept) = &self.kept[0];
        let columns = self.x().extent(1);
        let first = &self.at[1] * self.plan.chunk();
        let is_short = k.less(&columns, &(&first + self.plan.chunk()));
        let is_first = k.equal(group, &0.into());
        let is_short = k.both(is_short, is_first);
        k.if_(is_short, |k| {
            k.for_(0, slots, 1, |k, slot| {
                let slot = kept.at(2, slot);
                for access in 0..accesses {
                    let place = (&self.thread + access * threads) * vector;
                    let is_inside = k.less(&(&first + &place), &columns);
                    let to = k.addresses(&slot.elements((0, &place))).regs()[0];
                    k.where_(Builder::not(is_inside), |ir| {
                        let zero = ir.reg(RegType::B32);
                        ir.mov_to(zero, 0);
                        ir.store_vector(Access::new(Space::Shared, Type::U32), to, &[zero; 4]);
                    });
                }
            });
        });
    }

    /// The number of columns, in f32.
    fn number_of_columns(&self) -> Expr {
        let columns = self.columns.clone();
        let columns = columns.unwrap_or_else(|| self.x().extent(1));
        Expr::from(columns).to(Ty::F32)
    }

    /// The mean of a total over the columns: that of equal numbers is one of them, if f32 has the sum of any number of them.
    fn mean_of(&self, k: &mut Builder, total: &Fragment) -> Fragment {
        quotient(k, total, self.number_of_columns())
    }

    /// The reciprocal of the root of a mean of squares.
    fn scale(&self, k: &mut Builder, squares: &Fragment) -> Fragment {
        let epsilon = self.epsilon.clone().unwrap_or_else(|| Expr::from(0.0));
        let mean = k.map(squares * self.number_of_columns().recip());
        k.map((mean + epsilon).rsqrt())
    }

    /// The results of a part whose elements less the maximum or the mean are `x`, or of whose powers are, which are stored.
    fn store(&self, k: &mut Builder, part: &Part, totals: &Totals, chunk: &Index) {
        let x = part.wide();
        let y = match (totals, self.plan.operands.function) {
            (Totals::Powers { top, sum }, RowFunction::LogSoftmax) => {
                let log = k.map(Expr::from(sum).log());
                x - top - &log
            }
            (Totals::Powers { top, sum }, _) => {
                let inverse = k.map(Expr::from(sum).recip());
                (x - top).exp() * &inverse
            }
            (Totals::Moments { mean, scale }, _) => match mean {
                Some(mean) => (x - mean) * scale,
                None => x * scale,
            },
        };
        self.put(k, part, y, chunk);
    }

    /// Stores results of a part, which the factors and terms of the columns change first.
    fn put(&self, k: &mut Builder, part: &Part, y: Expr, chunk: &Index) {
        if !self.weights.is_empty() {
            return self.put_by_kept(k, part, y);
        }
        let weight = self.tensor(RowTensor::Weight);
        let weight = weight.map(|of| self.load(k, of, chunk).wide());
        let bias = self.tensor(RowTensor::Bias);
        let bias = bias.map(|of| self.load(k, of, chunk).wide());
        let y = changed(y, [weight, bias]);
        k.assign(&part.held, y.to(self.plan.operands.ty));
        let to = self.tensor(RowTensor::Y).expect("there is an output");
        let to = self.part(to, chunk);
        self.copy_part(k, &self.copy, (&part.held, &to), part.is_full);
    }

    /// Stores results of a part as [`put`](RowKernel::put) does, with the weight and the bias that shared memory keeps. No barrier is
    /// needed: a thread reads what it has copied there itself, and has waited for. Consecutive threads read consecutive vectors, so that no
    /// two of them wait for the same bank. An access comes after the other, so that registers have the factors and terms of only one.
    fn put_by_kept(&self, k: &mut Builder, part: &Part, y: Expr) {
        let y = k.map(y); // (CPY, CPY_M, CPY_N)
        // Behind the copies of the weights are those of the next tiles.
        k.cp_async_wait(self.plan.storage.slots() as u32);
        let kept = [RowTensor::Weight, RowTensor::Bias].map(|which| {
            let mut all = self.weights.iter();
            let (_, kept) = all.find(|(of, _)| *of == which)?;
            Some(self.copy.at(&self.thread).partition_src(kept)) // (CPY, CPY_M, CPY_N)
        });
        let to = self.tensor(RowTensor::Y).expect("there is an output");
        let to = self.part(to, &Index::constant(0));
        for i in 0..self.plan.accesses {
            let of_columns = kept.each_ref().map(|kept| {
                let kept = kept.as_ref()?.at(2, i);
                let held = self.fragment(k, &kept);
                k.copy(&self.copy, &kept, &held);
                Some(Expr::from(&held).to(Ty::F32))
            });
            let piece = part.held.slice((.., .., i)); // (CPY, CPY_M)
            let y = changed(Expr::from(&y.slice((.., .., i))), of_columns);
            k.assign(&piece, y.to(self.plan.operands.ty));
            k.copy_in_bounds(&self.copy, &piece, &to.at(2, i));
        }
    }

    /// Loads a tile of rows. Behind the loads of the first one, the copies of the weights begin.
    fn rows_with_weights(&self, k: &mut Builder, is_first: Cond) -> Part {
        let zero = Index::constant(0);
        let last = match self.tensor(RowTensor::Residual) {
            Some(_) => RowTensor::Residual,
            None => RowTensor::X,
        };
        self.rows_by(k, &zero, true, |k, which| {
            let part = self.load(k, self.tensor(which).expect("an input"), &zero);
            if which == last && !self.weights.is_empty() {
                k.if_(is_first, |k| self.fetch_weights(k));
            }
            part
        })
    }

    /// Rows that registers hold: each element is read once.
    fn of_registers(&self, k: &mut Builder, part: &Part) {
        let x = k.map(part.wide());
        let y = self.results(k, x, &|k, x, other| self.outside(k, part, x, other));
        self.put(k, part, y, &Index::constant(0));
    }

    /// Rows that registers hold, an access at a time, so that only the numbers of one access are in `f32` at once. Numbers of 16 bits stay
    /// two in a register: the results take their powers again, under the maximum of the whole row, from the numbers as they were loaded.
    fn of_accesses(&self, k: &mut Builder, part: &Part) {
        let operands = self.plan.operands;
        let keeps = operands.ty == Ty::F32 && operands.function == RowFunction::Softmax;
        let scratch = self.once().expect("the warps meet once");
        let shares = self.shares(k, part, keeps);
        let totals = match &shares {
            WarpTotals::Powers(own) => {
                RowTotals::Powers(Box::new(self.powers_of_warps(k, own.each_ref(), scratch)))
            }
            WarpTotals::Squares(own) => {
                let [own] = &**own;
                RowTotals::Squares(Box::new(self.total_of_warps(k, Add, own, scratch)))
            }
            WarpTotals::Moments(own) => {
                RowTotals::Moments(Box::new(self.moments_in_turn(k, own.each_ref(), scratch)))
            }
        };
        let under_own = match &shares {
            WarpTotals::Powers(own) if keeps => Some(&own[0]),
            _ => None,
        };
        self.put_results(k, part, &totals, under_own);
    }

    /// The elements of a part, an access at a time.
    fn pieces(&self, part: &Part) -> Vec<Fragment> {
        let pieces = (0..self.plan.accesses).map(|i| part.held.slice((.., .., i)));
        pieces.collect() // (CPY, CPY_M)
    }

    /// What the warp has of the totals of a row that its threads hold; of squares, what the thread has. If it `keeps` powers, they are in
    /// place of the numbers then.
    fn shares(&self, k: &mut Builder, part: &Part, keeps: bool) -> WarpTotals {
        let operands = self.plan.operands;
        let pieces = self.pieces(part);
        let wide = |piece: &Fragment| Expr::from(piece).to(Ty::F32);
        match operands.function {
            RowFunction::Softmax | RowFunction::LogSoftmax => {
                self.empty(k, part);
                let top = number(k, f64::NEG_INFINITY);
                for piece in &pieces {
                    let more = k.reduce_all(Max, wide(piece));
                    k.assign(&top, Expr::from(&top).max(&more));
                }
                let own = k.reduce_warp(Max, &top);
                let below = under(k, &own);
                renew(k, operands.ty, [&part.held]);
                let sum = number(k, 0.0);
                for piece in &pieces {
                    let powers = (wide(piece) - &below).exp();
                    let more = if keeps {
                        k.assign(piece, powers);
                        k.reduce_all(Add, piece)
                    } else {
                        k.reduce_all(Add, powers)
                    };
                    k.assign(&sum, &sum + &more);
                }
                WarpTotals::Powers(Box::new([own, k.reduce_warp(Add, &sum)]))
            }
            RowFunction::RmsNorm => {
                // Each place of an access has a sum of its own, so that a square and its addition are one instruction.
                let sums = k.map(wide(&pieces[0]) * wide(&pieces[0]));
                for piece in &pieces[1..] {
                    k.assign(&sums, wide(piece).fma(wide(piece), &sums));
                }
                WarpTotals::Squares(Box::new([k.reduce_all(Add, &sums)]))
            }
            RowFunction::LayerNorm => {
                let of_warp = self.of_warp_in_turn.as_ref();
                let InTurnColumns { count, of_first } =
                    of_warp.expect("a group takes rows in turn");
                let first = k.reduce_all(Add, wide(&pieces[0]));
                let first = k.reduce_warp(Add, &first);
                let pivot = quotient(k, &first, of_first);
                // A square and its addition are one instruction. Half the places of an access have a sum each: a sum for every place would take
                // registers that threads with a whole row do not have.
                let places = (self.plan.vector / 2).max(1);
                let rest = number(k, 0.0);
                let line = Layout::column_major(places).expect("a vector has elements");
                let own = k.fragment(Ty::F32, line.to_static());
                k.fill(&own, 0.0);
                let differences = |k: &mut Builder, is_full: bool| {
                    for (i, piece) in (0..).zip(&pieces) {
                        let apart = k.map(wide(piece) - &pivot);
                        if !is_full {
                            let is_inside = self.is_inside(k, part, i);
                            k.mask(&apart, 0.0, |_, _| is_inside);
                        }
                        let more = k.reduce_all(Add, &apart);
                        k.assign(&rest, &rest + &more);
                        for half in 0..self.plan.vector / places {
                            let apart = apart.values(half * places, places);
                            k.assign(&own, Expr::from(&apart).fma(&apart, &own));
                        }
                    }
                };
                // All blocks but the last one have as many columns as they hold, and need no test of each vector.
                let end = (&self.at[1] + 1) * self.plan.chunk();
                let is_full = Builder::not(k.less(&self.x().extent(1), &end));
                k.if_else(is_full, |k| differences(k, true), |k| differences(k, false));
                let own = k.reduce_all(Add, &own);
                let [rest, squares] = [&rest, &own].map(|own| k.reduce_warp(Add, own));
                WarpTotals::Moments(Box::new([pivot, rest, squares, count.clone()]))
            }
        }
    }

    /// Stores the results of a row that the threads hold, an access at a time. Where its powers are held under the maximum of a warp, this
    /// is given.
    fn put_results(
        &self,
        k: &mut Builder,
        part: &Part,
        totals: &RowTotals,
        under_own: Option<&Fragment>,
    ) {
        let operands = self.plan.operands;
        let wide = |piece: &Fragment| Expr::from(piece).to(Ty::F32);
        let results: Box<dyn Fn(&Fragment) -> Expr> = match totals {
            RowTotals::Powers(powers) => {
                let [all, sum] = &**powers;
                match under_own {
                    _ if operands.function == RowFunction::LogSoftmax => {
                        let log = k.map(Expr::from(sum).log());
                        Box::new(move |piece| wide(piece) - all - &log)
                    }
                    Some(own) => {
                        let factor = k.map((own - all).exp() * Expr::from(sum).recip());
                        Box::new(move |piece| wide(piece) * &factor)
                    }
                    None => {
                        let inverse = k.map(Expr::from(sum).recip());
                        Box::new(move |piece| (wide(piece) - all).exp() * &inverse)
                    }
                }
            }
            RowTotals::Squares(squares) => {
                let scale = self.scale(k, squares);
                Box::new(move |piece| wide(piece) * &scale)
            }
            RowTotals::Moments(moments) => {
                let [pivot, squares, rest] = &**moments;
                let scale = self.scale(k, squares);
                let shift = k.map(rest * &scale * -1.0);
                Box::new(move |piece| (wide(piece) - pivot).fma(&scale, &shift))
            }
        };
        if self.plan.lag() == 0 || !operands.function.is_norm() {
            // A norm whose results lag has read the row again, and has registers for all of it in `f32`.
            renew(k, operands.ty, [&part.held]);
        }
        let zero = Index::constant(0);
        let to = self.tensor(RowTensor::Y).expect("there is an output");
        let to = self.part(to, &zero);
        // (CPY, CPY_M, CPY_N), and whether shared memory keeps it.
        let of_columns = [RowTensor::Weight, RowTensor::Bias].map(|which| {
            let mut all = self.weights.iter();
            if let Some((_, kept)) = all.find(|(of, _)| *of == which) {
                return Some((self.copy.at(&self.thread).partition_src(kept), true));
            }
            Some((self.part(self.tensor(which)?, &zero), false))
        });
        for (i, piece) in (0..).zip(self.pieces(part)) {
            let [weight, bias] = of_columns.each_ref().map(|of| {
                let (of, is_kept) = of.as_ref()?;
                let of = of.at(2, i);
                let held = self.fragment(k, &of);
                if *is_kept {
                    k.copy(&self.copy, &of, &held);
                } else {
                    k.copy_in_bounds(&self.copy, &of, &held);
                }
                Some(wide(&held))
            });
            let y = changed(results(&piece), [weight, bias]);
            k.assign(&piece, y.to(operands.ty));
            k.copy_in_bounds(&self.copy, &piece, &to.at(2, i));
        }
    }

    /// Puts -inf in place of the numbers beyond the end of the row, in the type of the tensors.
    fn empty(&self, k: &mut Builder, part: &Part) {
        // Two numbers of 16 bits at once.
        let packed = match self.plan.operands.ty {
            Ty::Bf16 => 0xff80_ff80_u32,
            Ty::F16 => 0xfc00_fc00,
            _ => return self.outside(k, part, &part.held, f64::NEG_INFINITY),
        };
        let of_vector = part.held.regs().chunks(self.plan.vector as usize / 2);
        for (i, regs) in (0..).zip(of_vector) {
            let is_inside = self.is_inside(k, part, i);
            k.where_(Builder::not(is_inside), |ir| {
                for reg in regs {
                    ir.mov_to(*reg, i64::from(packed));
                }
            });
        }
    }

    /// The results of a thread's numbers of a row, without factors and terms. Those beyond its end are 0, and `outside` puts
    /// another number in their place.
    pub(super) fn results(
        &self,
        k: &mut Builder,
        x: Fragment,
        outside: &dyn Fn(&mut Builder, &Fragment, f64),
    ) -> Expr {
        match self.plan.operands.function {
            RowFunction::Softmax => {
                outside(k, &x, f64::NEG_INFINITY);
                if let Some(scratch) = self.once() {
                    // The powers under the maximum of the warp; -inf less the maximum of the row makes a factor of 0.
                    let [own, below] = self.top_of_warp(k, &x);
                    k.assign(&x, (&x - &below).exp());
                    let sum = k.reduce_all(Add, &x);
                    let sum = k.reduce_warp(Add, &sum);
                    let [all, sum] = self.powers_of_warps(k, [&own, &sum], scratch);
                    let factor = k.map((&own - &all).exp() * Expr::from(&sum).recip());
                    return &x * &factor;
                }
                let top = self.top(k, &x);
                k.assign(&x, (&x - &top).exp());
                let own = k.reduce_all(Add, &x);
                let sum = self.total(k, Add, &own, 1);
                let inverse = k.map(Expr::from(&sum).recip());
                &x * &inverse
            }
            RowFunction::LogSoftmax => {
                outside(k, &x, f64::NEG_INFINITY);
                if let Some(scratch) = self.once() {
                    let [own, below] = self.top_of_warp(k, &x);
                    let sum = k.reduce_all(Add, (&x - &below).exp());
                    let sum = k.reduce_warp(Add, &sum);
                    let [all, sum] = self.powers_of_warps(k, [&own, &sum], scratch);
                    k.assign(&x, &x - &all);
                    let log = k.map(Expr::from(&sum).log());
                    return &x - &log;
                }
                let top = self.top(k, &x);
                k.assign(&x, &x - &top);
                let own = k.reduce_all(Add, Expr::from(&x).exp());
                let sum = self.total(k, Add, &own, 1);
                let log = k.map(Expr::from(&sum).log());
                &x - &log
            }
            RowFunction::RmsNorm => {
                let own = self.squares(k, &x);
                let squares = self.total(k, Add, &own, 0);
                &x * &self.scale(k, &squares)
            }
            RowFunction::LayerNorm => {
                let own = k.reduce_all(Add, &x);
                if let Some(scratch) = self.once() {
                    let warp = self.pivot_of_warp(k, &own);
                    k.assign(&x, &x - &warp.pivot);
                    outside(k, &x, 0.0);
                    let rest = k.reduce_all(Add, &x);
                    let own = self.squares(k, &x);
                    let [mean, squares] = self.moments_of_warps(k, &warp, [&rest, &own], scratch);
                    let scale = self.scale(k, &squares);
                    let shift = k.map((&warp.pivot - &mean) * &scale);
                    return Expr::from(&x).fma(&scale, &shift);
                }
                let sum = self.total(k, Add, &own, 0);
                let mean = self.mean_of(k, &sum);
                k.assign(&x, &x - &mean);
                outside(k, &x, 0.0);
                let own = self.squares(k, &x);
                let squares = self.total(k, Add, &own, 1);
                &x * &self.scale(k, &squares)
            }
        }
    }

    /// The maximum of a warp's numbers, and the same, or 0 where it is -inf.
    fn top_of_warp(&self, k: &mut Builder, x: &Fragment) -> [Fragment; 2] {
        let own = k.reduce_all(Max, x);
        let own = k.reduce_warp(Max, &own);
        let below = under(k, &own);
        [own, below]
    }

    /// The maximum of a row, or 0 where it is -inf.
    fn top(&self, k: &mut Builder, x: &Fragment) -> Fragment {
        let own = k.reduce_all(Max, x);
        let top = self.total(k, Max, &own, 0);
        under(k, &top)
    }

    /// The sum of the squares of a thread's numbers.
    fn squares(&self, k: &mut Builder, x: &Fragment) -> Fragment {
        k.reduce_all(Add, x * x)
    }

    /// Rows in registers, one after the other. `ahead` further ones are on their way to shared memory, or are there.
    ///
    /// If shared memory keeps the weight and the bias, their copies begin behind those of the first tile and before those of the next ones.
    /// So the first tile does not wait for them, and its results do not wait for the next tiles.
    fn of_rows_ahead(&self, k: &mut Builder, ahead: i64, clusters: i64) {
        let zero = Index::constant(0);
        let grid = k.grid_extent(0);
        let step = k.within(grid / self.plan.blocks, 1..clusters + 1);
        let rows = k.within(self.x().extent(0), 1..MOST + 1);
        let tiles = (rows + (self.plan.rows - 1)) / self.plan.rows;
        let of_row = |row: Index| {
            let at = [row.min(&tiles), self.at[1].clone()];
            RowKernel { at, ..self.clone() }
        };
        let has_slots = ahead > 0;
        let keeps = has_slots && !self.weights.is_empty();
        for slot in 0..ahead {
            let row = &self.at[0] + &step * slot;
            of_row(row).fetch(k, &zero, &Index::constant(slot));
            k.cp_async_commit();
            if slot == 0 && keeps {
                self.fetch_weights(k);
            }
        }
        if keeps {
            // The weights and all tiles but the first may be under way.
            k.cp_async_wait(ahead as u32);
        }
        let slot = has_slots.then(|| k.var(0, 0..ahead));
        let turn = self.plan.meets_once.then(|| k.var(0, 0..2));
        k.for_(&self.at[0], &tiles, &step, |k, row| {
            let mut own = of_row(row.clone());
            if let Some(turn) = &turn {
                own.turn = k.get(turn);
            }
            if let Some(slot) = &slot {
                let at = k.get(slot);
                if !keeps {
                    k.cp_async_wait(ahead as u32 - 1);
                }
                let part = own.slot_rows(k, &zero, &at, true);
                of_row(row + &step * ahead).fetch(k, &zero, &at);
                k.cp_async_commit();
                own.of_registers(k, &part);
                k.set(slot, (at + 1) % ahead);
            } else {
                let is_first = k.equal(row, &self.at[0]);
                let part = own.rows_with_weights(k, is_first);
                own.of_registers(k, &part);
            }
            if let Some(turn) = &turn {
                k.set(turn, (&own.turn + 1) % 2);
            }
            if keeps {
                // The next tile is there; the weights were before the results of this one.
                k.cp_async_wait(ahead as u32 - 1);
            }
        });
        if has_slots {
            k.cp_async_wait(0);
        }
    }

    /// Rows that registers and shared memory hold together, one after the other. A thread asks for a chunk of the next row where it has
    /// read this row's for the results, so that no thread waits for another one but for the totals.
    fn of_rows_divided(&self, k: &mut Builder, [held, kept, clusters]: [i64; 3]) {
        let grid = k.grid_extent(0);
        let step = k.within(grid / self.plan.blocks, 1..clusters + 1);
        let rows = k.within(self.x().extent(0), 1..MOST + 1);
        let tiles = (rows + (self.plan.rows - 1)) / self.plan.rows;
        for chunk in (0..kept).map(Index::constant) {
            self.fetch(k, &chunk, &chunk);
            k.cp_async_commit();
        }
        let held = (kept..kept + held).map(Index::constant);
        let held: Vec<Fragment> = held
            .map(|chunk| self.load(k, self.x(), &chunk).held)
            .collect();
        let turn = self.plan.meets_once.then(|| k.var(0, 0..2));
        k.for_(&self.at[0], &tiles, &step, |k, row| {
            let mut own = RowKernel {
                at: [row.clone(), self.at[1].clone()],
                divided: Some(DividedRow {
                    held: held.clone(),
                    next: (row + &step).min(&tiles),
                }),
                ..self.clone()
            };
            if let Some(turn) = &turn {
                own.turn = k.get(turn);
            }
            own.of_passes(k);
            if let Some(turn) = &turn {
                k.set(turn, (&own.turn + 1) % 2);
            }
        });
        k.cp_async_wait(0);
    }

    /// Takes all chunks of a row that registers and shared memory hold. The last pass asks for those of the next row.
    fn pass_over_held(
        &self,
        k: &mut Builder,
        number: usize,
        body: impl Fn(&mut Builder, &Part, &Index),
        row: &DividedRow,
    ) {
        let kept = self.plan.storage.slots();
        let is_last = number + 1 == self.plan.operands.function.reads() as usize;
        let next = RowKernel {
            at: [row.next.clone(), self.at[1].clone()],
            ..self.clone()
        };
        // A row ends in the last chunk of all.
        let is_full = |chunk: i64| chunk + 1 < self.plan.storage.chunks();
        for i in 0..kept {
            let chunk = Index::constant(i);
            if number == 0 {
                k.cp_async_wait((kept - 1 - i) as u32);
            }
            let part = self.take(k, RowTensor::X, &chunk, &chunk);
            let is_full = is_full(i);
            if is_last {
                let copy = self.to_shared.as_ref().expect("the plan has slots");
                let (_, slot) = &self.kept[0];
                let ends = (&next.part(self.x(), &chunk), &self.slot(slot, &chunk));
                next.copy_part(k, copy, ends, is_full);
                k.cp_async_commit();
            }
            body(k, &Part { is_full, ..part }, &chunk);
        }
        for (i, held) in (kept..).zip(&row.held) {
            let chunk = Index::constant(i);
            let is_full = is_full(i);
            let part = Part {
                held: held.clone(),
                of: self.part(self.x(), &chunk),
                is_full,
            };
            if number > 0 {
                renew(k, self.plan.operands.ty, [&part.held]);
            }
            body(k, &part, &chunk);
            if is_last {
                let ends = (&next.part(self.x(), &chunk), held);
                next.copy_part(k, &self.copy, ends, is_full);
            }
        }
    }

    /// Copies a part of the rows, of which no element lies beyond the end of a row if it is full. Then a row alone is asked for as a whole.
    fn copy_part<'b>(
        &self,
        k: &mut Builder,
        copy: &'b TiledCopy,
        (from, to): (impl Into<Piece<'b>>, impl Into<Piece<'b>>),
        is_full: bool,
    ) {
        if is_full && self.plan.rows == 1 {
            let exists = k.less(&self.at[0], &self.x().extent(0));
            k.copy_if(copy, from, to, |_, _| exists);
        } else {
            k.copy_in_bounds(copy, from, to);
        }
    }

    /// Rows in registers, by groups of threads that take them in turn. While a group waits for the other blocks of the cluster, or
    /// stores, another one works. Bulk copies bring the rows to a ring of slots.
    fn of_rows_in_turn(&self, k: &mut Builder, group: &Index, [slots, clusters]: [i64; 2]) {
        let (cluster_blocks, groups) = (self.plan.cluster(), self.plan.storage.groups());
        let keeps = !self.weights.is_empty();
        let zero = Index::constant(0);
        let grid = k.grid_extent(0);
        let step = k.within(grid / self.plan.blocks, 1..clusters + 1);
        let most = match &self.teams {
            Some(_) => MOST_TEAM_ROWS,
            None => MOST,
        };
        let rows = k.within(self.x().extent(0), 1..most + 1);
        let [cluster, rank] = &self.at;
        let columns = k.within(self.x().extent(1), 1..MOST + 1);
        let (chunk, size) = (
            self.plan.chunk(),
            i64::from(self.plan.operands.ty.bits()) / 8,
        );
        let first = rank * chunk;
        let left = (&columns - &first).min(&chunk.into());
        let part = Index::select_less(&first, &columns, &left, &zero);
        let ring = SlotRing {
            full: k.barriers(slots),
            bytes: k.within(part, 0..chunk + 1) * size,
            rows: rows.clone(),
            first,
        };
        let met = (cluster_blocks > 1).then(|| k.barriers(2 * groups));
        let thread = k.thread();
        let is_first = k.equal(&thread, &zero);
        k.if_(is_first, |k| {
            k.init_barriers(&ring.full, 1);
            if let Some(met) = &met {
                k.init_barriers(met, cluster_blocks as u32);
            }
            k.fence(FenceKind::MbarrierInit);
        });
        self.clear(k, group, slots);
        if keeps {
            let is_first = k.equal(group, &zero);
            k.if_(is_first, |k| self.fetch_weights(k));
        }
        let end = self.begin_teams(k, &rows, &step);
        match cluster_blocks {
            1 => k.sync(),
            _ => k.cluster_sync(),
        }
        k.if_(is_first, |k| {
            for slot in 0..slots {
                let row = cluster + &step * slot;
                let exists = k.less(&row, &rows);
                k.if_(exists, |k| self.fill(k, &ring, [&row, &slot.into()]));
            }
        });
        if let Some(end) = &end {
            self.count(k, end);
        }
        if keeps {
            // All groups read what the first one has copied.
            k.cp_async_wait(0);
            k.sync();
        }
        let is_layer_norm = self.plan.operands.function == RowFunction::LayerNorm;
        let of_warp = is_layer_norm.then(|| self.columns_in_turn(k));
        let begin = cluster + &step * group;
        let shared = InTurn {
            ring,
            of_warp,
            group,
            step,
            begin,
            clusters,
        };
        if self.plan.lag() > 0 {
            self.lagging_rows(k, &shared, slots);
        } else {
            self.rows_in_turn(k, &shared, met.as_ref(), slots);
        }
        if let Some(end) = end {
            // All groups have met for their last rows.
            k.sync();
            self.begin_tags_again(k, &end);
        }
    }

    /// The rows of a group, each of which it holds in registers until all blocks have met.
    fn rows_in_turn(&self, k: &mut Builder, all: &InTurn<'_>, met: Option<&Barriers>, slots: i64) {
        let groups = self.plan.storage.groups();
        let InTurn {
            ring,
            of_warp,
            group,
            step,
            begin,
            ..
        } = all;
        let [cluster, rank] = &self.at;
        let zero = Index::constant(0);
        let slot = k.var(*group, 0..slots);
        let [phase, turn] = [k.var(0, 0..2), k.var(0, 0..4)];
        k.for_(begin, &ring.rows, step * groups, |k, row| {
            let [at, parity, passed] = [&slot, &phase, &turn].map(|var| k.get(var));
            self.next_tag(k);
            let own = RowKernel {
                at: [row.clone(), rank.clone()],
                turn: &passed % 2,
                of_group: Some(GroupRow {
                    ring: ring.clone(),
                    group: (*group).clone(),
                    met: met.cloned(),
                    parity: &passed / 2,
                    slot: at.clone(),
                    next: Some(row + step * slots),
                    of_teams: cluster * groups + *group,
                    words: &passed % 2,
                }),
                of_warp_in_turn: of_warp.clone(),
                ..self.clone()
            };
            k.wait(&ring.full.at(&at), &parity);
            converge(k);
            let part = own.slot_rows(k, &zero, &at, true);
            own.of_accesses(k, &part);
            let after = at + groups;
            k.set(&phase, (parity + &after / slots) % 2);
            k.set(&slot, after % slots);
            k.set(&turn, (passed + 1) % 4);
        });
    }

    /// Lets the slot of a row receive another one, which the threads of the group have taken into registers. One warp waits for the others, and
    /// starts the copy.
    fn refill(&self, k: &mut Builder, next: &Index) {
        let row = self.of_group.as_ref().expect("a group takes rows in turn");
        let (groups, threads) = (self.plan.storage.groups(), self.plan.threads);
        let barrier = &row.group + (1 + groups * (self.plan.lagging_barriers() - 1));
        let is_last = k.equal(&self.teams_of().warp, &(threads / WARP - 1).into());
        k.if_else(
            is_last,
            |k| {
                k.sync_named(&barrier, threads as u32);
                let lane = k.lane();
                let is_one = k.equal(&lane, &0.into());
                let exists = k.less(next, &row.ring.rows);
                let fills = k.both(is_one, exists);
                k.if_(fills, |k| self.fill(k, &row.ring, [next, &row.slot]));
            },
            |k| k.arrive_named(&barrier, threads as u32),
        );
    }

    /// A part of a row that registers will have.
    fn no_part(&self, k: &mut Builder) -> Part {
        let of = self.part(self.x(), &Index::constant(0));
        let held = self.fragment(k, &of);
        k.fill(&held, 0.0);
        Part {
            held,
            of,
            is_full: false,
        }
    }

    /// The rows of a group that stay in their slots until later: in each turn, the group leaves the totals of its block for a row, reads again
    /// the row of some turns before, whose words the other blocks have left by then, and computes its results.
    ///
    /// The threads of a group meet at a named barrier. Behind it, they have the earlier row in registers, so that its slot receives the next
    /// one, and find its totals in shared memory.
    ///
    /// A layer norm computes the most. Where registers have room for two of its rows, a row leaves its slot a turn before its results, so
    /// that one more slot is on its way.
    ///
    /// Two rows behind and more, the first warp leaves the totals of the block behind that barrier. One row behind, this would be too late: a
    /// block would leave the totals of a row when all blocks have left those of the row before, so that all of them take turns at the pace of
    /// the slowest. So there is another barrier before. At that one, only the first warp waits, for the totals of all warps; the others arrive.
    ///
    /// What a turn puts into shared memory, it puts where the last turn but one did: behind the barrier of the last turn, all threads have
    /// taken what they needed of that.
    fn lagging_rows(&self, k: &mut Builder, all: &InTurn<'_>, slots: i64) {
        let (groups, lag) = (self.plan.storage.groups(), self.plan.lag());
        let turns = self.plan.team_turns();
        let InTurn {
            ring,
            of_warp,
            group,
            step,
            begin,
            ..
        } = all;
        let [cluster, rank] = &self.at;
        let zero = Index::constant(0);
        // How many rows before the turn's own one the row lies that leaves its slot in a turn.
        let leaves_behind = if self.plan.holds_later() {
            lag - 1
        } else {
            lag
        };
        let carried = (self.plan.holds_later()).then(|| self.no_part(k));
        let slot = k.var(*group, 0..slots);
        // Before the first row, the ring has come round to these places.
        let begin_slot = match leaves_behind {
            0 => (*group).clone(),
            _ => *group + (slots - groups * leaves_behind),
        };
        let left_slot = k.var(begin_slot, 0..slots);
        let phase = k.var(0, 0..2);
        let turn = k.var(0, 0..turns);
        let later_turn = k.var(turns - lag, 0..turns);
        let behind = step * (groups * lag);
        let behind = k.within(behind, 1..all.clusters * groups * lag + 1);
        let left_behind = step * (groups * leaves_behind);
        let left_behind = k.within(left_behind, 0..all.clusters * groups * leaves_behind + 1);
        k.for_(begin, &ring.rows + &behind, step * groups, |k, row| {
            let [at, parity, words] = [&slot, &phase, &turn].map(|var| k.get(var));
            let [left_at, later_words] = [&left_slot, &later_turn].map(|var| k.get(var));
            self.next_tag(k);
            let own = RowKernel {
                at: [row.clone(), rank.clone()],
                turn: &words % 2,
                of_group: Some(GroupRow {
                    ring: ring.clone(),
                    group: (*group).clone(),
                    met: None,
                    parity: zero.clone(),
                    slot: at.clone(),
                    next: None,
                    of_teams: cluster * groups + *group,
                    words: words.clone(),
                }),
                of_warp_in_turn: of_warp.clone(),
                ..self.clone()
            };
            let teams = self.teams_of();
            let later = RowKernel {
                of_group: own.of_group.as_ref().map(|own| GroupRow {
                    slot: left_at.clone(),
                    words: later_words.clone(),
                    ..own.clone()
                }),
                teams: Some(Teams {
                    tag: k.emit(|ir| ir.sub(Type::U32, teams.tag, lag)),
                    result: &teams.result + &own.turn * self.plan.results_bytes(),
                    ..teams.clone()
                }),
                ..own.clone()
            };
            let is_first = k.less(row, &(begin + &behind));
            let exists = k.less(row, &ring.rows);
            let is_leaver = k.equal(&teams.warp, &zero);
            k.if_(exists, |k| {
                k.wait(&ring.full.at(&at), &parity);
                converge(k);
                let part = own.slot_rows(k, &zero, &at, true);
                let shares = own.shares(k, &part, false);
                let shares = match shares {
                    WarpTotals::Squares(own) => {
                        let own = own.map(|own| k.reduce_warp(Add, &own));
                        WarpTotals::Squares(Box::new(own))
                    }
                    of_warp => of_warp,
                };
                own.put_shares(k, &shares);
                if lag == 1 {
                    let (barrier, threads) = (*group + (1 + groups), self.plan.threads as u32);
                    k.if_else(
                        is_leaver,
                        |k| {
                            k.sync_named(&barrier, threads);
                            own.leave_totals(k);
                        },
                        |k| k.arrive_named(&barrier, threads),
                    );
                }
            });
            let leaves = k.both(is_leaver, exists);
            let leave_late = |k: &mut Builder| {
                if lag > 1 {
                    k.if_(leaves, |k| own.leave_totals(k));
                }
            };
            // The row that leaves its slot in this turn, and what the slot has next.
            let with_left = |k: &mut Builder| {
                let left = k.within(row - &left_behind, 0..MOST_TEAM_ROWS);
                let next = Some(&left + step * slots);
                let next = next.filter(|_| carried.is_none());
                let of_group = later.of_group.as_ref().map(|later| GroupRow {
                    next,
                    ..later.clone()
                });
                RowKernel {
                    at: [left, rank.clone()],
                    of_group,
                    ..later.clone()
                }
            };
            k.if_else(
                is_first,
                |k| {
                    own.meet(k);
                    leave_late(k);
                },
                |k| {
                    let later = RowKernel {
                        at: [k.within(row - &behind, 0..MOST_TEAM_ROWS), rank.clone()],
                        ..with_left(k)
                    };
                    let read = carried.is_none();
                    let read = read.then(|| later.slot_rows(k, &zero, &left_at, false));
                    let totals = later.totals_of_team(k, leave_late);
                    let part = read.as_ref().or(carried.as_ref());
                    later.put_results(k, part.expect("one of both has the row"), &totals, None);
                },
            );
            if let Some(held) = &carried {
                let last = &ring.rows + &left_behind;
                let is_left = k.less(row, &last);
                let is_early = k.less(row, &(begin + &left_behind));
                let is_left = k.both(is_left, Builder::not(is_early));
                k.if_(is_left, |k| {
                    let left = with_left(k);
                    let part = left.slot_rows(k, &zero, &left_at, false);
                    held.becomes(k, &part);
                    left.refill(k, &(&left.at[0] + step * slots));
                });
            }
            let after = &at + groups;
            let other = Index::constant(1) - &parity;
            let parity = Index::select_less(&after, &slots.into(), &parity, &other);
            k.set(&phase, parity);
            k.set(&slot, wrapped(&after, slots));
            k.set(&left_slot, wrapped(&(&left_at + groups), slots));
            k.set(&turn, wrapped(&(&words + 1), turns));
            k.set(&later_turn, wrapped(&(&later_words + 1), turns));
        });
    }

    /// Makes the tag of a thread that of its next row.
    fn next_tag(&self, k: &mut Builder) {
        if let Some(Teams { tag, .. }) = self.teams {
            k.emit(|ir| ir.binary_to(Add, Type::U32, tag, tag, 1));
        }
    }

    /// Reads the last tag of the launches before: those of this one follow it.
    fn begin_teams(&self, k: &mut Builder, rows: &Index, step: &Index) -> Option<TeamEnd> {
        let teams = self.teams.as_ref()?;
        let groups = self.plan.storage.groups();
        // The rows of the group that has the most: the first one of the first team.
        let all = step * groups;
        let turns = k.operand(&((rows + (&all - 1)) / all));
        let header = k.addresses(&teams.words.elements(0)).regs()[0];
        let grid = k.grid_extent(0);
        let others = k.operand(&(grid - 1));
        let (last_tag, is_last) = k.emit(|ir| {
            ir.load_to(Access::new(Space::Global, Type::U32), &[teams.tag], header);
            let last_tag = ir.add(Type::U32, teams.tag, turns);
            (
                last_tag,
                ir.setp(Compare::Gt, Type::U32, last_tag, LAST_TAG),
            )
        });
        // A thread of another warp than the one that starts the copies, where there is one.
        let thread = k.thread();
        let counts = k.equal(&thread, &(self.plan.threads_of_block() - WARP).into());
        Some(TeamEnd {
            header,
            last_tag,
            is_last,
            others,
            counts,
        })
    }

    /// Counts the block, whose threads have all read the last tag of the launches before. The block that is counted last leaves the last
    /// tag of this launch, since no other block reads that word again; a word of a block has no larger tag then. So the next launch, which
    /// begins when this one has ended, also a graph's, has tags that are in none of the words, regardless of the plan that wrote them.
    ///
    /// This happens at the begin, where the block waits for its first row.
    fn count(&self, k: &mut Builder, end: &TeamEnd) {
        let guard = Guard::from(end.is_last).negated();
        self.last_of_all(k, end, guard, |ir, _| {
            ir.store(
                Access::new(Space::Global, Type::U32),
                end.header,
                end.last_tag,
            );
        });
    }

    /// Where too few tags are left for the next launch, makes all words 0 that a launch has written, so that tags begin at 1 again. Words
    /// that were never written are 0 too, and 0 is no tag. The block does it that comes last: no other one looks at a word any more. So
    /// no word keeps a tag that comes again after 2^32 rows.
    fn begin_tags_again(&self, k: &mut Builder, end: &TeamEnd) {
        let guard = Guard::from(end.is_last);
        self.last_of_all(k, end, guard, |ir, used| {
            let zero = ir.mov(Type::B32, 0);
            ir.store(Access::new(Space::Global, Type::U32), end.header, zero);
            ir.for_range(0, used, CLEARED_WORDS, |ir, word| {
                let at = ir.mul_wide(Type::U32, word, 4);
                let at = ir.add(Type::S64, end.header, at);
                let line = Access::new(Space::Global, Type::U32);
                ir.store_vector(line, Address::from(at).at(4 * TEAM_HEADER), &[zero; 4]);
            });
        });
    }

    /// In a launch for which the guard holds, counts the block; in the last one of all blocks, one thread notes how many words of blocks
    /// launches have had, and executes `body`, which takes that number.
    fn last_of_all(
        &self,
        k: &mut Builder,
        end: &TeamEnd,
        guard: Guard,
        body: impl FnOnce(&mut KernelBuilder, Reg),
    ) {
        let own = self.plan.team_words() - TEAM_HEADER;
        let [counter, most] = [4, 8].map(|at| Address::from(end.header).at(at));
        k.if_(end.counts, |k| {
            k.emit(|ir| {
                ir.if_(guard, |ir| {
                    let before = ir.reg(RegType::B32);
                    ir.push(Memory::Atomic {
                        op: AtomicOp::Inc,
                        space: Space::Global,
                        ty: Type::U32,
                        order: Order::AcqRel(Scope::Gpu),
                        d: before,
                        a: counter,
                        s: end.others,
                        t: None,
                    });
                    let comes_last = ir.setp(Compare::Eq, Type::U32, before, end.others);
                    ir.if_(comes_last, |ir| {
                        let word = Access::new(Space::Global, Type::U32);
                        let used = ir.load(word, most);
                        let used = ir.max(Type::U32, used, own);
                        ir.store(word, most, used);
                        body(ir, used);
                    });
                });
            });
        });
    }

    /// Reads all chunks of the rows, in the pass with a number. Shared memory may keep the first chunks from the first pass on.
    /// Later passes begin with the others, last ones first: caches may still have those that were read last.
    fn pass(&self, k: &mut Builder, number: usize, body: impl Fn(&mut Builder, &Part, &Index)) {
        if let Some(row) = &self.divided {
            return self.pass_over_held(k, number, body, row);
        }
        let all = self.plan.chunk() * self.plan.blocks;
        let chunks = (self.x().extent(1) + (all - 1)) / all;
        let RowStorage::Passes { kept } = self.plan.storage else {
            return;
        };
        if kept == 0 {
            return k.for_(0, &chunks, 1, |k, i| {
                let chunk = self.turned(k, number, &0.into(), &chunks, i);
                let part = self.rows(k, &chunk, number == 0);
                body(k, &part, &chunk);
            });
        }
        let least = chunks.min(&kept.into());
        if number == 0 {
            self.stream(
                k,
                &chunks,
                |_, i| i.clone(),
                |k, part, i| body(k, part, i),
                true,
            );
            return;
        }
        let rest = k.within(&chunks - &least, 0..MOST);
        let chunk = |k: &mut Builder, i: &Index| {
            let i = &least + i;
            self.turned(k, number, &least, &chunks, &i)
        };
        self.stream(k, &rest, chunk, &body, false);
        k.for_(0, &least, 1, |k, chunk| {
            let part = self.slot_rows(k, chunk, chunk, false);
            body(k, &part, chunk);
        });
    }

    /// The chunk of a turn from `first` to `end`: every second pass goes back.
    fn turned(
        &self,
        k: &mut Builder,
        number: usize,
        first: &Index,
        end: &Index,
        i: &Index,
    ) -> Index {
        match number % 2 {
            0 => i.clone(),
            _ => k.within(first + end - i - 1, 0..MOST),
        }
    }

    /// Takes a number of chunks from shared memory. The copies of the next ones are under way meanwhile.
    fn stream(
        &self,
        k: &mut Builder,
        count: &Index,
        chunk: impl Fn(&mut Builder, &Index) -> Index,
        body: impl Fn(&mut Builder, &Part, &Index),
        first: bool,
    ) {
        let fetch = |k: &mut Builder, i: &Index| {
            let is_one = k.less(i, count);
            k.if_(is_one, |k| {
                let chunk = chunk(k, i);
                let slot = self.slot_of(&chunk);
                self.fetch(k, &chunk, &slot);
            });
            // A group without a copy counts too.
            k.cp_async_commit();
        };
        for i in 0..STREAMED {
            fetch(k, &Index::constant(i));
        }
        k.for_(0, count, 1, |k, i| {
            k.cp_async_wait(STREAMED as u32 - 1);
            let own = chunk(k, i);
            let part = self.slot_rows(k, &own, &self.slot_of(&own), first);
            fetch(k, &(i + STREAMED));
            body(k, &part, &own);
        });
    }

    /// The slot of a chunk: its own, or the next one of those that all other chunks use in turn.
    fn slot_of(&self, chunk: &Index) -> Index {
        let kept = self.plan.storage.slots() - STREAMED;
        let other = chunk % STREAMED + kept;
        Index::select_less(chunk, &kept.into(), &chunk.min(&kept.into()), &other)
    }

    /// The rows' part of a chunk that is in a slot.
    fn slot_rows(&self, k: &mut Builder, chunk: &Index, slot: &Index, first: bool) -> Part {
        self.rows_by(k, chunk, first, |k, which| self.take(k, which, chunk, slot))
    }

    /// The total of a function of each element, by a pass over the rows.
    fn sum(
        &self,
        k: &mut Builder,
        which: usize,
        of: impl Fn(&mut Builder, &Part) -> Fragment,
    ) -> Fragment {
        let own = self.own_sum(k, which, of);
        self.total(k, Add, &own, which)
    }

    /// A thread's sum of a function of each element, by a pass over the rows.
    fn own_sum(
        &self,
        k: &mut Builder,
        which: usize,
        of: impl Fn(&mut Builder, &Part) -> Fragment,
    ) -> Fragment {
        let own = number(k, 0.0);
        self.pass(k, which, |k, part, _| {
            let more = of(k, part);
            k.assign(&own, &own + &more);
        });
        own
    }

    /// Rows that registers do not hold: they are read again.
    fn of_passes(&self, k: &mut Builder) {
        let totals = match self.plan.operands.function {
            RowFunction::Softmax | RowFunction::LogSoftmax => {
                let (top, sum) = (number(k, f64::NEG_INFINITY), number(k, 0.0));
                self.pass(k, 0, |k, part, _| {
                    let x = self.inside(k, part, part.wide(), f64::NEG_INFINITY);
                    let own = k.reduce_all(Max, &x);
                    let next = k.map(Expr::from(&top).max(&own));
                    let below = under(k, &next);
                    let own = k.reduce_all(Add, (&x - &below).exp());
                    // The sum so far, under the new maximum.
                    let kept = (&top - &below).exp();
                    k.assign(&sum, Expr::from(&sum).fma(kept, &own));
                    k.assign(&top, &next);
                });
                if let Some(scratch) = self.once() {
                    let [own, below] = self.top_of_warp(k, &top);
                    let sum = k.map(&sum * (&top - &below).exp());
                    let sum = k.reduce_warp(Add, &sum);
                    let [top, sum] = self.powers_of_warps(k, [&own, &sum], scratch);
                    Totals::Powers { top, sum }
                } else {
                    let all = self.total(k, Max, &top, 0);
                    let all = under(k, &all);
                    let own = k.map(&sum * (&top - &all).exp());
                    let sum = self.total(k, Add, &own, 1);
                    Totals::Powers { top: all, sum }
                }
            }
            RowFunction::RmsNorm => {
                let squares =
                    self.sum(k, 0, |k, part| k.reduce_all(Add, part.wide() * part.wide()));
                let scale = self.scale(k, &squares);
                Totals::Moments { mean: None, scale }
            }
            RowFunction::LayerNorm => {
                let own = self.own_sum(k, 0, |k, part| k.reduce_all(Add, part.wide()));
                let [mean, squares] = if let Some(scratch) = self.once() {
                    let warp = self.pivot_of_warp(k, &own);
                    let rest = number(k, 0.0);
                    let own = self.own_sum(k, 1, |k, part| {
                        let apart = self.inside(k, part, part.wide() - &warp.pivot, 0.0);
                        let more = k.reduce_all(Add, &apart);
                        k.assign(&rest, &rest + &more);
                        self.squares(k, &apart)
                    });
                    self.moments_of_warps(k, &warp, [&rest, &own], scratch)
                } else {
                    let sum = self.total(k, Add, &own, 0);
                    let mean = self.mean_of(k, &sum);
                    let squares = self.sum(k, 1, |k, part| {
                        let apart = self.inside(k, part, part.wide() - &mean, 0.0);
                        self.squares(k, &apart)
                    });
                    [mean, squares]
                };
                let scale = self.scale(k, &squares);
                let mean = Some(mean);
                Totals::Moments { mean, scale }
            }
        };
        let last = self.plan.operands.function.reads() as usize - 1;
        self.pass(k, last, |k, part, chunk| {
            self.store(k, part, &totals, chunk);
        });
    }
}
