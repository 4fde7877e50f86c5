//! Reductions of bulk copies: atomic with each other on one device, and with no other access.

use colex_ir::launch::{Argument, Launch};
use colex_ir::{
    Address, AtomicOp, Base, Compare, CopyArgs, End, FenceKind, Kernel, KernelBuilder, Memory,
    Operand, Order, Scope, Space, Special, Type,
};
use colex_sim::{Fault, FaultKind, Ranks, SimOptions};

use crate::helpers::*;

/// What the other block, or the block of the other rank, does.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Other {
    Reduces,
    Stores,
    Loads,
    LoadsRelaxed,
    ReducesByThreads,
}

const OTHERS: [Other; 5] = [
    Other::Reduces,
    Other::Stores,
    Other::Loads,
    Other::LoadsRelaxed,
    Other::ReducesByThreads,
];

/// A thread adds 1 to four words by a bulk copy, or does something else where the argument `role` and the number of the block are 1.
fn build(other: Other) -> Kernel {
    let mut k = kernel("reduce");
    let (sums, role) = (k.pointer("sums"), k.scalar("role", Type::U32));
    let (sums, role) = (k.param(sums), k.param(role));
    k.dynamic_shared(16);
    let ones = k.address_of(Base::DynamicShared);
    let block = k.mov(Type::U32, Special::Ctaid(0));
    let number = k.add(Type::U32, block, role);
    let is_other = k.setp(Compare::Ge, Type::U32, number, 1);
    let reduce = |k: &mut KernelBuilder| {
        for i in 0..4 {
            let one = k.mov(Type::U32, 1);
            k.store(shared(Type::U32), Address::from(ones).at(4 * i), one);
        }
        k.fence(FenceKind::ProxyAsyncShared);
        let add = colex_atom::copy("SM90_BULK_REDUCE_ADD_U32_S2G").unwrap();
        let (dst, src) = (End::Memory(sums.into()), End::Memory(ones.into()));
        let size = Some(16.into());
        k.copy_atom(
            &add,
            CopyArgs {
                dst,
                src,
                size,
                ..CopyArgs::default()
            },
        );
        k.bulk_commit();
        k.bulk_wait(0, false);
    };
    k.if_else(
        is_other,
        |k| {
            let word = global(Type::U32);
            match other {
                Other::Reduces => reduce(k),
                Other::Stores => k.store(word, sums, 9),
                Other::Loads => {
                    k.load(word, sums);
                }
                Other::LoadsRelaxed => {
                    k.load(word.order(Order::Relaxed(Scope::Sys)), sums);
                }
                Other::ReducesByThreads => k.push(Memory::Reduce {
                    op: AtomicOp::Add,
                    space: Space::Global,
                    ty: Type::U32,
                    order: Order::Relaxed(Scope::Sys),
                    a: sums.into(),
                    s: vec![Operand::Int(1)],
                }),
            }
        },
        reduce,
    );
    k.finish()
}

/// Two blocks of one rank, or a block of each of two.
fn run(other: Other, (count, meet): (usize, bool), seed: u64) -> Result<u32, Fault> {
    let mut ranks = Ranks::connected(count).unwrap();
    ranks.host_joins(true);
    ranks.reductions_meet(meet);
    let sums = ranks.allocate(0, 16).unwrap();
    ranks.write(sums, &[0; 16]).unwrap();
    let arguments = |rank: usize| Some(vec![Argument::Pointer(sums), Argument::U32(rank as u32)]);
    let arguments: Vec<_> = (0..count).map(arguments).collect();
    let launch = Launch::new(2 / count as u32, 1).dynamic_shared(16);
    let options = SimOptions::default().seed(seed);
    ranks.simulate(&build(other), &launch, &arguments, &options)?;
    let bytes = ranks.read(sums, 4).unwrap();
    Ok(u32::from_le_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]))
}

#[test]
fn law_reductions_of_copies_are_atomic_with_each_other_alone() {
    let mut cases = 0;
    for other in OTHERS {
        for (count, meet) in [(1, false), (1, true), (2, false), (2, true)] {
            for seed in 0..6 {
                let ran = run(other, (count, meet), seed);
                let case = format!("{other:?} {count} {meet} {seed}");
                if other == Other::Reduces && (count == 1 || meet) {
                    assert_eq!(ran.unwrap(), 2, "{case}");
                } else {
                    let fault = ran.expect_err(&case);
                    assert_eq!(fault.kind(), FaultKind::Race, "{case}: {fault}");
                }
                cases += 1;
            }
        }
    }
    println!("law sim.reductions: {cases} cases");
}

/// The same on one device without ranks.
#[test]
fn reductions_of_blocks_have_one_sum() {
    for other in OTHERS {
        let mut host = Host::default();
        let sums = host.bytes(&[0; 16]);
        host.arguments.push(Argument::U32(0));
        let launch = Launch::new(2, 1).dynamic_shared(16);
        let ran = host.run_with(&build(other), launch, &SimOptions::default());
        assert_eq!(ran.is_ok(), other == Other::Reduces, "{other:?}: {ran:?}");
        if other == Other::Reduces {
            assert_eq!(host.memory.read(sums, 4).unwrap(), 2u32.to_le_bytes());
        }
    }
}
