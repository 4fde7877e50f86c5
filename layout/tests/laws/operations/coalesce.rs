//! Coalesce and filter.

use std::collections::BTreeMap;

use colex_layout::{IntTuple, Layout, Stride};
use proptest::prelude::*;

use crate::law::law;
use crate::random;
use crate::reference::{leaves, table};
use crate::small;

/// Depth at most 1, no mode of extent 1, no two modes that are one.
fn assert_simplest(layout: &Layout, of: &Layout) {
    assert!(layout.depth() <= 1, "coalesce of {of} is {layout}");
    let modes = leaves(layout);
    if modes.len() == 1 {
        return;
    }
    for (i, pair) in modes.windows(2).enumerate() {
        let [(s, d), (_, next)] = pair else {
            unreachable!("windows of 2")
        };
        assert!(
            s * d != *next,
            "coalesce of {of} is {layout}: mode {i} joins"
        );
    }
    assert!(
        modes.iter().all(|m| m.0 > 1),
        "coalesce of {of} is {layout}"
    );
}

#[test]
fn coalesce_at() {
    law("coalesce_at", "layouts", 70_000, |count| {
        for layout in small::layouts() {
            let simple = layout.coalesce(..);
            assert_eq!(table(&leaves(&simple)), table(&leaves(&layout)), "{layout}");
            *count += 1;
        }
    });
}

#[test]
fn coalesce_flat() {
    law("coalesce_flat", "layouts", 70_000, |count| {
        for layout in small::layouts() {
            assert_simplest(&layout.coalesce(..), &layout);
            assert_eq!(
                layout.coalesce(..).coalesce(..),
                layout.coalesce(..),
                "{layout}"
            );
            *count += 1;
        }
    });
}

#[test]
fn coalesce_at_large() {
    law("coalesce_at", "random layouts", 3_000, |count| {
        random::check(3_000, random::any_layout(6), |layout| {
            let simple = layout.coalesce(..);
            for i in random::probes(&layout) {
                prop_assert_eq!(simple.at(i), layout.at(i), "{} at {}", layout, i);
            }
            prop_assert_eq!(simple.coalesce(..), simple);
            Ok(())
        });
        *count += 3_000;
    });
}

#[test]
fn same_function_means_same_table() {
    law("is_same_function", "pairs", 100_000, |count| {
        let all: Vec<_> =
            small::nested(small::modes(2, &[1, 2, 3, 4], &[-1, 0, 1, 2, 3])).collect();
        let tables: Vec<_> = all.iter().map(|l| table(&leaves(l))).collect();
        for (a, ta) in all.iter().zip(&tables) {
            for (b, tb) in all.iter().zip(&tables) {
                assert_eq!(a.is_same_function(b), ta == tb, "{a} and {b}");
                *count += 1;
            }
        }
    });
}

/// Integer and XOR strides, whose tables are equal wherever no addition carries; all nestings are walked above.
#[test]
fn same_function_means_same_table_of_xor_strides() {
    law("is_same_function", "pairs", 300_000, |count| {
        let of = |modes: &[Vec<(i64, i64)>]| -> Vec<Layout> {
            let both = modes.iter().flat_map(|modes| {
                let (shape, strides): (Vec<i64>, Vec<i64>) = modes.iter().copied().unzip();
                let xors: Vec<Stride> = strides.iter().map(|d| Stride::xor(*d)).collect();
                [
                    Layout::new(shape.clone(), strides),
                    Layout::new(shape, xors),
                ]
            });
            both.map(|layout| layout.expect("positive extents"))
                .collect()
        };
        let pools = [
            of(&small::modes(
                1,
                &[1, 2, 3, 4, 5, 6, 9],
                &[-3, -1, 0, 1, 2, 3, 4, 5, 9],
            )),
            of(&small::modes(
                2,
                &[1, 2, 3, 4, 6],
                &[-2, -1, 0, 1, 2, 3, 4, 5, 6, 8, 12],
            )),
            of(&small::modes(3, &[2, 3], &[0, 1, 2, 3, 4, 6, 12])),
        ];
        let mut by_size: BTreeMap<i64, Vec<(Layout, Vec<i64>)>> = BTreeMap::new();
        for layout in pools.into_iter().flatten() {
            let table = layout.table().expect("small");
            by_size
                .entry(layout.size())
                .or_default()
                .push((layout, table));
        }
        let mut mixed = 0;
        for pool in by_size.values() {
            for (i, (a, ta)) in pool.iter().enumerate() {
                for (b, tb) in small::in_turn(i, 5, pool.iter()) {
                    assert_eq!(a.is_same_function(b), ta == tb, "{a} and {b}");
                    mixed += u64::from(ta == tb && a.is_xor() != b.is_xor());
                    *count += 1;
                }
            }
        }
        assert!(
            mixed > 100,
            "{mixed} pairs of integer and XOR strides are equal"
        );
    });
    for (a, b) in [
        ("4:1", "4:^1"),
        ("4:0", "4:^0"),
        ("3:3", "3:^3"),
        ("4:0", "4:0@0"),
        (
            "(2305843009213693952,2):(1,0)",
            "(2305843009213693952,2):(^1,^0)",
        ),
    ] {
        let [a, b]: [Layout; 2] = [a, b].map(|text| text.parse().expect("a layout"));
        assert!(
            a.is_same_function(&b) && b.is_same_function(&a),
            "{a} and {b}"
        );
    }
}

#[test]
fn coalesce_modes_by_mode() {
    law("coalesce_modes", "layouts", 70_000, |count| {
        for layout in small::layouts() {
            let all = layout.shape().product_each().expect("small");
            let by_mode = layout.coalesce(&all).expect("one leaf a mode");
            for (i, (mode, simple)) in layout.modes().zip(by_mode.modes()).enumerate() {
                assert_eq!(mode.coalesce(..), simple, "mode {i} of {layout}");
            }
            assert_eq!(layout.coalesce(1), Ok(layout.coalesce(..)));
            let short = layout.coalesce([1]).expect("rank 1");
            for (i, (mode, kept)) in layout.modes().zip(short.modes()).enumerate() {
                let expected = if i == 0 { mode.coalesce(..) } else { mode };
                assert_eq!(kept, expected, "mode {i} of {layout}");
            }
            *count += 1;
        }
    });
}

#[test]
fn filter_image() {
    law("filter_image", "layouts", 70_000, |count| {
        for layout in small::layouts() {
            let (kept, repeats) = (layout.filter(..), zeros(&layout));
            let sorted = |l: &Layout, copies: i64| {
                let mut t = table(&leaves(l)).repeat(copies as usize);
                t.sort_unstable();
                t
            };
            assert_eq!(sorted(&layout, 1), sorted(&kept, repeats), "{layout}");
            assert_simplest(&kept, &layout);
            let none_repeats = leaves(&kept).iter().all(|(s, d)| *s == 1 || *d != 0);
            assert!(none_repeats, "filter of {layout} is {kept}");
            *count += 1;
        }
    });
}

/// How often the stride-0 modes repeat each offset.
fn zeros(layout: &Layout) -> i64 {
    let modes = leaves(layout);
    modes
        .iter()
        .filter(|(_, d)| *d == 0)
        .map(|(s, _)| s)
        .product()
}

#[test]
fn filter_zeros_keeps_the_nesting() {
    law("filter_zeros", "layouts", 70_000, |count| {
        for layout in small::layouts() {
            let ones = layout.filter_zeros();
            let expected: Vec<_> = leaves(&layout)
                .into_iter()
                .map(|(s, d)| (if d == 0 { 1 } else { s }, d))
                .collect();
            assert_eq!(leaves(&ones), expected, "{layout}");
            assert!(ones.shape().is_congruent(&layout.shape()));
            let all: IntTuple = layout.shape().repeat_like(1);
            assert_eq!(layout.filter(1), Ok(layout.filter(..)));
            let leafwise = layout.filter(&all).expect("congruent");
            assert_eq!(leafwise.shape(), ones.shape(), "{layout}");
            *count += 1;
        }
    });
}
