//! The table of atoms: executing, counting and searching them.
//!
//! Run it with `cargo run -p colex-book --example atom_table`; each line `== .. ==` names a piece of the chapter.

use colex_atom::{Error, Exactness, Operand, Value, copy_atoms, mma, mma_atoms, rows};

fn main() -> Result<(), Error> {
    executed()?;
    row()?;
    counted();
    copies_counted();
    exactness()?;
    sparse()?;
    refusals()?;
    too_dense()?;
    Ok(())
}

/// Multiplies one tile as the instruction does.
fn executed() -> Result<(), Error> {
    // ANCHOR: executed
    let atom = mma("SM80_8x8x4_F64F64F64F64_TN")?;
    let a: Vec<Value> = (0..32)
        .map(|i| Value::Real((i % 8 + i / 8) as f64))
        .collect(); // m + 8 k
    let b: Vec<Value> = (0..32)
        .map(|i| Value::Real((i % 8 * (i / 8)) as f64))
        .collect(); // n + 8 k
    let (a, b) = (
        atom.scatter_operand('A', &a)?,
        atom.scatter_operand('B', &b)?,
    );
    let c = atom.scatter(&[Value::Real(100.0); 64]);
    assert_eq!((a.len(), a[5].len(), c[5].len()), (32, 1, 2)); // lanes, values of a lane

    let d = atom.execute(Operand::Registers(&a), Operand::Registers(&b), &c, &[])?;
    assert_eq!(d[5].get(0), Value::Real(140.0));

    // The whole tile, m + 8 n.
    for (i, found) in atom.gather('C', &d)?.into_iter().enumerate() {
        let (m, n) = (i % 8, i / 8);
        let sum: usize = (0..4).map(|k| (m + k) * (n * k)).sum();
        assert_eq!(found, Value::Real(100.0 + sum as f64));
    }
    // ANCHOR_END: executed
    Ok(())
}

/// Reads one row of the table.
fn row() -> Result<(), Error> {
    println!("\n== row ==");
    // ANCHOR: row
    let row = mma("SM90_64x128x16_F32F16F16_SS")?.row();
    println!("{}", row.name);
    println!("{}", row.ptx);
    println!("{}", row.c_layout);
    println!("{}", row.b_layout);
    assert_eq!(row.n.len(), 32);
    // ANCHOR_END: row
    Ok(())
}

/// Counts the matrix instructions by generation.
fn counted() {
    // ANCHOR: counted
    assert_eq!(rows().count(), 85);
    let count = |is_in: &dyn Fn(&colex_atom::MmaAtom) -> bool| {
        mma_atoms().filter(|atom| is_in(atom)).count()
    };
    assert_eq!(
        (count(&|_| true), count(&|atom| atom.is_executable())),
        (2757, 2208)
    );

    for (prefix, atoms) in [
        ("UniversalFMA", 4),
        ("SM61", 2),
        ("SM70", 8),
        ("SM75", 3),
        ("SM80", 65),
        ("SM89", 8),
    ] {
        assert_eq!(
            count(&|atom| atom.name().starts_with(prefix)),
            atoms,
            "{prefix}"
        );
    }
    assert_eq!(
        count(&|atom| atom.name().starts_with("SM90") && atom.threads() == 32),
        6
    );
    assert_eq!(
        count(&|atom| atom.b_in_shared() && !atom.rule().is_sparse()),
        1056
    );
    assert_eq!(
        count(&|atom| atom.b_in_shared() && atom.rule().is_sparse()),
        1056
    );
    assert_eq!(count(&|atom| !atom.is_executable()), 549);
    // ANCHOR_END: counted
}

/// Counts the copies by family.
fn copies_counted() {
    // ANCHOR: copies_counted
    assert_eq!(copy_atoms().count(), 375);
    let names: Vec<String> = copy_atoms()
        .filter(|atom| atom.is_executable())
        .map(|atom| atom.name())
        .collect();
    assert_eq!(names.len(), 168);
    let families = [
        ("UniversalCopy", 5),
        ("Shuffle", 2),
        ("_LDSM_", 6),
        ("_STSM_", 6),
        ("_MOVM_", 1),
        ("_CP_ASYNC_", 8),
        ("_BULK_", 44),
        ("_TMA_", 96),
    ];
    for (word, atoms) in families {
        assert_eq!(
            names.iter().filter(|name| name.contains(word)).count(),
            atoms,
            "{word}"
        );
    }
    assert_eq!(families.iter().map(|(_, atoms)| atoms).sum::<usize>(), 168);
    // ANCHOR_END: copies_counted
}

/// Compares exact arithmetic with what an H200 computes.
fn exactness() -> Result<(), Error> {
    println!("\n== exactness ==");
    // ANCHOR: exactness
    let atom = mma("SM80_16x8x8_F32F16F16F32_TN")?;
    let (mut a, mut b) = (vec![Value::Real(0.0); 128], vec![Value::Real(0.0); 64]);
    // 1 and three quarters of a last place.
    (a[0], b[0]) = (
        Value::Real(3.0 * 2f64.powi(-12)),
        Value::Real(2f64.powi(-13)),
    );
    let c = [Value::Real(1.0); 128];
    assert_eq!(
        atom.multiply(&a, &b, &c)?[0],
        Value::Real(1.0 + 2f64.powi(-23))
    );
    assert_eq!(atom.multiply_on_hopper(&a, &b, &c)?[0], Value::Real(1.0));

    let magnitude = atom.magnitudes(&a, &b, &c)?[0]; // |c| + the sum of |a b|
    if let Exactness::Within { relative } = atom.exactness() {
        println!("{:.2e}", relative * magnitude);
    }
    assert_eq!(
        mma("SM80_16x8x32_S32S8S8S32_TN")?.exactness(),
        Exactness::Bits
    );
    // ANCHOR_END: exactness
    Ok(())
}

/// Packs a sparse operand and unpacks it again.
fn sparse() -> Result<(), Error> {
    // ANCHOR: sparse
    let atom = mma("SPARSE::GMMA_64x8x32_F32F16F16_SS")?;
    let mut a = vec![Value::Real(0.0); 64 * 32];
    for m in 0..64 {
        // k = 1 and 3 of the first four
        (a[m + 64], a[m + 64 * 3]) = (Value::Real(1.0), Value::Real(2.0));
    }
    let (kept, metadata) = atom.pack(&a)?;
    // Half the elements, and one register in each thread.
    assert_eq!((kept.len(), metadata.len()), (64 * 16, 128));
    assert_eq!((kept[0], kept[64]), (Value::Real(1.0), Value::Real(2.0)));
    assert_eq!(metadata[0] & 0xf, 0b11_01); // the places of row 0, first group: 3, then 1
    assert_eq!(atom.unpack(&kept, &metadata)?, a);
    // ANCHOR_END: sparse
    Ok(())
}

/// Shows what the library says of wrong operands.
fn refusals() -> Result<(), Error> {
    println!("\n== refusals ==");
    // ANCHOR: refusals
    let atom = mma("SM80_8x8x4_F64F64F64F64_TN")?;
    let tile = [Value::Real(0.0); 32];
    let (a, c) = (
        atom.scatter_operand('A', &tile)?,
        atom.scatter(&[Value::Real(0.0); 64]),
    );
    let in_registers = Operand::Registers(&a);

    println!(
        "{}",
        atom.execute(in_registers, Operand::Tile(&tile), &c, &[])
            .unwrap_err()
    );
    println!(
        "{}",
        atom.execute(in_registers, in_registers, &a, &[])
            .unwrap_err()
    );
    println!(
        "{}",
        mma("SM90_64x8x16_F32F16F16_SS")?
            .execute(in_registers, in_registers, &c, &[])
            .unwrap_err()
    );
    // ANCHOR_END: refusals
    Ok(())
}

/// Shows an operand that is not sparse.
fn too_dense() -> Result<(), Error> {
    println!("\n== too_dense ==");
    // ANCHOR: too_dense
    let dense = vec![Value::Real(1.0); 64 * 32];
    println!(
        "{}",
        mma("SPARSE::GMMA_64x8x32_F32F16F16_SS")?
            .pack(&dense)
            .unwrap_err()
    );
    // ANCHOR_END: too_dense
    Ok(())
}
