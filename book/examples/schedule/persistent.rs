//! Persistent kernels and waves.
//!
//! Run it with `cargo run -p colex-book --example schedule_persistent`; each line `== .. ==` names a piece of the chapter.

use colex_sched::{
    Dim3, Error, Expr, GemmCoord, GroupTile, Grouped, Persistent, Quantization, RasterChoice,
    RasterOrder, Tile,
};

fn main() -> Result<(), Error> {
    order()?;
    clusters()?;
    occupancy()?;
    waves()?;
    grouped()?;
    padding()?;
    whole_clusters()?;
    host_and_device()?;
    Ok(())
}

/// Lists the tiles of a persistent schedule.
fn order() -> Result<(), Error> {
    println!("\n== order ==");
    // ANCHOR: order
    let s = Persistent::new(GemmCoord::new(4, 4, 1), [1, 1], 2, RasterChoice::AlongN)?;
    assert_eq!(s.tile(9), Some(Tile::new(3, 0, 0)));
    assert_eq!(s.slot_of(Tile::new(3, 0, 0))?, 9);
    let first: Vec<(i64, i64)> = (0..9)
        .filter_map(|i| s.tile(i))
        .map(|t| (t.m, t.n))
        .collect();
    println!("{first:?}");

    // The grid divides, so the order is a layout: places to tiles, m fastest.
    println!("{}", s.layout()?);
    // ANCHOR_END: order
    Ok(())
}

/// Places clusters of two blocks.
fn clusters() -> Result<(), Error> {
    println!("\n== clusters ==");
    // ANCHOR: clusters
    let s = Persistent::new(GemmCoord::new(8, 8, 1), [2, 1], 4, RasterChoice::AlongN)?;
    let pair: Vec<String> = (0..4)
        .filter_map(|i| s.tile(i))
        .map(|t| t.to_string())
        .collect();
    println!("{pair:?}");
    // 64 blocks, as there are 64 tiles: 2 along the cluster, 32 clusters.
    assert_eq!(s.grid_shape(132, None)?, Dim3::new(2, 32, 1));

    let [m, n, batch] = s.formula(Expr::var("i"));
    println!("{m}");
    println!("{n}");
    println!("{batch}");
    // ANCHOR_END: clusters
    Ok(())
}

/// Counts the blocks that fit on the device.
fn occupancy() -> Result<(), Error> {
    // ANCHOR: occupancy
    let blocks = |cluster: [i64; 2], reported: Option<i64>| -> Result<i64, Error> {
        let s = Persistent::new(GemmCoord::new(64, 64, 1), cluster, 1, RasterChoice::AlongN)?;
        s.grid_shape(132, reported)?.count()
    };
    assert_eq!(blocks([1, 1], None)?, 132);
    assert_eq!(blocks([2, 1], None)?, 132);
    assert_eq!(blocks([4, 1], None)?, 7 * 16 + 4); // 16 of each group of 18, 4 of the other 6
    assert_eq!(blocks([4, 1], Some(32))?, 128);
    // ANCHOR_END: occupancy
    Ok(())
}

/// Computes rounds and efficiency.
fn waves() -> Result<(), Error> {
    // ANCHOR: waves
    let rounds = |tiles| {
        let q = Quantization::of_tiles(tiles, 132);
        q.map(|q| (q.rounds, (q.efficiency() * 100.0).round()))
    };
    assert_eq!(rounds(132)?, (1, 100.0));
    assert_eq!(rounds(133)?, (2, 50.0));
    assert_eq!(rounds(264)?, (2, 100.0));
    assert_eq!(rounds(265)?, (3, 67.0));
    // ANCHOR_END: waves
    Ok(())
}

/// Puts the tiles of three problems into one order.
fn grouped() -> Result<(), Error> {
    println!("\n== grouped ==");
    // ANCHOR: grouped
    let problems = [[256, 512], [0, 512], [300, 128]];
    let groups = Grouped::new(&problems, [128, 128], [1, 1], 1, RasterOrder::AlongM)?;
    println!("{:?}", groups.starts());
    assert_eq!(
        groups.tile(8),
        Some(GroupTile {
            group: 2,
            m: 0,
            n: 0
        })
    );
    // ANCHOR_END: grouped
    Ok(())
}

/// Counts the places beyond the problem.
fn padding() -> Result<(), Error> {
    println!("\n== padding ==");
    // ANCHOR: padding
    let s = Persistent::new(GemmCoord::new(4, 4, 1), [1, 4], 8, RasterChoice::AlongN)?;
    assert_eq!(s.slots(), 64);
    assert_eq!((0..64).filter(|i| s.tile(*i).is_some()).count(), 16);

    // A grid without padding is built by another call.
    let refused = Persistent::new_exact(GemmCoord::new(3, 4, 1), [2, 1], 1, RasterChoice::AlongN);
    let refused = refused.unwrap_err();
    println!("{refused}");
    // ANCHOR_END: padding
    Ok(())
}

/// Rounds a grid to whole clusters.
fn whole_clusters() -> Result<(), Error> {
    println!("\n== whole_clusters ==");
    // ANCHOR: whole_clusters
    let s = Persistent::new(GemmCoord::new(4, 4, 1), [2, 2], 1, RasterChoice::AlongN)?;
    assert_eq!(s.grid_shape_unchecked(7, None)?, Dim3::new(2, 3, 1)); // CUTLASS: 1.5 clusters
    assert_eq!(s.grid_shape(7, None)?, Dim3::new(2, 2, 1));
    let refused = s.grid_shape(3, None).unwrap_err().to_string();
    println!("{refused}");
    // ANCHOR_END: whole_clusters
    Ok(())
}

/// Compares how the host and the device count a grouped problem.
fn host_and_device() -> Result<(), Error> {
    // ANCHOR: host_and_device
    let two = |swizzle| {
        Grouped::new(
            &[[3, 3], [3, 3]],
            [1, 1],
            [1, 1],
            swizzle,
            RasterOrder::AlongM,
        )
    };
    assert_eq!(
        (two(1)?.slots(), two(1)?.slots_counted_by_cutlass()),
        (18, 18)
    );
    let s = two(2)?;
    assert_eq!((s.slots(), s.slots_counted_by_cutlass()), (32, 18));
    assert_eq!((18..32).filter(|i| s.tile(*i).is_some()).count(), 7);
    // ANCHOR_END: host_and_device
    Ok(())
}
