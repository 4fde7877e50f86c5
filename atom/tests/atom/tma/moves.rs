//! What the boxes of a plan move, byte by byte.

use std::collections::HashMap;

use colex_atom::{
    Interleave, L2Promotion, OobFill, Reduction, TensorMap, TmaElement, TmaPlan, TmaSwizzle,
};
use colex_layout::{ComposedLayout, IntTuple, Layout, Stride, Tiler};

use super::plans::plan;

/// Four descriptors that CuTe itself derived.
#[test]
fn descriptors_are_those_of_cute() {
    let f32_rows = plan(
        "(1024,256):(256,1)",
        "(64,32)",
        "(64,32):(32,1)",
        TmaElement::F32,
        1,
    )
    .unwrap();
    assert_eq!(f32_rows.box_layout(), "(32,64):(1@1,1@0)");
    assert_eq!(
        (
            f32_rows.map().dims.as_slice(),
            f32_rows.map().strides.as_slice()
        ),
        (&[256, 1024][..], &[1024][..])
    );

    // Half precision, column-major: the 64x8 block of a 128-byte swizzle, 16 times.
    let columns = plan(
        "(1024,256):(1,1024)",
        "(128,64)",
        "Sw<3,4,3> o smem_ptr[16b](unset) o ((64,2),(8,8)):((1,512),(64,1024))",
        TmaElement::F16,
        1,
    )
    .unwrap();
    assert_eq!(columns.box_layout(), "(64,8):(1@0,1@1)");
    assert_eq!(columns.instructions().unwrap().len(), 16);
    assert_eq!(columns.map().swizzle, TmaSwizzle::B128);

    let rows = plan(
        "(1024,256):(256,1)",
        "(128,64)",
        "Sw<3,3,3> o 0 o (128,64):(64,1)",
        TmaElement::F16,
        1,
    )
    .unwrap();
    assert_eq!(rows.box_layout(), "(64,128):(1@1,1@0)");
    assert_eq!(rows.map().extents, [64, 128]);

    let three = plan(
        "(1024,32,512):(64,1,65536)",
        "(16,8,2)",
        "(16,8,2):(16,1,8)",
        TmaElement::F32,
        1,
    )
    .unwrap();
    assert_eq!(three.box_layout(), "(8,2,16):(1@1,1@2,1@0)");
    assert_eq!(three.map().dims, [32, 512, 1024]);
    assert_eq!(three.map().strides, [65536 * 4, 64 * 4]);
}

/// What shared memory and tensor hold after the instructions, by byte: swizzled shared byte -> tensor byte.
fn moved(plan: &TmaPlan, origin: &IntTuple) -> HashMap<i64, Option<i64>> {
    let map = plan.map();
    let (base, swizzle) = (plan.coordinates(origin).unwrap(), map.swizzle.on_bytes());
    let mut memory = HashMap::new();
    let instructions: Vec<_> = (0..)
        .map_while(|block| plan.slice(block).ok())
        .flatten()
        .collect();
    for instruction in instructions {
        let at: Vec<i64> = instruction
            .coordinates
            .iter()
            .zip(&base)
            .map(|(x, y)| x + y)
            .collect();
        for element in map.loaded(&at).unwrap() {
            let shared = swizzle.apply(instruction.shared * map.element.bytes() + element.shared);
            assert_eq!(
                memory.insert(shared, element.global),
                None,
                "shared byte {shared} is written twice"
            );
        }
    }
    memory
}

/// Law `tma.tile`: after all instructions of a tile, shared memory at `shared(i)` has the tensor's element at
/// `origin + tile(i)`, and the fill value where that is outside.
fn check_tile(
    global: &str,
    tile: &str,
    shared: &str,
    element: TmaElement,
    multicast: i64,
    origin: &str,
) -> usize {
    let plan = plan(global, tile, shared, element, multicast)
        .unwrap_or_else(|e| panic!("{global} {tile} {shared}: {e}"));
    let (global, tile): (Layout, Tiler) = (global.parse().unwrap(), tile.parse().unwrap());
    let shared: ComposedLayout = shared
        .parse::<ComposedLayout>()
        .unwrap()
        .position_independent()
        .unwrap();
    let origin: IntTuple = origin.parse().unwrap();
    let coordinates = Layout::identity(global.shape())
        .unwrap()
        .composition(&tile)
        .unwrap();
    let memory = moved(&plan, &origin);
    let (bytes, size) = (element.bytes(), coordinates.size());
    assert_eq!(memory.len() as i64, size);
    for i in 0..size {
        let (at, from) = (coordinates.coord_at(i).unwrap(), origin.leaves());
        let at: Vec<i64> = at
            .leaves()
            .iter()
            .zip(from)
            .map(|(x, o)| x.value() + o.value())
            .collect();
        let extents: Vec<i64> = global.shape().leaves().iter().map(|e| e.value()).collect();
        let inside = at
            .iter()
            .zip(&extents)
            .all(|(x, extent)| (0..*extent).contains(x));
        let strides = global.leaves().iter().map(|leaf| match leaf.stride {
            Stride::Int(stride) => stride.value(),
            other => panic!("{other}"),
        });
        let unbounded = || {
            at.iter()
                .zip(strides)
                .map(|(x, stride)| x * stride)
                .sum::<i64>()
                * bytes
        };
        let expected = inside.then(unbounded);
        assert_eq!(
            memory[&(shared.at(i).unwrap() * bytes)],
            expected,
            "{global} {tile:?} {shared} at {i} of {origin}"
        );
    }
    size as usize
}

#[test]
fn every_tile_arrives_where_its_layout_says() {
    use TmaElement::{Bf16, F16, F32, U8};
    let mut cases = 0;
    let mut tile = |global, tile, shared, element, multicast, origins: &[&str]| {
        for origin in origins {
            cases += check_tile(global, tile, shared, element, multicast, origin);
        }
    };
    let corners: &[&str] = &["(0,0)", "(64,32)", "(128,0)", "(-8,-16)", "(160,224)"];
    tile(
        "(200,256):(256,1)",
        "(64,32)",
        "(64,32):(32,1)",
        F32,
        1,
        corners,
    );
    tile(
        "(200,256):(256,1)",
        "(64,32)",
        "Sw<3,2,3> o 0 o (64,32):(32,1)",
        F32,
        1,
        corners,
    );
    tile(
        "(200,256):(256,1)",
        "(128,64)",
        "Sw<3,3,3> o 0 o (128,64):(64,1)",
        Bf16,
        1,
        corners,
    );
    tile(
        "(200,256):(256,1)",
        "(128,64)",
        "Sw<2,3,3> o 0 o (128,(32,2)):(32,(1,4096))",
        F16,
        1,
        corners,
    );
    tile(
        "(200,256):(256,1)",
        "(128,64)",
        "Sw<1,3,3> o 0 o (128,(16,4)):(16,(1,2048))",
        F16,
        1,
        corners,
    );
    tile(
        "(200,256):(1,200)",
        "(128,64)",
        "Sw<3,3,3> o 0 o ((64,2),(8,8)):((1,512),(64,1024))",
        F16,
        1,
        corners,
    );
    tile(
        "(208,256):(1,208)",
        "(128,64)",
        "Sw<3,4,3> o 0 o (128,64):(1,128)",
        U8,
        1,
        &["(0,0)", "(64,32)", "(-16,-16)", "(160,224)"],
    );
    // A slice for each block of a cluster.
    tile(
        "(200,256):(256,1)",
        "(128,64)",
        "Sw<3,3,3> o 0 o (128,64):(64,1)",
        F16,
        2,
        corners,
    );
    tile(
        "(200,256):(256,1)",
        "(128,64)",
        "Sw<3,3,3> o 0 o (128,64):(64,1)",
        F16,
        4,
        corners,
    );
    tile(
        "(200,256):(256,1)",
        "(64,32)",
        "(64,32):(32,1)",
        F32,
        128,
        corners,
    );
    // Three dimensions, and a pitch.
    tile(
        "(40,32,10):(64,1,4096)",
        "(16,8,2)",
        "(16,8,2):(16,1,8)",
        F32,
        1,
        &["(0,0,0)", "(32,24,9)", "(-1,4,0)"],
    );
    // Joined modes: a nested extent that is one progression.
    tile(
        "((4,64),100):((1,4),256)",
        "((4,8),16)",
        "((4,8),16):((1,4),32)",
        F32,
        1,
        &["((0,0),0)", "((0,60),90)"],
    );
    // Every second row, every third of another mode, and rows in two orders.
    tile(
        "(200,256):(256,1)",
        "(64:2,32)",
        "(64,32):(32,1)",
        F32,
        1,
        corners,
    );
    tile(
        "(200,256):(256,1)",
        "(32:8,64)",
        "Sw<3,3,3> o 0 o (32,64):(64,1)",
        Bf16,
        4,
        corners,
    );
    tile(
        "(200,256):(1,200)",
        "(64,16:5)",
        "Sw<3,3,3> o 0 o (64,16):(1,64)",
        F16,
        1,
        corners,
    );
    tile(
        "(40,32,10):(64,1,4096)",
        "(8:3,8,2:4)",
        "(8,8,2):(16,1,8)",
        F32,
        1,
        &["(0,0,0)", "(32,24,9)"],
    );
    tile(
        "(200,256):(256,1)",
        "((4,2):(2,1),32)",
        "((4,2),32):((32,128),1)",
        F32,
        1,
        corners,
    );
    tile(
        "(200,256):(256,1)",
        "(4:9,32)",
        "(4,32):(32,1)",
        F32,
        1,
        corners,
    );
    // One dimension.
    tile("1000:1", "64", "64:1", F32, 1, &["0", "960", "-16"]);
    // Six modes: the last two go one way.
    tile(
        "(8,4,4,4,4,4):(1,16,64,512,4096,16384)",
        "(8,2,2,2,2,1)",
        "(8,2,2,2,2,1):(1,8,16,32,64,0)",
        F32,
        1,
        &["(0,0,0,0,0,0)", "(0,2,2,2,0,0)"],
    );
    assert!(cases > 100_000, "{cases}");
    println!("law tma.tile: {cases} cases");
}

/// Law `tma.stride_0`: tensors of which some modes repeat their elements, in up to seven modes, whole and in part.
#[test]
fn law_modes_of_stride_0_bring_the_elements_of_the_tensor() {
    // Extent, whether the stride is 0, what the tile takes.
    let choices: [&[(i64, bool, i64)]; 2] = [
        &[(4, true, 4), (2, false, 2), (1, true, 2), (3, true, 2)],
        &[(2, true, 2), (2, false, 1)],
    ];
    let (mut taken, mut elements) = (0, 0);
    let mut walk = |modes: &[(i64, bool, i64)]| {
        let (mut reach, mut shared_reach) = (8, 8);
        let mut text = [["8", "1", "8", "1"].map(String::from)].to_vec();
        for (extent, is_still, of_tile) in modes {
            let stride = if *is_still { 0 } else { reach };
            text.push([*extent, stride, *of_tile, shared_reach].map(|x| x.to_string()));
            reach *= if *is_still { 1 } else { *extent };
            shared_reach *= of_tile;
        }
        let part = |at: usize| {
            let parts: Vec<&str> = text.iter().map(|mode| mode[at].as_str()).collect();
            format!("({})", parts.join(","))
        };
        let (global, tile) = (format!("{}:{}", part(0), part(1)), part(2));
        let shared = format!("{}:{}", part(2), part(3));
        let zeros = format!("({})", vec!["0"; text.len()].join(","));
        if plan(&global, &tile, &shared, TmaElement::F16, 1).is_ok() {
            taken += 1;
            elements += check_tile(&global, &tile, &shared, TmaElement::F16, 1, &zeros);
        }
    };
    for (rank, choices) in (1..=3)
        .map(|rank| (rank, choices[0]))
        .chain([(6, choices[1])])
    {
        let count = choices.len().pow(rank);
        for number in 0..count {
            let digit = |at: u32| choices[number / choices.len().pow(at) % choices.len()];
            walk(&(0..rank).map(digit).collect::<Vec<_>>());
        }
    }
    // The modes of stride 0 that were taken for one of 32 elements, of which 24 lie outside.
    let two = plan(
        "(64,4,8):(1,0,0)",
        "(64,4,8)",
        "(64,4,8):(1,64,256)",
        TmaElement::F16,
        1,
    );
    assert_eq!(two.unwrap().map().dims, [64, 4, 8]);
    assert!(taken > 80, "{taken}");
    println!("law tma.stride_0: {elements} elements");
}

/// Law `tma.tensor`: the layout of coordinates says what `coordinates` computes, at every coordinate of the tensor.
#[test]
fn the_coordinate_tensor_is_what_instructions_take() {
    use TmaElement::F32;
    let mut cases = 0;
    for (global, tile, shared) in [
        ("(100,256):(256,1)", "(64,32)", "(64,32):(32,1)"),
        ("(20,32,8):(64,1,4096)", "(16,8,2)", "(16,8,2):(16,1,8)"),
        (
            "((4,16),20):((1,4),64)",
            "((4,8),16)",
            "((4,8),16):((1,4),32)",
        ),
        ("1000:1", "64", "64:1"),
        (
            "(8,4,2,2,2,4):(1,16,64,512,4096,16384)",
            "(8,2,2,2,2,1)",
            "(8,2,2,2,2,1):(1,8,16,32,64,0)",
        ),
    ] {
        let plan = plan(global, tile, shared, F32, 1).unwrap();
        let tensor = plan.tensor();
        for i in 0..tensor.size() {
            let coord = tensor.shape().coord(i).unwrap();
            let mut at: Vec<i64> = tensor
                .coord_at(&coord)
                .unwrap()
                .leaves()
                .iter()
                .map(|x| x.value())
                .collect();
            at.resize(plan.map().rank(), 0);
            assert_eq!(plan.coordinates(&coord).unwrap(), at, "{global} at {coord}");
            cases += 1;
        }
    }
    println!("law tma.tensor: {cases} cases");
}

#[test]
fn a_plan_names_its_instructions() {
    let rows = |multicast| {
        plan(
            "(1024,256):(256,1)",
            "(128,64)",
            "Sw<3,3,3> o 0 o (128,64):(64,1)",
            TmaElement::F16,
            multicast,
        )
        .unwrap()
    };
    assert_eq!(rows(1).load().unwrap().name(), "SM90_TMA_LOAD_2D<131072>");
    assert_eq!(
        rows(4).load().unwrap().name(),
        "SM90_TMA_LOAD_MULTICAST_2D<32768>"
    );
    assert_eq!(rows(1).store().unwrap().name(), "SM90_TMA_STORE_2D<131072>");
    assert_eq!(
        rows(1).reduce(Reduction::Max).unwrap().name(),
        "SM90_TMA_REDUCE_MAX_2D<131072>"
    );
    assert_eq!(
        rows(1).load().unwrap().bits(),
        8 * rows(1).map().box_bytes()
    );
}

/// A tile wider than its mode reads fill values, not the padding that follows the mode: CuTe would join the two.
#[test]
fn padding_is_not_taken_for_elements() {
    let cases = check_tile(
        "(6,40):(1,8)",
        "(8,16)",
        "(8,16):(1,8)",
        TmaElement::F32,
        1,
        "(0,0)",
    );
    let padded = plan("(6,40):(1,8)", "(8,16)", "(8,16):(1,8)", TmaElement::F32, 1).unwrap();
    assert_eq!(padded.map().dims, [6, 40]);
    assert!(padded.unbounded_modes().is_empty());
    let whole = plan("(8,40):(1,8)", "(8,16)", "(8,16):(1,8)", TmaElement::F32, 1).unwrap();
    assert_eq!(whole.box_layout(), "((8,16)):((1@0,1@1))");
    assert_eq!(
        (whole.map().dims.as_slice(), whole.map().extents.as_slice()),
        (&[320][..], &[128][..])
    );
    let unbounded: Vec<String> = whole
        .unbounded_modes()
        .iter()
        .map(|mode| format!("{mode:#}"))
        .collect();
    assert_eq!(unbounded, ["1@0"]);
    println!("law tma.padding: {cases} cases");
}

/// A store takes to the tensor what a load would bring, and fills the last unit of 16 bytes of a row.
#[test]
fn a_store_is_a_load_backwards_in_units_of_16_bytes() {
    let mut cases = 0;
    for (columns, tail) in [(256, 0), (255, 1), (254, 2), (253, 3), (252, 0)] {
        let map = plan(
            &format!("(200,{columns}):(256,1)"),
            "(64,32)",
            "(64,32):(32,1)",
            TmaElement::F32,
            1,
        )
        .unwrap()
        .map()
        .clone();
        assert_eq!(map.store_tail(), 4 * tail);
        for corner in [[0, 0], [224, 0], [240, 160], [252, 199], [256, 0]] {
            let (loaded, stored) = (map.loaded(&corner).unwrap(), map.stored(&corner).unwrap());
            for (i, (load, store)) in loaded.iter().zip(&stored).enumerate() {
                assert_eq!(load.shared, store.shared);
                let column = corner[0] + i as i64 % 32;
                if (columns..columns + tail).contains(&column) && corner[1] + (i as i64) / 32 < 200
                {
                    assert_eq!(
                        (load.global, store.global.map(|byte| byte / 4 % 256)),
                        (None, Some(column))
                    )
                } else {
                    assert_eq!(load.global, store.global)
                }
                cases += 1;
            }
        }
    }
    println!("law tma.store: {cases} cases");
}

/// A tile that takes every so-many-th element is one box, with an element stride.
#[test]
fn a_tile_with_steps_is_one_box() {
    let of = |tile: &str, multicast| {
        plan(
            "(200,256):(256,1)",
            tile,
            "(32,32):(32,1)",
            TmaElement::F32,
            multicast,
        )
        .unwrap()
    };
    let every_fourth = of("(32:4,32)", 1);
    assert_eq!(every_fourth.box_layout(), "(32,32):(1@1,4@0)");
    assert_eq!(every_fourth.map().extents, [32, 128]);
    assert_eq!(every_fourth.map().element_strides, [1, 4]);
    assert_eq!(every_fourth.map().box_bytes(), 4096);
    assert_eq!(every_fourth.instructions().unwrap().len(), 1);
    // Cut for two blocks: 16 rows each, four apart.
    let shared = of("(32:4,32)", 2);
    assert_eq!(shared.map().extents, [32, 64]);
    assert_eq!(shared.slice(1).unwrap()[0].coordinates, [0, 64]);
    // Nine apart is no element stride: a box for each row.
    assert_eq!(of("(32:9,32)", 1).instructions().unwrap().len(), 32);
}

/// Interleaved channels, as an H200 moved them: pixels along W first, 16 or 32 bytes apart for every element, then H and
/// D, then the slices of channels by a stride of their own, then the images.
#[test]
fn interleaved_channels_lie_in_slices() {
    let mut cases = 0;
    for (by, swizzle) in [
        (Interleave::B16, TmaSwizzle::None),
        (Interleave::B32, TmaSwizzle::B32),
    ] {
        let slice = by.bytes();
        for element in [
            TmaElement::U8,
            TmaElement::F16,
            TmaElement::U32,
            TmaElement::F64,
        ] {
            let size = element.bytes();
            for (dims, extents) in [
                (vec![24, 3, 2], vec![16, 1, 2]),
                (vec![24, 4, 3, 2], vec![16, 2, 1, 2]),
                (vec![24, 4, 3, 3, 2], vec![16, 2, 2, 1, 1]),
            ] {
                let rank = dims.len();
                let mut strides = vec![40 * slice];
                for d in 1..rank - 1 {
                    strides.push(strides[d - 1] * (dims[d] + 1));
                }
                let map = TensorMap {
                    element,
                    dims: dims.clone(),
                    strides: strides.clone(),
                    extents: extents.clone(),
                    element_strides: vec![1; rank],
                    im2col: None,
                    swizzle,
                    interleave: by,
                    l2: L2Promotion::default(),
                    fill: OobFill::default(),
                };
                assert_eq!(map.check(), Ok(()));
                let bytes = extents.iter().product::<i64>() * slice;
                assert_eq!(map.box_bytes(), bytes);
                let last = (1..rank).map(|d| (dims[d] - 1) * strides[d - 1]);
                assert_eq!(map.tensor_bytes(), last.sum::<i64>() + 24 * slice);
                assert_eq!(map.store_tail(), 0);
                for at in [0, 1, 2, -1, 23] {
                    let start: Vec<i64> = (0..rank as i64)
                        .map(|d| if d == 0 { at } else { (at + d) % 3 })
                        .collect();
                    let moved = map.loaded(&start).unwrap();
                    assert_eq!(moved.len() as i64 * size, bytes);
                    for (i, moved) in moved.iter().enumerate() {
                        let byte = i as i64 * size;
                        let (mut rest, mut inside) = (byte / slice, true);
                        let mut global = byte % slice;
                        for d in 0..rank {
                            let x = start[d] + rest % extents[d];
                            rest /= extents[d];
                            inside &= (0..dims[d]).contains(&x);
                            global += x * if d == 0 { slice } else { strides[d - 1] };
                        }
                        assert_eq!(moved.global, inside.then_some(global));
                        assert_eq!(moved.shared, byte);
                        cases += 1;
                    }
                }
            }
        }
    }
    println!("law tma.interleaved: {cases} cases");
}

/// Every second pixel: dimension 0 has an element stride where channels are interleaved, and only there.
#[test]
fn interleaved_pixels_may_be_skipped() {
    let map = TensorMap {
        element: TmaElement::U32,
        dims: vec![24, 5, 6, 3],
        strides: vec![512, 2560, 15360],
        extents: vec![8, 2, 1, 1],
        element_strides: vec![2, 1, 1, 1],
        im2col: None,
        swizzle: TmaSwizzle::None,
        interleave: Interleave::B16,
        l2: L2Promotion::default(),
        fill: OobFill::default(),
    };
    let firsts: Vec<i64> = map
        .loaded(&[0, 1, 1, 1])
        .unwrap()
        .chunks(4)
        .map(|slice| slice[0].global.unwrap())
        .collect();
    // The bytes that an H200 brought.
    assert_eq!(
        firsts,
        [18432, 18464, 18496, 18528, 18944, 18976, 19008, 19040]
    );
}
