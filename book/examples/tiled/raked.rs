//! Threads, values and the raked product.
//!
//! Run it with `cargo run -p colex-book --example tiled_raked`; each line `== .. ==` names a piece of the chapter.

use colex_layout::{Layout, layout};
use colex_tiled::TiledCopy;
use std::error::Error;

fn main() -> Result<(), Box<dyn Error>> {
    raked()?;
    inverse()?;
    fused()?;
    proof()?;
    tiled_copy()?;
    holes()?;
    shared_elements()?;
    from_tv()?;
    Ok(())
}

/// Compares the raked product with its definition.
fn raked() -> Result<(), Box<dyn Error>> {
    // ANCHOR: raked
    let (threads, values) = (layout!((3,2):(2,1)), layout!((2,2):(1,2)));
    let raked = threads.raked_product(&values)?;
    assert_eq!(raked, layout!(((2,3),(2,2)):((6,2),(12,1))));

    // Every pair of compact matrices, rows first or columns first, with extents of 1 to 3.
    let compact = |first: i64, second: i64, by_rows: bool| {
        if by_rows {
            Layout::row_major((first, second))
        } else {
            Layout::column_major((first, second))
        }
    };
    for case in 0..4 * 81_i64 {
        let [m0, m1, n0, n1] = [1, 3, 9, 27].map(|digit| 1 + case / digit % 3);
        let (a, b) = (
            compact(m0, m1, case / 81 % 2 == 0)?,
            compact(n0, n1, case / 162 == 0)?,
        );
        let c = a.raked_product(&b)?;
        for (n, m) in (0..b.size()).flat_map(|n| (0..a.size()).map(move |m| (n, m))) {
            let element = ((n % n0, m % m0), (n / n0, m / m0));
            assert_eq!(c.at(element)?, b.at(n)? * a.size() + a.at(m)?);
        }
    }
    // ANCHOR_END: raked
    Ok(())
}

/// Inverts the raked product.
fn inverse() -> Result<(), Box<dyn Error>> {
    // ANCHOR: inverse
    let raked = layout!(((2,3),(2,2)):((6,2),(12,1)));
    let inverse = raked.right_inverse()?;
    assert_eq!(inverse, layout!((2,3,2,2):(12,2,1,6)));
    let tv = inverse.with_shape((6, 4))?;
    assert_eq!(tv, layout!(((2,3),(2,2)):((12,2),(1,6))));

    // Thread 3 is the second of the second row; its value 2 is its upper right element.
    assert_eq!(tv.at((3, 2))?, 2 + 6 * 3);
    // ANCHOR_END: inverse
    Ok(())
}

/// Shows an inverse whose modes are fused.
fn fused() -> Result<(), Box<dyn Error>> {
    // ANCHOR: fused
    let (threads, values) = (layout!((8,4):(1,8)), layout!((1,1):(0,0)));
    let inverse = threads.raked_product(&values)?.right_inverse()?;
    assert_eq!(inverse, layout!(32:1)); // one mode: threads and values are fused
    assert_eq!(inverse.with_shape((32, 1))?, layout!((32,1):(1,0)));

    // An inverse of several modes need not have the threads in one mode: 8 by 4 threads by rows,
    // with 8 values each.
    let raked = layout!((8,4):(4,1)).raked_product(&layout!((8,1):(1,0)))?;
    assert_eq!(raked.right_inverse()?.rank(), 3);
    assert_eq!(
        raked.right_inverse()?.with_shape((32, 8))?,
        layout!(((4,8),8):((64,8),1))
    );
    // ANCHOR_END: fused
    Ok(())
}

/// Checks the steps of the proof on one example.
fn proof() -> Result<(), Box<dyn Error>> {
    // ANCHOR: proof
    let (threads, values) = (layout!((3,2):(2,1)), layout!((2,2):(1,2)));
    let c = threads.raked_product(&values)?;
    let d = c
        .right_inverse()?
        .with_shape((threads.size(), values.size()))?;
    let mut equal = 0;
    for (n, m) in (0..4).flat_map(|n| (0..6).map(move |m| (n, m))) {
        let element = ((n % 2, m % 3), (n / 2, m / 3));
        let (a, b) = (threads.at(m)?, values.at(n)?);
        assert_eq!((c.at(element)? % 6, c.at(element)? / 6), (a, b));
        let index = (n % 2 + 2 * (m % 3)) + 6 * (n / 2 + 2 * (m / 3));
        assert_eq!(d.at((a, b))?, index);
        equal += i32::from(c.at(element)? == a);
    }
    assert_eq!(equal, 6); // `C = A` holds for the first value of each thread, and for no other
    // ANCHOR_END: proof
    Ok(())
}

/// Makes a tiled copy of the same layouts.
fn tiled_copy() -> Result<(), Box<dyn Error>> {
    println!("\n== tiled_copy ==");
    // ANCHOR: tiled_copy
    let atom = colex_atom::copy("UniversalCopy<uint32_t>")?; // one thread, one value of 32 bits
    let copy = TiledCopy::new(atom, 32, "(3,2):(2,1)", "(2,2):(1,2)")?;
    println!("{:#}", copy.tv());
    println!("{}", copy.tiler());
    // ANCHOR_END: tiled_copy
    Ok(())
}

/// Shows threads with a hole between them.
fn holes() -> Result<(), Box<dyn Error>> {
    println!("\n== holes ==");
    // ANCHOR: holes
    let (threads, values) = (layout!((4,2):(1,16)), layout!((4,1):(1,0)));
    let raked = threads.raked_product(&values)?;
    assert_eq!(raked, layout!(((4,4),(1,2)):((4,1),(0,16))));
    let tv = raked.right_inverse()?.with_shape((8, 4))?;
    assert_eq!(tv.at((4, 0))?, 1); // "thread 4" begins at element 1, within thread 0's block

    let atom = colex_atom::copy("UniversalCopy<uint32_t>")?;
    let refused = TiledCopy::new(atom, 32, &threads, &values).unwrap_err();
    println!("{refused}");
    // ANCHOR_END: holes
    Ok(())
}

/// Shows threads that share elements.
fn shared_elements() -> Result<(), Box<dyn Error>> {
    println!("\n== shared_elements ==");
    // ANCHOR: shared_elements
    let (threads, values) = (layout!((4,2):(1,0)), layout!((2,1):(1,0)));
    let inverse = threads.raked_product(&values)?.right_inverse()?;
    assert_eq!(inverse, layout!((4,2):(2,1))); // 8 of the 16 elements
    let tv = inverse.with_shape((8, 2))?;
    assert!(!tv.is_injective()?);

    let atom = colex_atom::copy("UniversalCopy<uint32_t>")?;
    println!(
        "{}",
        TiledCopy::new(atom.clone(), 32, &threads, &values).unwrap_err()
    );
    // The same for values: 0, 1, 4 and 5 of each thread, but which are its 2 and its 3?
    println!(
        "{}",
        TiledCopy::new(atom, 32, &layout!((4,1):(1,0)), &layout!((2,2):(1,4))).unwrap_err()
    );
    // ANCHOR_END: shared_elements
    Ok(())
}

/// Makes a copy of a thread-value layout with holes.
fn from_tv() -> Result<(), Box<dyn Error>> {
    println!("\n== from_tv ==");
    // ANCHOR: from_tv
    let atom = colex_atom::copy("UniversalCopy<uint32_t>")?;
    let copy = TiledCopy::from_tv(atom, 32, "(4,2):(4,1)", "(16)")?;
    let line: Layout = "(16):(1)".parse()?;
    println!("{}", copy.report(&line, &line)?);
    // ANCHOR_END: from_tv
    Ok(())
}
