//! Surgery on layouts: taking modes out, putting them together, and fixing coordinates.
//!
//! Run it with `cargo run -p colex-book --example layout_surgery`; each line `== .. ==` names a piece of the chapter.

use colex_layout::{Coord, Error, Layout, layout};

fn main() -> Result<(), Error> {
    slices()?;
    modes()?;
    selected()?;
    taken()?;
    joined()?;
    appended()?;
    grouped()?;
    zipped()?;
    one_tile()?;
    sliced_and_diced()?;
    refusals();
    Ok(())
}

/// Takes a row and a tile out of a layout, each with its start.
fn slices() -> Result<(), Error> {
    println!("\n== slices ==");
    // ANCHOR: slices
    let rows = layout!((4,8):(8,1));
    let (row, start) = rows.slice_and_offset((2, ..))?;
    println!("{row}, {start}");

    let tiled = layout!(((2,2),(2,4)):((1,4),(2,8)));
    let (tile, start) = tiled.slice_and_offset(((.., 1), (.., 0)))?;
    println!("{tile}, {start}");
    for i in 0..2 {
        for j in 0..2 {
            assert_eq!(start + tile.at((i, j))?, tiled.at(((i, 1), (j, 0)))?);
        }
    }
    // ANCHOR_END: slices
    Ok(())
}

/// Takes modes out by their path.
fn modes() -> Result<(), Error> {
    println!("\n== modes ==");
    // ANCHOR: modes
    let a = layout!((4,(3,6)):(1,(4,12)));
    println!("{}", a.get(&[0])?);
    println!("{}", a.get(&[1])?);
    println!("{}", a.get(&[1, 0])?);
    println!("{}", a.get(&[1, 1])?);
    // ANCHOR_END: modes
    Ok(())
}

/// Selects modes.
fn selected() -> Result<(), Error> {
    println!("\n== selected ==");
    // ANCHOR: selected
    let a = layout!((2,3,5,7):(1,2,6,30));
    println!("{}", a.select(&[1, 3])?);
    println!("{}", a.select(&[0, 1, 3])?);
    println!("{}", a.select(&[2])?);
    // ANCHOR_END: selected
    Ok(())
}

/// Takes a range of modes.
fn taken() -> Result<(), Error> {
    println!("\n== taken ==");
    // ANCHOR: taken
    let a = layout!((2,3,5,7):(1,2,6,30));
    println!("{}", a.take(1..3)?);
    println!("{}", a.take(1..4)?);
    println!("{}", a.take(1..1).unwrap_err());
    // ANCHOR_END: taken
    Ok(())
}

/// Joins layouts as modes of one layout.
fn joined() -> Result<(), Error> {
    println!("\n== joined ==");
    // ANCHOR: joined
    let (down, across) = (layout!(3:1), layout!(4:3)); // 3 rows, 1 apart; 4 columns, 3 apart
    let matrix = Layout::concat([&down, &across])?;
    let transposed = Layout::concat([&across, &down])?;
    println!("matrix      {matrix}");
    println!("transposed  {transposed}");
    println!("both        {}", Layout::concat([&matrix, &transposed])?);

    let vector = Layout::concat([&down])?; // a tuple of one mode
    println!("vector      {vector}");
    println!("wrapped     {}", Layout::concat([&vector])?);
    println!("mixed       {}", Layout::concat([&down, &vector, &down])?);
    // ANCHOR_END: joined
    Ok(())
}

/// Appends, prepends and replaces modes.
fn appended() -> Result<(), Error> {
    println!("\n== appended ==");
    // ANCHOR: appended
    let (tile, stages) = (layout!((128,64):(64,1)), layout!(3:8192));
    let pipeline = tile.append(&stages)?;
    println!("appended   {pipeline}");
    println!("prepended  {}", tile.prepend(&stages)?);
    println!("replaced   {}", pipeline.replace(2, &layout!(4:8192))?); // four stages
    println!(
        "nested     {}",
        pipeline.replace(2, &layout!((2,2):(8192,16384)))?
    );

    let (down, across) = (layout!(3:1), layout!(4:3));
    let matrix = down.append(&across)?;
    assert_eq!(matrix, layout!((3,4):(1,3)));
    assert_eq!(down.prepend(&across)?, layout!((4,3):(3,1)));
    let twice = matrix.append(&matrix)?;
    assert_eq!(twice, layout!((3,4,(3,4)):(1,3,(1,3))));
    assert_eq!(twice.replace(2, &across)?, layout!((3,4,4):(1,3,3)));
    // ANCHOR_END: appended
    Ok(())
}

/// Groups modes, and flattens them again.
fn grouped() -> Result<(), Error> {
    println!("\n== grouped ==");
    // ANCHOR: grouped
    let a = layout!((2,3,5,7):(1,2,6,30));
    let b = a.group(0..2)?;
    let c = b.group(1..3)?;
    println!("{b}");
    println!("{c}");
    assert_eq!(b.flatten(), a);
    assert_eq!(c.flatten(), a);
    assert_eq!(c.table()?, a.table()?);
    // ANCHOR_END: grouped
    Ok(())
}

/// Changes modes of tiles into tiles of modes.
fn zipped() -> Result<(), Error> {
    println!("\n== zipped ==");
    // ANCHOR: zipped
    let by_mode = layout!(((2,3),(4,2)):((1,8),(2,24)));
    let by_tile = by_mode.zip()?;
    println!("{by_tile}");
    println!("{:?}", by_tile.get(&[0])?.table()?); // one tile
    // ANCHOR_END: zipped
    Ok(())
}

/// Takes one tile with stages through several operations.
fn one_tile() -> Result<(), Error> {
    println!("\n== one_tile ==");
    // ANCHOR: one_tile
    let stages = layout!((128,64,3):(64,1,8192));
    println!("one stage   {}", stages.take(0..2)?);
    println!("transposed  {}", stages.select(&[1, 0, 2])?);
    let grouped = stages.group(0..2)?; // (elements, stages)
    println!("grouped     {grouped}");
    let (stage, start) = grouped.slice_and_offset((.., 1))?;
    println!("stage 1     {stage} at {start}");
    assert_eq!(grouped.flatten(), stages);
    // ANCHOR_END: one_tile
    Ok(())
}

/// Splits a layout by a coordinate, into what is free and what is fixed.
fn sliced_and_diced() -> Result<(), Error> {
    println!("\n== sliced_and_diced ==");
    // ANCHOR: sliced_and_diced
    let tiled = layout!(((2,2),(2,4)):((1,4),(2,8)));
    let coord: Coord = "((_,1),(_,0))".parse()?;
    let (slice, dice) = (tiled.slice(&coord)?, tiled.dice(&coord)?);
    println!("{slice} and {dice}");
    println!("{:?}", dice.table()?);
    assert_eq!(slice.size() * dice.size(), tiled.size());
    // ANCHOR_END: sliced_and_diced
    Ok(())
}

/// Shows what the library says of coordinates that do not fit.
fn refusals() {
    println!("\n== refusals ==");
    // ANCHOR: refusals
    let tiled = layout!(((2,2),(2,4)):((1,4),(2,8)));
    let message = |coord: &str| tiled.slice_and_offset(coord).unwrap_err().to_string();
    println!("{}", message("(9,_)"));
    println!("{}", message("(_,_,1)"));
    // ANCHOR_END: refusals
}
