//! Products over devices by NCCL: what collectives gather, and what ends a product whose communicators fail.

use colex_gpu::Flags;
use colex_gpu::ranks::{RankDevices, RankOptions, RankPath, RankProduct};
use colex_sched::Overlap;
use half::bf16;

use super::collectives::{told, with_nccl};
use super::ranks::{LONG, SHORT, devices, problem};
use super::sentence;

const PATHS: [RankPath; 2] = [RankPath::NcclAfter, RankPath::NcclInChunks];

fn by(path: RankPath) -> RankOptions {
    RankOptions {
        path: Some(path),
        ..RankOptions::default()
    }
}

/// Without access to each other's memory, in every round.
#[test]
fn law_nccl_gathers_all_parts_of_a() {
    let act = || {
        let mut cases = 0;
        for ranks in 2..=4 {
            for path in PATHS {
                let together = RankDevices::new(&devices(ranks)).unwrap();
                let options = RankOptions {
                    pieces: Some(2),
                    ..by(path)
                };
                let problem = problem(Overlap::GatherProduct, ranks as i64);
                let mut call =
                    RankProduct::<bf16, bf16>::new(&together, problem, &options).unwrap();
                for round in 1..=2 {
                    let number = |rank: usize, row: usize| {
                        bf16::from_f32((100 * round + 10 * rank + row) as f32)
                    };
                    let columns = 16 * ranks;
                    for rank in 0..ranks {
                        let rows = (0..8).flat_map(|row| vec![number(rank, row); columns]);
                        let rows: Vec<bf16> = rows.collect();
                        call.a(rank).unwrap().write(&rows).unwrap();
                    }
                    call.run().unwrap();
                    call.wait(LONG).unwrap();
                    let places = call.gathered_layout().unwrap();
                    for rank in 0..ranks {
                        let found = call.gathered(rank).unwrap().download().unwrap();
                        // The first modes of the layout are the rows, piece after piece.
                        for row in 0..8 * ranks {
                            for column in [0, columns - 1] {
                                let index = row + 8 * ranks * column;
                                let place = places.at(index as i64).unwrap() as usize;
                                assert_eq!(found[place], number(row / 8, row % 8));
                            }
                        }
                        cases += 1;
                    }
                }
            }
        }
        format!("{cases}")
    };
    let test = "ranks_nccl::law_nccl_gathers_all_parts_of_a";
    let cases = with_nccl(test, "apart:4", act);
    assert_eq!(cases, "36");
    println!("law nccl_gathers_all_parts_of_a: {cases} cases");
}

/// The collectives in their order, without the places of their buffers.
#[test]
fn collectives_are_of_all_ranks_in_groups() {
    let act = || {
        let together = RankDevices::new(&devices(2)).unwrap();
        let mut scatter = RankProduct::<bf16, bf16, f32>::new(
            &together,
            problem(Overlap::ProductScatter, 2),
            &RankOptions {
                pieces: Some(2),
                ..by(RankPath::NcclInChunks)
            },
        )
        .unwrap();
        scatter.run().unwrap();
        scatter.wait(LONG).unwrap();
        let mut reduce = RankProduct::<bf16, bf16>::new(
            &together,
            problem(Overlap::ProductReduce, 2),
            &by(RankPath::NcclAfter),
        )
        .unwrap();
        reduce.run().unwrap();
        reduce.wait(LONG).unwrap();
        let begun = told();
        let calls = begun.split("; ").map(|line| {
            let (what, _) = line.split_once(',').unwrap();
            let (_, of) = line.split_once(" of rank ").unwrap();
            format!("{what} of {of}")
        });
        calls.collect::<Vec<_>>().join("; ")
    };
    assert_eq!(
        with_nccl(
            "ranks_nccl::collectives_are_of_all_ranks_in_groups",
            "peers:2",
            act
        ),
        "scatter 64 of type 7 by 0 of 0, groups 1; scatter 64 of type 7 by 0 of 1, groups 1; scatter 64 of type 7 by 0 of 0, \
         groups 1; scatter 64 of type 7 by 0 of 1, groups 1; reduce 256 of type 9 by 0 of 0, groups 1; reduce 256 of type 9 \
         by 0 of 1, groups 1"
    );
}

#[test]
fn without_peer_access_and_without_nccl() {
    let act = || {
        let together = RankDevices::new(&devices(2)).unwrap();
        let problem = problem(Overlap::GatherProduct, 2);
        let of = |options| sentence(RankProduct::<bf16, bf16>::new(&together, problem, &options));
        format!(
            "{}; {}",
            of(RankOptions::default()),
            of(by(RankPath::NcclAfter))
        )
    };
    assert_eq!(
        with_nccl(
            "ranks_nccl::without_peer_access_and_without_nccl",
            "apart:2/old",
            act
        ),
        "rank 0, Fake, has no access to the memory of rank 1, Fake, and there are no collectives of NCCL: NCCL 2.12.5; NCCL \
         2.14.0 or newer is needed; NCCL 2.12.5; NCCL 2.14.0 or newer is needed"
    );
}

/// The stream of a rank is held up: its collectives never begin, and those of the others wait for it.
#[test]
fn a_rank_that_never_comes_is_named_and_the_others_end() {
    let act = || {
        let mut sentences = Vec::new();
        for path in PATHS {
            let all = devices(2);
            let together = RankDevices::new(&all).unwrap();
            let gather = problem(Overlap::GatherProduct, 2);
            let mut call = RankProduct::<bf16, bf16>::new(&together, gather, &by(path)).unwrap();
            let never = Flags::new(&all[1], 1).unwrap();
            never.wait(&all[1], 0, 1).unwrap();
            call.run().unwrap();
            let error = call.wait(SHORT).unwrap_err();
            assert_eq!(error.lost_rank(), Some(1));
            // The other rank's collective has ended.
            all[0].synchronize_within(LONG).unwrap();
            sentences.push(error.to_string());
            assert!(call.run().unwrap_err().is_ranks_refused());
            never.release(LONG).unwrap();
            all[1].synchronize_within(LONG).unwrap();
            // Other products get new communicators.
            let mut call = RankProduct::<bf16, bf16>::new(&together, gather, &by(path)).unwrap();
            call.run().unwrap();
            call.wait(LONG).unwrap();
        }
        assert_eq!(told().matches("abort").count(), 4);
        sentences.join("; ")
    };
    let one = "rank 1 has not ended within 20ms: the communicators are aborted, and what was computed is of no use";
    assert_eq!(
        with_nccl(
            "ranks_nccl::a_rank_that_never_comes_is_named_and_the_others_end",
            "peers:2",
            act
        ),
        [one, one].join("; ")
    );
}

#[test]
fn a_communicator_that_refuses_ends_the_product() {
    let act = || {
        let together = RankDevices::new(&devices(2)).unwrap();
        let problem = problem(Overlap::ProductReduce, 2);
        let options = by(RankPath::NcclAfter);
        let new = || RankProduct::<bf16, bf16>::new(&together, problem, &options).unwrap();
        let (mut first, mut other) = (new(), new());
        let error = first.run().unwrap_err().to_string();
        let (start, _) = error.split_once(", ").unwrap();
        format!(
            "{start}; {}; {}; {}",
            sentence(first.run()),
            sentence(other.run()).replace(&error, ".."),
            told()
        )
    };
    assert_eq!(
        with_nccl(
            "ranks_nccl::a_communicator_that_refuses_ends_the_product",
            "peers:2/refuses",
            act
        ),
        "ncclAllReduce returned invalid argument (4): rank 0: reduce 256 of type 9 by 0; the product has failed before: its \
         flags are released, and a new one has new flags; the collectives have failed before: ..; abort 0; abort 1"
    );
}

#[test]
fn an_error_in_the_background_is_that_of_the_wait() {
    let act = || {
        let together = RankDevices::new(&devices(2)).unwrap();
        let problem = problem(Overlap::ProductScatter, 2);
        let options = by(RankPath::NcclAfter);
        let mut call = RankProduct::<bf16, bf16>::new(&together, problem, &options).unwrap();
        let ran = sentence(call.run());
        format!("{ran}; {}", sentence(call.wait(LONG)))
    };
    assert_eq!(
        with_nccl(
            "ranks_nccl::an_error_in_the_background_is_that_of_the_wait",
            "peers:2/breaks",
            act
        ),
        "no error; ncclCommGetAsyncError returned remote process exited or there was a network error (6): rank 0: a rank is \
         gone"
    );
}

#[test]
fn a_collective_that_never_begins_ends_the_run() {
    let act = || {
        let together = RankDevices::new(&devices(2)).unwrap();
        let problem = problem(Overlap::GatherProduct, 2);
        let options = RankOptions {
            nccl_within: Some(SHORT),
            ..by(RankPath::NcclInChunks)
        };
        let mut call = RankProduct::<bf16, bf16>::new(&together, problem, &options).unwrap();
        sentence(call.run())
    };
    assert_eq!(
        with_nccl(
            "ranks_nccl::a_collective_that_never_begins_ends_the_run",
            "peers:2/slow",
            act
        ),
        "a collective of the communicator on Fake was not done after 20ms"
    );
}

/// It is found before a communicator is made.
#[test]
fn another_number_of_ranks() {
    let act = || {
        let together = RankDevices::new(&devices(2)).unwrap();
        let mut sentences = Vec::new();
        for path in PATHS {
            let three = problem(Overlap::GatherProduct, 3);
            let refused = RankProduct::<bf16, bf16>::new(&together, three, &by(path));
            sentences.push(sentence(refused));
        }
        sentences.dedup();
        assert_eq!(told(), "");
        sentences.join("; ")
    };
    assert_eq!(
        with_nccl("ranks_nccl::another_number_of_ranks", "peers:2", act),
        "all-gather and product, 24 x 24 x 48 over 3 ranks, and there are 2 devices: each rank has one"
    );
}
