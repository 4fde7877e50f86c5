//! Composition: `R(c) = A(B(c))` at every coordinate of B, and over the modes of B.

use colex_layout::{Layout, Tiler, Unbounded};
use proptest::prelude::*;

use crate::law::law;
use crate::random;
use crate::reference::{Leaves, at, is_compatible, leaves, table};
use crate::small::{self, in_turn};

/// Left-hand sides: extents beyond 5, because carries hide below; nested by turns.
fn lefts() -> Vec<Layout> {
    let extents = [1, 2, 3, 4, 5, 6, 7];
    let strides = [
        (1, 10),
        (10, 1),
        (1, 4),
        (4, 1),
        (2, 7),
        (0, 1),
        (1, 0),
        (-1, 10),
        (3, 3),
    ];
    let mut all = small::modes(1, &[1, 4, 7], &[-2, 0, 1, 3]);
    for (s, t) in extents.iter().flat_map(|s| extents.map(|t| (*s, t))) {
        all.extend(strides.map(|(d, e)| vec![(s, d), (t, e)]));
    }
    for shape in small::modes(3, &[1, 2, 4, 6], &[0]) {
        for strides in [[1, 10, 100], [100, 1, 10], [2, 3, 5], [1, 0, 7]] {
            all.push(shape.iter().zip(strides).map(|(s, d)| (s.0, d)).collect());
        }
    }
    small::nested(all).collect()
}

/// Right-hand sides: one mode of every kind, and pairs.
fn rights() -> Vec<Layout> {
    let one = small::modes(
        1,
        &[1, 2, 3, 4, 5, 6, 7, 12],
        &[-3, -2, -1, 0, 1, 2, 3, 4, 5, 6, 7, 8, 12],
    );
    let two = small::modes(2, &[1, 2, 3, 4, 6], &[-1, 0, 1, 2, 3, 4, 5, 6, 8, 12]);
    small::nested(one).chain(small::nested(two)).collect()
}

/// The first coordinate at which `result` is not `A(B(.))`.
fn wrong_at(a: &Leaves, b: &[i64], result: &Layout) -> Option<usize> {
    let values = table(&leaves(result));
    (0..b.len()).find(|&i| values.get(i) != Some(&at(a, b[i])))
}

fn check_pair(a: &Layout, b: &Layout, a_leaves: &Leaves, b_table: &[i64]) -> bool {
    let Ok(r) = a.composition(b) else {
        return false;
    };
    if let Some(i) = wrong_at(a_leaves, b_table, &r) {
        panic!(
            "{a} o {b} = {r}: at {i} it should be {}",
            at(a_leaves, b_table[i])
        );
    }
    assert!(
        is_compatible(&b.shape(), &r.shape()),
        "{a} o {b} = {r} has other modes"
    );
    true
}

#[test]
fn composition_at() {
    law("composition_at", "pairs", 350_000, |count| {
        let rights = rights();
        let tables: Vec<_> = rights.iter().map(|b| table(&leaves(b))).collect();
        for (i, a) in lefts().into_iter().enumerate() {
            let a_leaves = leaves(&a);
            for (b, values) in in_turn(i, 3, rights.iter().zip(&tables)) {
                *count += u64::from(check_pair(&a, b, &a_leaves, values));
            }
        }
    });
}

#[test]
fn composition_at_three_modes() {
    let rights: Vec<_> =
        small::nested(small::modes(3, &[1, 2, 3, 4], &[-2, 0, 1, 2, 3, 6, 12])).collect();
    law(
        "composition_at",
        "pairs with three right-hand modes",
        160_000,
        |count| {
            let tables: Vec<_> = rights.iter().map(|b| table(&leaves(b))).collect();
            for (i, a) in lefts().iter().step_by(17).enumerate() {
                let a_leaves = leaves(a);
                for (b, values) in in_turn(i, 3, rights.iter().zip(&tables)) {
                    *count += u64::from(check_pair(a, b, &a_leaves, values));
                }
            }
        },
    );
}

/// CuTe's own rule accepts no correct result that the sound rule refuses, unless A repeats offsets (stride 0).
#[test]
fn composition_loses_nothing_correct() {
    law(
        "composition_loses_nothing_correct",
        "pairs",
        220_000,
        |count| {
            let rights = rights();
            let tables: Vec<_> = rights.iter().map(|b| table(&leaves(b))).collect();
            for (i, a) in lefts().into_iter().enumerate() {
                let a_leaves = leaves(&a);
                if a_leaves.iter().any(|(s, d)| *d == 0 && *s > 1) {
                    continue;
                }
                for (b, values) in in_turn(i, 3, rights.iter().zip(&tables)) {
                    let Ok(cute) = a.cute_composition(b) else {
                        continue;
                    };
                    if wrong_at(&a_leaves, values, &cute).is_none() {
                        assert_eq!(a.composition(b), Ok(cute), "{a} o {b}");
                        *count += 1;
                    }
                }
            }
        },
    );
}

/// `composition_impl` of `cute/layout.hpp` in CUTLASS 4.7, for one mode `n:r` over the modes of `a`: the pieces, or nothing
/// where a static assertion fails.
fn cute_mode(a: &[(i64, i64)], n: i64, r: i64) -> Option<Vec<(i64, i64)>> {
    let ceil = |a: i64, b: i64| (a + b - 1) / b;
    let [before @ .., (_, last)] = a else {
        return None;
    };
    let (mut pieces, mut rest, mut step) = (Vec::new(), n, r);
    for (s, d) in before {
        // "Stride Divisibility Condition", before anything is known of the extent.
        if step % s != 0 && step >= *s {
            return None;
        }
        let steps = ceil(*s, step);
        if steps != 1 && rest != 1 {
            let take = steps.min(rest);
            // "Shape Divisibility Condition".
            if rest % take != 0 {
                return None;
            }
            pieces.push((take, step * d));
            rest /= take;
        }
        step = ceil(step, *s);
    }
    if pieces.is_empty() || rest != 1 {
        pieces.push((rest, step * last));
    }
    Some(pieces)
}

/// `cute_composition` accepts what CuTe's assertions accept and returns what CuTe returns, also for modes of extent 1,
/// whose stride is asserted before the extent is looked at; the counts are those of the book.
#[test]
fn cute_composition_is_cutes() {
    let mut counts = [0u64; 4];
    law("cute_composition_is_cutes", "pairs", 32_768, |count| {
        let [mut accepted, mut wrong, mut ours, mut more] = [0; 4];
        for s in 2..=9 {
            let a_leaves = vec![(s, 1), (20, 100)];
            let a = Layout::new((s, 20), (1, 100)).expect("small");
            for x in 0..4096 {
                let (n, r, m, q) = (2 + x % 8, 1 + x / 8 % 8, 1 + x / 64 % 8, 1 + x / 512);
                let b = Layout::new((n, m), (r, q)).expect("small");
                let cute = cute_mode(&a_leaves, n, r).zip(cute_mode(&a_leaves, m, q));
                let got = a.cute_composition(&b);
                assert_eq!(got.is_ok(), cute.is_some(), "{a} o {b}: {got:?}");
                let is_accepted = a.composition(&b).is_ok();
                ours += u64::from(is_accepted);
                if let (Ok(got), Some((one, two))) = (&got, cute) {
                    let pieces: Vec<_> = one.into_iter().chain(two).collect();
                    assert_eq!(leaves(got)[..], pieces[..], "{a} o {b}");
                    let is_wrong = wrong_at(&a_leaves, &table(&leaves(&b)), got).is_some();
                    accepted += 1;
                    wrong += u64::from(is_wrong);
                }
                let is_right =
                    got.is_ok_and(|got| wrong_at(&a_leaves, &table(&leaves(&b)), &got).is_none());
                more += u64::from(is_accepted && !is_right);
                *count += 1;
            }
        }
        counts = [accepted, wrong, ours, more];
    });
    assert_eq!(counts, [8962, 4394, 7370, 2802]);
}

/// The sentence about a mode of extent 1.
#[test]
fn cute_asserts_the_stride_of_a_single_step() {
    let a: Layout = "(2,20):(1,100)".parse().unwrap();
    let error = a
        .cute_composition("(2,1):(1,3)")
        .expect_err("3 is not a multiple of 2, nor below it");
    assert_eq!(
        error.to_string(),
        "(2,20):(1,100) o (2,1):(1,3) is refused by CuTe's rule of composition: \
         mode <1>, 1:3, is one step of 3 in extent 2 of (2,20):(1,100), and CuTe asserts of every mode \
         that 2 divides its stride or that it is below 2"
    );
    assert!(a.composition("(2,1):(1,3)").is_ok());
}

/// The counterexamples: what CuTe returns is wrong. It is refused here, or the search finds what is right.
#[test]
fn composition_refuses_what_carries() {
    let wrong = [
        ("(4,3):(1,10)", "4:3", "(2,2):(3,10)"),
        ("(6,3):(1,10)", "(3,2):(2,3)", "(3,2):(2,3)"),
        ("(4,6,8):(2,3,5)", "6:3", "(2,3):(6,3)"),
        ("(7,6):(10,3)", "6:3", "(3,2):(30,3)"),
        ("(7,5):(2,7)", "6:5", "(2,3):(10,7)"),
        ("(8,2,5):(10,2,100)", "4:5", "(2,2):(50,2)"),
        ("(8,4):(1,100)", "4:6", "(2,2):(6,100)"),
        ("(4,3):(1,10)", "(2,2):(1,3)", "(2,2):(1,3)"),
        ("(4,3):(1,10)", "(2,2):(2,2)", "(2,2):(2,2)"),
        ("(5,3):(3,1)", "(2,3):(1,2)", "(2,3):(3,6)"),
    ];
    law("composition_refuses_what_carries", "pairs", 10, |count| {
        for (a, b, cute) in wrong {
            let (a, b): (Layout, Layout) = (a.parse().unwrap(), b.parse().unwrap());
            let unchecked = a.cute_composition(&b).expect("CuTe accepts it");
            assert_eq!(unchecked, cute.parse().unwrap(), "{a} o {b}");
            assert!(wrong_at(&leaves(&a), &table(&leaves(&b)), &unchecked).is_some());
            if let Ok(found) = a.composition(&b) {
                assert_eq!(
                    format!("{a} o {b} = {found}"),
                    "(8,2,5):(10,2,100) o 4:5 = (2,2):(50,22)"
                );
            }
            *count += 1;
        }
    });
}

#[test]
fn composition_at_large() {
    law("composition_at", "random pairs", 5_000, |count| {
        let accepted = std::cell::Cell::new(0);
        let pairs = (random::any_layout(4), random::any_layout(4));
        random::check(10_000, pairs, |(a, b)| {
            let Ok(r) = a.composition(&b) else {
                return Ok(());
            };
            prop_assert!(
                is_compatible(&b.shape(), &r.shape()),
                "{} o {} = {}",
                a,
                b,
                r
            );
            for i in random::probes(&b) {
                // A sum whose terms cancel may overflow on the way: an error, never another value.
                if let (Ok(expected), Ok(got)) =
                    (a.at(Unbounded(b.at(i).expect("within"))), r.at(i))
                {
                    prop_assert_eq!(got, expected, "{} o {} = {} at {}", a, b, r, i);
                }
            }
            accepted.set(accepted.get() + 1);
            Ok(())
        });
        *count += accepted.get();
    });
}

#[test]
fn composition_associates() {
    let some: Vec<_> = small::nested(small::modes(2, &[2, 3, 4, 6], &[0, 1, 2, 3, 4, 6])).collect();
    law("composition_associates", "triples", 220_000, |count| {
        for (i, a) in some.iter().enumerate().step_by(7) {
            for b in some.iter().skip(i % 5).step_by(5) {
                let Ok(ab) = a.composition(b) else { continue };
                for c in in_turn(i / 7, 7, some.iter()) {
                    let Ok(bc) = b.composition(c) else { continue };
                    if let (Ok(l), Ok(r)) = (ab.composition(c), a.composition(&bc)) {
                        let same = table(&leaves(&l)) == table(&leaves(&r));
                        let within = c.table().unwrap().iter().all(|&i| i < b.size());
                        assert!(same || !within, "({a} o {b}) o {c} = {l}, not {r}");
                        *count += u64::from(same);
                    }
                }
            }
        }
    });
}

#[test]
fn composition_tiler_by_mode() {
    let tiles: Vec<_> = small::modes(1, &[1, 2, 3, 4, 6], &[0, 1, 2, 3]);
    law("composition_tiler", "layouts and tilers", 60_000, |count| {
        for a in lefts().iter().filter(|a| a.rank() > 1).step_by(3) {
            let modes: Vec<_> = a.modes().collect();
            for (t, u) in tiles.iter().flat_map(|t| tiles.iter().map(move |u| (t, u))) {
                let (t, u) = (small::layout(t), small::layout(u));
                let both: Tiler = [&t, &u].into();
                let (first, second) = (modes[0].composition(&t), modes[1].composition(&u));
                let (Ok(first), Ok(second)) = (first, second) else {
                    assert!(a.composition(&both).is_err(), "{a} o {both}");
                    continue;
                };
                let joined = Layout::concat([&first, &second]);
                assert_eq!(a.composition(&both), joined, "{a} o {both}");
                *count += 1;
            }
            assert_eq!(a.composition(&Tiler::All).as_ref(), Ok(a));
            let four = a.composition(4);
            assert_eq!(
                four.ok(),
                a.composition(&small::layout(&[(4, 1)])).ok(),
                "{a} o 4"
            );
        }
    });
}

#[test]
fn with_shape_at() {
    law("with_shape_at", "layouts and shapes", 250_000, |count| {
        for layout in small::layouts() {
            let n = layout.size();
            for first in (1..=n).filter(|f| n % f == 0) {
                let Ok(shaped) = layout.with_shape((first, n / first)) else {
                    continue;
                };
                assert_eq!(table(&leaves(&shaped)), table(&leaves(&layout)), "{layout}");
                *count += 1;
            }
        }
    });
}
