//! Laws of stream-K, both generations: every k-tile of every output tile is computed exactly once.

use colex_sched::{
    Decomposition, Error, GemmCoord, RasterChoice, Segment, StreamK, StreamKDevice, StreamKRole,
    StreamKRow, StreamKSm90, StreamKSm90Args, Tile,
};
use proptest::prelude::*;

fn tiles(m: i64, n: i64, l: i64) -> GemmCoord {
    GemmCoord::new(m, n, l)
}

/// A stream-K of CUTLASS 2 over tiles of one element, so that the problem is the tiled shape.
fn stream_k(m: i64, n: i64, k: i64, splits: i64, device: StreamKDevice) -> StreamK {
    StreamK::new(tiles(m, n, k), tiles(1, 1, 1), splits, device).unwrap()
}

/// Counts how often each k-tile of each tile of `m x n (x l)` is computed; all counts must be 1.
struct Cover {
    extent: [i64; 3],
    k_tiles: i64,
    count: Vec<u8>,
}

impl Cover {
    fn new(extent: [i64; 3], k_tiles: i64) -> Cover {
        Cover {
            extent,
            k_tiles,
            count: vec![0; (extent.iter().product::<i64>() * k_tiles) as usize],
        }
    }

    fn add(&mut self, s: &Segment, what: &dyn std::fmt::Display) {
        let Tile { m, n, l } = s.tile;
        let [em, en, el] = self.extent;
        assert!(
            m < em && n < en && l < el && !s.is_empty() && s.k.end <= self.k_tiles,
            "{what}: {s}"
        );
        let base = (m + em * (n + en * l)) * self.k_tiles;
        s.k.clone()
            .for_each(|k| self.count[(base + k) as usize] += 1);
    }

    fn check(&self, what: &dyn std::fmt::Display) {
        if let Some(at) = self.count.iter().position(|&c| c != 1) {
            panic!(
                "{what}: k-tile {} of tile {} is computed {} times",
                at as i64 % self.k_tiles,
                at as i64 / self.k_tiles,
                self.count[at]
            );
        }
    }
}

fn check_stream_k(s: &StreamK) {
    let grid = s.grid().unwrap();
    let mut cover = Cover::new([s.tiles().m, s.tiles().n, 1], s.k_tiles());
    let mut roles = std::collections::HashSet::new();
    let mut computed: Vec<Vec<(i64, Segment)>> = vec![Vec::new(); s.sk_tiles() as usize];
    for x in 0..grid.x {
        let role = s.role(x);
        assert!(
            role == StreamKRole::Idle || roles.insert(role),
            "{s}: {role:?} twice"
        );
        for segment in s.work(x) {
            cover.add(&segment, s);
            if let StreamKRole::StreamK { index } = role {
                let tile = (0..s.sk_tiles())
                    .find(|t| s.tile_at(*t) == segment.tile)
                    .expect("a stream-K tile");
                computed[tile as usize].push((index, segment));
            }
        }
    }
    cover.check(s);
    for x in [i64::MIN, -1, grid.x, grid.x + 1, i64::MAX] {
        assert_eq!(
            s.role(x),
            StreamKRole::Idle,
            "{s}: block {x} is not launched"
        );
        assert_eq!(s.work(x).len(), 0, "{s}: block {x} is not launched");
    }
    check_peers(s, computed);
    let reduction = roles
        .iter()
        .filter(|r| matches!(r, StreamKRole::Reduction { .. }))
        .count() as i64;
    assert_eq!(reduction, s.reduction_blocks());
}

/// The peers of each tile are the blocks that compute it, in the order of their k-tiles, and exactly one finishes.
fn check_peers(s: &StreamK, computed: Vec<Vec<(i64, Segment)>>) {
    for (tile, mut parts) in computed.into_iter().enumerate() {
        parts.sort_by_key(|(_, segment)| segment.k.start);
        let peers: Vec<i64> = s.peers(tile as i64).unwrap().collect();
        assert_eq!(
            parts.iter().map(|(index, _)| *index).collect::<Vec<_>>(),
            peers,
            "{s}, tile {tile}"
        );
        assert_eq!(
            parts
                .iter()
                .filter(|(_, p)| p.finishes(s.k_tiles()))
                .count(),
            1
        );
    }
    assert_eq!(s.peers(s.sk_tiles()), None);
}

#[test]
fn every_k_tile_exactly_once() {
    let (mut cases, mut shared, mut cohorts, mut reductions) = (0, 0, 0, 0);
    for (m, n) in (1..=33).flat_map(|m| (1..=33).map(move |n| (m, n))) {
        for (sms, occupancy) in [(1, 1), (4, 1), (7, 2), (30, 1), (108, 1), (16, 3), (132, 2)] {
            let device = StreamKDevice {
                occupancy,
                accumulator_fragments: 2,
                ..StreamKDevice::new(sms)
            };
            let k = 1 + (m * 7 + n * 3 + sms) % 40;
            let s = stream_k(m, n, k, 1, device);
            check_stream_k(&s);
            cases += 1;
            shared += i64::from(s.sk_tiles() > 0);
            cohorts += i64::from(s.is_cohort_raster());
            reductions += i64::from(s.reduction_blocks() > 0);
        }
    }
    assert!(
        shared > 1000 && cohorts > 100 && reductions > 10,
        "{shared} {cohorts} {reductions}"
    );
    println!("law stream_k.every_k_tile_exactly_once: {cases} cases");
}

#[test]
fn splits_are_stream_k_with_regions() {
    let mut cases = 0;
    for (m, n, k) in
        (1..=5).flat_map(|m| (1..=5).flat_map(move |n| (1..=12).map(move |k| (m, n, k))))
    {
        for splits in 2..=k {
            let s = stream_k(m, n, k, splits, StreamKDevice::new(8));
            assert_eq!(
                (s.sk_blocks(), s.sk_regions(), s.dp_blocks()),
                (m * n * splits, m * n, 0)
            );
            check_stream_k(&s);
            cases += 1;
        }
    }
    println!("law stream_k.splits_are_regions: {cases} cases");
}

#[test]
fn batches_are_data_parallel() {
    let s = StreamK::batched(
        tiles(300, 200, 64),
        tiles(128, 128, 32),
        5,
        StreamKDevice::new(4),
    )
    .unwrap();
    assert_eq!(s.grid().unwrap().to_string(), "(6,1,5)");
    check_stream_k(&s);
}

const KINDS: [(Decomposition, i64); 5] = [
    (Decomposition::Heuristic, 1),
    (Decomposition::StreamK, 1),
    (Decomposition::DataParallel, 1),
    (Decomposition::SplitK, 3),
    (Decomposition::Heuristic, 2),
];

/// Every k-tile of the padded grid once, for every choice of units; `short` if a unit has fewer than 8 k-tiles of a tile.
fn check_sm90(s: &StreamKSm90) -> bool {
    let [bm, bn] = s.raster().blocks();
    let mut cover = Cover::new([bm, bn, s.raster().tiles().k], s.k_tiles());
    let mut by_tile = std::collections::BTreeMap::<Tile, Vec<(i64, Segment)>>::new();
    let mut short = false;
    for unit in 0..s.units() {
        for segment in s.work(unit) {
            cover.add(&segment, s);
            short |= segment.len() < 8 && unit < s.sk_units();
            by_tile
                .entry(segment.tile)
                .or_default()
                .push((unit, segment));
        }
    }
    cover.check(s);
    for (tile, mut parts) in by_tile {
        parts.sort_by_key(|(_, segment)| segment.k.start);
        let peers = s.peers(s.raster().slot_of(tile).unwrap());
        assert_eq!(
            parts.iter().map(|(unit, _)| *unit).collect::<Vec<_>>(),
            peers,
            "{s}: {tile}"
        );
        assert_eq!(
            parts
                .iter()
                .filter(|(_, p)| p.finishes(s.k_tiles()))
                .count(),
            1
        );
    }
    assert_eq!((s.work(-1), s.work(s.units())), (vec![], vec![]));
    short
}

#[test]
fn sm90_every_k_tile_exactly_once() {
    let (mut cases, mut shared, mut grouped) = (0, 0, 0);
    for (m, n) in (1..=33).flat_map(|m| (1..=33).map(move |n| (m, n))) {
        for (cluster, sms) in [
            ([1, 1], 132),
            ([2, 1], 132),
            ([1, 1], 8),
            ([2, 2], 30),
            ([1, 2], 78),
        ] {
            let (decomposition, splits) = KINDS[(m + n) as usize % 5];
            let k = 3 + (m * 5 + n * 11 + sms) % 50;
            let (max_swizzle, raster) = (
                1 << (m % 4),
                [RasterChoice::AlongM, RasterChoice::AlongN][n as usize % 2],
            );
            let args = StreamKSm90Args {
                cluster,
                decomposition,
                splits,
                max_swizzle,
                raster,
                ..StreamKSm90Args::new(sms)
            };
            let s = StreamKSm90::new(tiles(m, n, 1), k, args).unwrap();
            assert!(
                !check_sm90(&s),
                "{s}: a unit has fewer than 8 k-tiles of a tile"
            );
            cases += 1;
            shared += i64::from(s.sk_tiles() > 0);
            grouped += i64::from(s.groups() > 1);
        }
    }
    assert!(shared > 500 && grouped > 100, "{shared} {grouped}");
    println!("law stream_k_sm90.every_k_tile_exactly_once: {cases} cases");
}

/// CUTLASS's rule for when to share: not with full waves, not with 8 k-tiles or fewer, not with a last wave half full.
#[test]
fn sm90_heuristic() {
    let s = |m, k| StreamKSm90::new(tiles(m, 1, 1), k, StreamKSm90Args::new(100)).unwrap();
    assert_eq!(s(200, 64).sk_tiles(), 0, "two full waves");
    assert_eq!(s(220, 8).sk_tiles(), 0, "8 k-tiles");
    assert_eq!(s(250, 64).sk_tiles(), 0, "the last wave is half full");
    assert_eq!((s(220, 64).sk_tiles(), s(220, 64).sk_units()), (120, 100));
    assert_eq!(
        (s(20, 64).splits(), s(20, 64).sk_units()),
        (5, 0),
        "100 units for 20 tiles is split-K"
    );
    assert_eq!(s(20, 64).units(), 100);
}

#[track_caller]
fn refuses<T: std::fmt::Debug>(result: Result<T, Error>, sentence: &str) {
    assert_eq!(result.expect_err("must be refused").to_string(), sentence);
}

#[test]
fn errors_are_sentences() {
    let new = |p, splits, device| StreamK::new(p, tiles(64, 64, 32), splits, device);
    let device = StreamKDevice::new(8);
    refuses(
        new(tiles(64, 64, 64), 3, device),
        "3 splits of 2 k-tiles: every split needs a k-tile, so at most 2",
    );
    refuses(
        new(tiles(64, 0, 64), 1, device),
        "extent n of the problem is 0: it must be at least 1",
    );
    refuses(
        new(tiles(64, 64, 64), 1, StreamKDevice::new(0)),
        "the number of multiprocessors is 0: it must be at least 1",
    );
    let none = StreamKDevice {
        occupancy: 0,
        ..device
    };
    refuses(
        new(tiles(64, 64, 64), 1, none),
        "the occupancy is 0: it must be at least 1",
    );
    refuses(
        new(tiles(64, 64, 64), 1, StreamKDevice::new(1 << 20)),
        "1048576 is more than the 65536 any device has",
    );
    let sm90 = |args| StreamKSm90::new(tiles(4, 4, 1), 16, args);
    let args = StreamKSm90Args::new(8);
    refuses(
        sm90(StreamKSm90Args { splits: 17, ..args }),
        "17 splits of 16 k-tiles: every split needs a k-tile, so at most 16",
    );
    refuses(
        sm90(StreamKSm90Args {
            splits: 2,
            decomposition: Decomposition::StreamK,
            ..args
        }),
        "2 splits need the SplitK or Heuristic decomposition",
    );
    refuses(
        sm90(StreamKSm90Args {
            cluster: [4, 4],
            ..args
        }),
        "a cluster of 4x4 blocks needs 16 multiprocessors at once, and the device has 8",
    );
    refuses(
        StreamKSm90::new(tiles(4, 4, 1), 0, args),
        "the number of k-tiles is 0: it must be at least 1",
    );
}

/// A row of k-tiles is shared evenly: each k-tile is computed once, the peers of a tile are the shares that have parts of it, its parts
/// follow each other in the order of K, no two parts have one number, and no part of a cut tile has fewer k-tiles than the least.
fn check_row(row: StreamKRow, least: i64) {
    let (tiles, k_tiles) = (row.tiles(), row.k_tiles());
    let mut found: Vec<Vec<(i64, std::ops::Range<i64>)>> = vec![Vec::new(); tiles as usize];
    let (mut place, mut known) = (0, std::collections::HashSet::new());
    let even = tiles * k_tiles / row.shares();
    for share in 0..row.shares() {
        let range = row.range(share);
        assert_eq!(range.start, place, "{row}: share {share}");
        let length = range.end - range.start;
        assert!(
            (even - 2 * least..=even + 2 * least).contains(&length),
            "{row}: share {share} has {length}"
        );
        place = range.end;
        for (tile, k) in row.work(share) {
            let is_whole = k == (0..k_tiles);
            assert!(
                is_whole || k.end - k.start >= least.min(k_tiles),
                "{row}: {k:?}"
            );
            let part = row.part(share, tile);
            assert!(
                part < row.parts() && known.insert(part),
                "{row}: part {part}"
            );
            found[tile as usize].push((share, k));
        }
    }
    assert_eq!(place, tiles * k_tiles);
    for (tile, parts) in found.into_iter().enumerate() {
        let peers: Vec<i64> = row.peers(tile as i64).expect("a tile of the row").collect();
        assert_eq!(
            parts.iter().map(|(share, _)| *share).collect::<Vec<_>>(),
            peers,
            "{row}: tile {tile}"
        );
        let mut next = 0;
        for (_, k) in parts {
            assert_eq!(k.start, next, "{row}: tile {tile}");
            next = k.end;
        }
        assert_eq!(next, k_tiles);
    }
    assert_eq!((row.peers(-1), row.peers(tiles)), (None, None));
    assert_eq!((row.range(-1), row.range(row.shares())), (0..0, 0..0));
}

#[test]
fn law_a_row_of_k_tiles_is_shared_once_and_in_order() {
    let mut cases = 0;
    for tiles in 1..=9 {
        for k_tiles in 1..=20 {
            for shares in 1..=30 {
                for least in [1, 2, 3, 8] {
                    check_row(
                        StreamKRow::new(tiles, k_tiles, shares, least).unwrap(),
                        least,
                    );
                    cases += 1;
                }
            }
        }
    }
    for (tiles, k_tiles, shares, least) in [
        (140, 64, 132, 8),
        (100, 128, 132, 2),
        (35, 33, 66, 2),
        (1, 1 << 20, 132, 2),
    ] {
        check_row(
            StreamKRow::new(tiles, k_tiles, shares, least).unwrap(),
            least,
        );
        cases += 1;
    }
    println!("law stream_k.row: {cases} cases");
}

/// Without groups, the units of CUTLASS 3 have the shares of one row, last part first.
#[test]
fn law_the_units_of_cutlass_have_the_shares_of_a_row() {
    let mut cases = 0;
    for m in 1..=60 {
        for (k, sms) in [(16, 7), (33, 13), (64, 23), (9, 31)] {
            let args = StreamKSm90Args {
                decomposition: Decomposition::StreamK,
                ..StreamKSm90Args::new(sms)
            };
            let s = StreamKSm90::new(tiles(m, 1, 1), k, args).unwrap();
            if s.groups() > 1 || s.sk_tiles() == 0 {
                continue;
            }
            let row = StreamKRow::new(s.sk_tiles(), k, s.sk_units(), 8).unwrap();
            for unit in 0..s.sk_units() {
                let mut of_unit: Vec<_> = s
                    .work(unit)
                    .into_iter()
                    .map(|segment| (s.raster().slot_of(segment.tile).unwrap(), segment.k))
                    .collect();
                of_unit.reverse();
                assert_eq!(
                    of_unit,
                    row.work(unit).collect::<Vec<_>>(),
                    "{s}: unit {unit}"
                );
                cases += 1;
            }
        }
    }
    assert!(cases > 500, "{cases}");
    println!("law stream_k_sm90.rows: {cases} cases");
}

#[test]
fn rows_have_tiles_k_tiles_and_shares() {
    refuses(
        StreamKRow::new(0, 4, 2, 1),
        "the number of tiles is 0: it must be at least 1",
    );
    refuses(
        StreamKRow::new(4, 0, 2, 1),
        "the number of k-tiles is 0: it must be at least 1",
    );
    refuses(
        StreamKRow::new(4, 4, 0, 1),
        "the number of shares is 0: it must be at least 1",
    );
    refuses(
        StreamKRow::new(4, 4, 2, 0),
        "the fewest k-tiles of a part is 0: it must be at least 1",
    );
    let many = StreamKRow::new(1 << 21, 1 << 20, 2, 1);
    refuses(
        many,
        "2199023255552 iterations are more than the 2^40 that stream-K counts",
    );
    let row = StreamKRow::new(3, 4, 100, 9).unwrap();
    assert_eq!((row.shares(), row.parts()), (1, 3));
    assert_eq!(
        row.to_string(),
        "3 tiles of 4 k-tiles in 1 shares, parts of at least 4"
    );
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn large_stream_k_covers(m in 1i64..80, n in 1i64..80, k in 1i64..120, sms in 1i64..200, occupancy in 1i64..4) {
        check_stream_k(&stream_k(m, n, k, 1, StreamKDevice { occupancy, ..StreamKDevice::new(sms) }));
    }

    #[test]
    fn large_sm90_covers(
        (m, n, l) in (1i64..60, 1i64..60, 1i64..3), k in 1i64..150, sms in 16i64..200,
        cm in 1i64..=4, cn in 1i64..=4, log in 0u32..4, kind in 0usize..5,
    ) {
        let (decomposition, splits) = KINDS[kind];
        let args = StreamKSm90Args {
            cluster: [cm, cn], decomposition, splits: splits.min(k), max_swizzle: 1 << log, ..StreamKSm90Args::new(sms)
        };
        let s = StreamKSm90::new(tiles(m, n, l), k, args).unwrap();
        prop_assert!(!check_sm90(&s));
    }
}
