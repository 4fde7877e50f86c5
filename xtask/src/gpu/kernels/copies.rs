//! Copies and transposes.

use anyhow::{Result, bail};
use colex_atom::Arch;
use colex_gpu::cuda::cudarc::driver::CudaContext;
use colex_gpu::kernels::{View, ViewMut};
use colex_gpu::{Device, Element, transpose};
use colex_proof::kernels::copies::{CopyCase, bulk_cases, copy_cases};

use super::{is_fast, tally};

/// Every small case with elements of a type.
pub(super) fn every<T: Element>(device: &Device) -> Result<String> {
    let mut cases = copy_cases(T::BYTES as i64);
    if Arch::Sm90.runs_on(device.arch()) {
        cases.extend(bulk_cases(T::BYTES as i64));
    }
    run::<T>(device, cases)
}

/// A few of them.
pub(super) fn sampled<T: Element>(device: &Device) -> Result<String> {
    let cases = copy_cases(T::BYTES as i64);
    run::<T>(device, cases.into_iter().step_by(7).collect())
}

/// Sizes of many blocks, even and odd, on a GPU.
pub(super) fn large(device: &Device) -> Result<String> {
    if !is_fast(device) {
        return Ok("none on the simulator".to_string());
    }
    let square = |n: i64| CopyCase::new(((n, n), (n, 1)), ((n, n), (1, n)));
    let cases = || {
        vec![
            square(4096),
            square(4104),
            square(4097),
            CopyCase::new("100000007:1", "100000007:1"),
            CopyCase::new(
                "(256,96,128,16):(1,256,24576,3145728)",
                "(256,96,128,16):(196608,2048,16,1)",
            ),
        ]
    };
    let small = run::<half::bf16>(device, cases())?;
    let wide = run::<f32>(device, cases())?;
    Ok(format!("bf16 {small}; f32 {wide}"))
}

/// Views of a few elements through tensor maps.
pub(super) fn small_maps(device: &Device) -> Result<String> {
    if !Arch::Sm90.runs_on(device.arch()) {
        return Ok(format!("none on {}", device.arch()));
    }
    let (taken, refused) = colex_proof::kernels::maps::check(device).map_err(anyhow::Error::msg)?;
    Ok(format!(
        "{taken} views copied, {refused} refused for their strides"
    ))
}

/// A transpose of slices of `cudarc`, in a context and a stream of the program's.
pub(super) fn own_slices(device: &Device) -> Result<String> {
    if device.is_simulator() {
        return Ok("none on the simulator".to_string());
    }
    let context = CudaContext::new(0)?;
    let stream = context.new_stream()?;
    let beside = Device::from_cuda(context.clone(), stream.clone())?;
    let elements: Vec<f32> = (0..128 * 256).map(|i| i as f32).collect();
    let from = stream.clone_htod(&elements)?;
    let mut to = stream.alloc_zeros::<f32>(elements.len())?;
    {
        let (source, mut destination) = (
            beside.borrow_slice(&from)?,
            beside.borrow_slice_mut(&mut to)?,
        );
        let rows = View::new(&source, "(128,256):(256,1)")?;
        let transposed = ViewMut::new(&mut destination, "(256,128):(128,1)")?;
        transpose(&rows, &transposed, &[1, 0])?;
    }
    let found = stream.clone_dtoh(&to)?;
    let at = |i: usize| elements[i % 128 * 256 + i / 128];
    match (0..found.len()).find(|&i| found[i] != at(i)) {
        None => Ok("transposed in its context and stream".to_string()),
        Some(i) => bail!("element {i} is {} instead of {}", found[i], at(i)),
    }
}

fn run<T: Element>(device: &Device, cases: Vec<CopyCase>) -> Result<String> {
    let outcome = |case: &CopyCase| {
        let done = case.run::<T>(device);
        done.map(|method| method.to_string())
            .map_err(|failure| format!("{case}: {failure}"))
    };
    tally::<T>(cases.iter().map(outcome).collect())
}
