//! Choosing layouts from a report.
//!
//! Run it with `cargo run -p colex-book --example tiled_report`; each line `== .. ==` names a piece of the chapter.

use colex_atom::Space;
use colex_layout::{ComposedLayout, Layout};
use colex_tiled::{Operand, TiledCopy, TiledMma, Traffic, Vectorization};
use std::error::Error;

fn main() -> Result<(), Box<dyn Error>> {
    load()?;
    shared()?;
    multiplication()?;
    retiled()?;
    store()?;
    rows_of_b()?;
    vectorized()?;
    half_a_change()?;
    does_not_fit()?;
    Ok(())
}

/// Compares thread layouts of a load.
fn load() -> Result<(), Box<dyn Error>> {
    // ANCHOR: load
    let slab: Layout = "(128,64):(4096,1)".parse()?; // of a matrix with 4096 columns
    let plain: Layout = "(128,64):(64,1)".parse()?; // in shared memory
    let cost = |threads: &str, shared: &Layout| -> Result<(usize, usize), Box<dyn Error>> {
        let atom = colex_atom::copy("SM80_CP_ASYNC_CACHEGLOBAL<uint128_t>")?;
        let copy = TiledCopy::new(atom, 16, threads, "(1,8):(0,1)")?;
        let report = copy.report(&slab, shared)?;
        let (Some(Traffic::Global { sectors, .. }), Some(Traffic::Shared { passes, .. })) =
            (report.source, report.destination)
        else {
            return Err("cp.async goes from global to shared memory".into());
        };
        Ok((sectors, passes))
    };
    assert_eq!(cost("(128,1):(1,0)", &plain)?, (1024, 1024));
    assert_eq!(cost("(32,4):(1,32)", &plain)?, (1024, 1024));
    assert_eq!(cost("(32,4):(4,1)", &plain)?, (512, 256));
    assert_eq!(cost("(16,8):(8,1)", &plain)?, (512, 128)); // the least of both
    // ANCHOR_END: load
    Ok(())
}

/// Compares layouts of shared memory.
fn shared() -> Result<(), Box<dyn Error>> {
    println!("\n== shared ==");
    // ANCHOR: shared
    let atom = colex_atom::mma("SM80_16x8x16_F32F16F16F32_TN")?;
    let mma = TiledMma::new(atom, "(2,2,1):(1,2,0)", (32, 32, 16))?;
    let passes = |shared: &Layout| -> Result<[usize; 2], Box<dyn Error>> {
        let fill = colex_atom::copy("SM80_CP_ASYNC_CACHEGLOBAL<uint128_t>")?;
        let fill = TiledCopy::new(fill, 16, "(16,8):(8,1)", "(1,8):(0,1)")?;
        let ldmatrix = colex_atom::copy("SM75_U32x4_LDSM_N")?;
        let ldmatrix = TiledCopy::for_operand(ldmatrix, 16, &mma, Operand::A)?;
        let slab: Layout = "(128,64):(4096,1)".parse()?;
        let sides = [
            fill.report(&slab, shared)?.destination,
            ldmatrix.report(shared, shared)?.source,
        ];
        Ok(sides.map(|side| match side {
            Some(Traffic::Shared { passes, .. }) => passes,
            _ => 0,
        }))
    };
    let plain: Layout = "(128,64):(64,1)".parse()?;
    println!("{:?}", passes(&plain)?);
    let padded: Layout = "(128,64):(72,1)".parse()?;
    println!("{:?}", passes(&padded)?);
    let swizzled: ComposedLayout = "Sw<3,3,3> o 0 o (128,64):(64,1)".parse()?;
    let (swizzled, _) = swizzled.to_xor()?;
    assert_eq!(swizzled, "((8,16),64):((^72,^512),^1)".parse()?);
    println!("{:?}", passes(&swizzled)?);
    // ANCHOR_END: shared
    Ok(())
}

/// Reads the report of a multiplication.
fn multiplication() -> Result<(), Box<dyn Error>> {
    println!("\n== multiplication ==");
    // ANCHOR: multiplication
    let atom = colex_atom::mma("SM80_16x8x16_F32F16F16F32_TN")?;
    let mma = TiledMma::new(atom, "(2,2,1):(1,2,0)", (32, 32, 16))?;
    let (swizzled, result): (Layout, Layout) = (
        "((8,16),64):((^72,^512),^1)".parse()?,
        "(128,128):(128,1)".parse()?,
    );
    let report = mma.report(
        (&swizzled, Space::Shared),
        (&swizzled, Space::Shared),
        (&result, Space::Global),
    )?;
    println!("{report}");

    // All at once are 256 registers, and a thread has 255. One step along K at a time needs less.
    let step: Layout = "((8,16),16):((^72,^512),^1)".parse()?;
    let shared = (&step, Space::Shared);
    let report = mma.report(shared, shared, (&result, Space::Global))?;
    let registers = report.operands.iter().map(|operand| operand.registers);
    println!("{:?}", registers.collect::<Vec<_>>());
    // ANCHOR_END: multiplication
    Ok(())
}

/// Gives the registers of one partition in the modes of another.
fn retiled() -> Result<(), Box<dyn Error>> {
    println!("\n== retiled ==");
    // ANCHOR: retiled
    let atom = colex_atom::mma("SM80_16x8x16_F32F16F16F32_TN")?;
    let mma = TiledMma::new(atom, "(2,2,1):(1,2,0)", (32, 32, 16))?;
    let load = colex_atom::copy("SM75_U32x4_LDSM_N")?;
    let load = TiledCopy::for_operand(load, 16, &mma, Operand::A)?;

    let step: Layout = "((8,16),16):((^72,^512),^1)".parse()?;
    let registers = mma.slice(9)?.fragment(&step, Operand::A)?;
    println!("{registers:#}");
    let filled = load.retile(&registers)?;
    println!("{filled:#}");
    // One instruction per tile of 32 rows, on both sides: 8 values each.
    let addresses = load.slice(9)?.partition_src(&step)?.layout; // (CPY, CPY_M, CPY_K)
    assert_eq!(addresses.size() / 8, filled.size() / 8);
    // ANCHOR_END: retiled
    Ok(())
}

/// Compares stores of two widths.
fn store() -> Result<(), Box<dyn Error>> {
    println!("\n== store ==");
    // ANCHOR: store
    let atom = colex_atom::mma("SM80_16x8x16_F32F16F16F32_TN")?;
    let grid: Layout = "(2,2,1):(1,2,0)".parse()?;
    let result: Layout = "(128,128):(128,1)".parse()?;
    let plain = TiledMma::new(atom.clone(), &grid, (32, 32, 16))?;
    let narrow = colex_atom::copy("UniversalCopy<uint64_t>")?;
    let narrow = TiledCopy::for_operand(narrow, 32, &plain, Operand::C)?;
    let report = narrow.report(&result, &result)?;
    assert_eq!((report.instructions, report.widest), (64, 2));

    // Columns as the instructions count: value of 2, thread of 4, atom of 2, repetition of 2.
    let permuted = TiledMma::new(atom, &grid, "(32,(2,4,2,2):(1,4,16,2),16)")?;
    let tv = permuted.tv(Operand::C)?;
    println!("{tv:#}");
    // Its values: neighbour, eight rows below, repetition. The repetition is to come second.
    let tv = tv.composition("(_,(2,2,2):(1,4,2))")?;
    println!("{tv:#}");
    let wide = colex_atom::copy("UniversalCopy<uint128_t>")?;
    let wide = TiledCopy::from_tv(wide, 32, tv, (32, 32))?;
    let report = wide.report(&result, &result)?;
    assert_eq!((report.instructions, report.widest), (32, 4));
    assert!(matches!(
        report.source,
        Some(Traffic::Global {
            sectors: 2048,
            least: 2048,
            ..
        })
    ));
    // ANCHOR_END: store
    Ok(())
}

/// Compares two orders of the rows of B under the permuted tile.
fn rows_of_b() -> Result<(), Box<dyn Error>> {
    println!("\n== rows_of_b ==");
    // ANCHOR: rows_of_b
    let atom = colex_atom::mma("SM80_16x8x16_F32F16F16F32_TN")?;
    let mma = TiledMma::new(atom, "(2,2,1):(1,2,0)", "(32,(2,4,2,2):(1,4,16,2),16)")?;
    let slab: Layout = "(128,64):(4096,1)".parse()?;
    let passes = |shared: &str| -> Result<[usize; 2], Box<dyn Error>> {
        let (shared, _) = shared.parse::<ComposedLayout>()?.to_xor()?;
        let fill = colex_atom::copy("SM80_CP_ASYNC_CACHEGLOBAL<uint128_t>")?;
        let fill = TiledCopy::new(fill, 16, "(16,8):(8,1)", "(1,8):(0,1)")?;
        let ldmatrix = colex_atom::copy("SM75_U32x4_LDSM_N")?;
        let ldmatrix = TiledCopy::for_operand(ldmatrix, 16, &mma, Operand::B)?;
        let sides = [
            fill.report(&slab, &shared)?.destination,
            ldmatrix.report(&shared, &shared)?.source,
        ];
        Ok(sides.map(|side| match side {
            Some(Traffic::Shared { passes, .. }) => passes,
            _ => 0,
        }))
    };
    println!("{:?}", passes("Sw<3,3,3> o 0 o (128,64):(64,1)")?);
    let reordered = "Sw<3,3,3> o 0 o ((2,2,4,2,4),64):((64,1024,128,512,2048),1)";
    println!("{:?}", passes(reordered)?);
    // ANCHOR_END: rows_of_b
    Ok(())
}

/// Finds how many values can be copied at once.
fn vectorized() -> Result<(), Box<dyn Error>> {
    println!("\n== vectorized ==");
    // ANCHOR: vectorized
    let halves = |src: &Layout, dst: &Layout| {
        Vectorization::new(src, dst, 16, 128).map(|found| found.to_string())
    };
    let rows: Layout = "(8,64):(64,1)".parse()?;
    let columns: Layout = "(8,64):(1,8)".parse()?;
    println!("{}", halves(&rows, &columns)?);
    // Sw<3,3,3> moves eight halves as one; Sw<3,2,3> takes them apart into four and four.
    let swizzled = |text: &str| {
        text.parse::<ComposedLayout>()?
            .to_xor()
            .map(|(layout, _)| layout)
    };
    println!(
        "{}",
        halves(&rows, &swizzled("Sw<3,3,3> o 0 o (8,64):(64,1)")?)?
    );
    println!(
        "{}",
        halves(&rows, &swizzled("Sw<3,2,3> o 0 o (8,64):(64,1)")?)?
    );
    // ANCHOR_END: vectorized
    Ok(())
}

/// Shows a permutation without its wider stores.
fn half_a_change() -> Result<(), Box<dyn Error>> {
    // ANCHOR: half_a_change
    let sectors = |tile: &str| -> Result<Option<Traffic>, Box<dyn Error>> {
        let atom = colex_atom::mma("SM80_16x8x16_F32F16F16F32_TN")?;
        let mma = TiledMma::new(atom, "(2,2,1):(1,2,0)", tile)?;
        let slab: Layout = "(128,64):(64,1)".parse()?;
        let result: Layout = "(128,128):(128,1)".parse()?;
        let shared = (&slab, Space::Shared);
        let [_, _, c] = mma
            .report(shared, shared, (&result, Space::Global))?
            .operands;
        Ok(c.traffic)
    };
    assert!(matches!(
        sectors("(32,32,16)")?,
        Some(Traffic::Global {
            sectors: 2048,
            least: 2048,
            ..
        })
    ));
    assert!(matches!(
        sectors("(32,(2,4,2,2):(1,4,16,2),16)")?,
        Some(Traffic::Global {
            sectors: 4096,
            least: 2048,
            ..
        }),
    ));
    // ANCHOR_END: half_a_change
    Ok(())
}

/// Shows a load that does not fit the multiplication.
fn does_not_fit() -> Result<(), Box<dyn Error>> {
    println!("\n== does_not_fit ==");
    // ANCHOR: does_not_fit
    let atom = colex_atom::mma("SM80_16x8x16_F32F16F16F32_TN")?;
    let mma = TiledMma::new(atom, "(2,2,1):(1,2,0)", (32, 16, 16))?;
    let load = colex_atom::copy("SM75_U32x4_LDSM_N")?;
    println!(
        "{}",
        TiledCopy::for_operand(load, 16, &mma, Operand::B).unwrap_err()
    );
    // ANCHOR_END: does_not_fit
    Ok(())
}
