//! The check of literals at compile time: it accepts exactly the texts that the parser reads.

use colex_layout::literal::{check_int_tuple, check_layout, check_tiler};
use colex_layout::{IntTuple, Layout, Tiler, int_tuple, layout, tiler};

use crate::law::law;

const SEEDS: [&str; 16] = [
    "(4,(_2,3)):(2,(_1,8))",
    "8:-1",
    "(4,8):(1@0,1@1)",
    "((2,2),5):((^1,^72),0)",
    "(4,2):(0,1@0@1)",
    "():()",
    "((),4):((),1)",
    "<3:3,(2,4):(1,8),_>",
    "(_64,<32,_>)",
    "(3,(6,2),8)",
    " ( 4 , 2 ) : ( 1 , 4 ) ",
    "9223372036854775807:-9223372036854775808",
    "(4294967296,4294967296):(1,1)",
    "4:1@255@0@0@0@0@0",
    "((((1))))",
    "_",
];

/// Every seed, with each byte left out, doubled, or replaced by each byte of the notation.
fn texts() -> Vec<String> {
    let mut all: Vec<String> = SEEDS.map(String::from).into();
    for seed in SEEDS {
        for at in 0..seed.len() {
            let (before, rest) = seed.split_at(at);
            let (here, after) = rest.split_at(1);
            all.push(format!("{before}{after}"));
            all.push(format!("{before}{here}{here}{after}"));
            all.extend(
                "(),:_-^@<>01 "
                    .chars()
                    .map(|c| format!("{before}{c}{after}")),
            );
            all.extend(
                "(),:_-^@<>01 "
                    .chars()
                    .map(|c| format!("{before}{c}{rest}")),
            );
        }
    }
    all
}

#[test]
fn literal_as_parsed() {
    law("literal_as_parsed", "texts", 6_000, |count| {
        for text in texts() {
            let layout = text.parse::<Layout>();
            assert_eq!(
                check_layout(&text).is_ok(),
                layout.is_ok(),
                "{text:?}: {layout:?}"
            );
            let tuple = text.parse::<IntTuple>();
            assert_eq!(
                check_int_tuple(&text).is_ok(),
                tuple.is_ok(),
                "{text:?}: {tuple:?}"
            );
            let tiler = text.parse::<Tiler>();
            assert_eq!(
                check_tiler(&text).is_ok(),
                tiler.is_ok(),
                "{text:?}: {tiler:?}"
            );
            *count += 1;
        }
    });
}

#[test]
fn literal_depth() {
    for depth in [63, 64, 65, 66] {
        let text = format!("{}1{}", "(".repeat(depth), ")".repeat(depth));
        assert_eq!(
            check_int_tuple(&text).is_ok(),
            text.parse::<IntTuple>().is_ok(),
            "{depth}"
        );
        assert_eq!(
            check_tiler(&text).is_ok(),
            text.parse::<Tiler>().is_ok(),
            "{depth}"
        );
        let layout = format!("{text}:{text}");
        assert_eq!(
            check_layout(&layout).is_ok(),
            layout.parse::<Layout>().is_ok(),
            "{depth}"
        );
    }
}

#[test]
fn literals() {
    assert_eq!(
        layout!((4, (_2, 3)) : (2, (_1, 8))).to_string(),
        "(4,(_2,3)):(2,(_1,8))"
    );
    assert_eq!(layout!(8:-1).to_string(), "8:-1");
    assert_eq!(layout!((4,8):(1@0,5@0@1)).to_string(), "(4,8):(1@0,5@0@1)");
    assert_eq!(layout!((8, 8) : (^1, ^72)).to_string(), "(8,8):(^1,^72)");
    assert_eq!(int_tuple!((3, (-6, _2), ())).to_string(), "(3,(-6,_2),())");
    assert_eq!(
        tiler!(<3:3, (2, 4) : (1, 8), _, _5>).to_string(),
        "(3:3,(2,4):(1,8),_,_5)"
    );
    assert_eq!(tiler!(_).to_string(), "_");
}

#[test]
fn literal_sentences() {
    for (text, sentence) in [
        ("(4,2", "expected ',' or ')'"),
        ("(4,2)", "expected ':' and the stride after the shape"),
        ("(4,2):(1,4)x", "expected the end of the text"),
        ("(4,(2,3)):(1,4,8)", "shape and stride nest differently"),
        (
            "(4,2):(1,4,8)",
            "shape and stride nest differently, or the stride lacks a ')'",
        ),
        (
            "(4,2,8):(1,4)",
            "shape and stride nest differently, or the stride lacks a ','",
        ),
        ("(4,0):(1,4)", "extents are at least 1"),
        ("(4,x):(1,4)", "expected a number"),
        (
            "(4294967296,4294967296):(1,1)",
            "the size does not fit 64 bits",
        ),
        ("4:9223372036854775808", "a number does not fit 64 bits"),
        (
            "(4,2):(1@0,4)",
            "strides must be of one kind: integers, basis vectors or XOR bits",
        ),
        (
            "4:1@256",
            "a basis stride names at most 6 modes, each from 0 to 255",
        ),
    ] {
        assert_eq!(check_layout(text), Err(sentence), "{text}");
    }
}
