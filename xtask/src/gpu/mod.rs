//! `cargo xtask gpu`: what is checked and measured on a device. A release binary does it on a machine without Rust.

mod atoms;
mod check;
mod executor;
mod kernels;
mod plans;
mod shares;
mod targets;

use std::process::ExitCode;

use anyhow::{Context, Result, ensure};
use clap::Subcommand;
use colex_gpu::Device;

use crate::output;

#[cfg(feature = "repository")]
pub(crate) use atoms::{against_recorded, on_gpu as atoms_on_gpu, sampled as sampled_atoms};
pub(crate) use check::GpuReport;
pub(crate) use kernels::Cases;
#[cfg(feature = "repository")]
pub(crate) use targets::{complaints as target_complaints, lines as target_lines};

/// What to run on a device.
#[derive(Subcommand)]
pub(crate) enum GpuTask {
    /// Check the executor: memory, launches, the assembler and its cache, and what happens when a kernel fails.
    Executor,
    /// One check after which this process can use the device no more.
    #[command(hide = true)]
    Breaking {
        /// Its name.
        name: String,
    },
    /// Check the kernel library against its references.
    Kernels {
        /// On the simulator instead of a GPU.
        #[arg(long)]
        simulator: bool,
        /// A few cases of each type and kernel, those of i8, i32, f32 and bf16 first: for compute-sanitizer's racecheck.
        #[arg(long)]
        sample: bool,
        /// Only the checks whose names begin so.
        #[arg(long)]
        only: Option<String>,
    },
    /// Run drawn plans of products and copies, and compare with the reference.
    Plans(plans::PlanOptions),
    /// List the target, the version of PTX and the first driver of every kernel of the library; no GPU is needed.
    Targets {
        /// Keep the list as `xtask/targets.tsv`, with which `verify` compares.
        #[arg(long)]
        keep: bool,
    },
    /// Execute every matrix and copy instruction up to Hopper, and compare with its row's arithmetic.
    Atoms(atoms::AtomOptions),
}

impl GpuTask {
    /// Its name, as its verdict says it.
    pub(crate) fn name(&self) -> &'static str {
        match self {
            GpuTask::Executor => "gpu executor",
            GpuTask::Breaking { .. } => "gpu breaking",
            GpuTask::Kernels { .. } => "gpu kernels",
            GpuTask::Plans(_) => "gpu plans",
            GpuTask::Targets { .. } => "gpu targets",
            GpuTask::Atoms(_) => "gpu atoms",
        }
    }
}

/// Runs a task on the first GPU, and prints a line for each check.
pub(crate) fn task(task: &GpuTask) -> Result<ExitCode> {
    let report = match task {
        GpuTask::Atoms(options) => return atoms::task(options),
        GpuTask::Plans(options) => return plans::task(options),
        GpuTask::Targets { keep } => return targets::task(*keep),
        GpuTask::Executor => executor_report(|line| println!("{line}"))?,
        GpuTask::Breaking { name } => return breaking(name),
        GpuTask::Kernels {
            simulator,
            sample,
            only,
        } => {
            let device = if *simulator {
                Device::simulator(colex_atom::Arch::Sm90a)
            } else {
                device()?
            };
            let cases = if *sample { Cases::Sample } else { Cases::Every };
            let only = only.as_deref().unwrap_or_default();
            kernels_report(&device, (cases, only), |line| println!("{line}"))?
        }
    };
    println!("{report}");
    Ok(output::code(report.failures.is_empty()))
}

/// Runs a check that breaks the device; what it saw is all that it prints.
fn breaking(name: &str) -> Result<ExitCode> {
    let all = executor::BREAKING.iter().chain([&kernels::DUMPS]);
    let check = all.into_iter().find(|check| check.name == name);
    let check = check.with_context(|| format!("no check is called `{name}`"))?;
    println!("{}", (check.run)()?);
    Ok(ExitCode::SUCCESS)
}

/// The first GPU, or why there is none.
pub(crate) fn device() -> Result<Device, colex_gpu::DeviceError> {
    Device::gpu(0)
}

/// Every check of the executor; `say` gets the line of each when it is done.
pub(crate) fn executor_report(say: impl Fn(&str)) -> Result<GpuReport> {
    let device = device()?;
    let mut report = GpuReport::on(&device);
    say(&report.device);
    for check in executor::CHECKS {
        report.run(check.name, || (check.run)(&device), &say);
    }
    for check in executor::BREAKING {
        report.run(check.name, || check.apart(), &say);
    }
    Ok(report)
}

/// The checks of those cases of the kernel library whose names begin so; `say` gets the line of each when it is done.
pub(crate) fn kernels_report(
    device: &Device,
    (cases, only): (Cases, &str),
    say: impl Fn(&str),
) -> Result<GpuReport> {
    let mut report = GpuReport::on(device);
    say(&report.device);
    let mut checks = kernels::checks(cases)
        .filter(|check| check.name.starts_with(only))
        .peekable();
    ensure!(
        checks.peek().is_some(),
        "no check has a name that begins with `{only}`: there are {}",
        names(kernels::checks(cases))
    );
    for check in checks {
        report.run(check.name, || (check.run)(device), &say);
    }
    Ok(report)
}

fn names<'a>(checks: impl Iterator<Item = &'a check::Check>) -> String {
    checks
        .map(|check| check.name)
        .collect::<Vec<_>>()
        .join(", ")
}
