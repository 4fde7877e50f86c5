//! Blackwell: thread-value layouts only, for study; no opcode is printed and nothing is computed.
//!
//! Sources: CuTe `mma_traits_sm100.hpp`, `mma_sm100_umma.hpp` (legal M and N), `mma_traits_sm120.hpp`,
//! `mma_traits_sm120_sparse.hpp`. Names carry the template arguments that decide the layouts.

use crate::machine::{Arch::*, PtxVersion};
use crate::mma::row::*;
use crate::number::Ty::{self, *};

/// N of `tcgen05.mma` on one SM.
const N_BY_8: &[i64] = super::gmma::N_BY_8;
/// N of `tcgen05.mma` on a pair of SMs, and of the integers from 16.
const N_BY_16: &[i64] = &[
    16, 32, 48, 64, 80, 96, 112, 128, 144, 160, 176, 192, 208, 224, 240, 256,
];
const N_S8: &[i64] = &[
    8, 16, 32, 48, 64, 80, 96, 112, 128, 144, 160, 176, 192, 208, 224, 240, 256,
];

/// The packed pairs of `fma.rn.f32x2`.
const PACKED_FMA: MmaRow = MmaRow {
    since: Sm100a,
    version: PtxVersion(8, 6),
    form: Form::LayoutOnly,
    ab: &[(F32, F32)],
    thread: "1:0",
    ..WARP
};

/// One thread issues; the operands are whole tiles.
const UMMA: MmaRow = MmaRow {
    since: Sm100a,
    version: PtxVersion(8, 6),
    n: N_BY_8,
    form: Form::LayoutOnly,
    thread: "1:0",
    ..WARP
};
const HALVES: &[(Ty, Ty)] = &[(F16, F16), (Bf16, Bf16)];
const UMMA_K8: MmaRow = MmaRow {
    ab: TF32_TF32,
    b_layout: "(1,({N},8)):(0,(1,{N}))",
    ..UMMA
};
const UMMA_K16: MmaRow = MmaRow {
    ab: HALVES,
    b_layout: "(1,({N},16)):(0,(1,{N}))",
    ..UMMA
};
const UMMA_K32: MmaRow = MmaRow {
    n: N_S8,
    ab: INT8,
    c: S32,
    b_layout: "(1,({N},32)):(0,(1,{N}))",
    ..UMMA
};
/// Two SMs: each holds one half of M, and of N.
const UMMA_PAIR: MmaRow = MmaRow {
    n: N_BY_16,
    ab: HALVES,
    thread: "2:1",
    b_layout: "(2,({N/2},16)):({N/2},(1,{N}))",
    ..UMMA
};

/// The 8-, 6- and 4-bit floats in bytes, every pair.
#[rustfmt::skip] // Five lines of five.
const F8F6F4: &[(Ty, Ty)] = &[
    (E4m3, E4m3), (E4m3, E5m2), (E4m3, E2m3), (E4m3, E3m2), (E4m3, E2m1),
    (E5m2, E4m3), (E5m2, E5m2), (E5m2, E2m3), (E5m2, E3m2), (E5m2, E2m1),
    (E2m3, E4m3), (E2m3, E5m2), (E2m3, E2m3), (E2m3, E3m2), (E2m3, E2m1),
    (E3m2, E4m3), (E3m2, E5m2), (E3m2, E2m3), (E3m2, E3m2), (E3m2, E2m1),
    (E2m1, E4m3), (E2m1, E5m2), (E2m1, E2m3), (E2m1, E3m2), (E2m1, E2m1),
];
const SM120: MmaRow = MmaRow {
    since: Sm120a,
    version: PtxVersion(8, 7),
    form: Form::LayoutOnly,
    mnk: [16, 8, 32],
    ab: F8F6F4,
    stored: Some(U8),
    a_layout: "((4,8),(4,2,2)):((64,1),(16,8,256))",
    b_layout: "((4,8),(4,2)):((32,1),(8,128))",
    c_layout: C_16X8,
    ..WARP
};
const SM120_SPARSE: MmaRow = MmaRow {
    mnk: [16, 8, 64],
    rule: Rule::Sparse2Of4,
    a_layout: "((4,8),(8,2,2)):((128,1),(16,8,512))",
    b_layout: "((4,8),(4,4)):((32,1),(8,128))",
    e_layout: "((2,2,8),32):((8,512,1),16)",
    ..SM120
};
const SCALES_32: [&str; 2] = ["((2,2,8),32):((8,0,1),16)", "((4,8),32):((0,1),8)"];
const SCALES_64: [&str; 2] = ["((2,2,8),64):((8,0,1),16)", "((4,8),64):((0,1),8)"];
const SCALES_128: [&str; 2] = ["((2,2,8),128):((8,0,1),16)", "((4,8),128):((0,1),8)"];
const SM120_4BIT: MmaRow = MmaRow {
    mnk: [16, 8, 64],
    ab: &[(E2m1, E2m1)],
    stored: Some(U4),
    a_layout: "((4,8),(8,2,2)):((128,1),(16,8,512))",
    b_layout: "((4,8),(8,2)):((64,1),(8,256))",
    scale_layouts: Some(SCALES_64),
    ..SM120
};
const SM120_4BIT_SPARSE: MmaRow = MmaRow {
    mnk: [16, 8, 128],
    rule: Rule::Sparse2Of4,
    a_layout: "((4,8),(16,2,2)):((256,1),(16,8,1024))",
    b_layout: "((4,8),(8,4)):((64,1),(8,256))",
    e_layout: "((2,2,8),(64)):((8,1024,1),(16))",
    scale_layouts: Some(SCALES_128),
    ..SM120_4BIT
};

#[rustfmt::skip] // One family, one paragraph.
pub(super) const ROWS: &[MmaRow] = &[
    MmaRow { name: "SM100_2x1x1_F32F32F32F32", mnk: [2, 1, 1],
        a_layout: "(1,2):(0,1)", b_layout: "(1,1):(0,0)", c_layout: "(1,2):(0,1)", ..PACKED_FMA },
    MmaRow { name: "SM100_1x2x1_F32F32F32F32", mnk: [1, 2, 1],
        a_layout: "(1,1):(0,0)", b_layout: "(1,2):(0,1)", c_layout: "(1,2):(0,1)", ..PACKED_FMA },

    MmaRow { name: "SM100_MMA_TF32_SS<{a},{b},f32,64,{N},K,K>", mnk: [64, 0, 8],
        a_layout: "(1,(64,8)):(0,(1,64))", c_layout: "(1,(64,{N})):(0,(1,64))", ..UMMA_K8 },
    MmaRow { name: "SM100_MMA_TF32_SS<{a},{b},f32,128,{N},K,K>", mnk: [128, 0, 8],
        a_layout: "(1,(128,8)):(0,(1,128))", c_layout: "(1,(128,{N})):(0,(1,128))", ..UMMA_K8 },
    MmaRow { name: "SM100_MMA_F16BF16_SS<{a},{b},f32,64,{N},K,K>", mnk: [64, 0, 16],
        a_layout: "(1,(64,16)):(0,(1,64))", c_layout: "(1,(64,{N})):(0,(1,64))", ..UMMA_K16 },
    MmaRow { name: "SM100_MMA_F16BF16_SS<{a},{b},f32,128,{N},K,K>", mnk: [128, 0, 16],
        a_layout: "(1,(128,16)):(0,(1,128))", c_layout: "(1,(128,{N})):(0,(1,128))", ..UMMA_K16 },
    MmaRow { name: "SM100_MMA_S8_SS<{a},{b},s32,64,{N},K,K>", mnk: [64, 0, 32],
        a_layout: "(1,(64,32)):(0,(1,64))", c_layout: "(1,(64,{N})):(0,(1,64))", ..UMMA_K32 },
    MmaRow { name: "SM100_MMA_S8_SS<{a},{b},s32,128,{N},K,K>", mnk: [128, 0, 32],
        a_layout: "(1,(128,32)):(0,(1,128))", c_layout: "(1,(128,{N})):(0,(1,128))", ..UMMA_K32 },
    MmaRow { name: "SM100_MMA_F16BF16_2x1SM_SS<{a},{b},f32,128,{N},K,K>", mnk: [128, 0, 16],
        a_layout: "(2,(64,16)):(64,(1,128))", c_layout: "(2,(64,{N})):(64,(1,128))", ..UMMA_PAIR },
    MmaRow { name: "SM100_MMA_F16BF16_2x1SM_SS<{a},{b},f32,256,{N},K,K>", mnk: [256, 0, 16],
        a_layout: "(2,(128,16)):(128,(1,256))", c_layout: "(2,(128,{N})):(128,(1,256))", ..UMMA_PAIR },

    MmaRow { name: "SM120_16x8x32_TN<{a},{b},f32>", ..SM120 },
    MmaRow { name: "SM120_16x8x32_TN<{a},{b},f16>", c: F16, ..SM120 },
    MmaRow { name: "SM120_BLOCKSCALED_16x8x32_TN_VS<{a},{b},f32,ue8m0,32>", scale_layouts: Some(SCALES_32), ..SM120 },
    MmaRow { name: "SM120_BLOCKSCALED_16x8x64_TN_VS<{a},{b},f32,float_ue8m0_t,32>", ..SM120_4BIT },
    MmaRow { name: "SM120_BLOCKSCALED_16x8x64_TN_VS<{a},{b},f32,float_ue8m0_t,16>", ..SM120_4BIT },
    MmaRow { name: "SM120_BLOCKSCALED_16x8x64_TN_VS<{a},{b},f32,float_ue4m3_t,16>", ..SM120_4BIT },
    MmaRow { name: "SM120_SPARSE_16x8x64_TN<{a},{b},f32>", ..SM120_SPARSE },
    MmaRow { name: "SM120_SPARSE_16x8x64_TN<{a},{b},f16>", c: F16, ..SM120_SPARSE },
    MmaRow { name: "SM120_BLOCKSCALED_SPARSE_16x8x64_TN_VS<{a},{b},f32,ue8m0,64>", scale_layouts: Some(SCALES_64), ..SM120_SPARSE },
    MmaRow { name: "SM120_BLOCKSCALED_SPARSE_16x8x128_TN_VS<{a},{b},f32,float_ue8m0_t,64>", ..SM120_4BIT_SPARSE },
    MmaRow { name: "SM120_BLOCKSCALED_SPARSE_16x8x128_TN_VS<{a},{b},f32,float_ue4m3_t,32>", ..SM120_4BIT_SPARSE },
];
