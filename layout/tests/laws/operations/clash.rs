//! Compositions that only the search solves, beside modes that clash with nothing, however large these are.

use colex_layout::explain::Step;
use colex_layout::{Contradiction, Layout, Search, Seen};
use proptest::prelude::*;

use crate::law::law;
use crate::random;
use crate::reference::{at, leaves};
use crate::small;

type Modes = Vec<(i64, i64)>;

/// A composition of small layouts that the rule refuses and the search solves.
struct Small {
    lhs: Modes,
    rhs: Modes,
    found: Vec<Modes>,
}

/// The small pairs: two modes on either side, `rhs` within the size of `lhs`.
fn solved_by_search() -> Vec<Small> {
    let lefts = small::modes(2, &[2, 3, 4, 6], &[0, 1, 2, 4, 10]);
    let rights = small::modes(2, &[2, 3], &[1, 2, 3, 5, 7]);
    let mut solved = Vec::new();
    for (a, b) in lefts
        .iter()
        .flat_map(|a| rights.iter().map(move |b| (a, b)))
    {
        let (lhs, rhs) = (small::layout(a), small::layout(b));
        if rhs.cosize().unwrap() > lhs.size() {
            continue;
        }
        let explained = lhs.explain_composition(&rhs);
        let Ok(result) = explained.result else {
            continue;
        };
        if explained
            .steps
            .iter()
            .any(|s| matches!(s, Step::Found { .. }))
        {
            solved.push(Small {
                lhs: a.clone(),
                rhs: b.clone(),
                found: result.modes().map(|mode| leaves(&mode)).collect(),
            });
        }
    }
    solved
}

/// How the large modes stand to the small ones.
#[derive(Clone, Copy, Debug)]
struct Around {
    below: i64,
    above: i64,
    stride_below: i64,
    stride_above: i64,
    order: usize,
    sign: i64,
}

/// The pair of `small` and large modes that clash with nothing, and the composition as it must be.
fn enlarged(small: &Small, around: Around) -> (Layout, Layout, Layout) {
    let size: i64 = small.lhs.iter().map(|(s, _)| s).product();
    let scaled = |m: &Modes, by: i64| m.iter().map(|(s, d)| (*s, d * by)).collect::<Modes>();
    let lhs = [
        vec![(around.below, around.stride_below)],
        small.lhs.clone(),
        vec![(around.above, around.stride_above)],
    ]
    .concat();
    let mut parts: Vec<((i64, i64), Modes)> = vec![
        ((around.below, 1), vec![(around.below, around.stride_below)]),
        (
            (around.above, around.below * size),
            vec![(around.above, around.stride_above)],
        ),
    ];
    let rhs = scaled(&small.rhs, around.below);
    parts.extend(rhs.into_iter().zip(small.found.iter().cloned()));
    parts.rotate_left(around.order % 4);
    if around.order >= 4 {
        parts.swap(0, 2);
    }
    let signed = |m: (i64, i64)| (m.0, m.1 * around.sign);
    let rhs: Modes = parts.iter().map(|(m, _)| signed(*m)).collect();
    let expected: Vec<Layout> = parts
        .iter()
        .map(|(_, found)| {
            let modes: Modes = found.iter().map(|m| signed(*m)).collect();
            small::layout(&modes).coalesce(..)
        })
        .collect();
    (
        small::layout(&lhs),
        small::layout(&rhs),
        Layout::concat(&expected).unwrap(),
    )
}

/// Law `search_only_what_clashes`: modes that clash with nothing do not count against the bound of the search.
#[test]
fn search_only_what_clashes() {
    let solved = solved_by_search();
    assert!(solved.len() > 30, "{} small pairs", solved.len());
    law("search_only_what_clashes", "pairs", 20_000, |count| {
        for (i, small) in solved.iter().enumerate().step_by(3) {
            for (below, above) in [(1, 65536), (65536, 1), (65536, 65536), (7, 1 << 20), (1, 3)] {
                for (order, sign) in (0..8).flat_map(|o| [(o, 1), (o, -1)]) {
                    let around = Around {
                        below,
                        above,
                        stride_below: [1, 3, 0, 1 << 20][(i + order) % 4],
                        stride_above: [16, 0, 999_983, 1][(i + order / 2) % 4],
                        order,
                        sign,
                    };
                    let (a, b, expected) = enlarged(small, around);
                    match a.composition(&b) {
                        Ok(r) => {
                            let (left, right) = (leaves(&a), leaves(&b));
                            for c in random::probes(&b).into_iter().step_by(5) {
                                let truth = at(&left, at(&right, c));
                                assert_eq!(r.at(c), Ok(truth), "{a} o {b} = {r}");
                            }
                            assert_eq!(r, expected, "{a} o {b}");
                        }
                        Err(e) => panic!("{a} o {b} is {expected}, but: {e}"),
                    }
                    *count += 1;
                }
            }
        }
    });
}

#[test]
fn search_finds_the_pair_of_65536() {
    let parse = |t: &str| t.parse::<Layout>().unwrap();
    let a = parse("(4,4,65536):(4,1,16)");
    let b = parse("(2,2,65536):(1,5,16)");
    let found = a.composition(&b).unwrap();
    assert_eq!(found.to_string(), "(2,2,65536):(4,5,16)");
}

/// The value that a witness shows is that of `A(B(c))` at its coordinate.
fn check_seen(a: &Layout, b: &Layout, seen: &Seen) -> i64 {
    let index = b.shape().index(&seen.coord).expect("a coordinate of B");
    let value = at(&leaves(a), at(&leaves(b), index));
    assert_eq!(value, seen.value, "{a} o {b} at {}", seen.coord);
    index
}

/// What `refused` shows is wrong for every layout over the modes of `b`.
fn check_witness(a: &Layout, b: &Layout, why: &Contradiction) {
    match why {
        Contradiction::Origin { found } => assert_ne!(found.value, 0),
        Contradiction::Sum { low, high, found } => {
            let sum = check_seen(a, b, low) + check_seen(a, b, high);
            assert_eq!(sum, check_seen(a, b, found), "{a} o {b}: {why}");
            assert_ne!(low.value + high.value, found.value, "{a} o {b}: {why}");
        }
        Contradiction::Run {
            step,
            implied,
            found,
            extent,
            size,
        } => {
            let (first, at) = (check_seen(a, b, step), check_seen(a, b, found));
            assert_eq!(*implied, i128::from(step.value * (at / first)), "{why}");
            assert_ne!(*implied, i128::from(found.value), "{why}");
            assert_ne!(size % extent, 0, "{a} o {b}: {why}");
            assert!(
                b.leaves().iter().any(|l| l.extent.value() == *size),
                "{why}"
            );
        }
        other => panic!("{other}"),
    }
}

fn few(most: usize, strides: impl Strategy<Value = i64> + Clone) -> impl Strategy<Value = Layout> {
    let mode = ((1..=6_i64), strides);
    prop::collection::vec(mode, 2..=most).prop_map(|modes| small::layout(&modes))
}

/// Law `search_as_enumerated`: the result is that of looking at every value, and a refusal has a true witness.
#[test]
fn search_as_enumerated() {
    let left = prop_oneof![
        4 => (0..=3_i64).prop_map(|k| [0, 1, 4, 10][k as usize]),
        1 => -3..=12_i64,
    ];
    let right =
        prop_oneof![6 => 0..=40_i64, 2 => (0..=6_u32).prop_map(|k| 1 << k), 1 => -20..0_i64];
    law("search_as_enumerated", "random pairs", 7_600, |count| {
        let cases = std::cell::Cell::new((0, 0, 0));
        random::check(8_000, (few(4, left), few(4, right)), |(a, b)| {
            let (left, right) = (leaves(&a), leaves(&b));
            let values: Vec<i64> = (0..b.size()).map(|c| at(&left, at(&right, c))).collect();
            let expected = Layout::infer_modes(b.shape(), |i| values[i as usize]);
            let (mut ruled, mut found, mut refused) = cases.get();
            match (a.composition(&b), expected) {
                (Ok(r), Ok(expected)) => {
                    prop_assert_eq!(r.table().unwrap(), values, "{} o {}", a, b);
                    if a.explain_composition(&b)
                        .steps
                        .iter()
                        .any(|s| matches!(s, Step::Found { .. }))
                    {
                        prop_assert_eq!(r, expected, "{} o {}", a, b);
                        found += 1;
                    } else {
                        ruled += 1;
                    }
                }
                (Err(error), Err(_)) if error.is_composition_refused() => {
                    let e = error.composition().expect("it is one");
                    let Search::Contradicted(why) = &e.search else {
                        panic!("{e}");
                    };
                    check_witness(&a, &b, why);
                    refused += 1;
                }
                (got, expected) => panic!("{a} o {b}: {got:?}, expected {expected:?}"),
            }
            cases.set((ruled, found, refused));
            Ok(())
        });
        let (ruled, found, refused) = cases.get();
        println!("{ruled} by the rule, {found} found, {refused} refused");
        assert!(
            found > 100 && refused > 1_500,
            "{found} found, {refused} refused"
        );
        *count += ruled + found + refused;
    });
}
