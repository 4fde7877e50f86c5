//! Top-k along any mode: a select on the host, keys, plans, calls on views, what is refused.
//!
//! Run it with `cargo run -p colex-book --example rows_top_k`; each line `== .. ==` names a piece of the chapter.

use colex_atom::{Arch, Ty};
use colex_gpu::Device;
use colex_gpu::reduce::top_k::{TopK, TopKPlan, TopKProblem, top_k};
use std::error::Error;

fn main() -> Result<(), Box<dyn Error>> {
    selected();
    keys()?;
    plans()?;
    calls()?;
    parts()?;
    refusals()?;
    Ok(())
}

// ANCHOR: selected
/// The `k` largest of numbers of two decimal digits, the largest first.
fn select(numbers: &[usize], k: usize) -> Vec<usize> {
    let (mut known, mut wanted) = (0, k); // the digits of the threshold so far
    for unit in [10, 1] {
        let mut counts = [0; 10];
        for x in numbers.iter().filter(|x| **x / (10 * unit) == known) {
            counts[x / unit % 10] += 1;
        }
        let mut digit = 9;
        while counts[digit] < wanted {
            wanted -= counts[digit]; // all of these belong to the answer
            digit -= 1;
        }
        known = 10 * known + digit;
        println!("{counts:?}: {known}, {wanted} of {} wanted", counts[digit]);
    }
    let mut slots: Vec<usize> = numbers.iter().copied().filter(|x| *x >= known).collect();
    slots.sort_by(|a, b| b.cmp(a));
    slots.truncate(k); // more are left if several numbers equal the threshold
    slots
}
// ANCHOR_END: selected

/// The ten numbers of the beginning.
fn selected() {
    println!("\n== selected ==");
    // ANCHOR: selected
    let numbers = [52, 17, 48, 93, 55, 9, 51, 80, 53, 58];
    println!("{:?}", select(&numbers, 4));
    // ANCHOR_END: selected
}

// ANCHOR: keys
/// The integer by which a float is ordered.
fn key(x: f32) -> i32 {
    let size = (x.to_bits() & 0x7fff_ffff) as i32;
    match size {
        0x7f80_0001.. => 0x7fff_0000, // every NaN
        size if x.to_bits() >> 31 == 1 => -size,
        size => size,
    }
}
// ANCHOR_END: keys

/// The keys of some floats, in their order.
fn keys() -> Result<(), Box<dyn Error>> {
    println!("\n== keys ==");
    // ANCHOR: keys
    for x in [f32::NEG_INFINITY, -1.0, -0.0, 0.0, 1.0, f32::NAN] {
        println!("{x} has the key {}", key(x));
    }
    // ANCHOR_END: keys
    Ok(())
}

/// A short row, a long one, and a few very long ones.
fn plans() -> Result<(), Box<dyn Error>> {
    println!("\n== plans ==");
    // ANCHOR: plans
    for (rows, columns, k) in [(65_536, 128, 8), (4096, 10_000, 50), (2, 1 << 20, 2048)] {
        let problem = TopKProblem::new(Ty::F32, [rows, columns], k)?;
        let plan = TopKPlan::fastest(&problem);
        println!("{}", plan.explain(&problem));
    }
    // ANCHOR_END: plans
    Ok(())
}

/// The two largest and the three smallest elements of each row.
fn calls() -> Result<(), Box<dyn Error>> {
    println!("\n== calls ==");
    // ANCHOR: calls
    let device = Device::simulator(Arch::Sm80);
    let x = device.upload(&[3.0f32, 7.0, 5.0, 7.0, f32::NAN, -0.0, 2.0, 0.0])?;
    let x = x.view((2, 4))?;
    let mut values = device.poisoned::<f32>(4)?;
    let mut indices = device.poisoned::<i32>(4)?;
    top_k(&x, 1, &values.view_mut((2, 2))?, &indices.view_mut((2, 2))?)?;
    println!("{:?} at {:?}", values.download()?, indices.download()?);
    let mut values = device.poisoned::<f32>(6)?;
    let mut indices = device.poisoned::<i32>(6)?;
    TopK::new(&x, 1, &values.view_mut((2, 3))?, &indices.view_mut((2, 3))?)
        .smallest()
        .run()?;
    println!("{:?} at {:?}", values.download()?, indices.download()?);
    // ANCHOR_END: calls
    Ok(())
}

/// Two plans for one selection.
fn parts() -> Result<(), Box<dyn Error>> {
    println!("\n== parts ==");
    // ANCHOR: parts
    let device = Device::simulator(Arch::Sm80);
    let numbers: Vec<i32> = (0..2000).map(|i| i * 37 % 50).collect();
    let x = device.upload(&numbers)?;
    let mut values = device.poisoned::<i32>(5)?;
    let mut indices = device.poisoned::<i32>(5)?;
    for parts in [1, 4] {
        let (x, to) = (x.view(2000)?, values.view_mut(5)?);
        let call = TopK::new(&x, 0, &to, &indices.view_mut(5)?).prepare_with(|problem| {
            let plan = TopKPlan::fastest(problem);
            Ok(TopKPlan {
                threads: 64,
                accesses: 2,
                held: false,
                slots: 8,
                parts,
                ..plan
            })
        })?;
        println!("{call}");
        call.run(&device)?;
        println!("{:?}", indices.download()?);
    }
    // ANCHOR_END: parts
    Ok(())
}

/// What a call says of wrong views.
fn refusals() -> Result<(), Box<dyn Error>> {
    println!("\n== refusals ==");
    // ANCHOR: refusals
    let device = Device::simulator(Arch::Sm80);
    let x = device.zeros::<f32>(200)?;
    let mut values = device.zeros::<f32>(300)?;
    let mut indices = device.zeros::<i32>(300)?;
    for shape in [(2, 101), (5, 2)] {
        let (x, to) = (x.view((2, 100))?, values.view_mut(shape)?);
        if let Err(error) = top_k(&x, 1, &to, &indices.view_mut(shape)?) {
            println!("{error}");
        }
    }
    // ANCHOR_END: refusals
    Ok(())
}
