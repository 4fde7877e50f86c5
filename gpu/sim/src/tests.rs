//! Small kernels whose races and barriers are easy to miss, or to report where there are none.

use colex_atom::{Arch, copy};
use colex_ir::launch::{Argument, Launch};
use colex_ir::{
    Access, Address, ClusterOrder, Compare, CopyArgs, End, FenceKind, KernelBuilder, Order, Reg,
    Scope, SharedId, Space, Special, Sync, Type,
};

use crate::{Fault, FaultKind, Memory, SimOptions, simulate};

fn shared() -> Access {
    Access::new(Space::Shared, Type::U32)
}

/// Runs a kernel with one buffer of 1024 words, each its number, with some options.
fn ran_with(
    launch: Launch,
    options: &SimOptions,
    build: &dyn Fn(&mut KernelBuilder, Reg),
) -> Result<(), Fault> {
    let mut k = KernelBuilder::new("planted", Arch::Sm90a);
    let data = k.pointer("data");
    let data = k.param(data);
    build(&mut k, data);
    let kernel = k.finish();
    let mut memory = Memory::default();
    let at = memory.allocate(4096).unwrap();
    let bytes: Vec<u8> = (0..1024u32).flat_map(u32::to_le_bytes).collect();
    memory.write(at, &bytes).unwrap();
    let arguments = vec![Argument::Pointer(at); kernel.params.len()];
    simulate(&kernel, &launch, &arguments, &mut memory, options).map(|_| ())
}

/// The kind of the fault, in each of four orders of events.
fn kinds(launch: Launch, build: impl Fn(&mut KernelBuilder, Reg)) -> [Option<FaultKind>; 4] {
    [0, 1, 2, 3].map(|seed| {
        let options = SimOptions::default().seed(seed);
        let found = ran_with(launch, &options, &build).err();
        if let Some(fault) = &found {
            println!("{seed}: {fault}");
        }
        found.map(|fault| fault.kind())
    })
}

const CLEAN: [Option<FaultKind>; 4] = [None; 4];
const RACE: [Option<FaultKind>; 4] = [Some(FaultKind::Race); 4];
const BARRIER: [Option<FaultKind>; 4] = [Some(FaultKind::Barrier); 4];

/// Whether the thread has this number in its block.
fn is(k: &mut KernelBuilder, thread: i64) -> Reg {
    let own = k.mov(Type::U32, Special::Tid(0));
    k.setp(Compare::Eq, Type::U32, own, thread)
}

/// The shared address of the thread's word.
fn own_word(k: &mut KernelBuilder, tile: SharedId) -> Reg {
    let thread = k.mov(Type::U32, Special::Tid(0));
    let base = k.address_of(tile);
    k.mad(Type::U32, thread, 4, base)
}

/// Barriers that thread 0 initialises for these arrivals, with a barrier of the block behind.
fn barriers<const N: usize>(k: &mut KernelBuilder, arrivals: [i64; N]) -> [SharedId; N] {
    let names = ["bar0", "bar1", "bar2"];
    let first = is(k, 0);
    let mut number = 0;
    let all = arrivals.map(|count| {
        let bar = k.shared(names[number], 8, 8);
        number += 1;
        k.when(first, |k| k.mbarrier_init(bar, count));
        bar
    });
    k.when(first, |k| k.fence(FenceKind::MbarrierInit));
    k.sync();
    all
}

/// Waits in a loop of tests.
fn spin(k: &mut KernelBuilder, bar: SharedId) {
    k.loop_(|k| {
        let done = k.mbarrier_try(bar, 0);
        k.break_if(done);
    });
}

/// A bulk store of 128 bytes from a tile, and its group.
fn store(k: &mut KernelBuilder, tile: impl Into<Address>, data: impl Into<Address>) {
    store_bytes(k, tile, data, 128);
}

fn store_bytes(
    k: &mut KernelBuilder,
    tile: impl Into<Address>,
    data: impl Into<Address>,
    bytes: i64,
) {
    let args = CopyArgs {
        dst: End::Memory(data.into()),
        src: End::Memory(tile.into()),
        size: Some(bytes.into()),
        ..CopyArgs::default()
    };
    k.copy_atom(&copy("SM90_BULK_COPY_S2G").unwrap(), args);
    k.bulk_commit();
}

/// A wait for a barrier that tells of an early arrival of the warp keeps what its lanes know of later ones.
#[test]
fn an_early_arrival_does_not_take_back_what_a_later_one_orders() {
    let told = |meets: bool| {
        kinds(Launch::new(1, 32), move |k, _| {
            let tile = k.shared("tile", 4, 4);
            let [early, late] = barriers(k, [32, 32]);
            k.mbarrier_arrive(early);
            let three = is(k, 3);
            k.when(three, |k| k.store(shared(), tile, 7));
            k.mbarrier_arrive(late);
            if meets {
                spin(k, late);
            }
            k.mbarrier_wait(early, 0);
            let five = is(k, 5);
            k.when(five, |k| k.load(shared(), tile));
        })
    };
    assert_eq!(told(true), CLEAN);
    assert_eq!(told(false), RACE);
}

/// A wait for a barrier that tells of an arrival before the wait for a copy does not pass that wait on.
#[test]
fn an_early_arrival_does_not_pass_on_a_later_wait_for_a_copy() {
    let reused = |synced: bool| {
        kinds(Launch::new(1, 32), move |k, data| {
            let tile = k.shared("tile", 128, 128);
            let [early] = barriers(k, [32]);
            let own = own_word(k, tile);
            k.store(shared(), own, 1);
            k.fence(FenceKind::ProxyAsyncShared);
            k.sync();
            k.mbarrier_arrive(early);
            let first = is(k, 0);
            k.if_(first, |k| {
                store(k, tile, data);
                k.bulk_wait(0, true);
            });
            if synced {
                k.warp_sync();
            }
            k.mbarrier_wait(early, 0);
            k.store(shared(), own, 2);
            k.if_(first, |k| k.bulk_wait(0, false));
        })
    };
    assert_eq!(reused(true), CLEAN);
    assert_eq!(reused(false), RACE);
}

/// Three staging buffers in turn: a barrier of the warp passes on a wait once, and later waits for other copies leave it so.
#[test]
fn a_later_wait_for_copies_takes_no_earlier_one_back() {
    let staged = |kept: u32| {
        kinds(Launch::new(1, 32), move |k, data| {
            let tile = k.shared("tile", 3 * 128, 128);
            let own = own_word(k, tile);
            let first = is(k, 0);
            for round in 0..7 {
                let buffer = round % 3 * 128;
                k.store(shared(), Address::from(own).at(buffer), round);
                k.fence(FenceKind::ProxyAsyncShared);
                k.sync();
                k.if_(first, |k| {
                    let from = Address::from(tile).at(buffer);
                    store(k, from, Address::from(data).at(128 * round));
                    k.bulk_wait(kept, true);
                });
            }
            k.if_(first, |k| k.bulk_wait(0, false));
        })
    };
    // The store of the round before the last is read when the barrier of this round passes that on.
    assert_eq!(staged(1), CLEAN);
    assert_eq!(staged(2), RACE);
}

/// A warp that arrived at a phase of the cluster's barrier that is complete, and ends, has not arrived at the next one.
#[test]
fn a_warp_that_ends_leaves_arrivals_of_a_later_phase() {
    let found = kinds(Launch::new(1, 128).cluster(1), |k, _| {
        let bar = k.shared("bar", 8, 8);
        let first = is(k, 0);
        k.when(first, |k| k.mbarrier_init(bar, 1));
        k.sync();
        let order = ClusterOrder::Release;
        k.push(Sync::ClusterArrive { order });
        let thread = k.mov(Type::U32, Special::Tid(0));
        let leaves = k.setp(Compare::Lt, Type::U32, thread, 32);
        k.if_else(
            leaves,
            // It ends once the others have arrived again.
            |k| k.mbarrier_wait(bar, 0),
            |k| {
                k.push(Sync::ClusterWait);
                k.push(Sync::ClusterArrive { order });
                k.named_sync(1, 96);
                let tells = is(k, 32);
                k.when(tells, |k| k.mbarrier_arrive(bar));
                k.push(Sync::ClusterWait);
            },
        );
    });
    assert_eq!(found, CLEAN);
}

/// A store is not waited for; 140 loads follow, each waited for; then the source of the store is overwritten.
#[test]
fn many_waits_for_other_copies_do_not_stand_for_a_wait_for_one() {
    let reused = |waits: bool| {
        kinds(Launch::new(1, 1), move |k, data| {
            let tile = k.shared("tile", 128, 128);
            let landed = k.shared("landed", 16, 16);
            let bar = k.shared("bar", 8, 8);
            k.mbarrier_init(bar, 1);
            k.fence(FenceKind::MbarrierInit);
            for word in 0..32 {
                k.store(shared(), Address::from(tile).at(4 * word), 1);
            }
            k.fence(FenceKind::ProxyAsyncShared);
            store(k, tile, Address::from(data).at(1024));
            if waits {
                k.bulk_wait(0, true);
            }
            for load in 0..140 {
                k.mbarrier_arrive_expect(bar, 16);
                let args = CopyArgs {
                    dst: End::Memory(landed.into()),
                    src: End::Memory(data.into()),
                    barrier: Some(bar.into()),
                    size: Some(16.into()),
                    ..CopyArgs::default()
                };
                k.copy_atom(&copy("SM90_BULK_COPY_G2S").unwrap(), args);
                k.mbarrier_wait(bar, load % 2);
            }
            k.store(shared(), tile, 2);
            k.bulk_wait(0, false);
        })
    };
    assert_eq!(reused(true), CLEAN);
    assert_eq!(reused(false), RACE);
}

/// Thread 32 stores a tile; thread 0 stores another one 140 times, of which only the reads are waited for, and writes the first one.
#[test]
fn many_waits_for_reads_do_not_stand_for_a_wait_for_one() {
    let reused = |waits: bool| {
        kinds(Launch::new(1, 64), move |k, data| {
            let tiles = ["first", "second"].map(|name| k.shared(name, 16, 16));
            let (zero, other) = (is(k, 0), is(k, 32));
            for tile in tiles {
                for word in 0..4 {
                    k.when(zero, |k| {
                        k.store(shared(), Address::from(tile).at(4 * word), 1)
                    });
                }
            }
            k.fence(FenceKind::ProxyAsyncShared);
            k.sync();
            k.if_(other, |k| {
                store_bytes(k, tiles[0], Address::from(data).at(3072), 16);
                if waits {
                    k.bulk_wait(0, true);
                }
            });
            k.sync();
            k.if_(zero, |k| {
                for number in 0..140 {
                    store_bytes(k, tiles[1], Address::from(data).at(16 * number), 16);
                    k.bulk_wait(0, true);
                }
                k.store(shared(), tiles[0], 2);
            });
            k.bulk_wait(0, false);
        })
    };
    assert_eq!(reused(true), CLEAN);
    assert_eq!(reused(false), RACE);
}

/// A barrier of thread 0, and a mistake with it.
fn destroyed(build: impl Fn(&mut KernelBuilder, SharedId)) -> [Option<FaultKind>; 4] {
    kinds(Launch::new(1, 32), move |k, _| {
        let [bar] = barriers(k, [32]);
        build(k, bar);
    })
}

#[test]
fn a_barrier_is_an_object_until_it_is_invalidated() {
    let inval = |k: &mut KernelBuilder, bar: SharedId| {
        let first = is(k, 0);
        k.when(first, |k| k.push(Sync::MbarrierInval { a: bar.into() }));
    };
    let write = |k: &mut KernelBuilder, bar: SharedId| {
        let first = is(k, 0);
        k.when(first, |k| k.store(shared(), Address::from(bar).at(4), 1));
    };
    let init = |k: &mut KernelBuilder, bar: SharedId| {
        let first = is(k, 0);
        k.when(first, |k| k.mbarrier_init(bar, 32));
    };
    let meet = |k: &mut KernelBuilder, bar: SharedId| {
        k.mbarrier_arrive(bar);
        k.mbarrier_wait(bar, 0);
        k.sync();
    };
    assert_eq!(destroyed(write), BARRIER);
    assert_eq!(destroyed(init), BARRIER);
    let twice = |k: &mut KernelBuilder, bar| {
        inval(k, bar);
        inval(k, bar);
    };
    assert_eq!(destroyed(twice), BARRIER);
    let again = |k: &mut KernelBuilder, bar| {
        meet(k, bar);
        inval(k, bar);
        init(k, bar);
        k.sync();
        meet(k, bar);
        inval(k, bar);
        write(k, bar);
    };
    assert_eq!(destroyed(again), CLEAN);
    let early = |k: &mut KernelBuilder, bar: SharedId| {
        k.mbarrier_arrive(bar);
        inval(k, bar);
    };
    assert_eq!(destroyed(early), RACE);
}

/// An engine that writes over a barrier destroys it as a thread does.
#[test]
fn a_copy_over_a_barrier_destroys_it() {
    let found = destroyed(|k, bar| {
        let first = is(k, 0);
        let atom = copy("SM80_CP_ASYNC_CACHEALWAYS<uint32_t>").unwrap();
        let data = k.pointer("more");
        let data = k.param(data);
        let args = CopyArgs {
            dst: End::Memory(bar.into()),
            src: End::Memory(data.into()),
            ..CopyArgs::default()
        };
        k.when(first, |k| k.copy_atom(&atom, args));
        k.cp_async_commit();
        k.cp_async_wait(0);
    });
    assert_eq!(found, BARRIER);
}

/// Without a check of races too, a warp does not go on from a barrier that is gone.
#[test]
fn a_wait_for_a_barrier_that_is_gone_is_a_fault() {
    let options = SimOptions {
        races: false,
        ..SimOptions::default()
    };
    let found = ran_with(Launch::new(1, 64), &options, &|k, _| {
        let [bar, other] = barriers(k, [1, 32]);
        let thread = k.mov(Type::U32, Special::Tid(0));
        let waits = k.setp(Compare::Lt, Type::U32, thread, 32);
        k.if_else(
            waits,
            |k| {
                k.mbarrier_arrive(other);
                k.mbarrier_wait(bar, 0);
            },
            |k| {
                k.mbarrier_wait(other, 0);
                let one = is(k, 32);
                k.when(one, |k| k.push(Sync::MbarrierInval { a: bar.into() }));
            },
        );
    });
    let fault = found.expect_err("the barrier is gone");
    assert_eq!(fault.kind(), FaultKind::Barrier, "{fault}");
}

/// Lane 0 sets a flag behind a store; the others read the flag, and a fence follows, before they read the word.
#[test]
fn a_relaxed_read_and_a_fence_order_lanes_as_an_acquire_does() {
    let told = |order: Order, fence: bool| {
        kinds(Launch::new(1, 32), move |k, _| {
            let [tile, flag] = ["tile", "flag"].map(|name| k.shared(name, 4, 4));
            let first = is(k, 0);
            k.when(first, |k| k.store(shared(), flag, 0));
            k.sync();
            k.when(first, |k| {
                k.store(shared(), tile, 7);
                k.store(shared().order(Order::Release(Scope::Cta)), flag, 1);
            });
            k.load(shared().order(order), flag);
            if fence {
                k.fence(FenceKind::AcqRelCta);
            }
            k.load(shared(), tile);
        })
    };
    assert_eq!(told(Order::Acquire(Scope::Cta), false), CLEAN);
    assert_eq!(told(Order::Relaxed(Scope::Cta), true), CLEAN);
    assert_eq!(told(Order::Relaxed(Scope::Cta), false), RACE);
}

/// Lane 0 reads a word; lane 1 reads it later and writes it, and nothing orders that after the first read.
#[test]
fn a_later_read_of_another_lane_stands_for_no_earlier_one() {
    let read = |is_shared: bool, meets: bool| {
        kinds(Launch::new(1, 32), move |k, data| {
            let tile = k.shared("tile", 4, 4);
            let [bar] = barriers(k, [32]);
            let first = is(k, 0);
            k.when(first, |k| k.store(shared(), tile, 7));
            k.sync();
            let (access, at) = if is_shared {
                (shared(), k.address_of(tile))
            } else {
                (Access::new(Space::Global, Type::U32), data)
            };
            k.when(first, |k| k.load(access, at));
            k.mbarrier_arrive(bar);
            let second = is(k, 1);
            k.when(second, |k| k.load(access, at));
            if meets {
                k.mbarrier_wait(bar, 0);
            }
            k.when(second, |k| k.store(access, at, 8));
        })
    };
    for is_shared in [false, true] {
        assert_eq!(read(is_shared, true), CLEAN, "{is_shared}");
        assert_eq!(read(is_shared, false), RACE, "{is_shared}");
    }
}
