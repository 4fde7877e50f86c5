//! Counts, swizzles, and what the hardware or the derivation refuses.

use colex_atom::{Interleave, OobFill, PixelBox, TensorMap, TmaElement, TmaPlan, TmaSwizzle};
use colex_layout::{IntTuple, Swizzle};

use super::plans::plan;

#[test]
fn coordinates_that_end_a_kernel_are_refused() {
    let map = plan(
        "(200,256):(256,1)",
        "(64,32)",
        "(64,32):(32,1)",
        TmaElement::F32,
        1,
    )
    .unwrap()
    .map()
    .clone();
    assert!(map.loaded(&[-4, -3]).is_ok());
    assert_eq!(
        map.loaded(&[2, 0]).unwrap_err().to_string(),
        "the box begins 8 bytes into a row, not at a multiple of 16"
    );
    assert_eq!(
        map.stored(&[0, -8]).unwrap_err().to_string(),
        "a store begins before the tensor, at -8 along dimension 1: only a load may"
    );
}

/// Extents and strides near 2^62 are refused by what the map cannot hold, and nothing overflows.
#[test]
fn large_extents_and_strides_are_refused() {
    let huge = 1_i64 << 62;
    let refused = |global: &str, tile: &str, shared: &str| {
        let plan = plan(global, tile, shared, TmaElement::F64, 1);
        plan.map(|_| ()).unwrap_err().to_string()
    };
    let tensors = [
        format!("(4,8):({huge},1)"),
        format!("(4,8):(8,{huge})"),
        format!("(4,8):(1,{huge})"),
        format!("(2,{huge}):(1,2)"),
        format!("({huge},1):(1,{huge})"),
        format!("(4,8):({},1)", i64::MIN),
        format!("((2,2),8):(({huge},-{huge}),1)"),
    ];
    for tensor in tensors {
        for (tile, shared) in [("(4,8)", "(4,8):(8,1)"), ("(2,8)", "(2,8):(1,2)")] {
            assert!(!refused(&tensor, tile, shared).is_empty(), "{tensor}");
        }
    }
    assert_eq!(
        refused(&format!("(4,8):({huge},1)"), "(4,8)", "(4,8):(8,1)"),
        "dimension 1 of the tensor has a stride of 9223372036854775807 bytes, not a multiple of 16 from 0 to below 2^40"
    );
}

/// The bytes that a barrier waits for are those that the boxes report.
#[test]
fn transactions_add_up() {
    for multicast in [1, 2, 4] {
        let plan = plan(
            "(512,256):(256,1)",
            "(128,64)",
            "Sw<2,3,3> o 0 o (128,(32,2)):(32,(1,4096))",
            TmaElement::F16,
            multicast,
        )
        .unwrap();
        let instructions: usize = (0..multicast)
            .map(|block| plan.slice(block).unwrap().len())
            .sum();
        assert_eq!(plan.tile_bytes(), 128 * 64 * 2);
        assert_eq!(
            instructions as i64 * plan.map().box_bytes(),
            plan.tile_bytes()
        );
        assert_eq!(plan.instructions().unwrap(), plan.slice(0).unwrap());
    }
    println!("law tma.transactions: 3 cases");
}

#[test]
fn swizzles_of_tma_are_those_of_the_layouts() {
    for (bits, mode) in [
        (0, TmaSwizzle::None),
        (1, TmaSwizzle::B32),
        (2, TmaSwizzle::B64),
        (3, TmaSwizzle::B128),
    ] {
        for element_bits in [8, 16, 32, 64] {
            let elements = Swizzle::new(bits, 4, 3)
                .unwrap()
                .recast(8, element_bits)
                .unwrap();
            assert_eq!(TmaSwizzle::of(elements, element_bits), Ok(mode));
        }
    }
    assert_eq!(
        TmaSwizzle::of(Swizzle::new(2, 5, 2).unwrap(), 8),
        Ok(TmaSwizzle::B128Atom32)
    );
    assert_eq!(
        TmaSwizzle::of(Swizzle::new(2, 6, 2).unwrap(), 8),
        Ok(TmaSwizzle::B128Atom64)
    );
    let alignments = TmaSwizzle::ALL.map(TmaSwizzle::alignment);
    assert_eq!(alignments, [128, 256, 512, 1024, 512, 1024]);
}

#[test]
fn what_tma_cannot_do_is_said_in_a_sentence() {
    use TmaElement::{F16, F32};
    let says = |result: Result<TmaPlan, colex_atom::Error>| result.unwrap_err().to_string();
    let rows = "(1024,256):(256,1)";
    assert_eq!(
        says(plan(rows, "(64,32)", "(64,64):(64,1)", F32, 1)),
        "the tile has 2048 elements and the shared-memory layout 4096"
    );
    assert_eq!(
        says(plan(rows, "(64,32)", "(64,32):(40,1)", F32, 1)),
        "(64,32):(40,1) does not fill shared memory from 0 on, each element once: TMA writes without gaps"
    );
    assert_eq!(
        says(plan(rows, "(32:2,32)", "(32,32):(1,32)", F32, 1)),
        "neighbours in shared memory are not neighbours in the tensor: (32,32):(2@0,1@1) has no stride of 1 in front \
         (does the tile select the contiguous mode?)"
    );
    assert_eq!(
        says(plan(rows, "(64,32)", "(64,32):(1,64)", F32, 1)),
        "shared memory runs along 1@0 first, and that has stride 256 in the tensor, not 1: \
         the majorness of shared memory does not match the tensor's"
    );
    assert_eq!(
        says(plan(
            "(1024,250):(250,1)",
            "(64,32)",
            "(64,32):(32,1)",
            F32,
            1
        )),
        "dimension 1 of the tensor has a stride of 1000 bytes, not a multiple of 16 from 0 to below 2^40"
    );
    assert_eq!(
        says(plan(
            "(1024,512):(512,1)",
            "(8,512)",
            "(8,512):(512,1)",
            F32,
            1
        )),
        "dimension 0 of the box has extent 512, not 1 to 256"
    );
    assert_eq!(
        says(plan(rows, "(64,4)", "(64,4):(4,1)", F16, 1)),
        "a row of the box has 8 bytes, not a multiple of 16"
    );
    assert_eq!(
        says(plan(
            rows,
            "(8,128)",
            "Sw<3,3,3> o 0 o (8,128):(128,1)",
            F16,
            1
        )),
        "a row of the box has 256 bytes, more than the 128 of its swizzle"
    );
    assert_eq!(
        says(plan(
            rows,
            "(8,64)",
            "Sw<3,3,4> o 0 o (8,64):(64,1)",
            F16,
            1
        )),
        "Sw<3,4,4> on bytes is no TMA swizzle: those are Sw<0..3,4,3>, Sw<2,5,2> and Sw<2,6,2>"
    );
    assert_eq!(
        says(plan(rows, "(64,32)", "(64,32):(32,1)", F32, 3)),
        "a box of [32, 64] cannot be cut into 3 equal slices from its last dimension on"
    );
    assert_eq!(
        says(plan(
            rows,
            "(64,32)",
            "Sw<0,4,3> o 64 o (64,32):(32,1)",
            F32,
            1
        )),
        "Sw<0,4,3> o 64 o (64,32):(32,1) does not fill shared memory from 0 on, each element once: TMA writes without gaps"
    );
    assert_eq!(
        says(plan(
            rows,
            "(64,32)",
            "(2048):(2) o 0 o (64,32):(32,1)",
            F32,
            1
        )),
        "(2048):(2) o 0 o (64,32):(32,1) on bytes is no TMA swizzle: those are Sw<0..3,4,3>, Sw<2,5,2> and Sw<2,6,2>"
    );
    // A mode that is walked backwards, alone and folded with another one.
    for (global, tile, shared) in [
        ("(64,8):(1,-64)", "(64,1)", "(64,1):(1,0)"),
        ("(64,8):(1,-64)", "(64,8)", "(64,8):(1,64)"),
    ] {
        assert_eq!(
            says(plan(global, tile, shared, F16, 1)),
            "the mode 1@1 of the tensor has stride -64: a tensor map walks every mode towards higher addresses"
        );
    }
    assert_eq!(
        says(plan(
            "(8,2,2,2,8,3):(1,8,16,32,64,-64)",
            "(8,1,1,1,1,1)",
            "(8,1,1,1,1,1):(1,0,0,0,0,0)",
            F16,
            1
        )),
        "the mode 1@5 of the tensor has stride -64: a tensor map walks every mode towards higher addresses"
    );
    assert!(plan("(64,1):(1,-64)", "(64,1)", "(64,1):(1,0)", F16, 1).is_ok());
    // Two modes of stride 0 that would share the fifth dimension.
    assert_eq!(
        says(plan(
            "(8,2,2,2,2,2):(1,16,64,256,0,0)",
            "(8,2,2,2,2,2)",
            "(8,2,2,2,2,2):(1,8,16,32,64,128)",
            F16,
            1
        )),
        "dimension 4 would join the modes 2:0, 2:0, which are not one progression of addresses"
    );
    // Numbers of blocks up to the greatest.
    for (blocks, rows_of_box) in [(i64::MAX, 1), (i64::MAX, 7), (i64::MAX - 1, 64)] {
        assert_eq!(
            says(plan(
                "(64,64):(64,1)",
                &format!("({rows_of_box},64)"),
                &format!("({rows_of_box},64):(64,1)"),
                F32,
                blocks
            )),
            format!(
                "a box of [64, {rows_of_box}] cannot be cut into {blocks} equal slices from its last dimension on"
            )
        );
    }
    let good = plan(rows, "(64,32)", "(64,32):(32,1)", F32, 1).unwrap();
    let nested: IntTuple = "((0,0),0)".parse().unwrap();
    assert_eq!(
        good.coordinates(&nested).unwrap_err().to_string(),
        "((0,0),0) has no integer at 1@0"
    );
    assert_eq!(
        says(plan(
            "(8,4,4,4,4,4):(1,16,64,256,1024,4096)",
            "(8,2,2,2,2,2)",
            "(8,2,2,2,2,2):(1,8,16,32,64,128)",
            F32,
            1
        )),
        "dimension 4 would join the modes 2:1024, 2:4096, which are not one progression of addresses"
    );
}

/// What the hardware asks of a map.
#[test]
fn a_map_is_checked_by_itself() {
    let good = plan(
        "(1024,256):(256,1)",
        "(64,32)",
        "(64,32):(32,1)",
        TmaElement::F32,
        1,
    )
    .unwrap()
    .map()
    .clone();
    let says = |change: &dyn Fn(&mut TensorMap)| {
        let mut map = good.clone();
        change(&mut map);
        map.check().unwrap_err().to_string()
    };
    assert_eq!(good.check(), Ok(()));
    assert_eq!(
        says(&|map| map.dims[1] = (1 << 32) + 1),
        "dimension 1 of the tensor has extent 4294967297, not 1 to 2^32"
    );
    assert_eq!(
        says(&|map| map.strides[0] = 1 << 40),
        "dimension 1 of the tensor has a stride of 1099511627776 bytes, not a multiple of 16 from 0 to below 2^40"
    );
    assert_eq!(
        says(&|map| map.element_strides[1] = 9),
        "dimension 1 has an element stride of 9, not 1 to 8"
    );
    assert_eq!(
        says(&|map| map.extents[1] = 0),
        "dimension 1 of the box has extent 0, not 1 to 256"
    );
    assert_eq!(
        says(&|map| map.strides.clear()),
        "a box has 2 coordinates, not 1"
    );
    assert_eq!(
        says(&|map| map.element_strides[0] = 2),
        "the innermost dimension has an element stride of 2: TMA takes each of its elements"
    );
    assert_eq!(
        says(&|map| (map.swizzle, map.extents[0]) = (TmaSwizzle::B128, 16)),
        "a row of the box has 64 bytes, fewer than the 128 of its swizzle: its rows would lie 128 apart"
    );
    assert_eq!(
        says(&|map| (map.element, map.fill) = (TmaElement::U32, OobFill::NanRequestZeroFma)),
        "there is no NaN to stand for elements of U32 outside of the tensor"
    );
    let interleaved = |by: Interleave, change: &dyn Fn(&mut TensorMap)| {
        says(&|map| {
            (map.dims, map.strides) = (vec![24, 4, 2], vec![384, 1536]);
            (map.extents, map.element_strides) = (vec![4, 1, 1], vec![1; 3]);
            map.interleave = by;
            change(map);
        })
    };
    let slices = |bytes: i64, why: &str| {
        format!("a tensor with its channels in slices of {bytes} bytes: {why}")
    };
    assert_eq!(
        interleaved(Interleave::B16, &|map| {
            map.dims.truncate(2);
            map.strides.truncate(1);
            map.extents.truncate(2);
            map.element_strides.truncate(2);
        }),
        slices(16, "it has pixels, slices and images: 3 to 5 dimensions")
    );
    assert_eq!(
        interleaved(Interleave::B16, &|map| map.swizzle = TmaSwizzle::B32),
        slices(16, "slices of 16 bytes are not swizzled")
    );
    assert_eq!(
        interleaved(Interleave::B32, &|_| ()),
        slices(32, "slices of 32 bytes have the swizzle of 32 bytes")
    );
    assert_eq!(
        interleaved(Interleave::B32, &|map| (map.swizzle, map.strides[0]) =
            (TmaSwizzle::B32, 48)),
        slices(32, "its strides are multiples of 32 bytes")
    );
    assert_eq!(
        interleaved(Interleave::B16, &|map| map.extents[1] = 2),
        slices(
            16,
            "a box has one slice of each pixel, an extent of 1 along the slices"
        )
    );
    assert_eq!(
        interleaved(Interleave::B16, &|map| map.element_strides[1] = 2),
        slices(16, "the slices have an element stride of 1")
    );
    assert_eq!(
        interleaved(Interleave::B16, &|map| {
            map.extents.truncate(2);
            map.im2col = Some(PixelBox {
                lower: vec![0],
                upper: vec![0],
            });
        }),
        slices(16, "columns of `im2col` are not supported here")
    );
    assert_eq!(
        interleaved(Interleave::B16, &|map| map.extents[0] = 3),
        "a row of the box has 12 bytes, not a multiple of 16"
    );
    assert_eq!(
        good.check_address(0x1008).unwrap_err().to_string(),
        "the tensor is at 0x1008, which is not a multiple of 16"
    );
    assert_eq!(
        good.loaded(&[0]).unwrap_err().to_string(),
        "a box has 2 coordinates, not 1"
    );
    // A map that the driver encodes, and a box that no shared memory holds.
    let cube = TensorMap {
        element: TmaElement::U8,
        dims: vec![256; 5],
        strides: vec![256, 1 << 16, 1 << 24, 1 << 32],
        extents: vec![256; 5],
        element_strides: vec![1; 5],
        ..good.clone()
    };
    assert_eq!(cube.check(), Ok(()));
    for moved in [cube.loaded(&[0; 5]), cube.stored(&[0; 5])] {
        assert_eq!(
            moved.unwrap_err().to_string(),
            "the box has 1099511627776 bytes, more than the 1048575 that a barrier can count and shared memory can hold"
        );
    }
    // One mebibyte: old drivers encode it rightly; sixteen rows of it they do not.
    assert_eq!(good.tensor_bytes(), 1 << 20);
    assert!(!good.needs_small_tensor_fix(13000));
    let small = TensorMap {
        dims: vec![256, 16],
        ..good
    };
    assert!(small.needs_small_tensor_fix(13010) && !small.needs_small_tensor_fix(13020));
}
