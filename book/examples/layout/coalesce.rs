//! Coalesce: the fewest modes for the same offsets.
//!
//! Run it with `cargo run -p colex-book --example layout_coalesce`; each line `== .. ==` names a piece of the chapter.

use colex_layout::{Error, Layout, Unbounded, layout};

fn main() -> Result<(), Error> {
    by_hand()?;
    by_mode()?;
    refused();
    filtered();
    same_function()?;
    inferred()?;
    beyond_the_end()?;
    kept_static();
    Ok(())
}

/// Coalesces layouts of several kinds.
fn by_hand() -> Result<(), Error> {
    println!("\n== by_hand ==");
    // ANCHOR: by_hand
    fn coalesced(layout: &str) -> Result<String, colex_layout::Error> {
        Ok(layout.parse::<Layout>()?.coalesce(..).to_string())
    }
    println!("{}", coalesced("(2,(1,6)):(1,(6,2))")?);
    println!("{}", coalesced("((2,2),(2,4)):((1,4),(2,8))")?);
    println!("{}", coalesced("(2,4,3):(1,4,16)")?);
    println!("{}", coalesced("(4,2):(-1,-4)")?); // negative strides join as well
    println!("{}", coalesced("(2,3,4):(0,0,0)")?); // and stride 0
    println!("{}", coalesced("(1,1):(3,5)")?); // no mode remains
    // ANCHOR_END: by_hand
    Ok(())
}

/// Coalesces each mode by itself.
fn by_mode() -> Result<(), Error> {
    println!("\n== by_mode ==");
    // ANCHOR: by_mode
    let a = layout!((2,(1,6)):(1,(6,2)));
    println!("{}", a.coalesce((1, 1))?); // still of rank 2
    println!("{}", a.coalesce(1)?);
    println!("{}", a.coalesce((1, (1, 1)))?); // 1:6 becomes 1:0
    // ANCHOR_END: by_mode
    Ok(())
}

/// Shows a profile that does not fit.
fn refused() {
    println!("\n== refused ==");
    // ANCHOR: refused
    let a = layout!((2,(1,6)):(1,(6,2)));
    println!("{}", a.coalesce((1, 1, 1)).unwrap_err());
    // ANCHOR_END: refused
}

/// Compares coalesce with filter, which also removes repetitions.
fn filtered() {
    println!("\n== filtered ==");
    // ANCHOR: filtered
    let broadcast = layout!((4,3,2):(1,0,4));
    println!("{}", broadcast.coalesce(..)); // 24 coordinates
    println!("{}", broadcast.filter(..)); // 8 different offsets
    assert_eq!(layout!((2,2):(1,1)).filter(..), layout!((2,2):(1,1)));
    // ANCHOR_END: filtered
}

/// Compares two layouts by what they do.
fn same_function() -> Result<(), Error> {
    // ANCHOR: same_function
    let a = layout!((2,(1,6)):(1,(6,2)));
    let b = layout!(((3,2),2):((1,3),6));
    assert_ne!(a, b);
    assert!(a.is_same_function(&b));
    assert_eq!(a.table()?, b.table()?);
    // ANCHOR_END: same_function
    Ok(())
}

/// Finds the layout of a table, or the value that contradicts it.
fn inferred() -> Result<(), Error> {
    println!("\n== inferred ==");
    // ANCHOR: inferred
    let found = Layout::infer(&[0, 2, 4, 6, 1, 3, 5, 7])?;
    assert_eq!(found, layout!((4,2):(2,1)));

    let message = Layout::infer(&[0, 3, 12, 21]).unwrap_err().to_string();
    println!("{message}");
    // ANCHOR_END: inferred
    Ok(())
}

/// Shows what coalescing changes beyond the end of a layout.
fn beyond_the_end() -> Result<(), Error> {
    println!("\n== beyond_the_end ==");
    // ANCHOR: beyond_the_end
    let a = layout!((4,1):(1,7));
    println!("{}", a.coalesce(..));
    assert_eq!(a.at(Unbounded(5))?, 1 + 7);
    assert_eq!(a.coalesce(..).at(Unbounded(5))?, 5);
    // ANCHOR_END: beyond_the_end
    Ok(())
}

/// Shows that static integers stay static.
fn kept_static() {
    println!("\n== kept_static ==");
    // ANCHOR: kept_static
    let (fixed, at_run_time) = (layout!((_2,_3):(_1,_2)), layout!((2,3):(1,2)));
    println!("{}", fixed.coalesce(..));
    println!("{}", at_run_time.coalesce(..));
    // ANCHOR_END: kept_static
}
