//! The simulator as a debugger: kernels with one mistake each, and what the simulator says of them.
//!
//! Run it with `cargo run -p colex-book --example kernel_simulator`; each line `== .. ==` names a piece of the chapter.

use std::error::Error;

use colex_atom::{Arch, GmmaDescriptor, copy, mma};
use colex_gpu::ir::*;
use colex_gpu::sim::{Fault, FaultKind, Memory, Report, SimOptions, simulate};
use colex_gpu::{Argument, Launch};

fn main() -> Result<(), Box<dyn Error>> {
    beyond_the_end();
    not_a_multiple();
    never_written();
    copy_under_way();
    missing_barrier();
    two_lanes();
    two_blocks();
    same_value()?;
    missing_fence()?;
    early_end()?;
    accumulator()?;
    never_completes()?;
    named_barriers();
    peer_that_ended();
    part_of_a_warp();
    what_it_counts()?;
    far_arrival();
    exercises()?;
    Ok(())
}

// ANCHOR: harness
const GLOBAL: Access = Access {
    space: Space::Global,
    ty: Type::U32,
    cache: Cache::Default,
    order: Order::Weak,
    policy: None,
};
const SHARED: Access = Access {
    space: Space::Shared,
    ..GLOBAL
};

/// Builds the kernel that `build` writes and runs it on the simulator.
///
/// Its one parameter, `data`, points to 64 words, of which the first 32 are written.
fn run(build: impl FnOnce(&mut KernelBuilder, Reg), launch: Launch) -> Result<Report, Fault> {
    let mut k = KernelBuilder::new("planted", Arch::Sm90a);
    let data = k.pointer("data");
    let data = k.param(data);
    build(&mut k, data);

    let mut memory = Memory::default();
    let at = memory.allocate(256).expect("the host has room");
    memory.write(at, &[1; 128]).expect("it is allocated");
    let arguments = [Argument::Pointer(at)];
    simulate(
        &k.finish(),
        &launch,
        &arguments,
        &mut memory,
        &SimOptions::default(),
    )
}

/// Runs a kernel in which a mistake was planted, and returns what the simulator says of it.
fn fault(build: impl FnOnce(&mut KernelBuilder, Reg), launch: Launch) -> Fault {
    run(build, launch).expect_err("a mistake was planted")
}
// ANCHOR_END: harness

/// Stores one word per thread, and has more threads than words.
fn beyond_the_end() {
    println!("\n== beyond_the_end ==");
    // ANCHOR: beyond_the_end
    let found = fault(
        |k, data| {
            let thread = k.mov(Type::U32, Special::Tid(0));
            let offset = k.mul_wide(Type::U32, thread, 4);
            let at = k.add(Type::S64, data, offset);
            k.store(GLOBAL, at, 7);
        },
        Launch::new(1, 96),
    );
    println!("{:?}: {}", found.kind(), found.what());
    let place = found.place().expect("a thread did it");
    println!("{place}");
    // ANCHOR_END: beyond_the_end
}

/// Loads four words at addresses that are no multiples of 16.
fn not_a_multiple() {
    println!("\n== not_a_multiple ==");
    // ANCHOR: not_a_multiple
    let found = fault(
        |k, data| {
            let thread = k.mov(Type::U32, Special::Tid(0));
            let offset = k.mul_wide(Type::U32, thread, 4);
            let at = k.add(Type::S64, data, offset);
            k.load_vector(GLOBAL, 4, at);
        },
        Launch::new(1, 8),
    );
    println!("{:?}: {}", found.kind(), found.what());
    // ANCHOR_END: not_a_multiple
}

/// Reads a register that only half of the lanes have written.
fn never_written() {
    println!("\n== never_written ==");
    // ANCHOR: never_written
    let found = fault(
        |k, _| {
            let lane = k.mov(Type::U32, Special::LaneId);
            let sum = k.reg(RegType::B32);
            let low = k.setp(Compare::Lt, Type::U32, lane, 16);
            k.when(low, |k| k.mov_to(sum, 0));
            k.add(Type::U32, sum, 1);
        },
        Launch::new(1, 32),
    );
    println!("{:?}: {}", found.kind(), found.what());
    println!("{}", found.place().expect("a thread did it"));
    // ANCHOR_END: never_written
}

/// Reads shared memory before the copy into it is known to be complete.
fn copy_under_way() {
    println!("\n== copy_under_way ==");
    // ANCHOR: copy_under_way
    let found = fault(
        |k, data| {
            let tile = k.shared("tile", 128, 128);
            let base = k.address_of(tile);
            let thread = k.mov(Type::U32, Special::Tid(0));
            let mine = k.mad(Type::U32, thread, 4, base);
            let offset = k.mul_wide(Type::U32, thread, 4);
            let from = k.add(Type::S64, data, offset);
            let args = CopyArgs {
                dst: End::Memory(mine.into()),
                src: End::Memory(from.into()),
                ..CopyArgs::default()
            };
            k.copy_atom(
                &copy("SM80_CP_ASYNC_CACHEALWAYS<uint32_t>").expect("a row"),
                args,
            );
            k.cp_async_commit();
            // Here a `k.cp_async_wait(0)` is missing.
            k.load(SHARED, mine);
        },
        Launch::new(1, 32),
    );
    println!("{:?}: {}", found.kind(), found.what());
    // ANCHOR_END: copy_under_way
}

/// Two warps write their halves of a tile, and each reads the other's half.
fn missing_barrier() {
    println!("\n== missing_barrier ==");
    // ANCHOR: missing_barrier
    let found = fault(
        |k, _| {
            let tile = k.shared("tile", 256, 256);
            let base = k.address_of(tile);
            let thread = k.mov(Type::U32, Special::Tid(0));
            let mine = k.mad(Type::U32, thread, 4, base);
            k.store(SHARED, mine, 0);
            k.sync();
            k.store(SHARED, mine, thread);
            // Here a `k.sync()` is missing.
            let theirs = k.xor(Type::B32, mine, 128);
            k.load(SHARED, theirs);
        },
        Launch::new(1, 64),
    );
    println!("{:?}: {}", found.kind(), found.what());
    println!("{}", found.place().expect("a thread did it"));
    // ANCHOR_END: missing_barrier
}

/// Lanes of one warp exchange words with nothing between the store and the load.
fn two_lanes() {
    println!("\n== two_lanes ==");
    // ANCHOR: two_lanes
    let reversed = |met: bool| {
        move |k: &mut KernelBuilder, _: Reg| {
            let tile = k.shared("tile", 128, 128);
            let base = k.address_of(tile);
            let thread = k.mov(Type::U32, Special::Tid(0));
            let mine = k.mad(Type::U32, thread, 4, base);
            k.store(SHARED, mine, thread);
            if met {
                k.warp_sync();
            }
            let theirs = k.xor(Type::B32, mine, 124); // 124 = 31 * 4: lane t reads lane 31 - t
            k.load(SHARED, theirs);
        }
    };
    let found = fault(reversed(false), Launch::new(1, 32));
    println!("{:?}: {}", found.kind(), found.what());
    assert!(run(reversed(true), Launch::new(1, 32)).is_ok());
    // ANCHOR_END: two_lanes
}

/// One block writes a word and a flag, the other waits for the flag and reads the word.
fn two_blocks() {
    println!("\n== two_blocks ==");
    // ANCHOR: two_blocks
    let letter = |raise: Order, look: Order| {
        move |k: &mut KernelBuilder, data: Reg| {
            let block = k.mov(Type::U32, Special::Ctaid(0));
            let first = k.setp(Compare::Eq, Type::U32, block, 0);
            let flag = Address::from(data).at(4);
            k.if_else(
                first,
                |k| {
                    k.store(GLOBAL, data, 7);
                    k.store(GLOBAL.order(raise), flag, 2);
                },
                |k| {
                    k.loop_(|k| {
                        let x = k.load(GLOBAL.order(look), flag);
                        let set = k.setp(Compare::Eq, Type::U32, x, 2);
                        k.break_if(set);
                    });
                    k.load(GLOBAL, data);
                },
            );
        }
    };
    let relaxed = Order::Relaxed(Scope::Gpu);
    let found = fault(letter(relaxed, relaxed), Launch::new(2, 1));
    println!("{:?}: {}", found.kind(), found.what());
    let ordered = letter(Order::Release(Scope::Gpu), Order::Acquire(Scope::Gpu));
    assert!(run(ordered, Launch::new(2, 1)).is_ok());
    // Within one block that would do; the other block is out of its reach.
    let near = letter(Order::Release(Scope::Cta), Order::Acquire(Scope::Cta));
    assert_eq!(fault(near, Launch::new(2, 1)).kind(), FaultKind::Race);
    // ANCHOR_END: two_blocks
}

/// Two blocks store the same value in one place, and then different ones.
fn same_value() -> Result<(), Box<dyn Error>> {
    println!("\n== same_value ==");
    // ANCHOR: same_value
    let report = run(|k, data| k.store(GLOBAL, data, 5), Launch::new(40, 32))?;
    for warning in &report.warnings {
        println!("warning: {}", warning.what);
    }
    let block = |k: &mut KernelBuilder, data: Reg| {
        let block = k.mov(Type::U32, Special::Ctaid(0));
        k.store(GLOBAL, data, block);
    };
    println!("fault: {}", fault(block, Launch::new(2, 1)).what());
    // ANCHOR_END: same_value
    Ok(())
}

/// Copies a tile with the asynchronous proxy that the generic proxy has written.
fn missing_fence() -> Result<(), Box<dyn Error>> {
    println!("\n== missing_fence ==");
    // ANCHOR: missing_fence
    let bulk = copy("SM90_BULK_COPY_S2G")?;
    let found = fault(
        |k, data| {
            let tile = k.shared("tile", 128, 128);
            let base = k.address_of(tile);
            let thread = k.mov(Type::U32, Special::Tid(0));
            let mine = k.mad(Type::U32, thread, 4, base);
            k.store(SHARED, mine, thread);
            // Here a `k.fence(FenceKind::ProxyAsyncShared)` is missing.
            k.sync();
            let first = k.setp(Compare::Eq, Type::U32, thread, 0);
            k.if_(first, |k| {
                let args = CopyArgs {
                    dst: End::Memory(data.into()),
                    src: End::Memory(tile.into()),
                    size: Some(128.into()),
                    ..CopyArgs::default()
                };
                k.copy_atom(&bulk, args);
                k.bulk_commit();
                k.bulk_wait(0, false);
            });
        },
        Launch::new(1, 32),
    );
    println!("{:?}: {}", found.kind(), found.what());
    // ANCHOR_END: missing_fence
    Ok(())
}

/// Ends while a bulk copy still reads the shared memory of the block.
fn early_end() -> Result<(), Box<dyn Error>> {
    println!("\n== early_end ==");
    // ANCHOR: early_end
    let bulk = copy("SM90_BULK_COPY_S2G")?;
    let found = fault(
        |k, data| {
            let tile = k.shared("tile", 128, 128);
            let base = k.address_of(tile);
            let thread = k.mov(Type::U32, Special::Tid(0));
            let mine = k.mad(Type::U32, thread, 4, base);
            k.store(SHARED, mine, thread);
            k.fence(FenceKind::ProxyAsyncShared);
            k.sync();
            let first = k.setp(Compare::Eq, Type::U32, thread, 0);
            k.if_(first, |k| {
                let args = CopyArgs {
                    dst: End::Memory(data.into()),
                    src: End::Memory(tile.into()),
                    size: Some(128.into()),
                    ..CopyArgs::default()
                };
                k.copy_atom(&bulk, args);
                k.bulk_commit();
            });
        },
        Launch::new(1, 32),
    );
    println!("{:?}: {}", found.kind(), found.what());
    // ANCHOR_END: early_end
    Ok(())
}

/// Reads an accumulator while `wgmma` still holds it.
fn accumulator() -> Result<(), Box<dyn Error>> {
    println!("\n== accumulator ==");
    // ANCHOR: accumulator
    let atom = mma("SM90_64x8x16_F32F16F16_SS")?;
    let rows = GmmaDescriptor {
        start: 0, // added below
        leading: 128,
        stride: 256,
        ..GmmaDescriptor::default()
    };
    let bits = rows.encode()? as i64;
    let found = fault(
        |k, _| {
            k.dynamic_shared(1024); // begins at a multiple of 1024
            let base = k.address_of(Base::DynamicShared);
            let thread = k.mov(Type::U32, Special::Tid(0));
            let mine = k.mad(Type::U32, thread, 32, base);
            for i in 0..8 {
                k.store(SHARED, Address::from(mine).at(4 * i), 0);
            }
            k.fence(FenceKind::ProxyAsyncShared);
            k.sync();
            let start = k.shr(Type::U32, base, 4); // in units of 16 bytes
            let start = k.cvt(Type::U64, Type::U32, start);
            let descriptor = k.add(Type::U64, start, bits);
            let d = k.regs(RegType::F32, 4);
            k.wgmma_fence();
            k.wgmma(&atom, &d, &[descriptor], descriptor, ScaleD::Zero);
            k.wgmma_commit();
            k.add(Type::F32, d[0], 1.0);
            k.wgmma_wait(0);
        },
        Launch::new(1, 128).dynamic_shared(4096), // bytes per block
    );
    println!("{:?}: {}", found.kind(), found.what());
    // ANCHOR_END: accumulator
    Ok(())
}

/// Waits at an mbarrier that expects more bytes than are copied.
fn never_completes() -> Result<(), Box<dyn Error>> {
    println!("\n== never_completes ==");
    // ANCHOR: never_completes
    let bulk = copy("SM90_BULK_COPY_G2S")?;
    let found = fault(
        |k, data| {
            let tile = k.shared("tile", 128, 128);
            let bar = k.shared("bar", 8, 8);
            let thread = k.mov(Type::U32, Special::Tid(0));
            let first = k.setp(Compare::Eq, Type::U32, thread, 0);
            k.if_(first, |k| {
                k.mbarrier_init(bar, 1);
                k.fence(FenceKind::MbarrierInit);
                k.mbarrier_arrive_expect(bar, 256);
                let args = CopyArgs {
                    dst: End::Memory(tile.into()),
                    src: End::Memory(data.into()),
                    barrier: Some(bar.into()),
                    size: Some(128.into()),
                    ..CopyArgs::default()
                };
                k.copy_atom(&bulk, args);
            });
            k.sync();
            k.mbarrier_wait(bar, 0);
        },
        Launch::new(1, 64),
    );
    println!("{:?}: {}", found.kind(), found.what());
    // ANCHOR_END: never_completes
    Ok(())
}

/// Sends the warps of a block to two different barriers.
fn named_barriers() {
    println!("\n== named_barriers ==");
    // ANCHOR: named_barriers
    let found = fault(
        |k, _| {
            let thread = k.mov(Type::U32, Special::Tid(0));
            let low = k.setp(Compare::Lt, Type::U32, thread, 64);
            k.if_else(low, |k| k.named_sync(1, 128), |k| k.sync());
        },
        Launch::new(1, 96),
    );
    println!("{:?}: {}", found.kind(), found.what());
    // ANCHOR_END: named_barriers
}

/// A block arrives at a barrier in the shared memory of a block that may have ended.
fn peer_that_ended() {
    println!("\n== peer_that_ended ==");
    // ANCHOR: peer_that_ended
    let found = fault(
        |k, _| {
            let bar = k.shared("bar", 8, 8);
            let thread = k.mov(Type::U32, Special::Tid(0));
            let first = k.setp(Compare::Eq, Type::U32, thread, 0);
            k.if_(first, |k| {
                k.mbarrier_init(bar, 2);
                k.fence(FenceKind::MbarrierInit);
            });
            k.cluster_sync();
            k.if_(first, |k| {
                let here = k.address_of(bar);
                let there = k.mapa(here, 0);
                k.mbarrier_arrive_cluster(there);
            });
            // Here a `k.cluster_sync()` is missing.
        },
        Launch::new(2, 32).cluster(2),
    );
    println!("{:?}: {}", found.kind(), found.what());
    // ANCHOR_END: peer_that_ended
}

/// Half of the lanes of a warp arrive at a barrier.
fn part_of_a_warp() {
    println!("\n== part_of_a_warp ==");
    // ANCHOR: part_of_a_warp
    let found = fault(
        |k, _| {
            let lane = k.mov(Type::U32, Special::LaneId);
            let low = k.setp(Compare::Lt, Type::U32, lane, 16);
            k.if_(low, |k| k.sync());
        },
        Launch::new(1, 32),
    );
    println!("{:?}: {}", found.kind(), found.what());
    // ANCHOR_END: part_of_a_warp
}

/// Reads a column of a tile, whose rows are 32 and then 33 words apart.
fn what_it_counts() -> Result<(), Box<dyn Error>> {
    println!("\n== what_it_counts ==");
    // ANCHOR: what_it_counts
    let column = |pitch: i64| {
        run(
            |k, _| {
                let tile = k.shared("tile", 32 * 4 * pitch as u32, 128);
                let base = k.address_of(tile);
                let thread = k.mov(Type::U32, Special::Tid(0));
                let row = k.mad(Type::U32, thread, 4 * pitch, base);
                k.store(SHARED, row, thread);
                k.load(SHARED, row);
            },
            Launch::new(1, 32),
        )
    };
    for pitch in [32, 33] {
        let report = column(pitch)?;
        let loads = |text: &str| text.contains("ld.shared");
        let load = report.lines.iter().find(|line| loads(&line.instruction));
        let load = load.ok_or("it was executed")?;
        println!(
            "{pitch} words per row: passes {}, at least {}; bank conflicts in all: {}",
            load.passes,
            load.least_passes,
            report.bank_conflicts()
        );
    }
    // ANCHOR_END: what_it_counts
    Ok(())
}

/// Exercise 1: the barrier is put back.
fn exercise_1() -> Result<(), Box<dyn Error>> {
    println!("\n== exercise_1 ==");
    // ANCHOR: exercise_1
    let report = run(
        |k, _| {
            let tile = k.shared("tile", 256, 256);
            let base = k.address_of(tile);
            let thread = k.mov(Type::U32, Special::Tid(0));
            let mine = k.mad(Type::U32, thread, 4, base);
            k.store(SHARED, mine, thread);
            k.sync();
            let theirs = k.xor(Type::B32, mine, 128);
            k.load(SHARED, theirs);
        },
        Launch::new(1, 64),
    )?;
    println!("no fault, {} bank conflicts", report.bank_conflicts());
    // ANCHOR_END: exercise_1
    Ok(())
}

/// Exercise 2: one thread stores and copies, without the fence and with it.
fn exercise_2() -> Result<(), Box<dyn Error>> {
    // ANCHOR: exercise_2
    let bulk = copy("SM90_BULK_COPY_S2G")?;
    let alone = |fenced: bool| {
        run(
            |k, data| {
                let tile = k.shared("tile", 16, 16);
                for i in 0..4 {
                    k.store(SHARED, Address::from(tile).at(4 * i), 5);
                }
                if fenced {
                    k.fence(FenceKind::ProxyAsyncShared);
                }
                let args = CopyArgs {
                    dst: End::Memory(data.into()),
                    src: End::Memory(tile.into()),
                    size: Some(16.into()),
                    ..CopyArgs::default()
                };
                k.copy_atom(&bulk, args);
                k.bulk_commit();
                k.bulk_wait(0, false);
            },
            Launch::new(1, 1),
        )
    };
    assert_eq!(alone(false).unwrap_err().kind(), FaultKind::MissingFence);
    assert!(alone(true).is_ok());
    // ANCHOR_END: exercise_2
    Ok(())
}

/// Both exercises.
fn exercises() -> Result<(), Box<dyn Error>> {
    exercise_1()?;
    exercise_2()
}

/// Block 1 reads a word of block 0 and arrives at its barrier; block 0 waits and overwrites the word.
fn far_arrival() {
    println!("\n== far_arrival ==");
    // ANCHOR: far_arrival
    let handed_back = |released: bool| {
        move |k: &mut KernelBuilder, _: Reg| {
            let (word, bar) = (k.shared("word", 4, 4), k.shared("bar", 8, 8));
            let (word, bar) = (k.address_of(word), k.address_of(bar));
            k.mbarrier_init(bar, 1);
            k.fence(FenceKind::MbarrierInit);
            k.store(SHARED, word, 1);
            k.cluster_sync();
            let rank = k.mov(Type::U32, Special::ClusterCtaRank);
            let is_second = k.setp(Compare::Eq, Type::U32, rank, 1);
            k.if_else(
                is_second,
                |k| {
                    let (far_word, far_bar) = (k.mapa(word, 0), k.mapa(bar, 0));
                    k.load(Access::new(Space::Cluster, Type::U32), far_word);
                    if released {
                        k.mbarrier_release_cluster(far_bar);
                    } else {
                        k.mbarrier_arrive_cluster(far_bar);
                    }
                },
                |k| {
                    k.mbarrier_wait(bar, 0);
                    k.store(SHARED, word, 2);
                },
            );
            k.cluster_sync();
        }
    };
    let launch = Launch::new(2, 1).cluster(2);
    let found = fault(handed_back(false), launch);
    println!("{:?}: {}", found.kind(), found.what());
    assert!(run(handed_back(true), launch).is_ok());
    // ANCHOR_END: far_arrival
}
