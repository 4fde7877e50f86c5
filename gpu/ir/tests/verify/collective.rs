//! Instructions that threads execute together.

use colex_atom::{Arch, mma};
use colex_ir::{
    Access, BinaryOp, Compare, Control, Exchange, KernelBuilder, Reg, ShuffleMode, Space, Special,
    Sync, Type, VoteMode,
};

use super::{accepted, kernel, odd, sentences, thread};

/// The one mistake is that the threads of `group` are parted by the branch that `body` answers with.
#[track_caller]
fn parted(word: &str, group: &str, body: impl FnOnce(&mut KernelBuilder)) {
    let kernel = kernel(Arch::Sm90a, body);
    let [said] = &sentences(&kernel)[..] else {
        panic!("{:?} in {kernel}", sentences(&kernel))
    };
    let begin = format!(
        "`{word}` must be executed by all threads of {group} together, and gpu/ir/tests/verify/collective.rs:"
    );
    let end = " parts them: branch on something that is the same for all of them";
    assert!(said.starts_with(&begin) && said.ends_with(end), "{said}");
}

#[test]
fn branches_part_threads() {
    parted("barrier.sync", "the block", |k| {
        let p = odd(k);
        k.if_(p, |k| k.sync());
    });
    parted("shfl.bfly", "a warp", |k| {
        let (p, tid) = (odd(k), thread(k));
        k.if_(p, |k| {
            k.shuffle(ShuffleMode::Bfly, tid, 1);
        });
    });
    parted("vote.any", "a warp", |k| {
        let p = odd(k);
        k.when(p, |k| k.vote(VoteMode::Any, p));
    });
    parted("match.any.b32", "a warp", |k| {
        let (p, tid) = (odd(k), thread(k));
        k.if_(p, |k| {
            k.match_any(Type::B32, tid);
        });
    });
    // Each lane finds others, so the lanes part; all of them learn the same of all.
    parted("barrier.warp", "a warp", |k| {
        let tid = thread(k);
        let same = k.match_any(Type::B32, tid);
        let alone = k.setp(Compare::Eq, Type::U32, same, 1);
        k.if_(alone, |k| k.warp_sync());
    });
    parted("barrier.cluster.wait", "the block", |k| {
        let p = odd(k);
        k.if_else(p, |_| {}, |k| k.push(Sync::ClusterWait));
    });
    parted("barrier.warp", "a warp", |k| {
        let p = odd(k);
        k.loop_(|k| {
            k.break_if(p);
            k.warp_sync();
        });
    });
    parted("barrier.sync", "the block", |k| {
        let p = odd(k);
        k.when(p, |k| k.push(Control::Exit));
        k.sync();
    });
}

/// A predicate of the thread's index.
fn compared(k: &mut KernelBuilder, shift: u32, cmp: Compare, to: i64) -> Reg {
    let tid = thread(k);
    let shifted = k.shr(Type::U32, tid, shift);
    k.setp(cmp, Type::U32, shifted, to)
}

#[test]
fn warps_and_warpgroups_branch_as_one() {
    accepted(Arch::Sm90a, |k| {
        let p = compared(k, 5, Compare::Eq, 3);
        let tid = thread(k);
        k.if_(p, |k| {
            k.shuffle(ShuffleMode::Bfly, tid, 1);
            k.named_sync(1, 32);
        });
    });
    accepted(Arch::Sm90a, |k| {
        let p = compared(k, 7, Compare::Eq, 1);
        k.if_else(
            p,
            |k| k.set_max_registers(true, 248),
            |k| k.set_max_registers(false, 24),
        );
    });
    accepted(Arch::Sm90a, |k| {
        let p = compared(k, 0, Compare::Ge, 128);
        k.if_(p, |k| k.set_max_registers(false, 24));
    });
    parted("setmaxnreg.dec 24", "a warpgroup", |k| {
        let p = compared(k, 5, Compare::Eq, 3);
        k.if_(p, |k| k.set_max_registers(false, 24));
    });
    parted("setmaxnreg.dec 24", "a warpgroup", |k| {
        let p = compared(k, 0, Compare::Lt, 96);
        k.if_(p, |k| k.set_max_registers(false, 24));
    });
    parted("barrier.sync", "the block", |k| {
        let p = compared(k, 5, Compare::Eq, 3);
        k.if_(p, |k| k.sync());
    });
}

#[test]
fn what_a_warp_agrees_on() {
    let all = |make: fn(&mut KernelBuilder) -> Reg| {
        accepted(Arch::Sm90a, move |k| {
            let x = make(k);
            let p = k.setp(Compare::Ne, Type::U32, x, 0);
            k.if_(p, |k| k.warp_sync());
        });
    };
    all(|k| {
        let tid = thread(k);
        k.shuffle(ShuffleMode::Idx, tid, 0)
    });
    all(|k| {
        let p = odd(k);
        k.vote(VoteMode::Ballot, p)
    });
    all(|k| {
        let tid = thread(k);
        k.and(Type::B32, tid, 0xffff_ffe0u32)
    });
    all(|k| {
        let tid = thread(k);
        k.div(Type::U32, tid, 64)
    });
    all(|k| {
        let n = k.scalar("n", Type::U32);
        k.param(n)
    });
    all(|k| k.mov(Type::U32, Special::Ctaid(0)));
    all(|k| {
        let counter = k.shared("counter", 4, 4);
        k.load(Access::new(Space::Shared, Type::U32), counter)
    });
}

#[test]
fn what_a_warp_does_not_agree_on() {
    let none = |make: fn(&mut KernelBuilder) -> Reg| {
        parted("barrier.warp", "a warp", move |k| {
            let x = make(k);
            let p = k.setp(Compare::Ne, Type::U32, x, 0);
            k.if_(p, |k| k.warp_sync());
        });
    };
    none(|k| k.mov(Type::U32, Special::LaneId));
    none(|k| {
        let tid = thread(k);
        k.shuffle(ShuffleMode::Down, tid, 1)
    });
    none(|k| {
        let (tid, data) = (thread(k), k.pointer("data"));
        let (base, offset) = (k.param(data), k.mul_wide(Type::U32, tid, 4));
        let address = k.add(Type::S64, base, offset);
        k.load(Access::new(Space::Global, Type::U32), address)
    });
    // Written by some of the lanes only, or in turns of a loop that lanes leave one by one.
    none(|k| {
        let (x, p) = (k.mov(Type::U32, 0), odd(k));
        k.when(p, |k| k.mov_to(x, 1));
        x
    });
    none(|k| {
        let (x, p) = (k.mov(Type::U32, 0), odd(k));
        k.if_else(p, |k| k.mov_to(x, 1), |k| k.mov_to(x, 2));
        x
    });
    none(|k| {
        let (x, tid) = (k.mov(Type::U32, 0), thread(k));
        k.loop_(|k| {
            let p = k.setp(Compare::Ge, Type::U32, x, tid);
            k.break_if(p);
            k.binary_to(BinaryOp::Add, Type::U32, x, x, 1);
        });
        x
    });
}

#[test]
fn loops_of_the_whole_block_keep_it_together() {
    accepted(Arch::Sm90a, |k| {
        let n = k.scalar("n", Type::U32);
        let n = k.param(n);
        k.for_range(0, n, 1, |k, _| k.sync());
        k.sync();
    });
    accepted(Arch::Sm90a, |k| {
        let tid = thread(k);
        // Lanes leave one by one, and meet again where the loop ends.
        k.for_range(0, tid, 1, |_, _| {});
        k.sync();
    });
}

/// A trap ends the grid, so the threads that go on are still all of them; an exit ends a thread.
#[test]
fn a_trap_parts_no_threads() {
    let ended = |control: Control| {
        let mut k = KernelBuilder::new("k", Arch::Sm80);
        k.block([64, 1, 1]);
        let p = odd(&mut k);
        k.when(p, |k| k.push(control));
        k.sync();
        sentences(&k.finish()).len()
    };
    assert_eq!((ended(Control::Trap), ended(Control::Exit)), (0, 1));
}

#[test]
fn threads_of_two_extents() {
    let row = |block: [u32; 3]| {
        let mut k = KernelBuilder::new("k", Arch::Sm80);
        k.block(block);
        let y = k.mov(Type::U32, Special::Tid(1));
        let p = k.setp(Compare::Eq, Type::U32, y, 1);
        k.if_(p, |k| k.warp_sync());
        sentences(&k.finish()).len()
    };
    assert_eq!(
        (row([32, 8, 1]), row([64, 2, 1]), row([16, 8, 1])),
        (0, 0, 1)
    );
}

#[test]
fn whole_groups() {
    let atom = mma("SM80_16x8x16_F32F16F16F32_TN").expect("it is in the table");
    let mut k = KernelBuilder::new("k", Arch::Sm80);
    k.block([48, 1, 1]);
    let (x, f) = (k.mov(Type::U32, 0), k.mov(Type::F32, 0.0));
    k.mma_atom(&atom, &[f; 4], &[x; 4], &[x; 2], &[f; 4]);
    assert_eq!(
        sentences(&k.finish()),
        [
            "`mma SM80_16x8x16_F32F16F16F32_TN` is executed by 32 threads together, and the block has 48: make it a multiple of 32"
        ]
    );
}

#[test]
fn operands_that_must_agree() {
    let kernel = kernel(Arch::Sm90a, |k| {
        let tid = thread(k);
        let id = k.and(Type::B32, tid, 7);
        k.named_sync(id, 64);
    });
    assert_eq!(
        sentences(&kernel),
        [
            "`barrier.sync` needs %r1 to be the same in all threads of a warp: broadcast it with a shuffle of lane 0, or compute it from what they share"
        ]
    );
}

/// Warps with one value have one answer of theirs, but for those that count lanes: the last warp of a block may have fewer.
#[test]
fn warps_of_one_value_may_have_other_lanes() {
    type Answer = fn(&mut KernelBuilder) -> Reg;
    let voted = |k: &mut KernelBuilder, mode: VoteMode| {
        let n = k.scalar("n", Type::U32);
        let n = k.param(n);
        let p = k.setp(Compare::Ne, Type::U32, n, 0);
        k.vote(mode, p)
    };
    fn bitwise(op: BinaryOp) -> bool {
        matches!(op, BinaryOp::And | BinaryOp::Or | BinaryOp::Xor)
    }
    fn reduced(k: &mut KernelBuilder, op: BinaryOp) -> Reg {
        let n = k.scalar("n", Type::U32);
        let n = k.param(n);
        let d = k.reg(colex_ir::RegType::B32);
        k.push(Exchange::Redux {
            op,
            ty: if bitwise(op) { Type::B32 } else { Type::U32 },
            d,
            a: n.into(),
            mask: 0xffff_ffff_u32.into(),
        });
        d
    }
    let waits = |k: &mut KernelBuilder, p: Reg| k.if_(p, |k| k.sync());
    let compared = |k: &mut KernelBuilder, x: Reg| k.setp(Compare::Gt, Type::U32, x, 20);
    let counting: [Answer; 4] = [
        |k| reduced(k, BinaryOp::Add),
        |k| reduced(k, BinaryOp::Xor),
        |k| {
            let n = k.scalar("n", Type::U32);
            let n = k.param(n);
            k.match_all(Type::B32, n).0
        },
        |k| {
            let n = k.scalar("n", Type::U32);
            let n = k.param(n);
            let p = k.setp(Compare::Ne, Type::U32, n, 0);
            k.vote(VoteMode::Ballot, p)
        },
    ];
    let other: [Answer; 4] = [
        |k| reduced(k, BinaryOp::Min),
        |k| reduced(k, BinaryOp::Max),
        |k| reduced(k, BinaryOp::And),
        |k| reduced(k, BinaryOp::Or),
    ];
    let mut cases = 0;
    for threads in [16_u32, 32, 48, 64, 1000, 1024] {
        // One warp alone agrees, however many lanes it has.
        let is_whole = threads <= 32 || threads.is_multiple_of(32);
        let said = |body: &dyn Fn(&mut KernelBuilder)| {
            let kernel = kernel(Arch::Sm90a, |k| {
                k.block([threads, 1, 1]);
                body(k);
            });
            sentences(&kernel).len()
        };
        for (answers, is_counted) in [(counting, true), (other, false)] {
            for answer in answers {
                let mistakes = said(&|k| {
                    let x = answer(k);
                    let p = compared(k, x);
                    waits(k, p);
                });
                assert_eq!(
                    mistakes,
                    usize::from(is_counted && !is_whole),
                    "{threads} threads"
                );
                cases += 1;
            }
        }
        for mode in [VoteMode::All, VoteMode::Any, VoteMode::Uni] {
            let mistakes = said(&|k| {
                let p = voted(k, mode);
                waits(k, p);
            });
            assert_eq!(mistakes, 0, "{threads} threads");
            cases += 1;
        }
    }
    println!("law warps_of_one_value: {cases} cases");
}
