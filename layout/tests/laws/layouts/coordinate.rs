//! Coordinate strides: identity layouts, composition on either side, inner products.

use colex_layout::{IntTuple, Layout, Unbounded};

use crate::law::law;
use crate::small;

fn shapes() -> Vec<IntTuple> {
    [
        "(4,6)",
        "(3,(2,4))",
        "((2,2),3)",
        "(2,3,4)",
        "(5)",
        "((2,(3,2)),4)",
        "(1,8)",
        "(12,8)",
    ]
    .iter()
    .map(|t| t.parse().expect("the text is a tuple"))
    .collect()
}

/// Right-hand sides with non-negative integer strides.
fn right() -> impl Iterator<Item = Layout> {
    small::layouts().step_by(41).filter(|l| {
        l.leaves()
            .iter()
            .all(|m| m.stride.coefficient().value() >= 0)
    })
}

/// The coordinate of `index` in `shape`, its last digit unbounded, as the leaves of the coordinate.
fn digits(shape: &IntTuple, index: i64) -> Vec<i64> {
    let mut rest = index;
    let (last, before) = shape.leaves().split_last().expect("a shape has a leaf");
    let mut all: Vec<i64> = Vec::new();
    for extent in before {
        all.push(rest % extent.value());
        rest /= extent.value();
    }
    let _ = last;
    all.push(rest);
    all
}

#[test]
fn identity_coord() {
    law("identity_coord", "coordinates", 100, |count| {
        for shape in shapes() {
            let identity = Layout::identity(shape.clone()).expect("a shape");
            for i in 0..identity.size() {
                assert_eq!(identity.coord_at(i), shape.coord(i), "{identity} at {i}");
                *count += 1;
            }
        }
    });
}

/// The identity composed with a layout gives the coordinates of its offsets.
#[test]
fn identity_composition_at() {
    law("identity_composition_at", "pairs", 2_000, |count| {
        for shape in shapes() {
            let identity = Layout::identity(shape.clone()).expect("a shape");
            for b in right() {
                let Ok(r) = identity.composition(&b) else {
                    continue;
                };
                for i in 0..b.size() {
                    let truth = digits(&shape, b.at(i).expect("within the layout"));
                    let value = coordinate_leaves(&r, i, &shape);
                    assert_eq!(value, truth, "{identity} o {b} = {r} at {i}");
                }
                *count += 1;
            }
        }
    });
}

/// The value of `layout` at `i` as one number per leaf of `shape`; leaves that no stride names are 0.
fn coordinate_leaves(layout: &Layout, i: i64, shape: &IntTuple) -> Vec<i64> {
    // Each leaf of the shape is a direction; its share of the value is the inner product with a unit vector.
    (0..shape.leaves().len())
        .map(|leaf| {
            let mut at = 0;
            let unit: Vec<i64> = shape
                .leaves()
                .iter()
                .map(|_| {
                    at += 1;
                    i64::from(at - 1 == leaf)
                })
                .collect();
            let text = unit.iter();
            let mut unit = text.copied();
            let strides = shape_with(shape, &mut unit);
            layout
                .inner_product(&strides)
                .and_then(|l| l.at(i))
                .expect("coordinate strides")
        })
        .collect()
}

/// The tuple nested as `shape` with these leaves.
fn shape_with(shape: &IntTuple, leaves: &mut impl Iterator<Item = i64>) -> IntTuple {
    if shape.is_leaf() {
        return leaves.next().expect("one number per leaf").into();
    }
    let modes: Vec<IntTuple> = shape.modes().map(|m| shape_with(&m, leaves)).collect();
    IntTuple::concat(&modes)
}

/// `r.at(i) == coord_at(i) . strides` for every partition of an identity layout and any strides.
#[test]
fn inner_product_at() {
    law("inner_product_at", "partitions", 500, |count| {
        let tilers = ["(2,3)", "(2,_)", "(4:1,2:3)", "(1,2)", "((2,2):(1,4),2)"];
        for shape in shapes()
            .into_iter()
            .filter(|s| s.rank() == 2 && s.depth() == 1)
        {
            let identity = Layout::identity(shape.clone()).expect("a shape");
            for tiler in tilers {
                let Ok(tiled) = identity.logical_divide(tiler) else {
                    continue;
                };
                for (d0, d1) in (1..=20).flat_map(|a| (0..=4).map(move |b| (a, b * 7))) {
                    let r = tiled.inner_product((d0, d1)).expect("two modes");
                    for i in 0..tiled.size() {
                        let c = tiled.coord_at(i).expect("within");
                        let c: Vec<i64> = c
                            .leaves()
                            .iter()
                            .map(|n| n.value())
                            .chain([0])
                            .take(2)
                            .collect();
                        assert_eq!(
                            r.at(i),
                            Ok(c[0] * d0 + c[1] * d1),
                            "{tiled} by ({d0},{d1}) at {i}"
                        );
                    }
                    *count += 1;
                }
            }
        }
    });
}

/// A tensor composed with a layout of coordinates is the tensor at those coordinates.
#[test]
fn coordinate_composition_at() {
    law("coordinate_composition_at", "pairs", 200, |count| {
        for tensor in [
            "(4,6):(1,4)",
            "(4,6):(6,1)",
            "((2,2),6):((1,12),2)",
            "(4,(2,3)):(9,(1,3))",
        ] {
            let tensor: Layout = tensor.parse().expect("the text is a layout");
            for e0 in 1..=4 {
                for e1 in 1..=6 {
                    for (d0, d1) in [(1, 1), (2, 1), (1, 2), (1, 3), (3, 2)] {
                        let walk = format!("({e1},{e0}):({d1}@1,{d0}@0)");
                        let walk: Layout = walk.parse().expect("the text is a layout");
                        let Ok(r) = tensor.composition(&walk) else {
                            continue;
                        };
                        for (x, y) in (0..e1).flat_map(|x| (0..e0).map(move |y| (x, y))) {
                            let truth = tensor.at(Unbounded((y * d0, x * d1)));
                            assert_eq!(r.at((x, y)), truth, "{tensor} o {walk} = {r}");
                        }
                        *count += 1;
                    }
                }
            }
        }
    });
}
