//! Products of tf32, bytes and f32: an f32 in two parts, its errors, and tiles that the kernel transposes.
//!
//! Run it with `cargo run -p colex-book --example kernel_types`; each line `== .. ==` names a piece of the chapter.

use colex_atom::Arch;
use colex_gpu::kernels::gemm::GemmMethod;
use colex_gpu::kernels::{Compute, GemmProblem};
use colex_gpu::{Device, Gemm, View};
use std::error::Error;

fn main() -> Result<(), Box<dyn Error>> {
    transposed()?;
    or_packed()?;
    by_hand();
    errors()?;
    exercise_2()?;
    Ok(())
}

/// Multiplies an A that is contiguous along M.
fn transposed() -> Result<(), Box<dyn Error>> {
    println!("\n== transposed ==");
    // ANCHOR: transposed
    let device = Device::simulator(Arch::Sm90a);
    let numbers: Vec<f32> = (0..64 * 64).map(|i| (i % 7) as f32).collect();
    let (a, b) = (device.upload(&numbers)?, device.upload(&[1f32; 64 * 64])?);
    let mut c = device.poisoned::<f32>(64 * 64)?;
    let a = View::new(&a, "(64,64):(1,64)")?; // contiguous along M
    let call = Gemm::new(&a, &b.view((64, 64))?, &c.view_mut((64, 64))?)
        .compute(Compute::Tf32)
        .method(GemmMethod::Hopper) // nothing is packed
        .prepare()?;
    println!("{call}");
    call.run(&device)?;
    drop(call);
    for (m, row) in c.download()?.chunks(64).enumerate() {
        let sum: f32 = (0..64).map(|k| numbers[m + 64 * k]).sum();
        assert!(row.iter().all(|c| *c == sum));
    }
    // ANCHOR_END: transposed
    Ok(())
}

/// What the model says of both ways, for a large product.
fn or_packed() -> Result<(), Box<dyn Error>> {
    println!("\n== or_packed ==");
    // ANCHOR: or_packed
    let device = Device::simulator(Arch::Sm90a);
    let (a, b) = (
        device.zeros::<f32>(1024 * 4096)?,
        device.zeros::<f32>(4096 * 4096)?,
    );
    let mut c = device.poisoned::<f32>(1024 * 4096)?;
    let a = View::new(&a, "(1024,4096):(1,1024)")?; // contiguous along M
    let (b, c) = (b.view((4096, 4096))?, c.view_mut((1024, 4096))?);
    let product = Gemm::new(&a, &b, &c).compute(Compute::Tf32);
    for line in product.explain()?.lines().take(2) {
        println!("{line}");
    }
    // ANCHOR_END: or_packed
    Ok(())
}

// ANCHOR: by_hand
/// The nearest tf32: of the 23 bits of the fraction, the first 10 stay. Ties go to even.
fn tf32(number: f32) -> f32 {
    let bits = number.to_bits();
    let is_odd = (bits >> 13) & 1;
    f32::from_bits((bits + 0xfff + is_odd) & !0x1fff)
}
// ANCHOR_END: by_hand

/// Divides a number into a high and a low part.
fn by_hand() {
    println!("\n== by_hand ==");
    // ANCHOR: by_hand
    let number = 0.1f32;
    let high = tf32(number);
    let low = tf32(number - high);
    println!("{number:.12} = {high:.12} + {low:.12} + rest");
    println!("rest: {:e}", number - high - low);
    // ANCHOR_END: by_hand
}

/// The largest errors of one product in three ways.
fn errors() -> Result<(), Box<dyn Error>> {
    println!("\n== errors ==");
    // ANCHOR: errors
    let device = Device::simulator(Arch::Sm90a);
    let (m, n, k) = (32, 32, 64);
    let numbers = |count: usize, step: f64| -> Vec<f32> {
        (0..count).map(|i| (i as f64 * step).sin() as f32).collect()
    };
    let (a, b) = (numbers(m * k, 1.3), numbers(n * k, 0.7));
    let (on_a, on_b) = (device.upload(&a)?, device.upload(&b)?);
    for compute in [Compute::F32, Compute::Tf32, Compute::Tf32x3] {
        let mut c = device.poisoned::<f32>(m * n)?;
        let problem = GemmProblem::new(m as i64, n as i64, k as i64).compute(compute);
        problem.on(&on_a, &on_b, &mut c)?.run()?;
        let mut worst = 0f64;
        for (i, found) in c.download()?.into_iter().enumerate() {
            let (row, column) = (&a[i / n * k..], &b[i % n * k..]);
            let terms = (0..k).map(|k| f64::from(row[k]) * f64::from(column[k]));
            let (sum, size) = terms.fold((0.0, 0.0), |(sum, size), term| {
                (sum + term, size + term.abs())
            });
            worst = worst.max((f64::from(found) - sum).abs() / size);
        }
        println!("{compute:?}: 2^{:.1}", worst.log2());
    }
    // ANCHOR_END: errors
    Ok(())
}

/// Exercise 2: the square of a number just above 1.
fn exercise_2() -> Result<(), Box<dyn Error>> {
    println!("\n== exercise_2 ==");
    // ANCHOR: exercise_2
    let device = Device::simulator(Arch::Sm90a);
    let a = device.upload(&[1.0 + 2f32.powi(-12)])?;
    for compute in [Compute::F32, Compute::Tf32, Compute::Tf32x3] {
        let mut c = device.poisoned::<f32>(1)?;
        let problem = GemmProblem::new(1, 1, 1).compute(compute);
        problem.on(&a, &a, &mut c)?.run()?;
        println!(
            "{compute:?}: 1 + {} * 2^-11",
            (c.download()?[0] - 1.0) * 2048.0
        );
    }
    // ANCHOR_END: exercise_2
    Ok(())
}
