//! Meetings of ranks: what all get, and what ends when a rank is missing, gone or wrong. Each ends within its time.

use std::fmt::Display;
use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use colex_gpu::Error;
use colex_gpu::ranks::{Meeting, RankProblem};
use colex_sched::Overlap;

/// A time that no rank of these tests needs, and one that a missing rank costs.
const LONG: Duration = Duration::from_secs(60);
const SHORT: Duration = Duration::from_millis(800);

/// Whether the ranks are threads or connected by TCP.
#[derive(Clone, Copy, Debug, PartialEq)]
enum By {
    Threads,
    Tcp,
}

fn listener() -> (TcpListener, SocketAddr) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    (listener, address)
}

/// What every rank says, each in a thread of its own.
fn each<T: Send + 'static>(
    by: By,
    ranks: usize,
    within: Duration,
    act: impl Fn(Meeting) -> T + Clone + Send + 'static,
) -> Vec<T> {
    let threads: Vec<_> = match by {
        By::Threads => {
            let meetings = Meeting::local(ranks, within).unwrap().into_iter();
            let start = |meeting| {
                let act = act.clone();
                thread::spawn(move || act(meeting))
            };
            meetings.map(start).collect()
        }
        By::Tcp => {
            let (listener, address) = listener();
            let mut listener = Some(listener);
            let start = |rank| {
                let (act, listener) = (act.clone(), listener.take());
                thread::spawn(move || {
                    act(match listener {
                        Some(listener) => Meeting::listen(listener, ranks, within).unwrap(),
                        None => Meeting::join(address, rank, ranks, within).unwrap(),
                    })
                })
            };
            (0..ranks).map(start).collect()
        }
    };
    threads
        .into_iter()
        .map(|thread| thread.join().unwrap())
        .collect()
}

fn sentence<T, E: Display>(result: Result<T, E>) -> String {
    match result {
        Ok(_) => "no error".to_string(),
        Err(error) => error.to_string(),
    }
}

/// Bytes of a rank in a round, of any length.
fn bytes(rank: usize, round: usize) -> Vec<u8> {
    let length = (rank * 37 + round * 101) % 300;
    (0..length)
        .map(|at| (at * 7 + rank + round) as u8)
        .collect()
}

#[test]
fn law_all_ranks_get_the_bytes_of_every_rank() {
    let mut cases = 0;
    for by in [By::Threads, By::Tcp] {
        for ranks in [1, 2, 3, 4, 8] {
            let act = move |mut meeting: Meeting| {
                let rank = meeting.rank();
                for round in 0..20 {
                    let all = meeting.exchange(&bytes(rank, round)).unwrap();
                    let expected: Vec<_> = (0..ranks).map(|rank| bytes(rank, round)).collect();
                    assert_eq!(
                        all, expected,
                        "{by:?}, rank {rank} of {ranks}, round {round}"
                    );
                    meeting.barrier().unwrap();
                }
                (rank, meeting.ranks())
            };
            let said = each(by, ranks, LONG, act);
            let numbers: Vec<_> = (0..ranks).map(|rank| (rank, ranks)).collect();
            assert_eq!(said, numbers);
            cases += 20 * ranks;
        }
    }
    println!("law all_ranks_get_the_bytes_of_every_rank: {cases} cases");
}

/// However long or short the time of a call is, it ends in a result: no clock counts the longest ones from now on.
#[test]
fn law_a_call_takes_every_time() {
    let year = Duration::from_secs(365 * 24 * 3600);
    let long = [
        Duration::MAX,
        Duration::MAX - Duration::from_nanos(1),
        Duration::MAX / 3,
        1000 * year,
        year,
    ];
    let short = [0, 1, 3, 7].map(Duration::from_nanos);
    let mut cases = 0;
    for by in [By::Threads, By::Tcp] {
        for within in long {
            let act = |mut meeting: Meeting| meeting.exchange(&[meeting.rank() as u8]);
            let all = [vec![0], vec![1], vec![2]];
            assert_eq!(each(by, 3, within, act), vec![Ok(all.to_vec()); 3]);
            cases += 1;
        }
    }
    for within in short {
        let mut meetings = Meeting::local(2, within).unwrap();
        let error = meetings[0].barrier().unwrap_err();
        assert_eq!(
            error.to_string(),
            format!("rank 1 did not come within {:?}", within - within / 4)
        );
        let (address, first) = rank_0(2, within);
        let said = first.join().unwrap();
        assert!(said.starts_with("rank 1 did not come within "), "{said}");
        let error = Meeting::join(address, 1, 2, within).unwrap_err();
        assert!(error.is_ranks_refused(), "{error}");
        cases += 3;
    }
    println!("law a_call_takes_every_time: {cases} cases");
}

#[test]
fn the_longest_message_arrives_and_a_longer_one_is_refused() {
    for by in [By::Threads, By::Tcp] {
        let act = |mut meeting: Meeting| {
            let long = vec![meeting.rank() as u8; Meeting::MOST_BYTES];
            let all = meeting.exchange(&long).unwrap();
            assert!(all.iter().all(|bytes| bytes.len() == Meeting::MOST_BYTES));
            // Refused before it is sent, so that the meeting goes on.
            let longer = sentence(meeting.exchange(&vec![0; Meeting::MOST_BYTES + 1]));
            meeting.barrier().unwrap();
            longer
        };
        let sentence =
            "1048577 bytes for the other ranks of a meeting: a rank gives at most 1048576";
        assert_eq!(each(by, 3, LONG, act), [sentence; 3]);
    }
}

#[test]
fn no_rank_passes_a_barrier_before_the_last_arrives() {
    for by in [By::Threads, By::Tcp] {
        let act = |mut meeting: Meeting| {
            if meeting.rank() == 2 {
                thread::sleep(Duration::from_millis(100));
            }
            let arrived = Instant::now();
            meeting.barrier().unwrap();
            (arrived, Instant::now())
        };
        let times = each(by, 4, LONG, act);
        let last = times.iter().map(|(arrived, _)| *arrived).max().unwrap();
        assert!(times.iter().all(|(_, passed)| *passed >= last));
    }
}

/// A rank that lives and never calls: rank 0 names it, and the others hear it from rank 0.
#[test]
fn a_rank_that_never_calls() {
    for by in [By::Threads, By::Tcp] {
        let act = |mut meeting: Meeting| {
            let start = Instant::now();
            if meeting.rank() == 2 {
                thread::sleep(2 * SHORT);
                return String::new();
            }
            let error = meeting.barrier().unwrap_err();
            assert!(start.elapsed() < LONG / 2, "{:?}", start.elapsed());
            assert_eq!(error.lost_rank(), Some(2));
            let again = meeting.exchange(b"more").unwrap_err();
            assert_eq!(again.lost_rank(), Some(2));
            format!("{error}; {again}")
        };
        let said = each(by, 4, SHORT, act);
        let why = "rank 2 did not come within 600ms";
        let sentence = format!("{why}; the meeting has failed before: {why}");
        assert_eq!(said, [&sentence[..], &sentence, "", &sentence]);
    }
}

/// Rank 0 never calls: the others have nothing to hear from, and wait for the whole time.
#[test]
fn rank_0_never_calls() {
    for by in [By::Threads, By::Tcp] {
        let act = |mut meeting: Meeting| {
            if meeting.rank() == 0 {
                thread::sleep(2 * SHORT);
                return String::new();
            }
            sentence(meeting.exchange(b"one"))
        };
        let why = "rank 0 did not come within 800ms";
        assert_eq!(each(by, 3, SHORT, act), ["", why, why]);
    }
}

/// A rank that dies between two calls: all others learn it at once, long before their time is over.
#[test]
fn a_rank_that_dies_in_the_middle() {
    for by in [By::Threads, By::Tcp] {
        for dead in 0..3 {
            let act = move |mut meeting: Meeting| {
                meeting.barrier().unwrap();
                if meeting.rank() == dead {
                    return String::new();
                }
                let start = Instant::now();
                let error = meeting.exchange(b"alive").unwrap_err();
                assert!(start.elapsed() < LONG / 2);
                assert_eq!(error.lost_rank(), Some(dead));
                error.to_string()
            };
            let mut expected = vec![format!("rank {dead} is gone: its connection has ended"); 3];
            expected[dead].clear();
            assert_eq!(each(by, 3, LONG, act), expected, "{by:?}");
        }
    }
}

#[test]
fn ranks_that_make_different_calls() {
    for by in [By::Threads, By::Tcp] {
        let act = |mut meeting: Meeting| match meeting.rank() {
            2 => sentence(meeting.barrier()),
            _ => sentence(meeting.exchange(b"bytes")),
        };
        let why = "rank 2 waits at a barrier, and rank 0 exchanges: all ranks make the same calls in the same order";
        assert_eq!(each(by, 4, LONG, act), [why; 4]);
    }
}

#[test]
fn law_different_problems_are_found_at_the_first_call() {
    let same = RankProblem {
        overlap: Overlap::ProductScatter,
        ranks: 4,
        m: 16,
        n: 12,
        k: 8,
    };
    let others = [
        RankProblem {
            overlap: Overlap::GatherProduct,
            ..same
        },
        RankProblem { m: 20, ..same },
        RankProblem { n: 16, ..same },
        RankProblem { k: 12, ..same },
        RankProblem { ranks: 2, ..same },
    ];
    let mut cases = 0;
    for by in [By::Threads, By::Tcp] {
        let act = move |mut meeting: Meeting| meeting.agree(same).map(|plan| *plan.problem());
        assert_eq!(
            each(by, 4, LONG, act),
            [Ok(same), Ok(same), Ok(same), Ok(same)]
        );
        for other in others {
            for odd in 0..4 {
                let act = move |mut meeting: Meeting| {
                    let own = if meeting.rank() == odd { other } else { same };
                    let said = sentence(meeting.agree(own));
                    // The meeting is not over: the ranks may agree on another product.
                    assert!(meeting.agree(same).is_ok());
                    said
                };
                // Where rank 0 is the odd one, rank 1 is the first that differs.
                let (rank, problem, first) = match odd {
                    0 => (1, same, other),
                    odd => (odd, other, same),
                };
                let why = format!(
                    "rank {rank} asks for {problem}, and rank 0 for {first}: all ranks compute one product"
                );
                assert_eq!(each(by, 4, LONG, act), vec![why; 4]);
                cases += 1;
            }
        }
    }
    println!("law different_problems_are_found_at_the_first_call: {cases} cases");
}

#[test]
fn a_problem_for_another_number_of_ranks() {
    let problem = RankProblem {
        overlap: Overlap::GatherProduct,
        ranks: 4,
        m: 4,
        n: 4,
        k: 4,
    };
    let act = move |mut meeting: Meeting| sentence(meeting.agree(problem));
    let why = "2 problems for 4 ranks: there must be one for each";
    assert_eq!(each(By::Threads, 2, LONG, act), [why; 2]);
}

#[test]
fn numbers_are_checked() {
    let (listener, address) = listener();
    let said: Vec<String> = [
        Meeting::local(0, LONG).map(drop),
        Meeting::local(4097, LONG).map(drop),
        Meeting::listen(listener, 0, LONG).map(drop),
        Meeting::join(address, 2, 2, LONG).map(drop),
        Meeting::join(address, 0, 2, LONG).map(drop),
    ]
    .map(sentence)
    .to_vec();
    assert_eq!(
        said,
        [
            "a meeting of 0 ranks: it has 1 to 4096",
            "a meeting of 4097 ranks: it has 1 to 4096",
            "a meeting of 0 ranks: it has 1 to 4096",
            "rank 2 of 2 ranks, numbered from 0",
            "rank 0 cannot listen: rank 0 listens, and does not join",
        ]
    );
}

/// Rank 0 in a thread of its own, and what it says.
fn rank_0(ranks: usize, within: Duration) -> (SocketAddr, thread::JoinHandle<String>) {
    let (listener, address) = listener();
    let listens = move || {
        let meeting = Meeting::listen(listener, ranks, within);
        sentence(meeting.and_then(|mut meeting| meeting.barrier()))
    };
    (address, thread::spawn(listens))
}

fn joins(
    address: SocketAddr,
    rank: usize,
    ranks: usize,
    within: Duration,
) -> thread::JoinHandle<Result<Meeting, Error>> {
    thread::spawn(move || Meeting::join(address, rank, ranks, within))
}

/// A rank that never arrives, by TCP: those that came hear which one it was.
#[test]
fn a_rank_that_never_arrives() {
    let start = Instant::now();
    let (address, first) = rank_0(3, SHORT);
    let second = joins(address, 1, 3, SHORT);
    let why = "rank 2 did not come within 600ms";
    assert_eq!(first.join().unwrap(), why);
    let error = second.join().unwrap().unwrap_err();
    assert_eq!(
        (error.to_string().as_str(), error.lost_rank()),
        (why, Some(2))
    );
    assert!(start.elapsed() < LONG / 2);
}

#[test]
fn rank_0_never_listens() {
    let (listener, address) = listener();
    drop(listener);
    let start = Instant::now();
    let error = Meeting::join(address, 1, 2, SHORT).unwrap_err().to_string();
    let begin = format!("rank 0 of the meeting cannot be reached at {address} within 800ms: ");
    assert!(error.starts_with(&begin), "{error}");
    assert!(start.elapsed() >= SHORT && start.elapsed() < LONG / 2);
}

/// Rank 0 may come last.
#[test]
fn rank_0_listens_later() {
    let (free, address) = listener();
    drop(free);
    let second = joins(address, 1, 2, LONG);
    thread::sleep(Duration::from_millis(50));
    let listener = TcpListener::bind(address).unwrap();
    let mut meeting = Meeting::listen(listener, 2, LONG).unwrap();
    let barrier = thread::spawn(move || second.join().unwrap().unwrap().barrier());
    assert_eq!(meeting.barrier(), Ok(()));
    assert_eq!(barrier.join().unwrap(), Ok(()));
}

#[test]
fn two_ranks_with_one_number() {
    let (address, first) = rank_0(3, LONG);
    let both = [1, 1].map(|rank| joins(address, rank, 3, LONG));
    let why = "two ranks came with the number 1";
    assert_eq!(first.join().unwrap(), why);
    for one in both {
        assert_eq!(sentence(one.join().unwrap()), why);
    }
}

#[test]
fn a_rank_of_another_number_of_ranks() {
    let (address, first) = rank_0(3, LONG);
    let second = joins(address, 1, 4, LONG);
    let why = "rank 1 came to a meeting of 4 ranks, and that of rank 0 has 3";
    assert_eq!(first.join().unwrap(), why);
    assert_eq!(sentence(second.join().unwrap()), why);
}

/// What a rank sends first.
fn hello(version: u32, ranks: u32, rank: u32) -> Vec<u8> {
    let numbers = [version, ranks, rank].map(u32::to_le_bytes);
    [b"colexmt\0", numbers.as_flattened()].concat()
}

/// What a rank sends in a call.
fn message(kind: u8, call: u32, length: u64, bytes: &[u8]) -> Vec<u8> {
    [
        &[kind][..],
        &call.to_le_bytes(),
        &length.to_le_bytes(),
        bytes,
    ]
    .concat()
}

#[test]
fn a_rank_of_another_version() {
    let (address, first) = rank_0(2, LONG);
    let mut stream = TcpStream::connect(address).unwrap();
    stream.write_all(&hello(9, 2, 1)).unwrap();
    assert_eq!(
        first.join().unwrap(),
        "rank 1 speaks version 9 of the meeting's messages, and rank 0 version 1"
    );
}

/// Connections that say something else, or nothing, or only a part, keep no rank out.
#[test]
fn strangers_are_refused() {
    let come = |address| {
        let say = |bytes: &[u8]| {
            let mut stream = TcpStream::connect(address).unwrap();
            stream.write_all(bytes).unwrap();
            stream
        };
        let mut open = vec![
            say(b"GET / HTTP/1.1\r\n\r\n"),
            say(b""),
            say(&hello(1, 2, 1)[..11]),
        ];
        drop(say(&hello(1, 2, 1)[..19]));
        // A refused connection is closed.
        let mut rest = Vec::new();
        let _ = open[0].read_to_end(&mut rest);
        assert!(rest.is_empty());
        open
    };
    let (address, first) = rank_0(2, LONG);
    let open = come(address);
    let mut second = joins(address, 1, 2, LONG).join().unwrap().unwrap();
    assert_eq!(second.barrier(), Ok(()));
    assert_eq!(first.join().unwrap(), "no error");
    drop(open);

    let (address, first) = rank_0(2, SHORT);
    let open = come(address);
    assert_eq!(
        first.join().unwrap(),
        "rank 1 did not come within 600ms; 4 connections that were none of a rank were refused"
    );
    drop(open);
}

/// Connections that come without an end do not hold up the end of the time.
#[test]
fn a_rank_is_missed_among_many_strangers() {
    let (address, first) = rank_0(2, SHORT);
    let start = Instant::now();
    let has_ended = Arc::new(AtomicBool::new(false));
    let flood = |_| {
        let has_ended = Arc::clone(&has_ended);
        thread::spawn(move || {
            let mut open = Vec::new();
            while start.elapsed() < LONG && !has_ended.load(Ordering::Relaxed) {
                open.push(TcpStream::connect(address));
                if open.len() == 64 {
                    open.clear();
                }
            }
        })
    };
    let floods: Vec<_> = (0..4).map(flood).collect();
    let said = first.join().unwrap();
    has_ended.store(true, Ordering::Relaxed);
    assert!(start.elapsed() < LONG / 2, "{:?}", start.elapsed());
    assert!(
        said.starts_with("rank 1 did not come within 600ms"),
        "{said}"
    );
    floods.into_iter().for_each(|flood| flood.join().unwrap());
}

/// What rank 0 says of a rank that joins as it should and then sends these bytes.
fn heard(bytes: &[u8]) -> String {
    let (address, first) = rank_0(2, LONG);
    let mut stream = TcpStream::connect(address).unwrap();
    stream.write_all(&hello(1, 2, 1)).unwrap();
    let mut welcome = [0; 13 + 8 + 8];
    stream.read_exact(&mut welcome).unwrap();
    stream.write_all(bytes).unwrap();
    // It sends nothing more, and reads to the end.
    stream.shutdown(Shutdown::Write).unwrap();
    stream.read_to_end(&mut Vec::new()).unwrap();
    first.join().unwrap()
}

#[test]
fn messages_of_a_wrong_length_or_kind() {
    for (bytes, sentence) in [
        (message(2, 1, 0, b""), "no error"),
        (vec![], "rank 1 is gone: its connection has ended"),
        (
            message(2, 1, 0, b"")[..5].to_vec(),
            "a message of rank 1 ended after 5 of 13 bytes",
        ),
        (
            message(2, 1, 17, b"seven .."),
            "a message of rank 1 ended after 8 of 17 bytes",
        ),
        (
            message(2, 1, 1 << 40, b""),
            "a message of rank 1 has 1099511627776 bytes: at most 1114112 are read",
        ),
        (
            message(9, 1, 0, b""),
            "rank 1 sent what is no message of a meeting",
        ),
        (
            message(3, 1, 0, b""),
            "rank 1 sent what is no message of a meeting",
        ),
        (
            message(2, 2, 0, b""),
            "rank 1 sent what is no message of a meeting",
        ),
    ] {
        assert_eq!(heard(&bytes), sentence);
    }
}

/// A rank that reads slowly: what it has of the answer when the time is over is a part of that answer and nothing else, so that it can take
/// no other message for the rest.
#[test]
fn a_rank_that_reads_slowly_gets_no_other_message() {
    let (ranks, within) = (24, Duration::from_secs(4));
    let (listener, address) = listener();
    let long = |rank: usize| vec![rank as u8 + 1; Meeting::MOST_BYTES];
    let first = thread::spawn(move || {
        let mut meeting = Meeting::listen(listener, ranks, within).unwrap();
        sentence(meeting.exchange(&long(0)))
    });
    let others: Vec<_> = (2..ranks)
        .map(|rank| {
            thread::spawn(move || {
                let mut meeting = Meeting::join(address, rank, ranks, within).unwrap();
                sentence(meeting.exchange(&long(rank)))
            })
        })
        .collect();
    let mut stream = TcpStream::connect(address).unwrap();
    stream.write_all(&hello(1, ranks as u32, 1)).unwrap();
    let mut welcome = [0; 13 + 8 + 8];
    stream.read_exact(&mut welcome).unwrap();
    let bytes = long(1);
    stream
        .write_all(&message(1, 1, bytes.len() as u64, &bytes))
        .unwrap();
    // It has not read the half when rank 0 gives up, and there is room for more by then.
    let mut found = Vec::new();
    let mut some = [0; 1 << 14];
    while !first.is_finished() {
        let count = stream.read(&mut some).unwrap_or(0);
        found.extend(&some[..count]);
        thread::sleep(Duration::from_millis(10));
    }
    let said = first.join().unwrap();
    assert_eq!(said, "rank 1 did not come within 3s");
    for other in others {
        assert_eq!(other.join().unwrap(), said);
    }
    // The end of the connection, or an error after the last byte.
    let _ = stream.read_to_end(&mut found);
    let lengths = |rank| [&(Meeting::MOST_BYTES as u64).to_le_bytes()[..], &long(rank)].concat();
    let all: Vec<u8> = (0..ranks).flat_map(lengths).collect();
    let answer = message(3, 1, all.len() as u64, &all);
    assert!(
        found.len() < answer.len(),
        "the connection holds all of the answer"
    );
    assert!(answer.starts_with(&found), "{} bytes", found.len());
}

/// A server that is no rank 0.
#[test]
fn another_server_is_no_rank_0() {
    for (answer, closes) in [
        (b"HTTP/1.1 400 Bad Request\r\n\r\n".to_vec(), true),
        (message(3, 0, 8, &[0; 8]), false),
        (message(3, 0, 1 << 50, b""), false),
    ] {
        let (listener, address) = listener();
        let server = thread::spawn(move || {
            let (mut stream, _) = listener.accept().unwrap();
            let mut rest = [0; 20];
            stream.read_exact(&mut rest).unwrap();
            stream.write_all(&answer).unwrap();
            (!closes).then_some(stream)
        });
        let error = Meeting::join(address, 1, 2, LONG).unwrap_err();
        let why = format!("{address} is no rank 0 of a meeting: it answers in another way");
        assert_eq!(error.to_string(), why);
        drop(server.join().unwrap());
    }
}
