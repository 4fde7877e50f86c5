//! Products over ranks with a device each, as processes would compute them by NCCL: no memory of another rank is opened.
//!
//! The ranks are threads, since the fake NCCL is one of this process.

use std::net::TcpListener;
use std::thread;
use std::time::{Duration, Instant};

use colex_gpu::ranks::{Meeting, ProcessProduct, RankOptions, RankPath, RankProblem, RankProcess};
use colex_gpu::{Device, Error, Flags};
use colex_sched::Overlap;
use half::bf16;

use super::collectives::{told, with_nccl};
use super::processes::{Change, memory, proxy};
use super::ranks::{LONG, problem};
use super::sentence;

/// A time that several waits of these tests reach.
const SHORT: Duration = Duration::from_millis(400);

const PATHS: [RankPath; 2] = [RankPath::NcclAfter, RankPath::NcclInChunks];

fn by(path: RankPath) -> RankOptions {
    RankOptions {
        path: Some(path),
        ..RankOptions::default()
    }
}

/// What each rank says, in a thread of its own with its device.
fn each<T: Send + 'static>(
    ranks: usize,
    within: Duration,
    act: impl Fn(RankProcess) -> T + Clone + Send + 'static,
) -> Vec<T> {
    let meetings = Meeting::local(ranks, within).unwrap().into_iter();
    let start = |meeting: Meeting| {
        let act = act.clone();
        thread::spawn(move || {
            let device = Device::gpu(meeting.rank()).expect("the scene has the device");
            act(RankProcess::join(meeting, &device).unwrap())
        })
    };
    let threads: Vec<_> = meetings.map(start).collect();
    let join = |thread: thread::JoinHandle<T>| thread.join().unwrap();
    threads.into_iter().map(join).collect()
}

type Call = ProcessProduct<bf16, bf16>;

fn new(process: &RankProcess, overlap: Overlap, options: &RankOptions) -> Result<Call, Error> {
    let problem = problem(overlap, process.ranks() as i64);
    ProcessProduct::new(process, problem, options)
}

fn gather(process: &RankProcess, options: &RankOptions) -> Call {
    new(process, Overlap::GatherProduct, options).unwrap()
}

/// All parts arrive in every round without access to each other's memory, and none is opened.
#[test]
fn law_every_rank_gathers_the_parts_of_other_processes() {
    let act = || {
        let mut cases = 0;
        for ranks in 2..=4 {
            for path in PATHS {
                let act = move |process: RankProcess| {
                    let options = RankOptions {
                        pieces: Some(2),
                        ..by(path)
                    };
                    let mut call = gather(&process, &options);
                    let number = |round: usize, rank: usize, row: usize| {
                        bf16::from_f32((100 * round + 10 * rank + row) as f32)
                    };
                    let columns = 16 * ranks;
                    for round in 1..=2 {
                        let of_row = |row| vec![number(round, process.rank(), row); columns];
                        let own: Vec<bf16> = (0..8).flat_map(of_row).collect();
                        call.a().unwrap().write(&own).unwrap();
                        call.run().unwrap();
                        call.wait(LONG).unwrap();
                        let places = call.gathered_layout().unwrap();
                        let found = call.gathered().unwrap().download().unwrap();
                        // The first modes of the layout are the rows, piece after piece.
                        for row in 0..8 * ranks {
                            for column in [0, columns - 1] {
                                let index = row + 8 * ranks * column;
                                let place = places.at(index as i64).unwrap() as usize;
                                assert_eq!(found[place], number(round, row / 8, row % 8));
                            }
                        }
                    }
                    drop(call);
                    process.leave().unwrap();
                };
                cases += 2 * each(ranks, LONG, act).len();
            }
        }
        let [opened, closed, allocated, freed] = memory();
        assert_eq!([opened, closed], [0, 0]);
        assert_eq!(allocated, freed);
        format!("{cases}, aborted {}", told().matches("abort").count())
    };
    let test = "processes_nccl::law_every_rank_gathers_the_parts_of_other_processes";
    assert_eq!(with_nccl(test, "apart:4", act), "36, aborted 0");
    println!("law processes_gather_by_nccl: 36 cases");
}

/// The collectives of one rank, without the places of their buffers and the ranks of other threads: those of one process, and the mark
/// behind each round.
#[test]
fn collectives_of_a_rank_are_those_of_one_process() {
    let act = || {
        let act = |process: RankProcess| {
            let options = RankOptions {
                pieces: Some(2),
                ..by(RankPath::NcclInChunks)
            };
            let scatter = problem(Overlap::ProductScatter, 2);
            let new = ProcessProduct::<bf16, bf16, f32>::new;
            let mut scatter = new(&process, scatter, &options).unwrap();
            let reduce = problem(Overlap::ProductReduce, 2);
            let new = ProcessProduct::<bf16, bf16>::new;
            let mut reduce = new(&process, reduce, &by(RankPath::NcclAfter)).unwrap();
            scatter.run().unwrap();
            reduce.run().unwrap();
            scatter.wait(LONG).unwrap();
            reduce.wait(LONG).unwrap();
            drop((scatter, reduce));
            process.leave().unwrap();
        };
        each(2, LONG, act);
        let told = told();
        let of_rank = |rank: &str| {
            let lines = told.split("; ").filter_map(|line| {
                let (call, of) = line.split_once(" of rank ")?;
                let (what, _) = call.split_once(',')?;
                of.starts_with(rank).then(|| what.to_string())
            });
            lines.collect::<Vec<_>>().join("; ")
        };
        assert_eq!(of_rank("0"), of_rank("1"));
        let ends = ["abort", "finalize", "destroy"].map(|name| told.matches(name).count());
        format!("{}; {ends:?}", of_rank("0"))
    };
    assert_eq!(
        with_nccl(
            "processes_nccl::collectives_of_a_rank_are_those_of_one_process",
            "peers:2",
            act
        ),
        "scatter 64 of type 7 by 0; scatter 64 of type 7 by 0; gather 8 of type 3; reduce 256 of type 9 by 0; gather 8 of type 3; [0, 2, 2]"
    );
}

/// Without access to each other's memory all ranks take NCCL by themselves, and say why. Paths by memory are refused.
#[test]
fn ranks_without_access_take_nccl() {
    let act = || {
        let act = |process: RankProcess| {
            let call = gather(&process, &RankOptions::default());
            let said = call.explain().unwrap();
            let (_, why) = said.split_once(", since ").unwrap();
            drop(call);
            let memory = new(&process, Overlap::ProductScatter, &by(RankPath::PeerMemory));
            let refused = sentence(memory);
            process.leave().unwrap();
            [why.to_string(), refused]
        };
        let [first, second] = each(2, LONG, act).try_into().unwrap();
        assert_eq!(first, second);
        assert_eq!(first[0], first[1]);
        first[0].clone()
    };
    assert_eq!(
        with_nccl(
            "processes_nccl::ranks_without_access_take_nccl",
            "apart:2",
            act
        ),
        "rank 0 has no access to the memory of the others: device 0 (Fake) cannot access the memory of device 1 (Fake): the driver has no \
         peer access between them"
    );
}

/// The messages of rank 1 name another host. Its devices have access to each other, of which no rank makes use.
#[test]
fn a_rank_of_another_host_takes_nccl() {
    let act = || {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let said = |meeting: Result<Meeting, Error>| {
            let meeting = meeting.unwrap();
            let device = Device::gpu(meeting.rank()).unwrap();
            let process = RankProcess::join(meeting, &device).unwrap();
            let mut call = gather(&process, &RankOptions::default());
            assert!(PATHS.contains(&call.path()));
            call.run().unwrap();
            call.wait(LONG).unwrap();
            let said = call.explain().unwrap();
            drop(call);
            let refused = PATHS_BY_MEMORY
                .map(|path| sentence(new(&process, Overlap::ProductReduce, &by(path))));
            process.leave().unwrap();
            let (_, why) = said.split_once(", since ").unwrap();
            assert_eq!(refused, [why, why]);
            why.to_string()
        };
        let first = thread::spawn(move || said(Meeting::listen(listener, 2, LONG)));
        let second = thread::spawn(move || {
            let host = std::fs::read("/proc/sys/kernel/random/boot_id").unwrap();
            let change = Change {
                of: host,
                at: 0,
                bits: 1,
                both_ways: false,
            };
            said(Meeting::join(proxy(address, change), 1, 2, LONG))
        });
        let (first, second) = (first.join().unwrap(), second.join().unwrap());
        assert_eq!(first, second);
        let [opened, ..] = memory();
        format!("{first}; opened {opened}")
    };
    assert_eq!(
        with_nccl(
            "processes_nccl::a_rank_of_another_host_takes_nccl",
            "peers:2",
            act
        ),
        "rank 1 is on another host than rank 0: none has access to the memory of the other; opened 0"
    );
}

const PATHS_BY_MEMORY: [RankPath; 2] = [RankPath::PeerMemory, RankPath::OneAfterAnother];

/// NCCL that is too old, by choice and where it is the only way.
#[test]
fn an_old_nccl_is_found_at_the_first_call() {
    let act = || {
        let act = |process: RankProcess| {
            let asked = new(&process, Overlap::ProductReduce, &by(RankPath::NcclAfter));
            let only = new(&process, Overlap::ProductReduce, &RankOptions::default());
            format!("{}; {}", sentence(asked), sentence(only))
        };
        let [first, second] = each(2, LONG, act).try_into().unwrap();
        assert_eq!(first, second);
        assert_eq!(told(), "");
        first
    };
    let old = "NCCL 2.12.5; NCCL 2.14.0 or newer is needed";
    assert_eq!(
        with_nccl(
            "processes_nccl::an_old_nccl_is_found_at_the_first_call",
            "apart:2/old",
            act
        ),
        format!(
            "{old}; rank 0 has no access to the memory of the others: device 0 (Fake) cannot access the memory of device 1 (Fake): the \
             driver has no peer access between them, and there are no collectives of NCCL: {old}"
        )
    );
}

/// The stream of a rank is held up: its collectives never begin, and those of the others wait for it. All end, and all name it.
#[test]
fn a_rank_whose_stream_never_comes_is_named_and_all_end() {
    let act = || {
        for lost in 0..3 {
            for path in PATHS {
                let act = move |process: RankProcess| {
                    let mut call = gather(&process, &by(path));
                    call.run().unwrap();
                    call.wait(LONG).unwrap();
                    process.exchange(b"").unwrap();
                    let device = process.device();
                    let never = Flags::new(device, 1).unwrap();
                    if process.rank() == lost {
                        never.wait(device, 0, 1).unwrap();
                    }
                    call.run().unwrap();
                    call.run().unwrap();
                    // The rank lives, and lets its stream go on once the others wait.
                    let error = call.wait(SHORT).unwrap_err();
                    assert_eq!(error.lost_rank(), Some(lost));
                    never.release(LONG).unwrap();
                    device.synchronize_within(LONG).unwrap();
                    assert!(call.run().unwrap_err().is_ranks_refused());
                    error.to_string()
                };
                let late = format!(
                    "rank {lost} did not come to a collective within {SHORT:?}: the communicator of this rank is aborted, and what it \
                     computed is of no use"
                );
                assert_eq!(each(3, LONG, act), [&late; 3].map(Clone::clone));
            }
        }
        format!("aborted {}", told().matches("abort").count())
    };
    assert_eq!(
        with_nccl(
            "processes_nccl::a_rank_whose_stream_never_comes_is_named_and_all_end",
            "peers:3",
            act
        ),
        "aborted 18"
    );
}

/// A rank ends between two rounds: the meeting knows it, and all others name it, though the first of them to abort ends the collectives
/// of its neighbours.
#[test]
fn law_a_process_that_dies_is_named_by_all_others() {
    let act = || {
        let (mut cases, mut partial) = (0, 0);
        for ranks in 2..=4 {
            for dies in 0..ranks {
                for path in PATHS {
                    let act = move |process: RankProcess| {
                        let mut call = gather(&process, &by(path));
                        call.run().unwrap();
                        call.wait(LONG).unwrap();
                        if process.rank() == dies {
                            return None;
                        }
                        let start = Instant::now();
                        call.run().unwrap();
                        let error = call.wait(SHORT).unwrap_err();
                        assert!(start.elapsed() < LONG);
                        assert_eq!(error.lost_rank(), Some(dies), "{error}");
                        process.device().synchronize_within(LONG).unwrap();
                        Some(error.to_string())
                    };
                    let said: Vec<_> = each(ranks, LONG, act).into_iter().flatten().collect();
                    assert_eq!(said.len(), ranks - 1);
                    let end = "the communicator of this rank is aborted, and what it computed is of no use";
                    let gone = format!("rank {dies} is gone: its connection has ended, and ");
                    let late = format!("{gone}the collectives were not done within 400ms: {end}");
                    let part = format!("{gone}a collective ended without the part of rank ");
                    let told = format!(
                        "has given up, because rank {dies} was late or gone: what was computed since the last wait is of no use"
                    );
                    for said in said {
                        let is_part = said.starts_with(&part) && said.ends_with(end);
                        partial += usize::from(is_part);
                        assert!(is_part || said == late || said.ends_with(&told), "{said}");
                        cases += 1;
                    }
                }
            }
        }
        // Otherwise no wait has met the end of a collective that brought nothing.
        assert!(partial > 0);
        cases.to_string()
    };
    let test = "processes_nccl::law_a_process_that_dies_is_named_by_all_others";
    assert_eq!(with_nccl(test, "peers:4", act), "40");
    println!("law processes_that_die_by_nccl: 40 cases");
}

/// A rank that lives but does not run: the meeting names it after its time.
#[test]
fn a_rank_that_does_not_run_is_named() {
    let act = || {
        let act = |process: RankProcess| {
            let mut call = gather(&process, &by(RankPath::NcclAfter));
            if process.rank() == 1 {
                thread::sleep(3 * SHORT);
                // It has begun no round, and hears that the other one has given up.
                return sentence(process.exchange(b""));
            }
            call.run().unwrap();
            sentence(call.wait(SHORT))
        };
        each(2, LONG, act).join("; ")
    };
    assert_eq!(
        with_nccl(
            "processes_nccl::a_rank_that_does_not_run_is_named",
            "peers:2",
            act
        ),
        "rank 1 did not come to a collective within 400ms: the communicator of this rank is aborted, and what it computed is of no use; \
         rank 0 has given up, because rank 1 was late or gone: what was computed since the last wait is of no use"
    );
}

#[test]
fn an_error_in_the_background_is_that_of_the_wait() {
    let act = || {
        let act = |process: RankProcess| {
            let options = by(RankPath::NcclAfter);
            let mut call = new(&process, Overlap::ProductScatter, &options).unwrap();
            let ran = sentence(call.run());
            let waited = sentence(call.wait(LONG));
            format!("{ran}; {waited}").replace(&format!("rank {}: a", process.rank()), "rank: a")
        };
        let [first, second] = each(2, LONG, act).try_into().unwrap();
        assert_eq!(
            first.contains("a rank is gone"),
            second.contains("a rank is gone")
        );
        first.split(": rank").next().unwrap().to_string()
    };
    assert_eq!(
        with_nccl(
            "processes_nccl::an_error_in_the_background_is_that_of_the_wait",
            "peers:2/breaks",
            act
        ),
        "no error; ncclCommGetAsyncError returned remote process exited or there was a network error (6)"
    );
}

#[test]
fn a_collective_that_never_begins_ends_the_run() {
    let act = || {
        let act = |process: RankProcess| {
            let options = RankOptions {
                nccl_within: Some(SHORT),
                ..by(RankPath::NcclInChunks)
            };
            sentence(gather(&process, &options).run())
        };
        each(2, LONG, act).join("; ")
    };
    let late = "rank 0 has not ended within 400ms: the communicators are aborted, and what was computed is of no use";
    assert_eq!(
        with_nccl(
            "processes_nccl::a_collective_that_never_begins_ends_the_run",
            "peers:2/slow",
            act
        ),
        [late, late].join("; ")
    );
}

/// A rank that has agreed to the product does not make its communicator: it is this test, which says the messages.
#[test]
fn a_rank_without_communicator_is_named() {
    let act = || {
        let mut meetings = Meeting::local(2, LONG).unwrap().into_iter();
        let (first, mut other) = (meetings.next().unwrap(), meetings.next().unwrap());
        let first = thread::spawn(move || {
            let process = RankProcess::join(first, &super::device()).unwrap();
            let options = RankOptions {
                nccl_within: Some(SHORT),
                ..by(RankPath::NcclAfter)
            };
            sentence(new(&process, Overlap::GatherProduct, &options))
        });
        // Its messages are those of rank 0, and it ends before it has a communicator.
        let join = other.exchange(&said_like(1)).unwrap();
        assert_eq!(join.len(), 2);
        let begins = first_message(&mut other);
        assert!(
            begins.windows(128).any(|id| id == [1; 128]),
            "the identifier"
        );
        drop(other);
        first.join().unwrap()
    };
    assert_eq!(
        with_nccl(
            "processes_nccl::a_rank_without_communicator_is_named",
            "peers:2",
            act
        ),
        "rank 1 is gone: its connection has ended"
    );
}

/// The pieces of a message, each behind its length.
fn joined(fields: &[&[u8]]) -> Vec<u8> {
    let one = |field: &&[u8]| [&(field.len() as u64).to_le_bytes()[..], field].concat();
    fields.iter().flat_map(one).collect()
}

/// What rank 1 says that joins the others.
fn said_like(step: u8) -> Vec<u8> {
    let arch = super::device().arch().to_string();
    let fields = joined(&[&[1], arch.as_bytes(), b"Fake", b"", &[0]]);
    joined(&[&[step], &[0; 8], &[0; 8], &[], &fields])
}

/// Begins the product that rank 0 begins, and returns what that says.
fn first_message(meeting: &mut Meeting) -> Vec<u8> {
    let RankProblem { m, n, k, .. } = problem(Overlap::GatherProduct, 2);
    let words = format!(
        "all-gather and product, {m} x {n} x {k} over 2 ranks by {}, chunks in 1 piece, bf16 to bf16",
        RankPath::NcclAfter
    );
    let fields = joined(&[&[1], words.as_bytes(), &[], &[]]);
    let message = joined(&[&[2], &[0; 8], &[0; 8], &[], &fields]);
    meeting.exchange(&message).unwrap().swap_remove(0)
}

/// A rank whose driver refuses a collective tells the others.
#[test]
fn a_rank_whose_collective_is_refused_says_so() {
    let act = || {
        let act = |process: RankProcess| {
            let options = by(RankPath::NcclAfter);
            let mut call = new(&process, Overlap::ProductReduce, &options).unwrap();
            let error = sentence(call.run());
            let (start, _) = error.split_once(": rank").unwrap();
            format!("{start}; {}", sentence(call.run()))
        };
        let [first, second] = each(2, LONG, act).try_into().unwrap();
        assert_eq!(first, second);
        first
    };
    assert_eq!(
        with_nccl(
            "processes_nccl::a_rank_whose_collective_is_refused_says_so",
            "peers:2/refuses",
            act
        ),
        "ncclAllReduce returned invalid argument (4); the products of this rank have failed before, because of a failure of its own: their \
         flags are released"
    );
}

/// An abort of communicators ends only when all streams of the device have. Those that wait for flags of a lost rank are released
/// meanwhile.
#[test]
fn a_rank_that_is_lost_by_memory_is_named_where_communicators_are_open() {
    let act = || {
        let act = |process: RankProcess| {
            let mut by_nccl = gather(&process, &by(RankPath::NcclAfter));
            let mut by_memory = gather(&process, &by(RankPath::PeerMemory));
            for call in [&mut by_nccl, &mut by_memory] {
                call.run().unwrap();
                call.wait(LONG).unwrap();
            }
            if process.rank() == 2 {
                return;
            }
            by_memory.run().unwrap();
            let start = Instant::now();
            let error = by_memory.wait(SHORT).unwrap_err();
            assert_eq!(error.lost_rank(), Some(2), "{error}");
            assert!(start.elapsed() < LONG / 2, "{:?}", start.elapsed());
            assert!(by_nccl.run().unwrap_err().is_ranks_refused());
        };
        let ended = each(3, LONG, act).len();
        format!("{ended}, aborted {}", told().matches("abort").count())
    };
    let test =
        "processes_nccl::a_rank_that_is_lost_by_memory_is_named_where_communicators_are_open";
    assert_eq!(with_nccl(test, "peers:3", act), "3, aborted 2");
}

/// Two products of one size or of two, of which one rank runs a round in the other order; then, in half of the cases, all run one more of
/// each in one order before they wait.
#[test]
fn law_rounds_in_another_order_are_named_by_all_ranks() {
    let act = || {
        let mut cases = 0;
        for ranks in 2..=4 {
            for swaps in 0..ranks {
                for overlap in [
                    Overlap::GatherProduct,
                    Overlap::ProductScatter,
                    Overlap::ProductReduce,
                ] {
                    for drawn in 0..4 {
                        let (is_equal, goes_on) = (drawn % 2 == 0, drawn / 2 == 1);
                        let act = move |process: RankProcess| {
                            let first = problem(overlap, ranks as i64);
                            let times = if is_equal { 1 } else { 2 };
                            let second = RankProblem {
                                n: first.n * times,
                                k: first.k * times,
                                ..first
                            };
                            let options = by(PATHS[(swaps + drawn) % 2]);
                            let new = |problem| Call::new(&process, problem, &options).unwrap();
                            let mut calls = [new(first), new(second)];
                            calls[0].run().unwrap();
                            calls[0].wait(LONG).unwrap();
                            let swapped = process.rank() == swaps;
                            let order = if swapped { [1, 0] } else { [0, 1] };
                            for at in order {
                                calls[at].run().unwrap();
                            }
                            if goes_on {
                                for call in &mut calls {
                                    call.run().unwrap();
                                }
                            }
                            let error = calls[0].wait(SHORT).unwrap_err();
                            assert_eq!(error.lost_rank(), None, "{error}");
                            assert!(calls[1].wait(SHORT).is_err());
                            error.to_string()
                        };
                        for (rank, said) in each(ranks, LONG, act).into_iter().enumerate() {
                            let (of, there, here) = if rank == swaps {
                                (usize::from(swaps == 0), "2 of product 1", "1 of product 2")
                            } else {
                                (swaps, "1 of product 2", "2 of product 1")
                            };
                            assert_eq!(
                                said,
                                format!(
                                    "rank {of} ran round {there} where this rank ran round {here}: all ranks run their rounds in one order"
                                ),
                                "{rank} of {ranks}, {overlap}, {is_equal}, {goes_on}"
                            );
                            cases += 1;
                        }
                    }
                }
            }
        }
        cases.to_string()
    };
    let test = "processes_nccl::law_rounds_in_another_order_are_named_by_all_ranks";
    assert_eq!(with_nccl(test, "apart:4", act), "348");
    println!("law processes_rounds_in_another_order_by_nccl: 348 cases");
}

/// A rank that asks for something else hears of the other order too.
#[test]
fn a_rank_in_another_call_hears_of_the_other_order() {
    let act = || {
        let act = |process: RankProcess| {
            let options = by(RankPath::NcclAfter);
            let mut calls = [gather(&process, &options), gather(&process, &options)];
            let rank = process.rank();
            calls[rank].run().unwrap();
            if rank == 0 {
                sentence(calls[0].wait(LONG))
            } else {
                sentence(process.exchange(b""))
            }
        };
        each(2, LONG, act).join("; ")
    };
    assert_eq!(
        with_nccl(
            "processes_nccl::a_rank_in_another_call_hears_of_the_other_order",
            "apart:2",
            act
        ),
        "rank 1 ran round 1 of product 2 where this rank ran round 1 of product 1: all ranks run their rounds in one order; rank 0 ran \
         round 1 of product 1 where this rank ran round 1 of product 2: all ranks run their rounds in one order"
    );
}
