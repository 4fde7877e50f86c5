//! The widths that a swizzle takes, and the blocks that stay idle.
//!
//! Run it with `cargo run -p colex-book --example schedule_thresholds`; each line `== .. ==` names a piece of the chapter.

use colex_atom::{Arch, Ty};
use colex_gpu::tensor::{AtThread, Builder, TensorKernel};
use colex_gpu::{Device, Load};
use colex_sched::{
    Error, Expr, GemmCoord, Order, Raster, RasterOrder, ThreadblockSwizzle, formula,
};
use colex_tiled::TiledCopy;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    thresholds()?;
    idle()?;
    worst_case()?;
    no_padding()?;
    grouped()?;
    order()?;
    in_a_kernel()?;
    Ok(())
}

/// Lists the widths for 1 to 9 columns.
fn thresholds() -> Result<(), Error> {
    println!("\n== thresholds ==");
    // ANCHOR: thresholds
    let logs = |width: i64| {
        let swizzle = ThreadblockSwizzle::Identity { width };
        (1..=9)
            .map(|n| swizzle.log_tile(GemmCoord::new(1, n, 1)))
            .collect::<Result<Vec<_>, _>>()
    };
    println!("{:?}", logs(1)?);
    println!("{:?}", logs(2)?);
    println!("{:?}", logs(4)?);
    println!("{:?}", logs(8)?);
    assert_eq!(
        ThreadblockSwizzle::Identity { width: 8 }.log_tile(GemmCoord::new(1, 1_000_000, 1))?,
        3
    );
    // ANCHOR_END: thresholds
    Ok(())
}

/// Counts the idle blocks for 1 to 16 columns.
fn idle() -> Result<(), Error> {
    println!("\n== idle ==");
    // ANCHOR: idle
    let idle = |name: &str, n: i64| -> Result<i64, Error> {
        Ok(name
            .parse::<ThreadblockSwizzle>()?
            .grid_shape(GemmCoord::new(1, n, 1))?
            .count()?
            - n)
    };
    let row: Vec<i64> = (1..=16)
        .map(|n| idle("GemmIdentity<8>", n))
        .collect::<Result<_, _>>()?;
    println!("{row:?}");
    // ANCHOR_END: idle
    Ok(())
}

/// Checks the worst case over 2000 columns.
fn worst_case() -> Result<(), Error> {
    // ANCHOR: worst_case
    let swizzle = ThreadblockSwizzle::Identity { width: 8 };
    let padded = |n: i64| {
        swizzle
            .grid_shape(GemmCoord::new(1, n, 1))
            .and_then(|grid| grid.count())
    };
    assert_eq!((padded(5)?, padded(9)?), (8, 16));
    for n in 1..=2000 {
        assert!(9 * padded(n)? <= 16 * n);
    }
    // ANCHOR_END: worst_case
    Ok(())
}

/// Lists the widths without idle blocks.
fn no_padding() -> Result<(), Error> {
    println!("\n== no_padding ==");
    // ANCHOR: no_padding
    let swizzle = ThreadblockSwizzle::IdentityNoPadding { width: 8 };
    let log = |n| swizzle.log_tile(GemmCoord::new(1, n, 1));
    let logs: Vec<u32> = (1..=12).map(log).collect::<Result<_, _>>()?;
    println!("{logs:?}");
    // ANCHOR_END: no_padding
    Ok(())
}

/// Lets the last strip be narrower.
fn grouped() -> Result<(), Error> {
    println!("\n== grouped ==");
    // ANCHOR: grouped
    let raster = Raster::grouped(2, 5, 4, RasterOrder::AlongM)?;
    assert_eq!(raster.idle(), 0);
    print!("{raster}");

    let [m, n] = formula::grouped(Expr::var("i"), Expr::from(2), Expr::from(5), 4);
    println!("m = {m}");
    println!("n = {n}");
    // ANCHOR_END: grouped
    Ok(())
}

/// Computes tiles by an order's formula.
fn order() -> Result<(), Error> {
    // ANCHOR: order
    let order: Order = "grouped 4 along m".parse()?;
    assert_eq!(order.tile(8, [2, 5]), Some([0, 4]));
    assert_eq!(Order::Hilbert.tile(8, [2, 5]), None);
    // ANCHOR_END: order
    Ok(())
}

// ANCHOR: kernel
/// Copies a matrix by tiles of 8 by 8; block `i` copies the tile at place `i` of an order.
fn copy_in(order: Order) -> Result<TensorKernel, Box<dyn std::error::Error>> {
    let mut k = Builder::new("copy", Arch::Sm80, 64);
    let [from, to] = ["from", "to"].map(|name| k.tensor(name, Ty::F32, "(64,64):(64,_1)"));
    let (thread, place) = (k.thread(), k.block_index(0));
    let tiles = [0, 1].map(|mode| from.extent(mode) / 8);
    let grid = k.tile_grid(order, tiles).ok_or("a table has no formula")?;
    let [m, n] = k.tile_at(&grid, place);

    let word = colex_atom::copy("UniversalCopy<uint32_t>")?;
    let copy = TiledCopy::new(word, 32, "(8,8):(8,1)", "(1,1):(0,0)")?;
    let mine = copy.at(&thread);
    let source = mine.partition_src(&from.local_tile((8, 8), (&m, &n))); // (CPY, CPY_M, CPY_N)
    let target = mine.partition_dst(&to.local_tile((8, 8), (&m, &n))); // (CPY, CPY_M, CPY_N)
    let held = k.fragment_like(&source);
    k.copy(&copy, &source, &held);
    k.copy(&copy, &held, &target);
    Ok(k.finish()?)
}
// ANCHOR_END: kernel

/// Runs a kernel whose blocks take their tiles in an order.
fn in_a_kernel() -> Result<(), Box<dyn std::error::Error>> {
    // ANCHOR: in_a_kernel
    let built = copy_in("grouped 4 along m".parse()?)?;
    let (device, numbers) = (Device::open(), (0..16 * 40).map(|i| i as f32));
    let x = device.upload(&numbers.collect::<Vec<_>>())?;
    let mut y = device.poisoned::<f32>(16 * 40)?;
    let kernel = built.load(&device)?;
    kernel.launch([2 * 5], (x.view((16, 40))?, y.view_mut((16, 40))?))?;
    assert_eq!(y.download()?, x.download()?);

    let refused = kernel.launch([2 * 5 + 1], (x.view((16, 40))?, y.view_mut((16, 40))?));
    assert!(refused.is_err()); // place 10 is beyond the last tile
    // ANCHOR_END: in_a_kernel
    Ok(())
}
