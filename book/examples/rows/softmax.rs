//! Softmax and norms of rows: a kernel of one's own, plans, calls on views, the residual.
//!
//! Run it with `cargo run -p colex-book --example rows_softmax`; each line `== .. ==` names a piece of the chapter.

use colex_atom::{Arch, Ty};
use colex_gpu::ir::BinaryOp::{Add, Max};
use colex_gpu::rowwise::{RowFunction, Rowwise, RowwisePlan, RowwiseProblem, reference};
use colex_gpu::tensor::{AtThread, Builder, Expr, TensorKernel};
use colex_gpu::{Device, Load, softmax};
use colex_tiled::TiledCopy;
use half::bf16;
use std::error::Error;

fn main() -> Result<(), Box<dyn Error>> {
    own()?;
    plans()?;
    views()?;
    norm()?;
    refusals()?;
    Ok(())
}

// ANCHOR: kernel
/// softmax of rows of up to 512 numbers: one warp per row.
fn row_softmax() -> Result<TensorKernel, Box<dyn Error>> {
    let mut k = Builder::new("row_softmax", Arch::Sm80, 128);
    let [x, y] = ["x", "y"].map(|name| k.tensor(name, Ty::F32, "(64,512):(512,_1)"));
    let four = colex_atom::copy("UniversalCopy<uint128_t>")?;
    let copy = TiledCopy::new(four, 32, "(4,32):(32,1)", "(1,4):(0,1)")?;
    let (mine, rows) = (copy.at(&k.thread()), k.block_index(0));
    let columns = k.within(x.extent(1), 1..513); // the launch refuses longer rows
    let from = mine.partition_src(&x.local_tile((4, 512), (&rows, 0))); // (CPY, CPY_M, CPY_N)
    let to = mine.partition_dst(&y.local_tile((4, 512), (&rows, 0))); // (CPY, CPY_M, CPY_N)
    let row = k.fragment_like(&from);
    k.copy_in_bounds(&copy, &from, &row);

    let is_there = Expr::coordinate(&from, 1).lt(columns);
    k.assign(&row, is_there.select(&row, f64::NEG_INFINITY));
    let own = k.reduce_all(Max, &row);
    let top = k.reduce_warp(Max, &own);
    k.assign(&row, (&row - &top).exp());
    let own = k.reduce_all(Add, &row);
    let sum = k.reduce_warp(Add, &own);
    k.assign(&row, &row / &sum);
    k.copy_in_bounds(&copy, &row, &to);
    Ok(k.finish()?)
}
// ANCHOR_END: kernel

/// The kernel against the host, and beside that of the library.
fn own() -> Result<(), Box<dyn Error>> {
    println!("\n== own ==");
    // ANCHOR: own
    let device = Device::simulator(Arch::Sm80);
    let (rows, columns) = (6, 504);
    let numbers: Vec<f32> = (0..rows * columns)
        .map(|i| (i * 37 % 101) as f32 / 25.0)
        .collect();
    let x = device.upload(&numbers)?;
    let mut y = device.poisoned::<f32>(rows * columns)?;
    let (from, to) = (x.view((rows, columns))?, y.view_mut((rows, columns))?);
    let report = row_softmax()?.load(&device)?.profile([2], (&from, to))?;
    let found = y.download()?;
    let agrees = |(x, y): &(&[f32], &[f32])| {
        let x: Vec<f64> = x.iter().map(|x| f64::from(*x)).collect();
        let want = reference::row(RowFunction::Softmax, &x, None, None, 0.0);
        let mut pairs = want.iter().zip(*y);
        pairs.all(|(want, y)| (f64::from(*y) / want - 1.0).abs() < 1e-5)
    };
    let pairs = numbers.chunks(columns).zip(found.chunks(columns));
    println!("{} rows agree", pairs.filter(agrees).count());
    print!("{report}");

    let to = y.view_mut((rows, columns))?;
    let call = Rowwise::new(RowFunction::Softmax, &from, &to).prepare()?;
    println!("{call}");
    print!("{}", call.profile(&device)?[0]);
    // ANCHOR_END: own
    Ok(())
}

/// How rows of three lengths are divided.
fn plans() -> Result<(), Box<dyn Error>> {
    println!("\n== plans ==");
    // ANCHOR: plans
    for columns in [1000, 65_536, 1 << 20] {
        let problem = RowwiseProblem::new(RowFunction::Softmax, Ty::F32, [64, columns]);
        let plan = RowwisePlan::fastest(&problem, Arch::Sm90a)?;
        println!("{}", plan.explain(&problem));
    }
    // ANCHOR_END: plans
    Ok(())
}

/// The softmax of columns: a permuted view.
fn views() -> Result<(), Box<dyn Error>> {
    println!("\n== views ==");
    // ANCHOR: views
    let device = Device::simulator(Arch::Sm80);
    let numbers: Vec<f32> = (0..12).map(|i| (i * 7 % 5) as f32).collect();
    let (x, mut y) = (device.upload(&numbers)?, device.poisoned::<f32>(12)?);
    // Both matrices are 4 by 3 in memory; the rows of the call are their columns.
    let (from, to) = (x.view((4, 3))?, y.view_mut((4, 3))?);
    softmax(&from.permute(&[1, 0])?, &to.permute(&[1, 0])?)?;
    let found = y.download()?;
    for column in 0..3 {
        let row: Vec<f64> = (0..4).map(|i| f64::from(numbers[3 * i + column])).collect();
        let want = reference::row(RowFunction::Softmax, &row, None, None, 0.0);
        for (i, want) in want.iter().enumerate() {
            assert!((f64::from(found[3 * i + column]) - want).abs() < 1e-6);
        }
        println!(
            "{:.4} {:.4} .. {:.4}",
            found[column],
            found[3 + column],
            found[9 + column]
        );
    }
    // ANCHOR_END: views
    Ok(())
}

/// RMSNorm of a sum, which is stored too.
fn norm() -> Result<(), Box<dyn Error>> {
    println!("\n== norm ==");
    // ANCHOR: norm
    let device = Device::simulator(Arch::Sm80);
    let numbers = |of: fn(i32) -> f32| (0..1000).map(|i| bf16::from_f32(of(i))).collect();
    let [x, residual, weight]: [Vec<bf16>; 3] = [
        numbers(|i| (i % 7) as f32),
        numbers(|i| (i % 5) as f32 - 2.0),
        numbers(|i| (1 + i % 2) as f32),
    ];
    let [on_x, on_residual] = [device.upload(&x)?, device.upload(&residual)?];
    let on_weight = device.upload(&weight[..500])?;
    let (mut y, mut sum) = (
        device.poisoned::<bf16>(1000)?,
        device.poisoned::<bf16>(1000)?,
    );
    let call = Rowwise::new(
        RowFunction::RmsNorm,
        &on_x.view((2, 500))?,
        &y.view_mut((2, 500))?,
    )
    .weight(&on_weight.view(500)?)
    .residual(&on_residual.view((2, 500))?, &sum.view_mut((2, 500))?)
    .epsilon(1e-6)
    .prepare()?;
    println!("{call}");
    call.run(&device)?;
    let (y, sum) = (y.download()?, sum.download()?);
    println!("{} {} {}", sum[0], sum[1], sum[999]);
    println!("{} {} {}", y[0], y[1], y[999]);
    // ANCHOR_END: norm
    Ok(())
}

/// What a call says of wrong views and plans.
fn refusals() -> Result<(), Box<dyn Error>> {
    println!("\n== refusals ==");
    // ANCHOR: refusals
    let device = Device::simulator(Arch::Sm80);
    let (x, mut y) = (device.zeros::<f32>(200)?, device.zeros::<f32>(200)?);
    let x = x.view((2, 100))?;
    if let Err(error) = softmax(&x, &y.view_mut((100, 2))?) {
        println!("{error}");
    }
    let y = y.view_mut((2, 100))?;
    let call = Rowwise::new(RowFunction::Softmax, &x, &y);
    let short = call.prepare_with(|problem, arch| {
        let plan = RowwisePlan::fastest(problem, arch)?;
        Ok(RowwisePlan {
            accesses: 3,
            ..plan
        })
    });
    if let Err(error) = short {
        println!("{error}");
    }
    // ANCHOR_END: refusals
    Ok(())
}
