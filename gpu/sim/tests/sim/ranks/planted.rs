//! Mistakes that are planted between ranks, each with its correct twin, and the sentence about each.

use colex_ir::launch::Launch;
use colex_ir::{FenceKind, Order, Scope};
use colex_sim::FaultKind::{Deadlock, EarlyExit, OutOfBounds, Race, Uninitialised};
use colex_sim::{Fault, FaultKind};

use super::letters::{self, FENCED, Letter, SOUND};
use super::{ACQUIRE, Machine, RELAXED, RELEASE, Stage, plain};

/// The number of schedules that each mistake and each twin runs under.
const SEEDS: u64 = 12;

struct Planted {
    name: &'static str,
    ranks: usize,
    threads: u32,
    build: fn(&mut Stage, bool),
    /// Whether the host has written the data.
    written: bool,
    /// What is wrong outside of the kernel.
    outside: Outside,
    kind: FaultKind,
    /// Whether it is found under every schedule. A wait that an old value ends is found where the value is there in time.
    always: bool,
    /// The sentence under the first schedule that finds it.
    says: &'static str,
}

enum Outside {
    Nothing,
    /// A rank is not launched.
    Absent(usize),
    /// Rank 0 has no access to the memory of rank 1.
    NoAccess,
}

/// Of two ranks of one thread, found under every schedule.
const SIMPLE: Planted = Planted {
    name: "",
    ranks: 2,
    threads: 1,
    build: |_, _| {},
    written: true,
    outside: Outside::Nothing,
    kind: Race,
    always: true,
    says: "",
};

fn letter(s: &mut Stage, wrong: bool, how: Letter) {
    letters::letter(s, if wrong { how } else { SOUND });
}

const ALL: &[Planted] = &[
    Planted {
        name: "no release",
        build: |s, wrong| {
            letter(
                s,
                wrong,
                Letter {
                    raise: RELAXED,
                    ..SOUND
                },
            )
        },
        says: "thread (0,0,0) of block (0,0,0) of rank 1, at `%r3 = ld.global.u32 [%rd0]` (here): this reads byte 0 of `data` of rank 1, and `st.global.u32 [%rd1], 7` of warp 0 (here) of rank 0 writes it, and nothing orders the two: rank 0 has released nothing after its access that rank 1 could acquire: a `st.release.sys` of a flag there, or a wait for that flag here, is missing",
        ..SIMPLE
    },
    Planted {
        name: "no acquire",
        build: |s, wrong| {
            letter(
                s,
                wrong,
                Letter {
                    look: RELAXED,
                    ..SOUND
                },
            )
        },
        says: "thread (0,0,0) of block (0,0,0) of rank 1, at `%r3 = ld.global.u32 [%rd0]` (here): this reads byte 0 of `data` of rank 1, and `st.global.u32 [%rd1], 7` of warp 0 (here) of rank 0 writes it, and nothing orders the two: rank 0 releases byte 0 of `flags` of rank 1 after its access, and rank 1 reads that without acquiring it: `ld.acquire.sys`, or `fence.acq_rel.sys` after the load, is missing",
        ..SIMPLE
    },
    Planted {
        name: "a release of one device",
        build: |s, wrong| {
            letter(
                s,
                wrong,
                Letter {
                    raise: Order::Release(Scope::Gpu),
                    ..SOUND
                },
            )
        },
        says: "thread (0,0,0) of block (0,0,0) of rank 1, at `%r2 = ld.acquire.sys.global.u32 [%rd3]` (here): this reads byte 0 of `flags` of rank 1, and `st.release.gpu.global.u32 [%rd4], 1` of warp 0 (here) of rank 0 writes it, and nothing orders the two: both need the scope of the system, `.sys`, where threads of two devices meet",
        ..SIMPLE
    },
    Planted {
        name: "an acquire of one device",
        build: |s, wrong| {
            letter(
                s,
                wrong,
                Letter {
                    look: Order::Acquire(Scope::Gpu),
                    ..SOUND
                },
            )
        },
        says: "thread (0,0,0) of block (0,0,0) of rank 1, at `%r2 = ld.acquire.gpu.global.u32 [%rd3]` (here): this reads byte 0 of `flags` of rank 1, and `st.release.sys.global.u32 [%rd4], 1` of warp 0 (here) of rank 0 writes it, and nothing orders the two: both need the scope of the system, `.sys`, where threads of two devices meet",
        ..SIMPLE
    },
    Planted {
        name: "a fence of one device before the flag",
        build: |s, wrong| {
            let before = Some(if wrong {
                FenceKind::AcqRelGpu
            } else {
                FenceKind::AcqRelSys
            });
            letters::letter(s, Letter { before, ..FENCED });
        },
        says: "thread (0,0,0) of block (0,0,0) of rank 1, at `%r3 = ld.global.u32 [%rd0]` (here): this reads byte 0 of `data` of rank 1, and `st.global.u32 [%rd1], 7` of warp 0 (here) of rank 0 writes it, and nothing orders the two: rank 0 releases byte 0 of `flags` of rank 1 after its access with the scope of one device: `st.release.sys` reaches rank 1, `.gpu` does not",
        ..SIMPLE
    },
    Planted {
        name: "a fence of one device after the flag",
        build: |s, wrong| {
            let after = Some(if wrong {
                FenceKind::AcqRelGpu
            } else {
                FenceKind::AcqRelSys
            });
            letters::letter(s, Letter { after, ..FENCED });
        },
        says: "thread (0,0,0) of block (0,0,0) of rank 1, at `%r3 = ld.global.u32 [%rd0]` (here): this reads byte 0 of `data` of rank 1, and `st.global.u32 [%rd1], 7` of warp 0 (here) of rank 0 writes it, and nothing orders the two: rank 0 releases byte 0 of `flags` of rank 1 after its access, and rank 1 reads that without acquiring it: `ld.acquire.sys`, or `fence.acq_rel.sys` after the load, is missing",
        ..SIMPLE
    },
    Planted {
        name: "a plain flag",
        build: |s, wrong| {
            letter(
                s,
                wrong,
                Letter {
                    raise: Order::Weak,
                    ..SOUND
                },
            )
        },
        says: "thread (0,0,0) of block (0,0,0) of rank 1, at `%r2 = ld.acquire.sys.global.u32 [%rd3]` (here): this reads byte 0 of `flags` of rank 1, and `st.global.u32 [%rd4], 1` of warp 0 (here) of rank 0 writes it, and nothing orders the two: the access of rank 0 is a plain one, and ranks meet only by ordered ones: `ld.acquire.sys` to look at a flag, `st.release.sys` or `red.release.sys` to set it",
        ..SIMPLE
    },
    Planted {
        name: "a plain look at the flag",
        build: |s, wrong| {
            letter(
                s,
                wrong,
                Letter {
                    look: Order::Weak,
                    ..SOUND
                },
            )
        },
        says: "thread (0,0,0) of block (0,0,0) of rank 1, at `%r2 = ld.global.u32 [%rd3]` (here): this reads byte 0 of `flags` of rank 1, and `st.release.sys.global.u32 [%rd4], 1` of warp 0 (here) of rank 0 writes it, and nothing orders the two: the access of rank 1 is a plain one, and ranks meet only by ordered ones: `ld.acquire.sys` to look at a flag, `st.release.sys` or `red.release.sys` to set it",
        ..SIMPLE
    },
    Planted {
        name: "the flag before the data",
        build: letters::flag_first,
        says: "thread (0,0,0) of block (0,0,0) of rank 1, at `%r3 = ld.global.u32 [%rd0]` (here): this reads byte 0 of `data` of rank 1, and `st.global.u32 [%rd1], 7` of warp 0 (here) of rank 0 writes it, and nothing orders the two: rank 0 has released nothing after its access that rank 1 could acquire: a `st.release.sys` of a flag there, or a wait for that flag here, is missing",
        ..SIMPLE
    },
    Planted {
        name: "the wrong peer of a flag",
        ranks: 3,
        build: letters::wrong_peer_of_the_flag,
        kind: Deadlock,
        says: "the warp of thread (0,0,0) of block (0,0,0) of rank 1, at `%r2 = ld.acquire.sys.global.u32 [%rd3]` (here): no rank can continue: rank 1 waits for byte 0 of `flags` of rank 1, which holds 0; rank 2 waits for byte 4 of `flags` of rank 2, which holds 0; rank 0 has ended",
        ..SIMPLE
    },
    Planted {
        name: "the wrong peer of the data",
        ranks: 3,
        build: letters::wrong_peer_of_the_data,
        written: false,
        kind: Uninitialised,
        says: "thread (0,0,0) of block (0,0,0) of rank 1, at `%r3 = ld.global.u32 [%rd0]` (here): byte 0 of `data` of rank 1 is read but was never written",
        ..SIMPLE
    },
    Planted {
        name: "no access to the peer",
        build: |s, _| letters::letter(s, SOUND),
        outside: Outside::NoAccess,
        kind: OutOfBounds,
        says: "thread (0,0,0) of block (0,0,0) of rank 0, at `st.global.u32 [%rd1], 7` (here): this writes byte 0 of `data` of rank 1, and rank 0 has no access to the memory of rank 1: `Ranks::enable_peer_access(0, 1)` gives it",
        ..SIMPLE
    },
    Planted {
        name: "a flag of the round before",
        build: letters::flag_without_reset,
        always: false,
        says: "thread (0,0,0) of block (0,0,0) of rank 0, at `st.global.u32 [%rd1+8], 2` (here): this writes byte 8 of `data` of rank 1, and `%r5 = ld.global.u32 [%rd0+8]` of warp 0 (here) of rank 1 reads it, and nothing orders the two: rank 1 has released nothing after its access that rank 0 could acquire: a `st.release.sys` of a flag there, or a wait for that flag here, is missing",
        ..SIMPLE
    },
    Planted {
        name: "a slot in use",
        build: |s, wrong| letters::slot_in_use(s, wrong, RELEASE),
        says: "thread (0,0,0) of block (0,0,0) of rank 1, at `%r3 = ld.global.u32 [%rd0]` (here): this reads byte 0 of `data` of rank 1, and `st.global.u32 [%rd1], 2` of warp 0 (here) of rank 0 writes it, and nothing orders the two: rank 0 releases byte 8 of `flags` of rank 1 after its access, and this does not come after an acquire of that: `ld.acquire.sys` of it by rank 1, or a barrier after that, is missing",
        ..SIMPLE
    },
    Planted {
        name: "an acknowledgement without release",
        build: |s, wrong| letters::slot_in_use(s, false, if wrong { RELAXED } else { RELEASE }),
        says: "thread (0,0,0) of block (0,0,0) of rank 0, at `st.global.u32 [%rd1], 2` (here): this writes byte 0 of `data` of rank 1, and `%r4 = ld.global.u32 [%rd0]` of warp 0 (here) of rank 1 reads it, and nothing orders the two: rank 1 has released nothing after its access that rank 0 could acquire: a `st.release.sys` of a flag there, or a wait for that flag here, is missing",
        ..SIMPLE
    },
    Planted {
        name: "an early exit of the reader",
        build: letters::early_exit,
        kind: EarlyExit,
        says: "thread (0,0,0) of block (0,0,0) of rank 0, at `st.global.u32 [%rd1], 7` (here): rank 1 ends, and nothing orders that after this write of byte 0 of `data` of rank 1: a flag that rank 0 releases after it, and that rank 1 acquires before its end, is missing",
        ..SIMPLE
    },
    Planted {
        name: "an early exit of the source",
        build: letters::early_exit_of_a_source,
        kind: EarlyExit,
        says: "thread (0,0,0) of block (0,0,0) of rank 0, at `%r3 = ld.global.u32 [%rd1]` (here): rank 1 ends, and nothing orders that after this read of byte 0 of `data` of rank 1: a flag that rank 0 releases after it, and that rank 1 acquires before its end, is missing",
        ..SIMPLE
    },
    Planted {
        name: "chunks in the wrong order",
        build: letters::chunk_order,
        says: "thread (0,0,0) of block (0,0,0) of rank 1, at `%r3 = ld.global.u32 [%rd0+4]` (here): this reads byte 4 of `data` of rank 1, and `st.global.u32 [%rd1+4], 1` of warp 0 (here) of rank 0 writes it, and nothing orders the two: rank 0 releases byte 4 of `flags` of rank 1 after its access, and this does not come after an acquire of that: `ld.acquire.sys` of it by rank 1, or a barrier after that, is missing",
        ..SIMPLE
    },
    Planted {
        name: "no barrier before the flag",
        threads: 64,
        build: letters::no_barrier_before_the_flag,
        says: "thread (32,0,0) of block (0,0,0) of rank 1, at `%r3 = ld.global.u32 [%rd10]` (here): this reads byte 128 of `data` of rank 1, and `st.global.u32 [%rd8], 7` of warp 1 (here) of rank 0 writes it, and nothing orders the two: rank 0 has released nothing after its access that rank 1 could acquire: a `st.release.sys` of a flag there, or a wait for that flag here, is missing",
        ..SIMPLE
    },
    Planted {
        name: "no barrier after the flag",
        threads: 64,
        build: letters::no_barrier_after_the_flag,
        says: "thread (32,0,0) of block (0,0,0) of rank 1, at `%r3 = ld.global.u32 [%rd10]` (here): this reads byte 128 of `data` of rank 1, and `st.global.u32 [%rd8], 7` of warp 1 (here) of rank 0 writes it, and nothing orders the two: rank 0 releases byte 0 of `flags` of rank 1 after its access, and this does not come after an acquire of that: `ld.acquire.sys` of it by rank 1, or a barrier after that, is missing",
        ..SIMPLE
    },
    Planted {
        name: "a count of one device",
        ranks: 3,
        build: |s, wrong| {
            let order = Order::Release(if wrong { Scope::Gpu } else { Scope::Sys });
            letters::counted(s, order, 2);
        },
        says: "thread (0,0,0) of block (0,0,0) of rank 1, at `red.release.gpu.global.add.u32 [%rd5], 1` (here): this writes byte 0 of `flags` of rank 0, and `%r2 = ld.acquire.sys.global.u32 [%rd3]` of warp 0 (here) of rank 0 reads it, and nothing orders the two: both need the scope of the system, `.sys`, where threads of two devices meet",
        ..SIMPLE
    },
    Planted {
        name: "a count of too many",
        ranks: 3,
        build: |s, wrong| letters::counted(s, RELEASE, if wrong { 3 } else { 2 }),
        kind: Deadlock,
        says: "the warp of thread (0,0,0) of block (0,0,0) of rank 0, at `%r2 = ld.acquire.sys.global.u32 [%rd3]` (here): no rank can continue: rank 0 waits for byte 0 of `flags` of rank 0, which holds 2; rank 1 has ended; rank 2 has ended",
        ..SIMPLE
    },
    Planted {
        name: "a count of too few",
        ranks: 3,
        build: |s, wrong| letters::counted(s, RELEASE, if wrong { 1 } else { 2 }),
        always: false,
        says: "thread (0,0,0) of block (0,0,0) of rank 2, at `st.global.u32 [%rd1+8], 7` (here): this writes byte 8 of `data` of rank 0, and `%r4 = ld.global.u32 [%rd0+8]` of warp 0 (here) of rank 0 reads it, and nothing orders the two: rank 0 has released nothing after its access that rank 2 could acquire: a `st.release.sys` of a flag there, or a wait for that flag here, is missing",
        ..SIMPLE
    },
    Planted {
        name: "one slot for two ranks",
        ranks: 3,
        build: letters::one_slot,
        says: "thread (0,0,0) of block (0,0,0) of rank 2, at `st.global.u32 [%rd1+4], 8` (here): this writes byte 4 of `data` of rank 0, and `st.global.u32 [%rd2+4], 7` of warp 0 (here) of rank 1 writes it, and nothing orders the two: rank 1 releases byte 4 of `flags` of rank 0 after its access, and rank 2 does not acquire that before this: `ld.acquire.sys` of it is missing, or a place of its own for each rank",
        ..SIMPLE
    },
    Planted {
        name: "a ring in which each waits for the other",
        ranks: 4,
        build: letters::ring,
        kind: Deadlock,
        says: "the warp of thread (0,0,0) of block (0,0,0) of rank 0, at `%r2 = ld.acquire.sys.global.u32 [%rd3]` (here): no rank can continue: rank 0 waits for byte 0 of `flags` of rank 0, which holds 0; rank 1 waits for byte 0 of `flags` of rank 1, which holds 0; rank 2 waits for byte 0 of `flags` of rank 2, which holds 0; rank 3 waits for byte 0 of `flags` of rank 3, which holds 0",
        ..SIMPLE
    },
    Planted {
        name: "a rank that never arrives",
        ranks: 3,
        build: |s, _| letters::ring(s, false),
        outside: Outside::Absent(1),
        kind: Deadlock,
        says: "the warp of thread (0,0,0) of block (0,0,0) of rank 2, at `%r2 = ld.acquire.sys.global.u32 [%rd3]` (here): no rank can continue: rank 2 waits for byte 0 of `flags` of rank 2, which holds 0; rank 0 has ended; rank 1 was not launched",
        ..SIMPLE
    },
];

fn run(planted: &Planted, wrong: bool, seed: u64) -> Result<(), Fault> {
    let kernel = Stage::kernel(|s| (planted.build)(s, wrong));
    let mut machine = Machine::new(planted.ranks, planted.written);
    let mut absent = None;
    match planted.outside {
        Outside::Nothing => {}
        Outside::Absent(rank) => absent = wrong.then_some(rank),
        Outside::NoAccess if wrong => machine.disconnect(0, 1),
        Outside::NoAccess => {}
    }
    let launch = Launch::new(1, planted.threads);
    machine.run(&kernel, launch, absent, seed).map(|_| ())
}

#[test]
fn law_every_mistake_between_ranks_is_named_and_its_twin_is_right() {
    let (mut wrong, mut cases) = (Vec::new(), 0);
    for planted in ALL {
        let name = planted.name;
        let mut said = None;
        for seed in 0..if planted.always { SEEDS } else { 8 * SEEDS } {
            cases += 2;
            if let Err(fault) = run(planted, false, seed) {
                wrong.push(format!("{name}, the twin under {seed}: {fault}"));
            }
            match run(planted, true, seed) {
                Ok(()) if planted.always => wrong.push(format!("{name} under {seed} is not found")),
                Ok(()) => {}
                Err(fault) => {
                    if fault.kind() != planted.kind {
                        wrong.push(format!("{name} under {seed}: {:?}: {fault}", fault.kind()));
                    }
                    said.get_or_insert_with(|| plain(&fault.to_string()));
                }
            }
        }
        let said = said.unwrap_or_else(|| "nothing under any schedule".to_string());
        if said != planted.says {
            wrong.push(format!("{name} says: {said}"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert!(ALL.len() >= 20);
    println!("law ranks.planted: {cases} cases");
}

/// Every flag that a rank waits for is named with its owner and its value.
#[test]
fn a_hang_names_ranks_and_flags() {
    let kernel = Stage::kernel(|s| {
        // This flag has come, and is not named.
        s.wait(4, ACQUIRE, 1);
        s.wait(3, ACQUIRE, 2);
    });
    let mut machine = Machine::new(2, true);
    for flags in &machine.flags {
        machine.ranks.write(flags + 16, &[1, 0, 0, 0]).unwrap();
    }
    machine
        .ranks
        .write(machine.flags[1] + 12, &[1, 0, 0, 0])
        .unwrap();
    let fault = machine
        .run(&kernel, Launch::new(1, 1), None, 0)
        .unwrap_err();
    let waits: Vec<_> = fault
        .flag_waits()
        .iter()
        .map(|wait| (wait.rank, wait.owner, wait.flag, wait.holds))
        .collect();
    let expected = [0, 1].map(|rank| (rank, Some(rank), machine.flags[rank] + 12, rank as u64));
    assert_eq!(waits, expected);
    assert_eq!(fault.rank(), Some(0));
}
