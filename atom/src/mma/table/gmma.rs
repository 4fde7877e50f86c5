//! Hopper's `wgmma.mma_async`, dense and sparse: 16 paragraphs, 2112 operations by CuTe's count.
//!
//! Sources: PTX ISA 9.7.15; CuTe `mma_sm90_gmma*.hpp`, `mma_traits_sm90_gmma*.hpp`.
//! A comes from shared memory (`SS`: every thread sees the whole tile, through a descriptor) or registers (`RS`).

use crate::machine::{Arch::*, PtxVersion};
use crate::mma::row::*;
use crate::number::Ty::{F16, F32, S32};

/// N of every type but the integers: the multiples of 8 to 256.
pub(super) const N_BY_8: &[i64] = &[
    8, 16, 24, 32, 40, 48, 56, 64, 72, 80, 88, 96, 104, 112, 120, 128, 136, 144, 152, 160, 168,
    176, 184, 192, 200, 208, 216, 224, 232, 240, 248, 256,
];
/// N of the integer types: 8, 16, 24 and the multiples of 16 from 32 to 256.
pub(super) const N_INTEGER: &[i64] = &[
    8, 16, 24, 32, 48, 64, 80, 96, 112, 128, 144, 160, 176, 192, 208, 224, 240, 256,
];

/// The accumulator: per warp 16 rows, per row of threads two columns of eight, again for each 8 of N.
const C_64XN: &str = "((4,8,4),(2,2,{N/8})):((128,1,16),(64,8,512))";

const F16_FORM: Form = Form::Async {
    transposable: true,
    negatable: true,
};
const FLOAT_FORM: Form = Form::Async {
    transposable: false,
    negatable: true,
};
const INT_FORM: Form = Form::Async {
    transposable: false,
    negatable: false,
};

/// What all have: one warpgroup, M = 64.
const WARPGROUP: MmaRow = MmaRow {
    since: Sm90a,
    version: PtxVersion(8, 0),
    n: N_BY_8,
    form: FLOAT_FORM,
    thread: "128:1",
    c_layout: C_64XN,
    ..WARP
};
const K16: MmaRow = MmaRow {
    mnk: [64, 0, 16],
    form: F16_FORM,
    a_layout: "((4,8,4),(2,2,2)):((128,1,16),(64,8,512))",
    b_layout: "(128,({N},16)):(0,(1,{N}))",
    ..WARPGROUP
};
const K8: MmaRow = MmaRow {
    mnk: [64, 0, 8],
    a_layout: "((4,8,4),(2,2)):((64,1,16),(8,256))",
    b_layout: "(128,({N},8)):(0,(1,{N}))",
    ..WARPGROUP
};
const K32: MmaRow = MmaRow {
    mnk: [64, 0, 32],
    a_layout: "((4,8,4),(4,2,2)):((256,1,16),(64,8,1024))",
    b_layout: "(128,({N},32)):(0,(1,{N}))",
    ..WARPGROUP
};
const SPARSE_K32: MmaRow = MmaRow {
    version: PtxVersion(8, 2),
    form: F16_FORM,
    rule: Rule::Sparse2Of4,
    e_layout: "((2,2,8,4),(16,2)):((1024,0,1,16),(64,8))",
    ..K32
};
const SPARSE_K16: MmaRow = MmaRow {
    version: PtxVersion(8, 2),
    form: FLOAT_FORM,
    rule: Rule::Sparse1Of2,
    e_layout: "((2,2,8,4),(8,2)):((512,0,1,16),(64,8))",
    ..K16
};
const SPARSE_K64: MmaRow = MmaRow {
    mnk: [64, 0, 64],
    version: PtxVersion(8, 2),
    rule: Rule::Sparse2Of4,
    a_layout: "((4,8,4),(8,2,2)):((512,1,16),(64,8,2048))",
    b_layout: "(128,({N},64)):(0,(1,{N}))",
    e_layout: "((2,2,8,4),(32)):((8,2048,1,16),(64))",
    ..WARPGROUP
};

#[rustfmt::skip] // One family, one paragraph.
pub(super) const ROWS: &[MmaRow] = &[
    MmaRow { name: "SM90_64x{N}x16_F16F16F16_{SS}", ptx: "wgmma.mma_async.sync.aligned.m64n{N}k16.f16.f16.f16",
        ab: F16_F16, c: F16, ..K16 },
    MmaRow { name: "SM90_64x{N}x16_F32F16F16_{SS}", ptx: "wgmma.mma_async.sync.aligned.m64n{N}k16.f32.f16.f16",
        ab: F16_F16, c: F32, ..K16 },
    MmaRow { name: "SM90_64x{N}x16_F32BF16BF16_{SS}", ptx: "wgmma.mma_async.sync.aligned.m64n{N}k16.f32.bf16.bf16",
        ab: BF16_BF16, c: F32, ..K16 },
    MmaRow { name: "SM90_64x{N}x8_F32TF32TF32_{SS}_TN", ptx: "wgmma.mma_async.sync.aligned.m64n{N}k8.f32.tf32.tf32",
        ab: TF32_TF32, c: F32, ..K8 },
    MmaRow { name: "SM90_64x{N}x32_F16{A}{B}_{SS}_TN", ptx: "wgmma.mma_async.sync.aligned.m64n{N}k32.f16.{a}.{b}",
        ab: FP8, c: F16, ..K32 },
    MmaRow { name: "SM90_64x{N}x32_F32{A}{B}_{SS}_TN", ptx: "wgmma.mma_async.sync.aligned.m64n{N}k32.f32.{a}.{b}",
        ab: FP8, c: F32, ..K32 },
    MmaRow { name: "SM90_64x{N}x32_S32{A}{B}_{SS}_TN{_SATURATE}", ptx: "wgmma.mma_async.sync.aligned.m64n{N}k32{.satfinite}.s32.{a}.{b}",
        n: N_INTEGER, ab: INT8_EQUAL, c: S32, saturating: true, form: INT_FORM, ..K32 },
    MmaRow { name: "SM90_64x{N}x32_S32{A}{B}_{SS}_TN{_SATURATE}", ptx: "wgmma.mma_async.sync.aligned.m64n{N}k32{.satfinite}.s32.{a}.{b}",
        version: PtxVersion(8, 4), n: N_INTEGER, ab: INT8_MIXED, c: S32, saturating: true, form: INT_FORM, ..K32 },

    MmaRow { name: "SPARSE::GMMA_64x{N}x32_F16F16F16_{SS}", ptx: "wgmma.mma_async.sp.sync.aligned.m64n{N}k32.f16.f16.f16",
        ab: F16_F16, c: F16, ..SPARSE_K32 },
    MmaRow { name: "SPARSE::GMMA_64x{N}x32_F32F16F16_{SS}", ptx: "wgmma.mma_async.sp.sync.aligned.m64n{N}k32.f32.f16.f16",
        ab: F16_F16, c: F32, ..SPARSE_K32 },
    MmaRow { name: "SPARSE::GMMA_64x{N}x32_F32BF16BF16_{SS}", ptx: "wgmma.mma_async.sp.sync.aligned.m64n{N}k32.f32.bf16.bf16",
        ab: BF16_BF16, c: F32, ..SPARSE_K32 },
    MmaRow { name: "SPARSE::GMMA_64x{N}x16_F32TF32TF32_{SS}_TN", ptx: "wgmma.mma_async.sp.sync.aligned.m64n{N}k16.f32.tf32.tf32",
        ab: TF32_TF32, c: F32, ..SPARSE_K16 },
    MmaRow { name: "SPARSE::GMMA_64x{N}x64_F16{A}{B}_{SS}_TN", ptx: "wgmma.mma_async.sp.sync.aligned.m64n{N}k64.f16.{a}.{b}",
        ab: FP8, c: F16, ..SPARSE_K64 },
    MmaRow { name: "SPARSE::GMMA_64x{N}x64_F32{A}{B}_{SS}_TN", ptx: "wgmma.mma_async.sp.sync.aligned.m64n{N}k64.f32.{a}.{b}",
        ab: FP8, c: F32, ..SPARSE_K64 },
    MmaRow { name: "SPARSE::GMMA_64x{N}x64_S32{A}{B}_{SS}_TN{_SATURATE}", ptx: "wgmma.mma_async.sp.sync.aligned.m64n{N}k64{.satfinite}.s32.{a}.{b}",
        n: N_INTEGER, ab: INT8_EQUAL, c: S32, saturating: true, form: INT_FORM, ..SPARSE_K64 },
    MmaRow { name: "SPARSE::GMMA_64x{N}x64_S32{A}{B}_{SS}_TN{_SATURATE}", ptx: "wgmma.mma_async.sp.sync.aligned.m64n{N}k64{.satfinite}.s32.{a}.{b}",
        version: PtxVersion(8, 4), n: N_INTEGER, ab: INT8_MIXED, c: S32, saturating: true, form: INT_FORM, ..SPARSE_K64 },
];
