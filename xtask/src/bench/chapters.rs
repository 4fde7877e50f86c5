//! The kernels that chapters of the book write, beside those of the library: a page's number is that of the text on the page.

use std::path::Path;

use anyhow::{Result, anyhow};
use colex_atom::Ty;
use colex_gpu::attention::{Attention, AttentionMethod, Mask};
use colex_gpu::elementwise::{Map, MapExpression};
use colex_gpu::gemm::Epilogue;
use colex_gpu::kernels::gemm::GemmMethod;
use colex_gpu::kernels::{CopyCall, CopyMethod, GemmElement, GemmProblem, View, ViewMut};
use colex_gpu::{Buffer, Device, Load};
use colex_layout::{C, ComposedLayout, Layout};
use half::{bf16, f16};

use super::device::{BenchReport, Contender, PROTOCOL, take_turns};
use super::product::sweep::normal;

// The programs of the chapters. They have a `main` and checks of their own, which the bench does not call.
#[path = "../../../book/examples/kernel/ampere.rs"]
#[allow(dead_code)]
mod ampere;
#[path = "../../../book/examples/kernel/attention.rs"]
#[allow(dead_code)]
mod attention_program;
#[path = "../../../book/examples/kernel/copy.rs"]
#[allow(dead_code)]
mod copy_program;
#[path = "../../../book/examples/kernel/simt.rs"]
#[allow(dead_code)]
mod simt;
#[path = "../../../book/examples/why.rs"]
#[allow(dead_code)]
mod why;

/// The elements of a copied run: as many as blocks of 128 threads copy one by one.
const RUN: usize = 1 << 27;

/// The rows and columns of a transposed matrix.
const SIDE: usize = 16384;

/// M, N and K of the products.
const EXTENT: usize = 4096;

/// The queries and keys of a head of attention.
const SEQUENCE: usize = 16384;

/// How often each contender is measured.
const ROUNDS: usize = 11;

pub(super) fn run(device: &Device, json: Option<&Path>) -> Result<()> {
    let mut report = BenchReport::new("chapters", "T/s", device);
    println!(
        "{PROTOCOL}\nT/s: bytes of copies and transposes, operations of products and attention"
    );
    copies(device, &mut report)?;
    transposes(device, &mut report)?;
    single_threads(device, &mut report)?;
    stages(device, &mut report)?;
    attention(device, &mut report)?;
    epilogue(device, &mut report)?;
    report.write(json)
}

/// Adds a group of contenders; `work` is in units of a million.
fn add(
    device: &Device,
    report: &mut BenchReport,
    (title, work): (&str, f64),
    contenders: &[Contender<'_>],
) -> Result<()> {
    let times = take_turns(device, contenders, ROUNDS, 1)?;
    let names: Vec<String> = contenders.iter().map(|c| c.name.clone()).collect();
    report.group(title, &names, &times, work);
    Ok(())
}

fn numbers<T: GemmElement>(device: &Device, count: usize) -> Result<Buffer<T>> {
    let buffer = device.uninitialised::<T>(count)?;
    normal(&buffer)?;
    Ok(buffer)
}

/// An error of a chapter's program.
fn of_program(error: impl std::fmt::Display) -> anyhow::Error {
    anyhow!("{error}")
}

/// The chapter on copies: one element of each thread, and four.
fn copies(device: &Device, report: &mut BenchReport) -> Result<()> {
    let (from, to) = (
        numbers::<f32>(device, RUN)?,
        device.uninitialised::<f32>(RUN)?,
    );
    let mut written = to.clone();
    let line = Layout::new(RUN, 1)?;
    let call = CopyCall::new(
        &View::new(&from, &line)?,
        &ViewMut::new(&mut written, &line)?,
        None,
    )?;
    let mut contenders = vec![
        Contender::new("cuMemcpyDtoDAsync", |_| Ok(to.copy_from(&from)?)),
        Contender::new("the library's copy", |device| call.run(device)),
    ];
    for vector in [1_i64, 4] {
        let kernel = copy_program::kernel(vector)?.load(device)?;
        let blocks = RUN.div_ceil(128 * vector as usize);
        let (from, to) = (&from, &to);
        contenders.push(Contender::new(
            format!("`kernel({vector})` of the chapter"),
            move |_| {
                let mut to = to.clone();
                kernel.launch([blocks], (from.view(RUN)?, to.view_mut(RUN)?))
            },
        ));
    }
    let work = 8.0 * RUN as f64 / 1e6;
    add(
        device,
        report,
        (&format!("copy of {RUN} f32"), work),
        &contenders,
    )
}

/// The chapter on why layouts: transposes through a tile with conflicts, padded and swizzled.
fn transposes(device: &Device, report: &mut BenchReport) -> Result<()> {
    let count = SIDE * SIDE;
    let (from, to) = (
        numbers::<f32>(device, count)?,
        device.uninitialised::<f32>(count)?,
    );
    let (rows, columns) = (((SIDE, SIDE), (SIDE, 1)), ((SIDE, SIDE), (1, SIDE)));
    let (rows, columns) = (
        Layout::new(rows.0, rows.1)?,
        Layout::new(columns.0, columns.1)?,
    );
    let mut written = to.clone();
    let line = Layout::new(count, 1)?;
    let copy = CopyCall::new(
        &View::new(&from, &line)?,
        &ViewMut::new(&mut written, &line)?,
        None,
    )?;
    let mut crossed = to.clone();
    let call = CopyCall::new(
        &View::new(&from, &rows)?,
        &ViewMut::new(&mut crossed, &columns)?,
        Some(CopyMethod::Swizzled),
    )?;
    let mut contenders = vec![
        Contender::new("the library's copy of as many bytes", |device| {
            copy.run(device)
        }),
        Contender::new("the library's transpose by a swizzled tile", |device| {
            call.run(device)
        }),
    ];
    let tiles = [
        ("row-major tile", "(32,32):(32,1)"),
        ("padded tile", "(32,32):(33,1)"),
        ("swizzled tile", "Sw<5,0,5> o 0 o (32,32):(32,1)"),
    ];
    for (name, tile) in tiles {
        let tile: ComposedLayout = tile.parse()?;
        let kernel = why::by_tiles(&tile).map_err(of_program)?.load(device)?;
        let (from, to, rows, columns) = (&from, &to, &rows, &columns);
        contenders.push(Contender::new(
            format!("`by_tiles` of the chapter, {name}"),
            move |_| {
                let mut to = to.clone();
                let views = (View::new(from, rows)?, ViewMut::new(&mut to, columns)?);
                kernel.launch([SIDE / 32, SIDE / 32], views)
            },
        ));
    }
    let work = 8.0 * count as f64 / 1e6;
    add(
        device,
        report,
        (&format!("transpose of {SIDE} x {SIDE} f32"), work),
        &contenders,
    )
}

/// The chapter on products of single threads.
fn single_threads(device: &Device, report: &mut BenchReport) -> Result<()> {
    let count = EXTENT * EXTENT;
    let (a, b) = (
        numbers::<f32>(device, count)?,
        numbers::<f32>(device, count)?,
    );
    let c = device.uninitialised::<f32>(count)?;
    let mut written = c.clone();
    let side = EXTENT as i64;
    let call = GemmProblem::new(side, side, side)
        .on(&a, &b, &mut written)?
        .method(GemmMethod::Simt)
        .prepare()?;
    let mut contenders = vec![Contender::new("the library's SIMT kernel", |device| {
        call.run(device)
    })];
    let kernels = [
        ("plain()", simt::plain()?, 16),
        ("tiled(68, true)", simt::tiled(68, true)?, 64),
    ];
    for (name, kernel, tile) in kernels {
        let kernel = kernel.load(device)?;
        let (a, b, c) = (&a, &b, &c);
        contenders.push(Contender::new(
            format!("`{name}` of the chapter"),
            move |_| {
                let (mut c, shape) = (c.clone(), (EXTENT, EXTENT));
                let views = (a.view(shape)?, b.view(shape)?, c.view_mut(shape)?);
                kernel.launch([EXTENT / tile, EXTENT / tile], views)
            },
        ));
    }
    let work = 2.0 * (EXTENT as f64).powi(3) / 1e6;
    add(
        device,
        report,
        (&format!("product of {EXTENT} cubed, f32"), work),
        &contenders,
    )
}

/// The chapter on the Ampere product: the numbers of stages, and what a step waits for.
fn stages(device: &Device, report: &mut BenchReport) -> Result<()> {
    let count = EXTENT * EXTENT;
    let (a, b) = (
        numbers::<f16>(device, count)?,
        numbers::<f16>(device, count)?,
    );
    let c = device.uninitialised::<f32>(count)?;
    let mut written = c.clone();
    let side = EXTENT as i64;
    let call = GemmProblem::new(side, side, side)
        .on(&a, &b, &mut written)?
        .method(GemmMethod::Ampere)
        .prepare()?;
    let mut contenders = vec![Contender::new("the library's Ampere kernel", |device| {
        call.run(device)
    })];
    for (stages, pending) in [(2, 0), (3, 0), (3, 1), (4, 1), (4, 2)] {
        let kernel = ampere::staged(stages, pending)?.load(device)?;
        let (a, b, c) = (&a, &b, &c);
        contenders.push(Contender::new(
            format!("`staged({stages}, {pending})` of the chapter"),
            move |_| {
                let (mut c, shape) = (c.clone(), (EXTENT, EXTENT));
                let views = (a.view(shape)?, b.view(shape)?, c.view_mut(shape)?);
                kernel.launch([EXTENT / 64, EXTENT / 64], views)
            },
        ));
    }
    let work = 2.0 * (EXTENT as f64).powi(3) / 1e6;
    add(
        device,
        report,
        (&format!("product of {EXTENT} cubed, f16 to f32"), work),
        &contenders,
    )
}

/// The chapter on attention: one head of 64 features.
fn attention(device: &Device, report: &mut BenchReport) -> Result<()> {
    let count = SEQUENCE * 64;
    let [q, k, v] = [
        numbers::<f16>(device, count)?,
        numbers::<f16>(device, count)?,
        numbers::<f16>(device, count)?,
    ];
    let o = device.uninitialised::<f16>(count)?;
    for causal in [false, true] {
        let mut outputs = [o.clone(), o.clone()];
        let mut contenders = Vec::new();
        let methods = [AttentionMethod::Hopper, AttentionMethod::Ampere];
        for (method, o) in methods.into_iter().zip(&mut outputs) {
            let shape = (1, 1, SEQUENCE, 64);
            let views = (q.view(shape)?, k.view(shape)?, v.view(shape)?);
            let mask = if causal { Mask::Causal } else { Mask::Full };
            let call = Attention::new(&views.0, &views.1, &views.2, &o.view_mut(shape)?)
                .mask(mask)
                .method(method)
                .prepare()?;
            contenders.push(Contender::new(
                format!("the library's {method} kernel"),
                move |device| call.run(device),
            ));
        }
        let kernel = attention_program::attention(causal)
            .map_err(of_program)?
            .load(device)?;
        let (q, k, v, o) = (&q, &k, &v, &o);
        contenders.push(Contender::new("`attention` of the chapter", move |_| {
            let mut o = o.clone();
            let rows = || ((SEQUENCE, C::<64>), (64, C::<1>));
            let views = (
                View::new(q, rows())?,
                View::new(k, rows())?,
                View::new(v, ((C::<64>, SEQUENCE), (C::<1>, 64)))?,
                ViewMut::new(&mut o, rows())?,
            );
            kernel.launch([SEQUENCE / 64], views)
        }));
        let share = if causal { 0.5 } else { 1.0 };
        let work = share * 4.0 * (SEQUENCE as f64).powi(2) * 64.0 / 1e6;
        let mask = if causal { "causal" } else { "full" };
        let title =
            format!("attention of {SEQUENCE} queries and keys, one head of 64 features, {mask}");
        add(device, report, (&title, work), &contenders)?;
    }
    Ok(())
}

/// The chapter on epilogues: bias and GELU in the product, or in a kernel behind it.
fn epilogue(device: &Device, report: &mut BenchReport) -> Result<()> {
    let (count, side) = (EXTENT * EXTENT, EXTENT as i64);
    let (a, b) = (
        numbers::<bf16>(device, count)?,
        numbers::<bf16>(device, count)?,
    );
    let bias = numbers::<bf16>(device, EXTENT)?;
    let between = device.uninitialised::<bf16>(count)?;
    let mut written = [between.clone(), between.clone(), between.clone()];
    let mut after = device.uninitialised::<bf16>(count)?;
    let of_column = Layout::new((EXTENT, EXTENT), (0, 1))?;
    let bias = View::new(&bias, &of_column)?;
    let problem = GemmProblem::new(side, side, side);
    let gelu = Epilogue::new(Ty::F32, |e| {
        let x = e.accumulator() + e.tensor("bias", Ty::Bf16).to(Ty::F32);
        x.gelu_tanh().to(Ty::Bf16)
    })?;
    let map = MapExpression::new(|m| {
        let x = m.tensor("x", Ty::Bf16).to(Ty::F32) + m.tensor("bias", Ty::Bf16).to(Ty::F32);
        m.output("y", x.gelu_tanh().to(Ty::Bf16));
    })?;
    let [of_epilogue, of_plain, of_both] = &mut written;
    let with = problem.on(&a, &b, of_epilogue)?;
    let with = with.epilogue(&gelu).tensor("bias", &bias).prepare()?;
    let plain = problem.on(&a, &b, of_plain)?.prepare()?;
    let first = problem.on(&a, &b, of_both)?.prepare()?;
    let shape = (EXTENT, EXTENT);
    let (x, y) = (between.view(shape)?, after.view_mut(shape)?);
    let second = Map::new(&map)
        .input("x", &x)
        .input("bias", &bias)
        .output("y", &y);
    let second = second.prepare()?;
    let contenders = [
        Contender::new("the plain product", |device| plain.run(device)),
        Contender::new("bias and GELU in the epilogue", |device| with.run(device)),
        Contender::new("the plain product, then bias and GELU", |device| {
            first.run(device)?;
            second.run(device)
        }),
        Contender::new("bias and GELU alone", |device| second.run(device)),
    ];
    let work = 2.0 * (EXTENT as f64).powi(3) / 1e6;
    add(
        device,
        report,
        (
            &format!("product of {EXTENT} cubed, bf16, bias and GELU by tanh"),
            work,
        ),
        &contenders,
    )
}
