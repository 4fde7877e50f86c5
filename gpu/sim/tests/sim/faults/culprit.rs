//! The headline of a fault names the mistake: the access that is not ordered, the copy that is not waited for, the warp
//! that keeps the others waiting.

use colex_atom::copy;
use colex_ir::launch::Launch;
use colex_ir::{
    Access, Address, AtomicOp, Compare, CopyArgs, End, FenceKind, KernelBuilder, Order, Reg, Scope,
    SharedId, Space, Special, Type,
};
use colex_sim::{FaultKind, Memory, SimOptions};

use super::{fault, fault_in_every_order, first_thread, says, shared_word};
use crate::helpers::*;

fn is_warp(k: &mut KernelBuilder, number: i64) -> Reg {
    let thread = k.mov(Type::U32, Special::Tid(0));
    let warp = k.shr(Type::U32, thread, 5);
    k.setp(Compare::Eq, Type::U32, warp, number)
}

/// Each thread writes its word and reads one of the other warp, with nothing between; the one that stores comes first
/// in one half of the orders.
#[test]
fn an_unordered_store_is_named_by_the_read_that_comes_first() {
    let (mut write, mut read) = (0, 0);
    let all = fault_in_every_order(
        |k, _| {
            let tile = k.shared("tile", 256, 256);
            let at = shared_word(k, tile);
            let writer = is_warp(k, 1);
            k.if_else(
                writer,
                |k| {
                    write = line!() + 1;
                    k.store(shared(Type::U32), at, 7);
                },
                |k| {
                    let other = k.xor(Type::B32, at, 128);
                    read = line!() + 1;
                    k.load(shared(Type::U32), other);
                },
            );
        },
        Launch::new(1, 64),
    );
    for fault in &all {
        assert_eq!(fault.kind(), FaultKind::Race, "{fault}");
        let place = fault.place().unwrap();
        assert_eq!((place.at.line(), place.thread[1]), (read, 0), "{fault}");
        assert!(
            fault.what().contains(&format!("culprit.rs:{write})")),
            "{fault}"
        );
    }
    says(
        &all[0],
        FaultKind::Race,
        "thread (0,0,0) of block (0,0,0), at `%r6 = ld.shared.u32 [%r5]` (here): byte 128 of `tile` is written by `st.shared.u32 [%r2], 7` of warp 1 (here), which nothing orders before this read: a barrier between them is missing",
    );
}

/// As in a kernel without its barrier: every thread reads before it writes what another reads.
#[test]
fn two_warps_that_read_before_they_write() {
    let late = fault(
        |k, _| {
            let tile = k.shared("tile", 256, 256);
            let at = shared_word(k, tile);
            let other = k.xor(Type::B32, at, 128);
            let x = k.load(shared(Type::U32), other);
            k.store(shared(Type::U32), at, x);
        },
        Launch::new(1, 64),
    );
    says(
        &late,
        FaultKind::Race,
        "thread (0,0,0) of block (0,0,0), at `%r4 = ld.shared.u32 [%r3]` (here): byte 128 of `tile` is written by `st.shared.u32 [%r2], %r4` of warp 1 (here), which nothing orders before this read: a barrier between them is missing",
    );
}

#[test]
fn a_store_that_comes_after_the_read_and_a_barrier() {
    let late = fault(
        |k, _| {
            let tile = k.shared("tile", 256, 256);
            let at = shared_word(k, tile);
            let other = k.xor(Type::B32, at, 128);
            k.load(shared(Type::U32), other);
            k.sync();
            k.store(shared(Type::U32), at, 1);
        },
        Launch::new(1, 64),
    );
    says(
        &late,
        FaultKind::Uninitialised,
        "thread (0,0,0) of block (0,0,0), at `%r4 = ld.shared.u32 [%r3]` (here): byte 128 of `tile` is read but was never written: `st.shared.u32 [%r2], 1` of warp 1 (here) writes it only after this read",
    );
}

#[test]
fn nobody_writes_and_nothing_is_invented() {
    let never = fault(
        |k, data| {
            let tile = k.shared("tile", 256, 256);
            let at = shared_word(k, tile);
            let far = k.mul_wide(Type::U32, at, 0);
            let far = k.add(Type::S64, data, far);
            let x = k.load(shared(Type::U32), Address::from(at));
            k.sync();
            k.store(global(Type::U32), far, x);
        },
        Launch::new(2, 64),
    );
    says(
        &never,
        FaultKind::Uninitialised,
        "thread (0,0,0) of block (0,0,0), at `%r3 = ld.shared.u32 [%r2]` (here): byte 0 of `tile` is read but was never written",
    );
}

fn cp_async(k: &mut KernelBuilder, dst: impl Into<Address>, src: impl Into<Address>) {
    let args = CopyArgs {
        dst: End::Memory(dst.into()),
        src: End::Memory(src.into()),
        ..CopyArgs::default()
    };
    let atom = copy("SM80_CP_ASYNC_CACHEALWAYS<uint32_t>").unwrap();
    k.copy_atom(&atom, args);
    k.cp_async_commit();
}

#[test]
fn a_copy_under_way_is_named_with_its_wait() {
    let mine = |waits: bool, meets: bool, by: i64| {
        move |k: &mut KernelBuilder, data: Reg| {
            let tile = k.shared("tile", 128, 128);
            let at = shared_word(k, tile);
            let thread = k.mov(Type::U32, Special::Tid(0));
            let offset = k.mul_wide(Type::U32, thread, 4);
            let from = k.add(Type::S64, data, offset);
            cp_async(k, at, from);
            if waits {
                k.cp_async_wait(0);
            }
            if meets {
                k.sync();
            }
            let there = k.xor(Type::B32, at, by);
            k.load(shared(Type::U32), there);
        }
    };
    let tail = |fault: &colex_sim::Fault| {
        let what = fault.what();
        what.rsplit_once(": ").unwrap().1.to_string()
    };
    let launch = Launch::new(1, 32);
    let unawaited = fault(mine(false, false, 0), launch);
    says(
        &unawaited,
        FaultKind::Race,
        "thread (0,0,0) of block (0,0,0), at `%r5 = ld.shared.u32 [%r4]` (here): byte 0 of `tile` is written by `copy SM80_CP_ASYNC_CACHEALWAYS<uint32_t> [%r2] <- [%rd2]` (here), which nothing orders before this read: a `cp.async.wait_group` that covers it between them is missing",
    );
    // A barrier alone does not wait for a copy; and a wait is that of a thread, so that others have to meet it.
    for seed in 0..6 {
        let met = super::run(&built(mine(false, true, 4)), launch, seed);
        assert_eq!(met.kind(), FaultKind::Race);
        assert_eq!(
            tail(&met),
            "a `cp.async.wait_group` that covers it between them is missing"
        );
        let waited = super::run(&built(mine(true, false, 4)), launch, seed);
        assert_eq!(waited.kind(), FaultKind::Race);
        assert_eq!(
            tail(&waited),
            "`bar.warp.sync` or a barrier after a `cp.async.wait_group` that covers it is missing"
        );
    }
}

/// A kernel with the buffer `data`.
fn built(build: impl FnOnce(&mut KernelBuilder, Reg)) -> colex_ir::Kernel {
    let mut k = kernel("planted");
    let data = k.pointer("data");
    let data = k.param(data);
    build(&mut k, data);
    k.finish()
}

fn bulk_in(k: &mut KernelBuilder, tile: SharedId, bar: SharedId, data: Reg) {
    let args = CopyArgs {
        dst: End::Memory(tile.into()),
        src: End::Memory(data.into()),
        barrier: Some(bar.into()),
        size: Some(128.into()),
        ..CopyArgs::default()
    };
    k.copy_atom(&copy("SM90_BULK_COPY_G2S").unwrap(), args);
}

#[test]
fn a_bulk_copy_under_way_is_named_with_its_barrier() {
    let early = fault(
        |k, data| {
            let tile = k.shared("tile", 128, 128);
            let bar = k.shared("bar", 8, 8);
            let first = first_thread(k);
            k.if_(first, |k| {
                k.mbarrier_init(bar, 1);
                k.fence(FenceKind::MbarrierInit);
                k.mbarrier_arrive_expect(bar, 128);
                bulk_in(k, tile, bar, data);
            });
            k.sync();
            let at = shared_word(k, tile);
            k.load(shared(Type::U32), at);
            k.mbarrier_wait(bar, 0);
        },
        Launch::new(1, 32),
    );
    says(
        &early,
        FaultKind::Race,
        "thread (0,0,0) of block (0,0,0), at `%r4 = ld.shared.u32 [%r3]` (here): byte 0 of `tile` is written by `copy SM90_BULK_COPY_G2S [tile] <- [%rd0], barrier [bar], bytes 128` (here), which nothing orders before this read: a wait for the barrier that it completes between them is missing",
    );
}

/// Two copies of 128 bytes, and the barrier is told of those of one.
#[test]
fn a_barrier_that_expects_too_few_bytes() {
    let all = fault_in_every_order(
        |k, data| {
            let tile = k.shared("tile", 256, 128);
            let bar = k.shared("bar", 8, 8);
            let first = first_thread(k);
            k.if_(first, |k| {
                k.mbarrier_init(bar, 1);
                k.fence(FenceKind::MbarrierInit);
                k.mbarrier_arrive_expect(bar, 128);
                bulk_in(k, tile, bar, data);
                let args = CopyArgs {
                    dst: End::Memory(Address::from(tile).at(128)),
                    src: End::Memory(data.into()),
                    barrier: Some(bar.into()),
                    size: Some(128.into()),
                    ..CopyArgs::default()
                };
                k.copy_atom(&copy("SM90_BULK_COPY_G2S").unwrap(), args);
            });
            k.sync();
            k.mbarrier_wait(bar, 0);
            let at = shared_word(k, tile);
            k.load(shared(Type::U32), Address::from(at).at(128));
        },
        Launch::new(1, 32),
    );
    for fault in &all {
        assert!(
            matches!(fault.kind(), FaultKind::Barrier | FaultKind::Race),
            "{fault}"
        );
        assert!(
            fault
                .what()
                .ends_with("the bytes of its `mbarrier.arrive.expect_tx` are missing or too few"),
            "{fault}"
        );
    }
    says(
        &all[0],
        FaultKind::Barrier,
        "thread (0,0,0) of block (0,0,0), at `copy SM90_BULK_COPY_G2S [tile+128] <- [%rd0], barrier [bar], bytes 128` (here): phase 0 of the barrier at byte 0 of `bar` completes while this copy of 128 bytes for it is under way: the barrier waits for fewer bytes than copies bring, and the bytes of its `mbarrier.arrive.expect_tx` are missing or too few",
    );
}

#[test]
fn the_store_of_a_peer_is_named() {
    let unmet = fault(
        |k, _| {
            let tile = k.shared("tile", 128, 128);
            let at = shared_word(k, tile);
            let rank = k.mov(Type::U32, Special::ClusterCtaRank);
            let first = k.setp(Compare::Eq, Type::U32, rank, 0);
            k.if_else(
                first,
                |k| {
                    k.load(shared(Type::U32), at);
                },
                |k| {
                    let there = k.mapa(at, 0);
                    k.store(Access::new(Space::Cluster, Type::U32), there, 3);
                },
            );
            k.cluster_sync();
        },
        Launch::new(2, 32).cluster(2),
    );
    says(
        &unmet,
        FaultKind::Race,
        "thread (0,0,0) of block (0,0,0), at `%r4 = ld.shared.u32 [%r2]` (here): byte 0 of `tile` is written by `st.cluster.u32 [%r5], 3` of warp 0 of block 1 of the cluster (here), which nothing orders before this read: a barrier of the cluster, or a release after the one and an acquire before the other, is missing",
    );
}

#[test]
fn a_block_that_starts_later_is_named() {
    let across = fault(
        |k, data| {
            let block = k.mov(Type::U32, Special::Ctaid(0));
            let late = k.setp(Compare::Eq, Type::U32, block, 5);
            let word = Address::from(data).at(200);
            k.if_else(
                late,
                |k| k.store(global(Type::U32), word, 1),
                |k| {
                    k.load(global(Type::U32), word);
                },
            );
        },
        Launch::new(6, 32),
    );
    says(
        &across,
        FaultKind::Race,
        "thread (0,0,0) of block (0,0,0), at `%r1 = ld.global.u32 [%rd0+200]` (here): byte 200 of `data` is written by `st.global.u32 [%rd0+200], 1` of warp 0 (here) of cluster 5, which nothing orders before this read: a release after the one and an acquire before the other are missing, or barriers between these and the accesses",
    );
}

/// Flags that were never initialised: relaxed and ordered accesses do not race, and yet the read may come first.
#[test]
fn a_flag_that_begins_with_anything_is_a_fault_in_every_order() {
    let all = fault_in_every_order(
        |k, data| {
            let warp = is_warp(k, 0);
            let flag = Address::from(data).at(200);
            k.if_else(
                warp,
                |k| k.store(global(Type::U32).order(Order::Release(Scope::Gpu)), flag, 1),
                |k| {
                    k.loop_(|k| {
                        let look = global(Type::U32).order(Order::Acquire(Scope::Gpu));
                        let x = k.load(look, flag);
                        let set = k.setp(Compare::Eq, Type::U32, x, 1);
                        k.break_if(set);
                    });
                },
            );
        },
        Launch::new(1, 64),
    );
    for fault in &all {
        says(
            fault,
            FaultKind::Uninitialised,
            "thread (32,0,0) of block (0,0,0), at `%r2 = ld.acquire.gpu.global.u32 [%rd0+200]` (here): byte 200 of `data` is written by `st.release.gpu.global.u32 [%rd0+200], 1` of warp 0 (here), which nothing orders before this read: a barrier between them is missing",
        );
    }
}

#[test]
fn a_barrier_that_another_warp_still_initialises() {
    let all = fault_in_every_order(
        |k, _| {
            let bar = k.shared("bar", 8, 8);
            let warp = is_warp(k, 1);
            k.if_(warp, |k| {
                let first = k.mov(Type::U32, Special::LaneId);
                let first = k.setp(Compare::Eq, Type::U32, first, 0);
                k.when(first, |k| k.mbarrier_init(bar, 64));
            });
            k.mbarrier_arrive(bar);
        },
        Launch::new(1, 64),
    );
    assert!(all.iter().all(|fault| fault.kind() == FaultKind::Race));
    says(
        &all[0],
        FaultKind::Race,
        "thread (0,0,0) of block (0,0,0), at `mbarrier.arrive.shared [bar]` (here): byte 0 of `bar` is initialised by `mbarrier.init [bar], 64` of warp 1 (here), which nothing orders before this use: a barrier between them is missing",
    );
}

#[test]
fn a_reader_stopped_does_not_stop_the_search() {
    // Warp 0 reads what warp 1 writes once it has seen a word that warp 2 writes; warp 3 waits for warp 0 for ever.
    let named = fault(
        |k, data| {
            let tile = k.shared("tile", 16, 16);
            let zero = is_warp(k, 0);
            let one = is_warp(k, 1);
            let two = is_warp(k, 2);
            let flag = Address::from(data).at(4);
            let end = Address::from(data).at(8);
            let until = |k: &mut KernelBuilder, flag: Address| {
                k.loop_(|k| {
                    let look = global(Type::U32).order(Order::Acquire(Scope::Gpu));
                    let x = k.load(look, flag);
                    let set = k.setp(Compare::Eq, Type::U32, x, 2);
                    k.break_if(set);
                });
            };
            let raise = global(Type::U32).order(Order::Release(Scope::Gpu));
            k.if_(zero, |k| {
                k.load(shared(Type::U32), tile);
                k.store(raise, end, 2);
            });
            k.if_(two, |k| k.store(raise, flag, 2));
            k.if_(one, |k| {
                until(k, flag);
                k.store(shared(Type::U32), tile, 1);
            });
            until(k, end);
        },
        Launch::new(1, 128),
    );
    assert_eq!(named.kind(), FaultKind::Race);
    assert!(
        named
            .what()
            .starts_with("byte 0 of `tile` is written by `st.shared.u32 [tile], 1` of warp 1 (")
    );
}

#[test]
fn too_many_registers_are_the_headline_not_who_waits_for_that_warp() {
    let greedy = fault(
        |k, _| {
            let thread = k.mov(Type::U32, Special::Tid(0));
            let low = k.setp(Compare::Lt, Type::U32, thread, 128);
            k.if_else(
                low,
                |k| k.sync(),
                |k| {
                    k.set_max_registers(true, 240);
                    k.sync();
                },
            );
        },
        Launch::new(1, 384),
    );
    assert_eq!(greedy.kind(), FaultKind::Deadlock);
    assert_eq!(greedy.place().unwrap().instruction, "setmaxnreg.inc 240");
    assert!(greedy.what().ends_with(
        "for 72 registers more for each of its threads (`setmaxnreg.inc`), and 0 are left of those that warps of its block gave up; warp 0, warp 1, warp 2, warp 3 for barrier 0, at which 128 of 384 threads have arrived"
    ), "{greedy}");
}

#[test]
fn one_element_for_two_threads_is_no_missing_barrier() {
    let overlap = fault(
        |k, _| {
            let tile = k.shared("tile", 256, 256);
            let thread = k.mov(Type::U32, Special::Tid(0));
            let word = k.and(Type::B32, thread, 31);
            let base = k.address_of(tile);
            let at = k.mad(Type::U32, word, 4, base);
            k.store(shared(Type::U32), at, thread);
        },
        Launch::new(1, 64),
    );
    says(
        &overlap,
        FaultKind::Race,
        "thread (32,0,0) of block (0,0,0), at `st.shared.u32 [%r3], %r0` (here): this writes byte 0 of `tile`, and `st.shared.u32 [%r3], %r0` of warp 0 (here) writes it, and nothing orders the two: a partition or an index gives one element to two threads",
    );
    let lanes = fault(
        |k, _| {
            let tile = k.shared("tile", 256, 256);
            let thread = k.mov(Type::U32, Special::Tid(0));
            let word = k.shr(Type::U32, thread, 1);
            let base = k.address_of(tile);
            let at = k.mad(Type::U32, word, 4, base);
            k.store(shared(Type::U32), at, thread);
        },
        Launch::new(1, 32),
    );
    assert!(
        lanes.what().ends_with(
            "nothing orders the two: a partition or an index gives one element to two threads"
        ),
        "{lanes}"
    );
    let rounds = fault(
        |k, _| {
            let tile = k.shared("tile", 256, 256);
            let thread = k.mov(Type::U32, Special::Tid(0));
            let base = k.address_of(tile);
            let at = k.mad(Type::U32, thread, 4, base);
            let rounds = k.mov(Type::U32, 0);
            let there = k.reg(colex_ir::RegType::B32);
            k.mov_to(there, at);
            k.loop_(|k| {
                k.store(shared(Type::U32), there, thread);
                k.binary_to(colex_ir::BinaryOp::Xor, Type::B32, there, there, 128);
                k.binary_to(colex_ir::BinaryOp::Add, Type::U32, rounds, rounds, 1);
                let done = k.setp(Compare::Eq, Type::U32, rounds, 2);
                k.break_if(done);
            });
        },
        Launch::new(1, 64),
    );
    assert!(rounds.what().ends_with("either a partition or an index gives one element to two threads, or a barrier between two rounds is missing"), "{rounds}");
}

#[test]
fn two_blocks_that_store_the_same_value_are_a_warning() {
    let same = built(|k, data| {
        let thread = k.mov(Type::U32, Special::Tid(0));
        let first = k.setp(Compare::Eq, Type::U32, thread, 0);
        k.when(first, |k| k.store(global(Type::U32), data, 5));
    });
    for seed in 0..6 {
        let mut host = Host::default();
        host.empty(256);
        let options = SimOptions::default().seed(seed);
        let report = host.run_with(&same, Launch::new(40, 64), &options).unwrap();
        let [warning] = &report.warnings[..] else {
            panic!("one warning, not {:?}", report.warnings);
        };
        assert_eq!(warning.count, 39);
        assert_eq!(warning.instruction, "st.global.u32 [%rd0], 5");
        assert!(warning.what.starts_with("blocks ("), "{warning}");
        assert!(
            warning.what.ends_with(
                " store the same value at byte 0 of `data`, and nothing orders the two: harmless as long as the values are equal"
            ),
            "{warning}"
        );
        assert!(
            report
                .to_string()
                .contains("; 39 stores of this instruction do so\n")
        );
    }
    // All threads of both blocks, of which those of one warp store at once.
    let mut host = Host::default();
    host.empty(256);
    let all = built(|k, data| k.store(global(Type::U32), data, 5));
    let report = host.run(&all, Launch::new(3, 32)).unwrap();
    assert_eq!(report.warnings.len(), 1);
    // A read has to come after both, and other values are a race.
    let read = fault(
        |k, data| {
            k.store(global(Type::U32), data, 5);
            k.load(global(Type::U32), data);
        },
        Launch::new(2, 1),
    );
    assert_eq!(read.kind(), FaultKind::Race);
    let other = fault(
        |k, data| {
            let block = k.mov(Type::U32, Special::Ctaid(0));
            k.store(global(Type::U32), data, block);
        },
        Launch::new(2, 1),
    );
    assert_eq!(other.kind(), FaultKind::Race);
    assert!(
        other
            .what()
            .ends_with("nothing orders the two: the grid gives one element to two blocks")
    );
    // An atomic addition is no plain store, and no warning.
    let mut host = Host::default();
    host.words(&[0]);
    let adds = built(|k, data| {
        let one = k.mov(Type::U32, 1);
        k.reduce(AtomicOp::Add, Space::Global, Type::U32, data, &[one]);
    });
    let report = host.run(&adds, Launch::new(2, 1)).unwrap();
    assert!(report.warnings.is_empty());
}

#[test]
fn a_simulation_has_bounds_that_can_be_raised() {
    let empty = built(|_, _| {});
    let run = |launch: Launch, options: SimOptions| {
        let mut host = Host::default();
        host.words(&[0; 64]);
        host.run_with(&empty, launch, &options)
    };
    let huge = run(Launch::new(1 << 30, 32), SimOptions::default()).unwrap_err();
    says(
        &huge,
        FaultKind::Limit,
        "the grid has 1073741824 blocks, and `SimOptions::max_blocks` allows 1048576: launch fewer on the simulator, or raise that bound",
    );
    let two = SimOptions {
        max_blocks: 2,
        ..SimOptions::default()
    };
    assert!(run(Launch::new(3, 32), two).is_err());
    assert_eq!(run(Launch::new(2, 32), two).unwrap().blocks, 2);
    let busy = built(|k, data| {
        for i in 0..100 {
            k.load(global(Type::U32), Address::from(data).at(4 * (i % 8)));
        }
    });
    let few = SimOptions {
        max_instructions: 1000,
        ..SimOptions::default()
    };
    let mut host = Host::default();
    host.words(&[0; 64]);
    let limit = host.run_with(&busy, Launch::new(64, 32), &few).unwrap_err();
    assert_eq!(limit.kind(), FaultKind::Limit);
    assert_eq!(
        limit.what(),
        "all warps together have executed 1010 instructions, and `SimOptions::max_instructions` allows 1000: simulate a smaller problem, or raise that bound"
    );
}

#[test]
fn memory_that_the_host_does_not_have_is_refused() {
    let mut memory = Memory::default();
    for bytes in [1 << 45, 1 << 50, u64::MAX] {
        assert!(
            memory
                .allocate(bytes)
                .is_err_and(|error| error.is_out_of_memory())
        );
    }
    let refused = memory.allocate(1 << 45).unwrap_err();
    assert_eq!(
        refused.to_string(),
        "35184372088832 bytes of simulated memory take twice as many of the host's, and it does not give them"
    );
    // A large one takes pages from when they are written.
    if let Ok(at) = memory.allocate(1 << 33) {
        memory.write(at + (1 << 32), &[7]).unwrap();
        assert_eq!(memory.read(at + (1 << 32), 1), Ok(vec![7]));
    }
}
