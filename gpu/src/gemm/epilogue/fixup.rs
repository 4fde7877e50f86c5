//! Sums over the parts of K of a tile in the kernel of the product: the warpgroup that comes last adds what the others have written.
//!
//! Each part of a tile is a block's, and each warpgroup of the block has its rows of the tile. The warpgroups of all parts with the
//! same rows share a word of memory. When a warpgroup comes to the end of its main loop, it adds 1 to the word, and finds how many
//! have come before. If others are still to come, it writes its accumulators to the workspace, and adds 16 to the word by a release. The
//! last one waits until all others have done so, makes the word 0 for the next launch, adds all parts in their order, and runs the
//! epilogue. CUTLASS calls the exchange fixup.
//!
//! A warpgroup waits only for those that have their accumulators, and that wait for nothing before they write them. So no block needs
//! another one to begin, and the launch is an ordinary one. The order of the sum does not depend on which part comes last: each run
//! gives the same bits, and they are those of the kernel that adds the parts.

use colex_atom::Ty;
use colex_ir::{
    Access, Address, AtomicOp, BinaryOp, Compare, Memory, Order, Reg, Scope, Space, Type,
};
use colex_layout::Layout;
use colex_tensor::{Builder, Cond, Expr, Fragment, Index, Tensor};

use super::split_sum::SplitSum;
use crate::gemm::plan::{GemmPlan, MOST_FIXUP};
use crate::gemm::sm90::WARPGROUP_THREADS;

/// What a warpgroup adds to the word when its accumulators are in the workspace: more than the parts of a tile.
const WRITTEN: i64 = 2 * MOST_FIXUP;

/// The vectors of a thread that are added at once where a tile may have more than two parts.
const AT_ONCE: i64 = 4;

/// The words of a kernel by which the parts of a tile meet.
pub(crate) struct Fixup {
    words: Reg,
    /// For each warpgroup, in shared memory, whether it is the last: 0, or another number.
    last: Tensor,
    groups: i64,
    /// Whether every tile that is divided has two parts, of which one is in the workspace.
    has_two: bool,
    /// The columns of the widest tile, and the step of the widths.
    widest: i64,
    step: i64,
}

/// The words as a consumer's thread uses them.
pub(crate) struct ThreadFixup<'a> {
    of: &'a Fixup,
    sum: &'a SplitSum,
    thread: Index,
    warpgroup: Index,
    /// Whether the thread counts and waits for its warpgroup.
    leads: Cond,
    /// The vectors of the other part that are on their way to a thread at once, if there is one.
    in_flight: i64,
    /// The parts of which some vectors are, if there are more.
    parts_in_flight: i64,
}

/// A part of a tile, as a thread has it.
pub(crate) struct TilePart<'a> {
    /// Its number among the parts of all clusters' tiles that are divided.
    pub(crate) number: &'a Index,
    pub(crate) rank: &'a Index,
    /// The columns of the tile, where the launch decides the width.
    pub(crate) columns: Option<&'a Index>,
}

fn word() -> Access {
    Access::new(Space::Global, Type::U32)
}

impl Fixup {
    /// Declares the words.
    pub(crate) fn declare(k: &mut Builder, plan: &GemmPlan) -> Fixup {
        let groups = plan.warps[0];
        let line = Layout::column_major(groups).expect("a plan has warpgroups");
        Fixup {
            words: k.scalar_argument("words", Type::U64),
            last: k.shared_tensor(Ty::U32, line.to_static()),
            groups,
            has_two: plan.split == 2,
            widest: plan.tile[1],
            step: plan.width_step(),
        }
    }

    /// The words that a consumer's thread uses. `room` registers are free beside its accumulators.
    pub(crate) fn of_thread<'a>(
        &'a self,
        k: &mut Builder,
        sum: &'a SplitSum,
        (thread, room): (&Index, i64),
    ) -> ThreadFixup<'a> {
        let lane = thread % i64::from(WARPGROUP_THREADS);
        let most = room / SplitSum::VECTOR;
        let fits = |vectors: &i64| *vectors <= most;
        ThreadFixup {
            of: self,
            sum,
            thread: thread.clone(),
            warpgroup: thread / i64::from(WARPGROUP_THREADS),
            leads: k.equal(&lane, &0.into()),
            in_flight: [16, 8, 4].into_iter().find(fits).unwrap_or(2),
            parts_in_flight: (most / AT_ONCE - 1).clamp(1, 3),
        }
    }
}

impl ThreadFixup<'_> {
    /// The number of a part's tile among those that are divided.
    fn tile(&self, part: &TilePart<'_>) -> Index {
        part.number / &self.sum.parts
    }

    /// The place of a part in the workspace.
    fn place(&self, part: &TilePart<'_>) -> Index {
        if self.of.has_two {
            self.tile(part)
        } else {
            part.number.clone()
        }
    }

    /// The address of the word of a part's rows.
    fn word(&self, k: &mut Builder, part: &TilePart<'_>) -> Reg {
        let block = self.sum.block(&self.tile(part), part.rank);
        let number = block * self.of.groups + &self.warpgroup;
        let number = k.value(&number);
        k.emit(|ir| {
            let offset = ir.mul_wide(Type::U32, number, 4);
            ir.add(Type::S64, self.of.words, offset)
        })
    }

    fn sync(&self, k: &mut Builder) {
        k.sync_named(&(&self.warpgroup + 1), WARPGROUP_THREADS);
    }

    /// Counts the warpgroup, in one of its threads.
    pub(crate) fn count(&self, k: &mut Builder, part: &TilePart<'_>) {
        k.if_(self.leads, |k| {
            let address = self.word(k, part);
            let others = k.value(&(&self.sum.parts - 1));
            let left = k.emit(|ir| {
                let d = ir.reg(Type::U32.register());
                ir.push(Memory::Atomic {
                    op: AtomicOp::Add,
                    space: Space::Global,
                    ty: Type::U32,
                    order: Order::Relaxed(Scope::Gpu),
                    d,
                    a: address.into(),
                    s: 1.into(),
                    t: None,
                });
                let before = ir.and(Type::B32, d, WRITTEN - 1);
                ir.xor(Type::B32, before, others)
            });
            let at = k.addresses(&self.of.last.elements(&self.warpgroup)).regs()[0];
            k.emit(|ir| ir.store(Access::new(Space::Shared, Type::U32), at, left));
        });
    }

    /// Whether the warpgroup, which was counted, is the last of its rows.
    pub(crate) fn is_last(&self, k: &mut Builder) -> Cond {
        self.sync(k);
        let left = k.gather(&self.of.last.elements(&self.warpgroup));
        k.condition(Expr::from(&left).equals(0))
    }

    /// Whether the tile has the columns of a thread's vector: the vectors of 8 columns each lie side by side for each instruction along M.
    /// The answer is asked for where it is used, since there are few predicates.
    fn has(&self, k: &mut Builder, part: &TilePart<'_>, vector: usize) -> Cond {
        let Some(columns) = part.columns else {
            return Cond::Known(true);
        };
        let first = vector as i64 * 8 % self.of.widest / self.of.step * self.of.step;
        // Every tile has more than half of the columns of the widest.
        if 2 * first <= self.of.widest {
            return Cond::Known(true);
        }
        k.less(&first.into(), columns)
    }

    /// Writes the accumulators of a warpgroup that is not the last, and tells it.
    pub(crate) fn give(&self, k: &mut Builder, sums: &[Fragment], part: &TilePart<'_>) {
        let place = self.place(part);
        let is_kept = |k: &mut Builder, vector: usize| self.has(k, part, vector);
        let at = (&place, part.rank);
        self.sum.keep_where(k, sums, &self.thread, (at, &is_kept));
        self.sync(k);
        k.if_(self.leads, |k| {
            let address = self.word(k, part);
            // The stores of all threads come before the barrier, and so before what this thread releases.
            k.emit(|ir| {
                ir.push(Memory::Reduce {
                    op: AtomicOp::Add,
                    space: Space::Global,
                    ty: Type::U32,
                    order: Order::Release(Scope::Gpu),
                    a: address.into(),
                    s: vec![WRITTEN.into()],
                });
            });
        });
    }

    /// Waits for the accumulators of the other warpgroups, and makes the sum of all parts of those of the last.
    pub(crate) fn add(&self, k: &mut Builder, sums: &[Fragment], part: &TilePart<'_>) {
        k.if_(self.leads, |k| {
            let address = self.word(k, part);
            let all = &self.sum.parts * (1 + WRITTEN) - WRITTEN;
            let all = k.value(&all);
            k.emit(|ir| {
                ir.loop_(|ir| {
                    let now = ir.load(word().order(Order::Acquire(Scope::Gpu)), address);
                    let are_there = ir.setp(Compare::Eq, Type::U32, now, all);
                    ir.break_if(are_there);
                });
                // For the next launch, which begins after this one.
                ir.store(word().order(Order::Relaxed(Scope::Gpu)), address, 0);
            });
        });
        self.sync(k);
        if self.of.has_two {
            self.add_other(k, sums, part);
        } else {
            self.add_in_order(k, sums, part);
        }
    }

    /// Adds the other one of two parts. A sum of two numbers is the same in both orders.
    fn add_other(&self, k: &mut Builder, sums: &[Fragment], part: &TilePart<'_>) {
        let place = self.place(part);
        let address = self.sum.address(k, (&place, part.rank), &self.thread);
        let access = Access::new(Space::Global, self.sum.ty());
        let (vectors, ty) = (self.sum.vectors(sums), self.sum.ty());
        let numbered: Vec<_> = vectors.iter().enumerate().collect();
        for some in numbered.chunks(self.in_flight as usize) {
            let mut loaded = Vec::new();
            for (number, (offset, own)) in some {
                let is_there = self.has(k, part, *number);
                let other = k.emit(|ir| {
                    let other = ir.regs(ty.register(), own.len());
                    if is_there != Cond::Known(true) {
                        let neutral = self.sum.neutral();
                        other.iter().for_each(|d| ir.mov_to(*d, neutral));
                    }
                    other
                });
                k.where_(is_there, |ir| {
                    ir.load_to(access, &other, Address::from(address).at(*offset));
                });
                loaded.push(other);
            }
            k.emit(|ir| {
                for ((_, (_, own)), other) in some.iter().zip(loaded) {
                    for (d, x) in own.iter().zip(other) {
                        ir.binary_to(BinaryOp::Add, ty, *d, *d, x);
                    }
                }
            });
        }
    }

    /// The sums of all parts in their order, some vectors after the others. In the place of its own part, a thread adds what it has.
    fn add_in_order(&self, k: &mut Builder, sums: &[Fragment], part: &TilePart<'_>) {
        let first = self.tile(part) * &self.sum.parts;
        let own_part = part.number % &self.sum.parts;
        let first = self.sum.place(&first);
        let first = self.sum.address(k, (&first, part.rank), &self.thread);
        let (ty, count) = (self.sum.ty(), self.parts_in_flight);
        let access = Access::new(Space::Global, ty);
        let vectors = self.sum.vectors(sums);
        for some in vectors.chunks(AT_ONCE as usize) {
            let own: Vec<Reg> = some.iter().flat_map(|(_, own)| own.clone()).collect();
            let neutral = self.sum.neutral();
            let total: Vec<Reg> = k.emit(|ir| {
                let all = ir.regs(ty.register(), own.len());
                all.iter().for_each(|d| ir.mov_to(*d, neutral));
                all
            });
            k.for_(0, &self.sum.parts, count, |k, begin| {
                let begin_at = k.value(begin);
                let step = self.sum.bytes_of_part();
                let from = k.emit(|ir| {
                    let offset = ir.mul_wide(Type::U32, begin_at, step);
                    ir.add(Type::S64, first, offset)
                });
                let mut loaded = Vec::new();
                for i in 0..count {
                    let number = begin + i;
                    let is_there = k.less(&number, &self.sum.parts);
                    let is_own = k.equal(&number, &own_part);
                    let is_other = k.both(is_there, Builder::not(is_own));
                    let all = k.emit(|ir| {
                        let all = ir.regs(ty.register(), own.len());
                        all.iter().for_each(|d| ir.mov_to(*d, neutral));
                        all
                    });
                    k.where_(is_own, |ir| {
                        let pairs = all.iter().zip(&own);
                        pairs.for_each(|(d, own)| ir.mov_to(*d, *own));
                    });
                    k.where_(is_other, |ir| {
                        let places = all.chunks(SplitSum::VECTOR as usize).zip(some);
                        places.for_each(|(d, (offset, _))| {
                            let at = Address::from(from).at(offset + i * step);
                            ir.load_to(access, d, at);
                        });
                    });
                    loaded.push(all);
                }
                k.emit(|ir| {
                    for of_part in loaded {
                        for (d, x) in total.iter().zip(of_part) {
                            ir.binary_to(BinaryOp::Add, ty, *d, *d, x);
                        }
                    }
                });
            });
            k.emit(|ir| {
                let pairs = own.iter().zip(&total);
                pairs.for_each(|(d, sum)| ir.mov_to(*d, *sum));
            });
        }
    }
}
