//! Orders as layouts, and the pictures of schedules.

use colex_sched::pipeline::{Durations, WarpSpecialized};
use colex_sched::{
    Decomposition, GemmCoord, Grouped, Persistent, Raster, RasterChoice, RasterOrder, StreamK,
    StreamKDevice, StreamKSm90, StreamKSm90Args, ThreadblockSwizzle, Tile,
};

/// Where the grid divides, the layout gives the tile of every block; where it does not, there is no layout.
#[test]
fn a_swizzle_that_divides_is_its_layout() {
    let (mut cases, mut refused) = (0, 0);
    for swizzle in ThreadblockSwizzle::all() {
        for (m, n) in (1..=12).flat_map(|m| (1..=12).map(move |n| (m, n))) {
            let tiled = GemmCoord::new(m, n, 2);
            let raster = Raster::of_swizzle(swizzle, tiled).unwrap();
            let Ok(layout) = swizzle.layout(tiled) else {
                assert!(raster.idle() > 0, "{swizzle} over {tiled}");
                refused += 1;
                continue;
            };
            assert_eq!(layout.size(), raster.slots().len() as i64);
            for (slot, tile) in raster.slots().iter().enumerate() {
                let t = tile.expect("no place is idle");
                assert_eq!(
                    layout.at(slot as i64),
                    Ok(t.m + m * (t.n + n * t.l)),
                    "{swizzle} over {tiled}: {layout}"
                );
            }
            cases += 1;
        }
    }
    assert!(refused > 100);
    println!("law swizzle.layout: {cases} cases");
}

#[test]
fn a_persistent_order_that_divides_is_its_layout() {
    let mut cases = 0;
    for (m, n) in (1..=16).flat_map(|m| (1..=16).map(move |n| (m, n))) {
        for (cluster, max) in [[1, 1], [2, 1], [1, 2], [2, 2]]
            .into_iter()
            .flat_map(|c| [1, 2, 8].map(|x| (c, x)))
        {
            for choice in [RasterChoice::AlongM, RasterChoice::AlongN] {
                let s = Persistent::new(GemmCoord::new(m, n, 2), cluster, max, choice).unwrap();
                let Ok(layout) = s.layout() else {
                    assert!(!s.is_exact());
                    continue;
                };
                for slot in 0..s.slots() {
                    let Tile { m: tm, n: tn, l } = s.tile(slot).expect("no place is idle");
                    assert_eq!(layout.at(slot), Ok(tm + m * (tn + n * l)), "{s}: {layout}");
                }
                cases += 1;
            }
        }
    }
    println!("law persistent.layout: {cases} cases");
}

#[test]
fn errors_are_sentences() {
    let refused = ThreadblockSwizzle::Identity { width: 4 }
        .layout(GemmCoord::new(2, 3, 1))
        .unwrap_err();
    assert_eq!(
        refused.to_string(),
        "the order of GemmIdentity<4> is not a layout: 4 does not divide 3"
    );
    let s = Persistent::new(GemmCoord::new(3, 4, 1), [2, 1], 1, RasterChoice::AlongN).unwrap();
    let sentence = "the order of persistent along n, swizzle 1, cluster 2x1 over (3,4,1) is not a layout: 2 does not divide 3";
    assert_eq!(s.layout().unwrap_err().to_string(), sentence);
    // As many tiles along both modes, of which one has the divisor.
    let s = Persistent::new(GemmCoord::new(4, 4, 1), [1, 8], 1, RasterChoice::AlongM).unwrap();
    let sentence = "the order of persistent along m, swizzle 1, cluster 1x8 over (4,4,1) is not a layout: 8 does not divide 4";
    assert_eq!(s.layout().unwrap_err().to_string(), sentence);
    let raster = Raster::hilbert(2, 2).unwrap();
    assert_eq!(
        raster.picture(i64::MAX).unwrap().svg(),
        raster.picture(4).unwrap().svg()
    );
    let none = raster.picture(0).unwrap_err().to_string();
    assert_eq!(none, "the number of workers is 0: it must be at least 1");
    let empty = Grouped::new(&[[0, 4]], [1, 1], [1, 1], 1, RasterOrder::AlongM).unwrap();
    assert_eq!(
        empty.picture(4).unwrap_err().to_string(),
        "every group is empty: there is nothing to draw"
    );
}

/// The two lost pictures: their cells, read back row by row, are the tables of S78 and S79.
#[test]
fn the_two_lost_pictures() {
    let cells = |width| {
        let raster = Raster::of_swizzle(
            ThreadblockSwizzle::Identity { width },
            GemmCoord::new(4, 4, 1),
        )
        .unwrap();
        let picture = raster.picture(4).unwrap();
        let grid = picture.grids().next().unwrap().clone();
        let row = |m| {
            (0..4)
                .map(|n| grid.cell(m, n).lines.concat())
                .collect::<Vec<_>>()
                .join(" ")
        };
        (0..4).map(row).collect::<Vec<_>>()
    };
    assert_eq!(cells(1), ["0 4 8 12", "1 5 9 13", "2 6 10 14", "3 7 11 15"]);
    assert_eq!(cells(2), ["0 1 8 9", "2 3 10 11", "4 5 12 13", "6 7 14 15"]);
}

#[test]
fn pictures_are_deterministic_and_stand_alone() {
    let raster = Raster::hilbert(5, 7).unwrap();
    let args = StreamKSm90Args {
        decomposition: Decomposition::StreamK,
        ..StreamKSm90Args::new(4)
    };
    let sm90 = StreamKSm90::new(GemmCoord::new(5, 1, 1), 32, args).unwrap();
    let (problem, tile) = (GemmCoord::new(640, 128, 1024), GemmCoord::new(128, 128, 32));
    let stream_k = StreamK::new(problem, tile, 1, StreamKDevice::new(4)).unwrap();
    let groups = Grouped::new(
        &[[3, 3], [0, 1], [2, 5]],
        [1, 1],
        [1, 1],
        2,
        RasterOrder::AlongM,
    )
    .unwrap();
    let pipeline = WarpSpecialized::pingpong(4, 4, 2).build().unwrap();
    let clock = Durations {
        load: 3,
        multiply: 2,
        epilogue: 2,
    };
    let all = || {
        [
            raster.picture(9).unwrap().svg(),
            sm90.picture().unwrap().svg(),
            groups.picture(4).unwrap().svg(),
            stream_k.picture().unwrap().svg(),
            pipeline.picture(&clock).unwrap().svg(),
        ]
    };
    assert_eq!(all(), all());
    for svg in all() {
        assert!(svg.starts_with("<svg ") && svg.contains("viewBox"), "{svg}");
        assert!(
            !svg.contains("href") && !svg.contains("url(http"),
            "no outside resource"
        );
    }
}
