//! Rows that lie beside each other: neighbouring threads take vectors along the rows, so that a warp reads consecutive bytes, and each
//! thread has every n-th column of its rows.
//!
//! A thread carries one total for each row of its vector. The lanes of a warp that have the same rows join them by shuffles, the warps
//! through shared memory, and the blocks of a cluster through each other's shared memory. The first threads of a block have a row each, or
//! several, there: they join what warps and blocks have of it, and all threads take the result.

use colex_atom::{Arch, Ty};
use colex_ir::BinaryOp::{self, Add, Max};
use colex_ir::{Access, ShuffleMode, Space, Type};
use colex_layout::Layout;
use colex_tensor::{
    Builder, Cond, Elements, Error, Expr, Fragment, Index, Mask, Outside, Tensor, TensorKernel,
};

use super::kernel::{changed, joined_powers, name, pivot, quotient, under};
use super::plan::RowwisePlan;
use super::problem::{MOST, RowFunction, RowTensor, RowwiseProblem};
use crate::memory_bound::plan::WARP;
use crate::memory_bound::span::renew;

/// A kernel that is being built.
struct TurnedKernel<'a> {
    plan: &'a RowwisePlan,
    tensors: Vec<(RowTensor, Tensor)>,
    thread: Index,
    /// The numbers of the thread along the rows and along the columns, and the rank of the block among those of a row.
    across: Index,
    along: Index,
    rank: Index,
    /// The first of the thread's rows: the number of the other modes, and the place in the mode of rows beside each other.
    outer: Index,
    inner: Index,
    /// The columns of a row.
    columns: Index,
    epsilon: Option<Expr>,
    meeting: Option<TurnedMeeting>,
}

/// Shared memory for the totals of rows.
struct TurnedMeeting {
    /// Those of warps: (row, total, warps along the columns).
    of_warps: Tensor,
    /// Those of the block, for other blocks of the cluster: (row, total, meeting). A block that is ahead has memory of its own for the
    /// second meeting.
    of_block: Tensor,
    /// Those of the row: (row, total).
    of_row: Tensor,
}

/// A column of a thread, and whether a row has it.
struct Column {
    number: Index,
    exists: Cond,
}

/// The results of an element, from what the row has in common.
type Results = Box<dyn Fn(Expr) -> Expr>;

/// The loads that come before the stores of as many results: a load behind a store waits for it, since both may have one address.
const AT_ONCE: usize = 4;

/// The widest access to shared memory, in numbers.
const MOST_NUMBERS: i64 = 4;

/// Builds the kernel. `again` says that rows are read again for the results.
pub(super) fn build(plan: &RowwisePlan, arch: Arch, again: bool) -> Result<TensorKernel, Error> {
    let operands = &plan.operands;
    let name = format!("{}_turned", name(operands.function));
    let mut k = Builder::new(&name, arch, plan.threads_of_block() as u32);
    if plan.blocks > 1 {
        k.cluster([plan.blocks as u32, 1, 1]);
    }
    k.min_blocks(plan.beside(arch) as u32);
    let layouts = RowwiseProblem::like(operands).turned_layouts()?;
    let named = operands.tensors().zip(&layouts);
    let tensors: Vec<_> = named
        .map(|(tensor, layout)| (tensor, k.tensor(tensor.name(), operands.ty, layout)))
        .collect();
    let epsilon = operands.function.is_norm().then(|| {
        let register = k.scalar_argument("epsilon", Type::F32);
        Expr::register(register, Ty::F32)
    });
    let x = &tensors[0].1;
    let [columns, rows] = [1, 2].map(|mode| k.within(x.extent(mode), 1..MOST + 1));
    let (thread, block) = (k.thread(), k.block_index(0));
    let block = k.within(block, 0..MOST * plan.blocks);
    let tiles = (&rows + (plan.rows - 1)) / plan.rows;
    let (tile, tiles) = (k.value(&(&block / plan.blocks)), k.operand(&tiles));
    let [outer, tile] = k.emit(|ir| {
        let outer = ir.div(Type::U32, tile, tiles);
        [outer, ir.rem(Type::U32, tile, tiles)]
    });
    let [outer, tile] = [outer, tile].map(|number| k.index_of(number, 0..MOST));
    let across = plan.across();
    let inner = tile * plan.rows + &thread % across * plan.vector;
    let kernel = TurnedKernel {
        plan,
        across: &thread % across,
        along: &thread / across,
        rank: &block % plan.blocks,
        outer,
        inner,
        columns,
        epsilon,
        meeting: plan.meeting_layouts()?.map(|layouts| {
            let [of_warps, of_block, of_row] =
                layouts.map(|layout| k.shared_tensor(Ty::F32, layout.to_static()));
            TurnedMeeting {
                of_warps,
                of_block,
                of_row,
            }
        }),
        thread,
        tensors,
    };
    if again {
        kernel.of_passes(&mut k);
    } else {
        kernel.of_registers(&mut k);
    }
    if plan.blocks > 1 {
        // A block that ends takes its shared memory with it, and another one may still read its totals.
        k.cluster_sync();
    }
    k.finish()
}

/// The layout of numbers in a line.
fn line(count: i64) -> Layout {
    let line = Layout::column_major(count).expect("a vector has elements");
    line.to_static()
}

/// Elements in `f32`.
fn wide(x: &Fragment) -> Expr {
    Expr::from(x).to(Ty::F32)
}

/// Numbers of a line in memory, by vectors.
fn pieces(count: i64) -> impl Iterator<Item = [i64; 2]> {
    let at_once = count.min(MOST_NUMBERS);
    (0..count)
        .step_by(at_once as usize)
        .map(move |first| [first, at_once])
}

impl TurnedKernel<'_> {
    fn tensor(&self, which: RowTensor) -> Option<&Tensor> {
        let mut all = self.tensors.iter();
        all.find(|(tensor, _)| *tensor == which).map(|(_, of)| of)
    }

    /// One number for each row of the thread.
    fn numbers(&self, k: &mut Builder, value: f64) -> Fragment {
        let numbers = k.fragment(Ty::F32, line(self.plan.vector));
        k.fill(&numbers, value);
        numbers
    }

    /// The columns of the thread in a turn.
    fn columns_of(&self, k: &mut Builder, turn: &Index) -> Vec<Column> {
        let first = (turn * self.plan.blocks + &self.rank) * self.plan.chunk() + &self.along;
        let column = |i: i64| {
            let number = &first + i * self.plan.threads;
            let exists = k.less(&number, &self.columns);
            Column { number, exists }
        };
        (0..self.plan.accesses).map(column).collect()
    }

    /// The elements of the thread's rows in a column. A thread whose rows do not exist computes with the zeros that arrive for them, and
    /// stores nothing.
    fn at(&self, of: &Tensor, column: &Column) -> Elements {
        let at = of.elements((&self.outer, &column.number, &self.inner));
        at.vectors(2, self.plan.vector)
    }

    fn load(&self, k: &mut Builder, of: RowTensor, columns: &[Column]) -> Vec<Fragment> {
        let of = self.tensor(of).expect("the kernel has the tensor");
        let load = |column| {
            k.gather(&self.at(of, column))
                .with_layout(line(self.plan.vector))
        };
        columns.iter().map(load).collect()
    }

    /// Loads the thread's elements of the rows, with the residual, and stores their sum; 0 where there is no column.
    fn rows(&self, k: &mut Builder, columns: &[Column]) -> Vec<Fragment> {
        let all = self.load(k, RowTensor::X, columns);
        let Some(to) = self.tensor(RowTensor::Sum) else {
            return all;
        };
        for (x, columns) in all.chunks(AT_ONCE).zip(columns.chunks(AT_ONCE)) {
            let residual = self.load(k, RowTensor::Residual, columns);
            for ((x, residual), column) in x.iter().zip(&residual).zip(columns) {
                let sum = k.map((wide(x) + wide(residual)).to(self.plan.operands.ty));
                k.assign(x, &sum);
                k.scatter(&sum, &self.at(to, column));
            }
        }
        all
    }

    /// Loads the thread's elements again. A thread reads the sums that it has stored itself.
    fn rows_again(&self, k: &mut Builder, columns: &[Column]) -> Vec<Fragment> {
        let of = match self.tensor(RowTensor::Sum) {
            Some(_) => RowTensor::Sum,
            None => RowTensor::X,
        };
        self.load(k, of, columns)
    }

    /// Puts -inf where there is no column.
    fn empty(&self, k: &mut Builder, x: &[Fragment], columns: &[Column]) {
        // Two numbers of 16 bits at once.
        let packed = match self.plan.operands.ty {
            Ty::Bf16 if self.plan.vector > 1 => Some(0xff80_ff80_u32),
            Ty::F16 if self.plan.vector > 1 => Some(0xfc00_fc00),
            _ => None,
        };
        for (x, column) in x.iter().zip(columns) {
            let Some(packed) = packed else {
                k.mask(x, f64::NEG_INFINITY, |_, _| column.exists);
                continue;
            };
            k.where_(Builder::not(column.exists), |ir| {
                for reg in x.regs() {
                    ir.mov_to(*reg, i64::from(packed));
                }
            });
        }
    }

    /// Keeps the assembler from holding elements in `f32` from one use to the next.
    fn renew(&self, k: &mut Builder, held: &[Fragment]) {
        if self.plan.vector > 1 {
            renew(k, self.plan.operands.ty, held);
        }
    }

    /// The differences of elements from one number of each row, and 0 where there is no column.
    fn apart(&self, k: &mut Builder, x: &Fragment, from: &Fragment, column: &Column) -> Fragment {
        let apart = k.map(wide(x) - from);
        k.mask(&apart, 0.0, |_, _| column.exists);
        apart
    }

    /// The number of columns that exist.
    fn count(&self, k: &mut Builder, columns: &[Column]) -> Fragment {
        let count = k.fragment(Ty::F32, line(1));
        k.fill(&count, 0.0);
        for column in columns {
            let one = Mask::from(column.exists).select(1.0, 0.0);
            k.assign(&count, Expr::from(&count) + one);
        }
        count
    }

    /// Stores results of elements, which the factors and terms of the columns change first.
    fn put(&self, k: &mut Builder, x: &[Fragment], columns: &[Column], results: &Results) {
        let to = self.tensor(RowTensor::Y).expect("there is an output");
        for (x, columns) in x.chunks(AT_ONCE).zip(columns.chunks(AT_ONCE)) {
            let of_columns: Vec<[Option<Fragment>; 2]> = columns
                .iter()
                .map(|column| {
                    [RowTensor::Weight, RowTensor::Bias].map(|of| {
                        let one = k.gather(&self.tensor(of)?.elements(&column.number));
                        Some(one.with_layout(line(1)))
                    })
                })
                .collect();
            for ((x, column), of_column) in x.iter().zip(columns).zip(&of_columns) {
                let of_column = of_column.each_ref().map(|one| one.as_ref().map(wide));
                let y = changed(results(wide(x)), of_column);
                let y = k.map(y.to(self.plan.operands.ty));
                k.scatter(&y, &self.at(to, column));
            }
        }
    }

    /// The numbers of the lane at an XOR distance.
    fn shuffled(k: &mut Builder, own: &Fragment, distance: i64) -> Fragment {
        let other = k.fragment(Ty::F32, own.layout());
        k.emit(|ir| {
            for (to, from) in other.regs().iter().zip(own.regs()) {
                let found = ir.shuffle(ShuffleMode::Bfly, *from, distance);
                ir.mov_to(*to, found);
            }
        });
        other
    }

    /// The totals over the lanes of a warp that have the same rows.
    fn over_lanes(&self, k: &mut Builder, op: BinaryOp, own: &Fragment) -> Fragment {
        let total = k.map(own);
        let mut distance = self.plan.across();
        while distance < WARP {
            let other = Self::shuffled(k, &total, distance);
            k.assign(&total, Expr::binary(op, &total, &other));
            distance *= 2;
        }
        total
    }

    /// Loads numbers of a line of shared memory, at a place in its other modes.
    fn take(k: &mut Builder, of: &Tensor, [first, at, last]: [&Index; 3], count: i64) -> Fragment {
        let all = k.fragment(Ty::F32, line(count));
        for [piece, at_once] in pieces(count) {
            let at = of.elements((first + piece, at, last)).vectors(0, at_once);
            let loaded = k.gather(&at.outside(Outside::Stated));
            let to = all.values(piece, at_once);
            k.assign(&to, loaded.with_layout(to.layout()));
        }
        all
    }

    /// Stores numbers of a line of shared memory.
    fn leave(k: &mut Builder, of: &Tensor, [first, at, last]: [&Index; 3], own: &Fragment) {
        for [piece, at_once] in pieces(own.layout().size()) {
            let at = of.elements((first + piece, at, last)).vectors(0, at_once);
            k.scatter(own.values(piece, at_once), &at.outside(Outside::Stated));
        }
    }

    /// The totals of all threads of a row, from those of the lanes of each warp. `join` makes one of several. The meetings of a kernel have
    /// numbers.
    fn met<const N: usize>(
        &self,
        k: &mut Builder,
        own: [Fragment; N],
        meeting: i64,
        join: impl Fn(&mut Builder, [Vec<Expr>; N]) -> [Fragment; N],
    ) -> [Fragment; N] {
        let Some(memory) = &self.meeting else {
            return own;
        };
        let RowwisePlan {
            rows,
            vector,
            blocks,
            ..
        } = *self.plan;
        let [lanes, warps] = self.plan.sharing();
        let (zero, meeting) = (Index::constant(0), Index::constant(meeting));
        let of = |n: usize| Index::constant(n as i64);
        let first = &self.across * vector;
        let warp = &self.along / lanes;
        let gives = k.equal(&(&self.along % lanes), &zero);
        k.if_(gives, |k| {
            for (n, own) in own.iter().enumerate() {
                Self::leave(k, &memory.of_warps, [&first, &of(n), &warp], own);
            }
        });
        k.sync();
        let count = (rows / self.plan.threads_of_block()).max(1);
        let own_rows = &self.thread * count;
        let joins = k.less(&self.thread, &(rows / count).into());
        let store = |k: &mut Builder, to: &Tensor, last: &Index, all: [Fragment; N]| {
            for (n, all) in all.iter().enumerate() {
                Self::leave(k, to, [&own_rows, &of(n), last], all);
            }
        };
        k.if_(joins, |k| {
            let all = core::array::from_fn(|n| {
                let warps = (0..warps).map(Index::constant);
                let take = |warp| {
                    let at = [&own_rows, &of(n), &warp];
                    Expr::from(&Self::take(k, &memory.of_warps, at, count))
                };
                warps.map(take).collect()
            });
            let all = join(k, all);
            match blocks {
                1 => store(k, &memory.of_row, &zero, all),
                _ => store(k, &memory.of_block, &meeting, all),
            }
        });
        if blocks > 1 {
            k.cluster_sync();
            k.if_(joins, |k| {
                let all = core::array::from_fn(|n| {
                    let at = memory.of_block.elements((&own_rows, &of(n), &meeting));
                    let at = k.addresses(&at.outside(Outside::Stated)).regs()[0];
                    let mut take = |rank: i64| {
                        let all = k.fragment(Ty::F32, line(count));
                        k.emit(|ir| {
                            let from = ir.mapa(at, rank);
                            for [piece, at_once] in pieces(count) {
                                let regs = &all.regs()[piece as usize..][..at_once as usize];
                                let access = Access::new(Space::Cluster, Type::F32);
                                let from = colex_ir::Address::from(from).at(4 * piece);
                                ir.load_to(access, regs, from);
                            }
                        });
                        Expr::from(&all)
                    };
                    (0..blocks).map(&mut take).collect()
                });
                let all = join(k, all);
                store(k, &memory.of_row, &zero, all);
            });
        }
        k.sync();
        core::array::from_fn(|n| Self::take(k, &memory.of_row, [&first, &of(n), &zero], vector))
    }

    /// The sums over the threads of each row.
    fn total(&self, k: &mut Builder, own: &Fragment, meeting: i64) -> Fragment {
        let own = self.over_lanes(k, Add, own);
        let [all] = self.met(k, [own], meeting, |k, [all]| {
            let all = all.into_iter().reduce(|a, b| a + b);
            [k.map(all.expect("a row has warps"))]
        });
        all
    }

    /// The maximum of each row, or 0 where it is -inf, and the sum of the powers under it, from those of each thread: its maximum, and the
    /// sum under that.
    fn powers(&self, k: &mut Builder, [top, sum]: [&Fragment; 2]) -> [Fragment; 2] {
        let most = self.over_lanes(k, Max, top);
        let below = under(k, &most);
        let sum = k.map(sum * (top - &below).exp());
        let sum = self.over_lanes(k, Add, &sum);
        let [top, sum] = self.met(k, [most, sum], 0, joined_powers);
        [under(k, &top), sum]
    }

    /// The mean of a total over the columns: that of equal numbers is one of them, if f32 has the sum of any number of them.
    fn mean_of(&self, k: &mut Builder, total: &Fragment) -> Fragment {
        quotient(k, total, Expr::from(&self.columns).to(Ty::F32))
    }

    /// The reciprocal of the root of a mean of squares.
    fn scale(&self, k: &mut Builder, squares: &Fragment) -> Fragment {
        let epsilon = self.epsilon.clone().unwrap_or_else(|| Expr::from(0.0));
        let mean = k.map(squares * Expr::from(&self.columns).to(Ty::F32).recip());
        k.map((mean + epsilon).rsqrt())
    }

    /// The results of a softmax or its logarithm.
    fn of_powers(&self, k: &mut Builder, [top, sum]: [Fragment; 2]) -> Results {
        if self.plan.operands.function == RowFunction::LogSoftmax {
            let log = k.map(Expr::from(&sum).log());
            return Box::new(move |x| x - &top - &log);
        }
        let inverse = k.map(Expr::from(&sum).recip());
        Box::new(move |x| (x - &top).exp() * &inverse)
    }

    /// Rows that registers hold: each element is read once. Numbers of 16 bits stay two in a register, so the results take their powers
    /// again.
    fn of_registers(&self, k: &mut Builder) {
        let operands = &self.plan.operands;
        let columns = self.columns_of(k, &Index::constant(0));
        let held = self.rows(k, &columns);
        let results: Results = match operands.function {
            RowFunction::Softmax | RowFunction::LogSoftmax => {
                let keeps = operands.ty == Ty::F32 && operands.function == RowFunction::Softmax;
                self.empty(k, &held, &columns);
                let top = self.numbers(k, f64::NEG_INFINITY);
                for x in &held {
                    k.assign(&top, Expr::from(&top).max(wide(x)));
                }
                let below = under(k, &top);
                self.renew(k, &held);
                let sum = self.numbers(k, 0.0);
                for x in &held {
                    let powers = (wide(x) - &below).exp();
                    if keeps {
                        k.assign(x, powers);
                        k.assign(&sum, &sum + x);
                    } else {
                        k.assign(&sum, &sum + powers);
                    }
                }
                let [all, sum] = self.powers(k, [&top, &sum]);
                if keeps {
                    // -inf less the maximum of the row makes a factor of 0.
                    let factor = k.map((&top - &all).exp() * Expr::from(&sum).recip());
                    Box::new(move |x| x * &factor)
                } else {
                    self.of_powers(k, [all, sum])
                }
            }
            RowFunction::RmsNorm => {
                let squares = self.numbers(k, 0.0);
                for x in &held {
                    k.assign(&squares, wide(x).fma(wide(x), &squares));
                }
                let squares = self.total(k, &squares, 0);
                let scale = self.scale(k, &squares);
                Box::new(move |x| x * &scale)
            }
            RowFunction::LayerNorm => {
                let sum = self.numbers(k, 0.0);
                for x in &held {
                    k.assign(&sum, &sum + wide(x));
                }
                let sum = self.total(k, &sum, 0);
                let mean = self.mean_of(k, &sum);
                self.renew(k, &held);
                let squares = self.numbers(k, 0.0);
                for (x, column) in held.iter().zip(&columns) {
                    let apart = self.apart(k, x, &mean, column);
                    k.assign(&squares, Expr::from(&apart).fma(&apart, &squares));
                }
                let squares = self.total(k, &squares, 1);
                let scale = self.scale(k, &squares);
                Box::new(move |x| (x - &mean) * &scale)
            }
        };
        self.renew(k, &held);
        self.put(k, &held, &columns, &results);
    }

    /// Rows that registers do not hold: they are read once for all totals, and again for the results, from their end on, which caches may
    /// still have.
    fn of_passes(&self, k: &mut Builder) {
        let operands = &self.plan.operands;
        let all = self.plan.chunk() * self.plan.blocks;
        let turns = (&self.columns + (all - 1)) / all;
        let results: Results = match operands.function {
            RowFunction::Softmax | RowFunction::LogSoftmax => {
                let top = self.numbers(k, f64::NEG_INFINITY);
                let sum = self.numbers(k, 0.0);
                k.for_(0, &turns, 1, |k, turn| {
                    let columns = self.columns_of(k, turn);
                    let x = self.rows(k, &columns);
                    self.empty(k, &x, &columns);
                    let next = k.map(&top);
                    for x in &x {
                        k.assign(&next, Expr::from(&next).max(wide(x)));
                    }
                    let below = under(k, &next);
                    // The sum so far, under the new maximum.
                    k.assign(&sum, &sum * (&top - &below).exp());
                    for x in &x {
                        k.assign(&sum, &sum + (wide(x) - &below).exp());
                    }
                    k.assign(&top, &next);
                });
                let totals = self.powers(k, [&top, &sum]);
                self.of_powers(k, totals)
            }
            RowFunction::RmsNorm => {
                let squares = self.numbers(k, 0.0);
                k.for_(0, &turns, 1, |k, turn| {
                    let columns = self.columns_of(k, turn);
                    for x in self.rows(k, &columns) {
                        k.assign(&squares, wide(&x).fma(wide(&x), &squares));
                    }
                });
                let squares = self.total(k, &squares, 0);
                let scale = self.scale(k, &squares);
                Box::new(move |x| x * &scale)
            }
            RowFunction::LayerNorm => {
                let [mean, squares] = self.moments(k, &turns);
                let scale = self.scale(k, &squares);
                Box::new(move |x| (x - &mean) * &scale)
            }
        };
        k.for_(0, &turns, 1, |k, turn| {
            let turn = k.within(&turns - 1 - turn, 0..MOST);
            let columns = self.columns_of(k, &turn);
            let x = self.rows_again(k, &columns);
            self.put(k, &x, &columns, &results);
        });
    }

    /// The mean of each row, and the sum of the squares of the differences from it, by one pass.
    ///
    /// A thread subtracts a pivot from the elements of each row: the mean of those of its first turn. It adds the differences and their
    /// squares, so that those from the row's mean follow. At most as many digits are lost as the number of turns has: if the pivot is far
    /// from the mean, so are the elements of the first turn.
    fn moments(&self, k: &mut Builder, turns: &Index) -> [Fragment; 2] {
        let (sum, squares) = (self.numbers(k, 0.0), self.numbers(k, 0.0));
        let columns = self.columns_of(k, &Index::constant(0));
        let first = self.rows(k, &columns);
        let count = self.count(k, &columns);
        for x in &first {
            k.assign(&sum, &sum + wide(x));
        }
        let pivot = pivot(k, &sum, &count);
        k.fill(&sum, 0.0);
        let add = |k: &mut Builder, x: &Fragment, column: &Column| {
            let apart = self.apart(k, x, &pivot, column);
            k.assign(&sum, &sum + &apart);
            k.assign(&squares, Expr::from(&apart).fma(&apart, &squares));
        };
        for (x, column) in first.iter().zip(&columns) {
            add(k, x, column);
        }
        k.for_(1, turns, 1, |k, turn| {
            let columns = self.columns_of(k, turn);
            let x = self.rows(k, &columns);
            let more = self.count(k, &columns);
            k.assign(&count, &count + &more);
            for (x, column) in x.iter().zip(&columns) {
                add(k, x, column);
            }
        });
        let own = k.map(Expr::from(&pivot).fma(&count, &sum));
        let all = self.total(k, &own, 0);
        let mean = self.mean_of(k, &all);
        let apart = k.map(&pivot - &mean);
        // In this order, the difference of a thread without columns counts as 0, also if its square is infinite.
        let own = k.map((&apart * &count + &sum * 2.0).fma(&apart, &squares));
        let squares = self.total(k, &own, 1);
        // Those of equal numbers may be less than 0 by a rounding; a NaN stays.
        let is_less = Expr::from(&squares).lt(0.0);
        let squares = k.map(is_less.select(0.0, &squares));
        [mean, squares]
    }
}
