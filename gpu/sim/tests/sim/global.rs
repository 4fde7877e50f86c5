//! Global memory between threads, blocks and clusters: what orders two accesses, and what does not.

use colex_atom::copy;
use colex_ir::launch::Launch;
use colex_ir::{
    Address, AtomicOp, Compare, CopyArgs, End, FenceKind, Guard, KernelBuilder, Order, Reg,
    RegType, Scope, Space, Special, Sync, Type,
};
use colex_sim::{Fault, FaultKind, SimOptions};

use super::helpers::*;

/// What is found in a kernel on 64 words of zeros, in three orders of events: the same in each.
fn found(launch: Launch, build: impl Fn(&mut KernelBuilder, Reg)) -> Result<(), Fault> {
    let mut k = kernel("planted");
    let data = k.pointer("data");
    let data = k.param(data);
    build(&mut k, data);
    let kernel = k.finish();
    let runs = [0, 1, 2, 3].map(|seed| {
        let mut host = Host::default();
        host.words(&[0; 64]);
        let options = SimOptions::default().seed(seed);
        host.run_with(&kernel, launch, &options).map(|_| ())
    });
    let kinds = runs
        .each_ref()
        .map(|run| run.as_ref().err().map(Fault::kind));
    assert!(kinds.iter().all(|kind| *kind == kinds[0]), "{kinds:?}");
    runs.into_iter().next().unwrap()
}

fn kind(launch: Launch, build: impl Fn(&mut KernelBuilder, Reg)) -> Option<FaultKind> {
    found(launch, build).err().map(|fault| fault.kind())
}

const RACE: Option<FaultKind> = Some(FaultKind::Race);

/// Only the first thread of warp `number` of the grid.
fn warp(k: &mut KernelBuilder, number: i64, body: impl FnOnce(&mut KernelBuilder)) {
    let thread = global_thread(k);
    let it = k.setp(Compare::Eq, Type::U32, thread, 32 * number);
    k.if_(it, body);
}

/// Waits until a word is at least a value.
fn until(k: &mut KernelBuilder, at: Address, order: Order, least: i64) {
    k.loop_(|k| {
        let x = k.load(global(Type::U32).order(order), at);
        let there = k.setp(Compare::Ge, Type::U32, x, least);
        k.break_if(there);
    });
}

/// A warp writes a word and raises a flag; another waits for it and reads the word.
fn letter(
    launch: Launch,
    [raise, look]: [Order; 2],
    [before, after]: [Option<FenceKind>; 2],
) -> Option<FaultKind> {
    kind(launch, |k, data| {
        let flag = Address::from(data).at(4);
        warp(k, 0, |k| {
            k.store(global(Type::U32), data, 7);
            before.into_iter().for_each(|fence| k.fence(fence));
            k.store(global(Type::U32).order(raise), flag, 1);
        });
        warp(k, 1, |k| {
            until(k, flag, look, 1);
            after.into_iter().for_each(|fence| k.fence(fence));
            k.load(global(Type::U32), data);
        });
    })
}

#[test]
fn a_letter_is_ordered_by_a_release_and_an_acquire_that_reach() {
    let shapes = [
        Launch::new(1, 64),
        Launch::new(2, 32).cluster(2),
        Launch::new(2, 32),
    ];
    let scopes = [Scope::Cta, Scope::Cluster, Scope::Gpu, Scope::Sys];
    let mut cases = 0;
    for (far, launch) in shapes.into_iter().enumerate() {
        for (i, a) in scopes.into_iter().enumerate() {
            for (j, b) in scopes.into_iter().enumerate() {
                let expected = if i.min(j) >= far { None } else { RACE };
                let strong = [Order::Release(a), Order::Acquire(b)];
                assert_eq!(
                    letter(launch, strong, [None; 2]),
                    expected,
                    "{launch:?} {a:?} {b:?}"
                );
                let fences = [a, b].map(|scope| {
                    Some(match scope {
                        Scope::Cta => FenceKind::AcqRelCta,
                        Scope::Cluster => FenceKind::AcqRelCluster,
                        Scope::Gpu => FenceKind::AcqRelGpu,
                        Scope::Sys => FenceKind::AcqRelSys,
                    })
                });
                let relaxed = [Order::Relaxed(Scope::Gpu), Order::Volatile];
                assert_eq!(
                    letter(launch, relaxed, fences),
                    expected,
                    "{launch:?} {fences:?}"
                );
                cases += 2;
            }
        }
    }
    println!("law sim.release_and_acquire: {cases} cases");
}

#[test]
fn half_of_a_release_and_an_acquire_is_none() {
    let relaxed = Order::Relaxed(Scope::Gpu);
    let (release, acquire) = (Order::Release(Scope::Gpu), Order::Acquire(Scope::Gpu));
    let fence = Some(FenceKind::AcqRelGpu);
    let two = Launch::new(2, 32);
    for (orders, fences) in [
        ([release, relaxed], [None, None]),
        ([relaxed, acquire], [None, None]),
        ([relaxed, relaxed], [fence, None]),
        ([relaxed, relaxed], [None, fence]),
    ] {
        assert_eq!(letter(two, orders, fences), RACE, "{orders:?} {fences:?}");
    }
    assert_eq!(letter(two, [release, relaxed], [None, fence]), None);
    assert_eq!(letter(two, [relaxed, acquire], [fence, None]), None);
}

#[test]
fn an_atomic_operation_hands_on_what_was_released_and_a_store_does_not() {
    let relay = |atomic: bool| {
        kind(Launch::new(3, 32), |k, data| {
            let flag = Address::from(data).at(4);
            let relaxed = global(Type::U32).order(Order::Relaxed(Scope::Gpu));
            warp(k, 0, |k| {
                k.store(global(Type::U32), data, 7);
                k.store(global(Type::U32).order(Order::Release(Scope::Gpu)), flag, 1);
            });
            warp(k, 1, |k| {
                until(k, flag, Order::Relaxed(Scope::Gpu), 1);
                if atomic {
                    k.atomic(AtomicOp::Add, Space::Global, Type::U32, flag, 1);
                } else {
                    k.store(relaxed, flag, 2)
                }
            });
            warp(k, 2, |k| {
                until(k, flag, Order::Acquire(Scope::Gpu), 2);
                k.load(global(Type::U32), data);
            });
        })
    };
    assert_eq!(relay(true), None);
    assert_eq!(relay(false), RACE);
}

/// Each block writes a word and counts; the last to count reads all words (the guide's reduction with
/// `__threadfence`).
fn last_block_reads(fences: [bool; 2]) -> Option<FaultKind> {
    kind(Launch::new(4, 32), |k, data| {
        let thread = k.mov(Type::U32, Special::Tid(0));
        let first = k.setp(Compare::Eq, Type::U32, thread, 0);
        k.if_(first, |k| {
            let block = k.mov(Type::U32, Special::Ctaid(0));
            let offset = k.mul_wide(Type::U32, block, 4);
            let mine = k.add(Type::S64, data, offset);
            k.store(global(Type::U32), mine, block);
            if fences[0] {
                k.fence(FenceKind::AcqRelGpu);
            }
            let ticket = Address::from(data).at(64);
            let number = k.atomic(AtomicOp::Inc, Space::Global, Type::U32, ticket, 3);
            let last = k.setp(Compare::Eq, Type::U32, number, 3);
            k.if_(last, |k| {
                if fences[1] {
                    k.fence(FenceKind::AcqRelGpu);
                }
                for i in 0..4 {
                    k.load(global(Type::U32), Address::from(data).at(4 * i));
                }
            });
        });
    })
}

#[test]
fn the_last_block_may_read_what_all_have_fenced() {
    assert_eq!(last_block_reads([true, true]), None);
    assert_eq!(last_block_reads([false, true]), RACE);
    assert_eq!(last_block_reads([true, false]), RACE);
}

#[test]
fn two_blocks_write_one_word_and_one_writes_what_many_have_read() {
    let written = found(Launch::new(2, 1), |k, data| {
        let block = k.mov(Type::U32, Special::Ctaid(0));
        k.store(global(Type::U32), data, block)
    })
    .unwrap_err();
    let what = written.what();
    assert!(
        what.starts_with(
            "this writes byte 0 of `data`, and `st.global.u32 [%rd0], %r0` of warp 0 ("
        )
    );
    assert!(what.ends_with(" of cluster 0 writes it, and nothing orders the two: the grid gives one element to two blocks"));
    let read = |k: &mut KernelBuilder, data: Reg| {
        k.load(global(Type::U32), data);
        let block = k.mov(Type::U32, Special::Ctaid(0));
        let last = k.setp(Compare::Eq, Type::U32, block, 39);
        k.when(last, |k| k.store(global(Type::U32), data, 5));
    };
    assert_eq!(kind(Launch::new(40, 1), read), RACE);
    // The same word by all threads of one warp at once, and by two warps.
    let same = |k: &mut KernelBuilder, data: Reg| k.store(global(Type::U32), data, 5);
    assert_eq!(kind(Launch::new(1, 32), same), None);
    assert_eq!(kind(Launch::new(1, 64), same), RACE);
    // Not the same: the order of the writes is a matter of chance.
    let own = |k: &mut KernelBuilder, data: Reg| {
        let lane = k.mov(Type::U32, Special::LaneId);
        k.store(global(Type::U32), data, lane);
    };
    assert_eq!(kind(Launch::new(1, 32), own), RACE);
}

#[test]
fn atomic_and_plain_accesses_of_two_blocks_race() {
    let by = |plain: bool, reads: bool| {
        kind(Launch::new(2, 1), |k, data| {
            let block = k.mov(Type::U32, Special::Ctaid(0));
            let first = k.setp(Compare::Eq, Type::U32, block, 0);
            k.if_else(
                first,
                |k| {
                    k.atomic(AtomicOp::Add, Space::Global, Type::U32, data, 1);
                },
                |k| match (plain, reads) {
                    (false, _) => {
                        k.atomic(AtomicOp::Add, Space::Global, Type::U32, data, 1);
                    }
                    (true, false) => k.store(global(Type::U32), data, 5),
                    (true, true) => {
                        k.load(global(Type::U32), data);
                    }
                },
            );
        })
    };
    assert_eq!(
        [by(false, false), by(true, false), by(true, true)],
        [None, RACE, RACE]
    );
}

/// A block stores words of 64 bits, each a number and its tag, at once, and another block looks at them until both have the tag.
fn tagged(
    [stores, looks]: [Order; 2],
    [ty, of_look]: [Type; 2],
    body: impl Fn(&mut KernelBuilder, &[Reg]),
) -> Option<FaultKind> {
    kind(Launch::new(2, 32), |k, data| {
        warp(k, 0, |k| {
            let words = [7, 8].map(|number| {
                let [number, tag] = [number, 5].map(|word| k.mov(Type::B32, word));
                k.pack(RegType::B64, &[number, tag])
            });
            k.store_vector(global(ty).order(stores), data, &words);
        });
        warp(k, 1, |k| {
            let found = k.regs(RegType::B32, 2);
            k.loop_(|k| {
                let words = k.load_vector(global(of_look).order(looks), 2, data);
                let mut others = k.mov(Type::B32, 0);
                for (word, found) in words.into_iter().zip(&found) {
                    let parts = k.unpack(RegType::B32, word);
                    k.mov_to(*found, parts[0]);
                    let other = k.xor(Type::B32, parts[1], 5);
                    others = k.or(Type::B32, others, other);
                }
                let there = k.setp(Compare::Eq, Type::U32, others, 0);
                k.break_if(there);
            });
            body(k, &found);
        });
    })
}

/// What comes in one relaxed word with its tag needs no release: the numbers are those that were stored with the tag. A plain access
/// beside a relaxed one is a race, and so is a plain access to other memory that the tag is to order.
#[test]
fn law_a_word_of_64_bits_brings_its_tag() {
    let relaxed = Order::Relaxed(Scope::Gpu);
    let mut cases = 0;
    for types in [
        [Type::B64; 2],
        [Type::U64, Type::B64],
        [Type::B64, Type::S64],
    ] {
        let right = tagged([relaxed; 2], types, |k, found| {
            // An address that is not there, if a number is another one.
            for (found, want) in found.iter().zip([7, 8]) {
                let same = k.setp(Compare::Eq, Type::U32, *found, want);
                k.if_(Guard::from(same).negated(), |k| {
                    let nowhere = k.mov(Type::U64, 64);
                    k.load(global(Type::U32), nowhere);
                });
            }
        });
        assert_eq!(right, None, "{types:?}");
        for orders in [[relaxed, Order::Weak], [Order::Weak, relaxed]] {
            assert_eq!(
                tagged(orders, types, |_, _| ()),
                RACE,
                "{types:?} {orders:?}"
            );
        }
        cases += 3;
    }
    let letter = letter(Launch::new(2, 32), [relaxed; 2], [None; 2]);
    assert_eq!(letter, RACE);
    println!("law sim.tagged_words: {cases} cases");
}

/// A thread writes global memory and has an engine read it.
fn read_by_engine(fence: Option<FenceKind>) -> Option<FaultKind> {
    kind(Launch::new(1, 1), |k, data| {
        let tile = k.shared("tile", 16, 16);
        let bar = k.shared("bar", 8, 8);
        k.mbarrier_init(bar, 1);
        k.fence(FenceKind::MbarrierInit);
        k.store(global(Type::U32), data, 5);
        fence.into_iter().for_each(|fence| k.fence(fence));
        k.mbarrier_arrive_expect(bar, 16);
        k.copy_atom(
            &copy("SM90_BULK_COPY_G2S").unwrap(),
            CopyArgs {
                dst: End::Memory(tile.into()),
                src: End::Memory(data.into()),
                barrier: Some(bar.into()),
                size: Some(16.into()),
                ..CopyArgs::default()
            },
        );
        k.mbarrier_wait(bar, 0);
    })
}

#[test]
fn an_engine_reads_global_memory_after_a_fence_of_its_own() {
    assert_eq!(read_by_engine(None), Some(FaultKind::MissingFence));
    assert_eq!(
        read_by_engine(Some(FenceKind::ProxyAsyncShared)),
        Some(FaultKind::MissingFence)
    );
    assert_eq!(read_by_engine(Some(FenceKind::ProxyAsyncGlobal)), None);
    assert_eq!(read_by_engine(Some(FenceKind::ProxyAsync)), None);
}

/// A thread has an engine write global memory, waits, and reads it.
fn written_by_engine(read: bool) -> Option<FaultKind> {
    kind(Launch::new(1, 1), |k, data| {
        let tile = k.shared("tile", 16, 16);
        for i in 0..4 {
            k.store(shared(Type::U32), Address::from(tile).at(4 * i), 5);
        }
        k.fence(FenceKind::ProxyAsyncShared);
        k.copy_atom(
            &copy("SM90_BULK_COPY_S2G").unwrap(),
            CopyArgs {
                dst: End::Memory(data.into()),
                src: End::Memory(tile.into()),
                size: Some(16.into()),
                ..CopyArgs::default()
            },
        );
        k.bulk_commit();
        // Its source may be written again in any case.
        k.bulk_wait(0, true);
        k.store(shared(Type::U32), tile, 6);
        if !read {
            k.bulk_wait(0, false);
        }
        k.load(global(Type::U32), data);
    })
}

#[test]
fn a_wait_until_the_source_is_read_is_no_wait_for_the_copy() {
    assert_eq!(written_by_engine(false), None);
    assert_eq!(written_by_engine(true), RACE);
}

/// Some lanes write words, meet, and read each other's.
fn half_a_warp(mask: i64) -> Option<FaultKind> {
    kind(Launch::new(1, 32), |k, data| {
        let lane = k.mov(Type::U32, Special::LaneId);
        let low = k.setp(Compare::Lt, Type::U32, lane, 16);
        k.if_(low, |k| {
            let offset = k.mul_wide(Type::U32, lane, 4);
            let mine = k.add(Type::S64, data, offset);
            k.store(global(Type::U32), mine, lane);
            k.push(Sync::WarpSync {
                mask: 0xffff.into(),
            });
            let other = k.xor(Type::B32, lane, mask);
            let offset = k.mul_wide(Type::U32, other, 4);
            let theirs = k.add(Type::S64, data, offset);
            k.load(global(Type::U32), theirs);
        });
        let high = k.setp(Compare::Ge, Type::U32, lane, 16);
        k.if_(high, |k| {
            let offset = k.mul_wide(Type::U32, lane, 4);
            let beyond = k.add(Type::S64, data, offset);
            k.store(global(Type::U32), beyond, lane);
        });
    })
}

#[test]
fn lanes_that_meet_without_the_others_are_ordered_among_themselves() {
    assert_eq!(half_a_warp(1), None);
    assert_eq!(half_a_warp(15), None);
    assert_eq!(half_a_warp(16), RACE);
}
