//! Copies and transposes on the simulator, against the reference: odd and even sizes, gaps, shifts, batches.

use colex_atom::Arch;
use colex_gpu::kernels::CopyMethod;
use colex_gpu::kernels::check::{CopyCase, copy_cases};
use colex_gpu::{Device, Element};

/// Runs every case with a type, on an architecture.
fn every<T: Element>(arch: Arch) {
    let device = Device::simulator(arch);
    let cases = copy_cases(T::BYTES as i64);
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
