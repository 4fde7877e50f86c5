//! Expressions on fragments and reductions: softmax, RMSNorm and rotary embedding.
//!
//! Run it with `cargo run -p colex-book --example kernel_expressions`; each line `== .. ==` names a piece of the chapter.

use colex_atom::{Arch, Ty};
use colex_gpu::ir::BinaryOp::{Add, Max};
use colex_gpu::tensor::{AtThread, Builder, Expr, TensorKernel};
use colex_gpu::testing::{self, Output};
use colex_gpu::{Device, Load, View, ViewMut};
use colex_layout::C;
use colex_tiled::TiledCopy;
use half::{bf16, f16};
use std::error::Error;

fn main() -> Result<(), Box<dyn Error>> {
    formula()?;
    same_bits()?;
    rounding()?;
    run_softmax()?;
    long_row()?;
    run_rms_norm()?;
    run_rotary()?;
    refusals();
    Ok(())
}

/// One formula on the host and in a kernel.
fn formula() -> Result<(), Box<dyn Error>> {
    println!("\n== formula ==");
    // ANCHOR: formula
    let (x, y) = (Expr::input(0, Ty::F32), Expr::input(1, Ty::F32));
    let epilogue = (2.0 * x + y).relu();
    let number = |x: f32| u64::from(x.to_bits());
    let bits = epilogue.evaluate(&[number(3.0), number(-1.5)])?;
    println!("{}", f32::from_bits(bits as u32));

    let mut k = Builder::new("k", Arch::Sm80, 32);
    let [sums, old] = ["_4:_1"; 2].map(|layout| k.fragment(Ty::F32, layout));
    k.fill(&sums, 3.0);
    k.fill(&old, -1.5);
    let out = k.map(epilogue.over([&sums, &old]).to(Ty::F16));
    println!(
        "{} elements of {} in {} registers",
        out.layout().size(),
        out.ty(),
        out.regs().len()
    );
    let text = k.finish()?.kernel.ptx()?;
    for word in ["fma.rn.f32", "mul.rn.f32", "max.f32", "cvt.rn.f16x2.f32"] {
        println!("{word}: {}", text.matches(word).count());
    }
    // ANCHOR_END: formula
    Ok(())
}

/// Compares a kernel with its formula, bit by bit.
fn same_bits() -> Result<(), Box<dyn Error>> {
    println!("\n== same_bits ==");
    // ANCHOR: same_bits
    let formula = (2.0 * Expr::input(0, Ty::F32) / 3.0 + Expr::input(1, Ty::F32)).relu();
    let mut k = Builder::new("compare", Arch::Sm80, 32);
    let [x, y, z] = ["x", "y", "z"].map(|name| k.tensor(name, Ty::F32, "100:_1"));
    let at = k.block_index(0) * 32 + k.thread();
    let [left, right] = [&x, &y].map(|tensor| k.gather(&tensor.elements(&at)));
    k.scatter(formula.over([&left, &right]), &z.elements(&at));

    let device = Device::open();
    let numbers: Vec<f32> = (0..100).map(|i| (i * 7919 % 613) as f32 / 7.0).collect();
    let (x, y) = (device.upload(&numbers)?, device.upload(&[-9.5_f32; 100])?);
    let mut z = device.poisoned::<f32>(100)?;
    let views = (x.view(100)?, y.view(100)?, z.view_mut(100)?);
    k.finish()?.load(&device)?.launch([4], views)?;
    for (x, z) in numbers.iter().zip(z.download()?) {
        let inputs = [*x, -9.5].map(|x| u64::from(x.to_bits()));
        assert_eq!(u64::from(z.to_bits()), formula.evaluate(&inputs)?);
    }
    println!("100 results have the bits of the host");
    // ANCHOR_END: same_bits
    Ok(())
}

/// Where a 16-bit float rounds.
fn rounding() -> Result<(), Box<dyn Error>> {
    println!("\n== rounding ==");
    // ANCHOR: rounding
    let x = Expr::input(0, Ty::F16);
    let each = &x + 1.0 - 2048.0;
    let once = (x.to(Ty::F32) + 1.0 - 2048.0).to(Ty::F16);
    let given = u64::from(f16::from_f32(2048.0).to_bits());
    for formula in [each, once] {
        println!("{}", f16::from_bits(formula.evaluate(&[given])? as u16));
    }
    let x = Expr::input(0, Ty::F32) * 10.0;
    let given = u64::from(13.7_f32.to_bits());
    println!(
        "{} {}",
        x.to(Ty::S8).evaluate(&[given])?,
        x.saturating(Ty::U8).evaluate(&[given])?
    );
    // ANCHOR_END: rounding
    Ok(())
}

// ANCHOR: softmax
/// softmax of rows of up to 1024 numbers: one block per row.
fn softmax() -> Result<TensorKernel, Box<dyn Error>> {
    let mut k = Builder::new("softmax", Arch::Sm80, 128);
    let [x, y] = ["x", "y"].map(|name| k.tensor(name, Ty::F32, "(64,1000):(1000,_1)"));
    let word = colex_atom::copy("UniversalCopy<uint32_t>")?;
    let copy = TiledCopy::new(word, 32, "(1,128):(128,1)", "(1,1):(0,0)")?;
    let (mine, row) = (copy.at(&k.thread()), k.block_index(0));
    let columns = k.within(x.extent(1), 1..1025); // the launch refuses longer rows
    let from = mine.partition_src(&x.local_tile((1, 1024), (&row, 0))); // (CPY, CPY_M, CPY_N)
    let to = mine.partition_dst(&y.local_tile((1, 1024), (&row, 0))); // (CPY, CPY_M, CPY_N)
    let held = k.fragment_like(&from);
    k.copy_in_bounds(&copy, &from, &held);

    let is_there = Expr::coordinate(&from, 1).lt(columns);
    k.assign(&held, is_there.select(&held, f64::NEG_INFINITY));
    let own = k.reduce_all(Max, &held);
    let top = k.reduce_block(Max, &own);
    k.assign(&held, (&held - &top).exp());
    let own = k.reduce_all(Add, &held);
    let sum = k.reduce_block(Add, &own);
    k.assign(&held, &held / &sum);
    k.copy_in_bounds(&copy, &held, &to);
    Ok(k.finish()?)
}
// ANCHOR_END: softmax

/// Launches the softmax with a row that is too long.
fn long_row() -> Result<(), Box<dyn Error>> {
    println!("\n== long_row ==");
    // ANCHOR: long_row
    let device = Device::simulator(Arch::Sm80);
    let x = device.zeros::<f32>(1025)?;
    let mut y = device.zeros::<f32>(1025)?;
    let views = (x.view((1, 1025))?, y.view_mut((1, 1025))?);
    let refused = softmax()?.load(&device)?.launch([1], views).unwrap_err();
    println!("{refused}");
    // ANCHOR_END: long_row
    Ok(())
}

/// Compares the softmax with the host.
fn run_softmax() -> Result<(), Box<dyn Error>> {
    println!("\n== run_softmax ==");
    // ANCHOR: run_softmax
    let (rows, columns) = (3, 1000);
    let numbers: Vec<f32> = (0..rows * columns)
        .map(|i| (i * 7919 % 613) as f32 / 60.0)
        .collect();
    let kernel = softmax()?;
    let found = testing::in_every_schedule(Arch::Sm80, 4, |device| {
        let x = device.upload(&numbers)?;
        let mut y = Output::<f32>::new(device, rows * columns)?;
        let views = (
            x.view((rows, columns))?,
            y.buffer().view_mut((rows, columns))?,
        );
        kernel.load(device)?.launch([rows], views)?;
        y.elements()
    })?;
    for (row, found) in numbers.chunks(columns).zip(found.chunks(columns)) {
        let powers = row.iter().map(|x| f64::from(*x).exp());
        let sum: f64 = powers.clone().sum();
        let errors = powers
            .zip(found)
            .map(|(power, y)| (power / sum / f64::from(*y) - 1.0).abs());
        assert!(errors.fold(0.0, f64::max) < 1e-5);
        println!(
            "{:.6} {:.6} .. {:.6}",
            found[0],
            found[1],
            found[columns - 1]
        );
    }
    // ANCHOR_END: run_softmax
    Ok(())
}

// ANCHOR: rms_norm
/// `y = x / sqrt(mean(x^2) + 1e-6) w` of rows of up to 1024 numbers in bf16, computed in f32.
fn rms_norm() -> Result<TensorKernel, Box<dyn Error>> {
    let mut k = Builder::new("rms_norm", Arch::Sm80, 128);
    let [x, y] = ["x", "y"].map(|name| k.tensor(name, Ty::Bf16, "(64,1000):(1000,_1)"));
    let weights = k.tensor("w", Ty::Bf16, "(_1,1000):(_0,_1)");
    let four = colex_atom::copy("UniversalCopy<uint64_t>")?;
    let copy = TiledCopy::new(four, 16, "(1,128):(128,1)", "(1,4):(0,1)")?;
    let (mine, row) = (copy.at(&k.thread()), k.block_index(0));
    let columns = k.within(x.extent(1), 1..1025); // the launch refuses longer rows
    let from = mine.partition_src(&x.local_tile((1, 1024), (&row, 0))); // (CPY, CPY_M, CPY_N)
    let weights = weights.local_tile((1, 1024), (0, 0)); // (BLK_M, BLK_N)
    let factors = mine.partition_src(&weights); // (CPY, CPY_M, CPY_N)
    let to = mine.partition_dst(&y.local_tile((1, 1024), (&row, 0))); // (CPY, CPY_M, CPY_N)
    let (held, w) = (k.fragment_like(&from), k.fragment_like(&factors));
    k.copy_in_bounds(&copy, &from, &held);
    k.copy_in_bounds(&copy, &factors, &w);

    let [wide, w] = [&held, &w].map(|held| Expr::from(held).to(Ty::F32));
    let own = k.reduce_all(Add, &wide * &wide);
    let sum = k.reduce_block(Add, &own);
    let scale = k.map((&sum / Expr::from(columns).to(Ty::F32) + 1e-6).rsqrt());
    k.assign(&held, (wide * &scale * w).to(Ty::Bf16));
    k.copy_in_bounds(&copy, &held, &to);
    Ok(k.finish()?)
}
// ANCHOR_END: rms_norm

/// Compares the norm with the host.
fn run_rms_norm() -> Result<(), Box<dyn Error>> {
    println!("\n== run_rms_norm ==");
    // ANCHOR: run_rms_norm
    let (rows, columns) = (3, 1000);
    let number = |i: usize| bf16::from_f32((i * 7919 % 613) as f32 / 60.0 - 5.0);
    let numbers: Vec<bf16> = (0..rows * columns).map(number).collect();
    let factors: Vec<bf16> = (0..columns)
        .map(|i| bf16::from_f32((i % 8) as f32 / 4.0))
        .collect();
    let kernel = rms_norm()?;
    let found = testing::in_every_schedule(Arch::Sm80, 4, |device| {
        let (x, w) = (device.upload(&numbers)?, device.upload(&factors)?);
        let mut y = Output::<bf16>::new(device, rows * columns)?;
        let views = (
            x.view((rows, columns))?,
            y.buffer().view_mut((rows, columns))?,
            w.view((1, columns))?,
        );
        kernel.load(device)?.launch([rows], views)?;
        y.elements()
    })?;
    for (row, found) in numbers.chunks(columns).zip(found.chunks(columns)) {
        let mean = row.iter().map(|x| f64::from(*x).powi(2)).sum::<f64>() / columns as f64;
        for ((x, w), y) in row.iter().zip(&factors).zip(found) {
            let exact = f64::from(*x) / (mean + 1e-6).sqrt() * f64::from(*w);
            assert!((exact - f64::from(*y)).abs() <= exact.abs() / 250.0);
        }
        println!("{} {} .. {}", found[1], found[2], found[columns - 1]);
    }
    // ANCHOR_END: run_rms_norm
    Ok(())
}

// ANCHOR: rotary
/// Rotary embedding: rotates columns `j` and `j + 32` of row `m` by `m 10000^(-j / 32)`.
fn rotary() -> Result<TensorKernel, Box<dyn Error>> {
    let mut k = Builder::new("rotary", Arch::Sm80, 128);
    let [x, y] = ["x", "y"].map(|name| k.tensor(name, Ty::F32, "(64,_64):(_64,_1)"));
    let four = colex_atom::copy("UniversalCopy<uint128_t>")?;
    let copy = TiledCopy::new(four, 32, "(16,8):(8,1)", "(1,4):(0,1)")?;
    let (mine, block) = (copy.at(&k.thread()), k.block_index(0));
    // (CPY, CPY_M, CPY_N)
    let parts = [0, 1].map(|half| mine.partition_src(&x.local_tile((16, 32), (&block, half))));
    // (CPY, CPY_M, CPY_N)
    let into = [0, 1].map(|half| mine.partition_dst(&y.local_tile((16, 32), (&block, half))));
    let [a, b] = parts.each_ref().map(|part| k.fragment_like(part)); // (CPY, CPY_M, CPY_N)
    k.copy_in_bounds(&copy, &parts[0], &a);
    k.copy_in_bounds(&copy, &parts[1], &b);

    let [m, j] = [0, 1].map(|mode| Expr::coordinate(&parts[0], mode).to(Ty::F32));
    let angle = m * (j * (-(10000_f64.log2()) / 32.0)).exp2();
    let (c, s) = (k.map(angle.cos()), k.map(angle.sin()));
    let left = k.map(&a * &c - &b * &s);
    let right = k.map(&b * &c + &a * &s);
    k.copy_in_bounds(&copy, &left, &into[0]);
    k.copy_in_bounds(&copy, &right, &into[1]);
    Ok(k.finish()?)
}
// ANCHOR_END: rotary

/// Compares the embedding with the host.
fn run_rotary() -> Result<(), Box<dyn Error>> {
    println!("\n== run_rotary ==");
    // ANCHOR: run_rotary
    let rows = 20;
    let numbers: Vec<f32> = (0..rows * 64)
        .map(|i| (i * 7919 % 613) as f32 / 60.0)
        .collect();
    let kernel = rotary()?;
    let shape = ((rows, C::<64>), (C::<64>, C::<1>));
    let found = testing::in_every_schedule(Arch::Sm80, 4, |device| {
        let x = device.upload(&numbers)?;
        let mut y = Output::<f32>::new(device, rows * 64)?;
        let views = (View::new(&x, shape)?, ViewMut::new(y.buffer(), shape)?);
        kernel.load(device)?.launch([rows.div_ceil(16)], views)?;
        y.elements()
    })?;
    for (m, row) in numbers.chunks(64).enumerate() {
        for j in 0..32 {
            let angle = m as f64 * 10000_f64.powf(-(j as f64) / 32.0);
            let (a, b) = (f64::from(row[j]), f64::from(row[j + 32]));
            let rotated = [
                a * angle.cos() - b * angle.sin(),
                b * angle.cos() + a * angle.sin(),
            ];
            let found = [found[m * 64 + j], found[m * 64 + j + 32]].map(f64::from);
            assert!((found[0] - rotated[0]).abs() + (found[1] - rotated[1]).abs() < 1e-3);
        }
    }
    println!("{:.3} {:.3} .. {:.3}", found[64], found[65], found[127]);
    // ANCHOR_END: run_rotary
    Ok(())
}

/// What `finish` says of wrong expressions.
fn refusals() {
    println!("\n== refusals ==");
    // ANCHOR: refusals
    let kernel = || {
        let mut k = Builder::new("k", Arch::Sm80, 40);
        let (x, h) = (k.fragment(Ty::F32, "_4:_1"), k.fragment(Ty::F16, "_4:_1"));
        k.fill(&x, 1.0);
        k.fill(&h, 1.0);
        (k, x, h)
    };
    let (mut k, x, h) = kernel();
    k.assign(&x, &x * &h);
    println!("{}", k.finish().unwrap_err().what());
    let (mut k, x, _) = kernel();
    k.assign(&x, Expr::from(&x).to(Ty::E4m3).to(Ty::F32));
    println!("{}", k.finish().unwrap_err().what());
    let (mut k, x, _) = kernel();
    k.reduce_warp(Add, &x);
    println!("{}", k.finish().unwrap_err().what());
    // ANCHOR_END: refusals
}
