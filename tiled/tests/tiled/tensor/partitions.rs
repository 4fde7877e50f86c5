//! What the partitions of a thread name of a tensor: its data, its coordinates, and offsets that a swizzle moves.

use std::error::Error;

use colex_layout::{IntTuple, Layout};
use colex_tiled::{Coordinates, Operand, Partition, Tensor, TiledCopy, TiledMma};

type Outcome = Result<(), Box<dyn Error>>;

/// A partition that a program makes may begin anywhere: outside of the data it is refused, also beyond 64 bits.
#[test]
fn partitions_that_begin_far_away_are_refused() -> Outcome {
    let mut data = Tensor::new((0..8).collect::<Vec<i64>>(), "(4,2):(1,4)")?;
    let at = |start: i64| -> Result<Partition, Box<dyn Error>> {
        Ok(Partition {
            layout: "2:1".parse()?,
            start: start.into(),
        })
    };
    let told = |tensor: &Tensor<&[i64]>, start| -> Result<String, Box<dyn Error>> {
        Ok(tensor.partition(&at(start)?).unwrap_err().to_string())
    };
    assert_eq!(data.partition(&at(6)?)?.elements()?, [&6, &7]);
    let view = data.slice((1, ..))?;
    assert_eq!(view.partition(&at(5)?)?.elements()?, [&6, &7]);
    assert_eq!(
        told(&view, i64::MAX)?,
        "1 + 9223372036854775807 does not fit 64 bits"
    );
    assert_eq!(
        told(&view, i64::MAX - 1)?,
        "Tensor: 2:1 reaches offset 9223372036854775807, and the data has 8 elements"
    );
    assert_eq!(
        told(&data.view(), i64::MAX)?,
        "Tensor: 2:1 reaches offset 9223372036854775807, and the data has 8 elements"
    );
    let start = (0..20_000).fold(IntTuple::from(1), |inner, _| IntTuple::concat([&inner]));
    let deep = Partition { start, ..at(0)? };
    assert_eq!(
        deep.at(1).unwrap_err().to_string(),
        "Partition: a start of 20000 nested parentheses: it can have at most 64"
    );
    let error = data.partition_mut(&at(i64::MIN)?).unwrap_err();
    assert_eq!(
        error.to_string(),
        "Tensor: 2:1 reaches offset -9223372036854775808, and the data has 8 elements"
    );
    Ok(())
}

/// A thread's partition of the layout, read through the tensor, is what its coordinates name; and all threads' parts
/// written one after the other are a copy.
#[test]
fn partitions_of_data_are_those_of_the_layout() -> Outcome {
    let copy = TiledCopy::new(
        colex_atom::copy("UniversalCopy<uint64_t>")?,
        32,
        "(4,2):(1,4)",
        "(2,2):(1,2)",
    )?;
    let src = Tensor::new((0..128).collect::<Vec<i64>>(), "(16,8):(8,1)")?;
    let mut dst = Tensor::new(vec![-1; 128], "(16,8):(1,16)")?;
    let identity = Layout::identity((16, 8))?;
    for thread in 0..copy.threads() {
        let thread = copy.slice(thread)?;
        let from = src.partition(&thread.partition_src(src.layout())?)?;
        let coordinates = Tensor::<Coordinates>::from(thread.partition_src(&identity)?);
        for (value, coord) in from.elements()?.into_iter().zip(coordinates.elements()?) {
            assert_eq!(value, src.get(coord)?);
        }
        let part = thread.partition_dst(dst.layout())?;
        dst.partition_mut(&part)?.copy_from(&from)?;
    }
    assert_eq!(src.elements()?, dst.elements()?);
    let error = src
        .partition(&copy.slice(0)?.partition_src(&identity)?)
        .unwrap_err();
    assert!(
        error
            .to_string()
            .ends_with("names coordinates, not offsets"),
        "{error}"
    );
    Ok(())
}

/// Strides that xor: what a thread's partition names are the offsets of its coordinates, which no sum would be.
#[test]
fn partitions_of_a_swizzled_layout_xor() -> Outcome {
    let swizzled: Layout = "((2,4),(2,4)):((^1,^18),(^9,^4))".parse()?;
    let copy = TiledCopy::new(
        colex_atom::copy("UniversalCopy<uint16_t>")?,
        16,
        "(4,2):(1,4)",
        "(1,2):(0,1)",
    )?;
    let identity = Layout::identity((8, 8))?;
    let (mut cases, mut carries) = (0, 0);
    for thread in 0..copy.threads() {
        let thread = copy.slice(thread)?;
        let part = thread.partition_src(&swizzled)?;
        let coordinates = thread.partition_src(&identity)?;
        for index in 0..part.layout.size() {
            let (offset, coord) = (part.at(index)?, coordinates.at(index)?);
            assert_eq!(offset, swizzled.at(coord)?.into());
            let sum = part.start.leaves()[0].value() + part.layout.at(index)?;
            carries += i32::from(offset != sum.into());
            cases += 1;
        }
    }
    let mma = TiledMma::new(
        colex_atom::mma("SM80_16x8x8_F16F16F16F16_TN")?,
        "(1,1,1):(0,0,0)",
        (.., .., ..),
    )?;
    let a: Layout = "((2,8),(2,4)):((^1,^18),(^9,^36))".parse()?;
    let identity = Layout::identity((16, 8))?;
    for thread in 0..32 {
        let thread = mma.slice(thread)?;
        let part = thread.partition(&a, Operand::A)?;
        let coordinates = thread.partition(&identity, Operand::A)?;
        for (offset, coord) in part.values()?.into_iter().zip(coordinates.values()?) {
            assert_eq!(offset, a.at(coord)?.into());
            cases += 1;
        }
    }
    assert!(carries > 0, "a sum would have done");
    println!("law partition.a_swizzled_layout_xors: {cases} values");
    Ok(())
}
