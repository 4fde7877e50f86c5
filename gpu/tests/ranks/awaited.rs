//! The product of a rank's own chunk, whose epilogue waits for the terms of the other ranks and adds them.

use colex_atom::{Arch, Ty};
use colex_gpu::gemm::{Epilogue, GemmMethod, GemmPlan};
use colex_gpu::ir::launch::{Argument, Launch, TensorMapArgument};
use colex_gpu::ir::{Order, Scope};
use colex_gpu::sim::{Fault, FaultKind, Ranks, SimOptions};
use colex_gpu::tensor::{Arg, TensorKernel};
use colex_gpu::{Device, Gemm, View, ViewMut};
use colex_layout::Layout;
use half::bf16;

use super::chunks::{
    Change, Kind, RELEASED, SHAPE, Shape, Tells, change, layout, numbers, plan, with_engine,
};
use super::host::product;

const KINDS: [Kind; 4] = [
    Kind::Cooperative,
    Kind::Pingpong,
    Kind::Cluster,
    Kind::Gather,
];

/// The sum of the own term and those of the others, in the order of the ranks; rank 0 is the one whose sum it is.
fn epilogue(ranks: i64) -> Epilogue {
    Epilogue::new(Ty::F32, |e| {
        let others: Vec<_> = (1..ranks)
            .map(|rank| e.tensor(&format!("slot_{rank}"), Ty::F32))
            .collect();
        let own = e.accumulator();
        others.into_iter().fold(own, |sum, term| sum + term)
    })
    .unwrap()
}

fn of_a(shape: Shape) -> Layout {
    layout(&format!("({},{k}):({k},1)", shape.m, k = shape.k))
}

fn of_b(shape: Shape) -> Layout {
    layout(&format!("({},{k}):({k},1)", shape.n, k = shape.k))
}

/// The kernel as a library call has it.
fn built(shape: Shape, kind: Kind) -> TensorKernel {
    let device = Device::simulator(Arch::Sm90a);
    let a = device.upload(&numbers(shape.m * shape.k, 1)).unwrap();
    let b = device.upload(&numbers(shape.n * shape.k, 2)).unwrap();
    let each = (shape.m * shape.n) as usize;
    let mut c = device.poisoned::<f32>(each).unwrap();
    let slots: Vec<_> = (1..shape.chunks)
        .map(|_| device.zeros::<f32>(each).unwrap())
        .collect();
    let flags = device.zeros::<u32>(shape.chunks as usize).unwrap();
    let a = View::new(&a, of_a(shape)).unwrap();
    let b = View::new(&b, of_b(shape)).unwrap();
    let c = ViewMut::new(&mut c, shape.owned()).unwrap();
    let sum = epilogue(shape.chunks);
    let mut product = Gemm::new(&a, &b, &c).epilogue(&sum);
    for (slot, rank) in slots.iter().zip(1..) {
        let slot = View::new(slot, shape.owned()).unwrap();
        product = product.tensor(&format!("slot_{rank}"), &slot);
    }
    let product = product.awaits(&flags.view(shape.chunks).unwrap());
    let call = product
        .prepare_with(|operands, _| Ok(plan(kind, operands)))
        .unwrap();
    call.built().unwrap().clone()
}

/// What is wrong outside of the kernel.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Wrong {
    Nothing,
    /// The rank that brings the terms does not come in the last round.
    Absent,
    /// The same, and the round behind the flags is that of the round before.
    OldRound,
    /// The first of the others raises its flag in the place of another word.
    FlagElsewhere,
    /// The flag of the last of the others is set before the kernel, as if the kernel did not add this slot, and the rank raises the word
    /// for which a stream would wait then.
    TakenForLate,
}

fn terms(shape: Shape, rank: i64, round: i64) -> Vec<f32> {
    let number = |x: bf16| x.to_f32() / 3.0;
    let numbers = numbers(shape.m * shape.n, 50 * round + rank);
    numbers.into_iter().map(number).collect()
}

/// Runs the product on the owner while other ranks bring their terms, and returns the bits of its C.
fn summed(
    (shape, kind): (Shape, Kind),
    (how, tells, wrong): (Change, Tells, Wrong),
    (rounds, seed): (u32, u64),
) -> Result<Vec<u32>, Fault> {
    let others = shape.chunks as usize - 1;
    let mut built = built(shape, kind);
    let mut changed = 0;
    change(&mut built.kernel.body, how, &mut changed);
    assert_eq!(changed > 0, how != Change::Nothing);
    // One place of the list of an engine for each chunk but the first.
    let kernel = with_engine(&built.kernel, shape.chunks, tells);
    // The owner, and a rank that brings the terms of all others.
    let mut ranks = Ranks::connected(2).unwrap();
    ranks.host_joins(true);
    let bytes_c = (shape.m * shape.n * 4) as u64;
    let mut on =
        |rank: usize, bytes: u64| ranks.allocate(rank, bytes.next_multiple_of(256)).unwrap();
    let (at_a, at_b) = (
        on(0, (shape.m * shape.k * 2) as u64),
        on(0, (shape.n * shape.k * 2) as u64),
    );
    let at_c = on(0, bytes_c);
    let slots: Vec<u64> = (0..others).map(|_| on(0, bytes_c)).collect();
    let sources: Vec<u64> = (0..others).map(|_| on(1, bytes_c)).collect();
    let flags = on(0, 4 * others as u64 + 8);
    let halves =
        |numbers: &[bf16]| -> Vec<u8> { numbers.iter().flat_map(|x| x.to_le_bytes()).collect() };
    ranks.write(flags, &vec![0; 4 * others + 8]).unwrap();
    for slot in &slots {
        ranks.write(*slot, &vec![0x40; bytes_c as usize]).unwrap();
    }
    let cluster = built.kernel.cluster.map_or(1, |cluster| cluster[0]);
    let launch = Launch::new(2 * cluster, built.kernel.block.unwrap()[0])
        .cluster(cluster)
        .dynamic_shared(built.dynamic_shared());
    for round in 1..=rounds {
        let seed_of = i64::from(round) * 10;
        let a = numbers(shape.m * shape.k, seed_of + 1);
        let b = numbers(shape.n * shape.k, seed_of + 2);
        ranks.write(at_a, &halves(&a)).unwrap();
        ranks.write(at_b, &halves(&b)).unwrap();
        for (source, rank) in sources.iter().zip(1..) {
            let term = terms(shape, rank, i64::from(round));
            let bytes: Vec<u8> = term.iter().flat_map(|x| x.to_le_bytes()).collect();
            ranks.write(*source, &bytes).unwrap();
        }
        let said = match wrong {
            Wrong::OldRound => round.saturating_sub(1),
            Wrong::Nothing | Wrong::Absent | Wrong::FlagElsewhere | Wrong::TakenForLate => round,
        };
        if wrong == Wrong::TakenForLate {
            let last = flags + 4 * (others as u64 - 1);
            ranks.write(last, &round.to_le_bytes()).unwrap();
        }
        ranks
            .write(flags + 4 * others as u64, &said.to_le_bytes())
            .unwrap();
        let map = |name: &str, layout: Layout, address| {
            let map = built.tensor_map(name, layout).unwrap();
            let encoded = None;
            Argument::from(TensorMapArgument {
                map,
                address,
                encoded,
            })
        };
        let arguments = |place: usize| {
            let (of_a, of_b, owned) = (of_a(shape), of_b(shape), shape.owned());
            let words = layout(&format!("{}:1", shape.chunks));
            let mut given = if kind == Kind::Gather {
                vec![Arg::checked(at_a, &of_a), Arg::checked(at_b, &of_b)]
            } else {
                vec![
                    Arg::Value(map("A", of_a.clone(), at_a)),
                    Arg::Value(map("B", of_b.clone(), at_b)),
                ]
            };
            given.push(Arg::Value(map("C", owned.clone(), at_c)));
            let sizes = [shape.m, shape.n, shape.k];
            given.extend(sizes.map(|n| Arg::Value(Argument::U32(n as u32))));
            // TMA brings the first of the tensors.
            given.push(Arg::Value(map("slot_1", owned.clone(), slots[0])));
            given.extend(slots[1..].iter().map(|slot| Arg::checked(*slot, &owned)));
            given.push(Arg::checked(flags, &words));
            let mut all = built.arguments(&given).unwrap();
            let numbers = [place as u32, (bytes_c / 4) as u32, round];
            all.extend(numbers.map(Argument::U32));
            all.extend(sources.iter().map(|at| Argument::U64(*at)));
            all.extend(slots.iter().map(|at| Argument::U64(*at)));
            all.extend((0..others).map(|i| {
                let to = match wrong {
                    Wrong::FlagElsewhere if i == 0 => others + 1,
                    Wrong::TakenForLate if i + 1 == others => others + 1,
                    _ => i,
                };
                Argument::U64(flags + 4 * to as u64)
            }));
            Some(all)
        };
        let mut arguments: Vec<_> = (0..2).map(arguments).collect();
        if matches!(wrong, Wrong::Absent | Wrong::OldRound) && round == rounds {
            arguments[1] = None;
        }
        let options = SimOptions::default().seed(seed);
        ranks.simulate(&kernel, &launch, &arguments, &options)?;
    }
    let bytes = ranks.read(at_c, bytes_c).unwrap();
    let words = bytes.as_chunks::<4>().0.iter();
    Ok(words.map(|word| u32::from_le_bytes(*word)).collect())
}

/// The bits of the sum of a round.
fn expected(shape: Shape, round: i64) -> Vec<u32> {
    let device = Device::simulator(Arch::Sm90a);
    let a = numbers(shape.m * shape.k, 10 * round + 1);
    let b = numbers(shape.n * shape.k, 10 * round + 2);
    let mut sum = product(&device, [shape.m, shape.n, shape.k], &a, &b);
    for rank in 1..shape.chunks {
        let term = terms(shape, rank, round);
        sum.iter_mut().zip(term).for_each(|(sum, x)| *sum += x);
    }
    sum.iter().map(|x| x.to_bits()).collect()
}

const RIGHT: (Change, Tells, Wrong) = (Change::Nothing, RELEASED, Wrong::Nothing);

#[test]
fn law_terms_that_come_while_the_kernel_runs_are_added_in_order() {
    let mut cases = 0;
    for kind in KINDS {
        for chunks in [2, 3] {
            let shape = Shape { chunks, ..SHAPE };
            let expected = expected(shape, 2);
            for seed in 0..3 {
                let found = summed((shape, kind), RIGHT, (2, seed));
                let found = found.unwrap_or_else(|fault| panic!("{kind:?} {seed}: {fault}"));
                assert!(found == expected, "{kind:?} {chunks} {seed}");
                cases += 1;
            }
        }
    }
    println!("law ranks.awaited: {cases} cases");
}

/// The twin of all faults is the law above, under the same schedules.
#[test]
fn law_planted_faults_of_a_wait_for_terms_are_found() {
    let named = |(kind, chunks): (Kind, i64), of: (Change, Tells, Wrong)| {
        let shape = Shape { chunks, ..SHAPE };
        let faults = (0..3).filter_map(|seed| summed((shape, kind), of, (1, seed)).err());
        faults.collect::<Vec<Fault>>()
    };
    let all = |case, of: (Change, Tells, Wrong), kind: FaultKind, says: &str| {
        let faults = named(case, of);
        assert_eq!(faults.len(), 3, "{case:?} {of:?}");
        for fault in faults {
            assert_eq!(fault.kind(), kind, "{case:?} {of:?}: {fault}");
            assert!(fault.what().contains(says), "{case:?} {of:?}: {fault}");
        }
    };
    let changed = |how| (how, RELEASED, Wrong::Nothing);
    let told = |tells| (Change::Nothing, tells, Wrong::Nothing);
    let outside = |wrong| (Change::Nothing, RELEASED, wrong);
    // With three ranks, TMA brings one term and threads load the other.
    for case in [
        (Kind::Cooperative, 2),
        (Kind::Pingpong, 3),
        (Kind::Gather, 2),
    ] {
        all(case, changed(Change::Relaxed), FaultKind::Race, "acquir");
        all(case, changed(Change::OneDevice), FaultKind::Race, "`.sys`");
        all(case, changed(Change::NoWait), FaultKind::Race, "rank");
        let fence = "fence.proxy.async";
        all(
            case,
            changed(Change::NoFence),
            FaultKind::MissingFence,
            fence,
        );
        let one_device = Tells::After(Order::Release(Scope::Gpu));
        all(case, told(one_device), FaultKind::Race, "`.sys`");
        let relaxed = Tells::After(Order::Relaxed(Scope::Sys));
        all(case, told(relaxed), FaultKind::Race, "releas");
        all(case, told(Tells::Before), FaultKind::Race, "rank");
        let elsewhere = outside(Wrong::FlagElsewhere);
        all(case, elsewhere, FaultKind::Deadlock, "waits");
        all(case, outside(Wrong::TakenForLate), FaultKind::Race, "rank");
        // A rank that does not come in the last round: the others wait, unless they take the flags of the round before.
        all(case, outside(Wrong::Absent), FaultKind::Deadlock, "waits");
        let shape = Shape {
            chunks: case.1,
            ..SHAPE
        };
        let old = summed((shape, case.0), outside(Wrong::OldRound), (2, 0));
        assert!(old.unwrap() != expected(shape, 2), "{case:?}");
    }
}

#[test]
fn every_refusal_of_awaited_flags_verbatim() {
    let device = Device::simulator(Arch::Sm90a);
    let a = device.upload(&[bf16::ONE; 16 * 16]).unwrap();
    let other = device.upload(&[1f32; 256]).unwrap();
    let mut c = device.poisoned::<f32>(256).unwrap();
    let (x, term) = (a.view((16, 16)).unwrap(), other.view((16, 16)).unwrap());
    let c = c.view_mut((16, 16)).unwrap();
    let flags = device.zeros::<u32>(8).unwrap();
    let sum = epilogue(2);
    let product = || Gemm::new(&x, &x, &c).epilogue(&sum).tensor("slot_1", &term);
    let said = |product: Gemm<'_, bf16, f32>| product.run().unwrap_err().to_string();
    assert_eq!(
        said(Gemm::new(&x, &x, &c).awaits(&flags.view(2).unwrap())),
        "epilogue: the call waits for flags, and has no epilogue, before whose tensors a kernel waits"
    );
    assert_eq!(
        said(product().awaits(&flags.view(1).unwrap())),
        "epilogue: the flags for which it waits have 1 words: there is at least one flag, and the round behind the flags"
    );
    assert_eq!(
        said(product().awaits(&View::new(&flags, "3:2").unwrap())),
        "epilogue: the flags for which it waits are not contiguous"
    );
    let awaits = || product().awaits(&flags.view(2).unwrap());
    assert_eq!(
        said(awaits().method(GemmMethod::Ampere)),
        "epilogue: it waits for flags, and the Ampere kernel does not wait: the Hopper kernel does"
    );
    let with = |change: fn(GemmPlan) -> GemmPlan| {
        let call =
            awaits().prepare_with(|operands, _| Ok(change(plan(Kind::Cooperative, operands))));
        call.unwrap_err().to_string()
    };
    assert_eq!(
        with(|plan| GemmPlan { split: 2, ..plan }),
        "epilogue: it waits for flags, and the plan divides K among 2 clusters, whose parts another kernel adds"
    );
    assert_eq!(
        with(|plan| GemmPlan {
            early: true,
            ..plan
        }),
        "epilogue: it waits for flags, and the plan begins early: blocks that wait would keep multiprocessors from the kernels before"
    );
    let elsewhere = Device::simulator(Arch::Sm90a).zeros::<u32>(2).unwrap();
    let sentence = said(product().awaits(&elsewhere.view(2).unwrap()));
    assert!(
        sentence.starts_with("the flags of the epilogue "),
        "{sentence}"
    );
}
