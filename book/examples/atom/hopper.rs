//! Hopper: instructions of four warps, descriptors and canonical layouts.
//!
//! Run it with `cargo run -p colex-book --example atom_hopper`; each line `== .. ==` names a piece of the chapter.

use colex_atom::{GmmaDescriptor, GmmaOptions, Major, SmemSwizzle, gmma_smem_atom, mma};
use colex_layout::{ComposedLayout, Layout, LayoutLeft};
use std::error::Error;

fn main() -> Result<(), Box<dyn Error>> {
    growing()?;
    from_the_manual()?;
    operands()?;
    descriptor()?;
    names()?;
    sizes();
    advanced()?;
    round_trip()?;
    refusals()?;
    options()?;
    Ok(())
}

/// Grows the accumulator's layout step by step.
fn growing() -> Result<(), Box<dyn Error>> {
    println!("\n== growing ==");
    // ANCHOR: growing
    let steps = [
        ("(4,2):(128,64)", (1, 8)),
        ("((4,8),2):((128,1),64)", (8, 8)),
        ("((4,8),(2,2)):((128,1),(64,8))", (16, 8)),
        ("((4,8,4),(2,2)):((128,1,16),(64,8))", (64, 8)),
        ("((4,8,4),(2,2,16)):((128,1,16),(64,8,512))", (64, 128)),
    ];
    for (step, (rows, columns)) in steps {
        let mut reached = step.parse::<Layout>()?.table()?;
        reached.sort();
        let rectangle: Vec<i64> = (0..columns)
            .flat_map(|n| (0..rows).map(move |m| m + 64 * n))
            .collect();
        assert_eq!(reached, rectangle, "{step}");
    }

    let c = |n: i64| -> Result<String, colex_atom::Error> {
        Ok(format!(
            "{:#}",
            colex_atom::mma(&format!("SM90_64x{n}x16_F16F16F16_SS"))?
                .traits()
                .c
        ))
    };
    assert_eq!(c(128)?, steps[4].0);
    // CuTe writes the last mode of 64 x 8 too, with the size 1.
    println!("{}", c(8)?);
    // ANCHOR_END: growing
    Ok(())
}

/// Infers the accumulator's layout from the manual's formula.
fn from_the_manual() -> Result<(), Box<dyn Error>> {
    println!("\n== from_the_manual ==");
    // ANCHOR: from_the_manual
    let place = |thread: i64, value: i64| {
        let row = 16 * (thread / 32) + (thread % 32) / 4 + 8 * (value / 2 % 2);
        let column = 8 * (value / 4) + 2 * (thread % 4) + value % 2;
        row + 64 * column
    };
    let c = Layout::infer_modes((128, 64), |i| place(i % 128, i / 128))?;
    println!("{c}");
    // ANCHOR_END: from_the_manual
    Ok(())
}

/// Reads the layouts of the operands.
fn operands() -> Result<(), Box<dyn Error>> {
    println!("\n== operands ==");
    // ANCHOR: operands
    let operand = |name: &str, of_a: bool| -> Result<String, colex_atom::Error> {
        let atom = colex_atom::mma(name)?;
        let traits = atom.traits();
        Ok(format!("{:#}", if of_a { &traits.a } else { &traits.b }))
    };
    println!("{}", operand("SM90_64x128x16_F16F16F16_RS", true)?);
    println!("{}", operand("SM90_64x128x16_F16F16F16_SS", true)?);
    println!("{}", operand("SM90_64x128x16_F16F16F16_SS", false)?);
    // ANCHOR_END: operands
    Ok(())
}

/// Derives a descriptor from a swizzled tile.
fn descriptor() -> Result<(), Box<dyn Error>> {
    println!("\n== descriptor ==");
    // ANCHOR: descriptor
    let block = gmma_smem_atom(Major::K, SmemSwizzle::B128, 16)?;
    let tile = block
        .tile_to_shape((64, 64), LayoutLeft)?
        .position_independent()?;
    println!("{tile:#}");

    let rows: Layout = "(64,16):(64,1)".parse()?;
    let units = rows.upcast(8)?;
    assert_eq!(units, "(64,2):(8,1)".parse()?);
    assert_eq!(
        units.logical_divide((8, 2))?,
        "((8,8),(2,1)):((8,64),(1,0))".parse()?
    );

    let slice: ComposedLayout = "Sw<3,3,3> o 0 o (64,16):(64,1)".parse()?;
    let descriptor = GmmaDescriptor::of(&slice, 16, Major::K)?;
    assert_eq!(
        (descriptor.swizzle, descriptor.stride),
        (SmemSwizzle::B128, 1024)
    );
    assert_eq!(descriptor.encode()?, 1 << 16 | 64 << 32 | 1 << 62);
    // ANCHOR_END: descriptor
    Ok(())
}

/// Looks up instructions under several names.
fn names() -> Result<(), Box<dyn Error>> {
    println!("\n== names ==");
    // ANCHOR: names
    println!("{}", mma("SM90_64x128x16_F16F16F16F16_TN").unwrap_err());
    let atom = mma("SM90::GMMA::MMA_64x128x16_F16F16F16_SS")?;
    println!("{:?}", atom.mnk());
    println!("{}", atom.op()?.ptx);

    let by_columns = atom.with_options(GmmaOptions {
        major_a: Major::MN,
        ..GmmaOptions::default()
    })?;
    println!("{}", by_columns.name());
    // ANCHOR_END: names
    Ok(())
}

/// Lists the N that exist for each pair of types.
fn sizes() {
    println!("\n== sizes ==");
    // ANCHOR: sizes
    let there_are = |types: &str| -> Vec<i64> {
        (1..=300)
            .filter(|n| mma(&format!("SM90_64x{n}x{types}")).is_ok())
            .collect()
    };
    let multiples_of_8: Vec<i64> = (1..=32).map(|i| 8 * i).collect();
    for types in [
        "16_F32F16F16_SS",
        "16_F32BF16BF16_RS",
        "8_F32TF32TF32_SS_TN",
        "32_F32E4M3E5M2_SS_TN",
    ] {
        assert_eq!(there_are(types), multiples_of_8, "{types}");
    }
    let integers: Vec<i64> = [8, 16, 24]
        .into_iter()
        .chain((2..=16).map(|i| 16 * i))
        .collect();
    assert_eq!(there_are("32_S32S8S8_SS_TN"), integers);

    println!("{}", mma("SM90_64x40x32_S32S8S8_SS_TN").unwrap_err());
    // ANCHOR_END: sizes
}

/// Moves a descriptor along k.
fn advanced() -> Result<(), Box<dyn Error>> {
    // ANCHOR: advanced
    let first = GmmaDescriptor::of("Sw<3,3,3> o 0 o (64,16):(64,1)", 16, Major::K)?;
    let second: ComposedLayout = "Sw<3,3,3> o 16 o (64,16):(64,1)".parse()?; // from column 16 on
    assert_eq!(
        GmmaDescriptor::of(&second, 16, Major::K)?,
        first.advanced(32)
    );
    assert_eq!(first.advanced(32).encode()? - first.encode()?, 2); // units of 16 bytes
    // ANCHOR_END: advanced
    Ok(())
}

/// Encodes and decodes descriptors of all swizzles.
fn round_trip() -> Result<(), Box<dyn Error>> {
    // ANCHOR: round_trip
    for swizzle in SmemSwizzle::ALL {
        let block = gmma_smem_atom(Major::K, swizzle, 16)?;
        let tile = block
            .tile_to_shape((128, 64), LayoutLeft)?
            .position_independent()?;
        let slice = tile.composition((128, 16))?;
        let descriptor =
            GmmaDescriptor::decode(GmmaDescriptor::of(&slice, 16, Major::K)?.encode()?);
        assert_eq!(
            descriptor.tile(Major::K, 128, 16, 16)?.table()?,
            slice.table()?
        );
    }
    // ANCHOR_END: round_trip
    Ok(())
}

/// Shows which tiles no descriptor can describe.
fn refusals() -> Result<(), Box<dyn Error>> {
    println!("\n== refusals ==");
    // ANCHOR: refusals
    let refused = |layout: &str, major| -> Result<String, Box<dyn Error>> {
        Ok(GmmaDescriptor::of(layout, 16, major)
            .unwrap_err()
            .to_string())
    };
    // Plain rows of 16 halves: without a swizzle, eight rows of 16 bytes must lie together.
    println!("{}", refused("(64,16):(16,1)", Major::K)?);
    // Rows of 256 bytes under a swizzle of 128.
    println!("{}", refused("Sw<3,3,3> o 0 o (64,16):(128,1)", Major::K)?);
    // The swizzle of another element type.
    println!("{}", refused("Sw<3,2,3> o 0 o (64,16):(64,1)", Major::K)?);
    // Columns, read as rows.
    println!("{}", refused("(64,16):(1,64)", Major::K)?);
    // ANCHOR_END: refusals
    Ok(())
}

/// Shows options that an instruction does not have.
fn options() -> Result<(), Box<dyn Error>> {
    println!("\n== options ==");
    // ANCHOR: options
    let a_by_columns = GmmaOptions {
        major_a: Major::MN,
        ..GmmaOptions::default()
    };
    println!(
        "{}",
        mma("SM90_64x128x16_F32F16F16_RS")?
            .with_options(a_by_columns)
            .unwrap_err()
    );
    println!(
        "{}",
        mma("SM90_64x128x8_F32TF32TF32_SS_TN")?
            .with_options(a_by_columns)
            .unwrap_err()
    );
    // ANCHOR_END: options
    Ok(())
}
