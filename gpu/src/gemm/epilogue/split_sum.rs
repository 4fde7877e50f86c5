//! Sums over the clusters that divide K among them, through memory of the device.
//!
//! Each warpgroup writes its accumulators to the workspace and counts itself. The warpgroup that comes last to a part of
//! a tile adds what all of them wrote, in the order of the parts, so that the result is the same in every run. No
//! warpgroup waits for another one: the kernel ends however few of its blocks run at once.

use colex_ir::{Access, Address, AtomicOp, BinaryOp, FenceKind, Reg, Space, Type};
use colex_tensor::{Builder, Cond, Fragment, Index};

use crate::gemm::plan::GemmPlan;
use crate::gemm::sm90::WARPGROUP_THREADS;

/// The number of f32 that a thread writes and reads at once.
const VECTOR: i64 = 4;

/// The counters at the beginning of a workspace: 0 before a product, and 0 again after it.
pub(crate) const COUNTERS: i64 = 1 << 14;

/// The bytes of the counters.
pub(crate) const COUNTER_BYTES: i64 = 4 * COUNTERS;

/// The workspace of a launch, and what the warpgroups of a block say to each other.
pub(crate) struct SplitSum {
    workspace: Reg,
    /// The number of parts of K.
    parts: Index,
    /// One word for each warpgroup: the number of warpgroups that came before it.
    before: Index,
    groups: i64,
    /// The bytes of a block's accumulators.
    bytes: i64,
}

/// The part of a thread.
pub(crate) struct ThreadSplit<'a> {
    of: &'a SplitSum,
    group: Index,
    thread: Index,
    leads: Cond,
}

impl SplitSum {
    /// `stored` is the plan of what one block stores.
    pub(crate) fn new(
        k: &mut Builder,
        stored: &GemmPlan,
        workspace: Reg,
        parts: Index,
    ) -> SplitSum {
        let ([m, n, _], groups) = (stored.tile, stored.warps[0]);
        SplitSum {
            workspace,
            parts,
            before: k.shared_bytes(4 * groups as u32, 4),
            groups,
            bytes: m * n * 4,
        }
    }

    /// A consumer's part of it.
    pub(crate) fn of_thread(&self, k: &mut Builder, thread: &Index) -> ThreadSplit<'_> {
        let lane = thread % i64::from(WARPGROUP_THREADS);
        ThreadSplit {
            of: self,
            group: thread / i64::from(WARPGROUP_THREADS),
            thread: thread.clone(),
            leads: k.equal(&lane, &0.into()),
        }
    }
}

impl ThreadSplit<'_> {
    /// Writes the sums of a part of K. `place` is the number of the block's part of C among all of them. The warpgroup that
    /// comes last replaces its sums by those over all parts, and goes on with `then`.
    pub(crate) fn sum(
        &self,
        k: &mut Builder,
        sums: &Fragment,
        [place, part]: [&Index; 2],
        then: impl FnOnce(&mut Builder),
    ) {
        let SplitSum {
            parts,
            groups,
            bytes,
            ..
        } = self.of;
        let sums = sums.gathered(0, sums.layout().size());
        let step = groups * i64::from(WARPGROUP_THREADS) * 4 * VECTOR;
        let at = |i: usize, from: Reg| Address::from(from).at(i as i64 * step);
        let access = Access::new(Space::Global, Type::F32);
        let first = k.value(&(place * parts).within(0..1 << 24));
        let own = k.value(part);
        let offset = k.value(&(&self.thread * (4 * VECTOR) + COUNTER_BYTES));
        let counter = k.value(&((place * *groups + &self.group).within(0..COUNTERS) * 4));
        let [first, own, counter] = k.emit(|ir| {
            let offset = ir.mul_wide(Type::U32, offset, 1);
            let thread = ir.add(Type::S64, self.of.workspace, offset);
            let first = ir.mul_wide(Type::U32, first, *bytes);
            let first = ir.add(Type::S64, thread, first);
            let own = ir.mul_wide(Type::U32, own, *bytes);
            let own = ir.add(Type::S64, first, own);
            let counter = ir.mul_wide(Type::U32, counter, 1);
            [first, own, ir.add(Type::S64, self.of.workspace, counter)]
        });
        k.emit(|ir| {
            for (i, vector) in sums.regs().chunks(VECTOR as usize).enumerate() {
                ir.store_vector(access, at(i, own), vector);
            }
        });
        let named = &self.group + 1;
        let word = k.value(&(&self.of.before + &self.group * 4));
        let shared = Access::new(Space::Shared, Type::U32);
        let most = k.value(&(parts - 1));
        k.sync_named(&named, WARPGROUP_THREADS);
        k.if_(self.leads, |k| {
            // What this warpgroup wrote is visible to the device before it is counted, and what others wrote after.
            k.fence(FenceKind::AcqRelGpu);
            k.emit(|ir| {
                // Back to 0 after the last part.
                let d = ir.atomic(AtomicOp::Inc, Space::Global, Type::U32, counter, most);
                ir.store(shared, word, d);
            });
            k.fence(FenceKind::AcqRelGpu);
        });
        k.sync_named(&named, WARPGROUP_THREADS);
        let before = k.emit(|ir| ir.load(shared, word));
        let before = k.index_of(before, 0..1 << 24);
        let is_last = k.equal(&before, &(parts - 1));
        k.if_(is_last, |k| {
            k.emit(|ir| {
                for (i, d) in sums.regs().chunks(VECTOR as usize).enumerate() {
                    ir.load_to(access, d, at(i, first));
                }
            });
            k.for_(1, parts, 1, |k, part| {
                let part = k.value(part);
                k.emit(|ir| {
                    let from = ir.mul_wide(Type::U32, part, *bytes);
                    let from = ir.add(Type::S64, first, from);
                    for (i, d) in sums.regs().chunks(VECTOR as usize).enumerate() {
                        let more = ir.load_vector(access, VECTOR as usize, at(i, from));
                        for (d, x) in d.iter().zip(more) {
                            ir.binary_to(BinaryOp::Add, Type::F32, *d, *d, x);
                        }
                    }
                });
            });
            then(k);
        });
    }
}
