//! `KernelBuilder`: barriers, fences, shuffles.

use super::KernelBuilder;
use crate::modifiers::{BarrierOp, ClusterOrder, FenceKind, Scope, ShuffleMode, Space, VoteMode};
use crate::op::{Async, Exchange, Sync};
use crate::operand::{Address, Operand, Reg};
use crate::stmt::Guard;
use crate::ty::RegType;

/// All lanes of a warp.
const FULL: Operand = Operand::Int(0xffff_ffff);

impl KernelBuilder {
    /// Adds `barrier.sync 0` of all threads of the block.
    #[track_caller]
    pub fn sync(&mut self) {
        self.push(Sync::Barrier {
            op: BarrierOp::Sync,
            id: 0.into(),
            threads: None,
        });
    }

    /// Adds `barrier.sync` of a named barrier, 0 to 15, by `threads` threads.
    #[track_caller]
    pub fn named_sync(&mut self, id: impl Into<Operand>, threads: u32) {
        self.push(Sync::Barrier {
            op: BarrierOp::Sync,
            id: id.into(),
            threads: Some(threads.into()),
        });
    }

    /// Adds `barrier.arrive`: arrives without waiting.
    #[track_caller]
    pub fn named_arrive(&mut self, id: impl Into<Operand>, threads: u32) {
        self.push(Sync::Barrier {
            op: BarrierOp::Arrive,
            id: id.into(),
            threads: Some(threads.into()),
        });
    }

    /// Adds `bar.warp.sync` of a whole warp.
    #[track_caller]
    pub fn warp_sync(&mut self) {
        self.push(Sync::WarpSync { mask: FULL });
    }

    /// Arrives at the cluster's barrier with release semantics, and waits with acquire semantics.
    #[track_caller]
    pub fn cluster_sync(&mut self) {
        self.push(Sync::ClusterArrive {
            order: ClusterOrder::Release,
        });
        self.push(Sync::ClusterWait);
    }

    /// Adds a fence.
    #[track_caller]
    pub fn fence(&mut self, kind: FenceKind) {
        self.push(Sync::Fence(kind));
    }

    /// Adds `shfl.sync` of a whole warp.
    #[track_caller]
    pub fn shuffle(&mut self, mode: ShuffleMode, a: Reg, lane: impl Into<Operand>) -> Reg {
        let d = self.reg(a.ty);
        let clamp = if mode == ShuffleMode::Up { 0 } else { 31 };
        self.push(Exchange::Shuffle {
            mode,
            d,
            p: None,
            a: a.into(),
            lane: lane.into(),
            clamp: clamp.into(),
            mask: FULL,
        });
        d
    }

    /// Adds `vote.sync` of a whole warp: a predicate, or for a ballot a mask.
    #[track_caller]
    pub fn vote(&mut self, mode: VoteMode, p: impl Into<Guard>) -> Reg {
        let d = self.reg(mode.result().register());
        self.push(Exchange::Vote {
            mode,
            d,
            p: p.into(),
            mask: FULL,
        });
        d
    }

    /// Adds `elect.sync`: true in one lane of the warp.
    #[track_caller]
    pub fn elect(&mut self) -> Reg {
        let p = self.reg(RegType::Pred);
        self.push(Exchange::Elect { p, mask: FULL });
        p
    }

    /// Adds `mbarrier.init`: each phase takes `count` arrivals.
    #[track_caller]
    pub fn mbarrier_init(&mut self, a: impl Into<Address>, count: impl Into<Operand>) {
        self.push(Sync::MbarrierInit {
            a: a.into(),
            count: count.into(),
        });
    }

    /// Adds `mbarrier.arrive` on a barrier of this block.
    #[track_caller]
    pub fn mbarrier_arrive(&mut self, a: impl Into<Address>) {
        self.arrive((Space::Shared, Scope::Cta), a.into(), None);
    }

    /// Adds `mbarrier.arrive` on a barrier of any block of the cluster, by an address from `mapa`.
    #[track_caller]
    pub fn mbarrier_arrive_cluster(&mut self, a: impl Into<Address>) {
        self.arrive((Space::Cluster, Scope::Cta), a.into(), None);
    }

    /// Adds `mbarrier.arrive.release.cluster` on a barrier of any block of the cluster, by an address from `mapa`: loads and
    /// stores that reach other blocks are complete before it.
    #[track_caller]
    pub fn mbarrier_release_cluster(&mut self, a: impl Into<Address>) {
        self.arrive((Space::Cluster, Scope::Cluster), a.into(), None);
    }

    /// Adds `mbarrier.arrive.expect_tx`: arrives, and adds `bytes` to the transaction count of the phase.
    #[track_caller]
    pub fn mbarrier_arrive_expect(&mut self, a: impl Into<Address>, bytes: impl Into<Operand>) {
        self.arrive((Space::Shared, Scope::Cta), a.into(), Some(bytes.into()));
    }

    #[track_caller]
    fn arrive(&mut self, (space, scope): (Space, Scope), a: Address, expect: Option<Operand>) {
        self.push(Sync::MbarrierArrive {
            space,
            a,
            count: None,
            expect,
            scope,
        });
    }

    /// Adds `mbarrier.try_wait.parity` once: true if that phase has completed.
    #[track_caller]
    pub fn mbarrier_try(&mut self, a: impl Into<Address>, parity: impl Into<Operand>) -> Reg {
        let p = self.reg(RegType::Pred);
        self.push(Sync::MbarrierTry {
            test: false,
            p,
            a: a.into(),
            parity: parity.into(),
            scope: Scope::Cta,
        });
        p
    }

    /// Waits until the phase of that parity has completed.
    #[track_caller]
    pub fn mbarrier_wait(&mut self, a: impl Into<Address>, parity: impl Into<Operand>) {
        self.push(Sync::MbarrierWait {
            a: a.into(),
            parity: parity.into(),
        });
    }

    /// Adds `cp.async.commit_group`.
    #[track_caller]
    pub fn cp_async_commit(&mut self) {
        self.push(Async::CpAsyncCommit);
    }

    /// Adds `cp.async.wait_group`: at most `pending` of this thread's groups stay in flight.
    #[track_caller]
    pub fn cp_async_wait(&mut self, pending: u32) {
        self.push(Async::CpAsyncWait { pending });
    }

    /// Adds `cp.async.bulk.commit_group`.
    #[track_caller]
    pub fn bulk_commit(&mut self) {
        self.push(Async::BulkCommit);
    }

    /// Adds `cp.async.bulk.wait_group`: at most `pending` groups stay in flight; with `read`, their sources may be
    /// reused.
    #[track_caller]
    pub fn bulk_wait(&mut self, pending: u32, read: bool) {
        self.push(Async::BulkWait { pending, read });
    }

    /// Adds `wgmma.fence`.
    #[track_caller]
    pub fn wgmma_fence(&mut self) {
        self.push(Async::WgmmaFence);
    }

    /// Adds `wgmma.commit_group`.
    #[track_caller]
    pub fn wgmma_commit(&mut self) {
        self.push(Async::WgmmaCommit);
    }

    /// Adds `wgmma.wait_group`.
    #[track_caller]
    pub fn wgmma_wait(&mut self, pending: u32) {
        self.push(Async::WgmmaWait { pending });
    }

    /// Adds `setmaxnreg`.
    #[track_caller]
    pub fn set_max_registers(&mut self, increase: bool, count: u32) {
        self.push(Sync::SetMaxReg { increase, count });
    }
}
