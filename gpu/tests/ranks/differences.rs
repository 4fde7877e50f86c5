//! Everything in which the product of one rank can differ from those of the others: all ranks name it at the first call, by every way of the
//! data, and go on together.

use std::time::Instant;

use colex_atom::Arch;
use colex_gpu::Device;
use colex_gpu::kernels::GemmElement;
use colex_gpu::ranks::{
    ProcessProduct, RankOptions, RankPath, RankProblem, RankProcess, RankSends, RankSums,
};
use colex_sched::Overlap;
use half::{bf16, f16};

use super::OVERLAPS;
use super::host::{LONG, with};
use super::process::{each, said};

const RANKS: i64 = 3;

const PATHS: [RankPath; 4] = [
    RankPath::PeerMemory,
    RankPath::OneAfterAnother,
    RankPath::NcclAfter,
    RankPath::NcclInChunks,
];

/// The types of A and B, of C and of the terms.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Types {
    Usual,
    OtherFactors,
    OtherC,
    OtherTerms,
}

/// What a rank asks for.
#[derive(Clone, Copy, Debug)]
struct Asked {
    problem: RankProblem,
    options: RankOptions,
    types: Types,
}

impl Asked {
    fn begin(&self, process: &RankProcess) -> String {
        fn new<T: GemmElement, C: GemmElement, S: GemmElement>(
            process: &RankProcess,
            asked: &Asked,
        ) -> String {
            said(ProcessProduct::<T, C, S>::new(
                process,
                asked.problem,
                &asked.options,
            ))
        }
        match self.types {
            Types::Usual => new::<bf16, bf16, bf16>(process, self),
            Types::OtherFactors => new::<f16, bf16, bf16>(process, self),
            Types::OtherC => new::<bf16, f16, bf16>(process, self),
            Types::OtherTerms => new::<bf16, bf16, f32>(process, self),
        }
    }
}

/// What the last rank asks for in place of what all others do, by its name.
fn differences(usual: Asked) -> Vec<(&'static str, Asked)> {
    let RankProblem { overlap, .. } = usual.problem;
    let path = usual.options.path.expect("the path is chosen");
    let of_problem = |change: fn(&mut RankProblem)| {
        let mut problem = usual.problem;
        change(&mut problem);
        Asked { problem, ..usual }
    };
    let of_options = |change: fn(&mut RankOptions)| {
        let mut options = usual.options;
        change(&mut options);
        Asked { options, ..usual }
    };
    let of_types = |types| Asked { types, ..usual };
    let other_path = PATHS[(PATHS.iter().position(|one| *one == path).unwrap() + 1) % 4];
    let is_sum = overlap != Overlap::GatherProduct;
    let mut all = vec![
        ("m", of_problem(|problem| problem.m += 24 * RANKS)),
        ("n", of_problem(|problem| problem.n += 24 * RANKS)),
        ("k", of_problem(|problem| problem.k += 24 * RANKS)),
        (
            "an m that is not divided",
            of_problem(|problem| problem.m += 1),
        ),
        ("the ranks", of_problem(|problem| problem.ranks += 1)),
        (
            "the collective",
            of_problem(|problem| {
                problem.overlap = match problem.overlap {
                    Overlap::GatherProduct => Overlap::ProductScatter,
                    Overlap::ProductScatter => Overlap::ProductReduce,
                    Overlap::ProductReduce => Overlap::GatherProduct,
                };
            }),
        ),
        (
            "the path",
            Asked {
                options: with(Some(other_path), usual.options.pieces),
                ..usual
            },
        ),
        ("the factors", of_types(Types::OtherFactors)),
        ("C", of_types(Types::OtherC)),
        ("the pieces", of_options(|options| options.pieces = Some(2))),
    ];
    if is_sum {
        all.push(("the terms", of_types(Types::OtherTerms)));
    }
    if is_sum && path == RankPath::PeerMemory {
        let by = |sends, sums| Asked {
            options: RankOptions {
                sends,
                sums,
                ..usual.options
            },
            ..usual
        };
        all.push(("what sends", by(Some(RankSends::Kernel), None)));
        all.push(("terms that are added", by(Some(RankSends::Reduction), None)));
        all.push(("what adds", by(None, Some(RankSums::Epilogue))));
        all.push(("early slots", by(None, Some(RankSums::Early(1)))));
    }
    all
}

#[test]
fn law_a_difference_of_one_rank_is_named_by_all_at_the_first_call() {
    let device = Device::simulator(Arch::Sm90a);
    let (mut cases, mut missed) = (0, Vec::new());
    for overlap in OVERLAPS {
        for path in PATHS {
            let usual = Asked {
                problem: RankProblem {
                    overlap,
                    ranks: RANKS,
                    m: 24 * RANKS,
                    n: 24 * RANKS,
                    k: 24 * RANKS,
                },
                options: with(Some(path), Some(1)),
                types: Types::Usual,
            };
            let all = differences(usual);
            let names: Vec<_> = all.iter().map(|(name, _)| *name).collect();
            let act = move |process: RankProcess| {
                let is_other = process.rank() as i64 == RANKS - 1;
                let start = Instant::now();
                let said = all.iter().map(|(_, other)| {
                    let asked = if is_other { other } else { &usual };
                    asked.begin(&process)
                });
                let said: Vec<_> = said.collect();
                assert!(start.elapsed() < LONG);
                // The ranks go on together.
                assert_eq!(usual.begin(&process), "no error");
                process.leave().unwrap();
                said
            };
            let found = each(&device, RANKS as usize, LONG, act);
            for (at, name) in names.into_iter().enumerate() {
                let [first, second, other] = [0, 1, 2].map(|rank| &found[rank][at]);
                let differs = first.starts_with("rank 2 asks for ") && other == first;
                let refused = *first == format!("rank 2 has no part of the product: {other}");
                if !(first == second && (differs || refused)) {
                    missed.push(format!("{overlap}, {path}, {name}: {first}; {other}"));
                }
                cases += 1;
            }
        }
    }
    println!("law ranks.differences: {cases} cases");
    assert!(missed.is_empty(), "{}", missed.join("\n"));
}
