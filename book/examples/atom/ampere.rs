//! Ampere: one formula for the operands of 82 matrix atoms.
//!
//! Run it with `cargo run -p colex-book --example atom_ampere`; each line `== .. ==` names a piece of the chapter.

use colex_atom::{Arch, MmaSearch, Ty, mma, mma_atoms};
use colex_layout::Layout;
use std::error::Error;

fn main() -> Result<(), Box<dyn Error>> {
    formula()?;
    bits_along_k()?;
    same_registers()?;
    search();
    integers()?;
    misprint()?;
    Ok(())
}

/// Compares every instruction of a warp with the formula.
fn formula() -> Result<(), Box<dyn Error>> {
    println!("\n== formula ==");
    // ANCHOR: formula
    /// Rows, columns, and the number of neighbours of a row that a thread holds side by side.
    fn operand(rows: i64, columns: i64, w: i64) -> Layout {
        let (down, right) = (rows / 8, columns / (4 * w));
        let stride = ((w * rows, 1), (rows, 8, 4 * w * rows));
        Layout::new(((4, 8), (w, down, right)), stride).expect("the formula is well-formed")
    }

    println!("{}", operand(16, 16, 2));

    let per_register = |ty: Ty| i64::from(32 / ty.bits()).max(1);
    let mut checked = 0;
    for atom in mma_atoms().filter(|atom| atom.is_executable() && atom.threads() == 32) {
        let ([m, n, k], traits) = (atom.mnk(), atom.traits());
        let expected = [
            (&traits.a, operand(m, k, per_register(traits.ty_a))),
            (&traits.b, operand(n, k, per_register(traits.ty_b))),
            (&traits.c, operand(m, n, 2)),
        ];
        for (layout, formula) in expected {
            assert_eq!(layout.table()?, formula.table()?, "{}", atom.name());
        }
        checked += 1;
    }
    assert_eq!(checked, 82);
    // ANCHOR_END: formula
    Ok(())
}

/// Checks that an operand is 256 bits wide along k.
fn bits_along_k() -> Result<(), Box<dyn Error>> {
    // ANCHOR: bits_along_k
    for (name, k, bits) in [
        ("SM80_16x8x8_F32TF32TF32F32_TN", 8, 32),
        ("SM80_16x8x16_F32F16F16F32_TN", 16, 16),
        ("SM89_16x8x32_F32E4M3E4M3F32_TN", 32, 8),
        ("SM80_16x8x64_S32S4S4S32_TN", 64, 4),
        ("SM80_16x8x256_S32U1U1S32_TN_ANDPOPC", 256, 1),
    ] {
        let atom = mma(name)?;
        assert_eq!((atom.mnk()[2], k * bits), (k, 256));
        // Two core matrices wide; A is two high.
        assert_eq!((atom.op()?.a.count, atom.op()?.b.count), (4, 2), "{name}");
    }
    // ANCHOR_END: bits_along_k
    Ok(())
}

/// Checks that all types lie alike in registers.
fn same_registers() -> Result<(), Box<dyn Error>> {
    // ANCHOR: same_registers
    let in_registers = |name: &str| -> Result<String, Box<dyn Error>> {
        let traits = mma(name)?.traits().clone();
        let k = traits.mnk[2];
        let by_rows = Layout::new((16, k), (k, 1))?;
        let bits = i64::from(traits.ty_a.bits());
        Ok(format!(
            "{:#}",
            by_rows
                .composition(&traits.a)?
                .recast(bits, 32)?
                .coalesce(..)
        ))
    };
    for name in [
        "SM80_16x8x8_F32TF32TF32F32_TN",
        "SM80_16x8x16_F32F16F16F32_TN",
        "SM89_16x8x32_F32E4M3E4M3F32_TN",
        "SM80_16x8x64_S32S4S4S32_TN",
        "SM80_16x8x256_S32U1U1S32_TN_ANDPOPC",
    ] {
        assert_eq!(in_registers(name)?, "(4,16,2):(1,8,4)", "{name}");
    }
    // ANCHOR_END: same_registers
    Ok(())
}

/// Finds instructions by their types and shapes.
fn search() {
    println!("\n== search ==");
    // ANCHOR: search
    let names = |search: MmaSearch| -> Vec<String> {
        search.find().iter().map(|atom| atom.name()).collect()
    };

    let bf16 = MmaSearch::default()
        .on(Arch::Sm80)
        .types(Ty::Bf16, Ty::Bf16, Ty::F32);
    println!("{:?}", names(bf16));

    let shape =
        MmaSearch::default()
            .on(Arch::Sm89)
            .shape(16, 8, 32)
            .types(Ty::E4m3, Ty::E5m2, Ty::F32);
    println!("{:?}", names(shape));

    // Ampere has no 8-bit floats.
    assert!(
        MmaSearch::default()
            .on(Arch::Sm80)
            .types(Ty::E4m3, Ty::E4m3, Ty::F32)
            .find()
            .is_empty()
    );
    // ANCHOR_END: search
}

/// Finds the instructions for integers and for bits.
fn integers() -> Result<(), Box<dyn Error>> {
    println!("\n== integers ==");
    // ANCHOR: integers
    let ptx = |k: i64, a: Ty, b: Ty| -> Result<Vec<String>, colex_atom::Error> {
        let found = MmaSearch::default()
            .on(Arch::Sm80)
            .shape(16, 8, k)
            .types(a, b, Ty::S32)
            .find();
        found
            .iter()
            .map(|atom| Ok(atom.op()?.ptx.clone()))
            .collect()
    };
    println!("{:?}", ptx(32, Ty::S8, Ty::U8)?);
    println!("{:?}", ptx(256, Ty::B1, Ty::B1)?);
    // ANCHOR_END: integers
    Ok(())
}

/// Shows a misprint in a source, and the layout that was meant.
fn misprint() -> Result<(), Box<dyn Error>> {
    println!("\n== misprint ==");
    // ANCHOR: misprint
    let refused = "((4,8),(32,2)):((512,1),((16,8)))"
        .parse::<Layout>()
        .unwrap_err();
    println!("{refused}");

    let atom = colex_atom::mma("SM80_16x8x128_S32U1U1S32_TN_XORPOPC")?;
    println!("{:#}", atom.traits().a);
    // ANCHOR_END: misprint
    Ok(())
}
