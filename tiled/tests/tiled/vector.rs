//! How wide a vector may be: what it says holds for every element, and twice as wide is no layout of vectors.

use std::collections::HashMap;
use std::error::Error;

use colex_layout::{ComposedLayout, Layout, Swizzle};
use colex_tiled::{VectorLimit, Vectorization};

type Outcome = Result<(), Box<dyn Error>>;

/// Whether the destination falls into whole vectors of `width` consecutive aligned values, whose values lie in the
/// source in the same order, from a multiple of `width` on.
fn is_vector(src: &Layout, dst: &Layout, width: i64) -> Result<bool, Box<dyn Error>> {
    let mut vectors: HashMap<i64, (i64, i64)> = HashMap::new();
    for index in 0..dst.size() {
        let (from, to) = (src.at(index)?, dst.at(index)?);
        let start = from - to.rem_euclid(width);
        let vector = vectors.entry(to.div_euclid(width)).or_insert((start, 0));
        if vector.0 != start || start % width != 0 {
            return Ok(false);
        }
        vector.1 += 1;
    }
    Ok(vectors.values().all(|(_, values)| *values == width))
}

fn check(src: &Layout, dst: &Layout) -> Outcome {
    let found = Vectorization::new(src, dst, 8, 64)?;
    let text = format!("{src} to {dst}: {found}");
    assert!(is_vector(src, dst, found.values)?, "{text}");
    match found.limit {
        VectorLimit::Alignment(bits) => assert_eq!((found.values, bits), (8, 64), "{text}"),
        _ => assert!(!is_vector(src, dst, 2 * found.values)?, "{text}"),
    }
    Ok(())
}

#[test]
fn the_widest_vector_is_one_and_the_next_is_none() -> Outcome {
    let mut cases = 0;
    let strides = [0, 1, 2, 3, 4, 6, 8, 16];
    let pairs = || {
        strides
            .into_iter()
            .flat_map(move |d| strides.map(|e| (d, e)))
    };
    for (rows, columns) in [
        (1, 8),
        (2, 2),
        (2, 6),
        (3, 4),
        (4, 4),
        (6, 2),
        (8, 3),
        (8, 4),
    ] {
        let layout = |(d, e): (i64, i64)| format!("({rows},{columns}):({d},{e})").parse::<Layout>();
        for to in pairs() {
            let dst = layout(to)?;
            if !dst.is_injective()? {
                continue; // No copy writes there.
            }
            for from in pairs() {
                check(&layout(from)?, &dst)?;
                cases += 1;
            }
        }
    }
    println!("law vectorization.the_widest_vector_is_one_and_the_next_is_none: {cases} pairs");
    Ok(())
}

/// The same elements in other modes: what both make one run is one, and modes that do not divide each other are looked at
/// element by element.
#[test]
fn the_widest_vector_of_other_modes() -> Outcome {
    let strides = [0, 1, 2, 3, 4, 6, 8, 12, 24];
    let mut by_size: HashMap<i64, Vec<Layout>> = HashMap::new();
    for (rows, columns) in [
        (12, 1),
        (3, 4),
        (4, 3),
        (2, 6),
        (6, 2),
        (24, 1),
        (4, 6),
        (6, 4),
        (8, 3),
        (3, 8),
    ] {
        for (d, e) in strides.into_iter().flat_map(|d| strides.map(|e| (d, e))) {
            let layout: Layout = format!("({rows},{columns}):({d},{e})").parse()?;
            by_size.entry(layout.size()).or_default().push(layout);
        }
    }
    let (mut cases, mut later) = (0, 0);
    for layouts in by_size.values() {
        for dst in layouts {
            if !dst.is_injective()? {
                continue;
            }
            for src in layouts {
                check(src, dst)?;
                let limit = Vectorization::new(src, dst, 8, 64)?.limit;
                later += usize::from(matches!(limit, VectorLimit::Later { .. }));
                cases += 1;
            }
        }
    }
    assert!(later > 10, "{later}");
    let told = |src: &str, dst: &str| Vectorization::new(src, dst, 16, 128).map(|v| v.to_string());
    assert_eq!(told("(3,4):(1,3)", "(3,4):(1,3)")?, told("12:1", "12:1")?);
    assert_eq!(
        told("(4,6):(1,8)", "(6,4):(1,12)")?,
        "2 values of 16 bits at once. Not 4: the vector of the destination from offset 4 on is none of the source."
    );
    let huge = "(4,6442450944):(1,8)";
    assert_eq!(
        told(huge, "(6,4294967296):(1,12)").unwrap_err().to_string(),
        format!(
            "Vectorization: {huge} and (6,4294967296):(1,12) have 25769803776 elements, and each of at most 4194304 of \
             layouts without common modes is looked at: take a part of whole tiles, the others are alike"
        )
    );
    println!("law vectorization.the_widest_vector_of_other_modes: {cases} pairs");
    Ok(())
}

/// Three modes, in any order of compact strides on either side, some of them padded.
#[test]
fn the_widest_vector_of_random_orders() -> Outcome {
    let mut cases = 0;
    let mut seed = 5u32;
    let mut next = |n: u32| {
        seed = seed.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        i64::from((seed >> 16) % n)
    };
    for _ in 0..5000 {
        let extents = [0; 3].map(|_| [1, 2, 3, 4, 6, 8, 16][next(7) as usize]);
        let mut side = || -> Result<Layout, Box<dyn Error>> {
            let first = next(3) as usize;
            let turn = 1 + next(2) as usize;
            let order = [first, (first + turn) % 3, (first + 2 * turn) % 3];
            let mut strides = [0; 3];
            let mut stride = 1;
            for mode in order {
                strides[mode] = stride;
                stride = stride * extents[mode] + [0, 0, 0, 4, 1][next(5) as usize];
            }
            let [a, b, c] = extents;
            let [d, e, f] = strides;
            Ok(format!("({a},({b},{c})):({d},({e},{f}))").parse()?)
        };
        check(&side()?, &side()?)?;
        cases += 1;
    }
    println!("law vectorization.the_widest_vector_of_random_orders: {cases} pairs");
    Ok(())
}

/// Swizzled rows, to plain rows, plain columns and themselves: what the swizzle leaves in one piece is a vector.
#[test]
fn the_widest_vector_of_swizzled_layouts() -> Outcome {
    let mut cases = 0;
    let inner = ["(8,16):(16,1)", "(16,8):(1,16)", "(4,32):(32,1)"];
    for (bits, base, shift) in
        (0..3).flat_map(|b| (0..4).flat_map(move |m| (1..4).map(move |s| (b, m, s))))
    {
        let Ok(swizzle) = Swizzle::new(bits, base, shift) else {
            continue;
        };
        for inner in inner {
            let plain: Layout = inner.parse()?;
            let swizzled = ComposedLayout::new(swizzle, 0, plain.clone()).unwrap();
            let Ok((xor, 0)) = swizzled.to_xor() else {
                continue;
            };
            let transposed = Layout::column_major(plain.shape())?;
            for (src, dst) in [
                (&xor, &plain),
                (&plain, &xor),
                (&xor, &xor),
                (&xor, &transposed),
                (&transposed, &xor),
            ] {
                let found = Vectorization::new(src, dst, 8, 128)?;
                let text = format!("{src} to {dst}: {found}");
                assert!(is_vector(src, dst, found.values)?, "{text}");
                // A swizzle that permutes the values of a vector leaves none, though both sides may do the same.
                let within = 2 * found.values > 1 << base;
                assert!(
                    found.values == 16 || within || !is_vector(src, dst, 2 * found.values)?,
                    "{text}"
                );
                cases += 1;
            }
        }
    }
    let (xor, _) = "Sw<3,3,3> o 0 o (8,64):(64,1)"
        .parse::<ComposedLayout>()?
        .to_xor()?;
    assert_eq!(
        Vectorization::new(&xor, "(8,64):(64,1)", 16, 256)?.to_string(),
        "8 values of 16 bits at once. Not 16: the stride 72 of the source is not a multiple of 16."
    );
    assert!(cases > 300, "only {cases} pairs");
    println!("law vectorization.the_widest_vector_of_swizzled_layouts: {cases} pairs");
    Ok(())
}

#[test]
fn each_limit_is_a_sentence() -> Outcome {
    let told = |src: &str, dst: &str, bits, alignment| -> Result<String, Box<dyn Error>> {
        Ok(Vectorization::new(src, dst, bits, alignment)?.to_string())
    };
    assert_eq!(
        told("(8,4):(1,8)", "(8,4):(1,10)", 32, 64)?,
        "2 values of 32 bits at once. Not 4: 64 bits are aligned, and no more."
    );
    assert_eq!(
        told("(4,8):(8,1)", "(4,8):(1,4)", 16, 128)?,
        "1 value of 16 bits at once. Not 2: the destination has (1,0) at offset 1, and the source has it at offset 8."
    );
    assert_eq!(
        told("(4,8):(1,4)", "(4,8):(1,8)", 16, 128)?,
        "4 values of 16 bits at once. Not 8: from offset 0 on the destination has 4 values in a row, and no more."
    );
    assert_eq!(
        told("(4,8):(1,6)", "(4,8):(1,8)", 16, 128)?,
        "2 values of 16 bits at once. Not 4: the stride 6 of the source is not a multiple of 4."
    );
    assert_eq!(
        told("6:1", "6:1", 32, 128)?,
        "2 values of 32 bits at once. Not 4: 6 values in a row are not a multiple of it."
    );
    Ok(())
}

#[test]
fn errors_are_sentences() -> Outcome {
    let refused = |src: &str, bits, alignment| {
        Vectorization::new(src, "8:1", bits, alignment)
            .unwrap_err()
            .to_string()
    };
    assert_eq!(
        refused("6:1", 32, 128),
        "Vectorization: 6:1 has 6 elements, and 8:1 has 8"
    );
    assert_eq!(
        refused("8:1", 24, 128),
        "Vectorization: a value of 24 bits is not a power of two"
    );
    assert_eq!(
        refused("8:1", 32, 0),
        "Vectorization: an alignment of 0 bits is not a power of two"
    );
    Ok(())
}
