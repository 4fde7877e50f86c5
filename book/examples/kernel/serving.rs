//! Attention for serving: one query per sequence, sinks, sequences of different lengths, and keys in pages.
//!
//! Run it with `cargo run -p colex-book --example kernel_serving`; each line `== .. ==` names a piece of the chapter.

use colex_atom::{Arch, Ty};
use colex_gpu::Device;
use colex_gpu::attention::{
    Attention, AttentionMethod, AttentionOperands, AttentionPlan, AttentionProblem, Mask,
};
use half::f16;
use std::error::Error;

fn main() -> Result<(), Box<dyn Error>> {
    decode();
    sinks()?;
    sequences()?;
    pages()?;
    Ok(())
}

/// Shows the plan of a step of serving.
fn decode() {
    println!("\n== decode ==");
    // ANCHOR: decode
    // The next word of 64 sequences: 32 heads of Q on 8 of K.
    let problem = AttentionProblem::new(Ty::F16, 64, [32, 8], [1, 8192], [128, 128]);
    let operands = AttentionOperands::of(&problem, [0; 4]);
    let plan = AttentionPlan::new(AttentionMethod::Ampere, operands);
    println!("{plan}");
    println!("{}", plan.suited_to(&problem, 132));
    // ANCHOR_END: decode

    println!("\n== parts ==");
    // ANCHOR: parts
    // Query 3 of the example in the chapter Attention: its scores and the values, in two parts.
    let part = |scores: [f64; 2], values: [f64; 2]| {
        let top = scores[0].max(scores[1]);
        let weights = scores.map(|score| (score - top).exp2());
        let out = weights[0] * values[0] + weights[1] * values[1];
        (top, weights[0] + weights[1], out)
    };
    let parts = [part([1.0, 0.0], [1.0, 2.0]), part([3.0, 1.0], [3.0, 4.0])];
    for (top, sum, out) in parts {
        println!("part: maximum {top}, sum {sum}, output {out}");
    }
    let top = parts[0].0.max(parts[1].0);
    let weights = parts.map(|part| (part.0 - top).exp2());
    let sum = weights[0] * parts[0].1 + weights[1] * parts[1].1;
    let out = weights[0] * parts[0].2 + weights[1] * parts[1].2;
    println!(
        "all: maximum {top}, sum {sum}, output {out}, {:.4}",
        out / sum
    );
    // ANCHOR_END: parts

    println!("\n== long ==");
    // ANCHOR: long
    let long = AttentionProblem::new(Ty::F16, 1, [32, 8], [1, 131_072], [128, 128]);
    let plan = plan.suited_to(&long, 132);
    println!("{plan}");
    println!("{} KiB of parts", plan.workspace(&long) / 1024);
    // ANCHOR_END: long
}

/// Gives heads a sink.
fn sinks() -> Result<(), Box<dyn Error>> {
    println!("\n== sinks ==");
    // ANCHOR: sinks
    let device = Device::simulator(Arch::Sm80);
    // Two heads of two queries and one key. The first query sees no key; scores are 0, values 6.
    let q = device.upload(&[f16::ZERO; 2 * 2 * 64])?;
    let (k, v) = (
        device.upload(&[f16::ZERO; 64])?,
        device.upload(&[f16::from_f32(6.0); 64])?,
    );
    let sinks = device.upload(&[f32::NEG_INFINITY, 2f32.ln()])?;
    let (mut o, mut sums) = (
        device.poisoned::<f16>(2 * 2 * 64)?,
        device.poisoned::<f32>(4)?,
    );
    let (queries, one) = ((1, 2, 2, 64), (1, 1, 1, 64));
    Attention::new(
        &q.view(queries)?,
        &k.view(one)?,
        &v.view(one)?,
        &o.view_mut(queries)?,
    )
    .mask(Mask::Causal)
    .sinks(&sinks.view(2)?)
    .log_sum_exp(&sums.view_mut((1, 2, 2))?)
    .run()?;
    let first: Vec<f32> = o
        .download()?
        .iter()
        .step_by(64)
        .map(|x| x.to_f32())
        .collect();
    println!("{first:?}");
    println!("{:.4?}", sums.download()?);
    // ANCHOR_END: sinks
    Ok(())
}

/// Attends to sequences of different lengths in the rows of one tensor.
fn sequences() -> Result<(), Box<dyn Error>> {
    println!("\n== sequences ==");
    // ANCHOR: sequences
    let device = Device::simulator(Arch::Sm90a);
    // Sequences of 1, 0 and 3 tokens. Row 4 belongs to none, and its value is NaN.
    let x = device.upload(&[f16::ONE; 5 * 64])?;
    let value = |row: usize| if row < 4 { row as f32 } else { f32::NAN };
    let values: Vec<f16> = (0..5 * 64).map(|i| f16::from_f32(value(i / 64))).collect();
    let v = device.upload(&values)?;
    let offsets = device.upload(&[0u32, 1, 1, 4])?;
    let offsets = offsets.view(4)?;
    let mut o = device.upload(&[f16::from_f32(-1.0); 5 * 64])?;
    let rows = x.view((5, 1, 64))?;
    let call = Attention::new(&rows, &rows, &v.view((5, 1, 64))?, &o.view_mut((5, 1, 64))?)
        .query_offsets(&offsets, 3)
        .key_offsets(&offsets, 3)
        .mask(Mask::Causal)
        .prepare()?;
    println!("{call}");
    call.run(&device)?;
    let first: Vec<f32> = o
        .download()?
        .iter()
        .step_by(64)
        .map(|x| x.to_f32())
        .collect();
    println!("{first:?}");
    // ANCHOR_END: sequences
    Ok(())
}

/// Attends to keys in pages.
fn pages() -> Result<(), Box<dyn Error>> {
    println!("\n== pages ==");
    // ANCHOR: pages
    let device = Device::simulator(Arch::Sm80);
    // A pool of four pages of 16 rows, whose values are the number of the page. Page 3 is NaN.
    let value = |page: usize| if page < 3 { page as f32 } else { f32::NAN };
    let values: Vec<f16> = (0..4 * 1024)
        .map(|i| f16::from_f32(value(i / 1024)))
        .collect();
    let (k, v) = (
        device.upload(&[f16::ONE; 4 * 1024])?,
        device.upload(&values)?,
    );
    // Sequence 0 has 32 keys, in pages 2 and 1; sequence 1 has 16 in page 0; sequence 2 has 32, and
    // the pool has no page 9.
    let table = device.upload(&[2, 1, 0, 3, 2, 9])?;
    let lengths = device.upload(&[32u32, 16, 32])?;
    let q = device.upload(&[f16::ZERO; 3 * 64])?;
    let mut o = device.poisoned::<f16>(3 * 64)?;
    let (queries, pool) = ((3, 1, 1, 64), (4, 1, 16, 64));
    let (k, v) = (k.view(pool)?, v.view(pool)?);
    let call = Attention::new(&q.view(queries)?, &k, &v, &o.view_mut(queries)?)
        .pages(&table.view((3, 2))?, &lengths.view(3)?, 32)
        .prepare()?;
    println!("{}", call.plan());
    call.run(&device)?;
    let first: Vec<f32> = o
        .download()?
        .iter()
        .step_by(64)
        .map(|x| x.to_f32())
        .collect();
    println!("{first:?}");
    // ANCHOR_END: pages
    Ok(())
}
