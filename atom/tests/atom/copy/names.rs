//! Names, searches, and what is said to those that find nothing.

use colex_atom::{Arch, CopyOperands, CopySearch, Space, copy};

fn says<T: std::fmt::Debug>(result: Result<T, colex_atom::Error>) -> String {
    result.unwrap_err().to_string()
}

#[test]
fn cute_has_several_spellings() {
    for (text, name) in [
        ("UniversalCopy<float>", "UniversalCopy<uint32_t>"),
        (
            "cute::UniversalCopy< cute::uint128_t >",
            "UniversalCopy<uint128_t>",
        ),
        (
            "UniversalCopy<cutlass::half_t, uint16_t>",
            "UniversalCopy<uint16_t>",
        ),
        ("UniversalCopy<double,int64_t>", "UniversalCopy<uint64_t>"),
        ("UniversalCopy<float_e4m3_t>", "UniversalCopy<uint8_t>"),
        ("UniversalCopy<int4_t>", "UniversalCopy<uint4_t>"),
        (
            "SM80_CP_ASYNC_CACHEALWAYS<complex<double>>",
            "SM80_CP_ASYNC_CACHEALWAYS<uint128_t>",
        ),
        (
            "AutoVectorizingCopy",
            "AutoVectorizingCopyWithAssumedAlignment<128>",
        ),
        ("DefaultCopy", "AutoVectorizingCopyWithAssumedAlignment<8>"),
        (
            "cute::SM90_TMA_LOAD_3D::PREFETCH",
            "SM90_TMA_LOAD_3D::PREFETCH",
        ),
        ("SM90_BULK_COPY_G2S<4096>", "SM90_BULK_COPY_G2S<4096>"),
        ("SM90_TMA_STORE_2D<128>", "SM90_TMA_STORE_2D"),
    ] {
        assert_eq!(copy(text).unwrap().name(), name);
    }
}

#[test]
fn unknown_names_say_what_is_near() {
    assert_eq!(
        says(copy("SM90_TMA_LOAD")),
        "`SM90_TMA_LOAD` leaves the rank of the tensor open; there are SM90_TMA_LOAD_1D, SM90_TMA_LOAD_2D, \
         SM90_TMA_LOAD_3D, SM90_TMA_LOAD_4D, SM90_TMA_LOAD_5D"
    );
    assert_eq!(
        says(copy("SM90_TMA_LOAD_IM2COL::PREFETCH")),
        "`SM90_TMA_LOAD_IM2COL::PREFETCH` leaves the rank of the tensor open; there are SM90_TMA_LOAD_IM2COL_3D::PREFETCH, \
         SM90_TMA_LOAD_IM2COL_4D::PREFETCH, SM90_TMA_LOAD_IM2COL_5D::PREFETCH"
    );
    // A width whose double is no number, and one whose double is one.
    assert_eq!(
        says(copy("UniversalCopy<complex<int9223372036854775807_t>>")),
        "no copy operation is called `UniversalCopy<complex<int9223372036854775807_t>>`; the nearest are \
         UniversalCopy<uint1_t>, UniversalCopy<uint2_t>, UniversalCopy<uint4_t>"
    );
    assert_eq!(
        says(copy("SM80_CP_ASYNC_CACHEALWAYS<complex<int64_t>>")),
        "no copy operation is called `SM80_CP_ASYNC_CACHEALWAYS<complex<int64_t>>`; the nearest are \
         SM80_CP_ASYNC_CACHEALWAYS<uint128_t>, SM80_CP_ASYNC_CACHEALWAYS_ZFILL<uint128_t>, \
         SM80_CP_ASYNC_CACHEALWAYS<uint32_t>"
    );
    assert_eq!(
        says(copy("SM75_LDSM_N")),
        "no copy operation is called `SM75_LDSM_N`; the nearest are SM75_U32x1_LDSM_N, SM75_U32x2_LDSM_N, SM75_U32x4_LDSM_N"
    );
    assert_eq!(
        says(copy("UniversalCopy<complex<float>>")),
        "no copy operation is called `UniversalCopy<complex<float>>`; the nearest are UniversalCopy<uint64_t>, \
         UniversalCopy<uint4_t>, UniversalCopy<uint1_t>"
    );
}

#[test]
fn wrong_widths_say_which_are_right() {
    assert_eq!(
        says(copy("SM80_CP_ASYNC_CACHEALWAYS<half_t>")),
        "`SM80_CP_ASYNC_CACHEALWAYS<half_t>` cannot move 16 bits per thread, only 32, 64, 128"
    );
    assert_eq!(
        says(copy("UniversalCopy<float,double>")),
        "`UniversalCopy<float,double>` cannot move 64 bits per thread, only 32, as it reads"
    );
    assert_eq!(
        says(copy("SM90_BULK_COPY_S2G<96>")),
        "`SM90_BULK_COPY_S2G` cannot move 96 bits per thread, only multiples of 128 up to 1048575 bytes"
    );
    assert_eq!(
        says(copy("SM75_U32x1_LDSM_N").unwrap().with_bits(64)),
        "`SM75_U32x1_LDSM_N` cannot move 64 bits per thread, only 32"
    );
}

#[test]
fn ends_that_are_not_connected_say_why() {
    let universal = copy("UniversalCopy<uint32_t>").unwrap();
    assert_eq!(
        says(universal.between(Space::Global, Space::Shared)),
        "`UniversalCopy<uint32_t>` does not go from global memory to shared memory: it takes two instructions, a load and a store"
    );
    assert_eq!(
        says(universal.between(Space::Tensor, Space::Register)),
        "`UniversalCopy<uint32_t>` does not go from tensor memory to registers: `ld` and `st` reach registers, shared and global memory"
    );
    assert_eq!(
        says(
            copy("SM75_U32x1_LDSM_N")
                .unwrap()
                .between(Space::Global, Space::Register)
        ),
        "`SM75_U32x1_LDSM_N` does not go from global memory to registers: its ends are fixed"
    );
}

#[test]
fn operands_are_counted() {
    let names = |n: usize| (0..n).map(|i| format!("%r{i}")).collect::<Vec<_>>();
    let (four, one) = (names(4), names(1));
    let ldsm = copy("SM75_U32x2_LDSM_N").unwrap();
    assert_eq!(
        says(ldsm.instruction(&CopyOperands {
            dst: &four,
            src: &one,
            ..CopyOperands::default()
        })),
        "operand Dst of `SM75_U32x2_LDSM_N` takes 2 names, not 4"
    );
    assert_eq!(
        says(ldsm.instruction(&CopyOperands {
            dst: &four[..2],
            src: &one,
            policy: "%keep",
            ..CopyOperands::default()
        })),
        "operand Policy of `SM75_U32x2_LDSM_N` takes 0 names, not 1"
    );
    let tma = copy("SM90_TMA_LOAD_3D").unwrap();
    assert_eq!(
        says(tma.instruction(&CopyOperands {
            dst: &one,
            tensor: "%map",
            coordinates: &four,
            barrier: "%b",
            ..CopyOperands::default()
        })),
        "operand Tensor of `SM90_TMA_LOAD_3D` takes 4 names, not 5"
    );
}

/// One instruction of each form, as the manual writes it.
#[test]
fn texts_are_as_the_manual_writes_them() {
    let text = |name: &str, operands: CopyOperands<'_>| {
        copy(name).unwrap().instruction(&operands).unwrap()
    };
    let [d, s]: [Vec<String>; 2] = [["%d0", "%d1", "%d2", "%d3"], ["%s0", "%s1", "%s2", "%s3"]]
        .map(|n| n.map(String::from).to_vec());
    let none = CopyOperands::default();
    let ends = CopyOperands {
        dst: &d[..1],
        src: &s[..1],
        ..none
    };
    assert_eq!(
        text("UniversalCopy<uint128_t>", CopyOperands { dst: &d, ..ends }),
        "ld.global.v4.b32 {%d0, %d1, %d2, %d3}, [%s0];"
    );
    assert_eq!(
        text("UniversalCopy<uint8_t>", ends),
        "ld.global.b8 %d0, [%s0];"
    );
    assert_eq!(
        text("SM80_CP_ASYNC_CACHEGLOBAL<uint128_t>", ends),
        "cp.async.cg.shared.global.L2::128B [%d0], [%s0], 16;"
    );
    assert_eq!(
        text(
            "SM80_CP_ASYNC_CACHEALWAYS_ZFILL<uint64_t>",
            CopyOperands {
                source_bytes: "%n",
                policy: "%p",
                ..ends
            }
        ),
        "cp.async.ca.shared.global.L2::cache_hint.L2::128B [%d0], [%s0], 8, %n, %p;"
    );
    assert_eq!(
        text("SM90_U16x8_STSM_T", CopyOperands { src: &s, ..ends }),
        "stmatrix.sync.aligned.m8n8.x4.trans.shared.b16 [%d0], {%s0, %s1, %s2, %s3};"
    );
    assert_eq!(
        text("SM75_U32x1_MOVM_T", ends),
        "movmatrix.sync.aligned.m8n8.trans.b16 %d0, %s0;"
    );
    let tensor = CopyOperands {
        tensor: "%map",
        coordinates: &s[..3],
        ..none
    };
    let load = CopyOperands {
        dst: &d[..1],
        barrier: "%bar",
        mask: "%mask",
        offsets: &d[1..2],
        ..tensor
    };
    assert_eq!(
        text("SM90_TMA_LOAD_IM2COL_MULTICAST_3D", load),
        "cp.async.bulk.tensor.3d.shared::cluster.global.im2col.mbarrier::complete_tx::bytes.multicast::cluster \
         [%d0], [%map, {%s0, %s1, %s2}], [%bar], {%d1}, %mask;"
    );
    assert_eq!(
        text(
            "SM90_TMA_REDUCE_XOR_3D",
            CopyOperands {
                src: &d[..1],
                ..tensor
            }
        ),
        "cp.reduce.async.bulk.tensor.3d.global.shared::cta.xor.tile.bulk_group [%map, {%s0, %s1, %s2}], [%d0];"
    );
    assert_eq!(
        text(
            "SM90_BULK_COPY_G2S<8192>",
            CopyOperands {
                barrier: "%bar",
                ..ends
            }
        ),
        "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%d0], [%s0], 1024, [%bar];"
    );
    assert_eq!(
        text(
            "SM90_BULK_REDUCE_ADD_BF16_S2G",
            CopyOperands {
                size: "%n",
                policy: "%p",
                ..ends
            }
        ),
        "cp.reduce.async.bulk.global.shared::cta.bulk_group.L2::cache_hint.add.noftz.bf16 [%d0], [%s0], %n, %p;"
    );
}

#[test]
fn searches_find_by_ends_width_and_threads() {
    let names = |search: CopySearch| -> Vec<String> {
        search.find().iter().map(|atom| atom.name()).collect()
    };
    assert_eq!(
        names(
            CopySearch::default()
                .on(Arch::Sm75)
                .from(Space::Shared)
                .to(Space::Register)
                .bits(64)
        ),
        [
            "UniversalCopy<uint64_t>",
            "SM75_U32x2_LDSM_N",
            "SM75_U16x4_LDSM_T"
        ]
    );
    assert_eq!(
        names(
            CopySearch::default()
                .on(Arch::Sm80)
                .from(Space::Register)
                .to(Space::Register)
                .threads(32)
        ),
        [
            "SM75_U32x1_MOVM_T",
            "SM50_Shuffle_U32_2x2Trans_XOR1",
            "SM50_Shuffle_U32_2x2Trans_XOR4"
        ]
    );
    let bulk = CopySearch::default()
        .on(Arch::Sm90)
        .from(Space::Shared)
        .to(Space::Cluster)
        .bits(4096);
    assert_eq!(names(bulk)[0], "SM90_BULK_COPY_S2S<4096>");
    assert_eq!(
        names(
            CopySearch::default()
                .on(Arch::Sm70)
                .from(Space::Global)
                .to(Space::Shared)
        ),
        [""; 0]
    );
    assert!(
        CopySearch::default()
            .on(Arch::Sm100a)
            .find()
            .iter()
            .all(|atom| !atom.name().starts_with("SM100"))
    );
}
