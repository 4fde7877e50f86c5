//! Tuples that a program nests as deep as it likes: each operation answers within the stack of a thread.

use std::cmp::Ordering;

use colex_layout::{Coord, Int, IntTuple, IntoTiler, Layout, Slot, Tiler};

use crate::law::law;
use crate::small;

/// More parentheses than the stack of a test holds calls for.
const DEPTH: usize = 20_000;

/// `leaf` in `depth` parentheses, each with as many modes of `others` before it.
fn nested(leaf: i64, others: &[i64], depth: usize) -> IntTuple {
    let others: Vec<IntTuple> = others.iter().map(|n| IntTuple::from(*n)).collect();
    (0..depth).fold(leaf.into(), |inner, _| {
        IntTuple::concat(others.iter().chain([&inner]))
    })
}

#[test]
fn deep_tuples_are_compared_and_measured() {
    for others in [&[][..], &[1]] {
        let [three, four] = [3, 4].map(|leaf| nested(leaf, others, DEPTH));
        let shallow = nested(3, others, DEPTH - 1);
        assert_eq!(three.lex_cmp(&four), Ok(Ordering::Less));
        assert_eq!(four.colex_cmp(&three), Ok(Ordering::Greater));
        assert_eq!(three.partial_cmp(&three), Some(Ordering::Equal));
        assert!(three.lex_cmp(&shallow).is_err() && three.partial_cmp(&shallow).is_none());
        assert_eq!(three.elem_less(&four), Ok(others.is_empty()));
        assert!(three.is_weakly_congruent(&four) && !three.is_weakly_congruent(&shallow));
        assert!(three.is_compatible(&three) && !three.is_compatible(&four));
        assert_eq!(three.product_like(&four), Ok(three.clone()));
        assert_eq!(three.filter_zeros(&four), Ok(three.clone()));
        assert_eq!(
            three.elem_scale(&three).map(|t| t.product()),
            Ok(IntTuple::from(9).product())
        );
        // The only coordinates of one mode in each parenthesis are 0 before the last value.
        let coord = nested(2, if others.is_empty() { &[] } else { &[0] }, DEPTH);
        assert_eq!(three.coord(&coord), Ok(coord.clone()));
        assert_eq!(three.index(&coord), Ok(2));
        assert_eq!(three.coord_in(&coord, &4.into()), Ok(2.into()));
        assert!(three.coord(nested(3, &[], DEPTH + 1)).is_err());
    }
}

#[test]
fn deep_tuples_are_refused_with_the_bound() {
    let deep = nested(4, &[], DEPTH);
    let says = |what: &str| {
        Err(format!(
            "a {what} nests 20000 parentheses deep, and the bound is 64"
        ))
    };
    let told = |result: Result<IntTuple, colex_layout::Error>| {
        result.map(drop).map_err(|error| error.to_string())
    };
    let of_layout = |result: Result<Layout, colex_layout::Error>| {
        result.map(drop).map_err(|error| error.to_string())
    };
    assert_eq!(told(deep.ceil_div(2)), says("tuple"));
    assert_eq!(told(deep.ceil_div(&deep)), says("tuple"));
    assert_eq!(told(deep.round_up(&deep)), says("tuple"));
    assert_eq!(told(deep.shape_div(&deep)), says("tuple"));
    assert_eq!(
        told(deep.coord_in(nested(0, &[], DEPTH), &deep)),
        says("tuple")
    );
    assert_eq!(of_layout(Layout::column_major(&deep)), says("layout"));
    assert_eq!(of_layout(Layout::row_major(&deep)), says("layout"));
    assert_eq!(of_layout(Layout::ordered(&deep, &deep)), says("layout"));
    assert_eq!(of_layout(Layout::new(&deep, &deep)), says("layout"));
    let row = Layout::row_major((4, 8)).expect("a small layout");
    assert_eq!(of_layout(row.coalesce(&deep)), says("profile"));
    assert_eq!(of_layout(row.filter(&deep)), says("profile"));
    let tiler = |result: Result<Tiler, colex_layout::Error>| {
        result.map(drop).map_err(|error| error.to_string())
    };
    assert_eq!(tiler(Tiler::try_from(&deep)), says("tiler"));
    assert_eq!(tiler((&deep).into_tiler()), says("tiler"));
    assert_eq!(of_layout(row.logical_divide(&deep)), says("tiler"));
    let says = Err(String::from(
        "a basis stride of depth 20000: the depth is at most 6",
    ));
    assert_eq!(of_layout(Layout::identity(&deep)), says);
    assert_eq!(deep.basis_like().map(drop).map_err(|e| e.to_string()), says);
    let empty = (0..DEPTH).fold(IntTuple::flat([]), |inner, _| IntTuple::concat([&inner]));
    assert_eq!(
        empty.basis_like().map(|strides| strides.leaves().len()),
        Ok(0)
    );
    let slots = (0..DEPTH).fold(Coord::leaf(Slot::All), |inner, _| Coord::concat([&inner]));
    assert!(row.slice(&slots).is_err());
}

/// What the relations are by their definitions, mode by mode.
mod by_modes {
    use super::{IntTuple, Ordering};

    pub(super) fn compare(a: &IntTuple, b: &IntTuple, from_back: bool) -> Option<Ordering> {
        match (a.as_leaf(), b.as_leaf()) {
            (Some(x), Some(y)) => return Some(x.cmp(&y)),
            (None, None) => {}
            _ => return None,
        }
        let modes = |t: &IntTuple| {
            let mut modes: Vec<IntTuple> = t.modes().collect();
            if from_back {
                modes.reverse();
            }
            modes
        };
        for (x, y) in modes(a).iter().zip(&modes(b)) {
            let order = compare(x, y, from_back)?;
            if order != Ordering::Equal {
                return Some(order);
            }
        }
        Some(a.rank().cmp(&b.rank()))
    }

    pub(super) fn elem_less(a: &IntTuple, b: &IntTuple) -> Option<bool> {
        match (a.as_leaf(), b.as_leaf()) {
            (Some(x), Some(y)) => return Some(x < y),
            (None, None) => {}
            _ => return None,
        }
        let mut all = a.rank() <= b.rank();
        for (x, y) in a.modes().zip(b.modes()) {
            all &= elem_less(&x, &y)?;
        }
        Some(all)
    }

    pub(super) fn weakly_congruent(a: &IntTuple, b: &IntTuple) -> bool {
        let mut modes = a.modes().zip(b.modes());
        a.is_leaf()
            || !b.is_leaf() && a.rank() == b.rank() && modes.all(|(x, y)| weakly_congruent(&x, &y))
    }
}

/// All tuples of small nestings: the walks side by side agree with the definitions.
#[test]
fn relations_by_modes() {
    let mut all: Vec<IntTuple> = [0_i64, 1, 2].map(IntTuple::from).to_vec();
    all.push(IntTuple::flat([]));
    for _ in 0..2 {
        let parts: Vec<IntTuple> = all.iter().take(14).cloned().collect();
        all.extend(parts.iter().map(|t| IntTuple::concat([t])));
        let pairs = parts.iter().flat_map(|a| parts.iter().map(move |b| [a, b]));
        all.extend(pairs.map(IntTuple::concat));
    }
    all.extend(
        [
            "(1,(2,0),1)",
            "((1,2),(0),1)",
            "(1,2,(0,(1)))",
            "((),1,(2))",
        ]
        .map(|text| text.parse::<IntTuple>().expect("a tuple")),
    );
    law("relations_by_modes", "pairs", 10_000, |count| {
        for (i, a) in all.iter().enumerate() {
            for b in small::in_turn(i, 3, all.iter()) {
                assert_eq!(a.lex_cmp(b).ok(), by_modes::compare(a, b, false), "{a} {b}");
                assert_eq!(
                    a.colex_cmp(b).ok(),
                    by_modes::compare(a, b, true),
                    "{a} {b}"
                );
                assert_eq!(a.partial_cmp(b), by_modes::compare(a, b, true), "{a} {b}");
                assert_eq!(a.elem_less(b).ok(), by_modes::elem_less(a, b), "{a} {b}");
                let weak = by_modes::weakly_congruent(a, b);
                assert_eq!(a.is_weakly_congruent(b), weak, "{a} {b}");
                let one = |t: &IntTuple| t.repeat_like(Int::Static(1));
                assert_eq!(one(b).product_like(&one(a)).is_ok(), weak, "{a} {b}");
                *count += 1;
            }
        }
    });
}
