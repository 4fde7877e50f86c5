//! Product: a layout repeated.
//!
//! Run it with `cargo run -p colex-book --example layout_product`; each line `== .. ==` names a piece of the chapter.

use colex_layout::{Error, Layout, LayoutLeft, LayoutRight, layout, tiler};

fn main() -> Result<(), Error> {
    by_hand()?;
    definition()?;
    starts()?;
    values()?;
    threads_first()?;
    warps()?;
    blocked_and_raked()?;
    to_shape()?;
    gaps()?;
    refusals();
    a_step_too_many()?;
    Ok(())
}

/// Repeats a block six times.
fn by_hand() -> Result<(), Error> {
    println!("\n== by_hand ==");
    // ANCHOR: by_hand
    let block = layout!((2,2):(4,1));
    let tiler = layout!((2,3):(1,2));
    let product = block.logical_product(&tiler)?;
    assert_eq!(product, layout!(((2,2),(2,3)):((4,1),(2,8))));
    assert_eq!(product.get(&[0])?, block);

    let copies: Vec<Vec<i64>> = product.table()?.chunks(4).map(<[i64]>::to_vec).collect();
    println!("{:?}", copies[1]);
    println!("{:?}", copies[4]);
    // ANCHOR_END: by_hand
    Ok(())
}

/// Compares a product with its definition.
fn definition() -> Result<(), Error> {
    // ANCHOR: definition
    let a = layout!((2,2):(4,1));
    let t = layout!((3,2):(2,1));
    let product = a.logical_product(&t)?;

    let places = a.complement(a.size() * t.cosize()?)?;
    let mut in_order = Vec::new();
    for copy in 0..t.size() {
        // outer: T, which copy
        for element in 0..a.size() {
            // inner: A, within the block
            in_order.push(a.at(element)? + places.at(t.at(copy)?)?);
        }
    }
    assert_eq!(product.table()?, in_order);
    // ANCHOR_END: definition
    Ok(())
}

/// Lists where the copies begin, for two orders.
fn starts() -> Result<(), Error> {
    println!("\n== starts ==");
    // ANCHOR: starts
    let block = layout!(4:1);
    let starts = |tiler: &str| -> Result<Vec<i64>, colex_layout::Error> {
        block.logical_product(tiler)?.get(&[1])?.table()
    };
    println!("{:?}", starts("6:1")?);
    println!("{:?}", starts("(3,2):(2,1)")?);
    // ANCHOR_END: starts
    Ok(())
}

/// Gives each of 8 threads 4 values, side by side and interleaved.
fn values() -> Result<(), Error> {
    println!("\n== values ==");
    // ANCHOR: values
    let (values, threads) = (layout!((1,4):(4,1)), layout!((1,8):(8,1)));
    let blocked = values.blocked_product(&threads)?;
    let raked = values.raked_product(&threads)?;
    for product in [blocked, raked] {
        println!("{product}");
        // The offset is 4 * thread + value.
        let thread = |column: i64| Ok(product.at((0, column))? / 4);
        let threads: Result<Vec<i64>, Error> = (0..32).map(thread).collect();
        println!("{:?}", &threads?[..12]); // of the first 12 elements
    }
    // ANCHOR_END: values
    Ok(())
}

/// Gives each of 8 threads 4 values side by side, as a raked product with the threads as the block.
fn threads_first() -> Result<(), Error> {
    println!("\n== threads_first ==");
    // ANCHOR: threads_first
    let (threads, values) = (layout!((1,8):(8,1)), layout!((1,4):(4,1)));
    let raked = threads.raked_product(&values)?;
    println!("{raked}");
    // The offset is thread + 8 * value.
    let thread = |column: i64| Ok(raked.at((0, column))? % 8);
    let owners: Result<Vec<i64>, Error> = (0..32).map(thread).collect();
    println!("{:?}", &owners?[..12]); // of the first 12 elements
    // ANCHOR_END: threads_first
    Ok(())
}

/// Places four warps, as blocks and interleaved.
fn warps() -> Result<(), Error> {
    println!("\n== warps ==");
    // ANCHOR: warps
    let warp = layout!((8,4):(4,1));
    let order = layout!((2,2):(1,2));
    let (blocked, raked) = (warp.blocked_product(&order)?, warp.raked_product(&order)?);
    println!("{blocked}");
    println!("{raked}");
    // The thread below thread 0, and the thread below the first 8 rows.
    println!(
        "blocked: {} and {}",
        blocked.at((1, 0))?,
        blocked.at((8, 0))?
    );
    println!("raked:   {} and {}", raked.at((1, 0))?, raked.at((8, 0))?);
    // ANCHOR_END: warps
    Ok(())
}

/// Compares blocked and raked products.
fn blocked_and_raked() -> Result<(), Error> {
    // ANCHOR: blocked_and_raked
    let (block, tiler) = (layout!((2,5):(5,1)), layout!((3,4):(1,3)));
    assert_eq!(
        block.blocked_product(&tiler)?,
        layout!(((2,3),(5,4)):((5,10),(1,30)))
    );
    assert_eq!(
        block.raked_product(&tiler)?,
        layout!(((3,2),(4,5)):((10,5),(30,1)))
    );
    // ANCHOR_END: blocked_and_raked
    Ok(())
}

/// Repeats a block until it fills a shape.
fn to_shape() -> Result<(), Error> {
    println!("\n== to_shape ==");
    // ANCHOR: to_shape
    let block = layout!((8,8):(8,1));
    let tile = block.tile_to_shape((16, 32), LayoutLeft)?;
    assert_eq!(tile, layout!(((8,2),(8,4)):((8,64),(1,128))));
    let along_rows = block.tile_to_shape((16, 32), LayoutRight)?;
    assert_eq!(along_rows, layout!(((8,2),(8,4)):((8,256),(1,64))));
    println!("{}", block.tile_to_shape((20, 32), LayoutLeft).unwrap_err());
    // ANCHOR_END: to_shape
    Ok(())
}

/// Repeats a block with a gap: the copies fill it.
fn gaps() -> Result<(), Error> {
    // ANCHOR: gaps
    let block = layout!((2,2):(1,6)); // a block with a gap: the next copies go into it
    let product = block.logical_product(&tiler!(6:1))?;
    assert_eq!(product.get(&[1])?, layout!((3,2):(2,12)));
    let mut offsets = product.table()?;
    offsets.sort();
    assert_eq!(offsets, (0..24).collect::<Vec<_>>()); // each offset once
    // ANCHOR_END: gaps
    Ok(())
}

/// Shows which blocks cannot be repeated.
fn refusals() {
    println!("\n== refusals ==");
    // ANCHOR: refusals
    let message = |block: &str| {
        let block: Layout = block.parse().expect("a layout");
        block.logical_product(2).unwrap_err().to_string()
    };
    println!("{}", message("(2,2):(1,1)"));
    println!("{}", message("4:-1"));
    // ANCHOR_END: refusals
}

/// Shows a number of copies that is no layout.
fn a_step_too_many() -> Result<(), Error> {
    println!("\n== a_step_too_many ==");
    // ANCHOR: a_step_too_many
    let block = layout!(4:2);
    assert_eq!(block.logical_product(4)?, layout!((4,(2,2)):(2,(1,8))));
    let message = block.logical_product(3).unwrap_err().to_string();
    println!("{message}");
    // ANCHOR_END: a_step_too_many
    Ok(())
}
