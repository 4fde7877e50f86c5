//! The layout algebra: what a compiler would call often.

use std::hint::black_box;
use std::str::FromStr;

use colex_layout::{ComposedLayout, Error, Layout, Tiler};

use super::measure;

pub(super) fn run() {
    println!("{}", measure::PROTOCOL);
    compositions();
    let a = layout("(2,2):(1,6)");
    measure::call("complement (2,2):(1,6) up to 24", || {
        black_box(&a).complement(24)
    });
    let a = layout("((2,2),(2,4)):((1,4),(2,8))");
    measure::call("right_inverse ((2,2),(2,4)):((1,4),(2,8))", || {
        black_box(&a).right_inverse()
    });
    let text = "((2,2),(2,4)):((1,4),(2,8))";
    measure::call("parse ((2,2),(2,4)):((1,4),(2,8))", || {
        Layout::from_str(black_box(text))
    });
    offsets();
}

fn compositions() {
    let (a, b) = (layout("(6,2):(8,2)"), layout("(4,3):(3,1)"));
    measure::call("composition (6,2):(8,2) o (4,3):(3,1)", || {
        black_box(&a).composition(black_box(&b))
    });
    let (a, tile) = (
        layout("(9,(4,8)):(59,(13,1))"),
        parsed::<Tiler>("(3:3,(2,4):(1,8))"),
    );
    measure::call(
        "logical_divide (9,(4,8)):(59,(13,1)) by <3:3,(2,4):(1,8)>",
        || black_box(&a).logical_divide(black_box(&tile)),
    );
}

fn offsets() {
    let a = layout("(128,(32,32)):(1024,(32,1))");
    let size = u64::try_from(a.size()).expect("a size is positive");
    measure::items(
        "all offsets of (128,(32,32)):(1024,(32,1)) by fold",
        size,
        || Ok::<i64, Error>(black_box(&a).offsets()?.fold(0, mixed)),
    );
    measure::items(
        "all offsets of (128,(32,32)):(1024,(32,1)) by next",
        size,
        || {
            let mut sum = 0_i64;
            for offset in black_box(&a).offsets()? {
                sum = mixed(sum, offset);
            }
            Ok::<i64, Error>(sum)
        },
    );
    swizzled_tile();
}

/// Takes every offset into account; a sum would be simplified to a formula.
fn mixed(so_far: i64, offset: i64) -> i64 {
    so_far.rotate_left(1) ^ offset
}

/// One tile under a swizzle, as the composed layout and as the layout with XOR strides that it is.
fn swizzled_tile() {
    let composed = parsed::<ComposedLayout>("Sw<3,3,3> o 0 o (8,64):(64,1)");
    let xor = layout("(8,64):(^72,^1)");
    measure::items(
        "all offsets of Sw<3,3,3> o 0 o (8,64):(64,1), composed",
        512,
        || Ok::<i64, Error>(black_box(&composed).offsets()?.fold(0, mixed)),
    );
    measure::items("all offsets of (8,64):(^72,^1), XOR strides", 512, || {
        Ok::<i64, Error>(black_box(&xor).offsets()?.fold(0, mixed))
    });
}

fn layout(text: &str) -> Layout {
    parsed(text)
}

fn parsed<T: FromStr<Err: std::fmt::Debug>>(text: &str) -> T {
    text.parse()
        .expect("the texts of the benches are well formed")
}
