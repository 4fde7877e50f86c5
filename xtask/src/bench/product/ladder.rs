//! The measured ladder of the chapters on products: plans that differ from the first of their row in one change, and the
//! kernel of the chapter on Hopper beside those of the library.

use std::path::Path;

use anyhow::{Context, Result, anyhow, ensure};
use colex_gpu::kernels::gemm::GemmPlan;
use colex_gpu::kernels::{GemmElement, GemmProblem};
use colex_gpu::tensor::TensorKernel;
use colex_gpu::{Argument, Buffer, Device, DeviceKernel, LaunchArg, Load, Timing};
use half::{bf16, f16};
use serde_json::json;

use super::sweep::{Lines, PROTOCOL, PlanLine, Pools, Wanted, difference, normal, one, round};
use crate::bench::device::{Contender, commit, driver, take_turns};
use crate::bench::host;
use crate::verdict::{Checked, Ended};

#[path = "../../../../book/examples/kernel/hopper.rs"]
#[allow(
    dead_code,
    unreachable_pub,
    reason = "the bench launches the chapter's kernel; cargo runs its main"
)]
mod chapter;

/// Plans of one product: the first, and those that change one thing of it, or one more thing than the line before.
struct Rung {
    /// What is changed.
    title: &'static str,
    /// M, N and K.
    shape: [i64; 3],
    plans: &'static [&'static str],
}

/// The fields of the usual plan, one at a time.
const FIELDS: [&str; 12] = [
    "128x256x64",
    "128x256x64 cluster=1x1x1",
    "128x256x64 cluster=1x2x1",
    "128x256x64 stages=3",
    "128x256x64 stages=2",
    "128x256x64 vector=2",
    "128x256x64 group=1n",
    "128x256x64 group=4n",
    "128x256x64 group=16n",
    "128x256x64 early=1",
    "128x128x64",
    "64x256x64",
];

/// Of a large cube, and of a product whose epilogue is as long as its mainloop.
const LARGE: [[i64; 3]; 2] = [[4096, 4096, 4096], [8192, 8192, 512]];

/// The products of the sections of the chapters.
const RUNGS: [Rung; 13] = [
    Rung {
        title: "fields of the usual plan",
        shape: LARGE[0],
        plans: &FIELDS,
    },
    Rung {
        title: "fields of the usual plan",
        shape: LARGE[1],
        plans: &FIELDS,
    },
    Rung {
        title: "schedule",
        shape: LARGE[0],
        plans: &[
            "128x128x64 stages=6",
            "128x128x64 stages=6 schedule=pingpong",
        ],
    },
    Rung {
        title: "schedule",
        shape: LARGE[1],
        plans: &[
            "128x128x64 stages=6",
            "128x128x64 stages=6 schedule=pingpong",
        ],
    },
    Rung {
        title: "waves",
        shape: [3072; 3],
        plans: &["128x256x64", "128x192x64"],
    },
    Rung {
        title: "clusters of four",
        shape: [1195, 1184, 3440],
        plans: &[
            "64x128x64 stages=8 cluster=1x1x1",
            "64x128x64 stages=8 cluster=2x1x1",
            "64x128x64 stages=8 cluster=2x2x1",
        ],
    },
    Rung {
        title: "few rows: the tile",
        shape: [64, 4096, 4096],
        plans: &[
            "64x256x64 cluster=1x1x1",
            "64x128x64 cluster=1x1x1",
            "64x64x64 cluster=1x1x1",
            "64x32x64 cluster=1x1x1",
        ],
    },
    Rung {
        title: "one row: the exchange of A and B",
        shape: [1, 4096, 4096],
        plans: &[
            "64x16x128 stages=10 cluster=1x1x1",
            "64x16x128 stages=10 cluster=1x1x1 swap=1",
        ],
    },
    Rung {
        title: "one row that TMA does not load",
        shape: [1, 3454, 8841],
        plans: &["64x16x64 stages=6 cluster=1x1x1 swap=1 gather=1"],
    },
    Rung {
        title: "long K: parts",
        shape: [512, 512, 16384],
        plans: &[
            "128x128x64 cluster=1x1x1",
            "128x128x64 cluster=1x1x2",
            "128x128x64 cluster=1x1x4",
            "128x128x64 cluster=1x1x8",
            "128x128x64 cluster=1x1x1 split=8",
            "128x128x64 cluster=2x1x1 split=8",
        ],
    },
    Rung {
        title: "the last wave: parts of K for its tiles alone",
        shape: [1536, 1536, 8192],
        plans: &[
            "128x128x64 stages=6 cluster=1x1x1",
            "128x128x64 stages=6 cluster=1x1x1 split=2",
            "128x128x64 stages=6 cluster=1x1x1 split=11 undivided=132",
        ],
    },
    Rung {
        title: "an early begin",
        shape: [512, 512, 512],
        plans: &[
            "64x64x64 stages=8 cluster=1x1x1",
            "64x64x64 stages=8 cluster=1x1x1 early=1",
        ],
    },
    Rung {
        title: "an early begin",
        shape: [64, 4096, 4096],
        plans: &[
            "64x32x64 stages=10 cluster=1x1x1",
            "64x32x64 stages=10 cluster=1x1x1 early=1",
        ],
    },
];

/// Microseconds of a plan, or its refusal.
type RungTime = (String, Result<f64, String>);

/// Measures all rungs, on a GPU.
pub(in crate::bench) fn run(device: &Device, file: Option<&Path>) -> Result<()> {
    println!(
        "us, speed over that of the first line | plan; bf16 unless said\n{PROTOCOL}; the chapter's kernel and the grids: contenders in turn, events"
    );
    let mut lines = Lines::new(file)?;
    lines.write(&json!({
        "bench": "ladder", "device": device.name(), "driver": driver(device), "date": host::today(),
        "commit": commit(), "protocol": PROTOCOL,
    }))?;
    chapters_kernel(device, LARGE[0], &mut lines)?;
    for shape in LARGE {
        grids(device, shape, &mut lines)?;
    }
    let problems = RUNGS.map(|rung| problem(rung.shape));
    let pools = Pools::<bf16, bf16>::new(device, &problems)?;
    let mut wrong = Vec::new();
    for (rung, problem) in RUNGS.iter().zip(problems) {
        let plans: Vec<PlanLine> = (rung.plans.iter())
            .map(|line| line.parse())
            .collect::<Result<_>>()?;
        let wanted = Wanted::of(&plans);
        let found = one(device, &pools, &problem, &wanted, &mut wrong)
            .with_context(|| problem.to_string())?;
        let mut rows = found.listed();
        rows.push(("cuBLASLt's best of 8".to_string(), Ok(found.best())));
        report(rung.title, rung.shape, &rows, &mut lines)?;
    }
    ensure!(wrong.is_empty(), "{}", wrong.join("\n"));
    Ok(())
}

fn problem([m, n, k]: [i64; 3]) -> GemmProblem {
    GemmProblem::new(m, n, k)
}

/// Prints what was found for a shape, and writes it.
fn report(title: &str, [m, n, k]: [i64; 3], rows: &[RungTime], lines: &mut Lines) -> Result<()> {
    println!("\n{title}, {m}x{n}x{k}");
    let first = rows.iter().find_map(|(_, time)| time.as_ref().ok());
    let first = first.copied().unwrap_or(f64::NAN);
    let mut values = Vec::new();
    for (name, time) in rows {
        match time {
            Ok(time) => {
                println!("  {time:>9.2} {:>6.3} | {name}", first / time);
                values.push(json!({"plan": name, "us": round(*time)}));
            }
            Err(why) => {
                println!("  {:>16} | {name}: {why}", "refused");
                values.push(json!({"plan": name, "refused": why}));
            }
        }
    }
    let data = json!({"title": title, "m": m, "n": n, "k": k, "rows": values});
    lines.write(&data)?;
    Checked {
        data,
        ..Checked::new(format!("{title}, {m}x{n}x{k}"), Ended::Passed, PROTOCOL)
    }
    .add();
    Ok(())
}

/// A, B and C of a product, on a device.
struct Matrices<T, C> {
    a: Buffer<T>,
    b: Buffer<T>,
    c: Buffer<C>,
}

impl<T: GemmElement, C: GemmElement> Matrices<T, C> {
    fn new(device: &Device, [m, n, k]: [i64; 3]) -> Result<Matrices<T, C>> {
        let (a, b) = (
            device.uninitialised((m * k) as usize)?,
            device.uninitialised((n * k) as usize)?,
        );
        normal(&a)?;
        normal(&b)?;
        let c = device.poisoned((m * n) as usize)?;
        Ok(Matrices { a, b, c })
    }
}

/// A kernel with the blocks of its grid, and the numbers behind the matrices.
struct Gridded {
    name: String,
    kernel: DeviceKernel,
    grid: [usize; 3],
    numbers: Vec<Argument>,
}

impl Gridded {
    fn launch<T: GemmElement, C: GemmElement>(
        &self,
        of: &Matrices<T, C>,
        [m, n, k]: [i64; 3],
    ) -> Result<(), colex_gpu::Error> {
        let mut written = of.c.clone();
        let mut given: Vec<LaunchArg<'_>> = vec![
            of.a.view((m, k))?.into(),
            of.b.view((n, k))?.into(),
            written.view_mut((m, n))?.into(),
        ];
        given.extend(self.numbers.iter().cloned().map(LaunchArg::Value));
        self.kernel.launch(self.grid, given)
    }
}

/// Ampere's kernel, the chapter's kernel with a producer and a consumer, and the library's with the same tile and with its own:
/// f16 to f32.
fn chapters_kernel(device: &Device, shape: [i64; 3], lines: &mut Lines) -> Result<()> {
    let of = Matrices::<f16, f32>::new(device, shape)?;
    let [m, n, k] = shape;
    let built = chapter::product().map_err(|error| anyhow!("{error}"))?;
    let ring = ring(device, &built, shape)?;
    let plans = [
        "128x128x32 method=ampere",
        "64x64x64 method=ampere stages=3",
        "64x64x64 stages=3 cluster=1x1x1",
        "128x128x64 stages=3 cluster=1x1x1",
        "128x256x64 stages=4 cluster=1x1x1",
        "128x256x64",
    ];
    let mut written = of.c.clone();
    let gemm = problem([m, n, k]).on(&of.a, &of.b, &mut written)?;
    let mut calls = Vec::new();
    for line in plans {
        let plan: PlanLine = line.parse()?;
        let call = gemm.prepare_with(|operands, _| Ok(plan.plan(operands)))?;
        calls.push((line, call));
    }
    let mut contenders: Vec<Contender<'_>> = (calls.iter())
        .map(|(name, call)| Contender::new(*name, move |device| call.run(device)))
        .collect();
    contenders.insert(2, Contender::new(&ring.name, |_| ring.launch(&of, shape)));
    let rows = in_turn(device, &contenders, &of.c)?;
    report("a producer and consumers, f16 to f32", shape, &rows, lines)
}

/// The chapter's kernel over all tiles of a product.
fn ring(device: &Device, built: &TensorKernel, [m, n, k]: [i64; 3]) -> Result<Gridded> {
    let [along_m, along_n] = [m, n].map(|extent| (extent as usize).div_ceil(64));
    Ok(Gridded {
        name: "the chapter's: 64x64x64, 3 stages, a block for each tile".to_string(),
        kernel: built.load(device)?,
        grid: [along_m, along_n, 1],
        numbers: vec![Argument::U32((k as usize).div_ceil(64) as u32)],
    })
}

/// The usual plan's kernel over as many clusters as run at once, and over a cluster for each of its tiles.
fn grids(device: &Device, shape: [i64; 3], lines: &mut Lines) -> Result<()> {
    let of = Matrices::<bf16, bf16>::new(device, shape)?;
    let mut written = of.c.clone();
    let gemm = problem(shape).on(&of.a, &of.b, &mut written)?;
    let line: PlanLine = FIELDS[0].parse()?;
    let call = gemm.prepare_with(|operands, _| Ok(line.plan(operands)))?;
    let plan = call.plan().context("the product has elements")?;
    let multiprocessors = device.limits().multiprocessors as usize;
    let grids = gridded(device, plan, shape, multiprocessors)?;
    let mut contenders = vec![Contender::new("the library's launch", |device| {
        call.run(device)
    })];
    contenders.extend((grids.iter()).map(|one| {
        let of = &of;
        Contender::new(&one.name, move |_| one.launch(of, shape))
    }));
    let rows = in_turn(device, &contenders, &of.c)?;
    report("persistence", shape, &rows, lines)
}

/// A plan's kernel in a grid of the clusters that run at once, and in one of a cluster for each tile.
fn gridded(
    device: &Device,
    plan: &GemmPlan,
    [m, n, k]: [i64; 3],
    multiprocessors: usize,
) -> Result<[Gridded; 2]> {
    let [along_m, along_n, _] = plan.cluster;
    let [tall, wide] = [plan.tile[0] * along_m, plan.tile[1] * along_n];
    let size = (along_m * along_n) as usize;
    let all = (m as usize).div_ceil(tall as usize) * (n as usize).div_ceil(wide as usize);
    let kernel = plan.build(device.arch())?.load(device)?;
    let extents = [m, n, k].map(|n| Argument::U32(n as u32));
    let factors = [Argument::F32(1.0), Argument::F32(0.0)];
    let numbers: Vec<Argument> = extents.into_iter().chain(factors).collect();
    let of = |name: &str, clusters: usize| Gridded {
        name: name.to_string(),
        kernel: kernel.clone(),
        grid: [clusters * size, 1, 1],
        numbers: numbers.clone(),
    };
    Ok([
        of(
            "a cluster for several tiles, one after the other",
            all.min(multiprocessors / size),
        ),
        of("a cluster for each tile", all),
    ])
}

/// The medians of contenders in turn, which all write C: their results agree with that of the first.
fn in_turn<C: GemmElement>(
    device: &Device,
    contenders: &[Contender<'_>],
    c: &Buffer<C>,
) -> Result<Vec<RungTime>> {
    let mut expected = Vec::new();
    for one in contenders {
        c.fill_bytes(0xff)?;
        one.run_once(device)?;
        let found = c.slice(..c.len().min(1 << 20))?.download()?;
        if expected.is_empty() {
            expected = found;
            continue;
        }
        let off = difference(&found, &expected);
        ensure!(off < 1e-2, "{}: {off:.1e} off the first", one.name);
    }
    let times = take_turns(device, contenders, 15, 4)?;
    let times = times.iter().map(Timing::median);
    let names = contenders.iter().map(|one| one.name.clone());
    Ok(names.zip(times.map(Ok)).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use colex_atom::Arch;
    use colex_gpu::kernels::gemm::GemmMethod;

    /// Every plan of the ladder is read, and the library takes it for the product of its row.
    #[test]
    fn plans_of_the_ladder_are_taken() {
        let device = Device::simulator(Arch::Sm90a);
        let memory = device.zeros::<bf16>(1 << 24).expect("memory");
        let mut c = device.zeros::<bf16>(1 << 24).expect("memory");
        for rung in &RUNGS {
            // The extents that the plan is checked with, as far as their memory goes: rows of the same alignments.
            let [m, n, k] = rung.shape.map(|extent| match extent {
                0..4096 => extent,
                _ => 1024 + extent % 1024,
            });
            let gemm = problem([m, n, k])
                .on(&memory, &memory, &mut c)
                .expect("views");
            for line in rung.plans {
                let plan: PlanLine = line.parse().expect("a plan");
                let taken = gemm.prepare_with(|operands, _| Ok(plan.plan(operands)));
                if let Err(error) = taken {
                    panic!("{}: {line}: {error}", rung.title);
                }
            }
        }
    }

    /// The kernels of the grids multiply, whether a cluster has a tile or several.
    #[test]
    fn grids_of_clusters_multiply() {
        let device = Device::simulator(Arch::Sm90a);
        let shape = [256, 80, 40];
        let [m, n, k] = shape;
        let ones = |count: i64| device.upload(&vec![bf16::ONE; count as usize]);
        let of = Matrices {
            a: ones(m * k).expect("A"),
            b: ones(n * k).expect("B"),
            c: device.poisoned::<bf16>((m * n) as usize).expect("C"),
        };
        let mut written = of.c.clone();
        let gemm = problem(shape)
            .on(&of.a, &of.b, &mut written)
            .expect("views");
        let call = gemm.prepare_with(|operands, _| {
            Ok(GemmPlan {
                tile: [64, 16, 32],
                warps: [1, 1],
                cluster: [2, 1, 1],
                stages: 3,
                ..GemmPlan::new(GemmMethod::Hopper, operands)
            })
        });
        let plan = *call.expect("a plan").plan().expect("elements");
        // Ten tiles of clusters: by two clusters, and by ten.
        let grids = gridded(&device, &plan, shape, 4).expect("kernels");
        assert_eq!(grids.each_ref().map(|one| one.grid[0]), [4, 20]);
        for one in &grids {
            of.c.fill_bytes(0xff).expect("memory");
            one.launch(&of, shape).expect("it runs");
            let found = of.c.download().expect("C");
            assert!(found.iter().all(|sum| sum.to_f32() == 40.0), "{}", one.name);
        }
    }

    /// The chapter's kernel multiplies in the grid of the bench.
    #[test]
    fn the_chapters_kernel_multiplies() {
        let device = Device::simulator(Arch::Sm90a);
        let shape = [100, 72, 136];
        let [m, n, k] = shape;
        let ones = |count: i64| device.upload(&vec![f16::ONE; count as usize]);
        let of = Matrices {
            a: ones(m * k).expect("A"),
            b: ones(n * k).expect("B"),
            c: device.poisoned::<f32>((m * n) as usize).expect("C"),
        };
        let built = chapter::product().expect("a kernel");
        let ring = ring(&device, &built, shape).expect("a kernel");
        ring.launch(&of, shape).expect("it runs");
        let found = of.c.download().expect("C");
        assert!(found.iter().all(|sum| *sum == 136.0));
    }
}
