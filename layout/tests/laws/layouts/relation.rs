//! Relations of shapes and properties of layouts, against their definitions.

use std::cmp::Ordering;

use colex_layout::{Int, IntTuple, Layout};

use crate::law::law;
use crate::reference::{is_compatible, leaves, table};
use crate::small;

fn shapes() -> Vec<IntTuple> {
    let texts = [
        "1",
        "4",
        "6",
        "24",
        "(24)",
        "(4,6)",
        "(6,4)",
        "((2,2),6)",
        "(4,(2,3))",
        "((2,2),(2,3))",
        "((4,6))",
        "((2,2,6))",
        "(2,(2,6))",
        "(2,2,6)",
        "((2),(2,6))",
        "(1,24)",
        "(4,6,1)",
        "()",
        "(3,(2,2))",
    ];
    texts
        .map(|t| t.parse().expect("the test's own texts parse"))
        .to_vec()
}

/// Compatible and weakly congruent are partial orders, and compatible shapes have one size.
#[test]
fn nesting_relations() {
    let all = shapes();
    law("nesting_relations", "triples", 5_000, |count| {
        for (a, b) in all.iter().flat_map(|a| all.iter().map(move |b| (a, b))) {
            assert_eq!(a.is_compatible(b), is_compatible(a, b), "{a} and {b}");
            assert!(
                !a.is_compatible(b) || a.product() == b.product(),
                "{a} and {b}"
            );
            assert!(
                !a.is_compatible(b) || a.is_weakly_congruent(b),
                "{a} and {b}"
            );
            let both = a.is_weakly_congruent(b) && b.is_weakly_congruent(a);
            assert_eq!(both, a.is_congruent(b), "{a} and {b}");
            assert!(
                !(a.is_compatible(b) && b.is_compatible(a)) || a == b,
                "{a} and {b}"
            );
            for c in &all {
                let (ab, bc, ac) = (a.is_compatible(b), b.is_compatible(c), a.is_compatible(c));
                assert!(!(ab && bc) || ac, "{a}, {b} and {c}");
                let weak = |x: &IntTuple, y| x.is_weakly_congruent(y);
                assert!(
                    !(weak(a, b) && weak(b, c)) || weak(a, c),
                    "{a}, {b} and {c}"
                );
                *count += 1;
            }
        }
    });
}

/// The two orders on flat tuples are those of their numbers from the front and from the back.
#[test]
fn orders_of_coordinates() {
    let all: Vec<Vec<i64>> = small::modes(3, &[0, 1, 2], &[0])
        .iter()
        .map(|m| m.iter().map(|(c, _)| *c).collect())
        .collect();
    law("orders_of_coordinates", "pairs", 700, |count| {
        for (a, b) in all.iter().flat_map(|a| all.iter().map(move |b| (a, b))) {
            let tuple = |v: &Vec<i64>| IntTuple::flat(v.iter().map(|n| Int::from(*n)));
            let (x, y) = (tuple(a), tuple(b));
            assert_eq!(x.lex_cmp(&y), Ok(a.cmp(b)));
            let colex: Ordering = a.iter().rev().cmp(b.iter().rev());
            assert_eq!(x.colex_cmp(&y), Ok(colex));
            assert_eq!(x.partial_cmp(&y), Some(colex));
            assert_eq!(x.elem_less(&y), Ok(a.iter().zip(b).all(|(p, q)| p < q)));
            *count += 1;
        }
    });
}

#[test]
fn onto_and_contiguous_by_table() {
    law("onto_and_contiguous", "layouts", 70_000, |count| {
        for layout in small::layouts() {
            let values = table(&leaves(&layout));
            let mut sorted = values.clone();
            sorted.sort_unstable();
            let once = sorted.windows(2).all(|w| w[0] != w[1]);
            sorted.dedup();
            let negative = sorted[0] < 0;
            let onto = !negative && sorted.iter().zip(0..).all(|(v, i)| *v == i);
            assert_eq!(layout.is_surjective(), onto, "{layout}");
            assert_eq!(layout.is_bijective(), onto && once, "{layout}");
            let identity = values.iter().zip(0..).all(|(v, i)| *v == i);
            assert_eq!(layout.is_contiguous(), identity, "{layout}");
            *count += 1;
        }
    });
}

/// One past the largest offset where no stride is negative; with the strides' absolute values in general.
#[test]
fn cosize_by_table() {
    law("cosize", "layouts", 70_000, |count| {
        for layout in small::layouts() {
            let absolute: Vec<_> = leaves(&layout).iter().map(|(s, d)| (*s, d.abs())).collect();
            let largest = table(&absolute)
                .into_iter()
                .max()
                .expect("a layout has an offset");
            assert_eq!(layout.cosize(), Ok(largest + 1), "{layout}");
            assert_eq!(layout.size(), table(&absolute).len() as i64, "{layout}");
            *count += 1;
        }
    });
}

/// A static result depended on static numbers only: changing a dynamic stride or the last extent does not change it.
///
/// (An inner extent decides which mode a step meets; the stride met there keeps its own mark.)
#[test]
fn static_results_depend_on_nothing_dynamic() {
    let all: Vec<Layout> = small::modes(2, &[2, 4, 6], &[0, 1, 2, 4, 6])
        .iter()
        .map(|m| small::layout(m).to_static())
        .collect();
    law(
        "static_results",
        "pairs and changed leaves",
        150_000,
        |count| {
            for a in &all {
                for (k, value) in (1..4).flat_map(|k| [2, 3, 6, 8].map(move |v| (k, v))) {
                    let loose = with_dynamic(a, k, None);
                    let Some(other) = with_dynamic(a, k, Some(value)) else {
                        continue;
                    };
                    let loose = loose.expect("the same numbers");
                    for op in OPERATIONS {
                        for b in all.iter().step_by(13) {
                            if let (Ok(r), Ok(s)) = (op(&loose, b), op(&other, b))
                                && r.is_congruent(&s)
                            {
                                *count += u64::from(assert_static_agree(&loose, &other, &r, &s));
                            }
                        }
                    }
                }
                assert!(
                    OPERATIONS
                        .iter()
                        .all(|op| op(a, a).map_or(true, |r| r.is_static())),
                    "{a}"
                );
            }
        },
    );
}

type Operation = fn(&Layout, &Layout) -> Result<Layout, colex_layout::Error>;

const OPERATIONS: [Operation; 8] = [
    |a, _| Ok(a.coalesce(..)),
    |a, _| a.right_inverse(),
    |a, _| a.complement(Int::Static(24)),
    |a, b| a.composition(b),
    |a, b| b.composition(a),
    |a, b| a.logical_divide(b),
    |a, b| b.logical_divide(a),
    |a, b| a.logical_product(b),
];

/// Number `k` (extents, then strides) dynamic, and changed.
fn with_dynamic(layout: &Layout, k: usize, value: Option<i64>) -> Option<Layout> {
    let [shape, stride] = [
        layout.shape(),
        IntTuple::flat(layout.leaves().iter().map(|l| l.stride.coefficient())),
    ];
    let mut numbers: Vec<Int> = [shape.leaves(), stride.leaves()].concat();
    if numbers[k].value() == 0 {
        // A stride that is 0 today (or an extent that is 1) is no mode at all.
        return None;
    }
    numbers[k] = Int::Dynamic(value.unwrap_or(numbers[k].value()));
    let (s, d) = numbers.split_at(shape.leaves().len());
    Layout::new(s, d).ok()
}

fn assert_static_agree(a: &Layout, b: &Layout, r: &Layout, s: &Layout) -> bool {
    // One step is no mode: its marks are those of `_1:_0`.
    let modes = r.leaves().iter().zip(s.leaves());
    let modes = modes.filter(|(x, y)| x.extent.value() > 1 && y.extent.value() > 1);
    for (x, y) in modes {
        let agree = |p: Int, q: Int| p == q || !p.is_static() || !q.is_static();
        let strides = (x.stride.coefficient(), y.stride.coefficient());
        let both = agree(x.extent, y.extent) && agree(strides.0, strides.1);
        assert!(both, "{a} gives {r}, {b} gives {s}");
    }
    true
}
