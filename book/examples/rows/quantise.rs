//! Quantisation: scales of a tensor, of rows and of blocks, and the way back.
//!
//! Run it with `cargo run -p colex-book --example rows_quantise`; each line `== .. ==` names a piece of the chapter.

use colex_atom::{Arch, Ty};
use colex_gpu::elementwise::{Map, MapExpression};
use colex_gpu::quantise::{Quantise, TensorScalePlan, reference};
use colex_gpu::{Device, View};
use std::error::Error;

fn main() -> Result<(), Box<dyn Error>> {
    scales()?;
    tensor()?;
    launches()?;
    at_once()?;
    plan()?;
    back()?;
    Ok(())
}

/// The same row with one scale, and with one for each block of 4.
fn scales() -> Result<(), Box<dyn Error>> {
    println!("\n== scales ==");
    // ANCHOR: scales
    let device = Device::simulator(Arch::Sm90a);
    let row = [0.01f32, -0.02, 0.03, 0.04, 1.0, -8.0, 4.0, 2.0];
    let x = device.upload(&row)?;
    let (mut q, mut scales) = (device.poisoned::<i8>(8)?, device.poisoned::<f32>(2)?);
    let q_of_row = reference::row(Ty::S8, &row)?;
    Quantise::new(Ty::S8, &x.view((1, 8))?, &q.view_mut((1, 8))?)
        .rows(&scales.view_mut(1)?)
        .run()?;
    println!("{:?} by {}", q.download()?, scales.download()?[0]);
    assert_eq!(scales.download()?[0], q_of_row.0);
    Quantise::new(Ty::S8, &x.view((1, 8))?, &q.view_mut((1, 8))?)
        .blocks(4, &scales.view_mut((1, 2))?)
        .run()?;
    println!("{:?} by {:?}", q.download()?, scales.download()?);
    // ANCHOR_END: scales
    Ok(())
}

/// One scale, found on the device.
fn tensor() -> Result<(), Box<dyn Error>> {
    println!("\n== tensor ==");
    // ANCHOR: tensor
    let device = Device::simulator(Arch::Sm90a);
    let x = device.upload(&[0.01f32, -0.02, 0.03, 0.04, 1.0, -8.0, 4.0, 2.0])?;
    let (mut q, mut scale) = (device.poisoned::<i8>(8)?, device.poisoned::<f32>(1)?);
    Quantise::new(Ty::S8, &x.view((2, 4))?, &q.view_mut((2, 4))?)
        .tensor_scale(&scale.view_mut(1)?)
        .run()?;
    println!("{:?} by {}", q.download()?, scale.download()?[0]);
    // ANCHOR_END: tensor
    Ok(())
}

/// One scale by two launches.
fn launches() -> Result<(), Box<dyn Error>> {
    println!("\n== launches ==");
    // ANCHOR: launches
    let plan = TensorScalePlan::fastest(Ty::Bf16, Ty::E4m3);
    println!("{}", plan.explain(1 << 25));
    // ANCHOR_END: launches
    // Any number of blocks gives the same bits.
    let device = Device::simulator(Arch::Sm90a);
    let numbers: Vec<f32> = (0..4096).map(|i| (i * 37 % 101) as f32 - 50.0).collect();
    let x = device.upload(&numbers)?;
    let both = [false, true].map(|by_plan| {
        let (mut q, mut scale) = (device.poisoned::<u8>(4096)?, device.poisoned::<f32>(1)?);
        {
            let (q, scale) = (q.view_mut(4096)?, scale.view_mut(1)?);
            let call = Quantise::new(Ty::E4m3, &x.view(4096)?, &q);
            let plan = TensorScalePlan {
                blocks: 3,
                threads: 64,
                ..TensorScalePlan::fastest(Ty::F32, Ty::E4m3)
            };
            if by_plan {
                call.tensor_scale_by(&scale, plan).run()?;
            } else {
                call.tensor_scale(&scale).run()?;
            }
        }
        Ok::<_, colex_gpu::Error>((q.download()?, scale.download()?))
    });
    let [one, other] = both;
    assert_eq!(one?, other?);
    Ok(())
}

/// One scale by one launch.
fn at_once() -> Result<(), Box<dyn Error>> {
    println!("\n== at_once ==");
    // ANCHOR: at_once
    let plan = TensorScalePlan::at_once(Ty::Bf16, Ty::E4m3, Arch::Sm90a, 132)?;
    println!("{}", plan.explain(1 << 25));
    // ANCHOR_END: at_once
    Ok(())
}

/// The plan of blocks of 128.
fn plan() -> Result<(), Box<dyn Error>> {
    println!("\n== plan ==");
    // ANCHOR: plan
    let device = Device::simulator(Arch::Sm90a);
    let x = device.zeros::<half::bf16>(64 * 1024)?;
    let (mut q, mut scales) = (device.zeros::<u8>(64 * 1024)?, device.zeros::<f32>(64 * 8)?);
    let call = Quantise::new(Ty::E4m3, &x.view((64, 1024))?, &q.view_mut((64, 1024))?)
        .blocks(128, &scales.view_mut((64, 8))?)
        .prepare()?;
    let (plan, problem) = (
        call.plan().ok_or("a plan")?,
        call.problem().ok_or("elements")?,
    );
    println!("{}", plan.explain(problem));
    // ANCHOR_END: plan
    Ok(())
}

/// Dequantisation is a map.
fn back() -> Result<(), Box<dyn Error>> {
    println!("\n== back ==");
    // ANCHOR: back
    let device = Device::simulator(Arch::Sm90a);
    let numbers: Vec<f32> = (0..256).map(|i| (i as f32 - 100.0) / 64.0).collect();
    let x = device.upload(&numbers)?;
    let (mut q, mut scales) = (device.poisoned::<u8>(256)?, device.poisoned::<f32>(2)?);
    Quantise::new(Ty::E4m3, &x.view(256)?, &q.view_mut(256)?)
        .blocks(128, &scales.view_mut(2)?)
        .run()?;
    let dequantise = MapExpression::new(|m| {
        let x = m.tensor("q", Ty::E4m3).to(Ty::F32) * m.tensor("scale", Ty::F32);
        m.output("y", x);
    })?;
    let mut y = device.poisoned::<f32>(256)?;
    Map::new(&dequantise)
        .input("q", &q.view((2, 128))?)
        .input("scale", &View::new(&scales, "(2,128):(1,0)")?)
        .output("y", &y.view_mut((2, 128))?)
        .run()?;
    let pairs = y
        .download()?
        .into_iter()
        .zip(&numbers)
        .map(|(y, x)| (y - x).abs() / x.abs().max(0.1));
    println!("{:.4}", pairs.fold(0.0, f32::max));
    // ANCHOR_END: back
    Ok(())
}
