//! The common part of kernels around a bulk or tensor copy: one thread issues it, the others wait for it.

use colex_atom::{CopyAtom, Space};

use super::frame::Frame;
use super::shared;
use super::shared::Area;
use colex_ir::{Access, Address, BinaryOp, Compare, End, Guard, KernelBuilder, Reg, Special, Type};

/// One warp.
pub(super) const THREADS: u32 = 32;

/// Shared memory, the barrier that counts bytes, and the thread that issues the copy.
pub(super) struct Engine {
    /// Where a load arrives, or what is combined into.
    pub(super) target: Area,
    /// Where a store begins.
    pub(super) source: Area,
    pub(super) barrier: Reg,
    /// True in one thread of the block.
    pub(super) first: Guard,
    clusters: bool,
}

/// What shared memory holds before the copy.
pub(super) struct Before {
    /// The input byte from which the source is filled.
    pub(super) source: u32,
    /// The input byte from which the target is filled; poisoned if there is none.
    pub(super) target: Option<u32>,
}

impl Engine {
    /// Prepares shared memory and a barrier of one arrival, and waits for every block that will be reached.
    pub(super) fn open(
        k: &mut KernelBuilder,
        frame: &Frame,
        bytes: u32,
        before: &Before,
        cluster: u32,
    ) -> Engine {
        if cluster > 1 {
            k.cluster([cluster, 1, 1]);
        }
        let barrier = k.shared("barrier", 8, 8);
        let barrier = k.address_of(barrier);
        let [target, source] = ["target", "source"].map(|name| Area::declare(k, name, bytes));
        match before.target {
            Some(from) => target.fill(k, frame, from),
            None => target.poison(k, frame),
        }
        source.fill(k, frame, before.source);
        let first = k.setp(Compare::Eq, Type::U32, frame.tid, 0).into();
        k.when(first, |k| k.mbarrier_init(barrier, 1));
        let engine = Engine {
            target,
            source,
            barrier,
            first,
            clusters: cluster > 1,
        };
        k.when(first, |k| k.fence(colex_ir::FenceKind::MbarrierInit));
        shared::show(k);
        engine.meet(k);
        engine
    }

    /// Every thread of the block, or of the cluster, has come this far.
    pub(super) fn meet(&self, k: &mut KernelBuilder) {
        if self.clusters {
            k.cluster_sync()
        } else {
            k.sync()
        }
    }

    /// One thread asks for a copy that reports `bytes` to the block's barrier, and all wait for it.
    pub(super) fn load(
        &self,
        k: &mut KernelBuilder,
        bytes: u32,
        ask: impl FnOnce(&mut KernelBuilder),
    ) {
        let barrier = self.barrier;
        k.if_(self.first, |k| {
            k.mbarrier_arrive_expect(barrier, bytes);
            ask(k);
        });
        k.mbarrier_wait(barrier, 0);
        self.meet(k);
    }

    /// As [`load`](Self::load) into the blocks of the mask at input byte `at`, of which the first block asks.
    pub(super) fn multicast(
        &self,
        k: &mut KernelBuilder,
        mask: Address,
        bytes: u32,
        ask: impl FnOnce(&mut KernelBuilder, Reg),
    ) {
        let barrier = self.barrier;
        let rank = k.mov(Type::U32, Special::ClusterCtaRank);
        let blocks = k.load(Access::new(colex_ir::Space::Global, Type::U32), mask);
        let mine = k.shr(Type::U32, blocks, rank);
        let mine = k.and(Type::B32, mine, 1);
        let mine = k.setp(Compare::Ne, Type::U32, mine, 0);
        let expects = k.pred(BinaryOp::And, self.first, mine);
        k.when(expects, |k| k.mbarrier_arrive_expect(barrier, bytes));
        self.meet(k);
        let leads = k.setp(Compare::Eq, Type::U32, rank, 0);
        let asks = k.pred(BinaryOp::And, self.first, leads);
        k.if_(asks, |k| {
            let narrow = k.cvt(Type::U16, Type::U32, blocks);
            ask(k, narrow);
        });
        k.if_(mine, |k| k.mbarrier_wait(barrier, 0));
        self.meet(k);
    }

    /// One thread asks for a copy out of shared memory and waits until it is written.
    pub(super) fn store(&self, k: &mut KernelBuilder, ask: impl FnOnce(&mut KernelBuilder)) {
        k.if_(self.first, |k| {
            ask(k);
            k.bulk_commit();
            k.bulk_wait(0, false);
        });
        k.sync();
    }

    /// An address of this block's, in the other block of a pair.
    pub(super) fn peer(k: &mut KernelBuilder, here: Reg) -> Reg {
        let rank = k.mov(Type::U32, Special::ClusterCtaRank);
        let other = k.xor(Type::B32, rank, 1);
        k.mapa(here, other)
    }
}

/// Where a copy goes to: this block's shared memory, or the output.
pub(super) fn memory(at: Reg) -> End {
    End::Memory(at.into())
}

/// Whether the copy's source is shared memory.
pub(super) fn from_shared(atom: &CopyAtom) -> bool {
    atom.from() == Space::Shared
}
