//! Composition: the layout `R = A o B` with `R(c) = A(B(c))`, when there is one, and the refusal when there is none.
//!
//! Run it with `cargo run -p colex-book --example layout_composition`; each line `== .. ==` names a piece of the chapter.

use colex_layout::{Error, Layout, Unbounded, layout, tiler};

fn main() -> Result<(), Error> {
    by_hand()?;
    without_the_table();
    a_thread()?;
    by_mode()?;
    refusals();
    with_a_number()?;
    side_by_side()?;
    how_often()?;
    Ok(())
}

/// Composes two small layouts and compares the result with A(B(c)) at every coordinate.
fn by_hand() -> Result<(), Error> {
    println!("\n== by_hand ==");
    // ANCHOR: by_hand
    let a = layout!((6,2):(8,2));
    let b = layout!((4,3):(3,1));
    let r = a.composition(&b)?;
    println!("{r}");
    println!("{:?}", r.table()?);
    for i in 0..b.size() {
        assert_eq!(r.at(i)?, a.at(b.at(i)?)?);
    }
    // ANCHOR_END: by_hand
    Ok(())
}

/// Shows the derivation that needs no table, mode by mode.
fn without_the_table() {
    println!("\n== without_the_table ==");
    // ANCHOR: without_the_table
    let a = layout!((6,2):(8,2));
    let b = layout!((4,3):(3,1));
    println!("{}", a.explain_composition(&b));
    // ANCHOR_END: without_the_table
}

/// Composes a tile of shared memory with the (thread, value) layout of a tensor core's operand.
fn a_thread() -> Result<(), Error> {
    println!("\n== a_thread ==");
    // ANCHOR: a_thread
    let tile = layout!((8,8):(8,1));
    let operand = layout!(((4,8),2):((16,1),8)); // (thread, value) to the number of an element
    let place = tile.composition(&operand)?; // (thread, value) to an offset in the tile
    println!("{place}");
    println!("thread 5: {} and {}", place.at((5, 0))?, place.at((5, 1))?);

    let columns = layout!((8,8):(1,8));
    println!("column-major: {}", columns.composition(&operand)?);
    // ANCHOR_END: a_thread
    Ok(())
}

/// Composes where the rule refuses, but the values are a layout (S34).
fn with_a_number() -> Result<(), Error> {
    println!("\n== with_a_number ==");
    // ANCHOR: with_a_number
    let a = layout!((4,4):(4,1));
    let b = layout!((2,2):(1,5));
    assert_eq!(a.at(a.shape().coord(b.at((1, 1))?)?)?, 9);
    println!("{}", a.composition(&b)?);

    println!("{}", a.explain_composition(&b));
    // ANCHOR_END: with_a_number
    Ok(())
}

/// Composes mode by mode, with a tuple of layouts and integers on the right.
fn by_mode() -> Result<(), Error> {
    println!("\n== by_mode ==");
    // ANCHOR: by_mode
    let a = layout!((12,(4,8)):(59,(13,1)));
    let tiler = tiler!((3:4,8:2));
    println!("{}", a.composition(&tiler)?);

    let rows = layout!((64,32):(32,1));
    println!("{}", rows.composition(&tiler!((8, 4)))?);
    println!("{}", rows.composition(&tiler!((8, _)))?);
    // ANCHOR_END: by_mode
    Ok(())
}

/// Compares A(B(c)) with what CuTe's rule makes of it (D10, D11).
fn side_by_side() -> Result<(), Error> {
    println!("\n== side_by_side ==");
    // ANCHOR: side_by_side
    /// A(B(c)) at every index, and what CuTe's rule makes of it.
    fn truth_and_cute(a: &str, b: &str) -> Result<(Vec<i64>, Layout), Error> {
        let (a, b): (Layout, Layout) = (a.parse()?, b.parse()?);
        let values = (0..b.size()).map(|i| a.at(Unbounded(b.at(i)?)));
        Ok((values.collect::<Result<_, _>>()?, a.cute_composition(&b)?))
    }

    let pairs = [
        ("(4,3):(1,10)", "4:3"),
        ("(6,3):(1,10)", "(3,2):(2,3)"),
        ("(4,6,8):(2,3,5)", "6:3"),
    ];
    for (a, b) in pairs {
        let (truth, cute) = truth_and_cute(a, b)?;
        println!("{a} o {b}");
        println!("  the truth   {truth:?}");
        println!("  CuTe's rule {:?}, that is {cute}", cute.table()?);
    }
    // ANCHOR_END: side_by_side
    Ok(())
}

/// Shows what the library says where there is no layout.
fn refusals() {
    println!("\n== refusals ==");
    // ANCHOR: refusals
    let refused = |a: &str, b: &str| {
        let [a, b] = [a, b].map(|text| text.parse::<Layout>().expect("a layout"));
        let error = a.composition(&b).unwrap_err().to_string();
        error.replace(": mode", ":\n  mode").replace("; ", ";\n  ")
    };
    println!("{}", refused("(4,3):(1,10)", "4:3"));
    println!("{}", refused("(6,3):(1,10)", "(3,2):(2,3)"));
    // ANCHOR_END: refusals
}

/// Counts, over small layouts, what CuTe's rule accepts and how much of it is wrong.
fn how_often() -> Result<(), Error> {
    println!("\n== how_often ==");
    // ANCHOR: how_often
    let (mut we_accept, mut lost) = (0, 0);
    // What CuTe's rule accepts and what of it is wrong: of all; with B injective and
    // inside A; with powers of two only; with both.
    let mut counts = [(0, 0); 4];
    for s in 2..=9 {
        let a = Layout::new((s, 20), (1, 100))?;
        for x in 0..4096 {
            let (n, r, m, q) = (2 + x % 8, 1 + x / 8 % 8, 1 + x / 64 % 8, 1 + x / 512);
            let b = Layout::new((n, m), (r, q))?;
            let values = (0..b.size()).map(|i| a.at(Unbounded(b.at(i)?)));
            let truth = values.collect::<Result<Vec<i64>, Error>>()?;
            let ours = a.composition(&b);
            if let Ok(r) = &ours {
                we_accept += 1;
                assert_eq!(r.table()?, truth, "{a} o {b}"); // ours are never wrong
            }
            if let Ok(cute) = a.cute_composition(&b) {
                let is_right = cute.table()? == truth;
                lost += u32::from(is_right && ours.is_err());
                let is_inside = b.is_injective()? && b.cosize()? <= a.size();
                let are_powers = [s, n, r, m, q].iter().all(|x: &i64| x.count_ones() == 1);
                let kinds = [true, is_inside, are_powers, is_inside && are_powers];
                for ((accepted, wrong), holds) in counts.iter_mut().zip(kinds) {
                    *accepted += u32::from(holds);
                    *wrong += u32::from(holds && !is_right);
                }
            }
        }
    }
    let [all, inside, powers, both] = counts.map(|(n, wrong)| format!("{n}, {wrong} wrong"));
    println!("CuTe's rule accepts {all}");
    println!("  with B injective and inside A: {inside}");
    println!("  with powers of two only: {powers}");
    println!("  with both: {both}");
    println!("Colex accepts {we_accept}, and loses {lost} of those that are right");
    // ANCHOR_END: how_often
    Ok(())
}
