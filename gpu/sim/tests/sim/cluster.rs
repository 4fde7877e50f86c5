//! Clusters, distributed shared memory, register reallocation, and arrivals of copies.

use colex_atom::copy;
use colex_ir::launch::Launch;
use colex_ir::{
    Access, Async, AtomicOp, Base, BinaryOp, ClusterOrder, Compare, CopyArgs, End, FenceKind,
    KernelBuilder, Order, RegType, ScaleD, Scope, Space, Special, Sync, Type,
};
use colex_sim::{FaultKind, SimOptions};

use super::helpers::*;

fn cluster(ty: Type) -> Access {
    Access::new(Space::Cluster, ty)
}

#[test]
fn blocks_read_and_add_to_each_others_shared_memory() {
    let mut k = kernel("ring");
    let out = k.pointer("out");
    let tile = k.shared("tile", 32 * 4, 4);
    let sum = k.shared("sum", 4, 4);
    let thread = k.mov(Type::U32, Special::Tid(0));
    let rank = k.mov(Type::U32, Special::ClusterCtaRank);
    let base = k.address_of(tile);
    let mine = k.mad(Type::U32, thread, 4, base);
    let value = k.mad(Type::U32, rank, 100, thread);
    k.store(shared(Type::U32), mine, value);
    let zero = k.setp(Compare::Eq, Type::U32, thread, 0);
    k.when(zero, |k| k.store(shared(Type::U32), sum, 0));
    k.cluster_sync();
    let next = k.add(Type::U32, rank, 1);
    let next = k.rem(Type::U32, next, 4);
    let far = k.mapa(mine, next);
    let x = k.load(cluster(Type::U32), far);
    let total = k.address_of(sum);
    let first = k.mapa(total, 0);
    k.reduce(AtomicOp::Add, Space::Cluster, Type::U32, first, &[x]);
    k.cluster_sync();
    let there = k.load(cluster(Type::U32), first);
    let both = k.add(Type::U32, x, there);
    let at = k.mad(Type::U32, rank, 32, thread);
    let to = element(&mut k, out, at, 4);
    k.store(global(Type::U32), to, both);
    k.cluster_sync();
    let kernel = k.finish();

    let all: u32 = (0..4).flat_map(|r| (0..32).map(move |t| r * 100 + t)).sum();
    for seed in 0..16 {
        let mut host = Host::default();
        let out = host.empty(4 * 128);
        let options = SimOptions::default().seed(seed);
        host.run_with(&kernel, Launch::new(4, 32).cluster(4), &options)
            .unwrap();
        let expected: Vec<u32> = (0..128)
            .map(|i| (i / 32 + 1) % 4 * 100 + i % 32 + all)
            .collect();
        assert_eq!(host.read(out, 128), expected, "seed {seed}");
    }
}

#[test]
fn special_registers_of_a_cluster() {
    let mut k = kernel("special");
    let out = k.pointer("out");
    let specials = [
        Special::Ctaid(0),
        Special::Ctaid(1),
        Special::ClusterCtaid(0),
        Special::ClusterCtaid(1),
        Special::ClusterId(0),
        Special::ClusterId(1),
        Special::NClusterId(0),
        Special::ClusterNCtaid(1),
        Special::ClusterCtaRank,
        Special::ClusterNCtaRank,
    ];
    let x = k.mov(Type::U32, Special::Ctaid(0));
    let y = k.mov(Type::U32, Special::Ctaid(1));
    let width = k.mov(Type::U32, Special::NCtaid(0));
    let block = k.mad(Type::U32, y, width, x);
    let at = k.mul(Type::U32, block, specials.len() as i64);
    for (i, special) in specials.into_iter().enumerate() {
        let value = k.mov(Type::U32, special);
        let at = k.add(Type::U32, at, i as i64);
        let to = element(&mut k, out, at, 4);
        k.store(global(Type::U32), to, value);
    }
    let kernel = k.finish();
    let mut host = Host::default();
    let out = host.empty(4 * 24 * 10);
    host.run(&kernel, Launch::new([6, 4], 1).cluster([3, 2]))
        .unwrap();
    let found = host.read(out, 240);
    for (i, found) in found.chunks(10).enumerate() {
        let (x, y) = (i as u32 % 6, i as u32 / 6);
        assert_eq!(
            found,
            [
                x,
                y,
                x % 3,
                y % 2,
                x / 3,
                y / 2,
                2,
                2,
                x % 3 + 3 * (y % 2),
                6
            ]
        );
    }
}

/// Two warpgroups: the first gives registers away, the second wants them.
fn roles(k: &mut KernelBuilder, gives: u32, wants: u32) {
    let thread = k.mov(Type::U32, Special::Tid(0));
    let low = k.setp(Compare::Lt, Type::U32, thread, 128);
    k.if_else(
        low,
        |k| k.set_max_registers(false, gives),
        |k| k.set_max_registers(true, wants),
    );
}

#[test]
fn registers_move_from_one_warpgroup_to_another() {
    let mut k = kernel("roles");
    roles(&mut k, 24, 240);
    let mut host = Host::default();
    host.run(&k.finish(), Launch::new(1, 384)).unwrap();

    let mut k = kernel("greedy");
    roles(&mut k, 152, 240);
    let fault = host.run(&k.finish(), Launch::new(1, 384)).unwrap_err();
    assert_eq!(fault.kind(), FaultKind::Deadlock);
    assert!(
        fault.what().contains(
            "for 72 registers more for each of its threads (`setmaxnreg.inc`), and 64 are left of those that warps of its \
             block gave up"
        ),
        "{fault}"
    );
    let mut k = kernel("odd");
    k.set_max_registers(true, 100);
    let fault = host.run(&k.finish(), Launch::new(1, 128)).unwrap_err();
    assert_eq!(
        fault.what(),
        "100 registers: a multiple of 8 from 24 to 256 is possible"
    );
    let mut k = kernel("wrong");
    k.set_max_registers(true, 24);
    let fault = host.run(&k.finish(), Launch::new(1, 384)).unwrap_err();
    assert_eq!(
        fault.what(),
        "`setmaxnreg.inc` increases the registers of a thread to 24, and it has 168"
    );
}

#[test]
fn copies_of_threads_arrive_at_a_barrier() {
    let mut k = kernel("arrive");
    let [input, output] = ["input", "output"].map(|name| k.pointer(name));
    let tile = k.shared("tile", 64 * 16, 16);
    let bar = k.shared("bar", 8, 8);
    let thread = k.mov(Type::U32, Special::Tid(0));
    let first = k.setp(Compare::Eq, Type::U32, thread, 0);
    k.when(first, |k| k.mbarrier_init(bar, 64));
    k.sync();
    let from = element(&mut k, input, thread, 16);
    let base = k.address_of(tile);
    let here = k.mad(Type::U32, thread, 16, base);
    k.copy_atom(
        &copy("SM80_CP_ASYNC_CACHEGLOBAL<uint128_t>").unwrap(),
        CopyArgs {
            dst: End::Memory(here.into()),
            src: End::Memory(from.into()),
            ..CopyArgs::default()
        },
    );
    k.push(Async::CpAsyncArrive {
        a: bar.into(),
        noinc: true,
    });
    k.mbarrier_wait(bar, 0);
    // The other warp's bytes.
    let other = k.xor(Type::B32, thread, 32);
    let there = k.mad(Type::U32, other, 16, base);
    let x = k.load(shared(Type::U32), there);
    let to = element(&mut k, output, thread, 4);
    k.store(global(Type::U32), to, x);
    let kernel = k.finish();
    let words: Vec<u32> = (0..256).collect();
    for seed in 0..12 {
        let mut host = Host::default();
        host.words(&words);
        let out = host.empty(256);
        let options = SimOptions::default().seed(seed);
        host.run_with(&kernel, Launch::new(1, 64), &options)
            .unwrap();
        let expected: Vec<u32> = (0..64).map(|t| 4 * (t ^ 32)).collect();
        assert_eq!(host.read(out, 64), expected, "seed {seed}");
    }
}

#[test]
fn a_flag_orders_what_comes_before_it() {
    // Warp 1 waits for a flag in shared memory that warp 0 releases.
    let build = |release: Order, acquire: Order| {
        let mut k = kernel("flag");
        let tile = k.shared("tile", 4, 4);
        let flag = k.shared("flag", 4, 4);
        let thread = k.mov(Type::U32, Special::Tid(0));
        let first = k.setp(Compare::Eq, Type::U32, thread, 0);
        k.when(first, |k| k.store(shared(Type::U32), flag, 0));
        k.sync();
        k.if_(first, |k| {
            k.store(shared(Type::U32), tile, 7);
            k.store(shared(Type::U32).order(release), flag, 1);
        });
        let waits = k.setp(Compare::Eq, Type::U32, thread, 32);
        k.if_(waits, |k| {
            k.loop_(|k| {
                let x = k.load(shared(Type::U32).order(acquire), flag);
                let set = k.setp(Compare::Ne, Type::U32, x, 0);
                k.break_if(set);
            });
            k.load(shared(Type::U32), tile);
        });
        k.finish()
    };
    let ordered = build(Order::Release(Scope::Cta), Order::Acquire(Scope::Cta));
    let weak = build(Order::Weak, Order::Weak);
    for seed in 0..6 {
        let options = SimOptions::default().seed(seed);
        Host::default()
            .run_with(&ordered, Launch::new(1, 64), &options)
            .unwrap();
        let fault = Host::default().run_with(&weak, Launch::new(1, 64), &options);
        assert_eq!(fault.unwrap_err().kind(), FaultKind::Race);
    }
}

/// What a kernel with one mistake is told.
fn said(launch: Launch, build: impl FnOnce(&mut KernelBuilder)) -> String {
    let mut k = kernel("planted");
    build(&mut k);
    let fault = Host::default().run(&k.finish(), launch).unwrap_err();
    fault.what().to_string()
}

#[test]
fn barriers_that_are_not_used_as_such() {
    let one = Launch::new(1, 64);
    assert_eq!(
        said(one, |k| {
            let warp = k.mov(Type::U32, Special::Tid(0));
            let low = k.setp(Compare::Lt, Type::U32, warp, 32);
            k.if_else(low, |k| k.named_sync(2, 64), |k| k.named_sync(2, 96));
        }),
        "barrier 2 is for 96 threads here, and for 64 threads where others have already arrived"
    );
    assert_eq!(
        said(one, |k| k.named_sync(16, 64)),
        "barrier 16 of 16, numbered from 0"
    );
    assert_eq!(
        said(one, |k| k.named_sync(1, 40)),
        "barrier 1 for 40 threads: the number must be a multiple of 32"
    );
    assert_eq!(
        said(Launch::new(1, 1), |k| {
            let bar = k.shared("bar", 8, 8);
            k.mbarrier_arrive(bar);
        }),
        "byte 0 of `bar` is no barrier: `mbarrier.init` is missing"
    );
    assert_eq!(
        said(Launch::new(1, 1), |k| {
            let bar = k.shared("bar", 16, 8);
            k.mbarrier_init(bar, 0);
        }),
        "the barrier at byte 0 of `bar` is initialised for 0 arrivals: 1 to 1048575 are possible"
    );
    assert_eq!(
        said(Launch::new(1, 32), |k| {
            let bar = k.shared("bar", 8, 8);
            let lane = k.mov(Type::U32, Special::LaneId);
            let first = k.setp(Compare::Eq, Type::U32, lane, 0);
            k.when(first, |k| k.mbarrier_init(bar, 20));
            k.warp_sync();
            k.when(first, |k| k.mbarrier_arrive_expect(bar, 16));
            k.mbarrier_arrive(bar);
        }),
        "phase 0 of the barrier at byte 0 of `bar` has had all of its 20 arrivals"
    );
    assert_eq!(
        said(Launch::new(1, 32), |k| k.push(Sync::ClusterWait)),
        "a warp waits at the cluster's barrier without having arrived"
    );
}

#[test]
fn operands_out_of_range() {
    assert_eq!(
        said(Launch::new(2, 1).cluster(2), |k| {
            let tile = k.shared("tile", 8, 8);
            let own = k.address_of(tile);
            k.mapa(own, 2);
        }),
        "block 2 of a cluster of 2"
    );
    assert_eq!(
        said(Launch::new(2, 1).cluster(2), |k| {
            let tile = k.shared("tile", 8, 8);
            let own = k.address_of(tile);
            let far = k.mapa(own, 1);
            k.store(shared(Type::U32), far, 1);
        }),
        "the shared address 0x1000400 is byte 0 of `tile` in block 1 of the cluster, and `.shared::cta` reaches block 0 \
         only: use `.shared::cluster`"
    );
    assert_eq!(
        said(Launch::new(1, 1), |k| {
            let other =
                KernelBuilder::new("other", colex_atom::Arch::Sm80).reg(colex_ir::RegType::B32);
            k.add(Type::U32, other, 1);
            k.binary_to(
                BinaryOp::Add,
                Type::U32,
                colex_ir::Reg { index: 9, ..other },
                other,
                1,
            );
        }),
        "register %r0 is read but was never written"
    );
    assert_eq!(
        said(Launch::new(1, 1), |k| {
            let far = colex_ir::Reg {
                index: 9,
                ty: colex_ir::RegType::B32,
            };
            k.mov_to(far, 1);
        }),
        "%r9 is not a register of values of this kernel"
    );
    let mut k = kernel("sized");
    k.block([64, 1, 1]);
    k.pointer("data");
    let kernel = k.finish();
    let mut host = Host::default();
    let fault = host.run(&kernel, Launch::new(1, 32)).unwrap_err();
    assert_eq!(
        fault.to_string(),
        "the kernel is built for a block of (64,1,1), and the launch has (32,1,1)"
    );
    let fault = host.run(&kernel, Launch::new(1, 64)).unwrap_err();
    assert_eq!(
        fault.to_string(),
        "the kernel has 1 parameter, and 0 arguments were given"
    );
}

#[test]
fn a_fence_makes_a_relaxed_arrival_pass_on_what_came_before() {
    let build = |fenced: bool| {
        let mut k = kernel("relaxed");
        let bar = k.shared("bar", 8, 8);
        let thread = k.mov(Type::U32, Special::Tid(0));
        let first = k.setp(Compare::Eq, Type::U32, thread, 0);
        k.if_(first, |k| {
            k.mbarrier_init(bar, 64);
            if fenced {
                k.fence(FenceKind::MbarrierInit);
            }
        });
        k.push(Sync::ClusterArrive {
            order: ClusterOrder::Relaxed,
        });
        k.push(Sync::ClusterWait);
        k.mbarrier_arrive(bar);
        k.mbarrier_wait(bar, 0);
        k.finish()
    };
    let launch = Launch::new(2, 64).cluster(2);
    Host::default().run(&build(true), launch).unwrap();
    let fault = Host::default().run(&build(false), launch).unwrap_err();
    assert_eq!(fault.kind(), FaultKind::Race);
}

#[test]
fn two_products_under_way_read_the_same_registers() {
    let atom = colex_atom::mma("SM90_64x8x16_F32F16F16_RS").unwrap();
    let build = |touch: bool| {
        let mut k = kernel("shared_a");
        let out = k.pointer("out");
        k.dynamic_shared(1024);
        let base = k.address_of(Base::DynamicShared);
        let thread = k.mov(Type::U32, Special::Tid(0));
        let mine = k.mad(Type::U32, thread, 4, base);
        // B is all ones: 8 by 16 halves.
        let ones = k.mov(Type::U32, 0x3c00_3c00);
        k.store(shared(Type::U32), mine, ones);
        k.fence(FenceKind::ProxyAsyncShared);
        k.sync();
        let rows = colex_atom::GmmaDescriptor {
            leading: 128,
            stride: 256,
            ..Default::default()
        };
        let start = k.shr(Type::U32, base, 4);
        let start = k.cvt(Type::U64, Type::U32, start);
        let b = k.add(Type::U64, start, rows.encode().unwrap() as i64);
        let a: Vec<_> = (0..4).map(|_| k.mov(Type::B32, 0x3c00_3c00)).collect();
        let [d, e] = [0, 1].map(|_| k.regs(RegType::F32, 4));
        k.wgmma_fence();
        k.wgmma(&atom, &d, &a, b, ScaleD::Zero);
        k.wgmma(&atom, &e, &a, b, ScaleD::Zero);
        k.wgmma_commit();
        if touch {
            k.mov_to(a[0], 0);
        }
        k.wgmma_wait(0);
        let sum = k.add(Type::F32, d[0], e[3]);
        let to = element(&mut k, out, thread, 4);
        k.store(global(Type::F32), to, sum);
        k.finish()
    };
    let launch = Launch::new(1, 128).dynamic_shared(512);
    for seed in 0..6 {
        let mut host = Host::default();
        let out = host.empty(512);
        let options = SimOptions::default().seed(seed);
        host.run_with(&build(false), launch, &options).unwrap();
        assert_eq!(host.read(out, 128), [32f32.to_bits(); 128]);
    }
    let mut host = Host::default();
    host.empty(512);
    let fault = host.run(&build(true), launch).unwrap_err();
    assert_eq!(fault.kind(), FaultKind::InFlight);
}

/// How a block tells the other one that it has accessed its memory.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Told {
    /// `mbarrier.arrive.shared::cluster`
    Near,
    /// `fence.acq_rel.cluster`, and the same.
    Fenced,
    /// `mbarrier.arrive.release.cluster.shared::cluster`
    Released,
    /// `barrier.cluster`
    Barrier,
}

/// Each of two blocks of two warps accesses the other's memory, tells it, and the other block writes there. `by_second` says
/// that the second warp accesses and the first one tells after a barrier of the block.
fn handed_back(told: Told, writes: bool, by_second: bool) -> colex_ir::Kernel {
    let mut k = kernel("handed_back");
    let tile = k.shared("tile", 4, 4);
    let bar = k.shared("bar", 8, 8);
    let thread = k.mov(Type::U32, Special::Tid(0));
    let rank = k.mov(Type::U32, Special::ClusterCtaRank);
    let other = k.binary(BinaryOp::Xor, Type::B32, rank, 1);
    let (tile, bar) = (k.address_of(tile), k.address_of(bar));
    let first = k.setp(Compare::Eq, Type::U32, thread, 0);
    k.when(first, |k| {
        k.mbarrier_init(bar, 1);
        k.push(Sync::Fence(FenceKind::MbarrierInit));
        k.store(shared(Type::U32), tile, 1);
    });
    k.cluster_sync();
    let at = k.setp(
        Compare::Eq,
        Type::U32,
        thread,
        if by_second { 32 } else { 0 },
    );
    k.when(at, |k| {
        let far = k.mapa(tile, other);
        if writes {
            k.store(cluster(Type::U32), far, 2);
        } else {
            k.load(cluster(Type::U32), far);
        }
    });
    k.sync();
    if told == Told::Barrier {
        k.cluster_sync();
    } else {
        k.when(first, |k| {
            let far = k.mapa(bar, other);
            match told {
                Told::Released => k.mbarrier_release_cluster(far),
                Told::Fenced => {
                    k.push(Sync::Fence(FenceKind::AcqRelCluster));
                    k.mbarrier_arrive_cluster(far);
                }
                Told::Near | Told::Barrier => k.mbarrier_arrive_cluster(far),
            }
        });
        k.mbarrier_wait(bar, 0);
    }
    k.when(first, |k| k.store(shared(Type::U32), tile, 3));
    k.cluster_sync();
    k.finish()
}

/// An arrival of the scope of a block overtakes an access that reaches another block's memory.
#[test]
fn law_an_access_of_another_blocks_memory_needs_a_release_of_the_cluster() {
    for told in [Told::Near, Told::Fenced, Told::Released, Told::Barrier] {
        for (writes, by_second) in [(false, false), (false, true), (true, false), (true, true)] {
            let kernel = handed_back(told, writes, by_second);
            for seed in 0..8 {
                let mut host = Host::default();
                let options = SimOptions::default().seed(seed);
                let found = host.run_with(&kernel, Launch::new(2, 64).cluster(2), &options);
                if told != Told::Near {
                    found.unwrap_or_else(|e| panic!("{told:?} {writes} {by_second}: {e}"));
                    continue;
                }
                let fault = found.expect_err("a race");
                assert_eq!(fault.kind(), FaultKind::Race, "{fault}");
                let verb = if writes { "writes" } else { "reads" };
                let sentence = format!(
                    "{verb} it: that access of another block's memory may be under way still, since the arrival that follows it \
                     has the scope of a block: `mbarrier.arrive.release.cluster` or a barrier of the cluster is missing"
                );
                assert!(fault.to_string().contains(&sentence), "{fault}");
            }
        }
    }
}

/// The memory of a block lasts until other blocks' accesses to it are complete.
#[test]
fn a_block_that_ends_after_an_arrival_of_its_scope_ends_too_early() {
    let build = |released: bool| {
        let mut k = kernel("ends");
        let tile = k.shared("tile", 4, 4);
        let bar = k.shared("bar", 8, 8);
        let thread = k.mov(Type::U32, Special::Tid(0));
        let rank = k.mov(Type::U32, Special::ClusterCtaRank);
        let (tile, bar) = (k.address_of(tile), k.address_of(bar));
        let first = k.setp(Compare::Eq, Type::U32, thread, 0);
        k.when(first, |k| {
            k.mbarrier_init(bar, 1);
            k.push(Sync::Fence(FenceKind::MbarrierInit));
            k.store(shared(Type::U32), tile, 1);
        });
        k.cluster_sync();
        let second = k.setp(Compare::Eq, Type::U32, rank, 1);
        k.if_else(
            second,
            |k| {
                k.when(first, |k| {
                    let far = k.mapa(tile, 0);
                    k.load(cluster(Type::U32), far);
                    let far = k.mapa(bar, 0);
                    if released {
                        k.mbarrier_release_cluster(far);
                    } else {
                        k.mbarrier_arrive_cluster(far);
                    }
                });
            },
            |k| k.mbarrier_wait(bar, 0),
        );
        k.finish()
    };
    for released in [false, true] {
        let mut host = Host::default();
        let found = host.run(&build(released), Launch::new(2, 32).cluster(2));
        let kind = found.err().map(|fault| fault.kind());
        assert_eq!(kind, (!released).then_some(FaultKind::EarlyExit));
    }
}
