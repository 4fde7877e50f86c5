//! Products over ranks with a device each, as processes would compute them: the memory of the others is opened by CUDA's IPC.
//!
//! The ranks are threads, since the fake driver's memory is that of one process. Their meeting goes by TCP through a proxy, which changes
//! the number of the process in exported buffers.

use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::thread;
use std::time::{Duration, Instant};

use colex_gpu::Device;
use colex_gpu::ranks::{
    Meeting, ProcessProduct, RankOptions, RankPath, RankProblem, RankProcess, RankSends,
};
use colex_sched::Overlap;
use half::bf16;

use super::library::{Counts, read};
use super::{TOTALS, device, said, sentence};

/// A time that no wait of these tests reaches, and one that several do.
const LONG: Duration = Duration::from_secs(60);
const SHORT: Duration = Duration::from_millis(400);

/// The bytes of a rank's first words, and of the head of a message, whose last eight are the length of the rest.
const HELLO: usize = 20;
const HEAD: usize = 13;

/// What a proxy changes in the messages of a rank: some bits of a byte at a place behind these bytes.
#[derive(Clone)]
pub(super) struct Change {
    pub(super) of: Vec<u8>,
    pub(super) at: usize,
    pub(super) bits: u8,
    /// Also in the messages to the rank.
    pub(super) both_ways: bool,
}

impl Change {
    /// Gives exported buffers another process. Two ranks differ by the exclusive or of their numbers.
    fn process(rank: usize) -> Change {
        let magic = b"colexm01";
        Change {
            of: magic.to_vec(),
            at: magic.len() + 64,
            bits: rank as u8,
            both_ways: true,
        }
    }

    fn make(&self, bytes: &mut [u8]) {
        let length = self.of.len().max(self.at + 1);
        for from in 0..(bytes.len() + 1).saturating_sub(length) {
            if bytes[from..].starts_with(&self.of) {
                bytes[from + self.at] ^= self.bits;
            }
        }
    }
}

/// Passes the messages of a connection on, with a change.
fn pass(
    mut from: TcpStream,
    mut to: TcpStream,
    hello: usize,
    change: Option<Change>,
) -> std::io::Result<()> {
    let mut first = vec![0; hello];
    from.read_exact(&mut first)?;
    to.write_all(&first)?;
    loop {
        let mut head = [0; HEAD];
        if from.read_exact(&mut head).is_err() {
            return to.shutdown(Shutdown::Write);
        }
        let length = u64::from_le_bytes(head[5..].try_into().unwrap());
        let mut bytes = vec![0; length as usize];
        from.read_exact(&mut bytes)?;
        if let Some(change) = &change {
            change.make(&mut bytes);
        }
        to.write_all(&[&head[..], &bytes].concat())?;
    }
}

/// The address at which a rank reaches the meeting at another address, by a proxy.
pub(super) fn proxy(address: SocketAddr, change: Change) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let own = listener.local_addr().unwrap();
    thread::spawn(move || {
        let (rank_side, _) = listener.accept().unwrap();
        let zero_side = TcpStream::connect(address).unwrap();
        let other = [&rank_side, &zero_side].map(|side| side.try_clone().unwrap());
        let [rank_too, zero_too] = other;
        let back = change.both_ways.then(|| change.clone());
        thread::spawn(move || pass(rank_side, zero_side, HELLO, Some(change)));
        thread::spawn(move || pass(zero_too, rank_too, 0, back));
    });
    own
}

/// What each rank says, with a device of its own.
fn each<T: Send + 'static>(
    ranks: usize,
    within: Duration,
    act: impl Fn(RankProcess) -> T + Clone + Send + 'static,
) -> Vec<T> {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let mut listener = Some(listener);
    let start = |rank| {
        let (act, listener) = (act.clone(), listener.take());
        thread::spawn(move || {
            let meeting = match listener {
                Some(listener) => Meeting::listen(listener, ranks, within),
                None => Meeting::join(proxy(address, Change::process(rank)), rank, ranks, within),
            };
            let device = Device::gpu(rank).expect("the scene has the device");
            act(RankProcess::join(meeting.unwrap(), &device).unwrap())
        })
    };
    let threads: Vec<_> = (0..ranks).map(start).collect();
    let join = |thread: thread::JoinHandle<T>| thread.join().unwrap();
    threads.into_iter().map(join).collect()
}

/// The calls of the whole process.
pub(super) fn totals() -> Counts {
    device().synchronize().unwrap();
    read(std::env::var_os(TOTALS).expect("the variable names the file with the counts"))
}

/// How often memory of another process was opened and closed, and memory allocated and freed.
pub(super) fn memory() -> [u64; 4] {
    let names = [
        "cuIpcOpenMemHandle_v2",
        "cuIpcCloseMemHandle",
        "cuMemAlloc_v2",
        "cuMemFree_v2",
    ];
    let totals = totals();
    names.map(|name| totals.get(name).copied().unwrap_or(0))
}

/// A product whose matrices are small, so that the driver remembers them.
fn problem(overlap: Overlap, ranks: usize) -> RankProblem {
    let ranks = ranks as i64;
    RankProblem {
        overlap,
        ranks,
        m: 8 * ranks,
        n: 8 * ranks,
        k: 16 * ranks,
    }
}

/// Terms that the kernel stores at their owners: copies would wait for a kernel, and this driver runs none.
fn by_kernel() -> RankOptions {
    RankOptions {
        sends: Some(RankSends::Kernel),
        ..RankOptions::default()
    }
}

fn gather(process: &RankProcess, options: &RankOptions) -> ProcessProduct<bf16, bf16> {
    let problem = problem(Overlap::GatherProduct, process.ranks());
    ProcessProduct::new(process, problem, options).unwrap()
}

fn scatter(process: &RankProcess, options: &RankOptions) -> ProcessProduct<bf16, bf16, f32> {
    let problem = problem(Overlap::ProductScatter, process.ranks());
    ProcessProduct::new(process, problem, options).unwrap()
}

fn by(path: RankPath) -> RankOptions {
    RankOptions {
        path: Some(path),
        ..RankOptions::default()
    }
}

/// All parts arrive in every round; what is opened is closed once, and then freed.
#[test]
fn law_every_rank_gathers_the_parts_of_other_processes() {
    let act = || {
        let mut cases = 0;
        for ranks in 2..=4 {
            for path in [RankPath::PeerMemory, RankPath::OneAfterAnother] {
                let act = move |process: RankProcess| {
                    let mut product = gather(&process, &by(path));
                    let part = |round: usize, rank: usize| {
                        vec![bf16::from_f32((10 * round + rank) as f32); 8 * 16 * ranks]
                    };
                    for round in 1..=3 {
                        let own = part(round, process.rank());
                        product.a().unwrap().write(&own).unwrap();
                        product.run().unwrap();
                        product.wait(LONG).unwrap();
                        let all: Vec<_> = (0..ranks).flat_map(|rank| part(round, rank)).collect();
                        assert_eq!(product.gathered().unwrap().download().unwrap(), all);
                    }
                    drop(product);
                    process.leave().unwrap();
                };
                cases += each(ranks, LONG, act).len();
            }
        }
        format!("{cases} {:?}", memory())
    };
    let test = "processes::law_every_rank_gathers_the_parts_of_other_processes";
    // Each of 2, 3 and 4 ranks opens two buffers of each other one, on two paths, and has A, B, C and two lists of flags.
    let opened = 2 * 2 * (2 + 6 + 12);
    let allocated = 2 * 5 * (2 + 3 + 4);
    assert_eq!(
        said(test, "peers:4", act),
        format!("18 [{opened}, {opened}, {allocated}, {allocated}]")
    );
    println!("law every_rank_gathers_the_parts_of_other_processes: 18 cases");
}

/// The stream of a rank never comes to its round, or the rank dies after one: the others name it, and end.
#[test]
fn a_process_that_never_comes_or_dies_is_named() {
    let act = || {
        let mut sentences = Vec::new();
        for (lost, rounds) in [(0, 0), (1, 0), (2, 0), (1, 1), (2, 2)] {
            let act = move |process: RankProcess| {
                let mut first = gather(&process, &RankOptions::default());
                let mut second = scatter(&process, &by_kernel());
                let is_lost = process.rank() == lost;
                for _ in 0..rounds {
                    first.run().unwrap();
                    second.run().unwrap();
                    first.wait(LONG).unwrap();
                    second.wait(LONG).unwrap();
                }
                if is_lost && rounds > 0 {
                    return String::new();
                }
                if is_lost {
                    // It lives, and hears that the others have given up.
                    thread::sleep(2 * SHORT);
                    first.run().unwrap();
                    let error = first.wait(LONG).unwrap_err();
                    assert_eq!(error.lost_rank(), Some(lost));
                    return error.to_string();
                }
                let start = Instant::now();
                // Several rounds are enqueued before the first wait.
                for _ in 0..3 {
                    first.run().unwrap();
                    second.run().unwrap();
                }
                let error = first.wait(SHORT).unwrap_err();
                assert_eq!(error.lost_rank(), Some(lost));
                assert_eq!(second.wait(SHORT).unwrap_err().lost_rank(), Some(lost));
                assert!(start.elapsed() < LONG / 2);
                process.device().synchronize_within(LONG).unwrap();
                assert!(first.run().is_err() && second.run().is_err());
                error.to_string()
            };
            let said = each(3, SHORT * 4, act);
            let late = format!(
                "rank {lost} did not come to round {} within {SHORT:?}, or the ranks do not run the rounds of their 2 products in one \
                 order: the flags of this rank are released, and what it computed is of no use",
                rounds + 1
            );
            let heard = format!("has given up, because rank {lost} was late or gone");
            let is_right = |rank: usize| match (rank == lost, rounds) {
                (true, 0) => said[rank].contains(&heard),
                (true, _) => said[rank].is_empty(),
                (false, _) => said[rank] == late || said[rank].contains(&heard),
            };
            assert!((0..3).all(is_right), "{said:?}");
            assert!(said.contains(&late), "{said:?}");
            sentences.push(format!("{lost} {rounds}"));
        }
        sentences.join(", ")
    };
    assert_eq!(
        said(
            "processes::a_process_that_never_comes_or_dies_is_named",
            "peers:3",
            act
        ),
        "0 0, 1 0, 2 0, 1 1, 2 2"
    );
}

/// A rank drops its product while the others have its memory open: it is freed once all have closed it, or the fake driver ends the
/// process.
#[test]
fn memory_that_another_process_has_open_is_kept() {
    let act = || {
        let act = |process: RankProcess| {
            let mut product = gather(&process, &RankOptions::default());
            product.run().unwrap();
            product.wait(LONG).unwrap();
            process.exchange(b"").unwrap();
            let error = match process.rank() {
                0 => {
                    drop(product);
                    process.exchange(b"").unwrap();
                    String::new()
                }
                _ => {
                    process.exchange(b"").unwrap();
                    // Its memory is there, but it does not come.
                    product.run().unwrap();
                    let error = sentence(product.wait(SHORT));
                    drop(product);
                    error
                }
            };
            process.leave().unwrap();
            error
        };
        let said = each(2, LONG, act);
        format!("{}; {:?}", said[1], memory())
    };
    assert_eq!(
        said(
            "processes::memory_that_another_process_has_open_is_kept",
            "peers:2",
            act
        ),
        "rank 0 did not come to round 2 within 400ms: the flags of this rank are released, and what it computed is of no use; [4, 4, \
         10, 10]"
    );
}

/// A process that leaves without its word keeps its memory: others may have it open.
#[test]
fn memory_of_a_process_that_does_not_leave_is_never_freed() {
    let act = || {
        let act = |process: RankProcess| {
            let product = scatter(&process, &by_kernel());
            let of_rank = process.rank();
            // In any order.
            match of_rank {
                0 => drop((process, product)),
                _ => drop((product, process)),
            }
        };
        each(2, LONG, act);
        format!("{:?}", memory())
    };
    // Of A, B, C, slots and signals of each rank, the slots and the signals stay.
    assert_eq!(
        said(
            "processes::memory_of_a_process_that_does_not_leave_is_never_freed",
            "peers:2",
            act
        ),
        "[4, 4, 10, 6]"
    );
}

/// Three products at a time, which each rank drops in another order.
#[test]
fn products_are_dropped_in_any_order() {
    let act = || {
        let act = |process: RankProcess| {
            let options = RankOptions::default();
            for round in 0..2 {
                // The handles of three products are open at a time.
                let mut kept: Vec<_> = (0..3).map(|_| gather(&process, &options)).collect();
                for product in &mut kept {
                    product.run().unwrap();
                }
                for product in &mut kept {
                    product.wait(LONG).unwrap();
                }
                drop(kept.remove((2 * process.rank() + round) % 3));
                drop(kept.remove(process.rank()));
            }
            process.leave().unwrap();
        };
        each(2, LONG, act);
        format!("{:?}", memory())
    };
    assert_eq!(
        said(
            "processes::products_are_dropped_in_any_order",
            "peers:2",
            act
        ),
        "[24, 24, 60, 60]"
    );
}

#[test]
fn a_driver_without_flags_of_streams_is_named() {
    let act = || {
        let meeting = Meeting::local(1, LONG).unwrap().remove(0);
        let process = RankProcess::join(meeting, &device()).unwrap();
        let problem = problem(Overlap::GatherProduct, 1);
        let new = ProcessProduct::<bf16, bf16>::new;
        sentence(new(&process, problem, &RankOptions::default()))
    };
    assert_eq!(
        said(
            "processes::a_driver_without_flags_of_streams_is_named",
            "memops:801",
            act
        ),
        "rank 0, Fake: its driver's streams set no flags, by which ranks of different processes tell each other how far they are"
    );
}

/// A rank without memory for its part: the others hear it at the first call.
#[test]
fn a_process_without_memory_is_named() {
    let act = || {
        let act = |process: RankProcess| {
            let large = RankProblem {
                n: if process.rank() == 1 { 1 << 21 } else { 16 },
                ..problem(Overlap::GatherProduct, 2)
            };
            let new = ProcessProduct::<bf16, bf16>::new;
            let refused = sentence(new(&process, large, &RankOptions::default()));
            // The ranks go on together.
            drop(gather(&process, &RankOptions::default()));
            process.leave().unwrap();
            refused
        };
        each(2, LONG, act).join("; ")
    };
    let why = "67108864 bytes were asked of the device, which has 1048576 free of 2097152";
    assert_eq!(
        said(
            "processes::a_process_without_memory_is_named",
            "peers:2",
            act
        ),
        format!("rank 1 has no part of the product: {why}; {why}")
    );
}

/// Devices without access to each other's memory: the driver opens no memory of the other process.
#[test]
fn threads_without_peer_access_are_named() {
    let act = || {
        let meetings = Meeting::local(2, LONG).unwrap().into_iter();
        let start = |meeting: Meeting| {
            thread::spawn(|| {
                let device = Device::gpu(meeting.rank()).unwrap();
                let process = RankProcess::join(meeting, &device).unwrap();
                let problem = problem(Overlap::GatherProduct, 2);
                let new = ProcessProduct::<bf16, bf16>::new;
                sentence(new(&process, problem, &by(RankPath::PeerMemory)))
            })
        };
        let threads: Vec<_> = meetings.map(start).collect();
        let each = threads.into_iter();
        let each: Vec<_> = each.map(|thread| thread.join().unwrap()).collect();
        each.join("; ")
    };
    assert_eq!(
        said(
            "processes::threads_without_peer_access_are_named",
            "apart:2",
            act
        ),
        "device 0 (Fake) cannot access the memory of device 1 (Fake): the driver has no peer access between them; device 1 (Fake) \
         cannot access the memory of device 0 (Fake): the driver has no peer access between them"
    );
}
