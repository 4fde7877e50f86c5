//! How a server's call is planned: what the model of time says of a plan, and kernels that are loaded before a request.
//!
//! Run it with `cargo run -p colex-book --example kernel_serving_plans`; each line `== .. ==` names a piece of the chapter.

use colex_atom::{Arch, Ty};
use colex_gpu::attention::{
    Attention, AttentionMethod, AttentionOperands, AttentionPlan, AttentionProblem, AttentionRange,
};
use colex_gpu::{Device, View};
use half::f16;
use std::error::Error;

fn main() -> Result<(), Box<dyn Error>> {
    explain();
    call()?;
    loaded()?;
    other_parts();
    Ok(())
}

/// Prints what the model says of the plan for one long sequence, and of the other plans.
fn explain() {
    println!("\n== explain ==");
    // ANCHOR: explain
    // One step of decode of one sequence: 32 heads of Q on 8 of K.
    let long = AttentionProblem::new(Ty::F16, 1, [32, 8], [1, 131_072], [128, 128]);
    let operands = AttentionOperands::of(&long, [0; 4]);
    let plan = AttentionPlan::new(AttentionMethod::Ampere, operands).suited_to(&long, 132);
    println!("{}", plan.explain(&long, &Device::simulator(Arch::Sm90a)));
    // ANCHOR_END: explain
}

/// Asks a call why no plan of Hopper's kernel takes its views.
fn call() -> Result<(), Box<dyn Error>> {
    println!("\n== call ==");
    // ANCHOR: call
    let device = Device::simulator(Arch::Sm90a);
    let (q, k) = (
        device.zeros::<f16>(8 * 64)?,
        device.zeros::<f16>(2 * 2048 * 66)?,
    );
    let mut o = device.poisoned::<f16>(8 * 64)?;
    let queries = (1, 8, 1, 64);
    // 2048 keys of 2 heads. A row begins 66 elements, or 132 bytes, after the one before it.
    let keys = View::new(&k, "(1,2,2048,64):(0,135168,66,1)")?;
    let said = Attention::new(&q.view(queries)?, &keys, &keys, &o.view_mut(queries)?).explain()?;
    println!("{}", said.lines().last().unwrap_or_default());
    // ANCHOR_END: call
    Ok(())
}

/// Loads the kernels of every step of decode.
fn loaded() -> Result<(), Box<dyn Error>> {
    println!("\n== loaded ==");
    // ANCHOR: loaded
    let device = Device::simulator(Arch::Sm80);
    let x = device.zeros::<f16>(8 * 64)?;
    let mut o = device.poisoned::<f16>(8 * 64)?;
    let (queries, keys) = (x.view((1, 8, 1, 64))?, x.view((1, 2, 1, 64))?);
    let output = o.view_mut((1, 8, 1, 64))?;
    let range = AttentionRange {
        sequences: 1..=256,
        queries: 1..=1,
        keys: 1..=131_072,
    };
    let step = Attention::new(&queries, &keys, &keys, &output);
    println!("{} kernels", step.load_plans(&range)?);
    // ANCHOR_END: loaded
    Ok(())
}

/// Exercise 2: what the model says of other numbers of parts.
fn other_parts() {
    println!("\n== other_parts ==");
    // ANCHOR: other_parts
    let long = AttentionProblem::new(Ty::F16, 1, [32, 8], [1, 131_072], [128, 128]);
    let operands = AttentionOperands::of(&long, [0; 4]);
    let plan = AttentionPlan::new(AttentionMethod::Ampere, operands).suited_to(&long, 132);
    for splits in [8, 16, 32, 33, 64] {
        let plan = AttentionPlan { splits, ..plan };
        println!("{splits} parts: {}", plan.cost(&long, 132));
    }
    // ANCHOR_END: other_parts
}
