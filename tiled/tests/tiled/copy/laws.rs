//! What every tiled copy must satisfy, and how the wrong ones are refused.

use std::collections::HashMap;
use std::error::Error;

use colex_layout::{IntTuple, Layout, Tiler};
use colex_tiled::{Operand, Side, TiledCopy, TiledMma};

type Outcome = Result<(), Box<dyn Error>>;

/// The bits that every thread reads or writes at once, per lane and by the addresses of a matrix, both ways.
const ATOMS: [&str; 11] = [
    "UniversalCopy<uint16_t>",
    "UniversalCopy<uint32_t>",
    "UniversalCopy<uint64_t>",
    "UniversalCopy<uint128_t>",
    "SM75_U32x1_LDSM_N",
    "SM75_U32x2_LDSM_N",
    "SM75_U32x4_LDSM_N",
    "SM75_U16x2_LDSM_T",
    "SM75_U16x8_LDSM_T",
    "SM90_U32x2_STSM_N",
    "SM90_U32x4_STSM_N",
];

/// Every atom over every layout of threads and values that it accepts.
fn copies() -> Result<Vec<TiledCopy>, Box<dyn Error>> {
    let threads = [
        "32:1",
        "(8,4):(4,1)",
        "(4,8):(1,4)",
        "(16,8):(8,1)",
        "(32,4):(1,32)",
    ];
    let values = ["8:1", "(1,8):(0,1)", "(2,4):(1,2)", "(4,4):(4,1)"];
    let mut copies = Vec::new();
    for atom in ATOMS {
        for threads in threads {
            for values in values {
                for bits in [16, 32] {
                    copies.extend(TiledCopy::new(
                        colex_atom::copy(atom)?,
                        bits,
                        threads,
                        values,
                    ));
                }
            }
        }
    }
    Ok(copies)
}

/// A tensor of two tiles along the first mode, and three along the second where there is one.
fn extents(copy: &TiledCopy) -> Vec<i64> {
    let tile = copy.tile_shape().expect("the tiler says its extents");
    let extents = tile.modes().zip([2, 3]);
    extents
        .map(|(n, times)| times * n.product().expect("a small tile").value())
        .collect()
}

fn int_tuple(extents: &[i64]) -> IntTuple {
    IntTuple::concat(
        &extents
            .iter()
            .map(|n| IntTuple::from(*n))
            .collect::<Vec<_>>(),
    )
}

fn tensor(extents: &[i64]) -> Result<Layout, Box<dyn Error>> {
    Ok(Layout::column_major(int_tuple(extents))?)
}

/// How often all threads together name each element.
fn named(copy: &TiledCopy, tensor: &Layout, side: Side) -> HashMap<i64, i64> {
    let all = copy.partitions(tensor, side).expect("a partition");
    let mut counts = HashMap::new();
    for offset in all.table().expect("offsets are numbers") {
        *counts.entry(offset).or_default() += 1;
    }
    counts
}

#[test]
fn both_sides_name_the_same_elements() -> Outcome {
    let (mut cases, mut copies_seen) = (0, 0);
    for copy in copies()? {
        let tensor = tensor(&extents(&copy))?;
        for side in [Side::Source, Side::Destination] {
            let named = named(&copy, &tensor, side);
            assert_eq!(named.len() as i64, tensor.size(), "{side:?}\n{copy}");
            // Threads repeat an element only where the instruction ignores addresses, and then all alike.
            let often = named[&0];
            assert!(named.values().all(|n| *n == often), "{side:?}\n{copy}");
            cases += named.len();
        }
        copies_seen += 1;
    }
    assert!(copies_seen > 200, "only {copies_seen} copies");
    println!("law tiled_copy.both_sides_name_the_same_elements: {cases} elements");
    Ok(())
}

#[test]
fn partition_then_gather_is_the_identity() -> Outcome {
    let mut cases = 0;
    for copy in copies()?.iter().filter(|c| c.atom_threads() == 1) {
        let source = tensor(&extents(copy))?;
        let destination = Layout::row_major(source.shape())?;
        let mut gathered = vec![None; usize::try_from(source.size())?];
        for thread in (0..copy.threads()).map(|t| copy.slice(t)) {
            let thread = thread?;
            let (from, to) = (
                thread.partition_src(&source)?,
                thread.partition_dst(&destination)?,
            );
            for (from, to) in from.values()?.iter().zip(to.values()?) {
                let to = usize::try_from(to.leaves()[0].value())?;
                assert_eq!(
                    gathered[to].replace(from.leaves()[0].value()),
                    None,
                    "{copy}"
                );
                cases += 1;
            }
        }
        for index in 0..source.size() {
            let at = usize::try_from(destination.at(index)?)?;
            assert_eq!(
                gathered[at],
                Some(source.at(index)?),
                "index {index}\n{copy}"
            );
        }
    }
    println!("law tiled_copy.partition_then_gather_is_the_identity: {cases} elements");
    Ok(())
}

#[test]
fn the_thread_value_layout_of_a_side_is_its_partition() -> Outcome {
    let mut cases = 0;
    for copy in copies()? {
        let tile = Layout::column_major(copy.tile_shape()?)?;
        for side in [Side::Source, Side::Destination] {
            let (all, tv) = (copy.partitions(&tile, side)?, copy.tv_of(side)?);
            assert_eq!(all.table()?, tv.table()?, "{side:?}\n{copy}");
            cases += tv.size();
        }
    }
    println!("law tiled_copy.the_thread_value_layout_of_a_side_is_its_partition: {cases} elements");
    Ok(())
}

#[test]
fn a_tile_that_does_not_divide_names_the_outside() -> Outcome {
    let mut cases = 0;
    for copy in copies()?
        .iter()
        .filter(|c| c.tiler().rank() == 2 && c.atom_threads() == 1)
    {
        let padded = extents(copy);
        let inside: Vec<i64> = padded.iter().map(|n| (n - 1).max(1)).collect();
        let coordinates = Layout::identity(int_tuple(&inside))?;
        let mut outside = 0;
        for thread in (0..copy.threads()).map(|t| copy.slice(t)) {
            for value in thread?.partition_src(&coordinates)?.values()? {
                let beyond = value.leaves().iter().zip(&inside);
                outside += i64::from(beyond.into_iter().any(|(x, n)| x.value() >= *n));
                cases += 1;
            }
        }
        let size = |extents: &[i64]| extents.iter().product::<i64>();
        assert_eq!(outside, size(&padded) - size(&inside), "{copy}");
    }
    println!("law tiled_copy.a_tile_that_does_not_divide_names_the_outside: {cases} coordinates");
    Ok(())
}

/// Every form of a tensor on its way is a form of the same tensor: the last is the partition, and those before it name
/// each element as often.
#[test]
fn the_steps_of_a_partition_end_in_it() -> Outcome {
    let mut cases = 0;
    for copy in copies()? {
        let tensor = tensor(&extents(&copy))?;
        for side in [Side::Source, Side::Destination] {
            let steps = copy.partition_steps(&tensor, side)?;
            assert_eq!(steps.partition, copy.partitions(&tensor, side)?);
            assert_eq!(
                steps.by_thread.table()?,
                steps.partition.table()?,
                "{steps}"
            );
            assert_eq!(steps.tiled.size(), tensor.size());
            assert_eq!(
                steps.zipped.table()?,
                steps.thread_value.table()?,
                "{steps}"
            );
            assert_eq!(copy.tv_of(side)?, steps.thread_value, "{steps}");
            // Cut by the atom, the thread-value layout names what it named.
            let sorted = |layout: &Layout| {
                let mut table = layout.table().expect("indices are numbers");
                table.sort_unstable();
                table
            };
            assert_eq!(sorted(&steps.by_atom), sorted(copy.tv()), "{steps}");
            assert_eq!(sorted(&steps.of_side), sorted(&steps.zipped), "{steps}");
            // Index i of the side's atom is index `to_reference(i)` of the reference's.
            let atom = steps.to_reference.table()?;
            for (i, reference) in (0..).zip(atom) {
                assert_eq!(
                    steps.of_side.at(i)?,
                    steps.by_atom.at(reference)?,
                    "{steps}"
                );
                cases += 1;
            }
        }
    }
    println!("law tiled_copy.the_steps_of_a_partition_end_in_it: {cases} values");
    Ok(())
}

#[test]
fn errors_are_sentences() -> Outcome {
    let refused = |atom: &str, bits, threads: &str, values: &str| {
        let copy = TiledCopy::new(colex_atom::copy(atom).unwrap(), bits, threads, values);
        copy.unwrap_err().to_string()
    };
    assert_eq!(
        refused("SM75_U32x4_LDSM_N", 16, "16:1", "8:1"),
        "SM75_U32x4_LDSM_N takes 32 threads at a time, and 16 is not a multiple of 32"
    );
    assert_eq!(
        refused("UniversalCopy<uint128_t>", 32, "32:1", "2:1"),
        "UniversalCopy<uint128_t> takes 4 values at a time, and 2 is not a multiple of 4"
    );
    let copy = TiledCopy::new(
        colex_atom::copy("UniversalCopy<uint32_t>")?,
        32,
        "(8,4):(1,8)",
        "8:1",
    )?;
    assert_eq!(
        copy.slice(32).unwrap_err().to_string(),
        "thread 32 is not within 0..32"
    );
    assert_eq!(
        copy.slice(-1).unwrap_err().to_string(),
        "thread -1 is not within 0..32"
    );
    assert_eq!(
        copy.partitions(&"64:1".parse::<Layout>()?, Side::Source)
            .unwrap_err()
            .to_string(),
        "partitions of 64:1: it has rank 1, and at least 2 modes are needed"
    );
    let mma = TiledMma::new(
        colex_atom::mma("SM80_16x8x16_F32F16F16F32_TN")?,
        "1:0",
        &Tiler::All,
    )?;
    assert_eq!(
        mma.slice(32).unwrap_err().to_string(),
        "thread 32 is not within 0..32"
    );
    assert_eq!(
        mma.fragments(&"64:1".parse::<Layout>()?, Operand::A)
            .unwrap_err()
            .to_string(),
        "fragments of 64:1: it has rank 1, and at least 2 modes are needed"
    );
    Ok(())
}
