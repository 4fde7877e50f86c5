//! Plans for every shape: the list of plans, a plan of one's own, what the model says, and a call that loads kernels.
//!
//! Run it with `cargo run -p colex-book --example kernel_plans`; each line `== .. ==` names a piece of the chapter.

use colex_atom::{Arch, Ty};
use colex_gpu::gemm::Autotune;
use colex_gpu::kernels::gemm::{GemmMethod, GemmPlan, Operands};
use colex_gpu::kernels::{EpilogueWork, GemmProblem, Major};
use colex_gpu::{Device, Gemm};
use half::bf16;
use std::error::Error;

fn main() -> Result<(), Box<dyn Error>> {
    mapped();
    with_fields()?;
    explain();
    with_epilogue();
    measured()?;
    loaded()?;
    exercise_3();
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

/// The plans for rows that tensor maps describe.
fn mapped() {
    println!("\n== mapped ==");
    // ANCHOR: mapped
    for (number, plan) in GemmPlan::candidates(operands(8), Arch::Sm90a)
        .iter()
        .enumerate()
    {
        println!("{:2} {plan}", number + 1);
    }
    // ANCHOR_END: mapped
}

/// A call with a plan of one's own.
fn with_fields() -> Result<(), Box<dyn Error>> {
    println!("\n== with_fields ==");
    // ANCHOR: with_fields
    let device = Device::simulator(Arch::Sm90a);
    let problem = GemmProblem::new(64, 64, 512);
    let (a, b) = (
        device.upload(&[bf16::ONE; 64 * 512])?,
        device.upload(&[bf16::ONE; 64 * 512])?,
    );
    let mut c = device.poisoned::<bf16>(64 * 64)?;
    let call = problem.on(&a, &b, &mut c)?.prepare_with(|operands, _| {
        Ok(GemmPlan {
            tile: [64, 64, 64],
            warps: [1, 1],      // one consumer
            cluster: [1, 1, 4], // four blocks share the sum over K
            ..GemmPlan::new(GemmMethod::Hopper, operands)
        })
    })?;
    println!("{call}");
    println!("{} blocks", call.profile(&device)?[0].blocks);
    drop(call);
    assert!(c.download()?.iter().all(|sum| sum.to_f32() == 512.0));
    // ANCHOR_END: with_fields
    Ok(())
}

/// What the model says of a product of 64 rows.
fn explain() {
    println!("\n== explain ==");
    // ANCHOR: explain
    let plan = GemmPlan::new(GemmMethod::Hopper, operands(8));
    let problem = GemmProblem::new(64, 4096, 4096); // M, N, K
    println!(
        "{}",
        plan.explain(&problem, &Device::simulator(Arch::Sm90a))
    );
    // ANCHOR_END: explain
}

/// What the model chooses for a large product, and for one with a residual.
fn with_epilogue() {
    println!("\n== with_epilogue ==");
    // ANCHOR: with_epilogue
    let device = Device::simulator(Arch::Sm90a);
    let plain = GemmProblem::new(8192, 8192, 8192);
    let work = EpilogueWork {
        instructions: 3, // beyond those of a plain product
        special_functions: 0,
        tensor_bytes: 2, // the residual's: it varies along M and N
    };
    let residual = GemmProblem {
        epilogue: Some(work),
        ..plain
    };
    for problem in [plain, residual] {
        let plan = GemmPlan::alternatives(&problem, operands(8), &device)[0];
        let text = plan.explain(&problem, &device);
        println!("{}", text.lines().next().unwrap_or_default());
    }
    // ANCHOR_END: with_epilogue
}

/// A call that takes measured plans.
fn measured() -> Result<(), Box<dyn Error>> {
    println!("\n== measured ==");
    // ANCHOR: measured
    let file = std::env::temp_dir().join(format!("colex-plans-{}", std::process::id()));
    let measured = Autotune::open(&file)?;
    let device = Device::simulator(Arch::Sm90a);
    let a = device.upload(&[bf16::ONE; 64 * 64])?;
    let mut c = device.poisoned::<bf16>(64 * 64)?;
    let rows = a.view((64, 64))?;
    Gemm::new(&rows, &rows, &c.view_mut((64, 64))?)
        .autotune(&measured)
        .run()?;
    println!("{} measured plans", measured.len());
    // ANCHOR_END: measured
    std::fs::remove_file(file)?;
    Ok(())
}

/// Loads every kernel that a call may need.
fn loaded() -> Result<(), Box<dyn Error>> {
    println!("\n== loaded ==");
    // ANCHOR: loaded
    let device = Device::simulator(Arch::Sm80);
    let weights = device.zeros::<bf16>(128 * 64)?; // N and K of every request
    let x = device.zeros::<bf16>(32 * 64)?;
    let mut c = device.poisoned::<bf16>(32 * 128)?;
    let (x, weights) = (x.view((32, 64))?, weights.view((128, 64))?);
    let kernels = Gemm::new(&x, &weights, &c.view_mut((32, 128))?).load_plans()?;
    println!("{kernels} kernels");
    // ANCHOR_END: loaded
    Ok(())
}

/// Exercise 3: two squares, the larger of which suits the default plan better.
fn exercise_3() {
    println!("\n== exercise_3 ==");
    // ANCHOR: exercise_3
    for n in [3072, 3328] {
        let wide = GemmPlan::new(GemmMethod::Hopper, operands(8));
        let narrow = GemmPlan {
            tile: [128, 192, 64],
            ..wide
        };
        let problem = GemmProblem::new(n, n, n);
        for plan in [wide, narrow] {
            let text = plan.explain(&problem, &Device::simulator(Arch::Sm90a));
            println!("{n}: {}", text.lines().next().unwrap_or_default());
        }
    }
    // ANCHOR_END: exercise_3
}
