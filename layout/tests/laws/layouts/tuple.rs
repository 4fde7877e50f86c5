//! Arithmetic of integer tuples, against plain arithmetic and against the tables of CuTe's own tests.

use colex_layout::{Int, IntTuple, Tiler};

use crate::law::law;
use crate::small;

fn tuple(text: &str) -> IntTuple {
    text.parse().expect("the test's own texts parse")
}

fn flat(numbers: &[i64]) -> IntTuple {
    IntTuple::flat(numbers.iter().map(|n| Int::from(*n)))
}

fn ceil(a: i64, b: i64) -> i64 {
    (a + b - 1) / b
}

/// All triples of small numbers.
fn triples(numbers: &[i64]) -> Vec<Vec<i64>> {
    let all = small::modes(3, numbers, &[0]);
    all.iter()
        .map(|m| m.iter().map(|(n, _)| *n).collect())
        .collect()
}

#[test]
fn folds() {
    law("folds", "tuples", 300, |count| {
        for numbers in triples(&[-3, 0, 1, 2, 4, 6, 9]) {
            let (a, b, c) = (numbers[0], numbers[1], numbers[2]);
            let nested = IntTuple::from((a, (b, c)));
            assert_eq!(nested.product(), Ok((a * b * c).into()));
            assert_eq!(nested.product_each(), Ok((a, b * c).into()));
            assert_eq!(nested.product_like(&tuple("(0,0)")), Ok((a, b * c).into()));
            assert_eq!(nested.product_like(&nested).as_ref(), Ok(&nested));
            assert_eq!(nested.size_at(&[1]), Ok((b * c).into()));
            assert_eq!(nested.sum(), Ok((a + b + c).into()));
            assert_eq!(nested.max().map(Int::value), numbers.iter().copied().max());
            assert_eq!(nested.min().map(Int::value), numbers.iter().copied().min());
            let divides = |d: &i64| numbers.iter().all(|n| n % d == 0);
            let gcd = (1..=9).rev().find(divides).expect("1 divides all");
            let expected = if numbers == [0, 0, 0] { 0 } else { gcd };
            assert_eq!(nested.gcd(), expected, "{nested}");
            let squares = nested.inner_product(&nested).map(Int::value);
            assert_eq!(squares, Ok(a * a + b * b + c * c));
            let ones = nested.filter_zeros(&nested).expect("congruent");
            let expected = numbers.iter().map(|n| if *n == 0 { 1 } else { *n });
            assert!(
                ones.leaves().iter().map(|n| n.value()).eq(expected),
                "{nested}"
            );
            assert_eq!(nested.repeat_like(5), (5, (5, 5)).into());
            *count += 1;
        }
    });
}

/// Tuple by tuple it is leaf by leaf; tuple by number, what one mode absorbs the next need not.
#[test]
fn quotients() {
    let all = triples(&[1, 2, 3, 4, 6]);
    law("quotients", "pairs", 15_000, |count| {
        for (a, b) in all.iter().flat_map(|a| all.iter().map(move |b| (a, b))) {
            let (x, y) = (flat(a), flat(b));
            let each = |f: fn(i64, i64) -> i64| -> Vec<i64> {
                a.iter().zip(b).map(|(p, q)| f(*p, *q)).collect()
            };
            assert_eq!(x.ceil_div(&y), Ok(flat(&each(ceil))));
            assert_eq!(x.round_up(&y), Ok(flat(&each(|p, q| ceil(p, q) * q))));
            assert_eq!(x.elem_scale(&y), Ok(flat(&each(|p, q| p * q))));
            let exact = a.iter().zip(b).all(|(p, q)| p % q == 0 || q % p == 0);
            assert_eq!(x.shape_div(&y).is_ok(), exact, "{x} by {y}");
            assert!(!exact || x.shape_div(&y) == x.ceil_div(&y), "{x} by {y}");
            let total = b.iter().product::<i64>();
            let mut rest = total;
            let mut folded = vec![];
            for n in a {
                folded.push(ceil(*n, rest));
                rest = ceil(rest, *n);
            }
            assert_eq!(x.ceil_div(total), Ok(flat(&folded)), "{x} by {total}");
            *count += 1;
        }
    });
}

/// `compact_col_major` and `compact_row_major` in CuTe's `compact_xmajor.cpp` (static: extent 1 has stride 0).
#[test]
fn compact_strides_of_cutes_tests() {
    let rows = [
        ("1", "0", "0"),
        ("8", "1", "1"),
        ("(4,8)", "(1,4)", "(8,1)"),
        ("(4,8,2)", "(1,4,32)", "(16,2,1)"),
        ("(4,8,1,2)", "(1,4,0,32)", "(16,2,0,1)"),
        ("((4,8),1,2)", "((1,4),0,32)", "((16,2),0,1)"),
        ("(4,(8,1,2))", "(1,(4,0,32))", "(16,(2,0,1))"),
        ("(4,(8,1,(2,3)))", "(1,(4,0,(32,64)))", "(48,(6,0,(3,1)))"),
    ];
    law("compact_strides_of_cutes_tests", "strides", 16, |count| {
        for (shape, columns, rows) in rows {
            let made = [
                colex_layout::Layout::column_major(tuple(shape)),
                colex_layout::Layout::row_major(tuple(shape)),
            ];
            for (layout, strides) in made.into_iter().zip([columns, rows]) {
                assert_eq!(
                    layout.map(|l| l.to_string().replace('_', "")),
                    Ok(format!("{shape}:{strides}"))
                );
                *count += 1;
            }
        }
    });
}

/// The truth table of CuTe's `int_tuple.cpp`.
#[test]
fn weakly_congruent_of_cutes_tests() {
    let rows = [
        ("1", "2", true),
        ("1", "(1)", true),
        ("1", "(2)", true),
        ("(1)", "1", false),
        ("(2)", "1", false),
        ("(1)", "(2)", true),
        ("1", "(1,1)", true),
        ("(1)", "(1,1)", false),
        ("(1,1)", "(1,1)", true),
        ("1", "(1,(1,1))", true),
        ("(1)", "(1,(1,1))", false),
        ("(1,1)", "(1,(1,1))", true),
        ("2", "(2,2)", true),
        ("(2)", "(2,2)", false),
        ("(1,1)", "(2,2)", true),
        ("(1,(1,1))", "(2)", false),
        ("(1,(1,1))", "(1,1)", false),
        ("(1,(1,1))", "(2,(2,2))", true),
        ("(1)", "((2,2),(2,2))", false),
        ("(1,1)", "((2,2),(2,2))", true),
        ("(1,(1,1))", "((2,2),(2,2))", true),
    ];
    law("weakly_congruent_of_cutes_tests", "pairs", 21, |count| {
        for (a, b, expected) in rows {
            assert_eq!(
                tuple(a).is_weakly_congruent(&tuple(b)),
                expected,
                "{a} and {b}"
            );
            *count += 1;
        }
    });
}

/// The truth table of CuTe's `int_tuple.cpp`.
#[test]
fn evenly_divides_of_cutes_tests() {
    let rows = [
        ("16", "16", true),
        ("16", "12", false),
        ("16", "8", true),
        ("8", "16", false),
        ("(16)", "(16)", true),
        ("16", "(16)", true),
        ("(16)", "16", true),
        ("8", "(16)", false),
        ("(16)", "8", true),
        ("12", "(16)", false),
        ("(16)", "12", false),
        ("(2,8)", "(2,8)", true),
        ("16", "(2,8)", false),
        ("(16)", "(2,8)", false),
        ("(2,8)", "(16)", false),
        ("(2,8)", "(2,(2,4))", false),
        ("((2,8))", "((2,8))", true),
        ("16", "((2,8))", false),
        ("8", "((2,8))", false),
        ("(16)", "((2,8))", false),
        ("((2,8))", "(16)", true),
        ("((2,(4,2)))", "((2,(4,2)))", true),
        ("16", "((2,(4,2)))", false),
        ("8", "((2,(4,2)))", false),
        ("(16)", "((2,(4,2)))", false),
        ("((2,(4,2)))", "(16)", true),
        ("((2,8))", "((2,(4,2)))", false),
        ("((2,(4,2)))", "((2,8))", true),
        ("(32,64)", "128", true),
        ("(32,64)", "(8:2,32)", true),
        ("(32,64)", "(8:3,32)", false),
    ];
    law("evenly_divides_of_cutes_tests", "pairs", 31, |count| {
        for (shape, tiler, expected) in rows {
            let parsed: Tiler = tiler.parse().expect("the test's own texts parse");
            assert_eq!(
                tuple(shape).evenly_divides(&parsed),
                Ok(expected),
                "{shape} by {tiler}"
            );
            *count += 1;
        }
    });
}
