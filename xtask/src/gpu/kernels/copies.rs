//! Copies and transposes.

use anyhow::Result;
use colex_gpu::kernels::check::{CopyCase, copy_cases};
use colex_gpu::{Device, Element};

use super::{is_fast, tally};

/// Every small case with elements of a type.
pub(super) fn every<T: Element>(device: &Device) -> Result<String> {
    run::<T>(device, copy_cases(T::BYTES as i64))
}

/// Sizes of many blocks, even and odd, on a GPU.
pub(super) fn large(device: &Device) -> Result<String> {
    if !is_fast(device) {
        return Ok("none on the simulator".to_string());
    }
    let square =
        |n: i64| CopyCase::new(&format!("({n},{n}):({n},1)"), &format!("({n},{n}):(1,{n})"));
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

fn run<T: Element>(device: &Device, cases: Vec<CopyCase>) -> Result<String> {
    let outcome = |case: &CopyCase| {
        let done = case.run::<T>(device);
        done.map(|method| method.to_string())
            .map_err(|failure| format!("{case}: {failure}"))
    };
    tally::<T>(cases.iter().map(outcome).collect())
}
