//! Two rounds of a product in one launch. On a device a rank begins its next round while other ranks are in the last one, and what orders
//! the two is that a rank says when it is ready. A launch of the simulator ends on all ranks, so that two of them never overlap. Here one
//! launch has both rounds: the second half of the blocks of a rank waits for the first half, as a stream does, and for nothing else.

use colex_atom::Arch;
use colex_gpu::ir::launch::{Argument, Launch};
use colex_gpu::ir::{
    Access, Address, Alu, AtomicOp, Compare, Guard, Kernel, KernelBuilder, Memory, Op, Operand,
    Order, Reg, RegType, Scope, Space, Special, Type,
};
use colex_gpu::ranks::{RankBuffers, RankPlan};
use colex_gpu::sim::{Ranks, SimOptions};
use colex_sched::Overlap;

use super::planted::{remove, waits};
use super::{Change, OVERLAPS, bits, change, expected, small};

/// The kernel with twice as many blocks, of which the second half computes the next round.
fn two_rounds(kernel: &Kernel, blocks: u32) -> Kernel {
    let is_block = |op: &Op| {
        matches!(
            op,
            Op::Alu(Alu::Mov {
                a: Operand::Special(Special::Ctaid(0)),
                ..
            })
        )
    };
    let at = kernel.body.iter().position(|stmt| is_block(&stmt.op));
    let (prologue, rest) = kernel.body.split_at(at.expect("a block has a number") + 1);
    let Some(Op::Alu(Alu::Mov { d: block, .. })) = prologue.last().map(|stmt| stmt.op.clone())
    else {
        panic!("a block has a number");
    };
    // The parameters begin with the rank and the round.
    let round = Reg {
        index: 1,
        ty: block.ty,
    };
    let mut k = KernelBuilder::new(&kernel.name, kernel.target);
    for param in &kernel.params {
        k.parameter(&param.name, param.ty);
    }
    let progress = k.pointer("progress");
    for (ty, count) in RegType::ALL.iter().zip(kernel.registers) {
        k.regs(*ty, count as usize);
    }
    for stmt in prologue {
        k.push(stmt.op.clone());
    }
    let progress = k.param(progress);
    let thread = k.mov(Type::U32, Special::Tid(0));
    let first = k.setp(Compare::Eq, Type::U32, thread, 0);
    let is_second = k.setp(Compare::Ge, Type::U32, block, i64::from(blocks));
    let word = Access::new(Space::Global, Type::U32);
    k.if_(is_second, |k| {
        let (number, next) = (
            k.sub(Type::U32, block, i64::from(blocks)),
            k.add(Type::U32, round, 1),
        );
        k.mov_to(block, number);
        k.mov_to(round, next);
        k.if_(first, |k| {
            k.loop_(|k| {
                let ended = k.load(word.order(Order::Acquire(Scope::Gpu)), progress);
                let all = k.setp(Compare::Ge, Type::U32, ended, i64::from(blocks));
                k.break_if(all);
            });
        });
    });
    k.sync();
    let not_second = Guard {
        pred: is_second,
        when: false,
    };
    // These two come behind the rest.
    k.sync();
    k.if_(first, |k| {
        k.if_(not_second, |k| {
            k.push(Memory::Reduce {
                op: AtomicOp::Add,
                space: Space::Global,
                ty: Type::U32,
                order: Order::Release(Scope::Gpu),
                a: Address::from(progress),
                s: vec![Operand::Int(1)],
            });
        });
    });
    let mut both = k.finish();
    let behind = both.body.len() - 2;
    both.body.splice(behind..behind, rest.iter().cloned());
    both
}

/// Whether two rounds in flight are right, without a fault of the simulator.
fn is_right(plan: &RankPlan, kernel: &Kernel, seed: u64) -> bool {
    let count = plan.problem().ranks as usize;
    let launch = plan.launch().unwrap();
    let blocks = launch.grid[0];
    let kernel = two_rounds(kernel, blocks);
    let mut ranks = Ranks::connected(count).unwrap();
    let buffers = RankBuffers::new(plan, &mut ranks).unwrap();
    let [a, b, c] = expected(plan.problem(), 1);
    buffers.write(&mut ranks, &a, &b).unwrap();
    let arguments = (0..count).map(|rank| {
        let progress = ranks.allocate(rank, 4).unwrap();
        ranks.write(progress, &[0; 4]).unwrap();
        let mut all = buffers.arguments(rank, 1).unwrap();
        all.push(Argument::Pointer(progress));
        Some(all)
    });
    let arguments: Vec<_> = arguments.collect();
    let options = SimOptions::default().seed(seed);
    let launch = Launch::new(2 * blocks, launch.block[0]);
    let ran = ranks.simulate(&kernel, &launch, &arguments, &options);
    ran.is_ok() && bits(&buffers.read(&ranks).unwrap()) == bits(&c)
}

const SEEDS: u64 = 6;

/// The places of a change that are found under some schedule, and their number.
fn found(plan: &RankPlan, alter: &dyn Fn(&mut Kernel, i64) -> bool) -> (Vec<i64>, i64) {
    let mut found = Vec::new();
    for place in 0.. {
        let mut kernel = plan.kernel(Arch::Sm90a).unwrap();
        if !alter(&mut kernel, place) {
            return (found, place);
        }
        if !(0..SEEDS).all(|seed| is_right(plan, &kernel, seed)) {
            found.push(place);
        }
    }
    unreachable!("a kernel has an end")
}

/// Every release, acquire, barrier and wait, those of what is ready too, which one round does not need.
///
/// An all-reduce is the exception: the kernel of a rank ends after the sums of all owners have come, and an owner sends its sums after it has read
/// what the others wrote. So the end of a round orders the next one, and only the scope of what is ready has to be that of the system, since
/// accesses of another scope race by themselves.
#[test]
fn law_two_rounds_in_flight_need_all_that_orders_them() {
    let mut cases = 0;
    for overlap in OVERLAPS {
        let plan = small(overlap);
        let twin = plan.kernel(Arch::Sm90a).unwrap();
        for seed in 0..SEEDS {
            assert!(is_right(&plan, &twin, seed), "{overlap} under {seed}");
        }
        for how in [Change::Relaxed, Change::OneDevice, Change::NoBarrier] {
            let alter = |kernel: &mut Kernel, place: i64| {
                let mut left = place;
                change(&mut kernel.body, how, &mut left);
                left < 0
            };
            let (found, all) = found(&plan, &alter);
            // Ready set for two others and awaited, then the barrier behind that.
            let first = match (overlap, how) {
                (Overlap::ProductReduce, Change::Relaxed) => 3,
                (Overlap::ProductReduce, Change::NoBarrier) => 1,
                _ => 0,
            };
            assert_eq!(
                found,
                (first..all).collect::<Vec<_>>(),
                "{overlap}, {how:?}"
            );
            cases += all;
        }
        let alter = |kernel: &mut Kernel, place: i64| {
            let mut left = place;
            remove(&mut kernel.body, &waits, &mut left);
            left < 0
        };
        let (found, all) = found(&plan, &alter);
        let first = i64::from(overlap == Overlap::ProductReduce);
        assert_eq!(
            found,
            (first..all).collect::<Vec<_>>(),
            "{overlap}, no wait"
        );
        cases += all;
    }
    println!("law ranks.two_rounds_in_flight: {cases} places");
}
