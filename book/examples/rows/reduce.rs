//! Reductions along any mode: plans, calls on views, arg-max, cumulative sums, what is refused.
//!
//! Run it with `cargo run -p colex-book --example rows_reduce`; each line `== .. ==` names a piece of the chapter.

use colex_atom::{Arch, Ty};
use colex_gpu::reduce::scan::{Scan, ScanPlan, ScanProblem, reference};
use colex_gpu::reduce::{Reduce, ReduceFunction, ReducePlan, ReduceProblem};
use colex_gpu::{Device, arg_max, reduce};
use std::error::Error;

fn main() -> Result<(), Box<dyn Error>> {
    plans()?;
    calls()?;
    order()?;
    indices()?;
    sums()?;
    refusals()?;
    exercise_4()?;
    Ok(())
}

/// How one tensor is reduced along each of its modes.
fn plans() -> Result<(), Box<dyn Error>> {
    println!("\n== plans ==");
    // ANCHOR: plans
    for modes in [&[1][..], &[0], &[0, 1]] {
        let problem = ReduceProblem::new(ReduceFunction::Sum, Ty::Bf16, &[65_536, 512], modes)?;
        let plan = ReducePlan::fastest(&problem)?;
        println!("{}", plan.explain(&problem));
    }
    // ANCHOR_END: plans
    Ok(())
}

/// A tensor along each of its modes.
fn calls() -> Result<(), Box<dyn Error>> {
    println!("\n== calls ==");
    // ANCHOR: calls
    let device = Device::simulator(Arch::Sm80);
    let numbers: Vec<f32> = (0..24).map(|i| i as f32).collect();
    let x = device.upload(&numbers)?;
    let x = x.view((2, 3, 4))?;
    let mut y = device.poisoned::<f32>(8)?;
    reduce(ReduceFunction::Sum, &x, &[1], &y.view_mut((2, 4))?)?;
    println!("{:?}", y.download()?);
    // The results may keep the reduced mode with the extent 1.
    let mut most = device.poisoned::<f32>(3)?;
    reduce(ReduceFunction::Max, &x, &[0, 2], &most.view_mut((1, 3, 1))?)?;
    println!("{:?}", most.download()?);
    let mut norm = device.poisoned::<f32>(1)?;
    reduce(ReduceFunction::Norm, &x, &[0, 1, 2], &norm.view_mut(1)?)?;
    println!("{:?}", norm.download()?);
    // ANCHOR_END: calls
    Ok(())
}

/// Two plans for one sum.
fn order() -> Result<(), Box<dyn Error>> {
    println!("\n== order ==");
    // ANCHOR: order
    let device = Device::simulator(Arch::Sm80);
    let numbers: Vec<f32> = (0..1000).map(|i| 1.0 / (i + 1) as f32).collect();
    let (x, mut y) = (device.upload(&numbers)?, device.poisoned::<f32>(1)?);
    let mut sum = |along: i64, parts: i64| -> Result<f32, Box<dyn Error>> {
        let call = Reduce::new(ReduceFunction::Sum, &x.view(1000)?, &[0], &y.view_mut(1)?);
        let call = call.prepare_with(|problem| {
            let plan = ReducePlan::fastest(problem)?;
            Ok(ReducePlan {
                along,
                rows: 1,
                accesses: 1,
                parts,
                ..plan
            })
        })?;
        call.run(&device)?;
        Ok(y.download()?[0])
    };
    println!("{:?} {:?}", sum(32, 1)?, sum(32, 1)?);
    println!("{:?} {:?}", sum(64, 3)?, sum(64, 3)?);
    // ANCHOR_END: order
    Ok(())
}

/// The index of the largest element of each row.
fn indices() -> Result<(), Box<dyn Error>> {
    println!("\n== indices ==");
    // ANCHOR: indices
    let device = Device::simulator(Arch::Sm80);
    let x = device.upload(&[1.0f32, 7.0, 7.0, f32::NAN, 8.0, f32::NAN])?;
    let x = x.view((2, 3))?;
    let mut at = device.poisoned::<i64>(2)?;
    arg_max(&x, 1, &at.view_mut(2)?)?;
    println!("{:?}", at.download()?);
    let mut least = device.poisoned::<f32>(3)?;
    let mut rows = device.poisoned::<i32>(3)?;
    Reduce::index(ReduceFunction::ArgMin, &x, 0, &rows.view_mut(3)?)
        .values(&least.view_mut(3)?)
        .run()?;
    println!("{:?} {:?}", rows.download()?, least.download()?);
    // ANCHOR_END: indices
    Ok(())
}

/// The sums on the way along one long row, bit for bit those of the host.
fn sums() -> Result<(), Box<dyn Error>> {
    println!("\n== sums ==");
    // ANCHOR: sums
    // A row-major tensor of shape (4,2^20,1), with sums along its second mode.
    let long = ScanProblem::new(Ty::F32, [4, 1 << 20, 1])?;
    println!("{}", ScanPlan::fastest(&long).explain(&long));
    let device = Device::simulator(Arch::Sm80);
    let numbers: Vec<f32> = (0..3000).map(|i| 1.0 / (i + 1) as f32).collect();
    let (x, mut y) = (device.upload(&numbers)?, device.poisoned::<f32>(3000)?);
    let call = Scan::new(&x.view(3000)?, 0, &y.view_mut(3000)?);
    let plan = |problem: &ScanProblem| {
        let plan = ScanPlan::fastest(problem);
        Ok(ScanPlan {
            along: 64,
            turns: 1,
            ..plan
        })
    };
    let call = call.prepare_with(plan)?;
    println!("{call}");
    call.run(&device)?;
    let plan = call.plan().copied().ok_or("there is a plan")?;
    assert_eq!(y.download()?, reference::sums(&plan, &numbers));
    // ANCHOR_END: sums
    Ok(())
}

/// What a call says of wrong views and plans.
fn refusals() -> Result<(), Box<dyn Error>> {
    println!("\n== refusals ==");
    // ANCHOR: refusals
    let device = Device::simulator(Arch::Sm80);
    let (x, mut y) = (device.zeros::<f32>(200)?, device.zeros::<f32>(200)?);
    let rows = x.view((2, 100))?;
    if let Err(error) = reduce(ReduceFunction::Sum, &rows, &[1], &y.view_mut(100)?) {
        println!("{error}");
    }
    if let Err(error) = reduce(ReduceFunction::Max, &x.view((2, 0))?, &[1], &y.view_mut(2)?) {
        println!("{error}");
    }
    // ANCHOR_END: refusals
    Ok(())
}

/// Exercise 4: three plans for one sum, each twice.
fn exercise_4() -> Result<(), Box<dyn Error>> {
    println!("\n== exercise_4 ==");
    // ANCHOR: exercise_4
    let device = Device::simulator(Arch::Sm80);
    let numbers: Vec<f32> = (0..1000).map(|i| 1.0 / (i + 1) as f32).collect();
    let (x, mut y) = (device.upload(&numbers)?, device.poisoned::<f32>(1)?);
    for (along, parts) in [(32, 1), (64, 1), (64, 3)] {
        let mut found = Vec::new();
        for _ in 0..2 {
            let call = Reduce::new(ReduceFunction::Sum, &x.view(1000)?, &[0], &y.view_mut(1)?);
            let call = call.prepare_with(|problem| {
                let plan = ReducePlan::fastest(problem)?;
                let (rows, accesses) = (1, 1);
                Ok(ReducePlan {
                    along,
                    rows,
                    accesses,
                    parts,
                    ..plan
                })
            })?;
            call.run(&device)?;
            drop(call);
            found.push(y.download()?[0]);
        }
        println!("{along} threads, {parts} parts: {found:?}");
    }
    // ANCHOR_END: exercise_4
    Ok(())
}
