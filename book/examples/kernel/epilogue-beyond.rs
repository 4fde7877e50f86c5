//! Epilogues beyond a formula: pairs of neighbours, rows that a list names, and sums of rows.
//!
//! Run it with `cargo run -p colex-book --example kernel_epilogue_beyond`; each line `== .. ==` names a piece of the chapter.

use colex_atom::{Arch, Ty};
use colex_gpu::gemm::{Epilogue, GemmMethod};
use colex_gpu::{Device, Gemm, View};
use half::bf16;
use std::error::Error;

fn main() -> Result<(), Box<dyn Error>> {
    closure()?;
    lists()?;
    vectors()?;
    Ok(())
}

/// Rotary embeddings: a closure turns pairs of neighbours in a row.
fn closure() -> Result<(), Box<dyn Error>> {
    println!("\n== rotary ==");
    // ANCHOR: rotary
    let rotary = Epilogue::new(Ty::F32, |e| {
        let x = e.accumulator();
        let [cos, sin] = ["cos", "sin"].map(|name| e.tensor(name, Ty::F32));
        e.apply(
            "rotary",
            1,
            Ty::F32,
            [x, cos, sin],
            |k, [x, cos, sin], elements| {
                let turned = k.fragment(Ty::F32, x.layout());
                for [even, odd] in elements.pairs_of_columns()? {
                    let [u, v] = [even, odd].map(|i| x.values(i, 1));
                    let [c, s] = [&cos, &sin].map(|of| of.values(even, 1));
                    k.assign(&turned.values(even, 1), &u * &c - &v * &s);
                    k.assign(&turned.values(odd, 1), &u * &s + &v * &c);
                }
                Ok(turned.into())
            },
        )
    })?;
    println!("{rotary}");
    // ANCHOR_END: rotary
    println!("\n== rotated ==");
    // ANCHOR: rotated
    let device = Device::simulator(Arch::Sm90a);
    let ones = device.upload(&vec![bf16::ONE; 64 * 16])?;
    // Row m turns by m quarters of a turn, in every pair of columns.
    let quarters = |of: [f32; 4]| (0..64).map(|m| of[m % 4]).collect::<Vec<f32>>();
    let cos = device.upload(&quarters([1.0, 0.0, -1.0, 0.0]))?;
    let sin = device.upload(&quarters([0.0, 1.0, 0.0, -1.0]))?;
    let angles = "(64,(2,16)):(1,(0,0))";
    let mut c = device.poisoned::<f32>(64 * 32)?;
    let x = ones.view((64, 16))?;
    let y = ones.slice(..32 * 16)?;
    Gemm::new(&x, &y.view((32, 16))?, &c.view_mut((64, 32))?)
        .method(GemmMethod::Hopper)
        .epilogue(&rotary)
        .tensor("cos", &View::new(&cos, angles)?)
        .tensor("sin", &View::new(&sin, angles)?)
        .run()?;
    let c = c.download()?;
    for m in 0..4 {
        println!("{:?}", &c[m * 32..m * 32 + 4]);
    }
    // ANCHOR_END: rotated
    Ok(())
}

/// Rows that a list names.
fn lists() -> Result<(), Box<dyn Error>> {
    println!("\n== lists ==");
    // ANCHOR: lists
    let weighted = Epilogue::new(Ty::F32, |e| {
        let weight = e.tensor("weight", Ty::F32);
        e.output("tokens", e.accumulator() * weight);
        e.accumulator()
    })?;
    let device = Device::simulator(Arch::Sm90a);
    // Row i of A holds i, and belongs to token 3 - i.
    let a: Vec<f32> = (0..4 * 4).map(|i| (i / 4) as f32).collect();
    let (a, b) = (device.upload(&a)?, device.upload(&[1f32; 2 * 4])?);
    let tokens = device.upload(&[3u32, 2, 1, 0])?;
    let weight = device.upload(&[1f32, 10.0, 100.0, 1000.0])?; // one for each token
    let (mut c, mut d) = (device.poisoned::<f32>(8)?, device.zeros::<f32>(8)?);
    Gemm::new(&a.view((4, 4))?, &b.view((2, 4))?, &c.view_mut((4, 2))?)
        .epilogue(&weighted)
        .tensor_rows(
            "weight",
            &View::new(&weight, "(4,2):(1,0)")?,
            &tokens.view(4)?,
        )
        .output_rows("tokens", &d.view_mut((4, 2))?, &tokens.view(4)?)
        .run()?;
    println!("{:?}", c.download()?);
    println!("{:?}", d.download()?);
    // ANCHOR_END: lists
    Ok(())
}

/// Sums and maxima of the rows, in an order of their own.
fn vectors() -> Result<(), Box<dyn Error>> {
    println!("\n== vectors ==");
    // ANCHOR: vectors
    let device = Device::simulator(Arch::Sm90a);
    let halves = |count: i64, of: fn(i64) -> f32| -> Vec<bf16> {
        (0..count).map(|i| bf16::from_f32(of(i))).collect()
    };
    let a = device.upload(&halves(64 * 16, |i| (i % 7) as f32))?;
    let b = device.upload(&halves(48 * 16, |i| (i % 5) as f32 - 2.0))?;
    let normalised = Epilogue::new(Ty::F32, |e| {
        let x = e.accumulator() * e.scalar("scale", Ty::F32);
        e.row_sums("squares", x.clone() * x.clone());
        e.row_maxima("most", x.abs());
        x
    })?;
    let mut c = device.poisoned::<f32>(64 * 48)?;
    let (mut squares, mut most) = (device.poisoned::<f32>(64)?, device.poisoned::<f32>(64)?);
    let call = Gemm::new(
        &a.view((64, 16))?,
        &b.view((48, 16))?,
        &c.view_mut((64, 48))?,
    )
    .epilogue(&normalised)
    .scalar("scale", 1.0 / 3.0)
    .output("squares", &squares.view_mut(64)?)
    .output("most", &most.view_mut(64)?)
    .prepare()?;
    println!("{} launches", call.profile(&device)?.len());
    drop(call);
    let (c, squares, most) = (c.download()?, squares.download()?, most.download()?);
    // The host adds the squares of a row in the kernel's order.
    let of = normalised.reductions().next().ok_or("no vector")?;
    let row = |m: usize| c[48 * m..48 * (m + 1)].iter();
    let same = |m: usize| {
        let bits: Vec<u64> = row(m).map(|x| (x * x).to_bits().into()).collect();
        of.evaluate(&bits)
            .map(|sum| sum == squares[m].to_bits().into())
    };
    println!("{} {}", same(0)?, same(63)?);
    println!("{}", row(5).all(|x| x.abs() <= most[5]));
    // ANCHOR_END: vectors
    Ok(())
}
