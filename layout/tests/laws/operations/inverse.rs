//! Inverses, nullspace, and what two layouts have in common.

use colex_layout::{Layout, Unbounded};
use proptest::prelude::*;

use crate::law::law;
use crate::random;
use crate::reference::{at, leaves, table};
use crate::small;

/// Whether no offset repeats, from the table.
fn injective(values: &[i64]) -> bool {
    let mut sorted = values.to_vec();
    sorted.sort_unstable();
    sorted.windows(2).all(|w| w[0] != w[1])
}

/// The largest n such that all of `0..n` are offsets.
fn run_from_zero(values: &[i64]) -> i64 {
    let mut sorted = values.to_vec();
    sorted.sort_unstable();
    sorted.retain(|v| *v >= 0);
    sorted.dedup();
    sorted
        .iter()
        .zip(0..)
        .take_while(|(v, i)| **v == *i)
        .count() as i64
}

#[test]
fn right_inverse_at() {
    law("right_inverse_at", "layouts", 70_000, |count| {
        for layout in small::layouts() {
            let own = leaves(&layout);
            let inverse = layout.right_inverse().expect("integer strides");
            for (i, index) in table(&leaves(&inverse)).into_iter().enumerate() {
                assert_eq!(at(&own, index), i as i64, "{inverse} of {layout}");
            }
            *count += 1;
        }
    });
}

/// Where offsets do not repeat and no stride is negative, no right inverse is longer.
#[test]
fn right_inverse_longest() {
    law("right_inverse_longest", "layouts", 10_000, |count| {
        for layout in small::layouts() {
            let (own, values) = (leaves(&layout), table(&leaves(&layout)));
            if injective(&values) && own.iter().all(|(_, d)| *d >= 0) {
                let inverse = layout.right_inverse().expect("integer strides");
                assert_eq!(
                    inverse.size(),
                    run_from_zero(&values),
                    "{inverse} of {layout}"
                );
                *count += 1;
            }
        }
    });
}

#[test]
fn left_inverse_at() {
    law("left_inverse_at", "layouts", 15_000, |count| {
        for layout in small::layouts() {
            let Ok(inverse) = layout.left_inverse() else {
                continue;
            };
            let (own, back) = (leaves(&layout), leaves(&inverse));
            let values = table(&own);
            let exact = injective(&values);
            for (i, &value) in values.iter().enumerate() {
                let index = at(&back, value);
                assert_eq!(at(&own, index), value, "{inverse} of {layout}");
                assert!(!exact || index == i as i64, "{inverse} of {layout} at {i}");
            }
            *count += 1;
        }
    });
}

#[test]
fn inverses_at_large() {
    let accepted = std::cell::Cell::new(0);
    random::check(3_000, random::compact(5), |layout| {
        let right = layout.right_inverse().expect("integer strides");
        for i in random::probes(&right) {
            prop_assert_eq!(
                layout.at(Unbounded(right.at(i).expect("within"))),
                Ok(i),
                "{}",
                layout
            );
        }
        if let Ok(left) = layout.left_inverse() {
            for i in random::probes(&layout) {
                let back = left.at(Unbounded(layout.at(i).expect("within")));
                prop_assert_eq!(back, Ok(i), "{} of {}", left, layout);
            }
            accepted.set(accepted.get() + 1);
        }
        Ok(())
    });
    law("left_inverse_at", "random layouts", 2_800, |count| {
        *count += accepted.get()
    });
}

#[test]
fn nullspace_at() {
    law("nullspace_at", "layouts", 70_000, |count| {
        for layout in small::layouts() {
            let own = leaves(&layout);
            let null = layout.nullspace().expect("small");
            let indices = table(&leaves(&null));
            assert!(
                indices.iter().all(|i| at(&own, *i) == 0),
                "{null} of {layout}"
            );
            assert!(
                indices.windows(2).all(|w| w[0] < w[1]),
                "{null} of {layout}"
            );
            let zeros = own.iter().filter(|(_, d)| *d == 0).map(|(s, _)| s);
            assert_eq!(null.size(), zeros.product(), "{null} of {layout}");
            *count += 1;
        }
    });
}

fn pairs() -> Vec<Layout> {
    let two = small::modes(2, &[1, 2, 3, 4, 6], &[-1, 0, 1, 2, 3, 4, 6]);
    small::nested(
        small::modes(1, &[1, 2, 4, 7], &[0, 1, 2])
            .into_iter()
            .chain(two)
            .collect(),
    )
    .collect()
}

#[test]
fn max_common_layout_at() {
    let all = pairs();
    law("max_common_layout_at", "pairs", 500_000, |count| {
        for a in &all {
            for b in &all {
                let common = a.max_common_layout(b).expect("integer strides");
                let (la, lb) = (leaves(a), leaves(b));
                for (i, index) in table(&leaves(&common)).into_iter().enumerate() {
                    let values = (at(&la, index), at(&lb, index));
                    assert_eq!(values, (i as i64, i as i64), "{common} of {a} and {b}");
                }
                *count += 1;
            }
        }
    });
}

/// The vector length is the longest run on which `a` undoes the right inverse of `b`, within both.
#[test]
fn max_common_vector_longest() {
    let all = pairs();
    law("max_common_vector_longest", "pairs", 500_000, |count| {
        let inverses: Vec<_> = all
            .iter()
            .map(|b| b.right_inverse().expect("integer strides"))
            .collect();
        for a in &all {
            let own = leaves(a);
            for (b, inverse) in all.iter().zip(&inverses) {
                let indices = table(&leaves(inverse));
                let run = indices
                    .iter()
                    .zip(0..)
                    .take_while(|(i, n)| **i < a.size() && at(&own, **i) == *n);
                assert_eq!(
                    a.max_common_vector(b),
                    Ok(run.count() as i64),
                    "{a} and {b}"
                );
                *count += 1;
            }
        }
    });
}

#[test]
fn is_injective_by_table() {
    law("is_injective", "layouts", 70_000, |count| {
        for layout in small::layouts() {
            let values = table(&leaves(&layout));
            assert_eq!(layout.is_injective(), Ok(injective(&values)), "{layout}");
            *count += 1;
        }
    });
}
