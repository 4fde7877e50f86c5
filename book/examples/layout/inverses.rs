//! Inverses and complements of layouts.
//!
//! Run it with `cargo run -p colex-book --example layout_inverses`; each line `== .. ==` names a piece of the chapter.

use colex_layout::{Error, Layout, layout};

fn main() -> Result<(), Error> {
    complement()?;
    right_inverse()?;
    own_inverse()?;
    left_inverse()?;
    common_vector()?;
    holes()?;
    refusals();
    no_layout()?;
    Ok(())
}

/// Derives a complement, step by step.
fn complement() -> Result<(), Error> {
    println!("\n== complement ==");
    // ANCHOR: complement
    let a = layout!((2,2):(1,6));
    assert_eq!(a.complement(24)?, layout!((3,2):(2,12)));
    println!("{}", a.explain_complement(24));
    // ANCHOR_END: complement
    Ok(())
}

/// Inverts a row-major layout.
fn right_inverse() -> Result<(), Error> {
    // ANCHOR: right_inverse
    let a = layout!((2,4):(4,1));
    let r = a.right_inverse()?;
    assert_eq!(r, layout!((4,2):(2,1)));
    for i in 0..r.size() {
        assert_eq!(a.at(r.at(i)?)?, i);
    }
    // ANCHOR_END: right_inverse
    Ok(())
}

/// Inverts a layout that is its own inverse, and one with gaps.
fn own_inverse() -> Result<(), Error> {
    // ANCHOR: own_inverse
    let a = layout!((4,4):(4,1));
    let b = a.right_inverse()?;
    assert_eq!(b, a);
    assert!((0..b.size()).all(|x| b.at(x).and_then(|i| a.at(i)) == Ok(x)));

    let padded = layout!((4,4):(5,1)); // offsets 4, 9, 14 are skipped
    let b = padded.right_inverse()?;
    assert_eq!(b, layout!(4:4)); // only offsets 0 to 3 can be reached one after the other
    // ANCHOR_END: own_inverse
    Ok(())
}

/// Inverts layouts from the left.
fn left_inverse() -> Result<(), Error> {
    // ANCHOR: left_inverse
    let every_second = layout!(4:2);
    assert_eq!(every_second.right_inverse()?, layout!(1:0)); // it does not even reach 1
    let l = every_second.left_inverse()?;
    assert_eq!(l, layout!((2,4):(0,1)));
    assert!((0..4).all(|i| every_second.at(i).and_then(|x| l.at(x)) == Ok(i)));

    assert_eq!(l.at(1)?, 0); // an offset that is not reached has a value too

    let padded = layout!((4,8):(9,1)); // rows of 8, 9 apart
    let l = padded.left_inverse()?;
    assert_eq!(l, layout!((9,4):(4,1)));
    assert!((0..32).all(|i| padded.at(i).and_then(|x| l.at(x)) == Ok(i)));
    // ANCHOR_END: left_inverse
    Ok(())
}

/// Finds how many elements two layouts hold in the same order.
fn common_vector() -> Result<(), Error> {
    // ANCHOR: common_vector
    let (source, destination) = (layout!((8,4):(1,8)), layout!((8,4):(1,16)));
    let in_memory_order = destination.composition(&source.right_inverse()?)?;
    assert_eq!(in_memory_order.coalesce(..), layout!((8,4):(1,16))); // 8 in a row
    assert_eq!(source.max_common_vector(&destination)?, 8);

    let transposed = layout!((8,4):(4,1));
    assert_eq!(source.max_common_vector(&transposed)?, 1);
    // ANCHOR_END: common_vector
    Ok(())
}

/// Lists the offsets that a layout and its complement leave out.
fn holes() -> Result<(), Error> {
    println!("\n== holes ==");
    // ANCHOR: holes
    let a = layout!((4,3):(1,10));
    let c = a.complement(30)?;
    assert_eq!(c, layout!(2:4));
    let mut reached: Vec<i64> = Layout::concat([&a, &c])?.table()?;
    reached.sort();
    let holes: Vec<i64> = (0..30).filter(|x| !reached.contains(x)).collect();
    println!("{holes:?}");
    // ANCHOR_END: holes
    Ok(())
}

/// Shows which layouts have no complement.
fn refusals() {
    println!("\n== refusals ==");
    // ANCHOR: refusals
    let message = |text: &str, target: i64| {
        let layout: Layout = text.parse().expect("a layout");
        layout.complement(target).unwrap_err().to_string()
    };
    println!("{}", message("(2,2):(1,1)", 8));
    println!("{}", message("(2,2):(2,3)", 8));
    println!("{}", message("4:-1", 8));
    // ANCHOR_END: refusals
}

/// Shows a layout whose inverse function is no layout.
fn no_layout() -> Result<(), Error> {
    println!("\n== no_layout ==");
    // ANCHOR: no_layout
    let a = layout!((8,4,2):(13,2,1));
    assert!(a.is_injective()?); // so an inverse function exists, but no layout is it
    assert_eq!((a.at(33)?, a.at(9)?), (14, 15));
    println!("{}", a.left_inverse().unwrap_err());
    assert_eq!(a.right_inverse()?, layout!((2,4):(32,8)));
    // ANCHOR_END: no_layout
    Ok(())
}
