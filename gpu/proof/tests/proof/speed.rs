//! How long a product takes on the simulator: short enough for a book.

use std::time::{Duration, Instant};

use colex_atom::{Arch, Ty};
use colex_gpu::gemm::Epilogue;
use colex_gpu::kernels::gemm::GemmMethod;
use colex_gpu::kernels::{GemmElement, GemmProblem};
use colex_gpu::{Device, Gemm, View};
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

/// The most that a kernel of 256 columns may take from its epilogue to its text, of one slow processor: ten times what it takes.
const MOST_OF_A_TEXT: Duration = Duration::from_millis(400);

/// The formula of an epilogue is emitted for each accumulator, some hundreds of times.
#[test]
fn an_epilogue_becomes_text_in_milliseconds() {
    let gelu = Epilogue::new(Ty::F32, |e| {
        let x = e.accumulator() + e.tensor("x", Ty::Bf16).to(Ty::F32);
        x.gelu().to(Ty::Bf16)
    });
    let sum = Epilogue::new(Ty::F32, |e| {
        (e.accumulator() + e.tensor("x", Ty::Bf16).to(Ty::F32)).to(Ty::Bf16)
    });
    let device = Device::simulator(Arch::Sm90a);
    let a = device.zeros::<bf16>(1024 * 64).unwrap();
    let x = device.zeros::<bf16>(1024 * 1024).unwrap();
    let factor = a.view((1024, 64)).unwrap();
    for (name, epilogue, strides) in [
        ("gelu of a bias", gelu.unwrap(), "(1024,1024):(0,1)"),
        ("residual", sum.unwrap(), "(1024,1024):(1024,1)"),
    ] {
        let mut c = device.zeros::<bf16>(1024 * 1024).unwrap();
        let c = c.view_mut((1024, 1024)).unwrap();
        let since = Instant::now();
        let before = computed(since);
        let gemm = Gemm::new(&factor, &factor, &c).epilogue(&epilogue);
        let call = gemm
            .tensor("x", &View::new(&x, strides).unwrap())
            .method(GemmMethod::Hopper)
            .prepare()
            .unwrap();
        let prepared = computed(since) - before;
        let text = call.built().unwrap().kernel.ptx().unwrap();
        let took = computed(since) - before;
        println!(
            "{name}: {} ms, {} ms of them for the text of {} lines",
            took.as_millis(),
            (took - prepared).as_millis(),
            text.lines().count()
        );
        assert!(took < MOST_OF_A_TEXT, "{name}: {took:?}");
    }
}
