//! Matrix products.

use anyhow::Result;
use colex_gpu::Device;
use colex_gpu::kernels::GemmElement;
use colex_gpu::kernels::check_gemm::{GemmCase, every_case, large_cases};

use super::{is_fast, tally};

/// Every small case with operands and results of two types.
pub(super) fn every<T: GemmElement, C: GemmElement>(device: &Device) -> Result<String> {
    run::<T, C>(device, every_case::<T>(device.arch()))
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
