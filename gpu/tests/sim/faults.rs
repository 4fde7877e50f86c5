//! A planted mistake for every sentence of the simulator.

use colex_atom::copy;
use colex_gpu::Launch;
use colex_gpu::ir::{
    Access, Address, Base, Compare, CopyArgs, End, FenceKind, Kernel, KernelBuilder, Op, Reg,
    RegType, ScaleD, Space, Special, Type,
};
use colex_gpu::sim::{Fault, FaultKind, SimOptions};

use super::helpers::*;

/// The fault of a kernel with one buffer `data` of 64 words, of which the first 32 are written.
fn fault(build: impl FnOnce(&mut KernelBuilder, Reg), launch: Launch) -> Fault {
    let mut k = kernel("planted");
    let data = k.pointer("data");
    let data = k.param(data);
    build(&mut k, data);
    let kernel = k.finish();
    let first = run(&kernel, launch, 0);
    for seed in 1..6 {
        assert_eq!(
            run(&kernel, launch, seed).kind(),
            first.kind(),
            "seed {seed}"
        );
    }
    first
}

fn run(kernel: &Kernel, launch: Launch, seed: u64) -> Fault {
    let mut host = Host::default();
    let at = host.empty(256);
    host.memory.write(at, &[1; 128]).unwrap();
    let result = host.run_with(kernel, launch, &SimOptions::default().seed(seed));
    result.expect_err("a mistake was planted")
}

/// The sentence, without the path and line of this file.
#[track_caller]
fn says(fault: &Fault, kind: FaultKind, sentence: &str) {
    let text = fault.to_string();
    let mut plain = String::new();
    let mut rest = &text[..];
    while let Some((before, after)) = rest.split_once("gpu/tests/sim/faults.rs:") {
        plain += before;
        plain += "here";
        rest = after.trim_start_matches(|c: char| c.is_ascii_digit());
    }
    plain += rest;
    assert_eq!(fault.kind(), kind, "{plain}");
    assert_eq!(plain, sentence);
}

/// The address of the thread's word.
fn word(k: &mut KernelBuilder, base: Reg) -> Reg {
    let thread = k.mov(Type::U32, Special::Tid(0));
    let offset = k.mul_wide(Type::U32, thread, 4);
    k.add(Type::S64, base, offset)
}

/// The shared address of the thread's word in a variable.
fn shared_word(k: &mut KernelBuilder, tile: colex_gpu::ir::SharedId) -> Reg {
    let thread = k.mov(Type::U32, Special::Tid(0));
    let base = k.address_of(tile);
    k.mad(Type::U32, thread, 4, base)
}

fn first_thread(k: &mut KernelBuilder) -> Reg {
    let thread = k.mov(Type::U32, Special::Tid(0));
    k.setp(Compare::Eq, Type::U32, thread, 0)
}

#[test]
fn the_place_is_the_call_that_built_the_instruction() {
    let mut line = 0;
    let found = fault(
        |k, data| {
            line = line!() + 1;
            k.store(global(Type::U32), Address::from(data).at(256), 0);
        },
        Launch::new([2, 1, 1], 64),
    );
    let place = found.place().unwrap();
    assert_eq!((place.at.line(), place.at.file()), (line, file!()));
    assert_eq!((place.block, place.thread), ([0, 0, 0], [0, 0, 0]));
}

#[test]
fn out_of_bounds() {
    let beyond = fault(
        |k, data| {
            let at = word(k, data);
            k.store(global(Type::U32), at, 7);
        },
        Launch::new(1, 96),
    );
    says(
        &beyond,
        FaultKind::OutOfBounds,
        "thread (64,0,0) of block (0,0,0), at `st.global.u32 [%rd2], 7` (here): 4 bytes at byte 256 of `data`, which has 256 bytes",
    );
    let in_shared = fault(
        |k, _| {
            let tile = k.shared("tile", 64, 4);
            let at = shared_word(k, tile);
            k.store(shared(Type::U32), at, 7);
        },
        Launch::new(1, 32),
    );
    says(
        &in_shared,
        FaultKind::OutOfBounds,
        "thread (16,0,0) of block (0,0,0), at `st.shared.u32 [%r2], 7` (here): 4 bytes at byte 64 of the block's shared memory, which has 64 bytes; the nearest below is `tile`, 64 bytes at byte 0",
    );
}

#[test]
fn misaligned() {
    let odd = fault(
        |k, data| {
            let at = word(k, data);
            k.load_vector(global(Type::B32), 4, at);
        },
        Launch::new(1, 8),
    );
    says(
        &odd,
        FaultKind::Misaligned,
        "thread (1,0,0) of block (0,0,0), at `%r1, %r2, %r3, %r4 = ld.global.v4.b32 [%rd2]` (here): the address 0x700000004 is not a multiple of 16, as this access of 16 bytes wants",
    );
}

#[test]
fn uninitialised() {
    let in_global = fault(
        |k, data| {
            let at = word(k, data);
            k.load(global(Type::U32), at);
        },
        Launch::new(1, 64),
    );
    says(
        &in_global,
        FaultKind::Uninitialised,
        "thread (32,0,0) of block (0,0,0), at `%r1 = ld.global.u32 [%rd2]` (here): byte 128 of `data` is read but was never written",
    );
    let in_shared = fault(
        |k, _| {
            let tile = k.shared("tile", 128, 4);
            let at = shared_word(k, tile);
            k.load(shared(Type::U32), at);
        },
        Launch::new(1, 32),
    );
    says(
        &in_shared,
        FaultKind::Uninitialised,
        "thread (0,0,0) of block (0,0,0), at `%r3 = ld.shared.u32 [%r2]` (here): byte 0 of `tile` is read but was never written",
    );
    let in_register = fault(
        |k, _| {
            let lane = k.mov(Type::U32, Special::LaneId);
            let sum = k.reg(RegType::B32);
            let low = k.setp(Compare::Lt, Type::U32, lane, 16);
            k.when(low, |k| k.mov_to(sum, 0));
            k.add(Type::U32, sum, 1);
        },
        Launch::new(1, 32),
    );
    says(
        &in_register,
        FaultKind::Uninitialised,
        "thread (16,0,0) of block (0,0,0), at `%r2 = add.u32 %r1, 1` (here): register %r1 is read but was never written",
    );
}

#[test]
fn a_barrier_is_missing() {
    let race = fault(
        |k, _| {
            let tile = k.shared("tile", 256, 256);
            let at = shared_word(k, tile);
            k.store(shared(Type::U32), at, 0);
            k.sync();
            k.store(shared(Type::U32), at, 1);
            // The words of the other warp.
            let other = k.xor(Type::B32, at, 128);
            k.load(shared(Type::U32), other);
        },
        Launch::new(1, 64),
    );
    assert_eq!(race.kind(), FaultKind::Race);
    let overwritten = fault(
        |k, _| {
            let tile = k.shared("tile", 256, 128);
            let at = shared_word(k, tile);
            k.store(shared(Type::U32), at, 1);
            k.sync();
            let base = k.address_of(tile);
            k.load(shared(Type::U32), base);
            let one = k.setp(Compare::Eq, Type::U32, at, base);
            k.when(one, |k| k.store(shared(Type::U32), tile, 2));
        },
        Launch::new(1, 64),
    );
    assert_eq!(overwritten.kind(), FaultKind::Race);
    says(
        &race,
        FaultKind::Race,
        "thread (32,0,0) of block (0,0,0), at `st.shared.u32 [%r2], 1` (here): this writes byte 128 of `tile`, and `%r4 = ld.shared.u32 [%r3]` of warp 0 (here) reads it, and nothing orders the two: a barrier between them is missing",
    );
    says(
        &overwritten,
        FaultKind::Race,
        "thread (32,0,0) of block (0,0,0), at `%r4 = ld.shared.u32 [%r3]` (here): this reads byte 0 of `tile`, and `st.shared.u32 [tile], 2` of warp 0 (here) writes it, and nothing orders the two: a barrier between them is missing",
    );
}

/// A bulk copy of 128 bytes from a tile to `data`, by the first thread.
fn bulk_out(k: &mut KernelBuilder, tile: colex_gpu::ir::SharedId, data: Reg) {
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
        "thread (0,0,0) of block (0,0,0), at `copy SM90_BULK_COPY_G2S [tile] <- [%rd0], barrier [bar], bytes 128` (here): the barrier at byte 0 of `bar` is used from outside of its block's generic proxy, and no `fence.mbarrier_init` follows its initialisation",
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
        "the warp of thread (0,0,0) of block (0,0,0), at `%f4 = add.f32 %f0, 1.0` (here): register %f0 is read while a `wgmma` holds it: `wgmma.wait_group` must come first",
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
        "the warp of thread (0,0,0) of block (0,0,0), at `mbarrier.wait [bar], 0` (here): nobody can go on: warp 0, warp 1 for parity 0 of the barrier at byte 0 of `bar`, in whose phase 0 1 of 1 arrivals have come and 128 bytes are missing",
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
        "the warp of thread (0,0,0) of block (0,0,0), at `barrier.sync 1, 128` (here): nobody can go on: warp 0, warp 1 for barrier 1, at which 64 of 128 threads have arrived; warp 2 for barrier 0, at which 32 of 96 threads have arrived",
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
        "the warp of thread (0,0,0) of block (0,0,0), at `break` (here): nobody can go on: warp 0 for parity 0 of the barrier at byte 0 of `bar`, in whose phase 0 0 of 1 arrivals have come",
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
            // Both blocks arrive at the barrier of block 0, and nobody waits for that.
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
        "the warp of thread (0,0,0) of block (0,0,0), at `exit` (here): the block ends without having waited for `copy SM90_BULK_COPY_S2G [%rd0] <- [tile], bytes 128` (here), which uses its shared memory",
    );
    says(
        &peers,
        FaultKind::EarlyExit,
        "thread (0,0,0) of block (1,0,0), at `mbarrier.arrive.cluster [%r2]` (here): block 0 of the cluster has ended, and its shared memory with it: it must wait for those who still use it",
    );
}

#[test]
fn threads_diverge_at_what_they_do_together() {
    let barrier = fault(
        |k, _| {
            let lane = k.mov(Type::U32, Special::LaneId);
            let low = k.setp(Compare::Lt, Type::U32, lane, 16);
            k.if_(low, |k| k.sync());
        },
        Launch::new(1, 32),
    );
    says(
        &barrier,
        FaultKind::Divergence,
        "the warp of thread (0,0,0) of block (0,0,0), at `barrier.sync 0` (here): all threads of a warp execute this together, but 16 of them do not, the first of them thread (16,0,0)",
    );
    let shuffle = fault(
        |k, _| {
            let lane = k.mov(Type::U32, Special::LaneId);
            let low = k.setp(Compare::Lt, Type::U32, lane, 16);
            k.if_(low, |k| {
                k.shuffle(colex_gpu::ir::ShuffleMode::Bfly, lane, 16);
            });
        },
        Launch::new(1, 32),
    );
    says(
        &shuffle,
        FaultKind::Divergence,
        "the warp of thread (0,0,0) of block (0,0,0), at `%r1 = shfl.bfly %r0, 16, 31, 4294967295` (here): its mask 0xffffffff names lane 16, which does not execute it",
    );
}

#[test]
fn a_trap_and_an_endless_loop() {
    let trap = fault(|k, _| k.push(Op::Trap), Launch::new(1, 1));
    says(
        &trap,
        FaultKind::Trap,
        "the warp of thread (0,0,0) of block (0,0,0), at `trap` (here): the kernel traps",
    );
    let mut k = kernel("endless");
    k.loop_(|k| {
        k.mov(Type::U32, 1);
    });
    let mut host = Host::default();
    let options = SimOptions {
        max_steps: 1000,
        ..SimOptions::default()
    };
    let endless = host
        .run_with(&k.finish(), Launch::new(1, 1), &options)
        .unwrap_err();
    says(
        &endless,
        FaultKind::Limit,
        "the warp of thread (0,0,0) of block (0,0,0), at `%r0 = mov 1` (here): the warp has executed 1000 instructions, as many as the options allow: does it wait for something that never happens?",
    );
}
