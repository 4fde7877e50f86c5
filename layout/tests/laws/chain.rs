//! Programs over layouts, read from bytes: the body of the fuzz targets, also run on random bytes by the laws.
//!
//! Every operation either gives a value or an error. What it gives is printed, read back and compared.

use std::fmt::{Debug, Display};
use std::str::FromStr;

use colex_layout::{
    ComposedLayout, Coord, Int, IntTuple, Layout, LayoutLeft, Stride, Swizzle, Tiler, Tuple,
    Unbounded,
};

use crate::bytes::Bytes;

/// Reads `text` as everything that can be read; what is accepted prints as text that reads the same.
pub(crate) fn text(bytes: &[u8]) -> u64 {
    const ALPHABET: &[u8] = b"0123456789(),:_-@^<>Swo .";
    let letters = bytes
        .iter()
        .map(|b| char::from(ALPHABET[usize::from(*b) % ALPHABET.len()]));
    let texts = [
        letters.collect(),
        String::from_utf8_lossy(bytes).into_owned(),
    ];
    texts.iter().map(|t| every_reading(t)).sum()
}

fn every_reading(text: &str) -> u64 {
    [
        round_trip::<Int>(text),
        round_trip::<IntTuple>(text),
        round_trip::<Stride>(text),
        round_trip::<Tuple<Stride>>(text),
        round_trip::<Coord>(text),
        round_trip::<Layout>(text),
        round_trip::<Tiler>(text),
        round_trip::<Swizzle>(text),
        round_trip::<ComposedLayout>(text),
    ]
    .into_iter()
    .map(u64::from)
    .sum()
}

/// Whether `text` reads as a `T`; an error must print, a value must read back from its own text.
pub(crate) fn round_trip<T>(text: &str) -> bool
where
    T: FromStr<Err: Display> + Display + PartialEq + Debug,
{
    match text.parse::<T>() {
        Err(error) => {
            assert!(!error.to_string().is_empty());
            false
        }
        Ok(value) => {
            let printed = value.to_string();
            let again = printed
                .parse::<T>()
                .unwrap_or_else(|e| panic!("{text:?} prints as {printed}: {e}"));
            assert_eq!(again, value, "{text:?} prints as {printed}");
            assert_eq!(again.to_string(), printed, "{text:?}");
            true
        }
    }
}

/// Runs operations on a stack of layouts; returns how many gave a layout.
pub(crate) fn chain(bytes: &[u8]) -> u64 {
    let mut bytes = Bytes(bytes);
    let mut stack: Vec<Layout> = vec![Layout::unit()];
    let mut made = 0;
    for _ in 0..24 {
        let fresh = bytes.layout();
        stack.extend(fresh);
        let (a, b) = (pick(&mut bytes, &stack), pick(&mut bytes, &stack));
        let next = if bytes.byte().is_multiple_of(2) {
            unary(&mut bytes, &a)
        } else {
            binary(&mut bytes, &a, &b)
        };
        match next {
            Ok(layout) => {
                assert!(round_trip::<Layout>(&layout.to_string()));
                observe(&mut bytes, &layout);
                made += 1;
                stack.push(layout);
            }
            Err(error) => assert!(!error.to_string().is_empty()),
        }
        stack.truncate(12);
    }
    made
}

fn pick(bytes: &mut Bytes<'_>, stack: &[Layout]) -> Layout {
    stack[bytes.below(stack.len())].clone()
}

type Made = Result<Layout, colex_layout::Error>;

fn unary(bytes: &mut Bytes<'_>, a: &Layout) -> Made {
    let (n, m) = (bytes.number(), bytes.number());
    let (i, j) = (bytes.below(4), bytes.below(5));
    match bytes.below(30) {
        0 => Ok(a.coalesce(..)),
        1 => Ok(a.filter(..)),
        2 => Ok(a.filter_zeros()),
        3 => a.complement(n),
        4 => a.complement(bytes.tuple()),
        5 => a.complement_in_cosize(),
        6 => a.right_inverse(),
        7 => a.left_inverse(),
        8 => a.nullspace(),
        9 => a.upcast(n),
        10 => a.downcast(n),
        11 => a.recast(n, m),
        12 => a.layout_like(),
        13 => a.fragment_like(),
        14 => Ok(a.flatten()),
        15 => a.unflatten(&bytes.tuple()),
        16 => a.get(&[i, j]),
        17 => a.select(&[i, j]),
        18 => a.take(i..j),
        19 => a.group(i..j),
        20 => a.zip(),
        21 => a.coalesce(bytes.tuple()),
        22 => a.filter(bytes.tuple()),
        23 => a.with_shape(bytes.tuple()),
        24 => a.tile_to_shape(bytes.tuple(), LayoutLeft),
        25 => a.tile_to_shape(bytes.tuple(), bytes.tuple()),
        26 => Layout::ordered(bytes.tuple(), bytes.tuple()),
        27 => Layout::row_major(bytes.tuple()),
        28 => Layout::identity(bytes.tuple()),
        _ => a.append_to_rank(i + j, Layout::unit()),
    }
}

fn binary(bytes: &mut Bytes<'_>, a: &Layout, b: &Layout) -> Made {
    let tiler = match bytes.byte() % 4 {
        0 => Tiler::from(b),
        1 => Tiler::from([Tiler::from(b), Tiler::Int(bytes.int())]),
        2 => Tiler::try_from(&bytes.tuple()).expect("a tuple that is not deep"),
        _ => Tiler::from([Tiler::All, Tiler::from(b)]),
    };
    match bytes.below(20) {
        0..=2 => a.composition(b),
        3 => a.cute_composition(b),
        4 => a.composition(&tiler),
        5 => a.logical_divide(&tiler),
        6 => a.zipped_divide(&tiler),
        7 => a.tiled_divide(&tiler),
        8 => a.flat_divide(&tiler),
        9 => a.logical_divide_exact(&tiler),
        10 => a.logical_product(&tiler),
        11 => a.zipped_product(&tiler),
        12 => a.flat_product(&tiler),
        13 => a.blocked_product(b),
        14 => a.raked_product(b),
        15 => a.max_common_layout(b),
        16 => a.sum(b),
        17 => Layout::concat([a, b]),
        18 => a.zip_with(b),
        _ => a.replace(bytes.below(4), b),
    }
}

/// Everything that can be asked about a layout, however large.
fn observe(bytes: &mut Bytes<'_>, layout: &Layout) {
    let (n, shape) = (bytes.number(), layout.shape());
    let _ = (
        layout.at(n),
        layout.at(Unbounded(n)),
        layout.cosize(),
        layout.max_alignment(),
    );
    let _ = (
        layout.is_surjective(),
        layout.is_bijective(),
        layout.is_contiguous(),
    );
    let _ = (shape.coord(n), shape.flat_coord(n), shape.product_each());
    let coord = bytes.tuple();
    let _ = (
        layout.at(&coord),
        layout.at(Unbounded(&coord)),
        shape.index(Unbounded(&coord)),
    );
    let _ = (
        shape.ceil_div(&coord),
        shape.shape_div(&coord),
        shape.round_up(&coord),
        shape.elem_scale(&coord),
    );
    let _ = (
        shape.inner_product(&coord),
        coord.product_like(&shape),
        coord.filter_zeros(&shape),
    );
    let _ = (
        shape.coord_in(&coord, &coord),
        coord.coord_by_stride(n, &shape),
        shape.evenly_divides(&coord),
    );
    let _ = (layout.slice_and_offset(&coord), layout.dice(&coord));
    if let Ok(mut offsets) = layout.offsets() {
        let _ = (offsets.next(), offsets.next());
    }
    if layout.size() <= 256 {
        let _ = (
            layout.is_injective(),
            layout.coord_of(n),
            layout.index_of(n),
        );
        if let (Ok(values), Ok(coalesced)) = (layout.table(), layout.coalesce(..).table()) {
            assert_eq!(values, coalesced, "{layout}");
        }
    }
}

#[cfg(test)]
mod on_random_bytes {
    use proptest::prelude::*;

    use crate::law::law;
    use crate::random;

    #[test]
    fn nothing_panics_on_any_text() {
        let read = std::cell::Cell::new(0);
        random::check(20_000, prop::collection::vec(any::<u8>(), 0..24), |bytes| {
            read.set(read.get() + super::text(&bytes));
            Ok(())
        });
        law(
            "nothing_panics_on_any_text",
            "random texts that could be read",
            3_000,
            |count| {
                *count += read.get();
            },
        );
    }

    #[test]
    fn nothing_panics_on_any_chain() {
        let made = std::cell::Cell::new(0);
        random::check(5_000, prop::collection::vec(any::<u8>(), 0..512), |bytes| {
            made.set(made.get() + super::chain(&bytes));
            Ok(())
        });
        law(
            "nothing_panics_on_any_chain",
            "results of random operations",
            50_000,
            |count| {
                *count += made.get();
            },
        );
    }
}
