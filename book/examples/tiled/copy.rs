//! A tiled copy, to the last stride.
//!
//! Run it with `cargo run -p colex-book --example tiled_copy`; each line `== .. ==` names a piece of the chapter.

use colex_layout::layout;
use colex_tiled::{Side, Tensor, TiledCopy};
use std::error::Error;

fn main() -> Result<(), Box<dyn Error>> {
    widest()?;
    tile()?;
    partition()?;
    executed()?;
    other_major()?;
    values_across()?;
    Ok(())
}

/// Compares values of 32 and of 16 bits at the widest access.
fn widest() -> Result<(), Box<dyn Error>> {
    // ANCHOR: widest
    let atom = colex_atom::copy("UniversalCopy<uint128_t>")?;
    for (bits, count, vector) in [(32, 4, "4:1"), (16, 8, "8:1")] {
        let copy = TiledCopy::new(atom.clone(), bits, "(8,4):(1,8)", vector)?;
        assert_eq!((copy.threads(), copy.atom_values()), (32, count));
        assert_eq!(copy.tile_shape()?, [8 * count, 4].into());
    }
    // ANCHOR_END: widest
    Ok(())
}

/// Derives the tile of one warp.
fn tile() -> Result<(), Box<dyn Error>> {
    println!("\n== tile ==");
    // ANCHOR: tile
    let raked = layout!((8,4):(1,8)).raked_product(&layout!(8:1))?;
    assert_eq!(raked, layout!(((8,8),(1,4)):((32,1),(0,8))));

    let atom = colex_atom::copy("UniversalCopy<uint128_t>")?;
    let copy = TiledCopy::new(atom, 16, &layout!((8,4):(1,8)), &layout!(8:1))?;
    println!("{:#}", copy.tv());
    assert_eq!(copy.tile_shape()?, [64, 4].into());
    assert_eq!(copy.tv().at((9, 0))?, 8 + 64);
    // ANCHOR_END: tile
    Ok(())
}

/// Partitions shared and global memory.
fn partition() -> Result<(), Box<dyn Error>> {
    println!("\n== partition ==");
    // ANCHOR: partition
    let atom = colex_atom::copy("UniversalCopy<uint128_t>")?;
    let copy = TiledCopy::new(atom, 16, &layout!((8,4):(1,8)), &layout!(8:1))?;
    let shared = layout!((128,32):(1,128));
    let global = layout!((128,32,32):(1,128,4096));

    let steps = copy.partition_steps(&shared, Side::Destination)?;
    assert_eq!(steps.tiled, layout!(((64,4),(2,8)):((1,128),(64,512))));
    assert_eq!(
        steps.partition,
        layout!(((8,4),(8,1),(2,8)):((8,128),(1,0),(64,512)))
    );

    let thread = copy.slice(9)?;
    let part = thread.partition_dst(&shared)?; // (CPY, CPY_M, CPY_K)
    println!("{}", part.start);
    assert_eq!(part.layout, layout!(((8,1),2,8):((1,0),64,512)));
    assert_eq!(
        thread.partition_src(&global)?.layout, // (CPY, CPY_M, CPY_K, matrices)
        layout!(((8,1),2,8,32):((1,0),64,512,4096)),
    );
    // ANCHOR_END: partition
    Ok(())
}

/// Runs the copy on the host and reads its report.
fn executed() -> Result<(), Box<dyn Error>> {
    println!("\n== executed ==");
    // ANCHOR: executed
    let atom = colex_atom::copy("SM80_CP_ASYNC_CACHEGLOBAL<uint128_t>")?;
    let copy = TiledCopy::new(atom, 16, &layout!((8,4):(1,8)), &layout!(8:1))?;
    let matrix = layout!((128,32):(1,128));

    let from = Tensor::new((0..4096).collect::<Vec<i32>>(), matrix.clone())?;
    let mut to = Tensor::new(vec![-1; 4096], matrix.clone())?;
    copy.copy(&from, &mut to)?;
    assert_eq!(from.elements()?, to.elements()?);

    let report = copy.report(&matrix, &matrix)?;
    println!("{}", report.to_string().trim_end());
    // ANCHOR_END: executed
    Ok(())
}

/// Shows threads whose order does not follow memory.
fn other_major() -> Result<(), Box<dyn Error>> {
    println!("\n== other_major ==");
    // ANCHOR: other_major
    let atom = colex_atom::copy("SM80_CP_ASYNC_CACHEGLOBAL<uint128_t>")?;
    let copy = TiledCopy::new(atom, 16, &layout!((8,4):(4,1)), &layout!(8:1))?;
    assert_eq!(copy.tile_shape()?, [64, 4].into());
    println!("{:#}", copy.tv());

    let matrix = layout!((128,32):(1,128));
    let report = copy.report(&matrix, &matrix)?.to_string();
    println!("{report}");
    // ANCHOR_END: other_major
    Ok(())
}

/// Shows values that do not follow memory.
fn values_across() -> Result<(), Box<dyn Error>> {
    println!("\n== values_across ==");
    // ANCHOR: values_across
    let atom = colex_atom::copy("SM80_CP_ASYNC_CACHEGLOBAL<uint128_t>")?;
    let copy = TiledCopy::new(atom, 16, &layout!((8,4):(1,8)), &layout!((1,8):(0,1)))?;
    assert_eq!(copy.tile_shape()?, [8, 32].into()); // a tile of 8 by 32, not 64 by 4

    let matrix = layout!((128,32):(1,128));
    assert_eq!(
        copy.slice(0)?.partition_src(&matrix)?.layout.get(&[0])?, // (CPY)
        layout!((8,1):(128,0))
    );
    let report = copy.report(&matrix, &matrix)?.to_string();
    println!("{report}");
    // ANCHOR_END: values_across
    Ok(())
}
