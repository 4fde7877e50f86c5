//! Laws of the persistent scheduler, the grouped one, and the rasters.

use colex_sched::{
    Dim3, Error, Expr, GemmCoord, GroupTile, Grouped, Persistent, Raster, RasterChoice,
    RasterOrder, Tile, formula,
};
use proptest::prelude::*;

const CHOICES: [RasterChoice; 3] = [
    RasterChoice::AlongM,
    RasterChoice::AlongN,
    RasterChoice::Heuristic,
];

fn tiles(m: i64, n: i64, l: i64) -> GemmCoord {
    GemmCoord::new(m, n, l)
}

/// Every padded tile has one place, and the inverse finds it; every real tile is among them.
fn check_bijection(s: &Persistent) {
    let (blocks, mut real) = (s.blocks(), 0);
    let mut seen = vec![false; s.slots() as usize];
    for slot in 0..s.slots() {
        let t = s.tile_padded(slot).expect("a place below the count");
        let at = (t.m + blocks[0] * (t.n + blocks[1] * t.l)) as usize;
        assert!(!std::mem::replace(&mut seen[at], true), "{s}: {t} twice");
        assert_eq!(s.slot_of(t), Ok(slot), "{s}");
        real += i64::from(s.tile(slot).is_some());
    }
    assert_eq!(real, s.tiles().product().unwrap(), "{s} misses tiles");
}

#[test]
fn persistent_every_tile_exactly_once() {
    let mut cases = 0i64;
    for (m, n) in (1..=33).flat_map(|m| (1..=33).map(move |n| (m, n))) {
        for cluster in [
            [1, 1],
            [2, 1],
            [1, 2],
            [2, 2],
            [4, 1],
            [1, 4],
            [4, 2],
            [3, 2],
        ] {
            for max_swizzle in [1, 2, 4, 8] {
                for choice in &CHOICES[..2] {
                    check_bijection(
                        &Persistent::new(tiles(m, n, 1), cluster, max_swizzle, *choice).unwrap(),
                    );
                    cases += 1;
                }
            }
        }
    }
    println!("law persistent.every_tile_exactly_once: {cases} cases");
}

/// Workers that step by the whole grid visit every tile exactly once, on every device.
#[test]
fn persistent_workers_share_the_tiles() {
    let mut cases = 0;
    for (m, n, l) in [
        (1, 1, 1),
        (4, 4, 1),
        (5, 7, 2),
        (13, 3, 1),
        (16, 16, 1),
        (3, 31, 3),
    ] {
        for (cluster, sms) in [
            ([1, 1], 8),
            ([1, 1], 132),
            ([2, 1], 132),
            ([1, 2], 7),
            ([2, 2], 78),
            ([4, 1], 148),
        ] {
            for (choice, clusters) in CHOICES
                .iter()
                .flat_map(|c| [None, Some(3)].map(|a| (*c, a)))
            {
                let s = Persistent::new(tiles(m, n, l), cluster, 4, choice).unwrap();
                let grid = s.grid_shape(sms, clusters).unwrap();
                assert!(
                    grid.x % cluster[0] == 0 && grid.y % cluster[1] == 0,
                    "{s}: {grid}"
                );
                assert!(grid.count().unwrap() <= sms.min(s.slots()));
                let workers = grid.count().unwrap();
                let mut table: Vec<Option<Tile>> = vec![None; s.slots() as usize];
                for worker in (0..workers).map(|w| grid.block(w).unwrap()) {
                    let first = s.first_slot(grid, worker).unwrap();
                    for slot in (first..s.slots()).step_by(workers as usize) {
                        table[slot as usize] = s.tile(slot);
                    }
                }
                assert_eq!(
                    Raster::new("w", s.tiles(), table).unwrap().slots(),
                    Raster::of_persistent(&s).unwrap().slots()
                );
                cases += 1;
            }
        }
    }
    println!("law persistent.workers_share_the_tiles: {cases} cases");
}

/// The blocks of one cluster are the blocks of one rectangle of tiles.
#[test]
fn persistent_clusters_are_rectangles() {
    let mut cases = 0;
    for (m, n) in (1..=9).flat_map(|m| (1..=9).map(move |n| (m, n))) {
        for (cluster, choice) in [[2, 1], [1, 2], [2, 2], [4, 2]]
            .into_iter()
            .flat_map(|c| CHOICES.map(|r| (c, r)))
        {
            let s = Persistent::new(tiles(m, n, 2), cluster, 8, choice).unwrap();
            let size = cluster[0] * cluster[1];
            for id in 0..s.slots() / size {
                let corner = s.tile_padded(id * size).unwrap();
                assert!(corner.m % cluster[0] == 0 && corner.n % cluster[1] == 0);
                let inside = (0..size).map(|i| s.tile_padded(id * size + i).unwrap());
                let home = |t: Tile| (t.m / cluster[0], t.n / cluster[1], t.l);
                assert!(inside.clone().all(|t| home(t) == home(corner)));
                let part = |i| s.takes_part(id * size + i);
                let any = (0..size).any(|i| s.tile(id * size + i).is_some());
                assert!((0..size).all(|i| part(i) == any));
                cases += 1;
            }
        }
    }
    println!("law persistent.clusters_are_rectangles: {cases} cases");
}

#[test]
fn persistent_formula_as_expression_agrees() {
    let mut cases = 0;
    for (m, n, cluster, max) in [
        (5, 7, [1, 1], 8),
        (12, 6, [2, 1], 4),
        (9, 9, [2, 2], 2),
        (3, 17, [1, 4], 1),
    ] {
        for choice in CHOICES {
            let s = Persistent::new(tiles(m, n, 2), cluster, max, choice).unwrap();
            let [em, en, el] = s.formula(Expr::var("i"));
            for slot in 0..s.slots() {
                let value = |_: &str| Some(slot);
                let t = s.tile_padded(slot).unwrap();
                let found = [em.eval(&value), en.eval(&value), el.eval(&value)];
                assert_eq!(found, [Some(t.m), Some(t.n), Some(t.l)], "{s} at {slot}");
                cases += 1;
            }
        }
    }
    println!("law persistent.formula_as_expression_agrees: {cases} cases");
}

#[test]
fn rasters_are_bijections() {
    let mut cases = 0;
    for (m, n) in (1..=33).flat_map(|m| (1..=33).map(move |n| (m, n))) {
        for order in [RasterOrder::AlongM, RasterOrder::AlongN] {
            for width in 1..=9 {
                let raster = Raster::grouped(m, n, width, order).unwrap();
                assert_eq!(raster.idle(), 0);
                let (major, minor) = if order == RasterOrder::AlongM {
                    (m, n)
                } else {
                    (n, m)
                };
                for slot in 0..m * n {
                    let [a, b] = formula::grouped(slot, major, minor, width.min(minor));
                    assert_eq!(
                        formula::grouped_place(a, b, major, minor, width.min(minor)),
                        slot
                    );
                }
                cases += 1;
            }
        }
        for raster in [
            Raster::hilbert(m, n).unwrap(),
            Raster::morton(m, n).unwrap(),
        ] {
            assert_eq!((raster.idle(), raster.slots().len() as i64), (0, m * n));
            assert!((0..m * n).all(|i| raster.slot_of(raster.tile(i).unwrap()) == Ok(i)));
            cases += 1;
        }
    }
    println!("law raster.bijection: {cases} cases");
}

/// On a square of a power of two each step of the Hilbert curve goes to a neighbour; so it does from square to square.
#[test]
fn hilbert_steps_to_neighbours() {
    let mut cases = 0;
    for (m, n) in [
        (1, 1),
        (2, 2),
        (8, 8),
        (32, 32),
        (4, 12),
        (24, 8),
        (2, 10),
        (64, 64),
    ] {
        let raster = Raster::hilbert(m, n).unwrap();
        for pair in raster.slots().windows(2) {
            let (a, b) = (pair[0].unwrap(), pair[1].unwrap());
            assert_eq!(
                (a.m - b.m).abs() + (a.n - b.n).abs(),
                1,
                "{m}x{n}: {a} to {b}"
            );
            cases += 1;
        }
    }
    println!("law raster.hilbert_steps_to_neighbours: {cases} cases");
}

#[test]
fn curves_as_expressions_agree() {
    for bits in 0..=5u32 {
        let [hx, hy] = formula::hilbert(Expr::var("d"), bits);
        let [zx, zy] = formula::morton(Expr::var("d"), bits);
        for d in 0..1i64 << (2 * bits) {
            let value = |_: &str| Some(d);
            assert_eq!(
                [hx.eval(&value), hy.eval(&value)],
                formula::hilbert(d, bits).map(Some)
            );
            assert_eq!(
                [zx.eval(&value), zy.eval(&value)],
                formula::morton(d, bits).map(Some)
            );
        }
    }
}

/// An expression is a tree: with the curve built from its shortest digit on, the one of 16 bits had 4^16 operations.
#[test]
fn curves_of_many_bits_are_small_expressions() {
    let mut cases = 0;
    for bits in 1..=31u32 {
        let cubed = 10 * (bits as usize + 2).pow(3);
        for expression in formula::hilbert(Expr::var("d"), bits) {
            assert!(expression.operations() <= cubed, "{bits} bits");
            for d in [0, 1, 2, 3, 12_345, (1 << 40) + 7, (1 << 62) - 1] {
                let d = d & ((1 << (2 * bits)) - 1);
                let at = formula::hilbert(d, bits);
                assert!(at.iter().all(|x| (0..1 << bits).contains(x)));
                let found = expression.eval(&|_| Some(d));
                assert!(
                    found == Some(at[0]) || found == Some(at[1]),
                    "{d} of {bits} bits"
                );
                cases += 1;
            }
        }
    }
    let [x, _] = formula::hilbert(Expr::var("d"), 16);
    let [again, _] = formula::hilbert(Expr::var("d"), 16);
    assert!(x == again && x.to_string().len() < 200_000);
    println!("law formula.curves_of_many_bits_are_small_expressions: {cases} cases");
}

/// The curve by its definition: four curves of half the side, one in each quadrant.
#[test]
fn hilbert_by_quadrants() {
    let mut cases = 0;
    let mut points = vec![[0, 0]];
    for bits in 0..=6 {
        for (d, point) in (0..).zip(&points) {
            assert_eq!(formula::hilbert(d, bits), *point, "{d} of {bits} bits");
            cases += 1;
        }
        let (side, last) = (1 << bits, (1 << bits) - 1);
        let quadrant = |to: &dyn Fn(i64, i64) -> [i64; 2]| -> Vec<[i64; 2]> {
            points.iter().map(|[x, y]| to(*x, *y)).collect()
        };
        points = [
            quadrant(&|x, y| [y, x]),
            quadrant(&|x, y| [x, side + y]),
            quadrant(&|x, y| [side + x, side + y]),
            quadrant(&|x, y| [side + last - y, last - x]),
        ]
        .concat();
    }
    println!("law formula.hilbert_by_quadrants: {cases} cases");
}

/// Two groups of 3 by 3 tiles with swizzle 2: CUTLASS's host counts 18 places of 32, and 7 tiles are never computed.
#[test]
fn grouped_covers_what_cutlass_drops() {
    let s = Grouped::new(&[[3, 3], [3, 3]], [1, 1], [1, 1], 2, RasterOrder::AlongM).unwrap();
    assert_eq!((s.slots(), s.slots_counted_by_cutlass()), (32, 18));
    let lost = (s.slots_counted_by_cutlass()..s.slots())
        .filter(|&slot| s.tile(slot).is_some())
        .count();
    assert_eq!(lost, 7);
    let plain = Grouped::new(&[[3, 3], [3, 3]], [1, 1], [1, 1], 1, RasterOrder::AlongM).unwrap();
    assert_eq!((plain.slots(), plain.slots_counted_by_cutlass()), (18, 18));
}

fn check_groups(s: &Grouped, problems: &[[i64; 2]], tile: [i64; 2]) {
    let up = |x: i64, t: i64| (x + t - 1) / t;
    let mut count = 0;
    for slot in 0..s.slots() {
        let Some(t) = s.tile(slot) else { continue };
        let [m, n] = problems[t.group as usize];
        assert!(t.m < up(m, tile[0]) && t.n < up(n, tile[1]));
        assert_eq!(s.slot_of(t), Ok(slot));
        count += 1;
    }
    assert_eq!(
        count,
        problems
            .iter()
            .map(|[m, n]| up(*m, tile[0]) * up(*n, tile[1]))
            .sum::<i64>()
    );
    assert_eq!((s.tile(-1), s.tile(s.slots())), (None, None));
}

#[test]
fn grouped_every_tile_exactly_once() {
    let mut cases = 0;
    for (a, b, c) in
        (0..=9).flat_map(|a| (0..=9).flat_map(move |b| (0..=4).map(move |c| (a, b, c))))
    {
        let problems = [[a, b], [c, 5], [b, a], [7, c]];
        for (cluster, max) in [[1, 1], [2, 1], [1, 2], [2, 2]]
            .into_iter()
            .flat_map(|c| [1, 2, 4, 8].map(|m| (c, m)))
        {
            for order in [RasterOrder::AlongM, RasterOrder::AlongN] {
                let s = Grouped::new(&problems, [2, 1], cluster, max, order).unwrap();
                check_groups(&s, &problems, [2, 1]);
                cases += 1;
            }
        }
    }
    println!("law grouped.every_tile_exactly_once: {cases} cases");
}

#[track_caller]
fn refuses<T: std::fmt::Debug>(result: Result<T, Error>, sentence: &str) {
    assert_eq!(result.expect_err("must be refused").to_string(), sentence);
}

#[test]
fn errors_are_sentences() {
    let new = |t, cluster, max| Persistent::new(t, cluster, max, RasterChoice::AlongN);
    refuses(
        new(tiles(0, 1, 1), [1, 1], 1),
        "extent m in tiles is 0: it must be at least 1",
    );
    refuses(
        new(tiles(1, 1, 0), [1, 1], 1),
        "the number of batches is 0: it must be at least 1",
    );
    refuses(
        new(tiles(1, 1, 1), [0, 1], 1),
        "extent m of the cluster is 0: it must be at least 1",
    );
    refuses(
        new(tiles(1, 1, 1), [1, 1], 0),
        "the largest swizzle is 0: it must be at least 1",
    );
    refuses(
        new(tiles(i64::MAX, i64::MAX, 1), [1, 1], 1),
        "the number of blocks is beyond 64-bit integers",
    );
    let exact = |t, cluster| Persistent::new_exact(t, cluster, 8, RasterChoice::AlongN);
    refuses(
        exact(tiles(3, 4, 1), [2, 1]),
        "a cluster of 2x1 blocks does not divide a grid of 3x4: 4x4 would",
    );
    refuses(
        exact(tiles(8, 6, 1), [1, 1]),
        "the order of persistent along n, swizzle 8, cluster 1x1 over (8,6,1) is not a layout: 8 does not divide 6",
    );
    assert!(exact(tiles(8, 16, 1), [1, 1]).unwrap().is_exact());
    let s = new(tiles(4, 4, 1), [2, 2], 1).unwrap();
    refuses(
        s.grid_shape(0, None),
        "the number of multiprocessors is 0: it must be at least 1",
    );
    refuses(
        s.grid_shape(3, None),
        "a cluster of 2x2 blocks needs 4 multiprocessors at once, and the device has 3",
    );
    refuses(
        s.slot_of(Tile::new(4, 0, 0)),
        "tile (4,0,0) is outside (4,4,1)",
    );
    assert_eq!(
        s.grid_shape(7, None),
        Ok(Dim3::new(2, 2, 1)),
        "one cluster of 4 fits on 7"
    );
    assert_eq!(
        s.grid_shape_unchecked(7, None),
        Ok(Dim3::new(2, 3, 1)),
        "CUTLASS asks for one and a half"
    );
    let raster = |slots| Raster::new("r", tiles(2, 1, 1), slots);
    let tile = |m| Some(Tile::new(m, 0, 0));
    refuses(
        raster(vec![tile(0), None, tile(0)]),
        "tile (0,0,0) is computed twice, at places 0 and 2",
    );
    refuses(
        raster(vec![tile(0), None]),
        "tile (1,0,0) is never computed",
    );
    refuses(raster(vec![tile(2)]), "tile (2,0,0) is outside (2,1,1)");
    refuses(
        Raster::grouped(4, 4, 0, RasterOrder::AlongM),
        "the width of the raster is 0: it must be at least 1",
    );
    refuses(
        Raster::hilbert(1 << 20, 1 << 20),
        "a raster of 1099511627776 places is more than the 1048576 that fit a table",
    );
    let grouped = |p: &[[i64; 2]]| Grouped::new(p, [64, 64], [1, 1], 1, RasterOrder::AlongM);
    refuses(
        grouped(&[]),
        "the number of groups is 0: it must be at least 1",
    );
    refuses(
        grouped(&[[-1, 4]]),
        "extent m of a group is -1: it must be at least 0",
    );
    refuses(
        grouped(&[[0, 4]]).unwrap().grid_shape(8, None),
        "every group is empty: there is nothing to launch",
    );
    let one = grouped(&[[64, 64]]).unwrap();
    refuses(
        one.slot_of(GroupTile {
            group: 1,
            m: 0,
            n: 0,
        }),
        "tile (0,0,1) is outside (0,0,1)",
    );
}

proptest! {
    #[test]
    fn large_persistent_inverts(
        (m, n, l) in (1i64..3000, 1i64..3000, 1i64..5), cm in 1i64..=4, cn in 1i64..=4,
        max in 1i64..=9, pick in 0usize..3, seed in 0u64..u64::MAX,
    ) {
        let s = Persistent::new(tiles(m, n, l), [cm, cn], max, CHOICES[pick]).unwrap();
        let slot = (seed % s.slots() as u64) as i64;
        prop_assert_eq!(s.slot_of(s.tile_padded(slot).unwrap()).unwrap(), slot);
        let tile = Tile::new((seed >> 3) as i64 % m, (seed >> 9) as i64 % n, (seed >> 21) as i64 % l);
        prop_assert_eq!(s.tile(s.slot_of(tile).unwrap()), Some(tile));
    }

    #[test]
    fn large_groups_invert(sizes in proptest::collection::vec((0i64..40, 0i64..40), 1..20), max in 1i64..=8) {
        let problems: Vec<[i64; 2]> = sizes.iter().map(|(m, n)| [m * 100, n * 77]).collect();
        let s = Grouped::new(&problems, [128, 64], [2, 1], max, RasterOrder::AlongN).unwrap();
        check_groups(&s, &problems, [128, 64]);
    }
}
