//! Products over the GPUs of this host, in one process: copies that overlap the product beside one after the other, and each part
//! alone. Every result is compared, bit for bit with that of the path without overlap and by samples with the host's.

pub(super) mod checked;
pub(crate) mod scaling;
pub(crate) mod timeline;

use std::path::Path;
use std::process;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use colex_atom::Ty;
use colex_gpu::gemm::ChunkOrder;
use colex_gpu::kernels::gemm::{GemmCall, GemmMethod, GemmPlan, Operands};
use colex_gpu::kernels::{GemmProblem, Major};
use colex_gpu::ranks::{RankDevices, RankPath, RankProblem, RankSends, RankSums};
use colex_gpu::{Buffer, Device, Gemm, View, ViewMut};
use colex_layout::Layout;
use colex_proof::cublaslt::Opponent;
use colex_sched::Overlap;
use colex_sched::pipeline::Schedule;
use half::bf16;
use serde_json::{Value, json};

use super::sweep::CHOICES;
use crate::bench::device::{commit, driver};
use crate::bench::host;
use crate::output;
use crate::verdict::{Checked, Ended};
use checked::{CheckedProduct, Numbers, ProductWay, check, close, normal, same};

/// How the numbers are taken, for the reader of them.
const PROTOCOL: &str = "one process and one thread for all GPUs; batches of runs enqueued without a wait between them, contenders in \
turn, host clock over each batch, medians of 9; normal numbers in bf16; results compared";

/// Samples of each contender, and the least time of one.
pub(super) const SAMPLES: usize = 9;
pub(super) const BATCH: Duration = Duration::from_millis(15);

/// The longest wait for all GPUs, and the time after which the whole process ends.
pub(super) const WITHIN: Duration = Duration::from_secs(20);
const LONGEST: Duration = Duration::from_secs(540);

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
    let reduces = scatters.map(|sizes| of(Overlap::ProductReduce, sizes));
    let scatters = scatters.map(|sizes| of(Overlap::ProductScatter, sizes));
    gathers.into_iter().chain(scatters).chain(reduces).collect()
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
    /// The GPUs of this host, or the first ones.
    fn open(first: Option<usize>) -> Result<Host> {
        let (count, need) = (Device::gpu_count()?, first.unwrap_or(2));
        ensure!(
            count >= need,
            "these products over ranks need {need} GPUs, and there are {count}"
        );
        let devices = (0..first.unwrap_or(count).min(RankDevices::MOST)).map(Device::gpu);
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

/// What was found of one product.
struct RankRun<'a> {
    problem: RankProblem,
    path: String,
    /// The copies and the product, each alone, one after the other, the product in chunks, the overlapped ways, and then what these are
    /// compared with.
    ways: Vec<RankWay<'a>>,
    /// The number of overlapped ways.
    overlapped: usize,
    /// What ended when in one run of a way, by its name.
    times: Vec<(String, String)>,
}

/// Measures a product by its paths, after each has given a right result.
fn case(host: &Host, problem: RankProblem, nccl: bool) -> Result<Value> {
    let RankProblem { ranks, m, n, k, .. } = problem;
    let numbers = Numbers::new(ranks);
    let new = |way: &ProductWay| CheckedProduct::new(host, (problem, &numbers), way);
    let roundings = match problem.overlap {
        Overlap::GatherProduct => 1.0,
        // Each term is rounded, and the sum.
        Overlap::ProductScatter | Overlap::ProductReduce => 1.0 + ranks as f64,
    };
    let behind = |wide: bool| -> Result<_> {
        let mut product = new(&ProductWay::of(RankPath::OneAfterAnother, None, wide))?;
        let c = product.result(host)?;
        let roundings = if wide { 1.0 } else { roundings };
        check("one after the other", (problem, &numbers), &c, roundings)?;
        Ok((product, c))
    };
    let (mut apart, expected) = behind(false)?;
    let wide = match problem.overlap {
        Overlap::GatherProduct => None,
        Overlap::ProductScatter | Overlap::ProductReduce => Some(behind(true)?.1),
    };
    if problem.overlap == Overlap::ProductScatter {
        exact(host, problem)?;
    }
    let checked = |way: &ProductWay| -> Result<(String, CheckedProduct)> {
        let mut product = new(way)?;
        let name = way.name(product.pieces());
        let c = product.result(host).with_context(|| name.clone())?;
        match (way.adds_as_it_likes(problem.overlap), way.wide, &wide) {
            (true, _, _) => check(&name, (problem, &numbers), &c, 1.0 + 2.0 * ranks as f64)?,
            (false, true, Some(wide)) => same(&name, &c, wide)?,
            (false, _, _) => same(&name, &c, &expected)?,
        }
        Ok((name, product))
    };
    // A way that fails keeps none of the others from being measured.
    let (mut overlapped, mut failed) = (Vec::new(), Vec::new());
    for way in ways_of(problem, nccl) {
        match checked(&way) {
            Ok(one) => overlapped.push(one),
            Err(why) => failed.push(format!("{why:#}")),
        }
    }
    ensure!(!overlapped.is_empty(), "{}", failed.join("; "));
    let mut times = Vec::new();
    for (name, product) in &mut overlapped {
        let is_recorded = matches!(product.path(), RankPath::PeerMemory);
        if is_recorded && problem.overlap == Overlap::ProductScatter {
            match product.timeline() {
                Ok(spans) => times.push((name.clone(), timeline::summary(&spans))),
                Err(why) => failed.push(format!("{name}: {why:#}")),
            }
        }
    }
    let path = overlapped[0].1.explain()?.replace('\n', "\n  ");
    let (sent, sends, sizes) = match problem.overlap {
        Overlap::GatherProduct => (m / ranks * k, 1, [m, n / ranks, k]),
        Overlap::ProductScatter => (m / ranks * n, 1, [m, n, k / ranks]),
        Overlap::ProductReduce => (m / ranks * n, 2, [m, n, k / ranks]),
    };
    let (peers, into) = copied(host, sent)?;
    let alone = &alone(host, sizes)?;
    let library = alone.library(host)?;
    // Chunks that are sent need more of a plan.
    let plans = match problem.overlap {
        Overlap::GatherProduct => other_plans(&host.devices[0], sizes, ranks),
        Overlap::ProductScatter | Overlap::ProductReduce => Vec::new(),
    };
    let mut results: Vec<Vec<Buffer<bf16>>> = plans.iter().map(|_| alone.c.clone()).collect();
    let mut ways = vec![copies_alone(host, (peers, into), sends)];
    ways.push(RankWay::new("product alone", || alone.run(host)));
    ways.push(RankWay::new("one after the other", move || apart.run()));
    ways.push(RankWay::new("product alone, in chunks", || {
        alone.run_in_chunks(host, ranks)
    }));
    let count = overlapped.len();
    for (name, mut product) in overlapped {
        ways.push(RankWay::new(name, move || product.run()));
    }
    for choice in 0..library.iter().map(Opponent::choices).min().unwrap_or(0) {
        let name = format!("product alone, cuBLASLt {choice}");
        let library = &library;
        ways.push(RankWay::new(name, move || {
            alone.run_library(host, library, choice)
        }));
    }
    for (plan, results) in plans.into_iter().zip(&mut results) {
        let calls = (0..).zip(results).map(|(rank, c)| {
            let given = (&alone.a[rank], &alone.b[rank], c);
            in_chunks_by(given, sizes, (ranks, rank as i64), plan)
        });
        let calls = calls.collect::<Result<Vec<_>>>()?;
        let name = format!("product alone, in chunks, {}", short(&plan));
        ways.push(RankWay::new(name, move || {
            let mut each = calls.iter().zip(&host.devices);
            each.try_for_each(|(call, device)| Ok(call.run(device)?))
        }));
    }
    let found = RankRun {
        problem,
        path,
        ways,
        overlapped: count,
        times,
    };
    let found = report(host, found)?;
    ensure!(failed.is_empty(), "{}", failed.join("; "));
    Ok(found)
}

/// The rounds in which sums of integers are compared.
const EXACT: usize = 10;

/// Refuses kernels that add to the sums of the owners if a sum of integers lacks a term: the sums are exact, so they have the bits of
/// those of slots in every order.
fn exact(host: &Host, problem: RankProblem) -> Result<()> {
    let numbers = Numbers::integers(problem.ranks);
    let of = |sends| {
        let way = ProductWay::of(RankPath::PeerMemory, None, true).by(sends);
        CheckedProduct::new(host, (problem, &numbers), &way)
    };
    let expected = of(RankSends::Kernel)?.result(host)?;
    let mut added = of(RankSends::Reduction)?;
    for _ in 0..EXACT {
        same("sums of integers", &added.result(host)?, &expected)?;
    }
    Ok(())
}

/// The paths of a case beside the one without overlap; the first is the one that the library takes.
fn ways_of(problem: RankProblem, nccl: bool) -> Vec<ProductWay> {
    let rows = problem.m / problem.ranks;
    let peers = |pieces, wide| ProductWay::of(RankPath::PeerMemory, pieces, wide);
    let mut all = match problem.overlap {
        Overlap::GatherProduct => vec![
            peers(None, false),
            peers(Some(2), false),
            peers(Some(4), false),
        ],
        Overlap::ProductScatter => vec![
            peers(None, false),
            peers(None, false).by(RankSends::Kernel),
            peers(None, false).added(RankSums::Epilogue),
            peers(None, false)
                .by(RankSends::Kernel)
                .added(RankSums::Epilogue),
            peers(None, true),
            peers(None, false).by(RankSends::Reduction),
            peers(None, true).by(RankSends::Reduction),
        ]
        .into_iter()
        .chain((1..problem.ranks - 1).map(|early| peers(None, false).added(RankSums::Early(early))))
        .collect(),
        Overlap::ProductReduce => vec![
            peers(None, false),
            peers(None, false).by(RankSends::Engines),
            peers(Some(1), false),
            peers(Some(2), false),
            peers(Some(4), false),
            peers(None, true),
            peers(None, false).by(RankSends::Reduction),
        ],
    };
    if nccl {
        for path in [RankPath::NcclAfter, RankPath::NcclInChunks] {
            all.push(ProductWay::of(path, None, false));
        }
    }
    all.retain(|way| way.pieces.is_none_or(|pieces| rows % pieces == 0));
    all
}

/// How the overlapped ways compare: the gain of the fastest over one after the other, and that of the longer part alone.
fn gains(medians: &[f64], overlapped: usize) -> [f64; 2] {
    let [copies, product, apart] = [medians[0], medians[1], medians[2]];
    let ways = medians[4..].iter().take(overlapped).copied();
    let best = ways.fold(f64::INFINITY, f64::min);
    [apart / best, apart / copies.max(product)]
}

/// Measures the ways of a product, and prints their line.
fn report(host: &Host, mut found: RankRun<'_>) -> Result<Value> {
    let samples = host.measure(&mut found.ways)?;
    let median = |i: usize| samples[i][samples[i].len() / 2];
    let all = found.ways.iter().enumerate();
    let rows: Vec<Value> = all
        .map(|(i, way)| json!({"name": way.name, "microseconds": median(i), "samples": samples[i]}))
        .collect();
    let medians: Vec<f64> = (0..samples.len()).map(median).collect();
    let [gain, perfect] = gains(&medians, found.overlapped);
    println!("{}\n  {}", found.problem, found.path);
    for (i, way) in found.ways.iter().enumerate() {
        let mut times = found.times.iter();
        let times = times.find(|(name, _)| *name == way.name);
        let times = times.map_or(String::new(), |(_, times)| format!("; one run: {times}"));
        println!("  {:<44} {:>9.1} us{times}", way.name, median(i));
    }
    println!(
        "  the fastest is {gain:.3} times as fast as one after the other; the longer part alone would be {perfect:.3}: {:.2} of that",
        gain / perfect
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
        "gain": gain, "perfect": perfect, "checked": true,
    }))
}

/// Buffers of all ranks, for each rank.
type PeerBuffers = Vec<Vec<Buffer<bf16>>>;

/// The copies of the parts of all ranks, alone: each rank sends its own to the others, the next rank first, once or twice. All ranks
/// write into the one buffer that a rank has for this, whose contents are of no use.
fn copies_alone(
    host: &Host,
    (peers, into): (PeerBuffers, PeerBuffers),
    times: usize,
) -> RankWay<'_> {
    RankWay::new("copies alone", move || {
        let count = host.devices.len();
        for _ in 0..times {
            for (rank, stream) in host.streams.iter().enumerate() {
                for step in 1..count {
                    let to = (rank + step) % count;
                    stream.enqueue_copy(&peers[rank][to], &into[rank][to])?;
                }
            }
        }
        Ok(())
    })
}

/// For each rank, the parts of the other ranks as its work has them, and memory of its own for each.
fn copied(host: &Host, elements: i64) -> Result<(PeerBuffers, PeerBuffers)> {
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
    /// Refuses elements of the first device's C that are not the host's.
    fn check(&self, host: &Host) -> Result<()> {
        self.c[0].fill_bytes(0xff)?;
        self.run(host)?;
        host.join()?;
        let [m, n, k] = self.sizes;
        let (c, [a, b]) = (self.c[0].download()?, [101, 102].map(normal));
        for (i, j) in checked::sampled(m, n) {
            let product =
                |l: i64| a.at((i * k + l) as usize).to_f64() * b.at((j * k + l) as usize).to_f64();
            let expected: f64 = (0..k).map(product).sum();
            let found = c[(i * n + j) as usize].to_f64();
            ensure!(
                close(found, expected, k, 1.0),
                "element ({i},{j}) of C is {found}, and the host's {expected}"
            );
        }
        Ok(())
    }

    /// The same product as the kernels of ranks take it: the rows of one rank after those of another.
    fn run_in_chunks(&self, host: &Host, ranks: i64) -> Result<()> {
        let [m, n, k] = self.sizes;
        let rows = m / ranks;
        let chunks =
            |strides: (i64, i64, i64), columns: i64| Layout::new((rows, columns, ranks), strides);
        for rank in 0..self.a.len().min(host.devices.len()) {
            let a = View::new(&self.a[rank], chunks((k, 1, rows * k), k)?)?;
            let b = View::new(&self.b[rank], Layout::new((n, k, ranks), (k, 1, 0))?)?;
            let mut c = self.c[rank].clone();
            let c = ViewMut::new(&mut c, chunks((n, 1, rows * n), n)?)?;
            let product = Gemm::new(&a, &b, &c);
            product.chunks(ChunkOrder::Descending, rank as i64).run()?;
        }
        Ok(())
    }

    fn run(&self, host: &Host) -> Result<()> {
        let [m, n, k] = self.sizes;
        for rank in 0..self.a.len().min(host.devices.len()) {
            let a: View<'_, bf16> = self.a[rank].view((m, k))?;
            let b = self.b[rank].view((n, k))?;
            let mut c = self.c[rank].clone();
            let c: ViewMut<'_, bf16> = c.view_mut((m, n))?;
            Gemm::new(&a, &b, &c).run()?;
        }
        Ok(())
    }
}

/// The most plans beside the one that the library takes.
const OTHERS: usize = 3;

/// The plans of the list that take chunks, but for the one that the library takes: the fastest by the model.
fn other_plans(device: &Device, [m, n, k]: [i64; 3], ranks: i64) -> Vec<GemmPlan> {
    let operands = Operands {
        ab: Ty::Bf16,
        c: Ty::Bf16,
        majors: [Major::Second; 3],
        vectors: [8; 3],
        beta: false,
        gated: false,
    };
    let problem = GemmProblem {
        batch: ranks,
        ..GemmProblem::new(m / ranks, n, k)
    };
    let all = GemmPlan::alternatives(&problem, operands, device).into_iter();
    let in_chunks = all.filter(|plan| plan.method == GemmMethod::Hopper && plan.split == 1);
    let late = in_chunks.map(|plan| GemmPlan {
        early: false,
        ..plan
    });
    late.skip(1).take(OTHERS).collect()
}

/// What tells such a plan from the others.
fn short(plan: &GemmPlan) -> String {
    let ([m, n, _], [along_m, along_n, _]) = (plan.tile, plan.cluster);
    let schedule = match plan.schedule {
        Schedule::Pingpong => ", pingpong",
        _ => "",
    };
    format!("{m}x{n}, cluster {along_m}x{along_n}{schedule}")
}

/// The product of a rank in chunks by a plan, as the kernels of ranks take it: the rows of one rank after those of another.
fn in_chunks_by<'a>(
    (a, b, c): (&'a Buffer<bf16>, &'a Buffer<bf16>, &'a mut Buffer<bf16>),
    [m, n, k]: [i64; 3],
    (ranks, rank): (i64, i64),
    plan: GemmPlan,
) -> Result<GemmCall<'a>> {
    let rows = m / ranks;
    let chunks = |columns: i64| Layout::new((rows, columns, ranks), (columns, 1, rows * columns));
    let a = View::new(a, chunks(k)?)?;
    let b = View::new(b, Layout::new((n, k, ranks), (k, 1, 0))?)?;
    let c = ViewMut::new(c, chunks(n)?)?;
    let product = Gemm::new(&a, &b, &c).chunks(ChunkOrder::Descending, rank);
    Ok(product.prepare_with(|_, _| Ok(plan))?)
}

impl Alone {
    /// cuBLASLt on each GPU; none where it is not installed.
    fn library(&self, host: &Host) -> Result<Vec<Opponent>> {
        let [m, n, k] = self.sizes;
        let problem = GemmProblem::new(m, n, k);
        let opponents = host
            .devices
            .iter()
            .map(|device| Opponent::new::<bf16, bf16>(device, &problem, CHOICES));
        match opponents.collect::<Result<Vec<_>, _>>() {
            Ok(opponents) => Ok(opponents),
            Err(why) => {
                println!("  without cuBLASLt: {why}");
                Ok(Vec::new())
            }
        }
    }

    /// The product on each GPU by one of cuBLASLt's algorithms.
    fn run_library(&self, host: &Host, library: &[Opponent], choice: usize) -> Result<()> {
        for (rank, (device, one)) in host.devices.iter().zip(library).enumerate() {
            let factors = [&self.a[rank], &self.b[rank]];
            one.run(device, choice, factors, &self.c[rank])?;
        }
        Ok(())
    }
}

/// The refusal of a text that no product has.
const NO_PRODUCT: &str = "no product has the text of `--only-products`";

/// Ends the process if the measurement hangs.
pub(super) fn watch() {
    thread::spawn(|| {
        thread::sleep(LONGEST);
        eprintln!("the bench `ranks` has not ended within {LONGEST:?}: the process ends");
        process::exit(i32::from(output::FAILED));
    });
}

/// What a caller of the bench `ranks` may choose.
#[derive(clap::Args, Clone, Debug, Default)]
pub(crate) struct RankBench {
    /// Numbers of devices for the bench `ranks`, for example `1,2,4`: each of some products is divided over the first 1, 2 and 4
    /// devices. `--svg` draws how the times shrink.
    #[arg(long, requires = "name", value_delimiter = ',')]
    ranks: Vec<usize>,
    /// Measure the paths of NCCL too, with xtask's feature `nccl` and libnccl.
    #[arg(long, requires = "name")]
    nccl: bool,
    /// Record one run of some products with the bench `ranks`: what each device does when. `--svg` draws it.
    #[arg(long, requires = "name", conflicts_with = "ranks")]
    timeline: bool,
    /// Measure, with the bench `ranks`, only the products whose description has this text, for example `reduce-scatter` or
    /// `all-gather and product, 8192 x`.
    #[arg(long, requires = "name", conflicts_with = "ranks", value_name = "TEXT")]
    only_products: Option<String>,
}

impl RankBench {
    /// Whether a product is one of those that are measured.
    fn takes(&self, problem: &RankProblem) -> bool {
        let text = self.only_products.as_deref();
        text.is_none_or(|text| problem.to_string().contains(text))
    }
}

/// Draws what a file has: the scaling over devices, or timelines.
pub(in crate::bench) fn draw(from: &Path, folder: Option<&Path>) -> Result<()> {
    let text = std::fs::read_to_string(from);
    let text = text.with_context(|| format!("{} cannot be read", from.display()))?;
    let all: Value =
        serde_json::from_str(&text).with_context(|| format!("{} is not JSON", from.display()))?;
    let folder = folder.context("--svg names the folder of the drawing")?;
    if all["bench"] == timeline::BENCH {
        timeline::draw_into(&all, folder)
    } else {
        scaling::draw_into(&all, folder)
    }
}

/// A file of numbers, written after each of the products.
fn keep(all: &Value, file: Option<&Path>) -> Result<()> {
    let Some(path) = file else {
        return Ok(());
    };
    let text = serde_json::to_string_pretty(all)? + "\n";
    std::fs::write(path, text).with_context(|| format!("{} cannot be written", path.display()))
}

/// What a file of numbers says of the machine and the protocol.
fn head(bench: &str, host: &Host) -> Value {
    let first = &host.devices[0];
    println!("{} GPUs: {}", host.devices.len(), first.name());
    json!({
        "bench": bench, "devices": host.devices.iter().map(Device::name).collect::<Vec<_>>(), "driver": driver(first),
        "date": host::today(), "commit": commit(), "protocol": PROTOCOL, "cases": [],
    })
}

/// Measures each of the products, and writes their numbers to a file after each.
fn each(
    (mut all, file): (Value, Option<&Path>),
    products: Vec<RankProblem>,
    mut measure: impl FnMut(RankProblem) -> Result<Value>,
) -> Result<Value> {
    let mut failed = Vec::new();
    for problem in products {
        match measure(problem).with_context(|| problem.to_string()) {
            Ok(value) => {
                let cases = all["cases"].as_array_mut();
                cases.context("cases are a list")?.push(value);
            }
            Err(why) => {
                println!("FAILED {why:#}");
                failed.push(problem.to_string());
            }
        }
        keep(&all, file)?;
    }
    match &failed[..] {
        [] => Ok(all),
        _ => bail!(
            "{} of the products failed: {}",
            failed.len(),
            failed.join("; ")
        ),
    }
}

/// Measures all cases, or the scaling over numbers of devices; a folder is for drawings.
pub(in crate::bench) fn run(
    options: &RankBench,
    file: Option<&Path>,
    svg: Option<&Path>,
) -> Result<()> {
    ensure!(
        !options.nccl || cfg!(feature = "nccl"),
        "--nccl needs xtask's feature of that name: \
         `cargo run --release -p xtask --no-default-features --features nccl -- bench ranks --nccl`"
    );
    watch();
    if !options.ranks.is_empty() {
        return scaling::run(&options.ranks, file, svg);
    }
    if options.timeline {
        return timeline::run(options, file, svg);
    }
    let host = Host::open(None)?;
    let products = cases(host.devices.len() as i64).into_iter();
    let products: Vec<_> = products.filter(|one| options.takes(one)).collect();
    ensure!(!products.is_empty(), NO_PRODUCT);
    let all = (head("ranks", &host), file);
    each(all, products, |problem| case(&host, problem, options.nccl)).map(drop)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The contenders behind the overlapped ways are none of these, however fast they are.
    #[test]
    fn gains_are_those_of_the_overlapped_ways() {
        let medians = [30.0, 80.0, 120.0, 85.0, 100.0, 96.0, 60.0, 50.0];
        assert_eq!(gains(&medians, 2), [1.25, 1.5]);
        assert_eq!(gains(&medians, 1), [1.2, 1.5]);
    }

    /// The plans that are measured beside the library's multiply in chunks, with its bits.
    #[test]
    fn other_plans_take_chunks() {
        let device = Device::simulator(colex_atom::Arch::Sm90a);
        let (sizes, ranks) = ([512, 256, 64], 4);
        let [m, n, k] = sizes;
        let numbers = |count: i64| -> Vec<bf16> {
            let number = |i: i64| bf16::from_f32(((i * 37 + 11) % 17) as f32 / 4.0 - 2.0);
            (0..count).map(number).collect()
        };
        let a = device.upload(&numbers(m * k)).expect("memory");
        let b = device.upload(&numbers(n * k)).expect("memory");
        let c = || device.poisoned::<bf16>((m * n) as usize).expect("memory");
        let plans = other_plans(&device, sizes, ranks);
        assert_eq!(plans.len(), OTHERS);
        let mut found = Vec::new();
        for plan in plans {
            let mut c = c();
            let call = in_chunks_by((&a, &b, &mut c), sizes, (ranks, 1), plan);
            call.expect("a plan for chunks")
                .run(&device)
                .expect("a run");
            found.push(c.download().expect("a result"));
        }
        let mut plain = c();
        let whole = plain.view_mut((m, n)).expect("a view");
        let product = Gemm::new(
            &a.view((m, k)).expect("a view"),
            &b.view((n, k)).expect("a view"),
            &whole,
        );
        product.run().expect("a run");
        let plain = plain.download().expect("a result");
        assert!(found.iter().all(|one| *one == plain));
    }

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
