//! Products over the devices of a process: several ranks on one simulated device, on every path.

use std::time::Duration;

use colex_atom::Arch;
use colex_gpu::kernels::GemmElement;
use colex_gpu::ranks::{
    LinkSpeeds, RankDevices, RankForecast, RankOptions, RankPath, RankProblem, RankProduct,
};
use colex_gpu::sim::{Schedule, SimOptions};
use colex_gpu::{Device, Error, Gemm, View};
use colex_sched::Overlap;
use half::bf16;

pub(super) const LONG: Duration = Duration::from_secs(60);

pub(super) const PATHS: [RankPath; 2] = [RankPath::PeerMemory, RankPath::OneAfterAnother];

/// Numbers that look random, with rounding in their products.
pub(super) fn numbers(count: i64, seed: i64) -> Vec<bf16> {
    let number = |i: i64| ((i * i * 31 + i * 17 + seed * 101 + 7) % 1009) as f32 / 337.0 - 1.5;
    (0..count).map(|i| bf16::from_f32(number(i))).collect()
}

pub(super) fn device(seed: u64) -> Device {
    let options = SimOptions::default().schedule(Schedule::from_seed(seed));
    Device::simulator_with(Arch::Sm90a, options)
}

pub(super) fn together(device: &Device, ranks: i64) -> RankDevices {
    RankDevices::new(&vec![device.clone(); ranks as usize]).unwrap()
}

pub(super) fn with(path: Option<RankPath>, pieces: Option<i64>) -> RankOptions {
    RankOptions {
        path,
        pieces,
        ..RankOptions::default()
    }
}

/// Writes the operands of a rank.
pub(super) fn give<C: GemmElement, S: GemmElement>(
    call: &RankProduct<bf16, C, S>,
    rank: usize,
    [a, b]: [&[bf16]; 2],
) {
    call.a(rank).unwrap().write(a).unwrap();
    call.b(rank).unwrap().write(b).unwrap();
}

/// Runs a product to its end.
pub(super) fn ran<C: GemmElement, S: GemmElement>(call: &mut RankProduct<bf16, C, S>) {
    call.run().unwrap();
    call.wait(LONG).unwrap();
}

/// The product of row-major matrices on one device.
pub(super) fn product(device: &Device, [m, n, k]: [i64; 3], a: &[bf16], b: &[bf16]) -> Vec<f32> {
    let (a, b) = (device.upload(a).unwrap(), device.upload(b).unwrap());
    let mut c = device.poisoned::<f32>((m * n) as usize).unwrap();
    let views = (a.view((m, k)).unwrap(), b.view((n, k)).unwrap());
    let out = c.view_mut((m, n)).unwrap();
    Gemm::new(&views.0, &views.1, &out).run().unwrap();
    drop(out);
    c.download().unwrap()
}

pub(super) fn bits(numbers: &[f32]) -> Vec<u32> {
    numbers.iter().map(|x| x.to_bits()).collect()
}

#[test]
fn law_gathered_rows_times_columns_have_the_bits_of_one_device() {
    let mut cases = 0;
    for (ranks, pieces) in [(1, 1), (2, 1), (2, 3), (3, 2), (4, 1)] {
        let [m, n, k] = [24 * ranks, 16 * ranks, 72];
        let problem = RankProblem {
            overlap: Overlap::GatherProduct,
            ranks,
            m,
            n,
            k,
        };
        for path in PATHS.iter().filter(|_| ranks > 1).map(Some).chain([None]) {
            let device = device(cases);
            let pieces = (path != Some(&RankPath::OneAfterAnother)).then_some(pieces);
            let options = with(path.copied(), pieces);
            let mut call =
                RankProduct::<bf16, f32>::new(&together(&device, ranks), problem, &options)
                    .unwrap();
            // New numbers in each round: an old chunk gives another product.
            for round in 0..3 {
                let (a, b) = (numbers(m * k, round), numbers(n * k, round + 10));
                for rank in 0..ranks as usize {
                    let each = |all: &[bf16]| {
                        let each = all.len() / ranks as usize;
                        all[rank * each..(rank + 1) * each].to_vec()
                    };
                    give(&call, rank, [&each(&a), &each(&b)]);
                }
                ran(&mut call);
                for rank in 0..ranks {
                    let each = (n / ranks * k) as usize;
                    let part = &b[rank as usize * each..][..each];
                    let expected = product(&device, [m, n / ranks, k], &a, part);
                    let found = call.c(rank as usize).unwrap().download().unwrap();
                    assert_eq!(bits(&found), bits(&expected), "{problem} {path:?} {rank}");
                }
                cases += 1;
            }
        }
    }
    println!("law ranks.gather_product: {cases} cases");
}

#[test]
fn law_scattered_sums_are_those_of_the_terms_in_the_order_of_the_ranks() {
    let mut cases = 0;
    for ranks in 1..=4 {
        let [m, n, k] = [24 * ranks, 40, 72 * ranks];
        let problem = RankProblem {
            overlap: Overlap::ProductScatter,
            ranks,
            m,
            n,
            k,
        };
        for path in PATHS.iter().filter(|_| ranks > 1).map(Some).chain([None]) {
            let device = device(cases);
            let (together, options) = (together(&device, ranks), with(path.copied(), None));
            let mut wide =
                RankProduct::<bf16, bf16, f32>::new(&together, problem, &options).unwrap();
            let mut halves = RankProduct::<bf16, bf16>::new(&together, problem, &options).unwrap();
            for round in 0..2 {
                let part = |rank: i64, rows: i64, seed: i64| {
                    numbers(rows * k / ranks, 100 * round + 10 * rank + seed)
                };
                let mut terms = Vec::new();
                for rank in 0..ranks {
                    let (a, b) = (part(rank, m, 1), part(rank, n, 2));
                    let of = rank as usize;
                    give(&wide, of, [&a, &b]);
                    give(&halves, of, [&a, &b]);
                    terms.push(product(&device, [m, n, k / ranks], &a, &b));
                }
                ran(&mut wide);
                ran(&mut halves);
                let sum = |at: usize, slot: fn(f32) -> f32| {
                    let of = terms.iter().map(|term| slot(term[at]));
                    bf16::from_f32(of.reduce(|sum, term| sum + term).unwrap()).to_bits()
                };
                let each = (m / ranks * n) as usize;
                for rank in 0..ranks as usize {
                    let places = rank * each..(rank + 1) * each;
                    let exact: Vec<u16> = places.clone().map(|at| sum(at, |x| x)).collect();
                    let rounded: Vec<u16> = places
                        .map(|at| sum(at, |x| bf16::from_f32(x).to_f32()))
                        .collect();
                    let bits = |c: Vec<bf16>| c.iter().map(|x| x.to_bits()).collect::<Vec<_>>();
                    let found = bits(wide.c(rank).unwrap().download().unwrap());
                    assert_eq!(found, exact, "{problem} {path:?} {rank}");
                    let found = bits(halves.c(rank).unwrap().download().unwrap());
                    assert_eq!(found, rounded, "{problem} {path:?} {rank}");
                }
                cases += 1;
            }
        }
    }
    println!("law ranks.product_scatter: {cases} cases");
}

#[test]
fn law_reduced_sums_are_on_every_rank_those_of_the_terms_in_the_order_of_the_ranks() {
    let mut cases = 0;
    for (ranks, pieces) in [(1, 1), (2, 1), (2, 2), (3, 3), (4, 2)] {
        let [m, n, k] = [24 * ranks, 40, 72 * ranks];
        let problem = RankProblem {
            overlap: Overlap::ProductReduce,
            ranks,
            m,
            n,
            k,
        };
        for path in PATHS.iter().filter(|_| ranks > 1).map(Some).chain([None]) {
            let device = device(cases);
            let pieces = (path != Some(&RankPath::OneAfterAnother)).then_some(pieces);
            let (together, options) = (together(&device, ranks), with(path.copied(), pieces));
            let mut call =
                RankProduct::<bf16, bf16, f32>::new(&together, problem, &options).unwrap();
            // New numbers in each round: an old sum is another one.
            for round in 0..2 {
                let part = |rank: i64, rows: i64, seed: i64| {
                    numbers(rows * k / ranks, 100 * round + 10 * rank + seed)
                };
                let mut terms = Vec::new();
                for rank in 0..ranks {
                    let (a, b) = (part(rank, m, 1), part(rank, n, 2));
                    give(&call, rank as usize, [&a, &b]);
                    terms.push(product(&device, [m, n, k / ranks], &a, &b));
                }
                ran(&mut call);
                let sum = |at: usize| {
                    let of = terms.iter().map(|term| term[at]);
                    bf16::from_f32(of.reduce(|sum, term| sum + term).unwrap()).to_bits()
                };
                let expected: Vec<u16> = (0..(m * n) as usize).map(sum).collect();
                for rank in 0..ranks as usize {
                    let found = call.c(rank).unwrap().download().unwrap();
                    let found: Vec<u16> = found.iter().map(|x| x.to_bits()).collect();
                    assert_eq!(found, expected, "{problem} {path:?} {rank}");
                }
                cases += 1;
            }
        }
    }
    println!("law ranks.product_reduce: {cases} cases");
}

#[test]
fn a_plan_says_its_path_and_what_others_take() {
    let device = device(0);
    let problem = RankProblem {
        overlap: Overlap::GatherProduct,
        ranks: 2,
        m: 64,
        n: 32,
        k: 64,
    };
    let gather = |options: &RankOptions| {
        RankProduct::<bf16, bf16>::new(&together(&device, 2), problem, options).unwrap()
    };
    let said = gather(&with(None, Some(2))).explain().unwrap();
    let lines: Vec<&str> = said.lines().collect();
    assert_eq!(
        lines[0],
        "all-gather and product, 64 x 32 x 64 over 2 ranks by peer memory, chunks in 2 pieces"
    );
    assert!(lines[1].starts_with("Hopper bf16 to bf16, tile "), "{said}");
    let paths: Vec<&str> = lines[3..7]
        .iter()
        .map(|line| line.trim().split(':').next().unwrap())
        .collect();
    assert_eq!(
        paths,
        [
            "peer memory",
            "copies, one after another with the product",
            "NCCL in chunks",
            "NCCL, one after another with the product"
        ]
    );
    let [last] = lines[7..] else { panic!("{said}") };
    let why = " us, since all ranks have access to each other's memory, and streams set flags";
    assert!(
        last.starts_with("by peer memory, predicted ") && last.ends_with(why),
        "{last}"
    );
    let scatter = RankProblem {
        overlap: Overlap::ProductScatter,
        ..problem
    };
    let scatter = RankProduct::<bf16, bf16, f32>::new(
        &together(&device, 2),
        scatter,
        &with(Some(RankPath::OneAfterAnother), None),
    );
    let said = scatter.unwrap().explain().unwrap();
    assert!(
        said.starts_with(
            "product and reduce-scatter, 64 x 32 x 64 over 2 ranks by copies, one after another with the product, slots of f32\n"
        ),
        "{said}"
    );
    let reduce = RankProblem {
        overlap: Overlap::ProductReduce,
        ..problem
    };
    let reduce = RankProduct::<bf16, bf16>::new(
        &together(&device, 2),
        reduce,
        &with(Some(RankPath::NcclInChunks), Some(4)),
    );
    let said = reduce.unwrap().explain().unwrap();
    assert!(
        said.starts_with(
            "product and all-reduce, 64 x 32 x 64 over 2 ranks by NCCL in chunks, chunks in 4 pieces, terms of bf16\n"
        ) && said.contains("\nby NCCL in chunks, predicted ")
            && said.ends_with(" us, as the caller chose"),
        "{said}"
    );
}

/// More bytes take longer, faster links do not, and what overlaps takes at least its longer part.
#[test]
fn law_forecasts_are_monotonic() {
    let mut cases = 0;
    let links = LinkSpeeds::default();
    let of = |problem: &RankProblem, links: &LinkSpeeds| {
        let rates = colex_gpu::Rates::of(Arch::Sm90a);
        RankForecast::of::<bf16, bf16>(problem, Arch::Sm90a, rates, links).unwrap()
    };
    let overlaps = [
        Overlap::GatherProduct,
        Overlap::ProductScatter,
        Overlap::ProductReduce,
    ];
    for overlap in overlaps {
        for ranks in [2, 4, 8] {
            for [m, n, k] in [[2048, 8192, 8192], [8192, 57344, 8192], [8192, 2048, 2048]] {
                let problem = RankProblem {
                    overlap,
                    ranks,
                    m,
                    n,
                    k,
                };
                let time = |problem: &RankProblem, links: &LinkSpeeds, path| {
                    of(problem, links).microseconds(path).unwrap()
                };
                for path in [
                    RankPath::PeerMemory,
                    RankPath::OneAfterAnother,
                    RankPath::NcclInChunks,
                    RankPath::NcclAfter,
                ] {
                    let usual = time(&problem, &links, path);
                    let taller = RankProblem {
                        m: 2 * m,
                        ..problem
                    };
                    assert!(time(&taller, &links, path) > usual, "{problem} {path}");
                    let faster = LinkSpeeds {
                        copies: 2.0 * links.copies,
                        nccl: 2.0 * links.nccl,
                        ..links
                    };
                    assert!(time(&problem, &faster, path) <= usual, "{problem} {path}");
                    cases += 1;
                }
                let best = time(&problem, &links, RankPath::PeerMemory);
                assert!(best < time(&problem, &links, RankPath::OneAfterAnother));
            }
        }
    }
    println!("law ranks.forecasts: {cases} cases");
}

#[test]
fn every_refusal_of_devices_verbatim() {
    let device = device(0);
    let problem = RankProblem {
        overlap: Overlap::GatherProduct,
        ranks: 2,
        m: 16,
        n: 16,
        k: 16,
    };
    let said = |error: Result<RankDevices, Error>| error.unwrap_err().to_string();
    assert_eq!(
        said(RankDevices::new(&vec![device.clone(); 17])),
        "17 devices: a product takes 1 to 16, one for each rank"
    );
    let other = Device::simulator(Arch::Sm80);
    assert_eq!(
        said(RankDevices::new(&[device.clone(), other])),
        "rank 1, the simulator of sm_80, is sm_80, and rank 0 is sm_90a: the kernels of all ranks are those of one architecture"
    );
    let two = together(&device, 2);
    let refused = |problem: RankProblem, options: RankOptions| {
        let call = RankProduct::<bf16, f32>::new(&two, problem, &options);
        let error = call.unwrap_err();
        assert!(error.is_ranks_refused() && error.lost_rank().is_none());
        error.to_string()
    };
    let scatter = RankProblem {
        overlap: Overlap::ProductScatter,
        ..problem
    };
    let cases = [
        (
            RankProblem {
                ranks: 4,
                ..problem
            },
            with(None, None),
            "all-gather and product, 16 x 16 x 16 over 4 ranks, and there are 2 devices: each rank has one",
        ),
        (
            RankProblem { m: 17, ..problem },
            with(None, None),
            "A: mode 0 of extent 17 over 2 ranks: the extent must be a multiple, and 18 is the next one",
        ),
        (
            problem,
            with(None, Some(3)),
            "3 pieces of a chunk of 8 rows: the number must divide the rows, and be at most 64",
        ),
        (
            problem,
            with(Some(RankPath::Local), None),
            "the path one rank alone is not taken here: there are several ranks",
        ),
        (
            problem,
            with(Some(RankPath::NcclInChunks), Some(16)),
            "16 pieces of a chunk of 8 rows: the number must divide the rows, and be at most 64",
        ),
    ];
    for (problem, options, sentence) in cases {
        assert_eq!(refused(problem, options), sentence);
    }
    let one = together(&device, 1);
    let alone = RankProblem {
        ranks: 1,
        ..problem
    };
    let error = RankProduct::<bf16, f32>::new(&one, alone, &with(Some(PATHS[0]), None));
    assert_eq!(
        error.unwrap_err().to_string(),
        "the path peer memory is not taken here: there is one rank, which sends nothing"
    );
    let pieces = RankProduct::<bf16, f32>::new(&two, scatter, &with(None, Some(2)));
    assert_eq!(
        pieces.unwrap_err().to_string(),
        "2 pieces of a chunk of 8 rows: the number must divide the rows, and be at most 1"
    );
    let call = RankProduct::<bf16, f32>::new(&two, problem, &with(None, None)).unwrap();
    assert_eq!(
        call.c(2).unwrap_err().to_string(),
        "rank 2 of 2 ranks, numbered from 0"
    );
    let whole = View::new(call.c(1).unwrap(), "(16,8):(8,1)").unwrap();
    assert!(!whole.is_empty());
    let sum = RankProduct::<bf16, f32>::new(&two, scatter, &with(None, None)).unwrap();
    let none = "product and reduce-scatter gathers no A: all-gather and product does";
    assert_eq!(sum.gathered(1).unwrap_err().to_string(), none);
    assert_eq!(sum.gathered_layout().unwrap_err().to_string(), none);
    assert_eq!(sum.problem(), &scatter);
}

/// A kernel that fails is found when the product is enqueued; the flags are then released. On the simulator a kernel runs there.
#[test]
fn a_product_that_has_failed_is_over() {
    let options = SimOptions {
        max_steps: 8,
        ..SimOptions::default()
    };
    let device = Device::simulator_with(Arch::Sm90a, options);
    let problem = RankProblem {
        overlap: Overlap::GatherProduct,
        ranks: 2,
        m: 16,
        n: 16,
        k: 16,
    };
    let two = together(&device, 2);
    let mut call = RankProduct::<bf16, f32>::new(&two, problem, &with(None, None)).unwrap();
    let first = call.run().unwrap_err();
    assert!(first.to_string().contains("max_steps"), "{first}");
    assert_eq!(
        call.run().unwrap_err().to_string(),
        "the product has failed before: its flags are released, and a new one has new flags"
    );
    // Ampere's kernel waits for no flags, and is taken where none are.
    let two = together(&Device::simulator(Arch::Sm80), 2);
    let mut call = RankProduct::<bf16, f32>::new(&two, problem, &with(None, None)).unwrap();
    assert_eq!(call.path(), RankPath::OneAfterAnother);
    call.run().unwrap();
    call.wait(LONG).unwrap();
    assert_eq!(call.c(1).unwrap().download().unwrap(), [0.0; 16 * 8]);
}
