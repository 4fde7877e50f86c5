//! `cargo xtask bench [NAME]`: medians of many batches, with the machine and the protocol they were taken by.
//!
//! To add a group: write `bench/NAME.rs` with `fn run()`, one [`measure::call`] a row, and add it to [`GROUPS`]; one on a
//! GPU takes the device and the file for its numbers.

mod attention;
mod calls;
mod chapters;
mod copy;
mod device;
mod host;
mod layout;
mod measure;
mod memory_bound;
pub(crate) mod product;
mod serving;
mod sim;
mod start;
mod torch;
mod transpose;

use std::env;
use std::path::Path;
use std::process::{Command, ExitCode};

use anyhow::{Context, Result, bail, ensure};
use colex_gpu::{Device, Timing};
use serde_json::Value;

use crate::output;
use crate::verdict::{self, Checked, Ended};

use device::Contender;
use memory_bound::{maps, reduce, rows};
use product::{convolution, epilogue, gated, gemm, groups, kernels, ladder, processes, ranks};

use torch::Torch;

pub(crate) use product::sweep::Sweep;

/// What a group runs on.
enum Runner {
    /// This machine's processor.
    Host(fn()),
    /// A fake driver, and a GPU if there is one.
    Driver(fn() -> Result<()>),
    /// Processes that each open a GPU; the numbers go to the file, if one is given.
    Processes(fn(Option<&Path>) -> Result<()>),
    /// All GPUs in this process.
    Ranks,
    /// A GPU; the numbers go to the file, if one is given.
    Gpu(fn(&Device, Option<&Path>) -> Result<()>),
    /// A GPU; the numbers go to the file, if one is given. Only the problems that are asked for are measured, beside PyTorch if it is there.
    Chosen(fn(&Device, Option<&Path>, &mut Asked<'_>) -> Result<()>),
    /// A GPU; the numbers go to the file, and drawings of them to the folder, if they are given.
    Drawn(fn(&Device, Option<&Path>, Option<&Path>) -> Result<()>),
}

impl Runner {
    /// Whether it takes a GPU from this task.
    fn needs_gpu(&self) -> bool {
        match self {
            Runner::Host(_) | Runner::Driver(_) | Runner::Processes(_) | Runner::Ranks => false,
            Runner::Gpu(_) | Runner::Chosen(_) | Runner::Drawn(_) => true,
        }
    }
}

/// Every group of benches.
const GROUPS: &[(&str, Runner)] = &[
    ("layout", Runner::Host(layout::run)),
    ("sim", Runner::Host(sim::run)),
    ("host", Runner::Driver(calls::run)),
    ("start", Runner::Processes(start::run)),
    ("kernels", Runner::Driver(kernels::run)),
    ("chapters", Runner::Gpu(chapters::run)),
    ("copy", Runner::Gpu(copy::run)),
    ("transpose", Runner::Gpu(transpose::run)),
    ("gemm", Runner::Gpu(gemm::run)),
    ("plans", Runner::Gpu(gemm::plans)),
    ("ladder", Runner::Gpu(ladder::run)),
    ("generations", Runner::Gpu(gemm::generations)),
    ("epilogue", Runner::Gpu(epilogue::run)),
    ("swiglu", Runner::Gpu(gated::run)),
    ("groups", Runner::Gpu(groups::run)),
    ("convolution", Runner::Gpu(convolution::run)),
    ("ranks", Runner::Ranks),
    ("processes", Runner::Processes(processes::run)),
    ("attention", Runner::Drawn(attention::run)),
    ("attention-ladder", Runner::Gpu(attention::ladders)),
    ("decode", Runner::Gpu(attention::decode)),
    ("paged", Runner::Gpu(serving::paged)),
    ("varlen", Runner::Gpu(serving::varlen)),
    ("rows", Runner::Chosen(rows::run)),
    ("long-rows", Runner::Chosen(rows::long)),
    ("longest-rows", Runner::Chosen(rows::longest)),
    ("turned-rows", Runner::Chosen(rows::turned)),
    ("norms", Runner::Chosen(rows::norms)),
    ("maps", Runner::Chosen(maps::run)),
    ("quantise", Runner::Chosen(maps::quantisations)),
    ("reduce", Runner::Chosen(reduce::run)),
    ("select", Runner::Chosen(reduce::select)),
    ("scan", Runner::Chosen(reduce::scan)),
];

/// The problems that a bench measures: all, or those whose name has one of some texts.
struct Asked<'a> {
    only: &'a [String],
    /// How many of them there are so far.
    count: usize,
    /// PyTorch, beside which only the default plans are measured.
    torch: Option<Torch>,
}

impl<'a> Asked<'a> {
    fn new(only: &'a [String], torch: Option<&Path>) -> Result<Asked<'a>> {
        Ok(Asked {
            only,
            count: 0,
            torch: torch.map(Torch::start).transpose()?,
        })
    }

    /// Whether plans beside the default one are measured.
    fn has_others(&self) -> bool {
        self.torch.is_none()
    }

    /// Times of the contenders and of PyTorch's, which are added to them: see [`take_turns`](device::take_turns).
    fn take_turns<'b>(
        &'b self,
        device: &Device,
        contenders: &mut Vec<Contender<'b>>,
        case: &Value,
        [rounds, batch]: [usize; 2],
    ) -> Result<Vec<Timing>> {
        if let Some(torch) = &self.torch {
            contenders.extend(torch.contenders(case)?);
        }
        device::take_turns(device, contenders, rounds, batch)
    }

    /// Whether a problem of this name is one of them.
    fn has(&mut self, name: &str) -> bool {
        let is_one = self.only.is_empty() || self.only.iter().any(|text| name.contains(text));
        self.count += usize::from(is_one);
        is_one
    }

    /// Refuses texts that no name has.
    fn end(&self) -> Result<()> {
        ensure!(
            self.count > 0,
            "no problem has one of {:?} in its name",
            self.only
        );
        Ok(())
    }
}

/// The names of the groups, for the reader of `bench --help`.
pub(crate) fn names() -> String {
    let names: Vec<&str> = GROUPS.iter().map(|(group, _)| *group).collect();
    format!("Groups: {}", names.join(", "))
}

/// Measures the group `name`, or all of them; `file` is where a group on a GPU writes its numbers. A
/// build without optimisation hands over to one with it.
pub(crate) fn task(name: Option<&str>, file: Option<&Path>, sweep: &Sweep) -> Result<ExitCode> {
    let groups: Vec<_> = GROUPS
        .iter()
        .filter(|(group, _)| name.is_none_or(|name| name == *group))
        .collect();
    if groups.is_empty() {
        bail!(
            "there is no bench `{}`. {}",
            name.unwrap_or_default(),
            names()
        );
    }
    if let Some(folder) = sweep.export() {
        return match name {
            Some("attention") if sweep.is_random() => attention::drawn::export(folder, sweep),
            Some("attention") => attention::export(folder),
            _ => bail!("kernels are exported of the bench `attention`"),
        };
    }
    if let Some(from) = sweep.plot() {
        return match name {
            Some("gemm") => sweep.draw(from),
            Some("attention") => attention::draw(from, sweep),
            Some("ranks") => ranks::draw(from, sweep.svg()).map(|()| ExitCode::SUCCESS),
            _ => bail!("the benches `gemm`, `attention` and `ranks` are what is plotted"),
        };
    }
    if let (Some(name), Some(_), false) = (name, sweep.svg(), sweep.is_asked()) {
        let is_drawn = |(_, run): &&(&str, Runner)| matches!(run, Runner::Drawn(_) | Runner::Ranks);
        if !groups.iter().all(is_drawn) {
            bail!(
                "the bench `{name}` is not drawn: `--svg` draws `attention` and `ranks`, and `gemm` with `--shapes` or `--random`"
            );
        }
    }
    let is_chosen = |(_, run): &&(&str, Runner)| matches!(run, Runner::Chosen(_));
    let is_narrowed = !sweep.only().is_empty() || sweep.torch().is_some();
    if let (Some(name), true) = (name, is_narrowed)
        && !groups.iter().all(is_chosen)
    {
        let chosen = GROUPS.iter().filter(|group| is_chosen(group));
        let chosen: Vec<&str> = chosen.map(|(name, _)| *name).collect();
        bail!(
            "the bench `{name}` measures all of its problems, and not beside PyTorch: `--only` and `--torch` are of {}",
            chosen.join(", ")
        );
    }
    if kernels::is_child() {
        return kernels::child();
    }
    if cfg!(debug_assertions) {
        // The build takes minutes. A bench without a GPU says so before it.
        if let Some(name) = name
            && groups.iter().any(|(_, run)| run.needs_gpu())
        {
            Device::gpu(0).with_context(|| format!("the bench `{name}` needs a GPU"))?;
        }
        return optimised();
    }
    if sweep.is_asked() {
        let device = Device::gpu(0)?;
        return match name {
            Some("gemm") => sweep.run(&device, file),
            Some("epilogue") => epilogue::sweep(&device, sweep, file),
            Some("attention") if sweep.is_random() => {
                attention::measured::run(&device, sweep, file)
            }
            _ => bail!(
                "shapes are for the benches `gemm` and `epilogue`, drawn problems also for `attention`"
            ),
        };
    }
    if calls::is_child() {
        return calls::child();
    }
    if start::is_child() {
        return start::child();
    }
    if processes::is_child() {
        return processes::child();
    }
    verdict::subject(host::description());
    println!("{}", host::description());
    for (group, run) in groups {
        println!("\n{group}");
        let skipped = |why: String| {
            println!("skipped: {why}");
            Checked::new(*group, Ended::Skipped, why).add();
        };
        match run {
            Runner::Host(run) => run(),
            Runner::Driver(run) => run()?,
            Runner::Processes(run) if name.is_some() => run(file)?,
            Runner::Ranks if name.is_some() => ranks::run(sweep.ranks(), file, sweep.svg())?,
            Runner::Processes(_) | Runner::Ranks => skipped("ask for it by its name".to_string()),
            Runner::Gpu(run) => match Device::gpu(0) {
                Ok(device) => run(&device, file)?,
                Err(why) if name.is_none() => skipped(why.to_string()),
                Err(why) => bail!("the bench `{group}` needs a GPU: {why}"),
            },
            Runner::Chosen(run) => match Device::gpu(0) {
                Ok(device) => {
                    let mut asked = Asked::new(sweep.only(), sweep.torch())?;
                    run(&device, file, &mut asked)?;
                    asked.end()?;
                }
                Err(why) if name.is_none() => skipped(why.to_string()),
                Err(why) => bail!("the bench `{group}` needs a GPU: {why}"),
            },
            Runner::Drawn(run) => match Device::gpu(0) {
                Ok(device) => run(&device, file, sweep.svg())?,
                Err(why) if name.is_none() => skipped(why.to_string()),
                Err(why) => bail!("the bench `{group}` needs a GPU: {why}"),
            },
        }
    }
    Ok(ExitCode::SUCCESS)
}

/// Runs this task, with its arguments, in a release build, which leaves out the tasks that no bench needs.
fn optimised() -> Result<ExitCode> {
    let cargo = env::var_os("CARGO")
        .context("this build is not optimised, and only cargo can make one that is")?;
    let status = Command::new(cargo)
        .args([
            "run",
            "--release",
            "--package",
            "xtask",
            "--no-default-features",
            "--features",
            if cfg!(feature = "nccl") { "nccl" } else { "" },
            "--",
        ])
        .args(env::args_os().skip(1))
        .status()
        .context("cargo cannot be started")?;
    // The other process has written the verdict.
    std::process::exit(status.code().unwrap_or(i32::from(output::FAILED)))
}
