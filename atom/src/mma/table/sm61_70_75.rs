//! Pascal's dot products, Volta, Turing.
//!
//! Sources: PTX ISA 9.7.1 (`dp4a`, `dp2a`, `fma`, `mad`), 9.7.14.5 (`mma`); CuTe `mma_traits_sm61.hpp`,
//! `mma_traits_sm70.hpp`, `mma_traits_sm75.hpp`, `mma_traits.hpp`.

use crate::machine::{Arch::*, PtxVersion};
use crate::mma::row::*;
use crate::number::Ty::{F16, F32, F64, S32};

/// One multiply-add in one thread.
const SCALAR: MmaRow = MmaRow {
    since: Sm50,
    version: PtxVersion(4, 0),
    form: Form::Scalar,
    mnk: [1, 1, 1],
    thread: "1:0",
    a_layout: "(1,1):(0,0)",
    b_layout: "(1,1):(0,0)",
    c_layout: "(1,1):(0,0)",
    ..WARP
};

/// A quad-pair: eight threads of a warp, four of the lower half and the four 16 above them.
const QUAD_PAIR: MmaRow = MmaRow {
    since: Sm70,
    version: PtxVersion(6, 4),
    mnk: [8, 8, 4],
    ab: F16_F16,
    thread: "(4,2):(1,16)",
    ..WARP
};

/// An operand of Volta as its thread reads it from a K-major matrix: one row of M (or N) each.
const K_MAJOR: &str = "(8,4):(1,8)";
/// And from an M-major (or N-major) matrix: four neighbours along M each, one step of K per thread.
const MN_MAJOR: &str = "((4,2),4):((8,4),1)";
/// Volta's accumulators.
const C_F16: &str = "(8,8):(1,8)";
const C_F32: &str = "((2,2,2),(2,2,2)):((1,16,4),(8,2,32))";

#[rustfmt::skip] // One instruction, one paragraph.
pub(super) const ROWS: &[MmaRow] = &[
    MmaRow { name: "UniversalFMA<float>", ptx: "fma.rn.f32", ab: &[(F32, F32)], c: F32, ..SCALAR },
    MmaRow { name: "UniversalFMA<double>", ptx: "fma.rn.f64", ab: &[(F64, F64)], c: F64, ..SCALAR },
    MmaRow { name: "UniversalFMA<half_t>", ptx: "fma.rn.f16", since: Sm61, version: PtxVersion(5, 0), ab: F16_F16, c: F16, ..SCALAR },
    MmaRow { name: "UniversalFMA<int32_t>", ptx: "mad.lo.s32", ab: &[(S32, S32)], c: S32, ..SCALAR },

    MmaRow { name: "SM61_DP4A", ptx: "dp4a.s32.s32", since: Sm61, version: PtxVersion(5, 0), mnk: [1, 1, 4], ab: S8_S8, c: S32,
        a_layout: "(1,4):(0,1)", b_layout: "(1,4):(0,1)", ..SCALAR },
    // Two 16-bit times two 8-bit numbers, the latter in the low half of B's register. CuTe types B as 16-bit and
    // leaves the `.lo` out, which no assembler takes.
    MmaRow { name: "SM61_DP2A", ptx: "dp2a.lo.s32.s32", since: Sm61, version: PtxVersion(5, 0), mnk: [1, 1, 2], ab: S16_S8, c: S32,
        a_layout: "(1,2):(0,1)", b_layout: "(1,2):(0,1)", ..SCALAR },

    MmaRow { name: "SM70_8x8x4_F16F16F16F16_TN", ptx: "mma.sync.aligned.m8n8k4.row.col.f16.f16.f16.f16",
        c: F16, a_layout: K_MAJOR, b_layout: K_MAJOR, c_layout: C_F16, ..QUAD_PAIR },
    MmaRow { name: "SM70_8x8x4_F16F16F16F16_NT", ptx: "mma.sync.aligned.m8n8k4.col.row.f16.f16.f16.f16",
        c: F16, a_layout: MN_MAJOR, b_layout: MN_MAJOR, c_layout: C_F16, ..QUAD_PAIR },
    MmaRow { name: "SM70_8x8x4_F16F16F16F16_NN", ptx: "mma.sync.aligned.m8n8k4.col.col.f16.f16.f16.f16",
        c: F16, a_layout: MN_MAJOR, b_layout: K_MAJOR, c_layout: C_F16, ..QUAD_PAIR },
    MmaRow { name: "SM70_8x8x4_F16F16F16F16_TT", ptx: "mma.sync.aligned.m8n8k4.row.row.f16.f16.f16.f16",
        c: F16, a_layout: K_MAJOR, b_layout: MN_MAJOR, c_layout: C_F16, ..QUAD_PAIR },
    MmaRow { name: "SM70_8x8x4_F32F16F16F32_TN", ptx: "mma.sync.aligned.m8n8k4.row.col.f32.f16.f16.f32",
        c: F32, a_layout: K_MAJOR, b_layout: K_MAJOR, c_layout: C_F32, ..QUAD_PAIR },
    MmaRow { name: "SM70_8x8x4_F32F16F16F32_NT", ptx: "mma.sync.aligned.m8n8k4.col.row.f32.f16.f16.f32",
        c: F32, a_layout: MN_MAJOR, b_layout: MN_MAJOR, c_layout: C_F32, ..QUAD_PAIR },
    MmaRow { name: "SM70_8x8x4_F32F16F16F32_NN", ptx: "mma.sync.aligned.m8n8k4.col.col.f32.f16.f16.f32",
        c: F32, a_layout: MN_MAJOR, b_layout: K_MAJOR, c_layout: C_F32, ..QUAD_PAIR },
    MmaRow { name: "SM70_8x8x4_F32F16F16F32_TT", ptx: "mma.sync.aligned.m8n8k4.row.row.f32.f16.f16.f32",
        c: F32, a_layout: K_MAJOR, b_layout: MN_MAJOR, c_layout: C_F32, ..QUAD_PAIR },

    MmaRow { name: "SM75_16x8x8_F32F16F16F32_TN", ptx: "mma.sync.aligned.m16n8k8.row.col.f32.f16.f16.f32",
        since: Sm75, version: PtxVersion(6, 5), mnk: [16, 8, 8], ab: F16_F16, c: F32,
        a_layout: "((4,8),(2,2)):((32,1),(16,8))", b_layout: "((4,8),2):((16,1),8)", c_layout: C_16X8, ..WARP },
    MmaRow { name: "SM75_16x8x8_F16F16F16F16_TN", ptx: "mma.sync.aligned.m16n8k8.row.col.f16.f16.f16.f16",
        since: Sm75, version: PtxVersion(6, 5), mnk: [16, 8, 8], ab: F16_F16, c: F16,
        a_layout: "((4,8),(2,2)):((32,1),(16,8))", b_layout: "((4,8),2):((16,1),8)", c_layout: C_16X8, ..WARP },
    MmaRow { name: "SM75_8x8x16_S32S8S8S32_TN", ptx: "mma.sync.aligned.m8n8k16.row.col.s32.s8.s8.s32",
        since: Sm75, version: PtxVersion(6, 5), mnk: [8, 8, 16], ab: S8_S8, c: S32,
        a_layout: "((4,8),4):((32,1),8)", b_layout: "((4,8),4):((32,1),8)", c_layout: C_8X8, ..WARP },
];
