//! The library's call of attention.
//!
//! Run it with `cargo run -p colex-book --example kernel_attention_plans`; each line `== .. ==` names a piece of the chapter.

use colex_atom::{Arch, Ty};
use colex_gpu::attention::{Attention, AttentionOperands, AttentionPlan, AttentionProblem, Mask};
use colex_gpu::{Device, attention};
use half::f16;
use std::error::Error;

fn main() -> Result<(), Box<dyn Error>> {
    println!("\n== call ==");
    // ANCHOR: call
    let device = Device::simulator(Arch::Sm80);
    // (batch, sequence, head, feature) in memory: 5 queries of 4 heads, 3 keys of one head.
    let q = device.upload(&[f16::ONE; 5 * 4 * 64])?;
    let k = device.upload(&[f16::ONE; 3 * 64])?;
    let mut o = device.poisoned::<f16>(5 * 4 * 64)?;
    let mut sums = device.poisoned::<f32>(4 * 5)?;
    let order = [0, 2, 1, 3];
    let queries = q.view((1, 5, 4, 64))?.permute(&order)?;
    let keys = k.view((1, 3, 1, 64))?.permute(&order)?;
    let output = o.view_mut((1, 5, 4, 64))?.permute(&order)?;
    let call = Attention::new(&queries, &keys, &keys, &output)
        .mask(Mask::Causal)
        .log_sum_exp(&sums.view_mut((1, 4, 5))?)
        .prepare()?;
    println!("{call}");
    call.run(&device)?;
    println!("{:.4?}", &sums.download()?[..5]);

    let odd = q.view((1, 1, 16, 80))?;
    let mut o = device.poisoned::<f16>(16 * 80)?;
    let error = attention(&odd, &odd, &odd, &o.view_mut((1, 1, 16, 80))?);
    println!("{}", error.unwrap_err());
    // ANCHOR_END: call
    change()
}

/// Changes the plan of a call, one field at a time.
fn change() -> Result<(), Box<dyn Error>> {
    println!("\n== change ==");
    // ANCHOR: change
    // 4 sequences of 4096 tokens, with 16 heads of 128 features.
    let problem = AttentionProblem::new(Ty::Bf16, 4, [16, 16], [4096, 4096], [128, 128]);
    let operands = AttentionOperands::of(&problem, [0; 4]);
    let plan = AttentionPlan::fastest(&problem, operands, Arch::Sm90a, 132)?;
    println!("{plan}");
    let (overlap, cluster, packs) = (false, 2, 4);
    for changed in [
        AttentionPlan { overlap, ..plan },
        AttentionPlan { cluster, ..plan },
        AttentionPlan { stages: 3, ..plan },
        AttentionPlan { packs, ..plan },
    ] {
        match changed.check(Arch::Sm90a) {
            Ok(()) => println!("taken: {changed}"),
            Err(error) => println!("refused: {error}"),
        }
    }
    // ANCHOR_END: change
    Ok(())
}
