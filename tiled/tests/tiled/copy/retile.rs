//! Fragments of a tiled MMA in the modes of a tiled copy.

use std::error::Error;

use colex_layout::{IntTuple, Layout};
use colex_tiled::{Operand, TiledCopy, TiledMma};

type Outcome = Result<(), Box<dyn Error>>;

/// Registers filled by a copy are those that the MMA reads: retiling renames values and keeps every one.
#[test]
fn retile_preserves_every_value() -> Outcome {
    let mut cases = 0;
    for (instruction, atoms, tile) in [
        (
            "SM80_16x8x16_F32F16F16F32_TN",
            "(2,2,1):(1,2,0)",
            "(32,32,16)",
        ),
        (
            "SM80_16x8x16_F32F16F16F32_TN",
            "(1,1,1):(0,0,0)",
            "(16,16,16)",
        ),
        (
            "SM80_16x8x16_F32BF16BF16F32_TN",
            "(4,1,1):(1,0,0)",
            "(64,32,16)",
        ),
        (
            "SM80_16x8x8_F16F16F16F16_TN",
            "(2,2,1):(2,1,0)",
            "(32,32,16)",
        ),
    ] {
        let mma = TiledMma::new(
            colex_atom::mma(instruction)?,
            &atoms.parse::<Layout>()?,
            tile,
        )?;
        for operand in [Operand::A, Operand::B] {
            for atom in [
                "SM75_U32x4_LDSM_N",
                "SM75_U32x2_LDSM_N",
                "UniversalCopy<uint16_t>",
                "UniversalCopy<uint32_t>",
            ] {
                let copy = TiledCopy::for_operand(colex_atom::copy(atom)?, 16, &mma, operand);
                let copy = match copy {
                    // A thread with fewer values of the operand than the instruction moves.
                    Err(e) if e.is_count_mismatch() => continue,
                    copy => copy?,
                };
                cases += retiled(&mma, &copy, operand)?;
            }
        }
    }
    println!("law tiled_copy.retile_preserves_every_value: {cases} values");
    Ok(())
}

/// The values of one pairing, by coordinate: register `retile(fragment)(i)` is where the copy puts coordinate `i`.
fn retiled(mma: &TiledMma, copy: &TiledCopy, operand: Operand) -> Result<i64, Box<dyn Error>> {
    let [rows, columns] = mma.operand_tile(operand);
    let tensor = Layout::identity(IntTuple::from((2 * rows, 3 * columns)))?;
    let mut cases = 0;
    for thread in [0, 1, 13, copy.threads() - 1] {
        let needed = mma.slice(thread)?;
        let fragment = needed.fragment(&Layout::column_major(tensor.shape())?, operand)?;
        let needed = needed.partition(&tensor, operand)?;
        let filled = copy.slice(thread)?.partition_dst(&tensor)?;
        let registers = copy.retile(&fragment)?;
        assert_eq!(registers.size(), fragment.size(), "{copy}");
        for i in 0..registers.size() {
            let value = fragment.index_of(registers.at(i)?)?;
            assert_eq!(
                filled.at(i)?,
                needed.at(value)?,
                "value {i} of thread {thread}\n{copy}"
            );
            cases += 1;
        }
    }
    Ok(cases)
}

#[test]
fn a_fragment_that_the_copy_does_not_divide_is_refused() -> Outcome {
    let copy = TiledCopy::new(
        colex_atom::copy("UniversalCopy<uint64_t>")?,
        16,
        "(8,4):(1,8)",
        "(4,2):(1,4)",
    )?;
    let refused = |fragment: &str| copy.retile(fragment).unwrap_err().to_string();
    assert_eq!(
        refused("(4,3,3):(1,4,12)"),
        "retile: ((4,2),3,2):((1,12),4,24) is not all of the fragment (4,3,3):(1,4,12): the tile (32,8) of the copy does \
         not divide what it is of"
    );
    Ok(())
}
