//! Maps, gathers and rotary embeddings: loops of any tensors, plans, calls on views.
//!
//! Run it with `cargo run -p colex-book --example rows_maps`; each line `== .. ==` names a piece of the chapter.

use colex_atom::{Arch, Ty};
use colex_gpu::elementwise::{Map, MapExpression, Nest, Pairing, Rotary, reference};
use colex_gpu::{Device, View, gather};
use colex_layout::Layout;
use std::error::Error;

fn main() -> Result<(), Box<dyn Error>> {
    loops()?;
    map()?;
    place()?;
    rows()?;
    rotary()?;
    refusals()?;
    Ok(())
}

/// The loops of tensors with the same shape.
fn loops() -> Result<(), Box<dyn Error>> {
    println!("\n== loops ==");
    // ANCHOR: loops
    let rows: Layout = "(8,6,4):(24,4,1)".parse()?; // row-major
    let bias: Layout = "(8,6,4):(0,0,1)".parse()?; // one number for each column
    let turned: Layout = "(8,6,4):(1,8,48)".parse()?; // column-major
    println!("{}", Nest::new(&[("y", &rows), ("x", &rows)])?);
    println!("{}", Nest::new(&[("y", &rows), ("bias", &bias)])?);
    println!("{}", Nest::new(&[("y", &rows), ("x", &turned)])?);
    // ANCHOR_END: loops
    Ok(())
}

/// A map with a broadcast bias, and its plan.
fn map() -> Result<(), Box<dyn Error>> {
    println!("\n== map ==");
    // ANCHOR: map
    let gelu = MapExpression::new(|m| {
        let x = m.tensor("x", Ty::F32) + m.tensor("bias", Ty::F32);
        m.output("y", x.gelu().to(Ty::F16));
    })?;
    let device = Device::simulator(Arch::Sm90a);
    let numbers: Vec<f32> = (0..4000).map(|i| (i % 17) as f32 / 4.0 - 2.0).collect();
    let (x, bias) = (device.upload(&numbers)?, device.upload(&[0.5f32; 40])?);
    let mut y = device.poisoned::<half::f16>(4000)?;
    let bias = View::new(&bias, "(100,40):(0,1)")?;
    let call = Map::new(&gelu)
        .input("x", &x.view((100, 40))?)
        .input("bias", &bias)
        .output("y", &y.view_mut((100, 40))?)
        .prepare()?;
    let (plan, problem) = (
        call.plan().ok_or("a plan")?,
        call.problem().ok_or("elements")?,
    );
    for line in plan.explain(problem).lines().skip(1) {
        println!("{line}");
    }
    call.run(&device)?;
    let bits = |x: f32| u64::from(x.to_bits());
    let want = gelu.evaluate(&[bits(numbers[7]), bits(0.5)])?;
    println!(
        "{} {}",
        y.download()?[7],
        want[0] == y.download()?[7].to_bits().into()
    );
    // ANCHOR_END: map
    Ok(())
}

/// A map in place.
fn place() -> Result<(), Box<dyn Error>> {
    println!("\n== place ==");
    // ANCHOR: place
    let device = Device::simulator(Arch::Sm80);
    let mut x = device.upload(&[1i32, 2, 3, 4, 5, 6])?;
    let sum: MapExpression =
        "(x: tensor s32, column: coordinate 1) -> y { add(x, column) }".parse()?;
    {
        let here = x.view_mut((2, 3))?;
        Map::new(&sum).input("x", &here).output("y", &here).run()?;
    }
    println!("{:?}", x.download()?);
    // ANCHOR_END: place
    Ok(())
}

/// An embedding.
fn rows() -> Result<(), Box<dyn Error>> {
    println!("\n== rows ==");
    // ANCHOR: rows
    let device = Device::simulator(Arch::Sm80);
    let table: Vec<f32> = (0..12).map(|i| i as f32).collect();
    let (on_table, index) = (device.upload(&table)?, device.upload(&[2i64, 0, -1, 2])?);
    let mut out = device.poisoned::<f32>(16)?;
    gather(
        &on_table.view((3, 4))?,
        &index.view(4)?,
        &out.view_mut((4, 4))?,
    )?;
    let out = out.download()?;
    println!("{:?} {:?}", &out[..4], &out[8..12]);
    assert_eq!(out, reference::gather(&table, 4, &[2, 0, -1, 2]));
    // ANCHOR_END: rows
    Ok(())
}

/// Both pairings of a rotary embedding.
fn rotary() -> Result<(), Box<dyn Error>> {
    println!("\n== rotary ==");
    // ANCHOR: rotary
    let device = Device::simulator(Arch::Sm80);
    // 3 positions of 2 heads with 4 features, in memory (sequence, head, feature).
    let x: Vec<f32> = (0..24).map(|i| (i % 4) as f32).collect();
    let on_x = device.upload(&x)?;
    let layout: Layout = "(1,2,3,4):(24,4,8,1)".parse()?;
    for pairing in [Pairing::Interleaved, Pairing::Halves] {
        let mut y = device.poisoned::<f32>(24)?;
        let to = colex_gpu::ViewMut::new(&mut y, &layout)?;
        Rotary::new(pairing, &View::new(&on_x, &layout)?, &to)
            .offset(5)
            .run()?;
        let y = y.download()?;
        let want = reference::rotary(pairing, &[0.0, 1.0, 2.0, 3.0], &[6.0, 6.0 / 100.0]);
        println!(
            "{pairing}: {:.3} {:.3} {:.3} {:.3}",
            y[8], y[9], y[10], y[11]
        );
        assert!(
            y[8..12]
                .iter()
                .zip(want)
                .all(|(y, want)| (f64::from(*y) - want).abs() < 1e-4)
        );
    }
    // ANCHOR_END: rotary
    Ok(())
}

/// What a call says of wrong views.
fn refusals() -> Result<(), Box<dyn Error>> {
    println!("\n== refusals ==");
    // ANCHOR: refusals
    let device = Device::simulator(Arch::Sm80);
    let (x, mut y) = (device.zeros::<f32>(12)?, device.zeros::<f32>(12)?);
    let relu: MapExpression = "(x: tensor f32) -> y { max(x, 0) }".parse()?;
    let call = Map::new(&relu).output("y", &y.view_mut((3, 4))?);
    for error in [call.run(), call.input("x", &x.view((4, 3))?).run()] {
        if let Err(error) = error {
            println!("{error}");
        }
    }
    // ANCHOR_END: refusals
    Ok(())
}
