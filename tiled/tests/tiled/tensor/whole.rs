//! Tiles and partitions of tensors with data.

use std::error::Error;

use colex_layout::{IntTuple, Layout, Tiler};
use colex_tiled::Tensor;

type Outcome = Result<(), Box<dyn Error>>;

#[test]
fn tiles_and_partitions_cover_the_tensor_once() -> Outcome {
    let mut cases = 0;
    for tensor in [
        "(8,12):(1,8)",
        "(8,12):(12,1)",
        "((2,4),12):((1,24),2)",
        "(8,12):(1,10)",
    ] {
        let layout: Layout = tensor.parse()?;
        let data: Vec<i64> = (0..layout.cosize()?).collect();
        let tensor = Tensor::new(&data[..], layout.clone())?;
        for tile in ["(2,3)", "(4,12)", "(8,1)", "(1,4)"] {
            let tile: IntTuple = tile.parse()?;
            let (rows, columns) = (tile.leaves()[0].value(), tile.leaves()[1].value());
            let mut tiled = Vec::new();
            for (i, j) in (0..8 / rows).flat_map(|i| (0..12 / columns).map(move |j| (i, j))) {
                let part = tensor.local_tile(Tiler::try_from(&tile)?, (i, j))?;
                // The tile's element (r,c) is the tensor's (i R + r, j C + c).
                assert_eq!(
                    part.get((1 % rows, 0))?,
                    tensor.get((i * rows + 1 % rows, j * columns))?
                );
                tiled.extend(part.elements()?.into_iter().copied());
            }
            cases += once(tiled, &layout)?;
            let mut dealt = Vec::new();
            for thread in 0..rows * columns {
                let threads = Layout::row_major(tile.clone())?;
                dealt.extend(
                    tensor
                        .local_partition(&threads, thread)?
                        .elements()?
                        .into_iter()
                        .copied(),
                );
            }
            cases += once(dealt, &layout)?;
        }
    }
    println!("law tensor.tiles_and_partitions_cover_the_tensor_once: {cases} elements");
    Ok(())
}

fn once(mut named: Vec<i64>, layout: &Layout) -> Result<usize, Box<dyn Error>> {
    let mut all = layout.table()?;
    named.sort_unstable();
    all.sort_unstable();
    assert_eq!(named, all);
    Ok(all.len())
}

/// Strides that xor: the parts of a swizzled tensor start where the swizzle puts them.
#[test]
fn tiles_of_a_swizzled_tensor() -> Outcome {
    let layout: Layout = "(8,8):(^9,^1)".parse()?;
    let tensor = Tensor::new((0..64).collect::<Vec<i64>>(), layout)?;
    for (i, j) in (0..4).flat_map(|i| (0..2).map(move |j| (i, j))) {
        let tile = tensor.local_tile((2, 4), (i, j))?;
        for (r, c) in (0..2).flat_map(|r| (0..4).map(move |c| (r, c))) {
            assert_eq!(tile.get((r, c))?, tensor.get((2 * i + r, 4 * j + c))?);
        }
    }
    Ok(())
}

#[test]
fn recast_keeps_every_element() -> Outcome {
    let mut cases = 0;
    for layout in [
        "(8,12):(1,8)",
        "(8,12):(12,1)",
        "(8,8):(1,12)",
        "(8,8):(^8,^1)",
    ] {
        let layout: Layout = layout.parse()?;
        let data: Vec<i64> = (0..96).collect();
        let tensor = Tensor::new(&data[..], layout)?;
        let pairs = tensor.recast_wider::<2>()?;
        let mut wide: Vec<i64> = pairs.elements()?.into_iter().flatten().copied().collect();
        let mut narrow: Vec<i64> = tensor.elements()?.into_iter().copied().collect();
        let back: Vec<i64> = pairs
            .recast_narrower()?
            .elements()?
            .into_iter()
            .copied()
            .collect();
        assert_eq!(back, narrow);
        wide.sort_unstable();
        narrow.sort_unstable();
        assert_eq!(wide, narrow);
        cases += narrow.len();
    }
    println!("law tensor.recast_keeps_every_element: {cases} elements");
    let two = Tensor::new((0..96).collect::<Vec<i64>>(), "((2,4),12):((1,24),2)")?;
    let pairs = two.recast_wider::<2>()?;
    assert_eq!(pairs.layout().to_string(), "((1,4),12):((1,12),1)");
    assert_eq!(
        pairs.recast_narrower()?.layout().to_string(),
        "((1,4),24):((2,24),1)"
    );
    let tensor = Tensor::new((0..96).collect::<Vec<i64>>(), "(12,8):(1,12)")?;
    let refused = |tensor: Tensor<&[i64]>| tensor.recast_wider::<4>().unwrap_err().to_string();
    let odd = tensor.local_tile((6, 8), (1, 0))?;
    assert_eq!(
        refused(odd),
        "recast_wider: (2,8):(1,3) of 4 elements each is not all of (6,8):(1,12)"
    );
    let late = tensor.local_partition("(3,1):(1,3)", 1)?;
    assert_eq!(
        refused(late),
        "upcast of (4,8):(3,12) by 4: neither does 4 divide the stride 3, nor 3 divide 4"
    );
    let pair = tensor.local_tile((2, 8), (1, 0))?;
    assert_eq!(
        tensor
            .local_tile((3, 8), (1, 0))?
            .recast_wider::<3>()?
            .get((0, 0))?,
        &[3, 4, 5]
    );
    assert!(pair.recast_wider::<4>().is_err());
    Ok(())
}

/// What is written by vectors is what is written one by one; and a tensor that starts in the middle, going back, has
/// vectors as well.
#[test]
fn vectors_write_their_elements() -> Outcome {
    let mut cases = 0;
    for layout in [
        "(8,12):(1,8)",
        "(8,12):(12,1)",
        "((2,4),12):((1,24),2)",
        "(8,12):(1,10)",
    ] {
        let layout: Layout = layout.parse()?;
        let data: Vec<i64> = (0..layout.cosize()?).collect();
        let mut one_by_one = Tensor::new(data.clone(), layout.clone())?;
        one_by_one.transform(|x| -x)?;
        let mut by_vectors = Tensor::new(data, layout)?;
        by_vectors
            .recast_wider_mut::<2>()?
            .transform(|[x, y]| [-x, -y])?;
        assert_eq!(one_by_one, by_vectors);
        cases += by_vectors.layout().size();
    }
    println!("law tensor.vectors_write_their_elements: {cases} elements");
    let array = ndarray::Array2::from_shape_fn((4, 6), |(i, j)| 10 * i + j);
    let mut view = array.view();
    view.invert_axis(ndarray::Axis(0));
    let vectors = Tensor::from_view(view)?;
    assert_eq!(vectors.recast_wider::<2>()?.get((0, 2))?, &[34, 35]);
    Ok(())
}

#[test]
fn a_tile_is_a_tensor_again() -> Outcome {
    let data: Vec<i64> = (0..64).collect();
    let tensor = Tensor::new(&data[..], "(8,8):(1,8)")?;
    let half = tensor.local_tile((4, 4), (1, 1))?;
    let quarter = half.local_tile((2, 2), (1, 0))?;
    assert_eq!(quarter.elements()?, [&38, &39, &46, &47]);
    Ok(())
}

#[test]
fn errors_are_sentences() -> Outcome {
    let tensor = Tensor::new(vec![0; 384], "(24,16):(1,24)")?;
    assert_eq!(
        tensor.local_tile((16, 16), (0, 0)).unwrap_err().to_string(),
        "local_tile: (16,16) does not divide (24,16):(1,24); partition its coordinates and copy by predicate"
    );
    assert!(tensor.local_tile((8, 16), (3, 0)).is_err());
    assert!(tensor.get((24, 0)).is_err());
    assert!(tensor.local_partition("(8,4):(1,8)", 32).is_err());
    let before = Tensor::new(vec![0; 4], "4:-1").unwrap_err();
    assert_eq!(
        before.to_string(),
        "Tensor: 4:-1 reaches offset -3, and the data has 4 elements"
    );
    assert!(Tensor::new(vec![0; 4], Layout::identity((2, 2))?).is_err());
    Ok(())
}
