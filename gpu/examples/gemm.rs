//! A matrix product from its description to its speed: `cargo run --release -p colex-gpu --example gemm [M N K]`.
//!
//! On the GPU if there is one, else on the simulator; the result is compared with ndarray's.

use std::error::Error;

use colex_gpu::kernels::gemm::GemmCall;
use colex_gpu::kernels::{GemmProblem, Operand, reference};
use colex_gpu::{Device, Repeats};
use half::bf16;
use ndarray::{Array2, Axis};

fn main() -> Result<(), Box<dyn Error>> {
    let device = Device::open();
    let problem = described(&device)?;
    println!("{} on {}", problem, device.name());

    let (a, b) = (
        numbers(problem.m * problem.k, 1),
        numbers(problem.n * problem.k, 2),
    );
    let (on_a, on_b) = (device.upload(&a)?, device.upload(&b)?);
    let mut on_c = device.poisoned::<bf16>((problem.m * problem.n) as usize)?;

    let call = problem.on(&on_a, &on_b, &mut on_c)?.prepare()?;
    println!("\nThe plan: {call}");
    println!(
        "\nWhat its copies and instructions do, of matrices of 4096 by 4096:\n{}",
        call.built().ok_or("a product without elements")?.report()
    );

    call.run(&device)?;
    speed(&device, &problem, &call)?;
    let found = reference::matrix(&problem, Operand::C, &on_c.download()?);
    compare(&problem, &a, &b, &found)
}

/// The product that the arguments name: bf16, K contiguous in A and B, N in C.
fn described(device: &Device) -> Result<GemmProblem, Box<dyn Error>> {
    let sizes: Vec<i64> = std::env::args()
        .skip(1)
        .map(|n| n.parse())
        .collect::<Result<_, _>>()?;
    let problem = match (&sizes[..], device.is_simulator()) {
        ([m, n, k], _) => GemmProblem::new(*m, *n, *k),
        ([], true) => GemmProblem::new(256, 512, 192),
        ([], false) => GemmProblem::new(4096, 4096, 4096),
        _ => return Err("either no size, or three: M N K".into()),
    };
    problem.check()?;
    Ok(problem)
}

/// Numbers between -1 and 1.
fn numbers(count: i64, seed: u64) -> Vec<bf16> {
    let mut state = 0x9e37_79b9_7f4a_7c15_u64.wrapping_mul(seed);
    let mut next = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state >> 40) as f64 / f64::from(1 << 23) - 1.0
    };
    (0..count).map(|_| bf16::from_f64(next())).collect()
}

/// Rows that the host computes of a large product.
const ROWS: i64 = 256;

fn compare(
    problem: &GemmProblem,
    a: &[bf16],
    b: &[bf16],
    found: &Array2<f64>,
) -> Result<(), Box<dyn Error>> {
    let rows = problem.m.min(ROWS);
    let some: Vec<usize> = (0..rows).map(|i| (i * problem.m / rows) as usize).collect();
    let a = reference::matrix(problem, Operand::A, a).select(Axis(0), &some);
    let b = reference::matrix(problem, Operand::B, b);
    let error = reference::relative_error(&found.select(Axis(0), &some), &a.dot(&b.t()));
    // Half a unit in the last place of bf16, 2^-9 of a number, is the most that rounding at the end does.
    if error.is_nan() || error >= 1.0 / 512.0 {
        return Err(
            format!("{error:.1e} off ndarray's: more than rounding to bf16 explains").into(),
        );
    }
    println!(
        "Right: {rows} of {} rows beside ndarray's in f64, {error:.1e} of their norm apart",
        problem.m
    );
    Ok(())
}

fn speed(
    device: &Device,
    problem: &GemmProblem,
    call: &GemmCall<'_>,
) -> Result<(), Box<dyn Error>> {
    if device.is_simulator() {
        println!("The simulator says what a kernel does, not how fast: that takes a GPU.");
        return Ok(());
    }
    let time = device.time(Repeats::default(), |device| call.run(device))?;
    let operations = 2.0 * problem.m as f64 * problem.n as f64 * problem.k as f64;
    println!("{time}: {:.0} TFLOP/s", operations / time.median() / 1e6);
    Ok(())
}
