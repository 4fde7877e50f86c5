//! The kernel of a plan whose blocks all run at once: each block reads its part of the tensor once, meets the others for the largest
//! size, and quantises what it still has, and then what it reads again.
//!
//! An *access* is the 16 bytes of each thread of a block, and the blocks take those of the tensor in turn. The first ones of the tensor go to
//! shared memory by asynchronous copies, which are under way while the threads read others; the next ones stay in registers; the rest is
//! read again. A thread copies its own elements to shared memory and reads no others, so it waits for its own copies alone.

use colex_atom::{Arch, CopyAtom, Ty};
use colex_ir::BinaryOp::{And, Max, Or};
use colex_ir::{Access, AtomicOp, Cache, Compare, Memory, Order, Reg, RegType, Scope, Space, Type};
use colex_layout::{Int, Layout};
use colex_tensor::{
    AtThread, Builder, Error, Expr, Fragment, Hints, Index, Outside, Tensor, TensorKernel,
};
use colex_tiled::TiledCopy;

use super::kernel::scale_of;
use super::problem::MOST;
use super::scale::{TensorScalePlan, WORDS_HEADER, line, row, universal};
use crate::memory_bound::plan::{WARP, div_up};

/// The accesses in shared memory that a thread takes at once.
const TAKEN: i64 = 4;

/// The groups of loads behind which the copies to shared memory start, a share of them behind each.
const SHARES: i64 = 2;

/// The bit that a block's word has once the block has stored its largest size there: the sign, which no size has.
const STORED: i64 = 1 << 31;

/// A kernel that is being built.
struct AtOnce<'a> {
    plan: &'a TensorScalePlan,
    x: Tensor,
    q: Tensor,
    /// What shared memory keeps: (1, elements of an access, access).
    kept: Option<Tensor>,
    /// Of x, of q, and from x to shared memory.
    copies: [TiledCopy; 3],
    /// Of what is read once, so that the L2 cache keeps the rest.
    once: Hints,
    thread: Index,
    block: Index,
    /// The largest sizes that a thread has found, one for each element of an access.
    largest: Fragment,
    /// The accesses beyond those on the chip, in groups.
    groups: Index,
}

/// The asynchronous copy to shared memory, which puts zeros in place of what lies beyond a tensor.
fn asynchronous() -> CopyAtom {
    colex_atom::copy("SM80_CP_ASYNC_CACHEGLOBAL_ZFILL<uint128_t>").expect("it is in the table")
}

/// Builds the kernel. Its parameters are x, q and the scale, and the words through which several blocks meet.
pub(super) fn build(plan: &TensorScalePlan, arch: Arch) -> Result<TensorKernel, Error> {
    let mut k = Builder::new("quantise_tensor_at_once", arch, plan.threads as u32);
    let x = k.tensor("x", plan.from, row(Int::Dynamic(1 << 16))?);
    let q = k.tensor("q", plan.to, row(Int::Dynamic(1 << 16))?);
    let scale = k.tensor("scale", Ty::F32, line(Int::Static(1))?);
    let words = if plan.meets() {
        Some(k.tensor("words", Ty::U32, line(Int::Dynamic(16))?))
    } else {
        None
    };
    let (vector, of_access) = (plan.vector(), plan.of_access());
    let bits = i64::from(plan.from.bits());
    let over = Layout::new((1, plan.threads), (0, 1))?;
    let values = Layout::new((1, vector), (0, 1))?;
    let copies = [
        TiledCopy::new(universal(bits * vector), bits, &over, &values)?,
        TiledCopy::new(universal(8 * vector), 8, &over, &values)?,
        TiledCopy::new(asynchronous(), bits, &over, &values)?,
    ];
    let kept = match plan.kept {
        0 => None,
        slots => {
            let of_slots = Layout::new((1, of_access, slots), (of_access, 1, of_access))?;
            Some(k.shared_tensor(plan.from, &of_slots))
        }
    };
    let policy = (plan.cached > 0).then(|| evict_first(&mut k));
    let thread = k.thread();
    let block = k.block_index(0);
    let block = k.within(block, 0..plan.blocks);
    let columns = k.within(x.extent(1), 1..MOST + 1);
    let tiles = (columns + (of_access - 1)) / of_access;
    let all = (tiles + (plan.blocks - 1)) / plan.blocks;
    let rest = k.within(&all - all.min(&plan.on_chip().into()), 0..MOST);
    let first = copies[0].at(&thread);
    let first = first.partition_src(&x.local_tile((1, of_access), (0, &block))); // (CPY, CPY_M, CPY_N)
    let largest = k.fragment_like(&first);
    k.fill(&largest, 0.0);
    let kernel = AtOnce {
        plan,
        x,
        q,
        kept,
        copies,
        once: Hints {
            policy,
            ..Hints::default()
        },
        thread,
        block,
        largest,
        groups: (rest + (plan.accesses - 1)) / plan.accesses,
    };
    let held = kernel.read(&mut k);
    let own = k.reduce_all(Max, Expr::from(&kernel.largest).to(Ty::F32));
    let mut most = k.reduce_block(Max, &own);
    if let Some(words) = &words {
        most = kernel.meet(&mut k, words, &most);
    }
    let found = k.map(scale_of(&most, plan.to));
    let is_first = Expr::from(&kernel.thread).equals(0) & Expr::from(&kernel.block).equals(0);
    k.scatter(&found, &scale.elements(Index::constant(0)).only(is_first));
    let is_zero = Expr::from(&found).equals(0.0);
    let inverse = k.map(is_zero.select(0.0, Expr::from(1.0) / &found));
    if plan.again_first {
        kernel.quantise_again(&mut k, &inverse);
    }
    for (access, x) in (plan.kept..).map(Index::constant).zip(&held) {
        kernel.put(&mut k, x, &inverse, &access);
    }
    kernel.over_kept(&mut k, |k, x, access| kernel.put(k, x, &inverse, access));
    if !plan.again_first {
        kernel.quantise_again(&mut k, &inverse);
    }
    k.finish()
}

/// The cache policy of what is read once.
fn evict_first(k: &mut Builder) -> Reg {
    k.emit(|ir| {
        let d = ir.reg(RegType::B64);
        ir.push(Memory::CreatePolicy {
            d,
            primary: "evict_first",
            fraction: 1.0,
        });
        d
    })
}

impl AtOnce<'_> {
    /// A thread's part of one of the block's accesses to a tensor.
    fn part(&self, copy: &TiledCopy, of: &Tensor, access: &Index) -> Tensor {
        let tile = access * self.plan.blocks + &self.block;
        let tile = of.local_tile((1, self.plan.of_access()), (0, &tile));
        copy.at(&self.thread).partition_src(&tile) // (CPY, CPY_M, CPY_N)
    }

    /// The elements of an access. Those beyond the end are 0.
    fn load(&self, k: &mut Builder, access: &Index, hints: Hints) -> Fragment {
        let of = self.part(&self.copies[0], &self.x, access);
        let held = k.fragment_like(&of);
        k.copy_in_bounds(hints.on(&self.copies[0]), &of, &held);
        held
    }

    /// Takes the sizes of an access.
    fn measure(&self, k: &mut Builder, x: &Fragment) {
        // A number comes before a NaN.
        let sizes = Expr::from(x).abs().max(&self.largest);
        k.assign(&self.largest, sizes);
    }

    /// The numbers of an access, quantised.
    fn put(&self, k: &mut Builder, x: &Fragment, inverse: &Fragment, access: &Index) {
        let once = Hints {
            cache: Cache::Cs,
            ..Hints::default()
        };
        let goes = self.part(&self.copies[1], &self.q, access);
        let numbers = k.fragment_like(&goes);
        let wide = Expr::from(x).to(Ty::F32);
        k.assign(&numbers, (wide * inverse).saturating(self.plan.to));
        k.copy_in_bounds(once.on(&self.copies[1]), &numbers, &goes);
    }

    /// Reads all accesses of the block and takes their sizes; returns those that stay in registers.
    ///
    /// Those that are read again come first, in groups, while registers hold nothing yet: so the loads of many accesses are under way.
    /// Behind the loads of the first groups, before a thread waits for them, it starts the copies to shared memory. These need no registers,
    /// and so the memory is busy while a group has come and the loads of the next one are only begun.
    fn read(&self, k: &mut Builder) -> Vec<Fragment> {
        let plan = self.plan;
        let cached = div_up(plan.cached, plan.accesses);
        let early = match cached {
            // The cache has no hint.
            0 => Index::constant(0),
            _ => k.within(&self.groups - self.groups.min(&cached.into()), 0..MOST),
        };
        let share = div_up(plan.kept, SHARES);
        let copied = |k: &mut Builder, groups: &Index| {
            let copied = groups.min(&SHARES.into()) * share;
            k.within(copied.min(&plan.kept.into()), 0..plan.kept + 1)
        };
        for (begin, end, hints) in [
            (&0.into(), &early, self.once),
            (&early, &self.groups, Hints::default()),
        ] {
            k.for_(begin, end, 1, |k, group| {
                let loaded = self.load_group(k, group, hints);
                let [begin, end] = [group.clone(), group + 1].map(|groups| copied(k, &groups));
                self.fetch(k, [&begin, &end]);
                for (x, _) in loaded {
                    self.measure(k, &x);
                }
            });
        }
        let begin = copied(k, &self.groups);
        self.fetch(k, [&begin, &plan.kept.into()]);
        k.cp_async_commit();
        // The assembler moves no load in front of it, where the groups would have fewer registers.
        k.emit(|ir| ir.warp_sync());
        let held = (plan.kept..plan.on_chip()).map(Index::constant);
        let held: Vec<Fragment> = held.map(|i| self.load(k, &i, self.once)).collect();
        k.cp_async_wait(0);
        self.over_kept(k, |k, x, _| self.measure(k, x));
        for x in &held {
            self.measure(k, x);
        }
        held
    }

    /// Starts the copies of some accesses to shared memory.
    fn fetch(&self, k: &mut Builder, [begin, end]: [&Index; 2]) {
        let Some(kept) = &self.kept else {
            return;
        };
        k.for_(begin, end, 1, |k, slot| {
            let slot = k.within(slot, 0..self.plan.kept);
            let of = self.part(&self.copies[0], &self.x, &slot);
            let to = self.slot(kept, &slot);
            k.copy_in_bounds(self.once.on(&self.copies[2]), &of, &to);
        });
    }

    /// The accesses of a group of those beyond the chip, all under way at once, with their numbers.
    fn load_group(&self, k: &mut Builder, group: &Index, hints: Hints) -> Vec<(Fragment, Index)> {
        let first = group * self.plan.accesses + self.plan.on_chip();
        let accesses = (0..self.plan.accesses).map(|i| &first + i);
        accesses.map(|i| (self.load(k, &i, hints), i)).collect()
    }

    /// Reads the accesses beyond the chip again, and quantises them.
    fn quantise_again(&self, k: &mut Builder, inverse: &Fragment) {
        let once = Hints {
            cache: Cache::Cs,
            ..Hints::default()
        };
        k.for_(0, &self.groups, 1, |k, group| {
            let group = if self.plan.reversed {
                k.within(&self.groups - group - 1, 0..MOST)
            } else {
                group.clone()
            };
            for (x, access) in self.load_group(k, &group, once) {
                self.put(k, &x, inverse, &access);
            }
        });
    }

    /// A thread's part of an access that shared memory keeps.
    fn slot(&self, kept: &Tensor, slot: &Index) -> Tensor {
        let copy = self.copies[0].at(&self.thread);
        copy.partition_src(&kept.at(2, slot)) // (CPY, CPY_M, CPY_N)
    }

    /// Takes all accesses that shared memory keeps, some at once.
    fn over_kept(&self, k: &mut Builder, body: impl Fn(&mut Builder, &Fragment, &Index)) {
        let Some(kept) = &self.kept else {
            return;
        };
        let take = |k: &mut Builder, first: &Index, count: i64| {
            let slots: Vec<Index> = (0..count).map(|i| first + i).collect();
            let all: Vec<Fragment> = (slots.iter())
                .map(|slot| {
                    let of = self.slot(kept, slot);
                    let x = k.fragment_like(&of);
                    k.copy(&self.copies[0], &of, &x);
                    x
                })
                .collect();
            for (x, slot) in all.iter().zip(&slots) {
                body(k, x, slot);
            }
        };
        let whole = self.plan.kept / TAKEN;
        if whole > 0 {
            k.for_(0, whole, 1, |k, group| take(k, &(group * TAKEN), TAKEN));
        }
        take(k, &(whole * TAKEN).into(), self.plan.kept % TAKEN);
    }

    /// The largest size of all blocks, from that of each.
    ///
    /// A block stores its size in a word of its own, with the sign as a mark, and the first warp looks at the words of all blocks until
    /// each has the mark. The size is in the word that is waited for, so nothing else has to be ordered.
    ///
    /// The block that comes last out of this wait makes the words 0 again, for the next launch: each block counts itself when its warp has
    /// seen all words, and what the count releases and acquires orders these looks before the zeros. The count wraps to 0 by itself.
    fn meet(&self, k: &mut Builder, words: &Tensor, own: &Fragment) -> Fragment {
        let blocks = self.plan.blocks;
        let access = Access::new(Space::Global, Type::U32).order(Order::Relaxed(Scope::Gpu));
        let word = |k: &mut Builder, block: &Index| {
            let word = words
                .elements(block + WORDS_HEADER)
                .outside(Outside::Stated);
            k.addresses(&word).regs()[0]
        };
        let is_one = k.equal(&self.thread, &0.into());
        let put = word(k, &self.block);
        let size = own.regs()[0];
        k.where_(is_one, |ir| {
            let size = ir.mov(Type::B32, size);
            let stored = ir.binary(Or, Type::B32, size, STORED);
            ir.store(access, put, stored);
        });
        let all = k.shared_tensor(Ty::F32, line(Int::Static(1)).expect("a line"));
        let looks = k.less(&self.thread, &WARP.into());
        k.if_(looks, |k| {
            let lane = k.lane();
            let of_lane: Vec<Reg> = (0..blocks)
                .step_by(WARP as usize)
                .map(|first| word(k, &(&lane + first).min(&(blocks - 1).into())))
                .collect();
            let sizes = k.emit(|ir| {
                let found: Vec<Reg> = of_lane.iter().map(|_| ir.reg(RegType::B32)).collect();
                ir.loop_(|ir| {
                    // All loads are under way at once.
                    for (at, word) in of_lane.iter().zip(&found) {
                        ir.load_to(access, &[*word], *at);
                    }
                    let marks = found.iter().copied();
                    let marks = marks.reduce(|a, b| ir.binary(And, Type::B32, a, b));
                    let are_stored =
                        ir.setp(Compare::Lt, Type::S32, marks.expect("there are blocks"), 0);
                    ir.break_if(are_stored);
                });
                let sizes = found.into_iter().map(|word| {
                    let size = ir.binary(And, Type::B32, word, STORED - 1);
                    ir.mov(Type::F32, size)
                });
                sizes.collect::<Vec<Reg>>()
            });
            let sizes = sizes.into_iter().map(|size| Expr::register(size, Ty::F32));
            let most = sizes.reduce(|a, b| Expr::binary(Max, a, b));
            let most = k.map(most.expect("there are blocks"));
            let most = k.reduce_warp(Max, &most);
            let is_first = Expr::from(&self.thread).equals(0);
            k.scatter(&most, &all.elements(0).only(is_first));
        });
        k.sync();
        let most = k.gather(&all.elements(0));
        let counter = k
            .addresses(&words.elements(0).outside(Outside::Stated))
            .regs()[0];
        k.if_(is_one, |k| {
            k.emit(|ir| {
                let before = ir.reg(RegType::B32);
                ir.push(Memory::Atomic {
                    op: AtomicOp::Inc,
                    space: Space::Global,
                    ty: Type::U32,
                    order: Order::AcqRel(Scope::Gpu),
                    d: before,
                    a: counter.into(),
                    s: (blocks - 1).into(),
                    t: None,
                });
                let comes_last = ir.setp(Compare::Eq, Type::U32, before, blocks - 1);
                ir.if_(comes_last, |ir| {
                    let zero = ir.mov(Type::B32, 0);
                    ir.for_range(WORDS_HEADER, self.plan.words(), 4, |ir, word| {
                        let at = ir.mul_wide(Type::U32, word, 4);
                        let at = ir.add(Type::S64, counter, at);
                        let line = Access::new(Space::Global, Type::U32);
                        ir.store_vector(line, at, &[zero; 4]);
                    });
                });
            });
        });
        most
    }
}
