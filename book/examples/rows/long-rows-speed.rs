//! Which plan of long rows is fast on which memory: the plans of a call on two devices, and what decides between them.
//!
//! Run it with `cargo run -p colex-book --example rows_long_rows_speed`; each line `== .. ==` names a piece of the chapter.

use colex_atom::{Arch, Ty};
use colex_gpu::rowwise::{RowFunction, RowStorage, Rowwise, RowwisePlan, RowwiseProblem};
use colex_gpu::{Device, Rates};
use std::error::Error;

fn main() -> Result<(), Box<dyn Error>> {
    plans()?;
    weighed()?;
    exercise_1()?;
    exercise_2()?;
    Ok(())
}

// ANCHOR: devices
/// The rates of an H200, whose memory moves 4.9 TB per second, and of an H100 with 3.4.
fn devices() -> [(&'static str, Rates); 2] {
    let h200 = Rates::of(Arch::Sm90a);
    let h100 = Rates {
        memory_clock: 2_619_000,
        bus: 5120,
        ..h200
    };
    [("H100", h100), ("H200", h200)]
}
// ANCHOR_END: devices

/// The plans of two functions for rows of 65,536 numbers, on both devices.
fn plans() -> Result<(), Box<dyn Error>> {
    println!("\n== plans ==");
    // ANCHOR: plans
    for function in [RowFunction::Softmax, RowFunction::RmsNorm] {
        for (name, rates) in devices() {
            let problem = RowwiseProblem::new(function, Ty::F32, [1024, 65_536]);
            let plan = RowwisePlan::fastest_on(&problem, Arch::Sm90a, rates)?;
            println!(
                "{name}: {function}, {} blocks, {:?}",
                plan.blocks, plan.storage
            );
        }
    }
    // ANCHOR_END: plans
    Ok(())
}

/// The last line of the call's `explain`: both times.
fn weighed() -> Result<(), Box<dyn Error>> {
    println!("\n== weighed ==");
    // ANCHOR: weighed
    let device = Device::simulator(Arch::Sm90a);
    let x = device.zeros::<f32>(65_536)?;
    let mut y = device.zeros::<f32>(65_536)?;
    let (x, y) = (x.view((1, 65_536))?, y.view_mut((1, 65_536))?);
    let call = Rowwise::new(RowFunction::Softmax, &x, &y).prepare()?;
    println!("{}", call.explain().lines().last().unwrap_or_default());
    // ANCHOR_END: weighed
    Ok(())
}

/// Exercise 1: the shortest row for which the cluster wins.
fn exercise_1() -> Result<(), Box<dyn Error>> {
    println!("\n== exercise_1 ==");
    // ANCHOR: exercise_1
    for (name, rates) in devices() {
        let mut lengths = (32_772..=65_536).step_by(4);
        let first = lengths.find(|columns| {
            let problem = RowwiseProblem::new(RowFunction::RmsNorm, Ty::F32, [1024, *columns]);
            let plan = RowwisePlan::fastest_on(&problem, Arch::Sm90a, rates);
            plan.is_ok_and(|plan| matches!(plan.storage, RowStorage::Ahead { .. }))
        });
        println!("{name}: {first:?}");
    }
    // ANCHOR_END: exercise_1
    Ok(())
}

/// Exercise 2: the share of a turn of teams that is not lost.
fn exercise_2() -> Result<(), Box<dyn Error>> {
    println!("\n== exercise_2 ==");
    // ANCHOR: exercise_2
    // Bytes that a turn of four teams reads and writes, and a copy's bytes per microsecond.
    let bytes = f64::from(4 * 2 * (4 << 20));
    for (name, copy) in [("H100", 2.97e6), ("H200", 4.18e6)] {
        let of_copy = bytes / copy;
        let share = of_copy / (of_copy + 2.0);
        println!("{name}: {of_copy:.1} us of a copy, a share of {share:.2}");
    }
    // ANCHOR_END: exercise_2
    Ok(())
}
