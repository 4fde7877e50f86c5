//! Long rows: rows ahead and teams of blocks on the simulator, and what fits into both.
//!
//! Run it with `cargo run -p colex-book --example rows_long_rows`; each line `== .. ==` names a piece of the chapter.

use colex_atom::{Arch, Ty};
use colex_gpu::rowwise::{RowFunction, RowStorage, Rowwise, RowwisePlan, RowwiseProblem};
use colex_gpu::{Device, softmax};
use std::error::Error;

fn main() -> Result<(), Box<dyn Error>> {
    ahead()?;
    teams()?;
    behind()?;
    exercise_1()?;
    exercise_3()?;
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

/// Rows of teams of blocks, against the default plan; and more blocks than a device runs at once.
fn teams() -> Result<(), Box<dyn Error>> {
    println!("\n== teams ==");
    // ANCHOR: teams
    let device = Device::simulator(Arch::Sm90a);
    let numbers: Vec<f32> = (0..7 * 600).map(|i| (i * 37 % 101) as f32 / 25.0).collect();
    let x = device.upload(&numbers)?;
    let (mut y, mut other) = (
        device.poisoned::<f32>(7 * 600)?,
        device.poisoned::<f32>(7 * 600)?,
    );
    let (x, shape) = (x.view((7, 600))?, (7, 600));
    softmax(&x, &other.view_mut(shape)?)?;
    let call = Rowwise::new(RowFunction::Softmax, &x, &y.view_mut(shape)?);
    // Two teams of five blocks, on ten multiprocessors.
    let call =
        call.prepare_with(|problem, arch| RowwisePlan::in_teams(problem, arch, [5, 10], [32, 1]))?;
    println!("{call}");
    call.run(&device)?;
    let (y, other) = (y.download()?, other.download()?);
    let agree = |(a, b): (&[f32], &[f32])| a.iter().zip(b).all(|(a, b)| (a - b).abs() < 1e-7);
    let rows = y
        .chunks(600)
        .zip(other.chunks(600))
        .filter(|pair| agree(*pair));
    println!("{} rows agree", rows.count());

    // Five teams of 32 blocks would need 160 multiprocessors.
    let problem = RowwiseProblem::new(RowFunction::Softmax, Ty::F32, [64, 1 << 20]);
    let refused = RowwisePlan::in_teams(&problem, Arch::Sm90a, [32, 160], [1024, 1]);
    if let Err(error) = refused {
        println!("{error}");
    }
    // ANCHOR_END: teams
    Ok(())
}

/// Rows that stay in shared memory while the blocks of their team meet.
fn behind() -> Result<(), Box<dyn Error>> {
    println!("\n== behind ==");
    // ANCHOR: behind
    let device = Device::simulator(Arch::Sm90a);
    let numbers: Vec<f32> = (0..7 * 600).map(|i| (i * 37 % 101) as f32 / 25.0).collect();
    let x = device.upload(&numbers)?;
    let (mut y, mut other) = (
        device.poisoned::<f32>(7 * 600)?,
        device.poisoned::<f32>(7 * 600)?,
    );
    let (x, shape) = (x.view((7, 600))?, (7, 600));
    Rowwise::new(RowFunction::LayerNorm, &x, &other.view_mut(shape)?).run()?;
    let call = Rowwise::new(RowFunction::LayerNorm, &x, &y.view_mut(shape)?);
    // Two teams of three blocks, with two groups in each block.
    let call = call.prepare_with(|problem, arch| {
        RowwisePlan::in_teams(problem, arch, [3, 6], [32, 2])?.lagging(arch, 1)
    })?;
    println!("{call}");
    call.run(&device)?;
    let (y, other) = (y.download()?, other.download()?);
    let agree = |(a, b): (&[f32], &[f32])| a.iter().zip(b).all(|(a, b)| (a - b).abs() < 1e-5);
    let rows = y
        .chunks(600)
        .zip(other.chunks(600))
        .filter(|pair| agree(*pair));
    println!("{} rows agree", rows.count());
    // ANCHOR_END: behind
    Ok(())
}

/// The longest row of one team of all blocks.
fn exercise_1() -> Result<(), Box<dyn Error>> {
    println!("\n== exercise_1 ==");
    // ANCHOR: exercise_1
    for columns in [132 * 32_768, 132 * 32_768 + 4] {
        let problem = RowwiseProblem::new(RowFunction::Softmax, Ty::F32, [64, columns]);
        match RowwisePlan::in_teams(&problem, Arch::Sm90a, [132, 132], [1024, 1]) {
            Ok(plan) => println!("{columns} columns: {plan}"),
            Err(error) => println!("{columns} columns: {error}"),
        }
    }
    // ANCHOR_END: exercise_1
    Ok(())
}

/// The rows ahead of a cluster of four.
fn exercise_3() -> Result<(), Box<dyn Error>> {
    println!("\n== exercise_3 ==");
    // ANCHOR: exercise_3
    for columns in [65_536, 49_152] {
        let problem = RowwiseProblem::new(RowFunction::Softmax, Ty::F32, [64, columns]);
        let plan = RowwisePlan::fastest(&problem, Arch::Sm90a)?;
        println!(
            "{columns} columns: {:?}, {} blocks",
            plan.storage, plan.blocks
        );
    }
    // ANCHOR_END: exercise_3
    Ok(())
}
