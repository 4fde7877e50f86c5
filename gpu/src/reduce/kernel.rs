//! The kernel of a plan: each thread takes vectors of the inner mode into what it carries, then the threads of a result are
//! combined.
//!
//! A sum is carried as it is. A maximum is combined over threads as a *key*: an integer that is ordered as the floats are, with
//! NaN at the end where it wins. That of an arg-max has the index in its lower half, so that the lower index wins among equals.

use colex_atom::{Arch, CopyAtom, Ty};
use colex_ir::BinaryOp::{self, Add, Max, Min};
use colex_ir::Type;
use colex_layout::Layout;
use colex_tensor::{AtThread, Builder, Error, Expr, Fragment, Index, Mask, Tensor, TensorKernel};
use colex_tiled::TiledCopy;

use super::plan::{MOST_COLUMNS, ReducePlan};
use super::problem::{MOST, ReduceFunction, ReduceOperands, ReduceProblem, ReduceStage};

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
}

/// What a thread carries from element to element, one for each place of a vector.
#[allow(
    clippy::large_enum_variant,
    reason = "it lives while the kernel is built"
)]
enum Carry {
    /// A sum, or the best of integers.
    One(Fragment),
    /// The best of floats.
    Best(Fragment),
    /// The best element with its index.
    Indexed(Fragment, Fragment),
}

/// The bits of a number without its sign.
const MAGNITUDE: i32 = i32::MAX;

/// Builds the kernel.
pub(crate) fn build(plan: &ReducePlan, arch: Arch) -> Result<TensorKernel, Error> {
    let operands = &plan.operands;
    let name = match operands.stage {
        ReduceStage::Whole => "reduce",
        ReduceStage::Part => "reduce_part",
        ReduceStage::Combine => "reduce_combine",
    };
    let mut k = Builder::new(name, arch, plan.threads() as u32);
    let layouts = ReduceProblem::like(operands).layouts(2)?;
    let x = k.tensor("x", operands.ty, &layouts[0]);
    let y = k.tensor("y", operands.result, &layouts[1]);
    let values = operands
        .values
        .map(|ty| k.tensor("values", ty, &layouts[2]));
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
    };
    if operands.keeps_inner {
        // A launch has at most 65535 blocks along its second axis: beyond that, a block has several tiles.
        let first = k.block_index(1);
        let first = k.within(first, 0..MOST_COLUMNS);
        let step = k.grid_extent(1);
        let step = k.within(step, 1..MOST_COLUMNS + 1);
        let tile = plan.along * plan.vector;
        let tiles = (&kernel.extents[1] + (tile - 1)) / tile;
        k.for_(first, tiles, step, |k, number| {
            let inner = number * tile + &kernel.along * plan.vector;
            kernel.result(k, &inner);
        });
    } else {
        kernel.result(&mut k, &Index::constant(0));
    }
    k.finish()
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

    /// The operation that combines keys.
    fn best(&self) -> BinaryOp {
        if self.function().is_largest() {
            Max
        } else {
            Min
        }
    }

    /// The operation that combines what threads carry.
    fn op(&self) -> BinaryOp {
        if self.function().is_sum() {
            Add
        } else {
            self.best()
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
        let acc = k.fragment(wide, &layout);
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
        match wide {
            Ty::F32 if !self.function().is_sum() => Carry::Best(acc),
            _ => Carry::One(acc),
        }
    }

    /// The vector at a place.
    fn load(&self, k: &mut Builder, reduced: &Index, inner: &Index) -> Fragment {
        let at = self.x.elements((&self.row, reduced, inner));
        k.gather(&at.vectors(2, self.plan.vector))
    }

    /// Takes a vector into what is carried.
    fn take(&self, k: &mut Builder, carry: &Carry, x: &Fragment, [reduced, inner]: [&Index; 2]) {
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
        let mut inside = k.less(reduced, &self.extents[0]);
        if !self.operands().keeps_inner {
            let along = k.less(inner, &self.extents[1]);
            inside = k.both(inside, along);
        }
        k.if_(inside, |k| match carry {
            Carry::One(acc) => k.assign(acc, Expr::binary(self.best(), acc, &wide)),
            Carry::Best(acc) => {
                let better = is_better(function, &wide, acc);
                k.assign(acc, better.select(&wide, acc));
            }
            Carry::Indexed(acc, indices) => {
                for place in 0..self.plan.vector {
                    let x = Expr::from(x.values(place, 1)).to(self.wide());
                    let (acc, index) = (acc.values(place, 1), indices.values(place, 1));
                    let number = if self.operands().keeps_inner {
                        reduced.clone()
                    } else {
                        inner + place
                    };
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
        let mut loaded = Vec::new();
        for [reduced, inner] in &places {
            loaded.push(self.load(k, reduced, inner));
        }
        for (x, [reduced, inner]) in loaded.iter().zip(&places) {
            self.take(k, carry, x, [reduced, inner]);
        }
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
            k.for_(&self.part, &turns, parts, |k, turn| {
                let first = turn * chunk + &self.across;
                self.turn(k, carry, |access| [&first + access * across, inner.clone()]);
            });
        }
    }

    /// What is combined over threads: the sums, or the keys.
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
            Carry::Best(best) => {
                let key = ordered(k, best);
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

    /// The results of the threads of a block, and their store.
    fn result(&self, k: &mut Builder, inner: &Index) {
        let carry = self.carry(k);
        self.elements(k, &carry, inner);
        let mut all = self.keys(k, &carry);
        let op = self.op();
        let keeps = self.operands().keeps_inner;
        if !keeps {
            all = k.reduce_all(op, &all);
        }
        if let Some(lanes) = self.lanes(k) {
            if self.plan.across > 1 {
                all = k.reduce_along(op, &all, &lanes, 1);
            }
            if !keeps && self.plan.along > 1 {
                all = k.reduce_along(op, &all, &lanes, 2);
            }
        }
        let mut writes = Expr::from(&self.across).equals(0);
        if !keeps {
            writes = writes & Expr::from(&self.along).equals(0);
        }
        self.store(k, &all, inner, &writes);
    }

    /// A part of a tile with one element for each result of a thread, along which threads are combined.
    fn lanes(&self, k: &mut Builder) -> Option<Tensor> {
        let ReducePlan {
            vector,
            rows,
            across,
            along,
            ..
        } = *self.plan;
        let places = if self.operands().keeps_inner {
            vector
        } else {
            1
        };
        let bits = i64::from(self.operands().ty.bits());
        let threads = Layout::new((rows, across, along), (across * along, along, 1)).ok()?;
        let values = Layout::new((1, 1, places), (0, 0, 1)).ok()?;
        let copy = TiledCopy::new(universal(bits * places), bits, &threads, &values).ok()?;
        let tile = (self.x).local_tile((rows, across, along * places), (0, 0, 0));
        let thread = k.thread();
        Some(copy.at(&thread).partition_src(&tile)) // (CPY, CPY_M, CPY_N, CPY_K)
    }

    /// Makes the results of what was combined, and stores them.
    fn store(&self, k: &mut Builder, all: &Fragment, inner: &Index, writes: &Mask) {
        let function = self.function();
        let all = &k.map(all);
        if self.operands().stage == ReduceStage::Part {
            let number = if function.is_sum() || all.ty() != Ty::S32 || self.wide() != Ty::F32 {
                all.clone()
            } else {
                let key = k.map(turned(&Expr::from(all)));
                bits_as(k, &key, Ty::F32)
            };
            return self.put(k, &self.y, &number, inner, writes);
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
        let number = if function.is_sum() || self.wide() != Ty::F32 {
            all.clone()
        } else {
            let key = k.map(turned(&Expr::from(all)));
            bits_as(k, &key, Ty::F32)
        };
        let mut result = Expr::from(&number);
        if let Some(count) = &self.count {
            result = result / count;
        }
        if function == ReduceFunction::Norm {
            result = result.sqrt();
        }
        let result = k.map(result.to(self.operands().result));
        self.put(k, &self.y, &result, inner, writes);
    }

    /// Stores a result of each place.
    fn put(&self, k: &mut Builder, to: &Tensor, all: &Fragment, inner: &Index, writes: &Mask) {
        let is_part = self.operands().stage == ReduceStage::Part;
        let count = all.layout().size();
        let stored = self.operands().stored.min(count);
        for place in (0..count).step_by(stored as usize) {
            let mut at = vec![Expr::from(&self.row), Expr::from(inner + place)];
            if is_part {
                at.push(Expr::from(&self.part));
            }
            let to = to.elements(at).vectors(1, stored).only(writes.clone());
            k.scatter(all.values(place, stored), &to);
        }
    }
}
