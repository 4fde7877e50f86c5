//! Products over the GPUs of this host with a process for each: this one is rank 0, and starts the others, which meet it by TCP. Every
//! result is compared, bit for bit with that of the path without overlap and by samples with the host's; NCCL adds in an order of its own,
//! so that its sums are compared by samples alone. At the end, each of some ranks dies between two rounds of new processes, and the others
//! have to name it and end in time: by flags in memory, and with xtask's feature `nccl` by NCCL too.

use std::env;
use std::io::{BufRead, BufReader};
use std::net::{SocketAddr, TcpListener};
use std::path::Path;
use std::process::{self, Child, Command, ExitCode, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use colex_gpu::Device;
use colex_gpu::ranks::{
    Meeting, ProcessProduct, RankDevices, RankOptions, RankPath, RankProblem, RankProcess,
};
use colex_sched::Overlap;
use half::bf16;
use serde_json::{Value, json};

use super::ranks::checked::{close, normal, sampled};
use super::ranks::{BATCH, SAMPLES, WITHIN, cases, watch};
use crate::bench::device::{commit, driver};
use crate::bench::host;
use crate::verdict::{Checked, Ended};

/// How the numbers are taken, for the reader of them.
const PROTOCOL: &str = "one process for each GPU, on one host; batches of rounds enqueued without a wait between them, contenders in \
turn, host clock over each batch from a barrier to the end of the slowest rank, medians of 9; normal numbers in bf16; results compared";

/// The variable that tells a process its rank, the number of ranks, what they do together, and where rank 0 listens. Without an address,
/// the process is rank 0, and writes the address to its output.
const RANK: &str = "COLEX_BENCH_RANK";

/// The longest exchange.
const MEETING: Duration = Duration::from_secs(120);

/// The longest wait for a process that has died.
const DEAD: Duration = Duration::from_secs(3);

/// What the ranks do together.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Together {
    /// They measure all cases.
    Cases,
    /// One rank dies in a product.
    Death { by_nccl: bool, dead: usize },
}

impl Together {
    /// The word for it, without spaces.
    fn word(self) -> String {
        match self {
            Together::Cases => "cases".into(),
            Together::Death {
                by_nccl: true,
                dead,
            } => format!("nccl:{dead}"),
            Together::Death {
                by_nccl: false,
                dead,
            } => format!("memory:{dead}"),
        }
    }

    /// What a word says.
    fn of(word: &str) -> Result<Together> {
        let Some((way, dead)) = word.split_once(':') else {
            ensure!(word == "cases", "`{word}` is nothing that ranks do");
            return Ok(Together::Cases);
        };
        let by_nccl = match way {
            "nccl" => true,
            "memory" => false,
            _ => bail!("`{way}` is no way of a product"),
        };
        let dead = dead.parse()?;
        Ok(Together::Death { by_nccl, dead })
    }

    /// All that new processes do after the cases: the last rank, rank 0 and a rank in the middle die.
    fn deaths(ranks: usize) -> impl Iterator<Item = Together> {
        let ways = [false, true]
            .into_iter()
            .take(if cfg!(feature = "nccl") { 2 } else { 1 });
        let dead = [0, 1, ranks - 1];
        let dead = dead.into_iter().take(if ranks > 2 { 3 } else { 2 });
        ways.flat_map(move |by_nccl| {
            let dead = dead.clone();
            dead.map(move |dead| Together::Death { by_nccl, dead })
        })
    }
}

/// Whether this process was started as a rank.
pub(in crate::bench) fn is_child() -> bool {
    env::var_os(RANK).is_some()
}

/// Is the rank that the variable says.
pub(in crate::bench) fn child() -> Result<ExitCode> {
    watch();
    let said = env::var(RANK)?;
    let mut words = said.split(' ');
    let mut word = || words.next().context("a rank, their number and an address");
    let (rank, ranks): (usize, usize) = (word()?.parse()?, word()?.parse()?);
    let what = Together::of(word()?)?;
    let meeting = match words.next() {
        Some(address) => Meeting::join(address.parse::<SocketAddr>()?, rank, ranks, MEETING)?,
        None => {
            let listener = TcpListener::bind("127.0.0.1:0")?;
            println!("{}", listener.local_addr()?);
            Meeting::listen(listener, ranks, MEETING)?
        }
    };
    let host = ProcessHost::join(meeting)?;
    match what {
        Together::Cases => host.all(|_| Ok(()))?,
        Together::Death { by_nccl, dead } => host.death(by_nccl, dead)?,
    }
    Ok(ExitCode::SUCCESS)
}

/// A way to compute a product, with its name and its result.
struct ProcessWay {
    name: &'static str,
    product: ProcessProduct<bf16, bf16>,
    c: Vec<bf16>,
}

impl ProcessWay {
    fn new(name: &'static str, mut product: ProcessProduct<bf16, bf16>) -> Result<ProcessWay> {
        product.c().fill_bytes(0xff)?;
        // Flags of an earlier round serve for none.
        product.run()?;
        product.run()?;
        product.wait(WITHIN)?;
        let c = product.c().download()?;
        Ok(ProcessWay { name, product, c })
    }

    /// Refuses a result that differs from another one.
    fn same(&self, expected: &ProcessWay) -> Result<()> {
        let pairs = self.c.iter().zip(&expected.c);
        let differ = pairs.filter(|(a, b)| a.to_bits() != b.to_bits()).count();
        ensure!(
            differ == 0 && self.c.len() == expected.c.len(),
            "{}: {differ} of {} elements differ from the product behind the copies",
            self.name,
            expected.c.len()
        );
        Ok(())
    }
}

/// This rank.
struct ProcessHost {
    process: RankProcess,
}

impl ProcessHost {
    fn join(meeting: Meeting) -> Result<ProcessHost> {
        let device = Device::gpu(meeting.rank())?;
        let process = RankProcess::join(meeting, &device)?;
        Ok(ProcessHost { process })
    }

    /// Whether all ranks have found their results right.
    fn agreed(&self, found: Result<()>) -> Result<()> {
        let why = found
            .err()
            .map(|why| format!("{why:#}"))
            .unwrap_or_default();
        let all = self.process.exchange(why.as_bytes())?;
        for (rank, why) in all.iter().enumerate() {
            let why = String::from_utf8_lossy(why);
            ensure!(why.is_empty(), "rank {rank}: {why}");
        }
        Ok(())
    }

    /// Microseconds of a round on the slowest rank, over a batch.
    fn time(&self, way: &mut ProcessWay, runs: usize) -> Result<f64> {
        self.process.exchange(&[])?;
        let start = Instant::now();
        for _ in 0..runs {
            way.product.run()?;
        }
        way.product.wait(WITHIN)?;
        let own = start.elapsed().as_secs_f64() * 1e6 / runs as f64;
        let all = self.process.exchange(&own.to_le_bytes())?;
        let times = all.iter().map(|bytes| {
            let bytes = bytes[..].try_into().context("a time has eight bytes")?;
            Ok(f64::from_le_bytes(bytes))
        });
        let times = times.collect::<Result<Vec<_>>>()?;
        Ok(times.into_iter().fold(0.0, f64::max))
    }

    /// The sorted samples of all ways, taken in turn.
    fn measure(&self, ways: &mut [ProcessWay]) -> Result<Vec<Vec<f64>>> {
        let mut runs = Vec::new();
        for way in &mut *ways {
            self.time(way, 2)?;
            // The same on all ranks.
            let once = self.time(way, 4)?;
            let many = (BATCH.as_secs_f64() * 1e6 / once).ceil() as usize;
            runs.push(many.clamp(4, 256));
        }
        let mut samples = vec![Vec::new(); ways.len()];
        for round in 0..SAMPLES {
            for i in 0..ways.len() {
                let i = (i + round) % ways.len();
                samples[i].push(self.time(&mut ways[i], runs[i])?);
            }
        }
        samples
            .iter_mut()
            .for_each(|all| all.sort_by(f64::total_cmp));
        Ok(samples)
    }

    fn gather(&self, problem: RankProblem) -> Result<Vec<ProcessWay>> {
        let RankProblem { ranks, m, n, k, .. } = problem;
        let (rows, columns) = (m / ranks, n / ranks);
        let rank = self.process.rank();
        let noise_a: Vec<_> = (0..ranks).map(|rank| normal(2 * rank as u64 + 1)).collect();
        let noise_b = normal(2 * rank as u64 + 2);
        let with = |name, path| -> Result<ProcessWay> {
            let product = ProcessProduct::new(&self.process, problem, &by(path))?;
            noise_a[rank].fill(&product.a()?)?;
            noise_b.fill(product.b())?;
            ProcessWay::new(name, product)
        };
        let apart = with("one after the other", RankPath::OneAfterAnother)?;
        let overlapped = with("overlapped", RankPath::PeerMemory)?;
        let by_nccl = by_nccl().map(|(name, path)| with(name, path));
        let by_nccl = by_nccl.collect::<Result<Vec<_>>>()?;
        let found = sampled(m, columns).try_for_each(|(i, j)| {
            let a = |l: i64| noise_a[(i / rows) as usize].at((i % rows * k + l) as usize);
            let b = |l: i64| noise_b.at((j * k + l) as usize);
            let expected: f64 = (0..k).map(|l| a(l).to_f64() * b(l).to_f64()).sum();
            let found = apart.c[(i * columns + j) as usize].to_f64();
            ensure!(
                close(found, expected, k, 1.0),
                "element ({i},{j}) of C is {found}, and the host's {expected}"
            );
            Ok(())
        });
        let found = found.and_then(|()| overlapped.same(&apart));
        let found = found.and_then(|()| by_nccl.iter().try_for_each(|way| way.same(&apart)));
        self.agreed(found)?;
        Ok([apart, overlapped].into_iter().chain(by_nccl).collect())
    }

    fn sum(&self, problem: RankProblem) -> Result<Vec<ProcessWay>> {
        let RankProblem { ranks, m, n, k, .. } = problem;
        let (rows, part) = (m / ranks, k / ranks);
        let rank = self.process.rank();
        let noise = |of: u64| -> Vec<_> {
            let each = 0..ranks as u64;
            each.map(|rank| normal(2 * rank + of)).collect()
        };
        let [noise_a, noise_b] = [1, 2].map(noise);
        let with = |name, path| -> Result<ProcessWay> {
            let product = ProcessProduct::new(&self.process, problem, &by(path))?;
            noise_a[rank].fill(&product.a()?)?;
            noise_b[rank].fill(product.b())?;
            ProcessWay::new(name, product)
        };
        let apart = with("one after the other", RankPath::OneAfterAnother)?;
        let overlapped = with("overlapped, slots of bf16", RankPath::PeerMemory)?;
        let by_nccl = by_nccl().map(|(name, path)| with(name, path));
        let by_nccl = by_nccl.collect::<Result<Vec<_>>>()?;
        let own = match problem.overlap {
            Overlap::ProductReduce => 0..m,
            _ => rank as i64 * rows..(rank as i64 + 1) * rows,
        };
        let mut places = sampled(m, n).filter(|(i, _)| own.contains(i));
        let found = places.try_for_each(|(i, j)| {
            let term = |of: usize| -> f64 {
                let a = |l: i64| noise_a[of].at((i * part + l) as usize);
                let b = |l: i64| noise_b[of].at((j * part + l) as usize);
                (0..part).map(|l| a(l).to_f64() * b(l).to_f64()).sum()
            };
            let expected: f64 = (0..ranks as usize).map(term).sum();
            for way in by_nccl.iter().chain([&apart]) {
                let found = way.c[((i - own.start) * n + j) as usize].to_f64();
                ensure!(
                    close(found, expected, k, 1.0 + ranks as f64),
                    "{}: element ({i},{j}) of C is {found}, and the host's {expected}",
                    way.name
                );
            }
            Ok(())
        });
        self.agreed(found.and_then(|()| overlapped.same(&apart)))?;
        Ok([apart, overlapped].into_iter().chain(by_nccl).collect())
    }

    /// Measures all cases with all ranks, and hands the numbers of each over.
    fn all(self, mut measured: impl FnMut(Value) -> Result<()>) -> Result<()> {
        for problem in cases(self.process.ranks() as i64) {
            let ways = match problem.overlap {
                Overlap::GatherProduct => self.gather(problem),
                Overlap::ProductScatter | Overlap::ProductReduce => self.sum(problem),
            };
            let mut ways = ways.with_context(|| problem.to_string())?;
            let samples = self.measure(&mut ways)?;
            let names = ways.iter().map(|way| way.name);
            let rows: Vec<Value> = names
                .zip(&samples)
                .map(|(name, all)| {
                    let microseconds = all[all.len() / 2];
                    json!({"name": name, "microseconds": microseconds, "samples": all})
                })
                .collect();
            measured(json!({"product": problem.to_string(), "rows": rows}))?;
        }
        Ok(())
    }

    /// A rank dies between two rounds: the others name it in time, and free their memory.
    fn death(self, by_nccl: bool, dead: usize) -> Result<()> {
        let path = if by_nccl {
            RankPath::NcclAfter
        } else {
            RankPath::PeerMemory
        };
        let problem = cases(self.process.ranks() as i64)[0];
        let options = by(path);
        let mut product = ProcessProduct::<bf16, bf16>::new(&self.process, problem, &options)?;
        product.run()?;
        product.wait(WITHIN)?;
        let rank = self.process.rank();
        if rank == dead {
            // No destructor runs.
            process::exit(0);
        }
        let start = Instant::now();
        product.run()?;
        let why = product.wait(DEAD).err().context("a rank is dead")?;
        let waited = start.elapsed();
        drop(product);
        drop(self.process);
        let ended = start.elapsed();
        if why.lost_rank() != Some(dead) {
            bail!("by {path}, rank {dead} has died, and the error of rank {rank} is: {why}");
        }
        println!("  rank {rank}, by {path}, after {waited:.1?}: {why}; ended after {ended:.1?}");
        Ok(())
    }
}

/// The ways by NCCL, which xtask has with its feature of that name.
fn by_nccl() -> impl Iterator<Item = (&'static str, RankPath)> {
    let ways = [
        ("NCCL after or before the product", RankPath::NcclAfter),
        ("NCCL in chunks", RankPath::NcclInChunks),
    ];
    ways.into_iter().filter(|_| cfg!(feature = "nccl"))
}

/// Starts the process of a rank, which meets the others at an address, or is rank 0 without one.
fn start(rank: usize, ranks: usize, what: Together, at: Option<SocketAddr>) -> Result<Child> {
    let mut child = Command::new(env::current_exe()?);
    let at = at.map(|at| format!(" {at}")).unwrap_or_default();
    child.args(["bench", "processes"]);
    child.env(RANK, format!("{rank} {ranks} {}{at}", what.word()));
    if at.is_empty() {
        child.stdout(Stdio::piped());
    }
    child
        .spawn()
        .with_context(|| format!("rank {rank} cannot be started"))
}

/// Starts the other ranks, and joins them as rank 0.
fn join(ranks: usize, what: Together) -> Result<(ProcessHost, Vec<Child>)> {
    let listener = TcpListener::bind("127.0.0.1:0")?;
    let address = listener.local_addr()?;
    let others = (1..ranks).map(|rank| start(rank, ranks, what, Some(address)));
    let children = others.collect::<Result<Vec<Child>>>()?;
    let host = ProcessHost::join(Meeting::listen(listener, ranks, MEETING)?)?;
    Ok((host, children))
}

/// Starts all ranks, and waits for them. One of them dies.
fn die(ranks: usize, what: Together) -> Result<()> {
    let mut first = start(0, ranks, what, None)?;
    let output = first.stdout.take().context("rank 0 has an output")?;
    let mut lines = BufReader::new(output).lines();
    let address: SocketAddr = lines
        .next()
        .context("rank 0 says where it listens")??
        .parse()?;
    let others = (1..ranks).map(|rank| start(rank, ranks, what, Some(address)));
    let mut children = others.collect::<Result<Vec<Child>>>()?;
    for line in lines {
        println!("{}", line?);
    }
    children.insert(0, first);
    end(children, 0)
}

/// Waits for the processes of ranks, which are numbered from `first`.
fn end(children: Vec<Child>, first: usize) -> Result<()> {
    let mut failed = Vec::new();
    for (mut child, rank) in children.into_iter().zip(first..) {
        if !child.wait()?.success() {
            failed.push(rank);
        }
    }
    ensure!(
        failed.is_empty(),
        "the processes of ranks {failed:?} failed"
    );
    Ok(())
}

fn by(path: RankPath) -> RankOptions {
    RankOptions {
        path: Some(path),
        ..RankOptions::default()
    }
}

/// Starts the other ranks, measures all cases with them, and writes the numbers to a file after each.
pub(in crate::bench) fn run(file: Option<&Path>) -> Result<()> {
    watch();
    let count = Device::gpu_count()?;
    ensure!(
        count >= 2,
        "products over ranks need two GPUs, and there are {count}"
    );
    let ranks = count.min(RankDevices::MOST);
    let (host, children) = join(ranks, Together::Cases)?;
    let first = host.process.device().clone();
    println!("{ranks} processes, a GPU each: {}", first.name());
    let mut all = json!({
        "bench": "processes", "ranks": ranks, "device": first.name(), "driver": driver(&first),
        "date": host::today(), "commit": commit(), "protocol": PROTOCOL, "cases": [],
    });
    let measured = host.all(|case| {
        let product = case["product"].as_str().unwrap_or_default().to_string();
        println!("{product}");
        for row in case["rows"].as_array().into_iter().flatten() {
            let name = row["name"].as_str().unwrap_or_default();
            let time = row["microseconds"].as_f64().unwrap_or_default();
            println!("  {name:<44} {time:>9.1} us");
        }
        Checked {
            data: case.clone(),
            ..Checked::new(product, Ended::Passed, PROTOCOL)
        }
        .add();
        let cases = all["cases"].as_array_mut();
        cases.context("cases are a list")?.push(case);
        if let Some(path) = file {
            let text = serde_json::to_string_pretty(&all)? + "\n";
            std::fs::write(path, text)
                .with_context(|| format!("{} cannot be written", path.display()))?;
        }
        Ok(())
    });
    let ended = end(children, 1);
    measured?;
    ended?;
    for what in Together::deaths(ranks) {
        let text = match what {
            Together::Cases => continue,
            Together::Death { dead, .. } => format!("rank {dead} dies ({})", what.word()),
        };
        println!("{text}");
        die(ranks, what)?;
        Checked::new(
            text,
            Ended::Passed,
            "the other ranks name it and end in time",
        )
        .add();
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::Together;

    #[test]
    fn what_ranks_do_together_is_read_as_it_was_written() {
        for what in Together::deaths(4).chain([Together::Cases]) {
            assert!(Together::of(&what.word()).is_ok_and(|read| read == what));
        }
        let why = |word| Together::of(word).err().map(|why| why.to_string());
        assert_eq!(why("rest"), Some("`rest` is nothing that ranks do".into()));
        assert_eq!(why("tcp:1"), Some("`tcp` is no way of a product".into()));
    }
}
