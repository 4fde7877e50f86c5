//! Host time: how long a call keeps the host, and what it asks of the driver.
//!
//! On the fake driver every call of the driver returns at once, so that the time is Colex's own; it is built by `rustc`
//! and runs in a process of its own. On a GPU the driver's time is in it.

#[path = "../../../gpu/tests/fake_driver/library.rs"]
pub(super) mod library;
mod views;

use std::cell::Cell;
use std::env;
use std::process::{Command, ExitCode, Stdio};
use std::time::Instant;

use anyhow::{Context, Result, ensure};
use colex_gpu::attention::{Attention, Mask};
use colex_gpu::cuda::cudarc::driver::CudaContext;
use colex_gpu::ir::KernelBuilder;
use colex_gpu::kernels::{CopyCall, GemmProblem, View, ViewMut};
use colex_gpu::reduce::{Reduce, ReduceFunction};
use colex_gpu::rowwise::{RowFunction, Rowwise};
use colex_gpu::{Buffer, Device, Element, Error, Launch, copy, transpose};
use half::bf16;
use serde_json::json;

use crate::output;
use crate::verdict::{self, Checked, Ended};

use library::{counted, shown};

/// How the numbers are taken, for the reader of them.
const PROTOCOL: &str = "microseconds of the host for a call: median of 201 batches of 64 calls, the device waited for \
between batches; in brackets the 10th and the 90th percentile; one thread, release build; first: the first call, with \
nothing kept and no cache on the disk; over: the microseconds beyond the launch of the same kernel with the same arguments, one bare \
cuLaunchKernelEx without checks";

const BATCHES: usize = 201;
const BATCH: usize = 64;

/// Whether this process was started to measure on the fake driver.
pub(super) fn is_child() -> bool {
    env::var_os(library::CALLS).is_some()
}

/// Measures on the fake driver, which this process was started with.
pub(super) fn child() -> Result<ExitCode> {
    measure(&Device::gpu(0)?, true)?;
    Ok(ExitCode::SUCCESS)
}

/// Measures on the GPU, if there is one, and on the fake driver, if it can be built.
pub(super) fn run() -> Result<()> {
    println!("{PROTOCOL}");
    match Device::gpu(0) {
        Ok(device) => {
            device.set_cache(colex_gpu::Cache::off());
            println!("\non {} ({})", device.name(), device.arch());
            measure(&device, false)?;
        }
        Err(why) => println!("\non a GPU: skipped: {why}"),
    }
    let folder = env::temp_dir().join(format!("colex-fake-driver-{}", std::process::id()));
    match library::build(&folder, true) {
        Ok(()) => {
            println!(
                "\non the fake driver of sm_90a, with the driver's functions that a repeated call asks"
            );
            let done = on_fake_driver(&folder);
            std::fs::remove_dir_all(&folder).context("the fake driver's folder stays")?;
            done
        }
        Err(why) => {
            println!("\non the fake driver: skipped: {}", why.trim());
            Checked::new("on the fake driver", Ended::Skipped, why.trim()).add();
            Ok(())
        }
    }
}

fn on_fake_driver(folder: &std::path::Path) -> Result<()> {
    let mut command = Command::new(env::current_exe()?);
    command
        .args(["bench", "host"])
        .args(output::is_for_programs().then_some("--json"))
        .env("LD_LIBRARY_PATH", folder)
        .env("FAKE_CUDA", "whole")
        .env(library::CALLS, folder.join("calls"))
        .env("COLEX_CACHE", "off")
        .stderr(Stdio::inherit());
    if !output::is_for_programs() {
        command.stdout(Stdio::inherit());
    }
    let said = command
        .output()
        .context("the process on the fake driver cannot be started")?;
    ensure!(
        said.status.success(),
        "the process on the fake driver failed: {}",
        said.status
    );
    if output::is_for_programs() {
        verdict::adopt(&said.stdout)?;
    }
    Ok(())
}

type TimedCall<'a> = Box<dyn Fn() -> Result<(), Error> + 'a>;

/// A call by its name, and the name of the bare launch that it is compared with, if there is one.
type NamedCall<'a> = (&'static str, Option<&'static str>, TimedCall<'a>);

/// What is launched without checks, as the calls behind it launch it.
const BARE: [&str; 6] = [
    "cuLaunchKernelEx, the product's kernel",
    "cuLaunchKernelEx, the strided copy's kernel",
    "cuLaunchKernelEx, the transpose's kernel",
    "cuLaunchKernelEx, attention's kernel",
    "cuLaunchKernelEx, softmax's kernel",
    "cuLaunchKernelEx, the reduction's kernel",
];

/// Prints a row for each call.
fn measure(device: &Device, fake: bool) -> Result<()> {
    println!(
        "  {:<52} {:>9}  {:<20} {:>9} {:>7}",
        "call", "us", "", "first, ms", "over"
    );
    let mut buffers = Buffers::new(device)?;
    let mut medians: Vec<(&str, f64)> = Vec::new();
    for (name, bare, work) in buffers.works(device)? {
        let started = Instant::now();
        work()?;
        device.synchronize()?;
        let first = started.elapsed().as_secs_f64() * 1e3;
        let mut samples = Vec::new();
        for batch in 0..BATCHES + BATCHES / 10 {
            let started = Instant::now();
            for _ in 0..BATCH {
                work()?;
            }
            let took = started.elapsed().as_secs_f64() * 1e6 / BATCH as f64;
            device.synchronize()?;
            if batch >= BATCHES / 10 {
                samples.push(took);
            }
        }
        samples.sort_by(f64::total_cmp);
        let at = |percent: usize| samples[percent * (BATCHES - 1) / 100];
        let range = format!("[{:.2}, {:.2}]", at(10), at(90));
        let bare = bare.and_then(|bare| medians.iter().find(|(name, _)| *name == bare));
        let over = bare.map(|(_, bare)| at(50) - bare);
        medians.push((name, at(50)));
        Checked {
            data: json!({
                "us": at(50), "tenth": at(10), "ninetieth": at(90), "first ms": first, "over": over, "fake driver": fake,
            }),
            ..Checked::new(name, Ended::Passed, PROTOCOL)
        }
        .add();
        let over = over.map_or(String::new(), |over| format!("{over:+.2}"));
        print!(
            "  {name:<52} {:>9.2}  {range:<20} {first:>9.2} {over:>7}",
            at(50)
        );
        if fake {
            println!("  {}", shown(&counted(device, &work)?))
        } else {
            println!()
        }
    }
    Ok(())
}

/// The elements of a buffer: a mebibyte of them, which is the most that the fake driver gives.
struct Buffers {
    halves: [Buffer<bf16>; 3],
    words: [Buffer<f32>; 3],
    /// The second of `words`, for each view that writes it.
    written: [Buffer<f32>; 6],
    /// The third of `halves`, for the product that is prepared.
    product: Buffer<bf16>,
    /// The same, for the product of views.
    ready: Buffer<bf16>,
    /// The same, for attention.
    attended: Buffer<bf16>,
    views: views::Tensors,
}

const PROBLEM: [i64; 3] = [256, 512, 512];

fn view<'a, T: Element>(buffer: &'a Buffer<T>, layout: &str) -> Result<View<'a, T>> {
    Ok(View::new(buffer, layout)?)
}

fn view_mut<'a, T: Element>(buffer: &'a mut Buffer<T>, layout: &str) -> Result<ViewMut<'a, T>> {
    Ok(ViewMut::new(buffer, layout)?)
}

impl Buffers {
    fn new(device: &Device) -> Result<Buffers> {
        let halves = || device.zeros::<bf16>((1 << 20) / 2);
        let words = || device.zeros::<f32>((1 << 20) / 4);
        let words = [words()?, words()?, words()?];
        let halves = [halves()?, halves()?, halves()?];
        Ok(Buffers {
            views: views::Tensors::new(device)?,
            product: halves[2].clone(),
            ready: halves[2].clone(),
            attended: halves[2].clone(),
            halves,
            written: [(); 6].map(|()| words[1].clone()),
            words,
        })
    }

    /// What is measured.
    fn works<'a>(&'a mut self, device: &'a Device) -> Result<Vec<NamedCall<'a>>> {
        let [a, b, c] = &self.halves;
        let [x, y, z] = &self.words;
        let [flat_y, strided_y, columns_y, turned_y, rows_y, sums_y] = &mut self.written;
        let [m, n, k] = PROBLEM;
        let problem = GemmProblem::new(m, n, k);
        let ready_c = &mut self.ready;
        let cube = GemmProblem::new(128, 128, 128);
        let empty = KernelBuilder::new("empty", device.arch()).finish();
        let function = device.load(&empty)?;
        let call = problem.on(a, b, &mut self.product)?.prepare()?;
        let flat = (view(x, "262144:1")?, view_mut(flat_y, "262144:1")?);
        let strided = (
            view(x, "(16,5,4):(1,32,160)")?,
            view_mut(strided_y, "(16,5,4):(1,16,80)")?,
        );
        let rows = view(x, "(256,512):(512,1)")?;
        let columns = view_mut(columns_y, "(512,256):(256,1)")?;
        let transposed = view_mut(turned_y, "(256,512):(1,256)")?;
        let prepared = CopyCall::new(&rows, &transposed, None)?;
        let ready = (
            view(a, "(256,512):(512,1)")?,
            view(b, "(512,512):(512,1)")?,
            view_mut(ready_c, "(256,512):(512,1)")?,
        );
        let prepared_strided = CopyCall::new(&strided.0, &strided.1, None)?;
        let heads = "(1,8,512,64):(262144,32768,64,1)";
        let attention = Attention::new(
            &view(a, heads)?,
            &view(b, heads)?,
            &view(b, heads)?,
            &view_mut(&mut self.attended, heads)?,
        )
        .mask(Mask::Causal);
        let attends = attention.prepare()?;
        let softmax = Rowwise::new(
            RowFunction::Softmax,
            &rows,
            &view_mut(rows_y, "(256,512):(512,1)")?,
        );
        let normalises = softmax.prepare()?;
        let sum = Reduce::new(
            ReduceFunction::Sum,
            &rows,
            &[1],
            &view_mut(sums_y, "256:1")?,
        );
        let sums = sum.prepare()?;
        let bare = [
            call.bare_launches()?,
            prepared_strided.bare_launches()?,
            prepared.bare_launches()?,
            attends.bare_launches()?,
            normalises.bare_launches()?,
            sums.bare_launches()?,
        ];
        let mut launches = BARE.into_iter().zip(bare).map(|(name, bare)| {
            let run = move || Ok(bare.iter().try_for_each(|one| one.run())?);
            (name, None, Box::new(run) as TimedCall<'a>)
        });
        let mut bare = || launches.next().expect("a launch for each name");
        let layouts = [
            "262144:1".parse::<colex_layout::Layout>()?,
            "262144:1".parse()?,
        ];
        let context = CudaContext::new(0)?;
        let stream = context.new_stream()?;
        let beside =
            move || Device::from_cuda(context.clone(), stream.clone()).map_err(Error::from);
        let beside_too = beside.clone();
        let round = Cell::new(0_usize);
        let next = move |count: usize| {
            round.set((round.get() + 1) % count);
            round.get()
        };
        let (next, next_shape, next_choice) = (next.clone(), next.clone(), next);
        let on_views = self.views.works()?;
        device.clear_module_cache();
        let mut all: Vec<NamedCall<'a>> = vec![
            (
                "Device::launch, an empty kernel",
                None,
                Box::new(move || Ok(device.launch(&function, Launch::new(1, 32), &[])?)),
            ),
            (
                "Device::load and launch, the same",
                None,
                Box::new(move || {
                    let function = device.load(&empty)?;
                    Ok(device.launch(&function, Launch::new(1, 32), &[])?)
                }),
            ),
            (
                "Device::from_cuda",
                None,
                Box::new(move || beside().map(drop)),
            ),
            bare(),
            (
                "GemmCall::run, 256x512x512 bf16",
                Some(BARE[0]),
                Box::new(move || call.run(device)),
            ),
            (
                "gemm, the same",
                Some(BARE[0]),
                Box::new(move || problem.on(a, b, &mut c.clone())?.run()),
            ),
            (
                "gemm of ready views, the same",
                Some(BARE[0]),
                Box::new(move || colex_gpu::gemm(&ready.0, &ready.1, &ready.2)),
            ),
            (
                "gemm, a device by from_cuda for each call",
                Some(BARE[0]),
                Box::new(move || {
                    let beside = beside_too()?;
                    let mut c = c.clone();
                    let call = problem.on(a, b, &mut c)?.prepare()?;
                    call.run(&beside)
                }),
            ),
            (
                "gemm, f32 128x128x128, beta 0.5",
                None,
                Box::new(move || cube.beta(0.5).on(x, y, &mut z.clone())?.run()),
            ),
            (
                "Gemm::prepare",
                None,
                Box::new(move || problem.on(a, b, &mut c.clone())?.prepare().map(drop)),
            ),
            (
                "gemm, an address that is not among the last 1024",
                None,
                Box::new(move || {
                    let a = a.slice(128 * next(2000)..)?;
                    problem.on(&a, b, &mut c.clone())?.run()
                }),
            ),
            (
                "gemm, a shape that is not among the last 512",
                None,
                Box::new(move || of_shape(next_shape(1600)).on(a, b, &mut c.clone())?.run()),
            ),
            (
                "the choice of a plan for another shape in each call",
                None,
                Box::new(move || {
                    let problem = of_shape(next_choice(1600));
                    let bytes = problem.on(a, b, &mut c.clone())?.workspace_in_parts();
                    bytes.map(drop)
                }),
            ),
            (
                "copy of one run, 1 MiB",
                None,
                Box::new(move || copy(&flat.0, &flat.1)),
            ),
            (
                "View::new twice and copy, the same",
                None,
                Box::new(move || {
                    let [from, to] = layouts.clone();
                    copy(&View::new(x, from)?, &ViewMut::new(&mut y.clone(), to)?)
                }),
            ),
            bare(),
            (
                "CopyCall::run, strided (16,5,4)",
                Some(BARE[1]),
                Box::new(move || prepared_strided.run(device)),
            ),
            (
                "copy, the same",
                Some(BARE[1]),
                Box::new(move || copy(&strided.0, &strided.1)),
            ),
            bare(),
            (
                "CopyCall::run, transposed 256x512 f32",
                Some(BARE[2]),
                Box::new(move || prepared.run(device)),
            ),
            (
                "transpose, the same",
                Some(BARE[2]),
                Box::new(move || transpose(&rows, &columns, &[1, 0])),
            ),
            bare(),
            (
                "AttentionCall::run, 8 heads of 512 by 64, causal",
                Some(BARE[3]),
                Box::new(move || attends.run(device)),
            ),
            (
                "Attention::run, the same",
                Some(BARE[3]),
                Box::new(move || attention.run()),
            ),
            bare(),
            (
                "softmax prepared, 256x512 f32",
                Some(BARE[4]),
                Box::new(move || normalises.run(device)),
            ),
            (
                "Rowwise::run, the same",
                Some(BARE[4]),
                Box::new(move || softmax.run()),
            ),
            bare(),
            (
                "sum of rows prepared, 256x512 f32",
                Some(BARE[5]),
                Box::new(move || sums.run(device)),
            ),
            (
                "Reduce::run, the same",
                Some(BARE[5]),
                Box::new(move || sum.run()),
            ),
        ];
        all.extend(on_views);
        Ok(all)
    }
}

/// The product with a number: each of 1600 has other extents.
fn of_shape(number: usize) -> GemmProblem {
    let at = number as i64;
    GemmProblem::new(1 + at % 200, 512, 512 - at / 200 * 64)
}
