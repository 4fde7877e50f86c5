//! The paths of a product over several devices: the times that a forecast says, and the path that a call takes.
//!
//! Run it with `cargo run -p colex-book --example ranks_paths`; each line `== .. ==` names a piece of the chapter.

use std::error::Error;
use std::time::Duration;

use colex_atom::Arch;
use colex_gpu::ranks::{LinkSpeeds, RankDevices, RankForecast, RankOptions, RankPath};
use colex_gpu::ranks::{RankProblem, RankProduct};
use colex_gpu::{Device, Rates};
use colex_sched::Overlap;
use half::bf16;

fn main() -> Result<(), Box<dyn Error>> {
    forecast()?;
    apart()?;
    exercise_1()?;
    exercise_2()?;
    exercise_3()
}

fn forecast() -> Result<(), Box<dyn Error>> {
    println!("\n== forecast ==");
    // ANCHOR: forecast
    let (links, h200) = (LinkSpeeds::default(), Rates::of(Arch::Sm90a));
    for (overlap, [m, n, k]) in [
        (Overlap::GatherProduct, [8192, 57344, 8192]),
        (Overlap::ProductScatter, [8192, 4096, 14336]),
    ] {
        let problem = RankProblem {
            overlap,
            ranks: 4,
            m,
            n,
            k,
        };
        let forecast = RankForecast::of::<bf16, bf16>(&problem, Arch::Sm90a, h200, &links)?;
        println!("{problem}: {forecast}");
    }
    // ANCHOR_END: forecast
    Ok(())
}

fn apart() -> Result<(), Box<dyn Error>> {
    println!("\n== apart ==");
    // ANCHOR: apart
    // Two simulated devices have no access to each other's memory.
    let devices = [Arch::Sm90a; 2].map(Device::simulator);
    let ranks = RankDevices::new(&devices)?;
    let problem = RankProblem {
        overlap: Overlap::GatherProduct,
        ranks: 2,
        m: 32,
        n: 16,
        k: 16,
    };
    let mut product = RankProduct::<bf16, f32>::new(&ranks, problem, &RankOptions::default())?;
    product.a(1)?.write(&[bf16::from_f32(2.0); 16 * 16])?;
    product.b(0)?.write(&[bf16::ONE; 8 * 16])?;
    product.run()?;
    product.wait(Duration::from_secs(10))?;
    // The last row of rank 1, as rank 0 has it.
    println!("{:?}", &product.c(0)?.download()?[31 * 8..]);
    println!("{}", product.explain()?.lines().last().unwrap_or_default());

    let peers = RankOptions {
        path: Some(RankPath::PeerMemory),
        ..RankOptions::default()
    };
    let refused = RankProduct::<bf16, f32>::new(&ranks, problem, &peers);
    println!("{}", refused.unwrap_err());
    // ANCHOR_END: apart
    Ok(())
}

/// Exercise 1: the copies and the product of a smaller all-gather.
fn exercise_1() -> Result<(), Box<dyn Error>> {
    println!("\n== exercise_1 ==");
    // ANCHOR: exercise_1
    let (links, h200) = (LinkSpeeds::default(), Rates::of(Arch::Sm90a));
    let problem = RankProblem {
        overlap: Overlap::GatherProduct,
        ranks: 4,
        m: 8192,
        n: 28672,
        k: 4096,
    };
    let forecast = RankForecast::of::<bf16, bf16>(&problem, Arch::Sm90a, h200, &links)?;
    for path in [RankPath::PeerMemory, RankPath::OneAfterAnother] {
        let time = forecast.microseconds(path).unwrap_or(f64::NAN);
        println!("{path}: {time:.0} us");
    }
    // ANCHOR_END: exercise_1
    Ok(())
}

/// Exercise 2: links of half the speed.
fn exercise_2() -> Result<(), Box<dyn Error>> {
    println!("\n== exercise_2 ==");
    // ANCHOR: exercise_2
    let usual = LinkSpeeds::default();
    let slow = LinkSpeeds {
        copies: usual.copies / 2.0,
        ..usual
    };
    for (overlap, [m, n, k]) in [
        (Overlap::GatherProduct, [8192, 57344, 8192]),
        (Overlap::ProductScatter, [8192, 4096, 14336]),
    ] {
        let problem = RankProblem {
            overlap,
            ranks: 4,
            m,
            n,
            k,
        };
        let time = |links| -> Result<f64, Box<dyn Error>> {
            let h200 = Rates::of(Arch::Sm90a);
            let all = RankForecast::of::<bf16, bf16>(&problem, Arch::Sm90a, h200, links)?;
            Ok(all.microseconds(RankPath::PeerMemory).unwrap_or(f64::NAN))
        };
        println!(
            "{overlap}: {:.0} us, and {:.0} us",
            time(&usual)?,
            time(&slow)?
        );
    }
    // ANCHOR_END: exercise_2
    Ok(())
}

/// Exercise 3: the same layer with few rows.
fn exercise_3() -> Result<(), Box<dyn Error>> {
    println!("\n== exercise_3 ==");
    // ANCHOR: exercise_3
    let (links, h200) = (LinkSpeeds::default(), Rates::of(Arch::Sm90a));
    for m in [8192, 2048, 512, 128] {
        let problem = RankProblem {
            overlap: Overlap::ProductScatter,
            ranks: 4,
            m,
            n: 4096,
            k: 14336,
        };
        let forecast = RankForecast::of::<bf16, bf16>(&problem, Arch::Sm90a, h200, &links)?;
        let time = |path| forecast.microseconds(path).unwrap_or(f64::NAN);
        let (beside, after) = (time(RankPath::PeerMemory), time(RankPath::OneAfterAnother));
        println!("{m} rows: {beside:.0} us with overlap, {after:.0} us without");
    }
    // ANCHOR_END: exercise_3
    Ok(())
}
