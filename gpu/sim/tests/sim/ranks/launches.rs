//! Launches on several devices: which are refused, and what they compute.

use colex_atom::{TmaElement, TmaSwizzle, copy};
use colex_ir::launch::{Argument, Launch};
use colex_ir::{Compare, Memory, Type};
use colex_sim::{FaultKind, Ranks, SimOptions};

use super::{ACQUIRE, Machine, RELEASE, Stage};
use crate::bulk::{argument, load_kernel_at, tensor};
use crate::helpers::global;

#[test]
fn machines_and_launches_that_are_none() {
    for ranks in [0, 65, usize::MAX] {
        let error = Ranks::new(ranks).unwrap_err();
        assert!(error.is_rank());
        assert_eq!(
            error.to_string(),
            format!("a machine of {ranks} ranks: 1 to 64 are possible")
        );
    }
    let mut ranks = Ranks::new(64).unwrap();
    let sentence = "rank 64 of a machine of 64 ranks, numbered from 0";
    let errors = [
        ranks.allocate(64, 8).map(|_| ()),
        ranks.enable_peer_access(64, 0),
        ranks.enable_peer_access(0, 64),
    ];
    for error in errors {
        assert_eq!(error.unwrap_err().to_string(), sentence);
    }
    assert!(ranks.reaches(3, 3) && !ranks.reaches(64, 64) && !ranks.reaches(0, 1));

    let kernel = Stage::kernel(|_| {});
    let mut machine = Machine::new(2, true);
    let launch = Launch::new(1, 1);
    let options = SimOptions::default();
    let some = Some(machine.arguments(0));
    let cases = [
        (
            vec![some.clone()],
            "arguments for 1 ranks, and the machine has 2: one list for each, `None` for a rank that is not launched",
        ),
        (vec![None, None], "none of the 2 ranks is launched"),
        (
            vec![some, Some(Vec::new())],
            "rank 1: the kernel has 8 parameters, and 0 arguments were given",
        ),
    ];
    for (arguments, sentence) in cases {
        let ran = machine
            .ranks
            .simulate(&kernel, &launch, &arguments, &options);
        let fault = ran.unwrap_err();
        assert_eq!(fault.kind(), FaultKind::Launch);
        assert_eq!(fault.what(), sentence);
    }
    let arguments: Vec<_> = (0..2).map(|rank| Some(machine.arguments(rank))).collect();
    let few = SimOptions {
        max_blocks: 3,
        ..options
    };
    let launch = Launch::new(2, 1);
    let ran = machine.ranks.simulate(&kernel, &launch, &arguments, &few);
    assert_eq!(
        ran.unwrap_err().what(),
        "the grid has 4 blocks, and `SimOptions::max_blocks` allows 3: launch fewer on the simulator, or raise that bound"
    );
}

/// A sum over a ring: each rank adds its number to what comes from the left, twice around.
#[test]
fn law_a_ring_gives_one_sum_for_every_number_of_ranks_under_every_schedule() {
    let mut cases = 0;
    for count in 1..=6usize {
        let last = count as i64 - 1;
        let kernel = Stage::kernel(|s| {
            let first = s.k.setp(Compare::Eq, Type::U32, s.rank, 0);
            for round in 0..2i64 {
                let (rank, data, right) = (s.rank, s.data, s.right);
                if round == 0 {
                    // Rank 0 begins the sum.
                    let flag = s.word(s.flags, 0);
                    s.k.if_(first, |k| {
                        k.store(global(Type::U32).order(RELEASE), flag, 1)
                    });
                }
                s.wait(round, ACQUIRE, 1);
                let sum = s.read(data, round);
                let sum = s.k.add(Type::U32, sum, rank);
                let (to, again) = (s.word(right, round), s.word(right, round + 1));
                let is_last = s.k.setp(Compare::Eq, Type::U32, rank, last);
                let (flag, next) = (
                    s.word(s.right_flags, round),
                    s.word(s.right_flags, round + 1),
                );
                s.k.if_else(
                    is_last,
                    |k| {
                        k.store(global(Type::U32), again, sum);
                        k.store(global(Type::U32).order(RELEASE), next, 1);
                    },
                    |k| {
                        k.store(global(Type::U32), to, sum);
                        k.store(global(Type::U32).order(RELEASE), flag, 1);
                    },
                );
            }
            // The last one writes into the memory of rank 0.
            let flag = s.word(s.flags, 2);
            s.k.if_(first, |k| {
                k.loop_(|k| {
                    let seen = k.load(global(Type::U32).order(ACQUIRE), flag);
                    let there = k.setp(Compare::Ne, Type::U32, seen, 0);
                    k.break_if(there);
                });
            });
        });
        for seed in 0..6 {
            let mut machine = Machine::new(count, true);
            let report = machine.run(&kernel, Launch::new(1, 1), None, seed);
            assert_eq!(report.unwrap().blocks, count as u64);
            let sum = (0..count as u32).sum::<u32>();
            assert_eq!(machine.words(machine.data[0])[1..3], [sum, 2 * sum]);
            cases += 1;
        }
    }
    println!("law ranks.ring: {cases} cases");
}

/// The host waits for all ranks: then a rank may end before others have used its memory.
#[test]
fn the_host_may_join_the_ranks() {
    let kernel = Stage::kernel(|s| s.write(s.right, 0, 7));
    for seed in 0..4 {
        let mut machine = Machine::new(3, true);
        let ran = machine.run(&kernel, Launch::new(1, 1), None, seed);
        assert_eq!(ran.unwrap_err().kind(), FaultKind::EarlyExit);
        machine.ranks.host_joins(true);
        machine.run(&kernel, Launch::new(1, 1), None, seed).unwrap();
        assert!(machine.data.iter().all(|at| machine.words(*at)[0] == 7));
    }
}

/// The ranks have tensor maps at the same addresses of their parameters, each of its own memory.
#[test]
fn each_rank_loads_by_its_own_tensor_map() {
    let map = tensor(1, TmaSwizzle::None, TmaElement::U32);
    let bytes = map.box_bytes() as u64;
    let kernel = load_kernel_at(&copy("SM90_TMA_LOAD_1D").unwrap(), &[0], &[], bytes as i64);
    let launch = Launch::new(2, 32).dynamic_shared(bytes as u32);
    for seed in 0..4 {
        let mut ranks = Ranks::new(3).unwrap();
        let mut on = |rank: usize, bytes: u64| ranks.allocate(rank, bytes).unwrap();
        let at = [0, 1, 2].map(|rank| [on(rank, map.tensor_bytes() as u64), on(rank, bytes)]);
        let filled = |rank: usize| vec![rank as u8 + 1; map.tensor_bytes() as usize];
        let mut arguments = Vec::new();
        for (rank, [from, to]) in at.into_iter().enumerate() {
            ranks.write(from, &filled(rank)).unwrap();
            arguments.push(Some(vec![argument(&map, from), Argument::Pointer(to)]));
        }
        let options = SimOptions::default().seed(seed);
        ranks
            .simulate(&kernel, &launch, &arguments, &options)
            .unwrap();
        for (rank, [_, to]) in at.into_iter().enumerate() {
            assert_eq!(
                ranks.read(to, bytes).unwrap(),
                filled(rank)[..bytes as usize]
            );
        }
    }
}

/// Grids of many blocks: each block of a rank waits for the flag of the same block of the rank before.
#[test]
fn law_blocks_of_several_ranks_meet_in_pairs() {
    let mut cases = 0;
    for (blocks, cluster) in [(1, 1), (4, 1), (4, 2), (12, 4)] {
        let kernel = Stage::kernel(|s| {
            let block = s.k.mov(Type::U32, colex_ir::Special::Ctaid(0));
            let offset = s.k.mul_wide(Type::U32, block, 4);
            let [right, right_flag, data, flag] = [s.right, s.right_flags, s.data, s.flags]
                .map(|base| s.k.add(Type::S64, base, offset));
            let value = s.k.mad(Type::U32, s.rank, 100, block);
            s.k.store(global(Type::U32), right, value);
            s.k.store(global(Type::U32).order(RELEASE), right_flag, 1);
            s.k.loop_(|k| {
                let seen = k.load(global(Type::U32).order(ACQUIRE), flag);
                let there = k.setp(Compare::Ne, Type::U32, seen, 0);
                k.break_if(there);
            });
            let x = s.k.load(global(Type::U32), data);
            let x = s.k.add(Type::U32, x, 1);
            s.k.store(global(Type::U32), data, x);
        });
        for seed in 0..4 {
            let mut machine = Machine::new(3, true);
            let launch = Launch::new(blocks, 1).cluster(cluster);
            machine.run(&kernel, launch, None, seed).unwrap();
            for rank in 0..3u32 {
                let words = machine.words(machine.data[rank as usize]);
                let expected: Vec<u32> =
                    (0..blocks).map(|b| (rank + 2) % 3 * 100 + b + 1).collect();
                assert_eq!(words[..blocks as usize], expected);
            }
            cases += 1;
        }
    }
    println!("law ranks.pairs: {cases} cases");
}

/// A wait by an atomic operation that changes nothing hangs as one by loads does.
#[test]
fn a_wait_by_an_atomic_operation_ends_too() {
    let kernel = Stage::kernel(|s| {
        let a = s.word(s.flags, 0);
        s.k.loop_(|k| {
            let seen = k.reg(Type::U32.register());
            k.push(Memory::Atomic {
                op: colex_ir::AtomicOp::Or,
                space: colex_ir::Space::Global,
                ty: Type::B32,
                order: ACQUIRE,
                d: seen,
                a,
                s: colex_ir::Operand::Int(0),
                t: None,
            });
            let there = k.setp(Compare::Ne, Type::U32, seen, 0);
            k.break_if(there);
        });
    });
    let mut machine = Machine::new(2, true);
    let fault = machine
        .run(&kernel, Launch::new(1, 1), None, 0)
        .unwrap_err();
    assert_eq!(
        fault.what(),
        "no rank can continue: rank 0 waits for byte 0 of `flags` of rank 0, which holds 0; rank 1 waits for byte 0 of `flags` \
         of rank 1, which holds 0"
    );
}
