//! A planted mistake for every sentence about copies, products and barriers that complete later.

use colex_atom::copy;
use colex_ir::launch::Launch;
use colex_ir::{
    Access, Address, Base, Compare, CopyArgs, End, FenceKind, KernelBuilder, Reg, RegType, ScaleD,
    Space, Special, Type,
};
use colex_sim::{Fault, FaultKind};

use super::{fault, first_thread, says, shared_word};
use crate::helpers::*;

/// A bulk copy of 128 bytes from a tile to `data`, by the first thread.
fn bulk_out(k: &mut KernelBuilder, tile: colex_ir::SharedId, data: Reg) {
    let atom = copy("SM90_BULK_COPY_S2G").unwrap();
    k.copy_atom(
        &atom,
        CopyArgs {
            dst: End::Memory(data.into()),
            src: End::Memory(tile.into()),
            size: Some(128.into()),
            ..CopyArgs::default()
        },
    );
    k.bulk_commit();
}

#[test]
fn a_fence_between_the_proxies_is_missing() {
    let unfenced = fault(
        |k, data| {
            let tile = k.shared("tile", 128, 128);
            let at = shared_word(k, tile);
            k.store(shared(Type::U32), at, 1);
            k.sync();
            let first = first_thread(k);
            k.if_(first, |k| {
                bulk_out(k, tile, data);
                k.bulk_wait(0, false);
            });
        },
        Launch::new(1, 32),
    );
    says(
        &unfenced,
        FaultKind::MissingFence,
        "thread (0,0,0) of block (0,0,0), at `copy SM90_BULK_COPY_S2G [%rd0] <- [tile], bytes 128` (here): this reads byte 0 of `tile` through the asynchronous proxy, and `st.shared.u32 [%r2], 1` of warp 0 (here) writes it through the generic one: `fence.proxy.async` is missing after the write",
    );
    let barrier = fault(
        |k, data| {
            let tile = k.shared("tile", 128, 128);
            let bar = k.shared("bar", 8, 8);
            let first = first_thread(k);
            k.if_(first, |k| {
                k.mbarrier_init(bar, 1);
                k.mbarrier_arrive_expect(bar, 128);
                k.copy_atom(
                    &copy("SM90_BULK_COPY_G2S").unwrap(),
                    CopyArgs {
                        dst: End::Memory(tile.into()),
                        src: End::Memory(data.into()),
                        barrier: Some(bar.into()),
                        size: Some(128.into()),
                        ..CopyArgs::default()
                    },
                );
                k.mbarrier_wait(bar, 0);
            });
        },
        Launch::new(1, 32),
    );
    says(
        &barrier,
        FaultKind::MissingFence,
        "thread (0,0,0) of block (0,0,0), at `copy SM90_BULK_COPY_G2S [tile] <- [%rd0], barrier [bar], bytes 128` (here): the barrier at byte 0 of `bar` is used from outside of its block's generic proxy, and neither `fence.mbarrier_init` nor `fence.proxy.async` follows its initialisation",
    );
}

#[test]
fn the_source_of_a_copy_is_overwritten() {
    let early = fault(
        |k, data| {
            let tile = k.shared("tile", 128, 128);
            let at = shared_word(k, tile);
            k.store(shared(Type::U32), at, 1);
            k.fence(FenceKind::ProxyAsyncShared);
            k.sync();
            let first = first_thread(k);
            k.if_(first, |k| bulk_out(k, tile, data));
            k.sync();
            k.store(shared(Type::U32), at, 2);
            k.if_(first, |k| k.bulk_wait(0, true));
        },
        Launch::new(1, 32),
    );
    assert_eq!(early.kind(), FaultKind::Race);
}

/// A warpgroup that multiplies two tiles of zeros, with a mistake.
fn product(fence: bool, between: impl FnOnce(&mut KernelBuilder, &[Reg])) -> Fault {
    fault(
        |k, _| {
            let atom = colex_atom::mma("SM90_64x8x16_F32F16F16_SS").unwrap();
            k.dynamic_shared(1024);
            let base = k.address_of(Base::DynamicShared);
            let thread = k.mov(Type::U32, Special::Tid(0));
            let at = k.mad(Type::U32, thread, 4, base);
            for i in 0..8 {
                k.store(
                    Access::new(Space::Shared, Type::U32),
                    Address::from(at).at(512 * i),
                    0,
                );
            }
            k.fence(FenceKind::ProxyAsyncShared);
            k.sync();
            let descriptor = |start: i64| {
                let d = colex_atom::GmmaDescriptor {
                    start,
                    leading: 128,
                    stride: 256,
                    ..Default::default()
                };
                d.encode().unwrap() as i64
            };
            let start = k.shr(Type::U32, base, 4);
            let start = k.cvt(Type::U64, Type::U32, start);
            let a = k.add(Type::U64, start, descriptor(0));
            let b = k.add(Type::U64, start, descriptor(2048));
            let d = k.regs(RegType::F32, 4);
            d.iter().for_each(|d| k.mov_to(*d, 0.0));
            if fence {
                k.wgmma_fence();
            }
            k.wgmma(&atom, &d, &[a], b, ScaleD::One);
            k.wgmma_commit();
            between(k, &d);
        },
        Launch::new(1, 128).dynamic_shared(4096),
    )
}

#[test]
fn registers_of_a_product_are_touched() {
    let early = product(true, |k, d| {
        k.add(Type::F32, d[0], 1.0);
        k.wgmma_wait(0);
    });
    says(
        &early,
        FaultKind::InFlight,
        "the warp of thread (0,0,0) of block (0,0,0), at `%f4 = add.f32 %f0, 1.0` (here): register %f0 is read while `{%f0..%f3} = mma SM90_64x8x16_F32F16F16_SS %rd2 * %rd3 + {%f0..%f3}` (here) holds it: `wgmma.wait_group` must come first",
    );
    let unfenced = product(false, |k, _| k.wgmma_wait(0));
    says(
        &unfenced,
        FaultKind::InFlight,
        "the warp of thread (0,0,0) of block (0,0,0), at `{%f0..%f3} = mma SM90_64x8x16_F32F16F16_SS %rd2 * %rd3 + {%f0..%f3}` (here): no `wgmma.fence` precedes the first product",
    );
    let again = product(true, |k, d| {
        k.wgmma_wait(0);
        k.mov_to(d[1], 0.0);
        let atom = colex_atom::mma("SM90_64x8x16_F32F16F16_SS").unwrap();
        let zero = k.mov(Type::U64, 0x40_i64);
        k.wgmma(&atom, d, &[zero], zero, ScaleD::One);
    });
    says(
        &again,
        FaultKind::InFlight,
        "the warp of thread (32,0,0) of block (0,0,0), at `{%f0..%f3} = mma SM90_64x8x16_F32F16F16_SS %rd4 * %rd4 + {%f0..%f3}` (here): register %f1 was written since the last `wgmma.fence`: one is missing before this product",
    );
}

#[test]
fn a_barrier_never_completes() {
    let bytes = fault(
        |k, data| {
            let tile = k.shared("tile", 128, 128);
            let bar = k.shared("bar", 8, 8);
            let first = first_thread(k);
            k.if_(first, |k| {
                k.mbarrier_init(bar, 1);
                k.fence(FenceKind::MbarrierInit);
                // Twice as many as will come.
                k.mbarrier_arrive_expect(bar, 256);
                k.copy_atom(
                    &copy("SM90_BULK_COPY_G2S").unwrap(),
                    CopyArgs {
                        dst: End::Memory(tile.into()),
                        src: End::Memory(data.into()),
                        barrier: Some(bar.into()),
                        size: Some(128.into()),
                        ..CopyArgs::default()
                    },
                );
            });
            k.sync();
            k.mbarrier_wait(bar, 0);
        },
        Launch::new(1, 64),
    );
    says(
        &bytes,
        FaultKind::Deadlock,
        "the warp of thread (0,0,0) of block (0,0,0), at `mbarrier.wait [bar], 0` (here): no warp can continue: warp 0, warp 1 for parity 0 of the barrier at byte 0 of `bar`, whose phase 0 has 1 of 1 arrivals and lacks 128 bytes",
    );
    let warps = fault(
        |k, _| {
            let warp = k.mov(Type::U32, Special::Tid(0));
            let warp = k.shr(Type::U32, warp, 5);
            let low = k.setp(Compare::Lt, Type::U32, warp, 2);
            k.if_else(low, |k| k.named_sync(1, 128), |k| k.sync());
        },
        Launch::new(1, 96),
    );
    says(
        &warps,
        FaultKind::Deadlock,
        "the warp of thread (0,0,0) of block (0,0,0), at `barrier.sync 1, 128` (here): no warp can continue: warp 0, warp 1 for barrier 1, at which 64 of 128 threads have arrived; warp 2 for barrier 0, at which 32 of 96 threads have arrived",
    );
    let spinning = fault(
        |k, _| {
            let bar = k.shared("bar", 8, 8);
            k.mbarrier_init(bar, 1);
            k.loop_(|k| {
                let done = k.mbarrier_try(bar, 0);
                k.break_if(done);
            });
        },
        Launch::new(1, 1),
    );
    says(
        &spinning,
        FaultKind::Deadlock,
        "the warp of thread (0,0,0) of block (0,0,0), at `break` (here): no warp can continue: warp 0 for parity 0 of the barrier at byte 0 of `bar`, whose phase 0 has 0 of 1 arrivals",
    );
}

#[test]
fn a_block_ends_too_early() {
    let peers = fault(
        |k, _| {
            let bar = k.shared("bar", 8, 8);
            let first = first_thread(k);
            k.if_(first, |k| {
                k.mbarrier_init(bar, 2);
                k.fence(FenceKind::MbarrierInit);
            });
            k.cluster_sync();
            // Both blocks arrive at the barrier of block 0, and no thread waits for that.
            k.if_(first, |k| {
                let own = k.address_of(bar);
                let far = k.mapa(own, 0);
                k.mbarrier_arrive_cluster(far);
            });
        },
        Launch::new(2, 32).cluster(2),
    );
    assert_eq!(peers.kind(), FaultKind::EarlyExit);
    let engine = fault(
        |k, data| {
            let tile = k.shared("tile", 128, 128);
            let at = shared_word(k, tile);
            k.store(shared(Type::U32), at, 1);
            k.fence(FenceKind::ProxyAsyncShared);
            k.sync();
            let first = first_thread(k);
            k.if_(first, |k| bulk_out(k, tile, data));
        },
        Launch::new(1, 32),
    );
    assert_eq!(engine.kind(), FaultKind::EarlyExit);
    says(
        &engine,
        FaultKind::EarlyExit,
        "the warp of thread (0,0,0) of block (0,0,0), at `exit` (here): the block ends without having waited for `copy SM90_BULK_COPY_S2G [%rd0] <- [tile], bytes 128` (here), which uses byte 0 of `tile`",
    );
    says(
        &peers,
        FaultKind::EarlyExit,
        "thread (0,0,0) of block (1,0,0), at `mbarrier.arrive.cluster [%r2]` (here): byte 0 of `bar` is in block 0 of the cluster, which has ended, and its shared memory with it: it must wait for the threads that still use it",
    );
}
