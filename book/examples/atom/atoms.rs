//! Atoms: a matrix instruction as layouts of threads and values.
//!
//! Run it with `cargo run -p colex-book --example atom_atoms`; each line `== .. ==` names a piece of the chapter.

use colex_atom::{Arch, Ty, mma, mma_atoms};
use colex_layout::Layout;
use std::error::Error;

fn main() -> Result<(), Box<dyn Error>> {
    by_hand()?;
    reading()?;
    letters()?;
    registers()?;
    threads()?;
    shared_operands()?;
    every_element()?;
    unknown()?;
    bijective()?;
    Ok(())
}

/// Compares the accumulator's layout with the PTX manual's formula.
fn by_hand() -> Result<(), Box<dyn Error>> {
    println!("\n== by_hand ==");
    // ANCHOR: by_hand
    let atom = colex_atom::mma("SM80_16x8x8_F32F16F16F32_TN")?;
    let c = &atom.traits().c;
    println!("{c}");

    for thread in 0..32 {
        for value in 0..4 {
            let (group, in_group) = (thread / 4, thread % 4);
            let row = group + 8 * (value / 2);
            let column = 2 * in_group + value % 2;
            assert_eq!(c.at(thread + 32 * value)?, row + 16 * column);
        }
    }
    // ANCHOR_END: by_hand
    Ok(())
}

/// Reads what an atom says of itself.
fn reading() -> Result<(), Box<dyn Error>> {
    println!("\n== reading ==");
    // ANCHOR: reading
    let atom = mma("SM80_16x8x8_F32F16F16F32_TN")?;

    let op = atom.op()?;
    println!("{}", op.ptx);
    println!("{:?}", [op.d, op.a, op.b, op.c].map(|r| r.to_string()));

    let traits = atom.traits();
    println!("{:?}", traits.mnk);
    assert_eq!(
        [traits.ty_a, traits.ty_b, traits.ty_c],
        [Ty::F16, Ty::F16, Ty::F32]
    );
    println!("{:#}", traits.a); // (m, k)
    println!("{:#}", traits.b); // (n, k)

    assert_eq!((atom.threads(), atom.since()), (32, Arch::Sm75));
    // ANCHOR_END: reading
    Ok(())
}

/// Compares CuTe's letters T and N with the words of PTX.
fn letters() -> Result<(), Box<dyn Error>> {
    // ANCHOR: letters
    for (letters, words) in [
        ("TN", "row.col"),
        ("NT", "col.row"),
        ("NN", "col.col"),
        ("TT", "row.row"),
    ] {
        let atom = colex_atom::mma(&format!("SM70_8x8x4_F16F16F16F16_{letters}"))?;
        assert_eq!(
            atom.op()?.ptx,
            format!("mma.sync.aligned.m8n8k4.{words}.f16.f16.f16.f16")
        );
    }
    // ANCHOR_END: letters
    Ok(())
}

/// Compares the registers of Volta's instruction and lists Turing's.
fn registers() -> Result<(), Box<dyn Error>> {
    println!("\n== registers ==");
    // ANCHOR: registers
    let op = mma("SM70_8x8x4_F16F16F16F16_TN")?.op()?.clone();
    println!("{:?}", [op.d, op.a, op.b, op.c].map(|r| r.to_string()));
    println!("{}", op.ptx);

    let turing: Vec<String> = mma_atoms()
        .map(|atom| atom.name())
        .filter(|name| name.starts_with("SM75"))
        .collect();
    println!("{turing:?}");
    // ANCHOR_END: registers
    Ok(())
}

/// Compares the threads of three generations.
fn threads() -> Result<(), Box<dyn Error>> {
    println!("\n== threads ==");
    // ANCHOR: threads
    let thread =
        |name: &str| -> Result<_, colex_atom::Error> { Ok(mma(name)?.traits().thread.clone()) };
    println!("{:#}", thread("SM80_16x8x16_F32F16F16F32_TN")?);
    println!("{:#}", thread("SM90_64x128x16_F32F16F16_SS")?);

    let volta = thread("SM70_8x8x4_F32F16F16F32_TN")?;
    assert_eq!(volta.size(), 8);
    assert_eq!(volta.at(4)?, 16); // the fifth thread is lane 16
    // ANCHOR_END: threads
    Ok(())
}

/// Asks which operands a Hopper instruction reads from shared memory.
fn shared_operands() -> Result<(), Box<dyn Error>> {
    println!("\n== shared_operands ==");
    // ANCHOR: shared_operands
    let ss = mma("SM90_64x128x16_F32F16F16_SS")?;
    assert!(ss.a_in_shared() && ss.b_in_shared());
    let rs = mma("SM90_64x128x16_F32F16F16_RS")?;
    assert!(!rs.a_in_shared() && rs.b_in_shared());

    // A descriptor for each operand in shared memory; 64 floats of the result in each thread.
    println!("{:?}", [ss.op()?.a, ss.op()?.b].map(|r| r.to_string()));
    println!("{}", rs.op()?.a);
    println!("{}", rs.op()?.d);
    // ANCHOR_END: shared_operands
    Ok(())
}

/// Checks that every element of every operand is held once.
fn every_element() -> Result<(), Box<dyn Error>> {
    // ANCHOR: every_element
    let mut operands = 0;
    for atom in
        mma_atoms().filter(|atom| atom.is_executable() && !atom.b_in_shared() && atom.threads() > 1)
    {
        let ([m, n, k], traits) = (atom.mnk(), atom.traits());
        for (layout, elements) in [(&traits.a, m * k), (&traits.b, n * k), (&traits.c, m * n)] {
            let mut held = layout.table()?;
            held.sort();
            assert_eq!(held, (0..elements).collect::<Vec<i64>>(), "{}", atom.name());
            operands += 1;
        }
    }
    assert_eq!(operands, 3 * 90);
    // ANCHOR_END: every_element
    Ok(())
}

/// Shows what the library says of names that it does not know.
fn unknown() -> Result<(), Box<dyn Error>> {
    println!("\n== unknown ==");
    // ANCHOR: unknown
    println!("{}", mma("SM80_16x8x16_F32F16F16F32").unwrap_err());
    println!("{}", mma("SM100_2x1x1_F32F32F32F32")?.op().unwrap_err());
    // ANCHOR_END: unknown
    Ok(())
}

/// Shows a layout with one wrong stride.
fn bijective() -> Result<(), Box<dyn Error>> {
    // ANCHOR: bijective
    let right: Layout = "((4,8),(2,2)):((32,1),(16,8))".parse()?;
    let wrong: Layout = "((4,8),(2,2)):((16,1),(16,8))".parse()?; // one stride of 32 became 16
    assert!(right.is_bijective());
    assert!(!wrong.is_bijective());
    assert_eq!(wrong.at(1)?, wrong.at(32)?); // thread 1, value 0 and thread 0, value 1
    // ANCHOR_END: bijective
    Ok(())
}
