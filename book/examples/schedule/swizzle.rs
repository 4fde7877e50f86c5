//! Threadblock swizzles: which block computes which tile, and what that saves.
//!
//! Run it with `cargo run -p colex-book --example schedule_swizzle`; each line `== .. ==` names a piece of the chapter.

use colex_sched::{
    DeviceModel, Dim3, Error, Expr, GemmCoord, Order, Raster, ThreadblockSwizzle, Tile, TiledGemm,
    choose, choose_among, fetched_closed_form, strip_footprint, tile_offset_disagreeing_with_grid,
    wave_costs,
};

fn main() -> Result<(), Error> {
    formula()?;
    block_by_block()?;
    as_layout()?;
    second_wave()?;
    traffic()?;
    closed_form()?;
    footprint()?;
    curves()?;
    wrong_grid()?;
    Ok(())
}

/// Prints the formula of a swizzle and checks it.
fn formula() -> Result<(), Error> {
    println!("\n== formula ==");
    // ANCHOR: formula
    let swizzle = ThreadblockSwizzle::Identity { width: 4 };
    let [m, n] = swizzle.formula(Expr::var("bx"), Expr::var("by"), 2); // l = 2
    println!("{m}");
    println!("{n}");

    for (x, y) in (0..64).flat_map(|x| (0..8).map(move |y| (x, y))) {
        let shifts = GemmCoord::new(x >> 2, (y << 2) + (x & 3), 0);
        assert_eq!(
            swizzle.tile_offset_unbounded(2, Dim3::new(x, y, 0))?,
            shifts
        );
    }
    // ANCHOR_END: formula
    Ok(())
}

/// Checks a swizzle block by block.
fn block_by_block() -> Result<(), Error> {
    println!("\n== block_by_block ==");
    // ANCHOR: block_by_block
    let (swizzle, tiles) = (
        ThreadblockSwizzle::Identity { width: 2 },
        GemmCoord::new(4, 4, 1),
    );
    assert_eq!(swizzle.grid_shape(tiles)?, Dim3::new(8, 2, 1));
    let blocks = [
        [(0, 0), (1, 0), (0, 1), (1, 1)],
        [(2, 0), (3, 0), (2, 1), (3, 1)],
        [(4, 0), (5, 0), (4, 1), (5, 1)],
        [(6, 0), (7, 0), (6, 1), (7, 1)],
    ];
    for (m, row) in (0..).zip(blocks) {
        for (n, (x, y)) in (0..).zip(row) {
            assert_eq!(
                swizzle.block_of(tiles, GemmCoord::new(m, n, 0))?,
                Dim3::new(x, y, 0)
            );
        }
    }
    let numbers = Raster::of_swizzle(swizzle, tiles)?.to_string();
    println!("{:?}", numbers.lines().collect::<Vec<_>>());

    // Widths 4 and 8 are the same here: four columns make one strip of 4.
    for width in [4, 8] {
        assert_eq!(
            ThreadblockSwizzle::Identity { width }.grid_shape(tiles)?,
            Dim3::new(16, 1, 1)
        );
    }
    // ANCHOR_END: block_by_block
    Ok(())
}

/// Shows a swizzle as a layout.
fn as_layout() -> Result<(), Error> {
    println!("\n== as_layout ==");
    // ANCHOR: as_layout
    let layout = ThreadblockSwizzle::Identity { width: 2 }.layout(GemmCoord::new(4, 4, 1))?;
    println!("{layout}");
    // ANCHOR_END: as_layout
    Ok(())
}

/// Counts the panels that one wave touches.
fn second_wave() -> Result<(), Error> {
    // ANCHOR: second_wave
    let gemm = TiledGemm::new(
        GemmCoord::new(8192, 8192, 8192),
        GemmCoord::new(128, 256, 64),
    );
    let second_wave = |width| -> Result<_, Error> {
        let order = Order::Swizzle(ThreadblockSwizzle::Identity { width });
        let raster = order.raster(gemm.tiles()?, [1, 1])?;
        let wave = wave_costs(&raster, DeviceModel::H200.sms, &gemm.bytes()?)?[1];
        Ok((wave.rows, wave.columns, wave.bytes() / 1_000_000))
    };
    assert_eq!(second_wave(1)?, (64, 3, 146)); // megabytes
    assert_eq!(second_wave(4)?, (33, 8, 102));
    assert_eq!(second_wave(8)?, (17, 8, 69));
    // ANCHOR_END: second_wave
    Ok(())
}

/// Simulates the traffic of several widths.
fn traffic() -> Result<(), Error> {
    // ANCHOR: traffic
    let gemm = TiledGemm::new(
        GemmCoord::new(8192, 8192, 8192),
        GemmCoord::new(128, 256, 64),
    );
    let orders = [1, 2, 4, 8].map(|width| Order::Swizzle(ThreadblockSwizzle::Identity { width }));
    let choice = choose_among(&orders, &gemm, &DeviceModel::H200)?;
    let found: Vec<(String, i64)> = choice
        .candidates
        .iter()
        .map(|c| (c.order.to_string(), c.fetched / 1_000_000))
        .collect();
    assert_eq!(found[0], ("GemmIdentity<8>".to_string(), 1188)); // megabytes from memory
    assert_eq!(found[1], ("GemmIdentity<4>".to_string(), 1458));
    assert_eq!(found[2], ("GemmIdentity<1>".to_string(), 2344));
    assert_eq!(found[3], ("GemmIdentity<2>".to_string(), 2344));
    // ANCHOR_END: traffic
    smaller(&orders)
}

/// Simulates the same orders for operands that are a little larger than the cache.
fn smaller(orders: &[Order]) -> Result<(), Error> {
    // ANCHOR: smaller
    let gemm = TiledGemm::new(
        GemmCoord::new(4096, 4096, 4096),
        GemmCoord::new(128, 256, 64),
    );
    let choice = choose_among(orders, &gemm, &DeviceModel::H200)?;
    let megabytes: Vec<i64> = choice
        .candidates
        .iter()
        .map(|c| c.fetched / 1_000_000)
        .collect();
    assert_eq!(megabytes, [67, 67, 67, 95]);
    assert_eq!(choice.candidates[3].order.to_string(), "GemmIdentity<8>");
    // ANCHOR_END: smaller
    Ok(())
}

/// Compares the simulation with its closed form.
fn closed_form() -> Result<(), Error> {
    // ANCHOR: closed_form
    let gemm = TiledGemm::new(
        GemmCoord::new(8192, 8192, 8192),
        GemmCoord::new(128, 256, 64),
    );
    let order = Order::Swizzle(ThreadblockSwizzle::Identity { width: 1 });
    let raster = order.raster(gemm.tiles()?, [1, 1])?;
    let closed = fetched_closed_form(&raster, 132, &gemm.bytes()?, DeviceModel::H200.l2_bytes)?;
    assert_eq!(closed, Some(2_344_615_936));
    // ANCHOR_END: closed_form
    Ok(())
}

/// Computes the footprint of one wave for several widths.
fn footprint() -> Result<(), Error> {
    println!("\n== footprint ==");
    // ANCHOR: footprint
    let cost =
        |width| strip_footprint(width, 132).map(|[rows, columns]| rows * 128 + columns * 256);
    println!("{:?}", [cost(1)?, cost(2)?, cost(4)?, cost(8)?, cost(16)?]);
    // ANCHOR_END: footprint
    Ok(())
}

/// Compares strips with the Hilbert curve.
fn curves() -> Result<(), Error> {
    println!("\n== curves ==");
    // ANCHOR: curves
    let gemm = TiledGemm::new(
        GemmCoord::new(8192, 8192, 8192),
        GemmCoord::new(128, 256, 64),
    );
    let choice = choose(&gemm, &DeviceModel::H200)?; // 18 orders
    println!("{}", choice.best().order);
    let place = |name: &str| {
        choice
            .candidates
            .iter()
            .position(|c| c.order.to_string() == name)
    };
    assert!(place("Hilbert") < place("Morton"));
    // ANCHOR_END: curves
    Ok(())
}

/// Counts the grids on which a tile is missed or repeated.
fn wrong_grid() -> Result<(), Error> {
    println!("\n== wrong_grid ==");
    // ANCHOR: wrong_grid
    let is_right = |width: i64, tiles: GemmCoord| -> Result<bool, Error> {
        let grid = ThreadblockSwizzle::Identity { width }.grid_shape(tiles)?;
        let mut table = Vec::new();
        for slot in 0..grid.count()? {
            let block = grid.block(slot).expect("below the count");
            let t = tile_offset_disagreeing_with_grid(width, tiles, block)?;
            table.push(tiles.contains(t).then_some(Tile::new(t.m, t.n, t.k)));
        }
        Ok(Raster::new("S77", tiles, table).is_ok())
    };
    let mut wrong = [0; 4];
    for (m, n) in (1..=11).flat_map(|m| (1..=11).map(move |n| (m, n))) {
        for (count, width) in wrong.iter_mut().zip([1, 2, 4, 8]) {
            *count += i32::from(!is_right(width, GemmCoord::new(m, n, 1))?);
        }
    }
    println!("{wrong:?}");
    assert!(!is_right(2, GemmCoord::new(1, 2, 1))?); // the smallest
    // ANCHOR_END: wrong_grid
    Ok(())
}
