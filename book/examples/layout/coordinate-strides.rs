//! Strides that are coordinates: layouts whose values are places, not offsets.
//!
//! Run it with `cargo run -p colex-book --example layout_coordinate_strides`; each line `== .. ==` names a piece of the chapter.

use colex_layout::{C, Error, IntTuple, Layout, tiler};

fn main() -> Result<(), Error> {
    identity()?;
    nested()?;
    predicates()?;
    composed()?;
    inner_product()?;
    law()?;
    refusals()?;
    Ok(())
}

/// Makes an identity layout and divides it.
fn identity() -> Result<(), Error> {
    println!("\n== identity ==");
    // ANCHOR: identity
    let identity = Layout::identity((3, 5))?;
    println!("{identity:#}");
    println!("{}", identity.coord_at(14)?);

    let tiled = identity.logical_divide(&tiler!((2, _)))?;
    println!("{tiled:#}");
    // The second row of the second tile is row 3: outside of 3 rows, and visibly so.
    println!("{}", tiled.coord_at(((1, 1), 4))?);
    // ANCHOR_END: identity
    Ok(())
}

/// Makes the identity of a nested shape.
fn nested() -> Result<(), Error> {
    println!("\n== nested ==");
    // ANCHOR: nested
    let identity = Layout::identity((4, (2, 3)))?;
    println!("{identity:#}");
    println!("{}", identity.coord_at(13)?);
    // ANCHOR_END: nested
    Ok(())
}

/// Counts the elements of tiles that lie inside the shape.
fn predicates() -> Result<(), Error> {
    println!("\n== predicates ==");
    // ANCHOR: predicates
    let shape: IntTuple = (24, 16).into();
    let identity = Layout::identity(&shape)?;
    let tiles = identity.zipped_divide((16, 64))?;
    println!("{tiles:#}");

    let inside = (0..tiles.size())
        .map(|i| tiles.coord_at(i)?.elem_less(&shape))
        .collect::<Result<Vec<bool>, _>>()?;
    assert_eq!(inside.len(), 2048);
    assert_eq!(inside.iter().filter(|x| **x).count(), 384); // 1664 of 2048 need no work
    // ANCHOR_END: predicates
    Ok(())
}

/// Composes a walk over coordinates with a tensor.
fn composed() -> Result<(), Error> {
    println!("\n== composed ==");
    // ANCHOR: composed
    let identity = Layout::identity((4, 6))?;
    let walk = identity.composition("(2,3):(1,8)")?;
    println!("{walk:#}");

    let tensor: Layout = "(4,6):(6,1)".parse()?; // row-major
    assert_eq!(tensor.composition(&walk)?, "(2,3):(6,2)".parse()?);

    // Coordinates can change places: this walk transposes.
    let transposed: Layout = "(6,4):(1@1,1@0)".parse()?;
    assert_eq!(tensor.composition(&transposed)?, "(6,4):(1,6)".parse()?);
    // ANCHOR_END: composed
    Ok(())
}

/// Turns coordinates into offsets, with a stride known at launch.
fn inner_product() -> Result<(), Error> {
    println!("\n== inner_product ==");
    // ANCHOR: inner_product
    let threads = Layout::identity((C::<128>, C::<32>))?.zipped_divide("(_8,_4)")?;
    println!("{threads}");

    let row_major: IntTuple = "(1056,_1)".parse()?; // 1056 is dynamic: known at launch
    let offsets = threads.inner_product(&row_major)?;
    println!("{offsets}");
    // ANCHOR_END: inner_product
    Ok(())
}

/// Compares a divided layout with the divided identity of its shape, coordinate by coordinate.
fn law() -> Result<(), Error> {
    println!("\n== law ==");
    // ANCHOR: law
    let a: Layout = "((2,3),8):((1,20),2)".parse()?;
    let data = a.zipped_divide((2, 4))?;
    let coords = Layout::identity(a.shape())?.zipped_divide((2, 4))?;
    println!("{data}");
    println!("{coords:#}");
    for i in 0..data.size() {
        assert_eq!(a.at(coords.coord_at(i)?)?, data.at(i)?);
    }

    let matrix: Layout = "(4,3):(1,4)".parse()?;
    assert_eq!(matrix.logical_divide(6)?, "(6,2):(1,6)".parse()?);
    assert!(Layout::identity((4, 3))?.logical_divide(6).is_err());
    // ANCHOR_END: law
    Ok(())
}

/// Shows what coordinates cannot do.
fn refusals() -> Result<(), Error> {
    println!("\n== refusals ==");
    // ANCHOR: refusals
    println!("{}", "(2,3):(1,1@1)".parse::<Layout>().unwrap_err());
    let identity = Layout::identity((2, 3))?;
    println!("{}", identity.at(3).unwrap_err());
    // ANCHOR_END: refusals
    Ok(())
}
