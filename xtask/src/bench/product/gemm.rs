//! Matrix products, against cuBLASLt: its own choice, and the best of those it offers.

use std::path::Path;

use anyhow::{Context, Result};
use colex_gpu::kernels::gemm::{GemmMethod, GemmPlan, Operands};
use colex_gpu::kernels::{Compute, GemmElement, GemmProblem, Major, Operand};
use colex_gpu::{Buffer, Device, Timing};
use colex_proof::cublaslt::Opponent;
use colex_sched::{Order, RasterOrder};
use half::{bf16, f16};

use crate::bench::device::{BenchReport, Contender, take_turns};

/// M, N and K.
const SHAPES: [[i64; 3]; 4] = [
    [2048, 2048, 2048],
    [4096, 4096, 4096],
    [8192, 8192, 8192],
    [4096, 14336, 4096],
];

/// Algorithms that cuBLASLt is asked for.
const CHOICES: usize = 8;

/// A plan as the change it makes to the usual one of its method.
struct Variant {
    method: GemmMethod,
    numbers: Option<([i64; 3], i64, [i64; 2], Order)>,
}

impl Variant {
    fn usual(method: GemmMethod) -> Variant {
        Variant {
            method,
            numbers: None,
        }
    }

    fn plan(&self, operands: Operands) -> GemmPlan {
        let usual = GemmPlan::new(self.method, operands);
        match self.numbers {
            None => usual,
            Some((tile, stages, warps, order)) => GemmPlan {
                tile,
                stages,
                warps,
                order,
                ..usual
            },
        }
    }

    fn name(&self) -> String {
        match self.numbers {
            None => self.method.to_string(),
            Some(([m, n, k], stages, [wm, wn], order)) => format!(
                "{} {m}x{n}x{k}, {stages} stages, {wm}x{wn}, {order}",
                self.method
            ),
        }
    }
}

/// The library's kernels against cuBLASLt.
pub(in crate::bench) fn run(device: &Device, json: Option<&Path>) -> Result<()> {
    let methods = [GemmMethod::Hopper, GemmMethod::Ampere];
    let variants = methods.map(Variant::usual);
    all(device, "gemm", &SHAPES, &variants, json)
}

/// Plans against each other, and cuBLASLt.
pub(in crate::bench) fn plans(device: &Device, json: Option<&Path>) -> Result<()> {
    use RasterOrder::{AlongM, AlongN};
    let along = |raster, width| Order::Grouped { width, raster };
    let hopper = [
        ([128, 256, 64], 4, [2, 1], along(AlongN, 8)),
        ([128, 256, 64], 4, [2, 1], along(AlongN, 16)),
        ([128, 128, 64], 6, [2, 1], along(AlongN, 8)),
    ];
    let ampere = [
        ([128, 128, 32], 3, [2, 2], along(AlongM, 8)),
        ([128, 128, 32], 4, [2, 2], along(AlongM, 8)),
        ([128, 128, 32], 5, [2, 2], along(AlongM, 8)),
        ([128, 128, 64], 3, [2, 2], along(AlongM, 8)),
        ([128, 128, 32], 4, [2, 2], along(AlongM, 16)),
        ([128, 256, 32], 4, [2, 4], along(AlongM, 8)),
        ([128, 256, 64], 3, [2, 4], along(AlongM, 8)),
        ([256, 128, 64], 3, [4, 2], along(AlongM, 8)),
    ];
    let of = |method| {
        move |numbers| Variant {
            method,
            numbers: Some(numbers),
        }
    };
    let variants: Vec<Variant> = (hopper.into_iter().map(of(GemmMethod::Hopper)))
        .chain(ampere.into_iter().map(of(GemmMethod::Ampere)))
        .collect();
    all(device, "plans", &SHAPES[1..3], &variants, json)
}

fn all(
    device: &Device,
    name: &str,
    shapes: &[[i64; 3]],
    variants: &[Variant],
    json: Option<&Path>,
) -> Result<()> {
    let mut report = BenchReport::new(name, "TFLOP/s", device);
    println!("{}", crate::bench::device::PROTOCOL);
    for shape in shapes {
        let problem = GemmProblem::new(shape[0], shape[1], shape[2]);
        group::<bf16, bf16>(device, &mut report, problem, variants)?;
    }
    report.write(json)
}

/// The kernels of every generation, types beyond bf16, and products that read C, of 4096 cubed.
pub(in crate::bench) fn generations(device: &Device, json: Option<&Path>) -> Result<()> {
    use GemmMethod::{Ampere, Hopper, Simt, Volta};
    let of = |methods: &[GemmMethod]| {
        methods
            .iter()
            .copied()
            .map(Variant::usual)
            .collect::<Vec<_>>()
    };
    let problem = GemmProblem::new(4096, 4096, 4096);
    let (reads, tf32) = (problem.beta(0.5), problem.compute(Compute::Tf32));
    let mut report = BenchReport::new("generations", "TFLOP/s", device);
    println!("{}", crate::bench::device::PROTOCOL);
    group::<bf16, bf16>(device, &mut report, reads, &of(&[Hopper, Ampere]))?;
    group::<bf16, f32>(device, &mut report, problem, &of(&[Hopper, Ampere]))?;
    group::<bf16, f32>(device, &mut report, reads, &of(&[Hopper, Ampere]))?;
    group::<f16, f16>(
        device,
        &mut report,
        problem,
        &of(&[Hopper, Ampere, Volta, Simt]),
    )?;
    group::<f32, f32>(device, &mut report, problem, &of(&[Simt]))?;
    group::<f32, f32>(device, &mut report, tf32, &of(&[Ampere]))?;
    let transposed = [Operand::A, Operand::B].into_iter();
    let transposed = transposed.fold(tf32, |problem, name| problem.major(name, Major::First));
    group::<f32, f32>(device, &mut report, transposed, &of(&[Hopper, Ampere]))?;
    group::<f64, f64>(device, &mut report, problem, &of(&[Ampere, Simt]))?;
    report.write(json)
}

/// The variants against the library on a problem.
fn group<T: GemmElement, C: GemmElement>(
    device: &Device,
    report: &mut BenchReport,
    problem: GemmProblem,
    variants: &[Variant],
) -> Result<()> {
    let GemmProblem { m, n, k, .. } = problem;
    let (a, b) = (normal::<T>(device, m * k)?, normal::<T>(device, n * k)?);
    let old = match problem.beta {
        0.0 => device.poisoned::<C>((m * n) as usize)?,
        _ => normal(device, m * n)?,
    };
    let c = device.poisoned::<C>((m * n) as usize)?;
    c.copy_from(&old)?;
    let library = Opponent::new::<T, C>(device, &problem, CHOICES)?;
    let mut written = c.clone();
    let gemm = problem.on(&a, &b, &mut written)?;
    let calls = variants
        .iter()
        .map(|v| gemm.prepare_with(|operands, _| Ok(v.plan(operands))))
        .collect::<Result<Vec<_>, _>>()?;
    let mut contenders: Vec<Contender<'_>> = (0..library.choices())
        .map(|choice| {
            let (library, a, b, c) = (&library, &a, &b, &c);
            Contender::new(format!("cuBLASLt {choice}"), move |device| {
                library.run(device, choice, [a, b], c)
            })
        })
        .collect();
    library.run(device, 0, [&a, &b], &c)?;
    let expected = c.download()?;
    for (variant, call) in variants.iter().zip(&calls) {
        c.copy_from(&old)?;
        call.run(device)?;
        let error = difference(&c.download()?, &expected);
        let function = call.function().context("the product has elements")?;
        let resources = function.resources();
        println!(
            "  {}: {error:.1e} off the library, {resources:?}",
            variant.name()
        );
        anyhow::ensure!(error < 1e-2, "{} is wrong: {error}", variant.name());
        contenders.push(Contender::new(variant.name(), move |device| {
            call.run(device)
        }));
    }
    let times = take_turns(device, &contenders, 15, 4)?;
    let (names, times) = with_best(&contenders, times);
    let work = 2.0 * (m * n * k) as f64 / 1e6;
    report.group(&title::<T, C>(&problem), &names, &times, work);
    Ok(())
}

/// `4096x4096x4096 of bf16`, and what differs from it.
fn title<T: GemmElement, C: GemmElement>(problem: &GemmProblem) -> String {
    let GemmProblem { m, n, k, .. } = problem;
    let mut title = format!("{m}x{n}x{k} of {}", T::NAME);
    if T::NAME != C::NAME {
        title += &format!(" to {}", C::NAME);
    }
    if let Some(compute) = problem.compute {
        title += &format!(" in {compute}");
    }
    if problem.majors[0] == Major::First {
        title += ", K slowest";
    }
    if problem.beta != 0.0 {
        title += &format!(", beta {}", problem.beta);
    }
    title
}

/// The norm of the difference over the norm of what is expected.
fn difference<C: GemmElement>(found: &[C], expected: &[C]) -> f64 {
    let (mut off, mut norm) = (0.0, 0.0);
    for (x, y) in found.iter().zip(expected) {
        off += (x.to_f64() - y.to_f64()).powi(2);
        norm += y.to_f64().powi(2);
    }
    (off / norm).sqrt()
}

/// The library's own choice and its best; then all other contenders.
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
fn normal<T: GemmElement>(device: &Device, count: i64) -> Result<Buffer<T>> {
    let mut state = 0x2545_f491_4f6c_dd1d_u64;
    let mut uniform = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        ((state >> 11) as f64 + 0.5) / (1_u64 << 53) as f64
    };
    let block: Vec<T> = (0..1 << 20)
        .map(|_| {
            let radius = (-2.0 * uniform().ln()).sqrt();
            T::from_f64(radius * (std::f64::consts::TAU * uniform()).cos())
        })
        .collect();
    let elements: Vec<T> = (0..count as usize)
        .map(|i| block[(i * 7 + i / block.len()) % block.len()])
        .collect();
    Ok(device.upload(&elements)?)
}
