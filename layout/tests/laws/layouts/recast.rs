//! Layouts in larger and smaller elements, against the definition: `floor(A(c) / n)`, and the parts `n A(c) + k`.

use colex_layout::{ComposedLayout, Layout};

use crate::law::law;
use crate::oracle::{Function, Leaves, set, sorted, tiles, xors};
use crate::small::{self, every};

fn layout(text: &str) -> Layout {
    text.parse().expect("a layout")
}

fn tile(text: &str) -> ComposedLayout {
    text.parse().expect("a composed layout")
}

/// How many steps of each mode stay within one unit of `n`, where the units of the modes divide one another.
fn steps(inner: &Leaves, n: i128) -> Option<Vec<i128>> {
    let step = |(extent, d): &(i128, i128)| match d.abs() {
        size if *extent == 1 || size % n == 0 => Some(1),
        size if n % size == 0 => Some(n / size),
        _ => None,
    };
    inner.modes.iter().map(step).collect()
}

/// Whether `coarse`, at the digits that the units gather, is `floor(fine / n)` everywhere, and has no other digits.
fn gathers(fine: &Function, coarse: &Function, n: i128, steps: &[i128]) -> bool {
    let extents = fine.inner.modes.iter().zip(steps);
    let shape = extents.map(|((s, _), k)| (s + k - 1) / k);
    if !shape.eq(coarse.inner.modes.iter().map(|(s, _)| *s)) {
        return false;
    }
    (0..fine.size()).all(|i| {
        let digits = fine.inner.digits(i);
        let units: Vec<i128> = digits.iter().zip(steps).map(|(c, k)| c / k).collect();
        let truth = fine.at_digits(&digits).map(|x| x.div_euclid(n));
        truth.is_none() || coarse.at_digits(&units) == truth
    })
}

/// CuTe's formula for a layout in units of `n`.
fn formula(fine: &Leaves, n: i128, steps: &[i128]) -> Leaves {
    let leaf = |((s, d), k): (&(i128, i128), &i128)| {
        let stride = d.signum() * ((d.abs() + n - 1) / n);
        ((s + k - 1) / k, stride)
    };
    Leaves {
        modes: fine.modes.iter().zip(steps).map(leaf).collect(),
        xor: fine.xor,
    }
}

/// Whether `n` elements of `fine` lie in each unit of `coarse`, repeated ones counted.
fn whole(fine: &[i128], coarse: &[i128], n: i128) -> bool {
    let parts = coarse.iter().flat_map(|u| (0..n).map(move |k| u * n + k));
    sorted(fine.to_vec()) == sorted(parts.collect())
}

const FACTORS: [i64; 13] = [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 12, 16, 24];

/// Every factor, and every layout: the result is the definition, or the definition is no layout of these modes.
#[test]
fn upcast_floor() {
    law("upcast_floor", "layouts and factors", 30_000, |count| {
        for fine in small::layouts()
            .step_by(every(11))
            .chain(xors().step_by(every(3)))
        {
            let function = Function::plain(&fine);
            let values = function.inner.table();
            for n in FACTORS {
                let wide = i128::from(n);
                let expected = steps(&function.inner, wide);
                let Ok(coarse) = fine.upcast(n) else {
                    let right = expected.is_some_and(|k| {
                        let coarse = formula(&function.inner, wide, &k);
                        let coarse = Function::plain_of(coarse);
                        gathers(&function, &coarse, wide, &k)
                    });
                    assert!(fine.is_xor() || !right, "{fine} by {n} has a result");
                    continue;
                };
                let k = expected.expect("strides that divide the factor, or are divided");
                let units = Function::plain(&coarse);
                assert!(
                    gathers(&function, &units, wide, &k),
                    "{fine} by {n} is not {coarse}"
                );
                let exact = whole(&values, &units.inner.table(), wide);
                assert_eq!(
                    fine.upcast_exact(n).ok(),
                    exact.then(|| coarse.clone()),
                    "{fine} by {n}"
                );
                assert_eq!(fine.recast(8, 8 * n).as_ref(), Ok(&coarse), "{fine} by {n}");
                *count += 1;
            }
        }
    });
}

/// The parts of every element, at the digits of the mode that grows.
#[test]
fn downcast_parts() {
    law("downcast_parts", "layouts and factors", 11_000, |count| {
        for coarse in small::layouts()
            .step_by(every(11))
            .chain(xors().step_by(every(3)))
        {
            let function = Function::plain(&coarse);
            for n in [1, 2, 3, 4, 6] {
                let Ok(fine) = coarse.downcast(n) else {
                    continue;
                };
                assert!(
                    parts(&function, &Function::plain(&fine), n.into()),
                    "{coarse} by 1/{n} is not {fine}"
                );
                *count += 1;
            }
        }
    });
}

/// Whether one mode of `fine` grew `n` times, and `fine` is `n coarse(c) + k` at its digits `n c + k`.
fn parts(coarse: &Function, fine: &Function, n: i128) -> bool {
    (0..coarse.inner.modes.len()).any(|grown| {
        let modes = coarse.inner.modes.iter().zip(&fine.inner.modes).enumerate();
        let extents = modes.map(|(i, (c, f))| f.0 == if i == grown { c.0 * n } else { c.0 });
        extents.into_iter().all(|same| same)
            && (0..fine.size()).all(|i| {
                let mut digits = fine.inner.digits(i);
                let value = fine.at_digits(&digits);
                let part = digits[grown] % n;
                digits[grown] /= n;
                let truth = coarse.at_digits(&digits).map(|x| x * n + part);
                truth.is_none() || value == truth
            })
    })
}

/// Elements of any size as elements of any other: the set of those that share a bit.
#[test]
fn recast_touches() {
    let sizes = [1, 2, 3, 4, 6, 8, 12, 16];
    law("recast_touches", "layouts and sizes", 47_000, |count| {
        for fine in small::layouts()
            .step_by(every(37))
            .chain(xors().step_by(every(11)))
        {
            let values = Leaves::of(&fine).table();
            for (old, new) in sizes.iter().flat_map(|a| sizes.map(|b| (*a, b))) {
                let Ok(result) = fine.recast(old, new) else {
                    continue;
                };
                let expected = touched(&values, old, new);
                let elements = Leaves::of(&result).table();
                assert_eq!(
                    set(elements),
                    expected,
                    "{fine} from {old} to {new} bits is not {result}"
                );
                *count += 1;
            }
        }
    });
}

/// The same under swizzles and outer layouts, where the units are those of the inner layout.
#[test]
fn composed_recast() {
    law(
        "composed_upcast_floor",
        "layouts and factors",
        13_000,
        |count| {
            for fine in tiles().step_by(every(3)) {
                let function = Function::of(&fine);
                for n in [1, 2, 3, 4, 8, 16] {
                    let Ok(coarse) = fine.upcast(n) else { continue };
                    let wide = i128::from(n);
                    let units = Function::of(&coarse);
                    // An outer layout gathers indices before it gathers offsets.
                    let right = (1..=wide).filter(|k| wide % k == 0).any(|k| {
                        let steps = steps(&function.inner, k);
                        steps.is_some_and(|steps| gathers(&function, &units, wide, &steps))
                    });
                    assert!(right, "{fine} by {n} is not {coarse}");
                    *count += 1;
                }
            }
        },
    );
    law(
        "composed_downcast_parts",
        "layouts and factors",
        1_600,
        |count| {
            for coarse in tiles().step_by(every(3)) {
                let function = Function::of(&coarse);
                for n in [1, 2, 3, 4] {
                    let Ok(fine) = coarse.downcast(n) else {
                        continue;
                    };
                    assert!(
                        parts(&function, &Function::of(&fine), n.into()),
                        "{coarse} by 1/{n} is not {fine}"
                    );
                    *count += 1;
                }
            }
        },
    );
}

/// Elements of any size as elements of any other, under swizzles and outer layouts.
#[test]
fn composed_recast_touches() {
    let sizes = [1, 2, 3, 4, 6, 8];
    law(
        "composed_recast_touches",
        "layouts and sizes",
        15_000,
        |count| {
            for fine in tiles().step_by(every(13)) {
                let Some(values) = Function::of(&fine).table() else {
                    continue;
                };
                for (old, new) in sizes.iter().flat_map(|a| sizes.map(|b| (*a, b))) {
                    let Ok(result) = fine.recast(old, new) else {
                        continue;
                    };
                    let elements = Function::of(&result).table().map(set);
                    assert_eq!(
                        elements,
                        Some(touched(&values, old, new)),
                        "{fine} from {old} to {new} bits is not {result}"
                    );
                    *count += 1;
                }
            }
        },
    );
}

/// The elements of `new` bits that share a bit with one of `old` bits.
fn touched(values: &[i128], old: i64, new: i64) -> Vec<i128> {
    let (old, new) = (i128::from(old), i128::from(new));
    let elements = |x: &i128| (x * old).div_euclid(new)..=(x * old + old - 1).div_euclid(new);
    set(values.iter().flat_map(elements).collect())
}

/// Whether the values, repeated ones counted, are whole aligned vectors of `n`.
fn tiled(values: &[i128], n: i128) -> bool {
    let mut each = vec![Vec::new(); n as usize];
    for x in values {
        each[x.rem_euclid(n) as usize].push(x.div_euclid(n));
    }
    each.iter_mut().for_each(|units| units.sort_unstable());
    each.iter().all(|units| *units == each[0])
}

#[test]
fn max_alignment_tiles() {
    law("max_alignment_tiles", "layouts", 6_100, |count| {
        for layout in small::layouts().step_by(every(11)) {
            let n = layout.max_alignment().expect("integer strides");
            let values = Leaves::of(&layout).table();
            assert!(
                tiled(&values, n.into()),
                "{layout} is not whole vectors of {n}"
            );
            let exact = |k: &i64| layout.upcast_exact(*k).is_ok();
            let most = (1..=layout.size().max(16)).rev().find(exact);
            assert_eq!(most, Some(n), "{layout}");
            *count += 1;
        }
    });
    law("composed_max_alignment_tiles", "layouts", 1_700, |count| {
        for tile in tiles().step_by(every(3)) {
            let (Ok(n), Some(values)) = (tile.max_alignment(), Function::of(&tile).table()) else {
                continue;
            };
            assert!(
                tiled(&values, n.into()),
                "{tile} is not whole vectors of {n}"
            );
            *count += 1;
        }
    });
}

/// W4 of the adversary's list: units that the modes reach together, and that the result left out.
#[test]
fn upcast_refuses_what_is_no_layout() {
    let refused = [
        (
            "(3,2):(2,3)",
            6,
            "the modes with strides below 6 together reach offset 7, in another unit of 6",
        ),
        (
            "((6,3,2)):((3,2,18))",
            6,
            "the modes with strides below 6 together reach offset 7, in another unit of 6",
        ),
        (
            "(2,2):(2,2)",
            4,
            "the modes with strides below 4 together reach offset 4, in another unit of 4",
        ),
        (
            "4:-1",
            2,
            "the first step of the stride -1 leads into the unit before, and the next ones stay there",
        ),
        (
            "(2,2):(^3,^6)",
            3,
            "XOR strides are divided by powers of two only, and 3 is none",
        ),
    ];
    for (text, n, why) in refused {
        let error = layout(text).upcast(n).expect_err(text);
        assert_eq!(error.to_string(), format!("upcast of {text} by {n}: {why}"));
    }
}

/// W4: a mode of one step takes no step, for every stride.
#[test]
fn upcast_takes_any_stride_of_one_step() {
    let up = layout("(1,4):(10,1)").upcast(4);
    assert_eq!(up.map(|l| l.to_string()), Ok("(1,1):(0,1)".to_string()));
}

/// W4 under swizzles of negative shift, and outer functions that are layouts.
#[test]
fn composed_upcast_refuses_what_is_no_layout() {
    let error = |text: &str, n| tile(text).upcast(n).expect_err(text).to_string();
    assert_eq!(
        error("Sw<3,0,-3> o 0 o 4:1", 8),
        "upcast of Sw<3,0,-3> o 0 o 4:1 by 8: the swizzle reads bits 0b111, which vary within a unit of 8, so a unit does \
         not stay together"
    );
    assert_eq!(
        error("(4,2):(2,1) o 0 o 8:1", 2),
        "upcast of (4,2):(2,1) o 0 o 8:1 by 2: the outer function (4,2):(2,1) is divided by 2 where its first mode is \
         contiguous in units of 2 and all other strides are multiples of 2; 2:1 is neither"
    );
    assert_eq!(
        error("16:1 o -4 o 8:1", 4),
        "upcast of 16:1 o -4 o 8:1 by 4: the inner layout reaches index -4 of the outer function 16:1"
    );
    assert_eq!(
        error("16:1 o 2 o 8:1", 4),
        "upcast of 16:1 o 2 o 8:1 by 4: 4 does not divide the offset 2"
    );
    let up = tile("8:2 o 0 o 4:1").upcast(2);
    assert_eq!(up.map(|l| l.to_string()), Ok("8:1 o 0 o 4:1".to_string()));
}

/// W4: the parts of an element that an outer layout sends elsewhere.
#[test]
fn composed_downcast_refuses_what_is_no_layout() {
    let error = tile("(4,2):(2,1) o 0 o 4:1")
        .downcast(2)
        .expect_err("parts that do not lie together");
    assert_eq!(
        error.to_string(),
        "downcast of (4,2):(2,1) o 0 o 4:1 by 2: the first mode of the outer function (4,2):(2,1) does not have stride 1, so \
         the parts of one element do not lie together"
    );
    let down = tile("(4,2):(1,8) o 0 o 8:1").downcast(2);
    assert_eq!(
        down.map(|l| l.to_string()),
        Ok("(8,2):(1,16) o 0 o 16:1".to_string())
    );
}

/// W4, and the cause of W1: units that are used in part are refused where whole ones are asked for.
#[test]
fn exact_recasts_refuse_partial_units() {
    assert_eq!(
        layout("32:1")
            .recast_exact(1, 64)
            .expect_err("half an element")
            .to_string(),
        "recast_exact of 32:1 from 1 to 64 bits: its 32 elements do not fill the 1 units of 64 elements that they lie in"
    );
    assert_eq!(
        layout("4:1")
            .recast(6, 16)
            .expect_err("24 bits are one element and a half")
            .to_string(),
        "recast of 4:1 from 6 to 16 bits: its 4 elements do not fill the 1 units of 8 elements that they lie in"
    );
    assert_eq!(layout("32:1").recast_exact(1, 32), Ok(layout("1:1")));
}

/// W5 of the adversary's list: strides below the length of the run that are no part of it.
#[test]
fn max_alignment_looks_at_every_mode() {
    for (text, n) in [
        ("(8,4):(1,7)", 1),
        ("(3,4):(3,1)", 1),
        ("(4,5,6):(5,1,24)", 1),
        ("(4,4):(1,3)", 1),
        ("(4,3):(1,2)", 2),
        ("(4,2):(1,-4)", 4),
    ] {
        assert_eq!(layout(text).max_alignment(), Ok(n), "{text}");
    }
    assert_eq!(tile("Sw<1,4,1> o 0 o (4,2):(1,3)").max_alignment(), Ok(1));
    assert_eq!(tile("Sw<1,4,1> o 4 o (8,2):(1,8)").max_alignment(), Ok(4));
}
