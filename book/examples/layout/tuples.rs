//! Integers and tuples of integers: rank, depth, product, static and dynamic values.
//!
//! Run it with `cargo run -p colex-book --example layout_tuples`; each line `== .. ==` names a piece of the chapter.

use colex_layout::{Error, Int, IntTuple, int_tuple};

fn main() -> Result<(), Error> {
    a_shape()?;
    by_hand()?;
    three_ways()?;
    parts()?;
    static_and_dynamic();
    products()?;
    parentheses()?;
    refusals()?;
    Ok(())
}

/// Reads a shape and asks for its rank, its size and its first mode.
fn a_shape() -> Result<(), Error> {
    // ANCHOR: a_shape
    let shape: IntTuple = "((2,3),3)".parse()?;
    assert_eq!(shape.rank(), 2);
    assert_eq!(shape.product()?.value(), 18);
    assert_eq!(shape.get(&[0])?, "(2,3)".parse()?);
    // ANCHOR_END: a_shape
    Ok(())
}

/// Computes the size of a nested tuple as a whole and mode by mode.
fn by_hand() -> Result<(), Error> {
    // ANCHOR: by_hand
    let t: IntTuple = "(3,(6,2),8)".parse()?;
    assert_eq!((t.rank(), t.depth()), (3, 2));
    assert_eq!(t.product()?.value(), 3 * (6 * 2) * 8);
    assert_eq!(t.product_each()?, "(3,12,8)".parse()?); // one product per mode

    assert_eq!("()".parse::<IntTuple>()?.depth(), 1); // a tuple of no modes
    assert_eq!(IntTuple::from(7).depth(), 0); // an integer
    assert_eq!("(7)".parse::<IntTuple>()?.depth(), 1); // a tuple of one integer
    // ANCHOR_END: by_hand
    Ok(())
}

/// Makes the same tuple from a text, from a Rust tuple and at compile time.
fn three_ways() -> Result<(), Error> {
    println!("\n== three_ways ==");
    // ANCHOR: three_ways
    let from_text: IntTuple = "(3,(6,2),8)".parse()?;
    let from_rust = IntTuple::from((3, (6, 2), 8));
    assert_eq!(from_text, from_rust);
    assert_eq!(from_text, int_tuple!((3, (6, 2), 8)));
    println!("{from_rust}");
    // ANCHOR_END: three_ways
    Ok(())
}

/// Takes a tuple apart.
fn parts() -> Result<(), Error> {
    // ANCHOR: parts
    let t: IntTuple = "(3,(6,2),8)".parse()?;
    assert_eq!(t.get(&[1])?, "(6,2)".parse()?);
    assert_eq!(t.get(&[1, 0])?, 6.into());
    assert_eq!(t.get(&[1, 0])?, t.get(&[1])?.get(&[0])?); // the definition
    assert_eq!(t.get(&[1])?.rank(), 2);
    assert_eq!(t.size_at(&[1])?.value(), 12); // size<1>
    assert_eq!(t.size_at(&[])?.value(), 288); // size<>
    assert_eq!(t.append(&7.into()), "(3,(6,2),8,7)".parse()?);
    // ANCHOR_END: parts
    Ok(())
}

/// Compares an integer known at compile time with one that arrives at launch.
fn static_and_dynamic() {
    println!("\n== static_and_dynamic ==");
    // ANCHOR: static_and_dynamic
    let known = Int::Static(4);
    let arrives_at_launch = Int::Dynamic(4);
    println!("{known}");
    println!("{arrives_at_launch}");

    assert!(known.is_static()); // is_static is true
    assert!(!arrives_at_launch.is_static()); // is_std_integral is true
    assert!(matches!(known, Int::Static(4))); // is_constant<4,T> is true
    assert_eq!(known, arrives_at_launch); // equal values, as in CuTe
    // ANCHOR_END: static_and_dynamic
}

/// Shows that a product is static where both factors are.
fn products() -> Result<(), Error> {
    println!("\n== products ==");
    // ANCHOR: products
    println!("{}", IntTuple::from((2, 3)));
    println!("{}", "(_2,_3)".parse::<IntTuple>()?);

    fn product(text: &str) -> Result<String, colex_layout::Error> {
        Ok(text.parse::<IntTuple>()?.product()?.to_string())
    }
    println!("{}", product("(_2,_3)")?);
    println!("{}", product("(_2,3)")?);
    println!("{}", Int::Static(2).times(Int::Dynamic(3))?);
    // ANCHOR_END: products
    Ok(())
}

/// Tells an integer from the tuple that holds only this integer.
fn parentheses() -> Result<(), Error> {
    // ANCHOR: parentheses
    let (bare, tuple): (IntTuple, IntTuple) = ("4".parse()?, "(4)".parse()?);
    assert_ne!(bare, tuple);
    assert_eq!(tuple, IntTuple::from((4,)));
    for text in ["4", "(4)", "((4))", "(3,(_6,2),_8)", "(2,(3,(-1)))", "()"] {
        assert_eq!(text.parse::<IntTuple>()?.to_string(), text);
    }
    // ANCHOR_END: parentheses
    Ok(())
}

/// Shows what the library says of texts and tuples that are wrong.
fn refusals() -> Result<(), Error> {
    println!("\n== refusals ==");
    // ANCHOR: refusals
    let message = |text: &str| text.parse::<IntTuple>().unwrap_err().to_string();
    println!("{}", message("(3,(6,2),8"));
    println!("{}", message("(3,x)"));

    let t: IntTuple = "(3,(6,2),8)".parse()?;
    println!("{}", t.get(&[1, 2]).unwrap_err());

    let huge: IntTuple = "(4294967296,4294967296)".parse()?;
    println!("{}", huge.product().unwrap_err());
    // ANCHOR_END: refusals
    Ok(())
}
