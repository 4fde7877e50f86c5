//! What calls that memory limits say of their plans.
//!
//! Run it with `cargo run -p colex-book --example rows_introduction`; each line `== .. ==` names a piece of the chapter.

use colex_atom::{Arch, Ty};
use colex_gpu::elementwise::{Map, MapExpression};
use colex_gpu::reduce::{Reduce, ReduceFunction};
use colex_gpu::rowwise::{RowFunction, Rowwise};
use colex_gpu::{Device, View};
use half::bf16;
use std::error::Error;

fn main() -> Result<(), Box<dyn Error>> {
    rows()?;
    columns()?;
    apart()?;
    ahead()?;
    exercise_4()?;
    Ok(())
}

/// A plan whose threads have whole rows.
fn rows() -> Result<(), Box<dyn Error>> {
    println!("\n== rows ==");
    // ANCHOR: rows
    let device = Device::simulator(Arch::Sm90a);
    let (x, mut y) = (
        device.zeros::<bf16>(512 * 1024)?,
        device.zeros::<bf16>(512 * 1024)?,
    );
    let (x, y) = (x.view((512, 1024))?, y.view_mut((512, 1024))?);
    let call = Rowwise::new(RowFunction::Softmax, &x, &y).prepare()?;
    println!("{call}\n{}", call.explain());
    // ANCHOR_END: rows
    Ok(())
}

/// A plan whose blocks share results.
fn columns() -> Result<(), Box<dyn Error>> {
    println!("\n== columns ==");
    // ANCHOR: columns
    let device = Device::simulator(Arch::Sm90a);
    let (x, mut y) = (
        device.zeros::<bf16>(16384 * 512)?,
        device.zeros::<bf16>(512)?,
    );
    let (x, y) = (x.view((16384, 512))?, y.view_mut(512)?);
    let call = Reduce::new(ReduceFunction::Sum, &x, &[0], &y).prepare()?;
    println!("{call}\n{}", call.explain());
    // ANCHOR_END: columns
    Ok(())
}

/// A view whose neighbours lie in other sectors.
fn apart() -> Result<(), Box<dyn Error>> {
    println!("\n== apart ==");
    // ANCHOR: apart
    let device = Device::simulator(Arch::Sm90a);
    let (x, mut y) = (device.zeros::<f32>(4096 * 8)?, device.zeros::<f32>(1)?);
    let y = y.view_mut(1)?;
    for layout in ["4096:1", "4096:8"] {
        let x = View::new(&x, layout)?;
        let call = Reduce::new(ReduceFunction::Sum, &x, &[0], &y).prepare()?;
        let traffic = call.traffic().ok_or("the call has no result")?;
        println!(
            "{layout}: {} sectors, {} at best",
            traffic.sectors, traffic.least_sectors
        );
    }
    // ANCHOR_END: apart
    Ok(())
}

/// The kernels of shapes that will come.
fn ahead() -> Result<(), Box<dyn Error>> {
    println!("\n== ahead ==");
    // ANCHOR: ahead
    let device = Device::simulator(Arch::Sm90a);
    let add = MapExpression::new(|m| {
        let [x, bias] = ["x", "bias"].map(|name| m.tensor(name, Ty::F32));
        m.output("y", x + bias);
    })?;
    // Memory for two rows is enough.
    let (x, bias) = (device.zeros::<f32>(8192)?, device.zeros::<f32>(4096)?);
    let mut y = device.poisoned::<f32>(8192)?;
    let call = Map::new(&add)
        .input("x", &x.view((2, 4096))?)
        .input("bias", &View::new(&bias, "(2,4096):(0,1)")?)
        .output("y", &y.view_mut((2, 4096))?);
    let rows = 1..=512;
    let kernels = call.load_plans(rows.map(|rows| [rows, 4096]))?;
    println!("512 shapes, {kernels} kernels");
    // ANCHOR_END: ahead
    Ok(())
}

/// Exercise 4: the first program with 8 rows.
fn exercise_4() -> Result<(), Box<dyn Error>> {
    println!("\n== exercise_4 ==");
    // ANCHOR: exercise_4
    let device = Device::simulator(Arch::Sm90a);
    let (x, mut y) = (
        device.zeros::<bf16>(8 * 1024)?,
        device.zeros::<bf16>(8 * 1024)?,
    );
    let (x, y) = (x.view((8, 1024))?, y.view_mut((8, 1024))?);
    let call = Rowwise::new(RowFunction::Softmax, &x, &y).prepare()?;
    for line in call.explain().lines().filter(|line| {
        ["block", "Predicted"]
            .iter()
            .any(|word| line.contains(word))
            && !line.starts_with("Beside")
    }) {
        println!("{line}");
    }
    // ANCHOR_END: exercise_4
    Ok(())
}
