//! Products over the GPUs of this host, in one process: copies that overlap the product beside one after the other, and each part
//! alone. Every result is compared, bit for bit with that of the path without overlap and by samples with the host's.

use std::path::Path;
use std::process;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use colex_gpu::kernels::GemmElement;
use colex_gpu::ranks::{
    GatherProduct, ProductScatter, RankDevices, RankOptions, RankPath, RankProblem, RankSends,
};
use colex_gpu::{Buffer, Device, Gemm, View, ViewMut};
use colex_sched::Overlap;
use half::bf16;
use serde_json::{Value, json};

use crate::bench::device::{Noise, commit, driver};
use crate::bench::host;
use crate::output;
use crate::verdict::{Checked, Ended};

/// How the numbers are taken, for the reader of them.
const PROTOCOL: &str = "one process and one thread for all GPUs; batches of runs enqueued without a wait between them, contenders in \
turn, host clock over each batch, medians of 9; normal numbers in bf16; results compared";

/// Samples of each contender, and the least time of one.
pub(super) const SAMPLES: usize = 9;
pub(super) const BATCH: Duration = Duration::from_millis(15);

/// The longest wait for all GPUs, and the time after which the whole process ends.
pub(super) const WITHIN: Duration = Duration::from_secs(20);
const LONGEST: Duration = Duration::from_secs(540);

/// Elements of C that the host computes too.
const COMPARED: i64 = 64;

/// A product of the list: hidden and intermediate extents of a layer of large models, and two more.
pub(super) fn cases(ranks: i64) -> Vec<RankProblem> {
    let of = |overlap, [m, n, k]: [i64; 3]| RankProblem {
        overlap,
        ranks,
        m,
        n,
        k,
    };
    let gathers = [
        [8192, 57344, 8192],
        [2048, 57344, 8192],
        [8192, 28672, 4096],
        [8192, 2560 * ranks, 8192],
    ];
    let scatters = [
        [8192, 8192, 28672],
        [2048, 8192, 28672],
        [8192, 4096, 14336],
        [8192, 8192, 2048 * ranks],
    ];
    let gathers = gathers.map(|sizes| of(Overlap::GatherProduct, sizes));
    let scatters = scatters.map(|sizes| of(Overlap::ProductScatter, sizes));
    gathers.into_iter().chain(scatters).collect()
}

/// One way to do the work: enqueues a run on all GPUs.
struct RankWay<'a> {
    name: String,
    run: Box<dyn FnMut() -> Result<()> + 'a>,
}

impl<'a> RankWay<'a> {
    fn new(name: impl Into<String>, run: impl FnMut() -> Result<()> + 'a) -> RankWay<'a> {
        let (name, run) = (name.into(), Box::new(run));
        RankWay { name, run }
    }
}

/// The GPUs, and the streams of copies of this bench.
struct Host {
    devices: Vec<Device>,
    ranks: RankDevices,
    streams: Vec<Device>,
}

impl Host {
    fn open() -> Result<Host> {
        let count = Device::gpu_count()?;
        ensure!(
            count >= 2,
            "products over ranks need two GPUs, and there are {count}"
        );
        let devices = (0..count.min(RankDevices::MOST)).map(Device::gpu);
        let devices = devices.collect::<Result<Vec<_>, _>>()?;
        let streams = devices.iter().map(Device::on_new_stream);
        Ok(Host {
            ranks: RankDevices::new(&devices)?,
            streams: streams.collect::<Result<_, _>>()?,
            devices,
        })
    }

    /// Waits for all GPUs.
    fn join(&self) -> Result<()> {
        for (rank, device) in self.devices.iter().enumerate() {
            for stream in [device, &self.streams[rank]] {
                let waited = stream.synchronize_within(WITHIN);
                waited.with_context(|| format!("rank {rank}"))?;
            }
        }
        Ok(())
    }

    /// Microseconds of a run, over a batch.
    fn time(&self, way: &mut RankWay<'_>, runs: usize) -> Result<f64> {
        self.join()?;
        let start = Instant::now();
        for _ in 0..runs {
            (way.run)()?;
        }
        self.join()?;
        Ok(start.elapsed().as_secs_f64() * 1e6 / runs as f64)
    }

    /// The medians of all ways, taken in turn, and their samples.
    fn measure(&self, ways: &mut [RankWay<'_>]) -> Result<Vec<Vec<f64>>> {
        let mut runs = Vec::new();
        for way in &mut *ways {
            let named = |e: anyhow::Error, name: &str| e.context(name.to_string());
            self.time(way, 2).map_err(|e| named(e, &way.name))?;
            let once = self.time(way, 4).map_err(|e| named(e, &way.name))?;
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
}

/// Numbers of a normal distribution with the deviation 1/4, by the sum of twelve uniform ones; another list for each seed.
pub(super) fn normal(seed: u64) -> Noise<bf16> {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let mut next = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state
    };
    Noise::of(|| {
        let sum: u64 = (0..3)
            .map(|_| {
                let word = next();
                (0..4).map(|i| word >> (16 * i) & 0xffff).sum::<u64>()
            })
            .sum();
        bf16::from_f32((sum as f32 / 65536.0 - 6.0) / 4.0)
    })
}

/// What was found of one product.
struct RankRun<'a> {
    problem: RankProblem,
    path: String,
    ways: Vec<RankWay<'a>>,
}

/// Refuses parts that differ from the expected ones.
fn same(name: &str, found: &[Vec<bf16>], expected: &[Vec<bf16>]) -> Result<()> {
    for (rank, (found, expected)) in found.iter().zip(expected).enumerate() {
        let pairs = found.iter().zip(expected);
        let differ = pairs.filter(|(a, b)| a.to_bits() != b.to_bits()).count();
        ensure!(
            differ == 0 && found.len() == expected.len(),
            "{name}: {differ} of {} elements of rank {rank} differ from the product behind the copies",
            expected.len()
        );
    }
    Ok(())
}

/// Elements of C as the host computes them: pairs of a row and a column, spread over the matrix.
pub(super) fn sampled(m: i64, n: i64) -> impl Iterator<Item = (i64, i64)> {
    (0..COMPARED).map(move |i| {
        let at = |extent: i64, step: i64| (i * step + i * i * 7 + 3) % extent;
        // The corners of each chunk's end come first.
        match i {
            0 => (0, 0),
            1 => (m - 1, n - 1),
            _ => (at(m, 7919), at(n, 104_729)),
        }
    })
}

/// Whether a bf16 is the sum of K products of such numbers, rounded `roundings` times.
pub(super) fn close(found: f64, expected: f64, k: i64, roundings: f64) -> bool {
    // The terms have the deviation 1/16.
    let scale = (k as f64).sqrt() / 16.0;
    (found - expected).abs() <= (roundings + 1.0) * scale.max(expected.abs()) / 256.0
}

fn case(host: &Host, problem: RankProblem) -> Result<Value> {
    let ran = match problem.overlap {
        Overlap::GatherProduct => gather(host, problem),
        Overlap::ProductScatter => scatter(host, problem),
    };
    ran.with_context(|| problem.to_string())
}

/// Measures the ways of a product, and prints their line.
fn report(host: &Host, mut found: RankRun<'_>) -> Result<Value> {
    let samples = host.measure(&mut found.ways)?;
    let median = |i: usize| samples[i][samples[i].len() / 2];
    let all = found.ways.iter().enumerate();
    let rows: Vec<Value> = all
        .map(|(i, way)| json!({"name": way.name, "microseconds": median(i), "samples": samples[i]}))
        .collect();
    let [copies, product, apart] = [0, 1, 2].map(median);
    let overlapped = 3..found.ways.len();
    let best = overlapped.map(median).fold(f64::INFINITY, f64::min);
    let perfect = copies.max(product);
    println!("{}\n  {}", found.problem, found.path);
    for (i, way) in found.ways.iter().enumerate() {
        println!("  {:<44} {:>9.1} us", way.name, median(i));
    }
    println!(
        "  overlapped is {:.3} times as fast as one after the other; the longer part alone would be {:.3}: {:.2} of that",
        apart / best,
        apart / perfect,
        perfect / best
    );
    Checked {
        data: json!({"rows": rows}),
        ..Checked::new(found.problem.to_string(), Ended::Passed, PROTOCOL)
    }
    .add();
    let RankProblem {
        overlap,
        ranks,
        m,
        n,
        k,
    } = found.problem;
    Ok(json!({
        "overlap": overlap.to_string(), "ranks": ranks, "m": m, "n": n, "k": k, "explained": found.path, "rows": rows,
        "gain": apart / best, "perfect": apart / perfect, "checked": true,
    }))
}

/// The copies of the parts of all ranks, alone: each rank takes those of the others, nearest first.
fn copies_alone<'a>(
    host: &'a Host,
    peers: Vec<Vec<Buffer<bf16>>>,
    into: Vec<Vec<Buffer<bf16>>>,
) -> RankWay<'a> {
    RankWay::new("copies alone", move || {
        let count = host.devices.len();
        for (rank, stream) in host.streams.iter().enumerate() {
            for step in 1..count {
                let from = (rank + count - step) % count;
                stream.enqueue_copy(&into[rank][from], &peers[rank][from])?;
            }
        }
        Ok(())
    })
}

/// For each rank, the parts of the other ranks as its work has them, and memory of its own for each.
#[allow(clippy::type_complexity, reason = "two lists of lists, for each rank")]
fn copied(host: &Host, elements: i64) -> Result<(Vec<Vec<Buffer<bf16>>>, Vec<Vec<Buffer<bf16>>>)> {
    let on = |device: &Device| device.zeros::<bf16>(elements as usize);
    let parts = host.devices.iter().map(on).collect::<Result<Vec<_>, _>>()?;
    let (mut peers, mut into) = (Vec::new(), Vec::new());
    for device in &host.devices {
        let of = parts.iter().map(|part| part.as_peer_of(device));
        peers.push(of.collect::<Result<Vec<_>, _>>()?);
        let own = parts.iter().map(|_| on(device));
        into.push(own.collect::<Result<Vec<_>, _>>()?);
    }
    Ok((peers, into))
}

fn gather(host: &Host, problem: RankProblem) -> Result<Value> {
    let RankProblem { ranks, m, n, k, .. } = problem;
    let (rows, columns) = (m / ranks, n / ranks);
    let noise_a: Vec<_> = (0..ranks).map(|rank| normal(2 * rank as u64 + 1)).collect();
    let noise_b: Vec<_> = (0..ranks).map(|rank| normal(2 * rank as u64 + 2)).collect();
    let with = |path: RankPath, pieces: Option<i64>| -> Result<_> {
        let options = RankOptions {
            path: Some(path),
            pieces,
            ..RankOptions::default()
        };
        let product = GatherProduct::<bf16, bf16>::new(&host.ranks, problem, &options)?;
        for rank in 0..ranks as usize {
            noise_a[rank].fill(&product.a(rank)?)?;
            noise_b[rank].fill(product.b(rank)?)?;
        }
        Ok(product)
    };
    let result = |product: &mut GatherProduct<bf16, bf16>| -> Result<Vec<Vec<bf16>>> {
        for rank in 0..ranks as usize {
            product.c(rank)?.fill_bytes(0xff)?;
        }
        host.join()?;
        // Flags of an earlier round serve for none.
        product.run()?;
        product.run()?;
        product.wait(WITHIN)?;
        let c = (0..ranks as usize).map(|rank| Ok(product.c(rank)?.download()?));
        c.collect()
    };
    let mut apart = with(RankPath::OneAfterAnother, None)?;
    let c = result(&mut apart)?;
    for (rank, part) in c.iter().enumerate() {
        for (i, j) in sampled(m, columns) {
            let a = |l: i64| noise_a[(i / rows) as usize].at((i % rows * k + l) as usize);
            let b = |l: i64| noise_b[rank].at((j * k + l) as usize);
            let expected: f64 = (0..k).map(|l| a(l).to_f64() * b(l).to_f64()).sum();
            let found = part[(i * columns + j) as usize].to_f64();
            ensure!(
                close(found, expected, k, 1.0),
                "element ({i},{j}) of C of rank {rank} is {found}, and the host's {expected}"
            );
        }
    }
    let expected = c;
    let mut overlapped = Vec::new();
    let pieces = [None, Some(2), Some(4)].into_iter();
    for pieces in pieces.filter(|pieces| pieces.is_none_or(|n| rows % n == 0)) {
        let mut product = with(RankPath::PeerMemory, pieces)?;
        let name = match pieces {
            None => format!("overlapped, {} pieces by default", product.pieces()),
            Some(pieces) => format!("overlapped, {pieces} pieces"),
        };
        same(&name, &result(&mut product)?, &expected)?;
        overlapped.push((name, product));
    }
    let path = overlapped[0].1.explain()?.replace('\n', "\n  ");
    let (peers, into) = copied(host, rows * k)?;
    // The operands of the product alone are those of the path without overlap, whose A is gathered.
    let alone = alone(host, [m, columns, k])?;
    let mut ways = vec![copies_alone(host, peers, into)];
    ways.push(RankWay::new("product alone", move || alone.run(host)));
    ways.push(RankWay::new(
        "one after the other",
        move || Ok(apart.run()?),
    ));
    for (name, mut product) in overlapped {
        ways.push(RankWay::new(name, move || Ok(product.run()?)));
    }
    let found = RankRun {
        problem,
        path,
        ways,
    };
    report(host, found)
}

/// A product on each GPU alone.
struct Alone {
    sizes: [i64; 3],
    a: Vec<Buffer<bf16>>,
    b: Vec<Buffer<bf16>>,
    c: Vec<Buffer<bf16>>,
}

fn alone(host: &Host, [m, n, k]: [i64; 3]) -> Result<Alone> {
    let filled = |elements: i64, seed: u64| -> Result<Vec<Buffer<bf16>>> {
        let noise = normal(seed);
        let on = |device: &Device| {
            let buffer = device.zeros::<bf16>(elements as usize)?;
            noise.fill(&buffer)?;
            Ok(buffer)
        };
        host.devices.iter().map(on).collect()
    };
    Ok(Alone {
        sizes: [m, n, k],
        a: filled(m * k, 101)?,
        b: filled(n * k, 102)?,
        c: filled(m * n, 103)?,
    })
}

impl Alone {
    fn run(&self, host: &Host) -> Result<()> {
        let [m, n, k] = self.sizes;
        for rank in 0..host.devices.len() {
            let a: View<'_, bf16> = self.a[rank].view((m, k))?;
            let b = self.b[rank].view((n, k))?;
            let mut c = self.c[rank].clone();
            let c: ViewMut<'_, bf16> = c.view_mut((m, n))?;
            Gemm::new(&a, &b, &c).run()?;
        }
        Ok(())
    }
}

fn scatter(host: &Host, problem: RankProblem) -> Result<Value> {
    let RankProblem { ranks, m, n, k, .. } = problem;
    let (rows, part) = (m / ranks, k / ranks);
    let noise_a: Vec<_> = (0..ranks).map(|rank| normal(2 * rank as u64 + 1)).collect();
    let noise_b: Vec<_> = (0..ranks).map(|rank| normal(2 * rank as u64 + 2)).collect();
    fn with<S: GemmElement>(
        host: &Host,
        problem: RankProblem,
        (path, sends): (RankPath, Option<RankSends>),
        noise: [&[Noise<bf16>]; 2],
    ) -> Result<ProductScatter<bf16, S, bf16>> {
        let options = RankOptions {
            path: Some(path),
            sends,
            ..RankOptions::default()
        };
        let product = ProductScatter::new(&host.ranks, problem, &options)?;
        for (rank, (a, b)) in noise[0].iter().zip(noise[1]).enumerate() {
            a.fill(product.a(rank)?)?;
            b.fill(product.b(rank)?)?;
        }
        Ok(product)
    }
    fn result<S: GemmElement>(
        host: &Host,
        product: &mut ProductScatter<bf16, S, bf16>,
    ) -> Result<Vec<Vec<bf16>>> {
        let ranks = host.devices.len();
        for rank in 0..ranks {
            product.c(rank)?.fill_bytes(0xff)?;
        }
        host.join()?;
        product.run()?;
        product.run()?;
        product.wait(WITHIN)?;
        let c = (0..ranks).map(|rank| Ok(product.c(rank)?.download()?));
        c.collect()
    }
    let noise = [&noise_a[..], &noise_b[..]];
    let check = |name: &str, c: &[Vec<bf16>], roundings: f64| -> Result<()> {
        for (i, j) in sampled(m, n) {
            let term = |rank: usize| -> f64 {
                let a = |l: i64| noise_a[rank].at((i * part + l) as usize);
                let b = |l: i64| noise_b[rank].at((j * part + l) as usize);
                (0..part).map(|l| a(l).to_f64() * b(l).to_f64()).sum()
            };
            let expected: f64 = (0..ranks as usize).map(term).sum();
            let (owner, row) = (i / rows, i % rows);
            let found = c[owner as usize][(row * n + j) as usize].to_f64();
            ensure!(
                close(found, expected, k, roundings),
                "{name}: element ({i},{j}) of C is {found}, and the host's {expected}"
            );
        }
        Ok(())
    };
    let mut apart = with::<bf16>(host, problem, (RankPath::OneAfterAnother, None), noise)?;
    let c = result(host, &mut apart)?;
    check("one after the other", &c, 1.0 + ranks as f64)?;
    let expected = c;
    let mut overlapped = Vec::new();
    for (sends, name) in [
        (None, "overlapped, slots of bf16"),
        (Some(RankSends::Kernel), "overlapped, slots of bf16 by TMA"),
    ] {
        let mut halves = with::<bf16>(host, problem, (RankPath::PeerMemory, sends), noise)?;
        same(name, &result(host, &mut halves)?, &expected)?;
        overlapped.push((name, halves));
    }
    let mut wide = with::<f32>(host, problem, (RankPath::PeerMemory, None), noise)?;
    let c = result(host, &mut wide)?;
    check("overlapped, slots of f32", &c, 1.0)?;
    let mut wide_apart = with::<f32>(host, problem, (RankPath::OneAfterAnother, None), noise)?;
    let behind = result(host, &mut wide_apart)?;
    same("overlapped, slots of f32", &c, &behind)?;
    drop(wide_apart);
    let path = overlapped[0].1.explain()?.replace('\n', "\n  ");
    let (peers, into) = copied(host, rows * n)?;
    let alone = alone(host, [m, n, part])?;
    let mut ways = vec![
        copies_alone(host, peers, into),
        RankWay::new("product alone", move || alone.run(host)),
        RankWay::new("one after the other", move || Ok(apart.run()?)),
    ];
    for (name, mut halves) in overlapped {
        ways.push(RankWay::new(name, move || Ok(halves.run()?)));
    }
    ways.push(RankWay::new("overlapped, slots of f32", move || {
        Ok(wide.run()?)
    }));
    let found = RankRun {
        problem,
        path,
        ways,
    };
    report(host, found)
}

/// Ends the process if the measurement hangs.
pub(super) fn watch() {
    thread::spawn(|| {
        thread::sleep(LONGEST);
        eprintln!("the bench `ranks` has not ended within {LONGEST:?}: the process ends");
        process::exit(i32::from(output::FAILED));
    });
}

/// Measures all cases, and writes their numbers to a file after each.
pub(in crate::bench) fn run(file: Option<&Path>) -> Result<()> {
    watch();
    let host = Host::open()?;
    let first = &host.devices[0];
    let mut all = json!({
        "bench": "ranks", "devices": host.devices.iter().map(Device::name).collect::<Vec<_>>(), "driver": driver(first),
        "date": host::today(), "commit": commit(), "protocol": PROTOCOL, "cases": [],
    });
    println!("{} GPUs: {}", host.devices.len(), first.name());
    let mut failed = Vec::new();
    for problem in cases(host.devices.len() as i64) {
        match case(&host, problem) {
            Ok(value) => {
                let cases = all["cases"].as_array_mut();
                cases.context("cases are a list")?.push(value);
            }
            Err(why) => {
                println!("FAILED {why:#}");
                failed.push(problem.to_string());
            }
        }
        if let Some(path) = file {
            let text = serde_json::to_string_pretty(&all)? + "\n";
            std::fs::write(path, text)
                .with_context(|| format!("{} cannot be written", path.display()))?;
        }
    }
    if failed.is_empty() {
        Ok(())
    } else {
        bail!(
            "{} of the products failed: {}",
            failed.len(),
            failed.join("; ")
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_case_is_a_problem_on_2_4_and_8_ranks() {
        for ranks in [2, 4, 8] {
            assert!(cases(ranks).iter().all(|problem| problem.layouts().is_ok()));
        }
    }

    #[test]
    fn a_sum_that_lacks_a_chunk_is_not_close() {
        let k = 8192;
        assert!(close(10.0, 10.02, k, 1.0));
        // Without one of 32 parts of K, the deviation of what is missing is a sixth of the sum's.
        assert!(!close(10.0, 11.0, k, 1.0));
    }
}
