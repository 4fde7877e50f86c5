//! The time from the expression of an epilogue to the PTX of its product's kernel, on this machine's processor, and to machine code
//! that is loaded, where there is a GPU: bf16, K contiguous in A and B, N in C.
//!
//! A user's second process finds machine code that the first one has left: in the library's cache on the disk, or, of a kernel with
//! `setmaxnreg`, in the driver's. So processes of their own load the texts of the kernels, with both caches in a fresh folder.

use std::env;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use colex_atom::{Arch, Ty};
use colex_gpu::gemm::Epilogue;
use colex_gpu::kernels::gemm::{Gemm, GemmCall};
use colex_gpu::kernels::{GemmProblem, View, ViewMut};
use colex_gpu::{Buffer, Cache, Device, Element, Error, Origin};
use colex_layout::Layout;
use half::bf16;
use serde_json::{Value, json};

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
    let mut texts = Vec::new();
    for (number, name) in NAMES.into_iter().enumerate() {
        let epilogue = formula(number)?;
        let text = matrices.prepared((number, epilogue.as_ref()), |call| {
            let built = call.built().context("a product has a kernel")?;
            Ok(built.kernel.ptx()?)
        })?;
        let entry = entry(&text)?;
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
        texts.push(text);
    }
    let folder = env::temp_dir().join(format!("colex-kernels-{}", std::process::id()));
    let kept = kept(&folder, &texts, PROCESSES, own_process);
    let _ = fs::remove_dir_all(&folder);
    kept?.report();
    Ok(())
}

/// The name of the entry of a text.
fn entry(text: &str) -> Result<&str> {
    let named = text.split_once(".entry ");
    let (name, _) = named
        .and_then(|(_, rest)| rest.split_once('('))
        .context("a kernel has an entry")?;
    Ok(name.trim())
}

/// The variable that tells a process where the texts lie that it loads, and the one with the number of the text to begin with.
const TEXTS: &str = "COLEX_BENCH_KERNELS";
const FIRST: &str = "COLEX_BENCH_KERNELS_FIRST";

/// How many processes load the kernels that are kept: each kernel is the first one of as many processes as every other.
const PROCESSES: usize = 3 * NAMES.len();

/// How often a process loads each kernel after the first time.
const AGAIN: usize = 4;

/// How the numbers of kept kernels are taken.
const KEPT_PROTOCOL: &str = "medians over processes of the time from the PTX to a function on the device; the processes begin with each \
                             kernel in turn, and load one kernel after the other; both caches in a fresh folder, which one process has filled";

/// The time of a load, in milliseconds.
#[derive(Clone, Debug, PartialEq)]
struct Load {
    kernel: usize,
    /// Whether the process had loaded the kernel before.
    again: bool,
    /// From the PTX to a function on the device.
    whole: f64,
    /// What of this is the caches and the driver's load.
    taken: f64,
    from: From,
}

/// Where machine code comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum From {
    /// The library's cache on the disk.
    Library,
    /// The driver, which has a cache of its own.
    Driver,
    /// The assembler: it was in no cache.
    Assembler,
}

impl From {
    const ALL: [(From, &str); 3] = [
        (From::Library, "the library's cache"),
        (From::Driver, "the driver"),
        (From::Assembler, "assembled anew"),
    ];

    fn name(self) -> &'static str {
        let named = From::ALL.into_iter().find(|(from, _)| *from == self);
        named.map_or("", |(_, name)| name)
    }
}

impl Load {
    fn json(&self) -> Value {
        json!([
            self.kernel,
            self.again,
            self.whole,
            self.taken,
            self.from.name()
        ])
    }

    fn parse(found: &Value) -> Option<Load> {
        let name = found.get(4)?.as_str()?;
        let from = From::ALL.into_iter().find(|(_, known)| *known == name);
        Some(Load {
            kernel: found.get(0)?.as_u64()? as usize,
            again: found.get(1)?.as_bool()?,
            whole: found.get(2)?.as_f64()?,
            taken: found.get(3)?.as_f64()?,
            from: from?.0,
        })
    }
}

/// Whether this process was started to load kernels.
pub(in crate::bench) fn is_child() -> bool {
    env::var_os(TEXTS).is_some()
}

/// Loads the kernels, and prints what each load took.
pub(in crate::bench) fn child() -> Result<ExitCode> {
    let folder = env::var_os(TEXTS).context("the folder of the texts")?;
    let first: usize = env::var(FIRST)?.parse()?;
    let texts = (0..).map(|number| fs::read_to_string(text_of(Path::new(&folder), number)));
    let texts: Vec<String> = texts.map_while(Result::ok).collect();
    let device = Device::gpu(0)?;
    let mut loads = Vec::new();
    for round in 0..=AGAIN {
        for number in 0..texts.len() {
            let kernel = (first + number) % texts.len();
            let text = &texts[kernel];
            let entry = entry(text)?;
            device.clear_module_cache();
            let (whole, function) = timed(|| Ok(device.load_ptx(text, entry)?))?;
            let ms = |time: &Duration| time.as_secs_f64() * 1e3;
            let (from, taken) = match function.origin().context("a GPU loads a kernel")? {
                Origin::Disk { took } => (From::Library, ms(took)),
                Origin::Whole { took } => (From::Driver, ms(took)),
                Origin::Assembled {
                    assembled, loaded, ..
                } => (From::Assembler, ms(assembled) + ms(loaded)),
                Origin::Image { .. } => anyhow::bail!("a text is no image"),
            };
            loads.push(Load {
                kernel,
                again: round > 0,
                whole,
                taken,
                from,
            });
        }
    }
    let loads: Vec<Value> = loads.iter().map(Load::json).collect();
    println!("{}", Value::Array(loads));
    Ok(ExitCode::SUCCESS)
}

/// The file of a text.
fn text_of(folder: &Path, number: usize) -> PathBuf {
    folder.join(format!("{number}.ptx"))
}

/// This program again, for a process that loads kernels.
fn own_process() -> Result<Command> {
    let mut command = Command::new(env::current_exe()?);
    command.args(["bench", "kernels"]);
    Ok(command)
}

/// What processes that load kept kernels found.
#[derive(Debug)]
struct Kept {
    loads: Vec<Load>,
    /// The files and bytes in the folders of the library's cache and of the driver's.
    caches: [(usize, u64); 2],
}

/// Fills both caches by one process, and lets others load what is there.
fn kept(
    folder: &Path,
    texts: &[String],
    processes: usize,
    process: impl Fn() -> Result<Command>,
) -> Result<Kept> {
    let caches = ["library", "driver"].map(|name| folder.join(name));
    for cache in &caches {
        fs::create_dir_all(cache).with_context(|| format!("{} cannot be made", cache.display()))?;
    }
    for (number, text) in texts.iter().enumerate() {
        fs::write(text_of(folder, number), text)?;
    }
    let run = |first: usize| {
        let mut child = process()?;
        child
            .env(TEXTS, folder)
            .env(FIRST, first.to_string())
            .env("COLEX_CACHE", &caches[0])
            .env("CUDA_CACHE_PATH", &caches[1])
            .env("CUDA_CACHE_DISABLE", "0");
        let output = child.output()?;
        ensure!(
            output.status.success(),
            "a process that loads kernels failed: {}",
            String::from_utf8_lossy(&output.stderr).trim()
        );
        let said = String::from_utf8_lossy(&output.stdout).into_owned();
        let line = (said.lines()).find_map(|line| line.find("[[").map(|at| &line[at..]));
        let loads: Vec<Value> = serde_json::from_str(line.context("it said nothing")?)?;
        let loads: Option<Vec<Load>> = loads.iter().map(Load::parse).collect();
        loads.context("a process says something else than its loads")
    };
    run(0)?;
    let loads: Result<Vec<Vec<Load>>> = (0..processes).map(run).collect();
    let [library, driver] = caches;
    Ok(Kept {
        loads: loads?.concat(),
        caches: [held(&library)?, held(&driver)?],
    })
}

/// The number of files under a folder, and their bytes.
fn held(folder: &Path) -> Result<(usize, u64)> {
    let mut all = (0, 0);
    for file in fs::read_dir(folder)? {
        let file = file?;
        let found = file.metadata()?;
        let (files, bytes) = if found.is_dir() {
            held(&file.path())?
        } else {
            (1, found.len())
        };
        all = (all.0 + files, all.1 + bytes);
    }
    Ok(all)
}

impl Kept {
    /// The medians of a kernel's first loads, of its later ones, and of what of these the caches and the driver took.
    fn medians(&self, kernel: usize) -> Option<[f64; 3]> {
        let median = |again: bool, of: fn(&Load) -> f64| {
            let loads = self.loads.iter();
            let loads = loads.filter(|load| load.kernel == kernel && load.again == again);
            let times: Vec<f64> = loads.map(of).collect();
            (!times.is_empty()).then(|| of_all(times)[1])
        };
        Some([
            median(false, |load| load.whole)?,
            median(true, |load| load.whole)?,
            median(true, |load| load.taken)?,
        ])
    }

    /// Where the loads of a kernel came from, each with how often.
    fn from(&self, kernel: usize) -> String {
        let counted = From::ALL.map(|(from, name)| {
            let is_it = |load: &&Load| load.kernel == kernel && load.from == from;
            (self.loads.iter().filter(is_it).count(), name)
        });
        let seen = counted.iter().filter(|(count, _)| *count > 0);
        let seen: Vec<String> = seen
            .map(|(count, name)| format!("{name} {count}"))
            .collect();
        seen.join(", ")
    }

    /// The row of a kernel.
    fn row(&self, kernel: usize) -> Option<String> {
        let ([first, again, taken], plain) = (self.medians(kernel)?, self.medians(0)?);
        Some(format!(
            "  {:<30} {first:>8.3} {:>6.3} | {again:>8.3} {:>6.3} | {taken:>8.3} {:>6.3} | {}",
            NAMES[kernel],
            first / plain[0],
            again / plain[1],
            taken / plain[2],
            self.from(kernel)
        ))
    }

    /// Prints a row for each kernel.
    fn report(&self) {
        let [library, driver] = self.caches;
        println!(
            "\nmilliseconds to load machine code that is kept, each with the ratio to the plain kernel: {KEPT_PROTOCOL}; {} files of {} \
             bytes in the library's cache, {} of {} in the driver's\n  {:<30} {:>15} | {:>15} | {:>15} | from where, how often",
            library.0,
            library.1,
            driver.0,
            driver.1,
            "epilogue",
            "first of process",
            "later",
            "of that, taken"
        );
        for (kernel, name) in NAMES.into_iter().enumerate() {
            let (Some(row), Some(medians)) = (self.row(kernel), self.medians(kernel)) else {
                continue;
            };
            println!("{row}");
            let [first, again, taken] = medians;
            Checked {
                data: json!({
                    "first ms": first, "later ms": again, "caches and driver ms": taken, "from": self.from(kernel),
                }),
                ..Checked::new(format!("{name}, kept"), Ended::Passed, KEPT_PROTOCOL)
            }
            .add();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bench::calls::library;

    /// Two texts, of which one sets registers: one process fills the caches, and others load from them. The fake driver assembles
    /// everything at once, and has no cache.
    #[test]
    fn kept_kernels_come_from_where_they_are_kept() -> Result<()> {
        let name = "bench::product::kernels::tests::kept_kernels_come_from_where_they_are_kept";
        if is_child() {
            child()?;
            return Ok(());
        }
        let folder = env::temp_dir().join(format!("colex-kept-{}", std::process::id()));
        let driver = folder.join("driver-library");
        library::build(&driver, true).map_err(anyhow::Error::msg)?;
        let text = |body: &str| {
            format!(
                ".version 8.0\n.target sm_90a\n.visible .entry k(.param .u32 n)\n{{\n{body}    exit;\n}}\n"
            )
        };
        let texts = [text(""), text("    setmaxnreg.dec.sync.aligned.u32 24;\n")];
        let found = kept(&folder, &texts, 2, || {
            let mut command = Command::new(env::current_exe()?);
            command
                .args(["--exact", name, "--nocapture", "--test-threads", "1"])
                .env("LD_LIBRARY_PATH", &driver)
                .env("FAKE_CUDA", "whole")
                .env(library::CALLS, folder.join("calls"));
            Ok(command)
        });
        let removed = fs::remove_dir_all(&folder);
        let found = found?;
        removed?;
        let order: Vec<usize> = found.loads.iter().map(|load| load.kernel).collect();
        let [one, other] = [[0, 1], [1, 0]].map(|order| order.repeat(AGAIN + 1));
        assert_eq!(order, [one, other].concat());
        let each = 2 * (AGAIN + 1);
        assert_eq!(found.from(0), format!("the library's cache {each}"));
        assert_eq!(found.from(1), format!("the driver {each}"));
        let ((files, bytes), nothing) = (found.caches[0], found.caches[1]);
        assert!(files == 1 && bytes > texts[0].len() as u64, "{found:?}");
        assert_eq!(nothing, (0, 0));
        for load in &found.loads {
            assert!(load.whole >= load.taken && load.taken > 0.0, "{load:?}");
        }
        Ok(())
    }

    #[test]
    fn a_row_of_a_kept_kernel_has_its_ratios() {
        let load = |kernel, again, whole| Load {
            kernel,
            again,
            whole,
            taken: whole / 2.0,
            from: if again {
                From::Library
            } else {
                From::Assembler
            },
        };
        let found = Kept {
            loads: vec![
                load(0, false, 4.0),
                load(1, false, 6.0),
                load(0, true, 1.0),
                load(1, true, 1.5),
                load(0, true, 3.0),
                load(1, true, 2.0),
                load(0, true, 2.0),
                load(1, true, 9.0),
            ],
            caches: [(2, 100), (0, 0)],
        };
        assert_eq!(
            found.row(1).as_deref(),
            Some(
                "  bias, gelu                        6.000  1.500 |    2.000  1.000 |    1.000  1.000 | the library's cache 3, assembled anew 1"
            )
        );
        assert_eq!(found.row(2), None);
    }

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
