//! Split-K and stream-K.
//!
//! Run it with `cargo run -p colex-book --example schedule_split`; each line `== .. ==` names a piece of the chapter.

use colex_sched::{
    Decomposition, Error, GemmCoord, StreamK, StreamKDevice, StreamKRow, StreamKSm90,
    StreamKSm90Args, choose_split,
};

fn main() -> Result<(), Error> {
    by_blocks()?;
    by_units()?;
    worth_it()?;
    table()?;
    refused();
    row()?;
    Ok(())
}

/// Lists the work of blocks under stream-K.
fn by_blocks() -> Result<(), Error> {
    println!("\n== by_blocks ==");
    // ANCHOR: by_blocks
    let (problem, tile) = (GemmCoord::new(640, 128, 1024), GemmCoord::new(128, 128, 32));
    let s = StreamK::new(problem, tile, 1, StreamKDevice::new(4))?;
    let work = |block| {
        s.work(block)
            .iter()
            .map(|w| w.to_string())
            .collect::<Vec<_>>()
    };
    println!("{:?}", work(0));
    println!("{:?}", work(1));
    assert_eq!(s.peers(1), Some(0..=1));
    // ANCHOR_END: by_blocks
    Ok(())
}

/// Distributes 140 tiles over 132 units.
fn by_units() -> Result<(), Error> {
    println!("\n== by_units ==");
    // ANCHOR: by_units
    let args = StreamKSm90Args {
        decomposition: Decomposition::StreamK,
        ..StreamKSm90Args::new(132)
    };
    let s = StreamKSm90::new(GemmCoord::new(10, 14, 1), 64, args)?;
    assert_eq!((s.sk_tiles(), s.sk_units(), s.groups()), (140, 132, 4));
    let shares: Vec<i64> = (0..132)
        .map(|u| s.work(u).iter().map(|w| w.len()).sum())
        .collect();
    assert_eq!(
        (shares.iter().min(), shares.iter().max()),
        (Some(&64), Some(&73))
    );
    assert_eq!(shares.iter().sum::<i64>(), 140 * 64);

    // Unit 5 of each group: the group is the unit's number modulo 4.
    for group in 0..4 {
        let work = s.work(5 * 4 + group);
        let parts: Vec<String> = work.iter().map(|w| w.to_string()).collect();
        println!("group {group}: {}", parts.join(", "));
    }
    // ANCHOR_END: by_units
    Ok(())
}

/// Chooses a decomposition for several problems.
fn worth_it() -> Result<(), Error> {
    // ANCHOR: worth_it
    let best = |m, n, k| choose_split(GemmCoord::new(m, n, 1), k, 132).map(|c| *c.best());

    let few = best(3, 3, 64)?; // 9 tiles
    assert_eq!(
        (few.decomposition, few.splits, few.iterations),
        (Decomposition::SplitK, 5, 13)
    );

    let over = best(10, 14, 64)?; // 140 tiles: 73 iterations instead of 128
    assert_eq!(
        (over.decomposition, over.iterations, over.peers),
        (Decomposition::StreamK, 73, 2)
    );

    let full = best(11, 12, 64)?; // 132 tiles
    assert_eq!(
        (full.decomposition, full.iterations),
        (Decomposition::DataParallel, 64)
    );
    // ANCHOR_END: worth_it
    Ok(())
}

/// Prints every candidate for five tiles.
fn table() -> Result<(), Error> {
    println!("\n== table ==");
    // ANCHOR: table
    print!("{}", choose_split(GemmCoord::new(5, 1, 1), 32, 4)?);
    // ANCHOR_END: table
    Ok(())
}

/// Shows a split without work.
fn refused() {
    println!("\n== refused ==");
    // ANCHOR: refused
    let args = StreamKSm90Args {
        splits: 17,
        decomposition: Decomposition::SplitK,
        ..StreamKSm90Args::new(132)
    };
    let refused = StreamKSm90::new(GemmCoord::new(4, 4, 1), 16, args).unwrap_err();
    println!("{refused}");
    // ANCHOR_END: refused
}

/// Divides the five tiles as the kernel does.
fn row() -> Result<(), Error> {
    // ANCHOR: row
    let row = StreamKRow::new(5, 32, 4, 2)?; // tiles, k-tiles, shares, the least part
    let work: Vec<_> = row.work(1).collect();
    assert_eq!(work, [(1, 8..32), (2, 0..16)]);
    assert_eq!(row.peers(2), Some(1..=2)); // the shares that have parts of tile 2
    // ANCHOR_END: row
    Ok(())
}
