//! Other ways to bring and to add the terms of a product over ranks: additions by TMA, and early slots.
//!
//! Run it with `cargo run -p colex-book --example ranks_sums`; each line `== .. ==` names a piece of the chapter.

use std::error::Error;
use std::time::Duration;

use colex_atom::Arch;
use colex_gpu::Device;
use colex_gpu::ranks::{RankDevices, RankOptions, RankProblem, RankProduct, RankSends, RankSums};
use colex_sched::Overlap;
use half::bf16;

fn main() -> Result<(), Box<dyn Error>> {
    added()?;
    exercise_1()?;
    exercise_2()
}

fn added() -> Result<(), Box<dyn Error>> {
    println!("\n== added ==");
    // ANCHOR: added
    let device = Device::simulator(Arch::Sm90a);
    let ranks = RankDevices::new(&vec![device; 3])?;
    // The terms of rank 0, 1 and 2 for each element of C: 16 times an element of A.
    let sum = |terms: [f32; 3], sends| -> Result<f32, colex_gpu::Error> {
        let problem = RankProblem {
            overlap: Overlap::ProductScatter,
            ranks: 3,
            m: 24,
            n: 8,
            k: 48,
        };
        let options = RankOptions {
            sends: Some(sends),
            ..RankOptions::default()
        };
        let mut product = RankProduct::<bf16, bf16>::new(&ranks, problem, &options)?;
        for (rank, term) in terms.into_iter().enumerate() {
            product
                .a(rank)?
                .write(&[bf16::from_f32(term / 16.0); 24 * 16])?;
            product.b(rank)?.write(&[bf16::ONE; 8 * 16])?;
        }
        product.run()?;
        product.wait(Duration::from_secs(10))?;
        Ok(product.c(1)?.download()?[0].to_f32())
    };
    for terms in [[256.0, 1.0, 1.0], [1.0, 1.0, 256.0]] {
        let slots = sum(terms, RankSends::Kernel)?;
        let added = sum(terms, RankSends::Reduction)?;
        println!("{terms:?}: {slots} by slots, {added} by additions in bf16");
    }
    // ANCHOR_END: added
    Ok(())
}

/// Exercise 1: sums of `f32`, to which kernels add.
fn exercise_1() -> Result<(), Box<dyn Error>> {
    println!("\n== exercise_1 ==");
    // ANCHOR: exercise_1
    let device = Device::simulator(Arch::Sm90a);
    let ranks = RankDevices::new(&vec![device; 3])?;
    let problem = RankProblem {
        overlap: Overlap::ProductScatter,
        ranks: 3,
        m: 24,
        n: 8,
        k: 48,
    };
    let options = RankOptions {
        sends: Some(RankSends::Reduction),
        ..RankOptions::default()
    };
    for terms in [[256.0, 1.0, 1.0], [1.0, 1.0, 256.0]] {
        let mut product = RankProduct::<bf16, bf16, f32>::new(&ranks, problem, &options)?;
        for (rank, term) in terms.into_iter().enumerate() {
            let a = bf16::from_f32(term / 16.0);
            product.a(rank)?.write(&[a; 24 * 16])?;
            product.b(rank)?.write(&[bf16::ONE; 8 * 16])?;
        }
        product.run()?;
        product.wait(Duration::from_secs(10))?;
        println!(
            "{terms:?}: {} by additions in f32",
            product.c(1)?.download()?[0]
        );
    }
    // ANCHOR_END: exercise_1
    Ok(())
}

/// Exercise 2: one early slot of `bf16`.
fn exercise_2() -> Result<(), Box<dyn Error>> {
    println!("\n== exercise_2 ==");
    // ANCHOR: exercise_2
    let device = Device::simulator(Arch::Sm90a);
    let ranks = RankDevices::new(&vec![device; 3])?;
    let problem = RankProblem {
        overlap: Overlap::ProductScatter,
        ranks: 3,
        m: 24,
        n: 8,
        k: 48,
    };
    for sums in [RankSums::Kernel, RankSums::Early(1)] {
        let options = RankOptions {
            sends: Some(RankSends::Engines),
            sums: Some(sums),
            ..RankOptions::default()
        };
        let mut product = RankProduct::<bf16, bf16>::new(&ranks, problem, &options)?;
        for (rank, term) in [256.0, 1.0, 1.0].into_iter().enumerate() {
            let a = bf16::from_f32(term / 16.0);
            product.a(rank)?.write(&[a; 24 * 16])?;
            product.b(rank)?.write(&[bf16::ONE; 8 * 16])?;
        }
        product.run()?;
        product.wait(Duration::from_secs(10))?;
        println!("{sums:?}: {} on rank 1", product.c(1)?.download()?[0]);
    }
    // ANCHOR_END: exercise_2
    Ok(())
}
