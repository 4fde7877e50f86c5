//! Every kind of error from a public call, its sentence word for word.

use colex_layout::{
    Access, Basis, BinaryMatrix, ComposedLayout, Coord, Error, Int, IntTuple, Layout, Stride,
    Swizzle, Tiler, choose_swizzle,
};

fn layout(text: &str) -> Layout {
    text.parse().expect("the text is a layout")
}

fn tuple(text: &str) -> IntTuple {
    text.parse().expect("the text is a tuple")
}

fn tiler(text: &str) -> Tiler {
    text.parse().expect("the text is a tiler")
}

/// The sentence of a call that must fail.
#[track_caller]
fn sentence<T: std::fmt::Debug>(result: Result<T, Error>) -> String {
    result.expect_err("the call is refused").to_string()
}

#[test]
fn parse_errors_name_the_byte_and_what_could_stand_there() {
    let of = |text: &str| sentence(text.parse::<Layout>());
    assert_eq!(of(""), "expected a number at byte 0 of \"\"");
    assert_eq!(of("(2,4"), "expected ',' or ')' at byte 4 of \"(2,4\"");
    assert_eq!(
        of("(2,4)"),
        "expected ':' and the stride at byte 5 of \"(2,4)\""
    );
    assert_eq!(
        of("(2,x):(1,2)"),
        "expected a number at byte 3 of \"(2,x):(1,2)\""
    );
    assert_eq!(
        of("2:1 3"),
        "expected the end of the text at byte 4 of \"2:1 3\""
    );
    let long = "99999999999999999999:1";
    assert_eq!(
        of(long),
        format!("expected a number that fits 64 bits at byte 0 of {long:?}")
    );
    let deep = "(".repeat(70);
    assert_eq!(
        of(&deep),
        format!("expected at most 64 nested parentheses at byte 64 of {deep:?}")
    );
    assert_eq!(
        of("2:1@300"),
        "expected a basis stride of at most 6 modes below 256 at byte 2 of \"2:1@300\""
    );
    let swizzled = |text: &str| sentence(text.parse::<ComposedLayout>());
    assert_eq!(
        swizzled("Sw<3,4,2> o 0 o 8:1"),
        "expected a swizzle with B >= 0, M >= 0 and |S| >= B at byte 0 of \"Sw<3,4,2> o 0 o 8:1\""
    );
    assert_eq!(
        swizzled("Sw<3,4,3>"),
        "expected 'o' and the offset at byte 9 of \"Sw<3,4,3>\""
    );
    assert_eq!(
        sentence("(2,3".parse::<Tiler>()),
        "expected ',' or the closing parenthesis at byte 4 of \"(2,3\""
    );
}

#[test]
fn construction() {
    assert_eq!(
        sentence("(2,4):(1)".parse::<Layout>()),
        "the shape (2,4) and the stride (1) nest differently"
    );
    assert_eq!(
        sentence("(2,0):(1,2)".parse::<Layout>()),
        "extent 0 in the shape (2,0): extents are at least 1"
    );
    assert_eq!(
        sentence("(2,4):(1,1@0)".parse::<Layout>()),
        "strides 1 and 1@0 in one layout: all strides add, or all XOR, or all are coordinates"
    );
    assert_eq!(
        sentence("(4294967296,4294967296):(1,1)".parse::<Layout>()),
        "4294967296 * 4294967296 does not fit 64 bits"
    );
    let one = Int::Static(1);
    assert_eq!(
        sentence(Basis::new(one, &[])),
        "a basis stride names at least one mode, as in 1@0"
    );
    assert_eq!(
        sentence(Basis::new(one, &[0; 7])),
        "a basis stride of depth 7: the depth is at most 6"
    );
    assert_eq!(
        sentence(Basis::new(one, &[300])),
        "mode 300 in a basis stride: modes are at most 255"
    );
    assert_eq!(
        sentence(Stride::Xor(Int::Static(5)).times(Int::Static(3))),
        "^5 times 3: an XOR stride scales by powers of two only"
    );
    assert_eq!(
        sentence(Swizzle::new(2, -1, 3)),
        "Sw<2,-1,3>: the number of bits and the base are at least 0"
    );
    assert_eq!(
        sentence(Swizzle::new(3, 50, 30)),
        "Sw<3,50,30>: it reaches beyond bit 62"
    );
    assert_eq!(
        sentence(Swizzle::from_masks(6, 9)),
        "from_masks of 0x6 into 0x9: the masks are not two runs of equally many bits, apart from each other"
    );
    assert_eq!(
        sentence(BinaryMatrix::new(vec![1, -1])),
        "BinaryMatrix of -1: a column has at most 63 bits"
    );
}

#[test]
fn modes_and_coordinates() {
    let a = layout("(4,(3,6)):(1,(4,12))");
    assert_eq!(
        sentence(a.get(&[1, 2])),
        "mode 2 of (3,6):(4,12), which has rank 2"
    );
    assert_eq!(
        sentence(a.select(&[0, 5])),
        "mode 5 of (4,(3,6)):(1,(4,12)), which has rank 2"
    );
    assert_eq!(
        sentence(a.take(1..1)),
        "take of modes 1..1 of (4,(3,6)):(1,(4,12)): the range is empty"
    );
    assert_eq!(
        sentence(a.group(1..3)),
        "group of modes 1..3 of (4,(3,6)):(1,(4,12)): the range ends beyond the rank"
    );
    assert_eq!(
        sentence(a.at(72)),
        "coordinate 72 is not within 0..72 in the shape (4,(3,6))"
    );
    assert_eq!(
        sentence(a.offset((1, 2, 3))),
        "the coordinate (1,2,3) does not fit the shape (4,(3,6))"
    );
    assert_eq!(
        sentence(a.slice(&"(_,_,0)".parse::<Coord>().expect("a coordinate"))),
        "slice of (4,(3,6)):(1,(4,12)) and (_,_,0) needs a coordinate whose nesting the layout refines"
    );
    assert_eq!(
        sentence(layout("(2,2):(1@0,1@1)").cosize()),
        "cosize of (2,2):(1@0,1@1) needs integer strides"
    );
    assert_eq!(
        sentence(tuple("(4,8)").shape_div(&tuple("(3,2)"))),
        "shape_div: neither does 3 divide 4, nor 4 divide 3"
    );
    assert_eq!(
        sentence(tuple("7").ceil_div(&tuple("0"))),
        "7 divided by zero"
    );
    assert_eq!(
        sentence(a.append_to_rank(1, &Layout::unit())),
        "append of (4,(3,6)):(1,(4,12)): it has 2 modes, more than the 1 asked for"
    );
    assert_eq!(
        sentence(tuple("(2,3)").zip_with(&tuple("4"))),
        "zip of (2,3) and ((2,3),4) needs modes that are tuples of one rank"
    );
}

#[test]
fn operations() {
    assert_eq!(
        sentence(layout("(4,4):(1,6)").upcast(4)),
        "upcast: neither does 4 divide 6, nor 6 divide 4"
    );
    assert_eq!(
        sentence(layout("(8,3):(2,16)").downcast(2)),
        "downcast of (8,3):(2,16): no mode has stride 1, so the parts of one element have no mode to go to"
    );
    assert_eq!(
        sentence(layout("(2,16):(1,1)").complement(64)),
        "complement of (2,16):(1,1): stride 1 starts within the 2 offsets of the modes below it, so its modes \
         overlap: it is not injective"
    );
    assert_eq!(
        sentence(layout("(2,3,8):(48,4,97)").left_inverse()),
        "left_inverse of (2,3,8):(48,4,97): stride 97 is not a multiple of stride 48 below it"
    );
    assert_eq!(
        sentence(layout("(4,8):(1,4)").logical_divide(&tiler("(2,2,2)"))),
        "logical_divide of (4,8):(1,4) and (2,2,2) needs a tiler of at most the layout's rank"
    );
    assert_eq!(
        sentence(layout("(4,8):(1,4)").zipped_divide(&tiler("(_,4)"))),
        "zipped_divide of (4,8):(1,4) and (_,4) needs a tiler without _, which leaves no rest to gather"
    );
    assert_eq!(
        sentence(layout("(4,4):(1,4)").tile_to_shape(&tuple("(8,6)"))),
        "tile_to_shape of (4,4):(1,4): extent 4 of the block does not divide extent 6 of mode 1 of the shape (8,6)"
    );
    assert_eq!(
        sentence(layout("(4,6):(6,1)").greatest_common_domain(&layout("(3,8):(1,100)"))),
        "greatest_common_domain of (4,6):(6,1) and (3,8):(1,100) needs layouts of one size whose modes nest"
    );
    let tile: ComposedLayout = "Sw<1,0,1> o 1 o 4:1".parse().expect("a composed layout");
    assert_eq!(
        sentence(tile.right_inverse()),
        "right_inverse of Sw<1,0,1> o 1 o 4:1: its offset is not 0"
    );
    assert_eq!(
        sentence(layout("16:1").composition_composed(&tile)),
        "composition of Sw<1,0,1> o 1 o 4:1: its offset 1 must be 0 on the right of a layout"
    );
    assert_eq!(
        sentence(choose_swizzle(&[])),
        "choose_swizzle of no access: there is nothing to choose for"
    );
    assert_eq!(
        sentence(Access::from_bytes("a", vec![0], 3)),
        "Access of a: a lane moves 1, 2, 4, 8 or 16 bytes, not 3"
    );
}

#[test]
fn a_refused_composition_names_operands_mode_numbers_and_contradiction() {
    let message = sentence(layout("(4,3):(1,10)").composition(&layout("4:3")));
    for part in [
        "(4,3):(1,10) o 4:3",
        "mode <0>, 4:3",
        "neither of 3 and 4 divides the other",
    ] {
        assert!(message.contains(part), "{part} in {message}");
    }
    let message = sentence(layout("(6,3):(1,10)").composition(&layout("(3,2):(2,3)")));
    for part in ["modes <0> and <1> fit one by one", "4 + 3 = 7 in extent 6"] {
        assert!(message.contains(part), "{part} in {message}");
    }
}
