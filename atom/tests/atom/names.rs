//! Names that are not there, and what the error says.

use colex_atom::{copy, mma};

#[track_caller]
fn refused(name: &str, sentence: &str) {
    assert_eq!(mma(name).unwrap_err().to_string(), sentence);
}

#[test]
fn an_unknown_name_gets_the_nearest() {
    refused(
        "SM80_16x8x16_F32F16F16F32_NT",
        "no MMA operation is called `SM80_16x8x16_F32F16F16F32_NT`; the nearest are \
         SM80_16x8x16_F32F16F16F32_TN, SM80_16x8x8_F32F16F16F32_TN, SM80_16x8x16_F32BF16BF16F32_TN",
    );
}

#[test]
fn an_n_that_is_not_there_gets_the_list() {
    refused(
        "SM90_64x127x16_F32F16F16_SS",
        "`SM90_64x127x16_F32F16F16_SS` does not exist: N can be a multiple of 8 from 8 to 256",
    );
    refused(
        "SM90_64x40x32_S32S8S8_SS_TN",
        "`SM90_64x40x32_S32S8S8_SS_TN` does not exist: N can be 8, 16, 24, 32, 48, 64, 80, 96, 112, 128, 144, 160, \
         176, 192, 208, 224, 240, 256",
    );
    assert!(mma("SM90::GMMA::MMA_64x100x16_F32F16F16_SS<Major::K,Major::K>").is_err());
}

/// The name that NVIDIA's documentation prints is no operation (worked example S47).
#[test]
fn the_name_in_the_manual_is_not_one() {
    let error = mma("SM90_64x128x16_F16F16F16F16_TN")
        .unwrap_err()
        .to_string();
    assert!(
        error.contains("the nearest are SM90_64x128x16_F16F16F16_RS"),
        "{error}"
    );
}

#[test]
fn options_say_why_they_are_refused() {
    refused(
        "SM90_64x128x16_F32F16F16_RS<Major::MN,Major::K>",
        "`SM90_64x128x16_F32F16F16_RS` refuses the options: A in registers must be K-major",
    );
    refused(
        "SM90_64x128x8_F32TF32TF32_SS_TN<Major::MN>",
        "`SM90_64x128x8_F32TF32TF32_SS_TN` has no template argument `MN` there",
    );
    refused(
        "SM80_16x8x16_F32F16F16F32_TN<Major::K>",
        "`SM80_16x8x16_F32F16F16F32_TN` refuses the options: it takes no options",
    );
    refused(
        "SPARSE::GMMA_64x8x64_F32E4M3E4M3_SS_TN<ScaleIn::One,ScaleIn::One,SparseSel::One>",
        "`SPARSE::GMMA_64x8x64_F32E4M3E4M3_SS_TN` refuses the options: all four threads hold its metadata",
    );
}

#[test]
fn universal_fma_takes_its_type_four_times() {
    for name in [
        "UniversalFMA<float,float,float,float>",
        "UniversalFMA< float >",
        "cute::UniversalFMA<float>",
    ] {
        assert_eq!(mma(name).unwrap().name(), "UniversalFMA<float>");
    }
    assert_eq!(
        mma("UniversalFMA<cutlass::half_t>").unwrap().name(),
        "UniversalFMA<half_t>"
    );
}

/// What users of PTX, C++ or CuTe type, and the name that they mean; it must be among the three that are offered.
const MEANT_COPIES: [(&str, &str); 34] = [
    // PTX mnemonics, whole or in part.
    ("ldmatrix", "SM75_U32x4_LDSM_N"),
    ("ldmatrix.x4", "SM75_U32x4_LDSM_N"),
    ("ldmatrix.x4.trans", "SM75_U16x8_LDSM_T"),
    (
        "ldmatrix.sync.aligned.m8n8.x2.shared.b16",
        "SM75_U32x2_LDSM_N",
    ),
    ("stmatrix", "SM90_U32x4_STSM_N"),
    ("stmatrix.x2.trans", "SM90_U16x4_STSM_T"),
    ("movmatrix", "SM75_U32x1_MOVM_T"),
    ("cp.async", "SM80_CP_ASYNC_CACHEALWAYS<uint32_t>"),
    ("cp.async.ca", "SM80_CP_ASYNC_CACHEALWAYS<uint32_t>"),
    (
        "cp.async.cg.shared.global",
        "SM80_CP_ASYNC_CACHEGLOBAL<uint128_t>",
    ),
    ("cp.async.bulk.global.shared::cta", "SM90_BULK_COPY_S2G"),
    (
        "cp.async.bulk.prefetch.tensor.2d",
        "SM90_TMA_LOAD_2D::PREFETCH",
    ),
    (
        "cp.async.bulk.tensor.2d.shared::cluster.global.tile",
        "SM90_TMA_LOAD_2D",
    ),
    (
        "cp.async.bulk.tensor.3d.global.shared::cta",
        "SM90_TMA_STORE_3D",
    ),
    ("tcgen05.ld", "SM100_TMEM_LOAD_16dp32b1x"),
    ("tcgen05.cp", "SM100_UTCCP_4dp256bit_1cta"),
    // Types of CUDA and C++ instead of those of CuTe.
    ("UniversalCopy<float4>", "UniversalCopy<uint128_t>"),
    ("UniversalCopy<uint4>", "UniversalCopy<uint128_t>"),
    ("UniversalCopy<double2>", "UniversalCopy<uint128_t>"),
    ("UniversalCopy<float2>", "UniversalCopy<uint64_t>"),
    ("UniversalCopy<half2>", "UniversalCopy<uint32_t>"),
    ("UniversalCopy<__half>", "UniversalCopy<uint16_t>"),
    ("UniversalCopy<__nv_bfloat162>", "UniversalCopy<uint32_t>"),
    ("UniversalCopy<complex<float>>", "UniversalCopy<uint64_t>"),
    (
        "SM80_CP_ASYNC<float4>",
        "SM80_CP_ASYNC_CACHEGLOBAL<uint128_t>",
    ),
    // A missing part, another order, another case, a slip.
    ("SM80_CP_ASYNC", "SM80_CP_ASYNC_CACHEALWAYS<uint32_t>"),
    (
        "SM80_CP_ASYNC_CACHEALWAYS",
        "SM80_CP_ASYNC_CACHEALWAYS<uint32_t>",
    ),
    (
        "CP_ASYNC_CACHEGLOBAL",
        "SM80_CP_ASYNC_CACHEGLOBAL<uint128_t>",
    ),
    ("SM75_U32x4_LDSM", "SM75_U32x4_LDSM_N"),
    ("sm75_u32x4_ldsm_n", "SM75_U32x4_LDSM_N"),
    ("LDSM_U32x4", "SM75_U32x4_LDSM_N"),
    ("SM80_U32x4_LDSM_N", "SM75_U32x4_LDSM_N"),
    ("SM90_TMA_LAOD_2D", "SM90_TMA_LOAD_2D"),
    ("SM100_TMEM_LOAD", "SM100_TMEM_LOAD_16dp32b1x"),
];

const MEANT_PRODUCTS: [(&str, &str); 23] = [
    ("mma.m16n8k16", "SM80_16x8x16_S32S8S8S32_TN"),
    ("mma.m16n8k16.f32.f16", "SM80_16x8x16_F32F16F16F32_TN"),
    (
        "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32",
        "SM80_16x8x16_F32F16F16F32_TN",
    ),
    (
        "mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32",
        "SM80_16x8x8_F32TF32TF32F32_TN",
    ),
    (
        "mma.sync.aligned.m8n8k4.row.col.f64.f64.f64.f64",
        "SM80_8x8x4_F64F64F64F64_TN",
    ),
    (
        "wgmma.mma_async.sync.aligned.m64n128k16.f32.f16.f16",
        "SM90_64x128x16_F32F16F16_SS",
    ),
    (
        "wgmma.mma_async.m64n64k32.f32.e4m3.e4m3",
        "SM90_64x64x32_F32E4M3E4M3_SS_TN",
    ),
    ("dp4a", "SM61_DP4A"),
    ("dp2a", "SM61_DP2A"),
    ("fma.rn.f32", "UniversalFMA<float>"),
    ("UniversalFMA<half>", "UniversalFMA<half_t>"),
    ("UniversalFMA<__half>", "UniversalFMA<half_t>"),
    ("UniversalFMA<f32>", "UniversalFMA<float>"),
    ("SM80_16x8x16_F32F16F16F32", "SM80_16x8x16_F32F16F16F32_TN"),
    ("16x8x16_F32F16F16F32_TN", "SM80_16x8x16_F32F16F16F32_TN"),
    (
        "sm80_16x8x16_f32f16f16f32_tn",
        "SM80_16x8x16_F32F16F16F32_TN",
    ),
    (
        "SM90_16x8x16_F32F16F16F32_TN",
        "SM80_16x8x16_F32F16F16F32_TN",
    ),
    (
        "SM80_16x8x16_F32F16F16F32_NT",
        "SM80_16x8x16_F32F16F16F32_TN",
    ),
    (
        "SM80_16x8x16_BF16BF16F32_TN",
        "SM80_16x8x16_F32BF16BF16F32_TN",
    ),
    ("SM90_64x128x16_F32F16F16", "SM90_64x128x16_F32F16F16_SS"),
    (
        "SM90_64x128x16_F32F16F16F32_SS",
        "SM90_64x128x16_F32F16F16_SS",
    ),
    (
        "SM90_64x256x8_F32TF32TF32_SS",
        "SM90_64x256x8_F32TF32TF32_SS_TN",
    ),
    (
        "SM100_MMA_F16BF16_SS",
        "SM100_MMA_F16BF16_SS<f16,f16,f32,128,128,K,K>",
    ),
];

#[test]
fn what_people_type_finds_what_they_mean() {
    let mut missed = Vec::new();
    let copies = MEANT_COPIES.map(|(typed, meant)| (typed, meant, copy(typed).err()));
    let products = MEANT_PRODUCTS.map(|(typed, meant)| (typed, meant, mma(typed).err()));
    for (typed, meant, error) in copies.into_iter().chain(products) {
        let error = error.unwrap_or_else(|| panic!("`{typed}` is a name"));
        // A family of hundreds is meant by its stem.
        let family = |name: &str| name.split('<').next().unwrap_or(name).to_string();
        let near =
            |name: &String| name == meant || meant.contains(",K>") && family(name) == family(meant);
        if !error.nearest().iter().any(near) {
            missed.push(format!("{typed}: {:?} and not {meant}", error.nearest()));
        }
    }
    assert!(missed.is_empty(), "{}", missed.join("\n"));
    println!(
        "law names.nearest: {} cases",
        MEANT_COPIES.len() + MEANT_PRODUCTS.len()
    );
}

/// Names are shown on one line, regardless of the text that was typed.
#[test]
fn control_characters_are_escaped() {
    let error = copy("SM75\u{1b}[31m\n").unwrap_err().to_string();
    assert!(
        error.starts_with("no copy operation is called `SM75\\u{1b}[31m\\n`; the nearest are "),
        "{error}"
    );
    for error in [
        mma("a\0b").unwrap_err(),
        mma("SM90_64x127x16_F32F16F16_SS\t").unwrap_err(),
        "sm\r80".parse::<colex_atom::Arch>().unwrap_err(),
    ] {
        let text = error.to_string();
        assert!(!text.contains(char::is_control), "{text:?}");
    }
}
