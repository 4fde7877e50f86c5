//! Laws of the cost model: the simulation against the closed forms, and the choices it leads to.

use colex_sched::{
    Decomposition, DeviceModel, Error, GemmCoord, Order, Quantization, Raster, RasterOrder,
    ThreadblockSwizzle, TileBytes, TiledGemm, choose, choose_among, choose_split,
    fetched_closed_form, l2_traffic, l2_traffic_coarse, strip_footprint, wave_costs,
};
use proptest::prelude::*;

const BYTES: TileBytes = TileBytes {
    a: 3,
    b: 5,
    k_tiles: 6,
    cluster_blocks: 1,
};

fn tiles(m: i64, n: i64) -> GemmCoord {
    GemmCoord::new(m, n, 1)
}

fn rasters(m: i64, n: i64) -> Vec<Raster> {
    let orders = Order::candidates()
        .into_iter()
        .chain([1, 2, 4].map(|width| Order::Swizzle(ThreadblockSwizzle::Identity { width })));
    orders
        .map(|order| order.raster(tiles(m, n), [1, 1]).unwrap())
        .collect()
}

/// Wherever a closed form exists it is what the simulation fetches; a third of the cases have one.
#[test]
fn the_closed_form_agrees_with_the_simulation() {
    let (mut cases, mut closed) = (0, 0);
    for (m, n) in (1..=9).flat_map(|m| (1..=9).map(move |n| (m, n))) {
        for raster in rasters(m, n) {
            for (workers, cache) in [
                (1, 0),
                (1, 40),
                (4, 30),
                (4, 100),
                (7, 60),
                (16, 90),
                (16, 200),
                (100, 5000),
            ] {
                let fetched = l2_traffic(&raster, workers, &BYTES, cache).unwrap().fetched;
                if let Some(bytes) = fetched_closed_form(&raster, workers, &BYTES, cache).unwrap() {
                    assert_eq!(
                        bytes,
                        fetched,
                        "{} over {m}x{n}, {workers} workers, {cache} bytes",
                        raster.name()
                    );
                    closed += 1;
                }
                cases += 1;
            }
        }
    }
    assert!(3 * closed > cases, "{closed} of {cases}");
    println!("law cost.closed_form_agrees_with_simulation: {closed} cases");
}

/// Fetched bytes never exceed the requested ones, never fall below one fetch a slice, and shrink as the cache grows.
#[test]
fn traffic_is_bounded_and_monotone() {
    let mut cases = 0;
    for (m, n) in [(1, 1), (3, 7), (8, 8), (12, 5)] {
        let once = (m * BYTES.a + n * BYTES.b) * BYTES.k_tiles;
        for raster in rasters(m, n) {
            let mut last = i64::MAX;
            for cache in (0..600).step_by(20) {
                let t = l2_traffic(&raster, 10, &BYTES, cache).unwrap();
                assert_eq!(t.requested, m * n * (BYTES.a + BYTES.b) * BYTES.k_tiles);
                assert!(once <= t.fetched && t.fetched <= t.requested && t.fetched <= last);
                last = t.fetched;
                cases += 1;
            }
        }
    }
    println!("law cost.traffic_is_bounded_and_monotone: {cases} cases");
}

/// A wave that starts a strip and stays in it touches the footprint that `strip_footprint` says.
#[test]
fn a_strips_footprint() {
    let mut cases = 0;
    for (m, n) in (1..=20).flat_map(|m| (1..=20).map(move |n| (m, n))) {
        for (width, workers) in [1, 2, 3, 4, 8]
            .into_iter()
            .flat_map(|w| [1, 4, 7, 12, 16].map(|x| (w, x)))
        {
            if width > n || workers > width * m {
                continue;
            }
            let raster = Raster::grouped(m, n, width, RasterOrder::AlongM).unwrap();
            let wave = wave_costs(&raster, workers, &BYTES).unwrap()[0];
            assert_eq!(
                [wave.rows, wave.columns],
                strip_footprint(width, workers).unwrap()
            );
            assert_eq!(
                wave.bytes(),
                (wave.rows * BYTES.a + wave.columns * BYTES.b) * BYTES.k_tiles
            );
            cases += 1;
        }
    }
    println!("law cost.a_strips_footprint: {cases} cases");
}

/// Multicast divides what is asked of L2 and leaves what memory sends, when the whole wave shares one cache.
#[test]
fn multicast_asks_less() {
    let order = Order::Grouped {
        width: 2,
        raster: RasterOrder::AlongM,
    };
    let raster = order.raster(tiles(8, 8), [2, 2]).unwrap();
    let single = l2_traffic(&raster, 16, &BYTES, 1000).unwrap();
    let cluster = l2_traffic(
        &raster,
        16,
        &TileBytes {
            cluster_blocks: 4,
            ..BYTES
        },
        1000,
    )
    .unwrap();
    assert_eq!(
        (cluster.requested * 2, cluster.fetched),
        (single.requested, single.fetched)
    );
}

#[test]
fn orders_with_clusters_are_rasters_of_clusters() {
    let mut cases = 0;
    for (m, n) in (1..=9).flat_map(|m| (1..=9).map(move |n| (m, n))) {
        for (order, cluster) in Order::candidates()
            .into_iter()
            .flat_map(|o| [[2, 1], [1, 2], [2, 2]].map(|c| (o, c)))
        {
            let raster = order.raster(tiles(m, n), cluster).unwrap();
            let size = (cluster[0] * cluster[1]) as usize;
            assert_eq!(raster.slots().len() % size, 0);
            for blocks in raster.slots().chunks(size) {
                let homes: std::collections::HashSet<_> = blocks
                    .iter()
                    .flatten()
                    .map(|t| (t.m / cluster[0], t.n / cluster[1]))
                    .collect();
                assert!(homes.len() <= 1, "{order}: one cluster, one rectangle");
            }
            cases += 1;
        }
    }
    println!("law order.clusters_stay_together: {cases} cases");
}

#[test]
fn orders_round_trip_through_text() {
    let swizzle = Order::Swizzle(ThreadblockSwizzle::Identity { width: 4 });
    for order in Order::candidates().into_iter().chain([swizzle]) {
        assert_eq!(order.to_string().parse(), Ok(order));
    }
    let wrong = "grouped 8".parse::<Order>().unwrap_err().to_string();
    assert!(
        wrong.starts_with("\"grouped 8\" names no order: expected for example GemmIdentity<8>"),
        "{wrong}"
    );
}

#[test]
fn quantization_counts_the_busiest_worker() {
    let mut cases = 0;
    for (m, n) in (1..=12).flat_map(|m| (1..=12).map(move |n| (m, n))) {
        for (raster, workers) in rasters(m, n)
            .iter()
            .flat_map(|r| [1, 5, 16, 200].map(|w| (r, w)))
        {
            let q = Quantization::of_raster(raster, workers).unwrap();
            let flat = Quantization::of_tiles(m * n, workers).unwrap();
            assert_eq!(q.tiles, m * n);
            assert!(
                q.rounds >= flat.rounds && (raster.idle() > 0 || q == flat),
                "{}",
                raster.name()
            );
            assert!(q.efficiency() <= 1.0);
            cases += 1;
        }
    }
    println!("law cost.quantization_counts_the_busiest_worker: {cases} cases");
}

/// The numbers of the book: 8192 cubed in tiles of 128 by 256 on an H200.
#[test]
fn the_best_order_halves_the_traffic() {
    let gemm = TiledGemm::new(
        GemmCoord::new(8192, 8192, 8192),
        GemmCoord::new(128, 256, 64),
    );
    let choice = choose(&gemm, &DeviceModel::H200).unwrap();
    assert_eq!(choice.best().order.to_string(), "grouped 8 along m");
    let plain = choice
        .candidates
        .iter()
        .find(|c| c.order.to_string() == "grouped 1 along m")
        .unwrap();
    assert!(plain.fetched as f64 / choice.best().fetched as f64 > 1.9);
    assert!(
        choice
            .candidates
            .windows(2)
            .all(|w| w[0].quantization.rounds <= w[1].quantization.rounds)
    );
}

/// The chosen order is no worse than any other, for problems of many shapes.
#[test]
fn the_choice_is_the_least() {
    let mut cases = 0;
    for (m, n, k) in [
        (1, 1, 1),
        (4096, 4096, 512),
        (300, 9000, 640),
        (9000, 300, 640),
        (2048, 2048, 8192),
    ] {
        for cluster in [[1, 1], [2, 1], [1, 2]] {
            let gemm = TiledGemm {
                cluster,
                ..TiledGemm::new(GemmCoord::new(m, n, k), GemmCoord::new(128, 128, 64))
            };
            let device = DeviceModel {
                name: "small",
                sms: 20,
                l2_bytes: 4 << 20,
            };
            let choice = choose(&gemm, &device).unwrap();
            let key = |c: &colex_sched::Candidate| (c.quantization.rounds, c.fetched);
            assert!(
                choice
                    .candidates
                    .iter()
                    .all(|c| key(choice.best()) <= key(c))
            );
            assert_eq!(choice.candidates.len(), Order::candidates().len());
            cases += 1;
        }
    }
    println!("law choose.the_choice_is_the_least: {cases} cases");
}

#[test]
fn splits_beat_whole_tiles_exactly_when_a_wave_is_empty_enough() {
    let best = |m, n, k| {
        choose_split(tiles(m, n), k, 132)
            .unwrap()
            .best()
            .decomposition
    };
    assert_eq!(best(11, 12, 64), Decomposition::DataParallel);
    assert_eq!(best(22, 12, 64), Decomposition::DataParallel);
    assert_eq!(best(10, 14, 64), Decomposition::StreamK);
    assert_eq!(best(3, 3, 64), Decomposition::SplitK);
    assert_eq!(best(1, 1, 4), Decomposition::DataParallel);
    for choice in [
        choose_split(tiles(10, 14), 64, 132).unwrap(),
        choose_split(tiles(5, 5), 100, 132).unwrap(),
    ] {
        assert!(
            choice
                .candidates
                .iter()
                .all(|c| c.length >= choice.best().length && c.length >= choice.bound)
        );
    }
}

#[track_caller]
fn refuses<T: std::fmt::Debug>(result: Result<T, Error>, sentence: &str) {
    assert_eq!(result.expect_err("must be refused").to_string(), sentence);
}

#[test]
fn errors_are_sentences() {
    let raster = Raster::grouped(2, 2, 1, RasterOrder::AlongM).unwrap();
    refuses(
        wave_costs(&raster, 0, &BYTES),
        "the number of workers is 0: it must be at least 1",
    );
    refuses(
        l2_traffic(&raster, 1, &BYTES, -1),
        "the bytes of the cache is -1: it must be at least 0",
    );
    refuses(
        l2_traffic(&raster, 1, &TileBytes { a: 0, ..BYTES }, 1),
        "the bytes of a slice of A is 0: it must be at least 1",
    );
    refuses(
        l2_traffic(
            &raster,
            1,
            &TileBytes {
                k_tiles: 1 << 30,
                ..BYTES
            },
            1,
        ),
        "8589934592 touches of slices are more than the 4194304 that are simulated: use fewer steps along k",
    );
    let huge = TileBytes {
        a: i64::MAX,
        ..BYTES
    };
    refuses(
        wave_costs(&raster, 1, &huge),
        "the traffic is beyond 64-bit integers",
    );
    refuses(
        l2_traffic_coarse(&raster, 1, &BYTES, 1, 0),
        "the number of slices is 0: it must be at least 1",
    );
    refuses(
        strip_footprint(0, 4),
        "the width of the raster is 0: it must be at least 1",
    );
    refuses(
        Quantization::of_tiles(0, 4),
        "the number of tiles is 0: it must be at least 1",
    );
    refuses(
        choose_split(tiles(0, 4), 8, 4),
        "extent m in tiles is 0: it must be at least 1",
    );
    refuses(
        choose_split(tiles(4, 4), 0, 4),
        "the number of k-tiles is 0: it must be at least 1",
    );
    let gemm = TiledGemm::new(GemmCoord::new(64, 64, 64), GemmCoord::new(64, 64, 64));
    refuses(
        choose_among(&[], &gemm, &DeviceModel::H200),
        "the number of orders is 0: it must be at least 1",
    );
    refuses(
        choose(
            &TiledGemm {
                cluster: [4, 4],
                ..gemm
            },
            &DeviceModel {
                sms: 8,
                ..DeviceModel::H200
            },
        ),
        "a cluster of 4x4 blocks needs 16 multiprocessors at once, and the device has 8",
    );
    let swizzle = Order::Swizzle(ThreadblockSwizzle::Horizontal);
    refuses(
        swizzle.raster(tiles(4, 4), [2, 1]),
        "GemmHorizontal knows no clusters: use a persistent or grouped order",
    );
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn large_traffic_agrees_with_the_closed_form(
        m in 1i64..60, n in 1i64..60, pick in 0usize..18, workers in 1i64..140, cache in 0i64..20_000, k_tiles in 1i64..20,
    ) {
        let raster = Order::candidates()[pick].raster(tiles(m, n), [1, 1]).unwrap();
        let bytes = TileBytes { k_tiles, ..BYTES };
        let fetched = l2_traffic(&raster, workers, &bytes, cache).unwrap().fetched;
        if let Some(closed) = fetched_closed_form(&raster, workers, &bytes, cache).unwrap() {
            prop_assert_eq!(closed, fetched);
        }
        let coarse = l2_traffic_coarse(&raster, workers, &bytes, 1 << 40, 3).unwrap();
        prop_assert_eq!(coarse.fetched, (m * bytes.a + n * bytes.b) * k_tiles);
    }
}
