//! Inference: the layout of a table is the coalesced layout that made it, and errors show the first contradiction.

use colex_layout::{Contradiction, IntTuple, Layout};

use crate::law::law;
use crate::small;

fn sentence(values: &[i64]) -> String {
    Layout::infer(values).unwrap_err().to_string()
}

/// Law `infer_table`.
#[test]
fn infer_table() {
    law("infer_table", "layouts", 22_000, |count| {
        for rank in 1..=3 {
            for modes in small::modes(rank, &[1, 2, 3, 4], &[-3, -1, 0, 1, 2, 4, 6]) {
                let l = small::layout(&modes);
                let table = l.table().unwrap();
                assert_eq!(Layout::infer(&table).unwrap(), l.coalesce(..), "{l}");
                let by_mode = Layout::infer_modes(l.shape(), |i| table[i as usize]).unwrap();
                assert_eq!(by_mode.rank(), l.rank());
                assert_eq!(by_mode.table().unwrap(), table, "{l}");
                *count += 1;
            }
        }
    });
}

/// Law `infer_table` by a coarser shape: modes are refined and coalesced one by one.
#[test]
fn infer_modes_one_by_one() {
    for (text, shape, expected) in [
        (
            "((2,2),(2,4)):((1,4),(2,8))",
            "(4,8)",
            "((2,2),(2,4)):((1,4),(2,8))",
        ),
        (
            "((2,2),(2,4)):((1,4),(2,8))",
            "(2,(2,8))",
            "(2,(2,(2,4))):(1,(4,(2,8)))",
        ),
        ("((2,2),6):((1,2),4)", "(4,6)", "(4,6):(1,4)"),
        ("((2,2),6):((1,2),4)", "24", "24:1"),
        ("(4,1,2):(1,7,4)", "(4,1,2)", "(4,1,2):(1,0,4)"),
    ] {
        let table = text.parse::<Layout>().unwrap().table().unwrap();
        let shape: IntTuple = shape.parse().unwrap();
        let found = Layout::infer_modes(&shape, |i| table[i as usize]).unwrap();
        assert_eq!(found.to_string(), expected);
    }
}

/// Law `infer_first`: among all tables over a few values, the index shown is the least at which no layout of that
/// size agrees with the values so far.
#[test]
fn infer_first() {
    const VALUES: std::ops::Range<i64> = -1..3;
    law("infer_first", "refused tables", 5_000, |refused| {
        for size in 1..=6_usize {
            // Every table over VALUES that a layout of this size produces (or a prefix of it does) has strides in reach.
            let known: Vec<_> = layouts_of(size as i64, -6..=6);
            for code in 0..4_usize.pow(size as u32) {
                let table: Vec<i64> = (0..size)
                    .map(|i| VALUES.start + (code / 4_usize.pow(i as u32) % 4) as i64)
                    .collect();
                let agrees = |n: usize| known.iter().any(|k| k[..n] == table[..n]);
                match Layout::infer(&table) {
                    Ok(l) => assert_eq!(l.table().unwrap(), table),
                    Err(error) => {
                        let e = error.infer().unwrap_or_else(|| panic!("{error}"));
                        let at = match &e.contradiction {
                            Contradiction::Origin { found }
                            | Contradiction::Run { found, .. }
                            | Contradiction::Sum { found, .. } => {
                                found.coord.leaves()[0].value() as usize
                            }
                            other => panic!("{other}"),
                        };
                        assert!(!agrees(at + 1), "{table:?}: some layout agrees up to {at}");
                        assert!(
                            at == 0 || agrees(at),
                            "{table:?}: no layout agrees before {at}"
                        );
                        *refused += 1;
                    }
                }
            }
        }
    });
}

/// The tables of all flat layouts of a size with strides in a range: shapes are ordered factorizations.
fn layouts_of(size: i64, strides: std::ops::RangeInclusive<i64>) -> Vec<Vec<i64>> {
    let mut tables = vec![];
    if size == 1 {
        return vec![vec![0]];
    }
    for first in (2..=size).filter(|n| size % n == 0) {
        for d in strides.clone() {
            for rest in layouts_of(size / first, strides.clone()) {
                let table = (0..size).map(|i| i % first * d + rest[(i / first) as usize]);
                tables.push(table.collect());
            }
        }
    }
    tables
}

#[test]
fn infer_sentences() {
    assert_eq!(
        sentence(&[5, 6]),
        "no layout of shape 2 has these values: it is 5 at 0, where every layout is 0"
    );
    assert_eq!(
        sentence(&[0, 1, 2, 5]),
        "no layout of shape 4 has these values: it is 1 at 1, which makes 3 at 3, but it is 5, and no mode can end \
         there, as 3 does not divide 4"
    );
    assert_eq!(
        sentence(&[0, 1, 4, 6]),
        "no layout of shape 4 has these values: it is 1 at 1 and 4 at 2, which makes 5 at 3, but it is 6"
    );
    assert_eq!(
        sentence(&[0, i64::MAX, i64::MAX, 0]),
        "no layout of shape 4 has these values: it is 9223372036854775807 at 1 and 9223372036854775807 at 2, which \
         makes 18446744073709551614 at 3, but it is 0"
    );
    assert_eq!(
        sentence(&[]),
        "infer of no values: a layout has at least one coordinate, so it needs at least one value"
    );
    let table = Layout::infer_modes((2, (2, 2)), |i| i + i / 5);
    assert_eq!(
        table.unwrap_err().to_string(),
        "no layout of shape (2,(2,2)) has these values: it is 1 at (1,(0,0)) and 4 at (0,(0,1)), which makes 5 at \
         (1,(0,1)), but it is 6"
    );
}
