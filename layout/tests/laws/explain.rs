//! Explanations: the last line is the result of the operation, and the steps are the ones that make it.

use colex_layout::explain::{Explanation, Step};
use colex_layout::{Error, Layout, Tiler};

use crate::law::law;
use crate::{random, small};

fn all(ranks: std::ops::RangeInclusive<usize>, extents: &[i64], strides: &[i64]) -> Vec<Layout> {
    let modes = ranks.flat_map(|rank| small::modes(rank, extents, strides));
    modes.map(|m| small::layout(&m)).collect()
}

/// The result and the last line of the text are those of the operation.
#[track_caller]
fn agrees(explanation: &Explanation, result: &Result<Layout, Error>) {
    assert_eq!(&explanation.result, result, "{explanation}");
    let text = explanation.to_string();
    let last = text.lines().last().expect("a title and a result");
    match result {
        Ok(layout) => assert_eq!(last, format!("  = {layout}")),
        Err(e) => {
            let told = last == "  no result" && !explanation.steps.is_empty();
            assert!(told || last == format!("  no result: {e}"), "{text}");
        }
    }
}

fn pieces(steps: &[Step]) -> Vec<Layout> {
    let pieces = steps.iter().filter_map(|step| match step {
        Step::Visit { visit, .. } => visit.piece,
        _ => None,
    });
    pieces
        .map(|p| Layout::leaf(p.extent, p.stride).expect("a mode"))
        .collect()
}

#[test]
fn explain_composition() {
    let lhs = all(1..=2, &[1, 2, 3, 6], &[0, 1, 2, 10]);
    let rhs = all(1..=2, &[1, 2, 4, 6], &[-1, 0, 1, 2, 3, 5]);
    law("explain_composition", "pairs", 160_000, |count| {
        for (a, b) in lhs.iter().flat_map(|a| rhs.iter().map(move |b| (a, b))) {
            let explanation = a.explain_composition(b);
            agrees(&explanation, &a.composition(b));
            let by_rule = a.cute_composition(b).ok();
            if let (Ok(result), true) = (
                &explanation.result,
                by_rule == explanation.result.clone().ok(),
            ) {
                assert_eq!(pieces(&explanation.steps), leaves(result), "{explanation}");
            }
            *count += 1;
        }
    });
}

fn leaves(layout: &Layout) -> Vec<Layout> {
    let leaves = layout.leaves().iter();
    leaves
        .map(|l| Layout::leaf(l.extent, l.stride).expect("a mode"))
        .collect()
}

#[test]
fn explain_one_layout() {
    let some = all(1..=3, &[1, 2, 3, 4], &[-1, 0, 1, 2, 3, 4, 6]);
    law("explain_one_layout", "layouts", 22_000, |count| {
        for l in &some {
            agrees(&l.explain_coalesce(), &Ok(l.coalesce(..)));
            agrees(&l.explain_right_inverse(), &l.right_inverse());
            agrees(&l.explain_left_inverse(), &l.left_inverse());
            agrees(&l.explain_complement(24), &l.complement(24));
            agrees(&l.explain_complement((4, 6)), &l.complement((4, 6)));
            *count += 1;
        }
    });
}

/// What the last operation within comes to.
fn inner_result(explanation: &Explanation) -> Result<Layout, Error> {
    let last = explanation.steps.iter().rev().find_map(|step| match step {
        Step::Within(inner) => Some(inner.result.clone()),
        _ => None,
    });
    last.unwrap_or_else(|| explanation.result.clone())
}

#[test]
fn explain_divide_and_product() {
    let some = all(1..=2, &[1, 2, 3, 4, 6], &[-1, 0, 1, 2, 4, 10]);
    let tilers: Vec<Tiler> = [
        "_",
        "3",
        "4:3",
        "(2,2):(1,3)",
        "(2,_)",
        "(2:2,3)",
        "(1,2,3)",
    ]
    .map(|t| t.parse().expect("a tiler"))
    .into();
    law("explain_divide_and_product", "pairs", 6_000, |count| {
        for (a, t) in some.iter().flat_map(|a| tilers.iter().map(move |t| (a, t))) {
            let divide = a.explain_logical_divide(t);
            agrees(&divide, &a.logical_divide(t));
            let product = a.explain_logical_product(t);
            agrees(&product, &a.logical_product(t));
            if matches!(t, Tiler::Int(_) | Tiler::Layout(_)) {
                let copies = inner_result(&product).and_then(|copies| Layout::concat([a, &copies]));
                assert_eq!(copies.ok(), product.result.clone().ok(), "{product}");
                assert_eq!(
                    inner_result(&divide).ok(),
                    divide.result.clone().ok(),
                    "{divide}"
                );
            }
            *count += 1;
        }
    });
}

#[test]
fn explain_large() {
    law("explain_large", "random pairs", 1_500, |count| {
        let seen = std::cell::Cell::new(0);
        let pairs = (random::any_layout(4), random::any_layout(4));
        random::check(1_500, pairs, |(a, b)| {
            agrees(&a.explain_composition(&b), &a.composition(&b));
            agrees(&a.explain_coalesce(), &Ok(a.coalesce(..)));
            agrees(&a.explain_complement(b.shape()), &a.complement(b.shape()));
            agrees(&a.explain_right_inverse(), &a.right_inverse());
            agrees(&a.explain_left_inverse(), &a.left_inverse());
            let tiler = Tiler::from(b);
            agrees(&a.explain_logical_divide(&tiler), &a.logical_divide(&tiler));
            agrees(
                &a.explain_logical_product(&tiler),
                &a.logical_product(&tiler),
            );
            seen.set(seen.get() + 1);
            Ok(())
        });
        *count += seen.get();
    });
}

fn layout(text: &str) -> Layout {
    text.parse().expect("the test's own layouts parse")
}

#[test]
fn explain_composition_texts() {
    for (name, a, b) in [
        ("by_rule", "(6,2):(8,2)", "(4,3):(3,1)"),
        ("s34", "(4,4):(4,1)", "(2,2):(1,5)"),
        ("d10", "(4,3):(1,10)", "4:3"),
        ("d10_three_modes", "(4,6,8):(2,3,5)", "6:3"),
        ("d11", "(6,3):(1,10)", "(3,2):(2,3)"),
        ("negative", "(1,(2,4)):(0,(-1,512))", "4:-1"),
        ("signs", "(4,3):(1,10)", "(3,2):(4,-1)"),
        ("nested", "((4,3),1):((1,4),0)", "(2,(2,1)):(0,(12,7))"),
        ("long", "(4,4):(4,1)", "(20,2):(0,5)"),
    ] {
        insta::assert_snapshot!(
            format!("composition_{name}"),
            layout(a).explain_composition(layout(b))
        );
    }
}

#[test]
fn explain_texts() {
    let coalesce = layout("(2,(1,6)):(1,(6,2))").explain_coalesce();
    insta::assert_snapshot!("coalesce", coalesce);
    insta::assert_snapshot!("complement", layout("(2,2):(1,6)").explain_complement(24));
    let by_mode = layout("(2,1,2):(1,9,5)").explain_complement((4, 6));
    insta::assert_snapshot!("complement_by_mode", by_mode);
    insta::assert_snapshot!(
        "complement_overlap",
        layout("(4,2):(1,2)").explain_complement(24)
    );
    insta::assert_snapshot!(
        "right_inverse",
        layout("(4,8,2):(1,5,4)").explain_right_inverse()
    );
    insta::assert_snapshot!(
        "left_inverse",
        layout("(4,2):(2,16)").explain_left_inverse()
    );
    let refused = layout("(8,4,2):(13,2,1)").explain_left_inverse();
    insta::assert_snapshot!("left_inverse_refused", refused);
    let divide = layout("(9,(4,8)):(59,(13,1))").explain_logical_divide(("3:3", "(2,4):(1,8)"));
    insta::assert_snapshot!("logical_divide", divide);
    let refused = layout("(4,3):(1,10)").explain_logical_divide("4:3");
    insta::assert_snapshot!("logical_divide_refused", refused);
    let product = layout("(2,2):(4,1)").explain_logical_product("6:1");
    insta::assert_snapshot!("logical_product", product);
    let wider = layout("(2,2):(1,3)").explain_logical_product(3);
    insta::assert_snapshot!("logical_product_wider", wider);
}
