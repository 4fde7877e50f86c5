//! Swizzles and composed layouts, against the definition by masks.

use colex_layout::{ComposedLayout, Coord, Layout, Slot, Swizzle, Unbounded};

use crate::law::law;
use crate::small;

/// Every swizzle within a few bits, both directions of the shift.
fn swizzles() -> impl Iterator<Item = Swizzle> {
    (0..=3).flat_map(|b| {
        (0..=4).flat_map(move |m| (-5..=5).filter_map(move |s| Swizzle::new(b, m, s).ok()))
    })
}

/// The definition, bit by bit: bit `M+k` of the lower group and bit `M+|S|+k` of the upper one.
fn by_bits(sw: Swizzle, x: i64) -> i64 {
    let (low, high) = (sw.base(), sw.base() + sw.shift().abs());
    (0..sw.bits()).fold(x, |y, k| {
        let (from, into) = if sw.shift() >= 0 {
            (high + k, low + k)
        } else {
            (low + k, high + k)
        };
        y ^ (x >> from & 1) << into
    })
}

/// Layouts that a swizzle is put on: powers of two that fill a tile, and some that carry.
fn inner_layouts() -> Vec<Layout> {
    let mut all: Vec<Layout> = [
        "(8,8):(8,1)",
        "(8,8):(1,8)",
        "(4,(2,8)):(2,(1,8))",
        "((2,2),(2,4)):((1,4),(2,8))",
        "(8,16):(16,1)",
        "64:1",
        "(4,8):(16,2)",
        "(3,5):(5,1)",
        "(6,4):(1,12)",
        "(8,4):(0,8)",
        "(2,3,4):(1,2,6)",
        "(5):(7)",
    ]
    .iter()
    .map(|t| t.parse().expect("the text is a layout"))
    .collect();
    all.extend(small::layouts().step_by(611).filter(|l| {
        let strides = l.leaves().iter();
        l.rank() > 1
            && strides
                .into_iter()
                .all(|m| m.stride.coefficient().value() >= 0)
    }));
    all
}

#[test]
fn swizzle_at() {
    law("swizzle_at", "values", 50_000, |count| {
        for sw in swizzles() {
            for x in 0..1024 {
                assert_eq!(sw.apply(x), by_bits(sw, x), "{sw} of {x}");
                assert_eq!(sw.apply(sw.apply(x)), x, "{sw} twice of {x}");
                *count += 1;
            }
            assert_eq!(sw.to_string().parse(), Ok(sw));
        }
    });
}

#[test]
fn swizzle_composition_at() {
    law("swizzle_composition_at", "pairs", 1_000, |count| {
        for (a, b) in swizzles().flat_map(|a| swizzles().map(move |b| (a, b))) {
            let Ok(joined) = a.composition(b) else {
                continue;
            };
            for x in (0..2048).step_by(7) {
                assert_eq!(joined.apply(x), a.apply(b.apply(x)), "{a} o {b} at {x}");
            }
            *count += 1;
        }
    });
}

/// In units of n elements: `up(sw)(y) == sw(n*y) / n`.
#[test]
fn swizzle_recast_at() {
    law("swizzle_recast_at", "swizzles", 500, |count| {
        for (sw, k) in swizzles().flat_map(|sw| (0..=5).map(move |k| (sw, k))) {
            let n = 1 << k;
            let (up, down) = (sw.upcast(n), sw.downcast(n));
            let (up, down) = (up.expect("a power of two"), down.expect("few bits"));
            for y in 0..512 {
                assert_eq!(up.apply(y), sw.apply(n * y) / n, "{sw} by {n} at {y}");
                assert_eq!(down.apply(n * y), n * sw.apply(y), "{sw} by 1/{n} at {y}");
            }
            assert_eq!(
                (sw.recast(1, n), sw.recast(n, 1)),
                (Ok(up), Ok(down)),
                "{sw} by {n}"
            );
            let tile =
                ComposedLayout::new(sw, 0, Layout::column_major(512).expect("one mode")).unwrap();
            assert_eq!(tile.recast(1, n).ok(), tile.upcast(n).ok(), "{tile} by {n}");
            assert_eq!(tile.recast(n, 1), tile.downcast(n), "{tile} by 1/{n}");
            *count += 1;
        }
    });
}

/// `L o Sw` moved to the left: the same function at every index of the layout.
#[test]
fn layout_swizzle_at() {
    law("layout_swizzle_at", "pairs", 400, |count| {
        for layout in inner_layouts() {
            for sw in swizzles() {
                let Ok(moved) = layout.composition(sw) else {
                    continue;
                };
                for i in 0..layout.size() {
                    let truth = layout.at(Unbounded(sw.apply(i)));
                    assert_eq!(moved.at(i), truth, "{layout} o {sw} = {moved} at {i}");
                }
                *count += 1;
            }
        }
    });
}

/// Every slice of a swizzled layout, offset added, is the layout at the whole coordinate.
#[test]
fn swizzled_slice_at() {
    law("swizzled_slice_at", "slices", 50_000, |count| {
        for layout in inner_layouts().iter().filter(|l| l.rank() == 2) {
            for sw in swizzles().filter(|sw| sw.bits() > 0) {
                for base in [0, 1, 37, 149] {
                    let tile = ComposedLayout::new(sw, base, layout.clone()).unwrap();
                    slices(&tile, count);
                }
            }
        }
    });
}

fn slices(tile: &ComposedLayout, count: &mut u64) {
    let sizes: Vec<i64> = tile.inner().modes().map(|m| m.size()).collect();
    for fixed in 0..2 {
        for at in 0..sizes[fixed] {
            let coord = match fixed {
                0 => Coord::from((at, Slot::All)),
                _ => Coord::from((Slot::All, at)),
            };
            let (slice, offset) = tile.slice_and_offset(&coord).expect("within the tile");
            let plain = tile.slice(&coord).expect("within the tile");
            for i in 0..sizes[1 - fixed] {
                let whole = if fixed == 0 { (at, i) } else { (i, at) };
                let truth = tile.at(whole).expect("within the tile");
                assert_eq!(
                    slice.at(i).map(|x| x + offset),
                    Ok(truth),
                    "{tile} at {coord}, {i}"
                );
                assert_eq!(plain.at(i), Ok(truth), "{tile} at {coord}, {i}");
            }
            *count += 1;
        }
    }
}

#[test]
fn swizzled_inverse_at() {
    law("swizzled_inverse_at", "layouts", 300, |count| {
        for layout in inner_layouts() {
            for sw in swizzles() {
                let tile = ComposedLayout::new(sw, 0, layout.clone()).unwrap();
                if let Ok(inverse) = tile.right_inverse() {
                    for i in 0..inverse.size() {
                        let index = inverse.at(i).expect("within the inverse");
                        assert_eq!(tile.at(Unbounded(index)), Ok(i), "{inverse} of {tile}");
                    }
                    *count += 1;
                }
                if let Ok(inverse) = tile.left_inverse() {
                    for i in 0..tile.size() {
                        let value = tile.at(i).expect("within the tile");
                        let index = inverse.at(Unbounded(value)).expect("small numbers");
                        assert_eq!(tile.at(Unbounded(index)), Ok(value), "{inverse} of {tile}");
                    }
                    *count += 1;
                }
            }
        }
    });
}

/// What the forwarded operations do to the inner layout they do under the swizzle.
#[test]
fn swizzled_forward_at() {
    law("swizzled_forward_at", "operations", 2_000, |count| {
        for layout in inner_layouts() {
            for sw in swizzles().step_by(3) {
                let tile = ComposedLayout::new(sw, 5, layout.clone()).unwrap();
                let pairs = [
                    (tile.coalesce(..), layout.coalesce(..)),
                    (tile.flatten(), layout.flatten()),
                ];
                let tried = [
                    (tile.zipped_divide(2), layout.zipped_divide(2)),
                    (tile.logical_product(3), layout.logical_product(3)),
                ];
                let tried = tried
                    .into_iter()
                    .filter_map(|(a, b)| Some((a.ok()?, b.ok()?)));
                for (swizzled, plain) in pairs.into_iter().chain(tried) {
                    for i in 0..plain.size() {
                        let x = plain.at(i).expect("within the layout");
                        assert_eq!(swizzled.at(i), Ok(sw.apply(5 + x)), "{swizzled} at {i}");
                    }
                    *count += 1;
                }
            }
        }
    });
}

#[test]
fn swizzled_text_round_trips() {
    law("swizzled_text_round_trips", "texts", 500, |count| {
        for layout in inner_layouts() {
            for sw in swizzles() {
                let tile = ComposedLayout::new(sw, 7, layout.clone()).unwrap();
                assert_eq!(tile.to_string().parse(), Ok(tile.clone()), "{tile}");
                *count += 1;
            }
        }
    });
}
