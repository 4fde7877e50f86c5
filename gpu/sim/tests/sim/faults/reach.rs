//! How far a wait, a fence, a scope or a barrier reaches: mistakes in every order of events, each beside a kernel without it.

use colex_atom::copy;
use colex_ir::launch::{Argument, Launch};
use colex_ir::{
    Access, Address, Async, AtomicOp, BinaryOp, Cache, ClusterOrder, Compare, Control, CopyArgs,
    End, FenceKind, KernelBuilder, Operand, Order, Reg, RegType, Scope, Space, Special, Sync, Type,
    VoteMode,
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
        let mut options = SimOptions::default().seed(seed);
        options.max_steps = 100_000;
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

/// `red` with an order.
fn red(space: Space, ty: Type, order: Order, a: Address, s: Operand) -> colex_ir::Memory {
    colex_ir::Memory::Reduce {
        op: AtomicOp::Add,
        space,
        ty,
        order,
        a,
        s: vec![s],
    }
}

/// Ordered accesses are atomic with each other if the scope of each has the other's thread.
#[test]
fn law_ordered_accesses_have_a_scope_that_has_both_threads() {
    let scopes = [Scope::Cta, Scope::Cluster, Scope::Gpu, Scope::Sys];
    let to_cluster = "threads of two blocks of a cluster need `.cluster` or a wider scope in both";
    let to_device = "threads of two clusters need `.gpu` or a wider scope in both";
    // Blocks, blocks of a cluster, and the scope from which on they are atomic.
    let places = [(1, 1, 0, ""), (2, 2, 1, to_cluster), (2, 1, 2, to_device)];
    let mut cases = 0;
    for (blocks, clusters, least, sentence) in places {
        let launch = Launch::new(blocks, 64).cluster(clusters);
        for (own, others) in (0..4).flat_map(|own| (0..4).map(move |other| (own, other))) {
            let kernel = move |k: &mut KernelBuilder, data: Reg| {
                let block = k.mov(Type::U32, Special::Ctaid(0));
                let first = k.setp(Compare::Eq, Type::U32, block, 0);
                let add = |k: &mut KernelBuilder, scope: usize| {
                    let order = Order::Relaxed(scopes[scope]);
                    k.push(red(Space::Global, Type::U32, order, data.into(), 1.into()));
                };
                k.if_else(first, |k| add(k, own), |k| add(k, others));
            };
            if own.min(others) >= least || blocks == 1 {
                is_right(launch, kernel);
            } else {
                is_wrong(launch, (FaultKind::Race, sentence), kernel);
            }
            cases += 1;
        }
    }
    // In shared memory of the cluster.
    for (scope, is_wide) in scopes.into_iter().zip([false, true, true, true]) {
        let kernel = move |k: &mut KernelBuilder, _: Reg| {
            let word = k.shared("word", 4, 4);
            let first = first_thread(k);
            k.when(first, |k| k.store(shared(Type::U32), word, 0));
            k.cluster_sync();
            let own = k.address_of(word);
            let far = k.mapa(own, 0);
            k.push(red(
                Space::Cluster,
                Type::U32,
                Order::Relaxed(scope),
                far.into(),
                1.into(),
            ));
            k.cluster_sync();
        };
        let launch = Launch::new(2, 32).cluster(2);
        if is_wide {
            is_right(launch, kernel);
        } else {
            is_wrong(launch, (FaultKind::Race, to_cluster), kernel);
        }
        cases += 1;
    }
    println!("law sim.scopes: {cases} cases");
}

/// Ordered accesses of two widths are not atomic with each other; those of vectors are accesses of their elements.
#[test]
fn law_ordered_accesses_have_one_width() {
    let kernel = |ty: Type, count: usize| {
        move |k: &mut KernelBuilder, data: Reg| {
            let block = k.mov(Type::U32, Special::Ctaid(0));
            let first = k.setp(Compare::Eq, Type::U32, block, 0);
            k.if_else(
                first,
                |k| {
                    let one = k.mov(Type::U32, 1);
                    k.reduce(AtomicOp::Add, Space::Global, Type::U32, data, &[one]);
                },
                |k| {
                    let access = global(ty).order(Order::Relaxed(Scope::Gpu));
                    k.load_vector(access, count, data);
                },
            );
        }
    };
    let launch = Launch::new(2, 32);
    for (ty, count) in [(Type::U32, 1), (Type::B32, 2), (Type::F32, 1)] {
        is_right(launch, kernel(ty, count));
    }
    let sentence = "bytes: accesses that are atomic with each other have one width";
    for (ty, count) in [(Type::U64, 1), (Type::B16, 1), (Type::B64, 2)] {
        is_wrong(launch, (FaultKind::Race, sentence), kernel(ty, count));
    }
}

/// A sum of many blocks is read by a block that has waited for all of them but one.
#[test]
fn law_a_sum_of_many_blocks_has_all_its_terms() {
    let kernel = |blocks: i64, waits_for: i64| {
        move |k: &mut KernelBuilder, data: Reg| {
            let block = k.mov(Type::U32, Special::Ctaid(0));
            let first = first_thread(k);
            let adds = k.setp(Compare::Lt, Type::U32, block, blocks);
            let adds = k.pred(BinaryOp::And, adds, first);
            let tells = k.setp(Compare::Lt, Type::U32, block, waits_for);
            let tells = k.pred(BinaryOp::And, tells, first);
            let reads = k.setp(Compare::Eq, Type::U32, block, blocks);
            let reads = k.pred(BinaryOp::And, reads, first);
            let counter = Address::from(data).at(128);
            let (relaxed, release) = (Order::Relaxed(Scope::Gpu), Order::Release(Scope::Gpu));
            let add = |order, at| red(Space::Global, Type::U32, order, at, 1.into());
            k.when(adds, |k| k.push(add(relaxed, data.into())));
            k.when(tells, |k| k.push(add(release, counter)));
            k.if_(reads, |k| {
                k.loop_(|k| {
                    let access = global(Type::U32).order(Order::Acquire(Scope::Gpu));
                    let seen = k.load(access, counter);
                    let all = k.setp(Compare::Eq, Type::U32, seen, waits_for);
                    k.break_if(all);
                });
                k.load(global(Type::U32), data);
            });
        }
    };
    for blocks in [2, 15, 16, 17, 20, 60] {
        let launch = Launch::new(blocks as u32 + 1, 32);
        is_right(launch, kernel(blocks, blocks));
        is_wrong(launch, (FaultKind::Race, ""), kernel(blocks, blocks - 1));
    }
}

/// A warp that goes on late after a named barrier knows what its own round knew, and nothing of a later one.
#[test]
fn law_a_named_barrier_passes_on_its_own_round() {
    let kernel = |joins: bool| {
        move |k: &mut KernelBuilder, _: Reg| {
            let word = k.shared("word", 4, 4);
            let thread = thread(k);
            let warp = k.shr(Type::U32, thread, 5);
            let [w0, w1, w2] = [0, 1, 2].map(|number| k.setp(Compare::Eq, Type::U32, warp, number));
            let (first, writer) = (first_thread(k), is_thread(k, 64));
            k.when(writer, |k| k.store(shared(Type::U32), word, 1));
            k.sync();
            k.if_(w0, |k| k.named_sync(1, 64));
            k.if_(w1, |k| {
                k.named_sync(1, 64);
                k.named_sync(2, 64);
                k.named_sync(1, 64);
            });
            k.if_(w2, |k| {
                k.named_sync(2, 64);
                k.when(writer, |k| k.store(shared(Type::U32), word, 2));
                k.named_sync(1, 64);
            });
            if joins {
                k.sync();
            }
            k.when(first, |k| {
                k.load(shared(Type::U32), word);
            });
        }
    };
    let launch = Launch::new(1, 96);
    is_right(launch, kernel(true));
    is_wrong(launch, (FaultKind::Race, ""), kernel(false));
}

#[test]
fn law_copies_between_blocks_are_launched_in_clusters() {
    let kernel = |k: &mut KernelBuilder, _: Reg| {
        let [from, to] = ["from", "to"].map(|name| k.shared(name, 128, 128));
        let bar = k.shared("bar", 8, 8);
        let first = first_thread(k);
        let word = own_word(k, from);
        k.store(shared(Type::U32), word, 1);
        k.fence(FenceKind::ProxyAsync);
        k.when(first, |k| {
            k.mbarrier_init(bar, 1);
            k.fence(FenceKind::MbarrierInit);
            k.fence(FenceKind::ProxyAsync);
        });
        k.cluster_sync();
        let rank = k.mov(Type::U32, Special::ClusterCtaRank);
        let blocks = k.mov(Type::U32, Special::ClusterNCtaRank);
        let last = k.sub(Type::U32, blocks, 1);
        let other = k.sub(Type::U32, last, rank);
        let [to_there, bar_there] =
            [k.address_of(to), k.address_of(bar)].map(|at| k.mapa(at, other));
        k.if_(first, |k| {
            k.mbarrier_arrive_expect(bar, 128);
            let ends = [to_there.into(), from.into()];
            bulk(k, "SM90_BULK_COPY_S2S", ends, Some(bar_there.into()), None);
        });
        k.mbarrier_wait(bar, 0);
        let word = own_word(k, to);
        k.load(shared(Type::U32), word);
        k.cluster_sync();
    };
    is_right(Launch::new(2, 32).cluster(2), kernel);
    let sentence = "in a launch without clusters, a device ends it in an illegal instruction";
    is_wrong(Launch::new(2, 32), (FaultKind::Operand, sentence), kernel);
}

/// Copies that reduce are atomic with each other in shared memory as well; what else accesses their bytes is ordered with each of them.
#[test]
fn law_reductions_of_blocks_into_shared_memory_are_atomic() {
    let kernel = |expected: i64, plain: bool| {
        move |k: &mut KernelBuilder, data: Reg| {
            let [from, to] = ["from", "to"].map(|name| k.shared(name, 128, 128));
            let bar = k.shared("bar", 8, 8);
            let first = first_thread(k);
            let [source, sum] = [from, to].map(|tile| own_word(k, tile));
            k.store(shared(Type::U32), source, 1);
            k.store(shared(Type::U32), sum, 0);
            k.fence(FenceKind::ProxyAsync);
            k.when(first, |k| {
                k.mbarrier_init(bar, 1);
                k.fence(FenceKind::MbarrierInit);
            });
            k.cluster_sync();
            let own = first_of(k, 0);
            k.if_(own, |k| k.mbarrier_arrive_expect(bar, expected));
            let [to_first, bar_first] =
                [k.address_of(to), k.address_of(bar)].map(|at| k.mapa(at, 0));
            let atom = if plain {
                "SM90_BULK_COPY_S2S"
            } else {
                "SM90_BULK_REDUCE_ADD_U32_S2S"
            };
            let ends = [to_first.into(), from.into()];
            k.if_(first, |k| bulk(k, atom, ends, Some(bar_first.into()), None));
            k.if_(own, |k| {
                k.mbarrier_wait(bar, 0);
                let x = k.load(shared(Type::U32), to);
                k.store(global(Type::U32), data, x);
            });
            k.cluster_sync();
        }
    };
    let launch = Launch::new(2, 32).cluster(2);
    is_right(launch, kernel(256, false));
    is_wrong(launch, (FaultKind::Race, ""), kernel(256, true));
}

/// The fence after the initialisation of a barrier may be that of another warp, which follows it.
#[test]
fn law_the_proxy_fence_of_a_barrier_follows_its_initialisation() {
    let kernel = |fence: Option<FenceKind>, meets: bool| {
        move |k: &mut KernelBuilder, data: Reg| {
            let tile = k.shared("tile", 128, 128);
            let bar = k.shared("bar", 8, 8);
            let (first, second) = (first_thread(k), is_thread(k, 32));
            k.when(first, |k| k.mbarrier_init(bar, 1));
            if meets {
                k.sync();
            }
            k.if_(second, |k| {
                if let Some(kind) = fence {
                    k.fence(kind);
                }
            });
            k.sync();
            k.if_(second, |k| {
                k.mbarrier_arrive_expect(bar, 128);
                bulk(
                    k,
                    "SM90_BULK_COPY_G2S",
                    [tile.into(), data.into()],
                    Some(bar.into()),
                    None,
                );
            });
            k.mbarrier_wait(bar, 0);
            k.load(shared(Type::U32), tile);
        }
    };
    let launch = Launch::new(1, 64);
    let sentence =
        "neither `fence.mbarrier_init` nor `fence.proxy.async` follows its initialisation";
    let missing = (FaultKind::MissingFence, sentence);
    for kind in [FenceKind::ProxyAsync, FenceKind::ProxyAsyncShared] {
        is_right(launch, kernel(Some(kind), true));
        is_wrong(launch, missing, kernel(Some(kind), false));
    }
    is_wrong(launch, missing, kernel(None, true));
    is_wrong(launch, missing, kernel(Some(FenceKind::MbarrierInit), true));
}

/// Masks of lanes name lanes that have ended without effect (PTX ISA, `vote.sync` and `bar.warp.sync`).
#[test]
fn law_masks_may_name_lanes_that_have_ended() {
    is_right(Launch::new(1, 32), |k, _| {
        let thread = thread(k);
        let high = k.setp(Compare::Ge, Type::U32, thread, 16);
        k.when(high, |k| k.push(Control::Exit));
        k.warp_sync();
        let low = k.setp(Compare::Lt, Type::U32, thread, 8);
        let ballot = k.vote(VoteMode::Ballot, low);
        let wrong = k.setp(Compare::Ne, Type::U32, ballot, 0xff);
        k.when(wrong, |k| k.push(Control::Trap));
    });
    let sentence = "its mask 0xffffffff names lane 16, which does not execute it";
    is_wrong(
        Launch::new(1, 32),
        (FaultKind::Divergence, sentence),
        |k, _| {
            let thread = thread(k);
            let low = k.setp(Compare::Lt, Type::U32, thread, 16);
            k.if_(low, |k| k.warp_sync());
        },
    );
}

/// `bar.sync 0` waits for all threads of the block, as does one with their number.
#[test]
fn law_all_threads_of_a_block_are_their_number() {
    let kernel = |threads: u32| {
        move |k: &mut KernelBuilder, _: Reg| {
            let thread = thread(k);
            let high = k.setp(Compare::Ge, Type::U32, thread, 32);
            k.if_else(high, |k| k.sync(), |k| k.named_sync(0, threads));
        }
    };
    is_right(Launch::new(1, 64), kernel(64));
    is_right(Launch::new(1, 50), kernel(64));
    let sentence =
        "barrier 0 is for all threads here, and for 64 threads where others have already arrived";
    let found = verdicts(Launch::new(1, 96), &kernel(64));
    let faults: Vec<Fault> = found.into_iter().flatten().collect();
    assert_eq!(faults.len(), ORDERS as usize);
    assert!(
        faults
            .iter()
            .all(|fault| fault.kind() == FaultKind::Barrier)
    );
    assert!(faults.iter().any(|fault| fault.what() == sentence));
}

/// An mbarrier orders writes of one block and accesses of another only if the arrival and the wait have the scope of the cluster.
#[test]
fn law_an_arrival_and_a_wait_of_two_blocks_have_the_scope_of_the_cluster() {
    #[derive(Clone, Copy, Debug, PartialEq)]
    enum Word {
        Global,
        /// Of the block that writes, or of the block that reads.
        Writers,
        Readers,
    }
    let wait = |k: &mut KernelBuilder, bar: colex_ir::SharedId, scope: Scope| {
        k.loop_(|k| {
            let p = k.reg(RegType::Pred);
            k.push(Sync::MbarrierTry {
                test: false,
                p,
                a: bar.into(),
                parity: 0.into(),
                scope,
            });
            k.break_if(p);
        });
    };
    let kernel = |word: Word, adds: bool, arrival: Scope, waits: Scope| {
        move |k: &mut KernelBuilder, data: Reg| {
            let bar = k.shared("bar", 8, 8);
            let held = k.shared("held", 4, 4);
            let first = first_thread(k);
            k.when(first, |k| {
                k.mbarrier_init(bar, 1);
                k.fence(FenceKind::MbarrierInit);
                k.store(shared(Type::U32), held, 0);
            });
            k.cluster_sync();
            let (writer, reader) = (first_of(k, 1), first_of(k, 0));
            let (own, own_bar) = (k.address_of(held), k.address_of(bar));
            let [of_reader, of_writer] = [0, 1].map(|rank| k.mapa(own, rank));
            let far_bar = k.mapa(own_bar, 0);
            let (space, at) = match word {
                Word::Global => (Space::Global, data),
                Word::Writers => (Space::Cluster, of_writer),
                Word::Readers => (Space::Cluster, of_reader),
            };
            k.if_(writer, |k| {
                if adds {
                    let order = Order::Relaxed(Scope::Cluster);
                    k.push(red(space, Type::U32, order, at.into(), 7.into()));
                } else {
                    k.store(Access::new(space, Type::U32), at, 7);
                }
                if arrival == Scope::Cta {
                    k.mbarrier_arrive_cluster(far_bar);
                } else {
                    k.mbarrier_release_cluster(far_bar);
                }
            });
            k.if_(reader, |k| {
                wait(k, bar, waits);
                k.load(Access::new(space, Type::U32), at);
            });
            k.cluster_sync();
        }
    };
    let launch = Launch::new(2, 32).cluster(2);
    let mut cases = 0;
    for word in [Word::Global, Word::Writers, Word::Readers] {
        for (adds, arrival, waits) in [false, true].into_iter().flat_map(|adds| {
            let scopes = [Scope::Cta, Scope::Cluster];
            scopes
                .map(|arrival| scopes.map(|waits| (adds, arrival, waits)))
                .concat()
        }) {
            let kernel = kernel(word, adds, arrival, waits);
            // A block's own shared memory has one copy: there, a wait of the scope of the block is taken to suffice.
            let wide_wait = waits == Scope::Cluster || word == Word::Readers;
            if arrival == Scope::Cluster && wide_wait {
                is_right(launch, kernel);
            } else {
                let sentence = if word == Word::Readers && !adds {
                    "`mbarrier.arrive.release.cluster` or a barrier of the cluster is missing"
                } else {
                    "or a barrier of the cluster, are missing"
                };
                is_wrong(launch, (FaultKind::Race, sentence), kernel);
            }
            cases += 1;
        }
    }
    // A read before the arrival is over; and a block that has waited with the scope of the cluster tells its own warps of it.
    is_right(launch, |k, data| {
        let bar = k.shared("bar", 8, 8);
        let (first, reader, writer) = (first_thread(k), first_of(k, 1), first_of(k, 0));
        k.when(first, |k| {
            k.mbarrier_init(bar, 1);
            k.fence(FenceKind::MbarrierInit);
        });
        k.cluster_sync();
        let own = k.address_of(bar);
        let far = k.mapa(own, 0);
        k.if_(reader, |k| {
            k.load(global(Type::U32), data);
            k.mbarrier_arrive_cluster(far);
        });
        k.if_(writer, |k| {
            k.mbarrier_wait(bar, 0);
            k.store(global(Type::U32), data, 1);
        });
        k.cluster_sync();
    });
    // What a block has written to its own shared memory may be overwritten.
    is_right(launch, |k, _| {
        let (bar, word) = (k.shared("bar", 8, 8), k.shared("word", 4, 4));
        let (first, own, other) = (first_thread(k), first_of(k, 1), first_of(k, 0));
        k.when(first, |k| {
            k.mbarrier_init(bar, 1);
            k.fence(FenceKind::MbarrierInit);
        });
        k.cluster_sync();
        let [at_bar, at_word] = [bar, word].map(|shared| k.address_of(shared));
        let (far_bar, far_word) = (k.mapa(at_bar, 0), k.mapa(at_word, 1));
        k.if_(own, |k| {
            k.store(shared(Type::U32), word, 1);
            k.mbarrier_arrive_cluster(far_bar);
        });
        k.if_(other, |k| {
            k.mbarrier_wait(bar, 0);
            k.store(cluster(Type::U32), far_word, 2);
        });
        k.cluster_sync();
    });
    is_right(Launch::new(2, 64).cluster(2), |k, data| {
        let (bar, local) = (k.shared("bar", 8, 8), k.shared("local", 8, 8));
        let (first, writer) = (first_thread(k), first_of(k, 1));
        let rank = k.mov(Type::U32, Special::ClusterCtaRank);
        let zero = k.setp(Compare::Eq, Type::U32, rank, 0);
        let [waits, reads] = [0, 32].map(|thread| {
            let one = is_thread(k, thread);
            k.pred(BinaryOp::And, one, zero)
        });
        k.when(first, |k| {
            k.mbarrier_init(bar, 1);
            k.mbarrier_init(local, 1);
            k.fence(FenceKind::MbarrierInit);
        });
        k.cluster_sync();
        let own = k.address_of(bar);
        let far = k.mapa(own, 0);
        k.if_(writer, |k| {
            k.store(global(Type::U32), data, 7);
            k.mbarrier_release_cluster(far);
        });
        k.if_(waits, |k| {
            wait(k, bar, Scope::Cluster);
            k.mbarrier_arrive(local);
        });
        k.if_(reads, |k| {
            k.mbarrier_wait(local, 0);
            k.load(global(Type::U32), data);
        });
        k.cluster_sync();
    });
    println!("law sim.scopes_of_mbarriers: {cases} cases");
}

/// The warps of a warpgroup execute each `setmaxnreg` together, and meet between two.
#[test]
fn law_a_warpgroup_executes_setmaxnreg_together() {
    let kernel = |times: [usize; 4]| {
        move |k: &mut KernelBuilder, _: Reg| {
            let thread = thread(k);
            let warp = k.shr(Type::U32, thread, 5);
            for (number, times) in times.into_iter().enumerate() {
                let own = k.setp(Compare::Eq, Type::U32, warp, number as i64);
                k.if_(own, |k| {
                    (0..times).for_each(|_| k.set_max_registers(false, 24))
                });
            }
        }
    };
    let launch = Launch::new(1, 128);
    is_right(launch, kernel([1; 4]));
    is_right(launch, kernel([0; 4]));
    for times in [[1, 0, 0, 0], [1, 1, 1, 0], [0, 1, 1, 1], [2, 1, 1, 1]] {
        is_wrong(launch, (FaultKind::Divergence, ""), kernel(times));
    }
    is_right(launch, |k, _| {
        k.set_max_registers(false, 40);
        k.sync();
        k.set_max_registers(false, 24);
    });
}

/// A side of a branch that waits for the other side of its own warp: the sentence says that the other one has not run.
#[test]
fn law_a_side_that_has_not_run_is_named() {
    #[derive(Clone, Copy, PartialEq)]
    enum Flag {
        Barrier,
        Word,
    }
    let kernel = |flag: Flag, waits_first: bool| {
        move |k: &mut KernelBuilder, data: Reg| {
            let bar = k.shared("bar", 8, 8);
            let first = first_thread(k);
            k.when(first, |k| k.mbarrier_init(bar, 1));
            k.warp_sync();
            let wait = |k: &mut KernelBuilder| match flag {
                Flag::Barrier => k.mbarrier_wait(bar, 0),
                Flag::Word => k.loop_(|k| {
                    let access = global(Type::U32).order(Order::Acquire(Scope::Gpu));
                    let x = k.load(access, data);
                    let set = k.setp(Compare::Ne, Type::U32, x, 0);
                    k.break_if(set);
                }),
            };
            let set = |k: &mut KernelBuilder| match flag {
                Flag::Barrier => k.mbarrier_arrive(bar),
                Flag::Word => {
                    k.store(global(Type::U32).order(Order::Release(Scope::Gpu)), data, 1);
                }
            };
            let is_last = is_thread(k, 31);
            let number = thread(k);
            let others = k.setp(Compare::Ne, Type::U32, number, 31);
            if waits_first {
                k.if_else(others, wait, set);
            } else {
                k.if_else(is_last, set, wait);
            }
        }
    };
    let launch = Launch::new(1, 32);
    for (flag, kind) in [
        (Flag::Barrier, FaultKind::Deadlock),
        (Flag::Word, FaultKind::Limit),
    ] {
        is_right(launch, kernel(flag, false));
        for fault in verdicts(launch, &kernel(flag, true)) {
            let fault = fault.expect("the simulator runs one side first");
            assert_eq!(fault.kind(), kind, "{fault}");
            let is_named = fault
                .what()
                .contains("(the other side of the branch at gpu/sim/tests/sim/faults/reach.rs:");
            assert!(is_named, "{fault}");
        }
    }
}
