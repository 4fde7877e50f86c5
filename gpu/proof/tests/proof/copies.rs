//! Copies and transposes on the simulator, against the reference: odd and even sizes, gaps, shifts, batches.

use colex_atom::Arch;
use colex_gpu::kernels::{CopyMethod, CopyPlan, LoopNest};
use colex_gpu::{Device, Element};
use colex_layout::Layout;
use colex_proof::kernels::copies::{CopyCase, bulk_cases, copy_cases};

/// Runs every case with a type, on an architecture.
fn every<T: Element>(arch: Arch) {
    let device = Device::simulator(arch);
    let mut cases = copy_cases(T::BYTES as i64);
    if arch == Arch::Sm90a {
        cases.extend(bulk_cases(T::BYTES as i64));
    }
    for case in &cases {
        if let Err(failure) = case.run::<T>(&device) {
            panic!("{case} of {}: {failure}", T::NAME);
        }
    }
    println!(
        "law every_copy_is_the_reference_of_{}: {} cases",
        T::NAME,
        cases.len()
    );
}

#[test]
fn every_copy_is_the_reference() {
    every::<u8>(Arch::Sm90a);
    every::<half::bf16>(Arch::Sm90a);
    every::<f32>(Arch::Sm90a);
    every::<f64>(Arch::Sm90a);
}

#[test]
fn every_copy_is_the_reference_before_hopper() {
    every::<half::f16>(Arch::Sm80);
    every::<i32>(Arch::Sm70);
}

#[test]
fn the_kernel_follows_from_layouts_and_addresses() {
    let device = Device::simulator(Arch::Sm80);
    let takes = |case: CopyCase| case.run::<f32>(&device).expect("it runs");
    assert_eq!(
        takes(CopyCase::new("(8,6):(6,1)", "(8,6):(6,1)")),
        CopyMethod::Flat
    );
    assert_eq!(
        takes(CopyCase::new("(8,6):(6,1)", "(8,6):(8,1)")),
        CopyMethod::Strided
    );
    assert_eq!(
        takes(CopyCase::new("(8,6):(6,1)", "(8,6):(1,8)")),
        CopyMethod::Swizzled
    );
}

#[test]
fn the_sentences_of_kernels_that_do_not_fit() {
    let device = Device::simulator(Arch::Sm80);
    let said = |case: CopyCase| {
        case.run::<f32>(&device)
            .expect_err("it is refused")
            .to_string()
    };
    assert_eq!(
        said(CopyCase::new("(8,6):(6,1)", "(8,6):(1,8)").by(CopyMethod::Flat)),
        "the flat kernel does not copy (8,6):(6,1) -> (8,6):(1,8): the elements are not one run on both sides"
    );
    assert_eq!(
        said(CopyCase::new("48:1", "48:1").by(CopyMethod::Padded)),
        "the padded kernel does not copy 48:1 -> 48:1: the source and the destination run fastest along one mode, or along none"
    );
}

/// A store by tensor map would write into the gap behind each row.
#[test]
fn rows_of_a_part_of_16_bytes_have_no_tensor_map() {
    let device = Device::simulator(Arch::Sm90a);
    let part = CopyCase::new("(66,130):(136,1)", "(66,130):(1,72)");
    let whole = CopyCase::new("(64,130):(136,1)", "(64,130):(1,72)");
    let takes = |case: &CopyCase| case.run::<half::bf16>(&device).expect("it runs");
    assert_eq!(
        (takes(&part), takes(&whole)),
        (CopyMethod::Swizzled, CopyMethod::Tma)
    );
    assert_eq!(
        part.by(CopyMethod::Tma)
            .run::<half::bf16>(&device)
            .expect_err("it is refused")
            .to_string(),
        "the tma kernel does not copy (66,130):(136,1) -> (66,130):(1,72): a row of 66 elements is no multiple of 16 bytes, and stores would go beyond it"
    );
}

/// A tensor map takes a source with a stride of 0. A kernel is built for the first tensors of its tile and rank, and then taken for others:
/// in both orders.
#[test]
fn a_source_with_a_stride_of_0_is_copied_by_tensor_maps() {
    let device = Device::simulator(Arch::Sm90a);
    let apart = CopyCase::new("(64,96,3):(96,1,6144)", "(64,96,3):(1,64,6144)");
    let shared = CopyCase::new("(64,96,3):(96,1,0)", "(64,96,3):(1,64,6144)");
    let mut cases = 0;
    // Tiles that no other test has.
    for (squares, order) in [([5, 1], [&apart, &shared]), ([7, 1], [&shared, &apart])] {
        for case in order.into_iter().chain(order) {
            let case = CopyCase {
                squares: Some(squares),
                ..case.clone()
            };
            let method = case.run::<f32>(&device);
            assert_eq!(method, Ok(CopyMethod::Tma), "{case}");
            cases += 1;
        }
    }
    println!("law copies.stride_0: {cases} cases");
}

/// What the builder says of bulk copies that TMA would not do.
#[test]
fn the_sentences_of_bulk_copies() {
    use colex_atom::Ty;
    use colex_gpu::tensor::Builder;
    let said = |global: &str, tile: i64, shared: &str| {
        let mut k = Builder::new("bulk", Arch::Sm90a, 32);
        let from = k.tensor("from", Ty::F32, global);
        let block = k.block_index(0);
        let block = k.within(block, 0..1000);
        let from = from.local_tile(tile, block);
        let shared: colex_layout::ComposedLayout = shared.parse().expect("a layout");
        let to = k.shared_tensor(Ty::F32, shared);
        let landed = k.barriers(1);
        k.bulk_load(&from, &to, &landed.at(0));
        k.finish().expect_err("it is refused").what()
    };
    assert_eq!(
        said("1024:_1", 64, "32:1"),
        "bulk: 256 bytes and 128; both are the same multiple of 16"
    );
    assert_eq!(
        said("1024:_1", 3, "3:1"),
        "bulk: 12 bytes and 12; both are the same multiple of 16"
    );
    assert_eq!(
        said("1024:_2", 64, "64:1"),
        "bulk: (_64):(_1@0) is not one run of neighbours"
    );
    assert_eq!(
        said("1024:_1", 64, "64:2"),
        "bulk: _64:_2 is not one run of neighbours"
    );
    assert_eq!(
        said("1024:_1", 64, "Sw<2,1,3> o 0 o 64:1"),
        "bulk: _64:_1 is swizzled by Sw<2,1,3>"
    );
}

/// The verifier accepts every kernel, and it has a PTX text.
#[test]
fn every_kernel_prints() {
    let layout = |text: &str| text.parse::<Layout>().expect("a layout");
    let nest = |source: &str, destination: &str| {
        LoopNest::new(layout(source), layout(destination)).expect("a copy")
    };
    let crossed = nest("(70,45,3):(45,1,3150)", "(70,45,3):(1,70,3150)");
    let mapped = nest("(256,512,3):(512,1,131072)", "(256,512,3):(1,256,131072)");
    let flat = nest("1000:1", "1000:1");
    let strided = nest("(16,5,4):(1,32,160)", "(16,5,4):(1,16,80)");
    let cases = [
        (&flat, CopyMethod::Flat),
        (&flat, CopyMethod::Bulk),
        (&strided, CopyMethod::Strided),
        (&crossed, CopyMethod::Naive),
        (&crossed, CopyMethod::Padded),
        (&crossed, CopyMethod::Swizzled),
        (&mapped, CopyMethod::Tma),
    ];
    for (nest, method) in cases {
        for bytes in [1, 2, 4, 8] {
            let Ok(plan) = CopyPlan::new(nest, bytes, [0, 0], Arch::Sm90a, method) else {
                continue;
            };
            let built = plan.kernel(Arch::Sm90a).expect("a kernel");
            assert_eq!(built.kernel.verify(), Ok(()), "{plan}");
            let text = built.kernel.ptx().expect("it prints");
            // The launch decides every access.
            assert!(!text.contains("trap;"), "{plan}");
            if let Ok(folder) = std::env::var("COLEX_PTX") {
                std::fs::write(format!("{folder}/{method}_{bytes}.ptx"), text)
                    .expect("it is written");
            }
        }
    }
}
