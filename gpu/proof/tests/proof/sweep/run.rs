//! How the sweep judges a result.

use colex_atom::{Arch, TmaSwizzle, copy, mma};
use colex_gpu::Device;
use colex_proof::sweep::{Case, Kind, Times, TmaForm, TmaVariant, Verdict};
use colex_proof::sweep::{bulk_case, copy_case, mma_case, tma_case};

fn cases() -> Vec<Case> {
    let of_mma = |name| mma_case(&mma(name).unwrap(), &Kind::ALL, 5).unwrap();
    let of_copy = |name| copy_case(&copy(name).unwrap(), false, 2, 5).unwrap();
    let of_bulk = |name| bulk_case(&copy(name).unwrap(), 208, false, 2, 5).unwrap();
    let of_tma = |name, variant| {
        let atom = copy(name).unwrap();
        let form = TmaForm {
            swizzle: TmaSwizzle::B64,
            element: None,
            hinted: false,
            variant,
        };
        tma_case(&atom, &form, 5).unwrap()
    };
    vec![
        of_mma("SM61_DP4A"),
        of_mma("SM70_8x8x4_F32F16F16F32_NT"),
        of_mma("SM80_16x8x16_F32F16F16F32_TN"),
        of_mma("SM80_8x8x4_GC64C64C64GC64_TN"),
        of_mma("SM90_64x24x16_F16F16F16_SS<Major::MN,Major::K>"),
        of_mma("SPARSE::GMMA_64x8x64_S32S8S8_RS_TN"),
        of_copy("SM75_U16x4_LDSM_T"),
        of_copy("SM90_U32x2_STSM_N"),
        of_copy("SM80_CP_ASYNC_CACHEALWAYS_ZFILL<uint64_t>"),
        of_copy("SM50_Shuffle_U32_2x2Trans_XOR4"),
        of_bulk("SM90_BULK_COPY_G2S_MULTICAST"),
        of_bulk("SM90_BULK_REDUCE_ADD_F16_S2G"),
        of_tma("SM90_TMA_LOAD_3D", TmaVariant::Plain),
        of_tma("SM90_TMA_STORE_2D", TmaVariant::Plain),
        of_tma("SM90_TMA_LOAD_2D", TmaVariant::Nan),
        of_tma("SM90_TMA_STORE_3D", TmaVariant::Strided),
        of_tma("SM90_TMA_LOAD_IM2COL_4D", TmaVariant::Plain),
        of_tma("SM90_TMA_STORE_IM2COL_5D", TmaVariant::Plain),
    ]
}

/// What the simulator gives agrees; what was not written, or lies elsewhere, does not.
#[test]
fn the_judge_tells_a_right_result_from_a_misplaced_one() {
    let device = Device::simulator(Arch::Sm90a);
    let mut cases_seen = 0;
    for case in cases() {
        let outputs = case.launched(&device, &mut Times::default()).unwrap();
        let right = case.judged(&outputs);
        assert!(Verdict::of(&right).agrees(), "{}: {right:?}", case.name);
        assert_eq!(right.modelled, right.elements, "{}", case.name);
        let poison: Vec<Vec<u8>> = outputs.iter().map(|out| vec![0xff; out.len()]).collect();
        let moved = outputs
            .iter()
            .map(|out| [&out[16..], &out[..16]].concat())
            .collect();
        for wrong in [poison, moved] {
            let seen = case.judged(&wrong);
            assert!(seen.wrong.is_some(), "{}", case.name);
            assert_ne!(seen.digest, right.digest, "{}", case.name);
            cases_seen += 1;
        }
    }
    println!("law sweep.judge: {cases_seen} cases");
}

#[test]
fn the_same_seed_gives_the_same_data() {
    for (a, b) in cases().iter().zip(cases()) {
        assert_eq!(a.shots[0].input, b.shots[0].input, "{}", a.name);
        assert_eq!(a.kernel.name, b.kernel.name);
    }
}
