//! Copies of one thread and of one warp: loads and stores, `cp.async`, matrices, shuffles.
//!
//! Sources: PTX ISA 9.7.9 (`ld`, `st`, `mov`, `shfl.sync`, `cp.async`), 9.7.14.5 (`ldmatrix`, `stmatrix`,
//! `movmatrix`); CuTe `copy_traits.hpp`, `copy_traits_sm50.hpp`, `copy_traits_sm75.hpp`, `copy_traits_sm80.hpp`,
//! `copy_traits_sm90.hpp`.

use crate::copy::row::*;
use crate::machine::{Arch::*, PtxVersion, Space};

const ASYNC: CopyRow = CopyRow {
    since: Sm80,
    version: PtxVersion(7, 4),
    from: Space::Global,
    to: Space::Shared,
    form: CopyForm::Instruction(&[Argument::Dst, Argument::Src, Argument::Bytes]),
    sizes: Sizes::OneOf(&[32, 64, 128]),
    ..ONE_THREAD
};
const ZFILL: CopyForm = CopyForm::Instruction(&[
    Argument::Dst,
    Argument::Src,
    Argument::Bytes,
    Argument::SourceBytes,
]);

const LOAD_MATRIX: CopyRow = CopyRow {
    since: Sm75,
    version: PtxVersion(6, 5),
    from: Space::Shared,
    to: Space::Register,
    form: CopyForm::Instruction(&[Argument::Dst, Argument::Src]),
    reference: Side::Destination,
    ..WARP
};
const STORE_MATRIX: CopyRow = CopyRow {
    since: Sm90,
    version: PtxVersion(7, 8),
    from: Space::Register,
    to: Space::Shared,
    reference: Side::Source,
    ..LOAD_MATRIX
};
const SHUFFLE: CopyRow = CopyRow {
    ptx: "shfl.sync.bfly.b32",
    version: PtxVersion(6, 0),
    from: Space::Register,
    to: Space::Register,
    src: "(32,64):(64,1)",
    ..WARP
};

// The thread that gives the address of each row of 128 bits: threads 0-7 those of the first matrix, 8-15 those of the second, ...
/// One matrix: the addresses of threads 8-31 are not looked at.
const ROWS_X1: &str = "((8,4),128):((128,0),1)";
/// Two matrices: the addresses of threads 16-31 are not looked at.
const ROWS_X2: &str = "((16,2),128):((128,0),1)";
const ROWS_X4: &str = "(32,128):(128,1)";
// What each thread holds: 32 bits of row t/4 of each matrix; transposed, 16 bits of two rows.
const HELD_X1: &str = "(32,32):(32,1)";
const HELD_X2: &str = "(32,(32,2)):(32,(1,1024))";
const HELD_X4: &str = "(32,(32,4)):(32,(1,1024))";
const TRANSPOSED_X1: &str = "((4,8),(16,2)):((256,16),(1,128))";
const TRANSPOSED_X2: &str = "((4,8),(16,2,2)):((256,16),(1,128,1024))";
const TRANSPOSED_X4: &str = "((4,8),(16,2,4)):((256,16),(1,128,1024))";

#[rustfmt::skip] // One instruction, one paragraph.
pub(super) const ROWS: &[CopyRow] = &[
    CopyRow { name: "UniversalCopy<{T}>", form: CopyForm::Universal, sizes: Sizes::OneOf(&[8, 16, 32, 64, 128]), ..ONE_THREAD },
    // Less than a byte has an owner and no instruction.
    CopyRow { name: "UniversalCopy<{T}>", in_cute: false, sizes: Sizes::OneOf(&[1, 2, 4]), ..ONE_THREAD },
    CopyRow { name: "AutoVectorizingCopyWithAssumedAlignment<{n}>", sizes: Sizes::Nominal, n: &[8, 16, 32, 64, 128],
        src: "(1,1):(0,0)", dst: "(1,1):(0,0)", ..ONE_THREAD },

    CopyRow { name: "SM80_CP_ASYNC_CACHEALWAYS<{T}>", ptx: "cp.async.ca.shared.global{.L2::cache_hint}.L2::128B", ..ASYNC },
    CopyRow { name: "SM80_CP_ASYNC_CACHEALWAYS_ZFILL<{T}>", ptx: "cp.async.ca.shared.global{.L2::cache_hint}.L2::128B", form: ZFILL, ..ASYNC },
    CopyRow { name: "SM80_CP_ASYNC_CACHEGLOBAL<{T}>", ptx: "cp.async.cg.shared.global{.L2::cache_hint}.L2::128B", sizes: Sizes::OneOf(&[128]), ..ASYNC },
    CopyRow { name: "SM80_CP_ASYNC_CACHEGLOBAL_ZFILL<{T}>", ptx: "cp.async.cg.shared.global{.L2::cache_hint}.L2::128B", sizes: Sizes::OneOf(&[128]), form: ZFILL, ..ASYNC },
    // CuTe's traits have them; its operations, like PTX, take 16 bytes only.
    CopyRow { name: "SM80_CP_ASYNC_CACHEGLOBAL<{T}>", form: CopyForm::LayoutOnly, sizes: Sizes::OneOf(&[32, 64]), ..ASYNC },
    CopyRow { name: "SM80_CP_ASYNC_CACHEGLOBAL_ZFILL<{T}>", form: CopyForm::LayoutOnly, sizes: Sizes::OneOf(&[32, 64]), ..ASYNC },

    CopyRow { name: "SM75_U32x1_LDSM_N", ptx: "ldmatrix.sync.aligned.m8n8.x1.shared.b16", src: ROWS_X1, dst: HELD_X1, ..LOAD_MATRIX },
    CopyRow { name: "SM75_U32x2_LDSM_N", ptx: "ldmatrix.sync.aligned.m8n8.x2.shared.b16", src: ROWS_X2, dst: HELD_X2, ..LOAD_MATRIX },
    CopyRow { name: "SM75_U32x4_LDSM_N", ptx: "ldmatrix.sync.aligned.m8n8.x4.shared.b16", src: ROWS_X4, dst: HELD_X4, ..LOAD_MATRIX },
    CopyRow { name: "SM75_U16x2_LDSM_T", ptx: "ldmatrix.sync.aligned.m8n8.x1.trans.shared.b16", src: ROWS_X1, dst: TRANSPOSED_X1, ..LOAD_MATRIX },
    CopyRow { name: "SM75_U16x4_LDSM_T", ptx: "ldmatrix.sync.aligned.m8n8.x2.trans.shared.b16", src: ROWS_X2, dst: TRANSPOSED_X2, ..LOAD_MATRIX },
    CopyRow { name: "SM75_U16x8_LDSM_T", ptx: "ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16", src: ROWS_X4, dst: TRANSPOSED_X4, ..LOAD_MATRIX },

    CopyRow { name: "SM75_U32x1_MOVM_T", ptx: "movmatrix.sync.aligned.m8n8.trans.b16", version: PtxVersion(7, 8),
        from: Space::Register, to: Space::Register, reference: Side::Source, src: HELD_X1, dst: TRANSPOSED_X1,
        defect: Some(Defect { cute_dst: HELD_X1, why: "`movmatrix` transposes, and CuTe's destination layout is that of the source" }), ..LOAD_MATRIX },

    CopyRow { name: "SM90_U32x1_STSM_N", ptx: "stmatrix.sync.aligned.m8n8.x1.shared.b16", src: HELD_X1, dst: ROWS_X1, ..STORE_MATRIX },
    CopyRow { name: "SM90_U32x2_STSM_N", ptx: "stmatrix.sync.aligned.m8n8.x2.shared.b16", src: HELD_X2, dst: ROWS_X2, ..STORE_MATRIX },
    CopyRow { name: "SM90_U32x4_STSM_N", ptx: "stmatrix.sync.aligned.m8n8.x4.shared.b16", src: HELD_X4, dst: ROWS_X4, ..STORE_MATRIX },
    CopyRow { name: "SM90_U16x2_STSM_T", ptx: "stmatrix.sync.aligned.m8n8.x1.trans.shared.b16", src: TRANSPOSED_X1, dst: ROWS_X1, ..STORE_MATRIX },
    CopyRow { name: "SM90_U16x4_STSM_T", ptx: "stmatrix.sync.aligned.m8n8.x2.trans.shared.b16", src: TRANSPOSED_X2, dst: ROWS_X2, ..STORE_MATRIX },
    CopyRow { name: "SM90_U16x8_STSM_T", ptx: "stmatrix.sync.aligned.m8n8.x4.trans.shared.b16", src: TRANSPOSED_X4, dst: ROWS_X4, ..STORE_MATRIX },

    CopyRow { name: "SM50_Shuffle_U32_2x2Trans_XOR1", form: CopyForm::Shuffle(1), dst: "((2,16),(32,2)):((32,128),(1,64))", ..SHUFFLE },
    CopyRow { name: "SM50_Shuffle_U32_2x2Trans_XOR4", form: CopyForm::Shuffle(4), dst: "((4,2,4),(32,2)):((64,32,512),(1,256))", ..SHUFFLE },
];
