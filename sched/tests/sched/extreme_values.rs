//! Every public entry on the ends of the range, zero, negative and ordinary numbers: a value or a sentence, no panic.

use colex_sched::pipeline::{Multistage, Phase, WarpSpecialized};
use colex_sched::{
    BatchedGemmCoord, Conv, ConvAxis, ConvOperator, DeviceModel, Dim3, Error, GemmCoord, GroupTile,
    Grouped, Order, Persistent, Quantization, Raster, RasterChoice, RasterOrder, StreamK,
    StreamKDevice, StreamKSm90, StreamKSm90Args, ThreadblockSwizzle, Tile, TileBytes, TiledGemm,
    choose, choose_split, clusters_exact, conv3d, gemv, k_tiles, split_k_range, strip_footprint,
    tile_offset_disagreeing_with_grid, tiled_shape,
};
use proptest::prelude::*;
use proptest::test_runner::{Config, RngSeed, TestRunner};

/// Mostly ordinary, now and then 0, negative, or near an end of the range.
fn number() -> impl Strategy<Value = i64> {
    prop_oneof![
        40 => 1..=9_i64,
        6 => 10..=300_i64,
        1 => -2..=0_i64,
        1 => (0..63_u32).prop_map(|k| 1 << k),
        1 => (0..3_i64).prop_map(|n| i64::MAX - n),
        1 => (0..3_i64).prop_map(|n| i64::MIN + n),
    ]
}

/// 1 for a value; an error must have a sentence.
fn told<T>(result: Result<T, Error>) -> u64 {
    match result {
        Ok(_) => 1,
        Err(error) => {
            assert!(!error.to_string().is_empty());
            0
        }
    }
}

/// Runs `check` on many random lists of numbers, and prints how many results it had.
fn law(name: &str, at_least: u64, check: impl Fn(&[i64; 12]) -> u64) {
    let config = Config {
        cases: 4_000,
        failure_persistence: None,
        rng_seed: RngSeed::Fixed(2026),
        ..Config::default()
    };
    let (results, longest) = (
        std::cell::Cell::new(0),
        std::cell::Cell::new(std::time::Duration::ZERO),
    );
    let numbers = prop::collection::vec(number(), 12);
    let run = TestRunner::new(config).run(&numbers, |numbers| {
        let numbers: [i64; 12] = numbers.try_into().expect("there are 12");
        let start = cpu_time::ThreadTime::now();
        results.set(results.get() + check(&numbers));
        let took = start.elapsed();
        longest.set(longest.get().max(took));
        assert!(
            took < std::time::Duration::from_secs(4),
            "{numbers:?} took {took:?}"
        );
        Ok(())
    });
    if let Err(failure) = run {
        panic!("{failure}");
    }
    let results = results.get();
    println!(
        "law {name}: {results} results, the longest case took {:?}",
        longest.get()
    );
    assert!(results >= at_least, "law {name} had {results} results");
}

fn raster_choice(n: i64) -> RasterChoice {
    [
        RasterChoice::AlongM,
        RasterChoice::AlongN,
        RasterChoice::Heuristic,
    ][n.rem_euclid(3) as usize]
}

fn raster_order(n: i64) -> RasterOrder {
    [RasterOrder::AlongM, RasterOrder::AlongN][n.rem_euclid(2) as usize]
}

#[test]
fn swizzles_do_not_panic() {
    law(
        "extreme_swizzles",
        300,
        |&[m, n, k, tm, tn, tk, splits, width, x, y, z, w]| {
            let (problem, tile) = (GemmCoord::new(m, n, k), GemmCoord::new(tm, tn, tk));
            let swizzles = [
                ThreadblockSwizzle::Identity { width },
                ThreadblockSwizzle::SplitKIdentity { width },
                ThreadblockSwizzle::IdentityNoPadding { width },
                ThreadblockSwizzle::StridedDgradIdentity { width },
                ThreadblockSwizzle::Horizontal,
                ThreadblockSwizzle::SplitKHorizontal,
                ThreadblockSwizzle::Batched,
            ];
            let mut results =
                told(tiled_shape(problem, tile, splits)) + told(k_tiles(problem, tile));
            results += told(split_k_range(k, splits, x)) + told(problem.product());
            for swizzle in swizzles {
                let Ok(tiled) = swizzle.tiled_shape(problem, tile, splits) else {
                    continue;
                };
                results += told(swizzle.grid_shape(tiled)) + told(swizzle.log_tile(tiled));
                // Any shape may be asked for, not only a tiled one.
                results += told(swizzle.grid_shape(problem)) + told(swizzle.log_tile(problem));
            }
            let (grid, log) = (Dim3::new(x, y, z), w as u32);
            for swizzle in swizzles {
                results += told(swizzle.tile_offset(problem, grid));
                results += told(swizzle.tile_offset_unbounded(log, grid));
                // Where both are defined, one undoes the other.
                if let Ok(block) = swizzle.block_of(problem, tile) {
                    assert_eq!(swizzle.tile_offset(problem, block), Ok(Some(tile)));
                    results += 1;
                }
            }
            results += told(tile_offset_disagreeing_with_grid(width, problem, grid));
            results += told(gemv::batch_index(grid, width, w));
            let _ = (
                grid.block(w),
                grid.slot(Dim3::new(m, n, k)),
                grid.contains(Dim3::new(k, m, n)),
            );
            results += told(grid.count()) + told(grid.launchable());
            let batched = BatchedGemmCoord::new(m, n, k, w);
            let tiled = gemv::tiled_shape(batched, BatchedGemmCoord::new(tm, tn, tk, splits));
            results + told(tiled.and_then(gemv::grid_shape))
        },
    );
}

#[test]
fn schedulers_do_not_panic() {
    law(
        "extreme_schedulers",
        300,
        |&[m, n, l, cm, cn, width, choice, slot, sms, a, b, c]| {
            let tiles = GemmCoord::new(m, n, l);
            let (choice, order) = (raster_choice(choice), raster_order(choice));
            let mut results = told(clusters_exact(tiles, [cm, cn]));
            let made = [
                Persistent::new(tiles, [cm, cn], width, choice),
                Persistent::new_exact(tiles, [cm, cn], width, choice),
            ];
            for schedule in made.iter().flatten() {
                let _ = (
                    schedule.tile(slot),
                    schedule.tile_padded(slot),
                    schedule.takes_part(slot),
                );
                let tile = Tile::new(a, b, c);
                if let Ok(slot) = schedule.slot_of(tile) {
                    assert_eq!(schedule.tile_padded(slot), Some(tile), "{schedule}");
                }
                if let Some(tile) = schedule.tile(slot) {
                    assert_eq!(schedule.slot_of(tile), Ok(slot), "{schedule}");
                }
                let (grid, block) = (Dim3::new(a, b, 1), Dim3::new(c, slot, 0));
                results += told(schedule.first_slot(grid, block));
                results += told(schedule.slot_of(tile)) + told(schedule.layout());
                results += told(schedule.grid_shape(sms, None));
                results += told(schedule.grid_shape(sms, Some(a)));
                results += told(schedule.grid_shape_unchecked(sms, Some(a)));
            }
            let grouped = Grouped::new(&[[m, n], [a, b]], [cm, cn], [c, l], width, order);
            if let Ok(grouped) = &grouped {
                let _ = (
                    grouped.slots(),
                    grouped.tile(slot),
                    grouped.slots_counted_by_cutlass(),
                );
                if let Some(tile) = grouped.tile(slot) {
                    assert_eq!(grouped.slot_of(tile), Ok(slot));
                }
                results += told(grouped.slot_of(GroupTile {
                    group: c,
                    m: a,
                    n: b,
                }));
                results += told(grouped.grid_shape(sms, Some(a)));
            }
            made.into_iter().map(told).sum::<u64>() + results + told(grouped)
        },
    );
}

#[test]
fn costs_do_not_panic() {
    law(
        "extreme_costs",
        300,
        |&[m, n, k, tm, tn, tk, element, cm, cn, sms, l2_bytes, batches]| {
            let (problem, tile) = (GemmCoord::new(m, n, k), GemmCoord::new(tm, tn, tk));
            let gemm = TiledGemm {
                problem,
                tile,
                batches,
                element,
                cluster: [cm, cn],
            };
            let device = DeviceModel {
                name: "d",
                sms,
                l2_bytes,
            };
            let mut results =
                told(gemm.tiles()) + told(gemm.bytes()) + told(strip_footprint(m, sms));
            results +=
                told(Quantization::of_tiles(m, sms)) + told(TileBytes::new(tile, element, k));
            // What can be walked in the time of a test, or is refused at once: a raster of up to 2^26 places is made.
            if (64..1 << 40).contains(&cm.saturating_mul(cn)) {
                return results;
            }
            let few = gemm
                .tiles()
                .and_then(|tiles| tiles.product())
                .is_ok_and(|tiles| tiles < 24);
            if few && k_tiles(problem, tile).is_ok_and(|steps| !(32..1 << 40).contains(&steps)) {
                results += told(choose(&gemm, &device));
            }
            if tm.saturating_mul(tn) < 64 && (-9..64).contains(&tm) && (-9..64).contains(&tn) {
                results += told(choose_split(GemmCoord::new(tm, tn, batches.min(9)), k, sms))
                    + told(Raster::hilbert(tm, tn));
                results += told(Raster::morton(tm, tn));
                for order in Order::candidates() {
                    results += told(order.raster(GemmCoord::new(tm, tn, 1), [cm, cn]));
                }
            }
            results
        },
    );
}

#[test]
fn convolutions_do_not_panic() {
    law(
        "extreme_convolutions",
        300,
        |&[batch, c, k, h, w, r, s, pad, step, spread, groups, tile]| {
            let axis = |input, filter| {
                ConvAxis::new(input, filter)
                    .pad(pad)
                    .stride(step)
                    .dilation(spread)
            };
            let conv: Conv =
                conv3d(batch, c, k, [axis(h, r), axis(w, s), axis(1, 1)]).groups(groups);
            let operators = [
                ConvOperator::Fprop,
                ConvOperator::Dgrad,
                ConvOperator::Wgrad,
            ];
            let mut results = told(conv.output()) + told(conv.strided_dgrad_tiles_m(tile));
            results += told(conv.depthwise_iterations(h, w, tile));
            for operator in operators {
                results += told(conv.implicit_gemm(operator));
                results += told(conv.k_iterations(operator, tile, r));
            }
            results
        },
    );
}

/// The k-tiles of a problem that was accepted.
fn tk_tiles(k: i64, tile_k: i64) -> i64 {
    k / tile_k + i64::from(k % tile_k != 0)
}

#[test]
fn stream_k_does_not_panic() {
    law(
        "extreme_stream_k",
        300,
        |&[m, n, k, tm, tn, tk, splits, sms, occupancy, fragments, x, c]| {
            let device = StreamKDevice {
                sms,
                available_sms: splits,
                occupancy,
                accumulator_fragments: fragments,
            };
            let (problem, tile) = (GemmCoord::new(m, n, k), GemmCoord::new(tm, tn, tk));
            let made = StreamK::new(problem, tile, splits, device);
            let mut results = 0;
            if let Ok(made) = &made {
                let _ = (made.role(x), made.tile_at(x));
                let grid = made.grid();
                for at in [x, 0, grid.as_ref().map_or(0, |grid| grid.x - 1)] {
                    for segment in made.work(at) {
                        assert!((0..=tk_tiles(k, tk)).contains(&segment.k.end), "{made}");
                    }
                }
                results += told(grid) + made.peers(x).map_or(0, |_| 1);
            }
            let args = StreamKSm90Args {
                cluster: [c, occupancy],
                splits,
                max_swizzle: fragments,
                raster: raster_choice(x),
                ..StreamKSm90Args::new(sms)
            };
            let newer = StreamKSm90::new(problem, tk, args);
            if let Ok(newer) = &newer {
                for unit in [x, 0, newer.units() - 1] {
                    for segment in newer.work(unit) {
                        let slot = newer.raster().slot_of(segment.tile).unwrap();
                        assert!(newer.peers(slot).contains(&unit), "{newer}, unit {unit}");
                        results += 1;
                    }
                }
            }
            results + told(made) + told(newer)
        },
    );
}

#[test]
fn pipelines_do_not_panic() {
    law("extreme_pipelines", 300, |&[a, b, c, d, e, f, g, ..]| {
        let count = |n: i64| n as usize;
        let multistage = Multistage {
            stages: count(a),
            k_tiles: count(b),
            warps: count(c),
        };
        let specialized = WarpSpecialized {
            consumers: count(d),
            in_flight: count(e),
            cluster: [count(f), count(g)],
            ..WarpSpecialized::pingpong(count(a), count(b), count(c))
        };
        let phase = Phase::producer(count(a))
            .advance(count(b))
            .advance(count(c));
        assert!(
            phase.stage < count(a).max(1) && phase.parity < 2,
            "{phase:?}"
        );
        told(multistage.build()) + told(specialized.build())
    });
}

#[test]
fn refusals_of_what_is_too_large_are_sentences() {
    let sentence =
        |result: Result<_, Error>| result.map(|()| String::new()).unwrap_err().to_string();
    let multistage = |stages, k_tiles, warps| {
        sentence(
            Multistage {
                stages,
                k_tiles,
                warps,
            }
            .build()
            .map(drop),
        )
    };
    assert_eq!(
        multistage(3, 70_000, 2),
        "the number of k-tiles is 70000: it can be at most 4095"
    );
    assert_eq!(
        multistage(257, 9, 2),
        "the number of stages is 257: it can be at most 256"
    );
    assert_eq!(
        multistage(3, 9, 65_537),
        "the number of warps is 65537: it can be at most 32"
    );
    let cluster = |cluster| {
        let pipeline = WarpSpecialized {
            cluster,
            ..WarpSpecialized::cooperative(3, 1, 6)
        };
        sentence(pipeline.build().map(drop))
    };
    assert_eq!(
        cluster([17, 1]),
        "extent m of the cluster is 17: it can be at most 16"
    );
    assert_eq!(
        cluster([8, 4]),
        "the number of blocks of the cluster is 32: it can be at most 16"
    );
    let far = GemmCoord::new(1 << 41, 1, 1);
    let one = GemmCoord::new(1, 1, 1);
    assert_eq!(
        sentence(StreamK::new(far, one, 1, StreamKDevice::new(132)).map(drop)),
        "2199023255552 iterations are more than the 2^40 that stream-K counts"
    );
    let gemm = TiledGemm {
        cluster: [0, 1],
        ..TiledGemm::new(one, one)
    };
    assert_eq!(
        sentence(choose(&gemm, &DeviceModel::H200).map(drop)),
        "extent m of the cluster is 0: it must be at least 1"
    );
}
