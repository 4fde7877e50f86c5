//! What warpgroups and barriers ask for, against what a block has.

use colex_atom::Arch;
use colex_gpu::Device;
use colex_ir::launch::Launch;
use colex_ir::{BarrierOp, Compare, Kernel, KernelBuilder, Special, Sync, Type};
use colex_sim::{Memory, SimOptions, simulate};

use super::sentences;

/// One `setmaxnreg`: whether it increases, and to how many registers.
type Ask = (bool, u32);

/// A kernel whose warpgroups each execute their own `setmaxnreg`s.
fn warpgroups(asks: &[Vec<Ask>], by_shuffle: bool) -> Kernel {
    let mut k = KernelBuilder::new("k", Arch::Sm90a);
    k.block([128 * asks.len() as u32, 1, 1]).min_blocks(1);
    let thread = k.mov(Type::U32, Special::Tid(0));
    let mut group = k.shr(Type::U32, thread, 7);
    if by_shuffle {
        group = k.shuffle(colex_ir::ShuffleMode::Idx, group, 0);
    }
    for (number, asks) in asks.iter().enumerate() {
        let mine = k.setp(Compare::Eq, Type::U32, group, number as i64);
        k.if_(mine, |k| {
            for (turn, (increase, count)) in asks.iter().enumerate() {
                // Between two of them, all warps of a warpgroup meet (PTX ISA, `setmaxnreg`).
                if turn > 0 {
                    k.push(Sync::Barrier {
                        op: BarrierOp::Sync,
                        id: (number as i64 + 1).into(),
                        threads: Some(128.into()),
                    });
                }
                k.set_max_registers(*increase, *count);
            }
        });
    }
    k.finish()
}

fn said(asks: &[Vec<Ask>]) -> Vec<String> {
    sentences(&warpgroups(asks, true))
}

const GIVES: Ask = (false, 24);

#[test]
fn what_cutlass_asks_for_is_there() {
    let takes = |count| vec![(true, count)];
    assert_eq!(said(&[takes(240), takes(240), vec![GIVES]]), [""; 0]);
    assert_eq!(
        said(&[vec![(false, 32)], takes(160), takes(160), takes(160)]),
        [""; 0]
    );
    // First less, then more again.
    assert_eq!(
        said(&[vec![GIVES, (true, 40)], takes(232), takes(232)]),
        [""; 0]
    );
}

/// The plan with one consumer warpgroup, whose launch never ended.
#[test]
fn one_consumer_has_more_than_it_asks_for() {
    assert_eq!(
        said(&[vec![(true, 240)], vec![GIVES]]),
        [
            "`setmaxnreg.inc` to 240 registers, and a thread has 248 there (a block of 256 threads begins with 248): it takes at least 248, or use `setmaxnreg.dec`"
        ]
    );
    assert_eq!(
        said(&[vec![(false, 200)], vec![GIVES, GIVES], vec![]]),
        [
            "`setmaxnreg.dec` to 200 registers, and a thread has 168 there (a block of 384 threads begins with 168): it takes at most 168, or use `setmaxnreg.inc`"
        ]
    );
}

#[test]
fn the_pool_is_what_the_block_begins_with() {
    let takes = |count| vec![(true, count)];
    assert_eq!(
        said(&[takes(240), takes(240), takes(240), vec![GIVES]]),
        [
            "the warpgroups wait for registers for ever: by `setmaxnreg` they ask for 240 + 240 + 240 + 24 = 744 per thread, and the block begins with 4 x 128 = 512, 232 fewer"
        ]
    );
    let mut k = KernelBuilder::new("k", Arch::Sm90a);
    k.block([256, 1, 1]).max_registers(128);
    k.set_max_registers(true, 136);
    assert_eq!(
        sentences(&k.finish()),
        [
            "the warpgroups wait for registers for ever: by `setmaxnreg` they ask for 136 + 136 = 272 per thread, and the block begins with 2 x 128 = 256, 16 fewer"
        ]
    );
}

#[test]
fn a_barrier_waits_for_threads_that_there_are() {
    let mut k = KernelBuilder::new("k", Arch::Sm90a);
    k.block([96, 1, 1]);
    for (id, threads) in [(1, 96), (2, 128)] {
        k.push(Sync::Barrier {
            op: BarrierOp::Arrive,
            id: id.into(),
            threads: Some(threads.into()),
        });
    }
    assert_eq!(
        sentences(&k.finish()),
        ["a barrier of 128 threads in a block of 96: it would wait for ever for the other 32"]
    );
}

/// A kernel that asks for too much is refused when it is loaded.
#[test]
fn a_device_refuses_it() {
    let kernel = warpgroups(&[vec![(true, 240)], vec![GIVES]], false);
    let refused = Device::simulator(Arch::Sm90a).load(&kernel).unwrap_err();
    assert!(refused.refused().is_some(), "{refused}");
}

/// What the verifier passes ends on the simulator in every order of the warpgroups; what it refuses does not.
#[test]
fn the_verifier_and_the_simulator_agree() {
    let mut state = 0x9e37_79b9_7f4a_7c15_u64;
    let mut below = |n: u64| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state >> 11) % n
    };
    let (mut passed, mut refused) = (0, 0);
    for case in 0..1200 {
        let groups = 1 + below(8);
        let near = 65536 / (128 * groups) / 8 * 8;
        let asks: Vec<Vec<Ask>> = (0..groups)
            .map(|group| {
                let count =
                    |low: u64, high: u64, dice: u64| (low + dice % (high - low + 1) / 8 * 8) as u32;
                match (group, below(8)) {
                    (_, 0) => vec![],
                    (0, _) => vec![(false, count(24, near.min(248), below(256)))],
                    (_, 1) => vec![(below(2) == 0, count(24, 256, below(256)))],
                    (_, 2) => vec![
                        (false, count(24, near.min(248), below(256))),
                        (true, count(near.min(248), 248, below(64))),
                    ],
                    _ => vec![(true, count(near.min(248), 256, below(96)))],
                }
            })
            .collect();
        let kernel = warpgroups(&asks, case % 2 == 0);
        let verdict = kernel.verify();
        let mut outcomes = Vec::new();
        for seed in [1, 7, 23] {
            let launch = Launch::new(1, 128 * groups as u32);
            let options = SimOptions::default().seed(seed);
            let ran = simulate(&kernel, &launch, &[], &mut Memory::default(), &options);
            outcomes.push(ran.is_ok());
        }
        match verdict {
            Ok(()) => {
                passed += 1;
                assert!(outcomes.contains(&true), "{asks:?} passes, and hangs");
            }
            Err(said) => {
                refused += 1;
                assert!(!outcomes.contains(&true), "{asks:?} runs: {said}");
            }
        }
    }
    assert!(passed > 300 && refused > 300, "{passed} {refused}");
    println!(
        "law verify.registers: {} cases, {refused} refused",
        passed + refused
    );
}

/// A kernel of this number of warpgroups that computes one `wgmma` of `columns` columns.
fn multiplies(groups: u32, columns: i64, a_in_shared: bool) -> Kernel {
    let name = if a_in_shared { "SS" } else { "RS" };
    let atom = colex_atom::mma(&format!("SM90_64x{columns}x16_F32BF16BF16_{name}"));
    let atom = atom.expect("the table has it");
    let mut k = KernelBuilder::new("k", Arch::Sm90a);
    k.block([128 * groups, 1, 1]).min_blocks(1);
    let d: Vec<_> = (0..columns / 2).map(|_| k.mov(Type::F32, 0.0)).collect();
    let b = k.mov(Type::U64, 0);
    let a = if a_in_shared {
        vec![b]
    } else {
        (0..4).map(|_| k.mov(Type::B32, 0)).collect()
    };
    k.wgmma_fence();
    k.wgmma(&atom, &d, &a, b, colex_ir::ScaleD::One);
    k.wgmma_commit();
    k.wgmma_wait(0);
    k.finish()
}

/// Attention of 256 features by three consumers, which the assembler of an H200's driver refused.
#[test]
fn law_a_thread_begins_with_the_registers_of_each_wgmma() {
    for groups in [1, 2, 3, 4, 5, 6, 8] {
        let entry = colex_ir::verify::registers_at_entry(128 * groups, 1);
        for columns in (8..=256).step_by(8) {
            for a_in_shared in [false, true] {
                let own = columns / 2 + if a_in_shared { 0 } else { 4 };
                let said = sentences(&multiplies(groups, columns, a_in_shared));
                if own + 26 <= i64::from(entry) {
                    assert_eq!(said, [""; 0]);
                } else {
                    assert_eq!(
                        said,
                        [format!(
                            "a `wgmma` of {own} registers takes at least {} at entry, and a thread begins with {entry}: the assembler counts no register that `setmaxnreg` gives later",
                            own + 26
                        )]
                    );
                }
            }
        }
    }
}
