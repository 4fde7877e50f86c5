//! How far a wait, a fence, a scope or a barrier reaches: mistakes in every order of events, each beside a kernel without it.

use colex_atom::copy;
use colex_ir::launch::{Argument, Launch};
use colex_ir::{
    Access, Address, Async, AtomicOp, BinaryOp, Cache, ClusterOrder, Compare, CopyArgs, End,
    FenceKind, KernelBuilder, Order, Reg, RegType, Scope, Space, Special, Sync, Type,
};
use colex_sim::{Fault, FaultKind, Memory, SimOptions, simulate};

use super::first_thread;
use crate::helpers::*;

/// The orders of events.
const ORDERS: u64 = 12;

/// The verdict of each order, of a kernel with one buffer `data` of 1024 words of zeros.
fn verdicts(launch: Launch, build: &dyn Fn(&mut KernelBuilder, Reg)) -> Vec<Option<Fault>> {
    let mut k = kernel("reach");
    let data = k.pointer("data");
    let data = k.param(data);
    build(&mut k, data);
    let kernel = k.finish();
    let run = |seed| {
        let mut memory = Memory::default();
        let at = memory.allocate(4096).unwrap();
        memory.write(at, &[0; 4096]).unwrap();
        let options = SimOptions::default().seed(seed);
        simulate(
            &kernel,
            &launch,
            &[Argument::Pointer(at)],
            &mut memory,
            &options,
        )
        .err()
    };
    (0..ORDERS).map(run).collect()
}

/// No order has a fault.
#[track_caller]
fn is_right(launch: Launch, build: impl Fn(&mut KernelBuilder, Reg)) {
    for (order, fault) in verdicts(launch, &build).into_iter().enumerate() {
        assert!(fault.is_none(), "order {order}: {}", fault.unwrap());
    }
}

/// Each order has a fault of a kind; the first one's sentence ends so.
#[track_caller]
fn is_wrong(
    launch: Launch,
    (kind, sentence): (FaultKind, &str),
    build: impl Fn(&mut KernelBuilder, Reg),
) {
    for (order, fault) in verdicts(launch, &build).into_iter().enumerate() {
        let fault = fault.unwrap_or_else(|| panic!("order {order} has no fault"));
        assert_eq!(fault.kind(), kind, "order {order}: {fault}");
        if order == 0 {
            assert!(fault.what().ends_with(sentence), "{fault}");
        }
    }
}

fn cluster(ty: Type) -> Access {
    Access::new(Space::Cluster, ty)
}

fn thread(k: &mut KernelBuilder) -> Reg {
    k.mov(Type::U32, Special::Tid(0))
}

fn is_thread(k: &mut KernelBuilder, number: i64) -> Reg {
    let thread = thread(k);
    k.setp(Compare::Eq, Type::U32, thread, number)
}

/// The first thread of the block with a rank in its cluster.
fn first_of(k: &mut KernelBuilder, rank: i64) -> Reg {
    let own = k.mov(Type::U32, Special::ClusterCtaRank);
    let there = k.setp(Compare::Eq, Type::U32, own, rank);
    let first = first_thread(k);
    k.pred(BinaryOp::And, there, first)
}

/// A bulk copy of 128 bytes.
fn bulk(
    k: &mut KernelBuilder,
    name: &str,
    [to, from]: [Address; 2],
    barrier: Option<Address>,
    mask: Option<Reg>,
) {
    let args = CopyArgs {
        dst: End::Memory(to),
        src: End::Memory(from),
        barrier,
        size: Some(128.into()),
        mask,
        ..CopyArgs::default()
    };
    k.copy_atom(&copy(name).unwrap(), args);
}

/// A `cp.async` of one word.
fn copy_word(k: &mut KernelBuilder, to: Address, from: Reg) {
    let args = CopyArgs {
        dst: End::Memory(to),
        src: End::Memory(from.into()),
        ..CopyArgs::default()
    };
    let atom = copy("SM80_CP_ASYNC_CACHEALWAYS<uint32_t>").unwrap();
    k.copy_atom(&atom, args);
}

/// The address of the thread's word in a variable.
fn own_word(k: &mut KernelBuilder, tile: colex_ir::SharedId) -> Reg {
    let (base, thread) = (k.address_of(tile), thread(k));
    k.mad(Type::U32, thread, 4, base)
}

#[test]
fn law_a_use_of_a_barrier_by_a_copy_follows_its_initialisation() {
    let one_block = |meets: bool| {
        move |k: &mut KernelBuilder, data: Reg| {
            let tile = k.shared("tile", 128, 128);
            let bar = k.shared("bar", 8, 8);
            let (first, second) = (first_thread(k), is_thread(k, 32));
            k.if_(first, |k| {
                k.mbarrier_init(bar, 1);
                k.fence(FenceKind::MbarrierInit);
                k.mbarrier_arrive_expect(bar, 128);
            });
            if meets {
                k.sync();
            }
            k.if_(second, |k| {
                bulk(
                    k,
                    "SM90_BULK_COPY_G2S",
                    [tile.into(), data.into()],
                    Some(bar.into()),
                    None,
                );
            });
            k.sync();
            k.mbarrier_wait(bar, 0);
            k.load(shared(Type::U32), tile);
        }
    };
    let race = |words| (FaultKind::Race, words);
    let launch = Launch::new(1, 64);
    is_right(launch, one_block(true));
    is_wrong(
        launch,
        race("nothing orders the two: a barrier between them is missing"),
        one_block(false),
    );

    let to_both = |meets: bool| {
        move |k: &mut KernelBuilder, data: Reg| {
            let tile = k.shared("tile", 128, 128);
            let bar = k.shared("bar", 8, 8);
            let first = first_thread(k);
            k.if_(first, |k| {
                k.mbarrier_init(bar, 1);
                k.fence(FenceKind::MbarrierInit);
                k.mbarrier_arrive_expect(bar, 128);
            });
            if meets {
                k.cluster_sync();
            }
            let own = first_of(k, 0);
            let both = k.mov(Type::U16, 3);
            k.if_(own, |k| {
                let ends = [tile.into(), data.into()];
                bulk(
                    k,
                    "SM90_BULK_COPY_G2S_MULTICAST",
                    ends,
                    Some(bar.into()),
                    Some(both),
                );
            });
            k.sync();
            k.mbarrier_wait(bar, 0);
            k.load(shared(Type::U32), tile);
            k.cluster_sync();
        }
    };
    let launch = Launch::new(2, 32).cluster(2);
    is_right(launch, to_both(true));
    is_wrong(launch, race(""), to_both(false));

    let after_copies = |meets: bool| {
        move |k: &mut KernelBuilder, data: Reg| {
            let tile = k.shared("tile", 512, 128);
            let bar = k.shared("bar", 8, 8);
            let (first, thread) = (first_thread(k), thread(k));
            let second = k.setp(Compare::Ge, Type::U32, thread, 32);
            k.if_(first, |k| k.mbarrier_init(bar, 32));
            if meets {
                k.sync();
            }
            let to = own_word(k, tile);
            k.if_(second, |k| {
                copy_word(k, to.into(), data);
                k.push(Async::CpAsyncArrive {
                    a: bar.into(),
                    noinc: true,
                });
            });
            k.sync();
            k.mbarrier_wait(bar, 0);
        }
    };
    let launch = Launch::new(1, 64);
    is_right(launch, after_copies(true));
    is_wrong(launch, race(""), after_copies(false));
}

/// A producer tells of two stages by two barriers, without groups: a wait for the first says nothing of the second.
#[test]
fn law_a_barrier_tells_of_the_copies_before_its_arrival_alone() {
    let ring = |waits: bool| {
        move |k: &mut KernelBuilder, data: Reg| {
            let tile = k.shared("tile", 256, 128);
            let bar = k.shared("bar", 16, 8);
            let (first, thread) = (first_thread(k), thread(k));
            let produces = k.setp(Compare::Lt, Type::U32, thread, 32);
            let lane = k.mov(Type::U32, Special::LaneId);
            let base = k.address_of(tile);
            let word = k.mad(Type::U32, lane, 4, base);
            k.if_(first, |k| {
                k.mbarrier_init(bar, 32);
                k.mbarrier_init(Address::from(bar).at(8), 32);
            });
            k.when(produces, |k| {
                k.store(shared(Type::U32), word, 0);
                k.store(shared(Type::U32), Address::from(word).at(128), 0);
            });
            k.sync();
            k.if_else(
                produces,
                |k| {
                    for stage in 0..2 {
                        copy_word(k, Address::from(word).at(128 * stage), data);
                        k.push(Async::CpAsyncArrive {
                            a: Address::from(bar).at(8 * stage),
                            noinc: true,
                        });
                    }
                    k.mbarrier_wait(Address::from(bar).at(8), 0);
                    k.mbarrier_wait(bar, 0);
                },
                |k| {
                    k.mbarrier_wait(bar, 0);
                    k.load(shared(Type::U32), word);
                    if waits {
                        k.mbarrier_wait(Address::from(bar).at(8), 0);
                    }
                    k.load(shared(Type::U32), Address::from(word).at(128));
                },
            );
        }
    };
    let launch = Launch::new(1, 64);
    is_right(launch, ring(true));
    is_wrong(launch, (FaultKind::Race, ""), ring(false));
}

#[test]
fn law_a_lane_waits_for_its_own_copies_alone() {
    let lane_zero = "a `cp.async.wait_group` that covers it in lane 1 is missing, since the wait of another lane does not cover it";
    for (meets, reads) in [(false, 0), (true, 0), (true, 31)] {
        let kernel = |all: bool| {
            move |k: &mut KernelBuilder, data: Reg| {
                let tile = k.shared("tile", 128, 128);
                let word = own_word(k, tile);
                copy_word(k, word.into(), data);
                k.cp_async_commit();
                if all {
                    k.cp_async_wait(0);
                } else {
                    let first = first_thread(k);
                    k.if_(first, |k| k.cp_async_wait(0));
                }
                if meets {
                    k.warp_sync();
                }
                let lane = k.mov(Type::U32, Special::LaneId);
                let other = k.xor(Type::B32, lane, reads);
                let base = k.address_of(tile);
                let read = k.mad(Type::U32, other, 4, base);
                k.load(shared(Type::U32), read);
            }
        };
        is_right(Launch::new(1, 32), kernel(true));
        let words = if reads == 0 { lane_zero } else { "" };
        is_wrong(Launch::new(1, 32), (FaultKind::Race, words), kernel(false));
    }
    // The two halves wait on two sides of a branch, or one of them lets a barrier tell.
    is_right(Launch::new(1, 32), |k, data| {
        let tile = k.shared("tile", 128, 128);
        let bar = k.shared("bar", 8, 8);
        let (word, first, thread) = (own_word(k, tile), first_thread(k), thread(k));
        let low = k.setp(Compare::Lt, Type::U32, thread, 16);
        k.when(first, |k| k.mbarrier_init(bar, 16));
        k.warp_sync();
        for told in [false, true] {
            copy_word(k, word.into(), data);
            k.cp_async_commit();
            k.if_else(
                low,
                |k| k.cp_async_wait(0),
                |k| {
                    if told {
                        k.push(Async::CpAsyncArrive {
                            a: bar.into(),
                            noinc: true,
                        });
                        k.mbarrier_wait(bar, 0);
                    } else {
                        k.cp_async_wait(0);
                    }
                },
            );
            k.load(shared(Type::U32), word);
        }
    });
}

#[test]
fn law_shared_memory_of_another_block_exists_once_it_has_begun() {
    #[derive(Clone, Copy)]
    enum Meet {
        Never,
        Barrier,
        Relaxed,
    }
    let kernel = |meet: Meet, atomic: bool| {
        move |k: &mut KernelBuilder, data: Reg| {
            let word = k.shared("word", 4, 4);
            let first = first_thread(k);
            let rank = k.mov(Type::U32, Special::ClusterCtaRank);
            let other = k.xor(Type::B32, rank, 1);
            let own = k.address_of(word);
            let far = k.mapa(own, other);
            match meet {
                Meet::Never => {}
                Meet::Barrier => k.cluster_sync(),
                Meet::Relaxed => {
                    k.push(Sync::ClusterArrive {
                        order: ClusterOrder::Relaxed,
                    });
                    k.push(Sync::ClusterWait);
                }
            }
            let order = if atomic {
                Order::Relaxed(Scope::Cluster)
            } else {
                Order::Weak
            };
            k.when(first, |k| k.store(cluster(Type::U32).order(order), far, 9));
            k.cluster_sync();
            let x = k.load(shared(Type::U32), word);
            let offset = k.mul_wide(Type::U32, rank, 4);
            let to = k.add(Type::S64, data, offset);
            k.when(first, |k| k.store(global(Type::U32), to, x));
            k.cluster_sync();
        }
    };
    let launch = Launch::new(2, 32).cluster(2);
    for atomic in [false, true] {
        is_right(launch, kernel(Meet::Barrier, atomic));
        is_right(launch, kernel(Meet::Relaxed, atomic));
        let sentence = "this writes byte 0 of `word` in block 1 of the cluster, and nothing orders it after the beginning of that block: a barrier of the cluster before it is missing";
        is_wrong(
            launch,
            (FaultKind::Race, sentence),
            kernel(Meet::Never, atomic),
        );
    }
}

#[test]
fn law_a_load_of_constants_reads_no_byte_that_its_launch_writes() {
    let kernel = |cached: bool, writes: bool| {
        move |k: &mut KernelBuilder, data: Reg| {
            let thread = thread(k);
            let at = |k: &mut KernelBuilder, thread: Reg| {
                let offset = k.mul_wide(Type::U32, thread, 4);
                k.add(Type::S64, data, offset)
            };
            let own = at(k, thread);
            let access = if cached {
                global(Type::U32).cache(Cache::Nc)
            } else {
                global(Type::U32)
            };
            k.load(access, own);
            if writes {
                k.store(global(Type::U32), own, thread);
            }
            k.sync();
            let other = k.xor(Type::B32, thread, 32);
            let other = at(k, other);
            k.load(access, other);
        }
    };
    let launch = Launch::new(1, 64);
    is_right(launch, kernel(true, false));
    is_right(launch, kernel(false, true));
    let sentence =
        "the load may find the value from before that, and a load without `.nc` is needed";
    is_wrong(launch, (FaultKind::Race, sentence), kernel(true, true));
}

#[test]
fn law_a_proxy_fence_reaches_what_its_lane_follows() {
    #[derive(Clone, Copy, PartialEq)]
    enum Fence {
        /// The lanes meet before or after the fence of the first.
        Before,
        After,
        /// Each lane has its own, or another warp has one for all of them.
        Each,
        Elsewhere,
    }
    let kernel = |fence: Fence, is_global: bool| {
        move |k: &mut KernelBuilder, data: Reg| {
            let tile = k.shared("tile", 128, 128);
            let thread = thread(k);
            let (first, second) = (first_thread(k), is_thread(k, 32));
            let low = k.setp(Compare::Lt, Type::U32, thread, 32);
            let word = own_word(k, tile);
            let offset = k.mul_wide(Type::U32, thread, 4);
            let there = k.add(Type::S64, data, offset);
            let kind = if is_global {
                FenceKind::ProxyAsyncGlobal
            } else {
                FenceKind::ProxyAsyncShared
            };
            k.if_(low, |k| {
                if is_global {
                    k.store(global(Type::U32), there, 1);
                } else {
                    k.store(shared(Type::U32), word, 1);
                }
                match fence {
                    Fence::Before => {
                        k.warp_sync();
                        k.if_(first, |k| k.fence(kind));
                    }
                    Fence::After | Fence::Elsewhere => {
                        k.if_(first, |k| k.fence(kind));
                        k.warp_sync();
                    }
                    Fence::Each => {
                        k.fence(kind);
                        k.warp_sync();
                    }
                }
            });
            if fence == Fence::Elsewhere {
                k.sync();
                k.if_(second, |k| k.fence(kind));
                k.sync();
            }
            let bar = k.shared("bar", 8, 8);
            k.if_(first, |k| {
                if is_global {
                    k.mbarrier_init(bar, 1);
                    k.fence(FenceKind::MbarrierInit);
                    k.mbarrier_arrive_expect(bar, 128);
                    let ends = [tile.into(), data.into()];
                    bulk(k, "SM90_BULK_COPY_G2S", ends, Some(bar.into()), None);
                    k.mbarrier_wait(bar, 0);
                } else {
                    bulk(
                        k,
                        "SM90_BULK_COPY_S2G",
                        [data.into(), tile.into()],
                        None,
                        None,
                    );
                    k.bulk_commit();
                    k.bulk_wait(0, false);
                }
            });
        }
    };
    let launch = Launch::new(1, 64);
    for is_global in [false, true] {
        for fence in [Fence::Before, Fence::Each, Fence::Elsewhere] {
            is_right(launch, kernel(fence, is_global));
        }
        let missing = "`fence.proxy.async` is missing after the write";
        is_wrong(
            launch,
            (FaultKind::MissingFence, missing),
            kernel(Fence::After, is_global),
        );
    }
}

/// A fence of the block's own shared memory does not reach a store into another block's; that block's own fence does.
#[test]
fn law_a_proxy_fence_of_a_block_reaches_its_own_shared_memory() {
    let kernel = |writer: FenceKind, reader: Option<FenceKind>| {
        move |k: &mut KernelBuilder, data: Reg| {
            let tile = k.shared("tile", 128, 128);
            let first = first_thread(k);
            let rank = k.mov(Type::U32, Special::ClusterCtaRank);
            let other = k.xor(Type::B32, rank, 1);
            k.cluster_sync();
            let own = own_word(k, tile);
            let far = k.mapa(own, other);
            k.store(cluster(Type::U32), far, 9);
            k.fence(writer);
            k.cluster_sync();
            let offset = k.mul_wide(Type::U32, rank, 128);
            let to = k.add(Type::S64, data, offset);
            k.if_(first, |k| {
                if let Some(kind) = reader {
                    k.fence(kind);
                }
                bulk(
                    k,
                    "SM90_BULK_COPY_S2G",
                    [to.into(), tile.into()],
                    None,
                    None,
                );
                k.bulk_commit();
                k.bulk_wait(0, false);
            });
        }
    };
    let launch = Launch::new(2, 32).cluster(2);
    let (all, own) = (FenceKind::ProxyAsync, FenceKind::ProxyAsyncShared);
    is_right(launch, kernel(all, None));
    is_right(launch, kernel(FenceKind::AcqRelCluster, Some(own)));
    is_right(launch, kernel(own, Some(own)));
    let missing = "`fence.proxy.async` is missing after the write";
    is_wrong(
        launch,
        (FaultKind::MissingFence, missing),
        kernel(own, None),
    );
}

/// A compare-and-swap that finds another value writes nothing, and so it releases nothing.
#[test]
fn law_a_failing_swap_does_not_release() {
    let kernel = |finds: i64, until: i64| {
        move |k: &mut KernelBuilder, _: Reg| {
            let (word, flag) = (k.shared("word", 4, 4), k.shared("flag", 4, 4));
            let (first, second) = (first_thread(k), is_thread(k, 32));
            k.when(first, |k| {
                k.store(shared(Type::U32), word, 0);
                k.store(shared(Type::U32), flag, 0);
            });
            k.sync();
            k.if_(first, |k| {
                let set = shared(Type::U32).order(Order::Relaxed(Scope::Cta));
                k.store(set, flag, 1);
                k.store(shared(Type::U32), word, 7);
                let d = k.reg(RegType::B32);
                k.push(colex_ir::Memory::Atomic {
                    op: AtomicOp::Cas,
                    space: Space::Shared,
                    ty: Type::B32,
                    order: Order::Release(Scope::Cta),
                    d,
                    a: flag.into(),
                    s: finds.into(),
                    t: Some(2.into()),
                });
            });
            let acquire = shared(Type::U32).order(Order::Acquire(Scope::Cta));
            k.if_(second, |k| {
                k.loop_(|k| {
                    let x = k.load(acquire, flag);
                    let done = k.setp(Compare::Eq, Type::U32, x, until);
                    k.break_if(done);
                });
                k.load(shared(Type::U32), word);
            });
        }
    };
    let launch = Launch::new(1, 64);
    is_right(launch, kernel(1, 2));
    is_wrong(launch, (FaultKind::Race, ""), kernel(5, 1));
}
