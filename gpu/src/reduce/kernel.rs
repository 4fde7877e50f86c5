//! The kernel of a plan: each thread takes vectors of the inner mode into what it carries, then the threads of a result are
//! combined.
//!
//! A sum is carried as it is, and so is a maximum of floats of 16 bits, two in a register, where the architecture has the packed
//! instruction: threads, blocks of a cluster and parts are combined by the same instruction. Other maxima are combined over threads as
//! *keys*: integers that are ordered as the floats are, with NaN at the end where it wins. That of an arg-max has the index in its lower
//! half, so that the lower index wins among equals.

use colex_atom::{Arch, CopyAtom, Ty};
use colex_ir::BinaryOp::{self, Add, Max, MaxNan, Min, MinNan};
use colex_ir::{
    Access, Address, AtomicOp, ClusterOrder, Order, Scope, Space, Sync as Synchronise, Type,
};
use colex_layout::{Int, Layout};
use colex_tensor::{
    AtThread, Builder, Cond, Elements, Error, Expr, Fragment, Index, Mask, Outside, Tensor,
    TensorKernel,
};
use colex_tiled::TiledCopy;

use super::plan::{MOST_COLUMNS, MOST_SHIFTED, ReducePlan};
use super::problem::{MOST, ReduceFunction, ReduceOperands, ReduceProblem, ReduceStage};
use crate::memory_bound::plan::{WIDEST, div_up};

/// A kernel that is being built.
struct ReduceKernel<'a> {
    plan: &'a ReducePlan,
    x: Tensor,
    y: Tensor,
    values: Option<Tensor>,
    /// The extents of the modes that are reduced, and of the inner mode.
    extents: [Index; 2],
    /// The place of the thread: the row, and the numbers across and along.
    row: Index,
    across: Index,
    along: Index,
    /// The number of the part.
    part: Index,
    count: Option<Expr>,
    joint: Option<Joint<'a>>,
    meeting: Option<ClusterParts>,
    /// The tensor as one mode, if vectors begin wherever rows do.
    run: Option<Tensor>,
    /// The copy whose parts of a tile are the results of the threads.
    of_lanes: TiledCopy,
    /// Whether one instruction finds the larger of two floats, or NaN if one of them is, of 16 bits for two pairs at once.
    has_nan: bool,
}

/// How blocks that share results leave their parts to the last block to finish.
#[derive(Clone)]
struct Joint<'a> {
    /// The plan of the addition of the parts.
    plan: &'a ReducePlan,
    /// (outer, inner, parts)
    parts: Tensor,
    /// For the rows of a block and each of its tiles, how many parts there are already.
    arrived: Tensor,
    /// The number of the block's rows among those of all blocks.
    rows: Index,
    /// In shared memory: how many parts there were before the block's own.
    before: Tensor,
}

/// How the blocks of a cluster give their parts to the first of them.
#[derive(Clone)]
struct ClusterParts {
    /// The rank of the block in its cluster.
    rank: Index,
    /// In shared memory of the first block: (the other blocks, threads that have results, results of each).
    slots: Tensor,
    /// The place of the thread's results.
    place: Index,
}

/// The bytes of the parts that a thread of the last block to finish has on their way at once, without a stated number of blocks and
/// at most.
pub(super) const PARTS_BYTES: i64 = 256;
const MOST_PARTS_BYTES: i64 = 512;
const MOST_LOADS: i64 = 16;

/// The registers of a multiprocessor, and the most of a thread.
const REGISTERS: i64 = 1 << 16;
const THREAD_REGISTERS: i64 = 256;

/// What a thread carries from element to element, one for each place of a vector.
#[allow(
    clippy::large_enum_variant,
    reason = "it lives while the kernel is built"
)]
enum Carry {
    /// A sum, or the best of integers.
    One(Fragment),
    /// The best of floats, in the type of the elements where one instruction compares two pairs of them.
    Best(Fragment),
    /// The best element with its index.
    Indexed(Fragment, Fragment),
}

/// The bits of a number without its sign.
const MAGNITUDE: i32 = i32::MAX;

/// The copy whose parts of a tile are the results of the threads.
fn copy_of_lanes(plan: &ReducePlan) -> Result<TiledCopy, Error> {
    let ReducePlan {
        rows,
        across,
        along,
        ..
    } = *plan;
    let places = plan.places();
    let bits = i64::from(plan.operands.ty.bits());
    let threads = Layout::new((rows, across, along), (across * along, along, 1))?;
    let values = Layout::new((1, 1, places), (0, 0, 1))?;
    Ok(TiledCopy::new(
        universal(bits * places),
        bits,
        &threads,
        &values,
    )?)
}

/// Builds the kernel.
pub(crate) fn build(plan: &ReducePlan, arch: Arch) -> Result<TensorKernel, Error> {
    let operands = &plan.operands;
    let name = match operands.stage {
        ReduceStage::Whole => "reduce",
        ReduceStage::Part => "reduce_part",
        ReduceStage::Combine => "reduce_combine",
    };
    let mut k = Builder::new(name, arch, plan.threads() as u32);
    if plan.min_blocks > 0 {
        k.min_blocks(plan.min_blocks as u32);
    }
    let layouts = ReduceProblem::like(operands).layouts(2)?;
    let x = k.tensor("x", operands.ty, &layouts[0]);
    let y = k.tensor("y", operands.result, &layouts[1]);
    let values = operands
        .values
        .map(|ty| k.tensor("values", ty, &layouts[2]));
    let combining = plan.combining();
    let shared = if plan.joins() {
        let like = ReduceProblem::like(operands);
        let (parts, arrived) = (like.parts_layout(plan.stored_parts())?, counters(2, 2)?);
        let ty = operands.function.part_ty(operands.ty);
        let (parts, arrived) = (
            k.tensor("parts", ty, &parts),
            k.tensor("arrived", Ty::U32, &arrived),
        );
        Some((parts, arrived, k.shared_tensor(Ty::U32, "1:1")))
    } else {
        None
    };
    let run = if plan.shifted {
        Some(k.tensor("run", operands.ty, &one_run(1 << 16)?))
    } else {
        None
    };
    let is_mean = operands.function == ReduceFunction::Mean && operands.stage != ReduceStage::Part;
    let count = is_mean.then(|| {
        let register = k.scalar_argument("count", Type::F32);
        Expr::register(register, Ty::F32)
    });
    let block = k.block_index(0);
    let most = plan.most_blocks().min((1 << 31) - 1);
    let block = k.within(block, 0..most);
    let thread = k.thread();
    let extents = [1, 2].map(|mode| k.within(x.extent(mode), 1..MOST + 1));
    let kernel = ReduceKernel {
        plan,
        x,
        y,
        values,
        extents,
        row: (&block / plan.parts) * plan.rows + &thread / (plan.across * plan.along),
        across: &thread / plan.along % plan.across,
        along: &thread % plan.along,
        part: &block % plan.parts,
        count,
        joint: shared.map(|(parts, arrived, before)| Joint {
            plan: &combining,
            parts,
            arrived,
            rows: &block / plan.parts,
            before,
        }),
        run,
        of_lanes: copy_of_lanes(plan)?,
        has_nan: arch >= Arch::Sm80,
        meeting: meeting(&mut k, plan)?,
    };
    if operands.keeps_inner {
        // A launch has at most 65535 blocks along its second axis: beyond that, a block has several tiles.
        let first = k.block_index(1);
        let first = k.within(first, 0..MOST_COLUMNS);
        let step = k.grid_extent(1);
        let step = k.within(step, 1..MOST_COLUMNS + 1);
        let tile = plan.along * plan.vector;
        let tiles = (&kernel.extents[1] + (tile - 1)) / tile;
        k.for_(first, &tiles, &step, |k, number| {
            let inner = number * tile + &kernel.along * plan.vector;
            kernel.result(k, &inner, number);
            if kernel.meeting.is_some() {
                // The first block has read its shared memory before others write there again.
                let is_next = k.less(&(number + &step), &tiles);
                k.if_(is_next, |k| arrive_at_cluster(k, ClusterOrder::Release));
            }
        });
    } else {
        let zero = Index::constant(0);
        kernel.result(&mut k, &zero, &zero);
    }
    k.finish()
}

/// The blocks of a cluster, and its shared memory.
fn meeting(k: &mut Builder, plan: &ReducePlan) -> Result<Option<ClusterParts>, Error> {
    if plan.cluster == 1 {
        return Ok(None);
    }
    let cluster = plan.cluster as u32;
    k.cluster([cluster, 1, 1]);
    let [threads, results] = plan.results_of_threads();
    let slots = Layout::new(
        (plan.cluster - 1, threads, results),
        (threads * results, results, 1),
    )?;
    let thread = k.thread();
    let row = &thread / (plan.across * plan.along);
    let place = if plan.operands.keeps_inner {
        row * plan.along + &thread % plan.along
    } else {
        row
    };
    let meeting = ClusterParts {
        rank: k.cluster_rank(cluster),
        slots: k.shared_tensor(slot_ty(plan), slots.to_static()),
        place,
    };
    // A block must have begun before others write into its shared memory.
    arrive_at_cluster(k, ClusterOrder::Relaxed);
    Ok(Some(meeting))
}

/// Arrives at the cluster's barrier, without a wait.
fn arrive_at_cluster(k: &mut Builder, order: ClusterOrder) {
    k.emit(|ir| ir.push(Synchronise::ClusterArrive { order }));
}

/// The type of what is combined over the blocks of a cluster: sums, best elements, or keys. A register goes there as a whole, so a single
/// element of 16 bits goes as `f32`.
pub(super) fn slot_ty(plan: &ReducePlan) -> Ty {
    let ReduceOperands { function, ty, .. } = plan.operands;
    let [_, results] = plan.results_of_threads();
    if function.is_index() {
        Ty::S64
    } else if function.is_best() && ty.bits() == 16 && results > 1 {
        ty
    } else if ty.is_integer() || function.is_best() && ty.bits() == 32 {
        Ty::S32
    } else {
        Ty::F32
    }
}

/// The layout of rows one after the other, as one mode.
pub(super) fn one_run(elements: i64) -> Result<Layout, colex_layout::Error> {
    Layout::concat(&[Layout::leaf(Int::Dynamic(elements), Int::Static(1))?])
}

/// The layout of the counters of blocks that share results: (rows of blocks, tiles of each).
pub(super) fn counters(rows: i64, tiles: i64) -> Result<Layout, colex_layout::Error> {
    let rows = Layout::leaf(Int::Dynamic(rows), Int::Dynamic(tiles))?;
    Layout::concat(&[rows, Layout::leaf(Int::Dynamic(tiles), Int::Static(1))?])
}

/// The bytes of the parts that a thread of the last block to finish has on their way at once: half of its registers, if the plan says how
/// many blocks a multiprocessor must hold.
fn parts_bytes(plan: &ReducePlan) -> i64 {
    if plan.min_blocks == 0 {
        return PARTS_BYTES;
    }
    let registers = REGISTERS / (plan.threads() * plan.min_blocks);
    let half = registers.min(THREAD_REGISTERS) / 2 * 4;
    half.clamp(PARTS_BYTES, MOST_PARTS_BYTES)
}

/// The copy of `bits` bits.
fn universal(bits: i64) -> CopyAtom {
    let name = format!("UniversalCopy<uint{bits}_t>");
    colex_atom::copy(&name).expect("8 to 128 bits are in the table")
}

/// The order of the bits of floats as integers, and back.
fn turned(bits: &Expr) -> Expr {
    bits ^ (bits >> 31 & MAGNITUDE)
}

/// `count` elements, `at_once` by each load from a place of theirs on.
fn loaded(
    k: &mut Builder,
    ty: Ty,
    [count, at_once]: [i64; 2],
    at: impl Fn(i64) -> Elements,
) -> Fragment {
    let line = Layout::column_major(count).expect("a vector has elements");
    if count == at_once {
        return k.gather(&at(0)).with_layout(line.to_static());
    }
    let all = k.fragment(ty, line.to_static());
    for place in (0..count).step_by(at_once as usize) {
        let x = k.gather(&at(place));
        let to = all.values(place, at_once);
        k.assign(&to, x.with_layout(to.layout()));
    }
    all
}

/// The same bits as numbers of another type of 32 bits.
fn bits_as(k: &mut Builder, from: &Fragment, ty: Ty) -> Fragment {
    let layout = Layout::column_major(from.layout().size());
    let to = k.fragment(ty, layout.expect("a fragment has elements").to_static());
    k.emit(|ir| {
        for (to, from) in to.regs().iter().zip(from.regs()) {
            ir.mov_to(*to, *from);
        }
    });
    to
}

/// Whether an element comes before the best one so far. A NaN comes before all numbers, and nothing before a NaN.
fn is_better(function: ReduceFunction, x: &Expr, best: &Fragment) -> Mask {
    let best = Expr::from(best);
    if function == ReduceFunction::AbsMax {
        // A NaN is larger than nothing.
        return x.gt(best);
    }
    let is_float = x.ty().is_some_and(|ty| !ty.is_integer());
    match (function.is_largest(), is_float) {
        (true, true) => !x.le(&best) & best.equals(&best),
        (false, true) => !x.ge(&best) & best.equals(&best),
        (true, false) => x.gt(best),
        (false, false) => x.lt(best),
    }
}

impl ReduceKernel<'_> {
    fn operands(&self) -> &ReduceOperands {
        &self.plan.operands
    }

    fn function(&self) -> ReduceFunction {
        self.plan.operands.function
    }

    /// Whether the best elements are floats of 16 bits that stay two in a register until they are stored.
    fn is_packed(&self) -> bool {
        self.has_nan && self.function().is_best() && self.operands().ty.bits() == 16
    }

    /// The operation that combines keys.
    fn best(&self) -> BinaryOp {
        if self.function().is_largest() {
            Max
        } else {
            Min
        }
    }

    /// The operation that combines sums, keys, or floats in pairs.
    fn op(&self) -> BinaryOp {
        match self.function() {
            function if function.is_sum() => Add,
            ReduceFunction::Max if self.is_packed() => MaxNan,
            ReduceFunction::Min if self.is_packed() => MinNan,
            // A number comes before a NaN.
            _ => self.best(),
        }
    }

    /// The type in which elements are computed.
    fn wide(&self) -> Ty {
        match self.operands().ty {
            Ty::S64 => Ty::S64,
            ty if ty.is_integer() => Ty::S32,
            _ => Ty::F32,
        }
    }

    /// Registers for each place of a vector, with a number that loses against every element.
    fn carry(&self, k: &mut Builder) -> Carry {
        let vector = self.plan.vector;
        let layout = Layout::column_major(vector)
            .expect("a vector has elements")
            .to_static();
        let wide = self.wide();
        let is_best = wide == Ty::F32 && self.function().is_best();
        let held = if is_best && self.has_nan {
            self.operands().ty
        } else {
            wide
        };
        let acc = k.fragment(held, &layout);
        let is_largest = self.function().is_largest();
        let first = match wide {
            _ if self.function().is_sum() => Expr::from(0),
            _ if self.function() == ReduceFunction::AbsMax => Expr::from(0),
            Ty::F32 if is_largest => Expr::from(f64::NEG_INFINITY),
            Ty::F32 => Expr::from(f64::INFINITY),
            Ty::S64 if is_largest => Expr::from(i64::MIN),
            Ty::S64 => Expr::from(i64::MAX),
            _ if is_largest => Expr::from(i32::MIN),
            _ => Expr::from(i32::MAX),
        };
        k.assign(&acc, first);
        if self.function().is_index() && wide != Ty::S64 {
            // The number that loses stays only if all elements are equal to it: the first of them has the index 0.
            let indices = k.fragment(Ty::S32, &layout);
            k.fill(&indices, 0.0);
            return Carry::Indexed(acc, indices);
        }
        if is_best {
            Carry::Best(acc)
        } else {
            Carry::One(acc)
        }
    }

    /// The vector at a place.
    fn load(&self, k: &mut Builder, reduced: &Index, inner: &Index) -> Fragment {
        let at = self.x.elements((&self.row, reduced, inner));
        k.gather(&at.vectors(2, self.plan.vector))
    }

    /// Takes a vector into what is carried.
    fn take(&self, k: &mut Builder, carry: &Carry, x: &Fragment, [reduced, inner]: [&Index; 2]) {
        let keeps = self.operands().keeps_inner;
        let inside = |k: &mut Builder| {
            let inside = k.less(reduced, &self.extents[0]);
            if keeps {
                return inside;
            }
            let along = k.less(inner, &self.extents[1]);
            k.both(inside, along)
        };
        let number = |place: i64| {
            if keeps {
                reduced.clone()
            } else {
                inner + place
            }
        };
        self.take_where(k, carry, x, inside, number);
    }

    /// Takes a vector into what is carried, where its elements are inside; elsewhere they are 0. `number` is that of the element at a
    /// place of the vector.
    fn take_where(
        &self,
        k: &mut Builder,
        carry: &Carry,
        x: &Fragment,
        inside: impl FnOnce(&mut Builder) -> Cond,
        number: impl Fn(i64) -> Index,
    ) {
        let function = self.function();
        let wide = Expr::from(x).to(self.wide());
        let wide = match function {
            ReduceFunction::AbsMax => wide.abs(),
            _ => wide,
        };
        let is_combined = self.operands().stage == ReduceStage::Combine;
        if function.is_sum() {
            let Carry::One(acc) = carry else {
                return;
            };
            // Elements outside of the tensor are 0.
            return if function.is_of_squares() && !is_combined {
                k.assign(acc, wide.fma(&wide, acc));
            } else {
                k.assign(acc, Expr::from(acc) + wide);
            };
        }
        // Sizes ahead of the condition, so that one instruction for each pair is under it.
        let sizes = match carry {
            Carry::Best(_) if self.has_nan && function == ReduceFunction::AbsMax => {
                k.map(Expr::from(x).abs())
            }
            _ => x.clone(),
        };
        let inside = inside(k);
        k.if_(inside, |k| match carry {
            Carry::One(acc) => k.assign(acc, Expr::binary(self.best(), acc, &wide)),
            Carry::Best(acc) if self.has_nan => {
                let x = Expr::from(&sizes);
                let best = match function {
                    // A number comes before a NaN.
                    ReduceFunction::AbsMax => x.max(acc),
                    ReduceFunction::Max => x.max_nan(acc),
                    _ => x.min_nan(acc),
                };
                k.assign(acc, best);
            }
            Carry::Best(acc) => {
                let better = is_better(function, &wide, acc);
                k.assign(acc, better.select(&wide, acc));
            }
            Carry::Indexed(acc, indices) if self.has_nan && x.ty().bits() == 16 => {
                // Of both zeros one, and in the same bits, so that a change of the best element is one of its bits.
                let x = k.map(Expr::from(x) + 0.0);
                let x = Expr::from(&x).to(Ty::F32);
                let best = if function.is_largest() {
                    x.max_nan(acc)
                } else {
                    x.min_nan(acc)
                };
                let [best, old] = [best, Expr::from(acc)].map(|x| k.map(x));
                let [new, old] = [&best, &old].map(|x| bits_as(k, x, Ty::S32));
                for place in 0..best.layout().size() {
                    let index = indices.values(place, 1);
                    let [new, old] = [&new, &old].map(|bits| bits.values(place, 1));
                    let is_new = Expr::from(&new).differs(&old);
                    k.assign(&index, is_new.select(Expr::from(number(place)), &index));
                }
                k.assign(acc, &best);
            }
            Carry::Indexed(acc, indices) => {
                for place in 0..x.layout().size() {
                    let x = Expr::from(x.values(place, 1)).to(self.wide());
                    let (acc, index) = (acc.values(place, 1), indices.values(place, 1));
                    let number = number(place);
                    let better = is_better(function, &x, &acc);
                    k.assign(&index, better.select(Expr::from(number), &index));
                    k.assign(&acc, better.select(x, &acc));
                }
            }
        });
    }

    /// One turn: all loads of it, then the elements in their order.
    fn turn(&self, k: &mut Builder, carry: &Carry, at: impl Fn(i64) -> [Index; 2]) {
        let places: Vec<[Index; 2]> = (0..self.plan.accesses).map(at).collect();
        let loaded = self.loads(k, &places);
        self.take_all(k, carry, &loaded, &places);
    }

    fn loads(&self, k: &mut Builder, places: &[[Index; 2]]) -> Vec<Fragment> {
        let all = places.iter();
        all.map(|[reduced, inner]| self.load(k, reduced, inner))
            .collect()
    }

    fn take_all(&self, k: &mut Builder, carry: &Carry, all: &[Fragment], places: &[[Index; 2]]) {
        for (x, [reduced, inner]) in all.iter().zip(places) {
            self.take(k, carry, x, [reduced, inner]);
        }
    }

    /// Turns of which the next one is loaded while the elements of one are taken. A turn behind the last one has no element.
    fn prefetched(
        &self,
        k: &mut Builder,
        carry: &Carry,
        turns: &Index,
        places: impl Fn(&Index) -> Vec<[Index; 2]>,
    ) {
        let parts = self.plan.parts;
        // The loads of two turns in turn, so that no register is copied.
        let even = self.loads(k, &places(&self.part));
        k.for_(&self.part, turns, 2 * parts, |k, turn| {
            let [own, next, after] = [0, 1, 2].map(|i| places(&(turn + i * parts)));
            let odd = self.loads(k, &next);
            self.take_all(k, carry, &even, &own);
            let further = self.loads(k, &after);
            for (even, further) in even.iter().zip(&further) {
                k.assign(even, further);
            }
            self.take_all(k, carry, &odd, &next);
        });
    }

    /// Takes all elements of the thread; `inner` is its place along an inner mode that is kept.
    fn elements(&self, k: &mut Builder, carry: &Carry, inner: &Index) {
        let ReducePlan {
            vector,
            across,
            along,
            parts,
            ..
        } = *self.plan;
        let chunk = self.plan.chunk();
        let [reduced, extent] = &self.extents;
        if self.plan.turns_inner {
            let turns = (extent + (chunk - 1)) / chunk;
            let outer = (reduced + (across - 1)) / across;
            let (all, own) = ((Index::constant(0), 1), (self.part.clone(), parts));
            let ((first, step), (line, lines)) = if self.plan.parts_inner {
                (own, all)
            } else {
                (all, own)
            };
            k.for_(line, outer, lines, |k, number| {
                let reduced = number * across + &self.across;
                k.for_(&first, &turns, step, |k, turn| {
                    let first = turn * chunk + &self.along * vector;
                    self.turn(k, carry, |access| {
                        [reduced.clone(), &first + access * (along * vector)]
                    });
                });
            });
        } else {
            let turns = (reduced + (chunk - 1)) / chunk;
            let inner = if self.operands().keeps_inner {
                inner.clone()
            } else {
                &self.along * vector
            };
            let place = |turn: &Index, access: i64| {
                let first = turn * chunk + &self.across;
                [first + access * across, inner.clone()]
            };
            if self.plan.prefetches {
                let all = 0..self.plan.accesses;
                let places = |turn: &Index| all.clone().map(|i| place(turn, i)).collect();
                return self.prefetched(k, carry, &turns, places);
            }
            k.for_(&self.part, &turns, parts, |k, turn| {
                self.turn(k, carry, |access| place(turn, access));
            });
        }
    }

    /// Takes all elements of the thread of a row that begins anywhere: vectors at multiples of their size in memory, and the elements at
    /// both ends of the row, fewer than a vector each, one by one. Indices are taken in ascending order.
    fn shifted_elements(&self, k: &mut Builder, run: &Tensor, carry: &Carry) {
        let ReducePlan {
            vector,
            along,
            accesses,
            parts,
            ..
        } = *self.plan;
        let all = k.within(run.extent(0), 1..MOST_SHIFTED + 1);
        let rows = k.within(self.x.extent(0), 1..MOST + 1);
        let columns = &self.extents[1];
        let first = k.within(self.row.min(&(rows - 1)) * columns, 0..MOST_SHIFTED);
        let end = (&first + columns).min(&all);
        // Vectors from `begin` to `stop` are inside, and elements up to `head` and from `tail` on are not in them.
        let begin = (&first + (vector - 1)) / vector;
        let stop = &end / vector;
        let head = (&begin * vector).min(&end);
        let tail = Index::select_less(&(&stop * vector), &head, &head, &(&stop * vector));
        let is_first = k.equal(&self.part, &0.into());
        let before_tail = k.within(&tail - &first, 0..MOST + 1);
        let edges = [
            (&first, &head, Index::constant(0)),
            (&tail, &end, before_tail),
        ];
        let edges = edges.map(|(from, to, before)| {
            let at = from + &self.along;
            let (is_there, is_lane) = (k.less(&at, to), k.less(&self.along, &vector.into()));
            let is_there = k.both(is_there, is_lane);
            let is_there = k.both(is_there, is_first);
            let element = run.elements(&at).outside(Outside::Stated);
            let x = k.gather(&element.only(Mask::from(is_there)));
            (x, before + &self.along, is_there)
        });
        let line = |n: i64| Layout::column_major(n).expect("a vector").to_static();
        let edge = |k: &mut Builder, (x, number, is_there): &(Fragment, Index, Cond)| {
            let one = match carry {
                Carry::One(acc) => Carry::One(acc.values(0, 1)),
                Carry::Best(acc) => Carry::Best(acc.values(0, 1)),
                Carry::Indexed(acc, indices) => {
                    Carry::Indexed(acc.values(0, 1), indices.values(0, 1))
                }
            };
            let x = x.with_layout(line(1));
            self.take_where(k, &one, &x, |_| *is_there, |_| number.clone());
        };
        edge(k, &edges[0]);
        let chunk = along * accesses;
        let vectors = Index::select_less(&begin, &stop, &(&stop - &begin), &0.into());
        let vectors = k.within(vectors, 0..MOST / vector + 1);
        let lead = k.within(&begin * vector - &first, 0..vector);
        let turns = (&vectors + (chunk - 1)) / chunk;
        k.for_(&self.part, turns, parts, |k, turn| {
            let mut loaded = Vec::new();
            for access in 0..accesses {
                let number = turn * chunk + access * along + &self.along;
                let is_inside = k.less(&number, &vectors);
                let at = run.elements((&begin + &number) * vector).vectors(0, vector);
                let at = at.outside(Outside::Stated).only(Mask::from(is_inside));
                loaded.push((k.gather(&at), number, is_inside));
            }
            for (x, number, is_inside) in loaded {
                let x = x.with_layout(line(vector));
                let place = |place: i64| &number * vector + &lead + place;
                self.take_where(k, carry, &x, |_| is_inside, place);
            }
        });
        edge(k, &edges[1]);
    }

    /// What is combined over threads: the sums, the best elements in pairs, or the keys.
    fn keys(&self, k: &mut Builder, carry: &Carry) -> Fragment {
        let is_largest = self.function().is_largest();
        let ordered = |k: &mut Builder, best: &Fragment| {
            if best.ty().is_integer() {
                return Expr::from(best);
            }
            // Adding 0 makes one zero of both.
            let number = k.map(Expr::from(best) + 0.0);
            let key = turned(&Expr::from(bits_as(k, &number, Ty::S32)));
            let last = if is_largest { i32::MAX } else { i32::MIN };
            Expr::from(best).differs(best).select(last, key)
        };
        match carry {
            Carry::One(acc) => acc.clone(),
            Carry::Best(best) if self.is_packed() => best.clone(),
            Carry::Best(best) => {
                let wide = k.map(Expr::from(best).to(Ty::F32));
                let key = ordered(k, &wide);
                k.map(key)
            }
            Carry::Indexed(best, indices) => {
                let key = ordered(k, best);
                let index = if is_largest {
                    Expr::from(MAGNITUDE) - indices
                } else {
                    Expr::from(indices)
                };
                k.map(key.to(Ty::S64) * (1_i64 << 32) + index.to(Ty::S64))
            }
        }
    }

    /// The results of the threads of a block, and their store. `tile` is the number of the tile along an inner mode that is kept.
    fn result(&self, k: &mut Builder, inner: &Index, tile: &Index) {
        let carry = self.carry(k);
        match &self.run {
            Some(run) => self.shifted_elements(k, run, &carry),
            None => self.elements(k, &carry, inner),
        }
        let all = self.combined(k, &carry, self);
        let mut writes = Expr::from(&self.across).equals(0);
        if !self.operands().keeps_inner {
            writes = writes & Expr::from(&self.along).equals(0);
        }
        let Some(meeting) = &self.meeting else {
            return self.store_shared(k, &all, [inner, tile], writes);
        };
        let slot_ty = slot_ty(self.plan);
        let all = if all.ty() == slot_ty {
            all
        } else {
            k.map(Expr::from(&all).to(slot_ty))
        };
        let all = self.met(k, meeting, &all, &writes);
        let is_first = k.equal(&meeting.rank, &0.into());
        k.if_(is_first, |k| {
            self.store_shared(k, &all, [inner, tile], writes);
        });
    }

    /// Stores the results of a block, or of a cluster in its first block; what other blocks share, the block stores that comes last.
    fn store_shared(
        &self,
        k: &mut Builder,
        all: &Fragment,
        [inner, tile]: [&Index; 2],
        writes: Mask,
    ) {
        let Some(joint) = &self.joint else {
            return self.store(k, all, inner, &writes);
        };
        self.put_part(k, &joint.parts, all, inner, &writes);
        let is_last = self.arrive(k, joint, tile);
        let all = self.joined(k, joint, inner, &is_last);
        self.store(k, &all, inner, &(writes & is_last));
    }

    /// The sums, best elements or keys of a cluster, in the threads of its first block that write; in other blocks those of the block.
    ///
    /// The first wait is for the arrival at the beginning of the kernel, so that the first block has begun, or for that after the tile
    /// before. The barrier of the cluster between the stores and the loads releases and acquires.
    fn met(
        &self,
        k: &mut Builder,
        meeting: &ClusterParts,
        all: &Fragment,
        writes: &Mask,
    ) -> Fragment {
        let results = all.layout().size();
        let bits = i64::from(all.ty().bits());
        let at_once = results.min(WIDEST * 8 / bits);
        let of_block = self.plan.results_of_threads().iter().product::<i64>() * bits / 8;
        let writer = k.condition(writes.clone());
        let is_other = k.less(&0.into(), &meeting.rank);
        let gives = k.both(writer, is_other);
        let slots = &meeting.slots;
        k.emit(|ir| ir.push(Synchronise::ClusterWait));
        k.if_(gives, |k| {
            let own = k.addresses(&slots.elements((0, &meeting.place, 0)));
            let before = k.value(&(&meeting.rank * of_block - of_block));
            k.emit(|ir| {
                let first = ir.mapa(own.regs()[0], 0);
                let to = Address::from(ir.add(Type::U32, first, before));
                let regs = all.regs().chunks((at_once / all.packed()) as usize);
                for (i, regs) in (0..).zip(regs) {
                    let access = Access::new(Space::Cluster, Type::untyped(regs[0].ty));
                    ir.store_vector(access, to.at(i * WIDEST), regs);
                }
            });
        });
        k.cluster_sync();
        let total = k.map(all);
        let is_first = k.equal(&meeting.rank, &0.into());
        let takes = k.both(writer, is_first);
        k.if_(takes, |k| {
            let loaded: Vec<Fragment> = (0..self.plan.cluster - 1)
                .map(|other| {
                    loaded(k, all.ty(), [results, at_once], |place| {
                        let at = slots.elements((other, &meeting.place, place));
                        at.vectors(2, at_once)
                    })
                })
                .collect();
            for x in &loaded {
                k.assign(&total, Expr::binary(self.op(), &total, x));
            }
        });
        total
    }

    /// The sums, best elements or keys of all threads that share a result, which lie as those of the elements in the kernel `of`.
    fn combined(&self, k: &mut Builder, carry: &Carry, of: &ReduceKernel<'_>) -> Fragment {
        let mut all = self.keys(k, carry);
        let op = self.op();
        let keeps = self.operands().keeps_inner;
        if !keeps {
            while self.is_packed() && all.layout().size() > 2 {
                let half = all.layout().size() / 2;
                let [low, high] = [all.values(0, half), all.values(half, half)];
                all = k.map(Expr::binary(op, &low, &high));
            }
            all = k.reduce_all(op, &all);
        }
        let lanes = of.lanes(k);
        if self.plan.across > 1 {
            all = k.reduce_along(op, &all, &lanes, 1);
        }
        if !keeps && self.plan.along > 1 {
            all = k.reduce_along(op, &all, &lanes, 2);
        }
        all
    }

    /// Counts the block's part, and tells whether it is the last one of the tile.
    ///
    /// All threads have stored their part before the barrier. So the increment, which the first thread makes, releases the stores of
    /// all of them, and what it acquires, the threads behind the second barrier see. The increment of the last block makes the
    /// counter 0 again, for the next launch.
    fn arrive(&self, k: &mut Builder, joint: &Joint<'_>, tile: &Index) -> Mask {
        let last = self.plan.stored_parts() - 1;
        let thread = k.thread();
        let is_first = Expr::from(&thread).equals(0);
        k.sync();
        let counter = joint.arrived.elements((&joint.rows, tile));
        let counter = counter.ordered(Order::AcqRel(Scope::Gpu));
        let before = k.atomic(AtomicOp::Inc, &counter.only(is_first.clone()), last);
        k.scatter(&before, &joint.before.elements(0).only(is_first));
        k.sync();
        let before = k.gather(&joint.before.elements(0));
        Expr::from(&before).equals(last)
    }

    /// The sums, best elements or keys of all parts, in the last block to finish. The threads that share a result have every `n`-th part
    /// each.
    fn joined(
        &self,
        k: &mut Builder,
        joint: &Joint<'_>,
        inner: &Index,
        is_last: &Mask,
    ) -> Fragment {
        let ReducePlan {
            vector,
            across,
            along,
            parts,
            ..
        } = *joint.plan;
        let adds = ReduceKernel {
            plan: joint.plan,
            x: self.x.clone(),
            y: self.y.clone(),
            values: None,
            extents: [Index::constant(parts), self.extents[1].clone()],
            row: self.row.clone(),
            across: self.across.clone(),
            along: self.along.clone(),
            part: self.part.clone(),
            count: None,
            joint: None,
            meeting: None,
            run: None,
            of_lanes: self.of_lanes.clone(),
            has_nan: self.has_nan,
        };
        let carry = adds.carry(k);
        let keeps = self.operands().keeps_inner;
        let (first, step) = if keeps {
            (self.across.clone(), across)
        } else {
            (&self.across * along + &self.along, across * along)
        };
        let bytes = vector * i64::from(joint.plan.operands.ty.bits()) / 8;
        let most = (parts_bytes(self.plan) / bytes).clamp(1, MOST_LOADS);
        let own = div_up(parts, step);
        let turns = div_up(own, most);
        let loads = div_up(own, turns);
        let is_last = k.condition(is_last.clone());
        k.if_(is_last, |k| {
            k.for_(0, turns, 1, |k, turn| {
                let part = |load: i64| (turn * loads + load) * step + &first;
                let parts: Vec<Index> = (0..loads).map(part).collect();
                let loaded: Vec<Fragment> = (parts.iter())
                    .map(|part| adds.load_part(k, &joint.parts, inner, part))
                    .collect();
                for (x, part) in loaded.iter().zip(&parts) {
                    adds.take(k, &carry, x, [part, inner]);
                }
            });
        });
        adds.combined(k, &carry, self)
    }

    /// A part of the thread's results.
    fn load_part(&self, k: &mut Builder, parts: &Tensor, inner: &Index, part: &Index) -> Fragment {
        let ReducePlan {
            vector, operands, ..
        } = *self.plan;
        let at_once = vector.min(WIDEST * 8 / i64::from(operands.ty.bits()));
        loaded(k, operands.ty, [vector, at_once], |place| {
            let at = parts.elements((&self.row, inner + place, part));
            at.vectors(1, at_once)
        })
    }

    /// A part of a tile with one element for each result of a thread, along which threads are combined.
    fn lanes(&self, k: &mut Builder) -> Tensor {
        let ReducePlan { rows, across, .. } = *self.plan;
        let along = self.plan.along * self.plan.places();
        let tile = (self.x).local_tile((rows, across, along), (0, 0, 0));
        let thread = k.thread();
        self.of_lanes.at(&thread).partition_src(&tile) // (CPY, CPY_M, CPY_N, CPY_K)
    }

    /// The sums, or the best elements, which keys are no longer.
    fn numbers(&self, k: &mut Builder, all: &Fragment) -> Fragment {
        if self.function().is_sum() || all.ty() != Ty::S32 || self.wide() != Ty::F32 {
            return all.clone();
        }
        let key = k.map(turned(&Expr::from(all)));
        bits_as(k, &key, Ty::F32)
    }

    /// Makes the results of what was combined, and stores them.
    fn store(&self, k: &mut Builder, all: &Fragment, inner: &Index, writes: &Mask) {
        let function = self.function();
        let all = &k.map(all);
        if self.operands().stage == ReduceStage::Part {
            return self.put_part(k, &self.y, all, inner, writes);
        }
        if function.is_index() {
            let high = k.map((Expr::from(all) >> 32).to(Ty::S32));
            let low = Expr::from(all).to(Ty::S32);
            let index = if function.is_largest() {
                Expr::from(MAGNITUDE) - low
            } else {
                low
            };
            let index = k.map(index.to(self.operands().result));
            self.put(k, &self.y, &index, inner, writes);
            if let (Some(values), Some(ty)) = (&self.values, self.operands().values) {
                let number = if ty.is_integer() {
                    high
                } else {
                    let key = k.map(turned(&Expr::from(&high)));
                    let number = bits_as(k, &key, Ty::F32);
                    k.map(Expr::from(&number).to(ty))
                };
                self.put(k, values, &number, inner, writes);
            }
            return;
        }
        let mut result = Expr::from(&self.numbers(k, all));
        if function.is_best() && all.ty() != Ty::S32 {
            // Adding 0 makes one zero of both.
            result = result + 0.0;
        }
        if let Some(count) = &self.count {
            result = result / count;
        }
        if function == ReduceFunction::Norm {
            result = result.sqrt();
        }
        let result = k.map(result.to(self.operands().result));
        self.put(k, &self.y, &result, inner, writes);
    }

    /// Stores what the block leaves of its results: the sums, or the best elements.
    fn put_part(&self, k: &mut Builder, to: &Tensor, all: &Fragment, inner: &Index, writes: &Mask) {
        let mut number = self.numbers(k, all);
        let ty = self.function().part_ty(self.operands().ty);
        if number.ty() != ty {
            number = k.map(Expr::from(&number).to(ty));
        }
        let stored = if self.joint.is_none() {
            self.operands().stored
        } else if self.operands().keeps_inner {
            WIDEST * 8 / i64::from(number.ty().bits())
        } else {
            1
        };
        let part = &self.part / self.plan.cluster;
        self.put_at_once(k, (to, Some(&part)), &number, (inner, stored), writes);
    }

    /// Stores a result of each place.
    fn put(&self, k: &mut Builder, to: &Tensor, all: &Fragment, inner: &Index, writes: &Mask) {
        self.put_at_once(k, (to, None), all, (inner, self.operands().stored), writes);
    }

    /// Stores a result of each place, some at once, at the number of a part if there is one.
    fn put_at_once(
        &self,
        k: &mut Builder,
        (to, part): (&Tensor, Option<&Index>),
        all: &Fragment,
        (inner, stored): (&Index, i64),
        writes: &Mask,
    ) {
        let count = all.layout().size();
        let stored = stored.min(count);
        for place in (0..count).step_by(stored as usize) {
            let at = [Expr::from(&self.row), Expr::from(inner + place)];
            let at: Vec<Expr> = at.into_iter().chain(part.map(Expr::from)).collect();
            let to = to.elements(at).vectors(1, stored).only(writes.clone());
            k.scatter(all.values(place, stored), &to);
        }
    }
}
