//! Names that are not there, and what the error says.

use colex_atom::mma;

#[track_caller]
fn refused(name: &str, sentence: &str) {
    assert_eq!(mma(name).unwrap_err().to_string(), sentence);
}

#[test]
fn an_unknown_name_gets_the_nearest() {
    refused(
        "SM80_16x8x16_F32F16F16F32_NT",
        "no MMA operation is called `SM80_16x8x16_F32F16F16F32_NT`; the nearest are \
         SM80_16x8x16_F32F16F16F32_TN, SM80_16x8x16_F32BF16BF16F32_TN, SM80_16x8x8_F32F16F16F32_TN",
    );
}

#[test]
fn an_n_that_is_not_there_gets_the_list() {
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
