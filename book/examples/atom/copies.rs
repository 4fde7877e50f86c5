//! Copies: ldmatrix, movmatrix and cp.async as layouts.
//!
//! Run it with `cargo run -p colex-book --example atom_copies`; each line `== .. ==` names a piece of the chapter.

use colex_atom::{Route, copy, mma};
use std::error::Error;

fn main() -> Result<(), Box<dyn Error>> {
    ldmatrix()?;
    transposed()?;
    executed()?;
    movmatrix()?;
    cp_async()?;
    Ok(())
}

/// Reads the layouts of `ldmatrix`, and follows the values of one thread.
fn ldmatrix() -> Result<(), Box<dyn Error>> {
    println!("\n== ldmatrix ==");
    // ANCHOR: ldmatrix
    let load = copy("SM75_U32x1_LDSM_N")?;
    println!("{}", load.op()?.ptx);
    println!("{:#}", load.traits().src);
    println!("{:#}", load.traits().dst);

    let halves = load.val_layouts(16)?;
    println!("{:#}", halves.src);
    println!("{:#}", halves.dst);
    assert_eq!(
        load.routes(16)?[5],
        Some(vec![
            Route {
                thread: 1,
                value: 2
            },
            Route {
                thread: 1,
                value: 3
            }
        ])
    );
    // ANCHOR_END: ldmatrix
    Ok(())
}

/// Compares `ldmatrix` with its transposed form.
fn transposed() -> Result<(), Box<dyn Error>> {
    println!("\n== transposed ==");
    // ANCHOR: transposed
    let (plain, transposed) = (copy("SM75_U32x1_LDSM_N")?, copy("SM75_U16x2_LDSM_T")?);
    assert_eq!(plain.traits().src, transposed.traits().src);
    println!("{:#}", transposed.traits().dst);

    assert!(plain.val_layouts(32).is_ok());
    println!("{}", transposed.val_layouts(32).unwrap_err());
    // ANCHOR_END: transposed
    Ok(())
}

/// Runs `ldmatrix` and compares what threads get with what the multiplication wants.
fn executed() -> Result<(), Box<dyn Error>> {
    // ANCHOR: executed
    // Each element of the tile in shared memory is its own coordinate, m + 16 k.
    let row_at =
        |t: i64| -> Vec<i64> { (0..8).map(|j| t % 16 + 16 * (8 * (t / 16) + j)).collect() };
    let given: Vec<Vec<i64>> = (0..32).map(row_at).collect();
    let got = copy("SM75_U32x4_LDSM_N")?.execute(16, &given)?;

    let a = mma("SM80_16x8x16_F32F16F16F32_TN")?.traits().a.clone();
    for (t, fragment) in got.into_iter().enumerate() {
        let wanted = (0..8)
            .map(|v| a.at(t as i64 + 32 * v))
            .collect::<Result<Vec<i64>, _>>()?;
        assert_eq!(fragment, Some(wanted)); // what the instruction wants of thread t, in its order
    }
    // ANCHOR_END: executed
    Ok(())
}

/// Reads and runs `movmatrix`, whose layout CuTe has wrong.
fn movmatrix() -> Result<(), Box<dyn Error>> {
    println!("\n== movmatrix ==");
    // ANCHOR: movmatrix
    let transpose = copy("SM75_U32x1_MOVM_T")?;
    println!("{}", transpose.op()?.ptx);
    println!("{:#}", transpose.traits().src);
    println!("{:#}", transpose.traits().dst);

    let defect = transpose.defect().expect("the row has one");
    println!("{}", defect.cute_dst);
    println!("{}", defect.why);

    // Before: thread t has two elements of row t / 4. After: two of column t / 4.
    let element = |row: usize, column: usize| (row, column);
    let pair = |t: usize| [2 * (t % 4), 2 * (t % 4) + 1];
    let rows: Vec<_> = (0..32)
        .map(|t| pair(t).map(|j| element(t / 4, j)).to_vec())
        .collect();
    for (t, columns) in transpose.execute(16, &rows)?.into_iter().enumerate() {
        assert_eq!(columns, Some(pair(t).map(|i| element(i, t / 4)).to_vec()));
    }
    // ANCHOR_END: movmatrix
    Ok(())
}

/// Reads the layouts of `cp.async`.
fn cp_async() -> Result<(), Box<dyn Error>> {
    println!("\n== cp_async ==");
    // ANCHOR: cp_async
    let atom = copy("SM80_CP_ASYNC_CACHEGLOBAL<uint128_t>")?;
    println!("{}", atom.op()?.ptx);
    println!("{:#}", atom.traits().src);
    assert_eq!(atom.traits().src, atom.traits().dst);

    println!(
        "{}",
        copy("SM80_CP_ASYNC_CACHEGLOBAL<uint32_t>")?
            .op()
            .unwrap_err()
    );
    let filling = copy("SM80_CP_ASYNC_CACHEALWAYS_ZFILL<uint32_t>")?;
    println!("{:?}", filling.zero_filled(&[1, 2, 3, 4], 2)?);
    // ANCHOR_END: cp_async
    Ok(())
}
