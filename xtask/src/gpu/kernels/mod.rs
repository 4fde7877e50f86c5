//! The kernel library on a device: every case of `colex_gpu::kernels::check`, then large ones.

mod copies;
mod products;

use anyhow::{Result, bail};
use colex_gpu::{Device, Element};

use super::check::Check;

/// The checks of the library, in order.
#[rustfmt::skip] // A list to read, not a column.
pub(super) const CHECKS: &[Check] = &[
    Check { name: "copies of u8", run: copies::every::<u8> },
    Check { name: "copies of bf16", run: copies::every::<half::bf16> },
    Check { name: "copies of f32", run: copies::every::<f32> },
    Check { name: "copies of f64", run: copies::every::<f64> },
    Check { name: "large copies", run: copies::large },
    Check { name: "products of f32", run: products::every::<f32, f32> },
    Check { name: "products of f64", run: products::every::<f64, f64> },
    Check { name: "products of f16", run: products::every::<half::f16, half::f16> },
    Check { name: "products of f16 to f32", run: products::every::<half::f16, f32> },
    Check { name: "products of bf16", run: products::every::<half::bf16, half::bf16> },
    Check { name: "products of bf16 to f32", run: products::every::<half::bf16, f32> },
    Check { name: "products of i8", run: products::every::<i8, i32> },
    Check { name: "products of i32", run: products::every::<i32, i32> },
    Check { name: "large products", run: products::large },
    Check { name: "a program's own slices", run: copies::own_slices },
];

/// Passes if no case of a list failed; says how many each kernel took.
fn tally<T: Element>(outcomes: Vec<Result<String, String>>) -> Result<String> {
    let failures: Vec<&String> = outcomes.iter().filter_map(|o| o.as_ref().err()).collect();
    if let Some(first) = failures.first() {
        bail!(
            "{} of {} cases of {} failed, the first: {first}",
            failures.len(),
            outcomes.len(),
            T::NAME
        );
    }
    let mut counts: Vec<(String, usize)> = Vec::new();
    for kernel in outcomes.iter().flatten() {
        match counts.iter_mut().find(|(name, _)| name == kernel) {
            Some((_, count)) => *count += 1,
            None => counts.push((kernel.clone(), 1)),
        }
    }
    let counts: Vec<String> = counts
        .iter()
        .map(|(name, count)| format!("{count} {name}"))
        .collect();
    Ok(format!("{} cases: {}", outcomes.len(), counts.join(", ")))
}

/// Whether large cases are worth their time: not on the simulator.
fn is_fast(device: &Device) -> bool {
    !device.is_simulator()
}
