//! Laws of the threadblock swizzles: over every grid up to 33 by 33, then over random large ones.

use colex_sched::{
    Conv, ConvAxis, ConvOperator, Dim3, Error, Expr, GemmCoord, Raster, ThreadblockSwizzle, conv2d,
    conv3d, split_k_range, tile_offset_disagreeing_with_grid, tiled_shape,
};
use proptest::prelude::*;

fn tiles(m: i64, n: i64, k: i64) -> GemmCoord {
    GemmCoord::new(m, n, k)
}

fn every_swizzle() -> Vec<ThreadblockSwizzle> {
    let mut all = ThreadblockSwizzle::all();
    for width in [1, 2, 3, 4, 5, 8, 16] {
        all.push(ThreadblockSwizzle::Identity { width });
        all.push(ThreadblockSwizzle::StridedDgradIdentity { width });
        all.push(ThreadblockSwizzle::DepthwiseDirect2dConv {
            width,
            output: [1, 4, 4],
        });
    }
    all.push(ThreadblockSwizzle::StridedDgradHorizontal);
    all
}

/// Every tile has exactly one block, and `block_of` finds it.
fn check_bijection(swizzle: ThreadblockSwizzle, tiled: GemmCoord) -> i64 {
    let grid = swizzle.grid_shape(tiled).expect("the grid is small");
    let mut seen = vec![false; tiled.product().expect("small") as usize];
    let mut busy = 0;
    for slot in 0..grid.count().expect("small") {
        let block = grid.block(slot).expect("a slot below the count is a block");
        assert_eq!(grid.slot(block), Some(slot));
        let Some(t) = swizzle
            .tile_offset(tiled, block)
            .expect("the block is in the grid")
        else {
            continue;
        };
        let at = (t.m + tiled.m * (t.n + tiled.n * t.k)) as usize;
        assert!(
            !std::mem::replace(&mut seen[at], true),
            "{swizzle} over {tiled}: tile {t} twice"
        );
        assert_eq!(
            swizzle.block_of(tiled, t),
            Ok(block),
            "{swizzle} over {tiled}"
        );
        busy += 1;
    }
    assert_eq!(
        busy,
        seen.len() as i64,
        "{swizzle} over {tiled} misses tiles"
    );
    busy
}

#[test]
fn swizzle_every_tile_exactly_once() {
    let mut cases = 0;
    for swizzle in every_swizzle() {
        for (m, n) in (1..=33).flat_map(|m| (1..=33).map(move |n| (m, n))) {
            let k = 1 + (m + n) % 3;
            check_bijection(swizzle, tiles(m, n, k));
            cases += 1;
        }
    }
    assert_eq!(cases, every_swizzle().len() as i64 * 33 * 33);
    println!("law swizzle.every_tile_exactly_once: {cases} cases");
}

#[test]
fn swizzle_formula_as_expression_agrees() {
    let mut cases = 0;
    for swizzle in ThreadblockSwizzle::all() {
        for (m, n) in (1..=9).flat_map(|m| (1..=9).map(move |n| (m, n))) {
            let tiled = tiles(m, n, 1);
            let (grid, log) = (
                swizzle.grid_shape(tiled).unwrap(),
                swizzle.log_tile(tiled).unwrap(),
            );
            let [em, en] = swizzle.formula(Expr::var("bx"), Expr::var("by"), log);
            for slot in 0..grid.count().unwrap() {
                let block = grid.block(slot).unwrap();
                let value = |name: &str| Some(if name == "bx" { block.x } else { block.y });
                let t = swizzle.tile_offset_unbounded(log, block).unwrap();
                assert_eq!(
                    (em.eval(&value), en.eval(&value)),
                    (Some(t.m), Some(t.n)),
                    "{swizzle} {block}"
                );
                cases += 1;
            }
        }
    }
    println!("law swizzle.formula_as_expression_agrees: {cases} cases");
}

/// The thresholds keep the first strip three quarters full, and nothing guards the second: at 9 columns of 16, the
/// worst there is, 7 are idle.
#[test]
fn log_tile_bounds_the_idle_blocks() {
    let mut cases = 0;
    for (width, n) in [1, 2, 4, 8]
        .into_iter()
        .flat_map(|w| (1..=2000).map(move |n| (w, n)))
    {
        let swizzle = ThreadblockSwizzle::Identity { width };
        let strip = 1i64 << swizzle.log_tile(tiles(1, n, 1)).unwrap();
        let padded = (n + strip - 1) / strip * strip;
        assert!(strip <= width && padded - n < strip);
        assert!(
            9 * padded <= 16 * n,
            "width {width}, n {n}: {} of {padded} columns idle",
            padded - n
        );
        let none = ThreadblockSwizzle::IdentityNoPadding { width };
        assert_eq!(none.grid_shape(tiles(1, n, 1)).unwrap().count(), Ok(n));
        cases += 1;
    }
    println!("law swizzle.log_tile_bounds_the_idle_blocks: {cases} cases");
}

/// S77: over m, n in 1..=11 CUTLASS's second overload breaks the grid of the first in 0, 10, 46 and 94 of 121 shapes.
#[test]
fn the_other_overload_disagrees_with_its_grid() {
    let broken = |width: i64| {
        let shapes = (1..=11).flat_map(|m| (1..=11).map(move |n| tiles(m, n, 1)));
        shapes.filter(|&tiled| !covers(width, tiled)).count()
    };
    assert_eq!([1, 2, 4, 8].map(broken), [0, 10, 46, 94]);
    assert!(!covers(2, tiles(1, 2, 1)));
    println!("law swizzle.the_other_overload_disagrees_with_its_grid: 484 cases");
}

/// Whether the overload covers every tile exactly once on the grid that is launched.
fn covers(width: i64, tiled: GemmCoord) -> bool {
    let grid = ThreadblockSwizzle::Identity { width }
        .grid_shape(tiled)
        .unwrap();
    let tile = |slot| {
        let t = tile_offset_disagreeing_with_grid(width, tiled, grid.block(slot)?).ok()?;
        tiled
            .contains(t)
            .then_some(colex_sched::Tile::new(t.m, t.n, t.k))
    };
    Raster::new(
        "overload",
        tiled,
        (0..grid.count().unwrap()).map(tile).collect(),
    )
    .is_ok()
}

/// S78 and S79: the two pictures of 4 by 4 tiles.
#[test]
fn the_two_pictures() {
    let picture = |width| {
        Raster::of_swizzle(ThreadblockSwizzle::Identity { width }, tiles(4, 4, 1))
            .unwrap()
            .to_string()
    };
    assert_eq!(
        picture(1),
        " 0  4  8 12\n 1  5  9 13\n 2  6 10 14\n 3  7 11 15\n"
    );
    assert_eq!(
        picture(2),
        " 0  1  8  9\n 2  3 10 11\n 4  5 12 13\n 6  7 14 15\n"
    );
    for width in [4, 8] {
        let swizzle = ThreadblockSwizzle::Identity { width };
        assert_eq!(swizzle.grid_shape(tiles(4, 4, 1)), Ok(Dim3::new(16, 1, 1)));
        assert_eq!(swizzle.log_tile(tiles(4, 4, 1)), Ok(2));
    }
}

#[test]
fn names_round_trip() {
    for swizzle in every_swizzle() {
        assert_eq!(swizzle.to_string().parse(), Ok(swizzle));
    }
    assert_eq!(
        "GemmIdentity".parse(),
        Ok(ThreadblockSwizzle::Identity { width: 1 })
    );
    for wrong in [
        "GemmIdentity<",
        "GemmIdentity<x>",
        "GemmHorizontal<2>",
        "Identity<2>",
        "",
    ] {
        assert!(wrong.parse::<ThreadblockSwizzle>().is_err(), "{wrong}");
    }
}

#[track_caller]
fn refuses<T: std::fmt::Debug>(result: Result<T, Error>, sentence: &str) {
    assert_eq!(result.expect_err("must be refused").to_string(), sentence);
}

#[test]
fn errors_are_sentences() {
    let (problem, tile) = (tiles(256, 256, 128), tiles(128, 128, 32));
    refuses(
        tiled_shape(tiles(0, 4, 4), tile, 1),
        "extent m of the problem is 0: it must be at least 1",
    );
    refuses(
        tiled_shape(problem, tiles(128, 0, 32), 1),
        "extent n of the tile is 0: it must be at least 1",
    );
    refuses(
        tiled_shape(problem, tile, 0),
        "the number of splits is 0: it must be at least 1",
    );
    refuses(
        tiled_shape(problem, tile, 5),
        "5 splits of 4 k-tiles: every split needs a k-tile, so at most 4",
    );
    refuses(
        split_k_range(4, 5, 0),
        "5 splits of 4 k-tiles: every split needs a k-tile, so at most 4",
    );
    refuses(split_k_range(4, 2, 2), "split (0,0,2) is outside (1,1,2)");
    let huge = i64::MAX;
    refuses(
        tiled_shape(tiles(huge, huge, 1), tiles(1, 1, 1), 1),
        "the number of tiles is beyond 64-bit integers",
    );
    let one = ThreadblockSwizzle::Identity { width: 1 };
    refuses(
        one.grid_shape(tiles(1, 70_000, 1)),
        "the grid needs 70000 blocks along y, and a device takes at most 65535",
    );
    refuses(
        one.grid_shape(tiles(0, 1, 1)),
        "extent m in tiles is 0: it must be at least 1",
    );
    refuses(
        one.tile_offset(tiles(2, 2, 1), Dim3::new(2, 0, 0)),
        "block (2,0,0) is outside (2,2,1)",
    );
    refuses(
        one.block_of(tiles(2, 2, 1), tiles(0, 2, 0)),
        "tile (0,2,0) is outside (2,2,1)",
    );
    let none = ThreadblockSwizzle::Identity { width: 0 };
    refuses(
        none.log_tile(tiles(2, 2, 1)),
        "the width of the swizzle is 0: it must be at least 1",
    );
    let batched = ThreadblockSwizzle::Batched;
    refuses(
        batched.tiled_shape(problem, tile, 65_536),
        "the grid needs 65536 blocks along z, and a device takes at most 65535",
    );
    refuses(
        ThreadblockSwizzle::StridedDgradHorizontal.tiled_shape(problem, tile, 1),
        "StridedDgradHorizontal maps convolutions only, not a plain GEMM",
    );
    refuses(
        "Gemm".parse::<ThreadblockSwizzle>(),
        "\"Gemm\" names no threadblock swizzle: expected for example GemmIdentity<8> or GemmHorizontal",
    );
}

#[test]
fn convolution_errors_are_sentences() {
    let (side, tile) = (ConvAxis::new(8, 3), tiles(64, 64, 32));
    let conv = conv2d(2, 6, 4, side, side);
    let fprop = |conv: Conv| conv.implicit_gemm(ConvOperator::Fprop);
    refuses(
        fprop(conv.groups(4)),
        "4 groups do not divide C = 6 channels",
    );
    refuses(
        fprop(conv2d(2, 6, 4, side, ConvAxis::new(2, 3))),
        "the filter spans 3 positions along W, and the padded input has 2",
    );
    refuses(
        fprop(conv2d(2, 6, 4, side.stride(0), side)),
        "a stride is 0: it must be at least 1",
    );
    refuses(
        conv.k_iterations(ConvOperator::Fprop, 32, 7),
        "7 splits of 6 k-tiles: every split needs a k-tile, so at most 6",
    );
    let dgrad = ThreadblockSwizzle::StridedDgradIdentity { width: 1 };
    refuses(
        dgrad.conv_tiled_shape(ConvOperator::Fprop, &conv, tile, 1),
        "StridedDgradIdentity<1> maps data gradients only",
    );
    refuses(
        ThreadblockSwizzle::Batched.conv_tiled_shape(ConvOperator::Fprop, &conv, tile, 1),
        "GemmBatchedIdentity maps plain GEMMs only",
    );
    let deep = conv3d(1, 8, 8, [side, side, side]);
    refuses(
        deep.strided_dgrad_tiles_m(64),
        "the strided dgrad swizzles map convolutions over two axes",
    );
}

#[test]
fn convolutions_as_implicit_gemms() {
    let (h, w) = (
        ConvAxis::new(14, 3).pad(1).stride(2),
        ConvAxis::new(15, 5).pad(2).dilation(2),
    );
    let conv = conv2d(4, 32, 64, h, w);
    assert_eq!(conv.output(), Ok([1, 7, 11]));
    assert_eq!(
        conv.implicit_gemm(ConvOperator::Fprop),
        Ok(tiles(4 * 7 * 11, 64, 3 * 5 * 32))
    );
    assert_eq!(
        conv.implicit_gemm(ConvOperator::Dgrad),
        Ok(tiles(4 * 14 * 15, 32, 3 * 5 * 64))
    );
    assert_eq!(
        conv.implicit_gemm(ConvOperator::Wgrad),
        Ok(tiles(64, 3 * 5 * 32, 4 * 7 * 11))
    );
    assert_eq!(
        conv.groups(8).implicit_gemm(ConvOperator::Fprop),
        Ok(tiles(308, 64, 15 * 4))
    );
    let deep = conv3d(
        2,
        8,
        16,
        [
            ConvAxis::new(6, 3),
            ConvAxis::new(7, 1),
            ConvAxis::new(8, 2).stride(2),
        ],
    );
    assert_eq!(deep.output(), Ok([4, 7, 4]));
    assert_eq!(
        deep.implicit_gemm(ConvOperator::Fprop),
        Ok(tiles(2 * 4 * 7 * 4, 16, 3 * 2 * 8))
    );
    assert_eq!(
        deep.implicit_gemm(ConvOperator::Wgrad),
        Ok(tiles(16, 3 * 2 * 8, 2 * 4 * 7 * 4))
    );
    // 15 taps of one 32-channel slice each, although K = 480 is 15 k-tiles of 32 either way; with 24 channels it is not.
    assert_eq!(conv.k_iterations(ConvOperator::Fprop, 32, 1), Ok(15));
    assert_eq!(
        conv2d(4, 24, 64, h, w).k_iterations(ConvOperator::Fprop, 32, 1),
        Ok(15)
    );
    assert_eq!(conv.k_iterations(ConvOperator::Wgrad, 32, 2), Ok(5));
}

#[test]
fn convolution_swizzles() {
    let side = ConvAxis::new(15, 3).pad(1).stride(2);
    let (conv, tile) = (conv2d(4, 100, 64, side, side), tiles(64, 64, 32));
    let strided = ThreadblockSwizzle::StridedDgradIdentity { width: 2 };
    // 4 images of 8 x 8 rows for each of the 4 starting taps: 4 tiles each.
    assert_eq!(
        strided.conv_tiled_shape(ConvOperator::Dgrad, &conv, tile, 1),
        Ok(tiles(16, 2, 1))
    );
    let plain = ThreadblockSwizzle::Identity { width: 2 };
    assert_eq!(
        plain.conv_tiled_shape(ConvOperator::Dgrad, &conv, tile, 1),
        Ok(tiles(15, 2, 1))
    );
    let depthwise = ThreadblockSwizzle::DepthwiseDirect2dConv {
        width: 4,
        output: [1, 4, 4],
    };
    let channels = conv2d(4, 64, 256, side, side).groups(64);
    assert_eq!(
        depthwise.conv_tiled_shape(ConvOperator::Fprop, &channels, tile, 3),
        Ok(tiles(1, 4, 3))
    );
    assert_eq!(channels.depthwise_iterations(4, 4, 3), Ok(6));
}

/// A dilated filter fits as often as a direct count says.
#[test]
fn output_positions_by_counting() {
    let mut cases = 0;
    for (input, filter, pad) in
        (1..=9).flat_map(|i| (1..=4).flat_map(move |f| (0..=2).map(move |p| (i, f, p))))
    {
        for (stride, dilation) in (1..=3).flat_map(|s| (1..=3).map(move |d| (s, d))) {
            let axis = ConvAxis::new(input, filter)
                .pad(pad)
                .stride(stride)
                .dilation(dilation);
            let fits = |start: i64| start + (filter - 1) * dilation < input + pad;
            let count = (0..)
                .map(|i| i * stride - pad)
                .take_while(|&start| fits(start))
                .count() as i64;
            match conv2d(1, 1, 1, axis, ConvAxis::new(1, 1)).output() {
                Ok(output) => assert_eq!(output, [1, count, 1], "{axis:?}"),
                Err(_) => assert_eq!(count, 0, "{axis:?}"),
            }
            cases += 1;
        }
    }
    println!("law conv.output_positions_by_counting: {cases} cases");
}

proptest! {
    #[test]
    fn large_grids_invert(m in 1i64..5000, n in 1i64..60_000, pick in 0usize..15, seed in 0u64..u64::MAX) {
        let all = ThreadblockSwizzle::all();
        let (swizzle, tiled) = (all[pick % all.len()], tiles(m, n, 1 + (seed % 7) as i64));
        let grid = swizzle.grid_shape(tiled).unwrap();
        let slot = (seed % grid.count().unwrap() as u64) as i64;
        let block = grid.block(slot).unwrap();
        if let Some(tile) = swizzle.tile_offset(tiled, block).unwrap() {
            prop_assert_eq!(swizzle.block_of(tiled, tile).unwrap(), block);
        }
        let tile = tiles((seed >> 8) as i64 % m, (seed >> 20) as i64 % n, (seed >> 40) as i64 % tiled.k);
        let home = swizzle.block_of(tiled, tile).unwrap();
        prop_assert_eq!(swizzle.tile_offset(tiled, home).unwrap(), Some(tile));
    }

    #[test]
    fn splits_cover_k_in_order(k in 1i64..100_000, parts in 1i64..300) {
        let splits = parts.min(k);
        let mut next = 0;
        for split in 0..splits {
            let range = split_k_range(k, splits, split).unwrap();
            prop_assert_eq!(range.start, next);
            prop_assert!(range.end - range.start >= k / splits && range.end - range.start <= k / splits + 1);
            next = range.end;
        }
        prop_assert_eq!(next, k);
    }
}
