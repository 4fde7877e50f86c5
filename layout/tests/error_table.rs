//! A table of calls that must fail and what they say, verbatim: every variant, and each operation that names numbers.

use std::fmt::Debug;
use std::str::FromStr;

use colex_layout::{
    Basis, BinaryMatrix, ComposedLayout, Coord, Error, Int, IntTuple, Layout, LayoutLeft, Stride,
    Swizzle, Tiler,
};

fn parsed<T: FromStr<Err = Error>>(text: &str) -> T {
    text.parse().expect("the test's own texts parse")
}

fn layout(text: &str) -> Layout {
    parsed(text)
}

fn tuple(text: &str) -> IntTuple {
    parsed(text)
}

fn tiler(text: &str) -> Tiler {
    parsed(text)
}

/// The error of a call that must fail.
#[track_caller]
fn error<T: Debug>(result: Result<T, Error>) -> Error {
    result.expect_err("this call has no result")
}

/// Calls, and what they say.
type Rows = Vec<(Error, &'static str)>;

#[track_caller]
fn assert_sentences(rows: &Rows) {
    let wrong: Vec<String> = rows
        .iter()
        .filter(|(e, sentence)| e.to_string() != *sentence)
        .map(|(e, sentence)| format!("says    {e}\ninstead {sentence}"))
        .collect();
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

fn texts() -> Rows {
    let read = |text: &str| error(text.parse::<Layout>());
    vec![
        (
            read(""),
            "expected a layout, as in (4,8):(8,1), at byte 0 of \"\"",
        ),
        (
            error(" ".parse::<ComposedLayout>()),
            "expected a composed layout, as in Sw<3,4,3> o 0 o (8,64):(64,1), at byte 1 of \" \"",
        ),
        (
            error("".parse::<Tiler>()),
            "expected a tiler, as in (4,8) or <4:1,8:1>, at byte 0 of \"\"",
        ),
        (
            read("(4,8):"),
            "expected a stride that nests as the shape does, as in (4,8):(8,1), at byte 6 of \"(4,8):\"",
        ),
        (
            read("(M,N):(1,M)"),
            "expected a number, as names have no value in a text (Rust tuples such as (m, n) take variables), at byte 1 \
             of \"(M,N):(1,M)\"",
        ),
        (
            read("[4,8]:[8,1]"),
            "expected a number or '(', as brackets do not group modes, at byte 0 of \"[4,8]:[8,1]\"",
        ),
        (
            read("4,8:8,1"),
            "expected ':' and the stride, as several modes need parentheses, at byte 1 of \"4,8:8,1\"",
        ),
        (
            read("Sw<3,4,3> o 0 o 8:1"),
            "expected a layout without a swizzle, as one with it is a ComposedLayout, at byte 0 of \"Sw<3,4,3> o 0 o 8:1\"",
        ),
        (
            error("Sw<3,4,3> o (8,64):(64,1)".parse::<ComposedLayout>()),
            "expected the offset, as in Sw<3,4,3> o 0 o 8:1, at byte 12 of \"Sw<3,4,3> o (8,64):(64,1)\"",
        ),
        (
            read("(2,4):(1,2"),
            "expected ',' or ')' at byte 10 of \"(2,4):(1,2\"",
        ),
        (
            read("(2,4)"),
            "expected ':' and the stride at byte 5 of \"(2,4)\"",
        ),
        (
            read("(2,4):(1,x)"),
            "expected a number, as names have no value in a text (Rust tuples such as (m, n) take variables), at byte 9 \
             of \"(2,4):(1,x)\"",
        ),
        (
            read("4:1 2"),
            "expected the end of the text at byte 4 of \"4:1 2\"",
        ),
        (
            read("99999999999999999999:1"),
            "expected a number that fits 64 bits at byte 0 of \"99999999999999999999:1\"",
        ),
        (
            read("4:1@300"),
            "expected a basis stride of at most 6 modes below 256 at byte 2 of \"4:1@300\"",
        ),
        (
            error("(2,)".parse::<IntTuple>()),
            "expected a number or '(' at byte 3 of \"(2,)\"",
        ),
        (
            error("(3:1".parse::<Tiler>()),
            "expected ',' or the closing parenthesis at byte 4 of \"(3:1\"",
        ),
        (
            error("(1,_".parse::<Coord>()),
            "expected ',' or ')' at byte 4 of \"(1,_\"",
        ),
        (
            error("Sw<3,4>".parse::<Swizzle>()),
            "expected ',' at byte 6 of \"Sw<3,4>\"",
        ),
        (
            error("Sw<3,4,3> o 0".parse::<ComposedLayout>()),
            "expected 'o' and the inner layout at byte 13 of \"Sw<3,4,3> o 0\"",
        ),
        (
            error("_".parse::<Int>()),
            "expected a number at byte 1 of \"_\"",
        ),
        (
            error(format!("{}1", "(".repeat(65)).parse::<IntTuple>()),
            "expected at most 64 nested parentheses at byte 64 of \"(((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((1\"",
        ),
    ]
}

fn invariants() -> Rows {
    let basis = |path: &[usize]| error(Basis::new(1.into(), path));
    vec![
        (
            error(Layout::new((4, (2, 3)), (1, 4))),
            "the shape (4,(2,3)) and the stride (1,4) nest differently",
        ),
        (
            error(Layout::new(4, u64::MAX)),
            "the integer 18446744073709551615 does not fit 64 bits: integers of tuples lie from -9223372036854775808 to \
             9223372036854775807",
        ),
        (
            error("(4,0):(1,4)".parse::<Layout>()),
            "extent 0 in the shape (4,0): extents are at least 1",
        ),
        (
            error(Layout::column_major((4, -2))),
            "extent -2 in the shape (4,-2): extents are at least 1",
        ),
        (
            error("(4,2):(1@0,3)".parse::<Layout>()),
            "strides 1@0 and 3 in one layout: all strides add, or all XOR, or all are coordinates",
        ),
        (
            error("(4,2):(^1,8)".parse::<Layout>()),
            "strides ^1 and 8 in one layout: all strides add, or all XOR, or all are coordinates",
        ),
        (
            error("(4294967296,4294967296):(0,0)".parse::<Layout>()),
            "4294967296 * 4294967296 does not fit 64 bits",
        ),
        (
            basis(&[]),
            "a basis stride names at least one mode, as in 1@0",
        ),
        (
            basis(&[0; 7]),
            "a basis stride of depth 7: the depth is at most 6",
        ),
        (
            basis(&[256]),
            "mode 256 in a basis stride: modes are at most 255",
        ),
        (
            error(Stride::Xor(Int::Static(5)).times(Int::Static(3))),
            "^5 times 3: an XOR stride scales by powers of two only",
        ),
        (
            error(Swizzle::new(3, 0, 2)),
            "Sw<3,0,2>: the shift is less than the bits, so the bits would overlap themselves",
        ),
        (
            error(Swizzle::new(-1, 0, 2)),
            "Sw<-1,0,2>: the number of bits and the base are at least 0",
        ),
    ]
}

fn numbers() -> Rows {
    let big = Int::Dynamic(i64::MAX);
    vec![
        (
            error(big.times(2.into())),
            "9223372036854775807 * 2 does not fit 64 bits",
        ),
        (
            error(Int::Dynamic(7).ceil_div(0.into())),
            "7 divided by zero",
        ),
        (
            error(IntTuple::from(7).shape_div(3)),
            "shape_div: neither does 3 divide 7, nor 7 divide 3",
        ),
        (
            error(IntTuple::from((i64::MAX, 1)).sum()),
            "9223372036854775807 + 1 does not fit 64 bits",
        ),
        (
            error(IntTuple::from((2, 3)).inner_product((2, (3, 4)))),
            "inner_product of (2,3) and (2,(3,4)) needs congruent operands",
        ),
        (
            error(tuple("(4,5)").ceil_div(tuple("(2,2,2)"))),
            "ceil_div of (4,5) and (2,2,2) needs a divisor of at most the same rank, mode by mode",
        ),
        (
            error(tuple("(4,5)").shape_div(tuple("(2,2,2)"))),
            "shape_div of (4,5) and (2,2,2) needs operands of the same rank, mode by mode",
        ),
        (
            error(tuple("(4,5)").round_up(2)),
            "round_up of (4,5) and 2 needs two integers or two tuples in each mode",
        ),
        (
            error(tuple("(4,5)").product_like(&tuple("(0,(0,0))"))),
            "product_like of (4,5) and (0,(0,0)) needs a guide whose nesting the left operand refines",
        ),
        (
            error(tuple("(4,5)").filter_zeros(&tuple("(0,(0,0))"))),
            "filter_zeros of (4,5) and (0,(0,0)) needs a guide whose nesting the left operand refines",
        ),
        (
            error(tuple("(4,5)").lex_cmp(&4.into())),
            "lex_cmp of (4,5) and 4 needs integers to meet integers and tuples to meet tuples",
        ),
        (
            error(tuple("(4,5)").coord_by_stride(3, &tuple("(0,1)"))),
            "3 divided by zero",
        ),
        (
            error(tuple("(4,5)").domain_distribute(0)),
            "extent 0 in the shape 0: extents are at least 1",
        ),
    ]
}

fn places() -> Rows {
    let a = layout("(4,(3,6)):(1,(4,12))");
    vec![
        (
            error(a.get(&[1, 2])),
            "mode 2 of (3,6):(4,12), which has rank 2",
        ),
        (
            error(a.select(&[0, 3])),
            "mode 3 of (4,(3,6)):(1,(4,12)), which has rank 2",
        ),
        (
            error(a.take(1..1)),
            "take of modes 1..1 of (4,(3,6)):(1,(4,12)): the range is empty",
        ),
        (
            error(a.group(1..3)),
            "group of modes 1..3 of (4,(3,6)):(1,(4,12)): the range ends beyond the rank",
        ),
        (
            error(a.replace(2, &a)),
            "mode 2 of (4,(3,6)):(1,(4,12)), which has rank 2",
        ),
        (
            error(a.shape().insert(3, &1.into())),
            "mode 3 of (4,(3,6)), which has rank 2",
        ),
        (
            error(a.append_to_rank(1, Layout::unit())),
            "append of (4,(3,6)):(1,(4,12)): it has 2 modes, more than the 1 asked for",
        ),
        (
            error(a.flatten().unflatten(&tuple("(0,0)"))),
            "unflatten of (4,3,6):(1,4,12) and (0,0) needs a flat left operand with as many modes as the profile has leaves",
        ),
        (
            error(layout("((2,2),3):((1,2),4)").zip()),
            "zip of (2,2):(1,2) and ((2,2),3):((1,2),4) needs modes that are tuples of one rank",
        ),
        (
            error(layout("(2,3):(1,2)").zip_with("4:1")),
            "zip_with of (2,3):(1,2) and 4:1 needs two single modes or two tuples of one rank",
        ),
        (
            error(layout("(5):(10)").blocked_product("10:1")),
            "blocked_product of (5):(10) and 10:1 needs two single modes or two tuples of one rank",
        ),
        (
            error(layout("10:1").raked_product("(5):(10)")),
            "raked_product of 10:1 and (5):(10) needs two single modes or two tuples of one rank",
        ),
        (
            error(a.at(72)),
            "coordinate 72 is not within 0..72 in the shape (4,(3,6))",
        ),
        (
            error(a.at((4, 0))),
            "coordinate 4 is not within 0..4 in the shape (4,(3,6))",
        ),
        (
            error(a.at(((1, 2), 0))),
            "the coordinate ((1,2),0) does not fit the shape (4,(3,6))",
        ),
        (
            error(a.shape().coord(-1)),
            "coordinate -1 is not within 0..72 in the shape (4,(3,6))",
        ),
        (
            error(a.slice((.., .., 1))),
            "slice of (4,(3,6)):(1,(4,12)) and (_,_,1) needs a coordinate that nests as the layout does, or less deeply",
        ),
        (
            error(a.coord_of(100)),
            "coord_of of (4,(3,6)):(1,(4,12)): no coordinate has the offset 100",
        ),
        (
            error((0..65).try_fold(layout("4:1"), |inner, _| Layout::concat([&inner]))),
            "a layout nests 65 parentheses deep, and the bound is 64",
        ),
        (
            error(layout("67108865:1").table()),
            "table of 67108865:1 has 67108865 elements, and its bound is 67108864",
        ),
        (
            error(
                layout("(2000,2000,2000,2000,2000):(4000000000000037,4000000070000041,3999999913000213,4000120000000007,4000003999000031)")
                    .is_injective(),
            ),
            "is_injective of (2000,2000,2000,2000,2000):(4000000000000037,4000000070000041,3999999913000213,4000120000000007,4000003999000031) is undecided after 262144 steps, which is its bound",
        ),
        (
            error(a.coalesce((1, 1, 1))),
            "coalesce of (4,(3,6)):(1,(4,12)) and (1,1,1) needs a profile of at most the same rank, mode by mode",
        ),
        (
            error(a.shape().coords_in_order(&[0, 1, 1]).map(Iterator::count)),
            "coords_in_order of (4,(3,6)): [0, 1, 1] is not an order of its 3 leaves",
        ),
        (
            error(tuple("(4,6)").coord_in((1, 2), &tuple("(4,3,2)"))),
            "coord_in of (4,6) and (4,3,2) needs shapes and a coordinate of one rank",
        ),
    ]
}

fn operations() -> Rows {
    let a = layout("(4,6,8):(2,3,5)");
    vec![
        (
            error(layout("(4,3):(1,10)").composition("4:3")),
            "(4,3):(1,10) o 4:3 is not a layout over the modes of 4:3: mode <0>, 4:3, takes 4 steps of 3 in extent 4 of (4,3):(1,10) and carries, as neither of 3 and 4 divides the other and (4-1)*3 = 9 is not below 4 (2 steps would fit); A(B(c)) is 3 at 1 and 12 at 2, which makes 15 at 3, but it is 21",
        ),
        (
            error(layout("(6,3):(1,10)").composition("(3,2):(2,3)")),
            "(6,3):(1,10) o (3,2):(2,3) is not a layout over the modes of (3,2):(2,3): modes <0> and <1> fit one by one, but together they reach 4 + 3 = 7 in extent 6 of (6,3):(1,10) and carry (at most 5 would fit); A(B(c)) is 4 at (2,0) and 3 at (0,1), which makes 7 at (2,1), but it is 11",
        ),
        (
            error(a.composition("6:3")),
            "(4,6,8):(2,3,5) o 6:3 is not a layout over the modes of 6:3: mode <0>, 6:3, takes 6 steps of 3 in extent 4 of (4,6,8):(2,3,5) and carries, as neither of 3 and 4 divides the other and (6-1)*3 = 15 is not below 4 (2 steps would fit); A(B(c)) is 6 at 1 and 7 at 2, which makes 13 at 3, but it is 8",
        ),
        (
            error(a.composition((2, 2, 2, 2))),
            "composition of (4,6,8):(2,3,5) and (2,2,2,2) needs a tiler of at most the layout's rank",
        ),
        (
            error(layout("(2,2):(2,3)").complement(24)),
            "complement of (2,2):(2,3): stride 3 starts within the 4 offsets of the modes below it, so its modes interleave, though it is injective",
        ),
        (
            error(layout("(4,2):(1,2)").complement(24)),
            "complement of (4,2):(1,2): stride 2 starts within the 4 offsets of the modes below it, so its modes overlap: it is not injective",
        ),
        (
            error(layout("4:-1").complement(24)),
            "complement of 4:-1: stride -1 is negative; only non-negative strides have one",
        ),
        (
            error(layout("4:1").complement((0, 2))),
            "extent 0 in the shape (0,2): extents are at least 1",
        ),
        (
            error(layout("(2,2):(4,6)").left_inverse()),
            "left_inverse of (2,2):(4,6): stride 6 is not a multiple of stride 4 below it",
        ),
        (
            error(layout("4:-1").left_inverse()),
            "left_inverse of 4:-1: stride -1 is negative",
        ),
        (
            error(layout("(2,2,2):(1,1,3)").left_inverse()),
            "left_inverse of (2,2,2):(1,1,3): its modes overlap, and their sums need a digit that no single mode has",
        ),
        (
            error(layout("(4,4):(1@0,1@1)").cosize()),
            "cosize of (4,4):(1@0,1@1) needs integer strides",
        ),
        (
            error(layout("10:1").logical_divide_exact(3)),
            "logical_divide_exact of 10:1: tiles of 3 make 12 places for 10 coordinates",
        ),
        (
            error(layout("(2,2):(1,2)").logical_divide_exact(tiler("(2,2):(1,3)").clone())),
            "logical_divide_exact of (2,2):(1,2): the tiler (2,2):(1,3) leaves some coordinates out and reaches beyond others",
        ),
        (
            error(layout("(4,4):(1,4)").zipped_divide((2, ..))),
            "zipped_divide of (4,4):(1,4) and (2,_) needs a tiler without _, which leaves no rest to gather",
        ),
        (
            error(layout("(2,4):(4,1)").tile_to_shape((4, 6), LayoutLeft)),
            "tile_to_shape of (2,4):(4,1): extent 4 of the block does not divide extent 6 of mode 1 of the shape (4,6)",
        ),
        (
            error(layout("(2,4):(4,1)").tile_to_shape(4, LayoutLeft)),
            "tile_to_shape of (2,4):(4,1) and 4 needs a block of at most the rank of the shape",
        ),
        (
            error(Layout::ordered(tuple("(4,5)"), tuple("(0,(1,2))"))),
            "ordered of (4,5) and (0,(1,2)) needs an order whose nesting the shape refines",
        ),
        (
            error(layout("(4,4):(1,6)").upcast(4)),
            "upcast of (4,4):(1,6) by 4: neither does 4 divide the stride 6, nor 6 divide 4",
        ),
        (
            error(layout("(4,4):(2,8)").downcast(2)),
            "downcast of (4,4):(2,8): no mode has stride 1, so the parts of one element have no mode to go to",
        ),
        (
            error(layout("(4,4):(1,4)").upcast(0)),
            "upcast of (4,4):(1,4) and 0 needs a factor of at least 1",
        ),
        (
            error(layout("(4,4):(1,4)").recast(0, 8)),
            "recast of (4,4):(1,4) and 0 needs element sizes of at least one bit",
        ),
        (
            error(layout("(4,8):(8,1)").with_shape((3, 8))),
            "with_shape of (4,8):(8,1): the shape (3,8) has 24 coordinates and the layout 32, and they do not cross its modes evenly",
        ),
        (
            error(layout("(4,6):(1,8)").with_shape((6, 4))),
            "(4,6):(1,8) o (6,4):(_1,6) is not a layout over the modes of (6,4):(_1,6): mode <0>, 6:_1, takes 6 steps of 1 in extent 4 of (4,6):(1,8) and carries, as 4 steps fill it and 4 does not divide 6 (a multiple of 4 steps would fit); A(B(c)) is 1 at (1,0), which makes 4 at (4,0), but it is 8, and no mode can end there, as 4 does not divide 6",
        ),
        (
            error(layout("(4,6):(1,4)").sum("(6,5):(1,6)")),
            "greatest_common_domain of (4,6):(1,4) and (6,5):(1,6) needs layouts of one size whose modes nest",
        ),
        (
            error(Layout::infer(&[])),
            "infer of no values: a layout has at least one coordinate, so it needs at least one value",
        ),
        (
            error(layout("(4,4):(2,8)").recast(16, 6)),
            "recast of (4,4):(2,8) from 16 to 6 bits: neither does 3 divide the stride 2, nor 2 divide 3",
        ),
        (
            error(layout("(4,4):(2,8)").recast(16, 8)),
            "recast of (4,4):(2,8) from 16 to 8 bits: no mode has stride 1, so the parts of one element have no mode to go to",
        ),
        (
            error(parsed::<Swizzle>("Sw<2,0,3>").recast(16, 6)),
            "recast of Sw<2,0,3> from 16 to 6 bits: one size is not a power of two times the other",
        ),
        (
            error(Layout::infer(&[0, 1, 3, 4, 9])),
            "no layout of shape 5 has these values: it is 1 at 1, which makes 2 at 2, but it is 3, and no mode can end there, as 2 does not divide 5",
        ),
        (
            error(parsed::<Swizzle>("Sw<2,0,3>").upcast(3)),
            "upcast of Sw<2,0,3> by 3: the factor is not a power of two",
        ),
        (
            error(
                layout("(3,4):(1,3)")
                    .to_matrix()
                    .map(|m: BinaryMatrix| m.height()),
            ),
            "to_xor of (3,4):(1,3): mode 4:3 sets bits of 0b11 that other coordinates set too, so sums carry",
        ),
    ]
}

#[test]
fn parse_errors_name_the_byte() {
    assert_sentences(&texts());
}

#[test]
fn broken_invariants_name_the_numbers() {
    assert_sentences(&invariants());
}

#[test]
fn arithmetic_errors_name_the_operands() {
    assert_sentences(&numbers());
}

#[test]
fn wrong_places_are_named() {
    assert_sentences(&places());
}

#[test]
fn refused_operations_say_what_would_work() {
    assert_sentences(&operations());
}

/// The sentences that the source has beside its kinds: the pieces between what is filled in.
fn templates() -> Vec<Vec<&'static str>> {
    let source = include_str!("../src/error/mod.rs");
    let (_, kinds) = source.split_once("enum ErrorKind {").expect("the kinds");
    let texts = kinds.split("#[error(").skip(1);
    texts
        .map(|text| {
            let (_, text) = text.split_once('"').expect("a text");
            let (text, _) = text.split_once('"').expect("its end");
            let pieces = text.split('{').enumerate();
            pieces
                .map(|(i, piece)| match (i, piece.split_once('}')) {
                    (1.., Some((_, piece))) => piece,
                    _ => piece,
                })
                .filter(|piece| !piece.is_empty())
                .collect()
        })
        .collect()
}

/// Whether a text has the pieces in this order.
fn has(mut text: &str, pieces: &[&str]) -> bool {
    pieces.iter().all(|piece| match text.split_once(piece) {
        Some((_, rest)) => {
            text = rest;
            true
        }
        None => false,
    })
}

/// The rows above say every sentence of the source.
#[test]
fn every_sentence_has_a_row() {
    let rows = [texts(), invariants(), numbers(), places(), operations()].concat();
    let templates: Vec<_> = templates()
        .into_iter()
        .filter(|pieces| !pieces.is_empty())
        .collect();
    assert!(templates.len() >= 20, "{templates:?}");
    for pieces in &templates {
        let said = rows
            .iter()
            .any(|(error, _)| has(&error.to_string(), pieces));
        assert!(said, "no row says {pieces:?}");
    }
    println!(
        "law errors.every_sentence_has_a_row: {} cases",
        templates.len()
    );
}
