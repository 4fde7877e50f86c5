//! Plans for special shapes: which plan each shape gets, K in shares, and a launch in order.
//!
//! Run it with `cargo run -p colex-book --example kernel_shapes`; each line `== .. ==` names a piece of the chapter.

use colex_atom::{Arch, Ty};
use colex_gpu::kernels::gemm::{Division, GemmMethod, GemmPlan, Operands};
use colex_gpu::kernels::{GemmProblem, Major};
use colex_gpu::{Device, Gemm};
use colex_sched::StreamKRow;
use half::bf16;
use std::error::Error;

fn main() -> Result<(), Box<dyn Error>> {
    chosen();
    shares()?;
    unmapped();
    in_order()?;
    exercise_2();
    exercise_3()?;
    Ok(())
}

// ANCHOR: operands
/// bf16 into bf16, A and B contiguous along K, C along N; an access may take `vector` elements.
fn operands(vector: i64) -> Operands {
    let (ab, c) = (Ty::Bf16, Ty::Bf16);
    let (majors, vectors) = ([Major::Second; 3], [vector; 3]);
    Operands {
        ab,
        c,
        majors,
        vectors,
        beta: false,  // C is only written
        gated: false, // one right factor, not two
    }
}
// ANCHOR_END: operands

/// The plan that the model takes for each special shape.
fn chosen() {
    println!("\n== chosen ==");
    // ANCHOR: chosen
    let device = Device::simulator(Arch::Sm90a);
    for (vector, [m, n, k]) in [
        (8, [4096, 4096, 4096]), // a usual shape
        (8, [64, 4096, 4096]),   // few rows
        (8, [1, 4096, 4096]),    // one row
        (8, [512, 512, 16384]),  // a long K
        (8, [7999, 88, 8]),      // a short K
        (1, [500, 333, 222]),    // rows that TMA does not load
        (2, [1, 4695, 3870]),    // one such row
    ] {
        let problem = GemmProblem::new(m, n, k);
        let plans = GemmPlan::alternatives(&problem, operands(vector), &device);
        println!("{m} x {n} x {k}: {}", plans[0]);
    }
    // ANCHOR_END: chosen
}

/// Five tiles in four shares.
fn shares() -> Result<(), Box<dyn Error>> {
    println!("\n== shares ==");
    // ANCHOR: shares
    let device = Device::simulator(Arch::Sm90a);
    let problem = GemmProblem::new(320, 64, 512);
    let (a, b) = (
        device.upload(&[bf16::ONE; 320 * 512])?,
        device.upload(&[bf16::ONE; 64 * 512])?,
    );
    let mut c = device.poisoned::<bf16>(320 * 64)?;
    let call = problem.on(&a, &b, &mut c)?.prepare_with(|operands, _| {
        Ok(GemmPlan {
            tile: [64, 64, 16], // 5 tiles of 32 steps
            warps: [1, 1],
            cluster: [1, 1, 1],
            split: 4,
            division: Division::StreamK,
            ..GemmPlan::new(GemmMethod::Hopper, operands)
        })
    })?;
    println!("{call}");
    call.run(&device)?;
    drop(call);
    assert!(c.download()?.iter().all(|sum| sum.to_f32() == 512.0));

    let row = StreamKRow::new(5, 32, 4, 2)?; // the least part has 2 steps
    for tile in 0..5 {
        let parts = row.peers(tile).into_iter().flatten();
        let places: Vec<i64> = parts.clone().map(|share| row.part(share, tile)).collect();
        let shares: Vec<i64> = parts.collect();
        println!("tile {tile}: shares {shares:?}, places {places:?}");
    }
    // ANCHOR_END: shares
    Ok(())
}

/// The plans for rows of any alignment.
fn unmapped() {
    println!("\n== unmapped ==");
    // ANCHOR: unmapped
    for (number, plan) in GemmPlan::candidates(operands(1), Arch::Sm90a)
        .iter()
        .enumerate()
    {
        println!("{:2} {plan}", number + 1);
    }
    // ANCHOR_END: unmapped
}

/// The plan of a short product, and the same one launched in order.
fn in_order() -> Result<(), Box<dyn Error>> {
    println!("\n== in_order ==");
    let device = Device::simulator(Arch::Sm90a);
    let (a, b) = (
        device.zeros::<bf16>(64 * 256)?,
        device.zeros::<bf16>(64 * 256)?,
    );
    let mut c = device.poisoned::<bf16>(64 * 64)?;
    let (a, b) = (a.view((64, 256))?, b.view((64, 256))?);
    let c = c.view_mut((64, 64))?;
    // ANCHOR: in_order
    let product = Gemm::new(&a, &b, &c);
    let call = product.prepare()?;
    println!("{call}");
    if let Some(plan) = call.plan().copied() {
        let in_order = GemmPlan {
            early: false,
            ..plan
        };
        println!("{}", product.prepare_with(|_, _| Ok(in_order))?);
    }
    // ANCHOR_END: in_order
    Ok(())
}

/// Exercise 2: products of one row, with rows of whole vectors, of an odd number of elements, and of an even one.
fn exercise_2() {
    println!("\n== exercise_2 ==");
    // ANCHOR: exercise_2
    for (vector, problem) in [
        (8, GemmProblem::new(1, 4096, 4096)),
        (1, GemmProblem::new(1, 4095, 4095)),
        (2, GemmProblem::new(1, 4695, 3870)),
    ] {
        let plan = GemmPlan::new(GemmMethod::Hopper, operands(vector));
        let text = plan.explain(&problem, &Device::simulator(Arch::Sm90a));
        println!("{}", text.lines().nth(1).unwrap_or_default().trim());
    }
    // ANCHOR_END: exercise_2
}

/// Exercise 3: the shares of three tiles, and the places of their parts.
fn exercise_3() -> Result<(), Box<dyn Error>> {
    println!("\n== exercise_3 ==");
    // ANCHOR: exercise_3
    let row = StreamKRow::new(3, 16, 2, 2)?;
    for tile in 0..3 {
        let shares: Vec<i64> = row.peers(tile).into_iter().flatten().collect();
        println!("tile {tile}: shares {shares:?}");
    }
    // ANCHOR_END: exercise_3
    Ok(())
}
