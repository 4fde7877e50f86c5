//! What `new` accepts, `run` computes right: drawn shapes, types, paths, ways and ranks, in one process and in processes.

use std::cell::Cell;

use colex_atom::Arch;
use colex_gpu::kernels::GemmElement;
use colex_gpu::ranks::{
    ProcessProduct, RankDevices, RankOptions, RankPath, RankProblem, RankProcess, RankProduct,
    RankSends, RankSums,
};
use colex_gpu::{Device, Error};
use colex_sched::Overlap;
use half::{bf16, f16};

use super::OVERLAPS;
use super::host::{LONG, device};
use super::process::each_on;

/// Numbers that look drawn.
struct Drawn(Cell<u64>);

impl Drawn {
    fn below(&self, count: usize) -> usize {
        let next = self
            .0
            .get()
            .wrapping_mul(0x5851_f42d_4c95_7f2d)
            .wrapping_add(0x1405_7b7e_f767_814f);
        self.0.set(next);
        (next >> 33) as usize % count
    }

    fn of<T: Copy>(&self, all: &[T]) -> T {
        all[self.below(all.len())]
    }
}

/// Small whole numbers, whose sums every type holds.
fn whole<T: GemmElement>(count: i64, seed: i64) -> Vec<T> {
    let number = |at: i64| (at * 7 + at / 5 + seed * 3).rem_euclid(3) - 1;
    (0..count)
        .map(|at| T::from_f64(number(at) as f64))
        .collect()
}

/// The parts of A, B and C of all ranks.
type Parts<T> = [Vec<Vec<T>>; 2];

fn parts<T: GemmElement>(problem: &RankProblem) -> Parts<T> {
    let RankProblem { m, n, k, ranks, .. } = *problem;
    [(m * k, 1), (n * k, 2)].map(|(count, seed)| {
        let each = |rank| whole(count / ranks, seed + 10 * rank);
        (0..ranks).map(each).collect()
    })
}

/// C of a rank, element by element.
fn expected<T: GemmElement>(problem: &RankProblem, [a, b]: &Parts<T>, rank: usize) -> Vec<f64> {
    let RankProblem {
        m,
        n,
        k,
        ranks,
        overlap,
    } = *problem;
    let count = ranks as usize;
    let gathers = overlap == Overlap::GatherProduct;
    let (rows, columns, k) = if gathers {
        (m, n / ranks, k)
    } else {
        (m, n, k / ranks)
    };
    let [rows, columns, k] = [rows, columns, k].map(|extent| extent as usize);
    let product =
        |a: &[T], b: &[T]| -> f64 { a.iter().zip(b).map(|(x, y)| x.to_f64() * y.to_f64()).sum() };
    let row = |of: &[T], at: usize| of[at * k..][..k].to_vec();
    let all: Vec<f64> = (0..rows * columns)
        .map(|at| {
            let (i, j) = (at / columns, at % columns);
            if gathers {
                let each = rows / count;
                product(&row(&a[i / each], i % each), &row(&b[rank], j))
            } else {
                let terms = (0..count).map(|of| product(&row(&a[of], i), &row(&b[of], j)));
                terms.sum()
            }
        })
        .collect();
    match overlap {
        Overlap::ProductScatter => {
            let each = all.len() / count;
            all[rank * each..][..each].to_vec()
        }
        Overlap::GatherProduct | Overlap::ProductReduce => all,
    }
}

/// One drawn product, on devices for each rank.
struct Case {
    problem: RankProblem,
    options: RankOptions,
    devices: Vec<Device>,
    by_processes: bool,
}

impl Case {
    fn name(&self) -> String {
        let Case {
            problem,
            options,
            devices,
            by_processes,
        } = self;
        let RankOptions {
            path,
            pieces,
            sends,
            sums,
            ..
        } = options;
        let arch = devices[0].arch();
        format!(
            "{problem}, {path:?} {pieces:?} {sends:?} {sums:?}, {arch}, processes: {by_processes}"
        )
    }

    /// C of all ranks, if `new` accepts the product.
    fn found<T: GemmElement, C: GemmElement, S: GemmElement>(
        &self,
        parts: &Parts<T>,
    ) -> Result<Vec<Vec<C>>, Error> {
        let Case {
            problem,
            options,
            devices,
            ..
        } = self;
        if !self.by_processes {
            let together = RankDevices::new(devices).unwrap();
            let mut call = RankProduct::<T, C, S>::new(&together, *problem, options)?;
            for (rank, (a, b)) in parts[0].iter().zip(&parts[1]).enumerate() {
                call.a(rank).unwrap().write(a).unwrap();
                call.b(rank).unwrap().write(b).unwrap();
            }
            let name = self.name();
            call.explain().unwrap_or_else(|why| panic!("{name}: {why}"));
            for _ in 0..2 {
                call.run().unwrap_or_else(|why| panic!("{name}: {why}"));
                call.wait(LONG)
                    .unwrap_or_else(|why| panic!("{name}: {why}"));
            }
            let c = |rank| call.c(rank).unwrap().download().unwrap();
            return Ok((0..devices.len()).map(c).collect());
        }
        let (problem, options, parts, name) = (*problem, *options, parts.clone(), self.name());
        let act = move |process: RankProcess| -> Result<Vec<C>, Error> {
            let mut call = ProcessProduct::<T, C, S>::new(&process, problem, &options)?;
            call.a().unwrap().write(&parts[0][process.rank()]).unwrap();
            call.b().write(&parts[1][process.rank()]).unwrap();
            call.explain().unwrap_or_else(|why| panic!("{name}: {why}"));
            for _ in 0..2 {
                call.run().unwrap_or_else(|why| panic!("{name}: {why}"));
                call.wait(LONG)
                    .unwrap_or_else(|why| panic!("{name}: {why}"));
            }
            Ok(call.c().download().unwrap())
        };
        each_on(devices, LONG, act).into_iter().collect()
    }

    /// Whether `new` accepts the product, whose numbers are then right.
    fn is_right<T: GemmElement, C: GemmElement, S: GemmElement>(&self) -> Result<(), Error> {
        let parts = parts::<T>(&self.problem);
        let found = self.found::<T, C, S>(&parts)?;
        for (rank, found) in found.iter().enumerate() {
            let found: Vec<f64> = found.iter().map(|x| x.to_f64()).collect();
            assert_eq!(
                found,
                expected(&self.problem, &parts, rank),
                "{}",
                self.name()
            );
        }
        Ok(())
    }
}

fn accepted(by_processes: bool, cases: usize) {
    let drawn = Drawn(Cell::new(25 + u64::from(by_processes)));
    let (mut taken, mut refused) = (0, 0);
    for number in 0..cases {
        let (overlap, ranks) = (OVERLAPS[number % 3], [1, 2, 3, 4, 2, 3][number / 3 % 6]);
        let extent = || drawn.of(&[1, 3, 5, 8, 12, 16, 20, 24, 30, 33, 40, 64]);
        let [m, n, k] = [extent(), extent(), extent()];
        let is_gather = overlap == Overlap::GatherProduct;
        let problem = RankProblem {
            overlap,
            ranks,
            m: m * ranks,
            n: if is_gather { n * ranks } else { n },
            k: if is_gather { k } else { k * ranks },
        };
        let path = drawn.of(&[
            None,
            Some(RankPath::PeerMemory),
            Some(RankPath::OneAfterAnother),
            Some(RankPath::NcclAfter),
            Some(RankPath::NcclInChunks),
        ]);
        let early = RankSums::Early(drawn.below(3) as i64);
        let plain = drawn.below(2) == 0;
        let options = RankOptions {
            path,
            pieces: drawn
                .of(&[None, None, Some(1), Some(2), Some(3)])
                .filter(|_| !plain),
            sends: drawn
                .of(&[
                    None,
                    Some(RankSends::Engines),
                    Some(RankSends::Kernel),
                    Some(RankSends::Reduction),
                ])
                .filter(|_| !plain),
            sums: drawn
                .of(&[
                    None,
                    Some(RankSums::Kernel),
                    Some(RankSums::Epilogue),
                    Some(early),
                ])
                .filter(|_| !plain),
            ..RankOptions::default()
        };
        let arch = drawn.of(&[Arch::Sm90a, Arch::Sm90a, Arch::Sm90a, Arch::Sm80]);
        let one = || match arch {
            Arch::Sm90a => device(number as u64),
            _ => Device::simulator(arch),
        };
        let is_apart = drawn.below(4) == 0;
        let devices = if is_apart {
            (0..ranks).map(|_| one()).collect()
        } else {
            vec![one(); ranks as usize]
        };
        let case = Case {
            problem,
            options,
            devices,
            by_processes,
        };
        let found = match drawn.below(6) {
            0 => case.is_right::<bf16, bf16, bf16>(),
            1 => case.is_right::<bf16, f32, f32>(),
            2 => case.is_right::<bf16, bf16, f32>(),
            3 => case.is_right::<f16, f16, f16>(),
            4 => case.is_right::<bf16, f32, bf16>(),
            _ => case.is_right::<f32, f32, f32>(),
        };
        match found {
            Ok(()) => taken += 1,
            Err(why) => {
                let is_free = path.is_none() && plain;
                assert!(!is_free, "{}: {why}", case.name());
                refused += 1;
            }
        }
    }
    assert!(taken > cases / 3, "{taken} of {cases}");
    let of = if by_processes {
        "processes"
    } else {
        "one process"
    };
    println!("law ranks.accepted_is_right in {of}: {taken} cases, {refused} refused");
}

/// How many cases are drawn: `usual`, times the number in `COLEX_SOAK`, which `cargo xtask soak` sets.
fn draws(usual: usize) -> usize {
    let factor = std::env::var("COLEX_SOAK").ok();
    let factor = factor.and_then(|text| text.parse().ok());
    usual * factor.unwrap_or(1).max(1)
}

#[test]
fn law_what_is_accepted_is_computed_right_in_one_process() {
    accepted(false, draws(160));
}

#[test]
fn law_what_is_accepted_is_computed_right_in_processes() {
    accepted(true, draws(80));
}

/// What a sum whose rows are no whole vectors is refused with by peer memory, and which path it takes by itself.
#[test]
fn rows_that_are_no_whole_vectors_take_another_path() {
    let together = RankDevices::new(&vec![device(0); 2]).unwrap();
    let of = |overlap, n| RankProblem {
        overlap,
        ranks: 2,
        m: 64,
        n,
        k: 64,
    };
    let by = |path| RankOptions {
        path,
        ..RankOptions::default()
    };
    let sentence = |n: i64, ty: &str, multiple: i64, next: i64| {
        format!(
            "N is {n}, and on the path peer memory a kernel stores rows of whole vectors of 16 bytes: N must be a multiple of {multiple} \
             elements of {ty}, and {next} is the next one; the paths `copies, one after another with the product`, `NCCL in chunks`, \
             `NCCL, one after another with the product` take any N"
        )
    };
    for overlap in [Overlap::ProductScatter, Overlap::ProductReduce] {
        let new = RankProduct::<bf16, f32>::new;
        let refused = new(&together, of(overlap, 30), &by(Some(RankPath::PeerMemory)));
        assert_eq!(refused.unwrap_err().to_string(), sentence(30, "f32", 4, 32));
        let call = new(&together, of(overlap, 30), &by(None)).unwrap();
        assert_eq!(call.path(), RankPath::OneAfterAnother);
        let said = call.explain().unwrap();
        assert!(
            said.ends_with(&format!(" us, since {}", sentence(30, "f32", 4, 32))),
            "{said}"
        );
        // Slots of the other type decide.
        let new = RankProduct::<bf16, f32, bf16>::new;
        let refused = new(&together, of(overlap, 28), &by(Some(RankPath::PeerMemory)));
        assert_eq!(
            refused.unwrap_err().to_string(),
            sentence(28, "bf16", 8, 32)
        );
        let call = new(&together, of(overlap, 32), &by(None)).unwrap();
        assert_eq!(call.path(), RankPath::PeerMemory);
        // Additions by the kernel are of this path alone.
        let adds = RankOptions {
            sends: Some(RankSends::Reduction),
            ..by(None)
        };
        let refused = new(&together, of(overlap, 28), &adds);
        assert_eq!(
            refused.unwrap_err().to_string(),
            sentence(28, "bf16", 8, 32)
        );
    }
}

/// Whether a product takes options on a path, by their description.
fn takes(
    (overlap, ranks, rows): (Overlap, i64, i64),
    options: &RankOptions,
    by_processes: bool,
) -> bool {
    let RankOptions {
        path,
        pieces,
        sends,
        sums,
        ..
    } = *options;
    let path = path.expect("a path");
    let divides = |most: i64| pieces.is_none_or(|of| (1..=most).contains(&of) && rows % of == 0);
    if overlap == Overlap::GatherProduct {
        return sends.is_none() && sums.is_none() && divides(64);
    }
    let (usual_sends, usual_sums) = (
        sends.is_none_or(|of| of == RankSends::Engines),
        sums.is_none_or(|of| of == RankSums::Kernel),
    );
    match path {
        RankPath::NcclAfter => sends.is_none() && sums.is_none() && divides(1),
        RankPath::NcclInChunks => sends.is_none() && sums.is_none() && divides(64),
        RankPath::OneAfterAnother => usual_sends && usual_sums && divides(1),
        RankPath::PeerMemory => {
            let is_reduce = overlap == Overlap::ProductReduce;
            let usual = match pieces {
                Some(2..) if is_reduce && !by_processes => RankSends::Kernel,
                _ => RankSends::Engines,
            };
            let sends = sends.unwrap_or(usual);
            let most = match sends {
                RankSends::Kernel | RankSends::Reduction if is_reduce && !by_processes => 64,
                _ => 1,
            };
            let adds = match sums {
                None | Some(RankSums::Kernel) => true,
                Some(RankSums::Epilogue) => sends != RankSends::Reduction,
                Some(RankSums::Early(early)) => {
                    !is_reduce && sends == RankSends::Engines && (1..ranks - 1).contains(&early)
                }
            };
            adds && divides(most)
        }
        _ => false,
    }
}

/// No option is ignored: each is taken, or refused with a sentence, for every collective on every path.
#[test]
fn law_every_option_is_taken_or_refused() {
    let mut cases = 0;
    let (ranks, rows) = (3, 24);
    for overlap in OVERLAPS {
        let problem = RankProblem {
            overlap,
            ranks,
            m: rows * ranks,
            n: 16 * ranks,
            k: 16 * ranks,
        };
        let sums = [
            RankSums::Kernel,
            RankSums::Epilogue,
            RankSums::Early(1),
            RankSums::Early(2),
        ];
        let sends = [RankSends::Engines, RankSends::Kernel, RankSends::Reduction];
        for path in [
            RankPath::PeerMemory,
            RankPath::OneAfterAnother,
            RankPath::NcclInChunks,
            RankPath::NcclAfter,
        ] {
            let mut all = Vec::new();
            for sends in sends.into_iter().map(Some).chain([None]) {
                for sums in sums.into_iter().map(Some).chain([None]) {
                    for pieces in [None, Some(0), Some(1), Some(2), Some(5), Some(65)] {
                        all.push(RankOptions {
                            path: Some(path),
                            pieces,
                            sends,
                            sums,
                            ..RankOptions::default()
                        });
                    }
                }
            }
            let device = device(0);
            let together = RankDevices::new(&vec![device.clone(); ranks as usize]).unwrap();
            let check = move |options: &RankOptions, new: Result<(), Error>, by_processes: bool| {
                let expected = takes((overlap, ranks, rows), options, by_processes);
                let name = format!("{problem} {options:?}, processes: {by_processes}");
                match new {
                    Ok(()) => assert!(expected, "{name} is taken"),
                    Err(why) => {
                        assert!(!expected, "{name}: {why}");
                        assert!(why.is_ranks_refused(), "{name}: {why}");
                    }
                }
            };
            for options in &all {
                let new = RankProduct::<bf16, bf16>::new(&together, problem, options).map(drop);
                check(options, new, false);
                cases += 1;
            }
            let act = move |process: RankProcess| {
                for options in &all {
                    let new = ProcessProduct::<bf16, bf16>::new(&process, problem, options);
                    check(options, new.map(drop), true);
                }
                all.len()
            };
            cases += each_on(&vec![device; ranks as usize], LONG, act)[0];
        }
    }
    println!("law ranks.every_option: {cases} cases");
}

#[test]
fn options_of_terms_are_refused_verbatim() {
    let together = RankDevices::new(&vec![device(0); 2]).unwrap();
    let said = |overlap, options: RankOptions| {
        let problem = RankProblem {
            overlap,
            ranks: 2,
            m: 32,
            n: 32,
            k: 32,
        };
        let new = RankProduct::<bf16, bf16>::new(&together, problem, &options);
        new.unwrap_err().to_string()
    };
    let usual = RankOptions::default();
    let sends = RankOptions {
        sends: Some(RankSends::Engines),
        ..usual
    };
    let sums = RankOptions {
        sums: Some(RankSums::Kernel),
        ..usual
    };
    let of = |option| {
        format!("all-gather and product has no terms: `{option}` is an option of a sum over ranks")
    };
    assert_eq!(said(Overlap::GatherProduct, sends), of("sends"));
    assert_eq!(said(Overlap::GatherProduct, sums), of("sums"));
    let by_nccl = RankOptions {
        path: Some(RankPath::NcclInChunks),
        ..sums
    };
    assert_eq!(
        said(Overlap::ProductReduce, by_nccl),
        "the path NCCL in chunks is not taken here: its collectives bring and add the terms: `sends` and `sums` are options of the path of \
         peer memory"
    );
}
