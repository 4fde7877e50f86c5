//! The order in which things happen never changes the result of a kernel that is right.

use colex_atom::copy;
use colex_ir::launch::Launch;
use colex_ir::{
    Address, BinaryOp, Compare, CopyArgs, End, FenceKind, Kernel, Reg, RegType, Special, Type,
};
use colex_sim::SimOptions;

use super::helpers::*;

const CHUNK: i64 = 512;
const STAGES: i64 = 3;
const CHUNKS: i64 = 10;

/// A producer warp loads chunks into a ring of three stages, four consumer warps add them up, with a barrier each way.
fn ring() -> Kernel {
    let mut k = kernel("ring");
    let [input, output] = ["input", "output"].map(|name| k.pointer(name));
    let tile = k.shared("tile", (STAGES * CHUNK) as u32, 128);
    let full = k.shared("full", 8 * STAGES as u32, 8);
    let empty = k.shared("empty", 8 * STAGES as u32, 8);
    let thread = k.mov(Type::U32, Special::Tid(0));
    let first = k.setp(Compare::Eq, Type::U32, thread, 0);
    k.if_(first, |k| {
        for stage in 0..STAGES {
            k.mbarrier_init(Address::from(full).at(8 * stage), 1);
            k.mbarrier_init(Address::from(empty).at(8 * stage), 4);
        }
        k.fence(FenceKind::MbarrierInit);
    });
    k.sync();
    let [full, empty, tile] = [full, empty, tile].map(|variable| k.address_of(variable));
    let warp = k.shr(Type::U32, thread, 5);
    let produces = k.setp(Compare::Eq, Type::U32, warp, 4);
    let lane = k.mov(Type::U32, Special::LaneId);
    let leads = k.setp(Compare::Eq, Type::U32, lane, 0);
    let stage = k.mov(Type::U32, 0);
    let phase = k.mov(Type::U32, 0);
    let next = |k: &mut colex_ir::KernelBuilder| {
        k.binary_to(BinaryOp::Add, Type::U32, stage, stage, 1);
        let wraps = k.setp(Compare::Eq, Type::U32, stage, STAGES);
        k.when(wraps, |k| {
            k.mov_to(stage, 0);
            k.binary_to(BinaryOp::Xor, Type::B32, phase, phase, 1);
        });
    };
    let of_stage = |k: &mut colex_ir::KernelBuilder, base: Reg, bytes: i64| {
        k.mad(Type::U32, stage, bytes, base)
    };
    let bulk = copy("SM90_BULK_COPY_G2S").unwrap();
    let (input, output) = (k.param(input), k.param(output));
    k.if_else(
        produces,
        |k| {
            k.for_range(0, CHUNKS, 1, |k, chunk| {
                let (full, empty) = (of_stage(k, full, 8), of_stage(k, empty, 8));
                let other = k.xor(Type::B32, phase, 1);
                k.mbarrier_wait(empty, other);
                k.if_(leads, |k| {
                    k.mbarrier_arrive_expect(full, CHUNK);
                    let offset = k.mul_wide(Type::U32, chunk, CHUNK);
                    let from = k.add(Type::U64, input, offset);
                    let to = of_stage(k, tile, CHUNK);
                    k.copy_atom(
                        &bulk,
                        CopyArgs {
                            dst: End::Memory(to.into()),
                            src: End::Memory(from.into()),
                            barrier: Some(full.into()),
                            size: Some(CHUNK.into()),
                            ..CopyArgs::default()
                        },
                    );
                });
                next(k);
            });
        },
        |k| {
            let sum = k.reg(RegType::B32);
            k.mov_to(sum, 0);
            k.for_range(0, CHUNKS, 1, |k, _| {
                let (full, empty) = (of_stage(k, full, 8), of_stage(k, empty, 8));
                k.mbarrier_wait(full, phase);
                let at = of_stage(k, tile, CHUNK);
                let at = k.mad(Type::U32, thread, 4, at);
                let x = k.load(shared(Type::U32), at);
                k.binary_to(BinaryOp::Add, Type::U32, sum, sum, x);
                k.if_(leads, |k| k.mbarrier_arrive(empty));
                next(k);
            });
            let offset = k.mul_wide(Type::U32, thread, 4);
            let to = k.add(Type::U64, output, offset);
            k.store(global(Type::U32), to, sum);
        },
    );
    k.finish()
}

#[test]
fn a_ring_of_stages_gives_the_same_in_every_order() {
    let kernel = ring();
    let words: Vec<u32> = (0..CHUNKS as u32 * 128).map(|i| i * i).collect();
    let sums: Vec<u32> = (0..128)
        .map(|thread| {
            (0..CHUNKS as usize)
                .map(|chunk| words[128 * chunk + thread])
                .sum()
        })
        .collect();
    for seed in 0..64 {
        let mut host = Host::default();
        host.words(&words);
        let out = host.empty(512);
        let options = SimOptions::default().seed(seed);
        host.run_with(&kernel, Launch::new(1, 160), &options)
            .unwrap_or_else(|fault| panic!("seed {seed}: {fault}"));
        assert_eq!(host.read(out, 128), sums, "seed {seed}");
    }
    println!("law sim.order_of_events: 64 cases");
}
