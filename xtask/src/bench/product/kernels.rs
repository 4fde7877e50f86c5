//! The time from the expression of an epilogue to the PTX of its product's kernel, on this machine's processor, and to machine code
//! that is loaded, where there is a GPU: bf16, K contiguous in A and B, N in C.

use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use colex_atom::{Arch, Ty};
use colex_gpu::gemm::Epilogue;
use colex_gpu::kernels::gemm::{Gemm, GemmCall};
use colex_gpu::kernels::{GemmProblem, View, ViewMut};
use colex_gpu::{Buffer, Cache, Device, Element, Error, Origin};
use colex_layout::Layout;
use half::bf16;
use serde_json::json;

use crate::verdict::{Checked, Ended};

/// How the numbers are taken, for the reader of them.
const PROTOCOL: &str = "the fastest and the median of 21 runs, each with nothing kept, less the check by which only the simulator \
                        loads a kernel";

const RUNS: usize = 21;

/// How often a kernel is assembled and loaded.
const LOADS: usize = 5;

/// The extents of the product.
const SIZE: i64 = 2048;

/// The formulas, the plain product first.
const NAMES: [&str; 7] = [
    "plain",
    "bias, gelu",
    "bias, gelu by tanh",
    "bias, residual",
    "scales of rows and columns",
    "SwiGLU of two factors",
    "bias, relu, and its argument",
];

/// The formula of a name; the plain product has none.
fn formula(number: usize) -> Result<Option<Epilogue>, Error> {
    let bf16 = Ty::Bf16;
    let built = Epilogue::new(Ty::F32, |e| {
        let x = e.accumulator();
        match number {
            1 => (x + e.tensor("bias", bf16).to(Ty::F32)).gelu().to(bf16),
            2 => (x + e.tensor("bias", bf16).to(Ty::F32))
                .gelu_tanh()
                .to(bf16),
            3 => {
                let x = x + e.tensor("bias", bf16).to(Ty::F32);
                (x + e.tensor("residual", bf16).to(Ty::F32)).to(bf16)
            }
            4 => (x * e.tensor("rows", Ty::F32) * e.tensor("columns", Ty::F32)).to(bf16),
            5 => (x.silu() * e.second_accumulator()).to(bf16),
            _ => {
                let x = x + e.tensor("bias", bf16).to(Ty::F32);
                e.output("before", x.to(bf16));
                x.relu().to(bf16)
            }
        }
    });
    (number > 0).then_some(built).transpose()
}

/// The matrices of a product, and what the epilogues read and write.
struct EpilogueMemory {
    halves: [Buffer<bf16>; 4],
    bias: Buffer<bf16>,
    factors: Buffer<f32>,
    written: [Buffer<bf16>; 2],
}

impl EpilogueMemory {
    fn new(device: &Device) -> Result<EpilogueMemory, Error> {
        fn of<T: Element>(device: &Device, count: i64) -> Result<Buffer<T>, Error> {
            Ok(device.uninitialised(count as usize)?)
        }
        let whole = SIZE * SIZE;
        let [a, b, second, residual] = [(); 4].map(|()| of(device, whole));
        let [c, before] = [(); 2].map(|()| of(device, whole));
        Ok(EpilogueMemory {
            halves: [a?, b?, second?, residual?],
            bias: of(device, SIZE)?,
            factors: of(device, SIZE)?,
            written: [c?, before?],
        })
    }

    /// Prepares the product with the formula of a name, and does something with the call.
    fn prepared<T>(
        &mut self,
        (number, epilogue): (usize, Option<&Epilogue>),
        then: impl FnOnce(&GemmCall<'_>) -> Result<T>,
    ) -> Result<T> {
        let EpilogueMemory {
            halves: [a, b, second, residual],
            bias,
            factors,
            written: [c, before],
        } = self;
        let whole = Layout::new((SIZE, SIZE), (SIZE, 1))?;
        let (of_rows, of_columns) = (
            Layout::new((SIZE, SIZE), (1, 0))?,
            Layout::new((SIZE, SIZE), (0, 1))?,
        );
        let problem = GemmProblem::new(SIZE, SIZE, SIZE);
        let mut gemm: Gemm<'_, bf16, bf16> = problem.on(&*a, &*b, c)?;
        if let Some(epilogue) = epilogue {
            gemm = gemm.epilogue(epilogue);
        }
        if matches!(number, 1..=3 | 6) {
            gemm = gemm.tensor("bias", &View::new(bias, &of_columns)?);
        }
        match number {
            3 => gemm = gemm.tensor("residual", &View::new(residual, &whole)?),
            4 => {
                gemm = gemm
                    .tensor("rows", &View::new(factors, &of_rows)?)
                    .tensor("columns", &View::new(factors, &of_columns)?);
            }
            5 => gemm = gemm.b2(&View::new(second, &whole)?),
            6 => gemm = gemm.output("before", &ViewMut::new(before, &whole)?),
            _ => {}
        }
        then(&gemm.prepare()?)
    }
}

/// Milliseconds of a function, and what it returns.
fn timed<T>(act: impl FnOnce() -> Result<T>) -> Result<(f64, T)> {
    let started = Instant::now();
    let made = act()?;
    Ok((started.elapsed().as_secs_f64() * 1e3, made))
}

/// The least and the median.
fn of_all(mut times: Vec<f64>) -> [f64; 2] {
    times.sort_by(f64::total_cmp);
    [times[0], times[times.len() / 2]]
}

/// How long the kernel of a formula took from its expression to its PTX.
#[derive(Debug)]
struct Built {
    name: &'static str,
    /// Milliseconds of the whole, the fastest run and the median.
    whole: [f64; 2],
    /// The medians of the formula, of the call with its plan and kernel, and of the text with its checks.
    parts: [f64; 3],
    lines: usize,
}

impl Built {
    /// Builds the kernel of a formula as often as stated.
    fn measured(number: usize, runs: usize) -> Result<Built> {
        let (mut wholes, mut parts) = (Vec::new(), [const { Vec::new() }; 3]);
        let mut lines = 0;
        for _ in 0..runs {
            // A device of its own keeps no kernel and no choice of another run.
            let mut matrices = EpilogueMemory::new(&Device::simulator(Arch::Sm90a))?;
            let (of_formula, epilogue) = timed(|| Ok(formula(number)?))?;
            let started = Instant::now();
            let epilogue = (number, epilogue.as_ref());
            let (of_text, of_call) = matrices.prepared(epilogue, |call| {
                let of_call = started.elapsed().as_secs_f64() * 1e3;
                let built = call.built().context("a product has a kernel")?;
                let (of_text, text) = timed(|| Ok(built.kernel.ptx()?))?;
                lines = text.lines().count();
                // A GPU loads the text, which is checked once; the simulator has checked the kernel before.
                let (of_check, ()) = timed(|| Ok(built.kernel.verify()?))?;
                Ok((of_text, (of_call - of_check).max(0.0)))
            })?;
            let all = [of_formula, of_call, of_text];
            wholes.push(all.iter().sum::<f64>());
            for (part, time) in parts.iter_mut().zip(all) {
                part.push(time);
            }
        }
        Ok(Built {
            name: NAMES[number],
            whole: of_all(wholes),
            parts: parts.map(|times| of_all(times)[1]),
            lines,
        })
    }

    /// Returns its row.
    fn row(&self) -> String {
        let Built {
            name,
            whole: [fastest, median],
            parts: [formula, call, text],
            lines,
        } = self;
        format!(
            "  {name:<30} {fastest:>8.3} {median:>8.3} | {formula:.3} {call:.3} {text:.3}, {lines} lines"
        )
    }
}

pub(in crate::bench) fn run() -> Result<()> {
    println!(
        "milliseconds from the expression to the PTX of the kernel for sm_90a, {SIZE} cubed; {PROTOCOL}\n  {:<30} {:>8} {:>8} | the \
         median of its parts: the formula, the call with its plan and kernel, the text with its checks",
        "epilogue", "fastest", "median"
    );
    for (number, name) in NAMES.into_iter().enumerate() {
        let built = Built::measured(number, RUNS)?;
        println!("{}", built.row());
        let ([fastest, median], [formula, call, text]) = (built.whole, built.parts);
        Checked {
            data: json!({
                "fastest ms": fastest, "median ms": median, "formula ms": formula, "call ms": call, "text ms": text,
                "lines": built.lines,
            }),
            ..Checked::new(name, Ended::Passed, PROTOCOL)
        }
        .add();
    }
    match Device::gpu(0) {
        Ok(device) => loads(&device),
        Err(why) => {
            println!("\nassembled and loaded on a GPU: skipped: {why}");
            Checked::new("on a GPU", Ended::Skipped, why.to_string()).add();
            Ok(())
        }
    }
}

/// Prints how long each kernel takes to be assembled and loaded.
fn loads(device: &Device) -> Result<()> {
    device.set_cache(Cache::off());
    println!(
        "\nmilliseconds to assemble and to load the kernel on {} ({}): medians of {LOADS}, the driver's own cache as the environment \
         sets it (CUDA_CACHE_DISABLE=1 turns it off), and the ratio to the plain kernel",
        device.name(),
        device.arch()
    );
    let mut matrices = EpilogueMemory::new(device)?;
    let mut plain = None;
    for (number, name) in NAMES.into_iter().enumerate() {
        let epilogue = formula(number)?;
        let text = matrices.prepared((number, epilogue.as_ref()), |call| {
            let built = call.built().context("a product has a kernel")?;
            Ok(built.kernel.ptx()?)
        })?;
        let entry = text
            .split_once(".entry ")
            .and_then(|(_, rest)| rest.split_once('('))
            .context("a kernel has an entry")?
            .0
            .trim();
        let (mut assembled, mut loaded) = (Vec::new(), Vec::new());
        for _ in 0..LOADS {
            device.clear_module_cache();
            let function = device.load_ptx(&text, entry)?;
            let ms = |time: Duration| time.as_secs_f64() * 1e3;
            match function.origin().context("a GPU loads a kernel")? {
                Origin::Assembled {
                    assembled: first,
                    loaded: then,
                    ..
                } => {
                    assembled.push(ms(*first));
                    loaded.push(ms(*then));
                }
                Origin::Whole { took } => assembled.push(ms(*took)),
                Origin::Disk { .. } | Origin::Image { .. } => {
                    ensure!(false, "{name} is not assembled from its text");
                }
            }
        }
        let assembled = of_all(assembled)[1];
        let loaded = (!loaded.is_empty()).then(|| of_all(loaded)[1]);
        let whole = assembled + loaded.unwrap_or(0.0);
        let ratio = whole / *plain.get_or_insert(whole);
        let said = loaded.map_or("in one call".to_string(), |loaded| format!("{loaded:.3}"));
        println!("  {name:<30} {assembled:>8.2} {said:>12}  {ratio:.3}");
        Checked {
            data: json!({"assembled ms": assembled, "loaded ms": loaded, "over plain": ratio}),
            ..Checked::new(format!("{name}, loaded"), Ended::Passed, PROTOCOL)
        }
        .add();
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Every formula has a kernel, and one with an epilogue is longer than the plain one.
    #[test]
    fn every_formula_is_measured() -> Result<()> {
        let mut plain = None;
        for (number, name) in NAMES.into_iter().enumerate() {
            let built = Built::measured(number, 1)?;
            assert_eq!(built.name, name);
            let ([fastest, median], sum) = (built.whole, built.parts.iter().sum::<f64>());
            assert!(
                fastest == median && (sum - median).abs() < 1e-9 * sum,
                "{built:?}"
            );
            assert!(built.parts[1..].iter().all(|part| *part > 0.0), "{built:?}");
            let plain = *plain.get_or_insert(built.lines);
            assert!(
                plain > 100 && (number == 0 || built.lines > plain),
                "{built:?}"
            );
        }
        Ok(())
    }

    #[test]
    fn a_row_has_the_whole_and_its_parts() {
        let built = Built {
            name: "bias, gelu",
            whole: [4.25, 4.5],
            parts: [0.0125, 3.0, 1.4875],
            lines: 1204,
        };
        assert_eq!(
            built.row(),
            "  bias, gelu                        4.250    4.500 | 0.013 3.000 1.488, 1204 lines"
        );
    }

    #[test]
    fn the_middle_of_all_times_is_their_median() {
        assert_eq!(of_all(vec![3.0, 1.0, 2.0]), [1.0, 2.0]);
    }
}
