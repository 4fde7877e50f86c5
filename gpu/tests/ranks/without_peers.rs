//! The paths of NCCL on simulated ranks: with one memory, and with a memory of its own for each rank.

use colex_atom::Arch;
use colex_gpu::Device;
use colex_gpu::ranks::{RankDevices, RankPath, RankProblem, RankProduct};
use colex_sched::Overlap;
use half::bf16;

use super::host::{LONG, bits, device, numbers, product, together, with};

const PATHS: [RankPath; 2] = [RankPath::NcclAfter, RankPath::NcclInChunks];

/// Ranks with one memory, and without access to each other's.
fn both(ranks: i64, seed: u64) -> [RankDevices; 2] {
    let apart: Vec<Device> = (0..ranks).map(|_| device(seed)).collect();
    [
        together(&device(seed), ranks),
        RankDevices::new(&apart).unwrap(),
    ]
}

pub(super) fn problem(overlap: Overlap, ranks: i64) -> RankProblem {
    let (n, k) = match overlap {
        Overlap::GatherProduct => (16 * ranks, 72),
        Overlap::ProductScatter | Overlap::ProductReduce => (40, 72 * ranks),
    };
    RankProblem {
        overlap,
        ranks,
        m: 24 * ranks,
        n,
        k,
    }
}

#[test]
fn law_gathers_by_nccl_have_the_bits_of_one_device() {
    let mut cases = 0;
    for (ranks, pieces) in [(2, 1), (2, 3), (3, 2), (4, 4)] {
        let problem = problem(Overlap::GatherProduct, ranks);
        let RankProblem { m, n, k, .. } = problem;
        for path in PATHS {
            for devices in both(ranks, cases) {
                let options = with(Some(path), Some(pieces));
                let mut call = RankProduct::<bf16, f32>::new(&devices, problem, &options).unwrap();
                for round in 0..2 {
                    let (a, b) = (numbers(m * k, round), numbers(n * k, round + 10));
                    let (each_a, each_b) = (a.len() / ranks as usize, b.len() / ranks as usize);
                    for rank in 0..ranks as usize {
                        let own = call.a(rank).unwrap();
                        own.write(&a[rank * each_a..][..each_a]).unwrap();
                        let own = call.b(rank).unwrap();
                        own.write(&b[rank * each_b..][..each_b]).unwrap();
                    }
                    call.run().unwrap();
                    call.wait(LONG).unwrap();
                    let places = call.gathered_layout().unwrap();
                    for rank in 0..ranks as usize {
                        let part = &b[rank * each_b..][..each_b];
                        let expected = product(&device(0), [m, n / ranks, k], &a, part);
                        let found = call.c(rank).unwrap().download().unwrap();
                        assert_eq!(bits(&found), bits(&expected), "{problem} {path} {rank}");
                        // Row after row, in the order of the layout: column, row of a piece, piece, rank.
                        let gathered = call.gathered(rank).unwrap().download().unwrap();
                        let rows = m / ranks / pieces;
                        for (at, x) in (0..).zip(&a) {
                            let (row, column) = (at / k, at % k);
                            let index = row + m * column;
                            let place = places.at(index).unwrap() as usize;
                            assert_eq!(gathered[place], *x, "row {row} of pieces of {rows}");
                        }
                    }
                    cases += 1;
                }
            }
        }
    }
    println!("law ranks.gather_by_nccl: {cases} cases");
}

/// Sums as a ring forms them, which is what simulated ranks have: the term of the owner comes last, and each sum is rounded.
fn ring(terms: &[Vec<f32>], at: usize, round: fn(f32) -> f32) -> f32 {
    let (ranks, count) = (terms.len(), terms[0].len());
    let owner = at * ranks / count;
    let around = (1..=ranks).map(|step| round(terms[(owner + step) % ranks][at]));
    around.reduce(|sum, term| round(sum + term)).unwrap()
}

/// What all orders of the sums are within: a rounding of each addition.
fn is_near(found: f32, terms: &[f32], unit: f32) -> bool {
    let (sum, size) = terms.iter().fold((0.0, 0.0), |(sum, size), x| {
        (sum + f64::from(*x), size + f64::from(x.abs()))
    });
    (f64::from(found) - sum).abs() <= size * terms.len() as f64 * f64::from(unit)
}

#[test]
fn law_sums_by_nccl_are_those_of_the_terms_in_an_order_of_a_ring() {
    let mut cases = 0;
    let half = |x: f32| bf16::from_f32(x).to_f32();
    for (ranks, pieces) in [(2, 1), (2, 3), (3, 2), (4, 4)] {
        for path in PATHS {
            let pieces = (path == RankPath::NcclInChunks).then_some(pieces);
            let options = with(Some(path), pieces);
            for devices in both(ranks, cases) {
                let of = |overlap| problem(overlap, ranks);
                let (scatter, reduce) = (of(Overlap::ProductScatter), of(Overlap::ProductReduce));
                let RankProblem { m, n, k, .. } = scatter;
                let mut scatter =
                    RankProduct::<bf16, f32>::new(&devices, scatter, &options).unwrap();
                let mut reduce =
                    RankProduct::<bf16, bf16>::new(&devices, reduce, &options).unwrap();
                let mut terms = Vec::new();
                for rank in 0..ranks as usize {
                    let seed = 10 * rank as i64;
                    let a = numbers(m * k / ranks, seed + 1);
                    let b = numbers(n * k / ranks, seed + 2);
                    scatter.a(rank).unwrap().write(&a).unwrap();
                    scatter.b(rank).unwrap().write(&b).unwrap();
                    reduce.a(rank).unwrap().write(&a).unwrap();
                    reduce.b(rank).unwrap().write(&b).unwrap();
                    terms.push(product(&device(0), [m, n, k / ranks], &a, &b));
                }
                scatter.run().unwrap();
                scatter.wait(LONG).unwrap();
                reduce.run().unwrap();
                reduce.wait(LONG).unwrap();
                let all = 0..(m * n) as usize;
                // What a collective of a piece calls the rows of a rank depends on the pieces; for sums of two terms, not on them.
                let (wide, narrow) = (|x: f32| x, half);
                let parts = (0..ranks as usize).map(|rank| scatter.c(rank).unwrap().download());
                let found: Vec<f32> = parts.flat_map(|part| part.unwrap()).collect();
                for at in all.clone() {
                    let each: Vec<f32> = terms.iter().map(|term| term[at]).collect();
                    assert_eq!(
                        found[at].to_bits(),
                        ring(&terms, at, wide).to_bits(),
                        "{path}"
                    );
                    assert!(is_near(found[at], &each, f32::EPSILON), "{path} {at}");
                }
                let first = reduce.c(0).unwrap().download().unwrap();
                for at in all {
                    let each: Vec<f32> = terms.iter().map(|term| half(term[at])).collect();
                    let found = first[at].to_f32();
                    if path == RankPath::NcclAfter {
                        assert_eq!(found, ring(&terms, at, narrow), "{path} {at}");
                    }
                    assert!(is_near(found, &each, 1.0 / 128.0), "{path} {at}");
                }
                for rank in 1..ranks as usize {
                    assert_eq!(reduce.c(rank).unwrap().download().unwrap(), first);
                }
                cases += 1;
            }
        }
    }
    println!("law ranks.sums_by_nccl: {cases} cases");
}

/// A sum that lacks a term, or has one twice, is not near.
#[test]
fn what_is_near_is_no_other_sum() {
    let terms = [1.0, -0.5, 0.25];
    assert!(is_near(0.75, &terms, 1.0 / 128.0));
    for wrong in [0.5, 1.75, 1.0, 0.25] {
        assert!(!is_near(wrong, &terms, 1.0 / 128.0));
    }
}

#[test]
fn ranks_without_access_take_nccl_and_say_so() {
    let [_, apart] = both(2, 0);
    let gather = problem(Overlap::GatherProduct, 2);
    let call = RankProduct::<bf16, f32>::new(&apart, gather, &with(None, None)).unwrap();
    let said = call.explain().unwrap();
    assert!(PATHS.contains(&call.path()));
    let last = said.lines().last().unwrap();
    let first = format!("by {}, predicted ", call.path());
    let why = " us, since rank 0, the simulator of sm_90a, has no access to the memory of rank 1, the simulator of sm_90a: without \
         it no copy goes from one to the other";
    assert!(last.starts_with(&first) && last.ends_with(why), "{last}");
    for path in [RankPath::PeerMemory, RankPath::OneAfterAnother] {
        let refused = RankProduct::<bf16, f32>::new(&apart, gather, &with(Some(path), None));
        let error = refused.unwrap_err();
        assert!(error.is_ranks_refused());
        assert_eq!(
            error.to_string(),
            "rank 0, the simulator of sm_90a, has no access to the memory of rank 1, the simulator of sm_90a: without it no \
             copy goes from one to the other"
        );
    }
    let scatter = problem(Overlap::ProductScatter, 2);
    let call = RankProduct::<bf16, f32>::new(&apart, scatter, &with(None, None)).unwrap();
    assert!(PATHS.contains(&call.path()));
    let reduce = problem(Overlap::ProductReduce, 2);
    let call = RankProduct::<bf16, f32>::new(&apart, reduce, &with(None, None)).unwrap();
    assert!(PATHS.contains(&call.path()));
}

#[test]
fn every_refusal_of_a_reduction_verbatim() {
    let two = together(&device(0), 2);
    let right = problem(Overlap::ProductReduce, 2);
    let said = |problem: RankProblem, path, pieces| {
        let call = RankProduct::<bf16, f32>::new(&two, problem, &with(path, pieces));
        call.unwrap_err().to_string()
    };
    assert_eq!(
        said(RankProblem { m: 47, ..right }, None, None),
        "C: mode 0 of extent 47 over 2 ranks: the extent must be a multiple, and 48 is the next one"
    );
    assert_eq!(
        said(
            RankProblem {
                ranks: 3,
                m: 72,
                k: 72,
                ..right
            },
            None,
            None
        ),
        "product and all-reduce, 72 x 40 x 72 over 3 ranks, and there are 2 devices: each rank has one"
    );
    assert_eq!(
        said(right, None, Some(5)),
        "5 pieces of a chunk of 24 rows: the number must divide the rows, and be at most 64"
    );
    for path in [RankPath::OneAfterAnother, RankPath::NcclAfter] {
        assert_eq!(
            said(right, Some(path), Some(2)),
            "2 pieces of a chunk of 24 rows: the number must divide the rows, and be at most 1"
        );
    }
    let call = RankProduct::<bf16, f32>::new(&two, right, &with(None, None)).unwrap();
    assert_eq!(
        call.c(2).unwrap_err().to_string(),
        "rank 2 of 2 ranks, numbered from 0"
    );
    // Ampere's kernel stores into no slots of others and tells no copies, but copies go after it.
    let ampere = together(&Device::simulator(Arch::Sm80), 2);
    let by_memory = with(Some(RankPath::PeerMemory), None);
    let refused = RankProduct::<bf16, f32>::new(&ampere, right, &by_memory);
    let refused = refused.unwrap_err().to_string();
    let start = "no kernel takes the product on the path peer memory: ";
    assert!(
        refused.starts_with(start) && refused.contains("sm_90a"),
        "{refused}"
    );
    let call = RankProduct::<bf16, f32>::new(&ampere, right, &with(None, None)).unwrap();
    assert_eq!(call.path(), RankPath::OneAfterAnother);
    let said = call.explain().unwrap();
    assert!(said.ends_with(&format!("since {refused}")), "{said}");
    for path in [RankPath::OneAfterAnother, RankPath::NcclAfter] {
        let options = with(Some(path), None);
        let mut call = RankProduct::<bf16, f32>::new(&ampere, right, &options).unwrap();
        call.run().unwrap();
        call.wait(LONG).unwrap();
        assert_eq!(call.c(1).unwrap().download().unwrap(), [0.0; 48 * 40]);
    }
}
