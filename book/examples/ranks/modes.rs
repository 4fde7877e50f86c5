//! Tensors over several devices: placements, their layouts, and the collectives between them.
//!
//! Run it with `cargo run -p colex-book --example ranks_modes`; each line `== .. ==` names a piece of the chapter.

use std::error::Error;

use std::time::Duration;

use colex_atom::Arch;
use colex_gpu::Device;
use colex_gpu::ranks::{RankDevices, RankOptions, RankProblem, RankProduct};
use colex_sched::{Collective, GemmCoord, Placement, RankLayout, Route, local_product};
use half::bf16;

fn main() -> Result<(), Box<dyn Error>> {
    placements()?;
    holders()?;
    collectives()?;
    products();
    routes()?;
    call()
}

fn placements() -> Result<(), Box<dyn Error>> {
    println!("\n== placements ==");
    // ANCHOR: placements
    for placement in Placement::all(2) {
        let tensor = placement.layout(&[8, 4], 4)?;
        println!(
            "{placement}: {} by {} ranks",
            tensor.layout(),
            tensor.times()
        );
    }
    let uneven = Placement::Shard(1).layout(&[8, 6], 4);
    println!("{}", uneven.unwrap_err());
    // ANCHOR_END: placements
    Ok(())
}

fn holders() -> Result<(), Box<dyn Error>> {
    println!("\n== holders ==");
    // ANCHOR: holders
    // A grid of 2 x 2 ranks: the first index cuts the rows, the second one repeats.
    let grid = RankLayout::new(&[8, 4], &"(4,4,(2,2)):(1,8,(4,0))".parse()?, false)?;
    println!("{:?}", grid.holders(5)?);

    for layout in ["(4,4,2):(1,8,2)", "(2,4,2):(1,8,4)", "(8,4,2):(1,8,8)"] {
        let error = RankLayout::new(&[8, 4], &layout.parse()?, false);
        println!("{}", error.unwrap_err());
    }
    // ANCHOR_END: holders
    Ok(())
}

fn collectives() -> Result<(), Box<dyn Error>> {
    println!("\n== collectives ==");
    // ANCHOR: collectives
    let shape = [64, 32];
    for from in [Placement::Shard(0), Placement::Partial] {
        for to in Placement::all(2).filter(|to| *to != from) {
            let collective = Collective::between(from, to);
            let sent = collective.sent(&shape, 4)?;
            println!("{from}, then {to}: {collective}, {sent} elements from each rank");
        }
    }
    // ANCHOR_END: collectives
    Ok(())
}

fn products() {
    println!("\n== products ==");
    // ANCHOR: products
    for a in Placement::all(2) {
        for b in Placement::all(2) {
            if let Ok(c) = local_product(a, b) {
                println!("A {a}, B {b}: C {c}");
            }
        }
    }
    let refused = local_product(Placement::Partial, Placement::Partial);
    println!("{}", refused.unwrap_err());
    // ANCHOR_END: products
}

fn routes() -> Result<(), Box<dyn Error>> {
    println!("\n== routes ==");
    // ANCHOR: routes
    let (rows, k) = (Placement::Shard(0), Placement::Shard(1));
    let layer = [
        ([rows, rows], k, GemmCoord::new(2048, 28672, 8192)),
        ([k, k], rows, GemmCoord::new(2048, 8192, 28672)),
    ];
    for (operands, result, problem) in layer {
        for route in &Route::all(operands, result, problem, 4)?[..2] {
            // a and b are (collective, placement), c is (placement, collective).
            let (a, b, c) = (route.a.0, route.b.0, route.c.1);
            let sent = route.sent / 1_000_000;
            println!("A: {a}; B: {b}; C: {c}: {sent} million elements");
        }
    }
    // ANCHOR_END: routes
    Ok(())
}

fn call() -> Result<(), Box<dyn Error>> {
    println!("\n== call ==");
    // ANCHOR: call
    // A is 64 x 32 and B is 48 x 32, cut along K; C is 64 x 48, cut by rows.
    let a = RankLayout::new(&[64, 32], &"(64,16,2):(1,64,1024)".parse()?, false)?;
    let b = RankLayout::new(&[48, 32], &"(48,16,2):(1,48,768)".parse()?, false)?;
    let c = RankLayout::new(&[64, 48], &"(32,48,2):(1,64,32)".parse()?, false)?;
    let problem = RankProblem::of_layouts([&a, &b, &c])?;
    println!("{problem}");

    let device = Device::simulator(Arch::Sm90a);
    let devices = RankDevices::new(&[device.clone(), device])?;
    let mut product = RankProduct::<bf16, f32>::new(&devices, problem, &RankOptions::default())?;
    let matrix = |count: i64| (0..count).map(|i| bf16::from_f32((i % 7) as f32)).collect();
    let whole: [Vec<bf16>; 2] = [matrix(64 * 32), matrix(48 * 32)];
    let (parts_a, parts_b) = (a.split(&whole[0])?, b.split(&whole[1])?);
    for rank in 0..2 {
        // A part has the first mode fastest; the operands of a product have K fastest.
        product.a(rank)?.write(&by_rows(&parts_a[rank], 64))?;
        product.b(rank)?.write(&by_rows(&parts_b[rank], 48))?;
    }
    product.run()?;
    product.wait(Duration::from_secs(60))?;
    let found = (0..2).map(|rank| Ok(by_rows(&product.c(rank)?.download()?, 48)));
    let parts = found.collect::<Result<Vec<Vec<f32>>, colex_gpu::Error>>()?;
    let found = c.join(&parts, |one, other| one + other)?;
    let dot = |row: usize, column: usize| -> f32 {
        let at = |k: usize| whole[0][row + 64 * k].to_f32() * whole[1][column + 48 * k].to_f32();
        (0..32).map(at).sum()
    };
    let is_right = (0..64 * 48).all(|i| found[i] == dot(i % 64, i / 64));
    println!("C of the parts is the product: {is_right}");
    // ANCHOR_END: call
    Ok(())
}

// ANCHOR: by_rows
/// A matrix with contiguous rows from one with contiguous columns, or the other way around.
fn by_rows<T: Copy>(matrix: &[T], rows: usize) -> Vec<T> {
    let columns = matrix.len() / rows;
    let at = |i: usize| matrix[i / columns + rows * (i % columns)];
    (0..matrix.len()).map(at).collect()
}
// ANCHOR_END: by_rows
