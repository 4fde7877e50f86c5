//! Products in groups: rows of a mixture of experts, masked rows, and the gradients of their weights.
//!
//! Run it with `cargo run -p colex-book --example kernel_groups`; each line `== .. ==` names a piece of the chapter.

use colex_atom::{Arch, Ty};
use colex_gpu::gemm::{Epilogue, GroupProblem, Groups};
use colex_gpu::{Device, Gemm, View};
use half::bf16;
use std::error::Error;

fn main() -> Result<(), Box<dyn Error>> {
    rows()?;
    walk();
    numbers();
    gated()?;
    gradients()?;
    lists()?;
    refusals()?;
    exercise_2()?;
    Ok(())
}

// ANCHOR: halves
/// `count` numbers, the one at place i being `of(i)`.
fn halves(count: i64, of: fn(i64) -> i64) -> Vec<bf16> {
    (0..count).map(|i| bf16::from_f32(of(i) as f32)).collect()
}
// ANCHOR_END: halves

/// Three experts, one of which has no row.
fn rows() -> Result<(), Box<dyn Error>> {
    println!("\n== rows ==");
    // ANCHOR: rows
    let device = Device::simulator(Arch::Sm90a);
    // Row t of A holds t, and expert g multiplies by g + 1.
    let (tokens, n, k) = (200, 64, 16);
    let a = device.upload(&halves(tokens * k, |i| i / 16))?;
    let b = device.upload(&halves(3 * n * k, |i| i / (64 * 16) + 1))?;
    let offsets = device.upload(&[0u32, 70, 70, 200])?;
    let mut c = device.poisoned::<bf16>((tokens * n) as usize)?;
    let found = c.clone(); // a second handle to the same memory: the call keeps the first
    let experts = View::new(&b, "(64,16,3):(16,1,1024)")?; // (N,K,G)
    let call = Gemm::new(&a.view((tokens, k))?, &experts, &c.view_mut((tokens, n))?)
        .groups(Groups::Rows, &offsets.view(4)?)
        .prepare()?;
    println!("{call}");
    call.run(&device)?;
    let first: Vec<bf16> = found.download()?.into_iter().step_by(n as usize).collect();
    println!("{} {} {} {}", first[1], first[69], first[70], first[199]);

    // The same call, after the device has written other offsets.
    offsets.write(&[0, 0, 200, 200])?;
    call.run(&device)?;
    let first: Vec<bf16> = found.download()?.into_iter().step_by(n as usize).collect();
    println!("{} {} {} {}", first[1], first[69], first[70], first[199]);
    // ANCHOR_END: rows
    Ok(())
}

/// The walk of a block over the groups.
fn walk() {
    println!("\n== walk ==");
    // ANCHOR: walk
    /// Prints the tiles of block `block` of `blocks`: tiles of `rows` rows, of groups that end at
    /// the rows `ends`.
    fn tiles(block: i64, blocks: i64, ends: &[i64], rows: i64) {
        let tiles_of = |first: i64, end: i64| (end - first + rows - 1) / rows;
        // `before` counts the tiles of the earlier groups.
        let (mut group, mut first, mut before) = (0, 0, 0);
        let mut place = block;
        loop {
            // While the place lies beyond the last tile of the group, go to the next group.
            while place >= before + tiles_of(first, ends[group]) {
                before += tiles_of(first, ends[group]);
                (group, first) = (group + 1, ends[group]);
                if group == ends.len() {
                    return;
                }
            }
            let tile = place - before;
            let row = first + tile * rows;
            println!("block {block}: place {place}, group {group}, tile {tile}, from row {row}");
            place += blocks;
        }
    }

    // Groups of 70, 0 and 130 rows, tiles of 32 rows, four blocks.
    tiles(0, 4, &[70, 70, 200], 32);
    tiles(1, 4, &[70, 70, 200], 32);
    // ANCHOR_END: walk
}

/// What numbers mean that are no offsets.
fn numbers() {
    println!("\n== numbers ==");
    // ANCHOR: numbers
    let problem = GroupProblem {
        kind: Groups::Rows,
        groups: 4,
        m: 200,
        n: 64,
        k: 16,
    };
    println!("{:?}", problem.spans(&[0, 70, 70, 130, 200]));
    println!("{:?}", problem.spans(&[5, 150, 40, 4096, 7]));
    // ANCHOR_END: numbers
}

/// SwiGLU of masked rows.
fn gated() -> Result<(), Box<dyn Error>> {
    println!("\n== gated ==");
    // ANCHOR: gated
    let swiglu = Epilogue::new(Ty::F32, |e| {
        (e.accumulator().silu() * e.second_accumulator()).to(Ty::Bf16)
    })?;
    let device = Device::simulator(Arch::Sm90a);
    let a = device.upload(&vec![bf16::ONE; 2 * 80 * 16])?;
    let weights = device.upload(&halves(2 * 2 * 32 * 16, |i| i / (2 * 32 * 16) + 1))?;
    let counts = device.upload(&[3i32, 70])?;
    let mut c = device.upload(&vec![bf16::ZERO; 2 * 80 * 32])?;
    // The rows of the gate lie before those of the up-projection, expert by expert.
    let gate = View::new(&weights, "(32,16,2):(16,1,1024)")?;
    let behind = weights.slice(512..)?;
    let up = View::new(&behind, "(32,16,2):(16,1,1024)")?;
    let matrices = View::new(&a, "(80,16,2):(16,1,1280)")?;
    let results = colex_gpu::ViewMut::new(&mut c, "(80,32,2):(32,1,2560)")?;
    Gemm::new(&matrices, &gate, &results)
        .b2(&up)
        .epilogue(&swiglu)
        .groups(Groups::Masked, &counts.view(2)?)
        .run()?;
    drop(results);
    let c = c.download()?;
    let at = |group: usize, row: usize| c[group * 80 * 32 + row * 32];
    println!("{} {} {} {}", at(0, 2), at(0, 3), at(1, 69), at(1, 70));
    // ANCHOR_END: gated
    Ok(())
}

/// The gradients of the weights: sums over the rows of each expert.
fn gradients() -> Result<(), Box<dyn Error>> {
    println!("\n== gradients ==");
    // ANCHOR: gradients
    let device = Device::simulator(Arch::Sm90a);
    // dY is (200,32) and X is (200,16), both row-major: the 200 is K of the product.
    let dy = device.upload(&halves(200 * 32, |_| 1))?;
    let x = device.upload(&halves(200 * 16, |i| i / 16 % 2))?;
    let offsets = device.upload(&[0u32, 70, 70, 200])?;
    let mut dw = device.poisoned::<f32>(3 * 32 * 16)?;
    let results = colex_gpu::ViewMut::new(&mut dw, "(32,16,3):(16,1,512)")?;
    let call = Gemm::new(&dy.view_t((32, 200))?, &x.view_t((16, 200))?, &results)
        .groups(Groups::AlongK, &offsets.view(4)?)
        .prepare()?;
    println!("{call}");
    call.run(&device)?;
    drop(results);
    let dw: Vec<f32> = dw.download()?.into_iter().step_by(512).collect();
    println!("{dw:?}");
    // ANCHOR_END: gradients
    Ok(())
}

/// Matrices at unrelated addresses.
fn lists() -> Result<(), Box<dyn Error>> {
    println!("\n== lists ==");
    // ANCHOR: lists
    let device = Device::simulator(Arch::Sm90a);
    // Three adapters, each in a buffer of its own; two of the products take the same one.
    let adapter = |number: i64| device.upload(&vec![bf16::from_f32(number as f32); 32 * 16]);
    let adapters = [adapter(1)?, adapter(2)?, adapter(3)?];
    let rows = device.upload(&halves(8 * 16, |i| i / 16))?;
    let rows = rows.view((8, 16))?;
    let poisoned = || device.poisoned::<f32>(8 * 32);
    let mut c = [poisoned()?, poisoned()?, poisoned()?];
    let (mut left, mut right, mut outputs) = (Vec::new(), Vec::new(), Vec::new());
    for (number, c) in [2, 0, 2].into_iter().zip(&mut c) {
        left.push(rows.clone());
        right.push(adapters[number as usize].view((32, 16))?);
        outputs.push(c.view_mut((8, 32))?);
    }
    let call = Gemm::lists(&left, &right, &outputs)?.prepare()?;
    let method = call.plan().map(|plan| plan.method).ok_or("no plan")?;
    println!("{method}, {} launch", call.profile(&device)?.len());
    drop((call, outputs));
    // The last row of each product.
    for c in &c {
        println!("{}", c.download()?[7 * 32]);
    }
    // ANCHOR_END: lists
    Ok(())
}

/// What a call refuses.
fn refusals() -> Result<(), Box<dyn Error>> {
    println!("\n== refusals ==");
    // ANCHOR: refusals
    let device = Device::open();
    let (a, b) = (device.upload(&[1f32; 12])?, device.upload(&[1f32; 12])?);
    let offsets = device.upload(&[0u32, 1, 3])?;
    let mut c = device.poisoned::<f32>(6)?;
    let experts = View::new(&b, "(2,2,3):(2,1,4)")?;
    let rows = a.slice(..6)?;
    let product = Gemm::new(&rows.view((3, 2))?, &experts, &c.view_mut((3, 2))?);
    let refused = product.groups(Groups::Rows, &offsets.view(3)?).run();
    println!("{}", refused.unwrap_err());
    // ANCHOR_END: refusals
    Ok(())
}

/// Exercise 2: one expert has nearly all rows.
fn exercise_2() -> Result<(), Box<dyn Error>> {
    println!("\n== exercise_2 ==");
    // ANCHOR: exercise_2
    let device = Device::simulator(Arch::Sm90a);
    let a = device.upload(&halves(200 * 16, |i| i / 16))?;
    let b = device.upload(&halves(3 * 64 * 16, |i| i / (64 * 16) + 1))?;
    let offsets = device.upload(&[0u32, 199, 200, 200])?;
    let mut c = device.poisoned::<bf16>(200 * 64)?;
    let experts = View::new(&b, "(64,16,3):(16,1,1024)")?; // (N,K,G)
    Gemm::new(&a.view((200, 16))?, &experts, &c.view_mut((200, 64))?)
        .groups(Groups::Rows, &offsets.view(4)?)
        .run()?;
    let c = c.download()?;
    println!("{} {}", c[198 * 64], c[199 * 64]);
    // ANCHOR_END: exercise_2
    Ok(())
}
