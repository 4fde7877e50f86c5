//! Copies and transposes on the simulator, against the reference: odd and even sizes, gaps, shifts, batches.

use colex_atom::Arch;
use colex_gpu::kernels::CopyMethod;
use colex_gpu::{Device, Element};
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

/// What the builder says of bulk copies that the copy engine would not do.
#[test]
fn the_sentences_of_bulk_copies() {
    use colex_atom::Ty;
    use colex_gpu::tensor::Builder;
    let said = |global: &str, tile: i64, shared: &str| {
        let mut k = Builder::new("bulk", Arch::Sm90a, 32);
        let from = k.tensor("from", Ty::F32, global);
        let block = k.block_index(0).within(0..1000);
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
