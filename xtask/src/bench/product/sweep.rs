//! Products of many shapes: our default plan, the one that `Gemm::autotune` measures, plans of a list, cuBLASLt's own choice
//! and the best of those it offers. All of them run in turn in one process. Their operands are rotated, so that the L2 cache holds
//! none of them.

use std::fmt;
use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::str::FromStr;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow, ensure};
use clap::ValueEnum;
use colex_gpu::kernels::gemm::{Autotune, Division, GemmCall, GemmMethod, GemmPlan, Operands};
use colex_gpu::kernels::{Compute, GemmElement, GemmProblem, Major};
use colex_gpu::{Buffer, Device, Error, Repeats};
use colex_proof::cublaslt::Opponent;
use colex_sched::pipeline::Schedule;
use colex_sched::{Order, RasterOrder};
use half::{bf16, f16};
use serde_json::{Value, json};

use super::ranks::RankBench;
use super::recorded::{Recorded, STRATUM_NAMES, geometric_mean, percentile, stratum};
use super::reference::{Factors, Sampled};
use crate::bench::device::{commit, driver};
use crate::bench::host;
use crate::output;
use crate::verdict::{Checked, Ended};

pub(in crate::bench) const PROTOCOL: &str = "one process; graphs of calls replayed in turn, another one first in each round; medians; \
normal numbers; operands rotated over 240 MB or 192 sets; each result compared with cuBLASLt's, and elements of both with the host's";

/// Bytes of all operands of a batch together: several times the L2 cache.
const ROTATED: i64 = 240 << 20;

/// The most sets of operands.
const MOST_SETS: i64 = 192;

/// Algorithms that cuBLASLt is asked for.
pub(in crate::bench) const CHOICES: usize = 8;

/// The number of shapes that are measured a second time.
const AGAIN: usize = 20;

/// Products of many shapes against cuBLASLt, for the bench `gemm`.
#[derive(clap::Args, Clone, Debug)]
pub(crate) struct Sweep {
    /// A folder to write the kernels of the bench `attention` to, as PTX with `manifest.json`, or those of the problems that
    /// `--random` draws with `drawn.json`; nothing is measured.
    #[arg(long, requires = "name", conflicts_with = "shapes")]
    export: Option<PathBuf>,
    /// A file of shapes: M, N and K on each line.
    #[arg(long, requires = "name", group = "of_shapes")]
    shapes: Option<PathBuf>,
    /// How many shapes to draw, or problems of attention.
    #[arg(
        long,
        requires = "name",
        conflicts_with = "shapes",
        group = "of_shapes"
    )]
    random: Option<u64>,
    /// The seed of drawn shapes.
    #[arg(long, requires = "of_shapes", default_value_t = 1)]
    seed: u64,
    /// The types of the operands and of C.
    #[arg(long = "type", requires = "of_shapes", value_enum, default_value_t = Types::Bf16)]
    types: Types,
    /// Draw the orders of A, B and C too; shapes of a file take each of the eight.
    #[arg(long, requires = "of_shapes")]
    orders: bool,
    /// The number of the first shape to measure, from 0.
    #[arg(long, requires = "of_shapes", default_value_t = 0)]
    from: usize,
    /// A file of plans: a tile and what differs from the usual plan on each line, for example
    /// `128x128x64 stages=6 warps=2 cluster=2x1x1 group=8n`; `schedule=pingpong` lets two consumers take tiles in turn, `swap=1` swaps A and B, `split=4` divides K into 4
    /// parts, `fixup=2` into 2 that a block adds, `shares=66` divides the steps of all tiles by stream-K, either with `undivided=132` after 132 clusters' tiles, `early=1` lets kernels begin before the launch before them has ended, `gather=1` loads by threads, `pack=1` packs what Hopper's kernel would not multiply as TMA brings it, `vector=2` accesses C by 2 elements, and `method=ampere` is of that kernel.
    #[arg(long, requires = "of_shapes")]
    plans: Option<PathBuf>,
    /// Measure the plan that `Gemm::autotune` takes, with a new file of plans for each run. With the bench `attention`, that of
    /// `Attention::autotune`: of the chosen problems and of steps of decoding, and then of those that `--random` draws.
    #[arg(long, requires = "of_shapes")]
    tune: bool,
    /// Measure every plan that the library may choose.
    #[arg(long, requires = "of_shapes")]
    every: bool,
    /// Measure the plan of `Gemm::batch_invariant` too.
    #[arg(long, requires = "of_shapes")]
    invariant: bool,
    /// The factor of C before the product: with one other than 0, both libraries read C.
    #[arg(long, requires = "of_shapes", default_value_t = 0.0)]
    beta: f64,
    /// Measure the default plan, or those of `--every`, with kernels that begin the other way too: early, or in order.
    #[arg(long, requires = "of_shapes")]
    early: bool,
    /// A folder to write drawings to: the ratios of speeds by stratum (`ratios.svg`), the roofline (`roofline.svg`) and, of attention, the
    /// plans that were chosen (`plans.svg`), of drawn problems or of the chosen ones; or the scaling over devices (`scaling.svg`), or
    /// their timelines (`timeline-0.svg` and so on).
    #[arg(long, requires = "name")]
    svg: Option<PathBuf>,
    /// A file of numbers to draw with `--svg`, which `bench gemm FILE --shapes ..` or `--random ..`, `bench attention FILE` with or
    /// without `--random ..`, or `bench ranks FILE` with `--ranks ..` or `--timeline` wrote; nothing is measured.
    #[arg(long, requires = "svg", conflicts_with_all = ["shapes", "random"])]
    plot: Option<PathBuf>,
    /// Measure only what has this text in its name, of the benches of rows, reductions, maps and quantisation, such as
    /// `layer norm bf16, 4096 rows of 16384`; it may be given several times.
    #[arg(long, requires = "name", conflicts_with = "of_shapes")]
    only: Vec<String>,
    /// Measure the default plans of those benches beside PyTorch, eager and compiled: the script that runs it, which is
    /// `gpu/bench/beside_torch.py`. Its process and this one take turns on the device.
    #[arg(long, requires = "name", conflicts_with = "of_shapes")]
    torch: Option<PathBuf>,
    /// Stop before the next shape after this number of seconds.
    #[arg(long, requires = "of_shapes")]
    seconds: Option<u64>,
    #[command(flatten)]
    ranks: RankBench,
}

/// The types of A and B, and of C.
#[derive(Clone, Copy, Debug, PartialEq, ValueEnum)]
enum Types {
    Bf16,
    F16,
    /// bf16 into f32.
    Bf16F32,
    /// f32, multiplied as tf32.
    Tf32,
    /// f32, by three products in tf32; cuBLASLt multiplies in f32.
    Tf32x3,
    /// i8 into i32.
    S8,
}

impl Sweep {
    /// Returns the folder that kernels are exported to.
    pub(in crate::bench) fn export(&self) -> Option<&Path> {
        self.export.as_deref()
    }

    pub(in crate::bench) fn is_asked(&self) -> bool {
        self.shapes.is_some() || self.random.is_some()
    }

    /// Checks that no type is asked of a bench that has operands of bf16 alone.
    ///
    /// # Errors
    ///
    /// Returns an error for another type.
    pub(in crate::bench) fn check_bf16(&self, bench: &str) -> Result<()> {
        ensure!(
            self.types == Types::Bf16,
            "the bench `{bench}` has operands of bf16: `--type` is of the bench `gemm`"
        );
        Ok(())
    }

    /// Returns the seed of drawn problems.
    pub(in crate::bench) fn seed(&self) -> u64 {
        self.seed
    }

    /// Returns the numbers of the problems to draw.
    pub(in crate::bench) fn numbers(&self) -> std::ops::Range<u64> {
        let end = self.random.unwrap_or(0);
        (self.from as u64).min(end)..end
    }

    /// Returns whether problems are drawn.
    pub(in crate::bench) fn is_random(&self) -> bool {
        self.random.is_some()
    }

    /// Returns what is asked of the bench `ranks`.
    pub(in crate::bench) fn ranks(&self) -> &RankBench {
        &self.ranks
    }

    /// Whether the other plans of the model are measured too.
    pub(in crate::bench) fn is_every(&self) -> bool {
        self.every
    }

    /// Whether tuned plans are measured too.
    pub(in crate::bench) fn is_tuned(&self) -> bool {
        self.tune
    }

    /// Returns a new file of measured plans, if tuned plans are wanted.
    pub(in crate::bench) fn tuning(&self) -> Result<Option<Tuning>> {
        self.tune.then(Tuning::new).transpose()
    }

    /// Returns the texts of which a group has one in its name; none if all groups are measured.
    pub(in crate::bench) fn only(&self) -> &[String] {
        &self.only
    }

    /// Returns the script that runs PyTorch beside the default plans.
    pub(in crate::bench) fn torch(&self) -> Option<&Path> {
        self.torch.as_deref()
    }

    /// Returns the folder of the drawings.
    pub(in crate::bench) fn svg(&self) -> Option<&Path> {
        self.svg.as_deref()
    }

    /// Returns the file of numbers that is only drawn.
    pub(in crate::bench) fn plot(&self) -> Option<&Path> {
        self.plot.as_deref()
    }

    /// Draws what a file has.
    pub(in crate::bench) fn draw(&self, from: &Path) -> Result<ExitCode> {
        let text = std::fs::read_to_string(from)
            .with_context(|| format!("{} cannot be read", from.display()))?;
        self.drawings(&text)
            .with_context(|| from.display().to_string())?;
        Ok(ExitCode::SUCCESS)
    }

    /// Writes the drawings of what a sweep wrote, if they are wanted.
    fn drawings(&self, text: &str) -> Result<()> {
        let Some(folder) = &self.svg else {
            return Ok(());
        };
        let recorded = Recorded::parse(text)?;
        std::fs::create_dir_all(folder)
            .with_context(|| format!("{} cannot be made", folder.display()))?;
        let drawings = [
            ("ratios", recorded.ratios()),
            ("roofline", recorded.roofline()),
        ];
        for (name, svg) in drawings {
            let path = folder.join(format!("{name}.svg"));
            std::fs::write(&path, svg + "\n")
                .with_context(|| format!("{} cannot be written", path.display()))?;
            println!("{}", path.display());
        }
        Ok(())
    }

    /// The time after which no other shape begins.
    pub(in crate::bench) fn budget(&self) -> Duration {
        self.seconds.map_or(Duration::MAX, Duration::from_secs)
    }

    /// Measures the shapes on a device. `json` is where their lines go.
    pub(in crate::bench) fn run(&self, device: &Device, json: Option<&Path>) -> Result<ExitCode> {
        let problems = self.problems()?;
        let plans = self.plans()?;
        match self.types {
            Types::Bf16 => measure::<bf16, bf16>(self, device, &problems, &plans, json),
            Types::F16 => measure::<f16, f16>(self, device, &problems, &plans, json),
            Types::Bf16F32 => measure::<bf16, f32>(self, device, &problems, &plans, json),
            Types::Tf32 | Types::Tf32x3 => {
                measure::<f32, f32>(self, device, &problems, &plans, json)
            }
            Types::S8 => measure::<i8, i32>(self, device, &problems, &plans, json),
        }
    }

    /// The plans of the file, if one is given.
    pub(in crate::bench) fn plans(&self) -> Result<Vec<PlanLine>> {
        match &self.plans {
            Some(path) => lines(path)?.iter().map(|line| line.parse()).collect(),
            None => Ok(Vec::new()),
        }
    }

    pub(in crate::bench) fn problems(&self) -> Result<Vec<GemmProblem>> {
        let shapes = match &self.shapes {
            Some(path) => lines(path)?
                .iter()
                .map(|line| shape(line))
                .collect::<Result<_>>()?,
            None => (0..self.random.unwrap_or(0))
                .map(|i| drawn(self.seed, i))
                .collect::<Vec<_>>(),
        };
        let mut problems = Vec::new();
        for (i, [m, n, k]) in shapes.into_iter().enumerate() {
            let mut problem = GemmProblem::new(m, n, k).beta(self.beta);
            match self.types {
                Types::Tf32 => problem = problem.compute(Compute::Tf32),
                Types::Tf32x3 => problem = problem.compute(Compute::Tf32x3),
                Types::Bf16 | Types::F16 | Types::Bf16F32 | Types::S8 => {}
            }
            let orders = match (self.orders, &self.shapes) {
                (false, _) => 0..1,
                (true, Some(_)) => 0..8,
                (true, None) => {
                    let one = Random::new(self.seed ^ 0x5bd1, i as u64).below(8);
                    one..one + 1
                }
            };
            problems.extend(orders.map(|bits| {
                let major = |i: u64| match (bits >> i) & 1 {
                    0 => Major::Second,
                    _ => Major::First,
                };
                GemmProblem {
                    majors: [0, 1, 2].map(major),
                    ..problem
                }
            }));
        }
        ensure!(
            self.from < problems.len(),
            "there are {} shapes",
            problems.len()
        );
        problems.drain(..self.from);
        Ok(problems)
    }
}

/// The lines of a file that are not empty and no comments.
fn lines(path: &Path) -> Result<Vec<String>> {
    let text = std::fs::read_to_string(path)
        .with_context(|| format!("{} cannot be read", path.display()))?;
    let lines = text.lines().map(str::trim);
    let lines = lines.filter(|line| !line.is_empty() && !line.starts_with('#'));
    Ok(lines.map(String::from).collect())
}

/// M, N and K, with spaces, commas or `x` between them.
fn shape(line: &str) -> Result<[i64; 3]> {
    let numbers = numbers(line).with_context(|| format!("`{line}` is no shape: M, N and K"))?;
    let shape: Result<[i64; 3], _> = numbers.try_into();
    shape.map_err(|numbers| anyhow!("`{line}` has {} numbers: a shape has 3", numbers.len()))
}

fn numbers(text: &str) -> Result<Vec<i64>> {
    let words = text.split(|c: char| c == 'x' || c == ',' || c.is_whitespace());
    let words = words.filter(|word| !word.is_empty());
    Ok(words.map(i64::from_str).collect::<Result<_, _>>()?)
}

/// `xorshift64*` of a seed and the number of a case.
pub(in crate::bench) struct Random(u64);

impl Random {
    pub(in crate::bench) fn new(seed: u64, case: u64) -> Random {
        let mixed =
            seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ case.wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mut random = Random(mixed | 1);
        for _ in 0..8 {
            random.next();
        }
        random
    }

    fn next(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 11
    }

    pub(in crate::bench) fn below(&mut self, n: u64) -> u64 {
        self.next() % n
    }

    /// From 0 to 1, neither of them.
    pub(in crate::bench) fn uniform(&mut self) -> f64 {
        (self.next() as f64 + 0.5) / (1_u64 << 53) as f64
    }
}

/// The shape with a number, of a seed: extents log-uniform in 1 to 16384, four times in five with N and K multiples of 8.
fn drawn(seed: u64, number: u64) -> [i64; 3] {
    let mut random = Random::new(seed, number);
    let mut extent = || (random.uniform() * f64::ln(16385.0)).exp().floor() as i64;
    let [m, n, k] = [extent(), extent(), extent()];
    if random.below(5) == 0 {
        return [m, n, k];
    }
    let up = |n: i64| (n + 7) / 8 * 8;
    [m, up(n), up(k)]
}

/// A plan as the change that it makes to the usual one of its kernel, which is Hopper's if none is named.
#[derive(Clone, Debug)]
pub(in crate::bench) struct PlanLine {
    text: String,
    method: GemmMethod,
    tile: [i64; 3],
    stages: Option<i64>,
    warps: Option<[i64; 2]>,
    schedule: Schedule,
    swap: bool,
    gather: bool,
    pack: bool,
    split: i64,
    division: Division,
    undivided: i64,
    /// The columns of a tile, of a kernel for several widths.
    columns: i64,
    early: bool,
    cluster: Option<[i64; 3]>,
    order: Option<Order>,
    /// The elements of an access to C.
    vector: Option<i64>,
}

impl FromStr for PlanLine {
    type Err = anyhow::Error;

    fn from_str(line: &str) -> Result<PlanLine> {
        let mut words = line.split_whitespace();
        let mut variant = PlanLine {
            text: line.to_string(),
            method: GemmMethod::Hopper,
            tile: shape(words.next().unwrap_or_default())?,
            stages: None,
            warps: None,
            schedule: Schedule::Cooperative,
            swap: false,
            gather: false,
            pack: false,
            split: 1,
            division: Division::SplitK,
            undivided: 0,
            columns: 0,
            early: false,
            cluster: None,
            order: None,
            vector: None,
        };
        for word in words {
            let (name, value) = word
                .split_once('=')
                .with_context(|| format!("`{word}` of `{line}` is not NAME=VALUE"))?;
            match name {
                "columns" => variant.columns = value.parse()?,
                "stages" => variant.stages = Some(value.parse()?),
                "warps" => {
                    let units = numbers(value)?;
                    variant.warps = match units[..] {
                        [m] => Some([m, 1]),
                        [m, n] => Some([m, n]),
                        _ => anyhow::bail!("`{value}` is no number of warps along M and N"),
                    };
                }
                "schedule" => {
                    variant.schedule = match value {
                        "cooperative" => Schedule::Cooperative,
                        "pingpong" => Schedule::Pingpong,
                        _ => anyhow::bail!("a schedule is cooperative or pingpong, not `{value}`"),
                    }
                }
                "swap" => variant.swap = value == "1",
                "gather" => variant.gather = value == "1",
                "pack" => variant.pack = value == "1",
                "split" => variant.split = value.parse()?,
                "shares" => {
                    (variant.split, variant.division) = (value.parse()?, Division::StreamK);
                }
                "fixup" => {
                    (variant.split, variant.division) = (value.parse()?, Division::SplitKFixup);
                }
                "undivided" => variant.undivided = value.parse()?,
                "early" => variant.early = value == "1",
                "method" => {
                    variant.method = match value {
                        "hopper" => GemmMethod::Hopper,
                        "ampere" => GemmMethod::Ampere,
                        "gemv" => GemmMethod::Gemv,
                        _ => anyhow::bail!("plans are of hopper, ampere or gemv, not of `{value}`"),
                    }
                }
                "cluster" => variant.cluster = Some(shape(value)?),
                "vector" => variant.vector = Some(value.parse()?),
                "group" => {
                    let (width, raster) = match value.strip_suffix('n') {
                        Some(width) => (width, RasterOrder::AlongN),
                        None => (value.trim_end_matches('m'), RasterOrder::AlongM),
                    };
                    let width = width.parse()?;
                    variant.order = Some(Order::Grouped { width, raster });
                }
                _ => anyhow::bail!(
                    "a plan has no `{name}`: method, columns, stages, warps, schedule, swap, split, fixup, shares, undivided, early, gather, \
                     pack, cluster, vector and group"
                ),
            }
        }
        Ok(variant)
    }
}

impl PlanLine {
    /// Returns the line as it was read.
    pub(in crate::bench) fn text(&self) -> &str {
        &self.text
    }

    pub(in crate::bench) fn plan(&self, operands: Operands) -> GemmPlan {
        let mut usual = GemmPlan::new(self.method, operands);
        if let Some(vector) = self.vector {
            usual.operands.vectors[2] = vector;
        }
        let warps = match self.method {
            GemmMethod::Hopper if self.schedule == Schedule::Pingpong => [1, 1],
            GemmMethod::Hopper => [(self.tile[0] / 64).min(2), 1],
            _ => usual.warps,
        };
        GemmPlan {
            tile: self.tile,
            stages: self.stages.unwrap_or(usual.stages),
            warps: self.warps.unwrap_or(warps),
            schedule: self.schedule,
            swap: self.swap,
            gather: self.gather,
            split: self.split,
            division: self.division,
            undivided: self.undivided,
            columns: self.columns,
            early: self.early,
            cluster: self.cluster.unwrap_or(usual.cluster),
            order: self.order.unwrap_or(usual.order),
            ..usual
        }
    }
}

/// Memory of normal numbers, and memory for results.
pub(in crate::bench) struct Pools<T, C> {
    operands: Buffer<T>,
    results: Buffer<C>,
    /// The numbers that the operands repeat.
    block: Vec<T>,
    /// What C is before a product that reads it.
    before: Option<Before<C>>,
}

/// The numbers of C before a product, on the device and those that they repeat.
struct Before<C> {
    numbers: Buffer<C>,
    block: Vec<f64>,
}

/// Where the matrices of one set lie: a step in elements from one matrix to the next.
fn step<T: GemmElement>(elements: i64) -> i64 {
    let line = 256 / T::BYTES as i64;
    (elements + line - 1) / line * line
}

/// The number of sets of operands of a problem.
pub(in crate::bench) fn sets<T: GemmElement, C: GemmElement>(problem: &GemmProblem) -> i64 {
    let GemmProblem { m, n, k, .. } = problem;
    let bytes = (m * k + n * k) * T::BYTES as i64 + m * n * C::BYTES as i64;
    (ROTATED / bytes.max(1) + 1).min(MOST_SETS)
}

impl<T: GemmElement, C: GemmElement> Pools<T, C> {
    /// Memory for the largest of the problems.
    pub(in crate::bench) fn new(device: &Device, problems: &[GemmProblem]) -> Result<Pools<T, C>> {
        let most = |size: &dyn Fn(&GemmProblem) -> i64| {
            let sizes = problems.iter().map(|p| sets::<T, C>(p) * size(p));
            sizes.max().unwrap_or(1) as usize
        };
        let operands =
            device.uninitialised(most(&|p| step::<T>(p.m * p.k) + step::<T>(p.n * p.k)))?;
        let block = normal(&operands)?;
        let results = device.uninitialised(most(&|p| step::<C>(p.m * p.n)))?;
        let is_read = problems.iter().any(|problem| problem.beta != 0.0);
        let before = if is_read {
            let sizes = problems.iter().map(|p| p.m * p.n);
            let numbers = device.uninitialised::<C>(sizes.max().unwrap_or(1) as usize)?;
            normal(&results)?;
            let block = normal(&numbers)?;
            let block = block.iter().map(|value| value.to_f64()).collect();
            Some(Before { numbers, block })
        } else {
            None
        };
        Ok(Pools {
            operands,
            results,
            block,
            before,
        })
    }

    /// The numbers of A and B of the first set.
    fn factors<'a>(&'a self, problem: &'a GemmProblem) -> Factors<'a, T> {
        Factors {
            problem,
            block: &self.block,
            b: step::<T>(problem.m * problem.k) as usize,
            before: self.before.as_ref().map(|before| &before.block[..]),
        }
    }

    /// Writes what C is before a product: the same numbers each time, or values that no product has where it is not read.
    fn start(&self, c: &Buffer<C>) -> Result<()> {
        match &self.before {
            Some(before) => c.copy_from(&before.numbers.slice(..c.len())?)?,
            None => c.fill_bytes(0xff)?,
        }
        Ok(())
    }

    /// A, B and C of the set with a number.
    pub(in crate::bench) fn set(
        &self,
        problem: &GemmProblem,
        number: i64,
    ) -> Result<(Buffer<T>, Buffer<T>, Buffer<C>)> {
        let GemmProblem { m, n, k, .. } = problem;
        let [a, b, c] = [step::<T>(m * k), step::<T>(n * k), step::<C>(m * n)];
        let part = |from: i64, length: i64| from as usize..(from + length) as usize;
        Ok((
            self.operands.slice(part(number * (a + b), m * k))?,
            self.operands.slice(part(number * (a + b) + a, n * k))?,
            self.results.slice(part(number * c, m * n))?,
        ))
    }
}

/// Elements of the block of numbers that is repeated: a prime, so that no row of a matrix repeats another.
const BLOCK: usize = 4_194_301;

/// Fills a buffer with normally distributed numbers, small integers where the type has no others. Returns those that it repeats.
pub(in crate::bench) fn normal<T: GemmElement>(buffer: &Buffer<T>) -> Result<Vec<T>> {
    let mut random = Random::new(7, 1);
    let scale = if T::BYTES == 1 { 30.0 } else { 1.0 };
    let count = BLOCK.min(buffer.len());
    let block: Vec<T> = (0..count)
        .map(|_| {
            let radius = (-2.0 * random.uniform().ln()).sqrt();
            let angle = std::f64::consts::TAU * random.uniform();
            T::from_f64(scale * radius * angle.cos())
        })
        .collect();
    let first = buffer.slice(..count)?;
    first.write(&block)?;
    let mut filled = count;
    while filled < buffer.len() {
        let more = filled.min(buffer.len() - filled);
        buffer
            .slice(filled..filled + more)?
            .copy_from(&buffer.slice(..more)?)?;
        filled += more;
    }
    Ok(block)
}

/// Values of JSON, one on each line, kept and written to a file if one is wanted.
pub(in crate::bench) struct Lines {
    file: Option<BufWriter<File>>,
    text: String,
}

impl Lines {
    pub(in crate::bench) fn new(path: Option<&Path>) -> Result<Lines> {
        let open = |path: &Path| {
            let file = File::create(path);
            file.with_context(|| format!("{} cannot be written", path.display()))
        };
        Ok(Lines {
            file: path.map(open).transpose()?.map(BufWriter::new),
            text: String::new(),
        })
    }

    /// Returns all lines.
    pub(in crate::bench) fn text(&self) -> &str {
        &self.text
    }

    pub(in crate::bench) fn write(&mut self, value: &Value) -> Result<()> {
        let line = format!("{value}\n");
        if let Some(out) = &mut self.file {
            out.write_all(line.as_bytes())?;
            out.flush()?;
        }
        self.text += &line;
        Ok(())
    }
}

/// What was found for a shape.
#[derive(Clone, Debug)]
pub(super) struct Measured {
    problem: GemmProblem,
    sets: i64,
    /// Microseconds of each of cuBLASLt's algorithms, its own choice first.
    library: Vec<f64>,
    /// Our plans: the default first.
    ours: Vec<Ours>,
}

/// How a plan of ours was found.
#[derive(Clone, Copy, Debug, PartialEq)]
enum FoundBy {
    /// By the model.
    Default,
    /// By `Gemm::autotune`.
    Tuned,
    /// By the model, for results that do not depend on M.
    Invariant,
    /// In a list.
    List,
}

impl FoundBy {
    fn name(self) -> &'static str {
        match self {
            FoundBy::Default => "default",
            FoundBy::Tuned => "tuned",
            FoundBy::Invariant => "invariant",
            FoundBy::List => "list",
        }
    }
}

#[derive(Clone, Debug)]
struct Ours {
    name: String,
    by: FoundBy,
    /// Microseconds, or the refusal.
    time: Result<f64, String>,
}

impl Measured {
    pub(super) fn best(&self) -> f64 {
        self.library.iter().copied().fold(f64::INFINITY, f64::min)
    }

    /// The plans of the list: their microseconds, or their refusals.
    pub(super) fn listed(&self) -> Vec<(String, Result<f64, String>)> {
        let listed = self.ours.iter().filter(|one| one.by == FoundBy::List);
        listed
            .map(|one| (one.name.clone(), one.time.clone()))
            .collect()
    }

    /// The speed of the default plan over that of cuBLASLt's best.
    fn ratio(&self) -> f64 {
        self.best() / self.default()
    }

    fn default(&self) -> f64 {
        self.ours[0].time.as_ref().map_or(f64::NAN, |time| *time)
    }

    /// Whether every plan that the library takes by itself has a time: none was refused, and no result was wrong.
    fn is_right(&self) -> bool {
        let mut own = self.ours.iter().filter(|one| one.by != FoundBy::List);
        own.all(|one| one.time.is_ok())
    }

    /// The time of the plan that was measured by `Gemm::autotune`, and its name.
    fn tuned(&self) -> Option<(f64, &str)> {
        self.fastest(|by| by == FoundBy::Tuned)
    }

    /// The fastest of the plans that were found in one of some ways.
    fn fastest(&self, wanted: impl Fn(FoundBy) -> bool) -> Option<(f64, &str)> {
        let ours = self.ours.iter().filter(|one| wanted(one.by));
        let times = ours.filter_map(|one| {
            let time = one.time.as_ref().ok()?;
            Some((*time, one.name.as_str()))
        });
        times.min_by(|x, y| x.0.total_cmp(&y.0))
    }

    fn json(&self) -> Value {
        let GemmProblem {
            m, n, k, majors, ..
        } = self.problem;
        let ours: Vec<Value> = (self.ours.iter())
            .map(|one| match &one.time {
                Ok(time) => json!({"plan": one.name, "us": round(*time), "by": one.by.name()}),
                Err(why) => json!({"plan": one.name, "refused": why, "by": one.by.name()}),
            })
            .collect();
        json!({
            "m": m, "n": n, "k": k, "first": majors.map(|major| major == Major::First), "sets": self.sets,
            "library": self.library.iter().map(|time| round(*time)).collect::<Vec<_>>(), "ours": ours,
        })
    }
}

pub(in crate::bench) fn round(value: f64) -> f64 {
    (value * 1e3).round() / 1e3
}

impl fmt::Display for Measured {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let GemmProblem {
            m, n, k, majors, ..
        } = self.problem;
        let best = self.best();
        let (fastest, name) = self.fastest(|_| true).unwrap_or((f64::NAN, "none"));
        let tuned = self.tuned().map_or(String::new(), |(tuned, _)| {
            format!(" tuned {tuned:>9.2} {:>5.3} |", best / tuned)
        });
        let order: String = majors
            .map(|major| if major == Major::First { 'f' } else { 's' })
            .iter()
            .collect();
        write!(
            f,
            "{:<18} {order} {:>9.2} {best:>9.2} | {:>9.2} {:>5.3} {} |{tuned} {fastest:>9.2} {:>5.3} {name}",
            format!("{m}x{n}x{k}"),
            self.library[0],
            self.default(),
            best / self.default(),
            self.ours[0].name,
            best / fastest,
        )
    }
}

fn measure<T: GemmElement, C: GemmElement>(
    sweep: &Sweep,
    device: &Device,
    problems: &[GemmProblem],
    plans: &[PlanLine],
    json: Option<&Path>,
) -> Result<ExitCode> {
    let started = Instant::now();
    let budget = sweep.budget();
    let mut lines = Lines::new(json)?;
    println!(
        "{}, {}; {PROTOCOL}\nM x N x K, order, cuBLASLt's choice, its best (us) | ours, of the best | the fastest of ours, of the best",
        device.name(),
        driver(device)
    );
    lines.write(&json!({
        "bench": "gemm", "device": device.name(), "driver": driver(device), "date": host::today(),
        "commit": commit(), "protocol": PROTOCOL, "types": [T::NAME, C::NAME], "beta": sweep.beta,
    }))?;
    let pools = Pools::<T, C>::new(device, problems)?;
    let tuning = sweep.tuning()?;
    let tuned = tuning.as_ref().map(Tuning::measured);
    let mut all: Vec<Measured> = Vec::new();
    let mut wrong = Vec::new();
    for problem in problems {
        if started.elapsed() > budget {
            println!("stopped after {} of {} shapes", all.len(), problems.len());
            break;
        }
        let wanted = Wanted {
            plans,
            tuned,
            every: sweep.every,
            invariant: sweep.invariant,
            early: sweep.early,
        };
        let found = one(device, &pools, problem, &wanted, &mut wrong);
        let found = found.with_context(|| problem.to_string())?;
        println!("{found}");
        lines.write(&found.json())?;
        Checked {
            data: found.json(),
            ..Checked::new(problem.to_string(), Ended::of(found.is_right()), PROTOCOL)
        }
        .add();
        all.push(found);
    }
    summarise(&all);
    println!("\nthe lowest, measured again");
    for found in lowest(&all) {
        if started.elapsed() > budget {
            break;
        }
        let again = one(
            device,
            &pools,
            &found.problem,
            &Wanted::default(),
            &mut wrong,
        )?;
        println!("{again}  before {:.3}", found.ratio());
        let mut value = again.json();
        value["again"] = true.into();
        lines.write(&value)?;
    }
    println!("{:.0} s", started.elapsed().as_secs_f64());
    if let Some(tuning) = &tuning {
        tuning.check_kept()?;
    }
    sweep.drawings(&lines.text)?;
    Ok(finished(all.len(), &wrong))
}

/// The shapes of the lowest ratios, the lowest first.
fn lowest(all: &[Measured]) -> Vec<&Measured> {
    let mut lowest: Vec<&Measured> = all.iter().collect();
    lowest.sort_by(|x, y| x.ratio().total_cmp(&y.ratio()));
    lowest.truncate(AGAIN);
    lowest
}

/// The plans of a shape that are measured beside the default one.
#[derive(Default)]
pub(super) struct Wanted<'a> {
    plans: &'a [PlanLine],
    /// The file of `Gemm::autotune`.
    tuned: Option<&'a Autotune>,
    /// Every plan that the library may choose.
    every: bool,
    /// That of `Gemm::batch_invariant`.
    invariant: bool,
    /// The same plans with kernels that begin the other way.
    early: bool,
}

impl<'a> Wanted<'a> {
    /// The plans of a list.
    pub(super) fn of(plans: &'a [PlanLine]) -> Wanted<'a> {
        Wanted {
            plans,
            ..Wanted::default()
        }
    }
}

/// A new file of measured plans, which is removed at the end.
pub(in crate::bench) struct Tuning {
    path: PathBuf,
    measured: Autotune,
}

impl Tuning {
    /// Returns the file.
    pub(in crate::bench) fn measured(&self) -> &Autotune {
        &self.measured
    }

    /// Checks that every measured plan is in the file.
    pub(in crate::bench) fn check_kept(&self) -> Result<()> {
        let unsaved = self.measured.unsaved();
        ensure!(unsaved.is_empty(), "plans were not kept: {unsaved:?}");
        Ok(())
    }

    fn new() -> Result<Tuning> {
        let name = format!("colex-bench-plans-{}", std::process::id());
        let path = std::env::temp_dir().join(name);
        let measured = Autotune::open(&path)?;
        ensure!(measured.is_empty(), "{} has plans already", path.display());
        Ok(Tuning { path, measured })
    }
}

impl Drop for Tuning {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.path);
    }
}

/// What is wrong about plans that the library takes by itself and refuses: a plan of a list may be none of the shape.
fn refusals(problem: &GemmProblem, ours: &[Calls<'_>]) -> Vec<String> {
    let own = ours.iter().filter(|(_, by, _)| *by != FoundBy::List);
    own.filter_map(|(_, by, calls)| {
        let why = calls.as_ref().err()?;
        Some(format!(
            "{problem}: the {} plan is refused: {why}",
            by.name()
        ))
    })
    .collect()
}

/// Says which results are wrong, and adds the verdict on all.
pub(in crate::bench) fn finished(shapes: usize, wrong: &[String]) -> ExitCode {
    for line in wrong {
        println!("WRONG: {line}");
    }
    Checked::new(
        "results",
        Ended::of(wrong.is_empty()),
        format!("{shapes} shapes"),
    )
    .complaining(&wrong.join("\n"))
    .add();
    output::code(wrong.is_empty())
}

/// The call of a contender for a set of operands.
pub(in crate::bench) type Work<'a> = dyn Fn(&Device, usize) -> Result<(), Error> + 'a;

/// A prepared plan, with its calls for all sets.
type Calls<'a> = (String, FoundBy, Result<Vec<GemmCall<'a>>, String>);

/// The calls of a plan that the library takes, by the plan's name.
fn named(by: FoundBy, calls: Result<Vec<GemmCall<'_>>, Error>) -> Calls<'_> {
    let name = match &calls {
        Ok(calls) => calls[0].to_string(),
        Err(_) => by.name().to_string(),
    };
    (name, by, calls.map_err(|refused| refused.to_string()))
}

pub(super) fn one<T: GemmElement, C: GemmElement>(
    device: &Device,
    pools: &Pools<T, C>,
    problem: &GemmProblem,
    wanted: &Wanted<'_>,
    wrong: &mut Vec<String>,
) -> Result<Measured> {
    let sets = sets::<T, C>(problem);
    let mut matrices = (0..sets)
        .map(|i| pools.set(problem, i))
        .collect::<Result<Vec<_>>>()?;
    let library = Opponent::new::<T, C>(device, problem, CHOICES)?;
    let raw = matrices.clone();
    let gemms = matrices
        .iter_mut()
        .map(|(a, b, c)| problem.on(&*a, &*b, c))
        .collect::<Result<Vec<_>, Error>>()?;
    let default: Result<Vec<_>, Error> = gemms.iter().map(|gemm| gemm.prepare()).collect();
    let ready = default.iter().find_map(|calls| calls[0].plan().copied());
    let mut ours: Vec<Calls<'_>> = vec![named(FoundBy::Default, default)];
    if let Some(measured) = wanted.tuned {
        // The first call measures; those of the other sets find the plan.
        let tuned = gemms
            .iter()
            .map(|gemm| gemm.clone().autotune(measured).prepare());
        ours.push(named(FoundBy::Tuned, tuned.collect()));
    }
    if wanted.invariant {
        let calls = gemms
            .iter()
            .map(|gemm| gemm.clone().batch_invariant().prepare());
        ours.push(named(FoundBy::Invariant, calls.collect()));
    }
    let prepared = |name: String, by: FoundBy, calls: Result<Vec<_>, Error>| -> Calls<'_> {
        (name, by, calls.map_err(|refused| refused.to_string()))
    };
    for variant in wanted.plans {
        let calls = gemms
            .iter()
            .map(|gemm| {
                let gemm = gemm.clone().pack(variant.pack);
                gemm.prepare_with(|operands, _| Ok(variant.plan(operands)))
            })
            .collect();
        ours.push(prepared(variant.text.clone(), FoundBy::List, calls));
    }
    let mut all = Vec::new();
    if wanted.every {
        let operands = ready.map(|plan| plan.operands);
        let plans = |operands| GemmPlan::alternatives(problem, operands, device);
        all.extend(operands.map_or(Vec::new(), plans));
    }
    if wanted.early {
        let these = match &all[..] {
            [] => ready.into_iter().collect(),
            all => all.to_vec(),
        };
        let other = these.into_iter().map(|plan| GemmPlan {
            early: !plan.early,
            ..plan
        });
        all.extend(other.filter(|plan| plan.check(device.arch()).is_ok()));
    }
    for plan in all {
        let calls = gemms
            .iter()
            .map(|gemm| gemm.prepare_with(|_, _| Ok(plan)))
            .collect();
        ours.push(prepared(plan.to_string(), FoundBy::List, calls));
    }
    wrong.extend(refusals(problem, &ours));
    // What cuBLASLt computes is the reference, and the host decides where it is wrong itself; what was there before shows what a
    // kernel leaves unwritten.
    let c = &raw[0].2;
    pools.start(c)?;
    library.run(device, 0, [&raw[0].0, &raw[0].1], c)?;
    let expected = samples(c)?;
    let places = places(c.len());
    let factors = pools.factors(problem);
    for (name, _, calls) in &mut ours {
        let Ok(ready) = calls else { continue };
        pools.start(c)?;
        ready[0].run(device)?;
        let found = samples(c)?;
        let sampled = Sampled {
            places: &places,
            values: &found,
        };
        let errors = factors.compare(&sampled, &expected);
        if !errors.are_small() {
            wrong.push(format!("{problem}: {name}: {errors}"));
            *calls = Err(format!("wrong: {errors}"));
        } else if errors.is_library_wrong() {
            println!("cuBLASLt's first result of {problem} is wrong: {name}: {errors}");
        }
    }
    let mut works: Vec<Box<Work<'_>>> = Vec::new();
    for choice in 0..library.choices() {
        let (library, raw) = (&library, &raw);
        library.run(device, choice, [&raw[0].0, &raw[0].1], c)?;
        works.push(Box::new(move |device, i| {
            let (a, b, c) = &raw[i % raw.len()];
            library.run(device, choice, [a, b], c)
        }));
    }
    for (.., calls) in &ours {
        if let Ok(calls) = calls {
            works.push(Box::new(move |device, i| {
                calls[i % calls.len()].run(device)
            }));
        }
    }
    device.synchronize()?;
    let works: Vec<&Work<'_>> = works.iter().map(|work| &**work).collect();
    let times = device.time_in_turns(repeats(sets), &works)?;
    let mut times = times.iter().map(|timing| timing.median());
    let library = times.by_ref().take(library.choices()).collect();
    let ours = (ours.iter())
        .map(|(name, by, calls)| Ours {
            name: name.clone(),
            by: *by,
            time: match calls {
                Ok(_) => Ok(times.next().unwrap_or(f64::NAN)),
                Err(why) => Err(why.clone()),
            },
        })
        .collect();
    Ok(Measured {
        problem: *problem,
        sets,
        library,
        ours,
    })
}

/// How often the calls for a number of sets are repeated.
pub(in crate::bench) fn repeats(sets: i64) -> Repeats {
    Repeats {
        warmups: 1,
        samples: 9,
        batch: (sets as usize).max(3),
    }
}

/// All elements of C, or parts of it from its beginning to its end.
pub(in crate::bench) fn samples<C: GemmElement>(c: &Buffer<C>) -> Result<Vec<C>> {
    let mut all = Vec::new();
    for part in parts(c.len()) {
        all.extend(c.slice(part)?.download()?);
    }
    Ok(all)
}

/// The parts of a number of elements that are compared.
fn parts(elements: usize) -> Vec<std::ops::Range<usize>> {
    const WHOLE: usize = 1 << 20;
    const PARTS: usize = 64;
    if elements <= WHOLE {
        return std::iter::once(0..elements).collect();
    }
    let length = WHOLE / PARTS;
    let starts = (0..PARTS).map(|part| (elements - length) * part / (PARTS - 1));
    starts.map(|start| start..start + length).collect()
}

/// Where the elements lie that [`samples`] returns.
fn places(elements: usize) -> Vec<usize> {
    parts(elements).into_iter().flatten().collect()
}

/// The norm of the difference over the norm of what is expected.
pub(in crate::bench) fn difference<C: GemmElement>(found: &[C], expected: &[C]) -> f64 {
    let (mut off, mut norm) = (0.0, 0.0);
    for (x, y) in found.iter().zip(expected) {
        off += (x.to_f64() - y.to_f64()).powi(2);
        norm += y.to_f64().powi(2);
    }
    (off / norm.max(f64::MIN_POSITIVE)).sqrt()
}

/// Means and percentiles of the ratios of speeds, by stratum.
fn summarise(all: &[Measured]) {
    println!("\nratios of speeds, ours over cuBLASLt's best");
    // N and K are multiples of the 8 elements of a vector of 16 bytes, or not.
    let is_aligned = |found: &Measured| found.problem.n % 8 == 0 && found.problem.k % 8 == 0;
    let strata = ["all"].into_iter().chain(STRATUM_NAMES).enumerate();
    let alignments = [None, Some(true), Some(false)];
    for ((i, name), alignment) in
        strata.flat_map(|stratum| alignments.map(|alignment| (stratum, alignment)))
    {
        let these: Vec<&Measured> = all
            .iter()
            .filter(|found| i == 0 || stratum(found.best()) == i - 1)
            .filter(|found| alignment.is_none_or(|wanted| is_aligned(found) == wanted))
            .collect();
        if these.is_empty() {
            continue;
        }
        let name = match alignment {
            None => name.to_string(),
            Some(true) => format!("{name}, aligned"),
            Some(false) => format!("{name}, other"),
        };
        let line = |what: &str, of: &dyn Fn(&Measured) -> Option<f64>| {
            // A plan that was refused, or whose result was wrong, has no time; the lines of the shapes and the verdict name it.
            let ratios = these.iter().filter_map(|found| of(found));
            let ratios: Vec<f64> = ratios.filter(|ratio| ratio.is_finite()).collect();
            if ratios.is_empty() {
                return;
            }
            let at = |percent: usize| percentile(&ratios, percent);
            println!(
                "  {name:<21} {:>4} shapes, {what:<22} geometric mean {:.3}, 1st percentile {:.3}, median {:.3}, most {:.3}",
                ratios.len(),
                geometric_mean(&ratios),
                at(1),
                at(50),
                at(100)
            );
        };
        line("default", &|found| Some(found.best() / found.default()));
        line("tuned", &|found| Some(found.best() / found.tuned()?.0));
        line("the fastest of ours", &|found| {
            Some(found.best() / found.fastest(|_| true)?.0)
        });
        line("default over its choice", &|found| {
            Some(found.library[0] / found.default())
        });
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn drawn_shapes_are_those_of_their_seed() {
        let shapes: Vec<[i64; 3]> = (0..2000).map(|i| drawn(5, i)).collect();
        assert_eq!(drawn(5, 17), shapes[17]);
        let inside = |n: &i64| (1..=16384).contains(n);
        assert!(shapes.iter().flatten().all(inside));
        let aligned = shapes.iter().filter(|[_, n, k]| n % 8 == 0 && k % 8 == 0);
        let aligned = aligned.count();
        assert!((1550..1700).contains(&aligned), "{aligned}");
        let small = shapes.iter().filter(|[m, ..]| *m <= 128).count();
        assert!((900..1100).contains(&small), "{small}");
    }

    /// A sweep as the command line gives it.
    #[derive(clap::Parser)]
    struct Line {
        #[arg()]
        name: String,
        #[command(flatten)]
        sweep: Sweep,
    }

    fn line_of(options: &str) -> Result<Line, clap::Error> {
        let words = ["bench", "gemm"].into_iter();
        <Line as clap::Parser>::try_parse_from(words.chain(options.split_whitespace()))
    }

    fn problems_of(options: &str) -> Result<Vec<GemmProblem>> {
        let line = line_of(options)?;
        assert_eq!(line.name, "gemm");
        line.sweep.problems()
    }

    #[test]
    fn options_of_shapes_are_refused_without_shapes() {
        let options = [
            "--type f16",
            "--orders",
            "--from 5",
            "--seed 3",
            "--seconds 1",
            "--beta 1",
            "--tune",
            "--every",
            "--invariant",
            "--early",
            "--plans file",
        ];
        for option in options {
            let refused = line_of(option).err().map(|error| error.kind());
            let missing = clap::error::ErrorKind::MissingRequiredArgument;
            assert_eq!(refused, Some(missing), "{option}");
            assert!(line_of(&format!("--random 3 {option}")).is_ok(), "{option}");
        }
        assert!(line_of("").is_ok());
    }

    #[test]
    fn benches_of_bf16_alone_refuse_other_types() {
        let of = |options: &str| line_of(options).map(|line| line.sweep.check_bf16("epilogue"));
        let refused = of("--random 3 --type f16").expect("a line");
        assert_eq!(
            refused.map_err(|error| error.to_string()),
            Err(
                "the bench `epilogue` has operands of bf16: `--type` is of the bench `gemm`"
                    .to_string()
            )
        );
        assert!(of("--random 3").expect("a line").is_ok());
    }

    #[test]
    fn plans_of_the_library_that_are_refused_are_failures() {
        let refused = |by: FoundBy| (by.name().to_string(), by, Err("no memory".to_string()));
        let all = [
            FoundBy::Default,
            FoundBy::Tuned,
            FoundBy::Invariant,
            FoundBy::List,
        ];
        let problem = GemmProblem::new(8, 64, 32);
        let said = ["default", "tuned", "invariant"]
            .map(|name| format!("{problem}: the {name} plan is refused: no memory"));
        assert_eq!(refusals(&problem, &all.map(refused)), said);
        let measured = |by: FoundBy, time: Result<f64, String>| {
            let default = Ours {
                name: "a plan".to_string(),
                by: FoundBy::Default,
                time: Ok(1.0),
            };
            let other = Ours {
                by,
                time,
                ..default.clone()
            };
            Measured {
                problem,
                sets: 1,
                library: vec![1.0],
                ours: vec![default, other],
            }
        };
        for by in all {
            let why = Err("no memory".to_string());
            assert!(measured(by, Ok(2.0)).is_right(), "{by:?}");
            let is_right = measured(by, why).is_right();
            assert_eq!(is_right, by == FoundBy::List, "{by:?}");
        }
    }

    #[test]
    fn drawn_orders_and_a_first_shape_leave_the_shapes_as_they_are() -> Result<()> {
        let shape = |problem: &GemmProblem| [problem.m, problem.n, problem.k];
        let shapes = |all: &[GemmProblem]| all.iter().map(shape).collect::<Vec<_>>();
        let all = problems_of("--random 200 --seed 5")?;
        assert_eq!(all.len(), 200);
        assert_eq!(shapes(&all)[17], drawn(5, 17));
        let usual = [Major::Second; 3];
        assert!(all.iter().all(|problem| problem.majors == usual));

        let ordered = problems_of("--random 200 --seed 5 --orders")?;
        assert_eq!(shapes(&ordered), shapes(&all));
        let orders: HashSet<_> = ordered.iter().map(|problem| problem.majors).collect();
        assert_eq!(orders.len(), 8);

        let rest = problems_of("--random 200 --seed 5 --orders --from 150")?;
        assert_eq!(rest, ordered[150..]);
        let error = problems_of("--random 200 --from 200").expect_err("there is none");
        assert_eq!(error.to_string(), "there are 200 shapes");
        Ok(())
    }

    #[test]
    fn shapes_of_a_file_take_each_of_the_eight_orders() -> Result<()> {
        let path = std::env::temp_dir().join(format!("colex-shapes-{}", std::process::id()));
        std::fs::write(&path, "# M N K\n64 4096 4096\n\n128x256,512\n")?;
        let of = |more: &str| problems_of(&format!("--shapes {} {more}", path.display()));
        assert_eq!(of("")?.len(), 2);
        let all = of("--orders")?;
        assert_eq!(all.len(), 16);
        for (shape, problems) in [[64, 4096, 4096], [128, 256, 512]]
            .iter()
            .zip(all.chunks(8))
        {
            assert!(problems.iter().all(|of| [of.m, of.n, of.k] == *shape));
            let orders: HashSet<_> = problems.iter().map(|problem| problem.majors).collect();
            assert_eq!(orders.len(), 8);
        }
        assert_eq!(of("--from 1")?[0].m, 128);
        std::fs::remove_file(&path)?;
        Ok(())
    }

    #[test]
    fn the_lowest_20_ratios_are_measured_again() {
        let measured = |i: i64, time: Result<f64, String>| Measured {
            problem: GemmProblem::new(i, 1, 1),
            sets: 1,
            library: vec![12.0, 10.0, 11.0],
            ours: vec![Ours {
                name: "a plan".to_string(),
                by: FoundBy::Default,
                time,
            }],
        };
        // 37 is prime to 50, so all times from 1 to 50 come, in another order than that of the shapes.
        let all: Vec<Measured> = (1..=50)
            .map(|i| measured(i, Ok((i * 37 % 50 + 1) as f64)))
            .collect();
        let found = lowest(&all);
        let times: Vec<f64> = found.iter().map(|one| one.default()).collect();
        let longest: Vec<f64> = (31..=50).rev().map(f64::from).collect();
        assert_eq!(times, longest);
        assert_eq!(found[0].ratio(), 10.0 / 50.0);
        // A refused plan has no ratio, and comes behind all that have one.
        let few = [
            measured(1, Err("refused".to_string())),
            measured(2, Ok(5.0)),
            measured(3, Ok(20.0)),
        ];
        let shapes: Vec<i64> = lowest(&few).iter().map(|one| one.problem.m).collect();
        assert_eq!(shapes, [3, 2, 1]);
    }

    #[test]
    fn plans_are_read() {
        let variant: PlanLine = "64x128x64 stages=8 warps=1 cluster=1x1x4 group=16n"
            .parse()
            .expect("a plan");
        assert_eq!((variant.tile, variant.stages), ([64, 128, 64], Some(8)));
        assert_eq!(variant.cluster, Some([1, 1, 4]));
        let shared: PlanLine = "128x256x64 shares=66 undivided=132"
            .parse()
            .expect("a plan");
        assert_eq!(
            (shared.split, shared.division, shared.undivided),
            (66, Division::StreamK, 132)
        );
        let fixup: PlanLine = "192x128x64 warps=3 cluster=1x2x1 fixup=2"
            .parse()
            .expect("a plan");
        assert_eq!((fixup.split, fixup.division), (2, Division::SplitKFixup));
        let refused = "64x128 stages=8".parse::<PlanLine>().unwrap_err();
        assert_eq!(refused.to_string(), "`64x128` has 2 numbers: a shape has 3");
    }
}
