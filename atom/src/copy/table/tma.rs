//! The tensor memory accelerator and bulk copies: one thread asks, the hardware moves.
//!
//! Sources: PTX ISA 9.7.9 (`cp.async.bulk`, `cp.reduce.async.bulk` and their `.tensor` and `.prefetch` forms);
//! CuTe `copy_sm90_tma.hpp`, `copy_traits_sm90_tma.hpp`, `copy_traits_sm90_im2col.hpp`. CuTe has no reduction but
//! `add`, no bulk multicast, no copy to another block's shared memory and no bulk reduction: those names are made
//! like its own.
//!
//! The copies between blocks (`S2S`) want a kernel that is launched in clusters: in one without, an H200 ends them in an
//! illegal instruction, at every address.

use crate::copy::row::*;
use crate::copy::{Reduction::*, Scalar::*};
use crate::machine::{Arch::*, PtxVersion, Space};

/// What every row here shares.
const ASYNC: CopyRow = CopyRow {
    since: Sm90,
    version: PtxVersion(8, 0),
    sizes: Sizes::Multiple(128),
    ..ONE_THREAD
};
const LOAD: CopyRow = CopyRow {
    from: Space::Global,
    to: Space::Cluster,
    form: CopyForm::Instruction(&[Argument::Dst, Argument::Tensor, Argument::Barrier]),
    n: &[1, 2, 3, 4, 5],
    ..ASYNC
};
const PREFETCH: CopyRow = CopyRow {
    to: Space::L2,
    form: CopyForm::Instruction(&[Argument::Tensor]),
    ..LOAD
};
const STORE: CopyRow = CopyRow {
    from: Space::Shared,
    to: Space::Global,
    form: CopyForm::Instruction(&[Argument::Tensor, Argument::Src]),
    ..LOAD
};
/// The reductions of tensors: the tensor map has the type.
const REDUCE: CopyRow = CopyRow {
    in_cute: false,
    reductions: &[
        (Min, Mapped),
        (Max, Mapped),
        (Inc, Mapped),
        (Dec, Mapped),
        (And, Mapped),
        (Or, Mapped),
        (Xor, Mapped),
    ],
    ..STORE
};
const ADD: &[(crate::copy::Reduction, crate::copy::Scalar)] = &[(Add, Mapped)];
/// `im2col` needs at least one pixel coordinate between the channels and the images.
const PIXELS: &[i64] = &[3, 4, 5];

const BULK_LOAD: CopyRow = CopyRow {
    from: Space::Global,
    to: Space::Cluster,
    form: CopyForm::Instruction(&[
        Argument::Dst,
        Argument::Src,
        Argument::Size,
        Argument::Barrier,
    ]),
    ..ASYNC
};
const BULK_STORE: CopyRow = CopyRow {
    from: Space::Shared,
    to: Space::Global,
    form: CopyForm::Instruction(&[Argument::Dst, Argument::Src, Argument::Size]),
    ..ASYNC
};

#[rustfmt::skip] // One instruction, one paragraph.
pub(super) const ROWS: &[CopyRow] = &[
    CopyRow { name: "SM90_TMA_LOAD_{n}D",
        ptx: "cp.async.bulk.tensor.{n}d.shared::cluster.global.tile.mbarrier::complete_tx::bytes{.L2::cache_hint}", ..LOAD },
    CopyRow { name: "SM90_TMA_LOAD_MULTICAST_{n}D",
        ptx: "cp.async.bulk.tensor.{n}d.shared::cluster.global.tile.mbarrier::complete_tx::bytes.multicast::cluster{.L2::cache_hint}",
        form: CopyForm::Instruction(&[Argument::Dst, Argument::Tensor, Argument::Barrier, Argument::Mask]), ..LOAD },
    CopyRow { name: "SM90_TMA_LOAD_{n}D::PREFETCH",
        ptx: "cp.async.bulk.prefetch.tensor.{n}d.L2.global.tile{.L2::cache_hint}", ..PREFETCH },
    CopyRow { name: "SM90_TMA_LOAD_IM2COL_{n}D", n: PIXELS,
        ptx: "cp.async.bulk.tensor.{n}d.shared::cluster.global.im2col.mbarrier::complete_tx::bytes{.L2::cache_hint}",
        form: CopyForm::Instruction(&[Argument::Dst, Argument::Tensor, Argument::Barrier, Argument::Offsets]), ..LOAD },
    CopyRow { name: "SM90_TMA_LOAD_IM2COL_MULTICAST_{n}D", n: PIXELS,
        ptx: "cp.async.bulk.tensor.{n}d.shared::cluster.global.im2col.mbarrier::complete_tx::bytes.multicast::cluster{.L2::cache_hint}",
        form: CopyForm::Instruction(&[Argument::Dst, Argument::Tensor, Argument::Barrier, Argument::Offsets, Argument::Mask]), ..LOAD },
    CopyRow { name: "SM90_TMA_LOAD_IM2COL_{n}D::PREFETCH", n: PIXELS,
        ptx: "cp.async.bulk.prefetch.tensor.{n}d.L2.global.im2col{.L2::cache_hint}",
        form: CopyForm::Instruction(&[Argument::Tensor, Argument::Offsets]), ..PREFETCH },

    CopyRow { name: "SM90_TMA_STORE_{n}D",
        ptx: "cp.async.bulk.tensor.{n}d.global.shared::cta.tile.bulk_group{.L2::cache_hint}", ..STORE },
    CopyRow { name: "SM90_TMA_STORE_IM2COL_{n}D", n: PIXELS,
        ptx: "cp.async.bulk.tensor.{n}d.global.shared::cta.im2col_no_offs.bulk_group{.L2::cache_hint}", ..STORE },
    CopyRow { name: "SM90_TMA_REDUCE_{OP}_{n}D", in_cute: true, reductions: ADD,
        ptx: "cp.reduce.async.bulk.tensor.{n}d.global.shared::cta.{op}.tile.bulk_group{.L2::cache_hint}", ..REDUCE },
    CopyRow { name: "SM90_TMA_REDUCE_{OP}_{n}D",
        ptx: "cp.reduce.async.bulk.tensor.{n}d.global.shared::cta.{op}.tile.bulk_group{.L2::cache_hint}", ..REDUCE },
    CopyRow { name: "SM90_TMA_REDUCE_{OP}_IM2COL_{n}D", n: PIXELS, reductions: ADD,
        ptx: "cp.reduce.async.bulk.tensor.{n}d.global.shared::cta.{op}.im2col_no_offs.bulk_group{.L2::cache_hint}", ..REDUCE },
    CopyRow { name: "SM90_TMA_REDUCE_{OP}_IM2COL_{n}D", n: PIXELS,
        ptx: "cp.reduce.async.bulk.tensor.{n}d.global.shared::cta.{op}.im2col_no_offs.bulk_group{.L2::cache_hint}", ..REDUCE },

    CopyRow { name: "SM90_BULK_COPY_G2S",
        ptx: "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes{.L2::cache_hint}", ..BULK_LOAD },
    CopyRow { name: "SM90_BULK_COPY_G2S_MULTICAST", in_cute: false,
        ptx: "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes.multicast::cluster{.L2::cache_hint}",
        form: CopyForm::Instruction(&[Argument::Dst, Argument::Src, Argument::Size, Argument::Barrier, Argument::Mask]), ..BULK_LOAD },
    CopyRow { name: "SM90_BULK_COPY_G2S::PREFETCH", to: Space::L2, ptx: "cp.async.bulk.prefetch.L2.global{.L2::cache_hint}",
        form: CopyForm::Instruction(&[Argument::Src, Argument::Size]), ..BULK_LOAD },
    CopyRow { name: "SM90_BULK_COPY_S2S", in_cute: false, from: Space::Shared,
        ptx: "cp.async.bulk.shared::cluster.shared::cta.mbarrier::complete_tx::bytes", ..BULK_LOAD },
    CopyRow { name: "SM90_BULK_COPY_S2G", ptx: "cp.async.bulk.global.shared::cta.bulk_group{.L2::cache_hint}", ..BULK_STORE },
    // Load or store is chosen when the tensors are known, as the width is.
    CopyRow { name: "SM90_BULK_COPY_AUTO", form: CopyForm::LayoutOnly, sizes: Sizes::Nominal, src: "(1,1):(0,0)", dst: "(1,1):(0,0)", ..BULK_LOAD },

    CopyRow { name: "SM90_BULK_REDUCE_{OP}_{TY}_S2G", in_cute: false,
        ptx: "cp.reduce.async.bulk.global.shared::cta.bulk_group{.L2::cache_hint}.{op}.{t}",
        reductions: &[
            (Add, U32), (Add, S32), (Add, U64), (Add, F16), (Add, Bf16), (Add, F32), (Add, F64),
            (Min, U32), (Min, S32), (Min, U64), (Min, S64), (Min, F16), (Min, Bf16),
            (Max, U32), (Max, S32), (Max, U64), (Max, S64), (Max, F16), (Max, Bf16),
            (Inc, U32), (Dec, U32), (And, B32), (And, B64), (Or, B32), (Or, B64), (Xor, B32), (Xor, B64),
        ], ..BULK_STORE },
    CopyRow { name: "SM90_BULK_REDUCE_{OP}_{TY}_S2S", in_cute: false, from: Space::Shared,
        ptx: "cp.reduce.async.bulk.shared::cluster.shared::cta.mbarrier::complete_tx::bytes.{op}.{t}",
        reductions: &[
            (Add, U32), (Add, S32), (Add, U64), (Min, U32), (Min, S32), (Max, U32), (Max, S32),
            (Inc, U32), (Dec, U32), (And, B32), (Or, B32), (Xor, B32),
        ], ..BULK_LOAD },
];
