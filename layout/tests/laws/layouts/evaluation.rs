//! Coordinates, indices and offsets: the maps between them agree with the definition, and undo each other.

use colex_layout::{Coord, Int, IntTuple, Layout, Slot, Stride, Unbounded};

use crate::law::law;
use crate::reference::{at, leaves, table};
use crate::small;

#[test]
fn offset_by_definition() {
    law("offset_by_definition", "layouts", 70_000, |count| {
        for layout in small::layouts() {
            let values = table(&leaves(&layout));
            assert_eq!(layout.table().as_ref(), Ok(&values), "{layout}");
            assert_eq!(
                layout.offsets().map(Vec::from_iter).as_ref(),
                Ok(&values),
                "{layout}"
            );
            let mut walked = vec![];
            layout
                .offsets()
                .expect("small")
                .for_each(|v| walked.push(v));
            assert_eq!(walked, values, "{layout} by for_each");
            *count += 1;
        }
    });
}

/// The walk gives every layout its offsets that has them, up to the ends of 64 bits, and refuses the others.
#[test]
fn law_offsets_at_the_ends() {
    let edge = 1_i64 << 61;
    law("offsets_at_the_ends", "layouts", 5_000, |count| {
        let strides = [
            0,
            1,
            3,
            edge,
            2 * edge,
            2 * edge - 1,
            3 * edge,
            i64::MAX,
            -1,
            -2 * edge,
            -3 * edge,
            i64::MIN,
        ];
        let mut refused = 0;
        let modes = (1..=3).flat_map(|rank| small::modes(rank, &[1, 2, 3, 4], &strides));
        for modes in modes.step_by(small::every(5)) {
            let (shape, strides): (Vec<i64>, Vec<i64>) = modes.iter().copied().unzip();
            let xors: Vec<Stride> = strides.iter().map(|d| Stride::xor(*d)).collect();
            let layouts = [
                Layout::new(shape.clone(), strides),
                Layout::new(shape, xors),
            ];
            for layout in layouts.map(|layout| layout.expect("positive extents")) {
                let Ok(table) = layout.table() else {
                    refused += 1;
                    continue;
                };
                let walked = layout.offsets().map(Vec::from_iter);
                assert_eq!(walked, Ok(table.clone()), "{layout}");
                let mut folded = vec![];
                let offsets = layout.offsets().expect("as above");
                offsets.for_each(|offset| folded.push(offset));
                assert_eq!(folded, table, "{layout} by for_each");
                *count += 1;
            }
        }
        assert!(refused > 1_000, "{refused} layouts have no table");
    });
    let far: Layout = "2:2305843009213693952".parse().expect("a layout");
    assert_eq!(far.offsets().map(Vec::from_iter), Ok(vec![0, edge]));
    let error = "3:4611686018427387904"
        .parse::<Layout>()
        .and_then(|l| l.offsets().map(drop));
    assert_eq!(
        error.unwrap_err().to_string(),
        "2 * 4611686018427387904 does not fit 64 bits"
    );
}

#[test]
fn offsets_from_the_middle() {
    law(
        "offsets_from_the_middle",
        "layouts and starts",
        40_000,
        |count| {
            for layout in small::layouts().step_by(11) {
                let values = table(&leaves(&layout));
                for skip in [1, 2, 3, 5, 8, 13, values.len().saturating_sub(1)] {
                    let mut offsets = layout.offsets().expect("small");
                    offsets.by_ref().take(skip).for_each(|_| ());
                    let left = values.len().saturating_sub(skip);
                    assert_eq!(offsets.len(), left, "{layout} after {skip}");
                    let rest = offsets.fold(vec![], |mut all, v| {
                        all.push(v);
                        all
                    });
                    assert_eq!(rest, values[values.len() - left..], "{layout} after {skip}");
                    *count += u64::from(left > 0);
                }
            }
        },
    );
}

/// Beyond the size, and before 0, the last mode goes on.
#[test]
fn unbounded_goes_on() {
    law("unbounded_goes_on", "indices", 1_000_000, |count| {
        for layout in small::layouts().step_by(3) {
            let own = leaves(&layout);
            for i in (-9..0).chain(layout.size()..layout.size() + 40) {
                assert_eq!(layout.at(Unbounded(i)), Ok(at(&own, i)), "{layout} at {i}");
                assert!(layout.at(i).is_err(), "{layout} at {i}");
                *count += 1;
            }
        }
    });
}

/// An index, its coordinate with one number per mode, and its coordinate with one number per leaf are one place.
#[test]
fn coordinate_round_trips() {
    law("coordinate_round_trips", "indices", 300_000, |count| {
        for layout in small::layouts().step_by(7) {
            let shape = layout.shape();
            let all: Vec<IntTuple> = shape.coords().expect("small").collect();
            assert_eq!(all.len() as i64, layout.size(), "{shape}");
            for (i, leafwise) in (0..).zip(&all) {
                let modewise = shape.flat_coord(i).expect("within");
                assert_eq!(shape.coord(i).as_ref(), Ok(leafwise), "{i} in {shape}");
                assert_eq!(shape.index(leafwise), Ok(i), "{leafwise} in {shape}");
                assert_eq!(shape.index(&modewise), Ok(i), "{modewise} in {shape}");
                assert_eq!(shape.coord(Unbounded(&modewise)).as_ref(), Ok(leafwise));
                let offset = layout.at(i);
                assert_eq!(layout.at(leafwise), offset, "{layout} at {leafwise}");
                assert_eq!(layout.at(&modewise), offset, "{layout} at {modewise}");
                assert_eq!(layout.at(Unbounded(i)), offset, "{layout} at {i}");
                let flat = shape.product_each().expect("small");
                assert_eq!(
                    flat.index(shape.coord_in(i, &flat).expect("one size")),
                    Ok(i)
                );
                *count += 1;
            }
        }
    });
}

/// Every offset leads back to a coordinate that has it, and no other number does.
#[test]
fn lookup_inverts() {
    law("lookup_inverts", "offsets", 200_000, |count| {
        for layout in small::layouts().step_by(5) {
            let mut values = table(&leaves(&layout));
            values.sort_unstable();
            for offset in values[0] - 2..=values[values.len() - 1] + 2 {
                let found = layout.coord_of(offset);
                assert_eq!(
                    found.is_ok(),
                    values.binary_search(&offset).is_ok(),
                    "{layout}: {offset}"
                );
                if let Ok(coord) = found {
                    assert_eq!(layout.at(&coord), Ok(offset), "{layout} at {coord}");
                    let index = layout.index_of(offset).expect("as coord_of");
                    assert_eq!(layout.at(index), Ok(offset), "{layout} at {index}");
                    let flat = layout.flat_coord_of(offset).expect("as coord_of");
                    assert_eq!(layout.at(&flat), Ok(offset), "{layout} at {flat}");
                    *count += 1;
                }
            }
        }
    });
}

/// The slice from its start visits what the layout visits with these indices fixed; the dice is the rest.
#[test]
fn slice_at() {
    law("slice_at", "slices", 90_000, |count| {
        for layout in small::layouts().filter(|l| l.rank() == 2).step_by(3) {
            let [rows, columns] = [0, 1].map(|i| layout.mode(i).expect("rank 2").size());
            for j in 0..columns {
                let column = Coord::from((Slot::All, j));
                let (slice, start) = layout.slice_and_offset(&column).expect("rank 2");
                let visited: Vec<i64> = table(&leaves(&slice)).iter().map(|v| v + start).collect();
                let expected: Result<Vec<i64>, _> = (0..rows).map(|i| layout.at((i, j))).collect();
                assert_eq!(Ok(visited), expected, "{layout} at {column}");
                let fixed = layout.dice(&column).expect("rank 2");
                assert_eq!(
                    fixed.size() * slice.size(),
                    layout.size(),
                    "{layout} at {column}"
                );
                let (same, origin) = layout.domain_offset((0, j)).expect("rank 2");
                assert_eq!((same, origin), (layout.clone(), start));
                *count += 1;
            }
        }
    });
}

#[test]
fn coords_in_any_order() {
    law("coords_in_order", "shapes and orders", 300, |count| {
        for shape in small::modes(3, &[1, 2, 3, 5], &[0]) {
            let shape = IntTuple::flat(shape.iter().map(|(s, _)| Int::from(*s)));
            for order in [[0, 1, 2], [2, 1, 0], [1, 0, 2], [2, 0, 1], [1, 2, 0]] {
                let walked: Vec<IntTuple> = shape
                    .coords_in_order(&order)
                    .expect("a permutation")
                    .collect();
                let slowest_first = |c: &IntTuple| order.map(|i| c.leaves()[i].value());
                let keys: Vec<Vec<i64>> = walked
                    .iter()
                    .map(|c| slowest_first(c).into_iter().rev().collect())
                    .collect();
                assert!(keys.is_sorted_by(|a, b| a < b), "{shape} in {order:?}");
                assert_eq!(Ok(walked.len() as i64), shape.product().map(Int::value));
                *count += 1;
            }
        }
    });
}

#[test]
fn coord_by_stride_of_compact_layouts() {
    law("coord_by_stride", "indices", 4_000, |count| {
        for shape in small::modes(3, &[1, 2, 3, 4, 7], &[0]) {
            let shape = IntTuple::flat(shape.iter().map(|(s, _)| Int::from(*s)));
            let rows = Layout::row_major(&shape).expect("small");
            let strides = IntTuple::flat(rows.leaves().iter().map(|l| l.stride.coefficient()));
            for (coord, offset) in shape.coords().unwrap().zip(rows.offsets().unwrap()) {
                assert_eq!(
                    shape.coord_by_stride(offset, &strides),
                    Ok(coord),
                    "{rows}: {offset}"
                );
                *count += 1;
            }
        }
    });
}
