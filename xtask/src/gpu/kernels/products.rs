//! Matrix products.

use anyhow::{Result, ensure};
use colex_gpu::Device;
use colex_gpu::cuda::cudarc::driver::CudaContext;
use colex_gpu::kernels::{GemmElement, GemmProblem, Operand, reference};
use colex_proof::kernels::gemm::{GemmCase, every_case, large_cases, sampled_cases};

use super::{is_fast, tally};

/// Every small case with operands and results of two types.
pub(super) fn every<T: GemmElement, C: GemmElement>(device: &Device) -> Result<String> {
    run::<T, C>(device, every_case::<T>(device.arch()))
}

/// A few of them, by each kernel that takes the types.
pub(super) fn sampled<T: GemmElement, C: GemmElement>(device: &Device) -> Result<String> {
    run::<T, C>(device, sampled_cases::<T>(device.arch()))
}

/// A product of slices of `cudarc`, in a context and a stream of the program's.
pub(super) fn own_slices(device: &Device) -> Result<String> {
    if device.is_simulator() {
        return Ok("none on the simulator".to_string());
    }
    let context = CudaContext::new(0)?;
    let stream = context.new_stream()?;
    let beside = Device::from_cuda(context.clone(), stream.clone())?;
    let elements: Vec<f32> = (0..65 * 33).map(|i| (i % 13) as f32 - 6.0).collect();
    let (a, b) = (stream.clone_htod(&elements)?, stream.clone_htod(&elements)?);
    let mut c = stream.alloc_zeros::<f32>(65 * 65)?;
    let problem = GemmProblem::new(65, 65, 33);
    {
        let (a, b, mut c) = (
            beside.borrow_slice(&a)?,
            beside.borrow_slice(&b)?,
            beside.borrow_slice_mut(&mut c)?,
        );
        problem.on(&a, &b, &mut c)?.run()?;
    }
    let found = reference::matrix(&problem, Operand::C, &stream.clone_dtoh(&c)?);
    let expected = reference::gemm(&problem, &elements, &elements, &[0f32; 65 * 65]);
    ensure!(
        found == expected,
        "{} off",
        reference::relative_error(&found, &expected)
    );
    Ok("multiplied in its context and stream".to_string())
}

/// Products of views with any strides, packed where no kernel takes them.
pub(super) fn views(device: &Device) -> Result<String> {
    let rounds = 60;
    let packed =
        colex_proof::kernels::views::check(device, 11, rounds).map_err(anyhow::Error::msg)?;
    let [a, b, c] = packed.before;
    let after = packed.after;
    Ok(format!(
        "{rounds} cases: A packed {a} times, B {b}, C {c} before and {after} after"
    ))
}

/// Products of f32 by three products in tf32.
pub(super) fn three_products(device: &Device) -> Result<String> {
    let rounds = if is_fast(device) { 200 } else { 10 };
    let devices = std::slice::from_ref(device);
    let found = colex_proof::kernels::gemm::high_low::check(devices, 13, rounds);
    Ok(found.map_err(anyhow::Error::msg)?.to_string())
}

/// Sizes of many blocks, even and odd, on a GPU.
pub(super) fn large(device: &Device) -> Result<String> {
    if !is_fast(device) {
        return Ok("none on the simulator".to_string());
    }
    let halves = run::<half::bf16, half::bf16>(device, large_cases())?;
    let single = run::<f32, f32>(device, large_cases())?;
    let tf32 = large_cases().into_iter().map(GemmCase::tf32).collect();
    let tf32 = run::<f32, f32>(device, tf32)?;
    let double = run::<f64, f64>(device, large_cases())?;
    let bytes = run::<i8, i32>(device, large_cases())?;
    Ok(format!(
        "bf16 {halves}; f32 {single}; tf32 {tf32}; f64 {double}; i8 {bytes}"
    ))
}

fn run<T: GemmElement, C: GemmElement>(device: &Device, cases: Vec<GemmCase>) -> Result<String> {
    let outcome = |case: &GemmCase| {
        let done = case.run::<T, C>(device);
        done.map(|method| method.to_string())
            .map_err(|failure| format!("{case}: {failure}"))
    };
    tally::<T>(cases.iter().map(outcome).collect())
}
