//! Volta: the quad-pair and its layouts, read off the pictures of the PTX manual.
//!
//! Run it with `cargo run -p colex-book --example atom_volta`; each line `== .. ==` names a piece of the chapter.

use colex_layout::Layout;
use std::error::Error;

fn main() -> Result<(), Box<dyn Error>> {
    quad_pair()?;
    accumulator()?;
    half_accumulator()?;
    by_rows()?;
    by_columns()?;
    contiguous()?;
    four_pairs()?;
    misread();
    another_misreading()?;
    Ok(())
}

/// Reads which lanes make up a quad-pair, and the four of a warp.
fn quad_pair() -> Result<(), Box<dyn Error>> {
    println!("\n== quad_pair ==");
    // ANCHOR: quad_pair
    let quad_pair = colex_atom::mma("SM70_8x8x4_F32F16F16F32_NT")?
        .traits()
        .thread
        .clone();
    println!("{quad_pair:#}");
    println!("{:?}", quad_pair.table()?);

    assert_eq!(quad_pair.complement(32)?, "4:4".parse()?);
    let warp = quad_pair.logical_product("4:1")?;
    println!("{warp:#}");
    println!("{:?}", &warp.table()?[8..16]); // the second quad-pair
    assert!(warp.is_bijective());
    // ANCHOR_END: quad_pair
    Ok(())
}

/// Infers the layout of the accumulator from its picture.
fn accumulator() -> Result<(), Box<dyn Error>> {
    println!("\n== accumulator ==");
    // ANCHOR: accumulator
    let values = [
        (0, 0),
        (0, 1),
        (2, 0),
        (2, 1),
        (0, 4),
        (0, 5),
        (2, 4),
        (2, 5),
    ];
    let threads = [
        (0, 0),
        (1, 0),
        (0, 2),
        (1, 2),
        (4, 0),
        (5, 0),
        (4, 2),
        (5, 2),
    ];
    let at = |(m, n): (i64, i64)| m + 8 * n;
    println!("{}", Layout::infer(&values.map(at))?);
    println!("{}", Layout::infer(&threads.map(at))?);

    // The figure, cell by cell, as the PTX manual gives it in words: a row and a column for each
    // thread and value.
    let figure = |thread: i64, value: i64| {
        let row = (thread & 1) + (value & 2) + (thread & 4);
        let column = (value & 4) + (thread & 2) + (value & 1);
        at((row, column))
    };
    let c = Layout::infer_modes((8, 8), |i| figure(i % 8, i / 8))?;
    println!("{c}");

    let atom = colex_atom::mma("SM70_8x8x4_F32F16F16F32_NT")?;
    assert_eq!(format!("{:#}", atom.traits().c), c.to_string());
    // ANCHOR_END: accumulator
    Ok(())
}

/// Infers the layout of an accumulator of halves.
fn half_accumulator() -> Result<(), Box<dyn Error>> {
    println!("\n== half_accumulator ==");
    // ANCHOR: half_accumulator
    let c = colex_atom::mma("SM70_8x8x4_F16F16F16F16_NT")?
        .traits()
        .c
        .clone();
    println!("{c:#}");
    let figure = |thread: i64, value: i64| thread + 8 * value; // row: thread, column: value
    let found = Layout::infer_modes((8, 8), |i| figure(i % 8, i / 8))?;
    println!("{found}");
    // ANCHOR_END: half_accumulator
    Ok(())
}

/// Infers operands whose k is contiguous.
fn by_rows() -> Result<(), Box<dyn Error>> {
    // ANCHOR: by_rows
    let tn = colex_atom::mma("SM70_8x8x4_F32F16F16F32_TN")?;
    let by_rows = Layout::infer_modes((8, 4), |i| {
        let (thread, value) = (i % 8, i / 8);
        thread + 8 * value // m = thread, k = value
    })?;
    for operand in [&tn.traits().a, &tn.traits().b] {
        assert_eq!(format!("{operand:#}"), "(8,4):(1,8)");
        assert_eq!(operand.table()?, by_rows.table()?);
        assert_eq!((operand.at(1)?, operand.at(8)?), (1, 8)); // (T1,V0) and (T0,V1)
    }
    // ANCHOR_END: by_rows
    Ok(())
}

/// Infers operands whose rows are contiguous.
fn by_columns() -> Result<(), Box<dyn Error>> {
    println!("\n== by_columns ==");
    // ANCHOR: by_columns
    let nt = colex_atom::mma("SM70_8x8x4_F32F16F16F32_NT")?;
    let by_columns = Layout::infer_modes((8, 4), |i| {
        let (thread, value) = (i % 8, i / 8);
        let (m, k) = (4 * (thread / 4) + value, thread % 4);
        m + 8 * k
    })?;
    println!("{by_columns}");
    assert_eq!(by_columns.at(4)?, 4); // (T4,V0), which is lane 16
    for operand in [&nt.traits().a, &nt.traits().b] {
        assert_eq!(format!("{operand:#}"), "((4,2),4):((8,4),1)");
    }
    // ANCHOR_END: by_columns
    Ok(())
}

/// Checks that four values of a thread are contiguous in memory.
fn contiguous() -> Result<(), Box<dyn Error>> {
    // ANCHOR: contiguous
    let k_contiguous: Layout = "(8,4):(4,1)".parse()?; // of A, or of B as (n, k)
    let k_strided: Layout = "(8,4):(1,8)".parse()?; // m or n contiguous
    for letters in ["TN", "NT", "NN", "TT"] {
        let atom = colex_atom::mma(&format!("SM70_8x8x4_F32F16F16F32_{letters}"))?;
        // For A, the letter T says that k is contiguous; for B, the letter N says so.
        let memory_of_a = if letters.starts_with('T') {
            &k_contiguous
        } else {
            &k_strided
        };
        let memory_of_b = if letters.ends_with('N') {
            &k_contiguous
        } else {
            &k_strided
        };
        for (memory, operand) in [
            (memory_of_a, &atom.traits().a),
            (memory_of_b, &atom.traits().b),
        ] {
            let addresses = memory.composition(operand)?;
            assert_eq!(
                addresses.get(&[1])?.coalesce(..),
                "4:1".parse()?,
                "{letters}"
            );
        }
    }
    // ANCHOR_END: contiguous
    Ok(())
}

/// Lists the operands for all four pairs of letters.
fn four_pairs() -> Result<(), Box<dyn Error>> {
    // ANCHOR: four_pairs
    let operands = |letters: &str| -> Result<[String; 2], colex_atom::Error> {
        let atom = colex_atom::mma(&format!("SM70_8x8x4_F32F16F16F32_{letters}"))?;
        Ok([&atom.traits().a, &atom.traits().b].map(|layout| format!("{layout:#}")))
    };
    let (along_k, across_k) = ("(8,4):(1,8)", "((4,2),4):((8,4),1)");
    assert_eq!(operands("TN")?, [along_k, along_k]);
    assert_eq!(operands("NT")?, [across_k, across_k]);
    assert_eq!(operands("NN")?, [across_k, along_k]);
    assert_eq!(operands("TT")?, [along_k, across_k]);
    // ANCHOR_END: four_pairs
    Ok(())
}

/// Shows a picture that is no layout.
fn misread() {
    println!("\n== misread ==");
    // ANCHOR: misread
    let threads = [
        (0, 0),
        (1, 0),
        (0, 2),
        (1, 3),
        (4, 0),
        (5, 0),
        (4, 2),
        (5, 2),
    ];
    println!(
        "{}",
        Layout::infer(&threads.map(|(m, n)| m + 8 * n)).unwrap_err()
    );
    // ANCHOR_END: misread
}

/// Shows a wrong picture that is a layout, but not a bijective one.
fn another_misreading() -> Result<(), Box<dyn Error>> {
    println!("\n== another_misreading ==");
    // ANCHOR: another_misreading
    let misread = [0, 1, 8, 9, 4, 5, 12, 13]; // (0,0) -> (0,1) as the second step
    println!("{}", Layout::infer(&misread)?);

    let c: Layout = "((2,2,2),(2,2,2)):((1,8,4),(8,2,32))".parse()?;
    assert!(!c.is_bijective());
    assert_eq!(c.at(2)?, c.at(8)?); // thread 2's value 0 is thread 0's value 1
    // ANCHOR_END: another_misreading
    Ok(())
}
