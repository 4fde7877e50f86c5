//! Matrix products, against cuBLASLt: its own choice, and the best of those it offers.

use std::path::Path;

use anyhow::Result;
use colex_gpu::cuda::CublasLt;
use colex_gpu::kernels::GemmProblem;
use colex_gpu::kernels::gemm::{GemmCall, GemmMethod, GemmPlan, Operands};
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

/// A plan as the change it makes to the usual one of its method.
struct Variant {
    method: GemmMethod,
    numbers: Option<([i64; 3], i64, [i64; 2], i64)>,
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
            Some((tile, stages, warps, raster)) => GemmPlan {
                tile,
                stages,
                warps,
                raster,
                ..usual
            },
        }
    }

    fn name(&self) -> String {
        match self.numbers {
            None => self.method.to_string(),
            Some(([m, n, k], stages, [wm, wn], raster)) => format!(
                "{} {m}x{n}x{k}, {stages} stages, {wm}x{wn}, raster {raster}",
                self.method
            ),
        }
    }
}

/// The library's kernels against cuBLASLt.
pub(super) fn run(device: &Device, json: Option<&Path>) -> Result<()> {
    let methods = [GemmMethod::Hopper, GemmMethod::Ampere];
    let variants = methods.map(Variant::usual);
    all(device, "gemm", &SHAPES, &variants, json)
}

/// Plans against each other, and cuBLASLt.
pub(super) fn plans(device: &Device, json: Option<&Path>) -> Result<()> {
    let hopper = [
        ([128, 256, 64], 4, [2, 1], 8),
        ([128, 256, 64], 4, [2, 1], 16),
        ([128, 128, 64], 6, [2, 1], 8),
    ];
    let ampere = [
        ([128, 128, 32], 3, [2, 2], 8),
        ([128, 128, 32], 4, [2, 2], 8),
        ([128, 128, 32], 5, [2, 2], 8),
        ([128, 128, 64], 3, [2, 2], 8),
        ([128, 128, 32], 4, [2, 2], 16),
        ([128, 256, 32], 4, [2, 4], 8),
        ([128, 256, 64], 3, [2, 4], 8),
        ([256, 128, 64], 3, [4, 2], 8),
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
    let mut report = Report::new(name, "TFLOP/s", device);
    println!("{}", super::device::PROTOCOL);
    for shape in shapes {
        group(device, &mut report, *shape, variants)?;
    }
    report.write(json)
}

fn group(
    device: &Device,
    report: &mut Report,
    [m, n, k]: [i64; 3],
    variants: &[Variant],
) -> Result<()> {
    let problem = GemmProblem::new(m, n, k);
    let (a, b) = (normal(device, m * k)?, normal(device, n * k)?);
    let c = device.poisoned::<bf16>((m * n) as usize)?;
    let library = CublasLt::new::<bf16, bf16>(device, &problem, CHOICES)?;
    let calls = variants
        .iter()
        .map(|v| GemmCall::with_plan(&problem, &a, &b, &c, |operands, _| Ok(v.plan(operands))))
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
        c.fill_bytes(0xff)?;
        call.run(device)?;
        let error = difference(&c.download()?, &expected);
        let resources = call.function().resources();
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
    report.group(&format!("{m}x{n}x{k} of bf16"), &names, &times, work);
    Ok(())
}

/// The norm of the difference over the norm of what is expected.
fn difference(found: &[bf16], expected: &[bf16]) -> f64 {
    let (mut off, mut norm) = (0.0, 0.0);
    for (x, y) in found.iter().zip(expected) {
        off += (x.to_f64() - y.to_f64()).powi(2);
        norm += y.to_f64().powi(2);
    }
    (off / norm).sqrt()
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
