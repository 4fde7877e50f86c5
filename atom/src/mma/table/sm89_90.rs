//! Ada, and Hopper's `mma.sync`.
//!
//! Sources: PTX ISA 9.7.14.5; CuTe `mma_sm89.hpp`, `mma_sm90.hpp`, `mma_traits_sm89.hpp`, `mma_traits_sm90.hpp`.

use crate::machine::{Arch::*, PtxVersion};
use crate::mma::row::*;
use crate::number::Ty::{C64, F16, F32, F64};

/// Hopper's 64-bit shapes.
const F64_SM90: MmaRow = MmaRow {
    since: Sm90,
    version: PtxVersion(7, 8),
    ab: F64_F64,
    c: F64,
    c_layout: C_16X8,
    ..WARP
};
const C64_SM90: MmaRow = MmaRow {
    ab: C64_C64,
    c: C64,
    rule: Rule::PlanarComplex,
    ..F64_SM90
};

#[rustfmt::skip] // One instruction, one paragraph.
pub(super) const ROWS: &[MmaRow] = &[
    MmaRow { name: "SM89_16x8x32_F32{A}{B}F32_TN", ptx: "mma.sync.aligned.m16n8k32.row.col.f32.{a}.{b}.f32",
        since: Sm89, version: PtxVersion(8, 4), mnk: [16, 8, 32], ab: FP8, c: F32,
        a_layout: "((4,8),(4,2,2)):((64,1),(16,8,256))", b_layout: "((4,8),(4,2)):((32,1),(8,128))", c_layout: C_16X8, ..WARP },
    MmaRow { name: "SM89_16x8x32_F16{A}{B}F16_TN", ptx: "mma.sync.aligned.m16n8k32.row.col.f16.{a}.{b}.f16",
        since: Sm89, version: PtxVersion(8, 7), mnk: [16, 8, 32], ab: FP8, c: F16,
        a_layout: "((4,8),(4,2,2)):((64,1),(16,8,256))", b_layout: "((4,8),(4,2)):((32,1),(8,128))", c_layout: C_16X8, ..WARP },

    MmaRow { name: "SM90_16x8x4_F64F64F64F64_TN", ptx: "mma.sync.aligned.m16n8k4.row.col.f64.f64.f64.f64",
        mnk: [16, 8, 4], a_layout: "((4,8),2):((16,1),8)", b_layout: "((4,8),1):((8,1),0)", ..F64_SM90 },
    MmaRow { name: "SM90_16x8x8_F64F64F64F64_TN", ptx: "mma.sync.aligned.m16n8k8.row.col.f64.f64.f64.f64",
        mnk: [16, 8, 8], a_layout: "((4,8),(2,2)):((16,1),(8,64))", b_layout: "((4,8),2):((8,1),32)", ..F64_SM90 },
    MmaRow { name: "SM90_16x8x16_F64F64F64F64_TN", ptx: "mma.sync.aligned.m16n8k16.row.col.f64.f64.f64.f64",
        mnk: [16, 8, 16], a_layout: "((4,8),(2,4)):((16,1),(8,64))", b_layout: "((4,8),4):((8,1),32)", ..F64_SM90 },
    MmaRow { name: "SM90_16x8x4_C64C64C64C64_TN", ptx: "mma.sync.aligned.m16n8k4.row.col.f64.f64.f64.f64",
        mnk: [16, 8, 4], a_layout: "((4,8),2):((16,1),8)", b_layout: "((4,8),1):((8,1),0)", ..C64_SM90 },
    MmaRow { name: "SM90_16x8x8_C64C64C64C64_TN", ptx: "mma.sync.aligned.m16n8k8.row.col.f64.f64.f64.f64",
        mnk: [16, 8, 8], a_layout: "((4,8),(2,2)):((16,1),(8,64))", b_layout: "((4,8),2):((8,1),32)", ..C64_SM90 },
    MmaRow { name: "SM90_16x8x16_C64C64C64C64_TN", ptx: "mma.sync.aligned.m16n8k16.row.col.f64.f64.f64.f64",
        mnk: [16, 8, 16], a_layout: "((4,8),(2,4)):((16,1),(8,64))", b_layout: "((4,8),4):((8,1),32)", ..C64_SM90 },
];
