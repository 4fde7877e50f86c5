//! Tiled MMAs that would compute an element twice, or name one beyond the tile, and how they are refused.

use std::collections::HashSet;
use std::error::Error;

use colex_layout::Tiler;
use colex_tiled::{Operand, TiledMma};

type Outcome = Result<(), Box<dyn Error>>;

fn mma(name: &str, atoms: &str, tile: &str) -> Result<TiledMma, Box<dyn Error>> {
    let tile: Tiler = tile.parse()?;
    Ok(TiledMma::new(colex_atom::mma(name)?, atoms, &tile)?)
}

fn refused<T>(answer: Result<T, impl ToString>) -> Option<String> {
    answer.err().map(|error| error.to_string())
}

#[test]
fn a_tile_that_the_atoms_do_not_divide() {
    let ampere = "SM80_16x8x16_F32F16F16F32_TN";
    assert_eq!(
        refused(mma(ampere, "(1,1,1):(0,1,1)", "(24,8,16)")).as_deref(),
        Some(
            "TiledMma::new: the tile of 24 along M is not a multiple of the 16 that the atoms along it cover"
        )
    );
    assert_eq!(
        refused(mma(ampere, "(2,3,1):(1,2,0)", "(_,16,_)")).as_deref(),
        Some(
            "TiledMma::new: the tile of 16 along N is not a multiple of the 24 that the atoms along it cover"
        )
    );
}

#[test]
fn an_order_that_is_not_a_permutation() -> Outcome {
    let volta = "SM70_8x8x4_F32F16F16F32_NT";
    let gaps = mma(volta, "(2,2):(2,1)", "((4,4,2):(1,16,4),32,4)")?;
    assert_eq!(
        refused(gaps.tv(Operand::A)).as_deref(),
        Some(
            "TiledMma::tv: ((4,2,2,2),(4,(4,1))):((32,0,32,16),(1,(4,0))) reaches index 159 of a tile of 32 by 4: \
             the order of a mode is not a permutation of it"
        )
    );
    assert_eq!(
        refused(mma(volta, "(2,2):(2,1)", "((4,4,2):(1,8,8),32,4)")).as_deref(),
        Some(
            "TiledMma::new: places 4 and 16 of the order (4,4,2):(1,8,8) of M are one element, 8, which would be \
             computed twice"
        )
    );
    assert_eq!(
        refused(mma(volta, "(2,2):(2,1)", "(_,_,2097152:1)")).as_deref(),
        Some(
            "TiledMma::new: the order 2097152:1 of K has 2097152 elements, and at most 1048576 are looked at: an \
             extent keeps the order as it is"
        )
    );
    Ok(())
}

#[test]
fn atoms_that_share_threads() {
    let volta = "SM70_8x8x4_F32F16F16F32_NT";
    assert_eq!(
        refused(mma(volta, "(2,2):(1,1)", "_")).as_deref(),
        Some(
            "TiledMma::new: places 8 and 16 of the threads ((4,2),2,2,1):((1,16),4,4,0) are one thread, 4: \
             the atoms overlap"
        )
    );
    assert_eq!(
        refused(mma(volta, "(2,1):(0,0)", "_")).as_deref(),
        Some(
            "TiledMma::new: places 0 and 8 of the threads ((4,2),2,1,1):((1,16),0,0,0) are one thread, 0: \
             the atoms overlap"
        )
    );
}

#[test]
fn what_is_no_tile_and_no_thread() {
    let ampere = "SM80_16x8x16_F32F16F16F32_TN";
    for (atoms, tile, why) in [
        (
            "(2,2,1):(-1,2,0)",
            "_",
            "the threads (32,2,2,1):(1,-32,64,0) go down to -32, and there is none below 0",
        ),
        (
            "1:0",
            "(0,_,_)",
            "the tile of 0 along M is not a multiple of the 16 that the atoms along it cover",
        ),
        (
            "1:0",
            "(_,-8,_)",
            "the tile of -8 along N is not a multiple of the 8 that the atoms along it cover",
        ),
        (
            "1:0",
            "(_,_,_,_)",
            "(_,_,_,_) has 4 modes, more than M, N and K",
        ),
        (
            "(1,1,1,1):(0,0,0,0)",
            "_",
            "(1,1,1,1):(0,0,0,0) has 4 modes, more than M, N and K",
        ),
    ] {
        assert_eq!(
            refused(mma(ampere, atoms, tile)),
            Some(format!("TiledMma::new: {why}"))
        );
    }
    for (tile, why) in [
        (
            "((4611686018427387904,4),_,_)",
            "4611686018427387904 * 4 does not fit 64 bits",
        ),
        (
            "(_,_,((4,4):(1,4),4611686018427387904))",
            "16 * 4611686018427387904 does not fit 64 bits",
        ),
    ] {
        assert_eq!(refused(mma(ampere, "1:0", tile)).as_deref(), Some(why));
    }
}

/// Over every extent of M up to six atoms: built exactly where the atoms divide it, and then onto the tile.
#[test]
fn what_is_built_covers_its_tile() -> Outcome {
    let mut cases = 0;
    for (name, atoms, covered) in [
        ("SM80_16x8x8_F32TF32TF32F32_TN", "(1,1,1):(0,0,0)", 16),
        ("SM80_16x8x8_F32TF32TF32F32_TN", "(2,1,1):(1,0,0)", 32),
        ("SM70_8x8x4_F32F16F16F32_NT", "(2,2):(2,1)", 16),
    ] {
        for extent in 1..=96 {
            let Ok(mma) = mma(name, atoms, &format!("({extent},_,_)")) else {
                assert_ne!(extent % covered, 0, "{name} of {extent}");
                continue;
            };
            assert_eq!(extent % covered, 0, "{name} of {extent}");
            for operand in [Operand::A, Operand::B, Operand::C] {
                let reached: HashSet<i64> = mma.tv(operand)?.table()?.into_iter().collect();
                let [rows, cols] = mma.operand_tile(operand);
                assert_eq!(reached, (0..rows * cols).collect());
                cases += reached.len();
            }
        }
    }
    println!("law tiled_mma.what_is_built_covers_its_tile: {cases} elements");
    Ok(())
}

/// A quad-pair leaves room for three others between its threads.
#[test]
fn a_number_of_quad_pairs_that_fills_no_warp() -> Outcome {
    let volta = "SM70_8x8x4_F32F16F16F32_NT";
    for (atoms, shown) in [
        ("(5,1,1):(1,0,0)", "(5,1,1):(1,0,0)"),
        ("(2,3):(1,2)", "(2,3,_1):(1,2,_0)"),
    ] {
        assert_eq!(
            refused(mma(volta, atoms, "_")).as_deref(),
            Some(&*format!(
                "TiledMma::new: the atoms {shown} have no threads: the threads (_4,_2):(_1,_16) of one {volta} leave \
                     room for 4 atoms between them (consecutive numbers for a divisor or a multiple of 4 atoms would fit)"
            ))
        );
    }
    for atoms in ["2:1", "(4,1):(1,0)", "(2,4):(1,2)"] {
        mma(volta, atoms, "_")?;
    }
    Ok(())
}
