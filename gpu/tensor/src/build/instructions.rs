//! Instructions that the builder forwards to [`KernelBuilder`].

use colex_atom::Arch;
use colex_ir::{FenceKind, KernelBuilder};

use super::Builder;

impl Builder {
    /// Returns the architecture that the kernel is built for.
    ///
    /// ```
    /// # use colex_tensor::prelude::*;
    /// assert_eq!(Builder::new("k", Arch::Sm80, 32).target(), Arch::Sm80);
    /// ```
    pub fn target(&self) -> Arch {
        self.ir.target()
    }

    /// Declares the blocks of a cluster, along x, y and z.
    ///
    /// ```
    /// # use colex_tensor::prelude::*;
    /// let mut k = Builder::new("k", Arch::Sm90a, 32);
    /// k.cluster([2, 1, 1]);
    /// assert_eq!(k.finish()?.kernel.cluster, Some([2, 1, 1]));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn cluster(&mut self, blocks: [u32; 3]) -> &mut Self {
        self.ir.cluster(blocks);
        self.cluster = blocks.into_iter().fold(1, u32::saturating_mul);
        self
    }

    /// Declares the number of blocks that a multiprocessor must be able to hold (`.minnctapersm`).
    ///
    /// ```
    /// # use colex_tensor::prelude::*;
    /// let mut k = Builder::new("k", Arch::Sm80, 32);
    /// k.min_blocks(2);
    /// assert!(k.finish()?.kernel.ptx()?.contains(".minnctapersm 2"));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn min_blocks(&mut self, blocks: u32) -> &mut Self {
        self.ir.min_blocks(blocks);
        self
    }

    /// Declares the largest number of registers of a thread (`.maxnreg`).
    ///
    /// ```
    /// # use colex_tensor::prelude::*;
    /// let mut k = Builder::new("k", Arch::Sm80, 32);
    /// k.max_registers(168);
    /// assert!(k.finish()?.kernel.ptx()?.contains(".maxnreg 168"));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn max_registers(&mut self, registers: u32) -> &mut Self {
        self.ir.max_registers(registers);
        self
    }

    /// Adds instructions of [`KernelBuilder`] at this place of the kernel, and returns the result of `body`.
    ///
    /// ```
    /// # use colex_tensor::prelude::*;
    /// # use colex_ir::{Type, UnaryOp};
    /// # use colex_proof::examples::values;
    /// let mut k = Builder::new("k", Arch::Sm80, 32);
    /// let tid = k.thread();
    /// let tid = k.value(&tid);
    /// let bits = k.emit(|ir| ir.unary(UnaryOp::Popc, Type::B32, tid));
    /// let bits = k.index_of(bits, 0..33);
    /// assert_eq!(values(k, &bits)?[5..8], [2, 2, 3]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn emit<T>(&mut self, body: impl FnOnce(&mut KernelBuilder) -> T) -> T {
        body(&mut self.ir)
    }

    /// Synchronises the threads of the block (`bar.sync 0`).
    ///
    /// ```
    /// # use colex_tensor::prelude::*;
    /// let mut k = Builder::new("k", Arch::Sm80, 64);
    /// k.sync();
    /// assert!(k.finish()?.kernel.ptx()?.contains("bar.sync 0;"));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[track_caller]
    pub fn sync(&mut self) {
        self.pipelines.met();
        self.ir.sync();
    }

    /// Synchronises the threads of all blocks of the cluster (`barrier.cluster`).
    ///
    /// ```
    /// # use colex_tensor::prelude::*;
    /// let mut k = Builder::new("k", Arch::Sm90a, 64);
    /// k.cluster([2, 1, 1]);
    /// k.cluster_sync();
    /// let text = k.finish()?.kernel.ptx()?;
    /// assert!(text.contains("barrier.cluster.arrive") && text.contains("barrier.cluster.wait"));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[track_caller]
    pub fn cluster_sync(&mut self) {
        self.ir.cluster_sync();
    }

    /// Adds a fence.
    ///
    /// ```
    /// # use colex_tensor::prelude::*;
    /// let mut k = Builder::new("k", Arch::Sm90a, 32);
    /// k.fence(FenceKind::ProxyAsyncShared);
    /// assert!(k.finish()?.kernel.ptx()?.contains("fence.proxy.async.shared::cta;"));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[track_caller]
    pub fn fence(&mut self, kind: FenceKind) {
        self.ir.fence(kind);
    }

    /// Commits the thread's `cp.async` copies since the last commit as one group (`cp.async.commit_group`).
    ///
    /// ```
    /// # use colex_tensor::prelude::*;
    /// let mut k = Builder::new("k", Arch::Sm80, 32);
    /// k.cp_async_commit();
    /// k.cp_async_wait(0);
    /// assert!(k.finish()?.kernel.ptx()?.contains("cp.async.commit_group;"));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[track_caller]
    pub fn cp_async_commit(&mut self) {
        self.ir.cp_async_commit();
    }

    /// Waits until at most `pending` groups of this thread's `cp.async` copies are in flight (`cp.async.wait_group`).
    ///
    /// ```
    /// # use colex_tensor::prelude::*;
    /// let mut k = Builder::new("k", Arch::Sm80, 32);
    /// (0..3).for_each(|_| k.cp_async_commit());
    /// k.cp_async_wait(2); // the first of three groups is complete
    /// assert!(k.finish()?.kernel.ptx()?.contains("cp.async.wait_group 2;"));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[track_caller]
    pub fn cp_async_wait(&mut self, pending: u32) {
        self.ir.cp_async_wait(pending);
    }

    /// Commits the thread's bulk stores since the last commit as one group (`cp.async.bulk.commit_group`).
    ///
    /// ```
    /// # use colex_tensor::prelude::*;
    /// let mut k = Builder::new("k", Arch::Sm90a, 32);
    /// k.bulk_commit();
    /// k.bulk_wait(0, false);
    /// assert!(k.finish()?.kernel.ptx()?.contains("cp.async.bulk.commit_group;"));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[track_caller]
    pub fn bulk_commit(&mut self) {
        self.ir.bulk_commit();
    }

    /// Waits until at most `pending` groups of the thread's bulk stores are in flight (`cp.async.bulk.wait_group`). With
    /// `read`, it waits only until the stores have read shared memory.
    ///
    /// ```
    /// # use colex_tensor::prelude::*;
    /// let mut k = Builder::new("k", Arch::Sm90a, 32);
    /// k.bulk_commit();
    /// k.bulk_wait(0, true); // shared memory may be written again
    /// assert!(k.finish()?.kernel.ptx()?.contains("cp.async.bulk.wait_group.read 0;"));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[track_caller]
    pub fn bulk_wait(&mut self, pending: u32, read: bool) {
        self.ir.bulk_wait(pending, read);
    }

    /// Orders the warpgroup's accesses to registers and shared memory before the following `wgmma` (`wgmma.fence`).
    ///
    /// ```
    /// # use colex_tensor::prelude::*;
    /// let mut k = Builder::new("k", Arch::Sm90a, 128);
    /// k.wgmma_fence();
    /// assert!(k.finish()?.kernel.ptx()?.contains("wgmma.fence.sync.aligned;"));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[track_caller]
    pub fn wgmma_fence(&mut self) {
        self.ir.wgmma_fence();
    }

    /// Commits the warpgroup's `wgmma` since the last commit as one group (`wgmma.commit_group`).
    ///
    /// ```
    /// # use colex_tensor::prelude::*;
    /// let mut k = Builder::new("k", Arch::Sm90a, 128);
    /// k.wgmma_commit();
    /// assert!(k.finish()?.kernel.ptx()?.contains("wgmma.commit_group.sync.aligned;"));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[track_caller]
    pub fn wgmma_commit(&mut self) {
        self.ir.wgmma_commit();
    }

    /// Waits until at most `pending` groups of the warpgroup's `wgmma` are in flight (`wgmma.wait_group`).
    ///
    /// ```
    /// # use colex_tensor::prelude::*;
    /// let mut k = Builder::new("k", Arch::Sm90a, 128);
    /// k.wgmma_wait(1);
    /// assert!(k.finish()?.kernel.ptx()?.contains("wgmma.wait_group.sync.aligned 1;"));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[track_caller]
    pub fn wgmma_wait(&mut self, pending: u32) {
        self.ir.wgmma_wait(pending);
    }

    /// Sets the number of registers of each thread of the warpgroup to `count` (`setmaxnreg`), which must be an
    /// increase if `increase` is set, and else a decrease.
    ///
    /// ```
    /// # use colex_tensor::prelude::*;
    /// let mut k = Builder::new("k", Arch::Sm90a, 384);
    /// k.min_blocks(1);
    /// let group = k.uniform(128);
    /// let is_producer = k.equal(&group, &2.into());
    /// k.if_else(is_producer, |k| k.set_max_registers(false, 24), |k| k.set_max_registers(true, 240));
    /// assert!(k.finish()?.kernel.ptx()?.contains("setmaxnreg.inc.sync.aligned.u32 240;"));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[track_caller]
    pub fn set_max_registers(&mut self, increase: bool, count: u32) {
        self.ir.set_max_registers(increase, count);
    }
}
