//! Columns of pixels that no load brings, and arguments that no launch takes.

use colex_atom::{Arch, Taps, Ty};
use colex_ir::Type;
use colex_ir::launch::{Argument, TensorMapArgument};
use colex_tensor::{Arg, Barriers, Builder, Im2colTensor, Index, Role, Tensor, TensorKernel};

use crate::refused;

const TILE: &str = "Sw<3,3,3> o 0 o (32,64):(64,1)";

fn kernel() -> Builder {
    Builder::new("k", Arch::Sm90a, 32)
}

fn activations(k: &mut Builder) -> Im2colTensor {
    k.im2col_tensor("x", Ty::F16, &[3, 3], TILE, 1)
}

/// Activations whose tiles two blocks share, a tile in shared memory and its barrier.
fn of_two_blocks(k: &mut Builder) -> (Im2colTensor, Tensor, Barriers) {
    k.cluster([2, 1, 1]);
    let x = k.im2col_tensor("x", Ty::F16, &[3, 3], TILE, 2);
    (x, k.shared_tensor(Ty::F16, TILE), k.barriers(1))
}

/// The sentence of a load at the given channels and tap into a tile.
fn load(channels: Index, taps: [i64; 2], tile: &'static str) -> String {
    refused(kernel(), activations, move |k, x| {
        let (shared, landed) = (k.shared_tensor(Ty::F16, tile), k.barriers(1));
        let pixels = k.im2col_pixels(&x, &0.into(), &0.into());
        let tap = taps.map(Index::from);
        k.im2col_load(&x, &pixels, &channels, &tap[..], &shared, &landed.at(0));
    })
}

#[test]
fn columns_that_no_load_brings() {
    let declared = |shared: &'static str, taps: &'static [i64]| {
        refused(
            kernel(),
            |_| (),
            move |k, ()| {
                k.im2col_tensor("x", Ty::F16, taps, shared, 1);
            },
        )
    };
    let shared_by_two = refused(kernel(), of_two_blocks, |k, (x, shared, landed)| {
        let pixels = k.im2col_pixels(&x, &0.into(), &0.into());
        k.im2col_load(&x, &pixels, &0.into(), (0, 0), &shared, &landed.at(0));
    });
    let before = refused(kernel(), activations, |k, x| {
        k.im2col_pixels(&x, &(-1).into(), &0.into());
    });
    let other_rank = refused(kernel(), activations, |k, x| {
        k.im2col_pixels(&x, &0.into(), &1.into());
    });
    let third_of_two = refused(kernel(), of_two_blocks, |k, (x, shared, landed)| {
        let mask = k.emit(|ir| ir.mov(Type::B16, 0b11));
        let (pixels, rank) = (k.im2col_pixels(&x, &0.into(), &1.into()), 2.into());
        let (first, full) = (0.into(), landed.at(0));
        k.im2col_load_multicast(&x, &pixels, &first, (0, 0), &shared, &full, (&rank, mask));
    });
    let few = refused(kernel(), activations, |k, x| {
        let (shared, landed) = (k.shared_tensor(Ty::F16, TILE), k.barriers(1));
        let pixels = k.im2col_pixels(&x, &0.into(), &0.into());
        k.im2col_load(&x, &pixels, &0.into(), 1, &shared, &landed.at(0));
    });
    assert_eq!(
        [
            declared("(2,16,64):(1024,64,1)", &[3, 3]),
            declared("((16,2),(32,2)):((32,1024),(1,512))", &[3, 3]),
            declared(TILE, &[3, 3, 3, 3]),
            shared_by_two,
            before,
            other_rank,
            third_of_two,
            few,
            load(0.into(), [3, 0], TILE),
            load((-1).into(), [0, 0], TILE),
            load(0.into(), [0, 0], "Sw<3,3,3> o 0 o (16,64):(64,1)"),
        ],
        [
            "im2col_tensor: x: a column fills shared memory along the channels first, then along the pixels: a layout of \
             (pixels,channels) whose channels are contiguous",
            "im2col_tensor: x: the tile ((16,2),(32,2)):((32,1024),(1,512)) is several columns of fewer pixels: all pixels of some \
             channels lie side by side",
            "im2col_tensor: x: an im2col map has 3 to 5 dimensions, channels, one to three of pixels, and images, not 6",
            "im2col_load: x: it is shared by 2 blocks: `im2col_load_multicast` if several, else `im2col_load`",
            "im2col_pixels: x: the coordinate -1 may be -1, and the first tile is 0",
            "im2col_pixels: x: the rank 1 lies from 1 to 1, and the blocks that share a tile have ranks 0 to 0",
            "im2col_load_multicast: x: the rank 2 lies from 2 to 2, and the blocks that share a tile have ranks 0 to 1",
            "im2col_load: x: 1 taps and 3 coordinates of a pixel for 2 dimensions",
            "im2col_load: x: the tap 3 lies from 3 to 3, and the filter has taps 0 to 2",
            "im2col_load: x: the coordinate -1 may be -1, and the first channels are 0",
            "im2col_load: x: the tensor in shared memory is Sw<3,3,3> o 0 o (_16,_64):(_64,_1), and the map's tile Sw<3,3,3> o 0 o \
             (32,64):(64,1)",
        ]
    );
}

fn built() -> TensorKernel {
    let mut k = kernel();
    activations(&mut k);
    k.finish().expect("a kernel")
}

#[test]
fn arguments_that_no_launch_takes() {
    let built = built();
    let three = [Taps::new(3); 2];
    let refused = |name: &str, layout: &str, taps: &[Taps]| {
        let error = built.im2col_arguments(name, layout, taps);
        error.expect_err("it is refused").to_string()
    };
    let (map, _) = built
        .im2col_arguments("x", "(64,8,6,2):(1,64,512,3072)", &three)
        .expect("a map");
    let narrow = {
        let mut k = kernel();
        k.im2col_tensor("x", Ty::F16, &[3, 3], "Sw<2,3,3> o 0 o (32,32):(32,1)", 1);
        k.finish().expect("a kernel")
    };
    let bound = Argument::from(TensorMapArgument {
        map,
        address: 0,
        encoded: None,
    });
    let numbers = [8_u32, 1, 1, 1, 6, 1, 1, 1].map(|n| Arg::Value(n.into()));
    let given: Vec<Arg<'_>> = [Arg::Value(bound)].into_iter().chain(numbers).collect();
    assert!(built.arguments(&given).is_ok());
    let other = narrow.arguments(&given).expect_err("it is refused");
    let mut scalar = given.clone();
    scalar[0] = Arg::Value(1_u32.into());
    let scalar = built.arguments(&scalar).expect_err("it is refused");
    assert_eq!(
        [
            refused("y", "(64,8,6,2):(1,64,512,3072)", &three),
            refused("x", "(64,8,6,2):(1,64,512,3072)", &three[..1]),
            refused("x", "(64,2,6,2):(1,64,128,768)", &three),
            other.to_string(),
            scalar.to_string(),
        ],
        [
            "the kernel k has no activations called y",
            "tensor x: a filter of [3] taps, and the kernel is built for [3, 3]",
            "tensor x: the filter along dimension 1 has nowhere to stand: its taps, stride and dilation are at least 1, and it is \
             no longer than the 2 pixels with their padding",
            "tensor x: the map given moves columns of [64, 32] of F16 in 4 dimensions, swizzle B128, and the kernel is built for \
             columns of [32, 32] of F16 in 4 dimensions, swizzle B64",
            "argument x is a tensor map: bind one to its memory",
        ]
    );
}

#[test]
fn an_exported_kernel_says_how_its_columns_are_mapped() {
    let exported = built().export().expect("a kernel");
    let names: Vec<&str> = exported.parameters.iter().map(|p| &p.name[..]).collect();
    assert_eq!(
        names,
        [
            "x",
            "x_positions_0",
            "x_stride_0",
            "x_padding_0",
            "x_dilation_0",
            "x_positions_1",
            "x_stride_1",
            "x_padding_1",
            "x_dilation_1"
        ]
    );
    let Role::Im2colMap(map) = &exported.parameters[0].role else {
        panic!("{:?}", exported.parameters[0]);
    };
    assert_eq!(
        (map.channels, map.pixels, &map.taps[..]),
        (64, 32, &[3, 3][..])
    );
    let header = exported.c_header();
    for line in [
        "#define K_X_TAPS {3, 3}",
        "#define K_X_CHANNELS 64",
        "#define K_X_PIXELS 32",
        "#define K_X_SWIZZLE 3 /* CU_TENSOR_MAP_SWIZZLE_128B */",
    ] {
        assert!(header.contains(line), "{header}");
    }
}
