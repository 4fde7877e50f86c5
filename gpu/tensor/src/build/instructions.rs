//! Instructions that the builder passes on to [`KernelBuilder`] as they are.

use colex_atom::Arch;
use colex_ir::{FenceKind, KernelBuilder};

use super::Builder;

impl Builder {
    /// Returns the architecture that the kernel is built for.
    pub fn target(&self) -> Arch {
        self.ir.target()
    }

    /// Declares the blocks of a cluster, along x, y and z.
    pub fn cluster(&mut self, blocks: [u32; 3]) -> &mut Self {
        self.ir.cluster(blocks);
        self
    }

    /// Declares how many blocks a multiprocessor must be able to hold.
    pub fn min_blocks(&mut self, blocks: u32) -> &mut Self {
        self.ir.min_blocks(blocks);
        self
    }

    /// Declares the most registers that a thread may get.
    pub fn max_registers(&mut self, registers: u32) -> &mut Self {
        self.ir.max_registers(registers);
        self
    }

    /// Adds instructions of [`KernelBuilder`] at this place of the kernel, and returns what `body` does.
    pub fn emit<T>(&mut self, body: impl FnOnce(&mut KernelBuilder) -> T) -> T {
        body(&mut self.ir)
    }

    /// Synchronises the threads of the block (`barrier.sync 0`).
    #[track_caller]
    pub fn sync(&mut self) {
        self.ir.sync();
    }

    /// Synchronises the threads of all blocks of the cluster (`barrier.cluster`).
    #[track_caller]
    pub fn cluster_sync(&mut self) {
        self.ir.cluster_sync();
    }

    /// Adds a fence.
    #[track_caller]
    pub fn fence(&mut self, kind: FenceKind) {
        self.ir.fence(kind);
    }

    /// Closes the group of this thread's `cp.async` copies so far (`cp.async.commit_group`).
    #[track_caller]
    pub fn cp_async_commit(&mut self) {
        self.ir.cp_async_commit();
    }

    /// Waits until at most `pending` groups of this thread's `cp.async` copies are in flight (`cp.async.wait_group`).
    #[track_caller]
    pub fn cp_async_wait(&mut self, pending: u32) {
        self.ir.cp_async_wait(pending);
    }

    /// Closes the group of this thread's bulk stores so far (`cp.async.bulk.commit_group`).
    #[track_caller]
    pub fn bulk_commit(&mut self) {
        self.ir.bulk_commit();
    }

    /// Waits until at most `pending` groups of this thread's bulk stores are in flight; with `read`, only until shared memory
    /// has been read (`cp.async.bulk.wait_group`).
    #[track_caller]
    pub fn bulk_wait(&mut self, pending: u32, read: bool) {
        self.ir.bulk_wait(pending, read);
    }

    /// Orders the warpgroup's accesses of registers and shared memory before the `wgmma` that follows.
    #[track_caller]
    pub fn wgmma_fence(&mut self) {
        self.ir.wgmma_fence();
    }

    /// Closes the group of the warpgroup's `wgmma` so far.
    #[track_caller]
    pub fn wgmma_commit(&mut self) {
        self.ir.wgmma_commit();
    }

    /// Waits until at most `pending` groups of the warpgroup's `wgmma` are in flight.
    #[track_caller]
    pub fn wgmma_wait(&mut self, pending: u32) {
        self.ir.wgmma_wait(pending);
    }

    /// Gives each thread of the warpgroup more registers, or fewer, than it began with (`setmaxnreg`).
    #[track_caller]
    pub fn set_max_registers(&mut self, increase: bool, count: u32) {
        self.ir.set_max_registers(increase, count);
    }
}
