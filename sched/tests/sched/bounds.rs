//! Work and memory are bounded for all extents: every public function answers soon, or refuses with the bound.

use colex_sched::pipeline::{Durations, Multistage, WarpSpecialized, check, timeline};
use colex_sched::{
    BatchedGemmCoord, Decomposition, DeviceModel, Dim3, Error, GemmCoord, Grouped, Order,
    Persistent, Quantization, Raster, RasterChoice, RasterOrder, SplitCandidate, StreamK,
    StreamKDevice, StreamKSm90, StreamKSm90Args, ThreadblockSwizzle, Tile, TileBytes, TiledGemm,
    choose, choose_split, fetched_closed_form, gemv, l2_traffic, l2_traffic_coarse,
    tile_offset_disagreeing_with_grid, wave_costs,
};
use cpu_time::ThreadTime;
use std::time::Duration;

/// What a function may take of its thread's time: other processes do not count.
const SOON: Duration = Duration::from_millis(400);

#[track_caller]
fn soon<T>(what: &str, run: impl FnOnce() -> T) -> T {
    let start = ThreadTime::now();
    let result = run();
    let took = start.elapsed();
    assert!(took < SOON, "{what} took {took:?}");
    result
}

/// The sentence of an error, after a short time.
#[track_caller]
fn refused<T>(run: impl FnOnce() -> Result<T, Error>) -> String {
    match soon("the refusal", run) {
        Ok(_) => panic!("it must be refused"),
        Err(error) => error.to_string(),
    }
}

const fn tiles(m: i64, n: i64) -> GemmCoord {
    GemmCoord::new(m, n, 1)
}

/// Before, 17 seconds for a 64th of these tiles.
#[test]
fn a_split_of_many_tiles_is_chosen_at_once() {
    let choice = soon("choose_split", || {
        choose_split(tiles(8192, 8192), 64, 132).unwrap()
    });
    // 8192^2 tiles are 508400 waves of 132 and 64 tiles more: what one wave less saves, its fix-up costs many times.
    assert_eq!(choice.best().decomposition, Decomposition::DataParallel);
    let whole = choice
        .candidates
        .iter()
        .find(|c| c.decomposition == Decomposition::DataParallel)
        .unwrap();
    assert_eq!(whole.iterations, 508_401 * 64);
    assert_eq!(
        refused(|| choose_split(tiles(1 << 20, 1 << 20), 64, 132)),
        "70368744177664 iterations are more than the 2^40 that stream-K counts"
    );
    assert_eq!(
        refused(|| choose_split(tiles(8, 8), 64, 65_537)),
        "the number of multiprocessors is 65537: it can be at most 65536"
    );
    assert!(
        soon("choose_split", || choose_split(
            tiles(1 << 10, 1 << 10),
            1000,
            65_535
        ))
        .is_ok()
    );
}

/// The closed form of every candidate, against the units of the schedule one by one.
#[test]
fn the_choice_of_a_split_measures_every_unit() {
    let mut cases = 0;
    let measured = |c: &SplitCandidate, t: GemmCoord, k: i64, sms: i64| {
        let args = StreamKSm90Args {
            decomposition: c.decomposition,
            splits: c.splits,
            raster: RasterChoice::AlongN,
            ..StreamKSm90Args::new(sms)
        };
        let s = StreamKSm90::new(t, k, args).unwrap();
        let mut each = vec![0i64; sms as usize];
        let mut peers = std::collections::BTreeMap::<Tile, i64>::new();
        for unit in 0..s.units() {
            for segment in s.work(unit) {
                each[(unit % sms) as usize] += segment.len();
                *peers.entry(segment.tile).or_default() += 1;
            }
        }
        (each.into_iter().max(), peers.into_values().max())
    };
    for (m, n, l) in (1..=5).flat_map(|m| (1..=4).flat_map(move |n| [(m, n, 1), (m, n, 2)])) {
        for k in [1, 2, 8, 9, 15, 17, 32, 65] {
            for sms in [1, 2, 3, 4, 7, 13, 32] {
                let t = GemmCoord::new(m, n, l);
                for c in choose_split(t, k, sms).unwrap().candidates {
                    let found = (Some(c.iterations), Some(c.peers));
                    assert_eq!(found, measured(&c, t, k, sms), "{c:?} of {t}, {k}, {sms}");
                    cases += 1;
                }
            }
        }
    }
    println!("law choose_split.measures_every_unit: {cases} cases");
}

/// The peers of every tile, against all units, clusters and batches included.
#[test]
fn peers_are_found_by_search() {
    let mut cases = 0;
    for (m, n) in (1..=9).flat_map(|m| (1..=6).map(move |n| (m, n))) {
        for k in [9, 12, 16, 31, 64] {
            for (sms, cluster) in [(4, [1, 1]), (7, [1, 1]), (18, [2, 1]), (36, [2, 2])] {
                let args = StreamKSm90Args {
                    decomposition: Decomposition::StreamK,
                    cluster,
                    ..StreamKSm90Args::new(sms)
                };
                let s = StreamKSm90::new(tiles(m, n), k, args).unwrap();
                let mut found = vec![Vec::new(); s.raster().slots() as usize];
                for unit in 0..s.units() {
                    for segment in s.work(unit) {
                        let at = s.raster().slot_of(segment.tile).unwrap() as usize;
                        found[at].push((segment.k.start, unit));
                    }
                }
                for (slot, mut units) in found.into_iter().enumerate() {
                    units.sort_unstable();
                    let units: Vec<i64> = units.into_iter().map(|(_, unit)| unit).collect();
                    assert_eq!(s.peers(slot as i64), units, "{s}, place {slot}");
                    cases += 1;
                }
            }
        }
    }
    println!("law stream_k_sm90.peers_are_found_by_search: {cases} cases");
}

/// Before, these wrapped round or stopped the program.
#[test]
fn a_block_beyond_every_grid_is_refused() {
    let eight = ThreadblockSwizzle::Identity { width: 8 };
    assert_eq!(
        refused(|| eight.block_of(tiles(1 << 60, 8), tiles(1 << 59, 7))),
        "the grid's x is beyond 64-bit integers"
    );
    let across = ThreadblockSwizzle::Horizontal;
    assert_eq!(
        refused(|| across.block_of(tiles(1 << 40, 4), GemmCoord::new(1 << 39, 1, 0))),
        "the grid needs 1099511627776 blocks along y, and a device takes at most 65535"
    );
    let unbounded = |log, block| refused(move || eight.tile_offset_unbounded(log, block));
    assert_eq!(
        unbounded(63, Dim3::new(1, 1, 1)),
        "the base-2 logarithm of the width is 63: it can be at most 62"
    );
    assert_eq!(
        unbounded(3, Dim3::new(1, 1 << 61, 1)),
        "the column of the tile is beyond 64-bit integers"
    );
    assert_eq!(
        unbounded(3, Dim3::new(-1, 1, 1)),
        "x of the block is -1: it must be at least 0"
    );
    let far = Dim3::new(0, i64::MAX, 0);
    assert_eq!(
        refused(|| tile_offset_disagreeing_with_grid(4, tiles(9, 9), far)),
        "the column of the tile is beyond 64-bit integers"
    );
    assert_eq!(
        refused(|| gemv::batch_index(far, 3, 0)),
        "the batch is beyond 64-bit integers"
    );
    let s = Persistent::new(tiles(4, 4), [1, 1], 1, RasterChoice::AlongN).unwrap();
    assert_eq!(
        refused(|| s.first_slot(Dim3::new(2, 2, 1), Dim3::new(0, 5, 0))),
        "block (0,5,0) is outside (2,2,1)"
    );
    assert_eq!(
        refused(|| Dim3::new(4, 0, -1).launchable()),
        "extent y of the grid is 0: it must be at least 1"
    );
    assert_eq!(
        refused(|| gemv::grid_shape(BatchedGemmCoord::new(1, -4, 1, 1))),
        "extent x of the grid is -4: it must be at least 1"
    );
}

/// Over all small grids: a tile has the block that brute force finds, and what is no tile has none.
#[test]
fn the_block_of_a_tile_is_the_one_that_computes_it() {
    let mut cases = 0;
    for swizzle in ThreadblockSwizzle::all() {
        for (m, n) in (1..=9).flat_map(|m| (1..=9).map(move |n| (m, n))) {
            let (t, mut blocks) = (tiles(m, n), std::collections::BTreeMap::new());
            let grid = swizzle.grid_shape(t).unwrap();
            for slot in 0..grid.count().unwrap() {
                let block = grid.block(slot).unwrap();
                if let Some(tile) = swizzle.tile_offset(t, block).unwrap() {
                    assert_eq!(blocks.insert(tile.to_string(), block), None);
                }
            }
            for (i, j, k) in (-2..=m + 2)
                .flat_map(|i| (-2..=n + 2).flat_map(move |j| (-1..=1).map(move |k| (i, j, k))))
            {
                let tile = GemmCoord::new(i, j, k);
                let found = swizzle.block_of(t, tile);
                match blocks.get(&tile.to_string()) {
                    Some(block) => assert_eq!(found.unwrap(), *block),
                    None => assert!(found.unwrap_err().is_outside()),
                }
                cases += 1;
            }
        }
    }
    println!("law swizzle.the_block_of_a_tile: {cases} cases");
}

#[test]
fn rasters_and_costs_are_bounded() {
    let table = "a raster of 2147483648 places is more than the 1048576 that fit a table";
    let wide = |m, n| Raster::grouped(m, n, 8, RasterOrder::AlongM);
    assert_eq!(refused(|| wide(1 << 16, 1 << 15)), table);
    assert_eq!(refused(|| Raster::hilbert(1 << 16, 1 << 15)), table);
    assert_eq!(refused(|| Raster::morton(1 << 16, 1 << 15)), table);
    assert_eq!(
        refused(|| Raster::hilbert(1 << 31, 1 << 31)),
        "a raster of 4611686018427387904 places is more than the 1048576 that fit a table"
    );
    for order in Order::candidates() {
        assert_eq!(
            refused(|| order.raster(tiles(1 << 16, 1 << 15), [1, 1])),
            table
        );
    }
    let raster = soon("Raster::hilbert", || Raster::hilbert(1024, 1024).unwrap());
    let bytes = TileBytes::new(GemmCoord::new(128, 128, 64), 2, 1).unwrap();
    assert!(soon("wave_costs", || wave_costs(&raster, 132, &bytes)).is_ok());
    assert!(soon("l2_traffic", || l2_traffic(&raster, 132, &bytes, 50 << 20)).is_ok());
    let deep = TileBytes {
        k_tiles: 1 << 20,
        ..bytes
    };
    assert_eq!(
        refused(|| l2_traffic(&raster, 132, &deep, 50 << 20)),
        "2199023255552 touches of slices are more than the 4194304 that are simulated: use fewer steps along k"
    );
    assert_eq!(
        refused(|| l2_traffic_coarse(&raster, 132, &deep, 50 << 20, 8)),
        "16777216 touches of slices are more than the 4194304 that are simulated: use fewer steps along k"
    );
    assert!(
        soon("the closed form", || fetched_closed_form(
            &raster, 132, &deep, 1
        ))
        .is_ok()
    );
    assert!(soon("of_raster", || Quantization::of_raster(&raster, 1 << 62)).is_ok());
    let far = GemmCoord::new(1 << 30, 1 << 30, 1 << 30);
    let gemm = TiledGemm::new(far, GemmCoord::new(1, 1, 1));
    assert_eq!(
        refused(|| choose(&gemm, &DeviceModel::H200)),
        "a raster of 1152921504606846976 places is more than the 1048576 that fit a table"
    );
}

/// Products of more steps than are simulated are ranked by fewer, and smaller ones as before.
#[test]
fn orders_of_large_products_are_chosen() {
    let tile = GemmCoord::new(128, 128, 64);
    let mut cases = 0;
    for problem in [
        GemmCoord::new(20_480, 20_480, 20_480),
        GemmCoord::new(32_768, 8_192, 28_672),
        // 8191 k-tiles, a prime number: one step, as it is more than 512 of 64 by 64 tiles.
        GemmCoord::new(8_192, 8_192, 64 * 8_191),
        GemmCoord::new(128 << 10, 128 << 10, 64 * 1_024),
        GemmCoord::new(128, 128, 64 * ((1 << 22) + 1)),
    ] {
        let gemm = TiledGemm::new(problem, tile);
        let choice = choose(&gemm, &DeviceModel::H200).unwrap();
        assert_eq!(choice.candidates.len(), Order::candidates().len());
        let whole = (problem.m + problem.n) * problem.k * 2;
        for c in &choice.candidates {
            assert!(
                whole <= c.fetched && c.fetched <= c.requested,
                "{problem}: {c:?}"
            );
            cases += 1;
        }
    }
    // As many steps as before wherever they can be simulated.
    for (m, n, k) in [
        (1, 1, 1),
        (8, 8, 7),
        (8, 16, 128),
        (64, 64, 512),
        (512, 256, 8),
    ] {
        let gemm = TiledGemm::new(GemmCoord::new(128 * m, 128 * n, 64 * k), tile);
        let bytes = gemm.bytes().unwrap();
        for c in choose(&gemm, &DeviceModel::A100).unwrap().candidates {
            let raster = c.order.raster(gemm.tiles().unwrap(), [1, 1]).unwrap();
            let waves = wave_costs(&raster, 108, &bytes).unwrap();
            let largest = waves.iter().map(|w| w.bytes()).max().unwrap();
            let steps = (largest / ((40 << 20) / 8) + 1).clamp(8, 1 << 12);
            let coarse = l2_traffic_coarse(&raster, 108, &bytes, 40 << 20, steps).unwrap();
            assert_eq!((c.requested, c.fetched), (coarse.requested, coarse.fetched));
            cases += 1;
        }
    }
    println!("law choose.orders_of_large_products_are_chosen: {cases} cases");
}

#[test]
fn schedulers_are_bounded() {
    let one = GemmCoord::new(1, 1, 1);
    let device = StreamKDevice {
        occupancy: 1 << 16,
        ..StreamKDevice::new(1 << 16)
    };
    assert_eq!(
        refused(|| StreamK::new(GemmCoord::new(1 << 20, 1, 1 << 20), one, 1, device)),
        "65536 blocks on each of 65536 multiprocessors are 4294967296: it can be at most 1048576"
    );
    let device = StreamKDevice {
        occupancy: 16,
        ..StreamKDevice::new((1 << 16) - 1)
    };
    let s = soon("StreamK::new", || {
        StreamK::new(GemmCoord::new((1 << 20) + 1, 1, 1 << 19), one, 1, device).unwrap()
    });
    soon("StreamK::work", || {
        (0..100).map(|x| s.work(x << 20).len()).sum::<usize>()
    });
    let args = StreamKSm90Args {
        raster: RasterChoice::AlongM,
        ..StreamKSm90Args::new(1 << 31)
    };
    assert_eq!(
        refused(|| StreamKSm90::new(tiles(1 << 20, 1), 1 << 20, args)),
        "the number of multiprocessors is 2147483648: it can be at most 65536"
    );
    let many = tiles(1 << 20, 1 << 20);
    let s = soon("Persistent::new", || {
        Persistent::new(many, [2, 1], 8, RasterChoice::Heuristic).unwrap()
    });
    soon("Persistent::layout", || s.layout().unwrap());
    soon("Persistent::tile", || s.tile(s.slots() - 1).unwrap());
    let wide = 1 << 62;
    let groups = soon("Grouped::new", || {
        Grouped::new(&[[wide, 1]; 1], [1, 1], [1, 1], 1, RasterOrder::AlongM).unwrap()
    });
    assert_eq!(soon("Grouped::slots", || groups.slots()), wide);
}

#[test]
fn pictures_are_bounded() {
    let raster = Raster::grouped(1, 1 << 10, 1, RasterOrder::AlongM).unwrap();
    assert!(soon("a picture", || raster.picture(8)).is_ok());
    let raster = Raster::grouped(1, 1 << 20, 1, RasterOrder::AlongM).unwrap();
    assert_eq!(
        refused(|| raster.picture(8)),
        "a picture of 1048576 tiles: it can hold at most 65536"
    );
    let args = StreamKSm90Args {
        splits: 1 << 15,
        decomposition: Decomposition::SplitK,
        ..StreamKSm90Args::new(1 << 15)
    };
    let s = StreamKSm90::new(tiles(100, 100), 1 << 15, args).unwrap();
    assert_eq!(
        refused(|| s.picture()),
        "a picture of 327680000 units: it can hold at most 65536"
    );
    assert_eq!(
        refused(|| s.iterations_picture()),
        "a picture of 327680000 units: it can hold at most 65536"
    );
    let deep = StreamKSm90::new(tiles(1, 1), 1 << 20, StreamKSm90Args::new(4)).unwrap();
    assert_eq!(
        refused(|| deep.iterations_picture()),
        "a picture of 1048576 k-tiles: it can hold at most 65536"
    );
    let one = GemmCoord::new(1, 1, 1);
    let s = StreamK::new(
        GemmCoord::new(1, 1, 1 << 30),
        one,
        1 << 30,
        StreamKDevice::new(4),
    )
    .unwrap();
    assert_eq!(
        refused(|| s.picture()),
        "a picture of 1073741824 blocks: it can hold at most 65536"
    );
    let groups = [[1 << 40, 1 << 20]];
    let s = Grouped::new(&groups, [1, 1], [1, 1], 1, RasterOrder::AlongM).unwrap();
    assert_eq!(
        refused(|| s.picture(4)),
        "a picture of 1152921504606846976 places: it can hold at most 65536"
    );
    let plan = WarpSpecialized::cooperative(2, 1, 4).build().unwrap();
    let durations = Durations {
        load: 1 << 40,
        multiply: 1,
        epilogue: 1,
    };
    assert!(refused(|| plan.picture(&durations)).ends_with("cells: it can hold at most 65536"));
}

/// The largest plans that are walked.
#[test]
fn the_largest_pipelines_are_walked() {
    let plan = Multistage {
        stages: 8,
        k_tiles: 300,
        warps: 8,
    };
    let plan = plan.build().unwrap();
    let start = ThreadTime::now();
    let report = check(&plan).unwrap();
    println!("{report:?} after {:?}", start.elapsed());
    assert!(start.elapsed() < Duration::from_secs(4));
    let durations = Durations {
        load: 4,
        multiply: 2,
        epilogue: 1,
    };
    soon("timeline", || timeline(&plan, &durations)).unwrap();
}
