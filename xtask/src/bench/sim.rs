//! The simulator: products of matrices, with all of its checks, on one core and on all.

use std::time::Instant;

use colex_gpu::kernels::{GemmElement, GemmProblem};
use colex_gpu::sim::SimOptions;
use colex_gpu::{Device, Error};
use half::bf16;

use colex_atom::Arch;

/// How the numbers are taken, for the reader of them.
const PROTOCOL: &str = "seconds of a simulation: median of 5, on one core and on all of them, with the checks of \
`SimOptions::default()`; the launch alone, without building the kernel and without copies";

const RUNS: usize = 5;

pub(super) fn run() {
    println!("{PROTOCOL}");
    for size in [128, 256, 512] {
        measure::<bf16>("sm_90a bf16", Arch::Sm90a, size, bf16::from_f32);
        measure::<bf16>("sm_80 bf16", Arch::Sm80, size, bf16::from_f32);
        measure::<f32>("sm_80 f32", Arch::Sm80, size, |x| x);
    }
}

/// Prints the row of one product of square matrices.
fn measure<T: GemmElement>(name: &str, arch: Arch, size: i64, number: impl Fn(f32) -> T) {
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let timed = |cores| seconds(arch, size, cores, &number);
    match (timed(1), timed(cores)) {
        (Ok((instructions, one)), Ok((_, all))) => println!(
            "  {name:<12} {size:>4} cubed  {instructions:>10} instructions of warps  {one:>8.4} s on 1 core  {all:>8.4} s on {cores}  \
             {:>6.2} M instructions/s on 1",
            instructions as f64 / one / 1e6
        ),
        (Err(error), _) | (_, Err(error)) => println!("  {name:<12} {size:>4} cubed  {error}"),
    }
}

/// The instructions of one launch, and the median of its times.
fn seconds<T: GemmElement>(
    arch: Arch,
    size: i64,
    cores: usize,
    number: impl Fn(f32) -> T,
) -> Result<(u64, f64), Error> {
    let device = Device::simulator_with(arch, SimOptions::default().cores(cores));
    let mut state = 1u64;
    let mut matrix = || -> Vec<T> {
        let next = |_| {
            state = state.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(1);
            number((state >> 40) as f32 / (1 << 23) as f32 - 1.0)
        };
        (0..size * size).map(next).collect()
    };
    let (a, b) = (device.upload(&matrix())?, device.upload(&matrix())?);
    let mut c = device.poisoned::<T>((size * size) as usize)?;
    let call = GemmProblem::new(size, size, size)
        .on(&a, &b, &mut c)?
        .prepare()?;
    let mut times = Vec::new();
    let mut instructions = 0;
    for _ in 0..RUNS {
        let started = Instant::now();
        let reports = call.profile(&device)?;
        times.push(started.elapsed().as_secs_f64());
        instructions = reports.iter().map(|report| report.instructions).sum();
    }
    times.sort_by(f64::total_cmp);
    Ok((instructions, times[RUNS / 2]))
}
