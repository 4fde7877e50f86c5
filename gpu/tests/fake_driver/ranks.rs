//! Products over devices: what is copied and flagged, and what a rank that does not come ends in.

use std::time::{Duration, Instant};

use colex_gpu::ranks::{
    RankDevices, RankOptions, RankPath, RankProblem, RankProduct, RankSends, RankSums,
};
use colex_gpu::{Device, Flags};
use colex_sched::{ChunkWork, Overlap};
use half::bf16;

use super::processes::{memory, totals};
use super::{said, sentence};

/// A time that no wait of these tests reaches, and one that several do.
pub(super) const LONG: Duration = Duration::from_secs(60);
pub(super) const SHORT: Duration = Duration::from_millis(20);

pub(super) fn devices(count: usize) -> Vec<Device> {
    let open = |ordinal| Device::gpu(ordinal).expect("the scene has the device");
    (0..count).map(open).collect()
}

/// A product whose matrices are small, so that the driver remembers them.
pub(super) fn problem(overlap: Overlap, ranks: i64) -> RankProblem {
    RankProblem {
        overlap,
        ranks,
        m: 8 * ranks,
        n: 8 * ranks,
        k: 16 * ranks,
    }
}

#[test]
fn law_every_rank_gathers_all_parts_of_a() {
    let act = || {
        let mut cases = 0;
        for ranks in 2..=4 {
            for path in [RankPath::PeerMemory, RankPath::OneAfterAnother] {
                let together = RankDevices::new(&devices(ranks)).unwrap();
                let options = RankOptions {
                    path: Some(path),
                    pieces: Some(2),
                    ..RankOptions::default()
                };
                let problem = problem(Overlap::GatherProduct, ranks as i64);
                let mut call =
                    RankProduct::<bf16, bf16>::new(&together, problem, &options).unwrap();
                for round in 1..=2 {
                    let part = |rank: usize| {
                        vec![bf16::from_f32((10 * round + rank) as f32); 8 * 16 * ranks]
                    };
                    for rank in 0..ranks {
                        call.a(rank).unwrap().write(&part(rank)).unwrap();
                    }
                    call.run().unwrap();
                    call.wait(LONG).unwrap();
                    let all: Vec<bf16> = (0..ranks).flat_map(part).collect();
                    for rank in 0..ranks {
                        assert_eq!(call.gathered(rank).unwrap().download().unwrap(), all);
                        cases += 1;
                    }
                }
            }
        }
        format!("{cases}")
    };
    let test = "ranks::law_every_rank_gathers_all_parts_of_a";
    let cases = said(test, "peers:4", act);
    assert_eq!(cases, "36");
    println!("law every_rank_gathers_all_parts_of_a: {cases} cases");
}

/// Copies are pushed: on the path without overlap, the product of a rank waits for the copies of all ranks, for every rank that may be late. On
/// the path of peer memory it does not, since its kernel waits for flags.
#[test]
fn law_a_product_behind_the_copies_waits_for_those_of_all_ranks() {
    let act = || {
        let ranks = 3;
        let together = RankDevices::new(&devices(ranks)).unwrap();
        let early = || totals().get("launches_before_copies").copied();
        let mut said = Vec::new();
        for path in [RankPath::OneAfterAnother, RankPath::PeerMemory] {
            let options = RankOptions {
                path: Some(path),
                ..RankOptions::default()
            };
            let problem = problem(Overlap::GatherProduct, ranks as i64);
            let mut call = RankProduct::<bf16, bf16>::new(&together, problem, &options).unwrap();
            for _ in 0..2 {
                call.run().unwrap();
                call.wait(LONG).unwrap();
            }
            said.push(format!("{path}: {}", early().unwrap_or(0)));
        }
        said.join("; ")
    };
    let test = "ranks::law_a_product_behind_the_copies_waits_for_those_of_all_ranks";
    for late in 0..3 {
        // In each of two rounds, the products of the two other ranks begin before the late copies.
        assert_eq!(
            said(test, &format!("late:3:{late}"), act),
            "copies, one after another with the product: 0; peer memory: 4",
            "{late}"
        );
    }
    println!("law a_product_behind_the_copies_waits_for_those_of_all_ranks: 6 cases");
}

/// A kernel that adds slots in the owner's memory runs behind the copies that bring them, for every rank that may be late. A product of the own chunk
/// does not wait in its stream: its kernel waits for flags.
#[test]
fn law_a_kernel_that_adds_slots_waits_for_their_copies() {
    let act = || {
        let together = RankDevices::new(&devices(4)).unwrap();
        let before = || {
            let count = totals().get("launches_before_copies").copied();
            count.unwrap_or(0)
        };
        let mut said = Vec::new();
        for sums in [
            RankSums::Kernel,
            RankSums::Epilogue,
            RankSums::Early(1),
            RankSums::Early(2),
        ] {
            let options = RankOptions {
                sums: Some(sums),
                ..RankOptions::default()
            };
            let problem = problem(Overlap::ProductScatter, 4);
            let mut call = RankProduct::<bf16, bf16>::new(&together, problem, &options).unwrap();
            let start = before();
            for _ in 0..2 {
                call.run().unwrap();
                call.wait(LONG).unwrap();
            }
            said.push(format!("{sums:?} {}", before() - start));
        }
        said.join(", ")
    };
    let test = "ranks::law_a_kernel_that_adds_slots_waits_for_their_copies";
    for late in 0..4 {
        // In each of two rounds, the products of the own chunks of the three other ranks; and the sums of those that take the late
        // slot as an early one, for which the product before them waits.
        assert_eq!(
            said(test, &format!("late:4:{late}"), act),
            "Kernel 0, Epilogue 6, Early(1) 8, Early(2) 10",
            "{late}"
        );
    }
    println!("law a_kernel_that_adds_slots_waits_for_their_copies: 16 cases");
}

/// The stream of a rank is held up by work that never ends: the others are done, or wait for it.
#[test]
fn a_rank_that_never_comes_is_named() {
    let act = || {
        let mut sentences = Vec::new();
        for late in 0..3 {
            let start = Instant::now();
            // Streams of their own: what waits for the rank in one product holds up the others in the next one.
            let streams = || -> Vec<Device> {
                let all = devices(3).into_iter();
                all.map(|device| device.on_new_stream().unwrap()).collect()
            };
            let hold = |all: &[Device]| {
                let never = Flags::new(&all[late], 1).unwrap();
                never.wait(&all[late], 0, 1).unwrap();
                never
            };
            let options = RankOptions::default();
            let all = streams();
            let together = RankDevices::new(&all).unwrap();
            let gather = problem(Overlap::GatherProduct, 3);
            let mut gather = RankProduct::<bf16, bf16>::new(&together, gather, &options).unwrap();
            let never = hold(&all);
            gather.run().unwrap();
            let error = gather.wait(SHORT).unwrap_err();
            assert_eq!(error.lost_rank(), Some(late));
            sentences.push(error.to_string());
            assert_eq!(
                sentence(gather.run()),
                "the product has failed before: its flags are released, and a new one has new flags"
            );
            never.release(LONG).unwrap();
            all[late].synchronize_within(LONG).unwrap();
            let all = streams();
            let together = RankDevices::new(&all).unwrap();
            let scatter = problem(Overlap::ProductScatter, 3);
            let mut scatter =
                RankProduct::<bf16, bf16, f32>::new(&together, scatter, &options).unwrap();
            let never = hold(&all);
            scatter.run().unwrap();
            assert_eq!(scatter.wait(SHORT).unwrap_err().lost_rank(), Some(late));
            assert!(scatter.run().is_err());
            assert!(start.elapsed() < LONG);
            never.release(LONG).unwrap();
            all[late].synchronize_within(LONG).unwrap();
        }
        sentences.join("; ")
    };
    assert_eq!(
        said("ranks::a_rank_that_never_comes_is_named", "peers:3", act),
        [0, 1, 2]
            .map(|rank| format!(
                "rank {rank} has not ended within 20ms: its flags are released, and what was computed is of no use"
            ))
            .join("; ")
    );
}

/// A caller that returns the error of a wait drops the product while the stream of the lost rank is still held up. The driver frees no memory of a
/// device whose streams never end, so the product keeps it.
#[test]
fn a_product_that_lost_a_rank_is_dropped_without_a_hang() {
    let act = || {
        let mut freed = Vec::new();
        for overlap in [
            Overlap::GatherProduct,
            Overlap::ProductScatter,
            Overlap::ProductReduce,
        ] {
            for is_held in [true, false] {
                let all: Vec<Device> = devices(3)
                    .iter()
                    .map(|device| device.on_new_stream().unwrap())
                    .collect();
                let together = RankDevices::new(&all).unwrap();
                let problem = problem(overlap, 3);
                let before = memory();
                let mut product = RankProduct::<bf16, bf16, f32>::new(
                    &together,
                    problem,
                    &RankOptions::default(),
                )
                .unwrap();
                let allocated = memory()[2] - before[2];
                let never = Flags::new(&all[1], 1).unwrap();
                never.wait(&all[1], 0, 1).unwrap();
                product.run().unwrap();
                let error = product.wait(SHORT).unwrap_err();
                assert_eq!(error.lost_rank(), Some(1), "{error}");
                if !is_held {
                    never.release(LONG).unwrap();
                }
                let start = Instant::now();
                drop(product);
                assert!(start.elapsed() < Duration::from_secs(10));
                let is_freed = memory()[3] - before[3] == allocated;
                freed.push(format!("{is_held} {is_freed}"));
                never.release(LONG).unwrap();
                all[1].synchronize_within(LONG).unwrap();
            }
        }
        freed.join(", ")
    };
    let test = "ranks::a_product_that_lost_a_rank_is_dropped_without_a_hang";
    assert_eq!(
        said(test, "peers:3", act),
        ["true false, false true"; 3].join(", ")
    );
}

/// The record of a run has each copy, product and sum of each rank once, and the copies of a rank come after each other.
#[test]
fn law_a_timeline_has_every_step_of_every_rank() {
    let act = || {
        let ranks = 3;
        let together = RankDevices::new(&devices(ranks)).unwrap();
        let mut cases = 0;
        for (overlap, path, sends) in [
            (Overlap::GatherProduct, RankPath::PeerMemory, None),
            (Overlap::GatherProduct, RankPath::OneAfterAnother, None),
            (Overlap::ProductScatter, RankPath::OneAfterAnother, None),
            (
                Overlap::ProductScatter,
                RankPath::PeerMemory,
                Some(RankSends::Kernel),
            ),
            (
                Overlap::ProductScatter,
                RankPath::PeerMemory,
                Some(RankSends::Reduction),
            ),
            (
                Overlap::ProductReduce,
                RankPath::PeerMemory,
                Some(RankSends::Reduction),
            ),
        ] {
            let options = RankOptions {
                path: Some(path),
                sends,
                pieces: Some(1),
                ..RankOptions::default()
            };
            let problem = problem(overlap, ranks as i64);
            let spans = match overlap {
                Overlap::GatherProduct => {
                    RankProduct::<bf16, bf16>::new(&together, problem, &options)
                        .unwrap()
                        .timeline(LONG)
                }
                Overlap::ProductScatter => {
                    RankProduct::<bf16, bf16, f32>::new(&together, problem, &options)
                        .unwrap()
                        .timeline(LONG)
                }
                Overlap::ProductReduce => {
                    RankProduct::<bf16, bf16, f32>::new(&together, problem, &options)
                        .unwrap()
                        .timeline(LONG)
                }
            }
            .unwrap();
            for rank in 0..ranks as i64 {
                let of_rank: Vec<_> = spans.iter().filter(|span| span.rank == rank).collect();
                let count = |is: fn(&ChunkWork) -> bool| {
                    of_rank.iter().filter(|span| is(&span.work)).count()
                };
                let sends = count(|work| matches!(work, ChunkWork::Send { .. }));
                let copied = match (overlap, path) {
                    (Overlap::ProductScatter, RankPath::PeerMemory) => 0,
                    _ => ranks - 1,
                };
                let adds = usize::from(overlap != Overlap::GatherProduct);
                assert_eq!(sends, copied, "{problem} {path}");
                assert_eq!(count(|work| *work == ChunkWork::Products), 1);
                assert_eq!(count(|work| *work == ChunkWork::Add), adds);
                assert_eq!(of_rank.len(), sends + 1 + adds);
                let is_send = |work: &ChunkWork| matches!(work, ChunkWork::Send { .. });
                let copies: Vec<_> = of_rank.iter().filter(|span| is_send(&span.work)).collect();
                assert!(copies.windows(2).all(|pair| pair[0].end <= pair[1].start));
                assert!(of_rank.iter().all(|span| span.start < span.end));
                cases += 1;
            }
        }
        format!("{cases}")
    };
    let test = "ranks::law_a_timeline_has_every_step_of_every_rank";
    let cases = said(test, "peers:3", act);
    assert_eq!(cases, "18");
    println!("law a_timeline_has_every_step_of_every_rank: {cases} cases");
}

#[test]
fn devices_without_peer_access_are_named() {
    let act = || {
        let together = RankDevices::new(&devices(2)).unwrap();
        let options = RankOptions {
            path: Some(RankPath::PeerMemory),
            ..RankOptions::default()
        };
        let problem = problem(Overlap::GatherProduct, 2);
        sentence(RankProduct::<bf16, bf16>::new(&together, problem, &options))
    };
    assert_eq!(
        said(
            "ranks::devices_without_peer_access_are_named",
            "apart:2",
            act
        ),
        "rank 0, Fake, has no access to the memory of rank 1, Fake: without it no copy goes from one to the other"
    );
}

#[test]
fn links_without_atomic_operations_are_named() {
    let act = || {
        let together = RankDevices::new(&devices(2)).unwrap();
        let new = |overlap, sends| {
            let options = RankOptions {
                sends: Some(sends),
                ..RankOptions::default()
            };
            let problem = problem(overlap, 2);
            match overlap {
                Overlap::ProductScatter => sentence(RankProduct::<bf16, bf16, f32>::new(
                    &together, problem, &options,
                )),
                _ => sentence(RankProduct::<bf16, bf16, f32>::new(
                    &together, problem, &options,
                )),
            }
        };
        [
            new(Overlap::ProductScatter, RankSends::Kernel),
            new(Overlap::ProductScatter, RankSends::Reduction),
            new(Overlap::ProductReduce, RankSends::Reduction),
        ]
        .join("; ")
    };
    let refused = "rank 0, Fake, does no atomic operations in the memory of rank 1, Fake: kernels that add to its sums need them, and \
                   slots do not";
    assert_eq!(
        said(
            "ranks::links_without_atomic_operations_are_named",
            "weak:2",
            act
        ),
        format!("no error; {refused}; {refused}")
    );
}

#[test]
fn without_flags_of_streams_the_copies_come_first() {
    let act = || {
        let all = devices(1);
        let together = RankDevices::new(&[all[0].clone(), all[0].clone()]).unwrap();
        let problem = problem(Overlap::GatherProduct, 2);
        let call =
            RankProduct::<bf16, bf16>::new(&together, problem, &RankOptions::default()).unwrap();
        let peers = RankOptions {
            path: Some(RankPath::PeerMemory),
            ..RankOptions::default()
        };
        let refused = RankProduct::<bf16, bf16>::new(&together, problem, &peers);
        format!("{}; {}", call.path(), sentence(refused))
    };
    assert_eq!(
        said(
            "ranks::without_flags_of_streams_the_copies_come_first",
            "memops:801",
            act
        ),
        "copies, one after another with the product; the path peer memory is not taken here: the driver's streams set no flags \
         on these devices"
    );
}
