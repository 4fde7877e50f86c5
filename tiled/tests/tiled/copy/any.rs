//! Tiled copies of any threads and values between any tensors: every element arrives, or the copy is refused.

use std::error::Error;

use colex_atom::{CopyAtom, Space};
use colex_layout::{Layout, Tiler};
use colex_tiled::{CopyReport, Side, Tensor, TiledCopy, Traffic};

type Outcome = Result<(), Box<dyn Error>>;

/// A small generator of its own: the same cases on every machine.
struct Random(u64);

impl Random {
    fn below(&mut self, end: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 11) % end
    }

    fn of<T: Copy>(&mut self, choices: &[T]) -> T {
        choices[self.below(choices.len() as u64) as usize]
    }
}

/// Atoms between all pairs of spaces, of one thread and of a warp.
fn atom(random: &mut Random) -> Result<CopyAtom, Box<dyn Error>> {
    let atom = colex_atom::copy(random.of(&[
        "UniversalCopy<uint16_t>",
        "UniversalCopy<uint32_t>",
        "UniversalCopy<uint64_t>",
        "UniversalCopy<uint128_t>",
        "SM80_CP_ASYNC_CACHEALWAYS<uint32_t>",
        "SM80_CP_ASYNC_CACHEALWAYS<uint128_t>",
        "SM75_U32x1_LDSM_N",
        "SM75_U32x4_LDSM_N",
        "SM75_U16x4_LDSM_T",
        "SM90_U32x1_STSM_N",
        "SM90_U16x8_STSM_T",
        "SM75_U32x1_MOVM_T",
        "SM90_TMA_LOAD_1D",
        "SM90_BULK_COPY_S2G",
    ]))?;
    let ends = atom.all_ends();
    Ok(ends[random.below(ends.len() as u64) as usize].clone())
}

/// A layout of up to `most` elements: packed in some order, with gaps, repeats, steps back, or XOR strides.
fn layout(random: &mut Random, most: &[i64]) -> String {
    let [a, b] = [random.of(most), random.of(&[1, 1, 2, 4])];
    match random.below(12) {
        0..=5 => format!("({a},{b}):(1,{a})"),
        6..=8 => format!("({a},{b}):({b},1)"),
        9 => format!("({a},{b}):(^1,^{})", random.of(&[a, a + 1, 2])),
        _ => {
            let steps = [1, 1, 2, 3, a, b, 0, -1];
            format!("({a},{b}):({},{})", random.of(&steps), random.of(&steps))
        }
    }
}

/// A copy by threads and values, or by a thread-value layout over some tile.
fn built(random: &mut Random) -> Result<Result<TiledCopy, colex_tiled::Error>, Box<dyn Error>> {
    let atom = atom(random)?;
    // Mostly a width that the atom takes, and whole instructions.
    let taken: Vec<i64> = [8, 16, 32, 64, 24]
        .into_iter()
        .filter(|bits| atom.val_layouts(*bits).is_ok())
        .collect();
    let bits = match random.below(10) {
        0 => random.of(&[8, 16, 24, 32, 64]),
        _ => random.of(&taken),
    };
    let threads = match atom.threads() {
        1 => layout(random, &[1, 2, 4, 8, 16]),
        _ => layout(random, &[32, 32, 8, 64]),
    };
    let held = atom
        .val_layouts(bits)
        .map_or(1, |values| values.reference.mode(1).map_or(1, |v| v.size()));
    let values = layout(random, &[held, held, 2 * held, 1, 3]);
    let (threads, values): (Layout, Layout) = (threads.parse()?, values.parse()?);
    if random.below(3) > 0 {
        return Ok(TiledCopy::new(atom, bits, &threads, &values));
    }
    let tile = threads.size() * values.size();
    let Ok(tv) = Layout::concat([&threads, &values]) else {
        return Ok(TiledCopy::new(atom, bits, &threads, &values));
    };
    let [rows, columns] = [random.of(&[1, 2, 4, 8]), random.of(&[1, 2])];
    let tiler: Tiler = if tile % rows == 0 {
        format!("({},{})", tile / rows * columns, rows).parse()?
    } else {
        Tiler::from(tile)
    };
    Ok(TiledCopy::from_tv(atom, bits, tv, tiler))
}

/// A tensor's layout over these extents: packed in both orders, padded, in blocks, or swizzled.
fn memory(extents: &[i64], random: &mut Random) -> Result<Layout, Box<dyn Error>> {
    let shape = extents
        .iter()
        .map(ToString::to_string)
        .collect::<Vec<_>>()
        .join(",");
    let mut strides = vec![0; extents.len()];
    let (kind, pad) = (random.below(5), random.of(&[0, 0, 1, 4, 8]));
    let mut next = 1;
    let order: Vec<usize> = match kind {
        0 | 1 => (0..extents.len()).collect(),
        _ => (0..extents.len()).rev().collect(),
    };
    let powers = extents.iter().all(|n| n.count_ones() == 1);
    let xor = kind == 4 && powers;
    for i in order {
        strides[i] = next;
        next = next * extents[i] + if xor { 0 } else { pad };
    }
    let caret = if xor { "^" } else { "" };
    if xor && strides.len() == 2 && strides[0] > 1 {
        // Rows swizzled: each row's first bits are moved by its number.
        strides[0] |= 1;
    }
    let strides = strides
        .iter()
        .map(|d| format!("{caret}{d}"))
        .collect::<Vec<_>>()
        .join(",");
    Ok(format!("({shape}):({strides})").parse()?)
}

fn is_scattered(traffic: &Option<Traffic>) -> bool {
    matches!(traffic, Some(Traffic::Scattered(_)))
}

/// What the report says that a copy without a predicate may not have.
fn objections(report: &CopyReport) -> bool {
    let ends = [&report.source, &report.destination];
    report.missing.0 > 0 || report.outside.0 > 0 || ends.into_iter().any(is_scattered)
}

/// Any copy between any tensors of whole or part tiles: exact, or refused, and refused if and only if the report objects.
/// `COLEX_COPIES` says how many.
#[test]
fn a_copy_is_exact_or_refused_over_any_layouts() -> Outcome {
    let rounds = std::env::var("COLEX_COPIES").map_or(Ok(4000), |n| n.parse::<u64>())?;
    let mut random = Random(0x1234_5678_9abc_def1);
    let [mut exact, mut refused, mut unbuilt] = [0; 3];
    for _ in 0..rounds {
        let Ok(copy) = built(&mut random)? else {
            unbuilt += 1;
            continue;
        };
        let tile: Vec<i64> = copy
            .tile_shape()?
            .modes()
            .map(|n| n.product().unwrap().value())
            .collect();
        let extents: Vec<i64> = tile
            .iter()
            .map(|n| match random.below(12) {
                0 => (n / 2).max(1),
                1 => (n - 1).max(1),
                2..=4 => 2 * n,
                _ => *n,
            })
            .collect();
        if extents.iter().product::<i64>() > 1 << 13 {
            continue;
        }
        let (from, to) = (
            memory(&extents, &mut random)?,
            memory(&extents, &mut random)?,
        );
        let cosize =
            |layout: &Layout| layout.table().unwrap().into_iter().max().unwrap() as usize + 1;
        let data: Vec<u64> = (0..cosize(&from) as u64).map(|i| i + 1).collect();
        let src = Tensor::new(data, from.clone())?;
        let Ok(mut dst) = Tensor::new(vec![0_u64; cosize(&to)], to.clone()) else {
            continue;
        };
        let text = format!("{copy}\nfrom {from} to {to}");
        let done = copy.copy(&src, &mut dst);
        let report = copy.report(&from, &to);
        match done {
            Ok(()) => {
                assert_eq!(src.elements()?, dst.elements()?, "{text}");
                let places: std::collections::HashSet<i64> = to.table()?.into_iter().collect();
                let data: Vec<u64> = dst
                    .map_layout(|l| Layout::leaf(cosize(l) as i64, 1))?
                    .elements()?
                    .into_iter()
                    .copied()
                    .collect();
                let outside = (0..)
                    .zip(data)
                    .filter(|(i, x)| !places.contains(i) && *x != 0);
                assert_eq!(outside.count(), 0, "{text}");
                assert!(
                    !objections(&report?),
                    "{text}: copied, and the report objects"
                );
                exact += 1;
            }
            Err(why) => {
                assert!(dst.elements()?.iter().all(|x| **x == 0), "{text}: {why}");
                let objects = report.as_ref().is_ok_and(|report| !objections(report));
                let injective = to.is_injective()?;
                assert!(
                    !objects || !injective,
                    "{text}: {why}, and the report says {}",
                    report.unwrap()
                );
                refused += 1;
            }
        }
    }
    assert!(
        exact > 200 && refused > 200,
        "{exact} exact, {refused} refused"
    );
    println!(
        "law tiled_copy.any_layouts: {rounds} copies: {exact} exact, {refused} refused, {unbuilt} not built"
    );
    Ok(())
}

/// What a report counts, against the thread-value layout walked value by value, for tensors smaller than the tile, larger,
/// and of part tiles.
#[test]
fn a_report_counts_what_every_thread_names() -> Outcome {
    let mut cases = 0;
    let atom =
        colex_atom::copy("UniversalCopy<uint32_t>")?.between(Space::Register, Space::Global)?;
    for (tv, tile) in [
        ("(8,4):(1,8)", [8, 4]),
        ("(4,8):(8,1)", [8, 4]),
        ("((4,2),2):((1,0),4)", [4, 2]),
        ("(4,3):(2,8)", [8, 3]),
        ("((2,2),(2,2)):((1,4),(2,8))", [4, 4]),
    ] {
        let layout: Layout = tv.parse()?;
        let tiler: Tiler = format!("({},{})", tile[0], tile[1]).parse()?;
        let copy = TiledCopy::from_tv(atom.clone(), 32, layout.clone(), tiler)?;
        for (rows, columns) in (1..=12).flat_map(|m| (1..=9).map(move |n| (m, n))) {
            let tensor = Layout::column_major((rows, columns))?;
            let report = copy.report(&tensor, &tensor)?;
            let [across, down] =
                [(rows, tile[0]), (columns, tile[1])].map(|(n, t)| (n + t - 1) / t);
            let mut counts = vec![0; (rows * columns) as usize];
            let (mut outside, mut repeated) = (0, 0);
            let threads = layout.mode(0).map_or(1, |mode| mode.size());
            let mut idle = 0;
            for thread in 0..threads {
                let mut active = false;
                for value in 0..layout.mode(1).map_or(1, |mode| mode.size()) {
                    let index = layout.at(thread + threads * value)?;
                    for (i, j) in (0..across).flat_map(|i| (0..down).map(move |j| (i, j))) {
                        let (x, y) = (index % tile[0] + i * tile[0], index / tile[0] + j * tile[1]);
                        if x >= rows || y >= columns {
                            outside += 1;
                            continue;
                        }
                        active = true;
                        let count = &mut counts[(x + rows * y) as usize];
                        *count += 1;
                        repeated += usize::from(*count > 1);
                    }
                }
                idle += usize::from(!active);
            }
            let missing = counts.iter().filter(|count| **count == 0).count();
            let found = [
                report.missing.0,
                report.repeated.0,
                report.outside.0,
                report.idle.len(),
            ];
            assert_eq!(
                found,
                [missing, repeated, outside, idle],
                "{tv} over {tensor}"
            );
            let part = copy.slice(0)?.partition_dst(&tensor)?;
            assert_eq!(
                part.layout.size(),
                copy.partitions(&tensor, Side::Destination)?.size() / threads
            );
            cases += 1;
        }
    }
    println!("law tiled_copy.report_counts: {cases} tensors");
    Ok(())
}

/// Elements that no thread writes, and elements that are combined with twice.
#[test]
fn elements_left_out_or_combined_twice_are_refused() -> Outcome {
    let half = TiledCopy::from_tv(
        colex_atom::copy("UniversalCopy<uint32_t>")?,
        32,
        "((4,2),1):((1,0),0)",
        Tiler::from(8),
    )?;
    let src = Tensor::new(vec![1_i32; 8], "8:1")?;
    let mut dst = Tensor::new(vec![0_i32; 8], "8:1")?;
    assert_eq!(
        half.copy(&src, &mut dst).unwrap_err().to_string(),
        "copy: no thread writes 4, nor 3 others: the thread-value layout ((4,2),1):((1,0),0) does not have the whole tile"
    );
    half.copy_if(&src, &mut dst, |coord| coord.leaves()[0].value() < 4)?;
    assert_eq!(dst.reduce(0, |sum, x| sum + x)?, 4);
    let add = TiledCopy::from_tv(
        colex_atom::copy("SM90_TMA_REDUCE_ADD_1D")?,
        32,
        "(2,4):(0,1)",
        Tiler::from(4),
    )?;
    let src = Tensor::new(vec![1_i32; 4], "4:1")?;
    let mut dst = Tensor::new(vec![10_i32; 4], "4:1")?;
    assert_eq!(
        add.copy_reducing(&src, &mut dst, |a, b| a + b)
            .unwrap_err()
            .to_string(),
        "copy: thread 1 combines with 0 again: the thread-value layout (2,4):(0,1) has an element twice"
    );
    Ok(())
}

/// One number is no coordinate of tiles in two modes.
#[test]
fn a_tile_is_named_by_one_number_for_each_mode() -> Outcome {
    let tensor = Tensor::new(vec![0; 128 * 16], "(128,16):(1,128)")?;
    let tiler: Tiler = "(64,8)".parse()?;
    assert_eq!(
        tensor.local_tile(&tiler, 0).unwrap_err().to_string(),
        "local_tile: 0 has 1 of the 2 modes that the tiles of (128,16):(1,128) by (64,8) have: it takes one number for each"
    );
    let identity = Tensor::identity((128, 16))?;
    assert!(identity.local_tile(&tiler, 3).is_err());
    assert_eq!(
        identity.outer_partition(&tiler, 3).unwrap_err().to_string(),
        "outer_partition: 3 has 1 of the 2 modes that the places of the tile of (128,16):(_1@0,_1@1) by (64,8) have: it \
         takes one number for each"
    );
    assert!(tensor.local_tile(&tiler, (1, 1)).is_ok());
    Ok(())
}

/// What would take memory in proportion to the extents is refused with the bound.
#[test]
fn extents_beyond_memory_are_refused_with_the_bound() -> Outcome {
    let huge: Layout = "(65536,65536):(^1,^65537)".parse()?;
    let vectors = colex_tiled::Vectorization::new(&huge, &huge, 16, 128);
    assert_eq!(
        vectors.unwrap_err().to_string(),
        "Vectorization: (65536,65536):(^1,^65537) and (65536,65536):(^1,^65537) have 4294967296 elements, and each of at \
         most 4194304 of a swizzled layout is looked at: take a part of whole tiles, the others are alike"
    );
    let bounded = "elements, and each of at most 67108864 is looked at: take a part of whole tiles, the others are alike";
    let one = Tensor::new(vec![1], "(65536,65536):(0,0)")?;
    for why in [
        Tensor::new(vec![0; 4], huge.clone()).unwrap_err(),
        one.elements().unwrap_err(),
        one.fragment_like::<u8>().unwrap_err(),
        Tensor::new(vec![1], "4611686018427387904:0")?
            .fragment_like::<i32>()
            .unwrap_err(),
        one.view().reduce(0, |a, b| a + b).unwrap_err(),
        Tensor::new(vec![1], "(65536,65536):(0,0)")?
            .fill(2)
            .unwrap_err(),
        Tensor::identity((65536, 65536))?.elements().unwrap_err(),
        Tensor::identity((65536, 65536))?
            .within((3, 3))
            .unwrap_err(),
    ] {
        assert!(why.to_string().ends_with(bounded), "{why}");
    }
    let copy = TiledCopy::new(
        colex_atom::copy("UniversalCopy<uint32_t>")?,
        32,
        "32:1",
        "1:0",
    )?;
    let line: Layout = "4294967296:1".parse()?;
    assert!(
        copy.slice(0)?
            .partition_src(&line)?
            .values()
            .unwrap_err()
            .to_string()
            .ends_with(bounded)
    );
    assert!(
        copy.report(&line, &line)
            .unwrap_err()
            .to_string()
            .ends_with(bounded)
    );
    Ok(())
}
