//! The worked examples S51 to S72 of the sources (notes on TiledMMA, Lei Mao's article on TiledCopy, and the walk
//! through `tidfrg_D`), recomputed; where a source errs, the right value stands with a word on what it says.

use std::error::Error;

use colex_layout::{IntTuple, Layout};
use colex_tiled::{Operand, Side, TiledCopy, TiledMma};

type Outcome = Result<(), Box<dyn Error>>;

fn volta(atoms: &str, tile: &str) -> Result<TiledMma, Box<dyn Error>> {
    let atom = colex_atom::mma("SM70_8x8x4_F32F16F16F32_NT")?;
    Ok(TiledMma::new(atom, atoms, tile)?)
}

fn plain(value: impl std::fmt::Display) -> String {
    value.to_string().replace('_', "")
}

/// The coordinates that a thread has of an operand's tile.
fn coordinates(
    mma: &TiledMma,
    thread: i64,
    operand: Operand,
) -> Result<Vec<String>, Box<dyn Error>> {
    let tile = Layout::identity(IntTuple::from(mma.operand_tile(operand)))?;
    let values = mma.slice(thread)?.partition(&tile, operand)?.values()?;
    Ok(values.iter().map(plain).collect())
}

/// The first coordinate that a thread has of C.
fn first_of_c(mma: &TiledMma, thread: i64) -> Result<String, Box<dyn Error>> {
    Ok(coordinates(mma, thread, Operand::C)?.remove(0))
}

fn layout(text: &str) -> Result<Layout, Box<dyn Error>> {
    Ok(text.parse::<Layout>()?.to_static())
}

fn copy_32(threads: &str, values: &str) -> Result<TiledCopy, Box<dyn Error>> {
    let atom = colex_atom::copy("UniversalCopy<uint32_t>")?;
    Ok(TiledCopy::new(
        atom,
        32,
        &layout(threads)?,
        &layout(values)?,
    )?)
}

/// One atom, and a tile of one atom's extents, are the same MMA.
#[test]
fn s51_one_atom() -> Outcome {
    let (bare, tiled) = (
        volta("(1,1,1):(0,0,0)", "_")?,
        volta("(1,1,1):(0,0,0)", "(8,8,4)")?,
    );
    assert_eq!(bare.tile_shape(), tiled.tile_shape());
    assert_eq!(
        plain(tiled.tv(Operand::C)?),
        "(((2,2),4,2),((2,2,2),(1,1))):(((1,16),0,4),((8,2,32),(0,0)))"
    );
    for operand in [Operand::A, Operand::B, Operand::C] {
        assert_eq!(bare.tv(operand)?, tiled.tv(operand)?);
    }
    Ok(())
}

/// Four atoms, four quad-pairs: new threads T4, T8 and T12.
#[test]
fn s52_four_atoms() -> Outcome {
    let mma = volta("(2,2):(2,1)", "_")?;
    assert_eq!(plain(mma.thread_layout()), "((4,2),2,2,1):((1,16),8,4,0)");
    assert_eq!(mma.tile_shape(), [16, 16, 4]);
    let heads = [(0, "(0,0)"), (4, "(0,8)"), (8, "(8,0)"), (12, "(8,8)")];
    for (thread, head) in heads {
        assert_eq!(first_of_c(&mma, thread)?, head);
    }
    Ok(())
}

/// A larger tile brings no thread: every thread has four times the values.
/// Erratum: the source calls the quadrants `warp(0,0)` and `warp(1,0)`; there is one warp, they are copies by value.
#[test]
fn s53_a_tile_of_32_by_32() -> Outcome {
    let mma = volta("(2,2):(2,1)", "(32,32,4)")?;
    assert_eq!(mma.threads(), 32);
    let c = coordinates(&mma, 0, Operand::C)?;
    assert_eq!(
        [&c[0], &c[8], &c[16], &c[24]],
        ["(0,0)", "(16,0)", "(0,16)", "(16,16)"]
    );
    assert_eq!(
        coordinates(&mma, 0, Operand::A)?,
        [
            "(0,0)", "(1,0)", "(2,0)", "(3,0)", "(16,0)", "(17,0)", "(18,0)", "(19,0)"
        ]
    );
    Ok(())
}

/// A permutation of M makes the eight values of a thread contiguous.
/// Erratum: the source has T0V3 at (0,0); it is at (3,0).
#[test]
fn s54_a_permutation_of_m() -> Outcome {
    let mma = volta("(2,2):(2,1)", "((4,4,2):(1,8,4),32,4)")?;
    assert_eq!(
        coordinates(&mma, 0, Operand::A)?,
        [
            "(0,0)", "(1,0)", "(2,0)", "(3,0)", "(4,0)", "(5,0)", "(6,0)", "(7,0)"
        ]
    );
    for (thread, m) in [(16, 8), (8, 16), (24, 24)] {
        assert_eq!(
            coordinates(&mma, thread, Operand::A)?[0],
            format!("({m},0)")
        );
    }
    let scatter = layout("(4,4,2):(1,8,4)")?.table()?;
    assert_eq!(
        scatter,
        [
            0, 1, 2, 3, 8, 9, 10, 11, 16, 17, 18, 19, 24, 25, 26, 27, 4, 5, 6, 7, 12, 13, 14, 15,
            20, 21, 22, 23, 28, 29, 30, 31
        ]
    );
    assert_eq!(
        plain(mma.tv(Operand::A)?),
        "((4,2,2,2),(4,(2,1))):((32,0,16,8),(1,(4,0)))"
    );
    assert_eq!(
        plain(mma.tv(Operand::C)?),
        "(((2,2),2,2,2),((2,2,2),(2,2))):(((1,64),256,16,8),((32,2,128),(4,512)))"
    );
    Ok(())
}

/// The sentence on `PermutationMNK` is cut off in the source: it is one tiler per mode, applied before the atom's; `_`
/// stands for the extent of one atom times the atoms along the mode.
#[test]
fn s55_what_a_permutation_is() -> Outcome {
    let mma = volta("(2,2):(2,1)", "((4,4,2):(1,8,4),_,_)")?;
    let permutation = [0, 1, 2].map(|i| plain(mma.permutation(i)));
    assert_eq!(permutation, ["(4,4,2):(1,8,4)", "16", "4"]);
    Ok(())
}

/// 16 bytes are four values of 32 bits, eight of 16.
#[test]
fn s56_the_width_of_a_vector() -> Outcome {
    let atom = colex_atom::copy("UniversalCopy<uint128_t>")?;
    for (bits, values) in [(32, 4), (16, 8)] {
        let threads = layout("(32,4):(1,32)")?;
        let vector = Layout::column_major(values)?.to_static();
        let copy = TiledCopy::new(atom.clone(), bits, &threads, &vector)?;
        assert_eq!((copy.threads(), copy.atom_values()), (128, values));
    }
    Ok(())
}

/// The raked product of compact A and B is `((N0,M0),(N1,M1)):((r0 cosize(A),d0),(r1 cosize(A),d1))`.
#[test]
fn s57_the_raked_product() -> Outcome {
    let mut cases = 0;
    for (m0, m1, n0, n1) in small() {
        let (a, b) = compact(m0, m1, n0, n1)?;
        let raked = a.raked_product(&b)?;
        let cosize = a.cosize()?;
        let formula = |n: i64, m: i64| raked.at(((n % n0, m % m0), (n / n0, m / m0)));
        for (n, m) in (0..n0 * n1).flat_map(|n| (0..m0 * m1).map(move |m| (n, m))) {
            assert_eq!(formula(n, m)?, a.at(m)? + cosize * b.at(n)?);
            cases += 1;
        }
    }
    println!("law s57.raked_product: {cases} offsets");
    Ok(())
}

/// `C mod M0 M1 = A(m0,m1)` and `C / (M0 M1) = B(n0,n1)`.
/// Erratum: the source concludes `C((n0,m0),(n1,m1)) = A(m0,m1)`, which holds modulo M0 M1 only.
#[test]
fn s58_the_proof() -> Outcome {
    let mut cases = 0;
    for (m0, m1, n0, n1) in small() {
        let (a, b) = compact(m0, m1, n0, n1)?;
        let raked = a.raked_product(&b)?;
        for (n, m) in (0..n0 * n1).flat_map(|n| (0..m0 * m1).map(move |m| (n, m))) {
            let c = raked.at(((n % n0, m % m0), (n / n0, m / m0)))?;
            assert_eq!((c % (m0 * m1), c / (m0 * m1)), (a.at(m)?, b.at(n)?));
            cases += 1;
        }
    }
    println!("law s58.raked_product_modulo: {cases} offsets");
    Ok(())
}

fn small() -> impl Iterator<Item = (i64, i64, i64, i64)> {
    (0..256).map(|i| (1 + i % 4, 1 + i / 4 % 4, 1 + i / 16 % 4, 1 + i / 64))
}

/// A row-major, B column-major, both compact.
fn compact(m0: i64, m1: i64, n0: i64, n1: i64) -> Result<(Layout, Layout), Box<dyn Error>> {
    Ok((
        Layout::row_major((m0, m1))?,
        Layout::column_major((n0, n1))?,
    ))
}

/// The thread-value layout is the right inverse of the raked product *in the shape of threads and values*.
/// Caveat: without that shape the two modes may fuse into one.
#[test]
fn s59_the_right_inverse_needs_its_shape() -> Outcome {
    let (threads, values) = (layout("(8,4):(1,8)")?, layout("8:1")?);
    let inverse = threads.raked_product(&values)?.right_inverse()?;
    assert_eq!(inverse.rank(), 2);
    let tv = inverse.with_shape((32, 8))?;
    assert_eq!(plain(copy_32("(8,4):(1,8)", "8:1")?.tv()), plain(&tv));
    let fused = layout("8:1")?
        .raked_product(&layout("1:0")?)?
        .right_inverse()?;
    assert_eq!(plain(&fused), "8:1");
    assert_eq!(plain(fused.with_shape((8, 1))?), "(8,1):(1,0)");
    Ok(())
}

#[test]
fn s60_the_tile_of_the_article() -> Outcome {
    let raked = layout("(8,4):(1,8)")?.raked_product(&layout("8:1")?)?;
    assert_eq!(plain(&raked), "((8,8),(1,4)):((32,1),(0,8))");
    let copy = copy_32("(8,4):(1,8)", "8:1")?;
    assert_eq!(plain(copy.tiler()), "(64,4)");
    assert_eq!(plain(copy.tv()), "(32,8):(8,1)");
    Ok(())
}

#[test]
fn s61_its_partitions() -> Outcome {
    let atom = colex_atom::copy("UniversalCopy<uint128_t>")?;
    let copy = TiledCopy::new(atom, 16, "(8,4):(1,8)", "8:1")?;
    let global = layout("(128,32,32):(1,128,4096)")?;
    let shared = layout("(128,32):(1,128)")?;
    let thread = copy.slice(0)?;
    assert_eq!(
        plain(thread.partition_src(&global)?.layout),
        "((8,1),2,8,32):((1,0),64,512,4096)"
    );
    assert_eq!(
        plain(thread.partition_dst(&shared)?.layout),
        "((8,1),2,8):((1,0),64,512)"
    );
    Ok(())
}

/// Threads along rows, values down columns: the tiler is the same, the thread-value layout is not.
#[test]
fn s62_majors_that_disagree() -> Outcome {
    let copy = copy_32("(8,4):(4,1)", "8:1")?;
    assert_eq!(plain(copy.tiler()), "(64,4)");
    assert_eq!(plain(copy.tv()), "((4,8),8):((64,8),1)");
    Ok(())
}

/// The copy of the walk: 8 by 16 threads, 2 by 4 values, over a tensor of 24 by 16.
fn walk() -> Result<TiledCopy, Box<dyn Error>> {
    copy_32("(8,16):(1,8)", "(2,4):(1,2)")
}

#[test]
fn s63_the_tile_of_the_walk() -> Outcome {
    let raked = layout("(8,16):(1,8)")?.raked_product(&layout("(2,4):(1,2)")?)?;
    assert_eq!(plain(&raked), "((2,8),(4,16)):((128,1),(256,8))");
    assert_eq!(plain(raked.right_inverse()?), "(8,16,2,4):(2,64,1,16)");
    assert_eq!(plain(walk()?.tiler()), "(16,64)");
    Ok(())
}

#[test]
fn s64_its_thread_value_layout() -> Outcome {
    assert_eq!(plain(walk()?.tv()), "((8,16),(2,4)):((2,64),(1,16))");
    Ok(())
}

/// Caveat: the tile of 16 by 64 does not divide 24 by 16, so that 1664 of 2048 coordinates lie outside the tensor;
/// the source is silent on it.
#[test]
fn s65_the_divide_pads() -> Outcome {
    let tensor = Layout::identity((24, 16))?.to_static();
    let divided = tensor.zipped_divide(walk()?.tiler())?;
    assert_eq!(plain(&divided), "((16,64),(2,1)):((1@0,1@1),(16@0,0))");
    let mut outside = 0;
    for index in 0..divided.size() {
        let value = divided.coord_at(index)?;
        outside += i64::from(value.leaves()[0].value() >= 24 || value.leaves()[1].value() >= 16);
    }
    assert_eq!((divided.size(), outside), (2048, 1664));
    assert_eq!(
        plain(walk()?.slice(127)?.partition_src(&tensor)?.start),
        "(14,60)"
    );
    Ok(())
}

#[test]
fn s66_from_reference_to_target() -> Outcome {
    let values = walk()?.atom().val_layouts(32)?;
    assert_eq!(plain(&values.reference), "(1,1):(0,1)");
    let inverse = values.reference.right_inverse()?;
    assert_eq!(plain(&inverse), "1:0");
    assert_eq!(plain(inverse.composition(&values.src)?), "(1,1):(0,0)");
    Ok(())
}

#[test]
fn s67_threads_and_values_by_atom() -> Outcome {
    let by_atom = walk()?.tv().zipped_divide([1, 1])?;
    assert_eq!(
        plain(&by_atom),
        "((1,1),((8,16),(2,4))):((0,0),((2,64),(1,16)))"
    );
    Ok(())
}

#[test]
fn s68_zipped() -> Outcome {
    let by_atom = walk()?.tv().zipped_divide([1, 1])?;
    assert_eq!(plain(by_atom.zip()?.shape()), "((1,(8,16)),(1,(2,4)))");
    Ok(())
}

/// Erratum: the source has `((8,16),(1,2,4))`; coalescing by the profile `(1,(1,1))` keeps the nesting.
#[test]
fn s69_coalesced_by_profile() -> Outcome {
    let zipped = walk()?.tv().zipped_divide([1, 1])?.zip()?;
    let coalesced = zipped.coalesce((1, (1, 1)))?;
    assert_eq!(plain(coalesced), "((8,16),(1,(2,4))):((2,64),(0,(1,16)))");
    Ok(())
}

/// Erratum: the source has `(((8,16),(1,2,4)),(2,1))`.
#[test]
fn s70_the_tile_by_threads_and_values() -> Outcome {
    let tensor = Layout::identity((24, 16))?.to_static();
    let tv = layout("((8,16),(1,(2,4))):((2,64),(0,(1,16)))")?;
    let divided = tensor.zipped_divide(walk()?.tiler())?;
    assert_eq!(
        plain(divided.composition((&tv, ..))?),
        "(((8,16),(1,(2,4))),(2,1)):(((2@0,4@1),(0,(1@0,1@1))),(16@0,0))"
    );
    Ok(())
}

/// Erratum: the source has `((8,16),(1,2,4),(2,1))`.
#[test]
fn s71_the_whole_partition() -> Outcome {
    let tensor = Layout::identity((24, 16))?.to_static();
    let copy = walk()?;
    for side in [Side::Source, Side::Destination] {
        assert_eq!(
            plain(copy.partitions(&tensor, side)?),
            "((8,16),(1,(2,4)),(2,1)):((2@0,4@1),(0,(1@0,1@1)),(16@0,0))"
        );
    }
    let first: Vec<String> = copy
        .slice(0)?
        .partition_dst(&tensor)?
        .values()?
        .iter()
        .map(plain)
        .collect();
    assert_eq!(
        first[..9],
        [
            "(0,0)", "(1,0)", "(0,1)", "(1,1)", "(0,2)", "(1,2)", "(0,3)", "(1,3)", "(16,0)"
        ]
    );
    assert_eq!(plain(copy.slice(9)?.partition_dst(&tensor)?.start), "(2,4)");
    Ok(())
}

/// Thread-value layouts are stored as the reference has them; a side composes the right inverse of the reference with
/// its own. Caveat: the law of the right inverse holds below its size only.
#[test]
fn s72_reference_and_sides() -> Outcome {
    let copy = TiledCopy::new(colex_atom::copy("SM75_U32x4_LDSM_N")?, 16, "32:1", "8:1")?;
    assert_eq!(copy.tv_of(Side::Destination)?.table()?, copy.tv().table()?);
    assert_ne!(copy.tv_of(Side::Source)?.table()?, copy.tv().table()?);
    let reference = copy.atom().val_layouts(16)?.reference;
    let inverse = reference.right_inverse()?;
    for i in 0..inverse.size() {
        assert_eq!(reference.at(inverse.at(i)?)?, i);
    }
    let gap = layout("4:2")?;
    assert_eq!(gap.right_inverse()?.size(), 1);
    Ok(())
}
