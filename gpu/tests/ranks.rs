//! Products over ranks on the simulator: their results bit for bit, their flags one by one, and what is refused.

#[path = "ranks/accepted.rs"]
mod accepted;
#[path = "ranks/awaited.rs"]
mod awaited;
#[path = "ranks/chunks.rs"]
mod chunks;
#[path = "ranks/departures.rs"]
mod departures;
#[path = "ranks/differences.rs"]
mod differences;
#[path = "ranks/forecasts.rs"]
mod forecasts;
#[path = "ranks/host.rs"]
mod host;
#[path = "ranks/in_flight.rs"]
mod in_flight;
#[path = "ranks/layouts.rs"]
mod layouts;
#[path = "ranks/planted.rs"]
mod planted;
#[path = "ranks/process.rs"]
mod process;
#[path = "ranks/process_nccl.rs"]
mod process_nccl;
#[path = "ranks/reductions.rs"]
mod reductions;
#[path = "ranks/without_peers.rs"]
mod without_peers;

use colex_atom::Arch;
use colex_gpu::ir::{Control, Kernel, Memory, Op, Order, Scope, Stmt, Sync};
use colex_gpu::ranks::{RankBuffers, RankPath, RankPlan, RankProblem};
use colex_gpu::sim::{FaultKind, Ranks, SimOptions};
use colex_sched::{Overlap, OverlapPlan};

const OVERLAPS: [Overlap; 3] = [
    Overlap::GatherProduct,
    Overlap::ProductScatter,
    Overlap::ProductReduce,
];

/// Numbers that look random, with rounding in their products.
fn numbers(count: i64, seed: i64) -> Vec<f32> {
    let number = |i: i64| ((i * i * 31 + i * 17 + seed * 101 + 7) % 1009) as f32 / 337.0 - 1.5;
    (0..count).map(number).collect()
}

/// The parts of A and B, and of C in the order of rounding that the kernels have.
fn expected(problem: &RankProblem, seed: i64) -> [Vec<Vec<f32>>; 3] {
    let RankProblem { m, n, k, .. } = *problem;
    let (a, b) = (numbers(m * k, seed), numbers(n * k, seed + 1));
    let [at_a, at_b, at_c] = problem.layouts().unwrap();
    // The terms of C: along K, or along its part on each rank.
    let terms = match problem.overlap {
        Overlap::GatherProduct => 1,
        Overlap::ProductScatter | Overlap::ProductReduce => problem.ranks,
    };
    let each = k / terms;
    let element = |index: i64| {
        let (row, column) = (index % m, index / m);
        let term = |t: i64| {
            let along = t * each..(t + 1) * each;
            along.fold(0f32, |sum, l| {
                a[(row + m * l) as usize].mul_add(b[(column + n * l) as usize], sum)
            })
        };
        (1..terms).fold(term(0), |sum, t| sum + term(t))
    };
    let c: Vec<f32> = (0..m * n).map(element).collect();
    [
        at_a.split(&a).unwrap(),
        at_b.split(&b).unwrap(),
        at_c.split(&c).unwrap(),
    ]
}

fn bits(parts: &[Vec<f32>]) -> Vec<Vec<u32>> {
    let part = |part: &Vec<f32>| part.iter().map(|x| x.to_bits()).collect();
    parts.iter().map(part).collect()
}

#[test]
fn law_a_product_over_ranks_is_that_of_one_host_bit_for_bit_under_every_schedule() {
    let mut cases = 0;
    for overlap in OVERLAPS {
        for ranks in 1..=4 {
            for [m, n, k] in [[1, 1, 1], [2, 1, 3], [1, 3, 2], [5, 7, 2], [9, 8, 3]] {
                let (n, k) = match overlap {
                    Overlap::GatherProduct => (n * ranks, k),
                    Overlap::ProductScatter | Overlap::ProductReduce => (n, k * ranks),
                };
                let problem = RankProblem {
                    overlap,
                    ranks,
                    m: m * ranks,
                    n,
                    k,
                };
                let plan = RankPlan::new(problem).unwrap();
                let path = if ranks == 1 {
                    RankPath::Local
                } else {
                    RankPath::PeerMemory
                };
                assert_eq!((plan.path(), plan.problem()), (path, &problem));
                let [a, b, c] = expected(&problem, m);
                for seed in 0..3 {
                    let options = SimOptions::default().seed(seed);
                    let (found, _) = plan.simulate(Arch::Sm90a, &a, &b, &options).unwrap();
                    assert_eq!(bits(&found), bits(&c), "{problem} under {seed}");
                    cases += 1;
                }
            }
        }
    }
    println!("law ranks.gemm: {cases} cases");
}

/// A machine with the buffers of a plan, and one kernel for all ranks.
fn run(
    plan: &RankPlan,
    kernel: &Kernel,
    rounds: u32,
    absent: Option<usize>,
    seed: u64,
) -> Result<(), colex_gpu::Error> {
    let count = plan.problem().ranks as usize;
    let mut ranks = Ranks::connected(count)?;
    let buffers = RankBuffers::new(plan, &mut ranks)?;
    for round in 1..=rounds {
        // New operands in every round: an old chunk gives another product.
        let [a, b, c] = expected(plan.problem(), i64::from(round));
        buffers.write(&mut ranks, &a, &b)?;
        let arguments = (0..count).map(|rank| {
            if absent == Some(rank) {
                Ok(None)
            } else {
                buffers.arguments(rank, round).map(Some)
            }
        });
        let arguments = arguments.collect::<Result<Vec<_>, _>>()?;
        let options = SimOptions::default().seed(seed);
        ranks.simulate(kernel, &plan.launch()?, &arguments, &options)?;
        assert_eq!(bits(&buffers.read(&ranks)?), bits(&c));
    }
    Ok(())
}

fn small(overlap: Overlap) -> RankPlan {
    let problem = RankProblem {
        overlap,
        ranks: 3,
        m: 36,
        n: 12,
        k: 6,
    };
    RankPlan::new(problem).unwrap()
}

#[test]
fn flags_serve_for_many_rounds() {
    for overlap in OVERLAPS {
        let plan = small(overlap);
        let kernel = plan.kernel(Arch::Sm90a).unwrap();
        for seed in 0..2 {
            run(&plan, &kernel, 3, None, seed).unwrap();
        }
    }
}

#[test]
fn a_rank_that_never_arrives_is_named() {
    for overlap in OVERLAPS {
        let plan = small(overlap);
        let kernel = plan.kernel(Arch::Sm90a).unwrap();
        for seed in 0..3 {
            let error = run(&plan, &kernel, 1, Some(2), seed).unwrap_err();
            let fault = error.device().and_then(|error| error.fault()).unwrap();
            assert_eq!(fault.kind(), FaultKind::Deadlock, "{fault}");
            assert!(fault.what().ends_with("rank 2 was not launched"), "{fault}");
            let waits = fault.flag_waits();
            assert!(!waits.is_empty());
            assert!(
                waits
                    .iter()
                    .all(|wait| wait.owner == Some(wait.rank) && wait.holds == 0)
            );
        }
    }
}

/// What is changed at one place of a kernel.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Change {
    /// An ordered access becomes a relaxed one.
    Relaxed,
    /// An ordered access has the scope of one device.
    OneDevice,
    /// A barrier of a block is left out.
    NoBarrier,
}

/// Changes place number `left` of a body; counts down on the way, and is done below 0.
fn change(body: &mut Vec<Stmt>, change_: Change, left: &mut i64) {
    let mut removed = None;
    for (at, stmt) in body.iter_mut().enumerate() {
        let order = match &mut stmt.op {
            Op::Control(Control::If { then, other, .. }) => {
                change(then, change_, left);
                change(other, change_, left);
                continue;
            }
            Op::Control(Control::Loop { body }) => {
                change(body, change_, left);
                continue;
            }
            Op::Memory(Memory::Load { access, .. } | Memory::Store { access, .. }) => {
                &mut access.order
            }
            Op::Memory(Memory::Reduce { order, .. }) => order,
            Op::Sync(Sync::Barrier { .. }) if change_ == Change::NoBarrier => {
                *left -= 1;
                if *left == -1 {
                    removed = Some(at);
                }
                continue;
            }
            _ => continue,
        };
        if *order == Order::Weak || change_ == Change::NoBarrier {
            continue;
        }
        *left -= 1;
        if *left == -1 {
            *order = match (change_, *order) {
                (Change::Relaxed, _) => Order::Relaxed(Scope::Sys),
                (_, Order::Acquire(_)) => Order::Acquire(Scope::Gpu),
                (_, _) => Order::Release(Scope::Gpu),
            };
        }
    }
    if let Some(at) = removed {
        body.remove(at);
    }
}

/// The places at which a change of a kernel is found, under the first schedules, and how many places there are.
fn found(plan: &RankPlan, change_: Change) -> (Vec<i64>, i64) {
    let mut found = Vec::new();
    for place in 0.. {
        let mut kernel = plan.kernel(Arch::Sm90a).unwrap();
        let mut left = place;
        change(&mut kernel.body, change_, &mut left);
        if left >= 0 {
            return (found, place);
        }
        let faults: Vec<bool> = (0..3)
            .map(|seed| run(plan, &kernel, 1, None, seed).is_err())
            .collect();
        assert!(
            faults.iter().all(|fault| *fault == faults[0]),
            "{change_:?} {place}: {faults:?}"
        );
        if faults[0] {
            found.push(place);
        }
    }
    unreachable!("a kernel has an end")
}

/// What is ready, at the first places, orders a round after the one before: a launch on its own does not need it, and two rounds in flight
/// do (`in_flight`).
#[test]
fn law_every_flag_and_every_barrier_is_needed() {
    let gather = small(Overlap::GatherProduct);
    // Ready set, ready awaited, arrived set, arrived awaited.
    assert_eq!(found(&gather, Change::Relaxed), (vec![2, 3], 4));
    assert_eq!(found(&gather, Change::OneDevice), (vec![0, 1, 2, 3], 4));
    assert_eq!(found(&gather, Change::NoBarrier), (vec![1, 2], 3));
    let scatter = small(Overlap::ProductScatter);
    // Ready set for two others, ready awaited, arrived counted, arrived awaited of three ranks.
    assert_eq!(found(&scatter, Change::Relaxed), (vec![3, 4, 5, 6], 7));
    // A rank that awaits its own tiles needs no more than its device.
    assert_eq!(
        found(&scatter, Change::OneDevice),
        (vec![0, 1, 2, 3, 4, 5, 6], 7)
    );
    assert_eq!(found(&scatter, Change::NoBarrier), (vec![1, 2], 3));
    let reduce = small(Overlap::ProductReduce);
    // The same, then the sums counted at two others, and awaited of three ranks.
    assert_eq!(
        found(&reduce, Change::Relaxed),
        (vec![3, 4, 5, 6, 7, 8, 9, 10, 11], 12)
    );
    let all = (0..12).collect();
    assert_eq!(found(&reduce, Change::OneDevice), (all, 12));
    assert_eq!(found(&reduce, Change::NoBarrier), (vec![1, 2, 3], 4));
}

#[test]
fn kernels_are_there_for_every_architecture_with_scopes() {
    for overlap in OVERLAPS {
        for ranks in [1, 2, 8, OverlapPlan::MOST_RANKS] {
            let problem = RankProblem {
                overlap,
                ranks,
                m: 2 * ranks,
                n: ranks,
                k: 3 * ranks,
            };
            let plan = RankPlan::new(problem).unwrap();
            for arch in [Arch::Sm70, Arch::Sm80, Arch::Sm90a] {
                let ptx = plan.kernel(arch).unwrap().ptx().unwrap();
                assert_eq!(
                    ptx.contains(".acquire.sys"),
                    ranks > 1 || overlap != Overlap::GatherProduct
                );
            }
        }
    }
}

#[test]
fn every_refusal_verbatim() {
    let right = RankProblem {
        overlap: Overlap::GatherProduct,
        ranks: 2,
        m: 4,
        n: 2,
        k: 3,
    };
    let refused = |problem: RankProblem| RankPlan::new(problem).unwrap_err().to_string();
    let scatter = Overlap::ProductScatter;
    let cases = [
        (
            RankProblem { m: 5, ..right },
            "A: mode 0 of extent 5 over 2 ranks: the extent must be a multiple, and 6 is the next one",
        ),
        (
            RankProblem { n: 3, ..right },
            "B: mode 0 of extent 3 over 2 ranks: the extent must be a multiple, and 4 is the next one",
        ),
        (
            RankProblem {
                overlap: scatter,
                ..right
            },
            "A: mode 1 of extent 3 over 2 ranks: the extent must be a multiple, and 4 is the next one",
        ),
        (
            RankProblem { k: 0, ..right },
            "A: an extent of the tensor is 0: it must be at least 1",
        ),
        (
            RankProblem { ranks: 0, ..right },
            "A: the number of ranks is 0: it must be at least 1",
        ),
        (
            RankProblem { ranks: -4, ..right },
            "A: the number of ranks is -4: it must be at least 1",
        ),
        (
            RankProblem {
                ranks: 65,
                m: 65,
                n: 65,
                ..right
            },
            "the plan: the number of ranks is 65: it can be at most 64",
        ),
        (
            RankProblem {
                m: 1 << 62,
                k: 4,
                ..right
            },
            "A: the number of elements is beyond 64-bit integers",
        ),
        (
            RankProblem {
                m: 1 << 20,
                k: 1 << 11,
                ..right
            },
            "the gathered A of all-gather and product, 1048576 x 2 x 2048 over 2 ranks is too large: a rank counts up to 2^31 - 1",
        ),
        (
            RankProblem {
                overlap: scatter,
                m: 1 << 20,
                n: 1 << 11,
                k: 2,
                ..right
            },
            "the terms of C of product and reduce-scatter, 1048576 x 2048 x 2 over 2 ranks is too large: a rank counts up to \
             2^31 - 1",
        ),
    ];
    for (problem, sentence) in cases {
        assert_eq!(refused(problem), sentence);
    }
    assert!(
        RankPlan::new(RankProblem { m: 5, ..right })
            .unwrap_err()
            .is_ranks_refused()
    );

    let agreed = |problems: &[RankProblem]| RankPlan::agreed(problems).unwrap_err().to_string();
    assert_eq!(
        agreed(&[]),
        "0 problems for 1 ranks: there must be one for each"
    );
    assert_eq!(
        agreed(&[right; 3]),
        "3 problems for 2 ranks: there must be one for each"
    );
    assert!(RankPlan::agreed(&[right; 2]).is_ok());
    assert!(
        agreed(&[
            right,
            RankProblem {
                overlap: scatter,
                ..right
            }
        ])
        .starts_with("rank 1 asks for product and reduce-scatter")
    );

    let plan = RankPlan::new(right).unwrap();
    let [a, b, _] = expected(&right, 1);
    let options = SimOptions::default();
    let simulate = |a: &[Vec<f32>], b: &[Vec<f32>]| {
        let ran = plan.simulate(Arch::Sm90a, a, b, &options);
        ran.unwrap_err().to_string()
    };
    assert_eq!(
        simulate(&a[..1], &b),
        "1 A for 2 ranks: there must be one for each"
    );
    let long = [b[0].clone(), vec![0.0; 4]];
    assert_eq!(
        simulate(&a, &long),
        "the part of B of rank 1 has 4 elements: it must have 3"
    );

    let mut three = Ranks::connected(3).unwrap();
    let error = RankBuffers::new(&plan, &mut three).unwrap_err();
    assert_eq!(
        error.to_string(),
        "a machine of 3 ranks, and the plan is for 2"
    );
    let mut two = Ranks::new(2).unwrap();
    let buffers = RankBuffers::new(&plan, &mut two).unwrap();
    let wrong = |rank, round| buffers.arguments(rank, round).unwrap_err().to_string();
    assert_eq!(wrong(2, 1), "rank 2 of 2 ranks, numbered from 0");
    assert_eq!(wrong(0, 0), "round 0: rounds count from 1 to 4294967295");
    assert_eq!(
        (buffers.arrived(2), two.rank_of(buffers.arrived(1).unwrap())),
        (None, Some(1))
    );

    // Without access to each other's memory.
    buffers.write(&mut two, &a, &b).unwrap();
    let arguments = [0, 1].map(|rank| Some(buffers.arguments(rank, 1).unwrap()));
    let kernel = plan.kernel(Arch::Sm90a).unwrap();
    let ran = two.simulate(&kernel, &plan.launch().unwrap(), &arguments, &options);
    let fault = ran.unwrap_err();
    assert_eq!(fault.kind(), FaultKind::OutOfBounds);
    assert!(
        fault
            .what()
            .ends_with("`Ranks::enable_peer_access(0, 1)` gives it"),
        "{fault}"
    );
}
