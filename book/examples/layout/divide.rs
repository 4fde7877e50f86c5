//! Divide: a layout as tiles.
//!
//! Run it with `cargo run -p colex-book --example layout_divide`; each line `== .. ==` names a piece of the chapter.

use colex_layout::{Error, Layout, layout, tiler};

fn main() -> Result<(), Error> {
    by_hand()?;
    derivation();
    by_mode()?;
    four_divides()?;
    slices()?;
    twice()?;
    remainder()?;
    refused();
    wrong_rank();
    Ok(())
}

/// Divides a layout by a tile with gaps.
fn by_hand() -> Result<(), Error> {
    println!("\n== by_hand ==");
    // ANCHOR: by_hand
    let a = layout!((4,2,3):(2,1,8));
    let tile = tiler!(4:2);
    let divided = a.logical_divide(&tile)?;
    assert_eq!(divided, layout!(((2,2),(2,3)):((4,1),(2,8))));

    // the definition
    let t = layout!(4:2);
    let both = Layout::concat([&t, &t.complement(24)?])?;
    assert_eq!(divided, a.composition(&both)?);

    let lines: Vec<Vec<i64>> = divided.table()?.chunks(4).map(<[i64]>::to_vec).collect();
    println!("{:?}", lines[0]);
    println!("{:?}", lines[1]);
    println!("{:?}", lines[5]);
    // ANCHOR_END: by_hand
    Ok(())
}

/// Shows one step of the derivation.
fn derivation() {
    println!("\n== derivation ==");
    // ANCHOR: derivation
    let a = layout!((4,2,3):(2,1,8));
    println!("{}", a.explain_logical_divide(&tiler!(4:2)));
    // ANCHOR_END: derivation
}

/// Divides mode by mode.
fn by_mode() -> Result<(), Error> {
    // ANCHOR: by_mode
    let matrix = layout!((4,8):(8,1));
    let blocks = matrix.logical_divide(&tiler!((2, 4)))?;
    assert_eq!(blocks, layout!(((2,2),(4,2)):((8,16),(1,4))));

    let nine = layout!((9,8):(8,1));
    let strided = nine.logical_divide(&tiler!((3:3, 4:2)))?;
    assert_eq!(strided, layout!(((3,3),(4,2)):((24,8),(2,1))));
    // ANCHOR_END: by_mode
    Ok(())
}

/// Compares the four divides, and takes one tile.
fn four_divides() -> Result<(), Error> {
    // ANCHOR: four_divides
    let a = layout!((4,8):(8,1));
    let tile = tiler!((2, 4));
    assert_eq!(
        a.logical_divide(&tile)?,
        layout!(((2,2),(4,2)):((8,16),(1,4)))
    );
    assert_eq!(
        a.zipped_divide(&tile)?,
        layout!(((2,4),(2,2)):((8,1),(16,4)))
    );
    assert_eq!(a.tiled_divide(&tile)?, layout!(((2,4),2,2):((8,1),16,4)));
    assert_eq!(a.flat_divide(&tile)?, layout!((2,4,2,2):(8,1,16,4)));
    // ANCHOR_END: four_divides
    Ok(())
}

/// Takes one tile, and one place of all tiles.
fn slices() -> Result<(), Error> {
    println!("\n== slices ==");
    // ANCHOR: slices
    let tiles = layout!((4,8):(8,1)).zipped_divide(&tiler!((2, 4)))?;
    let (tile, start) = tiles.slice_and_offset(((.., ..), (1, 0)))?; // local_tile
    println!("tile (1,0): {tile}, {start}");
    let (mine, start) = tiles.slice_and_offset(((1, 2), (.., ..)))?; // local_partition
    println!("place (1,2): {mine}, {start}");

    let from = layout!((64,96):(96,1)).zipped_divide(&tiler!((32, 32)))?;
    let (tile, start) = from.slice_and_offset(((.., ..), (1, 2)))?;
    println!("block (1,2): {tile}, {start}");
    // ANCHOR_END: slices
    Ok(())
}

/// Cuts the tile of a block again, for its threads.
fn twice() -> Result<(), Error> {
    println!("\n== twice ==");
    // ANCHOR: twice
    let from = layout!((64,96):(96,1)).zipped_divide(&tiler!((32, 32)))?;
    let (tile, block_start) = from.slice_and_offset(((.., ..), (1, 2)))?;

    let threads = layout!((8,32):(32,1)); // the thread of a place
    let cut = tile.zipped_divide(&tiler!((8, 32)))?;
    println!("the tile, cut again: {cut:#}");
    let place = threads.coord_of(70)?;
    let (mine, start) = cut.slice_and_offset((place.clone(), (.., ..)))?;
    println!("thread 70 at {place}: {mine:#} from {block_start} + {start}");
    let offsets = mine.table()?.into_iter().map(|x| block_start + start + x);
    println!("{:?}", offsets.collect::<Vec<_>>());
    // ANCHOR_END: twice
    Ok(())
}

/// Divides where the tile does not fit.
fn remainder() -> Result<(), Error> {
    println!("\n== remainder ==");
    // ANCHOR: remainder
    let ten = layout!(10:1);
    let divided = ten.logical_divide(3)?;
    assert_eq!(
        (divided.to_string(), divided.size()),
        ("(3,4):(1,3)".to_string(), 12)
    );
    assert!(!ten.is_divided_by(3)?);
    assert!(ten.is_divided_by(5)?);
    println!("{}", ten.logical_divide_exact(3).unwrap_err());
    // ANCHOR_END: remainder
    Ok(())
}

/// Shows what the library says where the tile carries.
fn refused() {
    println!("\n== refused ==");
    // ANCHOR: refused
    let a = layout!((4,3):(1,10));
    let message = a.logical_divide(&tiler!(4:3)).unwrap_err().to_string();
    println!("{message}");
    // ANCHOR_END: refused
}

/// Shows a tile that overlaps itself, and a tiler of too many modes.
fn wrong_rank() {
    println!("\n== wrong_rank ==");
    // ANCHOR: wrong_rank
    let (line, overlapping) = (layout!(24:1), tiler!((2,2):(1,1)));
    println!("{}", line.logical_divide(&overlapping).unwrap_err());

    let a = layout!((9,(4,8)):(59,(13,1)));
    println!("{}", a.logical_divide(&tiler!((3, 2, 2))).unwrap_err());
    // ANCHOR_END: wrong_rank
}
