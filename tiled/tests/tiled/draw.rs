//! Pictures of tiled operations show what the thread-value layouts and the partitions say.

use std::error::Error;

use colex_draw::{Mark, ThreadValues};
use colex_layout::{Layout, Tiler};
use colex_tiled::{Operand, Side, TiledCopy, TiledMma};

type Outcome = Result<(), Box<dyn Error>>;

fn copy(atom: &str, bits: i64, threads: &str, values: &str) -> Result<TiledCopy, Box<dyn Error>> {
    let (threads, values): (Layout, Layout) = (threads.parse()?, values.parse()?);
    Ok(TiledCopy::new(
        colex_atom::copy(atom)?,
        bits,
        &threads,
        &values,
    )?)
}

fn mma(atom: &str, atoms: &str, tile: &str) -> Result<TiledMma, Box<dyn Error>> {
    let tile: Tiler = tile.parse()?;
    Ok(TiledMma::new(colex_atom::mma(atom)?, atoms, &tile)?)
}

/// How many pairs of thread and value two maps put into the same cells; all, or it fails.
fn same_places(a: &ThreadValues, b: &ThreadValues) -> i64 {
    assert_eq!((a.threads(), a.values()), (b.threads(), b.values()));
    for (thread, value) in pairs(a) {
        assert_eq!(a.place(thread, value), b.place(thread, value));
    }
    a.threads() * a.values()
}

fn pairs(map: &ThreadValues) -> impl Iterator<Item = (i64, i64)> {
    let values = map.values();
    (0..map.threads()).flat_map(move |thread| (0..values).map(move |value| (thread, value)))
}

#[test]
fn a_tile_of_a_copy_is_drawn_alike_by_its_layout_and_by_its_partitions() -> Outcome {
    let copies = [
        copy("UniversalCopy<uint32_t>", 32, "(8,16):(1,8)", "(2,4):(1,2)")?,
        copy("UniversalCopy<uint128_t>", 16, "(8,4):(1,8)", "(8,1):(1,0)")?,
        copy("SM75_U32x4_LDSM_N", 16, "(32,1):(1,0)", "(1,8):(0,1)")?,
    ];
    let mut cases = 0;
    for copy in &copies {
        let [source, destination] = copy.maps()?;
        for (side, map) in [(Side::Source, source), (Side::Destination, destination)] {
            let over = copy.map_over([map.rows(), map.cols()], side)?;
            cases += same_places(&map, &over);
            let tv = copy.tv_of(side)?;
            for (thread, value) in pairs(&map) {
                let (row, col) = map.place(thread, value);
                assert_eq!(tv.at((thread, value))?, row + map.rows() * col);
            }
        }
    }
    println!("law draw.tiled_copy: {cases} pairs");
    Ok(())
}

#[test]
fn the_tile_of_an_mma_is_drawn_alike_by_its_layouts_and_by_its_partitions() -> Outcome {
    let cases = [
        ("UniversalFMA<float>", "(4,8,1):(8,1,0)", "_"),
        ("SM61_DP4A", "(4,8,1):(8,1,0)", "(16,8,_)"),
        ("SM70_8x8x4_F32F16F16F32_NT", "(1,1,1):(0,0,0)", "_"),
        (
            "SM70_8x8x4_F32F16F16F32_NT",
            "(2,2):(2,1)",
            "((4,4,2):(1,8,4),32,4)",
        ),
        ("SM75_8x8x16_S32S8S8S32_TN", "(2,1,1):(1,0,0)", "_"),
        (
            "SM80_16x8x16_F32F16F16F32_TN",
            "(2,2,1):(1,2,0)",
            "(32,32,_)",
        ),
        ("SM80_16x8x8_F32TF32TF32F32_TN", "(1,1,2):(0,0,1)", "_"),
        ("SM90_64x8x16_F32F16F16_SS", "(1,1,1):(0,0,0)", "_"),
    ];
    let mut pairs = 0;
    for (atom, atoms, tile) in cases {
        let mma = mma(atom, atoms, tile)?;
        let maps = mma
            .maps()?
            .into_iter()
            .zip(mma.maps_over(mma.tile_shape())?);
        pairs += maps
            .map(|(map, over)| same_places(&map, &over))
            .sum::<i64>();
    }
    println!("law draw.tiled_mma: {pairs} pairs");
    Ok(())
}

#[test]
fn larger_tiles_repeat_the_tile() -> Outcome {
    let mma = mma("SM80_16x8x16_F32F16F16F32_TN", "(2,2,1):(1,2,0)", "_")?;
    let [tile, ..] = mma.maps()?;
    let [over, a, b] = mma.maps_over([50, 16, 16])?;
    assert_eq!((over.rows(), over.cols()), (64, 16));
    assert_eq!((a.rows(), a.cols(), b.rows(), b.cols()), (64, 16, 16, 16));
    for (thread, value) in pairs(&tile) {
        let (row, col) = tile.place(thread, value);
        assert_eq!(over.place(thread, value), (row, col));
        assert_eq!(over.place(thread, value + tile.values()), (row + 32, col));
    }
    Ok(())
}

#[test]
fn one_thread_stands_out_on_both_sides() -> Outcome {
    let mma = mma("SM80_16x8x16_F32F16F16F32_TN", "(1,1,1):(0,0,0)", "_")?;
    let load =
        TiledCopy::for_operand(colex_atom::copy("SM75_U32x4_LDSM_N")?, 16, &mma, Operand::A)?;
    let maps = load.maps()?;
    let picture = load.picture_of(5)?;
    for (grid, map) in picture.grids().zip(&maps) {
        let focus = |row, col| grid.cell(row, col).mark == Mark::Focus;
        for (row, col) in (0..16).flat_map(|row| (0..16).map(move |col| (row, col))) {
            let holds = map.owners(row, col).iter().any(|(thread, _)| *thread == 5);
            assert_eq!(focus(row, col), holds, "({row},{col})");
        }
    }
    assert_eq!(picture.grids().count(), 2);
    Ok(())
}

#[test]
fn pictures_and_pages() -> Outcome {
    let small = copy("UniversalCopy<uint32_t>", 32, "(3,2):(2,1)", "(2,2):(1,2)")?;
    insta::assert_snapshot!("copy", small.picture()?.svg());
    insta::assert_snapshot!("copy_latex", small.latex()?);
    let volta = mma("SM70_8x8x4_F32F16F16F32_NT", "(2,2):(2,1)", "_")?;
    insta::assert_snapshot!("volta_thread_4", volta.picture_of(4)?.svg());
    Ok(())
}

#[test]
fn what_cannot_be_drawn_is_said() -> Outcome {
    let small = copy("UniversalCopy<uint32_t>", 32, "(3,2):(2,1)", "(2,2):(1,2)")?;
    let sentence = |error: colex_tiled::Error| error.to_string();
    assert_eq!(
        small.picture_of(6).map(|_| ()).map_err(sentence),
        Err("thread 6 is not within 0..6".into())
    );
    assert_eq!(
        small
            .map_over([i64::MAX, 4], Side::Source)
            .map(|_| ())
            .map_err(sentence),
        Err(
            "map_over: 9223372036854775807 by 4 are more than the 65536 cells that a drawing takes"
                .into()
        )
    );
    let column = copy("UniversalCopy<uint32_t>", 32, "32:1", "4:1")?;
    assert_eq!(
        column
            .map_over([128, 4], Side::Source)
            .map(|_| ())
            .map_err(sentence),
        Err("map_over: the tiler (128) is not one of two modes with extents".into())
    );
    let [map, _] = column.maps()?;
    assert_eq!((map.rows(), map.cols()), (128, 1));
    Ok(())
}

#[test]
fn no_map_over_no_extent() -> Outcome {
    let mma = TiledMma::new(colex_atom::mma("SM80_16x8x8_F32TF32TF32F32_TN")?, "1:0", ..)?;
    assert_eq!(
        mma.maps_over([32, 0, 8]).unwrap_err().to_string(),
        "maps_over: extents are at least 1, not 0"
    );
    let copy = TiledCopy::new(
        colex_atom::copy("UniversalCopy<uint32_t>")?,
        32,
        "(8,4):(1,8)",
        "(1,1):(0,0)",
    )?;
    assert_eq!(
        copy.map_over([-8, 4], Side::Source)
            .unwrap_err()
            .to_string(),
        "map_over: extents are at least 1, not -8"
    );
    Ok(())
}
