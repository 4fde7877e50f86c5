//! Products over ranks that are threads with a part each: their results, and what a rank that fails, differs or never comes ends in.

use std::thread;
use std::time::{Duration, Instant};

use colex_atom::Arch;
use colex_gpu::kernels::GemmElement;
use colex_gpu::ranks::{
    Meeting, ProcessProduct, RankDevices, RankOptions, RankPath, RankProblem, RankProcess,
    RankProduct, RankSends,
};
use colex_gpu::sim::{Schedule, SimOptions};
use colex_gpu::{Device, Error};
use colex_sched::Overlap;
use half::bf16;

use super::host::{LONG, numbers, with};

/// A time that a missing rank costs.
const SHORT: Duration = Duration::from_millis(700);

/// What each rank says, in a thread of its own with the device that all share.
pub(super) fn each<T: Send + 'static>(
    device: &Device,
    ranks: usize,
    within: Duration,
    act: impl Fn(RankProcess) -> T + Clone + Send + 'static,
) -> Vec<T> {
    each_on(&vec![device.clone(); ranks], within, act)
}

/// What each rank says, in a thread of its own with its device.
pub(super) fn each_on<T: Send + 'static>(
    devices: &[Device],
    within: Duration,
    act: impl Fn(RankProcess) -> T + Clone + Send + 'static,
) -> Vec<T> {
    let meetings = Meeting::local(devices.len(), within).unwrap().into_iter();
    let start = |meeting: Meeting| {
        let (device, act) = (devices[meeting.rank()].clone(), act.clone());
        thread::spawn(move || act(RankProcess::join(meeting, &device).unwrap()))
    };
    let threads: Vec<_> = meetings.map(start).collect();
    let join = |thread: thread::JoinHandle<T>| thread.join().unwrap();
    threads.into_iter().map(join).collect()
}

pub(super) fn said<T>(result: Result<T, Error>) -> String {
    match result {
        Ok(_) => "no error".to_string(),
        Err(error) => error.to_string(),
    }
}

fn gather(ranks: i64) -> RankProblem {
    RankProblem {
        overlap: Overlap::GatherProduct,
        ranks,
        m: 24 * ranks,
        n: 16 * ranks,
        k: 72,
    }
}

fn scatter(ranks: i64) -> RankProblem {
    RankProblem {
        overlap: Overlap::ProductScatter,
        ranks,
        m: 24 * ranks,
        n: 40,
        k: 72 * ranks,
    }
}

fn paths(ranks: i64) -> Vec<Option<RankPath>> {
    match ranks {
        1 => vec![None],
        _ => vec![
            Some(RankPath::PeerMemory),
            Some(RankPath::OneAfterAnother),
            None,
        ],
    }
}

/// The parts of A and B of a rank in a round.
fn parts(problem: &RankProblem, rank: usize, round: i64) -> [Vec<bf16>; 2] {
    let RankProblem { m, n, k, ranks, .. } = *problem;
    let seed = 100 * round + 10 * rank as i64;
    [
        numbers(m * k / ranks, seed + 1),
        numbers(n * k / ranks, seed + 2),
    ]
}

pub(super) const ROUNDS: i64 = 2;

/// Compares what each rank finds as a thread of its own with what one process finds, with these terms.
pub(super) fn same_as_one_process<C: GemmElement + std::fmt::Debug, S: GemmElement>(
    (devices, problem): (Vec<Device>, RankProblem),
    options: RankOptions,
    bits: impl Fn(&C) -> u32,
) {
    let act = move |process: RankProcess| {
        let mut call = ProcessProduct::<bf16, C, S>::new(&process, problem, &options).unwrap();
        let mut found = Vec::new();
        for round in 0..ROUNDS {
            let [a, b] = parts(&problem, process.rank(), round);
            call.a().unwrap().write(&a).unwrap();
            call.b().write(&b).unwrap();
            call.run().unwrap();
            call.wait(LONG).unwrap();
            found.push(call.c().download().unwrap());
        }
        drop(call);
        process.leave().unwrap();
        found
    };
    let ranks = problem.ranks as usize;
    let found = each_on(&devices, LONG, act);
    let together = RankDevices::new(&devices).unwrap();
    let mut call = RankProduct::<bf16, C, S>::new(&together, problem, &options).unwrap();
    for round in 0..ROUNDS {
        for rank in 0..ranks {
            let [a, b] = parts(&problem, rank, round);
            call.a(rank).unwrap().write(&a).unwrap();
            call.b(rank).unwrap().write(&b).unwrap();
        }
        call.run().unwrap();
        call.wait(LONG).unwrap();
        for (rank, found) in found.iter().enumerate() {
            let bits = |c: &[C]| c.iter().map(&bits).collect::<Vec<_>>();
            let expected = call.c(rank).unwrap().download().unwrap();
            let found = &found[round as usize];
            assert_eq!(bits(found), bits(&expected), "{problem} {options:?} {rank}");
        }
    }
}

#[test]
fn law_a_rank_gathers_and_multiplies_the_bits_of_the_product_of_one_process() {
    let mut cases = 0;
    for (ranks, pieces) in [(1, 1), (2, 1), (2, 3), (3, 1), (4, 2)] {
        for path in paths(ranks) {
            let schedule = Schedule::from_seed(cases);
            let device =
                Device::simulator_with(Arch::Sm90a, SimOptions::default().schedule(schedule));
            let of = (vec![device; ranks as usize], gather(ranks));
            same_as_one_process::<f32, f32>(of, with(path, Some(pieces)), |x| x.to_bits());
            cases += ROUNDS as u64;
        }
    }
    println!("law ranks.gather_product_rank: {cases} cases");
}

/// Sums of slots, and sums in the memory of their owners where two terms are added: their order does not matter.
#[test]
fn law_a_rank_multiplies_and_adds_the_bits_of_the_product_of_one_process() {
    let mut cases = 0;
    for overlap in [Overlap::ProductScatter, Overlap::ProductReduce] {
        for ranks in 1..=3 {
            let problem = RankProblem {
                overlap,
                ..scatter(ranks)
            };
            for path in paths(ranks) {
                let by_kernels = match ranks {
                    2 => vec![RankSends::Kernel, RankSends::Reduction],
                    3 => vec![RankSends::Kernel],
                    _ => Vec::new(),
                };
                let by_kernels = by_kernels
                    .into_iter()
                    .filter(|_| path == Some(RankPath::PeerMemory));
                for sends in by_kernels.chain([RankSends::Engines]) {
                    let options = RankOptions {
                        sends: Some(sends),
                        ..with(path, Some(1))
                    };
                    let device = Device::simulator(Arch::Sm90a);
                    let of = (vec![device; ranks as usize], problem);
                    let bits = |x: &bf16| u32::from(x.to_bits());
                    if sends == RankSends::Kernel {
                        same_as_one_process::<bf16, bf16>(of, options, bits);
                    } else {
                        same_as_one_process::<bf16, f32>(of, options, bits);
                    }
                    cases += ROUNDS;
                }
            }
        }
    }
    println!("law ranks.product_sum_rank: {cases} cases");
}

/// A round of a product of small matrices.
fn call(process: &RankProcess) -> ProcessProduct<bf16, f32> {
    let problem = gather(process.ranks() as i64);
    ProcessProduct::new(process, problem, &RankOptions::default()).unwrap()
}

/// On every rank the same sentence, at the first call.
#[test]
fn ranks_with_different_products_are_named_at_the_first_call() {
    let device = Device::simulator(Arch::Sm90a);
    let begins =
        "all-gather and product, 48 x 32 x 72 over 2 ranks by peer memory, chunks in 1 piece";
    let act = |process: RankProcess| {
        let is_first = process.rank() == 0;
        let own = gather(2);
        let mut sentences = Vec::new();
        let shape = RankProblem {
            k: if is_first { 72 } else { 80 },
            ..own
        };
        let usual = RankOptions::default();
        let new = ProcessProduct::<bf16, f32>::new;
        sentences.push(said(new(&process, shape, &usual)));
        sentences.push(if is_first {
            said(new(&process, own, &usual))
        } else {
            said(ProcessProduct::<bf16, bf16>::new(&process, own, &usual))
        });
        let pieces = with(None, Some(if is_first { 1 } else { 2 }));
        sentences.push(said(new(&process, own, &pieces)));
        let other = RankProblem {
            overlap: Overlap::ProductScatter,
            k: 72 * 2,
            ..own
        };
        sentences.push(if is_first {
            said(new(&process, own, &usual))
        } else {
            said(ProcessProduct::<bf16, f32>::new(&process, other, &usual))
        });
        // What one rank cannot do at all is its own error there.
        let odd = RankProblem {
            m: if is_first { 48 } else { 47 },
            ..own
        };
        let refused = new(&process, odd, &usual).unwrap_err();
        assert!(refused.is_ranks_refused() && refused.lost_rank().is_none());
        sentences.push(refused.to_string());
        // The ranks go on together.
        let mut product = call(&process);
        product.run().unwrap();
        product.wait(LONG).unwrap();
        sentences
    };
    let found = each(&device, 2, LONG, act);
    let differs = |other: &str, first: &str| {
        format!("rank 1 asks for {other}, and rank 0 for {first}: all ranks compute one product")
    };
    let first = format!("{begins}, bf16 to f32");
    let same = [
        differs(&first.replace("x 72", "x 80"), &first),
        differs(&first.replace("bf16 to f32", "bf16 to bf16"), &first),
        differs(&first.replace("in 1 piece", "in 2 pieces"), &first),
        differs(
            "product and reduce-scatter, 48 x 32 x 144 over 2 ranks by peer memory, slots of f32, bf16 to f32, terms sent by copy engines",
            &first,
        ),
    ];
    assert_eq!(found[0][..4], same);
    assert_eq!(found[1][..4], same);
    let why = "A: mode 0 of extent 47 over 2 ranks: the extent must be a multiple, and 48 is the next one";
    assert_eq!(found[1][4], why);
    assert_eq!(
        found[0][4],
        format!("rank 1 has no part of the product: {why}")
    );
}

#[test]
fn a_rank_that_never_comes_is_named_and_ends_the_others() {
    for absent in 0..3 {
        let device = Device::simulator(Arch::Sm90a);
        let act = move |process: RankProcess| {
            let mut product = call(&process);
            if process.rank() == absent {
                // It lives, and is late.
                thread::sleep(2 * SHORT);
                let error = product
                    .run()
                    .and_then(|()| product.wait(SHORT))
                    .unwrap_err();
                assert_eq!(error.lost_rank(), Some(absent));
                assert!(error.to_string().contains("has given up"), "{error}");
                return error.to_string();
            }
            let start = Instant::now();
            let error = product.run().unwrap_err();
            assert!(start.elapsed() < LONG);
            assert_eq!(error.lost_rank(), Some(absent));
            let over = format!(
                "the products of this rank have failed before, because rank {absent} was late or gone: their flags are released"
            );
            assert_eq!(said(product.run()), over);
            assert_eq!(said(product.wait(LONG)), over);
            error.to_string()
        };
        let found = each(&device, 3, SHORT, act);
        let late = format!(
            "rank {absent} did not come to round 1 within {SHORT:?}: the flags of this rank are released, and what it computed is of \
             no use"
        );
        // The first to give up names the absent rank; the other one gives up by itself, or hears of it.
        let others = (0..3).filter(|rank| *rank != absent);
        let sentences: Vec<_> = others.map(|rank| found[rank].as_str()).collect();
        assert!(sentences.contains(&late.as_str()), "{sentences:?}");
        let heard = format!("has given up, because rank {absent} was late or gone");
        let expected = |one: &&str| **one == late || one.contains(&heard);
        assert!(sentences.iter().all(expected), "{sentences:?}");
    }
}

#[test]
fn a_rank_that_dies_between_rounds_ends_the_others() {
    let device = Device::simulator(Arch::Sm90a);
    let act = |process: RankProcess| {
        let mut product = call(&process);
        product.run().unwrap();
        product.wait(LONG).unwrap();
        if process.rank() == 1 {
            return String::new(); // its product, its session and its connection end here
        }
        let error = product.run().unwrap_err();
        assert_eq!(error.lost_rank(), Some(1));
        drop(product);
        // A new product finds that the connection has ended.
        let again = process.exchange(b"").unwrap_err();
        assert_eq!(again.lost_rank(), Some(1));
        format!("{error}; {again}")
    };
    let found = each(&device, 2, SHORT, act);
    assert_eq!(
        found[0],
        format!(
            "rank 1 did not come to round 2 within {SHORT:?}: the flags of this rank are released, and what it computed is of no use; \
             rank 1 is gone: its connection has ended"
        )
    );
}

/// A rank whose kernel fails tells the others, which do not wait for it to the end of their time.
#[test]
fn a_rank_that_fails_tells_the_others() {
    let options = SimOptions {
        max_steps: 8,
        ..SimOptions::default()
    };
    let device = Device::simulator_with(Arch::Sm90a, options);
    let act = |process: RankProcess| {
        let mut product = call(&process);
        let start = Instant::now();
        let error = product.run().unwrap_err().to_string();
        assert!(start.elapsed() < LONG);
        error
    };
    let found = each(&device, 2, LONG, act);
    let own = |one: &String| one.contains("max_steps");
    assert!(found.iter().any(own), "{found:?}");
    let heard = |one: &String| own(one) || one.contains("because of a failure of its own");
    assert!(found.iter().all(heard), "{found:?}");
}

#[test]
fn ranks_take_the_same_steps_and_leave_without_products() {
    let device = Device::simulator(Arch::Sm90a);
    let act = |process: RankProcess| {
        let first = match process.rank() {
            0 => said(process.exchange(b"nil")),
            _ => said(ProcessProduct::<bf16, f32>::new(
                &process,
                gather(2),
                &RankOptions::default(),
            )),
        };
        // The ranks are beside each other again.
        let all = process.exchange(&[process.rank() as u8; 3]).unwrap();
        assert_eq!(all, [[0; 3], [1; 3]]);
        let product = call(&process);
        if process.rank() == 0 {
            drop(product);
            return [first, said(process.leave())];
        }
        [first, said(process.leave())]
    };
    let sentences = [
        "rank 1 begins a product, and rank 0 exchanges bytes: all ranks make the same calls in the same order",
        "rank 1 leaves the others with a product: drop all products before",
    ];
    assert_eq!(each(&device, 2, LONG, act), [sentences; 2]);
}

#[test]
fn devices_that_share_nothing_are_named() {
    let meetings = Meeting::local(2, LONG).unwrap().into_iter();
    let start = |meeting: Meeting| {
        // A simulator of its own on each rank.
        thread::spawn(|| {
            let device = Device::simulator(Arch::Sm90a);
            let process = RankProcess::join(meeting, &device).unwrap();
            let options = with(Some(RankPath::PeerMemory), None);
            said(ProcessProduct::<bf16, f32>::new(
                &process,
                gather(2),
                &options,
            ))
        })
    };
    let threads: Vec<_> = meetings.map(start).collect();
    for thread in threads {
        assert_eq!(
            thread.join().unwrap(),
            "the simulator of sm_90a does not share memory with another device: its memory is its own; several simulated devices are \
             `colex_sim::Ranks`"
        );
    }
    let meetings = Meeting::local(2, LONG).unwrap().into_iter();
    let start = |meeting: Meeting| {
        thread::spawn(|| {
            let archs = [Arch::Sm90a, Arch::Sm80];
            let device = Device::simulator(archs[meeting.rank()]);
            said(RankProcess::join(meeting, &device))
        })
    };
    let threads: Vec<_> = meetings.map(start).collect();
    for thread in threads {
        assert_eq!(
            thread.join().unwrap(),
            "rank 1, the simulator of sm_80, is sm_80, and rank 0 is sm_90a: the kernels of all ranks are those of one architecture"
        );
    }
    let meeting = Meeting::local(17, LONG).unwrap().remove(0);
    assert_eq!(
        said(RankProcess::join(meeting, &Device::simulator(Arch::Sm90a))),
        "17 devices: a product takes 1 to 16, one for each rank"
    );
}

/// The rank that asks for more pieces says why it has no part of the product, and the others name it.
#[test]
fn a_sum_of_processes_has_one_piece() {
    let device = Device::simulator(Arch::Sm90a);
    let refused =
        "2 pieces of a chunk of 24 rows: the number must divide the rows, and be at most 1";
    for overlap in [Overlap::ProductScatter, Overlap::ProductReduce] {
        for all_ask in [false, true] {
            let act = move |process: RankProcess| {
                let asks = all_ask || process.rank() == 1;
                let options = with(None, asks.then_some(2));
                let problem = RankProblem {
                    overlap,
                    ..scatter(2)
                };
                said(ProcessProduct::<bf16, f32>::new(
                    &process, problem, &options,
                ))
            };
            let found = each(&device, 2, LONG, act);
            let first = if all_ask {
                refused.to_string()
            } else {
                format!("rank 1 has no part of the product: {refused}")
            };
            assert_eq!(found, [first, refused.to_string()], "{overlap} {all_ask}");
        }
    }
}

/// Two products of the same ranks, whose rounds alternate.
#[test]
fn products_beside_each_other_have_flags_of_their_own() {
    let device = Device::simulator(Arch::Sm90a);
    let act = |process: RankProcess| {
        let problem = scatter(2);
        let options = RankOptions::default();
        let mut one = call(&process);
        let mut other = ProcessProduct::<bf16, bf16>::new(&process, problem, &options).unwrap();
        let of_rank = bf16::from_f32(process.rank() as f32 + 1.0);
        one.a().unwrap().write(&vec![of_rank; 24 * 72]).unwrap();
        one.b().write(&vec![bf16::ONE; 16 * 72]).unwrap();
        other.a().unwrap().write(&vec![of_rank; 48 * 72]).unwrap();
        other.b().write(&vec![bf16::ONE; 40 * 72]).unwrap();
        for _ in 0..2 {
            one.run().unwrap();
            other.run().unwrap();
        }
        one.run().unwrap();
        other.wait(LONG).unwrap();
        one.wait(LONG).unwrap();
        let c = one.c().download().unwrap();
        assert_eq!([c[0], c[24 * 16]], [72.0, 144.0]);
        assert_eq!(
            other.c().download().unwrap(),
            [bf16::from_f32(3.0 * 72.0); 24 * 40]
        );
        let (one, other) = (one.explain().unwrap(), other.explain().unwrap());
        [one, other].map(|said| said.lines().next().unwrap().to_string())
    };
    let sentences = [
        "all-gather and product, 48 x 32 x 72 over 2 ranks by peer memory, chunks in 1 piece",
        "product and reduce-scatter, 48 x 40 x 144 over 2 ranks by peer memory, slots of bf16",
    ];
    assert_eq!(each(&device, 2, LONG, act), [sentences; 2]);
}

/// A rank gives as many bytes as a meeting takes, also where the library puts others beside them. More are refused, and what the other ranks are
/// to be told is told by the next exchange: memory that all have closed is freed, and the ranks leave.
#[test]
fn an_exchange_of_the_most_bytes_arrives_and_a_longer_one_loses_nothing() {
    let device = Device::simulator(Arch::Sm90a);
    for ranks in [1, 2] {
        let act = move |process: RankProcess| {
            let call =
                ProcessProduct::<bf16, f32>::new(&process, scatter(ranks), &RankOptions::default());
            drop(call.unwrap());
            let long = vec![process.rank() as u8; Meeting::MOST_BYTES];
            let longer = said(process.exchange(&[&long[..], &[7]].concat()));
            let all = process.exchange(&long).unwrap();
            assert!(
                (0..)
                    .zip(&all)
                    .all(|(rank, bytes)| *bytes == vec![rank; Meeting::MOST_BYTES])
            );
            process.leave().unwrap();
            longer
        };
        let sentence =
            "1048577 bytes for the other ranks of a meeting: a rank gives at most 1048576";
        for said in each(&device, ranks as usize, LONG, act) {
            assert_eq!(said, sentence);
        }
    }
}
