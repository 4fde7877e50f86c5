//! Tensors over several devices: placements, their layouts, and the collectives between them.
//!
//! Run it with `cargo run -p colex-book --example ranks_modes`; each line `== .. ==` names a piece of the chapter.

use std::error::Error;

use colex_sched::{Collective, GemmCoord, Placement, RankLayout, Route, local_product};

fn main() -> Result<(), Box<dyn Error>> {
    placements()?;
    holders()?;
    collectives()?;
    products();
    routes()
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
            let (a, b, c) = (route.a.0, route.b.0, route.c.1);
            let sent = route.sent / 1_000_000;
            println!("A: {a}; B: {b}; C: {c}: {sent} million elements");
        }
    }
    // ANCHOR_END: routes
    Ok(())
}
