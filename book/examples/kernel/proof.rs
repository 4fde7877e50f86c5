//! The proof of Part II: a case of the sweep on the simulator, and a judge that notices a false claim.
//!
//! Run it with `cargo run -p colex-book --example kernel_proof`; each line `== .. ==` names a piece of the chapter.

use colex_atom::Arch;
use colex_gpu::Device;
use colex_proof::sweep::{Kind, Verdict, mma_case};
use std::error::Error;

fn main() -> Result<(), Box<dyn Error>> {
    case()?;
    untouched()?;
    Ok(())
}

/// Runs one case.
fn case() -> Result<(), Box<dyn Error>> {
    println!("\n== case ==");
    // ANCHOR: case
    let atom = colex_atom::mma("SM80_16x8x16_F32F16F16F32_TN")?;
    let case = mma_case(&atom, &Kind::ALL, 7)?;
    println!("{} blocks", case.shots[0].launch.blocks());

    let record = case.run(&Device::simulator(Arch::Sm90a));
    assert_eq!(record.verdict, Verdict::Modelled);
    let agreement = record.agreement;
    println!("{} elements as modelled", agreement.elements);
    println!("{} also rounded once to nearest", agreement.exact);
    // ANCHOR_END: case
    Ok(())
}

/// Judges an output that nothing wrote to.
fn untouched() -> Result<(), Box<dyn Error>> {
    println!("\n== untouched ==");
    // ANCHOR: untouched
    let case = mma_case(&colex_atom::mma("SM61_DP4A")?, &[Kind::Moderate], 7)?;
    let seen = case.judge.judge(0, &case.shots[0].output);
    println!("{}", seen.wrong.unwrap_or_default());
    // ANCHOR_END: untouched
    Ok(())
}
