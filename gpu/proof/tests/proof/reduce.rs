//! Reductions by the kernels of the library against double precision.

use colex_atom::{Arch, Ty};
use colex_gpu::kernels::GemmElement;
use colex_gpu::reduce::scan::{self, Scan, ScanPlan, ScanProblem, cumulative_sum};
use colex_gpu::reduce::top_k::{TopKPlan, TopKProblem};
use colex_gpu::reduce::{Reduce, ReduceFunction, ReducePlan, ReduceProblem, ReduceStage, reduce};
use colex_gpu::sim::{Schedule, SimOptions};
use colex_gpu::testing::{self, Output};
use colex_gpu::{Device, Error, View, ViewMut};
use colex_layout::Layout;
use colex_proof::soak::{draws, share_of, takes};
use colex_proof::sweep::Random;

fn simulator(arch: Arch, seed: u64) -> Device {
    let options = SimOptions::default().schedule(Schedule::from_seed(seed));
    Device::simulator_with(arch, options)
}

/// How many cases a law draws for each architecture.
fn rounds() -> usize {
    draws(12)
}

/// Types, shapes, modes, strides, alignments, NaN and infinities, and plans, under several schedules.
#[test]
fn law_reductions_are_those_of_the_reference() {
    let mut elements = 0;
    for (i, arch) in [Arch::Sm80, Arch::Sm90a, Arch::Sm70]
        .into_iter()
        .enumerate()
    {
        let device = simulator(arch, i as u64);
        let found = colex_proof::kernels::reduce::check(&device, 60 + i as u64, rounds());
        elements += found.unwrap_or_else(|why| panic!("{arch}: {why}"));
    }
    println!("law reduce: {} cases, {elements} elements", 3 * rounds());
}

/// The bits of every sum are those of the host in the order of the plan.
#[test]
fn law_cumulative_sums_are_those_of_the_host() {
    let mut elements = 0;
    for (i, arch) in [Arch::Sm80, Arch::Sm90a, Arch::Sm70]
        .into_iter()
        .enumerate()
    {
        let device = simulator(arch, i as u64);
        let found = colex_proof::kernels::reduce::check_scans(&device, 80 + i as u64, rounds());
        elements += found.unwrap_or_else(|why| panic!("{arch}: {why}"));
    }
    println!("law scan: {} cases, {elements} elements", 3 * rounds());
}

/// The results of plans for one reduction of f32 under several schedules.
fn result(
    function: ReduceFunction,
    (extents, modes): (&[i64], &[usize]),
    x: &[f32],
    plan: impl Fn(ReducePlan) -> ReducePlan,
) -> Vec<u32> {
    let results: i64 = (0..extents.len())
        .filter(|mode| !modes.contains(mode))
        .map(|mode| extents[mode])
        .product();
    let found = testing::in_every_schedule(Arch::Sm80, 4, |device| {
        let x = device.upload(x)?;
        let mut y = Output::<f32>::new(device, results as usize)?;
        let kept: Vec<i64> = (0..extents.len())
            .map(|mode| {
                if modes.contains(&mode) {
                    1
                } else {
                    extents[mode]
                }
            })
            .collect();
        let (from, to) = (x.view(extents)?, y.buffer().view_mut(&kept[..])?);
        let call = Reduce::new(function, &from, modes, &to).prepare_with(|problem| {
            let mut plan = plan(ReducePlan::fastest(problem)?);
            // Modes that are joined are longer than the threads side by side.
            plan.turns_inner |= !plan.takes(problem);
            plan.parts_inner &= plan.turns_inner;
            plan.prefetches &= !plan.turns_inner;
            Ok(plan)
        })?;
        call.run(device)?;
        call.run(device)?;
        let bits = y.buffer().download()?;
        Ok(bits.iter().map(|x| x.to_bits()).collect::<Vec<u32>>())
    });
    found.unwrap_or_else(|why| panic!("{function}: {why}"))
}

/// Threads across, along and of rows, turns along either mode, and parts, each under several schedules, with the same bits twice.
#[test]
fn law_plans_of_reductions_agree() {
    let extents = [5_i64, 14, 40];
    let x: Vec<f32> = (0..5 * 14 * 40)
        .map(|i| (i * 7919 % 613) as f32 / 60.0 - 5.0)
        .collect();
    let (mut cases, mut number) = (0, 0);
    for modes in [&[2][..], &[1], &[0, 2], &[0, 1, 2]] {
        for function in [
            ReduceFunction::Sum,
            ReduceFunction::Min,
            ReduceFunction::Norm,
        ] {
            let with_parts = |rows, across, along, turns_inner, (parts, last_adds)| {
                result(function, (&extents, modes), &x, move |plan| ReducePlan {
                    rows,
                    across,
                    along,
                    accesses: 2,
                    turns_inner: turns_inner && !plan.operands.keeps_inner,
                    parts,
                    last_adds,
                    ..plan
                })
            };
            let with = |rows, across, along, turns_inner, parts| {
                with_parts(rows, across, along, turns_inner, (parts, false))
            };
            let usual = result(function, (&extents, modes), &x, |plan| plan);
            let plans: [&dyn Fn() -> Vec<u32>; 10] = [
                &|| with(1, 1, 32, true, 1),
                &|| with(2, 4, 32, true, 1),
                &|| with(1, 2, 32, true, 3),
                &|| with(1, 8, 32, false, 1),
                &|| with(1, 4, 32, false, 5),
                &|| with(4, 2, 32, false, 2),
                &|| with_parts(1, 2, 32, true, (3, true)),
                &|| with_parts(1, 4, 32, false, (5, true)),
                &|| with_parts(4, 2, 32, false, (2, true)),
                &|| with_parts(2, 1, 16, true, (40, true)),
            ];
            for (i, plan) in plans.iter().enumerate() {
                number += 1;
                if !takes(7, number) {
                    continue;
                }
                let found = plan();
                for (a, b) in found.iter().zip(&usual) {
                    let (a, b) = (f32::from_bits(*a), f32::from_bits(*b));
                    let is_close = (a - b).abs() <= 2e-5 * (20.0 + b.abs());
                    let is_right = match function {
                        ReduceFunction::Min => a == b,
                        _ => is_close,
                    };
                    assert!(
                        is_right,
                        "{function} along {modes:?}, plan {i}: {a} and {b}"
                    );
                }
                cases += 1;
            }
        }
    }
    println!("law reduce.plans: {cases} cases");
}

/// Prefetched turns have the bits of the others: of every number of turns from none to several, with parts and without, along kept and
/// reduced inner modes.
#[test]
fn law_prefetched_turns_have_the_same_bits() {
    let mut cases = 0;
    for rows in [1, 3, 4, 7, 8, 9, 12, 17, 24, 33, 40] {
        let extents = [rows, 2_i64, 12];
        let x: Vec<f32> = (0..2 * rows * 12)
            .map(|i| (i * 7919 % 613) as f32 / 60.0 - 5.0)
            .collect();
        for (modes, function) in [
            (&[0][..], ReduceFunction::Sum),
            (&[0], ReduceFunction::Norm),
            (&[0], ReduceFunction::Max),
            (&[0, 2], ReduceFunction::Mean),
            (&[0, 1], ReduceFunction::Sum),
        ] {
            for (parts, last_adds) in [(1, false), (2, false), (3, true)] {
                let with = |prefetches| {
                    result(function, (&extents, modes), &x, move |plan| ReducePlan {
                        rows: 2,
                        across: 4,
                        along: 4,
                        accesses: 2,
                        turns_inner: false,
                        parts_inner: false,
                        parts,
                        last_adds,
                        prefetches,
                        ..plan
                    })
                };
                assert_eq!(
                    with(true),
                    with(false),
                    "{function} along {modes:?}, {rows}"
                );
                cases += 1;
            }
        }
    }
    println!("law reduce.prefetched: {cases} cases");
}

/// Bits of floats of 16 bits: drawn ones, many zeros of both signs, subnormals, infinities and NaN of any bits. Columns differ in what
/// they have, so that some have zeros alone, infinities alone, or NaN alone.
fn words(infinity: u16, [rows, middle, columns]: [usize; 3]) -> Vec<u16> {
    let (sign, nan) = (0x8000, infinity | 1);
    let few = [
        [0, sign, 0, sign],
        [sign, sign, sign, sign],
        [
            infinity | sign,
            infinity | sign,
            infinity | sign,
            infinity | sign,
        ],
        [nan | sign, nan, 0x7fff, 0xfffe],
        [1, sign | 1, 0, sign],
        [infinity, infinity | sign, 0x1234, 0x9234],
        [nan | sign, infinity, 0x1234, infinity | sign],
    ];
    let mut all = Vec::new();
    for at in 0..rows * middle * columns {
        let drawn = ((at as u32).wrapping_mul(0x9e37_79b9) >> 11) as u16;
        let column = at % columns;
        all.push(match few.get(column) {
            Some(few) => few[usize::from(drawn) % 4],
            None if column % 3 == 0 => drawn,
            // Numbers alone.
            None if drawn & infinity == infinity => drawn ^ (infinity & 0x4000),
            None => drawn,
        });
    }
    all
}

/// The bits of the results, and the indices.
type Best = (Vec<u64>, Vec<i32>);

/// What plans of the best differ in.
#[derive(Clone, Copy, Default)]
struct BestPlan {
    /// The threads across where the inner mode is kept, or that of the default: 4 are in a warp, 16 in several.
    across: i64,
    parts: i64,
    /// Whether a second kernel combines the parts.
    is_second: bool,
    cluster: i64,
    prefetches: bool,
}

/// Such plans of an architecture.
fn best_plans(arch: Arch) -> Vec<BestPlan> {
    let plan = BestPlan {
        across: 4,
        parts: 1,
        cluster: 1,
        ..BestPlan::default()
    };
    let of_parts = |parts, cluster| BestPlan {
        parts,
        cluster,
        ..plan
    };
    let mut all = vec![
        plan,
        of_parts(3, 1),
        BestPlan {
            across: 16,
            ..of_parts(3, 1)
        },
        BestPlan {
            is_second: true,
            ..of_parts(3, 1)
        },
    ];
    for plan in [plan, of_parts(3, 1)] {
        all.push(BestPlan {
            prefetches: true,
            ..plan
        });
    }
    if arch >= Arch::Sm90a {
        all.extend([of_parts(4, 4), of_parts(4, 2)]);
    }
    all
}

/// The bits of the results of a function of the best along modes of a tensor, and the indices, by some plans of an architecture: by
/// the first, and by each third of the others, from that on whose number is that of the case.
fn best_of<T: GemmElement>(
    case: usize,
    arch: Arch,
    x: &[T],
    extents: [usize; 3],
    (function, modes): (ReduceFunction, &[usize]),
) -> Result<Vec<Best>, Error> {
    let shape = [0, 1, 2].map(|mode| {
        if modes.contains(&mode) {
            1
        } else {
            extents[mode] as i64
        }
    });
    let results = shape.iter().product::<i64>() as usize;
    let mut all = Vec::new();
    let plans = best_plans(arch).into_iter().enumerate();
    for (_, best) in plans.filter(|(i, _)| *i == 0 || takes(7, i + case)) {
        let found = testing::in_every_schedule(arch, 2, |device| {
            let from = device.upload(x)?;
            let from = from.view(extents.map(|extent| extent as i64))?;
            let mut values = device.zeros::<T>(results)?;
            let mut indices = device.zeros::<i32>(results)?;
            let y = values.view_mut(&shape[..])?;
            let at = indices.view_mut(&shape[..])?;
            let call = if function.is_index() {
                Reduce::index(function, &from, modes[0], &at).values(&y)
            } else {
                Reduce::new(function, &from, modes, &y)
            };
            let call = call.prepare_with(|problem| {
                let plan = ReducePlan::fastest(problem)?;
                let keeps_inner = plan.operands.keeps_inner;
                let across = if keeps_inner {
                    best.across
                } else {
                    plan.across
                };
                let along = if keeps_inner { 8 } else { plan.along };
                Ok(ReducePlan {
                    rows: (plan.rows.max(32 / (across * along))).min(512 / (across * along)),
                    across,
                    along,
                    accesses: 2,
                    parts: best.parts,
                    last_adds: !best.is_second,
                    cluster: best.cluster,
                    parts_inner: plan.turns_inner,
                    prefetches: best.prefetches && !plan.turns_inner,
                    ..plan
                })
            })?;
            call.run(device)?;
            drop(call);
            let bits = values.download()?.into_iter().map(|x| x.to_f64().to_bits());
            Ok((bits.collect::<Vec<u64>>(), indices.download()?))
        })?;
        all.push(found);
    }
    Ok(all)
}

/// Ampere and Hopper compare floats of 16 bits in pairs by one instruction, and other architectures one by one in f32: maxima, minima,
/// sizes, indices and values have the same bits, of NaN, infinities, subnormals and zeros of both signs, also by threads of several warps,
/// in parts that the last block or a second kernel combines, and in clusters.
#[test]
fn law_pairs_have_the_bits_of_single_elements() {
    fn check<T: GemmElement>(infinity: u16, of_bits: fn(u16) -> T) -> usize {
        // Vectors of eight elements along the inner mode, and of one.
        [[37, 3, 24], [37, 2, 9]]
            .map(|extents| check_of(infinity, of_bits, extents))
            .iter()
            .sum()
    }
    fn check_of<T: GemmElement>(
        infinity: u16,
        of_bits: fn(u16) -> T,
        extents: [usize; 3],
    ) -> usize {
        let x: Vec<T> = words(infinity, extents).into_iter().map(of_bits).collect();
        let (mut cases, mut case) = (0, 0);
        for function in [
            ReduceFunction::Max,
            ReduceFunction::Min,
            ReduceFunction::AbsMax,
            ReduceFunction::ArgMax,
            ReduceFunction::ArgMin,
        ] {
            for modes in [&[0][..], &[1], &[2], &[0, 1, 2]] {
                if function.is_index() && modes.len() > 1 {
                    continue;
                }
                case += 1;
                let of = |arch: Arch| {
                    let case = case + share_of(arch);
                    let found = best_of(case, arch, &x, extents, (function, modes));
                    found.unwrap_or_else(|why| panic!("{function} along {modes:?}, {arch}: {why}"))
                };
                let archs = [Arch::Sm70, Arch::Sm80, Arch::Sm90a];
                let all = archs.map(|arch| (arch, of(arch)));
                let (_, single) = &all[0];
                for (arch, found) in &all {
                    for (plan, found) in found.iter().enumerate() {
                        assert_eq!(
                            found,
                            &single[0],
                            "{function} of {} of {extents:?} along {modes:?}, {arch}, plan {plan}",
                            T::TY
                        );
                    }
                    cases += found.len();
                }
            }
        }
        cases
    }
    let bf16 = check(half::bf16::INFINITY.to_bits(), half::bf16::from_bits);
    let f16 = check(half::f16::INFINITY.to_bits(), half::f16::from_bits);
    println!("law reduce.pairs: {} cases", bf16 + f16);
}

/// The functions that have parts of the types of a tensor's elements.
fn every_function(ty: Ty) -> impl Iterator<Item = ReduceFunction> {
    let problem = move |function| ReduceProblem::new(function, ty, &[9, 9], &[0]);
    ReduceFunction::ALL
        .into_iter()
        .filter(move |function| problem(*function).is_ok())
}

/// The results of a plan and of that whose second kernel adds the parts, for numbers whose sums are exact in any order; none is -1, which
/// an [`Output`] takes for an element that was not written.
fn last_block_of<T: GemmElement + PartialEq>(
    arch: Arch,
    (parts, cluster): (i64, i64),
) -> Result<usize, String> {
    let extents = [3_usize, 14, 24];
    let count = extents.iter().product::<usize>();
    let x: Vec<T> = (0..count)
        .map(|i| T::from_f64((i * 7919 % 13) as f64))
        .collect();
    let mut cases = 0;
    // Of each type, architecture and number of parts others.
    let mut number = share_of(T::TY) + share_of(arch) + parts as usize;
    for function in every_function(T::TY) {
        for modes in [&[0][..], &[1], &[2], &[0, 2], &[0, 1, 2]] {
            if function.is_index() && modes.len() > 1 {
                continue;
            }
            number += 1;
            if !takes(5, number) {
                continue;
            }
            let kept = |mode: usize| {
                if modes.contains(&mode) {
                    1
                } else {
                    extents[mode]
                }
            };
            let shape = [0, 1, 2].map(|mode| kept(mode) as i64);
            let results = shape.iter().product::<i64>() as usize;
            let of = |last_adds: bool| {
                testing::in_every_schedule(arch, 3, |device| {
                    let from = device.upload(&x)?;
                    let from = from.view([3_i64, 14, 24])?;
                    let mut values = Output::<T>::new(device, results)?;
                    let mut indices = Output::<i32>::new(device, results)?;
                    let y = values.buffer().view_mut(&shape[..])?;
                    let at = indices.buffer().view_mut(&shape[..])?;
                    let call = if function.is_index() {
                        Reduce::index(function, &from, modes[0], &at).values(&y)
                    } else {
                        Reduce::new(function, &from, modes, &y)
                    };
                    let call = call.prepare_with(|problem| {
                        let plan = ReducePlan::fastest(problem)?;
                        let turns = plan.turns_inner || plan.operands.keeps_inner;
                        let along = plan.along.min(if turns { 8 } else { 1024 });
                        let across = if plan.operands.keeps_inner {
                            4
                        } else {
                            plan.across
                        };
                        let rows = 32 / (along * across).min(32);
                        let accesses = 1;
                        let plan = ReducePlan {
                            rows,
                            across,
                            along,
                            accesses,
                            parts,
                            last_adds,
                            cluster: if last_adds { cluster } else { 1 },
                            ..plan
                        };
                        let plan = ReducePlan {
                            parts_inner: plan.turns_inner,
                            ..plan
                        };
                        let needs = plan.workspace(problem) + plan.counters(problem);
                        assert_eq!(needs == 0, last_adds && parts == cluster, "{plan}");
                        Ok(plan)
                    })?;
                    let launches = if last_adds { 1 } else { 2 };
                    assert_eq!(call.traffic().expect("results").launches, launches);
                    assert_eq!(call.functions().count() as i64, launches);
                    for _ in 0..2 {
                        call.run(device)?;
                    }
                    let indices = if function.is_index() {
                        indices.elements()?
                    } else {
                        Vec::new()
                    };
                    Ok((values.elements()?, indices))
                })
            };
            let text = |e: Error| format!("{function} of {} along {modes:?}: {e}", T::TY);
            let (by_kernel, by_block) = (of(false).map_err(text)?, of(true).map_err(text)?);
            if by_kernel != by_block {
                return Err(format!("{function} of {} along {modes:?} differs", T::TY));
            }
            cases += 1;
        }
    }
    Ok(cases)
}

/// Every function and type, along every mode, twice with the same counters, under several schedules: the block that comes last
/// makes the results of the second kernel.
#[test]
fn law_the_last_block_adds_what_the_second_kernel_adds() {
    let mut cases = 0;
    for arch in [Arch::Sm70, Arch::Sm90a] {
        for of in [
            last_block_of::<f32>,
            last_block_of::<half::bf16>,
            last_block_of::<half::f16>,
            last_block_of::<i32>,
        ] {
            cases += of(arch, (6, 1)).unwrap_or_else(|why| panic!("{arch}: {why}"));
        }
    }
    println!("law reduce.last_adds: {cases} cases");
}

/// The same of clusters, one for a result and several, whose parts the last block adds.
#[test]
fn law_clusters_add_what_the_second_kernel_adds() {
    let mut cases = 0;
    for parts in [(2, 2), (8, 8), (6, 2), (12, 4)] {
        for of in [
            last_block_of::<f32>,
            last_block_of::<half::bf16>,
            last_block_of::<half::f16>,
            last_block_of::<i32>,
        ] {
            cases += of(Arch::Sm90a, parts).unwrap_or_else(|why| panic!("{parts:?}: {why}"));
        }
    }
    println!("law reduce.clusters: {cases} cases");
}

/// The sum of `parts` by `n` threads of one block, of which `lanes` that follow each other are in a warp.
fn by_threads(parts: &[f32], n: usize, lanes: usize) -> f32 {
    let mut held = vec![0.0_f32; n];
    for (part, x) in parts.iter().enumerate() {
        held[part % n] += x;
    }
    let mut distance = 1;
    while distance < lanes {
        held = (0..n).map(|t| held[t] + held[t ^ distance]).collect();
        distance *= 2;
    }
    held.iter()
        .step_by(lanes)
        .copied()
        .reduce(|a, b| a + b)
        .expect("a block has threads")
}

/// The sums of a plan of `x` under several schedules, twice with the same counters.
fn sums_of(x: &[f32], extents: [i64; 2], mode: usize, plan: ReducePlan) -> Vec<f32> {
    let found = testing::in_every_schedule(Arch::Sm90a, 3, |device| {
        let from = device.upload(x)?;
        let from = from.view(extents)?;
        let mut y = Output::<f32>::new(device, extents[1 - mode] as usize)?;
        let to = y.buffer().view_mut(extents[1 - mode])?;
        let call = Reduce::new(ReduceFunction::Sum, &from, &[mode], &to);
        let call = call.prepare_with(|_| Ok(plan))?;
        call.run(device)?;
        call.run(device)?;
        y.elements()
    });
    found.unwrap_or_else(|why| panic!("{plan}: {why}"))
}

/// Each block of a cluster has the sum that a block without parts has of the same turns. Those of a cluster are added in their order, and
/// those of the clusters as the last block adds parts, bit for bit.
#[test]
fn law_a_cluster_adds_parts_in_their_order() {
    let mut cases = 0;
    for (parts, cluster) in [(2, 2), (4, 4), (8, 8), (8, 2), (24, 8), (20, 4)] {
        for mode in [0_usize, 1] {
            for prefetches in [false, true] {
                if prefetches && mode == 1 {
                    continue;
                }
                // The threads of a block along the mode, the elements of its turn, and of two turns of each part, but for the last ones.
                let (n, lanes, chunk) = if mode == 0 { (8, 4, 16) } else { (64, 32, 512) };
                let (kept, reduced) = (20_usize, 2 * chunk * parts - 7);
                let extents = |reduced: usize| {
                    let mut all = [kept as i64; 2];
                    all[mode] = reduced as i64;
                    all
                };
                let at = |i: usize, of: usize| ((i * kept + of) * 7919 % 613) as f32 / 60.0 - 5.0;
                let of = |numbers: &[usize]| -> Vec<f32> {
                    let mut all = Vec::new();
                    if mode == 0 {
                        all.extend(
                            numbers
                                .iter()
                                .flat_map(|i| (0..kept).map(move |k| at(*i, k))),
                        );
                    } else {
                        all.extend((0..kept).flat_map(|k| numbers.iter().map(move |i| at(*i, k))));
                    }
                    all
                };
                let plan = |reduced: usize| {
                    let sum = ReduceFunction::Sum;
                    let problem = ReduceProblem::new(sum, Ty::F32, &extents(reduced), &[mode]);
                    let problem = problem.expect("a problem");
                    ReducePlan {
                        vector: if mode == 0 { 4 } else { 1 },
                        rows: 1,
                        across: if mode == 0 { 8 } else { 1 },
                        along: if mode == 0 { 8 } else { 64 },
                        accesses: if mode == 0 { 2 } else { 8 },
                        turns_inner: mode == 1,
                        parts_inner: mode == 1,
                        parts: 1,
                        last_adds: false,
                        prefetches,
                        ..ReducePlan::fastest(&problem).expect("a plan")
                    }
                };
                let all: Vec<usize> = (0..reduced).collect();
                let found = ReducePlan {
                    parts: parts as i64,
                    last_adds: true,
                    cluster: cluster as i64,
                    ..plan(reduced)
                };
                let found = sums_of(&of(&all), extents(reduced), mode, found);
                let of_parts: Vec<Vec<f32>> = (0..parts)
                    .map(|part| {
                        let is_own = |i: &usize| i / chunk % parts == part;
                        let own: Vec<usize> = all.iter().copied().filter(is_own).collect();
                        sums_of(&of(&own), extents(own.len()), mode, plan(own.len()))
                    })
                    .collect();
                for (column, found) in found.iter().enumerate() {
                    let own: Vec<f32> = of_parts.iter().map(|part| part[column]).collect();
                    let of_clusters: Vec<f32> = own
                        .chunks(cluster)
                        .map(|own| own.iter().copied().reduce(|a, b| a + b).expect("parts"))
                        .collect();
                    let want = match &of_clusters[..] {
                        [one] => *one,
                        all => by_threads(all, n, lanes),
                    };
                    assert_eq!(
                        found.to_bits(),
                        want.to_bits(),
                        "{parts} parts, clusters of {cluster}, mode {mode}, result {column}: {found} and {want}"
                    );
                }
                cases += found.len();
            }
        }
    }
    println!("law reduce.cluster_order: {cases} cases");
}

/// The results of shifted rows and of the default plan, for numbers whose sums are exact in any order.
fn shifted_rows_of<T: GemmElement + PartialEq>(first: usize) -> Result<usize, String> {
    let vector = 128 / i64::from(T::TY.bits());
    let mut cases = 0;
    for (i, function) in every_function(T::TY).enumerate() {
        for (_, (rows, columns, parts, last_adds)) in [
            (5_i64, 1027_i64, 1, false),
            (3, 33, 1, false),
            (7, 3, 1, false),
            (1, 5001, 3, false),
            (3, 4099, 4, true),
            (9, 1024, 1, false),
        ]
        .into_iter()
        .enumerate()
        .filter(|(j, _)| takes(3, i + j + share_of(T::TY)))
        {
            let count = (rows * columns) as usize;
            let x: Vec<T> = (0..first + count)
                .map(|i| T::from_f64((i * 7919 % 13) as f64))
                .collect();
            let of = |is_shifted: bool| {
                testing::in_every_schedule(Arch::Sm80, 3, |device| {
                    let from = device.upload(&x)?;
                    let from = from.slice(first..first + count)?;
                    let from = from.view((rows, columns))?;
                    let mut values = Output::<T>::new(device, rows as usize)?;
                    let mut indices = Output::<i32>::new(device, rows as usize)?;
                    let y = values.buffer().view_mut(rows)?;
                    let at = indices.buffer().view_mut(rows)?;
                    let call = if function.is_index() {
                        Reduce::index(function, &from, 1, &at).values(&y)
                    } else {
                        Reduce::new(function, &from, &[1], &y)
                    };
                    let call = call.prepare_with(|problem| {
                        let plan = ReducePlan::fastest(problem)?;
                        let shifted = ReducePlan {
                            vector,
                            rows: 2,
                            across: 1,
                            along: 32,
                            accesses: 2,
                            turns_inner: true,
                            parts,
                            parts_inner: true,
                            last_adds,
                            shifted: true,
                            ..plan
                        };
                        Ok(if is_shifted { shifted } else { plan })
                    })?;
                    call.run(device)?;
                    call.run(device)?;
                    let indices = if function.is_index() {
                        indices.elements()?
                    } else {
                        Vec::new()
                    };
                    Ok((values.elements()?, indices))
                })
            };
            let text = |e: Error| format!("{function} of {} of {rows}x{columns}: {e}", T::TY);
            if of(true).map_err(text)? != of(false).map_err(text)? {
                return Err(format!("{function} of {} of {rows}x{columns}", T::TY));
            }
            cases += 1;
        }
    }
    Ok(cases)
}

/// Rows that begin anywhere, rows without a vector inside, several blocks for a row, of every function and type.
#[test]
fn law_shifted_rows_are_reduced_as_other_rows() {
    let cases = shifted_rows_of::<f32>(4)
        .and_then(|n| Ok(n + shifted_rows_of::<half::bf16>(8)?))
        .and_then(|n| Ok(n + shifted_rows_of::<half::f16>(0)?))
        .and_then(|n| Ok(n + shifted_rows_of::<i32>(0)?));
    let cases = cases.unwrap_or_else(|why| panic!("{why}"));
    println!("law reduce.shifted: {cases} cases");
}

/// More tiles than a launch has blocks along its second axis: a block counts for several of them.
#[test]
fn law_a_block_of_many_tiles_counts_each_of_them() {
    of_many_tiles(Arch::Sm80, 2, 1);
}

/// The same of clusters, which use their shared memory again for each tile.
#[test]
fn law_a_cluster_of_many_tiles_adds_each_of_them() {
    of_many_tiles(Arch::Sm90a, 2, 2);
}

fn of_many_tiles(arch: Arch, parts: i64, cluster: i64) {
    let columns = 32 * 65_535 + 40_i64;
    let device = simulator(arch, 2);
    let x: Vec<i32> = (0..2 * columns).map(|i| (i % 1013) as i32).collect();
    let from = device.upload(&x).expect("memory");
    let mut y = Output::<i32>::new(&device, columns as usize).expect("memory");
    {
        let (from, to) = (
            from.view((2, columns)).expect("a view"),
            y.buffer().view_mut(columns).expect("a view"),
        );
        let call = Reduce::new(ReduceFunction::Sum, &from, &[0], &to).prepare_with(|problem| {
            let plan = ReducePlan::fastest(problem)?;
            Ok(ReducePlan {
                vector: 1,
                rows: 1,
                across: 1,
                along: 32,
                accesses: 1,
                parts,
                last_adds: true,
                cluster,
                ..plan
            })
        });
        let call = call.expect("a call");
        call.run(&device).expect("a run");
    }
    let found = y.elements().expect("all results");
    for (i, found) in found.iter().enumerate() {
        let want: i32 = (0..2).map(|row| x[row * columns as usize + i]).sum();
        assert_eq!(*found, want, "column {i}");
    }
}

/// The block that comes last adds 20 parts in each thread: with more registers it has more of them under way, in the same order.
#[test]
fn law_parts_under_way_at_once_have_the_same_bits() {
    let x: Vec<half::bf16> = (0..80 * 16)
        .map(|i| half::bf16::from_f32((i * 7919 % 613) as f32 / 60.0 - 5.0))
        .collect();
    let of = |function: ReduceFunction, min_blocks: i64| {
        let found = testing::in_every_schedule(Arch::Sm90a, 3, |device| {
            let from = device.upload(&x)?;
            let from = from.view([80_i64, 16])?;
            let mut y = Output::<f32>::new(device, 16)?;
            let to = y.buffer().view_mut([1_i64, 16])?;
            let call = Reduce::new(function, &from, &[0], &to).prepare_with(|problem| {
                let plan = ReducePlan::fastest(problem)?;
                assert_eq!(plan.vector, 8);
                Ok(ReducePlan {
                    rows: 8,
                    across: 2,
                    along: 2,
                    accesses: 1,
                    parts: 40,
                    last_adds: true,
                    prefetches: false,
                    min_blocks,
                    ..plan
                })
            })?;
            for _ in 0..2 {
                call.run(device)?;
            }
            let bits = y.buffer().download()?;
            Ok(bits.iter().map(|x| x.to_bits()).collect::<Vec<u32>>())
        });
        found.unwrap_or_else(|why| panic!("{function}: {why}"))
    };
    for function in [
        ReduceFunction::Sum,
        ReduceFunction::Max,
        ReduceFunction::Norm,
    ] {
        let usual = of(function, 0);
        for min_blocks in [1, 2] {
            assert_eq!(of(function, min_blocks), usual, "{function}, {min_blocks}");
        }
    }
}

/// A kernel that the simulator stops leaves counts of blocks; the next run begins without them, and so does the next profile.
#[test]
fn law_a_run_that_fails_leaves_no_counts() {
    let mut failed = 0;
    for seed in 0..6 {
        let is_profiled = seed % 2 == 1;
        let device = simulator(Arch::Sm80, seed);
        let x = device.uninitialised::<f32>(4096 * 64).expect("memory");
        // The last rows are not written, and the blocks before them count.
        x.slice(..4000 * 64)
            .expect("a part")
            .write(&vec![1.0; 4000 * 64])
            .expect("a write");
        let mut y = device.poisoned::<f32>(64).expect("memory");
        {
            let (from, to) = (
                x.view((4096, 64)).expect("a view"),
                y.view_mut(64).expect("a view"),
            );
            let call = Reduce::new(ReduceFunction::Sum, &from, &[0], &to).prepare_with(|problem| {
                let plan = ReducePlan::last_adding(problem)?;
                Ok(plan.expect("blocks share results"))
            });
            let call = call.expect("a call");
            let work = || {
                if is_profiled {
                    call.profile(&device).map(|_| ())
                } else {
                    call.run(&device)
                }
            };
            let error = work().expect_err("a read of memory that is not written");
            assert!(error.to_string().contains("never written"), "{error}");
            failed += 1;
            x.write(&vec![1.0; 4096 * 64]).expect("a write");
            work().expect("a run");
        }
        assert_eq!(y.download().expect("sums"), [4096.0; 64]);
    }
    println!("law reduce.counters: {failed} cases");
}

#[test]
fn law_reductions_of_no_elements_have_the_neutral_result() {
    let device = simulator(Arch::Sm80, 3);
    let x = device.zeros::<f32>(4).expect("memory");
    let x = x.view((5, 0, 3)).expect("a view");
    let mut y = Output::<f32>::new(&device, 15).expect("memory");
    for (function, want) in [
        (ReduceFunction::Sum, 0.0),
        (ReduceFunction::SquareSum, 0.0),
        (ReduceFunction::Norm, 0.0),
    ] {
        reduce(
            function,
            &x,
            &[1],
            &y.buffer().view_mut((5, 3)).expect("a view"),
        )
        .expect("a sum");
        assert_eq!(y.elements().expect("all results"), [want; 15]);
    }
    let mean = y.buffer().view_mut((5, 3)).expect("a view");
    reduce(ReduceFunction::Mean, &x, &[1], &mean).expect("a mean");
    let found = y.buffer().download().expect("results");
    assert!(found.iter().all(|mean| mean.is_nan()));
    // No results: nothing is to be done.
    let mut none = device.zeros::<f32>(1).expect("memory");
    let none = none.view_mut((5, 0)).expect("a view");
    reduce(ReduceFunction::Max, &x, &[2], &none).expect("nothing");
    println!("law reduce.nothing: 5 cases");
}

/// A prepared reduction of no elements owns the zeros that it reads: it has its results also where the caches were cleared, and where
/// other memory was allocated since.
#[test]
fn law_reductions_of_no_elements_outlive_the_caches() {
    let device = simulator(Arch::Sm80, 5);
    let memory = device.zeros::<f32>(4).expect("memory");
    let x = memory.view((5, 0)).expect("a view");
    let mut cases = 0;
    for function in [
        ReduceFunction::Sum,
        ReduceFunction::SquareSum,
        ReduceFunction::Norm,
    ] {
        let mut y = device.poisoned::<f32>(5).expect("memory");
        {
            let y = y.view_mut(5).expect("a view");
            let call = Reduce::new(function, &x, &[1], &y)
                .prepare()
                .expect("a call");
            for round in 0..3 {
                device.clear_module_cache();
                let others: Vec<_> = (0..8).map(|_| device.upload(&[7.0_f32; 2])).collect();
                let ran = call.run(&device);
                ran.unwrap_or_else(|why| panic!("{function}, round {round}: {why}"));
                assert!(others.iter().all(Result::is_ok));
                cases += 1;
            }
        }
        assert_eq!(y.download().expect("results"), [0.0; 5], "{function}");
    }
    println!("law reduce.zeros: {cases} cases");
}

#[test]
fn refused_reductions_say_what_would_be_right() {
    let device = Device::simulator(Arch::Sm90a);
    let memory = device.zeros::<f32>(6000).expect("memory");
    let mut output = device.zeros::<f32>(6000).expect("memory");
    let mut whole = device.zeros::<i32>(6000).expect("memory");
    let doubles = device.zeros::<f64>(6000).expect("memory");
    let x = memory.view((20, 300)).expect("a view");
    let integers = device.zeros::<i32>(6000).expect("memory");
    let integers = integers.view((20, 300)).expect("a view");
    let error = |result: Result<(), Error>| result.expect_err("it is refused").to_string();
    let mut found = Vec::new();
    {
        let y = output.view_mut(20).expect("a view");
        let of = |function, modes: &[usize]| error(reduce(function, &x, modes, &y));
        found.push(of(ReduceFunction::Sum, &[2]));
        found.push(of(ReduceFunction::Sum, &[1, 1]));
        found.push(of(ReduceFunction::Sum, &[0]));
        found.push(of(ReduceFunction::ArgMax, &[1]));
        found.push(error(reduce(
            ReduceFunction::Sum,
            &doubles.view((20, 300)).expect("a view"),
            &[1],
            &y,
        )));
        found.push(error(reduce(ReduceFunction::Mean, &integers, &[1], &y)));
        found.push(error(reduce(ReduceFunction::Sum, &integers, &[1], &y)));
        found.push(error(reduce(ReduceFunction::AbsMax, &integers, &[1], &y)));
        let nothing = memory.view((20, 0)).expect("a view");
        found.push(error(reduce(ReduceFunction::Max, &nothing, &[1], &y)));
        let planned = |change: &dyn Fn(&mut ReducePlan)| {
            let call = Reduce::new(ReduceFunction::Sum, &x, &[1], &y).prepare_with(|problem| {
                let mut plan = ReducePlan::fastest(problem)?;
                change(&mut plan);
                Ok(plan)
            });
            call.expect_err("it is refused").to_string()
        };
        found.push(planned(&|plan| plan.vector = 3));
        found.push(planned(&|plan| plan.vector = 8));
        found.push(planned(&|plan| plan.across = i64::MAX));
        found.push(planned(&|plan| plan.rows = 0));
        found.push(planned(&|plan| (plan.rows, plan.along) = (1, 16)));
        found.push(planned(&|plan| plan.accesses = 17));
        found.push(planned(&|plan| plan.parts = 1025));
        found.push(planned(&|plan| {
            (plan.rows, plan.along, plan.accesses) = (1, 1024, 17)
        }));
        found.push(planned(&|plan| plan.operands.keeps_inner = true));
        found.push(planned(&|plan| plan.turns_inner = false));
        found.push(planned(&|plan| {
            plan.operands.function = ReduceFunction::Max
        }));
        found.push(planned(&|plan| plan.operands.stage = ReduceStage::Part));
        found.push(planned(&|plan| plan.operands.outer = usize::MAX));
        found.push(planned(&|plan| plan.operands.contiguous = false));
        found.push(planned(&|plan| plan.operands.stored = 4));
        found.push(planned(&|plan| plan.operands.values = Some(Ty::F32)));
        found.push(planned(&|plan| {
            (plan.turns_inner, plan.parts_inner, plan.along) = (false, false, 32)
        }));
        found.push(planned(&|plan| {
            (plan.shifted, plan.turns_inner, plan.parts_inner) = (true, false, false)
        }));
        found.push(planned(&|plan| {
            (plan.shifted, plan.across, plan.rows) = (true, 2, 1)
        }));
        found.push(planned(&|plan| {
            (plan.shifted, plan.along, plan.rows) = (true, 4, 8)
        }));
        found.push(planned(&|plan| {
            (plan.shifted, plan.parts, plan.parts_inner) = (true, 2, false)
        }));
        found.push(planned(&|plan| plan.prefetches = true));
        found.push(planned(&|plan| plan.min_blocks = -1));
        found.push(planned(&|plan| plan.min_blocks = 2049));
        found.push(planned(&|plan| plan.cluster = 3));
        found.push(planned(&|plan| plan.cluster = 16));
        found.push(planned(&|plan| {
            (plan.parts, plan.last_adds, plan.cluster) = (6, true, 4)
        }));
        found.push(planned(&|plan| (plan.parts, plan.cluster) = (4, 2)));
        found.push(planned(&|plan| {
            (plan.last_adds, plan.parts, plan.cluster) = (true, 8, 8);
            (
                plan.operands.keeps_inner,
                plan.turns_inner,
                plan.parts_inner,
            ) = (true, false, false);
            (plan.rows, plan.along) = (4, 256)
        }));
        let problem = ReduceProblem::new(ReduceFunction::Sum, Ty::F32, &[20, 300], &[1]);
        let plan = ReducePlan::fastest(&problem.expect("a problem")).expect("a plan");
        let clusters = ReducePlan {
            parts: 2,
            last_adds: true,
            cluster: 2,
            ..plan
        };
        found.push(error(clusters.check(Arch::Sm80)));
        found.push(planned(&|plan| {
            (plan.rows, plan.along, plan.min_blocks) = (1, 32, 33)
        }));
        let indices = ReduceProblem::new(ReduceFunction::ArgMax, Ty::F32, &[20, 300], &[1]);
        let mut indices = ReducePlan::fastest(&indices.expect("a problem")).expect("a plan");
        indices.operands.values = Some(Ty::S32);
        found.push(error(indices.check(Arch::Sm80)));
        let part = memory.slice(1..5981).expect("a slice");
        let part = part.view((20, 299)).expect("a view");
        let call = Reduce::new(ReduceFunction::Sum, &part, &[1], &y).prepare_with(|problem| {
            let plan = ReducePlan::fastest(problem)?;
            Ok(ReducePlan {
                vector: 4,
                shifted: true,
                ..plan
            })
        });
        found.push(call.expect_err("it is refused").to_string());
    }
    {
        let at = whole.view_mut((20, 1)).expect("a view");
        let values = output.view_mut(300).expect("a view");
        let call = Reduce::index(ReduceFunction::ArgMax, &x, 1, &at).values(&values);
        found.push(call.run().expect_err("it is refused").to_string());
    }
    {
        let layout = Layout::new(((2, 10), 300), ((300, 1000), 1)).expect("a layout");
        let memory = device.zeros::<f32>(20_000).expect("memory");
        let x = View::new(&memory, &layout).expect("a view");
        // The parts are 2 and 10, and 5 and 4.
        let others = Layout::new(((5, 4),), ((1, 10),)).expect("a layout");
        let y = ViewMut::new(&mut output, &others).expect("a view");
        found.push(error(reduce(ReduceFunction::Sum, &x, &[1], &y)));
        let layout = Layout::new((20, (30, 10)), (300, (10, 1))).expect("a layout");
        let x = View::new(&memory, &layout).expect("a view");
        let at = whole.view_mut(20).expect("a view");
        let call = Reduce::index(ReduceFunction::ArgMax, &x, 1, &at);
        found.push(call.run().expect_err("it is refused").to_string());
    }
    {
        let twice = Layout::new((20,), (0,)).expect("a layout");
        let y = ViewMut::new(&mut output, &twice).expect("a view");
        found.push(error(reduce(ReduceFunction::Sum, &x, &[1], &y)));
    }
    let same = memory.clone();
    let mut same = same;
    let overlap = same.view_mut(20).expect("a view");
    let refused = reduce(ReduceFunction::Sum, &x, &[1], &overlap).expect_err("it is refused");
    assert!(refused.is_overlap(), "{refused}");
    assert_eq!(
        found,
        [
            "mode 2 is named, and x (20,300) has 2 modes: modes are counted from 0",
            "mode 1 is named twice: name it once",
            "y has the shape 20, and x (20,300) without the modes [0] is 300: both must be equal, or have modes of extent 1 where x is reduced",
            "the arg-max of f32 in f32: the results must be s32 or s64",
            "the sum of f64: the elements must be f32, f16, bf16 or s32",
            "the mean of s32: it is no integer, so convert the elements to f32 first",
            "the sum of s32 in f32: the results must be s32",
            "the abs-max of s32: the type does not hold the size of its least number, so convert the elements to f32 first",
            "the max of no elements: x has the shape (20,0), and an extent that is reduced is 0",
            "the plan's vector is 3: the sum kernel takes a power of two, 1 to 4",
            "the plan's vector is 8: the sum kernel takes a power of two, 1 to 4",
            "the plan's number of threads across is 9223372036854775807: the sum kernel takes a power of two, 1 to 64",
            "the plan's number of threads along the rows is 0: the sum kernel takes a power of two, 1 to 64",
            "the plan's number of threads of a block is 16: the sum kernel takes 32 to 1024, in multiples of 32",
            "the plan's number of accesses is 17: the sum kernel takes 1 to 16",
            "the plan's number of parts is 1025: the sum kernel takes 1 to 1024",
            "the plan's number of accesses is 17: the sum kernel takes 1 to 16",
            "the operands of the plan are `sum of f32 in f32, 1 outer and 1 reduced modes, the inner one kept`: the turns go along an inner mode only if it is reduced",
            "the operands of the plan are `sum of f32 in f32, 1 outer and 1 reduced modes, the inner one reduced`: the parts divide \
             the turns along the inner mode only if turns go along it",
            "the plan was made for another call: max of f32 in f32, 1 outer and 1 reduced modes, the inner one reduced in the plan and sum of f32 in f32, 1 outer and 1 reduced modes, the inner one reduced in the call",
            "the operands of the plan are `sum of f32 in f32, 1 outer and 1 reduced modes, the inner one reduced`: a plan is for the whole reduction",
            "the operands of the plan are `sum of f32 in f32, 18446744073709551615 outer and 1 reduced modes, the inner one reduced`: a kernel has 1 to 16 modes of each kind",
            "the operands of the plan are `sum of f32 in f32, 1 outer and 1 reduced modes, the inner one reduced`: accesses of several elements need an inner mode with the stride 1",
            "the operands of the plan are `sum of f32 in f32, 1 outer and 1 reduced modes, the inner one reduced`: several results are stored at once along an inner mode that is kept",
            "the operands of the plan are `sum of f32 in f32, values of f32, 1 outer and 1 reduced modes, the inner one reduced`: the results of a function other than arg-max and arg-min are the values",
            "the plan's threads along the inner mode have 128 elements side by side, and it has 300: more threads cover it, or turns along it",
            "the operands of the plan are `sum of f32 in f32, 1 outer and 1 reduced modes, the inner one reduced`: shifted rows are \
             one mode of contiguous elements, along which the turns go",
            "the plan's number of threads across shifted rows is 2: the sum kernel takes 1 only",
            "the plan's number of threads along shifted rows is 4: the sum kernel takes 8 to 1024",
            "the operands of the plan are `sum of f32 in f32, 1 outer and 1 reduced modes, the inner one reduced`: the parts of \
             shifted rows divide the turns along them",
            "the operands of the plan are `sum of f32 in f32, 1 outer and 1 reduced modes, the inner one reduced`: elements are prefetched only if turns go along the modes without the inner one",
            "the plan's number of blocks on a multiprocessor is -1: the sum kernel takes 0 to 8",
            "the plan's number of blocks on a multiprocessor is 2049: the sum kernel takes 0 to 8",
            "the plan's number of blocks of a cluster is 3: the sum kernel takes a power of two, 1 to 8",
            "the plan's number of blocks of a cluster is 16: the sum kernel takes a power of two, 1 to 8",
            "the plan's number of parts is 6: the sum kernel takes 4 to 1024, in multiples of 4",
            "the operands of the plan are `sum of f32 in f32, 1 outer and 1 reduced modes, the inner one reduced`: a cluster adds the \
             parts of its blocks only if the block that comes last adds those of the clusters",
            "the plan's number of bytes of parts in shared memory is 114688: the sum kernel takes 1 to 32768",
            "the plan's number of blocks of a cluster is 2: the sum kernel takes 1 only",
            "the plan's number of blocks on a multiprocessor is 33: the sum kernel takes 0 to 32",
            "the operands of the plan are `arg-max of f32 in s32, values of s32, 1 outer and 1 reduced modes, the inner one reduced`: \
             the values have the type of the elements",
            "the plan's rows are shifted: x must begin at a multiple of the plan's accesses, each row where the one before it ends, \
             and have at most 2147352576 elements",
            "`values` has the shape 300, and x (20,300) without the modes [1] is 20: both must be equal, or have modes of extent 1 where x is reduced",
            "((2,10),300):((300,1000),1) has a mode with several strides, whose parts another tensor does not have: give the parts as modes",
            "(20,(30,10)):(300,(10,1)) has several strides along mode 1: this mode must have one",
            "the destination y (20):(0) has one element at several coordinates: which value stays would be a race",
        ]
    );
}

/// Plans of any numbers: one that `check` accepts is built.
#[test]
fn law_accepted_plans_of_reductions_are_built() {
    let mut r = Random::of(7, "reduce plans");
    let (mut accepted, mut refused) = (0, 0);
    let count = 3000;
    for _ in 0..count {
        let arch = r.one(&[Arch::Sm70, Arch::Sm80, Arch::Sm90a]);
        let function = r.one(&ReduceFunction::ALL);
        let ty = r.one(&[Ty::F32, Ty::Bf16, Ty::F16, Ty::S32, Ty::F32, Ty::F64]);
        let extents = match r.below(4_u64) {
            0 => [(); 3].map(|()| r.one(&[1, 1 << 20, 1 << 62, i64::MAX, 0, -1])),
            _ => [(); 3].map(|()| r.one(&[1, 2, 33, 256, 1000])),
        };
        let modes = r.one(&[&[0][..], &[1], &[2], &[0, 2], &[1], &[]]);
        let Ok(problem) = ReduceProblem::new(function, ty, &extents, modes) else {
            refused += 1;
            continue;
        };
        let Ok(fastest) = ReducePlan::fastest(&problem) else {
            refused += 1;
            continue;
        };
        assert!(
            fastest.check(arch).is_ok() && fastest.takes(&problem),
            "{fastest}"
        );
        let number = |r: &mut Random| match r.below(12_u64) {
            0 => r.one(&[3, 0, -1, 1 << 62, i64::MIN, i64::MAX]),
            _ => r.one(&[1, 1, 2, 4, 8, 32]),
        };
        let mut plan = fastest;
        if r.one_in(2) {
            plan.vector = number(&mut r);
        }
        if r.one_in(2) {
            (plan.rows, plan.across, plan.along) = (number(&mut r), number(&mut r), number(&mut r));
        }
        if r.one_in(3) {
            (plan.accesses, plan.parts) = (number(&mut r), number(&mut r));
            plan.last_adds = r.one_in(2);
        }
        if r.one_in(3) {
            (plan.cluster, plan.last_adds) = (number(&mut r), !r.one_in(4));
        }
        plan.shifted = r.one_in(4);
        plan.prefetches = r.one_in(4);
        if r.one_in(4) {
            plan.min_blocks = number(&mut r);
        }
        if r.one_in(8) {
            plan.operands.values = Some(r.one(&[Ty::F32, Ty::Bf16, Ty::S32, Ty::F64]));
        }
        if r.one_in(4) {
            plan.turns_inner = !plan.turns_inner;
            plan.parts_inner = r.one_in(2);
            plan.operands.keeps_inner = r.one_in(2);
            plan.operands.contiguous = r.one_in(2);
            plan.operands.stored = number(&mut r);
            plan.operands.vector = number(&mut r);
        }
        let _ = (
            plan.bytes(&problem),
            plan.workspace(&problem),
            plan.counters(&problem),
            plan.to_string(),
        );
        let _ = (
            plan.explain(&problem),
            fastest.explain(&problem),
            plan.takes(&problem),
        );
        match plan.check(arch) {
            Err(_) => refused += 1,
            Ok(()) => {
                accepted += 1;
                // Every plan is checked, and one accepted plan in 24 is built.
                if accepted % 24 == 1
                    && let Err(error) = plan.build(arch)
                {
                    panic!(
                        "{plan} of {} on {arch:?} is accepted and not built: {error}",
                        plan.operands
                    );
                }
            }
        }
    }
    println!("law reduce.built: {count} cases, {accepted} accepted, {refused} refused");
    assert!(
        accepted > count / 20,
        "only {accepted} of {count} plans are accepted"
    );
}

/// As many blocks on a multiprocessor as `check` accepts are those of which a kernel may ask for the registers, and values of the types that
/// it accepts are stored.
#[test]
fn law_accepted_limits_of_reductions_are_built() {
    let problem = ReduceProblem::new(ReduceFunction::ArgMax, Ty::Bf16, &[20, 300], &[1]);
    let plan = ReducePlan::fastest(&problem.expect("a problem")).expect("a plan");
    let mut accepted = 0;
    for threads in [32, 64, 1024] {
        for min_blocks in [0, 2, 3, 32, 33, 64, 65] {
            for values in [None, Some(Ty::Bf16), Some(Ty::F32), Some(Ty::S8)] {
                let mut plan = ReducePlan {
                    along: threads,
                    rows: 1,
                    min_blocks,
                    ..plan
                };
                plan.operands.values = values;
                let is_accepted = plan.check(Arch::Sm80).is_ok();
                let most = (2048 / threads).min(32);
                let is_right = min_blocks <= most && matches!(values, None | Some(Ty::Bf16));
                assert_eq!(is_accepted, is_right, "{plan}, {values:?}");
                if is_accepted && threads == 32 {
                    let built = plan.build(Arch::Sm80);
                    built.unwrap_or_else(|error| panic!("{plan}, {values:?}: {error}"));
                    accepted += 1;
                }
            }
        }
    }
    println!("law reduce.limits: {accepted} cases");
}

/// Rows of as many elements as an extent of a launch may have are shifted, and those of more are not: the default plan takes both.
#[test]
fn law_shifted_rows_have_an_extent_of_a_launch() {
    let mut cases = 0;
    for columns in [257, 4097, 65_537, 1_000_003] {
        for ty in [Ty::F32, Ty::Bf16] {
            let most = colex_tensor::MAX_EXTENT / columns;
            for rows in [most - 1, most, most + 1, (1 << 31) / columns, 1 << 30] {
                let sum = ReduceFunction::Sum;
                let problem = ReduceProblem::new(sum, ty, &[rows, columns], &[1]);
                let problem = problem.expect("a problem");
                let plan = ReducePlan::fastest(&problem).expect("a plan");
                assert!(plan.takes(&problem), "{plan}");
                let fits = rows * columns <= colex_tensor::MAX_EXTENT;
                assert_eq!(plan.shifted, fits, "{rows} rows of {columns}: {plan}");
                cases += 1;
            }
        }
    }
    println!("law reduce.shifted_extent: {cases} cases");
}

#[test]
fn refused_cumulative_sums_say_what_would_be_right() {
    let device = Device::simulator(Arch::Sm80);
    let memory = device.zeros::<f32>(6000).expect("memory");
    let mut output = device.zeros::<f32>(6000).expect("memory");
    let x = memory.view((20, 300)).expect("a view");
    let mut found = Vec::new();
    let error = |result: Result<(), Error>| result.expect_err("it is refused").to_string();
    {
        let y = output.view_mut((300, 20)).expect("a view");
        found.push(error(cumulative_sum(&x, 1, &y)));
    }
    {
        let y = output.view_mut((20, 300)).expect("a view");
        found.push(error(cumulative_sum(&x, 2, &y)));
        let planned = |change: &dyn Fn(&mut ScanPlan)| {
            let call = Scan::new(&x, 1, &y).prepare_with(|problem| {
                let mut plan = ScanPlan::fastest(problem);
                change(&mut plan);
                Ok(plan)
            });
            call.expect_err("it is refused").to_string()
        };
        found.push(planned(&|plan| plan.vector = 8));
        found.push(planned(&|plan| plan.along = 16));
        found.push(planned(&|plan| plan.along = 48));
        found.push(planned(&|plan| plan.rows = 2));
        found.push(planned(&|plan| plan.accesses = 17));
        found.push(planned(&|plan| plan.turns = -1));
        found.push(planned(&|plan| plan.operands.exclusive = true));
        found.push(planned(&|plan| plan.operands.contiguous = false));
        found.push(planned(&|plan| plan.operands.outer = 0));
        found.push(planned(&|plan| plan.operands.ty = Ty::F64));
    }
    {
        let odd = memory.view((20, 299)).expect("a view");
        let y = output.view_mut((20, 299)).expect("a view");
        let call = Scan::new(&odd, 1, &y).prepare_with(|problem| {
            let plan = ScanPlan::fastest(problem);
            Ok(ScanPlan { vector: 2, ..plan })
        });
        found.push(call.expect_err("it is refused").to_string());
    }
    {
        let problem = ScanProblem::new(Ty::F32, [1, 1 << 30, 1]).expect("a problem");
        let plan = ScanPlan::fastest(&problem);
        let plan = ScanPlan {
            along: 32,
            accesses: 1,
            turns: 1,
            ..plan
        };
        assert!(!plan.takes(&problem)); // too many parts
    }
    {
        let twice = Layout::new((20, 300), (0, 1)).expect("a layout");
        let y = ViewMut::new(&mut output, &twice).expect("a view");
        found.push(error(cumulative_sum(&x, 1, &y)));
    }
    let mut same = memory.clone();
    let overlap = same.view_mut((20, 300)).expect("a view");
    let refused = cumulative_sum(&x, 1, &overlap).expect_err("it is refused");
    assert!(refused.is_overlap(), "{refused}");
    for extents in [[0, 1, 1], [1, -1, 1], [1, 1, i64::MAX]] {
        let refused = ScanProblem::new(Ty::F32, extents).expect_err("it is refused");
        found.push(refused.to_string());
    }
    assert_eq!(
        found,
        [
            "y has the shape (300,20), and x (20,300): both must be equal",
            "mode 2 is named, and x (20,300) has 2 modes: modes are counted from 0",
            "the plan's vector is 8: the cumulative sum kernel takes a power of two, 1 to 4",
            "the plan's number of threads of a block is 16: the cumulative sum kernel takes 32 to 1024, in multiples of 32",
            "the plan's number of threads along the inner mode is 48: the cumulative sum kernel takes a power of two, 1 to 1024",
            "the plan's number of threads along the rows is 2: the cumulative sum kernel takes a power of two, 1 to 1",
            "the plan's number of accesses is 17: the cumulative sum kernel takes 1 to 16",
            "the plan's number of turns of a part is -1: the cumulative sum kernel takes 0 to 1073741824",
            "the plan was made for another call: exclusive cumulative sum of f32, along the inner one, 1 mode outside in the plan \
             and cumulative sum of f32, along the inner one, 1 mode outside in the call",
            "the operands of the plan are `cumulative sum of f32, along the inner one, 1 mode outside`: accesses of several \
             elements need an inner mode with the stride 1",
            "the operands of the plan are `cumulative sum of f32, along the inner one, 0 modes outside`: a kernel has 1 to 16 \
             outer modes",
            "the cumulative sum of f64: the elements must be f32, f16, bf16 or s32",
            "the plan's accesses take 2 elements: addresses, strides and extents of the call allow 1",
            "the destination y (20,300):(0,1) has one element at several coordinates: which value stays would be a race",
            "an extent is 0: the extents of a layout are at least 1",
            "an extent is -1: it must be 0 to 1073741824",
            "an extent is 9223372036854775807: it must be 0 to 1073741824",
        ]
    );
}

/// Parts and turns of one sum under several schedules, bit for bit those of the host.
#[test]
fn law_plans_of_cumulative_sums_are_those_of_the_host() {
    let x: Vec<f32> = (0..3 * 700)
        .map(|i| (i * 7919 % 613) as f32 / 60.0 - 5.0)
        .collect();
    let mut cases = 0;
    for mode in [0, 1] {
        for (along, accesses, turns) in [(32, 1, 0), (64, 2, 1), (32, 3, 2), (128, 1, 0)] {
            let mut used = None;
            let found = testing::in_every_schedule(Arch::Sm80, 4, |device| {
                let from = device.upload(&x)?;
                let mut y = Output::<f32>::new(device, x.len())?;
                let call = {
                    let shape = if mode == 0 { (700, 3) } else { (3, 700) };
                    let (from, to) = (from.view(shape)?, y.buffer().view_mut(shape)?);
                    let call = Scan::new(&from, mode, &to).prepare_with(|problem| {
                        let plan = ScanPlan::fastest(problem);
                        Ok(ScanPlan {
                            along,
                            rows: 1,
                            accesses,
                            turns,
                            ..plan
                        })
                    })?;
                    call.run(device)?;
                    call.run(device)?;
                    call.plan().copied()
                };
                used = call;
                y.elements()
            });
            let found = found.unwrap_or_else(|why| panic!("along {mode}: {why}"));
            let plan = used.expect("a plan");
            for sum in 0..3 {
                let at = |i: usize| {
                    if mode == 0 {
                        3 * i + sum
                    } else {
                        700 * sum + i
                    }
                };
                let own: Vec<f32> = (0..700).map(|i| x[at(i)]).collect();
                let sums: Vec<f32> = (0..700).map(|i| found[at(i)]).collect();
                assert_eq!(sums, scan::reference::sums(&plan, &own), "{plan}");
            }
            cases += 1;
        }
    }
    println!("law scan.plans: {cases} cases");
}

/// Plans of cumulative sums of any numbers: one that `check` accepts is built.
#[test]
fn law_accepted_plans_of_cumulative_sums_are_built() {
    let mut r = Random::of(9, "scan plans");
    let (mut accepted, mut refused) = (0, 0);
    let count = 3000;
    for _ in 0..count {
        let arch = r.one(&[Arch::Sm70, Arch::Sm80, Arch::Sm90a]);
        let ty = r.one(&[Ty::F32, Ty::Bf16, Ty::F16, Ty::S32, Ty::F32, Ty::F64]);
        let extents = match r.below(4_u64) {
            0 => [(); 3].map(|()| r.one(&[1, 1 << 20, 1 << 30, 1 << 62, i64::MAX, 0, -1])),
            _ => [(); 3].map(|()| r.one(&[1, 2, 33, 256, 1000])),
        };
        let Ok(problem) = ScanProblem::new(ty, extents) else {
            refused += 1;
            continue;
        };
        let fastest = ScanPlan::fastest(&problem);
        assert!(
            fastest.check(arch).is_ok() && fastest.takes(&problem),
            "{fastest}"
        );
        let number = |r: &mut Random| match r.below(12_u64) {
            0 => r.one(&[3, 0, -1, 1 << 62, i64::MIN, i64::MAX]),
            _ => r.one(&[1, 1, 2, 4, 8, 32]),
        };
        let mut plan = fastest;
        if r.one_in(2) {
            plan.vector = number(&mut r);
        }
        if r.one_in(2) {
            (plan.rows, plan.along) =
                (number(&mut r), 16 * r.one(&[1, 2, 4, 16, 3, i64::MIN / 16]));
        }
        if r.one_in(3) {
            (plan.accesses, plan.turns) = (number(&mut r), number(&mut r));
        }
        if r.one_in(4) {
            plan.operands.keeps_inner = r.one_in(2);
            plan.operands.contiguous = r.one_in(2);
            plan.operands.exclusive = r.one_in(2);
            plan.operands.vector = number(&mut r);
            plan.operands.outer = r.one(&[0, 1, 3, 17, usize::MAX]);
        }
        let _ = (
            plan.bytes(&problem),
            plan.workspace(&problem),
            plan.to_string(),
        );
        let _ = (
            plan.explain(&problem),
            fastest.explain(&problem),
            plan.takes(&problem),
        );
        match plan.check(arch) {
            Err(_) => refused += 1,
            Ok(()) => {
                accepted += 1;
                // Every plan is checked, and one accepted plan in 24 is built.
                if accepted % 24 == 1
                    && let Err(error) = plan.build(arch)
                {
                    panic!(
                        "{plan} of {} on {arch:?} is accepted and not built: {error}",
                        plan.operands
                    );
                }
            }
        }
    }
    println!("law scan.built: {count} cases, {accepted} accepted, {refused} refused");
    assert!(
        accepted > count / 20,
        "only {accepted} of {count} plans are accepted"
    );
}

/// Reductions and cumulative sums in the memory of the caller: of the right size, longer, too short, at a wrong address.
#[test]
fn law_reductions_take_the_memory_of_the_caller() {
    let device = simulator(Arch::Sm80, 4);
    let numbers: Vec<f32> = (0..40_000).map(|i| (i % 7) as f32).collect();
    let x = device.upload(&numbers).expect("memory");
    let mut most = device.poisoned::<f32>(1).expect("memory");
    let mut sums = device.poisoned::<f32>(40_000).expect("memory");
    let x = x.view(40_000).expect("a view");
    {
        let y = most.view_mut(1).expect("a view");
        let call = Reduce::new(ReduceFunction::AbsMax, &x, &[0], &y);
        let need = call.workspace().expect("a size");
        assert!(need > 4);
        let mut memory = device.uninitialised::<u8>(need + 300).expect("memory");
        {
            let prepared = call.prepare_in(&mut memory).expect("a call");
            assert!(prepared.plan().is_some_and(|plan| plan.parts > 1));
            prepared.run(&device).expect("a run");
        }
        let mut beyond = memory.slice(4..).expect("a slice");
        let refused = call.prepare_in(&mut beyond).expect_err("it is refused");
        assert!(refused.is_workspace_refused(), "{refused}");
        let text = refused.to_string();
        assert!(
            text.ends_with(", which is not a multiple of 256 bytes"),
            "{text}"
        );
        let mut short = memory.slice(..need - 1).expect("a slice");
        let refused = call.prepare_in(&mut short).expect_err("it is refused");
        assert!(refused.is_workspace_refused(), "{refused}");
        let want = format!(
            "the workspace has {} bytes, and the reduction needs {need}: `Reduce::workspace` returns that number",
            need - 1
        );
        assert_eq!(refused.to_string(), want);
    }
    {
        let y = sums.view_mut(40_000).expect("a view");
        let call = Scan::new(&x, 0, &y);
        let need = call.workspace().expect("a size");
        assert!(need > 4);
        let mut memory = device.uninitialised::<u8>(need).expect("memory");
        let prepared = call.prepare_in(&mut memory).expect("a call");
        assert!(prepared.plan().is_some_and(|plan| plan.turns > 0));
        prepared.run(&device).expect("a run");
        let mut short = device.uninitialised::<u8>(need - 1).expect("memory");
        let refused = call.prepare_in(&mut short).expect_err("it is refused");
        assert!(refused.is_workspace_refused(), "{refused}");
        let want = format!(
            "the workspace has {} bytes, and the cumulative sum needs {need}: `Scan::workspace` returns that number",
            need - 1
        );
        assert_eq!(refused.to_string(), want);
    }
    assert_eq!(most.download().expect("a number"), [6.0]);
    assert_eq!(
        sums.download().expect("sums")[39_999],
        numbers.iter().sum::<f32>()
    );
    println!("law reduce.memory: 5 cases");
}

/// As many modes as a kernel takes, none of which joins another: every kernel is built.
#[test]
fn law_kernels_of_many_modes_are_built() {
    let mut cases = 0;
    for arch in [Arch::Sm80, Arch::Sm90a] {
        for outer in [1_usize, 2, 3, 9, 10, 11, 16] {
            for reduced in [1_usize, 9, 16] {
                let problem = ReduceProblem::new(ReduceFunction::Sum, Ty::F32, &[64, 100], &[1]);
                let mut plan = ReducePlan::fastest(&problem.expect("a problem")).expect("a plan");
                (plan.operands.outer, plan.operands.reduced) = (outer, reduced);
                let built = plan.build(arch);
                assert!(built.is_ok(), "{}: {:?}", plan.operands, built.err());
                (plan.parts, plan.last_adds) = (3, true);
                let built = plan.build(arch);
                assert!(built.is_ok(), "{}: {:?}", plan.operands, built.err());
                cases += 2;
            }
            let problem = ScanProblem::new(Ty::F32, [64, 100, 1]).expect("a problem");
            let mut plan = ScanPlan::fastest(&problem);
            plan.operands.outer = outer;
            let built = plan.build(arch);
            assert!(built.is_ok(), "{}: {:?}", plan.operands, built.err());
            let problem = TopKProblem::new(Ty::F32, [64, 100], 8).expect("a problem");
            let mut plan = TopKPlan::fastest(&problem);
            plan.operands.outer = outer;
            let built = plan.build(arch);
            assert!(built.is_ok(), "{}: {:?}", plan.operands, built.err());
            cases += 2;
        }
    }
    println!("law reduce.modes: {cases} cases");
}

/// What the sums and norms say of NaN, of infinities, and of squares that f32 does not hold.
#[test]
fn sums_of_numbers_that_are_none_are_as_described() {
    let (nan, inf) = (f32::NAN, f32::INFINITY);
    let device = simulator(Arch::Sm80, 5);
    let x = device.upload(&[1e20f32, 1e20, nan, 1.0, inf, 1.0, inf, -inf, 1e-30, 1e-30]);
    let x = x.expect("memory");
    let of = |function| {
        let mut y = device.poisoned::<f32>(5).expect("memory");
        let (from, to) = (x.view((5, 2)), y.view_mut(5));
        let (from, to) = (from.expect("a view"), to.expect("a view"));
        reduce(function, &from, &[1], &to).expect("it runs");
        y.download().expect("elements")
    };
    let norms = of(ReduceFunction::Norm);
    assert!(norms[0] == inf && norms[1].is_nan() && norms[2] == inf && norms[3] == inf);
    assert_eq!(norms[4], 0.0);
    let sums = of(ReduceFunction::Sum);
    assert!(sums[1].is_nan() && sums[2] == inf && sums[3].is_nan());
    assert_eq!(of(ReduceFunction::AbsMax)[..4], [1e20, 1.0, inf, inf]);
    let x = device.upload(&[1.0f32, inf, 2.0, -inf, 3.0, 1.0, nan, 2.0, 3.0, 4.0]);
    let x = x.expect("memory");
    let mut y = device.poisoned::<f32>(10).expect("memory");
    {
        let (from, to) = (x.view((2, 5)), y.view_mut((2, 5)));
        let (from, to) = (from.expect("a view"), to.expect("a view"));
        cumulative_sum(&from, 1, &to).expect("it runs");
    }
    let y = y.download().expect("elements");
    assert_eq!(y[..3], [1.0, inf, inf]);
    assert!(y[3].is_nan() && y[4].is_nan());
    assert!(y[5] == 1.0 && y[6..].iter().all(|y| y.is_nan()), "{y:?}");
}

/// The cumulative sums of `f32` numbers by a plan of some threads, accesses and turns.
fn cumulative(device: &Device, x: &[f32], [along, accesses, turns]: [i64; 3]) -> Vec<f32> {
    let from = device.upload(x).expect("memory");
    let mut y = device.poisoned::<f32>(x.len()).expect("memory");
    {
        let (from, to) = (from.view(x.len() as i64), y.view_mut(x.len() as i64));
        let (from, to) = (from.expect("a view"), to.expect("a view"));
        let call = Scan::new(&from, 0, &to).prepare_with(|problem| {
            let plan = ScanPlan::fastest(problem);
            Ok(ScanPlan {
                along,
                rows: 1,
                accesses,
                turns,
                ..plan
            })
        });
        call.expect("a call").run(device).expect("it runs");
    }
    y.download().expect("sums")
}

/// What the documentation says of sums behind an infinity: they are infinite, and NaN if one of the other sign is among them, or if finite
/// elements in a row overflow to it. Those of a NaN are NaN.
#[test]
fn sums_behind_an_infinity_are_as_stated() {
    let (inf, far) = (f32::INFINITY, 3e38_f32);
    let device = simulator(Arch::Sm80, 5);
    // A thread has four elements: those of the second one overflow.
    let x = [inf, 0.0, 0.0, 0.0, -far, -far, 0.0, 0.0];
    let y = cumulative(&device, &x, [32, 1, 0]);
    assert!(y[..5].iter().all(|y| *y == inf), "{y:?}");
    assert!(y[5..].iter().all(|y| y.is_nan()), "{y:?}");
    // No thread's elements do, but those of the second and the third one together. The fourth one adds their sum to the infinity, and the
    // fifth one adds them in another order.
    let mut x = [0.0; 20];
    (x[0], x[4], x[8]) = (inf, -far, -far);
    let y = cumulative(&device, &x, [32, 1, 0]);
    assert!(y[..12].iter().chain(&y[16..]).all(|y| *y == inf), "{y:?}");
    assert!(y[12..16].iter().all(|y| y.is_nan()), "{y:?}");

    let mut r = Random::of(12, "sums of infinities");
    let (mut cases, mut overflowed) = (0, 0);
    for plan in [[32, 1, 0], [64, 2, 0], [32, 1, 1], [32, 2, 2]] {
        for round in 0..12 {
            let sign = if round % 2 == 0 { 1.0 } else { -1.0 };
            let rare = [inf, -inf, f32::NAN];
            let x: Vec<f32> = (0..400)
                .map(|_| match r.below(200_u64) {
                    0 if round % 3 == 0 => r.one(&rare),
                    1 | 2 => sign * inf,
                    3..10 if round % 4 > 0 => r.one(&[far, -far]),
                    _ => r.one(&[0.0, 1.0, -2.0]),
                })
                .collect();
            let y = cumulative(&device, &x, plan);
            // The least and the largest sum of finite elements in a row, and of those that end here.
            let (mut least, mut most, mut ending) = (0.0_f64, 0.0_f64, [0.0_f64; 2]);
            let mut found = [false; 3];
            for (at, (x, y)) in x.iter().zip(&y).enumerate() {
                if x.is_finite() {
                    let x = f64::from(*x);
                    ending = [ending[0].min(0.0) + x, ending[1].max(0.0) + x];
                    (least, most) = (least.min(ending[0]), most.max(ending[1]));
                } else {
                    ending = [0.0; 2];
                    found[0] |= x.is_nan();
                    found[1] |= *x == inf;
                    found[2] |= *x == -inf;
                }
                let beyond = |sum: f64| sum >= f64::from(f32::MAX);
                let is_stated = match found {
                    [true, ..] | [_, true, true] => y.is_nan(),
                    [_, true, false] => *y == inf || (y.is_nan() && beyond(-least)),
                    [_, false, true] => *y == -inf || (y.is_nan() && beyond(most)),
                    [_, false, false] => y.is_finite() || beyond(-least) || beyond(most),
                };
                assert!(is_stated, "{plan:?}, round {round}, {at}: {y} of {x}");
                overflowed += usize::from(y.is_nan() && found[1] != found[2] && !found[0]);
                cases += 1;
            }
        }
    }
    assert!(overflowed > 0);
    println!("law scan.infinities: {cases} cases, {overflowed} of an overflow");
}
