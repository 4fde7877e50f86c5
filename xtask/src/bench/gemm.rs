//! Matrix products, against cuBLASLt: its own choice, and the best of those it offers.

use std::path::Path;

use anyhow::Result;
use colex_gpu::cuda::CublasLt;
use colex_gpu::kernels::GemmProblem;
use colex_gpu::{Buffer, Device, Timing};
use half::bf16;

use super::device::{Contender, Report, take_turns};

/// M, N and K.
const SHAPES: [[i64; 3]; 4] = [
    [2048, 2048, 2048],
    [4096, 4096, 4096],
    [8192, 8192, 8192],
    [4096, 14336, 4096],
];

/// Algorithms that cuBLASLt is asked for.
const CHOICES: usize = 8;

pub(super) fn run(device: &Device, json: Option<&Path>) -> Result<()> {
    let mut report = Report::new("gemm", "TFLOP/s", device);
    println!("{}", super::device::PROTOCOL);
    for shape in SHAPES {
        group(device, &mut report, shape)?;
    }
    report.write(json)
}

fn group(device: &Device, report: &mut Report, [m, n, k]: [i64; 3]) -> Result<()> {
    let problem = GemmProblem::new(m, n, k);
    let (a, b) = (normal(device, m * k)?, normal(device, n * k)?);
    let c = device.poisoned::<bf16>((m * n) as usize)?;
    let library = CublasLt::new::<bf16, bf16>(device, &problem, CHOICES)?;
    let contenders: Vec<Contender<'_>> = (0..library.choices())
        .map(|choice| {
            let (library, a, b, c) = (&library, &a, &b, &c);
            Contender::new(format!("cuBLASLt {choice}"), move |device| {
                library.run(device, choice, [a, b], c)
            })
        })
        .collect();
    let times = take_turns(device, &contenders, 15, 4)?;
    let (names, times) = with_best(&contenders, times);
    let work = 2.0 * (m * n * k) as f64 / 1e6;
    report.group(&format!("{m}x{n}x{k} of bf16"), &names, &times, work);
    Ok(())
}

/// The library's own choice and its best; then whatever else took part.
fn with_best(contenders: &[Contender<'_>], times: Vec<Timing>) -> (Vec<String>, Vec<Timing>) {
    let is_library = |name: &str| name.starts_with("cuBLASLt");
    let library = contenders.iter().filter(|c| is_library(&c.name)).count();
    let best = (0..library).min_by(|&i, &j| times[i].median().total_cmp(&times[j].median()));
    let best = best.expect("the library has a choice");
    let mut rows = vec![
        ("cuBLASLt, its choice".to_string(), times[0].clone()),
        (format!("cuBLASLt, best of {library}"), times[best].clone()),
    ];
    let others = contenders.iter().zip(&times).skip(library);
    rows.extend(others.map(|(contender, time)| (contender.name.clone(), time.clone())));
    rows.into_iter().unzip()
}

/// Normally distributed numbers: what a product is as fast on as on data.
fn normal(device: &Device, count: i64) -> Result<Buffer<bf16>> {
    let mut state = 0x2545_f491_4f6c_dd1d_u64;
    let mut uniform = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        ((state >> 11) as f64 + 0.5) / (1_u64 << 53) as f64
    };
    let block: Vec<bf16> = (0..1 << 20)
        .map(|_| {
            let radius = (-2.0 * uniform().ln()).sqrt();
            bf16::from_f64(radius * (std::f64::consts::TAU * uniform()).cos())
        })
        .collect();
    let elements: Vec<bf16> = (0..count as usize)
        .map(|i| block[(i * 7 + i / block.len()) % block.len()])
        .collect();
    Ok(device.upload(&elements)?)
}
