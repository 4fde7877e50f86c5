//! The walk through a partition, step by step.
//!
//! Run it with `cargo run -p colex-book --example tiled_walk`; each line `== .. ==` names a piece of the chapter.

use colex_layout::{Layout, layout};
use colex_tiled::{Operand, Side, Tensor, TiledCopy, TiledMma};
use std::error::Error;

fn main() -> Result<(), Box<dyn Error>> {
    tile()?;
    cut()?;
    sides()?;
    by_atom()?;
    unpacked()?;
    steps()?;
    of_ldmatrix()?;
    predicate()?;
    references()?;
    Ok(())
}

/// Makes the tile and its thread-value layout (S63, S64).
fn tile() -> Result<(), Box<dyn Error>> {
    // ANCHOR: tile
    let raked = layout!((8,16):(1,8)).raked_product(&layout!((2,4):(1,2)))?;
    assert_eq!(raked, layout!(((2,8),(4,16)):((128,1),(256,8))));
    assert_eq!(raked.right_inverse()?, layout!((8,16,2,4):(2,64,1,16)));

    let atom = colex_atom::copy("UniversalCopy<uint32_t>")?;
    let copy = TiledCopy::new(atom, 32, &layout!((8,16):(1,8)), &layout!((2,4):(1,2)))?;
    assert_eq!(copy.tile_shape()?, [16, 64].into());
    assert_eq!(copy.tv(), &layout!(((8,16),(2,4)):((2,64),(1,16))));
    // ANCHOR_END: tile
    Ok(())
}

/// Cuts the tensor, and counts what lies outside of it.
fn cut() -> Result<(), Box<dyn Error>> {
    println!("\n== cut ==");
    // ANCHOR: cut
    let tensor = Layout::identity((24, 16))?;
    let tiled = tensor.zipped_divide((16, 64))?;
    println!("{tiled:#}");

    let mut outside = 0;
    for index in 0..tiled.size() {
        let coordinate = tiled.coord_at(index)?;
        let leaf = |i: usize| coordinate.leaves()[i].value();
        outside += i32::from(leaf(0) >= 24 || leaf(1) >= 16);
    }
    assert_eq!((tiled.size(), outside), (2048, 1664));

    let atom = colex_atom::copy("UniversalCopy<uint32_t>")?;
    let copy = TiledCopy::new(atom, 32, "(8,16):(1,8)", "(2,4):(1,2)")?;
    println!("{}", copy.slice(127)?.partition_src(&tensor)?.start);
    // ANCHOR_END: cut
    Ok(())
}

/// Goes from the reference to a side of the copy.
fn sides() -> Result<(), Box<dyn Error>> {
    // ANCHOR: sides
    let plain = colex_atom::copy("UniversalCopy<uint32_t>")?.val_layouts(32)?;
    assert_eq!(plain.reference, layout!((1,1):(0,1)));
    let inverse = plain.reference.right_inverse()?;
    assert_eq!(inverse, layout!(1:0));
    assert_eq!(inverse.composition(&plain.src)?, layout!((1,1):(0,0)));

    // ldmatrix: the reference is the destination.
    let atom = colex_atom::copy("SM75_U32x4_LDSM_N")?;
    let copy = TiledCopy::new(atom, 16, &layout!(32:1), &layout!(8:1))?;
    let of = |side| copy.partition_steps(&layout!(256:1), side);
    let source = of(Side::Source)?.to_reference;
    assert_eq!(source, layout!(((8,4),(2,4)):((4,64),(32,1))));
    assert!(of(Side::Destination)?.to_reference.is_contiguous());

    // Source thread 9 gives row 1 of matrix 1: which thread gets its value 2, as which value?
    let of_reference = source.at((9, 2))?;
    assert_eq!((of_reference % 32, of_reference / 32), (5, 2));
    // ANCHOR_END: sides
    Ok(())
}

/// Splits threads and values, atom by atom.
fn by_atom() -> Result<(), Box<dyn Error>> {
    // ANCHOR: by_atom
    let tv = layout!(((8,16),(2,4)):((2,64),(1,16)));
    let by_atom = tv.zipped_divide((1, 1))?;
    assert_eq!(
        by_atom,
        layout!(((1,1),((8,16),(2,4))):((0,0),((2,64),(1,16))))
    );
    let zipped = by_atom.zip()?;
    assert_eq!(zipped.shape(), "((1,(8,16)),(1,(2,4)))".parse()?);
    let coalesced = zipped.coalesce((1, (1, 1)))?;
    assert_eq!(coalesced, layout!(((8,16),(1,(2,4))):((2,64),(0,(1,16)))));
    // ANCHOR_END: by_atom
    Ok(())
}

/// Rearranges the tile and unpacks it.
fn unpacked() -> Result<(), Box<dyn Error>> {
    println!("\n== unpacked ==");
    // ANCHOR: unpacked
    let atom = colex_atom::copy("UniversalCopy<uint32_t>")?;
    let copy = TiledCopy::new(atom, 32, &layout!((8,16):(1,8)), &layout!((2,4):(1,2)))?;
    let tensor = Layout::identity((24, 16))?;
    for side in [Side::Source, Side::Destination] {
        let steps = copy.partition_steps(&tensor, side)?;
        assert_eq!(
            format!("{:#}", steps.by_thread),
            "(((8,16),(1,(2,4))),(2,1)):(((2@0,4@1),(0,(1@0,1@1))),(16@0,0))",
        );
        assert_eq!(
            format!("{:#}", steps.partition),
            "((8,16),(1,(2,4)),(2,1)):((2@0,4@1),(0,(1@0,1@1)),(16@0,0))",
        );
    }
    // M and N are the tensor's modes.
    let thread_0 = copy.slice(0)?.partition_dst(&tensor)?.values()?; // (CPY, CPY_M, CPY_N)
    let shown: Vec<String> = thread_0.iter().map(|at| format!("{at:#}")).collect();
    println!("{:?}", &shown[..9]);
    println!("{}", copy.slice(9)?.partition_dst(&tensor)?.start);
    // ANCHOR_END: unpacked
    Ok(())
}

/// Prints every form of a partition.
fn steps() -> Result<(), Box<dyn Error>> {
    println!("\n== steps ==");
    // ANCHOR: steps
    let atom = colex_atom::copy("UniversalCopy<uint32_t>")?;
    let (threads, values) = (layout!((_8,_16):(_1,_8)), layout!((_2,_4):(_1,_2)));
    let copy = TiledCopy::new(atom, 32, &threads, &values)?;
    let tensor = Layout::identity((24, 16))?.to_static();
    let steps = copy.partition_steps(&tensor, Side::Source)?;
    for (i, line) in steps.to_string().lines().enumerate() {
        println!("{}  {line}", i + 1);
    }
    // ANCHOR_END: steps
    Ok(())
}

/// Prints every form of the two partitions of `ldmatrix`.
fn of_ldmatrix() -> Result<(), Box<dyn Error>> {
    println!("\n== of_ldmatrix ==");
    // ANCHOR: of_ldmatrix
    let atom = colex_atom::mma("SM80_16x8x16_F32F16F16F32_TN")?;
    let mma = TiledMma::new(atom, &layout!((1,1,1):(0,0,0)), ..)?;
    let load = colex_atom::copy("SM75_U32x4_LDSM_N")?;
    let load = TiledCopy::for_operand(load, 16, &mma, Operand::A)?;
    let tile = Layout::identity((16, 16))?;
    for side in [Side::Source, Side::Destination] {
        println!("{side:?}");
        let steps = load.partition_steps(&tile, side)?;
        for (i, line) in steps.to_string().replace('_', "").lines().enumerate() {
            println!("{}  {line}", i + 1);
        }
    }
    // ANCHOR_END: of_ldmatrix
    Ok(())
}

/// Copies with a predicate on the coordinate.
fn predicate() -> Result<(), Box<dyn Error>> {
    println!("\n== predicate ==");
    // ANCHOR: predicate
    let atom = colex_atom::copy("UniversalCopy<uint32_t>")?;
    let copy = TiledCopy::new(atom, 32, &layout!((8,16):(1,8)), &layout!((2,4):(1,2)))?;
    let by_columns = layout!((24,16):(1,24));
    let from = Tensor::new((0..384).collect::<Vec<i32>>(), by_columns.clone())?;
    let mut to = Tensor::new(vec![-1; 384], by_columns.clone())?;

    println!("{}", copy.copy(&from, &mut to).unwrap_err());
    copy.copy_if(&from, &mut to, |at| {
        let leaves = at.leaves();
        leaves[0].value() < 24 && leaves[1].value() < 16
    })?;
    assert_eq!(from.elements()?, to.elements()?);

    let report = copy.report(&by_columns, &by_columns)?.to_string();
    println!("{report}");
    // ANCHOR_END: predicate
    Ok(())
}

/// Checks the references of all copies.
fn references() -> Result<(), Box<dyn Error>> {
    // ANCHOR: references
    assert_eq!(layout!(4:2).right_inverse()?, layout!(1:0)); // a gap after the first element
    for atom in colex_atom::copy_atoms().filter(|atom| atom.op().is_ok()) {
        let reference = match atom.traits().reference {
            colex_atom::Side::Source => &atom.traits().src,
            colex_atom::Side::Destination => &atom.traits().dst,
        };
        let inverse = reference.right_inverse()?;
        assert_eq!(inverse.size(), reference.cosize()?, "{}", atom.name());
        for bit in 0..inverse.size() {
            assert_eq!(reference.at(inverse.at(bit)?)?, bit);
        }
    }
    // ANCHOR_END: references
    Ok(())
}
