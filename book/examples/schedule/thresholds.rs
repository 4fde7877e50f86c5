//! The widths that a swizzle takes, and the blocks that stay idle.
//!
//! Run it with `cargo run -p colex-book --example schedule_thresholds`; each line `== .. ==` names a piece of the chapter.

use colex_sched::{
    Error, Expr, GemmCoord, Order, Raster, RasterOrder, ThreadblockSwizzle, formula,
};

fn main() -> Result<(), Error> {
    thresholds()?;
    idle()?;
    worst_case()?;
    no_padding()?;
    grouped()?;
    order()?;
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
    println!("{raster}");

    let [_, n] = formula::grouped(Expr::var("i"), Expr::from(2), Expr::from(5), 4);
    assert!(n.to_string().contains("min(5 - i / 8 * 4, 4)"), "{n}");
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
