//! Epilogues of products: formulas, tensors by layouts, two outputs, two accumulators, batches.
//!
//! Run it with `cargo run -p colex-book --example kernel_epilogue`; each line `== .. ==` names a piece of the chapter.

use colex_atom::{Arch, FloatFormat, Ty};
use colex_gpu::gemm::Epilogue;
use colex_gpu::tensor::Round;
use colex_gpu::{Device, Gemm, View, ViewMut};
use half::bf16;
use std::error::Error;

fn main() -> Result<(), Box<dyn Error>> {
    data()?;
    eight_bits()?;
    layouts()?;
    coordinates()?;
    gated()?;
    batches()?;
    refusals()?;
    Ok(())
}

/// An epilogue is data.
fn data() -> Result<(), Box<dyn Error>> {
    println!("\n== data ==");
    // ANCHOR: data
    let epilogue = Epilogue::new(Ty::F32, |e| {
        let bias = e.tensor("bias", Ty::F32);
        let x = e.accumulator().fma(e.scalar("scale", Ty::F32), bias);
        e.output("before", x.to(Ty::Bf16));
        x.relu().to(Ty::Bf16)
    })?;
    println!("{epilogue}");
    let read: Epilogue = epilogue.to_string().parse()?;
    println!("{}", read == epilogue);
    let number = |x: f32| u64::from(x.to_bits());
    let elements = epilogue.evaluate(&[number(3.0), number(-8.0), number(2.0)])?;
    println!(
        "{}",
        elements
            .iter()
            .map(|bits| bf16::from_bits(*bits as u16).to_string())
            .collect::<Vec<_>>()
            .join(" ")
    );
    // ANCHOR_END: data
    Ok(())
}

/// Conversions: an output of e4m3 with a scale, and one that is rounded down.
fn eight_bits() -> Result<(), Box<dyn Error>> {
    println!("\n== eight_bits ==");
    // ANCHOR: eight_bits
    let quantised = Epilogue::new(Ty::F32, |e| {
        let x = e.accumulator() * e.scalar("scale", Ty::F32);
        e.output("q", x.saturating(Ty::E4m3));
        e.output("floor", x.rounded(Ty::S32, Round::Down));
        x
    })?;
    let e4m3 = FloatFormat::of(Ty::E4m3).expect("a float");
    for accumulator in [3f32, 100.0, -2001.0] {
        let given = [accumulator, 0.5].map(|x| u64::from(x.to_bits()));
        let elements = quantised.evaluate(&given)?;
        println!("{} {}", e4m3.decode(elements[1]), elements[2] as i32);
    }
    // ANCHOR_END: eight_bits
    Ok(())
}

/// A bias with stride 0, and an output by heads.
fn layouts() -> Result<(), Box<dyn Error>> {
    println!("\n== layouts ==");
    // ANCHOR: layouts
    let device = Device::simulator(Arch::Sm90a);
    let halves = |count: i64, of: fn(i64) -> f32| -> Vec<bf16> {
        (0..count).map(|i| bf16::from_f32(of(i))).collect()
    };
    // A is 64 rows of 1; row n of B is n: every product is 16 n.
    let a = device.upload(&halves(64 * 16, |_| 1.0))?;
    let b = device.upload(&halves(32 * 16, |i| (i / 16) as f32))?;
    let bias = device.upload(&(0..32).map(|n| n as f32).collect::<Vec<f32>>())?;
    let mut c = device.poisoned::<bf16>(64 * 32)?;
    let mut heads = device.poisoned::<bf16>(64 * 32)?;
    let epilogue = Epilogue::new(Ty::F32, |e| {
        let x = e.accumulator() + e.tensor("bias", Ty::F32);
        e.output("heads", x.to(Ty::Bf16));
        x.clamp(0.0, 100.0).to(Ty::Bf16)
    })?;
    Gemm::new(
        &a.view((64, 16))?,
        &b.view((32, 16))?,
        &c.view_mut((64, 32))?,
    )
    .epilogue(&epilogue)
    .tensor("bias", &View::new(&bias, "(64,32):(0,1)")?)
    .output(
        "heads",
        &ViewMut::new(&mut heads, "(64,(8,4)):(8,(1,512))")?,
    )
    .run()?;
    let (c, heads) = (c.download()?, heads.download()?);
    println!("{} {} {}", c[0], c[5], c[31]);
    // Row 3 of head 2 is columns 16 to 23 of row 3.
    println!(
        "{} .. {}",
        heads[2 * 512 + 3 * 8],
        heads[2 * 512 + 3 * 8 + 7]
    );
    // ANCHOR_END: layouts
    Ok(())
}

/// A causal mask, and dropout by a hash of the coordinate.
fn coordinates() -> Result<(), Box<dyn Error>> {
    println!("\n== coordinates ==");
    // ANCHOR: coordinates
    let device = Device::simulator(Arch::Sm90a);
    let ones = device.upload(&vec![bf16::ONE; 64 * 16])?;
    let masked = Epilogue::new(Ty::F32, |e| {
        let (row, column) = (e.row(), e.column());
        // A hash of 32 bits. An element is dropped if the last two are 0: one of four.
        let place = row.to(Ty::U32) * 0x9e37_79b1_i64 + column.to(Ty::U32);
        let mixed = (&place ^ (&place >> 15)) * 0x85eb_ca6b_i64;
        let hash = &mixed ^ (&mixed >> 13);
        // `test.select(x, y)` is x where the test holds, and y elsewhere.
        let kept = (hash & 3)
            .equals(0)
            .select(0.0, e.accumulator() * (4.0 / 3.0));
        e.output("dropped", kept);
        column.le(row).select(e.accumulator(), f64::NEG_INFINITY)
    })?;
    let mut c = device.poisoned::<f32>(64 * 64)?;
    let mut dropped = device.poisoned::<f32>(64 * 64)?;
    let x = ones.view((64, 16))?;
    Gemm::new(&x, &x, &c.view_mut((64, 64))?)
        .epilogue(&masked)
        .output("dropped", &dropped.view_mut((64, 64))?)
        .run()?;
    let (c, dropped) = (c.download()?, dropped.download()?);
    println!("{} {} {}", c[5 * 64 + 4], c[5 * 64 + 5], c[5 * 64 + 6]);
    let none = dropped.iter().filter(|x| **x == 0.0).count();
    println!("{none} of {} are 0", dropped.len());
    // The host computes element (5,6) with the same formula.
    let bits = |x: f32| u64::from(x.to_bits());
    let host = masked.evaluate_at([5, 6], &[bits(16.0)])?;
    println!(
        "{}",
        host == [bits(c[5 * 64 + 6]), bits(dropped[5 * 64 + 6])]
    );
    // ANCHOR_END: coordinates
    Ok(())
}

/// A product with two right factors.
fn gated() -> Result<(), Box<dyn Error>> {
    println!("\n== gated ==");
    // ANCHOR: gated
    let device = Device::simulator(Arch::Sm90a);
    let halves = |count: i64, of: fn(i64) -> f32| -> Vec<bf16> {
        (0..count).map(|i| bf16::from_f32(of(i))).collect()
    };
    // 48 tokens of ones; rows of the gate and of what it multiplies, alternating.
    let x = device.upload(&halves(48 * 64, |_| 1.0))?;
    let weights = device.upload(&halves(2 * 56 * 64, |i| match i / 64 % 2 {
        0 => (i / 128) as f32 / 256.0, // 64 of them are n / 4
        _ => 0.125,                    // 8
    }))?;
    let gate = View::new(&weights, "(56,64):(128,1)")?;
    let behind = weights.slice(64..)?;
    let up = View::new(&behind, "(56,64):(128,1)")?;
    let swiglu = Epilogue::new(Ty::F32, |e| {
        (e.accumulator().silu() * e.second_accumulator()).to(Ty::Bf16)
    })?;
    let mut c = device.poisoned::<bf16>(48 * 56)?;
    let call = Gemm::new(&x.view((48, 64))?, &gate, &c.view_mut((48, 56))?)
        .b2(&up)
        .epilogue(&swiglu)
        .prepare()?;
    println!("{call}");
    println!("{} launch", call.profile(&device)?.len());
    drop(call);
    let c = c.download()?;
    let silu = |x: f32| x / (1.0 + (-x).exp());
    for n in [0, 4, 55] {
        println!("{} {}", c[47 * 56 + n], 8.0 * silu(n as f32 / 4.0));
    }
    // ANCHOR_END: gated
    Ok(())
}

/// A batch of two modes, along one of which B is shared, and a bias for each product.
fn batches() -> Result<(), Box<dyn Error>> {
    println!("\n== batches ==");
    // ANCHOR: batches
    let device = Device::simulator(Arch::Sm90a);
    let halves = |count: i64, of: fn(i64) -> f32| -> Vec<bf16> {
        (0..count).map(|i| bf16::from_f32(of(i))).collect()
    };
    // Six matrices A of ones; three matrices B of 1, of 2 and of 3.
    let a = device.upload(&halves(6 * 8 * 16, |_| 1.0))?;
    let b = device.upload(&halves(3 * 8 * 16, |i| (1 + i / 128) as f32))?;
    let bias = device.upload(&[0f32, 1.0])?;
    let mut c = device.poisoned::<f32>(6 * 8 * 8)?;
    let shifted = Epilogue::new(Ty::F32, |e| e.accumulator() + e.tensor("bias", Ty::F32))?;
    let call = Gemm::new(
        &View::new(&a, "(8,16,3,2):(16,1,128,384)")?,
        &View::new(&b, "(8,16,3,2):(16,1,128,0)")?,
        &ViewMut::new(&mut c, "(8,8,3,2):(8,1,64,192)")?,
    )
    .epilogue(&shifted)
    .tensor("bias", &View::new(&bias, "(8,8,3,2):(0,0,0,1)")?)
    .prepare()?;
    let launches = call.profile(&device)?.len();
    println!("gemm: 6 products in {launches} launch");
    drop(call);
    let first = c.download()?.into_iter().step_by(64);
    let first: Vec<String> = first.map(|x| x.to_string()).collect();
    println!("{}", first.join(" "));
    // ANCHOR_END: batches
    Ok(())
}

/// What suits no epilogue.
fn refusals() -> Result<(), Box<dyn Error>> {
    println!("\n== refusals ==");
    // ANCHOR: refusals
    let device = Device::simulator(Arch::Sm80);
    let epilogue = Epilogue::new(Ty::F32, |e| e.accumulator() + e.tensor("bias", Ty::F32))?;
    let (a, bias) = (device.zeros::<f32>(64)?, device.zeros::<f32>(8)?);
    let mut c = device.zeros::<f32>(64)?;
    let product = Gemm::new(&a.view((8, 8))?, &a.view((8, 8))?, &c.view_mut((8, 8))?);
    let product = product.epilogue(&epilogue);
    println!("{}", product.run().unwrap_err());
    println!(
        "{}",
        product
            .clone()
            .tensor("bias", &bias.view((1, 8))?)
            .run()
            .unwrap_err()
    );
    product
        .tensor("bias", &View::new(&bias, "(8,8):(0,1)")?)
        .run()?;
    // ANCHOR_END: refusals
    Ok(())
}
