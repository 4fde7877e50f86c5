//! The proof of Part II: a case of the sweep on the simulator, and a judge that notices a false claim.
//!
//! Run it with `cargo run -p colex-book --example kernel_proof`; each line `== .. ==` names a piece of the chapter.

use colex_atom::Arch;
use colex_gpu::Device;
use colex_layout::layout;
use colex_proof::sweep::{Kind, Verdict, mma_case};
use std::error::Error;

fn main() -> Result<(), Box<dyn Error>> {
    case()?;
    exchanged()?;
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

/// Runs a case whose A is placed by a layout with two strides exchanged.
fn exchanged() -> Result<(), Box<dyn Error>> {
    println!("\n== exchanged ==");
    // ANCHOR: exchanged
    let atom = colex_atom::mma("SM80_16x8x16_F32F16F16F32_TN")?;
    let mut case = mma_case(&atom, &[Kind::Moderate], 7)?;
    let right = &atom.traits().a; // ((4,8),(2,2,2)):((32,1),(16,8,128))
    let wrong = layout!(((4,8),(2,2,2)):((32,1),(16,128,8)));

    let holder = right.right_inverse()?; // from the element to thread + 32 * value
    let at = |index: i64| (16 * (index % 32) + 2 * (index / 32)) as usize;
    let given = case.shots[0].input.clone();
    for index in 0..256 {
        let (from, to) = (at(holder.at(wrong.at(index)?)?), at(index));
        case.shots[0].input[to..to + 2].copy_from_slice(&given[from..from + 2]);
    }
    let record = case.run(&Device::simulator(Arch::Sm90a));
    let found = record.agreement.wrong.unwrap_or_default();
    println!("{}: {found}", record.verdict);
    // ANCHOR_END: exchanged
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
