//! The library's Hopper kernel: plans with other numbers, and the pingpong schedule.
//!
//! Run it with `cargo run -p colex-book --example kernel_hopper_library`; each line `== .. ==` names a piece of the chapter.

use colex_atom::Arch;
use colex_gpu::Device;
use colex_gpu::kernels::GemmProblem;
use colex_gpu::kernels::gemm::{GemmMethod, GemmPlan};
use colex_sched::pipeline::Schedule;
use half::f16;
use std::error::Error;

fn main() -> Result<(), Box<dyn Error>> {
    other_numbers()?;
    pingpong()?;
    Ok(())
}

/// Runs a plan with other numbers, and one that is refused.
fn other_numbers() -> Result<(), Box<dyn Error>> {
    println!("\n== other_numbers ==");
    // ANCHOR: other_numbers
    let device = Device::simulator(Arch::Sm90a);
    let problem = GemmProblem::new(100, 72, 40);
    let (a, b) = (
        device.upload(&[f16::ONE; 100 * 40])?,
        device.upload(&[f16::ONE; 72 * 40])?,
    );
    let mut c = device.poisoned::<f32>(100 * 72)?;
    let gemm = problem.on(&a, &b, &mut c)?;
    let with = |warps, tile| {
        gemm.prepare_with(|operands, _| {
            Ok(GemmPlan {
                warps,
                tile,
                ..GemmPlan::new(GemmMethod::Hopper, operands)
            })
        })
    };
    let refused = with([1, 1], [128, 256, 64]).unwrap_err();
    println!("{refused}");

    with([1, 1], [64, 96, 32])?.run(&device)?;
    assert_eq!(c.download()?, [40.0; 100 * 72]);
    // ANCHOR_END: other_numbers
    Ok(())
}

/// Two consumers with the pingpong schedule.
fn pingpong() -> Result<(), Box<dyn Error>> {
    println!("\n== pingpong ==");
    // ANCHOR: pingpong
    let device = Device::simulator(Arch::Sm90a);
    // 34 by 8 tiles of 64 by 16: two for each of 132 multiprocessors, a third for eight of them.
    let problem = GemmProblem::new(34 * 64, 8 * 16, 40);
    let (a, b) = (
        device.upload(&vec![f16::ONE; 34 * 64 * 40])?,
        device.upload(&[f16::ONE; 8 * 16 * 40])?,
    );
    let mut c = device.poisoned::<f32>(34 * 64 * 8 * 16)?;
    let gemm = problem.on(&a, &b, &mut c)?;
    let call = gemm.prepare_with(|operands, _| {
        Ok(GemmPlan {
            tile: [64, 16, 32],
            warps: [1, 1],
            cluster: [1, 1, 1],
            stages: 3,
            schedule: Schedule::Pingpong,
            ..GemmPlan::new(GemmMethod::Hopper, operands)
        })
    })?;
    call.run(&device)?;
    println!("{call}");
    assert!(c.download()?.iter().all(|sum| *sum == 40.0));
    // ANCHOR_END: pingpong
    Ok(())
}
