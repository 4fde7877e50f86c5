//! The paths of NCCL with a thread for each rank, as processes would take them. The devices are simulated, so that the meeting brings
//! what collectives would.

use std::thread;
use std::time::{Duration, Instant};

use colex_atom::Arch;
use colex_gpu::Device;
use colex_gpu::ranks::{
    Meeting, ProcessProduct, RankDevices, RankOptions, RankPath, RankProblem, RankProcess,
    RankProduct,
};
use colex_gpu::sim::SimOptions;
use colex_sched::Overlap;
use half::bf16;

use super::OVERLAPS;
use super::host::{LONG, device, numbers, with};
use super::process::{ROUNDS, each, each_on, said, same_as_one_process};
use super::without_peers::problem;

/// A time that a missing rank costs.
const SHORT: Duration = Duration::from_millis(700);

const PATHS: [RankPath; 2] = [RankPath::NcclAfter, RankPath::NcclInChunks];

/// Ranks with memory of their own.
fn apart(ranks: usize) -> Vec<Device> {
    (0..ranks as u64).map(device).collect()
}

fn gather(process: &RankProcess, options: &RankOptions) -> ProcessProduct<bf16, f32> {
    let problem = problem(Overlap::GatherProduct, process.ranks() as i64);
    ProcessProduct::new(process, problem, options).unwrap()
}

/// Drawn shapes on devices that share their memory and on others, with every path and several pieces.
#[test]
fn law_a_rank_by_nccl_has_the_bits_of_one_process() {
    let mut cases = 0;
    for (at, overlap) in OVERLAPS.into_iter().enumerate() {
        for ranks in 2..=4 {
            for (path, pieces) in [(0, 1), (1, 1), (1, 2), (1, 3)] {
                let seed = 7 * at + 5 * ranks + 3 * path + pieces;
                let draw = |of: [i64; 3], by: usize| of[(seed / by) % 3];
                let (count, each) = (ranks as i64, draw([24, 48, 72], 1));
                let (n, k) = (draw([16, 24, 40], 2), draw([16, 40, 72], 3));
                let is_gather = overlap == Overlap::GatherProduct;
                let problem = RankProblem {
                    overlap,
                    ranks: count,
                    m: each * count,
                    n: if is_gather { n * count } else { n },
                    k: if is_gather { k } else { k * count },
                };
                let pieces = (path == 1 || is_gather).then_some(pieces as i64);
                let options = with(Some(PATHS[path]), pieces);
                let devices = if seed % 2 == 0 {
                    apart(ranks)
                } else {
                    vec![device(seed as u64); ranks]
                };
                let of = (devices, problem);
                if seed % 4 < 2 {
                    let bits = |x: &bf16| u32::from(x.to_bits());
                    same_as_one_process::<bf16, f32>(of, options, bits);
                } else {
                    same_as_one_process::<f32, f32>(of, options, |x| x.to_bits());
                }
                cases += ROUNDS;
            }
        }
    }
    println!("law ranks.product_by_nccl_rank: {cases} cases");
}

/// More bytes than one exchange of the meeting takes.
#[test]
fn a_large_part_goes_in_several_exchanges() {
    let large = RankProblem {
        m: 2 * 2048,
        n: 16,
        k: 264,
        ..problem(Overlap::GatherProduct, 2)
    };
    const { assert!(2048 * 264 * 2 > Meeting::MOST_BYTES) };
    let options = with(Some(RankPath::NcclAfter), None);
    let act = move |process: RankProcess| {
        let mut call = ProcessProduct::<bf16, f32>::new(&process, large, &options).unwrap();
        let own = numbers(2048 * 264, process.rank() as i64);
        call.a().unwrap().write(&own).unwrap();
        call.run().unwrap();
        call.wait(LONG).unwrap();
        call.gathered().unwrap().download().unwrap()
    };
    let all = [numbers(2048 * 264, 0), numbers(2048 * 264, 1)].concat();
    assert!(each_on(&apart(2), LONG, act) == [all.clone(), all]);
}

#[test]
fn the_gathered_parts_lie_as_those_of_one_process() {
    let gather = problem(Overlap::GatherProduct, 2);
    for path in PATHS {
        let options = with(Some(path), Some(3));
        let act = move |process: RankProcess| {
            let scatter = problem(Overlap::ProductScatter, 2);
            let call = ProcessProduct::<bf16, f32>::new(&process, gather, &options).unwrap();
            let by = with(Some(path), None);
            let sum = ProcessProduct::<bf16, f32>::new(&process, scatter, &by).unwrap();
            let none = said(sum.gathered_layout());
            assert!(sum.gathered().is_none());
            (call.gathered_layout().unwrap().to_string(), none)
        };
        let together = RankDevices::new(&apart(2)).unwrap();
        let one = RankProduct::<bf16, f32>::new(&together, gather, &options).unwrap();
        let layout = one.gathered_layout().unwrap().to_string();
        let none = "product and reduce-scatter gathers no A: all-gather and product does";
        for found in each_on(&apart(2), LONG, act) {
            assert_eq!(found, (layout.clone(), none.to_string()));
        }
    }
}

/// Unless they ask for a path: those without access take NCCL, and say why.
#[test]
fn ranks_without_access_take_nccl_and_say_so() {
    let act = |process: RankProcess| {
        let problem = problem(Overlap::GatherProduct, 2);
        let new = ProcessProduct::<bf16, f32>::new;
        let by = |path| with(Some(path), None);
        // One rank asks for the path that all would take.
        let asks = process.rank() == 1;
        let asked = if asks {
            by(RankPath::PeerMemory)
        } else {
            RankOptions::default()
        };
        let first = said(new(&process, problem, &asked));
        let mut call = gather(&process, &RankOptions::default());
        assert!(PATHS.contains(&call.path()));
        let why = call.explain().unwrap().lines().last().unwrap().to_string();
        let (_, why) = why.split_once(", since ").unwrap();
        call.run().unwrap();
        call.wait(LONG).unwrap();
        // From then on the reason is known.
        let refused = [RankPath::PeerMemory, RankPath::OneAfterAnother]
            .map(|path| said(new(&process, problem, &by(path))));
        let again = gather(&process, &RankOptions::default());
        assert_eq!(again.path(), call.path());
        drop((call, again));
        process.leave().unwrap();
        (first, why.to_string(), refused)
    };
    let shares = "the simulator of sm_90a does not share memory with another device: its memory is its own; several simulated devices are \
                  `colex_sim::Ranks`";
    let why = format!("rank 0 has no access to the memory of the others: {shares}");
    for (first, reason, refused) in each_on(&apart(2), LONG, act) {
        assert_eq!(first, shares);
        assert_eq!(reason, why);
        assert_eq!(refused, [why.clone(), why.clone()]);
    }
    // Where they have access, nothing changes.
    let act = |process: RankProcess| gather(&process, &RankOptions::default()).path();
    assert_eq!(each(&device(0), 2, LONG, act), [RankPath::PeerMemory; 2]);
}

/// On every rank the same sentence, at the first call.
#[test]
fn ranks_with_different_products_are_named_at_the_first_call() {
    let act = |process: RankProcess| {
        let is_first = process.rank() == 0;
        let own = problem(Overlap::GatherProduct, 2);
        let other = RankProblem {
            k: if is_first { 72 } else { 80 },
            ..own
        };
        let [after, in_chunks] = PATHS.map(|path| with(Some(path), Some(1)));
        let new = ProcessProduct::<bf16, f32>::new;
        let shape = said(new(&process, other, &after));
        let paths = [after, if is_first { after } else { in_chunks }];
        let path = said(new(&process, own, &paths[process.rank()]));
        let memory = with(Some(RankPath::PeerMemory), Some(1));
        let memory = said(new(&process, own, if is_first { &memory } else { &after }));
        let types = if is_first {
            said(new(&process, own, &after))
        } else {
            said(ProcessProduct::<bf16, bf16>::new(&process, own, &after))
        };
        let scatter = problem(Overlap::ProductScatter, 2);
        let pieces = with(
            Some(RankPath::NcclInChunks),
            Some(if is_first { 1 } else { 2 }),
        );
        let pieces = said(ProcessProduct::<bf16, bf16, f32>::new(
            &process, scatter, &pieces,
        ));
        // The ranks go on together.
        let mut call = gather(&process, &after);
        call.run().unwrap();
        call.wait(LONG).unwrap();
        [shape, path, memory, types, pieces]
    };
    let differs = |other: &str, first: &str| {
        format!("rank 1 asks for {other}, and rank 0 for {first}: all ranks compute one product")
    };
    let after = "all-gather and product, 48 x 32 x 72 over 2 ranks by NCCL, one after another with the product, chunks in 1 piece, bf16 to \
                 f32";
    let name = "NCCL, one after another with the product";
    let sum = "product and reduce-scatter, 48 x 40 x 144 over 2 ranks by NCCL in chunks, terms of f32, bf16 to bf16, pieces: 1";
    let sentences = [
        differs(&after.replace("x 72", "x 80"), after),
        differs(&after.replace(name, "NCCL in chunks"), after),
        differs(after, &after.replace(name, "peer memory")),
        differs(&after.replace("bf16 to f32", "bf16 to bf16"), after),
        differs(&sum.replace("pieces: 1", "pieces: 2"), sum),
    ];
    assert_eq!(
        each(&device(0), 2, LONG, act),
        [&sentences; 2].map(Clone::clone)
    );
}

/// The pieces of a message, each behind its length.
fn joined(fields: &[&[u8]]) -> Vec<u8> {
    let one = |field: &&[u8]| [&(field.len() as u64).to_le_bytes()[..], field].concat();
    fields.iter().flat_map(one).collect()
}

/// What a rank says that takes a step, as the messages have it.
fn message(step: u8, fields: &[&[u8]]) -> Vec<u8> {
    joined(&[&[step], &[0; 8], &[0; 8], &[], &joined(fields)])
}

/// Rank 1 is this test, which says the messages of a process without the library.
#[test]
fn a_rank_without_nccl_is_named_at_the_first_call() {
    let mut meetings = Meeting::local(2, LONG).unwrap().into_iter();
    let (first, mut other) = (meetings.next().unwrap(), meetings.next().unwrap());
    let first = thread::spawn(move || {
        let device = Device::simulator(Arch::Sm90a);
        let process = RankProcess::join(first, &device).unwrap();
        let problem = problem(Overlap::GatherProduct, 2);
        let options = with(Some(RankPath::NcclAfter), None);
        said(ProcessProduct::<bf16, f32>::new(
            &process, problem, &options,
        ))
    });
    let none: &[u8] = b"";
    let name = b"the simulator of sm_90a";
    other
        .exchange(&message(1, &[&[1], b"sm_90a", name, none, &[1]]))
        .unwrap();
    let why = b"no NCCL was found (libnccl.so.2 or libnccl.so)";
    other
        .exchange(&message(2, &[&[0], why, none, none]))
        .unwrap();
    assert_eq!(
        first.join().unwrap(),
        "rank 1 has no part of the product: no NCCL was found (libnccl.so.2 or libnccl.so)"
    );
}

/// Before the identifier of the communicators goes to the ranks, or after it.
#[test]
fn a_rank_that_ends_before_the_collectives_are_open_is_named() {
    for ends in [0, 1, 2] {
        let act = move |process: RankProcess| {
            if process.rank() == ends {
                return String::new();
            }
            let start = Instant::now();
            let problem = problem(Overlap::ProductReduce, 3);
            let options = with(Some(RankPath::NcclAfter), None);
            let new = ProcessProduct::<bf16, f32>::new;
            let error = new(&process, problem, &options).unwrap_err();
            assert_eq!(error.lost_rank(), Some(ends));
            assert!(start.elapsed() < LONG);
            error.to_string()
        };
        let found = each(&device(0), 3, LONG, act);
        let gone = format!("rank {ends} is gone: its connection has ended");
        let said = |rank| if rank == ends { "" } else { &gone[..] };
        assert_eq!(found, [said(0), said(1), said(2)]);
    }
}

#[test]
fn a_rank_that_never_comes_is_named_and_ends_the_others() {
    for absent in 0..3 {
        let act = move |process: RankProcess| {
            let mut call = gather(&process, &with(Some(PATHS[absent % 2]), None));
            if process.rank() == absent {
                thread::sleep(2 * SHORT);
            }
            let start = Instant::now();
            let error = call.run().unwrap_err();
            assert!(start.elapsed() < LONG);
            let over = said(call.run());
            assert_eq!(said(call.wait(LONG)), over);
            (error.lost_rank(), error.to_string(), over)
        };
        let found = each(&device(0), 3, SHORT, act);
        let over = |lost: usize, rank: usize| {
            let why = if lost == rank {
                "because of a failure of its own".to_string()
            } else {
                format!("because rank {lost} was late or gone")
            };
            format!("the products of this rank have failed before, {why}: their flags are released")
        };
        for (rank, (lost, error, after)) in found.into_iter().enumerate() {
            let lost = lost.unwrap();
            assert_eq!(after, over(lost, rank));
            let expected = match (rank, absent) {
                // Rank 0 alone collects, and the others wait longer than it is away.
                (0, 0) => "is gone: its connection has ended".to_string(),
                (_, 0) => format!("rank 0 did not come within {SHORT:?}"),
                (_, absent) => format!("rank {absent} did not come within {:?}", SHORT * 3 / 4),
            };
            assert!(error.ends_with(&expected), "{rank} of {absent}: {error}");
            assert!(rank == 0 && absent == 0 || lost == absent);
        }
    }
}

#[test]
fn a_rank_that_dies_between_rounds_ends_the_others() {
    let act = |process: RankProcess| {
        let mut call = gather(&process, &with(Some(RankPath::NcclInChunks), Some(2)));
        call.run().unwrap();
        call.wait(LONG).unwrap();
        if process.rank() == 1 {
            return String::new(); // its product, its session and its connection end here
        }
        let error = call.run().unwrap_err();
        assert_eq!(error.lost_rank(), Some(1));
        error.to_string()
    };
    let found = each(&device(0), 2, LONG, act);
    assert_eq!(found[0], "rank 1 is gone: its connection has ended");
}

/// A rank whose kernel fails says it, also to those that are in another call by then.
#[test]
fn a_rank_that_fails_tells_the_others() {
    let options = SimOptions {
        max_steps: 8,
        ..SimOptions::default()
    };
    for failing in 0..2 {
        let mut devices = apart(2);
        devices[failing] = Device::simulator_with(Arch::Sm90a, options);
        for is_in_round in [true, false] {
            let act = move |process: RankProcess| {
                let mut call = gather(&process, &with(Some(RankPath::NcclAfter), None));
                let start = Instant::now();
                let first = call.run();
                if process.rank() == failing {
                    assert!(first.as_ref().is_err_and(|error| error.device().is_some()));
                    return String::new();
                }
                first.unwrap();
                let heard = if is_in_round {
                    call.run()
                } else {
                    process.exchange(b"").map(drop)
                };
                assert!(start.elapsed() < LONG);
                assert!(call.run().is_err());
                heard.unwrap_err().to_string()
            };
            let found = each_on(&devices, LONG, act);
            assert_eq!(
                found[1 - failing],
                format!(
                    "rank {failing} has given up, because of a failure of its own: what was computed since the last wait is of no use"
                )
            );
        }
    }
}

#[test]
fn a_rank_that_makes_another_call_is_named() {
    let act = |process: RankProcess| {
        let mut call = gather(&process, &with(Some(RankPath::NcclAfter), None));
        match process.rank() {
            0 => [said(call.run()), said(call.run())],
            _ => [said(process.exchange(b"")), said(process.exchange(b""))],
        }
    };
    let found = each(&device(0), 2, LONG, act);
    let first = "rank 1 exchanges bytes, and rank 0 computes a collective: all ranks make the same calls in the same order";
    assert_eq!([&found[0][0], &found[1][0]], [first, first]);
    assert_eq!(
        found[0][1],
        "the products of this rank have failed before, because of a failure of its own: their flags are released"
    );
    assert_eq!(
        found[1][1],
        "rank 0 has given up, because of a failure of its own: what was computed since the last wait is of no use"
    );
}

/// Products by NCCL and by memory of the same ranks, which alternate and end in any order.
#[test]
fn products_of_both_kinds_alternate() {
    let act = |process: RankProcess| {
        let mut by_memory = gather(&process, &RankOptions::default());
        let mut by_nccl = gather(&process, &with(Some(RankPath::NcclInChunks), Some(3)));
        let of_rank = bf16::from_f32(process.rank() as f32 + 1.0);
        for call in [&by_memory, &by_nccl] {
            call.a().unwrap().write(&vec![of_rank; 24 * 72]).unwrap();
            call.b().write(&vec![bf16::ONE; 16 * 72]).unwrap();
        }
        for _ in 0..2 {
            by_memory.run().unwrap();
            by_nccl.run().unwrap();
        }
        by_nccl.wait(LONG).unwrap();
        by_memory.wait(LONG).unwrap();
        let found = [&by_memory, &by_nccl].map(|call| call.c().download().unwrap());
        match process.rank() {
            0 => drop((by_memory, by_nccl)),
            _ => drop((by_nccl, by_memory)),
        }
        process.leave().unwrap();
        found
    };
    for [by_memory, by_nccl] in each(&device(0), 2, LONG, act) {
        assert_eq!([by_nccl[0], by_nccl[24 * 16]], [72.0, 144.0]);
        assert_eq!(by_nccl, by_memory);
    }
}

/// One rank sends nothing.
#[test]
fn one_rank_has_no_collectives() {
    let act = |process: RankProcess| {
        let problem = problem(Overlap::ProductScatter, 1);
        let options = with(Some(RankPath::NcclAfter), None);
        said(ProcessProduct::<bf16, f32>::new(
            &process, problem, &options,
        ))
    };
    assert_eq!(
        each(&device(0), 1, LONG, act),
        [
            "the path NCCL, one after another with the product is not taken here: there is one rank, which sends nothing"
        ]
    );
}

/// The sentence of a rank that runs a round where another rank runs another one.
fn other_order(rank: usize, there: [usize; 2], here: [usize; 2]) -> String {
    let of = |[round, product]: [usize; 2]| format!("round {round} of product {product}");
    format!(
        "rank {rank} ran {} where this rank ran {}: all ranks run their rounds in one order",
        of(there),
        of(here)
    )
}

/// Two products of one size or of two, of which one rank runs a round in the other order.
#[test]
fn law_rounds_in_another_order_are_named_by_all_ranks() {
    let mut cases = 0;
    for ranks in 2..=4 {
        for swaps in 0..ranks {
            for overlap in OVERLAPS {
                for (path, is_equal) in [(0, true), (0, false), (1, true), (1, false)] {
                    let act = move |process: RankProcess| {
                        let first = problem(overlap, ranks as i64);
                        let (n, k) = if is_equal { (1, 1) } else { (2, 3) };
                        let second = RankProblem {
                            n: first.n * n,
                            k: first.k * k,
                            ..first
                        };
                        let options = with(Some(PATHS[path]), None);
                        let new = |problem| {
                            ProcessProduct::<bf16, f32>::new(&process, problem, &options).unwrap()
                        };
                        let mut calls = [new(first), new(second)];
                        calls[0].run().unwrap();
                        let order = if process.rank() == swaps {
                            [1, 0]
                        } else {
                            [0, 1]
                        };
                        order.map(|at| {
                            let ran = calls[at].run();
                            assert!(
                                ran.as_ref().is_err_and(
                                    |error| error.lost_rank().is_none() || at != order[0]
                                )
                            );
                            said(ran)
                        })
                    };
                    let found = each_on(&apart(ranks), LONG, act);
                    for (rank, [first, second]) in found.into_iter().enumerate() {
                        let expected = if rank == swaps {
                            other_order(usize::from(swaps == 0), [2, 1], [1, 2])
                        } else {
                            other_order(swaps, [1, 2], [2, 1])
                        };
                        assert_eq!(first, expected, "{rank} of {ranks}, {overlap}, {is_equal}");
                        assert_eq!(
                            second,
                            "the products of this rank have failed before, because of a failure of its own: their flags are released"
                        );
                        cases += 1;
                    }
                }
            }
        }
    }
    println!("law ranks.rounds_in_another_order: {cases} cases");
}

/// By memory the flags of a product do not tell the rounds of another one, so that the sentence names both causes.
#[test]
fn rounds_by_memory_in_another_order_are_a_cause_that_is_named() {
    let act = |process: RankProcess| {
        let options = with(Some(RankPath::PeerMemory), None);
        let mut calls = [gather(&process, &options), gather(&process, &options)];
        let first = process.rank();
        let error = calls[first].run().unwrap_err();
        (error.lost_rank(), error.to_string())
    };
    let found = each(&device(0), 2, SHORT, act);
    let late = |rank| {
        format!(
            "rank {rank} did not come to round 1 within {SHORT:?}, or the ranks do not run the rounds of their 2 products in one order: \
             the flags of this rank are released, and what it computed is of no use"
        )
    };
    let told = |rank: usize| {
        format!(
            "rank {rank} has given up, because rank {} was late or gone: what was computed since the last wait is of no use",
            1 - rank
        )
    };
    let mut late_ranks = 0;
    for (rank, (lost, said)) in found.into_iter().enumerate() {
        let is_late = said == late(1 - rank);
        late_ranks += usize::from(is_late);
        assert!(is_late || said == told(1 - rank), "{said}");
        assert!(lost.is_some());
    }
    assert!(late_ranks > 0);
}
