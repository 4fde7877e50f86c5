//! Blackwell: thread-value layouts only, for study; no opcode is printed.
//!
//! Sources: CuTe `copy_traits_sm100.hpp`, `copy_traits_sm100_tma.hpp`, `copy_traits_sm100_im2col.hpp`.

use crate::copy::row::*;
use crate::machine::{Arch::*, PtxVersion, Space};

const SM100: CopyRow = CopyRow {
    since: Sm100a,
    version: PtxVersion(8, 6),
    ..ONE_THREAD
};
const LOAD_MATRIX: CopyRow = CopyRow {
    thread: "32:1",
    from: Space::Shared,
    to: Space::Register,
    reference: Side::Destination,
    ..SM100
};
const STORE_MATRIX: CopyRow = CopyRow {
    thread: "32:1",
    from: Space::Register,
    to: Space::Shared,
    reference: Side::Source,
    ..SM100
};
const ROWS_X1: &str = "((8,4),128):((128,0),1)";
const ROWS_X2: &str = "((16,2),128):((128,0),1)";
const ROWS_X4: &str = "(32,128):(128,1)";
const HELD_X1: &str = "(32,32):(32,1)";
const HELD_X2: &str = "(32,(32,2)):(32,(1,1024))";
const HELD_X4: &str = "(32,(32,4)):(32,(1,1024))";

/// A pair of SMs loads a tile each.
const PAIR: CopyRow = CopyRow {
    from: Space::Global,
    to: Space::Cluster,
    sizes: Sizes::Multiple(128),
    n: &[1, 2, 3, 4, 5],
    thread: "2:1",
    src: "(2,{bits}):({bits},1)",
    dst: "(2,{bits}):({bits},1)",
    ..SM100
};
const PIXELS: &[i64] = &[3, 4, 5];
/// Rows of a matrix by index.
const GATHER: CopyRow = CopyRow {
    thread: "1:0",
    n: &[],
    src: ONE_THREAD.src,
    dst: ONE_THREAD.dst,
    ..PAIR
};

/// From shared memory to tensor memory; one thread of one block, or of each of two.
const UTCCP: CopyRow = CopyRow {
    from: Space::Shared,
    to: Space::Tensor,
    ..SM100
};

/// A load from tensor memory, and the store that undoes it.
macro_rules! tensor_memory {
    ($shape:literal, $n:expr, $value:literal, $packed:literal, $memory:literal, $registers:literal) => {
        [
            CopyRow {
                name: concat!("SM100_TMEM_LOAD_", $shape),
                from: Space::Tensor,
                to: Space::Register,
                n: $n,
                value: [$value, $packed],
                src: $memory,
                dst: $registers,
                reference: Side::Source,
                thread: "32:1",
                ..SM100
            },
            CopyRow {
                name: concat!("SM100_TMEM_STORE_", $shape),
                from: Space::Register,
                to: Space::Tensor,
                n: $n,
                value: [$value, $packed],
                src: $registers,
                dst: $memory,
                reference: Side::Destination,
                thread: "32:1",
                ..SM100
            },
        ]
    };
}

/// What the tensor cores accumulated, as it is held by a warp; `2097152` bits are one datapath.
#[rustfmt::skip] // One pattern, one paragraph.
pub(super) const TENSOR_MEMORY: &[[CopyRow; 2]] = &[
    tensor_memory!("16dp256b{n}x", &[1], "({256*n},16):(1,2097152)", "((16,{16*n}),16):((1,32),2097152)",
        "(32,{4096*n}):(0,1)", "((4,8),(64,2)):((64,256),(1,2048))"),
    tensor_memory!("16dp256b{n}x", &[2, 4, 8, 16, 32], "({256*n},16):(1,2097152)", "((16,{16*n}),16):((1,32),2097152)",
        "(32,{4096*n}):(0,1)", "((4,8),(64,2,{n})):((64,{256*n}),(1,{2048*n},256))"),
    tensor_memory!("16dp128b{n}x", &[1], "({128*n},16):(1,2097152)", "((16,{8*n}),16):((1,32),2097152)",
        "(32,{2048*n}):(0,1)", "((4,8),(32,2)):((32,128),(1,1024))"),
    tensor_memory!("16dp128b{n}x", &[2, 4, 8, 16, 32, 64], "({128*n},16):(1,2097152)", "((16,{8*n}),16):((1,32),2097152)",
        "(32,{2048*n}):(0,1)", "((4,8),(32,2,{n})):((32,{128*n}),(1,{1024*n},128))"),
    tensor_memory!("16dp64b{n}x", &[1], "({64*n},16):(1,2097152)", "((16,{4*n}),16):((1,32),2097152)",
        "(32,{1024*n}):(0,1)", "((2,2,8),32):((512,32,64),1)"),
    tensor_memory!("16dp64b{n}x", &[2, 4, 8, 16, 32, 64, 128], "({64*n},16):(1,2097152)", "((16,{4*n}),16):((1,32),2097152)",
        "(32,{1024*n}):(0,1)", "((2,2,8),(32,{n})):(({512*n},32,{64*n}),(1,64))"),
    tensor_memory!("16dp32b{n}x", &[1, 2, 4, 8, 16, 32, 64, 128], "({64*n},16):(1,2097152)", "((16,{4*n}),16):((1,32),2097152)",
        "(32,{1024*n}):(0,1)", "((16,2),{32*n}):(({64*n},{32*n}),1)"),
    tensor_memory!("32dp32b{n}x", &[1, 2, 4, 8, 16, 32, 64, 128], "({32*n},32):(1,2097152)", "((16,{2*n}),32):((1,32),2097152)",
        "(32,{1024*n}):(0,1)", "(32,{32*n}):({32*n},1)"),
];

#[rustfmt::skip] // One instruction, one paragraph.
pub(super) const ROWS: &[CopyRow] = &[
    CopyRow { name: "SM100_LOAD_256bit_CACHE_NOALLOCATION", sizes: Sizes::OneOf(&[256]), ..SM100 },
    CopyRow { name: "SM100_STORE_256bit_CACHE_NOALLOCATION", from: Space::Register, to: Space::Global, sizes: Sizes::OneOf(&[256]), ..SM100 },

    CopyRow { name: "SM100_U8x8_LDSM_T", src: "((2,2,4,2),128):((128,1024,256,0),1)", dst: "((4,8),(8,2,2,2)):((256,8),(1,128,64,1024))", ..LOAD_MATRIX },
    CopyRow { name: "SM100_U8x16_LDSM_T", src: "((2,2,4,2),128):((128,1024,256,2048),1)", dst: "((4,8),(8,2,2,4)):((256,8),(1,128,64,1024))", ..LOAD_MATRIX },
    CopyRow { name: "SM100_SU4_DU8x16_x1_LDSM_N", src: ROWS_X1, dst: HELD_X1, ..LOAD_MATRIX },
    CopyRow { name: "SM100_SU6_DU8x16_x1_LDSM_N", src: ROWS_X1, dst: HELD_X1, ..LOAD_MATRIX },
    CopyRow { name: "SM100_SU4_DU8x16_x2_LDSM_N", src: ROWS_X2, dst: HELD_X2, ..LOAD_MATRIX },
    CopyRow { name: "SM100_SU6_DU8x16_x2_LDSM_N", src: ROWS_X2, dst: HELD_X2, ..LOAD_MATRIX },
    CopyRow { name: "SM100_SU4_DU8x16_x4_LDSM_N", src: ROWS_X4, dst: HELD_X4, ..LOAD_MATRIX },
    CopyRow { name: "SM100_SU6_DU8x16_x4_LDSM_N", src: ROWS_X4, dst: HELD_X4, ..LOAD_MATRIX },
    CopyRow { name: "SM100_U8x4_STSM_T", src: "((4,8),(8,2,2)):((256,8),(1,128,64))", dst: ROWS_X1, ..STORE_MATRIX },
    CopyRow { name: "SM100_U8x8_STSM_T", src: "((4,8),(8,2,2,2)):((256,8),(1,128,64,1024))", dst: ROWS_X2, ..STORE_MATRIX },
    CopyRow { name: "SM100_U8x16_STSM_T", src: "((4,8),(8,2,2,4)):((256,8),(1,128,64,1024))", dst: ROWS_X4, ..STORE_MATRIX },

    CopyRow { name: "SM100_TMEM_LOAD_STAT_32dp32b{n}x", n: &[32, 128], from: Space::Tensor, thread: "32:1",
        value: ["({32*n},32):(1,2097152)", ""], src: "(32,{1024*n}):(0,1)", dst: "(32,{32*n}):({32*n},1)", ..SM100 },

    CopyRow { name: "SM100_TMA_2SM_LOAD_{n}D", ..PAIR },
    CopyRow { name: "SM100_TMA_2SM_LOAD_MULTICAST_{n}D", ..PAIR },
    CopyRow { name: "SM100_TMA_2SM_LOAD_IM2COL_{n}D", n: PIXELS, ..PAIR },
    CopyRow { name: "SM100_TMA_2SM_LOAD_IM2COL_MULTICAST_{n}D", n: PIXELS, ..PAIR },
    CopyRow { name: "SM100_TMA_LOAD_2D_GATHER4", ..GATHER },
    CopyRow { name: "SM100_TMA_LOAD_MULTICAST_2D_GATHER4", ..GATHER },
    CopyRow { name: "SM100_TMA_STORE_2D_SCATTER4", from: Space::Shared, to: Space::Global, ..GATHER },

    CopyRow { name: "SM100_UTCCP_128dp256bit_1cta", value: ["(128,256):(2097152,1)", ""], src: "(1,32768):(0,1)", dst: "(1,32768):(0,1)", ..UTCCP },
    CopyRow { name: "SM100_UTCCP_128dp256bit_2cta", value: ["(128,256):(2097152,1)", ""], thread: "2:1", src: "(2,32768):(0,1)", dst: "(2,32768):(0,1)", ..UTCCP },
    CopyRow { name: "SM100_UTCCP_128dp128bit_1cta", value: ["(128,128):(2097152,1)", ""], src: "(1,16384):(0,1)", dst: "(1,16384):(0,1)", ..UTCCP },
    CopyRow { name: "SM100_UTCCP_128dp128bit_2cta", value: ["(128,128):(2097152,1)", ""], thread: "2:1", src: "(2,16384):(0,1)", dst: "(2,16384):(0,1)", ..UTCCP },
    CopyRow { name: "SM100_UTCCP_4dp256bit_1cta", value: ["(128,256):(2097152,1)", ""], src: "(1,(4,256)):(0,(32,128))", dst: "(1,(4,256)):(0,(32,128))", ..UTCCP },
    CopyRow { name: "SM100_UTCCP_4dp256bit_2cta", value: ["(128,256):(2097152,1)", ""], thread: "2:1", src: "(2,(4,256)):(0,(32,128))", dst: "(2,(4,256)):(0,(32,128))", ..UTCCP },
    CopyRow { name: "SM100_UTCCP_4x32dp128bit_1cta", value: ["(32,128,4):(2097152,1,67108864)", ""],
        src: "(1,(32,128,4)):(0,(1,32,0))", dst: "(1,16384):(0,1)", reference: Side::Destination, ..UTCCP },
    CopyRow { name: "SM100_UTCCP_4x32dp128bit_2cta", value: ["(32,128,4):(2097152,1,67108864)", ""], thread: "2:1",
        src: "(2,(32,128,4)):(0,(1,32,0))", dst: "(2,16384):(0,1)", reference: Side::Destination, ..UTCCP },
    CopyRow { name: "SM100_UTCCP_2x64dp128bitlw0213_1cta", value: ["(64,128,2):(2097152,1,134217728)", ""],
        src: "(1,(64,128,2)):(0,(1,64,0))", dst: "(1,16384):(0,1)", reference: Side::Destination, ..UTCCP },
    CopyRow { name: "SM100_UTCCP_2x64dp128bitlw0213_2cta", value: ["(64,128,2):(2097152,1,134217728)", ""], thread: "2:1",
        src: "(2,(64,128,2)):(0,(1,64,0))", dst: "(2,16384):(0,1)", reference: Side::Destination, ..UTCCP },
    CopyRow { name: "SM100_UTCCP_2x64dp128bitlw0123_1cta", value: ["(32,128,2,2):(2097152,1,134217728,67108864)", ""],
        src: "(1,(32,128,2,2)):(0,(1,32,4096,0))", dst: "(1,16384):(0,1)", reference: Side::Destination, ..UTCCP },
    CopyRow { name: "SM100_UTCCP_2x64dp128bitlw0123_2cta", value: ["(32,128,2,2):(2097152,1,134217728,67108864)", ""], thread: "2:1",
        src: "(2,(32,128,2,2)):(0,(1,32,4096,0))", dst: "(2,16384):(0,1)", reference: Side::Destination, ..UTCCP },
];
