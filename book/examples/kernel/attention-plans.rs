//! The library's call of attention.
//!
//! Run it with `cargo run -p colex-book --example kernel_attention_plans`; each line `== .. ==` names a piece of the chapter.

use colex_atom::Arch;
use colex_gpu::attention::{Attention, Mask};
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
    Ok(())
}
