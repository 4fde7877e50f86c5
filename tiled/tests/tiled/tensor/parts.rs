//! Slices, tiles and partitions of tensors, of data and of coordinates.

use std::error::Error;

use colex_layout::{Coord, IntTuple, Layout, Tiler};
use colex_tiled::{Coordinates, Tensor};

type Outcome = Result<(), Box<dyn Error>>;

/// Compact, padded, nested, broadcast, and with strides that xor.
const LAYOUTS: [&str; 6] = [
    "(8,12):(1,8)",
    "(8,12):(12,1)",
    "((2,4),12):((1,24),2)",
    "(8,12):(1,10)",
    "(8,12):(0,1)",
    "(8,(4,4)):(^1,(^9,^32))",
];

fn tensor(layout: &str) -> Result<Tensor<Vec<i64>>, Box<dyn Error>> {
    let layout: Layout = layout.parse()?;
    let reach = layout.table()?.into_iter().max().unwrap_or(0);
    Ok(Tensor::new((100..=100 + reach).collect(), layout)?)
}

/// A part of the tensor, and the part of its coordinates, are the same elements.
fn agree(
    tensor: &Tensor<Vec<i64>>,
    part: Tensor<&[i64]>,
    coordinates: Tensor<Coordinates>,
) -> Result<usize, Box<dyn Error>> {
    let named = coordinates.elements()?;
    let found = part.elements()?;
    assert_eq!(found.len(), named.len());
    for (value, coord) in found.iter().zip(&named) {
        assert_eq!(*value, tensor.get(coord)?, "{coord} of {}", tensor.layout());
    }
    Ok(named.len())
}

/// The parts of the identity tensor are the coordinates of the parts: tiles, rests, threads, slices, projections.
#[test]
fn parts_of_the_identity_say_where_parts_are() -> Outcome {
    let mut cases = 0;
    for layout in LAYOUTS {
        let tensor = tensor(layout)?;
        let extents = tensor.layout().shape().product_each()?;
        let identity = Tensor::identity(extents.clone())?;
        assert_eq!(identity.start().to_string(), "(0,0)");
        let columns = extents.leaves()[1].value();
        for (tile, rest) in [
            ("(2,4)", (4, columns / 4)),
            ("(8,2)", (1, columns / 2)),
            ("(1,1)", (8, columns)),
        ] {
            let tiler: Tiler = tile.parse()?;
            for (i, j) in (0..rest.0).flat_map(|i| (0..rest.1).map(move |j| (i, j))) {
                let at = IntTuple::from((i, j));
                cases += agree(
                    &tensor,
                    tensor.local_tile(&tiler, &at)?,
                    identity.local_tile(&tiler, &at)?,
                )?;
                let wide = format!("({},7,{})", &tile[1..2], &tile[3..4]);
                let three = (i, 0, j);
                assert_eq!(
                    tensor.local_tile_of(&wide, three, &[0, 2])?,
                    tensor.local_tile(&tiler, &at)?
                );
                assert_eq!(
                    identity.local_tile_of(&wide, three, &[0, 2])?,
                    identity.local_tile(&tiler, &at)?
                );
            }
        }
        let tiler: Tiler = "(4,2)".parse()?;
        for (i, j) in (0..4).flat_map(|i| (0..2).map(move |j| (i, j))) {
            let at = IntTuple::from((i, j));
            cases += agree(
                &tensor,
                tensor.outer_partition(&tiler, &at)?,
                identity.outer_partition(&tiler, &at)?,
            )?;
        }
        let threads: Layout = "(4,2):(2,1)".parse()?;
        for thread in 0..8 {
            let own = tensor.local_partition(&threads, thread)?;
            cases += agree(&tensor, own, identity.local_partition(&threads, thread)?)?;
        }
        for coord in ["(3,_)", "(_,5)", "(_,_)", "(7,1)"] {
            let coord: Coord = coord.parse()?;
            cases += agree(&tensor, tensor.slice(&coord)?, identity.slice(&coord)?)?;
        }
    }
    println!("law tensor.parts_of_the_identity_say_where_parts_are: {cases} elements");
    Ok(())
}

/// Threads that differ along a mode that is not projected have the same, and those of the projected modes have all.
#[test]
fn a_projected_partition_repeats_along_the_other_modes() -> Outcome {
    let a = tensor("(8,12):(1,8)")?;
    let threads: Layout = "(4,2,3):(1,4,8)".parse()?;
    let alone: Layout = "(4,3):(1,4)".parse()?;
    for thread in 0..24 {
        let own = a.local_partition_of(&threads, thread, &[0, 2])?;
        let expected = a.local_partition(&alone, thread % 4 + 4 * (thread / 8))?;
        assert_eq!(own, expected, "thread {thread}");
        let coordinates = Tensor::<Coordinates>::identity((8, 12))?;
        let named = coordinates.local_partition_of(&threads, thread, &[0, 2])?;
        for (value, coord) in own.elements()?.into_iter().zip(named.elements()?) {
            assert_eq!(value, a.get(coord)?, "thread {thread}");
        }
        let mut written = a.clone();
        written
            .local_partition_of_mut(&threads, thread, &[0, 2])?
            .transform(|x| -x - 1)?;
        let changed = written.elements()?.into_iter().filter(|x| **x < 0);
        let mut changed: Vec<i64> = changed.map(|x| -x - 1).collect();
        let mut own: Vec<i64> = own.elements()?.into_iter().copied().collect();
        changed.sort_unstable();
        own.sort_unstable();
        assert_eq!(changed, own, "thread {thread}");
    }
    let mut written = a.clone();
    written
        .local_tile_of_mut((4, 7, 6), (1, 5, 0), &[0, 2])?
        .fill(-1)?;
    let kept = a.local_tile((4, 6), (1, 0))?;
    for (before, after) in a.elements()?.into_iter().zip(written.elements()?) {
        assert_eq!(*after == -1, kept.elements()?.contains(&before));
    }
    Ok(())
}

/// What is written through a part is what the part names, and nothing else.
#[test]
fn a_part_writes_what_it_names() -> Outcome {
    let mut cases = 0;
    for layout in LAYOUTS.into_iter().filter(|l| !l.contains("(0,1)")) {
        let whole = tensor(layout)?;
        let (tiler, at): (Tiler, IntTuple) = ("(4,2)".parse()?, (1, 3).into());
        let threads: Layout = "(2,4):(1,2)".parse()?;
        let slice: Coord = "(2,_)".parse()?;
        let mut written = whole.clone();
        let mut check = |named: Tensor<&[i64]>, written: &mut Tensor<Vec<i64>>| -> Outcome {
            let named: Vec<i64> = named.elements()?.into_iter().copied().collect();
            for (before, after) in whole.elements()?.into_iter().zip(written.elements()?) {
                assert_eq!(
                    *after,
                    if named.contains(before) {
                        -before
                    } else {
                        *before
                    }
                );
                cases += 1;
            }
            *written = whole.clone();
            Ok(())
        };
        written.local_tile_mut(&tiler, &at)?.transform(|x| -x)?;
        check(whole.local_tile(&tiler, &at)?, &mut written)?;
        let place = (3, 1);
        written
            .outer_partition_mut(&tiler, place)?
            .transform(|x| -x)?;
        check(whole.outer_partition(&tiler, place)?, &mut written)?;
        written
            .local_partition_mut(&threads, 5)?
            .transform(|x| -x)?;
        check(whole.local_partition(&threads, 5)?, &mut written)?;
        written.slice_mut(&slice)?.transform(|x| -x)?;
        check(whole.slice(&slice)?, &mut written)?;
        written.view_mut().transform(|x| -x)?;
        check(whole.view(), &mut written)?;
    }
    println!("law tensor.a_part_writes_what_it_names: {cases} elements");
    Ok(())
}

/// Predicates count what is there: over all tiles of a tensor that they do not divide, each element once.
#[test]
fn predicates_count_what_is_there() -> Outcome {
    for (rows, columns) in [(20, 30), (16, 16), (1, 17), (33, 5)] {
        let identity = Tensor::identity((rows, columns))?;
        let shape = IntTuple::from((rows, columns));
        let tiler: Tiler = "(16,8)".parse()?;
        let mut inside = 0;
        for (i, j) in
            (0..(rows + 15) / 16).flat_map(|i| (0..(columns + 7) / 8).map(move |j| (i, j)))
        {
            let predicates = identity.local_tile(&tiler, (i, j))?.within(&shape)?;
            assert_eq!(predicates.layout().size(), 128);
            inside += predicates.reduce(0, |n, yes| n + i64::from(*yes))?;
        }
        assert_eq!(inside, rows * columns);
    }
    let line = Tensor::identity(10)?.local_tile(4, 2)?;
    let inside: Vec<bool> = line.within(10)?.elements()?.into_iter().copied().collect();
    assert_eq!(inside, [true, true, false, false]);
    let beyond = Tensor::identity(10)?.get(10).unwrap_err();
    assert_eq!(
        beyond.to_string(),
        Layout::identity(10)?.coord_at(10).unwrap_err().to_string()
    );
    Ok(())
}

/// With a predicate the kept coordinates are those of the operation without one, and the others stay.
#[test]
fn a_predicate_keeps_the_others_as_they_are() -> Outcome {
    let mut cases = 0;
    for layout in LAYOUTS.into_iter().filter(|l| !l.contains("(0,1)")) {
        let x = tensor(layout)?;
        let y = Tensor::new(
            (0..x.layout().size()).collect::<Vec<i64>>(),
            Layout::row_major(x.layout().shape())?,
        )?;
        let keep =
            |coord: &IntTuple| (coord.leaves()[0].value() + coord.leaves()[1].value()) % 3 != 0;
        let (mut all, mut some, mut copied) = (y.clone(), y.clone(), y.clone());
        all.axpby(3, &x, 5)?;
        some.axpby_if(3, &x, 5, keep)?;
        copied.copy_from_if(&x, keep)?;
        let shape = x.layout().shape();
        for index in 0..x.layout().size() {
            let coord = shape.flat_coord(index)?;
            let (before, own) = (*y.get(coord.clone())?, *x.get(coord.clone())?);
            assert_eq!(*all.get(coord.clone())?, 3 * own + 5 * before);
            let kept = keep(&coord);
            assert_eq!(
                *some.get(coord.clone())?,
                if kept { 3 * own + 5 * before } else { before }
            );
            assert_eq!(*copied.get(coord)?, if kept { own } else { before });
            cases += 1;
        }
    }
    assert!(cases > 300);
    println!("law tensor.a_predicate_keeps_the_others_as_they_are: {cases} elements");
    Ok(())
}

#[test]
fn errors_are_sentences() -> Outcome {
    let tensor = tensor("(8,12):(1,8)")?;
    let tiler: Tiler = "(4,5)".parse()?;
    assert_eq!(
        tensor
            .outer_partition(&tiler, (0, 0))
            .unwrap_err()
            .to_string(),
        "outer_partition: (4,5) does not divide (8,12):(1,8); partition its coordinates and copy by predicate"
    );
    assert_eq!(
        tensor
            .local_tile_of((4, 3), (0, 0, 0), &[0, 2])
            .unwrap_err()
            .to_string(),
        "project: (4,3) has not all of the modes [0, 2]"
    );
    assert_eq!(
        tensor
            .local_tile_of((4, 3, 2), (0, 0), &[0, 2])
            .unwrap_err()
            .to_string(),
        "project: (0,0) has not all of the modes [0, 2]"
    );
    let mut shared = Tensor::new(vec![1, 2], "(2,2):(1,0)")?;
    assert_eq!(
        shared.transform(|x| x + 1).unwrap_err().to_string(),
        "transform: (2,2):(1,0) has one element at several coordinates, and which value stays there is a race"
    );
    let three = Tensor::new(vec![1; 3], "3:1")?;
    assert_eq!(
        Tensor::new(vec![0; 4], "4:1")?
            .transform_from(&three, |x| *x)
            .unwrap_err()
            .to_string(),
        "transform: 3:1 has 3 elements, and 4:1 has 4"
    );
    let mut four = Tensor::new(vec![0; 4], "4:1")?;
    let ones = Tensor::new(vec![1; 4], "4:1")?;
    assert!(
        four.transform_from_both(&ones, &three, |x, y| x + y)
            .is_err()
    );
    four.transform_from_both(&ones, &ones, |x, y| x + y)?;
    assert_eq!(four.reduce(0, |sum, x| sum + x)?, 8);
    four.clear()?;
    let mut seen = Vec::new();
    four.for_each(|x| seen.push(*x))?;
    assert_eq!(seen, [0; 4]);
    Ok(())
}

#[test]
fn a_thread_that_there_is_not() -> Outcome {
    let a = tensor("(8,12):(1,8)")?;
    for (threads, index) in [("(4,2):(1,4)", 8), ("(4,2):(1,16)", 5), ("(4,2):(1,4)", -1)] {
        assert_eq!(
            a.local_partition(threads, index).unwrap_err().to_string(),
            format!("local_partition: the threads {threads} have no thread {index}")
        );
    }
    Ok(())
}
