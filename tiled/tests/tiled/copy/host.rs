//! Tiled copies executed on the host: every atom, between tensors of different layouts.

use std::error::Error;

use colex_layout::{IntTuple, Layout, Tiler};
use colex_tiled::{Tensor, TiledCopy, Traffic};

type Outcome = Result<(), Box<dyn Error>>;

/// Atoms that move values of 16 bits: per lane, from shared memory by matrices, straight and transposed, and back.
const ATOMS: [&str; 10] = [
    "UniversalCopy<uint16_t>",
    "UniversalCopy<uint64_t>",
    "UniversalCopy<uint128_t>",
    "SM80_CP_ASYNC_CACHEALWAYS<uint128_t>",
    "SM75_U32x1_LDSM_N",
    "SM75_U32x4_LDSM_N",
    "SM75_U16x2_LDSM_T",
    "SM75_U16x8_LDSM_T",
    "SM90_U32x4_STSM_N",
    "SM90_U16x8_STSM_T",
];

fn copies() -> Result<Vec<TiledCopy>, Box<dyn Error>> {
    let mut copies = Vec::new();
    for atom in ATOMS {
        for threads in ["32:1", "(8,4):(4,1)", "(16,4):(1,16)"] {
            for values in ["8:1", "(1,8):(0,1)", "(4,4):(4,1)"] {
                copies.extend(TiledCopy::new(colex_atom::copy(atom)?, 16, threads, values));
            }
        }
    }
    assert!(copies.len() > 60, "only {} copies", copies.len());
    Ok(copies)
}

/// Twice the tile along each mode, less `missing` of the last.
fn shape(copy: &TiledCopy, missing: i64) -> Result<IntTuple, Box<dyn Error>> {
    let mut extents = Vec::new();
    for extent in copy.tile_shape()?.modes() {
        extents.push(IntTuple::from(2 * extent.product()?.value()));
    }
    let last = extents.pop().expect("a tile has a mode");
    extents.push(IntTuple::from(last.leaves()[0].value() - missing));
    Ok(match &extents[..] {
        [one] => one.clone(),
        several => IntTuple::concat(several),
    })
}

/// Between all four pairs of column-major and row-major tensors: every coordinate is moved, or the copy is refused
/// exactly where the report says that its vectors are scattered.
#[test]
fn a_copy_moves_every_coordinate() -> Outcome {
    let (mut cases, mut scattered) = (0, 0);
    for copy in copies()? {
        let shape = shape(&copy, 0)?;
        let layouts = || {
            let [a, b] = [
                Layout::column_major(shape.clone()),
                Layout::row_major(shape.clone()),
            ];
            [a.unwrap(), b.unwrap()]
        };
        for (from, to) in layouts()
            .iter()
            .flat_map(|a| layouts().map(|b| (a.clone(), b)))
        {
            let report = copy.report(&from, &to)?;
            let data: Vec<i64> = (0..from.size()).collect();
            let src = Tensor::new(&data[..], from)?;
            let mut dst = Tensor::new(vec![-1; data.len()], to)?;
            let copied = copy.copy(&src, &mut dst);
            let is = |traffic: &Option<Traffic>| matches!(traffic, Some(Traffic::Scattered(_)));
            if is(&report.source) || is(&report.destination) {
                let why = copied.unwrap_err().to_string();
                assert!(why.starts_with("copy: one instruction of thread "), "{why}");
                assert!(
                    dst.elements()?.iter().all(|x| **x == -1),
                    "nothing is written"
                );
                scattered += 1;
                continue;
            }
            copied?;
            assert_eq!(src.elements()?, dst.elements()?, "{copy}");
            cases += data.len();
        }
    }
    assert!(
        scattered > 50 && cases > 50_000,
        "{scattered} scattered, {cases} elements"
    );
    println!("law tiled_copy.copy_moves_every_coordinate: {cases} elements, {scattered} refused");
    Ok(())
}

/// Every executable copy over two of its tiles: it moves each value to its place, or does what it says instead.
#[test]
fn every_instruction_moves_every_value() -> Outcome {
    let (mut cases, mut reductions, mut prefetches) = (0, 0, 0);
    for atom in colex_atom::copy_atoms().filter(|atom| atom.is_executable()) {
        for bits in [1, 2, 4, 6, 8, 16, 24, 32, 48, 64, 96, 128] {
            let Ok(values) = atom.val_layouts(bits) else {
                continue; // The instruction splits values of this width.
            };
            // The tile as the instruction numbers it: what a thread gives to memory or gets from it lies together.
            let tile = values.reference.cosize()?;
            let tv = values.reference.clone();
            let copy = TiledCopy::from_tv(atom.clone(), bits, tv, Tiler::from(tile))?;
            let size = 2 * tile;
            let src = Tensor::new(
                (1..=size).map(i128::from).collect::<Vec<i128>>(),
                Layout::column_major(size)?,
            )?;
            let mut dst = Tensor::new(vec![-5; size as usize], Layout::leaf(size, 1)?)?;
            let done = copy.copy(&src, &mut dst).map_err(|error| error.to_string());
            if let Some((operation, _)) = atom.reduction() {
                assert!(
                    done.unwrap_err()
                        .contains(&format!("the {operation:?} of what is there"))
                );
                copy.copy_reducing(&src, &mut dst, |there, arrives| there * arrives)?;
                dst.transform(|x| x / -5)?;
                reductions += 1;
            } else if atom.to() == colex_atom::Space::L2 {
                let expected = format!(
                    "copy: {} brings its source into the second-level cache, and writes to no tensor",
                    atom.name()
                );
                assert_eq!(done.unwrap_err(), expected);
                prefetches += 1;
                continue;
            } else {
                done?;
                let error = copy
                    .copy_reducing(&src, &mut dst, |there, _| *there)
                    .unwrap_err();
                assert_eq!(
                    error.to_string(),
                    format!("copy: {} does not reduce", atom.name())
                );
            }
            assert_eq!(src.elements()?, dst.elements()?, "{}", atom.name());
            cases += size;
        }
    }
    assert!(
        reductions > 10 && prefetches > 5,
        "{reductions} reductions, {prefetches} prefetches"
    );
    println!("law tiled_copy.every_instruction_moves_every_value: {cases} values");
    Ok(())
}

/// A tensor that the tile does not divide: by predicate every coordinate inside, where a vector does not straddle the
/// edge; without one an error that names the first thread and coordinate outside.
#[test]
fn a_predicate_keeps_the_copy_inside() -> Outcome {
    let mut cases = 0;
    for copy in copies()?.iter().filter(|c| c.atom_values() == 1) {
        let shape = shape(copy, 1)?;
        let layout = Layout::column_major(shape.clone())?;
        let data: Vec<i64> = (0..layout.size()).collect();
        let src = Tensor::new(&data[..], layout.clone())?;
        let mut dst = Tensor::new(vec![-1; data.len()], Layout::row_major(shape)?)?;
        let refused = copy.copy(&src, &mut dst).unwrap_err();
        assert!(refused.is_outside(), "{refused}");
        let extents: Vec<i64> = layout.modes().map(|m| m.size()).collect();
        let extents = if layout.is_leaf() {
            vec![layout.size()]
        } else {
            extents
        };
        copy.copy_if(&src, &mut dst, |coord| {
            coord
                .leaves()
                .iter()
                .zip(&extents)
                .all(|(x, n)| x.value() < *n)
        })?;
        assert_eq!(src.elements()?, dst.elements()?, "{copy}");
        cases += data.len();
    }
    println!("law tiled_copy.a_predicate_keeps_the_copy_inside: {cases} elements");
    Ok(())
}

/// Every source that is no larger than the tile: what it has arrives, everything else is zero and counted.
#[test]
fn zeros_fill_up_the_tile() -> Outcome {
    let mut cases = 0;
    for (atom, values) in [
        ("uint32_t", "(2,2):(1,2)"),
        ("uint64_t", "(2,1):(1,0)"),
        ("uint128_t", "(4,1):(1,0)"),
    ] {
        for cache in ["CACHEALWAYS", "CACHEGLOBAL"] {
            let atom = colex_atom::copy(&format!("SM80_CP_ASYNC_{cache}_ZFILL<{atom}>"))?;
            if !atom.is_executable() {
                continue; // Around the first-level cache go 16 bytes only.
            }
            let copy = TiledCopy::new(atom, 32, "(2,4):(1,2)", values)?;
            for (rows, columns) in (1..=8).flat_map(|m| (1..=8).map(move |n| (m, n))) {
                let data: Vec<i64> = (1..=rows * columns).collect();
                // Columns that begin at multiples of the longest vector.
                let mut padded = vec![0; 64];
                for (i, x) in (0..).zip(data) {
                    padded[(i % rows + 8 * (i / rows)) as usize] = x;
                }
                let src = Tensor::new(padded, format!("({rows},{columns}):(1,8)"))?;
                let mut dst = Tensor::new(vec![-1; 64], "(8,8):(1,8)")?;
                let zeros = copy.copy_zero_filled(&src, &mut dst)?;
                assert_eq!(zeros as i64, 64 - rows * columns);
                for (i, j) in (0..8).flat_map(|i| (0..8).map(move |j| (i, j))) {
                    let there = i < rows && j < columns;
                    let expected = if there { *src.get((i, j))? } else { 0 };
                    assert_eq!(*dst.get((i, j))?, expected);
                    cases += 1;
                }
            }
        }
    }
    println!("law tiled_copy.zeros_fill_up_the_tile: {cases} elements");
    Ok(())
}

#[test]
fn refusals_to_fill_are_sentences() -> Outcome {
    let refused = |atom: &str, values: &str, src: &str, dst: &str| {
        let atom = colex_atom::copy(atom).unwrap();
        let copy = TiledCopy::new(atom, 32, "(2,4):(1,2)", values).unwrap();
        let tensor = |layout: &str| Tensor::new(vec![0; 64], layout).unwrap();
        let mut written = tensor(dst);
        copy.copy_zero_filled(&tensor(src), &mut written)
            .unwrap_err()
            .to_string()
    };
    let zfill = "SM80_CP_ASYNC_CACHEALWAYS_ZFILL<uint64_t>";
    assert_eq!(
        refused(
            "SM80_CP_ASYNC_CACHEALWAYS<uint64_t>",
            "(2,1):(1,0)",
            "(3,4):(1,3)",
            "(4,4):(1,4)"
        ),
        "copy_zero_filled: SM80_CP_ASYNC_CACHEALWAYS<uint64_t> fills nothing with zeros; SM80_CP_ASYNC_CACHEALWAYS_ZFILL \
         and SM80_CP_ASYNC_CACHEGLOBAL_ZFILL do"
    );
    assert_eq!(
        refused(zfill, "(2,1):(1,0)", "(5,4):(1,5)", "(4,4):(1,4)"),
        "copy_zero_filled: the destination (4,4):(1,4) has not room for the source (5,4):(1,5)"
    );
    assert_eq!(
        refused(zfill, "(2,1):(1,0)", "(3,4):(1,3)", "(3,4):(1,3)"),
        "thread 1 names (3,0), which is outside of (3,4):(1,3): the tile does not divide the tensor, and a predicate \
         must say what is inside"
    );
    // A vector of two by two, of a source whose columns are apart.
    assert_eq!(
        refused(
            "SM80_CP_ASYNC_CACHEALWAYS_ZFILL<uint128_t>",
            "(2,2):(1,2)",
            "(3,8):(1,3)",
            "(4,8):(1,4)"
        ),
        "copy_zero_filled: one instruction of thread 0 reads 4 values of the source at once, and (0,1) is at element 3, \
         not at 2"
    );
    Ok(())
}

/// W8: elements that are narrower than the values, and vectors that lie at several places.
#[test]
fn elements_and_vectors_that_no_instruction_moves_are_refused() -> Outcome {
    let copy = |atom: &str, threads: &str, values: &str| -> Result<TiledCopy, Box<dyn Error>> {
        let atom = colex_atom::copy(atom)?;
        Ok(TiledCopy::new(atom, 32, threads, values)?)
    };
    let one = copy("UniversalCopy<uint32_t>", "8:1", "1:0")?;
    let (bytes, mut to) = (Tensor::new(vec![7_u8; 8], "8:1")?, vec![0_u8; 8]);
    assert_eq!(
        one.copy(&bytes, &mut Tensor::new(&mut to[..], "8:1")?)
            .unwrap_err()
            .to_string(),
        "copy: an element of 8 bits does not hold a value of the copy, which has 32"
    );
    assert_eq!(to, [0; 8]);
    let fill = copy("SM80_CP_ASYNC_CACHEALWAYS_ZFILL<uint32_t>", "8:1", "1:0")?;
    assert_eq!(
        fill.copy_zero_filled(&bytes, &mut Tensor::new(&mut to[..], "8:1")?)
            .unwrap_err()
            .to_string(),
        "copy_zero_filled: an element of 8 bits does not hold a value of the copy, which has 32"
    );
    let four = copy(
        "SM80_CP_ASYNC_CACHEALWAYS<uint128_t>",
        "(2,4):(1,2)",
        "(4,1):(1,0)",
    )?;
    let refused = |from: &str, to: &str| -> Result<String, Box<dyn Error>> {
        let src = Tensor::new(vec![1_i32; 64], from)?;
        let mut dst = Tensor::new(vec![0_i32; 64], to)?;
        let report = four.report(src.layout(), dst.layout())?;
        let traffic = [report.source, report.destination];
        assert!(
            traffic
                .iter()
                .flatten()
                .any(|t| matches!(t, Traffic::Scattered(_)))
        );
        let why = four.copy(&src, &mut dst).unwrap_err().to_string();
        assert!(dst.elements()?.iter().all(|x| **x == 0));
        Ok(why)
    };
    assert_eq!(
        refused("(8,4):(4,1)", "(8,4):(1,8)")?,
        "copy: one instruction of thread 0 reads 4 values of the source at once, and (1,0) is at element 4, not at 1"
    );
    assert_eq!(
        refused("(8,4):(1,8)", "(8,4):(1,10)")?,
        "copy: one instruction of thread 2 writes 4 values of the destination at once, and (0,1) is at element 10, not \
         at a multiple of 4"
    );
    // The report knows the layout alone: where the tensor begins counts too.
    let data = vec![1_i32; 64];
    let whole = Tensor::new(&data[..], "(33):(1)")?;
    let shifted = whole.local_tile(Tiler::from(11), 1)?;
    let along = copy("UniversalCopy<uint128_t>", "1:0", "4:1")?;
    let part = shifted.map_layout(|_| "4:1".parse())?;
    assert_eq!(
        along
            .copy(&part, &mut Tensor::new(vec![0_i32; 4], "4:1")?)
            .unwrap_err()
            .to_string(),
        "copy: one instruction of thread 0 reads 4 values of the source at once, and 0 is at element 11, not at a \
         multiple of 4"
    );
    Ok(())
}

#[test]
fn errors_are_sentences() -> Outcome {
    let copy = TiledCopy::new(
        colex_atom::copy("UniversalCopy<uint32_t>")?,
        32,
        "(8,16):(1,8)",
        "(2,4):(1,2)",
    )?;
    let src = Tensor::new(vec![0; 384], "(24,16):(1,24)")?;
    let mut dst = src.clone();
    assert_eq!(
        copy.copy(&src, &mut dst).unwrap_err().to_string(),
        "thread 4 names (24,0), which is outside of (24,16):(1,24): the tile does not divide the tensor, and a \
         predicate must say what is inside"
    );
    let mut other = Tensor::new(vec![0; 384], "(16,24):(1,16)")?;
    assert_eq!(
        copy.copy(&src, &mut other).unwrap_err().to_string(),
        "copy: (24,16):(1,24) and (16,24):(1,16) differ in their extents"
    );
    let mut shared = Tensor::new(vec![0; 24], "(24,16):(1,0)")?;
    assert_eq!(
        copy.copy(&src, &mut shared).unwrap_err().to_string(),
        "copy: (24,16):(1,0) has one element at several coordinates, and which value stays there is a race"
    );
    let wide = TiledCopy::new(
        colex_atom::copy("UniversalCopy<uint128_t>")?,
        32,
        "8:1",
        "4:1",
    )?;
    let src = Tensor::new(vec![0; 32], "32:1")?;
    let mut dst = src.clone();
    assert_eq!(
        wide.copy_if(&src, &mut dst, |coord| coord.leaves()[0].value() < 30)
            .unwrap_err()
            .to_string(),
        "copy_if: one instruction moves 28 of thread 7, which the predicate keeps, and 30 of thread 7, which it drops"
    );
    Ok(())
}
