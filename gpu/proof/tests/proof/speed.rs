//! How long a product takes on the simulator: short enough for a book.

use std::time::{Duration, Instant};

use colex_atom::Arch;
use colex_gpu::Device;
use colex_gpu::kernels::gemm::GemmMethod;
use colex_gpu::kernels::{GemmElement, GemmProblem};
use colex_proof::kernels::gemm::GemmCase;
use half::{bf16, f16};

/// The most that a product of 256 by 256 by 128 may take, of one processor.
const MOST: Duration = Duration::from_secs(2);

/// The time that this thread has computed; where it is not counted, the time that has passed.
fn computed(since: Instant) -> Duration {
    let counted = std::fs::read_to_string("/proc/thread-self/schedstat");
    let first = counted
        .ok()
        .and_then(|text| text.split(' ').next()?.parse().ok());
    first.map_or_else(|| since.elapsed(), Duration::from_nanos)
}

fn takes<T: GemmElement, C: GemmElement>(arch: Arch, method: GemmMethod) {
    let case = GemmCase::new(GemmProblem::new(256, 256, 128)).by(method);
    let since = Instant::now();
    let before = computed(since);
    case.run::<T, C>(&Device::simulator(arch)).unwrap();
    let took = computed(since) - before;
    println!("{method}: {} ms", took.as_millis());
    assert!(took < MOST, "{method}: {took:?}");
}

#[test]
fn a_product_of_each_generation_takes_less_than_two_seconds() {
    takes::<f32, f32>(Arch::Sm70, GemmMethod::Simt);
    takes::<f16, f16>(Arch::Sm70, GemmMethod::Volta);
    takes::<bf16, bf16>(Arch::Sm80, GemmMethod::Ampere);
    takes::<bf16, bf16>(Arch::Sm90a, GemmMethod::Hopper);
}
