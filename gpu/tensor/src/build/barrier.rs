//! Barriers in shared memory, and those of a block that have names.

use std::collections::HashMap;
use std::panic::Location;

use super::Builder;
use super::claims::Says;
use super::flow::Cond;
use crate::error::{At, Error, ErrorKind};
use crate::failure::FirstFailure;
use crate::index::Index;
use colex_ir::claims::ClaimId;

/// The number of named barriers of a block (PTX ISA 9.7.13.1).
const NAMED: i64 = 16;

/// An array of mbarriers in the block's shared memory.
#[derive(Clone, Debug)]
pub struct Barriers {
    pub(crate) base: Index,
    count: i64,
    failure: FirstFailure,
}

/// Bytes that a barrier is told of, or that a load reports to it.
#[derive(Clone, Debug)]
pub(crate) struct Transaction {
    barrier: Index,
    bytes: i64,
    /// Whether they arrive.
    arrive: bool,
    /// The open body of the kernel.
    body: u32,
    at: &'static Location<'static>,
}

impl Barriers {
    /// Returns the shared-memory address of the barrier at `place`, in bytes.
    ///
    /// If the range of `place` contains places without a barrier, [`Builder::finish`] returns an error.
    ///
    /// ```
    /// # use colex_tensor::prelude::*;
    /// let mut k = Builder::new("k", Arch::Sm80, 32);
    /// let full = k.barriers(3);
    /// assert_eq!((full.at(2) - full.at(0)).as_constant(), Some(16)); // 8 bytes each
    /// ```
    #[track_caller]
    pub fn at(&self, place: impl Into<Index>) -> Index {
        let place = place.into();
        let inert = || self.base.clone();
        self.failure.attempt(Location::caller(), inert, || {
            self.failure.own_indices([&place])?;
            let (low, high) = place.range();
            if (low < 0 || high >= self.count) && place.poison().is_none() {
                let why = format!(
                    "the barrier's place {place} lies from {low} to {high}, and there are places 0 to {} (`within` says what \
                     no rule finds)",
                    self.count - 1
                );
                return Err(ErrorKind::operands("at", why));
            }
            Ok(&self.base + place * 8)
        })
    }

    /// Returns the number of barriers.
    ///
    /// ```
    /// # use colex_tensor::prelude::*;
    /// let mut k = Builder::new("k", Arch::Sm80, 32);
    /// assert_eq!(k.barriers(3).count(), 3);
    /// ```
    pub fn count(&self) -> i64 {
        self.count
    }
}

impl Builder {
    /// Reserves shared memory for `count` uninitialised mbarriers. If `count` is below 1, [`Builder::finish`] returns
    /// an error.
    ///
    /// ```
    /// # use colex_tensor::prelude::*;
    /// let mut k = Builder::new("k", Arch::Sm80, 32);
    /// let full = k.barriers(3);
    /// assert_eq!(full.count(), 3);
    /// assert_eq!(k.finish()?.dynamic_shared(), 24);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[track_caller]
    pub fn barriers(&mut self, count: i64) -> Barriers {
        self.barriers_for("", count)
    }

    /// The same for a purpose, which messages say.
    #[track_caller]
    pub(crate) fn barriers_for(&mut self, purpose: &str, count: i64) -> Barriers {
        let at = Location::caller();
        let bytes = u32::try_from(count).ok().and_then(|n| n.checked_mul(8));
        let Some(bytes) = bytes.filter(|n| *n > 0) else {
            let why = format!("{count} barriers; there are from 1 to {}", u32::MAX / 8);
            self.fail(ErrorKind::operands("barriers", why), at);
            return self.barriers_at(0.into(), 1);
        };
        let start = self.launch.shared;
        let base = self.shared_bytes(bytes, 8);
        // What has no room is an error, and nothing is done for each of them.
        if self.launch.shared == start {
            return self.barriers_at(base, 1);
        }
        let what = format!("array of {count} {purpose}barriers");
        self.describe_shared(what, bytes, ("barrier", 8), None);
        self.barriers_at(base, count)
    }

    fn barriers_at(&self, base: Index, count: i64) -> Barriers {
        let failure = self.failure.clone();
        Barriers {
            base,
            count,
            failure,
        }
    }

    /// Initialises mbarriers whose phases complete after `arrivals` arrivals. Call it from one thread of the block; a
    /// fence and a barrier of all threads that use them must follow.
    ///
    /// ```
    /// # use colex_tensor::prelude::*;
    /// # use colex_proof::examples::values;
    /// let mut k = Builder::new("k", Arch::Sm80, 32);
    /// let (ready, tid) = (k.barriers(1), k.thread());
    /// let is_first = k.equal(&tid, &0.into());
    /// k.if_(is_first, |k| k.init_barriers(&ready, 32)); // 32 arrivals complete a phase
    /// k.sync();
    /// k.arrive(&ready.at(0));
    /// k.wait(&ready.at(0), &0.into());
    /// assert_eq!(values(k, &tid)?[31], 31);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[track_caller]
    pub fn init_barriers(&mut self, barriers: &Barriers, arrivals: u32) {
        self.site(Location::caller(), |k| {
            for i in 0..barriers.count {
                let address = k.address(&barriers.at(i), false);
                k.ir.mbarrier_init(address, arrivals);
            }
        });
    }

    /// Waits until the phase of an mbarrier with parity `parity` is complete (`mbarrier.try_wait.parity`).
    ///
    /// ```
    /// # use colex_tensor::prelude::*;
    /// # use colex_proof::examples::values;
    /// # let mut k = Builder::new("k", Arch::Sm80, 32);
    /// # let (ready, tid) = (k.barriers(1), k.thread());
    /// # let is_first = k.equal(&tid, &0.into());
    /// # k.if_(is_first, |k| k.init_barriers(&ready, 32));
    /// # k.sync();
    /// for parity in [0, 1, 0] {
    ///     k.arrive(&ready.at(0));
    ///     k.wait(&ready.at(0), &parity.into()); // phases have the parities 0, 1, 0, ..
    /// }
    /// assert_eq!(values(k, &tid)?[31], 31);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[track_caller]
    pub fn wait(&mut self, barrier: &Index, parity: &Index) {
        self.site(Location::caller(), |k| {
            let (address, parity) = (k.address(barrier, false), k.operand(parity));
            k.ir.mbarrier_wait(address, parity);
        });
    }

    /// Arrives at an mbarrier of this block (`mbarrier.arrive`).
    ///
    /// ```
    /// # use colex_tensor::prelude::*;
    /// # use colex_proof::examples::values;
    /// # let mut k = Builder::new("k", Arch::Sm80, 64);
    /// # let (ready, tid) = (k.barriers(1), k.thread());
    /// # let is_first = k.equal(&tid, &0.into());
    /// # k.if_(is_first, |k| k.init_barriers(&ready, 32));
    /// # k.sync();
    /// let warp = k.uniform(32);
    /// let is_producer = k.equal(&warp, &0.into());
    /// k.if_else(is_producer, |k| k.arrive(&ready.at(0)), |k| k.wait(&ready.at(0), &0.into()));
    /// assert_eq!(values(k, &tid)?[63], 63);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[track_caller]
    pub fn arrive(&mut self, barrier: &Index) {
        self.site(Location::caller(), |k| {
            let address = k.address(barrier, false);
            k.ir.mbarrier_arrive(address);
        });
    }

    /// Arrives at the same mbarrier of the block of rank `rank` in the cluster, in the threads for which `cond` holds.
    ///
    /// The arrival has the scope of a block: it does not wait for loads and stores that reach other blocks' memory, as
    /// [`release_at`](Builder::release_at) does.
    ///
    /// ```
    /// # use colex_tensor::prelude::*;
    /// # use colex_proof::examples::values_of_blocks;
    /// # let mut k = Builder::new("k", Arch::Sm90a, 32);
    /// # k.cluster([2, 1, 1]);
    /// # let (ready, rank, tid) = (k.barriers(1), k.cluster_rank(2), k.thread());
    /// # let is_first = k.equal(&tid, &0.into());
    /// # k.if_(is_first, |k| {
    /// #     k.init_barriers(&ready, 1);
    /// #     k.fence(FenceKind::MbarrierInit);
    /// # });
    /// # k.cluster_sync();
    /// k.arrive_at(&ready.at(0), &rank.xor(&1.into()), is_first); // the other block's barrier
    /// k.wait(&ready.at(0), &0.into());
    /// # k.cluster_sync();
    /// assert_eq!(values_of_blocks(k, 2, &rank)?, [0, 1]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    ///
    /// [`Builder::finish`] fails if no block of the cluster has the rank, or if the cluster is declared after this call. A rank
    /// that turns out to be none of the cluster's is refused as for [`Builder::index_of`].
    #[track_caller]
    pub fn arrive_at(&mut self, barrier: &Index, rank: &Index, cond: Cond) {
        let arrive = |ir: &mut colex_ir::KernelBuilder, at| ir.mbarrier_arrive_cluster(at);
        self.run(Location::caller(), |k| {
            k.signal_at("arrive_at", [barrier, rank], cond, arrive)
        });
    }

    /// Arrives as [`arrive_at`](Builder::arrive_at) does, with the scope of the cluster (`mbarrier.arrive.release.cluster`, PTX ISA
    /// 9.7.13.15): what the thread has loaded from other blocks' memory and stored there is complete before it arrives, and so
    /// is what threads did that a barrier of its block has ordered before it. It waits for all memory accesses under way.
    ///
    /// ```
    /// # use colex_tensor::prelude::*;
    /// # use colex_proof::examples::values_of_blocks;
    /// # let mut k = Builder::new("k", Arch::Sm90a, 32);
    /// # k.cluster([2, 1, 1]);
    /// # let (read, rank, tid) = (k.barriers(1), k.cluster_rank(2), k.thread());
    /// # let is_first = k.equal(&tid, &0.into());
    /// # k.if_(is_first, |k| {
    /// #     k.init_barriers(&read, 1);
    /// #     k.fence(FenceKind::MbarrierInit);
    /// # });
    /// # k.cluster_sync();
    /// // .. the thread has loaded from the other block's shared memory
    /// k.release_at(&read.at(0), &rank.xor(&1.into()), is_first);
    /// k.wait(&read.at(0), &0.into()); // the block may write to that memory again
    /// # k.cluster_sync();
    /// assert_eq!(values_of_blocks(k, 2, &rank)?, [0, 1]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    ///
    /// [`Builder::finish`] fails as for [`Builder::arrive_at`].
    #[track_caller]
    pub fn release_at(&mut self, barrier: &Index, rank: &Index, cond: Cond) {
        let release = |ir: &mut colex_ir::KernelBuilder, at| ir.mbarrier_release_cluster(at);
        self.run(Location::caller(), |k| {
            k.signal_at("release_at", [barrier, rank], cond, release)
        });
    }

    fn signal_at(
        &mut self,
        operation: &'static str,
        [barrier, rank]: [&Index; 2],
        cond: Cond,
        signal: impl FnOnce(&mut colex_ir::KernelBuilder, colex_ir::Reg),
    ) -> Result<(), ErrorKind> {
        self.failure.own_indices([barrier, rank])?;
        let claim = self.claim_rank(operation, rank)?;
        let (address, rank) = (self.value(barrier), self.operand(rank));
        // A rank that does not exist has no address: only threads that arrive ask for it.
        self.where_(cond, |ir| {
            let remote = ir.claiming(claim, |ir| ir.mapa(address, rank));
            signal(ir, remote);
        });
        Ok(())
    }

    /// Refuses a rank that no block of the cluster has; the claim of one that a block need not have.
    fn claim_rank(
        &mut self,
        operation: &'static str,
        rank: &Index,
    ) -> Result<Option<ClaimId>, ErrorKind> {
        let last = i64::from(self.cluster) - 1;
        self.count_ranks(self.cluster);
        let (low, high) = rank.range();
        // What has no value is refused by name where its value is computed.
        if (low > last || high < 0) && rank.poison().is_none() {
            let why = format!(
                "the rank {rank} lies from {low} to {high}, and the cluster that is declared before this call has ranks 0 to {last}"
            );
            return Err(ErrorKind::operands(operation, why));
        }
        Ok((low < 0 || high > last).then(|| self.range_claim(rank, (0, last))))
    }

    /// Arrives at an mbarrier and adds `bytes` to the transaction count of its phase (`mbarrier.arrive.expect_tx`). If the
    /// loads that report to the barrier are in the same body of the kernel, [`Builder::finish`] compares their bytes with
    /// these.
    ///
    /// ```
    /// # use colex_tensor::prelude::*;
    /// let mut k = Builder::new("k", Arch::Sm90a, 32);
    /// let (landed, slab) = (k.barriers(1), k.shared_tensor(Ty::F32, "(256):(1)"));
    /// let a = k.tensor("a", Ty::F32, "(_256):(_1)");
    /// let one = k.elected();
    /// k.if_(one, |k| {
    ///     k.arrive_expect(&landed.at(0), 512);
    ///     k.bulk_load(&a.local_tile(256, 0), &slab, &landed.at(0));
    /// });
    /// let error = k.finish().unwrap_err();
    /// assert!(error.what().ends_with("the barrier is told of 512 bytes, and the loads of the same body bring 1024"));
    /// ```
    #[track_caller]
    pub fn arrive_expect(&mut self, barrier: &Index, bytes: i64) {
        self.note_bytes(barrier, bytes, false, Location::caller());
        self.site(Location::caller(), |k| {
            let address = k.address(barrier, false);
            k.ir.mbarrier_arrive_expect(address, bytes);
        });
    }

    /// Arrives as [`arrive_expect`](Self::arrive_expect) does, with a number of bytes that the launch decides.
    #[track_caller]
    pub(crate) fn arrive_expect_number(&mut self, barrier: &Index, bytes: &Index) {
        self.site(Location::caller(), |k| {
            let address = k.address(barrier, false);
            let bytes = k.value(bytes);
            k.ir.mbarrier_arrive_expect(address, bytes);
        });
    }

    /// Notes that a load reports these bytes to a barrier.
    #[track_caller]
    pub(crate) fn brings(&mut self, barrier: &Index, bytes: i64) {
        self.note_bytes(barrier, bytes, true, Location::caller());
    }

    fn note_bytes(
        &mut self,
        barrier: &Index,
        bytes: i64,
        arrive: bool,
        at: &'static Location<'static>,
    ) {
        let site = self.ir.set_location(None);
        self.ir.set_location(site);
        let body = self.scopes.last().map_or(0, |scope| scope.began);
        self.transactions.push(Transaction {
            barrier: barrier.clone(),
            bytes,
            arrive,
            body,
            at: site.unwrap_or(at),
        });
    }

    /// Refuses a barrier that is told of other bytes than arrive, where both stand in one body.
    pub(crate) fn check_transactions(&self) -> Result<(), Error> {
        let mut barriers: HashMap<&Index, Vec<&Transaction>> = HashMap::new();
        for transaction in &self.transactions {
            barriers
                .entry(&transaction.barrier)
                .or_default()
                .push(transaction);
        }
        for first in &self.transactions {
            let all = &barriers[&first.barrier];
            let sum = |arrive| -> Option<i64> {
                let some = all.iter().filter(|t| t.arrive == arrive);
                let bytes: Vec<i64> = some.map(|t| t.bytes).collect();
                (!bytes.is_empty()).then(|| bytes.iter().sum())
            };
            let (Some(told), Some(arrives)) = (sum(false), sum(true)) else {
                continue;
            };
            if told == arrives || all.iter().any(|t| t.body != first.body) {
                continue;
            }
            let at = all.iter().find(|t| !t.arrive).map_or(first.at, |t| t.at);
            let why = format!(
                "the barrier is told of {told} bytes, and the loads of the same body bring {arrives}"
            );
            return Err(ErrorKind::operands("arrive_expect", why)).at(at);
        }
        Ok(())
    }

    /// Refuses a named barrier that a block does not have, and threads that are not whole warps of it.
    fn check_named(
        &self,
        operation: &'static str,
        id: &Index,
        threads: u32,
    ) -> Result<(), ErrorKind> {
        let (low, high) = id.range();
        let refuse = |why: String| Err(ErrorKind::operands(operation, why));
        if (low < 0 || high >= NAMED) && id.poison().is_none() {
            return refuse(format!(
                "the barrier's number {id} lies from {low} to {high}, and a block has numbers 0 to {} (`within` says what no \
                 rule finds)",
                NAMED - 1
            ));
        }
        let block = self.threads.next_multiple_of(32);
        if threads == 0 || !threads.is_multiple_of(32) || threads > block {
            return refuse(format!(
                "{threads} threads of a block of {}: whole warps of it arrive",
                self.threads
            ));
        }
        Ok(())
    }

    /// Synchronises `threads` threads at a named barrier whose number the kernel computes (`barrier.sync`).
    ///
    /// If the number may lie outside of 0 to 15, or if `threads` is not a multiple of 32 that the block has,
    /// [`Builder::finish`] returns an error.
    ///
    /// ```
    /// # use colex_tensor::prelude::*;
    /// # use colex_proof::examples::values;
    /// let mut k = Builder::new("k", Arch::Sm80, 128);
    /// let half = k.uniform(64);
    /// k.sync_named(&(&half + 1), 64); // barrier 1 for threads 0 to 63, barrier 2 for the others
    /// assert_eq!(values(k, &half)?[62..66], [0, 0, 1, 1]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[track_caller]
    pub fn sync_named(&mut self, id: &Index, threads: u32) {
        let at = Location::caller();
        self.own_indices([id], at);
        if let Err(kind) = self.check_named("sync_named", id, threads) {
            return self.fail(kind, at);
        }
        self.site(at, |k| {
            let id = k.operand(id);
            k.ir.named_sync(id, threads);
        });
    }

    /// Arrives at a named barrier whose number the kernel computes (`barrier.arrive`). [`Builder::finish`] fails as for
    /// [`Builder::sync_named`].
    ///
    /// ```
    /// # use colex_tensor::prelude::*;
    /// # use colex_proof::examples::values;
    /// let mut k = Builder::new("k", Arch::Sm80, 64);
    /// let warp = k.uniform(32);
    /// let is_first = k.equal(&warp, &0.into());
    /// // Warp 1 waits for warp 0, which goes on.
    /// k.if_else(is_first, |k| k.arrive_named(&1.into(), 64), |k| k.sync_named(&1.into(), 64));
    /// assert_eq!(values(k, &warp)?[31..33], [0, 1]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[track_caller]
    pub fn arrive_named(&mut self, id: &Index, threads: u32) {
        let at = Location::caller();
        self.own_indices([id], at);
        if let Err(kind) = self.check_named("arrive_named", id, threads) {
            return self.fail(kind, at);
        }
        self.site(at, |k| {
            let id = k.operand(id);
            k.ir.named_arrive(id, threads);
        });
    }

    /// Returns a condition that holds in one lane of the warp (`elect.sync`). Calls with the same active lanes elect
    /// the same lane.
    ///
    /// ```
    /// # use colex_tensor::prelude::*;
    /// # use colex_proof::examples::values;
    /// let mut k = Builder::new("k", Arch::Sm90a, 32);
    /// let (is_one, number) = (k.elected(), k.var(0, 0..2));
    /// k.if_(is_one, |k| k.set(&number, 1));
    /// let now = k.get(&number);
    /// assert_eq!(values(k, &now)?.iter().sum::<i32>(), 1);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[track_caller]
    pub fn elected(&mut self) -> Cond {
        let elected = self.ir.elect();
        self.claims.says(elected, Says::Elected);
        self.holds(elected)
    }
}
