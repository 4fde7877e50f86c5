//! Layouts made from shapes and from other layouts; text; recast; sums and domains.

use colex_layout::{Int, IntTuple, Layout, Tuple};
use proptest::prelude::*;

use crate::chain::round_trip;
use crate::law::law;
use crate::random;
use crate::reference::{leaves, table};
use crate::small;

fn shapes() -> impl Iterator<Item = IntTuple> {
    let one = small::modes(1, &[1, 2, 3, 5, 7], &[0]);
    let two = small::modes(2, &[1, 2, 3, 5, 7], &[0]);
    let three = small::modes(3, &[1, 2, 3, 4, 7], &[0]);
    small::nested([one, two, three].concat()).map(|l| l.shape())
}

fn sorted(layout: &Layout) -> Vec<i64> {
    let mut values = table(&leaves(layout));
    values.sort_unstable();
    values
}

#[test]
fn compact_layouts() {
    law("compact_layouts", "shapes", 150, |count| {
        for shape in shapes() {
            let n = shape.product().expect("small").value();
            let columns = Layout::column_major(&shape).expect("small");
            assert!(table(&leaves(&columns)).into_iter().eq(0..n), "{columns}");
            let rows = Layout::row_major(&shape).expect("small");
            let reversed: Vec<_> = leaves(&rows).into_iter().rev().collect();
            assert!(table(&reversed).into_iter().eq(0..n), "{rows}");
            assert_eq!((columns.shape(), rows.shape()), (shape.clone(), shape));
            *count += 1;
        }
    });
}

/// Leaves of distinct order are compact in that order, those of extent 1 aside.
#[test]
fn ordered_layouts() {
    let orders = [
        [0, 1, 2],
        [2, 1, 0],
        [1, 0, 2],
        [5, 9, 7],
        [3, -1, 0],
        [10, 20, 5],
    ];
    law("ordered_layouts", "shapes and orders", 500, |count| {
        for shape in shapes().filter(|s| s.leaves().len() == 3) {
            for order in orders {
                let order = IntTuple::flat(order.map(Int::from));
                let layout = Layout::ordered(shape.flatten(), &order).expect("small");
                assert!(sorted(&layout).into_iter().eq(0..layout.size()), "{layout}");
                let mut by_order: Vec<_> = order
                    .leaves()
                    .iter()
                    .zip(leaves(&layout))
                    .filter(|(_, l)| l.0 > 1)
                    .collect();
                by_order.sort_by_key(|(o, _)| **o);
                assert!(
                    by_order.is_sorted_by_key(|(_, l)| l.1),
                    "{layout} by {order}"
                );
                *count += 1;
            }
        }
    });
}

/// Like a layout: its shape, its order of strides, and compact; stride 0 stays.
#[test]
fn like_layouts() {
    law("like_layouts", "layouts", 5_000, |count| {
        for layout in small::layouts().step_by(3) {
            let own = leaves(&layout);
            if own.iter().any(|(_, d)| *d < 0) {
                continue;
            }
            let like = layout.layout_like().expect("small");
            assert_eq!(like.shape(), layout.shape());
            let strides = leaves(&like);
            let distinct = own
                .iter()
                .enumerate()
                .all(|(i, l)| own[..i].iter().all(|m| m.1 != l.1));
            for (a, p) in own.iter().zip(&strides) {
                assert!(a.1 != 0 || p.1 == 0, "{like} like {layout}");
                for (b, q) in own.iter().zip(&strides).filter(|(b, _)| b.0 > 1 && a.0 > 1) {
                    assert!(a.1 >= b.1 || p.1 < q.1, "{like} like {layout}");
                }
            }
            if distinct {
                let kept = like.filter(..);
                assert!(
                    sorted(&kept).into_iter().eq(0..kept.size()),
                    "{like} like {layout}"
                );
                let fragment = layout.fragment_like().expect("small");
                let modes = |l: &Layout| l.shape().product_each();
                assert_eq!(modes(&fragment), modes(&layout), "{fragment} like {layout}");
                *count += 1;
            }
        }
    });
}

/// Each element becomes `n` neighbours.
#[test]
fn downcast_refines() {
    law("downcast_refines", "layouts and factors", 25_000, |count| {
        for layout in small::layouts().step_by(2) {
            for n in [1, 2, 3, 4] {
                let Ok(fine) = layout.downcast(n) else {
                    continue;
                };
                let parts = table(&leaves(&layout))
                    .into_iter()
                    .flat_map(|v| (0..n).map(move |k| v * n + k));
                let mut expected: Vec<i64> = parts.collect();
                expected.sort_unstable();
                assert_eq!(sorted(&fine), expected, "{layout} in {n} parts is {fine}");
                *count += 1;
            }
        }
    });
}

/// Whole vectors: each unit of `n` that the layout touches, exactly as often as its elements fill one.
#[test]
fn upcast_gathers() {
    law("upcast_gathers", "layouts and factors", 11_000, |count| {
        for layout in small::layouts().step_by(2) {
            let Ok(alignment) = layout.max_alignment() else {
                continue;
            };
            let once = layout.is_injective().unwrap();
            for n in (1..=alignment).filter(|n| once && alignment % n == 0) {
                let Ok(coarse) = layout.upcast(n) else {
                    continue;
                };
                let parts = table(&leaves(&coarse))
                    .into_iter()
                    .flat_map(|v| (0..n).map(move |k| v * n + k));
                let mut expected: Vec<i64> = parts.collect();
                expected.sort_unstable();
                assert_eq!(sorted(&layout), expected, "{layout} by {n} is {coarse}");
                assert_eq!(
                    layout.recast(8, 8 * n).as_ref(),
                    Ok(&coarse),
                    "{layout} by {n}"
                );
                *count += 1;
            }
        }
    });
}

#[test]
fn sum_at() {
    let all: Vec<Layout> =
        small::nested(small::modes(2, &[1, 2, 3, 4, 6], &[-1, 0, 1, 3, 10])).collect();
    law("sum_at", "pairs", 20_000, |count| {
        for (a, b) in all.iter().flat_map(|a| all.iter().map(move |b| (a, b))) {
            let Ok(sum) = a.sum(b) else { continue };
            let (x, y) = (table(&leaves(a)), table(&leaves(b)));
            let expected: Vec<i64> = x.iter().zip(&y).map(|(p, q)| p + q).collect();
            assert_eq!(table(&leaves(&sum)), expected, "{a} + {b} = {sum}");
            if let Ok(domain) = a.greatest_common_domain(b) {
                assert_eq!(
                    domain.product().map(Int::value),
                    Ok(a.size()),
                    "{a} and {b}: {domain}"
                );
                assert!(
                    a.with_shape(&domain).is_ok() && b.with_shape(&domain).is_ok(),
                    "{a}, {b}: {domain}"
                );
            }
            *count += 1;
        }
    });
}

#[test]
fn domain_distribute_divides() {
    law("domain_distribute", "shapes and numbers", 2_000, |count| {
        for shape in shapes() {
            for n in 1..=24 {
                let spread = shape.domain_distribute(n).expect("positive");
                assert_eq!(n % spread.size(), 0, "{n} over {shape}: {spread}");
                let inside = table(&leaves(&spread));
                assert!(
                    inside.windows(2).all(|w| w[0] < w[1]),
                    "{n} over {shape}: {spread}"
                );
                assert!(
                    inside.iter().all(|i| *i < shape.product().unwrap().value()),
                    "{spread}"
                );
                *count += 1;
            }
        }
    });
}

#[test]
fn print_parse() {
    law("print_parse", "texts", 14_000, |count| {
        for (i, layout) in small::layouts().step_by(5).enumerate() {
            let layout = if i % 3 == 0 {
                layout.to_static()
            } else {
                layout
            };
            assert!(round_trip::<Layout>(&layout.to_string()), "{layout}");
            assert!(
                round_trip::<IntTuple>(&layout.shape().to_string()),
                "{layout}"
            );
            assert!(round_trip::<Tuple<colex_layout::Stride>>(
                &layout.stride().to_string()
            ));
            let plain = format!("{layout:#}");
            assert_eq!(plain.parse().as_ref(), Ok(&layout), "{plain}");
            assert!(!plain.contains('_'), "{plain}");
            *count += 1;
        }
    });
}

#[test]
fn print_parse_large() {
    random::check(4_000, random::any_layout(8), |layout| {
        prop_assert!(round_trip::<Layout>(&layout.to_string()));
        let spaced = layout.to_string().replace(',', " , ").replace(':', " : ");
        prop_assert_eq!(spaced.parse::<Layout>(), Ok(layout));
        Ok(())
    });
    law("print_parse", "random texts", 4_000, |count| {
        *count += 4_000
    });
}
