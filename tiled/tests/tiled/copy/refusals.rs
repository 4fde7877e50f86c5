//! Tiled copies that would name what is not there, and how they are refused.

use std::collections::HashSet;
use std::error::Error;

use colex_layout::{Layout, Tiler};
use colex_tiled::{Operand, Side, TiledCopy, TiledMma};

type Outcome = Result<(), Box<dyn Error>>;

fn from_tv(tv: &str, tiler: &str) -> Result<TiledCopy, Box<dyn Error>> {
    let atom = colex_atom::copy("UniversalCopy<uint32_t>")?;
    let tiler: Tiler = tiler.parse()?;
    Ok(TiledCopy::from_tv(atom, 32, tv, tiler)?)
}

fn cotiled(tv: &str, data: &str) -> Result<TiledCopy, Box<dyn Error>> {
    let atom = colex_atom::copy("UniversalCopy<uint32_t>")?;
    Ok(TiledCopy::cotiled(atom, 32, tv, data)?)
}

fn refused<T>(answer: Result<T, impl ToString>) -> Option<String> {
    answer.err().map(|error| error.to_string())
}

#[test]
fn a_thread_value_layout_that_leaves_its_tile() {
    for (tv, why) in [
        (
            "32:1",
            "32:1 has rank 1, not the two modes of threads and of values",
        ),
        (
            "(4,2,1):(1,4,0)",
            "(4,2,1):(1,4,0) has rank 3, not the two modes of threads and of values",
        ),
        (
            "(4,4):(1,4)",
            "(4,4):(1,4) names the index 15, and the tile (4,2) has 0 to 7",
        ),
        (
            "(4,2):(-1,4)",
            "(4,2):(-1,4) names the index -3, and the tile (4,2) has 0 to 7",
        ),
        (
            "(4,4):(1@0,1@1)",
            "(4,4):(1@0,1@1) names the coordinate 3 along mode 1, and the tile (4,2) has 0 to 1",
        ),
        (
            "(4,2):(-1@0,1@1)",
            "(4,2):(-1@0,1@1) names the coordinate -3 along mode 0, and the tile (4,2) has 0 to 3",
        ),
    ] {
        assert_eq!(
            refused(from_tv(tv, "(4,2)")),
            Some(format!("TiledCopy::from_tv: {why}"))
        );
    }
    assert_eq!(
        refused(from_tv("(2,3):(1,4611686018427387904)", "(4,2)")).as_deref(),
        Some("2 * 4611686018427387904 does not fit 64 bits")
    );
}

/// Offsets of values that fit 64 bits, and offsets in bits that do not: of each memory and of TMA.
#[test]
fn strides_up_to_64_bits_are_reported_or_refused() -> Outcome {
    let (near, far) = (1_i64 << 56, 1_i64 << 60);
    for (name, threads, values) in [
        ("UniversalCopy<uint32_t>", "(32,1):(1,1)", "1:1"),
        ("UniversalCopy<uint128_t>", "(8,1):(1,1)", "4:1"),
        ("SM90_BULK_COPY_G2S<1024>", "1:1", "(32,1):(1,1)"),
        ("SM90_TMA_LOAD_2D<1024>", "1:1", "(32,1):(1,1)"),
    ] {
        let copy = TiledCopy::new(colex_atom::copy(name)?, 32, threads, values)?;
        let report =
            |stride: i64| copy.report(format!("(32,4):(1,{stride})").as_str(), "(32,4):(1,32)");
        assert!(report(32).is_ok() && report(near).is_ok(), "{name}");
        assert_eq!(
            report(far).err().map(|error| error.to_string()).as_deref(),
            Some("1152921504606846976 * 32 does not fit 64 bits"),
            "{name}"
        );
    }
    // Offsets in shared memory that lie as far apart as 64 bits go.
    let copy = TiledCopy::new(
        colex_atom::copy("UniversalCopy<uint8_t>")?,
        8,
        "(2,1):(1,1)",
        "1:1",
    )?;
    let mut report = copy.report("(2,1):(9223372036854775807,0)", "(2,1):(1,2)");
    assert_eq!(
        report.err().map(|error| error.to_string()).as_deref(),
        Some("9223372036854775807 * 8 does not fit 64 bits")
    );
    report = copy.report("(2,1):(1,2)", "(2,1):(-1152921504606846975,0)");
    assert!(report.is_ok());
    Ok(())
}

/// Threads and values by coordinates: the same copy as by indices.
#[test]
fn coordinates_of_the_tile_are_as_good_as_indices() -> Outcome {
    let by_coordinates = from_tv("(4,2):(1@0,1@1)", "(4,2)")?;
    let by_indices = from_tv("(4,2):(1,4)", "(4,2)")?;
    let tensor: Layout = "(8,6):(6,1)".parse()?;
    for side in [Side::Source, Side::Destination] {
        assert_eq!(
            by_coordinates.partitions(&tensor, side)?.table()?,
            by_indices.partitions(&tensor, side)?.table()?
        );
    }
    Ok(())
}

/// Over all small layouts of threads and values: built exactly where every index is one of the tile, and then every
/// partition stays within it.
#[test]
fn what_is_built_stays_within_its_tile() -> Outcome {
    let mut cases = 0;
    for (threads, values) in [(1, 1), (2, 3), (4, 2), (3, 4)] {
        for (d, e) in (-2..8).flat_map(|d| (-2..8).map(move |e| (d, e))) {
            let tv: Layout = format!("({threads},{values}):({d},{e})").parse()?;
            let inside = tv.table()?.iter().all(|index| (0..8).contains(index));
            let copy = from_tv(&tv.to_string(), "(4,2)");
            assert_eq!(copy.is_ok(), inside, "{tv}");
            let Ok(copy) = copy else { continue };
            let tile: Layout = "(4,2):(1,4)".parse()?;
            let named = copy.partitions(&tile, Side::Source)?.table()?;
            assert_eq!(named, tv.table()?, "{tv}");
            cases += named.len();
        }
    }
    println!("law tiled_copy.what_is_built_stays_within_its_tile: {cases} elements");
    Ok(())
}

#[test]
fn addresses_that_the_data_does_not_have() {
    for (tv, data, why) in [
        (
            "(32,8):(8,1)",
            "(16,8):(1,16)",
            "thread 16 names by its value 0 the offset 128",
        ),
        (
            "(32,4):(4,1)",
            "(16,8):(1,20)",
            "thread 4 names by its value 0 the offset 16",
        ),
        (
            "(32,4):(4,1)",
            "(16,8):(1,0)",
            "thread 4 names by its value 0 the offset 16",
        ),
        (
            "(2,3):(3,5)",
            "(8,1):(1,0)",
            "thread 1 names by its value 1 the offset 8",
        ),
    ] {
        assert_eq!(
            refused(cotiled(tv, data)),
            Some(format!(
                "cotiled: {why} ({tv}), which the data {data} does not have"
            ))
        );
    }
}

/// Over all small pairs: what is built names by its threads and values the offsets that were asked for, in that order,
/// and where an offset is missing nothing is built.
#[test]
fn a_cotiled_copy_names_the_addresses_it_was_given() -> Outcome {
    let (mut cases, mut refusals) = (0, 0);
    let data = [
        "(4,4):(1,4)",
        "(4,4):(4,1)",
        "(4,2):(1,6)",
        "(2,(2,2)):(1,(2,8))",
        "8:2",
    ];
    for data in data {
        let data: Layout = data.parse()?;
        let offsets: HashSet<i64> = data.table()?.into_iter().collect();
        for (threads, values) in [(2, 2), (4, 2), (2, 4), (4, 4)] {
            for (d, e) in (0..9).flat_map(|d| (0..9).map(move |e| (d, e))) {
                let tv = format!("({threads},{values}):({d},{e})");
                let asked = tv.parse::<Layout>()?.table()?;
                let there = asked.iter().all(|offset| offsets.contains(offset));
                let Ok(copy) = cotiled(&tv, &data.to_string()) else {
                    refusals += usize::from(!there);
                    continue;
                };
                assert!(there, "{tv} of {data}");
                let named = copy.partitions(&data, Side::Source)?;
                let first = named.table()?;
                assert_eq!(first[..asked.len()], asked, "{tv} of {data}\n{copy}");
                cases += asked.len();
            }
        }
    }
    assert!(
        cases > 500 && refusals > 500,
        "{cases} built, {refusals} refused"
    );
    println!("law tiled_copy.a_cotiled_copy_names_the_addresses_it_was_given: {cases} elements");
    Ok(())
}

#[test]
fn a_fragment_that_does_not_fit_a_copy() -> Outcome {
    let copy = from_tv("(4,8):(8,1)", "(8,4)")?;
    assert_eq!(
        refused(copy.retile("8:1")).as_deref(),
        Some("retile of 8:1: it has rank 1, and at least 3 modes are needed")
    );
    assert_eq!(
        refused(copy.retile("(3,1,1):(1,0,0)")).as_deref(),
        Some(
            "retile: neither do the 3 values in the first mode of (3,1,1):(1,0,0) divide the 8 values of a thread of the \
             copy, nor these them"
        )
    );
    Ok(())
}

/// W1: a copy of a half of each value, and a count of values that could not be right.
#[test]
fn values_that_an_instruction_does_not_move_whole() -> Outcome {
    let new = |atom: &str, bits| -> Result<TiledCopy, Box<dyn Error>> {
        Ok(TiledCopy::new(
            colex_atom::copy(atom)?,
            bits,
            "32:1",
            "1:0",
        )?)
    };
    assert_eq!(
        refused(new("SM80_CP_ASYNC_CACHEALWAYS<uint32_t>", 64)).as_deref(),
        Some(
            "`SM80_CP_ASYNC_CACHEALWAYS<uint32_t>` cannot be read in values of 64 bits: (_1,_32):(_0,_1): \
             a thread moves 32 bits, which are not whole values"
        )
    );
    assert_eq!(
        refused(new("UniversalCopy<uint32_t>", 24)).as_deref(),
        Some(
            "`UniversalCopy<uint32_t>` cannot be read in values of 24 bits: (_1,_32):(_0,_1): \
             a thread moves 32 bits, which are not whole values"
        )
    );
    Ok(())
}

#[test]
fn values_that_no_thread_holds_whole() -> Outcome {
    let atom = colex_atom::copy("SM80_CP_ASYNC_CACHEALWAYS<uint32_t>")?;
    assert_eq!(
        refused(TiledCopy::new(atom, 24, "32:1", "1:0")).as_deref(),
        Some(
            "`SM80_CP_ASYNC_CACHEALWAYS<uint32_t>` cannot be read in values of 24 bits: (_1,_32):(_0,_1): a thread moves 32 \
             bits, which are not whole values"
        )
    );
    Ok(())
}

/// An operand of too few values names the operand, and what would fit.
#[test]
fn an_atom_that_moves_more_than_a_thread_holds_of_an_operand() -> Outcome {
    let mma = TiledMma::new(
        colex_atom::mma("SM80_16x8x16_F32F16F16F32_TN")?,
        "(1,1,1):(0,0,0)",
        ..,
    )?;
    let matrices = colex_atom::copy("SM75_U32x4_LDSM_N")?;
    let error = TiledCopy::for_operand(matrices, 16, &mma, Operand::C).unwrap_err();
    assert!(error.is_count_mismatch());
    assert_eq!(
        error.to_string(),
        "TiledCopy::for_operand: a thread holds 4 values of 16 bits of C, and SM75_U32x4_LDSM_N moves 8 at a time: take \
         an atom of at most 64 bits per thread, or an MMA that repeats its atoms"
    );
    Ok(())
}
