//! Slices, inverses, compositions and runs of XOR and composed layouts, against the definition in 128 bits.

use colex_layout::{
    ComposedLayout, Coord, IntTuple, Layout, LayoutLeft, LayoutRight, Outer, Slot, Stride, Swizzle,
    Tiler, Tuple, Unbounded,
};

use crate::law::law;
use crate::oracle::{Function, Leaves, inners, tiles, xors};
use crate::small::{self, every, in_turn};

fn layout(text: &str) -> Layout {
    text.parse().expect("a layout")
}

fn tile(text: &str) -> ComposedLayout {
    text.parse().expect("a composed layout")
}

fn coord(text: &str) -> Coord {
    text.parse().expect("a coordinate")
}

/// Coordinates that fix some modes of a layout, one level deep and, for a nested mode, two.
fn coords(layout: &Layout) -> Vec<Coord> {
    let sizes: Vec<i64> = layout.modes().map(|m| m.size()).collect();
    let slots = |size: i64| {
        let at = [0, 1, size / 2, size - 1].map(|i| i.min(size - 1));
        let mut slots: Vec<Coord> = at.map(|i| Coord::from(Slot::At(i))).into();
        slots.dedup();
        slots.push(Coord::from(Slot::All));
        slots
    };
    let mut all: Vec<Vec<Coord>> = vec![vec![]];
    for (i, size) in sizes.iter().enumerate() {
        let mode = layout.mode(i).expect("a mode");
        let mut choices = slots(*size);
        if !mode.is_leaf() && mode.rank() == 2 {
            let [a, b] = [0, 1].map(|j| mode.mode(j).expect("rank 2").size());
            choices.push((Slot::All, b - 1).into());
            choices.push((a / 2, Slot::All).into());
        }
        let longer = |c: &Vec<Coord>| {
            choices
                .iter()
                .map(|s| [&c[..], std::slice::from_ref(s)].concat())
                .collect::<Vec<_>>()
        };
        all = all.iter().flat_map(longer).collect();
    }
    let coord = |modes: Vec<Coord>| {
        if layout.is_leaf() {
            modes[0].clone()
        } else {
            Coord::concat(&modes)
        }
    };
    all.into_iter().map(coord).collect()
}

/// The digits of every coordinate that a slice keeps, in its order: `None` in `fixed` is a digit that goes through.
fn kept(leaves: &Leaves, fixed: &[Option<i128>]) -> Vec<Vec<i128>> {
    let mut all = vec![vec![]];
    for ((extent, _), fixed) in leaves.modes.iter().zip(fixed) {
        let choices: Vec<i128> = match fixed {
            Some(c) => vec![*c],
            None => (0..*extent).collect(),
        };
        let longer = |c: &i128| {
            let c = *c;
            all.iter()
                .map(move |d: &Vec<i128>| [&d[..], &[c]].concat())
                .collect::<Vec<_>>()
        };
        all = choices.iter().flat_map(longer).collect();
    }
    all
}

/// Which digits of the leaves a coordinate fixes.
fn fixed(shape: &IntTuple, coord: &Coord) -> Vec<Option<i128>> {
    match coord.as_leaf() {
        Some(Slot::All) => vec![None; shape.leaves().len()],
        Some(Slot::At(index)) => {
            let extents = shape.leaves().iter().map(|n| (i128::from(n.value()), 0));
            let leaves = Leaves {
                modes: extents.collect(),
                xor: false,
            };
            leaves.digits(index.into()).into_iter().map(Some).collect()
        }
        None => {
            let modes = shape.modes().zip(coord.modes());
            modes.flat_map(|(s, c)| fixed(&s, &c)).collect()
        }
    }
}

/// Every slice of every layout, its offset added, has the values of the layout at the whole coordinates.
#[test]
fn slice_adds() {
    law("slice_adds", "slices", 56_000, |count| {
        for whole in small::layouts()
            .step_by(every(61))
            .chain(xors().step_by(every(3)))
        {
            let truth = Function::plain(&whole);
            for coord in coords(&whole) {
                let Ok((slice, offset)) = whole.slice_and_offset(&coord) else {
                    assert!(whole.is_xor(), "{whole} at {coord}");
                    continue;
                };
                same_slice(
                    &truth,
                    &whole.shape(),
                    &coord,
                    offset,
                    &Function::plain(&slice),
                    &|| format!("{whole} at {coord} is {slice} from {offset}"),
                );
                *count += 1;
            }
        }
    });
    law("composed_slice_adds", "slices", 40_000, |count| {
        for whole in tiles().step_by(every(7)) {
            let truth = Function::of(&whole);
            for coord in coords(whole.inner()) {
                if let Ok((slice, offset)) = whole.slice_and_offset(&coord) {
                    same_slice(
                        &truth,
                        &whole.shape(),
                        &coord,
                        offset,
                        &Function::of(&slice),
                        &|| format!("{whole} at {coord} is {slice} from {offset}"),
                    );
                    *count += 1;
                }
                if let Ok(slice) = whole.slice(&coord) {
                    same_slice(
                        &truth,
                        &whole.shape(),
                        &coord,
                        0,
                        &Function::of(&slice),
                        &|| format!("{whole} at {coord} is {slice}"),
                    );
                    *count += 1;
                }
            }
        }
    });
}

#[track_caller]
fn same_slice(
    truth: &Function,
    shape: &IntTuple,
    coord: &Coord,
    offset: i64,
    slice: &Function,
    told: &dyn Fn() -> String,
) {
    let digits = kept(&truth.inner, &fixed(shape, coord));
    assert_eq!(slice.size(), digits.len() as i128, "{}", told());
    for (i, digits) in (0..).zip(&digits) {
        let Some(value) = truth.at_digits(digits) else {
            continue;
        };
        assert_eq!(
            slice.at(i).map(|x| x + i128::from(offset)),
            Some(value),
            "{} at {i}",
            told()
        );
    }
}

/// The layout from every coordinate on, digit by digit.
#[test]
fn domain_offset_adds() {
    law(
        "domain_offset_adds",
        "layouts and coordinates",
        8_100,
        |count| {
            for whole in small::layouts()
                .step_by(every(61))
                .chain(xors().step_by(every(3)))
            {
                let truth = Function::plain(&whole);
                for coord in origins(&whole) {
                    let Ok((view, offset)) = whole.domain_offset(coord.clone()) else {
                        assert!(whole.is_xor(), "{whole} at {coord}");
                        continue;
                    };
                    let view = Function::plain(&view);
                    same_view(&truth, &whole.shape(), &coord, offset, &view);
                    *count += 1;
                }
            }
        },
    );
    law(
        "composed_domain_offset_adds",
        "layouts and coordinates",
        8_000,
        |count| {
            for whole in tiles().step_by(every(7)) {
                let truth = Function::of(&whole);
                for coord in origins(whole.inner()) {
                    let Ok(view) = whole.domain_offset(coord.clone()) else {
                        continue;
                    };
                    same_view(&truth, &whole.shape(), &coord, 0, &Function::of(&view));
                    *count += 1;
                }
            }
        },
    );
}

/// Coordinates that become an origin: within and beyond the layout.
fn origins(layout: &Layout) -> Vec<IntTuple> {
    let sizes: Vec<i64> = layout.modes().map(|m| m.size()).collect();
    let coord = |f: &dyn Fn(i64) -> i64| {
        if layout.is_leaf() {
            IntTuple::from(f(layout.size()))
        } else {
            IntTuple::flat(sizes.iter().map(|s| f(*s).into()))
        }
    };
    let mut all = vec![
        coord(&|_| 0),
        coord(&|s| s - 1),
        coord(&|s| s / 2),
        coord(&|_| 8),
    ];
    if !layout.is_leaf() {
        let last = sizes.len() - 1;
        all.push(IntTuple::flat(
            (0..=last).map(|i| i64::from(i == last).into()),
        ));
    }
    all
}

#[track_caller]
fn same_view(truth: &Function, shape: &IntTuple, coord: &IntTuple, offset: i64, view: &Function) {
    let origin: Vec<i128> = fixed(shape, &Coord::from(coord.clone()))
        .into_iter()
        .map(|c| c.expect("every digit is fixed"))
        .collect();
    for i in 0..truth.size() {
        let digits = truth.inner.digits(i);
        let sum: Vec<i128> = digits.iter().zip(&origin).map(|(a, b)| a + b).collect();
        let Some(value) = truth.at_digits(&sum) else {
            continue;
        };
        let seen = view.at_digits(&digits).map(|x| x + i128::from(offset));
        assert_eq!(seen, Some(value), "{shape} from {coord} at {i}");
    }
}

/// A layout over a composed one: `A(B(c))`, `A` also beyond its size.
#[test]
fn composition_composed_at() {
    law("composition_composed_at", "pairs", 4_000, |count| {
        let left: Vec<Layout> = [
            "(4,8,2):(32,2,128)",
            "(8,8):(1,16)",
            "(4,4):(1,8)",
            "8:3",
            "4:1",
            "(2,2):(2,1)",
            "(6,4):(1,12)",
            "(2,32):(32,1)",
            "(4,4):(^1,^8)",
            "(4,8):(-1,4)",
        ]
        .iter()
        .map(|t| layout(t))
        .collect();
        for b in tiles().step_by(every(3)) {
            let inner = Function::of(&b);
            for a in &left {
                let Ok(result) = a.composition(&b) else {
                    continue;
                };
                let (outer, found) = (Leaves::of(a), Function::of(&result));
                assert_eq!(found.size(), inner.size(), "{a} o ({b}) = {result}");
                for i in 0..inner.size() {
                    let truth = inner.at(i).and_then(|x| outer.at(x));
                    assert_eq!(found.at(i), truth, "{a} o ({b}) = {result} at {i}");
                }
                *count += 1;
            }
        }
    });
    law("composed_composition_at", "pairs", 7_500, |count| {
        let right: Vec<Layout> = small::layouts()
            .step_by(4001)
            .chain(xors().step_by(151))
            .collect();
        for a in tiles().step_by(every(13)) {
            let outer = Function::of(&a);
            for b in &right {
                let Ok(result) = a.composition(b) else {
                    continue;
                };
                let (inner, found) = (Leaves::of(b), Function::of(&result));
                for i in 0..inner.size() {
                    let truth = inner.at(i).and_then(|x| outer.at(x));
                    assert!(
                        truth.is_none() || found.at(i) == truth,
                        "({a}) o {b} = {result} at {i}"
                    );
                }
                *count += 1;
            }
        }
    });
}

/// A layout visited in swizzled order.
#[test]
fn composition_swizzle_at() {
    law("composition_swizzle_at", "pairs", 2_000, |count| {
        let swizzles = || {
            (1..=3).flat_map(|b| {
                (0..=3).flat_map(move |m| (-4..=4).filter_map(move |s| Swizzle::new(b, m, s).ok()))
            })
        };
        for a in inners() {
            for sw in swizzles() {
                let Ok(result) = a.composition(sw) else {
                    continue;
                };
                let (outer, found) = (Leaves::of(&a), Function::of(&result));
                for i in 0..outer.size() {
                    let truth = outer.at(sw.apply(i as i64).into());
                    assert_eq!(found.at(i), truth, "{a} o {sw} = {result} at {i}");
                }
                *count += 1;
            }
        }
    });
}

/// XOR strides on either side of a composition, with negative strides and overlapping bits.
#[test]
fn xor_composition_everywhere() {
    law("xor_composition_everywhere", "pairs", 10_000, |count| {
        let some: Vec<Layout> = small::layouts()
            .step_by(every(2999).max(700))
            .chain(xors().step_by(every(19).max(5)))
            .collect();
        for (i, a) in some.iter().enumerate() {
            let some = in_turn(i, 3, some.iter());
            for b in some.filter(|b| a.is_xor() || b.is_xor()) {
                let Ok(result) = a.composition(b) else {
                    continue;
                };
                let (outer, inner, found) = (Leaves::of(a), Leaves::of(b), Leaves::of(&result));
                for i in 0..inner.size() {
                    let truth = inner.at(i).and_then(|x| outer.at(x));
                    assert_eq!(found.at(i), truth, "{a} o {b} = {result} at {i}");
                }
                *count += 1;
            }
        }
    });
}

/// Both inverses, of every layout that has one: all indices within their sizes.
#[test]
fn inverses_within_their_sizes() {
    law("left_inverse_within", "layouts", 20_000, |count| {
        for whole in small::layouts() {
            let Ok(inverse) = whole.left_inverse() else {
                continue;
            };
            found_again(
                &Function::plain(&whole),
                &Function::plain(&inverse),
                &whole,
                &inverse,
            );
            *count += 1;
        }
    });
    law("composed_inverses_within", "inverses", 500, |count| {
        let xors = xors().map(ComposedLayout::from);
        for whole in tiles().chain(xors) {
            if let Ok(inverse) = whole.left_inverse() {
                found_again(
                    &Function::of(&whole),
                    &Function::of(&inverse),
                    &whole,
                    &inverse,
                );
                *count += 1;
            }
            if let Ok(inverse) = whole.right_inverse() {
                let (own, back) = (Function::of(&whole), Function::of(&inverse));
                for i in 0..back.size() {
                    let index = back.at(i).expect("within the inverse");
                    assert!(
                        (0..own.size()).contains(&index),
                        "{inverse} of {whole} at {i}"
                    );
                    assert_eq!(own.at(index), Some(i), "{inverse} of {whole}");
                }
                *count += 1;
            }
        }
    });
}

#[track_caller]
fn found_again(
    own: &Function,
    back: &Function,
    whole: &impl std::fmt::Display,
    inverse: &impl std::fmt::Display,
) {
    let Some(values) = own.table() else { return };
    for value in values {
        assert!(
            (0..back.size()).contains(&value),
            "{inverse} of {whole} at {value}"
        );
        let index = back.at(value).expect("within the inverse");
        assert!(
            (0..own.size()).contains(&index),
            "{inverse} of {whole} at {value}"
        );
        assert_eq!(own.at(index), Some(value), "{inverse} of {whole}");
    }
}

/// How many indices in the order of `right`'s inverse count up from the first offset in both.
fn run(left: &Function, right: &Function, inverse: &Leaves) -> i128 {
    let first = (left.at(0), right.at(0));
    let counts = |k: &i128| {
        let index = inverse.at(*k).expect("within the inverse");
        let offsets = (left.at(index), right.at(index));
        let from = |first: Option<i128>| first.map(|x| x + k);
        index < left.size() && index < right.size() && offsets == (from(first.0), from(first.1))
    };
    (0..inverse.size()).take_while(counts).count() as i128
}

/// The longest run of every pair of plain layouts, of any two sizes; of XOR layouts on the left too.
#[test]
fn common_vector_longest() {
    law("common_vector_longest", "pairs", 200_000, |count| {
        let two = small::modes(2, &[1, 2, 3, 4, 5, 6], &[-1, 0, 1, 2, 3, 4, 6]);
        let three = small::modes(3, &[2, 4, 5], &[1, 2, 4, 8, 10]);
        let some = small::nested(two)
            .step_by(every(9).max(5))
            .chain(small::nested(three).step_by(every(17).max(11)));
        let right: Vec<Layout> = some.collect();
        let left: Vec<Layout> = right
            .iter()
            .cloned()
            .chain(xors().step_by(every(9).max(3)))
            .collect();
        for b in &right {
            let inverse = b.right_inverse().expect("integer strides");
            let (order, own) = (Leaves::of(&inverse), Function::plain(b));
            for a in &left {
                let longest = run(&Function::plain(a), &own, &order);
                assert_eq!(
                    a.max_common_vector(b).map(i128::from),
                    Ok(longest),
                    "{a} and {b}"
                );
                let common = a.max_common_layout(b).expect("integer strides");
                assert_eq!(
                    run(&Function::plain(a), &own, &Leaves::of(&common)),
                    common.size().into(),
                    "{common} of {a} and {b}"
                );
                *count += 1;
            }
        }
    });
}

/// Under swizzles and outer layouts the run is at least as long.
#[test]
fn composed_common_vector_is_contiguous() {
    law("composed_common_vector", "pairs", 100_000, |count| {
        let plain = small::modes(2, &[2, 4, 8], &[1, 2, 4, 8]);
        let right: Vec<ComposedLayout> = small::nested(plain)
            .map(ComposedLayout::from)
            .chain(tiles().step_by(every(211).max(61)))
            .collect();
        for a in tiles().step_by(every(13)) {
            let left = Function::of(&a);
            for b in &right {
                let Ok(n) = a.max_common_vector(b) else {
                    continue;
                };
                let own = Function::of(b);
                let inverse = b.inner().right_inverse().expect("the vector needed it");
                let longest = run(&left, &own, &Leaves::of(&inverse));
                assert!(i128::from(n) <= longest, "{a} and {b}: {n}, but {longest}");
                *count += 1;
                let Ok(b) = b.to_layout() else { continue };
                let common = a.max_common_layout(&b).expect("the vector needed it");
                assert_eq!(
                    run(&left, &own, &Leaves::of(&common)),
                    common.size().into(),
                    "{common} of {a} and {b}"
                );
            }
        }
    });
}

/// Every way to take the values of a composed layout, and what the conversions make of it.
#[test]
fn composed_values() {
    law("composed_values", "layouts", 10_000, |count| {
        for whole in tiles().chain(xors().map(ComposedLayout::from)) {
            let truth = Function::of(&whole);
            let Some(values) = truth.table() else {
                assert!(whole.table().is_err(), "{whole}");
                continue;
            };
            let as_i64 = |x: &i128| i64::try_from(*x).expect("small");
            let expected: Vec<i64> = values.iter().map(as_i64).collect();
            assert_eq!(whole.table().as_deref(), Ok(&expected[..]), "{whole}");
            if let Ok(offsets) = whole.offsets() {
                assert_eq!(offsets.collect::<Vec<_>>(), expected, "{whole}");
            }
            for (i, x) in (0..).zip(&expected) {
                assert_eq!(whole.at(i), Ok(*x), "{whole} at {i}");
            }
            assert_eq!(
                whole
                    .position_independent()
                    .and_then(|l| l.table())
                    .as_deref(),
                Ok(&expected[..])
            );
            if let Ok((xor, start)) = whole.to_xor() {
                let moved: Vec<i64> = xor
                    .table()
                    .expect("small")
                    .iter()
                    .map(|x| x ^ start)
                    .collect();
                assert_eq!(moved, expected, "{whole} as {xor} from {start}");
                if let Ok(swizzled) = xor.to_swizzled() {
                    assert_eq!(swizzled.table(), xor.table(), "{xor} as {swizzled}");
                }
                if let Ok(matrix) = xor.to_matrix() {
                    let all = (0..xor.size()).map(|i| matrix.apply(i)).collect::<Vec<_>>();
                    assert_eq!(Ok(all), xor.table(), "{xor}");
                }
            }
            if let Ok(plain) = whole.to_layout() {
                assert_eq!(plain.table().as_deref(), Ok(&expected[..]), "{whole}");
            }
            *count += 1;
        }
    });
}

/// What is forwarded to the inner layout does there what it does without an outer function.
#[test]
fn composed_forwards() {
    let tilers: [Tiler; 3] = [
        "2".parse().expect("a tiler"),
        "(2,_)".parse().expect("a tiler"),
        "(2:1,2:2)".parse().expect("a tiler"),
    ];
    law("composed_forwards", "results", 24_000, |count| {
        for whole in tiles().step_by(every(17)) {
            let inner = whole.inner();
            let mut pairs = vec![
                (Ok(whole.coalesce(..)), Ok(inner.coalesce(..))),
                (Ok(whole.flatten()), Ok(inner.flatten())),
                (whole.get(&[0]), inner.get(&[0])),
                (whole.select(&[1, 0]), inner.select(&[1, 0])),
                (whole.take(0..1), inner.take(0..1)),
                (whole.group(0..2), inner.group(0..2)),
                (whole.append("2:3"), inner.append("2:3")),
                (whole.zip(), inner.zip()),
                (whole.composition("2:2"), inner.composition("2:2")),
                (whole.coalesce((1, 1)), inner.coalesce((1, 1))),
                (whole.filter((1, 1)), inner.filter((1, 1))),
                (whole.blocked_product("2:1"), inner.blocked_product("2:1")),
                (whole.raked_product("2:1"), inner.raked_product("2:1")),
                (
                    whole.tile_to_shape((16, 16), LayoutLeft),
                    inner.tile_to_shape((16, 16), LayoutLeft),
                ),
                (
                    whole.tile_to_shape((16, 16), LayoutRight),
                    inner.tile_to_shape((16, 16), LayoutRight),
                ),
                (whole.with_shape((2, 4)), inner.with_shape((2, 4))),
                (whole.layout_like(), inner.layout_like()),
            ];
            for tiler in &tilers {
                pairs.extend([
                    (whole.composition(tiler), inner.composition(tiler)),
                    (whole.logical_divide(tiler), inner.logical_divide(tiler)),
                    (whole.zipped_divide(tiler), inner.zipped_divide(tiler)),
                    (whole.tiled_divide(tiler), inner.tiled_divide(tiler)),
                    (whole.flat_divide(tiler), inner.flat_divide(tiler)),
                    (whole.logical_product(tiler), inner.logical_product(tiler)),
                    (whole.zipped_product(tiler), inner.zipped_product(tiler)),
                    (whole.tiled_product(tiler), inner.tiled_product(tiler)),
                    (whole.flat_product(tiler), inner.flat_product(tiler)),
                ]);
            }
            let own = Function::of(&whole);
            for (i, (result, plain)) in pairs.into_iter().enumerate() {
                let (Ok(result), Ok(plain)) = (&result, &plain) else {
                    assert!(
                        result.is_err() && plain.is_err(),
                        "operation {i} of {whole}"
                    );
                    continue;
                };
                let (found, plain) = (Function::of(result), Leaves::of(plain));
                assert_eq!(found.size(), plain.size(), "operation {i} of {whole}");
                for c in 0..plain.size() {
                    let truth = plain.at(c).and_then(|x| own.map(x));
                    assert_eq!(
                        found.at(c),
                        truth,
                        "operation {i} of {whole}: {result} at {c}"
                    );
                }
                *count += 1;
            }
        }
    });
}

/// A pointer's swizzle permutes bytes: elements of any width, at every operation that takes one.
#[test]
fn pointers_count_bytes() {
    law("pointers_count_bytes", "layouts", 500, |count| {
        for inner in inners() {
            for (bits, base) in [(8, 4), (16, 4), (32, 2), (64, 4), (4, 1), (16, 0)] {
                let sw = Swizzle::new(2, base, 3).expect("B <= S");
                let pointer =
                    ComposedLayout::for_pointer(sw, bits, inner.clone()).expect("a width");
                let leaves = Leaves::of(&inner);
                let by_bytes = |x: i128| {
                    // The address in bits, of which the swizzle permutes the bytes.
                    let byte = (x * i128::from(bits)).div_euclid(8);
                    let rest = (x * i128::from(bits)).rem_euclid(8);
                    let byte = i128::from(sw.apply(byte as i64));
                    (byte * 8 + rest).div_euclid(i128::from(bits))
                };
                let values: Vec<i128> = leaves.table().into_iter().map(by_bytes).collect();
                let table = pointer.table().expect("small");
                assert!(
                    table
                        .iter()
                        .map(|x| i128::from(*x))
                        .eq(values.iter().copied()),
                    "{pointer}"
                );
                assert!(
                    pointer.offsets().expect("small").eq(table.iter().copied()),
                    "{pointer}"
                );
                if inner.rank() == 2 && !inner.is_leaf() {
                    let at =
                        Coord::from((Slot::All, 1.min(inner.mode(1).expect("rank 2").size() - 1)));
                    if let Ok((slice, offset)) = pointer.slice_and_offset(&at) {
                        let digits = kept(&leaves, &fixed(&inner.shape(), &at));
                        for (i, digits) in (0..).zip(&digits) {
                            let truth = leaves.at_digits(digits).map(by_bytes);
                            assert_eq!(
                                slice.at(i).ok().map(|x| i128::from(x + offset)),
                                truth,
                                "{pointer} at {at}"
                            );
                        }
                    }
                }
                *count += 1;
            }
        }
    });
}

/// W3 of the adversary's list: an XOR layout sliced at a row whose bits are those of the columns.
#[test]
fn xor_slices_add() {
    let whole = layout("(8,64):(^72,^1)");
    let (row, offset) = whole
        .slice_and_offset(coord("(1,_)"))
        .expect("bits that are set once");
    assert_eq!((row.at(8), offset), (Ok(-8), 72));
    for text in [
        "Sw<0,4,3> o 0 o (8,64):(^72,^1)",
        "Sw<3,6,3> o 64 o (8,64):(^72,^1)",
        "1024:1 o 0 o (8,64):(^72,^1)",
    ] {
        let whole = tile(text);
        let truth: Vec<_> = (0..64).map(|j| whole.at((1, j))).collect();
        let row = whole.slice(coord("(1,_)")).expect("bits that are set once");
        assert_eq!(
            (0..64).map(|j| row.at(j)).collect::<Vec<_>>(),
            truth,
            "{text}"
        );
        let (row, offset) = whole
            .slice_and_offset(coord("(1,_)"))
            .expect("bits that are set once");
        assert_eq!(
            (0..64).map(|j| Ok(row.at(j)? + offset)).collect::<Vec<_>>(),
            truth,
            "{text}"
        );
    }
}

/// W3: where no layout adds to the start, the error says so.
#[test]
fn xor_slices_that_do_not_add_are_refused() {
    let error = |text: &str, at: &str| {
        layout(text)
            .slice_and_offset(coord(at))
            .expect_err(text)
            .to_string()
    };
    assert_eq!(
        error("(2,4):(^1,^3)", "(1,_)"),
        "slice_and_offset of (4):(^3): its XOR offsets do not add to its start 1: both set the same bits, and coordinates of \
         the layout set bits together"
    );
    assert_eq!(
        error("(2,3):(^1,^1)", "(1,_)"),
        "slice_and_offset of (3):(^1): its XOR offsets do not add to its start 1: both set the same bits, and the extent of \
         a mode is not a power of two"
    );
    let error = layout("(8,64):(^72,^1)")
        .domain_offset((1, 0))
        .expect_err("digits share bits");
    assert_eq!(
        error.to_string(),
        "domain_offset of (8,64):(^72,^1): its XOR offsets do not add to those of the coordinate (1,0)"
    );
    assert!(
        tile("Sw<3,6,3> o 0 o (8,64):(^72,^1)")
            .domain_offset((1, 0))
            .is_err()
    );
}

/// W6 of the adversary's list: layouts of two sizes, and an offset within the block of a swizzle.
#[test]
fn common_runs_end_where_one_of_both_ends() {
    assert_eq!(layout("4:1").max_common_vector("6:1"), Ok(4));
    assert_eq!(layout("6:1").max_common_vector("4:1"), Ok(4));
    assert_eq!(layout("4:1").max_common_layout("6:1"), Ok(layout("4:1")));
    let (at_99, plain) = (tile("Sw<3,3,3> o 99 o 16:1"), layout("16:1"));
    assert_eq!(at_99.max_common_vector(&plain), Ok(5));
    assert_eq!(at_99.max_common_layout(&plain), Ok(layout("5:1")));
    let same = tile("Sw<3,3,3> o 0 o 512:1");
    assert_eq!(same.max_common_vector(&same), Ok(8));
}

/// The run of 2^28 elements took 7 seconds, one element at a time.
#[test]
fn common_runs_are_not_walked() {
    // No layout over the mode of 3 * 2^27 equals the composition, which used to be the only way past a walk.
    let long = layout("(268435456,2):(1,536870912)");
    assert_eq!(long.max_common_vector("402653184:1"), Ok(1 << 28));
    assert_eq!(
        layout("(5,99999999):(1,1)").max_common_vector("(4,3,1000000000):(1,12,4)"),
        Ok(7)
    );
    let (a, b) = (layout("(12,100000000):(1,13)"), layout("(1200000001):(1)"));
    assert_eq!(a.max_common_vector(&b), Ok(12));
    let xor = layout("(1048576,1048576):(^1,^1048576)");
    assert_eq!(xor.max_common_vector("1099511627776:1"), Ok(1 << 40));
    // Bits that are set twice: found where they first are, or given up.
    assert_eq!(
        layout("(1024,1024):(^1,^512)").max_common_vector("1048576:1"),
        Ok(1024)
    );
    let error = layout("(1048576,2):(^1,^1)")
        .max_common_vector("2097152:1")
        .expect_err("too long to look at");
    assert_eq!(
        error.to_string(),
        "max_common_vector of (1048576,2):(^1,^1): the search for the end of the contiguous run gave up after 65536 of its \
         elements"
    );
}

/// W7 of the adversary's list: the outer layout of the right operand goes on beyond its size.
#[test]
fn composition_with_an_outer_layout_goes_on() {
    let a = layout("(4,8,2):(32,2,128)");
    match a.composition(&tile("2:6 o 0 o 8:1")) {
        Ok(result) => assert_eq!(result.table(), Ok(vec![0, 66, 6, 72, 12, 78, 130, 196])),
        Err(error) => assert!(
            error.to_string().contains("2:6 o 0 o 8:1") || error.to_string().contains("8:6"),
            "{error}"
        ),
    }
    let inner = tile("2:4 o 0 o 8:1");
    let result = a
        .composition(&inner)
        .expect("every fourth index is a column");
    assert_eq!(result.table(), Ok(vec![0, 2, 4, 6, 8, 10, 12, 14]));
    // The swizzle acts on indices beyond the layout on its left.
    let short = layout("4:1")
        .composition(&tile("Sw<1,0,2> o 0 o 8:1"))
        .expect("it is the swizzle");
    assert_eq!(short.table(), Ok(vec![0, 1, 2, 3, 5, 4, 7, 6]));
}

/// W8 of the adversary's list: the left inverse of layouts whose modes overlap, within the sizes of both.
#[test]
fn left_inverse_of_overlapping_modes() {
    let error = layout("(2,2):(1,1)")
        .left_inverse()
        .expect_err("offset 2 needs both modes");
    assert_eq!(
        error.to_string(),
        "left_inverse of (2,2):(1,1): its modes overlap, and their sums need a digit that no single mode has"
    );
}

/// W8: an XOR layout has no value below index 0.
#[test]
fn xor_layouts_end_at_index_0() {
    let error = layout("(4,4):(^1,^4)")
        .at(Unbounded(-1))
        .expect_err("no bits below 0");
    assert_eq!(
        error.to_string(),
        "coordinate -1 is not within 0..4 in the shape (4,4)"
    );
    let error = layout("4:^1")
        .composition("4:-1")
        .expect_err("no bits below 0");
    assert_eq!(
        error.to_string(),
        "composition of 4:^1 o 4:-1: the right operand has the offset -3, and XOR strides on the left have no value below \
         index 0"
    );
}

/// W8: offsets at the ends of 64 bits are sums that do not fit.
#[test]
fn composed_offsets_at_the_ends() {
    for (offset, inner) in [
        (i64::MAX, "2:1"),
        (i64::MAX - 2, "4:1"),
        (i64::MIN, "4:-1"),
        (i64::MIN + 2, "4:-1"),
        (i64::MAX - 1, "4:^1"),
    ] {
        let whole =
            ComposedLayout::new(Outer::from(Swizzle::IDENTITY), offset, layout(inner)).unwrap();
        assert!(whole.offsets().is_err(), "{whole}");
        assert!(whole.table().is_err(), "{whole}");
    }
    let fits = ComposedLayout::new(Swizzle::IDENTITY, i64::MAX - 3, layout("4:1")).unwrap();
    assert_eq!(fits.offsets().map(|all| all.last()), Ok(Some(i64::MAX)));
}

/// Numbers at the ends of 64 bits, among small ones: a result is the definition where it is looked at, and nothing
/// panics.
#[test]
fn composed_at_the_ends_of_the_integers() {
    const MAX: i64 = i64::MAX;
    const MIN: i64 = i64::MIN;
    let extents = [1, 2, 3, 4, 1 << 20, 1 << 31, 1 << 62, MAX];
    let strides = [
        0,
        1,
        2,
        3,
        4,
        8,
        -1,
        -4,
        1 << 40,
        1 << 62,
        MAX,
        MAX - 1,
        MIN,
        MIN + 1,
    ];
    let offsets = [0, 1, 4, 1 << 62, MAX, MIN, -1];
    let swizzles = [
        (0, 4, 3),
        (2, 0, 2),
        (2, 0, -2),
        (1, 60, 1),
        (1, 60, -1),
        (3, 20, 30),
    ];
    let outers = [
        "4:1",
        "(2,4):(1,8)",
        "8:-4",
        "(4,2):(^1,^8)",
        "9223372036854775807:1",
    ];
    let mut state = 2026_u64;
    let mut pick = move |n: usize| {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1);
        (state >> 33) as usize % n
    };
    law("composed_at_the_ends", "results", 20_000, |count| {
        for _ in 0..24_000 / every(4) {
            let rank = 1 + pick(3);
            let shape = IntTuple::flat(
                (0..rank)
                    .map(|_| extents[pick(8)].into())
                    .collect::<Vec<_>>(),
            );
            let is_xor = pick(2) == 0;
            let stride = |d: i64| {
                if is_xor && d != 0 {
                    Stride::Xor(d.into())
                } else {
                    Stride::Int(d.into())
                }
            };
            let modes: Vec<Stride> = (0..rank).map(|_| stride(strides[pick(14)])).collect();
            let Ok(inner) = Layout::new(shape, Tuple::flat(modes)) else {
                continue;
            };
            let outer = match pick(2) {
                0 => layout(outers[pick(5)]).into(),
                _ => {
                    let (b, m, s) = swizzles[pick(6)];
                    Outer::from(Swizzle::new(b, m, s).expect("B <= |S|"))
                }
            };
            let whole = ComposedLayout::new(outer, offsets[pick(7)], inner.clone()).unwrap();
            let n = [1, 2, 3, 4, 1 << 20, 1 << 62, MAX][pick(7)];
            *count += at_the_ends(&whole, n);
        }
    });
}

/// Every operation of one composed layout and of its inner one; how many had a result.
fn at_the_ends(whole: &ComposedLayout, n: i64) -> u64 {
    let inner = whole.inner();
    let (truth, plain) = (Function::of(whole), Function::plain(inner));
    let probes = [0, 1, 2, truth.size() / 2, truth.size() - 1];
    let probes = probes.into_iter().filter(|i| *i < truth.size());
    let probes: Vec<Vec<i128>> = probes.map(|i| truth.inner.digits(i)).collect();
    let mut results = 0;
    for digits in &probes {
        let index = IntTuple::flat(digits.iter().map(|c| (*c as i64).into()));
        if let Ok(value) = whole.at(index) {
            assert_eq!(
                truth.at_digits(digits),
                Some(value.into()),
                "{whole} at {digits:?}"
            );
            results += 1;
        }
    }
    let gathered = |fine: &Function, coarse: &Function, k: i128| {
        let step = |(s, d): &(i128, i128)| match d.abs() {
            size if *s == 1 || size % k == 0 => 1,
            size => k / size,
        };
        let steps: Vec<i128> = fine.inner.modes.iter().map(|m| step(m).max(1)).collect();
        probes.iter().all(|digits| {
            let units: Vec<i128> = digits.iter().zip(&steps).map(|(c, k)| c / k).collect();
            let unit = fine.at_digits(digits).map(|x| x.div_euclid(n.into()));
            unit.is_none() || coarse.at_digits(&units) == unit
        })
    };
    let ups = [
        inner.upcast(n),
        inner.upcast_exact(n),
        inner.recast(1, n),
        inner.recast_exact(1, n),
    ];
    for up in ups.into_iter().flatten() {
        assert!(
            gathered(&plain, &Function::plain(&up), n.into()),
            "{inner} by {n} is {up}"
        );
        results += 1;
    }
    for up in [whole.upcast(n), whole.recast(1, n)].into_iter().flatten() {
        let ways: Vec<i128> = match whole.outer() {
            Outer::Swizzle(_) => vec![n.into()],
            Outer::Layout(_) => [1, 2, 4, 8, 1 << 20, n].map(i128::from).into(),
        };
        let right = ways
            .iter()
            .any(|k| gathered(&truth, &Function::of(&up), *k));
        assert!(right, "{whole} by {n} is {up}");
        results += 1;
    }
    let ends = |end: i64| {
        IntTuple::flat(
            inner
                .modes()
                .map(|m| (m.size() - end).into())
                .collect::<Vec<_>>(),
        )
    };
    let others = [
        whole.downcast(n).is_ok(),
        whole.recast(n, 1).is_ok(),
        whole.recast(n, 6).is_ok(),
        inner.downcast(n).is_ok(),
        whole.max_alignment().is_ok(),
        inner.max_alignment().is_ok(),
        whole.max_common_vector(whole).is_ok(),
        whole.max_common_layout(inner).is_ok(),
        whole.left_inverse().is_ok(),
        whole.right_inverse().is_ok(),
        whole
            .to_xor()
            .is_ok_and(|(xor, _)| xor.to_swizzled().is_ok()),
        inner.composition(whole).is_ok(),
        whole.composition(inner).is_ok(),
        whole.domain_offset(ends(1)).is_ok(),
        inner.domain_offset(ends(0)).is_ok(),
    ];
    results += others.into_iter().filter(|ok| *ok).count() as u64;
    if let Ok(mut offsets) = whole.offsets() {
        assert_eq!(offsets.next().map(i128::from), truth.at(0), "{whole}");
        results += 1;
    }
    let slot = |(i, m): (usize, Layout)| match i {
        0 => Coord::from(Slot::All),
        _ => Coord::from(m.size() - 1),
    };
    let last = Coord::concat(&inner.modes().enumerate().map(slot).collect::<Vec<_>>());
    if let Ok((slice, offset)) = whole.slice_and_offset(&last) {
        let slice = Function::of(&slice);
        let mut digits: Vec<i128> = truth.inner.modes.iter().map(|(s, _)| s - 1).collect();
        for c in [0, 1.min(digits[0]), digits[0]] {
            digits[0] = c;
            let value = truth.at_digits(&digits);
            let found = slice.at(c).map(|x| x + i128::from(offset));
            assert!(
                value.is_none() || found == value,
                "{whole} at {last} and {c}: {found:?}, not {value:?}"
            );
        }
        results += 1;
    }
    results
}
