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
                let part = tensor.local_tile(&Tiler::from(&tile), &(i, j).into())?;
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

#[test]
fn a_tile_is_a_tensor_again() -> Outcome {
    let data: Vec<i64> = (0..64).collect();
    let tensor = Tensor::new(&data[..], "(8,8):(1,8)".parse()?)?;
    let half = tensor.local_tile(&"(4,4)".parse()?, &(1, 1).into())?;
    let quarter = half.local_tile(&"(2,2)".parse()?, &(1, 0).into())?;
    assert_eq!(quarter.elements()?, [&38, &39, &46, &47]);
    Ok(())
}

#[test]
fn errors_are_sentences() -> Outcome {
    let tensor = Tensor::new(vec![0; 384], "(24,16):(1,24)".parse()?)?;
    assert_eq!(
        tensor
            .local_tile(&"(16,16)".parse()?, &(0, 0).into())
            .unwrap_err()
            .to_string(),
        "local_tile: (16,16) does not divide (24,16):(1,24); partition its coordinates and copy by predicate"
    );
    assert!(
        tensor
            .local_tile(&"(8,16)".parse()?, &(3, 0).into())
            .is_err()
    );
    assert!(tensor.get((24, 0)).is_err());
    assert!(tensor.local_partition(&"(8,4):(1,8)".parse()?, 32).is_err());
    let before = Tensor::new(vec![0; 4], "4:-1".parse()?).unwrap_err();
    assert_eq!(
        before.to_string(),
        "Tensor: 4:-1 reaches offset -1, and the data has 4 elements"
    );
    assert!(Tensor::new(vec![0; 4], Layout::identity((2, 2))?).is_err());
    Ok(())
}
