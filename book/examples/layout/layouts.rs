//! Layouts: a shape and a stride, and the ways to make one.
//!
//! Run it with `cargo run -p colex-book --example layout_layouts`; each line `== .. ==` names a piece of the chapter.

// Inner products stand in full, as in the text.
#![allow(clippy::identity_op)]

use colex_layout::{C, Error, Layout, layout};

fn main() -> Result<(), Error> {
    from_text()?;
    from_numbers()?;
    same_shape()?;
    inner_product()?;
    row_by_row()?;
    vector()?;
    tiles()?;
    from_a_shape()?;
    from_a_stride()?;
    ordered()?;
    printing()?;
    cosize()?;
    refusals();
    Ok(())
}

/// Makes a layout at compile time and from a text.
fn from_text() -> Result<(), Error> {
    println!("\n== from_text ==");
    // ANCHOR: from_text
    let rows = layout!((4,2):(2,1));
    println!("{rows}");
    assert_eq!("(4,2):(2,1)".parse::<Layout>()?, rows);
    // ANCHOR_END: from_text
    Ok(())
}

/// Makes layouts from numbers and visits every coordinate.
fn from_numbers() -> Result<(), Error> {
    println!("\n== from_numbers ==");
    // ANCHOR: from_numbers
    let (rows, columns, pitch) = (2, 3, 4);
    let padded = Layout::new((rows, columns), (pitch, C::<1>))?;
    println!("{padded}");
    assert_eq!(padded, Layout::new("(2,3)", "(4,_1)")?);

    let mut visited = Vec::new();
    for (coord, offset) in &padded {
        visited.push(format!("{coord} at {}", offset?));
    }
    println!("{visited:?}");

    let tiled = Layout::new(((2, 2), (2, 4)), ((1, 4), (2, 8)))?;
    println!("{tiled}");
    assert_eq!(tiled.at(((1, 1), (1, 2)))?, tiled.at("((1,1),(1,2))")?);
    // ANCHOR_END: from_numbers
    Ok(())
}

/// Compares two layouts of one shape (S28).
fn same_shape() -> Result<(), Error> {
    println!("\n== same_shape ==");
    // ANCHOR: same_shape
    let (column_major, row_major) = (layout!((4,2):(1,4)), layout!((4,2):(2,1)));
    println!("{:?}", column_major.table()?);
    println!("{:?}", row_major.table()?);
    // ANCHOR_END: same_shape
    Ok(())
}

/// Computes every offset of a matrix as an inner product (S29).
fn inner_product() -> Result<(), Error> {
    // ANCHOR: inner_product
    let layout = layout!((3,4):(1,3));
    for i in 0..3 {
        for j in 0..4 {
            assert_eq!(layout.at((i, j))?, i * 1 + j * 3);
        }
    }
    // ANCHOR_END: inner_product
    Ok(())
}

/// Checks a matrix row by row (S15).
fn row_by_row() -> Result<(), Error> {
    // ANCHOR: row_by_row
    let matrix = layout!((4,2):(1,4));
    let rows = [[0, 4], [1, 5], [2, 6], [3, 7]];
    for (i, row) in (0..).zip(rows) {
        for (j, offset) in (0..).zip(row) {
            assert_eq!(matrix.at((i, j))?, offset);
        }
    }
    // ANCHOR_END: row_by_row
    Ok(())
}

/// Compares a vector of one nested mode with a matrix (S14).
fn vector() -> Result<(), Error> {
    println!("\n== vector ==");
    // ANCHOR: vector
    let vector = layout!(((4,2)):((2,1)));
    let matrix = layout!((4,2):(2,1));
    assert_eq!((vector.rank(), matrix.rank()), (1, 2));
    println!("{:?}", vector.table()?);
    assert_eq!(matrix.table()?, vector.table()?);
    // ANCHOR_END: vector
    Ok(())
}

/// Checks a layout of tiles (S30).
fn tiles() -> Result<(), Error> {
    // ANCHOR: tiles
    let tiled = layout!(((2,2),(2,4)):((1,4),(2,8)));
    let rows = [
        [0, 2, 8, 10, 16, 18, 24, 26],
        [1, 3, 9, 11, 17, 19, 25, 27],
        [4, 6, 12, 14, 20, 22, 28, 30],
        [5, 7, 13, 15, 21, 23, 29, 31],
    ];
    for (i, row) in (0..).zip(rows) {
        for (j, offset) in (0..).zip(row) {
            assert_eq!(tiled.at((i, j))?, offset);
        }
    }
    // ANCHOR_END: tiles
    Ok(())
}

/// Makes compact layouts from a shape alone (S5 to S8, S10, S11).
fn from_a_shape() -> Result<(), Error> {
    println!("\n== from_a_shape ==");
    // ANCHOR: from_a_shape
    fn column_major(shape: &str) -> Result<String, colex_layout::Error> {
        Ok(Layout::column_major(shape)?.to_string())
    }
    fn row_major(shape: &str) -> Result<String, colex_layout::Error> {
        Ok(Layout::row_major(shape)?.to_string())
    }

    println!("{}", column_major("_8")?); // make_layout(Int<8>{})
    println!("{}", column_major("8")?); // make_layout(8): the stride is static all the same
    println!("{}", column_major("(_2,_4)")?); // static extents, static strides
    println!("{}", column_major("(_2,4)")?); // no stride needs the dynamic 4
    println!("{}", row_major("(_2,4)")?); // the first stride is the dynamic 4
    // ANCHOR_END: from_a_shape
    Ok(())
}

/// Makes layouts from a shape and a stride (S9, S12, S13).
fn from_a_stride() -> Result<(), Error> {
    println!("\n== from_a_stride ==");
    // ANCHOR: from_a_stride
    let padded = Layout::new((C::<2>, 4), (C::<12>, C::<1>))?;
    println!("{padded}");
    println!("{:?}", padded.table()?);

    let nested = layout!((2,(2,2)):(4,(2,1)));
    println!("{:?}", nested.table()?);

    let columns = Layout::column_major(nested.shape())?;
    println!("{columns}");
    // ANCHOR_END: from_a_stride
    Ok(())
}

/// Makes layouts in a given order, and in the order of another layout.
fn ordered() -> Result<(), Error> {
    // ANCHOR: ordered
    // Mode 1 has the number 0 and comes first, then mode 2, then mode 0.
    let ordered = Layout::ordered((4, 2, 8), (2, 0, 1))?;
    assert_eq!(ordered, layout!((4,2,8):(16,1,2)));

    let with_gaps = layout!((4,8):(100,2));
    assert_eq!(with_gaps.layout_like()?, layout!((4,8):(8,1)));
    // ANCHOR_END: ordered
    Ok(())
}

/// Prints a matrix row by row and a vector in one line (S16).
fn printing() -> Result<(), Error> {
    println!("\n== printing ==");
    // ANCHOR: printing
    let matrix = layout!((4,2):(1,4));
    // Mode 0 counts the rows, and mode 1 the columns.
    for m in 0..matrix.get(&[0])?.size() {
        for n in 0..matrix.get(&[1])?.size() {
            print!("{:3} ", matrix.at((m, n))?);
        }
        println!();
    }
    println!();

    let vector = layout!(((4,2)):((2,1)));
    for offset in vector.offsets()? {
        print!("{offset:3} ");
    }
    println!();
    // ANCHOR_END: printing
    Ok(())
}

/// Computes size and cosize, with a negative stride too (S3).
fn cosize() -> Result<(), Error> {
    println!("\n== cosize ==");
    // ANCHOR: cosize
    let rows = layout!((4,3):(1,10));
    assert_eq!(rows.size(), 12);
    assert_eq!(rows.cosize()?, rows.at(rows.size() - 1)? + 1);
    assert_eq!(rows.cosize()?, 24);

    let backwards = layout!(4:-1);
    println!("{:?}", backwards.table()?);
    assert_eq!(backwards.at(backwards.size() - 1)? + 1, -2); // the formula
    assert_eq!(backwards.cosize()?, 4); // CuTe's, and ours
    // ANCHOR_END: cosize
    Ok(())
}

/// Shows what the library says of texts that are no layouts.
fn refusals() {
    println!("\n== refusals ==");
    // ANCHOR: refusals
    let message = |text: &str| text.parse::<Layout>().unwrap_err().to_string();
    println!("{}", message("(2,(2,2)):(4,2)"));
    println!("{}", message("(2,0):(1,1)"));
    println!("{}", message("(2,4):(1,2"));
    // ANCHOR_END: refusals
}
