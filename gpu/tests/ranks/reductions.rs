//! Terms that kernels of several devices add to the sum in the memory of its owner, by reductions of TMA.

use std::time::Duration;

use colex_atom::Arch;
use colex_gpu::gemm::ChunkOrder;
use colex_gpu::ir::launch::{Argument, Launch, TensorMapArgument};
use colex_gpu::ir::{
    Access, Compare, FenceKind, Kernel, KernelBuilder, Order, Reg, RegType, Scope, Space, Special,
    Type,
};
use colex_gpu::ranks::{
    ProcessProduct, RankOptions, RankPath, RankProblem, RankProduct, RankSends, RankSums,
};
use colex_gpu::sim::{Fault, FaultKind, Ranks, SimOptions};
use colex_gpu::tensor::{Arg, TensorKernel};
use colex_gpu::{Device, Gemm, View, ViewMut};
use colex_layout::Layout;
use colex_sched::Overlap;
use half::bf16;

use super::chunks::{Kind, SHAPE, Shape, layout, numbers, plan};
use super::host::{LONG, device, give, product, ran, together};

const KINDS: [Kind; 3] = [Kind::Cooperative, Kind::Pingpong, Kind::Cluster];

/// Small integers, whose products have sums that f32 holds exactly.
fn integers(count: i64, seed: i64) -> Vec<bf16> {
    let number = |i: i64| ((i * i * 31 + i * 17 + seed * 101 + 7) % 1009 % 5 - 2) as f32;
    (0..count).map(|i| bf16::from_f32(number(i))).collect()
}

/// A product whose chunks are added, or stored, as a library call has it.
fn built(shape: Shape, kind: Kind, adds: bool) -> TensorKernel {
    let device = Device::simulator(Arch::Sm90a);
    let a = device
        .upload(&numbers(shape.m * shape.k * shape.chunks, 1))
        .unwrap();
    let b = device.upload(&numbers(shape.n * shape.k, 2)).unwrap();
    let each = (shape.m * shape.n) as usize;
    let all = 0..shape.chunks;
    let mut c: Vec<_> = all.map(|_| device.zeros::<f32>(each).unwrap()).collect();
    let a = View::new(&a, shape.a()).unwrap();
    let b = View::new(&b, shape.b()).unwrap();
    let owners = c
        .iter_mut()
        .map(|c| ViewMut::new(c, shape.owned()).unwrap());
    let owners: Vec<_> = owners.collect();
    let product = Gemm::to_owners(&a, &b, &owners).unwrap();
    let product = product.chunks(ChunkOrder::Ascending, 0);
    let product = if adds { product.adds() } else { product };
    let call = product
        .prepare_with(|operands, _| Ok(plan(kind, operands)))
        .unwrap();
    call.built().unwrap().clone()
}

#[test]
fn law_a_chunk_is_added_to_what_its_owner_has() {
    let mut cases = 0;
    for kind in [
        Kind::Cooperative,
        Kind::Pingpong,
        Kind::Cluster,
        Kind::Gather,
    ] {
        for chunks in [2, 3] {
            let shape = Shape {
                m: 72,
                chunks,
                ..SHAPE
            };
            let device = Device::simulator(Arch::Sm90a);
            let (a, b) = (
                numbers(shape.m * shape.k * chunks, 1),
                numbers(shape.n * shape.k, 2),
            );
            let terms = product(&device, [shape.m * chunks, shape.n, shape.k], &a, &b);
            let each = (shape.m * shape.n) as usize;
            let old: Vec<f32> = (0..each).map(|i| (i % 37) as f32 / 3.0 - 5.0).collect();
            let (a, b) = (device.upload(&a).unwrap(), device.upload(&b).unwrap());
            let mut c: Vec<_> = (0..chunks).map(|_| device.upload(&old).unwrap()).collect();
            {
                let a = View::new(&a, shape.a()).unwrap();
                let b = View::new(&b, shape.b()).unwrap();
                let owners = c
                    .iter_mut()
                    .map(|c| ViewMut::new(c, shape.owned()).unwrap());
                let owners: Vec<_> = owners.collect();
                let product = Gemm::to_owners(&a, &b, &owners).unwrap();
                let product = product.chunks(ChunkOrder::Ascending, chunks - 1).adds();
                let call = product
                    .prepare_with(|operands, _| Ok(plan(kind, operands)))
                    .unwrap();
                call.run(&device).unwrap();
            }
            for (chunk, c) in c.iter().enumerate() {
                let found = c.download().unwrap();
                for (i, found) in found.iter().enumerate() {
                    let expected = old[i] + terms[chunk * each + i];
                    assert_eq!(found.to_bits(), expected.to_bits(), "{kind:?} {chunk}: {i}");
                }
                cases += 1;
            }
        }
    }
    println!("law ranks.adds: {cases} cases");
}

/// What is wrong.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Wrong {
    Nothing,
    /// The kernels begin to add without a wait for the zeros of the others.
    NoWait,
    /// The flags are raised before the zeros are written.
    EarlyFlag,
    /// The flags are stored without a release.
    RelaxedFlag,
    /// The flags are released for one device.
    FlagOfOneDevice,
    /// The flags are read without an acquire.
    RelaxedWait,
    /// Nothing orders TMA after the acquire.
    NoFence,
    /// The wait takes the flags of the first round.
    OldFlag,
    /// A rank raises its flags at the wrong place, so that the others wait for ever.
    FlagElsewhere,
    /// The first rank adds the terms of two owners to the wrong one each.
    OwnersExchanged,
    /// No zeros are written.
    NoZeros,
    /// The kernels store their terms.
    Stores,
    /// Nothing says that the reductions of several devices are atomic.
    Apart,
}

/// The same kernel behind a part in which each rank fills its sum with zeros, tells all ranks, and waits for all of them.
fn with_zeros(kernel: &Kernel, ranks: i64, wrong: Wrong) -> Kernel {
    let threads = i64::from(kernel.block.expect("of a library kernel")[0]);
    let mut k = KernelBuilder::new("zeros", Arch::Sm90a);
    for ty in RegType::ALL {
        k.regs(ty, kernel.count(ty) as usize);
    }
    for param in &kernel.params {
        k.scalar(&param.name, Type::U32);
    }
    let [words, round] = ["words", "round"].map(|name| k.scalar(name, Type::U32));
    let [sums, mine] = ["sums", "mine"].map(|name| k.scalar(name, Type::U64));
    let there: Vec<_> = (0..ranks)
        .map(|rank| k.scalar(&format!("flag_{rank}"), Type::U64))
        .collect();
    let [words, round, sums, mine] = [words, round, sums, mine].map(|id| k.param(id));
    let there: Vec<Reg> = there.into_iter().map(|id| k.param(id)).collect();
    let word = Access::new(Space::Global, Type::U32);
    let block = k.mov(Type::U32, Special::Ctaid(0));
    let thread = k.mov(Type::U32, Special::Tid(0));
    let is_first_block = k.setp(Compare::Eq, Type::U32, block, 0);
    let is_first = k.setp(Compare::Eq, Type::U32, thread, 0);
    let raise = |k: &mut KernelBuilder| {
        let order = match wrong {
            Wrong::RelaxedFlag => Order::Relaxed(Scope::Sys),
            Wrong::FlagOfOneDevice => Order::Release(Scope::Gpu),
            _ => Order::Release(Scope::Sys),
        };
        k.if_(is_first, |k| {
            for flag in &there {
                k.store(word.order(order), *flag, round);
            }
        });
    };
    k.if_(is_first_block, |k| {
        if wrong == Wrong::EarlyFlag {
            raise(k);
        }
        if wrong != Wrong::NoZeros {
            k.for_range(thread, words, threads, |k, i| {
                let offset = k.mul_wide(Type::U32, i, 4);
                let at = k.add(Type::S64, sums, offset);
                let zero = k.mov(Type::U32, 0);
                k.store(word, at, zero);
            });
        }
        k.sync();
        if wrong != Wrong::EarlyFlag {
            raise(k);
        }
    });
    if wrong != Wrong::NoWait {
        k.if_(is_first, |k| {
            let order = match wrong {
                Wrong::RelaxedWait => Order::Relaxed(Scope::Sys),
                _ => Order::Acquire(Scope::Sys),
            };
            for rank in 0..ranks {
                let flag = k.add(Type::S64, mine, 4 * rank);
                k.loop_(|k| {
                    let now = k.load(word.order(order), flag);
                    let is_there = match wrong {
                        Wrong::OldFlag => k.setp(Compare::Ge, Type::U32, now, 1),
                        _ => k.setp(Compare::Ge, Type::U32, now, round),
                    };
                    k.break_if(is_there);
                });
            }
        });
    }
    k.sync();
    if wrong != Wrong::NoFence {
        k.fence(FenceKind::ProxyAsyncGlobal);
    }
    let added = k.finish();
    let mut params = kernel.params.clone();
    params.extend_from_slice(&added.params[kernel.params.len()..]);
    Kernel {
        params,
        body: [added.body, kernel.body.clone()].concat(),
        registers: added.registers,
        ..kernel.clone()
    }
}

type Make = fn(i64, i64) -> Vec<bf16>;

/// The numbers of a rank in a round.
fn given(shape: Shape, make: Make, rank: i64, round: i64) -> [Vec<bf16>; 2] {
    let seed = 10 * rank + 100 * round;
    [
        make(shape.m * shape.k * shape.chunks, seed + 1),
        make(shape.n * shape.k, seed + 2),
    ]
}

/// Runs the product on every rank, each of which adds its terms at their owners, and returns the sums of all owners.
fn summed(
    (shape, kind): (Shape, Kind),
    wrong: Wrong,
    make: Make,
    (rounds, seed): (u32, u64),
) -> Result<Vec<Vec<f32>>, Fault> {
    let count = shape.chunks as usize;
    let built = built(shape, kind, wrong != Wrong::Stores);
    let kernel = with_zeros(&built.kernel, shape.chunks, wrong);
    let mut ranks = Ranks::connected(count).unwrap();
    ranks.host_joins(true);
    ranks.reductions_meet(wrong != Wrong::Apart);
    let (all_a, bytes_b) = (shape.m * shape.k * shape.chunks, shape.n * shape.k * 2);
    let bytes_c = (shape.m * shape.n * 4) as u64;
    let mut on = |bytes: u64| -> Vec<u64> {
        let each = 0..count;
        let bytes = bytes.next_multiple_of(256);
        each.map(|rank| ranks.allocate(rank, bytes).unwrap())
            .collect()
    };
    let (at_a, at_b) = (on(all_a as u64 * 2), on(bytes_b as u64));
    let (sums, flags) = (on(bytes_c), on(4 * count as u64 + 4));
    let bytes =
        |numbers: &[bf16]| -> Vec<u8> { numbers.iter().flat_map(|x| x.to_le_bytes()).collect() };
    for flags in &flags {
        ranks.write(*flags, &vec![0; 4 * count + 4]).unwrap();
    }
    for sums in &sums {
        ranks.write(*sums, &vec![0x40; bytes_c as usize]).unwrap();
    }
    let cluster = built.kernel.cluster.map_or(1, |cluster| cluster[0]);
    let launch = Launch::new(2 * cluster, built.kernel.block.unwrap()[0])
        .cluster(cluster)
        .dynamic_shared(built.dynamic_shared());
    for round in 1..=rounds {
        for rank in 0..count {
            let [a, b] = given(shape, make, rank as i64, i64::from(round));
            ranks.write(at_a[rank], &bytes(&a)).unwrap();
            ranks.write(at_b[rank], &bytes(&b)).unwrap();
        }
        let map = |name: &str, layout: Layout, address| {
            let map = built.tensor_map(name, layout).unwrap();
            let encoded = None;
            Argument::from(TensorMapArgument {
                map,
                address,
                encoded,
            })
        };
        let arguments = |rank: usize| {
            let one_b = layout(&format!("({},{k},1):({k},1,16)", shape.n, k = shape.k));
            let mut given = vec![map("A", shape.a(), at_a[rank]), map("B", one_b, at_b[rank])];
            for owner in 0..count {
                let name = match owner {
                    0 => "C".to_string(),
                    _ => format!("C_{owner}"),
                };
                let other = match (wrong, rank, owner) {
                    (Wrong::OwnersExchanged, 0, 0 | 1) => 1 - owner,
                    _ => owner,
                };
                given.push(map(&name, shape.owned(), sums[other]));
            }
            let first = (rank + 1) % count;
            let sizes = [shape.m, shape.n, shape.k, shape.chunks, first as i64];
            given.extend(sizes.map(|n| Argument::U32(n as u32)));
            given.extend([1.0, 0.0].map(Argument::F32));
            let given: Vec<Arg<'_>> = given.into_iter().map(Arg::Value).collect();
            let mut all = built.arguments(&given).unwrap();
            all.push(Argument::U32((shape.m * shape.n) as u32));
            all.push(Argument::U32(round));
            all.extend([sums[rank], flags[rank]].map(Argument::U64));
            let place = match wrong {
                Wrong::FlagElsewhere if rank == 0 => count,
                _ => rank,
            };
            all.extend((0..count).map(|to| Argument::U64(flags[to] + 4 * place as u64)));
            Some(all)
        };
        let arguments: Vec<_> = (0..count).map(arguments).collect();
        let options = SimOptions::default().seed(seed);
        ranks.simulate(&kernel, &launch, &arguments, &options)?;
    }
    let read = |at: &u64| {
        let bytes = ranks.read(*at, bytes_c).unwrap();
        let words = bytes.as_chunks::<4>().0.iter();
        words.map(|word| f32::from_le_bytes(*word)).collect()
    };
    Ok(sums.iter().map(read).collect())
}

/// The terms of a round: by rank, all chunks.
fn terms(shape: Shape, make: Make, round: i64) -> Vec<Vec<f32>> {
    let device = Device::simulator(Arch::Sm90a);
    let of = |rank: i64| {
        let [a, b] = given(shape, make, rank, round);
        product(&device, [shape.m * shape.chunks, shape.n, shape.k], &a, &b)
    };
    (0..shape.chunks).map(of).collect()
}

/// The sum of what the ranks computed for an element of an owner, in the order of the ranks, and the sum of the magnitudes.
fn expected(terms: &[Vec<f32>], at: usize) -> [f32; 2] {
    let of = || terms.iter().map(|term| term[at]);
    [
        of().fold(0.0, |sum, term| sum + term),
        of().fold(0.0, |sum, term| sum + term.abs()),
    ]
}

#[test]
fn law_sums_of_several_devices_are_exact_where_their_terms_are() {
    let mut cases = 0;
    for kind in KINDS {
        for chunks in [2, 3] {
            let shape = Shape { chunks, ..SHAPE };
            let each = (shape.m * shape.n) as usize;
            for (make, is_exact) in [(integers as Make, true), (numbers as Make, false)] {
                let terms = terms(shape, make, 2);
                for seed in 0..2 {
                    let found = summed((shape, kind), Wrong::Nothing, make, (2, seed));
                    let found = found.unwrap_or_else(|fault| panic!("{kind:?} {seed}: {fault}"));
                    for (owner, found) in found.iter().enumerate() {
                        for (i, found) in found.iter().enumerate() {
                            let [sum, magnitude] = expected(&terms, owner * each + i);
                            if is_exact {
                                assert_eq!(found.to_bits(), sum.to_bits(), "{kind:?} {owner} {i}");
                            }
                            // Each addition rounds by half a unit in the last place at most.
                            let most = chunks as f32 * magnitude * f32::EPSILON;
                            assert!((found - sum).abs() <= most, "{found} {sum}");
                        }
                    }
                    cases += 1;
                }
            }
        }
    }
    println!("law ranks.reductions: {cases} cases");
}

#[test]
fn law_planted_faults_of_reductions_are_found_and_their_twin_is_right() {
    let shape = Shape { chunks: 2, ..SHAPE };
    let case = (shape, Kind::Cooperative);
    let seeds = 0..4;
    let each = (shape.m * shape.n) as usize;
    let terms = terms(shape, integers, 2);
    let is_right = |sums: &[Vec<f32>]| {
        let mut owners = sums.iter().enumerate();
        owners.all(|(owner, sums)| {
            let mut sums = sums.iter().enumerate();
            sums.all(|(i, sum)| *sum == expected(&terms, owner * each + i)[0])
        })
    };
    let run = |wrong: Wrong, seed: u64| summed(case, wrong, integers, (2, seed));
    for seed in seeds.clone() {
        let sums = run(Wrong::Nothing, seed).unwrap();
        assert!(is_right(&sums), "the twin of all: {seed}");
    }
    let named = |wrong: Wrong, kind: FaultKind, says: &str| {
        let mut found = 0;
        for seed in seeds.clone() {
            match run(wrong, seed) {
                Ok(_) => {}
                Err(fault) => {
                    assert_eq!(fault.kind(), kind, "{wrong:?} {seed}: {fault}");
                    assert!(fault.what().contains(says), "{wrong:?} {seed}: {fault}");
                    found += 1;
                }
            }
        }
        found
    };
    let all = seeds.clone().count();
    assert_eq!(named(Wrong::NoWait, FaultKind::Race, "rank"), all);
    assert_eq!(named(Wrong::EarlyFlag, FaultKind::Race, "rank"), all);
    assert_eq!(named(Wrong::RelaxedFlag, FaultKind::Race, "releas"), all);
    assert_eq!(
        named(Wrong::FlagOfOneDevice, FaultKind::Race, "`.sys`"),
        all
    );
    assert_eq!(named(Wrong::RelaxedWait, FaultKind::Race, "rank"), all);
    assert_eq!(named(Wrong::NoFence, FaultKind::MissingFence, "fence"), all);
    assert_eq!(
        named(Wrong::FlagElsewhere, FaultKind::Deadlock, "waits"),
        all
    );
    assert_eq!(named(Wrong::Stores, FaultKind::Race, "rank"), all);
    let says = "both are reductions of bulk copies, which the PTX ISA makes atomic on one device";
    assert_eq!(named(Wrong::Apart, FaultKind::Race, says), all);
    // A rank that is early has its zeros there by chance.
    assert!(named(Wrong::OldFlag, FaultKind::Race, "rank") > 0);
    // These break no rule of the memory model: the sum is another one.
    for wrong in [Wrong::OwnersExchanged, Wrong::NoZeros] {
        for seed in seeds.clone() {
            let sums = run(wrong, seed).unwrap();
            assert!(!is_right(&sums), "{wrong:?} {seed}");
        }
    }
}

fn by_reduction(pieces: Option<i64>) -> RankOptions {
    RankOptions {
        path: Some(RankPath::PeerMemory),
        sends: Some(RankSends::Reduction),
        pieces,
        ..RankOptions::default()
    }
}

fn problem(overlap: Overlap, ranks: i64) -> RankProblem {
    RankProblem {
        overlap,
        ranks,
        m: 24 * ranks,
        n: 40,
        k: 72 * ranks,
    }
}

fn part(problem: &RankProblem, rank: i64, round: i64) -> [Vec<bf16>; 2] {
    let (k, seed) = (problem.k / problem.ranks, 100 * round + 10 * rank);
    [
        numbers(problem.m * k, seed + 1),
        numbers(problem.n * k, seed + 2),
    ]
}

/// One simulated device runs the ranks after each other, so the order of the additions is known.
#[test]
fn law_reduced_terms_are_rounded_at_each_addition() {
    let mut cases = 0;
    let round_of = |x: f32| bf16::from_f32(x).to_f32();
    for (ranks, pieces) in [(2, 1), (3, 2), (4, 3)] {
        let of_scatter = problem(Overlap::ProductScatter, ranks);
        let of_reduce = problem(Overlap::ProductReduce, ranks);
        let device = device(cases);
        let (together, one) = (together(&device, ranks), by_reduction(None));
        let some = by_reduction(Some(pieces));
        let mut wide = RankProduct::<bf16, bf16, f32>::new(&together, of_scatter, &one).unwrap();
        let mut halves = RankProduct::<bf16, bf16>::new(&together, of_scatter, &one).unwrap();
        let mut floats = RankProduct::<bf16, f32>::new(&together, of_reduce, &some).unwrap();
        let mut reduced = RankProduct::<bf16, bf16, f32>::new(&together, of_reduce, &some).unwrap();
        assert_eq!(reduced.pieces(), pieces);
        // The sums of the round before are of no use.
        for round in 0..3 {
            let mut terms = Vec::new();
            for rank in 0..ranks {
                let [a, b] = part(&of_scatter, rank, round);
                let of = rank as usize;
                give(&wide, of, [&a, &b]);
                give(&halves, of, [&a, &b]);
                give(&floats, of, [&a, &b]);
                give(&reduced, of, [&a, &b]);
                let sizes = [of_scatter.m, of_scatter.n, of_scatter.k / ranks];
                terms.push(product(&device, sizes, &a, &b));
            }
            ran(&mut wide);
            ran(&mut halves);
            ran(&mut floats);
            ran(&mut reduced);
            let sum = |at: usize| expected(&terms, at)[0];
            let rounded = |at: usize| {
                let terms = terms.iter().map(|term| round_of(term[at]));
                terms.fold(0.0, |sum, term| round_of(sum + term))
            };
            let each = (of_scatter.m / ranks * of_scatter.n) as usize;
            let all = each * ranks as usize;
            let values = |c: Vec<bf16>| c.iter().map(|x| x.to_f32()).collect::<Vec<_>>();
            for rank in 0..ranks as usize {
                let places = rank * each..(rank + 1) * each;
                let exact: Vec<f32> = places.clone().map(|at| round_of(sum(at))).collect();
                let found = values(wide.c(rank).unwrap().download().unwrap());
                assert_eq!(found, exact, "{ranks} {rank}");
                let expected: Vec<f32> = places.map(rounded).collect();
                let found = values(halves.c(rank).unwrap().download().unwrap());
                assert_eq!(found, expected, "{ranks} {rank}");
                let expected: Vec<f32> = (0..all).map(sum).collect();
                let found = floats.c(rank).unwrap().download().unwrap();
                assert_eq!(found, expected, "{ranks} {rank}");
                let expected: Vec<f32> = (0..all).map(|at| round_of(sum(at))).collect();
                let found = values(reduced.c(rank).unwrap().download().unwrap());
                assert_eq!(found, expected, "{ranks} {rank}");
            }
            cases += 1;
        }
    }
    println!("law ranks.reduction_roundings: {cases} cases");
}

/// Of two terms, the order of the additions does not matter.
#[test]
fn law_two_processes_reduce_to_the_bits_of_slots() {
    let problem = problem(Overlap::ProductScatter, 2);
    let found = |sends: RankSends| {
        let options = RankOptions {
            sends: Some(sends),
            ..by_reduction(None)
        };
        let act = move |process: colex_gpu::ranks::RankProcess| {
            let mut call =
                ProcessProduct::<bf16, bf16, f32>::new(&process, problem, &options).unwrap();
            let holds = call.explain().unwrap().contains("sums of f32");
            assert_eq!(holds, sends == RankSends::Reduction);
            let mut found = Vec::new();
            for round in 0..3 {
                let [a, b] = part(&problem, process.rank() as i64, round);
                call.a().unwrap().write(&a).unwrap();
                call.b().write(&b).unwrap();
                call.run().unwrap();
                call.wait(LONG).unwrap();
                let c = call.c().download().unwrap();
                found.push(c.iter().map(|x| x.to_f32()).collect::<Vec<_>>());
            }
            found
        };
        let device = Device::simulator(Arch::Sm90a);
        super::process::each(&device, 2, Duration::from_secs(60), act)
    };
    assert_eq!(found(RankSends::Reduction), found(RankSends::Kernel));
}

/// Slots are added in the epilogue of the owner's product with the bits of the kernel that adds them, by engines and by kernels.
#[test]
fn law_slots_are_added_in_the_epilogue_with_the_bits_of_a_kernel() {
    let mut cases = 0;
    for (ranks, pieces) in [(2, 1), (3, 2), (4, 3)] {
        let of_scatter = problem(Overlap::ProductScatter, ranks);
        let of_reduce = problem(Overlap::ProductReduce, ranks);
        for sends in [RankSends::Kernel, RankSends::Engines] {
            let device = device(cases);
            let together = together(&device, ranks);
            let [in_kernel, in_epilogue] = [RankSums::Kernel, RankSums::Epilogue].map(|sums| {
                let pieces = (sends == RankSends::Kernel).then_some(pieces);
                RankOptions {
                    path: Some(RankPath::PeerMemory),
                    sends: Some(sends),
                    sums: Some(sums),
                    pieces,
                    ..RankOptions::default()
                }
            });
            let mut found = Vec::new();
            for options in [in_kernel, in_epilogue] {
                let one = RankOptions {
                    pieces: None,
                    ..options
                };
                let mut wide =
                    RankProduct::<bf16, bf16, f32>::new(&together, of_scatter, &one).unwrap();
                let mut halves =
                    RankProduct::<bf16, bf16>::new(&together, of_scatter, &one).unwrap();
                let mut reduced =
                    RankProduct::<bf16, f32, bf16>::new(&together, of_reduce, &options).unwrap();
                // New numbers in each round: an old slot gives another sum.
                for round in 0..2 {
                    for rank in 0..ranks {
                        let [a, b] = part(&of_scatter, rank, round);
                        let of = rank as usize;
                        give(&wide, of, [&a, &b]);
                        give(&halves, of, [&a, &b]);
                        give(&reduced, of, [&a, &b]);
                    }
                    ran(&mut wide);
                    ran(&mut halves);
                    ran(&mut reduced);
                    for rank in 0..ranks as usize {
                        let bits = |c: Vec<bf16>| c.iter().map(|x| x.to_bits()).collect();
                        let wide: Vec<u16> = bits(wide.c(rank).unwrap().download().unwrap());
                        let halves: Vec<u16> = bits(halves.c(rank).unwrap().download().unwrap());
                        let reduced = reduced.c(rank).unwrap().download().unwrap();
                        let reduced: Vec<u32> = reduced.iter().map(|x| x.to_bits()).collect();
                        found.push((wide, halves, reduced));
                        cases += 1;
                    }
                }
            }
            let (of_kernel, of_epilogue) = found.split_at(found.len() / 2);
            assert!(of_kernel == of_epilogue, "{ranks} {sends:?}");
        }
    }
    println!("law ranks.epilogue_sums: {cases} cases");
}

fn with_early(early: i64) -> RankOptions {
    RankOptions {
        path: Some(RankPath::PeerMemory),
        sums: Some(RankSums::Early(early)),
        ..RankOptions::default()
    }
}

/// The sum of the terms of an element as [`RankSums::Early`] says; `of_slot` rounds to the type of the slots.
fn sum_of_early(terms: &[f32], (owner, early): (usize, usize), of_slot: fn(f32) -> f32) -> f32 {
    let ranks = terms.len();
    let before = (1..=early).map(|back| (owner + ranks - back) % ranks);
    let first: Vec<usize> = before.collect();
    let own = first
        .iter()
        .fold(terms[owner], |sum, rank| sum + of_slot(terms[*rank]));
    let others = (0..ranks).filter(|rank| !first.contains(rank));
    let added = others.map(|rank| of_slot(if rank == owner { own } else { terms[rank] }));
    added.reduce(|sum, term| sum + term).unwrap()
}

#[test]
fn law_early_slots_are_added_in_the_stated_order() {
    let mut cases = 0;
    let round = |x: f32| bf16::from_f32(x).to_f32();
    for (ranks, early) in [(3, 1), (4, 1), (4, 2), (5, 3)] {
        let problem = problem(Overlap::ProductScatter, ranks);
        let device = device(cases);
        let (together, options) = (together(&device, ranks), with_early(early));
        let mut halves = RankProduct::<bf16, bf16>::new(&together, problem, &options).unwrap();
        let mut wide = RankProduct::<bf16, f32>::new(&together, problem, &options).unwrap();
        let mut mixed = RankProduct::<bf16, f32, bf16>::new(&together, problem, &options).unwrap();
        // New numbers in each round: an old slot gives another sum.
        for turn in 0..2 {
            let mut terms = Vec::new();
            for rank in 0..ranks {
                let [a, b] = part(&problem, rank, turn);
                let of = rank as usize;
                give(&halves, of, [&a, &b]);
                give(&wide, of, [&a, &b]);
                give(&mixed, of, [&a, &b]);
                let sizes = [problem.m, problem.n, problem.k / ranks];
                terms.push(product(&device, sizes, &a, &b));
            }
            ran(&mut halves);
            ran(&mut wide);
            ran(&mut mixed);
            let each = (problem.m / ranks * problem.n) as usize;
            let mut differ = 0;
            for owner in 0..ranks as usize {
                let halves = halves.c(owner).unwrap().download().unwrap();
                let wide = wide.c(owner).unwrap().download().unwrap();
                let mixed = mixed.c(owner).unwrap().download().unwrap();
                for i in 0..each {
                    let of: Vec<f32> = terms.iter().map(|term| term[owner * each + i]).collect();
                    let way = (owner, early as usize);
                    let rounded = sum_of_early(&of, way, round);
                    let exact = sum_of_early(&of, way, |x| x);
                    assert_eq!(mixed[i].to_bits(), rounded.to_bits(), "{ranks} {early} {i}");
                    assert_eq!(halves[i].to_f32(), round(rounded), "{ranks} {early} {i}");
                    assert_eq!(wide[i].to_bits(), exact.to_bits(), "{ranks} {early} {i}");
                    // The order is one of its own.
                    let by_kernel = of.iter().map(|x| round(*x)).reduce(|sum, x| sum + x);
                    differ += usize::from(by_kernel != Some(rounded));
                    // Each term and the sum of the early ones are rounded once, by half a unit of 8 bits.
                    let magnitude: f32 = of.iter().map(|x| x.abs()).sum();
                    let sum: f64 = of.iter().map(|x| f64::from(*x)).sum();
                    let off = (f64::from(rounded) - sum).abs();
                    assert!(
                        off <= f64::from(magnitude) * 2.5 / 256.0,
                        "{off} {magnitude}"
                    );
                }
                cases += 1;
            }
            assert!(differ > 0, "{ranks} {early}");
        }
    }
    println!("law ranks.early_slots: {cases} cases");
}

#[test]
fn law_processes_add_early_slots_to_the_bits_of_one_process() {
    let (problem, options) = (problem(Overlap::ProductScatter, 4), with_early(2));
    let device = device(0);
    let together = together(&device, 4);
    let mut call = RankProduct::<bf16, bf16>::new(&together, problem, &options).unwrap();
    let bits = |c: Vec<bf16>| c.iter().map(|x| x.to_bits()).collect::<Vec<_>>();
    let mut expected = vec![Vec::new(); 4];
    for turn in 0..2 {
        for rank in 0..4 {
            let [a, b] = part(&problem, rank as i64, turn);
            give(&call, rank, [&a, &b]);
        }
        ran(&mut call);
        for (rank, expected) in expected.iter_mut().enumerate() {
            expected.push(bits(call.c(rank).unwrap().download().unwrap()));
        }
    }
    let act = move |process: colex_gpu::ranks::RankProcess| {
        let mut call = ProcessProduct::<bf16, bf16>::new(&process, problem, &options).unwrap();
        let mut found = Vec::new();
        for turn in 0..2 {
            let [a, b] = part(&problem, process.rank() as i64, turn);
            call.a().unwrap().write(&a).unwrap();
            call.b().write(&b).unwrap();
            call.run().unwrap();
            call.wait(LONG).unwrap();
            found.push(bits(call.c().download().unwrap()));
        }
        found
    };
    let device = Device::simulator(Arch::Sm90a);
    let found = super::process::each(&device, 4, Duration::from_secs(60), act);
    assert!(found == expected);
    println!("law ranks.early_slots_of_processes: 8 cases");
}

#[test]
fn every_refusal_of_early_slots_verbatim() {
    let device = Device::simulator(Arch::Sm90a);
    let ranks = together(&device, 3);
    let said = |overlap, options: RankOptions| {
        let made = RankProduct::<bf16, bf16>::new(&ranks, problem(overlap, 3), &options);
        made.err().map(|error| error.to_string())
    };
    let scatter = |options| said(Overlap::ProductScatter, options).unwrap();
    for early in [i64::MIN, 0, 2, i64::MAX] {
        assert_eq!(
            scatter(with_early(early)),
            format!(
                "{early} early slots of the 2 of other ranks: at least one is early, and at least one is not"
            )
        );
    }
    assert_eq!(said(Overlap::ProductScatter, with_early(1)), None);
    let why = "some slots come earlier than others in a reduce-scatter whose terms copy engines send beside the product";
    let by_kernel = RankOptions {
        sends: Some(RankSends::Kernel),
        ..with_early(1)
    };
    let engines = RankOptions {
        sends: Some(RankSends::Engines),
        ..with_early(1)
    };
    let peers = format!("the path peer memory is not taken here: {why}");
    assert_eq!(scatter(by_kernel), peers);
    assert_eq!(said(Overlap::ProductReduce, engines).unwrap(), peers);
    let behind = RankOptions {
        path: Some(RankPath::OneAfterAnother),
        ..with_early(1)
    };
    assert_eq!(
        scatter(behind),
        format!("the path copies, one after another with the product is not taken here: {why}")
    );
}

#[test]
fn every_refusal_of_reductions_verbatim() {
    let device = Device::simulator(Arch::Sm90a);
    let a = device.upload(&integers(2 * 8 * 16, 1)).unwrap();
    let b = device.upload(&integers(16 * 16, 2)).unwrap();
    let mut c = device.zeros::<f32>(2 * 8 * 16).unwrap();
    let a = View::new(&a, "(8,16,2):(16,1,128)").unwrap();
    let b = View::new(&b, "(16,16,2):(16,1,0)").unwrap();
    {
        let c = ViewMut::new(&mut c, "(8,16,2):(16,1,128)").unwrap();
        let product = Gemm::new(&a, &b, &c).chunks(ChunkOrder::Ascending, 0);
        assert_eq!(
            product.adds().run().unwrap_err().to_string(),
            "batch: chunks: the chunks are added to what several owners have, and C has no owners: a factor of C adds to one matrix"
        );
    }
    {
        let one = device.upload(&integers(8 * 16, 1)).unwrap();
        let one = View::new(&one, "(8,16,1):(16,1,128)").unwrap();
        let b = device.upload(&integers(16 * 16, 2)).unwrap();
        let b = View::new(&b, "(16,16,1):(16,1,256)").unwrap();
        let owners = [ViewMut::new(&mut c, "(8,16):(16,1)").unwrap()];
        let product = Gemm::to_owners(&one, &b, &owners).unwrap();
        assert_eq!(
            product.adds().run().unwrap_err().to_string(),
            "batch: chunks: the chunks are added to what several owners have, and C has 1 owner: a factor of C adds to one matrix"
        );
    }
    let options = RankOptions {
        path: Some(RankPath::OneAfterAnother),
        ..by_reduction(None)
    };
    let ranks = together(&device, 2);
    let problem = problem(Overlap::ProductScatter, 2);
    let refused = RankProduct::<bf16, bf16, f32>::new(&ranks, problem, &options);
    assert_eq!(
        refused.unwrap_err().to_string(),
        "the path copies, one after another with the product is not taken here: a kernel stores into the memory of the owners on the \
         path of peer memory"
    );
    let refused = RankProduct::<bf16, bf16, f32>::new(&ranks, problem, &by_reduction(Some(2)));
    assert_eq!(
        refused.unwrap_err().to_string(),
        "2 pieces of a chunk of 24 rows: the number must divide the rows, and be at most 1"
    );
}

#[test]
fn a_plan_says_what_reductions_would_take() {
    let device = device(0);
    let ranks = together(&device, 2);
    let problem = problem(Overlap::ProductScatter, 2);
    let call = RankProduct::<bf16, bf16, f32>::new(&ranks, problem, &by_reduction(None));
    let said = call.unwrap().explain().unwrap();
    assert!(
        said.starts_with(
            "product and reduce-scatter, 48 x 40 x 144 over 2 ranks by peer memory, sums of f32\n"
        ),
        "{said}"
    );
    assert!(
        said.contains("\n  peer memory, kernels that add: "),
        "{said}"
    );
}
