//! Sums over the blocks of a cluster that divide K among them.
//!
//! Each block writes its accumulators to its own shared memory. Each block then reads a part of the columns from all
//! blocks and adds them in the order of the ranks, so that the result is the same in every run. No memory of the device
//! is needed: two streams, and launches of a captured graph, share nothing.

use colex_ir::{Access, BinaryOp, Scope, Space, Sync, Type};
use colex_tensor::{Barriers, Builder, Cond, Fragment, Index, Var};
use colex_tiled::{Operand, TiledMma};

use super::convert::sum_register;
use crate::gemm::plan::GemmPlan;
use crate::gemm::sm90::WARPGROUP_THREADS;

/// The number of accumulators that a thread writes and reads at once.
const VECTOR: i64 = 4;

/// The bytes of a vector.
const BYTES: i64 = 4 * VECTOR;

/// The memory of the sums of a block, and the barriers that keep the blocks of a cluster in step.
pub(crate) struct ClusterSum {
    /// Blocks of the cluster.
    blocks: i64,
    /// Threads of a block that have accumulators.
    threads: i64,
    rank: Index,
    /// The accumulators of the block: vector `i` of thread `t` is the one of number `i threads + t`.
    sums: Index,
    /// One for each warpgroup: the blocks have written their accumulators.
    written: Barriers,
    /// One for each warpgroup: the blocks have read this block's accumulators.
    read: Barriers,
    /// The type of the accumulators.
    ty: Type,
    /// The product whose accumulators are a block's part of the columns.
    part: TiledMma,
    extents: [i64; 2],
}

/// The part of a thread.
pub(crate) struct ThreadSum<'a> {
    of: &'a ClusterSum,
    thread: Index,
    group: Index,
    lane: Index,
    /// Whether the thread arrives at the barriers of the block whose rank is its lane.
    arrives: Cond,
    /// The parity of the tile's phase.
    turn: Var,
}

impl ClusterSum {
    pub(crate) fn new(
        k: &mut Builder,
        plan: &GemmPlan,
        part: TiledMma,
        rank: &Index,
    ) -> ClusterSum {
        let [m, n, _] = plan.tile;
        let (groups, blocks) = (plan.warps[0], plan.cluster[2]);
        ClusterSum {
            blocks,
            threads: groups * i64::from(WARPGROUP_THREADS),
            rank: rank.clone(),
            sums: k.shared_bytes((m * n * 4) as u32, 128),
            written: k.barriers(groups),
            read: k.barriers(groups),
            ty: sum_register(plan.operands.ab),
            part,
            extents: [m, n / blocks],
        }
    }

    /// Initialises the barriers. A fence and a barrier of the cluster must follow.
    pub(crate) fn start(&self, k: &mut Builder) {
        let thread = k.thread();
        let first = k.equal(&thread, &0.into());
        k.if_(first, |k| {
            k.init_barriers(&self.written, self.blocks as u32);
            k.init_barriers(&self.read, self.blocks as u32);
        });
    }

    /// A consumer's part of it.
    pub(crate) fn of_thread(&self, k: &mut Builder, thread: &Index) -> ThreadSum<'_> {
        let lane = thread % i64::from(WARPGROUP_THREADS);
        ThreadSum {
            of: self,
            thread: thread.clone(),
            group: thread / i64::from(WARPGROUP_THREADS),
            arrives: k.less(&lane, &self.blocks.into()),
            lane,
            turn: k.var(0, 0..2),
        }
    }
}

impl ThreadSum<'_> {
    /// The sums of this block's part of the columns over all blocks of the cluster.
    pub(crate) fn total(&self, k: &mut Builder, acc: &Fragment) -> Fragment {
        let ClusterSum {
            blocks,
            threads,
            rank,
            ty,
            ..
        } = self.of;
        let access = Access::new(Space::Shared, *ty);
        let turn = k.get(&self.turn);
        // The other blocks have read the sums of the tile before.
        k.wait(&self.of.read.at(&self.group), &(Index::from(1) - &turn));
        let own = &self.of.sums + &self.thread * BYTES;
        let address = k.value(&own);
        let all = acc.gathered(0, acc.layout().size());
        k.emit(|ir| {
            for (i, vector) in all.regs().chunks(VECTOR as usize).enumerate() {
                let at = colex_ir::Address::from(address).at(i as i64 * threads * BYTES);
                ir.store_vector(access, at, vector);
            }
        });
        self.tell(k, &self.of.written);
        self.wait_for_blocks(k, &turn);
        let [m, n] = self.of.extents;
        let total = k.fragment_of(&self.of.part, Operand::C, (m, n));
        let vectors = total.layout().size() / VECTOR;
        let part = k.value(&(own + rank * (vectors * threads * BYTES)));
        let access = Access::new(Space::Cluster, *ty);
        let sums = total.gathered(0, total.layout().size());
        k.emit(|ir| {
            for block in 0..*blocks {
                let from = ir.mapa(part, block);
                for (i, d) in sums.regs().chunks(VECTOR as usize).enumerate() {
                    let at = colex_ir::Address::from(from).at(i as i64 * threads * BYTES);
                    if block == 0 {
                        ir.load_to(access, d, at);
                        continue;
                    }
                    let more = ir.load_vector(access, VECTOR as usize, at);
                    for (d, x) in d.iter().zip(more) {
                        ir.binary_to(BinaryOp::Add, *ty, *d, *d, x);
                    }
                }
            }
        });
        self.tell(k, &self.of.read);
        k.set(&self.turn, Index::from(1) - turn);
        total
    }

    /// Tells every block of the cluster that the threads of this warpgroup have come here. What they have written is visible to
    /// all of the cluster, and their loads from the other blocks are complete: a plain arrival would overtake these, and the
    /// owner would write the sums of its next accumulators under them.
    fn tell(&self, k: &mut Builder, barriers: &Barriers) {
        k.sync_named(&(&self.group + 1), WARPGROUP_THREADS);
        k.release_at(&barriers.at(&self.group), &self.lane, self.arrives);
    }

    /// Waits until every block has written its sums, and acquires what they have written.
    fn wait_for_blocks(&self, k: &mut Builder, parity: &Index) {
        let barrier = self.of.written.at(&self.group);
        let (a, parity) = (k.address(&barrier, false), k.operand(parity));
        k.emit(|ir| {
            ir.loop_(|ir| {
                let p = ir.reg(colex_ir::RegType::Pred);
                ir.push(Sync::MbarrierTry {
                    test: false,
                    p,
                    a,
                    parity,
                    scope: Scope::Cluster,
                });
                ir.break_if(p);
            });
        });
    }

    /// Waits until the other blocks have read the last sums: this block's memory ends with it.
    pub(crate) fn finish(&self, k: &mut Builder) {
        let turn = k.get(&self.turn);
        k.wait(&self.of.read.at(&self.group), &(Index::from(1) - turn));
    }
}
