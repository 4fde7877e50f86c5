//! Complement: ordered, disjoint from the layout, and covering with it.

use colex_layout::{IntTuple, Layout};
use proptest::prelude::*;

use crate::law::law;
use crate::random;
use crate::reference::{leaves, table};
use crate::small;

/// Integer targets, and shapes that round up mode by mode.
fn targets() -> Vec<IntTuple> {
    let mut all: Vec<IntTuple> = [1, 2, 5, 8, 12, 24, 37, 100].map(Into::into).to_vec();
    all.extend([(4, 2), (3, 8), (6, 5)].map(IntTuple::from));
    all.push((2, (3, 4)).into());
    all
}

/// Whether each stride is a multiple of what the modes below it reach: no offset is lost between the modes.
fn nests(layout: &Layout) -> bool {
    let mut modes = leaves(&layout.filter(..));
    modes.sort_by_key(|(_, d)| *d);
    let mut reach = 1;
    modes.iter().filter(|(s, _)| *s > 1).all(|(s, d)| {
        let multiple = d % reach == 0;
        reach = s * d;
        multiple
    })
}

fn cosize(layout: &Layout) -> i64 {
    layout.cosize().expect("small")
}

fn product(tuple: &IntTuple) -> i64 {
    tuple.product().expect("small").value()
}

/// Every layout with its complement in every target, where there is one.
fn each_complement(mut check: impl FnMut(&Layout, &IntTuple, &Layout)) {
    let targets = targets();
    for (i, layout) in small::layouts().enumerate() {
        for target in small::in_turn(i, 3, targets.iter()) {
            if let Ok(rest) = layout.complement(target) {
                check(&layout, target, &rest);
            }
        }
    }
}

#[test]
fn complement_ordered() {
    law(
        "complement_ordered",
        "layouts and targets",
        87_000,
        |count| {
            each_complement(|layout, target, rest| {
                let increasing = table(&leaves(rest)).windows(2).all(|w| w[0] < w[1]);
                assert!(increasing, "complement of {layout} in {target} is {rest}");
                *count += 1;
            });
        },
    );
}

#[test]
fn complement_disjoint() {
    law(
        "complement_disjoint",
        "layouts and targets",
        87_000,
        |count| {
            each_complement(|layout, target, rest| {
                let mut own = table(&leaves(layout));
                own.sort_unstable();
                let skipped = &table(&leaves(rest))[1..];
                let shared = skipped.iter().find(|&&v| own.binary_search(&v).is_ok());
                assert_eq!(shared, None, "complement of {layout} in {target} is {rest}");
                *count += 1;
            });
        },
    );
}

/// What the modes of a nesting layout reach: the product of the largest stride and its extent.
fn reach(layout: &Layout) -> i64 {
    let modes = leaves(&layout.filter(..));
    let reaches = modes.iter().map(|(s, d)| s * d);
    reaches.max().unwrap_or(1).max(1)
}

/// With the layout it gives every offset of an integer target exactly once, and at most one reach beyond it.
#[test]
fn complement_covers() {
    law(
        "complement_covers",
        "layouts and targets",
        50_000,
        |count| {
            each_complement(|layout, target, rest| {
                if !nests(layout) || !target.is_leaf() {
                    return;
                }
                let both = Layout::concat([&layout.filter(..), rest]).expect("small");
                let mut offsets = table(&leaves(&both));
                offsets.sort_unstable();
                let once = offsets.iter().enumerate().all(|(i, v)| i as i64 == *v);
                assert!(once, "{layout} and its complement in {target}, {rest}");
                let (n, reach) = (product(target), reach(layout));
                let expected = (n + reach - 1) / reach * reach;
                assert_eq!(both.size(), expected, "{layout} in {target}: {rest}");
                *count += 1;
            });
        },
    );
}

/// Nothing is left over: the complement of a layout with its complement is `1:0`.
#[test]
fn complement_completes() {
    law(
        "complement_completes",
        "layouts and targets",
        76_000,
        |count| {
            each_complement(|layout, target, rest| {
                let both = Layout::concat([layout, rest]).expect("small");
                if nests(layout) {
                    let left = both.complement_in_cosize().expect("it nests");
                    assert_eq!(left.size(), 1, "{layout} in {target}: {rest} leaves {left}");
                    *count += 1;
                }
            });
        },
    );
}

/// The complement of the complement has the same complement.
#[test]
fn complement_idempotent() {
    law(
        "complement_idempotent",
        "layouts and targets",
        76_000,
        |count| {
            each_complement(|layout, target, rest| {
                if nests(layout) {
                    let back = rest.complement(cosize(layout)).expect("a complement nests");
                    assert_eq!(
                        back.complement(target).as_ref(),
                        Ok(rest),
                        "{layout} in {target}"
                    );
                    *count += 1;
                }
            });
        },
    );
}

#[test]
fn complement_in_cosize_is_complement() {
    law("complement_in_cosize", "layouts", 20_000, |count| {
        for layout in small::layouts() {
            let reach = cosize(&layout.filter(..));
            let own = layout.complement_in_cosize();
            assert_eq!(
                own.as_ref().ok(),
                layout.complement(reach).as_ref().ok(),
                "{layout}"
            );
            *count += u64::from(own.is_ok());
        }
    });
}

/// Refused exactly where offsets repeat or interleave, or a stride is negative.
#[test]
fn complement_refuses_only_what_overlaps() {
    law(
        "complement_refuses_only_what_overlaps",
        "layouts",
        70_000,
        |count| {
            for layout in small::layouts() {
                let mut modes = leaves(&layout.filter(..));
                modes.sort_by_key(|(_, d)| *d);
                let mut reach = 1;
                let fits = modes.iter().filter(|(s, _)| *s > 1).all(|(s, d)| {
                    let beyond = *d >= reach;
                    reach = s * d;
                    beyond
                });
                assert_eq!(layout.complement(24).is_ok(), fits, "{layout}");
                *count += 1;
            }
        },
    );
}

#[test]
fn complement_large() {
    let accepted = std::cell::Cell::new(0);
    let cases = (random::any_layout(5), 1..=1_i64 << 40);
    random::check(3_000, cases, |(layout, target)| {
        let Ok(rest) = layout.complement(target) else {
            return Ok(());
        };
        let at = random::probes(&rest);
        for i in at.into_iter().filter(|i| *i > 0) {
            if let (Ok(before), Ok(here)) = (rest.at(i - 1), rest.at(i)) {
                prop_assert!(before < here, "{} and {} at {}", layout, rest, i);
            }
        }
        if nests(&layout)
            && let Ok(all) = Layout::concat([&layout.filter(..), &rest])
        {
            prop_assert!(all.size() >= target, "{} in {}: {}", layout, target, rest);
        }
        accepted.set(accepted.get() + 1);
        Ok(())
    });
    law(
        "complement_ordered",
        "random layouts and targets",
        2_000,
        |count| {
            *count += accepted.get();
        },
    );
}
