//! Softmax and norms of rows: plans, calls on views, the residual.
//!
//! Run it with `cargo run -p colex-book --example rows_softmax`; each line `== .. ==` names a piece of the chapter.

use colex_atom::{Arch, Ty};
use colex_gpu::rowwise::{
    RowFunction, RowStorage, Rowwise, RowwisePlan, RowwiseProblem, reference,
};
use colex_gpu::{Device, softmax};
use half::bf16;
use std::error::Error;

fn main() -> Result<(), Box<dyn Error>> {
    plans()?;
    ahead()?;
    views()?;
    norm()?;
    refusals()?;
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

/// Rows one after the other, in clusters of two blocks, against the default plan.
fn ahead() -> Result<(), Box<dyn Error>> {
    println!("\n== ahead ==");
    // ANCHOR: ahead
    let device = Device::simulator(Arch::Sm90a);
    let numbers: Vec<f32> = (0..16 * 500)
        .map(|i| (i * 37 % 101) as f32 / 25.0)
        .collect();
    let x = device.upload(&numbers)?;
    let (mut y, mut other) = (
        device.poisoned::<f32>(16 * 500)?,
        device.poisoned::<f32>(16 * 500)?,
    );
    let (x, shape) = (x.view((16, 500))?, (16, 500));
    softmax(&x, &other.view_mut(shape)?)?;
    let call = Rowwise::new(RowFunction::Softmax, &x, &y.view_mut(shape)?);
    let call = call.prepare_with(|problem, arch| {
        let plan = RowwisePlan::fastest(problem, arch)?;
        let storage = RowStorage::Ahead {
            rows: 2,
            clusters: 3,
        };
        Ok(RowwisePlan {
            threads: 32,
            rows: 1,
            accesses: 2,
            blocks: 2,
            storage,
            ..plan
        })
    })?;
    println!("{call}");
    call.run(&device)?;
    let (y, other) = (y.download()?, other.download()?);
    let agree = |(a, b): (&[f32], &[f32])| a.iter().zip(b).all(|(a, b)| (a - b).abs() < 1e-7);
    let rows = y
        .chunks(500)
        .zip(other.chunks(500))
        .filter(|pair| agree(*pair));
    println!("{} rows agree", rows.count());
    // ANCHOR_END: ahead
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
