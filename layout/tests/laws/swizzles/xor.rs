//! XOR strides and matrices over F2, against the bits of the index one by one.

use colex_layout::{BinaryMatrix, ComposedLayout, Layout, Stride, Swizzle, Unbounded};

use crate::law::law;
use crate::small;

/// All layouts of rank 1 and 2 with extents 2, 4, 8 and small XOR strides, a third with a nested mode.
fn xor_layouts() -> Vec<Layout> {
    let mut all = Vec::new();
    for (s0, s1) in [(2, 4), (4, 2), (8, 4), (4, 8), (8, 8)] {
        for d0 in 0..12 {
            for d1 in (0..40).step_by(3) {
                let text = format!("({s0},{s1}):(^{d0},^{d1})");
                all.push(text.parse().expect("the text is a layout"));
            }
        }
    }
    all.push(
        "(2,(2,4)):(^1,(^6,^8))"
            .parse()
            .expect("the text is a layout"),
    );
    all.push("(3,4):(^1,^5)".parse().expect("the text is a layout"));
    all
}

/// The definition: every set bit `k` of a digit contributes `stride << k`.
fn by_bits(layout: &Layout, index: i64) -> i64 {
    let (mut rest, mut value) = (index, 0);
    for leaf in layout.leaves() {
        let digit = rest % leaf.extent.value();
        rest /= leaf.extent.value();
        for k in (0..6).filter(|k| digit >> k & 1 == 1) {
            value ^= leaf.stride.coefficient().value() << k;
        }
    }
    value
}

#[test]
fn xor_at() {
    law("xor_at", "layouts", 800, |count| {
        for layout in xor_layouts() {
            let table: Vec<i64> = (0..layout.size()).map(|i| by_bits(&layout, i)).collect();
            assert_eq!(layout.table().as_deref(), Ok(&table[..]), "{layout}");
            let walk = layout.offsets().expect("XOR strides");
            assert_eq!(walk.clone().collect::<Vec<_>>(), table, "{layout}");
            let folded = walk.fold(Vec::new(), |mut v, x| {
                v.push(x);
                v
            });
            assert_eq!(folded, table, "{layout}");
            assert_eq!(
                layout.coalesce(..).table().as_deref(),
                Ok(&table[..]),
                "{layout}"
            );
            *count += 1;
        }
    });
}

/// An integer layout whose sums never carry is the same function with XOR strides; others are refused.
#[test]
fn to_xor_at() {
    law("to_xor_at", "layouts", 1_000, |count| {
        for layout in small::layouts() {
            let truth = layout.table().expect("integer strides");
            match layout.to_xor() {
                Ok(xor) => {
                    assert_eq!(xor.table(), Ok(truth), "{layout}");
                    *count += 1;
                }
                Err(_) => assert!(!is_linear(&layout), "{layout} is linear over F2"),
            }
        }
    });
}

/// Whether the sums of the layout's steps never share a bit, by all pairs of single bits of its digits.
fn is_linear(layout: &Layout) -> bool {
    let mut seen = 0_i64;
    for leaf in layout.leaves() {
        let (n, d) = (leaf.extent.value(), leaf.stride.coefficient().value());
        for k in (0..8).filter(|k| 1 << k < n) {
            let v = d << k;
            if v < 0 || seen & v != 0 {
                return false;
            }
            seen |= v;
        }
    }
    true
}

/// `Swizzle o Layout` as XOR strides, and back.
#[test]
fn swizzled_to_xor_at() {
    law("swizzled_to_xor_at", "layouts", 200, |count| {
        let inner = [
            "(8,64):(64,1)",
            "(8,8):(8,1)",
            "(64,8):(1,64)",
            "((2,4),16):((1,8),32)",
            "(16,4):(1,16)",
        ];
        for text in inner {
            let layout: Layout = text.parse().expect("the text is a layout");
            for (b, m, s) in
                (1..=3).flat_map(|b| (0..=4).flat_map(move |m| [(b, m, 3), (b, m, -3), (b, m, 4)]))
            {
                let sw = Swizzle::new(b, m, s).expect("a shift of at least the bits");
                for offset in [0, 512, 1536] {
                    let tile = ComposedLayout::new(sw, offset, layout.clone()).unwrap();
                    let (xor, start) = tile.to_xor().expect("powers of two");
                    for i in 0..tile.size() {
                        assert_eq!(xor.at(i).map(|x| x ^ start), tile.at(i), "{tile}");
                    }
                    let back = xor.to_swizzled().expect("it came from a swizzle");
                    assert_eq!(back.table(), xor.table(), "{tile} as {xor}");
                    assert!(
                        back.swizzle().bits() <= b,
                        "{back} has more bits than {tile}"
                    );
                    *count += 1;
                }
            }
        }
    });
}

/// Composition where a side has XOR strides: the same function, or refused.
#[test]
fn xor_composition_at() {
    law("xor_composition_at", "pairs", 1_500, |count| {
        let right: Vec<Layout> = small::layouts()
            .step_by(97)
            .filter(|l| {
                l.leaves()
                    .iter()
                    .all(|m| m.stride.coefficient().value() >= 0)
            })
            .chain(xor_layouts().into_iter().step_by(29))
            .collect();
        let left = xor_layouts().into_iter().step_by(7).chain(
            ["(8,8):(8,1)", "64:1", "(4,16):(1,64)"]
                .iter()
                .map(|t| t.parse().expect("the text is a layout")),
        );
        for a in left {
            for b in &right {
                let Ok(r) = a.composition(b) else { continue };
                assert!(b.is_compatible(&r), "{a} o {b} = {r}");
                for i in 0..b.size() {
                    let truth = b.at(i).and_then(|x| a.at(Unbounded(x)));
                    assert_eq!(r.at(i), truth, "{a} o {b} = {r} at {i}");
                }
                *count += 1;
            }
        }
    });
}

/// A composition with XOR strides on the right has a result wherever the left side is a power-of-two layout whose
/// offsets never carry, as far as the right side reaches.
#[test]
fn xor_composition_answers_where_nothing_carries() {
    law("xor_composition_answers", "pairs", 500, |count| {
        for left in ["(8,8):(8,1)", "64:1", "(4,16):(1,64)", "(4,4):(^1,^6)"] {
            let left: Layout = left.parse().expect("the text is a layout");
            let reaches = |right: &Layout| {
                let offsets = right.table().expect("a small layout");
                right.size().count_ones() == 1 && offsets.iter().all(|x| *x < left.size())
            };
            for right in xor_layouts().iter().filter(|right| reaches(right)) {
                let result = left.composition(right);
                assert!(result.is_ok(), "{left} o {right}: {result:?}");
                *count += 1;
            }
        }
    });
    let right: Layout = "(4,4):(^1,^5)".parse().expect("the text is a layout");
    for left in ["(4,4):(1,3)", "(4,4):(1,2)", "(4,4):(-1,4)", "(3,8):(1,4)"] {
        let left: Layout = left.parse().expect("the text is a layout");
        let error = left.composition(&right).expect_err("offsets carry");
        assert_eq!(
            error.to_string(),
            format!(
                "composition of {left} o {right}: XOR strides on the right need a left operand that is linear over F2: \
                 extents that are powers of two, and strides whose sums never carry"
            )
        );
    }
}

#[test]
fn mixing_kinds_is_refused() {
    let error = "(2,4):(1,^2)".parse::<Layout>().expect_err("kinds differ");
    assert_eq!(
        error.to_string(),
        "strides 1 and ^2 in one layout: all strides add, or all XOR, or all are coordinates"
    );
    let zero: Layout = "(2,4):(0,^2)".parse().expect("0 belongs to every kind");
    assert!(matches!(zero.leaves()[1].stride, Stride::Xor(_)));
}

/// Rank, kernel, solutions and inverses of every 3-column matrix of 3 bits, by enumeration.
#[test]
fn matrix_laws() {
    law("matrix_laws", "matrices", 512, |count| {
        for code in 0..512_i64 {
            let columns = vec![code & 7, code >> 3 & 7, code >> 6 & 7];
            let matrix = BinaryMatrix::new(columns).expect("small columns");
            let images: Vec<i64> = (0..8).map(|x| matrix.apply(x)).collect();
            let mut image = images.clone();
            image.sort_unstable();
            image.dedup();
            assert_eq!(1 << matrix.rank(), image.len(), "{matrix:?}");
            let kernel = matrix.kernel();
            assert_eq!(kernel.len() + matrix.rank(), 3, "{matrix:?}");
            assert!(
                kernel.iter().all(|x| *x != 0 && matrix.apply(*x) == 0),
                "{matrix:?}"
            );
            for y in 0..8 {
                match matrix.solve(y) {
                    Some(x) => assert_eq!(matrix.apply(x), y, "{matrix:?}"),
                    None => assert!(!image.contains(&y), "{matrix:?} reaches {y}"),
                }
            }
            let (left, right) = (matrix.left_inverse(), matrix.right_inverse());
            assert!(
                (0..8).all(|x| matrix.apply(left.apply(matrix.apply(x))) == matrix.apply(x)),
                "{matrix:?}"
            );
            assert!(
                (0..1 << right.columns().len()).all(|y| matrix.apply(right.apply(y)) == y),
                "{matrix:?}"
            );
            if let Ok(inverse) = matrix.inverse() {
                assert!(
                    (0..8).all(|x| inverse.apply(matrix.apply(x)) == x),
                    "{matrix:?}"
                );
            }
            let layout = Layout::from_matrix(&matrix).expect("3 columns");
            assert_eq!(layout.table().as_deref(), Ok(&images[..]), "{layout}");
            assert_eq!(layout.to_matrix(), Ok(matrix));
            *count += 1;
        }
    });
}
