//! Rust values as layouts, tilers and coordinates: the same as their texts; and the walk over a layout.

use colex_layout::{
    Basis, C, ComposedLayout, E, Error, Int, IntTuple, IntoComposedLayout, IntoCoord, IntoIntTuple,
    IntoLayout, IntoStride, IntoTiler, IntoTuple, Layout, Slot, Stride, Tiler, Tuple, TupleBuilder,
};

use crate::law::law;
use crate::small;

/// A nesting that is known at run time, as a type of another crate would be.
#[derive(Clone, Debug)]
enum Nest {
    Leaf(i64),
    Modes(Vec<Nest>),
}

impl<T: From<Int>> IntoTuple<T> for Nest {
    fn append_to(self, out: &mut TupleBuilder<T>) -> Result<(), Error> {
        match self {
            Nest::Leaf(n) => n.append_to(out),
            Nest::Modes(modes) => modes.append_to(out),
        }
    }
}

impl Nest {
    fn text(&self) -> String {
        match self {
            Nest::Leaf(n) => n.to_string(),
            Nest::Modes(modes) => {
                let modes: Vec<String> = modes.iter().map(Nest::text).collect();
                format!("({})", modes.join(","))
            }
        }
    }

    /// The nesting with the values of `next` at its leaves.
    fn filled(&self, next: &mut impl FnMut() -> i64) -> Nest {
        match self {
            Nest::Leaf(_) => Nest::Leaf(next()),
            Nest::Modes(modes) => Nest::Modes(modes.iter().map(|m| m.filled(next)).collect()),
        }
    }
}

/// All nestings of `leaves` leaves in at most `depth` pairs of parentheses, also `()` where there are none.
fn nestings(leaves: usize, depth: usize) -> Vec<Nest> {
    let mut all = Vec::new();
    if leaves == 1 {
        all.push(Nest::Leaf(0));
    }
    if depth > 0 {
        all.extend(sequences(leaves, depth - 1).into_iter().map(Nest::Modes));
    }
    all
}

/// All sequences of modes that have `leaves` leaves together; no mode is empty.
fn sequences(leaves: usize, depth: usize) -> Vec<Vec<Nest>> {
    if leaves == 0 {
        return vec![Vec::new()];
    }
    let mut all = Vec::new();
    for first in 1..=leaves {
        for rest in sequences(leaves - first, depth) {
            for mode in nestings(first, depth) {
                all.push([vec![mode], rest.clone()].concat());
            }
        }
    }
    all
}

/// Every nesting with numbers at its leaves, some of them bad extents.
fn numbered(leaves: usize) -> impl Iterator<Item = Nest> {
    let values = [3, 1, 4, 0, 5, -2, 7];
    nestings(leaves, 3)
        .into_iter()
        .enumerate()
        .map(move |(i, nest)| {
            let mut k = i;
            nest.filled(&mut || {
                k += 1;
                values[k % values.len()]
            })
        })
}

#[test]
fn tuple_of_values() {
    law("tuple_of_values", "nestings", 300, |count| {
        for nest in (0..=4).flat_map(numbered) {
            let text = nest.text();
            let parsed: IntTuple = text.parse().expect("a tuple");
            assert_eq!(
                nest.clone().into_int_tuple().as_ref(),
                Ok(&parsed),
                "{text}"
            );
            assert_eq!(
                text.as_str().into_int_tuple().as_ref(),
                Ok(&parsed),
                "{text}"
            );
            assert_eq!((&parsed).into_int_tuple().as_ref(), Ok(&parsed), "{text}");
            assert_eq!(
                nest.clone().into_stride(),
                text.parse::<Tuple<Stride>>(),
                "{text}"
            );
            assert_eq!((&parsed).into_coord(), nest.into_coord(), "{text}");
            *count += 1;
        }
    });
}

/// Shapes and strides of every nesting, alike or not: the value or the error of the text.
#[test]
fn layout_of_tuples() {
    law("layout_of_tuples", "shapes and strides", 3_000, |count| {
        let all: Vec<Nest> = (0..=3).flat_map(numbered).collect();
        for (shape, stride) in all.iter().flat_map(|s| all.iter().map(move |d| (s, d))) {
            let text = format!("{}:{}", shape.text(), stride.text());
            let parsed = text.parse::<Layout>();
            assert_eq!(Layout::new(shape.clone(), stride.clone()), parsed, "{text}");
            let pair = (shape.clone(), stride.clone());
            assert_eq!(pair.clone().into_layout(), parsed, "{text}");
            let composed = parsed.map(ComposedLayout::from);
            assert_eq!(pair.into_composed_layout(), composed, "{text}");
            *count += 1;
        }
    });
}

/// A Rust tuple, and the text of it, at all values of its leaves: dynamic ones of several types, and static ones.
macro_rules! as_written {
    ($count:ident, $($leaf:ident)* => $($tuple:tt)+) => {{
        let values = [1_i64, 2, 7];
        let mut digits = [0_usize; [$(stringify!($leaf)),*].len()];
        loop {
            let mut next = digits.iter().map(|d| values[*d]);
            let mut text = stringify!($($tuple)+).replace(",)", ")");
            let mut fixed = text.clone();
            $(
                let $leaf = next.next().expect("a digit for each leaf");
                text = text.replace(stringify!($leaf), &$leaf.to_string());
                fixed = fixed.replace(stringify!($leaf), &format!("_{}", $leaf));
            )*
            let parsed: IntTuple = text.parse().expect("a tuple");
            assert_eq!(($($tuple)+).into_int_tuple(), Ok(parsed.clone()));
            assert_eq!(($($tuple)+).into_stride(), text.parse::<Tuple<Stride>>());
            assert_eq!(($($tuple)+).into_coord(), text.parse());
            {
                $(let $leaf = &usize::try_from($leaf).unwrap();)*
                assert_eq!(($($tuple)+).into_int_tuple(), Ok(parsed.clone()));
            }
            {
                $(let $leaf = i32::try_from($leaf).unwrap();)*
                assert_eq!(($($tuple)+).into_int_tuple(), Ok(parsed.clone()));
                let tiler = text.parse::<Tiler>().expect("a tiler");
                assert_eq!(($($tuple)+).into_tiler().as_ref(), Ok(&tiler));
            }
            {
                $(let $leaf = Int::Static($leaf);)*
                let tuple = ($($tuple)+).into_int_tuple().expect("a tuple");
                assert_eq!(tuple.to_string(), fixed.replace(' ', ""));
            }
            $count += 1;
            let Some(at) = digits.iter().position(|d| *d + 1 < values.len()) else {
                break;
            };
            digits[at] += 1;
            digits[..at].fill(0);
        }
    }};
}

#[test]
fn tuple_as_written() {
    law("tuple_as_written", "tuples", 1_400, |count| {
        let mut n = 0;
        as_written!(n, a => a);
        as_written!(n, a => (a,));
        as_written!(n, a => ((a,),));
        as_written!(n, a b => (a, b));
        as_written!(n, a b => ((a, b),));
        as_written!(n, a b => ((a,), b));
        as_written!(n, a b => (a, (b,)));
        as_written!(n, a b => ((a,), (b,)));
        as_written!(n, a b c => (a, b, c));
        as_written!(n, a b c => (a, (b, c)));
        as_written!(n, a b c => ((a, b), c));
        as_written!(n, a b c => ((a, b, c),));
        as_written!(n, a b c => ((a, (b, c)),));
        as_written!(n, a b c => ((a,), (b, c)));
        as_written!(n, a b c => ((a, (b,)), c));
        as_written!(n, a b c d => ((a, b), (c, d)));
        as_written!(n, a b c d => (a, (b, (c, d))));
        as_written!(n, a b c d => (((a, b), c), d));
        as_written!(n, a b c d e => (a, b, c, d, e));
        as_written!(n, a b c d e f => (a, (b, c), d, (e, f)));
        *count += n;
    });
}

/// Rust tuples of 0 to 12 modes, arrays, slices and vectors of as many.
#[test]
fn every_arity() {
    law("every_arity", "tuples", 13, |count| {
        macro_rules! arity {
            ($n:literal: $($value:literal)*) => {{
                let array: [i64; $n] = [$($value),*];
                let expected = IntTuple::flat(array.map(Int::from));
                assert_eq!(($($value,)*).into_int_tuple(), Ok(expected.clone()));
                assert_eq!(array.into_int_tuple(), Ok(expected.clone()));
                assert_eq!((&array).into_int_tuple(), Ok(expected.clone()));
                assert_eq!(array[..].into_int_tuple(), Ok(expected.clone()));
                assert_eq!(array.to_vec().into_int_tuple(), Ok(expected.clone()));
                assert_eq!((&array.to_vec()).into_int_tuple(), Ok(expected.clone()));
                let tiler = Tiler::try_from(&expected).expect("a small tuple");
                assert_eq!(($($value,)*).into_tiler(), Ok(tiler.clone()));
                assert_eq!(array.into_tiler(), Ok(tiler.clone()));
                assert_eq!((&array).into_tiler(), Ok(tiler.clone()));
                assert_eq!(array[..].into_tiler(), Ok(tiler.clone()));
                assert_eq!(array.to_vec().into_tiler(), Ok(tiler));
                *count += 1;
            }};
        }
        arity!(0:);
        arity!(1: 1);
        arity!(2: 1 2);
        arity!(3: 1 2 3);
        arity!(4: 1 2 3 4);
        arity!(5: 1 2 3 4 5);
        arity!(6: 1 2 3 4 5 6);
        arity!(7: 1 2 3 4 5 6 7);
        arity!(8: 1 2 3 4 5 6 7 8);
        arity!(9: 1 2 3 4 5 6 7 8 9);
        arity!(10: 1 2 3 4 5 6 7 8 9 10);
        arity!(11: 1 2 3 4 5 6 7 8 9 10 11);
        arity!(12: 1 2 3 4 5 6 7 8 9 10 11 12);
    });
}

/// One number in every type of Rust's integers that has it, and beyond 64 bits the error.
#[test]
fn every_integer() {
    law("every_integer", "numbers and types", 80, |count| {
        let numbers = [
            0,
            1,
            -1,
            127,
            -128,
            255,
            65_535,
            1 << 31,
            (1 << 32) - 1,
            i128::from(i64::MAX),
            i128::from(i64::MIN),
            i128::from(i64::MAX) + 1,
            i128::from(i64::MIN) - 1,
            i128::from(u64::MAX),
        ];
        for number in numbers {
            let expected = match i64::try_from(number) {
                Ok(n) => Ok(IntTuple::leaf(n.into())),
                Err(_) => {
                    let refused = number.into_int_tuple();
                    assert_eq!(
                        refused.as_ref().unwrap_err().to_string(),
                        format!(
                            "the integer {number} does not fit 64 bits: integers of tuples lie from {} to {}",
                            i64::MIN,
                            i64::MAX
                        )
                    );
                    refused
                }
            };
            let expected_layout = Layout::new(IntTuple::leaf(1.into()), number);
            macro_rules! integers {
                ($($int:ty)*) => {$(
                    for n in <$int>::try_from(number).into_iter() {
                        assert_eq!(n.into_int_tuple(), expected, "{number}");
                        assert_eq!((&n).into_int_tuple(), expected, "{number}");
                        assert_eq!(Layout::new(1, n), expected_layout, "{number}");
                        let tiler = expected.clone().and_then(|tile| Tiler::try_from(&tile));
                        assert_eq!(n.into_tiler(), tiler, "{number}");
                        let column: Layout = "(100,2):(1,100)".parse().expect("a layout");
                        let offset = expected.clone().and_then(|c| column.at(c));
                        assert_eq!(column.at(n), offset, "{number}");
                        *count += 1;
                    }
                )*};
            }
            integers! { i8 i16 i32 i64 isize i128 u8 u16 u32 u64 usize u128 }
        }
    });
}

/// Each accepted type gives the value that it stands for.
#[test]
fn values_alike() {
    law("values_alike", "layouts", 2_000, |count| {
        for layout in small::layouts().step_by(29) {
            let text = layout.to_string();
            let composed = ComposedLayout::from(&layout);
            let layouts = [
                layout.clone().into_layout(),
                (&layout).into_layout(),
                text.as_str().into_layout(),
                (&text).into_layout(),
                text.clone().into_layout(),
                text.clone().into_boxed_str().into_layout(),
                (layout.shape(), layout.stride()).into_layout(),
                (&layout.shape(), &layout.stride()).into_layout(),
                (layout.shape().to_string(), layout.stride().to_string()).into_layout(),
                composed.clone().into_layout(),
                (&composed).into_layout(),
            ];
            assert!(layouts.iter().all(|l| l.as_ref() == Ok(&layout)), "{text}");
            let all = [
                layout.clone().into_composed_layout(),
                (&layout).into_composed_layout(),
                text.as_str().into_composed_layout(),
                (layout.shape(), layout.stride()).into_composed_layout(),
                composed.clone().into_composed_layout(),
                (&composed).into_composed_layout(),
            ];
            assert!(all.iter().all(|l| l.as_ref() == Ok(&composed)), "{text}");
            let tiler = Tiler::from(&layout);
            let tilers = [
                tiler.clone().into_tiler(),
                (&tiler).into_tiler(),
                (&layout).into_tiler(),
                text.as_str().into_tiler(),
                text.clone().into_tiler(),
                layout.clone().into_tiler(),
            ];
            assert!(tilers.iter().all(|t| t.as_ref() == Ok(&tiler)), "{text}");
            let modes = Tiler::Modes(vec![tiler.clone(), Tiler::All, Tiler::Int(3.into())]);
            let tilers = [
                (&layout, .., 3).into_tiler(),
                (text.as_str(), Slot::All, C::<3>).into_tiler(),
                (tiler, "_", 3_usize).into_tiler(),
                format!("({text},_,3)").into_tiler(),
            ];
            assert!(tilers.iter().all(|t| t.as_ref() == Ok(&modes)), "{text}");
            let (shape, size) = (layout.shape(), layout.size());
            for index in [0, size / 2, size - 1] {
                let coord = shape.coord(index).expect("an index");
                let expected = layout.at(index);
                assert_eq!(layout.at(&coord), expected, "{text} at {coord}");
                assert_eq!(layout.at(coord.to_string()), expected, "{text}");
                assert_eq!(layout.at(index), expected, "{text}");
                assert_eq!(layout.at([index]), layout.at((index,)), "{text}");
            }
            *count += 1;
        }
    });
}

/// Strides of the other kinds, and `_` in coordinates.
#[test]
fn leaves_of_other_kinds() {
    let stride = |text: &str| text.parse::<Tuple<Stride>>();
    let deep = Basis::new(Int::Dynamic(3), &[1, 0]).expect("a path");
    let basis = (2 * E::<1>, (Int::Static(4) * E::<0>, C::<5> * E::<255>));
    assert_eq!(basis.into_stride(), stride("(2@1,(_4@0,_5@255))"));
    assert_eq!((E::<0>, deep).into_stride(), stride("(_1@0,3@0@1)"));
    let text = (E::<0>, 7_i64 * E::<2>).into_stride().unwrap().to_string();
    assert_eq!(text, "(_1@0,7@2)");
    let xor = (Stride::xor(1), (Stride::xor(C::<72>), 0));
    assert_eq!(xor.into_stride(), stride("(^1,(^_72,0))"));
    assert_eq!(
        Layout::new((8, (8, 2)), xor).unwrap().to_string(),
        "(8,(8,2)):(^1,(^_72,0))"
    );
    let coord = (.., (3, Slot::All), [Slot::At(1), Slot::All], "(_,2)");
    assert_eq!(coord.into_coord(), "(_,(3,_),(1,_),(_,2))".parse());
}

/// What is not a value says so, verbatim.
#[test]
fn refused_values() {
    let says = |e: Error| e.to_string();
    let a = Layout::new((16, 24), (24, 1)).unwrap();
    assert_eq!(
        says(Layout::new(u64::MAX, 1).unwrap_err()),
        "the integer 18446744073709551615 does not fit 64 bits: integers of tuples lie from -9223372036854775808 to \
         9223372036854775807"
    );
    assert_eq!(
        says(a.at((1, u128::MAX)).unwrap_err()),
        "the integer 340282366920938463463374607431768211455 does not fit 64 bits: integers of tuples lie from \
         -9223372036854775808 to 9223372036854775807"
    );
    assert_eq!(
        says(Layout::new((4, "(2,"), (1, 4)).unwrap_err()),
        "expected a number or '(' at byte 3 of \"(2,\""
    );
    assert_eq!(
        says(Layout::new((4, 2), "(1,x)").unwrap_err()),
        "expected a number, as names have no value in a text (Rust tuples such as (m, n) take variables), at byte 3 of \
         \"(1,x)\""
    );
    assert_eq!(
        says(a.at("(1,_)").unwrap_err()),
        "expected a number at byte 4 of \"(1,_)\""
    );
    assert_eq!(
        says(a.slice("(1,").unwrap_err()),
        "expected a number or '(' at byte 3 of \"(1,\""
    );
    assert_eq!(
        says(Layout::new((4, (2, 3)), (2, 1)).unwrap_err()),
        "the shape (4,(2,3)) and the stride (2,1) nest differently"
    );
    assert_eq!(
        says("Sw<3,3,3> o 0 o 8:1".into_layout().unwrap_err()),
        "expected a layout without a swizzle, as one with it is a ComposedLayout, at byte 0 of \"Sw<3,3,3> o 0 o 8:1\""
    );
    let swizzled = "Sw<3,3,3> o 0 o 64:1".into_composed_layout().unwrap();
    assert_eq!(
        says(swizzled.into_layout().unwrap_err()),
        "to_layout of Sw<3,3,3> o 0 o 64:1: it is not a layout alone; to_xor gives one with XOR strides"
    );
}

/// `for (coord, offset) in &layout` is the coordinates of the shape in colexicographical order, and the offset of each.
#[test]
fn points_are_offsets() {
    law("points_are_offsets", "layouts", 4_000, |count| {
        let others = [
            "(8,8):(^1,^72)",
            "(2,(3,2)):(1@0,(1@1,4@0))",
            "3:9223372036854775807",
            "():()",
        ];
        let others = others.map(|text| text.parse::<Layout>().expect("a layout"));
        for layout in small::layouts().step_by(13).chain(others) {
            let mut index = 0;
            for (coord, offset) in &layout {
                assert_eq!(layout.shape().coord(index).as_ref(), Ok(&coord), "{layout}");
                assert_eq!(offset, layout.at(index), "{layout} at {coord}");
                index += 1;
            }
            assert_eq!(index, layout.size(), "{layout}");
            *count += 1;
        }
    });
}
