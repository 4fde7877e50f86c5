//! Mistakes of a few lanes or warps: what the others do is right.

use colex_atom::{GmmaDescriptor, copy, mma};
use colex_ir::launch::Launch;
use colex_ir::{
    Address, Async, AtomicOp, Base, Compare, Control, CopyArgs, End, FenceKind, KernelBuilder, Reg,
    RegType, ScaleD, Space, Special, Sync, Type,
};
use colex_sim::{FaultKind, SimOptions};

use super::fault;
use crate::helpers::*;

#[test]
fn the_lane_that_is_not_named_and_the_arrival_too_many() {
    let stray = fault(
        |k, _| {
            let lane = k.mov(Type::U32, Special::LaneId);
            let low = k.setp(Compare::Lt, Type::U32, lane, 16);
            k.if_(low, |k| k.push(Sync::WarpSync { mask: 0xff.into() }));
        },
        Launch::new(1, 32),
    );
    assert_eq!(stray.kind(), FaultKind::Divergence);
    assert_eq!(
        stray.what(),
        "its mask 0x000000ff does not name the lane that executes it"
    );
    assert_eq!(stray.place().unwrap().thread, [8, 0, 0]);
    let surplus = fault(
        |k, _| {
            let bar = k.shared("bar", 8, 8);
            let lane = k.mov(Type::U32, Special::LaneId);
            let first = k.setp(Compare::Eq, Type::U32, lane, 0);
            // A byte is missing, so that the phase stays.
            k.when(first, |k| k.mbarrier_init(bar, 20));
            k.warp_sync();
            k.when(first, |k| k.mbarrier_arrive_expect(bar, 1));
            k.mbarrier_arrive(bar);
        },
        Launch::new(1, 32),
    );
    assert_eq!(surplus.kind(), FaultKind::Barrier);
    assert_eq!(surplus.place().unwrap().thread, [19, 0, 0]);
}

#[test]
fn copies_that_are_asked_for_too_much() {
    let beyond = fault(
        |k, data| {
            let tile = k.shared("tile", 16, 16);
            let args = CopyArgs {
                dst: End::Memory(tile.into()),
                src: End::Memory(data.into()),
                source_bytes: Some(17.into()),
                ..CopyArgs::default()
            };
            let atom = copy("SM80_CP_ASYNC_CACHEGLOBAL_ZFILL<uint128_t>").unwrap();
            k.copy_atom(&atom, args);
        },
        Launch::new(1, 1),
    );
    assert_eq!(beyond.kind(), FaultKind::Operand);
    assert_eq!(beyond.what(), "it writes 16 bytes and cannot read 17");
    let no_block = fault(
        |k, data| {
            let tile = k.shared("tile", 16, 16);
            let bar = k.shared("bar", 8, 8);
            let mask = k.mov(Type::U16, 0b100);
            let args = CopyArgs {
                dst: End::Memory(tile.into()),
                src: End::Memory(data.into()),
                barrier: Some(bar.into()),
                size: Some(16.into()),
                mask: Some(mask),
                ..CopyArgs::default()
            };
            k.copy_atom(&copy("SM90_BULK_COPY_G2S").unwrap(), args);
        },
        Launch::new(2, 1).cluster(2),
    );
    assert_eq!(no_block.kind(), FaultKind::OutOfBounds);
    assert_eq!(no_block.what(), "the mask of blocks 0x4 for a cluster of 2");
}

/// Sixteen copies of a thread, then an arrival that waits for them, in 40 orders.
#[test]
fn an_arrival_after_copies_is_after_all_of_them() {
    let mut k = kernel("arrival");
    let [input, output] = ["input", "output"].map(|name| k.pointer(name));
    let tile = k.shared("tile", 64, 16);
    let bar = k.shared("bar", 8, 8);
    k.mbarrier_init(bar, 1);
    let [input, output] = [input, output].map(|id| k.param(id));
    for i in 0..16 {
        let args = CopyArgs {
            dst: End::Memory(Address::from(tile).at(4 * i)),
            src: End::Memory(Address::from(input).at(4 * i)),
            ..CopyArgs::default()
        };
        k.copy_atom(&copy("SM80_CP_ASYNC_CACHEALWAYS<uint32_t>").unwrap(), args);
    }
    k.push(Async::CpAsyncArrive {
        a: bar.into(),
        noinc: true,
    });
    k.mbarrier_wait(bar, 0);
    for i in 0..16 {
        let x = k.load(shared(Type::U32), Address::from(tile).at(4 * i));
        k.store(global(Type::U32), Address::from(output).at(4 * i), x);
    }
    let kernel = k.finish();
    let words: Vec<u32> = (100..116).collect();
    for seed in 0..40 {
        let mut host = Host::default();
        host.words(&words);
        let out = host.empty(64);
        let options = SimOptions::default().seed(seed);
        host.run_with(&kernel, Launch::new(1, 1), &options).unwrap();
        assert_eq!(host.read(out, 16), words, "seed {seed}");
    }
}

/// Lane 3 writes a word and arrives; lane 0 waits; then that lane reads the word.
fn told_to_lane_0(reader: i64) -> Result<(), FaultKind> {
    let mut k = kernel("told");
    let tile = k.shared("tile", 4, 4);
    let bar = k.shared("bar", 8, 8);
    let lane = k.mov(Type::U32, Special::LaneId);
    let is = |k: &mut KernelBuilder, number: i64| k.setp(Compare::Eq, Type::U32, lane, number);
    let zero = is(&mut k, 0);
    k.when(zero, |k| k.mbarrier_init(bar, 1));
    k.warp_sync();
    let three = is(&mut k, 3);
    k.if_(three, |k| {
        k.store(shared(Type::U32), tile, 7);
        k.mbarrier_arrive(bar);
    });
    k.if_(zero, |k| k.mbarrier_wait(bar, 0));
    let reads = is(&mut k, reader);
    k.if_(reads, |k| {
        k.load(shared(Type::U32), tile);
    });
    let run = Host::default().run(&k.finish(), Launch::new(1, 32));
    run.map(|_| ()).map_err(|fault| fault.kind())
}

#[test]
fn what_one_lane_has_waited_for_another_does_not_know() {
    assert_eq!(told_to_lane_0(0), Ok(()));
    assert_eq!(told_to_lane_0(3), Ok(()));
    assert_eq!(told_to_lane_0(5), Err(FaultKind::Race));
}

/// The last warp of a warpgroup writes B, and only the first waits for it.
fn met_by(warps: i64) -> Option<FaultKind> {
    let mut k = kernel("product");
    k.dynamic_shared(1024);
    let base = k.address_of(Base::DynamicShared);
    let thread = k.mov(Type::U32, Special::Tid(0));
    let writes = |k: &mut KernelBuilder, from: Reg| {
        for i in 0..4 {
            k.store(shared(Type::U32), Address::from(from).at(4 * i), 0);
        }
    };
    let mine = k.mad(Type::U32, thread, 16, base);
    writes(&mut k, mine);
    k.fence(FenceKind::ProxyAsyncShared);
    k.sync();
    let last = k.setp(Compare::Ge, Type::U32, thread, 96);
    k.if_(last, |k| {
        writes(k, mine);
        k.fence(FenceKind::ProxyAsyncShared);
    });
    let low = k.setp(Compare::Lt, Type::U32, thread, 32 * (warps - 1));
    let rows = GmmaDescriptor {
        leading: 128,
        stride: 256,
        ..GmmaDescriptor::default()
    };
    let start = k.shr(Type::U32, base, 4);
    let start = k.cvt(Type::U64, Type::U32, start);
    let tile = k.add(Type::U64, start, rows.encode().unwrap() as i64);
    k.if_(low, |k| k.named_sync(1, 32 * warps as u32));
    k.if_(last, |k| k.named_sync(1, 32 * warps as u32));
    let d = k.regs(RegType::F32, 4);
    k.wgmma_fence();
    let atom = mma("SM90_64x8x16_F32F16F16_SS").unwrap();
    k.wgmma(&atom, &d, &[tile], tile, ScaleD::Zero);
    k.wgmma_commit();
    k.wgmma_wait(0);
    let mut host = Host::default();
    let launch = Launch::new(1, 128).dynamic_shared(2048);
    let run = host.run(&k.finish(), launch);
    run.err().map(|fault| fault.kind())
}

#[test]
fn a_product_reads_what_all_its_warps_know() {
    assert_eq!(met_by(4), None);
    assert_eq!(met_by(3), Some(FaultKind::Race));
    assert_eq!(met_by(2), Some(FaultKind::Race));
}

/// A thread writes shared memory and has an engine read it, with a fence between.
fn fenced_by(fence: Option<FenceKind>, atomically: bool) -> Option<FaultKind> {
    let mut k = kernel("fenced");
    let data = k.pointer("data");
    let data = k.param(data);
    let tile = k.shared("tile", 16, 16);
    for i in 0..4 {
        k.store(shared(Type::U32), Address::from(tile).at(4 * i), 5);
    }
    if atomically {
        k.fence(FenceKind::ProxyAsync);
        k.atomic(AtomicOp::Add, Space::Shared, Type::U32, tile, 1);
    }
    fence.into_iter().for_each(|fence| k.fence(fence));
    let args = CopyArgs {
        dst: End::Memory(data.into()),
        src: End::Memory(tile.into()),
        size: Some(16.into()),
        ..CopyArgs::default()
    };
    k.copy_atom(&copy("SM90_BULK_COPY_S2G").unwrap(), args);
    k.bulk_commit();
    k.bulk_wait(0, false);
    let mut host = Host::default();
    host.words(&[0; 4]);
    let run = host.run(&k.finish(), Launch::new(1, 1));
    run.err().map(|fault| fault.kind())
}

#[test]
fn a_fence_for_global_memory_is_none_for_shared_memory() {
    let missing = Some(FaultKind::MissingFence);
    for atomically in [false, true] {
        let by = |fence| fenced_by(fence, atomically);
        assert_eq!(by(None), missing);
        assert_eq!(by(Some(FenceKind::ProxyAsyncGlobal)), missing);
        assert_eq!(by(Some(FenceKind::AcqRelGpu)), missing);
        assert_eq!(by(Some(FenceKind::ProxyAsyncShared)), None);
        assert_eq!(by(Some(FenceKind::ProxyAsync)), None);
    }
}

#[test]
fn a_phase_counts_less_than_a_mebibyte() {
    let much = fault(
        |k, _| {
            let bar = k.shared("bar", 8, 8);
            k.mbarrier_init(bar, 1);
            k.mbarrier_arrive_expect(bar, 1 << 20);
        },
        Launch::new(1, 1),
    );
    assert_eq!(much.kind(), FaultKind::Barrier);
    assert_eq!(
        much.what(),
        "a phase of the barrier at byte 0 of `bar` counts at most 1048575 bytes, and 1048576 are announced"
    );
}

#[test]
fn the_warps_of_a_warpgroup_ask_for_one_product() {
    let differs = fault(
        |k, _| {
            k.dynamic_shared(1024);
            let thread = k.mov(Type::U32, Special::Tid(0));
            let low = k.setp(Compare::Lt, Type::U32, thread, 96);
            let base = k.address_of(Base::DynamicShared);
            let start = k.shr(Type::U32, base, 4);
            let tile = k.cvt(Type::U64, Type::U32, start);
            let d = k.regs(RegType::F32, 4);
            d.iter().for_each(|d| k.mov_to(*d, 0.0));
            k.wgmma_fence();
            let atom = mma("SM90_64x8x16_F32F16F16_SS").unwrap();
            k.wgmma(&atom, &d, &[tile], tile, ScaleD::Pred(low));
            k.wgmma_commit();
            k.wgmma_wait(0);
        },
        Launch::new(1, 128).dynamic_shared(4096),
    );
    assert_eq!(differs.kind(), FaultKind::Divergence);
    assert!(differs.what().starts_with(
        "the four warps of a warpgroup execute the same products with the same descriptors and scale"
    ));
}

#[test]
fn a_barrier_does_not_wait_for_warps_that_have_ended() {
    let mut k = kernel("ended");
    let thread = k.mov(Type::U32, Special::Tid(0));
    let high = k.setp(Compare::Ge, Type::U32, thread, 32);
    k.when(high, |k| k.push(Control::Exit));
    k.sync();
    let kernel = k.finish();
    for seed in 0..6 {
        let options = SimOptions::default().seed(seed);
        let run = Host::default().run_with(&kernel, Launch::new(1, 64), &options);
        run.unwrap_or_else(|fault| panic!("seed {seed}: {fault}"));
    }
}

#[test]
fn who_asks_a_barrier_and_is_answered_knows_what_came_before() {
    let mut k = kernel("asked");
    let tile = k.shared("tile", 4, 4);
    let bar = k.shared("bar", 8, 8);
    let thread = k.mov(Type::U32, Special::Tid(0));
    let zero = k.setp(Compare::Eq, Type::U32, thread, 0);
    k.when(zero, |k| k.mbarrier_init(bar, 1));
    k.sync();
    k.if_(zero, |k| {
        k.store(shared(Type::U32), tile, 7);
        k.mbarrier_arrive(bar);
    });
    let other = k.setp(Compare::Eq, Type::U32, thread, 32);
    k.if_(other, |k| {
        k.loop_(|k| {
            let there = k.mbarrier_try(bar, 0);
            k.break_if(there);
        });
        k.load(shared(Type::U32), tile);
    });
    let kernel = k.finish();
    for seed in 0..6 {
        let options = SimOptions::default().seed(seed);
        let run = Host::default().run_with(&kernel, Launch::new(1, 64), &options);
        run.unwrap_or_else(|fault| panic!("seed {seed}: {fault}"));
    }
}

/// The number of arrivals may be in a register: 0, or more than a phase counts, is refused.
#[test]
fn law_an_arrival_counts_as_many_as_a_phase_may() {
    let most = (1 << 20) - 1;
    let arrive = |count: i64| {
        move |k: &mut KernelBuilder, _: Reg| {
            let bar = k.shared("bar", 8, 8);
            k.mbarrier_init(bar, most);
            let count = k.mov(Type::U32, count);
            k.push(Sync::MbarrierArrive {
                space: Space::Shared,
                a: bar.into(),
                count: Some(count.into()),
                expect: None,
                scope: colex_ir::Scope::Cta,
            });
        }
    };
    for count in [0, most + 1, i64::from(u32::MAX)] {
        let found = fault(arrive(count), Launch::new(1, 1));
        assert_eq!(found.kind(), FaultKind::Barrier);
        let sentence = format!(
            "this counts {count} arrivals at the barrier at byte 0 of `bar`: 1 to 1048575 are possible"
        );
        assert_eq!(found.what(), sentence);
    }
    for count in [1, most] {
        let mut k = kernel("arrives");
        let data = k.pointer("data");
        let data = k.param(data);
        arrive(count)(&mut k, data);
        let mut host = Host::default();
        host.empty(256);
        host.run(&k.finish(), Launch::new(1, 1)).unwrap();
    }
}

/// Products of two shapes that share accumulators follow each other by a `wgmma.fence`; products of one shape need none.
#[test]
fn law_products_in_flight_that_share_accumulators_have_one_shape() {
    let build = |second: &'static str, fences: bool| {
        move |k: &mut KernelBuilder, _: Reg| {
            let [first, second] =
                ["SM90_64x8x16_F32F16F16_SS", second].map(|name| mma(name).unwrap());
            k.dynamic_shared(1024);
            let base = k.address_of(Base::DynamicShared);
            let thread = k.mov(Type::U32, Special::Tid(0));
            let at = k.mad(Type::U32, thread, 4, base);
            for i in 0..8 {
                k.store(shared(Type::U32), Address::from(at).at(512 * i), 0);
            }
            k.fence(FenceKind::ProxyAsyncShared);
            k.sync();
            let descriptor = |start: i64| {
                let tile = GmmaDescriptor {
                    start,
                    leading: 128,
                    stride: 256,
                    ..Default::default()
                };
                tile.encode().unwrap() as i64
            };
            let start = k.shr(Type::U32, base, 4);
            let start = k.cvt(Type::U64, Type::U32, start);
            let a = k.add(Type::U64, start, descriptor(0));
            let b = k.add(Type::U64, start, descriptor(2048));
            let d = k.regs(RegType::F32, 8);
            d.iter().for_each(|d| k.mov_to(*d, 0.0));
            k.wgmma_fence();
            k.wgmma(&first, &d[..4], &[a], b, ScaleD::One);
            if fences {
                k.wgmma_fence();
            }
            let wide = second.mnk()[1] == 16;
            k.wgmma(
                &second,
                if wide { &d } else { &d[..4] },
                &[a],
                b,
                ScaleD::One,
            );
            k.wgmma_commit();
            k.wgmma_wait(0);
        }
    };
    let launch = Launch::new(1, 128).dynamic_shared(4096);
    let (same, other) = ("SM90_64x8x16_F32F16F16_SS", "SM90_64x16x16_F32F16F16_SS");
    for (second, fences) in [(same, false), (same, true), (other, true)] {
        let mut k = kernel("products");
        let data = k.pointer("data");
        let data = k.param(data);
        build(second, fences)(&mut k, data);
        let mut host = Host::default();
        host.empty(256);
        host.run(&k.finish(), launch).unwrap();
    }
    let found = fault(build(other, false), launch);
    assert_eq!(found.kind(), FaultKind::InFlight);
    assert!(found.what().ends_with(
        "which is in flight and has the shape m64n8k16: between products of two shapes, `wgmma.fence` is missing"
    ), "{found}");
}
