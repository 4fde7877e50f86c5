//! XOR strides: swizzled layouts as layouts.
//!
//! Run it with `cargo run -p colex-book --example layout_xor`; each line `== .. ==` names a piece of the chapter.

use colex_layout::{ComposedLayout, Error, Layout};

fn main() -> Result<(), Error> {
    by_hand()?;
    both_ways()?;
    algebra()?;
    matrices()?;
    swizzled_inverse()?;
    carries()?;
    same_bits()?;
    Ok(())
}

/// Compares XOR strides with a swizzle.
fn by_hand() -> Result<(), Error> {
    // ANCHOR: by_hand
    let tile: Layout = "(8,64):(^72,^1)".parse()?;
    assert_eq!(tile.at((5, 0))?, 72 ^ (72 << 2));

    let swizzled: ComposedLayout = "Sw<3,3,3> o 0 o (8,64):(64,1)".parse()?;
    assert_eq!(swizzled.table()?, tile.table()?);
    // ANCHOR_END: by_hand
    Ok(())
}

/// Turns a swizzle into XOR strides and back.
fn both_ways() -> Result<(), Error> {
    println!("\n== both_ways ==");
    // ANCHOR: both_ways
    let tile: ComposedLayout = "Sw<2,3,3> o 0 o (16,32):(32,1)".parse()?;
    let (xor, start) = tile.to_xor()?;
    // Row bit 0 is bit 5 of the offset, which the swizzle does not read;
    // row bits 1 and 2 are bits 6 and 7, which it does.
    println!("{xor}, {start}");

    let back = xor.to_swizzled()?;
    println!("{back}");
    assert_eq!(back.table()?, tile.table()?);

    // Rows 2 and 3 of the tile begin at offset 64, which the swizzle takes to 64 ^ 8.
    let rows: ComposedLayout = "Sw<2,3,3> o 64 o (2,32):(32,1)".parse()?;
    let (xor, start) = rows.to_xor()?;
    println!("{xor}, {start}");
    for c in 0..64 {
        assert_eq!(rows.at(c)?, start ^ xor.at(c)?);
    }

    // An ordinary layout has XOR strides too, if its sums never carry.
    println!("{}", "(8,64):(64,1)".parse::<Layout>()?.to_xor()?);
    // ANCHOR_END: both_ways
    Ok(())
}

/// Divides and composes a layout with XOR strides.
fn algebra() -> Result<(), Error> {
    println!("\n== algebra ==");
    // ANCHOR: algebra
    let tile: Layout = "(8,64):(^72,^1)".parse()?;
    let quarters = tile.zipped_divide((8, 16))?;
    println!("{quarters:#}");
    assert_eq!(tile.coalesce(..), tile); // 8 steps of ^72 do not make ^1

    // Thread t of a warp reads row t mod 8, chunk t / 8.
    let ldmatrix = tile.composition("(8,4):(1,64)")?;
    println!("{ldmatrix}");
    // ANCHOR_END: algebra
    Ok(())
}

/// Inverts a layout as a matrix over bits.
fn matrices() -> Result<(), Error> {
    println!("\n== matrices ==");
    // ANCHOR: matrices
    let l: Layout = "(4,4):(^5,^2)".parse()?;
    let m = l.to_matrix()?;
    println!("{:?}", m.columns());
    assert_eq!((m.rank(), m.kernel().len()), (4, 0));
    let inverse = Layout::from_matrix(&m.inverse()?)?;
    assert!((0..16).all(|i| l.at(i).and_then(|x| inverse.at(x)) == Ok(i)));

    let broadcast: Layout = "(2,4):(^3,^0)".parse()?;
    let m = broadcast.to_matrix()?;
    assert_eq!((m.rank(), m.kernel()), (1, vec![0b010, 0b100])); // the bits of mode 1
    // ANCHOR_END: matrices
    Ok(())
}

/// Inverts a swizzled layout.
fn swizzled_inverse() -> Result<(), Error> {
    println!("\n== swizzled_inverse ==");
    // ANCHOR: swizzled_inverse
    let tile: ComposedLayout = "Sw<3,3,3> o 0 o (8,64):(64,1)".parse()?;
    let inverse = tile.right_inverse()?;
    println!("{inverse:#}");
    assert!((0..512).all(|i| inverse.at(i).and_then(|j| tile.at(j)) == Ok(i)));
    // ANCHOR_END: swizzled_inverse
    Ok(())
}

/// Shows a layout whose sums carry.
fn carries() -> Result<(), Error> {
    println!("\n== carries ==");
    // ANCHOR: carries
    println!("{}", "(4,2):(1,3)".parse::<Layout>()?.to_xor().unwrap_err());
    // ANCHOR_END: carries
    Ok(())
}

/// Shows a composition that XOR strides refuse.
fn same_bits() -> Result<(), Error> {
    println!("\n== same_bits ==");
    // ANCHOR: same_bits
    let (plain, xor): (Layout, Layout) = ("(8,4):(3,100)".parse()?, "(8,4):(^3,^64)".parse()?);
    let b: Layout = "(4,3):(1,2)".parse()?; // digits up to 3 + 4 = 7, and bit 1 is set by both
    assert_eq!(plain.composition(&b)?, "(4,3):(3,6)".parse()?);
    let refused = xor.composition(&b).unwrap_err().to_string();
    println!("{refused}");
    // ANCHOR_END: same_bits
    Ok(())
}
