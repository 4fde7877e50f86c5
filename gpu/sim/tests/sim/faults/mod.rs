//! A planted mistake for every sentence of the simulator.

mod asynchronous;
mod culprit;
mod few;
mod reach;

use colex_ir::launch::Launch;
use colex_ir::{Address, Compare, Control, Kernel, KernelBuilder, Reg, RegType, Special, Type};
use colex_sim::{Fault, FaultKind, SimOptions};

use crate::helpers::*;

/// The fault of a kernel with one buffer `data` of 64 words, of which the first 32 are written.
pub(crate) fn fault(build: impl FnOnce(&mut KernelBuilder, Reg), launch: Launch) -> Fault {
    let mut all = fault_in_every_order(build, launch);
    let first = all.swap_remove(0);
    for (seed, other) in all.iter().enumerate() {
        assert_eq!(other.kind(), first.kind(), "{seed}: {other}\n{first}");
    }
    first
}

/// The same in six orders of events.
pub(crate) fn fault_in_every_order(
    build: impl FnOnce(&mut KernelBuilder, Reg),
    launch: Launch,
) -> Vec<Fault> {
    let mut k = kernel("planted");
    let data = k.pointer("data");
    let data = k.param(data);
    build(&mut k, data);
    let kernel = k.finish();
    (0..6).map(|seed| run(&kernel, launch, seed)).collect()
}

pub(crate) fn run(kernel: &Kernel, launch: Launch, seed: u64) -> Fault {
    let mut host = Host::default();
    let at = host.empty(256);
    host.memory.write(at, &[1; 128]).unwrap();
    let result = host.run_with(kernel, launch, &SimOptions::default().seed(seed));
    result.expect_err("a mistake was planted")
}

/// The sentence, without the path and line of this file.
#[track_caller]
pub(crate) fn says(fault: &Fault, kind: FaultKind, sentence: &str) {
    let text = fault.to_string();
    let mut plain = String::new();
    let mut rest = &text[..];
    while let Some((before, after)) = rest.split_once("gpu/sim/tests/sim/") {
        plain += before;
        plain += "here";
        let line = after.split_once(':').map_or(after, |(_, line)| line);
        rest = line.trim_start_matches(|c: char| c.is_ascii_digit());
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
pub(crate) fn shared_word(k: &mut KernelBuilder, tile: colex_ir::SharedId) -> Reg {
    let thread = k.mov(Type::U32, Special::Tid(0));
    let base = k.address_of(tile);
    k.mad(Type::U32, thread, 4, base)
}

pub(crate) fn first_thread(k: &mut KernelBuilder) -> Reg {
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
        "thread (1,0,0) of block (0,0,0), at `%r1, %r2, %r3, %r4 = ld.global.v4.b32 [%rd2]` (here): the address 0x700000004, byte 4 of `data`, is not a multiple of 16, as this access of 16 bytes wants",
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
            k.warp_sync();
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
                k.shuffle(colex_ir::ShuffleMode::Bfly, lane, 16);
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
    let trap = fault(|k, _| k.push(Control::Trap), Launch::new(1, 1));
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
        "the warp of thread (0,0,0) of block (0,0,0), at `%r0 = mov 1` (here): the warp has executed 1000 instructions, as many as `SimOptions::max_steps` allows: does it wait for something that never happens? If not, raise that bound",
    );
}
