//! Swizzles: offsets permuted so that no two lanes meet in a bank.
//!
//! Run it with `cargo run -p colex-book --example layout_swizzles`; each line `== .. ==` names a piece of the chapter.

use colex_atom::{Access, Banks, choose_swizzle};
use colex_layout::{ComposedLayout, Layout, LayoutLeft, Swizzle};
use std::error::Error;

fn main() -> Result<(), Box<dyn Error>> {
    by_hand()?;
    composed()?;
    sliced()?;
    counted()?;
    chosen()?;
    other_tiles()?;
    overlap();
    moved()?;
    no_swizzle()?;
    Ok(())
}

/// Applies a swizzle to byte offsets.
fn by_hand() -> Result<(), Box<dyn Error>> {
    println!("\n== by_hand ==");
    // ANCHOR: by_hand
    let bytes = Swizzle::new(3, 4, 3)?;
    assert_eq!(bytes.apply(640), 720);
    assert_eq!(bytes.apply(720), 640); // its own inverse
    let starts: Vec<i64> = (0..8).map(|row| bytes.apply(128 * row)).collect();
    println!("{starts:?}");

    // In units of halves the same permutation has one bit less below it.
    assert_eq!(bytes.recast(8, 16)?, Swizzle::new(3, 3, 3)?);
    // ANCHOR_END: by_hand
    Ok(())
}

/// Composes a swizzle with a layout, divides it and repeats it.
fn composed() -> Result<(), Box<dyn Error>> {
    println!("\n== composed ==");
    // ANCHOR: composed
    let tile: ComposedLayout = "Sw<3,3,3> o 0 o (8,64):(64,1)".parse()?;
    assert_eq!(tile.at((1, 0))?, 72); // 64 XOR 8
    assert_eq!(tile.at((5, 8))?, 5 * 64 + (5 ^ 1) * 8);

    let quarters = tile.zipped_divide((8, 16))?;
    println!("{quarters:#}");
    let tiles = tile.tile_to_shape((64, 64), LayoutLeft)?;
    println!("{tiles:#}");
    // ANCHOR_END: composed
    Ok(())
}

/// Takes a row and a column out of a swizzled tile.
fn sliced() -> Result<(), Box<dyn Error>> {
    println!("\n== sliced ==");
    // ANCHOR: sliced
    let tile: ComposedLayout = "Sw<3,3,3> o 0 o (8,64):(64,1)".parse()?;
    let (row, offset) = tile.slice_and_offset((1, ..))?;
    // Group 0 lies at 72 and group 1 at 64: 8 back, then on in pairs.
    println!("{row:#}, {offset}");
    assert_eq!(row.at(8)? + offset, tile.at((1, 8))?);

    let (column, offset) = tile.slice_and_offset((.., 0))?;
    println!("{column:#}, {offset}");
    // ANCHOR_END: sliced
    Ok(())
}

/// Counts the passes of an access, before a swizzle and after it.
fn counted() -> Result<(), Box<dyn Error>> {
    println!("\n== counted ==");
    // ANCHOR: counted
    let read = Access::new("ldmatrix", "(8,4):(64,8)", 2, 16)?;
    let before = read.conflicts(Banks::SHARED);
    println!("degree {}, {} passes", before.degree(), before.passes());

    let bytes = Swizzle::new(3, 4, 3)?;
    let after = read.map(|byte| bytes.apply(byte)).conflicts(Banks::SHARED);
    println!("degree {}, {} passes", after.degree(), after.passes());
    // ANCHOR_END: counted
    Ok(())
}

/// Finds the swizzle that keeps two accesses free of bank conflicts.
fn chosen() -> Result<(), Box<dyn Error>> {
    println!("\n== chosen ==");
    // ANCHOR: chosen
    // Halves, rows of 128 bytes. Filled 16 bytes per thread along the rows,
    // and read by ldmatrix down the columns.
    let fill = Access::new("fill", "(8,4):(8,64)", 2, 16)?;
    let read = Access::new("ldmatrix", "(8,4):(64,8)", 2, 16)?;
    let choice = choose_swizzle(&[fill, read])?;
    println!("{choice}");
    println!("{}", choice.in_elements(2)?);
    // ANCHOR_END: chosen
    Ok(())
}

/// Finds the swizzles of two other tiles.
fn other_tiles() -> Result<(), Box<dyn Error>> {
    println!("\n== other_tiles ==");
    // ANCHOR: other_tiles
    let read = Access::new("ldmatrix", "(8,4):(128,8)", 2, 16)?;
    println!("{}", choose_swizzle(&[read])?.swizzle);
    // 4-byte words down a column of a 32 x 32 tile of floats: all five bits of the bank.
    let column = Access::new("column", "32:32", 4, 4)?;
    println!("{}", choose_swizzle(&[column])?.swizzle);
    // ANCHOR_END: other_tiles
    Ok(())
}

/// Shows bits that a swizzle cannot take.
fn overlap() {
    println!("\n== overlap ==");
    // ANCHOR: overlap
    println!("{}", Swizzle::new(3, 4, 2).unwrap_err());
    // ANCHOR_END: overlap
}

/// Moves a swizzle past a layout, or says why not.
fn moved() -> Result<(), Box<dyn Error>> {
    println!("\n== moved ==");
    // ANCHOR: moved
    let l: Layout = "(8,8):(1,16)".parse()?;
    let moved = l.composition(Swizzle::new(3, 0, 3)?)?;
    println!("{moved}");

    // 6 is not a power of two: bits and digits differ.
    let carries: Layout = "(6,8):(1,8)".parse()?;
    println!(
        "{}",
        carries.composition(Swizzle::new(2, 0, 2)?).unwrap_err()
    );
    // ANCHOR_END: moved
    Ok(())
}

/// Shows accesses that no swizzle helps.
fn no_swizzle() -> Result<(), Box<dyn Error>> {
    println!("\n== no_swizzle ==");
    // ANCHOR: no_swizzle
    let far = Access::from_bytes("far", (0..8).map(|i| 128 * i).collect(), 16)?;
    let odd = Access::from_bytes("odd", (0..8).map(|i| 144 * i).collect(), 16)?;
    println!("{}", choose_swizzle(&[far, odd]).unwrap_err());
    // ANCHOR_END: no_swizzle
    Ok(())
}
