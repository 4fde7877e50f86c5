//! Coalesce and filter.

use colex_layout::{IntTuple, Layout};
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
