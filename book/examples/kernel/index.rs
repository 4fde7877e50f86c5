//! What `layout(thread)` becomes: expressions of a thread's index, and the instructions that they take.
//!
//! Run it with `cargo run -p colex-book --example kernel_index`; each line `== .. ==` names a piece of the chapter.

use colex_atom::{Arch, Ty};
use colex_gpu::ir::{Access, Space, Type};
use colex_gpu::tensor::{AtThread, Builder, Index, layout_at, swizzled};
use colex_layout::{Layout, Swizzle};
use colex_tiled::TiledCopy;
use std::error::Error;

fn main() -> Result<(), Box<dyn Error>> {
    by_hand()?;
    compact()?;
    swizzled_row()?;
    divided()?;
    at_launch()?;
    once()?;
    read_late();
    refused();
    Ok(())
}

/// Derives the offset of a lane, with a swizzle and with constants.
fn by_hand() -> Result<(), Box<dyn Error>> {
    println!("\n== by_hand ==");
    // ANCHOR: by_hand
    let mut k = Builder::new("k", Arch::Sm80, 32);
    let t = k.thread();
    let x = layout_at("(_16,_2):(_64,_8)", &t);
    println!("{x}");

    let swizzle = Swizzle::new(3, 3, 3)?;
    let at = |offset: i64| swizzled(swizzle, &(&x + offset)).to_string();
    println!("{}", at(0));
    println!("{}", at(16));
    println!("{}", at(1024));
    // ANCHOR_END: by_hand
    Ok(())
}

// ANCHOR: instructions
/// The instructions between the thread's index and the value of an expression of it.
fn instructions(f: impl Fn(&Index) -> Index) -> Result<Vec<String>, Box<dyn Error>> {
    let mut k = Builder::new("k", Arch::Sm80, 256);
    let index = f(&k.thread());
    k.value(&index);
    let text = k.finish()?.kernel.ptx()?;
    let lines = text
        .lines()
        .map(str::trim)
        .skip_while(|line| !line.contains("%tid.x"));
    Ok(lines
        .skip(1)
        .take_while(|line| *line != "exit;")
        .map(String::from)
        .collect())
}

/// Those of a layout, at the thread's index modulo its size.
fn of(layout: &str) -> Result<String, Box<dyn Error>> {
    let layout: Layout = layout.parse()?;
    Ok(instructions(|t| layout_at(&layout, &(t % layout.size())))?.join("\n"))
}
// ANCHOR_END: instructions

/// Prints the instructions of a compact layout and of a transposed one.
fn compact() -> Result<(), Box<dyn Error>> {
    println!("\n== compact ==");
    // ANCHOR: compact
    println!("compact:\n{}", of("(_8,_4):(_1,_8)")?);
    println!("transposed:\n{}", of("(_8,_4):(_4,_1)")?);
    // ANCHOR_END: compact
    Ok(())
}

/// Prints the instructions of the row of a lane under the swizzle.
fn swizzled_row() -> Result<(), Box<dyn Error>> {
    println!("\n== swizzled_row ==");
    // ANCHOR: swizzled_row
    let rows: Layout = "(_16,_2):(_64,_8)".parse()?;
    let swizzle = Swizzle::new(3, 3, 3)?;
    let all = instructions(|t| swizzled(swizzle, &layout_at(&rows, &(t % 32))))?;
    println!("{}", all.join("\n"));
    // ANCHOR_END: swizzled_row
    Ok(())
}

/// Prints the instructions of extents that are no powers of two.
fn divided() -> Result<(), Box<dyn Error>> {
    println!("\n== divided ==");
    // ANCHOR: divided
    println!("{}", of("(_3,_5):(_5,_1)")?);
    // ANCHOR_END: divided
    Ok(())
}

/// Partitions a tensor whose stride is known at launch only.
fn at_launch() -> Result<(), Box<dyn Error>> {
    println!("\n== at_launch ==");
    // ANCHOR: at_launch
    let mut k = Builder::new("k", Arch::Sm80, 256);
    let a = k.tensor("a", Ty::F32, "(512,512):(512,_1)");
    let (t, m) = (k.thread(), k.block_index(0));
    let tile = a.local_tile((32, 32), (m, 0)); // (BLK_M, BLK_N)
    let atom = colex_atom::copy("UniversalCopy<uint32_t>")?;
    let copy = TiledCopy::new(atom, 32, "(8,32):(32,1)", "(1,1):(0,0)")?;
    let part = copy.at(&t).partition_src(&tile); // (CPY, CPY_M, CPY_N)
    assert_eq!(format!("{:#}", part.layout()), "((1,1),4,1):((0,0),8@0,0)");
    let registers = k.fragment_like(&part);
    k.copy(&copy, &part, &registers);

    let text = k.finish()?.kernel.ptx()?;
    let lines = text
        .lines()
        .skip_while(|line| !line.contains("%ctaid.x"))
        .skip(1);
    for line in lines {
        println!("{}", line.trim());
    }
    // ANCHOR_END: at_launch
    Ok(())
}

/// Shows what a loop computes before it and within it.
fn once() -> Result<(), Box<dyn Error>> {
    println!("\n== once ==");
    // ANCHOR: once
    let mut k = Builder::new("k", Arch::Sm80, 32);
    let t = k.thread();
    let base = k.shared_bytes(4352, 128);
    k.for_(0, 8, 1, |k, i| {
        for j in 0..2 {
            let address = k.address(&(&base + &t * 12 + i * 512 + 384 * j), false);
            k.emit(|k| k.load(Access::new(Space::Shared, Type::F32), address));
        }
    });
    let text = k.finish()?.kernel.ptx()?;
    let lines = text
        .lines()
        .skip_while(|line| !line.contains("mov.b32 %r2"));
    for line in lines.take(6) {
        println!("{}", line.trim());
    }
    // ANCHOR_END: once
    Ok(())
}

/// Uses the value of a variable after the variable has changed.
fn read_late() {
    println!("\n== read_late ==");
    // ANCHOR: read_late
    let mut k = Builder::new("k", Arch::Sm80, 32);
    let stage = k.var(0, 0..4);
    let before = k.get(&stage);
    k.set(&stage, 1);
    k.value(&(before + 1));
    println!("{}", k.finish().unwrap_err().what());
    // ANCHOR_END: read_late
}

/// Shows expressions that have no value.
fn refused() {
    println!("\n== refused ==");
    // ANCHOR: refused
    fn refused(index: impl Fn(&mut Builder, Index) -> Index) -> String {
        let mut k = Builder::new("k", Arch::Sm80, 128);
        let thread = k.thread();
        let index = index(&mut k, thread);
        k.value(&index);
        k.finish().unwrap_err().what()
    }

    println!("{}", refused(|_, t| &t / 0 * 8 + 1));
    println!("{}", refused(|k, t| k.within(t, 500..600)));
    println!("{}", refused(|_, t| t * i64::MAX * 2));
    // ANCHOR_END: refused
}
