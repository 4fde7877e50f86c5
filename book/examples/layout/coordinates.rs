//! Coordinates: every way to name an element of a layout, and which shapes are compatible.
//!
//! Run it with `cargo run -p colex-book --example layout_coordinates`; each line `== .. ==` names a piece of the chapter.

// Inner products stand in full, as in the text.
#![allow(clippy::identity_op)]

use colex_layout::{Error, IntTuple, Unbounded, layout};

fn main() -> Result<(), Error> {
    counting()?;
    both_halves()?;
    in_order()?;
    and_back()?;
    compatible()?;
    partial_order()?;
    bounds()?;
    Ok(())
}

/// The coordinates of the shape (3,(2,3)) in index order: flat, and natural.
const TABLE: [(&str, &str); 18] = [
    ("(0,0)", "(0,(0,0))"),
    ("(1,0)", "(1,(0,0))"),
    ("(2,0)", "(2,(0,0))"),
    ("(0,1)", "(0,(1,0))"),
    ("(1,1)", "(1,(1,0))"),
    ("(2,1)", "(2,(1,0))"),
    ("(0,2)", "(0,(0,1))"),
    ("(1,2)", "(1,(0,1))"),
    ("(2,2)", "(2,(0,1))"),
    ("(0,3)", "(0,(1,1))"),
    ("(1,3)", "(1,(1,1))"),
    ("(2,3)", "(2,(1,1))"),
    ("(0,4)", "(0,(0,2))"),
    ("(1,4)", "(1,(0,2))"),
    ("(2,4)", "(2,(0,2))"),
    ("(0,5)", "(0,(1,2))"),
    ("(1,5)", "(1,(1,2))"),
    ("(2,5)", "(2,(1,2))"),
];

/// Checks all 18 indices of a shape against their coordinates (S20).
fn counting() -> Result<(), Error> {
    println!("\n== counting ==");
    // ANCHOR: counting
    assert_eq!("(3,(2,2))".parse::<IntTuple>()?.product()?.value(), 12); // a smaller shape

    let shape: IntTuple = "(3,(2,3))".parse()?;
    assert_eq!(shape.product()?.value(), TABLE.len() as i64);
    for (index, (flat, natural)) in (0..).zip(TABLE) {
        assert_eq!(shape.flat_coord(index)?, flat.parse()?);
        assert_eq!(shape.coord(index)?, natural.parse()?);
        assert_eq!(shape.index(flat.parse::<IntTuple>()?)?, index);
        assert_eq!(shape.index(natural.parse::<IntTuple>()?)?, index);
    }
    println!("16 is {} and {}", shape.flat_coord(16)?, shape.coord(16)?);
    // ANCHOR_END: counting
    Ok(())
}

/// Goes from an index to a coordinate, and from a coordinate to an offset (S21).
fn both_halves() -> Result<(), Error> {
    // ANCHOR: both_halves
    let layout = layout!((3,(2,3)):(2,(1,6)));
    let natural = layout.shape().coord(16)?; // idx2crd
    assert_eq!(natural, (1, (1, 2)).into());

    let offset = 1 * 2 + (1 * 1 + 2 * 6); // crd2idx: the inner product with (2,(1,6))
    assert_eq!(layout.at(natural)?, offset);
    assert_eq!(layout.at((1, 5))?, offset);
    assert_eq!(layout.at(16)?, offset); // `at` takes an index
    // ANCHOR_END: both_halves
    Ok(())
}

/// Lists all coordinates and all offsets in order.
fn in_order() -> Result<(), Error> {
    println!("\n== in_order ==");
    // ANCHOR: in_order
    let shape: IntTuple = "(2,(1,2))".parse()?;
    let all: Vec<String> = shape.coords()?.map(|coord| coord.to_string()).collect();
    println!("{all:?}");

    let rows = layout!((2,3):(3,1));
    println!("{:?}", rows.offsets()?.collect::<Vec<_>>());
    // ANCHOR_END: in_order
    Ok(())
}

/// Finds the coordinate that has an offset.
fn and_back() -> Result<(), Error> {
    println!("\n== and_back ==");
    // ANCHOR: and_back
    let layout = layout!((3,(2,3)):(2,(1,6)));
    assert_eq!(layout.coord_of(15)?, (1, (1, 2)).into());
    assert_eq!(layout.index_of(15)?, 16);

    let padded = layout!((4,2):(1,8));
    println!("{}", padded.coord_of(5).unwrap_err());
    // ANCHOR_END: and_back
    Ok(())
}

/// Compares shapes (S17 to S19).
fn compatible() -> Result<(), Error> {
    // ANCHOR: compatible
    fn le(a: &str, b: &str) -> Result<bool, colex_layout::Error> {
        Ok(a.parse::<IntTuple>()?.is_compatible(&b.parse()?))
    }
    assert!(le("(4,6)", "((2,2),6)")? && !le("((2,2),6)", "(4,6)")?); // S17
    assert!(!le("((2,3),4)", "((2,2),(3,2))")? && !le("((2,2),(3,2))", "((2,3),4)")?); // S18
    assert!(!le("(24)", "24")? && le("24", "(24)")?); // S19
    // ANCHOR_END: compatible
    Ok(())
}

/// Checks that compatibility is a partial order.
fn partial_order() -> Result<(), Error> {
    // ANCHOR: partial_order
    let mut shapes: Vec<IntTuple> = Vec::new();
    for text in [
        "24",
        "(24)",
        "(4,6)",
        "((2,2),6)",
        "(4,(2,3))",
        "((2,2),(2,3))",
        "((2,3),4)",
    ] {
        shapes.push(text.parse()?);
    }
    for s in &shapes {
        assert!(s.is_compatible(s));
        assert!(shapes[0].is_compatible(s));
        for t in &shapes {
            assert!(!(s.is_compatible(t) && t.is_compatible(s)) || s == t);
            for u in &shapes {
                assert!(!(s.is_compatible(t) && t.is_compatible(u)) || s.is_compatible(u));
            }
        }
    }
    // ANCHOR_END: partial_order
    Ok(())
}

/// Shows how coordinates are checked, and the twin that does not check.
fn bounds() -> Result<(), Error> {
    println!("\n== bounds ==");
    // ANCHOR: bounds
    let matrix = layout!((4,4):(1,4));
    println!("{}", matrix.at((9, 9)).unwrap_err());
    assert_eq!(matrix.at(Unbounded((9, 9)))?, 9 * 1 + 9 * 4);

    let shape: IntTuple = "(3,(2,3))".parse()?;
    println!("{}", shape.index((1, 2, 0)).unwrap_err());
    // ANCHOR_END: bounds
    Ok(())
}
