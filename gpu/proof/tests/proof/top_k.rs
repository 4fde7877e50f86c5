//! Selections by the kernels of the library against the host.

use colex_atom::{Arch, Ty};
use colex_gpu::reduce::top_k::{TopK, TopKPlan, TopKProblem, reference, top_k};
use colex_gpu::sim::{Schedule, SimOptions};
use colex_gpu::testing::{self, Output};
use colex_gpu::{Device, Error, ViewMut};
use colex_layout::Layout;
use colex_proof::sweep::Random;

fn simulator(arch: Arch, seed: u64) -> Device {
    let options = SimOptions::default().schedule(Schedule::from_seed(seed));
    Device::simulator_with(arch, options)
}

/// How many cases the law draws for each architecture.
fn rounds() -> usize {
    let asked = std::env::var("COLEX_REDUCE");
    asked.ok().and_then(|n| n.parse().ok()).unwrap_or(30)
}

/// Types, shapes, modes, strides, alignments, equal elements, NaN and infinities, both directions, and plans, under several schedules.
#[test]
fn law_selections_are_those_of_the_host() {
    let mut elements = 0;
    for (i, arch) in [Arch::Sm80, Arch::Sm90a, Arch::Sm70]
        .into_iter()
        .enumerate()
    {
        let device = simulator(arch, i as u64);
        let found = colex_proof::kernels::top_k::check(&device, 90 + i as u64, rounds());
        elements += found.unwrap_or_else(|why| panic!("{arch}: {why}"));
    }
    println!("law top_k: {} cases, {elements} elements", 3 * rounds());
}
